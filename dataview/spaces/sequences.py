"""Sequences: one of any length, or several filled up to the length of the longest."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dataview.errors import explained
from dataview.index.shape_texts import shape_text
from dataview.plan.fields import NO_FIELDS
from dataview.plan.symbols import deferring, placeholder
from dataview.spaces import batch as batches
from dataview.spaces.arrays import ArraySpace, as_array
from dataview.spaces.base import (
    CONVERSIONS,
    Callback,
    How,
    Space,
    Step,
    checked_dtype,
    checked_size,
    convert,
    converts,
    given_for_space,
    no_conversion,
)
from dataview.spaces.batch import RowStep
from dataview.spaces.indexes import IndexSpace, LabelSpace, largest, one_hot, same_labels
from dataview.spaces.vector import VectorSpace


class OneSequence(ArraySpace):
    """What the spaces of one sequence have in common: its steps stand along the first axis."""

    steps: ArraySpace
    """The space of its steps, as a batch of them."""

    def get_batch_axis(self) -> int:
        """Raise: a sequence is a batch of one sample."""
        raise TypeError(f"a batch of {self!r} is one sequence; its first axis is time")

    def size_of(self, batch: Any) -> int | None:
        """Return 1: a batch is one sequence."""
        return 1

    def size_if_valid(self, batch: Any) -> int | None:
        """Return 1 if this surely is a batch, None if it has to be checked."""
        return None if super().size_if_valid(batch) is None else 1

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
            raise self.not_alone(f"batch_size={batch_size}")

    def not_alone(self, got: str) -> ValueError:
        """Return the error for another number of sequences than one."""
        several = SequenceSpace(self.steps)
        return ValueError(
            f"a batch of {self!r} is one sequence; got {got}; {several!r} has batches of several, "
            "filled up to the longest"
        )


class VectorSequenceSpace(OneSequence):
    """One sequence of vectors, of any length: a batch is a matrix with a row for each step.

    >>> import numpy as np
    >>> VectorSequenceSpace(dim=3).np_batch_size(np.zeros((7, 3)))      # seven steps, one sequence
    1
    """

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

    @property
    def steps(self) -> VectorSpace:  # type: ignore[override]
        """The space of its steps, as a batch of them."""
        return VectorSpace(self.dim, dtype=self.dtype)


class IndexSequenceSpace(OneSequence, LabelSpace):
    """One sequence of labels, `dim` in each step, of any length: a row for each step.

    Labels are numbers from 0 to `max_labels - 1`.

    >>> import numpy as np
    >>> words = IndexSequenceSpace(max_labels=4)
    >>> words.np_format_as(np.array([[3], [0]]), VectorSequenceSpace(4))
    array([[0., 0., 0., 1.],
           [1., 0., 0., 0.]], dtype=float32)
    """

    roles = ("time", "labels")

    @property
    def steps(self) -> IndexSpace:  # type: ignore[override]
        """The space of its steps, as a batch of them."""
        return IndexSpace(self.max_labels, self.dim, self.dtype)


class SequenceSpace(Space):
    """Several sequences, filled up to the length of the longest: a pair of data and mask.

    `space` is the space of one step of all sequences.  The data have the axis of time in front of
    the axes of `space`.  The mask has an axis of time and one of sequences, and is 1 where there
    are data, and 0 where the sequences are filled up.

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
        if not isinstance(space, ArraySpace) or isinstance(space, OneSequence):
            raise TypeError(
                "the steps of a SequenceSpace are of a space such as VectorSpace(3); "
                f"{given_for_space(space)}"
            )
        if space.sparse:
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
    def in_default_order(self) -> SequenceSpace:
        """The same space with the axes of its steps in their default order."""
        return self._with_steps(self.space.in_default_order)

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
                raise TypeError(
                    f"{where}, {name}: {self!r} takes arrays or views; got {kind}{as_array(part)}"
                )
        shape, marks = batches.extents_of(data), batches.extents_of(mask)
        if len(shape) != len(self.extents):
            raise ValueError(
                f"{where}, data: {self!r} has {len(self.extents)} axes ({', '.join(self.roles)}); "
                f"got the shape {shape_text(shape)}"
            )
        self._check_steps(data, f"{where}, data")
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
        if isinstance(mask, np.ndarray):
            IsMask(where).made(mask, None)

    def size_if_valid(self, batch: Any) -> int | None:
        """Return the number of sequences of what surely is a batch, None for what is to check."""
        if type(batch) is not tuple or len(batch) != 2 or self.has_callbacks:
            return None
        data, mask = batch
        if type(data) is not np.ndarray or type(mask) is not np.ndarray or not len(data):
            return None
        size = self.space.size_if_alike(data[0])
        is_one = size is not None and mask.shape == (len(data), size) and _is_mask(mask)
        return size if is_one and self.space.takes_values(data) else None

    def _check_steps(self, data: Any, where: str) -> None:
        """Raise unless all steps are of the space: a symbol shows it, one step, or all of them."""
        if not isinstance(data, np.ndarray):
            steps = placeholder("steps", batches.extents_of(data)[1:], data.dtype, NO_FIELDS)
            self.space.check(steps, where)
            return
        self.space.check_values(data, where)
        if len(data) and not self._are_alike:
            self.space.check(_merging(self.space)(data), where)
            return
        step = data[0] if len(data) else np.zeros(data.shape[1:], data.dtype)
        self.space.check_form(step, where)
        if self.dtype not in (None, data.dtype):
            self.space.check_dtype(data, where)

    def caster(self, how: How) -> Step:
        """Return what casts the data of a batch to the dtype of the space, if it has one."""
        cast = self.space.caster(how)

        def step(batch: Any) -> Any:
            data, mask = batch
            found, marks = cast(data), checked_mask(mask, how.where)
            return batch if found is data and marks is mask else (found, marks)

        return step

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


def _is_mask(values: np.ndarray) -> bool:
    return bool(np.count_nonzero(values) == np.count_nonzero(values == 1))


class IsMask(RowStep):
    """Rows of a mask, which are checked."""

    __slots__ = ()

    def made(self, values: np.ndarray, told: Callable[[int], str] | None) -> np.ndarray:
        """Return the same rows."""
        if not _is_mask(values):
            raise ValueError(
                f"{self.where}, mask: a mask is 1 where there are data and 0 elsewhere"
            )
        return values


def checked_mask(mask: Any, where: str) -> Any:
    """Return a mask; one that is not read yet is checked when it is."""
    return batches.by_rows(mask, IsMask(where)) if batches.is_node(mask) else mask


@functools.cache
def _merging(space: ArraySpace) -> Step:
    """Return what makes of the steps of all sequences one batch of their space."""
    axis, own = space.get_batch_axis(), space.extents
    before, behind = own[:axis], own[axis + 1 :]
    beside = (*range(1, axis + 1), 0, *range(axis + 1, len(own) + 1))

    def merged(data: Any) -> Any:
        shape = batches.extents_of(data)
        first, second = shape[0], shape[axis + 1]
        steps = None if first is None or second is None else first * second
        return batches.reshaped(batches.transposed(data, beside), *before, steps, *behind)

    return merged


@functools.cache
def _splitting(space: ArraySpace) -> Callable[[Any, int | None, int | None], Any]:
    """Return what makes of a batch of so many steps of so many sequences these again."""
    axis, own = space.get_batch_axis(), space.extents
    before, behind = own[:axis], own[axis + 1 :]
    in_front = (axis, *[n for n in range(len(own) + 1) if n != axis])

    def split(batch: Any, steps: int | None, sequences: int | None) -> Any:
        found = batches.reshaped(batch, *before, steps, sequences, *behind)
        return batches.transposed(found, in_front)

    return split


# --- conversions -------------------------------------------------------------------------------


CONVERSIONS[IndexSequenceSpace, IndexSequenceSpace] = same_labels
CONVERSIONS[VectorSequenceSpace, IndexSequenceSpace] = largest


@converts(VectorSequenceSpace, VectorSequenceSpace)
def _vectors(source: VectorSequenceSpace, target: VectorSequenceSpace, how: How) -> Step:
    if source.dim != target.dim:
        raise no_conversion(source, target, "their steps have not as many numbers")
    return target.caster(how)


@converts(IndexSequenceSpace, VectorSequenceSpace)
def _one_hot(source: IndexSequenceSpace, target: VectorSequenceSpace, how: How) -> Step:
    return one_hot(source, target, how)


@converts(SequenceSpace, SequenceSpace)
def _sequences(source: SequenceSpace, target: SequenceSpace, how: How) -> Step:
    own, wanted = source.space, target.space
    if own.is_laid_out_as(wanted):
        return target.caster(how)

    def step(batch: Any) -> Any:
        data, mask = own.checked_when_read(batch[0], how.where), checked_mask(batch[1], how.where)
        steps = _deferred_steps if batches.is_node(data) else _steps
        return steps(data, batch[1], own, wanted, how), mask

    return step


def _steps(data: Any, mask: Any, source: ArraySpace, target: ArraySpace, how: How) -> Any:
    """Return the data of sequences with each step as another space has it."""
    found = convert(_merging(source)(data), source, target, how)
    return _splitting(target)(found, *batches.extents_of(mask))


_deferred_steps = deferring(_steps)
