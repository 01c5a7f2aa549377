"""NumPy's `.npy` files, memory-mapped while they are read and written.

Each read and write first asks the system whether the file is still the one that was opened: a map
of a file that has become shorter kills the process.
"""

from __future__ import annotations

import math
import mmap
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from dataview import buffers, gather
from dataview.index import (
    Affine,
    Index,
    axes_of,
    compose,
    extent,
    identity,
    is_identity,
    shifted,
)
from dataview.sources.npy_header import Header, Seen, described, read_header
from dataview.sources.places import mapped, read_at, write_at
from dataview.sources.protocol import Memo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["NpyFile", "NpySource", "open_npy"]

DONTNEED = getattr(mmap, "MADV_DONTNEED", None)
"""How the system is told that pages of a map are not needed for now, where it can be told."""

MAPPED_AT_ONCE = 1 << 21
"""So much of a file the system may map around one byte that is touched, if it likes."""

HELD_BYTES = 1 << 24
"""About so many bytes of a map's pages are held: they count as memory of the process."""


class NpyFile:
    """An `.npy` file as a source and those of its members share it: one map, one look at it.

    It pickles as path and mode; every process maps the file for itself, when it first reads.
    """

    __slots__ = ("header", "mapped", "mode", "path", "seen", "touched")

    def __init__(self, path: Path, mode: str, header: Header, seen: Seen | None = None) -> None:
        self.path = path
        self.mode = mode
        self.header = header
        self.seen = seen
        self.mapped: np.ndarray | None = None
        self.touched = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return NpyFile, (self.path, self.mode, self.header)

    @property
    def array(self) -> np.ndarray:
        """The file as an array, mapped when first asked for and when the file was replaced."""
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
        """Raise if the file is not the one that was opened, let go of its map if it is a copy."""
        now = os.stat(self.path)
        if self.seen != (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns):
            self._check_header()

    def _check_header(self) -> None:
        changed = f"{self.path} has changed since it was opened"
        try:
            header, seen = read_header(self.path)
        except ValueError as error:
            raise ValueError(f"{changed}: {error}; open it again") from None
        if header != self.header:
            raise ValueError(
                f"{changed}: it held {described(self.header)}, now {described(header)}; "
                "open it again"
            )
        if self.seen is None or self.seen[:3] != seen[:3]:
            self.mapped = None
        self.seen = seen

    def let_go(self, touched: int) -> None:
        """Let the system have the pages of the map back, after so many have been looked at.

        They stay in its cache: what was written is not lost, and is found again quickly.
        """
        array = self.mapped
        if array is None or DONTNEED is None or not array.size:
            return
        self.touched += touched
        if self.touched >= HELD_BYTES:
            self.touched = 0
            _map_of(array).madvise(DONTNEED)


class NpySource:
    """An array in an `.npy` file, or one member of its structured dtype."""

    __slots__ = ("dtype", "file", "header", "members", "path", "shape")
    lends = False
    reuses = True

    def __init__(self, file: NpyFile, members: tuple[str, ...] = ()) -> None:
        self.file = file
        self.path = file.path
        self.header = file.header
        self.members = members
        dtype = file.header.dtype
        trailing: tuple[int, ...] = ()
        for name in members:
            dtype = dtype[name]
            dtype, trailing = dtype.base, trailing + dtype.shape
        self.shape = file.header.shape + trailing
        self.dtype = dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return NpySource, (self.file, self.members)

    @property
    def writable(self) -> bool:
        """Whether the file was opened for writing."""
        return self.file.mode == "r+"

    @property
    def array(self) -> np.ndarray:
        """The file, or the member of it, as an array."""
        array = self.file.array
        for name in self.members:
            array = array[name]
        return array

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return a fresh array: pages of the file are never handed out.

        A run of rows is read by its position in the file: memory stays as small as the result.
        Who gives a list for memory lets go of the array soon: it may be memory used before, or a
        window of the file.
        """
        slab = self._slab(index)
        if slab is not None:
            self.file.check()
            rows, within = slab
            block = self._rows(rows, memo.get(buffers.REUSED))
            return np.ascontiguousarray(gather.read(block, within))
        array = self.array
        if not self.dtype.itemsize:
            return np.ndarray(index.shape, self.dtype)
        found = np.empty(index.shape, self.dtype)
        for where, part in self._pieces(index):
            found[where] = gather.read(array, part)
            self.file.let_go(self._touched_by(part))
        return found

    def write(self, index: Index, value: np.ndarray) -> None:
        """Write through the index into the file."""
        slab = self._slab(index)
        if slab is not None:
            self.file.check()
            rows, within = slab
            whole = self._shape_of(rows)
            if value.shape == whole and is_identity(within, whole):
                block = np.ascontiguousarray(value, self.header.dtype)
            else:
                block = self._rows(rows)
                gather.assign(block, within, value)
            self._put_rows(rows.start, block)
            return
        array = self.array
        spread = np.broadcast_to(value, index.shape)
        for where, part in self._pieces(index):
            gather.assign(array, part, spread[where])
            self.file.let_go(self._touched_by(part))

    def shared(self, index: Index) -> np.ndarray | None:
        """Return a run of rows as memory shared with the file, or None if it is not to be had.

        What is written there is in the file; the array is to be let go of soon.
        """
        slab = self._slab(index)
        if slab is None:
            return None
        self.file.check()
        rows, within = slab
        with open(self.path, "r+b", buffering=0) as file:
            place, shape = self._place(rows.start), self._shape_of(rows)
            window = mapped(file, place, shape, self.header.dtype, True)
        return None if window is None else gather.read(window, within)

    def _pieces(self, index: Index) -> Iterator[tuple[Any, Index]]:
        """Return an index in parts, along its slowest axis, each of which touches few pages."""
        count = -(-self._touched_by(index) // HELD_BYTES) if DONTNEED is not None else 1
        if count < 2:
            yield ..., index
            return
        axis = len(index.shape) - 1 if self.header.fortran else 0
        length = index.shape[axis]
        step = max(1, length // count)
        for start in range(0, length, step):
            stop = min(start + step, length)
            part = identity((*index.shape[:axis], stop - start, *index.shape[axis + 1 :]))
            maps = [*part.maps[:axis], Affine(start, ((axis, 1),)), *part.maps[axis + 1 :]]
            where = (slice(None),) * axis + (slice(start, stop),)
            yield where, compose(index, Index(part.shape, maps))

    def _touched_by(self, index: Index) -> int:
        """Return about how many bytes of pages an index touches."""
        if not index.shape or 0 in index.shape:
            return 0
        fortran = self.header.fortran
        fast = index.maps[0 if fortran else -1] if index.maps else None
        over = axes_of(fast) if fast is not None else ()
        line = math.prod(index.shape[axis] for axis in over)
        low, high = (extent(fast, index.shape) if fast is not None else None) or (0, 0)
        run = (high - low + 1) * self.header.dtype.itemsize + mmap.PAGESIZE
        # Runs of rows lie close together in C order, and in Fortran order each in its own column.
        run = max(run, MAPPED_AT_ONCE) if fortran and line > 1 else run
        return math.prod(index.shape) // max(1, line) * run

    def _slab(self, index: Index) -> tuple[range, Index] | None:
        """Return the run of whole rows that an index reads much of, and the index within it."""
        shape, fortran, dtype, _ = self.header
        if fortran or self.members or not shape or not dtype.itemsize or 0 in index.shape:
            return None
        first = index.maps[0]
        if not isinstance(first, Affine) or len(first.strides) != 1 or not index.is_box:
            return None
        low, high = extent(first, index.shape) or (0, 0)
        if (high - low + 1) * math.prod(shape[1:]) > 4 * math.prod(index.shape):
            return None
        within = Index(index.shape, (shifted(first, low), *index.maps[1:]))
        return range(low, high + 1), within

    def _rows(self, rows: range, reused: list[np.ndarray] | None = None) -> np.ndarray:
        shape, dtype = self._shape_of(rows), self.header.dtype
        place = self._place(rows.start)
        with open(self.path, "rb", buffering=0) as file:
            if reused is not None:
                window = mapped(file, place, shape, dtype, False)
                if window is not None:
                    return window
            block = buffers.empty(shape, dtype, [] if reused is None else reused)
            read_at(file, block, place)
        return block

    def _put_rows(self, start: int, block: np.ndarray) -> None:
        with open(self.path, "r+b", buffering=0) as file:
            write_at(file, block, self._place(start))

    def _shape_of(self, rows: range) -> tuple[int, ...]:
        return len(rows), *self.header.shape[1:]

    def _place(self, row: int) -> int:
        shape, _, dtype, offset = self.header
        return offset + row * dtype.itemsize * math.prod(shape[1:])

    def member(self, name: str) -> NpySource:
        """Return one field of a structured file."""
        return NpySource(self.file, (*self.members, name))

    def describe(self) -> str:
        """Name the file and how it was opened."""
        return f"{self.path.name} ({self.file.mode})"


def open_npy(path: str | os.PathLike[str], mode: str = "r") -> NpySource:
    """Return the source of an `.npy` file; only its header is read."""
    if mode not in ("r", "r+"):
        raise ValueError(f"mode is 'r' (read) or 'r+' (read and write); got {mode!r}")
    from pathlib import Path  # which brings as much along as half of this package

    place = Path(os.path.abspath(path))
    header, seen = read_header(place)
    if mode == "r+" and not os.access(place, os.W_OK):
        raise PermissionError(f"{place} cannot be written; open it with mode='r'")
    return NpySource(NpyFile(place, mode, header, seen))


def _map_of(array: Any) -> mmap.mmap:
    """Return the map behind an array."""
    while not isinstance(array, mmap.mmap):
        array = array.obj if isinstance(array, memoryview) else array.base
    return array
