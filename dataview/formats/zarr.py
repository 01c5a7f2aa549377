"""Zarr: groups are records, arrays their fields, attributes metadata; in folders and zip files."""

from __future__ import annotations

import os
import weakref
from typing import Any

from dataview.errors import import_library, shortened
from dataview.formats.contents import as_meta, described, tree
from dataview.formats.handles import Claim, OpenFile
from dataview.plan.build import stored
from dataview.plan.node import Node
from dataview.sources import ArrayLike, Reference, Source, by_path


class ZarrSource(ArrayLike):
    """An array of zarr, in a folder or in another store."""

    __slots__ = ("chunk_rows", "file")
    takes_a_list = True  # with it, each chunk is decompressed once
    span_times = 4
    spare_bytes = 1 << 20  # whole chunks are read in any case
    fresh = True

    def __init__(self, array: Any, file: OpenFile | None = None) -> None:
        store = array.store
        self.file = file
        self.chunk_rows = int(array.chunks[0]) if array.ndim else 1
        root = getattr(getattr(store, "root", None), "name", None) or type(store).__name__
        path = f"{root}/{array.path}".rstrip("/")
        super().__init__(array, f"zarr {path}", not array.read_only)

    def __reduce__(self) -> tuple[Any, ...]:
        return ZarrSource, (self.array,)

    def close(self) -> None:
        """Close the store if it was opened by its name."""
        if self.file is not None:
            self.file.close()

    def _check(self) -> None:
        if self.file is not None:
            self.file.check()
        super()._check()

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


# --- a whole store -------------------------------------------------------------------------------

MARKS = ("zarr.json", ".zgroup", ".zarray")
"""The files of which a folder of zarr has one: of version 3, or of version 2."""


def is_zarr(path: str) -> bool:
    """Whether a folder is one of zarr."""
    return any(os.path.isfile(os.path.join(path, mark)) for mark in MARKS)


def open_zarr(path: str, mode: str, claim: Claim | None = None) -> Node:
    """Return the node of a folder of zarr, or of a zip file: its metadata alone is read."""
    zarr = import_library("zarr", "dataview[zarr]")
    if not os.path.isdir(path):
        return _from_zip(zarr, path, mode)
    if not is_zarr(path):
        raise ValueError(f"{path} is no folder of zarr: it has none of {', '.join(MARKS)}")
    store = zarr.storage.LocalStore(path, read_only=mode == "r")
    return _root(zarr, OpenFile(path, mode, store, claim), mode)


def _from_zip(zarr: Any, path: str, mode: str) -> Node:
    if mode != "r":
        raise ValueError(f"{path}: what is in a zip file cannot be changed in place; got {mode!r}")
    with open(path, "rb") as file:
        if file.read(2) != b"PK":
            raise ValueError(f"{path} is neither a folder of zarr nor a zip file with one")
    return _root(zarr, OpenFile(path, mode, zarr.storage.ZipStore(path, mode="r")), mode)


def _root(zarr: Any, file: OpenFile, mode: str) -> Node:
    try:
        found = zarr.open(file.file, mode=mode)
    except Exception as error:  # of any class: metadata may say anything
        file.close()
        raise ValueError(
            f"{file.path} cannot be opened as zarr: {type(error).__name__}: {shortened(str(error))}"
        ) from error
    return _node(zarr, found, file)


def _node(zarr: Any, found: Any, file: OpenFile) -> Node:
    """Return the node of a group or an array."""
    meta = {name: as_meta(value) for name, value in dict(found.attrs).items()}
    if isinstance(found, zarr.Array):
        names = getattr(found.metadata, "dimension_names", None)  # of version 3
        names = meta.pop("_ARRAY_DIMENSIONS", names)  # as xarray notes them in version 2
        if names:
            meta["dimensions"] = list(names)
        return described(stored(ZarrSource(found, file)), meta)
    parts = {name: _node(zarr, part, file) for name, part in sorted(found.members())}
    return tree(parts, {}, meta)
