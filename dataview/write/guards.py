"""What keeps an update of a file whole if its process is killed: a journal that goes with it.

Two ways: what is small, or has operands that cannot be written down, has all its old values kept
and is undone; else the plan is written down, with the old values of the blocks that are just being
changed, and the update is finished.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import evaluate
from dataview.errors import warn
from dataview.index import Array, Computed, Index, Map, Permutation, axes_of, positions
from dataview.index.sizes import sizes
from dataview.plan.kinds import known_dtype, known_shape, nbytes_of
from dataview.plan.node import Node
from dataview.plan.places import place_of
from dataview.sources import Grid, Source
from dataview.write.changes import Block, Change
from dataview.write.journal import (
    DONE,
    FINISH,
    MOST_SUMMED,
    START,
    UNDO,
    UNTOUCHED,
    WAITING,
    Journal,
    is_summed,
)
from dataview.write.journals import Journals, when_free
from dataview.write.plans import File, Part, Plan, Spot, Unwritable, steps_of
from dataview.write.raw_files import PAGE, sync_folder

KEPT_PART = 4
"""Operands are written down that take at most this part of what is updated; else it is undone."""

ANY = 1 << 62
"""More bytes than any operands have."""


def is_guarded(changes: Sequence[Change]) -> bool:
    """Whether changes are of files that have journals, and more than what is written at once."""
    if not any(change.source.journals is not None for change in changes):
        return False
    return len(changes) > 1 or not changes[0].source.is_written_at_once(changes[0].where)


class Work(NamedTuple):
    """An update: its changes, how each is cut into blocks, the blocks in their order.

    `order` is as in `Separated`; values that a user's function makes cannot be written down.
    """

    changes: Sequence[Change]
    grids: Sequence[Grid]
    blocks: Sequence[Block]
    order: int
    can_be_kept: bool = True


class Guard:
    """The journal of an update from its begin to its end; `blocks` are numbered in it."""

    def __init__(self, work: Work, journal: Journal | None = None, keeps: bool = True) -> None:
        self.work = work
        self.journal, self.keeps = journal, keeps
        guarded = [change.source.journals is not None for change in work.changes]
        blocks = [block for block in work.blocks if guarded[block.number]]
        self.numbers = {block: number for number, block in enumerate(blocks)}
        self.slots: dict[Block, int] = {}
        self.recorded: dict[Block, np.ndarray] = {}
        self.copies: dict[str, str] = {}
        self.owner: Journals | None = None
        self.links: list[str] = []
        changes = [change for change in work.changes if change.source.journals is not None]
        is_known = not any(isinstance(change.value, Node) for change in changes)
        size = sum(nbytes_of(change.target) or 0 for change in changes)
        self.is_small = is_known and size <= sizes.recorded_bytes

    def begin(self) -> None:
        """Write down what is to be done, unless that is done; nothing has been changed yet."""
        if self.journal is not None:
            self.recorded = {}  # others may have written since
            return
        when_free(self._begin)

    def _begin(self) -> None:
        guarded = [change for change in self.work.changes if change.source.journals is not None]
        every = {change.source.journals.path: change.source.journals for change in guarded}
        self.owner = next(iter(every.values()))
        for change in guarded:
            change.source.settle()
        journal = self.owner.taken()
        try:
            for journals in every.values():
                journals.check_free()
            self.copies = self._copies(guarded, journal)
            begun = journal.last_written()
            first = self.owner.path
            files = [seen(path, first, self.copies.get(path, ""), begun) for path in every]
            inside = _inside(guarded, first, begun)
            way, plan = self._plan(guarded, list(every), Plan(tuple(files), (), inside=inside))
            largest = self._largest()
            self._warn_of_room(way, guarded)
            for path, place in self.copies.items():
                copy(path, place, journal.syncs)
            for journals in list(every.values())[1:]:
                self.links.append(journals.link(journal.path))
            self.recorded = self._recorded(way, largest)
            journal.begin(way, plan, len(self.numbers), largest, list(self.recorded.values()))
            for journals in every.values():
                journals.check_free(journal)  # two may have looked before either began
            self._note_untouched(journal)
            self.slots = {block: self.numbers[block] for block in self.recorded}
        except BaseException:
            self._give_back(journal)
            raise
        self.journal = journal

    def _note_untouched(self, journal: Journal) -> None:
        """Note what the last block holds, by which the file is known until the block is changed."""
        block = next(reversed(self.numbers))
        if len(self.numbers) < 2 or self.recorded or self.work.order or self._is_copied(block):
            return  # blocks that have an order may have places in common
        part = block.of(self.work.changes)
        if part.source.chunk_shape:  # a chunk may be long to unpack, and is read once
            return
        if (nbytes_of(part.target) or 0) <= MOST_SUMMED:
            journal.note(self.numbers[block], np.asarray(part.source.read(part.where, {})))
            journal.mark(self.numbers[block], UNTOUCHED)

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Have no other thread make a small update of these files, if this is one, too."""
        every = {change.source.journals for change in self.work.changes} if self.is_small else ()
        owners = [one for one in every if one is not None]
        with contextlib.ExitStack() as stack:
            for owner in sorted(owners, key=lambda one: (one.path, id(one))):
                stack.enter_context(owner.turn)
            yield

    def take_over(self, owner: Journals | None, journal: Journal | None) -> None:
        """Go on with a journal in which another room has noted the update."""
        self.owner, self.journal = owner, journal

    def _copies(self, changes: Sequence[Change], journal: Journal) -> dict[str, str]:
        """Return where files are copied to that cannot be updated block by block."""
        paths = [one.source.journals.path for one in changes if one.source.needs_copy]
        return {
            path: f"{journal.path}.copy{number}" for number, path in enumerate(dict.fromkeys(paths))
        }

    def _plan(self, changes: Sequence[Change], paths: list[str], plan: Plan) -> tuple[int, bytes]:
        """Return what is to be done after a crash, and the plan as bytes: one with all parts."""
        plan = plan._replace(order=self.work.order)
        size = sum(nbytes_of(change.target) or 0 for change in changes)
        if size > sizes.file_bytes and not self.copies and self.work.can_be_kept:
            try:
                parts = self._parts(paths, size // KEPT_PART)
                self.keeps = any(self._reads(change, paths) for change in changes)
                return FINISH, plan._replace(parts=tuple(parts), reads=self.keeps).packed()
            except Unwritable:
                self.keeps = True
        parts = self._parts(paths, ANY if self.is_small and not self.copies else None)
        plan = plan._replace(parts=tuple(parts))
        try:
            return UNDO, plan.packed()
        except Unwritable:  # rows are in the order of a user's function: their numbers say it
            spots = [part.spot._replace(where=_in_numbers(part.spot.where)) for part in parts]
            every = zip(parts, spots, strict=True)
            return UNDO, plan._replace(
                parts=tuple(part._replace(spot=spot) for part, spot in every)
            ).packed()

    def _parts(self, paths: list[str], most: int | None) -> list[Part]:
        """Return what is changed in files, with its values if they may take so many bytes."""
        return [
            Part(
                _spot(change.source, change.where, paths),
                grid.axis,
                grid.step,
                None if most is None else tuple(self._value(change, paths, most)),
                change.is_checked,
                grid.first,
                tuple(map(tuple, grid.across)),
                grid.starts,
            )
            for change, grid in zip(self.work.changes, self.work.grids, strict=True)
            if change.source.journals is not None
        ]

    def _value(self, change: Change, paths: list[str], most: int) -> list[Any]:
        if isinstance(change.value, Node):
            return steps_of(change.value, lambda part: _spot_of(part, paths), most, evaluate)
        found = np.asarray(change.value)
        found = found[tuple(slice(0, None if step else 1) for step in found.strides)]
        if found.nbytes > most:
            raise Unwritable("the value is too large to be kept")
        return [found]

    def _reads(self, change: Change, paths: list[str]) -> bool:
        """Whether a value reads files that are updated, so that their old values are kept."""
        if not isinstance(change.value, Node):
            return False
        steps = steps_of(change.value, lambda part: _spot_of(part, paths), ANY, _nothing)
        return any(isinstance(step, Spot) for step in steps)

    def _recorded(self, way: int, largest: int) -> dict[Block, np.ndarray]:
        """Return what all blocks hold if this is little, and nothing is left but to write them.

        While values are computed, which may take a while, the journal would grow older than a file
        may be younger.
        """
        changes = self.work.changes
        if way != UNDO or self.copies or any(isinstance(one.value, Node) for one in changes):
            return {}
        if len(self.numbers) * (PAGE + START + largest) > sizes.recorded_bytes:
            return {}
        return {block: evaluate(block.of(changes).target) for block in self.numbers}

    def _warn_of_room(self, way: int, changes: Sequence[Change]) -> None:
        """Say beforehand that much is kept on the disk."""
        size = sum(map(_size_of, self.copies))
        if way == UNDO:
            rest = [one for one in changes if one.source.journals.path not in self.copies]
            size += sum(nbytes_of(change.target) or 0 for change in rest)
        warn_of_room(changes[0].source, size, "update of")

    def _largest(self) -> int:
        """Return the bytes of the largest block; most blocks of a change are alike."""
        alike = {(one.number, one.cut and one.cut.lengths): one for one in self.numbers}
        return max(map(self._bytes_of, alike.values()), default=0)

    def _bytes_of(self, block: Block) -> int:
        if self._is_copied(block):
            return 0
        return nbytes_of(block.of(self.work.changes).target) or 0

    def _is_copied(self, block: Block) -> bool:
        if not self.copies:
            return False
        return self.work.changes[block.number].source.journals.path in self.copies

    # --- block by block ------------------------------------------------------------------------

    def needs_old(self, block: Block) -> bool:
        """Whether the old values of a block are to be known before it is changed."""
        return self.keeps and block in self.numbers and not self._is_copied(block)

    def before(self, block: Block, old: np.ndarray | None) -> None:
        """Keep what a block holds, which is about to be changed."""
        if self.journal is None or block not in self.numbers or block in self.recorded:
            return
        if self.numbers[block] == len(self.numbers) - 1:
            self.journal.mark(self.numbers[block], WAITING)  # it may have been untouched
        if old is None or not self.needs_old(block):
            return
        if block in self.slots:  # a try before failed, and others may have written there since
            self.journal.clear(self.slots.pop(block))
        self.slots[block] = self.journal.keep(self.numbers[block], old)

    def writing(self, block: Block) -> None:
        """Say that a block is about to be changed: to compute its value may have taken a while."""
        if self.journal is not None and block in self.numbers and block not in self.recorded:
            self.journal.freshen()

    def after(self, block: Block, source: Source, value: np.ndarray) -> None:
        """Say that a block is done and what it holds, once others can see it."""
        if self.journal is None or block not in self.numbers or block in self.recorded:
            return
        source.settle()
        if self.journal.syncs:
            source.sync()
        number = self.numbers[block]
        if is_summed(number) and not self._is_copied(block):
            shape = known_shape(block.of(self.work.changes).target)
            self.journal.note(number, np.broadcast_to(value, shape))
        self.journal.mark(number, DONE)
        if self.journal.header.way == FINISH and block in self.slots:
            self.journal.release(self.slots.pop(block))

    def before_undo(self, block: Block, old: np.ndarray) -> None:
        """Say that a block is about to hold its old values again, which are to stay."""
        if self.journal is None or block not in self.numbers:
            return
        is_noted = block in self.slots  # still: what is half written must not lose its old values
        if self.journal.header.way == FINISH and self.needs_old(block) and not is_noted:
            self.slots[block] = self.journal.keep(self.numbers[block], old, is_new=True)
        self.journal.mark(self.numbers[block], WAITING)

    def left(self, is_begun: bool) -> str:
        """Say what the next opening of the file does, if some block is done or none is."""
        if self.journal is None:
            return ""
        is_finished = self.journal.header.way == FINISH and (is_begun or not self.keeps)
        does = "does the rest" if is_finished else "undoes the write"
        return (
            f"; dv.open of the file {does}, too, in any mode, unless dv.recover(path, 'discard') "
            "comes first, which leaves the file as it is"
        )

    def old(self, block: Block) -> np.ndarray | None:
        """Return what a block held, if the journal has it."""
        if block not in self.slots or self.journal is None:
            return None
        part = block.of(self.work.changes)
        raw = self.journal.old(self.slots[block])
        return np.frombuffer(raw, known_dtype(part.target)).reshape(known_shape(part.target))

    def end(self) -> None:
        """Say that the update is done, or undone: from now on a crash changes nothing."""
        journal, self.journal = self.journal, None
        if journal is not None:
            for change in self.work.changes:
                if change.source.journals is not None:
                    change.source.settle()
                    if journal.syncs:
                        change.source.sync()
            self._give_back(journal)

    def _give_back(self, journal: Journal) -> None:
        """Let another update have the journal, when nothing is left beside it."""
        journal.end()
        for name in self.links:
            remove(name)
        for place in self.copies.values():
            remove(place)
        self.links, self.copies = [], {}
        if self.owner is not None:
            self.owner.give_back(journal)


def warn_of_room(source: Source, size: int, what: str) -> None:
    """Say if much is kept on the disk for a change of a source."""
    if size > sizes.announced_bytes:
        warn(
            f"to be whole after a crash, this {what} {source.describe()} keeps {size >> 20} MB of "
            "what was there beside the file; open it with durable=False to do without"
        )


def _nothing(part: Node) -> np.ndarray:
    return np.empty(0)


def _in_numbers(index: Index) -> Index:
    """Return an index with the numbers of positions that a function computes."""

    def numbers(map_: Map) -> Map:
        if not isinstance(map_, Computed):
            return map_
        axes = axes_of(map_)
        found = positions(map_, index.shape)
        return Array(found.reshape([index.shape[axis] for axis in axes]), axes)

    return Index(index.shape, list(map(numbers, index.maps)))


def _without_orders(index: Index) -> Index:
    """Return an index with the permutations themselves in place of the orders that hold them."""

    def plain(map_: Any) -> Any:
        if not isinstance(map_, Computed):
            return map_
        held = getattr(map_.function, "function", None)
        function = held if isinstance(held, Permutation) else map_.function
        return replace(map_, inner=plain(map_.inner), function=function)

    return Index(index.shape, list(map(plain, index.maps)))


def _spot(source: Source, where: Any, paths: list[str]) -> Spot:
    return Spot(paths.index(source.journals.path), source.address, _without_orders(where))


def _spot_of(part: Any, paths: list[str]) -> Spot | None:
    """Return where a part of a value is in the files that are updated, None if it is elsewhere."""
    place = place_of(part)
    if place is None or place.source.journals is None or place.source.address is None:
        return None
    if place.source.journals.path not in paths:
        return None
    return _spot(place.source, place.where, paths)


def seen(path: str, first: str, copied: str, begun: int) -> File:
    """Return what tells a file from others."""
    folder, own = os.path.split(first)
    name = own if path == first else os.path.relpath(path, folder)
    found = os.stat(path)
    size = 0 if stat.S_ISDIR(found.st_mode) else found.st_size
    return File(name, found.st_ino, size, os.path.basename(copied), found.st_mtime_ns, begun)


def _inside(changes: Sequence[Change], first: str, begun: int) -> tuple[File, ...]:
    """Return what tells whether another program writes a file in a folder that was opened."""
    known = dict.fromkeys(change.source.root.witness for change in changes)
    return tuple(
        seen(one[0], first, "", begun if one[1] else 0) for one in known if one is not None
    )


# --- copies --------------------------------------------------------------------------------------


def copy(path: str, to: str, syncs: bool = False) -> None:
    """Copy a file, or all that a folder holds; what is there is replaced."""
    if not os.path.isdir(path):
        shutil.copyfile(path, to)
        if syncs:
            with open(to, "r+b") as file:
                os.fsync(file.fileno())
            sync_folder(os.path.dirname(to))
        return
    for entry in _entries(to) if os.path.isdir(to) else ():
        remove(entry)
    shutil.copytree(path, to, dirs_exist_ok=True)
    if syncs:
        os.sync()


def _entries(folder: str) -> Iterator[str]:
    with os.scandir(folder) as found:
        yield from [entry.path for entry in found]


def _size_of(path: str) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    if not os.path.isdir(path):
        return os.path.getsize(path)
    return sum(map(_size_of, _entries(path)))


def remove(path: str) -> None:
    """Remove a file or a folder, if it is there."""
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.unlink(path)
