"""Columns of tables in files, of which some rows, a group, are read together.

A format has a `Table`, which reads columns of some groups; what is kept of these is here.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeAlias, cast
from weakref import WeakValueDictionary

import numpy as np

from dataview.formats.tables.late_values import Filled, LateValues
from dataview.index.locks import new_lock
from dataview.plan.fields import OF_TYPES, OF_VALUES
from dataview.plan.operations import is_present, may_be_missing

Name: TypeAlias = tuple[str, ...]
"""The name of a column: that of a member of records has the names of these before it."""

COLUMN_BYTES = 1 << 10
"""About what a column of some groups takes beside its values."""

JOINED_ROWS = 1 << 17
"""So many rows of small groups are read at once: more are done with before others are read."""

RUN_BYTES = 1 << 11
"""About so much memory is taken by groups of which nothing is kept."""

GROUP_BYTES = 100
"""About so much more is taken by each of these groups."""

WEIGHED = 1000
"""So many texts are looked at to find out how much memory all of a column take."""


class Column(NamedTuple):
    """The values of some rows, and which of them there are; None if there are all.

    `present` has a truth value for each row, or for each element of a column of more axes.
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
        if isinstance(self.values, LateValues):
            return self if self.present is None else Column(Filled(self.values, self.present, fill))
        has_lists = self.values.ndim > 1 and tells_missing(self.values.dtype)
        if self.present is None and not has_lists:
            return self
        values = self.values.copy()
        if self.present is not None:
            values[~self.present] = fill
        if has_lists:  # of one length: what is missing inside of them tells it itself
            values[~is_present(values)] = fill
        return Column(values)


def _bytes_of_objects(values: np.ndarray | LateValues | Column) -> int:
    """Return about how much memory the objects in an array take."""
    if not isinstance(values, np.ndarray) or not values.dtype.hasobject or not values.size:
        return 0
    some = values.reshape(-1)[:: -(-values.size // WEIGHED)].tolist()
    return sum(map(sys.getsizeof, some)) * values.size // len(some)


NOTHING = "nothing"
"""The nature of a column of a type that has no values."""


SCALARS = (np.ndarray, np.generic)
"""What NumPy has of values, which attributes of files are."""


class Kind(NamedTuple):
    """What the values of a column are; `depth` counts lists inside lists.

    `nature` says in words what they are beside their dtype: columns of other natures have nothing
    in common.  `nothing` stands where there is no value, None for what is usual for the dtype.
    `lacks_elements` is true if elements of a row of more axes may be missing, and not only rows.
    `meaning` is what metadata say of each value: see `meant`.  `seen` says what the cells of a text
    were, of which all this was made: see `texts/cells`.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()
    depth: int = 0
    has_missing: bool = False
    nature: str = ""
    nothing: Any = None
    lacks_elements: bool = False
    meaning: str = ""
    seen: int = 0

    def meant(self, meta: Mapping[str, Any]) -> Kind:
        """Return the same with what metadata say of each value, beside its nature.

        >>> Kind(np.dtype("f4")).meant({"unit": "km", "title": "roads"}).meaning
        "unit='km'"
        """
        names = OF_VALUES if not self.nature else OF_VALUES[len(OF_TYPES) :]
        told = [(name, meta[name]) for name in names if meta.get(name) is not None]
        plain = [(name, v.tolist() if isinstance(v, SCALARS) else v) for name, v in told]
        return self._replace(meaning=", ".join(f"{name}={value!r}" for name, value in plain))

    @property
    def mask_shape(self) -> tuple[int, ...]:
        """The axes of the mask behind the rows."""
        return self.shape if self.lacks_elements else ()


def tells_missing(dtype: np.dtype[Any]) -> bool:
    """Whether values tell that they are missing, in lists of one length; NaN may be a number.

    >>> tells_missing(np.dtype("M8[s]")), tells_missing(np.dtype(float))
    (True, False)
    """
    return may_be_missing(dtype) and dtype.kind not in "fc"


def mask_of(present: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray:
    """Return where a column has values as a mask of rows, or of elements, as a shape says."""
    if present is None:
        return np.ones(shape, bool)
    if present.ndim > len(shape):
        return np.asarray(present.all(axis=tuple(range(len(shape), present.ndim))))
    inner = (1,) * (len(shape) - present.ndim)
    return np.broadcast_to(present.reshape(present.shape + inner), shape) if inner else present


def _is_told(column: Column) -> bool:
    """Whether the values of a column tell themselves which of them are missing."""
    return not isinstance(column.values, Column) and may_be_missing(column.values.dtype)


def tidy(column: Column) -> Column:
    """Return a column of lists such that a list is missing, too, if a value is that cannot tell it.

    NaN, NaT and None tell it themselves.
    """
    inner = column.values
    if not isinstance(inner, Column):
        return column
    assert column.offsets is not None
    inner = tidy(inner)
    if inner.present is not None and not _is_told(inner) and not inner.present.all():
        rows = mask_of(inner.present, (len(inner.present),))
        lacking = np.concatenate([[0], np.cumsum(~rows)])
        whole = lacking[column.offsets[1:]] == lacking[column.offsets[:-1]]
        present = whole if column.present is None else column.present & whole
        return Column(inner, present, column.offsets)
    return Column(inner, column.present, column.offsets)


_Reading: TypeAlias = "Future[Mapping[Name, Column]]"
"""Columns that a thread reads, for which others wait."""


class Table(ABC):
    """The columns of a file, read by groups: group k has the rows from `starts[k]` on.

    `reads_rows` is true if reading one column passes over the others too: then those that were
    asked for together are read together, and as many more of `names` as were asked for one by one.
    Of what was read `kept_bytes` are kept: rows in no order come from the same groups again.
    `texts_unite` is true if a union of columns of several natures is one of texts.
    `joins_groups` is true if groups are so small that a run of them is read at once, of no more
    than `most_joined`.  `has_arrays` is true if the values of groups are arrays, of which rows are
    taken in any order.
    """

    reads_rows = False
    has_arrays = False
    joins_groups = False
    texts_unite = False
    most_joined = 256
    kept_bytes = 32 << 20
    names: tuple[Name, ...] = ()
    part_rows: tuple[int, ...] = ()
    path = ""
    """The file that has the columns, if it is one."""

    def __init__(self, title: str, starts: np.ndarray) -> None:
        self.title, self.starts = title, starts
        self.fills: Mapping[Name, Any] = {}
        self._runs: OrderedDict[tuple[int, int], _Run] = OrderedDict()
        self._places: dict[int, tuple[int, int]] = {}  # of runs, by their numbers
        self._run_at: np.ndarray | None = None  # the number of the latest that has a group
        self._count = -1
        self._kept = 0
        self._likely: set[Name] = set()  # what was asked of the groups that were new latest
        self._lock = new_lock()
        self.lists: WeakValueDictionary[Name, Any] = WeakValueDictionary()

    @abstractmethod
    def read(self, names: Collection[Name], first: int, stop: int) -> Mapping[Name, Column]:
        """Return columns of the groups from `first` to before `stop`; threads call it together."""

    def runs(self, groups: range, name: Name) -> Iterator[tuple[int, int]]:
        """Yield runs of groups that have all of these, as a column is kept or will be read.

        What is kept may begin before the groups that are left, and end behind them.
        """
        start = groups.start
        while start < groups.stop:
            kept = self._kept_at(start, name)
            stop = start + 1
            if kept is not None:
                stop = kept[1]
            elif self.joins_groups and stop < groups.stop:
                rows = self.starts[start] + JOINED_ROWS
                few = int(self.starts.searchsorted(rows, side="right")) - 1
                even = start + self.most_joined - start % self.most_joined  # the same next time
                most = min(max(stop, few), even, groups.stop)
                stop = self._next_kept(stop, most, name)
            yield (start, stop) if kept is None else kept
            start = stop

    def _kept_at(self, group: int, name: Name) -> tuple[int, int] | None:
        """Return the run of groups around one of which a column is kept, None if there is none."""
        if self._run_at is None:
            return None
        place = self._places.get(self._run_at.item(group))
        run = None if place is None else self._runs.get(place)
        return None if run is None or name not in run.columns else place

    def _next_kept(self, start: int, stop: int, name: Name) -> int:
        """Return the first of some groups of which a column is kept, `stop` if there is none."""
        if self._run_at is None:
            return stop
        for group in (start + np.flatnonzero(self._run_at[start:stop] >= 0)).tolist():
            if self._kept_at(group, name) is not None:
                return group
        return stop

    def bounds(self, name: Name) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return the least and the greatest value of each group, and whether both are known."""
        return None

    def called(self, name: Name) -> str:
        """Return what errors call a column."""
        return f"column {'.'.join(name)!r}"

    def seen_in(self, name: Name) -> int:
        """Return what the cells of a column of text were; 0 if it is another one, or was given."""
        return 0

    def seen_as(self, seen: Mapping[Name, int]) -> Table:
        """Return the same rows, of which something else was seen; of most tables nothing is."""
        return self

    def named(self, name: Name) -> AbstractContextManager[object]:
        """Return what names the column in errors of values that are only made now."""
        return contextlib.nullcontext()

    def beside(
        self, name: Name, likely: Collection[Name], first: int, stop: int
    ) -> Collection[Name]:
        """Return which columns that may be asked for next are best read beside one now."""
        return likely

    @functools.cached_property
    def longest(self) -> int:
        """How many rows the longest group has."""
        return _longest(self.starts)

    def check(self) -> None:  # noqa: B027, what is in memory, or made, stays as it was
        """Raise if the file is another by now: also for rows that are kept of it."""

    def visits(self, order: np.ndarray | None) -> None:  # noqa: B027, most tables have no parts
        """Note in which order the parts will be read."""

    def turn(self, group: int) -> Any:
        """Return what tells when a group is read among others that are asked for together."""
        return group

    def part_by_part(
        self, rows: np.ndarray, names: Collection[Name]
    ) -> Iterator[np.ndarray] | None:
        """Yield the places of rows, those of a part at a time, once its columns are in memory.

        None stands for rows that are as well read at once.
        """
        return None

    def whole(self) -> Table | None:
        """Return the table of all parts if this one has a partition of them."""
        return None

    @property
    def is_closed(self) -> bool:
        """Whether the file was closed."""
        return False

    def close(self) -> None:
        """Keep nothing of the file; who has an open file closes it too."""
        with self._lock:
            self._runs.clear()
            self._places.clear()
            self._run_at = None
            self._kept = 0

    def column(self, name: Name, first: int, stop: int, names: Collection[Name] = ()) -> Column:
        """Return a column of some groups, read or kept; all these names will be asked for."""
        self.check()
        made: _Reading | None = None
        with self._lock:
            run, others = self._run_of(first, stop)
            found = run.columns.get(name)
            if found is None:
                likely = dict.fromkeys([*others, *self._behind(name, len(run.asked))])
                likely = dict.fromkeys(
                    names if len(names) > 1 else self.beside(name, likely, first, stop)
                )
                wanted = [name, *(one for one in likely if one != name and one not in run.columns)]
                made = Future()
                run.columns.update(dict.fromkeys(wanted, made))
            run.asked.add(name)
        try:
            if made is not None:
                return self._filled(run, made, wanted, first, stop)[name]
            return found.result()[name] if isinstance(found, Future) else cast(Column, found)
        except ValueError:
            if made is not None and (len(wanted) == 1 or len(names) > 1):
                raise
        finally:
            # An error knows this frame, which would keep what the error is about.
            del found, made, run
        # What is wrong may be in a column that was read beside it, and that nobody asks for here.
        return self.column(name, first, stop, names if len(names) > 1 else (name, name))

    def _filled(
        self, run: _Run, made: _Reading, wanted: Sequence[Name], first: int, stop: int
    ) -> Mapping[Name, Column]:
        """Return columns of some groups that are read now, and kept in their run."""
        try:
            read = dict(self.read(wanted, first, stop))
            for one in self.fills.keys() & read.keys():
                read[one] = read[one].with_fill(self.fills[one])
        except BaseException as error:
            with self._lock:
                for one in wanted:
                    del run.columns[one]
            made.set_exception(error)
            del made, run  # as above
            raise
        made.set_result(read)
        with self._lock:
            run.columns.update((one, read[one]) for one in wanted)  # fewer objects are kept so
            if self._runs.get((first, stop)) is run:  # it may have been forgotten meanwhile
                self._keep(run, sum(COLUMN_BYTES + read[one].nbytes for one in wanted))
        return read

    def _run_of(self, first: int, stop: int) -> tuple[_Run, Collection[Name]]:
        """Return what is kept of some groups, and what else is likely to be asked of them."""
        run, likely = self._runs.get((first, stop)), self._likely
        if run is None:
            run = self._runs[first, stop] = _Run()
            self._likely = run.asked
            if self.joins_groups:
                self._note(run, first, stop)
            self._keep(run, RUN_BYTES + GROUP_BYTES * (stop - first))
        self._runs.move_to_end((first, stop))
        return run, likely if self.reads_rows else ()

    def _note(self, run: _Run, first: int, stop: int) -> None:
        """Note of some groups that a run is the latest that has them."""
        if self._run_at is None:
            self._run_at = np.full(len(self.starts) - 1, -1, np.int32)
        run.number = self._count = self._count + 1
        self._places[run.number] = first, stop
        self._run_at[first:stop] = run.number

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
            place, old = self._runs.popitem(last=False)
            self._kept -= old.bytes
            if self._run_at is not None:
                own = self._run_at[slice(*place)]
                own[own == old.number] = -1
                self._places.pop(old.number, None)


def chunk_rows(table: Table, starts: np.ndarray) -> int:
    """Return how many rows are best read together: a group, or as many small ones as are joined."""
    most = table.longest if starts is table.starts else _longest(starts)
    return most * max(1, JOINED_ROWS // 2 // most) if table.joins_groups else most


def _longest(starts: np.ndarray) -> int:
    return max(1, int(np.diff(starts).max(initial=1)))


class _Run:
    """What was read of some groups, and the columns that were asked for."""

    __slots__ = ("asked", "bytes", "columns", "number")

    def __init__(self) -> None:
        self.asked: set[Name] = set()
        self.columns: dict[Name, Column | _Reading] = {}
        self.bytes, self.number = 0, -1
