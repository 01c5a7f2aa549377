"""NumPy's `.npy` files: which of them is open, and the array in it as a store.

Each read and write checks that the file is still the one that was opened.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy

from dataview.index import Constant, Index, Rows
from dataview.index.sizes import sizes
from dataview.sources import file_rows, scratch
from dataview.sources.file_access import again, cut_short, map_window, read_at, write_at
from dataview.sources.file_pieces import Block, run_of, steps_of
from dataview.sources.kept_files import KeptFile, OpenFile
from dataview.sources.new_files import temporary_file
from dataview.sources.npy_header import (
    FileState,
    Header,
    header_bytes,
    header_in_place,
    header_text,
    read_header,
    start_of,
    state_at,
)
from dataview.sources.protocol import ASKED, Changing, Memo, Note, Source
from dataview.sources.sharing import Home, Reference, by_path, bytes_of_member

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    FindHeader: TypeAlias = Callable[[str], tuple[Header, FileState]]


MOST_NOTED = 1 << 20
"""Longer parts of a file that may be written are blocks of an update, which takes little memory."""


@dataclass(slots=True, eq=False, repr=False)
class Opening:
    """That a path was opened, until it is closed: for all arrays there.

    `claim` is what lets others wait until then.
    """

    path: str
    claim: Any = None
    is_closed: bool = False
    kept: dict[str, KeptFile] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        return Opening, (self.path, self.held)

    @property
    def held(self) -> Any:
        """The claim, as a pickle has it: there is none of what was closed."""
        self.check()
        return self.claim

    def check(self) -> None:
        """Raise if it was closed."""
        if self.is_closed:
            raise ValueError(
                f"{self.path} was closed, by _close() or by a with block; open it again"
            )

    def close(self) -> None:
        """Have all views say that it is closed; others may claim it."""
        self.is_closed = True
        for kept in list(self.kept.values()):  # other threads may add some
            kept.drop()
        if self.claim is not None:
            self.claim.release()


@dataclass(slots=True, eq=False, repr=False)
class NpyFile:
    """A file with an array in it, by the header of `.npy`; a source and its members share it.

    `find` reads the header of an array that is a part of the file; otherwise `start` is what the
    file has before its data, once it was read.
    """

    path: str
    mode: str
    header: Header
    opening: Opening
    state: FileState | None = None
    find: FindHeader | None = None
    start: bytes | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return NpyFile, (self.path, self.mode, self.header, self.opening, None, self.find)

    def check(self) -> None:
        """Raise if the file is neither the one that was opened nor has its header, or more rows."""
        self.opening.check()
        now = again(os.stat, self.path)
        if self.state != (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns):
            self._check_header()

    def checked(self, mode: str) -> io.FileIO:
        """Return the open file after this check, for which it is not opened a second time.

        Of a file that has just been written the time tells nothing, but its first bytes do.
        """
        self.opening.check()
        if self.start is not None and self.state is not None:
            seen = again(state_at, self.path)
            if seen[:3] == self.state[:3]:  # so this is a file, whose opening does not wait
                file = io.FileIO(self.path, mode)
                is_known = seen == self.state and seen.time >= 0
                if is_known or file.read(len(self.start)) == self.start:
                    self.state = seen
                    return file
                file.close()
        self.check()
        return io.FileIO(self.path, mode)

    def note(self, file: io.FileIO, found: np.ndarray, in_a_run: bool) -> None:
        """Note what was read by position: a file that is read often stays open."""
        if found.nbytes <= sizes.file_bytes:
            kept = self.opening.kept.get(self.path)
            if kept is None:
                kept = self.opening.kept.setdefault(self.path, KeptFile())
            kept.note(file, found.nbytes, 1 if in_a_run or not found.ndim else len(found))

    def read_kept(self, read: Callable[[OpenFile], np.ndarray | None]) -> np.ndarray | None:
        """Return what is read of the file if it stays open; None if it does not, or is another.

        The file is looked at afterwards: so it is known, too, if it was cut short meanwhile.
        """
        kept = self.opening.kept.get(self.path)
        held = None if kept is None else kept.held
        if kept is None or held is None:
            return None
        if self.opening.is_closed:
            self.opening.check()
        found = read(held)
        try:
            now = os.stat(self.path)
        except OSError:  # opening it says why
            kept.drop()
            return None
        if held.known != (now.st_dev, now.st_ino, now.st_size):
            kept.drop()
            return None
        is_same = self.state == (*held.known, now.st_mtime_ns) or self._begins(held)
        return found if is_same else None

    def _begins(self, held: OpenFile) -> bool:
        """Whether a file begins as it did: of one that was just written the time tells nothing."""
        if self.start is None:
            return False
        found = np.empty(len(self.start), np.uint8)
        return held.read(found, 0) and found.tobytes() == self.start

    def _check_header(self) -> None:
        changed = f"{self.path} has changed since it was opened"
        try:
            header, state = (self.find or read_header)(self.path)
            start = None if self.find else start_of(self.path, header, state)
        except ValueError as error:
            raise ValueError(f"{changed}: {error}; open it again") from None
        if not header.grew_from(self.header):
            raise ValueError(
                f"{changed}: it held {header_text(self.header)}, now {header_text(header)}; "
                "open it again"
            )
        self.state, self.start = state, start


class NpySource(Source):
    """An array in an `.npy` file, or one member of its structured dtype."""

    __slots__ = (
        "block", "dtype", "file", "header", "members", "path", "row_bytes", "shape", "writable",
    )  # fmt: skip
    path: str
    reuses = True

    def __init__(
        self, file: NpyFile, members: tuple[str, ...] = (), shape: tuple[int, ...] | None = None
    ) -> None:
        self.file = file
        self.path = file.path
        self.header = file.header
        self.writable = file.mode == "r+"
        self.members = members
        dtype = file.header.dtype
        trailing: tuple[int, ...] = ()
        for name in members:
            dtype = dtype[name]
            dtype, trailing = dtype.base, trailing + dtype.shape
        self.shape = file.header.shape + trailing if shape is None else shape
        self.dtype = dtype
        axes = self.shape[: len(self.shape) - len(trailing)]
        stored = (axes[::-1] if file.header.fortran else axes) or (1,)
        self.block = Block(file.header.offset, stored, file.header.dtype, members)
        # 0 where a row is not one run of bytes in the file
        is_run = not (members or file.header.fortran)
        self.row_bytes = dtype.itemsize * math.prod(self.shape[1:]) if is_run else 0

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.members, self.shape)

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return a new array, so that nobody holds pages of the file.

        A caller that gives a list in `memo` keeps the array for a short time only, so it may also
        be memory that was used before, or a window of the file.
        """
        reused = memo.get(scratch.REUSED)
        if not self.dtype.itemsize:
            return np.ndarray(index.shape, self.dtype)
        size, run = self._bytes_of(index), self._run(index)
        inside = index if run is not None else self._in_file(index)
        is_refused = self.row_bytes and ASKED in memo  # by the file that stays open
        found = None if is_refused or reused is not None else self._read_kept(inside, run)
        if found is not None:
            return found
        with self.file.checked("rb") as file:
            # A file that is open for writing is ours, so nobody truncates it under a window.
            if run is not None and reused is not None and self.writable:
                raw = map_window(file, run, size, False)
                if raw is not None:
                    return np.ndarray(index.shape, self.dtype, raw)
            found = file_rows.read_near(file, self.block, inside) if run is None else None
            if found is None:
                found = file_rows.array_in_file_order(inside, self.dtype, reused)
                if run is not None:
                    read_at(file, found, run)
                else:
                    file_rows.read(file, self.block, inside, found, self.writable)
            if reused is None and (found.nbytes <= MOST_NOTED or not self.writable):
                self.file.note(file, found, run is not None)
        return found

    def _read_kept(self, inside: Index, run: int | None) -> np.ndarray | None:
        """Return a run of bytes, or a part of few rows, if the file stays open; else None."""
        if run is None:
            return self.file.read_kept(lambda held: held.part(self.block, inside))
        if self._bytes_of(inside) > sizes.file_bytes:
            return None

        def read(held: OpenFile) -> np.ndarray | None:
            found = np.empty(inside.shape, self.dtype)
            return found if held.read(found, run) else None

        return self.file.read_kept(read)

    def rows_at_hand(self, rows: Rows) -> np.ndarray | None:
        """Return rows as a new array if the file stays open, and they are few bytes."""
        count = 1 if isinstance(rows, int) else len(rows)
        if not 0 < self.row_bytes * count <= sizes.file_bytes:
            return None
        return self.file.read_kept(lambda held: held.rows(self.block, rows))

    def write(self, index: Index, value: np.ndarray) -> None:
        """Write through the index into the file; no other byte of it is written."""
        if not self.dtype.itemsize or 0 in index.shape:
            return
        run, spread = self._run(index), np.broadcast_to(value, index.shape)
        with self.file.checked("r+b") as file:
            if run is None:
                file_rows.write(file, self.block, self._in_file(index), spread)
                return
            rows = np.atleast_1d(spread)
            size = self._bytes_of(index) // len(rows)
            step = max(1, sizes.file_bytes // size)
            for start in range(0, len(rows), step):
                if start:
                    self.file.check()
                block = np.ascontiguousarray(rows[start : start + step], self.dtype)
                write_at(file, block, run + start * size)

    def run_at(self, index: Index) -> int | None:
        """Return where the one run of bytes begins that an index selects, if it does."""
        return self._run(index) if self.dtype.itemsize else None

    def write_run(self, place: int, value: np.ndarray, note: Note) -> None:
        """Write one run of bytes into the file; before, `note` is called with what is there."""
        with self.file.checked("r+b") as file:
            old = np.empty_like(value)
            read_at(file, old, place)
            note(file, old)
            write_at(file, value, place)

    def _bytes_of(self, index: Index) -> int:
        return self.dtype.itemsize * math.prod(index.shape)

    def memmap(self, index: Index) -> np.ndarray | None:
        """Return elements as memory shared with the file, None if that is not possible.

        Writing to the array writes to the file; the caller keeps it for a short time only.
        """
        if not self.dtype.itemsize or self.header.fortran:
            return None  # blocks of memory in Fortran order are computed through copies
        with self.file.checked("r+b") as file:
            return file_rows.shared_memory(file, self.block, self._in_file(index))

    def slow_axis(self, index: Index) -> tuple[int, int]:
        """Return the axis of a view whose steps lie farthest apart, and the bytes of a step."""
        axis, size = steps_of(self.block, self._in_file(index))
        # What is in Fortran order is held twice: as it lies in the file, and as it is computed.
        return axis, 2 * size if self.header.fortran else size

    def is_fortran(self, index: Index) -> bool:
        """Whether what an index selects is read in Fortran order."""
        axes = file_rows.axes_in_order(self._in_file(index))
        return len(axes) > 1 and axes == [*range(len(axes))][::-1]

    def _in_file(self, index: Index) -> Index:
        """Return the index into the array as it lies in the file."""
        axes = len(self.block.shape) if self.header.shape else 0
        front = index.maps[:axes][::-1] if self.header.fortran else index.maps[:axes]
        return Index(index.shape, (*(front or (Constant(0),)), *index.maps[axes:]))

    def _run(self, index: Index) -> int | None:
        """Return where the run of bytes begins that an index selects, None if it is not one."""
        if self.header.fortran or self.members:
            return None
        return run_of(self.header.offset, self.shape, self.dtype.itemsize, index)

    def reshaped(self, shape: tuple[int, ...]) -> NpySource | None:
        """Return the same elements in their order under another shape, if they lie in order."""
        if self.header.fortran or self.members:
            return None
        return type(self)(self.file, (), shape)

    def member(self, name: str) -> NpySource:
        """Return one field of a structured file."""
        return type(self)(self.file, (*self.members, name))

    def reference(self) -> Reference:
        """Return what keeps the path and the header of the file, which nobody holds open."""
        kind, file, members, shape = type(self), self.file, self.members, self.shape
        key = self.path, self.header.offset, members, shape, self.dtype
        return by_path(self, key, lambda: kind(file, members, shape))

    @property
    def journals(self) -> Any:
        """The journals of the file, or of the folder that it was opened with."""
        claim = self.file.opening.claim
        return None if claim is None else claim.journals

    @property
    def address(self) -> Any:
        """Where the array begins in the file, and which part of it this is."""
        return self.path_inside, self.header.offset, self.members, self.shape, self.dtype

    @property
    def path_inside(self) -> str:
        """The path of the file in the folder that it was opened with, if it was."""
        opened = self.file.opening.path
        return os.curdir if self.path == opened else os.path.relpath(self.path, opened)

    @property
    def witness(self) -> tuple[str, bool] | None:  # type: ignore[override]
        """The file, if it is in a folder that was opened."""
        return None if self.path == self.file.opening.path else (self.path, True)

    def at(self, address: Any) -> NpySource | None:
        """Return the part of this array that has an address."""
        if address[:2] != (self.path_inside, self.header.offset):
            return None
        found = type(self)(self.file, *address[2:4])
        return found if found.dtype == address[4] else None

    def is_written_at_once(self, index: Index) -> bool:
        """Whether a write is one call within a page, which the system does whole."""
        run = self._run(index)
        if run is None or self.journals is None:
            return False
        return bool(self.journals.needs_none(run, self._bytes_of(index)))

    def sync(self) -> None:
        """Bring the file to the device."""
        with open(self.path, "r+b", buffering=0) as file:
            os.fsync(file.fileno())

    def may_share(self, other: Source) -> bool:
        """Whether a write may change the other: two arrays in one file have bytes of their own."""
        if isinstance(other, NpySource) and other.path == self.path:
            ours, theirs = self.header, other.header
            return ours.offset < theirs.end and theirs.offset < ours.end
        return super().may_share(other)

    @property
    def home(self) -> Home:
        """Where the elements are: a member is a part of the records, unless these are reshaped."""
        found, shape, dtype = super().home, self.header.shape, self.header.dtype
        if self.shape[: len(shape)] != shape:
            return found
        part = bytes_of_member(dtype, self.members)
        return found._replace(
            layout=(NpySource, self.header.offset, shape, dtype), axes=len(shape), part=part
        )

    def changed_by_growth(self, sources: Sequence[Source]) -> Iterator[Changing]:
        """Yield the headers of the files: their rows stay where they are."""
        for one in sources:
            assert isinstance(one, NpySource)
            yield Changing(one.path, [(0, one.header.offset)])

    def growing(self, count: int) -> NpyGrowth:
        """Begin to add rows; the views that there are keep their length."""
        if self.members or self.file.find is not None or self.shape != self.header.shape:
            raise self.no_growth("it is a part of a file")
        if self.header.fortran or not self.shape:
            raise self.no_growth("its rows do not lie one after the other")
        return NpyGrowth(self.file, count)

    @property
    def is_closed(self) -> bool:
        """Whether the file was closed."""
        return self.file.opening.is_closed

    def close(self) -> None:
        """Have all views of what was opened say that it is closed; others may claim it."""
        self.file.opening.close()

    def describe(self) -> str:
        """Name the file and how it was opened."""
        claim = self.file.opening.claim
        note = f", {claim.note}" if claim is not None and claim.note else ""
        return f"{os.path.basename(self.path)} ({self.file.mode}{note})"


class NpyGrowth:
    """Rows that are being added to a file: data first, then the header that tells of them.

    A process that is killed on the way leaves the old rows, and perhaps bytes that nobody reads.
    """

    def __init__(self, file: NpyFile, count: int) -> None:
        file.check()
        self.file = file
        self.flushes: dict[Any, Any] = {}  # a file is of one array
        self.old = read_header(file.path)[0]
        self.new = self.old._replace(shape=(self.old.shape[0] + count, *self.old.shape[1:]))
        self.texts = [header_in_place(file.path, header) for header in (self.old, self.new)]
        self.size = os.stat(file.path).st_size
        with open(file.path, "rb") as held:
            held.seek(self.old.end)
            if held.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:
                raise TypeError(
                    f"{file.path} has another array behind the first, so that no rows can be added"
                )
        sizes = [math.prod(self.old.shape[n + 1 :]) for n in range(len(self.old.shape))]
        self.strides = [self.old.dtype.itemsize * size for size in sizes]

    def write(self, key: Sequence[slice], block: np.ndarray) -> None:
        """Write a part of the new rows, which lies in one run."""
        starts = zip(key, self.strides, strict=False)
        place = self.old.end + sum(part.start * stride for part, stride in starts)
        with open(self.file.path, "r+b", buffering=0) as file:
            write_at(file, np.ascontiguousarray(block, self.old.dtype), place)

    def settle(self) -> None:
        """Bring the rows to the device."""
        with open(self.file.path, "r+b", buffering=0) as file:
            if os.fstat(file.fileno()).st_size < self.new.end:
                raise cut_short(file)
            os.fsync(file.fileno())

    def finish(self) -> NpySource:
        """Tell of the new rows in the header, and return the source that has them."""
        with open(self.file.path, "r+b", buffering=0) as file:
            file.write(self.texts[1])
            os.fsync(file.fileno())
        return NpySource(NpyFile(self.file.path, self.file.mode, self.new, self.file.opening))

    def undo(self) -> None:
        """Leave the file as it was."""
        with open(self.file.path, "r+b", buffering=0) as file:
            file.write(self.texts[0])
            file.truncate(self.size)


def open_npy(path: str | os.PathLike[str], mode: str = "r", claim: Any = None) -> NpySource:
    """Return the source of an `.npy` file; only its header is read.

    `claim` is what lets others wait until the file is closed.
    """
    if mode not in ("r", "r+"):
        raise ValueError(f"mode is 'r' (read) or 'r+' (read and write); got {mode!r}")
    place = os.path.abspath(path)
    header, state = read_header(place)
    check_writable(place, mode)
    return NpySource(NpyFile(place, mode, header, Opening(place, claim), state))


def check_writable(path: str, mode: str) -> None:
    """Raise if a file is to be changed and may not be."""
    if mode == "r+" and not os.access(path, os.W_OK):
        raise PermissionError(f"{path} cannot be written; open it with mode='r'")


@contextlib.contextmanager
def temporary_npy(
    path: str, shape: tuple[int, ...], dtype: np.dtype[Any], blocks: Iterable[np.ndarray]
) -> Iterator[NpySource]:
    """Keep blocks of rows on disk, beside `path`, as long as the block lasts."""
    with temporary_file(path) as (file, place):
        file.write(header_bytes(shape, dtype))
        for block in blocks if dtype.itemsize else ():
            file.write(raw_bytes(block))
        file.flush()
        yield open_npy(place)


def raw_bytes(block: np.ndarray) -> Any:
    """Return the bytes of an array in C order."""
    return np.ascontiguousarray(block).reshape(-1).view(np.uint8)
