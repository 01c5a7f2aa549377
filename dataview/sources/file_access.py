"""Open files; read, write and map bytes at a place in them; full disks; the order of files.

A library that finds no room half way may leave a file that cannot be read, or cannot be closed: so
room is kept before it writes, and files and folders can be given up.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import mmap
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import repeat
from typing import Any, TypeAlias, TypeVar

import numpy as np

from dataview.index.progress import Task, begin
from dataview.index.sizes import sizes

MOST = 1 << 30
"""The most bytes of one call: some systems refuse 2 GiB, others transfer less."""

Move: TypeAlias = "Callable[[tuple[memoryview], int], int]"
"""A function that reads or writes bytes at a place in a file, and returns how many."""

LONG = 4
"""What is read at a time for other work is no longer than so many pieces of a file."""

POPULATE_READ, POPULATE_WRITE = 22, 23
"""Linux's numbers for the advice to load all pages of a map; Python has no names for them."""


_NUMBER = re.compile(r"0*([0-9]+)")
_DIGITS = re.compile("0+")
_ZEROS = dict.fromkeys(map(ord, "123456789"), "0")


def in_order(path: str) -> list[Any]:
    """Return the key by which files are sorted everywhere: numbers in their names count as such.

    >>> sorted(["a/part-10", "a/part-9", "a", "a-1/part-1"], key=in_order)
    ['a', 'a/part-9', 'a/part-10', 'a-1/part-1']
    """
    return [(_NUMBER.sub(_weighed, name), name) for name in path.split(os.sep)]


def names_in_order(names: Collection[str]) -> list[str]:
    """Return names, without folders, in the order of `in_order`: of very many, in little time.

    >>> names_in_order(["10.jpg", "9.jpg", "x"])
    ['9.jpg', '10.jpg', 'x']
    """
    together = "\0".join(names)
    shown = together.translate(_ZEROS)
    form = shown.partition("\0")[0]
    if shown == "\0".join([form] * len(names)):  # numbers have as many digits
        return sorted(names)
    forms = {*shown.split("\0")}
    if _are_numbered({*map(_DIGITS.sub, repeat("0"), forms)}, f"\0{together}\0"):
        return sorted(sorted(names), key=len)
    keys = _NUMBER.sub(_weighed, together).split("\0")
    return [name for _, name in sorted(zip(keys, names, strict=True))]


def _are_numbered(forms: set[str], together: str) -> bool:
    """Whether names differ by one number alone, which has no zeros before it.

    `forms` are their forms with 0 for each number, and `together` has a mark around each name.
    """
    if len(forms) != 1:
        return False
    (form,) = forms
    before, *behind = form.split("0")
    if len(behind) != 1:
        return False
    return together.count(f"\0{before}0") == together.count(f"\0{form}\0")


def _weighed(number: re.Match[str]) -> str:
    """Return a number with its length before it, so that the order of texts is that of numbers."""
    return chr(1 + len(number[1])) + number[1]


def from_here(path: str) -> str:
    """Return a path for a message: from the current folder on, if it lies below that.

    >>> from_here(os.path.abspath("x.npy"))
    'x.npy'
    """
    with contextlib.suppress(OSError):  # there may be no such folder any more
        return path.removeprefix(os.getcwd() + os.sep)
    return path


def map_window(
    file: io.FileIO,
    place: int,
    size: int,
    writable: bool,
    runs: np.ndarray | None = None,
    least: int | None = None,
) -> np.ndarray | None:
    """Return bytes of a file as memory shared with it, None where the system does not allow it.

    All pages are loaded, and have room on the disk if they are to be written, so that touching
    them cannot fail unless another program truncates the file.  Of `runs` (pairs of start and end,
    ascending) only the pages are loaded that these need; no others may be touched.  The pages are
    freed with the last array that holds them.  After None, which is also the answer if fewer bytes
    than `least` are asked for, read or write at the place instead: that works, or says why not.
    """
    least = sizes.window_bytes if least is None else least
    if sys.platform != "linux" or size < least:
        return None
    skipped = place % mmap.ALLOCATIONGRANULARITY
    access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
    advice = POPULATE_WRITE if writable else POPULATE_READ
    try:
        pages = mmap.mmap(file.fileno(), size + skipped, access=access, offset=place - skipped)
        for start, stop in [(0, size + skipped)] if runs is None else _page_runs(runs + skipped):
            pages.madvise(advice, start, stop - start)
    except (OSError, ValueError):  # an old system, a full disk, a file that is shorter by now
        return None
    return np.ndarray(size, np.uint8, pages, skipped)


def _page_runs(runs: np.ndarray) -> list[tuple[int, int]]:
    """Return the runs of pages, from start to end in bytes, that contain runs of bytes.

    >>> _page_runs(np.array([[10, 20], [5000, 5010], [mmap.PAGESIZE * 9, mmap.PAGESIZE * 9 + 1]]))
    [(0, 8192), (36864, 40960)]
    """
    first, last = runs[:, 0] // mmap.PAGESIZE, (runs[:, 1] - 1) // mmap.PAGESIZE
    new = np.flatnonzero(first[1:] > last[:-1] + 1) + 1
    starts = first[np.concatenate([[0], new])] * mmap.PAGESIZE
    stops = (last[np.append(new, len(runs)) - 1] + 1) * mmap.PAGESIZE
    return list(zip(starts.tolist(), stops.tolist(), strict=True))


def open_regular(path: str, buffering: int = -1) -> Any:
    """Open a file to be read; raise if it is something else, such as a pipe, which might wait."""
    return open(path, "rb", buffering=buffering, opener=open_handle)


def open_handle(path: str, flags: int) -> int:
    """Open a file as `open` has it done; raise if there is anything else than a regular one."""
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    with closed_on_error(handle):
        kind = stat.S_IFMT(os.fstat(handle).st_mode)
        if kind in (stat.S_IFREG, stat.S_IFDIR):  # of a folder Python says it itself
            return handle
        found = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
        raise ValueError(
            f"{path} is {found.get(kind, 'something else')}, and only regular files can be opened"
        )


Found = TypeVar("Found")


def again(look: Callable[[str], Found], path: str) -> Found:
    """Return what a function finds at the path of a file that was there when data were opened."""
    try:
        return look(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            errno.ENOENT,
            "it was there when the data were opened, and was removed or renamed since; put it "
            "back, or open the data again where they are now",
            path,
        ) from error


@contextlib.contextmanager
def closed_on_error(handle: int) -> Iterator[None]:
    """Close what was opened if the block fails, which passes it on."""
    try:
        yield
    except BaseException:
        os.close(handle)
        raise


def read_at(file: io.FileIO, block: np.ndarray, place: int) -> None:
    """Fill an array with the bytes at a place in a file."""
    if block.nbytes <= LONG * sizes.file_bytes or hasattr(file, "fill"):
        read_runs(file, block, [(place, block.nbytes)])
        return
    with contextlib.closing(begin("reading", block.nbytes, "B")) as task:
        read_runs(file, block, _one_by_one(place, block.nbytes, task))


def _one_by_one(place: int, size: int, task: Task) -> Iterator[tuple[int, int]]:
    """Yield the places and sizes of the pieces of a run; each is done when the next is asked for.

    >>> with sizes.set(file_bytes=2):
    ...     list(_one_by_one(10, 5, begin("reading", 5)))
    [(10, 2), (12, 2), (14, 1)]
    """
    for start in range(0, size, sizes.file_bytes):
        part = min(sizes.file_bytes, size - start)
        yield place + start, part
        task.advance(part)


def write_at(file: io.FileIO, block: np.ndarray, place: int) -> None:
    """Write the bytes of an array at a place in a file."""
    write_runs(file, block, [(place, block.nbytes)])


def read_runs(file: io.FileIO, block: np.ndarray, runs: Iterable[tuple[int, int]]) -> None:
    """Fill an array with the runs of bytes that have these places and sizes in a file.

    A file that is not on this machine fills it itself.
    """
    fill = getattr(file, "fill", None)
    if fill is not None:
        fill(block, runs)
    else:
        _transfer(_reader, file, block, runs)


def write_runs(file: io.FileIO, block: np.ndarray, runs: Iterable[tuple[int, int]]) -> None:
    """Write the bytes of an array as runs that have these places and sizes in a file."""
    _transfer(_writer, file, block, runs)


def _reader(file: io.FileIO) -> Move:
    if hasattr(os, "preadv"):  # Windows and old macOS have none
        return functools.partial(os.preadv, file.fileno())

    def read(parts: tuple[memoryview], place: int) -> int:
        file.seek(place)
        return file.readinto(*parts) or 0

    return read


def _writer(file: io.FileIO) -> Move:
    if hasattr(os, "pwritev"):
        return functools.partial(os.pwritev, file.fileno())

    def write(parts: tuple[memoryview], place: int) -> int:
        file.seek(place)
        return file.write(*parts) or 0

    return write


def _transfer(
    mover: Callable[[io.FileIO], Move],
    file: io.FileIO,
    block: np.ndarray,
    runs: Iterable[tuple[int, int]],
) -> None:
    """Read or write all bytes of a block, each run of them in as many calls as it takes."""
    raw: Any = block.reshape(-1).view(np.uint8)
    data, done = memoryview(raw), 0
    try:
        move = mover(file)
        for place, size in runs:
            end = done + size
            while done < end:  # few operations: rows by number are a run each
                count = move((data[done : end if size <= MOST else min(end, done + MOST)],), place)
                if not count:
                    raise cut_short(file)
                done += count
                place += count
    except OSError as error:
        if error.errno is not None:
            error.filename = file.name  # the system's message names no file
        raise


def cut_short(file: io.FileIO) -> OSError:
    """Return the error for a file that is shorter than it was when it was opened."""
    return OSError(f"{file.name} ended before all of the block was transferred")


_UNABLE = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)
"""What systems say that keep no room."""

_PAUSE, _TIMES, _MOST_TIMES = 0.01, 3, 300
"""A folder that was missing so often after pauses of so many seconds is removed for good."""


def keep_room(handle: int, count: int, path: str, begin: int | None = None) -> None:
    """Make a file longer by so many bytes, for which the disk has room then, or raise.

    The room is for those from `begin` on, if that is given, which may be there already.  Where the
    system cannot, nothing is done.
    """
    if not hasattr(os, "posix_fallocate"):
        return
    end = os.fstat(handle).st_size
    try:
        os.posix_fallocate(handle, end if begin is None else begin, count)
    except OSError as error:
        if error.errno in _UNABLE:
            return
        os.ftruncate(handle, end)
        raise OSError(
            error.errno, f"{error.strerror}: {count} bytes more are needed", path
        ) from None


class Abandoned(io.FileIO):
    """A new file for a library that goes wrong if a write fails: it is told of none.

    After the first one nothing is written any more, and `check` raises: the file is thrown away.
    """

    def __init__(self, place: str, target: str) -> None:
        super().__init__(place, "r+b")
        self.target = target
        self.failure: OSError | None = None

    def check(self) -> None:
        """Raise if something could not be written."""
        if self.failure is not None:
            number, why = self.failure.errno, self.failure.strerror
            raise OSError(number, f"{why} (a new file)", self.target)

    def write(self, data: Any) -> int:
        """Write all of some bytes."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest and self.failure is None:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.failure = error
        return size

    def truncate(self, size: int | None = None) -> int:
        """Give the file a length."""
        try:
            if self.failure is None:
                return super().truncate(size)
        except OSError as error:
            self.failure = error
        return size or 0


def remove_late(folder: str) -> None:
    """Remove a folder to which the threads of a library may go on writing for a moment."""
    missing = 0
    for _ in range(_MOST_TIMES):
        shutil.rmtree(folder, ignore_errors=True)
        missing = 0 if os.path.exists(folder) else missing + 1
        if missing == _TIMES:
            return
        time.sleep(_PAUSE)
