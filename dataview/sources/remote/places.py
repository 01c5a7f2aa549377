"""Files in the file systems of fsspec, and how they are reached."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from dataview.errors import hint, import_library, shortened
from dataview.sources.remote.attempts import BrokenOff, repeated
from dataview.sources.remote.runs import WHOLE, Run, beyond
from dataview.sources.remote.urls import shown

AT_ONCE = 8
"""So many requests wait for a server at a time."""

PASSING = (errno.EIO, errno.EBUSY, getattr(errno, "EREMOTEIO", errno.EIO))
"""What file systems say of a server that may answer a later attempt."""

MARKS = (
    *("ETag", "etag", "generation", "md5Hash", "CRC"),
    *("LastModified", "last_modified", "mtime", "modified", "updated", "created", "date_time"),
)
"""What file systems of fsspec say of a file that is different when its bytes are."""

OF_LIBRARIES = ("ConnectionError", "HTTPClientError", "ClientConnectionError", "ClientPayloadError")
"""Names of errors that libraries raise for connections, and that are none of Python's own."""


Result = TypeVar("Result")


class WholeOnly(OSError):
    """A file of which no parts can be had."""


class Place(NamedTuple):
    """A file that is elsewhere, and how it is reached.

    `called` is what errors call it, if a user has given another URL that this one was made of.
    """

    url: str
    options: Mapping[str, Any] | None = None
    timeout: float = 30.0
    deadline: float = 10.0
    version: str | None = None
    called: str = ""

    def check(self, version: str) -> None:
        """Raise if the file is of another version than the one that is known, if that is so."""
        if self.version not in (None, version):
            raise ValueError(f"{shown(self.url)} has changed since it was opened; open it again")


def read_from_place(place: Place, runs: Sequence[Run]) -> list[bytes]:
    """Return the bytes of runs of a file that fsspec reaches, all of the version that is known."""

    def check(system: Any, path: str) -> None:
        if place.version is not None:
            place.check(info_of(system, path, place.url)[1])

    def read(system: Any, path: str) -> list[bytes]:
        try:
            found = (_by_requests if system.async_impl else _by_file)(system, path, runs)
        except Exception as error:
            if not place_may_pass(error):  # of another file it may say what is no help
                check(system, path)
            raise
        check(system, path)  # only now: it may have been replaced while it was read
        for run, data in zip(runs, found, strict=True):
            if run is not WHOLE and len(data) != run[1] - run[0]:
                raise _short(system, path, place, run, len(data))
        return found

    return attempted(place, read)


def look_at_place(place: Place, count: int) -> tuple[bytes, int, str]:
    """Return the first bytes of a file that fsspec reaches, its size, and its version."""

    def look(system: Any, path: str) -> tuple[bytes, int, str]:
        size, version = info_of(system, path, place.url)
        if size is None:
            raise WholeOnly(f"how many bytes {shown(place.url)} has is not known")
        run = 0, min(count, size)
        found = (_by_requests if system.async_impl else _by_file)(system, path, [run])
        return found[0], size, version

    return attempted(place, look)


def attempted(place: Place, attempt: Callable[[Any, str], Result]) -> Result:
    """Make an attempt with the file system of a place, and others while that may help."""
    with naming(place.called or place.url, "read"):
        return repeated(lambda: _with_system(place, attempt), place_may_pass, place.deadline)


LOCKED = ("NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError")
"""Names of errors that libraries of file systems raise where nothing says who the user is."""

ABSENT: Mapping[str, tuple[type[OSError], int, str]] = {
    **dict.fromkeys(
        LOCKED,
        (
            PermissionError,
            errno.EACCES,
            "nothing says who reads there ({}); storage_options= have the key or the account, or "
            "say that anybody may read, as {{'anon': True}} does for S3",
        ),
    ),
    "FileNotFoundError": (
        FileNotFoundError,
        errno.ENOENT,
        "no file or folder is there, or the bucket that it would be in is lacking ({}); check the "
        "URL, and that storage_options= lead to the right server",
    ),
    "PermissionError": (
        PermissionError,
        errno.EACCES,
        "the server does not allow that ({}); storage_options= have the key or the account of who "
        "may read there",
    ),
}
"""What errors of file systems mean that name a part of the URL, or no place at all, by names."""


@contextlib.contextmanager
def naming(url: str, what: str) -> Iterator[None]:
    """Name the URL in the errors of a file system, which does not know it."""
    try:
        yield
    except Exception as error:
        error.add_note(f"while {shown(url)} was {what}")
        names = [one.__name__ for one in type(error).__mro__ if one.__name__ in ABSENT]
        if not names or getattr(error, "filename", None) is not None:
            raise
        kind, number, told = ABSENT[names[0]]
        named = kind(number, told.format(shortened(str(error))), shown(url))
        named.__notes__ = error.__notes__
        raise named from error


def system_at(
    url: str, options: Mapping[str, Any], is_new: bool = False, called: str = ""
) -> tuple[Any, str]:
    """Return the file system of fsspec in which a URL is, and the path there.

    `called` is what errors call the URL, if that is another one.

    fsspec keeps what it has opened, for each process and thread, unless it `is_new`; an archive is
    always new, which would stay open with that.
    """
    fsspec = import_library("fsspec", "dataview[remote]")
    first, *others = url.split("::")
    kinds = [_kind_of(part, called or url, fsspec) for part in (first, *others) if "://" in part]
    is_archive = "://" in first and hasattr(kinds[0], "close")
    new = {"skip_instance_cache": True} if is_new or is_archive else {}
    found: tuple[Any, str] = fsspec.core.url_to_fs(url, **{**new, **options})
    return found


def _kind_of(part: str, url: str, fsspec: Any) -> Any:
    """Return the class of the file system of a part of a URL, or raise if there is none."""
    protocol = part.partition("://")[0]
    known = sorted({*fsspec.registry, *fsspec.available_protocols()})
    if protocol not in known:
        raise ValueError(
            f"{shown(url)}: fsspec knows no protocol {protocol!r}{hint(protocol, known)}; it knows "
            f"{', '.join(known)}, and fsspec.register_implementation adds others"
        )
    try:
        return fsspec.get_filesystem_class(protocol)
    except ImportError as error:
        raise ImportError(
            f"{shown(url)}: the protocol {protocol!r} needs a package of its own, which cannot be "
            f"imported: {error}"
        ) from error


def _with_system(place: Place, attempt: Callable[[Any, str], Result]) -> Result:
    system, path = system_at(place.url, place.options or {}, called=place.called)
    try:
        return attempt(system, path)
    finally:
        if hasattr(system, "close"):  # an archive
            system.close()


def info_of(system: Any, path: str, url: str) -> tuple[int | None, str]:
    """Return how many bytes a file has, and its version, as they are now."""
    system.invalidate_cache(path)
    found = system.info(path)
    if found.get("type") == "directory":
        raise IsADirectoryError(errno.EISDIR, "it is a folder, and a file is read", shown(url))
    size = found.get("size")
    return size if isinstance(size, int) else None, version_in(found)


def version_in(info: Mapping[str, Any]) -> str:
    """Return what tells a version of a file from others, from what a file system says of it."""
    return str({name: info[name] for name in MARKS if name in info} or info)


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
