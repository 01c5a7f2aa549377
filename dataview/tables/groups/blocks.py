"""The rows of a block by their groups, and sums of these that are exact to a stated error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dataview.compute import result_dtype
from dataview.plan.gaps import NO_LABEL
from dataview.plan.kinds import size_of
from dataview.plan.node import DType
from dataview.tables.coding import by_code

DEPTH = 64
"""So many numbers of a label are added in double at most."""

ROUNDS = 8
"""So many such sums are added in double; what they add up to has more digits.

So the error of a sum is at most DEPTH + ROUNDS eps times the sum of the absolute values, however
many rows there are, where long doubles have more digits than doubles.
"""

PIECE = 1 << 14
"""So many rows are added at a time, or more of many labels: all of them stay in a near cache."""


AMONG = 16
"""Among so many rows for each label there is most often one of each."""


class Block:
    """The rows of a block, by their codes, and how many rows each label has.

    The codes are whole if none is known to be NO_LABEL.
    The rows come in pieces, and a piece in lanes, such that a label has few rows of a lane: the
    key of a row is its code, plus the number of labels for each lane before its own.
    """

    def __init__(
        self, codes: np.ndarray, count: int, start: int = 0, are_whole: bool = False
    ) -> None:
        self.kept: np.ndarray | None = None
        if not are_whole and codes.min(initial=0) == NO_LABEL:
            self.kept = codes != NO_LABEL
            codes = codes[self.kept]
        self.codes = codes
        self.start = start
        self._numbers: np.ndarray | None = None
        self.count = count
        rows = max(DEPTH, DEPTH // 4 * count)
        self._lanes = max(1, PIECE // rows)
        self._step = self._lanes * rows if self._lanes > 1 else DEPTH // 2 * count
        lanes = np.arange(self._lanes if self._lanes > 1 else 0)
        self._offsets = np.repeat(lanes * count, rows)
        self._scratch = np.empty_like(self._offsets)
        self._order: np.ndarray | None = None
        self._spread: dict[int, Spread | None] = {}
        self._sizes = np.zeros(count, np.int64)
        self._deep: list[bool] = []

    @property
    def sizes(self) -> np.ndarray:
        """How many rows each label has."""
        for piece in self._pieces()[len(self._deep) :]:
            self._count(self._keys(piece))
        return self._sizes

    def _count(self, keys: np.ndarray) -> None:
        """Count the rows of each label in the next piece: with sums, while it is in the cache."""
        counts = np.zeros(self._lanes * self.count, np.int64)
        np.add.at(counts, keys, 1)  # a bincount looks for the least and the greatest key first
        self._sizes += self._of_lanes(counts, np.int64)
        self._deep.append(counts.max(initial=0) > DEPTH)

    def _pieces(self) -> list[slice]:
        step = self._step
        return [slice(start, start + step) for start in range(0, len(self.codes), step)]

    def _keys(self, piece: slice) -> np.ndarray:
        codes = self.codes[piece]
        if self._lanes == 1:
            return codes
        keys = self._scratch[: len(codes)]
        np.add(codes, self._offsets[: len(codes)], out=keys)
        return keys

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of the rows that have a label, among all rows."""
        if self._numbers is None:
            size = len(self.codes)
            rows = np.arange(size) if self.kept is None else np.flatnonzero(self.kept)
            self._numbers = rows + self.start
        return self._numbers

    def of_elements(self, mask: np.ndarray) -> Block:
        """Return the elements of columns where a mask is true, a label for each of its columns."""
        width = mask.shape[1]
        rows, columns = np.nonzero(mask) if width != 1 else (np.flatnonzero(mask[:, 0]), 0)
        found = Block(self.codes[rows] * width + columns, self.count * width, are_whole=True)
        found._numbers = self.numbers[rows]
        return found

    def columns(self, values: np.ndarray) -> np.ndarray:
        """Return the values of the rows that have a label, each as a row of columns."""
        if not values.dtype.isnative:
            values = values.astype(values.dtype.newbyteorder("="))
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
        few, added = np.zeros(self._lanes * self.count), 0
        sums = np.empty_like(few)
        for number, piece in enumerate(self._pieces()):
            keys = self._keys(piece)
            if number == len(self._deep):
                self._count(keys)
            if self._deep[number]:
                self._add_deep(piece, values[piece], out)
                continue
            sums[:] = 0
            np.add.at(sums, keys, values[piece].astype(sums.dtype, copy=False))
            few += sums
            added += 1
            if added == ROUNDS:
                out += self._of_lanes(few, out.dtype)
                few[:], added = 0, 0
        if added:
            out += self._of_lanes(few, out.dtype)

    def _add_deep(self, piece: slice, values: np.ndarray, out: np.ndarray) -> None:
        """Add a piece in which some label has many rows."""
        codes = self.codes[piece]
        if piece.start not in self._spread:
            self._spread[piece.start] = _spread(codes, self.count)
        spread = self._spread[piece.start]
        if spread is None:
            _add_sorted(codes, values[:, None], out[:, None])
            return
        keys, ends = spread
        found = np.bincount(keys, values, ends[-1]).astype(out.dtype)
        out += np.add.reduceat(found, np.append(0, ends[:-1]))

    def _of_lanes(self, found: np.ndarray, dtype: Any) -> np.ndarray:
        """Return the sums of the labels, from those of each lane."""
        if self._lanes == 1:
            return found
        total: np.ndarray = found.reshape(self._lanes, self.count).sum(axis=0, dtype=dtype)
        return total

    def some_of_each(self, values: np.ndarray, dtype: DType) -> np.ndarray:
        """Return the values of a row of each label, 0 for a label without rows."""
        found = np.zeros((self.count, values.shape[1]), dtype)
        some = self.codes[-AMONG * self.count :]  # most often every label is among the last rows
        if len(some) < len(self.codes):
            seen = np.zeros(self.count, bool)
            seen[some] = True
            if (self.sizes[~seen] > 0).any():
                some = self.codes
        for column in range(values.shape[1]):
            found[some, column] = values[len(values) - len(some) :, column]
        return found

    def rows_of_each(self, values: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Yield each label that has rows, and these rows."""
        ordered = values[self._sorted()]
        stops = np.cumsum(self.sizes)
        for label in np.flatnonzero(self.sizes).tolist():
            yield label, ordered[stops[label] - self.sizes[label] : stops[label]]

    def _sorted(self) -> np.ndarray:
        """Return the rows in the order of their labels."""
        if self._order is None:
            self._order = by_code(self.codes, self.count)
        return self._order

    def reduced(self, ufunc: np.ufunc, values: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Reduce the rows of each label; a label without rows keeps what is in `out`."""
        has_slow_at = values.dtype.kind in "mM"  # slower than to sort the rows
        if has_slow_at or values.shape[1] > FEW:
            return self._reduced_in_order(ufunc, values, out)
        if ufunc.identity is None:
            some = self.some_of_each(values, out.dtype)
            np.copyto(out, some, where=self.sizes[:, None] > 0)
        for column in range(values.shape[1]):
            ufunc.at(out[:, column], self.codes, values[:, column].astype(out.dtype, copy=False))
        return out

    def _reduced_in_order(self, ufunc: np.ufunc, values: np.ndarray, out: np.ndarray) -> np.ndarray:
        (present,) = np.nonzero(self.sizes)
        if len(present):
            starts = (np.cumsum(self.sizes) - self.sizes)[present]
            ordered = values[self._sorted()].astype(out.dtype, copy=False)
            out[present] = ufunc.reduceat(ordered, starts, axis=0)
        return out


FEW = 32
"""Up to so many columns are added one by one, in the order of the rows; wider rows are sorted."""


def widest_of(dtype: DType) -> DType:
    """Return the widest dtype of floats, or of complex numbers."""
    return np.result_type(dtype, np.longdouble)


Spread = tuple[np.ndarray, np.ndarray]
"""A key for each row, and where the keys of each label end."""


def _spread(codes: np.ndarray, count: int) -> Spread | None:
    """Return more keys for labels with more rows, at most DEPTH rows each, None if that fails.

    A label takes its keys in turn, by the numbers of the rows, which is faster than to sort them.

    >>> _spread(np.array([1, 0, 1]), 2)
    (array([1, 0, 1]), array([1, 2]))
    """
    rows = np.bincount(codes, minlength=count)
    keys = 1 << np.ceil(np.log2(np.maximum(1, rows / (DEPTH // 2)))).astype(np.intp)
    ends = np.cumsum(keys)
    found = np.arange(len(codes))
    found &= (keys - 1)[codes]
    found += (ends - keys)[codes]
    return (found, ends) if np.bincount(found, minlength=1).max() <= DEPTH else None


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
        order = by_code(codes, len(out))
        codes, values = codes[order], values[order]
    starts = np.append(0, np.flatnonzero(codes[1:] != codes[:-1]) + 1)
    cuts = np.union1d(starts, np.arange(0, len(codes), DEPTH))
    double = np.result_type(values.dtype, np.float64)
    few = np.add.reduceat(values.astype(double, copy=False), cuts, axis=0).astype(out.dtype)
    out[codes[starts]] += np.add.reduceat(few, np.searchsorted(cuts, starts), axis=0)
