"""Time changes of a file as large as memory allows: `python bench_files.py`.

The file is centred, with a journal and without, a few rows of it are changed, and rows of it are
written and read in random order. It has `--gigabytes`, by default 4, and is made in `--folder`, by
default the system's folder for temporary files. Each contestant runs in its own process, whose
memory is read from the system, but for changes of a few rows. Its data are written to the disk
before the next one begins. dask with zarr is timed if both can be imported; `--no-peers` leaves it
out.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from timing import Timed, comparison, heading, megabytes, spread, timed

import dataview as dv

WIDTH = 64
CHUNK = 1 << 18
ROUNDS = 5

PROGRAM = """
import sys, time
sys.path.insert(0, sys.argv[1])
path = sys.argv[2]


def most_held():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


{begin}
before, start = most_held(), time.perf_counter()
{work}
print(time.perf_counter() - start, most_held() - before)
"""

WORKS = {
    "NumPy: ``x -= x.mean(axis=0)``": (
        "import numpy as np; x = np.load(path, mmap_mode='r+')",
        "x -= x.mean(axis=0)",
    ),
    "``x -= x._mean(axis=0)``": (
        "import dataview as dv; x = dv.open(path, 'r+')",
        "x -= x._mean(axis=0)",
    ),
    "``x -= x._mean(axis=0)``, ``durable=False``": (
        "import dataview as dv; x = dv.open(path, 'r+', durable=False)",
        "x -= x._mean(axis=0)",
    ),
    "dask, to another zarr array": (
        "import dask.array as da; x = da.from_zarr(path)",
        "(x - x.mean(axis=0)).to_zarr(path + '.centred', overwrite=True)",
    ),
}

SCATTERED_ROWS = 320_000
GIVEN = (
    f"; rows = np.random.default_rng(0).permutation(len(x))[:{SCATTERED_ROWS}]"
    "; value = np.ones((len(rows), x.shape[1]), 'f4')"
)
NUMPY = "import numpy as np; x = np.load(path, mmap_mode='r+')" + GIVEN
DATAVIEW = "import numpy as np, dataview as dv; x = dv.open(path, 'r+')" + GIVEN

SCATTERED = {
    "Writing": {
        "NumPy: ``x[rows] = value``": (NUMPY, "x[rows] = value"),
        "``x[rows] = value``": (DATAVIEW, "x[rows] = value"),
        "``x._shuffled(1)[:n] = 0``": (DATAVIEW, "x._shuffled(1)[: len(rows)] = 0"),
    },
    "Reading": {
        "NumPy: ``x[rows]``": (NUMPY, "x[rows]"),
        "``x[rows]()``": (DATAVIEW, "x[rows]()"),
        "``x._shuffled(1)[:n]()``": (DATAVIEW, "x._shuffled(1)[: len(rows)]()"),
    },
}


def blocks(rows: int) -> list[np.ndarray]:
    """Return the file's blocks: a few of them, repeated."""
    block = np.random.default_rng(0).normal(100, 2, (CHUNK, WIDTH)).astype("f4")
    return [block] * (rows // CHUNK)


def made(path: Path, rows: int, zarr: bool) -> Path:
    """Write the file, as `.npy` or as a zarr array without compression."""
    if zarr:
        import zarr as library

        data = library.create_array(
            str(path), shape=(rows, WIDTH), chunks=(CHUNK, WIDTH), dtype="f4", compressors=None
        )
    else:
        data = np.lib.format.open_memmap(path, "w+", "f4", (rows, WIDTH))
    for number, block in enumerate(blocks(rows)):
        data[number * CHUNK : (number + 1) * CHUNK] = block
    return path


def run(begin: str, work: str, path: Path) -> tuple[float, float]:
    """Return the seconds that a contestant takes, and the bytes that it holds."""
    os.sync()
    tree = str(Path(__file__).parents[2])
    program = PROGRAM.format(begin=begin, work=work)
    done = subprocess.run(
        [sys.executable, "-c", program, tree, str(path)], capture_output=True, text=True, check=True
    )
    seconds, held = map(float, done.stdout.split())
    return seconds, held


def compare(
    works: Mapping[str, tuple[str, str]], paths: Mapping[str, Path], rounds: int, limit: float
) -> str:
    """Return a table of contestants, each run once in a round on its file."""
    names = list(works)
    found = np.empty((len(names), rounds, 2))
    generator = np.random.default_rng(0)
    for turn in range(rounds):
        for number in generator.permutation(len(names)):
            found[number, turn] = run(*works[names[number]], paths[names[number]])
    seconds, held = found[..., 0], found[..., 1].max(axis=1)
    measured = dict(zip(names, map(Timed, seconds, seconds / seconds[0]), strict=True))
    memory = dict(zip(names, map(megabytes, held), strict=True))
    return comparison(measured, {names[1]: limit}, memory=memory)


def small_updates(path: Path, code: str) -> str:
    """Return a table of a small update of a file without a journal, and with one."""
    plain, noted = dv.open(path, "r+", durable=False), dv.open(path, "r+")
    names = {f"``{code}``, ``durable=False``": plain, f"``{code}``": noted}
    calls = {name: partial(exec, compile(code, "", "exec"), {"x": x}) for name, x in names.items()}
    measured = timed(calls)
    without, with_journal = (one.seconds for one in measured.values())
    more = spread(1e6 * (with_journal - without))
    return f"{comparison(measured, {list(names)[1]: 1.6})}\n\nThe journal takes {more} us.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--no-peers", action="store_true")
    given = parser.parse_args()
    rows = max(1, round(given.gigabytes * 2**30 / (4 * WIDTH * CHUNK))) * CHUNK
    peers = not given.no_peers and all(map(importlib.util.find_spec, ("dask", "zarr")))
    works = WORKS if peers else dict(list(WORKS.items())[:-1])
    size = f"a file of {given.gigabytes:g} GB, {rows:,} × {WIDTH} float32"
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        file = made(Path(folder, "x.npy"), rows, False)
        paths = dict.fromkeys(works, file)
        if peers:
            paths[list(works)[-1]] = made(Path(folder, "x.zarr"), rows, True)
        print(heading(f"Centring {size}"))
        print(compare(works, paths, given.rounds, 1.25))
        print(heading("Small updates of the file, without a journal and with it"))
        for keys in (
            "15",
            "15:25",
            "[5, 1000, 15000]",
        ):  # a row across the edge of a page, and others
            print(small_updates(file, f"x[{keys}] = 1"))
        for verb, scattered in SCATTERED.items():
            print(heading(f"{verb} {min(rows, SCATTERED_ROWS):,} random rows of {size}"))
            print(compare(scattered, dict.fromkeys(scattered, file), given.rounds, 1.5))


if __name__ == "__main__":
    main()
