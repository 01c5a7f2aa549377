"""Datasets that lie in an HDF5 file as in memory: read by their place in it, as `.npy` files are.

HDF5 serves one thread at a time, and reads rows by number one after the other.  Where a file is
open for reading alone, and a dataset is one run of bytes without filters, the system reads these.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from dataview.errors import import_library
from dataview.index import Index
from dataview.sources import REUSED, Block, Memo, borrow, open_regular, read_at, read_block, run_of


class PlainData(NamedTuple):
    """Where the elements of a dataset lie, in which file: its device and its number there."""

    block: Block
    identity: tuple[int, int]

    def read(self, path: str, index: Index, memo: Memo) -> np.ndarray | None:
        """Return what an index selects; None if the path has the file no longer."""
        try:
            file = open_regular(path, buffering=0)
        except (OSError, ValueError):  # HDF5 has the file open, whatever is in its place now
            return None
        with file:
            if _identity(file.fileno()) != self.identity:
                return None
            pieces = memo.get(REUSED)
            found = borrow(index.shape, self.block.dtype, [] if pieces is None else pieces)
            run = run_of(self.block.place, self.block.shape, found.itemsize, index)
            if run is None:
                read_block(file, self.block, index, found, False)
            else:
                read_at(file, found, run)
        return found


def plain_data(dataset: Any) -> PlainData | None:
    """Return where the elements of a dataset lie; None if HDF5 has to be asked for them."""
    file, dtype = dataset.file, dataset.dtype
    if file.mode != "r" or file.swmr_mode or file.driver != "sec2" or not dataset.size:
        return None
    if dataset.chunks or dataset.is_virtual or dataset.external or not dataset.shape:
        return None
    h5py = import_library("h5py", "dataview[hdf5]")
    if dtype.kind not in "iuf" or dataset.id.get_type() != h5py.h5t.py_create(dtype):
        return None  # such as an enumeration, or numbers that have fewer bits than bytes
    place = dataset.id.get_offset()
    if place is None or dataset.id.get_storage_size() != dataset.nbytes:
        return None  # compact, not written yet, or broken
    block = Block(place, dataset.shape, np.dtype(dtype.str))
    return PlainData(block, _identity(file.id.get_vfd_handle()))


def _identity(handle: int) -> tuple[int, int]:
    """Return what tells an open file from all others."""
    found = os.fstat(handle)
    return found.st_dev, found.st_ino
