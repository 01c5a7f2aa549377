"""Arrays in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataview.index import Index, gather
from dataview.index.boxes import Box
from dataview.sources.packing import Block, Place, Restored, Slab, packed
from dataview.sources.protocol import Memo, Source
from dataview.sources.sharing import Home, Reference, to_memory


class ArraySource(Source):
    """A NumPy array: reading returns aliases of it, writing changes it."""

    __slots__ = ("_home", "_reference", "dtype", "memory", "shape", "writable")
    memory: np.ndarray
    lies_in_memory = True

    def __init__(self, array: np.ndarray) -> None:
        self.writable = bool(array.flags.writeable)
        # The caller could make a read-only array writable again; an alias must stay read-only.
        self.memory = array if self.writable else gather.frozen(array)
        self.shape = array.shape
        self.dtype = array.dtype
        self._reference: Reference | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        found = packed(self.memory)
        if found is None:
            return _copied, (np.array(self.memory, order="K"), self.dtype, self.writable)
        original, needed, place = found
        return _restored, (original, needed, tuple(needed.box), tuple(place), self.writable)

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return the elements that the index selects, an alias where strides describe them."""
        return gather.read(self.memory, index)

    def write(self, index: Index, value: np.ndarray) -> None:
        """Write through the index into the array."""
        gather.assign(self.memory, index, value)

    def member(self, name: str) -> ArraySource:
        """Return one field of the records, which is an array in the same memory."""
        return ArraySource(self.memory[name])

    def reshaped(self, shape: tuple[int, ...]) -> ArraySource | None:
        """Return the same elements in their order under another shape, if they lie in order."""
        return ArraySource(self.memory.reshape(shape)) if self.memory.flags.c_contiguous else None

    def reference(self) -> Reference:
        """Return what finds the memory again as long as its owner lives."""
        if self._reference is None:  # made once, since small writes ask for it each time
            self._reference = to_memory(self, self.memory, ArraySource)
        return self._reference

    @property
    def home(self) -> Home:
        """Where the elements are, found out once: every write asks."""
        try:
            return self._home
        except AttributeError:
            self._home: Home = super().home
            return self._home

    def cut_to(self, key: tuple[Any, ...]) -> Source:
        """Return a source of a block alone."""
        return ArraySource(self.memory[key])

    def describe(self) -> str:
        """Say that this is memory."""
        return "memory"


def _restored(
    whole: Restored, slabs: list[Slab], box: tuple[Any, Any], place: tuple[Any, ...], writable: bool
) -> ArraySource:
    source: ArraySource = object.__new__(ArraySource)

    def put(block: Block) -> None:
        array = Place(*place).array_in(block)
        if not writable:
            array.flags.writeable = False
        source.__init__(array)  # type: ignore[misc]

    whole.use(Box(*box), slabs, put)
    return source


def _copied(array: np.ndarray, dtype: np.dtype[Any], writable: bool) -> ArraySource:
    array = array.astype(dtype, copy=False)  # NumPy's pickles forget the byte order
    if not writable:
        array.flags.writeable = False
    return ArraySource(array)
