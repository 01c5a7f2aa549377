"""Rows of data in memory, and of expressions of them, by their numbers, without a plan for each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from dataview.compute import engines
from dataview.compute.blocks import is_one_block
from dataview.compute.evaluation import evaluate, memory_of, settle
from dataview.compute.kernel import run_small
from dataview.compute.programs import leaves_of
from dataview.plan.kinds import Elementwise, Reduction, known_shape, size_of
from dataview.plan.node import Node

Taker: TypeAlias = "Callable[[np.ndarray | slice], np.ndarray | None]"
"""A function of row numbers, or of a slice of them; None where a plan has to be made."""


def taker_of(node: Node) -> Taker | None:
    """Return a function that takes rows of a node, None if these need a plan.

    Rows by number are copies, as those of an expression are; a slice of memory is an alias.
    """
    memory = memory_of(node) if node.shape else None
    if memory is not None:
        return taker_of_memory(memory)
    return _computing(node) if isinstance(node, Elementwise) else None


def taker_of_memory(memory: np.ndarray) -> Taker:
    """Return a function that takes rows of an array."""
    return functools.partial(_taken, memory, memory.flags.c_contiguous)


def _taken(memory: np.ndarray, contiguous: bool, rows: np.ndarray | slice) -> np.ndarray:
    if contiguous and not isinstance(rows, slice):
        return memory.take(rows, 0)  # of other memory it would copy the whole first
    return memory[rows]


def _computing(node: Elementwise) -> Taker | None:
    """Return a function that computes rows of an expression, if its operands are in memory."""
    shape = known_shape(node)
    if len(shape) < 1 or shape[0] == 1:
        return None
    takers: dict[Node, Taker] = {}
    fixed: dict[Node, np.ndarray] = {}
    statistics: list[Reduction] = []
    for leaf in leaves_of(node):
        own = known_shape(leaf)
        if len(own) == len(shape) and own[0] == shape[0]:
            taker = taker_of(leaf)
            if taker is None:
                return None
            takers[leaf] = taker
        elif isinstance(leaf, Reduction):
            statistics.append(leaf)
        elif (memory := memory_of(leaf)) is None:
            return None
        else:
            fixed[leaf] = memory
    row = size_of(shape[1:])

    def value(leaf: Node, rows: np.ndarray | slice) -> np.ndarray:
        found = takers[leaf](rows) if leaf in takers else fixed.get(leaf)
        return evaluate(leaf) if found is None else found  # a statistic, which is taken

    def computed(rows: np.ndarray | slice) -> np.ndarray | None:
        count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        if not is_one_block(count * row, node.dtypes[0]) or engines.current() == "numexpr":
            return None
        if statistics and any(one.taken is None for one in statistics):
            settle(node)  # all of them together, in one reading
        (found,) = run_small((node,), lambda leaf: value(leaf, rows))
        return found

    return computed if takers else None
