"""One fused elementwise run: a program of ufunc calls over scratch buffers, block by block.

NumPy is the reference: every step is NumPy's own ufunc on operands of NumPy's own dtypes, so
values, dtypes and floating-point errors are those of the eager expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.nodes import Elementwise, Node

__all__ = [
    "Position",
    "Program",
    "Step",
    "compiled",
    "leaves_of",
    "run_block",
    "run_small",
    "tiled",
]


class Step(NamedTuple):
    """A ufunc call: where its operands are, where its results go, and their dtypes."""

    ufunc: np.ufunc
    operands: tuple[Any, ...]
    results: tuple[int, ...]
    dtypes: tuple[np.dtype[Any], ...]


class _Place(NamedTuple):
    """An operand: a leaf (negative numbers count leaves) or the result of an earlier step."""

    number: int


class Position:
    """Which step a block has reached: what a floating-point error is blamed on."""

    __slots__ = ("step",)

    def __init__(self) -> None:
        self.step = -1  # while operands are read


class Program(NamedTuple):
    """Steps in order, the leaves they read, and for every result the last step that reads it."""

    steps: tuple[Step, ...]
    leaves: tuple[Node, ...]
    last_use: tuple[int, ...]
    output: int


def compiled(root: Elementwise) -> Program:
    """Return the program of an expression, made once; equal parts of it are computed once."""
    if root.program is None:
        root.program = _compiled(root)
    program: Program = root.program
    return program


def _compiled(root: Elementwise) -> Program:
    leaves: dict[int, tuple[int, Node]] = {}
    steps: list[Step] = []
    results: dict[Any, tuple[int, ...]] = {}
    known: dict[int, int] = {}
    count = 0
    for node in _in_order(root):
        operands = tuple([_place_of(arg, known, leaves) for arg in node.args])
        key = (node.ufunc, *[_told_apart(operand) for operand in operands])
        if key not in results:
            results[key] = tuple(range(count, count + len(node.dtypes)))
            count += len(node.dtypes)
            steps.append(Step(node.ufunc, operands, results[key], node.dtypes))
        known[id(node)] = results[key][node.output]
    output = known[id(root)]
    last_use = [len(steps)] * count
    for number, step in enumerate(steps):
        for operand in step.operands:
            if isinstance(operand, _Place) and operand.number >= 0:
                last_use[operand.number] = number
    last_use[output] = len(steps)
    read = tuple(leaf for _, leaf in leaves.values())
    return Program(tuple(steps), read, tuple(last_use), output)


def _in_order(root: Elementwise) -> list[Elementwise]:
    """Return the elementwise nodes below a root, arguments first, each once, however deep."""
    order: list[Elementwise] = []
    seen: set[int] = set()
    waiting: list[tuple[Elementwise, bool]] = [(root, False)]
    while waiting:
        node, ready = waiting.pop()
        if ready:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            waiting.append((node, True))
            for arg in reversed(node.args):
                if isinstance(arg, Elementwise):
                    waiting.append((arg, False))
    return order


def leaves_of(root: Elementwise) -> list[Node]:
    """Return the nodes that an expression reads, each once."""
    found = {id(a): a for node in _in_order(root) for a in node.args if isinstance(a, Node)}
    return [node for node in found.values() if not isinstance(node, Elementwise)]


def _place_of(arg: Any, known: dict[int, int], leaves: dict[int, tuple[int, Node]]) -> Any:
    if isinstance(arg, Elementwise):
        return _Place(known[id(arg)])
    if isinstance(arg, Node):
        return _Place(-1 - leaves.setdefault(id(arg), (len(leaves), arg))[0])
    return arg


def _told_apart(operand: Any) -> Any:
    """Return a key for an operand: 0.0 and -0.0, or 1 and True, are equal and not alike."""
    if type(operand) is _Place:
        return operand.number
    return type(operand), repr(operand)


def run_small(root: Elementwise, leaf: Callable[[Node], Any]) -> np.ndarray:
    """Compute an expression on whole operands, for results that fit a cache: NumPy allocates.

    A shared part is computed once; a program is not worth making.
    """
    values: dict[Any, Any] = {}
    calls: dict[Any, Any] = {}
    for node in _in_order(root):
        call = (node.ufunc, *[_identity(arg, values) for arg in node.args])
        if call not in calls:
            operands = [_operand(arg, values, leaf) for arg in node.args]
            calls[call] = node.ufunc(*operands), len(calls)
        found, number = calls[call]
        values[id(node)] = found if len(node.dtypes) == 1 else found[node.output]
        values["same", id(node)] = number, node.output
    return np.asarray(values[id(root)])


def _identity(arg: Any, values: dict[Any, Any]) -> Any:
    """Return a key by which equal operands are known again."""
    if isinstance(arg, Elementwise):
        return values["same", id(arg)]
    return id(arg) if isinstance(arg, Node) else (type(arg), repr(arg))


def _operand(arg: Any, values: dict[Any, Any], leaf: Callable[[Node], Any]) -> Any:
    if not isinstance(arg, Node):
        return arg
    if id(arg) not in values:  # a leaf: what is computed stands there already
        values[id(arg)] = leaf(arg)
    return values[id(arg)]


def run_block(
    program: Program,
    leaves: Sequence[np.ndarray],
    out: np.ndarray,
    scratch: dict[Any, list[np.ndarray]],
    at: Position,
    spare: bool,
) -> None:
    """Compute one block into `out`; `scratch` holds this thread's buffers between blocks.

    `spare` tells that no leaf lies in `out`, so that it may hold results on the way: the fewer
    buffers there are, the more of them stay in the cache.
    """
    buffers = _Buffers(out, scratch, spare)
    values: dict[int, np.ndarray] = {}
    for number, step in enumerate(program.steps):
        at.step = number
        operands = [
            (values[op.number] if op.number >= 0 else leaves[-1 - op.number])
            if type(op) is _Place
            else op
            for op in step.operands
        ]
        dying = {
            op.number
            for op in step.operands
            if type(op) is _Place and op.number >= 0 and program.last_use[op.number] == number
        }
        shape = _shape_of(operands, out.shape)
        released = [values.pop(place) for place in dying]
        if program.output in step.results:  # the place of the last result is kept for it
            buffers.free = [buffer for buffer in buffers.free if buffer is not out]
        if len(step.results) == 1:  # in place: the ufunc reads each element before it writes it
            buffers.free.extend(released)
        targets = [
            buffers.take(shape, dtype, place == program.output)
            for place, dtype in zip(step.results, step.dtypes, strict=True)
        ]
        if len(step.results) > 1:
            buffers.free.extend(released)
        step.ufunc(*operands, out=tuple(targets))
        values.update(zip(step.results, targets, strict=True))
    if values[program.output] is not out:
        np.copyto(out, values[program.output])
    buffers.give_back(values.values())


class _Buffers:
    """The buffers of one block: those that are free now, and those kept between blocks."""

    def __init__(self, out: np.ndarray, scratch: dict[Any, list[np.ndarray]], spare: bool) -> None:
        self.out = out
        self.scratch = scratch
        self.free: list[np.ndarray] = [out] if spare else []

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any], last: bool) -> np.ndarray:
        """Return a buffer of this shape and dtype; the last result goes straight to its place."""
        if last and self.out.shape == shape and self.out.dtype == dtype:
            self.free = [buffer for buffer in self.free if buffer is not self.out]
            return self.out
        for number, buffer in enumerate(self.free):
            if buffer.shape == shape and buffer.dtype == dtype:
                return self.free.pop(number)
        kept = self.scratch.get((shape, dtype))
        return kept.pop() if kept else np.empty(shape, dtype)

    def give_back(self, values: Iterable[np.ndarray]) -> None:
        """Keep the buffers for the next block."""
        for buffer in {id(part): part for part in (*self.free, *values)}.values():
            if buffer is not self.out:
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
