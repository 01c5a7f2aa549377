"""Whether two indexes into one array can meet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dataview.index.algebra import (
    Affine,
    Array,
    Constant,
    Index,
    Map,
    axes_of,
    extent,
    positions,
)

MOST_POSITIONS = 1 << 20
"""Of more positions than this, only the range is looked at."""


def are_apart(ours: Index, theirs: Index) -> bool:
    """Whether two indexes certainly select no element in common.

    >>> from dataview.index.keys import parse
    >>> are_apart(parse(slice(0, 4, 2), (5,)), parse(slice(1, 5, 2), (5,)))
    True
    >>> are_apart(parse(slice(0, 3), (5,)), parse(slice(2, 5), (5,)))
    False
    >>> are_apart(parse(([0, 1], [0, 1]), (2, 2)), parse(([0, 1], [1, 0]), (2, 2)))
    True
    """
    if 0 in ours.shape or 0 in theirs.shape:
        return True
    pairs = zip(ours.maps, theirs.maps, strict=True)
    if any(_maps_apart(a, ours.shape, b, theirs.shape) for a, b in pairs if a != b):
        return True
    is_grid = not any(_goes_askew(index) for index in (ours, theirs))
    return not is_grid and _elements_apart(ours, theirs)


def _goes_askew(index: Index) -> bool:
    """Whether several axes vary together, so that a place on each is not always an element."""
    used = [axis for map_ in index.maps for axis in axes_of(map_) if index.shape[axis] > 1]
    return len(used) > len(set(used))


def _elements_apart(ours: Index, theirs: Index) -> bool:
    """Whether no element is in both, by the numbers of all of them if they are not too many."""
    sides = ours, theirs
    if max(math.prod(index.shape) for index in sides) > MOST_POSITIONS:
        return False
    ends = [[extent(map_, index.shape) for map_ in index.maps] for index in sides]
    lengths = [1 + max(end[1] for end in both if end) for both in zip(*ends, strict=True)]
    if math.prod(lengths) > np.iinfo(np.intp).max:
        return False
    return not np.isin(_numbers(ours, lengths), _numbers(theirs, lengths)).any()


def _numbers(index: Index, lengths: Sequence[int]) -> np.ndarray:
    """Return the numbers of all elements in an array of these lengths, in no order."""
    found = np.zeros((1,) * len(index.shape), np.intp)
    for map_, length in zip(index.maps, lengths, strict=True):
        found = found * length + positions(map_, index.shape)
    return found


def _maps_apart(ours: Map, shape: Sequence[int], theirs: Map, other: Sequence[int]) -> bool:
    mine, its = extent(ours, shape), extent(theirs, other)
    if mine is None or its is None or mine[1] < its[0] or its[1] < mine[0]:
        return True
    first, second = _progression(ours, mine), _progression(theirs, its)
    if first is not None and second is not None:
        return not _meet(first, second)
    if max(_count(ours, shape), _count(theirs, other)) > MOST_POSITIONS:
        return False
    return not np.isin(positions(ours, shape), positions(theirs, other)).any()


class _Progression(NamedTuple):
    """Positions from `start` to `stop`, both among them, in equal steps."""

    start: int
    stop: int
    step: int


def _progression(map_: Map, extent: tuple[int, int]) -> _Progression | None:
    """Return a progression that has all positions of a map, None for positions in an array."""
    if isinstance(map_, Constant):
        return _Progression(*extent, 1)
    if isinstance(map_, Affine):
        return _Progression(*extent, math.gcd(*(stride for _, stride in map_.strides)) or 1)
    return None


def _meet(ours: _Progression, theirs: _Progression) -> bool:
    """Whether two progressions have a position in common."""
    common = math.gcd(ours.step, theirs.step)
    apart = theirs.start - ours.start
    if apart % common:
        return False
    # The positions in both lie `whole` apart; one of them is `first`.
    whole = ours.step * theirs.step // common
    turns = apart // common * pow(ours.step // common, -1, theirs.step // common)
    first = ours.start + turns * ours.step
    low = max(ours.start, theirs.start)
    return low + (first - low) % whole <= min(ours.stop, theirs.stop)


def _count(map_: Map, shape: Sequence[int]) -> int:
    if isinstance(map_, Array):
        return map_.values.size
    return math.prod(shape[axis] for axis in axes_of(map_))
