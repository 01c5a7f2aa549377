"""Arrays that are computed when they are asked for: dask's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dataview.index import (
    Affine,
    Array,
    Constant,
    Index,
    Map,
    axes_of,
    extent,
    gather,
    positions,
    shifted,
)
from dataview.index.locks import new_lock
from dataview.sources.protocol import Memo, Source

HELD_BYTES = 1 << 27
"""Rows of chunks up to this size are held until others are asked for: it is dask's own size."""

Key = tuple[Any, ...]


class DelayedSource(Source):
    """A dask array; only the chunks that hold what is asked for are computed.

    Chunks are larger than the blocks in which data is read, so the row of chunks that was computed
    last is held: every chunk is computed once in a pass.
    """

    __slots__ = ("_held", "_lock", "array", "dtype", "shape")

    def __init__(self, array: Any) -> None:
        if any(length != length for length in array.shape):  # not a number: dask's unknown length
            raise ValueError(
                f"the dask array has the unknown shape {array.shape}; call its "
                "compute_chunk_sizes() first"
            )
        self.array = array
        self.shape: tuple[int, ...] = tuple(map(int, array.shape))
        self.dtype: np.dtype[Any] = np.dtype(array.dtype)
        self._held: tuple[Key, int, np.ndarray] | None = None
        self._lock = new_lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return DelayedSource, (self.array,)

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return what the index selects, computing the chunks that it needs."""
        pairs = [_cut(map_, index.shape) for map_ in index.maps]
        keys = [key for key, _ in pairs]
        found = self._computed(tuple(keys))
        return np.array(gather.read(found, Index(index.shape, [rest for _, rest in pairs])))

    def _computed(self, keys: Key) -> np.ndarray:
        """Return the array at one key for each axis."""
        band = self._band(keys)
        if band is None:
            return self._fresh(keys)
        start, rows = band
        with self._lock:
            held = self._held
            if held is None or held[:2] != (keys[1:], start):
                whole = self._fresh((slice(start, start + rows), *keys[1:]))
                held = self._held = keys[1:], start, whole
        return held[2][keys[0].start - start : keys[0].stop - start]

    def _band(self, keys: Key) -> tuple[int, int] | None:
        """Return start and length of the row of chunks that some rows lie in, if it can be held."""
        if not all(isinstance(key, slice) for key in keys) or not keys:
            return None
        ends = np.cumsum(self.array.chunks[0])
        number = int(np.searchsorted(ends, keys[0].start, side="right"))
        if number == len(ends) or keys[0].stop > ends[number]:
            return None
        rows = int(self.array.chunks[0][number])
        width = self.dtype.itemsize * math.prod(key.stop - key.start for key in keys[1:])
        return (int(ends[number]) - rows, rows) if rows * width <= HELD_BYTES else None

    def _fresh(self, keys: Key) -> np.ndarray:
        part = self.array[tuple(key if isinstance(key, slice) else slice(None) for key in keys)]
        for axis, key in enumerate(keys):  # dask takes one list in a key
            if not isinstance(key, slice):
                part = part[(slice(None),) * axis + (key,)]
        return np.asarray(part.compute(), dtype=self.dtype)  # one element comes as a scalar

    def describe(self) -> str:
        """Say that dask computes the data."""
        return "dask"


def _cut(map_: Map, shape: tuple[int, ...]) -> tuple[slice | np.ndarray, Map]:
    """Return what to ask an axis for, and the map of the view into what comes back."""
    low, high = extent(map_, shape) or (0, -1)
    count = int(np.prod([shape[axis] for axis in axes_of(map_)]))
    if isinstance(map_, (Constant, Affine)) and high - low < 4 * count:
        return slice(low, high + 1), shifted(map_, low)
    axes = axes_of(map_)
    wanted, places = np.unique(positions(map_, shape), return_inverse=True)
    if len(wanted) and len(wanted) == wanted[-1] - wanted[0] + 1:
        asked: slice | np.ndarray = slice(int(wanted[0]), int(wanted[-1]) + 1)
    else:
        asked = wanted
    return asked, Array(places.reshape([shape[axis] for axis in axes]), axes)
