"""Time files of HDF5 and zarr against their own libraries: `python bench_formats.py`.

The data are `--rows` rows, by default a million, of 64 float32, in each layout. Rows by number,
with repeats, are compared with a plan by hand that reads each chunk once; minibatches in order with
the library's own loop; centring in place with two threads that each take whole chunks.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import zarr
from timing import comparison, heading, timed

import dataview as dv
from dataview.index.sizes import sizes

WIDTH = 64
CHUNK = 1000
PICKED = 10_000
BATCH = 256
MIXED = 16_000
"""About so many rows are mixed at a time, of whole chunks, all of which are read and used up."""
ROUNDS = 7

LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "in chunks": {"chunks": (CHUNK, WIDTH)},
    "in chunks of h5py's choice": {"chunks": True},
    "in chunks, gzip": {"chunks": (CHUNK, WIDTH), "compression": "gzip", "compression_opts": 1},
}
COMPRESSORS: dict[str, Any] = {"zarr": "auto", "zarr without compression": None}


def made(folder: Path, rows: int) -> dict[str, Callable[[], Any]]:
    """Write the data in each layout; return what opens each with its own library."""
    data = np.random.default_rng(0).normal(100, 2, (rows, WIDTH)).astype("f4")
    opened: dict[str, Callable[[], Any]] = {}
    for name, layout in LAYOUTS.items():
        path = folder / f"{name}.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=data, **layout)
        opened[name] = partial(_dataset, path)
    for name, compressors in COMPRESSORS.items():
        path = folder / f"{name}.zarr"
        array = zarr.create_array(
            path, shape=data.shape, dtype="f4", chunks=(CHUNK, WIDTH), compressors=compressors
        )
        array[...] = data
        opened[name] = partial(zarr.open_array, path, mode="r+")
    return opened


def _dataset(path: Path) -> Any:
    return h5py.File(path, "r+")["x"]


def by_hand(array: Any, numbers: np.ndarray) -> np.ndarray:
    """Return rows by number: each chunk of rows is read once, of which NumPy picks."""
    length = (array.chunks or (CHUNK,))[0]
    order = np.argsort(numbers, kind="stable")
    ascending = numbers[order]
    cuts = np.flatnonzero(np.diff(ascending // length)) + 1
    found = np.empty((len(numbers), WIDTH), "f4")
    for places in np.split(order, cuts):
        start = numbers[places[0]] // length * length
        found[places] = array[start : start + length][numbers[places] - start]
    return found


def batches_by_hand(array: Any) -> None:
    for start in range(0, array.shape[0], CHUNK):
        array[start : start + CHUNK]


def batches(view: dv.View) -> None:
    for batch in view._minibatches(CHUNK):
        batch()


def shuffled_by_hand(array: Any, orders: list[np.ndarray]) -> None:
    for numbers in orders:
        array.oindex[numbers] if isinstance(array, zarr.Array) else array[numbers]


def shuffled(view: dv.View, given: Mapping[str, Any]) -> None:
    for batch in view._loader(BATCH, **given):
        batch()


def by_chunks(array: Any) -> dict[str, Any]:
    """Return what a loader is given to mix the rows of some chunks, and to hand out all of them."""
    length = (array.chunks or (CHUNK,))[0]
    pool = max(1, MIXED // length)
    sampler = dv.samplers.chunk_permutation(pool, rows=length)
    return {"sampler": sampler, "num_batches": min(array.shape[0], pool * length) // BATCH}


def centred_by_hand(array: Any) -> None:
    step = 16 * CHUNK
    starts = range(0, array.shape[0], step)

    def centre(start: int) -> None:
        array[start : start + step] = array[start : start + step] - mean

    with ThreadPoolExecutor(2) as pool:
        sums = pool.map(lambda start: array[start : start + step].sum(0, dtype="f8"), starts)
        mean = (sum(sums) / array.shape[0]).astype("f4")
        list(pool.map(centre, starts))


def centred(view: dv.View) -> None:
    view -= view._mean(axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    numbers = np.random.default_rng(1).integers(0, given.rows, PICKED)
    works: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], float]] = {
        f"{PICKED:,} rows in random order": (
            lambda array: by_hand(array, numbers),
            lambda view: view[numbers](),
            1.3,
        ),
        f"Minibatches of {CHUNK:,} in order": (batches_by_hand, batches, 1.1),
        f"Minibatches of {BATCH}, all of {MIXED:,} rows that are mixed": (
            lambda array: shuffled_by_hand(array, orders),
            lambda view: shuffled(view, chosen),
            0.2,
        ),
        # As for data larger than the undo budget, of which no old values are kept.
        "Centring in place": (centred_by_hand, centred, 1.2),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, opened in made(Path(folder), given.rows).items():
            chosen = by_chunks(opened())
            loader = dv.View(np.arange(given.rows))._loader(BATCH, **chosen)
            orders = [np.sort(batch()) for batch in loader]  # as h5py wants it
            for what, (hand, ours, limit) in works.items():
                array = opened()
                both = {
                    "by hand": partial(hand, array),
                    "a view": partial(ours, dv.View(array)),
                }
                with sizes.set(undo_bytes=0):
                    measured = timed(both, rounds=given.rounds)
                print(heading(f"{what}: {name}"))
                print(comparison(measured, {"a view": limit}))


if __name__ == "__main__":
    main()
