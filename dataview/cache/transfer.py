"""Files brought from elsewhere: by pooch from web servers, by fsspec from all other places."""

from __future__ import annotations

import contextlib
import errno
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple, NoReturn, TypeAlias

from dataview.errors import import_library
from dataview.index.progress import Task, begin
from dataview.sources import (
    BrokenOff,
    is_web,
    may_pass,
    naming,
    place_may_pass,
    pools_of,
    refused,
    repeated,
    shown,
    system_at,
    told_pause,
    version_in,
)

Stamp: TypeAlias = "dict[str, str | int]"
"""What tells a version of a remote file from others: its ETag, its time, its size."""


PIECE = 1 << 16
"""How many bytes are read at a time."""


class TooLong(OSError):
    """A file of more bytes than are to be kept."""


class Unchanged(Exception):
    """The remote file is the one that is known already."""


class Request(NamedTuple):
    """A file that is to be fetched, and how long that is tried."""

    url: str
    known: Stamp | None = None
    most: float = float("inf")
    timeout: float = 30.0
    deadline: float = 10.0
    progress: Any = None
    options: Mapping[str, Any] | None = None


def fetch(request: Request, path: pathlib.Path) -> Stamp:
    """Write a remote file to a path and return its stamp; raise Unchanged if that is known."""
    if not isinstance(request.options, (Mapping, type(None))):
        raise TypeError(f"storage_options is a mapping, for fsspec; got {request.options!r}")
    with (
        _told_where_full(request.url),
        begin("fetching", None, "B", request.progress) as task,
        open(path, "wb") as raw,
    ):
        file = Arriving(raw, request, task)
        if is_web(request.url):
            return _from_web(request, file)
        with naming(request.url, "fetched"):
            return _from_elsewhere(request, file)


@contextlib.contextmanager
def _told_where_full(url: str) -> Iterator[None]:
    """Say of a disk that is full what there was no room for: the system does not."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        raise OSError(
            errno.ENOSPC,
            "the disk has no room for it; dv.cache.set_root() names a folder on another one, and "
            "dv.cache.clear() removes the copies that no view uses",
            shown(url),
        ) from error


# --- what arrives ------------------------------------------------------------------------------


class Arriving:
    """A new file that knows how many bytes it is to get, and tells how many it has."""

    def __init__(self, file: BinaryIO, request: Request, task: Task) -> None:
        self.file, self.request, self.task = file, request, task
        self.count = 0
        self.total: int | None = None

    def restart(self) -> None:
        """Forget what has arrived."""
        self.file.seek(0)
        self.file.truncate()
        self.count = 0

    def expect(self, total: int | None) -> None:
        """Note how many bytes the whole has, or that this is unknown."""
        self.total = total
        self._check(total or 0)

    def write(self, data: bytes) -> None:
        """Take more bytes."""
        self._check(self.count + len(data))
        self.file.write(data)
        self.count += len(data)
        self.task.reach(self.count, self.total)

    def flush(self) -> None:
        """Do nothing: whoever writes piece by piece need not wait for each."""

    def finish(self) -> None:
        """Raise if bytes are missing."""
        if self.total is not None and self.count != self.total:
            raise BrokenOff(f"it ended after {self.count} of {self.total} bytes")

    def _check(self, count: int) -> None:
        if count > self.request.most:
            raise TooLong(
                errno.EFBIG,
                f"it has {count} bytes or more, and up to {self.request.most} are kept; "
                "dv.cache.set_limit() allows more, dv.cache.download() keeps it without a limit",
                shown(self.request.url),
            )


# --- web servers -------------------------------------------------------------------------------


def _from_web(request: Request, file: Arriving) -> Stamp:
    pooch = import_library("pooch", "dataview[download]")
    requests = import_library("requests", "dataview[download]")
    answers = _Answers(request, file)

    def attempt() -> None:
        downloader = pooch.HTTPDownloader(
            chunk_size=PIECE,
            timeout=request.timeout,
            headers=answers.headers(),
            hooks={"response": answers},
        )
        try:
            downloader(request.url, file, None)
            file.finish()
        finally:
            answers.close()

    try:
        repeated(attempt, may_pass, request.deadline, lambda: file.count, told_pause)
    except requests.HTTPError as error:
        raise refused(request.url, error.response) from error
    except requests.exceptions.InvalidURL as error:
        raise ValueError(f"{shown(request.url)!r} is no URL of a web server: {error}") from error
    except (requests.RequestException, BrokenOff) as error:
        raise ConnectionError(
            f"{shown(request.url)} could not be fetched: {error}; nothing of it is kept"
        ) from error
    return answers.stamp


class _Answers:
    """Looks at each answer of a web server before its body is read, which goes to a file."""

    def __init__(self, request: Request, file: Arriving) -> None:
        self.known, self.file = request.known, file
        self.stamp: Stamp = {}
        self.response: Any = None
        self.pools: list[Any] = []

    def headers(self) -> dict[str, str]:
        """Return what is asked for: the rest, if a part is there, or else a version not known."""
        asked = {"Accept-Encoding": "identity"}
        mark = str(self.stamp.get("etag") or self.stamp.get("modified") or "")
        if self.file.count and mark and not mark.startswith("W/"):
            return asked | {"Range": f"bytes={self.file.count}-", "If-Range": mark}
        conditions = {"etag": "If-None-Match", "modified": "If-Modified-Since"}
        known = self.known or {}
        return asked | {conditions[key]: str(known[key]) for key in conditions if key in known}

    def __call__(self, response: Any, **_: Any) -> None:
        """Compare an answer with what is known; requests calls this."""
        self.response = response
        self.pools += pools_of(response.connection)
        if response.status_code == 304 and self.known:
            raise Unchanged
        if response.status_code == 416:  # the file has changed, or the server cannot count
            self._begin_anew("the server has no rest of what it began to send")
        if response.is_redirect or not response.ok:
            return
        if response.status_code == 206:
            self._go_on(response.headers)
            return
        if response.status_code not in (200, 203):
            raise refused(self.file.request.url, response)
        self.file.restart()
        self.stamp = _stamp_of(response.headers)
        if self.stamp and self.stamp == self.known:
            raise Unchanged
        size = None if "Content-Encoding" in response.headers else self.stamp.get("size")
        self.file.expect(None if size is None else int(size))

    def _go_on(self, headers: Mapping[str, str]) -> None:
        part = headers.get("Content-Range", "")
        if not part.startswith(f"bytes {self.file.count}-"):
            self._begin_anew("the server sends another part than was asked for")
        if not self._is_of_the_same(_stamp_of(headers), part.rpartition("/")[2]):
            self._begin_anew("it was replaced while it was fetched")

    def _is_of_the_same(self, told: Stamp, total: str) -> bool:
        """Whether a part is of the file that has begun to arrive: some servers ignore If-Range.

        A part need not repeat the time, but it has the ETag.
        """
        modified = self.stamp.get("modified")
        return (
            told.get("etag") == self.stamp.get("etag")
            and told.get("modified", modified) == modified
            and (self.file.total is None or total in ("*", str(self.file.total)))
        )

    def _begin_anew(self, reason: str) -> NoReturn:
        self.file.restart()
        self.stamp = {}
        raise BrokenOff(reason)

    def close(self) -> None:
        """Close the connection; requests would keep it open as long as anybody has an answer."""
        answer, self.response = self.response, None
        for one in [] if answer is None else [*answer.history, answer]:
            one.close()
            one.raw = None
        while self.pools:  # a body that has arrived whole has given its connection back to one
            self.pools.pop().close()


def _stamp_of(headers: Mapping[str, str]) -> Stamp:
    found: Stamp = {}
    for key, name in (("etag", "ETag"), ("modified", "Last-Modified")):
        if name in headers:
            found[key] = headers[name]
    if headers.get("Content-Length", "").isdecimal():
        found["size"] = int(headers["Content-Length"])
    return found


# --- all other places --------------------------------------------------------------------------


def _from_elsewhere(request: Request, file: Arriving) -> Stamp:
    stamp: Stamp = {}

    def attempt() -> None:
        system, path = system_at(request.url, request.options or {}, is_new=True)
        try:
            stamp.clear()
            stamp.update(_stamp_at(system, path, request.url))
            if stamp == request.known:
                raise Unchanged
            file.restart()
            size = stamp.get("size")
            file.expect(None if size is None else int(size))
            with system.open(path, "rb") as remote:
                while data := remote.read(PIECE << 4):
                    file.write(data)
            file.finish()
            system.invalidate_cache(path)
            if _stamp_at(system, path, request.url) != stamp:
                raise BrokenOff("it was replaced while it was read")
        finally:
            if hasattr(system, "close"):  # an archive, which is open as long as it is used
                system.close()

    repeated(attempt, place_may_pass, request.deadline, lambda: file.count)
    return stamp


def _stamp_at(system: Any, path: str, url: str) -> Stamp:
    """Return the stamp of a file in a file system of fsspec."""
    info = system.info(path)
    if info.get("type") == "directory":
        raise IsADirectoryError(
            errno.EISDIR,
            "it is a folder, and only files are fetched; layout='parts' opens its files as parts "
            "of the same data; or save the data as one file, such as .zarr.zip, or fetch the "
            "folder with fsspec's get(…, recursive=True)",
            shown(url),
        )
    stamp: Stamp = {"etag": version_in(info)}
    if isinstance(info.get("size"), int):
        stamp["size"] = info["size"]
    return stamp
