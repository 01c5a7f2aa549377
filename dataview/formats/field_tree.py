"""The tree of fields as text, which is written beside the arrays of a saved view.

The arrays are the leaves of the tree, each at a place in the file or folder.  The text is JSON.  It
says nothing of lengths, so that rows can be added to the arrays.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dataview.errors import shortened
from dataview.formats.meta_text import has_text, of_python
from dataview.plan import gaps
from dataview.plan.build import stored
from dataview.plan.fields import (
    NO_META,
    Attached,
    Field,
    Fields,
    Positions,
    Window,
)
from dataview.plan.gaps import known_by_value, present_in
from dataview.plan.kinds import (
    Driven,
    Record,
    Sampled,
    Select,
    Stored,
    known_shape,
)
from dataview.plan.node import Node
from dataview.plan.operations import is_present
from dataview.plan.ragged import Ragged
from dataview.plan.values import is_time_of_day
from dataview.sources import ArraySource

NAME = "dataview"
"""The attribute of a file that has the text; in a folder it is a file, `dataview.json`."""

VERSION = 1

DEEPEST = 100
"""Fields inside fields are saved so deep: Python reads text that is nested deeper with an error."""

_SPECIAL = r"""\x00-\x1f\x7f\ud800-\udfff/\\:*?"<>|%#\[\]{}"""
"""No name of an array has these: a file system, a format or an address would take them amiss."""

_TAKEN = {f"{NAME}.json", "zarr.json"}
"""Files that lie beside the arrays."""


class Leaf(NamedTuple):
    """An array of a tree: its place in the file, its data, and what it is called in messages.

    `lays_out` is true of the lengths of ragged rows, without which there are no rows, `of_times` of
    times of day.
    """

    at: str
    node: Node
    name: str
    lays_out: bool = False
    of_times: bool = False


class Described(NamedTuple):
    """The tree of a node's fields, which JSON can hold, the arrays in it, and metadata by place."""

    tree: dict[str, Any]
    leaves: list[Leaf]
    meta: Mapping[str, Mapping[str, Any]]


def described(node: Node, step: int | None = None, masks_texts: bool = False) -> Described:
    """Return how a node is saved; arrays are in parts of `step` rows, if that is given.

    With `masks_texts`, the texts in lists have a mask, since they do not tell what is missing.
    """
    describer = _Describer(step, masks_texts)
    tree = describer.tree(node, "", "", "")
    return Described({"version": VERSION, "tree": tree}, describer.leaves, describer.meta)


def masks_of_entries(entries: Mapping[str, Any], arrays: Mapping[str, Node]) -> dict[str, str]:
    """Return the names of the masks among the entries of fields, by those of their columns.

    `arrays` are the arrays by their places.  A record has one only if metadata say so.
    """
    metas = {name: entry.get("meta", {}) for name, entry in entries.items()}
    found = gaps.masks_among(metas, {n for n, e in entries.items() if _tells(e, entries, arrays)})
    told = {mask for mask, meta in metas.items() if gaps.MASK_OF in meta}
    return {n: m for n, m in found.items() if entries[n]["kind"] != "record" or m in told}


def _tells(entry: Any, entries: Mapping[str, Any], arrays: Mapping[str, Node]) -> bool:
    """Whether an entry is an array that has a truth value for each row, or for the one sample.

    That of which metadata tell the column may have one for each element.
    """
    if entry["kind"] != "array":
        return False
    node = arrays[entry["at"]]
    if gaps.is_of_rows(node) or (node.dtype == bool and node.shape == ()):
        return True
    column = entries.get(entry.get("meta", {}).get(gaps.MASK_OF), {})
    return column.get("kind") == "array" and gaps.tells(node, arrays[column["at"]])


def masked_places(entry: Mapping[str, Any], arrays: Mapping[str, Node]) -> dict[str, str]:
    """Return the places of masks by those of the arrays they are of, in an entry and below it."""
    fields = entry.get("fields", {})
    found = {
        fields[name]["at"]: fields[mask]["at"]
        for name, mask in masks_of_entries(fields, arrays).items()
        if fields[name]["kind"] == "array"
    }
    for part in (*fields.values(), *([entry["values"]] if "values" in entry else [])):
        found |= masked_places(part, arrays)
    if "mask" in entry and entry["values"]["kind"] == "array":
        found[entry["values"]["at"]] = entry["mask"]["at"]
    return found


def plain_attributes(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata that are attributes in any format: numbers, texts and lists of these.

    >>> plain_attributes({"unit": "m", "range": [0, 1.5], "more": {}, "_FillValue": 0})
    {'unit': 'm', 'range': [0, 1.5]}
    """
    return {
        name: value
        for name, value in meta.items()
        if _PLAIN_NAME.fullmatch(name) and name not in (NAME, "CLASS", "NAME") and _is_plain(value)
    }


_PLAIN_NAME = re.compile(r"[^\W_][^/\0]*")
"""Names that begin otherwise mean something to libraries."""

LONGEST_PLAIN = 1000
"""Longer texts and lists are in the description alone: HDF5 has attributes of up to 64 KB."""


def _is_plain(value: Any) -> bool:
    """Whether every format gives a value back as it is."""
    if isinstance(value, list):
        kinds = {str if type(one) is str else bool if type(one) is bool else float for one in value}
        return 0 < len(value) <= LONGEST_PLAIN and len(kinds) == 1 and all(map(_is_single, value))
    return _is_single(value)


def _is_single(value: Any) -> bool:
    if type(value) is str:
        return len(value) <= LONGEST_PLAIN and "\0" not in value
    if type(value) is float:
        return math.isfinite(value)
    return type(value) is bool or (type(value) is int and -(2**63) <= value < 2**63)


def part_of(at: str, number: int) -> str:
    """Return the place of a part of an array that is saved in several.

    >>> part_of("x", 3)
    'x/part-00003'
    """
    return f"{at}/part-{number:05d}".lstrip("/")


def lengths_of_parts(count: int, step: int) -> list[int]:
    """Return how many rows each part has; an array without rows has a part too.

    >>> lengths_of_parts(5, 2), lengths_of_parts(0, 2)
    ([2, 2, 1], [0])
    """
    return [min(step, count - start) for start in range(0, max(1, count), step)]


class _Describer:
    """Notes what a tree is made of, and gives each array a place of its own."""

    def __init__(self, step: int | None, masks_texts: bool) -> None:
        self.step, self.masks_texts = step, masks_texts
        self.leaves: list[Leaf] = []
        self.taken: set[str] = set()
        self.meta: dict[str, Mapping[str, Any]] = {}

    def tree(
        self,
        node: Node,
        within: str,
        name: str,
        at: str,
        depth: int = 0,
        outer: Mapping[str, Any] = NO_META,
    ) -> dict[str, Any]:
        """Return the tree of a node called `name`, whose place is `at` inside `within`.

        `outer` are the metadata of the lists that it is the values of.
        """
        if depth > DEEPEST:
            raise ValueError(f"field {name!r} lies more than {DEEPEST} fields deep; rename it")
        entry: dict[str, Any]
        inside = self.place(within, at) if at else within
        if isinstance(node, (Record, Driven)):
            entry = {"kind": "record"}
            entry |= {"rank": node.rank} if isinstance(node, Record) else {"driver": node.driver}
        elif isinstance(node, Ragged):
            entry = self.ragged(node, inside, name, depth, {**outer, **node.meta})
        else:
            own = "" if self.step is not None and node.shape else "data"
            leaf = inside if at or not own else self.place(within, own)
            entry = self.array(node, leaf, name, {**outer, **node.meta})
            inside = f"{leaf}_fields"
        return self.noted(entry, node.fields, node.meta, inside, name, depth, node)

    def ragged(
        self, node: Ragged, inside: str, name: str, depth: int, meta: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the entry of rows of different lengths: their values, and how these are laid out.

        `meta` are the metadata of the rows, and of those that they are the values of.
        """
        rows = node.relaid()
        entry: dict[str, Any] = {"kind": "ragged", "row": list(rows.layout.axes)}
        entry["values"] = self.tree(
            rows.values, inside, f"{name}.values", "values", depth + 1, meta
        )
        if (present := self.present(rows.values)) is not None:
            called = f"{name}.values{gaps.MASK}"
            entry["mask"] = self.tree(present, inside, called, f"values{gaps.MASK}", depth + 1)
        shapes = rows.layout.shapes
        lengths = np.diff(rows.layout.offsets) if shapes is None else shapes
        laid = {"lengths": lengths.astype("i8"), "present": rows.layout.present}
        for part, array in laid.items():
            if array is not None:
                entry[part] = self.place(inside, part)
                whole = stored(ArraySource(array))
                self.leaves.append(Leaf(entry[part], whole, f"{name}.{part}", lays_out=True))
        return entry

    def array(self, node: Node, leaf: str, name: str, meta: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entry of an array, which becomes the leaf at a place."""
        entry: dict[str, Any] = {"kind": "array", "at": leaf}
        if self.step is not None and node.shape:
            entry["parts"] = len(lengths_of_parts(node.shape[0], self.step))
        is_duration = node.dtype is not None and node.dtype.kind == "m"
        of_times = is_duration and is_time_of_day(meta)
        self.leaves.append(Leaf(leaf, node, name, of_times=of_times))
        return entry

    def present(self, values: Node) -> Node | None:
        """Return where values of lists are there, None if all are or they tell it themselves."""
        found = present_in(values)
        are_texts = values.dtype == object and not isinstance(values, Ragged)
        if found is not None or not self.masks_texts or not are_texts:
            return found
        source = values.source if isinstance(values, Stored) else None
        if isinstance(source, ArraySource) and is_present(source.memory).all():
            return None
        return known_by_value(values)

    def noted(
        self,
        entry: dict[str, Any],
        fields: Fields,
        meta: Mapping[str, Any],
        inside: str,
        name: str,
        depth: int,
        node: Node | None = None,
    ) -> dict[str, Any]:
        """Return an entry with fields and metadata."""
        own = [
            one
            for one, field in fields.named.items()
            if node is None or not _is_member(node, one, field)
        ]
        found = {  # first those that keep their names, which no other field may take
            one: self.field(fields.named[one], inside, f"{name}.{one}".lstrip("."), one, depth + 1)
            for one in sorted(own, key=lambda one: _plain(one) != one)
        }
        if found:
            entry["fields"] = {one: found[one] for one in own}
        meta = {key: of_python(value) for key, value in meta.items()}
        for key, value in meta.items():
            where = f"field {name!r}" if name else "the view"
            _check_meta(value, f"metadata {key!r} of {where}")
        if node is not None and meta:
            self.meta[entry.get("at", inside)] = meta
        return entry | ({"meta": meta} if meta else {})

    def field(self, field: Field, inside: str, name: str, own: str, depth: int) -> dict[str, Any]:
        """Return the entry of a field."""
        if isinstance(field, Attached):
            entry = self.tree(field.node, inside, name, own, depth)
            entry["axes"] = None if field.axes is None else list(field.axes)
            return entry | ({"replaces": True} if field.replaces else {})
        places = {str(axis): _as_json(place) for axis, place in field.positions.items()}
        entry = {"kind": "window", "of": places}
        if depth > DEEPEST:
            raise ValueError(f"field {name!r} lies more than {DEEPEST} fields deep; rename it")
        return self.noted(entry, field.fields, field.meta, inside, name, depth)

    def place(self, within: str, name: str) -> str:
        """Return a place that is free, and a name in every file system and format."""
        plain = _plain(name)
        found, number = f"{within}/{plain}".lstrip("/"), 1
        while found.casefold() in self.taken:
            number += 1
            found = f"{within}/{plain}_{number}".lstrip("/")
        self.taken.add(found.casefold())
        return found


def _plain(name: str) -> str:
    """Return the name of an array for that of a field; most names stay as they are."""
    plain = re.sub(f"[{_SPECIAL}]", "_", name).lstrip("_-. ")[:60].rstrip(". ") or "field"
    return plain.replace(".", "_") if plain.casefold() in _TAKEN else plain


def _is_member(node: Node, name: str, field: Field) -> bool:
    """Whether a field is one of a structured dtype, which its array brings along."""
    names = () if node.dtype is None else node.dtype.names or ()
    if isinstance(node, (Record, Driven, Sampled)) or name not in names:
        return False
    if isinstance(field, Window) or field.replaces or node.dtype is None:
        return False
    own, part = node.dtype[name], field.node
    if part.dtype != own.base or part.shape != (*known_shape(node), *own.shape):
        return False
    base, inner = _below(node), _below(part)
    is_stored = isinstance(base, Stored) and isinstance(inner, Stored)
    return not is_stored or inner.source.home == base.source.member(name).home


def _below(node: Node) -> Any:
    while isinstance(node, Select):
        node = node.node
    return node


def _as_json(place: Positions) -> Any:
    if isinstance(place, range):
        return {"from": place.start, "to": place.stop, "step": place.step}
    return place if isinstance(place, int) else np.asarray(place).tolist()


def _check_meta(value: Any, where: str) -> None:
    """Raise if JSON cannot give a value back as it is."""
    if has_text(value):
        return
    if type(value) is list:
        for inner in value:
            _check_meta(inner, where)
    elif type(value) is dict and all(type(key) is str for key in value):
        for inner in value.values():
            _check_meta(inner, where)
    else:
        raise TypeError(
            f"{where} is saved as text, which holds numbers, texts, bytes, dates, decimals, lists, "
            f"None, and dicts with texts as keys; got {shortened(repr(value))} "
            f"({type(value).__name__}); convert it, or leave it out: _with_meta"
        )
