"""What a folder is opened as: fields, files or parts; and which partition of it."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dataview.errors import hint, unknown_option
from dataview.formats.catalogue import FORMATS, Format, named, opened, recognised
from dataview.formats.elsewhere import Way, way_in
from dataview.formats.parts import (
    PARTS_OPTIONS,
    Listing,
    checked_partition,
    follow,
    has_ragged,
    listed,
    noted_format,
    open_parts,
    open_saved,
    parts_bytes,
    place_of,
    text_of_saved,
)
from dataview.formats.texts import PACKED
from dataview.index.progress import begin
from dataview.plan.node import Node
from dataview.sources import Place, is_url, local_path, shown

LAYOUTS = {"fields": "folder", "files": "media", "parts": None}
"""The layouts of a folder, and the formats by which they are opened."""

READ_WHOLE = frozenset({"csv", "json", "json lines", "lines", "archive"})
"""The formats of which a file is read from its first to its last byte to know its rows."""

OF_LINES = frozenset({"csv", "json", "json lines", "lines", "listed", "media"})
"""The formats whose files may have lines of text; decoders of a user's own read any files."""


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
    if layout == "parts" or (layout is None and _is_noted(path, options)):
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


def _is_noted(path: str | Sequence[str], options: Mapping[str, Any]) -> bool:
    """Whether a manifest says that a folder has parts."""
    reach = Place("", options.get("storage_options"))
    return isinstance(path, str) and os.path.isfile(place_of(path, reach))


def _parts(
    path: str | Sequence[str],
    mode: str,
    format: str | None,
    partition: tuple[int, int] | None,
    options: Mapping[str, Any],
) -> tuple[Node, tuple[int, int] | None]:
    place = _placed(path, mode)
    is_far = any(map(is_url, [place] if isinstance(place, str) else place))
    way = {key: options[key] for key in Way._fields if is_far and key in options}
    wanted = {key: options[key] for key in PARTS_OPTIONS if key in options}
    rest = {key: value for key, value in options.items() if key not in {*way, *wanted}}
    reach = way_in(dict(way)).to()
    text = text_of_saved(place, reach) if isinstance(place, str) else None
    suffixes = () if format is None else FORMATS[named(format)].suffixes
    whole = listed(place, suffixes, reach) if text is None else None
    name = _name_of(format, whole, place_of(place, reach), options.get("manifest"))
    own = Way._fields if is_far else ()
    known = [*PARTS_OPTIONS, *own, *[*inspect.signature(FORMATS[name].open).parameters][3:]]
    if wrong := [key for key in rest if key not in known]:
        told = ["mode", "format", "layout", "partition", "max_rows", *known]
        raise unknown_option(wrong[0], told, f"open of {path!r}")
    wanted |= {"fill": rest.pop("fill")} if "fill" in rest else {}  # of what parts lack, too
    open_part = functools.partial(opened, mode="r", format=name, **rest, **way)
    if text is not None or whole is None:
        return _saved(str(place), str(text), reach, open_part, partition, wanted)
    reads_all = name in READ_WHOLE or (is_far and FORMATS[name].in_parts is None)
    way_of_parts = (open_part, rest, reads_all, FORMATS[name].is_table)
    asked = (suffixes, name, *way_of_parts, reach, partition)
    return open_parts(whole, place, *asked, **wanted), None


def _placed(path: str | Sequence[str], mode: str) -> str | list[str]:
    """Return the folder of parts, or the files, by URLs or whole paths; raise if it is none."""
    if mode != "r":
        raise ValueError(
            "parts are loaded as a whole, and not changed in place; open with mode 'r'; got "
            f"{mode!r}"
        )
    if not isinstance(path, str) and not path:
        raise ValueError("open takes the path of a file, or those of some files; got an empty list")
    if not isinstance(path, str):
        return [*map(_whole, path)]
    place = _whole(path)
    if not is_url(place) and not os.path.isdir(place):
        raise NotADirectoryError(
            f"{path} is no folder; layout='parts' takes a folder, or a list of files"
        )
    return place


def _whole(path: str) -> str:
    """Return a URL, or the whole path of what is on this machine."""
    here = local_path(path) if is_url(path) else path
    return path if here is None else os.path.abspath(here)


def _saved(
    folder: str,
    text: str,
    reach: Place,
    open_part: Callable[[str], Node],
    partition: tuple[int, int] | None,
    wanted: dict[str, Any],
) -> tuple[Node, tuple[int, int] | None]:
    """Return a view that was saved in parts; its partitions are of rows if these are ragged."""
    if unfit := [name for name in ("manifest", "max_parts") if wanted.get(name) is not None]:
        raise TypeError(f"{unfit[0]}= is no option of a folder that was saved: {shown(folder)}")
    by_rows = partition is not None and has_ragged(text)
    own = None if by_rows else partition
    kept = parts_bytes(wanted.pop("parts_in_memory", None))

    def joined(paths: list[str], count: int) -> Node:
        share = max(1, kept // count)
        whole = listed(paths, (), reach)
        how = {**wanted, "partition": own, "parts_in_memory": share}
        return open_parts(whole, paths, (), "npy", open_part, {}, False, False, reach, **how)

    node = open_saved(folder, text, reach, open_part, joined)
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
    if format is None and (kind := _no_lines(path)):
        raise TypeError(
            f"follow= is about lines of text, and {path!r} is of the format {kind!r}; leave "
            "follow= out, or if it has lines of text, give format='lines'"
        )
    if wrong := sorted(options.keys() - {"encoding", "errors"}):
        raise unknown_option(wrong[0], ["encoding", "errors"], f"open of {path!r} with follow=")
    return follow(path, seconds, **options)


def _no_lines(path: str) -> str | None:
    """Return the format of a file whose data are no lines of text, None if they may be."""
    try:
        found = recognised(path)
    except ValueError:  # of no format: a log, say
        return None
    name = _name(found)
    return None if name in OF_LINES and not path.endswith(PACKED) else name


def _name(found: Format) -> str:
    """Return the name of a format, which of a folder may have a way of its own to open that."""
    return next(name for name, row in FORMATS.items() if found._replace(open=row.open) == row)


def _name_of(format: str | None, parts: Listing | None, noted: str, manifest: bool | None) -> str:
    """Return the format of parts: the given one, or what is noted, or that of the first one."""
    if format is None and parts is not None:
        format = noted_format(noted, manifest)
        return format or _name(recognised(parts.path(0)))
    return "npy" if format is None else named(format)
