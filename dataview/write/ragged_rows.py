"""What is written to one row of ragged rows: a number, or a row of the same length."""

from __future__ import annotations

from typing import Any

from dataview.plan.guards import is_broadcast_to
from dataview.plan.kinds import Select
from dataview.plan.node import Node
from dataview.plan.values import array_or_none


def check_row(row: Node, value: Any) -> None:
    """Raise if one of ragged rows would be written by a row of another length.

    As an array it would take one value for all of its own, which NumPy repeats, but who writes rows
    means a row; and of a swap, the one half would be done when the other half is refused.  One
    element of a row, which may have axes of its own, is repeated as a number is.
    """
    if not isinstance(row, Select) or not row.row_axes:
        return
    shape = row.index.shape
    given = _shape_of(value)
    if given is None or given in ((), shape[row.row_axes :]):
        return
    while len(given) > len(shape) and given[0] == 1:
        given = given[1:]
    if given == shape:
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


def _shape_of(value: Any) -> tuple[int, ...] | None:
    """Return the shape of a value, None if it is not known or the value is no array."""
    if isinstance(value, Node):
        return value.shape
    array = array_or_none(value)
    return None if array is None else array.shape
