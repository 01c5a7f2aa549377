"""The lines of a file that another program is still writing, as a stream."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np

from dataview.formats.texts.lines import MARKS, begun, check_encoding, cut
from dataview.formats.texts.text_bytes import START, encoding_of
from dataview.plan.build import stored
from dataview.plan.node import Node
from dataview.samples import ClosableSamples, Row, Stream
from dataview.sources import ArraySource, Opening, open_regular

PAUSE = 0.02
"""So many seconds pass before the end of the file is looked at again."""

BLOCK = 1 << 16
"""So many bytes are read at a time."""


def follow(path: str, seconds: Any, encoding: str | None = None, errors: str = "strict") -> Stream:
    """Return the lines of a file as a stream, which ends when no more come for so many seconds."""
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not is_number or not seconds >= 0:
        raise ValueError(
            "follow= is a number of seconds after which a file to which nothing was added counts "
            f"as complete, math.inf for never; got {seconds!r}"
        )
    check_encoding(encoding or "utf-8", errors)
    with open_regular(path):  # which must be there
        pass
    return Stream(Lines(Opening(path), float(seconds), encoding, errors), _text_node(""))


class Lines(ClosableSamples):
    """The lines of a file, which is looked at until nothing was added for so many seconds."""

    __slots__ = ("encoding", "errors", "seconds")
    finite = False
    restarts = True

    def __init__(self, opening: Opening, seconds: float, encoding: str | None, errors: str) -> None:
        super().__init__(opening)
        self.seconds, self.encoding, self.errors = seconds, encoding, errors

    def __reduce__(self) -> tuple[Any, ...]:
        return Lines, (self.opening, self.seconds, self.encoding, self.errors)

    def passing(self) -> Generator[Row, None, None]:
        """Return the lines from the first one on."""
        for line in _lines(self.opening, self.seconds, self.encoding, self.errors):
            yield Row(_text_node(line))


def _text_node(text: str) -> Node:
    cell = np.empty((), object)
    cell[()] = text
    return stored(ArraySource(cell), False)


def _lines(opening: Opening, seconds: float, encoding: str | None, errors: str) -> Iterator[str]:
    r"""Yield the lines of a file; what has no end yet waits for it.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"one\ntw"), file.flush()
    ...     [*_lines(Opening(file.name), 0, "utf-8", "strict")]
    ['one', 'tw']
    """
    path, rest, number = opening.path, b"", 0
    found: str | None = None
    with open_regular(path, buffering=0) as file:
        while block := _more(file, opening, seconds):
            rest += block
            if found is None:
                if _may_be_mark(rest):
                    continue
                found, start = _begun(path, rest, encoding)
                rest = rest[start:]
            whole, rest = cut(rest, found)
            for line in whole:
                number += 1
                yield _decoded(line, path, number, found, errors)
        if found is None:  # all that there is may be a mark
            found, start = _begun(path, rest, encoding)
            rest = rest[start:]
        if rest:
            yield _decoded(rest, path, number + 1, found, errors)


def _begun(path: str, start: bytes, encoding: str | None) -> tuple[str, int]:
    """Return the encoding of a file, which a mark says if none is given, and where text begins."""
    return begun(start, encoding_of(path, start[:START]) if encoding is None else encoding)


def _may_be_mark(start: bytes) -> bool:
    """Whether a file that begins so may begin with a mark of its encoding that is not whole yet."""
    marks = (mark for known in MARKS.values() for mark in known)
    return any(len(start) < len(mark) and mark.startswith(start) for mark in marks)


def _more(file: Any, opening: Opening, seconds: float) -> bytes:
    """Return what was added to a file, nothing if that takes too long."""
    until = time.monotonic() + seconds if seconds < math.inf else math.inf
    while not (block := file.read(BLOCK)):
        if os.fstat(file.fileno()).st_size < file.tell():
            raise ValueError(
                f"{opening.path} has become shorter while it was followed; open it again"
            )
        opening.check()
        if time.monotonic() >= until:
            return b""
        time.sleep(PAUSE)
    return bytes(block)


def _decoded(line: bytes, path: str, number: int, encoding: str, errors: str) -> str:
    try:
        return line.decode(encoding, errors).removesuffix("\r")
    except UnicodeError as error:
        raise ValueError(
            f"line {number} of {path} is no text in {encoding}: {error}; encoding= names another"
        ) from None
