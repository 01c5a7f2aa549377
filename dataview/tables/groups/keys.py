"""What rows are grouped by: one key or several, which groups there are, and the group of each row.

Groups have numbers in ascending order of their labels, those of the first key first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import (
    evaluate,
    evaluate_all,
    have_makers_in_common,
    in_requests,
    makers_of,
    rows_of_request,
    run_in_windows,
    settle,
)
from dataview.errors import RaggedError
from dataview.index import parse
from dataview.index.sizes import sizes
from dataview.plan.build import field, record, select, stored
from dataview.plan.gaps import MASK, NO_LABEL, masks_in, present_in
from dataview.plan.kinds import Record, known_dtype, known_shape, size_of
from dataview.plan.node import Node
from dataview.plan.photographs import Photograph
from dataview.plan.ragged import Ragged
from dataview.sources import ArraySource
from dataview.tables.coding import (
    Code,
    check_known,
    classes,
    coder,
    in_order,
    labelled,
    nothing_of,
    without_gaps,
)
from dataview.tables.given_keys import Given, ToNode, given_keys
from dataview.tables.labels import checked_codes, labels_of
from dataview.tables.unique import Counted, counted, in_records, merged

UNNAMED = "label"
"""The name of labels that have none."""

WINDOW = 32
"""How many blocks are grouped before they are combined, which bounds the memory of a pass."""

PARTS = 2
"""A block is as large as so many parts of other statistics: it costs some work for each group."""


class Key(NamedTuple):
    """A column of labels, and where there are any, if a mask tells."""

    name: str
    node: Node
    mask: Node | None


# --- what a user gives -------------------------------------------------------------------------


def keys_of(node: Node, by: Any, to_node: ToNode) -> list[Key]:
    """Return the keys that a user gives: names, labels, several of them, or under other names."""
    given = [_key(one) for one in given_keys(node, by, to_node)]
    names = [key.name for key in given]
    if len(set(names)) < len(names):
        raise ValueError(f"the keys of groups have different names; got {names}")
    return given


def _key(given: Given) -> Key:
    by, own, node, name = given
    is_field = isinstance(by, str)
    known = by if is_field else own.label.names[-1] if own.label else UNNAMED
    line = _line(node, own, name or known)
    if not is_field and name is None and known in node.fields and own.label is None:
        raise ValueError(
            f"labels from elsewhere become the field {UNNAMED!r} of a statistic, and there is one "
            f"already; choose another name for it with _rename({UNNAMED}=...), or give the labels "
            "a name, as in by={'name': labels}"
        )
    mask = masks_in(node.fields).get(by) if is_field else None
    present = present_in(own) if mask is None else field(node, mask)
    return Key(name or known, line, present)


def _line(node: Node, own: Node, name: str) -> Node:
    """Return labels as an array of one for each row, or raise."""
    if isinstance(own, Ragged):
        raise RaggedError(
            f"rows are grouped by one label each; those of {name!r} differ in length, and _map "
            "makes a label of each"
        )
    if isinstance(own, Record):
        raise TypeError(
            f"rows are grouped by one label each, and {name!r} has the fields {[*own.fields]}; "
            f"group by some of them, as in by=d.{name}"
        )
    rows, labels = known_shape(node)[:1], known_shape(own)
    if labels[:1] != rows or size_of(labels[1:]) != 1 or not rows:
        raise ValueError(
            f"rows are grouped by one label each: there are {rows} rows, and labels of "
            f"shape {labels}"
        )
    return (
        own
        if len(labels) == 1
        else select(own, parse((slice(None), *[0] * len(labels[1:])), labels))
    )


# --- in nodes ----------------------------------------------------------------------------------


def with_keys(keys: Sequence[Key], others: Mapping[str, Node]) -> Node:
    """Return the record of keys and other columns of the same rows."""
    parts: dict[str, Node] = {}
    for number, key in enumerate(keys):
        parts[f"key {number}"] = key.node
        if key.mask is not None:
            parts[f"key {number}{MASK}"] = key.mask
    return record({**parts, **others}, 1)


def _keys_in(node: Node, count: int) -> list[Key]:
    """Return the keys of a record that `with_keys` has made."""
    names = [f"key {number}" for number in range(count)]
    masks = [f"{name}{MASK}" for name in names]
    return [
        Key(name, field(node, name), field(node, mask) if mask in node.fields else None)
        for name, mask in zip(names, masks, strict=True)
    ]


def columns_in(node: Node) -> list[Node]:
    """Return the columns of a record."""
    return [field(node, name) for name in node.fields]


def held(node: Node) -> Node:
    """Return a record of keys that functions make as one in memory, read once; others as it is.

    Keys are a label for each row, and where there is one.
    """
    parts = {name: field(node, name) for name in node.fields}
    if not any(map(makers_of, parts.values())):
        return node
    found = zip(parts.items(), evaluate_all([*parts.values()]), strict=True)
    columns = {
        name: stored(ArraySource(array), False).replaced(meta=part.meta)
        for (name, part), array in found
    }
    return record(columns, 1)


def blocks_of(node: Node, least: int = 1) -> list[slice]:
    """Return the blocks of rows in which a record is read, each of so many rows at least."""
    (count,) = known_shape(node)
    parts = columns_in(node)
    row = sum(size_of(known_shape(part)[1:]) * known_dtype(part).itemsize for part in parts)
    step = max(least, PARTS * sizes.part_bytes // max(1, row))
    if have_makers_in_common(parts):
        step = min(step, rows_of_request(parts))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)] or [slice(0)]


def read(node: Node, rows: slice) -> np.ndarray:
    """Return some rows of a column."""
    return evaluate(select(node, parse(rows, known_shape(node))))


# --- which groups there are --------------------------------------------------------------------


class Groups(Photograph):
    """Which groups there are: a table with a row for each.

    With `gaps`, what is missing in a key is a label too, the last.  `labels` are those of each key,
    also of rows that lack another one.
    """

    __slots__ = ("gaps", "labels", "names")
    about = "groups"
    is_shown = True
    is_of_values = True

    def __init__(self, keys: Sequence[Key], gaps: bool) -> None:
        super().__init__(with_keys(keys, {}))
        self.names = tuple(key.name for key in keys)
        self.gaps = gaps
        self.labels: Sequence[np.ndarray] = ()

    def find(self, node: Node) -> np.ndarray:
        """Read the keys: once, and several once more to see which labels occur together.

        Those that functions make are kept in memory in between: they may be others the next time.
        """
        return self.find_with_counts(node, False)[0]

    def find_with_counts(self, node: Node, wholly: bool = True) -> Counted:
        """Return the table, and how many rows each group has: too low, if not `wholly`."""
        settle(node)
        node = held(node) if len(node.fields) > 1 else node
        keys = _keys_in(node, len(self.names))
        is_exact = len(keys) == 1 and (wholly or self.gaps)
        found = []
        for key, name in zip(keys, self.names, strict=True):
            with in_order(f"groups by {name!r}"):
                found.append(_labels_of(key, is_exact))
        self.labels = labels = [values for values, _ in found]
        if len(keys) > 1:
            blocks = blocks_of(node)
            number = Numbering(keys, labels, self.gaps, lambda some: _together(some, blocks)[0])
            numbers, counts = _together(number, blocks, wholly)
            return _table(labels, number.places(numbers)), counts
        counts = found[0][1]
        if self.gaps and (more := known_shape(node)[0] - int(counts.sum())):
            counts = np.append(counts, more)
        return _table(labels, [np.arange(len(counts))]), counts

    def found(self) -> Found:
        """Return what was found, such that it can be kept without the data."""
        return Found(self.array(), self.labels, self.gaps)


class Found(NamedTuple):
    """The table of groups, the labels of each key, and whether what is missing is one."""

    table: np.ndarray
    labels: Sequence[np.ndarray]
    gaps: bool


class Counts(Photograph):
    """How many rows each group has."""

    __slots__ = ("groups",)
    parts = ("node", "groups")
    about = "groups"
    is_shown = True
    is_of_values = True

    def __init__(self, keys: Sequence[Key], groups: Groups) -> None:
        super().__init__(with_keys(keys, {}))
        self.groups = groups

    def find(self, node: Node) -> np.ndarray:
        """Read the keys, which tells the groups as well if they are not known yet."""
        if not self.groups.is_decided:
            table, counts = self.groups.find_with_counts(node)
            self.groups.keep(table)
            return counts
        groups = self.groups.found()
        return counts_of(node, numbering(node, groups), len(groups.table))


def counts_of(node: Node, number: ToNumbers, count: int) -> np.ndarray:
    """Return how many rows of a node have each of so many numbers."""

    def of_block(rows: slice) -> np.ndarray:
        return rows_of_each(number(rows).codes, count)

    found = np.zeros(count, np.int64)
    work = in_requests(columns_in(node), of_block)
    for counts in run_in_windows(work, blocks_of(node), WINDOW, "groups"):
        found += counts
    return found


def rows_of_each(codes: np.ndarray, count: int) -> np.ndarray:
    """Return how many rows have each of so many numbers.

    >>> rows_of_each(np.array([1, NO_LABEL, 1]), 2)
    array([0, 2])
    """
    return np.bincount(codes + 1, minlength=count + 1)[1:]


def _together(number: ToNumbers, blocks: list[slice], wholly: bool = False) -> Counted:
    """Return the numbers of the labels that occur together, and how many rows have each."""

    def count(rows: slice) -> Counted:
        codes, are_whole = number(rows)
        return counted(codes if are_whole else codes[codes != NO_LABEL], wholly)

    return merged(count, blocks, np.empty(0, np.int64), wholly)


def _labels_of(key: Key, wholly: bool) -> Counted:
    """Return the labels of a key, ascending, and how many rows have each."""
    known = labels_of(key.node)

    def count(rows: slice) -> Counted:
        values = read(key.node, rows)
        if key.mask is not None:
            values = values[read(key.mask, rows)]
        return counted(values, wholly)

    nothing = np.empty(0, known_dtype(key.node))
    values, counts = merged(count, blocks_of(key.node), nothing, wholly)
    there = labelled(values, are_codes=known is not None)
    if known is None:
        return values[there], counts[there]
    own = known.array()
    checked_codes(values, len(own))
    labels, places = classes(own[values[there]])
    return labels, np.bincount(places, counts[there], len(labels)).astype(np.int64)


def _table(labels: Sequence[np.ndarray], places: Sequence[np.ndarray]) -> np.ndarray:
    """Return the labels of each group, by their numbers among the labels of each key."""
    columns = [_at(own, some) for own, some in zip(labels, places, strict=True)]
    dtypes = [(str(n), in_records(column.dtype)) for n, column in enumerate(columns)]
    found = np.empty(len(columns[0]), dtypes)
    for n, column in enumerate(columns):
        found[str(n)] = column
    return found


def _at(labels: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return labels by their numbers, of which the one after the last is for what is missing."""
    gone = places == len(labels)
    if not gone.any():
        return np.asarray(labels[places])
    none, dtype = nothing_of(labels.dtype)
    found = np.empty(len(places), dtype)
    found[gone] = none
    found[~gone] = labels[places[~gone]]
    return found


# --- the group of each row ---------------------------------------------------------------------


ToNumbers = Callable[[Any], "Numbers"]
"""A function that returns the numbers of some rows."""

Occurring = Callable[[ToNumbers], np.ndarray]
"""A function that returns the numbers that rows have, ascending."""

MOST = 1 << 62
"""There are fewer combinations than these, so that each has a number."""


class Numbering:
    """The number of each row among the combinations of labels of some keys, -1 for none.

    Where too many are possible, only those of the first keys that occur are counted, which
    `occurring` finds.
    """

    def __init__(
        self, keys: Sequence[Key], labels: Sequence[np.ndarray], gaps: bool, occurring: Occurring
    ) -> None:
        self._keys, self._labels, self._gaps = keys, labels, gaps
        self._sizes = [len(own) + gaps for own in labels]
        self._codes = [_code_of(key, own) for key, own in zip(keys, labels, strict=True)]
        self._known: dict[int, np.ndarray] = {}  # the numbers that so many first keys have
        self._places: dict[int, Code] = {}
        self.count = 1
        for depth, size in enumerate(self._sizes):
            if depth and self.count * size >= MOST:
                known = occurring(functools.partial(self, depth=depth))
                self._known[depth], self._places[depth] = known, coder(known)
                self.count = len(known)
            self.count *= size
            if self.count >= MOST:
                raise ValueError(f"{self.count} groups may be too many; group by fewer keys")

    def __call__(self, rows: slice | np.ndarray, depth: int | None = None) -> Numbers:
        """Return the numbers of some rows, or of rows of a table of labels, by the first keys."""
        own = [
            self._of_key(n, rows) if isinstance(rows, slice) else self._of_label(n, rows)
            for n in range(len(self._keys))[:depth]
        ]
        if len(own) == 1:
            return own[0]
        are_whole = all(one.are_whole for one in own)
        gone = None if are_whole else np.logical_or.reduce([one.codes == NO_LABEL for one in own])
        found = own[0].codes
        for n, (codes, _) in enumerate(own[1:], 1):
            if gone is not None:  # such rows may have first keys that are in no group
                found = np.where(gone, NO_LABEL, found)
            if n in self._places:
                found = _placed(self._places[n], Numbers(found, are_whole)).codes
            found = found * self._sizes[n] + codes
        return Numbers(found if gone is None else np.where(gone, NO_LABEL, found), are_whole)

    def places(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Return the labels of each key in some combinations, by their numbers."""
        found = []
        for depth, size in reversed([*enumerate(self._sizes)]):
            numbers, places = np.divmod(numbers, max(1, size))
            found.append(places)
            if depth in self._known:
                numbers = self._known[depth][numbers]
        return found[::-1]

    def _of_label(self, n: int, table: np.ndarray) -> Numbers:
        codes = coder(self._labels[n])(table[str(n)])
        return Numbers(np.where(codes == NO_LABEL, self._sizes[n] - 1, codes), True)

    def _of_key(self, n: int, rows: slice) -> Numbers:
        key = self._keys[n]
        values = read(key.node, rows)
        codes = self._codes[n](values)
        if codes is values and key.mask is None:  # each is its own number, so none is missing
            return Numbers(codes, True)
        there = None if key.mask is None else read(key.mask, rows)
        codes = without_gaps(codes, there)
        if not len(codes) or codes.min() > NO_LABEL:
            return Numbers(codes, True)
        known = labelled(values, there, labels_of(key.node) is not None)
        when = "the groups were made; make them anew with _group"
        check_known(codes, known, values, range(rows.start, rows.stop), when)
        if self._gaps:
            codes = np.where(codes == NO_LABEL, self._sizes[n] - 1, codes)
        return Numbers(codes, self._gaps)


class Numbers(NamedTuple):
    """The numbers of some rows, and whether each row has one: none is NO_LABEL."""

    codes: np.ndarray
    are_whole: bool


def _code_of(key: Key, labels: np.ndarray) -> Code:
    known = labels_of(key.node)
    if known is None:
        return coder(labels)
    own = known.array()
    ranks = np.append(coder(labels)(own), NO_LABEL)
    return lambda codes: ranks[checked_codes(codes, len(own))]


def numbering(node: Node, groups: Found) -> ToNumbers:
    """Return the function that gives rows of a record `with_keys` the numbers of their groups."""
    table = groups.table

    def occurring(number: ToNumbers) -> np.ndarray:
        numbers = number(table).codes  # ascending, as the rows of the table are
        return np.asarray(numbers[np.diff(numbers, prepend=NO_LABEL) > 0])

    keys = _keys_in(node, len(groups.labels))
    number = Numbering(keys, groups.labels, groups.gaps, occurring)
    numbers = number(table).codes
    if len(numbers) == number.count:  # all that there may be
        return number
    place = coder(numbers)
    return lambda rows: _placed(place, number(rows))


def _placed(place: Code, numbers: Numbers) -> Numbers:
    found = place(numbers.codes)
    if ((found == NO_LABEL) & (numbers.codes != NO_LABEL)).any():
        raise ValueError(
            "some rows hold labels together that did not occur together when the groups were "
            "made; make them anew with _group"
        )
    return Numbers(found, numbers.are_whole)
