"""Sequences: one of any length, or several filled up to the length of the longest."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from dataview.errors import explained
from dataview.plan.fields import NO_FIELDS
from dataview.plan.symbols import deferring, placeholder
from dataview.spaces import batch as batches
from dataview.spaces.arrays import ArraySpace
from dataview.spaces.base import (
    Callback,
    How,
    Space,
    checked_dtype,
    checked_size,
    convert,
    converts,
    given_for_space,
    no_conversion,
    shape_text,
)
from dataview.spaces.indexes import ONE_HOT, LabelSpace, largest, one_hot, same_labels


class _OneSequence(ArraySpace):
    """What the spaces of one sequence have in common: its steps stand along the first axis."""

    def get_batch_axis(self) -> int:
        """Raise: a sequence is a batch of one sample."""
        raise TypeError(f"a batch of {self!r} is one sequence; its first axis is time")

    def size_of(self, batch: Any) -> int | None:
        """Return 1: a batch is one sequence."""
        return 1

    def certain_size(self, batch: Any) -> None:
        """Return None: the length of the first axis is no number of samples."""

    def get_total_dimension(self) -> int:
        """Raise: sequences differ in length."""
        return Space.get_total_dimension(self)

    def get_origin(self) -> np.ndarray:
        """Return zeros: a sequence of one step."""
        return np.zeros((1, *self.row_shape), self.dtype or float)

    def get_origin_batch(self, batch_size: int = 1, dtype: Any = None) -> Any:
        """Return zeros: a sequence of one step."""
        self._check_alone(batch_size)
        return super().get_origin_batch(1, dtype)

    def placeholder(self, name: str, dtype: Any, batch_size: int | None) -> Any:
        """Return the symbol of a sequence."""
        self._check_alone(1 if batch_size is None else batch_size)
        return super().placeholder(name, dtype, None)

    def _check_alone(self, batch_size: int) -> None:
        if batch_size != 1:
            raise ValueError(
                f"a batch of {self!r} is one sequence; got batch_size={batch_size}; "
                "SequenceSpace has batches of several"
            )


class VectorSequenceSpace(_OneSequence):
    """One sequence of vectors, of any length: a batch is a matrix with a row for each step."""

    dim: int
    roles = ("time", "features")

    @explained()
    def __init__(
        self,
        dim: int,
        dtype: Any = None,
        *,
        validate_callbacks: Iterable[Callback] = (),
        np_validate_callbacks: Iterable[Callback] = (),
    ) -> None:
        dim = checked_size("dim", dim)
        self.__dict__["extents"] = (None, dim)
        facts = {"dim": dim, "dtype": checked_dtype(dtype)}
        super().__init__(facts, validate_callbacks, np_validate_callbacks)


class IndexSequenceSpace(_OneSequence, LabelSpace):
    """One sequence of labels, `dim` in each step, of any length."""

    roles = ("time", "labels")


VectorSequenceSpace.family = VectorSequenceSpace
IndexSequenceSpace.family = IndexSequenceSpace


class SequenceSpace(Space):
    """Several sequences, filled up to the length of the longest: a pair of data and mask.

    The data have the axis of time in front of those of `space`; the mask has an axis of time and
    one of sequences, and is 1 where there are data.

    >>> import numpy as np
    >>> from dataview.spaces.vector import VectorSpace
    >>> SequenceSpace(VectorSpace(3)).np_batch_size((np.zeros((7, 2, 3)), np.ones((7, 2))))
    2
    """

    space: ArraySpace
    dtype: np.dtype[Any] | None
    """The dtype of the data."""

    @explained()
    def __init__(
        self,
        space: ArraySpace,
        *,
        validate_callbacks: Iterable[Callback] = (),
        np_validate_callbacks: Iterable[Callback] = (),
    ) -> None:
        if not isinstance(space, ArraySpace) or isinstance(space, _OneSequence):
            raise TypeError(
                "the steps of a SequenceSpace are of a space such as VectorSpace(3); "
                f"{given_for_space(space)}"
            )
        if getattr(space, "sparse", False):
            raise TypeError(f"the steps of a SequenceSpace are dense; got {space!r}")
        own = self.__dict__
        own["extents"] = (None, *space.extents)
        own["roles"] = ("time", *space.roles)
        own["dtype"] = space.dtype
        own["_place"] = 1 + space.get_batch_axis()
        own["_are_alike"] = not space.has_callbacks
        super().__init__({"space": space}, validate_callbacks, np_validate_callbacks)

    def with_dtype(self, dtype: Any) -> SequenceSpace:
        """Return the same space for another dtype."""
        return self._with_steps(self.space.with_dtype(dtype))

    @property
    def has_callbacks(self) -> bool:
        """Whether functions of the user check batches, or parts of them."""
        return self._calls or self.space.has_callbacks

    @property
    def without_callbacks(self) -> SequenceSpace:
        """The same space without functions that check batches."""
        return SequenceSpace(self.space.without_callbacks) if self.has_callbacks else self

    @property
    def rows_first(self) -> SequenceSpace:
        """The same space with the axis of the sequences behind that of the time."""
        return self._with_steps(self.space.rows_first)

    @property
    def usual(self) -> SequenceSpace:
        """The same space with the axes of its steps in the usual order."""
        return self._with_steps(self.space.usual)

    def _with_steps(self, space: Any) -> SequenceSpace:
        return self if space is self.space else self.replaced(space=space)

    def check_batch(self, batch: Any, where: str) -> None:
        """Raise unless a batch is a pair of data and mask that fit."""
        if not isinstance(batch, tuple) or len(batch) != 2:
            got = f"{len(batch)} parts" if isinstance(batch, tuple) else type(batch).__name__
            raise TypeError(f"{where}: {self!r} takes a tuple of data and mask; got {got}")
        data, mask = batch
        for part, name in ((data, "data"), (mask, "mask")):
            if not isinstance(part, np.ndarray) and not batches.is_node(part):
                kind = type(part).__name__
                raise TypeError(f"{where}, {name}: {self!r} takes arrays or views; got {kind}")
        shape, marks = batches.extents_of(data), batches.extents_of(mask)
        if len(shape) != len(self.extents):
            raise ValueError(
                f"{where}, data: {self!r} has {len(self.extents)} axes ({', '.join(self.roles)}); "
                f"got the shape {shape_text(shape)}"
            )
        if not isinstance(data, np.ndarray) or shape[0]:
            self.space.check_values(data, f"{where}, data")
            self.space.check(self._steps_to_check(data), f"{where}, data")
        wanted = (shape[0], shape[self.get_batch_axis()])
        fits = marks == wanted or (
            len(marks) == 2
            and all(None in pair or pair[0] == pair[1] for pair in zip(marks, wanted, strict=True))
        )
        if not fits:
            raise ValueError(
                f"{where}, mask: the data are of {shape_text(wanted)} steps and sequences; got a "
                f"mask of the shape {shape_text(marks)}"
            )
        if isinstance(mask, np.ndarray) and np.count_nonzero(mask) != np.count_nonzero(mask == 1):
            raise ValueError(f"{where}, mask: a mask is 1 where there are data and 0 elsewhere")

    def _steps_to_check(self, data: Any) -> Any:
        """Return what shows whether all steps are of the space: a symbol, one step, or all."""
        if not isinstance(data, np.ndarray):
            return placeholder("steps", batches.extents_of(data)[1:], data.dtype, NO_FIELDS)
        given, wanted = data.dtype, self.dtype
        are_alike = self._are_alike and (wanted is None or wanted == given or given.kind == "f")
        return data[0] if are_alike else _merged(data, self.space)

    def promised(self, batch: Any) -> Any:
        """Return a batch; data that are not read yet are checked when they are."""
        return self.space.promised(batch[0]), batch[1]

    def get_batch_axis(self) -> int:
        """Return the number of the axis along which the sequences stand."""
        return self._place  # type: ignore[no-any-return]

    def size_of(self, batch: Any) -> int | None:
        """Return the number of sequences."""
        return batches.extents_of(batch[1])[1]

    def get_origin(self) -> Any:
        """Return a sequence of one step of zeros, and its mask."""
        return self.space.get_origin()[None], np.ones(1, np.float32)

    def get_origin_batch(self, batch_size: int, dtype: Any = None) -> Any:
        """Return sequences of one step of zeros, and their mask."""
        data = self.space.get_origin_batch(batch_size, dtype)
        return data[None], np.ones((1, batch_size), np.float32)

    def placeholder(self, name: str, dtype: Any, batch_size: int | None) -> Any:
        """Return the symbols of data and mask."""
        shape = [batch_size if n is None else n for n in self.space.extents]
        found = dtype or self.dtype or float
        data = placeholder(f"{name}[0]", (None, *shape), found, NO_FIELDS)
        return data, placeholder(f"{name}[1]", (None, batch_size), np.float32, NO_FIELDS)


SequenceSpace.family = SequenceSpace


def _merged(data: Any, space: ArraySpace) -> Any:
    """Return all steps of all sequences as one batch of their space."""
    axis, own = space.get_batch_axis(), space.extents
    shape = batches.extents_of(data)
    first, second = shape[0], shape[axis + 1]
    steps = None if first is None or second is None else first * second
    moved = batches.transposed(data, _orders(axis, len(own))[0])
    return batches.reshaped(moved, *own[:axis], steps, *own[axis + 1 :])


@functools.cache
def _orders(axis: int, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes of data with the time before the batch, and those with it in front again.

    `axis` is that of the batch in a step, which has `count` axes.
    """
    beside = (*range(1, axis + 1), 0, axis + 1, *range(axis + 2, count + 1))
    return beside, (axis, *[n for n in range(count + 1) if n != axis])


# --- conversions -------------------------------------------------------------------------------


@converts(VectorSequenceSpace, VectorSequenceSpace)
def _vectors(batch: Any, source: VectorSequenceSpace, target: VectorSequenceSpace, how: How) -> Any:
    if source.dim != target.dim:
        raise no_conversion(source, target, "their steps have not as many numbers")
    return batches.cast(batch, target.dtype, how)


@converts(IndexSequenceSpace, IndexSequenceSpace)
def _labels(batch: Any, source: IndexSequenceSpace, target: IndexSequenceSpace, how: How) -> Any:
    return same_labels(batch, source, target, how)


@converts(IndexSequenceSpace, VectorSequenceSpace)
def _one_hot(batch: Any, source: IndexSequenceSpace, target: VectorSequenceSpace, how: How) -> Any:
    return one_hot(batch, source, target, target.dtype or ONE_HOT)


@converts(VectorSequenceSpace, IndexSequenceSpace)
def _places(batch: Any, source: VectorSequenceSpace, target: IndexSequenceSpace, how: How) -> Any:
    return largest(batch, source, target, how)


@converts(SequenceSpace, SequenceSpace)
def _sequences(batch: Any, source: SequenceSpace, target: SequenceSpace, how: How) -> Any:
    data, mask = batch
    own, wanted = source.space, target.space
    if own.is_laid_out_as(wanted):
        return convert(data, own, wanted, how), mask
    data = source.promised(batch)[0]
    steps = _deferred_steps if batches.is_node(data) else _steps
    return steps(data, mask, own, wanted, how), mask


def _steps(data: Any, mask: Any, source: ArraySpace, target: ArraySpace, how: How) -> Any:
    """Return the data of sequences with each step as another space has it."""
    steps, sequences = batches.extents_of(mask)
    found = convert(_merged(data, source), source, target, how)
    axis, own = target.get_batch_axis(), target.extents
    split = batches.reshaped(found, *own[:axis], steps, sequences, *own[axis + 1 :])
    return batches.transposed(split, _orders(axis, len(own))[1])


_deferred_steps = deferring(_steps)
