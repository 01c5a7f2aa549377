"""Arrays that are read once, when they are first needed: from files that give no part of them."""

from __future__ import annotations

import threading
from abc import abstractmethod
from typing import Any

import numpy as np

from dataview.index import Index
from dataview.sources import Memo, Source


class LateSource(Source):
    """An array that `loaded` reads, once, as a source of the same data.

    `opening` says whether the file was closed, and closes it.
    """

    __slots__ = ("_found", "_lock", "dtype", "opening", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], opening: Any) -> None:
        self.shape, self.dtype, self.opening = shape, dtype, opening
        self._found: Source | None = None
        self._lock = threading.Lock()

    @abstractmethod
    def loaded(self) -> Source:
        """Read the data."""

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return what the index selects, in a new array."""
        self.opening.check()
        with self._lock:
            if self._found is None:
                self._found = self.loaded()
        found = self._found.read(index, {})
        return found if self._found.memory is None else np.array(found)

    def close(self) -> None:
        """Have all views of the file say that it is closed."""
        self.opening.close()
