"""Vectors: a batch is a matrix with a row for each sample."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from dataview.errors import explained
from dataview.spaces import batch as batches
from dataview.spaces.arrays import ArraySpace
from dataview.spaces.base import (
    Callback,
    How,
    Space,
    Step,
    check_totals,
    checked_dtype,
    checked_size,
    converts,
)


class VectorSpace(ArraySpace):
    """Vectors of `dim` numbers: a batch is a matrix with a row for each sample.

    With `sparse=True` a batch is one of scipy's sparse matrices.  `dtype=None` allows any dtype.

    >>> import numpy as np
    >>> vectors = VectorSpace(dim=3)
    >>> vectors.np_batch_size(np.zeros((4, 3)))
    4
    >>> vectors.get_origin()
    array([0., 0., 0.])
    """

    dim: int
    sparse: bool
    roles = ("batch", "features")

    @explained()
    def __init__(
        self,
        dim: int,
        sparse: bool = False,
        dtype: Any = None,
        *,
        validate_callbacks: Iterable[Callback] = (),
        np_validate_callbacks: Iterable[Callback] = (),
    ) -> None:
        if isinstance(dim, (tuple, list)):
            raise TypeError(
                f"dim= is a whole number; got {dim!r}; a vector has the product of the lengths of "
                "a shape, and a Conv2DSpace the shape"
            )
        dim, dtype = checked_size("dim", dim), checked_dtype(dtype)
        if not isinstance(sparse, (bool, np.bool_)):
            raise TypeError(f"sparse= is True or False; got {sparse!r}; dtype= takes dtypes")
        self.__dict__["extents"] = (None, dim)
        facts = {"dim": dim, "sparse": bool(sparse), "dtype": dtype}
        super().__init__(facts, validate_callbacks, np_validate_callbacks)

    def check_values(self, batch: Any, where: str) -> None:
        """Raise unless the batch is sparse as the space is."""
        if self.sparse and not batches.is_sparse(batch):
            raise TypeError(
                f"{where}: {self!r} takes scipy's sparse matrices; got a dense one; "
                "scipy.sparse.csr_array(batch) makes it sparse"
            )


def densely(space: Space) -> Space:
    """Return a space, without the demand that its batches are sparse."""
    sparse = isinstance(space, VectorSpace) and space.sparse
    return space.replaced(sparse=False) if sparse else space


def as_vectors(batch: Any, target: VectorSpace, how: How) -> Any:
    """Return a matrix as a vector space has it; one that is sparse stays so if it may."""
    if not target.sparse:
        return batches.cast(batches.dense(batch), target.dtype, how)
    found = batches.cast(batch, target.dtype, how)
    return found if batches.is_sparse(found) else batches.sparse(found)


@converts(VectorSpace, VectorSpace)
def _vectors(source: VectorSpace, target: VectorSpace, how: How) -> Step:
    check_totals(source, target)
    return functools.partial(as_vectors, target=target, how=how)
