"""Arrays in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataview.index import Computed, Index, extent, gather, shifted
from dataview.sources.protocol import Memo


class ArraySource:
    """A NumPy array, seen where it is: reading lends it, writing changes it.

    A member of a structured array knows the whole array (`root`) and its way in it (`path`).
    """

    __slots__ = ("_root", "array", "dtype", "path", "shape", "writable")
    lends = True

    def __init__(
        self, array: np.ndarray, root: ArraySource | None = None, path: tuple[str, ...] = ()
    ) -> None:
        self.writable = bool(array.flags.writeable)
        # The caller could make a read-only array writable again, but not what is lent of it.
        self.array = array if self.writable else gather.frozen(array)
        self.shape = array.shape
        self.dtype = array.dtype
        self._root = root
        self.path = path

    @property
    def root(self) -> ArraySource:
        """The source of the whole array."""
        return self._root or self

    def __reduce__(self) -> tuple[Any, ...]:
        if self._root is not None:
            return self._root.descendant, (self.path,)
        return _restored, (np.array(self.array, order="K"), self.dtype, self.writable)

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return the elements that the index selects, an alias where strides can tell them."""
        return gather.read(self.array, index)

    def write(self, index: Index, value: np.ndarray) -> None:
        """Write through the index into the array."""
        gather.assign(self.array, index, value)

    def member(self, name: str) -> ArraySource:
        """Return one field of a structured array, on the same memory."""
        return ArraySource(self.array[name], self.root, (*self.path, name))

    def reshaped(self, shape: tuple[int, ...]) -> ArraySource | None:
        """Return the same elements in their order under another shape, if they lie in order."""
        return ArraySource(self.array.reshape(shape)) if self.array.flags.c_contiguous else None

    def descendant(self, path: tuple[str, ...]) -> ArraySource:
        """Return the member at the end of a way of names."""
        source = self
        for name in path:
            source = source.member(name)
        return source

    def describe(self) -> str:
        """Say that this is memory."""
        return "memory"

    def slab(self, indices: list[Index | None]) -> tuple[ArraySource, list[int]]:
        """Return the smallest block that holds what the indices select, and where it begins.

        None stands for the whole array.
        """
        if None in indices:
            return self, [0] * len(self.shape)
        low, high = list(self.shape), [0] * len(self.shape)
        for index in indices:
            if index is None or 0 in index.shape:
                continue
            for axis, map_ in enumerate(index.maps[: len(low)]):
                computed = isinstance(map_, Computed)
                ends = None if computed else extent(map_, index.shape)
                if ends is None:  # anything of the axis, perhaps
                    ends = 0, self.shape[axis] - 1
                low[axis] = min(low[axis], ends[0])
                high[axis] = max(high[axis], ends[1] + 1)
        low = [min(pair) for pair in zip(low, high, strict=True)]
        key: tuple[Any, ...] = (*map(slice, low, high), ...)
        return ArraySource(self.array[key]), low

    @staticmethod
    def moved(index: Index, low: list[int]) -> Index:
        """Return an index into the whole array as the same index into a block of it."""
        by = low + [0] * (len(index.maps) - len(low))
        return Index(index.shape, list(map(shifted, index.maps, by)))


def _restored(array: np.ndarray, dtype: np.dtype[Any], writable: bool) -> ArraySource:
    array = array.astype(dtype, copy=False)  # NumPy's pickles forget the byte order
    if not writable:
        array.flags.writeable = False
    return ArraySource(array)
