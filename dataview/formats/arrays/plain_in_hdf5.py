"""Numbers in HDF5 files, read with less ado than by h5py's `[]`.

HDF5 serves one thread at a time, and reads rows by number one after the other.  Where a file is
open for reading alone, and a dataset is one run of bytes without filters, the system reads these.
Of a file that may be written, h5py finds out at each `[]` which type the numbers have: that takes
as long as to copy some thousands of them.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.errors import import_library
from dataview.index import Index
from dataview.sources import (
    REUSED,
    Block,
    Memo,
    borrow,
    open_handle,
    read_at,
    read_block,
    read_near,
    run_of,
)


class RawFile(io.FileIO):
    """A file that is open for reading as long as somebody holds it, such as a thread that reads."""

    def __init__(self, path: str) -> None:
        super().__init__(path, opener=open_handle)

    def __del__(self) -> None:
        self.close()


class PlainData(NamedTuple):
    """Where the elements of a dataset lie, in which file: its device and its number there."""

    block: Block
    identity: tuple[int, int]

    def opened(self, path: str) -> RawFile | None:
        """Open the file once more; None if the path has it no longer."""
        try:
            file = RawFile(path)
        except (OSError, ValueError):  # HDF5 has the file open, whatever is in its place now
            return None
        return file if _identity(file.fileno()) == self.identity else None

    def read(self, file: RawFile, index: Index, memo: Memo) -> np.ndarray:
        """Return what an index selects."""
        run = run_of(self.block.place, self.block.shape, self.block.dtype.itemsize, index)
        near = read_near(file, self.block, index) if run is None else None
        if near is not None:
            return near
        found = borrow(index.shape, self.block.dtype, memo.get(REUSED))
        if run is None:
            read_block(file, self.block, index, found, False)
        else:
            read_at(file, found, run)
        return found

    def rows(self, file: RawFile, start: int, shape: tuple[int, ...]) -> np.ndarray:
        """Return rows from one on."""
        found = np.empty(shape, self.block.dtype)
        read_at(file, found, self.block.place + start * self.block.row_bytes)
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


class Numbers(NamedTuple):
    """A dataset of numbers, and what HDF5 calls them in memory."""

    dataset: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    kind: Any
    spaces: Any

    def read(self, slab: Sequence[slice], memo: Memo) -> np.ndarray | None:
        """Return a slab, in memory that was used before if that may be.

        None is returned if the dataset has another shape by now.
        """
        place = self.dataset.get_space()
        if place.shape != self.shape:
            return None
        lengths = tuple(part.stop - part.start for part in slab)
        found = borrow(lengths, self.dtype, memo.get(REUSED))
        place.select_hyperslab(tuple(part.start for part in slab), lengths)
        self.dataset.read(self.spaces.create_simple(lengths), place, found, self.kind)
        return found


def numbers(dataset: Any) -> Numbers | None:
    """Return a dataset as one of numbers, None if it has others, or only one without an axis."""
    h5py = import_library("h5py", "dataview[hdf5]")
    plain = h5py.h5t.TypeIntegerID, h5py.h5t.TypeFloatID
    if not dataset.shape or not isinstance(dataset.id.get_type(), plain):
        return None
    kind = h5py.h5t.py_create(dataset.dtype)
    return Numbers(dataset.id, dataset.shape, np.dtype(dataset.dtype.str), kind, h5py.h5s)
