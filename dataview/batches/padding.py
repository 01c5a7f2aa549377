"""The rows that fill up a last batch, and the mask of the real rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
from dataview.plan.build import elementwise, record, select, stored
from dataview.plan.kinds import (
    Concat,
    Elementwise,
    Mapped,
    Record,
    Reduction,
    Select,
    Stored,
    known_shape,
    members,
)
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.plan.walk import below
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
    return _marks_of(node).mask


class _Marks(NamedTuple):
    """Which rows are real, and the axes along which these stand."""

    mask: Node
    axes: tuple[int, ...]


def _marks_of(node: Node) -> _Marks:
    if isinstance(node, Record) and members(node):
        return _marks_of(next(iter(members(node).values())).node)
    if isinstance(node, Elementwise):
        return _of_arguments(node)
    if isinstance(node, Reduction):
        return _of_statistic(node)
    if isinstance(node, Mapped) and node.shape and node.node.count == node.count:
        return _of_rows(node.node)
    if isinstance(node, (Stored, Concat)) and node.shape:
        return _Marks(select(_truths(), Index(node.shape[:1], [Constant(0)])), (0,))
    if isinstance(node, (Select, NumberedSamples, Ragged)) and node.index.maps:
        return _of_index(node)
    raise _unmarked()


def _truths() -> Node:
    """Return what a mask is selected from: the truth about rows, and about padding."""
    return stored(ArraySource(np.array([True, False])), False)


def _of_rows(node: Node) -> _Marks:
    """Return the marks of what has a row for each row of a node."""
    marks = _marks_of(node)
    if marks.axes != (0,):
        raise _unmarked()
    return marks


def _of_index(node: Select | NumberedSamples | Ragged) -> _Marks:
    """Return the marks of what an index selects, of data or of what is computed."""
    inner = getattr(node, "node", None)
    if isinstance(node, Ragged):
        if any(isinstance(part, Select) for part in below([node.leaf()])):
            raise _unmarked()  # its values may be those of rows that fill up a batch
    elif inner is not None and not isinstance(inner, (Stored, Concat)):
        within = _marks_of(inner)
        index, axes = _along(node.index, within.axes)
        mask = select(within.mask, index)
        if within.axes != (0,):
            return _Marks(mask, axes)
        return _all_of([_Marks(mask, axes), _Marks(_of_map(index), axes)])
    index, axes = _along(node.index, (0,))
    return _Marks(_of_map(index), axes)


def _along(index: Index, rows: tuple[int, ...]) -> tuple[Index, tuple[int, ...]]:
    """Return the part of an index on the axes of rows, and the axes that it has of the view's."""
    maps = [index.maps[axis] for axis in rows]
    axes = tuple(sorted({axis for one in maps for axis in axes_of(one)}))
    return renumbered(Index(index.shape, maps), axes), axes


def _of_map(index: Index) -> Node:
    """Return the mask of an index on rows alone."""
    return select(_truths(), Index(index.shape, [_padding_of(index.maps[0])]))


def _of_statistic(node: Reduction) -> _Marks:
    """Return the marks of a statistic of each row, along axes that are none of rows."""
    marks = _marks_of(node.node)
    if not set(marks.axes).isdisjoint(node.axes):
        raise _unmarked()
    gone = () if node.keepdims else node.axes
    more = len(known_shape(node)) - len(known_shape(node.node)) + len(gone)  # of several quantiles
    axes = [axis - sum(one < axis for one in gone) + more for axis in marks.axes]
    return _Marks(marks.mask, tuple(axes))


def _of_arguments(node: Elementwise) -> _Marks:
    """Return the marks of what is computed of several: a row is real if it is in all of them.

    What has another shape is one for all rows or all columns, where there is what has this one.
    """
    nodes = [arg for arg in node.args if isinstance(arg, Node)]
    nodes = [arg for arg in nodes if not isinstance(arg, Reduction)] or nodes
    others = [arg for arg in nodes if not isinstance(arg, (Stored, Concat))] or nodes
    alike = [arg for arg in others if arg.shape == node.shape]
    return _all_of([_broadcast(_marks_of(arg), arg, node) for arg in alike or others])


def _broadcast(marks: _Marks, arg: Node, node: Node) -> _Marks:
    """Return the marks of an argument, with their axes in the result."""
    more = len(known_shape(node)) - len(known_shape(arg))
    return _Marks(marks.mask, tuple([axis + more for axis in marks.axes]))


def _all_of(several: Sequence[_Marks]) -> _Marks:
    """Return the marks of what is real where all say so."""
    if not several:
        raise _unmarked()
    first, *more = several
    mask = first.mask
    for other in more:
        if other.axes != first.axes or other.mask.shape != mask.shape:
            raise _unmarked()
        mask = elementwise(np.logical_and, (mask, other.mask))[0]
    return _Marks(mask, first.axes)


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
