"""Memory for temporary results, used again: touching new memory costs more than computing in it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

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
