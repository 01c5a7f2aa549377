"""Rows that functions make for several nodes: read in one pass, each made once; what keeps them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from dataview.compute.ways import (
    Cut,
    have_makers_in_common,
    makers_of,
    parts_of,
    rows_of_request,
)
from dataview.index import is_endless
from dataview.index.flat import shaped
from dataview.index.sizes import sizes
from dataview.plan.build import stored
from dataview.plan.gaps import present_or_all, with_mask
from dataview.plan.kinds import Extents, Sampled, known_dtype, known_shape, size_of
from dataview.plan.node import DType, Evaluate, Node, Shape
from dataview.plan.ragged import Ragged
from dataview.sources import ArraySource, Made, Memo, made_so_far, making, scratch_file


def is_made_of_rows(node: Node) -> bool:
    """Whether a node has rows that functions make, which are read in blocks of rows."""
    if isinstance(node, Sampled) or not known_shape(node) or not makers_of(node):
        return False
    return not parts_of(node)[0].across


def is_made_ragged(node: Node) -> bool:
    """Whether a node has rows that differ in length, and that functions make."""
    if not isinstance(node, Sampled) or not node.is_of_arrays:
        return False
    return node.count is not None and not is_endless(node.count) and bool(makers_of(node))


def are_made_together(node: Node, other: Node) -> bool:
    """Whether two nodes have as many rows, and functions make those of both."""
    if not all(is_made_of_rows(one) or is_made_ragged(one) for one in (node, other)):
        return False
    return node.count == other.count and have_makers_in_common([node, other])


def blocks_made(nodes: Sequence[Node], evaluate: Evaluate) -> Iterator[tuple[int, Any]]:
    """Yield the number of a node, and a block of it in which its statistics are computed.

    Those of rows that differ in length are rows in memory.  What functions make of some rows is
    remembered until all nodes have read these.
    """
    count, step = nodes[0].count or 0, rows_of_request(nodes)
    outer = made_so_far() if count <= step else None  # a larger request remembers too much
    parts = [None if isinstance(node, Sampled) else _Parts(node) for node in nodes]
    is_ragged = None in parts
    start, size = 0, 1 if is_ragged else step
    while True:
        cut = Cut(0, start, min(start + size, count))
        memo: Memo = {"roots": tuple(node for node in nodes if not isinstance(node, Sampled))}
        with making(outer or Made()):
            found = [_rows_made(node, cut, evaluate, memo) for node in nodes]
        for number, (own, rows) in enumerate(zip(parts, found, strict=True)):
            yield from (
                (number, block) for block in ([rows] if own is None else own.completed(rows))
            )
        start = cut.stop
        if start == count:
            return
        if is_ragged:  # they may be large: those before tell how large they are
            each = sum(rows.size * rows.dtype.itemsize for rows in found) // size
            size = min(step, 2 * size, 1 + sizes.part_bytes // max(1, each))


def _rows_made(node: Node, cut: Cut, evaluate: Evaluate, memo: Memo) -> Any:
    if isinstance(node, Sampled):
        return cast(Any, node).rows(np.arange(cut.start, cut.stop))
    return evaluate(node, cut.within(known_shape(node)), memo)


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
        with scratch_file(nbytes) as file:  # the memory that is mapped to it stays
            self.rows = np.memmap(file, dtype, "r+", 0, shape)

    def add(self, block: np.ndarray) -> None:
        """Add the next rows."""
        self.rows[self.count : self.count + len(block)] = block
        self.count += len(block)

    def node(self) -> Node:
        """Return the rows as data."""
        return stored(ArraySource(self.rows), False)


class RowsInFile:
    """Rows of one shape, however many there will be, in a file; objects stay in memory.

    `nbytes` are those that were added last.
    """

    def __init__(self, shape: Shape, dtype: DType, file: Any) -> None:
        self.shape = shape
        self.dtype = dtype
        self.file = file
        self.count = 0
        self.nbytes = 0
        self.objects: list[np.ndarray] = []

    def add(self, block: np.ndarray) -> None:
        """Add the next rows."""
        self.count += len(block)
        self.nbytes = block.nbytes
        if block.dtype.hasobject:
            self.objects.append(block)
        else:
            self.file.write(block.tobytes())

    def node(self) -> Node:
        """Return the rows as data, which stay when the file is closed."""
        return stored(ArraySource(self._array()), False)

    def _array(self) -> np.ndarray:
        shape, dtype = (self.count, *self.shape), self.dtype
        if dtype.hasobject:
            return np.concatenate([np.empty((0, *self.shape), dtype), *self.objects], dtype=dtype)
        if not size_of(shape) * dtype.itemsize:  # an empty file cannot be mapped
            return np.empty(shape, dtype)
        self.file.flush()
        return np.asarray(np.memmap(self.file, dtype, "r", 0, shape))


class RaggedInFile:
    """Rows that differ in length: their values in a file, the lengths in memory.

    `levels` are the axes that rows lay out, those that rows inside them do, and so on.
    """

    def __init__(self, levels: list[Extents], values: RowsInFile, evaluate: Evaluate) -> None:
        self.levels = levels
        self.values = values
        self.evaluate = evaluate
        self.lengths: list[list[np.ndarray]] = [[] for _ in levels]
        self.there: list[list[np.ndarray]] = [[] for _ in levels[1:]]  # which lists in lists
        self.masks: list[np.ndarray] = []  # of the values, once some of these are missing

    @classmethod
    def like(cls, rows: Ragged, file: Any, evaluate: Evaluate) -> RaggedInFile:
        """Return what keeps rows that are like these."""
        levels, values = [rows.layout.axes], rows.values
        while isinstance(values, Ragged):
            levels.append(values.layout.axes)
            values = values.values
        kept = RowsInFile(known_shape(values)[1:], known_dtype(values), file)
        return cls(levels, kept, evaluate)

    def add(self, rows: Ragged) -> None:
        """Add the next rows."""
        values: Node = rows
        for depth, lengths in enumerate(self.lengths):
            assert isinstance(values, Ragged)
            lengths.append(values.layout.lengths())
            if depth:
                self.there[depth - 1].append(values.layout.there())
            values = values.values
        if self.masks or values.has_gaps:
            none = np.ones((self.values.count, *self.values.shape), bool)
            self.masks += [*([] if self.masks else [none]), self.evaluate(present_or_all(values))]
        self.values.add(self.evaluate(values))

    def node(self) -> Ragged:
        """Return the rows, whose values stay when the file is closed."""
        found: Any = self.values.node()
        if self.masks:
            found = with_mask(found, stored(ArraySource(np.concatenate(self.masks)), False))
        levels = zip(self.levels, self.lengths, [[], *self.there], strict=True)
        for axes, lengths, there in reversed([*levels]):
            none = np.empty((0, len(axes)), np.intp)
            layout = shaped(np.concatenate([none, *lengths]), axes)
            found = Ragged(found, layout.lacking(np.concatenate(there) if there else None))
        return found  # type: ignore[no-any-return]
