"""Files in archives: where each of them is, and its bytes, read without unpacking the others."""

from __future__ import annotations

import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dataview.errors import shortened
from dataview.formats.handles import Claim
from dataview.formats.texts.text_bytes import TextBytes, changed
from dataview.sources import FileState

LARGEST = 1 << 28
"""A larger file in an archive is refused: each is held in memory whole."""

LONGEST_HEADER = 1 << 20
"""What stands before a file in a tar file is no longer than this."""

MOST_TIMES = 1100
"""Deflating makes nothing smaller than by this factor: who promises more than that lies."""

BLOCK = 512
"""A tar file is made of blocks of so many bytes; one of zeros is behind the last file."""

STORED, DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED

_BROKEN = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError,
    LookupError, OverflowError, ValueError,
)  # fmt: skip
"""What Python's readers of archives raise for broken ones."""


class Found(NamedTuple):
    """A file in an archive: its name, where it or its header begins, and its sizes there and read.

    In a zip file it may be deflated; `sum` is the check of its bytes.
    """

    name: str
    place: int
    packed: int
    size: int
    method: int = -1
    sum: int = 0


class Archive:
    """The files in an archive, whose names and places are read when it is opened."""

    def __init__(self, path: str, claim: Claim | None, told: FileState | None = None) -> None:
        self.raw = TextBytes(path, claim, told, MOST_TIMES)
        self.path, self.opening = path, self.raw.opening
        with self.raw.opened() as file:
            self.is_zip = file.read(2) == b"PK"
            file.seek(0)
            listed = self._checked(_in_zip(file) if self.is_zip else _in_tar(file))
        self.names = [one.name for one in listed]
        self.facts = np.array([one[1:] for one in listed], np.int64).reshape(-1, 5)

    def __reduce__(self) -> tuple[Any, ...]:
        return Archive, (self.path, self.opening.held, self.raw.state)

    def _checked(self, listed: Iterator[Found]) -> list[Found]:
        """Return the files of an archive, or raise an error that names it."""
        found: list[Found] = []
        names: set[str] = set()
        try:
            for one in listed:
                _check_name(one.name)
                if one.name in names:
                    raise ValueError(f"it has two files of the name {shortened(repr(one.name))}")
                if one.place < 0 or one.place + one.packed > self.raw.size:
                    raise ValueError(f"the file {shortened(repr(one.name))} is cut short")
                if one.size > MOST_TIMES * (one.packed + 1):
                    raise ValueError(
                        f"the file {shortened(repr(one.name))} would have {one.size} bytes, and "
                        f"{one.packed} bytes cannot be unpacked to so many"
                    )
                found.append(one)
                names.add(one.name)
        except _BROKEN as error:
            raise ValueError(
                f"{self.path} cannot be read as an archive: {shortened(str(error))}"
            ) from None
        return found

    def where(self, number: int) -> str:
        """Return what a file is called in errors."""
        return f"{self.path}/{self.names[number]}"

    def bytes_of(self, number: int) -> bytes:
        """Return the bytes of a file."""
        place, packed, size, method, known = self.facts[number].tolist()
        if size > LARGEST:
            raise ValueError(f"it has {size} bytes, and more than {LARGEST} are not read at once")
        if method < 0:
            return self.raw.read(place, place + size)
        head = self.raw.read(place, place + 30)
        if head[:4] != b"PK\3\4":
            raise changed(self.path)
        begin = place + 30 + sum(struct.unpack("<26xHH", head))
        if begin + packed > self.raw.size:
            raise ValueError("it is cut short")
        found = self.raw.read(begin, begin + packed)
        if method == DEFLATED:
            found = zlib.decompressobj(-zlib.MAX_WBITS).decompress(found, size + 1)
        if len(found) != size or zlib.crc32(found) != known:
            raise ValueError("its bytes are not those that were packed")
        return found

    def close(self) -> None:
        """Have all views say that the archive is closed, and keep nothing of it."""
        self.raw.close()


def _check_name(name: str) -> None:
    """Raise if a file would leave the folder that an archive is unpacked to."""
    parts = name.replace("\\", "/").split("/")
    if ".." in parts or not parts[0] or parts[0].endswith(":") or "\0" in name:
        raise ValueError(
            f"the file {shortened(repr(name))} would lie outside of the folder that it is "
            "unpacked to, as files of attacks do"
        )


def _in_zip(file: Any) -> Iterator[Found]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            what = f"the file {shortened(repr(info.filename))}"
            if stat.S_ISLNK(info.external_attr >> 16):
                raise ValueError(f"{shortened(repr(info.filename))} is a link or no plain file")
            if info.flag_bits & 1:
                raise ValueError(f"{what} is encrypted")
            if info.compress_type not in (STORED, DEFLATED):
                raise ValueError(
                    f"{what} is packed by method {info.compress_type}; those that are read are "
                    "stored (0) or deflated (8)"
                )
            yield Found(
                info.filename, info.header_offset, info.compress_size, info.file_size,
                info.compress_type, info.CRC,
            )  # fmt: skip


def _in_tar(file: Any) -> Iterator[Found]:
    with tarfile.open(fileobj=_Headers(file), mode="r:") as archive:  # type: ignore[call-overload]
        while (info := archive.next()) is not None:
            archive.members = []  # which else has all of them
            name = info.name.removeprefix("./")
            if info.isdir():
                continue
            if not info.isreg() or info.issparse():
                raise ValueError(f"{shortened(repr(name))} is a link or no plain file")
            yield Found(name, info.offset_data, info.size, info.size)
        file.seek(archive.offset)
        if file.read(BLOCK).strip(b"\0"):  # where Python's reader stops without a word
            raise ValueError(f"there is no file at byte {archive.offset}")


class _Headers:
    """An archive of which no more than headers are read at a time."""

    def __init__(self, file: Any) -> None:
        self.seek, self.tell, self._read = file.seek, file.tell, file.read

    def read(self, size: int) -> bytes:
        """Return so many bytes."""
        if size > LONGEST_HEADER:
            raise ValueError(f"a header would have {size} bytes")
        return bytes(self._read(size))
