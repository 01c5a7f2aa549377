"""Bytes at a place in a file: read, written, mapped a window at a time; a new file, when whole."""

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
"""How many bytes are asked for in one call: some systems refuse 2 GiB, others give less."""

POPULATE_READ, POPULATE_WRITE = 22, 23
"""What Linux is told to have all pages of a map there at once; Python has no names for it."""


def mapped(
    file: io.FileIO, place: int, shape: tuple[int, ...], dtype: np.dtype[Any], writable: bool
) -> np.ndarray | None:
    """Return bytes of a file as memory shared with it, or None where that is not to be had.

    The pages are there and, to be written, have room on the disk: to touch them fails no more,
    unless somebody cuts the file short. They are given back with the last array that holds them.
    Where the system refuses, reading and writing at the place work, or tell what is wrong.
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
    """Give a file to write to, which replaces what is at `path` when the block ends well."""
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
    """Read or write all bytes of a block at a place in a file; the system may take several goes."""
    raw: Any = block.reshape(-1).view(np.uint8)
    data = memoryview(raw)
    done = 0
    while done < len(data):
        count = move(file, data[done : done + MOST], place + done)
        if count == 0:
            raise OSError("the file ended before all of the block was transferred")
        done += count
