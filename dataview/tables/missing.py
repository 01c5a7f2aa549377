"""What is missing in data: filled with a value, or left out with its row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dataview.compute import reduction
from dataview.plan.build import elementwise, field, labelled, record, stored
from dataview.plan.fields import read_only_meta
from dataview.plan.gaps import (
    LABELS,
    MASK,
    both,
    holds_codes,
    known_by_value,
    known_in,
    masks_in,
    may_lack,
    present_in,
)
from dataview.plan.guards import check_array
from dataview.plan.kinds import Record, known_dtype, known_shape
from dataview.plan.node import DType, Node
from dataview.plan.operations import NumpyFunction, may_be_missing
from dataview.plan.ragged import Ragged
from dataview.plan.values import cast
from dataview.sources import ArraySource
from dataview.tables.comparing import in_dates
from dataview.tables.written import as_codes

_PRESENT = NumpyFunction("is_present")
_WHERE = NumpyFunction("where")


def _check_cast(given: DType, dtype: DType) -> None:
    """Raise if values of a dtype would lose what they hold in place of what is missing."""
    if not np.can_cast(given, dtype, "same_kind"):
        other = given if given.kind in "fc" else np.dtype(float)
        raise TypeError(
            f"_fillna: values of {given} would lose what they hold in place of missing {dtype}; "
            + (
                f"view._astype({other.name!r})._fillna(value) has room for them"
                if dtype.kind in "biuf" and given.kind in "biufc"
                else f"give values of {dtype}"
            )
        )


def filled_in(node: Node, value: Any) -> Node:
    """Return the elements of a node with a value where there is none, in the node's dtype.

    Codes are filled by labels or codes, as they are written, and stay codes of these labels.
    """
    check_array(node, "_fillna", "d.x = d.x._fillna(value) fills one")
    if isinstance(node, Ragged):
        rows = node.relaid()
        each = isinstance(value, Node) and value.shape != ()
        leaf = rows.leaf()
        if holds_codes(node):
            leaf = leaf.replaced(meta=node.meta, label=node.label)
        found = rows.over(filled_in(leaf, rows.per_row(value) if each else value))
        has_labels = LABELS in found.leaf().meta
        return found.replaced(meta=found.leaf().meta) if has_labels else found
    dtype = known_dtype(node)
    _, value = in_dates(node, value)
    value = as_codes(node, value)
    if isinstance(value, Node):
        _check_cast(known_dtype(value), dtype)
        options = (("dtype", dtype), ("casting", "same_kind"))
        (fill,) = elementwise(NumpyFunction("astype", options), (value,))
    else:
        fill = stored(ArraySource(cast(value, dtype)), False)
    present = known_in(node)
    if present is None:
        return node
    (found,) = elementwise(_WHERE, (present, node, fill))
    found.has_gaps = False  # which nothing but the values could tell
    if holds_codes(node):
        found.meta = read_only_meta({**found.meta, LABELS: node.meta[LABELS]})
    if known_shape(found) != known_shape(node):
        raise ValueError(
            f"a value of shape {known_shape(fill)} cannot be broadcast to the view's shape "
            f"{known_shape(node)}"
        )
    return found  # type: ignore[no-any-return]


def count_missing(node: Node) -> Node:
    """Return how many elements of a node are missing, of a record a number for each field."""
    if not _has_columns(node):
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


def _has_columns(node: Node) -> bool:
    """Whether what is missing in rows is asked of their columns."""
    return isinstance(node, Record) or (node.dtype is not None and bool(node.dtype.names))


def _count_missing(node: Node, there: Node | None) -> Node:
    """Return how many elements are missing, or not there by a mask of the rows."""
    if isinstance(node, Ragged):
        return _count_in_rows(node, there)
    if there is None or there.shape == node.shape:
        there = both(there, known_by_value(node))
    return _count_false(there)


def _count_in_rows(rows: Ragged, there: Node | None) -> Node:
    """Return how many elements of ragged rows are missing, and rows that lack more than elements.

    A row that a mask says to be missing may only lack an element.
    """
    inside = _count_false(known_in(rows.relaid().leaf()))
    if there is None:
        return inside
    axes = tuple(range(1, len(rows.extents or ())))
    whole = reduction("all", known(rows, "_missing"), axes, False, {})
    (alone,) = elementwise(np.logical_and, (elementwise(np.logical_not, (there,))[0], whole))
    found = reduction("sum", alone, None, False, {})
    return elementwise(np.add, (inside, found))[0]  # type: ignore[no-any-return]


def _count_false(there: Node | None) -> Node:
    if there is None:
        return stored(ArraySource(np.array(0)), False)
    (lacking,) = elementwise(np.logical_not, (there,))
    return reduction("sum", lacking, None, False, {})


def known(node: Node, verb: str) -> Node:
    """Return where there are values, neither NaN, NaT and None nor what a mask says is missing."""
    check_array(node, verb, "d._missing() counts what is missing in each")
    if isinstance(node, Ragged):
        rows = node.relaid()
        return rows.over(known(rows.leaf(), verb))
    found = known_in(node)
    return elementwise(_PRESENT, (node,))[0] if found is None else _named(found, node)


def _named(mask: Node, column: Node) -> Node:
    """Return the mask of a column under the name that it has beside the column in a table."""
    label = column.label
    if label is None or mask.label is not None:
        return mask
    *outer, name = label.names
    names = (*outer, f"{name}{MASK}")
    found = labelled(mask, names)
    if found is not mask:
        found.label = label._replace(names=names)
    return found


def whole_rows(node: Node, names: Sequence[str] = ()) -> Node:
    """Return the mask of the rows in which nothing is missing, also by the masks of fields.

    With names only these fields are looked at.
    """
    if node.count is None:
        known_shape(node)  # raises where that is unknown
        raise TypeError("_dropna leaves out rows; the view is a single element")
    found: Node = stored(ArraySource(np.ones(node.count, bool)), False)
    looked_at = names or (tuple(node.fields) if _has_columns(node) else ())
    for column, mask in masks_in(node.fields, by_name=True).items() if looked_at else ():
        if column in looked_at:
            (found,) = elementwise(np.logical_and, (found, field(node, mask)))
    for part in [field(node, name) for name in looked_at] or [node]:
        if isinstance(part, Record):
            inner = whole_rows(part)
        elif may_lack(part) or may_be_missing(known_dtype(part)):
            present = known(part, "_dropna")
            axes = tuple(range(1, len(part.extents or known_shape(part))))
            inner = reduction("all", present, axes, False, {}) if axes else present
        else:
            continue
        (found,) = elementwise(np.logical_and, (found, inner))
    return found
