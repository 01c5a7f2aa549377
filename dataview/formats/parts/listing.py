"""The files of a folder that are parts of the same data, in the order of their numbers."""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from dataview.formats.texts import PACKED
from dataview.sources import (
    Place,
    There,
    files_at,
    folder_and_name,
    in_order,
    inside,
    is_url,
    look_at_all,
    shown,
)

_NUMBER = re.compile(r"([0-9]+)")
UNSEEN = -1
"""The size of a file elsewhere that nobody has looked at."""

MOST_TOLD = 5
"""So many kinds of files are named in an error."""


class File(NamedTuple):
    """A file: its name in the folder, and what tells whether it has changed."""

    name: str
    size: int
    time: int


class Listing(NamedTuple):
    """Files in a folder, which may be elsewhere; "" is the folder of files that share none."""

    folder: str
    files: tuple[File, ...]

    def path(self, number: int) -> str:
        """Return the path or the URL of a file."""
        return self.path_of(self.files[number])

    def path_of(self, file: File) -> str:
        """Return the path or the URL of a file."""
        return inside(self.folder, file.name)

    def only(self, numbers: range) -> Listing:
        """Return some of the files."""
        return self._replace(files=tuple(self.files[number] for number in numbers))

    @property
    def is_seen(self) -> bool:
        """Whether it is known of all files what tells them from other versions."""
        return all(file.size != UNSEEN for file in self.files)

    def seen(self, reach: Place) -> Listing:
        """Return the listing of the files as they are now; those elsewhere are asked for that."""
        if self.is_seen:
            return self
        found = look_at_all([reach._replace(url=self.path_of(file)) for file in self.files])
        known = zip(self.files, found, strict=True)
        return self._replace(files=tuple(_file_there(file.name, there) for file, there in known))


def listed(paths: str | Sequence[str], suffixes: Collection[str], reach: Place) -> Listing:
    """Return the parts in a folder, or the files that are named, by their paths or URLs.

    `suffixes` are those of the format that they have, if that is given; `reach` says how files
    elsewhere are reached.
    """
    if not isinstance(paths, str):
        return _of_paths(paths)
    if is_url(paths):
        found = files_at(reach._replace(url=paths))
        whole = _of_urls(found, [*found.values()])
        known = {file.name: file for file in whole.files}
        names = _of_parts(paths, known, suffixes)
        return whole._replace(files=tuple(map(known.__getitem__, names)))
    with os.scandir(paths) as entries:
        here = [one.name for one in entries if not one.is_dir()]
    files = map(functools.partial(_file_here, paths), _of_parts(paths, here, suffixes))
    return Listing(paths, tuple(filter(None, files)))


def _file_here(folder: str, name: str) -> File | None:
    """Return a file of a folder, None if it has been removed since the folder was listed."""
    path = os.path.join(folder, name)
    try:
        return file_at(path, name)
    except FileNotFoundError:
        if not os.path.islink(path):
            return None
        told = f"the part is a link to {os.readlink(path)}, where no file is; remove or mend it"
        raise FileNotFoundError(errno.ENOENT, told, path) from None


def _of_parts(folder: str, names: Iterable[str], suffixes: Collection[str]) -> list[str]:
    """Return in order the names of those files of a folder that are its parts."""
    own = [name for name in names if name[0] not in "._" and name != "dataview.json"]
    return _of_one_kind(shown(folder), own, tuple(suffixes))


def _of_paths(paths: Sequence[str]) -> Listing:
    """Return the files that are named, in this order; those elsewhere are not looked at."""
    if any(map(is_url, paths)):
        return _of_urls(paths, [There(UNSEEN, "")] * len(paths))
    folder = os.path.commonpath([os.path.dirname(path) for path in paths])
    return Listing(folder, tuple(file_at(path, os.path.relpath(path, folder)) for path in paths))


def _of_urls(urls: Collection[str], known: Sequence[There]) -> Listing:
    """Return files elsewhere, by their names in a folder if that is one for all of them."""
    placed = [folder_and_name(url) for url in urls]
    folders = {folder for folder, _ in placed}
    is_whole = all(inside(*where) == url for where, url in zip(placed, urls, strict=True))
    is_one = len(folders) == 1 and is_whole
    files = (
        _file_there(name if is_one else url, there)
        for (_, name), url, there in zip(placed, urls, known, strict=True)
    )
    return Listing(folders.pop() if is_one else "", tuple(files))


def _file_there(name: str, there: There) -> File:
    return File(name, there.size, _number(there.version))


def _number(version: str) -> int:
    """Return a number that stands for a version, as a time does for a file of this machine."""
    return int.from_bytes(hashlib.sha256(version.encode()).digest()[:7])


def file_at(path: str, name: str) -> File:
    """Return what tells the file at a path, which has a name among others, from another one."""
    told = os.stat(path)
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
    return os.path.splitext(stem)[1] + last if last in (*PACKED, ".zip") else last


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
