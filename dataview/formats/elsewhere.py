"""Files named by a URL: a copy that is kept, or parts that are read where the file is."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from dataview.cache import Lease, TooLong, local_copy
from dataview.index.sizes import sizes
from dataview.plan.node import Node
from dataview.sources import Place, WholeOnly, check_patience, is_url, local_path, shown

AT_ONCE = 8
"""So many files are copied at a time."""


class Way(NamedTuple):
    """How a file elsewhere is opened.

    `keep` says whether a copy is kept; None leaves that to the size.
    """

    keep: bool | None = None
    storage_options: Mapping[str, Any] | None = None
    progress: Any = None
    timeout: float = 30.0
    deadline: float = 10.0

    def to(self, url: str = "") -> Place:
        """Return a place elsewhere that is reached in this way."""
        return Place(url, self.storage_options, self.timeout, self.deadline)


def way_in(options: dict[str, Any]) -> Way:
    """Take out of the options of a format those that say how a file elsewhere is opened."""
    way = Way(**{name: options.pop(name) for name in Way._fields if name in options})
    if way.keep not in (True, False, None):
        raise TypeError(f"keep is True, False, or None: by the size; got {way.keep!r}")
    check_patience(way.timeout, way.deadline)
    if not isinstance(way.storage_options, (Mapping, type(None))):
        raise TypeError(f"storage_options is a mapping, for fsspec; got {way.storage_options!r}")
    return way


def opened_elsewhere(
    url: str, mode: str, way: Way, in_parts: Callable[[Place], Node] | None
) -> Node | tuple[str, Lease | None]:
    """Return the node of a file that `in_parts` opens where it is, or the path of a copy.

    In parts are read larger files of which a copy was not asked for; but not what is in an archive,
    which would be unpacked from its beginning each time.
    """

    def copy(most: float = float("inf")) -> tuple[str, Lease | None]:
        how = way._asdict()
        del how["keep"]
        return local_copy(url, mode, most, **how)

    if mode != "r" or local_path(url) is not None:
        return copy()  # which is the file itself, or says why there is none
    if in_parts is None and way.keep is False:
        raise ValueError(
            f"keep=False: {shown(url)} is of a format whose files are read whole, as a copy; leave "
            "keep= out"
        )
    is_inside = "::" in url and way.keep is None
    if in_parts is None or way.keep or is_inside:
        return copy()
    if way.keep is None:
        try:
            return copy(sizes.copied_bytes)
        except (TooLong, IsADirectoryError):
            pass
    try:
        return in_parts(way.to(url))
    except WholeOnly:
        if way.keep is False:
            raise
        return copy()


class Copies:
    """Keeps the copies of several files, as a lease keeps one."""

    __slots__ = ("__weakref__", "leases")

    journals, note = None, "copies of files elsewhere"

    def __init__(self, leases: Sequence[Lease | None]) -> None:
        self.leases = [lease for lease in leases if lease is not None]

    def __reduce__(self) -> tuple[Any, ...]:
        return Copies, (self.leases,)

    def release(self) -> None:
        """Let the copies be removed."""
        for lease in self.leases:
            lease.release()


def brought(paths: Sequence[str], way: Way) -> tuple[list[str], Copies | None]:
    """Return the paths of files, of which those elsewhere are copied, and what keeps the copies."""
    if way.keep is False:
        raise ValueError(
            "keep=False: several files at URLs are opened together as copies; leave keep= out, or "
            "open them one after the other with layout='parts'"
        )
    how = {name: value for name, value in way._asdict().items() if name != "keep"}

    def bring(path: str) -> tuple[str, Lease | None]:
        found, lease = local_copy(path, "r", **how) if is_url(path) else (path, None)
        return os.path.abspath(found), lease

    with ThreadPoolExecutor(AT_ONCE) as threads:
        here, leases = zip(*threads.map(bring, paths), strict=True)
    return list(here), Copies(leases) if any(leases) else None
