"""MATLAB's files: version 5 to 7 by SciPy, version 7.3, which is HDF5, by h5py.

Shapes are those that MATLAB shows: a vector has two axes.
"""

from __future__ import annotations

import math
import os
import struct
import sys
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dataview.errors import import_library, shortened
from dataview.formats.contents import (
    DEEPEST,
    NotData,
    as_meta,
    tree,
    with_arrays,
    without_arrays,
)
from dataview.formats.handles import Claim
from dataview.formats.hdf5 import Groups, H5pySource, record_of
from dataview.formats.late import LateSource
from dataview.index import identity
from dataview.plan.build import elementwise, field, stored
from dataview.plan.layout import transposed
from dataview.plan.node import Node
from dataview.sources import ArraySource, Opening, Source, check_array, open_regular

HDF5 = b"\x89HDF"

CLASSES = {
    6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8",
}  # fmt: skip
"""The classes of numbers by what version 5 calls them."""

NAMES = {
    "double": "f8", "single": "f4", "logical": "?", "char": "U1", "int8": "i1", "int16": "i2",
    "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2", "uint32": "u4", "uint64": "u8",
}  # fmt: skip
"""The same by what version 7.3 calls them."""

STRUCT, CHAR, SPARSE = 2, 4, 5

OTHERS = {
    1: "a cell array", 3: "an object", 16: "a function", 17: "an object", 18: "an object",
}  # fmt: skip

LARGEST_STRUCT = 1 << 28
"""Structs, which are read when a file is opened, may have so many bytes."""

MOST_TIMES = 1100
"""Deflating makes nothing smaller than by this factor: who promises more than that lies."""

READ_IT = "which has no shape of its own; read it by scipy.io.loadmat"


def open_matlab(path: str, mode: str, claim: Claim | None = None) -> Node:
    """Return the record of the variables in a file.

    Numbers and texts of version 5 are read when they are first needed, structs at once.
    """
    with open_regular(path) as file:
        start = file.read(520)
    if HDF5 in (start[:4], start[512:516]):
        return record_of(_Groups, path, mode, claim)
    if mode != "r":
        raise ValueError(
            f"{path}: a MATLAB file before version 7.3 cannot be changed in place; open it with "
            f"mode 'r', or have MATLAB save it with -v7.3; got {mode!r}"
        )
    if start[126:128] not in (b"IM", b"MI"):
        raise ValueError(
            f"{path} is not a MATLAB file of version 5 or later; scipy.io.loadmat reads version 4"
        )
    order = "<" if start[126:128] == b"IM" else ">"
    opening = Opening(path, claim)
    parts: dict[str, Node] = {}
    lost: dict[str, str] = {}
    for name, variable in _variables(path, order):
        try:
            parts[name] = _node(opening, name, variable)
        except NotData as reason:
            lost[name] = str(reason)
    return with_arrays(path, tree(parts, lost, {}))


# --- version 5 -----------------------------------------------------------------------------------


class _Variable(NamedTuple):
    """What version 5 says of a variable before its data, which take `size` bytes unpacked."""

    kind: int
    is_complex: bool
    is_logical: bool
    shape: tuple[int, ...]
    size: int


def _variables(path: str, order: str) -> Iterator[tuple[str, _Variable]]:
    """Yield the name and the description of each variable; no data are read."""
    with open_regular(path) as file:
        end, place = os.fstat(file.fileno()).st_size, 128
        while place < end:
            try:
                file.seek(place)
                kind, size = struct.unpack(f"{order}2I", file.read(8))
                place += 8 + size
                if place > end:
                    raise ValueError(f"the variable at byte {place - 8 - size} is cut short")
                if kind == 15:
                    raw = zlib.decompressobj().decompress(file.read(min(size, 1 << 16)), 1 << 12)
                    kind, whole = struct.unpack(f"{order}2I", raw[:8])
                    if whole > MOST_TIMES * (size + 1):
                        raise ValueError(f"{size} bytes cannot be unpacked to {whole}")
                    size, raw = whole, raw[8:]
                else:
                    raw = file.read(min(size, 1 << 12))
                if kind != 14:
                    raise ValueError(f"there is an element of the kind {kind}, which is no array")
                name, variable = _described(raw, order, size)
            except (ValueError, struct.error, zlib.error, IndexError) as error:
                raise ValueError(
                    f"{path} is not a MATLAB file, or is broken: {shortened(str(error))}"
                ) from None
            if name:  # one without a name holds MATLAB's own notes
                yield name, variable


def _described(raw: bytes, order: str, size: int) -> tuple[str, _Variable]:
    flags, place = _element(raw, 0, order)
    axes, place = _element(raw, place, order)
    name, _ = _element(raw, place, order)
    (told,) = struct.unpack(f"{order}I", flags[:4])
    shape = struct.unpack(f"{order}{len(axes) // 4}i", axes)
    if min(shape, default=-1) < 0:
        raise ValueError(f"{shape} is not a shape")
    variable = _Variable(told & 255, bool(told & 0x800), bool(told & 0x200), shape, size)
    return name.decode("latin-1"), variable


def _element(raw: bytes, place: int, order: str) -> tuple[bytes, int]:
    """Return the bytes of an element, and where the next one begins."""
    kind, size = struct.unpack(f"{order}2I", raw[place : place + 8])
    if kind >> 16:  # a small one, within its first 8 bytes
        size, start, end = kind >> 16, place + 4, place + 8
    else:
        start, end = place + 8, place + 8 + -(-size // 8) * 8
    if start + size > len(raw):
        raise ValueError("a variable ends within its description")
    return raw[start : start + size], end


def _node(opening: Opening, name: str, variable: _Variable) -> Node:
    if variable.kind in OTHERS:
        raise NotData(f"is {OTHERS[variable.kind]}, {READ_IT}")
    if variable.kind in (STRUCT, SPARSE):
        if variable.size > LARGEST_STRUCT:
            raise NotData(
                f"has {variable.size} bytes, which would be read at once; read it by "
                "scipy.io.loadmat, or have MATLAB save it with -v7.3"
            )
        return _converted(_loaded(opening.path, name))
    shape = variable.shape
    if variable.kind == CHAR:
        length = shape[-1]
        shape = (0,) if 0 in shape else shape[:-1]
        dtype: np.dtype[Any] = np.dtype(f"U{max(1, length)}")
    elif variable.kind in CLASSES:
        dtype = np.dtype("?" if variable.is_logical else CLASSES[variable.kind])
        if variable.is_complex:
            dtype = np.result_type(dtype, np.complex64)
    else:
        raise NotData(f"is of the unknown class {variable.kind}")
    try:
        check_array(variable.shape, dtype)
    except ValueError as error:
        raise NotData(f"is broken: {error}") from None
    if math.prod(variable.shape) > variable.size:
        raise NotData(f"has {variable.size} bytes, which are too few for {variable.shape}")
    return stored(VariableSource(name, shape, dtype, opening))


class VariableSource(LateSource):
    """A variable of numbers or texts, which SciPy reads whole."""

    __slots__ = ("name",)

    def __init__(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], opening: Opening
    ) -> None:
        super().__init__(shape, dtype, opening)
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return VariableSource, (self.name, self.shape, self.dtype, self.opening)

    def loaded(self) -> Source:
        """Read the variable."""
        found = _loaded(self.opening.path, self.name)
        told = getattr(found, "shape", None), getattr(found, "dtype", self.dtype)
        fits = self.dtype == bool or np.can_cast(told[1], self.dtype, "safe")
        if told[0] != self.shape or not fits:
            raise ValueError(
                f"variable {self.name!r} of {self.opening.path} is {told[1]} of shape {told[0]}, "
                f"and its description promises {self.dtype} of shape {self.shape}"
            )
        return ArraySource(found.astype(self.dtype))  # numbers may be stored in fewer bytes

    def describe(self) -> str:
        """Name the file and the variable."""
        return f"{os.path.basename(self.opening.path)}/{self.name} (r)"


def _loaded(path: str, name: str) -> Any:
    """Read one variable by SciPy."""
    scipy_io = import_library("scipy.io", "dataview[sparse]")
    try:
        return scipy_io.loadmat(path, variable_names=[name], struct_as_record=False)[name]
    except Exception as error:  # of any class: the file may say anything
        raise ValueError(
            f"variable {name!r} of {path} cannot be read: {type(error).__name__}: "
            f"{shortened(str(error))}"
        ) from error


def _converted(found: Any, depth: int = 0) -> Node:
    """Return the node of what SciPy has read."""
    if depth > DEEPEST:
        raise NotData(f"lies more than {DEEPEST} structs deep")
    if hasattr(found, "tocsc"):
        matrix = found.tocsc()
        arrays = {name: getattr(matrix, name) for name in ("data", "indices", "indptr")}
        named = {name: stored(ArraySource(array)) for name, array in arrays.items()}
        return tree(named, {}, {"shape": as_meta(np.array(matrix.shape))})
    if not isinstance(found, np.ndarray):
        raise NotData(f"is no array: {type(found).__name__}")
    if not found.dtype.hasobject:
        return stored(ArraySource(found), writable=False)
    inner: Any = found.flat[0] if found.size == 1 and found.dtype == object else None
    if not hasattr(inner, "_fieldnames"):
        raise NotData(f"is an array of shape {found.shape} of other things, {READ_IT}")
    parts: dict[str, Node] = {}
    lost: dict[str, str] = {}
    for name in inner._fieldnames:
        try:
            parts[name] = _converted(getattr(inner, name), depth + 1)
        except NotData as reason:
            lost[name] = str(reason)
    struct_found = tree(parts, lost, {})
    if not parts:
        raise NotData(without_arrays(struct_found))
    return struct_found


# --- version 7.3 ---------------------------------------------------------------------------------


class _Groups(Groups):
    """The groups of a file of version 7.3: structs, whose arrays have their axes reversed."""

    def part(self, group: Any, name: str) -> Node | None:
        """Return the node of what a group has under a name; MATLAB's own notes are no data."""
        return None if name.startswith("#") else super().part(group, name)

    def array(self, dataset: Any) -> Node | None:
        """Return the node of an array."""
        if _class_of(dataset) == "cell":
            raise NotData("is a cell array, which has no shape of its own; read it by h5py")
        return super().array(dataset)

    def data(self, dataset: Any, dtype: np.dtype[Any]) -> Node:
        """Return the node of an array as MATLAB shows it."""
        kind = _class_of(dataset)
        if dataset.attrs.get("MATLAB_empty"):
            return _empty(dataset, kind)
        node = super().data(dataset, dtype)
        if kind == "char" and dtype.kind in "iu":
            return stored(CharSource(H5pySource(dataset, self.file)))
        if dtype.names == ("real", "imag"):
            imaginary = elementwise(np.multiply, (field(node, "imag"), 1j))[0]
            node = elementwise(np.add, (field(node, "real"), imaginary))[0]
        if kind == "logical":
            node = elementwise(np.not_equal, (node, 0))[0]
        return transposed(node) if node.shape is not None else node


def _class_of(dataset: Any) -> Any:
    try:
        return as_meta(dataset.attrs.get("MATLAB_class", ""))
    except (OSError, TypeError, ValueError) as error:
        raise NotData(f"has a class that cannot be read: {shortened(str(error))}") from None


def _empty(dataset: Any, kind: str) -> Node:
    """Return an array without elements, whose dataset has its shape."""
    shape = tuple(map(int, dataset[:8].flat))
    if 0 not in shape or kind not in NAMES:
        raise NotData(f"is an empty {kind or 'array'} of shape {shape}")
    return stored(ArraySource(np.empty(shape, NAMES[kind])), writable=False)


class CharSource(LateSource):
    """Texts by the numbers of their characters, which lie along the first axis of a dataset."""

    __slots__ = ("codes",)

    def __init__(self, codes: H5pySource) -> None:
        length, *others = codes.shape or (1,)
        dtype: np.dtype[Any] = np.dtype(f"U{max(1, length)}")
        super().__init__(tuple(reversed(others)), dtype, codes.file)
        self.codes = codes

    def __reduce__(self) -> tuple[Any, ...]:
        return CharSource, (self.codes,)

    def loaded(self) -> Source:
        """Read the texts."""
        codes = self.codes.read(identity(self.codes.shape), {}).T.astype(np.uint32, order="C")
        if codes.max(initial=0) > sys.maxunicode:
            raise ValueError(f"{self.describe()} has numbers that are no characters")
        return ArraySource(codes.view(self.dtype).reshape(self.shape))

    def describe(self) -> str:
        """Name the file and the texts."""
        return self.codes.describe()
