"""Sequences of a user's own class: they end at their length."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np

_ARRAYS = ("__array__", "__array_interface__", "__array_struct__")
_LISTS = frozenset({list, tuple})
_ITEMS = frozenset({bool, int, float, complex, str, bytes, np.float64, np.ndarray})
"""Common classes of items that have no items of their own, or end at their length."""


def listed(value: Any) -> Any:
    """Return sequences of a user's own class as lists, and anything else as it is.

    NumPy asks such a sequence for items until it raises IndexError, which some never do.

    >>> class Squares:
    ...     def __len__(self):
    ...         return 3
    ...
    ...     def __getitem__(self, number):
    ...         return number**2
    >>> listed([Squares(), [1, 2, 3]])
    [[0, 1, 4], [1, 2, 3]]
    """
    kind = type(value)
    if kind in _LISTS:
        # Where the first item is a number, NumPy takes no other one for a sequence.
        if not value or type(value[0]) in _ITEMS or _is_table(value):
            return value
        parts = [listed(part) for part in value]
        same = all(part is old for part, old in zip(parts, value, strict=True))
        return value if same else parts
    if not asks_items(value):
        return value
    return [listed(part) for part in islice(iter(value), len(value))]


def asks_items(value: Any) -> bool:
    """Whether NumPy would make an array of an object's items, asking for one after the other."""
    return _is_listed(type(value)) and not _has_buffer(value)  # type: ignore[arg-type]


def _is_table(value: Any) -> bool:
    """Whether all items are lists of numbers, as nearly all lists of lists are."""
    return all(type(row) in _LISTS and row and type(row[0]) in _ITEMS for row in value)


@lru_cache(maxsize=256)
def _is_listed(kind: type) -> bool:
    """Whether NumPy would take an object of this class for a sequence, and ask for its items."""
    if issubclass(kind, (list, tuple, str, bytes, Mapping)):
        return False
    is_sequence = hasattr(kind, "__len__") and hasattr(kind, "__getitem__")
    return is_sequence and not any(hasattr(kind, protocol) for protocol in _ARRAYS)


def _has_buffer(value: Any) -> bool:
    """Whether an object lends its memory, as Python's own arrays do."""
    try:
        memoryview(value)
    except TypeError:
        return False
    return True
