"""Answering a plan: the rows asked for are pushed down to the sources, then arrays rise."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dataview.compute import engines, products
from dataview.compute.blocks import Cut, fused, is_one_block
from dataview.compute.kernel import run_small, run_whole
from dataview.compute.statistics import pending, some_rows, take
from dataview.errors import StreamError
from dataview.index import (
    ENDLESS,
    Affine,
    Constant,
    Index,
    Map,
    axes_of,
    compose,
    gather,
    identity,
    is_endless,
)
from dataview.plan.build import arguments, comparison, field, select
from dataview.plan.concat import split_rows
from dataview.plan.kinds import (
    Comparison,
    Concat,
    Deferred,
    Driven,
    Elementwise,
    Mapped,
    MatMul,
    Placeholder,
    Record,
    Reduction,
    Reshaped,
    Sampled,
    Select,
    Stored,
    known_dtype,
    known_shape,
    members,
    size_of,
)
from dataview.plan.node import Argument, Node
from dataview.plan.symbols import check_bound
from dataview.sources import Memo

BLOCK_BYTES = 4 << 20
"""How much is read at a time where a pass over all rows is enough."""


def evaluate(node: Node, index: Index | None = None, memo: Memo | None = None) -> np.ndarray:
    """Return the data of a node, or of the part that an index selects."""
    memo = {"roots": (node,)} if memo is None else memo
    if isinstance(node, Sampled):
        return node.answer(evaluate, memo) if index is None else _some_samples(node, index, memo)
    shape = (node.shape or known_shape(node)) if index is None else index.shape
    if shape and max(shape) >= ENDLESS:
        raise StreamError("the view never ends, so its data cannot be returned; slice it first")
    return _ANSWERS[type(node)](node, index, memo)


def _some_samples(node: Sampled, index: Index, memo: Memo) -> np.ndarray:
    found = evaluate(node.part(index), None, memo)
    if found.shape != index.shape:
        raise ValueError(
            f"a part of shape {index.shape} was asked for, and there is one of {found.shape}: the "
            "minibatches are not all of one size; compute before batching, or choose tail='drop' "
            "or tail='pad'"
        )
    return found


def _stored(node: Stored, index: Index | None, memo: Memo) -> np.ndarray:
    index = identity(node.source.shape) if index is None else index
    found = node.source.read(index, memo)
    if node.source.lends and index.is_box and not node.writable and found.flags.writeable:
        return gather.frozen(found)
    return found


def _select(node: Select, index: Index | None, memo: Memo) -> np.ndarray:
    return evaluate(node.node, node.index if index is None else compose(node.index, index), memo)


SMALL = 1 << 14
"""Up to so many elements NumPy's own temporaries stay in the cache, and no plan pays."""


def _reduction(node: Reduction, index: Index | None, memo: Memo) -> np.ndarray:
    if node.taken is None and index is not None and node.node.shape and 0 not in node.axes:
        return some_rows(node, index, evaluate)
    if node.taken is None:
        take(pending(node), evaluate)
    assert node.taken is not None
    return node.taken if index is None else gather.read(node.taken, index)


def _elementwise(node: Elementwise, index: Index | None, memo: Memo) -> np.ndarray:
    return _together((node,), index, memo)[0]


def _together(
    nodes: Sequence[Elementwise], index: Index | None, memo: Memo
) -> Sequence[np.ndarray]:
    """Return the data of elementwise nodes of one shape, equal parts of them computed once."""
    own = known_shape(nodes[0])
    shape = own if index is None else index.shape
    size = math.prod(shape)
    divided = size > SMALL and not is_one_block(size, nodes[0].dtypes[0])
    if divided or engines.current() == "numexpr":
        _take_once(nodes, index, memo)
        return fused(nodes, index, None, evaluate, _narrowed)

    def leaf(part: Node) -> np.ndarray:
        if index is None:
            memory = lent(part)
            if memory is not None:
                return memory
        _take_once(nodes, index, memo)
        return _operand(part, index, own, memo)

    if size > SMALL:
        return run_whole(nodes, shape, leaf)
    found = run_small(nodes, leaf, lending=index is None)
    if len(found) == 1 and found[0].shape == shape:
        return found
    return [_spread(part, nodes[0], index) for part in found]


def _take_once(nodes: Sequence[Node], index: Index | None, memo: Memo) -> None:
    """Take the statistics below expressions, all of them together, so that one reading serves."""
    if "taken" not in memo:
        memo["taken"] = True
        missing = {id(part): part for node in nodes for part in pending(node)}.values()
        take([part for part in missing if index is None or 0 in part.axes], evaluate)


def _operand(node: Node, index: Index | None, shape: Sequence[int], memo: Memo) -> np.ndarray:
    if index is None:
        memory = lent(node)
        return evaluate(node, None, memo) if memory is None else memory
    return evaluate(node, _narrowed(index, shape, known_shape(node)), memo)


def _comparison(node: Comparison, index: Index | None, memo: Memo) -> np.ndarray:
    known_shape(node)
    if any(isinstance(arg, Record) for arg in node.args):
        return _compared_records(node, index, memo)
    compare = operator.ne if node.negated else operator.eq
    return _spread(np.asarray(compare(*_operands(node, index, memo))), node, index)


def _compared_records(node: Comparison, index: Index | None, memo: Memo) -> np.ndarray:
    """Compare records as NumPy compares structured arrays: all members of a place are equal."""
    index = identity(known_shape(node)) if index is None else index
    left, right = (members(arg) if isinstance(arg, Record) else {} for arg in node.args)
    if left.keys() != right.keys():
        return np.full(index.shape, node.negated)
    equal: np.ndarray = np.ones(index.shape, bool)
    rank = len(known_shape(node))
    for name in left:
        ours, theirs = left[name].node, right[name].node
        if known_shape(ours)[rank:] != known_shape(theirs)[rank:]:
            return np.full(index.shape, node.negated)
        same = evaluate(comparison(ours, theirs, False), _deeper(index, ours, rank), memo)
        np.logical_and(equal, same.all(axis=tuple(range(len(index.shape), same.ndim))), out=equal)
    return np.logical_not(equal) if node.negated else equal


def _deeper(index: Index, node: Node, rank: int) -> Index:
    """Return an index on a record's axes as one on a member, whole on the member's own axes."""
    trailing = known_shape(node)[rank:]
    depth = len(index.shape)
    whole = [Affine(0, ((depth + axis, 1),)) for axis in range(len(trailing))]
    return Index((*index.shape, *trailing), (*index.maps, *whole))


def _spread(result: np.ndarray, node: Node, index: Index | None) -> np.ndarray:
    """Return a result in the shape asked for, where no argument varies over some axis."""
    shape = known_shape(node) if index is None else index.shape
    return result if result.shape == shape else np.array(np.broadcast_to(result, shape))


def _operands(
    node: Comparison, index: Index | None, memo: Memo
) -> list[np.ndarray | int | float | complex]:
    shape = known_shape(node)
    return [
        _operand(arg, index, shape, memo) if isinstance(arg, Node) else arg for arg in node.args
    ]


def _narrowed(index: Index | None, shape: Sequence[int], own: Sequence[int]) -> Index | None:
    """Return the index that selects from an argument what `index` selects from the result.

    Axes over which the argument does not vary come out with length 1.
    """
    if index is None:
        return None
    maps: list[Map] = []
    for map_, length, whole in zip(
        index.maps[len(shape) - len(own) :], own, shape[len(shape) - len(own) :], strict=True
    ):
        maps.append(Constant(0) if length == 1 and whole != 1 else map_)
    used = {axis for map_ in maps for axis in axes_of(map_)}
    view = [n if axis in used or n == 0 else 1 for axis, n in enumerate(index.shape)]
    return Index(view, maps)


def _reshaped(node: Reshaped, index: Index | None, memo: Memo) -> np.ndarray:
    if index is None:
        return evaluate(node.node, None, memo).reshape(known_shape(node))
    rows = _rows_of_reshaped(node, index)
    if rows is not None:
        return evaluate(node.node, rows, memo).reshape(index.shape)
    return evaluate(node.node, compose(node.index, index), memo)


def _rows_of_reshaped(node: Reshaped, index: Index) -> Index | None:
    """Return what to read where an index takes the axes that were reshaped whole."""
    own, shape = known_shape(node.node), known_shape(node)
    kept = 0
    while node.index.maps[kept : kept + 1] == (Affine(0, ((kept, 1),)),) and (
        own[kept] == shape[kept]
    ):
        kept += 1
    lead = len(index.shape) - len(shape) + kept
    trailing = tuple(Affine(0, ((lead + n, 1),)) for n in range(len(shape) - kept))
    lent = {axis for map_ in index.maps[:kept] for axis in axes_of(map_)}
    if (
        index.maps[kept:] != trailing
        or index.shape[lead:] != shape[kept:]
        or max(lent, default=-1) >= lead
    ):
        return None
    whole = [Affine(0, ((lead + n, 1),)) for n in range(len(own) - kept)]
    return Index((*index.shape[:lead], *own[kept:]), (*index.maps[:kept], *whole))


def _matmul(node: MatMul, index: Index | None, memo: Memo) -> np.ndarray:
    return products.answer(node, index, evaluate)


def _record(node: Record, index: Index | None, memo: Memo) -> np.ndarray:
    if index is not None:
        return evaluate(select(node, index), None, memo)
    out = np.empty(known_shape(node), known_dtype(node))
    for name, part in members(node).items():
        out[name] = evaluate(part.node, None, memo)
    return out


def _mapped(node: Mapped, index: Index | None, memo: Memo) -> np.ndarray:
    index = identity(known_shape(node)) if index is None else index
    fetch = functools.partial(node.step.rows, node, memo=memo)
    over = axes_of(index.maps[0])
    rows = size_of(tuple(index.shape[axis] for axis in over))
    row = size_of(known_shape(node)[1:]) * known_dtype(node).itemsize
    asked = size_of(index.shape) * known_dtype(node).itemsize
    if not over or rows * row <= max(2 * asked, BLOCK_BYTES):
        return gather.by_rows(index, fetch)
    # Whole rows are made where little of each is asked for: so a few at a time.
    out = np.empty(index.shape, node.dtype)
    length = index.shape[over[0]]
    step = max(1, length * BLOCK_BYTES // (rows * row))
    for start in range(0, length, step):
        cut = Cut(over[0], start, min(start + step, length))
        cut.of(out)[...] = gather.by_rows(compose(index, cut.within(index.shape)), fetch)
    return out


def _driven(node: Driven, index: Index | None, memo: Memo) -> np.ndarray:
    return evaluate(node.node, index, memo)


def _concat(node: Concat, index: Index | None, memo: Memo) -> np.ndarray:
    index = identity(known_shape(node)) if index is None else index
    out = np.empty(index.shape, node.dtype)
    for part in split_rows(node, index):
        part.of(out)[part.places] = evaluate(part.node, part.where, memo)
    return out


def _unbound(node: Node, index: Index | None, memo: Memo) -> np.ndarray:
    check_bound(node)
    raise AssertionError("a symbol is never bound in place")


_ANSWERS: dict[type[Node], Callable[[Any, Index | None, Memo], np.ndarray]] = {
    Stored: _stored,
    Select: _select,
    Reshaped: _reshaped,
    MatMul: _matmul,
    Elementwise: _elementwise,
    Comparison: _comparison,
    Record: _record,
    Reduction: _reduction,
    Driven: _driven,
    Mapped: _mapped,
    Concat: _concat,
    Placeholder: _unbound,
    Deferred: _unbound,
}


def evaluate_all(nodes: Sequence[Node]) -> list[np.ndarray]:
    """Return the data of several nodes: what they share is computed and read once.

    All statistics are taken together; expressions of one shape run through the same blocks.
    """
    memo: Memo = {"roots": tuple(node for node in nodes if not _is_fused(node))}
    _take_once(nodes, None, memo)
    found: dict[Node, np.ndarray] = {}
    alike: dict[Any, list[Elementwise]] = {}
    for node in dict.fromkeys(nodes):
        if isinstance(node, Elementwise):
            alike.setdefault(known_shape(node), []).append(node)
        else:
            found[node] = evaluate(node, None, memo)
    for group in alike.values():
        found.update(zip(group, _together(group, None, memo), strict=True))
    return apart([found[node] for node in nodes], list(map(aliases, nodes)))


def apart(found: list[np.ndarray], lends: Sequence[bool]) -> list[np.ndarray]:
    """Return data such that what has been computed is in an array of its own, each time."""
    given: set[int] = set()
    for number, array in enumerate(found):
        if id(array) in given and not lends[number] and array.flags.writeable:
            found[number] = array.copy()
        given.add(id(array))
    return found


def _is_fused(node: Node) -> bool:
    """Whether a node is computed block by block, each with a memo of its own."""
    if not isinstance(node, Elementwise):
        return False
    return not is_one_block(size_of(known_shape(node)), node.dtypes[0])


# --- passes over rows ------------------------------------------------------------------------


def row_blocks(node: Node, most: int = BLOCK_BYTES) -> Iterator[tuple[slice, Index]]:
    """Return the row ranges, and their indices, in which a node is read block by block."""
    shape = known_shape(node)
    if shape and is_endless(shape[0]):
        raise StreamError("the view never ends, so it cannot be read to its end; slice it first")
    if not shape:
        yield slice(0, 0), identity(())
        return
    row = size_of(shape[1:]) * known_dtype(node).itemsize
    step = max(1, most // max(1, row))
    for start in range(0, shape[0], step):
        stop = min(start + step, shape[0])
        whole = identity((stop - start, *shape[1:]))
        rows = Affine(start, ((0, 1),))
        yield slice(start, stop), Index(whole.shape, [rows, *whole.maps[1:]])


def aliases(node: Node) -> bool:
    """Whether a node's data is a strided view of memory, which evaluation lends."""
    if isinstance(node, Select):
        return node.index.is_box and aliases(node.node)
    if isinstance(node, Driven):
        return aliases(node.node)
    return isinstance(node, Stored) and node.source.lends


def answered(node: Node, out: np.ndarray | None, copy: bool | None) -> np.ndarray:
    """Return a node's data into `out`, or as a copy (True), or refusing to copy (False)."""
    if copy is False and not aliases(node):
        raise ValueError(
            "the data cannot be had without a copy: only memory that is seen as it lies is lent"
        )
    if out is not None:
        if not isinstance(out, np.ndarray):
            raise TypeError(f"out= is an array to read into; got {type(out).__name__}")
        if out.shape != known_shape(node):
            raise ValueError(f"out= has shape {out.shape}, the view {node.shape}")
        if isinstance(node, Elementwise) and out.dtype == node.dtype and not overlaps(node, out):
            take(pending(node), evaluate)
            return fused([node], None, [out], evaluate, _narrowed)[0]
        np.copyto(out, evaluate(node))
        return out
    found = evaluate(node)
    if copy and (aliases(node) or not found.flags.writeable):  # a photograph is read-only
        found = np.array(found)
    return found


def by_name(node: Node, memo: Memo | None = None) -> dict[str, Any]:
    """Return the data of a node's fields, nested as they are, in one evaluation."""
    parts = {name: field(node, name) for name in node.fields}
    memo = {"roots": tuple(parts.values())} if memo is None else memo
    return {
        name: by_name(part, memo) if isinstance(part, Record) else evaluate(part, None, memo)[()]
        for name, part in parts.items()
    }


def in_order(parts: dict[str, Any]) -> tuple[Any, ...]:
    """Return the data of fields without their names."""
    return tuple(in_order(part) if isinstance(part, dict) else part for part in parts.values())


def rewritten(
    node: Elementwise,
    memory: np.ndarray,
    index: Index | None = None,
    given: Mapping[int, np.ndarray] | None = None,
) -> None:
    """Compute an expression over memory that it reads, if it does, at the same places.

    An index chooses part of it; `given` is what some of its operands have there.
    """
    fused([node], index, [memory], evaluate, _narrowed, spare=False, given=given)


def overlaps(node: Node, array: np.ndarray) -> bool:
    """Whether a node may read the memory of an array."""
    if isinstance(node, Stored):
        memory = getattr(node.source, "array", None)
        return memory is not None and bool(np.may_share_memory(memory, array))
    return any(overlaps(below, array) for below in arguments(node))


def lent(node: Node) -> np.ndarray | None:
    """Return the node's own memory as an array, made once; None where evaluation must copy."""
    if node.lent is None:
        node.lent = evaluate(node) if aliases(node) else False
    return None if node.lent is False else node.lent


def is_equal(left: Argument, right: Argument) -> bool:
    """Whether two nodes have the same shape and fields and equal data; stops at a difference."""
    if not isinstance(left, Node) or not isinstance(right, Node):
        return bool(np.all(operator.eq(_value(left), _value(right))))
    for side in (left, right):
        if side.shape and is_endless(side.shape[0]):
            raise StreamError("a view that never ends cannot be compared as a whole")
    if isinstance(left, Record) or isinstance(right, Record):
        return _equal_records(left, right)
    if known_shape(left) != known_shape(right):
        return False
    if left.dtype is None or right.dtype is None:
        return bool(np.all(operator.eq(evaluate(left), evaluate(right))))
    wider = max((left, right), key=lambda node: known_dtype(node).itemsize)
    return all(
        bool(np.all(np.asarray(operator.eq(evaluate(left, index), evaluate(right, index)))))
        for _, index in row_blocks(wider)
    )


def _equal_records(left: Node, right: Node) -> bool:
    if not (isinstance(left, Record) and isinstance(right, Record)):
        return False
    ours, theirs = members(left), members(right)
    return ours.keys() == theirs.keys() and all(
        is_equal(ours[name].node, theirs[name].node) for name in ours
    )


def _value(argument: Argument) -> Any:
    return evaluate(argument) if isinstance(argument, Node) else argument
