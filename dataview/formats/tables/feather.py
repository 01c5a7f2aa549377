"""Arrow's own files, which Feather's are too, and its streams: mapped, and read where they lie.

Of packed batches the columns that are asked for are unpacked.  How many rows a batch has stands in
its head, which pyarrow does not show: so heads are looked up in the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.errors import import_library
from dataview.formats.tables.arrow import arrow, leaves_of, text_meta
from dataview.formats.tables.arrow_tables import (
    MOST_TIMES,
    MOST_UNPACKED,
    ArrowTable,
    check_names,
    starts_of,
    too_large,
)
from dataview.formats.tables.arrow_values import lacks_elements
from dataview.formats.tables.columns import Name
from dataview.index.locks import new_lock
from dataview.plan.gaps import PRESENT
from dataview.sources import open_regular

GROUP_ROWS = 1 << 16
GROUP_ROWS_OF_LISTS = 1 << 10
"""So many rows of a batch that is not packed are converted together; lists have many values."""

_FILE, _FEATHER_1 = b"ARROW1", b"FEA1"


class Head(NamedTuple):
    """What the head of a batch says: how many rows there are, and how many values are missing.

    `buffers` are the places and sizes of its data.
    """

    rows: int
    is_packed: bool
    missing: list[int]
    buffers: list[tuple[int, int]]


def _missing(fields: Sequence[Any], heads: Sequence[Head]) -> set[Name]:
    """Return the leaves of which a value is missing: heads count that for each type in a tree."""
    owners = [names for field in fields for names in _owners(field.type, (field.name,))]
    if any(len(head.missing) != len(owners) for head in heads):
        raise ValueError("its batches do not fit its schema")
    counts = np.array([head.missing for head in heads]).reshape(-1, len(owners))
    return {name for number in np.flatnonzero(counts.any(axis=0)) for name in owners[number]}


def _owners(kind: Any, name: Name) -> list[set[Name]]:
    """Return, for each type in a tree, the leaves at or below it."""
    pyarrow = arrow()
    if isinstance(kind, pyarrow.BaseExtensionType):
        return _owners(kind.storage_type, name)
    if pyarrow.types.is_dictionary(kind) or not kind.num_fields:
        return [{name}]
    below = [kind.field(number) for number in range(kind.num_fields)]
    is_named = pyarrow.types.is_struct(kind)
    found = [
        one
        for part in below
        for one in _owners(part.type, (*name, part.name) if is_named else name)
    ]
    own: set[Name] = {(*name, PRESENT)} if is_named else set()
    return [own.union(*found), *found]


class FeatherTable(ArrowTable):
    """A file or a stream of Arrow, which is mapped."""

    joins_groups = True

    def load(self) -> np.ndarray:
        """Read the schema and the heads of the batches."""
        self._lock_of_batches = new_lock()
        self._batches: dict[int, Any] = {}
        self._sound: set[tuple[str, int]] = set()
        """The columns of groups that were found to be sound: that takes long for texts."""
        with open_regular(self.path) as file:
            start = file.read(8)
        if start.startswith(_FEATHER_1):
            raise ValueError(
                "it is of the old version 1 of Feather; pyarrow.feather.read_table reads it, and "
                "write_feather writes one of version 2"
            )
        if not start:
            raise ValueError("it is empty")
        self._data: Any = arrow().memory_map(self.path).read_buffer()
        self.is_file = start.startswith(_FILE)
        schema = self._opened().schema
        check_names(schema.names)
        raw = memoryview(self._data)
        try:
            self.heads = list((_heads_in_file if self.is_file else _heads_in_stream)(raw))
        except struct.error as error:
            raise ValueError(f"it is cut short or broken: {error}") from None
        self.is_packed = any(head.is_packed for head in self.heads)
        missing = _missing(list(schema), self.heads)
        self.numbers = {field.name: number for number, field in enumerate(schema)}
        self.leaves, self.lost, _ = leaves_of(
            list(schema), lambda name, _: name in missing, self._lacks_elements, schema.metadata
        )
        self.meta = text_meta(schema.metadata)
        lengths = starts_of([head.rows for head in self.heads])
        self.pieces = list(self._pieces(np.diff(lengths).tolist()))
        return starts_of([rows for _, _, rows in self.pieces])

    def _lacks_elements(self, name: Name, *_: Any) -> bool:
        """Whether elements of lists of one length are missing, which heads do not tell."""
        for number in range(len(self.heads)):
            column = self._batch(number, [self.numbers[name[0]]]).column(name[0])
            column.validate(full=True)
            if lacks_elements(column, name):
                return True
        return False

    def _pieces(self, lengths: list[int]) -> Iterator[tuple[int, int, int]]:
        """Yield the groups of rows: the number of the batch, where they begin there, how many."""
        kinds = [leaf.kind for leaf in self.leaves.values()]
        step = GROUP_ROWS_OF_LISTS if any(kind.depth for kind in kinds) else GROUP_ROWS
        for number, length in enumerate(lengths):
            if self.is_packed or not length:
                yield number, 0, length
                continue
            most = max(step, length >> 12)
            for start in range(0, length, most):
                yield number, start, min(most, length - start)

    def _opened(self, columns: list[int] | None = None) -> Any:
        """Return a reader of the file that reads some columns."""
        ipc = import_library("pyarrow.ipc", "dataview[arrow]")
        options = ipc.IpcReadOptions(included_fields=columns, use_threads=False)
        return (ipc.open_file if self.is_file else ipc.open_stream)(self._data, options=options)

    def arrays(self, names: Collection[Name], first: int, stop: int) -> Any:
        """Return columns of some groups of rows."""
        pyarrow = arrow()
        own = list(dict.fromkeys(name[0] for name in names))
        numbers = [self.numbers[name] for name in own]
        parts = []
        for number, (start, rows) in self._by_batch(first, stop).items():
            parts.append(self._batch(number, numbers).select(own).slice(start, rows))
        found = pyarrow.Table.from_batches(parts)
        for name, column in zip(own, found.columns, strict=True):
            pieces = {(name, number) for number in range(first, stop)}
            if not pieces <= self._sound:
                column.validate(full=not pyarrow.types.is_primitive(column.type))
                self._sound |= pieces
        return found

    def _by_batch(self, first: int, stop: int) -> dict[int, tuple[int, int]]:
        """Return the batches of some groups, and of each where rows begin and how many."""
        runs: dict[int, tuple[int, int]] = {}
        for number, start, rows in self.pieces[first:stop]:
            begin, have = runs.get(number, (start, 0))
            runs[number] = begin, have + rows
        return runs

    def _batch(self, number: int, columns: list[int]) -> Any:
        """Return a batch that has some columns at least."""
        with self._lock_of_batches:
            if self._data is None:
                self.opening.check()
            if self.is_packed:
                self._check_size(self.heads[number])
                return self._packed(number, sorted(columns))
            if number not in self._batches:
                self._fill(number)
            return self._batches[number]

    def _fill(self, number: int) -> None:
        """Keep a batch, which takes no memory as it is part of the file; of a stream all."""
        reader = self._opened()
        if self.is_file:
            self._batches[number] = reader.get_batch(number)
        else:
            self._batches.update(enumerate(reader))

    def _check_size(self, head: Head) -> None:
        """Raise if a few bytes would be unpacked to very many."""
        raw = memoryview(self._data)
        for place, size in head.buffers:
            if size and not 0 <= place <= len(raw) - _LONG.size:
                raise ValueError("a part of a batch lies outside of it")
            unpacked = _LONG.unpack_from(raw, place)[0] if size else 0
            if unpacked > max(MOST_UNPACKED, MOST_TIMES * size):
                raise ValueError(too_large(size, unpacked))

    def _packed(self, number: int, columns: list[int]) -> Any:
        reader = self._opened(columns)
        if self.is_file:
            return reader.get_batch(number)
        return next(batch for place, batch in enumerate(reader) if place == number)

    def close(self) -> None:
        """Have all views of the file say that it is closed."""
        super().close()
        with self._lock_of_batches:
            self._batches.clear()
            self._data = None


# --- the heads of batches ------------------------------------------------------------------------

_INT, _LONG = struct.Struct("<i"), struct.Struct("<q")
_BLOCK = struct.Struct("<qi4xq")
_PAIR = struct.Struct("<qq")
_BATCH, _ROWS, _NODES, _BUFFERS, _PACKING = 3, 0, 1, 2, 3
"""The number of batches among the kinds of messages, and those of their fields."""


class _Record:
    """A table of flatbuffers: its fields by number, each at a place or missing."""

    def __init__(self, raw: memoryview, place: int) -> None:
        self.raw, self.place = raw, place
        self.fields = place - _INT.unpack_from(raw, place)[0]
        self.count = (struct.unpack_from("<H", raw, self.fields)[0] - 4) // 2

    def at(self, number: int) -> int | None:
        """Return where a field is, None if it is missing."""
        if number >= self.count:
            return None
        found: int = struct.unpack_from("<H", self.raw, self.fields + 4 + 2 * number)[0]
        return self.place + found if found else None

    def below(self, number: int) -> int | None:
        """Return where that is which a field refers to."""
        place = self.at(number)
        return None if place is None else place + _INT.unpack_from(self.raw, place)[0]

    def structs(self, number: int, kind: struct.Struct) -> list[tuple[int, ...]]:
        """Return the structs of a list."""
        place = self.below(number)
        count = 0 if place is None else _INT.unpack_from(self.raw, place)[0]
        if place is None or not 0 <= count * kind.size <= len(self.raw):
            return []
        return [kind.unpack_from(self.raw, place + 4 + n * kind.size) for n in range(count)]


def _root(raw: memoryview) -> _Record:
    return _Record(raw, _INT.unpack_from(raw, 0)[0])


def _heads_in_file(raw: memoryview) -> Iterator[Head]:
    """Yield the heads of the batches that the end of a file lists."""
    size = _INT.unpack_from(raw, len(raw) - 10)[0]
    footer = _root(raw[len(raw) - 10 - size : len(raw) - 10])
    for place, length, _ in footer.structs(3, _BLOCK):
        if not 0 <= place <= place + length <= len(raw):
            raise ValueError("a batch lies outside of it")
        head = _head(raw[place : place + length], place + length)
        if head is None:
            raise ValueError("what it lists as a batch is none")
        yield head


def _heads_in_stream(raw: memoryview) -> Iterator[Head]:
    """Yield the heads of the batches of a stream, which may end without a mark."""
    place = 0
    while place + 8 <= len(raw):
        first, second = struct.unpack_from("<ii", raw, place)
        length, begin = (second, 8) if first == -1 else (first, 4)
        if length == 0:
            return
        end = place + begin + length
        if length < 0 or end > len(raw):
            raise ValueError("it is cut short")
        message = raw[place:end]
        head = _head(message, end)
        if head is not None:
            yield head
        body = _root(message[begin:]).at(3)
        place = end + (0 if body is None else max(0, _LONG.unpack_from(message, begin + body)[0]))
    if place > len(raw):
        raise ValueError("it is cut short")


def _head(message: memoryview, body: int) -> Head | None:
    """Return the head of a batch, whose body lies at a place; None for another message."""
    begin = 8 if _INT.unpack_from(message, 0)[0] == -1 else 4
    whole = _root(message[begin:])
    kind, batch = whole.at(1), whole.below(2)
    if kind is None or batch is None or whole.raw[kind] != _BATCH:
        return None
    found = _Record(whole.raw, batch)
    rows = found.at(_ROWS)
    missing = [count for _, count in found.structs(_NODES, _PAIR)]
    buffers = [(body + at, size) for at, size in found.structs(_BUFFERS, _PAIR)]
    is_packed = found.below(_PACKING) is not None
    count = 0 if rows is None else _LONG.unpack_from(whole.raw, rows)[0]
    return Head(count, is_packed, missing, buffers)
