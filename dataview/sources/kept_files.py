"""Files that stay open: where few rows are read at a time, most of the time goes into calls.

A file stays open once it was read often.  It is mapped, too, once reading rows by number has taken
about as long as loading all of its pages: so nothing is loaded for a few rows, and a file that is
not in memory is read once, in its order.  Rows are taken from the map as from an array: if the file
is shorter by now, or the disk is broken, the map says so, and the process goes on.  Few files stay
open, and the maps have a limit; both end with the views of a file, or when these are closed.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import sys
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from dataview.index import Index, Rows
from dataview.index.locks import new_lock
from dataview.index.sizes import sizes
from dataview.sources import file_rows, lost_pages
from dataview.sources.file_pieces import GAP, Block

if sys.platform == "linux":
    import resource

if TYPE_CHECKING:
    import io

CALL = 1 << 14
"""A call takes as long as loading so many bytes that the system has in memory."""

CALLS = 64
"""So many calls are made before a file stays open."""

MOST_FILES = 16
"""A process may have few open files."""

FEW = 16
"""So few rows are read one by one."""

_latest: list[weakref.ref[KeptFile]] = []
_changing = new_lock()


class OpenFile:
    """An open file: its device, inode and size, and its map, if it has one.

    Whether it has one is settled when much was read.  It is closed when nobody reads it any more.
    """

    __slots__ = ("handle", "is_settled", "known", "pages")

    def __init__(self, file: io.FileIO) -> None:
        now = os.fstat(file.fileno())
        self.known = now.st_dev, now.st_ino, now.st_size
        self.pages: lost_pages.Map | None = None
        self.is_settled = not 0 < now.st_size <= sizes.mapped_bytes
        self.handle = os.dup(file.fileno())

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            os.close(self.handle)

    def load(self) -> None:
        """Map the file, if it may stay in memory."""
        self.is_settled = True
        if sys.platform != "linux" or not lost_pages.can_handle():
            return
        if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
            return  # others need the addresses
        with contextlib.suppress(OSError, ValueError):  # an old system, a broken disk
            self.pages = lost_pages.Map(self.handle, self.known[2])

    def read(self, found: np.ndarray, place: int) -> bool:
        """Fill an array with the bytes at a place; return False if they are not there."""
        raw: Any = found.reshape(-1).view(np.uint8)
        with contextlib.suppress(OSError):  # reading it in another way says why
            return os.preadv(self.handle, (raw,), place) == found.nbytes
        return False

    def _fill(self, start: int, found: np.ndarray, rows: Rows) -> bool:
        """Fill an array with rows of one that begins there, or return False as `rows` does."""
        if isinstance(rows, int):
            return self.read(found, start + rows * found.nbytes)
        width = found.nbytes // len(rows)
        if isinstance(rows, range):
            return self.read(found, start + rows.start * width)
        return self._read_apart(found, rows.astype(np.intp) * width + start)

    def rows(self, block: Block, rows: Rows) -> np.ndarray | None:
        """Return rows of an array in the file, if this takes few calls, as a new array.

        Return None if they are not there, or have to be read in another way.
        """
        if isinstance(rows, range) and rows.step != 1:
            rows = np.arange(rows.start, rows.stop, rows.step)
        pages = self.pages
        if pages is not None and isinstance(rows, np.ndarray):
            found = pages.rows(block, rows)
            if found is not None:
                return found
            self.pages = None
        lead = () if isinstance(rows, int) else (len(rows),)
        found = np.empty((*lead, *block.shape[1:]), block.dtype)
        return found if self._fill(block.place, found, rows) else None

    def part(self, block: Block, index: Index) -> np.ndarray | None:
        """Return what an index selects of an array in the file as a new array, as `rows` does."""
        pages = self.pages
        if pages is not None and math.prod(index.shape) * block.dtype.itemsize <= sizes.file_bytes:
            found = pages.part(block, index)
            if found is not None:
                return found
            if pages.is_lost:
                self.pages = None
        return file_rows.read_whole(functools.partial(self.rows, block), block, index)

    def _read_apart(self, found: np.ndarray, places: np.ndarray) -> bool:
        """Read few rows one by one, and short ones of which few lie near each other in their order.

        Return False if they are not there, or have to be read in another way.
        """
        if len(places) < FEW:
            return all(map(self.read, found[:, None], places.tolist()))
        if not self.is_settled:
            return False
        order = places.argsort()
        ascending, width = places[order], found.nbytes // len(found)
        if width > GAP or ascending[-1] - ascending[0] < 2 * GAP * len(places):
            return False
        with contextlib.suppress(OSError):
            parts = [os.pread(self.handle, width, place) for place in ascending.tolist()]
            rows = b"".join(parts)
            if len(rows) == found.nbytes:
                found[order] = np.frombuffer(rows, found.dtype).reshape(found.shape)
                return True
        return False


class KeptFile:
    """What was read of a file, and the file once it stays open."""

    __slots__ = ("__weakref__", "held", "spent")

    def __init__(self) -> None:
        self.drop()

    def drop(self) -> None:
        """Have the file closed when nobody reads it any more."""
        self.held: OpenFile | None = None
        self.spent = 0

    def note(self, file: io.FileIO, nbytes: int, calls: int) -> None:
        """Note what was just read of a file in so many calls."""
        self.spent += nbytes + CALL * calls
        if self.spent < CALL * CALLS or not hasattr(os, "preadv"):
            return  # where there is no such call, nobody could replace an open file
        held = self.held
        if held is None:
            self.held = OpenFile(file)
            self._make_room()
        elif not held.is_settled and calls >= FEW and self.spent >= held.known[2]:
            held.load()
            self._make_room()

    def _make_room(self) -> None:
        """Drop other files, those first that were opened first, as far as there are too many."""
        with _changing:
            kept: list[KeptFile] = []
            room = sizes.mapped_bytes
            for one in (self, *(found() for found in _latest)):
                held = None if one is None or one in kept else one.held
                if one is None or held is None:
                    continue
                room -= 0 if held.pages is None else held.known[2]
                if room < 0 or len(kept) == MOST_FILES:
                    one.drop()
                else:
                    kept.append(one)
            _latest[:] = map(weakref.ref, kept)
