"""Tables: columns of numbers, texts, lists and records, read a group of rows at a time."""

from dataview.formats.tables.arrow import (
    DECIMAL,
    HAS_MASK,
    OF_ELEMENTS,
    TABLE_META,
)
from dataview.formats.tables.arrow_labels import (
    array_of_labels,
    coded_in_arrow,
    labels_in_arrow,
)
from dataview.formats.tables.arrow_objects import (
    as_told,
    check_kinds,
    check_zones,
    holding,
    is_decimal,
    kinds_in,
    several_kinds,
    told_decimal,
    type_in,
    with_lists,
)
from dataview.formats.tables.column_nodes import ColumnSource, column_node, table_node
from dataview.formats.tables.columns import NOTHING, Column, Kind, Name, Table, tells_missing
from dataview.formats.tables.in_memory import node_of_column, node_of_rows, node_of_table
from dataview.formats.tables.parquet_elsewhere import open_parquet_elsewhere
from dataview.formats.tables.partitions import (
    TABLE_SUFFIXES,
    has_tables,
    open_feather,
    open_parquet,
    open_partitions,
)
from dataview.formats.tables.schema import (
    Tables,
    check_schema,
    is_of_codes,
    is_void,
    joined,
    nothing_of,
)
from dataview.formats.tables.sqlite import open_sqlite

__all__ = [
    "DECIMAL",
    "HAS_MASK",
    "NOTHING",
    "OF_ELEMENTS",
    "TABLE_META",
    "TABLE_SUFFIXES",
    "Column",
    "ColumnSource",
    "Kind",
    "Name",
    "Table",
    "Tables",
    "array_of_labels",
    "as_told",
    "check_kinds",
    "check_schema",
    "check_zones",
    "coded_in_arrow",
    "column_node",
    "has_tables",
    "holding",
    "is_decimal",
    "is_of_codes",
    "is_void",
    "joined",
    "kinds_in",
    "labels_in_arrow",
    "node_of_column",
    "node_of_rows",
    "node_of_table",
    "nothing_of",
    "open_feather",
    "open_parquet",
    "open_parquet_elsewhere",
    "open_partitions",
    "open_sqlite",
    "several_kinds",
    "table_node",
    "tells_missing",
    "told_decimal",
    "type_in",
    "with_lists",
]  # fmt: skip
