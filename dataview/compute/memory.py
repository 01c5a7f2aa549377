"""Data that are in memory already, and need no evaluation."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy import ndarray

from dataview.compute.ways import aliases
from dataview.index import Index, Rows, compose, gather, identity, row_key
from dataview.plan.kinds import Driven, Select, Stored
from dataview.plan.node import Node
from dataview.sources import Memo


def memory_of(node: Node) -> np.ndarray | None:
    """Return a node's own memory, as the same array each time; None if evaluation must copy."""
    if node.lent is None:
        node.lent = _memory_of(node) if aliases(node) else False
    return None if node.lent is False else node.lent


_BASIC = frozenset({int, slice, type(...)})


def lend_part(part: Node, whole: Node, rows: Rows | None, key: Any) -> None:
    """Have a part lend the memory of the whole, of which it is what a key selects of rows.

    NumPy's own slice is quicker than to find out from an index where the part lies.
    """
    items = key if type(key) is tuple else (key,)
    for item in items:
        if type(item) not in _BASIC:
            return
    memory = None if type(rows) is ndarray or part.lent is not None else memory_of(whole)
    if memory is None:
        return
    if type(rows) is range:
        memory = memory[row_key(rows)]
    elif rows is not None:
        items = (rows, *items)
    # The ellipsis makes NumPy return a 0-d array, which aliases, and not a scalar.
    part.lent = memory[items if items[-1] is ... else (*items, ...)]


def _memory_of(node: Node) -> np.ndarray:
    index: Index | None = None
    while not isinstance(node, Stored):
        if isinstance(node, Select):
            index = node.index if index is None else compose(node.index, index)
        node = cast(Select | Driven, node).node
    return read_stored(node, identity(node.source.shape) if index is None else index, {})


def read_stored(node: Stored, index: Index, memo: Memo) -> np.ndarray:
    """Return what an index selects from a store; memory as far as the node may change it."""
    found = node.source.read(index, memo)
    if node.source.memory is not None and index.is_box and not node.writable:
        return gather.frozen(found) if found.flags.writeable else found
    return found


def own_copy(found: Any) -> Any:
    """Return data that share no memory with others and can be written to."""
    if not isinstance(found, ndarray) or (found.flags.owndata and found.flags.writeable):
        return found
    return np.array(found)
