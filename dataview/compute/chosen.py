"""Statistics of some elements: those where a mask is true, and an initial value besides."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataview.compute.reductions import result_dtype
from dataview.compute.statistics import of_array, of_ragged, reduction
from dataview.plan.build import elementwise, stored
from dataview.plan.concat import concat
from dataview.plan.guards import check_array, is_broadcast_to
from dataview.plan.kinds import known_dtype, known_shape, size_of
from dataview.plan.layout import broadcast, reshaped
from dataview.plan.node import Node
from dataview.plan.operations import NumpyFunction, may_be_missing
from dataview.plan.ragged import Ragged, places_of
from dataview.plan.symbols import deferring
from dataview.sources import ArraySource

BEGUN = {
    "sum": np.add, "nansum": np.add, "prod": np.multiply, "nanprod": np.multiply,
    "min": np.minimum, "nanmin": np.minimum, "max": np.maximum, "nanmax": np.maximum,
}  # fmt: skip
"""The statistics that can begin with an initial value, and how it is included."""


NEUTRAL = {"sum": 0, "prod": 1, "any": 0, "all": 1}
"""What an element that is left out is taken for."""


@deferring
def reduction_where(
    kind: str, node: Node, axis: Any, keepdims: bool, options: dict[str, Any], where: Node
) -> Node:
    """Return the node of a statistic of the elements where a mask is true."""
    check_array(node, kind)
    check_mask(where, node)
    dtype = known_dtype(node)
    plain = kind.removeprefix("nan")
    if plain in NEUTRAL:
        neutral = stored(ArraySource(np.array(NEUTRAL[plain], dtype)), False)
        (chosen,) = elementwise(NumpyFunction("where"), (where, node, neutral))
        return reduction(kind, chosen, axis, keepdims, options)
    check_counted(kind, dtype)
    if kind != plain and may_be_missing(dtype):
        (present,) = elementwise(NumpyFunction("is_present"), (node,))
        (where,) = elementwise(np.logical_and, (where, present))
    (pairs,) = elementwise(NumpyFunction("paired"), (node, where))
    return of_array(f"nan{plain}", pairs, axis, keepdims, options)


def check_mask(where: Node, node: Node | None = None) -> None:
    """Raise unless a mask is of bools, and fits the data if they are given."""
    if where.dtype != bool:
        raise TypeError(f"where= is a mask of bools; got {where.dtype}")
    if node is not None and not is_broadcast_to(known_shape(where), known_shape(node)):
        raise ValueError(
            f"where= of shape {where.shape} cannot be broadcast to the shape {node.shape} of the "
            "data"
        )


def check_counted(kind: str, dtype: np.dtype[Any]) -> None:
    """Raise unless a statistic that counts what a mask chooses is of numbers."""
    if dtype.kind not in "biufc":
        raise TypeError(f"where= of {kind} is for numbers; got {dtype}")


def reduction_from(
    kind: str, node: Node, axis: Any, keepdims: bool, initial: Any, where: Node | None = None
) -> Node:
    """Return a sum, product or extreme of the elements where a mask is true and of a value."""
    check_array(node, kind)
    dtype = result_dtype(kind, known_dtype(node))
    start = stored(ArraySource(np.array(initial, dtype)), False)  # NumPy casts it so
    found: Node
    if kind.removeprefix("nan") in ("min", "max"):
        found = _extreme_of(kind, node, axis, keepdims, start, where)
    elif where is None:
        found = reduction(kind, node, axis, keepdims, {})
    else:
        found = reduction_where(kind, node, axis, keepdims, {}, where)
    (begun,) = elementwise(BEGUN[kind], (found, start))
    return begun  # type: ignore[no-any-return]


@deferring
def _extreme_of(
    kind: str, node: Node, axis: Any, keepdims: bool, start: Node, where: Node | None
) -> Node:
    """Return the extreme of the elements, of which those that are left out count as `start`."""
    if where is not None:
        check_mask(where, node)
    if kind.startswith("nan") and may_be_missing(known_dtype(node)):
        (present,) = elementwise(NumpyFunction("is_present"), (node,))
        (where,) = (present,) if where is None else elementwise(np.logical_and, (where, present))
    if where is not None:
        (node,) = elementwise(NumpyFunction("where"), (where, node, start))
    if size_of(known_shape(node)):
        return reduction(kind.removeprefix("nan"), node, axis, keepdims, {})
    nothing = np.empty(known_shape(node), bool)
    return broadcast(start, np.any(nothing, axis, keepdims=keepdims).shape)


# --- ragged rows -----------------------------------------------------------------------------


def ragged_where(
    kind: str, node: Ragged, axis: Any, keepdims: bool, options: dict[str, Any], where: Node
) -> Node:
    """Return the node of a statistic of the values where a mask is true."""
    check_mask(where)
    rows, mask = _beside(node, where)
    line = rows.leaf()
    if axis is None:
        found = reduction_where(kind, line, None, False, options, mask)
        return reshaped(found, (1,) * len(node.extents)) if keepdims else found
    if kind in NEUTRAL:
        neutral = stored(ArraySource(np.array(NEUTRAL[kind], node.dtype)), False)
        chosen = _chosen(rows, mask, neutral)
        return reduction(kind, chosen, axis, keepdims, options)
    check_counted(kind, known_dtype(node))
    (pairs,) = elementwise(NumpyFunction("paired"), (line, mask))
    return of_ragged(f"nan{kind}", rows.over(pairs), axis, keepdims, options)


def ragged_extreme(
    kind: str, node: Ragged, axis: Any, keepdims: bool, initial: np.ndarray, where: Node | None
) -> Node:
    """Return the node of an extreme, which of a row without values is the initial value.

    So it is of values where a mask is false.
    """
    first = stored(ArraySource(initial), False)
    if where is not None:
        check_mask(where)
        node = _chosen(*_beside(node, where), first)
    if axis is None and not node.size:
        return reshaped(first, (1,) * len(node.extents)) if keepdims else first
    has_values = np.diff(node.merged().chosen()[1].offsets) > 0
    if axis is None or has_values.all():
        return reduction(kind, node, axis, keepdims, {})
    some = reduction(kind, node.rows(np.flatnonzero(has_values)), axis, keepdims, {})
    if isinstance(some, Ragged):  # along axes that all rows have alike
        return reduction(kind, node, axis, keepdims, {})
    others = np.broadcast_to(initial, (1, *known_shape(some)[1:]))
    places = np.where(has_values, has_values.cumsum() - 1, known_shape(some)[0])
    return places_of(concat([some, stored(ArraySource(others), False)]), places)


def _chosen(rows: Ragged, mask: Node, other: Node) -> Ragged:
    """Return the rows with another value where a mask of their values is false."""
    (line,) = elementwise(NumpyFunction("where"), (mask, rows.leaf(), other))
    return rows.over(line)


def _beside(node: Ragged, mask: Node) -> tuple[Ragged, Node]:
    """Return the rows such that their values stand in a line, and the mask of these."""
    rows = node.relaid()
    given = rows.rows_given(mask)
    if given is None:
        return rows, mask if mask.shape == () else rows.per_row(mask)
    if rows.is_like(given):
        return rows, given.flat()
    if rows.count != given.count:
        raise ValueError(f"where= has {given.count} rows, the data have {rows.count}")
    ours, theirs = rows.chosen()[1].lengths(), given.chosen()[1].lengths()
    odd = [0] if ours.shape != theirs.shape else np.flatnonzero((ours != theirs).any(axis=1))
    row = int(odd[0]) if len(odd) else 0
    raise ValueError(
        f"where= is a mask of rows of the same lengths: row {row} of the data has "
        f"{tuple(ours[row].tolist())}, of the mask {tuple(theirs[row].tolist())}"
    )
