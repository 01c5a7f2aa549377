"""Parts as one table: which are open, which are in memory, and which one is loaded ahead."""

from __future__ import annotations

import itertools
import os
import weakref
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from dataview.formats.handles import close
from dataview.formats.parts.ahead import Ahead
from dataview.formats.parts.columns import (
    ROWS,
    agreeing,
    columns_of,
    decoded,
    kind_of,
    labels_of,
    leaves_of,
    no_rows,
    read_as,
    recoded,
)
from dataview.formats.parts.counting import Counted, How, counted
from dataview.formats.parts.listing import File, file_at
from dataview.formats.tables import Column, Kind, Name, Table, Tables, is_of_codes, joined
from dataview.plan.node import Node
from dataview.sources import again, file_name, is_url, shown

MOST_OPEN = 2
"""So many parts are open: the one that is read, and the one that is loaded ahead."""


class PartFile(Table):
    """A part, which is opened when it is read."""

    reads_rows = True

    def __init__(
        self,
        path: str,
        file: File | None,
        rows: int,
        kinds: Mapping[Name, Kind],
        agreed: Mapping[Name, Kind],
        how: How,
    ) -> None:
        """Take what the columns of the part are, and what they are as all parts agree on it.

        `file` is what tells it from another one, None where that is not known of files here.
        """
        name = file_name(path) if is_url(path) else os.path.basename(path)
        super().__init__(name, np.array([0, rows], np.intp))
        self.path, self.file = path, file
        self.kinds, self.agreed, self.how = kinds, agreed, how
        self.texts_unite = how.format == "csv"
        self._node: Node | None = None
        self._read_as: Node | None = None  # the same, as all parts agree on it
        self.labels: Mapping[Name, list[object]] = {}
        """What the codes of all parts stand for."""

    def called(self, name: Name) -> str:
        """Return what errors call a column; an array has no name."""
        is_table = name != ROWS or self.how.may_have_gaps
        return super().called(name) if is_table else "the array"

    def read(self, names: Collection[Name], first: int, stop: int) -> Mapping[Name, Column]:
        """Return columns, or raise if the part is another one than when it was counted."""
        if not self.starts[-1]:
            return {name: no_rows(self.agreed[name]) for name in names}
        node = self._opened()
        leaves = dict(leaves_of(node))
        for name in names:
            kind = kind_of(leaves[name], name, shown(self.path)) if name in leaves else None
            if kind != self.kinds[name] or leaves[name].node.count != self.starts[-1]:
                raise self._changed()
        if any(kind.seen != self.kinds[name].seen for name, kind in self.agreed.items()):
            leaves = dict(leaves_of(self._as_agreed(node)))
        found = dict(zip(names, columns_of([leaves[name] for name in names]), strict=True))
        coded = [name for name in names if is_of_codes(self.kinds[name])]
        labels = labels_of(node) if coded else {}
        return found | {name: self._numbered(name, found[name], labels[name]) for name in coded}

    def _numbered(self, name: Name, codes: Column, own: list[object]) -> Column:
        """Return codes of labels of the part as those of all parts, or as what they stand for."""
        if not is_of_codes(self.agreed[name]):
            return decoded(codes, own, self.agreed[name])
        where = f"field {'.'.join(name)!r} of {shown(self.path)}"
        return recoded(codes, own, self.labels.get(name, []), self.agreed[name].dtype, where)

    def is_opened(self, node: Node) -> None:
        """Take the node of the part, which was opened already."""
        self._node = node

    def _opened(self) -> Node:
        with self._lock:
            if self._node is None:
                node = again(lambda _: self.how.open(self.path), shown(self.path))
                if self.file is not None and self.file != file_at(self.path, self.file.name):
                    raise self._changed()  # its rows may be as many as before
                self._node = node
            return self._node

    def _changed(self) -> ValueError:
        return ValueError(
            f"{shown(self.path)} has changed since its rows were counted; open the folder again"
        )

    def _as_agreed(self, node: Node) -> Node:
        with self._lock:
            if self._read_as is None:
                self._read_as = read_as(node, self.agreed)
            return self._read_as

    def let_go(self) -> None:
        """Close the part as soon as nobody reads it."""
        self._node = self._read_as = None

    def begin_anew(self) -> None:
        """Do without what another process has opened."""
        self._node = self._read_as = None

    def close(self) -> None:
        """Close the part."""
        with self._lock:
            node, self._node, self._read_as = self._node, None, None
        if node is not None:
            close(node)


class PartsTable(Tables):
    """All parts as one table, each of which is a group of rows that are read together."""

    parts: list[tuple[PartFile, Mapping[Name, Kind]]]
    has_arrays = True

    def __init__(self, these: Counted, how: How) -> None:
        listing = these.listing
        schema = how.joined_by(are_counted=False)
        agreed = agreeing(these.schemas, schema, these.labels)

        is_here = not any(is_url(listing.path_of(file)) for file in listing.files)

        def part(file: File, rows: int, which: int) -> tuple[PartFile, Mapping[Name, Kind]]:
            own, path = agreed[which], listing.path_of(file)
            dated = file if is_here else None
            return PartFile(path, dated, rows, these.schemas[which], own, how), own

        files = [*map(part, listing.files, these.rows, these.which)]
        folder = shown(listing.folder)
        models = [part(one, 0, which) for which, one in enumerate(these.models)]
        _, together = joined(folder, models, schema)
        super().__init__(f"parts in {os.path.basename(folder.rstrip('/'))}", files, together)
        self.these, self.how = these, how
        self.kept_bytes = how.kept_bytes
        self.part_rows = these.rows
        self._open: OrderedDict[int, PartFile] = OrderedDict()
        self.ahead = Ahead(len(files))
        self._room = 0
        self._latest: int | None = None
        self.asked: set[Name] = set()
        """The columns that were asked for, by name."""
        _tables.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.these, self.how, self.fills, self.names, self.parts[0][0].labels)

    def called(self, name: Name) -> str:
        """Return what errors and displays call a column."""
        return self.parts[0][0].called(name)

    def number_alike(self, labels: Mapping[Name, list[object]]) -> None:
        """Have the codes of all parts stand for these labels."""
        for file, _ in self.parts:
            file.labels = labels

    def begin_anew(self) -> None:
        """Forget what threads of another process may have been doing."""
        self._runs.clear()
        self._kept = 0
        self._open.clear()
        self.ahead.begin_anew()
        for file, _ in self.parts:
            file.begin_anew()

    def visits(self, order: np.ndarray | None) -> None:
        """Note in which order the parts will be read."""
        self.ahead.visits(order)

    def turn(self, group: int) -> tuple[bool, int]:
        """Return when a part is read among others: after the one read last, and in their order.

        So the last rows of a part are read before the first ones of the next part need the room.
        """
        return group != self._latest, self.ahead.turn(group)

    def part_by_part(
        self, rows: np.ndarray, names: Collection[Name]
    ) -> Iterator[np.ndarray] | None:
        """Yield the places of rows, those of a part at a time, once its columns are in memory.

        None is returned where all parts that have any of the rows are in memory: for lists all
        parts of the table, since where a list begins follows from the parts before it.
        """
        groups = self.starts.searchsorted(rows, side="right") - 1
        parts: list[int] = np.unique(groups).tolist()
        if len(parts) > 1 and any(self.kinds[name].depth for name in names):
            needed = np.flatnonzero(self.part_rows).tolist()
        else:
            needed = parts
        if all(self.are_there(part, names) for part in needed):
            return None
        return self._turns(sorted(parts, key=self.turn), groups, names)

    def _turns(
        self, parts: Collection[int], groups: np.ndarray, names: Collection[Name]
    ) -> Iterator[np.ndarray]:
        name = next(iter(names))
        try:
            for part, behind in itertools.pairwise([*parts, None]):
                assert part is not None
                self.ahead.reads_part(part, names, behind)
                if self.ahead.is_coming(part):
                    self.ahead.noted(part, name, self, self._room)
                super().column(name, part, part + 1, names)
                yield np.flatnonzero(groups == part)
        finally:
            self.ahead.reads_part(None)

    def whole(self) -> PartsTable | None:
        """Return the table of all parts, if these are a partition."""
        if self.how.partition is None:
            return None
        how = self.how._replace(partition=None)
        found = counted(how, how.listed())
        assert found is not None
        several = len(how.first_of(found[0].listing).files)
        table = PartsTable(found[0].only(range(several)), how)
        table.number_alike({**self.parts[0][0].labels, **found[0].labels})
        return table

    def column(self, name: Name, first: int, stop: int, names: Collection[Name] = ()) -> Column:
        """Return a column of a part, and perhaps begin to load the part that comes next."""
        self.how.opening.check()
        self.asked.add(name)
        self._latest = first
        if len(names) > 1:
            self.ahead.expect(first, names)
        is_coming = self.ahead.is_coming(first)
        if is_coming:  # the thread need not wait until this one has found that its part is there
            self.ahead.noted(first, name, self, self._room)
        found = super().column(name, first, stop, names)
        run = self._runs.get((first, stop))
        if run is not None:
            self._room = self.kept_bytes // max(1, run.bytes)
        if not is_coming:
            self.ahead.noted(first, name, self, self._room)
        return found

    def are_there(self, part: int, names: Collection[Name]) -> bool:
        """Whether columns of a part are in memory."""
        run = self._runs.get((part, part + 1))
        return run is not None and all(name in run.columns for name in names)

    def load(self, part: int, names: Collection[Name]) -> None:
        """Load columns of a part, in a thread."""
        try:
            for name in names:
                if self.how.opening.is_closed:
                    return
                super().column(name, part, part + 1, names)
        except MemoryError:
            raise
        except (Exception, KeyboardInterrupt):  # Ctrl-C ended a thread that read the part for both
            return  # it is read again when it is needed, and fails there

    def read(self, names: Collection[Name], first: int, stop: int) -> Mapping[Name, Column]:
        """Return columns of a part; the parts that were read longest ago make room."""
        file, kinds = self.parts[first]
        own = [self.kinds[name] for name in names if name in kinds]
        self._make_room(sum(kind.dtype.itemsize * _size(kind) for kind in own) * file.starts[-1])
        with self._lock:
            self._open[first] = file
            self._open.move_to_end(first)
            gone = [*self._open][:-MOST_OPEN]
            for number in gone:
                self._open.pop(number).let_go()
        alone = Tables(self.title, self.parts[first:stop], self.kinds)  # does not look at all parts
        return alone.read(names, 0, 1)

    def _make_room(self, size: int) -> None:
        with self._lock:
            while self._kept + size > self.kept_bytes and len(self._runs) > 1:
                self._kept -= self._runs.popitem(last=False)[1].bytes

    @property
    def is_closed(self) -> bool:
        """Whether the folder was closed."""
        return self.how.opening.is_closed

    def close(self) -> None:
        """Have all views say that the folder is closed; a thread that loads a part ends."""
        self.how.opening.close()
        self.ahead.join()
        super().close()


def _restored(
    these: Counted,
    how: How,
    fills: Mapping[Name, Any],
    names: tuple[Name, ...],
    labels: Mapping[Name, list[object]],
) -> PartsTable:
    """Return a table that was pickled."""
    table = PartsTable(these, how)
    table.fills, table.names = dict(fills), names
    table.number_alike(labels)
    return table


def _size(kind: Kind) -> int:
    """Return about how many values a row has."""
    return int(np.prod(kind.shape, dtype=np.int64))


_tables: weakref.WeakSet[PartsTable] = weakref.WeakSet()


def _begin_anew() -> None:
    for table in [*_tables]:
        table.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
