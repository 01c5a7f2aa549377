"""Samples whose lengths differ: what is known of all of them, and several as ragged rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from dataview.compute import evaluate
from dataview.errors import error_at
from dataview.index.dtypes import promoted
from dataview.index.flat import is_of_arrays, layout_of, packed, shaped
from dataview.index.shape_texts import shape_text
from dataview.plan.build import field, record, stored, with_fields
from dataview.plan.concat import check_meanings
from dataview.plan.fields import Attached
from dataview.plan.gaps import (
    at_each_level,
    is_of_lists,
    least_present,
    masked_alike,
    masks_in,
    noted,
    present_in,
    present_or_all,
    with_mask,
)
from dataview.plan.kinds import Extents, Record, Sampled, known_dtype, known_shape, size_of
from dataview.plan.layout import reshaped
from dataview.plan.node import DType, Node, Shape
from dataview.plan.ragged import Ragged, as_ragged, places_of, ragged_of
from dataview.plan.values import cast
from dataview.sources import ArraySource, check_held, holds


class AnyLength(Node):
    """What is known of samples that differ in length: such lengths are None.

    If the rows of a sample differ in length, too, each of them is like `row`.  Samples are cast to
    a dtype that was declared; an `exact` one was learnt from samples.
    """

    __slots__ = ("exact", "extents", "row")

    extents: Extents

    def __init__(
        self, extents: Extents, dtype: DType, row: AnyLength | None = None, exact: bool = True
    ) -> None:
        super().__init__(None, dtype)
        self.extents = extents
        self.row = row
        self.exact = exact

    @property
    def axes(self) -> Extents:
        """The axes that each sample lays out for itself: up to the last that differs."""
        if self.row is not None:
            return (None,)
        return self.extents[: 1 + max(n for n, length in enumerate(self.extents) if length is None)]

    @property
    def rest(self) -> Shape:
        """The shape of the values of samples that stand in a line."""
        return tuple(n or 0 for n in self.extents[len(self.axes) :])

    def fitted(self, sample: np.ndarray) -> np.ndarray:
        """Return the data of a sample as it stands among the others, or raise."""
        if self.row is not None:
            found = np.empty(len(sample), object)
            for number, row in enumerate(sample):
                found[number] = self.row.fitted(np.asarray(row))
            return found
        if not sample.size and sample.ndim == 1:  # an empty list has no more axes, and no dtype
            return np.empty((0, *(n or 0 for n in self.extents[1:])), self.dtype)
        dtype, shape = known_dtype(self), shape_text(self.extents)
        if not has_extents(sample.shape, self.extents):
            known = "the first ones read were" if self.exact else "declared is"
            raise ValueError(f"the shape is {sample.shape}; {known} {shape}")
        if not self.exact:
            return cast(sample, dtype)
        check_held(dtype, sample.dtype)
        return sample.astype(dtype, copy=False)

    def rows_of(self, samples: Sequence[np.ndarray]) -> Ragged:
        """Return samples that were fitted as the rows of one node."""
        if self.row is not None:
            rows = self.row.rows_of([row for sample in samples for row in sample])
            return Ragged(rows, layout_of(lengths=[len(sample) for sample in samples]))
        axes, none = self.axes, np.empty((0, *self.rest), self.dtype)
        own = len(axes)
        shapes = np.array([sample.shape[:own] for sample in samples], np.intp).reshape(-1, own)
        lines = [sample.reshape(size_of(sample.shape[:own]), *self.rest) for sample in samples]
        values = np.concatenate([none, *lines], dtype=self.dtype)  # in its byte order
        return Ragged(stored(ArraySource(values)), shaped(shapes, axes))


def likeness(samples: Sequence[Node]) -> Node:
    """Return the first of some samples, or what is known of all where they differ in length."""
    first = samples[0]
    if not isinstance(first, Record):
        if any(isinstance(sample, Record) for sample in samples):
            return first
        check_meanings(samples)
        found = _any_length(samples) or _of_one_shape(samples)
        return found if found.meta is first.meta else found.replaced(meta=first.meta)
    if any(set(sample.fields) != set(first.fields) for sample in samples):
        samples = masked_alike(samples)
        first = samples[0]
    if any(set(sample.fields) != set(first.fields) for sample in samples):
        return first  # the other one is refused when its turn comes
    own = {name: field(first, name) for name in first.fields}
    others = samples[1:]
    parts = {n: likeness([part, *(field(one, n) for one in others)]) for n, part in own.items()}
    if all(parts[name] is own[name] for name in own):
        return first
    whole: Any = first
    return record(parts, whole.rank).replaced(meta=whole.meta)


def _of_one_shape(samples: Sequence[Node]) -> Node:
    """Return the first of some samples, in the dtype that holds all of them."""
    first = samples[0]
    if first.dtype is None or any(s.shape != first.shape or s.dtype is None for s in samples):
        return first
    dtype = common_dtype([known_dtype(sample) for sample in samples])
    if dtype == first.dtype:
        return first
    return with_fields(stored(ArraySource(evaluate(first).astype(dtype)), False), first.fields)


def common_dtype(dtypes: Sequence[DType]) -> DType:
    """Return the dtype that holds all values as they are, the first where none does.

    Numbers do not become texts, and no number loses digits: others are refused in their turn.

    >>> common_dtype([np.dtype("U2"), np.dtype("U5")])
    dtype('<U5')
    """
    first = dtypes[0]
    if all(dtype == first for dtype in dtypes):
        return first
    found = promoted(*dtypes)
    return found if all(holds(found, dtype) for dtype in dtypes) else first


def _any_length(samples: Sequence[Node]) -> AnyLength | None:
    """Return what is known of arrays that differ in length, None if they do not."""
    if any(isinstance(sample, Ragged) for sample in samples):
        return _of_rows([evaluate(sample) for sample in samples])
    if any(sample.shape is None or sample.dtype is None for sample in samples):
        return None
    return _of_shapes([(known_shape(sample), known_dtype(sample)) for sample in samples])


def _of_rows(samples: Sequence[np.ndarray]) -> AnyLength:
    """Return what is known of samples of which one has rows that differ in length."""
    rows = [np.asarray(row) for sample in samples for row in sample]
    full = [row for row in rows if row.size] or rows  # an empty list may be one of texts
    if any(map(is_of_arrays, full)):
        row = _of_rows(rows)
    else:
        shapes = [(row.shape, row.dtype) for row in rows] or [((0,), np.dtype(float))]
        alike = AnyLength((None, *shapes[0][0][1:]), shapes[0][1])
        row = _of_shapes(shapes) or alike
    return AnyLength((None, *row.extents), known_dtype(row), row)


def _of_shapes(found: Sequence[tuple[Shape, DType]]) -> AnyLength | None:
    """Return what is known of arrays of these shapes and dtypes, None if they do not differ."""
    if len({shape for shape, _ in found}) < 2:
        return None
    full = [each for each in found if size_of(each[0])] or found
    ndim = len(full[0][0])
    if any(len(shape) != ndim for shape, _ in full):
        return None
    shapes = [shape for shape, _ in found if len(shape) == ndim]
    lengths = [set(column) for column in zip(*shapes, strict=True)]
    extents = tuple(own.pop() if len(own) == 1 else None for own in lengths)
    if None not in extents:  # an empty list beside arrays of several axes
        extents = (None, *extents[1:])
    return AnyLength(extents, common_dtype([dtype for _, dtype in full]))


def levels_of(like: AnyLength) -> list[Extents]:
    """Return the axes that samples lay out, and those that their rows lay out, and so on."""
    return [like.axes, *(levels_of(like.row) if like.row is not None else ())]


def has_extents(shape: Shape, extents: Extents) -> bool:
    """Whether a shape is as known, where None is known of a length that differs."""
    return len(shape) == len(extents) and all(
        known in (None, length) for length, known in zip(shape, extents, strict=True)
    )


def fitted(sample: Node, like: AnyLength, where: str) -> np.ndarray:
    """Return the data of a sample as it stands among the others, or raise saying which it is."""
    try:
        return like.fitted(evaluate(sample))
    except (TypeError, ValueError) as error:
        raise error_at(error, where) from error


def fitted_node(sample: Node, like: AnyLength, where: str) -> Node:
    """Return a sample as it stands among the others, with its gaps and metadata, or raise."""
    found = fitted(sample, like, where)
    if like.row is not None:
        return in_rows([sample], [found], like).values.replaced(meta=sample.meta)
    values = stored(ArraySource(found), False).replaced(meta=sample.meta)
    present = present_in(sample)
    return values if present is None else with_mask(values, present)


def rows_of(samples: Sequence[Node], like: AnyLength, where: str) -> Ragged:
    """Return samples as ragged rows that know what these lack, or raise if one does not fit."""
    found = [fitted(one, like, f"{where} {n}") for n, one in enumerate(samples)]
    return in_rows(samples, found, like)


def in_rows(samples: Sequence[Node], found: Sequence[np.ndarray], like: AnyLength) -> Ragged:
    """Return samples, whose data were fitted, as ragged rows that know what these lack."""
    rows = like.rows_of(found)
    return Ragged(_lacking(rows.values, samples), rows.layout)


def _lacking(values: Node, lines: Sequence[Node]) -> Node:
    """Return values such that they lack what those do that they are, one after the other."""
    lines = [line for line in lines if line.count != 0]  # an empty one may have fewer axes
    if isinstance(values, Ragged):
        lists = [_as_lists(line, len(values.layout.axes)) for line in lines]
        there = np.concatenate([np.empty(0, bool), *(one.layout.there() for one in lists)])
        inner = _lacking(values.values, [one.values for one in lists])
        return Ragged(inner, values.layout.lacking(there))
    if not any(line.has_gaps for line in lines):
        return values
    own = [evaluate(present_or_all(line)).reshape(-1, *known_shape(values)[1:]) for line in lines]
    return with_mask(values, stored(ArraySource(np.concatenate(own)), False))


def joined_alike(nodes: Sequence[Node]) -> list[Node]:
    """Return nodes to be joined such that what lacks something tells it as the others do.

    Beside lists that differ in length, rows of an array that are missing are lists without values.
    """
    return masked_alike(at_each_level(nodes, _lists_alike))


def _lists_alike(nodes: list[Node]) -> list[Node]:
    """Return columns, or records of them, with lists where one of them has ragged rows."""
    if any(isinstance(node, Ragged) for node in nodes):
        return [_lists_lacking(node) for node in nodes]
    if not all(isinstance(node, Record) for node in nodes):
        return nodes
    ragged = {
        name
        for node in nodes
        for name, part in node.fields.named.items()
        if isinstance(part, Attached) and isinstance(part.node, Ragged)
    }
    return [_with_lists(node, ragged) for node in nodes] if ragged else nodes


def _with_lists(node: Node, names: Collection[str]) -> Node:
    """Return a record with lists in some of its columns, whose masks tell of rows."""
    fields, masks = node.fields, masks_in(node.fields)
    for name in names:
        part = fields.named.get(name)
        if not isinstance(part, Attached) or (lists := _lists_lacking(part.node)) is part.node:
            continue
        fields = fields.with_field(name, part.of(lists))
        if name in masks and lists.mask is not None:
            fields = fields.with_field(masks[name], part.of(noted(lists.mask, name)))
    return node if fields is node.fields else with_fields(node, fields)


def _lists_lacking(node: Node) -> Node:
    """Return rows of an array with gaps as lists, of which those that are missing have no values.

    Other data are returned as they are.
    """
    if isinstance(node, (Sampled, Record)) or node.shape is None or len(node.shape) < 2:
        return node
    mask = least_present(node, 1)
    if mask is None:
        return node
    present: Any = evaluate(mask)
    inner = tuple(range(1, present.ndim))
    rows: Any = np.ones(len(present), bool)
    if not inner or is_of_lists(mask):
        rows = present.any(axis=inner)
    _, length, *rest = node.shape
    there = places_of(node, np.flatnonzero(rows))
    line = reshaped(there, (int(rows.sum()) * length, *rest))
    found = Ragged(line, shaped((rows * length).reshape(-1, 1)))
    whole = stored(ArraySource(present.all(axis=inner)), False)
    return found.replaced(meta=node.meta, mask=whole)


def _as_lists(rows: Node, axes: int) -> Ragged:
    """Return rows that lay out so many axes: ragged ones, those of an array, or arrays of one."""
    if isinstance(rows, Ragged):
        return rows.relaid()
    if rows.dtype != object or len(known_shape(rows)) > 1:
        return as_ragged(rows, axes)
    return ragged_of(*packed(list(evaluate(rows))))


def sample_like(sample: Node, like: Node, where: str) -> Node:
    """Return a sample as it stands among the others: with the masks that these have.

    So do its parts that differ in length.
    """
    if isinstance(like, AnyLength):
        return fitted_node(sample, like, where)
    if isinstance(like, Record):
        sample = masked_alike([like, sample])[1]
    if not isinstance(like, Record) or not is_unlike(like):
        return sample
    parts = {name: field(sample, name) for name in sample.fields}
    for name in like.fields:
        at = f"{where}, field {name!r}"
        parts[name] = sample_like(field(sample, name), field(like, name), at)
    return record(parts, like.rank).replaced(meta=sample.meta)


def as_declared(
    extents: Extents, dtype: DType, exact: bool = False, row: AnyLength | None = None
) -> Node:
    """Return what is known of a sample that is declared so; a length of None differs."""
    shape = tuple(length for length in extents if length is not None)
    if len(shape) == len(extents):
        return without_data(shape, dtype)
    return AnyLength(extents, dtype, row, exact)


def without_data(shape: Shape, dtype: DType) -> Node:
    """Return what is known of a sample as a node that has no memory of its own."""
    return stored(ArraySource(np.broadcast_to(np.zeros((), dtype), shape)))


def is_unlike(node: Any) -> bool:
    """Whether samples that differ in length are in what a sample is like."""
    if isinstance(node, Record):
        return any(is_unlike(field(node, name)) for name in node.fields)
    return isinstance(node, AnyLength)
