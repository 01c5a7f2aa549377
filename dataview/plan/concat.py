"""Nodes joined one after the other, field by field, and to which of them each row belongs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from dataview.errors import StreamError, shortened
from dataview.index import (
    Affine,
    Index,
    as_array,
    axes_of,
    block_index,
    compose,
    extend,
    is_endless,
    numbers_map,
    positions,
    renumbered,
    shifted,
)
from dataview.index.dtypes import promoted
from dataview.index.flat import shaped
from dataview.index.shape_texts import shape_text
from dataview.plan import layout
from dataview.plan.build import field, record, stored, with_fields
from dataview.plan.fields import NO_FIELDS, Attached, Field, Fields, Window, read_only_meta
from dataview.plan.joined_rows import joined_rows_of
from dataview.plan.kinds import Concat, Record, Sampled, known_dtype, known_shape
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged, as_ragged, places_of
from dataview.plan.symbols import deferring
from dataview.plan.walk import below
from dataview.sources import ArraySource


def shared_meta(nodes: Sequence[Node]) -> Mapping[str, Any]:
    """Return the metadata that all nodes have alike; views among them are not compared."""
    first, *others = [node.meta for node in nodes]
    kept = {
        name: value
        for name, value in first.items()
        if all(_are_alike(value, other.get(name)) for other in others)
    }
    return read_only_meta(kept)


Shared: TypeAlias = Callable[[Sequence[Node]], Mapping[str, Any]]


@deferring
def concat(nodes: Sequence[Node], shared: Shared = shared_meta) -> Node:
    """Return the nodes one after the other; records and windows are joined by field name.

    `shared` returns the metadata of nodes joined, or raises.
    """
    if not nodes:
        raise ValueError("there is nothing to join: no view was given")
    whole = list(nodes)
    inside: dict[int, dict[str, list[Node]]] = {}
    joined: dict[int, Node] = {}

    def fields_of(group: list[Node]) -> Iterable[list[Node]]:
        inside[id(group)] = found = _fields_to_join(group)
        return found.values()

    for group in below([whole], fields_of):
        parts = {name: joined[id(part)] for name, part in inside[id(group)].items()}
        first = group[0]
        joined[id(group)] = (
            _joined_records(group, parts, first.rank)
            if isinstance(first, Record)
            else _concat(group, parts, shared)
        )
    return joined[id(whole)]


def _joined_records(group: list[Node], parts: Mapping[str, Node], rank: int) -> Record:
    """Return the record of joined parts; what cannot be read of a file, cannot be of the whole."""
    found = record(parts, rank)
    unread = {name: why for node in group for name, why in node.fields.unread.items()}
    return found.replaced(fields=Fields(found.fields.named, unread)) if unread else found


def _fields_to_join(nodes: list[Node]) -> dict[str, list[Node]]:
    """Return the nodes of each field with data of its own that all nodes have for their rows."""
    _check_same_fields(nodes)
    ranks = {node.rank for node in nodes if isinstance(node, Record)}
    if len(ranks) > 1 or 0 in ranks:
        raise ValueError(f"records of one rank of at least 1 can be joined; got ranks {ranks}")
    found: dict[str, list[Node]] = {}
    for name in nodes[0].fields:
        parts = [node.fields.named[name] for node in nodes]
        own = [part.node for part in parts if isinstance(part, Attached) and part.follows_rows]
        if len(own) == len(nodes):
            found[name] = own
    return found


@deferring
def _concat(nodes: Sequence[Node], parts: Mapping[str, Node], shared: Shared = shared_meta) -> Node:
    """Return arrays one after the other, with their fields, of which `parts` are joined already."""
    check_meanings(nodes)
    for node in nodes:
        if isinstance(node, Sampled) and (found := node.joined(nodes)) is not None:
            return found
    if any(isinstance(node, Ragged) for node in nodes):
        found, meta = _joined_rows(nodes), shared(nodes)
        return found.replaced(meta=meta) if meta else found
    shapes = [known_shape(node) for node in nodes]
    for number, shape in enumerate(shapes):
        if not shape:
            raise ValueError(
                f"view {number} has no rows to join: its shape is (); d[i:i+1] is a row as a view "
                "of rows, dv.open(path) what is in a file"
            )
        if shape[1:] != shapes[0][1:]:
            raise ValueError(
                f"the rows of view {number} have shape {shape[1:]}, those of view 0 "
                f"{shapes[0][1:]}; rows to be joined are alike"
            )
    if any(is_endless(shape[0]) for shape in shapes[:-1]):
        raise StreamError("nothing can be joined after a view that never ends")
    dtype = np.concatenate([np.empty(0, known_dtype(node)) for node in nodes]).dtype
    if dtype.names:
        dtype = promoted(*[known_dtype(node) for node in nodes])
    rows = sum(shape[0] for shape in shapes)
    fields = _joined_fields(nodes, parts, shared)
    whole = Concat(tuple(nodes), (rows, *shapes[0][1:]), dtype, fields)
    whole.has_gaps = any(node.has_gaps for node in nodes)
    whole.meta = shared(nodes)
    return whole


class _Meaning(NamedTuple):
    """Metadata without which values stand for something else: of which dtypes, and of what type.

    Views that lack them are joined to others only if there is no `lacks`, which says what is wrong.
    """

    name: str
    kinds: str
    type: type
    differ: str
    remedy: str
    lacks: str = ""


_MEANINGS = (
    _Meaning(
        "labels",
        "iu",
        list,
        "number their labels differently, {} and {}, so that a code would stand for two of them",
        "join view._codes(labels=...) by the labels of one view",
    ),
    _Meaning(
        "timezone",
        "M",
        str,
        "have times of the zones {} and {}, of which the joined times could have one only",
        "the times are in UTC and the metadata say in which zone they are shown, so join "
        "view._with_meta(timezone=...) with that of one view",
        "have times of the zone {}, which are in UTC, and times without a zone, so that nothing "
        "would say which are which; if those are in UTC, too, join view._with_meta(timezone={!r})",
    ),
)


def check_meanings(nodes: Sequence[Node]) -> None:
    """Raise if codes or times are joined whose metadata list other labels or name other zones."""
    for meaning in _MEANINGS:
        found = [node.meta.get(meaning.name) for node in nodes]
        kinds = ["" if node.dtype is None else node.dtype.kind for node in nodes]
        if not all(kind and kind in meaning.kinds for kind in kinds):
            continue
        are_known = [isinstance(one, meaning.type) for one in found]
        if all(are_known):
            _check_same(meaning, found)
        elif meaning.lacks and any(are_known):
            known, lacking = are_known.index(True), are_known.index(False)
            told = meaning.lacks.format(*[shortened(str(found[known]))] * 2)
            raise ValueError(f"views {known} and {lacking} {told}")


def _check_same(meaning: _Meaning, found: Sequence[Any]) -> None:
    for number, other in enumerate(found):
        if other != found[0]:
            told = meaning.differ.format(*(shortened(str(one)) for one in (found[0], other)))
            raise ValueError(f"views 0 and {number} {told}; {meaning.remedy}")


def _are_alike(value: Any, other: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return (
            type(value) is type(other)
            and len(value) == len(other)
            and all(map(_are_alike, value, other))
        )
    if isinstance(value, dict):
        names = isinstance(other, dict) and value.keys() == other.keys()
        return names and all(_are_alike(value[name], other[name]) for name in value)
    plain = isinstance(value, (str, int, float)) and type(value) is type(other)
    return value is other or (plain and value == other)


def _joined_rows(nodes: Sequence[Node]) -> Ragged:
    """Return ragged rows one after the other.

    What several of them choose rows from is joined once, such as the data whose parts they are.
    """
    axes = max(len(node.layout.axes) for node in nodes if isinstance(node, Ragged))
    parts = [
        node.with_axes(axes) if isinstance(node, Ragged) else as_ragged(node, axes)
        for node in nodes
    ]
    for number, part in enumerate(parts):
        if len(part.layout.axes) != axes or len(part.extents) != len(parts[0].extents):
            raise ValueError(
                f"the rows of view {number} have shape {shape_text(part.row_extents)}, those of "
                f"view 0 {shape_text(parts[0].row_extents)}; rows to be joined are alike"
            )
    wholes = list({(id(part.values), id(part.layout)): part for part in parts}.values())
    starts = np.cumsum([0, *(whole.layout.count for whole in wholes)]).tolist()
    first = {(id(w.values), id(w.layout)): start for w, start in zip(wholes, starts, strict=False)}
    lines = [w.layout.part(range(w.layout.count)) for w in wholes]
    values = [places_of(w.values, places) for w, (places, _) in zip(wholes, lines, strict=True)]
    layout = shaped(np.concatenate([line.lengths() for _, line in lines]))
    shared = zip(*(line.axes for _, line in lines), strict=True)
    layout = replace(layout, axes=tuple(n[0] if len({*n}) == 1 else None for n in shared))
    layout = layout.lacking(np.concatenate([line.there() for _, line in lines]))
    numbers = [as_array(part.numbers()) + first[id(part.values), id(part.layout)] for part in parts]
    rows = np.concatenate(numbers)
    line = _concat(values, {}) if len(values) > 1 else values[0]
    found = Ragged(line, layout, Index((len(rows),), [numbers_map(rows)]))
    if any(node.mask is not None for node in nodes):
        found.mask = _concat(
            [_whole(node) if node.mask is None else node.mask for node in nodes], {}
        )
    return found


def _whole(node: Node) -> Node:
    """Return that no row is missing."""
    return stored(ArraySource(np.ones(node.count or 0, bool)), False)


def _joined_fields(nodes: Sequence[Node], parts: Mapping[str, Node], shared: Shared) -> Fields:
    """Return the fields of joined nodes: windows as they lie, fields of their own joined too."""
    named: dict[str, Field] = {}
    fields = nodes[0].fields
    lost = dict(fields.lost)
    for name, part in fields.named.items():
        if isinstance(part, Window):
            others = [node.fields.named[name] for node in nodes]
            told = any(isinstance(other, Window) and other.meta for other in others)
            meta = shared([field(node, name) for node in nodes]) if told else part.meta
            named[name] = part if meta is part.meta else part.with_meta(meta)
        elif name in parts:
            named[name] = part.of(parts[name])
        else:
            lost[name] = "belongs to one of the joined datasets only"
    return Fields(named, lost)


def _check_same_fields(nodes: Sequence[Node]) -> None:
    names = set(nodes[0].fields)
    for number, node in enumerate(nodes):
        if set(node.fields) == names and isinstance(node, Record) != isinstance(nodes[0], Record):
            raise ValueError(
                f"view {number} is {_what_has_fields(node)}, view 0 {_what_has_fields(nodes[0])}; "
                "join views of one kind: _select(*view._fields()) makes a record of an array"
            )
        if set(node.fields) != names:
            raise ValueError(
                f"view {number} has the fields {list(node.fields)}, view 0 {list(nodes[0].fields)}"
                "; views are joined by field name, so the names must be the same"
            )
        for name, part in node.fields.named.items():
            if _layout(part) != _layout(nodes[0].fields.named[name]):
                raise ValueError(
                    f"field {name!r} lies at other columns in view {number} than in view 0; "
                    f"join its parts by name: dv.concat(a[{name!r}], b[{name!r}])"
                )


def _what_has_fields(node: Node) -> str:
    if isinstance(node, Record):
        return "a record"
    is_structured = node.dtype is not None and node.dtype.names is not None
    return "a structured array" if is_structured else "an array with fields"


def _layout(field: Any) -> Any:
    if isinstance(field, Attached):
        return "attached"
    return {axis: np.asarray(place).tolist() for axis, place in field.positions.items()}


# --- which rows belong to which node -----------------------------------------------------------


class Piece(NamedTuple):
    """What an index selects from one of several joined nodes, and where it belongs in the view."""

    node: Node
    where: Index
    axes: tuple[int, ...]
    places: tuple[Any, ...]

    def of(self, whole: np.ndarray) -> np.ndarray:
        """Return the view's array with the axes first over which the rows vary."""
        first = range(len(self.axes))
        return whole if self.axes == tuple(first) else np.moveaxis(whole, self.axes, first)


def split_rows(node: Concat, index: Index) -> Iterator[Piece]:
    """Return the parts of what an index selects from joined nodes, one for each node it meets.

    Rows by number are those of what the nodes are parts of: so those of one file are one part.
    """
    rows = index.maps[0]
    if not axes_of(rows):
        number = int(node.starts.searchsorted(positions(rows, ()), side="right")) - 1
        yield Piece(node.nodes[number], _shifted(index, node, number), (), ())
        return
    over = axes_of(rows)
    others = [axis for axis in range(len(index.shape)) if axis not in over]
    moved = renumbered(index, [*over, *others])
    if len(over) == 1 and isinstance(moved.maps[0], Affine):
        first, shape, columns = moved.maps[0], moved.shape, moved.maps[1:]
        are_rows = not any(0 in axes_of(map_) for map_ in columns)
        for number, low, high in _runs(node, first, shape[0]):
            if are_rows:
                start = first.offset + first.strides[0][1] * low - int(node.starts[number])
                line = Affine(start, first.strides)
                where = Index((high - low, *shape[1:]), (line, *columns))
            else:
                where = _shifted(compose(moved, block_index(shape, low, high)), node, number)
            yield Piece(node.nodes[number], where, over, (slice(low, high),))
        return
    lines = moved.shape[: len(over)]
    spread = np.broadcast_to(positions(moved.maps[0], lines), lines)
    joined = joined_rows_of(node)
    for number, numbers, among in joined.of(spread.reshape(-1)):
        places = np.unravel_index(np.arange(spread.size)[among], lines)
        picked = _picked(moved, lines, places)
        where = Index(picked.shape, [numbers_map(numbers), *picked.maps[1:]])
        yield Piece(joined.bases[number], where, over, _as_line(places))


def _runs(node: Concat, rows: Affine, count: int) -> Iterator[tuple[int, int, int]]:
    """Return the numbers of joined nodes, and which of evenly spaced rows lie in each."""
    ((_, stride),) = rows.strides
    ends = sorted([rows.offset, rows.offset + stride * (count - 1)])
    first, last = np.searchsorted(node.starts, ends, side="right").tolist()
    for number in range(first - 1, last if count else 0):
        start = int(node.starts[number])
        length = known_shape(node.nodes[number])[0]
        # The rows at and after a place begin there; those that run backwards end there.
        edges = [start, start + length] if stride > 0 else [start + length - 1, start - 1]
        low, high = (min(count, max(0, -((rows.offset - edge) // stride))) for edge in edges)
        if low < high:
            yield number, low, high


def _shifted(index: Index, node: Concat, number: int) -> Index:
    """Return the index into one of several joined nodes."""
    first = shifted(index.maps[0], int(node.starts[number]))
    return Index(index.shape, [first, *index.maps[1:]])


def _picked(index: Index, lines: tuple[int, ...], places: tuple[np.ndarray, ...]) -> Index:
    """Return the index at some places of its first axes, which become one axis."""
    if not lines:
        return index
    inner = Index((len(places[0]),), [numbers_map(place) for place in places])
    return compose(index, extend(inner, index.shape[len(lines) :]))


def _as_line(places: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
    if len(places) == 1 and isinstance(numbers_map(places[0]), Affine):
        return (slice(int(places[0][0]), int(places[0][-1]) + 1),)
    return places


# --- along any axis --------------------------------------------------------------------------


@deferring
def joined(nodes: Sequence[Node], axis: int | None) -> Node:
    """Return nodes joined along an axis, or flat; fields that only some of the arrays have go."""
    names = {tuple(node.fields) for node in nodes}
    if len(names) > 1 and not any(isinstance(node, Record) for node in nodes):
        nodes = [with_fields(node, NO_FIELDS) for node in nodes]
    if axis is None:
        return concat([layout.reshaped(node, -1) for node in nodes])
    if axis == 0 or normalize_axis_index(axis, len(known_shape(nodes[0]))) == 0:
        return concat(nodes)
    return layout.moved(concat([layout.moved(node, axis, 0) for node in nodes]), 0, axis)


@deferring
def stacked(nodes: Sequence[Node], axis: int = 0) -> Node:
    """Return nodes of one shape joined along a new axis."""
    if len(set(map(known_shape, nodes))) > 1:
        raise ValueError(f"what is stacked has one shape; got {[*map(known_shape, nodes)]}")
    return joined([layout.expanded(node, axis) for node in nodes], axis)
