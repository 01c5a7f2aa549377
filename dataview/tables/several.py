"""Rows with several labels each: in several columns, or in a list of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from dataview.plan.operations import is_present
from dataview.tables.coding import family_of

_LISTS = (list, tuple, set, frozenset, np.ndarray)
"""What holds several labels of one row."""


def listed(values: Any) -> np.ndarray:
    """Return a user's values as an array, of objects where rows have lists of them.

    >>> listed([["a", "b"], [], "c"])
    array([list(['a', 'b']), list([]), 'c'], dtype=object)
    """
    if not isinstance(values, (list, tuple)) or not any(isinstance(v, _LISTS) for v in values):
        return np.asarray(values)
    found = np.empty(len(values), object)
    for row, value in enumerate(values):
        found[row] = value
    return found


def labels_of_rows(columns: Sequence[np.ndarray], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of each label in some columns, and the labels, without what is missing.

    >>> rows, labels = labels_of_rows([np.array(["a", "b"]), np.array([None, "a"], object)], 2)
    >>> rows.tolist(), labels.tolist()
    ([0, 1, 1], ['a', 'b', 'a'])
    """
    for values in columns:
        if values.ndim not in (1, 2) or len(values) != count:
            raise ValueError(
                f"by= gives the labels of each of the {count} rows; got shape {values.shape}"
            )
    pairs = [_labels_of(values) for values in columns]
    labels = [part for _, part in pairs]
    if len({family_of(part.dtype) for part in labels}) > 1:  # joined, numbers would become texts
        labels = [part.astype(object) for part in labels]
    found = np.concatenate(labels)
    present = is_present(found)
    return np.concatenate([rows for rows, _ in pairs])[present], found[present]


def _labels_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(len(values))
    if values.ndim == 2:
        return np.repeat(rows, values.shape[1]), values.reshape(-1)
    if values.dtype != object or not any(isinstance(value, _LISTS) for value in values):
        return rows, values
    lists = [
        value.tolist() if isinstance(value, np.ndarray)
        else list(value) if isinstance(value, _LISTS)
        else [value]
        for value in values
    ]  # fmt: skip
    labels = np.empty(sum(map(len, lists)), object)
    labels[:] = list(itertools.chain.from_iterable(lists))
    return np.repeat(rows, [len(value) for value in lists]), labels
