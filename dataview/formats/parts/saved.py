"""A folder that was saved in parts, opened such that these are loaded as parts are."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any

from dataview.formats.layout import LONGEST_TEXT, NAME, restored
from dataview.plan.node import Node
from dataview.sources import in_order, open_regular

_PART = re.compile(r"(?:(.*)/)?part-[0-9]+")


def is_saved(folder: str) -> bool:
    """Whether a folder is one that was saved."""
    return os.path.isfile(os.path.join(folder, f"{NAME}.json"))


def has_ragged(folder: str) -> bool:
    """Whether rows of a folder differ in length, so that its parts are no parts of rows."""
    return '"ragged"' in _text(folder)


def open_saved(
    folder: str, open_array: Callable[[str], Node], joined: Callable[[list[str], int], Node]
) -> Node:
    """Return the view that was saved.

    `joined` makes one node of the parts of an array, by their paths; it is told how many arrays
    there are, which share the memory for parts.
    """
    whole: dict[str, Node | str] = {}
    parts: dict[str, list[str]] = {}
    for above, _, names in os.walk(folder):
        for name in sorted(names, key=in_order):
            path = os.path.join(above, name)
            at = os.path.relpath(path, folder).replace(os.sep, "/").removesuffix(".npy")
            if not name.endswith(".npy") or name.startswith("."):
                continue
            if found := _PART.fullmatch(at):
                parts.setdefault(found[1] or "", []).append(path)
            else:
                whole[at] = open_array(path)
    own = {at: joined(paths, len(parts)) for at, paths in parts.items()}
    return restored({**whole, **own}, _without_parts(_text(folder)), folder)


def _text(folder: str) -> str:
    with open_regular(os.path.join(folder, f"{NAME}.json")) as file:
        return str(file.read(LONGEST_TEXT + 1).decode(errors="replace"))


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
