"""Columns that the pass over a CSV file has parsed already, kept as far as there is room for them.

Else what is often asked of a table first, a statistic, would have the whole text parsed once more.
All tables share the room: the latest has it before others, and its first columns before the last.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import partial
from typing import cast
from weakref import WeakValueDictionary

import numpy as np

from dataview.formats.tables.columns import Column
from dataview.formats.tables.schema import behind
from dataview.formats.texts.cells import Field
from dataview.formats.texts.csv_lines import Groups
from dataview.index.locks import new_lock

MOST = 32 << 20
"""So many bytes are kept of all tables together."""


class KeptColumns:
    """Columns of texts that follow one another from a place of a file on, where rows begin.

    The columns from the number `width` on are kept no more.
    """

    def __init__(self, begin: int, width: int) -> None:
        self.width, self.bytes = width, 0
        self._ends = [begin]
        self._rows = np.zeros(1, np.intp)
        self._texts: list[dict[int, Column]] = []
        _ALL[next(_NUMBERS)] = self

    def add(self, end: int, columns: Mapping[int, Column]) -> None:
        """Keep columns by their numbers, of the next text, which ends at a place of the file."""
        with _LOCK:
            if not self.width:
                return
            self._ends.append(end)
            self._texts.append({n: _narrow(own) for n, own in columns.items() if n < self.width})
            self.bytes += sum(own.nbytes for own in self._texts[-1].values())
            _make_room(self)

    def settle(self, groups: Groups) -> None:
        """Take from the groups of a file which rows the texts have."""
        self._rows = groups.rows[groups.ends.searchsorted(self._ends)]

    def columns(self, fields: Mapping[int, Field], first: int, stop: int) -> dict[int, Column]:
        """Return some rows of the columns of which all these are kept as what the columns are."""
        rows = self._rows
        low = int(rows.searchsorted(first, side="right")) - 1
        high = int(rows.searchsorted(stop, side="left"))
        texts = self._texts[low:high]
        if not low < high or len(texts) < high - low:
            return {}
        counts = np.diff(rows[low : high + 1]).tolist()
        found = {}
        for number, field in fields.items():
            parts = [text.get(number) for text in texts]
            if all(map(partial(_fits, field), parts, counts)):
                whole = behind(cast("list[Column]", parts))
                begin = int(rows[low])
                found[number] = _some(whole, slice(first - begin, stop - begin), field)
        return found

    def forget(self) -> None:
        """Keep nothing, now and later."""
        self.width = self.bytes = 0
        self._texts = []  # another thread may read the list that was

    def lessen(self) -> None:
        """Keep one column less; of one alone, keep what there is without the last text."""
        numbers = {number for text in self._texts for number in text}
        if len(numbers) > 1:
            self.width = max(numbers)
            dropped = [text.pop(self.width) for text in self._texts if self.width in text]
        else:
            self.width = 0
            dropped = list(self._texts.pop().values())
        self.bytes -= sum(own.nbytes for own in dropped)


_ALL: WeakValueDictionary[int, KeptColumns] = WeakValueDictionary()
"""What is kept of each table, the latest last."""

_NUMBERS = itertools.count()

_LOCK = new_lock()


def _make_room(latest: KeptColumns) -> None:
    """Forget what is too much: first of other tables, from the oldest on."""
    every = list(_ALL.values())
    held = sum(one.bytes for one in every)
    for other in every:
        if held > MOST and other is not latest:
            held -= other.bytes
            other.forget()
    while latest.bytes > MOST:
        latest.lessen()


def _narrow(column: Column) -> Column:
    """Return whole numbers with as few bytes as hold them all: less new memory, more room."""
    values = cast(np.ndarray, column.values)
    if values.dtype != np.int64 or not len(values):
        return column
    least, most = int(values.min()), int(values.max())
    for dtype, low, high in _NARROW:
        if low <= least and most <= high:
            return column._replace(values=values.astype(dtype))
    return column


_NARROW = tuple(
    (one, np.iinfo(one).min, np.iinfo(one).max) for one in (np.int8, np.int16, np.int32)
)
"""The dtypes of whole numbers of few bytes, and the least and the most that each holds."""


def _fits(field: Field, column: Column | None, count: int) -> bool:
    """Whether a column has so many rows, and as they would be read as a field."""
    if column is None or field.has_quoted:
        return False
    values = cast(np.ndarray, column.values)
    own, dtype = values.dtype, field.kind.dtype
    are_narrow = own.kind == dtype.kind == "i" and own.itemsize < dtype.itemsize
    return (are_narrow or own == dtype) and len(values) == count


def _some(column: Column, rows: slice, field: Field) -> Column:
    """Return some rows of a column, with the dtype of a field."""
    present = None if column.present is None else column.present[rows]
    values = cast(np.ndarray, column.values)[rows]
    return Column(values.astype(field.kind.dtype, copy=False), present)
