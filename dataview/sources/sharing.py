"""Which stores may have data in common: the memory behind arrays, and the files behind paths.

Sources are remembered here without being kept: neither memory nor open files stay for it.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

Known = TypeVar("Known")


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


BY_KEY, ANY = True, False

_MEETING = {
    "array": {"array": BY_KEY, "foreign": ANY},
    "foreign": {"array": ANY, "foreign": ANY, "map": ANY},
    "file": {"file": BY_KEY, "map": BY_KEY},
    "map": {"map": BY_KEY, "file": BY_KEY, "foreign": ANY, "other": ANY},
    "other": {"other": BY_KEY, "map": ANY},
}
"""The kinds of stores, each with those that may have data in common with it: stores with the same
key (or with one that is not known), or any.  An `other` may read any file, and not say which."""


class Home(NamedTuple):
    """Where a source has its elements.

    Sources of one store with the same `layout` have each record at the same place: the first `axes`
    of each are those of the records, and a source shows the bytes of a record in `part`.  In
    memory, elements lie at an `address` and a number of `strides` further on; `space` is 0, and
    that of the map of a file its own, since others may show the same at other addresses.
    """

    store: Store
    layout: Any
    axes: int
    part: tuple[int, int]
    space: int | None = None
    address: int = 0
    strides: tuple[int, ...] = ()


def home_of(source: Any) -> Home:
    """Return where a source has its elements."""
    memory, store, axes = source.memory, store_of(source), len(source.shape)
    if memory is None:
        root, part = source.root, bytes_of_member(source.root.dtype, source.member_names)
        alike = (type(root), root.shape, root.dtype) if root.path is not None else id(root)
        return Home(store, alike, len(root.shape), part)
    address, part = memory.__array_interface__["data"][0], (0, memory.itemsize)
    layout = (address, memory.strides, memory.shape, memory.dtype)
    map_ = map_of(memory)
    space = 0 if map_ is None else id(map_)
    return Home(store, layout, axes, part, space, address, memory.strides)


def store_of(source: Any) -> Store:
    """Return what tells the store of a source from others."""
    if source.memory is not None:
        owner = _owner_of(source.memory)
        if isinstance(owner, mmap.mmap):
            return Store("map", _file_of(owner, source.memory))
        known = isinstance(owner, (np.ndarray, bytes, bytearray))
        return Store("array", id(owner)) if known else Store("foreign", None)
    if source.path is not None:
        return store_of_file(source.path)
    return Store("other", id(source.root) if source.root.is_alone else None)


_files: weakref.WeakKeyDictionary[mmap.mmap, Any] = weakref.WeakKeyDictionary()
"""The key of the file of each map, as it was at first: later another file may have the name."""


def _file_of(owner: mmap.mmap, memory: np.ndarray) -> Any:
    """Return what tells the file of a map from others, None if it is not known.

    A map knows the size of its file.  If a file of another size has the name, it has been replaced.
    """
    if owner not in _files:
        names = (getattr(link, "filename", None) for link in links_of(memory))
        name = next(filter(None, names), None)
        is_same = (
            name is not None and os.path.exists(name) and os.path.getsize(name) == owner.size()
        )
        _files[owner] = store_of_file(name).key if name is not None and is_same else None
    return _files[owner]


def are_together(ours: Store, theirs: Store) -> bool:
    """Whether two stores may have data in common."""
    rule = _MEETING[ours.kind].get(theirs.kind)
    return rule is ANY or (
        rule is BY_KEY and (ours.key == theirs.key or None in (ours.key, theirs.key))
    )


def bytes_of_member(dtype: np.dtype[Any], names: Sequence[str]) -> tuple[int, int]:
    """Return where a member begins and ends within a record; of repeated records, all of them.

    >>> bytes_of_member(np.dtype([("a", "i4"), ("b", [("c", "u1"), ("d", "f8")])]), ("b", "d"))
    (5, 13)
    """
    start, stop = 0, dtype.itemsize
    for name in names:
        if dtype.fields is None:
            break
        dtype, offset, *_ = dtype.fields[name]
        start, stop = start + offset, start + offset + dtype.itemsize
    return start, stop


def store_of_file(path: str | os.PathLike[str]) -> Store:
    """Return what tells a file from others."""
    try:
        return Store("file", key_of_file(path))
    except OSError:  # it is not there, and so shares nothing with what is
        return Store("file", path)


def key_of_file(file: str | os.PathLike[str] | int) -> Any:
    """Return what tells a file from others, given its path or its handle."""
    found = os.stat(file)
    return found.st_dev, found.st_ino


def stores_meeting(store: Store, known: Mapping[str, Mapping[Any, Known]]) -> list[Known]:
    """Return what is known, by kind and key, of stores that may have data in common with one."""
    found: list[Known] = []
    for kind, rule in _MEETING[store.kind].items():
        there = known.get(kind)
        if not there:
            continue
        if rule is ANY or store.key is None:
            found.extend(there.values())
        else:
            found.extend(there[key] for key in (store.key, None) if key in there)
    return found


Source: TypeAlias = Any
"""A source; the room of its protocol imports this one."""


class Reference:
    """What finds a source again, or another one of the same data, while somebody holds the data.

    Two references are equal if they are of the same data in the same layout, even if each source
    was made anew.  `holder` returns the object that the data live in, None when it is gone; `key`
    tells apart what lies in it, and `make` makes a source of it.
    """

    __slots__ = ("_hash", "_source", "holder", "key", "make")

    def __init__(
        self,
        source: Source,
        holder: Callable[[], Any],
        key: Hashable,
        make: Callable[[Any], Source | None],
    ) -> None:
        self._source = weakref.ref(source)
        self.holder, self.key, self.make = holder, key, make
        self._hash = hash(key)

    def source(self) -> Source | None:
        """Return a source of the data, None if they are gone."""
        found = self._source()
        if found is not None:
            return found
        held = self.holder()
        return None if held is None else self.make(held)

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Reference):
            return self is other
        if self._hash != other._hash or self.key != other.key:
            return False
        held = self.holder()
        return held is not None and held is other.holder()

    def __hash__(self) -> int:
        return self._hash


def weak(source: Source) -> Reference:
    """Return a reference to a source that nothing else can stand for."""
    return Reference(source, weakref.ref(source), id(source), _itself)


def by_path(source: Source, key: Hashable, make: Callable[[], Source | None]) -> Reference:
    """Return a reference to what is found by its path, for which nobody has to hold anything."""
    return Reference(source, _always, key, lambda always: make())


def _itself(held: Any) -> Any:
    return held


def _always() -> bool:
    return True


def to_member(
    source: Source, parent: Reference, name: str, member_of: Callable[[Source, str], Source]
) -> Reference:
    """Return a reference to a field of the records that another reference finds."""

    def make(held: Any) -> Source | None:
        found = parent.make(held)
        return None if found is None else member_of(found, name)

    return Reference(source, parent.holder, (name, parent.key), make)


# --- memory ------------------------------------------------------------------------------------


def to_memory(
    source: Source, memory: np.ndarray, source_of: Callable[[np.ndarray], Source]
) -> Reference:
    """Return a reference to an array that lives as long as the array that owns its memory."""
    owner = [link for link in links_of(memory) if isinstance(link, np.ndarray)][-1]
    layout, dtype = memory.__array_interface__, memory.dtype

    def make(owner: np.ndarray) -> Source:  # NumPy resizes no array that has weak references
        array = np.asarray(_Memory(owner, layout))
        return source_of(array if array.dtype == dtype else array.view(dtype))

    key = layout["data"][0], memory.shape, memory.strides, dtype
    return Reference(source, weakref.ref(owner), key, make)


class _Memory:
    """An array that was seen before, as NumPy asks for it, and the owner of its memory."""

    def __init__(self, owner: np.ndarray, layout: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = layout
