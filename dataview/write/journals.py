"""The journals of the updates of a file, in a hidden folder beside it."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import mmap
import os
import time
import weakref
from collections.abc import Callable
from typing import Any

from dataview.index.locks import new_lock, new_rlock
from dataview.sources import SETTLED_NS
from dataview.write.journal import IDLE, PUT_BACK, FoundJournal, Journal, is_running_here
from dataview.write.raw_files import lock, sync_folder, unlock

PATIENCE, PAUSE = 1.0, 0.02
"""So many seconds an update waits for that of another process to end, and between two looks."""

LONGEST_NAME = 240
"""A longer name, in bytes, has a sum in its place: file systems take 255."""


LINK = ".link"
"""What the names of files end in that lead from a file to the journal of an update of several."""


def folder_of(path: str) -> str:
    """Return the folder for the journals of a file.

    >>> folder_of("data/x.npy") == os.path.join("data", ".x.npy.journal")
    True
    """
    folder, name = os.path.split(path)
    if len(os.fsencode(name)) > LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return os.path.join(folder, f".{name}.journal")


def is_of_update(name: str) -> bool:
    """Whether a file in a folder of journals is one of them, or a link to one elsewhere."""
    return "." not in name or name.endswith(LINK)


def main_of(name: str) -> str:
    """Return the journal that a link beside another file of the same update names."""
    if not name.endswith(LINK):
        return name
    with open(name, encoding="utf-8") as file:
        return os.path.normpath(os.path.join(os.path.dirname(name), file.read()))


class Busy(BlockingIOError):
    """Another process is updating a file."""


def when_free(update: Callable[[], None]) -> None:
    """Begin an update that raises `Busy`, having changed nothing, if another process has one.

    It is tried again for a while.  Two that begin at a time see each other, and pause differently.
    """
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return update()
        except Busy:
            if time.monotonic() > until:
                raise
        time.sleep(PAUSE * os.urandom(1)[0] / 255)


class Journals:
    """The journals of the updates of a file; one that is not in use is kept for the next update.

    `syncs` says that each step is brought to the device, so that it outlives a loss of power.
    """

    def __init__(self, path: str, syncs: bool = False) -> None:
        self.path, self.syncs = path, syncs
        self.name, self.folder = os.path.basename(path), folder_of(path)
        self._idle: list[Journal] = []
        self._numbers = itertools.count()
        self._lock = new_lock()
        self.turn = new_rlock()
        """What a thread holds while it makes a small update: its old bytes must stay the last."""
        self._listed: tuple[int, list[str]] = -1, []
        self.close = weakref.finalize(self, _remove, os.getpid(), self.folder, self._idle)

    def __reduce__(self) -> tuple[Any, ...]:
        return Journals, (self.path, self.syncs)

    def needs_none(self, place: int, nbytes: int) -> bool:
        """Whether a write is one call within a page of a file, which the system does whole."""
        return not self.syncs and place % mmap.PAGESIZE + nbytes <= mmap.PAGESIZE

    def taken(self) -> Journal:
        """Return a journal that is locked, to be given back after the update."""
        with self._lock:
            journal = self._idle.pop() if self._idle else None
        if journal is None or journal.header.process != os.getpid():  # that is of the parent
            return self._new()
        lock(journal.handle, waits=True)
        if os.fstat(journal.handle).st_nlink:
            return journal
        journal.close()  # somebody took it for one of a process that is gone
        return self._new()

    def _new(self) -> Journal:
        while True:
            name = f"{os.getpid()}-{id(self):x}-{next(self._numbers)}"
            try:
                self._make_folder()
                journal = Journal(os.path.join(self.folder, name), self.syncs)
            except FileNotFoundError:  # somebody removed the empty folder
                continue
            except FileExistsError:  # the same, or of a process that is gone and had this number
                continue
            except PermissionError as error:
                raise PermissionError(
                    error.errno,
                    "an update of a file keeps a journal beside it, so that it is whole after a "
                    "crash, and no file can be made there; open it with durable=False to update "
                    "it without",
                    self.folder,
                ) from None
            except OSError:  # the disk is full
                _remove(os.getpid(), self.folder, [])
                raise
            lock(journal.handle, waits=True)
            if not os.fstat(journal.handle).st_nlink:  # somebody took it for a forgotten one
                journal.close()
                continue
            self._sync_names()
            return journal

    def _make_folder(self) -> None:
        if os.path.exists(self.folder) and not os.path.isdir(self.folder):
            raise NotADirectoryError(
                errno.ENOTDIR, "it is in the place of the folder for journals; move it", self.folder
            )
        os.makedirs(self.folder, exist_ok=True)

    def _sync_names(self) -> None:
        """Bring the names in the folder, and its own, to the device if that is asked for."""
        if self.syncs:
            sync_folder(self.folder)
            sync_folder(os.path.dirname(self.folder))

    def check_free(self, journal: Journal | None = None, is_run: bool = False) -> None:
        """Raise if another process updates the file, or was killed while it did so.

        Both that begin an update look after they have said so, and one of them sees the other; what
        is one call within a page has no journal, and is not seen.  If the update is one run of
        bytes, others that write one do not disturb it.  Often there is no other journal than that
        which this process has for its update.
        """
        paths = self._found()
        if journal is not None and paths == [journal.path]:
            return
        ignored = (IDLE, PUT_BACK) if is_run else (IDLE,)
        for path in paths:
            with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as stack:
                main = main_of(path)
                if is_running_here(main):
                    continue
                one = stack.enter_context(contextlib.closing(FoundJournal(main)))
                is_free = lock(one.handle, waits=False)
                if is_free and one.read() is not None:
                    raise RuntimeError(
                        f"{self.path} is torn: process {one.header.process} was killed while "
                        "it updated it; open the file again, which finishes that, then write"
                    )
                if not is_free and one.way_now() not in ignored:
                    raise Busy(
                        errno.EAGAIN,
                        f"process {one.header.process} is updating the file; write when it has "
                        "done so. dv.open(path, 'r+', lock='wait') lets one process at a time have "
                        "the file to write",
                        self.path,
                    )

    def _found(self) -> list[str]:
        """Return the journals of all processes; the folder is read if it may have changed."""
        try:
            changed = os.stat(self.folder).st_mtime_ns
            known, paths = self._listed
            if known != changed:
                names = [name for name in os.listdir(self.folder) if is_of_update(name)]
                paths = [os.path.join(self.folder, name) for name in names]
                # The next change of a folder that has just changed may leave its time the same.
                is_settled = abs(time.time_ns() - changed) > SETTLED_NS
                self._listed = changed if is_settled else -1, paths
        except (FileNotFoundError, NotADirectoryError):
            return []
        return paths

    def announce(self) -> None:
        """Have a journal with nothing in it, which says who has the file open if that is killed."""
        self.give_back(self.taken())

    def link(self, journal: str) -> str:
        """Say in a file of this folder that a journal elsewhere is of this file, too."""
        with self._lock:
            number = next(self._numbers)
        name = os.path.join(self.folder, f"{os.getpid()}-{id(self):x}-{number}{LINK}")
        while True:
            try:
                self._make_folder()
                with open(f"{name}.new", "w", encoding="utf-8") as file:
                    file.write(os.path.relpath(journal, self.folder))
                    if self.syncs:
                        file.flush()
                        os.fsync(file.fileno())
            except (FileNotFoundError, FileExistsError):  # somebody removed the empty folder
                continue
            os.replace(f"{name}.new", name)
            self._sync_names()
            return name

    def give_back(self, journal: Journal) -> None:
        """Keep a journal whose update has ended, for the next one."""
        unlock(journal.handle)
        with self._lock:
            if not self._idle and self.close.alive:
                self._idle.append(journal)
                return
        _remove(os.getpid(), self.folder, [journal])


def _remove(owner: int, folder: str, journals: list[Journal]) -> None:
    """Remove journals that nothing is in, and the folder with the last of them."""
    while journals:
        journal = journals.pop()
        if os.getpid() == owner:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(journal.path)
        journal.close()
    if os.getpid() == owner and os.access(folder, os.F_OK):
        with contextlib.suppress(OSError):  # it is gone, or others have journals there
            os.rmdir(folder)
