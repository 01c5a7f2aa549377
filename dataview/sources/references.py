"""Sources that are remembered without being kept: neither memory nor open files stay for it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

import numpy as np

from dataview.sources.sharing import links_of

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
