"""The rows of scipy's sparse matrices, made dense when they are read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dataview.index import Index, gather, positions
from dataview.plan.build import stored
from dataview.plan.node import Node
from dataview.sources import Memo, Source

SPARE_TIMES = 8
"""Of scattered places, rows and columns are made dense that cross in at most so many times more."""


class SparseRows(Source):
    """A sparse matrix whose entries lie row by row; of what is not asked for nothing is made."""

    __slots__ = ("dtype", "matrix", "shape")
    advice = "write to the matrix itself, or to dense rows: dv.View(view[rows]())"

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix
        self.shape: tuple[int, ...] = tuple(map(int, matrix.shape))
        self.dtype: np.dtype[Any] = np.dtype(matrix.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return SparseRows, (self.matrix,)

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return what the index selects, of the rows and columns that cross there."""
        if 0 in index.shape:
            return np.ndarray(index.shape, self.dtype)
        if tuple(self.matrix.shape) != self.shape:
            raise ValueError(
                f"the data ({self.describe()}) had the shape {self.shape} when the view was made, "
                f"and now has {self.matrix.shape}; make a view of it anew"
            )
        rows, rest = gather.rows_and_rest(index)
        columns, rest = gather.rows_and_rest(rest, 1)
        if len(rows) * len(columns) > SPARE_TIMES * math.prod(index.shape):
            return self._scattered(index)
        part = self.matrix[_run_or(rows)]
        if len(columns) < self.shape[1]:
            part = part[:, _run_or(columns)]
        return gather.own(np.ascontiguousarray(part.toarray()), rest)

    def _scattered(self, index: Index) -> np.ndarray:
        """Return elements one by one, where whole rows would be much more than these."""
        places = (np.broadcast_to(positions(map_, index.shape), index.shape) for map_ in index.maps)
        found = self.matrix[tuple(place.reshape(-1) for place in places)]
        dense = found.toarray() if hasattr(found, "toarray") else np.asarray(found)
        return np.asarray(dense, self.dtype).reshape(index.shape)

    def is_same(self, other: Source) -> bool:
        """Whether another source is of the same matrix."""
        return isinstance(other, SparseRows) and self.matrix is other.matrix

    def describe(self) -> str:
        """Say how many entries are stored."""
        return f"{type(self.matrix).__name__} with {self.matrix.nnz} entries"


def _run_or(numbers: np.ndarray) -> slice | np.ndarray:
    """Return ascending numbers as a slice if they follow one another, which is quicker."""
    low, high = int(numbers[0]), int(numbers[-1]) + 1
    return slice(low, high) if high - low == len(numbers) else numbers


def of_sparse(matrix: Any) -> Node:
    """Return the node of a matrix in rows (CSR); others are refused, as it would be a copy."""
    kind = type(matrix).__name__
    if len(matrix.shape) != 2:
        raise TypeError(
            f"this {kind} has the shape {tuple(matrix.shape)}, and views are made of sparse "
            "matrices with rows and columns; view its toarray()"
        )
    if matrix.format != "csr":
        raise TypeError(
            f"the entries of a {kind} do not lie row by row, so rows cannot be read from it "
            "quickly; view its tocsr(), whose rows are made dense when they are read, or its "
            "toarray()"
        )
    return stored(SparseRows(matrix))
