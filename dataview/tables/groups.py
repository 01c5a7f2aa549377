"""Rows grouped by their labels: the rows of each group, and statistics of all groups in one pass.

A statistic of groups is a table with a row for each label.  It is a photograph: of the data as they
were when it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import (
    CLOSE,
    KINDS,
    NEARLY,
    FloatErrors,
    evaluate,
    result_dtype,
    run_blocks,
    settle,
)
from dataview.errors import RaggedError
from dataview.index import Array, axis_index, parse
from dataview.plan.build import field, record, select
from dataview.plan.guards import check_ends
from dataview.plan.kinds import known_dtype, known_shape, size_of
from dataview.plan.node import DType, Node
from dataview.plan.photographs import Photograph
from dataview.plan.ragged import Ragged
from dataview.sizes import sizes
from dataview.tables.coding import MISSING, coder
from dataview.tables.unique import (
    Distinct,
    Table,
    Values,
    count_values,
    in_records,
    possible_labels,
)

WINDOW = 32
"""How many blocks are grouped before they are combined, which bounds the memory of a pass."""


class Grouped:
    """The rows of each label, and statistics of all groups: `d._group(by="label")`.

    Nothing is read before a group, their number or the value of a statistic is needed.

    >>> import dataview as dv
    >>> groups = dv.View(x=[1.0, 2.0, 4.0], label=["b", "a", "b"])._group(by="label")
    >>> [(label, group.x().tolist()) for label, group in groups]
    [('a', [2.0]), ('b', [1.0, 4.0])]
    >>> groups._mean().x(), groups["b"].x()
    (array([2. , 2.5]), array([1., 4.]))
    """

    def __init__(self, node: Node, by: Node, name: str, to_view: Callable[[Node], Any]) -> None:
        check_ends(node, "_group")
        rows, labels = known_shape(node), known_shape(by)
        if len(labels) != 1 or not rows or rows[0] != labels[0]:
            raise ValueError(
                f"rows are grouped by one label each: there are {rows[:1]} rows, and labels of "
                f"shape {labels}"
            )
        self._node, self._by, self._name, self._to_view = node, by, name, to_view
        self._labels = Values(by, True, True)
        self._order = _Order(by)

    def __repr__(self) -> str:
        return f"Groups by {self._name!r} of {known_shape(self._node)[0]} rows"

    def __len__(self) -> int:
        return len(self._labels.array())

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        start = 0
        found = self._labels.array()
        labels = found["value"]
        for value, count in zip(
            labels if labels.dtype.kind in "mM" else labels.tolist(),
            found["count"].tolist(),
            strict=True,
        ):
            yield value, self._rows(start, start + count)
            start += count

    def __getitem__(self, label: Any) -> Any:
        found = self._labels.array()
        (places,) = np.nonzero(found["value"] == label)
        if len(places) != 1:
            known = ", ".join(map(repr, found["value"][:8].tolist()))
            raise KeyError(f"there is no group {label!r} of {self._name!r}; there are {known} ...")
        start = int(found["count"][: places[0]].sum())
        return self._rows(start, start + int(found["count"][places[0]]))

    def _rows(self, start: int, stop: int) -> Any:
        rows = self._order.array()[start:stop]
        index = axis_index(known_shape(self._node), Array(rows, (0,)), len(rows))
        return self._to_view(select(self._node, index, "rows"))

    def _counts(self) -> Any:
        """Return a record of each label and how many rows it has."""
        return self._to_view(Distinct(Values(self._by, True, True)))

    def _sum(self) -> Any:
        """Return a record of each label and the sums over its rows."""
        return self._statistic("sum")

    def _mean(self) -> Any:
        """Return a record of each label and the means over its rows."""
        return self._statistic("mean")

    def _var(self, *, ddof: int = 0) -> Any:
        """Return a record of each label and the variances over its rows."""
        return self._statistic("var", ddof)

    def _std(self, *, ddof: int = 0) -> Any:
        """Return a record of each label and the standard deviations over its rows."""
        return self._statistic("std", ddof)

    def _min(self) -> Any:
        """Return a record of each label and the smallest elements of its rows."""
        return self._statistic("min")

    def _max(self) -> Any:
        """Return a record of each label and the greatest elements of its rows."""
        return self._statistic("max")

    def _statistic(self, kind: str, ddof: int = 0) -> Any:
        node, name = self._node, self._name
        parts = {other: field(node, other) for other in node.fields if other != name}
        parts = parts or {"value": node}
        for other, part in parts.items():
            if isinstance(part, Ragged):
                raise RaggedError(
                    f"{kind} of groups: the rows of field {other!r} differ in length; choose other "
                    "fields with _select(...) before _group, or fill them up with _pad(value)"
                )
            if known_dtype(part).kind not in _ORDERED[kind in ("min", "max")]:
                raise TypeError(
                    f"{kind} of groups: field {other!r} holds {part.dtype}; choose other fields "
                    f"with _select(...) before _group"
                )
        return self._to_view(Distinct(_Statistics(self._by, name, parts, kind, ddof)))


_ORDERED = {False: "biufc", True: "biufmM"}
"""The kinds of dtype of which there are sums, and of which there are extremes."""


class _Order(Photograph):
    """The numbers of the rows, those of each label together, in the order of the labels."""

    __slots__ = ()
    about = "groups"

    def find(self, node: Node) -> np.ndarray:
        """Sort the rows by label."""
        labels, _ = count_values(node, True)
        codes = coder(labels)(evaluate(node))
        rows = np.argsort(narrowed(codes, len(labels)), kind="stable")
        return rows[np.count_nonzero(codes == MISSING) :]


def narrowed(codes: np.ndarray, count: int) -> np.ndarray:
    """Return codes in a dtype that is sorted in few passes."""
    return codes.astype(np.int16) if count < 1 << 15 else codes


class _Statistics(Table):
    """One statistic of every field, a row for each label."""

    __slots__ = ("by", "ddof", "kind")
    about = "statistics of groups"

    def __init__(self, by: Node, name: str, parts: dict[str, Node], kind: str, ddof: int) -> None:
        fields = [(name, in_records(known_dtype(by)))]
        for other, part in parts.items():
            fields.append(
                (other, result_dtype(kind, known_dtype(part)), known_shape(part)[1:])  # type: ignore[arg-type]
            )
        super().__init__(record({name: by, **parts}, 1), np.dtype(fields))
        self.by = name
        self.kind = kind
        self.ddof = ddof

    def find(self, node: Node) -> np.ndarray:
        """Read the labels, then all fields once."""
        labels = possible_labels(field(node, self.by))
        counts, states = self._states(node, labels)
        there = counts > 0
        found = np.empty(np.count_nonzero(there), self.dtype)
        found[self.by] = labels[there]
        errors = FloatErrors()
        for name, state in states.items():
            own = tuple(part[there] for part in state)
            with errors.noting_in(self.kind):
                value = np.asarray(GROUPINGS[self.kind].finish(own, {"ddof": self.ddof}))
                found[name] = value.reshape(found[name].shape)
        errors.report()
        return found

    def _states(self, node: Node, labels: np.ndarray) -> tuple[np.ndarray, dict[str, State]]:
        """Return how many rows each label has, and of each field what they contribute."""
        settle(node)
        code = coder(labels)
        kind, names = GROUPINGS[self.kind], [name for name in node.fields if name != self.by]

        def grouped(rows: slice) -> tuple[np.ndarray, dict[str, State]]:
            block = _Block(code(_rows(field(node, self.by), rows)), len(labels))
            with np.errstate(all="ignore"):
                states = {name: kind.part(block, _rows(field(node, name), rows)) for name in names}
            return block.sizes, states

        counts, totals = np.zeros(len(labels), np.int64), dict[str, State]()
        blocks = _blocks(node)
        for start in range(0, len(blocks), WINDOW):
            for some, states in run_blocks(grouped, blocks[start : start + WINDOW]):
                counts += some
                with np.errstate(all="ignore"):
                    totals = (
                        {name: kind.combine(totals[name], states[name]) for name in names}
                        if totals
                        else states
                    )
        return counts, totals


def _rows(node: Node, rows: slice) -> np.ndarray:
    return evaluate(select(node, parse(rows, known_shape(node))))


def _blocks(node: Node) -> list[slice]:
    """Return the blocks of rows in which a record is read."""
    (count,) = known_shape(node)
    parts = [field(node, name) for name in node.fields]
    row = sum(size_of(known_shape(part)[1:]) * known_dtype(part).itemsize for part in parts)
    step = max(1, sizes.part_bytes // max(1, row))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)] or [slice(0)]


# --- one block ---------------------------------------------------------------------------------

State = tuple[Any, ...]
"""What some rows contribute: arrays with a row for each label."""


DEPTH = 64
"""So many numbers of a label are added in double at most; what they add up to has more digits.

So the error of a sum is at most DEPTH eps times the sum of the absolute values, however many rows
there are, where long doubles have more digits than doubles.
"""

PIECE = 1 << 14
"""So many rows are added at a time, or more of many labels: all of them stay in a near cache."""


class _Block:
    """The rows of a block, by their codes, and how many rows each label has.

    The rows come in pieces, and a piece in lanes, such that a label has few rows of a lane: the
    key of a row is its code, plus the number of labels for each lane before its own.
    """

    def __init__(self, codes: np.ndarray, count: int) -> None:
        self.kept = None if codes.min(initial=0) >= 0 else codes != MISSING
        self.codes = codes if self.kept is None else codes[self.kept]
        self.count = count
        rows = max(DEPTH, DEPTH // 4 * count)
        self._lanes = max(1, PIECE // rows)
        self._step = self._lanes * rows
        lanes = np.arange(self._lanes if self._lanes > 1 else 0)
        self._offsets = np.repeat(lanes * count, rows)
        self._order: np.ndarray | None = None
        self.sizes = np.zeros(count, np.int64)
        self._deep: list[bool] = []
        for piece in self._pieces():
            counts = np.bincount(self._keys(piece), minlength=self._lanes * count)
            self.sizes += counts.reshape(self._lanes, count).sum(axis=0)
            self._deep.append(counts.max(initial=0) > DEPTH)

    def _pieces(self) -> list[slice]:
        step = self._step
        return [slice(start, start + step) for start in range(0, len(self.codes), step)]

    def _keys(self, piece: slice) -> np.ndarray:
        codes = self.codes[piece]
        return codes if self._lanes == 1 else codes + self._offsets[: len(codes)]

    def columns(self, values: np.ndarray) -> np.ndarray:
        """Return the values of the rows that have a label, each as a row of columns."""
        values = values.astype(values.dtype.newbyteorder("="), copy=False)
        values = values if self.kept is None else values[self.kept]
        return values.reshape(len(values), size_of(values.shape[1:]))

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sums of columns over the rows of each label; those of floats are wide."""
        if values.dtype.kind in "biu":
            dtype = result_dtype("sum", values.dtype)
            return self.reduced(np.add, values, np.zeros((self.count, values.shape[1]), dtype))
        if values.dtype.kind == "c":
            parts = self.sums(np.ascontiguousarray(values).view(values.real.dtype))
            return parts.view(widest_of(values.dtype))
        found = np.zeros((self.count, values.shape[1]), widest_of(values.dtype))
        if values.dtype.itemsize > 8 or values.shape[1] > FEW:
            _add_sorted(self.codes, values, found)
        else:
            for column in range(values.shape[1]):
                self._add_column(values[:, column], found[:, column])
        far = self.left_range(values, found)
        if far.any():
            again = np.logical_or.reduce(far, axis=1)
            found[again], rows = 0, again[self.codes]
            _add_sorted(self.codes[rows], values[rows].astype(found.dtype), found)
        return found

    def left_range(self, values: np.ndarray, found: np.ndarray) -> np.ndarray:
        """Return which results are not finite because of a step, and not because of the values."""
        far: np.ndarray = ~np.isfinite(found)
        for column in np.flatnonzero(far.any(axis=0)):
            for odd in (np.isnan, np.isinf):
                given = np.bincount(self.codes, odd(values[:, column]), self.count) > 0
                far[:, column] &= ~(given & odd(found[:, column]))
        return far

    def _add_column(self, values: np.ndarray, out: np.ndarray) -> None:
        shape = self._lanes, self.count
        for piece, deep in zip(self._pieces(), self._deep, strict=True):
            if deep:
                _add_sorted(self.codes[piece], values[piece, None], out[:, None])
                continue
            found = np.bincount(self._keys(piece), values[piece], self._lanes * self.count)
            out += found if self._lanes == 1 else found.reshape(shape).sum(axis=0, dtype=out.dtype)

    def some_of_each(self, values: np.ndarray, dtype: DType) -> np.ndarray:
        """Return the values of a row of each label, 0 for a label without rows."""
        found = np.zeros((self.count, values.shape[1]), dtype)
        some = slice(-2 * PIECE, None)  # most often every label has a row among the last ones
        found[self.codes[some]] = values[some]
        seen = np.zeros(self.count, bool)
        seen[self.codes[some]] = True
        if (self.sizes[~seen] > 0).any():
            found[self.codes] = values
        return found

    def reduced(self, ufunc: np.ufunc, values: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Reduce the rows of each label; a label without rows keeps what is in `out`."""
        if self._order is None:
            self._order = np.argsort(narrowed(self.codes, self.count), kind="stable")
        (present,) = np.nonzero(self.sizes)
        if len(present):
            starts = (np.cumsum(self.sizes) - self.sizes)[present]
            ordered = values[self._order].astype(out.dtype, copy=False)
            out[present] = ufunc.reduceat(ordered, starts, axis=0)
        return out


FEW = 4
"""Up to so many columns are added one by one, more of them row by row."""


def widest_of(dtype: DType) -> DType:
    """Return the widest dtype of floats, or of complex numbers."""
    return np.result_type(dtype, np.longdouble)


def _add_sorted(codes: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    """Add rows to those of their labels in `out`, at most DEPTH of them before it has more digits.

    >>> out = np.zeros((2, 1), np.longdouble)
    >>> _add_sorted(np.array([1, 0, 1]), np.array([[1.0], [2.0], [4.0]]), out)
    >>> out.tolist() == [[2.0], [5.0]]
    True
    """
    if not len(codes):
        return
    if (codes[1:] < codes[:-1]).any():
        order = np.argsort(narrowed(codes, len(out)), kind="stable")
        codes, values = codes[order], values[order]
    starts = np.append(0, np.flatnonzero(codes[1:] != codes[:-1]) + 1)
    cuts = np.union1d(starts, np.arange(0, len(codes), DEPTH))
    double = np.result_type(values.dtype, np.float64)
    few = np.add.reduceat(values.astype(double, copy=False), cuts, axis=0).astype(out.dtype)
    out[codes[starts]] += np.add.reduceat(few, np.searchsorted(cuts, starts), axis=0)


def _sum_part(block: _Block, values: np.ndarray) -> State:
    return (block.sums(block.columns(values)),)


def _mean_part(block: _Block, values: np.ndarray) -> State:
    """Return sums, counts, and what the values of a label are if they are all the same.

    The sum of many equal numbers is rounded, so that their mean would not be one of them.
    """
    return _means(block, block.columns(values))


def _means(block: _Block, values: np.ndarray) -> State:
    wide = np.result_type(values.dtype, np.float64)
    floats = values.astype(np.float64) if values.dtype.kind in "biu" else values
    sums, counts = block.sums(floats), block.sizes[:, None]
    one = block.some_of_each(values, wide)
    means = sums / np.maximum(counts, 1)
    near = (counts > 1) & (np.abs(means - one) <= np.abs(one) * NEARLY)
    same = np.where((counts > 1) & ~near, np.nan, one)
    if near.any():
        differ = block.sums((values != one[block.codes]).astype(np.float64))
        same[near & (differ > 0)] = np.nan
    return sums, counts, same


def _moments_part(block: _Block, values: np.ndarray) -> State:
    """Return counts, numbers near the means, what the means have more, and the spreads."""
    values = block.columns(values)
    state = _moments(block, values)
    if block.left_range(values, state[3]).any():
        return _moments(block, values.astype(widest_of(values.dtype)))
    return state


def _moments(block: _Block, values: np.ndarray) -> State:
    sums, counts, same = _means(block, values)
    some = np.maximum(counts, 1)
    near = np.where(np.isnan(same), (sums / some).astype(same.dtype), same)
    distance = values - near[block.codes]
    squares = block.sums((distance * np.conj(distance)).real)
    off = np.zeros_like(sums)
    if (squares < CLOSE * some * (near * np.conj(near)).real).any():
        off = np.where(squares > 0, block.sums(distance) / some, 0)
        squares = np.maximum(squares - counts * (off * np.conj(off)).real, 0)
    return counts, near.astype(sums.dtype), off, squares


def _extreme_part(ufunc: np.ufunc) -> Callable[[_Block, np.ndarray], State]:
    def part(block: _Block, values: np.ndarray) -> State:
        values = block.columns(values)
        out = np.zeros((block.count, values.shape[1]), values.dtype)
        return block.sizes, block.reduced(ufunc, values, out)

    return part


def _extreme_of(ufunc: np.ufunc) -> Callable[[State, State], State]:
    def combine(left: State, right: State) -> State:
        (count, one), (more, other) = left, right
        both = ufunc(one, other)
        found = np.where(count[:, None] == 0, other, np.where(more[:, None] == 0, one, both))
        return count + more, found

    return combine


class Grouping(NamedTuple):
    """How one statistic of groups is computed from blocks."""

    part: Callable[[_Block, np.ndarray], State]
    combine: Callable[[State, State], State]
    finish: Callable[[State, dict[str, Any]], Any]


def _as_of_all(part: Callable[[_Block, np.ndarray], State], kind: str) -> Grouping:
    """Return a grouping whose parts are combined as those of a statistic of all rows."""
    return Grouping(part, KINDS[kind].combine, KINDS[kind].finish)


def _extreme(ufunc: np.ufunc) -> Grouping:
    return Grouping(_extreme_part(ufunc), _extreme_of(ufunc), lambda state, options: state[1])


GROUPINGS = {
    "sum": _as_of_all(_sum_part, "sum"),
    "mean": _as_of_all(_mean_part, "nanmean"),  # of labels that some blocks may lack
    "var": _as_of_all(_moments_part, "nanvar"),
    "std": _as_of_all(_moments_part, "nanstd"),
    "min": _extreme(np.minimum),
    "max": _extreme(np.maximum),
}
