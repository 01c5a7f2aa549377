"""Time indexes, rows elsewhere and streams of parts: `python bench_indexes.py --rows 1000000`.

- An index is a CSV file with names, offsets, lengths and labels; the ratio is the time that opening
  it takes to that of pyarrow's read of the file.
- Random rows of an array on a web server of this machine are read at once; the ratio is the number
  of requests to that of the runs of rows which lie near each other.
- Of parts in CSV that are not counted one column of 30 is summed up and handed out in batches; the
  ratio is the time that this takes to that of the table of the same files.
"""

from __future__ import annotations

import argparse
import gc
import io
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
from timing import heading

import dataview as dv

sys.path.insert(0, str(Path(__file__).parents[1]))
from servers import serving

GAP = 1 << 16
"""Up to so many bytes between two rows are brought with them."""

COLUMNS = 30


def least(calls: Sequence[Callable[[], Any]], rounds: int) -> list[float]:
    """Return the least seconds that each call takes; they are made in turn."""
    found = [float("inf")] * len(calls)
    for _ in range(rounds):
        for number, call in enumerate(calls):
            gc.collect()
            start = time.perf_counter()
            call()
            found[number] = min(found[number], time.perf_counter() - start)
    return found


def line(what: str, ours: float, theirs: float, unit: str = "s") -> None:
    """Print two numbers and their ratio."""
    print(f"{what:40}{ours:9.3f} {unit:9}{theirs:9.3f} {unit:9}{ours / theirs:6.2f}")


def opening(folder: Path, rows: int, rounds: int) -> None:
    """Print how long it takes to open an index."""
    path = folder / "index.csv"
    with path.open("w") as file:
        file.write("filename,offset,length,label\n")
        file.writelines(f"shard-{n % 64}.bin,{n * 100},100,class{n % 10}\n" for n in range(rows))
    calls = [lambda: dv.open(path, get="bytes"), lambda: pyarrow.csv.read_csv(path)]
    line(f"an index of {rows} rows is opened", *least(calls, rounds))


def random_rows(rows: int) -> None:
    """Print how many requests random rows of a remote array take."""
    array = np.zeros((rows, 64), "f4")
    buffer = io.BytesIO()
    np.save(buffer, array)
    chosen = np.random.default_rng(0).integers(0, rows, 100)
    starts = np.unique(chosen) * array[0].nbytes
    runs = 1 + int(np.sum(np.diff(starts) > array[0].nbytes + GAP))
    with serving() as server:
        server.files["/x.npy"] = buffer.getvalue()
        view = dv.open(f"{server.url}/x.npy", keep=False)
        server.asked.clear()
        view[chosen]()
        asked = len(server.asked)
    line(f"100 random rows of {rows} on a server", asked, runs, "requests")


def streams(folder: Path, rows: int, rounds: int) -> None:
    """Print how long a column takes of parts that are not counted, and of their table."""
    names = [f"c{number}" for number in range(COLUMNS)]
    for part in range(4):
        block = np.random.default_rng(part).random((rows // 4, COLUMNS))
        header = ",".join(names)
        np.savetxt(folder / f"part-{part}.csv", block, "%.6f", ",", header=header, comments="")
    calls: dict[str, Callable[[Any], Any]] = {
        "all of a column": lambda d: d.c3(),
        "its sum": lambda d: d.c3._sum()(),
        "it in minibatches of 100": lambda d: [batch.c3() for batch in d._minibatches(100)],
        "a loader's batches of 100": lambda d: list(d._loader(100)),
    }
    for what, call in calls.items():
        parts = partial(dv.open, folder, layout="parts")
        table = partial(dv.open, f"{folder}/*.csv")
        both = [partial(opened, call, parts), partial(opened, call, table)]
        line(f"parts: {what}", *least(both, rounds))


def opened(call: Callable[[Any], Any], view: Callable[[], Any]) -> Any:
    """Return what is made of a view that is opened for it."""
    return call(view())


def main() -> None:
    """Print a line for each measurement: this library, what it is compared with, the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="of the index and the array")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(heading(f"{given.rows} rows"))
    with tempfile.TemporaryDirectory() as place:
        opening(Path(place), given.rows, given.rounds)
    random_rows(given.rows)
    with tempfile.TemporaryDirectory() as place:
        streams(Path(place), given.rows // 10, given.rounds)


if __name__ == "__main__":
    main()
