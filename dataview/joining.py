"""Views one after the other: rows of one kind, fields matched by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dataview.errors import StreamError
from dataview.expression import record
from dataview.fields import Attached, Field, Fields, Window
from dataview.index import is_endless
from dataview.nodes import Concat, Node, Record, known_dtype, known_shape, members
from dataview.symbols import deferring

__all__ = ["concat"]


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
        if all(isinstance(other, Attached) and (other.axes or ())[:1] == (0,) for other in own):
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
        layout = {name: _layout(field) for name, field in node.fields.named.items()}
        first = {name: _layout(field) for name, field in nodes[0].fields.named.items()}
        for name, where in layout.items():
            if where != first[name]:
                raise ValueError(
                    f"field {name!r} lies at other columns in view {number} than in view 0; "
                    "join its parts by name: dv.concat(a.{0}, b.{0})".format(name)
                )


def _layout(field: Any) -> Any:
    if isinstance(field, Attached):
        return "attached"
    return {axis: np.asarray(place).tolist() for axis, place in field.positions.items()}
