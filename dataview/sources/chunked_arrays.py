"""Datasets of HDF5 files, by h5py, and arrays of zarr."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from dataview.errors import import_library
from dataview.sources.array_likes import ArrayLike
from dataview.sources.protocol import Source
from dataview.sources.sharing import Reference, by_path, key_of_file

_LOCAL_DRIVERS = ("sec2", "stdio", "windows")
"""The drivers of h5py whose files can be opened again by name."""


class H5pySource(ArrayLike):
    """A dataset in an HDF5 file.

    Its pickle has the path of the file, the name of the dataset and the mode: it is opened again.
    """

    __slots__ = ("place",)
    takes_a_list = True
    span_times = 4  # with a step, HDF5 takes longer than for all that lies between
    spare_bytes = 1 << 20
    fresh = True

    def __init__(self, dataset: Any) -> None:
        if not dataset:
            raise ValueError("the h5py dataset is of a closed file; open the file again")
        if dataset.shape is None:
            raise ValueError(f"the h5py dataset {dataset.name} is empty: it has no shape")
        file = dataset.file
        self.place = (os.path.abspath(file.filename), dataset.name, file.mode)
        where = f"{os.path.basename(file.filename)}{dataset.name or ', without a name'}"
        super().__init__(dataset, f"h5py {where}", file.mode != "r")

    def __reduce__(self) -> tuple[Any, ...]:
        self._check()
        file = self.array.file
        if file.driver not in _LOCAL_DRIVERS or self.array.name is None:
            raise TypeError(
                f"{self.title} cannot be pickled, since it cannot be opened again by the name of a "
                "file and a dataset; pickle the data: dv.View(view())"
            )
        if self.writable:
            file.flush()  # so that who opens it again finds what was written
        return _reopened, (*self.place, self.shape, self.dtype)

    def _check(self) -> None:
        """Raise if the file was closed, or the dataset has changed its shape."""
        if not self.array:
            raise ValueError(
                f"the file of {self.title} was closed; keep it open as long as its views are used, "
                "or open it again and make the view anew"
            )
        super()._check()

    def _put(self, asked: Sequence[slice | np.ndarray], value: np.ndarray) -> None:
        """Write one slab, in the dtype that the dataset has with h5py's notes."""
        noted = self.array.dtype
        super()._put(asked, value if noted.metadata is None else value.astype(noted))

    def is_same(self, other: Source) -> bool:
        """Whether another source is of the same dataset, perhaps in a file opened again.

        The data of virtual and external datasets may be those of any other one.
        """
        if not isinstance(other, H5pySource) or not self.array or not other.array:
            return False  # the dataset of a closed file is neither read nor written
        elsewhere = any(one.is_virtual or one.external for one in (self.array, other.array))
        return elsewhere or bool(self.array == other.array)

    def may_be_in(self, file: Any) -> bool:
        """Whether the dataset may be in a file: it is in its own, which some drivers can tell."""
        if not self.array:
            return False
        own = self.array.file
        if self.array.is_virtual or self.array.external or own.driver != "sec2":
            return True
        return file in (None, key_of_file(own.id.get_vfd_handle()))

    def reference(self) -> Reference:
        """Return what finds the dataset by its name, as long as somebody has the file open."""
        path, name, _ = self.place
        if name is None:
            return super().reference()
        return by_path(self, self.place, lambda: _in_open_file(path, name))


def _in_open_file(path: str, name: str) -> H5pySource | None:
    """Return a dataset of a file that is open now, None if nobody has it open."""
    h5py = import_library("h5py", "dataview[hdf5]")
    for file in h5py.h5f.get_obj_ids(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE):
        if os.path.abspath(os.fsdecode(h5py.h5f.get_name(file))) == path:
            found = h5py.File(file).get(name)
            return H5pySource(found) if isinstance(found, h5py.Dataset) else None
    return None


def _reopened(
    path: str, name: str, mode: str, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> H5pySource:
    """Open a dataset again where it was unpickled."""
    h5py = import_library("h5py", "dataview[hdf5]")
    try:
        dataset = h5py.File(path, mode)[name]
    except (OSError, KeyError) as error:
        raise type(error)(
            f"{path} was opened with mode {mode!r} when a view of {name} was pickled, and cannot "
            f"be opened so again: {error}. HDF5 lets no other process open a file that one may "
            "write: for views in several processes, open it with mode 'r'"
        ) from error
    source = H5pySource(dataset)
    if (source.shape, source.dtype) != (shape, dtype):
        raise ValueError(
            f"{source.title} has changed since a view of it was pickled: it had {shape} {dtype}, "
            f"now {source.shape} {source.dtype}; make the view anew"
        )
    return source


class ZarrSource(ArrayLike):
    """An array of zarr, in a folder or in another store."""

    __slots__ = ()
    takes_a_list = True  # with it, each chunk is decompressed once
    span_times = 4
    spare_bytes = 1 << 20  # whole chunks are read in any case
    fresh = True

    def __init__(self, array: Any) -> None:
        store = array.store
        root = getattr(getattr(store, "root", None), "name", None) or type(store).__name__
        path = f"{root}/{array.path}".rstrip("/")
        super().__init__(array, f"zarr {path}", not array.read_only)

    def __reduce__(self) -> tuple[Any, ...]:
        return ZarrSource, (self.array,)

    def is_same(self, other: Source) -> bool:
        """Whether another source is of the same path in the same store."""
        mine = self.array.store_path
        return isinstance(other, ZarrSource) and bool(mine == other.array.store_path)

    def reference(self) -> Reference:
        """Return what opens the array again as long as its store lives; a folder always does."""
        store, path = self.array.store, self.array.path
        mode = "r+" if self.writable else "r"
        if getattr(store, "root", None) is None:
            return Reference(self, weakref.ref(store), path, lambda held: _opened(held, path, mode))
        return by_path(self, str(self.array.store_path), lambda: _opened(store, path, mode))


def _opened(store: Any, path: str, mode: str) -> ZarrSource | None:
    """Return an array in a store of zarr, None if it is there no more."""
    zarr = import_library("zarr", "dataview[zarr]")
    try:
        return ZarrSource(zarr.open_array(store, path=path, mode=mode))
    except (OSError, KeyError, ValueError):
        return None
