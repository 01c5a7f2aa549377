"""What gets an item from its place: its bytes, its text, a file, or what a user's function returns.

A getter returns None where there is nothing: no such file, or no byte at the offset.
"""

from __future__ import annotations

import errno
import functools
import inspect
import io
import os
import re
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dataview.cache import Lease, local_copy
from dataview.compute import run_blocks
from dataview.errors import hint
from dataview.formats.elsewhere import AT_ONCE
from dataview.formats.indexes.places import Place
from dataview.sources import Place as Elsewhere
from dataview.sources import is_url, open_regular, read_all, read_up_to

Get = Callable[[Place], Any]
"""Returns what is at a place, or None."""

HEAD = 8
"""A chunked record begins with its length, in so many hexadecimal digits."""

_DIGITS = re.compile(rb"[0-9a-fA-F]+")


# --- bytes ---------------------------------------------------------------------------------------


def content(place: Place) -> bytes | None:
    """Return the bytes at a place, None if there are none.

    A negative length says that a record begins there with its own length, in 8 hexadecimal digits.
    """
    _, offset, length, _ = place
    if offset is not None and offset < 0:
        return None
    try:
        if offset is None:
            return _read(place, None)
        if length is not None and length < 0:
            return _record(place, offset, -length)
        found = _read(place, (offset, -1 if length is None else length))
    except FileNotFoundError:
        return None
    return found if found or length == 0 else None


def _record(place: Place, offset: int, size: int) -> bytes | None:
    """Return a record that says its own length, of about so many bytes."""
    found = _read(place, (offset, max(HEAD, size)))
    if len(found) < HEAD:
        return None
    if not _DIGITS.fullmatch(found, 0, HEAD):
        raise ValueError(
            f"a length below 0 says that a record begins with its length in {HEAD} hexadecimal "
            f"digits, and {place.url} has {found[:HEAD]!r} at byte {offset}"
        )
    end = HEAD + int(found[:HEAD], 16)
    if end > len(found) and len(found) >= size:
        found += _read(place, (offset + len(found), end - len(found)))
    if len(found) < end:
        raise ValueError(
            f"the record at byte {offset} of {place.url} says that {end - HEAD} bytes follow its "
            f"length, and {len(found) - HEAD} do: the file was cut, or no record begins there"
        )
    return found[HEAD:end]


def _read(place: Place, span: tuple[int, int] | None) -> bytes:
    """Return the bytes of a range, or fewer where the file ends."""
    if is_url(place.url):
        there = place.elsewhere()
        return read_all(there) if span is None else read_up_to(there, [span])[0]
    with open_regular(place.url) as file:
        if span is not None:
            file.seek(span[0])
        found: bytes = file.read(-1 if span is None else span[1])
        return found


def contents(places: Sequence[Place]) -> list[bytes | Exception | None]:
    """Return the bytes at some places, or the error of each; of one URL they are asked together."""
    found: list[bytes | Exception | None] = [None] * len(places)
    together: dict[str, list[int]] = {}
    alone: list[list[int]] = []
    for number, (url, offset, length, _) in enumerate(places):
        has_span = offset is not None and offset >= 0 and length is not None and length > 0
        if has_span and is_url(url):
            together.setdefault(url, []).append(number)
        else:
            alone.append([number])

    def put(numbers: list[int]) -> None:
        try:
            parts = _near_each_other([places[number] for number in numbers])
        except Exception as error:
            parts = [error] * len(numbers)
        for number, part in zip(numbers, parts, strict=True):
            found[number] = part

    at_once(put, [*together.values()], is_far=True)
    is_far = any(is_url(places[number].url) for number, *_ in alone)
    at_once(put, alone, is_far)
    return found


def _near_each_other(places: Sequence[Place]) -> list[Any]:
    """Return the bytes at several places of one URL, or at a single place of any kind."""
    if len(places) == 1:
        return [content(places[0])]
    spans: Any = [place[1:3] for place in places]
    try:
        return [part or None for part in read_up_to(places[0].elsewhere(), spans)]
    except FileNotFoundError:
        return [None] * len(places)


def at_once(work: Callable[[Any], Any], items: Sequence[Any], is_far: bool) -> list[Any]:
    """Return what is made of items, several at a time: more than there are cores of what is far."""
    if not is_far or len(items) < 2:
        return run_blocks(work, [*items])
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(work, items))


def opened(place: Place) -> io.BytesIO:
    """Return the bytes at a place as a file, for a decoder."""
    return as_file(place, content(place))


def as_file(place: Place, found: bytes | Exception | None) -> io.BytesIO:
    """Return as a file the bytes that were found at a place, or raise what was found instead."""
    if isinstance(found, Exception):
        raise found
    if found is None:
        raise nothing_at(str(place))
    return io.BytesIO(found)


def nothing_at(where: str) -> FileNotFoundError:
    """Return the error for a place at which there is no item."""
    told = "there is no such file, or nothing at the offset"
    return FileNotFoundError(errno.ENOENT, told, where)


# --- getters -------------------------------------------------------------------------------------


def text(place: Place) -> str | None:
    """Return the text at a place, which is in UTF-8."""
    return _text_in(place, content(place))


def _text_in(place: Place, found: bytes | Exception | None) -> str | None:
    if isinstance(found, Exception):
        raise found
    try:
        return None if found is None else found.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{place} is no text in UTF-8: {error.reason} at byte {error.start}; get='bytes' gets "
            "it as it is"
        ) from None


def got_together(get: Get, places: Sequence[Place]) -> list[Any]:
    """Return what a getter of this room returns for some places, or the error of each of them."""
    if get is content:
        return contents(places)
    if get is text:
        pairs = list(zip(places, contents(places), strict=True))
        return at_once(lambda pair: _or_error(_text_in, *pair), pairs, is_far=False)
    is_far = any(is_url(place.url) for place in places)
    return at_once(functools.partial(_or_error, get), places, is_far)


def _or_error(function: Callable[..., Any], *given: Any) -> Any:
    """Return what a function returns, or its error."""
    try:
        return function(*given)
    except Exception as error:
        return error


LAST = 128
"""The copies of so many files are kept for who has their paths: each is a file that is open."""


class LastCopies:
    """Keeps the copies of files elsewhere that were got last, as a lease keeps one."""

    __slots__ = ("__weakref__", "leases")

    journals, note = None, ""

    def __init__(self) -> None:
        self.leases: deque[Lease] = deque(maxlen=LAST)

    def __reduce__(self) -> tuple[Any, ...]:
        return LastCopies, ()

    def release(self) -> None:
        """Let the copies be removed."""
        self.leases.clear()

    def path_of(self, place: Elsewhere) -> str:
        """Return the path of a copy, for which others are let go if there is no room besides."""
        how = {"timeout": place.timeout, "deadline": place.deadline}
        bring = functools.partial(local_copy, place.url, "r", storage_options=place.options, **how)
        try:
            path, lease = bring()
        except OSError as error:
            if error.errno != errno.ENOSPC or not self.leases:
                raise
            self.release()
            path, lease = bring()
        if lease is not None:
            self.leases.append(lease)
        return path


def local_file(copies: LastCopies, place: Place) -> str | None:
    """Return the path of a file of this machine: that of a copy, which is kept, of a URL."""
    if place.offset is not None:
        raise ValueError(
            f"get='files' gives whole files, and the item is a part of one: {place}; "
            "get='bytes' reads it"
        )
    if not is_url(place.url):
        return place.url if os.path.exists(place.url) else None
    try:
        return copies.path_of(place.elsewhere())
    except FileNotFoundError:
        return None


GETTERS: dict[str, Callable[[LastCopies], Get]] = {
    "bytes": lambda copies: content,
    "text": lambda copies: text,
    "files": lambda copies: functools.partial(local_file, copies),
}
"""The getters by the names that a user gives them."""


def getter_of(get: Any, has_ranges: bool, copies: LastCopies) -> Get:
    """Return the getter that a user names, or whose function that is.

    The function gets the address, or (address, offset, length).
    """
    if isinstance(get, str):
        if get not in GETTERS:
            raise ValueError(
                f"get is a function, or one of {', '.join(map(repr, GETTERS))}, or None, which "
                f"decodes files by their suffixes; got {get!r}{hint(get, GETTERS)}"
            )
        return GETTERS[get](copies)
    if not callable(get):
        raise TypeError(f"get is a function of an address, or a name; got {get!r}")
    if not has_ranges and _takes(get, 1):  # others may be options, as those of np.load
        return functools.partial(_called, get)
    if not _takes(get, 3):
        why = " as the index has a column 'offset'" if has_ranges else ""
        raise TypeError(f"get is called with (url, offset, length){why}; {get!r} cannot be")
    return functools.partial(_called_with_all, get)


def _called(get: Callable[[str], Any], place: Place) -> Any:
    return get(place.url)


def _called_with_all(get: Callable[[str, int | None, int | None], Any], place: Place) -> Any:
    return get(*place[:3])


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with so many arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except (TypeError, ValueError):  # it cannot, or is a builtin without a signature
        return False
    return True
