"""NumPy's `.npz` files: members are fields; what is stored is read in place, the rest unpacked.

Such a file is a zip file, and nothing that it says of itself is trusted.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import shutil
import struct
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from dataview.errors import shortened
from dataview.formats.arrays.npy import objects_in
from dataview.formats.contents import LateSource, nested, with_arrays
from dataview.formats.field_tree import NAME
from dataview.formats.handles import Claim
from dataview.formats.restored_tree import LONGEST_TEXT, restored
from dataview.index.sizes import sizes
from dataview.plan.build import stored
from dataview.plan.node import Node
from dataview.sources import (
    ArraySource,
    FileState,
    Header,
    HoldsObjects,
    NpyFile,
    NpySource,
    Opening,
    Source,
    header_in,
    open_npy,
    open_regular,
    state_of,
    temporary_file,
)

MOST_TIMES = 1100
"""Deflating makes nothing smaller than by this factor: who promises more than that lies."""

BLOCK = 1 << 20
"""How many bytes are unpacked at a time to a file."""

_BROKEN = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, LookupError, ValueError,
    OverflowError,
)  # fmt: skip
"""What Python's reader of zip files raises for broken ones."""


def open_npz(path: str, mode: str, claim: Claim | None = None, pickle: bool = False) -> Node:
    """Return the record of the arrays in a file: the headers of its members are read."""
    if mode != "r":
        raise ValueError(
            f"{path}: what is in an .npz file cannot be changed in place; open it with mode 'r', "
            f"or keep the arrays in a folder of .npy files; got {mode!r}"
        )
    opening = Opening(path, claim)
    parts: dict[str, Node | str] = {}
    text = None
    with _archive(path) as archive:
        for info in archive.infolist():
            if info.filename.endswith("/"):  # a folder
                continue
            if info.filename == f"{NAME}.json":
                text = _text(archive, info)
                continue
            name = info.filename.removesuffix(".npy")
            try:
                parts[name] = stored(_source(archive, info, opening, pickle))
            except ValueError as error:
                parts[name] = f"cannot be read: {error}"
    return with_arrays(path, nested(parts)) if text is None else restored(parts, text, path)


def _text(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return the text that describes how the arrays belong together."""
    with archive.open(info) as file:
        return file.read(LONGEST_TEXT + 1)


@contextlib.contextmanager
def _archive(path: str) -> Iterator[zipfile.ZipFile]:
    with open_regular(path) as file:
        try:
            archive = zipfile.ZipFile(file)
        except (OSError, *_BROKEN) as error:
            raise ValueError(
                f"{path} is not an .npz file, or is cut short: {shortened(str(error))}"
            ) from None
        with archive:
            yield archive


def _source(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, opening: Opening, pickle: bool
) -> Source:
    """Return the source of one member."""
    path, name = opening.path, info.filename
    if not name.endswith(".npy"):
        raise ValueError(f"member {name!r} of {path} is not an .npy file")
    try:
        header, state, begin = _header(archive, info, path)
    except HoldsObjects:
        if not pickle:
            raise
        with _named_in_errors(path, name), archive.open(info) as stream:
            return objects_in(stream)
    if info.compress_type != zipfile.ZIP_STORED:
        return PackedSource(path, info, begin, header, opening)
    find = functools.partial(_find, name)
    return NpySource(NpyFile(path, "r", header, opening, state, find))


def _find(name: str, path: str) -> tuple[Header, FileState]:
    """Return the header of a member by its name."""
    with _archive(path) as archive:
        with _named_in_errors(path, name):
            info = archive.getinfo(name)
        header, state, _ = _header(archive, info, path)
    return header, state


def _header(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str
) -> tuple[Header, FileState, int]:
    """Return the header of a member, the state of the file, and where the member begins there.

    Places in the header are those in the file if the member is only stored.
    """
    where = f"member {info.filename!r} of {path}"
    if info.file_size > MOST_TIMES * (info.compress_size + 1):
        raise ValueError(
            f"{where} would have {info.file_size} bytes, and {info.compress_size} bytes cannot be "
            "unpacked to so many"
        )
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(
            f"{where} is packed by method {info.compress_type}; those of NumPy are stored (0) or "
            "deflated (8)"
        )
    file: Any = archive.fp
    state = state_of(file)
    # Opening a member checks what the zip file says of it in two places.
    with _named_in_errors(path, info.filename), archive.open(info) as stream:
        file.seek(info.header_offset + 26)
        begin = info.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))
        if info.compress_type == zipfile.ZIP_DEFLATED:
            return header_in(stream, where, 0, info.file_size), state, begin
    if info.file_size != info.compress_size or begin + info.file_size > state.size:
        raise ValueError(f"{where} is cut short")
    file.seek(begin)
    return header_in(file, where, begin, info.file_size), state, begin


@contextlib.contextmanager
def _named_in_errors(path: str, name: str) -> Iterator[None]:
    """Say which member of which file is broken."""
    try:
        yield
    except HoldsObjects:
        raise
    except (OSError, *_BROKEN) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # a place that is none
            raise
        where = f"member {name!r} of {path}"
        text = shortened(str(error))
        raise ValueError(
            text
            if where in text
            else f"{where} is broken or changed: {type(error).__name__}: {text}"
        ) from None


class PackedSource(LateSource):
    """A compressed member, which is unpacked once, when its data are first needed.

    It is unpacked to memory if it is small, and else to a temporary file.
    """

    __slots__ = ("begin", "header", "info", "zip")

    def __init__(
        self, path: str, info: zipfile.ZipInfo, begin: int, header: Header, opening: Opening
    ) -> None:
        super().__init__(header.shape, header.dtype, opening)
        self.zip, self.info, self.begin, self.header = path, info, begin, header

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedSource, (self.zip, self.info, self.begin, self.header, self.opening)

    def loaded(self) -> Source:
        """Unpack the member."""
        name, size = self.info.filename, self.info.file_size
        with open_regular(self.zip) as file, _named_in_errors(self.zip, name):
            if header_in(self._stream(file), name, 0, size) != self.header:
                raise ValueError("it has changed since it was opened; open the file again")
            stream = self._stream(file)
            if size > sizes.file_bytes:
                return self._on_disk(stream, size)
            raw = stream.read()
        header = self.header
        order: Literal["C", "F"] = "F" if header.fortran else "C"
        return ArraySource(np.ndarray(self.shape, self.dtype, raw, header.offset, order=order))

    def _stream(self, file: Any) -> zipfile.ZipExtFile:
        """Return the unpacked bytes, of which the zip file knows a sum to check."""
        file.seek(self.begin)
        return zipfile.ZipExtFile(file, "r", self.info)

    def _on_disk(self, stream: Any, size: int) -> Source:
        """Unpack to a temporary file, which lasts as long as this source."""
        folder = tempfile.gettempdir()
        if shutil.disk_usage(folder).free < size:
            raise OSError(
                errno.ENOSPC,
                f"member {self.info.filename!r} of {self.zip} is unpacked to {size} bytes, and the "
                "disk of the folder of temporary files has less; TMPDIR= names another folder",
                folder,
            )
        name = f"{os.path.basename(self.zip)}.{os.path.basename(self.info.filename)}"
        with contextlib.ExitStack() as held:
            file, place = held.enter_context(temporary_file(os.path.join(folder, name)))
            shutil.copyfileobj(stream, file, BLOCK)
            file.flush()
            found = open_npy(place)
            weakref.finalize(found, held.pop_all().close)
        return found

    def describe(self) -> str:
        """Name the file and the member."""
        return f"{os.path.basename(self.zip)}/{self.info.filename} (r, compressed)"

    def in_file(self) -> tuple[str, tuple[str, ...]]:
        """Return the file, and the name of the array."""
        return f"{os.path.basename(self.zip)} (r, compressed)", (self.info.filename[:-4],)
