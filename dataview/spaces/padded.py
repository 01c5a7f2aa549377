"""Rows of different lengths as sequences: one of them, or several that are filled up.

The longest need not be known yet.
"""

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
    samples_at,
)
from dataview.spaces import batch as batches
from dataview.spaces.arrays import ArraySpace
from dataview.spaces.base import How, Space
from dataview.spaces.fields import rows_as
from dataview.spaces.sequences import OneSequence, SequenceSpace

FLOAT = np.dtype(np.float32)
"""The dtype of masks."""


def padded(rows: Any, space: SequenceSpace, target: Space, how: How) -> Any:
    """Return rows of different lengths, steps of a space, as sequences of another, and a mask.

    For the space of one sequence it is that of the only row, without a mask.
    """
    if isinstance(rows, Stream):
        raise StreamError(
            "the longest row of a stream is not known, so its rows cannot be filled up; "
            "_minibatches(batch_size, spec=...) and _loader(batch_size, spec=...) fill up batches"
        )
    if not isinstance(rows, Node) or not is_ragged(rows):
        raise TypeError(
            f"{space!r} is made of rows of different lengths; these are of one shape already"
        )
    count = batches.extents_of(rows)[0]
    if isinstance(target, OneSequence) and count != 1:
        raise target.not_alone(f"{count} rows")
    if isinstance(rows, RaggedSamples) and isinstance(target, (OneSequence, SequenceSpace)):
        return _made_late(rows, space, target, how)
    if isinstance(target, OneSequence):
        return _alone(rows, space.space, target, how)
    return _formatted(filled(rows, Padding()), space, target, how)  # type: ignore[arg-type]


def check_padded(rows: Node, space: SequenceSpace, target: Space, how: How) -> None:
    """Raise unless steps of a space can be those of another; no row is read."""
    if not is_ragged(rows):
        padded(rows, space, target, how)
    _symbols(rows, space, target, how)


def _symbols(rows: Node, space: SequenceSpace, target: Space, how: How) -> tuple[Any, ...]:
    """Return what stands for the parts of a batch of sequences."""
    own: Space = space
    if isinstance(target, OneSequence):
        own, target = space.space, target.steps
    found = own.formatted(own.placeholder("rows", rows.dtype, None), target, how)
    return found if isinstance(found, tuple) else (found,)


def _alone(rows: Any, space: ArraySpace, target: OneSequence, how: How) -> Any:
    """Return the only row as a sequence; its steps are a batch of a space."""
    row = _in_steps(samples_at(rows, 0), space, 1)
    return target.steps.checked_when_read(space.formatted(row, target.steps, how), how.where)


def _in_steps(data: Any, space: ArraySpace, axes: int) -> Any:
    """Return data, whose steps stand behind so many axes, with the steps as a space has them."""
    shape = batches.extents_of(data)
    step = rows_as(space, shape[axes:])
    is_other = step is not None and step != shape[axes:]
    return batches.reshaped(data, *shape[:axes], *step) if is_other else data  # type: ignore[misc]


def _formatted(dense: Any, space: SequenceSpace, target: Space, how: How) -> Any:
    """Return rows that are filled up as sequences of another space, their labels in range."""
    found = space.formatted(_sequences(dense, space), target, how)
    return target.checked_when_read(found, how.where)


def _sequences(dense: Any, space: SequenceSpace) -> tuple[Any, Any]:
    """Return rows that are filled up as data and mask, time in front."""
    marks = batches.cast(mask_of(dense), FLOAT, How())
    data = _in_steps(dense, space.space, 2)
    order = tuple(range(2, len(batches.extents_of(data))))
    return batches.transposed(data, (1, 0, *order)), batches.transposed(marks, (1, 0))


class _Filling:
    """Makes the one sample that sequences are: rows, made when they are needed."""

    __slots__ = ("how", "rows", "space", "target")
    deterministic = True

    def __init__(self, rows: RaggedSamples, space: SequenceSpace, target: Space, how: How) -> None:
        self.rows = rows
        self.space = space
        self.target = target
        self.how = how

    def __call__(self, number: int) -> Node:
        """Return data and mask; each row is made once for both."""
        found = padded(self.rows.in_memory(), self.space, self.target, self.how)
        parts = found if isinstance(found, tuple) else (found,)
        return record(dict(zip(PARTS, parts, strict=False)), 0)


PARTS = ("data", "mask")


def _itself(node: Node) -> Node:
    return node


def _made_late(rows: RaggedSamples, space: SequenceSpace, target: Space, how: How) -> Any:
    """Return data and mask of rows of which the longest is known when all have been made."""
    one = NumberedSamples(_Filling(rows, space, target, how), 1, identity((1,)), _itself)
    found = []
    for name, symbol in zip(PARTS, _symbols(rows, space, target, how), strict=False):
        steps, *axes = symbol.extents
        like = AnyLength((steps, *[rows.count if n is None else n for n in axes]), symbol.dtype)
        found.append(RaggedSamples(one, (name,), like).part(parse(0, (1,))))
    return found[0] if isinstance(target, OneSequence) else tuple(found)
