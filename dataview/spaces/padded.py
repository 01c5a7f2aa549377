"""Rows of different lengths as padded sequences, also where the longest is not known yet."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataview.errors import StreamError
from dataview.index import identity, parse
from dataview.plan.build import record
from dataview.plan.node import Node
from dataview.samples import (
    AnyLength,
    NumberedSamples,
    Padding,
    RaggedSamples,
    Stream,
    filled,
    is_ragged,
    mask_of,
)
from dataview.spaces import batch as batches
from dataview.spaces.base import How, Space
from dataview.spaces.fields import rows_as
from dataview.spaces.sequences import SequenceSpace

FLOAT = np.dtype(np.float32)
"""The dtype of masks."""


def padded(rows: Any, space: SequenceSpace, target: Space, how: How) -> Any:
    """Return rows of different lengths, steps of a space, as sequences of another, and a mask."""
    if isinstance(rows, Stream):
        raise StreamError(
            "the longest row of a stream is not known, so its rows cannot be filled up; "
            "_minibatches(batch_size, spec=...) and _loader(batch_size, spec=...) fill up batches"
        )
    if not isinstance(rows, Node) or not is_ragged(rows):
        raise TypeError(
            f"{space!r} is made of rows of different lengths; these are of one shape already"
        )
    if isinstance(rows, RaggedSamples) and isinstance(target, SequenceSpace):
        return _made_late(rows, space, target, how)
    return _formatted(filled(rows, Padding()), space, target, how)  # type: ignore[arg-type]


def check_padded(rows: Node, space: SequenceSpace, target: Space, how: How) -> None:
    """Raise unless steps of a space can be those of another; no row is read."""
    if not is_ragged(rows):
        padded(rows, space, target, how)
    space.formatted(space.placeholder("rows", rows.dtype, None), target, how)


def _formatted(dense: Any, space: SequenceSpace, target: Space, how: How) -> Any:
    """Return rows that are filled up as sequences of another space, their labels in range."""
    return target.checked_when_read(space.formatted(_sequences(dense, space), target, how))


def _sequences(dense: Any, space: SequenceSpace) -> tuple[Any, Any]:
    """Return rows that are filled up as data and mask, time in front."""
    marks = batches.cast(mask_of(dense), FLOAT, How())
    shape, data = batches.extents_of(dense), dense
    step = rows_as(space.space, shape[2:])
    if step is not None and step != shape[2:]:
        data = batches.reshaped(dense, *shape[:2], *step)
    order = tuple(range(2, len(batches.extents_of(data))))
    return batches.transposed(data, (1, 0, *order)), batches.transposed(marks, (1, 0))


class _Filling:
    """Makes the one sample that sequences are: rows, made when it is needed, filled up."""

    __slots__ = ("how", "rows", "space", "target")
    deterministic = True

    def __init__(
        self, rows: RaggedSamples, space: SequenceSpace, target: SequenceSpace, how: How
    ) -> None:
        self.rows = rows
        self.space = space
        self.target = target
        self.how = how

    def __call__(self, number: int) -> Node:
        """Return data and mask; each row is made once for both."""
        dense = filled(self.rows.in_memory(), Padding())
        parts = zip(PARTS, _formatted(dense, self.space, self.target, self.how), strict=True)
        return record(dict(parts), 0)


PARTS = ("data", "mask")


def _itself(node: Node) -> Node:
    return node


def _made_late(
    rows: RaggedSamples, space: SequenceSpace, target: SequenceSpace, how: How
) -> tuple[Node, ...]:
    """Return data and mask of rows of which the longest is known when all have been made."""
    one = NumberedSamples(_Filling(rows, space, target, how), 1, identity((1,)), _itself)
    symbols = space.formatted(space.placeholder("rows", rows.dtype, None), target, how)
    found = []
    for name, symbol in zip(PARTS, symbols, strict=True):
        steps, *axes = symbol.extents
        like = AnyLength((steps, *[rows.count if n is None else n for n in axes]), symbol.dtype)
        found.append(RaggedSamples(one, (name,), like).part(parse(0, (1,))))
    return tuple(found)
