"""A folder that was saved in parts, opened such that these are loaded as parts are."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any

from dataview.formats.contents import led_out
from dataview.formats.field_tree import NAME
from dataview.formats.restored_tree import LONGEST_TEXT, restored
from dataview.plan.node import Node
from dataview.sources import (
    Place,
    in_order,
    inside,
    is_url,
    is_web,
    names_below,
    open_regular,
    read_all,
    shown,
)

_PART = re.compile(r"(?:(.*)/)?part-[0-9]+")


def text_of_saved(folder: str, reach: Place) -> str | None:
    """Return what a folder that was saved says of itself, None of another one."""
    if is_web(folder):  # of which there is no list of files
        return None
    place = inside(folder, f"{NAME}.json")
    try:
        if is_url(folder):
            text = read_all(reach._replace(url=place, called=folder))
        else:
            with open_regular(place) as file:
                text = file.read(LONGEST_TEXT + 1)
    except (FileNotFoundError, FileExistsError, NotADirectoryError):  # it may be no folder
        return None
    return text.decode(errors="replace")


def has_ragged(text: str) -> bool:
    """Whether rows that were saved differ in length, so that their parts are no parts of rows."""
    return '"ragged"' in text


def open_saved(
    folder: str,
    text: str,
    reach: Place,
    open_array: Callable[[str], Node],
    joined: Callable[[list[str], int], Node],
) -> Node:
    """Return the view that was saved, of which the text says what it is.

    `joined` makes one node of the parts of an array, by their paths; it is told how many arrays
    there are, which share the memory for parts.
    """
    whole: dict[str, Node | str] = {}
    parts: dict[str, list[str]] = {}
    for name in sorted(_names_in(folder, reach), key=in_order):
        if not name.endswith(".npy") or os.path.basename(name).startswith("."):
            continue
        path, at = inside(folder, name), name.removesuffix(".npy")
        why = None if is_url(folder) else led_out(path, folder)
        if why is not None:
            raise ValueError(f"{path} {why}")
        if found := _PART.fullmatch(at):
            parts.setdefault(found[1] or "", []).append(path)
        else:
            whole[at] = open_array(path)
    own = {at: joined(paths, len(parts)) for at, paths in parts.items()}
    return restored({**whole, **own}, _without_parts(text), shown(folder))


def _names_in(folder: str, reach: Place) -> list[str]:
    """Return the names of the files in a folder and below it, with "/" between folders."""
    if not is_url(folder):
        paths = (os.path.join(above, name) for above, _, names in os.walk(folder) for name in names)
        return [os.path.relpath(path, folder).replace(os.sep, "/") for path in paths]
    return names_below(reach._replace(url=folder))


def _without_parts(text: str) -> str:
    """Return a description as if each array was one file, which it is for its reader.

    >>> _without_parts('{"tree": {"kind": "array", "at": "", "parts": 3}}')
    '{"tree": {"kind": "array", "at": ""}}'
    """

    def change(entry: dict[str, Any]) -> dict[str, Any]:
        if entry.get("kind") == "array":
            entry.pop("parts", None)
        return entry

    try:
        return json.dumps(json.loads(text, object_hook=change))
    except (RecursionError, ValueError):
        return text  # which is told where it is read
