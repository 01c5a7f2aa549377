"""The rows that fill up a last batch, and the mask of the real rows."""

from __future__ import annotations

import numpy as np

from dataview.batches.uneven import Batches
from dataview.index import (
    LINE,
    Array,
    Computed,
    Constant,
    Index,
    Map,
    axes_of,
    axis_index,
    renumbered,
)
from dataview.plan.build import record, select, stored
from dataview.plan.kinds import (
    Concat,
    Elementwise,
    Mapped,
    Record,
    Select,
    Stored,
    known_shape,
    members,
)
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.samplers import Cycle
from dataview.samples import NumberedSamples
from dataview.sources import ArraySource


class PaddedRows(Cycle):
    """Fills up a batch: positions past the last row start again with the first one."""

    __slots__ = ()

    def is_past(self, positions: np.ndarray) -> np.ndarray:
        """Return 1 for each position past the last row, 0 for the others."""
        return (positions >= self.count).astype(np.intp)


def valid(node: Node) -> Node:
    """Return the mask that is True for real rows and False for padding."""
    if isinstance(node, Batches):
        return Batches(valid(node.rows), node.cuts, node.index, node.nominal)
    if isinstance(node, Record) and members(node):
        return valid(next(iter(members(node).values())).node)
    truths = stored(ArraySource(np.array([True, False])), False)
    if isinstance(node, (Select, NumberedSamples, Ragged)) and node.index.maps:
        first = Index(node.index.shape, node.index.maps[:1])
        index = renumbered(first, axes_of(first.maps[0]))
        return select(truths, Index(index.shape, [_padding_of(index.maps[0])]))
    if isinstance(node, (Stored, Concat)) and node.shape:
        return select(truths, Index(node.shape[:1], [Constant(0)]))
    if isinstance(node, Mapped) and node.shape and node.node.count == node.count:
        return valid(node.node)  # it has a row for each
    if isinstance(node, Elementwise) and len(node.args) == 1:
        return valid(node.args[0])  # type: ignore[arg-type]
    raise _unmarked()


def _padding_of(map_: Map) -> Map:
    """Return the map to 1 where rows are padding, to 0 elsewhere."""
    if isinstance(map_, (Constant, Array)):
        raise _unmarked()
    here: Map = map_
    while isinstance(here, Computed):
        if isinstance(here.function, PaddedRows):
            return Computed(here.function.is_past, here.inner)
        here = here.inner
    return Constant(0)


def _unmarked() -> TypeError:
    return TypeError(
        "which rows are padding is not known of this part or of what is computed; ask the "
        "minibatches, or slices of them: minibatches[2:4]._valid()"
    )


class _Trailing(PaddedRows):
    """The rows of a batch in which only the first `count` are real."""

    __slots__ = ()

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows unchanged: the batch already contains its padding."""
        return rows


def marked(node: Node, count: int) -> Node:
    """Return a batch that knows how many of its rows are real."""
    if isinstance(node, Record):
        named = {name: marked(part.node, count) for name, part in members(node).items()}
        return record(named, node.rank)
    shape = (node.count,) if isinstance(node, Ragged) else known_shape(node)
    rows = Computed(_Trailing(count), LINE)
    found = select(node, axis_index(shape, rows, shape[0]), "the batch")
    found.lent = node.lent  # all of its rows, in their order
    return found
