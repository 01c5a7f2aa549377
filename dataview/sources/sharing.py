"""Which stores may have data in common: the memory behind arrays, and the files behind paths."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator, Mapping
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


def stores_meeting(store: Store, known: Mapping[Store, Any]) -> Iterable[Store]:
    """Return those of the known stores that may have data in common with a store."""
    others = _KINDS[store.kind]
    if store.key is None:
        return [other for other in known if other.kind == store.kind or other.kind in others]
    unknown = [Store(kind, None) for kind in (store.kind, *others)]
    return [other for other in (store, *unknown) if other in known]
