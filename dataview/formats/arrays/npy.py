"""NumPy's `.npy` files, and folders of them: each is a field by its stem, subfolders are nested.

Pickled objects are loaded if they are asked for by name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib import format as npy

from dataview.formats.contents import (
    ALONE,
    DEEPEST,
    led_out,
    lies_within,
    nested,
    of_its_own,
    with_arrays,
)
from dataview.formats.field_tree import NAME
from dataview.formats.handles import Claim
from dataview.formats.restored_tree import LONGEST_TEXT, restored
from dataview.plan.build import stored
from dataview.plan.node import Node
from dataview.sources import (
    ArraySource,
    HoldsObjects,
    Opening,
    Place,
    WholeOnly,
    in_order,
    open_npy,
    open_regular,
    open_remote_npy,
    shown,
)


def open_array(path: str, mode: str, claim: Claim | None = None, pickle: bool = False) -> Node:
    """Return the node of an `.npy` file; objects are all loaded if `pickle` is true."""
    try:
        return stored(open_npy(path, mode, claim))
    except HoldsObjects:
        if not pickle:
            raise
        if mode != "r":
            raise ValueError(
                f"{path} holds pickled objects, which cannot be changed in place; open it with "
                "mode 'r'"
            ) from None
    with open(path, "rb") as file:
        return stored(objects_in(file))


def open_array_elsewhere(place: Place, pickle: bool = False) -> Node:
    """Return the node of an `.npy` file elsewhere, of which rows are read when they are needed."""
    try:
        return stored(open_remote_npy(place))
    except HoldsObjects as error:
        if not pickle:
            raise
        raise WholeOnly(f"{shown(place.url)} holds objects, which are read whole") from error


def objects_in(file: Any) -> ArraySource:
    """Return the array of objects that begins here in a file; code in the file may run."""
    found: np.ndarray = npy.read_array(file, allow_pickle=True)
    found.flags.writeable = False
    return ArraySource(found)


SUFFIX = ".npy"


def has_arrays(path: str) -> bool:
    """Whether a folder has an array in it, or in one of its subfolders, or was saved."""
    if os.path.isfile(os.path.join(path, f"{NAME}.json")):
        return True
    below = [entry.path for entry in _entries(path) if entry.is_dir()]
    return any(_is_array(entry) for folder in (path, *below) for entry in _entries(folder))


def open_folder(path: str, mode: str, claim: Claim | None = None) -> Node:
    """Return the record of the arrays in a folder and below it: their headers are read."""
    if not os.path.isdir(path):
        raise NotADirectoryError(f"{path} is no folder")
    opening = Opening(path, claim)
    parts: dict[str, Node | str] = {}
    for name, place in _files(path):
        reason = led_out(place, path)
        if reason is None and not name.endswith(SUFFIX):
            reason = of_its_own(place)
        name = name.removesuffix(SUFFIX)
        if reason is not None:
            parts[name] = reason
            continue
        try:
            source = open_npy(place, mode)
        except ValueError as error:
            parts[name] = f"cannot be read: {error}"
            continue
        source.file.opening = opening
        parts[name] = stored(source)
    described = os.path.join(path, f"{NAME}.json")
    if os.path.isfile(described):
        reason = led_out(described, path)
        if reason is not None:
            raise ValueError(f"{described} {reason}")
        with open_regular(described) as file:
            return restored(parts, file.read(LONGEST_TEXT + 1), path)
    return with_arrays(path, nested(parts))


def _files(path: str) -> Iterator[tuple[str, str]]:
    """Yield the name of each array or file of arrays, with '/' for each folder, and its path.

    A link to a folder above it is not followed; one that leads out of all of it is a name alone.
    """
    waiting: list[tuple[str, str, tuple[str, ...]]] = [("", path, (os.path.realpath(path),))]
    while waiting:
        start, folder, above = waiting.pop()
        for entry in _entries(folder):
            place = os.path.realpath(entry.path)
            is_outside = entry.is_dir() and entry.is_symlink() and not lies_within(place, path)
            if _is_array(entry) or entry.name.lower().endswith(ALONE) or is_outside:
                yield start + entry.name, entry.path
            elif entry.is_dir() and place not in above and len(above) <= DEEPEST:
                waiting.append((f"{start}{entry.name}/", entry.path, (*above, place)))


def _entries(path: str) -> list[os.DirEntry[str]]:
    with os.scandir(path) as found:
        shown = (entry for entry in found if not entry.name.startswith("."))
        return sorted(shown, key=lambda entry: in_order(entry.name))


def _is_array(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(SUFFIX) and not entry.is_dir()
