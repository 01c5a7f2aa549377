"""What a folder is opened as: fields, files or parts; and which partition of it."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dataview.errors import hint, unknown_option
from dataview.formats.parts import (
    PARTS_OPTIONS,
    checked_partition,
    follow,
    has_manifest,
    has_ragged,
    is_saved,
    listed,
    noted_format,
    open_parts,
    open_saved,
    parts_bytes,
)
from dataview.formats.table import FORMATS, named, opened, recognised
from dataview.index.progress import begin
from dataview.plan.node import Node
from dataview.sources import is_url, shown

LAYOUTS = {"fields": "folder", "files": "media", "parts": None}
"""The layouts of a folder, and the formats by which they are opened."""

READ_WHOLE = frozenset({"csv", "json", "json lines", "lines", "archive"})
"""The formats of which a file is read from its first to its last byte to know its rows."""


def laid_out(
    path: str | Sequence[str],
    mode: str,
    format: str | None = None,
    lock: str | None = None,
    durable: str | bool = "process",
    layout: str | None = None,
    partition: Any = None,
    follow: float | None = None,
    **options: Any,
) -> tuple[Node, tuple[int, int] | None]:
    """Return the node of a file, some files or a folder, and the partition to take rows of.

    None is for all rows: of a folder of parts, a partition has some of the parts.
    """
    if layout is not None and layout not in LAYOUTS:
        known = ", ".join(map(repr, LAYOUTS))
        raise ValueError(f"layout= is one of {known}; got {layout!r}{hint(str(layout), LAYOUTS)}")
    if follow is not None:
        return _followed(path, mode, format, layout, partition, follow, options), None
    own = None if partition is None else checked_partition(partition)
    if layout == "parts" or (layout is None and _is_noted(path)):
        with begin("opening", None):
            return _parts(path, mode, format, own, options)
    if layout is not None:
        if not isinstance(path, str) or not os.path.isdir(path):
            raise ValueError(f"layout={layout!r} is one of a folder; {path!r} is none")
        if format is not None:
            raise ValueError(f"layout={layout!r} says what the folder is; leave format= out")
        format = LAYOUTS[layout]
    with begin("opening", None):
        return opened(path, mode, format, lock, durable, **options), own


def _is_noted(path: str | Sequence[str]) -> bool:
    """Whether a manifest says that a folder has parts."""
    return isinstance(path, str) and not is_url(path) and has_manifest(path)


def _parts(
    path: str | Sequence[str],
    mode: str,
    format: str | None,
    partition: tuple[int, int] | None,
    options: Mapping[str, Any],
) -> tuple[Node, tuple[int, int] | None]:
    if mode != "r":
        raise ValueError(
            "parts are loaded as a whole, and not changed in place; open with mode 'r'; got "
            f"{mode!r}"
        )
    if far := next(
        (one for one in ([path] if isinstance(path, str) else path) if is_url(one)), None
    ):
        raise ValueError(
            f"parts are files of this machine, and {shown(far)} is a URL; fetch the folder, as by "
            "fsspec's get(…, recursive=True), or join files: dv.concat([dv.open(url) for url in …])"
        )
    if isinstance(path, str) and not os.path.isdir(path):
        raise NotADirectoryError(
            f"{path} is no folder; layout='parts' takes a folder, or a list of files"
        )
    if not isinstance(path, str) and not path:
        raise ValueError("open takes the path of a file, or those of some files; got an empty list")
    place = os.path.abspath(path) if isinstance(path, str) else [*map(os.path.abspath, path)]
    suffixes = () if format is None else FORMATS[named(format)].suffixes
    name = _format_of(place, options.get("manifest")) if format is None else named(format)
    rest = {key: value for key, value in options.items() if key not in PARTS_OPTIONS}
    wanted = {key: value for key, value in options.items() if key in PARTS_OPTIONS}
    known = [*PARTS_OPTIONS, *[*inspect.signature(FORMATS[name].open).parameters][3:]]
    if wrong := [key for key in rest if key not in known]:
        told = ["mode", "format", "layout", "partition", "max_rows", *known]
        raise unknown_option(wrong[0], told, f"open of {path!r}")
    open_part = functools.partial(opened, mode="r", format=name, **rest)
    if isinstance(place, str) and is_saved(place):
        return _saved(place, open_part, partition, wanted)
    reads_all = name in READ_WHOLE
    return open_parts(place, suffixes, name, open_part, rest, reads_all, partition, **wanted), None


def _saved(
    folder: str,
    open_part: Callable[[str], Node],
    partition: tuple[int, int] | None,
    wanted: dict[str, Any],
) -> tuple[Node, tuple[int, int] | None]:
    """Return a view that was saved in parts; its partitions are of rows if these are ragged."""
    if unfit := [name for name in ("manifest", "max_parts") if wanted.get(name) is not None]:
        raise TypeError(f"{unfit[0]}= is no option of a folder that was saved: {folder}")
    by_rows = partition is not None and has_ragged(folder)
    own = None if by_rows else partition
    kept = parts_bytes(wanted.pop("parts_in_memory", None))

    def joined(paths: list[str], count: int) -> Node:
        share = max(1, kept // count)
        return open_parts(
            paths, (), "npy", open_part, {}, False, own, parts_in_memory=share, **wanted
        )

    node = open_saved(folder, open_part, joined)
    return node, partition if by_rows else None


def _followed(
    path: str | Sequence[str],
    mode: str,
    format: str | None,
    layout: str | None,
    partition: Any,
    seconds: float,
    options: Mapping[str, Any],
) -> Node:
    """Return the lines of a file that grows."""
    if mode != "r":
        raise ValueError(f"lines of a file that grows are read, with mode 'r'; got {mode!r}")
    if not isinstance(path, str) or layout is not None or partition is not None:
        raise TypeError("follow= takes the path of one file, without layout= and partition=")
    if format not in (None, "lines", "txt"):
        raise TypeError(f"follow= is about lines of text, and the format is {format!r}")
    if wrong := sorted(options.keys() - {"encoding", "errors"}):
        raise unknown_option(wrong[0], ["encoding", "errors"], f"open of {path!r} with follow=")
    return follow(path, seconds, **options)


def _format_of(place: str | list[str], manifest: bool | None) -> str:
    """Return the format of parts: as what is noted says, or as that of the first one."""
    if isinstance(place, str) and is_saved(place):
        return "npy"
    noted = noted_format(place, manifest) if isinstance(place, str) else None
    if noted is not None:
        return noted
    found = recognised(listed(place).path(0))
    return next(name for name, row in FORMATS.items() if row is found)
