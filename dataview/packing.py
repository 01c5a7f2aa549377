"""A node made small for a pickle: of arrays in memory, only the blocks that it sees."""

from __future__ import annotations

from typing import Any

from dataview.expression import arguments
from dataview.fields import Attached, Fields
from dataview.index import Index
from dataview.nodes import Comparison, Concat, Driven, Elementwise, Node, Record, Select, Stored
from dataview.sources.memory import ArraySource

__all__ = ["packed"]


def packed(node: Node) -> Node:
    """Return an equal node whose sources in memory hold no more than it needs.

    Each array is cut once for all parts of the node, so parts that shared memory still do.
    """
    seen: dict[int, tuple[ArraySource, list[Index | None]]] = {}
    _collect(node, seen)
    cuts = {key: source.slab(indices) for key, (source, indices) in seen.items()}
    return _rebuilt(node, cuts)


def _collect(node: Node, seen: dict[int, tuple[ArraySource, list[Index | None]]]) -> None:
    for part in node.fields.named.values():
        if isinstance(part, Attached) and not isinstance(node, Record):
            _collect(part.node, seen)
    index: Index | None = None
    if isinstance(node, Select) and isinstance(node.node, Stored):
        index, node = node.index, node.node
    if isinstance(node, Stored) and isinstance(node.source, ArraySource):
        seen.setdefault(id(node.source.root), (node.source.root, []))[1].append(index)
    for below in arguments(node):
        _collect(below, seen)


def _rebuilt(node: Node, cuts: dict[int, Any]) -> Node:
    named = {
        name: Attached(_rebuilt(part.node, cuts), part.axes) if isinstance(part, Attached) else part
        for name, part in node.fields.named.items()
    }
    changes: dict[str, Any] = {"fields": Fields(named, node.fields.lost)}
    if isinstance(node, Select):
        below = node.node
        if isinstance(below, Stored) and isinstance(below.source, ArraySource):
            slab, low = cuts[id(below.source.root)]
            source = slab.descendant(below.source.path)
            changes["node"] = below.replaced(source=source, shape=source.shape, fields=Fields({}))
            changes["index"] = slab.moved(node.index, low)
        else:
            changes["node"] = _rebuilt(below, cuts)
    elif isinstance(node, Stored) and isinstance(node.source, ArraySource):
        slab, _ = cuts[id(node.source.root)]
        changes["source"] = slab.descendant(node.source.path)
    elif isinstance(node, (Elementwise, Comparison)):
        changes["args"] = tuple(
            _rebuilt(arg, cuts) if isinstance(arg, Node) else arg for arg in node.args
        )
    elif isinstance(node, Concat):
        changes["nodes"] = tuple(_rebuilt(part, cuts) for part in node.nodes)
    elif isinstance(node, Driven):
        changes["node"] = _rebuilt(node.node, cuts)
    rebuilt: Node = node.replaced(**changes)
    return rebuilt
