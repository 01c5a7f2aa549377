"""The distinct values of a view, counted in one pass that keeps only these values in memory."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dataview.compute import evaluate, row_blocks, run_in_windows, settle, without_mask
from dataview.index import Index
from dataview.plan.build import record, stored
from dataview.plan.fields import meta_of_values
from dataview.plan.gaps import NO_LABEL, known_in, present_in
from dataview.plan.guards import check_ends, check_no_record
from dataview.plan.kinds import Record, known_dtype, known_shape
from dataview.plan.node import DType, Node
from dataview.plan.operations import may_be_missing
from dataview.plan.photographs import Late, Photograph, PhotographSource
from dataview.plan.ragged import Ragged
from dataview.plan.walk import rebuilt
from dataview.samples import RaggedSamples, with_lengths
from dataview.tables.coding import (
    NARROW,
    above,
    as_integers,
    classes,
    coder,
    in_order,
    lie_within,
    name_of,
    words_of,
)

BLOCKS_PER_MERGE = 8
"""How many blocks are counted before their values are merged."""

Counted = tuple[np.ndarray, np.ndarray]
"""Distinct values, ascending, and how often each occurs."""


def distinct(node: Node, counts: bool, labels: bool = False) -> Late:
    """Return the node of the distinct values, with how often each occurs if `counts`.

    As `labels` they are those that are not missing.
    """
    what = "_unique" if not labels else "_counts" if counts else "_labels"
    check_no_record(node, what)
    check_ends(node, what)
    if not isinstance(node, RaggedSamples):  # which are made when the values are needed
        node = _values_of(node)
        known_shape(node)
    return Values(node, counts, labels).rows()


def _values_of(node: Node) -> Node:
    """Return the values of ragged rows in a line, any other node as it is."""
    rows = with_lengths(node)
    return rows.flat() if isinstance(rows, Ragged) else rows


def counted(array: np.ndarray, wholly: bool = True) -> Counted:
    """Return the distinct values of an array, and how often each occurs.

    If not `wholly`, the counts may be too low.
    """
    numbers = as_integers(array.reshape(-1))
    if numbers.dtype.kind in "iu" and numbers.size > PIECE:
        found = _counted_near(numbers, wholly)
        if found is not None:
            return found[0].view(array.dtype), found[1]
    if array.dtype.hasobject:
        return _hashed(array.reshape(-1))
    found = _counted_in_pieces(array.reshape(-1)) if array.size > PIECE else None
    if found is not None:
        return found
    return np.unique(array, return_counts=True) if wholly else _uncounted(array)


PIECE = 1 << 15
"""So many integers are counted at a time: they stay in a near cache."""

LOOK = 8 * PIECE
"""So many are looked at: threads that look at less spend more time in waiting for each other."""


def _counted_near(values: np.ndarray, wholly: bool) -> Counted | None:
    """Return the distinct integers and how often each occurs, None if they are far apart.

    Most often each integer between the least and the greatest is among the first rows.  Then the
    others are looked at only for whether they lie between these, which takes a third of the time.
    """
    first, last = int(values[0]), int(values[0])
    counts, is_full, start = np.zeros(1, np.int64), False, 0
    while start < len(values):
        piece = values[start : start + (LOOK if is_full else PIECE)]
        start += len(piece)
        if is_full and lie_within(piece, first, last):
            continue
        low, high = min(first, int(piece.min())), max(last, int(piece.max()))
        if high - low >= NARROW:
            return _counted_in_a_table(values)
        if (low, high) != (first, last):
            counts = np.pad(counts, (first - low, high - last))
            first, last = low, high
        counts += np.bincount(above(piece, low), minlength=len(counts))
        is_full = not wholly and bool(counts.all())
    return _with_counts(counts, first, values.dtype)


def _counted_in_a_table(values: np.ndarray) -> Counted | None:
    """Return the distinct integers and how often each occurs, None if they lie thinly."""
    first, last = int(values.min()), int(values.max())
    if last - first >= len(values):
        return None
    return _with_counts(np.bincount(above(values, first)), first, values.dtype)


def _with_counts(counts: np.ndarray, first: int, dtype: DType) -> Counted:
    """Return the integers from `first` on that are counted, and how often each is.

    >>> _with_counts(np.array([2, 0, 1]), 250, np.dtype("u1"))
    (array([250, 252], dtype=uint8), array([2, 1]))
    """
    (places,) = np.nonzero(counts)
    return (places.astype(dtype) + np.array(first, dtype)).astype(dtype), counts[places]


FEW = 1 << 12
"""Of up to so many values each piece has most; more of them are sorted at once."""


def _counted_in_pieces(values: np.ndarray) -> Counted | None:
    """Return distinct values and how often each occurs, None if there are many or no words of them.

    The values of a piece are looked up among those of the pieces before, by hashing.
    """
    if not values.dtype.isnative or words_of(values[:PIECE]) is None:
        return None
    labels, counts = np.unique(values[:PIECE], return_counts=True)
    if len(labels) > FEW:
        return None
    code = coder(labels)
    for start in range(PIECE, len(values), PIECE):
        if len(labels) > FEW:
            return None
        piece = values[start : start + PIECE]
        codes = code(piece)
        new = codes == NO_LABEL
        if new.any():  # NaN, which is no label, is new in each piece
            more, known = np.unique(piece[new], return_counts=True), len(labels)
            labels, counts = merge([(labels, counts), more])
            code = code if len(labels) == known else coder(labels)
            codes = code(piece[~new])
        counts += np.bincount(codes, minlength=len(labels))
    return labels, counts


def _hashed(values: np.ndarray) -> Counted:
    """Return the distinct values of objects, of which only these are compared by their order."""
    try:
        counts = Counter(values.tolist())
    except TypeError:  # a list has an order, and no hash
        found, codes = classes(values)
        return found, np.bincount(codes, minlength=len(found))
    some = np.empty(len(counts), values.dtype)
    some[:] = list(counts)
    found, codes = classes(some)
    total = np.zeros(len(found), np.int64)
    np.add.at(total, codes, np.fromiter(counts.values(), np.int64, len(counts)))
    return found, total


def _uncounted(array: np.ndarray) -> Counted:
    """Return the distinct values of an array, each counted once: to sort them is all the work."""
    values = np.unique(array)
    return values, np.ones(len(values), np.int64)


def merge(parts: Sequence[Counted], wholly: bool = True) -> Counted:
    """Return the distinct values of all parts, and how often each occurs.

    If not `wholly`, the counts may be too low.

    >>> merge([(np.array([1, 5]), np.array([2, 1])), (np.array([5]), np.array([3]))])
    (array([1, 5]), array([2, 4]))
    """
    if len(parts) == 1:
        return parts[0]
    every = np.concatenate([part[0] for part in parts])
    if not wholly and not every.dtype.hasobject and every.dtype.kind != "V":
        return _uncounted(every)
    values, places = classes(every)
    counts = np.zeros(len(values), np.int64)
    np.add.at(counts, places, np.concatenate([part[1] for part in parts]))
    return values, counts


def in_records(dtype: DType) -> DType:
    """Return a dtype that NumPy allows in records: for texts of any length that of objects."""
    return np.dtype(object) if dtype.kind == "T" else dtype


class Table(Photograph):
    """What is found in one pass, a row for each of so many values as the data have."""

    __slots__ = ("dtype",)

    def __init__(self, node: Node, dtype: DType) -> None:
        super().__init__(node)
        self.dtype = dtype

    def rows(self) -> Late:
        """Return the rows, how many of which there are is known once they are taken."""
        whole = PhotographSource(self, (0,), self.dtype)
        names = self.dtype.names or ()
        parts = {name: self.told(stored(whole.member(name), False), name) for name in names}
        return table_of(self, record(parts, 1) if names else self.told(stored(whole, False)))

    def told(self, node: Node, name: str = "") -> Node:
        """Return a column, or all rows, with metadata."""
        return node


class Values(Table):
    """The distinct values, or pairs of value and count; of `labels` only what is not missing."""

    __slots__ = ("counts", "labels")
    about = "distinct values"
    is_of_values = True

    def __init__(self, node: Node, counts: bool, labels: bool) -> None:
        own = known_dtype(node)
        pairs = [("value", in_records(own)), ("count", np.int64)]
        super().__init__(node, np.dtype(pairs) if counts else own)
        self.counts = counts
        self.labels = labels

    def told(self, node: Node, name: str = "") -> Node:
        """Return the values with what metadata say of each of them, and other columns as they are.

        The data are known as long as no value was taken, as when this makes the rows.
        """
        assert self.node is not None
        is_of_values = not self.counts or name == "value"
        return node.replaced(meta=meta_of_values(self.node.meta)) if is_of_values else node

    def find(self, node: Node) -> np.ndarray:
        """Count the values."""
        values, counts = count_values(_values_of(node), self.labels, self.counts)
        found = np.empty(len(values), self.dtype)
        if self.counts:
            found["value"], found["count"] = values, counts
        else:
            found[...] = values
        return found


def table_of(photograph: Photograph, columns: Node, *before: Photograph) -> Late:
    """Return the table with a row for each that a photograph finds, from columns without rows.

    Others that are taken `before` it may find it, too, in one pass.
    """
    return Late(columns, _with_rows, (columns, photograph, *before))


def _with_rows(columns: Node, photograph: Photograph, *before: Photograph) -> Node:
    for other in before:
        other.array()
    table = photograph.array()

    def changed(part: Any, old: Any) -> Any:
        if isinstance(part, Record):
            return Record(part.fields, part.rank, part.meta)
        source = part.source
        name, dtype = source.name, source.dtype
        if source.photograph is photograph:
            dtype = table.dtype if name is None else table.dtype[name]
        shape = (len(table), *source.shape[1:])
        own = dataclasses.replace(source, shape=shape, dtype=dtype)
        return part.replaced(source=own, shape=shape, dtype=dtype)

    found: Node = rebuilt([columns], changed)[0]
    return found


def count_values(node: Node, labels: bool, wholly: bool = True) -> Counted:
    """Return the distinct values of a node, or its labels alone, reading it once."""
    settle(node)
    node, present = _with_none(node) if not labels else (node, known_in(node))

    def count(index: Index) -> Counted:
        block = evaluate(node, index)
        return counted(block if present is None else block[evaluate(present, index)], wholly)

    with in_order(name_of(node)):
        return merged(count, list(row_blocks(node)), np.empty(0, known_dtype(node)), wholly)


def _with_none(node: Node) -> tuple[Node, Node | None]:
    """Return values among which one stands for what is missing, and where there are values.

    Integers, and texts, have nothing for it, so that what a mask says is missing is left out.
    """
    dtype = known_dtype(node)
    if not may_be_missing(dtype):
        return node, known_in(node)
    if dtype.kind == "T":
        return node, present_in(node)
    return without_mask(node, dtype, ""), None


def merged(
    count: Callable[[Any], Counted], blocks: list[Any], nothing: np.ndarray, wholly: bool = True
) -> Counted:
    """Return the distinct values of all blocks, and how often each occurs.

    If not `wholly`, the counts may be too low.
    """
    runs: list[Counted] = []
    done = run_in_windows(count, blocks, BLOCKS_PER_MERGE, "values")
    while parts := list(itertools.islice(done, BLOCKS_PER_MERGE)):
        runs.append(merge(parts, wholly))
        # Runs of like lengths are merged: each value is moved a few times only.
        while len(runs) > 1 and len(runs[-2][0]) <= 2 * len(runs[-1][0]):
            runs[-2:] = [merge(runs[-2:], wholly)]
    values, counts = merge(runs or [counted(nothing)], wholly)
    return values.astype(nothing.dtype, copy=False), counts  # joined arrays are native
