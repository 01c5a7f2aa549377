"""What is written to one row of ragged rows: a number, or a row of the same length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dataview.plan.build import field
from dataview.plan.guards import is_broadcast_to
from dataview.plan.kinds import Record, members
from dataview.plan.node import Node
from dataview.plan.places import Place
from dataview.plan.ragged import Ragged
from dataview.plan.values import array_or_none
from dataview.write.changes import places_written
from dataview.write.runs import Built, undo_moved


def check_row(rows: Node, row: Node, value: Any, built: Built | None) -> None:
    """Raise if one of some rows would be written by a row of another length.

    As an array it would take one value for all of its own, which NumPy repeats, but who writes rows
    means a row; and of a swap, the one half would be done when the other half is refused.  `built`
    tells when the value was built, if it is a view.
    """
    try:
        _check(rows, row, value)
    except ValueError as error:
        if built is None or not isinstance(value, Node):
            raise
        told = undo_moved(_places(row), value, built)
        if not told:
            raise
        raise ValueError(f"{error}{told}") from None


def _places(row: Node) -> Iterator[Place]:
    if isinstance(row, Record):
        for part in members(row).values():
            yield from _places(part.node)
    else:
        yield from places_written(row)


def _check(rows: Node, row: Node, value: Any) -> None:
    if isinstance(rows, Ragged):
        _check_length(row, value)
    elif isinstance(rows, Record) and isinstance(row, Record):
        ragged = [name for name, part in members(rows).items() if _may_be_ragged(part.node)]
        parts = _parts_of(value, tuple(row.fields)) if ragged else {}
        for name in ragged:
            if name in parts and name in row.fields:
                _check(field(rows, name), field(row, name), parts[name])


def _may_be_ragged(node: Node) -> bool:
    return isinstance(node, (Ragged, Record))


def _parts_of(value: Any, names: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the values of fields by name; none if they are refused where they are written."""
    if isinstance(value, Record):
        return {name: part.node for name, part in members(value).items()}
    if isinstance(value, tuple) and len(value) == len(names):
        return dict(zip(names, value, strict=True))
    if isinstance(value, (np.ndarray, np.void)) and value.dtype.names:
        return {name: value[name] for name in value.dtype.names}
    return value if isinstance(value, Mapping) else {}


def _check_length(row: Node, value: Any) -> None:
    shape = row.shape
    if isinstance(value, Node):
        given = value.shape
    else:
        array = array_or_none(value)
        given = None if array is None else array.shape
    if shape is None or given is None:
        return  # rows of rows, which are compared one by one
    while len(given) > len(shape) and given[0] == 1:
        given = given[1:]
    if len(given) != len(shape) or given == shape:
        return
    told = f"a row is written by a row of its shape: it has {shape}, the value {given}"
    if not is_broadcast_to(given, shape):
        told = (
            f"a value of shape {given} cannot be broadcast to the view's shape {shape}, that of "
            "the row"
        )
    raise ValueError(
        f"{told}; a number fills it, and d.x = dv.ragged(rows) makes the field one of other lengths"
    )
