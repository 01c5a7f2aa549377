"""Arrow's tables in memory as nodes, which share memory wherever NumPy has the same arrays.

Rows that another library hands out as such tables are nodes, too, and are taken when they are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from dataview.formats.contents import described
from dataview.formats.tables.arrow import Leaf, arrow, dtype_of, leaves_of, stored_type, text_meta
from dataview.formats.tables.arrow_values import (
    ArrowObjects,
    columns_of,
    dictionaries_in,
    items_in,
    labels_in,
    lacks_elements,
    noted_labels,
    one_array,
    told_labels,
)
from dataview.formats.tables.column_nodes import nested, table_node
from dataview.formats.tables.columns import Column, Name, Table
from dataview.formats.tables.late_values import Joined, LateRows, LateValues
from dataview.index.flat import layout_of
from dataview.plan.build import field, stored
from dataview.plan.gaps import PRESENT, tells_present, with_mask
from dataview.plan.kinds import Record
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged, laid_out
from dataview.sources import ArraySource


def node_of_table(table: Any) -> Node:
    """Return the record of an Arrow table's columns, with masks beside those that have gaps."""
    names = table.schema.names
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"two columns have the name {twice[0]!r}; rename one of them")
    found = leaves_of(list(table.schema), lambda *_: True, notes=table.schema.metadata)
    if not found.found and not found.lost:
        raise ValueError("a table without columns has no data to view")
    nodes: dict[Name, Node] = {}
    masks: dict[Name, Node] = {}
    for name, column in zip(names, table.columns, strict=True):
        if name in found.lost:
            continue
        leaves = {own: leaf for own, leaf in found.found.items() if own[0] == name}
        labels = _noted(leaves)
        for own, part in _columns(column, name, labels).items():
            if tells_present(own):
                if own in leaves and not np.asarray(part.values).all():
                    masks[own[:-1]] = stored(ArraySource(np.asarray(part.values)), False)
                continue
            meta = dict(leaves[own].meta)
            if own in labels:
                meta["labels"] = told_labels(leaves[own], labels[own])
            nodes[own] = described(_node(part), meta)
            if part.present is not None and not part.present.all():
                masks[own] = stored(ArraySource(part.present), False)
    return described(nested(nodes, masks, found.lost), text_meta(table.schema.metadata))


def _noted(leaves: Mapping[Name, Leaf]) -> dict[Name, Any]:
    """Return the labels of codes by the names of their leaves, where metadata list them."""
    coded = {own: leaf for own, leaf in leaves.items() if arrow().types.is_dictionary(leaf.type)}
    noted = {own: noted_labels(leaf) for own, leaf in coded.items()}
    return {own: labels for own, labels in noted.items() if labels is not None}


def node_of_column(column: Any) -> Node:
    """Return the node of one Arrow array: a record for structs, rows for lists.

    Beside one column there is no place for a mask: gaps are NaN and NaT, and None in anything else.
    """
    pyarrow = arrow()
    array = one_array(column)
    found = node_of_table(pyarrow.table({COLUMN: array}))
    if COLUMN in found.fields.unread:
        raise TypeError(f"the column {found.fields.unread[COLUMN]}")
    node = field(found, COLUMN)
    kind, _ = stored_type(array.type)
    if isinstance(node, Record):
        return node
    has_none = len(found.fields.named) == 2 and not pyarrow.types.is_dictionary(kind)
    if not has_none or (node.dtype is not None and node.dtype.kind in "fmM"):
        return node
    values = array.to_pylist() if pyarrow.types.is_integer(kind) else None
    if values is None:
        return stored(ArraySource(array.to_numpy(zero_copy_only=False)), False)
    return stored(ArraySource(np.array(values, object)), False)


COLUMN = "column"


def _columns(column: Any, name: str, labels: dict[Name, Any]) -> dict[Name, Column]:
    """Return the leaves of a column by name; `labels` gets those of codes."""
    kind, _ = stored_type(column.type)
    is_cut = isinstance(column, arrow().ChunkedArray) and column.num_chunks > 1
    if is_cut and dtype_of(kind) == LateValues.dtype and kind == column.type:
        present = column.is_valid().to_numpy() if column.null_count else None
        return {(name,): Column(Joined([*map(ArrowObjects, column.chunks)]), present)}
    array = one_array(column)
    labels.update({own: labels_in([one]) for own, one in dictionaries_in(array, (name,))})
    return columns_of(array, (name,), labels)


def _node(column: Column) -> Node:
    """Return the node of values, which share memory with Arrow's, or of lists of them."""
    if isinstance(column.values, Column):
        assert column.offsets is not None
        inner, present = _node(column.values), column.values.present
        if isinstance(inner, Ragged):
            inner = Ragged(inner.values, inner.layout.lacking(present))
        elif present is not None:
            inner = with_mask(inner, stored(ArraySource(present), False))
        return laid_out(inner, layout_of(offsets=column.offsets), True)
    if isinstance(column.values, LateValues):
        return stored(LateRows(column.values), False)
    return stored(ArraySource(column.values), False)


# --- rows that a library hands out ---------------------------------------------------------------

GROUP_ROWS = 256
"""So many rows are asked for to read one of them."""


class HandedRows(Table):
    """One column of a library's rows, of which `rows[low:high]` is an Arrow table."""

    joins_groups = True

    def __init__(self, title: str, rows: Any, count: int) -> None:
        super().__init__(title, np.append(np.arange(0, count, GROUP_ROWS), count))
        self.rows = rows

    def __reduce__(self) -> tuple[Any, ...]:
        return HandedRows, (self.title, self.rows, int(self.starts[-1]))

    def read(self, names: Collection[Name], first: int, stop: int) -> Mapping[Name, Column]:
        """Return the leaves of the column of some rows."""
        low, high = self.starts[[first, stop]].tolist()
        (column,) = (table := self.rows[low:high]).columns
        found = columns_of(one_array(column), (table.schema.names[0],))
        return {name: found[name] for name in names}


def node_of_rows(
    title: str, rows: Any, count: int, name: str, column: Any, labels: Mapping[Name, Any]
) -> Node | None:
    """Return the record of one column of a library's rows and its mask, None if it is no column.

    `column` has the values that the rows are chosen from, and `labels` what codes below it are of.
    """
    missing = {own for chunk in column.chunks for own in _lacking(chunk, (name,), False)}
    found = leaves_of(
        [arrow().field(name, column.type)],
        lambda own, _: own in missing,
        lambda own, *_: any(lacks_elements(chunk, own) for chunk in column.chunks),
    )
    if found.lost:
        return None
    metas = {
        own: {**leaf.meta, **({"labels": labels[own]} if own in labels else {})}
        for own, leaf in found.found.items()
    }
    kinds = {own: leaf.kind for own, leaf in found.found.items()}
    return table_node(HandedRows(title, rows, count), kinds, None, metas)


def _lacking(array: Any, name: Name, above: bool) -> Iterator[Name]:
    """Yield the leaves of an array that lack a value, by themselves or with what they are in."""
    types = arrow().types
    lacks = above or array.null_count > 0
    if types.is_struct(array.type):
        if lacks:
            yield (*name, PRESENT)
        for part, child in zip(array.type, array.flatten(), strict=True):
            yield from _lacking(child, (*name, part.name), lacks)
    elif types.is_nested(array.type):
        yield from _lacking(items_in(array), name, lacks)
    elif lacks:
        yield name
