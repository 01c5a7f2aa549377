"""A new folder, which appears or replaces another one once all of it is written.

It is written beside its place, under a name that the next new folder there recognises; that removes
what no process holds a lock on any more.  Linux then exchanges the two folders in one step.  Where
the system cannot do that, there is a moment without a folder: it is renamed, and then the new one.
A process that is killed just then leaves the old one as `.NAME.replaced`, which the next new folder
puts back first.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

from dataview.sources.file_access import closed_on_error, remove_late
from dataview.sources.new_files import (
    lock_unfinished,
    remove_abandoned,
    removed_on_error,
    temporary_names,
)

_HERE, _EXCHANGE = -100, 2
"""Linux's numbers for the working folder and for an exchange of names; Python has none for them."""


@contextlib.contextmanager
def new_folder(path: str, is_ours: Callable[[str], bool]) -> Iterator[str]:
    """Yield an empty folder, which replaces what is at `path` if the block ends without an error.

    `is_ours` says of a folder that is not empty whether it may be replaced.
    """
    target = os.path.realpath(path)
    replaced = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.replaced")
    if os.path.isdir(replaced) and not os.path.exists(target):
        os.rename(replaced, target)  # a process was killed between two renames
    check_replaceable(target, is_ours)
    remove_abandoned(target)
    shutil.rmtree(replaced, ignore_errors=True)
    temporary, handle = _begun(target)
    try:
        yield temporary
        check_replaceable(target, is_ours)
        if not os.path.isdir(target):
            os.rename(temporary, target)
        elif not _exchanged(temporary, target):
            os.rename(target, replaced)
            os.rename(temporary, target)
            shutil.rmtree(replaced)
        shutil.rmtree(temporary, ignore_errors=True)  # the old one, if they were exchanged
    except BaseException as error:
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = path  # of a write: the system's message names no file
        remove_late(temporary)
        raise
    finally:
        if handle is not None:
            os.close(handle)


def check_replaceable(target: str, is_ours: Callable[[str], bool]) -> None:
    """Raise if there is no place for a folder, or something that must stay."""
    parent = os.path.dirname(target)
    if not os.path.isdir(parent):
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {parent} for it", target)
    if os.path.isdir(target):
        if os.listdir(target) and not is_ours(target):
            raise FileExistsError(
                errno.EEXIST,
                "a folder with other files stands there, and would be lost; remove it, or save to "
                "another place",
                target,
            )
    elif os.path.lexists(target):
        raise NotADirectoryError(errno.ENOTDIR, "a file stands where the folder should be", target)


def _begun(target: str) -> tuple[str, int | None]:
    """Make a folder of the first temporary name that is free, and lock it."""
    for name in temporary_names(target):
        with contextlib.suppress(FileExistsError):
            os.mkdir(name)
            if sys.platform == "win32":  # which opens no folders
                return name, None
            with removed_on_error(name, os.rmdir):
                handle = os.open(name, os.O_RDONLY)
                with closed_on_error(handle):
                    lock_unfinished(handle)
            return name, handle
    raise AssertionError("numbers do not end")


def _exchanged(one: str, other: str) -> bool:
    """Exchange the names of two folders in one step; say no where the system cannot."""
    exchange = _exchanger()
    return exchange is not None and not exchange(
        _HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE
    )


@functools.cache
def _exchanger() -> Any:
    """Return the function of the C library that exchanges names, None if there is none."""
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
