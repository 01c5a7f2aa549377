"""Views that are computed once, and kept in a file: as long as they have the same version."""

from __future__ import annotations

import hashlib
import os
import pathlib
import re
from typing import Any

from dataview.cache import make_or_load, path_of
from dataview.formats.catalogue import opened
from dataview.formats.saving import save
from dataview.formats.texts import PACKED
from dataview.plan.kinds import Record
from dataview.plan.node import Node
from dataview.samples import deterministic


def computed_once(
    node: Node, path: str | os.PathLike[str], version: str | int | None, progress: Any = None
) -> Node:
    """Return a node with the same data in a file, which is written if it is not there."""
    if isinstance(version, bool) or not isinstance(version, (str, int)):
        raise TypeError(
            "_cached(path, version=) takes a text or a number, to be changed whenever the data or "
            f"the functions are that the view is computed by; got {version!r}"
        )
    if not deterministic(node):
        raise ValueError(
            "the view is not the same each time it is computed (_deterministic is False); "
            "_freeze() keeps one of its states in memory, _save() in a file"
        )
    place = path_of(path)
    format = None if place.suffix else "folder"
    place = _with_version(place, version)
    make_or_load(
        place,
        lambda fresh: save(node, fresh, format, progress=progress),
        lambda there: None,
    )
    found = opened(str(place), "r", format)
    _check_same(node, found, place)
    return found


def _with_version(place: pathlib.Path, version: str | int) -> pathlib.Path:
    """Return the place of a version of what has a place: as text if that is a name of files.

    >>> _with_version(pathlib.Path("x.csv.gz"), "1.0"), _with_version(pathlib.Path("x"), 2)
    (PosixPath('x-1.0.csv.gz'), PosixPath('x-2'))
    """
    mark = str(version)
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,40}", mark):
        mark = hashlib.sha256(mark.encode()).hexdigest()[:16]
    end = place.suffix
    if end in (*PACKED, ".zip"):
        end = pathlib.Path(place.stem).suffix + end
    return place.with_name(f"{place.name.removesuffix(end)}-{mark}{end}")


def _check_same(node: Node, found: Node, place: pathlib.Path) -> None:
    """Raise if what a file holds cannot be the data of a node: it was made from others."""
    ours, theirs = _kind(node), _kind(found)
    if any(one not in (None, other) for one, other in zip(ours, theirs, strict=True)):
        raise ValueError(
            f"{place} was made from other data: it has {theirs[0]} rows with the fields "
            f"{theirs[1]}, and this view {ours[0]} with {ours[1]}; give another version= or path"
        )


def _kind(node: Node) -> tuple[int | None, list[str] | None]:
    rows = node.shape[0] if node.shape else node.count
    names = node.dtype.names if node.dtype is not None else None  # as a record in .npy has them
    return rows, sorted(node.fields if isinstance(node, Record) else names or ()) or None
