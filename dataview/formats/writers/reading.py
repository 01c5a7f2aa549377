"""The arrays that are saved together, read block by block: what makes their rows is asked once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from dataview.compute import (
    evaluate,
    grid_of_rows,
    have_makers_in_common,
    making_together,
    rows_of_request,
    table_of,
)
from dataview.formats.field_tree import Leaf
from dataview.formats.tables import ColumnSource
from dataview.index import block_index, compose, identity
from dataview.index.interrupts import held_interrupt
from dataview.index.progress import begin
from dataview.index.sizes import sizes
from dataview.plan.build import record
from dataview.plan.kinds import Record, Stored, known_dtype, known_shape, members, size_of
from dataview.plan.node import Node
from dataview.samples import Stream, collected, with_lengths
from dataview.sources import Memo, forgetting

Key: TypeAlias = tuple[slice, ...]
"""Which part of an array a block is; the blocks of an array come in C order."""

Put: TypeAlias = Callable[[Leaf, Key, np.ndarray], Any]
"""Writes a block of an array."""


LONGEST_CHUNK = 1 << 20
SHORTEST_CHUNK = 1 << 14
"""Bytes of the chunks in which arrays are stored: short arrays may grow."""


MOST_UNITS = 2
"""A block may be so many times larger to end where chunks end that are read and written."""


def without_streams(node: Node) -> Node:
    """Return a node with the samples of its streams as data; they are read side by side, once.

    So are samples of functions that differ in length.
    """
    return with_lengths(_without_streams(node))


def _without_streams(node: Node) -> Node:
    if _is_of_streams(node):
        return collected(_side_by_side(node) if isinstance(node, Record) else node)
    if isinstance(node, Record):
        parts = {name: part.node for name, part in members(node).items()}
        found = {name: _without_streams(part) for name, part in parts.items()}
        if any(found[name] is not part for name, part in parts.items()):
            return record(found, node.rank).replaced(meta=node.meta)
    return node


def _is_of_streams(node: Node) -> bool:
    if isinstance(node, Record):
        return bool(node.fields) and all(
            _is_of_streams(part.node) for part in members(node).values()
        )
    return isinstance(node, Stream)


def _side_by_side(node: Node) -> Node:
    """Return the stream of records of what one sample of each stream is."""

    def one(part: Node) -> Node:
        if isinstance(part, Record):
            return record({name: one(inner.node) for name, inner in members(part).items()}, 0)
        first.append(part)
        return part.one  # type: ignore[attr-defined,no-any-return]

    first: list[Any] = []
    rows = one(node)
    found: Node = first[0].of_rows(rows)
    return found


class Reading:
    """How arrays are read to be saved; those that one function makes are read in one pass."""

    def __init__(self, leaves: Sequence[Leaf], progress: Any = None) -> None:
        self.groups = list(_groups(leaves))
        self.memo: Memo | None = None
        self.task = begin("saving", sum(map(_bytes_of, leaves)), "B", progress)

    def read(self, put: Put, steps: Callable[[Leaf], int] = lambda leaf: 1) -> None:
        """Hand out all blocks; each is of a multiple of `steps(leaf)` rows, but for the last."""
        for group in self.groups:
            self.read_group(group, put, steps)

    def read_group(
        self, group: Sequence[Leaf], put: Put, steps: Callable[[Leaf], int] = lambda leaf: 1
    ) -> None:
        """Hand out the blocks of the arrays of one pass."""
        if len(group) == 1:
            (leaf,) = group
            node, chunk = leaf.node, _rows_of_chunks(leaf.node)
            for key in keys_of(known_shape(node), known_dtype(node), steps(leaf), chunk):
                self._hand_out(leaf, key, put)
            return
        nodes = [leaf.node for leaf in group]
        if not have_makers_in_common(nodes):
            self._side_by_side(group, put, steps)
            return
        count = known_shape(nodes[0])[0]
        with making_together(nodes):
            most = rows_of_request(nodes)
            together = max((step for leaf in group if (step := steps(leaf)) <= most), default=1)
            rows = max(1, most // together) * together
            for start in forgetting(range(0, count, rows)):
                for leaf in group:
                    self._hand_out(leaf, (slice(start, min(count, start + rows)),), put)

    def _side_by_side(self, group: Sequence[Leaf], put: Put, steps: Callable[[Leaf], int]) -> None:
        """Hand out arrays of one table, of each about as large a share: its lines are read once."""
        ends = {leaf.at: _ends_of_parts(leaf.node) for leaf in group}
        parts = max(len(own) - 1 for own in ends.values())  # which need not fit into memory
        count = max(parts, -(-sum(map(_bytes_of, group)) // sizes.block_bytes))
        done = dict.fromkeys([leaf.at for leaf in group], 0)
        for number in range(1, count + 1):
            self.begin(group)
            for leaf in group:
                (length, *_), step = known_shape(leaf.node), steps(leaf)
                own = ends[leaf.at]
                share = own[parts * number // count] if own else length * number // count
                stop = length if number == count else share // step * step
                if stop > done[leaf.at]:
                    self._hand_out(leaf, (slice(done[leaf.at], stop),), put)
                    done[leaf.at] = stop

    def begin(self, leaves: Iterable[Leaf]) -> None:
        """Begin to read arrays: what is read of a table for others of them is kept until then."""
        roots = tuple(leaf.node for leaf in leaves if table_of(leaf.node) is not None)
        self.memo = {"roots": roots} if roots else None

    def _hand_out(self, leaf: Leaf, key: Key, put: Put) -> None:
        block = self.block(leaf, key)
        with held_interrupt():  # a library would go on in its own threads, or fail in C
            put(leaf, key, block)

    def block(self, leaf: Leaf, key: Key) -> np.ndarray:
        """Return a part of an array."""
        node = leaf.node
        index = identity(known_shape(node))
        for axis, part in enumerate(key):
            index = compose(index, block_index(index.shape, part.start, part.stop, axis))
        block = np.asarray(evaluate(node, index, self.memo))
        if block.shape != index.shape:
            raise RuntimeError(f"rows of shape {index.shape} were evaluated as {block.shape}")
        # Only the byte order may differ: the dtype has been promised.
        block = block.astype(known_dtype(node), order="C", casting="equiv", copy=False)
        self.task.advance(block.nbytes)
        return block


def _groups(leaves: Sequence[Leaf]) -> Iterator[list[Leaf]]:
    """Return the arrays that are read in one pass: of one length, and with a maker in common.

    Those of one table whose lines are passed over for each of them are of any length.
    """
    alike: dict[Any, list[Leaf]] = {}
    tables: dict[Any, list[Leaf]] = {}
    for leaf in leaves:
        shape, table = known_shape(leaf.node), table_of(leaf.node)
        if table is not None and shape:
            tables.setdefault(table, []).append(leaf)
        else:
            alike.setdefault(shape[0] if shape else None, []).append(leaf)
    yield from tables.values()
    for count, group in alike.items():
        if count is not None and have_makers_in_common([leaf.node for leaf in group]):
            yield group
        else:
            yield from ([leaf] for leaf in group)


def _ends_of_parts(node: Node) -> Sequence[int]:
    """Return where the parts of the files begin, and where they end, that an array lies in."""
    source = node.source if isinstance(node, Stored) else None
    if not isinstance(source, ColumnSource) or len(source.starts) - 1 != len(source.part_rows):
        return ()
    ends: list[int] = source.starts.tolist()
    return ends


def _rows_of_chunks(node: Node) -> int:
    """Return how many rows have the chunks that a node is read from, if a block has room for them.

    In shorter blocks each chunk would be read several times.
    """
    grid = grid_of_rows(node, 1)
    return 1 if grid.across else grid.step


def keys_of(
    shape: Sequence[int], dtype: np.dtype[Any], step: int = 1, chunk: int = 1
) -> Iterator[Key]:
    """Yield the parts of an array in C order, each of about as many bytes as a block has.

    Those of rows have a multiple of `step` rows, and no fewer than `chunk`; of that a multiple,
    too, if both have room.

    >>> list(keys_of((), np.dtype("f4"))), len(list(keys_of((3, 1 << 30), np.dtype("u1"))))
    ([()], 768)
    """
    if not shape:
        yield ()
        return
    if not size_of(tuple(shape)) or not dtype.itemsize:
        return
    axis, each = _cut(shape, dtype, sizes.block_bytes)
    if axis == 0:
        both = math.lcm(step, chunk)
        unit = both if both <= MOST_UNITS * max(each, chunk) else step
        each = -(-max(each, chunk) // unit) * unit
    for front in itertools.product(*map(range, shape[:axis])):
        for start in range(0, shape[axis], each):
            last = slice(start, min(shape[axis], start + each))
            yield (*(slice(one, one + 1) for one in front), last)


def _cut(shape: Sequence[int], dtype: np.dtype[Any], most: int) -> tuple[int, int]:
    """Return the first axis of which one step has no more bytes, and how many steps these are."""
    axis, size = 0, dtype.itemsize * size_of(tuple(shape[1:]))
    while size > most and axis < len(shape) - 1:
        axis += 1
        size //= max(1, shape[axis])
    return axis, max(1, most // max(1, size))


def chunk_of(shape: Sequence[int], dtype: np.dtype[Any], chunks: Any = None) -> tuple[int, ...]:
    """Return the shape of the chunks in which an array is stored: whole rows, about 1 MB.

    >>> chunk_of((1_000_000, 64), np.dtype("f4")), chunk_of((9, 64), np.dtype("f4"))
    ((4096, 64), (64, 64))
    """
    if not shape:
        return ()
    full = tuple(max(1, length) for length in shape)
    if chunks is not None:
        given = (chunks,) if isinstance(chunks, int) else tuple(chunks)
        return (*given, *full[len(given) :])[: len(full)]
    axis, most = _cut(full, dtype, LONGEST_CHUNK)
    least = max(1, min(most, SHORTEST_CHUNK * most // LONGEST_CHUNK)) if axis == 0 else 1
    return (*(1,) * axis, max(least, min(most, full[axis])), *full[axis + 1 :])


def _bytes_of(leaf: Leaf) -> int:
    return size_of(known_shape(leaf.node)) * known_dtype(leaf.node).itemsize
