"""Taking statistics: all that are needed of one operand are computed while it is read once.

The parts and the order in which they are combined depend on shape, dtype and chunks, never on
threads or executor, so that the bits are the same everywhere.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import copy_context
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dataview.compute.asked import kind_for, of_array
from dataview.compute.executors import run_blocks, run_in_windows
from dataview.compute.kept_rows import RowsForLater
from dataview.compute.kernel import FloatErrors, Position, in_array
from dataview.compute.made_rows import (
    KeptRows,
    blocks_made,
    is_made_of_rows,
)
from dataview.compute.missing import KINDS, OF_SOME, kind_of
from dataview.compute.passes import passes, pending
from dataview.compute.quantiles import quantiles_of
from dataview.compute.reductions import Kind, State, moved_place
from dataview.compute.scattered import in_order_of_chunks
from dataview.compute.ways import (
    Cut,
    memory_of,
    parts_of,
    reuses,
    rows_of_request,
)
from dataview.errors import StreamError, warn
from dataview.index.sizes import sizes
from dataview.plan.build import stored
from dataview.plan.kinds import (
    Elementwise,
    Reduction,
    Sampled,
    known_dtype,
    known_shape,
    size_of,
)
from dataview.plan.node import Evaluate, Node
from dataview.plan.ragged import Ragged, places_of
from dataview.plan.walk import rebuilt
from dataview.sources import REUSED, ArraySource, Memo, give_back, made_so_far, making

WINDOW = 64
"""How many parts are computed before they are combined, which bounds the memory of a pass."""

LEAST_WINDOW, WINDOW_VALUES = 4, 1 << 22
"""Of statistics with many values fewer parts are computed: these have so many values together."""

LONG = 4
"""From so many nested statistics on, a small operand is kept for the next one."""

lock = threading.Lock()
"""Held while a statistic, or some of its rows, get values."""


def take(
    wanted: Sequence[Reduction], evaluate: Evaluate, later: RowsForLater | None = None
) -> None:
    """Compute the statistics that have no value yet, those of one operand in one pass.

    Rows of the same samples that are needed `later` are kept as they pass.
    """
    known: dict[Node, Node] = {}
    for groups in passes(wanted):
        if later is None:
            _take_groups(groups, known, evaluate)
        else:
            _take_and_keep(groups, known, evaluate, later)


def take_below(node: Node, evaluate: Evaluate) -> None:
    """Compute the statistics below a node that have no value yet."""
    take(pending(node), evaluate)


def take_each(wanted: Sequence[Reduction], evaluate: Evaluate) -> None:
    """Compute statistics as `take` does; each keeps its own error.

    If one of a pass fails, each is computed by itself: the others may have a value.
    """
    known: dict[Node, Node] = {}
    for groups in passes(wanted):
        alike = [other for group in groups for other in group]
        try:
            _take_groups(groups, known, evaluate)
        except Exception as error:
            if len(alike) == 1:
                alike[0].failed = error
                continue
            for other in alike:
                take_each([other], evaluate)


def _take_groups(
    groups: list[list[Reduction]], known: dict[Node, Node], evaluate: Evaluate
) -> None:
    """Compute statistics in one pass."""
    if groups[1:]:
        _check_failed(*groups)
        copy_context().run(_take_together, groups, evaluate)
    else:
        _take_group(groups[0], known, evaluate)


def _take_and_keep(
    groups: list[list[Reduction]],
    known: dict[Node, Node],
    evaluate: Evaluate,
    later: RowsForLater,
) -> None:
    """Compute statistics in one pass, or of rows that were kept, and keep what is needed later."""
    nodes = [later.data_of(alike[0].node) for alike in groups]
    if any(node is not alike[0].node for node, alike in zip(nodes, groups, strict=True)):
        for alike, node in zip(groups, nodes, strict=True):
            same = [other.replaced(node=node) for other in alike]
            _take_group(same, known, evaluate)
            for other, one in zip(alike, same, strict=True):
                _set_value(other, np.array(one.taken))
        return
    beside = later.made_with(nodes[0])
    if not beside:
        _take_groups(groups, known, evaluate)
        return
    _check_failed(*groups)
    copy_context().run(_take_together, groups, evaluate, nodes, beside)
    later.add(beside)


def _take_group(alike: list[Reduction], known: dict[Node, Node], evaluate: Evaluate) -> None:
    _check_failed(alike)
    if isinstance(alike[0].node, Ragged):
        for other in alike:
            _set_value(other, _of_ragged_rows(other, evaluate))
        return
    node = _shortened(alike[0].node, known, evaluate)
    is_of_rows = 0 in alike[0].axes and memory_of(node) is None
    if is_of_rows and all(_is_of_any_order(other) for other in alike):
        node = in_order_of_chunks(node)
    # In a copy of the context, for the same reason as in `fused`.
    copy_context().run(_take_together, [alike], evaluate, [node])


def _is_of_any_order(node: Reduction) -> bool:
    """Whether a statistic of numbers is the same in whatever order these come."""
    return "arg" not in node.kind and not known_dtype(node.node).hasobject


def _check_failed(*groups: list[Reduction]) -> None:
    """Raise the error of a statistic that could not be taken."""
    for other in itertools.chain(*groups):
        if other.failed is not None:
            raise other.failed


def _shortened(node: Node, known: dict[Node, Node], evaluate: Evaluate) -> Node:
    """Return a small operand of a long plan as data, computed from those of the operand before.

    So a chain such as `v - v._mean()`, repeated, is not computed from its start for each statistic.
    """
    if not isinstance(node, Elementwise) or node.levels < LONG:
        return node
    if size_of(known_shape(node)) > sizes.small_elements:
        return node

    def into(part: Any) -> list[Any]:
        return part.made_of() if isinstance(part, Elementwise) and part not in known else []

    (short,) = rebuilt([node], lambda part, old: known.get(old, part), into)
    data = stored(ArraySource(evaluate(short)), False)
    known.clear()
    known[node] = data
    return data


def _take_together(
    groups: list[list[Reduction]],
    evaluate: Evaluate,
    nodes: Sequence[Node] = (),
    beside: Mapping[Node, KeptRows] = MappingProxyType({}),
) -> None:
    """Compute statistics, each group over the same axes of a node, in one pass.

    The rows of other nodes that it reads `beside` these are kept.
    """
    nodes = nodes or [alike[0].node for alike in groups]
    counted = [
        Wanted(own, node)
        for alike, node in zip(groups, nodes, strict=True)
        if (own := [other for other in alike if other.kind in KINDS])
    ]
    kept = _rows_to_keep(groups, beside)
    errors = FloatErrors()
    values = _values_of(counted, evaluate, errors, kept) if counted or kept else []
    for other in itertools.chain(*(one.statistics for one in counted)):
        _warn_of_few(other)
    errors.report()
    for one, found in zip(counted, values, strict=True):
        for other, value in zip(one.statistics, found, strict=True):
            _set_value(other, value)
    for other in itertools.chain(*groups):
        if other.taken is None:
            rows = kept.get(other.node)
            data = None if rows is None else stored(ArraySource(rows.rows), False)
            _set_value(other, quantiles_of(other, evaluate, data))


def _rows_to_keep(
    groups: list[list[Reduction]], kept: Mapping[Node, KeptRows]
) -> dict[Node, KeptRows]:
    """Return what keeps the rows of nodes of which quantiles are found, if functions make them.

    Those of some nodes are `kept` anyway.
    """
    exact = [
        other
        for other in itertools.chain(*groups)
        if other.kind not in KINDS and not other.options["approx"]
    ]
    nodes = dict.fromkeys(other.node for other in exact if is_made_of_rows(other.node))
    return {**{node: KeptRows(node) for node in nodes if node not in kept}, **kept}


def _of_ragged_rows(node: Reduction, evaluate: Evaluate) -> np.ndarray:
    """Return a statistic of each ragged row; rows of one shape are computed together."""
    assert isinstance(node.node, Ragged)
    rows, place = node.node.merged().relaid(), row_axis(node)
    fewer = len(node.node.extents) - len(rows.extents)
    axes = tuple(sorted({max(1, axis - fewer) for axis in node.axes}))
    over = axes if len(axes) > 1 else axes[0]
    layout, shape = rows.layout, known_shape(node)
    out = np.empty((shape[place], *shape[:place], *shape[place + 1 :]), node.dtype)
    most = max(1, sizes.part_bytes // known_dtype(rows).itemsize)
    start = 0
    while start < rows.count:
        stop = int(layout.offsets.searchsorted(layout.offsets[start] + most, "right")) - 1
        stop = min(max(stop, start + 1), rows.count)
        part = rows.rows(range(start, stop))
        values, own = part.gathered(lambda under, places: evaluate(places_of(under, places)))
        for alike in own.alike():
            lengths = own.lengths()[alike[0]].tolist()
            dense = values[own.part(alike)[0]].reshape(len(alike), *lengths, *values.shape[1:])
            kind, data = kind_for(node.kind, dense.dtype), stored(ArraySource(dense))
            one = of_array(kind, data, over, node.keepdims, node.options)
            found = np.moveaxis(evaluate(one), place, 0)
            out[start + alike] = found.reshape(len(alike), *out.shape[1:])
        start = stop
    return np.moveaxis(out, 0, place)


_ALL = [*OF_SOME.items(), *KINDS.items()]
_NAMES = {kind.part: name for name, kind in _ALL}
_COMBINE = {kind.part: kind.combine for _, kind in _ALL}
"""By the function that makes a part: the name of its statistic, and what combines two parts."""


def _kind_of(node: Reduction) -> Kind:
    return kind_of(node.kind, known_dtype(node.node))


States: TypeAlias = "dict[Callable[..., State], State]"
"""What a block contributes to each part."""


class Wanted(NamedTuple):
    """Statistics over the same axes of a node."""

    statistics: list[Reduction]
    node: Node


def _values_of(
    wanted: Sequence[Wanted],
    evaluate: Evaluate,
    errors: FloatErrors,
    kept: Mapping[Node, KeptRows] = MappingProxyType({}),
) -> list[list[np.ndarray]]:
    """Return the values of statistics of data that are read once.

    Several nodes are those of one stream, of one table and have the same blocks of rows, or of rows
    that functions make, which are `kept` for what takes several passes.
    """
    if kept or (wanted[1:] and is_made_of_rows(wanted[0].node)):
        return _of_made_rows(wanted, evaluate, errors, kept)
    node = wanted[0].node
    if isinstance(node, Sampled) and node.pass_key:
        return _of_a_stream(wanted, errors)
    shape = known_shape(node)
    if made_so_far() is not None and shape and shape[0] > rows_of_request([node]):
        with making(None):  # it would remember too much
            return _of_blocks(wanted, evaluate, errors)
    return _of_blocks(wanted, evaluate, errors)


def _of_a_stream(wanted: Sequence[Wanted], errors: FloatErrors) -> list[list[np.ndarray]]:
    """Return the values of statistics of one stream, which is read once."""
    nodes = [one.node for one in wanted if isinstance(one.node, Sampled)]
    passing = nodes[0].blocks(nodes, [*map(_samples_at_once, nodes)])
    return _of_all_totals(wanted, _in_one_pass(wanted, passing, errors), errors)


def _of_blocks(
    wanted: Sequence[Wanted], evaluate: Evaluate, errors: FloatErrors
) -> list[list[np.ndarray]]:
    """Return the values of statistics of data that are read in blocks, or as one."""
    statistics, node = wanted[0]
    grid = parts_of(node)
    is_alone = not grid[0].across and (len(grid) == 1 or 0 not in statistics[0].axes)

    def of_block(cut: Cut | None) -> list[Any]:
        """Return the values of a block, or what it contributes to those of all blocks."""
        memo: Memo | None = {"roots": tuple(one.node for one in wanted)} if wanted[1:] else None
        return [_of_block(one, cut, evaluate, errors, memo, is_alone) for one in wanted]

    if len(grid) == 1 and is_alone:
        return of_block(None)
    if grid[0].across:
        return [_of_cuts(wanted[0], grid, of_block, errors)]
    if is_alone:
        return [_of_each_row(statistics, grid, of_block)]
    values = sum(size_of(known_shape(other)) for one in wanted for other in one.statistics)
    blocks = run_in_windows(of_block, grid, _window(values), "statistics")
    return _of_all_totals(wanted, _combined(blocks, errors), errors)


def _of_each_row(
    statistics: Sequence[Reduction],
    grid: list[Cut],
    of_block: Callable[[Cut], list[list[np.ndarray]]],
) -> list[np.ndarray]:
    """Return the values of statistics of each row, block by block."""
    outs = [np.empty(known_shape(other), other.dtype) for other in statistics]

    def done(cut: Cut) -> None:
        for out, rows in zip(outs, of_block(cut)[0], strict=True):
            out[cut.start : cut.stop] = rows

    run_blocks(done, grid, what="statistics")
    return outs


def _window(values: int) -> int:
    """Return how many parts are computed before they are combined, each of so many values."""
    return min(WINDOW, max(LEAST_WINDOW, WINDOW_VALUES // max(1, values)))


def _of_cuts(
    wanted: Wanted,
    grid: list[Cut],
    of_block: Callable[[Cut], list[States]],
    errors: FloatErrors,
) -> list[np.ndarray]:
    """Return the values of statistics of blocks that are cut along several axes.

    Those of the same positions along the axes that stay are combined, one after the other.
    """
    statistics, node = wanted
    shape, axes = known_shape(node), statistics[0].axes

    def place(cut: Cut, keepdims: bool = True) -> tuple[slice, ...]:
        """Return where the values of a block are among those of all."""
        parts = enumerate(cut.slices(shape))
        return tuple(
            slice(0, 1) if axis in axes else part
            for axis, part in parts
            if keepdims or axis not in axes
        )

    grid = sorted(grid, key=place)
    outs = [np.empty(known_shape(other), other.dtype) for other in statistics]
    values = len(outs) * size_of(tuple(part.stop - part.start for part in place(grid[0])))
    blocks = run_in_windows(of_block, grid, _window(values), "statistics")
    for _, group in itertools.groupby(grid, place):
        cuts = list(group)
        (total,) = _combined(itertools.islice(blocks, len(cuts)), errors)
        found = _of_totals(statistics, total, errors)
        for other, out, part in zip(statistics, outs, found, strict=True):
            out[place(cuts[0], other.keepdims)] = part
    return outs


def _of_block(
    wanted: Wanted,
    cut: Cut | None,
    evaluate: Evaluate,
    errors: FloatErrors,
    memo: Memo | None,
    is_alone: bool,
) -> Any:
    """Return the values of a block, or what it contributes to those of all blocks."""
    statistics, node = wanted
    reused: list[np.ndarray] = []
    block = memory_of(node) if cut is None else None
    if block is None:
        memo = {REUSED: reused} if reuses(node) else memo
        block = evaluate(node, None if cut is None else cut.within(known_shape(node)), memo)
    at, states = Position(), {}
    is_striped = cut is not None and bool(cut.across)
    first = 0 if cut is None or is_striped else cut.start
    with errors.noting(at.current_step):
        for other in statistics:
            part, at.name = _kind_of(other).part, other.kind
            if part in states:
                continue
            states[part] = part(block, other.axes, first)
            if cut is not None and is_striped and "arg" in other.kind:
                shape = known_shape(node)
                states[part] = moved_place(states[part], other.axes, cut.slices(shape), shape)
        found = _finished(statistics, states, at) if is_alone else states
    give_back(reused)
    return found


def _combined(blocks: Iterable[list[States]], errors: FloatErrors) -> list[States]:
    """Return the parts of all blocks, combined in their order."""
    totals: list[States] = []
    for several in blocks:
        totals = totals or [{} for _ in several]
        for total, states in zip(totals, several, strict=True):
            for part, state in states.items():
                with errors.noting_in(_NAMES[part]):
                    total[part] = _COMBINE[part](total[part], state) if part in total else state
    return totals


def _in_one_pass(
    wanted: Sequence[Wanted], passing: Iterable[tuple[int, np.ndarray]], errors: FloatErrors
) -> list[States]:
    """Return the combined parts of statistics over the rows of nodes, as their blocks come."""
    totals: list[States] = [{} for _ in wanted]
    starts = [0] * len(wanted)
    for number, block in passing:
        statistics, total = wanted[number].statistics, totals[number]
        for part in {_kind_of(other).part: None for other in statistics}:
            with errors.noting_in(_NAMES[part]):
                state = part(block, statistics[0].axes, starts[number])
                total[part] = _COMBINE[part](total[part], state) if part in total else state
        starts[number] += len(block)
    if not all(totals):
        raise StreamError("the stream is empty: there is no statistic of it")
    return totals


def _of_made_rows(
    wanted: Sequence[Wanted],
    evaluate: Evaluate,
    errors: FloatErrors,
    kept: Mapping[Node, KeptRows],
) -> list[list[np.ndarray]]:
    """Return the values of statistics of rows that functions make, each of them once."""
    over = [one for one in wanted if 0 in one.statistics[0].axes]
    nodes = [*dict.fromkeys([*(one.node for one in wanted), *kept])]
    takers = {node: [n for n, one in enumerate(over) if one.node is node] for node in nodes}
    of_rows = [one for one in wanted if 0 not in one.statistics[0].axes]
    rows: list[list[list[np.ndarray]]] = [[] for _ in of_rows]

    def passing() -> Iterator[tuple[int, np.ndarray]]:
        for number, block in blocks_made(nodes, evaluate):
            node = nodes[number]
            if node in kept:
                kept[node].add(block)
            for one, found in zip(of_rows, rows, strict=True):
                if one.node is node:
                    (states,) = _in_one_pass([one], [(0, block)], errors)
                    found.append(_of_totals(one.statistics, states, errors))
            yield from ((taker, block) for taker in takers[node])

    totals = zip(over, _in_one_pass(over, passing(), errors), strict=True)
    values = {id(one): _of_totals(one.statistics, states, errors) for one, states in totals}
    for one, found in zip(of_rows, rows, strict=True):
        own = zip(one.statistics, zip(*found, strict=True), strict=True)
        values[id(one)] = [np.concatenate(parts, dtype=other.dtype) for other, parts in own]
    return [values[id(one)] for one in wanted]


def _samples_at_once(node: Sampled) -> int:
    row = size_of(tuple(length or 0 for length in node.extents or ())[1:])
    return max(1, sizes.part_bytes // max(1, row * known_dtype(node).itemsize))


def _of_all_totals(
    wanted: Sequence[Wanted], totals: Iterable[States], errors: FloatErrors
) -> list[list[np.ndarray]]:
    pairs = zip(wanted, totals, strict=True)
    return [_of_totals(one.statistics, states, errors) for one, states in pairs]


def _of_totals(wanted: list[Reduction], totals: States, errors: FloatErrors) -> list[np.ndarray]:
    at = Position()
    with errors.noting(at.current_step):
        return _finished(wanted, totals, at)


def _finished(wanted: list[Reduction], states: States, at: Position) -> list[np.ndarray]:
    """Return the values of statistics from their combined parts, in NumPy's dtypes and shapes."""
    values = []
    for node in wanted:
        kind, at.name = _kind_of(node), node.kind
        found = kind.finish(states[kind.part], node.options)
        value = in_array(found, node.dtype) if _is_bare(found, node) else np.asarray(found)
        if value.dtype != node.dtype:
            value = value.astype(known_dtype(node))
        values.append(value if node.keepdims else value.squeeze(axis=node.axes))
    return values


def _is_bare(value: Any, node: Reduction) -> bool:
    """Whether a value is an object of its own, which may be a list, and no array of one."""
    return not isinstance(value, np.ndarray) and known_dtype(node).hasobject


def row_axis(node: Reduction) -> int:
    """Return the axis of a statistic along which it has values of rows."""
    return np.ndim(node.options.get("q", 0))


def _set_value(node: Reduction, value: np.ndarray) -> None:
    """Set a statistic's value for good, unless another thread has done so."""
    with lock:
        if node.taken is None:
            if node.rows is not None:
                have = node.rows.have
                np.moveaxis(value, row_axis(node), 0)[have] = node.rows.values[have]
                node.rows = None
            value.flags.writeable = False
            node.taken = value


# --- warnings --------------------------------------------------------------------------------


def _warn_of_few(node: Reduction) -> None:
    """Warn of too few elements for a mean or a deviation, as NumPy does."""
    whole = node.node.shape
    if whole is None or known_dtype(node.node).names:  # of a stream; of pairs they are counted
        return
    if node.kind not in ("mean", "var", "std"):  # others warn of what they find missing
        return
    count = math.prod([whole[axis] for axis in node.axes])
    if node.kind == "mean" and not count:
        warn("Mean of empty slice")
    if node.kind != "mean" and node.options.get("ddof", 0) >= count:
        warn("Degrees of freedom <= 0 for slice")
