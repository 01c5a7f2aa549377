"""What a file holds as nodes: named parts become a record, what describes them its metadata."""

from __future__ import annotations

import contextlib
import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dataview.errors import shortened
from dataview.index import Index
from dataview.index.locks import new_lock
from dataview.plan.build import record
from dataview.plan.fields import Fields, Unread, read_only_meta
from dataview.plan.kinds import Record
from dataview.plan.node import Node
from dataview.sources import Memo, Source

DEEPEST = 100
"""So many groups inside groups are looked into; a file with more is taken for a broken one."""

MOST_REPEATS = 1000
"""So often a group may be met again by other links."""

LONGEST_META = 1 << 12
"""Longer arrays beside the data are no description of it; metadata has their shape and dtype."""


LEADS_OUT = "has a name that leads out of its group"
"""Why a part with the name "", "." or ".." is no field."""

EMPTY = "is a group without arrays"
"""Why a group in which there is nothing is no field; a copy of the file is whole without it."""


ALONE = (".npz", ".h5", ".hdf5", ".zarr", ".mat", ".nc", ".csv", ".tsv", ".parquet", ".feather")
"""Suffixes of data that open by themselves, and that a folder of other data has not as fields."""


def of_its_own(path: str) -> str:
    """Return why a file in a folder of other data is no field of that."""
    return f"is a file of its own: dv.open({path!r})"


def lies_within(path: str, folder: str) -> bool:
    """Whether a path leads into a folder, if all links are followed."""
    place, whole = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath([place, whole]) == whole


def led_out(path: str, folder: str) -> str | None:
    """Return why a path in a folder is no field if a link there leads out of it, else None."""
    if lies_within(path, folder):
        return None
    place = shortened(os.path.realpath(path))
    return (
        f"is reached by a link to {place}, outside of {shortened(folder)}, which a folder from "
        "somebody else might use to show your data; open it by its own path"
    )


class NotData(Exception):
    """Why a part of a file is no field."""


class Reached:
    """The groups of a file that were met, and those that the present one is in.

    Links may lead to a group again and again: those that double at each step would not end.
    """

    def __init__(self) -> None:
        self.above: list[Any] = []
        self._met: set[int] = set()
        self._repeats = 0

    @contextlib.contextmanager
    def inside(self, group: Any) -> Iterator[None]:
        """Note that the members of a group are looked at."""
        self.above.append(group)
        try:
            yield
        finally:
            self.above.pop()

    def check(self, group: Any) -> None:
        """Raise if a group is not to be looked into, or not once more."""
        if group in self.above:
            raise NotData("is a group that contains itself")
        if len(self.above) > DEEPEST:
            raise NotData(f"lies more than {DEEPEST} groups deep")
        self._repeats += hash(group) in self._met
        self._met.add(hash(group))
        if self._repeats > MOST_REPEATS:
            raise NotData(f"is reached by a link, and more than {MOST_REPEATS} lead to groups")


def tree(parts: Mapping[str, Node], lost: Mapping[str, str], meta: Mapping[str, Any]) -> Node:
    """Return the record of named parts; `lost` says of others why they cannot be viewed."""
    found = record(parts)
    told = {name: why if why == EMPTY else Unread(why) for name, why in lost.items()}
    return described(found.replaced(fields=Fields(found.fields.named, told)), meta)


def nested(parts: Mapping[str, Node | str]) -> Node:
    """Return the record of parts by their paths, of which "/" parts the groups.

    A part is a node, or else why it cannot be viewed.  A path through an array is a name as it is.
    """
    groups: dict[str, Any] = {}
    for path in sorted(parts, key=lambda path: path.count("/")):
        *above, name = path.split("/")
        place: Any = groups
        if {"", ".", ".."}.intersection((*above, name)):
            groups[path] = LEADS_OUT
            continue
        if len(above) > DEEPEST:
            groups[path] = f"lies more than {DEEPEST} groups deep"
            continue
        for step in above:
            place = place.setdefault(step, {}) if isinstance(place, dict) else None
        if isinstance(place, dict) and name not in place:
            place[name] = parts[path]
        else:
            groups[path] = parts[path]
    return _grouped(groups)


def _grouped(groups: Mapping[str, Any]) -> Node:
    named: dict[str, Node] = {}
    lost: dict[str, str] = {}
    for name, part in groups.items():
        found = _grouped(part) if isinstance(part, dict) else part
        if isinstance(found, str):
            lost[name] = found
        elif isinstance(part, dict) and not found.fields:
            lost[name] = without_arrays(found)
        else:
            named[name] = found
    return tree(named, lost, {})


def without_arrays(group: Node) -> str:
    """Return why a group is no field if it has none itself."""
    return f"{EMPTY}{_reasons(group)}"


class NoRows(ValueError):
    """A text without rows: it does not say what its columns are."""


def with_arrays(path: str, found: Node) -> Node:
    """Return what was found in a file, or raise if that is a group without any."""
    if isinstance(found, Record) and not found.fields:
        raise ValueError(f"{path} holds no arrays{_reasons(found)}")
    return found


def _reasons(node: Node) -> str:
    return shortened("".join(f"; {name!r} {reason}" for name, reason in node.fields.lost.items()))


def described(node: Node, meta: Mapping[str, Any]) -> Node:
    """Return a node with metadata beside that which it has."""
    return node.replaced(meta=read_only_meta({**node.meta, **meta})) if meta else node


def as_meta(value: Any) -> Any:
    """Return an attribute of a file as Python's own numbers, texts and lists.

    >>> as_meta(np.array([1, 2])), as_meta(np.float32(0.5)), as_meta(b"m/s")
    ([1, 2], 0.5, 'm/s')
    """
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, np.void) and value.dtype.names:  # a tuple could not be saved as text
        return {name: as_meta(value[name]) for name in value.dtype.names}
    if isinstance(value, np.generic):
        return as_meta(value.item())
    if not isinstance(value, np.ndarray):
        return value
    if value.size > LONGEST_META:
        return f"array of shape {value.shape}, {value.dtype}"
    return as_meta(value[()]) if not value.shape else [as_meta(part) for part in value]


class LateSource(Source):
    """An array that `loaded` reads, once, as a source of the same data.

    `opening` says whether the file was closed, and closes it.
    """

    __slots__ = ("_found", "_lock", "dtype", "opening", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], opening: Any) -> None:
        self.shape, self.dtype, self.opening = shape, dtype, opening
        self._found: Source | None = None
        self._lock = new_lock()

    @abstractmethod
    def loaded(self) -> Source:
        """Read the data."""

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return what the index selects, in a new array."""
        self.opening.check()
        with self._lock:
            if self._found is None:
                self._found = self.loaded()
        found = self._found.read(index, {})
        return found if self._found.memory is None else np.array(found)

    @property
    def is_closed(self) -> bool:
        """Whether the file was closed."""
        return bool(self.opening.is_closed)

    def close(self) -> None:
        """Have all views of the file say that it is closed, and keep nothing of it."""
        self.opening.close()
        with self._lock:
            self._found = None
