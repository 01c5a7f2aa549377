"""A small update of one run of bytes in a file: what was there is noted, and put back if it fails.

It has no plan and one block.  If the file has a journal, that holds the old bytes and their place,
and after a crash they are put back by position.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from dataview.index.interrupts import held_interrupt
from dataview.index.sizes import sizes
from dataview.plan.node import Node
from dataview.sources import Source
from dataview.write.changes import Change
from dataview.write.journal import Journal
from dataview.write.journals import Journals, when_free
from dataview.write.overlap import Separated
from dataview.write.plans import Run
from dataview.write.update import Update


def is_one_run(changes: Sequence[Change]) -> bool:
    """Whether an update writes an array that is known to one place in a file, and is small."""
    if len(changes) > 1 or isinstance(changes[0].value, Node):
        return False
    source, where = changes[0].source, changes[0].where
    if source.memory is not None or source.run_at(where) is None:
        return False
    return source.dtype.itemsize * math.prod(where.shape) <= sizes.recorded_bytes


def write_one_run(change: Change) -> None:
    """Write an array to one run of bytes: all of it, or the error says what is written."""
    when_free(lambda: _write(change))


def _write(change: Change) -> None:
    """Write it, or raise `Busy` before anything is changed if another process updates the file."""
    source, where = change.source, change.where
    place = source.run_at(where)
    assert place is not None
    value = np.empty(where.shape, source.dtype)
    value[...] = change.value
    noted = _Noted(source, place, value)
    turn = contextlib.nullcontext() if noted.owner is None else noted.owner.turn
    with held_interrupt() as pressed, turn:
        try:
            source.write_run(place, value, noted.note)
        except BaseException as error:
            if noted.old is not None:  # else nothing was changed
                update = Update(Separated([change], 0), contextlib.ExitStack())
                if update.guard is not None:
                    update.guard.take_over(noted.owner, noted.journal)
                update.fail(noted.old, error, pressed)
            raise
        noted.end()


class _Noted:
    """What was in a run of bytes: in a journal, too, if the write may be stopped midway."""

    __slots__ = ("journal", "old", "owner", "place", "source", "value")

    def __init__(self, source: Source, place: int, value: np.ndarray) -> None:
        self.source, self.place, self.value = source, place, value
        self.owner: Journals | None = source.journals
        self.journal: Journal | None = None
        self.old: np.ndarray | None = None

    def note(self, file: Any, old: np.ndarray) -> None:
        """Keep what is in the run, which is about to be changed."""
        owner = self.owner
        if owner is not None and owner.needs_none(self.place, old.nbytes):
            owner.check_free(is_run=True)
        elif owner is not None:
            journal = owner.taken()
            try:
                owner.check_free(journal, is_run=True)
                run = self._run(owner.name, file, old, journal.last_written())
                journal.begin_run(run.packed())
                owner.check_free(journal, is_run=True)  # two may have looked before either began
            except BaseException:
                _give_back(owner, journal)
                raise
            self.journal = journal
        self.old = old

    def _run(self, owner: str, file: Any, old: np.ndarray, begun: int) -> Run:
        """Return what tells where the run is, in a file that an owner of journals is or has."""
        seen, inside = os.fstat(file.fileno()), self.source.path_inside
        known = seen.st_ino, seen.st_size, seen.st_mtime_ns, begun
        return Run(owner, inside, *known, self.place, old.tobytes(), self.value.tobytes())

    def end(self) -> None:
        """Say that the run is written: from now on a crash changes nothing."""
        if self.owner is not None and self.journal is not None:
            if self.journal.syncs:
                self.source.sync()
            _give_back(self.owner, self.journal)


def _give_back(owner: Journals, journal: Journal) -> None:
    journal.end()
    owner.give_back(journal)
