"""Which slabs of a store an index needs: boxes, and what of them is wanted.

A store takes slices with a positive step, and perhaps one ascending list of positions.  Any index
is turned into a few such keys: places near each other are read together, each chunk once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dataview.index import gather
from dataview.index.algebra import (
    Affine,
    Array,
    Constant,
    Index,
    Map,
    axes_of,
    block_index,
    boxed,
    compose,
    shares_axes,
)

SLAB_BYTES = 1 << 20
"""Chunks that lie side by side are asked for together, up to this size.

Each larger slab would get memory that was not used before, which takes as long as to read it.
"""

FEW_TIMES = 2
"""A list is as quick as slices of whole chunks that have fewer wanted positions each than this."""


def slab_of(index: Index) -> list[slice] | None:
    """Return the slices of an index that is nothing but them, with step 1; else None.

    >>> from dataview.index import identity, parse
    >>> slab_of(parse((slice(2, 5), 1), (9, 9))), slab_of(parse([1, 3], (9,)))
    ([slice(2, 5, None), slice(1, 2, None)], None)
    """
    found: list[slice] = []
    axis = 0
    for map_ in index.maps:
        if type(map_) is Constant:
            found.append(slice(map_.offset, map_.offset + 1))
        elif type(map_) is Affine and map_.strides == ((axis, 1),):
            found.append(slice(map_.offset, map_.offset + index.shape[axis]))
            axis += 1
        else:
            return None
    return found if axis == len(index.shape) else None


class Part(NamedTuple):
    """A part of a view: where it lies there, the box of what it needs, its index within the box."""

    where: tuple[Any, ...]
    box: Index
    within: Index


def parts(index: Index, times: int, spare: int = 0) -> Iterator[Part]:
    """Cut an index until the box of each part has at most `times` the elements that it needs.

    A box of at most `spare` elements is not cut, nor are places that are scattered over one axis
    alone.  Cuts are along the first axis, so that of repeated places the last one comes last.  With
    `times` 1 and nothing to spare, a box has no other places than those of the view.
    """
    waiting = [((0,) * len(index.shape), index)]
    while waiting:
        start, part = waiting.pop()
        box, within = boxed(part, len(part.maps))
        used = sorted({axis for map_ in part.maps for axis in axes_of(map_)})
        if math.prod(box.shape) <= spare or _is_dense(part, box, within, used, times):
            where = (slice(at, at + n) for at, n in zip(start, part.shape, strict=True))
            yield Part((*where, ...), box, within)
            continue
        axis = next(axis for axis in used if part.shape[axis] > 1)
        middle = part.shape[axis] // 2
        for low, high in [(middle, part.shape[axis]), (0, middle)]:  # the last is taken first
            begin = (*start[:axis], start[axis] + low, *start[axis + 1 :])
            waiting.append((begin, compose(part, block_index(part.shape, low, high, axis))))


def _is_dense(part: Index, box: Index, within: Index, used: Sequence[int], times: int) -> bool:
    """Whether a box has at most `times` as many elements as a part needs."""
    if not any(shares_axes(part, number) for number in range(len(part.maps))):
        return True
    if math.prod(box.shape) > times * math.prod(part.shape[axis] for axis in used):
        return False
    if times > 1:
        return True
    covered = np.zeros(box.shape, bool)
    gather.assign(covered, within, np.array(True))
    return bool(covered.all())


def even_steps(map_: Map, shape: Sequence[int]) -> tuple[int, int]:
    """Return how far apart positions lie evenly, 1 if they do not, and how many there are.

    >>> even_steps(Affine(9, ((0, -3),)), (4,)), even_steps(Array(np.array([1, 6]), (0,)), (2,))
    ((3, 4), (5, 2))
    """
    axes = axes_of(map_)
    count = math.prod(shape[axis] for axis in axes)
    if len(axes) != 1 or count < 2:
        return 1, count
    if isinstance(map_, Affine):
        return max(1, abs(map_.strides[0][1])), count
    steps = np.diff(map_.values) if isinstance(map_, Array) else np.zeros(1)
    return max(1, abs(int(steps[0]))) if (steps == steps[0]).all() else 1, count


def near_steps(gap: int, chunks: Chunks | None, axis: int, map_: Map) -> int:
    """Return how far apart places may be of which those between are read, for a gap that may be.

    Of the chunks that are read, at most about every other one has none of the places.
    """
    if chunks is None:
        return gap
    length = chunks.lengths[axis]
    if isinstance(map_, Array) and map_.values.ndim == 1 and map_.values.size:
        met = map_.values // length
        if int(met.max() - met.min()) < 2 * (1 + np.count_nonzero(np.diff(met))):
            return gap
    return min(gap, length // 2)


class Piece(NamedTuple):
    """A part of an axis: its places in the box, the key for it, what of the answer is wanted."""

    places: slice
    asked: slice | np.ndarray
    wanted: slice | np.ndarray = slice(None)


class Chunks(NamedTuple):
    """How far the chunks of a store reach along each axis, and the bytes of an element.

    `by_list` says that the store itself reads each chunk once for a list of positions, and
    `are_replaced` that it writes all of a chunk to change any of it.
    """

    lengths: tuple[int, ...]
    itemsize: int
    by_list: bool = False
    are_replaced: bool = False


def slabs(
    box: Index,
    times: int,
    takes_a_list: bool,
    room: int = 0,
    chunks: Chunks | None = None,
    near: int = 0,
) -> list[list[Piece]]:
    """Return the pieces in which each axis of a box is asked for.

    Only one axis can have a list; others are read over all their span, if that has room enough, and
    so are positions between which at most `near` elements lie on average.
    Many positions in the same `chunks` are picked from slices of these, and so are all along a
    further axis: a piece for each run would read the chunks again.
    """
    axes, elements = _pieces_near(box, times, room, chunks, near)
    longest = max(range(len(axes)), key=lambda axis: len(axes[axis]), default=0)
    for axis, map_ in enumerate(box.maps):
        if not isinstance(map_, Array) or len(axes[axis]) == 1:
            continue
        numbers = map_.values
        low, high = int(numbers[0]), int(numbers[-1]) + 1
        whole: Sequence[Piece] = axes[axis]
        if chunks is not None:
            step = elements // len(numbers) * chunks.itemsize * chunks.lengths[axis]
            whole = _whole_chunks(numbers, chunks.lengths[axis], max(1, SLAB_BYTES // step))
            if not chunks.by_list and len(axes[axis]) <= len(whole):
                continue
            if not chunks.by_list and len(whole) * FEW_TIMES <= len(numbers):
                axes[axis] = whole
                continue
        if axis == longest and takes_a_list:
            axes[axis] = [Piece(slice(None), numbers)]
        elif elements * (high - low) <= room * len(numbers):
            elements = elements * (high - low) // len(numbers)
            axes[axis] = [Piece(slice(None), slice(low, high), numbers - low)]
        elif len(whole) < len(axes[axis]):
            axes[axis] = whole
    return [list(pieces) for pieces in axes]


def _pieces_near(
    box: Index, times: int, room: int, chunks: Chunks | None, near: int
) -> tuple[list[Sequence[Piece]], int]:
    """Return the pieces of each axis, those near each other in one, and how much is read."""
    axes: list[Sequence[Piece]] = []
    elements, inner = math.prod(box.shape), 1
    for axis, map_ in reversed([*enumerate(box.maps)]):
        gap = near_steps(near // inner, chunks, axis, map_)
        most = room if chunks is None else min(room, SLAB_BYTES // chunks.itemsize)
        even, uneven = (max(times, min(gap, limit // elements)) for limit in (room, most))
        pieces = _pieces(map_, box.shape, even, uneven)
        read = length_of(pieces[0].asked) if len(pieces) == 1 else box.shape[axis]
        elements = elements // box.shape[axis] * read
        inner *= read
        axes.append(pieces)
    return axes[::-1], elements


class _Runs(Sequence[Piece]):
    """The pieces of runs, of which there may be thousands: made when all other ways are worse."""

    def __init__(self, numbers: np.ndarray, steps: np.ndarray) -> None:
        self.numbers = numbers
        self.cuts = [0, *(np.flatnonzero(steps > 1) + 1).tolist(), len(numbers)]

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def __getitem__(self, number: Any) -> Any:
        start, stop = self.cuts[number], self.cuts[number + 1]
        low, high = int(self.numbers[start]), int(self.numbers[stop - 1]) + 1
        return Piece(slice(start, stop), slice(low, high))


def _whole_chunks(numbers: np.ndarray, length: int, most: int) -> list[Piece]:
    """Return slices that reach over at most so many chunks each, between which no chunk is needed.

    >>> _whole_chunks(np.array([1, 3, 12, 55]), 10, 4)[0]
    Piece(places=slice(0, 3, None), asked=slice(1, 13, None), wanted=array([ 0,  2, 11]))
    """
    chunk = numbers // length
    new = (np.diff(chunk) > 1) | (np.diff(chunk // most) > 0)
    cuts = [0, *(np.flatnonzero(new) + 1).tolist(), len(numbers)]
    return [
        Piece(
            slice(a, b), slice(int(numbers[a]), int(numbers[b - 1]) + 1), numbers[a:b] - numbers[a]
        )
        for a, b in pairwise(cuts)
    ]


def _pieces(map_: Map, shape: tuple[int, ...], even: int, uneven: int) -> Sequence[Piece]:
    """Return the slices in which one axis of a box is asked for.

    So many times as much is read at most: of positions in even steps, and of others.
    """
    if isinstance(map_, Constant):
        return [Piece(slice(None), slice(map_.offset, map_.offset + 1))]
    if isinstance(map_, Affine):
        ((axis, stride),) = map_.strides
        last = map_.offset + stride * (shape[axis] - 1)
        low, high = min(map_.offset, last), max(map_.offset, last)
        return [_stepped(low, high, abs(stride) if low < high else 1, stride < 0, even)]
    assert isinstance(map_, Array)
    numbers = map_.values
    low, high, steps = int(numbers[0]), int(numbers[-1]), np.diff(numbers)
    if (steps == (steps[0] if len(steps) else 1)).all():
        return [_stepped(low, high, int(steps[0]) if len(steps) else 1, False, even)]
    if high - low < uneven * len(numbers):
        return [Piece(slice(None), slice(low, high + 1), numbers - low)]
    return _Runs(numbers, steps)


def _stepped(low: int, high: int, step: int, turned: bool, times: int) -> Piece:
    """Return the piece of positions from low to high, in steps, from the last one if turned."""
    if step > times:
        return Piece(
            slice(None), slice(low, high + 1, step), slice(None, None, -1 if turned else 1)
        )
    return Piece(slice(None), slice(low, high + 1), slice(None, None, -step if turned else step))


def picked(found: np.ndarray, slab: Sequence[Piece]) -> np.ndarray:
    """Return what is wanted of an answer."""
    for axis, piece in enumerate(slab):
        if isinstance(piece.wanted, np.ndarray) or piece.wanted.step not in (None, 1):
            found = found[(slice(None),) * axis + (piece.wanted,)]
    return found


def is_picked(piece: Piece) -> bool:
    """Whether a piece is asked for with more than is wanted of it."""
    return isinstance(piece.wanted, np.ndarray)


def placed(found: np.ndarray, slab: Sequence[Piece], value: np.ndarray) -> np.ndarray:
    """Return an answer in which what is wanted of it has another value."""
    wanted = [
        np.arange(length)[piece.wanted] for length, piece in zip(found.shape, slab, strict=True)
    ]
    found = np.array(found)
    found[np.ix_(*wanted)] = value
    return found


def length_of(asked: slice | np.ndarray) -> int:
    """Return how many positions a key of one axis selects."""
    if isinstance(asked, slice):
        return len(range(asked.start, asked.stop, asked.step or 1))
    return len(asked)
