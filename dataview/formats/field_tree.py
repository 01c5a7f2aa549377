"""The tree of fields as text: written beside the arrays of a saved view, and laid on them again.

The arrays are the leaves of the tree, each at a place in the file or folder.  The text is JSON.  It
says nothing of lengths, so that rows can be added to the arrays.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import evaluate
from dataview.errors import shortened
from dataview.formats.meta_text import has_text, of_text
from dataview.index.flat import Layout, layout_of
from dataview.plan import gaps
from dataview.plan.build import record, stored, with_fields
from dataview.plan.concat import concat
from dataview.plan.fields import (
    NO_FIELDS,
    Attached,
    Field,
    Fields,
    Positions,
    Unread,
    Window,
    read_only_meta,
)
from dataview.plan.kinds import (
    Concat,
    Driven,
    Record,
    Sampled,
    Select,
    Stored,
    known_shape,
    members,
)
from dataview.plan.node import Node
from dataview.plan.operations import is_present
from dataview.plan.ragged import Ragged, laid_out
from dataview.sources import ArraySource

NAME = "dataview"
"""The attribute of a file that has the text; in a folder it is a file, `dataview.json`."""

VERSION = 1

LONGEST_TEXT = 1 << 26
"""A longer description is taken for a broken one: to parse it could take all memory."""

DEEPEST = 100
"""Fields inside fields are saved so deep: Python reads text that is nested deeper with an error."""

_SPECIAL = r"""\x00-\x1f\x7f\ud800-\udfff/\\:*?"<>|%#\[\]{}"""
"""No name of an array has these: a file system, a format or an address would take them amiss."""

_TAKEN = {f"{NAME}.json", "zarr.json"}
"""Files that lie beside the arrays."""

MOST_ROWS = 1 << 31
"""Ragged rows of a file that says it has more are taken for a broken one: lengths are in memory."""


class Leaf(NamedTuple):
    """An array of a tree: its place in the file, its data, and what it is called in messages.

    `lays_out` is true of the lengths of ragged rows, without which there are no rows.
    """

    at: str
    node: Node
    name: str
    lays_out: bool = False


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

    def tree(self, node: Node, within: str, name: str, at: str, depth: int = 0) -> dict[str, Any]:
        """Return the tree of a node called `name`, whose place is `at` inside `within`."""
        if depth > DEEPEST:
            raise ValueError(f"field {name!r} lies more than {DEEPEST} fields deep; rename it")
        entry: dict[str, Any]
        inside = self.place(within, at) if at else within
        if isinstance(node, (Record, Driven)):
            entry = {"kind": "record"}
            entry |= {"rank": node.rank} if isinstance(node, Record) else {"driver": node.driver}
        elif isinstance(node, Ragged):
            rows = node.relaid()
            entry = {"kind": "ragged", "row": list(rows.layout.axes)}
            entry["values"] = self.tree(rows.values, inside, f"{name}.values", "values", depth + 1)
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
        else:
            own = "" if self.step is not None and node.shape else "data"
            leaf = inside if at or not own else self.place(within, own)
            entry = {"kind": "array", "at": leaf}
            if self.step is not None and node.shape:
                entry["parts"] = len(lengths_of_parts(node.shape[0], self.step))
            self.leaves.append(Leaf(leaf, node, name))
            inside = f"{leaf}_fields"
        return self.noted(entry, node.fields, node.meta, inside, name, depth, node)

    def present(self, values: Node) -> Node | None:
        """Return where values of lists are there, None if all are or they tell it themselves."""
        found = gaps.present_in(values)
        are_texts = values.dtype == object and not isinstance(values, Ragged)
        if found is not None or not self.masks_texts or not are_texts:
            return found
        source = values.source if isinstance(values, Stored) else None
        if isinstance(source, ArraySource) and is_present(source.memory).all():
            return None
        return gaps.known_by_value(values)

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
        for key, value in meta.items():
            where = f"field {name!r}" if name else "the view"
            _check_meta(value, f"metadata {key!r} of {where}")
        if node is not None and meta:
            self.meta[entry.get("at", inside)] = meta
        return entry | ({"meta": dict(meta)} if meta else {})

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


# --- a tree laid on arrays -----------------------------------------------------------------------


def restored(parts: Mapping[str, Node | str], text: str | bytes, where: str) -> Node:
    """Return the view that was saved: its arrays by their places, and the text that came with them.

    Instead of an array there may be the reason why it cannot be viewed.  `where` names the file in
    errors.  Arrays that the text does not know are told of as lost.
    """
    try:
        _check(len(text) <= LONGEST_TEXT, f"it is longer than {LONGEST_TEXT} bytes")
        found = of_text(text)
        version = found["version"]
        if version != VERSION:
            raise ValueError(
                f"it has version {shortened(repr(version))}, and this dataview reads {VERSION}; "
                "a newer dataview may read it"
            )
        builder = _Builder(parts)
        node = builder.tree(found["tree"])
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(
            f"{where}: the description of its fields does not fit its arrays, or is broken: "
            f"{shortened(str(error) or type(error).__name__)}"
        ) from error
    others = {at.partition("/")[0] for at in parts.keys() - builder.used}
    why = "is in the file and not in the description of its fields; its own library opens it"
    reason = Unread(why)
    lost = dict.fromkeys(sorted(others - node.fields.named.keys()), reason)
    return with_fields(node, Fields(node.fields.named, lost)) if lost else node


def restored_record(found: Node, text: Any, where: str) -> Node:
    """Return the same of a record of what a file holds; text that is none is left to its record."""
    return restored(dict(_parts_of(found)), text, where) if isinstance(text, str) else found


def _parts_of(node: Node, within: str = "") -> Iterator[tuple[str, Node | str]]:
    for name, part in members(node).items() if isinstance(node, Record) else ():
        place = f"{within}/{name}".lstrip("/")
        if isinstance(part.node, Record):
            yield from _parts_of(part.node, place)
        else:
            yield place, part.node
    for name, reason in node.fields.lost.items() if isinstance(node, Record) else ():
        yield f"{within}/{name}".lstrip("/"), reason


@dataclasses.dataclass
class _Builder:
    """Builds a tree of what a text says, which may be anything."""

    parts: Mapping[str, Node | str]
    used: set[str] = dataclasses.field(default_factory=set)

    def part(self, at: str) -> Node:
        """Return the array at a place."""
        found = self.parts.get(at, "is missing")
        if isinstance(found, str):
            raise ValueError(f"the array {at!r} {found}")
        self.used.add(at)
        return found

    def tree(self, entry: Any) -> Node:
        """Return the node of an entry."""
        _check(isinstance(entry, dict), f"{entry!r} is no entry")
        kinds = {"record": self.record, "ragged": self.ragged, "array": self.array}
        node = kinds[entry["kind"]](entry)
        told = _meta(entry)  # others may have changed the attributes
        changed = {name: own for name, own in node.meta.items() if told.get(name) != own}
        return node.replaced(meta=read_only_meta(told | changed)) if told else node

    def array(self, entry: Any) -> Node:
        """Return an array, which may be in several parts, with fields on it."""
        at, count = entry["at"], entry.get("parts")
        _check(isinstance(at, str) and isinstance(count, (int, type(None))), f"{at!r} is no place")
        _check(count is None or 0 < count <= len(self.parts), f"{at!r} has {count} parts")
        places = [at] if count is None else [part_of(at, number) for number in range(count)]
        found = [self.part(place) for place in places]
        node = found[0] if count is None else _in_stored_order(concat(found))
        fields = self.fields(entry, node)
        named = {**node.fields.named, **fields.named}
        return with_fields(node, Fields(named, node.fields.lost)) if fields.named else node

    def record(self, entry: Any) -> Node:
        """Return a record, or fields of which one stands for the whole."""
        inside = _inside(entry)
        parts = {name: self.tree(part) for name, part in inside.items() if not _is_window(part)}
        if "driver" not in entry:
            rank = entry["rank"]
            _check(type(rank) is int and rank >= 0, f"{rank!r} is no rank")
            _check(len(parts) == len(inside), "a record has windows")
            found = record(parts, rank)
            return with_fields(found, gaps.knowing(found.fields))
        whole = parts[entry["driver"]]
        named = {
            name: self.window(part, whole)
            if _is_window(part)
            else Attached(parts[name], self.axes(part))
            for name, part in inside.items()
        }
        return Driven(whole, Fields(named), entry["driver"])

    def ragged(self, entry: Any) -> Node:
        """Return ragged rows, whose lengths are read."""
        values, lengths = self.tree(entry["values"]), self.part(entry["lengths"])
        if "mask" in entry:
            present = self.tree(entry["mask"])
            _check(gaps.tells(present, values), "the mask of values is none of these")
            values = gaps.with_mask(values, present)
        shape, dtype = known_shape(lengths), lengths.dtype
        _check(dtype == np.dtype("i8") and len(shape) in (1, 2), "lengths are not 64-bit integers")
        _check(math.prod(shape) < MOST_ROWS, f"there are {shape[0]} lengths")
        found = evaluate(lengths)
        layout = layout_of(lengths=found) if len(shape) == 1 else layout_of(shapes=found)
        axes = tuple(entry["row"])
        fits = len(axes) == len(layout.axes) and all(
            length is None or (type(length) is int and (own == length).all())
            for length, own in zip(axes, layout.lengths().T, strict=True)
        )
        _check(fits, f"the rows do not have the axes {axes}")
        layout = Layout(layout.offsets, layout.shapes, axes)
        if "present" in entry:
            there = self.part(entry["present"])
            _check(there.dtype == bool and there.shape == shape[:1], "the mask is none of lists")
            layout = layout.lacking(evaluate(there))
        rows = laid_out(values, layout, exactly=True)
        fields = self.fields(entry, rows)
        return with_fields(rows, fields) if fields.named else rows

    def fields(self, entry: Any, node: Node) -> Fields:
        """Return the fields on a node: windows, and those with data of their own."""
        named: dict[str, Field] = {}
        for name, part in _inside(entry).items():
            if _is_window(part):
                named[name] = self.window(part, node)
                continue
            axes, own = self.axes(part), self.tree(part)
            shape = node.shape or (() if node.count is None else (node.count,))
            lengths = own.shape or (() if own.count is None else (own.count,))
            fits = axes is None or all(
                shape[axis] == lengths[place] for place, axis in enumerate(axes)
            )
            _check(fits, f"field {name!r} has {lengths}, what it lies on {shape}")
            named[name] = Attached(own, axes, part.get("replaces") is True)
        return Fields(named) if named else NO_FIELDS

    def axes(self, entry: Any) -> tuple[int, ...] | None:
        """Return the axes that a field shares with what it is a field of."""
        axes = entry["axes"]
        _check(axes is None or axes == list(range(len(axes))), f"{axes!r} are no axes")
        return None if axes is None else tuple(axes)

    def window(
        self, entry: Any, node: Node, outer: Mapping[int, Positions] | None = None
    ) -> Window:
        """Return a window on a node, inside another one perhaps."""
        shape = known_shape(node)
        _check(isinstance(entry["of"], dict), "a window is on no axes")
        places = {}
        for axis, place in entry["of"].items():
            _check(axis.isdecimal() and int(axis) < len(shape), f"there is no axis {axis}")
            places[int(axis)] = _positions(place, shape[int(axis)])
        for number, around in (outer or {}).items():
            within = np.isin(np.atleast_1d(places[number]), np.atleast_1d(around))
            _check(bool(within.all()), "a window reaches out of the one around it")
        inside = {name: self.window(part, node, places) for name, part in _inside(entry).items()}
        fields = Fields(inside) if inside else NO_FIELDS
        return Window(places, fields, read_only_meta(_meta(entry)))


def _in_stored_order(node: Any) -> Any:
    """Return joined parts in their byte order; NumPy would give what it joins the machine's."""
    if not isinstance(node, Concat) or len({part.dtype for part in node.nodes}) > 1:
        return node
    fields = node.fields.with_nodes(_in_stored_order)
    return node.replaced(dtype=node.nodes[0].dtype, fields=fields)


def _positions(place: Any, length: int) -> Positions:
    """Return positions on an axis of some length."""
    found: Positions
    if isinstance(place, dict):
        found = range(place["from"], place["to"], place["step"])
        ends: Any = (found[0], found[-1]) if found else ()
    elif isinstance(place, list):
        _check(all(type(one) is int for one in place), "positions are integers")
        found = ends = np.array(place, np.intp)
        _check(len(np.unique(found)) == len(found), "a window has a position twice")
    else:
        _check(type(place) is int, f"{place!r} is no position")
        found, ends = place, (place,)
    _check(all(0 <= one < length for one in ends), f"a window reaches out of {length} positions")
    return found


def _is_window(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("kind") == "window"


def _inside(entry: Any) -> dict[str, Any]:
    found = entry.get("fields", {})
    _check(isinstance(found, dict) and all(found), "fields have no names")
    return found  # type: ignore[no-any-return]


def _meta(entry: Any) -> dict[str, Any]:
    found = entry.get("meta", {})
    _check(isinstance(found, dict), "metadata have no names")
    return found  # type: ignore[no-any-return]


def _check(is_right: bool, what: str) -> None:
    if not is_right:
        raise ValueError(what)
