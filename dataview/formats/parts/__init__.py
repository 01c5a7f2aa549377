"""Data in parts: files of one kind in a folder, whose rows follow one another.

The files are listed once.  A part is loaded as a whole, the one after it is loaded by a thread
meanwhile, and those that were used longest ago are forgotten.  Formats whose headers say how many
rows they have are views with numbered rows; of others, such as lines of text, a manifest says it
once all have been counted, and without one they are a stream.  Here is also what is partitioned,
and what else comes as a stream: lines of a file that grows.
"""

from dataview.formats.parts.followed import follow
from dataview.formats.parts.listing import Listing, has_numbered_arrays, is_numbered, listed
from dataview.formats.parts.manifest import noted_format, place_of
from dataview.formats.parts.opening import PARTS_OPTIONS, open_parts, parts_bytes, refreshed
from dataview.formats.parts.partition import checked_partition, to_be_divided
from dataview.formats.parts.saved import has_ragged, open_saved, text_of_saved

__all__ = [
    "PARTS_OPTIONS", "Listing", "checked_partition", "follow", "has_numbered_arrays", "has_ragged",
    "is_numbered", "listed", "noted_format", "open_parts", "open_saved", "parts_bytes", "place_of",
    "refreshed", "text_of_saved", "to_be_divided",
]  # fmt: skip
