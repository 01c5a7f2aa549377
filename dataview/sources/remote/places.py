"""Files in the file systems of fsspec, and how they are reached."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dataview.errors import import_library
from dataview.sources.remote.attempts import BrokenOff, repeated
from dataview.sources.remote.runs import WHOLE, Run, beyond
from dataview.sources.remote.urls import shown

AT_ONCE = 8
"""So many requests wait for a server at a time."""

PASSING = (errno.EIO, errno.EBUSY, getattr(errno, "EREMOTEIO", errno.EIO))
"""What file systems say of a server that may answer a later attempt."""

OF_LIBRARIES = ("ConnectionError", "HTTPClientError", "ClientConnectionError", "ClientPayloadError")
"""Names of errors that libraries raise for connections, and that are none of Python's own."""


class Place(NamedTuple):
    """A file that is elsewhere, and how it is reached."""

    url: str
    options: Mapping[str, Any] | None = None
    timeout: float = 30.0
    deadline: float = 10.0


def read_from_place(place: Place, runs: Sequence[Run]) -> list[bytes]:
    """Return the bytes of runs of a file that fsspec reaches."""
    try:
        return repeated(lambda: _read(place, runs), place_may_pass, place.deadline)
    except Exception as error:  # of a file system, which does not know the URL
        error.add_note(f"while {shown(place.url)} was read")
        raise


def _read(place: Place, runs: Sequence[Run]) -> list[bytes]:
    fsspec = import_library("fsspec", "dataview[remote]")
    # fsspec keeps what it has opened, for each process and thread; an archive stays open with that.
    kind = fsspec.get_filesystem_class(place.url.partition("::")[0].partition("://")[0])
    is_archive = hasattr(kind, "close")
    options = {"skip_instance_cache": True} if is_archive else {}
    system, path = fsspec.core.url_to_fs(place.url, **options, **(place.options or {}))
    try:
        found = (
            _by_requests(system, path, runs) if system.async_impl else _by_file(system, path, runs)
        )
        for run, data in zip(runs, found, strict=True):
            if run is not WHOLE and len(data) != run[1] - run[0]:
                raise _short(system, path, place, run, len(data))
        return found
    finally:
        if is_archive:
            system.close()


def _by_requests(system: Any, path: str, runs: Sequence[Run]) -> list[bytes]:
    """Return the bytes of runs, by requests that wait together."""
    if runs[0] is WHOLE:
        return [system.cat_file(path)]
    starts, stops = zip(*runs, strict=True)
    found: list[bytes] = system.cat_ranges(
        [path] * len(runs), list(starts), list(stops), on_error="raise", batch_size=AT_ONCE
    )
    return found


def _by_file(system: Any, path: str, runs: Sequence[Run]) -> list[bytes]:
    """Return the bytes of runs, by one file that is read from its beginning to its end."""
    found = []
    with system.open(path, "rb", cache_type="none") as file:
        for run in runs:
            if run is WHOLE:
                found.append(file.read())
            else:
                file.seek(run[0])
                found.append(file.read(run[1] - run[0]))
    return found


def _short(system: Any, path: str, place: Place, run: Run, got: int) -> Exception:
    """Return the error for missing bytes: the file does not have them, or they have not come."""
    size = system.info(path).get("size")
    if isinstance(size, int) and size < run[1]:
        return beyond(shown(place.url), size, run)
    return BrokenOff(f"{got} bytes have arrived in place of {run[1] - run[0]}")


def place_may_pass(error: Exception) -> bool:
    """Whether a later attempt may succeed."""
    if isinstance(error, OSError):
        return isinstance(error, (ConnectionError, TimeoutError)) or error.errno in PASSING
    return any(kind.__name__ in OF_LIBRARIES for kind in type(error).__mro__)
