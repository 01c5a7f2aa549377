"""Rows of a store in chunks: whole chunks are read, and kept as long as an order stays in them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from dataview.compute import listen
from dataview.plan.kinds import Stored
from dataview.plan.node import Node
from dataview.plan.walk import below
from dataview.sources import Source


def has_chunks(node: Node) -> bool:
    """Whether rows of a node are read from stores by chunks, and are the same each time."""
    parts = below([node])
    stores = [part.source for part in parts if isinstance(part, Stored)]
    is_read = any(source.chunk_rows > 1 for source in stores)
    return is_read and all(part.deterministic for part in parts)


class KeptChunks:
    """Reads rows by whole chunks of `length` rows; up to `most` chunks are kept, those used last.

    They are forgotten when something is written that they may have been read from.  Threads may
    share it; each process reads its own.
    """

    __slots__ = ("__weakref__", "count", "kept", "length", "lock", "most", "read", "sources")

    def __init__(
        self, node: Node, read: Callable[[np.ndarray], Any], length: int, most: int
    ) -> None:
        self.read, self.length, self.most = read, length, most
        self.count = int(node.count or 0)
        self.sources = [part.source for part in below([node]) if isinstance(part, Stored)]
        self.kept: OrderedDict[int, np.ndarray] = OrderedDict()
        self.lock = threading.Lock()
        listen(self)

    def written(self, is_changed: Callable[[Source], bool]) -> None:
        """Forget all chunks if a source of them was changed."""
        if any(map(is_changed, self.sources)):
            self.kept = OrderedDict()  # what is being read goes into the old one

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return rows by their numbers, in an array of their own."""
        numbers = np.asarray(rows)
        if not len(numbers):
            return np.asarray(self.read(numbers))
        chunks = numbers // self.length
        order = chunks.argsort(kind="stable")
        ordered = chunks[order]
        cuts = (ordered[1:] != ordered[:-1]).nonzero()[0] + 1
        ends = [0, *cuts.tolist(), len(order)]  # np.split would take most of the time of a batch
        groups = [order[start:stop] for start, stop in pairwise(ends)]
        needed = ordered[ends[:-1]].tolist()
        blocks = self._blocks(needed)
        found = np.empty((len(numbers), *blocks[0].shape[1:]), blocks[0].dtype)
        for chunk, group, block in zip(needed, groups, blocks, strict=True):
            found[group] = block[numbers[group] - chunk * self.length]
        return found

    def _blocks(self, needed: list[int]) -> list[np.ndarray]:
        """Return chunks by their numbers; those that are not kept are read together."""
        kept = self.kept
        with self.lock:
            missing = [chunk for chunk in needed if chunk not in kept]
            for chunk, block in zip(missing, self._read(missing), strict=True):
                kept[chunk] = block
            for chunk in needed:
                kept.move_to_end(chunk)
            found = [kept[chunk] for chunk in needed]
            while len(kept) > self.most:
                kept.popitem(last=False)
        return found

    def _read(self, chunks: list[int]) -> list[np.ndarray]:
        if not chunks:
            return []
        starts = [chunk * self.length for chunk in chunks]
        spans = [np.arange(start, min(self.count, start + self.length)) for start in starts]
        rows = np.asarray(self.read(np.concatenate(spans)))
        return np.split(rows, np.cumsum([len(span) for span in spans])[:-1])
