"""Samplers over data stored in parts, which visit one part at a time, and mixtures of parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dataview.errors import StreamError
from dataview.index import Permutation
from dataview.samplers.labelled import dealt
from dataview.samplers.protocol import Data, Function, Key, Sampler, Seed
from dataview.samplers.simple import checked_weights, same
from dataview.samples import Stream, visited


class PartLinear(Sampler):
    """The parts one after the other, and the rows of each first to last."""

    name: ClassVar[str] = "part-linear"
    reads: ClassVar[bool] = False

    @property
    def in_order(self) -> bool:
        """Whether the rows stay as they are stored: they do."""
        return True

    def at(self, data: Data, key: Key) -> Function:
        """Return each position as it is: the parts stand one after the other."""
        _tell(data, None)
        return same


class _ByParts(Sampler):
    """A sampler whose order depends on the parts in which rows are stored."""

    @property
    def by_parts(self) -> bool:
        """Whether the order depends on the parts: it does."""
        return True


class PartLinearPermutation(_ByParts):
    """The parts one after the other, and the rows of each in random order."""

    name: ClassVar[str] = "part-linear-permutation"
    reads: ClassVar[bool] = False

    def at(self, data: Data, key: Key) -> Function:
        """Return the rows part by part."""
        _tell(data, None)
        return _by_parts(data, Visits(key))


class PartPermutationPermutation(_ByParts):
    """The parts in random order, and the rows of each in random order."""

    name: ClassVar[str] = "part-permutation-permutation"
    reads: ClassVar[bool] = False

    def at(self, data: Data, key: Key) -> Function:
        """Return the rows part by part."""
        visits = Visits(key, permutes_parts=True)
        order = visits.parts(len(data.parts))
        _tell(data, order[np.asarray(data.parts)[order] > 0])
        return _by_parts(data, visits)


class Visits(NamedTuple):
    """In which order parts are visited, and the rows of each, which are permuted."""

    key: Key
    permutes_parts: bool = False

    def parts(self, count: int) -> np.ndarray:
        """Return the numbers of so many parts in their order."""
        if not self.permutes_parts:
            return np.arange(count)
        return Permutation(count, *self.key, "parts").block(0, count)

    def rows(self, part: int, count: int) -> Permutation:
        """Return the order of the rows of a part that has so many."""
        return Permutation(count, *self.key, "rows", part)


def _tell(data: Data, order: np.ndarray | None) -> None:
    """Tell data that are loaded part by part which parts will be read, so that the next is ready.

    What stands for them in another process does not load any.
    """
    if hasattr(data, "visits"):
        data.visits(order)


def _by_parts(data: Data, visits: Visits) -> Function:
    """Return the function to the rows of the parts in this order, each part permuted."""
    order = visits.parts(len(data.parts))
    lengths = np.asarray(data.parts, np.intp)
    firsts = np.cumsum(lengths) - lengths
    reached = np.cumsum(lengths[order])

    def rows(positions: np.ndarray) -> np.ndarray:
        numbers = np.searchsorted(reached, positions, side="right")
        found = np.empty(positions.shape, np.intp)
        for number in np.flatnonzero(np.bincount(numbers.ravel())).tolist():
            part, here = int(order[number]), numbers == number
            length = int(lengths[part])
            within = positions[here] - (reached[number] - length)
            found[here] = firsts[part] + visits.rows(part, length)(within)
        return found

    return rows


def stream_by(node: Stream, sampler: Sampler, seed: Seed, epoch: int) -> Stream:
    """Return a stream in the order of a sampler, or raise if it cannot have that order.

    Of parts that are not counted it is the one that they would have if they were.
    """
    if sampler.in_order:
        return node
    if isinstance(sampler, (PartLinearPermutation, PartPermutationPermutation)):
        is_both = isinstance(sampler, PartPermutationPermutation)
        found = visited(node, Visits(sampler.key(seed, epoch), is_both))
        if found is not None:
            return found
    raise StreamError(
        "a stream comes in its own order: it takes no sampler=, but for the samplers of parts, if "
        "it has all rows of a folder of parts, one by one; shuffle it by _shuffled(seed, pool=...) "
        "or a loader's pool=; dv.open(folder, layout='parts', manifest=True) counts the rows of "
        "parts, of which samplers then choose"
    )


# --- mixtures --------------------------------------------------------------------------------

_PERIOD = 2**16
_STOPS = ("first", "all", "never")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Mix(_ByParts):
    """Rows of several parts, in exact proportion to weights, evenly spread.

    The parts are those of a joined view, `dv.concat(a, b)`.  An epoch ends when one part is used up
    (`stop="first"`), when all parts are (`"all"`; parts that are used up earlier begin again), or
    never.  Without weights the parts are mixed in proportion to their lengths.
    Proportions are exact to 1 in 65536.
    """

    name: ClassVar[str] = "mix"

    weights: Sequence[float] | None = None
    stop: str = "first"
    permute: bool = True

    def __post_init__(self) -> None:
        if self.stop not in _STOPS:
            raise ValueError(f"stop= is one of {', '.join(_STOPS)}; got {self.stop!r}")
        if self.weights is not None:
            checked_weights(list(self.weights))
            object.__setattr__(self, "weights", tuple(self.weights))

    def length(self, data: Data) -> int | None:
        """Return where the stop rule ends the epoch."""
        if not data.count:
            return 0
        if self.stop == "never":
            return None
        lengths = np.asarray(data.parts)
        schedule = self._schedule(data)
        ends = [schedule.position(part, lengths[part] - 1) + 1 for part in schedule.parts]
        return int(min(ends) if self.stop == "first" else max(ends))

    def at(self, data: Data, key: Key) -> Function:
        """Return the rows of the parts, by the schedule."""
        lengths = np.asarray(data.parts, np.intp)
        firsts = np.cumsum(lengths) - lengths
        schedule = self._schedule(data)

        def rows(positions: np.ndarray) -> np.ndarray:
            parts, draws = schedule(positions)
            found = np.empty(positions.shape, np.intp)
            for part in np.unique(parts).tolist():
                here = parts == part
                rounds, within = np.divmod(draws[here], lengths[part])
                if self.permute:
                    within = dealt((*key, part), rounds, within, int(lengths[part]))
                found[here] = firsts[part] + within
            return found

        return rows

    def _schedule(self, data: Data) -> _Schedule:
        lengths = np.asarray(data.parts)
        if self.weights is None:
            return _Schedule(lengths)
        weights = checked_weights(list(self.weights))
        if len(weights) != len(lengths):
            raise ValueError(
                f"there are {len(weights)} weights, and {len(lengths)} parts; a view has the parts "
                "that dv.concat has joined"
            )
        empty = np.flatnonzero((lengths == 0) & (weights > 0))
        if len(empty):
            raise ValueError(f"part {empty[0]} has no rows to draw; leave it out, or weigh it 0")
        return _Schedule(weights)


class _Schedule:
    """Which part comes at each position, as a period in which each part has its share of draws."""

    __slots__ = ("part", "parts", "period", "rank", "shares", "times")

    def __init__(self, weights: np.ndarray) -> None:
        self.shares = _shares(weights)
        self.period = int(self.shares.sum())
        self.parts = np.flatnonzero(self.shares).tolist()
        part = np.repeat(np.arange(len(weights)), self.shares)
        rank = np.arange(self.period) - np.repeat(np.cumsum(self.shares) - self.shares, self.shares)
        order = np.argsort((rank + 0.5) / self.shares[part], kind="stable")
        self.part, self.rank = part[order], rank[order]
        self.times = np.argsort(part[order], kind="stable")

    def __call__(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the part at each position, and how often it came before."""
        periods, times = np.divmod(positions, self.period)
        parts = self.part[times]
        return parts, periods * self.shares[parts] + self.rank[times]

    def position(self, part: int, draw: int) -> int:
        """Return the position at which a part comes after so many times."""
        periods, rank = divmod(int(draw), int(self.shares[part]))
        first = int(self.shares[:part].sum())
        return periods * self.period + int(self.times[first + rank])


def _shares(weights: Any) -> np.ndarray:
    """Return whole shares of a period: small ones where the weights are, or by largest remainder.

    >>> _shares(np.array([6, 2])), int(_shares(np.array([1.0, 2.0, 0.1])).sum())
    (array([3, 1]), 65536)
    """
    if (weights == np.floor(weights)).all():
        whole = weights.astype(np.int64) // np.gcd.reduce(weights.astype(np.int64))
        if whole.sum() <= _PERIOD:
            found: np.ndarray = whole
            return found
    exact = weights / weights.sum() * _PERIOD
    shares: np.ndarray = np.floor(exact).astype(np.int64)
    left = int(_PERIOD - shares.sum())
    shares[np.argsort(shares - exact, kind="stable")[:left]] += 1
    lost = np.flatnonzero((weights > 0) & (shares == 0))
    if len(lost):
        raise ValueError(f"part {lost[0]} has less than 1 in {_PERIOD} of the weight")
    return shares
