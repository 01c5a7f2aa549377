"""A node made small for a pickle: of an array in memory it holds only the block that it needs."""

from __future__ import annotations

from typing import Any

from dataview.index import Computed, Index, extent, shifted
from dataview.plan.fields import NO_FIELDS
from dataview.plan.gaps import present_in
from dataview.plan.kinds import LateStored, Record, Reduction, Select, Stored
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.plan.walk import below, rebuilt, remade
from dataview.sources import Source, packed_together


def packed_in_order(node: Node) -> tuple[Any, ...]:
    """Return the parts of a node in order, and last an equal node with no more data than it needs.

    Each part stands after its own parts.  So a pickle or a deep copy of them does not recurse,
    however long the plan is.  Each array is cut once, and before the parts stands what is common to
    arrays that overlap, so parts that share memory still do.
    """
    order = below([node], _needed)
    if any(isinstance(part, Ragged) or _lacks_mask(part) for part in order):
        order = below(rebuilt([node], _narrowed, _needed), _needed)
    seen: dict[int, tuple[Source, list[Index | None]]] = {}
    for part in order:
        stored, index = _seen(part)
        if stored is not None:
            root = stored.source.root
            seen.setdefault(id(root), (root, []))[1].append(index)
    cuts = {key: _cut(source, indices) for key, (source, indices) in seen.items()}

    def packed(part: Any, old: Any) -> Any:
        stored, index = _seen(part)
        if stored is not None:
            block, low = cuts[id(stored.source.root)]
            source = stored.source.over(block)
            if index is None:
                return part.replaced(source=source)
            whole = stored.replaced(source=source, shape=source.shape, fields=NO_FIELDS, mask=None)
            return part.replaced(node=whole, index=_moved(index, low))
        if isinstance(part, Reduction) and part.taken is not None:
            return part.replaced(node=None)  # the data that its value came from is not needed
        return part

    blocks = [block.memory for block, _ in cuts.values() if block.memory is not None]
    return *packed_together(blocks), *remade(order, packed).values()


def _narrowed(part: Any, old: Any) -> Any:
    if _lacks_mask(part):
        return part.replaced(mask=present_in(part))
    if not isinstance(part, Ragged):
        return part
    part = part.narrowed()
    values = part.values
    known = values.replaced(mask=present_in(values)) if _lacks_mask(values) else values
    return part if known is values else part.replaced(node=known)


def _lacks_mask(part: Any) -> bool:
    """Whether the mask of what a part selects from is not one of its own, of the part alone."""
    return isinstance(part, Select) and part.mask is None and part.node.mask is not None


def _needed(part: Any) -> list[Any]:
    """Return the parts that a pickle needs of a part."""
    sees_source = isinstance(part, Select) and isinstance(part.node, Stored)
    made_of = [] if sees_source or isinstance(part, Record) else part.made_of()
    if not isinstance(part, Node):
        return made_of
    return [*part.attached(), *made_of, *([] if part.mask is None else [part.mask])]


def _seen(part: Any) -> tuple[Stored | None, Index | None]:
    """Return the stored data that a part is or selects from, and which part of it."""
    if isinstance(part, Select) and isinstance(part.node, Stored):
        return part.node, part.index
    is_whole = isinstance(part, Stored) and not isinstance(part, LateStored)  # that is in no memory
    return (part, None) if is_whole else (None, None)


def _cut(source: Source, indices: list[Index | None]) -> tuple[Source, list[int]]:
    """Return the smallest block of an array that indices select from, and where it begins.

    A source that is not in memory stays whole, and so does one with None among its indices.
    """
    if None in indices or not source.lies_in_memory:
        return source, [0] * len(source.shape)
    low, high = list(source.shape), [0] * len(source.shape)
    for index in indices:
        if index is None or 0 in index.shape:
            continue
        for axis, map_ in enumerate(index.maps[: len(low)]):
            ends = None if isinstance(map_, Computed) else extent(map_, index.shape)
            if ends is None:  # it may select from all of the axis
                ends = 0, source.shape[axis] - 1
            low[axis] = min(low[axis], ends[0])
            high[axis] = max(high[axis], ends[1] + 1)
    low = [min(pair) for pair in zip(low, high, strict=True)]
    block = source.cut_to((*map(slice, low, high), ...))
    return (source, [0] * len(low)) if block is None else (block, low)


def _moved(index: Index, low: list[int]) -> Index:
    """Return an index into a whole source as the same index into the block that begins at `low`."""
    by = low + [0] * (len(index.maps) - len(low))
    return Index(index.shape, list(map(shifted, index.maps, by))) if any(low) else index
