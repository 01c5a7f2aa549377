"""Parquet files: a group of rows is read together, and of it the columns that are asked for."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

import numpy as np

from dataview.errors import import_library
from dataview.formats.tables.arrow import arrow, is_read_whole, leaves_of, text_meta
from dataview.formats.tables.arrow_tables import (
    MOST_TIMES,
    MOST_UNPACKED,
    ArrowTable,
    check_names,
    starts_of,
    too_large,
)
from dataview.formats.tables.columns import Name
from dataview.index.locks import new_lock
from dataview.plan.gaps import tells_present
from dataview.sources import open_handle, open_regular

LONGEST_CODE = 4
"""A code among labels takes no more bytes; what takes more stands in the file as it is."""

MOST_AHEAD = 1 << 30
"""Texts of a broken file that are read as they are take no more memory before that is noticed."""

SHORTEST_BATCH, LONGEST_BATCH = 1 << 6, 1 << 14
"""So many rows of texts are read at a time: fewer take long, and more are no faster."""

Bounds: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
"""The least and the greatest value of each group of rows, and of which groups these are known."""

MOST_OPEN = 256
"""The files of so many tables stay open between readings: a system may allow four times as many."""

HEAD_BYTES = 64
"""No head of a dictionary takes more."""


class ParquetTable(ArrowTable):
    """A Parquet file.  Each read has a reader of its own, since these are not for several threads.

    Texts with a dictionary are read as codes, unless most of them differ: equal ones are one object
    then, and a file cannot make a few bytes fill all memory by repeating a long text.
    """

    def load(self) -> np.ndarray:
        """Read the description at the end of the file."""
        self._idle: dict[bool, list[Any]] = {True: [], False: []}
        self._taking = new_lock()
        self._bounds: dict[Name, Bounds | None] = {}
        self._as_codes: list[str] = []
        self.metadata: Any = None
        self.groups: list[Any] = []
        self.check_regular()
        with self._reader() as reader:
            self.metadata = reader.metadata
        self.groups = [*map(self.metadata.row_group, range(self.metadata.num_row_groups))]
        schema = self.metadata.schema
        fields = schema.to_arrow_schema()
        check_names(fields.names)
        self.leaves, self.lost, self.places = leaves_of(
            fields, self._may_miss, self._lacks_elements, fields.metadata
        )
        if sum(not tells_present(name) for name in self.places) != self.metadata.num_columns:
            raise ValueError("its columns do not fit their description")
        self.meta = text_meta(fields.metadata)
        texts = [
            name
            for name, leaf in self.leaves.items()
            if leaf.kind.dtype.hasobject and self._has_dictionary(self.places[name])
        ]
        self.dictionaries.update(dict.fromkeys(texts))
        self._as_codes = [schema.column(self.places[name]).path for name in texts]
        self._whole = {field.name for field in fields if is_read_whole(field.type)}
        return starts_of([group.num_rows for group in self.groups])

    def _may_miss(self, name: Name, place: int) -> bool:
        """Whether a column may lack values, by what is noted of each group of rows."""
        if place >= self.metadata.num_columns or tells_present(name):  # whose members tell
            return True
        for group in self.groups:
            found = group.column(place).statistics
            is_whole = found is not None and found.has_null_count and not found.null_count
            if not is_whole and group.num_rows:  # of no rows some files note nothing
                return True
        return False

    def _lacks_elements(self, name: Name, shape: tuple[int, ...], place: int) -> bool:
        """Whether elements of lists of one length may be missing, and not only such lists.

        A missing list is one entry of a column, and there is one for each element of others.
        """
        length = math.prod(shape)
        if length == 1:
            return False
        for group in self.groups:
            column = group.column(place)
            found = column.statistics
            if found is None or not found.has_null_count:
                return True
            if group.num_rows * length - column.num_values != found.null_count * (length - 1):
                return True
        return False

    def _has_dictionary(self, place: int) -> bool:
        column = self.metadata.schema.column(place)
        return column.physical_type == "BYTE_ARRAY" and any(
            group.column(place).has_dictionary_page for group in self.groups
        )

    def bounds(self, name: Name) -> Bounds | None:
        """Return the least and the greatest value of each group of rows, as noted in the file.

        Rows without a value hold another one here, which is between them then.
        """
        if name not in self._bounds:
            self._bounds[name] = self._noted_bounds(name)
        return self._bounds[name]

    def _noted_bounds(self, name: Name) -> Bounds | None:
        dtype, place = self.leaves[name].kind.dtype, self.places[name]
        if dtype.kind not in "iuf" or dtype.itemsize < 4 or name in self.dictionaries:
            return None
        ends = np.zeros((2, len(self.groups)), dtype)
        known = np.zeros(len(self.groups), bool)
        noted = []
        for number, group in enumerate(self.groups):
            own = group.column(place).statistics
            known[number] = own is not None and own.has_min_max and own.has_null_count
            if known[number]:
                least, fill = own.min, self.fills.get(name, 0)
                noted.append((least, own.max, fill if own.null_count else least))
        if noted:
            values = np.array(noted, dtype)
            ends[:, known] = values.min(axis=1), values.max(axis=1)
            known[known] = (values == values).all(axis=1)
        return ends[0], ends[1], known

    def arrays(self, names: Collection[Name], first: int, stop: int) -> Any:
        """Return columns of some groups of rows."""
        groups = list(range(first, stop))
        self._check_sizes(names, groups)
        paths = [self.metadata.schema.column(self.places[name]).path for name in self._with(names)]
        if len(paths) == 1 and paths[0] in self._as_codes:
            (name,) = names
            found = None if self.leaves[name].kind.depth else self._differing(name, groups)
            if found is not None:
                return found
        with self._reader(names, groups, not {*paths}.isdisjoint(self._as_codes)) as reader:
            return reader.read_row_groups(groups, columns=paths, use_threads=False)

    def _with(self, names: Collection[Name]) -> Collection[Name]:
        """Return names, with all that is in the same types of other libraries: these are whole."""
        whole = self._whole.intersection(name[0] for name in names)
        if not whole:
            return names
        return dict.fromkeys([*names, *(name for name in self.places if name[0] in whole)])

    def _differing(self, name: Name, groups: list[int]) -> Any:
        """Return texts of which most differ as they are, None if there are many of few.

        Codes of these take longer to find than the texts to copy.  Only a text in the dictionary
        can take more memory than it does in the file: it may be in many rows, so that few rows are
        read at a time.
        """
        place, size = self.places[name], 0
        for group in groups:
            column = self.groups[group].column(place)
            head = self._dictionary_of(column)
            if head is None:
                return None
            beside = column.total_uncompressed_size - head.size
            if head.labels * 4 < column.num_values and beside <= LONGEST_CODE * column.num_values:
                return None
            size = max(size, head.size)
        rows = min(MOST_AHEAD // max(1, size), LONGEST_BATCH)
        if rows < SHORTEST_BATCH:
            return None
        return self._in_batches(name, groups, rows)

    def _dictionary_of(self, column: Any) -> _Dictionary | None:
        """Return what the head of a dictionary says, None if it cannot be read."""
        if not column.has_dictionary_page or column.dictionary_page_offset is None:
            return None
        with open_regular(self.path) as file:
            file.seek(column.dictionary_page_offset)
            return _head_of_dictionary(file.read(HEAD_BYTES))

    def _in_batches(self, name: Name, groups: list[int], rows: int) -> Any:
        """Return texts that are read so many rows at a time, None if they take too much memory."""
        column = self.metadata.schema.column(self.places[name])
        chunks = [self.groups[one].column(self.places[name]) for one in groups]
        most = sum(4 * own.total_uncompressed_size + 16 * own.num_values for own in chunks)
        batches = []
        with self._reader([name], groups) as reader:
            for batch in reader.iter_batches(
                rows, row_groups=groups, columns=[column.path], use_threads=False
            ):
                batches.append(batch)
                most -= batch.get_total_buffer_size()
                if most < 0:
                    return None
        return arrow().Table.from_batches(batches) if batches else None

    @contextlib.contextmanager
    def _reader(
        self, names: Collection[Name] = (), groups: Sequence[int] = (), as_codes: bool = False
    ) -> Iterator[Any]:
        """Lend a reader that nobody uses, for columns of some groups or the description."""
        idle = self._idle[as_codes]
        with self._taking:
            reader = idle.pop() if idle else None
        if reader is None:
            parquet = import_library("pyarrow.parquet", "dataview[arrow]")
            texts = self._as_codes if as_codes else None
            reader = parquet.ParquetFile(
                self.to_read(names, groups),
                metadata=self.metadata,
                read_dictionary=texts,
                pre_buffer=False,
            )
        try:
            yield reader
        except BaseException:
            reader.close()
            raise
        if self.keeps_open:
            with self._taking:
                idle.append(reader)
            _close_some(self)
        else:
            reader.close()

    def check_regular(self) -> None:
        """Raise if it is a pipe, say, whose opening might wait."""
        os.close(open_handle(self.path, os.O_RDONLY))

    def to_read(self, names: Collection[Name] = (), groups: Sequence[int] = ()) -> Any:
        """Return what pyarrow reads, for columns of some groups or the description."""
        return self.path

    def _check_sizes(self, names: Collection[Name], groups: list[int]) -> None:
        """Raise if a few bytes would be unpacked to very many."""
        for name in names:
            packed = unpacked = 0
            kind = self.leaves[name].kind
            for group in groups:
                found = self.groups[group].column(self.places[name])
                packed += found.total_compressed_size
                unpacked += max(
                    found.total_uncompressed_size, found.num_values * kind.dtype.itemsize
                )
            if unpacked > max(MOST_UNPACKED, MOST_TIMES * packed):
                raise ValueError(too_large(packed, unpacked))

    def close(self) -> None:
        """Have all views of the file say that it is closed."""
        super().close()
        self.close_idle()

    def close_idle(self) -> None:
        """Close the readers that nobody uses: the next reading opens the file again."""
        with self._taking:
            idle = [reader for readers in self._idle.values() for reader in readers]
            self._idle = {True: [], False: []}
        for reader in idle:
            reader.close()


_OPEN: WeakValueDictionary[int, ParquetTable] = WeakValueDictionary()
"""The tables with idle readers, the one that was read latest last."""

_CHOOSING = new_lock()


def _close_some(latest: ParquetTable) -> None:
    """Note which table was read latest, and close the files of others if too many are open."""
    with _CHOOSING:
        _OPEN.pop(id(latest), None)
        _OPEN[id(latest)] = latest
        others = [*_OPEN.values()][:-MOST_OPEN] if len(_OPEN) > MOST_OPEN else []
        for one in others:
            _OPEN.pop(id(one), None)
    for one in others:
        one.close_idle()


class _Dictionary(NamedTuple):
    """How many texts a dictionary has, and how many bytes they take."""

    labels: int
    size: int


_INTEGER, _STRUCT = 5, 12
_UNPACKED_SIZE, _DICTIONARY = 2, 7
"""Types of Thrift's compact protocol, and numbers of fields in the head of a page."""


def _head_of_dictionary(raw: bytes) -> _Dictionary | None:
    """Return what the head of a page says, None if it is no dictionary's.

    Each field has a byte with its type and how much its number is above that of the one before.

    >>> _head_of_dictionary(bytes.fromhex("150415d20f15be044c153215000000"))
    _Dictionary(labels=25, size=1001)
    """
    fields: dict[int, int] = {}
    number = place = 0
    try:
        while True:
            step, kind = divmod(raw[place], 16)
            number, place = number + step, place + 1
            if kind == _STRUCT and number == _DICTIONARY:
                labels, _ = _number(raw, place + 1)  # its first field
                return _Dictionary(labels, fields[_UNPACKED_SIZE])
            if kind != _INTEGER:
                return None
            fields[number], place = _number(raw, place)
    except (IndexError, KeyError):
        return None


def _number(raw: bytes, place: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, the lowest for its sign, and where it ends."""
    found = shift = 0
    while True:
        byte = raw[place]
        found |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return found >> 1 ^ -(found & 1), place
