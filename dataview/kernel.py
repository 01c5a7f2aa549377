"""One block of a fused expression: a program's ufunc calls over scratch buffers.

NumPy is the reference: every step is NumPy's own ufunc on operands of NumPy's own dtypes, or gives
the same bits (see `engines`), so values, dtypes and floating-point errors are those of the eager
expression.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from dataview.engines import Joined
from dataview.nodes import Elementwise, Node, known_dtype
from dataview.programs import Place, Program, Step, compiled, in_order, told_apart

__all__ = ["Position", "run_block", "run_small", "run_whole", "tiled"]


class Position:
    """Which step a block has reached: what a floating-point error is blamed on."""

    __slots__ = ("name", "step")

    def __init__(self, step: int = -1, name: str = "an operand") -> None:
        self.step = step
        self.name = name

    def reach(self, step: Step) -> None:
        """Note that a step begins."""
        self.step = step.number
        self.name = step.ufunc.__name__


DEEP = 100
"""From so many operations in a chain on, they are put in order before they are computed."""


def run_small(
    roots: Sequence[Elementwise], leaf: Callable[[Node], Any], at: Position | None = None
) -> list[np.ndarray]:
    """Compute expressions on whole operands, for results that fit a cache: NumPy allocates.

    A part that occurs twice is computed once; a program is not worth making.
    """
    values: dict[Node, Any] = {}
    calls: dict[Any, list[tuple[list[Any], Any]]] = {}
    if at is not None or any(root.depth > DEEP for root in roots):
        for node in in_order(roots):
            if at is not None:
                at.name = node.ufunc.__name__
            values[node] = _value(node, values, calls, leaf)
    return [
        np.asarray(values[root] if root in values else _value(root, values, calls, leaf))
        for root in roots
    ]


def _value(
    node: Elementwise,
    values: dict[Node, Any],
    calls: dict[Any, list[tuple[list[Any], Any]]],
    leaf: Callable[[Node], Any],
) -> Any:
    """Return a node's value; `values` and `calls` hold what was computed before."""
    operands = []
    for arg in node.args:
        if isinstance(arg, Node):
            value = values.get(arg)
            if value is None:
                below = type(arg) is Elementwise
                value = _value(arg, values, calls, leaf) if below else leaf(arg)  # type: ignore[arg-type]
                values[arg] = value
            operands.append(value)
        else:
            operands.append(arg)
    before = calls.setdefault(node.ufunc, [])
    for others, result in before:
        if all(map(_is_alike, operands, others)):
            found = result
            break
    else:
        found = node.ufunc(*operands)
        before.append((operands, found))
    return found if len(node.dtypes) == 1 else found[node.output]


def _is_alike(operand: Any, other: Any) -> bool:
    """Whether two operands are one array, or numbers that nothing tells apart."""
    if operand is other:
        return True
    numbers = not isinstance(operand, np.ndarray) and not isinstance(other, np.ndarray)
    return numbers and bool(told_apart(operand) == told_apart(other))


def run_whole(
    roots: Sequence[Elementwise], shape: tuple[int, ...], leaf: Callable[[Node], Any]
) -> list[np.ndarray]:
    """Compute expressions as one block, under the caller's errstate, with few temporaries."""
    order = in_order(roots)
    if len(roots) == 1 and len({node.ufunc for node in order}) == len(order):
        return [_run_in_turn(order, shape, leaf)]  # no calls are equal: no program is needed
    program = compiled(*roots)
    parts = [node for node in program.leaves if isinstance(node, Elementwise)]
    values = dict(zip(parts, run_small(parts, leaf), strict=True))
    leaves = [values[node] if node in values else leaf(node) for node in program.leaves]
    outs = [np.empty(shape, known_dtype(root)) for root in roots]
    run_block(program, leaves, outs, {}, Position(), True)
    return outs


def _run_in_turn(
    order: Sequence[Elementwise], shape: tuple[int, ...], leaf: Callable[[Node], Any]
) -> np.ndarray:
    """Compute the last of some nodes; a result that is read for the last time is written over."""
    values: dict[Any, Any] = {}
    readers = Counter(arg for node in order for arg in node.args if isinstance(arg, Elementwise))
    for node in order:
        ufunc, args = node.ufunc, node.args
        operands = []
        spare: tuple[np.ndarray, ...] = ()
        for arg in args:
            if isinstance(arg, Elementwise):
                value = values[arg]
                readers[arg] -= 1
                own = isinstance(value, np.ndarray) and isinstance(arg.ufunc, np.ufunc)
                if own and not readers[arg] and value.shape == shape and value.dtype == node.dtype:
                    spare = (value,)
            elif isinstance(arg, Node):
                value = values[arg] if arg in values else values.setdefault(arg, leaf(arg))
            else:
                value = arg
            operands.append(value)
        if spare and len(node.dtypes) == 1 and isinstance(ufunc, np.ufunc):
            values[node] = ufunc(*operands, out=spare)
        else:
            found = ufunc(*operands)
            values[node] = found if len(node.dtypes) == 1 else found[node.output]
    found = np.asarray(values[order[-1]])
    return found if found.shape == shape else np.array(np.broadcast_to(found, shape))


def run_block(
    program: Program,
    leaves: Sequence[np.ndarray],
    outs: Sequence[np.ndarray],
    scratch: dict[Any, list[np.ndarray]],
    at: Position,
    spare: bool,
) -> None:
    """Compute one block into `outs`; `scratch` holds this thread's buffers between blocks.

    `spare` tells that no leaf lies in `outs`, so that they may hold results on the way: the fewer
    buffers there are, the more of them stay in the cache.
    """
    buffers = _Buffers(dict(zip(program.outputs, outs, strict=True)), scratch, spare)
    values: dict[int, np.ndarray] = {}
    for position, step in enumerate(program.steps):
        operands = []
        dying = []
        for op in step.operands:
            if type(op) is not Place:
                operands.append(op)
            elif op.number < 0:
                operands.append(leaves[-1 - op.number])
            else:
                operands.append(values[op.number])
                if program.last_use[op.number] == position and op.number not in dying:
                    dying.append(op.number)
        shape = _shape_of(operands, outs[0].shape)
        released = [values.pop(place) for place in dying]
        # In place: a ufunc with one result reads each element before it writes it.
        elementwise = isinstance(step.ufunc, np.ufunc)
        in_place = elementwise and len(step.results) == 1
        if in_place:
            buffers.free.extend(released)
        buffers.keep(step.results)
        apart = () if elementwise else operands
        targets = [
            buffers.take(shape, dtype, place, apart)
            for place, dtype in zip(step.results, step.dtypes, strict=True)
        ]
        if not in_place:
            buffers.free.extend(released)
        if type(step.ufunc) is Joined:
            step.ufunc(operands, targets[0], at.reach)
        else:
            at.reach(step)
            step.ufunc(*operands, out=tuple(targets))
        values.update(zip(step.results, targets, strict=True))
    for place, out in zip(program.outputs, outs, strict=True):
        if values[place] is not out:
            np.copyto(out, values[place])
    buffers.give_back(values.values())


class _Buffers:
    """The buffers of one block: those that are free now, and those kept between blocks."""

    def __init__(
        self, outs: dict[int, np.ndarray], scratch: dict[Any, list[np.ndarray]], spare: bool
    ) -> None:
        self.outs = outs
        self.scratch = scratch
        self.spare = spare
        self.lent = {id(out) for out in outs.values()}
        # Of several outputs none waits for its values in the place of another.
        self.free: list[np.ndarray] = list(outs.values()) if spare and len(outs) == 1 else []

    def keep(self, places: Iterable[int]) -> None:
        """Keep the outputs of a step for their own values from now on."""
        kept = [self.outs[place] for place in places if place in self.outs]
        if kept:
            self.free = [buffer for buffer in self.free if not any(buffer is o for o in kept)]

    def take(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], place: int, apart: Sequence[Any]
    ) -> np.ndarray:
        """Return a buffer of this shape and dtype; an output goes straight to its place.

        `apart` are operands that may not be written over.
        """
        out = self.outs.get(place)
        if out is not None:
            fits = out.shape == shape and out.dtype == dtype
            if fits and (not apart or (self.spare and not any(op is out for op in apart))):
                return out
        for number, buffer in enumerate(self.free):
            if buffer.shape == shape and buffer.dtype == dtype:
                return self.free.pop(number)
        kept = self.scratch.get((shape, dtype))
        return kept.pop() if kept else np.empty(shape, dtype)

    def give_back(self, values: Iterable[np.ndarray]) -> None:
        """Keep the buffers for the next block."""
        for buffer in {id(part): part for part in (*self.free, *values)}.values():
            if id(buffer) not in self.lent:
                self.scratch.setdefault((buffer.shape, buffer.dtype), []).append(buffer)


def _shape_of(operands: list[Any], whole: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a step's results: mostly that of the block, which one operand shows."""
    for operand in operands:
        if isinstance(operand, np.ndarray) and operand.shape == whole:
            return whole
    return np.broadcast_shapes(*map(np.shape, operands))


def tiled(leaf: np.ndarray, block: tuple[int, ...]) -> np.ndarray:
    """Return a small row repeated over a block's rows, so that inner loops are long.

    >>> tiled(np.array([1, 2]), (3, 2)).shape
    (3, 2)
    """
    if len(block) < 2 or leaf.shape[-1:] != block[-1:] or block[-1] > 2048:
        return leaf
    if leaf.size == int(np.prod(block)) or leaf.ndim == 0:
        return leaf
    return np.ascontiguousarray(np.broadcast_to(leaf, block))
