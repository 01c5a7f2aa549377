"""After a crash: the journals of a file are found, and each update is finished or undone."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.errors import PartialWriteError
from dataview.plan.build import select, stored
from dataview.plan.kinds import Stored, known_dtype, known_shape
from dataview.plan.node import Node, Part
from dataview.plan.walk import below
from dataview.sources import Source
from dataview.write.changes import Change
from dataview.write.guards import Guard, Work, copy, remove
from dataview.write.journal import (
    FINISH,
    DamagedJournal,
    FoundJournal,
    folder_of,
    lock,
)
from dataview.write.overlap import Separated
from dataview.write.plans import File, Plan, Spot, unpacked, value_of
from dataview.write.update import Update

Open = Callable[[str], Node]
"""Return the node of a file, opened to be written."""

TELL, RECOVER, DISCARD = "tell", "recover", "discard"
"""What can be done with the journals of a file."""


class Recovery(NamedTuple):
    """What the journal of an update says that stopped midway.

    `way` is what can be done: to "finish" it, or to "undo" it.  `done` of its `blocks` are changed;
    of what is undone that is not known, and None.  `when` it was last written, in seconds.
    """

    path: str
    journal: str
    way: str
    blocks: int
    done: int | None
    when: float

    def __str__(self) -> str:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.when))
        state = "" if self.done is None else f", {self.done} of {self.blocks} blocks done"
        return f"an update that stopped at {at}{state}: its journal says how to {self.way} it"

    @property
    def outcome(self) -> str:
        """What became of the update when that was done."""
        return "finished" if self.way == "finish" else "undone"


def journals_of(path: str) -> list[str]:
    """Return the journals of updates of a file, and of the folders in which it is."""
    found: list[str] = []
    while True:
        found += _names(folder_of(path))
        above = os.path.dirname(path)
        if above == path:
            return sorted(found)
        path = above


def forget(path: str) -> None:
    """Remove the journals of a file that was replaced: what they tell of is gone."""
    for name in _names(folder_of(path)):
        _remove(name)


def _names(folder: str) -> list[str]:
    """Return the journals in a folder, and links to others; it is removed if it is empty."""
    try:
        names = [entry.path for entry in os.scandir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    if not names:  # of a process that was killed before its first update
        with contextlib.suppress(OSError):
            os.rmdir(folder)
    return [name for name in names if ".copy" not in os.path.basename(name)]


def recovered(
    path: str, open_file: Open, action: str = RECOVER, waits: bool = False
) -> list[Recovery]:
    """Finish or undo the updates of a file that a killed process has left, and say what was done.

    `action` may also be to tell what there is, or to discard it.  An update that is running is
    waited for if `waits`, and else an error.
    """
    if action not in (TELL, RECOVER, DISCARD):
        raise ValueError(f"action is {TELL!r}, {RECOVER!r} or {DISCARD!r}; got {action!r}")
    found = []
    for name in journals_of(path):
        one = _one(name, open_file, action, waits)
        if one is not None:
            found.append(one)
    return found


def _one(name: str, open_file: Open, action: str, waits: bool) -> Recovery | None:
    main = _main(name)
    try:
        return _of_main(main, open_file, action, waits)
    finally:
        if main != name and not os.path.exists(main):  # its update has ended
            _remove(name)


def _of_main(main: str, open_file: Open, action: str, waits: bool) -> Recovery | None:
    try:
        journal = FoundJournal(main)
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise PermissionError(
            error.errno,
            "an update of the file may have stopped midway, and its journal cannot be carried out "
            "here; have it opened by somebody who may write it",
            main,
        ) from None
    with contextlib.closing(journal):
        try:
            return _with(journal, open_file, action, waits)
        except DamagedJournal as error:
            raise DamagedJournal(
                f"{error}; nothing was changed: dv.recover(path, 'discard') forgets the journal, "
                "and leaves the file as it is"
            ) from error


def _with(journal: FoundJournal, open_file: Open, action: str, waits: bool) -> Recovery | None:
    """Do with a journal what is asked for."""
    if not lock(journal.handle, waits=False):
        if journal.read() is None or journal.header.process == os.getpid():
            return None
        if not waits:
            raise _running(journal)
        lock(journal.handle, waits=True)
    if action == DISCARD:
        _remove(journal.path)
        return Recovery(journal.path, journal.path, "discard", 0, None, time.time())
    raw = journal.read()
    if raw is None:
        _remove(journal.path)
        return None
    try:
        plan = unpacked(raw)
    except (pickle.UnpicklingError, ValueError, TypeError, EOFError) as error:
        raise DamagedJournal(f"the journal {journal.path} cannot be read: {error}") from error
    told = _told(journal, plan)
    if journal.header.process == os.getpid() and any(file.copy for file in plan.files):
        return None  # the file may be open here still, and HDF5 remembers parts of it
    if action == RECOVER:
        _carry_out(journal, plan, open_file)
        journal.end()
        _remove(journal.path)
        for file in plan.files[1:]:
            _forget_links(_path(journal.path, file), journal.path)
    return told


def _forget_links(path: str, journal: str) -> None:
    """Remove what says beside another file of an update that the journal was of it, too."""
    for name in _names(folder_of(path)):
        if name.endswith(".link") and _main(name) == journal:
            _remove(name)


def _main(name: str) -> str:
    """Return the journal that a link beside another file of the same update names."""
    if not name.endswith(".link"):
        return name
    with open(name, encoding="utf-8") as file:
        return os.path.normpath(os.path.join(os.path.dirname(name), file.read()))


def _running(journal: FoundJournal) -> BlockingIOError:
    return BlockingIOError(
        errno.EAGAIN,
        f"process {journal.header.process} is updating the file; wait for it with lock='wait'",
        os.path.dirname(journal.path),
    )


def _told(journal: FoundJournal, plan: Plan) -> Recovery:
    way = "finish" if journal.header.way == FINISH else "undo"
    done = sum(journal.done()) if way == "finish" else None
    path = _path(journal.path, plan.files[0])
    when = os.stat(journal.path).st_mtime
    return Recovery(path, journal.path, way, journal.header.blocks, done, when)


def _path(name: str, file: File) -> str:
    """Return the path of a file of an update, whose journal lies in a folder beside the first."""
    folder = os.path.dirname(os.path.dirname(name))
    return os.path.normpath(os.path.join(folder, file.path))


def _remove(name: str) -> None:
    """Remove a journal, its copies, and the folder if nothing else is in it."""
    folder, own = os.path.split(name)
    with contextlib.suppress(FileNotFoundError):
        for entry in os.listdir(folder):
            if entry.startswith(f"{own}.copy"):
                remove(os.path.join(folder, entry))
        os.unlink(name)
    with contextlib.suppress(OSError):
        os.rmdir(folder)


# --- carrying it out -----------------------------------------------------------------------------


def _carry_out(journal: FoundJournal, plan: Plan, open_file: Open) -> None:
    paths = [_path(journal.path, file) for file in plan.files]
    for number, (path, file) in enumerate(zip(paths, plan.files, strict=True)):
        _check(path, file, journal.path, not number)
    # All entries are checked before the first is used.
    entries = [(entry.slot, entry.block) for entry in journal.entries()]
    for path, file in zip(paths, plan.files, strict=True):
        if file.copy:
            copy(os.path.join(os.path.dirname(journal.path), file.copy), path, journal.syncs)
    sources = [list(_sources(open_file(path))) for path in paths]
    try:
        update = _update(plan, sources)
        work = Work(update.changes, update.steps, update.blocks, update.order)
        update.guard = Guard(work, journal, plan.reads)
        _put_back(journal, update, entries)
        if journal.header.way == FINISH:
            _finish(journal, update)
        for change in update.changes:
            change.source.settle()
            if journal.syncs:
                change.source.sync()
    finally:
        for source in itertools.chain(*sources):
            source.close()


def _check(path: str, file: File, journal: str, is_first: bool) -> None:
    """Raise unless a file is the one of the journal, and the journal was made beside the file."""
    try:
        number = os.stat(path).st_ino
    except FileNotFoundError:
        number = -1
    if number != file.number:
        raise DamagedJournal(
            f"the journal {journal} is of another file than {path} is now: that was replaced or "
            "moved since; put it back"
        )
    own = folder_of(path)
    is_own = own == os.path.dirname(journal) if is_first else journal in map(_main, _names(own))
    if not is_own or file.copy != os.path.basename(file.copy):
        raise DamagedJournal(f"the journal {journal} names {path}, and was not made for it")


def _sources(node: Node) -> Iterator[Source]:
    for part in below([node], Part.held):
        if isinstance(part, Stored):
            yield part.source


def _update(plan: Plan, sources: list[list[Source]]) -> Update:
    """Return the update as it was, of the files that are open now."""

    def source_of(spot: Spot) -> Source:
        return _found(sources[spot.file], spot.address)

    changes = []
    for part in plan.parts:
        target = select(stored(source_of(part.spot)), part.spot.where)
        value: Any = np.zeros(
            (), known_dtype(target)
        )  # of what is undone nobody asks for the value
        if part.value is not None:
            value = value_of(part.value, source_of)
        changes.append(Change(target, value, part.is_checked))
    steps = [(part.axis, part.step) for part in plan.parts]
    return Update(Separated(changes, plan.order), contextlib.ExitStack(), steps)


def _found(sources: list[Source], address: Any) -> Source:
    for source in sources:
        found = source.at(address)
        if found is not None:
            return found
    if len(address) == 2:
        return _found(sources, address[0]).member(address[1])
    raise DamagedJournal(f"the file has no array {address} any more, which was being updated")


def _put_back(journal: FoundJournal, update: Update, entries: Sequence[tuple[int, int]]) -> None:
    """Put back the old values of blocks, the last ones first: they may have places in common."""
    for slot, number in sorted(entries, key=lambda entry: -entry[1]):
        part = update.blocks[number].of(update.changes)
        raw = journal.entry(slot).data
        old = np.frombuffer(raw, known_dtype(part.target)).reshape(known_shape(part.target))
        part.source.write(part.where, old)
        part.source.settle()
        if journal.syncs:
            part.source.sync()


def _finish(journal: FoundJournal, update: Update) -> None:
    """Do the rest of an update, whose blocks are whole: done, or as they were before."""
    journal.restart()
    done = journal.done()
    update.done = {
        block: None for block, is_done in zip(update.blocks, done, strict=True) if is_done
    }
    try:
        with np.errstate(all="ignore"):
            update.run()
    except PartialWriteError as error:
        raise OSError(
            f"{error}; the journal {journal.path} stays, so the next opening tries again"
        ) from error
