"""Time a computed permutation beside the one that NumPy stores: `python bench_permutation.py`.

The base is `Generator.permutation` of as many rows as are asked for, in the same run; it stores
them, so that for n rows it would take 8 * n bytes. Every repeat times all systems of a line in
turn, and a ratio is taken within a repeat.
"""

import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from dataview.permutation import Permutation

SIZES = {"10**6": 10**6, "2**20+1": 2**20 + 1, "10**9": 10**9, "2**30+1": 2**30 + 1}
SIZES |= {"2**16": 2**16, "2**40+1": 2**40 + 1}
COUNTS = (256, 4096, 65536)
REPEATS = 25
BASE = "numpy permutation(count)"


def seconds(call: Callable[[], object], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


def systems(n: int, count: int) -> dict[str, Callable[[], object]]:
    """Return what is timed, by name; the base comes first."""
    generator = np.random.default_rng(0)
    order = Permutation(n, 0)
    start = (n - count) // 2
    consecutive = np.arange(start, start + count)
    scattered = generator.integers(0, n, count)
    order.block(0, 1)  # up to 2**16 rows are sorted at the first use
    return {
        BASE: lambda: generator.permutation(count),
        "order(consecutive)": lambda: order(consecutive),
        "order(scattered)": lambda: order(scattered),
        "order.block": lambda: order.block(start, start + count),
        "order.inverse": lambda: order.inverse(scattered),
    }


def print_rates() -> None:
    print("| system | positions | ns per index | ratio to base (p10–p90) |")
    print("|---|---|---:|---:|")
    for name, n in SIZES.items():
        for count in COUNTS:
            calls = systems(n, count)
            times = max(1, COUNTS[-1] // count // 4)
            repeats = [[seconds(call, times) for call in calls.values()] for _ in range(REPEATS)]
            measured = np.array(repeats)
            ratios = measured / measured[:, :1]
            for system, taken, ratio in zip(calls, measured.T, ratios.T, strict=True):
                low, middle, high = np.quantile(ratio, [0.1, 0.5, 0.9])
                print(
                    f"| {system} | {count} of {name} | {np.median(taken) / count * 1e9:.1f} "
                    f"| {middle:.2f} ({low:.2f}–{high:.2f}) |"
                )


def print_jumps() -> None:
    print("| a fresh permutation, then the middle | ms (p10–p90) | peak MB |")
    print("|---|---:|---:|")
    for name, n in SIZES.items():
        for count in (256, 65536):
            start = (n - count) // 2

            def jump(n: int = n, start: int = start, count: int = count) -> None:
                Permutation(n, 0, 1).block(start, start + count)

            low, middle, high = np.quantile(
                [seconds(jump, 1) * 1e3 for _ in range(REPEATS)], [0.1, 0.5, 0.9]
            )
            tracemalloc.start()
            jump()
            peak = tracemalloc.get_traced_memory()[1] / 1e6
            tracemalloc.stop()
            print(f"| {count} of {name} | {middle:.2f} ({low:.2f}–{high:.2f}) | {peak:.2f} |")
    built = seconds(lambda: Permutation(10**9, 0, 1), 10_000)
    print(f"\nTo build one, without asking for a row: {built * 1e6:.2f} us")


if __name__ == "__main__":
    print_rates()
    print()
    print_jumps()
