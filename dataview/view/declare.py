"""Fields as a user declares them: windows on a node, fields with data of their own, metadata."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dataview import formats, spaces
from dataview.errors import FieldError, hint, unknown_field
from dataview.exchange import data_node, holds_columns, named, numbered
from dataview.index import is_integer
from dataview.plan.build import field, record, with_fields
from dataview.plan.fields import (
    NO_FIELDS,
    Attached,
    Field,
    Fields,
    Window,
    WindowSpec,
    check_declared,
    check_name,
    lay_window,
    read_only_meta,
)
from dataview.plan.gaps import knowing, replacing, telling
from dataview.plan.kinds import Driven, Record, Sampled, Stored, known_shape, members
from dataview.plan.node import Node, Part
from dataview.plan.places import place_of
from dataview.plan.symbols import placeholder
from dataview.plan.walk import below
from dataview.samples import (
    Spec,
    Stream,
    declared,
    declared_spec,
    length_of,
    side_by_side,
    with_part,
)
from dataview.view import hints
from dataview.write import clock

OPTIONS = (
    "_driver", "_rank", "_length", "_names", "_fields", "_meta", "_spaces", "_readonly"
)  # fmt: skip
"""The options of `View`, which stand among names of fields."""

NOTHING: Any = ...
"""The default of the data argument, as `help` shows it."""


class SampleFacts:
    """What is said about samples: how many, the names of their parts, their shapes and dtypes."""

    def __init__(self, length: float | None, names: Any, fields: Any) -> None:
        self.length = length
        self.names = None if names is None else _names_of(names)
        self.spec: Spec | None = None if fields is None else declared_spec(fields)
        self.strict = self.names is not None
        if self.names is None and isinstance(self.spec, dict):
            self.names = tuple(self.spec)

    def node_of(self, data: Any) -> Node:
        """Return the node of samples about which this is said."""
        length = self.length
        if length is None and self.spec is not None and holds_columns(data):
            length = len(data)  # its samples are declared, and not its columns
        if self.length is not None and isinstance(data, (np.ndarray, Node)):
            raise TypeError(
                "_length= goes with a function of the sample's number, and an array has a length: "
                "dv.View(data)[:n] are its first rows"
            )
        if length is None:
            node = data_node(data, self.names, self.strict)
        elif callable(data) or hasattr(data, "__getitem__"):
            node = numbered(data, length, self.names, self.strict)
        else:
            raise TypeError(f"_length= goes with a function of the sample's number; got {data!r}")
        return node if self.spec is None else declared(node, self.spec)


NO_FACTS = SampleFacts(None, None, None)


def _names_of(names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"_names= lists the names of the parts of a sample; got {names!r}")
    found = tuple(map(check_declared, names))
    if len(set(found)) < len(found):
        raise ValueError(f"_names= names two parts alike: {found}")
    return found


def construct(
    data: Any, fields: Mapping[str, Any], rank: int | None, driver: str | None, about: SampleFacts
) -> Node:
    """Return the node of data with fields on it, or of members alone."""
    for name in fields:
        if name.startswith("_"):
            raise TypeError(
                f"View() has no option {name!r}, and a field's name has no leading underscore"
                f"{hint(name, OPTIONS)}"
            )
    if data is NOTHING:
        if about is not NO_FACTS:
            raise TypeError(
                "each of _length=, _names= and _fields= goes with a function, a dataset or other "
                "samples; got no data"
            )
        if not fields:
            raise TypeError("a view is made of data, of fields, or of both; got neither")
        _check_no_paths(fields)
        node: Node = record({name: _member(name, part) for name, part in fields.items()}, rank)
        node = side_by_side(node) if driver is None else node
    else:
        node = _windowed(_of_data(data, rank, about), fields)
    if driver is None:
        return node
    if not isinstance(node, Record):
        raise TypeError("_driver= names one of several members; the data is one array")
    return _driven(node, driver)


def _is_file_name(text: Any) -> bool:
    suffixes = tuple(suffix for one in formats.FORMATS.values() for suffix in one.suffixes)
    return os.fsdecode(text).lower().endswith(suffixes)


def _check_no_paths(members: Mapping[str, Any]) -> None:
    """Raise if all members are texts that end as the names of files do, which were meant."""
    names = [part for part in members.values() if isinstance(part, (str, os.PathLike))]
    if len(names) == len(members) and any(map(_is_file_name, names)):
        opened = ", ".join(f"{name}=dv.open({str(part)!r})" for name, part in members.items())
        raise TypeError(f"texts are data, and files are opened: dv.View({opened})")


def _of_data(data: Any, rank: int | None, about: SampleFacts) -> Node:
    if isinstance(data, (str, bytes, os.PathLike)):
        more = "; np.frombuffer(data, dtype) gives the bytes of data" if type(data) is bytes else ""
        raise TypeError(f"to open a file, use dv.open({data!r}){more}")
    node = about.node_of(data)
    if rank is None:
        return node
    _check_known(node)
    if not isinstance(node, Record):
        raise TypeError("_rank= goes with members; the data is one array")
    return record({name: part.node for name, part in members(node).items()}, rank)


def _check_known(node: Node, names: Iterable[str] = ()) -> None:
    if isinstance(node, Sampled) and node.shape is None:
        for name in names:
            if f"_{name}" in OPTIONS:
                raise TypeError(hints.option_meant(name, OPTIONS))
        raise TypeError(
            "fields and _rank= need data of known shape: declare it with _fields=, or first read a "
            "sample: dv.View(dv.View(function, _length=n)._probe(), ...)"
        )


def _member(name: str, part: Any) -> Node:
    if isinstance(part, (slice, WindowSpec)):
        raise TypeError(f"{name}={part!r} is a window, and there is no data to lay it on")
    given = part.values() if isinstance(part, Mapping) else (part,)
    if any(isinstance(one, spaces.Space) for one in given):
        raise TypeError(
            f"{name}= is given a space, which is no data; write _spaces={{name: space}}"
        )
    return side_by_side(named(name, part, data_node))


def _windowed(node: Node, specs: Mapping[str, Any]) -> Node:
    """Return the node with fields: windows on its last axes, or fields with their own data."""
    if not specs:
        return node
    _check_known(node, specs)
    fields = node.fields
    shape = known_shape(node)
    for name, spec in specs.items():
        if isinstance(spec, Node) or isinstance(node, Record):
            node = attach(with_fields(node, fields), check_name(name), named(name, spec, data_node))
            fields = node.fields
            continue
        fields = fields.with_field(check_name(name), _laid(name, spec, shape))
    return with_fields(node, fields)


def _laid(name: str, spec: Any, shape: tuple[int, ...]) -> Window:
    """Return a declared window; of one that fits nowhere, say which option may be meant."""
    if isinstance(spec, tuple) and len(spec) == len(shape) > 1 and all(map(is_integer, spec)):
        first, last = spec[0], spec[-1]
        raise TypeError(
            f"the window {spec} of field {name!r} is one element of the whole data; columns "
            f"{first} to {last} are np.s_[{first}:{last}], where {last} is left out, and the two "
            f"columns {list(spec)}"
        )
    try:
        return lay_window(name, spec, shape)
    except (TypeError, ValueError, IndexError) as error:
        meant = hints.option_meant(name, OPTIONS)
        if not meant:
            raise
        raise type(error)(f"{name}={spec!r} is no window of a field; {meant}") from None


def symbol(name: str, shape: Any, dtype: Any, windows: Mapping[str, Any]) -> Node:
    """Return a symbol with windows on its last axes."""
    node = placeholder(name, shape, dtype, NO_FIELDS)
    fields = NO_FIELDS
    for part, window in windows.items():
        check_declared(part)
        laid = lay_window(part, window, tuple(n or 0 for n in node.extents))
        if any(node.extents[axis] is None for axis in laid.positions):
            raise ValueError(
                f"field {part!r} of symbol {name!r} is a window on an axis of unknown length; "
                "declare the length"
            )
        fields = fields.with_field(part, laid)
    return with_fields(node, fields)


def attach(node: Node, name: str, part: Node) -> Node:
    """Return the node with one more field, as a member of a record or beside any other data."""
    if name not in node.fields:  # one that came with data may have any name
        check_declared(name)
    left, parts = replacing(node.fields, name, part)
    node = node if left is node.fields else with_fields(node, left)
    for own, one in parts.items():
        node = _attached(node, own, one)
    return node


Hidden = tuple[str, int]
"""A field of a file that computed data were set in place of, and when by the clock of writes."""


def hidden(node: Node, name: str, part: Node, before: Hidden | None) -> Hidden | None:
    """Return which field of a file is hidden when a field is set to a part; `before` was so far."""
    if _hides_file(node, name, part):
        return name, clock[0]
    is_back = before is not None and before[0] == name and place_of(part) is not None
    return None if is_back else before


def _hides_file(node: Node, name: str, part: Node) -> bool:
    """Whether a field of a file gives way to what is computed from it, and could be written."""
    if name not in node.fields or place_of(part) is not None:
        return False
    own = field(node, name)
    place = place_of(own)
    if place is None or not place.source.writable or place.source.memory is not None:
        return False
    if (own.shape, own.dtype) != (part.shape, part.dtype):
        return False
    stored = (one for one in below([part], Part.held) if isinstance(one, Stored))
    return any(place.source.root is one.source.root for one in stored)


def _attached(node: Node, name: str, part: Node) -> Node:
    if isinstance(node, Record):
        others = {other: place.node for other, place in members(node).items()}
        found = record(others | {name: part}, node.rank)
        lost = {other: why for other, why in node.fields.lost.items() if other != name}
        fields = Fields(found.fields.named, lost)
        return found.replaced(meta=node.meta, fields=fields, is_inferred=node.is_inferred)
    if isinstance(node, Driven):
        fields = node.fields.with_field(name, Attached(part, None))
        return Driven(part if name == node.driver else node.node, fields, node.driver)
    if isinstance(node, Stream):
        return with_part(node, name, part)
    follows = (node.shape or ())[:1] == (part.shape or ())[:1] != ()
    axes = (0,) if follows else () if node.shape == () else None
    old = node.fields.named.get(name)
    replaces = old.replaces if isinstance(old, Attached) else old is not None
    return with_fields(node, node.fields.with_field(name, Attached(part, axes, replaces)))


def _driven(node: Record, driver: str) -> Node:
    """Return the fields of a record, of which the driver is the data of the whole."""
    if driver not in node.fields:
        raise unknown_field(driver, node.fields, "_driver=")
    named = {name: Attached(part.node, None) for name, part in members(node).items()}
    return Driven(named[driver].node, Fields(named), driver)


def described(
    node: Node,
    meta: Mapping[str, Mapping[str, Any]] | None,
    given: Mapping[str, spaces.Space] | None,
) -> Node:
    """Return the node with metadata and spaces by field, and a mask beside each that has gaps."""
    node = node if meta is None else with_meta(node, meta)
    return telling(node if given is None else with_spaces(node, given))


def with_meta(node: Node, meta: Mapping[str, Mapping[str, Any]]) -> Node:
    """Return the node with metadata by field; that of the whole has the name ''."""
    if not isinstance(meta, Mapping):
        raise TypeError(f"_meta= has what is known of each field, {{name: {{...}}}}; got {meta!r}")
    for name, items in meta.items():
        if not isinstance(items, Mapping):
            raise TypeError(
                "_meta= has what is known of each field, {name: {...}}, and of the whole under the "
                f"name ''; for {name!r} it got {items!r}"
            )
        kept = read_only_meta(_plain_meta(node, name, items))
        if not name:
            node = node.replaced(meta=kept)
            continue
        if name not in node.fields:
            raise _no_field(name, node, "_meta=")
        old = node.fields.named[name]
        new: Field
        if isinstance(old, Window):
            new = old.with_meta(kept)
        else:
            new = old.of(old.node.replaced(meta=kept))
        node = with_fields(node, node.fields.with_field(name, new))
    known = knowing(node.fields)
    return node if known is node.fields else with_fields(node, known)


def _plain_meta(node: Node, name: str, items: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata of a field with its space, if there is one, as plain data."""
    space = items.get(spaces.SPACE)
    if not isinstance(space, spaces.Space):
        return dict(items)
    part = field(node, name) if name in node.fields else node
    spaces.check_space_of_field(space, part, name or "the data")
    return {**items, spaces.SPACE: spaces.plain(space)}


def is_unknown(node: Node) -> bool:
    """Whether the fields are unknown until a sample has been read."""
    return isinstance(node, Sampled) and node.dtype is None and not node.fields.named


def _no_field(name: str, node: Node, option: str) -> FieldError:
    if not is_unknown(node):
        return unknown_field(name, node.fields, option, advice=_of_inner(name, node, option))
    advice = "give _fields=, too, which says what a sample has, or write dv.View(d._probe(), ...)"
    reason = "is unknown until a sample has been read"
    return unknown_field(name, node.fields, option, reason, advice)


def _of_inner(name: str, node: Node, option: str) -> str:
    """Return where to declare something of a field inside another, nothing if it is none."""
    outer, _, inner = name.partition(".")
    if not inner or outer not in node.fields:
        return ""
    view = f"d[{outer!r}]"
    return f"declare it where the field is: {view} = dv.View({view}, {option}{{{inner!r}: ...}})"


def with_spaces(node: Node, given: Mapping[str, spaces.Space]) -> Node:
    """Return the node with the spaces of fields among their metadata."""
    if not isinstance(given, Mapping):
        raise TypeError(f"_spaces= has a space for each field, {{name: space}}; got {given!r}")
    meta: dict[str, Mapping[str, Any]] = {}
    for name, space in given.items():
        if name and name not in node.fields:
            raise _no_field(name, node, "_spaces=")
        part = field(node, name) if name else node
        if not isinstance(space, spaces.Space):
            inner = f"{name}.{next(iter(space), '')}" if isinstance(space, Mapping) else ""
            remedy = _of_inner(inner, node, "_spaces=")
            got = f"{spaces.given_for_space(space)}{remedy and '; '}{remedy}"
            raise TypeError(f"_spaces= has a space for each field; for {name!r} it {got}")
        meta[name] = {**part.meta, spaces.SPACE: space}
    return with_meta(node, meta)


def zip_nodes(named: Mapping[str, Node], driver: str | None) -> Node:
    """Return the record of nodes of one length, or name the one that differs."""
    for name in named:
        check_declared(name)
    if not named:
        raise ValueError("there is nothing to zip: no view was given")
    lengths = {name: length_of(node) for name, node in named.items()}
    unknown = [name for name, length in lengths.items() if length is None]
    if unknown and len(unknown) < len(lengths):
        streams = ", ".join(map(repr, unknown))
        raise ValueError(
            f"the length of {streams} is unknown until all has been read, and the others have one: "
            "zip streams with streams (dv.View(lambda: iter(data)) makes one of other data), or "
            "keep n rows of a stream first: stream[:n]._freeze()"
        )
    for name, length in lengths.items():
        if length != next(iter(lengths.values())):
            listing = ", ".join(f"{other} {count}" for other, count in lengths.items())
            raise ValueError(f"{name!r} differs in length from the others: {listing}")
    zipped = record({name: side_by_side(node) for name, node in named.items()}, 1)
    return side_by_side(zipped) if driver is None else _driven(zipped, driver)
