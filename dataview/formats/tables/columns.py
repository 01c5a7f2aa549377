"""Columns of tables in files, of which some rows, a group, are read together.

A format has a `Table`, which reads columns of some groups; the rest is here: which groups a key
needs, what is kept of them, rows of different lengths, and what is missing.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from dataview.formats.contents import described
from dataview.formats.tables.fills import fills_of
from dataview.formats.tables.late_values import Filled, LateValues
from dataview.formats.tables.lists import LateLayout, Lists
from dataview.index import Affine, Constant, Index, gather, is_identity
from dataview.plan.build import record, stored
from dataview.plan.fields import Fields, Unread, check_name
from dataview.plan.gaps import own_columns, put_mask
from dataview.plan.kinds import LateStored
from dataview.plan.node import Node
from dataview.plan.operations import may_be_missing
from dataview.plan.ragged import Ragged
from dataview.sources import Memo, Source

Name: TypeAlias = tuple[str, ...]
"""The name of a column: that of a member of records has the names of these before it."""

COLUMN_BYTES = 1 << 10
"""About what a column of some groups takes beside its values."""

JOINED_ROWS = 1 << 17
"""So many rows of small groups are read at once: more are done with before others are read."""

RUN_BYTES = 1 << 11
"""About so much memory is taken by groups of which nothing is kept."""

WEIGHED = 1000
"""So many texts are looked at to find out how much memory all of a column take."""


class Column(NamedTuple):
    """The values of some rows, and which of them there are; None if there are all.

    Where each row is a list, `values` has those of all lists, and list i has the values from
    `offsets[i]` to `offsets[i + 1]`.
    """

    values: np.ndarray | LateValues | Column
    present: np.ndarray | None = None
    offsets: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        own = (part.nbytes for part in (self.present, self.offsets) if part is not None)
        return self.values.nbytes + sum(own) + _bytes_of_objects(self.values)

    def with_fill(self, fill: Any) -> Column:
        """Return the same values with another one where there are none."""
        if isinstance(self.values, Column):
            return self._replace(values=self.values.with_fill(fill))
        if self.present is None:
            return self
        if isinstance(self.values, LateValues):
            return Column(Filled(self.values, self.present, fill))
        values = self.values.copy()
        values[~self.present] = fill
        return Column(values)


def _bytes_of_objects(values: np.ndarray | LateValues | Column) -> int:
    """Return about how much memory the objects in an array take."""
    if not isinstance(values, np.ndarray) or not values.dtype.hasobject or not values.size:
        return 0
    some = values.reshape(-1)[:: -(-values.size // WEIGHED)].tolist()
    return sum(map(sys.getsizeof, some)) * values.size // len(some)


class Kind(NamedTuple):
    """What the values of a column are; `depth` counts lists inside lists.

    `nature` says in words what they are beside their dtype: columns of other natures have nothing
    in common.  `nothing` stands where there is no value, None for what is usual for the dtype.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()
    depth: int = 0
    has_missing: bool = False
    nature: str = ""
    nothing: Any = None


class Table(ABC):
    """The columns of a file, read by groups: group k has the rows from `starts[k]` on.

    `reads_rows` is true if reading one column passes over the others too: then those that were
    asked for together are read together, and as many more of `names` as were asked for one by one.
    Of what was read `kept_bytes` are kept: rows in no order come from the same groups again.
    `joins_groups` is true if groups are so small that a run
    of them is read at once, of no more than `most_joined`.
    """

    reads_rows = False
    joins_groups = False
    most_joined = 256
    kept_bytes = 32 << 20
    names: tuple[Name, ...] = ()

    def __init__(self, title: str, starts: np.ndarray) -> None:
        self.title, self.starts = title, starts
        self.fills: Mapping[Name, Any] = {}
        self._runs: OrderedDict[tuple[int, int], _Run] = OrderedDict()
        self._kept = 0
        self._lock = threading.Lock()

    @abstractmethod
    def read(self, names: Collection[Name], first: int, stop: int) -> Mapping[Name, Column]:
        """Return columns of the groups from `first` to before `stop`; threads call it together."""

    def runs(self, groups: range) -> Iterator[tuple[int, int]]:
        """Return groups that follow one another as they are read: together or one by one."""
        start = groups.start
        while start < groups.stop:
            stop = start + 1
            if self.joins_groups:
                rows = self.starts[start] + JOINED_ROWS
                few = int(self.starts.searchsorted(rows, side="right")) - 1
                stop = min(max(stop, few), start + self.most_joined, groups.stop)
            yield start, stop
            start = stop

    def bounds(self, name: Name) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return the least and the greatest value of each group, and whether both are known."""
        return None

    def named(self, name: Name) -> AbstractContextManager[object]:
        """Return what names the column in errors of values that are only made now."""
        return contextlib.nullcontext()

    def close(self) -> None:
        """Keep nothing of the file; who has an open file closes it too."""
        with self._lock:
            self._runs.clear()
            self._kept = 0

    def column(self, name: Name, first: int, stop: int) -> Column:
        """Return a column of some groups, read or kept."""
        with self._lock:
            run, others = self._run_of(first, stop)
            found = run.columns.get(name)
            if found is None:
                likely = dict.fromkeys([*others, *self._behind(name, len(run.asked))])
                wanted = [name, *(one for one in likely if one != name and one not in run.columns)]
                made: Future[Mapping[Name, Column]] = Future()
                run.columns.update(dict.fromkeys(wanted, made))
            run.asked.add(name)
        if found is not None:
            return found.result()[name] if isinstance(found, Future) else found
        try:
            read = dict(self.read(wanted, first, stop))
            for one in self.fills.keys() & read.keys():
                read[one] = read[one].with_fill(self.fills[one])
        except BaseException as error:
            with self._lock:
                for one in wanted:
                    del run.columns[one]
            made.set_exception(error)
            raise
        made.set_result(read)
        with self._lock:
            run.columns.update((one, read[one]) for one in wanted)  # fewer objects are kept so
            if self._runs.get((first, stop)) is run:  # it may have been forgotten meanwhile
                self._keep(run, sum(COLUMN_BYTES + read[one].nbytes for one in wanted))
        return read[name]

    def _run_of(self, first: int, stop: int) -> tuple[_Run, Collection[Name]]:
        """Return what is kept of some groups, and what else is likely to be asked of them."""
        latest = next(reversed(self._runs.values()), None)
        run = self._runs.get((first, stop))
        if run is None:
            run = self._runs[first, stop] = _Run()
            self._keep(run, RUN_BYTES)
        self._runs.move_to_end((first, stop))
        return run, latest.asked if self.reads_rows and latest is not None else ()

    def _behind(self, name: Name, count: int) -> tuple[Name, ...]:
        """Return so many names that stand behind one, if their columns are read as cheaply."""
        if not count or not self.reads_rows or name not in self.names:
            return ()
        place = self.names.index(name) + 1
        return self.names[place : place + count]

    def _keep(self, run: _Run, size: int) -> None:
        """Note what is kept, and forget the groups that were asked for longest ago."""
        run.bytes += size
        self._kept += size
        while self._kept > self.kept_bytes and len(self._runs) > 1:
            self._kept -= self._runs.popitem(last=False)[1].bytes


class _Run:
    """What was read of some groups, and the columns that were asked for."""

    __slots__ = ("asked", "bytes", "columns")

    def __init__(self) -> None:
        self.asked: set[Name] = set()
        self.columns: dict[Name, Column | Future[Mapping[Name, Column]]] = {}
        self.bytes = 0


_FIRST = Constant(0)


class ColumnSource(Source):
    """A column of a table: its values, or where there are any if `is_mask`.

    At a depth the values are those of lists; `starts` then counts the values before each group.
    """

    __slots__ = (
        "chunk_rows", "depth", "dtype", "has_gaps", "is_mask", "name", "shape", "starts", "table",
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
        self.has_gaps = kind.has_missing and not depth and not is_mask
        self.dtype = np.dtype(bool) if is_mask else kind.dtype
        self.shape = (int(self.starts[-1]), *(() if is_mask else kind.shape))
        self.chunk_rows = _chunk_rows(table, self.starts)

    def __reduce__(self) -> tuple[Any, ...]:
        kind = Kind(self.dtype, self.shape[1:], has_missing=self.has_gaps)
        starts = None if self.starts is self.table.starts else self.starts
        return ColumnSource, (self.table, self.name, kind, self.depth, starts, self.is_mask)

    @property
    def present(self) -> Source | None:  # type: ignore[override]
        """The mask of the column, if it has gaps of which its values do not tell."""
        if not self.has_gaps or may_be_missing(self.dtype):
            return None
        return ColumnSource(self.table, self.name, Kind(self.dtype), is_mask=True)

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return what an index selects, of the groups that have any of it."""
        rows = index.maps[0]
        if isinstance(rows, Constant):
            block = self._rows(rows.offset, rows.offset + 1)
            return np.array(gather.read(block, Index(index.shape, (_FIRST, *index.maps[1:]))))
        if isinstance(rows, Affine) and len(rows.strides) == 1 and rows.strides[0][1] == 1:
            axis = rows.strides[0][0]
            block = self._rows(rows.offset, rows.offset + index.shape[axis])
            line = Affine(0, ((axis, 1),))
            within = Index(index.shape, (line, *index.maps[1:]))
            whole = is_identity(within, block.shape)
            return block if whole else np.array(gather.read(block, within))
        return np.asarray(gather.by_rows(index, self._at))

    def _rows(self, start: int, stop: int) -> np.ndarray:
        """Return the rows from `start` to before `stop`, in a new array."""
        if start >= stop:
            return np.empty((0, *self.shape[1:]), self.dtype)
        first = int(self.starts.searchsorted(start, side="right")) - 1
        last = int(self.starts.searchsorted(stop, side="left"))
        found, done = None, 0
        for one, behind in self.table.runs(range(first, last)):
            begin = int(self.starts[one])
            values = self._group(one, behind)
            part = self._some(values, slice(max(0, start - begin), stop - begin))
            if len(part) == stop - start:
                return part.copy() if isinstance(values, np.ndarray) else part
            if found is None:  # a file may say that it has more rows than memory: read it first
                found = np.empty((stop - start, *self.shape[1:]), self.dtype)
            found[done : done + len(part)] = part
            done += len(part)
        assert found is not None
        return found

    def _at(self, places: np.ndarray) -> np.ndarray:
        """Return the rows at some places, which ascend."""
        found = np.empty((len(places), *self.shape[1:]), self.dtype)
        groups = self.starts.searchsorted(places, side="right") - 1
        groups = groups[np.concatenate([[True], groups[1:] != groups[:-1]])[: len(groups)]]
        breaks = np.flatnonzero(np.diff(groups) > 1) + 1
        for part in np.split(groups, breaks) if len(groups) else ():
            for first, stop in self.table.runs(range(int(part[0]), int(part[-1]) + 1)):
                low, high = places.searchsorted(self.starts[[first, stop]]).tolist()
                rows = places[low:high] - self.starts[first]
                found[low:high] = self._some(self._group(first, stop), rows)
        return found

    def _some(self, values: np.ndarray | LateValues, rows: slice | np.ndarray) -> np.ndarray:
        """Return some rows of values, which may be made only now."""
        try:
            return values[rows]
        except Exception:
            with self.table.named(self.name):
                raise

    def _group(self, first: int, stop: int) -> np.ndarray | LateValues:
        """Return the values of some groups."""
        column = self.table.column(self.name, first, stop)
        for _ in range(self.depth):
            column = cast(Column, column.values)
        if not self.is_mask:
            return cast("np.ndarray | LateValues", column.values)
        count = int(self.starts[stop] - self.starts[first])
        return np.ones(count, bool) if column.present is None else column.present

    def bounds(self) -> Any:
        """Return the least and the greatest value of each group, with where groups start."""
        is_plain = not self.is_mask and not self.depth and len(self.shape) == 1
        found = self.table.bounds(self.name) if is_plain else None
        return None if found is None else (self.starts, *found)

    def is_same(self, other: Source) -> bool:
        """Whether another source is of the same column, or mask, of the same table."""
        if not isinstance(other, ColumnSource) or self.table is not other.table:
            return False
        ours = (self.name, self.depth, self.is_mask)
        return ours == (other.name, other.depth, other.is_mask)

    def close(self) -> None:
        """Close the file of the table."""
        self.table.close()

    def describe(self) -> str:
        """Say which column it is."""
        return f"column {'.'.join(self.name)!r} of {self.table.title}"


def _chunk_rows(table: Table, starts: np.ndarray) -> int:
    """Return how many rows are best read together: a group, or as many small ones as are joined."""
    most = max(1, int(np.diff(starts).max(initial=1)))
    return most * max(1, JOINED_ROWS // 2 // most) if table.joins_groups else most


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
    of lists it stands for values, and the mask tells which lists are missing.  `metas` are
    metadata of columns, and `lost` says of some why they cannot be viewed.
    """
    table.fills = fills_of(fill, kinds, table.title)
    table.names = tuple(kinds)
    kinds = {
        name: kind._replace(has_missing=False) if name in table.fills and not kind.depth else kind
        for name, kind in kinds.items()
    }
    nodes = {
        name: described(column_node(table, name, kind), metas.get(name, NO_META))
        for name, kind in kinds.items()
    }
    masks = {
        name: stored(ColumnSource(table, name, kind, is_mask=True))
        for name, kind in kinds.items()
        if kind.has_missing
    }
    return nested(nodes, masks, lost)


def nested(nodes: Mapping[Name, Node], masks: Mapping[Name, Node], lost: Mapping[str, str]) -> Node:
    """Return the record of columns by their names, with masks beside those that have one."""
    parts: dict[str, Any] = {}
    for name, node in nodes.items():
        _place(parts, name)[name[-1]] = node
    for name, node in masks.items():
        put_mask(_place(parts, name), name[-1], node)
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
        return Ragged(values, LateLayout(lists, int(table.starts[-1])))
    node: Node = stored(ColumnSource(table, name, kind, kind.depth, lists.starts))
    for own in reversed(lists.layouts):
        node = Ragged(node, own)
    return node


class ListSource(ColumnSource):
    """The values of lists, one after the other: how many there are is known when it is needed."""

    __slots__ = ("lists",)

    def __init__(self, lists: Lists) -> None:
        self.lists, self.table, self.name = lists, lists.table, lists.name
        self.dtype, self.depth, self.is_mask = lists.kind.dtype, lists.kind.depth, False
        self.has_gaps = False

    def __reduce__(self) -> tuple[Any, ...]:
        return ListSource, (self.lists,)

    starts = property(lambda self: self.lists.starts)
    shape = property(lambda self: (int(self.starts[-1]), *self.lists.kind.shape))
    chunk_rows = property(lambda self: _chunk_rows(self.table, self.starts))
