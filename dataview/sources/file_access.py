"""Open files; read, write and map bytes at a place in them."""

from __future__ import annotations

import io
import math
import mmap
import os
import stat
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from dataview.sizes import sizes

MOST = 1 << 30
"""The most bytes of one call: some systems refuse 2 GiB, others transfer less."""

POPULATE_READ, POPULATE_WRITE = 22, 23
"""Linux's numbers for the advice to load all pages of a map; Python has no names for them."""


def map_window(
    file: io.FileIO, place: int, shape: tuple[int, ...], dtype: np.dtype[Any], writable: bool
) -> np.ndarray | None:
    """Return bytes of a file as memory shared with it, None where the system does not allow it.

    All pages are loaded, and have room on the disk if they are to be written, so that touching
    them cannot fail unless another program truncates the file.  They are freed with the last array
    that holds them.  After None, read or write at the place instead: that works, or says why not.
    """
    size = math.prod(shape) * dtype.itemsize
    if sys.platform != "linux" or size < sizes.window_bytes:
        return None
    skipped = place % mmap.ALLOCATIONGRANULARITY
    access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
    try:
        pages = mmap.mmap(file.fileno(), size + skipped, access=access, offset=place - skipped)
        pages.madvise(POPULATE_WRITE if writable else POPULATE_READ)
    except (OSError, ValueError):  # an old system, a full disk, a file that is shorter by now
        return None
    return np.ndarray(shape, dtype, pages, skipped)


def open_regular(path: str, mode: str = "rb", buffering: int = -1) -> Any:
    """Open a file; raise if there is anything else, such as a pipe, whose opening might wait."""
    return open(path, mode, buffering=buffering, opener=_opened)


def _opened(path: str, flags: int) -> int:
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    kind = stat.S_IFMT(os.fstat(handle).st_mode)
    if kind in (stat.S_IFREG, stat.S_IFDIR):  # of a folder Python says it itself
        return handle
    os.close(handle)
    found = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    raise ValueError(
        f"{path} is {found.get(kind, 'something else')}, and only regular files can be opened"
    )


def read_at(file: io.FileIO, block: np.ndarray, place: int) -> None:
    """Fill an array with the bytes at a place in a file."""
    _transfer(_read_some, file, block, place)


def write_at(file: io.FileIO, block: np.ndarray, place: int) -> None:
    """Write the bytes of an array at a place in a file."""
    _transfer(_write_some, file, block, place)


def _read_some(file: io.FileIO, part: memoryview, place: int) -> int:
    if hasattr(os, "preadv"):  # Windows and old macOS have none
        return os.preadv(file.fileno(), [part], place)
    file.seek(place)
    return file.readinto(part) or 0


def _write_some(file: io.FileIO, part: memoryview, place: int) -> int:
    if hasattr(os, "pwritev"):
        return os.pwritev(file.fileno(), [part], place)
    file.seek(place)
    return file.write(part) or 0


def _transfer(
    move: Callable[[io.FileIO, memoryview, int], int],
    file: io.FileIO,
    block: np.ndarray,
    place: int,
) -> None:
    """Read or write all bytes of a block at a place in a file, in as many calls as it takes."""
    raw: Any = block.reshape(-1).view(np.uint8)
    data = memoryview(raw)
    done = 0
    while done < len(data):
        count = move(file, data[done : done + MOST], place + done)
        if count == 0:
            raise OSError("the file ended before all of the block was transferred")
        done += count
