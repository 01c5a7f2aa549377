"""What is in the files of each format, as nodes: one room for each, on the format's own library.

`arrays` has files of arrays, `tables` those of tables and lines, `media` folders of pictures,
sounds, texts and other files.  The library of a format is imported when a file is opened.
"""

from dataview.formats.arrays import (
    H5pySource,
    ZarrSource,
    has_arrays,
    is_zarr,
    is_zarr_alone,
    open_array,
    open_folder,
    open_hdf5,
    open_matlab,
    open_netcdf,
    open_npz,
    open_safetensors,
    open_torch,
    open_zarr,
)
from dataview.formats.handles import Claim, claimed, close, forget_writer, is_claimed
from dataview.formats.layout import (
    NAME,
    Described,
    Leaf,
    described,
    lengths_of_parts,
    part_of,
    plain_attributes,
)
from dataview.formats.media import (
    MEDIA_SUFFIXES,
    is_registered,
    media_in,
    open_listed,
    open_media,
    register_decoder,
)
from dataview.formats.tables import (
    node_of_column,
    node_of_table,
    open_feather,
    open_json_lines,
    open_lines,
    open_parquet,
)

__all__ = [
    "MEDIA_SUFFIXES",
    "NAME",
    "Claim",
    "Described",
    "H5pySource",
    "Leaf",
    "ZarrSource",
    "claimed",
    "close",
    "described",
    "forget_writer",
    "has_arrays",
    "is_claimed",
    "is_registered",
    "is_zarr",
    "is_zarr_alone",
    "lengths_of_parts",
    "media_in",
    "node_of_column",
    "node_of_table",
    "open_array",
    "open_feather",
    "open_folder",
    "open_hdf5",
    "open_json_lines",
    "open_lines",
    "open_listed",
    "open_matlab",
    "open_media",
    "open_netcdf",
    "open_npz",
    "open_parquet",
    "open_safetensors",
    "open_torch",
    "open_zarr",
    "part_of",
    "plain_attributes",
    "register_decoder",
]  # fmt: skip
