"""Samplers by label: balanced over labels, in given proportions, or restricted to one label.

A row may have several labels: it is among the rows of each.  Rows without one, or whose label is
None or not a number, are never drawn.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from dataview.index import Draws, Permutation
from dataview.samplers.protocol import Data, Function, Key, Order, Sampler, Seed
from dataview.samplers.simple import (
    Chosen,
    Restrictable,
    checked_weights,
    drawn,
    order_of_rows,
    rows_with,
)
from dataview.tables import by_code, ranked

_SORTED_ROUND = 256
"""Rounds of at most so many numbers are sorted many at a time, larger ones permuted each."""


class _Groups:
    """The rows of each label: `rows` is sorted by label, those of label k from `starts[k]` on."""

    __slots__ = ("counts", "labels", "rows", "starts")

    def __init__(self, rows: np.ndarray, labels: np.ndarray, count: int) -> None:
        if not len(rows):
            raise ValueError("there are no labels to draw by: no row has one")
        self.labels, codes, self.counts = ranked(labels)
        if (rows[1:] > rows[:-1]).all():
            self.rows = rows[by_code(codes, len(self.labels))]
        else:  # a row may have a label twice, which counts once
            codes, self.rows = np.divmod(np.unique(codes * count + rows), count)
            self.counts = np.bincount(codes)
        self.starts = np.cumsum(self.counts) - self.counts


_groups_by_data: weakref.WeakKeyDictionary[Data, tuple[Any, _Groups]] = weakref.WeakKeyDictionary()


def _groups_of(data: Data, by: Any) -> _Groups:
    """Return the rows of each label, which are the same in all epochs."""
    found = _groups_by_data.get(data)
    if found is None or found[0] is not by:
        found = _groups_by_data[data] = by, _Groups(*data.labels(by), data.count)
    return found[1]


class _ByLabel(Restrictable):
    """A sampler that draws labels, then rows of these labels, without end."""

    takes: ClassVar[str] = "labels"
    reads: ClassVar[bool] = True
    endless: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.by is None:
            raise ValueError(f"{self.name} needs by=, the labels")

    def at(self, data: Data, key: Key) -> Function:
        """Return rows of labels that are drawn for each position."""
        groups = _groups_of(data, self.by)
        words = Draws(*key, "row")
        labels = self.labels(groups, key)

        def rows(positions: np.ndarray) -> np.ndarray:
            codes = labels(positions)
            chosen: np.ndarray = groups.starts[codes] + words.below(positions, groups.counts[codes])
            found: np.ndarray = groups.rows[chosen]
            return found

        return rows

    def labels(self, groups: _Groups, key: Key) -> Function:
        """Return the function from positions to numbers of labels."""
        raise NotImplementedError


class LabelUniform(_ByLabel):
    """A label, each with the same probability, then any row that has it; without end."""

    name: ClassVar[str] = "label-uniform"

    def labels(self, groups: _Groups, key: Key) -> Function:
        """Return labels that are all as likely."""
        words, count = Draws(*key, "label"), len(groups.labels)
        return lambda positions: words.below(positions, count)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LabelDistribution(_ByLabel):
    """Labels in proportion to `weights`, then any row of the label; without end.

    A label that `weights` leaves out has the weight `fill`, or is an error.
    """

    name: ClassVar[str] = "label-distribution"

    weights: Mapping[Any, float] | None = None
    fill: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.weights, Mapping):
            raise TypeError(f"{self.name} needs weights=, a mapping; got {self.weights!r}")
        checked_weights(list(self.weights.values()) or [1], list(self.weights))
        if self.fill is not None:
            checked_weights([self.fill, 1], ["fill="])
        object.__setattr__(self, "weights", dict(self.weights))

    def labels(self, groups: _Groups, key: Key) -> Function:
        """Return labels in proportion to their weights."""
        given = dict(self.weights or {})
        weights = [given.pop(label, self.fill) for label in groups.labels.tolist()]
        for label, weight in zip(groups.labels.tolist(), weights, strict=True):
            if weight is None:
                raise ValueError(
                    f"the label {label!r} has no weight; add it to weights=, or give fill= for "
                    "the labels that have none"
                )
        for label, weight in given.items():
            if weight and self.label is None:
                raise ValueError(f"weights= has the label {label!r}, which no row has")
        return drawn(Draws(*key, "label"), checked_weights(weights, groups.labels.tolist()))


class LabelPermutation(_ByLabel):
    """Every label once in each round of draws, and the rows of each label in turn; without end.

    A row comes again only after all other rows of its label, which then come in a new order.
    """

    name: ClassVar[str] = "label-permutation"

    def at(self, data: Data, key: Key) -> Function:
        """Return rows in rounds over the labels."""
        groups = _groups_of(data, self.by)
        number = len(groups.labels)

        def rows(positions: np.ndarray) -> np.ndarray:
            rounds, places = np.divmod(positions, number)
            codes = dealt((*key, "label"), rounds, places, number)
            found = np.empty(positions.shape, np.intp)
            for code in np.unique(codes).tolist():
                here = codes == code
                times, turns = np.divmod(rounds[here], groups.counts[code])
                within = dealt((*key, "row", code), times, turns, int(groups.counts[code]))
                found[here] = groups.rows[groups.starts[code] + within]
            return found

        return rows


def dealt(key: Key, rounds: np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
    """Return the number at each place of each round; each round permutes the numbers below `count`.

    >>> places = np.tile(np.arange(3), 4)
    >>> dealt((0,), np.repeat(np.arange(4), 3), places, 3).reshape(4, 3).sum(axis=1)
    array([3, 3, 3, 3])
    """
    if count == 1:
        return np.zeros(places.shape, np.intp)
    distinct, which = np.unique(rounds, return_inverse=True)
    which = which.reshape(rounds.shape)
    if count <= _SORTED_ROUND:
        words = Draws(*key)(distinct[:, None] * count + np.arange(count))
        numbers: np.ndarray = words.argsort(axis=1)[which, places]
        return numbers
    found = np.empty(places.shape, np.intp)
    for number, this in enumerate(distinct.tolist()):
        here = which == number
        found[here] = Permutation(count, *key, this)(places[here])
    return found


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Restricted(Sampler):
    """Any sampler, for the rows of one label only."""

    name: ClassVar[str] = "restricted"

    sampler: Sampler
    by: Any
    label: Any

    def __post_init__(self) -> None:
        if not isinstance(self.sampler, Sampler):
            raise TypeError(
                "restricted takes a sampler, such as samplers.weighted(by=...), and the labels; "
                f"got {self.sampler!r}"
            )

    @property
    def sized(self) -> bool:
        """Whether the sampler takes the batch size into account."""
        return self.sampler.sized

    @property
    def by_parts(self) -> bool:
        """Whether the order depends on the parts in which rows are stored."""
        return self.sampler.by_parts

    def order(self, data: Data, seed: Seed = 0, epoch: int = 0) -> Order:
        """Return the order of one epoch."""
        rows = rows_with(data, self.by, self.label)
        return order_of_rows(rows, self.sampler.order(Chosen(data, rows), seed, epoch))

    def fitted(self, batch_size: int | None, tail: str) -> Sampler:
        """Return the sampler for batches of this size."""
        return dataclasses.replace(self, sampler=self.sampler.fitted(batch_size, tail))
