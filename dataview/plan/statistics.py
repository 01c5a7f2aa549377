"""The table of statistics: what each of them is, whatever computes it.

How they are computed stands where it is done: `compute/statistics`, and `tables/groups` for groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal


@dataclass(frozen=True)
class Statistic:
    """What is known of a statistic by its name, which is that of NumPy's function."""

    name: str

    family: Literal["total", "mean", "spread", "extreme", "place", "truth", "quantile"]
    """What it is; an extreme is one of the elements, and a place says where that is."""

    of_none: int | None = None
    """What it is of no elements, which is also what one that does not count is taken for."""

    numbers: str = "biufc"
    """The kinds of numbers and of durations among which there may be some that do not count."""

    objects: str = ""
    """The kinds of objects and of texts of which it is an object or a text itself."""

    plain: str = ""
    """The name of the statistic of all elements."""

    of_present: str = ""
    """The name of the one that leaves out NaN."""

    @cached_property
    def leaves_out_nan(self) -> bool:
        return self.name == self.of_present

    @cached_property
    def adds(self) -> bool:
        """Whether it adds or multiplies, which may round at each step."""
        return self.family in ("total", "mean", "spread")

    @cached_property
    def is_average(self) -> bool:
        """Whether it is a mean, or one of distances from a mean: NaN of no elements."""
        return self.family in ("mean", "spread")

    @cached_property
    def is_extreme(self) -> bool:
        return self.family == "extreme"

    @cached_property
    def is_place(self) -> bool:
        return self.family == "place"

    @cached_property
    def is_of_order(self) -> bool:
        """Whether it needs nothing but an order, which dates have, too."""
        return self.family in ("extreme", "place")

    @cached_property
    def is_quantile(self) -> bool:
        return self.family == "quantile"

    @cached_property
    def needs_some(self) -> bool:
        """Whether it is an error to ask for it of no elements."""
        return self.family in ("extreme", "place", "quantile")


_OF_ALL = (
    Statistic("sum", "total", 0, "biufcm", "OT"),
    Statistic("prod", "total", 1, objects="O"),
    Statistic("mean", "mean", numbers="biufcm", objects="O"),
    Statistic("var", "spread", objects="O"),
    Statistic("std", "spread", objects="O"),
    Statistic("min", "extreme", objects="OT"),
    Statistic("max", "extreme", objects="OT"),
    Statistic("argmin", "place"),
    Statistic("argmax", "place"),
    Statistic("any", "truth", 0),
    Statistic("all", "truth", 1),
    Statistic("median", "quantile"),
    Statistic("quantile", "quantile"),
)


def _with_names() -> Iterator[Statistic]:
    """Yield the statistics of all elements, and behind each the one that leaves out NaN.

    NumPy has none of truth; groups of a column with gaps do.
    """
    for row in _OF_ALL:
        row = replace(row, plain=row.name, of_present=f"nan{row.name}")
        yield row
        yield replace(row, name=row.of_present)


STATISTICS = {row.name: row for row in _with_names()}
"""Every statistic by its name."""
