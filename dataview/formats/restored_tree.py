"""A field tree laid on arrays: what was saved becomes a node again."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dataview.compute import evaluate
from dataview.errors import of_newer, shortened
from dataview.formats.field_tree import VERSION, part_of
from dataview.formats.meta_text import of_text
from dataview.index.flat import Layout, layout_of
from dataview.plan import gaps
from dataview.plan.build import record, with_fields
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
    known_shape,
    members,
)
from dataview.plan.node import Node
from dataview.plan.ragged import laid_out

LONGEST_TEXT = 1 << 26
"""A longer description is taken for a broken one: to parse it could take all memory."""

MOST_ROWS = 1 << 31
"""Ragged rows of a file that says it has more are taken for a broken one: lengths are in memory."""


class _Newer(ValueError):
    """A description by a newer dataview, which is not broken."""


def restored(parts: Mapping[str, Node | str], text: str | bytes, where: str) -> Node:
    """Return the view that was saved: its arrays by their places, and the text that came with them.

    Instead of an array there may be the reason why it cannot be viewed.  `where` names the file in
    errors.  Arrays that the text does not know are told of as lost.
    """
    try:
        _check(len(text) <= LONGEST_TEXT, f"it is longer than {LONGEST_TEXT} bytes")
        found = of_text(text)
        version = found["version"]
        if told := of_newer(version, VERSION):
            raise _Newer(f"{where}: the description of its fields {told}")
        if version != VERSION:
            raise ValueError(
                f"it has version {shortened(repr(version))}, and this dataview reads {VERSION}"
            )
        builder = _Builder(parts)
        node = builder.tree(found["tree"])
    except _Newer:
        raise
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
