"""Masks from conditions, of which groups of rows are not read that cannot fulfil them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import evaluate, evaluate_at_once
from dataview.index import block_index
from dataview.plan.kinds import Comparison, Elementwise, Stored, known_shape
from dataview.plan.node import Node
from dataview.plan.operations import NumpyFunction

_SWAPPED = {
    np.greater: np.less, np.less: np.greater, np.greater_equal: np.less_equal,
    np.less_equal: np.greater_equal, np.equal: np.equal,
}  # fmt: skip
"""The comparisons that tell something of groups, and each with its sides exchanged."""


class Groups(NamedTuple):
    """Where groups of rows start, and in which of them a condition may be true."""

    starts: np.ndarray
    may: np.ndarray


def mask_of(node: Node) -> np.ndarray | None:
    """Return where a condition is true, None if there are no groups that need not be read."""
    blocks = _read(node)
    if blocks is None:
        return None
    found = np.zeros(known_shape(node), bool)
    for start, block in blocks:
        found[start : start + len(block)] = block
    return found


def rows_where(node: Node) -> np.ndarray:
    """Return the numbers of the rows where a condition is true; groups may be left unread."""
    blocks = _read(node)
    if blocks is None:
        return np.flatnonzero(evaluate_at_once(node))
    found = []
    for start, block in blocks:
        rows = np.flatnonzero(block)
        rows += start
        found.append(rows)
    return found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.intp), *found])


def _read(node: Node) -> Iterator[tuple[int, np.ndarray]] | None:
    """Return what a condition is in runs of groups where it may be true, and where these start.

    None is returned if that is everywhere, or if nothing is known of it.
    """
    groups = _groups_of(node)
    if groups is None or groups.may.all() or node.shape is None or len(node.shape) != 1:
        return None
    shape = node.shape
    edges = np.flatnonzero(np.diff(np.concatenate([[False], groups.may, [False]]).astype("i1")))
    runs = (groups.starts[run].tolist() for run in edges.reshape(-1, 2))
    return ((start, evaluate(node, block_index(shape, start, stop))) for start, stop in runs)


def _groups_of(node: Any) -> Groups | None:
    """Return in which groups of rows a condition may be true, None if nothing is known of it."""
    if isinstance(node, Comparison):
        return None if node.negated else _compared(np.equal, *node.args)
    if not isinstance(node, Elementwise) or len(node.args) != 2:
        return None
    if node.ufunc == NumpyFunction("known"):  # and false where a mask says that nothing is there
        return _groups_of(node.args[0])
    if node.ufunc in _ALL_OF:
        return _of_all(node)
    return _compared(node.ufunc, *node.args)


def _of_all(node: Elementwise) -> Groups | None:
    """Return the groups where all conditions may be true that are joined by `&`."""
    found: Groups | None = None
    waiting: list[Any] = [node]
    while waiting:  # not by recursion: there may be one for each of thousands of columns
        part = waiting.pop()
        if getattr(part, "dtype", None) != np.bool_:
            return None
        if isinstance(part, Elementwise) and part.ufunc in _ALL_OF:
            waiting += part.args
            continue
        groups = _groups_of(part)
        if groups is None:
            continue
        if found is None:
            found = groups
        elif np.array_equal(found.starts, groups.starts):
            found = Groups(found.starts, found.may & groups.may)
    return found


_ALL_OF = (np.bitwise_and, np.logical_and)


def _compared(ufunc: Any, left: Any, right: Any) -> Groups | None:
    """Return the groups of a comparison of stored data with a number."""
    if ufunc not in _SWAPPED:
        return None
    if isinstance(right, Node):
        left, right, ufunc = right, left, _SWAPPED[ufunc]
    if not isinstance(left, Stored) or not isinstance(right, (int, float, np.number)):
        return None
    bounds = left.source.bounds()
    if bounds is None:
        return None
    starts, lows, highs, known = bounds
    if ufunc is np.equal:
        may = np.less_equal(lows, right) & np.greater_equal(highs, right)
    else:
        may = ufunc(highs if ufunc in (np.greater, np.greater_equal) else lows, right)
    return Groups(starts, may | ~known)
