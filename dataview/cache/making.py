"""Files that are made once: under a lock, at a place of their own, moved when they are whole."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import shutil
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from dataview.cache.root import folder_at, path_of
from dataview.write import lock

LONGEST_NAME = 200
"""A longer name, in bytes, has a sum in its place: file systems take 255."""

LOCK, MAKING = "lock", "making"
"""How the names end of what lies beside a path while it is made."""


def make_or_load(
    path: str | os.PathLike[str],
    creator: Callable[[pathlib.Path], Any],
    loader: Callable[[pathlib.Path], Any],
) -> Any:
    """Return the data of a file, by `loader(path)`, or make the file by `creator(new_path)`.

    A relative path is one under the root.  The creator gets a temporary path that ends as `path`
    does, makes a file or a folder there, and returns the data; the file is then moved to `path`.
    If several threads and processes ask for a path, one of them creates it, and the others wait
    and load it.  If the creator fails, nothing is left of its file.
    """
    for name, function in (("creator", creator), ("loader", loader)):
        if not callable(function):
            raise TypeError(f"make_or_load: {name} is a function of a path; got {function!r}")
    place = path_of(path)
    if not os.path.lexists(place):
        with alone(place):
            if not os.path.lexists(place):
                return _made(place, creator)
    try:
        return loader(place)
    except Exception as error:
        error.add_note(f"while {place} was loaded; remove it to have it made anew")
        raise


def _made(place: pathlib.Path, creator: Callable[[pathlib.Path], Any]) -> Any:
    with new_at(place) as fresh:
        try:
            result = creator(fresh)
        except Exception as error:
            error.add_note(f"while {place} was made; nothing is left of it")
            raise
        if not os.path.lexists(fresh):
            others = sorted(os.listdir(fresh.parent))
            raise FileNotFoundError(
                f"the creator of {place} has made no file or folder at the path it was given, "
                f"{fresh}" + (f"; it has made {', '.join(others)} beside it" if others else "")
            )
        if not os.path.lexists(place):  # a program that knows no locks may have been faster
            put(fresh, place)
        return result


# --- a place of its own ------------------------------------------------------------------------


@contextlib.contextmanager
def new_at(place: pathlib.Path) -> Iterator[pathlib.Path]:
    """Give a free path beside a place, with the same name in a folder of its own, and tidy up.

    Only who has locked the place may ask: what is found there was left by a killed process.
    """
    folder = _beside(place, MAKING)
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    try:
        yield folder / place.name
    finally:
        shutil.rmtree(folder)


def put(fresh: pathlib.Path, place: pathlib.Path) -> None:
    """Move what is finished to its place; it is on the disk before its name is."""
    for path in (fresh, *fresh.iterdir()) if fresh.is_dir() else (fresh,):
        if path.is_file():
            with open(path, "rb" if os.name == "posix" else "rb+") as file:
                os.fsync(file.fileno())
    os.replace(fresh, place)


def sweep(folder: pathlib.Path) -> None:
    """Remove what processes that were killed have begun in a folder."""
    for left in [*folder.glob(f".*.{LOCK}"), *folder.glob(f".*.{MAKING}")]:
        place = folder / left.name[1:].rpartition(".")[0]
        if _beside(place, LOCK) in _mine.paths:
            continue
        with contextlib.suppress(BlockingIOError), alone(place, waits=False):
            if left.exists() and left.name.endswith(f".{MAKING}"):
                shutil.rmtree(left)


def remove(folder: pathlib.Path) -> None:
    """Remove a folder that is gone at once for others, and is swept if this process is killed."""
    gone = _beside(folder, MAKING)
    os.replace(folder, gone)
    shutil.rmtree(gone)


def _beside(place: pathlib.Path, end: str) -> pathlib.Path:
    name = place.name
    if len(os.fsencode(name)) > LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return place.with_name(f".{name}.{end}")


# --- one at a time -----------------------------------------------------------------------------


class _Lock:
    """An open file that is locked, for all other threads and processes."""

    __slots__ = ("__weakref__", "handle", "owner")

    def __init__(self, handle: int) -> None:
        self.handle, self.owner = handle, os.getpid()


_held: weakref.WeakSet[_Lock] = weakref.WeakSet()


def _let_go() -> None:
    """Close what a fork has inherited: it would keep the locks of a parent that is killed."""
    for held in list(_held):
        os.close(held.handle)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


class _Mine(threading.local):
    """The paths that a thread has locked."""

    def __init__(self) -> None:
        self.paths: set[pathlib.Path] = set()


_mine = _Mine()


@contextlib.contextmanager
def alone(place: pathlib.Path, waits: bool = True) -> Iterator[None]:
    """Have all others who ask for the same path wait; without `waits`, raise BlockingIOError.

    The system gives up the lock of a process that is killed.
    """
    path = _beside(place, LOCK)
    if path in _mine.paths:
        raise RuntimeError(
            f"what makes {place} asks for that path itself; it has to make it at the path that it "
            "is given"
        )
    folder_at(path.parent)
    held = _locked(path, waits)
    _mine.paths.add(path)
    _held.add(held)
    try:
        yield
    finally:
        _mine.paths.discard(path)
        _held.discard(held)
        if os.getpid() == held.owner:
            _give_up(path, held.handle, True)


def _locked(path: pathlib.Path, waits: bool) -> _Lock:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not lock(handle, waits):
                raise BlockingIOError(f"{path} is locked")
            if _is_at(path, handle):
                return _Lock(handle)
        except BaseException:
            _give_up(path, handle, False)
            raise
        os.close(handle)  # who had it has just given it up, and removed its file


def _is_at(path: pathlib.Path, handle: int) -> bool:
    """Whether an open file is the one at a path."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _give_up(path: pathlib.Path, handle: int, is_locked: bool) -> None:
    """Close the file of a lock, and remove it first unless others have the lock or will have it."""
    try:
        if is_locked or (lock(handle, waits=False) and _is_at(path, handle)):
            with contextlib.suppress(FileNotFoundError, PermissionError):  # Windows: it is open
                path.unlink()
    finally:
        os.close(handle)
