"""What is known of a folder, kept in a file in it: its files and their headers.

It holds as long as no folder has other entries than when it was made, which their times tell; what
was changed in place is not noticed, and then a file is unlike its header when it is decoded.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.errors import of_newer
from dataview.formats.media.decoders import Header, suffixes_of
from dataview.formats.media.folders import Files, Found
from dataview.plan.node import DType
from dataview.plan.operations import TEXTS
from dataview.sources import open_regular

NAME = ".dataview-manifest.json"
VERSION = 2

LONGEST = 1 << 28
"""A manifest of more bytes is taken for a broken one."""

TICK = 0.05
"""Seconds in which a folder may be changed twice and have the same time."""

_TEXT = "text"
"""How texts of any length are written among dtypes, which have no name for them."""


class Manifest(NamedTuple):
    """Files of a kind, what the headers of all tell, and why others are not among them.

    `options` are those on which the headers depend.
    """

    kind: str
    options: Mapping[str, Any]
    files: Files
    headers: Sequence[tuple[int, Header]]
    lost: Mapping[str, str]


@contextlib.contextmanager
def new(root: str, find: Callable[[], Found]) -> Iterator[tuple[Found, Callable[[Manifest], None]]]:
    """Give what is found in a folder, and what writes the manifest of it there.

    The file of the manifest is made first, since that changes the time of the folder; a file that
    replaced an older one at the end would, too, so that one is kept until its text is written over.
    Times are taken before what they stand for is found, so that later changes are noticed.
    """
    place = os.path.join(root, NAME)
    is_new = not os.path.lexists(place)
    with open(place, "xb" if is_new else "r+b") as file:
        try:
            time.sleep(TICK)
            folders = [*find().names]
            times = _times_of(root, folders)
            found = find()
            if [*found.names] != folders:
                raise ValueError(f"{root} is being changed; make its manifest when that is done")

            def finish(manifest: Manifest) -> None:
                file.write(_text_of(manifest, [*zip(folders, times, strict=True)]).encode())
                file.truncate()
                file.flush()

            yield found, finish
        except BaseException:
            if is_new:
                os.unlink(place)
            raise


def _times_of(root: str, folders: Sequence[str]) -> list[int]:
    """Return when the entries of folders were changed."""
    return [os.stat(os.path.join(root, folder)).st_mtime_ns for folder in folders]


def _text_of(manifest: Manifest, folders: Sequence[tuple[str, int]]) -> str:
    headers = [(n, one.shape, _dtype_text(one.dtype), one.kind) for n, one in manifest.headers]
    return json.dumps(
        {
            "version": VERSION,
            "kind": manifest.kind,
            "options": dict(manifest.options),
            "suffixes": sorted(manifest.files.suffixes),
            "folders": folders,
            "files": [*manifest.files.runs()],
            "headers": headers,
            "lost": dict(manifest.lost),
        }
    )


def why_unfit(root: str) -> str:
    """Say what is the matter with the manifest of a folder that does not fit; "" of none."""
    raw = _raw(root)
    if raw is None:
        return ""
    try:
        version = json.loads(raw)["version"]
    except (LookupError, RecursionError, TypeError, ValueError):
        version = None
    return of_newer(version, VERSION) or "is out of date"


def read(root: str) -> Manifest | None:
    """Return the manifest of a folder, None if there is none that fits."""
    raw = _raw(root)
    try:
        return None if raw is None else _checked(root, json.loads(raw))
    except (OSError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
        return None


def _raw(root: str) -> bytes | None:
    """Return the bytes of the manifest of a folder, None if there is none; of a long one, none."""
    place = os.path.join(root, NAME)
    if not os.path.isfile(place):
        return None
    with open_regular(place) as file:
        raw: bytes = file.read(LONGEST + 1)
    return raw if len(raw) <= LONGEST else b""


def _checked(root: str, found: Any) -> Manifest:
    """Return the manifest that a text describes; the text may say anything."""
    _check(found["version"] == VERSION)
    folders = [folder for folder, _ in found["folders"]]
    runs = [(folder, names) for folder, names in found["files"]]
    _check({folder for folder, _ in runs} <= {*folders})
    _check(not any({"..", "."} & {*folder.split("/")} or "\0" in folder for folder in folders))
    _check(not any(map(os.path.isabs, folders)))
    for _, names in runs:
        together = "".join(names)
        _check(bool(names) and "/" not in together and "\0" not in together)
        _check(not {"", ".", ".."} & {*names})
    _check(_times_of(root, folders) == [time for _, time in found["folders"]])
    files = Files(root, runs, found["suffixes"])
    kind = found["kind"]
    _check(files.suffixes == suffixes_of(kind))
    headers = [(number, _header(*header)) for number, *header in found["headers"]]
    _check(bool(headers) and all(0 <= number < len(files) for number, _ in headers))
    lost = {str(name): str(why) for name, why in found["lost"].items()}
    return Manifest(kind, dict(found["options"]), files, headers, lost)


def _header(shape: Any, dtype: str, kind: str | int) -> Header:
    _check(all(type(length) is int and length >= 0 for length in shape))
    _check(math.prod(shape) < 1 << 62 and type(kind) in (str, int))
    return Header(tuple(shape), _dtype(dtype), kind)


def _dtype_text(dtype: DType) -> str:
    if dtype.kind == "T":
        return _TEXT
    if dtype.hasobject or dtype.names or dtype.subdtype:
        raise TypeError(f"a manifest has no word for the dtype {dtype}; open without manifest=")
    return dtype.str


def _dtype(text: str) -> DType:
    found: DType = np.dtypes.StringDType() if text == _TEXT else np.dtype(text)
    _check(found.kind in "biufc" + TEXTS)
    return found


def _check(is_right: bool) -> None:
    if not is_right:
        raise ValueError("the manifest does not fit")
