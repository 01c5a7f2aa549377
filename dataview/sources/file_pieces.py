"""Where the elements of a view lie in a file: an index cut into pieces of rows near each other."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dataview.index import (
    Affine,
    Array,
    Constant,
    Index,
    Map,
    axes_of,
    block_index,
    compose,
    extent,
    positions,
    renumbered,
    shares_axes,
    shifted,
)
from dataview.index.sizes import sizes
from dataview.index.slabs import slab_of

MOST_NUMBERS = 1 << 19
"""The most rows by number that are put in order at once, so that their numbers take little."""

GAP = 1 << 13
"""Reading on over so many bytes takes as long as another call."""

SHORT = 1 << 18
"""Rows of so many bytes in all are read as they lie, before it is found out how many are needed."""

WIDE = 4
"""Windows of which few pages are loaded may be so much larger."""

FEW = 32
"""So few rows are written faster by their positions than through several windows."""

FAR = 1 << 18
"""Rows whose needed part is longer than this are read one by one if little of it is needed."""


class Block(NamedTuple):
    """An array in C order in a file, or a member of its records."""

    place: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    members: tuple[str, ...] = ()

    @property
    def row_bytes(self) -> int:
        """The bytes of a position of the first axis."""
        return self.dtype.itemsize * math.prod(self.shape[1:])

    def row(self, number: int) -> Block:
        """Return the array at a position of the first axis."""
        return self._replace(place=self.place + number * self.row_bytes, shape=self.shape[1:])

    def member_of(self, records: np.ndarray) -> np.ndarray:
        """Return the member of an array of records."""
        for name in self.members:
            records = records[name]
        return records


class Band(NamedTuple):
    """The part of each row of a block that an index needs: one run of bytes in every row."""

    block: Block
    place: int
    shape: tuple[int, ...]

    @property
    def pitch(self) -> int:
        """The bytes from one row to the next."""
        return self.block.row_bytes

    @property
    def width(self) -> int:
        """The bytes of the part of a row."""
        return self.block.dtype.itemsize * math.prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """The bytes of a step along each axis, as in the file."""
        inner = [math.prod(self.shape[axis:]) for axis in range(1, len(self.shape) + 1)]
        return (self.pitch, *(self.block.dtype.itemsize * size for size in inner))


@dataclass(slots=True, eq=False, repr=False)
class Piece:
    """What is transferred together: the elements of `array` that `where` selects, or all of them.

    `index` selects the same elements of the band, whose rows are `numbers`, or all between the ends
    of a range.
    """

    band: Band
    index: Index
    numbers: np.ndarray | range
    array: np.ndarray
    where: Index | None = None

    @property
    def ends(self) -> tuple[int, int]:
        """The first row and the last one."""
        if isinstance(self.numbers, range):
            return self.numbers[0], self.numbers[-1]
        return int(self.numbers.min()), int(self.numbers.max())

    def within(self, rows: Map) -> Index:
        """Return the index with other positions for the rows."""
        return Index(self.index.shape, (rows, *self.index.maps[1:]))


def run_of(place: int, shape: tuple[int, ...], itemsize: int, index: Index) -> int | None:
    """Return where the run of bytes begins that an index selects, None if it is not one.

    The array begins at a place in a file, and is in C order.

    >>> rows = Index((2, 3), (Affine(5, ((0, 1),)), Affine(0, ((1, 1),))))
    >>> run_of(100, (9, 3), 4, rows)
    160
    """
    slab = None if 0 in index.shape else slab_of(index)
    if slab is None:
        return None
    is_whole, step = True, itemsize
    for part, length in zip(reversed(slab), reversed(shape), strict=True):
        count = part.stop - part.start
        if count > 1 and not is_whole:
            return None
        is_whole &= count == length
        place += part.start * step
        step *= length
    return place


def steps_of(block: Block, index: Index) -> tuple[int, int]:
    """Return the view axis whose steps lie farthest apart, and the bytes of a step.

    These are the bytes of pages, and of positions in any order those of the elements: their pages
    are transferred piece by piece.
    """
    outer, found = 1, (0, block.dtype.itemsize)
    for number, map_ in enumerate(index.maps[: len(block.shape)]):
        if isinstance(map_, Constant) or 0 in index.shape:
            continue
        if isinstance(map_, Affine):
            axis, stride = max(map_.strides, key=lambda pair: abs(pair[1]))
            inside = Block(0, block.shape[number:], block.dtype)
            band, _ = band_of(inside, Index(index.shape, index.maps[number:]))
            touched = min(inside.row_bytes * abs(stride), band.width + mmap.PAGESIZE)
            found = axis, outer * touched
        else:
            found = _loose_step(block, index)
        if found[1] <= sizes.file_bytes:
            break
        outer *= index.shape[axis] if isinstance(map_, Affine) else _count(index, axes_of(map_))
    return found


def _loose_step(block: Block, index: Index) -> tuple[int, int]:
    """Return the first axis of positions in any order, and the bytes of the elements of a step.

    Blocks of another one would change in which order places are written that come repeatedly.
    """
    loose = _loose_axes(index)
    axis = next((axis for axis in loose if index.shape[axis] > 1), loose[0])
    return axis, block.dtype.itemsize * math.prod(index.shape) // index.shape[axis]


def pieces(block: Block, index: Index, array: np.ndarray, exact: bool) -> Iterator[Piece]:
    """Cut an index, and the array that goes with it, into pieces.

    They are in the order of the view where they have places in common, if this is to be `exact`.
    """
    if 0 in index.shape:
        return
    near = None if exact else rows_near(block, index)
    if near is not None:
        yield Piece(Band(block, block.place, block.shape[1:]), index, near, array)
        return
    first = index.maps[0]
    if not isinstance(first, Constant) and all(index.shape[axis] == 1 for axis in axes_of(first)):
        first = Constant(int(positions(first, index.shape).item()))
        index = Index(index.shape, (first, *index.maps[1:]))
    if math.prod(index.shape) > MOST_NUMBERS:
        loose = _loose_axes(index)
        if _count(index, loose) > MOST_NUMBERS:
            yield from _in_turn(block, index, array, exact, loose, MOST_NUMBERS)
            return
    nested = len(block.shape) > 1
    if isinstance(first, Constant) and nested:
        inner = Index(index.shape, index.maps[1:])
        yield from pieces(block.row(first.offset), inner, array, exact)
        return
    band, inside = band_of(block, index)
    if is_dense(band, index):
        yield from _slabs(block, index, array)
        return
    over = _sorted_axes(index, exact)
    if _count(index, over) > MOST_NUMBERS:
        yield from _in_turn(block, index, array, exact, over, MOST_NUMBERS)
    elif nested and set(axes_of(index.maps[1])).issubset(axes_of(first)):
        yield from pieces(*_merged(block, index), array, exact)
    elif nested and _is_far(band, index, over):
        both = tuple({*over, *axes_of(index.maps[1])})
        if _count(index, both) <= MOST_NUMBERS:
            yield from pieces(*_merged(block, index), array, exact)
        else:
            yield from _in_turn(block, index, array, exact, over, 1)
    else:
        yield from _scattered(band, inside, array, over, exact)


def rows_near(block: Block, index: Index) -> range | None:
    """Return the rows among which an index selects, if these are few enough to read them all."""
    first, size = index.maps[0], block.row_bytes
    ends = extent(first, index.shape) if type(first) is Affine and size <= GAP else None
    if ends is None or 0 in index.shape:
        return None
    low, high = ends
    span = (high - low + 1) * size
    return range(low, high + 1) if span <= SHORT and span <= _most_bytes() else None


def whole_rows(block: Block, index: Index) -> tuple[range | np.ndarray, Index] | None:
    """Return the rows to be read whole, and the index into these; None if they are not few.

    Where they are anywhere, they are short: to read a part of one takes as long.
    """
    first, rest = index.maps[0], index.maps[1:]
    near = rows_near(block, index)
    if near is not None:
        return near, Index(index.shape, (shifted(first, near.start), *rest))
    axes, size = sorted(axes_of(first)), block.row_bytes
    lengths = [index.shape[axis] for axis in axes]
    if 0 in index.shape or size > GAP or math.prod(lengths) * size > _most_bytes():
        return None
    if isinstance(first, Constant):
        return range(first.offset, first.offset + 1), Index(index.shape, (Constant(0), *rest))
    steps = [math.prod(lengths[place + 1 :]) for place in range(len(axes))]
    within = Index(index.shape, (Affine(0, tuple(zip(axes, steps, strict=True))), *rest))
    return positions(first, index.shape).reshape(-1), within


def line_of(index: Index, number: int = 0) -> tuple[int, int] | None:
    """Return the view axis and the stride of a map that meets each position once, or None."""
    map_ = index.maps[number]
    if isinstance(map_, Affine) and len(map_.strides) == 1 and not shares_axes(index, number):
        return map_.strides[0]
    return None


def _loose_axes(index: Index) -> tuple[int, ...]:
    """Return the view axes along which positions may come in any order, and repeatedly."""
    maps = enumerate(index.maps)
    return tuple(
        sorted({axis for n, map_ in maps if line_of(index, n) is None for axis in axes_of(map_)})
    )


def _sorted_axes(index: Index, exact: bool) -> tuple[int, ...]:
    """Return the view axes over which the rows are put in order."""
    own = axes_of(index.maps[0])
    return own if not exact or line_of(index) else tuple(sorted({*own, *_loose_axes(index)}))


def _count(index: Index, axes: tuple[int, ...]) -> int:
    return math.prod(index.shape[axis] for axis in axes)


def _in_turn(
    block: Block,
    index: Index,
    array: np.ndarray,
    exact: bool,
    axes: tuple[int, ...],
    most: int,
) -> Iterator[Piece]:
    """Cut along the first of these axes, so that fewer positions of all of them are together."""
    axis = next(axis for axis in axes if index.shape[axis] > 1)
    length = index.shape[axis]
    step = max(1, most * length // _count(index, axes))
    for start in range(0, length, step):
        stop = min(start + step, length)
        part = compose(index, block_index(index.shape, start, stop, axis))
        yield from pieces(block, part, _part(array, axis, start, stop), exact)


def _part(array: np.ndarray, axis: int, start: int, stop: int) -> np.ndarray:
    return array[(slice(None),) * axis + (slice(start, stop),)]


def is_dense(band: Band, index: Index) -> bool:
    """Whether reading all rows from the first to the last one reads little that is not needed."""
    nested = len(band.block.shape) > 1
    if isinstance(index.maps[0], Constant):
        return not nested
    line = line_of(index)
    if line is None or (nested and band.pitch > _most_bytes()):
        return False
    axis, stride = line
    elements = math.prod(index.shape) // index.shape[axis]
    needed = min(band.width, elements * mmap.PAGESIZE)
    return band.pitch * abs(stride) <= max(4 * needed, 2 * mmap.PAGESIZE)


def _is_far(band: Band, index: Index, over: tuple[int, ...]) -> bool:
    """Whether the needed part of a row is too long to be read whole."""
    needed = math.prod(index.shape) // _count(index, over) * band.block.dtype.itemsize
    return band.width > _most_bytes() or (band.width > FAR and band.width > 4 * needed)


def _most_bytes() -> int:
    """Return the most bytes of rows that are held at once."""
    return max(1, sizes.file_bytes // 2)


def _slabs(block: Block, index: Index, array: np.ndarray) -> Iterator[Piece]:
    """Return runs of whole rows, of which an index needs most."""
    band = Band(block, block.place, block.shape[1:])
    axis, stride = line_of(index) or (0, 0)
    length = index.shape[axis] if stride else 1
    step = max(1, _most_bytes() // max(1, block.row_bytes * abs(stride)))
    if step >= length:
        low, high = extent(index.maps[0], index.shape) or (0, 0)
        yield Piece(band, index, range(low, high + 1), array)
        return
    for start in range(0, length, step):
        where = block_index(index.shape, start, min(start + step, length), axis)
        part = compose(index, where)
        low, high = extent(part.maps[0], part.shape) or (0, 0)
        yield Piece(band, part, range(low, high + 1), array, where)


def _merged(block: Block, index: Index) -> tuple[Block, Index]:
    """Return the block and the index with the first two axes made one."""
    first, second, *rest = index.maps
    length = block.shape[1]
    axes = tuple(sorted({*axes_of(first), *axes_of(second)}))
    own = renumbered(Index(index.shape, (first, second)), axes)
    rows, inner = (positions(map_, own.shape) for map_ in own.maps)
    numbers = np.broadcast_to(rows * length + inner, own.shape)
    merged = Array(numbers, axes) if axes else Constant(int(numbers))
    shape = (block.shape[0] * length, *block.shape[2:])
    return block._replace(shape=shape), Index(index.shape, (merged, *rest))


def band_of(block: Block, index: Index) -> tuple[Band, Index]:
    """Return the part of each row that an index needs, and the index into these parts."""
    if block.row_bytes <= GAP:
        return Band(block, block.place, block.shape[1:]), index
    place, size = block.place, block.row_bytes
    shape, maps = list(block.shape[1:]), list(index.maps)
    for number, length in enumerate(block.shape[1:], 1):
        size //= length
        low, high = extent(maps[number], index.shape) or (0, 0)
        place += low * size
        shape[number - 1] = high - low + 1
        maps[number] = shifted(maps[number], low)
        if high > low:
            break
    band = Band(block, place, tuple(shape))
    if band.pitch - band.width <= GAP:
        return Band(block, block.place, block.shape[1:]), index
    return band, Index(index.shape, maps)


def _scattered(
    band: Band, index: Index, array: np.ndarray, over: tuple[int, ...], exact: bool
) -> Iterator[Piece]:
    """Return rows by number, those together that lie near each other."""
    spread = tuple(length if axis in over else 1 for axis, length in enumerate(index.shape))
    found = positions(index.maps[0], index.shape)
    found = found if found.shape == spread else np.broadcast_to(found, spread)
    numbers, flat = found.reshape([index.shape[axis] for axis in over]), found.reshape(-1)
    rows: Map = Array(numbers, over)
    together = Piece(band, Index(index.shape, (rows, *index.maps[1:])), flat, array)
    if not exact and len(flat) * (band.width + max(GAP, 2 * mmap.PAGESIZE)) <= _most_bytes():
        yield together
        return
    rest = [axis for axis in range(len(index.shape)) if axis not in over]
    lengths = [index.shape[axis] for axis in rest]
    windows = WIDE * sizes.file_bytes if exact else 0
    groups = list(_groups(flat, band, math.prod(lengths) * band.block.dtype.itemsize, windows))
    if len(groups) == 1:
        yield together
        return
    others = Index(index.shape, (Constant(0), *index.maps[1:]))
    for group in groups:
        maps: list[Map] = [Affine(0, ((1 + n, 1),)) for n in range(len(rest))]
        for axis, places in zip(over, np.unravel_index(group, numbers.shape), strict=True):
            maps.insert(axis, Array(places, (0,)))
        where = Index((len(group), *lengths), maps)
        chosen = flat[group]
        part = compose(others, where)
        rows = Array(chosen, (0,))
        yield Piece(band, Index(part.shape, (rows, *part.maps[1:])), chosen, array, where)


def _groups(numbers: np.ndarray, band: Band, payload: int, windows: int) -> Iterator[np.ndarray]:
    """Return the places of the numbers in groups of rows that lie near each other.

    A group lies within a window of so many bytes; without windows, about `_most_bytes` are read for
    it.  The places of equal numbers come in their order.
    """
    low, high = int(numbers.min()), int(numbers.max())
    crowded = is_crowded(len(numbers), band, (high - low + 1) * band.pitch)
    if windows and not crowded and len(numbers) <= FEW:
        yield np.arange(len(numbers))
        return
    if windows or crowded:
        most = sizes.file_bytes if crowded else windows
        keys = (numbers - low) * band.pitch // most
        order = np.argsort(keys.astype(np.min_scalar_type(int(keys.max()))), kind="stable")
        edges = np.flatnonzero(np.diff(keys[order])) + 1
    else:
        most = _most_bytes()
        order = np.argsort(numbers, kind="stable")
        apart = np.diff(numbers[order]) * band.pitch
        edges = np.flatnonzero(np.diff(np.cumsum(np.minimum(apart, band.width + GAP)) // most)) + 1
    step = max(1, _most_bytes() // max(1, payload))
    for group in np.split(order, edges):
        if most > sizes.file_bytes and len(group) * (band.width + mmap.PAGESIZE) > sizes.file_bytes:
            for part in _groups(numbers[group], band, payload, sizes.file_bytes):
                yield group[part]
        else:
            yield from (group[start : start + step] for start in range(0, len(group), step))


def is_crowded(count: int, band: Band, span: int) -> bool:
    """Whether so many rows need at least half of the pages among which they lie."""
    return 2 * count * max(band.width, mmap.PAGESIZE) >= span
