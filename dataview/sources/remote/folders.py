"""Which files there are elsewhere: in a folder, below it, or with names of a pattern."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from dataview.sources.file_access import in_order
from dataview.sources.remote.places import AT_ONCE, Place, WholeOnly, attempted, info_of, version_in
from dataview.sources.remote.urls import in_pieces, inside, is_url, is_web, shown
from dataview.sources.remote.web import look_at_web

MARKS = "*["
"""The signs that make a URL a pattern; "?" may begin the options of one."""


class There(NamedTuple):
    """What is known of a file elsewhere without opening it; `size` is 0 if that is not told."""

    size: int
    version: str


def is_pattern(url: str) -> bool:
    """Whether a URL names several files; web servers cannot be asked for these.

    >>> is_pattern("s3://bucket/part-*.npy"), is_pattern("https://host/a*.npy")
    (True, False)
    """
    return not is_web(url) and any(mark in in_pieces(url)[1] for mark in MARKS)


def files_at(place: Place, find: str = "ls") -> dict[str, There]:
    """Return the files in a folder by their URLs; with "find" those below it, too.

    With "glob" the URL is a pattern, and those are returned whose names fit.

    >>> import fsspec
    >>> fsspec.filesystem("memory").pipe({"/files_at/a": b"abc", "/files_at/b/c": b""})
    >>> place = Place("memory://files_at")
    >>> list(files_at(place)), list(files_at(place, "find"))
    (['memory://files_at/a'], ['memory://files_at/a', 'memory://files_at/b/c'])
    >>> list(files_at(Place("memory://files_at/*/c"), "glob"))
    ['memory://files_at/b/c']
    >>> fsspec.filesystem("memory").rm("/files_at", recursive=True)
    """
    if is_web(place.url):
        raise ValueError(
            f"web servers do not list the files of a folder, such as {shown(place.url)}; give the "
            "URLs of the files: dv.open([url, …], layout='parts')"
        )
    scheme, path, archive = in_pieces(place.url)
    folder = f"{scheme}{_above_marks(path)}{archive}" if find == "glob" else place.url

    def look(system: Any, path: str) -> dict[str, There]:
        system.invalidate_cache()
        found = getattr(system, find)(path, detail=True)
        entries = list(found.values() if isinstance(found, Mapping) else found)
        root = (_above_marks(path) if find == "glob" else path).strip("/")
        names = [one["name"].strip("/")[len(root) :].lstrip("/") for one in entries]
        if names == [""]:
            told = "it is a file, and the files of a folder are wanted"
            raise NotADirectoryError(errno.ENOTDIR, told, shown(place.url))
        return {
            inside(folder, name): _there(one)
            for name, one in zip(names, entries, strict=True)
            if name and one["type"] != "directory"
        }

    return attempted(place, look)


def names_below(place: Place) -> list[str]:
    """Return the names of the files in a folder and below it, from the folder on, in order."""
    start, end = inside(place.url, "\0").split("\0")
    names = [url[len(start) : len(url) - len(end)] for url in files_at(place, "find")]
    return sorted(names, key=in_order)


def look_at_all(places: Sequence[Place]) -> list[There]:
    """Return what is known of files, here or elsewhere, or raise if one is not there."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(_look_at, places))


def _look_at(place: Place) -> There:
    if not is_url(place.url):
        here = os.stat(place.url)
        return There(here.st_size, str(here.st_mtime_ns))
    if not is_web(place.url):
        size, version = attempted(place, lambda system, path: info_of(system, path, place.url))
        return There(size or 0, version)
    try:
        return There(*look_at_web(place, 1)[1:])
    except WholeOnly:
        return There(0, "")


def _there(info: Mapping[str, Any]) -> There:
    return There(info.get("size") or 0, version_in(info))


def _above_marks(pattern: str) -> str:
    """Return the folder of a pattern above the first sign that stands for several names.

    >>> _above_marks("a/b-*/c"), _above_marks("*.npy")
    ('a', '')
    """
    first = min(pattern.find(mark) for mark in MARKS if mark in pattern)
    return pattern[:first].rpartition("/")[0]
