"""What is missing in data: filled with a value, or left out with its row."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataview.compute import reduction
from dataview.plan.build import elementwise, field, record, stored
from dataview.plan.gaps import masks_in
from dataview.plan.guards import check_array
from dataview.plan.kinds import Record, known_dtype, known_shape
from dataview.plan.node import Node
from dataview.plan.operations import NumpyFunction, may_be_missing
from dataview.plan.places import present_in
from dataview.plan.ragged import Ragged
from dataview.plan.values import cast
from dataview.sources import ArraySource

_PRESENT = NumpyFunction("is_present")
_WHERE = NumpyFunction("where")


def filled_in(node: Node, value: Any) -> Node:
    """Return the elements of a node with a value where there is none, in the node's dtype."""
    check_array(node, "_fillna")
    if isinstance(node, Ragged):
        rows = node.relaid()
        each = isinstance(value, Node) and value.shape != ()
        return rows.over(filled_in(rows.leaf(), rows.per_row(value) if each else value))
    dtype = known_dtype(node)
    if isinstance(value, Node):
        options = (("dtype", dtype), ("casting", "same_kind"))
        (fill,) = elementwise(NumpyFunction("astype", options), (value,))
    else:
        fill = stored(ArraySource(cast(value, dtype)), False)
    present = present_in(node)
    if present is None:
        if not may_be_missing(dtype):
            return node
        (present,) = elementwise(_PRESENT, (node,))
    (found,) = elementwise(_WHERE, (present, node, fill))
    if known_shape(found) != known_shape(node):
        raise ValueError(
            f"a value of shape {known_shape(fill)} cannot be broadcast to the view's shape "
            f"{known_shape(node)}"
        )
    return found  # type: ignore[no-any-return]


def count_missing(node: Node) -> Node:
    """Return how many elements of a node are missing, of a record a number for each field."""
    if not isinstance(node, Record):
        return _count_missing(node, present_in(node))
    masks = masks_in(node.fields, by_name=True)
    found: dict[str, Node] = {}
    for name in node.fields:
        part = field(node, name)
        if name in masks:
            found[name] = _count_missing(part, field(node, masks[name]))
        elif name not in masks.values():
            found[name] = count_missing(part)
    return record(found, 0)


def _count_missing(node: Node, there: Node | None) -> Node:
    """Return how many elements are missing, or not there by a mask of the rows."""
    if isinstance(node, Ragged):
        node = node.flat()
    if may_be_missing(known_dtype(node)) and (there is None or there.shape == node.shape):
        (own,) = elementwise(_PRESENT, (node,))
        (there,) = (own,) if there is None else elementwise(np.logical_and, (there, own))
    if there is None:
        return stored(ArraySource(np.array(0)), False)
    (lacking,) = elementwise(np.logical_not, (there,))
    return reduction("sum", lacking, None, False, {})


def whole_rows(node: Node) -> Node:
    """Return the mask of the rows in which nothing is missing, also by the masks of fields."""
    if node.count is None:
        known_shape(node)  # raises where that is unknown
        raise TypeError("_dropna leaves out rows; the view is a single element")
    named = {name: field(node, name) for name in node.fields} if isinstance(node, Record) else {}
    found: Node = stored(ArraySource(np.ones(node.count, bool)), False)
    for mask in masks_in(node.fields, by_name=True).values() if named else ():
        (found,) = elementwise(np.logical_and, (found, named[mask]))
    for part in named.values() if isinstance(node, Record) else [node]:
        if isinstance(part, Record):
            inner = whole_rows(part)
        elif may_be_missing(known_dtype(part)):
            (present,) = elementwise(_PRESENT, (part,))
            axes = tuple(range(1, len(part.extents or known_shape(part))))
            inner = reduction("all", present, axes, False, {}) if axes else present
        else:
            continue
        (found,) = elementwise(np.logical_and, (found, inner))
    return found
