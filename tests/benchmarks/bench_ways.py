"""The cost card: the same thing asked in several ways, beside NumPy: `python bench_ways.py`.

No way of asking should cost much more than the others in its table.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from timing import comparison, heading, statements, timed

import dataview as dv

ROWS, WIDTH = 4000, 8
LARGE = 2_000_000
ROUNDS_OF_LARGE = 11

ONE_ROW = statements(
    "NumPy: ``a[3] = 1.0``",
    "a number: ``v[3] = 1.0``",
    "an array: ``v[3] = row``",
    "a view, as a member of a run: ``v[3] = v[5]``",
    "a view's data: ``v[3] = v[5]()``",
    "a verb: ``v[3]._write(row)``",
    "a field: ``d.x[3] = 1.0``",
    "an operator: ``v[3].__iadd__(1.0)``",
    "rows by number: ``v[[3]] = row``",
    "a joined view: ``c[3] = row``",
    "a record: ``r[3] = both``",
    "with statistics of other data pending: ``p[3] = 1.0``",
    "with a statistic of other rows pending: ``q[3] = 1.0``",
)
ALL = statements(
    "NumPy: ``np.clip(a, -2, 2, out=a)``",
    "``np.clip(v, -2, 2, out=v)``",
    "``v.__setitem__(slice(None), np.clip(v, -2, 2))``",
    "``v._write(np.clip(v, -2, 2))``",
    "a file: ``np.clip(f, -2, 2, out=f)``",
    "a file: ``f.__setitem__(slice(None), np.clip(f, -2, 2))``",
    "a file: ``f._write(np.clip(f, -2, 2))``",
)
SHIFTED = statements(
    "NumPy: ``a.__setitem__(slice(1, None), a[:-1])``",
    "``v.__setitem__(slice(1, None), v[:-1])``",
    "``v.__setitem__(slice(None, -1), v[1:])``",
    "a file: ``f.__setitem__(slice(1, None), f[:-1])``",
)


def main() -> None:
    a = np.random.default_rng(0).normal(size=(ROWS, WIDTH))
    v = dv.View(a)
    other, some = dv.View(a.copy()), dv.View(a.copy())
    pending = [other._sum() for _ in range(1000)], some[100:]._mean(axis=0)
    names = {
        "a": a,
        "v": v,
        "d": dv.View(a, x=np.s_[0:2]),
        "c": dv.concat(a[:1000].copy(), a[1000:].copy()),
        "r": dv.View(x=a.copy(), y=a[:, 0].copy()),
        "p": dv.View(a.copy()),
        "q": some,
        "row": np.ones(WIDTH),
        "both": {"x": np.ones(WIDTH), "y": 1.0},
        "held": pending,
    }
    print(heading("Writing one row"))
    print(comparison(timed(ONE_ROW, names)))
    with tempfile.TemporaryDirectory() as folder:
        large = np.random.default_rng(0).normal(size=(LARGE // WIDTH, WIDTH))
        np.save(Path(folder) / "a.npy", large)
        names = {"np": np, "a": large, "v": dv.View(large.copy())}
        names["f"] = dv.open(Path(folder) / "a.npy", mode="r+")
        print(heading(f"Clipping {large.nbytes >> 20} MB in place"))
        print(comparison(timed(ALL, names, ROUNDS_OF_LARGE)))
        print(heading("Moving the rows by one"))
        print(comparison(timed(SHIFTED, names, ROUNDS_OF_LARGE)))


if __name__ == "__main__":
    main()
