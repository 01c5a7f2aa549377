"""Which stores may have data in common: the memory behind arrays, and the files behind paths."""

from __future__ import annotations

import functools
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np


def map_of(array: Any) -> mmap.mmap | None:
    """Return the map of a file behind an array, None if its memory is no file's."""
    owner = _owner_of(array)
    return owner if isinstance(owner, mmap.mmap) else None


def _owner_of(array: Any) -> Any:
    """Return what holds the memory of an array: the first that is not made of something else."""
    owners = list(links_of(array))
    return owners[-1] if owners else None


def links_of(array: Any) -> Iterator[Any]:
    """Yield an array, what it is made of, what that is made of, and so on."""
    while array is not None:
        yield array
        if isinstance(array, memoryview):
            array = array.obj
        else:
            array = array.base if hasattr(array, "base") else getattr(array, "owner", None)


class Store(NamedTuple):
    """What tells a store from others without a comparison with each; `key` is None if unknown."""

    kind: str
    key: Any


_KINDS = {
    "array": ("foreign",),
    "foreign": ("array", "map"),
    "file": ("map",),
    "map": ("file", "foreign"),
    "other": (),
}
"""The kinds of stores, each with the others that may have data in common with it."""


class Home(NamedTuple):
    """Where a source has its elements.

    Sources of one store with the same `layout` have each record, if not each element, at the same
    place.  In memory, elements lie at an `address` and a number of `strides` further on; `space` is
    0, and that of the map of a file its own, since others may show the same at other addresses.
    """

    store: Store
    layout: Any
    space: int | None = None
    address: int = 0
    strides: tuple[int, ...] = ()


def home_of(source: Any) -> Home:
    """Return where a source has its elements."""
    memory, store = source.memory, store_of(source)
    if memory is None:
        root = source.root
        is_known = root.path is not None
        return Home(store, (type(root), root.shape, root.dtype) if is_known else id(root))
    address = memory.__array_interface__["data"][0]
    layout = (address, memory.strides, memory.shape, memory.dtype)
    map_ = map_of(memory)
    return Home(store, layout, 0 if map_ is None else id(map_), address, memory.strides)


def store_of(source: Any) -> Store:
    """Return what tells the store of a source from others."""
    if source.memory is not None:
        owner = _owner_of(source.memory)
        if isinstance(owner, mmap.mmap):
            return Store("map", None)
        known = isinstance(owner, (np.ndarray, bytes, bytearray))
        return Store("array", id(owner)) if known else Store("foreign", None)
    if source.path is not None:
        return store_of_file(source.path)
    return Store("other", id(source.root) if source.root.is_alone else None)


def store_of_file(path: str | os.PathLike[str]) -> Store:
    """Return what tells a file from others."""
    try:
        found = os.stat(path)
    except OSError:  # it is not there, and so shares nothing with what is
        return Store("file", path)
    return Store("file", (found.st_dev, found.st_ino))


def stores_meeting(store: Store, known: Mapping[Store, Any]) -> Sequence[Store]:
    """Return those of the known stores that may have data in common with a store."""
    if store.key is None:
        kinds = (store.kind, *_KINDS[store.kind])
        return [other for other in known if other.kind in kinds]
    return [other for other in _others(store) if other in known]


@functools.lru_cache(maxsize=256)
def _others(store: Store) -> list[Store]:
    """Return all stores that may have data in common with one whose key is known."""
    kinds = (store.kind, *_KINDS[store.kind])
    return [Store(kind, key) for kind in kinds for key in (store.key, None)]
