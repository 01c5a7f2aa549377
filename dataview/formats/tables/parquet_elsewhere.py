"""Parquet files elsewhere: of each group of rows, the columns that are asked for are brought."""

from __future__ import annotations

import zlib
from typing import Any

from dataview.errors import import_library
from dataview.formats.tables.parquet import ParquetTable
from dataview.formats.tables.schema import check_schema
from dataview.plan.node import Node
from dataview.sources import FileState, Opening, Place, RemoteFile, shown


class RemoteParquet(ParquetTable):
    """A Parquet file elsewhere; what its path names is held by its opening."""

    def look(self) -> tuple[int, int, int, int]:
        """Return what tells the file from others; each request finds out whether it is the same."""
        file = self.opening.claim
        return 0, 0, file.size, zlib.crc32(str(file.place.version).encode())

    def state_now(self) -> FileState:
        """Return the state of the file."""
        return FileState(*self.seen)

    def to_read(self) -> dict[str, Any]:
        """Return what pyarrow reads, and that it asks for neighbours together."""
        pa = import_library("pyarrow", "dataview[arrow]")
        return {
            "source": pa.PythonFile(self.opening.claim.reader(), mode="r"),
            "pre_buffer": True,
        }

    def _dictionary_of(self, column: Any) -> None:
        """Return None: to look at each dictionary would take a request."""


def open_parquet_elsewhere(place: Place, fill: Any = None, schema: str = "same") -> Node:
    """Return the record of the columns of a Parquet file elsewhere: its description is read."""
    check_schema(schema)
    name = shown(place.url)
    return RemoteParquet(name, Opening(name, RemoteFile(place))).node(fill)
