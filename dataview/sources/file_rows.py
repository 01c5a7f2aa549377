"""Elements of an array in a file, wherever they lie, read and written in the order of the file.

Pieces of rows are mapped for as long as it takes, or transferred by their positions; the file is
never mapped whole.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from dataview.index import (
    Array,
    Constant,
    Index,
    axes_of,
    extent,
    gather,
    positions,
    shifted,
    with_a_run,
)
from dataview.index.progress import begin
from dataview.index.sizes import sizes
from dataview.sources import scratch
from dataview.sources.file_access import LONG, cut_short, map_window, read_runs, write_runs
from dataview.sources.file_pieces import (
    GAP,
    WIDE,
    Band,
    Block,
    Piece,
    band_of,
    is_crowded,
    is_dense,
    line_of,
    pieces,
    whole_rows,
)

ReadRows: TypeAlias = "Callable[[range | np.ndarray], np.ndarray | None]"
"""Returns rows as a new array; None if they have to be read in another way."""


def read_near(file: io.FileIO, block: Block, index: Index) -> np.ndarray | None:
    """Return what an index selects among few rows as a new array; None if they are not few."""

    def read_rows(rows: range | np.ndarray) -> np.ndarray | None:
        if not isinstance(rows, range):
            return None  # each of them would be a call
        records = np.empty((len(rows), *block.shape[1:]), block.dtype)
        read_runs(file, records, [(block.place + rows.start * block.row_bytes, records.nbytes)])
        return records

    return read_whole(read_rows, block, index)


def read_whole(read_rows: ReadRows, block: Block, index: Index) -> np.ndarray | None:
    """Return what an index selects of few rows, which are read whole, as a new array.

    Return None if they are not few, or have to be read in another way.
    """
    found = whole_rows(block, index)
    if found is None:
        return None
    rows, within = found
    records = read_rows(rows)
    if records is None:
        return None
    part = gather.read(block.member_of(records), within)
    return np.array(part, order="C") if within.is_box else np.ascontiguousarray(part)


def array_in_file_order(
    index: Index, dtype: np.dtype[Any], memory: list[np.ndarray] | None
) -> np.ndarray:
    """Return an array for what an index selects, whose elements lie in the order of the file.

    It may be on `memory` that was used before.

    >>> one, other = Array(np.array([4, 1, 7]), (1,)), Array(np.array([2, 0]), (0,))
    >>> array_in_file_order(Index((2, 3), (one, other)), np.dtype("f8"), None).strides
    (8, 16)
    """
    axes = axes_in_order(index)
    found = scratch.borrow(tuple([index.shape[axis] for axis in axes]), dtype, memory)
    return found if axes == sorted(axes) else found.transpose(np.argsort(axes))


def axes_in_order(index: Index) -> list[int]:
    """Return the axes of what an index selects, in their order in the file where they have one."""
    axes = [axis for map_ in index.maps for axis in axes_of(map_)]
    return axes if sorted(axes) == [*range(len(index.shape))] else [*range(len(index.shape))]


def read(file: io.FileIO, block: Block, index: Index, found: np.ndarray, shared: bool) -> None:
    """Read what an index selects of a block into an array; `shared` allows to map the file."""
    is_long = found.nbytes > LONG * sizes.file_bytes
    task = begin("reading", found.nbytes, "B", None if is_long else False)
    with contextlib.closing(task):
        for piece in pieces(block, index, found, False):
            task.advance(_read_piece(file, piece, shared))


def _read_piece(file: io.FileIO, piece: Piece, shared: bool) -> int:
    """Read a piece; return how many bytes that are."""
    held: list[np.ndarray] = []
    part = _elements(file, piece, shared, held)
    if piece.where is None:
        piece.array[...] = part
    else:
        gather.assign(piece.array, with_a_run(piece.where), part)
    size = part.nbytes
    scratch.give_back(held)
    return size


def write(file: io.FileIO, block: Block, index: Index, value: np.ndarray) -> None:
    """Write a value of the shape of an index into a block; of repeated places the last one counts.

    No other byte of the file is written, not even with what it held.
    """
    for piece in pieces(block, index, value, True):
        _write_piece(file, piece)


def _write_piece(file: io.FileIO, piece: Piece) -> None:
    part = piece.array if piece.where is None else gather.read(piece.array, piece.where)
    window = _window_to_write(file, piece)
    if window is None:
        _write_runs(file, piece.band, piece.index, part)
    else:
        first, _ = piece.ends
        gather.assign(window, piece.within(shifted(piece.index.maps[0], first)), part)


def shared_memory(file: io.FileIO, block: Block, index: Index) -> np.ndarray | None:
    """Return what a box selects as memory shared with the file, None if it is not dense there."""
    while index.maps and isinstance(index.maps[0], Constant) and len(block.shape) > 1:
        block, index = block.row(index.maps[0].offset), Index(index.shape, index.maps[1:])
    if 0 in index.shape or not index.is_box or not is_dense(band_of(block, index)[0], index):
        return None
    low, high = extent(index.maps[0], index.shape) or (0, 0)
    if (high - low + 1) * block.row_bytes > 2 * sizes.file_bytes:
        return None
    window = _mapped(file, Band(block, block.place, block.shape[1:]), low, high, True)
    if window is None:
        return None
    return gather.read(window, Index(index.shape, (shifted(index.maps[0], low), *index.maps[1:])))


# --- reading ---------------------------------------------------------------------------------


def _elements(file: io.FileIO, piece: Piece, shared: bool, held: list[np.ndarray]) -> np.ndarray:
    """Return the elements of a piece, perhaps as memory that is `held`."""
    band, (low, high) = piece.band, piece.ends
    span = (high - low + 1) * band.pitch
    whole = isinstance(piece.numbers, range) or is_crowded(len(piece.numbers), band, span)
    rows = shifted(piece.index.maps[0], low)
    if whole and shared:
        window = _mapped(file, band, low, high, False)
        if window is not None:
            return gather.read(window, piece.within(rows))
    if whole and band.width == band.pitch:
        count, runs = high - low + 1, [(band.place + low * band.pitch, span)]
    else:
        firsts, counts, places = _spans(np.asarray(piece.numbers), band)
        starts, lengths = firsts * band.pitch + band.place, counts * band.width
        count, runs = int(counts.sum()), list(zip(starts.tolist(), lengths.tolist(), strict=True))
        if count <= high - low:  # else each of the rows is there, in its place
            over = axes_of(piece.index.maps[0])
            rows = Array(places.reshape([piece.index.shape[axis] for axis in over]), over)
    records = scratch.borrow((count, *band.shape), band.block.dtype, held)
    read_runs(file, records, runs)
    return gather.read(band.block.member_of(records), with_a_run(piece.within(rows)))


def _spans(numbers: np.ndarray, band: Band) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the first row and the length of each run to read, and where in all each number is.

    >>> band = Band(Block(0, (9000, 1024), np.dtype("f4")), 0, (1024,))
    >>> _spans(np.array([7000, 3, 5, 3]), band)
    (array([   3, 7000]), array([3, 1]), array([3, 0, 2, 0]))
    """
    order = np.argsort(numbers, kind="stable")
    ascending = numbers[order]
    gaps = (ascending[1:] - ascending[:-1]) * band.pitch - band.width
    # Where the bands of two rows are no run of bytes, they lie farther apart than this.
    new = np.flatnonzero(gaps > GAP) + 1
    bounds = np.concatenate([[0], new, [len(ascending)]])
    firsts = ascending[bounds[:-1]]
    counts = ascending[bounds[1:] - 1] - firsts + 1
    shifts = np.cumsum(counts) - counts - firsts
    places = np.empty_like(order)
    places[order] = ascending + np.repeat(shifts, np.diff(bounds))
    return firsts, counts, places


def _mapped(
    file: io.FileIO,
    band: Band,
    low: int,
    high: int,
    writable: bool,
    runs: np.ndarray | None = None,
    least: int | None = None,
) -> np.ndarray | None:
    """Return rows of a band as memory shared with the file, None if this is not possible."""
    size = (high - low) * band.pitch + band.width
    pages = map_window(file, band.place + low * band.pitch, size, writable, runs, least)
    if pages is None:
        return None
    shape = (high - low + 1, *band.shape)
    return band.block.member_of(np.ndarray(shape, band.block.dtype, pages, 0, band.strides))


# --- writing ---------------------------------------------------------------------------------


def _window_to_write(file: io.FileIO, piece: Piece) -> np.ndarray | None:
    """Return the rows of a piece as memory to write; only the pages that it needs are loaded."""
    band, (low, high) = piece.band, piece.ends
    numbers = piece.numbers
    if isinstance(numbers, range) or is_crowded(len(numbers), band, (high - low) * band.pitch):
        return _mapped(file, band, low, high, True, None, 0)
    one_row = math.prod(piece.index.shape) * band.block.dtype.itemsize <= band.width
    if one_row or (high - low) * band.pitch > 2 * WIDE * sizes.file_bytes:
        return None  # to map one row takes as long as to write it
    starts = (np.sort(numbers) - low) * band.pitch
    return _mapped(file, band, low, high, True, np.stack([starts, starts + band.width], 1), 0)


def _write_runs(file: io.FileIO, band: Band, index: Index, value: np.ndarray) -> None:
    """Write a value by the positions of its runs of bytes."""
    record = np.zeros(1, band.block.dtype)
    element = band.block.member_of(record)
    member = element.__array_interface__["data"][0] - record.__array_interface__["data"][0]
    strides = (*band.strides, *element.strides[1:])
    lines = [(by, line_of(index, number)) for number, by in enumerate(strides)]
    steps = {line[0]: line[1] * by for by, line in lines if line is not None}
    loose = [axis for axis in range(len(index.shape)) if axis not in steps]
    order = [*loose, *sorted(steps, key=lambda axis: -abs(steps[axis]))]
    data = np.ascontiguousarray(value.transpose(order), element.dtype)
    width, shape = element.dtype.itemsize, list(index.shape)
    while order and steps.get(order[-1]) == width:
        width *= shape[order[-1]]
        shape[order.pop()] = 1
    places = np.full(shape, band.place + member)
    for map_, by in zip(index.maps, strides, strict=True):
        places += positions(map_, shape) * by
    moved = places.transpose([*order, *(axis for axis in range(len(shape)) if axis not in order)])
    flat = moved.reshape(-1)
    if os.fstat(file.fileno()).st_size < int(flat.max()) + width:
        raise cut_short(file)  # to write there would make it longer
    starts = np.concatenate([[0], np.flatnonzero(np.diff(flat) != width) + 1])
    counts = np.diff(np.append(starts, len(flat))) * width
    write_runs(file, data, zip(flat[starts].tolist(), counts.tolist(), strict=True))
