"""Files that a library keeps open: opened when needed, closed by name, alone to write if asked."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import struct
import sys
import weakref
from typing import Any

from dataview.errors import hint
from dataview.plan.kinds import Stored
from dataview.plan.node import Node, Part
from dataview.plan.walk import below
from dataview.samples import Samples, pairing_of
from dataview.write import Journals

if sys.platform != "win32":
    import fcntl

MODES = ("r", "r+", "w")
"""What a file is opened for: to be read, to be changed, or to be made and filled."""

LOCKS = (None, "refuse", "wait")
"""What is done if another view has locked the file: nothing, an error, or it is waited for."""

DURABLE = ("process", "power", False)
"""What an update of a file outlives: a killed process, a loss of power, or nothing."""


class OpenFile:
    """A file that a library has open as long as somebody holds this object, and has not closed it.

    A process that was forked reads on with what it was given.  It may not write, and not even read
    where a library writes that remembers parts of the file.
    """

    __slots__ = ("__weakref__", "claim", "file", "mode", "path", "process", "seen")

    def __init__(self, path: str, mode: str, file: Any, claim: Any = None) -> None:
        self.path, self.mode, self.file, self.claim = path, mode, file, claim
        self.process = os.getpid()
        self.seen = _seen(path)

    def check(self) -> None:
        """Raise if the file was closed."""
        if self.file is None:
            raise closed(self.path)

    def check_process(self) -> None:
        """Raise if the file may be written, by the process alone that opened it."""
        if self.mode != "r" and self.process != os.getpid():
            raise ValueError(
                f"{self.path} was opened with mode {self.mode!r} by the process that this one was "
                "forked from, and only that one may write it, or, of HDF5, read it; open it with "
                "mode 'r'"
            )

    def check_place(self) -> None:
        """Raise if another file has the path by now: what is written here would be lost."""
        if self.seen != _seen(self.path):
            raise ValueError(f"{self.path} was replaced since it was opened; open it again")

    @property
    def is_closed(self) -> bool:
        """Whether the file was closed."""
        return self.file is None

    def close(self) -> None:
        """Close the file; whoever uses it from now on is told so."""
        file, self.file = self.file, None
        if file is not None:
            file.close()
        if self.claim is not None:
            self.claim.release()


def _seen(path: str) -> tuple[int, int] | None:
    """Return what tells the file at a path from others, None if there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def close(node: Node) -> None:
    """Close the files that were opened for the sources of a node, and of all of its indexes."""
    waiting = [node]
    for one in waiting:
        for part in below([one], Part.held):
            if isinstance(part, Stored):
                part.source.close()
            elif isinstance(part, Samples):
                part.close()
            elif (pairing := pairing_of(part)) is not None:
                waiting += [own for index in pairing.indexes for own in index.parts]


def closed(path: str) -> ValueError:
    """Return the error for a view of a file that was closed."""
    return ValueError(f"{path} was closed, by _close() or by a with block; open it again")


# --- alone to write ------------------------------------------------------------------------------


class Claim:
    """What somebody has who opened a file: its journals, and perhaps the right to write it alone.

    That is kept by a lock on a file beside it as long as this is held.  `note` says what was done
    when the file was opened.
    """

    __slots__ = ("__weakref__", "journals", "note", "unlock")

    def __init__(self, journals: Journals | None, place: str = "", handle: int = -1) -> None:
        self.journals = journals
        self.note = ""
        self.unlock = place and weakref.finalize(self, _give_up, os.getpid(), place, handle)

    def __reduce__(self) -> tuple[Any, ...]:
        return Claim, (self.journals,)

    def release(self) -> None:
        """Let others claim the file."""
        if self.journals is not None:
            self.journals.close()
        if self.unlock:
            self.unlock()


def check_access(mode: str, lock: str | None, durable: str | bool) -> None:
    """Raise if there is no such mode, lock or durability; formats need not use them all."""
    if mode not in MODES:
        raise ValueError(
            "mode is 'r' (read), 'r+' (read and write) or 'w' (a new file, to be filled); got "
            f"{mode!r}"
        )
    if lock not in LOCKS:
        raise ValueError(
            f"lock is one of {', '.join(map(repr, LOCKS))}; got {lock!r}{_hint(lock, LOCKS)}"
        )
    if lock == "refuse" and mode == "r":
        raise ValueError(
            "lock='refuse' keeps others from writing beside a view that writes, and mode 'r' only "
            "reads: open with 'r+', or leave lock= out; lock='wait' waits for an update to end"
        )
    if durable not in DURABLE:
        raise ValueError(
            f"durable is one of {', '.join(map(repr, DURABLE))}: what updates outlive; got "
            f"{durable!r}{_hint(durable, DURABLE)}"
        )


def claimed(path: str, mode: str, lock: str | None, durable: str | bool = False) -> Claim | None:
    """Claim a file for writing, if that is asked for against all who claim it too.

    `durable` says what its updates are to outlive.
    """
    if mode == "r":
        return None
    place = os.path.realpath(path)
    journals = Journals(place, durable == "power") if durable else None
    if lock is None:
        return None if journals is None else Claim(journals)
    return Claim(journals, *_locked(path, lock))


def _hint(got: Any, known: tuple[Any, ...]) -> str:
    return hint(str(got), [one for one in known if isinstance(one, str)])


def _locked(path: str, lock: str) -> tuple[str, int]:
    """Lock the file beside a file, and return its place and its handle."""
    if sys.platform == "win32":
        raise NotImplementedError("lock= needs the locks of files that Windows does not have")
    place = _beside(path)
    while True:
        handle = _opened(place)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (fcntl.LOCK_NB if lock == "refuse" else 0))
            if os.path.samestat(os.fstat(handle), os.stat(place)):
                return place, handle
        except FileNotFoundError:  # who had it has just given it up, and removed its file
            pass
        except OSError as error:
            os.close(handle)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise BlockingIOError(
                error.errno,
                "another view has it open for writing; close that view, wait for it with "
                "lock='wait', or open with mode='r'",
                path,
            ) from None
        os.close(handle)


def _opened(place: str) -> int:
    try:
        return os.open(place, os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError as error:
        told = "lock= keeps a file beside the data, and no file can be made there; leave lock= out"
        raise PermissionError(error.errno, told, place) from None


def is_claimed(path: str) -> bool:
    """Whether somebody may have claimed a file."""
    return os.path.exists(_beside(path))


def _beside(path: str) -> str:
    """Return the place of the file that is locked."""
    folder, name = os.path.split(os.path.realpath(path))
    return os.path.join(folder, f".{name}.writing")


def _give_up(owner: int, place: str, handle: int) -> None:
    if os.getpid() != owner:  # a forked process, whose parent has the lock still
        os.close(handle)
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(place)  # while the lock is held, so that nobody else has taken it
    os.close(handle)


# --- HDF5's own mark of who writes ---------------------------------------------------------------


def forget_writer(path: str) -> None:
    """Take away the mark by which an HDF5 file says that a process writes it, if that is gone.

    Files of HDF5's newer layout have it, and whoever finds it does not open the file.  HDF5 locks a
    file as long as it is open, so that of a process that lives stays.
    """
    if sys.platform == "win32" or not os.path.isfile(path) or not os.access(path, os.W_OK):
        return
    with open(path, "r+b", buffering=0) as file:
        place = _beginning(file)
        start = bytearray(os.pread(file.fileno(), _LONGEST_START, place))
        if not start.startswith(_SIGNATURE) or start[_VERSION] < 3 or not start[_FLAGS]:
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        end = _ADDRESSES + 4 * start[_VERSION + 1]
        if start[end : end + 4] == _hdf5_sum(start[:end]):
            start[_FLAGS] = 0
            start[end : end + 4] = _hdf5_sum(start[:end])
            os.pwrite(file.fileno(), start[: end + 4], place)


def _beginning(file: io.FileIO) -> int:
    """Return where HDF5 begins in a file: a program may have a block of its own before it."""
    place, size = 0, os.fstat(file.fileno()).st_size
    while place < size and os.pread(file.fileno(), len(_SIGNATURE), place) != _SIGNATURE:
        place = max(512, 2 * place)
    return place


_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_VERSION, _FLAGS, _ADDRESSES, _LONGEST_START = 8, 11, 12, 80
"""Where the beginning of a file has its layout's version and flags, and four addresses."""

_MIX = ((0, 2, 4, 1), (1, 0, 6, 2), (2, 1, 8, 0), (0, 2, 16, 1), (1, 0, 19, 2), (2, 1, 4, 0))
_END = ((2, 1, 14), (0, 2, 11), (1, 0, 25), (2, 1, 16), (0, 2, 4), (1, 0, 14), (2, 1, 24))
"""The steps of Jenkins' sum, HDF5's own: which of three numbers change by which, turned how far."""


def _hdf5_sum(data: bytes | bytearray) -> bytes:
    """Return the sum that HDF5 keeps of what is at the beginning of a file.

    >>> int.from_bytes(_hdf5_sum(b"Four score and seven years ago"), "little") == 0x17770551
    True
    """
    turn = (1 << 32) - 1
    state = [(0xDEADBEEF + len(data)) & turn] * 3
    parts = [data[start : start + 12] for start in range(0, len(data), 12)]
    for part in parts:
        words = struct.unpack("<III", bytes(part).ljust(12, b"\0"))
        state = [(old + word) & turn for old, word in zip(state, words, strict=True)]
        if part is not parts[-1]:
            for one, by, far, more in _MIX:
                state[one] = (state[one] - state[by]) & turn
                state[one] ^= _turned(state[by], far)
                state[by] = (state[by] + state[more]) & turn
    for one, by, far in _END if parts else ():
        state[one] = ((state[one] ^ state[by]) - _turned(state[by], far)) & turn
    return struct.pack("<I", state[2])


def _turned(word: int, far: int) -> int:
    return (word << far | word >> (32 - far)) & ((1 << 32) - 1)
