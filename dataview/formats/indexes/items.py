"""The items of an index as a field: decoded by their suffixes, or what a getter returns."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from dataview.formats.indexes.getters import (
    Get,
    as_file,
    content,
    contents,
    got_together,
    nothing_at,
    opened,
    text,
)
from dataview.formats.indexes.places import Places
from dataview.formats.media.decoders import Member, decoder_of, kind_of
from dataview.formats.media.folders import suffix_of
from dataview.formats.media.rows import (
    SAMPLES,
    LookedUp,
    Rows,
    fact_source,
    headers_read,
    in_threads,
    looked_at,
    node_of_rows,
    rows_of,
)
from dataview.plan.build import stored
from dataview.plan.node import Node
from dataview.sources import Opening, folder_and_name, is_url, made_so_far

ITEM = "item"
"""The field of what was got."""

DECODING = ("kind", "headers", "ragged", "image_mode", "upright", "mono", "most_bytes")
"""The options of items that are decoded by their suffixes."""

FIELDS = {
    "bytes": np.dtype(object),
    "text": np.dtypes.StringDType(),
    "files": np.dtypes.StringDType(),
}
"""What the getters with names return."""


NOTHING: Mapping[int, Any] = MappingProxyType({})

# --- kept for a request --------------------------------------------------------------------------


def keep_for_request(maker: Any, found: Mapping[int, Any]) -> None:
    """Keep what was got, or its error, for a request some of which failed.

    Which items failed is then found out without getting the others again.
    """
    made = made_so_far()
    if made is not None:
        for number, one in found.items():
            made.keep(maker, (number,), (one,))


def kept_of(maker: Any, numbers: Sequence[int]) -> dict[int, Any]:
    """Return what was kept of some items."""
    made = made_so_far()
    if made is None:
        return {}
    kept = {number: made.find(maker, (number,)) for number in numbers}
    return {number: one[0] for number, one in kept.items() if one is not None}


# --- decoded by suffix ---------------------------------------------------------------------------


class Files:
    """The items of an index as files for a decoder; of some elsewhere the bytes are `here`."""

    def __init__(
        self, places: Places, here: Mapping[int, bytes | Exception | None] = NOTHING
    ) -> None:
        self.places, self.here = places, here

    def __len__(self) -> int:
        return len(self.places)

    def path(self, number: int) -> str:
        """Return the path of a file, or what stands for it and is opened otherwise."""
        place = self.places.at(number)
        if place.offset is None and not is_url(place.url):
            return place.url
        found = Member(place.url)
        if number in self.here:
            found.opened = functools.partial(as_file, place, self.here[number])
        else:
            found.opened = functools.partial(opened, place)
        return found

    def near(self, numbers: Sequence[int]) -> Files:
        """Return the same files, of which some that are elsewhere are brought now, together."""
        try:
            places = zip(numbers, self.places.of(np.array(numbers)), strict=True)
        except Exception:  # each row tells its own when it is opened
            return self
        far = {number: place for number, place in places if is_url(place.url)}
        here = kept_of(self.places, [*far])
        left = [number for number in far if number not in here]
        brought = contents([far[number] for number in left])
        return Files(self.places, {**here, **dict(zip(left, brought, strict=True))})

    def keep(self) -> None:
        """Have the request know what was brought for it."""
        keep_for_request(self.places, self.here)

    def where(self, number: int) -> str:
        """Return what a file is called in errors."""
        return self.places.where(number)


def decoded(places: Places, opening: Opening, options: Mapping[str, Any]) -> Rows:
    """Return the items as rows of decoded files; the headers of some are read."""
    given = dict(options)
    kind, which = given.pop("kind", None), given.pop("headers", "few")
    ragged = given.pop("ragged", None)
    if not len(places):
        raise ValueError(f"{places.path} names no files, so that nothing tells what is in them")
    few = np.unique(np.linspace(0, len(places) - 1, SAMPLES).astype(int))
    urls = [place.url for place in places.of(few)]
    decoder = decoder_of(_kind(urls, places.path) if kind is None else kind, given)
    files = Files(places)
    is_near = not places.has_ranges and not any(map(is_url, urls))
    numbers = looked_at(len(places), which, decoder) if is_near or which != "few" else few.tolist()
    return rows_of(files, decoder, opening, headers_read(files, decoder, numbers), ragged)


def _kind(urls: list[str], path: str) -> str:
    """Return the kind of files, as the names of some of them tell it."""
    names = [folder_and_name(url.partition("?")[0])[1] if is_url(url) else url for url in urls]
    found = [kind_of(suffix_of(name)) for name in names]
    known = [kind for kind in found if kind is not None]
    if not known:
        raise ValueError(
            f"{path}: nothing decodes files as {urls[0]}; get='bytes' gets their bytes, a function "
            "whatever it returns, and kind= says what they are"
        )
    return max(known, key=known.count)


def decoded_fields(rows: Rows) -> dict[str, Node]:
    """Return the fields of decoded files: what is in them, and what their headers say."""
    facts = {name: stored(fact_source(rows, dtype)) for name, dtype in rows.decoder.facts.items()}
    return {ITEM: node_of_rows(rows), **facts}


def decoded_together(rows: Rows, numbers: Sequence[int]) -> list[Callable[[], Any]]:
    """Return what returns the contents of each of some files, which are decoded now."""
    near = rows.near(numbers)

    def attempt(number: int) -> Any:
        try:
            return decoded_at(near, number)
        except Exception as error:
            return error

    return [functools.partial(_result, one) for one in in_threads(attempt, numbers)]


def decoded_at(rows: Rows, number: int) -> Any:
    """Return what is in a file, None if there is none; a single value, as a text, is no array."""
    try:
        return rows.decoded(number)[()]
    except FileNotFoundError:
        return None


# --- got -----------------------------------------------------------------------------------------


def got_at(places: Places, get: Get, number: int) -> Any:
    """Return what a getter returns for an item."""
    return get(places.at(number))


def together_at(places: Places, get: Get, numbers: Sequence[int]) -> list[Callable[[], Any]]:
    """Return what returns each of some items, which a getter of this package gets now."""
    one_by_one = [functools.partial(got_at, places, get, number) for number in numbers]
    try:
        wanted = places.of(np.array(numbers))
    except ValueError:  # a name leads out of the folder, say
        return [*one_by_one]
    found = zip(got_together(get, wanted), one_by_one, strict=True)
    if get is content or get is text:
        return [functools.partial(_result, one) for one, _ in found]
    return [functools.partial(_copy, one, again) for one, again in found]


def _result(found: Any) -> Any:
    """Return what was got, or raise why it was not."""
    if isinstance(found, Exception):
        raise found
    return found


def _copy(found: Any, again: Callable[[], Any]) -> Any:
    """Return the path of a file; where there is no room for all copies, some are made again."""
    is_gone = isinstance(found, str) and not os.path.exists(found)
    had_no_room = isinstance(found, OSError) and found.errno == errno.ENOSPC
    return again() if is_gone or had_no_room else _result(found)


def got_fields(places: Places, get: Get, name: str, opening: Opening) -> dict[str, Node]:
    """Return the field of what a getter with a name returns."""
    find: Callable[[np.ndarray], Any] = functools.partial(_found, places, get)
    return {ITEM: stored(LookedUp(find, len(places), FIELDS[name], opening))}


def _found(places: Places, get: Get, numbers: np.ndarray) -> list[Any]:
    """Return what a getter returns for some items, or raise if there is nothing at one."""
    wanted = numbers.tolist()
    found = kept_of(get, wanted)
    left = [number for number in dict.fromkeys(wanted) if number not in found]
    found |= zip(left, got_together(get, places.of(np.array(left, np.intp))), strict=True)
    if any(one is None or isinstance(one, Exception) for one in found.values()):
        keep_for_request(get, found)
    for number in wanted:
        if found[number] is None:
            raise nothing_at(places.where(number))
        _result(found[number])
    return [found[number] for number in wanted]


def urls_of(places: Places, numbers: np.ndarray) -> list[str]:
    """Return the addresses of some items."""
    return [place.url for place in places.of(numbers)]
