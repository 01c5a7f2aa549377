"""Whether a file is the one that a journal is of, and as the update left it that stopped."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Sequence

import numpy as np

from dataview.plan.kinds import nbytes_of
from dataview.write.journal import (
    DONE,
    MOST_SUMMED,
    UNDO,
    UNTOUCHED,
    DamagedJournal,
    FoundJournal,
    is_summed,
)
from dataview.write.plans import File, Plan
from dataview.write.raw_files import PAUSE, checksum, lock
from dataview.write.update import Update

SLACK = 2.0
"""A file may be so many seconds younger than its journal: a large block takes a while.

It may be as much older than the beginning of its update: its file system may have another clock.
"""

CLOSING = 1.0
"""So many seconds a process that was killed may take to give up its locks, one after another."""

SEEN = 4
"""So many of the blocks that are done are read, to see whether they are as they were left."""


def check_file(
    path: str,
    file: File,
    journal: FoundJournal,
    is_own: bool,
    is_forced: bool,
    is_moved: bool = False,
) -> None:
    """Raise unless a file is the one of the journal, and the journal was made beside the file.

    If parts of it are moved, as in a packed one, its size may be another one by now.
    """
    is_moved = is_moved or bool(file.copy)
    try:
        found = os.stat(path)
    except FileNotFoundError:
        found = None
    if found is None or file.number not in (0, found.st_ino):
        raise DamagedJournal(
            f"the journal {journal.path} is of another file than {path} is now: that was replaced "
            "or moved since"
        )
    if not is_own or file.copy != os.path.basename(file.copy):
        raise DamagedJournal(f"the journal {journal.path} names {path}, and was not made for it")
    if os.path.isdir(path):
        return
    if is_moved and not _is_let_go(path):
        raise BlockingIOError(
            errno.EAGAIN,
            "the file is open, and what it held before an update that stopped is to be put back; "
            "close the views of it first, by their _close()",
            path,
        )
    is_begun = is_put_back(file, journal)
    is_other = found.st_size != file.size and not is_moved
    if not is_forced and not is_begun and (is_other or not _may_be_left(found, file, journal)):
        raise changed_since(path, journal)


def check_inside(path: str, file: File, journal: FoundJournal) -> None:
    """Raise if another program has written a file in a folder that was updated."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise changed_since(path, journal) from None
    is_same = (found.st_ino, found.st_size) == (file.number, file.size)
    if not is_same or not _may_be_left(found, file, journal):
        raise changed_since(path, journal)


def _may_be_left(found: os.stat_result, file: File, journal: FoundJournal) -> bool:
    """Whether a file may be as the update left it, by the time at which it was last changed."""
    if found.st_mtime_ns == file.time:
        return True
    if not file.begun:
        return False
    return file.begun / 1e9 - SLACK <= found.st_mtime <= journal.last_written() / 1e9 + SLACK


def path_of(name: str, file: File) -> str:
    """Return the path of a file of an update, whose journal lies in a folder beside the first."""
    folder = os.path.dirname(os.path.dirname(name))
    return os.path.normpath(os.path.join(folder, file.path))


def copy_of(file: File, journal: FoundJournal) -> str:
    """Return where the copy is that was made of a file before its update."""
    return os.path.join(os.path.dirname(journal.path), file.copy)


def is_put_back(file: File, journal: FoundJournal) -> bool:
    """Whether another recovery has begun to put a copy back over its file."""
    return bool(file.copy) and os.path.exists(f"{copy_of(file, journal)}.begun")


def changed_since(path: str, journal: FoundJournal) -> DamagedJournal:
    return DamagedJournal(
        f"{path} was changed by another program after the update stopped of which the journal "
        f"{journal.path} is: perhaps a copy was restored, and then the journal is to be discarded; "
        "dv.recover(path, 'force') goes on with the update, which is right only if no byte of the "
        "file has changed since"
    )


def _is_let_go(path: str) -> bool:
    """Whether nobody has a file locked, as HDF5 does with one of which it remembers parts.

    The lock of its journal may have been waited for, and others of the same process come later.
    """
    if sys.platform == "win32":
        return True
    with open(path, "r+b") as file:
        end = time.monotonic() + CLOSING
        while not (is_free := lock(file.fileno(), waits=False)) and time.monotonic() < end:
            time.sleep(PAUSE)
    return is_free


def check_blocks(journal: FoundJournal, update: Update, plan: Plan) -> None:
    """Raise if blocks that are done, or untouched, do not hold what they were left with."""
    marks = journal.marks()
    done = [number for number, mark in enumerate(marks) if mark == DONE and is_summed(number)]
    untouched = [number for number, mark in enumerate(marks) if mark == UNTOUCHED]
    for number in done[:: max(1, len(done) // SEEN)] + untouched:
        block = update.blocks[number]
        if plan.files[plan.parts[block.number].spot.file].copy:
            continue
        part = block.of(update.changes)
        if (nbytes_of(part.target) or 0) > MOST_SUMMED:
            continue
        found = np.ascontiguousarray(part.source.read(part.where, {}))
        known = journal.sum_of(number)
        if known and checksum(found.reshape(-1).view(np.uint8)) != known:
            raise changed_since(str(part.source.path or part.source.folder), journal)


def check_entries(
    journal: FoundJournal, update: Update, plan: Plan, entries: Sequence[tuple[int, int]]
) -> None:
    """Raise if blocks are neither as before nor as after an update whose values were kept."""
    if journal.header.way != UNDO or any(part.value is None for part in plan.parts):
        return
    for slot, number in entries:
        block = update.blocks[number]
        part = block.of(update.changes)
        found = np.ascontiguousarray(part.source.read(part.where, {})).tobytes()
        if not is_between(found, journal.entry(slot).data, update.known(block).tobytes()):
            raise changed_since(str(part.source.path or part.source.folder), journal)


def is_between(found: bytes, old: bytes, new: bytes) -> bool:
    """Whether each byte is as before a write or as after it, wherever that was cut short.

    >>> is_between(b"xyc", b"abc", b"xyz"), is_between(b"xyd", b"abc", b"xyz")
    (True, False)
    """
    one, before, after = (np.frombuffer(data, np.uint8) for data in (found, old, new))
    return one.size == before.size and bool(((one == before) | (one == after)).all())
