"""Rows added to arrays of libraries, which write them into an array that is longer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dataview.index import block_index, compose, identity
from dataview.sources import Source


class Resized:
    """Rows that are being added to an array that has `resize`; `source` makes a source of it.

    It is resized first, and what is not written yet is zeros: an array that others can see at once
    has another `_lengthen`.  `flushes` is what is done when rows were added to all arrays, or taken
    back: by a key of its own, since it is done once for all arrays that have it.
    """

    def __init__(
        self,
        array: Any,
        count: int,
        source: Callable[[Any], Source],
        flushes: Mapping[Any, Callable[[], Any]],
    ) -> None:
        self.array, self.flushes = array, flushes
        self.shape = tuple(array.shape)
        self._lengthen((self.shape[0] + count, *self.shape[1:]))
        try:
            self.source = source(self.array)
        except BaseException:
            self.undo()
            raise

    def _lengthen(self, shape: tuple[int, ...]) -> None:
        """Give the array room for the rows."""
        self.array.resize(shape)

    def write(self, key: Sequence[slice], block: np.ndarray) -> None:
        """Write a part of the new rows."""
        index = identity(self.source.shape)
        for axis, part in enumerate(key):
            first = 0 if axis else self.shape[0]
            start, stop = part.start + first, part.stop + first
            index = compose(index, block_index(index.shape, start, stop, axis))
        self.source.write(index, block)

    def settle(self) -> None:
        """Do nothing: the library writes what it holds back when all arrays were finished."""

    def finish(self) -> Source:
        """Return the source that has all rows."""
        return self.source

    def undo(self) -> None:
        """Leave the array as it was."""
        self.array.resize(self.shape)
