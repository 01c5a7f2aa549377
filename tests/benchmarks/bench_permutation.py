"""Time a computed permutation beside the one that NumPy stores: `python bench_permutation.py`.

The base is NumPy's `Generator.permutation` of as many rows, in the same run. It stores the order,
which takes 8 * n bytes for n rows.
"""

import timeit
from functools import partial

import numpy as np
from timing import ROUNDS, duration, heading, megabytes, peak, spread, table, timed

from dataview.index.permutation import Permutation

SIZES = {"10**6": 10**6, "2**20+1": 2**20 + 1, "10**9": 10**9, "2**30+1": 2**30 + 1}
SIZES |= {"2**16": 2**16, "2**40+1": 2**40 + 1}
COUNTS = (256, 4096, 65536)
CONTESTANTS = {
    "numpy permutation(count)": "generator.permutation(count)",
    "order(consecutive)": "order(consecutive)",
    "order(scattered)": "order(scattered)",
    "order.block": "order.block(start, start + count)",
    "order.inverse": "order.inverse(scattered)",
}


def limit(n: int, count: int) -> str:
    """Return the limit in ns per index: it is set for blocks of the largest count."""
    return "" if count < COUNTS[-1] else "40" if n == 10**9 else "60"


def print_rates() -> None:
    rows = []
    for name, n in SIZES.items():
        for count in COUNTS:
            generator = np.random.default_rng(0)
            start = (n - count) // 2
            names = {
                "generator": generator,
                "order": Permutation(n, 0),
                "count": count,
                "start": start,
                "consecutive": np.arange(start, start + count),
                "scattered": generator.integers(0, n, count),
            }
            for number, (system, (seconds, ratios)) in enumerate(timed(CONTESTANTS, names).items()):
                per_index = f"{np.median(seconds) / count * 1e9:.1f}"
                ratio, most = (spread(ratios), limit(n, count)) if number else ("base", "")
                rows.append([system, f"{count} of {name}", per_index, ratio, most])
    print(heading("Rows in the order"))
    print(table(["system", "positions", "ns per index", "ratio to base (p10–p90)", "limit"], rows))


def print_jumps() -> None:
    rows = []
    for name, n in SIZES.items():
        for count in (256, 65536):
            start = (n - count) // 2

            def jump(n: int = n, start: int = start, count: int = count) -> None:
                Permutation(n, 0, 1).block(start, start + count)

            taken = spread(np.array(timeit.repeat(jump, number=1, repeat=ROUNDS)) * 1e3)
            limits = ("5 ms, 10 MB",) if n == 10**9 else ("",)
            rows.append([f"{count} of {name}", taken, megabytes(peak(jump)), *limits])
    print(heading("A fresh permutation, then its middle"))
    print(table(["rows", "ms (p10–p90)", "peak", "limit"], rows))
    build = partial(Permutation, 10**9, 0, 1)
    built = np.median(timed({"build": build})["build"].seconds)
    print(f"\nTo build one, without asking for a row: {duration(float(built))}.")


if __name__ == "__main__":
    print_rates()
    print_jumps()
