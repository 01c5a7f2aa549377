"""Rows of different lengths in HDF5, which reads whole rows, and tells how long they are only then.

So all rows are read once, in blocks, when the file is opened: their lengths are kept.  Later those
rows are read of which a value is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dataview.formats.contents import NotData
from dataview.index import Array, Index, axis_index, block_index, gather
from dataview.index.flat import layout_of
from dataview.index.sizes import sizes
from dataview.plan.build import stored
from dataview.plan.node import Node
from dataview.plan.ragged import laid_out
from dataview.sources import Memo, Source

FIRST_ROWS = 64
"""So many rows are read at first, to see how large they are."""


class ValuesSource(Source):
    """The values of the rows of a dataset, one after the other; `offsets` say where rows begin."""

    __slots__ = ("dtype", "offsets", "rows", "shape")

    def __init__(self, rows: Source, offsets: np.ndarray, dtype: np.dtype[Any]) -> None:
        self.rows, self.offsets, self.dtype = rows, offsets, dtype
        self.shape = (int(offsets[-1]),)

    def __reduce__(self) -> tuple[Any, ...]:
        return ValuesSource, (self.rows, self.offsets, self.dtype)

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return what the index selects, of the rows that have any of it."""
        return gather.by_rows(index, self._values)

    def _values(self, places: np.ndarray) -> np.ndarray:
        """Return the values at some places, which ascend."""
        found = np.empty(len(places), self.dtype)
        if not len(places):
            return found
        owners = np.searchsorted(self.offsets, places, side="right") - 1
        rows = np.unique(owners)
        sizes_of_rows = self.offsets[rows + 1] - self.offsets[rows]
        ends = np.cumsum(sizes_of_rows) * max(1, self.dtype.itemsize) // sizes.file_bytes
        for part in np.split(rows, np.flatnonzero(np.diff(ends)) + 1):
            values, starts = self._joined(part)
            low, high = np.searchsorted(owners, [part[0], part[-1] + 1])
            owner = owners[low:high]
            inside = places[low:high] - self.offsets[owner]
            found[low:high] = values[starts[np.searchsorted(part, owner)] + inside]
        return found

    def _joined(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the values of some rows together, and where each begins."""
        where = axis_index(self.rows.shape, Array(rows, (0,)), len(rows))
        cells = [_array(cell, self.dtype) for cell in self.rows.read(where, {})]
        lengths = self.offsets[rows + 1] - self.offsets[rows]
        if [len(cell) for cell in cells] != lengths.tolist():
            raise ValueError(
                f"the rows of {self.rows.describe()} have other lengths than when the file was "
                "opened; open it again"
            )
        return np.concatenate(cells), np.cumsum(lengths) - lengths

    @property
    def is_closed(self) -> bool:
        """Whether the file of the rows was closed."""
        return self.rows.is_closed

    def close(self) -> None:
        """Close the file of the rows."""
        self.rows.close()

    def describe(self) -> str:
        """Say where the rows are."""
        return self.rows.describe()


def ragged_rows(rows: Source, dtype: np.dtype[Any]) -> Node:
    """Return the node of a dataset whose elements are rows of a dtype; their lengths are read."""
    if len(rows.shape) != 1:
        raise NotData(
            f"has rows of different lengths along {len(rows.shape)} axes, and such rows are viewed "
            "along one; read it by h5py"
        )
    if not isinstance(dtype, np.dtype) or dtype.hasobject or dtype.subdtype is not None:
        raise NotData(f"has rows of different lengths, of {dtype}; read it by h5py")
    try:
        lengths = np.fromiter(_lengths(rows, dtype), np.intp, rows.shape[0])
    except (OSError, RuntimeError) as error:
        raise NotData(f"has rows that cannot be read: {error}") from error
    layout = layout_of(lengths=lengths)
    return laid_out(stored(ValuesSource(rows, layout.offsets, dtype)), layout, True)


def _lengths(rows: Source, dtype: np.dtype[Any]) -> Iterator[int]:
    start, seen, step, count = 0, 1, FIRST_ROWS, rows.shape[0]
    while start < count:
        cells = rows.read(block_index(rows.shape, start, min(count, start + step)), {})
        for cell in cells:
            length = len(_array(cell, dtype))
            seen += length * dtype.itemsize
            yield length
        start += len(cells)
        step = max(1, min(sizes.file_bytes * start // seen, 1 << 16))


def _array(cell: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Return a row as an array; there is none of one that was never written."""
    return np.empty(0, dtype) if cell is None or not len(cell) else np.asarray(cell, dtype)
