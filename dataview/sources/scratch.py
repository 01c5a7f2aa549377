"""Memory for temporary results, used again: touching new memory costs more than computing in it."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from dataview.index.locks import new_lock

REUSED = "reused"
"""The entry of a memo that lists borrowed memory, for its owner to give back."""

SMALLEST, LARGEST = 1 << 18, 1 << 23
"""Smaller pieces are reused by the system's allocator; larger ones are too large to keep."""

MOST_KEPT = 4
"""How many pieces of each size are kept."""

CACHE_LINE = 64
"""The alignment of the memory: the bytes of a line of the cache."""

_kept: dict[int, list[np.ndarray]] = {
    1 << power: [] for power in range(SMALLEST.bit_length() - 1, LARGEST.bit_length())
}


def borrow(
    shape: tuple[int, ...], dtype: np.dtype[Any], pieces: list[np.ndarray] | None
) -> np.ndarray:
    """Return an array, on memory used before if there is any, and add the memory to `pieces`.

    Without pieces it is a new array: nobody will give it back.

    >>> pieces = []
    >>> borrow((100, 1000), np.dtype("f4"), pieces).shape, len(pieces[0])
    ((100, 1000), 524288)
    """
    count = math.prod(shape) * dtype.itemsize
    if pieces is None or count < SMALLEST or dtype.kind not in "biufcmMSUV" or dtype.hasobject:
        return np.empty(shape, dtype)
    size = 1 << (count - 1).bit_length()
    try:
        memory = _kept[size].pop()
    except (KeyError, IndexError):  # so large, or none left: other threads take them too
        size = size if size <= LARGEST else count
        fresh = np.empty(size + CACHE_LINE, np.uint8)
        skipped = -fresh.__array_interface__["data"][0] % CACHE_LINE
        memory = fresh[skipped : skipped + size]
    pieces.append(memory)
    return memory[:count].view(dtype).reshape(shape)


def give_back(pieces: list[np.ndarray]) -> None:
    """Keep memory that nobody uses any more, for later calls."""
    while pieces:
        memory = pieces.pop()
        kept = _kept.get(len(memory))
        if kept is not None and len(kept) < MOST_KEPT:
            kept.append(memory)


# --- memory of results ---------------------------------------------------------------------------


class Recycled:
    """Memory of results that is used again for others once nobody has any part of it.

    An array and all views of it hold the memory that they lie in, and Python counts who holds it.

    >>> memory = Recycled()
    >>> first = memory.array((600, 1000), np.dtype("u1"))
    >>> place, part = first.__array_interface__["data"], first[1:]
    >>> del first
    >>> memory.array((600, 1000), np.dtype("u1")).__array_interface__["data"] == place
    False
    >>> del part
    >>> memory.array((600, 1000), np.dtype("u1")).__array_interface__["data"] == place
    True
    """

    def __init__(self) -> None:
        self._pieces: list[np.ndarray] = []
        self._lock = new_lock()

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """Return an array with any contents, which nobody else has."""
        size = math.prod(shape) * dtype.itemsize
        if not SMALLEST <= size <= LARGEST_RESULT or dtype.hasobject or not _ARE_COUNTED:
            return np.empty(shape, dtype)
        with self._lock:
            piece = self._free(size)
            if piece is None:
                piece = np.empty(size, np.uint8)
                self._pieces = [*self._pieces[1 - MOST_RESULTS :], piece]
        return piece[:size].view(dtype).reshape(shape)

    def _free(self, size: int) -> np.ndarray | None:
        """Return a piece of about this size that nobody holds, None if there is none."""
        for number in range(len(self._pieces)):
            is_alone = _holders(self._pieces, number) == _ALONE
            if is_alone and size <= self._pieces[number].nbytes <= 2 * size:
                return self._pieces[number]
        return None


LARGEST_RESULT = 1 << 25
"""Larger results are not kept for others: they are whole data, and no batches."""

MOST_RESULTS = 6
"""So many results are kept: those of two threads, what is read ahead, and what is in use."""


def _holders(pieces: list[np.ndarray], number: int) -> int:
    return sys.getrefcount(pieces[number])


_ALONE = _holders([np.empty(1)], 0)
"""What is counted of a piece that only its list holds."""

_ARE_COUNTED = (
    sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
)
"""Whether Python counts at once who holds an array; it does not where threads need no lock."""
