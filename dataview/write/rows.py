"""Rows of arrays in memory, written from numbers, arrays or other rows, without a plan for each.

What takes more than NumPy's own assignment is left to `write`: a function returns whether it has
written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dataview.compute import evaluate, memory_of, rows_of
from dataview.index.sizes import is_at_once, is_computed_first, sizes
from dataview.plan.gaps import LABELS, is_numbered_alike
from dataview.plan.guards import is_broadcast_to
from dataview.plan.kinds import Record, Select, known_dtype, known_shape, members, size_of
from dataview.plan.node import Node
from dataview.plan.values import cast
from dataview.write import runs
from dataview.write.memory import (
    Parts,
    are_codes,
    has_codes_within,
    in_one_node,
    is_of_memory,
    is_plain,
    leaves_of_memory,
    memory_to_write,
    put,
    spot,
    whole_key,
)
from dataview.write.spots import Spot


def write_rows(node: Node, key: Any, value: Any) -> bool:
    """Write a number or an array to what a key selects: rows, or a basic key on more axes.

    Rows of a record take a mapping or a tuple of such values.
    """
    node, key = in_one_node(node, key)
    pairs = _in_fields(node, value)
    if not pairs or runs.is_within_statement():
        return False
    parts: Parts = []
    for target, given in pairs:
        memory = memory_to_write(target)
        if memory is None or not is_plain(given):
            return False
        if LABELS in target.meta and not are_codes(given, target.meta[LABELS]):
            return False
        fitting = cast(given, memory.dtype)
        if fitting.ndim and not _is_fitting(target, fitting.shape, _shape_at(memory, key)):
            return False
        if len(pairs) > 1 and fitting.size >= sizes.streamed_elements:
            return False  # several values are copied before the first is written
        parts.append((target, memory, whole_key(key), fitting))
    return put(parts, key)


def write_rows_of(node: Node, key: Any, value: Node, value_key: Any, built: runs.Built) -> bool:
    """Write rows of one node, all of it if there is no key, to those of another."""
    pairs = _in_fields(node, value)
    parts: Parts = []
    read: list[Spot] = []
    for target, source in pairs:
        memory, leaves = memory_to_write(target), leaves_of_memory(source)
        if memory is None or not leaves:
            return False
        if not is_numbered_alike(target, source) or has_codes_within(target):
            return False
        rows = _data(source, value_key, target, _shape_at(memory, key))
        if rows is None:
            return False
        read += [spot(leaf, value_key if _has_rows_of(leaf, source) else None) for leaf in leaves]
        parts.append((target, memory, whole_key(key), cast(rows, memory.dtype)))
    if not parts:
        return False
    member = runs.Member(
        [spot(target, key) for target, _ in pairs],
        read,
        built.is_part,
        all(is_of_memory(source) for _, source in pairs),
        lambda: [np.array(memory[where]) for _, memory, where, _ in parts],
    )
    runs.begin(member, built)
    member.keep(sum([size_of(_shape_at(memory, key)) * memory.itemsize for _, memory, *_ in parts]))
    if _is_by_number(key) or isinstance(value_key, np.ndarray):
        member.watch()
    put(parts, key)
    member.done()
    return True


def _in_fields(node: Any, value: Any) -> Sequence[tuple[Node, Any]]:
    """Return the arrays whose rows are written, those of a record's fields, each with its value.

    There are none if the fields do not follow the rows, or the value has others.
    """
    if type(node) is not Record:
        return ((node, value),)
    parts = _row_fields(node)
    if type(value) is Record:
        value = _row_fields(value)
    elif type(value) is tuple and len(value) == len(parts):
        value = dict(zip(parts, value, strict=True))
    if node.are_columns or type(value) is not dict or value.keys() != parts.keys():
        return ()
    return [(part, value[name]) for name, part in parts.items()]


def _row_fields(node: Record) -> dict[str, Node]:
    """Return the fields of a record whose rows are its own, none if there are others."""
    parts = members(node)
    if len(parts) < len(node.fields.named) or not all(p.follows_rows for p in parts.values()):
        return {}
    return {name: part.node for name, part in parts.items()}


# --- shapes and values ---------------------------------------------------------------------------


def _is_fitting(target: Any, given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a value may be repeated to a shape; one for a row of ragged rows is not."""
    is_row = type(target) is Select and target.row_axes
    return given == shape if is_row else is_broadcast_to(given, shape)


def _shape_at(memory: np.ndarray, key: Any) -> tuple[int, ...]:
    """Return the shape of what a key selects; beside numbers along one axis there are slices."""
    items = key if type(key) is tuple else (key,)
    axis = next((axis for axis, item in enumerate(items) if isinstance(item, np.ndarray)), None)
    if axis is None:
        return memory[(*items, ...)].shape
    shape = memory[(*items[:axis], slice(None), *items[axis + 1 :])].shape
    return (*shape[:axis], len(items[axis]), *shape[axis + 1 :])


def _is_by_number(key: Any) -> bool:
    items = key if type(key) is tuple else (key,)
    return any(isinstance(item, np.ndarray) for item in items)


def _data(source: Node, key: Any, target: Node, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return rows of a node to be written, None if they do not fit into a shape or are large."""
    own = _shape_of_rows(known_shape(source), key)
    count = size_of(own)
    if not _is_fitting(target, own, shape):
        return None
    memory = memory_of(source) if is_of_memory(source) else None
    if memory is not None:
        is_small = is_at_once(count, memory.itemsize * count)
        return (memory if key is None else memory[key, ...]) if is_small else None
    if not is_computed_first(count, known_dtype(source).itemsize * count):
        return None
    if key is None:
        return evaluate(source)
    rows = key if isinstance(key, np.ndarray) else range(known_shape(source)[0])[key]
    return np.asarray(rows_of(source, rows))


def _shape_of_rows(shape: tuple[int, ...], key: Any) -> tuple[int, ...]:
    """Return the shape of rows that a key selects of a shape."""
    if key is None:
        return shape
    if isinstance(key, int):
        return shape[1:]
    count = len(key) if isinstance(key, np.ndarray) else len(range(shape[0])[key])
    return (count, *shape[1:])


def _has_rows_of(leaf: Node, source: Node) -> bool:
    """Whether a row of what is computed is computed of this row of a leaf."""
    own, shape = known_shape(leaf), known_shape(source)
    return len(own) == len(shape) and own[:1] == shape[:1]
