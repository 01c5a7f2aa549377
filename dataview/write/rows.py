"""Rows of arrays in memory, written from numbers, arrays or other data, without a plan for each.

Such writes come by the thousand, in loops.  What takes more than NumPy's own assignment is left to
`write`: each function here returns whether it has written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from dataview.compute import changing, evaluate, memory_of, rows_of
from dataview.index import Index, compose, identity, parse, row_key
from dataview.index.interrupts import held_interrupt
from dataview.index.sizes import sizes
from dataview.plan.gaps import LABELS, NO_LABEL, holds_codes, is_numbered_alike, may_have_codes
from dataview.plan.guards import is_broadcast_to
from dataview.plan.joined_rows import joined_rows_of
from dataview.plan.kinds import (
    Comparison,
    Concat,
    Elementwise,
    Record,
    Sampled,
    Select,
    Stored,
    known_dtype,
    known_shape,
    members,
    size_of,
)
from dataview.plan.node import Node
from dataview.plan.places import LatePlace
from dataview.plan.values import cast
from dataview.write import runs
from dataview.write.overlap import may_raise
from dataview.write.spots import Spot

NUMBERS = frozenset((int, float, bool, complex))

KINDS = "biufc"
"""The kinds of numbers of NumPy."""

ITSELF = object()
"""The operand that is what is written to."""


_Parts: TypeAlias = "list[tuple[Node, np.ndarray, Any, np.ndarray]]"
"""Nodes of which rows are written, memory with these rows, their place in it, and their values."""


def write_rows(node: Node, key: Any, value: Any) -> bool:
    """Write a number or an array to what a key selects: rows, or a basic key on more axes.

    Rows of a record take a mapping or a tuple of such values.
    """
    node, key = _in_one_node(node, key)
    pairs = _in_fields(node, value)
    if not pairs or runs.is_within_statement():
        return False
    parts: _Parts = []
    for target, given in pairs:
        memory = _memory_to_write(target)
        if memory is None or not _is_plain(given):
            return False
        if LABELS in target.meta and not _are_codes(given, target.meta[LABELS]):
            return False
        fitting = cast(given, memory.dtype)
        if fitting.ndim and not _is_fitting(target, fitting.shape, _shape_at(memory, key)):
            return False
        if len(pairs) > 1 and fitting.size >= sizes.streamed_elements:
            return False  # several values are copied before the first is written
        parts.append((target, memory, _whole_key(key), fitting))
    return _put(parts, key)


def write_rows_of(node: Node, key: Any, value: Node, value_key: Any, built: runs.Built) -> bool:
    """Write rows of one node, all of it if there is no key, to those of another."""
    pairs = _in_fields(node, value)
    parts: _Parts = []
    read: list[Spot] = []
    for target, source in pairs:
        memory, leaves = _memory_to_write(target), _leaves(source)
        if memory is None or not leaves:
            return False
        if not is_numbered_alike(target, source) or _has_codes_within(target):
            return False
        rows = _data(source, value_key, target, _shape_at(memory, key))
        if rows is None:
            return False
        read += [_spot(leaf, value_key if _has_rows_of(leaf, source) else None) for leaf in leaves]
        parts.append((target, memory, _whole_key(key), cast(rows, memory.dtype)))
    if not parts:
        return False
    member = runs.Member(
        [_spot(target, key) for target, _ in pairs],
        read,
        built.is_part and all(_is_of_memory(source) for _, source in pairs),
        lambda: [np.array(memory[where]) for _, memory, where, _ in parts],
    )
    runs.begin(member, built)
    member.keep(sum([size_of(_shape_at(memory, key)) * memory.itemsize for _, memory, *_ in parts]))
    if _is_by_number(key) or isinstance(value_key, np.ndarray):
        member.watch()
    _put(parts, key)
    member.done()
    return True


def apply_to_rows(node: Node, key: Any, ufunc: np.ufunc, operands: Sequence[Any]) -> bool:
    """Write what a function makes of numbers, arrays and nodes to some rows.

    An operand may be these rows, `ITSELF`.
    """
    node, key = _in_one_node(node, key)
    memory = _memory_to_write(node)
    if memory is None or _has_codes_within(node) or runs.is_within_statement():
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
        return _computed_there(node, key, partial(ufunc, *given, out=there))
    result = np.empty(there.shape, there.dtype)
    ufunc(*given, out=result)
    if has_labels and not _are_codes(result, node.meta[LABELS]):
        return False
    return _put([(node, memory, _whole_key(key), result)], key)


def _is_sure(ufunc: np.ufunc, there: np.ndarray) -> bool:
    """Whether one call of NumPy's changes memory as a whole: it cannot raise midway."""
    if there.nbytes > sizes.at_once_bytes or may_raise():
        return False
    return ufunc is not np.power or there.dtype.kind not in "iu"


def _operand(value: Any, shape: tuple[int, ...]) -> Any:
    """Return a number, or the data of what NumPy repeats to a shape; None if it is neither."""
    if type(value) in NUMBERS:
        return value
    if not isinstance(value, Node):
        return value if _is_plain(value) and is_broadcast_to(value.shape, shape) else None
    own, dtype = value.shape, value.dtype
    if own is None or dtype is None or dtype.kind not in KINDS or not is_broadcast_to(own, shape):
        return None
    if value.has_gaps or holds_codes(value):
        return None
    memory = memory_of(value) if _is_of_memory(value) else None
    if memory is not None:
        return memory
    count = size_of(own)
    is_small = count < sizes.streamed_elements or count * dtype.itemsize <= sizes.computed_bytes
    return evaluate(value) if is_small else None


def _computed_there(node: Node, key: Any, compute: Callable[[], Any]) -> bool:
    """Compute a result where it is to be, and return True."""
    runs.clock[0] += 1
    with changing(lambda: [_place(node, key)]), held_interrupt():
        compute()
    return True


def put_where(node: Node, mask: Any, value: np.ndarray) -> bool:
    """Write one value to memory where a mask, which NumPy repeats to its shape, is true."""
    memory = _memory_to_write(node)
    if memory is None or memory.nbytes > sizes.at_once_bytes or runs.is_within_statement():
        return False
    truths = evaluate(mask) if isinstance(mask, Node) else mask
    return _computed_there(node, None, partial(np.copyto, memory, value, where=truths))


def put_all(node: Node, result: Node, is_checked: bool) -> bool:
    """Write what is computed of memory, and takes little of it, over a node of its shape.

    If it `is_checked`, what the node cannot hold is refused; else it is cast, as by `out=`.
    """
    memory = _memory_to_write(node)
    if memory is None or result.dtype is None or not _leaves(result):
        return False
    if LABELS in node.meta or holds_codes(result) or _has_codes_within(node):
        return False
    if memory.nbytes > sizes.computed_bytes or result.shape != memory.shape:
        return False
    if runs.is_within_statement():
        return False
    value = evaluate(result)
    landed = cast(value, memory.dtype) if is_checked else value.astype(memory.dtype, copy=False)
    return _put([(node, memory, ..., landed)], None)


def _are_codes(given: Any, labels: Any) -> bool:
    """Whether numbers are codes of labels; of what is unknown here it is asked on another way."""
    if not isinstance(labels, (list, tuple, np.ndarray)):
        return False
    if type(given) is int:
        return NO_LABEL <= given < len(labels)
    if not isinstance(given, np.ndarray) or given.dtype.kind not in "iu" or not given.size:
        return False
    return bool(given.min() >= NO_LABEL and given.max() < len(labels))


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


def _whole_key(key: Any) -> tuple[Any, ...]:
    """Return a key as one on all axes, for which NumPy returns an array."""
    return (*key, ...) if type(key) is tuple else (key, ...)


def _put(parts: _Parts, key: Any) -> bool:
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


def _places(parts: _Parts, key: Any) -> list[LatePlace]:
    return [_place(node, key) for node, _, _, _ in parts]


def _place(node: Node, key: Any) -> LatePlace:
    return LatePlace(_stored(node).source, _where(node, key))


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


def _in_one_node(node: Node, key: Any) -> tuple[Node, Any]:
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


def _has_codes_within(node: Node) -> bool:
    """Whether fields that are parts of an array may be codes of labels."""
    return bool(node.fields.named) and may_have_codes(node)


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
    is_numbers = memory is not None and memory.dtype.kind in KINDS and memory.flags.writeable
    return memory if is_numbers else None


def _is_plain(value: Any) -> bool:
    return type(value) in NUMBERS or (type(value) is np.ndarray and value.dtype.kind in KINDS)


# --- what is written of a node -------------------------------------------------------------------


def _leaves(source: Node) -> list[Node]:
    """Return the nodes in memory that a node is, or is computed of; none if any is elsewhere."""
    found: list[Node] = []
    waiting, seen = [source], {id(source)}
    while waiting:
        node = waiting.pop()
        if node.has_gaps:
            return []
        if type(node) in _COMPUTED:
            new = [part for part in node.made_of() if id(part) not in seen]
            seen.update(map(id, new))
            waiting += new
        elif _is_of_memory(node) and _stored(node).source.memory is not None:
            found.append(node)
        else:
            return []
    return found


_COMPUTED = frozenset((Elementwise, Comparison))
"""The kinds of nodes that are computed element by element."""


def _has_rows_of(leaf: Node, source: Node) -> bool:
    """Whether a row of what is computed is computed of this row of a leaf."""
    own, shape = known_shape(leaf), known_shape(source)
    return len(own) == len(shape) and own[:1] == shape[:1]


def _data(source: Node, key: Any, target: Node, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return rows of a node to be written, None if they do not fit into a shape or are large."""
    own = _shape_of_rows(known_shape(source), key)
    count = size_of(own)
    if not _is_fitting(target, own, shape):
        return None
    memory = memory_of(source) if _is_of_memory(source) else None
    if memory is not None:
        is_small = count < sizes.streamed_elements or memory.itemsize * count <= sizes.at_once_bytes
        return (memory if key is None else memory[key, ...]) if is_small else None
    nbytes = known_dtype(source).itemsize * count
    if count >= sizes.streamed_elements and nbytes > sizes.computed_bytes:
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
