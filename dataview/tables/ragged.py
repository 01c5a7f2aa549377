"""Ragged rows that are equal."""

from __future__ import annotations

import numpy as np

from dataview.compute import evaluate
from dataview.plan.ragged import Ragged
from dataview.tables.coding import classes


def numbers_of_rows(node: Ragged) -> np.ndarray:
    """Return a number for each row, the same for rows that have one shape and equal values."""
    rows = node.relaid()
    if isinstance(rows.values, Ragged):
        codes = numbers_of_rows(rows.values)
    else:
        values = np.asarray(evaluate(rows.values))
        codes = classes(values.reshape(-1))[1].reshape(values.shape)
    ends, shapes = rows.layout.offsets.tolist(), rows.layout.lengths().tolist()
    seen: dict[tuple[int | bytes, ...], int] = {}
    found = np.empty(rows.count, np.intp)
    for row, shape in enumerate(shapes):
        key = (*shape, codes[ends[row] : ends[row + 1]].tobytes())
        found[row] = seen.setdefault(key, len(seen))
    return found
