"""All samples of a stream as data that can be read in any order: they lie in a temporary file.

So do samples of a function that differ in length, for what takes the lengths of all.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from dataview.compute import evaluate, maker_of
from dataview.index.flat import shaped
from dataview.index.progress import begin
from dataview.index.sizes import sizes
from dataview.plan.build import at_path, field, record, stored, with_fields
from dataview.plan.gaps import knowing, with_mask
from dataview.plan.guards import endless
from dataview.plan.kinds import Record, known_dtype, known_shape, members, size_of
from dataview.plan.node import Node
from dataview.plan.present import PRESENT, part_at, present_or_all
from dataview.plan.ragged import Ragged
from dataview.plan.walk import below
from dataview.samples.arriving import Row, are_rows, sample_at, together
from dataview.samples.in_order import block_of
from dataview.samples.metadata import noted_as
from dataview.samples.numbered import RaggedSamples, likeness_of, made_sample
from dataview.samples.once import of_one_call
from dataview.samples.ragged import (
    AnyLength,
    fitted,
    in_rows,
    is_unlike,
    levels_of,
    without_data,
)
from dataview.samples.streams import Stream, arriving, samples_of
from dataview.sources import ArraySource, made_so_far

RAGGED_BYTES = 1 << 12
"""What a sample of unknown length is taken for, where samples are counted out by their size."""

REMEMBERED = 1 << 10
"""So many samples are remembered, in a request, from when their lengths were looked at."""

Path = tuple[str, ...]


def collected(node: Node) -> Node:
    """Return the samples of a stream as data, reading them once; any other node as it is.

    What is asked of all its samples then needs no more than a block of them in memory.
    """
    if not isinstance(node, Stream) or node.sample is None:
        return node
    if node.samples.endless:
        raise endless("reading all samples")
    return _collected(node, noted_as(node.sample, node))


def known_lengths(node: Any) -> AnyLength | None:
    """Return what is known of samples that differ in length, None for any others."""
    like = node.sample if isinstance(node, Stream) else None
    like = node.like if isinstance(node, RaggedSamples) else like
    return like if isinstance(like, AnyLength) else None


def is_ragged(node: Any) -> bool:
    """Whether a node has rows that differ in length, which may be made one by one."""
    return isinstance(node, Ragged) or known_lengths(node) is not None


def with_lengths(node: Node) -> Node:
    """Return samples that differ in length as rows whose lengths are known, any other node as is.

    All of them are made to find out, each once for all its fields.
    """
    if isinstance(node, Stream):
        return collected(node) if node.sample is not None and is_unlike(node.sample) else node
    if isinstance(node, RaggedSamples):
        return node.probed() if node.count is None else _collected(node, node.like)
    if not isinstance(node, Record) or not any(map(known_lengths, below([node], _members))):
        return node
    parts = {name: part.node for name, part in members(cast(Record, of_one_call(node))).items()}
    if not node.rank:
        return record({name: with_lengths(part) for name, part in parts.items()}, 0)
    made = {name: part for name, part in parts.items() if _is_made(part)}
    whole = record(made, node.rank)
    found = members(cast(Record, _collected(whole, _like(whole))))
    parts = {n: found[n].node if n in made else part for n, part in parts.items()}
    rows = record(parts, node.rank)
    return rows.replaced(fields=knowing(rows.fields), meta=node.meta)


def longest(node: Node) -> np.ndarray:
    """Return the greatest length of each axis that samples lay out for themselves, by field."""
    ragged = [part for part in below([node], _members) if isinstance(part, RaggedSamples)]
    told = [part.told_shapes(np.arange(part.count or 0)) for part in ragged]
    known = [shapes.max(axis=0, initial=0) for shapes in told if shapes is not None]
    if known and len(known) == len(ragged):
        return np.concatenate(known)
    leaves = [
        (path, like) for path, like in _leaves(_like(node), ()) if isinstance(like, AnyLength)
    ]
    found = np.zeros(sum(len(axes) for _, like in leaves for axes in levels_of(like)), np.intp)
    count, made = node.count or 0, made_so_far()
    is_remembered = made is not None and count <= REMEMBERED
    samples = (sample_at(node, n) for n in range(count)) if is_remembered else samples_of(node)
    for number, sample in enumerate(samples):
        own: list[int] = []
        for path, like in leaves:
            own += _lengths_in(fitted(at_path(sample, path), like, f"sample {number}"), like)
        np.maximum(found, own, out=found)
    return found


def _lengths_in(sample: np.ndarray, like: AnyLength) -> list[int]:
    """Return the lengths that a sample lays out, of those of its rows the greatest."""
    if like.row is None:
        return list(sample.shape[: len(like.axes)])
    rows = [_lengths_in(row, like.row) for row in sample]
    none = [0] * sum(map(len, levels_of(like.row)))
    return [len(sample), *map(max, zip(none, *rows, strict=True))]


def _members(part: Any) -> list[Any]:
    return part.attached() if isinstance(part, Record) else []


def _is_made(node: Node) -> bool:
    return any(maker_of(part) is not None for part in below([node]))


def _like(node: Node) -> Node:
    """Return what is known of a sample of a node, as a node without data."""
    if isinstance(node, Record):
        parts = {name: _like(part.node) for name, part in members(node).items()}
        return record(parts, 0).replaced(meta=node.meta)
    if isinstance(node, RaggedSamples):
        return likeness_of(node)
    if node.shape is None or node.dtype is None:
        return node
    return without_data(node.shape[1:], node.dtype).replaced(meta=node.meta)


def _collected(node: Node, like: Node) -> Node:
    """Return samples as data, reading them once; `like` is what is known of each."""
    leaves = dict(_leaves(like, ()))
    size = max(1, sizes.part_bytes // max(1, sum(map(_row_bytes, leaves.values()))))
    passing = arriving(node)
    with begin("reading", node.count) as task, contextlib.ExitStack() as files:
        columns = {
            path: _column(like, files.enter_context(tempfile.TemporaryFile()), path)
            for path, like in leaves.items()
        }
        count = 1
        while found := list(itertools.islice(passing, count)):
            for column in columns.values():
                column.add(found)
            task.advance(len(found))
            # Samples that differ in length may be large: those before tell how large they are.
            mean = sum(column.nbytes for column in columns.values()) // len(found)
            count = min(size, 2 * count, 1 + sizes.part_bytes // max(1, mean))
        return _node(like, (), columns)


def _row_bytes(like: Node) -> int:
    if isinstance(like, AnyLength):
        return RAGGED_BYTES
    return size_of(known_shape(like)) * known_dtype(like).itemsize


def _leaves(sample: Node, path: Path) -> Iterator[tuple[Path, Node]]:
    if isinstance(sample, Record):
        for name in members(sample):
            yield from _leaves(field(sample, name), (*path, name))
        return
    yield path, sample
    if sample.has_gaps and not path:  # those of a field are told by a field beside it
        yield (*path, PRESENT), present_or_all(sample)


def _node(sample: Node, path: Path, columns: Mapping[Path, _Column | _RaggedColumn]) -> Node:
    if isinstance(sample, Record):
        parts = {
            name: _node(field(sample, name), (*path, name), columns) for name in members(sample)
        }
        whole = record(parts, 1)
        return whole.replaced(fields=knowing(whole.fields), meta=sample.meta)
    rows = columns[path].node().replaced(meta=sample.meta)
    if (*path, PRESENT) in columns:
        rows = with_mask(rows, columns[*path, PRESENT].node())
    windows = sample.fields.windows_only(1, lambda axis: True)
    return with_fields(rows, windows) if windows.named else rows


def _column(like: Node, file: Any, path: Path) -> _Column | _RaggedColumn:
    if isinstance(like, AnyLength):
        return _RaggedColumn(like, file, path)
    return _Column(like, file, path)


class _Column:
    """One field of all samples, in a file; objects, which a file cannot hold, stay in memory.

    `nbytes` are those of the samples that were added last.
    """

    def __init__(self, like: Node, file: Any, path: Path) -> None:
        self.like = like
        self.file = file
        self.path = path
        self.count = 0
        self.nbytes = 0
        self.objects: list[np.ndarray] = []

    def add(self, rows: Sequence[Row]) -> None:
        """Add a field of some samples."""
        if are_rows(rows):
            self.add_block(evaluate(part_at(together(rows), self.path)))
            return
        samples = (part_at(row.sample(), self.path) for row in rows)
        self.add_block(block_of(samples, len(rows), self.like, self.count, self.path))

    def add_block(self, block: np.ndarray) -> None:
        """Add the data of some samples."""
        self.count += len(block)
        self.nbytes = block.nbytes
        if block.dtype.hasobject:
            self.objects.append(block)
        else:
            self.file.write(block.tobytes())

    def node(self) -> Node:
        """Return all samples as data, which stay when the file is closed."""
        return stored(ArraySource(self._array()), False)

    def _array(self) -> np.ndarray:
        shape, dtype = (self.count, *known_shape(self.like)), known_dtype(self.like)
        if dtype.hasobject:
            return np.concatenate([np.empty((0, *shape[1:]), dtype), *self.objects], dtype=dtype)
        if not size_of(shape) * dtype.itemsize:  # an empty file cannot be mapped
            return np.empty(shape, dtype)
        self.file.flush()
        return np.asarray(np.memmap(self.file, dtype, "r", 0, shape))


class _RaggedColumn:
    """A field that differs in length: its values in a file, the lengths of its rows in memory."""

    def __init__(self, like: AnyLength, file: Any, path: Path) -> None:
        self.likes = [like]
        self.named = f", field {'.'.join(path)!r}" if path else ""
        while (row := self.likes[-1].row) is not None:
            self.likes.append(row)
        self.lengths: list[list[np.ndarray]] = [[] for _ in self.likes]
        self.there: list[list[np.ndarray]] = [[] for _ in self.likes[1:]]  # which lists in lists
        self.values = _Column(without_data(self.likes[-1].rest, known_dtype(like)), file, path)
        self.masks: list[np.ndarray] = []  # of the values, once some of these are missing
        self.count = 0

    def add(self, rows: Sequence[Row]) -> None:
        """Add a field of some samples."""
        like, first = self.likes[0], self.count
        samples = [made_sample(at_path(row.sample(), self.values.path)) for row in rows]
        found = [fitted(s, like, f"sample {first + n}{self.named}") for n, s in enumerate(samples)]
        values: Node = in_rows(samples, found, like)
        for depth, lengths in enumerate(self.lengths):
            assert isinstance(values, Ragged)
            lengths.append(values.layout.lengths())
            if depth:
                self.there[depth - 1].append(values.layout.there())
            values = values.values
        if self.masks or values.has_gaps:
            none = [] if self.masks else [np.ones((self.values.count, *self.likes[-1].rest), bool)]
            self.masks += [*none, evaluate(present_or_all(values))]
        self.values.add_block(evaluate(values))
        self.count += len(samples)

    @property
    def nbytes(self) -> int:
        """The bytes of the samples that were added last."""
        return self.values.nbytes

    def node(self) -> Node:
        """Return all samples as ragged rows, whose values stay when the file is closed."""
        found = self.values.node()
        if self.masks:
            found = with_mask(found, stored(ArraySource(np.concatenate(self.masks)), False))
        levels = zip(self.likes, self.lengths, [[], *self.there], strict=True)
        for like, lengths, there in reversed([*levels]):
            none = np.empty((0, len(like.axes)), np.intp)
            layout = shaped(np.concatenate([none, *lengths]), like.axes)
            found = Ragged(found, layout.lacking(np.concatenate(there) if there else None))
        return found
