"""A node made small for a pickle: of arrays in memory, only the blocks that it sees."""

from __future__ import annotations

from typing import Any

from dataview.index import Index
from dataview.plan.fields import NO_FIELDS
from dataview.plan.kinds import Record, Reduction, Select, Stored
from dataview.plan.node import Node
from dataview.plan.walk import below, remade
from dataview.sources import ArraySource


def packed_in_order(node: Node) -> tuple[Any, ...]:
    """Return an equal node, whose sources in memory hold no more than it needs, as the last one.

    Before it are the parts that it is made of, each after its own: a pickle or a deep copy of them
    one by one is no deeper than a step, however long the plan.  Each array is cut once for all, so
    parts that shared memory still do.
    """
    order = below([node], _needed)
    seen: dict[int, tuple[ArraySource, list[Index | None]]] = {}
    for part in order:
        stored, index = _seen(part)
        if stored is not None:
            root = stored.source.root
            seen.setdefault(id(root), (root, []))[1].append(index)
    cuts = {key: source.slab(indices) for key, (source, indices) in seen.items()}

    def packed(part: Any, old: Any) -> Any:
        stored, index = _seen(part)
        if stored is not None:
            slab, low = cuts[id(stored.source.root)]
            cut = slab.descendant(stored.source.path)
            if index is None:
                return part.replaced(source=cut)
            whole = stored.replaced(source=cut, shape=cut.shape, fields=NO_FIELDS)
            return part.replaced(node=whole, index=slab.moved(index, low))
        if isinstance(part, Reduction) and part.taken is not None:
            return part.replaced(node=None)  # the data that its value came from is not needed
        return part

    return tuple(remade(order, packed).values())


def _needed(part: Any) -> list[Any]:
    """Return the parts that a pickle needs of a part."""
    sees_memory = isinstance(part, Select) and _seen(part)[0] is not None
    made_of = [] if sees_memory or isinstance(part, Record) else part.made_of()
    return [*part.attached(), *made_of] if isinstance(part, Node) else made_of


def _seen(part: Any) -> tuple[Any, Index | None]:
    """Return the array in memory that a part is or selects from, and which part of it."""
    index = part.index if isinstance(part, Select) else None
    stored = part.node if isinstance(part, Select) else part
    in_memory = isinstance(stored, Stored) and isinstance(stored.source, ArraySource)
    return (stored, index) if in_memory else (None, None)
