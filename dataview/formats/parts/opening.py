"""Folders and lists of parts opened as views, and opened again for parts that have appeared."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dataview.formats.contents import NoRows
from dataview.formats.parts.columns import kinds_of, metas_of
from dataview.formats.parts.counting import Counted, How, counted, looked_at
from dataview.formats.parts.listing import Listing
from dataview.formats.parts.loaded import PartsTable
from dataview.formats.parts.partition import of_partition
from dataview.formats.parts.stream import PartSamples, stream_of_parts
from dataview.formats.parts.views import node_of_parts
from dataview.formats.tables import NOTHING, Kind, Name, check_schema
from dataview.index import is_integer
from dataview.plan.kinds import LateStored, Record, Stored
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.plan.walk import below
from dataview.samples import Stream, pool_of
from dataview.sources import Opening, Place, shown

PARTS_OPTIONS = ("parts_in_memory", "manifest", "schema", "max_parts")
"""The options of folders of parts, beside those of the format that the parts have."""

KEPT_BYTES = 512 << 20


def open_parts(
    whole: Listing,
    paths: str | Sequence[str],
    suffixes: tuple[str, ...],
    format: str,
    open_part: Callable[[str], Node],
    options: Mapping[str, Any],
    reads_all: bool,
    may_have_gaps: bool,
    reach: Place,
    partition: tuple[int, int] | None = None,
    parts_in_memory: int | str | None = None,
    manifest: bool | None = None,
    schema: str | None = None,
    max_parts: int | None = None,
    fill: Any = None,
) -> Node:
    """Return the rows of listed parts: by their numbers if these are counted, else as a stream.

    `open_part` opens a part, which has `options`; `reads_all` says that this reads all of it,
    `may_have_gaps` that values may be missing in it, and `reach` how parts elsewhere are reached.
    `fill` stands for missing values, also of columns that a part lacks.
    """
    if schema is not None:
        check_schema(schema)
    if max_parts is not None and (not is_integer(max_parts) or max_parts < 1):
        raise ValueError(f"max_parts= is a number of parts, from 1 on; got {max_parts!r}")
    place = paths if isinstance(paths, str) else tuple(paths)
    if manifest and max_parts is not None:
        raise ValueError("a manifest is one of all parts; leave manifest=True or max_parts= out")
    kept = parts_bytes(parts_in_memory)
    opening = Opening(shown(place if isinstance(place, str) else place[0]))
    asked = (reach, kept, schema, manifest, max_parts, partition, opening, fill)
    how = How(place, suffixes, format, open_part, options, reads_all, may_have_gaps, *asked)
    return _opened(how, whole)


def parts_bytes(given: int | str | None) -> int:
    """Return how many bytes of parts are kept in memory: a number, or a text such as "64MB"."""
    if given is None:
        return KEPT_BYTES
    if not isinstance(given, str) and (not is_integer(given) or given < 1):
        raise ValueError(
            f"parts_in_memory= is a number of bytes, from 1 on, or a text like '64MB'; "
            f"got {given!r}"
        )
    return pool_of(given).size


def _opened(how: How, listing: Listing, known: Counted | None = None) -> Node:
    """Return the view of listed parts; `known` is what was found out about some before."""
    whole = how.first_of(listing)
    share = of_partition(how.partition, len(whole.files))
    is_own = share and not how.manifest and not how.may_differ
    found = counted(how, whole.only(share) if is_own else listing, known)
    if found is not None and found[0].labels and is_own:  # those of all parts are numbered
        is_own, found = False, counted(how, listing, known)
    if found is None:
        if how.joined_by(are_counted=False) == "union":
            place = shown(whole.folder) or "the list"
            raise ValueError(
                f"schema='union' needs the columns of all parts in {place}, and of the format "
                f"{how.format!r} these are known once all were read; manifest=True does so once"
            )
        whole = whole.seen(how.reach)
        return stream_of_parts(how, whole, whole.only(share))
    how = how._replace(schema=how.joined_by(are_counted=True))
    these, first = found
    table = PartsTable(these if is_own else these.only(share), how)
    if first is None or (is_own and share[0]):  # it is not the first part of all
        first = _first_opened(how, whole)
    return node_of_parts(table, first, _metas_of_others(how, table, first))


def _metas_of_others(how: How, table: PartsTable, first: Node) -> dict[Name, Mapping[str, Any]]:
    """Return the metadata of columns of which the first part does not say what they are.

    It lacks them, or has no value of them; the first part that tells it has the metadata, too.
    """
    kinds = kinds_of(first, table.title)
    unknown = {name for name in table.kinds if not _tells(kinds, name)}
    found: dict[Name, Mapping[str, Any]] = {}
    for schema, model in zip(table.these.schemas, table.these.models, strict=True):
        own = {name for name in unknown if _tells(schema, name)}
        if own:
            metas = metas_of(looked_at(how, table.these.listing.path_of(model)))
            found.update((name, metas[name]) for name in own & metas.keys())
            unknown -= own
    return found


def _tells(schema: Mapping[Name, Kind], name: Name) -> bool:
    """Whether columns of a part have one, and values of it."""
    return name in schema and schema[name].nature != NOTHING


def _first_opened(how: How, listing: Listing) -> Node:
    """Return the first part that says what its columns are, or raise if none does."""
    for number in range(len(listing.files) - 1):
        with contextlib.suppress(NoRows):
            return looked_at(how, listing.path(number))
    return looked_at(how, listing.path(len(listing.files) - 1))


def refreshed(node: Node) -> Node:
    """Return the view of the parts that there are now; those that are known are not opened."""
    if isinstance(node, Stream) and isinstance(node.samples, PartSamples):
        return _opened(node.samples.how, node.samples.how.listed())
    parts = below([node])
    found = (getattr(part.source, "table", None) for part in parts if isinstance(part, Stored))
    tables = {id(table): table for table in found if isinstance(table, PartsTable)}
    is_plain = all(isinstance(part, (Record, Stored, LateStored, Ragged)) for part in parts)
    if len(tables) != 1 or not is_plain or node.label is not None:
        raise TypeError(
            "parts that have appeared are taken by a view that dv.open gave of a folder of parts; "
            "this is a part of such a view, or computed, or of other data"
        )
    table = tables.popitem()[1]
    table.how.opening.check()
    known = table.these if table.these.listing.is_seen else None
    return _opened(table.how, table.how.listed(), known)
