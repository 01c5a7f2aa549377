"""The distinct values of a view, counted in one pass that keeps only these values in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dataview.compute import evaluate, row_blocks, run_blocks, settle
from dataview.plan.build import stored
from dataview.plan.fields import Attached, Fields
from dataview.plan.guards import check_ends, check_no_record
from dataview.plan.kinds import known_dtype, known_shape
from dataview.plan.node import Evaluate, Node
from dataview.plan.photographs import Photograph
from dataview.plan.ragged import Ragged
from dataview.samples.streams import Samples, Stream
from dataview.sources import ArraySource, Memo

BLOCKS_PER_MERGE = 8
"""How many blocks are counted before their values are merged."""

Counted = tuple[np.ndarray, np.ndarray]
"""Distinct values, ascending, and how often each occurs."""


def distinct(node: Node, counts: bool) -> Distinct:
    """Return the node of the distinct values, with how often each occurs if `counts`."""
    check_no_record(node, "_unique")
    check_ends(node, "_unique")
    node = node.flat() if isinstance(node, Ragged) else node
    known_shape(node)
    return Distinct(_Values(node, counts))


def _counted(array: np.ndarray) -> Counted:
    return np.unique(array, return_counts=True)


def merge(parts: Sequence[Counted]) -> Counted:
    """Return the distinct values of all parts, and how often each occurs.

    >>> merge([(np.array([1, 5]), np.array([2, 1])), (np.array([5]), np.array([3]))])
    (array([1, 5]), array([2, 4]))
    """
    if len(parts) == 1:
        return parts[0]
    values, places = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    counts = np.zeros(len(values), np.int64)
    np.add.at(counts, places, np.concatenate([part[1] for part in parts]))
    return values, counts


class _Values(Photograph):
    """The distinct values, or pairs of value and count."""

    __slots__ = ("counts", "dtype")
    about = "distinct values"

    def __init__(self, node: Node, counts: bool) -> None:
        super().__init__(node)
        own = known_dtype(node)
        self.counts = counts
        self.dtype = np.dtype([("value", own), ("count", np.int64)]) if counts else own

    def find(self, node: Node) -> np.ndarray:
        """Count the values."""
        values, counts = _count_values(node)
        found = np.empty(len(values), self.dtype)
        if self.counts:
            found["value"], found["count"] = values, counts
        else:
            found[...] = values
        return found


class _DistinctSamples(Samples):
    """The values, or one of their fields, as samples."""

    __slots__ = ("name", "values")
    parts = ("values",)
    finite = True
    restarts = True

    def __init__(self, values: _Values, name: str | None) -> None:
        self.values = values
        self.name = name

    def array(self) -> np.ndarray:
        """Return the values as an array."""
        found = self.values.array()
        return found if self.name is None else found[self.name]

    def iterate(self) -> Iterator[Node]:
        """Return the values as nodes."""
        found = self.array()
        return (stored(ArraySource(found[place, ...]), False) for place in range(len(found)))


def _count_values(node: Node) -> Counted:
    """Return the distinct values of a node, reading it once."""
    settle(node)
    indices = list(row_blocks(node))
    runs = [_counted(np.empty(0, known_dtype(node)))]
    for start in range(0, len(indices), BLOCKS_PER_MERGE):
        some = indices[start : start + BLOCKS_PER_MERGE]
        parts = run_blocks(lambda index: _counted(evaluate(node, index)), some)
        runs.append(merge(parts))
        # Runs of like lengths are merged: each value is moved a few times only.
        while len(runs) > 1 and len(runs[-2][0]) <= 2 * len(runs[-1][0]):
            runs[-2:] = [merge(runs[-2:])]
    return merge(runs)


class Distinct(Stream):
    """Distinct values in ascending order; how many they are is known once they are taken."""

    __slots__ = ("values",)
    parts = ("values",)

    def __init__(self, values: _Values, name: str | None = None) -> None:
        dtype = values.dtype if name is None else values.dtype[name]
        samples = _DistinctSamples(values, name)
        super().__init__(samples, stored(ArraySource(np.zeros((), dtype)), False))
        self.dtype = dtype
        self.values = samples
        if values.counts and name is None:
            parts = {part: Distinct(values, part) for part in ("value", "count")}
            self._fields = Fields({part: Attached(node, None) for part, node in parts.items()})

    @property
    def count(self) -> int | None:
        """The number of values, None before they are taken."""
        taken = self.values.values.taken
        return None if taken is None else len(taken)

    def answer(self, evaluate: Evaluate, memo: Memo) -> np.ndarray:
        """Return the values as an array."""
        return self.values.array()

    def probed(self) -> Node:
        """Return the values as data in memory."""
        return stored(ArraySource(self.values.array()), False)
