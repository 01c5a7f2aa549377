"""NetCDF of version 3: its header is read without trust, numbers lie in the file as they are."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dataview.errors import shortened
from dataview.formats.contents import as_meta, described, tree, with_arrays
from dataview.formats.handles import Claim
from dataview.plan.build import stored
from dataview.plan.node import Node
from dataview.sources import (
    FileState,
    Header,
    NpyFile,
    NpySource,
    Opening,
    check_array,
    check_writable,
    open_regular,
    state_of,
)

LONGEST_HEADER = 1 << 24
"""A longer header is taken for a broken one."""

DTYPES = ["", "i1", "S1", ">i2", ">i4", ">f4", ">f8", "u1", ">u2", ">u4", ">i8", ">u8"]
"""The types of variables by their numbers."""

DIMENSION, VARIABLE, ATTRIBUTE = 10, 11, 12
"""How lists begin."""

STREAMED = (1 << 32) - 1
"""So many records say that their number is known by the size of the file."""


class _Variable(NamedTuple):
    header: Header
    members: tuple[str, ...]
    dimensions: list[str]
    meta: dict[str, Any]


def open_netcdf3(path: str, mode: str, claim: Claim | None = None) -> Node:
    """Return the record of the variables in a file: its header is read."""
    check_writable(path, mode)
    opening = Opening(path, claim)
    variables, meta, state = _described(path)
    parts = {}
    for name, one in variables.items():
        find = functools.partial(_find, name)
        source = NpySource(NpyFile(path, mode, one.header, opening, state, find), one.members)
        told = one.meta | ({"dimensions": one.dimensions} if one.dimensions else {})
        parts[name] = described(stored(source), told)
    return with_arrays(path, tree(parts, {}, meta))


def _find(name: str, path: str) -> tuple[Header, FileState]:
    variables, _, state = _described(path)
    if name not in variables:
        raise ValueError(f"there is no variable {name!r}")
    return variables[name].header, state


def _described(path: str) -> tuple[dict[str, _Variable], dict[str, Any], FileState]:
    """Return what the header of a file says of its variables and of the file, and its state."""
    with open_regular(path) as file:
        state = state_of(file)
        try:
            header = _HeaderReader(file.read(LONGEST_HEADER), state.size)
            return (*header.read(), state)
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(
                f"{path} is not a NetCDF file, or is broken: {shortened(str(error))}"
            ) from None


class _HeaderReader:
    """Reads a header from its first byte to its last."""

    def __init__(self, raw: bytes, size: int) -> None:
        self.raw, self.size, self.place = raw, size, 4
        if raw[:3] != b"CDF" or raw[3:4] not in (b"\1", b"\2", b"\5"):
            raise ValueError("it does not begin as one of version 3 does")
        self.count_bytes = 8 if raw[3] == 5 else 4
        self.place_bytes = 4 if raw[3] == 1 else 8

    def read(self) -> tuple[dict[str, _Variable], dict[str, Any]]:
        """Return the variables, and the attributes of the file."""
        records = self.number(self.count_bytes)
        dimensions = self.list_of(DIMENSION, lambda: (self.name(), self.number(self.count_bytes)))
        meta = dict(self.list_of(ATTRIBUTE, self.attribute))
        found = self.list_of(VARIABLE, lambda: self.variable(dimensions))
        if len({name for name, *_ in found}) < len(found):
            raise ValueError("two variables have one name")
        variables = {}
        for name, shape, names, dtype, begin, told in found:
            if not shape or shape[0]:
                self.check(name, shape, dtype, begin)
                variables[name] = _Variable(Header(shape, False, dtype, begin), (), names, told)
        variables |= self.in_records(records, [one for one in found if one[1] and not one[1][0]])
        return {name: variables[name] for name, *_ in found}, meta

    def in_records(self, records: int, found: list[Any]) -> dict[str, _Variable]:
        """Return the variables that grow: those of one step lie one after the other."""
        if not found:
            return {}
        start = min(one[4] for one in found)
        sizes = [dtype.itemsize * math.prod(shape[1:]) for _, shape, _, dtype, _, _ in found]
        padded = sizes if len(sizes) == 1 else [-(-size // 4) * 4 for size in sizes]
        step = sum(padded)
        check_array((records, step), np.dtype("u1"))
        if records == STREAMED:
            records = (self.size - start) // max(1, step)
        record = np.dtype(
            {
                "names": [one[0] for one in found],
                "formats": [(one[3], one[1][1:]) for one in found],
                "offsets": [one[4] - start for one in found],
                "itemsize": step,
            }
        )
        self.check("records", (records,), record, start)
        header = Header((records,), False, record, start)
        return {name: _Variable(header, (name,), at, told) for name, _, at, _, _, told in found}

    def check(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], begin: int) -> None:
        """Raise if the data of a variable are not all in the file."""
        check_array(shape, dtype)
        end = begin + dtype.itemsize * math.prod(shape)
        if end > self.size:
            raise ValueError(
                f"it is cut short: {name!r} ends at byte {end}, and it has {self.size}"
            )

    # --- parts ---------------------------------------------------------------------------------

    def bytes(self, count: int) -> bytes:
        """Return so many bytes, and skip those that fill up to a multiple of 4."""
        found = self.raw[self.place : self.place + count]
        if len(found) < count:
            raise ValueError("it ends within its header")
        self.place += -(-count // 4) * 4
        return found

    def number(self, size: int = 4) -> int:
        """Return a number."""
        return int.from_bytes(self.bytes(size), "big")

    def name(self) -> str:
        """Return a name."""
        return self.bytes(self.number(self.count_bytes)).decode()

    def list_of(self, kind: int, read: Callable[[], Any]) -> list[Any]:
        """Return the entries of a list, which may be left out."""
        found, count = self.number(), self.number(self.count_bytes)
        if found != kind and (found or count):
            raise ValueError(f"a list begins with {found} in place of {kind}")
        return [read() for _ in range(count)]

    def dtype(self) -> np.dtype[Any]:
        """Return a type by its number."""
        kind = self.number()
        if not 0 < kind < len(DTYPES):
            raise ValueError(f"there is no type {kind}")
        return np.dtype(DTYPES[kind])

    def attribute(self) -> tuple[str, Any]:
        """Return the name and the value of an attribute."""
        name, dtype = self.name(), self.dtype()
        raw = self.bytes(self.number(self.count_bytes) * dtype.itemsize)
        if dtype.kind == "S":
            return name, as_meta(raw)
        values = np.frombuffer(raw, dtype)
        return name, as_meta(values[0] if len(values) == 1 else values)

    def variable(self, dimensions: list[tuple[str, int]]) -> tuple[Any, ...]:
        """Return name, shape, names of dimensions, dtype, place and attributes of a variable."""
        name = self.name()
        axes = [self.number(self.count_bytes) for _ in range(self.number(self.count_bytes))]
        if any(axis >= len(dimensions) for axis in axes) or len(axes) > 64:
            raise ValueError(f"variable {name!r} has a dimension that is not there")
        meta = dict(self.list_of(ATTRIBUTE, self.attribute))
        dtype = self.dtype()
        self.number(self.count_bytes)  # its size, which does not hold for large ones
        begin = self.number(self.place_bytes)
        shape = tuple(dimensions[axis][1] for axis in axes)
        if 0 in shape[1:]:
            raise ValueError(f"variable {name!r} grows along an axis that is not the first")
        return name, shape, [dimensions[axis][0] for axis in axes], dtype, begin, meta
