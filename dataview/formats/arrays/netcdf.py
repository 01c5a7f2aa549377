"""NetCDF: version 4 is HDF5, by h5py; dimensions are metadata, attributes tell how to decode."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dataview.formats.arrays.hdf5 import Groups, record_of
from dataview.formats.arrays.netcdf3 import open_netcdf3
from dataview.formats.contents import described, tree
from dataview.formats.handles import Claim
from dataview.plan.build import elementwise
from dataview.plan.fields import NO_META
from dataview.plan.kinds import Record, known_dtype, members
from dataview.plan.node import Node
from dataview.plan.operations import NumpyFunction
from dataview.sources import open_regular

ONLY_A_DIMENSION = b"This is a netCDF dimension but not a netCDF variable"
"""What version 4 calls a dataset that has the length of a dimension, and no data."""


def open_netcdf(path: str, mode: str, claim: Claim | None = None, decode: bool = False) -> Node:
    """Return the record of the variables in a file; the names of their dimensions are metadata.

    With `decode`, numbers are scaled as their attributes say, and what is missing is NaN.
    """
    with open_regular(path) as file:
        is_old = file.read(3) == b"CDF"
    found = open_netcdf3(path, mode, claim) if is_old else record_of(_Groups, path, mode, claim)
    return _each(found, _decoded) if decode else found


class _Groups(Groups):
    """The groups of a file of version 4."""

    def array(self, dataset: Any) -> Node | None:
        """Return the node of a variable, None for a dimension without one."""
        called = dataset.attrs.get("NAME", b"")
        if isinstance(called, bytes) and called.startswith(ONLY_A_DIMENSION):
            return None
        return super().array(dataset)

    def dimensions(self, dataset: Any) -> list[str]:
        """Return the names of the axes: a variable along its own dimension has its name."""
        names = super().dimensions(dataset)
        own = dataset.name.rpartition("/")[2]
        return [own] if len(names) == 1 and not names[0] and dataset.is_scale else names


def _each(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return a record with each array below it changed."""
    if not isinstance(node, Record):
        return change(node)
    parts = {name: _each(part.node, change) for name, part in members(node).items()}
    return tree(parts, node.fields.lost, node.meta)


def _decoded(node: Node) -> Node:
    """Return the numbers that a variable stands for, as an expression of what is stored."""
    if node.dtype is None or node.dtype.kind not in "iuf" or node.shape is None:
        return node
    plain = value = _with_sign(node)
    for name, ufunc in (("scale_factor", np.multiply), ("add_offset", np.add)):
        for number in _numbers(node.meta, name):
            value = elementwise(ufunc, (value, float(number)))[0]
    for name in ("_FillValue", "missing_value"):
        for number in _numbers(node.meta, name):
            if not math.isnan(number):  # which is missing as it is
                own = number if plain is node else np.asarray(number).astype(plain.dtype).item()
                absent = elementwise(np.equal, (plain, own))[0]
                value = elementwise(NumpyFunction("where"), (absent, math.nan, value))[0]
    if value is node:
        return node
    left = {name: told for name, told in node.meta.items() if name not in _APPLIED}
    return described(value.replaced(meta=NO_META), left)


_APPLIED = ("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned")
"""What is applied once: who found it beside the numbers would apply it again."""


def _with_sign(node: Node) -> Node:
    """Return the integers of a variable with the sign of which `_Unsigned` tells.

    Version 3 has no unsigned integers but bytes, and some servers no signed bytes.
    """
    kind = {"true": "u", "false": "i"}.get(str(node.meta.get("_Unsigned")).lower())
    dtype = known_dtype(node)
    if kind is None or dtype.kind not in "iu" or dtype.kind == kind:
        return node
    options = (("dtype", np.dtype(f"{kind}{dtype.itemsize}")), ("casting", "unsafe"))
    found: Node = elementwise(NumpyFunction("astype", options), (node,))[0]
    return found


def _numbers(meta: Mapping[str, Any], name: str) -> list[Any]:
    """Return the numbers that an attribute has."""
    value = meta.get(name, [])
    value = value if isinstance(value, list) else [value]
    return [number for number in value if isinstance(number, (int, float))]
