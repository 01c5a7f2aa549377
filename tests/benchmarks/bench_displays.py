"""Time what one looks at: `repr`, HTML and `_describe`, and what a progress bar costs.

Run `python bench_displays.py`. The base of `_describe` is NumPy's min, max and float64 mean, taken
one after the other; the base of a bar is the same pass without one.
"""

from __future__ import annotations

import argparse
import os
import tempfile

import numpy as np
from timing import comparison, heading, timed

import dataview as dv

FIELDS = 1000


def displays(rounds: int) -> None:
    """Compare the displays of many fields, each with its limit in seconds."""
    data = np.random.default_rng(0).random((2000, FIELDS))
    kinds = {
        "windows on one array": dv.View(data, **{f"f{n}": n for n in range(FIELDS)}),
        "members": dv.View(**{f"f{n}": data[:, n].copy() for n in range(FIELDS)}),
    }
    for name, d in kinds.items():
        print(heading(f"{FIELDS} fields, {name}: at most 1 ms for repr, 3 ms for HTML"))
        calls = {"repr(d)": lambda d=d: repr(d), "d._repr_html_()": lambda d=d: d._repr_html_()}
        print(comparison(timed(calls, rounds=rounds)))


def descriptions(rounds: int, megabytes: int) -> None:
    """Compare the description of a large file that is mapped with three passes of NumPy."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.npy")
        rows = np.lib.format.open_memmap(path, "w+", "f4", (megabytes << 18,))
        rows[:] = np.random.default_rng(0).random(len(rows), "f4")
        mapped = np.load(path, mmap_mode="r")
        d = dv.View(x=mapped)
        print(heading(f"a mapped file of {megabytes} MB, float32"))
        contestants = {
            "NumPy: min, max, mean": lambda: (
                mapped.min(), mapped.max(), mapped.mean(dtype=np.float64)
            ),
            "d._describe()": lambda: d._describe(),
        }  # fmt: skip
        print(comparison(timed(contestants, rounds=rounds), {"d._describe()": 4}))


def bars(rounds: int) -> None:
    """Compare a pass over memory that tells how far it is with one that does not."""
    d = dv.View(np.random.default_rng(0).random(20_000_000))

    def told() -> None:
        with dv.progress(lambda done, total: None):
            (d * 2.0 + 1.0)._sum()()

    print(heading("a pass over 160 MB that tells how far it is"))
    contestants = {"without": lambda: (d * 2.0 + 1.0)._sum()(), "with dv.progress": told}
    print(comparison(timed(contestants, rounds=rounds), {"with dv.progress": 1.01}))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--megabytes", type=int, default=256)
    given = parser.parse_args()
    displays(given.rounds)
    descriptions(given.rounds, given.megabytes)
    bars(given.rounds)


if __name__ == "__main__":
    main()
