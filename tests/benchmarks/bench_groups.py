"""Statistics of groups, and those without NaN, beside NumPy by hand; pandas where it is installed.

Run it as `python tests/benchmarks/bench_groups.py`.
"""

from __future__ import annotations

import importlib.util
from functools import partial

import numpy as np
from timing import comparison, heading, timed

import dataview as dv

ROWS, GROUPS, ROUNDS = 10_000_000, 1000, 15


def print_groups() -> None:
    draws = np.random.default_rng(0)
    x, key = draws.normal(size=ROWS), draws.integers(0, GROUPS, ROWS)
    d = dv.View(x=x, key=key)
    means = {
        "NumPy: two bincount": lambda: np.bincount(key, x) / np.bincount(key),
        "dataview: _mean": lambda: d._group(by="key")._mean().x(),
    }
    medians = {
        "NumPy: sorted and cut": lambda: _medians(x, key),
        "dataview: _median": lambda: d._group(by="key")._median().x(),
    }
    if importlib.util.find_spec("pandas"):
        import pandas as pd

        frame = pd.DataFrame({"x": x, "key": key})
        means["pandas: groupby"] = lambda: frame.groupby("key").x.mean()
        medians["pandas: groupby"] = lambda: frame.groupby("key").x.median()
    print(heading(f"Means of {ROWS:,} rows in {GROUPS:,} groups"))
    print(comparison(timed(means, rounds=ROUNDS)))
    print(heading("Their medians"))
    print(comparison(timed(medians, rounds=3)))


def _medians(x: np.ndarray, key: np.ndarray) -> np.ndarray:
    order = np.argsort(key, kind="stable")
    parts = np.split(x[order], np.cumsum(np.bincount(key))[:-1])
    return np.array([np.median(part) for part in parts])


def print_present() -> None:
    a = np.random.default_rng(0).normal(size=(ROWS // 10, 10))
    gaps = np.where(np.random.default_rng(1).random(a.shape) < 0.1, np.nan, a)
    for what, data in {"a tenth is NaN": gaps, "nothing is": a}.items():
        for axis in (0, 1):
            v = dv.View(data)
            for name in ("mean", "var"):
                contestants = {
                    f"NumPy: nan{name}": partial(getattr(np, f"nan{name}"), data, axis=axis),
                    f"dataview: _nan{name}": partial(_found, v, f"_nan{name}", axis),
                }
                print(
                    heading(f"The {name} along axis {axis} of {len(a):,} rows of 10, where {what}")
                )
                print(comparison(timed(contestants, rounds=ROUNDS)))


def _found(v: dv.View, name: str, axis: int) -> np.ndarray:
    return getattr(v, name)(axis=axis)()


if __name__ == "__main__":
    print_groups()
    print_present()
