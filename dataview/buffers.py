"""Memory that is used again: to touch fresh memory costs more than to compute in it."""

from __future__ import annotations

import numpy as np

__all__ = ["REUSED", "give_back", "taken"]

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


def taken(count: int) -> np.ndarray:
    """Return at least so many bytes, used before perhaps.

    >>> memory = taken(300_000)
    >>> len(memory)
    524288
    """
    size = 1 << max(count - 1, SMALLEST - 1).bit_length()
    try:
        return _kept[size].pop()
    except (KeyError, IndexError):  # so large, or none left: other threads take them too
        fresh = np.empty((count if size > LARGEST else size) + LINE, np.uint8)
        skipped = -fresh.__array_interface__["data"][0] % LINE
        return fresh[skipped : len(fresh) - LINE + skipped]


def give_back(pieces: list[np.ndarray]) -> None:
    """Keep memory, of which nobody uses anything any more, for others."""
    while pieces:
        memory = pieces.pop()
        kept = _kept.get(len(memory))
        if kept is not None and len(kept) < MOST_KEPT:
            kept.append(memory)
