"""Nodes of the columns of a table: what reads rows of them, and the record of all, with masks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from dataview.formats.contents import described
from dataview.formats.tables.columns import Column, Kind, Name, Table, chunk_rows, mask_of
from dataview.formats.tables.fills import fills_of
from dataview.formats.tables.late_values import LateValues
from dataview.formats.tables.lists import LateLayout, Lists
from dataview.index import LINE, Affine, Constant, Index, axes_of, gather, is_identity, positions
from dataview.plan.build import record, stored
from dataview.plan.fields import (
    Fields,
    Unread,
    check_name,
    read_only_meta,
)
from dataview.plan.gaps import (
    LABELS,
    MASK,
    MASK_OF_LISTS,
    PRESENT,
    own_columns,
    put_mask,
    tells_present,
)
from dataview.plan.kinds import LateStored, Stored
from dataview.plan.node import Node
from dataview.plan.operations import may_be_missing
from dataview.plan.ragged import Ragged
from dataview.plan.walk import below
from dataview.sources import Memo, Source

_FIRST = Constant(0)


class ColumnSource(Source):
    """A column of a table: its values, or where there are any if `is_mask`.

    At a depth the values are those of lists; `starts` then counts the values before each group.
    """

    __slots__ = (
        "chunk_rows", "depth", "dtype", "has_gaps", "is_mask", "lacks_elements", "name", "nature",
        "shape", "starts", "table",
    )  # fmt: skip

    def __init__(
        self,
        table: Table,
        name: Name,
        kind: Kind,
        depth: int = 0,
        starts: np.ndarray | None = None,
        is_mask: bool = False,
    ) -> None:
        self.table, self.name, self.depth, self.is_mask = table, name, depth, is_mask
        self.starts = table.starts if starts is None else starts
        self.has_gaps = kind.has_missing and not is_mask
        self.dtype = np.dtype(bool) if is_mask else kind.dtype
        self.lacks_elements, self.nature = kind.lacks_elements, kind.nature
        self.shape = (int(self.starts[-1]), *(kind.mask_shape if is_mask else kind.shape))
        self.chunk_rows = chunk_rows(table, self.starts)

    def __reduce__(self) -> tuple[Any, ...]:
        kind = self._kind()
        starts = None if self.starts is self.table.starts else self.starts
        return ColumnSource, (self.table, self.name, kind, self.depth, starts, self.is_mask)

    def _kind(self) -> Kind:
        """Return what is known of its values."""
        return Kind(
            self.dtype,
            self.shape[1:],
            has_missing=self.has_gaps,
            nature=self.nature,
            lacks_elements=self.lacks_elements,
        )

    @property
    def present(self) -> Source | None:  # type: ignore[override]
        """The mask of the column, if it has gaps of which its values do not tell.

        In lists NaN is a number, and None has no order; beside what is in none, the mask is a
        field.
        """
        is_told = not self.depth and may_be_missing(self.dtype)
        if is_told or not self.has_gaps:
            return None
        return ColumnSource(self.table, self.name, self._kind(), self.depth, self.starts, True)

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return what an index selects, of the groups that have any of it."""
        rows = index.maps[0]
        if isinstance(rows, Constant):
            are_more = bool(memo) and self.shares
            names = {one.name for one in _together(self, memo)} if are_more else ()
            block = self._row(rows.offset, names)
            if not index.shape and len(index.maps) == 1:
                return np.array(block.reshape(()))
            return np.array(gather.read(block, Index(index.shape, (_FIRST, *index.maps[1:]))))
        if isinstance(rows, Affine) and len(rows.strides) == 1 and rows.strides[0][1] == 1:
            axis = rows.strides[0][0]
            block = self._rows(rows.offset, rows.offset + index.shape[axis], memo)
            line = Affine(0, ((axis, 1),))
            within = Index(index.shape, (line, *index.maps[1:]))
            whole = is_identity(within, block.shape)
            return block if whole else np.array(gather.read(block, within))
        found = self._of_one_group(index, memo) if self.table.has_arrays else None
        if found is not None:
            return found
        return np.asarray(gather.by_rows(index, lambda places: self._at(places, memo)))

    def _of_one_group(self, index: Index, memo: Memo) -> np.ndarray | None:
        """Return rows of one group, which need not be sorted for that; None of several groups."""
        rows, *others = index.maps
        if self.depth or axes_of(rows) != (0,) or not index.shape[0]:
            return None
        places = positions(rows, index.shape).reshape(-1)
        group = int(self.starts.searchsorted(places.min(), side="right")) - 1
        if places.max() >= self.starts[group + 1]:
            return None
        ((first, stop),) = self.table.runs(range(group, group + 1), self.name)
        part = Part(first, stop, places - self.starts[first], 0)
        block = self._read(places, iter([part]), len(places), memo)
        within = Index(index.shape, (LINE, *others))
        return block if is_identity(within, block.shape) else np.array(gather.read(block, within))

    def _row(self, row: int, names: Collection[Name] = ()) -> np.ndarray:
        """Return one row alone, which takes half the time that several would."""
        return self._row_in(self._group_of(row), row, names)

    def _group_of(self, row: int) -> range:
        """Return the one group that has a row."""
        group = int(self.starts.searchsorted(row, side="right")) - 1
        return range(group, group + 1)

    def _row_in(self, group: range, row: int, names: Collection[Name]) -> np.ndarray:
        ((first, stop),) = self.table.runs(group, self.name)
        place = row - self._begin(first, stop)
        return self.some(self.values_of(first, stop, names), slice(place, place + 1))

    def _begin(self, first: int, stop: int) -> int:
        """Return the number of the first row of a run of groups that is read."""
        return int(self.starts[first])

    def _rows(self, start: int, stop: int, memo: Memo) -> np.ndarray:
        """Return the rows from `start` to before `stop`, in a new array."""
        first = int(self.starts.searchsorted(start, side="right")) - 1
        last = int(self.starts.searchsorted(stop, side="left")) if start < stop else first

        def parts() -> Iterator[Part]:
            low = start
            for group, behind in self.table.runs(range(first, last), self.name):
                begin = self._begin(group, behind)
                high = min(stop, int(self.starts[behind]))
                yield Part(group, behind, slice(low - begin, high - begin), low - start)
                low = high

        return self._read((start, stop), parts(), stop - start, memo)

    def _at(self, places: np.ndarray, memo: Memo) -> np.ndarray:
        """Return the rows at some places, which ascend."""
        if len(places) < len(self.starts):
            groups = np.unique(self.starts.searchsorted(places, side="right") - 1)
        else:
            groups = np.flatnonzero(np.diff(places.searchsorted(self.starts)))
        breaks = np.flatnonzero(np.diff(groups) > 1) + 1

        def parts() -> Iterator[Part]:
            low = behind = 0
            for run in np.split(groups, breaks) if len(groups) else ():
                left = range(max(behind, int(run[0])), int(run[-1]) + 1)
                for group, behind in self.table.runs(left, self.name):
                    high = int(places.searchsorted(self.starts[behind]))
                    yield Part(group, behind, places[low:high] - self._begin(group, behind), low)
                    low = high

        found = parts()
        if self.table.has_arrays:
            found = iter(sorted(found, key=lambda part: self.table.turn(part.group)))
        return self._read(places, found, len(places), memo)

    def _read(self, which: Any, parts: Iterator[Part], count: int, memo: Memo) -> np.ndarray:
        """Return so many rows of groups; where rows are read whole, the memo gets other columns."""
        together = _together(self, memo) if self.table.reads_rows else [self]
        of_rows = [one for one in together if not one.depth] if not self.depth else [self]
        held: tuple[Any, dict[Any, np.ndarray]] | None = memo.get(self.table)
        if held is not None and type(held[0]) is type(which) and np.array_equal(held[0], which):
            if self.column in held[1]:
                return held[1].pop(self.column)
            of_rows = [self]  # it is asked for again
        names = dict.fromkeys(one.name for one in together)
        found = _filled(of_rows, names, parts, count)
        if len(of_rows) > 1:  # only those of the latest rows, so that a pass in blocks holds few
            memo[self.table] = which, dict(zip((one.column for one in of_rows), found, strict=True))
            del memo[self.table][1][self.column]
        return found[0]

    @property
    def shares(self) -> bool:  # type: ignore[override]
        """Whether columns that are asked for together are read in one pass."""
        return self.table.reads_rows

    @property
    def together(self) -> Table | None:
        """The table, if it reads the columns that are asked for together in one pass."""
        return self.table if self.table.reads_rows else None

    def row_of(self, sources: Sequence[Any], row: int) -> list[Any]:
        """Return a row of several columns of the table, an element each."""
        names = dict.fromkeys(one.name for one in sources)
        group = self._group_of(row)
        return [one._row_in(group, row, names)[0] for one in sources]

    @property
    def column(self) -> tuple[Name, bool, int]:
        """What it is of the table: lists have a mask, and what is in them has another."""
        return self.name, self.is_mask, self.depth

    def some(self, values: np.ndarray | LateValues, rows: slice | np.ndarray) -> np.ndarray:
        """Return some rows of values, which may be made only now."""
        try:
            if isinstance(rows, np.ndarray) and isinstance(values, np.ndarray):
                return gather.row_taker(values)(rows)
            return values[rows]
        except Exception:
            with self.table.named(self.name):
                raise

    def values_of(self, first: int, stop: int, names: Collection[Name]) -> np.ndarray | LateValues:
        """Return the values of some groups; the columns of these names will be asked for, too."""
        column = self.table.column(self.name, first, stop, names)
        for _ in range(self.depth):
            column = cast(Column, column.values)
        if not self.is_mask:
            return cast("np.ndarray | LateValues", column.values)
        count = int(self.starts[stop]) - self._begin(first, stop)
        return mask_of(column.present, (count, *self.shape[1:]))

    def bounds(self) -> Any:
        """Return the least and the greatest value of each group, with where groups start."""
        is_plain = not self.is_mask and not self.depth and len(self.shape) == 1
        found = self.table.bounds(self.name) if is_plain else None
        return None if found is None else (self.starts, *found)

    @property
    def part_rows(self) -> tuple[int, ...]:  # type: ignore[override]
        """How many rows each part of the table has."""
        return self.table.part_rows

    def visits(self, order: np.ndarray | None) -> None:
        """Note in which order the parts will be read."""
        self.table.visits(order)

    def part_by_part(self, rows: np.ndarray, sources: Sequence[Any]) -> Iterator[np.ndarray] | None:
        """Yield the places of rows, those of a part at a time, once its columns are in memory."""
        return self.table.part_by_part(rows, dict.fromkeys(one.name for one in sources))

    def whole(self) -> Source | None:
        """Return the column of all rows if the table has a partition of them."""
        table = None if self.depth else self.table.whole()
        if table is None:
            return None
        return ColumnSource(table, self.name, self._kind(), is_mask=self.is_mask)

    def is_same(self, other: Source) -> bool:
        """Whether another source is of the same column, or mask, of the same table."""
        if not isinstance(other, ColumnSource) or self.table is not other.table:
            return False
        return self.column == other.column

    @property
    def is_closed(self) -> bool:
        """Whether the file of the table was closed."""
        return self.table.is_closed

    def close(self) -> None:
        """Close the file of the table."""
        self.table.close()

    def describe(self) -> str:
        """Say which column it is."""
        name = self.name[:-1] if tells_present(self.name) else self.name
        return f"{self.table.called(name)} of {self.table.title}"

    def in_file(self) -> tuple[str, tuple[str, ...]]:
        """Return the table, and the names of the column; those of a mask end with "_mask"."""
        *above, last = self.name
        if last == PRESENT:
            *above, last = above
            return self.table.title, (*above, last + MASK)
        return self.table.title, (*above, last + MASK if self.is_mask else last)


class Part(NamedTuple):
    """Some rows of groups that are read together, and where they begin in the result."""

    group: int
    behind: int
    rows: slice | np.ndarray
    place: int


def _together(source: ColumnSource, memo: Memo) -> list[ColumnSource]:
    """Return a source and the others of its table that an evaluation reads, looked up once."""
    table = source.table
    if (_READ, table) not in memo:
        own = (part.source for part in below(memo.get("roots", ())) if isinstance(part, Stored))
        memo[_READ, table] = [
            one for one in own if isinstance(one, ColumnSource) and one.table is table
        ]
    known = {one.column: one for one in memo[_READ, table]}
    return [source, *(one for column, one in known.items() if column != source.column)]


_READ = "columns read"


def _filled(
    sources: Sequence[ColumnSource], names: Collection[Name], parts: Iterator[Part], count: int
) -> list[np.ndarray]:
    """Return the rows of parts of the same groups, for each source in a new array."""
    found = [_Gathered(source, count) for source in sources]
    for part in parts:
        for own in found:
            own.add(own.source.values_of(part.group, part.behind, names), part)
    return [own.array() for own in found]


MOST_LATE = 1 << 26
"""Objects are made once those that wait for it take so much memory where they lie."""


class _Gathered:
    """Rows of a source, so many in all, which are put into a new array part by part.

    Objects of parts that follow one another are made at once, so that they need no copy.
    """

    def __init__(self, source: ColumnSource, count: int) -> None:
        self.source, self.count = source, count
        self.found: np.ndarray | None = None
        self.late: list[LateValues] = []
        self.late_from = self.late_to = self.late_bytes = 0

    def add(self, values: np.ndarray | LateValues, part: Part) -> None:
        """Take some rows of values."""
        rows, cut = part.rows, None
        if isinstance(values, LateValues) and isinstance(rows, slice):
            are_all = rows.stop - rows.start == self.count
            cut = None if are_all else values.cut(rows)
        if cut is None or part.place != self.late_to or self.late_bytes > MOST_LATE:
            self._make()
        if cut is None:
            is_own = isinstance(values, LateValues) or isinstance(rows, np.ndarray)
            self._put(self.source.some(values, rows), part.place, is_own)
            return
        if not self.late:
            self.late_from, self.late_bytes = part.place, 0
        self.late.append(cut)
        self.late_to = part.place + len(cut)
        self.late_bytes += cut.nbytes

    def _make(self) -> None:
        """Make the objects of the parts that wait for it."""
        if self.late:
            whole = self.late[0].joined(self.late)
            self._put(self.source.some(whole, slice(None)), self.late_from, True)
            self.late = []

    def _put(self, some: np.ndarray, place: int, is_own: bool) -> None:
        if len(some) == self.count:
            self.found = some if is_own else some.copy()
            return
        if self.found is None:  # a file may say that it has more rows than memory
            self.found = np.empty((self.count, *self.source.shape[1:]), self.source.dtype)
        self.found[place : place + len(some)] = some

    def array(self) -> np.ndarray:
        """Return all rows."""
        self._make()
        if self.found is None:
            return np.empty((0, *self.source.shape[1:]), self.source.dtype)
        return self.found


# --- the record of a table -----------------------------------------------------------------------


NO_META: Mapping[Any, Any] = {}


def table_node(
    table: Table,
    kinds: Mapping[Name, Kind],
    fill: Any = None,
    metas: Mapping[Name, Mapping[str, Any]] = NO_META,
    lost: Mapping[str, str] = NO_META,
) -> Node:
    """Return the record of a table's columns; beside those with missing values are their masks.

    `fill` is what stands for missing values instead, for all columns or by their names; in a column
    of lists it stands for values, and the mask tells which lists are missing.  Codes are filled by
    one of their labels, if that is given by their name, else by -1, which is none.  `metas` are
    metadata of columns, and `lost` says of some why they cannot be viewed.
    """
    columns = {name: kind for name, kind in kinds.items() if not tells_present(name)}
    labels = {name: own[LABELS] for name, own in metas.items() if LABELS in own}
    table.fills = fills_of(fill, columns, labels, table.title)
    table.names = tuple(columns)
    filled = {name for name in table.fills if not columns[name].depth}
    columns |= {name: columns[name]._replace(has_missing=False) for name in filled}
    nodes = {
        name: described(column_node(table, name, kind), metas.get(name, NO_META))
        for name, kind in columns.items()
    }
    masks: dict[Name, Node] = {}
    are_filled = fill is not None and not isinstance(fill, Mapping)  # all that may be missing
    for name in kinds:
        if tells_present(name) and not are_filled:
            masks[name[:-1]] = stored(ColumnSource(table, name, _IS_THERE))
        elif name in columns and columns[name].has_missing:
            own = _in_rows(columns[name])
            masks[name] = stored(ColumnSource(table, name, own, is_mask=True))
    return nested(nodes, masks, lost)


_IS_THERE = Kind(np.dtype(bool))
"""What tells which records there are."""


def _in_rows(kind: Kind) -> Kind:
    """Return what the rows of a column are: of lists their mask tells which of them there are."""
    return kind._replace(lacks_elements=False) if kind.depth else kind


def nested(nodes: Mapping[Name, Node], masks: Mapping[Name, Node], lost: Mapping[str, str]) -> Node:
    """Return the record of columns by their names, with masks beside those that have one."""
    parts: dict[str, Any] = {}
    for name, node in nodes.items():
        _place(parts, name)[name[-1]] = node
    for name, node in masks.items():
        is_of_elements = node.shape is not None and len(node.shape) > 1
        notes = read_only_meta({**node.meta, MASK_OF_LISTS: True}) if is_of_elements else node.meta
        put_mask(_place(parts, name), name[-1], node.replaced(meta=notes))
    found = _record(parts)
    if lost:
        told = {name: Unread(why) for name, why in lost.items()}
        found = found.replaced(fields=Fields(found.fields.named, told))
    return found


def _place(parts: dict[str, Any], name: Name) -> dict[str, Any]:
    """Return the members of the record that a column is one of."""
    for step in name[:-1]:
        parts = parts.setdefault(step, {})
    return parts


def _record(parts: Mapping[str, Any]) -> Node:
    return record(
        {
            check_name(name): _record(part) if isinstance(part, dict) else part
            for name, part in own_columns(parts).items()
        }
    )


def column_node(table: Table, name: Name, kind: Kind) -> Node:
    """Return the node of a column; lists are ragged rows, whose lengths are read when needed.

    Of lists in lists the lengths are read now: the rows of the inner ones are not known before.
    """
    if not kind.depth:
        return stored(ColumnSource(table, name, kind))
    lists = Lists(table, name, kind)
    if kind.depth == 1:
        values = LateStored(ListSource(lists), kind.shape)
        return Ragged(values, LateLayout(lists))
    node: Node = stored(ColumnSource(table, name, kind, kind.depth, lists.starts))
    for own in reversed(lists.layouts):
        node = Ragged(node, own)
    return node


class ListSource(ColumnSource):
    """The values of lists, one after the other: how many there are is known when it is needed."""

    __slots__ = ("lists",)

    def __init__(self, lists: Lists, is_mask: bool = False) -> None:
        self.lists, self.table, self.name, self.is_mask = lists, lists.table, lists.name, is_mask
        self.dtype, self.depth = np.dtype(bool) if is_mask else lists.kind.dtype, lists.kind.depth
        self.has_gaps, self.nature = lists.kind.has_missing and not is_mask, lists.kind.nature

    def part_by_part(self, rows: np.ndarray, sources: Sequence[Any]) -> Iterator[np.ndarray] | None:
        """Yield the places of rows, by their numbers among those of the lists."""
        return super().part_by_part(rows + self.lists.rows.start, sources)

    def _begin(self, first: int, stop: int) -> int:
        """Return it below 0 if the run was kept for others, and begins before these lists."""
        own = self.lists.groups.start
        if first >= own:
            return int(self.starts[first])
        offsets = self.table.column(self.name, first, stop, ()).offsets
        assert offsets is not None
        return -int(offsets[self.table.starts[own] - self.table.starts[first]])

    def near(self, lists: Lists) -> ListSource:
        """Return the source of the same of other lists of the column."""
        return ListSource(lists, self.is_mask)

    def __reduce__(self) -> tuple[Any, ...]:
        return ListSource, (self.lists, self.is_mask)

    @property
    def present(self) -> Source | None:  # type: ignore[override]
        """What tells where the lists have values, None if no value is missing."""
        return ListSource(self.lists, True) if self.has_gaps else None

    starts = property(lambda self: self.lists.starts)
    shape = property(
        lambda self: (
            int(self.starts[-1]),
            *(self.lists.kind.mask_shape if self.is_mask else self.lists.kind.shape),
        )
    )
    chunk_rows = property(lambda self: chunk_rows(self.table, self.starts))
