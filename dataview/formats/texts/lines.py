"""Lines of text: each is an element of an array of texts, read where it is in the file."""

from __future__ import annotations

import codecs
import itertools
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from dataview.errors import shortened
from dataview.formats.handles import Claim
from dataview.formats.tables.column_nodes import column_node
from dataview.formats.tables.columns import Column, Kind, Name, Table
from dataview.formats.tables.schema import joined
from dataview.formats.texts.text_bytes import LineGroups, TextBytes, encoding_of
from dataview.plan.node import Node
from dataview.sources import FileState

UNITS = {
    "utf-16-le": "<u2", "utf-16-be": ">u2", "utf-32-le": "<u4", "utf-32-be": ">u4",
}  # fmt: skip
"""Encodings in which the end of a line is no byte of its own, and the numbers that they are of."""

MARKS = {
    "utf-8": {codecs.BOM_UTF8: "utf-8"},
    "utf-8-sig": {codecs.BOM_UTF8: "utf-8", b"": "utf-8"},
    "utf-16": {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"},
    "utf-32": {codecs.BOM_UTF32_LE: "utf-32-le", codecs.BOM_UTF32_BE: "utf-32-be"},
}
"""What files may begin with that is no text, and the encoding that it says."""

LINE: Name = ("line",)
TEXTS = Kind(np.dtype(object))


def open_lines(
    path: str | Sequence[str],
    mode: str,
    claim: Claim | None = None,
    encoding: str | None = None,
    errors: str = "strict",
) -> Node:
    """Return the node of the lines of a file, or of several, one after the other.

    The ends of lines are looked for.  Without an encoding it is the one that a file begins with the
    mark of, or else UTF-8.
    """
    paths = [path] if isinstance(path, str) else path
    if mode != "r":
        raise ValueError(
            f"{', '.join(paths)}: lines of text cannot be changed in place; open it with mode 'r'; "
            f"got {mode!r}"
        )
    parts = [(LineTable(one, claim, encoding, errors), {LINE: TEXTS}) for one in paths]
    return column_node(joined(f"{len(paths)} files", parts)[0], LINE, TEXTS)


class LineTable(Table):
    """The lines of a file as a table of one column."""

    joins_groups = True

    def __init__(
        self,
        path: str,
        claim: Claim | None,
        encoding: str | None,
        errors: str,
        told: FileState | None = None,
    ) -> None:
        self.options = encoding, errors
        check_encoding("utf-8" if encoding is None else encoding, errors)
        self.raw = TextBytes(path, claim, told)
        known = encoding_of(path, self.raw.start) if encoding is None else encoding
        self.encoding, start = begun(self.raw.start, known)
        self.errors = errors
        groups = LineGroups(start)
        for place, _, ends in self.raw.lines(unit_of(self.encoding), start):
            groups.add(place, ends)
        self.places, starts, _ = groups.arrays()
        super().__init__(os.path.basename(path), starts)

    def __reduce__(self) -> tuple[Any, ...]:
        return LineTable, (self.raw.path, self.raw.opening.held, *self.options, self.raw.state)

    def read(self, names: Collection[Name], first: int, stop: int) -> Mapping[Name, Column]:
        """Return the lines of some groups."""
        raw = self.raw.read(int(self.places[first]), int(self.places[stop]))
        count = int(self.starts[stop] - self.starts[first])
        found = np.empty(count, object)
        try:
            lines = _split(raw.decode(self.encoding, self.errors))
            if len(lines) != count:  # an error handler may make or lose ends of lines
                raise UnicodeError(f"there would be {len(lines)} lines in place of {count}")
        except UnicodeError:
            lines = self._one_by_one(raw, int(self.starts[first]) + 1)
        found[:] = lines
        return {LINE: Column(found)}

    def _one_by_one(self, raw: bytes, number: int) -> list[str]:
        """Return the lines of bytes, of which some may break the encoding."""
        unit = unit_of(self.encoding)
        units = np.frombuffer(raw, unit, len(raw) // unit.itemsize)
        ends = (np.flatnonzero(units == 10) + 1) * unit.itemsize
        cuts = sorted({0, *ends.tolist(), len(raw)})
        found = []
        for line, (start, stop) in enumerate(itertools.pairwise(cuts), number):
            try:
                text = raw[start:stop].decode(self.encoding, self.errors)
            except UnicodeError as error:
                raise ValueError(
                    f"line {line} of {self.raw.path} is no text in {self.encoding}: "
                    f"{shortened(str(error))}; encoding= names another, and errors='replace' "
                    "reads on"
                ) from None
            found.append(text.removesuffix("\n").removesuffix("\r"))
        return found

    @property
    def is_closed(self) -> bool:
        """Whether the file was closed."""
        return self.raw.opening.is_closed

    def check(self) -> None:
        """Raise if the file was closed, or has changed."""
        self.raw.check()

    def close(self) -> None:
        """Close the file."""
        super().close()
        self.raw.close()


def _split(text: str) -> list[str]:
    r"""Return lines without their ends.

    >>> _split("a\r\n\nb"), _split("a\n"), _split("")
    (['a', '', 'b'], ['a'], [])
    """
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


# --- encodings -----------------------------------------------------------------------------------


def check_encoding(encoding: str, errors: str) -> None:
    """Raise if there is no such encoding, or it says otherwise where lines end."""
    try:
        codecs.lookup_error(errors)
        line_end = "\n".encode(encoding)
    except (LookupError, TypeError) as error:
        raise ValueError(f"encoding= and errors= are Python's: {error}") from None
    if line_end != b"\n" and name_of(encoding) not in {*UNITS, *MARKS}:
        raise ValueError(
            f"lines of the encoding {encoding!r} end otherwise than those of ASCII, UTF-16 and "
            "UTF-32, and only these are looked for"
        )


def name_of(encoding: str) -> str:
    """Return the name that Python has for an encoding."""
    return codecs.lookup(encoding).name


def unit_of(encoding: str) -> np.dtype[Any]:
    """Return the dtype of the numbers of which one, 10, ends a line."""
    return np.dtype(UNITS.get(name_of(encoding), "u1"))


def cut(raw: bytes, encoding: str) -> tuple[list[bytes], bytes]:
    r"""Return the lines of bytes without their ends, and what has no end yet.

    >>> cut(b"a\nb", "utf-8"), cut("\u0a0a\nb".encode("utf-16-le"), "utf-16-le")
    (([b'a'], b'b'), ([b'\n\n'], b'b\x00'))
    """
    unit = unit_of(encoding)
    units = np.frombuffer(raw, unit, len(raw) // unit.itemsize)
    ends = (np.flatnonzero(units == 10) * unit.itemsize).tolist()
    starts = [0, *(end + unit.itemsize for end in ends)]
    return [raw[slice(*one)] for one in zip(starts, ends, strict=False)], raw[starts[-1] :]


def begun(start: bytes, encoding: str) -> tuple[str, int]:
    """Return the encoding that the first bytes of a file say, and where its text begins."""
    marks = MARKS.get(name_of(encoding), {})
    for mark, found in marks.items():
        if mark and start.startswith(mark):
            return found, len(mark)
    if name_of(encoding) in ("utf-16", "utf-32") and start:
        return name_of(encoding) + "-le", 0
    return ("utf-8" if b"" in marks else encoding), 0
