"""How each kind of node is evaluated: it asks the nodes below it for the rows that it needs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias

import numpy as np

from dataview.compute.blocks import fused, product
from dataview.compute.kernel import run_small, run_whole
from dataview.compute.programs import leaves_of
from dataview.compute.reshaping import read_below
from dataview.compute.rows import NESTED, PLAN, taker_of
from dataview.compute.statistics import pending, some_rows, take
from dataview.compute.ways import (
    aliases,
    cuts_along,
    cuts_of_request,
    is_divided,
    making_together,
    memory_of,
    read_stored,
)
from dataview.index import (
    ENDLESS,
    Array,
    Index,
    axes_of,
    axis_index,
    compose,
    extend,
    gather,
    identity,
    is_endless,
)
from dataview.index.sizes import sizes
from dataview.plan.build import comparison, select
from dataview.plan.concat import split_rows
from dataview.plan.fields import NO_FIELDS
from dataview.plan.guards import endless
from dataview.plan.kinds import (
    Comparison,
    Concat,
    Driven,
    Elementwise,
    LateStored,
    Mapped,
    MatMul,
    Placeholder,
    Record,
    Reduction,
    Reshaped,
    RowsInMemory,
    Sampled,
    Select,
    Stored,
    known_dtype,
    known_shape,
    members,
    size_of,
)
from dataview.plan.node import Node, check_comparable
from dataview.plan.operations import CRASHING, as_compared
from dataview.plan.photographs import take_tables
from dataview.plan.places import operand_index
from dataview.plan.symbols import Deferred, check_bound
from dataview.plan.walk import below, rebuilt
from dataview.sources import Memo, Source

Ask: TypeAlias = "tuple[Node, Index | None]"
Answer: TypeAlias = "np.ndarray | Generator[Ask, np.ndarray, np.ndarray]"
"""The data of a node; or a generator that asks for the data of others and returns its own."""


def evaluate(node: Node, index: Index | None = None, memo: Memo | None = None) -> np.ndarray:
    """Return the data of a node, or of the part that an index selects.

    A node that needs others waits on a list, not on Python's stack.
    """
    memo = {"roots": (node,)} if memo is None else memo
    found: Any = _answer(node, index, memo)
    if isinstance(found, np.ndarray):
        return found
    if type(node) is Record:
        with making_together([part.node for part in members(node).values()]):
            return _answered(found, memo)
    return _answered(found, memo)


def _answered(found: Any, memo: Memo) -> np.ndarray:
    """Return the answer of a generator, and of those that it asks for."""
    waiting: list[Any] = []
    while True:
        if not isinstance(found, np.ndarray):
            waiting.append(found)
            found = None
        if not waiting:
            return found  # type: ignore[no-any-return]
        try:
            part, where = waiting[-1].send(found)
        except StopIteration as over:
            found = over.value
            waiting.pop()
        else:
            found = _answer(part, where, memo)


def _answer(node: Node, index: Index | None, memo: Memo) -> Answer:
    """Return the answer of a node's kind; a part of a node becomes an index on the node below."""
    if index is None and type(node) is Select and node.index.shape and _has_taker(node):
        count = node.index.shape[0]
        taker = None if is_endless(count) else taker_of(evaluate, node)
        found = PLAN if taker is None else taker(range(count))
        if found is not PLAN:
            return np.asarray(found)
    while (answer := _ANSWERS.get(type(node))) is None:
        if isinstance(node, Sampled):
            return _sampled(node, index, memo)
        assert isinstance(node, Select | Driven)
        if isinstance(node, Select):
            index = node.index if index is None else compose(node.index, index)
        node = node.node
    if index is None and type(node) is Record and node.shape is None and not node.rank:
        return _one_sample(node)
    shape = (node.shape or known_shape(node)) if index is None else index.shape
    if shape and max(shape) >= ENDLESS:
        raise endless("calling")
    return answer(node, index, memo)


def _has_taker(node: Select) -> bool:
    """Whether a part may be taken as rows: it was before, or it is more than part of a store."""
    return bool(node.reader) or not (isinstance(node.node, Stored) or aliases(node.node))


def _sampled(node: Sampled, index: Index | None, memo: Memo) -> np.ndarray:
    if index is None:
        return node.answer(evaluate, memo)
    found = evaluate(node.part(index), None, memo)
    if found.shape != index.shape:
        raise ValueError(
            f"a part of shape {index.shape} was asked for, and there is one of {found.shape}: the "
            "minibatches are not all of one size; compute before batching, or choose tail='drop' "
            "or tail='pad'"
        )
    return found


def _stored(node: Stored, index: Index | None, memo: Memo) -> np.ndarray:
    return read_stored(node, identity(node.source.shape) if index is None else index, memo)


def _reduction(node: Reduction, index: Index | None, memo: Memo) -> np.ndarray:
    if node.taken is None and index is not None and node.node.count and 0 not in node.axes:
        return some_rows(node, index, evaluate)
    if node.taken is None:
        take((node,) if node.node.settled else pending(node), evaluate)
    assert node.taken is not None
    return node.taken if index is None else gather.read(node.taken, index)


def _elementwise(node: Elementwise, index: Index | None, memo: Memo) -> Answer:
    if node.levels <= NESTED:
        return evaluate_together((node,), index, memo)[0]
    return _deep(node, index, memo)


def _deep(
    node: Elementwise, index: Index | None, memo: Memo
) -> Generator[Ask, np.ndarray, np.ndarray]:
    """Ask for the operands of an expression before it is computed."""
    own = known_shape(node)
    values: dict[Node, np.ndarray] = {}
    if is_divided(math.prod(own if index is None else index.shape), node.dtypes[0]):
        return evaluate_together((node,), index, memo)[0]  # each of its blocks comes here again
    take_once((node,), index, memo)
    for leaf in leaves_of(node):
        values[leaf] = yield leaf, operand_index(index, own, known_shape(leaf))
    return evaluate_together((node,), index, memo, values.__getitem__)[0]


def evaluate_together(
    nodes: Sequence[Elementwise],
    index: Index | None,
    memo: Memo,
    leaf: Callable[[Node], np.ndarray] | None = None,
) -> Sequence[np.ndarray]:
    """Return the data of elementwise nodes of one shape, in which equal parts are computed once.

    `leaf` returns the data of their operands, if these have been read already.
    """
    own = known_shape(nodes[0])
    shape = own if index is None else index.shape
    size = math.prod(shape)
    if leaf is None and is_divided(size, nodes[0].dtypes[0]):
        take_once(nodes, index, memo)
        return fused(nodes, index, None, evaluate)

    def read(part: Node) -> np.ndarray:
        memory = memory_of(part) if index is None else None
        if memory is not None:
            return memory
        take_once(nodes, index, memo)
        return evaluate(part, operand_index(index, own, known_shape(part)), memo)

    if size > sizes.small_elements:
        return run_whole(nodes, shape, leaf or read)
    found = run_small(nodes, leaf or read, lending=index is None)
    if len(found) == 1 and found[0].shape == shape:
        return found
    return [_broadcast(part, nodes[0], index) for part in found]


def take_once(nodes: Sequence[Node], index: Index | None, memo: Memo) -> None:
    """Take all statistics below expressions together, so that the data are read once."""
    if "taken" not in memo:
        memo["taken"] = True
        settle(*nodes, index=index)


def settle(*nodes: Node, index: Index | None = None) -> None:
    """Take the statistics below nodes that have no value yet, those of one operand in one pass.

    For a part of the nodes, those with a value for each row are left to be computed for its rows.
    """
    wanted = pending(*nodes, index=index)
    if wanted:
        take(wanted, evaluate)


def _comparison(
    node: Comparison, index: Index | None, memo: Memo
) -> Generator[Ask, np.ndarray, np.ndarray]:
    shape = known_shape(node)
    if any(isinstance(arg, Record) for arg in node.args):
        return (yield from _compared_records(node, index))
    sides: list[Any] = []
    for arg in node.args:
        if arg is node.args[0] and sides:
            sides.append(sides[0])  # read once
        elif isinstance(arg, Node):
            sides.append((yield arg, operand_index(index, shape, known_shape(arg))))
        else:
            sides.append(arg)
    if CRASHING:
        dtypes = [getattr(side, "dtype", None) for side in reversed(sides)]
        sides = list(map(as_compared, sides, dtypes))
    compare = operator.ne if node.negated else operator.eq
    return _broadcast(np.asarray(compare(*sides)), node, index)


def _compared_records(
    node: Comparison, index: Index | None
) -> Generator[Ask, np.ndarray, np.ndarray]:
    """Compare records as NumPy compares structured arrays: a row is equal if all members are."""
    index = identity(known_shape(node)) if index is None else index
    left, right = (members(arg) if isinstance(arg, Record) else {} for arg in node.args)
    if left.keys() != right.keys():
        check_comparable(node.args)
        return np.full(index.shape, node.negated)
    equal: np.ndarray = np.ones(index.shape, bool)
    rank = len(known_shape(node))
    for name in left:
        ours, theirs = left[name].node, right[name].node
        if known_shape(ours)[rank:] != known_shape(theirs)[rank:]:
            return np.full(index.shape, node.negated)
        same = yield comparison(ours, theirs, False), extend(index, known_shape(ours)[rank:])
        np.logical_and(equal, same.all(axis=tuple(range(len(index.shape), same.ndim))), out=equal)
    return np.logical_not(equal) if node.negated else equal


def _broadcast(result: np.ndarray, node: Node, index: Index | None) -> np.ndarray:
    """Return a result broadcast to the shape that was asked for."""
    shape = known_shape(node) if index is None else index.shape
    return result if result.shape == shape else np.array(np.broadcast_to(result, shape))


def _reshaped(
    node: Reshaped, index: Index | None, memo: Memo
) -> Generator[Ask, np.ndarray, np.ndarray]:
    if index is None:
        return (yield node.node, None).reshape(known_shape(node))
    needed, around = read_below(node, index)
    found = yield node.node, needed
    if around is None:
        return found.reshape(index.shape)
    part = found.reshape(-1)[around.skipped :][: math.prod(around.shape)]
    found = gather.own(part.reshape(around.shape), around.within)
    return np.array(found) if aliases(node.node) else found


class Kept(Select):
    """All of another node, of which `keeper` remembers the data, or what they are made of.

    `keeper.read(node, index)` returns the data of the other node.  A write passes through to it.
    """

    __slots__ = ("keeper",)

    def __init__(self, node: Node, keeper: Any) -> None:
        super().__init__(node, identity(known_shape(node)), NO_FIELDS, node.meta)
        self.keeper = keeper
        self.label = node.label


def _kept(node: Kept, index: Index | None, memo: Memo) -> np.ndarray:
    """Return the data, without a memo, which may have what is kept borrow its memory."""
    return node.keeper.read(node.node, index)  # type: ignore[no-any-return]


def _record(
    node: Record, index: Index | None, memo: Memo
) -> Generator[Ask, np.ndarray, np.ndarray]:
    if index is not None:
        return (yield select(node, index), None)
    shape = known_shape(node)
    new = np.zeros if node.are_columns else np.empty  # nobody's bytes are in the gaps of columns
    out = new(shape, known_dtype(node))
    parts = {name: part.node for name, part in members(node).items()}
    take_tables(parts.values())
    for cut in cuts_of_request(parts.values()):
        for name, part in parts.items():
            out_of = out if cut is None else cut.of(out)
            out_of[name] = yield part, None if cut is None else cut.within(known_shape(part))
    return out


def _one_sample(node: Record) -> Generator[Ask, np.ndarray, np.ndarray]:
    """Return one sample of which the shape is known once its parts have been made."""
    found: dict[str, np.ndarray] = {}
    for name, part in members(node).items():
        found[name] = yield part.node, None
    out = np.empty((), [(name, array.dtype, array.shape) for name, array in found.items()])
    for name, array in found.items():
        out[name] = array
    return out


def _mapped(node: Mapped, index: Index | None, memo: Memo) -> Answer:
    """Return what functions make of rows."""
    if index is None and node.node.count and node.levels <= NESTED:
        return node.step.rows(node, np.arange(node.node.count), memo)
    return _mapped_in_blocks(node, index, memo)


def _mapped_in_blocks(
    node: Mapped, index: Index | None, memo: Memo
) -> Generator[Ask, np.ndarray, np.ndarray]:
    """Return what functions make of rows: in blocks, where little of each row is asked for."""
    index = identity(known_shape(node)) if index is None else index
    over = axes_of(index.maps[0])
    rows = size_of(tuple(index.shape[axis] for axis in over))
    row = size_of(known_shape(node)[1:]) * known_dtype(node).itemsize
    asked = size_of(index.shape) * known_dtype(node).itemsize
    if not over or rows * row <= max(2 * asked, sizes.block_bytes):
        return (yield from _of_rows(node, index, memo))
    out = np.empty(index.shape, node.dtype)
    length = index.shape[over[0]]
    step = max(1, length * sizes.block_bytes // (rows * row))
    for cut in cuts_along(over[0], length, step):
        part = compose(index, cut.within(index.shape))
        cut.of(out)[...] = yield from _of_rows(node, part, memo)
    return out


def _of_rows(node: Mapped, index: Index, memo: Memo) -> Generator[Ask, np.ndarray, np.ndarray]:
    """Return what functions make of the rows that an index needs.

    A function reads its row when it is called.  Where calls would nest too deep, the rows are read
    before.
    """
    numbers, rest = gather.rows_and_rest(index)
    if node.levels > NESTED:
        node = node.replaced(node=(yield from _held_rows(node.node, numbers, memo)))
    return gather.own(node.step.rows(node, numbers, memo), rest)


def _held_rows(node: Node, numbers: np.ndarray, memo: Memo) -> Generator[Ask, np.ndarray, Node]:
    """Return a node with these rows of all its members in memory, read once for all readers."""
    key = ("held", id(node), numbers.tobytes())
    if key in memo:
        return memo[key][1]  # type: ignore[no-any-return]

    def members_of(part: Node) -> list[Any]:
        return part.made_of() if isinstance(part, Record) else []

    held: dict[int, Node] = {}
    for part in below([node], members_of):
        if not isinstance(part, Record):
            rows = axis_index(known_shape(part), Array(numbers, (0,)), len(numbers))
            held[id(part)] = RowsInMemory(part, numbers, (yield part, rows))
    (found,) = rebuilt([node], lambda part, old: held.get(id(old), part), members_of)
    memo[key] = node, found  # holding the node keeps its identity its own
    return found  # type: ignore[no-any-return]


def _held(node: RowsInMemory, index: Index | None, memo: Memo) -> np.ndarray:
    index = identity(known_shape(node)) if index is None else index
    return gather.by_rows(index, node.rows)


def _concat(
    node: Concat, index: Index | None, memo: Memo
) -> Generator[Ask, np.ndarray, np.ndarray]:
    index = identity(known_shape(node)) if index is None else index
    if not index.shape:
        (part,) = split_rows(node, index)
        return (yield part.node, part.where).astype(known_dtype(node))
    out = np.empty(index.shape, node.dtype)
    for part in split_rows(node, index):
        part.of(out)[part.places] = yield part.node, part.where
    return out


def _without_data(node: Node, index: Index | None, memo: Memo) -> np.ndarray:
    check_bound(node)
    raise AssertionError("a symbol is never bound in place")


_ANSWERS: dict[type[Node], Callable[[Any, Index | None, Memo], Answer]] = {
    Stored: _stored,
    LateStored: _stored,
    Reshaped: _reshaped,
    Kept: _kept,
    MatMul: product,
    Elementwise: _elementwise,
    Comparison: _comparison,
    Record: _record,
    Reduction: _reduction,
    Mapped: _mapped,
    RowsInMemory: _held,
    Concat: _concat,
    Placeholder: _without_data,
    Deferred: _without_data,
}


# --- memory without a copy --------------------------------------------------------------------


def overlaps(node: Node, source: Source) -> bool:
    """Whether a node may read what is in a source."""
    return any(isinstance(part, Stored) and part.source.may_share(source) for part in below([node]))
