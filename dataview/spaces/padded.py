"""Rows as sequences: one of them, or several that are filled up where they differ in length.

The longest need not be known yet.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dataview.compute import evaluate
from dataview.errors import StreamError
from dataview.index import identity, parse
from dataview.plan.build import keyed, record, stored
from dataview.plan.kinds import Mapped, Select
from dataview.plan.node import Node
from dataview.plan.symbols import deferring
from dataview.samples import (
    AnyLength,
    Filling,
    NumberedSamples,
    PaddedSamples,
    Padding,
    RaggedSamples,
    Stream,
    filled,
    is_ragged,
    mask_of,
    samples_at,
)
from dataview.sources import ArraySource
from dataview.spaces import batch as batches
from dataview.spaces.arrays import ArraySpace
from dataview.spaces.base import How, Space
from dataview.spaces.fields import laid_out
from dataview.spaces.sequences import OneSequence, SequenceSpace

FLOAT = np.dtype(np.float32)
"""The dtype of masks."""


def padded(
    rows: Any, space: SequenceSpace, target: Space, how: How, in_arrays: bool = False
) -> Any:
    """Return rows, whose steps are of a space, as sequences of another, and a mask.

    For the space of one sequence it is that of the only row, without a mask.  For arrays the rows
    are read first: to format an array takes less time than to build a node and evaluate it.
    """
    if isinstance(rows, Stream):
        raise StreamError(
            "the longest row of a stream is not known, so its rows cannot be filled up; "
            "_minibatches(batch_size, spec=...) and _loader(batch_size, spec=...) fill up batches"
        )
    count = batches.extents_of(rows)[0]
    if isinstance(target, OneSequence) and count != 1:
        raise target.not_alone(f"{count} rows")
    if isinstance(rows, RaggedSamples) and isinstance(target, (OneSequence, SequenceSpace)):
        return _made_late(rows, space, target, how)
    if isinstance(target, OneSequence):
        row = _first_of(rows)
        row = evaluate(row) if in_arrays and isinstance(row, Node) else row
        return _alone(row, space.space, target, how)
    if isinstance(rows, Node) and is_ragged(rows):
        dense: Any = filled(rows, Padding())  # type: ignore[arg-type]
        marks: Any = mask_of(dense)
        if in_arrays:
            dense, marks = evaluate(dense), evaluate(marks)
        return _formatted(dense, marks, space, target, how)
    return _formatted(rows, _all_data(rows), space, target, how)


def check_padded(rows: Node, space: SequenceSpace, target: Space, how: How) -> None:
    """Raise unless steps of a space can be those of another; no row is read."""
    if _is_filled(rows):
        raise TypeError(
            f"the rows are filled up already, so that no mask tells where {target!r} has data; "
            "ask for the rows that _pad was called on, which are filled up for each batch"
        )
    _symbols(rows, space, target, how)


def _is_filled(rows: Node) -> bool:
    """Whether rows, or those that they were chosen from, are filled up to one shape."""
    while isinstance(rows, Select):
        rows = rows.node
    own = rows.step if isinstance(rows, Mapped) else None
    return isinstance(rows, PaddedSamples) or isinstance(own, Filling)


def _symbols(rows: Node, space: SequenceSpace, target: Space, how: How) -> tuple[Any, ...]:
    """Return what stands for the parts of a batch of sequences."""
    own: Space = space
    if isinstance(target, OneSequence):
        own, target = space.space, target.steps
    found = own.formatted(own.placeholder("rows", rows.dtype, None), target, how)
    return found if isinstance(found, tuple) else (found,)


def _alone(row: Any, space: ArraySpace, target: OneSequence, how: How) -> Any:
    """Return the only row as a sequence; its steps are a batch of a space."""
    row = laid_out(row, space)
    return space.formatted(row, target.steps, how)


def _first_of(rows: Any) -> Any:
    if not isinstance(rows, Node):
        return rows[0]
    return samples_at(rows, 0) if is_ragged(rows) else keyed(rows, 0)  # type: ignore[arg-type]


def _formatted(
    dense: Any, marks: Any, space: SequenceSpace, target: Space, how: How
) -> tuple[Any, Any]:
    """Return rows of one length, and where they have data, as sequences of another space."""
    data = laid_out(dense, space.space, before=2)
    order = tuple(range(2, len(batches.extents_of(data))))
    mask = batches.transposed(batches.cast(marks, FLOAT, How()), (1, 0))
    found = space.formatted((batches.transposed(data, (1, 0, *order)), mask), target, how)
    return found[0], mask  # which is right without a check


@deferring
def _all_data(rows: Any) -> Any:
    """Return the mask of rows that have data everywhere."""
    shape = batches.extents_of(rows)[:2]
    if not isinstance(rows, Node):
        return np.ones(shape, FLOAT)
    return stored(ArraySource(np.broadcast_to(FLOAT.type(1), shape)), False)  # type: ignore[arg-type]


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
