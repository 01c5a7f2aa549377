"""Boxes: parts of an array from a lowest to a highest position along each axis."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

Ints = tuple[int, ...]


class Box(NamedTuple):
    """The elements of an array from `low` up to `high`, along each axis."""

    low: Ints
    high: Ints

    @property
    def key(self) -> tuple[slice, ...]:
        """The key that selects the box from the array."""
        return tuple(map(slice, self.low, self.high))

    def size(self) -> int:
        """Return the number of elements."""
        return math.prod(high - low for low, high in zip(self.low, self.high, strict=True))

    def overlaps(self, other: Box) -> bool:
        """Whether two boxes have elements in common."""
        return all(map(int.__lt__, self.low, other.high)) and all(
            map(int.__lt__, other.low, self.high)
        )

    def joined(self, other: Box) -> Box:
        """Return the smallest box around two."""
        return Box(tuple(map(min, self.low, other.low)), tuple(map(max, self.high, other.high)))

    def without(self, other: Box) -> Iterator[Box]:
        """Yield boxes of all elements that the other one does not have.

        >>> [*Box((0, 0), (4, 4)).without(Box((1, 2), (9, 9)))]
        [Box(low=(0, 0), high=(1, 4)), Box(low=(1, 0), high=(4, 2))]
        """
        if not self.overlaps(other):
            yield self
            return
        low, high = list(self.low), list(self.high)
        for axis in range(len(low)):
            if low[axis] < other.low[axis]:
                yield Box(tuple(low), (*high[:axis], other.low[axis], *high[axis + 1 :]))
                low[axis] = other.low[axis]
            if high[axis] > other.high[axis]:
                yield Box((*low[:axis], other.high[axis], *low[axis + 1 :]), tuple(high))
                high[axis] = other.high[axis]


_Content = TypeVar("_Content")


class Bands(Generic[_Content]):
    """What belongs to runs along an axis; no two runs overlap."""

    def __init__(self, axis: int = 0) -> None:
        self.axis = axis
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.starts: list[int] = []
        self.stops: list[int] = []
        self.contents: list[_Content] = []

    def _within(self, box: Box) -> slice:
        first = bisect_right(self.stops, box.low[self.axis])
        return slice(first, max(first, bisect_left(self.starts, box.high[self.axis])))

    def of(self, box: Box) -> list[_Content]:
        """Return what belongs to the runs that a box overlaps."""
        return self.contents[self._within(box)]

    def put(self, box: Box, content: _Content) -> None:
        """Put one content in place of all to which a box reaches; its run becomes theirs too."""
        place = self._within(box)
        start, stop = box.low[self.axis], box.high[self.axis]
        self.starts[place] = [min([start, *self.starts[place]])]
        self.stops[place] = [max([stop, *self.stops[place]])]
        self.contents[place] = [content]


def grown(old: Box, box: Box, limits: Box) -> Box:
    """Return the box around two, grown by the size of the old one where it is larger."""
    sizes = list(map(int.__sub__, old.high, old.low))
    low = [
        b if b >= o else max(limit, min(b, o - n))
        for b, o, n, limit in zip(box.low, old.low, sizes, limits.low, strict=True)
    ]
    high = [
        b if b <= o else min(limit, max(b, o + n))
        for b, o, n, limit in zip(box.high, old.high, sizes, limits.high, strict=True)
    ]
    return old.joined(Box(tuple(low), tuple(high)))


def within(box: Box, outer: Box) -> tuple[slice, ...]:
    """Return the key that selects a box from what lies in an outer one."""
    low = tuple(map(int.__sub__, box.low, outer.low))
    return Box(low, tuple(map(int.__sub__, box.high, outer.low))).key
