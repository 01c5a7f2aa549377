"""The values of statistics: all that are needed of one operand are computed while it is read once.

The parts and the order in which they are combined depend on shape, dtype and chunks, never on
threads or executor, so that the bits are the same everywhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dataview.compute.executors import run_blocks, run_in_windows
from dataview.compute.kernel import FloatErrors, Position, in_array
from dataview.compute.statistics.function_rows import (
    blocks_made,
    is_made_of_rows,
)
from dataview.compute.statistics.kept_rows import Keeping
from dataview.compute.statistics.missing import kind_of
from dataview.compute.statistics.reductions import Kind, State, moved_place
from dataview.compute.ways import (
    Cut,
    memory_of,
    parts_of,
    reuses,
    rows_of_request,
)
from dataview.errors import StreamError
from dataview.index.sizes import sizes
from dataview.plan.kinds import (
    Reduction,
    Sampled,
    known_dtype,
    known_shape,
    size_of,
)
from dataview.plan.node import Evaluate, Node
from dataview.plan.statistics import STATISTICS
from dataview.sources import REUSED, Memo, give_back, made_so_far, making

WINDOW = 64
"""How many parts are computed before they are combined, which bounds the memory of a pass."""

LEAST_WINDOW, WINDOW_VALUES = 4, 1 << 22
"""Of statistics with many values fewer parts are computed: these have so many values together."""


def _kind_of(node: Reduction) -> Kind:
    return kind_of(node.kind, known_dtype(node.node))


def _parts_for(statistics: Sequence[Reduction]) -> dict[Callable[..., State], Reduction]:
    """Return what makes the parts of statistics, each beside the first one that needs it."""
    found: dict[Callable[..., State], Reduction] = {}
    for other in statistics:
        found.setdefault(_kind_of(other).part, other)
    return found


States: TypeAlias = "dict[Callable[..., State], State]"
"""What a block contributes to each part."""


class Wanted(NamedTuple):
    """Statistics over the same axes of a node."""

    statistics: list[Reduction]
    node: Node


def values_of(
    wanted: Sequence[Wanted],
    evaluate: Evaluate,
    errors: FloatErrors,
    kept: Mapping[Node, Keeping] = MappingProxyType({}),
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
    return _of_all_totals(wanted, _combined(blocks, wanted, errors), errors)


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
        (total,) = _combined(itertools.islice(blocks, len(cuts)), [wanted], errors)
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
            if cut is not None and is_striped and STATISTICS[other.kind].is_place:
                shape = known_shape(node)
                states[part] = moved_place(states[part], other.axes, cut.slices(shape), shape)
        found = _finished(statistics, states, at) if is_alone else states
    give_back(reused)
    return found


def _combined(
    blocks: Iterable[list[States]], wanted: Sequence[Wanted], errors: FloatErrors
) -> list[States]:
    """Return the parts of all blocks, combined in their order."""
    totals: list[States] = [{} for _ in wanted]
    needed = [_parts_for(one.statistics) for one in wanted]
    for several in blocks:
        for total, states, parts in zip(totals, several, needed, strict=True):
            for part, other in parts.items():
                with errors.noting_in(other.kind):
                    _add(total, part, states[part], other)
    return totals


def _add(total: States, part: Callable[..., State], state: State, other: Reduction) -> None:
    """Combine a part of a statistic with what there is of it."""
    total[part] = _kind_of(other).combine(total[part], state) if part in total else state


def _in_one_pass(
    wanted: Sequence[Wanted], passing: Iterable[tuple[int, np.ndarray]], errors: FloatErrors
) -> list[States]:
    """Return the combined parts of statistics over the rows of nodes, as their blocks come."""
    totals: list[States] = [{} for _ in wanted]
    needed = [_parts_for(one.statistics) for one in wanted]
    starts = [0] * len(wanted)
    for number, block in passing:
        statistics, total = wanted[number].statistics, totals[number]
        for part, other in needed[number].items():
            with errors.noting_in(other.kind):
                state = part(block, statistics[0].axes, starts[number])
                _add(total, part, state, other)
        starts[number] += len(block)
    if not all(totals):
        raise StreamError("the stream is empty: there is no statistic of it")
    return totals


def _of_made_rows(
    wanted: Sequence[Wanted],
    evaluate: Evaluate,
    errors: FloatErrors,
    kept: Mapping[Node, Keeping],
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
