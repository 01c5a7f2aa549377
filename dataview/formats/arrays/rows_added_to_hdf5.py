"""What HDF5 may change of a file when rows are added: all but data that stay where they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dataview.errors import import_library

MOST_NEW = 1 << 20
"""So many bytes of new chunks are kept as if they could change, before all are asked for again."""

Known: TypeAlias = "dict[tuple[str, bytes], tuple[tuple[int, ...], np.ndarray]]"
"""By file and name, the shape that a dataset had, and the places of its chunks: none are packed, so
that they stay there."""


def runs_that_change(growing: Sequence[Any], size: int, known: Known) -> list[tuple[int, int]]:
    """Return the runs of bytes of a file that may change when some of its datasets grow.

    These are those of no data: HDF5 writes rows behind the end, but says in many places where they
    are.  Chunks that are packed move when they get more rows, and others may come in their place.
    To ask where chunks are takes long; `known` has what was found before.
    """
    h5py = import_library("h5py", "dataview[hdf5]")
    file, path = growing[0].file.id, growing[0].file.filename
    kept: list[np.ndarray] = []

    def look(name: bytes) -> None:
        try:
            one = h5py.h5o.open(file, name)
        except (KeyError, OSError, RuntimeError):  # it is broken: all of it may change
            return
        if not isinstance(one, h5py.h5d.DatasetID):
            return
        if not _is_known(one, known.get((path, name))):
            found = _data(h5py, one, any(one == other.id for other in growing))
            known[path, name] = one.shape, found
        kept.append(known[path, name][1])

    h5py.h5o.visit(file, look)
    places = np.concatenate(kept).reshape(-1, 2) if kept else np.empty((0, 2), np.int64)
    places = places[np.argsort(places[:, 0], kind="stable")]
    starts = np.append(0, np.maximum.accumulate(places.sum(axis=1)))
    stops = np.minimum(np.append(places[:, 0], size), size)
    return [(int(a), int(b)) for a, b in zip(starts, stops, strict=True) if a < b]


def _is_known(dataset: Any, known: tuple[tuple[int, ...], np.ndarray] | None) -> bool:
    """Whether chunks are where they were, and hardly any have come: those may be kept, too."""
    made, shape = dataset.get_create_plist(), dataset.shape
    if known is None or made.get_nfilters() or not shape:
        return False
    old = known[0]
    if shape[1:] != old[1:] or shape[0] < old[0]:
        return False
    row = math.prod(shape[1:]) * dataset.get_type().get_size()
    return bool((shape[0] - old[0]) * row <= MOST_NEW)


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
