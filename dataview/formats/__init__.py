"""What is in the files of each format, as nodes: one room for each, on the format's own library.

The library is imported when a file is opened.
"""

from dataview.formats.handles import Claim, claimed, close, forget_writer, is_claimed
from dataview.formats.hdf5 import H5pySource, open_hdf5
from dataview.formats.layout import (
    NAME,
    Described,
    Leaf,
    described,
    lengths_of_parts,
    part_of,
    plain_attributes,
)
from dataview.formats.matlab import open_matlab
from dataview.formats.netcdf import open_netcdf
from dataview.formats.npy import has_arrays, open_array, open_folder
from dataview.formats.npz import open_npz
from dataview.formats.tensors import open_safetensors, open_torch
from dataview.formats.zarr import ZarrSource, is_zarr, is_zarr_alone, open_zarr

__all__ = [
    "NAME", "Claim", "Described", "H5pySource", "Leaf", "ZarrSource", "claimed", "close",
    "described", "forget_writer", "has_arrays", "is_claimed", "is_zarr", "is_zarr_alone",
    "lengths_of_parts", "open_array", "open_folder", "open_hdf5", "open_matlab", "open_netcdf",
    "open_npz", "open_safetensors", "open_torch", "open_zarr", "part_of", "plain_attributes",
]  # fmt: skip
