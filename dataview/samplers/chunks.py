"""A sampler for data that are stored in chunks: rows of a few chunks at a time are mixed."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from dataview.index import Permutation
from dataview.samplers.protocol import Data, Function, Key, Sampler, checked_number


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ChunkPermutation(Sampler):
    """Every row once: the chunks in random order, and the rows of `pool` chunks at a time mixed.

    So a chunk is needed only for a few batches, not for the whole epoch.  `rows` is the length of a
    chunk; by default it is that of the chunks in the file, and 1 for data without chunks.
    """

    name: ClassVar[str] = "chunk-permutation"
    reads: ClassVar[bool] = False

    pool: int = 16
    rows: int | None = None

    def __post_init__(self) -> None:
        checked_number("pool", self.pool, 1)
        if self.rows is not None:
            checked_number("rows", self.rows, 1)

    def at(self, data: Data, key: Key) -> Function:
        """Return the function from positions to rows."""
        length = min(data.chunk if self.rows is None else self.rows, max(1, data.count))
        if length == 1:
            return Permutation(data.count, *key)
        return _Pools(data.count, length, self.pool, key)

    def settled(self, data: Data) -> ChunkPermutation:
        """Return the sampler for chunks of the length that those of the data have now."""
        return dataclasses.replace(self, rows=data.chunk) if self.rows is None else self

    @property
    def chunks(self) -> tuple[int, int] | None:
        """How long chunks are, and how many of them are mixed."""
        return None if self.rows in (None, 1) else (self.rows, self.pool)


class _Pools:
    """The rows at positions: chunks in an order of their own, each pool of them permuted."""

    def __init__(self, count: int, length: int, pool: int, key: Key) -> None:
        self.count, self.length, self.key = count, length, key
        chunks = -(-count // length)
        self.order = Permutation(chunks, *key, "chunks").block(0, chunks)
        lengths = np.full(chunks, length)
        lengths[self.order == chunks - 1] -= chunks * length - count
        self.reached = np.cumsum(lengths)
        self.pools = np.append(self.reached[pool - 1 : -1 : pool], count)
        self.last: tuple[int, Permutation] | None = None

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        numbers = np.searchsorted(self.pools, positions, side="right")
        found = np.empty(positions.shape, np.intp)
        for number in np.unique(numbers).tolist():
            here = numbers == number
            start = int(self.pools[number - 1]) if number else 0
            mixed = self._mixed(number, int(self.pools[number]) - start)
            found[here] = start + mixed(positions[here] - start)
        place = np.searchsorted(self.reached, found, side="right")
        starts = np.append(0, self.reached)[place]
        return np.asarray(self.order[place] * self.length + found - starts)

    def _mixed(self, pool: int, count: int) -> Permutation:
        """Return the order of the rows of a pool; the next positions are most often of the same."""
        last = self.last
        if last is None or last[0] != pool:
            last = self.last = pool, Permutation(count, *self.key, "rows", pool)
        return last[1]
