"""Rows that functions make, for statistics of several nodes: read in one pass, each made once."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from dataview.compute.ways import (
    Cut,
    cuts_along,
    have_makers_in_common,
    makers_of,
    parts_of,
    rows_of_request,
)
from dataview.index.sizes import sizes
from dataview.plan.kinds import Sampled, known_dtype, known_shape, size_of
from dataview.plan.node import Evaluate, Node
from dataview.sources import Made, Memo, made_so_far, making


def is_made_of_rows(node: Node) -> bool:
    """Whether a node has rows that functions make, which are read in blocks of rows."""
    if isinstance(node, Sampled) or not known_shape(node) or not makers_of(node):
        return False
    return not parts_of(node)[0].across


def are_made_together(node: Node, other: Node) -> bool:
    """Whether two nodes have as many rows, and functions make those of both."""
    if not is_made_of_rows(node) or not is_made_of_rows(other):
        return False
    return known_shape(node)[0] == known_shape(other)[0] and have_makers_in_common([node, other])


def blocks_made(nodes: Sequence[Node], evaluate: Evaluate) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the number of a node, and a block of it in which its statistics are computed.

    What functions make of some rows is remembered until all nodes have read these.
    """
    count, step = known_shape(nodes[0])[0], rows_of_request(nodes)
    cuts = [Cut(0, 0, count)] if count <= step else cuts_along(0, count, step)
    outer = made_so_far() if len(cuts) == 1 else None  # a larger request remembers too much
    parts = [_Parts(node) for node in nodes]
    for cut in cuts:
        memo: Memo = {"roots": tuple(nodes)}
        with making(outer or Made()):
            found = [evaluate(node, cut.within(known_shape(node)), memo) for node in nodes]
        for number, rows in enumerate(found):
            for block in parts[number].completed(rows):
                yield number, block


class _Parts:
    """The blocks of a node for its statistics, which are completed as its rows come."""

    def __init__(self, node: Node) -> None:
        self.dtype = known_dtype(node)
        self.cuts = deque(parts_of(node))
        self.rows: list[np.ndarray] = []
        self.stop = 0

    def completed(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Return the blocks whose last rows these are."""
        self.rows.append(rows)
        self.stop += len(rows)
        while self.cuts and self.cuts[0].stop <= self.stop:
            cut = self.cuts.popleft()
            held = self.rows[0] if len(self.rows) == 1 else self._joined()
            count = cut.stop - cut.start
            self.rows = [held[count:]]
            yield held[:count]

    def _joined(self) -> np.ndarray:
        return np.concatenate(self.rows, dtype=self.dtype)  # in its byte order


class KeptRows:
    """All rows of a node, for what is found in several passes: many lie in a temporary file.

    Not if they are kept `in_memory`, since they are asked for as they are.
    """

    def __init__(self, node: Node, in_memory: bool = False) -> None:
        shape, dtype = known_shape(node), known_dtype(node)
        nbytes = size_of(shape) * dtype.itemsize
        self.count = 0
        if in_memory or nbytes <= sizes.quantile_bytes // 2 or dtype.hasobject:
            self.rows = np.empty(shape, dtype)
            return
        with tempfile.TemporaryFile() as file:  # the memory that is mapped to it stays
            file.truncate(nbytes)
            self.rows = np.memmap(file, dtype, "r+", 0, shape)

    def add(self, block: np.ndarray) -> None:
        """Add the next rows."""
        self.rows[self.count : self.count + len(block)] = block
        self.count += len(block)
