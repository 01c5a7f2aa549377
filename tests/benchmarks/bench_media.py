"""Time folders of files: `python bench_media.py` lists many, and decodes pictures by two threads.

The opening of `--files` small pictures in ten folders, by default 100,000, is compared with
`os.scandir` over them; `--pictures` JPEGs of 375 by 500 pixels, in batches of 32, with a pool of
threads that only decodes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image
from timing import comparison, heading, timed

import dataview as dv

BATCH = 32
WORKERS = 2
FOLDERS = 10
ROUNDS = 15


def small_files(folder: Path, count: int) -> None:
    """Write very small pictures, in folders."""
    for name in range(FOLDERS):
        (folder / str(name)).mkdir(parents=True)
    first = folder / "0" / "000000.png"
    Image.new("RGB", (8, 8)).save(first)
    raw = first.read_bytes()
    for number in range(count):
        (folder / str(number % FOLDERS) / f"{number:06d}.png").write_bytes(raw)


def photos(folder: Path, count: int) -> None:
    """Write pictures with some noise, of the size of many photos on the web."""
    (folder / "a").mkdir(parents=True)
    rng = np.random.default_rng(0)
    slope = np.add.outer(np.arange(375), np.arange(500))[..., None] % 256
    for number in range(count):
        noise = rng.integers(0, 40, (375, 500, 3))
        pixels = (slope * rng.random(3) + noise).astype("u1")
        Image.fromarray(pixels).save(folder / "a" / f"{number:04d}.jpg", quality=90)


def scanned(folder: Path) -> None:
    for entry in os.scandir(folder):
        if entry.is_dir():
            for _ in os.scandir(entry.path):
                pass


def decoded(path: Path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.asarray(picture)


def by_pool(paths: list[Path]) -> None:
    with ThreadPoolExecutor(WORKERS) as pool:
        for _ in pool.map(decoded, paths):
            pass


def by_loader(view: dv.View, sampler: str) -> None:
    for batch in view._loader(BATCH, workers=WORKERS, sampler=sampler):
        batch.image()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--pictures", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        many, folder = Path(temporary, "many"), Path(temporary, "photos")
        small_files(many, given.files)
        contestants = {"os.scandir": lambda: scanned(many), "dv.open": lambda: dv.open(many)}
        print(heading(f"{given.files:,} files are listed"))
        print(comparison(timed(contestants, rounds=given.rounds), {"dv.open": 2}))
        dv.open(many, manifest=True)
        contestants["dv.open, with a manifest"] = contestants.pop("dv.open")
        print(comparison(timed(contestants, rounds=given.rounds)))
        photos(folder, given.pictures)
        paths, view = sorted((folder / "a").iterdir()), dv.open(folder)
        works = {
            "a pool of threads": lambda: by_pool(paths),
            "a loader": lambda: by_loader(view, "linear"),
            "a loader, in random order": lambda: by_loader(view, "permutation"),
        }
        print(heading(f"{given.pictures} pictures are decoded by {WORKERS} threads"))
        print(comparison(timed(works, rounds=given.rounds), dict.fromkeys([*works][1:], 1 / 0.9)))


if __name__ == "__main__":
    main()
