"""Rows of a node, however they are asked for: one compiled function for each node takes them.

The function is kept with the node, and so does not refer to it: else neither would ever be freed.
What lies in memory, what selects from it, joins it or computes with it is taken without a plan.
All else is evaluated through an index; how, `evaluate` knows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
from numpy import ndarray

from dataview.compute.kernel import Runner, run_small, whole_runner
from dataview.compute.part_by_part import are_few, read_with_others
from dataview.compute.programs import leaves_of
from dataview.compute.statistics import take_below
from dataview.compute.ways import aliases, is_divided, memory_of, own_copy
from dataview.index import (
    LINE,
    Affine,
    Index,
    Rows,
    as_array,
    axes_of,
    compose,
    gather,
    identity,
    in_a_run,
    is_identity,
    numbers_of,
    renamed,
    row_key,
    rows_at,
    rows_index,
)
from dataview.index.progress import LARGE, begin
from dataview.index.sizes import sizes
from dataview.plan.build import row_field, select
from dataview.plan.fields import NO_FIELDS, NO_META
from dataview.plan.joined_rows import joined_rows_of
from dataview.plan.kinds import (
    Concat,
    Driven,
    Elementwise,
    LateStored,
    Record,
    Reduction,
    Reshaped,
    Sampled,
    Select,
    Stored,
    known_shape,
    members,
    shape_for_rows,
    size_of,
)
from dataview.plan.node import Evaluate, Node
from dataview.plan.places import operand_index
from dataview.sources import ASKED, Source, read_from

Taker: TypeAlias = "Callable[[Rows], Any]"
"""A function of rows; it returns PLAN where these need a plan."""

PLAN: Any = object()
"""What a taker returns where rows need a plan; None would be the element of some objects."""


FEW = 4096
"""So many elements of memory may be copied besides those that are asked for, and so many rows of
joined data have a number each."""

NESTED = 8
"""Deeper plans are evaluated step by step, so that no plan is too deep for Python's stack."""


def rows_of(evaluate: Evaluate, node: Node, rows: Rows) -> Any:
    """Return rows of a node: an alias of memory for a number or a range of them, else new data."""
    memory = node.lent if node.lent is not None else memory_of(node)
    if isinstance(memory, ndarray) and not isinstance(rows, ndarray):
        return memory[row_key(rows)]
    if type(rows) is range and rows.step == 1 and len(rows) == node.count:
        return evaluate(node)[()]
    taker = node.reader if node.reader is not None else taker_of(evaluate, node)
    found = taker(rows) if taker else PLAN
    if found is not PLAN:
        return found
    index = rows_index(shape_for_rows(node) or known_shape(node), rows)
    found = evaluate(*(node.part(index),) if isinstance(node, Sampled) else (node, index))[()]
    return own_copy(found) if isinstance(rows, ndarray) else found


def reader_of(evaluate: Evaluate, node: Node) -> Callable[[Rows], Any]:
    """Return the function that returns rows of a node, quicker than `rows_of` if called often."""
    memory = memory_of(node) if node.shape else None
    return functools.partial(rows_of, evaluate, node) if memory is None else _of_memory(memory)


def read_as_rows_of(evaluate: Evaluate, part: Node, whole: Node, rows: Rows) -> None:
    """Have a part read as the rows of a whole that it is, if a function takes these."""
    memory = memory_of(whole) if type(rows) is range else None
    if memory is not None:
        part.lent = memory[row_key(rows)] if part.lent is None else part.lent
        return
    if type(part) is not Select or part is whole or any(part is own for own in whole.made_of()):
        return  # no new part
    taker = taker_of(evaluate, whole)
    if taker is None:
        return
    count = part.count  # not the part itself, which would hold itself

    def taken(within: Rows) -> Any:
        if not isinstance(rows, int):
            return taker(cast(Rows, rows_at(rows, row_key(within))))
        is_all = isinstance(within, range) and within == range(count or 0)
        return taker(rows) if is_all else PLAN

    part.reader = taken


def fields_at(evaluate: Evaluate, node: Node, rows: Rows) -> dict[str, Any] | None:
    """Return the data of all fields at rows of a node, by name; None if this needs a plan."""
    group = node.group(rows) if isinstance(rows, int) else None
    if group is not None:
        return fields_at(evaluate, *group)
    parts = _row_fields(evaluate, node)
    each = 0 if parts is None else read_with_others(parts)
    if parts is None or (each and not are_few(rows, each)):
        return None
    return _read_fields(evaluate, parts, rows)


def _row_fields(evaluate: Evaluate, node: Node) -> dict[str, Any] | None:
    """Return the nodes of all fields, nested as these are; None unless each has a taker."""
    found: dict[str, Any] = {}
    for name in node.fields:
        part = row_field(node, name)
        if part is None or not taker_of(evaluate, part):
            return None
        found[name] = _row_fields(evaluate, part) if isinstance(part, Record) else part
        if found[name] is None:
            return None
    return found or None


def _read_fields(evaluate: Evaluate, parts: dict[str, Any], rows: Rows) -> dict[str, Any]:
    return {
        name: _read_fields(evaluate, part, rows)
        if isinstance(part, dict)
        else rows_of(evaluate, part, rows)
        for name, part in parts.items()
    }


def taker_of(evaluate: Evaluate, node: Node) -> Taker | None:
    """Return the function that takes rows of a node without a plan, None if there is none."""
    if node.reader is None:
        node.reader = _compiled(evaluate, node) or False
    return node.reader or None


def _compiled(evaluate: Evaluate, node: Node) -> Taker | None:
    if isinstance(node, Sampled):
        return node.taker(functools.partial(_quick_reader, evaluate), PLAN)
    if not node.shape:
        return None
    memory = memory_of(node)
    if memory is not None:
        return _of_memory(memory)
    make = _TAKERS.get(type(node))
    if make is None or 0 in node.shape or node.levels > NESTED:
        return None
    return make(evaluate, node)


def _quick_reader(evaluate: Evaluate, node: Node) -> Callable[[Rows], Any] | None:
    return reader_of(evaluate, node) if taker_of(evaluate, node) else None


def _of_memory(memory: np.ndarray, columns: Index | None = None) -> Taker:
    """Return what takes of rows of an array all, or what an index selects of each of them."""
    key = None if columns is None else gather.basic_key(columns)
    if columns is None or key is not None:
        by_number = gather.row_taker(memory, key)
        part = memory if key is None else memory[key]
        return lambda rows: by_number(rows) if type(rows) is ndarray else part[row_key(rows)]
    own, every = columns, gather.row_taker(memory)

    def taken(rows: Rows) -> Any:
        several = _several(rows)
        whole = every(several) if isinstance(several, ndarray) else memory[row_key(several)]
        found = gather.columns_of(whole, own)
        return found[0] if isinstance(rows, int) else found

    return taken


def _several(rows: Rows) -> Rows:
    return range(rows, rows + 1) if isinstance(rows, int) else rows


def _of_stored(evaluate: Evaluate, node: Stored) -> Taker | None:
    """Return what reads rows of a store."""
    source = node.source
    if source.memory is not None or (source.shares and source.together is None):
        return None

    def read_few(rows: Rows) -> Any:
        found = source.rows_at_hand(rows)
        if found is not None:
            return found[()]
        return read_from(source, _index_in(source, source.shape, rows), {ASKED: True})[()]

    read = _shown(source, read_few)
    if source.together is None:
        return read
    return lambda rows: read(rows) if are_few(rows) else PLAN


def _index_in(source: Source, shape: Sequence[int], rows: Rows) -> Index:
    """Return the index of rows of a source; rows by number are new data, so never of its memory."""
    return rows_index(shape, rows if source.shares else in_a_run(rows))


def _shown(source: Source, read: Taker) -> Taker:
    """Return what reads rows of a store, and shows that it does so if they are many."""
    few = LARGE // max(1, size_of(source.shape[1:]) * source.dtype.itemsize)

    def taken(rows: Rows) -> Any:
        if isinstance(rows, int) or len(rows) < few:
            return read(rows)
        with begin("reading", None):
            return read(rows)

    return taken


def _of_select(evaluate: Evaluate, node: Select) -> Taker | None:
    """Return what takes rows of a part: other rows of the node that it is a part of."""
    if not node.index.maps:
        return None
    first, *rest = node.index.maps
    shape, depth = node.index.shape, len(axes_of(node.index.maps[0]))
    numbers = numbers_of(first, shape[:depth])
    if numbers is None or any(axis < depth for map_ in rest for axis in axes_of(map_)):
        return None
    place = {axis: axis - depth + 1 for axis in range(depth, len(shape))}
    columns = [renamed(map_, place) for map_ in rest]
    below = _of_columns(evaluate, node.node, Index((0, *shape[depth:]), [LINE, *columns]))
    if below is None:
        return None

    strides = dict(first.strides) if isinstance(first, Affine) and depth == 2 else {}
    is_line = bool(strides) and strides[0] == strides[1] * shape[1]

    def taken(rows: Rows) -> Any:
        is_run = is_line and isinstance(rows, range) and rows.step == 1 and bool(rows)
        found = numbers(cast(range, rows)[:1] if is_run else rows)
        if not isinstance(found, ndarray) or found.ndim == 1:
            return below(found)
        lines: tuple[int, ...] = found.shape
        line: Rows = found.reshape(-1)
        if is_run:  # they follow each other in the node below, too
            start, count = int(found[0, 0]), len(cast(range, rows))
            lines, line = (count, shape[1]), range(start, start + strides[0] * count, strides[1])
        flat = below(line)
        return flat if flat is PLAN else flat.reshape(*lines, *flat.shape[1:])

    return taken


def _of_reshaped(evaluate: Evaluate, node: Reshaped) -> Taker | None:
    """Return what takes rows of reshaped data: the rows below in which their elements lie."""
    own, shape = known_shape(node.node), known_shape(node)
    if not own or not taker_of(evaluate, node.node):
        return None
    below, width, length = reader_of(evaluate, node.node), size_of(own[1:]), size_of(shape[1:])
    spare = FEW if memory_of(node.node) is not None else 0

    def run(start: int, stop: int) -> Any:
        """Return rows that follow each other, if they are whole rows below."""
        first, last = start * length // width, -(-stop * length // width)
        if (last - first) * width - (stop - start) * length > spare:
            return PLAN
        found = below(range(first, last)).reshape(-1)[start * length - first * width :]
        return found[: (stop - start) * length].reshape(stop - start, *shape[1:])

    def taken(rows: Rows) -> Any:
        if isinstance(rows, int):
            found = run(rows, rows + 1)
            return found if found is PLAN else found[0]
        if isinstance(rows, range):
            return run(rows.start, rows.stop) if rows.step == 1 and rows else PLAN
        if length % width:
            return PLAN  # such rows are no whole rows below
        numbers = np.add.outer(rows * (length // width), np.arange(length // width))
        return below(numbers.reshape(-1)).reshape(len(rows), *shape[1:])

    return taken


def _of_columns(evaluate: Evaluate, node: Node, columns: Index) -> Taker | None:
    """Return what takes of each row of a node what an index selects, whose rows are a line."""
    shape = known_shape(node)
    columns = Index((shape[0], *columns.shape[1:]), columns.maps)
    if is_identity(columns, shape):
        return _quick_reader(evaluate, node)
    memory = memory_of(node)
    if memory is not None:
        return _of_memory(memory, columns)
    if isinstance(node, Stored) and taker_of(evaluate, node):
        source = node.source

        def read(rows: Rows) -> Any:
            return source.read(compose(columns, _index_in(source, columns.shape, rows)), {})[()]

        return _shown(source, read)
    if isinstance(node, Elementwise):
        return _of_expression(evaluate, node, columns)
    if isinstance(node, Concat):
        return _of_joined(evaluate, node, columns)
    if type(node) is Select:
        return _of_select(
            evaluate, Select(node.node, compose(node.index, columns), NO_FIELDS, NO_META)
        )
    return None


def _of_joined(evaluate: Evaluate, node: Concat, columns: Index | None = None) -> Taker | None:
    """Return what takes rows of joined nodes, each from the node that has it; they are copied."""
    shape, dtype = known_shape(node) if columns is None else columns.shape, node.dtype
    whole = identity(shape) if columns is None else columns
    joined = joined_rows_of(node)
    bases = joined.bases
    if not all(aliases(base) or _of_columns(evaluate, base, whole) for base in bases):
        return None
    known: dict[int, Taker | None] = {}  # of the bases that were asked for: there may be many

    def of_base(number: int, rows: Rows) -> Any:
        if number not in known:
            known[number] = _of_columns(evaluate, bases[number], whole)
        taker = known[number]
        return PLAN if taker is None else taker(rows)

    def in_one_part(rows: int | range) -> Any:
        """Return a copy of rows, if they are all of one part."""
        within = joined.of_one(rows)
        found = PLAN if within is None else of_base(*within)
        if found is PLAN or len(shape) > 1 or not isinstance(rows, int):
            return found if found is PLAN else found.astype(dtype)
        element = np.empty(1, dtype)
        element[0] = found
        return element[0]

    def taken(rows: Rows) -> Any:
        if isinstance(rows, int):
            return in_one_part(rows)
        found = in_one_part(rows) if isinstance(rows, range) and rows else PLAN
        if found is not PLAN or (isinstance(rows, range) and len(rows) > FEW):
            return found  # long runs are divided among the parts without a number for each row
        out = np.empty((len(rows), *shape[1:]), dtype)
        for number, within, places in joined.of(as_array(rows)):
            found = of_base(number, within)
            if found is PLAN or (len(found) == len(rows) and found.dtype == dtype):
                return found  # all of them are of one base
            out[places] = found
        return out

    return taken


def _of_record(evaluate: Evaluate, node: Record) -> Taker | None:
    """Return what takes rows of a record as structured data."""
    dtype, depth = node.dtype, node.rank - 1
    parts = {name: part.node for name, part in members(node).items()}
    if dtype is None or not parts or not all(taker_of(evaluate, part) for part in parts.values()):
        return None
    each = read_with_others(parts)
    row_of = _of_one_store(parts.values()) if each and not depth else None

    def taken(rows: Rows) -> Any:
        if each and not are_few(rows, each):
            return PLAN
        if row_of and isinstance(rows, int):
            found = dict(zip(parts, row_of(rows), strict=True))
        else:
            found = {name: rows_of(evaluate, part, rows) for name, part in parts.items()}
        lead = depth if isinstance(rows, int) else depth + 1
        out = np.empty(np.shape(next(iter(found.values())))[:lead], dtype)
        whole = out if out.ndim else out[()]  # a record takes an array as the element of a field
        for name, values in found.items():
            whole[name] = values
        return out[()]

    return taken


def _of_one_store(parts: Collection[Node]) -> Callable[[int], list[Any]] | None:
    """Return what takes a row of columns that one store reads together, None of other nodes."""
    sources = [part.source for part in parts if type(part) is Stored]
    if len(sources) < len(parts) or len({id(source.together) for source in sources}) > 1:
        return None
    return functools.partial(sources[0].row_of, sources)


def _of_driven(evaluate: Evaluate, node: Driven) -> Taker | None:
    return taker_of(evaluate, node.node)


def _of_expression(
    evaluate: Evaluate, node: Elementwise, columns: Index | None = None
) -> Taker | None:
    """Return what computes rows of an expression, if its operands are taken without a plan."""
    operands = _operands_by_kind(evaluate, node, columns)
    if operands is None:
        return None
    following, fixed, statistics = operands
    wide = known_shape(node)[1:] if columns is None else columns.shape[1:]
    row = size_of(wide)

    def value(leaf: Node, rows: Rows) -> np.ndarray:
        if leaf in following:
            return rows_of(evaluate, following[leaf], rows)  # type: ignore[no-any-return]
        if leaf not in statistics:
            return fixed[leaf]
        statistic, where = statistics[leaf]
        return evaluate(statistic, where) if where or statistic.taken is None else statistic.taken

    own = node.replaced()  # the node itself would hold what it remembers, and so itself
    untaken = [leaf for leaf, _ in statistics.values()]
    runners: list[Runner] = []

    def computed(rows: Rows) -> Any:
        several: Any = _several(rows)
        if is_divided(len(several) * row, own.dtypes[0]):
            return PLAN
        if untaken:
            take_below(own, evaluate)  # all of them together, in one reading
            untaken.clear()

        def leaf_of(leaf: Node) -> np.ndarray:
            return value(leaf, several)

        if len(several) * row > sizes.small_elements:
            if not runners:
                runners.append(whole_runner((own,)))
            (found,) = runners[0]((len(several), *wide), leaf_of)
        else:
            (found,) = run_small((own,), leaf_of)
        return found[0] if isinstance(rows, int) else found

    return computed


_Operands: TypeAlias = (
    "tuple[dict[Node, Node], dict[Node, np.ndarray], dict[Node, tuple[Reduction, Index | None]]]"
)
"""The operands of an expression: those with its rows, and data and statistics for all rows."""


def _operands_by_kind(
    evaluate: Evaluate, node: Elementwise, columns: Index | None
) -> _Operands | None:
    """Return the operands of an expression, None if some need a plan or none has its rows."""
    shape = known_shape(node)
    following: dict[Node, Node] = {}
    fixed: dict[Node, np.ndarray] = {}
    statistics: dict[Node, tuple[Reduction, Index | None]] = {}
    for leaf in leaves_of(node):
        if isinstance(leaf, Sampled):
            return None
        extents = known_shape(leaf)
        where = operand_index(columns, shape, extents)
        if len(extents) == len(shape) and extents[0] == shape[0]:
            following[leaf] = leaf if where is None else select(leaf, where, None, NO_FIELDS)
            if not taker_of(evaluate, following[leaf]):
                return None
        elif isinstance(leaf, Reduction):
            statistics[leaf] = leaf, where
        elif (memory := memory_of(leaf)) is None:
            return None
        else:
            fixed[leaf] = memory if where is None else gather.read(memory, where)
    return (following, fixed, statistics) if following and shape[0] != 1 else None


_TAKERS: dict[type[Node], Callable[[Evaluate, Any], Taker | None]] = {
    Stored: _of_stored,
    LateStored: _of_stored,
    Select: _of_select,
    Reshaped: _of_reshaped,
    Concat: _of_joined,
    Record: _of_record,
    Driven: _of_driven,
    Elementwise: _of_expression,
}
