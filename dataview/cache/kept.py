"""Copies of remote files: so many bytes of them, of which the least recently used go first.

A copy that somebody uses stays: who uses one has a shared lock on it, which the system takes back
from a process that ends.
"""

from __future__ import annotations

import datetime
import errno
import json
import os
import pathlib
import shutil
import sys
import time
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from dataview.cache.making import alone, new_at, put, remove, sweep
from dataview.cache.root import folder_at, root
from dataview.cache.transfer import Request, Stamp, Unchanged, fetch
from dataview.errors import warn
from dataview.index import is_integer
from dataview.sources import WEB, file_name, key_of, local_path, scheme_of, shown
from dataview.write import lock

if sys.platform != "win32":
    import fcntl

ABOUT = "about.json"
"""The file beside a copy that says what it is; its time is that of the last use."""

SILENCE, PATIENCE = 10.0, 2.0
"""How long a server may be silent, and is asked again, in seconds, if there is a copy already."""


# --- how much is kept --------------------------------------------------------------------------


class _Limit:
    """How many bytes are kept, and up to which part the disk may be full."""

    bytes, disk = 64 << 30, 0.8


_limit = _Limit()


def set_limit(bytes: int | None = None, disk: float | None = None) -> None:
    """Limit the copies from now on: to so many bytes in all, and a used share of the disk.

    With None, the limits are 64 GB and 0.8 of the disk.  Copies are removed when the next file is
    fetched.  A file is fetched even if other files fill the disk beyond the limit.
    """
    if bytes is not None and (not is_integer(bytes) or bytes < 0):
        raise ValueError(f"set_limit: bytes is a number of bytes; got {bytes!r}")
    is_part = isinstance(disk, (int, float)) and not isinstance(disk, bool)
    if disk is not None and not (is_part and 0 <= disk <= 1):
        raise ValueError(f"set_limit: disk is a part of the disk, from 0 to 1; got {disk!r}")
    _limit.bytes = _Limit.bytes if bytes is None else bytes
    _limit.disk = _Limit.disk if disk is None else disk


# --- what is kept ------------------------------------------------------------------------------


class KeptFile(NamedTuple):
    """A copy of a remote file."""

    url: str
    path: pathlib.Path
    bytes: int
    used: datetime.datetime
    in_use: bool


class Info(NamedTuple):
    """The copies of remote files that are kept, the least recently used first."""

    folder: pathlib.Path
    bytes: int
    limit: int
    files: tuple[KeptFile, ...]


class _Entry(NamedTuple):
    """A copy as it lies on the disk: a folder with the file, and what it is."""

    folder: pathlib.Path
    key: str
    url: str
    name: str
    bytes: int
    stamp: Stamp
    used: int

    @property
    def path(self) -> pathlib.Path:
        return self.folder / self.name


def info() -> Info:
    """Return which copies of remote files are kept, how many bytes they have, and the limit.

    >>> isinstance(info().bytes, int)
    True
    """
    folder = _folder()
    files = tuple(
        KeptFile(entry.url, entry.path, entry.bytes, _time(entry), _in_use(entry))
        for entry in _entries(folder)
    )
    return Info(folder, sum(one.bytes for one in files), _limit.bytes, files)


def clear(url: str | None = None) -> int:
    """Remove the copies that no view uses, of one URL or of all; return how many bytes they had."""
    folder = _folder()
    if not folder.exists():
        return 0
    with alone(folder / "room"):
        sweep(folder)
        chosen = [one for one in _entries(folder) if url is None or one.url == shown(url)]
        return sum(entry.bytes for entry in chosen if _removed(entry))


def _folder() -> pathlib.Path:
    return root() / "kept"


def _entries(folder: pathlib.Path) -> list[_Entry]:
    """Return the copies in a folder, the least recently used first."""
    return sorted(_found(folder), key=lambda entry: entry.used)


def _found(folder: pathlib.Path) -> Iterator[_Entry]:
    if not folder.exists():
        return
    for place in folder.iterdir():
        if place.name.startswith("."):
            continue
        try:
            about = (place / ABOUT).read_text(encoding="utf-8", errors="replace")
            used = (place / ABOUT).stat().st_mtime_ns
            entry = _told(place, about, used) or _untold(place, used)
        except (FileNotFoundError, NotADirectoryError):  # just removed, or none of these
            continue
        yield entry


def _told(place: pathlib.Path, about: str, used: int) -> _Entry | None:
    """Return the copy that a text is about, None if it does not say so."""
    try:
        entry = _Entry(folder=place, key=_key_in(place), used=used, **json.loads(about))
    except (ValueError, TypeError):
        return None
    kinds = {"url": str, "name": str, "bytes": int, "stamp": dict}
    is_whole = all(isinstance(getattr(entry, name), kind) for name, kind in kinds.items())
    return entry if is_whole else None


def _untold(place: pathlib.Path, used: int) -> _Entry:
    """Return a copy of which nothing is known any more: it is of no URL, and only goes."""
    names = [one.name for one in place.iterdir() if one.name != ABOUT] or [ABOUT]
    size = (place / names[0]).stat().st_size
    return _Entry(place, "", "", names[0], size, {}, used)


def _key_in(place: pathlib.Path) -> str:
    return place.name.partition("-")[0]


def _time(entry: _Entry) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(entry.used / 1e9).astimezone()


# --- in use ------------------------------------------------------------------------------------


class Lease:
    """Keeps a copy on the disk as long as somebody holds this, and has not released it.

    It takes the place of a claim, which who writes a file has: `note` says in the words of a view
    where the data are from.
    """

    __slots__ = ("__weakref__", "note", "path", "release")

    journals = None

    def __init__(self, path: str, note: str, handle: int) -> None:
        self.path, self.note = path, note
        self.release = weakref.finalize(self, os.close, handle)

    def __reduce__(self) -> tuple[Any, ...]:
        return _lease, (self.path, self.note)


def _lease(path: str | pathlib.Path, note: str) -> Lease | None:
    """Return what keeps a copy, None if it is no longer there."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        if sys.platform != "win32":
            fcntl.flock(handle, fcntl.LOCK_SH)  # who removes the file has it for a moment
        if os.path.samestat(os.fstat(handle), os.stat(path)):
            return Lease(str(path), note, handle)
    except FileNotFoundError:
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def _in_use(entry: _Entry) -> bool:
    try:
        handle = os.open(entry.path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not lock(handle, waits=False)
    finally:
        os.close(handle)


def _removed(entry: _Entry) -> bool:
    """Remove a copy that nobody uses, and say whether that was so."""
    try:
        handle = os.open(entry.path, os.O_RDONLY)
    except FileNotFoundError:  # another program has removed the file alone
        remove(entry.folder)
        return True
    try:
        if not lock(handle, waits=False):
            return False
        remove(entry.folder)
        return True
    finally:
        os.close(handle)


def _make_room(folder: pathlib.Path, key: str, size: int) -> None:
    """Remove copies until a new one of so many bytes is within the limit: old versions first."""
    entries = _entries(folder)
    latest = {entry.key: entry for entry in entries} | {key: None}
    total = sum(entry.bytes for entry in entries)
    for entry in sorted(entries, key=lambda one: (latest[one.key] is one, one.used)):
        usage = shutil.disk_usage(folder)
        if total + size <= _limit.bytes and usage.used <= _limit.disk * usage.total:
            return
        if _removed(entry):
            total -= entry.bytes
    if total + size > _limit.bytes:
        raise OSError(
            errno.ENOSPC,
            f"no room for {size} bytes more: views use {total} of the {_limit.bytes} bytes that "
            "are kept of remote files; close some, or allow more with dv.cache.set_limit()",
            str(folder),
        )


# --- opened by a URL ---------------------------------------------------------------------------


def local_copy(
    url: str,
    mode: str,
    most: float = float("inf"),
    storage_options: Mapping[str, Any] | None = None,
    **how: Any,
) -> tuple[str, Lease | None]:
    """Return the path of a copy of what a URL names, and what keeps it; a local file is itself.

    TooLong is raised for a file of more than `most` bytes, of which there is no copy; `how`
    are further fields of a `Request`.
    """
    place = local_path(url)
    if place is not None:
        return place, None
    if mode != "r":
        raise ValueError(
            f"{shown(url)} is read as a local copy, which is opened with mode 'r'; got {mode!r}; "
            "to change the data, dv.cache.download() the file, open that, and upload it"
        )
    request = Request(url, most=min(most, _limit.bytes), options=storage_options, **how)
    lease = _copy(request)
    return lease.path, lease


def _copy(request: Request) -> Lease:
    url = request.url
    folder, key = folder_at(_folder()), key_of(url, request.options)
    with alone(folder / key), new_at(folder / key) as fresh:
        entry, lease = _latest(folder, key)
        fresh.mkdir()
        within, archive = _archive(url)
        request = request._replace(url=within)
        if entry is not None:
            request = request._replace(
                known=entry.stamp,
                timeout=min(request.timeout, SILENCE),
                deadline=min(request.deadline, PATIENCE),
            )
        try:
            stamp = _fetched(request, fresh / file_name(url), folder)
        except Unchanged:
            stamp = {}
        except (ConnectionError, TimeoutError) as error:
            if entry is None or lease is None:
                raise
            warn(f"{error}; the copy is opened that was last used at {_time(entry):%F %T}")
        else:
            if lease is not None:
                lease.release()
            return _put(fresh, folder / f"{key}-{time.time_ns()}", url, stamp)
        finally:
            if archive is not None:
                archive.release()
    assert lease is not None and entry is not None  # else nothing would be known
    now = time.time_ns()
    os.utime(entry.folder / ABOUT, ns=(now, now))
    return lease


def _fetched(request: Request, path: pathlib.Path, folder: pathlib.Path) -> Stamp:
    """Fetch a file; where the disk is full, copies that nobody uses go, and it is tried again.

    As many bytes go as had arrived, so that few attempts are made.
    """
    while True:
        try:
            return fetch(request, path)
        except OSError as error:
            if error.errno != errno.ENOSPC or not _freed(folder, path.stat().st_size):
                raise


def _freed(folder: pathlib.Path, least: int) -> bool:
    """Remove copies that nobody uses until they had so many bytes; say whether there was one."""
    freed: list[int] = []
    with alone(folder / "room"):
        for entry in _entries(folder):
            if sum(freed) >= max(least, 1):
                break
            if _removed(entry):
                freed.append(entry.bytes)
    return bool(freed)


def _archive(url: str) -> tuple[str, Lease | None]:
    """Return the URL of what is in an archive on a web server with a copy of that in its place."""
    inner, _, last = url.rpartition("::")
    if not inner or scheme_of(last) not in WEB:
        return url, None
    lease = _copy(Request(last, most=_limit.bytes))
    return f"{inner}::file://{lease.path}", lease


def _latest(folder: pathlib.Path, key: str) -> tuple[_Entry | None, Lease | None]:
    """Return the copy of a URL that was used last, kept from now on, if there is one.

    A copy that has another length now is none: others may have changed it.
    """
    for entry in reversed(_entries(folder)):
        if entry.key == key:
            lease = _lease(entry.path, f"a copy of {entry.url}")
            if lease is not None and entry.path.stat().st_size == entry.bytes:
                return entry, lease
            if lease is not None:
                lease.release()
    return None, None


def _put(fresh: pathlib.Path, place: pathlib.Path, url: str, stamp: Stamp) -> Lease:
    """Move a new copy to its place, where room is made for it."""
    name = file_name(url)
    size = (fresh / name).stat().st_size
    about = {"url": shown(url), "name": name, "bytes": size, "stamp": stamp}
    (fresh / ABOUT).write_text(json.dumps(about), encoding="utf-8")
    with alone(place.parent / "room"):
        sweep(place.parent)
        _make_room(place.parent, _key_in(place), size)
        put(fresh, place)
        lease = _lease(place / name, f"a copy of {shown(url)}")
    assert lease is not None  # who removes files has that lock, too
    return lease
