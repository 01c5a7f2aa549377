"""Lists of files: a line names a file, and perhaps labels of it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.errors import shortened
from dataview.sources import open_regular

COMMENT = "#"

_LABEL = re.compile(r'"([^"]*)"|([^\s,]+)')
"""A label: in quotes, or up to a space or a comma."""


class Listed:
    """Files by the paths that a list has, from a folder on, and their labels.

    `key` is what reads the list again; `lines` are where the files stand in it.
    """

    __slots__ = ("key", "labels", "lines", "names")

    def __init__(
        self, key: Key, names: Sequence[str], lines: Sequence[int], labels: np.ndarray | None
    ) -> None:
        self.key = key
        self.names = names
        self.lines = lines
        self.labels = labels

    def __len__(self) -> int:
        return len(self.names)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_read_again, tuple(self.key)) if self.key.path else (alone, (self.path(0),))

    def path(self, number: int) -> str:
        """Return the path of a file."""
        return os.path.join(self.key.root, self.names[number])

    def where(self, number: int) -> str:
        """Return what a file is called in errors: its path, and the line that names it."""
        if not self.key.path:
            return self.path(number)
        return f"{self.path(number)} (line {self.lines[number]} of {self.key.path})"

    def paths(self, numbers: np.ndarray) -> list[str]:
        """Return the paths of files as the list has them."""
        return [self.names[number] for number in numbers.tolist()]

    def label_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return the labels of files."""
        assert self.labels is not None
        return np.asarray(self.labels[numbers])


class Key(NamedTuple):
    """What reads a list again: its path and options, and what tells its bytes from others."""

    path: str
    root: str
    separator: str | None = None
    suffixes: frozenset[str] = frozenset()
    digest: bytes = b""


def alone(path: str) -> Listed:
    """Return one file that no list names."""
    return Listed(Key("", os.path.dirname(path)), [os.path.basename(path)], [0], None)


def read_list(path: str, root: str, separator: str | None, suffixes: Collection[str]) -> Listed:
    """Return the files that the lines of a text name; an error names the line.

    A path stands in quotes, or ends with one of the suffixes.
    """
    with open_regular(path) as file:
        raw = file.read()
    names: list[str] = []
    lines: list[int] = []
    labels: list[list[str]] = []
    split = _Splitter(separator, suffixes)
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").splitlines(), 1):
        try:
            text = line.decode().strip()
            if not text or text.startswith(COMMENT):
                continue
            name, own = split(text)
            _check_inside(name, root)
            if labels and len(own) != len(labels[0]):
                raise ValueError(
                    f"it has {len(own)} labels, and line {lines[0]} has {len(labels[0])}; all "
                    "lines have as many, and a path with spaces stands in quotes"
                )
        except ValueError as error:
            raise ValueError(f"line {number} of {path}: {error}") from error
        names.append(name)
        lines.append(number)
        labels.append(own)
    if not names:
        raise ValueError(f"{path} names no files; a line is a path, and labels behind it")
    digest = hashlib.blake2b(raw, digest_size=16).digest()
    key = Key(path, root, separator, frozenset(suffixes), digest)
    return Listed(key, names, lines, _as_array(labels))


def _read_again(
    path: str, root: str, separator: str | None, suffixes: frozenset[str], digest: bytes
) -> Listed:
    """Return the files of a list that a pickle names."""
    found = read_list(path, root, separator, suffixes)
    if found.key.digest != digest:
        raise ValueError(f"{path} was changed since the view was pickled; open it again")
    return found


class _Splitter:
    """Splits a line into a path and labels."""

    def __init__(self, separator: str | None, suffixes: Collection[str]) -> None:
        self.separator = separator
        ends = "|".join(map(re.escape, sorted(suffixes)))
        self.path = re.compile(rf"(.*?(?:{ends}))(?=[\s,]|$)", re.IGNORECASE)

    def __call__(self, line: str) -> tuple[str, list[str]]:
        """Return path and labels of a line, or raise."""
        if self.separator is not None:
            name, *labels = (part.strip() for part in line.split(self.separator))
            return name, labels
        if line.startswith('"'):
            name, quote, rest = line[1:].partition('"')
            if not quote:
                raise ValueError(f"a quote is not closed: {shortened(line)}")
        elif found := self.path.match(line):
            name, rest = found[1], line[found.end() :]
        else:
            raise ValueError(
                "no path was found, which ends as a file that can be decoded, or stands in "
                f"quotes; separator= splits lines otherwise; got {shortened(repr(line))}"
            )
        return name, [quoted or plain for quoted, plain in _LABEL.findall(rest)]


def _check_inside(name: str, root: str) -> None:
    """Raise if a path leaves the folder that the paths begin at."""
    place = os.path.normpath(os.path.join(root, name))
    own = os.path.normpath(root)
    if not name or "\0" in name or not place.startswith(own.rstrip(os.sep) + os.sep):
        raise ValueError(
            f"the path {shortened(repr(name))} leaves the folder {root}; root= gives the folder "
            "that the paths begin at, as in root='/' for paths to anywhere"
        )


def _as_array(labels: Sequence[Sequence[str]]) -> np.ndarray | None:
    """Return labels as an array, of integers if all of them are, None if there are none."""
    count = len(labels[0])
    if not count:
        return None
    flat = [label for own in labels for label in own]
    found = np.array(flat)
    if all(map(_is_number, dict.fromkeys(flat))):
        found = np.array([int(label) for label in flat], "i8")
    return found if count == 1 else found.reshape(-1, count)


def _is_number(text: str) -> bool:
    """Whether a label is an integer as it is written; 007 is a name.

    >>> _is_number("-7"), _is_number("007"), _is_number("n0144")
    (True, False, False)
    """
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19 and str(int(text)) == text
