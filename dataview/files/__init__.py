"""Files by their paths: recognised, opened, saved, made to be filled, and grown.

There is one table of formats, which says how files of each are opened and written.
"""

from dataview.files.growing import appended, one_at_a_time
from dataview.files.overview import overview
from dataview.files.saving import created, save
from dataview.files.table import FORMATS, Format, matching, opened, recover
from dataview.write import Recovery

__all__ = [
    "FORMATS",
    "Format",
    "Recovery",
    "appended",
    "created",
    "matching",
    "one_at_a_time",
    "opened",
    "overview",
    "recover",
    "save",
]
