"""Files by their paths: recognised, opened as nodes, saved, made to be filled, and grown.

One table of formats says how files of each are opened and written.  `arrays` has files of arrays,
`tables` those of tables, `texts` tables and lines in files of text, `media` folders of pictures,
sounds and other files, `indexes` tables of items that are elsewhere, `writers` what writes files.
The library of a format is imported when a file is opened.
"""

from dataview.formats.arrays import H5pySource, ZarrSource
from dataview.formats.catalogue import FORMATS, Format, matching, opened, recover, saved_as
from dataview.formats.computed import computed_once
from dataview.formats.growing import append, one_at_a_time
from dataview.formats.handles import check_access, close
from dataview.formats.indexes import INDEX_OPTIONS, Faces, open_indexes
from dataview.formats.layouts import laid_out
from dataview.formats.media import register_decoder
from dataview.formats.overview import overview
from dataview.formats.parts import checked_partition, refreshed, to_be_divided
from dataview.formats.saving import created, save
from dataview.formats.tables import (
    DECIMAL,
    array_of_labels,
    as_told,
    check_kinds,
    coded_in_arrow,
    node_of_column,
    node_of_rows,
    node_of_table,
    tells_missing,
    with_lists,
)
from dataview.write import Recovery

__all__ = [
    "DECIMAL",
    "FORMATS",
    "INDEX_OPTIONS",
    "Faces",
    "Format",
    "H5pySource",
    "Recovery",
    "ZarrSource",
    "append",
    "array_of_labels",
    "as_told",
    "check_access",
    "check_kinds",
    "checked_partition",
    "close",
    "coded_in_arrow",
    "computed_once",
    "created",
    "laid_out",
    "matching",
    "node_of_column",
    "node_of_rows",
    "node_of_table",
    "one_at_a_time",
    "open_indexes",
    "opened",
    "overview",
    "recover",
    "refreshed",
    "register_decoder",
    "save",
    "saved_as",
    "tells_missing",
    "to_be_divided",
    "with_lists",
]  # fmt: skip
