"""A folder that was saved in parts, opened such that these are loaded as parts are."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from dataview.formats.contents import led_out
from dataview.formats.field_tree import NAME, part_of
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
    parts: dict[str, dict[str, str]] = {}
    told, counts = _without_parts(text)
    for name in sorted(_names_in(folder, reach), key=in_order):
        if not name.endswith(".npy") or os.path.basename(name).startswith("."):
            continue
        path, at = inside(folder, name), name.removesuffix(".npy")
        why = None if is_url(folder) else led_out(path, folder)
        if why is not None:
            raise ValueError(f"{path} {why}")
        if found := _PART.fullmatch(at):
            parts.setdefault(found[1] or "", {})[at] = path
        else:
            whole[at] = open_array(path)
    own = {
        at: joined(_described(at, paths, counts.get(at), folder), len(parts))
        for at, paths in parts.items()
    }
    return restored({**whole, **own}, told, shown(folder))


def _described(at: str, paths: Mapping[str, str], count: int | None, folder: str) -> list[str]:
    """Return the paths of as many parts of an array as were saved, or raise if one is missing."""
    if count is None:  # it is in the folder, and was not saved with the others
        return [*paths.values()]
    places = [part_of(at, number) for number in range(min(count, len(paths) + 1))]
    lacking = next((place for place in places if place not in paths), None)
    if lacking is not None:
        raise ValueError(
            f"{shown(folder)}: the array {lacking!r} is missing, of {count} that were saved"
        )
    return [paths[place] for place in places]


def _names_in(folder: str, reach: Place) -> list[str]:
    """Return the names of the files in a folder and below it, with "/" between folders."""
    if not is_url(folder):
        paths = (os.path.join(above, name) for above, _, names in os.walk(folder) for name in names)
        return [os.path.relpath(path, folder).replace(os.sep, "/") for path in paths]
    return names_below(reach._replace(url=folder))


def _without_parts(text: str) -> tuple[str, dict[str, int]]:
    """Return a description as if each array was one file, and in how many parts arrays are.

    >>> _without_parts('{"tree": {"kind": "array", "at": "", "parts": 3}}')
    ('{"tree": {"kind": "array", "at": ""}}', {'': 3})
    """
    counts: dict[str, int] = {}

    def change(entry: dict[str, Any]) -> dict[str, Any]:
        at, count = entry.get("at"), entry.get("parts")
        if entry.get("kind") == "array" and type(at) is str and type(count) is int and count > 0:
            counts[at] = entry.pop("parts")
        return entry

    try:
        return json.dumps(json.loads(text, object_hook=change)), counts
    except (RecursionError, ValueError):
        return text, {}  # which is told where it is read
