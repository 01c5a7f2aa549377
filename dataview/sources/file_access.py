"""Read, write and map bytes at a place in a file; write a new file that appears when complete."""

from __future__ import annotations

import contextlib
import io
import math
import mmap
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

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


@contextlib.contextmanager
def new_file(path: str) -> Iterator[BinaryIO]:
    """Open a new file, which replaces what is at `path` if the block ends without an error."""
    target = os.path.realpath(path)  # the file that a link leads to, not the link
    import tempfile  # it brings half a dozen modules along, and few views are saved

    folder, name = os.path.split(target)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode_of(target))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _mode_of(path: str) -> int:
    """Return the permissions of a file, or those of any new file."""
    if os.path.exists(path):
        return os.stat(path).st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


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
