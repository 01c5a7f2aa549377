"""Arrays in memory that are written at once: where they lie, and one write into them.

Such writes come by the thousand, in loops, so nothing is planned for them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from dataview.compute import changing, memory_of
from dataview.index import Index, compose, identity, parse, row_key
from dataview.index.interrupts import held_interrupt
from dataview.plan.gaps import NO_LABEL, may_have_codes
from dataview.plan.joined_rows import joined_rows_of
from dataview.plan.kinds import (
    Comparison,
    Concat,
    Elementwise,
    Sampled,
    Select,
    Stored,
    known_shape,
)
from dataview.plan.node import Node
from dataview.plan.places import LatePlace
from dataview.plan.walk import below
from dataview.write import runs
from dataview.write.spots import Spot

NUMBERS = frozenset((int, float, bool, complex))

KINDS = "biufc"
"""The kinds of numbers of NumPy."""

COMPUTED = frozenset((Elementwise, Comparison))
"""The kinds of nodes that are computed element by element."""

Parts: TypeAlias = "list[tuple[Node, np.ndarray, Any, np.ndarray]]"
"""Nodes that are written, their memory, the place in it, and values that have its dtype."""


# --- what can be written so ---------------------------------------------------------------------


def memory_to_write(node: Node) -> np.ndarray | None:
    """Return the memory of a node, None if it is not numbers in memory that can be written.

    Whoever writes to a column with a mask writes to the mask, too.
    """
    if not is_of_memory(node) or not stored_of(node).writable or node.has_gaps:
        return None
    memory = memory_of(node)
    is_numbers = memory is not None and memory.dtype.kind in KINDS and memory.flags.writeable
    return memory if is_numbers else None


def in_one_node(node: Node, key: Any) -> tuple[Node, Any]:
    """Return the node with all rows that a key selects of joined nodes, and these; else both.

    So are the rows of one of the batches that are not all of one length.
    """
    group = node.group(key) if isinstance(key, int) and isinstance(node, Sampled) else None
    if group is not None:
        node, key = group[0], row_key(group[1])
    if type(node) is not Concat or node.has_gaps or type(key) is tuple:
        return node, key
    joined = joined_rows_of(node)
    if not joined.are_writable:
        return node, key
    if not isinstance(key, np.ndarray):
        rows = range(known_shape(node)[0])[key]
        found = joined.of_one(rows) if isinstance(rows, int) or rows else None
    else:
        found = next(iter(joined.of(key)))[:2] if len(joined.bases) == 1 else None
    if found is None or joined.bases[found[0]].dtype != node.dtype:
        return node, key
    return joined.bases[found[0]], row_key(found[1])


def is_of_memory(node: Any) -> bool:
    """Whether a node shows a part of a source, whose memory can be asked for."""
    return type(node) is Stored or (type(node) is Select and type(node.node) is Stored)


def stored_of(node: Any) -> Stored:
    return node if type(node) is Stored else node.node


def is_plain(value: Any) -> bool:
    return type(value) in NUMBERS or (type(value) is np.ndarray and value.dtype.kind in KINDS)


def are_codes(given: Any, labels: Any) -> bool:
    """Whether numbers are codes of labels; of what is unknown here it is asked on another way."""
    if not isinstance(labels, (list, tuple, np.ndarray)):
        return False
    if type(given) is int:
        return NO_LABEL <= given < len(labels)
    if not isinstance(given, np.ndarray) or given.dtype.kind not in "iu" or not given.size:
        return False
    return bool(given.min() >= NO_LABEL and given.max() < len(labels))


def has_codes_within(node: Node) -> bool:
    """Whether fields that are parts of an array may be codes of labels."""
    return bool(node.fields.named) and may_have_codes(node)


def leaves_of_memory(source: Node) -> list[Node]:
    """Return the nodes in memory that a node is, or is computed of; none if any is elsewhere."""
    parts = below([source], lambda part: part.made_of() if type(part) in COMPUTED else [])
    leaves = [part for part in parts if type(part) not in COMPUTED]
    if any(part.has_gaps for part in parts) or not all(map(is_of_memory, leaves)):
        return []
    return leaves if all(stored_of(leaf).source.memory is not None for leaf in leaves) else []


# --- writing -------------------------------------------------------------------------------------


def put(parts: Parts, key: Any) -> bool:
    """Write the values of some parts, all of them, and return True."""
    runs.clock[0] += 1
    with changing(partial(_places, parts, key)):
        if len(parts) == 1:
            ((_, memory, where, value),) = parts
            memory[where] = value
            return True
        values = [value.copy() for *_, value in parts]  # they may lie where another is written
        with held_interrupt():
            for (_, memory, where, _), value in zip(parts, values, strict=True):
                memory[where] = value
    return True


def compute_there(node: Node, key: Any, compute: Callable[[], Any]) -> bool:
    """Compute a result where it is to be, and return True."""
    runs.clock[0] += 1
    with changing(lambda: [_place(node, key)]), held_interrupt():
        compute()
    return True


def whole_key(key: Any) -> tuple[Any, ...]:
    """Return a key as one on all axes, for which NumPy returns an array."""
    return (*key, ...) if type(key) is tuple else (key, ...)


def _places(parts: Parts, key: Any) -> list[LatePlace]:
    return [_place(node, key) for node, _, _, _ in parts]


def _place(node: Node, key: Any) -> LatePlace:
    return LatePlace(stored_of(node).source, _where(node, key))


def spot(node: Any, key: Any) -> Spot:
    """Return the place of some rows; it does not hold the node, which holds the data."""
    return Spot(stored_of(node).source.reference(), _where(node, key))


def _where(node: Any, key: Any) -> Callable[[], Index]:
    """Return what works out where some rows are: most writes need not know."""
    return partial(_index, node.index if type(node) is Select else None, node.shape, key)


def _index(part: Index | None, shape: tuple[int, ...], key: Any) -> Index:
    index = identity(shape) if key is None else parse(key, shape)
    return index if part is None else compose(part, index)
