"""Batches of fields brought into the form that data specifications ask for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dataview.compute import evaluate
from dataview.errors import error_at
from dataview.plan.kinds import Sampled
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.samples import Padding, filled, is_ragged, mask_of
from dataview.spaces import batch as batches
from dataview.spaces.arrays import ArraySpace
from dataview.spaces.base import How, Space
from dataview.spaces.fields import declared, stored_as
from dataview.spaces.indexes import InRange, LabelSpace
from dataview.spaces.mapping import DataSpecsMapping
from dataview.spaces.sequences import SequenceSpace
from dataview.spaces.vector import densely

FLOAT = np.dtype(np.float32)
"""The dtype of masks."""

DELIVERED = How(options=False)
"""How fields are formatted: who asks for batches cannot give options for that."""


class Delivery:
    """What makes of a batch of each source, an array or a node, what specifications ask for.

    `fields` returns the node of a source of the whole dataset.  What does not fit is an error here,
    before anything is read, as far as shapes and dtypes are known.
    """

    def __init__(self, specs: Any, fields: Callable[[str], Node]) -> None:
        self.mapping = DataSpecsMapping(specs)
        self._is_heard = self.mapping.specs.space.is_heard
        self.sources = tuple(dict.fromkeys(source for _, source in self.mapping.unique))
        self.nodes = nodes = {source: fields(source) for source in self.sources}
        self._steps = [_Step(source, space, nodes[source]) for space, source in self.mapping.unique]
        for step in self._steps:
            node = nodes[step.source]
            if not isinstance(node, Sampled) or (node.extents is not None and is_ragged(node)):
                step.check(node)

    def __call__(self, given: Mapping[str, Any]) -> Any:
        """Return the nested batches, of nodes or arrays, by those of the sources."""
        found = self.mapping.filled(tuple([step(given[step.source]) for step in self._steps]))
        if self._is_heard:
            self.mapping.specs.space.check(found, "the batch")
        return found

    def in_arrays(self, given: Mapping[str, Any]) -> Any:
        """Return the nested batches as arrays; some of the given ones may be ragged nodes."""
        return _evaluated(self(given))


class _Step:
    """The step from rows of one source to batches of one space."""

    def __init__(self, source: str, space: Space, node: Node) -> None:
        self.source = source
        self.space = space
        self.stored = stored_as(node, space, source)
        self.is_declared = declared(node.meta) is not None

    def check(self, node: Node) -> None:
        """Raise unless rows of a node, which are not read, can be batches of the space."""
        self._formatted(node, densely(self.space))

    def __call__(self, rows: Any) -> Any:
        """Return rows as a batch of the space."""
        return self._formatted(rows, self.space)

    def _formatted(self, rows: Any, space: Space) -> Any:
        try:
            batch = _as_batch(rows, self.stored)
            found = self.stored.formatted(batch, space, DELIVERED)
            if isinstance(found, Node) and isinstance(self.space, LabelSpace):
                found = batches.by_rows(found, InRange(self.space.max_labels))
        except (TypeError, ValueError, OverflowError) as error:
            raise error_at(error, self._where(rows)) from error
        return found if type(found) is np.ndarray else space.marked(found, rows)

    def _where(self, rows: Any) -> str:
        shape = rows.extents if isinstance(rows, Node) else np.shape(rows)
        how = "declared as" if self.is_declared else "as nothing was declared by _spaces=, taken as"
        return f"source {self.source!r}, {rows.dtype} {shape}, {how} {self.stored!r}"


def _as_batch(rows: Any, space: Space) -> Any:
    """Return rows of a field in the shape that a space, rows first, has."""
    if isinstance(space, SequenceSpace):
        return _padded(rows, space)
    if not isinstance(space, ArraySpace) or batches.is_sparse(rows):
        return rows
    shape = batches.extents_of(rows)
    if shape[1:] == space.row_shape or not shape:
        return rows
    if len(shape) > 2 and len(space.row_shape) > 1:
        return rows  # axes in another order are not to be taken for those of the space
    total = space.get_total_dimension()
    known = [n for n in shape[1:] if n is not None]
    if len(known) < len(shape) - 1 or math.prod(known) != total:
        return rows  # which the check of the space refuses
    return batches.reshaped(rows, shape[0], *space.row_shape)


def _padded(rows: Any, space: SequenceSpace) -> Any:
    """Return rows of different lengths as data and mask, time in front."""
    if not isinstance(rows, Node) or not is_ragged(rows):
        raise TypeError(
            f"{space!r} is made of rows of different lengths; these are of one shape already"
        )
    dense = filled(rows, Padding())  # type: ignore[arg-type]
    marks = batches.cast(mask_of(dense), FLOAT, DELIVERED)
    steps = batches.extents_of(dense)
    data: Any = dense
    if len(steps) - 2 < len(space.space.row_shape):  # a number a step, where one axis is due
        data = batches.reshaped(dense, *steps[:2], *space.space.row_shape)
    order = tuple(range(2, len(batches.extents_of(data))))
    return batches.transposed(data, (1, 0, *order)), batches.transposed(marks, (1, 0))


def _evaluated(batch: Any) -> Any:
    if type(batch) is np.ndarray:
        return batch
    if isinstance(batch, tuple):
        return tuple([_evaluated(part) for part in batch])
    if isinstance(batch, Ragged):
        return batch
    return evaluate(batch) if isinstance(batch, Node) else batch
