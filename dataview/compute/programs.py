"""Expressions as programs: their ufunc calls in order, equal parts once, small parts beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.plan.kinds import Elementwise, known_shape, size_of
from dataview.plan.node import Node
from dataview.sizes import sizes


class Place(NamedTuple):
    """An operand: a leaf (negative numbers count leaves) or the result of an earlier step."""

    number: int


class Step(NamedTuple):
    """A ufunc call: its place in the order, its operands, where its results go, their dtypes."""

    number: int
    ufunc: Any
    operands: tuple[Any, ...]
    results: tuple[int, ...]
    dtypes: tuple[np.dtype[Any], ...]


class Program(NamedTuple):
    """Steps in order, the leaves they read, for every result the last step that reads it.

    A leaf that is itself elementwise is a part to be computed before the blocks are.
    """

    steps: tuple[Step, ...]
    leaves: tuple[Node, ...]
    last_use: tuple[int, ...]
    outputs: tuple[int, ...]


def compiled(*roots: Elementwise) -> Program:
    """Return the program of expressions of one shape; that of a single one is made once."""
    if len(roots) > 1:
        return _compiled(roots)
    (root,) = roots
    if root.program is None:
        root.program = _compiled(roots)
    program: Program = root.program
    return program


def _compiled(roots: Sequence[Elementwise]) -> Program:
    shape = known_shape(roots[0])
    steps: list[Step] = []
    leaves: list[Node] = []
    places: dict[int, Place] = {}
    calls: dict[Any, tuple[int, ...]] = {}
    count = 0
    for node in in_order(roots, shape):
        operands = tuple([_operand(arg, places, leaves) for arg in node.args])
        call = (node.ufunc, *map(told_apart, operands))
        if call not in calls:
            calls[call] = tuple(range(count, count + len(node.dtypes)))
            count += len(node.dtypes)
            steps.append(Step(len(steps), node.ufunc, operands, calls[call], node.dtypes))
        places[id(node)] = Place(calls[call][node.output])
    outputs = tuple([places[id(root)].number for root in roots])
    return Program(tuple(steps), tuple(leaves), last_uses(steps, outputs, count), outputs)


def last_uses(steps: Sequence[Step], outputs: Sequence[int], count: int) -> tuple[int, ...]:
    """Return for each result the last position in `steps` that reads it; the outputs stay."""
    last = [len(steps)] * count
    for position, step in enumerate(steps):
        for operand in step.operands:
            if type(operand) is Place and operand.number >= 0:
                last[operand.number] = position
    for output in outputs:
        last[output] = len(steps)
    return tuple(last)


def _operand(arg: Any, places: dict[int, Place], leaves: list[Node]) -> Any:
    """Return where an argument will be found; what is no step's result becomes a leaf."""
    if not isinstance(arg, Node):
        return arg
    if id(arg) not in places:
        leaves.append(arg)
        places[id(arg)] = Place(-len(leaves))
    return places[id(arg)]


def in_order(
    roots: Sequence[Elementwise], shape: tuple[int, ...] | None = None
) -> list[Elementwise]:
    """Return the elementwise nodes below some, arguments first, each once, however deep.

    With the shape of the whole, the parts that are to be computed beforehand are left out.
    """
    order: list[Elementwise] = []
    seen: set[int] = set()
    waiting: list[Any] = list(reversed(roots))
    while waiting:
        node = waiting.pop()
        if type(node) is tuple:  # its arguments are through
            order.append(node[0])
        elif id(node) not in seen:
            seen.add(id(node))
            below = [arg for arg in node.args if isinstance(arg, Elementwise)]
            if shape is not None:
                below = [part for part in below if not is_held(part, shape)]
            if below:
                waiting.append((node,))
                waiting.extend(reversed(below))
            else:
                order.append(node)
    return order


def is_held(part: Elementwise, whole: tuple[int, ...]) -> bool:
    """Whether a part of an expression is so much smaller than it that it is computed once.

    Otherwise each block would compute it again, and could not repeat it to a long row.
    """
    own = known_shape(part)
    return own != whole and size_of(own) <= min(sizes.folded_elements, size_of(whole) // 2)


def leaves_of(root: Elementwise) -> list[Node]:
    """Return the nodes that an expression reads, each once."""
    found = {id(a): a for node in in_order([root]) for a in node.args if isinstance(a, Node)}
    return [node for node in found.values() if not isinstance(node, Elementwise)]


def told_apart(operand: Any) -> Any:
    """Return a key for an operand: 0.0 and -0.0, or 1 and True, are equal and not alike."""
    if type(operand) is Place:
        return operand.number
    return type(operand), repr(operand)
