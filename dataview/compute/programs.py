"""Expressions as programs: ufunc calls in order, in which equal calls occur once.

Parts that are much smaller than the whole are computed before the program runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.plan.kinds import Elementwise, known_shape, size_of
from dataview.plan.node import Node
from dataview.plan.walk import below
from dataview.sizes import sizes


class Place(NamedTuple):
    """An operand by its number: the result of an earlier step, or a leaf if it is negative."""

    number: int


class ProgramStep(NamedTuple):
    """A ufunc call: its number in the order, operands, and its results' numbers and dtypes."""

    number: int
    ufunc: Any
    operands: tuple[Any, ...]
    results: tuple[int, ...]
    dtypes: tuple[np.dtype[Any], ...]


class Program(NamedTuple):
    """Steps in order, the leaves that they read, and for every result the last step that reads it.

    A leaf that is itself elementwise is a small part, computed once before all blocks.
    """

    steps: tuple[ProgramStep, ...]
    leaves: tuple[Node, ...]
    last_use: tuple[int, ...]
    outputs: tuple[int, ...]


def compiled(*roots: Elementwise) -> Program:
    """Return the program of expressions of one shape; that of a single one is kept with it."""
    if len(roots) > 1:
        return _compiled(roots)
    (root,) = roots
    if root.program is None:
        root.program = _compiled(roots)
    program: Program = root.program
    return program


def _compiled(roots: Sequence[Elementwise]) -> Program:
    shape = known_shape(roots[0])
    steps: list[ProgramStep] = []
    leaves: list[Node] = []
    places: dict[int, Place] = {}
    calls: dict[Any, tuple[int, ...]] = {}
    count = 0
    for node in elementwise_order(roots, shape):
        operands = tuple([_operand(arg, places, leaves) for arg in node.args])
        call = (node.ufunc, *map(operand_key, operands))
        if call not in calls:
            calls[call] = tuple(range(count, count + len(node.dtypes)))
            count += len(node.dtypes)
            steps.append(ProgramStep(len(steps), node.ufunc, operands, calls[call], node.dtypes))
        places[id(node)] = Place(calls[call][node.output])
    outputs = tuple([places[id(root)].number for root in roots])
    return Program(tuple(steps), tuple(leaves), last_uses(steps, outputs, count), outputs)


def last_uses(steps: Sequence[ProgramStep], outputs: Sequence[int], count: int) -> tuple[int, ...]:
    """Return for each result the position of the last step that reads it, the end for outputs."""
    last = [len(steps)] * count
    for position, step in enumerate(steps):
        for operand in step.operands:
            if type(operand) is Place and operand.number >= 0:
                last[operand.number] = position
    for output in outputs:
        last[output] = len(steps)
    return tuple(last)


def _operand(arg: Any, places: dict[int, Place], leaves: list[Node]) -> Any:
    """Return the place of a node, a new leaf if no step computes it; anything else as it is."""
    if not isinstance(arg, Node):
        return arg
    if id(arg) not in places:
        leaves.append(arg)
        places[id(arg)] = Place(-len(leaves))
    return places[id(arg)]


def elementwise_order(
    roots: Sequence[Elementwise], shape: tuple[int, ...] | None = None
) -> list[Elementwise]:
    """Return the elementwise nodes below some, arguments first, each once, however deep.

    With the shape of the whole, small parts are left out: they are computed beforehand.
    """

    def operands(node: Elementwise) -> list[Elementwise]:
        parts = [arg for arg in node.args if isinstance(arg, Elementwise)]
        return parts if shape is None else [p for p in parts if not _is_small_part(p, shape)]

    return below(roots, operands)


def _is_small_part(part: Elementwise, whole: tuple[int, ...]) -> bool:
    """Whether a part is so much smaller than the whole expression that it is computed once.

    Each block would compute it again, and a row of it could not be repeated for several rows.
    """
    own = known_shape(part)
    return own != whole and size_of(own) <= min(sizes.folded_elements, size_of(whole) // 2)


def leaves_of(root: Elementwise) -> list[Node]:
    """Return the nodes that an expression reads, each once."""
    found = {
        id(a): a for node in elementwise_order([root]) for a in node.args if isinstance(a, Node)
    }
    return [node for node in found.values() if not isinstance(node, Elementwise)]


def operand_key(operand: Any) -> Any:
    """Return a key that differs for operands that are equal and not the same, as 1 and True."""
    if type(operand) is Place:
        return operand.number
    return type(operand), repr(operand)
