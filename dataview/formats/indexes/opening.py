"""Indexes opened as views: the columns of a table, addresses, labels, and the items themselves."""

from __future__ import annotations

import contextlib
import functools
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.errors import unknown_option
from dataview.formats.catalogue import opened
from dataview.formats.elsewhere import Way, way_in
from dataview.formats.indexes import items
from dataview.formats.indexes.getters import LastCopies, content, getter_of
from dataview.formats.indexes.labels import in_label_order, label_columns, labels_node
from dataview.formats.indexes.places import Addresses, Place, Places, params_text
from dataview.formats.layouts import laid_out
from dataview.formats.media.folders import walked
from dataview.formats.media.rows import LookedUp
from dataview.formats.parts import to_be_divided
from dataview.formats.texts import name_of_unpacked
from dataview.index import identity
from dataview.plan.build import field, keyed, record, stored
from dataview.plan.fields import read_only_meta
from dataview.plan.gaps import LABELS
from dataview.plan.kinds import Record
from dataview.plan.node import Node
from dataview.samples import Items, NumberedSamples, Pairing
from dataview.sources import (
    ArraySource,
    Opening,
    file_name,
    folder_and_name,
    inside,
    is_url,
    is_web,
    names_below,
    shown,
)
from dataview.sources import Place as Elsewhere
from dataview.tables import coded

INDEX_OPTIONS = frozenset({"get", "processor", "url_params", "prefix", "order", "filename"})
"""The options of indexes: what is opened with one of them is an index."""

ORDERS = ("file", "label")


class Faces(NamedTuple):
    """Makes a view of a node, and a node of a sample that a user's function returns."""

    to_view: Callable[[Node], Any]
    to_node: Callable[[Any], Node]

    def sample(self, value: Any) -> Node:
        """Return the node of a sample; bytes are an object, as in an array they lose zeros."""
        return self.to_node(np.array(value, object) if isinstance(value, bytes) else value)


class _How(NamedTuple):
    """What a user says of indexes."""

    faces: Faces
    filename: str
    params: str
    prefix: str | None
    order: str
    way: Mapping[str, Any]
    reach: Elsewhere
    options: Mapping[str, Any]


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
    how = _How(faces, filename, params_text(url_params), prefix, order, way, reach, options)
    indexes = [_index(source, own, how) for source, own in zip(sources, gets, strict=True)]
    first = indexes[0]
    made = first.made
    if not made or processor is not None or len(indexes) > 1:
        pairing = Pairing([index.items for index in indexes], processor)
        count = first.items.total
        made = {items.ITEM: NumberedSamples(pairing, count, identity((count,)), faces.sample)}
    return record(_joined(first.fields, made), 1)


def _index(source: Any, get: Any, how: _How) -> _Index:
    """Return an index: a table with the names of its items, or the rows of any data."""
    path, table, addresses = _table(source, how)
    if how.filename not in table.fields and get is not None and _is_of_texts(table):
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


def _rows(path: str, table: Node, get: Any, how: _How) -> _Index:
    """Return an index whose items are the rows of data themselves."""
    if get is not None:
        raise ValueError(
            f"{path} has no column {how.filename!r} with the names of items to get; filename= "
            f"names another one; its columns are: {', '.join(table.fields) or 'none'}"
        )
    if table.count is None:
        raise ValueError(
            f"{path} has no rows with numbers, which would be the items: rows of text are counted "
            "with manifest=True, and _map(function) calls a function with the rows of a stream"
        )
    view = how.faces.to_view(table)
    is_record = isinstance(table, Record)
    fields = {name: field(table, name) for name in table.fields} if is_record else {}
    got = functools.partial(operator.getitem, view)
    where = functools.partial(_row_of, path)
    return _Index(fields, Items(table.count, got, where, table, (table,)), {})


def _row_of(path: str, number: int) -> str:
    return f"row {number} of {path}"


def _is_of_texts(table: Node) -> bool:
    """Whether a node is a line of texts, which may be names of files."""
    shape, dtype = table.shape, table.dtype
    return shape is not None and len(shape) == 1 and dtype is not None and dtype.kind in "OUT"


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


# --- tables --------------------------------------------------------------------------------------


def _table(source: Any, how: _How) -> tuple[str, Node, Addresses]:
    """Return what an index is called, its table, and how the addresses of its items are made."""
    prefix, params = how.prefix, how.params
    if isinstance(source, Node):
        _check_options(how, "the view")
        return "the view", source, Addresses(prefix or "", None, params, how.reach)
    if is_url(source):
        has_suffix = "." in file_name(source) or "format" in how.options
        is_table = has_suffix or is_web(source)  # of which there is no list of files
        folder, given = folder_and_name(source)[0] if is_table else source, source
    else:
        given = os.path.abspath(source)
        folder = given if os.path.isdir(given) else os.path.dirname(given)
    if how.options.get("layout") == "parts":
        folder, table = given, _in_parts(source, how)
    elif folder == given:
        _check_options(how, source)
        table = _folder(given, how.reach)
    else:
        way = how.way if is_url(source) else {}
        table = _named(opened(source, "r", **_table_options(source, how), **way), source, how, way)
        prefix = prefix if prefix is not None else _prefix_beside(given, folder, how.reach)
    within = None if prefix is not None or is_url(folder) else folder
    return given, table, Addresses(folder if prefix is None else prefix, within, params, how.reach)


def _in_parts(path: str, how: _How) -> Node:
    """Return the rows of a folder of parts, which are the items or have their names."""
    own = {name: value for name, value in how.options.items() if name not in items.DECODING}
    table, partition = laid_out(path, "r", **own, **(how.way if is_url(path) else {}))
    dtype = field(table, how.filename).dtype if how.filename in table.fields else None
    if dtype is not None and dtype.kind not in "OUT":
        raise ValueError(
            f"column {how.filename!r} of the parts in {shown(path)} has {dtype}, and names are "
            f"texts; for parts of CSV, types={{{how.filename!r}: 'str'}} reads them as they are"
        )
    if partition is None:
        return table
    first, step = partition
    return keyed(to_be_divided(table), slice(first, None, step))


def _named(table: Node, path: str, how: _How, way: Mapping[str, Any]) -> Node:
    """Return the table of an index, whose first row has names if the name of that column is there.

    A first row of texts of which two are the same, as two labels may be, is else taken for data.
    """
    options = _table_options(path, how)
    if how.filename in table.fields or "types" not in options or "header" in options:
        return table
    with contextlib.suppress(ValueError):
        again = opened(path, "r", **options, **way, header=0)
        return again if how.filename in again.fields else table
    return table


def _table_options(path: str, how: _How) -> dict[str, Any]:
    """Return the options of a table; names of items in a CSV file are texts, as 007 is."""
    own = {name: value for name, value in how.options.items() if name not in items.DECODING}
    if name_of_unpacked(how.options.get("format", path)).lower().endswith(("csv", "tsv")):
        own = {"types": functools.partial(_type_of, how.filename), "short": "missing", **own}
    return own


def _type_of(filename: str, name: str) -> Any:
    return str if name == filename else None


def _check_options(how: _How, what: str) -> None:
    for name in how.options:
        if name not in items.DECODING:
            raise unknown_option(
                name, [*sorted(INDEX_OPTIONS), *items.DECODING], f"open of {what!r}"
            )


def _folder(path: str, reach: Elsewhere) -> Node:
    """Return the files below a folder, with the first folder on the way to each as its label."""
    if is_url(path):
        below = names_below(reach._replace(url=path))
        names = [name for name in below if "/." not in f"/{name}"]
    else:
        found = walked(path, ())
        names = [f"{folder}/{name}".lstrip("/") for folder, _, files in found for name in files]
    if not names:
        raise ValueError(f"{shown(path)} has no files in it, which would be the items of an index")
    labels = [name.partition("/")[0] if "/" in name else None for name in names]
    parts = {"filename": np.array(names, object)}
    if any(labels):
        parts["label"] = np.array(labels, object)
    return record({name: stored(ArraySource(part)) for name, part in parts.items()}, 1)


def _prefix_beside(path: str, folder: str, reach: Elsewhere) -> str | None:
    """Return the prefix of names that the file beside an index has, None if there is none.

    That of `index.csv` is `index-meta.csv`, in whose second line it stands.
    """
    name = folder_and_name(path)[1] if is_url(path) else os.path.basename(path)
    stem, dot, suffix = name_of_unpacked(name).rpartition(".")
    if suffix.lower() not in ("csv", "tsv"):
        return None
    beside = inside(folder, f"{stem}-meta{dot}{suffix}")
    raw = content(Place(beside, reach=reach)) if is_url(path) or os.path.isfile(beside) else None
    if raw is None:
        return None
    lines = raw.decode("utf-8-sig").split("\n")
    told = lines[1].strip() if len(lines) > 1 else ""
    if not told:
        raise ValueError(
            f"{beside} says in its second line what stands before the names of the index, and has "
            "nothing there; prefix= gives it instead"
        )
    return told if is_url(told) else inside(folder, told)
