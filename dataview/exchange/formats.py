"""The formats of files, by the suffixes of their names: how each is opened and saved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dataview.sources import Source, open_npy, save_npy

Open: TypeAlias = Callable[[str, str], Source]
"""Return the source of a file, given its path and the mode "r" or "r+"."""

Save: TypeAlias = Callable[[str, tuple[int, ...], np.dtype[Any], Iterable[np.ndarray]], None]
"""Write a file, given its path, and an array by its shape, its dtype and blocks of its rows."""


class Format(NamedTuple):
    """How the files of a format are opened and saved; None if there is no way."""

    open: Open | None
    save: Save | None


FORMATS = {"npy": Format(open_npy, save_npy)}


_OPENED_BY = {
    ".csv": "dv.View(pandas.read_csv(path))",
    ".h5": 'dv.View(h5py.File(path)["name"])',
    ".hdf5": 'dv.View(h5py.File(path)["name"])',
    ".npz": "dv.View(**np.load(path))",
    ".parquet": "dv.View(pandas.read_parquet(path))",
    ".zarr": "dv.View(zarr.open(path))",
}
"""How files that other libraries open become views."""


def opener_of(path: str) -> Open:
    """Return the function that opens a file, by its suffix."""
    openers = {f".{suffix}": found.open for suffix, found in FORMATS.items() if found.open}
    for suffix, found in openers.items():
        if path.endswith(suffix):
            return found
    way = _OPENED_BY.get(os.path.splitext(path)[1], "")
    raise ValueError(
        f"files that can be opened end in {', '.join(openers)}; got {path!r}"
        + (f", whose data are a view by {way}" if way else "")
    )


def saver_of(path: str, format: str | None) -> Save:
    """Return the function that saves a file, by its format or else by its suffix."""
    format = format or os.path.splitext(path)[1].lstrip(".")
    savers = {suffix: found.save for suffix, found in FORMATS.items() if found.save}
    if format not in savers:
        listed = ", ".join(f".{suffix}" for suffix in savers)
        raise ValueError(f"views are saved as {listed}; got {path!r} (format {format!r})")
    return savers[format]
