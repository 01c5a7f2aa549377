"""Rows that are added to several arrays, or to none of them, even if the process is killed.

A journal has what the files held where they tell of their rows; after a crash that is put back.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from dataview.sources import Source
from dataview.write.found_files import changed_since, check_file, path_of
from dataview.write.guards import remove, seen, warn_of_room
from dataview.write.journal import TAKE_BACK, FoundJournal, Journal
from dataview.write.journals import Journals, when_free
from dataview.write.plans import Before, Growth
from dataview.write.raw_files import pread, write_all


class GrowthGuard:
    """The journal of rows that are being added to arrays, if a kill could leave some without them.

    One array that does not tell of rows before all are there needs none.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        guarded = [one for one in sources if one.journals is not None]
        self.is_early = any(one.shows_growth for one in guarded)
        self.sources = guarded if self.is_early or len(guarded) > 1 else []
        self.journal: Journal | None = None
        self.owner: Journals | None = None
        self.links: list[str] = []

    def begin(self) -> None:
        """Write down what the files hold, unless that is done; nothing has been changed yet."""
        if self.sources and self.journal is None:
            when_free(self._begin)

    def _begin(self) -> None:
        every = {one.journals.path: one.journals for one in self.sources}
        self.owner = next(iter(every.values()))
        journal = self.owner.taken()
        try:
            for journals in every.values():
                journals.check_free()
            begun = journal.last_written()
            before = tuple(self._before(begun))
            files = tuple(seen(path, self.owner.path, "", begun) for path in every)
            plan = Growth(files, before).packed()
            warn_of_room(self.sources[0], len(plan), "_append to")
            for journals in list(every.values())[1:]:
                self.links.append(journals.link(journal.path))
            journal.begin(TAKE_BACK, plan, 0, 0)
            for journals in every.values():
                journals.check_free(journal)  # two may have looked before either began
        except BaseException:
            self._give_back(journal)
            raise
        self.journal = journal

    def _before(self, begun: int) -> Iterator[Before]:
        assert self.owner is not None
        alike: dict[str, list[Source]] = {}
        for source in self.sources:
            alike.setdefault(source.journals.path, []).append(source)
        for opened in alike.values():
            for one in opened[0].changed_by_growth(opened):
                folder, name = os.path.split(one.path)
                path = os.path.join(os.path.realpath(folder), name)  # as the owner's, without links
                file = seen(path, self.owner.path, "", begun)
                with open(one.path, "rb", buffering=0) as raw:
                    runs = [(a, pread(raw.fileno(), b - a, a)) for a, b in one.runs]
                yield Before(file._replace(number=0) if one.is_replaced else file, tuple(runs))

    def freshen(self) -> None:
        """Say that files are about to be changed."""
        if self.journal is not None:
            self.journal.freshen()

    def end(self) -> None:
        """Say that all arrays have the rows, or none: from now on a crash changes nothing."""
        journal, self.journal = self.journal, None
        if journal is not None:
            for source in self.sources if journal.syncs else ():
                source.sync()
            self._give_back(journal)

    def _give_back(self, journal: Journal) -> None:
        journal.end()
        for name in self.links:
            remove(name)
        self.links = []
        if self.owner is not None:
            self.owner.give_back(journal)


# --- after a crash -------------------------------------------------------------------------------


def take_back(journal: FoundJournal, plan: Growth, owners: Sequence[str], is_forced: bool) -> None:
    """Put back what files held before rows were added; `owners` are those that were opened."""
    for one in plan.before:
        _check(journal, one, owners, is_forced)
    journal.claim()
    for one in plan.before:
        journal.freshen()
        with open(path_of(journal.path, one.file), "r+b", buffering=0) as file:
            for place, old in one.runs:
                write_all(file.fileno(), memoryview(old), place)
            file.truncate(one.file.size)
            os.fsync(file.fileno())


def _check(journal: FoundJournal, one: Before, owners: Sequence[str], is_forced: bool) -> None:
    """Raise unless a file that rows were being added to is in what was opened, and as it was left.

    An HDF5 file may have a link to another one beside it.
    """
    path = path_of(journal.path, one.file)
    folders = [owner if os.path.isdir(owner) else os.path.dirname(owner) for owner in owners]
    is_inside = any(os.path.commonpath((path, folder)) == folder for folder in folders)
    check_file(path, one.file, journal, is_inside, is_forced, is_moved=True)
    if one.file.number and os.path.getsize(path) < one.file.size:
        raise changed_since(path, journal)
