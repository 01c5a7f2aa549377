"""MATLAB's files: version 5 to 7, and version 7.3, which is HDF5, by h5py.

Shapes are those that MATLAB shows: a vector has two axes.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from dataview.errors import shortened
from dataview.formats.arrays.datasets_in_hdf5 import H5pySource
from dataview.formats.arrays.hdf5 import Groups, record_of
from dataview.formats.arrays.matlab5 import open_matlab5
from dataview.formats.contents import LateSource, NotData, as_meta
from dataview.formats.handles import Claim
from dataview.index import identity
from dataview.plan.build import elementwise, field, stored
from dataview.plan.layout import transposed
from dataview.plan.node import Node
from dataview.sources import ArraySource, Source, open_regular

HDF5 = b"\x89HDF"

NAMES = {
    "double": "f8", "single": "f4", "logical": "?", "char": "U1", "int8": "i1", "int16": "i2",
    "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2", "uint32": "u4", "uint64": "u8",
}  # fmt: skip
"""The classes of arrays by what version 7.3 calls them."""


def open_matlab(path: str, mode: str, claim: Claim | None = None) -> Node:
    """Return the record of the variables in a file.

    Numbers and texts of version 5 are read when they are first needed, structs at once.
    """
    with open_regular(path) as file:
        start = file.read(520)
    if HDF5 in (start[:4], start[512:516]):
        return record_of(_Groups, path, mode, claim)
    return open_matlab5(path, mode, claim)


# --- version 7.3 ---------------------------------------------------------------------------------


class _Groups(Groups):
    """The groups of a file of version 7.3: structs, whose arrays have their axes reversed."""

    def part(self, group: Any, name: str) -> Node | None:
        """Return the node of what a group has under a name; MATLAB's own notes are no data."""
        return None if as_meta(name).startswith("#") else super().part(group, name)

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
