"""Texts, and arrays of NumPy: one in each file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dataview.formats.media.decoders import Decoder, Header, Member, open_file
from dataview.index import identity
from dataview.sources import header_in, open_npy

TEXT_SUFFIXES = (".txt", ".text", ".md", ".rst", ".html", ".htm", ".xml")
ARRAY_SUFFIXES = (".npy",)


@dataclass(frozen=True)
class Texts(Decoder):
    """Decodes texts, by an encoding; the ends of lines stay as they are."""

    encoding: str = "utf-8"
    field: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        try:
            "".encode(self.encoding)
        except LookupError:
            raise ValueError(
                f"encoding= is one that Python knows, such as 'utf-8'; got {self.encoding!r}"
            ) from None

    def header(self, path: str) -> Header:
        """Return what is known of all texts."""
        return Header((), np.dtypes.StringDType())

    def decode(self, path: str) -> np.ndarray:
        """Return the text of a file."""
        with open_file(path) as file:
            raw = file.read()
        try:
            text = raw.decode(self.encoding)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{error}; encoding= says how the texts are encoded, as in encoding='latin-1'"
            ) from None
        return np.array(text, np.dtypes.StringDType())


@dataclass(frozen=True)
class Arrays(Decoder):
    """Decodes arrays of NumPy; no pickle is loaded."""

    field: ClassVar[str] = "array"

    def header(self, path: str) -> Header:
        """Return what the header says, of which `open_npy` sees whether it can be true."""
        if isinstance(path, Member):
            with path.opened() as file:
                found = header_in(file, path, 0, len(file.getbuffer()))
            return Header(found.shape, found.dtype)
        source = open_npy(path, "r")
        return Header(source.shape, source.dtype)

    def decode(self, path: str) -> np.ndarray:
        """Return the array."""
        if isinstance(path, Member):
            with path.opened() as file:
                raw = file.getvalue()
                found = header_in(file, path, 0, len(raw))
            order: Literal["C", "F"] = "F" if found.fortran else "C"
            return np.ndarray(found.shape, found.dtype, raw, found.offset, order=order)
        source = open_npy(path, "r")
        return np.array(source.read(identity(source.shape), {}))
