"""The header of `.npy` files: read without trust, and written as NumPy writes it."""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import math
import os
import re
import struct
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from dataview.errors import shortened
from dataview.index import ENDLESS
from dataview.sources.file_access import open_regular

SETTLED_NS = 100_000_000
"""A change this long after another has a later time for sure: the clocks of files are coarse."""

LONGEST_HEADER = 1 << 20
"""A longer header is taken for a broken one: to parse it could take all memory."""


class Header(NamedTuple):
    """What the header of a file says; the data begins at `offset`."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int

    def grew_from(self, other: Header) -> bool:
        """Whether the file is one of the other header to which rows were added, perhaps none."""
        if self.fortran or not self.shape or not other.shape:
            return self == other
        return self._replace(shape=other.shape) == other and (
            self.shape[0] >= other.shape[0] and self.shape[1:] == other.shape[1:]
        )

    @property
    def end(self) -> int:
        """Where the data ends in the file."""
        return self.offset + self.dtype.itemsize * math.prod(self.shape)


class FileState(NamedTuple):
    """What the operating system said of a file when its header was read.

    The time is -1 if the next change may leave it the same.
    """

    device: int
    inode: int
    size: int
    time: int


FORMATS = {(1, 0): ("<H", "latin-1"), (2, 0): ("<I", "latin-1"), (3, 0): ("<I", "utf-8")}
"""How each version of the format holds the length and the text of its header."""

ALIGNMENT = 64
"""The data begins at a multiple of this."""

GROWTH = 21
"""The width that NumPy reserves for the first length, so that rows can be added in place."""


class HoldsObjects(ValueError):
    """An array of Python objects, which only a pickle can hold."""


def read_header(path: str) -> tuple[Header, FileState]:
    """Return the header of a file, checked against its size, and the state of the file."""
    with open_regular(path) as file:
        seen = state_of(file)
        return header_in(file, path, 0, seen.size), seen


def start_of(path: str, header: Header, state: FileState) -> bytes | None:
    """Return what a file has before its data, None if that is not this header any more."""
    with open_regular(path) as file:
        found: bytes = file.read(header.offset)
    return found if header_in(io.BytesIO(found), path, 0, state.size) == header else None


def state_of(file: Any) -> FileState:
    """Return the state of an open file."""
    return state_at(file.fileno())


def state_at(place: str | int) -> FileState:
    """Return the state of what is at a path, or of the open file of a handle."""
    now = time.time_ns()
    found = os.stat(place)
    # The next change of a file that has just changed may leave its time the same.
    settled = abs(now - found.st_mtime_ns) > SETTLED_NS
    modified = found.st_mtime_ns if settled else -1
    return FileState(found.st_dev, found.st_ino, found.st_size, modified)


def header_in(file: Any, where: str, place: int, size: int) -> Header:
    """Read the header of the array that begins here, at a place in a file, and has `size` bytes.

    `where` says in errors which array it is.
    """
    try:
        header = _header_at(file, place, size)
    except ValueError as error:
        raise ValueError(f"{where} is not an .npy file: {shortened(str(error))}") from None
    if header.dtype.hasobject:
        raise HoldsObjects(
            f"{where} holds pickled Python objects, which are loaded only if they are asked for: "
            "they can run code; dv.open(path, pickle=True) loads them if you trust who made them"
        )
    if size < header.end - place:
        raise ValueError(
            f"{where} is cut short: its header promises {header.end - place} bytes, it has {size}"
        )
    return header


def _header_at(file: Any, place: int, size: int) -> Header:
    start = file.read(8)
    version = (start[6], start[7]) if len(start) == 8 else (0, 0)
    if start[:6] != npy.MAGIC_PREFIX or version not in FORMATS:
        raise ValueError("it does not begin as one of version 1, 2 or 3 does")
    form, encoding = FORMATS[version]
    begin = 8 + struct.calcsize(form)
    counted = file.read(begin - 8)
    if len(counted) < begin - 8:
        raise ValueError("it ends before its header")
    (length,) = struct.unpack(form, counted)
    if length > min(size - begin, LONGEST_HEADER):
        raise ValueError(f"its header would have {length} bytes")
    return Header(*_parsed(file.read(length), encoding), place + begin + length)


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
    check_array(shape, dtype)
    return shape, fortran, dtype


def check_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise if no array can have a shape and a dtype."""
    if len(shape) > 64 or math.prod(n or 1 for n in shape) * (dtype.itemsize or 1) >= ENDLESS:
        raise ValueError(f"no array can have the shape {shape} of {dtype}")


def _literal(text: str) -> Any:
    # Python 2 wrote lengths as 10L. Quoted names are matched first, to be left as they are.
    other = re.sub(r"""('[^']*'|"[^"]*")|(\d)L\b""", lambda found: found[1] or found[2], text)
    try:
        with contextlib.suppress(SyntaxError):
            return ast.literal_eval(text)
        return ast.literal_eval(other)
    except (SyntaxError, MemoryError, RecursionError, TypeError) as error:
        raise ValueError(f"its header cannot be parsed: {error}") from None


def header_text(header: Header) -> str:
    """Return what the data of a file is, in words."""
    return f"{shortened(str(header.dtype))} of shape {header.shape}" + (
        " in Fortran order" * header.fortran
    )


def header_bytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    r"""Return the header of a C-ordered array, as NumPy writes it; the array's bytes follow.

    >>> header_bytes((3, 2), np.dtype("f4"))[10:69]
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }"
    """
    text = _text_of(shape, dtype)
    text += " " * (GROWTH - len(str(int(shape[0]))) if shape else 0)
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


def header_in_place(path: str, header: Header) -> bytes:
    """Return a header that takes the room of the one in a file, so that the data stay in place."""
    with open_regular(path) as file:
        start: bytes = file.read(8)
    form, encoding = FORMATS[start[6], start[7]]
    room = header.offset - len(start) - struct.calcsize(form)
    raw = _text_of(header.shape, header.dtype).encode(encoding)
    if len(raw) >= room:
        raise ValueError(
            f"{path} has no room in its header for the number of more rows; save the view anew by "
            "_save, and append to that file"
        )
    return start + struct.pack(form, room) + raw.ljust(room - 1) + b"\n"


def _text_of(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    """Return the text of a header, or raise if it would be read as another dtype."""
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
    return f"{{'descr': {described!r}, 'fortran_order': False, 'shape': {lengths!r}, }}"
