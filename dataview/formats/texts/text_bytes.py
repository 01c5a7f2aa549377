"""Files of text as bytes: as they lie on the disk, unpacked, or in UTF-8; and where lines are.

What is not read as it lies on the disk is copied once, when it is needed: to memory if it is small,
or else to a temporary file.
"""

from __future__ import annotations

import bz2
import codecs
import contextlib
import errno
import gzip
import io
import lzma
import os
import re
import shutil
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from dataview.errors import shortened
from dataview.formats.handles import Claim
from dataview.index.locks import new_lock
from dataview.index.progress import begin
from dataview.sources import FileState, Opening, again, open_regular, temporary_file

PACKERS = (
    (re.compile(rb"\x1f\x8b"), gzip.open),
    (re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), bz2.open),
    (re.compile(rb"\xfd7zXZ\0"), lzma.open),
)
"""What a packed file begins with, and what unpacks it."""

PACKED = (".gz", ".bz2", ".xz")
"""The suffixes of files that are packed so."""

ZIPPED = (".csv.zip", ".tsv.zip")
"""What is packed in a file of such a name is its only member."""

BLOCK = 1 << 20
"""How many bytes are read at a time when a file is passed over."""

SMALL = 1 << 20
"""Of so many bytes a copy is kept in memory."""

SPARE = 64 << 20
"""So many bytes of the disk are left free by copies."""

MOST_TIMES = 200
"""Texts are packed to no smaller part than this; what unpacks to more is made to fill disks."""

LEAST_BOMB = 1 << 28
"""A file that unpacks to less is no harm, however small it is."""

LONGEST = 64 << 20
"""A longer line is refused: lines are held in memory whole."""

PAGE = 1 << 11
"""Lines that begin in a run of so many bytes are read together."""

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""The encodings that a file may begin with; that of 32 bits begins as that of 16 does."""

START = 64
"""So many of the first bytes tell the encoding."""

_BROKEN = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, zipfile.BadZipFile)
"""What a broken file raises while it is unpacked."""


class TextBytes:
    """The bytes of a file, or those that were packed in it, as long as the file stays as it is.

    The file is opened for each reading, so that threads and processes may read at the same time.
    What unpacks to more than `most_times` its bytes is refused.
    """

    unzips = False
    """Whether an archive of one file is what that is packed in."""

    def __init__(
        self,
        path: str,
        claim: Claim | None,
        told: FileState | None = None,
        most_times: int = MOST_TIMES,
    ) -> None:
        self.path, self.opening, self.most_times = path, Opening(path, claim), most_times
        with open_regular(path) if told is None else again(open_regular, path) as file:
            self.state = stamped(file.fileno())
            check_told(path, file, told)
            self.is_zip = self.unzips and path.lower().endswith(ZIPPED) and zipfile.is_zipfile(file)
            file.seek(0)
            start = file.read(START)
            self._unpack = next((unpack for mark, unpack in PACKERS if mark.match(start)), None)
            self.is_packed = self.is_zip or self._unpack is not None
            self.is_copied = self.is_packed
            file.seek(0)
            with self._named_in_errors(), self._stream(file) as stream:
                self.start = stream.read(START)
        self._copy: _Copy | None = None
        self._lock = new_lock()

    def __reduce__(self) -> tuple[Any, ...]:
        own = self.path, self.opening.held, self.state, self.most_times
        return type(self), own

    @property
    def name(self) -> str:
        """The name of the file."""
        return os.path.basename(self.path)

    @property
    def begin(self) -> int:
        """Where the text begins: behind a mark of UTF-8."""
        return len(codecs.BOM_UTF8) if self.start.startswith(codecs.BOM_UTF8) else 0

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return self._copied().size if self.is_copied else self.state.size

    def check(self) -> None:
        """Raise if it was closed, or has changed."""
        self.opening.check()
        if not self.is_copied and again(stamped, self.path) != self.state:
            raise changed(self.path)

    def opened(self) -> Any:
        """Open the file, or the copy of it."""
        self.opening.check()
        if self.is_copied:
            return self._copied().opened()
        file = again(open_regular, self.path)
        try:
            unchanged(self.path, self.state, file)
        except BaseException:
            file.close()
            raise
        return file

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` to before `stop`, or to the end if that comes first."""
        with self.opened() as file:
            return self.read_from(file, start, stop)

    def read_from(self, file: Any, start: int, stop: int) -> bytes:
        """Return such bytes of the file that `opened` has returned."""
        count = max(0, min(stop, self.size) - start)
        file.seek(start)
        raw: bytes = file.read(count)
        if len(raw) < count:
            raise changed(self.path)
        return raw

    def lines(self, unit: np.dtype[Any], start: int) -> Iterator[tuple[int, bytes, np.ndarray]]:
        """Yield whole lines: where they begin, their bytes, and where each ends among these.

        A line ends behind the number 10 of the unit, or where the file ends.
        """
        number, place, pieces, held = 1, start, [b""], 0
        task = begin("reading", self.size, "B")
        with self.opened() as file, contextlib.closing(task):
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

    def close(self) -> None:
        """Have all views say that the file is closed, and keep nothing of it."""
        self.opening.close()
        with self._lock:
            if self._copy is not None:
                self._copy.close()
            self._copy = None

    # --- the copy ---

    def _copied(self) -> _Copy:
        """Return the copy, which is made when it is first needed."""
        with self._lock:
            if self._copy is None:
                with again(open_regular, self.path) as file:
                    unchanged(self.path, self.state, file)
                    with self._named_in_errors(), self._stream(file) as stream:
                        self._copy = _Copy(self._blocks(stream), self.path)
            return self._copy

    def _blocks(self, stream: Any) -> Iterator[bytes]:
        """Yield what is copied."""
        size = 0
        while block := stream.read(BLOCK):
            size += len(block)
            if self.is_packed:
                check_unpacked(self.path, self.state.size, size, self.most_times)
            yield block

    def _stream(self, file: Any) -> Any:
        if self.is_zip:
            return _only_member(file, self.path)
        return contextlib.nullcontext(file) if self._unpack is None else self._unpack(file)

    @contextlib.contextmanager
    def _named_in_errors(self) -> Iterator[None]:
        try:
            yield
        except (*_BROKEN, OSError) as error:
            if not isinstance(error, _BROKEN) and error.errno is not None:
                raise  # of the system: what bz2 finds broken has no number
            raise ValueError(
                f"{self.path} cannot be unpacked, or is cut short: {shortened(str(error))}"
            ) from None


class TextFile(TextBytes):
    """A file of text, of which any part is read as bytes of UTF-8.

    Its encoding is the one that is given, or that its first bytes say.
    """

    unzips = True

    def __init__(
        self,
        path: str,
        claim: Claim | None,
        encoding: str | None = None,
        told: FileState | None = None,
    ) -> None:
        super().__init__(path, claim, told)
        self.encoding = encoding_of(path, self.start, encoding)
        self.is_copied = self.is_packed or self.encoding != "utf-8"

    def __reduce__(self) -> tuple[Any, ...]:
        return TextFile, (self.path, self.opening.held, self.encoding, self.state)

    @property
    def begin(self) -> int:
        """Where the text begins: behind a mark of UTF-8, while decoding leaves out the others."""
        return super().begin if self.encoding == "utf-8" else 0

    def _blocks(self, stream: Any) -> Iterator[bytes]:
        """Yield the text in UTF-8."""
        blocks = super()._blocks(stream)
        if self.encoding == "utf-8":
            yield from blocks
            return
        decode = codecs.getincrementaldecoder(self.encoding)().decode
        try:
            for block in blocks:
                yield decode(block).encode()
            yield decode(b"", True).encode()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{self.path} is no text in the encoding {self.encoding}: {error.reason}; "
                "encoding= names another one"
            ) from None


def encoding_of(path: str, start: bytes, given: str | None = None) -> str:
    """Return the encoding of a text, which its first bytes may say."""
    if given is None:
        found = next((name for mark, name in MARKS if start.startswith(mark)), None)
        if found is None:
            _tell_unmarked(path, start)
        return found or "utf-8"
    try:
        name = codecs.lookup(given).name
    except LookupError:
        raise ValueError(
            f"encoding= is one that Python knows, such as 'utf-8' or 'latin-1'; got {given!r}"
        ) from None
    return "utf-8" if name in ("utf-8", "utf-8-sig", "ascii") else name


def _tell_unmarked(path: str, start: bytes) -> None:
    """Raise if every second of the first bytes is zero, as of texts in UTF-16, and no other."""
    whole = start[: len(start) // 2 * 2]
    zeros = [whole[place::2].count(0) for place in (0, 1)]
    if len(whole) >= 8 and min(zeros) == 0 and 2 * max(zeros) == len(whole):
        name = "utf-16-be" if zeros[0] else "utf-16-le"
        raise ValueError(
            f"{path} seems to be in UTF-16, without a mark that says so: encoding={name!r} reads "
            "a CSV or lines; other texts are to be saved in UTF-8"
        )


class _Copy:
    """Bytes in memory, or in a temporary file that lasts as long as this."""

    def __init__(self, blocks: Iterator[bytes], path: str) -> None:
        self.size, parts = 0, list[bytes]()
        folder = tempfile.gettempdir()
        file: Any = None
        with contextlib.ExitStack() as held:
            for block in blocks:
                self.size += len(block)
                if file is None and self.size > SMALL:
                    name = os.path.join(folder, os.path.basename(path))
                    file, self.place = held.enter_context(temporary_file(name))
                parts.append(block)
                if file is not None:
                    _check_room(folder, sum(map(len, parts)), path)
                    file.writelines(parts)
                    parts.clear()
            self.raw = None if file is not None else b"".join(parts)
            if file is not None:
                file.flush()
            self.close = weakref.finalize(self, held.pop_all().close)

    def opened(self) -> Any:
        """Open the copy."""
        return open_regular(self.place) if self.raw is None else io.BytesIO(self.raw)


def _check_room(folder: str, count: int, path: str) -> None:
    """Raise if the disk of a folder has no room for so many bytes of a copy."""
    if shutil.disk_usage(folder).free < count + SPARE:
        raise OSError(
            errno.ENOSPC,
            f"{path} is copied to a temporary file, for which the disk has no room; TMPDIR= names "
            "another folder",
            folder,
        )


@contextlib.contextmanager
def _only_member(file: Any, path: str) -> Iterator[Any]:
    """Lend the stream of the one file that a zip archive holds, beside what macOS adds."""
    with zipfile.ZipFile(file) as archive:
        members = [
            one
            for one in archive.infolist()
            if not one.is_dir() and not one.filename.startswith("__MACOSX/")
        ]
        if len(members) != 1:
            raise ValueError(
                f"{path} holds {len(members)} files, and a packed table is one; "
                "format='archive' shows them as rows"
            )
        if members[0].flag_bits & 1:
            raise ValueError(f"{path} is encrypted; unpack it by hand")
        with archive.open(members[0]) as stream:
            yield stream


def with_packed(suffixes: tuple[str, ...]) -> tuple[str, ...]:
    """Return suffixes, and those of such files that are packed.

    >>> with_packed((".txt",))
    ('.txt', '.txt.gz', '.txt.bz2', '.txt.xz')
    """
    return (*suffixes, *(kind + end for end in PACKED for kind in suffixes))


def name_of_unpacked(name: str) -> str:
    """Return the name that a file has if it is not packed.

    >>> name_of_unpacked("a.tsv.bz2"), name_of_unpacked("a.tsv")
    ('a.tsv', 'a.tsv')
    """
    end = next((end for end in PACKED if name.lower().endswith(end)), "")
    return name[: len(name) - len(end)]


def line_at(file: TextBytes, place: int) -> int:
    """Return the number of the line at a place, as an editor shows it; the first is 1."""
    lines, was_return = 1, False
    for start in range(0, place, BLOCK):
        block = file.read(start, min(place, start + BLOCK))
        lines += block.count(b"\n") + block.count(b"\r") - block.count(b"\r\n")
        lines -= was_return and block.startswith(b"\n")
        was_return = block.endswith(b"\r")
    return lines


def check_unpacked(path: str, packed: int, size: int, most_times: int = MOST_TIMES) -> None:
    """Raise if so many bytes were unpacked from a packed file that it can only do harm."""
    if size > max(LEAST_BOMB, most_times * packed):
        raise ValueError(
            f"{path} has {packed} bytes and unpacks to more than {most_times} times as many, which "
            "no table or text does; unpack it by hand if it is right"
        )


# --- the same file as before ---------------------------------------------------------------------


def stamped(place: int | str) -> FileState:
    """Return the state of a file, open or by its path, also of one that was written just now.

    Another time is another file; one that is written again within the clock's step goes unnoticed.
    """
    found = os.stat(place)
    return FileState(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def unchanged(path: str, state: FileState, file: Any) -> None:
    """Raise if the state of an open file is not that of before."""
    if stamped(file.fileno()) != state:
        raise changed(path)


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
