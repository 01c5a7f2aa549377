"""The dataset that a sampler asks: it answers from a node."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataview.compute import evaluate
from dataview.errors import unknown_field
from dataview.index import Affine, Computed, axes_of, positions
from dataview.plan.build import field
from dataview.plan.gaps import present_in
from dataview.plan.kinds import (
    Concat,
    Driven,
    Elementwise,
    Mapped,
    Record,
    Reshaped,
    Select,
    Stored,
    known_shape,
    members,
)
from dataview.plan.node import Node, Part, Shape
from dataview.plan.photographs import Photograph
from dataview.plan.ragged import Ragged
from dataview.plan.walk import below
from dataview.samplers.protocol import text_of
from dataview.samples import NumberedSamples, pairing_of, samples_behind
from dataview.tables import check_by, checked_codes, labels_of, labels_of_rows, listed, without_gaps

MOST_COMPUTED = 1 << 24
"""Of more rows whose numbers are computed, as a permutation is, parts are not looked for."""


class RowsOf:
    """The rows of a node: how many there are, in which parts, and labels, each read once."""

    __slots__ = ("__weakref__", "asked", "count", "node")

    def __init__(self, node: Node, count: int) -> None:
        self.node = node
        self.count = count
        self.asked: list[tuple[Any, Column]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return _rows_of, (self.node, self.count, self.asked)

    @property
    def columns(self) -> list[Column]:
        """What it has been asked for."""
        return [column for _, column in self.asked]

    def told(self) -> list[str]:
        """Return short texts that differ for other values of what it has been asked for."""
        return [text_of(column.array()) for column in self.columns]

    @property
    def parts(self) -> tuple[int, ...]:
        """The lengths of the parts in which the rows are stored."""
        found = parts_of(self.node)
        return found if sum(found) == self.count else (self.count,)

    def visits(self, order: np.ndarray | None) -> None:
        """Tell the stores in which order their parts will be read; None is their own."""
        for part in below([self.node], _held):
            if isinstance(part, Stored):
                part.source.visits(order)

    @property
    def chunk(self) -> int:
        """The rows of the longest chunk among the stores of the data."""
        stores = (part.source for part in below([self.node], Part.held) if isinstance(part, Stored))
        return max((source.chunk_rows for source in stores), default=1)

    def expect(self, by: Any, several: bool = False) -> None:
        """Note that values will be asked for, which are then those of now.

        They are one for each row, or `several`, as labels may be.
        """
        for column in self._columns_of(by) if several else [by]:
            kind = Labels if several else Column
            asked = self._column(column, kind).node if isinstance(column, (str, Node)) else column
            shape = getattr(asked, "shape", None)
            if shape is not None and not several:
                self._check_one_each(shape)

    def values(self, by: Any) -> np.ndarray:
        """Return one value for each row: of a field, by name, or of an array."""
        check_by(by)
        return self._one_each(self._read(by))

    def labels(self, by: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the row of each label, and the labels; a row without one is not among them."""
        return labels_of_rows(list(map(self._read_labels, self._columns_of(by))), self.count)

    def _columns_of(self, by: Any) -> list[Any]:
        """Return the fields that a list names, anything else as the only one."""
        check_by(by)
        is_list = isinstance(by, (list, tuple)) and len(by) > 0
        names = is_list and all(isinstance(name, str) and name in self.node.fields for name in by)
        return list(by) if names else [by]

    def _read(self, by: Any) -> np.ndarray:
        return self._column(by).array() if isinstance(by, (str, Node)) else listed(by)

    def _read_labels(self, by: Any) -> np.ndarray:
        return self._column(by, Labels).array() if isinstance(by, (str, Node)) else listed(by)

    def _column(self, by: str | Node, kind: type[Column] | None = None) -> Column:
        kind = kind or Column
        for known, column in self.asked:
            is_same = known is by or (isinstance(by, str) and known == by)
            if is_same and type(column) is kind:
                return column
        if isinstance(by, str) and by not in self.node.fields:
            raise unknown_field(by, self.node.fields, f"a dataset of {self.count} rows")
        self.asked.append((by, kind(field(self.node, by) if isinstance(by, str) else by)))
        return self.asked[-1][1]

    def _one_each(self, values: np.ndarray) -> np.ndarray:
        self._check_one_each(values.shape)
        return values.reshape(self.count)

    def _check_one_each(self, shape: Shape) -> None:
        if shape not in ((self.count,), (self.count, 1)):
            raise ValueError(
                f"by= gives one value for each of the {self.count} rows; got shape {shape}"
            )


def _rows_of(node: Node, count: int, asked: list[tuple[Any, Column]]) -> RowsOf:
    found = RowsOf(node, count)
    found.asked = asked
    return found


class Column(Photograph):
    """What an order depends on: the values of a field as they were when it was asked for."""

    __slots__ = ()
    about = "what a sampler orders by"

    def find(self, node: Node) -> np.ndarray:
        """Read the values."""
        return np.array(evaluate(node))


class Labels(Column):
    """Labels as they were when they were asked for."""

    __slots__ = ()

    def find(self, node: Node) -> np.ndarray:
        """Read the labels, for codes those that they know; what is missing by a mask is None."""
        values, present, labels = super().find(node), present_in(node), labels_of(node)
        there = None if present is None else evaluate(present)
        if labels is not None:
            codes = checked_codes(without_gaps(values, there), len(labels.array()))
            return labels.table().take(codes)
        if there is not None and not there.all():
            values = values.astype(object)
            values[~there] = None
        return values


def parts_of(node: Node) -> tuple[int, ...]:
    """Return the lengths of the parts in which rows are stored, () if they are in none.

    What is made of the rows of data has their parts.
    """
    found: dict[int, tuple[int, ...]] = {}
    for part in below([node], _rows_in):
        inside = {found[id(one)] for one in _rows_in(part)} - {()}
        found[id(part)] = _own_parts(part) or (
            _chosen(part, inside.pop()) if len(inside) == 1 else ()
        )
    return found[id(node)]


def _own_parts(node: Node) -> tuple[int, ...]:
    if isinstance(node, Stored):
        return node.source.part_rows
    if isinstance(node, Ragged) and isinstance(node.values, Stored):
        rows = node.values.source.part_rows
        return rows if sum(rows) == node.count else ()
    if isinstance(node, Concat):
        return tuple(known_shape(part)[0] for part in node.nodes)
    return ()


def _rows_in(node: Node) -> list[Node]:
    """Return the data of whose rows those of a node are made, one of one or of some of them."""
    if isinstance(node, Record):
        return [part.node for part in members(node).values()]
    if isinstance(node, Elementwise):
        args = [arg for arg in node.args if isinstance(arg, Node)]
        return [arg for arg in args if arg.shape is not None and _is_along(arg.shape, node.shape)]
    if isinstance(node, Stored):
        made = samples_behind(node)
        return [] if made is None else [made]
    if isinstance(node, NumberedSamples):
        pairing = pairing_of(node)
        rows = node.node if pairing is None else pairing.indexes[0].rows
        return [] if rows is None else [rows]
    if isinstance(node, (Driven, Mapped)):
        return [node.node]
    return [node.node] if isinstance(node, Select) and not isinstance(node, Reshaped) else []


def _is_along(shape: Shape, whole: Shape | None) -> bool:
    """Whether an argument has a row for each of a result."""
    return whole is not None and len(shape) == len(whole) > 0 and shape[0] == whole[0]


def _chosen(node: Node, lengths: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many rows of each part are among those of a node, () if these do not ascend."""
    if not isinstance(node, (Select, NumberedSamples)):
        return lengths
    index, ends = node.index, np.cumsum((0, *lengths))
    if not index.shape or axes_of(index.maps[0]) != (0,):
        return ()
    count, map_ = index.shape[0], index.maps[0]
    if isinstance(map_, Affine):
        ((_, stride),) = map_.strides
        if stride < 1:
            return ()
        before = np.clip(-((map_.offset - ends) // stride), 0, count)
    elif isinstance(map_, Computed) and count > MOST_COMPUTED:
        return ()
    else:
        rows = positions(map_, index.shape).reshape(-1)
        if (rows[1:] < rows[:-1]).any():
            return ()
        before = rows.searchsorted(ends)
    return tuple(np.diff(before).tolist())


def _held(part: Part) -> list[Part]:
    """Return what a part of a plan holds; items of an index are made of the rows of that."""
    if not isinstance(part, (Stored, NumberedSamples)):
        return part.held()
    return [*part.held(), *_rows_in(part)]
