"""Room on the disk that is kept for HDF5, which finds out late that there is none.

It writes when chunks leave its memory, or when the file is closed.  If that fails, the file is
broken, and nothing can be undone.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from dataview.index.locks import new_rlock
from dataview.sources import keep_room

MOST_PENDING = 1 << 28
"""Of more bytes that may wait in the memory of HDF5, it is told to write them."""

MORE = 1 << 24
"""So much more room is kept at a time if there is so much, since to ask for it takes a while."""

AROUND = 1 << 16
"""Bytes that HDF5 may need for what it notes of a dataset, apart from its chunks."""


class Room:
    """Bytes behind the end of a file that is open, for chunks that come to lie there."""

    def __init__(self, file: Any, path: str) -> None:
        self.file, self.path = file, path
        self.process = os.getpid()
        self.lock = new_rlock()
        self.is_local = file.driver == "sec2" and not file.swmr_mode
        self.kept = self.pending = 0  # bytes, since all was written

    def keep(self, count: int) -> None:
        """Keep so many bytes more, or raise while nothing is changed."""
        if not self.is_local:
            return
        with self.lock:
            if self.pending + count > MOST_PENDING:
                self.store()
            try:
                self._keep(count)
            except OSError:
                if not self.pending:
                    raise
                self.store()  # chunks that wait may have been counted many times
                self._keep(count)

    def _keep(self, count: int) -> None:
        missing = self.pending + count - self.kept
        if missing > 0:
            handle = self.file.id.get_vfd_handle()
            if not self.kept:  # what waits already may lie behind the end that the disk knows
                missing += max(0, self.file.id.get_filesize() - os.fstat(handle).st_size)
            try:
                keep_room(handle, missing + MORE, self.path)
                self.kept += missing + MORE
            except OSError:
                keep_room(handle, missing, self.path)
                self.kept += missing
        self.pending += count

    def store(self) -> None:
        """Have HDF5 write all that waits, and give back what was not needed."""
        if not self.file or self.process != os.getpid():
            return
        with self.lock:
            self.file.flush()
            if self.kept:
                os.ftruncate(self.file.id.get_vfd_handle(), self.file.id.get_filesize())
            self.kept = self.pending = 0


def room_for_rows(dataset: Any, count: int) -> int:
    """Return how many bytes more rows of a dataset may take in its file, texts apart."""
    old, *lengths = dataset.shape
    first, *sides = dataset.chunks
    rows = -(-(old + count) // first) - old // first
    across = (-(-length // side) for length, side in zip(lengths, sides, strict=True))
    return int(AROUND + rows * math.prod(across) * _most_of_chunk(dataset))


def room_for_slab(chunks: Sequence[int], each: int, asked: Sequence[slice | np.ndarray]) -> int:
    """Return how many bytes the chunks of a slab may take, if each may take so many."""
    return AROUND + each * math.prod(map(_met, asked, chunks))


def moving_bytes(dataset: Any) -> int:
    """Return how many bytes a chunk that is written may need, 0 if chunks have their places."""
    if not dataset.chunks:
        return 0
    size = dataset.size * dataset.id.get_type().get_size()
    is_packed = dataset.id.get_create_plist().get_nfilters()
    is_late = dataset.id.get_storage_size() < size
    return _most_of_chunk(dataset) if is_packed or is_late else 0


def _met(part: slice | np.ndarray, side: int) -> int:
    """Return in how many chunks along an axis some positions may be."""
    if isinstance(part, slice):
        return max(0, int((part.stop - 1) // side - part.start // side + 1))
    return len(np.unique(part // side))


def _most_of_chunk(dataset: Any) -> int:
    """Return how many bytes a chunk may take with what is noted of it: packed, it may be longer."""
    size: int = math.prod(dataset.chunks) * dataset.id.get_type().get_size()
    return size + size // 500 + 32 * (len(dataset.chunks) + 4)
