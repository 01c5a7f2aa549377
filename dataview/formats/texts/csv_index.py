"""What the pass over a CSV file has found: where groups begin, and what the columns are.

It can be kept in a file beside the table, and stands as long as that and the options are the same.
"""

from __future__ import annotations

import json
import os
import zipfile
from typing import NamedTuple

import numpy as np

from dataview.errors import warn
from dataview.formats.texts import cells
from dataview.formats.texts.text_bytes import TextFile
from dataview.sources import new_file, open_regular

VERSION = 2
"""The number of the layout of a kept index, and of how cells are understood."""


class Found(NamedTuple):
    """Where groups begin, in rows and in bytes, with their end; what is seen in each column."""

    starts: np.ndarray
    places: np.ndarray
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
            read = Found(found["starts"], found["places"], found["seen"].tolist())
        _check(read)
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
            starts=found.starts,
            places=found.places,
            seen=np.array(found.seen, "i8"),
        )


def _title(file: TextFile, how: str) -> str:
    state = file.state.size, file.state.time
    return json.dumps([VERSION, state, how])


def _check(found: Found) -> None:
    """Raise if this is no index: a file may hold anything."""
    starts, places = found.starts, found.places
    if starts.dtype != np.intp or places.dtype != np.intp or starts.ndim != 1 or not len(starts):
        raise ValueError("it has no places of rows")
    if starts.shape != places.shape or starts[0] != 0 or places[0] < 0:
        raise ValueError("its rows and places do not belong together")
    if (np.diff(starts) < 0).any() or (np.diff(places) < np.diff(starts)).any():
        raise ValueError("its places do not ascend")
    if not all(type(seen) is int and 0 <= seen < 2 * cells.TEXT for seen in found.seen):
        raise ValueError("it says nothing of columns")
