"""Rows of a store in chunks: whole chunks are read, and kept as long as an order stays in them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from dataview.compute import listen
from dataview.index.locks import new_lock
from dataview.plan.kinds import Stored
from dataview.plan.node import Node
from dataview.plan.walk import below
from dataview.sources import Source


def may_be_kept(node: Node) -> bool:
    """Whether rows of a node are read from a store, and are the same each time."""
    parts = below([node])
    is_read = any(isinstance(part, Stored) and part.source.memory is None for part in parts)
    return is_read and all(part.deterministic for part in parts)


class _Held:
    """Chunks in the slots of one array, so that rows of several are taken in one call."""

    __slots__ = ("free", "rows", "slots")

    def __init__(self, count: int) -> None:
        self.free = list(range(count))
        self.slots: OrderedDict[int, int] = OrderedDict()
        self.rows: np.ndarray | None = None  # until it is known what the rows are like

    def forget(self, most: int) -> None:
        """Keep at most so many chunks, those used last."""
        while len(self.slots) > most:
            self.free.append(self.slots.popitem(last=False)[1])


class KeptChunks:
    """Reads rows by whole chunks of `length` rows; up to `most` chunks are kept, those used last.

    They are forgotten when something is written that they may have been read from.  Threads may
    share it; each process reads its own.
    """

    __slots__ = ("__weakref__", "count", "held", "length", "lock", "most", "read", "sources")

    def __init__(
        self, node: Node, read: Callable[[np.ndarray], Any], length: int, most: int
    ) -> None:
        self.read, self.length, self.most = read, length, most
        self.count = int(node.count or 0)
        self.sources = [part.source for part in below([node]) if isinstance(part, Stored)]
        self.held = self._none()
        self.lock = new_lock()
        listen(self)

    def _none(self) -> _Held:
        return _Held(2 * self.most)  # a batch may begin in some chunks and end in as many others

    def written(self, is_changed: Callable[[Source], bool]) -> None:
        """Forget all chunks if a source of them was changed."""
        if any(map(is_changed, self.sources)):
            self.held = self._none()  # what is being read goes into the old one

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return rows by their numbers, in an array of their own."""
        numbers = np.asarray(rows)
        chunks, which = np.unique(numbers // self.length, return_inverse=True)
        if not 0 < len(chunks) <= 2 * self.most:  # so scattered are rows of no chunk-wise order
            return np.asarray(self.read(numbers))
        with self.lock:
            held = self.held
            slots = self._slots(held, chunks.tolist())
            assert held.rows is not None
            found: np.ndarray = held.rows.take(
                (slots - chunks)[which] * self.length + numbers, axis=0
            )
        return found

    def _slots(self, held: _Held, needed: list[int]) -> np.ndarray:
        """Return where chunks are held, by their numbers; those that are not are read together."""
        missing = [chunk for chunk in needed if chunk not in held.slots]
        for chunk in needed:
            if chunk in held.slots:
                held.slots.move_to_end(chunk)
        held.forget(2 * self.most - len(missing))
        for chunk, block in zip(missing, self._read(missing), strict=True):
            if held.rows is None:
                held.rows = np.empty((2 * self.most * self.length, *block.shape[1:]), block.dtype)
            slot = held.free.pop()
            held.rows[slot * self.length :][: len(block)] = block
            held.slots[chunk] = slot
        found = np.array([held.slots[chunk] for chunk in needed])
        held.forget(self.most)
        return found

    def _read(self, chunks: list[int]) -> list[np.ndarray]:
        if not chunks:
            return []
        starts = [chunk * self.length for chunk in chunks]
        spans = [np.arange(start, min(self.count, start + self.length)) for start in starts]
        rows = np.asarray(self.read(np.concatenate(spans)))
        return np.split(rows, np.cumsum([len(span) for span in spans])[:-1])
