"""After a crash: the journals of a file are found, and each update is finished or undone."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.errors import PartialWriteError
from dataview.plan.build import select, stored
from dataview.plan.kinds import Stored, known_dtype, known_shape
from dataview.plan.node import Node, Part
from dataview.plan.walk import below
from dataview.sources import Grid, Source, is_zarr_array
from dataview.write.changes import Change
from dataview.write.found_files import (
    changed_since,
    check_blocks,
    check_entries,
    check_file,
    check_inside,
    copy_of,
    is_between,
    is_put_back,
    path_of,
)
from dataview.write.growth import take_back
from dataview.write.guards import Guard, Work, copy, remove
from dataview.write.journal import (
    FINISH,
    PUT_BACK,
    TAKE_BACK,
    WAITING,
    DamagedJournal,
    FoundJournal,
    is_running_here,
)
from dataview.write.journals import LINK, folder_of, main_of
from dataview.write.overlap import Separated
from dataview.write.plans import File, Growth, Plan, Run, Spot, unpacked, value_of
from dataview.write.raw_files import lock, pread, write_all
from dataview.write.update import Update

Open = Callable[[str], Node]
"""Return the node of a file, opened to be written."""

TELL, RECOVER, FORCE, DISCARD = ACTIONS = "tell", "recover", "force", "discard"
"""What can be done with journals; to force is to recover a file that looks changed since."""


class Recovery(NamedTuple):
    """What the journal of an update says that stopped midway.

    `way` is what can be done: to "finish" it, or to "undo" it.  `done` of its `blocks` are changed,
    or None if that is not known.  `when` it was last written, in seconds.  `what` are the functions
    by which it computes.  `is_over` once that was done.
    """

    path: str
    journal: str
    way: str
    blocks: int
    done: int | None
    when: float
    what: str = ""
    is_over: bool = False

    def __str__(self) -> str:
        if self.is_over:
            return f"{self.path}: {self.done_now()}"
        state = "" if self.done is None else f" with {self.done} of {self.blocks} blocks done"
        update = f"an update of {self.path}{self._by} stopped at {self._at}{state}"
        return f"{update}: dv.open can {self.way} it"

    def done_now(self) -> str:
        """Say what became of the update."""
        state = _STATES[self.way]
        update = f"the update{self._by} that stopped at {self._at}"
        return f"{update} was {self.outcome}; the file is {state}"

    @property
    def _by(self) -> str:
        return f" by {self.what}" if self.what else ""

    @property
    def _at(self) -> str:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.when))

    @property
    def outcome(self) -> str:
        """What became of the update when that was done."""
        return _OUTCOMES[self.way]


_OUTCOMES = {"finish": "finished", "undo": "undone", "discard": "forgotten"}
_STATES = {"finish": "as after it", "undo": "as before it", "discard": "as it was left"}
"""What became of an update, and of the file, by what was done."""


def journals_of(path: str) -> list[str]:
    """Return the journals of a file or folder, of what is in it, and of what it is in."""
    found = [name for folder in _folders_below(path) for name in _names(folder)]
    while True:
        found += _names(folder_of(path))
        above = os.path.dirname(path)
        if above == path:
            return sorted(set(found))
        path = above


def _folders_below(path: str) -> Iterator[str]:
    """Yield the folders of journals inside a folder, but not those inside an array of zarr."""
    waiting = [path] if os.path.isdir(path) else []
    while waiting:
        folder = waiting.pop()
        if is_zarr_array(folder):
            continue
        with os.scandir(folder) as entries:  # links are not followed: they may lead back
            folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
        for entry in folders:
            if entry.name.startswith(".") and entry.name.endswith(".journal"):
                yield entry.path
            elif os.access(entry.path, os.R_OK | os.X_OK):  # in others nothing can be opened
                waiting.append(entry.path)


def _names(folder: str) -> list[str]:
    """Return the journals in a folder, and links to others; it is removed if it is empty."""
    if not os.access(folder, os.F_OK):  # often there is none, and an exception takes longer
        return []
    try:
        names = [os.path.join(folder, name) for name in os.listdir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    if not names:  # of a process that was killed before its first update
        with contextlib.suppress(OSError):
            os.rmdir(folder)
    return [name for name in names if "." not in os.path.basename(name) or _is_link(name)]


def _is_link(name: str) -> bool:
    """Whether a file is a link to a journal; one that was never complete is removed."""
    if name.endswith(f"{LINK}.new") and not _is_of_living(name):
        os.unlink(name)
    return name.endswith(LINK)


def _is_of_living(name: str) -> bool:
    """Whether the process lives with whose number the name of a journal or a link begins."""
    process = os.path.basename(name).split("-")[0]
    if not process.isdigit() or sys.platform == "win32":  # where to ask is to interrupt
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def recovered(
    path: str, open_file: Open, action: str = RECOVER, waits: bool = False
) -> list[Recovery]:
    """Finish or undo the updates of a file that a killed process has left, and say what was done.

    `action` may also be to tell what there is, or to discard it.  An update that is running is
    waited for if `waits`, and else an error.
    """
    if action not in ACTIONS:
        raise ValueError(f"action is one of {', '.join(map(repr, ACTIONS))}; got {action!r}")
    found = []
    for name in journals_of(path):
        one = _one(name, open_file, action, waits)
        if one is not None:
            found.append(one)
    return found


def has_update(name: str) -> bool:
    """Whether a journal tells of an update, or cannot be read."""
    try:
        with contextlib.closing(FoundJournal(main_of(name))) as journal:
            return journal.read() is not None
    except (OSError, ValueError) as error:
        return not isinstance(error, FileNotFoundError)


def _one(name: str, open_file: Open, action: str, waits: bool) -> Recovery | None:
    main = main_of(name)
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
        if journal.read() is None or is_running_here(journal.path):
            return None
        if not waits:
            raise BlockingIOError(
                errno.EAGAIN,
                f"process {journal.header.process} is updating the file, or finishing what another "
                "one began; try later, or wait for it by dv.open(path, lock='wait')",
                _named_by(journal),
            )
        lock(journal.handle, waits=True)
    if action == DISCARD:
        return _discarded(journal)
    raw = journal.read()
    if raw is None:
        if not _is_of_living(journal.path):  # else it says who has the file open
            _remove(journal.path)
        return None
    if journal.header.way == PUT_BACK:
        return _with_run(journal, _read(journal, Run.unpacked, raw), action)
    if journal.header.way == TAKE_BACK:
        return _with_growth(journal, _read(journal, Growth.unpacked, raw), action)
    plan = _read(journal, unpacked, raw)
    told = _told(journal, plan)
    if action != TELL:
        _carry_out(journal, plan, open_file, action == FORCE)
        journal.end()
        _forget(journal, plan.files)
    return told._replace(is_over=action != TELL)


def _read(journal: FoundJournal, unpack: Callable[[bytes], Any], raw: bytes) -> Any:
    try:
        return unpack(raw)
    except Exception as error:  # of any class: bytes may say anything
        raise DamagedJournal(f"the journal {journal.path} cannot be read: {error}") from error


def _with_run(journal: FoundJournal, run: Run, action: str) -> Recovery:
    """Put back one run of bytes, unless it is only to be told of."""
    owner = path_of(journal.path, File(run.owner, 0, 0))
    path = os.path.normpath(os.path.join(owner, run.inside))
    told = Recovery(owner, journal.path, "undo", 1, None, os.stat(journal.path).st_mtime)
    if action == TELL:
        return told
    is_inside = not os.path.relpath(path, owner).startswith(os.pardir)
    is_own = is_inside and folder_of(owner) == os.path.dirname(journal.path)
    known = File(path, run.number, run.size, "", run.time, run.begun)
    check_file(path, known, journal, is_own, action == FORCE)
    if run.place + len(run.old) > os.path.getsize(path):
        raise changed_since(path, journal)
    with open(path, "r+b", buffering=0) as file:
        found = pread(file.fileno(), len(run.old), run.place)
        if action != FORCE and not is_between(found, run.old, run.new):
            raise changed_since(path, journal)
        journal.claim()
        write_all(file.fileno(), memoryview(run.old), run.place)
        os.fsync(file.fileno())
    journal.end()
    _remove(journal.path)
    return told._replace(is_over=True)


def _with_growth(journal: FoundJournal, plan: Growth, action: str) -> Recovery:
    """Take back the rows that were being added, unless they are only to be told of."""
    owners = [path_of(journal.path, file) for file in plan.files]
    when = os.stat(journal.path).st_mtime
    told = Recovery(owners[0], journal.path, "undo", 1, None, when, "_append")
    if action == TELL:
        return told
    _check_owners(journal, plan.files, action == FORCE, is_moved=True)
    take_back(journal, plan, owners, action == FORCE)
    journal.end()
    _forget(journal, plan.files)
    return told._replace(is_over=True)


def _forget(journal: FoundJournal, files: Sequence[File]) -> None:
    """Remove a journal whose update has ended, and what leads to it from other files."""
    _remove(journal.path)
    for file in files[1:]:
        _forget_links(path_of(journal.path, file), journal.path)


def _discarded(journal: FoundJournal) -> Recovery | None:
    """Remove a journal, and say if there was an update in it."""
    when = os.stat(journal.path).st_mtime
    try:
        is_idle = journal.read() is None
    except DamagedJournal:
        is_idle = False
    if is_idle and _is_of_living(journal.path):
        return None
    journal.end()  # before copies are removed
    _remove(journal.path)
    found = Recovery(_named_by(journal), journal.path, "discard", 0, None, when, is_over=True)
    return None if is_idle else found


def _named_by(journal: FoundJournal) -> str:
    """Return the file beside which a journal lies, by the name of its folder."""
    folder, name = os.path.split(os.path.dirname(journal.path))
    return os.path.join(folder, name.removeprefix(".").removesuffix(".journal"))


def _forget_links(path: str, journal: str) -> None:
    """Remove what says beside another file of an update that the journal was of it, too."""
    for name in _names(folder_of(path)):
        if name.endswith(LINK) and main_of(name) == journal:
            _remove(name)


def _told(journal: FoundJournal, plan: Plan) -> Recovery:
    way = "finish" if _is_finished(journal, plan) else "undo"
    done = sum(journal.done()) if journal.header.way == FINISH else None
    path = path_of(journal.path, plan.files[0])
    when = os.stat(journal.path).st_mtime
    return Recovery(path, journal.path, way, journal.header.blocks, done, when, plan.functions())


def _is_finished(journal: FoundJournal, plan: Plan) -> bool:
    """Whether an update is finished; one of which no block is done yet is undone.

    Then the file may also be a fresh copy, of a script that begins anew and will repeat the update.
    Its time does not tell: a write that is killed changes the time before the first byte.
    """
    return journal.header.way == FINISH and (any(journal.done()) or not plan.reads)


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


def _carry_out(journal: FoundJournal, plan: Plan, open_file: Open, is_forced: bool) -> None:
    paths = _check_owners(journal, plan.files, is_forced)
    if not is_forced and not any(is_put_back(file, journal) for file in plan.files):
        for file in plan.inside:
            check_inside(path_of(journal.path, file), file, journal)
    is_finished = _is_finished(journal, plan)
    # All entries are checked before the first is used.
    entries = [
        (entry.slot, entry.block)
        for entry in journal.entries(not any(file.copy for file in plan.files))
    ]
    journal.freshen()  # to open a file may change its time
    for path, file in zip(paths, plan.files, strict=True):
        if file.copy:
            journal.claim()
            held = copy_of(file, journal)
            with open(f"{held}.begun", "wb"):  # from now on the time of the file says nothing
                copy(held, path, journal.syncs)
    sources = [list(_sources(open_file(path))) for path in paths]
    try:
        update = _update(plan, sources, journal)
        if not is_forced and not plan.order:
            check_blocks(journal, update, plan)
            check_entries(journal, update, plan, entries)
        journal.claim()
        work = Work(update.changes, update.grids, update.blocks, update.order)
        update.guard = Guard(work, journal, plan.reads)
        _put_back(journal, update, entries)
        if is_finished:
            _finish(journal, update)
        for change in update.changes:
            change.source.settle()
            if journal.syncs:
                change.source.sync()
    finally:
        for source in itertools.chain(*sources):
            source.close()


def _check_owners(
    journal: FoundJournal, files: Sequence[File], is_forced: bool, is_moved: bool = False
) -> list[str]:
    """Return the paths of the files beside which a journal is, or links to it, or raise."""
    paths = [path_of(journal.path, file) for file in files]
    for number, (path, file) in enumerate(zip(paths, files, strict=True)):
        own, folder = folder_of(path), os.path.dirname(journal.path)
        is_own = own == folder if not number else journal.path in map(main_of, _names(own))
        check_file(path, file, journal, is_own, is_forced, is_moved)
    return paths


def _sources(node: Node) -> Iterator[Source]:
    for part in below([node], Part.held):
        if isinstance(part, Stored):
            yield part.source


def _update(plan: Plan, sources: list[list[Source]], journal: FoundJournal) -> Update:
    """Return the update as it was, of the files that are open now."""
    try:
        update = _made(plan, sources)
    except DamagedJournal:
        raise
    except Exception as error:  # of any class, as above
        raise DamagedJournal(f"the journal {journal.path} makes no sense: {error}") from error
    if len(update.blocks) != journal.header.blocks:
        raise DamagedJournal(f"the journal {journal.path} is damaged: it has other blocks")
    return update


def _made(plan: Plan, sources: list[list[Source]]) -> Update:
    """Return the update that a plan says; of what is undone nobody asks for the values."""

    def source_of(spot: Spot) -> Source:
        return _found(sources[spot.file], spot.address)

    changes = []
    for part in plan.parts:
        target = select(stored(source_of(part.spot)), part.spot.where)
        value: Any = np.zeros((), known_dtype(target))
        if part.value is not None:
            value = value_of(part.value, source_of)
        changes.append(Change(target, value, part.is_checked))
    grids = [
        Grid(one.axis, one.step, one.first, tuple(Grid(*other) for other in one.across), one.starts)
        for one in plan.parts
    ]
    return Update(Separated(changes, plan.order), contextlib.ExitStack(), grids)


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
        journal.mark(number, WAITING)
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
