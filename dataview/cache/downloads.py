"""Files that are downloaded once, and kept until the user removes them."""

from __future__ import annotations

import hashlib
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from dataview.cache.making import alone, new_at, put
from dataview.cache.root import root
from dataview.cache.transfer import Request, fetch
from dataview.sources import check_patience, file_name, is_url, key_of, shown


def download(
    url: str,
    sha256: str | None = None,
    *,
    timeout: float = 30.0,
    deadline: float = 10.0,
    progress: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> pathlib.Path:
    """Return the path of a downloaded file; it is fetched if it is not there.

    The file is kept below the root, under a name that follows from the URL.  It appears there when
    all of it has arrived and, if `sha256` is given, has this checksum.  It is fetched once, however
    many threads and processes ask for it.  `timeout` is how many seconds a server may be silent.
    An attempt that fails is repeated, or continued where it stopped, until nothing has arrived for
    `deadline` seconds.  `progress=True` shows a bar; a function is called with the number of bytes
    that have arrived, and of all bytes.  `storage_options` are passed to fsspec, which reads URLs
    of other schemes than http and https.
    """
    if not isinstance(url, str) or not is_url(url):
        raise ValueError(f"download takes a URL, such as 'https://host/file'; got {url!r}")
    wanted = _checked(sha256)
    check_patience(timeout, deadline)
    place = root() / "downloads" / f"{key_of(url, storage_options)}-{file_name(url)}"
    if _is_there(place, wanted):
        return place
    request = Request(
        url, timeout=timeout, deadline=deadline, progress=progress, options=storage_options
    )
    with alone(place):
        if not _is_there(place, wanted):
            with new_at(place) as fresh:
                fetch(request, fresh)
                _check_sum(fresh, wanted, url)
                put(fresh, place)
    return place


def _checked(sha256: str | None) -> str | None:
    if sha256 is None:
        return None
    found = re.fullmatch(r"(?:sha256:)?([0-9a-fA-F]{64})", str(sha256))
    if found is None:
        raise ValueError(f"sha256 is a sum of 64 hexadecimal digits; got {sha256!r}")
    return found[1].lower()


def _is_there(place: pathlib.Path, wanted: str | None) -> bool:
    return place.is_file() and (wanted is None or _sum_of(place) == wanted)


def _check_sum(path: pathlib.Path, wanted: str | None, url: str) -> None:
    if wanted is not None and (got := _sum_of(path)) != wanted:
        raise ValueError(
            f"{shown(url)} is not the file that was expected: its sha256 is {got}, expected "
            f"{wanted}; it is not kept; ask who publishes it which is right"
        )


def _sum_of(path: pathlib.Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
