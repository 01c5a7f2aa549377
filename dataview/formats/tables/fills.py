"""Values that stand for missing ones, as a user gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dataview.errors import hint
from dataview.plan.values import in_durations


def fills_of(
    fill: Any, kinds: Mapping[tuple[str, ...], Any], title: str
) -> dict[tuple[str, ...], Any]:
    """Return what stands for missing values, by column, if it is a value of the column's dtype."""
    if fill is None:
        return {}
    dotted = {".".join(name): name for name in kinds}
    given = (
        fill
        if isinstance(fill, Mapping)
        else {own: fill for own, name in dotted.items() if kinds[name].has_missing}
    )
    found: dict[tuple[str, ...], Any] = {}
    for name, value in given.items():
        if name not in dotted:
            raise ValueError(f"fill= names {name!r}, {no_column(name, dotted, title)}")
        dtype = kinds[dotted[name]].dtype
        value = in_durations(value) if dtype.kind == "m" else value
        found[dotted[name]] = value
        if not _is_of(value, dtype):
            raise TypeError(
                f"fill={value!r} is no value of column {name!r} of {title}, which holds "
                f"{'texts or other objects' if dtype.hasobject else dtype}; fill={{name: value}} "
                "gives a value for some columns alone"
            )
    return found


def no_column(name: str, names: Iterable[str], title: str) -> str:
    """Say that a table has no column of a name, and which it has."""
    return f"which is no column of {title}{hint(name, list(names))}"


def _is_of(value: Any, dtype: np.dtype[Any]) -> bool:
    """Whether an array of a dtype can hold a value as it is.

    >>> [_is_of(value, np.dtype("i2")) for value in (-1, 1.5, 1 << 20, "x")]
    [True, False, False, False]
    """
    if dtype.hasobject:
        return not isinstance(value, (bool, int, float))
    try:
        found = np.array(value, dtype)
        return bool(found == value or found != found) and found.shape == ()
    except (TypeError, ValueError, OverflowError):
        return False
