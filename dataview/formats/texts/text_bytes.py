"""The bytes of a text file, read in place; those of a packed file are unpacked once."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from dataview.errors import shortened
from dataview.formats.handles import Claim
from dataview.index.progress import begin
from dataview.sources import FileState, Opening, open_regular, temporary_file

PACKED = b"\x1f\x8b"
"""What a file begins with that gzip has packed."""

BLOCK = 1 << 20
"""How many bytes are read at a time when a file is passed over."""

SPARE = 64 << 20
"""So many bytes of the disk are left free by what is unpacked."""

MOST_TIMES = 200
"""Texts are packed to no smaller part than this; what unpacks to more is made to fill disks."""

LEAST_BOMB = 1 << 28
"""A file that unpacks to less is no harm, however small it is."""

LONGEST = 64 << 20
"""A longer line is refused: lines are held in memory whole."""

PAGE = 1 << 11
"""Lines that begin in a run of so many bytes are read together."""


class TextBytes:
    """The bytes of a file, or those that were packed in it, as long as the file stays as it is.

    The file is opened for each reading, so that threads and processes may read at the same time.
    What unpacks to more than `most_times` its bytes is refused.
    """

    def __init__(
        self,
        path: str,
        claim: Claim | None,
        told: FileState | None = None,
        most_times: int = MOST_TIMES,
    ) -> None:
        self.path, self.opening = path, Opening(path, claim)
        self._held: Any = None
        with open_regular(path) as file:
            self.state = stamped(file.fileno())
            check_told(path, file, told)
            is_packed = file.read(len(PACKED)) == PACKED
            file.seek(0)
            self.place = self._unpacked(file, most_times) if is_packed else path
        self.size = os.stat(self.place).st_size

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` to before `stop`."""
        self.opening.check()
        with open_regular(self.place, buffering=0) as file:
            if self.place == self.path:
                self.state = unchanged(self.path, self.state, file)
            file.seek(start)
            raw = bytearray(stop - start)
            if file.readinto(raw) < len(raw):
                raise changed(self.path)
        return bytes(raw)

    def lines(self, unit: np.dtype[Any], start: int) -> Iterator[tuple[int, bytes, np.ndarray]]:
        """Yield whole lines: where they begin, their bytes, and where each ends among these.

        A line ends behind the number 10 of the unit, or where the file ends.
        """
        number, place, pieces, held = 1, start, [b""], 0
        task = begin("reading", self.size, "B")
        with open_regular(self.place, buffering=0) as file, contextlib.closing(task):
            file.seek(start)
            while block := file.read(BLOCK):
                task.advance(len(block))
                units = np.frombuffer(block, unit, len(block) // unit.itemsize)
                ends = held + (np.flatnonzero(units == 10) + 1) * unit.itemsize
                pieces.append(block)
                held += len(block)
                cuts = np.concatenate([[0], ends, [held]])
                if (np.diff(cuts) > LONGEST).any():
                    raise self._too_long(number + int(np.argmax(np.diff(cuts) > LONGEST)))
                if len(ends):
                    whole, done = b"".join(pieces), int(ends[-1])
                    yield place, whole[:done], ends
                    pieces, held = [whole[done:]], held - done
                    place, number = place + done, number + len(ends)
        if held:
            yield place, b"".join(pieces), np.array([held])

    def _too_long(self, number: int) -> ValueError:
        return ValueError(
            f"line {number} of {self.path} has more than {LONGEST} bytes, and lines are held in "
            "memory whole; is it a file of lines?"
        )

    def _unpacked(self, packed: Any, most_times: int) -> str:
        """Unpack to a temporary file, which lasts until this is closed, and return its place."""
        folder = tempfile.gettempdir()
        with contextlib.ExitStack() as held:
            name = os.path.join(folder, os.path.basename(self.path))
            file, place = held.enter_context(temporary_file(name))
            try:
                _unpack(packed, file, folder, self.path, most_times)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise ValueError(
                    f"{self.path} cannot be unpacked, or is cut short: {shortened(str(error))}"
                ) from None
            file.flush()
            self._held = weakref.finalize(self, held.pop_all().close)
        return place

    def close(self) -> None:
        """Have all views say that the file is closed, and keep nothing of it."""
        self.opening.close()
        if self._held is not None:
            self._held()


def _unpack(packed: Any, file: BinaryIO, folder: str, path: str, most_times: int) -> None:
    packed_size, size = os.fstat(packed.fileno()).st_size, 0
    with gzip.GzipFile(fileobj=packed) as stream:
        while block := stream.read(BLOCK):
            size += len(block)
            check_unpacked(path, packed_size, size, most_times)
            if shutil.disk_usage(folder).free < len(block) + SPARE:
                raise OSError(
                    errno.ENOSPC,
                    f"{path} is unpacked to a temporary file, for which the disk has no room; "
                    "TMPDIR= names another folder",
                    folder,
                )
            file.write(block)


def check_unpacked(path: str, packed: int, size: int, most_times: int = MOST_TIMES) -> None:
    """Raise if so many bytes were unpacked from a packed file that it can only do harm."""
    if size > max(LEAST_BOMB, most_times * packed):
        raise ValueError(
            f"{path} has {packed} bytes and unpacks to more than {most_times} times as many, which "
            "no table or text does; unpack it by hand if it is right"
        )


# --- the same file as before ---------------------------------------------------------------------


def stamped(handle: int) -> FileState:
    """Return the state of an open file, also of one that was written just now.

    Another time is another file; one that is written again within the clock's step goes unnoticed.
    """
    found = os.fstat(handle)
    return FileState(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def unchanged(path: str, state: FileState, file: Any) -> FileState:
    """Return the state of an open file, or raise if it is not that of before."""
    now = stamped(file.fileno())
    if now != state:
        raise changed(path)
    return now


def changed(path: str) -> ValueError:
    """Return the error for a file that was changed."""
    return ValueError(f"{path} has changed since it was opened; open it again")


def check_told(path: str, file: Any, told: FileState | None) -> None:
    """Raise if a pickle says that a file is another; of a copy elsewhere the size is compared."""
    if told is None:
        return
    now = stamped(file.fileno())
    same_place = now[:2] == told[:2]
    if now.size != told.size or (same_place and now.time != told.time):
        raise pickled_before(path)


def pickled_before(path: str) -> ValueError:
    """Return the error for a pickle of a file that was changed."""
    return ValueError(
        f"{path} has changed since its view was pickled; open it again and pickle that view"
    )


# --- lines in groups -----------------------------------------------------------------------------


class LineGroups:
    """Where groups of lines are: the first byte, row and line of each, and the ends of the last.

    A line may be no row, as a blank one is in some formats.
    """

    def __init__(self, start: int) -> None:
        self._found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self.end, self.rows, self.lines = start, 0, 0

    def add(self, place: int, ends: np.ndarray, are_rows: np.ndarray | None = None) -> None:
        """Add lines that follow those before, by where each ends behind `place`."""
        begins = place + np.concatenate([[0], ends[:-1]])
        first = np.flatnonzero(np.diff(begins // PAGE, prepend=-1))
        before = first if are_rows is None else np.cumsum(are_rows)[first] - are_rows[first]
        self._found.append((begins[first], self.rows + before, self.lines + first))
        self.end = place + int(ends[-1])
        self.rows += len(ends) if are_rows is None else int(np.count_nonzero(are_rows))
        self.lines += len(ends)

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the bytes, rows and lines before each group, and those before the end."""
        ends = (self.end, self.rows, self.lines)
        parts = zip(*self._found, strict=True) if self._found else ([], [], [])
        places, rows, lines = (
            np.concatenate([*part, [end]]).astype(np.int64)
            for part, end in zip(parts, ends, strict=True)
        )
        return places, rows, lines
