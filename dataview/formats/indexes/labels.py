"""The labels of the rows of an index: from several columns, and the order of rows by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dataview.compute import evaluate, rows_of
from dataview.formats.parts import to_be_divided
from dataview.index import Index, axis_index, gather, numbers_map
from dataview.plan.build import field, keyed, record, select, stored
from dataview.plan.gaps import masks_in
from dataview.plan.kinds import known_shape
from dataview.plan.node import Node
from dataview.sources import ArraySource, Memo, Source
from dataview.tables import in_labels, labels_of_rows, undivided

LABEL = "label"
"""The names of columns of labels begin so."""


def label_columns(table: Node) -> list[str]:
    """Return the names of the columns of labels."""
    masks = {*masks_in(table.fields).values()}
    return [name for name in table.fields if name.startswith(LABEL) and name not in masks]


def labels_node(table: Node, names: Sequence[str]) -> Node:
    """Return the labels of each row, None where one is missing; several stand side by side.

    Of a column of codes that know their labels these are the labels, and not the codes.
    """
    masks = masks_in(table.fields)
    columns = [(in_labels(field(table, name)), _field(table, masks.get(name))) for name in names]
    if len(columns) == 1 and columns[0][1] is None:
        return columns[0][0]
    return stored(LabelsSource(columns))


def _field(table: Node, name: str | None) -> Node | None:
    return None if name is None else field(table, name)


class LabelsSource(Source):
    """Columns of labels with their masks as one array of objects, None where a label is missing.

    Labels of one column alone are a line.  Where columns have numbers and texts, all are texts.
    """

    __slots__ = ("are_texts", "columns", "dtype", "shape")

    def __init__(self, columns: Sequence[tuple[Node, Node | None]]) -> None:
        self.columns = columns
        self.dtype = np.dtype(object)
        count = known_shape(columns[0][0])[0]
        self.shape = (count,) if len(columns) == 1 else (count, len(columns))
        self.are_texts = len({_is_text(column) for column, _ in columns}) > 1

    def __reduce__(self) -> tuple[Any, ...]:
        return LabelsSource, (self.columns,)

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return the labels of the rows that the index selects."""
        return gather.by_rows(index, self._rows)

    def _rows(self, numbers: np.ndarray) -> np.ndarray:
        found = np.empty((len(numbers), len(self.columns)), object)
        for place, (column, mask) in enumerate(self.columns):
            values = np.asarray(rows_of(column, numbers))
            own = values.astype(str) if self.are_texts and not _is_text(column) else values
            found[:, place] = own.astype(object)
            if mask is not None:
                found[~np.asarray(rows_of(mask, numbers)), place] = None
        return found.reshape(len(numbers), *self.shape[1:])

    def whole(self) -> Source | None:
        """Return the labels of all rows if the columns are those of a partition."""
        columns = [
            (undivided(column), None if mask is None else undivided(mask))
            for column, mask in self.columns
        ]
        is_whole = all(new is old for (new, _), (old, _) in zip(columns, self.columns, strict=True))
        return None if is_whole else LabelsSource(columns)

    def describe(self) -> str:
        """Say what the labels are."""
        return "labels of an index"


def _is_text(column: Node) -> bool:
    return column.dtype is None or column.dtype.kind in "OUT"


def in_label_order(table: Node, name: str) -> Node:
    """Return the rows by label, and within a label by name as a text, offset and length.

    A row with several labels is there once for each, a row without any at the end.  The field
    `label` has the label for which a row is there.
    """
    names = label_columns(table)
    texts = evaluate(field(table, name)).astype(str)
    count = len(texts)
    labels: np.ndarray = np.empty(0, object)
    rows = np.empty(0, np.intp)
    more = labels
    if names:
        node = labels_node(table, names)
        rows, labels = labels_of_rows([evaluate(node)], count)
        more = _labels_of_others(node)
    left = np.setdiff1d(np.arange(count), rows)
    own = np.empty(len(rows) + len(left), object)
    own[: len(rows)] = labels.tolist()
    rows = np.concatenate([rows, left])
    codes = np.unique(labels, return_inverse=True)[1]
    ranks = np.concatenate([codes, np.full(len(left), len(labels))])
    spans = [evaluate(field(table, key))[rows] for key in SPAN if key in table.fields]
    order = np.lexsort((*spans, texts[rows], ranks))
    base = stored(ArraySource(np.concatenate([own[order], more])))
    label = keyed(to_be_divided(base), slice(len(own))) if len(more) else base
    return _rows_with(table, rows[order], {LABEL: label}, {*names})


def _labels_of_others(node: Node) -> np.ndarray:
    """Return the labels of all the data if a node has those of a partition, else none."""
    whole = undivided(node)
    if whole is node:
        return np.empty(0, object)
    return np.unique(labels_of_rows([evaluate(whole)], known_shape(whole)[0])[1]).astype(object)


SPAN = ("length", "offset")
"""The columns that say which bytes of a file are an item, in the order that `lexsort` takes."""


def _rows_with(table: Node, rows: np.ndarray, more: Mapping[str, Node], without: set[str]) -> Node:
    """Return some rows of a table, with other columns in the place of some."""
    masks = masks_in(table.fields)
    gone = {*without, *(masks[name] for name in without if name in masks)}
    parts = {
        name: select(part, axis_index(known_shape(part), numbers_map(rows, 0), len(rows), 0))
        for name in table.fields
        if name not in gone
        for part in [field(table, name)]
    }
    return record({**parts, **more}, 1)
