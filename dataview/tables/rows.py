"""The number of each row's value among all values, and the first row of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dataview.compute import evaluate
from dataview.plan.gaps import NO_LABEL
from dataview.plan.kinds import size_of
from dataview.plan.operations import is_present
from dataview.plan.ragged import Ragged
from dataview.tables.coding import NARROW, classes, coder
from dataview.tables.unique import counted


def ranked(
    values: np.ndarray, present: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the values there are, ascending, each row's number among them, and rows of each.

    What is missing is the last, also what is not `present`.

    >>> ranked(np.array(["b", "a", "b"]))
    (array(['a', 'b'], dtype='<U1'), array([1, 0, 1]), array([1, 2]))
    """
    known = None if present is None or present.all() else present & is_present(values)
    found, codes, counts = _ranked(values if known is None else values[known])
    if known is not None:
        places, codes = codes, np.full(len(values), len(found))
        codes[known] = places
        found = np.concatenate([found.astype(object), [None]])
        counts = np.append(counts, len(values) - len(places))
    return found, codes, counts


def _ranked(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sort distinct values only, and look up the others by hashing."""
    if values.dtype.kind == "V":
        found, codes = classes(values)
        return found, codes, np.bincount(codes, minlength=len(found))
    found, counts = counted(values)
    codes = coder(found)(values)
    missing = codes == NO_LABEL
    if missing.any():
        codes[missing] = len(found) - 1
    return found, codes, counts


def first_of_each(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Return the number of the first row of each combination of values, ascending.

    >>> first_of_each([np.array([1, 1, 2, 1]), np.array(["a", "b", "a", "a"])])
    array([0, 1, 2])
    """
    rows = len(columns[0])
    codes, count = np.zeros(rows, np.intp), 1
    for values in [part for column in columns for part in _compared_columns(column)]:
        found, own = _code_of_each(values)
        if own == rows:
            return np.arange(rows)
        codes, count = codes * own + found, count * own
        if count > max(rows, NARROW):
            labels, codes, _ = ranked(codes)
            count = len(labels)
    first = np.full(count, rows)
    first[codes[::-1]] = np.arange(rows)[::-1]  # of several rows with one code the first stays
    return np.sort(first[first < rows])


def _compared_columns(values: np.ndarray) -> list[np.ndarray]:
    """Return columns whose rows are compared as wholes, such that NaN is equal to NaN."""
    if values.dtype.names:
        return [part for name in values.dtype.names for part in _compared_columns(values[name])]
    if values.ndim == 1 or values.dtype.hasobject or is_present(values).all():
        return [values]
    return list(values.reshape(len(values), size_of(values.shape[1:])).T)


def _code_of_each(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Return a number for each row, the same for equal rows, and how many numbers there are."""
    if values.dtype.hasobject:
        known: dict[Any, int] = {}
        flat = values.reshape(len(values), size_of(values.shape[1:])).astype(object)
        flat[~is_present(flat)] = None  # what is missing is one thing
        rows = flat[:, 0].tolist() if flat.shape[1] == 1 else map(tuple, flat.tolist())
        try:
            codes = np.array([known.setdefault(row, len(known)) for row in rows], np.intp)
        except TypeError:  # a list has an order, and no hash
            return _code_of_each(np.stack([ranked(column)[1] for column in flat.T], axis=1))
        return codes, len(known)
    if values.ndim > 1:
        found, codes = np.unique(values, return_inverse=True, axis=0)
        return codes.reshape(-1), len(found)
    found, codes, _ = ranked(values)
    return codes, len(found)


def numbers_of_rows(node: Ragged) -> np.ndarray:
    """Return a number for each ragged row, the same for those of one shape with equal values."""
    rows = node.relaid()
    if isinstance(rows.values, Ragged):
        codes = numbers_of_rows(rows.values)
    else:
        values = np.asarray(evaluate(rows.values))
        codes = ranked(values.reshape(-1))[1].reshape(values.shape)
    ends, shapes = rows.layout.offsets.tolist(), rows.layout.lengths().tolist()
    seen: dict[tuple[int | bytes, ...], int] = {}
    found = np.empty(rows.count, np.intp)
    for row, shape in enumerate(shapes):
        key = (*shape, codes[ends[row] : ends[row + 1]].tobytes())
        found[row] = seen.setdefault(key, len(seen))
    return found
