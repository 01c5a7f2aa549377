"""Ranges of bytes read from wherever a file is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dataview.sources.file_access import open_regular
from dataview.sources.remote.places import Place, read_from_place
from dataview.sources.remote.runs import WHOLE, Range, Run, beyond, checked, coalesced, parts_of
from dataview.sources.remote.urls import is_url, is_web, local_path
from dataview.sources.remote.web import read_from_web

GAP = 1 << 16
"""Up to so many bytes between two ranges are brought with them: to ask twice takes longer."""


def read_ranges(
    url: str | os.PathLike[str],
    ranges: Iterable[Range] | None = None,
    *,
    gap: int = GAP,
    timeout: float = 30.0,
    deadline: float = 10.0,
    storage_options: Mapping[str, Any] | None = None,
) -> list[bytes]:
    """Return the bytes of each range (offset, length) of a file, or with None all, as one.

    The file has a path, or a URL: web servers are asked directly, all other places through fsspec,
    for which `storage_options` are.  Ranges with up to `gap` bytes between them are asked for
    together.  A request that fails is repeated until nothing has arrived for `deadline` seconds;
    `timeout` is how many seconds a server may be silent.  Nothing stays open.

    >>> import fsspec
    >>> fsspec.filesystem("memory").pipe("/read_ranges", b"abcdefgh")
    >>> read_ranges("memory://read_ranges", [(6, 2), (0, 1)])
    [b'gh', b'a']
    >>> read_ranges("memory://read_ranges")
    [b'abcdefgh']
    >>> fsspec.filesystem("memory").rm("/read_ranges")
    """
    place = Place(os.fsdecode(url), storage_options, timeout, deadline)
    return [read_all(place)] if ranges is None else read_from(place, ranges, gap)


def read_all(place: Place) -> bytes:
    """Return the bytes of a file at a place."""
    return _read(place, [WHOLE])[0]


def read_from(place: Place, ranges: Iterable[Range], gap: int = GAP) -> list[bytes]:
    """Return the bytes of ranges of a file at a place, by as few requests as there are runs."""
    asked = checked(ranges)
    runs = coalesced(asked, gap)
    return parts_of(asked, runs, _read(place, runs) if runs else [])


def _read(place: Place, runs: Sequence[Run]) -> list[bytes]:
    path = local_path(place.url) if is_url(place.url) else place.url
    if path is not None:
        return _read_here(path, runs)
    if is_web(place.url):
        return read_from_web(place, runs)
    return read_from_place(place, runs)


def _read_here(path: str, runs: Sequence[Run]) -> list[bytes]:
    found: list[bytes] = []
    with open_regular(path) as file:
        for run in runs:
            if run is WHOLE:
                found.append(file.read())
                continue
            file.seek(run[0])
            found.append(file.read(run[1] - run[0]))
            if file.tell() < run[1]:
                raise beyond(path, os.fstat(file.fileno()).st_size, run)
    return found
