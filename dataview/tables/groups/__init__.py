"""Groups of rows: their keys, which rows each has, and statistics of all of them in one pass."""

from dataview.tables.groups.groups import Grouped

__all__ = ["Grouped"]
