"""Indexes: tables of which each row names an item elsewhere, got when it is asked for.

An index is a table with a column of names, and perhaps columns of offsets, lengths and labels; or
it is a folder, whose files are the items.  `opening` makes the view: the columns of the table, the
address of each item, and the item.  `places` says where an item is, `getters` what gets it from
there, `labels` which labels a row has, and in which order rows come.  Nothing but the table is read
until an item is asked for.
"""

from dataview.formats.indexes.opening import open_indexes
from dataview.formats.indexes.tables import INDEX_OPTIONS, Faces

__all__ = ["INDEX_OPTIONS", "Faces", "open_indexes"]
