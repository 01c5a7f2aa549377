"""Formats: what is at a path becomes nodes, and nodes become files; one room for each format.

There is one table of them.  A format's own library is imported when a file of it is opened.
"""

from dataview.formats.growing import appended
from dataview.formats.handles import close
from dataview.formats.hdf5 import H5pySource
from dataview.formats.overview import overview
from dataview.formats.saving import created, save
from dataview.formats.table import FORMATS, Format, opened
from dataview.formats.zarr import ZarrSource

__all__ = [
    "FORMATS", "Format", "H5pySource", "ZarrSource", "appended", "close", "created", "opened",
    "overview", "save",
]  # fmt: skip
