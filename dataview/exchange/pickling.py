"""A node made small for a pickle: of arrays in memory, only the blocks that it sees."""

from __future__ import annotations

from typing import Any

from dataview.index import Index
from dataview.plan.build import arguments
from dataview.plan.fields import NO_FIELDS, Attached, Fields
from dataview.plan.kinds import (
    Comparison,
    Concat,
    Deferred,
    Driven,
    Elementwise,
    Mapped,
    MatMul,
    Record,
    Reduction,
    Sampled,
    Select,
    Stored,
)
from dataview.plan.node import Node
from dataview.plan.symbols import changed, in_order
from dataview.sources import ArraySource

Cuts = dict[int, tuple[ArraySource, list[int]]]
"""For each source in memory the block that is kept of it, and where the block begins."""


def packed_in_order(node: Node) -> tuple[Node, ...]:
    """Return an equal node, whose sources in memory hold no more than it needs, as the last one.

    Before it are the nodes that it is made of, each after its own: a pickle or a deep copy of them
    one by one is no deeper than a step, however long the plan.  Each array is cut once for all, so
    parts that shared memory still do.
    """
    order = in_order([node], _parts)
    seen: dict[int, tuple[ArraySource, list[Index | None]]] = {}
    for below in order:
        _collect(below, seen)
    cuts = {key: source.slab(indices) for key, (source, indices) in seen.items()}
    made: dict[int, Node] = {}
    for below in order:
        _rebuilt(below, cuts, made)
    return tuple(made.values())


def _parts(node: Node) -> list[Node]:
    """Return the nodes that a pickle needs of a node."""
    named = node.fields.named.values()
    attached = [part.node for part in named if isinstance(part, Attached)]
    if isinstance(node, Record):
        return attached
    sees_memory = isinstance(node, Select) and _in_memory(node.node)
    return [*attached, *([] if sees_memory else arguments(node))]


def _collect(node: Node, seen: dict[int, tuple[ArraySource, list[Index | None]]]) -> None:
    """Note which part of an array in memory a node sees."""
    index: Index | None = None
    if isinstance(node, Select) and _in_memory(node.node):
        index, node = node.index, node.node
    if isinstance(node, Stored) and isinstance(node.source, ArraySource):
        seen.setdefault(id(node.source.root), (node.source.root, []))[1].append(index)


def _rebuilt(node: Node, cuts: Cuts, made: dict[int, Node]) -> Node:
    """Return a node over the cut sources; what several parts share is shared again."""
    if id(node) not in made:
        named = {
            name: Attached(_rebuilt(part.node, cuts, made), part.axes)
            if isinstance(part, Attached)
            else part
            for name, part in node.fields.named.items()
        }
        changes = _changes(node, cuts, made)
        made[id(node)] = node.replaced(**changes, fields=Fields(named, node.fields.lost))
    return made[id(node)]


def _changes(node: Node, cuts: Cuts, made: dict[int, Node]) -> dict[str, Any]:
    if isinstance(node, Select) and _in_memory(node.node):
        source = node.node.source  # type: ignore[attr-defined]
        slab, low = cuts[id(source.root)]
        cut = slab.descendant(source.path)
        below = node.node.replaced(source=cut, shape=cut.shape, fields=NO_FIELDS)
        return {"node": below, "index": slab.moved(node.index, low)}
    if isinstance(node, Stored) and isinstance(node.source, ArraySource):
        slab, _ = cuts[id(node.source.root)]
        return {"source": slab.descendant(node.source.path)}
    if isinstance(node, (Elementwise, Comparison, MatMul)):
        args = [_rebuilt(a, cuts, made) if isinstance(a, Node) else a for a in node.args]
        return {"args": tuple(args)}
    if isinstance(node, Deferred):
        return {"args": changed(node.args, lambda below: _rebuilt(below, cuts, made))}
    if isinstance(node, Concat):
        return {"nodes": tuple(_rebuilt(part, cuts, made) for part in node.nodes)}
    if isinstance(node, Reduction) and node.taken is not None:
        return {"node": None}  # its value is known: the data it came from is not needed
    if isinstance(node, (Select, Driven, Reduction, Mapped, Sampled)):
        return {"node": node.node and _rebuilt(node.node, cuts, made)}
    return {}


def _in_memory(node: Node) -> bool:
    return isinstance(node, Stored) and isinstance(node.source, ArraySource)
