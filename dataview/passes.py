"""Passes over data: every statistic of one operand that is needed is taken in one reading.

The grid of parts and the order in which they are combined depend on shape and dtype alone, never
on threads or executor, so the bits are the same everywhere.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dataview.errors import StreamError
from dataview.executors import run_blocks
from dataview.expression import arguments
from dataview.fused import Cut
from dataview.index import Index, is_endless
from dataview.nodes import Driven, Node, Record, Reduction, known_dtype, known_shape, size_of
from dataview.reduce import KINDS, State, result_dtype

__all__ = ["pending", "reduction", "take"]

PART_BYTES = 1 << 22
WINDOW = 64
"""So many parts are computed before they are combined: the memory of a pass is bounded."""

_settling = threading.Lock()

Evaluate = Callable[[Node, "Index | None"], np.ndarray]


def reduction(
    kind: str, node: Node, axis: Any, keepdims: bool, options: dict[str, Any]
) -> Reduction:
    """Return the node of a statistic; what NumPy refuses is refused here."""
    if isinstance(node, (Record, Driven)):
        names = ", ".join(map(repr, node.fields))
        raise TypeError(f"the {kind} of a record is not defined; choose a field: {names}")
    shape = known_shape(node)
    if any(map(is_endless, shape)):
        raise StreamError(f"the {kind} of a view that never ends is never known; slice it first")
    axes = tuple(range(len(shape))) if axis is None else _axes(axis, len(shape), kind)
    if kind.startswith("arg") and isinstance(axis, tuple):
        raise TypeError(f"{kind} is taken over one axis or over all; got axis={axis!r}")
    if not KINDS[kind].of_empty and kind not in ("mean", "var", "std"):
        for number in axes:
            if not shape[number]:
                raise ValueError(f"{kind} of no elements has no value: axis {number} has length 0")
    return Reduction(kind, node, axes, keepdims, options, result_dtype(kind, known_dtype(node)))


def _axes(axis: Any, ndim: int, kind: str) -> tuple[int, ...]:
    if not ndim and axis in (0, -1) and kind not in ("mean", "var", "std"):  # so does NumPy
        return ()
    given = axis if isinstance(axis, tuple) else (axis,)
    return tuple(sorted(np.lib.array_utils.normalize_axis_tuple(given, ndim)))


def pending(node: Node) -> list[Reduction]:
    """Return the statistics below a node that are not taken yet, innermost first."""
    found: list[Reduction] = []
    seen: set[int] = set()
    waiting: list[tuple[Node, bool]] = [(node, False)]
    while waiting:  # not by recursion: an expression can be deeper than Python's stack
        below, ready = waiting.pop()
        if ready:
            found.append(below)  # type: ignore[arg-type]
        elif id(below) not in seen:
            seen.add(id(below))
            if isinstance(below, Reduction) and below.taken is None:
                waiting.append((below, True))
            waiting.extend((argument, False) for argument in arguments(below))
    return found


def take(wanted: Sequence[Reduction], evaluate: Evaluate) -> None:
    """Take the photographs that are still missing, those of one operand in one pass."""
    for first in wanted:
        if first.taken is not None:
            continue
        alike = [
            other
            for other in wanted
            if other.taken is None and other.node is first.node and other.axes == first.axes
        ]
        _take_together(alike, evaluate)


def _take_together(alike: list[Reduction], evaluate: Evaluate) -> None:
    node, axes = alike[0].node, alike[0].axes
    makers = {other.kind: KINDS[other.kind] for other in alike}
    parts = list(dict.fromkeys(maker.part for maker in makers.values()))
    grid = _grid(node)
    if 0 in axes or not known_shape(node):
        states = _streamed(node, axes, parts, grid, evaluate)
        for other in alike:
            _settle(other, finished(other, states[parts.index(makers[other.kind].part)]))
        return
    for other in alike:
        out = np.empty(known_shape(other), other.dtype)
        one = functools.partial(_rows_of, other, evaluate)
        for cut, found in zip(grid, run_blocks(one, grid), strict=True):
            out[cut.start : cut.stop] = found
        _settle(other, out)


def _rows_of(node: Reduction, evaluate: Evaluate, cut: Cut) -> np.ndarray:
    """Return some rows of a statistic over other axes than the rows."""
    block = evaluate(node.node, cut.within(known_shape(node.node)))
    return finished(node, KINDS[node.kind].part(block, node.axes, 0))


def _streamed(
    node: Node,
    axes: tuple[int, ...],
    parts: list[Callable[..., State]],
    grid: list[Cut],
    evaluate: Evaluate,
) -> list[State]:
    shape = known_shape(node)
    combine = {kind.part: kind.combine for kind in KINDS.values()}

    def contribution(cut: Cut) -> list[State]:
        block = evaluate(node, cut.within(shape) if shape else None)
        return [part(block, axes, cut.start) for part in parts]

    totals: list[State] | None = None
    for start in range(0, len(grid), WINDOW):
        for states in run_blocks(contribution, grid[start : start + WINDOW]):
            if totals is None:
                totals = states
            else:
                triples = zip(parts, totals, states, strict=True)
                totals = [combine[part](total, state) for part, total, state in triples]
    assert totals is not None
    return totals


def _grid(node: Node) -> list[Cut]:
    shape = known_shape(node)
    if not shape:
        return [Cut(0, 0, 0)]
    row = size_of(shape[1:]) * known_dtype(node).itemsize
    step = max(1, PART_BYTES // max(1, row))
    return [Cut(0, n, min(n + step, shape[0])) for n in range(0, max(shape[0], 1), step)]


def finished(node: Reduction, state: State) -> np.ndarray:
    """Return a statistic's value from its combined parts, in NumPy's dtype and shape."""
    with np.errstate(all="ignore"):
        value = np.asarray(KINDS[node.kind].finish(state, node.options))
        if value.dtype != node.dtype:
            value = value.astype(known_dtype(node))
    return value if node.keepdims else value.squeeze(axis=node.axes)


def _settle(node: Reduction, value: np.ndarray) -> None:
    """Keep a photograph; of several threads that took it, the first one's counts."""
    value.flags.writeable = False
    with _settling:
        if node.taken is None:
            node.taken = value
