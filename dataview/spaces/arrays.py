"""Spaces whose batches are one array: its axes, their lengths and their roles."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from dataview.index.shape_texts import shape_text
from dataview.plan.fields import NO_FIELDS, read_only_meta
from dataview.plan.node import Node
from dataview.plan.symbols import placeholder
from dataview.spaces import batch as batches
from dataview.spaces.base import (
    SPACE,
    Callback,
    How,
    Space,
    Step,
    itself,
    plain_of_batch,
)
from dataview.spaces.batch import Extents


def as_array(batch: Any) -> str:
    """Return how an array is made of what is none, "" if that is not known."""
    has_data = hasattr(batch, "__array__") and np.ndim(batch)
    return "; np.asarray(batch) makes an array of it, dv.View(batch) a view" if has_data else ""


_told_of = functools.lru_cache(maxsize=256)(plain_of_batch)


class ArraySpace(Space):
    """A space whose batches are one array, of which each axis has a length and a role."""

    dtype: np.dtype[Any] | None
    sparse = False
    """Whether batches are scipy's sparse matrices."""

    row_shape: tuple[int, ...]
    """The lengths of all axes but that of the batch, in their order."""

    def __init__(self, facts: dict[str, Any], *callbacks: Iterable[Callback]) -> None:
        row = tuple([n for n in self.extents if n is not None])
        self.__dict__["row_shape"] = row
        self.__dict__["_total"] = math.prod(row)
        self.__dict__["_place"] = self.extents.index(None)
        super().__init__(facts, *callbacks)
        self.__dict__["_shape_tells"] = not (self._calls or self.sparse)

    def check_batch(self, batch: Any, where: str) -> None:
        """Raise unless a batch is one of this space."""
        self.check_form(batch, where)
        self.check_values(batch, where)

    def check_form(self, batch: Any, where: str) -> None:
        """Raise unless a batch is an array of the right shape and dtype."""
        if type(batch) is not np.ndarray:
            self._check_kind(batch, where)
        shape = batch.shape if type(batch) is np.ndarray else batches.extents_of(batch)
        if len(shape) != len(self.extents):
            raise ValueError(
                f"{where}: {self!r} has {len(self.extents)} axes ({', '.join(self.roles)}); got "
                f"the shape {shape_text(shape)}{self.advice(shape)}"
            )
        place = self._place
        if shape[:place] + shape[place + 1 :] != self.row_shape:
            self._check_lengths(shape, where)
        dtype = batch.dtype
        if dtype is None:
            return
        if self.dtype is None:
            if not batches.is_number(dtype):
                raise TypeError(
                    f"{where}: {self!r} holds numbers; got {dtype}; {batches.remedy_for(dtype)}"
                )
        elif dtype != self.dtype:
            self.check_dtype(batch, where)

    def size_if_valid(self, batch: Any) -> int | None:
        """Return the number of samples of what surely is a batch, None if it has to be checked."""
        size = self.size_if_alike(batch)
        return size if size is not None and self.takes_values(batch) else None

    def size_if_alike(self, batch: Any) -> int | None:
        """Return the number of samples of an array that surely has the form of a batch, or None."""
        if type(batch) is not np.ndarray or not self._shape_tells:
            return None
        shape, place = batch.shape, self._place
        if shape[:place] + shape[place + 1 :] != self.row_shape or len(shape) == place:
            return None
        dtype = batch.dtype
        is_of_it = batches.is_number(dtype) if self.dtype is None else dtype == self.dtype
        return shape[place] if is_of_it else None

    def takes_values(self, values: np.ndarray) -> bool:
        """Whether the space has a place for all values of an array with the form of a batch."""
        return True

    def _check_lengths(self, shape: Extents, where: str) -> None:
        for axis, (own, wanted) in enumerate(zip(shape, self.extents, strict=True)):
            if own != wanted and wanted is not None and own is not None:
                raise ValueError(
                    f"{where}: {self!r} has {wanted} {self.roles[axis]}; got {own} of them, in "
                    f"axis {axis} of the shape {shape_text(shape)}{self.advice(shape)}"
                )

    def _check_kind(self, batch: Any, where: str) -> None:
        if isinstance(batch, (list, tuple)):
            remedy = (
                "np.asarray makes an array of a list"
                if isinstance(batch, list)
                else "a tuple is a batch of a CompositeSpace"
            )
            got = f"a {type(batch).__name__} of {len(batch)}"
            raise TypeError(f"{where}: {self!r} takes one array or view; got {got}; {remedy}")
        if batches.is_sparse(batch):
            if not self.sparse:
                raise TypeError(
                    f"{where}: {self!r} takes dense arrays; got a sparse matrix; toarray() makes "
                    "it dense, VectorSpace(..., sparse=True) takes it"
                )
        elif isinstance(batch, np.ma.MaskedArray):
            raise TypeError(f"{where}: a masked array would lose its mask; fill it first")
        elif isinstance(batch, np.matrix):
            raise TypeError(
                f"{where}: {self!r} takes an array or a view; got a matrix, which has two axes "
                "whatever its shape is to be; np.asarray(batch) makes an array of it"
            )
        elif not isinstance(batch, (np.ndarray, Node)):
            raise TypeError(
                f"{where}: {self!r} takes an array or a view; got {type(batch).__name__}"
                f"{as_array(batch)}"
            )

    def check_dtype(self, batch: Any, where: str) -> None:
        """Raise if a batch has numbers that do not fit into the dtype of the space."""
        lost = ""
        try:
            batches.check_cast(batch.dtype, self.dtype, where)
            if not isinstance(batch, Node):
                batches.check_fits(batch, self.dtype)
        except TypeError:
            raise TypeError(
                f"{where}: the data are {batch.dtype}, and {self!r} holds {self.dtype}, which "
                f"would lose what they hold; {batches.remedy_for(batch.dtype, self.dtype)}"
            ) from None
        except OverflowError as error:
            lost = str(error)
        if lost:
            self.check_values(batch, where)  # that a label is out of range says more
            raise OverflowError(f"{where}, as {self!r}: {lost}")

    def check_values(self, batch: Any, where: str) -> None:
        """Raise if an array holds what the space has no place for."""

    def advice(self, shape: tuple[int | None, ...]) -> str:
        """Return what may help with a batch of another shape."""
        if len(shape) == 1 and self.extents == (None, 1):
            return "; batch[:, None] makes it a column"
        if shape == self.row_shape:
            more = f"np.expand_dims(batch, {self._place})" if self._place else "batch[None]"
            return f"; {more} is a batch of this one sample"
        if self._place or len(shape) == len(self.extents):
            return ""
        if [n for n in shape[1:] if n != 1] == [n for n in self.row_shape if n != 1]:
            return f"; batch.reshape{(-1, *self.row_shape)} has them"
        return ""

    def get_batch_axis(self) -> int:
        """Return the number of the axis along which the samples of a batch stand."""
        return self._place  # type: ignore[no-any-return]

    def size_of(self, batch: Any) -> int | None:
        """Return the number of samples of a batch that was checked."""
        return batches.extents_of(batch)[self._place]  # type: ignore[no-any-return]

    def get_total_dimension(self) -> int:
        """Return the number of columns that a batch has as a matrix with a row for each sample."""
        return self._total  # type: ignore[no-any-return]

    def get_origin(self) -> np.ndarray:
        """Return zeros of the shape of one sample."""
        return np.zeros(self.row_shape, self.dtype or float)

    def get_origin_batch(self, batch_size: int, dtype: Any = None) -> Any:
        """Return a batch of zeros, of the space's dtype if none is given."""
        if not isinstance(batch_size, (int, np.integer)):
            raise TypeError(f"batch_size= is a number of samples; got {batch_size!r}")
        if dtype is None and self.dtype is None:
            raise TypeError(f"{self!r} takes any dtype: give dtype= for a batch of zeros")
        if dtype is not None:
            here = f"a batch of zeros of {self!r}"
            batches.check_cast(np.dtype(dtype), self.dtype, here, "leave dtype= out")
        shape = tuple([batch_size if n is None else n for n in self.extents])
        found = np.zeros(shape, self.dtype if dtype is None else dtype)
        return batches.sparse(found) if self.sparse else found

    def caster(self, how: How) -> Step:
        """Return what casts a batch to the dtype of the space, the batch itself if it has none."""
        if self.dtype is None:
            return itself
        return functools.partial(batches.cast, dtype=self.dtype, how=how)

    def declared_on(self, batch: Any, given: Any) -> Any:
        """Return a batch, a node with this space in its metadata unless it is what was given."""
        if batch is given or not isinstance(batch, Node):
            return batch
        return batch.replaced(meta=read_only_meta({SPACE: dict(_told_of(self))}))

    def placeholder(self, name: str, dtype: Any, batch_size: int | None) -> Any:
        """Return the symbol of a batch, as a node."""
        if dtype is not None and self.dtype is not None:
            here = f"a symbol of {self!r}"
            batches.check_cast(np.dtype(dtype), self.dtype, here, "leave dtype= out")
        found = dtype or self.dtype or float
        shape = tuple([batch_size if n is None else n for n in self.extents])
        return placeholder(name, shape, found, NO_FIELDS)
