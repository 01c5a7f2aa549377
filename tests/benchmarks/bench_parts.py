"""Time an epoch over parts whose opening takes long: `python bench_parts.py --parts 1000`.

Each opening is made to take `--opening` seconds, as on a slow file system; a part has `--rows` rows
of 64 float32, and 262144 rows are 64 MB. The loop spends on each part as long as it takes to load
one, times `--work`. One thread of background loading allows an epoch no less time than the load of
the first part, and then for each part the longer of its load, as it was measured in that epoch, and
of the loop over a part that is in memory, measured before and after. The ratio is that time to the
one that the epoch took, the best of `--rounds`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from timing import heading

import dataview as dv
from dataview.formats import layouts
from dataview.formats.parts import loaded

WIDTH = 64
SAMPLERS = ("linear", "part-linear", "part-linear-permutation", "part-permutation-permutation")


def made(folder: Path, parts: int, rows: int) -> None:
    """Write the parts: one file under many names, since only the time to load them counts."""
    np.save(folder / "part-00000.npy", np.zeros((rows, WIDTH), "f4"))
    for number in range(1, parts):
        os.link(folder / "part-00000.npy", folder / f"part-{number:05d}.npy")


def slow(seconds: float) -> list[float]:
    """Have every opening take so long; return the list to which the time of each load is added."""
    opened, read = layouts.opened, loaded.PartFile.read
    loads: list[float] = []

    def slowly(path: Any, *given: Any, **options: Any) -> Any:
        time.sleep(seconds)
        return opened(path, *given, **options)

    def timed(*given: Any) -> Any:
        start = time.perf_counter()
        found = read(*given)
        loads.append(time.perf_counter() - start)
        return found

    layouts.opened = slowly
    loaded.PartFile.read = timed  # type: ignore[method-assign]
    return loads


def load_of_one(folder: Path, opening: float) -> float:
    """Return the seconds that a part takes to be opened and read."""
    path = folder / "part-00000.npy"
    taken = []
    for _ in range(7):
        start = time.perf_counter()
        dv.open(path)()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken)) + opening


def epoch(view: Any, sampler: str, batch: int, used: float) -> None:
    """Go through an epoch of a view."""
    for found in view._loader(batch, sampler=sampler, seed=3):
        found()
        time.sleep(used)


def seconds_of(call: Callable[[], None]) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    """Print a table with a row for each sampler and each amount of work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, default=50)
    parser.add_argument("--rows", type=int, default=4096, help="rows of a part")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--opening", type=float, default=0.02)
    parser.add_argument("--work", type=float, nargs="*", default=[0.0, 1.0, 2.0])
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        made(folder, given.parts, given.rows)
        dv.open(folder, layout="parts", manifest=True)
        load = load_of_one(folder, given.opening)
        loads = slow(given.opening)
        print(heading(f"{given.parts} parts of {given.rows} rows, {load * 1e3:.1f} ms to load one"))
        print(f"{'sampler':30} {'work':>6} {'epoch, s':>9} {'allowed':>9} {'ratio':>6}")
        part = dv.View(np.ones((given.rows, WIDTH), "f4"))  # zeros may have no memory of their own
        for sampler in SAMPLERS:
            for work in given.work:
                how = sampler, given.batch, work * load / max(1, given.rows // given.batch)
                found = []
                for _ in range(given.rounds):
                    view = dv.open(folder)
                    loops = [seconds_of(partial(epoch, part, *how)) for _ in range(5)]
                    loads.clear()
                    taken = seconds_of(partial(epoch, view, *how))
                    loops += [seconds_of(partial(epoch, part, *how)) for _ in range(5)]
                    loop = float(np.mean(loops))
                    allowed = loads[0] + sum(max(one, loop) for one in loads[1:]) + loop
                    found.append((allowed / taken, taken, allowed))
                ratio, taken, allowed = max(found)
                print(f"{sampler:30} {work:6.1f} {taken:9.3f} {allowed:9.3f} {ratio:6.3f}")


if __name__ == "__main__":
    main()
