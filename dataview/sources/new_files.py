"""A new file, which appears once all of it is written; a temporary one, which never appears.

Until then it has no name, where the system has such files: nothing stays of it if the process is
killed.  Elsewhere it has a name that the next new file at the same path recognises; it removes what
no process holds a lock on any more.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import glob
import io
import itertools
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from dataview.sources.file_access import closed_on_error, keep_room

if sys.platform != "win32":
    import fcntl

UNNAMED = getattr(os, "O_TMPFILE", None)
"""Opens a file without a name in a folder; None where the system has no such files."""

BINARY = getattr(os, "O_BINARY", 0)
"""Keeps Windows from changing the ends of lines."""

LONGEST_NAME = 200
"""The most bytes of the target's name in a temporary one: systems have a limit, mostly 255."""

ZEROS = 1 << 20
"""How many bytes are written at a time where no room can be kept otherwise."""


@contextlib.contextmanager
def new_file(path: str) -> Iterator[BinaryIO]:
    """Open a new file, which replaces what is at `path` if the block ends without an error."""
    with _replacing(path) as (handle, target, what, _):
        file = io.BufferedWriter(_Written(handle, target, what, closefd=False))
        try:
            yield file
            file.flush()
        finally:
            file.raw.close()


@contextlib.contextmanager
def new_place(path: str) -> Iterator[str]:
    """Yield where another library writes a new file, which replaces what is at `path`.

    It is there, empty and locked, so the library must not lock it.  It has a name: some libraries
    ask for the real path of a file.
    """
    with _replacing(path, _with_name) as (_, _, _, temporary):
        yield str(temporary)


@contextlib.contextmanager
def _replacing(
    path: str, begin: Callable[[str, int], tuple[int, str | None]] | None = None
) -> Iterator[tuple[int, str, str, str | None]]:
    """Begin a new file, and put it in its place; yield its handle, target, title and name."""
    target = os.path.realpath(path)  # the file that a link leads to, not the link
    mode = _mode_of(target)
    remove_abandoned(target)
    what = f"a new file in the folder {os.path.dirname(target)}"
    access = 0o666 if mode is None else mode | 0o600
    if begin is None:
        handle, temporary = _begun(target, access, what)
    else:
        handle, temporary = begin(target, access)
    try:
        try:
            yield handle, target, what, temporary
            if mode is not None and sys.platform != "win32":  # the system took the umask off
                os.fchmod(handle, mode)
            with _saying(target, what):
                os.fsync(handle)
            if temporary is None:
                temporary = _named(handle, target)
            if sys.platform != "win32":  # while the lock is held
                os.replace(temporary, target)
        finally:
            os.close(handle)
        if sys.platform == "win32":  # which renames no file that is open
            os.replace(temporary, target)
    except BaseException:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        raise


@contextlib.contextmanager
def removed_on_error(name: str, remove: Callable[[str], object] = os.unlink) -> Iterator[None]:
    """Remove what was begun at a path if the block fails."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            remove(name)
        raise


@contextlib.contextmanager
def temporary_file(path: str) -> Iterator[tuple[BinaryIO, str]]:
    """Open a file beside `path` that lasts as long as the block; yield where to read it, too."""
    target = os.path.realpath(path)
    remove_abandoned(target)
    what = f"a temporary file in the folder {os.path.dirname(target)}"
    handle, temporary = _begun(target, 0o600, what)
    file = io.BufferedWriter(_Written(handle, target, what))
    try:
        yield file, temporary or _place_of(handle)
    finally:
        if sys.platform == "win32":  # which removes no file that is open
            file.raw.close()
        if temporary is not None:  # while the lock is held
            os.unlink(temporary)
        file.raw.close()


@contextlib.contextmanager
def scratch_file(room: int = 0) -> Iterator[BinaryIO]:
    """Open a file in the folder for temporary files, which stays while it is open or mapped.

    It has so many bytes, and the disk has room for them: what is mapped can be written.
    """
    folder = tempfile.gettempdir()
    what = "a temporary file; TMPDIR= names another folder"
    with tempfile.TemporaryFile(buffering=0) as held:
        file = io.BufferedWriter(_Written(held.fileno(), folder, what, closefd=False))
        try:
            if room:
                _keep_room(file, room, folder, what)
            yield file
        finally:
            file.raw.close()


def _keep_room(file: BinaryIO, room: int, folder: str, what: str) -> None:
    with _saying(folder, what):
        keep_room(file.fileno(), room, folder)
    for place in range(os.fstat(file.fileno()).st_size, room, ZEROS):  # not in this system
        file.write(bytes(min(ZEROS, room - place)))
    file.flush()


class _Written(io.FileIO):
    """A file whose errors say what is written: those of the system name no file."""

    def __init__(self, handle: int, target: str, what: str, closefd: bool = True) -> None:
        super().__init__(handle, "wb", closefd)
        self.target, self.what = target, what

    def write(self, data: Any) -> int:
        """Write some bytes, and return how many."""
        with _saying(self.target, self.what):
            return super().write(data)


@contextlib.contextmanager
def _saying(target: str, what: str) -> Iterator[None]:
    """Name the target in an error of the system, and say what was written."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} ({what})", target) from None


def _mode_of(target: str) -> int | None:
    """Return the permissions of the file to replace, None if there is none; check the place."""
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {folder} for the file", target)
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a folder stands where the file should be", target)
    if not stat.S_ISREG(mode):
        raise ValueError(f"{target} is not a regular file, and only such files are replaced")
    return mode & 0o777


def _begun(target: str, mode: int, what: str) -> tuple[int, str | None]:
    """Open a new file in the folder of the target, locked; return its name if it has one."""
    folder = os.path.dirname(target)
    if UNNAMED is not None:
        # A file system without such files says so in several ways; if the folder is to blame, the
        # file with a name fails too, and that error is raised.
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_WRONLY | UNNAMED, mode)
            with closed_on_error(handle):
                if os.path.exists(_place_of(handle)):
                    lock_unfinished(handle)
                    return handle, None
            os.close(handle)
    with _saying(target, what):
        return _with_name(target, mode)


def _with_name(target: str, mode: int) -> tuple[int, str]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY
    while True:
        handle, temporary = _first_free(target, lambda name: os.open(name, flags, mode))
        with closed_on_error(handle), removed_on_error(temporary):
            lock_unfinished(handle)
            if sys.platform == "win32" or os.fstat(handle).st_nlink:
                return handle, temporary
        os.close(handle)  # another process took it for abandoned before it was locked


def _named(handle: int, target: str) -> str:
    """Give a file without a name a temporary one, since a link cannot replace a file."""
    # Only if it is given a handle does `os.link` follow the link in /proc to the file itself; the
    # path has a root, so it does not matter what the handle is of.
    link = functools.partial(os.link, _place_of(handle), src_dir_fd=handle)
    return _first_free(target, link)[1]


def _place_of(handle: int) -> str:
    return f"/proc/self/fd/{handle}"


def _first_free(target: str, make: Callable[[str], int | None]) -> tuple[int, str]:
    """Make a file of the first temporary name that is free."""
    for name in temporary_names(target):
        with contextlib.suppress(FileExistsError):
            return make(name) or 0, name
    raise AssertionError("numbers do not end")


def temporary_names(target: str) -> Iterator[str]:
    """Return the names that what is begun for a target may have beside it."""
    folder, name = os.path.split(target)
    start = os.fsencode(name)[:LONGEST_NAME].decode(errors="ignore")
    return (os.path.join(folder, f".{start}.saving{n or ''}") for n in itertools.count())


def remove_abandoned(target: str) -> None:
    """Remove files and folders that processes which were killed have begun for the same target."""
    first = next(temporary_names(target))
    for name in glob.iglob(f"{glob.escape(first)}*"):
        if (name.removeprefix(first) or "0").isdecimal():
            with contextlib.suppress(OSError):  # it is in use, or another user's
                _remove_unlocked(name)


def _remove_unlocked(name: str) -> None:
    remove = shutil.rmtree if os.path.isdir(name) else os.unlink
    if sys.platform == "win32":  # which removes no file that is open
        remove(name)
        return
    handle = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), os.stat(name)):  # no other has taken the name since
            remove(name)
    finally:
        os.close(handle)


def lock_unfinished(handle: int) -> None:
    """Show other processes that the file is in use, until it is closed."""
    if sys.platform != "win32":
        with contextlib.suppress(OSError):  # without locks none is found abandoned either
            fcntl.flock(handle, fcntl.LOCK_EX)
