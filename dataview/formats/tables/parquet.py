"""Parquet files: a group of rows is read together, and of it the columns that are asked for."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

import numpy as np

from dataview.errors import import_library
from dataview.formats.tables.arrow import leaves_of, text_meta
from dataview.formats.tables.arrow_tables import (
    MOST_TIMES,
    MOST_UNPACKED,
    ArrowTable,
    check_names,
    starts_of,
    too_large,
)
from dataview.formats.tables.columns import Name
from dataview.sources import FileState, open_regular, state_of


class ParquetTable(ArrowTable):
    """A Parquet file.  Each read has a reader of its own, since these are not for several threads.

    Texts with a dictionary are read as codes: equal ones are one object then, and a file cannot
    make a few bytes fill all memory by repeating a long text.
    """

    def load(self) -> tuple[FileState, np.ndarray]:
        """Read the description at the end of the file."""
        parquet = import_library("pyarrow.parquet", "dataview[arrow]")
        self._idle: list[Any] = []
        self._taking = threading.Lock()
        with open_regular(self.path) as file:
            state = state_of(file)
        self.metadata = parquet.read_metadata(self.path)
        schema = self.metadata.schema
        fields = schema.to_arrow_schema()
        check_names(fields.names)
        self.leaves, self.lost, self.places = leaves_of(fields, self._may_miss)
        if len(self.places) != self.metadata.num_columns:
            raise ValueError("its columns do not fit their description")
        self.meta = text_meta(fields.metadata)
        texts = [
            name
            for name, leaf in self.leaves.items()
            if leaf.kind.dtype.hasobject and self._has_dictionary(self.places[name])
        ]
        self.dictionaries.update(dict.fromkeys(texts))
        self._as_codes = [schema.column(self.places[name]).path for name in texts]
        groups = range(self.metadata.num_row_groups)
        return state, starts_of([self.metadata.row_group(one).num_rows for one in groups])

    def _may_miss(self, name: Name, place: int) -> bool:
        """Whether a column may lack values, by what is noted of each group of rows."""
        if place >= self.metadata.num_columns:
            return True
        for group in range(self.metadata.num_row_groups):
            found = self.metadata.row_group(group).column(place).statistics
            if found is None or not found.has_null_count or found.null_count:
                return True
        return False

    def _has_dictionary(self, place: int) -> bool:
        column = self.metadata.schema.column(place)
        return column.physical_type == "BYTE_ARRAY" and any(
            self.metadata.row_group(group).column(place).has_dictionary_page
            for group in range(self.metadata.num_row_groups)
        )

    def bounds(self, name: Name) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return the least and the greatest value of each group of rows, as noted in the file.

        Rows without a value hold another one here, which is between them then.
        """
        leaf = self.leaves[name]
        if (
            leaf.kind.dtype.kind not in "iuf"
            or leaf.kind.dtype.itemsize < 4
            or name in self.dictionaries
        ):
            return None
        ends = np.zeros((2, self.metadata.num_row_groups), leaf.kind.dtype)
        known = np.zeros(self.metadata.num_row_groups, bool)
        for group in range(self.metadata.num_row_groups):
            noted = self.metadata.row_group(group).column(self.places[name]).statistics
            if noted is None or not noted.has_min_max or not noted.has_null_count:
                continue
            values = [noted.min, noted.max]
            if noted.null_count:
                values.append(self.fills.get(name, 0))
            found = np.array(values, leaf.kind.dtype)
            ends[:, group] = found.min(), found.max()
            known[group] = bool((found == found).all())
        return ends[0], ends[1], known

    def arrays(self, names: Collection[Name], first: int, stop: int) -> Any:
        """Return columns of some groups of rows."""
        groups = list(range(first, stop))
        self._check_sizes(names, groups)
        paths = [self.metadata.schema.column(self.places[name]).path for name in names]
        reader = self._reader()
        found = reader.read_row_groups(groups, columns=paths, use_threads=False)
        if self.keeps_open:
            with self._taking:
                self._idle.append(reader)
        else:
            reader.close()
        return found

    def _reader(self) -> Any:
        """Return a reader that nobody uses."""
        with self._taking:
            if self._idle:
                return self._idle.pop()
        parquet = import_library("pyarrow.parquet", "dataview[arrow]")
        return parquet.ParquetFile(
            self.path, metadata=self.metadata, read_dictionary=self._as_codes, pre_buffer=False
        )

    def _check_sizes(self, names: Collection[Name], groups: list[int]) -> None:
        """Raise if a few bytes would be unpacked to very many."""
        for name in names:
            packed = unpacked = 0
            kind = self.leaves[name].kind
            for group in groups:
                found = self.metadata.row_group(group).column(self.places[name])
                packed += found.total_compressed_size
                unpacked += max(
                    found.total_uncompressed_size, found.num_values * kind.dtype.itemsize
                )
            if unpacked > max(MOST_UNPACKED, MOST_TIMES * packed):
                raise ValueError(too_large(packed, unpacked))

    def close(self) -> None:
        """Have all views of the file say that it is closed."""
        super().close()
        with self._taking:
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.close()
