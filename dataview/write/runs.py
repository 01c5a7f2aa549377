"""Runs of writes whose values are views: rows that are swapped like values would be lost.

A row is a view, and sees what is written to it.  So `v[0], v[1] = v[1], v[0]` would write the same
row twice.  A run is a sequence of writes whose values are views that were built before its first
write.  In a run, a write is refused if an earlier one has changed its value, and an earlier one has
read its target.

Two statements belong to one run only if their values are parts of views, as in `kept = v[0]; v[0] =
v[1]; v[1] = kept`.  Whole arrays that are written to and fro, and what is computed of them, are not
taken for rows that are swapped.
"""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import Place, into_places, place_of, take_before
from dataview.index import Index
from dataview.plan.kinds import Concat, Driven, Record, Select, Stored
from dataview.plan.node import Node
from dataview.plan.walk import below
from dataview.sources import Source
from dataview.write.changes import Change
from dataview.write.listeners import announce

REMEMBERED = 256
"""So many writes of a run can be undone, and are compared with a later one; the very places that
all others changed and read are known too."""

UNDO_BYTES = 1 << 20
"""The writes of a run are undone if their values are not more than this in all."""

MANY = 4096
"""More pairs of places than this are not all compared."""

clock = [0]
"""How many writes there were; a view remembers how many there were when it was built."""


class _Spot(NamedTuple):
    """A place whose source may be gone: what nobody holds is not kept for the sake of a run."""

    source: weakref.ref[Source]
    where: Index

    def meets(self, other: _Spot) -> bool:
        ours, theirs = self.source(), other.source()
        if ours is None or theirs is None:
            return False
        return ours.may_meet(self.where, theirs, other.where)


class Built(NamedTuple):
    """How many writes there were when a view was built, and whether it is a part of another."""

    writes: int
    is_part: bool


class _Written(NamedTuple):
    """A write of a run: what it changed and read, and what was there before and after."""

    is_of_rows: bool
    targets: list[_Spot]
    reads: list[_Spot]
    old: list[np.ndarray] | None
    new: list[np.ndarray] | None


class _Run(threading.local):
    """The run of each thread: when its first write was, and its last writes."""

    def __init__(self) -> None:
        self.began = -1
        self.statement: Any = None
        self.nbytes = self.count = 0
        self.changed: set[Any] = set()
        self.read: set[Any] = set()
        self.writes: deque[_Written] = deque(maxlen=REMEMBERED)

    def clear(self) -> None:
        """Forget all writes."""
        self.nbytes = self.count = 0
        for known in (self.writes, self.changed, self.read):
            known.clear()


_run = _Run()


def end() -> None:
    """End the run: a value that is no view was written."""
    if _run.writes:
        _run.clear()


class Member:
    """A write of a value that is a view, as a member of a run."""

    def __init__(self, changes: Sequence[Change], value: Node, built: Built) -> None:
        """Begin a run, or go on with the one that has begun; refuse what would lose data."""
        parts = below([value], into_places)
        self.is_of_rows = built.is_part and all(isinstance(part, _SHOWING) for part in parts)
        self._join(built)
        self.places = [change.place for change in changes]
        self.targets = list(map(_spot, self.places))
        self.reads = [_spot(place) for part in parts if (place := place_of(part)) is not None]
        self.is_idle = _are_same(self.targets, self.reads)
        if _run.writes and not self.is_idle:
            self._check()
        _run.nbytes += sum(change.source.dtype.itemsize * _size(change) for change in changes)
        self.old = None if _run.nbytes > UNDO_BYTES else _read(self.places)

    def _join(self, built: Built) -> None:
        """Go on with the run that has begun, if this write belongs to it, or begin another."""
        statement = _statement()
        begun, _run.statement = _run.statement, statement
        if not _run.writes or built.writes > _run.began:
            _run.clear()
            _run.began = clock[0]
        elif begun[0] == statement[0] and begun[1] < statement[1]:
            pass  # a later step of the same statement
        elif not self.is_of_rows or not all(write.is_of_rows for write in _run.writes):
            _run.clear()
            _run.began = clock[0]

    def done(self) -> None:
        """Note that the write is done."""
        if not self.is_idle:
            try:
                new = None if self.old is None else _read(self.places)
            except OSError:  # the write itself is done: it will not be undone by a later one
                new = None
            _run.writes.append(_Written(self.is_of_rows, self.targets, self.reads, self.old, new))
            _run.count += 1
            _run.changed.update(_keys(self.targets))
            _run.read.update(_keys(self.reads))

    def _check(self) -> None:
        earlier = list(_run.writes)
        if any(_are_same(self.targets, write.targets) for write in earlier):
            return  # whoever swaps writes each place once
        if _run.changed.isdisjoint(_keys(self.reads)) and not any(
            _meet(self.reads, write.targets) for write in earlier
        ):
            return
        if _run.read.isdisjoint(_keys(self.targets)) and not any(
            _meet(self.targets, write.reads) for write in earlier
        ):
            return
        is_whole = _run.count == len(earlier)
        undone = [_undo(write) for write in reversed(earlier)]
        end()
        few = f"those of up to 1 MB that nothing has changed since, at most the last {REMEMBERED},"
        what = "all" if all(undone) and is_whole else few
        raise ValueError(
            "a row is a view, so rows cannot be swapped like values: an assignment before this "
            "one has changed its value. Write v[0], v[1] = v[1](), v[0](), or take the rows in "
            "another order by v._shuffled(seed). Of the assignments that belong to this one, "
            f"{what} were undone"
        )


_SHOWING = (Select, Stored, Driven, Concat, Record)
"""The kinds of nodes that show data without computing anything."""


def _statement() -> tuple[Any, int]:
    """Return what tells the line that writes from others, and how far it has been carried out."""
    frame = sys._getframe()
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return (id(frame), frame.f_code, frame.f_lineno), frame.f_lasti


_PACKAGE = __name__.partition(".")[0]


def _are_same(ours: Sequence[_Spot], theirs: Sequence[_Spot]) -> bool:
    """Whether two lists are of the same places in the same order."""
    return len(ours) == len(theirs) and all(
        one.source is other.source
        and (one.where.shape, one.where.maps) == (other.where.shape, other.where.maps)
        for one, other in zip(ours, theirs, strict=True)
    )


def _spot(place: Place) -> _Spot:
    return _Spot(weakref.ref(place.source), place.where)


def _keys(spots: Sequence[_Spot]) -> list[Any]:
    """Return what tells a place from others; none for numbers in an array, which have no hash."""
    return [(spot.source, spot.where.shape, spot.where.maps) for spot in spots if spot.where.is_box]


def _size(change: Change) -> int:
    return int(np.prod(change.where.shape))


def _meet(ours: Sequence[_Spot], theirs: Sequence[_Spot]) -> bool:
    """Whether two writes meet; of records with many fields, field by field."""
    many = len(ours) * len(theirs) > MANY
    pairs = zip(ours, theirs, strict=False) if many else itertools.product(ours, theirs)
    return any(one.meets(other) for one, other in pairs)


def _read(places: Sequence[Place]) -> list[np.ndarray]:
    return [np.array(place.source.read(place.where, {})) for place in places]


def _undo(write: _Written) -> bool:
    """Put back what was there before a write, where its value is still there."""
    if write.old is None or write.new is None:
        return False
    undone = True
    for spot, old, new in zip(write.targets, write.old, write.new, strict=True):
        source = spot.source()
        if source is None or source.read(spot.where, {}).tobytes() != new.tobytes():
            undone = False
            continue
        take_before([Place(source, spot.where)])
        source.write(spot.where, old)
        announce([source])
    return undone
