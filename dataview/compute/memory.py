"""Data that are in memory already, and need no evaluation."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy import ndarray

from dataview.compute.ways import aliases
from dataview.index import Index, compose, gather, identity
from dataview.plan.kinds import Driven, Select, Stored
from dataview.plan.node import Node
from dataview.sources import Memo


def memory_of(node: Node) -> np.ndarray | None:
    """Return a node's own memory, as the same array each time; None if evaluation must copy."""
    if node.lent is None:
        node.lent = _memory_of(node) if aliases(node) else False
    return None if node.lent is False else node.lent


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
