"""What HDF5 may change of a file when rows are added: all but data that stay where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dataview.errors import import_library


def runs_that_change(growing: Sequence[Any], size: int) -> list[tuple[int, int]]:
    """Return the runs of bytes of a file that may change when some of its datasets grow.

    These are those of no data: HDF5 writes rows behind the end, but says in many places where they
    are.  Chunks that are packed move when they get more rows, and others may come in their place.
    """
    h5py = import_library("h5py", "dataview[hdf5]")
    file = growing[0].file.id
    kept: list[np.ndarray] = []

    def look(name: bytes) -> None:
        try:
            one = h5py.h5o.open(file, name)
        except (KeyError, OSError, RuntimeError):  # it is broken: all of it may change
            return
        if isinstance(one, h5py.h5d.DatasetID):
            kept.append(_data(h5py, one, any(one == other.id for other in growing)))

    h5py.h5o.visit(file, look)
    places = np.concatenate(kept).reshape(-1, 2) if kept else np.empty((0, 2), np.int64)
    places = places[np.argsort(places[:, 0], kind="stable")]
    starts = np.append(0, np.maximum.accumulate(places.sum(axis=1)))
    stops = np.minimum(np.append(places[:, 0], size), size)
    return [(int(a), int(b)) for a, b in zip(starts, stops, strict=True) if a < b]


def _data(h5py: Any, dataset: Any, grows: bool) -> np.ndarray:
    """Return the places and the bytes of the data of a dataset that stay where they are."""
    made = dataset.get_create_plist()
    found: list[int] = []
    layout = made.get_layout()
    if layout == h5py.h5d.CONTIGUOUS and not made.get_external_count():
        place = dataset.get_offset()
        found = [] if place is None else [place, dataset.get_storage_size()]
    elif layout == h5py.h5d.CHUNKED and hasattr(dataset, "chunk_iter"):  # of old h5py all is kept
        whole, rows = dataset.shape[0], made.get_chunk()[0]
        moves = grows and made.get_nfilters() > 0

        def note(chunk: Any) -> None:
            if not (moves and chunk.chunk_offset[0] + rows > whole):
                found.extend((chunk.byte_offset, chunk.size))

        dataset.chunk_iter(note)
    return np.array(found, np.int64)
