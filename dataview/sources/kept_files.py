"""Files that stay open: where few rows are read at a time, most of the time goes into calls.

A file stays open once it was read often.  It is mapped, too, once reading rows by number has taken
about as long as loading all of its pages: so nothing is loaded for a few rows, and a file that is
not in memory is read once, in its order.  The system itself copies from the map, many rows in a
call: if the file is shorter by now, or the disk is broken, the call says so, and the process goes
on.  Few files stay open, and the maps have a limit; both end with the views of a file, or when
these are closed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dataview.index import Rows
from dataview.index.sizes import sizes
from dataview.sources.file_access import POPULATE_READ
from dataview.sources.file_pieces import GAP

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

MOST_RUNS = 1024
"""The most runs of bytes that the system copies in a call."""

AT_ONCE = 1 << 24
"""So many bytes are loaded at once; Ctrl-C and other threads come between."""

_latest: list[weakref.ref[KeptFile]] = []
_changing = threading.Lock()


class OpenFile:
    """An open file: its device, inode and size, and where its map begins in memory, if it has one.

    Whether it has one is settled when much was read.  It is closed when nobody reads it any more.
    """

    __slots__ = ("address", "handle", "is_settled", "known", "pages")

    def __init__(self, file: io.FileIO) -> None:
        now = os.fstat(file.fileno())
        self.known = now.st_dev, now.st_ino, now.st_size
        self.pages: mmap.mmap | None = None
        self.address = 0
        self.is_settled = not 0 < now.st_size <= sizes.mapped_bytes
        self.handle = os.dup(file.fileno())

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            os.close(self.handle)

    def load(self) -> None:
        """Map the file, if it may stay in memory."""
        self.is_settled, size = True, self.known[2]
        if sys.platform != "linux" or _copier() is None:
            return
        if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
            return  # others need the addresses
        with contextlib.suppress(OSError, ValueError):  # an old system, a broken disk
            pages = mmap.mmap(self.handle, size, access=mmap.ACCESS_READ)
            for start in range(0, size, AT_ONCE):
                pages.madvise(POPULATE_READ, start, min(AT_ONCE, size - start))
            self.address = _address_of(np.frombuffer(pages, np.uint8))
            self.pages = pages

    def read(self, found: np.ndarray, place: int) -> bool:
        """Fill an array with the bytes at a place; return False if they are not there."""
        raw: Any = found.reshape(-1).view(np.uint8)
        with contextlib.suppress(OSError):  # reading it in another way says why
            return os.preadv(self.handle, (raw,), place) == found.nbytes
        return False

    def fill(self, start: int, found: np.ndarray, rows: Rows) -> bool:
        """Fill an array with rows of one that begins there; return False as `read_rows` does."""
        if isinstance(rows, int):
            return self.read(found, start + rows * found.nbytes)
        width = found.nbytes // len(rows)
        if isinstance(rows, range) and rows.step == 1:
            return self.read(found, start + rows.start * width)
        return self.read_rows(found, np.asarray(rows, np.int64) * width + start)

    def read_rows(self, found: np.ndarray, places: np.ndarray) -> bool:
        """Fill the rows of an array with the bytes at places, if this takes few calls.

        Return False if they are not there, or have to be read in another way.
        """
        if len(places) < FEW:
            return all(map(self.read, found[:, None], places.tolist()))
        pages = self.pages  # it stays as long as it is copied
        if pages is not None:
            is_there = _copied(found, places + self.address)
            if not is_there:  # as where such calls are forbidden: others take less then
                self.pages = None
            return is_there
        return self.is_settled and self._read_apart(found, places)

    def _read_apart(self, found: np.ndarray, places: np.ndarray) -> bool:
        """Read short rows, if few of them lie near each other, in their order in the file."""
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

    def note(self, file: io.FileIO, nbytes: int, calls: int, may_map: bool) -> None:
        """Note what was just read of a file in so many calls."""
        self.spent += nbytes + CALL * calls
        if self.spent < CALL * CALLS or not hasattr(os, "preadv"):
            return  # where there is no such call, nobody could replace an open file
        held = self.held
        if held is None:
            self.held = OpenFile(file)
            self._make_room()
        elif may_map and not held.is_settled and calls >= FEW and self.spent >= held.known[2]:
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


def _address_of(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


@functools.cache
def _copier() -> Callable[..., int] | None:
    """Return the call by which a process writes into another one's memory, or its own."""
    call: Any = getattr(ctypes.CDLL(None), "process_vm_writev", None)
    if call is None or ctypes.sizeof(ctypes.c_void_p) != np.dtype(np.int64).itemsize:
        return None
    runs = [ctypes.c_void_p, ctypes.c_ulong]
    call.restype, call.argtypes = ctypes.c_ssize_t, [ctypes.c_int, *runs, *runs, ctypes.c_ulong]
    return call  # type: ignore[no-any-return]


def _copied(found: np.ndarray, addresses: np.ndarray) -> bool:
    """Fill the rows of an array with the bytes at addresses; return whether these are there.

    NumPy's own copies of what is not there would end the process.
    """
    call, process, width = _copier(), os.getpid(), found.nbytes // len(found)
    runs = np.empty((len(addresses), 2), np.int64)
    runs[:, 0], runs[:, 1] = addresses, width
    for start in range(0, len(runs), MOST_RUNS):
        part, rows = runs[start : start + MOST_RUNS], found[start : start + MOST_RUNS]
        to = np.array([_address_of(rows), rows.nbytes], np.int64)
        if call is None or rows.nbytes != call(
            process, _address_of(part), len(part), _address_of(to), 1, 0
        ):
            return False
    return True
