"""Files of arrays: one array, or named ones in groups, each read in place by its index."""

from dataview.formats.arrays.datasets_in_hdf5 import H5pySource, check_texts, without_none
from dataview.formats.arrays.hdf5 import open_hdf5
from dataview.formats.arrays.matlab import open_matlab
from dataview.formats.arrays.netcdf import open_netcdf
from dataview.formats.arrays.npy import has_arrays, open_array, open_array_elsewhere, open_folder
from dataview.formats.arrays.npz import PackedSource, open_npz
from dataview.formats.arrays.pickles import open_pickles
from dataview.formats.arrays.tensors import open_safetensors, open_torch
from dataview.formats.arrays.zarr import (
    ZarrSource,
    ended_on_error,
    open_zarr,
    open_zarr_elsewhere,
)

__all__ = [
    "H5pySource", "PackedSource", "ZarrSource", "check_texts", "ended_on_error", "has_arrays",
    "open_array", "open_array_elsewhere", "open_folder", "open_hdf5", "open_matlab", "open_netcdf",
    "open_npz", "open_pickles", "open_safetensors", "open_torch", "open_zarr",
    "open_zarr_elsewhere", "without_none",
]  # fmt: skip
