"""Memory that is computed anew where it lies, by one call of NumPy's or two.

Each function returns whether it has done it: if not, `write` plans it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from dataview.compute import evaluate, memory_of
from dataview.index.sizes import is_at_once, is_computed_first, sizes
from dataview.plan.gaps import LABELS, holds_codes
from dataview.plan.guards import is_broadcast_to
from dataview.plan.kinds import size_of
from dataview.plan.node import Node
from dataview.plan.values import cast
from dataview.write import runs
from dataview.write.failing import is_power, may_raise
from dataview.write.memory import (
    KINDS,
    NUMBERS,
    are_codes,
    compute_there,
    has_codes_within,
    in_one_node,
    is_of_memory,
    is_plain,
    leaves_of_memory,
    memory_to_write,
    put,
    whole_key,
)

ITSELF = object()
"""The operand that is what is written to."""


def apply_to_rows(node: Node, key: Any, ufunc: np.ufunc, operands: Sequence[Any]) -> bool:
    """Write what a function makes of numbers, arrays and nodes to some rows.

    An operand may be these rows, `ITSELF`.
    """
    node, key = in_one_node(node, key)
    memory = memory_to_write(node)
    if memory is None or has_codes_within(node) or runs.is_within_statement():
        return False
    there = memory[key, ...]
    is_small = there.size < sizes.streamed_elements
    if not is_small and not _is_sure(ufunc, there):
        return False
    given = []
    for one in operands:
        given.append(there if one is ITSELF else _operand(one, there.shape))
        if given[-1] is None:
            return False
    has_labels = LABELS in node.meta
    if not (is_small or has_labels or isinstance(key, np.ndarray)):  # of numbers, it is a copy
        return compute_there(node, key, partial(ufunc, *given, out=there))
    result = np.empty(there.shape, there.dtype)
    ufunc(*given, out=result)
    if has_labels and not are_codes(result, node.meta[LABELS]):
        return False
    return put([(node, memory, whole_key(key), result)], key)


def put_where(node: Node, mask: Any, value: np.ndarray) -> bool:
    """Write one value to memory where a mask, which NumPy repeats to its shape, is true."""
    memory = memory_to_write(node)
    if memory is None or runs.is_within_statement():
        return False
    if not is_at_once(memory.size, memory.nbytes):
        return False
    truths = evaluate(mask) if isinstance(mask, Node) else mask
    if np.may_share_memory(truths, memory):  # NumPy would look at what it has written
        truths = truths.copy()
    return compute_there(node, None, partial(np.copyto, memory, value, where=truths))


def put_all(node: Node, result: Node, is_checked: bool) -> bool:
    """Write what is computed of memory, and takes little of it, over a node of its shape.

    If it `is_checked`, what the node cannot hold is refused; else it is cast, as by `out=`.
    """
    memory = memory_to_write(node)
    if memory is None or result.dtype is None or not leaves_of_memory(result):
        return False
    if LABELS in node.meta or holds_codes(result) or has_codes_within(node):
        return False
    if not is_computed_first(memory.size, memory.nbytes) or result.shape != memory.shape:
        return False
    if runs.is_within_statement():
        return False
    value = evaluate(result)
    landed = cast(value, memory.dtype) if is_checked else value.astype(memory.dtype, copy=False)
    return put([(node, memory, ..., landed)], None)


def _is_sure(ufunc: np.ufunc, there: np.ndarray) -> bool:
    """Whether one call of NumPy's changes memory as a whole: it cannot raise midway."""
    if getattr(np, ufunc.__name__, None) is not ufunc:  # others have errors of their own
        return False
    if is_power(ufunc, there.dtype) or not is_at_once(there.size, there.nbytes):
        return False
    return not may_raise()


def _operand(value: Any, shape: tuple[int, ...]) -> Any:
    """Return a number, or the data of what NumPy repeats to a shape; None if it is neither."""
    if type(value) in NUMBERS:
        return value
    if not isinstance(value, Node):
        return value if is_plain(value) and is_broadcast_to(value.shape, shape) else None
    own, dtype = value.shape, value.dtype
    if own is None or dtype is None or dtype.kind not in KINDS or not is_broadcast_to(own, shape):
        return None
    if value.has_gaps or holds_codes(value):
        return None
    memory = memory_of(value) if is_of_memory(value) else None
    if memory is not None:
        return memory
    count = size_of(own)
    return evaluate(value) if is_computed_first(count, count * dtype.itemsize) else None
