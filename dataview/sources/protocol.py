"""What every store of data answers: the one protocol between the plan and the data."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from dataview.index import Index

Memo = dict[Any, Any]
"""What one evaluation has already made, so that it is made once."""


class Source(Protocol):
    """An array somewhere, read and written through an index."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def writable(self) -> bool:
        """Whether the data can be changed."""
        ...

    @property
    def lends(self) -> bool:
        """Whether `read` may return an alias of the data, as memory does."""
        ...

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return the elements that the index selects."""
        ...

    def write(self, index: Index, value: np.ndarray) -> None:
        """Write a value of the view's dtype, broadcast to its shape."""
        ...

    def member(self, name: str) -> Source:
        """Return the source of one field of a structured dtype."""
        ...

    def describe(self) -> str:
        """Return a few words that tell a reader where the data is."""
        ...
