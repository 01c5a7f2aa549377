"""The journal of an update: a file that says what is being done, how far it is, and what was there.

It lies in a hidden folder beside the file that is updated.  It begins with a header; then comes the
plan of the update, a byte for each block that is done, and slots with the old bytes of blocks.
What a header or an entry tells of is written before it, and a header or an entry is written by one
call within a page, so a process that is killed leaves all of it or nothing.
"""

from __future__ import annotations

import itertools
import mmap
import os
import struct
import time
import weakref
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.index.sizes import sizes
from dataview.sources import keep_room, raw_bytes
from dataview.write.raw_files import PAGE, checksum, pread, sync_folder, write_all

MAGIC = b"dataview journal"
VERSION = 5

IDLE, FINISH, UNDO, PUT_BACK, TAKE_BACK = range(5)
"""What is to be done after a crash: nothing, the rest of the update, or to put back what was: the
blocks of a plan, or one run of bytes, which stands where other updates have their plan; or to take
back rows that were being added, by what the files held, which stands there, too."""

_HEADER = struct.Struct("<16sIIQQQIIB")  # the magic and the version, and then those of `Header`
_ENTRY = struct.Struct("<QQQ")  # the number of a block, its bytes, their sum
_SUM = struct.Struct("<I")
_BLOCK_SUM = struct.Struct("<Q")

WAITING, DONE, UNTOUCHED = range(3)
"""What marks say of blocks; of one that is untouched there is the sum of what it held before."""

START = 64
"""Where the plan begins; an entry has as much room before its bytes."""

SUMMED = 8
"""So many of the first blocks are summed when they are done, and one of so many others."""

ZEROS = 1 << 20
"""So many bytes of new slots are written by one call."""

FRESH = 0.5
"""A journal that was written less than so many seconds ago need not be made to look younger."""

MOST_SUMMED = 1 << 25
"""Blocks of more bytes, which are one number repeated, are not summed."""


def is_summed(block: int) -> bool:
    """Whether a sum is kept of what a block holds when it is done: of enough to know a file by."""
    return block < SUMMED or block % SUMMED == 0


class DamagedJournal(ValueError):
    """A journal whose sums are wrong, or that this version cannot read."""


class TornEntry(DamagedJournal):
    """Old bytes of a block with another sum than they had when the entry was written."""

    def __init__(self, message: str, block: int) -> None:
        super().__init__(message)
        self.block = block


class Header(NamedTuple):
    """What a journal begins with: what is to be done after a crash, whose it is, and its layout.

    `syncs` is 1 if each step is brought to the device, in recovery as well.
    """

    way: int
    process: int
    plan_bytes: int
    plan_sum: int
    blocks: int
    pages_of_slot: int
    syncs: int = 0

    @property
    def sums(self) -> int:
        """Where the sums begin of what blocks that are done hold."""
        return _aligned(START + self.plan_bytes, START)

    @property
    def marks(self) -> int:
        """Where the bytes begin that say which blocks are done."""
        return self.sums + _BLOCK_SUM.size * self.blocks

    def slot(self, number: int) -> int:
        """Where a slot begins."""
        first = _aligned(self.marks + self.blocks, PAGE)
        return first + number * self.pages_of_slot * PAGE

    def packed(self) -> bytes:
        """Return the header as bytes, with their sum."""
        packed = _HEADER.pack(MAGIC, VERSION, *self)
        return packed + _SUM.pack(zlib.crc32(packed))


class Entry(NamedTuple):
    """The old bytes of a block."""

    slot: int
    block: int
    data: bytes


def _aligned(place: int, to: int) -> int:
    return -(-place // to) * to


def _entry(block: int, raw: Any) -> bytes:
    """Return what tells of the old bytes of a block, with its sum."""
    packed = _ENTRY.pack(block, len(raw), checksum(raw))
    return packed + _SUM.pack(zlib.crc32(packed))


_held: weakref.WeakValueDictionary[str, Journal] = weakref.WeakValueDictionary()
"""The journals of this process, by path."""


def _let_go() -> None:
    """Close what was inherited by a fork: it would hold the locks of a parent that is killed."""
    for journal in list(_held.values()):
        journal.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


def is_running_here(path: str) -> bool:
    """Whether this process has an update that is noted in a journal, and may go on with it."""
    journal = _held.get(path)
    return journal is not None and journal.header.process == os.getpid()


class Journal:
    """An open journal, written while an update runs."""

    def __init__(self, path: str, syncs: bool) -> None:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self.path, self.syncs = path, syncs
        self.handle = os.open(path, flags | os.O_EXCL, 0o666)
        self.header = self._idle = Header(IDLE, os.getpid(), 0, 0, 0, 0)
        self._says_idle = self._idle.packed()
        self._no_slots()
        self._written = 0.0
        self._close = weakref.finalize(self, os.close, self.handle)
        _held[path] = self

    def _no_slots(self) -> None:
        self.free: list[int] = []
        self.numbers = itertools.count()
        self.memory: mmap.mmap | None = None
        self.mapped = 0

    def begin(
        self, way: int, plan: bytes, blocks: int, largest: int, old: Sequence[np.ndarray] = ()
    ) -> None:
        """Say that an update begins, of so many blocks, the largest of so many bytes.

        With `old`, what all blocks hold, nothing is left to be told until the update ends.
        """
        pages = _aligned(START + largest, PAGE) // PAGE
        self.header = Header(way, os.getpid(), len(plan), checksum(plan), blocks, pages, self.syncs)
        self._no_slots()
        if old:
            self._put(self._record(plan, old), START)
            self._sync()
            self._put(self.header.packed(), 0)
            self._sync()
            return
        os.ftruncate(self.handle, 0)  # entries of an earlier update are none of this one
        self._put(plan, START)
        self._sync()
        self._put(bytes(self.header.marks + blocks - START - len(plan)), START + len(plan))
        self._sync()
        self._put(self.header.packed(), 0)
        self._sync()
        if way == FINISH and largest and not self.syncs:
            self._map(min(blocks, 1 + (os.cpu_count() or 1)))

    def begin_run(self, run: bytes) -> None:
        """Say that one run of bytes is about to be changed; `run` has what they are, and where."""
        self.header = Header(PUT_BACK, os.getpid(), len(run), checksum(run), 1, 1, self.syncs)
        if START + len(run) <= PAGE and not self.syncs:  # a device may divide a page
            self._put(self.header.packed().ljust(START, b"\0") + run, 0)
            return
        self._put(run, START)
        self._sync()
        self._put(self.header.packed(), 0)
        self._sync()

    def _record(self, plan: bytes, old: Sequence[np.ndarray]) -> memoryview:
        """Return all that follows the header: the plan, the marks, and what all blocks hold.

        All blocks are marked, so that none may be missing.
        """
        header = self.header
        record = bytearray(header.slot(len(old) - 1) + START + old[-1].nbytes)
        record[START : START + len(plan)] = plan
        record[header.marks : header.marks + header.blocks] = b"\1" * header.blocks
        for number, block in enumerate(old):
            place, raw = header.slot(number), raw_bytes(block)
            entry = _entry(number, raw)
            record[place : place + len(entry)] = entry
            record[place + START : place + START + len(raw)] = memoryview(raw)
        return memoryview(record)[START:]

    def _map(self, slots: int) -> None:
        """Have the first slots in memory that is shared with the file, where the system can.

        They have room on the disk then, so that touching them cannot fail, and large pages in
        memory, which a map that fills them would not give them.
        """
        size, begin = self.header.slot(slots), os.fstat(self.handle).st_size
        keep_room(self.handle, size - begin, self.path)
        zeros = bytes(min(size - begin, ZEROS))
        for place in range(begin, size, ZEROS):
            self._put(memoryview(zeros)[: size - place], place)
        try:
            self.memory = mmap.mmap(self.handle, size)
        except (OSError, ValueError):  # not in this file system: slots are written by position
            return
        self.mapped = slots

    def keep(self, block: int, old: np.ndarray, is_new: bool = False) -> int:
        """Write down what a block holds before it is changed; return the slot that has it.

        A slot that is new is needed where blocks that were done are so no longer: the entries of
        other slots may be theirs.
        """
        raw = raw_bytes(old)
        slot = next(self.numbers) if is_new else self._free_slot()
        slot = block if self.header.way == UNDO else slot
        place = self.header.slot(slot)
        if self.memory is not None and slot < self.mapped:
            there = np.frombuffer(self.memory, np.uint8, len(raw), place + START)
            there[...] = raw
            self._put(_entry(block, there), place)
            return slot
        self._put(raw, place + START)
        self._sync()
        self._put(_entry(block, raw), place)
        self._sync()
        return slot

    def clear(self, slot: int) -> None:
        """Forget what a slot holds, of a block that has not been changed."""
        self._put(bytes(_ENTRY.size + _SUM.size), self.header.slot(slot))
        self._sync()
        self.release(slot)

    def _free_slot(self) -> int:
        try:
            return self.free.pop()
        except IndexError:
            return next(self.numbers)

    def mark(self, block: int, state: int) -> None:
        """Say whether a block is done: by one byte, which a kill cannot divide."""
        if self.memory is not None:
            self.memory[self.header.marks + block] = state
            self.freshen()
            return
        self._put(bytes((state,)), self.header.marks + block)
        self._sync()

    def note(self, block: int, value: np.ndarray) -> None:
        """Write down a sum of what a block holds: who comes next knows the file by it.

        There is none of what would take much memory to be summed.
        """
        if value.nbytes > MOST_SUMMED:
            return
        packed = _BLOCK_SUM.pack(checksum(raw_bytes(value)))
        place = self.header.sums + block * _BLOCK_SUM.size
        if self.memory is not None:
            self.memory[place : place + _BLOCK_SUM.size] = packed
        else:
            self._put(packed, place)
            self._sync()

    def freshen(self) -> None:
        """Have the journal look no older than the file, which is about to be changed."""
        if time.monotonic() - self._written > FRESH:
            os.utime(self.handle if os.utime in os.supports_fd else self.path)
            self._written = time.monotonic()
            self._sync()

    def last_written(self) -> int:
        """Return when the journal was last written, in nanoseconds by the file system's clock."""
        return os.fstat(self.handle).st_mtime_ns

    def release(self, slot: int) -> None:
        """Use a slot again, whose block is done."""
        if self.header.way == FINISH:
            self.free.append(slot)

    def end(self) -> None:
        """Say that the update has ended; much that was kept for it takes no room any more."""
        is_of_run = self.header.way == PUT_BACK
        self.header = self._idle
        try:
            self._put(self._says_idle, 0)
            self._sync()
        except OSError:  # the disk is full, and this had no room yet: it is not used again
            self._unlink()
        if is_of_run:  # it has no slots, and is short
            return
        self._no_slots()
        if os.fstat(self.handle).st_size > sizes.recorded_bytes:
            os.ftruncate(self.handle, START)

    def _unlink(self) -> None:
        os.unlink(self.path)
        if self.syncs:
            sync_folder(os.path.dirname(self.path))

    def close(self) -> None:
        """Close the file, and give up its lock."""
        self._close()

    def old(self, block: int) -> bytes:
        """Return what a block held, of a journal that has the old bytes of all blocks."""
        return self.entry(block).data

    def entry(self, slot: int) -> Entry:
        """Return what a slot has."""
        found = self.entry_at(slot)
        assert found is not None
        return found

    def entry_at(self, slot: int, done: Sequence[bool] = ()) -> Entry | None:
        """Return the entry of a slot, None if there is none, or its block is done."""
        place = self.header.slot(slot)
        raw = pread(self.handle, _ENTRY.size + _SUM.size, place)
        if not any(raw):
            return None
        told = f"the journal {self.path} is damaged: an entry has another sum"
        if raw[_ENTRY.size :] != _SUM.pack(zlib.crc32(raw[: _ENTRY.size])):
            raise DamagedJournal(told)
        block, size, expected = _ENTRY.unpack(raw[: _ENTRY.size])
        if block >= self.header.blocks:
            raise DamagedJournal(told)
        if done and done[block]:
            return None
        data = pread(self.handle, size, place + START)
        if len(data) != size or checksum(data) != expected:
            raise TornEntry(told, block)
        return Entry(slot, block, data)

    def _sync(self) -> None:
        if self.syncs:
            os.fsync(self.handle)

    def _put(self, data: Any, place: int) -> None:
        try:
            write_all(self.handle, memoryview(data), place)
            self._written = time.monotonic()
        except OSError as error:
            error.filename = self.path
            raise


# --- after a crash -------------------------------------------------------------------------------


class FoundJournal(Journal):
    """A journal that was found, with what it says; its plan is read as bytes."""

    def __init__(self, path: str, syncs: bool = False) -> None:
        self.path, self.syncs = path, syncs
        self.handle = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
        self._close = weakref.finalize(self, os.close, self.handle)
        self.header = self._idle = Header(IDLE, os.getpid(), 0, 0, 0, 0)
        self._says_idle = self._idle.packed()
        self._no_slots()
        self._written = 0.0

    def read(self) -> bytes | None:
        """Return the plan of the update that a journal tells of, None if there is none."""
        found = _read_header(self.handle, self.path)
        self.header = Header(IDLE, 0, 0, 0, 0, 0) if found is None else found
        self.syncs = bool(self.header.syncs)
        if self.header.way == IDLE:
            return None
        plan = pread(self.handle, self.header.plan_bytes, START)
        if checksum(plan) != self.header.plan_sum:
            raise DamagedJournal(f"the journal {self.path} is damaged: its plan has another sum")
        return plan

    def way_now(self) -> int:
        """Return what is to be done after a crash, of a journal that another process has."""
        found = _read_header(self.handle, self.path)
        self.header = self._idle if found is None else found
        return self.header.way

    def claim(self) -> None:
        """Say that this process is finishing or undoing the update."""
        self.header = self.header._replace(process=os.getpid())
        self._put(self.header.packed(), 0)
        self._sync()

    def sum_of(self, block: int) -> int:
        """Return the sum of what a block that is done held."""
        place = self.header.sums + block * _BLOCK_SUM.size
        found: int = _BLOCK_SUM.unpack(pread(self.handle, _BLOCK_SUM.size, place))[0]
        return found

    def marks(self) -> bytes:
        """Return the mark of each block."""
        marks = pread(self.handle, self.header.blocks, self.header.marks)
        if len(marks) != self.header.blocks or set(marks) - {WAITING, DONE, UNTOUCHED}:
            raise DamagedJournal(f"the journal {self.path} is damaged: its marks cannot be read")
        return marks

    def done(self) -> list[bool]:
        """Return for each block whether it is done."""
        return [mark == DONE for mark in self.marks()]

    def entries(self, keeps_all: bool = True) -> Iterator[Entry]:
        """Yield the old bytes of blocks; of a journal for the rest, of those that are not done.

        `keeps_all` is false if files were copied instead: then some blocks have none.
        """
        marks = self.done()
        is_kept = self.header.way == UNDO
        done = [False] * self.header.blocks if is_kept else marks
        end = os.fstat(self.handle).st_size
        # Of what is undone each block has the slot of its number, and others have no meaning.
        slots = range(self.header.blocks) if is_kept else itertools.count()
        torn: dict[int, TornEntry] = {}
        for slot in itertools.takewhile(lambda one: self.header.slot(one) < end, slots):
            try:
                entry = self.entry_at(slot, done)
            except TornEntry as error:
                torn[error.block] = error
                continue
            if entry is not None:
                torn.pop(entry.block, None)  # it was done, and its slot was being used again
                marks[entry.block] = False
                yield entry
        for one in torn.values():
            raise one
        if is_kept and keeps_all and any(marks):
            raise DamagedJournal(f"the journal {self.path} is damaged: old bytes are missing")

    def restart(self) -> None:
        """Have all slots free for the rest of the update: what they hold was put back."""
        os.ftruncate(self.handle, self.header.slot(0))


def _read_header(handle: int, path: str) -> Header | None:
    """Return the header of a journal, None if none was ever written."""
    raw = pread(handle, _HEADER.size + _SUM.size, 0)
    if not any(raw):
        if raw and not any(pread(handle, START, START)):  # the plan is written before the header
            raise DamagedJournal(f"the journal {path} is damaged: it holds zeros alone")
        return None
    if not raw.startswith(MAGIC):
        raise DamagedJournal(f"{path} is no journal")
    (version,) = struct.unpack_from("<I", raw, len(MAGIC))
    if version != VERSION:
        raise DamagedJournal(
            f"the journal {path} is of version {version}, and this dataview reads version "
            f"{VERSION}; open the file with the dataview that was updating it"
        )
    packed = raw[: _HEADER.size]
    if len(raw) < _HEADER.size + _SUM.size or raw[_HEADER.size :] != _SUM.pack(zlib.crc32(packed)):
        raise DamagedJournal(f"the journal {path} is damaged: its header has another sum")
    _, _, *rest = _HEADER.unpack(packed)
    header = Header(*rest)
    is_idle = header.way == IDLE
    if header.way not in range(TAKE_BACK + 1) or not (is_idle or header.pages_of_slot):
        raise DamagedJournal(f"the journal {path} is damaged: its header makes no sense")
    return header
