"""Samplers that put rows of similar length into one batch, and so decide where batches end."""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_right
from typing import Any, ClassVar

import numpy as np

from dataview.index import Permutation
from dataview.plan.node import Part
from dataview.samplers.given import Ends
from dataview.samplers.labelled import dealt
from dataview.samplers.protocol import Data, Key, Order, Sampler, Seed, asked_of, checked_number
from dataview.samplers.simple import Sized, Slices


def _checked_lengths(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "biuf":
        raise TypeError(
            f"lengths are numbers; got {values.dtype}; those of texts or ragged rows are "
            "by=d.name._lengths()"
        )
    wrong = np.flatnonzero(~(values >= 0))
    if len(wrong):
        raise ValueError(f"row {wrong[0]} has the length {values[wrong[0]]}; give lengths from 0")
    return values


class _Lengths(Part):
    """The lengths of the rows, read when they are first needed; none is more than a budget."""

    __slots__ = ("budget", "by", "data", "known")

    def __init__(self, data: Data, by: Any, budget: float = math.inf) -> None:
        data.expect(by)
        self.data = data
        self.by = by
        self.budget = budget
        self.known: np.ndarray | None = None

    def held(self) -> list[Any]:
        """Return what the data were asked for."""
        return asked_of(self.data)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Lengths, (self.data, self.by, self.budget)

    def array(self) -> np.ndarray:
        """Return the length of each row."""
        if self.known is None:
            found = _checked_lengths(self.data.values(self.by))
            self._check_budget(found)
            self.known = found
        return self.known

    def _check_budget(self, lengths: np.ndarray) -> None:
        over = np.flatnonzero(lengths > self.budget)
        if len(over):
            raise ValueError(
                f"row {over[0]} has the length {lengths[over[0]]}, more than the budget of "
                f"{self.budget}; give a larger one, or leave out the {len(over)} such rows"
            )


class _Windows(Part):
    """Rows in windows: permuted, cut into windows, each sorted by length and cut into batches.

    The windows come in random order, and so do the batches of each.  A window follows from
    its number alone, so that planning one window is enough to find any position.
    """

    __slots__ = ("_firsts", "_plan", "cutter", "key", "lengths", "order", "slices")
    parts = ("lengths",)
    reads: ClassVar[bool] = True

    def __init__(
        self, lengths: _Lengths, window: int, key: Key, cutter: Bucket | TokenBudget
    ) -> None:
        self.lengths = lengths
        self.key = key
        self.cutter = cutter
        self.order = Permutation(lengths.data.count, *key, "rows")
        self.slices = Slices(lengths.data.count, window, (*key, "windows"))
        self._plan: tuple[int, np.ndarray, np.ndarray] | None = None
        self._firsts: np.ndarray | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _Windows, (self.lengths, self.slices.size, self.key, self.cutter)

    def __eq__(self, other: object) -> bool:
        """Whether the other cuts at the same positions, for the same reasons."""
        if not isinstance(other, _Windows) or type(other.cutter) is not type(self.cutter):
            return False
        ours, theirs = ((one.key, one.slices.size, one.cutter.options) for one in (self, other))
        if ours != theirs or self.lengths.data.count != other.lengths.data.count:
            return False
        same = self.lengths is other.lengths or self.cutter.blind
        return same or np.array_equal(self.lengths.array(), other.lengths.array())

    __hash__ = None  # type: ignore[assignment]

    def plan(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of a window in their order, and where its batches end."""
        known = self._plan  # one tuple, so that threads do not disturb each other
        if known is None or known[0] != place:
            known = (place, *self._planned(place))
            self._plan = known
        return known[1:]

    def _planned(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        start, stop = self.slices.bounds(place)
        number = int(self.slices.order(np.array([place]))[0])
        first = number * self.slices.size
        rows = self.order.block(first, first + stop - start)
        lengths = self.lengths.array()
        rows = rows[np.argsort(lengths[rows], kind="stable")]
        ends = self.cutter.ends(lengths[rows])
        batches = np.split(rows, ends[:-1])
        order = self._order_of_batches(number, len(ends)).tolist()
        return (
            np.concatenate([batches[batch] for batch in order]),
            np.cumsum([len(batches[batch]) for batch in order]),
        )

    def _order_of_batches(self, number: int, count: int) -> np.ndarray:
        places = np.arange(count)
        return dealt((*self.key, "batches", number), places * 0, places, count)

    def ends(self, place: int) -> np.ndarray:
        """Return where the batches of a window end; no lengths are read if they need none."""
        known = self._plan
        if not self.cutter.blind or (known is not None and known[0] == place):
            return self.plan(place)[1]
        start, stop = self.slices.bounds(place)
        sizes = np.diff(self.cutter.ends(np.empty(stop - start)), prepend=0)
        number = int(self.slices.order(np.array([place]))[0])
        return np.cumsum(sizes[self._order_of_batches(number, len(sizes))])

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Return the rows at these positions."""
        places, within = self.slices.located(positions)
        found = np.empty(positions.shape, np.intp)
        for place in np.unique(places).tolist():
            here = places == place
            found[here] = self.plan(place)[0][within[here]]
        return found

    @property
    def firsts(self) -> np.ndarray:
        """The number of the first batch of each window, and the number of all; counted once."""
        if self._firsts is None:
            counts = [self.cutter.batches(self, place) for place in range(self.slices.count)]
            self._firsts = np.cumsum([0, *counts])
        return self._firsts

    @property
    def is_counted(self) -> bool:
        """Whether the number of batches is known without the lengths."""
        return self.cutter.blind or self._firsts is not None

    @property
    def count(self) -> int:
        """The number of batches."""
        return int(self.firsts[-1])

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the first position of a batch, and the one past its last."""
        place = int(np.searchsorted(self.firsts, number, side="right")) - 1
        batch = number - int(self.firsts[place])
        first, _ = self.slices.bounds(place)
        ends = self.ends(place)
        return first + (int(ends[batch - 1]) if batch else 0), first + int(ends[batch])

    def number(self, position: int) -> int:
        """Return the number of the batch that has a position."""
        place = self.slices.number(position)
        within = position - self.slices.bounds(place)[0]
        batch = np.searchsorted(self.ends(place), within, side="right")
        return int(self.firsts[place] + batch)


class _Alike(Part):
    """Rows in batches of one length each, planned when a row or a cut is first needed."""

    __slots__ = ("_plan", "key", "lengths", "size")
    parts = ("lengths",)
    reads: ClassVar[bool] = True

    def __init__(self, lengths: _Lengths, size: int, key: Key) -> None:
        self.lengths = lengths
        self.size = size
        self.key = key
        self._plan: tuple[np.ndarray, Ends] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _Alike, (self.lengths, self.size, self.key)

    def __eq__(self, other: object) -> bool:
        """Whether the other cuts at the same positions."""
        return isinstance(other, _Alike) and self.plan[1] == other.plan[1]

    __hash__ = None  # type: ignore[assignment]

    @property
    def plan(self) -> tuple[np.ndarray, Ends]:
        """The rows in their order, and where the batches end."""
        if self._plan is None:  # two threads may both make it: they make the same
            self._plan = self._planned()
        return self._plan

    def _planned(self) -> tuple[np.ndarray, Ends]:
        lengths, count = self.lengths.array(), self.lengths.data.count
        rows = Permutation(count, *self.key, "rows").block(0, count)
        rows = rows[np.argsort(lengths[rows], kind="stable")]
        changes = np.flatnonzero(np.diff(lengths[rows])) + 1
        batches = [
            group[start : start + self.size]
            for group in np.split(rows, changes)
            for start in range(0, len(group), self.size)
        ]
        order = Permutation(len(batches), *self.key, "batches").block(0, len(batches)).tolist()
        batches = [batches[batch] for batch in order]
        ends = np.cumsum([len(batch) for batch in batches], dtype=np.intp)
        return np.concatenate([rows[:0], *batches]), Ends(ends)

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Return the rows at these positions."""
        found: np.ndarray = self.plan[0][positions]
        return found

    @property
    def is_counted(self) -> bool:
        """Whether the number of batches is known without the lengths."""
        return self._plan is not None

    @property
    def count(self) -> int:
        """The number of batches."""
        return self.plan[1].count

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the first position of a batch, and the one past its last."""
        return self.plan[1].bounds(number)

    def number(self, position: int) -> int:
        """Return the number of the batch that has a position."""
        return self.plan[1].number(position)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Bucket(Sized):
    """Batches of rows of similar length, in random order; every row once.

    Rows are permuted, cut into windows of `window` batches, each window sorted by length and cut
    into batches.  One batch may be short, and may come anywhere.
    """

    name: ClassVar[str] = "bucket"
    takes: ClassVar[str] = "lengths"
    blind: ClassVar[bool] = True  # whether batches end at the same positions whatever the lengths

    by: Any = None
    window: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_number("window", self.window, 1)
        if isinstance(self.by, (list, tuple, np.ndarray)):
            _checked_lengths(np.asarray(self.by))

    def order(self, data: Data, seed: Seed = 0, epoch: int = 0) -> Order:
        """Return the order of one epoch; the lengths are read when its first row is needed."""
        lengths = _Lengths(data, self.by)
        plan = _Windows(lengths, self.window * self.size, self.key(seed, epoch), self)
        return Order(plan, data.count, plan)

    def ends(self, lengths: np.ndarray) -> np.ndarray:
        """Return where the batches end in rows sorted by length."""
        return np.append(np.arange(self.size, len(lengths), self.size), len(lengths))

    def batches(self, windows: _Windows, place: int) -> int:
        """Return the number of batches of a window."""
        start, stop = windows.slices.bounds(place)
        return -(-(stop - start) // self.size)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TokenBudget(Sampler):
    """As many rows of similar length in a batch as a budget allows; every row once.

    A batch costs its number of rows times its greatest length, as padded data do; with
    `padded=False`, the sum of its lengths.  Rows are permuted, cut into windows of `window` rows,
    each window sorted by length and cut by the budget.
    """

    name: ClassVar[str] = "token-budget"
    takes: ClassVar[str] = "lengths"
    blind: ClassVar[bool] = False

    by: Any = None
    budget: float = 4096
    window: int = 4096
    padded: bool = True

    def __post_init__(self) -> None:
        checked_number("window", self.window, 1)
        if not self.budget > 0:
            raise ValueError(f"budget= is more than 0; got {self.budget}")

    def order(self, data: Data, seed: Seed = 0, epoch: int = 0) -> Order:
        """Return the order of one epoch; the lengths are read when a row or a cut is needed."""
        lengths = _Lengths(data, self.by, self.budget)
        plan = _Windows(lengths, self.window, self.key(seed, epoch), self)
        return Order(plan, data.count, plan)

    def ends(self, lengths: np.ndarray) -> np.ndarray:
        """Return where the batches end in rows sorted by length."""
        sizes: list[float] = lengths.tolist()
        sums: list[float] = [0, *np.cumsum(lengths, dtype=np.float64).tolist()]
        found = [0]
        while found[-1] < len(sizes):
            start = found[-1]

            def cost(end: int, start: int = start) -> float:
                if self.padded:
                    return (end - start) * sizes[end - 1]
                return sums[end] - sums[start]

            choices = range(start + 1, len(sizes) + 1)
            found.append(start + max(1, bisect_right(choices, self.budget, key=cost)))
        return np.array(found[1:])

    def batches(self, windows: _Windows, place: int) -> int:
        """Return the number of batches of a window."""
        return len(windows.plan(place)[1])


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SameLength(Sized):
    """Batches whose rows all have the same length, in random order; every row once.

    One batch of each length may be short.
    """

    name: ClassVar[str] = "same-length"
    takes: ClassVar[str] = "lengths"

    by: Any = None

    def order(self, data: Data, seed: Seed = 0, epoch: int = 0) -> Order:
        """Return the order of one epoch; the lengths are read when a row or a cut is needed."""
        plan = _Alike(_Lengths(data, self.by), self.size, self.key(seed, epoch))
        return Order(plan, data.count, plan)
