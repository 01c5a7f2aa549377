"""Where the lists of a column begin, which is read when it is first needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataview.formats.tables.columns import mask_of
from dataview.index import Affine, Constant, Index, extent, shifted
from dataview.index.flat import Layout, layout_of
from dataview.index.locks import new_lock
from dataview.plan.kinds import LateStored

MOST_NEAR = 2
"""Rows in no order are near each other if there are no more than so many groups for each."""


class Lists:
    """Where the lists of some groups begin, at each depth; they are read when that is needed."""

    def __init__(
        self, table: Any, name: tuple[str, ...], kind: Any, groups: range | None = None
    ) -> None:
        self.table, self.name, self.kind = table, name, kind
        self.groups = range(len(table.starts) - 1) if groups is None else groups
        self._lock = new_lock()
        self._found: tuple[list[Layout], np.ndarray] | None = None
        if len(self.groups) == len(table.starts) - 1:
            table.lists[name] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return Lists, (self.table, self.name, self.kind, self.groups)

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
        """How many of the innermost values there are before each group; other groups have none."""
        return self._read()[1]

    @property
    def rows(self) -> range:
        """The rows of the groups."""
        return range(*self.table.starts[[self.groups.start, self.groups.stop]].tolist())

    def near(self, low: int, high: int) -> Lists:
        """Return the lists of the groups that have the rows from `low` to `high`."""
        ends = np.array([low, high]) + self.rows.start
        first, last = (self.table.starts.searchsorted(ends, side="right") - 1).tolist()
        groups = range(first, last + 1)
        return self if groups == self.groups else Lists(self.table, self.name, self.kind, groups)

    def _read(self) -> tuple[list[Layout], np.ndarray]:
        with self._lock:
            if self._found is None:
                every = [self, *(self._others() if self.table.reads_rows else ())]
                lengths = [Lengths(one.kind.depth) for one in every]
                begin = self.groups.start
                for first, stop in self.table.runs(self.groups, self.name):
                    end = min(stop, self.groups.stop)
                    bounds = self.table.starts[begin : end + 1] - self.table.starts[first]
                    for one, own in zip(every, lengths, strict=True):
                        names = [other.name for other in every]
                        own.add(self.table.column(one.name, first, stop, names), bounds)
                    begin = end
                for one, own in zip(every, lengths, strict=True):
                    one._found = own.found(len(self.table.starts), self.groups)
            assert self._found is not None
            return self._found

    def _others(self) -> list[Lists]:
        """Return the lists of other columns, whose lengths the same pass can tell."""
        is_whole = self.table.lists.get(self.name) is self
        known = [*self.table.lists.values()] if is_whole else []
        return [one for one in known if one is not self and not one.is_read]


class Lengths:
    """The lengths of the lists at each depth, and how many values each group has, so far.

    Which lists there are is kept of those in lists; of the outermost the column's mask tells it.
    """

    def __init__(self, depth: int) -> None:
        nothing = np.empty(0, np.intp)
        self.lengths = [[nothing] for _ in range(depth)]
        self.present: list[list[np.ndarray]] = [[np.empty(0, bool)] for _ in range(depth)]
        self.counts = [nothing]

    def add(self, column: Any, bounds: np.ndarray) -> None:
        """Add those of groups, by the bounds of these among the rows of a column."""
        for depth, (own, present) in enumerate(zip(self.lengths, self.present, strict=True)):
            rows = slice(bounds[0], bounds[-1])
            own.append(np.diff(column.offsets[rows.start : rows.stop + 1]))
            if depth:
                present.append(mask_of(column.present, (len(column.offsets) - 1,))[rows])
            bounds, column = column.offsets[bounds], column.values
        self.counts.append(np.diff(bounds))

    def found(self, count: int, groups: range) -> tuple[list[Layout], np.ndarray]:
        """Return the layouts, and how many values there are before each of so many groups."""
        starts = np.zeros(count, np.intp)
        starts[groups.start + 1 : groups.stop + 1] = np.concatenate(self.counts)
        layouts = [layout_of(lengths=np.concatenate(own, dtype=np.intp)) for own in self.lengths]
        present = [None, *map(np.concatenate, self.present[1:])]
        return [*map(Layout.lacking, layouts, present)], starts.cumsum()


class LateLayout(Layout):
    """The layout of lists, of which only the number is known before one is needed."""

    __slots__ = ("lists",)
    lists: Lists

    def __init__(self, lists: Lists) -> None:
        object.__setattr__(self, "lists", lists)

    def __reduce__(self) -> tuple[Any, ...]:
        return LateLayout, (self.lists,)

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.lists.rows)

    def near(self, values: Any, index: Index) -> tuple[Any, Layout, Index]:
        """Return values, layout and index of the same rows over the groups that they are in.

        All groups stay if the rows are far apart: so all lengths are read at most once.
        """
        lists, ends = self.lists, extent(index.maps[0], index.shape)
        if ends is None or not isinstance(values, LateStored):
            return values, self, index
        near = lists.near(*ends)
        is_line = isinstance(index.maps[0], (Affine, Constant))
        if len(near.groups) > (len(lists.groups) if is_line else MOST_NEAR * index.shape[0]):
            return values, self, index
        rows = shifted(index.maps[0], near.rows.start - lists.rows.start)
        source: Any = values.source
        values = LateStored(source.near(near), values.row)
        return values, LateLayout(near), Index(index.shape, [rows])

    is_late = property(lambda self: not self.lists.is_read)
    offsets = property(lambda self: self.lists.layouts[0].offsets)
    shapes = property(lambda self: None)
    axes = property(lambda self: (None,))
    present = property(lambda self: None)
