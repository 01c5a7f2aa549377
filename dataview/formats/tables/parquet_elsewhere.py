"""Parquet files elsewhere: of each group of rows, the columns that are asked for are brought."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from dataview.errors import import_library
from dataview.formats.tables.columns import Name
from dataview.formats.tables.parquet import ParquetTable
from dataview.formats.tables.schema import check_schema
from dataview.plan.node import Node
from dataview.sources import Opening, Place, RemoteFile, shown

JOINED_BYTES = 8 << 20
"""Small groups of about so many bytes are brought at once; a column may need fewer of them."""


class RemoteParquet(ParquetTable):
    """A Parquet file elsewhere; what its path names is held by its opening.

    Columns that are asked for together, and small groups, are brought by few requests.
    """

    reads_rows = joins_groups = True

    def load(self) -> np.ndarray:
        """Read the description at the end of the file."""
        found = super().load()
        groups = max(1, self.metadata.num_row_groups)
        self.most_joined = max(1, JOINED_BYTES * groups // self.opening.claim.size)
        return found

    def look(self) -> tuple[int, int, int, int]:
        """Return what tells the file from others; each request finds out whether it is the same."""
        file = self.opening.claim
        return 0, 0, file.size, zlib.crc32(str(file.place.version).encode())

    def check_regular(self) -> None:
        """Do nothing: what is elsewhere is no pipe."""

    def to_read(self, names: Collection[Name] = (), groups: Sequence[int] = ()) -> Any:
        """Return what pyarrow reads; the columns of groups are brought, together where near."""
        ranges = [self._range(group, self.places[name]) for group in groups for name in names]
        pa = import_library("pyarrow", "dataview[arrow]")
        return pa.PythonFile(self.opening.claim.reader(ranges), mode="r")

    def _range(self, group: int, place: int) -> tuple[int, int]:
        """Return where the bytes of a column of a group begin, and how many they are."""
        column = self.metadata.row_group(group).column(place)
        labels = column.dictionary_page_offset  # before the pages of data, if there are any
        return labels or column.data_page_offset, column.total_compressed_size

    def _behind(self, name: Name, count: int) -> tuple[Name, ...]:
        """Return nothing: a column that nobody has asked for would be brought for it."""
        return ()

    def _dictionary_of(self, column: Any) -> None:
        """Return None: to look at each dictionary would take a request."""


def open_parquet_elsewhere(place: Place, fill: Any = None, schema: str = "same") -> Node:
    """Return the record of the columns of a Parquet file elsewhere: its description is read."""
    check_schema(schema)
    name = shown(place.url)
    return RemoteParquet(name, Opening(name, RemoteFile(place)), keeps_open=False).node(fill)
