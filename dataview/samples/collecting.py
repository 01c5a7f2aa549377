"""All samples of a stream as data that can be read in any order: they lie in a temporary file."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from dataview.plan.build import at_path, field, record, stored, with_fields
from dataview.plan.guards import endless
from dataview.plan.kinds import Record, known_dtype, known_shape, members, size_of
from dataview.plan.node import Node
from dataview.samples.in_order import block_of
from dataview.samples.streams import Stream
from dataview.sizes import sizes
from dataview.sources import ArraySource

Path = tuple[str, ...]


def collected(node: Node) -> Node:
    """Return the samples of a stream as data, reading them once; any other node as it is.

    What is asked of all its samples then needs no more than a block of them in memory.
    """
    if not isinstance(node, Stream) or node.sample is None:
        return node
    if node.samples.endless:
        raise endless("reading all samples")
    leaves = dict(_leaves(node.sample, ()))
    row = sum(size_of(known_shape(like)) * known_dtype(like).itemsize for like in leaves.values())
    size = max(1, sizes.part_bytes // max(1, row))
    passing = node.samples.iterate()
    with contextlib.ExitStack() as files:
        columns = {
            path: _Column(like, files.enter_context(tempfile.TemporaryFile()))
            for path, like in leaves.items()
        }
        while found := list(itertools.islice(passing, size)):
            for path, column in columns.items():
                parts = (at_path(sample, path) for sample in found)
                column.add(block_of(parts, len(found), column.like))
        return _node(node.sample, (), columns)


def _leaves(sample: Node, path: Path) -> Iterator[tuple[Path, Node]]:
    if isinstance(sample, Record):
        for name in members(sample):
            yield from _leaves(field(sample, name), (*path, name))
    else:
        yield path, sample


def _node(sample: Node, path: Path, columns: dict[Path, _Column]) -> Node:
    if isinstance(sample, Record):
        parts = {
            name: _node(field(sample, name), (*path, name), columns) for name in members(sample)
        }
        return record(parts, 1)
    rows = stored(ArraySource(columns[path].array()), False)
    windows = sample.fields.windows_only(1, lambda axis: True)
    return with_fields(rows, windows) if windows.named else rows


class _Column:
    """One field of all samples, in a file; objects, which a file cannot hold, stay in memory."""

    def __init__(self, like: Node, file: Any) -> None:
        self.like = like
        self.file = file
        self.count = 0
        self.objects: list[np.ndarray] = []

    def add(self, block: np.ndarray) -> None:
        """Add some samples."""
        self.count += len(block)
        if block.dtype.hasobject:
            self.objects.append(block)
        else:
            self.file.write(block.tobytes())

    def array(self) -> np.ndarray:
        """Return all samples as an array, which stays when the file is closed."""
        shape, dtype = (self.count, *known_shape(self.like)), known_dtype(self.like)
        if dtype.hasobject or not size_of(shape) * dtype.itemsize:
            return np.concatenate([np.empty((0, *shape[1:]), dtype), *self.objects])
        self.file.flush()
        return np.asarray(np.memmap(self.file, dtype, "r", 0, shape))
