"""NumPy's `.npy` files, memory-mapped while they are read and written.

Each read and write first checks that the file is still the one that was opened: if another program
truncates a mapped file, the operating system kills the process.
"""

from __future__ import annotations

import math
import mmap
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dataview.index import (
    Affine,
    Index,
    axes_of,
    block_index,
    compose,
    extent,
    gather,
    is_identity,
    shifted,
)
from dataview.sizes import sizes
from dataview.sources import scratch
from dataview.sources.file_access import map_window, read_at, write_at
from dataview.sources.new_files import new_file
from dataview.sources.npy_header import FileState, Header, header_bytes, header_text, read_header
from dataview.sources.protocol import Memo, Source
from dataview.sources.sharing import map_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


DONTNEED = getattr(mmap, "MADV_DONTNEED", None)
"""Tells the operating system that pages of a map are not needed for now; None where it cannot."""

MAPPED_AT_ONCE = 1 << 21
"""The most bytes that the operating system maps around one byte that is read."""

MAPPED_AROUND = 1 << 16
"""The bytes that it usually maps around a row far from others."""


@dataclass(slots=True, eq=False, repr=False)
class NpyFile:
    """An `.npy` file with its header and its map, which a source and its members share.

    Its pickle holds path, mode and header; every process maps the file when it first reads.
    """

    path: str
    mode: str
    header: Header
    state: FileState | None = None
    mapped: np.ndarray | None = None
    touched: int = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return NpyFile, (self.path, self.mode, self.header)

    @property
    def array(self) -> np.ndarray:
        """The file as a mapped array; it is mapped again if the file was replaced by a copy."""
        self.check()
        array = self.mapped
        if array is None:
            array = self.mapped = self._map()
        return array

    def _map(self) -> np.ndarray:
        shape, fortran, dtype, offset = self.header
        if not dtype.itemsize or 0 in shape:
            return np.ndarray(shape, dtype)  # np.empty would lengthen texts without characters
        writable = self.mode == "r+"
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        with open(self.path, "r+b" if writable else "rb") as file:
            data = mmap.mmap(file.fileno(), self.header.end, access=access)
        return np.ndarray(shape, dtype, data, offset, order="F" if fortran else "C")

    def check(self) -> None:
        """Raise if the file is not the one that was opened; forget its map if it is a copy."""
        now = os.stat(self.path)
        if self.state != (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns):
            self._check_header()

    def _check_header(self) -> None:
        changed = f"{self.path} has changed since it was opened"
        try:
            header, state = read_header(self.path)
        except ValueError as error:
            raise ValueError(f"{changed}: {error}; open it again") from None
        if header != self.header:
            raise ValueError(
                f"{changed}: it held {header_text(self.header)}, now {header_text(header)}; "
                "open it again"
            )
        if self.state is None or self.state[:3] != state[:3]:
            self.mapped = None
        self.state = state

    def let_go(self, touched: int) -> None:
        """Give the pages of the map back to the operating system, once enough were touched.

        They stay in the system's cache, so nothing that was written is lost.
        """
        pages = map_of(self.mapped)
        if pages is None or DONTNEED is None:
            return
        self.touched += touched
        if self.touched >= sizes.file_bytes:
            self.touched = 0
            pages.madvise(DONTNEED)


class NpySource(Source):
    """An array in an `.npy` file, or one member of its structured dtype."""

    __slots__ = ("dtype", "file", "header", "members", "path", "shape", "writable")
    path: str
    reuses = True

    def __init__(
        self, file: NpyFile, members: tuple[str, ...] = (), shape: tuple[int, ...] | None = None
    ) -> None:
        self.file = file
        self.path = file.path
        self.header = file.header
        self.writable = file.mode == "r+"
        self.members = members
        dtype = file.header.dtype
        trailing: tuple[int, ...] = ()
        for name in members:
            dtype = dtype[name]
            dtype, trailing = dtype.base, trailing + dtype.shape
        self.shape = file.header.shape + trailing if shape is None else shape
        self.dtype = dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return NpySource, (self.file, self.members, self.shape)

    @property
    def array(self) -> np.ndarray:
        """The file, or the member of it, as an array."""
        array = self.file.array
        for name in self.members:
            array = array[name]
        return array if array.shape == self.shape else array.reshape(self.shape)

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return a new array, so that nobody holds pages of the file.

        A caller that gives a list in `memo` keeps the array for a short time only, so it may also
        be memory that was used before, or a window of the file.
        """
        reused = memo.get(scratch.REUSED)
        if not self.dtype.itemsize:
            return np.ndarray(index.shape, self.dtype)
        if (run := self._run(index)) is not None:
            return self._rows(run, reused)
        found = scratch.borrow(index.shape, self.dtype, [] if reused is None else reused)
        for where, part in self._pieces(index):
            slab = self._slab(part)
            if slab is None:
                found[where] = gather.read(self.array, part)
                self.file.let_go(self._touched_by(part))
            else:
                held: list[np.ndarray] = []
                found[where] = gather.read(self._rows(slab[0], held), slab[1])
                scratch.give_back(held)
        return found

    def write(self, index: Index, value: np.ndarray) -> None:
        """Write through the index into the file; no other byte of it is written."""
        run, spread = self._run(index), np.broadcast_to(value, index.shape)
        for where, part in self._pieces(index):
            if run is None:
                gather.assign(self.array, part, spread[where])
                self.file.let_go(self._touched_by(part))
                continue
            self.file.check()
            block = np.ascontiguousarray(spread[where], self.dtype)
            first, _ = extent(part.maps[0], part.shape) or (0, 0)
            with open(self.path, "r+b", buffering=0) as file:
                write_at(file, block, self._place(first))

    def memmap(self, index: Index) -> np.ndarray | None:
        """Return a run of rows as memory shared with the file, None if that is not possible.

        Writing to the array writes to the file; the caller keeps it for a short time only.
        """
        slab = self._slab(index)
        window = None if slab is None else self._window(slab[0], True)
        return None if slab is None or window is None else gather.read(window, slab[1])

    def slow_axis(self, index: Index) -> tuple[int, int]:
        """Return the axis of a view whose steps lie farthest apart, and the bytes of a step."""
        slow = index.maps[-1 if self.header.fortran else 0] if index.maps else None
        strides = slow.strides if isinstance(slow, Affine) else ()
        axis = max(strides, key=lambda pair: abs(pair[1]), default=(0, 0))[0]
        length = index.shape[axis] if index.shape else 1
        return axis, max(1, self._touched_by(index) // max(1, length))

    def _pieces(self, index: Index) -> Iterator[tuple[Any, Index]]:
        """Cut an index along its slowest axis into parts that each touch few pages."""
        axis, size = self.slow_axis(index)
        length = index.shape[axis] if index.shape else 0
        if length * size <= sizes.file_bytes:
            yield ..., index
            return
        step = max(1, sizes.file_bytes // size)
        for start in range(0, length, step):
            stop = min(start + step, length)
            where = (slice(None),) * axis + (slice(start, stop),)
            yield where, compose(index, block_index(index.shape, start, stop, axis))

    def _touched_by(self, index: Index) -> int:
        """Estimate how many bytes of pages an index touches."""
        if 0 in index.shape or not index.maps:
            return 0
        if (rows := self._span(index)) is not None:
            return len(rows) * self._row_bytes
        fortran = self.header.fortran
        fast, slow = index.maps[0 if fortran else -1], index.maps[-1 if fortran else 0]
        line = math.prod(index.shape[axis] for axis in axes_of(fast))
        low, high = extent(fast, index.shape) or (0, 0)
        run = (high - low + 1) * self.header.dtype.itemsize + mmap.PAGESIZE
        # Runs of rows lie close together in C order, and in Fortran order each in its own column.
        run = max(run, MAPPED_AT_ONCE) if fortran and line > 1 else run
        run = run if isinstance(slow, Affine) else max(run, MAPPED_AROUND)
        return math.prod(index.shape) // max(1, line) * run

    def _span(self, index: Index) -> range | None:
        """Return the run of whole rows that an index reads much of."""
        fortran, dtype = self.header.fortran, self.header.dtype
        if fortran or self.members or not self.shape or not dtype.itemsize or 0 in index.shape:
            return None
        first = index.maps[0]
        if not isinstance(first, Affine) or len(first.strides) != 1 or not index.is_box:
            return None
        low, high = extent(first, index.shape) or (0, 0)
        if (high - low + 1) * math.prod(self.shape[1:]) > 4 * math.prod(index.shape):
            return None
        return range(low, high + 1)

    def _slab(self, index: Index) -> tuple[range, Index] | None:
        """Return the run of whole rows that an index reads much of, and the index within it."""
        rows = self._span(index)
        if rows is None:
            return None
        return rows, Index(index.shape, (shifted(index.maps[0], rows.start), *index.maps[1:]))

    def _run(self, index: Index) -> range | None:
        """Return the run of whole rows that an index selects, None if it selects anything else."""
        slab = self._slab(index)
        if slab is not None and is_identity(slab[1], (len(slab[0]), *self.shape[1:])):
            return slab[0]
        return None

    def _rows(self, rows: range, reused: list[np.ndarray] | None = None) -> np.ndarray:
        """Return a run of rows, mapped only if the file is writable: then it is ours."""
        if reused is not None and self.writable:
            window = self._window(rows, False)
            if window is not None:
                return window
        self.file.check()
        shape = (len(rows), *self.shape[1:])
        block = scratch.borrow(shape, self.dtype, [] if reused is None else reused)
        with open(self.path, "rb", buffering=0) as file:
            read_at(file, block, self._place(rows.start))
        return block

    def _window(self, rows: range, writable: bool) -> np.ndarray | None:
        self.file.check()
        shape = (len(rows), *self.shape[1:])
        with open(self.path, "r+b" if writable else "rb", buffering=0) as file:
            return map_window(file, self._place(rows.start), shape, self.dtype, writable)

    @property
    def _row_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape[1:])

    def _place(self, row: int) -> int:
        return self.header.offset + row * self._row_bytes

    def reshaped(self, shape: tuple[int, ...]) -> NpySource | None:
        """Return the same elements in their order under another shape, if they lie in order."""
        if self.header.fortran or self.members:
            return None
        return NpySource(self.file, (), shape)

    def member(self, name: str) -> NpySource:
        """Return one field of a structured file."""
        return NpySource(self.file, (*self.members, name))

    def describe(self) -> str:
        """Name the file and how it was opened."""
        return f"{os.path.basename(self.path)} ({self.file.mode})"


def open_npy(path: str | os.PathLike[str], mode: str = "r") -> NpySource:
    """Return the source of an `.npy` file; only its header is read."""
    if mode not in ("r", "r+"):
        raise ValueError(f"mode is 'r' (read) or 'r+' (read and write); got {mode!r}")
    place = os.path.abspath(path)
    header, state = read_header(place)
    if mode == "r+" and not os.access(place, os.W_OK):
        raise PermissionError(f"{place} cannot be written; open it with mode='r'")
    return NpySource(NpyFile(place, mode, header, state))


def save_npy(
    path: str, shape: tuple[int, ...], dtype: np.dtype[Any], blocks: Iterable[np.ndarray]
) -> None:
    """Write blocks of rows, which make an array of this shape, to an `.npy` file."""
    if dtype.hasobject:
        raise TypeError(
            "an .npy file holds numbers, dates and texts of fixed size, not Python objects; "
            f"got {dtype}"
        )
    header = header_bytes(shape, dtype)
    with new_file(path) as file:
        file.write(header)
        for block in blocks if dtype.itemsize else ():
            raw: Any = np.ascontiguousarray(block).reshape(-1).view(np.uint8)
            file.write(raw)
