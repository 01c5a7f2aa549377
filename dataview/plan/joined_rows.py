"""Rows of joined nodes as rows of what these are parts of, so that one file's are read together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from dataview.index import LINE, Affine, Map, Rows, identity, numbers_of
from dataview.plan.kinds import Concat, Select, known_shape
from dataview.plan.node import Node

SORTED = 8
"""Rows of more nodes than this are sorted by their nodes; of fewer they are looked for."""

Found: TypeAlias = "tuple[int, np.ndarray, np.ndarray | slice]"
"""The number of a base, rows of it, and their places among the rows that were asked for."""


class JoinedRows:
    """Which rows of which `bases` the rows of joined nodes are.

    The base of a node whose rows are rows of another is this other one; else it is the node.
    `are_writable` says that all of the nodes may be written, once this is known.

    >>> from dataview.index import Index
    >>> from dataview.plan.build import select, stored
    >>> from dataview.plan.concat import concat
    >>> from dataview.sources import ArraySource
    >>> data = stored(ArraySource(np.arange(10)), False)
    >>> low, high = (select(data, Index((5,), [Affine(first, ((0, 1),))])) for first in (0, 5))
    >>> swapped = JoinedRows(concat([high, low]))
    >>> [base is data for base in swapped.bases]
    [True]
    >>> list(swapped.of(np.array([0, 5, 9])))
    [(0, array([5, 0, 4]), slice(None, None, None))]
    """

    def __init__(self, node: Concat) -> None:
        self.are_writable = False
        bases, maps, self._numbers = zip(*map(_base_of, node.nodes), strict=True)
        distinct = {id(base): base for base in bases}
        order = {key: number for number, key in enumerate(distinct)}
        self.bases = [*distinct.values()]
        self._of_node = np.array([order[id(base)] for base in bases])
        self._firsts, self._starts = node.starts, node.starts.tolist()
        self._irregular = [n for n, map_ in enumerate(maps) if not isinstance(map_, Affine)]
        lines = [map_ if isinstance(map_, Affine) else LINE for map_ in maps]
        self._strides = np.array([line.strides[0][1] for line in lines])
        self._shifts = np.array([line.offset for line in lines]) - self._firsts * self._strides
        self._is_shifted = bool((self._strides == 1).all())

    def of_one(self, rows: int | range) -> tuple[int, Rows] | None:
        """Return the base of rows and which rows of it they are, if they are of one node."""
        ends = (rows, rows) if isinstance(rows, int) else (rows[0], rows[-1])
        number, last = (bisect_right(self._starts, row) - 1 for row in ends)
        if number != last:
            return None
        start = self._starts[number]
        if not isinstance(rows, int):
            rows = range(rows.start - start, rows.stop - start, rows.step)
        else:
            rows -= start
        return int(self._of_node[number]), self._numbers[number](rows)

    def of(self, rows: np.ndarray) -> Iterator[Found]:
        """Yield the rows of each base that is met."""
        nodes = self._firsts.searchsorted(rows, "right") - 1
        below = (rows if self._is_shifted else rows * self._strides[nodes]) + self._shifts[nodes]
        for number in self._irregular:
            places = (nodes == number).nonzero()[0]
            below[places] = self._numbers[number](rows[places] - self._starts[number])
        if len(self.bases) == 1:
            yield 0, below, slice(None)
            return
        for number, places in _by_number(self._of_node[nodes], len(self.bases)):
            yield number, below[places], places


def joined_rows_of(node: Concat) -> JoinedRows:
    """Return which rows of joined nodes are which rows of what; the node remembers it."""
    if node.joined_rows is None:
        node.joined_rows = JoinedRows(node)
    return node.joined_rows  # type: ignore[no-any-return]


def _base_of(node: Node) -> tuple[Node, Map, Callable[[Rows], Rows]]:
    """Return the node of which another takes whole rows, and which; else the node and all of it."""
    if type(node) is Select and node.index.maps:
        first, *others = node.index.maps
        below, shape = known_shape(node.node), node.index.shape
        numbers = numbers_of(first, shape[:1])
        if numbers and shape[1:] == below[1:] and tuple(others) == identity(below).maps[1:]:
            return node.node, first, numbers
    return node, LINE, lambda rows: rows


def _by_number(numbers: np.ndarray, count: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield which of so many numbers occur, each with the places where it does."""
    if count <= SORTED or not len(numbers):
        for number in range(count):
            places = (numbers == number).nonzero()[0]
            if len(places):
                yield number, places
        return
    order = numbers.argsort(kind="stable")
    ascending = numbers[order]
    start = 0
    for end in [*(np.flatnonzero(ascending[1:] != ascending[:-1]) + 1).tolist(), len(numbers)]:
        yield int(ascending[start]), order[start:end]
        start = end
