"""Statistics of ragged rows of which a mask chooses values, or to which one value is added."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataview.compute.chosen import NEUTRAL, check_counted, check_mask, reduction_where
from dataview.compute.statistics import of_ragged, reduction
from dataview.plan.build import elementwise, stored
from dataview.plan.concat import concat
from dataview.plan.kinds import known_dtype, known_shape
from dataview.plan.layout import reshaped
from dataview.plan.node import Node
from dataview.plan.operations import NumpyFunction
from dataview.plan.ragged import Ragged, places_of
from dataview.sources import ArraySource


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
