"""Files of tables: columns of numbers, texts, lists and records, read a group of rows at a time."""

from dataview.formats.tables.columns import Column, Kind, Name, Table, table_node
from dataview.formats.tables.json_lines import open_json_lines
from dataview.formats.tables.lines import open_lines
from dataview.formats.tables.schema import joined, missing_in

__all__ = [
    "Column", "Kind", "Name", "Table", "joined", "missing_in", "open_json_lines", "open_lines",
    "table_node",
]  # fmt: skip
