"""Nodes joined one after the other, field by field, and to which of them each row belongs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.errors import StreamError
from dataview.index import (
    Affine,
    Index,
    axes_of,
    compose,
    extend,
    is_endless,
    numbers_map,
    positions,
    renumbered,
    shifted,
)
from dataview.plan.build import record
from dataview.plan.fields import Attached, Field, Fields, Window
from dataview.plan.kinds import Concat, Record, known_dtype, known_shape, members
from dataview.plan.node import Node
from dataview.plan.symbols import deferring


@deferring
def concat(nodes: Sequence[Node]) -> Node:
    """Return the nodes one after the other; records and windows are joined by field name."""
    if not nodes:
        raise ValueError("there is nothing to join: no view was given")
    first = nodes[0]
    _check_same_fields(nodes)
    if isinstance(first, Record):
        ranks = {node.rank for node in nodes if isinstance(node, Record)}
        if len(ranks) > 1 or not first.rank:
            raise ValueError(f"records of one rank of at least 1 can be joined; got ranks {ranks}")
        parts = [members(node) for node in nodes if isinstance(node, Record)]
        joined = {name: concat([part[name].node for part in parts]) for name in parts[0]}
        return record(joined, first.rank)
    shapes = [known_shape(node) for node in nodes]
    for number, shape in enumerate(shapes):
        if not shape:
            raise ValueError(f"view {number} has no rows to join: its shape is ()")
        if shape[1:] != shapes[0][1:]:
            raise ValueError(
                f"the rows of view {number} have shape {shape[1:]}, those of view 0 "
                f"{shapes[0][1:]}; rows to be joined are alike"
            )
    if any(is_endless(shape[0]) for shape in shapes[:-1]):
        raise StreamError("nothing can be joined after a view that never ends")
    dtype = np.concatenate([np.empty(0, known_dtype(node)) for node in nodes]).dtype
    rows = sum(shape[0] for shape in shapes)
    fields = _joined_fields(nodes)
    return Concat(tuple(nodes), (rows, *shapes[0][1:]), dtype, fields)


def _joined_fields(nodes: Sequence[Node]) -> Fields:
    """Return the fields of joined nodes: windows as they lie, fields of their own joined too."""
    named: dict[str, Field] = {}
    lost = dict(nodes[0].fields.lost)
    for name, part in nodes[0].fields.named.items():
        if isinstance(part, Window):
            named[name] = part
            continue
        own = [node.fields.named[name] for node in nodes]
        if all(isinstance(other, Attached) and other.follows_rows for other in own):
            joined = concat([other.node for other in own if isinstance(other, Attached)])
            named[name] = Attached(joined, part.axes)
        else:
            lost[name] = "belongs to one of the joined datasets only"
    return Fields(named, lost)


def _check_same_fields(nodes: Sequence[Node]) -> None:
    names = set(nodes[0].fields)
    for number, node in enumerate(nodes):
        if isinstance(node, Record) != isinstance(nodes[0], Record) or set(node.fields) != names:
            raise ValueError(
                f"view {number} has the fields {list(node.fields)}, view 0 {list(nodes[0].fields)}"
                "; views are joined by field name, so the names must be the same"
            )
        for name, field in node.fields.named.items():
            if _layout(field) != _layout(nodes[0].fields.named[name]):
                raise ValueError(
                    f"field {name!r} lies at other columns in view {number} than in view 0; "
                    "join its parts by name: dv.concat(a.{0}, b.{0})".format(name)
                )


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
        return np.moveaxis(whole, self.axes, range(len(self.axes)))


def split_rows(node: Concat, index: Index) -> Iterator[Piece]:
    """Return the parts of what an index selects from joined nodes, one for each node it meets."""
    over = axes_of(index.maps[0])
    others = [axis for axis in range(len(index.shape)) if axis not in over]
    moved = renumbered(index, [*over, *others])
    lines = moved.shape[: len(over)]
    rows = np.broadcast_to(positions(moved.maps[0], lines), lines)
    which = np.searchsorted(node.starts, rows, side="right") - 1
    for number in np.unique(which).tolist():
        places = (which == number).nonzero() if over else ()
        picked = _picked(moved, lines, places)
        first = shifted(picked.maps[0], int(node.starts[number]))
        below = Index(picked.shape, [first, *picked.maps[1:]])
        yield Piece(node.nodes[number], below, over, _as_line(places))


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
