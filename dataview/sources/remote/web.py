"""Parts of files on web servers, and what their answers mean."""

from __future__ import annotations

import contextlib
import errno
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from dataview.errors import import_library, shortened
from dataview.sources.remote.attempts import BrokenOff, repeated
from dataview.sources.remote.places import AT_ONCE, Place, WholeOnly
from dataview.sources.remote.runs import WHOLE, PastEnd, Run, beyond
from dataview.sources.remote.urls import shown

PASSING = (408, 425, 429, 500, 502, 503, 504)
"""What web servers answer if a later attempt may succeed."""

PIECE = 1 << 16
"""How many bytes are read at a time."""

MOST_WHOLE = 1 << 30
"""Files up to so many bytes are brought whole by a server that gives no parts of files."""


class _Answer(NamedTuple):
    """Bytes of a file, what tells its version, and how many it has, if that is known."""

    data: bytes
    version: str
    size: int | None


def read_from_web(place: Place, runs: Sequence[Run]) -> list[bytes]:
    """Return the bytes of runs of a file on a web server: a request for each, a few at a time.

    A server that gives no parts of files is asked once for all of it.
    """
    with _session() as session:
        try:
            return _each(session, place, runs)
        except WholeOnly:
            (whole,) = _each(session, place, [WHOLE])
    for run in runs:
        if run[1] > len(whole):
            raise beyond(shown(place.url), len(whole), run)
    return [whole[slice(*run)] for run in runs]


def look_at_web(place: Place, count: int) -> tuple[bytes, int, str]:
    """Return the first bytes of a file on a web server, its size, and its version."""
    with _session() as session:
        try:
            found = _read(session, place, (0, count), may_be_short=True)
        except PastEnd as error:  # of an empty file there is no part to send
            return b"", error.size, ""
    if found.size is None:
        raise WholeOnly(f"how many bytes {shown(place.url)} has is not known")
    return found.data, found.size, found.version


@contextlib.contextmanager
def _session() -> Iterator[Any]:
    """Keep connections as long as the block lasts."""
    session = import_library("requests", "dataview[download]").Session()
    try:
        yield session
    finally:
        for adapter in session.adapters.values():
            for pool in pools_of(adapter):
                pool.close()
        session.close()


def pools_of(adapter: Any) -> list[Any]:
    """Return the pools of connections of an adapter of requests, which are to be closed.

    A session that ends leaves those open whose pool an error refers to.
    """
    managers = adapter.poolmanager, *adapter.proxy_manager.values()
    return [pool for one in managers for pool in map(one.pools.get, one.pools.keys())]


def _each(session: Any, place: Place, runs: Sequence[Run]) -> list[bytes]:
    """Return the bytes of each run, all of one version of the file."""
    if len(runs) == 1:
        found = [_read(session, place, runs[0])]
    else:
        with ThreadPoolExecutor(min(AT_ONCE, len(runs))) as threads:
            waiting = [threads.submit(_read, session, place, run) for run in runs]
            try:
                found = [one.result() for one in waiting]
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise
    if len({one.version for one in found}) > 1:
        raise ValueError(f"{shown(place.url)} was replaced while it was read; read it again")
    place.check(found[0].version)
    return [one.data for one in found]


def _read(session: Any, place: Place, run: Run, may_be_short: bool = False) -> _Answer:
    """Return the bytes of a run; `may_be_short` allows that the file has fewer."""
    requests = import_library("requests", "dataview[download]")
    url = shown(place.url)
    data = bytearray()
    asked = {"Accept-Encoding": "identity"}
    if run is not WHOLE:
        asked["Range"] = f"bytes={run[0]}-{run[1] - 1}"

    def attempt() -> _Answer:
        data.clear()
        with session.get(place.url, headers=asked, stream=True, timeout=place.timeout) as answer:
            size, whole = _sizes(answer, place.url, run, may_be_short)
            for piece in answer.iter_content(PIECE):
                data.extend(piece)
                if size is None and len(data) > MOST_WHOLE:
                    raise _too_large(f"more than {MOST_WHOLE}", place.url)
                if size is not None and len(data) > size:
                    break
            if size is not None and len(data) != size:
                raise BrokenOff(f"{len(data)} bytes have arrived in place of {size}")
            version = _version(answer, len(data) if run is WHOLE else whole)
            return _Answer(bytes(data), version, whole)

    try:
        return repeated(attempt, may_pass, place.deadline, lambda: len(data), told_pause)
    except requests.HTTPError as error:
        raise refused(place.url, error.response) from error
    except requests.exceptions.InvalidURL as error:
        raise ValueError(f"{url!r} is no URL of a web server: {error}") from error
    except (requests.RequestException, BrokenOff) as error:
        raise ConnectionError(f"{url} could not be read: {error}") from error


def _version(answer: Any, size: int | None) -> str:
    """Return what tells a version of a file: a time alone may be that of two, to the second."""
    mark = answer.headers.get("ETag")
    return str(mark or (answer.headers.get("Last-Modified"), size))


def _sizes(answer: Any, url: str, run: Run, may_be_short: bool) -> tuple[int | None, int | None]:
    """Return how many bytes an answer is to have, and the file; None where it does not say so."""
    part = answer.headers.get("Content-Range", "")
    known = re.fullmatch(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)", part.strip())
    whole = None if known is None or known[3] == "*" else int(known[3])
    if answer.status_code == 416 and whole is not None:
        raise beyond(shown(url), whole, run)
    answer.raise_for_status()
    if run is WHOLE:
        if answer.status_code not in (200, 203):
            raise refused(url, answer)
        return _whole(answer, url), None
    if answer.status_code == 200:
        raise WholeOnly(f"the server of {shown(url)} gives no parts of files")
    if answer.status_code != 206 or known is None or known[1] is None:
        raise refused(url, answer)
    start, stop = run
    if whole is not None and whole < stop:
        if not may_be_short:
            raise beyond(shown(url), whole, run)
        stop = whole
    if (int(known[1]), int(known[2]) + 1) != (start, stop):
        raise BrokenOff(f"the server sends {part!r}, and bytes {start}-{stop - 1} were asked for")
    return stop - start, whole


def _whole(answer: Any, url: str) -> int | None:
    length = answer.headers.get("Content-Length", "")
    if "Content-Encoding" in answer.headers or not length.isdecimal():
        return None
    if int(length) > MOST_WHOLE:
        raise _too_large(length, url)
    return int(length)


def _too_large(count: str, url: str) -> OSError:
    """Return the error for a file that would be read whole, and is too large for that."""
    return OSError(
        errno.EFBIG,
        f"it has {count} bytes, and its server gives no parts of files; dv.cache.download() "
        "brings it to this machine",
        shown(url),
    )


def may_pass(error: Exception) -> bool:
    """Whether a web server may give later what has failed."""
    requests = import_library("requests", "dataview[download]")
    if isinstance(error, requests.HTTPError):
        return error.response.status_code in PASSING
    known = (
        requests.ConnectionError,
        requests.Timeout,
        requests.exceptions.ChunkedEncodingError,
        BrokenOff,
    )
    return isinstance(error, known) and not isinstance(error, requests.exceptions.SSLError)


def told_pause(error: Exception) -> float:
    """Return how many seconds a web server asks to wait after an error, 0 if it does not say."""
    requests = import_library("requests", "dataview[download]")
    if not isinstance(error, requests.HTTPError):
        return 0.0
    told = str(error.response.headers.get("Retry-After", "")).strip()
    if told.isdecimal():
        return float(told)
    with contextlib.suppress(ValueError, TypeError):
        return parsedate_to_datetime(told).timestamp() - time.time()
    return 0.0


def refused(url: str, response: Any) -> OSError:
    """Return the error for what a web server has answered instead of a file."""
    said = f"the server answers {response.status_code} {response.reason}".rstrip()
    if response.status_code in PASSING:
        told = response.headers.get("Retry-After")
        said += f" (Retry-After: {shortened(told)})" if told else ""
        said += "; deadline= says for how many seconds it is asked again"
    if response.status_code in (404, 410):
        return FileNotFoundError(errno.ENOENT, said, shown(url))
    if response.status_code in (401, 403):
        return PermissionError(errno.EACCES, said, shown(url))
    return ConnectionError(f"{shown(url)} could not be fetched: {said}")
