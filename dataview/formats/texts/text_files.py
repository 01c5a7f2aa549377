"""Files of text as bytes in UTF-8 at any place: as they are, or unpacked, or in another encoding.

What is not UTF-8 as it lies on the disk is copied once: to memory if it is small, or else to a
temporary file.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import gzip
import os
import tempfile
import threading
import weakref
import zlib
from collections.abc import Iterator
from typing import Any

from dataview.errors import shortened
from dataview.formats.handles import closed
from dataview.formats.texts.text_bytes import changed, check_unpacked, stamped
from dataview.index.sizes import sizes
from dataview.sources import open_regular

BLOCK = 1 << 22
"""So much is copied at a time."""

MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""The encodings that a file may begin with; that of 32 bits begins as that of 16 does."""

_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile)
"""What a broken file raises while it is unpacked."""


class TextFile:
    """A file of text, of which any part is read as bytes of UTF-8; threads may do it together."""

    def __init__(self, path: str, encoding: str | None, claim: Any = None) -> None:
        self.path, self.claim = path, claim
        self.is_closed = False
        with open_regular(path) as file:
            self.state = stamped(file.fileno())
            self.is_packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            with self._stream(file) as stream, self._named_in_errors():
                start = stream.read(4)
        self.encoding = _encoding(encoding, start)
        self.begin = len(codecs.BOM_UTF8) if start.startswith(codecs.BOM_UTF8) else 0
        self._copy: _Copy | None = None
        self._lock = threading.Lock()
        self.is_copied = self.is_packed or self.encoding != "utf-8"
        if self.encoding != "utf-8":
            self.begin = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_copy": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    @property
    def name(self) -> str:
        """The name of the file."""
        return os.path.basename(self.path)

    @property
    def size(self) -> int:
        """How many bytes the text has in UTF-8."""
        return self.state.size if not self.is_copied else self._copied().size

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from one place to another, or to the end if that comes first."""
        if self.is_closed:
            raise closed(self.path)
        if self.is_copied:
            return self._copied().read(start, stop)
        handle = os.open(self.path, os.O_RDONLY | _HOW)
        try:
            self._check(handle)
            return _read(handle, start, stop)
        finally:
            os.close(handle)

    def close(self) -> None:
        """Keep nothing of the file; who reads from now on is told so."""
        self.is_closed = True
        with self._lock:
            self._copy = None
        if self.claim is not None:
            self.claim.release()

    def _check(self, handle: int) -> None:
        if stamped(handle) != self.state:
            raise changed(self.path)

    def _copied(self) -> _Copy:
        """Return the copy, which is made when it is first needed."""
        with self._lock:
            if self._copy is None:
                with open_regular(self.path) as file:
                    self._check(file.fileno())
                    with self._stream(file) as stream:
                        self._copy = _Copy(self._blocks(stream), self.path)
            return self._copy

    def _blocks(self, stream: Any) -> Iterator[bytes]:
        """Yield the text in UTF-8."""
        decode = codecs.getincrementaldecoder(self.encoding)()
        size = 0
        with self._named_in_errors():
            while block := stream.read(BLOCK):
                size += len(block)
                if self.is_packed:
                    check_unpacked(self.path, self.state.size, size)
                yield block if self.encoding == "utf-8" else decode.decode(block).encode()
            yield b"" if self.encoding == "utf-8" else decode.decode(b"", True).encode()

    def _stream(self, file: Any) -> Any:
        return gzip.GzipFile(fileobj=file) if self.is_packed else contextlib.nullcontext(file)

    @contextlib.contextmanager
    def _named_in_errors(self) -> Iterator[None]:
        try:
            yield
        except _BROKEN as error:
            raise ValueError(f"{self.path} cannot be unpacked: {shortened(str(error))}") from None
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{self.path} is no text in the encoding {self.encoding}: {error.reason}; "
                "encoding= names another one"
            ) from None


class _Copy:
    """A text in memory, or in a temporary file that lasts as long as this."""

    def __init__(self, blocks: Iterator[bytes], path: str) -> None:
        self.size = 0
        self.parts: list[bytes] = []
        self.file: Any = None
        with contextlib.ExitStack() as held, _full_disk_named(path):
            for block in blocks:
                self.size += len(block)
                if self.file is None and self.size > sizes.file_bytes:
                    self.file = held.enter_context(tempfile.TemporaryFile())
                    self.file.writelines(self.parts)
                    self.parts.clear()
                self.parts.append(block) if self.file is None else self.file.write(block)
            if self.file is not None:
                self.file.flush()
                weakref.finalize(self, held.pop_all().close)
        self.parts[:] = [b"".join(self.parts)]
        self.lock = threading.Lock()

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from one place to another, or to the end if that comes first."""
        if self.file is None:
            return self.parts[0][start:stop]
        with self.lock:
            return _read(self.file.fileno(), start, stop)


@contextlib.contextmanager
def _full_disk_named(path: str) -> Iterator[None]:
    """Say which file is unpacked where, if the disk has no room for it."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise OSError(
            errno.ENOSPC,
            f"{path} is unpacked to a temporary file, and the disk of that is full; TMPDIR= names "
            "another folder",
            tempfile.gettempdir(),
        ) from None


_HOW = getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
"""A pipe that has taken the place of a file is not waited for: it is another file."""


def _encoding(given: str | None, start: bytes) -> str:
    """Return the encoding of a text, which its first bytes may say."""
    if given is None:
        found = next((name for mark, name in MARKS if start.startswith(mark)), "utf-8")
        return "utf-8" if found == "utf-8-sig" else found
    try:
        name = codecs.lookup(given).name
    except LookupError:
        raise ValueError(
            f"encoding= is one that Python knows, such as 'utf-8' or 'latin-1'; got {given!r}"
        ) from None
    return "utf-8" if name in ("utf-8", "utf-8-sig", "ascii") else name


def _read(handle: int, start: int, stop: int) -> bytes:
    """Read bytes at a place; processes that were forked share the place of a handle."""
    parts = []
    while start < stop:
        count = min(stop - start, 1 << 30)
        if hasattr(os, "pread"):
            part = os.pread(handle, count, start)
        else:
            os.lseek(handle, start, os.SEEK_SET)
            part = os.read(handle, count)
        if not part:
            break
        parts.append(part)
        start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def line_at(file: TextFile, place: int) -> int:
    """Return the number of the line at a place, as an editor shows it; the first is 1."""
    lines, was_return = 1, False
    for start in range(0, place, BLOCK):
        block = file.read(start, min(place, start + BLOCK))
        lines += block.count(b"\n") + block.count(b"\r") - block.count(b"\r\n")
        lines -= was_return and block.startswith(b"\n")
        was_return = block.endswith(b"\r")
    return lines
