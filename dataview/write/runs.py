"""Runs of writes whose values are views: rows that are swapped like values would be lost.

A row is a view, and sees what is written to it.  So `v[0], v[1] = v[1], v[0]` would write the same
row twice.  A run is a sequence of writes whose values are views that were built before its first
write.  In a run, a write is refused if an earlier one has changed its value, and an earlier one has
read its target.  Within a statement it is refused, too, if these are two of its writes.

Two statements belong to one run only if their values are parts of views, as in `kept = v[0]; v[0] =
v[1]; v[1] = kept`.  Whole arrays that are written to and fro, and what is computed of them, are not
taken for rows that are swapped.  A value that is no view ends a run; within a statement it is a
write that reads nothing.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import islice
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from dataview.plan.node import Node
from dataview.plan.places import Place
from dataview.sources import Home, Reference
from dataview.write.changes import Change
from dataview.write.remembered import Places
from dataview.write.spots import Spot, are_same, is_shown, meet, places_read, spot_of

UNDO_BYTES = 1 << 20
"""The last writes of a run are undone if what is held for them is not more than this in all: old
values, numbers of rows, and what each write takes.  No more is held for statements before the last
one; the boxes that they changed and read stay known."""

WRITE_BYTES = 400
"""What a write takes without its values, about."""

clock = [0]
"""How many writes there were; a view remembers how many there were when it was built."""


class Built(NamedTuple):
    """How many writes there were when a view was built, and whether it is a part of another."""

    writes: int
    is_part: bool


class Step(NamedTuple):
    """What tells the line that writes from others, and how far it has been carried out."""

    line: Any
    reached: int


class Member:
    """A write of a run: what it changes and reads, and what was there before and after."""

    __slots__ = (
        "__weakref__", "_copies", "_watched", "is_of_rows", "is_shown", "nbytes", "new", "old",
        "reads", "statement", "targets",
    )  # fmt: skip

    def __init__(
        self,
        targets: list[Spot],
        reads: list[Spot],
        is_part: bool,
        is_shown: bool,
        copies: Callable[[], list[np.ndarray]],
    ) -> None:
        """Describe a write of a part of a view, or of all of it, that shows data or computes.

        `copies` returns what is at its targets.
        """
        self.targets, self.reads = targets, reads
        self.is_shown, self.is_of_rows = is_shown, is_part and is_shown
        self.statement = 0
        self.old: list[np.ndarray] | None = None
        self.new: list[np.ndarray] | None = None
        self.nbytes = 0
        self._copies = copies
        self._watched: list[weakref.ref[Any]] = []

    @property
    def is_idle(self) -> bool:
        """Whether each place is given what it holds."""
        return self.is_shown and are_same(self.targets, self.reads)

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells its targets from those of others."""
        return tuple([spot.key for spot in self.targets])

    def keep(self, size: int) -> None:
        """Keep what was there before, which has a size in bytes, if there is room for it."""
        self.nbytes = WRITE_BYTES + sum([spot.nbytes for spot in (*self.targets, *self.reads)])
        if not _run.has_room(self.nbytes + size, self.statement):
            return
        self.old = self._known()
        held = sum(map(_nbytes_of, self.old or ()))
        if held <= size or _run.has_room(self.nbytes + held, self.statement):
            self.nbytes += held
        else:
            self.old = None

    def done(self) -> None:
        """Note that the write is done."""
        if self.old is not None:
            self.new = self._known()
        del self._copies
        _run.add(self)

    def _known(self) -> list[np.ndarray] | None:
        try:
            return self._copies()
        except Exception:  # the write does not need it: it cannot be undone, that is all
            return None

    def watch(self) -> None:
        """Forget all as soon as the data of a target are gone: what was there may be objects."""
        mine = weakref.ref(self)

        def forget(gone: Any) -> None:
            member = mine()
            if member is not None:
                member.forget()

        holders = [spot.reference.holder for spot in self.targets]
        held = [holder() for holder in holders if isinstance(holder, weakref.ref)]
        self._watched = [weakref.ref(one, forget) for one in held if one is not None]

    def forget(self) -> None:
        """Forget the values, and the numbers of rows."""
        self.old = self.new = None
        by_number = [spot for spot in (*self.targets, *self.reads) if not spot.where.is_box]
        if by_number:
            _run.written.discard(self.key)
        for spot in by_number:
            spot.forget()

    def undo(self) -> bool:
        """Put back what was there before, if the value of the write is still there."""
        if self.old is None or self.new is None:
            return False
        pairs = zip(self.targets, self.new, strict=True)
        if any(spot.read().tobytes() != new.tobytes() for spot, new in pairs):
            return False
        for spot, old in zip(self.targets, self.old, strict=True):
            spot.put(old)
        return True


class _Run(threading.local):
    """The run of each thread: when its first write was, and its last writes."""

    def __init__(self) -> None:
        self.began = -1
        self.step = Step(None, -1)
        self.clear()

    def clear(self) -> None:
        """Forget all writes."""
        self.goes_on, self.is_of_rows = False, True
        self.nbytes = self.forgotten = self.statement = 0
        self.has_lost = self.has_moved = False  # a value, or what was read, in the last statement
        self.writes: deque[Member] = deque()
        self.of_statement: list[Member] = []
        self.new: list[Member] = []  # not in the places below yet: often no other write follows
        self.written: set[tuple[Any, ...]] = set()
        homes: dict[Reference, Home] = {}
        self.changed, self.read = Places(homes), Places(homes)

    def add(self, member: Member) -> None:
        """Add a write, and forget the first ones if there is too much to hold."""
        self.goes_on = True
        self.is_of_rows &= member.is_of_rows
        self.new.append(member)
        self.writes.append(member)
        self.nbytes += member.nbytes
        self.has_room(0, member.statement)

    def has_room(self, nbytes: int, statement: int) -> bool:
        """Whether there is room for more; for this, forget writes of earlier statements."""
        if nbytes > UNDO_BYTES:
            return False
        while self.nbytes + nbytes > UNDO_BYTES:
            self.take_in()
            if not self.writes or self.writes[0].statement == statement:
                return False
            self._forget(self.writes.popleft())
        return True

    def _forget(self, first: Member) -> None:
        self.nbytes -= first.nbytes
        self.forgotten += 1
        first.forget()

    def take_in(self) -> None:
        """Remember the places of the new writes, apart from those that change nothing."""
        for member in self.new:
            if member.is_idle:
                self.writes.remove(member)
                self.nbytes -= member.nbytes
                continue
            self.of_statement.append(member)
            self.written.add(member.key)
            self.changed.add(member.targets)
            self.read.add(member.reads)
        self.new.clear()


_run = _Run()


def end() -> None:
    """End the run: a value that is no view was written."""
    if _run.goes_on:
        _run.clear()


def of_view(changes: Sequence[Change], value: Node, built: Built) -> Member:
    """Return the write of a view as a member of a run; refuse it if it would lose data."""
    member = _member(changes, _spots_read(value), built.is_part, is_shown(value))
    begin(member, built)
    return _kept(member, changes)


def _spots_read(value: Node) -> list[Spot]:
    return [spot_of(place) for place in places_read(value)]


def is_within_statement() -> bool:
    """Whether a run goes on with what is no view: within a statement.  Else it ends the run."""
    if not _run.goes_on:
        return False
    if _is_later(_step()):
        return True
    _run.clear()
    return False


def of_data(changes: Sequence[Change]) -> Member | None:
    """Return the write of what is no view as a member of its statement; else it ends the run."""
    if not is_within_statement():
        return None
    member = _member(changes, [], True, True)
    _go_on(member, _step())
    return _kept(member, changes)


def _member(changes: Sequence[Change], reads: list[Spot], is_part: bool, is_shown: bool) -> Member:
    targets = [spot_of(change.place) for change in changes]
    return Member(targets, reads, is_part, is_shown, lambda: [spot.read() for spot in targets])


def _kept(member: Member, changes: Sequence[Change]) -> Member:
    member.keep(sum(change.source.dtype.itemsize * _size(change) for change in changes))
    if any(change.source.dtype.hasobject or not change.where.is_box for change in changes):
        member.watch()
    return member


def _size(change: Change) -> int:
    return math.prod(change.where.shape)


# --- which writes belong together --------------------------------------------------------------


def begin(member: Member, built: Built) -> None:
    """Go on with the run that has begun, if a write of a view belongs to it, or begin another."""
    step = _step()
    is_built_before = _run.goes_on and built.writes <= _run.began
    if is_built_before and ((member.is_of_rows and _run.is_of_rows) or _is_later(step)):
        _go_on(member, step)
        return
    _run.clear()
    _run.began, _run.step = clock[0], step


def _go_on(member: Member, step: Step) -> None:
    """Go on with the run; refuse the write if it would lose data."""
    _run.take_in()
    if not _is_later(step):
        _run.statement += 1
        _run.has_lost = _run.has_moved = False
        _run.of_statement.clear()
    _run.step, member.statement = step, _run.statement
    if not member.is_idle:
        _check(member)


def _is_later(step: Step) -> bool:
    """Whether this is a later step of the statement that wrote last."""
    last = _run.step
    if last.line != step.line or last.reached >= step.reached:
        return False
    _, code, _ = step.line
    return not _has_value_between(code, last.reached, step.reached)


@lru_cache(maxsize=256)
def _has_value_between(code: CodeType, first: int, second: int) -> bool:
    """Whether the second of two assignments on a line has a value of its own, after a semicolon.

    It is computed after the first assignment, and stands to the right of where it goes.
    """
    between = list(islice(code.co_positions(), first // 2 + 1, second // 2 + 1))
    _, line, _, column = between[-1]
    if line is None or column is None:  # Python was told to keep no positions
        return False
    starts = [(start, at) for start, _, at, _ in between if start is not None and at is not None]
    return max(starts, default=(0, 0)) >= (line, column)


def _step() -> Step:
    """Return which statement outside this package writes now."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return Step((id(frame), frame.f_code, frame.f_lineno), frame.f_lasti)


_HERE = os.path.dirname(os.path.dirname(__file__)) + os.sep


# --- what is refused ---------------------------------------------------------------------------


def _check(member: Member) -> None:
    if member.key in _run.written:
        return  # whoever swaps writes each place once
    for write in _run.of_statement:
        _run.has_lost |= meet(member.reads, write.targets)
        _run.has_moved |= meet(member.targets, write.reads)
    is_swap = _run.changed.meet(member.reads) and _run.read.meet(member.targets)
    if is_swap or (_run.has_lost and _run.has_moved):
        _refuse(list(_run.writes))


def undo_moved(targets: Iterable[Place], value: Node, built: Built) -> str:
    """Undo the run if it has read what a write that is refused was to change; say so.

    Rows that go round are written one after the other, and are lost if one of them does not fit.
    Within a statement it is undone, too, if it has changed the value.
    """
    is_later = _is_later(_step())
    if not _run.goes_on or built.writes > _run.began or not (built.is_part or is_later):
        return ""
    _run.take_in()
    is_moved = _run.read.meet([spot_of(place) for place in targets])
    if not is_moved and not (is_later and _run.changed.meet(_spots_read(value))):
        return ""
    told, failure = _undone(list(_run.writes))
    if failure is not None:
        raise failure
    return f"; {told}"


def _refuse(earlier: Sequence[Member]) -> None:
    """Undo what can be undone, and raise."""
    told, failure = _undone(earlier)
    raise ValueError(
        "a row is a view, so rows cannot be swapped like values: of these assignments, one has "
        "changed the value of another. Write v[[0, 1]] = v[[1, 0]], or take the rows in "
        f"another order by v._shuffled(seed). This assignment was not carried out; {told}; "
        "what else was written in between stays"
    ) from failure


def _undone(earlier: Sequence[Member]) -> tuple[str, Exception | None]:
    """End the run and undo what can be undone of it; return what to say, and what went wrong."""
    count = _run.forgotten + len(earlier)
    end()
    undone, failure = 0, None
    for write in reversed(earlier):
        try:
            undone += write.undo()
        except Exception as error:
            failure = failure or error
    kept = " (not what was of more than 1 MB in all, or was changed since)"
    told = f"undone: {undone} of the {count} before it that belong to it"
    return told + (kept if undone < count else ""), failure


def _nbytes_of(array: np.ndarray) -> int:
    """Return the bytes of an array, with those of the objects in it."""
    objects = map(sys.getsizeof, array.flat) if array.dtype.hasobject else ()
    return array.nbytes + sum(objects)
