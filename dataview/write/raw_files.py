"""Bytes at places of an open file, their sums, and locks, on every system."""

from __future__ import annotations

import errno
import functools
import os
import sys
import time
import zlib
from typing import Any

import numpy as np

from dataview.index.locks import new_lock

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

PAGE = 4096

FAR, PAUSE = 1 << 30, 0.05
"""Where Windows locks a byte of a journal, and after how many seconds it is tried again."""

LARGE = 1 << 16
"""From this size on, bytes are summed as numbers, which takes a tenth of the time of a CRC."""


def checksum(data: Any) -> int:
    """Return a sum of bytes that tells of changes, also of pages that changed places.

    >>> one, other = np.zeros(1 << 17, np.uint8), np.zeros(1 << 17, np.uint8)
    >>> one[0] = other[8192] = 1
    >>> checksum(one) != checksum(other), checksum(one) == checksum(one.tobytes())
    (True, True)
    """
    size = len(data)
    if size < LARGE:
        return zlib.crc32(data)
    count = size // PAGE
    numbers = np.frombuffer(data, np.uint64, count * (PAGE // 8))
    pages = np.add.reduce(numbers.reshape(count, PAGE // 8), axis=1)
    pages *= _weights(count)
    rest = memoryview(data)[count * PAGE :] if size % PAGE else b""
    return int(np.add.reduce(pages)) ^ zlib.crc32(rest)


@functools.lru_cache(maxsize=4)
def _weights(count: int) -> np.ndarray:
    return np.arange(1, 2 * count, 2, dtype=np.uint64)


def write_all(handle: int, data: memoryview, place: int) -> None:
    """Write bytes at a place in an open file, all of them."""
    count = _pwrite(handle, data, place)
    while count < data.nbytes:
        data, place = data[count:], place + count
        count = _pwrite(handle, data, place)


_moving = new_lock()
"""Held while a handle is moved, where the system cannot write at a place."""


def _pwrite(handle: int, data: memoryview, place: int) -> int:
    if hasattr(os, "pwrite"):
        return os.pwrite(handle, data, place)
    with _moving:
        os.lseek(handle, place, os.SEEK_SET)
        return os.write(handle, data)


def pread(handle: int, count: int, place: int) -> bytes:
    """Return so many bytes at a place in an open file, fewer at its end."""
    if hasattr(os, "pread"):
        return os.pread(handle, count, place)
    with _moving:
        os.lseek(handle, place, os.SEEK_SET)
        return os.read(handle, count)


def lock(handle: int, waits: bool) -> bool:
    """Lock an open file for this process; say whether it is locked."""
    while True:
        try:
            if sys.platform == "win32":
                os.lseek(handle, FAR, os.SEEK_SET)
                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(handle, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            return True
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
                raise
            if not waits:
                return False
            time.sleep(PAUSE)


def unlock(handle: int) -> None:
    """Give up a lock."""
    if sys.platform == "win32":
        os.lseek(handle, FAR, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(handle, fcntl.LOCK_UN)


def sync_folder(path: str) -> None:
    """Bring the names in a folder to the device, where the system can."""
    if sys.platform == "win32":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
