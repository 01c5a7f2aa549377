"""Labels as numbers, and as vectors that are 1 at the place of the label."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np

from dataview.errors import explained
from dataview.spaces import batch as batches
from dataview.spaces.arrays import ArraySpace
from dataview.spaces.base import (
    CONVERSIONS,
    Callback,
    How,
    Step,
    checked_dtype,
    checked_size,
    converts,
    no_conversion,
)
from dataview.spaces.batch import RowStep
from dataview.spaces.vector import VectorSpace

ONE_HOT = np.dtype(np.float32)
"""The dtype of what labels become where the space is for any."""


class LabelSpace(ArraySpace):
    """What the spaces of labels have in common: rows of `dim` labels from 0 to `max_labels - 1`."""

    max_labels: int | None
    dim: int

    @explained()
    def __init__(
        self,
        max_labels: int | None,
        dim: int = 1,
        dtype: Any = "int64",
        *,
        validate_callbacks: Iterable[Callback] = (),
        np_validate_callbacks: Iterable[Callback] = (),
    ) -> None:
        if max_labels is not None:  # which it is until it is given
            max_labels = checked_size("max_labels", max_labels)
        dim, dtype = checked_size("dim", dim), checked_dtype(dtype)
        if dtype is None or dtype.kind not in "iu":
            raise ValueError(f"labels are integers: dtype= is one of theirs; got {dtype}")
        if max_labels is not None and max_labels - 1 > np.iinfo(dtype).max:
            raise ValueError(
                f"{dtype} holds labels up to {np.iinfo(dtype).max}, and max_labels={max_labels} "
                "has larger ones; give a wider dtype="
            )
        self.__dict__["extents"] = (None, dim)
        facts = {"max_labels": max_labels, "dim": dim, "dtype": dtype}
        super().__init__(facts, validate_callbacks, np_validate_callbacks)

    def with_dtype(self, dtype: Any) -> Self:
        """Return the same space for another dtype; for None itself, as labels need one."""
        return self if dtype is None else super().with_dtype(dtype)

    def check_values(self, batch: Any, where: str) -> None:
        """Raise if a label is out of range."""
        if isinstance(batch, np.ndarray):
            check_labels(batch, self.max_labels, where)

    def takes_values(self, values: np.ndarray) -> bool:
        """Whether all labels are in range."""
        return _are_labels(values, self.max_labels)

    def caster(self, how: How) -> Step:
        """Return what casts labels to the dtype of the space; those not read yet are checked."""
        cast = super().caster(how)
        return lambda batch: cast(self.checked_when_read(batch, how.where))

    def checked_when_read(self, batch: Any, where: str) -> Any:
        """Return a batch; labels that are not read yet are checked when they are."""
        step = InRange(self.max_labels, where)
        return batches.by_rows(batch, step) if batches.is_node(batch) else batch

    def _check_kind(self, batch: Any, where: str) -> None:
        super()._check_kind(batch, where)
        if batches.is_sparse(batch):
            raise TypeError(f"{where}: {self!r} takes dense arrays; got a sparse matrix")


class IndexSpace(LabelSpace):
    """Rows of `dim` labels, each a number from 0 to `max_labels - 1`.

    >>> import numpy as np
    >>> IndexSpace(max_labels=10).validate(np.array([[3], [9]]))

    Labels become vectors that are 1 at the label.  If the vectors have `max_labels` numbers, the
    labels of a row are merged into one vector; if they have `dim * max_labels` numbers, there is a
    vector for each label, side by side:

    >>> labels = IndexSpace(max_labels=4, dim=2)
    >>> labels.np_format_as(np.array([[0, 2]]), VectorSpace(4))
    array([[1., 0., 1., 0.]], dtype=float32)
    >>> labels.np_format_as(np.array([[0, 2]]), VectorSpace(8))
    array([[1., 0., 0., 0., 0., 0., 1., 0.]], dtype=float32)
    """

    roles = ("batch", "labels")


_UNSIGNED = {
    np.dtype(f"{order}i{n}"): (np.dtype(f"{order}u{n}"), 2 ** (8 * n - 1))
    for n in (1, 2, 4, 8)
    for order in "<>"
}
"""By signed dtypes the unsigned ones of the same size, and how many labels the signed ones hold."""


def _are_labels(values: np.ndarray, count: int | None) -> bool:
    """Whether no label is negative, and all are below the number of labels."""
    if not values.size:
        return True
    unsigned, held = _UNSIGNED.get(values.dtype, (None, 0))
    if unsigned is None:
        return count is None or bool(values.max() < count)
    if count is None or count > held:  # no label that the dtype holds is too large
        return bool(values.min() >= 0)
    # as unsigned numbers those below 0 are the largest ones, so that one pass is enough
    return bool(np.maximum.reduce(values.view(unsigned), axis=None) < count)


def check_labels(
    values: np.ndarray, count: int | None, where: str, told: Callable[[int], str] = "row {}".format
) -> None:
    """Raise if a label is negative, or not below the number of labels; `told` names a row."""
    if _are_labels(values, count):
        return
    wrong = (values < 0) | (values >= count if count is not None else False)
    place = np.argwhere(wrong)[0].tolist()
    row = told(place[0]) if values.ndim < 3 else f"step {place[0]} of row {place[1]}"
    raise ValueError(
        f"{where}: label {values[tuple(place)]} in {row} is out of range: labels are numbers "
        f"from 0 {'on' if count is None else f'to {count - 1}'}"
    )


# --- steps -------------------------------------------------------------------------------------


class OneHot(RowStep):
    """Rows of labels as vectors: merged, or side by side."""

    __slots__ = ("count", "dtype", "merge")

    def __init__(self, count: int, merge: bool, dtype: np.dtype[Any], where: str) -> None:
        super().__init__(where)
        self.count = count
        self.merge = merge
        self.dtype = dtype

    def made(self, values: np.ndarray, told: Callable[[int], str] | None) -> np.ndarray:
        """Return the vectors of some rows."""
        if told is not None:  # of an array they are checked already
            check_labels(values, self.count, self.where, told)
        rows, dim = values.shape
        parts = 1 if self.merge else dim  # of a vector, each with a place for every label
        found = np.zeros((rows, parts * self.count), self.dtype)
        starts = np.arange(0, rows * parts * self.count, self.count).reshape(rows, parts)
        places = values.astype(np.intp, copy=False) + starts
        found.reshape(-1)[places] = 1
        return found

    def sparse(self, batch: Any) -> Any:
        """Return the vectors of labels, which were checked, as a sparse matrix."""
        batches.check_is_read(batch)
        (width,) = self.row_shape(batch.shape[1:])
        starts = 0 if self.merge else np.arange(0, width, self.count)
        return batches.sparse_ones(batch.astype(np.intp) + starts, width, self.dtype)

    def row_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the length of a vector."""
        return (self.count if self.merge else shape[0] * self.count,)

    def result(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of the vectors."""
        return self.dtype


class Largest(RowStep):
    """The places of the largest numbers in vectors of several parts."""

    __slots__ = ("dim", "dtype")

    def __init__(self, dim: int, dtype: np.dtype[Any], where: str) -> None:
        super().__init__(where)
        self.dim = dim
        self.dtype = dtype

    def made(self, values: np.ndarray, told: Callable[[int], str] | None) -> np.ndarray:
        """Return the labels of some rows."""
        length = values.shape[1] // self.dim
        parts = values.reshape(len(values), self.dim, length)
        if values.dtype.kind not in "biu" and (lost := np.isnan(values)).any():
            row = (told or "row {}".format)(int(lost.any(axis=1).argmax()))
            raise ValueError(
                f"{self.where}: {row} has NaN, so that no number in it is the largest; fill it "
                "before, as np.where(np.isnan(x), 0, x) does"
            )
        return np.asarray(parts.argmax(axis=2).astype(self.dtype))

    def row_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of labels of a row."""
        return (self.dim,)

    def result(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of the labels."""
        return self.dtype


class InRange(RowStep):
    """Rows of labels, each of which is checked."""

    __slots__ = ("count",)

    def __init__(self, count: int | None, where: str) -> None:
        super().__init__(where)
        self.count = count

    def made(self, values: np.ndarray, told: Callable[[int], str] | None) -> np.ndarray:
        """Return the same rows."""
        check_labels(values, self.count, self.where, told or "row {}".format)
        return values


_AS_NUMBERS = "; a field that is not declared as labels, as after _astype(float), goes as it is"

# --- conversions -------------------------------------------------------------------------------


def one_hot(source: LabelSpace, target: Any, how: How) -> Step:
    """Return what makes vectors of labels, of the length that another space has."""
    count, dtype = source.max_labels, target.dtype or ONE_HOT
    if count is None:
        raise no_conversion(
            source,
            target,
            "the number of labels is not known; declare it, as in IndexSpace(max_labels=10, dim=1)",
        )
    if target.dim not in (count, source.dim * count):
        raise no_conversion(
            source,
            target,
            f"merged they have {count} numbers, side by side {source.dim * count}, "
            f"not {target.dim}{_AS_NUMBERS if target.dim == source.dim else ''}",
        )
    step = OneHot(count, target.dim == count, dtype, how.where)
    if target.sparse:
        return step.sparse
    return functools.partial(batches.by_rows, step=step)


CONVERSIONS[IndexSpace, VectorSpace] = one_hot


@converts(IndexSpace, IndexSpace)
def same_labels(source: LabelSpace, target: LabelSpace, how: How) -> Step:
    """Return what makes of labels those of another space, which is the same but for the dtype."""
    if source.dim != target.dim:
        raise no_conversion(source, target, "they have not as many labels a row")
    known = source.max_labels, target.max_labels
    if None not in known and known[0] != known[1]:
        raise no_conversion(source, target, "they are not among as many labels")
    cast = ArraySpace.caster(target, how)
    step = None if known[0] == known[1] or known[1] is None else InRange(known[1], how.where)

    def cast_labels(batch: Any) -> Any:
        found = source.checked_when_read(batch, how.where)  # an array is checked already
        return cast(found if step is None else batches.by_rows(found, step))

    return cast_labels


@converts(VectorSpace, IndexSpace)
def largest(source: Any, target: LabelSpace, how: How) -> Step:
    """Return what makes labels of vectors: the places of the largest numbers."""
    count = target.max_labels
    if not how.argmax:
        raise no_conversion(source, target, how.remedy("label"))
    if count is None or source.dim != target.dim * count:
        raise no_conversion(source, target, f"a row has no {target.dim} parts, one for each label")
    assert target.dtype is not None
    rows = Largest(target.dim, target.dtype, how.where)
    return lambda batch: batches.by_rows(batches.dense(batch), rows)
