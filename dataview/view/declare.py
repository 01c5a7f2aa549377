"""Fields as a user declares them: windows on a node, fields with data of their own, metadata."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from dataview.compute import evaluate
from dataview.errors import unknown_field
from dataview.exchange import node_of, numbered
from dataview.plan.build import record, stored, with_fields
from dataview.plan.fields import (
    NO_FIELDS,
    Attached,
    Field,
    Fields,
    Window,
    WindowSpec,
    check_declared,
    check_name,
    lay_window,
)
from dataview.plan.kinds import Driven, Record, known_shape, members
from dataview.plan.node import Node
from dataview.plan.symbols import placeholder
from dataview.plan.walk import rebuilt
from dataview.samples import length_of
from dataview.sources import ArraySource

NOTHING: Any = ...
"""The default of the data argument, as `help` shows it."""


def construct(
    data: Any, fields: Mapping[str, Any], rank: int | None, length: float | None, driver: str | None
) -> Node:
    """Return the node of data with fields on it, or of members alone."""
    for name in fields:
        if name.startswith("_"):
            raise TypeError(
                f"View() has no option {name!r}; a field's name has no leading underscore"
            )
    if length is not None:
        node = _numbered(data, fields, rank, length)
    elif data is NOTHING:
        if not fields:
            raise TypeError("a view is made of data, of fields, or of both; got neither")
        node = record({name: _member(name, part) for name, part in fields.items()}, rank)
    else:
        node = _windowed(_of_data(data, rank), fields)
    if driver is None:
        return node
    if not isinstance(node, Record):
        raise TypeError("_driver= names one of several members; the data is one array")
    return _driven(node, driver)


def _numbered(data: Any, fields: Mapping[str, Any], rank: int | None, length: float) -> Node:
    if not callable(data):
        given = "no data" if data is NOTHING else repr(data)
        raise TypeError(f"_length= goes with a function of the sample's number; got {given}")
    if fields or rank is not None:
        raise TypeError(
            "fields and _rank= need data of known shape; first read a sample: "
            "dv.View(dv.View(function, _length=n)._probe(), ...)"
        )
    return numbered(data, length)


def _of_data(data: Any, rank: int | None) -> Node:
    if isinstance(data, (str, bytes, os.PathLike)):
        raise TypeError(f"to open a file, use dv.open({data!r})")
    node = node_of(data)
    if rank is None:
        return node
    if not isinstance(node, Record):
        raise TypeError("_rank= goes with members; the data is one array")
    return record({name: part.node for name, part in members(node).items()}, rank)


def _member(name: str, part: Any) -> Node:
    if isinstance(part, (slice, WindowSpec)):
        raise TypeError(f"{name}={part!r} is a window, and there is no data to lay it on")
    return node_of(part)


def _windowed(node: Node, specs: Mapping[str, Any]) -> Node:
    """Return the node with fields: windows on its last axes, or fields with their own data."""
    if not specs:
        return node
    fields = node.fields
    shape = known_shape(node)
    for name, spec in specs.items():
        if isinstance(spec, Node) or isinstance(node, Record):
            node = attach(with_fields(node, fields), check_name(name), node_of(spec))
            fields = node.fields
            continue
        fields = fields.with_field(check_name(name), lay_window(name, spec, shape))
    return with_fields(node, fields)


def symbol(name: str, shape: Any, dtype: Any, windows: Mapping[str, Any]) -> Node:
    """Return a symbol with windows on its last axes."""
    node = placeholder(name, shape, dtype, NO_FIELDS)
    fields = NO_FIELDS
    for part, window in windows.items():
        check_declared(part)
        laid = lay_window(part, window, tuple(n or 0 for n in node.extents))
        if any(node.extents[axis] is None for axis in laid.positions):
            raise ValueError(
                f"field {part!r} of symbol {name!r} is a window on an axis of unknown length; "
                "declare the length"
            )
        fields = fields.with_field(part, laid)
    return with_fields(node, fields)


def attach(node: Node, name: str, part: Node) -> Node:
    """Return the node with one more field, as a member of a record or beside any other data."""
    if isinstance(node, Record):
        others = {other: place.node for other, place in members(node).items()}
        return record(others | {name: part}, node.rank)
    if isinstance(node, Driven):
        fields = node.fields.with_field(name, Attached(part, None))
        return Driven(part if name == node.driver else node.node, fields, node.driver)
    follows = (node.shape or ())[:1] == (part.shape or ())[:1] != ()
    axes = (0,) if follows else () if node.shape == () else None
    old = node.fields.named.get(name)
    replaces = old.replaces if isinstance(old, Attached) else old is not None
    return with_fields(node, node.fields.with_field(name, Attached(part, axes, replaces)))


def _driven(node: Record, driver: str) -> Node:
    """Return the fields of a record, of which the driver is the data of the whole."""
    if driver not in node.fields:
        raise unknown_field(driver, node.fields, "_driver=")
    named = {name: Attached(part.node, None) for name, part in members(node).items()}
    return Driven(named[driver].node, Fields(named), driver)


def with_meta(node: Node, meta: Mapping[str, Mapping[str, Any]]) -> Node:
    """Return the node with metadata by field; that of the whole has the name ''."""
    for name, items in meta.items():
        kept = MappingProxyType(dict(items))
        if not name:
            node = node.replaced(meta=kept)
            continue
        if name not in node.fields:
            raise unknown_field(name, node.fields, "_meta=")
        old = node.fields.named[name]
        new: Field
        if isinstance(old, Window):
            new = old.with_meta(kept)
        else:
            new = old.of(old.node.replaced(meta=kept))
        node = with_fields(node, node.fields.with_field(name, new))
    return node


def freeze(node: Node) -> Node:
    """Return a read-only copy of a node's data in memory, with its fields."""

    def frozen(part: Node, old: Node) -> Node:
        if isinstance(part, Record):
            return part
        copy = stored(ArraySource(np.array(evaluate(old))), writable=False)
        return copy.replaced(
            fields=copy.fields if copy.fields.named else part.fields, meta=old.meta
        )

    found: Node = rebuilt([node], frozen, Node.attached)[0]
    return found


def zip_nodes(named: Mapping[str, Node], driver: str | None) -> Node:
    """Return the record of nodes of one length, or name the one that differs."""
    for name in named:
        check_declared(name)
    if not named:
        raise ValueError("there is nothing to zip: no view was given")
    lengths = {name: length_of(node) for name, node in named.items()}
    for name, length in lengths.items():
        if length != next(iter(lengths.values())):
            listing = ", ".join(f"{other} {count}" for other, count in lengths.items())
            raise ValueError(f"{name!r} differs in length from the others: {listing}")
    zipped = record(named, 1)
    return zipped if driver is None else _driven(zipped, driver)
