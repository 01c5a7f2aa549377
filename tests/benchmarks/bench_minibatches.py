"""Time minibatches beside NumPy's loops written by hand: `python bench_minibatches.py`.

One turn is a whole epoch, so that the order, the views and their fields are all paid for.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from timing import comparison, heading, timed

import dataview as dv

ROWS, WIDTH, SIZE = 1_000_000, 128, 256


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=ROWS)
    options.add_argument("--rounds", type=int, default=11)
    given = options.parse_args()
    rng = np.random.default_rng(0)
    x = rng.random((given.rows, WIDTH), np.float32)
    y = np.arange(given.rows)
    d = dv.View(input=x, target=y)
    w = dv.View(x, input=np.s_[: WIDTH - 1], target=np.s_[WIDTH - 1 :])
    stored = rng.permutation(given.rows)
    starts = range(0, given.rows, SIZE)
    epochs = iter(range(10**9))

    def by_slices() -> None:
        for a in starts:
            x[a : a + SIZE].copy(), y[a : a + SIZE].copy()

    def by_take() -> None:
        for a in starts:
            rows = stored[a : a + SIZE]
            np.take(x, rows, axis=0), np.take(y, rows, axis=0)

    def by_views(data: Any, **chosen: Any) -> Callable[[], None]:
        def visit() -> None:
            if "sampler" in chosen:
                chosen["epoch"] = next(epochs)
            for b in data._minibatches(SIZE, **chosen):
                b.input(), b.target()

        return visit

    def by_fields() -> None:
        batches = d._minibatches(SIZE)
        for one, other in zip(batches.input, batches.target, strict=True):
            one(), other()

    sequential = {
        "NumPy: slice and copy": by_slices,
        "``for b in d._minibatches(256): b.input(), b.target()``": by_views(d),
        "the same, of windows": by_views(w),
        "``zip(batches.input, batches.target)``": by_fields,
    }
    shuffled = {
        "NumPy: ``np.take`` over a stored permutation": by_take,
        '``sampler="permutation"``': by_views(d, sampler="permutation"),
        '``sampler="permutation", tail="drop"``': by_views(d, sampler="permutation", tail="drop"),
        "the same, of windows": by_views(w, sampler="permutation"),
        '``sampler="uniform"``': by_views(d, sampler="uniform"),
        "``d._shuffled(0)._minibatches(256)``": by_views(d._shuffled(0)),
    }
    limits = [("Minibatches in order", sequential, 1.0), ("Minibatches, shuffled", shuffled, 1.3)]
    for title, contestants, limit in limits:
        print(heading(f"{title}: the time of one batch"))
        measured = timed(contestants, rounds=given.rounds)
        names = list(contestants)[1:]
        print(comparison(measured, dict.fromkeys(names, limit), per=len(starts)))


if __name__ == "__main__":
    main()
