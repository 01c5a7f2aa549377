"""What the pass over a CSV file has found: how many rows its parts have, and what the columns are.

It can be kept in a file beside the table, and stands as long as that and the options are the same.
"""

from __future__ import annotations

import json
import os
import zipfile
from typing import Any, NamedTuple

import numpy as np

from dataview.errors import warn
from dataview.formats.texts import cells
from dataview.formats.texts.csv_lines import Groups
from dataview.formats.texts.text_bytes import TextFile
from dataview.sources import new_file, open_regular

VERSION = 3
"""The number of the layout of a kept index, and of how cells are understood."""


class Found(NamedTuple):
    """The rows of a file in groups, and what is seen in each column."""

    groups: Groups
    seen: list[int]


def place_of(file: TextFile) -> str:
    """Return the path of the index of a file."""
    return f"{file.path}.index.npz"


def kept(file: TextFile, how: str) -> Found | None:
    """Return the index that is kept for a file read in some way, None if there is none for it."""
    place = place_of(file)
    if not os.path.isfile(place):
        return None
    try:
        with open_regular(place) as opened, np.load(opened, allow_pickle=False) as found:
            if str(found["of"]) != _title(file, how):
                return None
            read = _checked(found["ends"], found["rows"], found["seen"].tolist())
    except (ValueError, OSError, KeyError, EOFError, zipfile.BadZipFile) as error:
        warn(f"{place} is broken ({error}), and is made anew")
        return None
    return read


def keep(file: TextFile, how: str, found: Found) -> None:
    """Write the index of a file beside it."""
    with new_file(place_of(file)) as target:
        np.savez(
            target,
            of=np.array(_title(file, how)),
            ends=found.groups.ends,
            rows=found.groups.rows,
            seen=np.array(found.seen, "i8"),
        )


def _title(file: TextFile, how: str) -> str:
    state = file.state.size, file.state.time
    return json.dumps([VERSION, state, how])


def _checked(ends: np.ndarray, rows: np.ndarray, seen: list[Any]) -> Found:
    """Return what was found, or raise if this is no index: a file may hold anything."""
    if ends.dtype != np.intp or rows.dtype != np.intp or ends.ndim != 1 or not len(ends):
        raise ValueError("it has no places of rows")
    if ends.shape != rows.shape or rows[0] != 0 or ends[0] < 0:
        raise ValueError("its rows and places do not belong together")
    if (np.diff(rows) < 0).any() or (np.diff(ends) < np.diff(rows)).any():
        raise ValueError("its places do not ascend")
    if not all(type(own) is int and 0 <= own < 2 * cells.TEXT for own in seen):
        raise ValueError("it says nothing of columns")
    return Found(Groups(ends, rows), seen)
