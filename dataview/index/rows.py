"""Rows: positions on the first axis, as a number, a range or an array of them; none is negative.

A key on rows gives rows again, and a map takes them to the rows of its source, without an index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from dataview.index.algebra import (
    Affine,
    Array,
    Computed,
    Constant,
    Index,
    Map,
    axes_of,
    scaled,
    through,
    whole_axes,
)

Rows: TypeAlias = "int | range | np.ndarray"
Numbers: TypeAlias = "Callable[[Rows], Rows]"
"""A function from rows of a view to those of its source; for a row of several, these."""


def row_key(rows: Rows | None) -> Any:
    """Return the NumPy key that selects these rows, () where there are none to select.

    >>> row_key(range(4, -1, -2))
    slice(4, None, -2)
    """
    if type(rows) is not range:
        return () if rows is None else rows
    if not rows:
        return slice(0, 0)
    return slice(rows.start, rows.stop if rows.stop >= 0 else None, rows.step)


def as_array(rows: range | np.ndarray) -> np.ndarray:
    """Return several rows as an array."""
    return rows if isinstance(rows, np.ndarray) else np.arange(rows.start, rows.stop, rows.step)


def in_a_run(rows: Rows) -> Rows:
    """Return rows as a range if they are numbers that follow each other, which is read in one go.

    >>> in_a_run(np.array([4, 5, 6])), in_a_run(np.array([4, 6, 6]))
    (range(4, 7), array([4, 6, 6]))
    """
    if not isinstance(rows, np.ndarray) or rows.ndim != 1 or not len(rows):
        return rows
    start, stop = int(rows[0]), int(rows[-1]) + 1
    if stop - start != len(rows) or not np.logical_and.reduce(rows[1:] > rows[:-1]):
        return rows
    return range(start, stop)


def with_a_run(index: Index) -> Index:
    """Return an index with its rows as a range if they are numbers that follow each other.

    >>> with_a_run(Index((3,), [Array(np.array([4, 5, 6]), (0,)), Constant(2)])).maps
    (Affine(offset=4, strides=((0, 1),)), Constant(offset=2))
    """
    first = index.maps[0] if index.maps else None
    rows = in_a_run(first.values) if type(first) is Array else None
    if type(rows) is not range or type(first) is not Array:
        return index
    return Index(index.shape, (Affine(rows.start, ((first.axes[0], 1),)), *index.maps[1:]))


def rows_index(shape: Sequence[int], rows: Rows) -> Index:
    """Return the index of rows of a source of this shape, whole on the other axes.

    >>> rows_index((9, 2), range(4, 8, 3)).maps
    (Affine(offset=4, strides=((0, 3),)), Affine(offset=0, strides=((1, 1),)))
    """
    if isinstance(rows, int):
        return Index(shape[1:], (Constant(rows), *whole_axes(0, len(shape) - 1)))
    first = _run(rows) if isinstance(rows, range) else map_of(rows)
    return Index((len(rows), *shape[1:]), (first, *whole_axes(0, len(shape))[1:]))


def _run(rows: range) -> Affine:
    return Affine(rows.start, ((0, rows.step),))


def rows_then(rows: range | np.ndarray, within: Index) -> Index:
    """Return the index that selects within rows of a source, whose other axes are as they were.

    >>> rows_then(range(4, 8, 3), Index((1,), (Affine(1, ((0, 1),)), Constant(5)))).maps
    (Affine(offset=7, strides=((0, 3),)), Constant(offset=5))
    """
    if isinstance(rows, np.ndarray):
        first = through(map_of(rows), within)
    else:
        first = scaled(within.maps[0], rows.step, rows.start)
    return Index(within.shape, (first, *within.maps[1:]))


def map_of(numbers: np.ndarray, axis: int = 0) -> Map:
    """Return the map of positions by their numbers over a view axis."""
    return Affine(int(numbers[0]), ((axis, 1),)) if len(numbers) == 1 else Array(numbers, (axis,))


def rows_at(rows: range | np.ndarray, key: Any) -> Rows | None:
    """Return the rows that a key selects of these; None for a key that NumPy has to judge.

    >>> rows_at(range(10, 20), slice(2, 4)), rows_at(range(10, 20), np.array([0, -1]))
    (range(12, 14), array([10, 19]))
    """
    kind = type(key)
    if kind is slice or kind is int:
        if kind is int and not -len(rows) <= key < len(rows):
            return None
        return rows[key] if type(rows) is range else _picked(rows, key)
    numbers = numbers_at(key, len(rows))
    if numbers is None:
        return None
    if type(rows) is not range:
        return rows[numbers]  # type: ignore[no-any-return]
    if rows.step != 1:
        numbers *= rows.step
    if rows.start:
        numbers += rows.start
    return numbers


def _picked(rows: Any, key: Any) -> Rows:
    found = rows[key]
    return found if type(found) is np.ndarray else int(found)


def numbers_at(key: Any, count: int) -> np.ndarray | None:
    """Return the positions of a mask, of an array or of a list of numbers as a new array.

    None is the answer for other keys.
    """
    if type(key) is list:
        key = _array_of(key)
    if type(key) is not np.ndarray:
        return None
    if key.ndim != 1:
        return None
    if key.dtype == np.bool_:
        return key.nonzero()[0] if len(key) == count else None
    if key.dtype.kind not in "iu":
        return None
    numbers = key.astype(np.intp)  # always a copy: the caller's array may change later
    # Seen as unsigned, negative numbers are the largest: one maximum checks both ends.
    unsigned = numbers.view(np.uintp)
    if numbers.size and unsigned[unsigned.argmax()] >= count:
        if key.dtype.kind == "u" or numbers.min() < -count or numbers.max() >= count:
            return None
        numbers[numbers < 0] += count
    return numbers


def _array_of(key: list[Any]) -> np.ndarray | None:
    if not key or type(key[0]) is not int:
        return None
    try:
        return np.asarray(key)
    except ValueError:  # lists of different lengths
        return None


def numbers_of(map_: Map, shape: Sequence[int]) -> Numbers | None:
    """Return what takes rows of a view through the map of its source's rows, None if none can.

    The map varies over the first axes of the view, of which `shape` has the lengths.  If there are
    several, a row of the view is several rows of the source: an array of as many axes.
    """
    if axes_of(map_) != tuple(range(len(shape))):
        return None
    if isinstance(map_, Computed):
        return _through_function(map_, shape)
    if isinstance(map_, Array):
        values = map_.values
        return lambda rows: _picked(values, row_key(rows))
    if not isinstance(map_, Affine) or len(shape) > 2:
        return None
    strides = dict(map_.strides)
    if len(shape) == 1:
        return lambda rows: _on_line(rows, map_.offset, strides[0])
    length, inner = shape[1], strides[1]
    within = np.arange(length) * inner

    def grouped(rows: Rows) -> Rows:
        first = _on_line(rows, map_.offset, strides[0])
        if isinstance(first, int):
            return range(first, first + inner * length, inner)
        numbers: np.ndarray = as_array(first)[:, None] + within
        return numbers

    return grouped


def _through_function(map_: Computed, shape: Sequence[int]) -> Numbers | None:
    inner = numbers_of(map_.inner, shape)
    if inner is None:
        return None
    function, stride, offset = map_.function, map_.stride, map_.offset
    block = getattr(function, "block", None)
    is_plain = stride == 1 and not offset

    def found(rows: Rows) -> Rows:
        within = inner(rows)
        if isinstance(within, int):
            at = function(np.array([within])) if block is None else block(within, within + 1)
            return offset + stride * int(at[0])
        if block is not None and type(within) is range and within.step == 1:
            numbers = block(within.start, within.stop)
        else:
            numbers = function(as_array(within))
        return numbers if is_plain else _on_line(numbers, offset, stride)

    return found


def _on_line(rows: Rows, offset: int, stride: int) -> Rows:
    if isinstance(rows, range):
        start = offset + stride * rows.start
        return range(start, start + stride * rows.step * len(rows), stride * rows.step)
    if stride != 1:
        rows = rows * stride
    return rows + offset if offset else rows


def sampled_rows(count: int, wanted: int) -> np.ndarray:
    """Return the ascending numbers of `wanted` rows of so many: a random one of each equal part.

    >>> rows = sampled_rows(1000, 10)
    >>> len(rows), (rows // 100).tolist() == list(range(10))
    (10, True)
    """
    if wanted >= count:
        return np.arange(count)
    starts = np.arange(wanted + 1) * count // wanted
    return np.random.default_rng(0).integers(starts[:-1], starts[1:])
