"""Tables and lines in files of text, whose rows are found by one pass over the text."""

from dataview.formats.texts.cells import agreed, kind_seen
from dataview.formats.texts.csv import CSV_SUFFIXES, open_csv
from dataview.formats.texts.csv_guesses import header_cells
from dataview.formats.texts.dialect import as_cell
from dataview.formats.texts.folders import has_parts
from dataview.formats.texts.json_arrays import open_json
from dataview.formats.texts.json_lines import JSON_SUFFIXES, open_json_lines
from dataview.formats.texts.lines import open_lines
from dataview.formats.texts.text_bytes import PACKED, ZIPPED, name_of_unpacked, with_packed

__all__ = [
    "CSV_SUFFIXES", "JSON_SUFFIXES", "PACKED", "ZIPPED", "agreed", "as_cell", "has_parts",
    "header_cells", "kind_seen", "name_of_unpacked", "open_csv", "open_json", "open_json_lines",
    "open_lines", "with_packed",
]  # fmt: skip
