"""Data of several nodes at once, by field, into a buffer, or in blocks of rows; and equality."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from dataview.compute import executors, rows
from dataview.compute.blocks import Around, fused, in_parts
from dataview.compute.evaluation import evaluate, evaluate_together, overlaps, settle, take_once
from dataview.compute.part_by_part import places_by_part
from dataview.compute.photographs import changing_arrays
from dataview.compute.statistics import (
    RowsForLater,
    needed_later,
    pending,
    reduction,
    take,
    with_nothing,
)
from dataview.compute.ways import (
    Cut,
    aliases,
    cuts_along,
    cuts_of_grid,
    cuts_of_request,
    grid_of_rows,
    have_makers_in_common,
    in_requests,
    is_divided,
    makers_of,
    making_together,
    row_cuts,
    rows_of_request,
    rows_shape,
)
from dataview.index import (
    Constant,
    Index,
    Rows,
    compose,
    identity,
    in_a_run,
    is_endless,
    parse,
    rows_index,
)
from dataview.index.flat import is_of_arrays
from dataview.index.sizes import sizes
from dataview.plan.build import elementwise, field, found_of, select, stored
from dataview.plan.gaps import present_in, with_mask
from dataview.plan.guards import check_ends
from dataview.plan.kinds import (
    Elementwise,
    Record,
    Reduction,
    Sampled,
    known_dtype,
    known_shape,
    members,
    size_of,
)
from dataview.plan.node import Argument, DType, Node, check_comparable
from dataview.plan.operations import may_be_missing
from dataview.plan.photographs import (
    Late,
    Photograph,
    photographs_in,
    prepare,
    read_by_photographs,
    take_tables,
)
from dataview.plan.ragged import Ragged
from dataview.sources import ArraySource, Memo, made_once, made_so_far

fields_at = functools.partial(rows.fields_at, evaluate)
reader_of: Callable[[Node], Callable[[Any], Any]] = functools.partial(rows.reader_of, evaluate)
read_as_rows_of = functools.partial(rows.read_as_rows_of, evaluate)


def evaluate_all(nodes: Sequence[Node], photographs: Sequence[Photograph] = ()) -> list[np.ndarray]:
    """Return the data of several nodes: what they share is computed and read once.

    All statistics are taken together, and so are `photographs` that the nodes depend on.  Of the
    expressions those of one shape run through the same blocks.
    """
    filled = [part for node in nodes if _is_filled_up(node) for part in photographs_in(node)]
    photographs = list(dict.fromkeys([*photographs, *filled]))
    asked = read_by_photographs(photographs, *nodes)
    read = [*asked.values()]
    wanted = pending(*nodes, *read)
    there = [node for node in nodes if type(node) is not Late]
    is_made = have_makers_in_common([*there, *(part.node for part in wanted), *read])
    later = needed_later(there, wanted, read, evaluate) if is_made else None
    with made_once() if is_made else nullcontext(), later or nullcontext():
        if later is not None:
            _take_for_later(later, wanted, asked)
        prepare(photographs)
        for part in filled:
            if part.is_of_values:
                part.array()
        known = [found_of(one) if type(one) is Late else one for one in nodes]
        found = _read_all(known, is_made) if later is None else _kept_in(later, known)
    return in_own_arrays([found[node] for node in known], list(map(aliases, known)))


def _is_filled_up(node: Node) -> bool:
    return isinstance(node, Sampled) and node.is_filled_up


def _read_all(nodes: Sequence[Node], is_made: bool) -> dict[Node, np.ndarray]:
    memo: Memo = {"roots": tuple(node for node in nodes if not _is_fused(node))}
    found = _in_blocks(nodes) if is_made else _part_by_part(nodes)
    return found or _evaluate_all(nodes, memo)


def _take_for_later(
    later: RowsForLater, wanted: Sequence[Reduction], asked: Mapping[Photograph, Node]
) -> None:
    """Take statistics and photographs; samples are made in the first pass, and kept for others."""
    take(wanted, evaluate, later)
    later.make()
    for photograph, node in asked.items():
        copy = later.data_of(node)
        if copy is not node:
            photograph.find_in(copy)


def _kept_in(later: RowsForLater, nodes: Sequence[Node]) -> dict[Node, np.ndarray]:
    """Return the data of nodes; none of the samples that were kept are made again."""
    found = {node: later.arrays[node] for node in nodes if node in later.arrays}
    others = [node for node in dict.fromkeys(nodes) if node not in found]
    rest = [later.data_of(node) for node in others]
    read = _read_all(rest, have_makers_in_common(rest)) if rest else {}
    return found | {node: read[one] for node, one in zip(others, rest, strict=True)}


def evaluate_view(node: Node, index: Index | None = None, memo: Memo | None = None) -> np.ndarray:
    """Return the data of a view, or of a part: each sample is made once for its statistics, too."""
    is_alone = node.settled or isinstance(node, Reduction) or node.shape is None
    if is_alone or memo is not None or not pending(node):
        return evaluate(node, index, memo)
    return evaluate_at_once(node, index)


rows_of: Callable[..., Any] = functools.partial(rows.rows_of, evaluate_view)


def evaluate_at_once(node: Node, index: Index | None = None) -> np.ndarray:
    """Return the data of a node or of a part, in blocks if functions make them: each sample once.

    So its statistics of rows are computed of the rows that it reads itself.  Those of all rows take
    a pass, and the rows that are needed after it are kept.
    """
    if not makers_of(node):
        return evaluate(node, index)
    wanted = pending(node)
    if index is None and any(0 in part.axes for part in wanted):
        return evaluate_all([node])[0]
    read = [part.node for part in wanted if 0 not in part.axes]
    shape = known_shape(node) if index is None else index.shape
    step = rows_of_request([node, *read])
    with made_once():
        if not shape or shape[0] <= step or is_endless(shape[0]):
            return evaluate(node, index)
        whole, made = index or identity(shape), made_so_far()
        out = np.empty(shape, node.dtype)
        for cut in cuts_along(0, shape[0], step):
            cut.of(out)[...] = evaluate(node, compose(whole, cut.within(shape)))
            if made is not None:
                made.forget()
    return out


def _evaluate_all(nodes: Sequence[Node], memo: Memo) -> dict[Node, np.ndarray]:
    take_tables(nodes)
    take_once(nodes, None, memo)
    found: dict[Node, np.ndarray] = {}
    alike: dict[Any, list[Elementwise]] = {}
    for node in dict.fromkeys(nodes):
        if isinstance(node, Elementwise):
            alike.setdefault(known_shape(node), []).append(node)
        else:
            found[node] = evaluate(node, None, memo)
    for group in alike.values():
        found.update(zip(group, evaluate_together(group, None, memo), strict=True))
    return found


def _in_blocks(nodes: Sequence[Node]) -> dict[Node, np.ndarray]:
    """Return the data of nodes that have the samples of a function in common, if they are many.

    These nodes are computed together in blocks of rows; if there are few rows, nothing is returned.
    """
    found: dict[Node, np.ndarray] = {}
    for cut in cuts_of_request(nodes):
        if cut is None:
            return {}
        memo: Memo = {"roots": tuple(nodes)}
        found = found or {node: _room_for(node) for node in nodes}
        take_once(nodes, cut.within(found[nodes[0]].shape), memo)
        for node, out in found.items():
            cut.of(out)[...] = evaluate(node, cut.within(out.shape), memo)
    return found


def _part_by_part(nodes: Sequence[Node]) -> dict[Node, np.ndarray]:
    """Return the data of nodes with ragged rows in parts, those of one part after the other.

    If the rows are in no parts, or in one, nothing is returned.  Where all columns have one shape a
    single reading has them all.
    """
    counts = {node.count for node in nodes}
    by_part = places_by_part(nodes) if any(isinstance(node, Ragged) for node in nodes) else None
    count = counts.pop() if len(counts) == 1 else None
    if by_part is None or count is None:
        return {}
    found: dict[Node, np.ndarray] = {}
    take_tables(nodes)
    take_once(nodes, None, {})
    for places in by_part(np.arange(count)) or ():
        memo: Memo = {"roots": tuple(node for node in nodes if not isinstance(node, Ragged))}
        found = found or {node: _room_for(node) for node in nodes}
        for node, out in found.items():
            out[places] = evaluate(_rows_at(node, in_a_run(places)), None, memo)
    return found


def _room_for(node: Node) -> np.ndarray:
    """Return an array for the data of a node; rows that differ in length are arrays in it."""
    if isinstance(node, Ragged):
        return np.empty(node.count, object)
    return np.empty(rows_shape(node) or (), object if node.shape is None else node.dtype)


def _rows_at(node: Node, rows: Rows) -> Node:
    """Return rows of a node, by their numbers."""
    if isinstance(node, Ragged):
        return node.rows(cast(Any, rows))
    return select(node, rows_index(known_shape(node), rows))


def in_own_arrays(found: list[np.ndarray], lends: Sequence[bool]) -> list[np.ndarray]:
    """Return arrays of which no two share computed data: what occurs twice is copied."""
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
    return is_divided(size_of(known_shape(node)), node.dtypes[0])


# --- passes over rows ------------------------------------------------------------------------


def row_blocks(node: Node) -> Iterator[Index]:
    """Return the indices of the blocks of rows in which a node is read."""
    shape = known_shape(node)
    check_ends(node, "reading all of it")
    if not shape:
        yield identity(())
        return
    row = size_of(shape[1:]) * known_dtype(node).itemsize
    step = max(1, sizes.block_bytes // max(1, row))
    for cut in row_cuts(node, step):
        yield cut.within(shape)


def blocks_in_any_order(node: Node) -> Iterator[Index]:
    """Yield the indices of blocks in which a node is read, of rows or of parts of them."""
    shape = known_shape(node)
    row = size_of(shape[1:]) * known_dtype(node).itemsize
    grid = grid_of_rows(node, max(1, sizes.block_bytes // max(1, row)))
    for cut in cuts_of_grid(grid, shape) if shape else [Cut(0, 0, 0)]:
        yield cut.within(shape)


def evaluate_into(node: Node, out: np.ndarray | None, copy: bool | None) -> np.ndarray:
    """Return a node's data: in `out`, as a copy (`copy=True`), or never as a copy (False)."""
    if copy is False and not aliases(node):
        raise ValueError(
            "these data cannot be returned without a copy: they are not a strided view of memory"
        )
    if out is not None:
        if not isinstance(out, np.ndarray):
            raise TypeError(f"out= is an array to read into; got {type(out).__name__}")
        if out.shape != known_shape(node):
            raise ValueError(f"out= has shape {out.shape}, the view {node.shape}")
        with changing_arrays([out]):
            _read_into(node, out)
        return out
    found = evaluate(node)
    if copy and (aliases(node) or not found.flags.writeable):  # a statistic's array is read-only
        found = np.array(found)
    return found


def _read_into(node: Node, out: np.ndarray) -> None:
    target, wanted = ArraySource(out), pending(node)
    if wanted and makers_of(node):
        with made_once(), needed_later([node], wanted, (), evaluate) or nullcontext() as later:
            take(wanted, evaluate, later)
            if later is not None:
                later.make()
            _read_into(node if later is None else later.data_of(node), out)
        return
    if isinstance(node, Elementwise) and out.dtype == node.dtype and not overlaps(node, target):
        settle(node)
        fused([node], None, [out], evaluate)
    else:
        np.copyto(out, evaluate(node))


def by_name(node: Node) -> dict[str, Any]:
    """Return the data of a node's fields, nested as they are, in one evaluation."""
    leaves: list[Node] = []
    numbers = _numbered(node, leaves)
    return _filled(numbers, evaluate_all(leaves))


def _numbered(node: Node, leaves: list[Node]) -> dict[str, Any]:
    """Return the numbers of a node's fields among the leaves, and add these."""
    found: dict[str, Any] = {}
    for name in node.fields:
        inner = field(node, name)
        found[name] = _numbered(inner, leaves) if isinstance(inner, Record) else len(leaves)
        if not isinstance(inner, Record):
            leaves.append(inner)
    return found


def _filled(numbers: dict[str, Any], data: Sequence[np.ndarray]) -> dict[str, Any]:
    return {
        name: _filled(number, data) if isinstance(number, dict) else data[number][()]
        for name, number in numbers.items()
    }


def as_tuples(parts: dict[str, Any]) -> tuple[Any, ...]:
    """Return the data of fields without their names."""
    return tuple(as_tuples(part) if isinstance(part, dict) else part for part in parts.values())


def overwrite(
    node: Elementwise,
    memory: np.ndarray,
    index: Index | None = None,
    values: Mapping[int, np.ndarray] = MappingProxyType({}),
    parts: Sequence[Cut] = (),
    around: Around | None = None,
) -> None:
    """Compute an expression over memory; what it reads of this memory lies at the same places.

    An index chooses part of it; `values` has the data of some operands there, by their identity.
    With `around`, its `parts` (or all of it) are computed one after the other, and `around` is
    called with the number of each and a function that computes it.
    """
    if around is None:
        fused([node], index, [memory], evaluate, spare=False, values=values)
    elif executors.shares_memory():
        in_parts(node, index, memory, evaluate, values, parts, around)
    elif not parts:
        around(0, functools.partial(overwrite, node, memory, index, values))
    else:
        whole = identity(memory.shape) if index is None else index
        for number, cut in enumerate(parts):
            own = compose(whole, cut.within(memory.shape))
            shared = {leaf: cut.of(array) for leaf, array in values.items()}
            around(number, functools.partial(overwrite, node, cut.of(memory), own, shared))


def is_equal(left: Argument, right: Argument) -> bool:
    """Whether two nodes have the same shape and fields and equal data; stops at a difference."""
    if not isinstance(left, Node) or not isinstance(right, Node):
        values = [evaluate(one) if isinstance(one, Node) else one for one in (left, right)]
        return bool(np.all(operator.eq(*values)))
    for side in (left, right):
        check_ends(side, "a comparison of all of it")
    if isinstance(left, Record) or isinstance(right, Record):
        return _equal_records(left, right)
    for side, other in ((left, right), (right, left)):
        rows = side.rows_given(other) if isinstance(side, Ragged) else None
        if isinstance(side, Ragged) and rows is not None:
            return side.is_like(rows) and is_equal(side.flat(), rows.flat())
    if isinstance(left, Sampled) or isinstance(right, Sampled):
        return _equal_samples(left, right)
    if known_shape(left) != known_shape(right):
        return False
    if left.dtype is None or right.dtype is None:
        return bool(np.all(operator.eq(evaluate(left), evaluate(right))))
    return _are_comparable(left, right) and _equal_rows(left, right)


def _equal_rows(left: Node, right: Node) -> bool:
    """Whether two arrays have equal data; what one function makes for both is made once."""

    def same(index: Index | None, memo: Memo | None = None) -> bool:
        found = operator.eq(evaluate(left, index, memo), evaluate(right, index, memo))
        return bool(np.all(np.asarray(found)))

    nodes = [left, right]
    if not have_makers_in_common(nodes):
        wider = max(nodes, key=lambda node: known_dtype(node).itemsize)
        return all(map(same, blocks_in_any_order(wider)))
    with made_once():
        for cut in cuts_of_request(nodes):
            index = None if cut is None else cut.within(known_shape(left))
            if not same(index, {"roots": (left, right)}):
                return False
    return True


def _are_comparable(left: Node, right: Node) -> bool:
    """Whether NumPy compares data of their dtypes: records with other records alone."""
    try:
        check_comparable((left, right))
    except TypeError:
        return False
    return True


def _equal_samples(left: Node, right: Node) -> bool:
    """Whether samples are equal, of which at least one side is made one by one."""
    if any(isinstance(side, Sampled) and side.count is None for side in (left, right)):
        return _equal_arrays(evaluate(left), evaluate(right))

    def same(number: int) -> bool:
        return is_equal(_sample_of(left, number), _sample_of(right, number))

    # Within a request, such as for other fields of these samples, they are made once anyway.
    each = in_requests([left, right], same) if made_so_far() is None else same
    return left.count == right.count and all(map(each, range(left.count or 0)))


def _sample_of(node: Node, number: int) -> Node:
    one = Index((), [Constant(number)])
    return (
        node.part(one)
        if isinstance(node, Sampled)
        else select(node, parse(number, known_shape(node)))
    )


def _equal_arrays(left: Any, right: Any) -> bool:
    """Whether two arrays, which may be arrays of arrays, have the same shapes and values."""
    left, right = (_unwrapped(side) for side in (left, right))
    if left.shape != right.shape:
        return False
    if is_of_arrays(left) or is_of_arrays(right):
        return all(map(_equal_arrays, left.flat, right.flat))
    return bool(np.all(np.asarray(operator.eq(left, right))))


def _unwrapped(value: Any) -> np.ndarray:
    """Return an array, also one that is an element of an array of arrays."""
    inner = value[()] if isinstance(value, np.ndarray) and not value.ndim else value
    return np.asarray(inner)


def _equal_records(left: Node, right: Node) -> bool:
    if not (isinstance(left, Record) and isinstance(right, Record)):
        return False
    ours, theirs = members(left), members(right)
    if ours.keys() != theirs.keys():
        return False
    pairs = [(ours[name].node, theirs[name].node) for name in ours]
    nodes = [node for pair in pairs for node in pair]
    with making_together(nodes):
        for cut in cuts_of_request(nodes):
            if not all(is_equal(_in_cut(one, cut), _in_cut(other, cut)) for one, other in pairs):
                return False
    return True


def _in_cut(node: Node, cut: Cut | None) -> Node:
    return node if cut is None else select(node, cut.within(rows_shape(node) or ()))


def without_mask(node: Node, dtype: DType, advice: str) -> Node:
    """Return data for an array of a dtype that has no mask; what is missing is missing there, too.

    It is None, NaN or NaT.  If the dtype has nothing of the kind, missing values are an error.
    """
    present = present_in(node) if node.has_gaps else None
    if present is None:
        return node
    if may_be_missing(dtype) and dtype.kind != "T":
        return with_nothing(node, present, dtype)
    (lacking,) = elementwise(np.logical_not, (present,))
    count = int(evaluate(reduction("sum", lacking, None, False, {})))
    if count:
        raise ValueError(
            f"values are missing ({count} of {size_of(known_shape(present))}), which data of "
            f"{dtype} without a mask cannot say; {advice}"
        )
    return node


def copied_rows(
    node: Ragged, writable: bool = True, chosen: range | np.ndarray | None = None
) -> Ragged:
    """Return a copy of ragged rows in memory, all or some of them, which know their gaps."""
    if chosen is not None and node.layout.is_late:
        return copied_rows(node.rows(chosen), writable)
    if isinstance(node.values, Ragged):
        places, layout = node.chosen(chosen)
        values: Node = copied_rows(node.values, writable, places)
    else:
        array, layout = node.gathered(rows_of, chosen)
        values, present = stored(ArraySource(array), writable), present_in(node.values)
        if present is not None:
            mask, _ = Ragged(present, node.layout, node.index).gathered(rows_of, chosen)
            values = with_mask(values, stored(ArraySource(mask), False))
    found = Ragged(values, layout)
    found.meta, found.label = node.meta, node.label
    if chosen is not None and node.label is not None:
        found.label = node.label.of_part(rows_index((node.count,), chosen))
    return found
