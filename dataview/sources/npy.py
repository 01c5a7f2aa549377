"""NumPy's `.npy` files, memory-mapped while they are read and written.

Each read and write first asks the system whether the file is still the one that was opened: a map
of a file that has become shorter kills the process.
"""

from __future__ import annotations

import ast
import functools
import math
import mmap
import os
import re
import struct
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from dataview import buffers, gather
from dataview.index import (
    ENDLESS,
    Affine,
    Index,
    axes_of,
    compose,
    extent,
    identity,
    is_identity,
    shifted,
)
from dataview.sources.places import mapped, read_at, write_at
from dataview.sources.protocol import Memo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Header", "NpySource", "made_header", "open_npy"]

DONTNEED = getattr(mmap, "MADV_DONTNEED", None)
"""How the system is told that pages of a map are not needed for now, where it can be told."""

MAPPED_AT_ONCE = 1 << 21
"""So much of a file the system may map around one byte that is touched, if it likes."""

HELD_BYTES = 1 << 24
"""About so many bytes of a map's pages are held: they count as memory of the process."""

SETTLED_NS = 100_000_000
"""How long after a change the next one surely has a later time: file clocks tick coarsely."""

LONGEST_HEADER = 1 << 20
"""Above this many bytes a header is taken for a broken one: to parse it could eat all memory."""


class Header(NamedTuple):
    """What a file says of itself; the data begins at `offset`."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int


class _Seen(NamedTuple):
    """What the system said of a file when its header was read."""

    device: int
    inode: int
    size: int
    time: int


class NpySource:
    """An array in an `.npy` file, or one member of its structured dtype.

    It pickles as path and mode; every process maps the file for itself, when it first reads.
    """

    __slots__ = (
        "_mapped",
        "_seen",
        "_touched",
        "dtype",
        "header",
        "members",
        "mode",
        "path",
        "shape",
    )
    lends = False
    reuses = True

    def __init__(
        self,
        path: Path,
        mode: str,
        header: Header,
        members: tuple[str, ...] = (),
        seen: _Seen | None = None,
    ) -> None:
        self.path = path
        self.mode = mode
        self.header = header
        self.members = members
        dtype = header.dtype
        trailing: tuple[int, ...] = ()
        for name in members:
            dtype = dtype[name]
            dtype, trailing = dtype.base, trailing + dtype.shape
        self.shape = header.shape + trailing
        self.dtype = dtype
        self._mapped: np.ndarray | None = None
        self._touched = 0
        self._seen = seen

    def __reduce__(self) -> tuple[Any, ...]:
        return NpySource, (self.path, self.mode, self.header, self.members)

    @property
    def writable(self) -> bool:
        """Whether the file was opened for writing."""
        return self.mode == "r+"

    @property
    def array(self) -> np.ndarray:
        """The file as an array, mapped when first asked for and when the file was replaced."""
        self._check()
        array = self._mapped
        if array is None:
            array = self._map()
            for name in self.members:
                array = array[name]
            self._mapped = array
        return array

    def _map(self) -> np.ndarray:
        shape, fortran, dtype, offset = self.header
        if not dtype.itemsize or 0 in shape:
            return np.ndarray(shape, dtype)  # np.empty would lengthen texts without characters
        access = mmap.ACCESS_WRITE if self.writable else mmap.ACCESS_READ
        with open(self.path, "r+b" if self.writable else "rb") as file:
            data = mmap.mmap(file.fileno(), _end(self.header), access=access)
        return np.ndarray(shape, dtype, data, offset, order="F" if fortran else "C")

    def _check(self) -> None:
        """Raise if the file is not the one that was opened, let go of its map if it is a copy."""
        now = os.stat(self.path)
        if self._seen != (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns):
            self._check_header()

    def _check_header(self) -> None:
        changed = f"{self.path} has changed since it was opened"
        try:
            header, seen = _read_header(self.path)
        except ValueError as error:
            raise ValueError(f"{changed}: {error}; open it again") from None
        if header != self.header:
            raise ValueError(
                f"{changed}: it held {_described(self.header)}, now {_described(header)}; "
                "open it again"
            )
        if self._seen is None or self._seen[:3] != seen[:3]:
            self._mapped = None
        self._seen = seen

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return a fresh array: pages of the file are never handed out.

        A run of rows is read by its position in the file: memory stays as small as the result.
        Who gives a list for memory lets go of the array soon: it may be memory used before, or a
        window of the file.
        """
        slab = self._slab(index)
        if slab is not None:
            self._check()
            rows, within = slab
            block = self._rows(rows, memo.get(buffers.REUSED))
            return np.ascontiguousarray(gather.read(block, within))
        array = self.array
        if not self.dtype.itemsize:
            return np.ndarray(index.shape, self.dtype)
        found = np.empty(index.shape, self.dtype)
        for where, part in self._pieces(index):
            found[where] = gather.read(array, part)
            self._let_go(part)
        return found

    def write(self, index: Index, value: np.ndarray) -> None:
        """Write through the index into the file."""
        slab = self._slab(index)
        if slab is not None:
            self._check()
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
            self._let_go(part)

    def shared(self, index: Index) -> np.ndarray | None:
        """Return a run of rows as memory shared with the file, or None if it is not to be had.

        What is written there is in the file; the array is to be let go of soon.
        """
        slab = self._slab(index)
        if slab is None:
            return None
        self._check()
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

    def _let_go(self, index: Index) -> None:
        """Let the system have the pages of the map back, after so many have been looked at.

        They stay in its cache: what was written is not lost, and is found again quickly.
        """
        array = self._mapped
        if array is None or DONTNEED is None or not array.size:
            return
        self._touched += self._touched_by(index)
        if self._touched >= HELD_BYTES:
            self._touched = 0
            _map_of(array).madvise(DONTNEED)

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
        return NpySource(self.path, self.mode, self.header, (*self.members, name), self._seen)

    def describe(self) -> str:
        """Name the file and how it was opened."""
        return f"{self.path.name} ({self.mode})"


def open_npy(path: str | os.PathLike[str], mode: str = "r") -> NpySource:
    """Return the source of an `.npy` file; only its header is read."""
    if mode not in ("r", "r+"):
        raise ValueError(f"mode is 'r' (read) or 'r+' (read and write); got {mode!r}")
    from pathlib import Path  # which brings as much along as half of this package

    place = Path(os.path.abspath(path))
    header, seen = _read_header(place)
    if mode == "r+" and not os.access(place, os.W_OK):
        raise PermissionError(f"{place} cannot be written; open it with mode='r'")
    return NpySource(place, mode, header, seen=seen)


# --- headers ---------------------------------------------------------------------------------

FORMATS = {(1, 0): ("<H", "latin-1"), (2, 0): ("<I", "latin-1"), (3, 0): ("<I", "utf-8")}
"""How each version of the format holds the length and the text of its header."""

ALIGNMENT = 64
"""The data begins at a multiple of this."""

GROWTH = 21
"""How wide NumPy leaves room for the first length, so that rows can be added in place."""


def _read_header(path: Path) -> tuple[Header, _Seen]:
    """Return the header of a file that holds all that it promises, and what the file was then."""
    with open(path, "rb") as file:
        now = time.time_ns()
        found = os.fstat(file.fileno())
        # A file that is still changing has no time of its own: it is looked at again next time.
        settled = abs(now - found.st_mtime_ns) > SETTLED_NS
        modified = found.st_mtime_ns if settled else -1
        seen = _Seen(found.st_dev, found.st_ino, found.st_size, modified)
        try:
            start = file.read(12)
            version = (start[6], start[7]) if len(start) == 12 else (0, 0)
            if start[:6] != npy.MAGIC_PREFIX or version not in FORMATS:
                raise ValueError("it does not begin as one of version 1, 2 or 3 does")
            form, encoding = FORMATS[version]
            begin = 8 + struct.calcsize(form)
            (length,) = struct.unpack(form, start[8:begin])
            if length > min(found.st_size - begin, LONGEST_HEADER):
                raise ValueError(f"its header would have {length} bytes")
            file.seek(begin)
            header = Header(*_parsed(file.read(length), encoding), begin + length)
        except ValueError as error:
            raise ValueError(f"{path} is not an .npy file: {error}") from None
    if header.dtype.hasobject:
        raise ValueError(
            f"{path} holds pickled Python objects, which are never loaded: they could run code; "
            "load it with numpy.load(allow_pickle=True) if you trust it, and wrap the array"
        )
    if seen.size < _end(header):
        raise ValueError(
            f"{path} is cut short: its header promises {_end(header)} bytes, it has {seen.size}"
        )
    return header, seen


@functools.lru_cache(maxsize=64)
def _parsed(raw: bytes, encoding: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return what the text of a header says, or raise ValueError."""
    found = _literal(raw.decode(encoding))
    if not isinstance(found, dict) or found.keys() != {"descr", "fortran_order", "shape"}:
        raise ValueError("its header does not give descr, fortran_order and shape")
    shape, fortran = found["shape"], found["fortran_order"]
    if not isinstance(fortran, bool):
        raise ValueError(f"fortran_order is {fortran!r}, neither True nor False")
    if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"{shape!r} is not a shape")
    try:
        dtype: np.dtype[Any] = npy.descr_to_dtype(found["descr"])
    except Exception as error:  # of any class, since the text may say anything
        raise ValueError(f"{found['descr']!r} is not a dtype: {error}") from None
    if dtype.subdtype is not None:
        raise ValueError(f"{found['descr']!r} is the dtype of arrays, not of elements")
    if len(shape) > 64 or math.prod(n or 1 for n in shape) * (dtype.itemsize or 1) >= ENDLESS:
        raise ValueError(f"no array can have the shape {shape} of {dtype}")
    return shape, fortran, dtype


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except SyntaxError:
        # Python 2 wrote lengths as 10L. Quoted names are matched first, to be left as they are.
        text = re.sub(r"""('[^']*'|"[^"]*")|(\d)L\b""", lambda found: found[1] or found[2], text)
    except (MemoryError, RecursionError, TypeError) as error:
        raise ValueError(f"its header cannot be parsed: {error}") from None
    try:
        return ast.literal_eval(text)
    except (SyntaxError, MemoryError, RecursionError, TypeError) as error:
        raise ValueError(f"its header cannot be parsed: {error}") from None


def _end(header: Header) -> int:
    return header.offset + header.dtype.itemsize * math.prod(header.shape)


def _described(header: Header) -> str:
    return f"{header.dtype} of shape {header.shape}" + (" in Fortran order" * header.fortran)


def made_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    r"""Return the header of a C-ordered array, as NumPy writes it; the array's bytes follow.

    >>> made_header((3, 2), np.dtype("f4"))[10:69]
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }"
    """
    try:
        described = npy.dtype_to_descr(dtype)
        kept = npy.descr_to_dtype(ast.literal_eval(repr(described))) == dtype
    except (ValueError, SyntaxError):
        kept = False
    if not kept:
        raise TypeError(
            f"an .npy file cannot describe {dtype}: its fields overlap, or are not in the order "
            "of their places; save a copy with packed fields, or save the fields one by one"
        )
    lengths = tuple(map(int, shape))
    text = f"{{'descr': {described!r}, 'fortran_order': False, 'shape': {lengths!r}, }}"
    text += " " * (GROWTH - len(str(lengths[0])) if lengths else 0)
    for version in [(1, 0), (3, 0)]:
        form, encoding = FORMATS[version]
        begin = 8 + struct.calcsize(form)
        try:
            raw = text.encode(encoding)
            length = len(raw) + 1
            length += ALIGNMENT - (begin + length) % ALIGNMENT
            start = npy.magic(*version) + struct.pack(form, length)
            return start + raw.ljust(length - 1) + b"\n"
        except (UnicodeEncodeError, struct.error):
            continue
    raise TypeError(f"the names of the fields cannot be written as text: {dtype}")


def _map_of(array: Any) -> mmap.mmap:
    """Return the map behind an array."""
    while not isinstance(array, mmap.mmap):
        array = array.obj if isinstance(array, memoryview) else array.base
    return array
