"""Full disks: room kept before a library writes, files and folders that can be given up.

A library that finds no room half way may leave a file that cannot be read, or cannot be closed.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import time
from typing import Any

_UNABLE = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)
"""What systems say that keep no room."""

_PAUSE, _TIMES, _MOST_TIMES = 0.01, 3, 300
"""A folder that was missing so often after pauses of so many seconds is removed for good."""


def keep_room(handle: int, count: int, path: str) -> None:
    """Make a file longer by so many bytes, for which the disk has room then, or raise.

    Where the system cannot, nothing is done.
    """
    if not hasattr(os, "posix_fallocate"):
        return
    end = os.fstat(handle).st_size
    try:
        os.posix_fallocate(handle, end, count)
    except OSError as error:
        if error.errno in _UNABLE:
            return
        os.ftruncate(handle, end)
        raise OSError(
            error.errno, f"{error.strerror}: {count} bytes more are needed", path
        ) from None


class Abandoned(io.FileIO):
    """A new file for a library that goes wrong if a write fails: it is told of none.

    After the first one nothing is written any more, and `check` raises: the file is thrown away.
    """

    def __init__(self, place: str, target: str) -> None:
        super().__init__(place, "r+b")
        self.target = target
        self.failure: OSError | None = None

    def check(self) -> None:
        """Raise if something could not be written."""
        if self.failure is not None:
            number, why = self.failure.errno, self.failure.strerror
            raise OSError(number, f"{why} (a new file)", self.target)

    def write(self, data: Any) -> int:
        """Write all of some bytes."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest and self.failure is None:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.failure = error
        return size

    def truncate(self, size: int | None = None) -> int:
        """Give the file a length."""
        try:
            if self.failure is None:
                return super().truncate(size)
        except OSError as error:
            self.failure = error
        return size or 0


def remove_late(folder: str) -> None:
    """Remove a folder to which the threads of a library may go on writing for a moment."""
    missing = 0
    for _ in range(_MOST_TIMES):
        shutil.rmtree(folder, ignore_errors=True)
        missing = 0 if os.path.exists(folder) else missing + 1
        if missing == _TIMES:
            return
        time.sleep(_PAUSE)
