"""The table of an index, and how the addresses of its items are made of the names in it."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.errors import unknown_option
from dataview.formats.catalogue import matching, opened
from dataview.formats.indexes import items
from dataview.formats.indexes.getters import content
from dataview.formats.indexes.places import Addresses, Place
from dataview.formats.layouts import laid_out
from dataview.formats.media.folders import walked
from dataview.formats.parts import to_be_divided
from dataview.formats.texts import name_of_unpacked
from dataview.plan.build import field, keyed, record, stored
from dataview.plan.node import Node
from dataview.sources import (
    ArraySource,
    file_name,
    folder_and_name,
    inside,
    is_url,
    is_web,
    names_below,
    shown,
)
from dataview.sources import Place as Elsewhere

INDEX_OPTIONS = frozenset({"get", "processor", "url_params", "prefix", "order", "filename"})
"""The options of indexes: what is opened with one of them is an index."""


class Faces(NamedTuple):
    """Makes a view of a node, and a node of a sample that a user's function returns."""

    to_view: Callable[[Node], Any]
    to_node: Callable[[Any], Node]

    def sample(self, value: Any) -> Node:
        """Return the node of a sample; bytes are an object, as in an array they lose zeros."""
        return self.to_node(np.array(value, object) if isinstance(value, bytes) else value)


class How(NamedTuple):
    """What a user says of indexes."""

    faces: Faces
    filename: str
    params: str
    prefix: str | None
    order: str
    way: Mapping[str, Any]
    reach: Elsewhere
    options: Mapping[str, Any]


def table_of(source: Any, how: How) -> tuple[str, Node, Addresses]:
    """Return what an index is called, its table, and how the addresses of its items are made."""
    prefix, params = how.prefix, how.params
    if isinstance(source, Node):
        check_options(how, "the view")
        return "the view", source, Addresses(prefix or "", None, params, how.reach)
    files = matching(source, how.way)
    if files is not None:
        return _of_pattern(source, files, how)
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
        check_options(how, source)
        table = _folder(given, how.reach)
    else:
        way = how.way if is_url(source) else {}
        table = _named(source, how, way)
        prefix = prefix if prefix is not None else _prefix_beside(given, folder, how.reach)
    return given, table, _addresses(folder, prefix, how)


def _addresses(folder: str, prefix: str | None, how: How) -> Addresses:
    """Return how addresses are made of names: behind a prefix, or else in a folder."""
    within = None if prefix is not None or is_url(folder) else folder
    return Addresses(folder if prefix is None else prefix, within, how.params, how.reach)


def _of_pattern(pattern: str, files: Sequence[str], how: How) -> tuple[str, Node, Addresses]:
    """Return what one index of several files is called, its table, and its addresses."""
    given = pattern if is_url(pattern) else os.path.abspath(pattern)
    files = [file if is_url(file) else os.path.abspath(file) for file in files]
    own = [file for file in files if _index_of_meta(file) is None]
    folders = [one for one in own if not is_url(one) and os.path.isdir(one)]
    if folders or not own:
        what = f"the folder {folders[0]}" if folders else f"{files[0]}, which tells a prefix alone"
        raise ValueError(
            f"a pattern stands for the files of one index, and {pattern!r} for {what}; give the "
            "path of one folder, or of one index"
        )
    if how.options.get("layout") == "parts":
        table = _in_parts(own, how)
    else:
        table = _named(own, how, how.way if is_url(pattern) else {})
    prefix = how.prefix
    if prefix is None and (how.filename in table.fields or is_of_texts(table)):
        prefix = _prefix_of_all(pattern, files, own, how.reach)
    return given, table, _addresses(_folder_of(own[0]), prefix, how)


def _folder_of(path: str) -> str:
    """Return the folder that a file is in."""
    return folder_and_name(path)[0] if is_url(path) else os.path.dirname(os.path.abspath(path))


def _prefix_of_all(
    pattern: str, files: Sequence[str], own: Sequence[str], reach: Elsewhere
) -> str | None:
    """Return what stands before the names in all of several indexes, None for their folder."""
    instead = "prefix= says where the names of all of them begin"
    if len({*map(_folder_of, own)}) > 1:
        raise ValueError(
            f"names in an index begin at its folder, and the files of {pattern!r} are in several; "
            f"{instead}, or open them one by one"
        )
    unpacked = {*map(name_of_unpacked, own)}
    for file in files:
        index = _index_of_meta(file)
        if index is not None and index not in unpacked and not os.path.exists(index):
            raise ValueError(
                f"{file} says what stands before the names of {index}, which is not among the "
                f"files of {pattern!r}; {instead}"
            )
    told = dict.fromkeys(_prefix_beside(file, _folder_of(file), reach) for file in own)
    if len(told) > 1:
        several = ", ".join(map(repr, told))
        raise ValueError(
            f"before the names in the files of {pattern!r} stand several prefixes: {several}; "
            f"{instead}, or open them one by one"
        )
    return next(iter(told))


def _in_parts(path: str | list[str], how: How) -> Node:
    """Return the rows of a folder of parts, or of files, which are items or have their names."""
    own = {name: value for name, value in how.options.items() if name not in items.DECODING}
    first = path if isinstance(path, str) else path[0]
    table, partition = laid_out(path, "r", **own, **(how.way if is_url(first) else {}))
    dtype = field(table, how.filename).dtype if how.filename in table.fields else None
    if dtype is not None and dtype.kind not in "OUT":
        raise ValueError(
            f"column {how.filename!r} of the parts in {shown(first)} has {dtype}, and names are "
            f"texts; for parts of CSV, types={{{how.filename!r}: 'str'}} reads them as they are"
        )
    if partition is None:
        return table
    start, step = partition
    return keyed(to_be_divided(table), slice(start, None, step))


def _named(path: str | list[str], how: How, way: Mapping[str, Any]) -> Node:
    """Return the table of an index, whose first row has names if the name of that column is there.

    A first row of texts of which two are the same, as two labels may be, is else taken for data.
    """
    options = _table_options(path if isinstance(path, str) else path[0], how)
    table = opened(path, "r", **options, **way)
    if how.filename in table.fields or "types" not in options or "header" in options:
        return table
    with contextlib.suppress(ValueError):
        again = opened(path, "r", **options, **way, header=0)
        return again if how.filename in again.fields else table
    return table


def _table_options(path: str, how: How) -> dict[str, Any]:
    """Return the options of a table; names of items in a CSV file are texts, as 007 is."""
    own = {name: value for name, value in how.options.items() if name not in items.DECODING}
    if name_of_unpacked(how.options.get("format", path)).lower().endswith(("csv", "tsv")):
        own = {"types": functools.partial(_type_of, how.filename), "short": "missing", **own}
    return own


def _type_of(filename: str, name: str) -> Any:
    return str if name == filename else None


def check_options(how: How, what: str) -> None:
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


TEXTS = ("csv", "tsv")
"""The suffixes of indexes beside which a file may say what stands before their names."""

META = "-meta"
"""What the name of that file has behind the name of the index."""


def _parts_of_name(path: str) -> tuple[str, str, str]:
    """Return the name of a file before its last point, that, and what is behind it."""
    name = folder_and_name(path)[1] if is_url(path) else os.path.basename(path)
    return name_of_unpacked(name).rpartition(".")


def _index_of_meta(path: str) -> str | None:
    """Return the path of the index of which a file tells the prefix, None of another file."""
    stem, dot, suffix = _parts_of_name(path)
    if suffix.lower() not in TEXTS or not stem.endswith(META):
        return None
    name = f"{stem.removesuffix(META)}{dot}{suffix}"
    return inside(_folder_of(path), name)


def _prefix_beside(path: str, folder: str, reach: Elsewhere) -> str | None:
    """Return the prefix of names that the file beside an index has, None if there is none.

    That of `index.csv` is `index-meta.csv`, in whose second line it stands.
    """
    stem, dot, suffix = _parts_of_name(path)
    if suffix.lower() not in TEXTS:
        return None
    beside = inside(folder, f"{stem}{META}{dot}{suffix}")
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


def is_of_texts(table: Node) -> bool:
    """Whether a node is a line of texts, which may be names of files."""
    shape, dtype = table.shape, table.dtype
    return shape is not None and len(shape) == 1 and dtype is not None and dtype.kind in "OUT"
