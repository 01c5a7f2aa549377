"""Where the items of an index are: the address of each, and perhaps which of its bytes."""

from __future__ import annotations

import os
import urllib.parse
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import rows_of
from dataview.errors import shortened
from dataview.plan.build import field
from dataview.plan.gaps import masks_in
from dataview.plan.kinds import known_shape
from dataview.plan.node import Node
from dataview.sources import Place as Elsewhere
from dataview.sources import inside, is_url, is_web, local_path

PAGE = 1 << 10
"""So many rows of an index are read together when one of them is asked for."""

PAGES = 1 << 10
"""So many of these are kept."""


SAFE = "/!$&'()*+,;=:@~"
"""The signs that stand for themselves in the path of a URL; of others web servers read codes."""


class Place(NamedTuple):
    """The address of an item, and which of the bytes there are the item; None for all of them.

    `reach` says how an address elsewhere is reached.
    """

    url: str
    offset: int | None = None
    length: int | None = None
    reach: Elsewhere = Elsewhere("")

    def elsewhere(self) -> Elsewhere:
        """Return the place of the whole file."""
        return self.reach._replace(url=self.url)

    def __str__(self) -> str:
        if self.offset is None:
            return self.url
        length = "" if self.length is None else f", {self.length} bytes"
        return f"{self.url} (from byte {self.offset}{length})"


class Addresses(NamedTuple):
    """How the address of an item is made of its name.

    `prefix` is what stands before it; names that lead out of the folder `within` are refused.
    """

    prefix: str = ""
    within: str | None = None
    params: str = ""
    reach: Elsewhere = Elsewhere("")

    def of(self, name: str) -> str:
        """Return the address of a name.

        >>> Addresses("http://a.b/c", None, "x=1").of("1"), Addresses("/a").of("1")
        ('http://a.b/c/1?x=1', '/a/1')
        >>> Addresses("", None, "x=1").of("http://a.b/c?y=2#top")
        'http://a.b/c?y=2&x=1#top'
        >>> Addresses("http://a.b/c").of("50 % off?#1.png")
        'http://a.b/c/50%20%25%20off%3F%231.png'
        """
        if is_url(name):
            found = local_path(name) or name
            self._check_inside(name, local_path(name.rpartition("::")[2]) or found)
        elif is_url(self.prefix):
            told = urllib.parse.quote(name, SAFE) if is_web(self.prefix) else name
            found = inside(self.prefix, told.lstrip("/"))
        else:
            found = os.path.join(self.prefix, name)
            self._check_inside(name, found)
        if not self.params:
            return found
        if not is_url(found):
            raise ValueError(
                f"url_params= are for items with URLs, and {found} is a file of this machine; "
                "leave them out, or give the URL before the names as prefix="
            )
        url, sign, place = found.partition("#")
        return f"{url}{'&' if '?' in url else '?'}{self.params}{sign}{place}"

    def _check_inside(self, name: str, place: str) -> None:
        """Raise if a name leads out of the folder of the index, be it by a chain of URLs."""
        is_elsewhere = is_url(place) and is_url(place.rpartition("::")[2])
        if self.within is None or is_elsewhere:
            return
        own = os.path.normpath(self.within).rstrip(os.sep) + os.sep
        if not name or "\0" in name or not os.path.normpath(place).startswith(own):
            raise ValueError(
                f"the name {shortened(repr(name))} leads out of the folder of the index, "
                f"{self.within}; prefix= gives the folder that names begin at, as in prefix='/' "
                "for files anywhere"
            )


def params_text(params: Mapping[str, Any] | None) -> str:
    """Return the parameters of URLs as these have them, sorted by key.

    >>> params_text({"c": "three", "a": 1, "d": True})
    'a=1&c=three&d=true'
    """
    if params is None:
        return ""
    if not isinstance(params, Mapping):
        raise TypeError(f"url_params= is a mapping, such as {{'size': 128}}; got {params!r}")
    for key, value in params.items():
        if not isinstance(key, str) or not isinstance(value, (str, int, float, np.generic)):
            raise TypeError(
                f"parameters of URLs have names, and are texts or numbers; got {key!r}: {value!r} "
                "in url_params="
            )
    told = {key: str(value).lower() if isinstance(value, bool) else value
            for key, value in params.items()}  # fmt: skip
    return urllib.parse.urlencode(sorted(told.items()))


SPAN = ("offset", "length")
"""The columns that say which bytes of a file are an item."""


def _check_whole(table: Node, path: str) -> None:
    """Raise if offsets or lengths are no numbers."""
    for name in SPAN:
        dtype = field(table, name).dtype if name in table.fields else None
        if dtype is not None and dtype.kind not in "iuf":
            raise ValueError(
                f"column {name!r} of {path} has {dtype}, and it is to have numbers of bytes; "
                "rename it if it is something else"
            )


def _whole(values: np.ndarray, key: str) -> list[int | None]:
    """Return numbers of a column with gaps as integers, None for NaN.

    >>> _whole(np.array([3.0, np.nan]), "offset")
    [3, None]
    """
    are_whole = np.isfinite(values) & (np.trunc(values) == values)
    wrong = values[~are_whole & ~np.isnan(values)]
    if len(wrong):
        raise ValueError(f"{key} is a number of bytes; got {wrong[0]}")
    return [None if value != value else int(value) for value in values.tolist()]


class Places:
    """The places of all items of an index, by their numbers; they are read when they are needed.

    `path` is what the index is called in errors.
    """

    def __init__(self, path: str, table: Node, name: str, addresses: Addresses) -> None:
        self.path, self.table, self.addresses = path, table, addresses
        self._pages: OrderedDict[int, list[tuple[Any, ...]]] = OrderedDict()
        masks = masks_in(table.fields)
        _check_whole(table, path)
        wanted = {"name": name, "offset": "offset", "length": "length"}
        self._columns = {
            key: (field(table, own), masks.get(own))
            for key, own in wanted.items()
            if own in table.fields
        }

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_pages": OrderedDict()}

    def __len__(self) -> int:
        return known_shape(self._columns["name"][0])[0]

    @property
    def has_ranges(self) -> bool:
        """Whether items are parts of files."""
        return "offset" in self._columns

    def of(self, numbers: np.ndarray) -> list[Place]:
        """Return the places of some items."""
        cells = zip(self._cells(numbers), numbers.tolist(), strict=True)
        return [self._place(own, number) for own, number in cells]

    def _cells(self, numbers: np.ndarray) -> list[tuple[Any, ...]]:
        """Return what the index says of some items: name, offset and length."""
        wanted = ("name", "offset", "length")[: 3 if self.has_ranges else 1]
        return [*zip(*(self._read(key, numbers) for key in wanted), strict=True)]

    def _place(self, cells: tuple[Any, ...], number: int) -> Place:
        name, offset, length = (*cells, None, None)[:3]
        if name is None:
            raise ValueError(f"row {number} of {self.path} names no file")
        try:
            url = self.addresses.of(str(name))
        except ValueError as error:
            raise ValueError(f"row {number} of {self.path}: {error}") from None
        return Place(url, offset, length, self.addresses.reach)

    def _read(self, key: str, numbers: np.ndarray) -> list[Any]:
        """Return the cells of a column, None for those that are missing."""
        if key not in self._columns:
            return [None] * len(numbers)
        column, mask = self._columns[key]
        values = np.asarray(rows_of(column, numbers))
        cells: list[Any] = _whole(values, key) if values.dtype.kind == "f" else values.tolist()
        if mask is None:
            return cells
        present = rows_of(field(self.table, mask), numbers).tolist()
        return [cell if there else None for cell, there in zip(cells, present, strict=True)]

    def at(self, number: int) -> Place:
        """Return the place of an item; rows near it are read with it."""
        page, within = divmod(number, PAGE)
        found = self._pages.get(page)
        if found is None:
            stop = min(len(self), (page + 1) * PAGE)
            found = self._pages[page] = self._cells(np.arange(page * PAGE, stop))
            while len(self._pages) > PAGES:
                self._pages.popitem(last=False)
        return self._place(found[within], number)

    def where(self, number: int) -> str:
        """Return what an item is called in errors."""
        row = f"row {number} of {self.path}"
        try:
            return f"{self.at(number)}, {row}"
        except ValueError:  # what it is asked for says so
            return row
