"""Rows split into consecutive, shuffled or stratified parts, and folds for cross-validation."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np

from dataview.compute import evaluate
from dataview.index import LINE, Computed, Permutation, is_integer
from dataview.plan.build import record
from dataview.plan.gaps import present_in
from dataview.plan.kinds import Record, members
from dataview.plan.node import Node, Part
from dataview.plan.photographs import Photograph
from dataview.samplers.selections import (
    check_one_each,
    length_for,
    ordered,
    row_range,
    rows_by,
    shuffled,
)
from dataview.tables import by_code, ranked


def split(
    node: Node, sizes: Any, seed: int | None = None, labels: Sequence[Node] | None = None
) -> tuple[Node, ...]:
    """Return consecutive parts of these sizes; the remaining rows are the last part."""
    count = length_for(node, "_split")
    bounds = _bounds(sizes, count)
    if labels is not None:
        order = _interleaved(labels, count, seed)
        return tuple(_share(node, order, [part], part[0]) for part in bounds)
    if seed is not None:
        node = shuffled(node, seed)
    return tuple(row_range(node, start, stop) for start, stop in bounds)


def folds(
    node: Node,
    number: int,
    seed: int | None = None,
    labels: Sequence[Node] | None = None,
    validation: bool = False,
) -> Iterator[tuple[Node, ...]]:
    """Return pairs (training rows, test rows); the test parts cover all rows, the last first.

    With `validation` the test rows of the next fold stand between the two, and are in no other.
    """
    count = length_for(node, "_folds")
    _check_folds(number, count, "rows", validation)
    order = None if labels is None else _interleaved(labels, count, seed)
    if seed is not None and order is None:
        node = shuffled(node, seed)
    ends = np.cumsum([0, *(count // number + (n < count % number) for n in range(number))]).tolist()
    parts = [(count - stop, count - start) for start, stop in itertools.pairwise(ends)]
    for held in _held_out(number, validation):
        ranges = [parts[fold] for fold in held]
        if order is None:
            yield _without(node, count, ranges), *(row_range(node, *part) for part in ranges)
        else:
            tests = (_share(node, order, [part], part[0]) for part in ranges)
            yield _share(node, order, _between(ranges, count)), *tests


def group_folds(
    node: Node,
    groups: Sequence[Node],
    number: int | None = None,
    seed: int | None = None,
    validation: bool = False,
) -> Iterator[tuple[Node, ...]]:
    """Return the folds in which no two parts share a group; each group is tested once.

    Without a number each fold leaves one group out; with one, the groups are dealt out, the
    largest first, each to the fold that has fewest rows.
    """
    codes, counts = _codes_of(_checked(groups, length_for(node, "_folds")))
    number_of_folds = len(counts) if number is None else number
    _check_folds(number_of_folds, len(counts), "groups", validation)
    fold_of = np.arange(len(counts))
    if number is not None:
        ties = fold_of if seed is None else Permutation(len(counts), seed).block(0, len(counts))
        sizes = np.zeros(number, np.intp)
        for group in np.lexsort((ties, -counts)):
            fold_of[group] = np.argmin(sizes)
            sizes[fold_of[group]] += counts[group]
    fold = fold_of[codes]
    for held in _held_out(number_of_folds, validation):
        rows = [np.flatnonzero(~np.isin(fold, held)), *(np.flatnonzero(fold == n) for n in held)]
        yield tuple(ordered(node, _arranged(numbers, seed)) for numbers in rows)


def _held_out(number: int, validation: bool) -> list[tuple[int, ...]]:
    """Return the folds that each training part leaves out, the one of the test last.

    >>> _held_out(3, True)
    [(1, 0), (2, 1), (0, 2)]
    """
    if not validation:
        return [(fold,) for fold in range(number)]
    return [((fold + 1) % number, fold) for fold in range(number)]


def _without(node: Node, count: int, ranges: Sequence[tuple[int, int]]) -> Node:
    """Return the rows outside of some ranges."""
    for start, stop in sorted(ranges, reverse=True):  # the numbers of earlier rows stay
        count -= stop - start
        node = rows_by(node, Computed(functools.partial(_skip, start, stop - start), LINE), count)
    return node


def _skip(start: int, count: int, rows: np.ndarray) -> np.ndarray:
    """Return the numbers that rows have once `count` rows are inserted before row `start`."""
    skipped: np.ndarray = rows + count * (rows >= start)
    return skipped


def _check_folds(number: int, most: int, what: str, validation: bool) -> None:
    if not is_integer(number):
        raise TypeError(f"the number of folds is an integer; got {number!r}")
    least = 3 if validation else 2
    if not least <= number <= most:
        raise ValueError(f"the number of folds is from {least} to the {most} {what}; got {number}")


def _bounds(sizes: Any, count: int) -> list[tuple[int, int]]:
    several = isinstance(sizes, (list, tuple, np.ndarray))
    given = list(sizes) if several else [sizes]
    for size in given:
        if not is_integer(size) and not isinstance(size, (float, np.floating)):
            raise TypeError(f"a size is a number of rows or a fraction of them; got {size!r}")
    ends = _ends(given, count)
    if not several or ends[-1] < count:
        ends.append(count)
    return list(itertools.pairwise([0, *ends]))


def _ends(given: list[Any], count: int) -> list[int]:
    if not given:
        raise ValueError("no sizes were given to split by")
    if all(isinstance(size, (int, np.integer)) for size in given):
        if min(given) < 0:
            raise ValueError(f"a size is 0 or more; got {given}")
        if sum(given) > count:
            parts = ", ".join(f"{size / 100:g}" for size in given)
            remedy = f"; if they are percent, write {parts}" if sum(given) == 100 else ""
            raise ValueError(f"the sizes {given} add up to {sum(given)} of {count} rows{remedy}")
        return [int(end) for end in np.cumsum(given)]
    if not all(isinstance(size, (float, np.floating)) for size in given):
        raise TypeError(f"sizes are all numbers of rows, or all fractions; got {given}")
    if any(not 0 < size < 1 for size in given):
        raise ValueError(f"a fraction is more than 0 and less than 1; got {given}")
    total = math.fsum(given)
    if total > 1 + 1e-9:
        raise ValueError(f"the fractions {given} add up to {total:g}, more than 1")
    ends = [round(count * math.fsum(given[: number + 1])) for number in range(len(given))]
    if abs(total - 1) < 1e-9:
        ends[-1] = count
    return ends


def _interleaved(labels: Sequence[Node], count: int, seed: int | None) -> _Interleaved:
    return _Interleaved(_checked(labels, count), seed)


def _checked(labels: Sequence[Node], count: int) -> Node:
    """Return the record of labels; raise unless there is one of each for each row."""
    for column in labels:
        check_one_each(column.shape, column.dtype, count)
    return record({str(number): column for number, column in enumerate(labels)}, 0)


class _Interleaved(Photograph):
    """An order in which each label is spread evenly, so any run holds its share of each."""

    __slots__ = ("seed",)
    about = "the labels of _split and _folds"

    def __init__(self, labels: Node, seed: int | None) -> None:
        super().__init__(labels)
        self.seed = seed

    def find(self, node: Node) -> np.ndarray:
        """Read the labels."""
        codes, counts = _codes_of(node)
        count = len(codes)
        rows = np.arange(count)
        if self.seed is not None:
            rows = Permutation(count, self.seed).block(0, count)
            codes = codes[rows]
        by_label = by_code(codes, len(counts))
        first = np.cumsum(counts) - counts
        rank = np.empty(count)
        rank[by_label] = np.arange(count) - np.repeat(first, counts) + 0.5
        return rows[np.argsort(rank / counts[codes], kind="stable")]


def _codes_of(labels: Node) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of each row's labels in some columns, and how many rows each has."""
    columns = [part.node for part in members(cast(Record, labels)).values()]
    found, *others = map(_ranked, columns)
    for codes, counts in others:
        _, *found = ranked(found[0] * len(counts) + codes)
    return found[0], found[1]


def _ranked(column: Node) -> Sequence[np.ndarray]:
    present = present_in(column)
    return ranked(evaluate(column), None if present is None else evaluate(present))[1:]


Ranges: TypeAlias = Sequence[tuple[int, int]]


def _between(ranges: Ranges, count: int) -> Ranges:
    """Return what is outside of some ranges of so many numbers.

    >>> _between([(4, 6), (0, 1)], 9)
    [(1, 4), (6, 9)]
    """
    ends = [0, *itertools.chain(*sorted(ranges)), count]
    return [(a, b) for a, b in zip(ends[::2], ends[1::2], strict=True) if a < b]


class _Share(Part):
    """The rows of some ranges of an order, found when the first of them is needed.

    It is called with positions, as the function of a computed map.
    """

    __slots__ = ("number", "order", "ranges", "rows")
    parts = ("order",)
    reads: ClassVar[bool] = True

    def __init__(self, order: _Interleaved, ranges: Ranges, number: int) -> None:
        self.order: _Interleaved | None = order
        self.ranges = ranges
        self.number = number
        self.rows: np.ndarray | None = None

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Return the rows at these positions."""
        rows = self.rows
        found: np.ndarray = (self._found() if rows is None else rows)[positions]
        return found

    def block(self, start: int, stop: int) -> np.ndarray:
        """Return the rows at the positions from `start` to `stop`, not to be written to."""
        rows = self.rows
        return (self._found() if rows is None else rows)[start:stop]

    def _found(self) -> np.ndarray:
        """Find the rows; two threads that find them both find the same."""
        order, rows = self.order, self.rows
        if order is None:
            assert rows is not None
            return rows
        parts = [order.array()[start:stop] for start, stop in self.ranges]
        rows = _arranged(np.concatenate(parts), order.seed, self.number)
        rows.flags.writeable = False
        self.rows, self.order = rows, None
        return rows


def _share(node: Node, order: _Interleaved, ranges: Ranges, number: int = 0) -> Node:
    """Return the rows of some ranges of an order, as the part of this number."""
    count = sum(stop - start for start, stop in ranges)
    if not count:
        return row_range(node, 0, 0)
    return rows_by(node, Computed(_Share(order, ranges, number), LINE), count)


def _arranged(rows: np.ndarray, seed: int | None, part: int = 0) -> np.ndarray:
    """Return rows in ascending order, or with a seed in random order, another one for each part."""
    rows = np.sort(rows)
    if seed is not None and len(rows) > 1:
        rows = rows[Permutation(len(rows), seed, part).block(0, len(rows))]
    return rows
