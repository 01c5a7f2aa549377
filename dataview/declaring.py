"""Fields as a user declares them: windows laid on a node, members put beside it, metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from dataview.errors import unknown_field
from dataview.expression import (
    Driven,
    Node,
    Record,
    field,
    known_shape,
    members,
    record,
    rows_of,
    stored,
    with_fields,
)
from dataview.fields import NO_FIELDS, Attached, Field, Fields, Window, check_name, declared
from dataview.opening import node_of
from dataview.sources.memory import ArraySource

__all__ = ["attached", "chosen", "described", "driven", "frozen", "windowed"]


def windowed(node: Node, specs: Mapping[str, Any]) -> Node:
    """Return the node with fields: windows on its last axes, or nodes of their own."""
    if not specs:
        return node
    fields = node.fields
    shape = known_shape(node)
    for name, spec in specs.items():
        if isinstance(spec, Node) or isinstance(node, Record):
            node = attached(with_fields(node, fields), check_name(name), node_of(spec))
            fields = node.fields
            continue
        axes = [(axis, None) for axis in range(len(shape))]
        fields = fields.with_field(check_name(name), declared(name, spec, axes, shape))
    return with_fields(node, fields)


def attached(node: Node, name: str, part: Node) -> Node:
    """Return the node with a field of its own: a member of a record, beside any other data."""
    if isinstance(node, Record):
        others = {other: place.node for other, place in members(node).items()}
        return record(others | {name: part}, node.rank)
    follows = bool(node.shape) and rows_of(node) == rows_of(part)
    axes = (0,) if follows else () if node.shape == () else None
    return with_fields(node, node.fields.with_field(name, Attached(part, axes)))


def chosen(node: Node, names: Sequence[str]) -> Record:
    """Return the record of some fields; one that is named again stands again, numbered.

    Its members share their rows, unless a field is a window on the first axis itself.
    """
    parts: dict[str, Node] = {}
    for name in names:
        count = sum(other == name or other.startswith(f"{name}_") for other in parts)
        parts[f"{name}_{count + 1}" if name in parts else name] = field(node, name)
    whole = node.shape
    if isinstance(node, Record):
        return Record(record(parts, node.rank).fields, node.rank, shape=whole)
    rows = whole[:1] if whole else ()
    follow = rows and all(part.shape and part.shape[:1] == rows for part in parts.values())
    on_rows = any(
        isinstance(place, Window) and 0 in place.positions
        for place in (node.fields.named[name] for name in names)
    )
    rank = 1 if follow and not on_rows else 0
    return Record(record(parts, rank).fields, rank, shape=rows if rank else ())


def driven(node: Record, driver: str) -> Node:
    """Return the fields of a record, of which one stands for the whole dataset's data."""
    if driver not in node.fields:
        raise unknown_field(driver, node.fields, "_driver=")
    named = {name: Attached(part.node, None) for name, part in members(node).items()}
    return Driven(named[driver].node, Fields(named))


def described(node: Node, meta: Mapping[str, Mapping[str, Any]]) -> Node:
    """Return the node with metadata: of the fields by name, of the whole under ''."""
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
            new = Attached(old.node.replaced(meta=kept), old.axes)
        node = with_fields(node, node.fields.with_field(name, new))
    return node


def frozen(node: Node, evaluate: Callable[[Node], np.ndarray]) -> Node:
    """Return a read-only copy of a node's data in memory, with its fields."""
    if isinstance(node, Record):
        named = {name: frozen(part.node, evaluate) for name, part in members(node).items()}
        return record(named, node.rank).replaced(meta=node.meta)
    array = np.array(evaluate(node))
    named_fields = {
        name: part
        if isinstance(part, Window)
        else Attached(frozen(field(node, name), evaluate), part.axes)
        for name, part in node.fields.named.items()
    }
    fields = Fields(named_fields, node.fields.lost) if named_fields else NO_FIELDS
    copy = stored(ArraySource(array), writable=False)
    return copy.replaced(fields=fields if not copy.fields.named else copy.fields, meta=node.meta)
