"""Rows of an array in memory, written from numbers, arrays or other rows, without a plan for each.

Such writes come by the thousand, in loops.  What takes more than NumPy's own assignment is left to
`write`: each function here returns whether it has written.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dataview.compute import LatePlace, changing, memory_of
from dataview.index import Index, compose, identity, parse
from dataview.index.sizes import sizes
from dataview.plan.kinds import Select, Stored
from dataview.plan.node import Node
from dataview.plan.values import cast
from dataview.write import runs
from dataview.write.spots import Spot

NUMBERS = frozenset((int, float, bool, complex))


def write_rows(node: Node, key: Any, value: Any) -> bool:
    """Write a number or an array to what a key selects: rows, or a basic key on more axes."""
    memory = _memory_to_write(node)
    if memory is None or not _is_plain(value) or runs.is_within_statement():
        return False
    fitting = cast(value, memory.dtype)
    if fitting.ndim and fitting.shape != _shape_at(memory, key):
        return False
    _put(node, key, memory, fitting)
    return True


def write_rows_of(node: Node, key: Any, value: Node, value_key: Any, built: runs.Built) -> bool:
    """Write rows of one node, all of it if there is no key, to those of another."""
    memory = _memory_to_write(node)
    given = memory_of(value) if _is_of_memory(value) and not value.has_gaps else None
    if memory is None or given is None or given.dtype != memory.dtype:
        return False
    part = memory[key, ...]
    rows = given if value_key is None else given[value_key, ...]
    if part.shape != rows.shape or part.size >= sizes.streamed_elements:
        return False
    member = runs.Member(
        [_spot(node, key)],
        [_spot(value, value_key)],
        built.is_part,
        lambda: [part.copy()],
    )
    runs.begin(member, built)
    member.keep(part.nbytes)
    _put(node, key, memory, rows)
    member.done()
    return True


def apply_to_rows(node: Node, key: Any, ufunc: np.ufunc, other: Any) -> bool:
    """Write what an operator makes of some rows, and of a number or an array, over the rows."""
    memory = _memory_to_write(node)
    if memory is None or not _is_plain(other):
        return False
    part = memory[key, ...]
    is_alike = type(other) in NUMBERS or other.shape == part.shape
    if not is_alike or part.size >= sizes.streamed_elements or runs.is_within_statement():
        return False
    result = np.empty(part.shape, part.dtype)
    ufunc(part, other, out=result)
    _put(node, key, memory, result)
    return True


def _shape_at(memory: np.ndarray, key: Any) -> tuple[int, ...]:
    is_array = isinstance(key, np.ndarray)
    return (len(key), *memory.shape[1:]) if is_array else memory[_whole_key(key)].shape


def _whole_key(key: Any) -> tuple[Any, ...]:
    """Return a key as one on all axes, for which NumPy returns an array."""
    return (*key, ...) if type(key) is tuple else (key, ...)


def _put(node: Node, key: Any, memory: np.ndarray, value: np.ndarray) -> None:
    runs.clock[0] += 1
    with changing(partial(_places, node, key)):
        memory[_whole_key(key)] = value


def _places(node: Node, key: Any) -> list[LatePlace]:
    return [LatePlace(_stored(node).source, _where(node, key))]


def _spot(node: Any, key: Any) -> Spot:
    """Return the place of some rows; it does not hold the node, which holds the data."""
    return Spot(_stored(node).source.reference(), _where(node, key))


def _where(node: Any, key: Any) -> Callable[[], Index]:
    """Return what works out where some rows are: most writes need not know."""
    return partial(_index, node.index if type(node) is Select else None, node.shape, key)


def _index(part: Index | None, shape: tuple[int, ...], key: Any) -> Index:
    index = identity(shape) if key is None else parse(key, shape)
    return index if part is None else compose(part, index)


# --- what can be written so ---------------------------------------------------------------------


def _is_of_memory(node: Any) -> bool:
    """Whether a node shows a part of a source, whose memory can be asked for."""
    return type(node) is Stored or (type(node) is Select and type(node.node) is Stored)


def _stored(node: Any) -> Stored:
    return node if type(node) is Stored else node.node


def _memory_to_write(node: Node) -> np.ndarray | None:
    """Return the memory of a node, None if it is not numbers in memory that can be written.

    Whoever writes to a column with a mask writes to the mask, too.
    """
    if not _is_of_memory(node) or not _stored(node).writable or node.has_gaps:
        return None
    memory = memory_of(node)
    is_numbers = memory is not None and memory.dtype.kind in "biufc" and memory.flags.writeable
    return memory if is_numbers else None


def _is_plain(value: Any) -> bool:
    return type(value) in NUMBERS or (type(value) is np.ndarray and value.dtype.kind in "biufc")
