"""Places that are scattered over several axes at once, such as those of a mask, chunk by chunk."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from dataview.index.algebra import (
    Array,
    Index,
    axes_of,
    extent,
    positions,
    renamed,
    shares_axes,
    shifted,
)


class Group(NamedTuple):
    """Some of the points: their numbers, and where they are."""

    numbers: np.ndarray
    where: Index

    def slab(self) -> tuple[list[slice], Index]:
        """Return the slices around all places, and where the points are within them."""
        ends = [extent(map_, self.where.shape) or (0, -1) for map_ in self.where.maps]
        within = [
            shifted(map_, start) for map_, (start, _) in zip(self.where.maps, ends, strict=True)
        ]
        return [slice(start, last + 1) for start, last in ends], Index(self.where.shape, within)


def span(index: Index) -> int:
    """Return how many elements there are from the first to the last place along each axis.

    >>> from dataview.index import parse
    >>> span(parse(np.s_[[3, 0], [1, 2]], (5, 6)))
    8
    """
    ends = (extent(map_, index.shape) or (0, -1) for map_ in index.maps)
    return math.prod(last + 1 - first for first, last in ends)


class Points:
    """An index of which several axes vary together, with these as one axis, before the others.

    `numbers` are the positions along those axes of the source that vary together.
    """

    def __init__(self, index: Index, together: Sequence[int]) -> None:
        self.index = index
        self.axes = together
        self.others = [axis for axis in range(len(index.shape)) if axis not in together]
        lengths = [index.shape[axis] for axis in together]
        self.shape = (math.prod(lengths), *(index.shape[axis] for axis in self.others))
        place = {axis: number for number, axis in enumerate(together)}
        self.numbers = {
            number: np.broadcast_to(positions(renamed(map_, place), lengths), lengths).reshape(-1)
            for number, map_ in enumerate(index.maps)
            if not place.keys().isdisjoint(axes_of(map_))
        }

    @classmethod
    def of(cls, index: Index) -> Self | None:
        """Return an index as points; None if no axes of the source vary together.

        >>> from dataview.index import parse
        >>> Points.of(parse(np.s_[[3, 0], :, [1, 2]], (5, 6, 7))).shape, Points.of(parse(2, (5,)))
        ((2, 6), None)
        """
        shared = (map_ for number, map_ in enumerate(index.maps) if shares_axes(index, number))
        together = sorted({axis for map_ in shared for axis in axes_of(map_)})
        return cls(index, together) if together else None

    def of_array(self, array: np.ndarray) -> np.ndarray:
        """Return an array of the shape of the index with the axes of the points as one, first."""
        return array.transpose([*self.axes, *self.others]).reshape(self.shape)

    def as_array(self, found: np.ndarray) -> np.ndarray:
        """Return an array of points with the axes of the index."""
        order = [*self.axes, *self.others]
        lengths = [self.index.shape[axis] for axis in order]
        return found.reshape(lengths).transpose(np.argsort(order))

    def groups(self, lengths: Sequence[int]) -> Iterator[Group]:
        """Yield the points by the chunks that they lie in, each of these lengths.

        Points of one chunk are in their order, so that of repeated ones the last comes last.
        """
        chunk = np.zeros(self.shape[0], np.intp)
        for axis, numbers in self.numbers.items():
            along = numbers // lengths[axis]
            chunk = chunk * (int(along.max(initial=0)) + 1) + along
        order = np.argsort(chunk, kind="stable")
        ends = np.flatnonzero(np.diff(chunk[order])) + 1
        place = {axis: number + 1 for number, axis in enumerate(self.others)}
        others = {
            axis: renamed(map_, place)
            for axis, map_ in enumerate(self.index.maps)
            if axis not in self.numbers
        }
        for start, stop in pairwise([0, *ends.tolist(), len(order)]):
            numbers = order[start:stop]
            shape = (len(numbers), *self.shape[1:])
            maps = [
                others[axis] if axis in others else Array(self.numbers[axis][numbers], (0,))
                for axis in range(len(self.index.maps))
            ]
            yield Group(numbers, Index(shape, maps))
