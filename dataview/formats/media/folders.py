"""The files of a folder: found, put in order, and named by their numbers.

A folder may have very many files, so nothing is done for each of them that can be done for all of
them together: their paths are put together when they are asked for.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.formats.contents import DEEPEST
from dataview.sources import names_in_order

IGNORED = frozenset({"thumbs.db", "desktop.ini"})
"""What systems put beside files; names that begin with a dot are passed over, too."""

LABELS = ("first", "last", None)
"""Which folder on the way to a file is its label."""


class Files:
    """Files below a folder, `root`: `names`, of which each folder has a run.

    `starts` are where the runs begin.  `suffixes` are those of the files that were looked for.
    """

    __slots__ = ("folders", "names", "root", "starts", "suffixes")

    def __init__(
        self, root: str, runs: Sequence[tuple[str, Sequence[str]]], suffixes: Collection[str]
    ) -> None:
        self.root = root
        self.suffixes = frozenset(suffixes)
        self.folders = [folder for folder, _ in runs]
        self.names = [*itertools.chain.from_iterable(names for _, names in runs)]
        self.starts = np.cumsum([0, *(len(names) for _, names in runs)])

    def __len__(self) -> int:
        return len(self.names)

    def __reduce__(self) -> tuple[Any, ...]:
        return listed_again, (self.root, self.suffixes, self.digest())

    def runs(self) -> Iterator[tuple[str, list[str]]]:
        """Return each folder with the names of its files."""
        for number, folder in enumerate(self.folders):
            yield folder, self.names[self.starts[number] : self.starts[number + 1]]

    def digest(self) -> bytes:
        """Return what tells these files from others, by their names."""
        seen = hashlib.blake2b(digest_size=16)
        for folder, names in self.runs():
            seen.update("\0".join([folder, *names, ""]).encode(errors="surrogateescape"))
        return seen.digest()

    def path(self, number: int) -> str:
        """Return the path of a file."""
        return os.path.join(self.root, self.paths(np.array([number]))[0])

    def where(self, number: int) -> str:
        """Return what a file is called in errors."""
        return self.path(number)

    def paths(self, numbers: np.ndarray) -> list[str]:
        """Return the paths of files from the folder on, in which '/' stands between names."""
        places = self._folders_of(numbers).tolist()
        return [
            f"{self.folders[place]}/{self.names[number]}".lstrip("/")
            for place, number in zip(places, numbers.tolist(), strict=True)
        ]

    def labels(self, which: str, numbers: np.ndarray) -> np.ndarray:
        """Return the labels of files: the first folder on the way to each, or the last."""
        return np.asarray(self.all_labels(which)[self._folders_of(numbers)])

    def all_labels(self, which: str) -> np.ndarray:
        """Return the label of each folder."""
        end = 0 if which == "first" else -1
        return np.array([folder.split("/")[end] for folder in self.folders])

    def longest_path(self) -> int:
        """Return how many characters the paths have at most."""
        longest = (
            len(folder) + bool(folder) + max(map(len, names)) for folder, names in self.runs()
        )
        return max(longest, default=1)

    def _folders_of(self, numbers: np.ndarray) -> np.ndarray:
        return np.asarray(self.starts.searchsorted(numbers, "right") - 1)


def listed_again(root: str, suffixes: frozenset[str], digest: bytes) -> Files:
    """Return the files of a folder, which a pickle names by what tells them from others."""
    found = Files(root, found_in(root, suffixes).runs(suffixes), suffixes)
    if found.digest() != digest:
        raise ValueError(
            f"other files are in {root} than when the view was pickled; open the folder again"
        )
    return found


class Found(NamedTuple):
    """What was found below a folder: by folder and suffix the names of files.

    `others` tells how many files there are of each suffix that was not looked for.
    """

    names: dict[str, dict[str, list[str]]]
    others: dict[str, int]

    def counts(self) -> dict[str, int]:
        """Return how many files there are of each suffix."""
        found: dict[str, int] = {}
        for own in self.names.values():
            for suffix, names in own.items():
                found[suffix] = found.get(suffix, 0) + len(names)
        return found

    def runs(self, suffixes: Collection[str]) -> list[tuple[str, list[str]]]:
        """Return the folders with their files that have one of these suffixes, in order."""
        every = (
            (folder, [own[suffix] for suffix in own if suffix in suffixes])
            for folder, own in self.names.items()
        )
        return [
            (folder, parts[0] if len(parts) == 1 else names_in_order([*itertools.chain(*parts)]))
            for folder, parts in every
            if parts
        ]


def found_in(root: str, suffixes: Collection[str]) -> Found:
    """Return the files with these suffixes below a folder, and what others there are.

    The files of a folder come before those of the folders in it; both are in the order of names, in
    which numbers count as such.
    """
    found = Found({}, {})
    for folder, names, others in walked(root, suffixes):
        own = {suffix: _shown(names[suffix]) for suffix in names}
        found.names[folder] = {suffix: shown for suffix, shown in own.items() if shown}
        for name in others:
            suffix = suffix_of(name) or name
            found.others[suffix] = found.others.get(suffix, 0) + 1
    return found


def walked(
    root: str, suffixes: Collection[str]
) -> Iterator[tuple[str, dict[str, list[str]], list[str]]]:
    """Yield each folder, the names in it by these suffixes, and the names of other files.

    What has one of the suffixes is taken for a file: nobody is asked what each of very many files
    is.  A link to a folder above it is not followed.
    """
    waiting: list[tuple[str, tuple[str, ...]]] = [("", (os.path.realpath(root),))]
    while waiting:
        folder, above = waiting.pop()
        place = os.path.join(root, folder)
        known, others = _by_suffix(os.listdir(place), suffixes)
        others = names_in_order([name for name in others if not _is_ignored(name)])
        inside = {name: None for name in others if os.path.isdir(os.path.join(place, name))}
        yield folder, known, [name for name in others if name not in inside]
        for name in reversed(inside):
            inner = os.path.realpath(os.path.join(place, name))
            if inner not in above and len(above) <= DEEPEST:
                waiting.append((f"{folder}/{name}".lstrip("/"), (*above, inner)))


def _by_suffix(
    names: list[str], suffixes: Collection[str]
) -> tuple[dict[str, list[str]], list[str]]:
    """Return the names by these suffixes, and the others.

    Most often all files are of one kind, which one search in all of the names shows.
    """
    suffix = suffix_of(names[0]) if names else ""
    if suffix in suffixes and "\0".join([*names, ""]).count(f"{suffix}\0") == len(names):
        return {suffix: names}, []
    known: dict[str, list[str]] = {}
    others: list[str] = []
    for name in names:
        suffix = suffix_of(name)
        (known.setdefault(suffix, []) if suffix in suffixes else others).append(name)
    return known, others


def suffix_of(name: str) -> str:
    """Return the suffix of a name, in small letters.

    >>> suffix_of("Photo.JPG"), suffix_of("README")
    ('.jpg', '')
    """
    place = name.rfind(".")
    return name[place:].lower() if place >= 0 else ""


def _shown(names: list[str]) -> list[str]:
    """Return names in order, without those that begin with a dot."""
    if "\0." in "\0".join(["", *names]):
        names = [name for name in names if not name.startswith(".")]
    return names_in_order(names)


def _is_ignored(name: str) -> bool:
    return name.startswith(".") or name.lower() in IGNORED
