"""MATLAB's files of version 5 to 7, read without trust: SciPy's reader crashes at broken ones."""

from __future__ import annotations

import math
import os
import struct
import sys
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dataview.errors import shortened
from dataview.formats.contents import (
    DEEPEST,
    LateSource,
    NotData,
    tree,
    with_arrays,
    without_arrays,
)
from dataview.formats.handles import Claim
from dataview.plan.build import stored
from dataview.plan.node import Node
from dataview.sources import ArraySource, Opening, Source, again, check_array, open_regular

TYPES = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
    16: "u1", 17: "u2", 18: "u4",
}  # fmt: skip
"""How the numbers of an element are stored; the last three are characters."""

ARRAY, PACKED, UTF8 = 14, 15, 16
"""Elements that hold an array, one that is compressed, characters of one or more bytes."""

CLASSES = {
    6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8",
}  # fmt: skip
"""The classes of numbers, which may be stored as smaller ones."""

STRUCT, CHAR, SPARSE = 2, 4, 5

OTHERS = {
    1: "a cell array", 3: "an object", 16: "a function", 17: "an object", 18: "an object",
}  # fmt: skip

LARGEST_STRUCT = 1 << 28
"""Structs, which are read when a file is opened, may have so many bytes."""

DESCRIPTION = 1 << 12
"""No description of a variable is longer."""

MOST_TIMES = 1100
"""Deflating makes nothing smaller than by this factor: who promises more than that lies."""

_BROKEN = (ValueError, TypeError, struct.error, zlib.error)
"""What is raised where the bytes are not what they should be."""


class _Variable(NamedTuple):
    """What stands before the data of a variable: `begin` is where they are after that."""

    name: str
    kind: int
    is_complex: bool
    is_logical: bool
    shape: tuple[int, ...]
    begin: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the array."""
        if self.kind == CHAR:
            return np.dtype(f"U{max(1, self.shape[-1])}")
        if self.is_logical:
            return np.dtype(bool)
        dtype: np.dtype[Any] = np.dtype(CLASSES.get(self.kind, "f8"))
        return np.result_type(dtype, np.complex64) if self.is_complex else dtype


class _Place(NamedTuple):
    """Where the element of a variable is in a file, and how large it is when it is unpacked."""

    start: int
    size: int
    order: str


def open_matlab5(path: str, mode: str, claim: Claim | None = None) -> Node:
    """Return the record of the variables in a file: their descriptions are read, and structs."""
    if mode != "r":
        raise ValueError(
            f"{path}: a MATLAB file before version 7.3 cannot be changed in place; open it with "
            f"mode 'r', or have MATLAB save it with -v7.3; got {mode!r}"
        )
    with open_regular(path) as file:
        mark = file.read(128)[126:]
    if mark not in (b"IM", b"MI"):
        raise ValueError(
            f"{path} is not a MATLAB file of version 5 or later; scipy.io.loadmat reads version 4"
        )
    opening = Opening(path, claim)
    parts: dict[str, Node] = {}
    lost: dict[str, str] = {}
    for variable, place in _variables(path, "<" if mark == b"IM" else ">"):
        try:
            parts[variable.name] = _node(opening, variable, place)
        except NotData as reason:
            lost[variable.name] = str(reason)
        except _BROKEN as error:
            lost[variable.name] = f"is broken: {shortened(str(error))}"
    return with_arrays(path, tree(parts, lost, {}))


def _variables(path: str, order: str) -> Iterator[tuple[_Variable, _Place]]:
    """Yield the description and the place of each variable."""
    start = 128
    with open_regular(path) as file:
        end = os.fstat(file.fileno()).st_size
        while start < end:
            try:
                raw, size, start_of_next = _read(file, start, order, DESCRIPTION)
                if start_of_next > end:
                    raise ValueError(f"the variable at byte {start} is cut short")
                variable = _described(raw, order)
            except _BROKEN as error:
                raise ValueError(
                    f"{path} is not a MATLAB file, or is broken: {shortened(str(error))}"
                ) from None
            if variable.name:  # one without a name holds MATLAB's own notes
                yield variable, _Place(start, size, order)
            start = start_of_next


def _read(file: Any, start: int, order: str, most: int) -> tuple[bytes, int, int]:
    """Return the first bytes of a variable, how many it has, and where the next one begins."""
    file.seek(start)
    kind, size = struct.unpack(f"{order}2I", file.read(8))
    following = start + 8 + size
    if kind == PACKED:
        packed = file.read(min(size, most + (1 << 16)))
        raw = zlib.decompressobj().decompress(packed, most + 8)
        kind, whole = struct.unpack(f"{order}2I", raw[:8])
        if whole > MOST_TIMES * (size + 1):
            raise ValueError(f"{size} bytes cannot be unpacked to {whole}")
        raw, size = raw[8:], whole
    else:
        raw = file.read(min(size, most))
    if kind != ARRAY:
        raise ValueError(f"there is an element of the kind {kind}, which is no array")
    return raw[:size], size, following


# --- elements --------------------------------------------------------------------------------


def _element(raw: bytes, place: int, order: str) -> tuple[int, bytes, int]:
    """Return the kind and the bytes of an element, and where the next one begins."""
    kind, size = struct.unpack(f"{order}2I", raw[place : place + 8])
    if kind >> 16:  # a small one, within its first 8 bytes
        kind, size, start, end = kind & 0xFFFF, kind >> 16, place + 4, place + 8
    else:
        start, end = place + 8, place + 8 + -(-size // 8) * 8
    if start + size > len(raw):
        raise ValueError("it ends within an element")
    return kind, raw[start : start + size], end


def _described(raw: bytes, order: str) -> _Variable:
    """Return what stands before the data of a variable."""
    _, flags, place = _element(raw, 0, order)
    _, axes, place = _element(raw, place, order)
    _, name, place = _element(raw, place, order)
    (told,) = struct.unpack(f"{order}I", flags[:4])
    shape = struct.unpack(f"{order}{len(axes) // 4}i", axes)
    if min(shape, default=-1) < 0:
        raise ValueError(f"{shape} is not a shape")
    return _Variable(
        name.decode("latin-1"), told & 255, bool(told & 0x800), bool(told & 0x200), shape, place
    )


def _numbers(raw: bytes, place: int, order: str) -> tuple[np.ndarray, int]:
    """Return the numbers of an element, and where the next one begins."""
    kind, data, following = _element(raw, place, order)
    if kind == UTF8:
        return np.array([ord(char) for char in data.decode()], np.uint32), following
    if kind not in TYPES:
        raise ValueError(f"there is an element of the kind {kind} in place of numbers")
    return np.frombuffer(data, np.dtype(f"{order}{TYPES[kind]}")), following


def _array(variable: _Variable, raw: bytes, order: str) -> np.ndarray:
    """Return the array of a variable of numbers or characters."""
    found, place = _numbers(raw, variable.begin, order)
    if len(found) != math.prod(variable.shape):
        raise ValueError(f"it has {len(found)} elements, which its shape {variable.shape} has not")
    found = found.reshape(variable.shape, order="F")
    if variable.kind == CHAR:
        codes = found.astype(np.uint32, order="C")
        if codes.max(initial=0) > sys.maxunicode:
            raise ValueError("it has numbers that are no characters")
        if not codes.size:
            return np.empty(0, variable.dtype)
        return codes.view(variable.dtype)[..., 0]
    if variable.is_complex:
        imaginary, _ = _numbers(raw, place, order)
        if len(imaginary) != found.size:
            raise ValueError("its imaginary parts are not as many as its real ones")
        found = found + 1j * imaginary.reshape(variable.shape, order="F")
    return found.astype(variable.dtype)


# --- nodes -----------------------------------------------------------------------------------


def _node(opening: Opening, variable: _Variable, place: _Place) -> Node:
    if variable.kind in (STRUCT, SPARSE):
        if place.size > LARGEST_STRUCT:
            raise NotData(
                f"has {place.size} bytes, which would be read at once; read it by "
                "scipy.io.loadmat, or have MATLAB save it with -v7.3"
            )
        return _inner(variable, _whole(opening.path, place), place.order, 0)
    _check_kind(variable)
    if math.prod(variable.shape) > place.size:
        raise NotData(f"has {place.size} bytes, which are too few for {variable.shape}")
    check_array(variable.shape, variable.dtype)
    return stored(VariableSource(opening, variable, place))


def _check_kind(variable: _Variable) -> None:
    """Raise if a variable is of a class that has neither numbers nor characters."""
    if variable.kind != CHAR and variable.kind not in CLASSES:
        what = OTHERS.get(variable.kind, f"of the unknown class {variable.kind}")
        raise NotData(f"is {what}, which has no shape of its own; read it by scipy.io.loadmat")


def _inner(variable: _Variable, raw: bytes, order: str, depth: int) -> Node:
    """Return the node of a variable in memory: of a struct, the record of its fields."""
    if depth > DEEPEST:
        raise NotData(f"lies more than {DEEPEST} structs deep")
    if variable.kind == SPARSE:
        return _sparse(variable, raw, order)
    if variable.kind != STRUCT:
        _check_kind(variable)
        return stored(ArraySource(_array(variable, raw, order)), writable=False)
    if math.prod(variable.shape) != 1:
        raise NotData(f"is an array of structs, of shape {variable.shape}")
    parts: dict[str, Node] = {}
    lost: dict[str, str] = {}
    (length,), place = _numbers(raw, variable.begin, order)
    _, names, place = _element(raw, place, order)
    if not 0 < length <= len(names):
        raise ValueError("its fields have no names")
    for start in range(0, len(names), int(length)):
        name = names[start : start + int(length)].partition(b"\0")[0].decode("latin-1")
        _, body, place = _element(raw, place, order)
        try:
            if not body:  # the empty array
                parts[name] = stored(ArraySource(np.empty((0, 0))), writable=False)
            else:
                parts[name] = _inner(_described(body, order), body, order, depth + 1)
        except NotData as reason:
            lost[name] = str(reason)
        except _BROKEN as error:
            lost[name] = f"is broken: {shortened(str(error))}"
    found = tree(parts, lost, {})
    if not parts:
        raise NotData(without_arrays(found))
    return found


def _sparse(variable: _Variable, raw: bytes, order: str) -> Node:
    """Return the arrays of a sparse matrix, stored by its columns."""
    rows, place = _numbers(raw, variable.begin, order)
    starts, place = _numbers(raw, place, order)
    data, place = _numbers(raw, place, order)
    if variable.is_complex:
        data = data + 1j * _numbers(raw, place, order)[0]
    count = int(starts[-1]) if len(starts) else 0
    if not 0 <= count <= min(len(rows), len(data)):
        raise ValueError(f"it has {len(data)} elements, and says that they are {count}")
    dtype = bool if variable.is_logical else np.result_type(data, np.float64)
    arrays = {"data": data[:count].astype(dtype), "indices": rows[:count], "indptr": starts}
    named = {
        name: stored(ArraySource(array.astype(array.dtype.newbyteorder("="))), writable=False)
        for name, array in arrays.items()
    }
    return tree(named, {}, {"shape": list(variable.shape)})


class VariableSource(LateSource):
    """A variable of numbers or characters, which is read whole."""

    __slots__ = ("place", "variable")

    def __init__(self, opening: Opening, variable: _Variable, place: _Place) -> None:
        shape = variable.shape
        if variable.kind == CHAR:
            shape = (0,) if 0 in shape else shape[:-1]
        super().__init__(shape, variable.dtype, opening)
        self.variable, self.place = variable, place

    def __reduce__(self) -> tuple[Any, ...]:
        return VariableSource, (self.opening, self.variable, self.place)

    def loaded(self) -> Source:
        """Read the variable."""
        path, order = self.opening.path, self.place.order
        try:
            raw = _whole(path, self.place)
            if _described(raw, order) != self.variable:
                raise ValueError("it has changed since the file was opened; open it again")
            return ArraySource(_array(self.variable, raw, order))
        except _BROKEN as error:
            raise ValueError(
                f"variable {self.variable.name!r} of {path} cannot be read: {shortened(str(error))}"
            ) from None

    def describe(self) -> str:
        """Name the file and the variable."""
        return f"{os.path.basename(self.opening.path)}/{self.variable.name} (r)"

    def in_file(self) -> tuple[str, tuple[str, ...]]:
        """Return the file, and the name of the variable."""
        return f"{os.path.basename(self.opening.path)} (r)", (self.variable.name,)


def _whole(path: str, place: _Place) -> bytes:
    """Return all bytes of a variable."""
    with again(open_regular, path) as file:
        raw, size, _ = _read(file, place.start, place.order, place.size)
    if size != place.size:
        raise ValueError("it has changed since the file was opened; open it again")
    if len(raw) < place.size:
        raise ValueError(f"it has {len(raw)} bytes, and should have {place.size}")
    return raw
