"""How many rows each part has: as a manifest says, or as the parts say when they are opened."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any, NamedTuple

from dataview.errors import warn
from dataview.formats.contents import NoRows
from dataview.formats.parts import manifest
from dataview.formats.parts.columns import (
    kinds_of,
    labels_of,
    labels_together,
    rows_in,
    unread_of,
)
from dataview.formats.parts.listing import File, Listing, listed
from dataview.formats.parts.manifest import Reasons
from dataview.formats.tables import Kind, Name
from dataview.plan.node import Node
from dataview.sources import Opening, Place, WholeOnly, from_here, is_url, shown

AT_ONCE = 16
"""So many parts are opened at the same time to be counted: most of that is waiting."""

Schema = Mapping[Name, Kind]
Fact = tuple[int, Schema]
"""How many rows a part has, and what its columns are."""


WITH_GAPS = ("json", "json lines")
"""The formats of which a part may lack a column without being asked: it has no such keys."""


class How(NamedTuple):
    """Which files are parts, how they are opened, and what the user wants of them.

    `paths` is a folder, or paths of files; `reach` says how those elsewhere are reached.
    `reads_all` says that opening a part reads all of it, `may_have_gaps` that values may be missing
    in it.  `schema` is what the user says of columns that differ, None if nothing: see `joined_by`.
    `fill` stands for missing values.
    """

    paths: str | tuple[str, ...]
    suffixes: tuple[str, ...]
    format: str
    open: Callable[..., Node]
    options: Mapping[str, Any]
    reads_all: bool
    may_have_gaps: bool
    reach: Place
    kept_bytes: int
    schema: str | None
    manifest: bool | None
    max_parts: int | None
    partition: tuple[int, int] | None
    opening: Opening
    fill: Any

    @property
    def noted(self) -> str:
        """The path of the manifest, which need not be there."""
        return manifest.place_of(self.paths, self.reach)

    def listed(self) -> Listing:
        """Return all parts that there are now."""
        return listed(self.paths, self.suffixes, self.reach).seen(self.reach)

    def first_of(self, listing: Listing) -> Listing:
        """Return as many of the parts as are wanted, the first ones."""
        return listing.only(range(len(listing.files))[: self.max_parts])

    @property
    def may_differ(self) -> bool:
        """Whether parts may have columns, or masks of them, that others do not have."""
        return self.may_have_gaps or self.schema == "union"

    def joined_by(self, are_counted: bool) -> str:
        """Return what is done about columns that differ: `schema`, where that is given.

        Without it they may not differ; but of rows in JSON, which need not have all keys, those of
        all parts are taken if all are known.
        """
        if self.schema is None:
            return "union" if are_counted and self.format in WITH_GAPS else "same"
        return self.schema


Labels = Mapping[Name, list[object]]
"""What the codes of columns stand for."""


class Counted(NamedTuple):
    """Listed parts with how many rows each has, and which of some schemas.

    `models` are the first files that have each schema, and `labels` are what codes stand for, in
    all parts that were looked at, of which these may be some.  `unread` says of some of these why
    they have columns that cannot be read.
    """

    listing: Listing
    rows: tuple[int, ...]
    schemas: tuple[Schema, ...]
    which: tuple[int, ...]
    models: tuple[File, ...]
    labels: Labels
    unread: Mapping[File, Reasons]

    def facts(self) -> dict[File, Fact]:
        """Return what is known of each file."""
        own = zip(self.listing.files, self.rows, self.which, strict=True)
        return {file: (rows, self.schemas[which]) for file, rows, which in own}

    def only(self, numbers: range) -> Counted:
        """Return some of the parts; where there are none, no rows of the first one.

        What the columns of all parts are stays known, so that every partition has the same columns.
        """
        if not numbers:
            return self._replace(listing=self.listing.only(range(1)), rows=(0,), which=(0,))
        rows = tuple(self.rows[number] for number in numbers)
        which = tuple(self.which[number] for number in numbers)
        return self._replace(listing=self.listing.only(numbers), rows=rows, which=which)


class _Looked(NamedTuple):
    """What an opened part says of itself; it stays open if it is the first one."""

    fact: Fact
    labels: Labels = MappingProxyType({})
    unread: Reasons = MappingProxyType({})
    first: Node | None = None


def looked_at(how: How, path: str) -> Node:
    """Open a part for what it says of itself; of one elsewhere the header is enough."""
    if is_url(path) and not how.reads_all:
        with contextlib.suppress(WholeOnly):
            return how.open(path, keep=False)
    return how.open(path)


def opened_part(how: How, path: str) -> tuple[Node | None, Fact]:
    """Open a part, and return what it says of itself; of a text without rows that is nothing."""
    try:
        node = looked_at(how, path)
    except NoRows:
        return None, (0, {})
    kinds = kinds_of(node, shown(path))
    return node, (rows_in(node), kinds)


def counted(
    how: How, listing: Listing, known: Counted | None = None
) -> tuple[Counted, Node | None] | None:
    """Return the rows of parts, and the first part if it was opened for that.

    Of listed parts it is the first ones if only so many are wanted, but all of a union that a
    manifest tells: it has the columns of all parts, of whichever of them rows are wanted.
    None is returned if that would read all, and nobody has asked for it.  `known` is what was found
    out before, else the manifest is asked: who goes by neither opens all parts, so that those
    elsewhere are not looked at before.
    """
    if how.manifest:
        manifest.as_noted(how.options)  # who cannot have one is told before all is read
    listing, (noted, labels, unread) = _looked_up(how, listing, known)
    if noted is not None or how.manifest:
        listing = listing.seen(how.reach)
    places = [n for n, file in enumerate(listing.files) if noted is None or file not in noted]
    if noted is None and how.reads_all and not how.manifest:
        return None
    if places and known is None and noted is not None and not how.manifest:
        first = listing.files[places[0]].name
        several = f"{len(places)} parts were counted anew, of which {first} is the first"
        warn(
            f"the manifest of {shown(from_here(listing.folder))} is out of date: "
            f"{several if len(places) > 1 else f'{first} was counted anew'}; "
            "manifest=True makes a new one"
        )

    def look(number: int) -> _Looked:
        node, fact = opened_part(how, listing.path(number))
        if node is None:
            return _Looked(fact)
        return _Looked(fact, labels_of(node), dict(unread_of(node)), None if number else node)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(look, places))
    fresh = {listing.files[n]: one.fact for n, one in zip(places, found, strict=True)}
    facts = {**(noted or {}), **fresh}
    labels = labels_together([labels, *(one.labels for one in found)])
    schemas = [facts[file][1] for file in listing.files]
    own = {listing.files[n]: one.unread for n, one in zip(places, found, strict=True)}
    every = {**unread, **own}
    unread = {file: every[file] for file in listing.files if every.get(file)}
    for file, why in unread.items():
        _check_readable(listing.path_of(file), why, schemas)
    whole = _together(listing, [facts[file] for file in listing.files], labels, unread)
    if how.manifest and places:
        told = (whole.rows, whole.schemas, whole.which)
        manifest.write(how.noted, listing.files, told, labels, unread, how.format, how.options)
    return whole, found[0].first if found else None


def _check_readable(path: str, unread: Reasons, schemas: Sequence[Schema]) -> None:
    """Raise if a part has columns that others have, and it cannot be read: they are not missing."""
    for name, why in unread.items():
        if any(own[: len(name)] == name for schema in schemas for own in schema):
            raise ValueError(
                f"{shown(path)} is no part: field {'.'.join(name)!r} is not readable there "
                f"({why}), and other parts have it; mend that file, or give paths without it"
            )


_Before = tuple[Mapping[File, Fact] | None, Labels, Mapping[File, Reasons]]
"""What is known of files, of labels, and of columns that cannot be read; None for nothing."""

_NOTHING: _Before = None, {}, {}


def _looked_up(how: How, listing: Listing, known: Counted | None) -> tuple[Listing, _Before]:
    """Return which of listed parts are to be counted, and what is known of some already."""
    is_of_all = how.max_parts is not None and how.joined_by(are_counted=True) == "union"
    noted = _noted(how) if known is None or is_of_all else _NOTHING
    if not is_of_all or noted[0] is None:
        listing = how.first_of(listing)
    if known is None:
        return listing, noted
    return listing, ({**(noted[0] or {}), **known.facts()}, known.labels, known.unread)


def _noted(how: How) -> _Before:
    """Return what the manifest says of parts, nothing if there is none of parts opened so."""
    if how.manifest is False or not os.path.isfile(how.noted):
        return _NOTHING
    try:
        known = manifest.read(how.noted)
    except manifest.BrokenManifest:
        if how.manifest:  # a new one is made
            return _NOTHING
        raise
    is_same = known.format == how.format and _are_noted(known.options, how.options)
    return (known.parts, known.labels, known.unread) if is_same else _NOTHING


def _are_noted(noted: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Whether a manifest has these options, of which some are not noted in any."""
    with contextlib.suppress(TypeError):
        return noted == manifest.as_noted(options)
    return False


def _together(
    listing: Listing, facts: Sequence[Fact], labels: Labels, unread: Mapping[File, Reasons]
) -> Counted:
    """Return parts with their rows; parts of one schema share it.

    Text without rows does not say what its columns are, so that these are as those of others.
    """
    schemas: list[Schema] = []
    which = []
    known = next((schema for rows, schema in facts if rows), None)
    for rows, own in facts:
        is_like = known is not None and not rows and own.keys() <= known.keys()
        schema = known if is_like and known is not None else own
        if schema not in schemas:
            schemas.append(schema)
        which.append(schemas.index(schema))
    counts = tuple(rows for rows, _ in facts)
    # The last one stays: of each schema the first file with rows, else the first one.
    order = sorted(range(len(which)), key=lambda number: (counts[number] > 0, -number))
    model_of = {which[number]: listing.files[number] for number in order}
    models = tuple(model_of[number] for number in range(len(schemas)))
    return Counted(listing, counts, tuple(schemas), tuple(which), models, labels, unread)
