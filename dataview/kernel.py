"""One fused elementwise run: a program of ufunc calls over scratch buffers, block by block.

NumPy is the reference: every step is NumPy's own ufunc on operands of NumPy's own dtypes, so
values, dtypes and floating-point errors are those of the eager expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.nodes import Elementwise, Node

__all__ = ["Position", "Program", "Step", "compiled", "run_block", "tiled"]


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
        self.step = 0


class Program(NamedTuple):
    """Steps in order, the leaves they read, and for every result the last step that reads it."""

    steps: tuple[Step, ...]
    leaves: tuple[Node, ...]
    last_use: tuple[int, ...]
    output: int


def compiled(root: Elementwise) -> Program:
    """Return the program of an expression; equal parts of it are computed once."""
    leaves: dict[int, tuple[int, Node]] = {}
    steps: list[Step] = []
    places: dict[Any, tuple[int, ...]] = {}
    known: dict[int, int] = {}
    count = 0

    def place_of(arg: Any) -> Any:
        nonlocal count
        if not isinstance(arg, Node):
            return arg
        if not isinstance(arg, Elementwise):
            number, _ = leaves.setdefault(id(arg), (len(leaves), arg))
            return _Place(-1 - number)
        if id(arg) in known:
            return _Place(known[id(arg)])
        operands = tuple(map(place_of, arg.args))
        key = (arg.ufunc, tuple((type(op), repr(op)) for op in operands))
        if key not in places:
            dtypes = arg.dtypes
            places[key] = tuple(range(count, count + len(dtypes)))
            count += len(dtypes)
            steps.append(Step(arg.ufunc, operands, places[key], dtypes))
        known[id(arg)] = places[key][arg.output]
        return _Place(known[id(arg)])

    output = place_of(root).number
    last_use = [len(steps)] * count
    for number, step in enumerate(steps):
        for operand in step.operands:
            if isinstance(operand, _Place) and operand.number >= 0:
                last_use[operand.number] = number
    last_use[output] = len(steps)
    read = tuple(leaf for _, leaf in leaves.values())
    return Program(tuple(steps), read, tuple(last_use), output)


def run_block(
    program: Program,
    leaves: Sequence[np.ndarray],
    out: np.ndarray,
    scratch: dict[Any, list[np.ndarray]],
    at: Position,
) -> None:
    """Compute one block into `out`; `scratch` holds this thread's buffers between blocks."""
    values: dict[int, np.ndarray] = {}
    for number, step in enumerate(program.steps):
        at.step = number
        operands = [
            (values[op.number] if op.number >= 0 else leaves[-1 - op.number])
            if isinstance(op, _Place)
            else op
            for op in step.operands
        ]
        shape = np.broadcast_shapes(*(np.shape(op) for op in operands))
        dying = [
            op.number
            for op in step.operands
            if isinstance(op, _Place) and op.number >= 0 and program.last_use[op.number] == number
        ]
        targets = [
            out
            if place == program.output and out.dtype == dtype and out.shape == shape
            else _buffer(scratch, shape, dtype)
            for place, dtype in zip(step.results, step.dtypes, strict=True)
        ]
        step.ufunc(*operands, out=tuple(targets))
        for place in dying:
            _give_back(scratch, values.pop(place, None), out)
        values.update(zip(step.results, targets, strict=True))
    result = values[program.output]
    if result is not out:
        np.copyto(out, result)
    for value in values.values():
        _give_back(scratch, value, out)


def _buffer(
    scratch: dict[Any, list[np.ndarray]],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
) -> np.ndarray:
    """Return a buffer that was given back, or a new one."""
    free = scratch.setdefault((shape, dtype), [])
    return free.pop() if free else np.empty(shape, dtype)


def _give_back(
    scratch: dict[Any, list[np.ndarray]], value: np.ndarray | None, out: np.ndarray
) -> None:
    if value is not None and value is not out:
        scratch.setdefault((value.shape, value.dtype), []).append(value)


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
