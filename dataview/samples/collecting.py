"""All samples of a stream as data that can be read in any order: they lie in a temporary file.

So do samples of a function that differ in length, for what takes the lengths of all.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from dataview.compute import RaggedInFile, RowsInFile, evaluate, maker_of
from dataview.index import as_array
from dataview.index.progress import begin
from dataview.index.sizes import sizes
from dataview.plan.build import (
    at_path,
    field,
    record,
    with_fields,
)
from dataview.plan.gaps import PRESENT, knowing_masks, part_at, present_or_all, with_mask
from dataview.plan.guards import endless
from dataview.plan.kinds import Record, known_dtype, known_shape, members, size_of
from dataview.plan.node import Node
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
from dataview.sources import made_so_far, scratch_file

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
    return knowing_masks(rows).replaced(meta=node.meta)


def are_lengths_told(node: Node) -> bool:
    """Whether the lengths of samples are known without making these."""
    ragged = [part for part in below([node], _members) if isinstance(part, RaggedSamples)]
    return all(part.told_shapes(np.arange(min(1, part.count or 0))) is not None for part in ragged)


def longest(node: Node) -> np.ndarray:
    """Return the greatest length of each axis that samples lay out for themselves, by field."""
    ragged = [p for p in below([node], _members) if isinstance(p, (Ragged, RaggedSamples))]
    told = [_longest_known(part) for part in ragged]
    known = [lengths for lengths in told if lengths is not None]
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


def _longest_known(node: Node) -> np.ndarray | None:
    """Return the greatest lengths that are known without making samples, None if they are not."""
    if isinstance(node, Ragged):
        return longest_of(node)
    assert isinstance(node, RaggedSamples)
    shapes = node.told_shapes(np.arange(node.count or 0))
    return None if shapes is None else shapes.max(axis=0, initial=0)


def longest_of(node: Ragged) -> np.ndarray:
    """Return the greatest length of each axis that rows lay out, and that rows inside them do."""
    inner = node.values
    if isinstance(inner, Ragged):
        places, layout = node.chosen()
        own = layout.lengths().max(axis=0, initial=0)
        return np.concatenate([own, longest_of(inner.rows(places))])
    found: np.ndarray = np.maximum.reduce(lengths_of_axes(node), initial=0)
    return found


def lengths_of_axes(node: Ragged) -> np.ndarray:
    """Return the lengths of all axes that each row lays out, an array of two axes."""
    shapes = node.layout.shapes
    if shapes is None:
        return node.spans()[1][:, None]
    return shapes[as_array(node.numbers())]  # type: ignore[no-any-return]


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
    if isinstance(node, (Ragged, RaggedSamples)):
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
            path: _column(like, files.enter_context(scratch_file()), path)
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
    # A field beside a field tells which samples lack it, but not which elements of one are missing.
    is_of_elements = bool(sample.shape) and not isinstance(sample, AnyLength)
    if sample.has_gaps and (not path or is_of_elements):
        yield (*path, PRESENT), present_or_all(sample)


def _node(sample: Node, path: Path, columns: Mapping[Path, _Column | _RaggedColumn]) -> Node:
    if isinstance(sample, Record):
        parts = {
            name: _node(field(sample, name), (*path, name), columns) for name in members(sample)
        }
        whole = record(parts, 1)
        return knowing_masks(whole).replaced(meta=sample.meta)
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
    """One field of all samples."""

    def __init__(self, like: Node, file: Any, path: Path) -> None:
        self.like = like
        self.path = path
        self.rows = RowsInFile(known_shape(like), known_dtype(like), file)

    def add(self, rows: Sequence[Row]) -> None:
        """Add a field of some samples."""
        if are_rows(rows):
            self.rows.add(evaluate(part_at(together(rows), self.path)))
            return
        samples = (part_at(row.sample(), self.path) for row in rows)
        self.rows.add(block_of(samples, len(rows), self.like, self.rows.count, self.path))

    @property
    def nbytes(self) -> int:
        """The bytes of the samples that were added last."""
        return self.rows.nbytes

    def node(self) -> Node:
        """Return all samples as data."""
        return self.rows.node()


class _RaggedColumn:
    """A field that differs in length."""

    def __init__(self, like: AnyLength, file: Any, path: Path) -> None:
        self.like = like
        self.path = path
        self.named = f", field {'.'.join(path)!r}" if path else ""
        inner = like
        while inner.row is not None:
            inner = inner.row
        values = RowsInFile(inner.rest, known_dtype(like), file)
        self.rows = RaggedInFile(levels_of(like), values, evaluate)
        self.count = 0

    def add(self, rows: Sequence[Row]) -> None:
        """Add a field of some samples."""
        like, first = self.like, self.count
        samples = [made_sample(at_path(row.sample(), self.path)) for row in rows]
        found = [fitted(s, like, f"sample {first + n}{self.named}") for n, s in enumerate(samples)]
        self.rows.add(in_rows(samples, found, like))
        self.count += len(samples)

    @property
    def nbytes(self) -> int:
        """The bytes of the samples that were added last."""
        return self.rows.values.nbytes

    def node(self) -> Node:
        """Return all samples as ragged rows."""
        return self.rows.node()
