"""Indexes opened as views: the columns of a table, addresses, labels, and the items themselves."""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.formats.elsewhere import Way, way_in
from dataview.formats.indexes import items
from dataview.formats.indexes.getters import LastCopies, getter_of
from dataview.formats.indexes.labels import in_label_order, label_columns, labels_node
from dataview.formats.indexes.places import Places, params_text
from dataview.formats.indexes.tables import Faces, How, is_of_texts, table_of
from dataview.formats.media.rows import LookedUp
from dataview.index import identity
from dataview.plan.build import field, record, stored
from dataview.plan.fields import read_only_meta
from dataview.plan.gaps import LABELS
from dataview.plan.kinds import Record
from dataview.plan.node import Node
from dataview.samples import Items, NumberedSamples, Pairing
from dataview.sources import Opening
from dataview.tables import coded

ORDERS = ("file", "label")


class _Index(NamedTuple):
    """An index that was opened: the fields that it has, its items, and the fields of these.

    There are no fields of items that a user's function makes.
    """

    fields: dict[str, Node]
    items: Items
    made: Mapping[str, Node]


def open_indexes(
    sources: Sequence[Any],
    faces: Faces,
    get: Any = None,
    processor: Callable[..., Any] | None = None,
    filename: str = "filename",
    url_params: Mapping[str, Any] | None = None,
    prefix: str | os.PathLike[str] | None = None,
    order: str = "file",
    **options: Any,
) -> Node:
    """Return the record of an index and its items; of several, one item of each makes a sample.

    A source is the path of a table or of a folder, or the node of a view.
    """
    if not sources:
        raise ValueError("open takes an index, or a list of several; got an empty list")
    if order not in ORDERS:
        raise ValueError(f"order is one of {', '.join(map(repr, ORDERS))}; got {order!r}")
    if processor is not None and not callable(processor):
        raise TypeError(f"processor is a function of what was got; got {processor!r}")
    if prefix is not None and not isinstance(prefix, (str, os.PathLike)):
        raise TypeError(f"prefix= is a URL or the path of a folder; got {prefix!r}")
    prefix = None if prefix is None else os.fsdecode(prefix)
    gets = list(get) if isinstance(get, (list, tuple)) else [get] * len(sources)
    if len(gets) != len(sources):
        raise ValueError(f"get= has {len(gets)} getters for {len(sources)} indexes; give as many")
    unused = [name for name in options if name in items.DECODING and None not in gets]
    if unused:
        raise TypeError(
            f"{unused[0]}= is for items that are decoded by their suffixes, as with get=None; "
            f"got get={get!r} besides"
        )
    way = {name: options.pop(name) for name in Way._fields if name in options}
    reach = way_in(dict(way)).to()
    how = How(faces, filename, params_text(url_params), prefix, order, way, reach, options)
    indexes = [_index(source, own, how) for source, own in zip(sources, gets, strict=True)]
    first = indexes[0]
    made = first.made
    if not made or processor is not None or len(indexes) > 1:
        pairing = Pairing([index.items for index in indexes], processor)
        count = first.items.total
        made = {items.ITEM: NumberedSamples(pairing, count, identity((count,)), faces.sample)}
    return record(_joined(first.fields, made), 1)


def _index(source: Any, get: Any, how: How) -> _Index:
    """Return an index: a table with the names of its items, or the rows of any data."""
    path, table, addresses = table_of(source, how)
    if table.count is None:
        raise ValueError(
            f"{path} has no rows with numbers, which the items have: rows of text are counted "
            "with manifest=True, and _map(function) calls a function with the rows of a stream"
        )
    if how.filename not in table.fields and get is not None and is_of_texts(table):
        table = record({how.filename: table}, 1)
    if how.filename not in table.fields:
        return _rows(path, table, get, how)
    if how.order == "label":
        table = in_label_order(table, how.filename)
    places = Places(path, table, how.filename, addresses)
    copies = LastCopies()
    opening = Opening(path, copies)
    url = LookedUp(functools.partial(items.urls_of, places), len(places), _TEXTS, opening)
    columns = {name: field(table, name) for name in table.fields}
    fields = _joined(columns, {"url": stored(url), **_targets(table, how.faces)})
    where = places.where
    together: Callable[[Sequence[int]], Any] | None = None
    if get is None:
        wanted = {name: how.options[name] for name in items.DECODING if name in how.options}
        rows = items.decoded(places, opening, wanted)
        got = functools.partial(items.decoded_at, rows)
        together = functools.partial(items.decoded_together, rows)
        made = items.decoded_fields(rows)
    else:
        getter = getter_of(get, places.has_ranges, copies)
        got = functools.partial(items.got_at, places, getter)
        is_own = isinstance(get, str)  # a user's function is called for one item after the other
        together = functools.partial(items.together_at, places, getter) if is_own else None
        made = items.got_fields(places, getter, get, opening) if is_own else {}
    parts = (*fields.values(), *made.values())
    return _Index(fields, Items(len(places), got, where, table, parts, together), made)


_TEXTS = np.dtypes.StringDType()


def _rows(path: str, table: Node, get: Any, how: How) -> _Index:
    """Return an index whose items are the rows of data themselves."""
    if get is not None:
        raise ValueError(
            f"{path} has no column {how.filename!r} with the names of items to get; filename= "
            f"names another one; its columns are: {', '.join(table.fields) or 'none'}"
        )
    assert table.count is not None
    view = how.faces.to_view(table)
    is_record = isinstance(table, Record)
    fields = {name: field(table, name) for name in table.fields} if is_record else {}
    got = functools.partial(operator.getitem, view)
    where = functools.partial(_row_of, path)
    return _Index(fields, Items(table.count, got, where, table, (table,)), {})


def _row_of(path: str, number: int) -> str:
    return f"row {number} of {path}"


def _joined(columns: Mapping[str, Node], more: Mapping[str, Node]) -> dict[str, Node]:
    """Return fields together, or raise if a name is there twice."""
    twice = [name for name in more if name in columns]
    if twice:
        raise ValueError(
            f"the index has a column {twice[0]!r}, and the view has a field of this name beside "
            f"the columns; rename the column, or open the table without the options of indexes"
        )
    return {**columns, **more}


# --- labels --------------------------------------------------------------------------------------


def _targets(table: Node, faces: Faces) -> dict[str, Node]:
    """Return the labels of several columns side by side, and the codes of labels.

    The codes are the same in every part of the view, -1 where there is no label.
    """
    names = label_columns(table)
    if not names or any(len(field(table, name).shape or ()) != 1 for name in names):
        return {}
    labels = labels_node(table, names)
    codes, known = coded(labels, None)
    codes = codes.replaced(meta=read_only_meta({**codes.meta, LABELS: faces.to_view(known)}))
    return {"target": codes} if len(names) == 1 else {"labels": labels, "target": codes}
