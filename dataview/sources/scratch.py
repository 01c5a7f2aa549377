"""Memory that is used again: to touch fresh memory costs more than to compute in it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

REUSED = "reused"
"""Where a memo lists the memory that it lends to sources, until its owner gives it back."""

SMALLEST, LARGEST = 1 << 18, 1 << 23
"""Smaller memory the system's allocator keeps for itself; larger is too much to hold on to."""

MOST_KEPT = 4
"""So many pieces of one size are kept."""

LINE = 64
"""They begin where a line of the cache begins."""

_kept: dict[int, list[np.ndarray]] = {
    1 << power: [] for power in range(SMALLEST.bit_length() - 1, LARGEST.bit_length())
}


def borrowed(shape: tuple[int, ...], dtype: np.dtype[Any], pieces: list[np.ndarray]) -> np.ndarray:
    """Return an array on memory used before, perhaps, which is added to `pieces`.

    >>> pieces = []
    >>> borrowed((100, 1000), np.dtype("f4"), pieces).shape, len(pieces[0])
    ((100, 1000), 524288)
    """
    count = math.prod(shape) * dtype.itemsize
    if count < SMALLEST or dtype.kind not in "biufcmMSUV" or dtype.hasobject:
        return np.empty(shape, dtype)
    size = 1 << (count - 1).bit_length()
    try:
        memory = _kept[size].pop()
    except (KeyError, IndexError):  # so large, or none left: other threads take them too
        size = size if size <= LARGEST else count
        fresh = np.empty(size + LINE, np.uint8)
        skipped = -fresh.__array_interface__["data"][0] % LINE
        memory = fresh[skipped : skipped + size]
    pieces.append(memory)
    return memory[:count].view(dtype).reshape(shape)


def give_back(pieces: list[np.ndarray]) -> None:
    """Keep memory, of which nobody uses anything any more, for others."""
    while pieces:
        memory = pieces.pop()
        kept = _kept.get(len(memory))
        if kept is not None and len(kept) < MOST_KEPT:
            kept.append(memory)
