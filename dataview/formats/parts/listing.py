"""The files of a folder that are parts of the same data, in the order of their numbers."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from dataview.sources import in_order

_NUMBER = re.compile(r"([0-9]+)")
_PACKED = (".gz", ".zip")
MOST_TOLD = 5
"""So many kinds of files are named in an error."""


class File(NamedTuple):
    """A file: its name in the folder, and what tells whether it has changed."""

    name: str
    size: int
    time: int


class Listing(NamedTuple):
    """Files in a folder; `names` are those that were asked for, None if all are."""

    folder: str
    files: tuple[File, ...]
    names: tuple[str, ...] | None = None

    def path(self, number: int) -> str:
        """Return the path of a file."""
        return os.path.join(self.folder, self.files[number].name)

    def only(self, numbers: range) -> Listing:
        """Return some of the files."""
        return self._replace(files=tuple(self.files[number] for number in numbers))


def listed(paths: str | Sequence[str], suffixes: Collection[str] = ()) -> Listing:
    """Return the parts in a folder, or the files that are named.

    `suffixes` are those of the format that they have, if that is given.
    """
    if not isinstance(paths, str):
        folder = os.path.commonpath([os.path.dirname(path) for path in paths])
        names = tuple(os.path.relpath(path, folder) for path in paths)
        files = tuple(_file(name, os.stat(os.path.join(folder, name))) for name in names)
        return Listing(folder, files, names)
    with os.scandir(paths) as entries:
        shown = [one for one in entries if one.name[0] not in "._" and not one.is_dir()]
    parts = {one.name: one for one in shown if one.name != "dataview.json"}
    names = tuple(_of_one_kind(paths, [*parts], tuple(suffixes)))
    return Listing(paths, tuple(_file(name, parts[name].stat()) for name in names))


def _file(name: str, told: os.stat_result) -> File:
    return File(name, told.st_size, told.st_mtime_ns)


def _of_one_kind(folder: str, names: Sequence[str], suffixes: tuple[str, ...]) -> list[str]:
    """Return the names of parts in order: those of a format, or else those with numbers."""
    if suffixes and (own := [name for name in names if name.lower().endswith(suffixes)]):
        return sorted(own, key=in_order)
    chosen = [name for name in names if _NUMBER.search(name)] or names
    kinds = sorted({_suffix(name) for name in chosen})
    if not kinds:
        raise ValueError(
            f"{folder} has no files, so that there are no parts; files in folders below are none"
        )
    if len(kinds) > 1:
        told = ", ".join(one or "without a suffix" for one in kinds[:MOST_TOLD])
        raise ValueError(
            f"parts are files of one format, and {folder} has several: {told}; format= says "
            "which of them are the parts"
        )
    return sorted(chosen, key=in_order)


def _suffix(name: str) -> str:
    """Return the suffix of a name, with that below the one of a packed file.

    >>> _suffix("a.CSV.gz"), _suffix("part-00001"), _suffix("a.npy")
    ('.csv.gz', '', '.npy')
    """
    stem, last = os.path.splitext(name.lower())
    return os.path.splitext(stem)[1] + last if last in _PACKED else last


def has_numbered_arrays(folder: str) -> bool:
    """Whether arrays stand in a folder, and in none below it, whose names differ by numbers alone.

    Of a folder that was saved it is known what they are.
    """
    with os.scandir(folder) as entries:
        shown = [one for one in entries if not one.name.startswith(".")]
    if any(one.is_dir() or one.name == "dataview.json" for one in shown):
        return False
    return is_numbered(one.name for one in shown if one.name.endswith(".npy"))


def is_numbered(names: Iterable[str]) -> bool:
    """Whether there are several names, which differ by numbers alone.

    >>> is_numbered(["part-00.npy", "part-01.npy"]), is_numbered(["x.npy", "y.npy"])
    (True, False)
    """
    own = list(names)
    patterns = {_NUMBER.sub("0", name) for name in own}
    return len(own) > 1 and len(patterns) == 1
