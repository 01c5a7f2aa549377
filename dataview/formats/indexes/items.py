"""The items of an index as a field: decoded by their suffixes, or what a getter returns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dataview.formats.indexes.getters import Get, content, contents, nothing_at, opened
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
from dataview.sources import Opening, is_url

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


# --- decoded by suffix ---------------------------------------------------------------------------


class Files:
    """The items of an index as files for a decoder."""

    def __init__(self, places: Places) -> None:
        self.places = places

    def __len__(self) -> int:
        return len(self.places)

    def path(self, number: int) -> str:
        """Return the path of a file, or what stands for it and is opened otherwise."""
        place = self.places.at(number)
        if place.offset is None and not is_url(place.url):
            return place.url
        found = Member(place.url)
        found.opened = functools.partial(opened, place)
        return found

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
    found = [kind_of(suffix_of(url.partition("?")[0] if is_url(url) else url)) for url in urls]
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


def decoded_at(rows: Rows, number: int) -> np.ndarray | None:
    """Return what is in a file, None if there is none."""
    try:
        return rows.decoded(number)
    except FileNotFoundError:
        return None


# --- got -----------------------------------------------------------------------------------------


def got_at(places: Places, get: Get, number: int) -> Any:
    """Return what a getter returns for an item."""
    return get(places.at(number))


def got_fields(places: Places, get: Get, name: str, opening: Opening) -> dict[str, Node]:
    """Return the field of what a getter with a name returns."""
    find: Callable[[np.ndarray], Any] = functools.partial(_found, places, get)
    return {ITEM: stored(LookedUp(find, len(places), FIELDS[name], opening))}


def _found(places: Places, get: Get, numbers: np.ndarray) -> list[Any]:
    """Return what a getter returns for some items, or raise if there is nothing at one."""
    wanted = places.of(numbers)
    if get is content:
        found: list[Any] = contents(wanted)
    else:
        found = in_threads(lambda number: get(wanted[number]), range(len(wanted)))
    for place, one in enumerate(found):
        if one is None:
            raise nothing_at(places.where(int(numbers[place])))
    return found


def urls_of(places: Places, numbers: np.ndarray) -> list[str]:
    """Return the addresses of some items."""
    return [place.url for place in places.of(numbers)]
