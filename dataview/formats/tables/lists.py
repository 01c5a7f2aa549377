"""Where the lists of a column begin, which is read when it is first needed."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from dataview.index.flat import Layout, layout_of


class Lists:
    """Where the lists of a column begin, at each depth; all are read once, when that is needed."""

    def __init__(self, table: Any, name: tuple[str, ...], kind: Any) -> None:
        self.table, self.name, self.kind = table, name, kind
        self._lock = threading.Lock()
        self._found: tuple[list[Layout], np.ndarray] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Lists, (self.table, self.name, self.kind)

    @property
    def is_read(self) -> bool:
        """Whether it is known where they begin."""
        return self._found is not None

    @property
    def layouts(self) -> list[Layout]:
        """The layouts, the outermost first."""
        return self._read()[0]

    @property
    def starts(self) -> np.ndarray:
        """How many of the innermost values there are before each group of rows."""
        return self._read()[1]

    def _read(self) -> tuple[list[Layout], np.ndarray]:
        with self._lock:
            if self._found is None:
                lengths, counts = _lengths(self.table, self.name, self.kind.depth)
                starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
                self._found = [layout_of(lengths=own) for own in lengths], starts
            return self._found


class LateLayout(Layout):
    """The layout of lists, of which only the number is known before one is needed."""

    __slots__ = ("lists", "rows")
    lists: Lists
    rows: int

    def __init__(self, lists: Lists, rows: int) -> None:
        object.__setattr__(self, "lists", lists)
        object.__setattr__(self, "rows", rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return LateLayout, (self.lists, self.rows)

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.rows

    is_late = property(lambda self: not self.lists.is_read)
    offsets = property(lambda self: self.lists.layouts[0].offsets)
    shapes = property(lambda self: None)
    axes = property(lambda self: (None,))


def _lengths(table: Any, name: tuple[str, ...], depth: int) -> tuple[list[np.ndarray], list[int]]:
    """Return the lengths of the lists at each depth, and how many values each group has."""
    lengths: list[list[np.ndarray]] = [[] for _ in range(depth)]
    counts = []
    for group in range(len(table.starts) - 1):
        column = table.column(name, group, group + 1)
        for level in range(depth):
            lengths[level].append(np.diff(column.offsets))
            column = column.values
        counts.append(int(lengths[-1][-1].sum()))
    nothing = [np.empty(0, np.intp)]
    return [np.concatenate(own or nothing).astype(np.intp) for own in lengths], counts
