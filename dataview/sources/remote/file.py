"""A file elsewhere that stays where it is: parts of one version of it, when they are needed."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dataview.index.sizes import sizes
from dataview.sources.remote.ahead import FIRST, ReadAhead
from dataview.sources.remote.places import Place, look_at_place
from dataview.sources.remote.reading import read_from
from dataview.sources.remote.runs import PastEnd, Range, in_turn
from dataview.sources.remote.urls import is_web, shown
from dataview.sources.remote.web import look_at_web

BEGIN = 1 << 16
"""So many bytes are brought when a file is looked at: headers are among them."""


class RemoteFile:
    """A file elsewhere, of which parts are read; nothing stays open, so any process may use it.

    It takes the place of a claim, which who writes a file has: `note` says in the words of a view
    where the data are.
    """

    __slots__ = ("__weakref__", "ahead", "begin", "note", "place", "size")

    journals = None

    def __init__(self, place: Place, size: int | None = None) -> None:
        self.begin = b""
        if size is None:
            look = look_at_web if is_web(place.url) else look_at_place
            self.begin, size, version = look(place, BEGIN)
            place = place._replace(version=version)
        self.place, self.size = place, size
        self.note = f"parts of {shown(place.url)}"
        self.ahead = ReadAhead(lambda run: read_from(place, [run])[0], size)

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteFile, (self.place, self.size)

    def read_ranges(self, ranges: Iterable[Range]) -> list[bytes]:
        """Return the bytes of ranges, or raise if the file is another by now."""
        return read_from(self.place, ranges)

    def fill(self, block: np.ndarray, runs: Iterable[tuple[int, int]]) -> None:
        """Fill an array with the runs of bytes of these places and sizes, in bounded memory."""
        data: Any = block.reshape(-1).view(np.uint8)
        done = 0
        for group in in_turn(runs, sizes.file_bytes):
            is_small = len(group) == 1 and group[0][1] <= FIRST
            for part in [self.ahead.run(*group[0])] if is_small else self.read_ranges(group):
                data[done : done + len(part)] = np.frombuffer(part, np.uint8)
                done += len(part)

    def reader(self, ranges: Iterable[Range] = ()) -> Reader:
        """Return a file object for libraries; ranges that these will read are brought now."""
        ranges = sorted(ranges)
        return Reader(self, [start for start, _ in ranges], self.read_ranges(ranges))

    def release(self) -> None:
        """Forget what was read ahead; nobody waits for a file that is only read."""
        self.ahead.forget()


def read_up_to(place: Place, ranges: Iterable[Range]) -> list[bytes]:
    """Return the bytes of ranges of a file elsewhere, fewer where it ends; -1 is up to there.

    >>> import fsspec
    >>> fsspec.filesystem("memory").pipe("/read_up_to", b"abcdefgh")
    >>> read_up_to(Place("memory://read_up_to"), [(6, 9), (9, 1), (5, -1)])
    [b'gh', b'', b'fgh']
    >>> fsspec.filesystem("memory").rm("/read_up_to")
    """
    asked = list(ranges)
    if all(length >= 0 for _, length in asked):
        try:
            return read_from(place, asked)
        except PastEnd as error:
            size = error.size
    else:
        size = RemoteFile(place).size
    rest = [(start, max(0, size - start), length) for start, length in asked]
    return read_from(
        place, [(start, left if length < 0 else min(length, left)) for start, left, length in rest]
    )


class Reader(io.RawIOBase):
    """A file object that reads parts of a remote file; those that begin at `starts` are there."""

    def __init__(self, file: RemoteFile, starts: Sequence[int], found: Sequence[bytes]) -> None:
        self.file, self.at = file, 0
        self.starts, self.found = [0, *starts], [file.begin, *found]

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position."""
        self.at = offset + (0, self.at, self.file.size)[whence]
        return self.at

    def tell(self) -> int:
        """Return the position."""
        return self.at

    def size(self) -> int:
        """Return how many bytes the file has."""
        return self.file.size

    def readinto(self, buffer: Any) -> int:
        """Read as many bytes as there are room and data for."""
        start, view = self.at, memoryview(buffer).cast("B")
        stop = min(start + len(view), self.file.size)
        if stop <= start:
            return 0
        place = bisect_right(self.starts, start) - 1
        begin, found = self.starts[place], self.found[place]
        if stop - begin <= len(found):
            view[: stop - start] = memoryview(found)[start - begin : stop - begin]
        else:
            view[: stop - start] = self.file.read_ranges([(start, stop - start)])[0]
        self.at = stop
        return stop - start
