"""How many rows each part of a folder has, and what its columns are, kept in a file in it.

What is known of files elsewhere, or of a list of files, is kept in the cache.
"""

from __future__ import annotations

import ast
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from dataview import cache
from dataview.errors import of_newer, shortened
from dataview.formats.parts.listing import File
from dataview.formats.tables import Kind, Name
from dataview.sources import Place, from_here, is_url, key_of, new_file, open_regular

NAME = ".dataview-parts.json"
VERSION = 4

LONGEST = 1 << 28
"""A manifest of more bytes is taken for a broken one."""

_TEXT = "text"
"""How texts of any length are written among dtypes, which have no name for them."""

Schema = Mapping[Name, Kind]

Reasons = Mapping[Name, str]
"""Why columns of a part cannot be read."""


class BrokenManifest(ValueError):
    """A file that is called as a manifest of parts, and is none that this dataview reads."""


class Known(NamedTuple):
    """What a manifest says: the format of the parts, and of each its rows and columns.

    `labels` are what codes stand for in all parts, and `unread` says of some of these which columns
    are there and cannot be read.
    """

    format: str
    options: Mapping[str, Any]
    parts: Mapping[File, tuple[int, Schema]]
    labels: Mapping[Name, list[object]]
    unread: Mapping[File, Reasons]


def place_of(paths: str | Sequence[str], reach: Place) -> str:
    """Return the path of the manifest of a folder or of files, which need not be there."""
    if isinstance(paths, str) and not is_url(paths):
        return os.path.join(paths, NAME)
    told = paths.rstrip("/") if isinstance(paths, str) else "\n".join(paths)
    return str(cache.path_of(f"parts/{key_of(told, reach.options)}.json"))


def noted_format(place: str, wanted: bool | None) -> str | None:
    """Return the format that the parts have, as the manifest at a path says.

    None is returned if there is none, or if it is broken and is not `wanted`, or made anew.
    """
    if wanted is False or not os.path.isfile(place):
        return None
    try:
        return read(place).format
    except BrokenManifest:
        if wanted:
            return None
        raise


def read(place: str) -> Known:
    """Return what the manifest at a path says, or raise if it is broken."""
    with open_regular(place) as file:
        raw = file.read(LONGEST + 1)
    try:
        _check(len(raw) <= LONGEST)
        found = json.loads(raw)
        if told := of_newer(found["version"], VERSION):
            raise BrokenManifest(
                f"{from_here(place)}, the manifest of the parts, {told}; or manifest=True makes a "
                "new one, and manifest=False passes over it"
            )
        if type(found["version"]) is int and found["version"] < VERSION:
            raise BrokenManifest(
                f"{from_here(place)}, the manifest of the parts, is of version {found['version']}, "
                f"which lacks what version {VERSION} says of columns; manifest=True makes a new "
                "one, and manifest=False passes over it"
            )
        _check(found["version"] == VERSION)
        schemas = [
            {tuple(name): _kind(*kind) for name, kind in schema} for schema in found["schemas"]
        ]
        parts = {
            File(str(name), int(size), int(time)): (_rows(rows), schemas[which])
            for name, size, time, rows, which in found["parts"]
        }
        files = [*parts]
        labels = {tuple(name): [*own] for name, own in found["labels"]}
        unread = {
            files[number]: {tuple(name): str(why) for name, why in own}
            for number, own in found["unread"]
        }
        return Known(str(found["format"]), dict(found["options"]), parts, labels, unread)
    except BrokenManifest:
        raise
    except (ArithmeticError, LookupError, RecursionError, SyntaxError, TypeError, ValueError):
        raise BrokenManifest(
            f"{from_here(place)} is no manifest of parts, or a broken one; manifest=True makes a "
            "new one"
        ) from None


def write(
    place: str,
    files: Sequence[File],
    counted: tuple[Sequence[int], Sequence[Schema], Sequence[int]],
    labels: Mapping[Name, list[object]],
    unread: Mapping[File, Reasons],
    format: str,
    options: Mapping[str, Any],
) -> None:
    """Write a manifest: rows by part, schemas, which of these each has, and what `Known` has."""
    rows, schemas, which = counted
    told_schemas = [
        [[name, _written(kind, name)] for name, kind in schema.items()] for schema in schemas
    ]
    parts = [[*file, count, number] for file, count, number in zip(files, rows, which, strict=True)]
    told: dict[str, Any] = {"format": format, "schemas": told_schemas, "parts": parts}
    told["options"] = as_noted(options)
    told["labels"] = [[name, _with_words(own, name)] for name, own in labels.items()]
    told["unread"] = [
        [number, [*unread[file].items()]] for number, file in enumerate(files) if file in unread
    ]
    text = json.dumps({"version": VERSION, **told})
    cache.folder_at(pathlib.Path(place).parent)
    with new_file(place) as file:
        file.write(text.encode())


def as_noted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as a manifest has them, or raise for one that it has no words for.

    >>> as_noted({"missing": ("-", "?")})
    {'missing': ['-', '?']}
    """
    found = {}
    for name, value in options.items():
        try:
            found[name] = json.loads(json.dumps(value))
        except (TypeError, ValueError):
            raise TypeError(
                f"a manifest notes the options of parts as text, and has no word for {name}="
                f"{shortened(repr(value))}; give what can be written, such as 'str' for str, or "
                "open without manifest="
            ) from None
    return found


def _written(kind: Kind, name: Name) -> list[Any]:
    if kind.dtype.kind == "T":
        text = _TEXT
    else:
        text = repr(npy.dtype_to_descr(kind.dtype))
        if np.dtype(npy.descr_to_dtype(ast.literal_eval(text))) != kind.dtype:
            raise TypeError(
                f"a manifest has no word for the dtype {kind.dtype} of {'.'.join(name)!r}; open "
                "without manifest="
            )
    return [text, list(kind.shape), *kind[2:]]


def _with_words(labels: list[object], name: Name) -> list[object]:
    """Return labels, or raise if one of them cannot be written as text."""
    wrong = [label for label in labels if type(label) not in (str, int, float, bool)]
    if wrong:
        raise TypeError(
            f"a manifest has no word for the label {wrong[0]!r} of {'.'.join(name)!r}; open "
            "without manifest="
        )
    return labels


def _kind(
    dtype: str,
    shape: Any,
    depth: Any,
    has_missing: Any,
    nature: Any,
    nothing: Any,
    lacks_elements: Any,
    meaning: Any,
    seen: Any,
) -> Kind:
    found: Any = np.dtypes.StringDType() if dtype == _TEXT else _dtype(dtype)
    _check(all(type(length) is int and length >= 0 for length in shape))
    _check(type(depth) is int and {type(has_missing), type(lacks_elements)} == {bool})
    _check({type(nature), type(meaning)} == {str} and (nothing is None or type(nothing) is int))
    _check(type(seen) is int and seen >= 0)
    told = has_missing, nature, nothing, lacks_elements, meaning, seen
    return Kind(found, tuple(shape), depth, *told)


def _dtype(text: str) -> Any:
    return np.dtype(npy.descr_to_dtype(ast.literal_eval(text)))


def _rows(count: Any) -> int:
    _check(type(count) is int and 0 <= count < 1 << 62)
    return int(count)


def _check(is_right: bool) -> None:
    if not is_right:
        raise ValueError("the manifest is broken")
