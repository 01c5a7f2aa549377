"""Archives of files in folders, opened as the folder that they are unpacked to would be."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Collection
from typing import Any

import numpy as np

from dataview.formats.media.decoders import Member, suffixes_of
from dataview.formats.media.folders import IGNORED, Files, Found, suffix_of
from dataview.formats.media.members import Archive
from dataview.formats.media.opening import files_found, node_of_files
from dataview.plan.node import Node
from dataview.sources import in_order


class ArchivedFiles(Files):
    """Files in folders of an archive, below the folder `top`; `numbers` are theirs in it."""

    __slots__ = ("archive", "numbers")

    def __init__(self, archive: Archive, top: str, found: Found, suffixes: Collection[str]) -> None:
        super().__init__(archive.path, found.runs(suffixes), suffixes)
        self.archive = archive
        places = {name: number for number, name in enumerate(archive.names)}
        names = self.paths(np.arange(len(self)))
        self.numbers = np.array([places[f"{top}{name}"] for name in names], np.intp)

    def __reduce__(self) -> tuple[Any, ...]:
        return _found_again, (self.archive, self.suffixes)

    def path(self, number: int) -> str:
        """Return what stands for the path of a file."""
        return member(self.archive, int(self.numbers[number]))

    def where(self, number: int) -> str:
        """Return what a file is called in errors."""
        return self.archive.where(int(self.numbers[number]))


def _found_again(archive: Archive, suffixes: Collection[str]) -> ArchivedFiles:
    """Return the files of an archive that was unpickled, which is the same as before."""
    return ArchivedFiles(archive, *_folders(archive), suffixes)


def member(archive: Archive, number: int) -> Member:
    """Return what stands for the path of a file in an archive."""
    found = Member(archive.where(number))
    found.opened = functools.partial(_opened, archive, number)
    return found


def _opened(archive: Archive, number: int) -> io.BytesIO:
    return io.BytesIO(archive.bytes_of(number))


def are_in_folders(archive: Archive) -> bool:
    """Whether files that are decoded lie in folders, and no two files are of one row."""
    names = [name for name in archive.names if not is_ignored(name)]
    stems = {
        f"{folder}/{own.partition('.')[0]}"
        for folder, _, own in (name.rpartition("/") for name in names)
    }
    are_decoded = any("/" in name and suffix_of(name) in suffixes_of() for name in names)
    return are_decoded and len(stems) == len(names)


def open_folders(
    archive: Archive,
    kind: str | None,
    labels: str | None,
    headers: str,
    ragged: bool | None,
    options: dict[str, Any],
) -> Node:
    """Return the record of the files of a kind in an archive, with their labels and paths."""
    top, found = _folders(archive)
    listed = functools.partial(ArchivedFiles, archive, top, found)
    known = files_found(found, archive.path, kind, options, headers, listed)
    return node_of_files(known, archive.opening, labels, ragged, options)


def is_ignored(name: str) -> bool:
    """Whether systems put a file of this name into archives."""
    parts = name.split("/")
    return parts[0] == "__MACOSX" or parts[-1].startswith(".") or parts[-1].lower() in IGNORED


def _folders(archive: Archive) -> tuple[str, Found]:
    """Return the folder that all files lie in, if it has folders, and what is found below it."""
    names = [name for name in archive.names if not is_ignored(name)]
    folders = {name.rpartition("/")[0] for name in names}
    top = os.path.commonpath(folders) if "" not in folders else ""
    top = f"{top}/" if top and folders != {top} else ""
    found = Found({}, {})
    by_folder = {folder.removeprefix(top.rstrip("/")).lstrip("/"): folder for folder in folders}
    for folder in sorted(by_folder, key=lambda one: in_order(one) if one else []):
        found.names[folder] = {}
    for name in sorted((name.removeprefix(top) for name in names), key=in_order):
        folder, _, own = name.rpartition("/")
        suffix = suffix_of(own)
        if suffix in suffixes_of():
            found.names[folder].setdefault(suffix, []).append(own)
        else:
            found.others[suffix or own] = found.others.get(suffix or own, 0) + 1
    return top, found
