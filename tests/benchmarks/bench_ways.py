"""The cost card: the same thing asked in several ways, beside NumPy: `python bench_ways.py`.

No way of asking should cost much more than the others in its table.  What is read is compared with
NumPy's own statement for it: what counts is the time above NumPy's.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from timing import Timed, comparison, duration, heading, statements, table, timed

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
    "rows by number: ``v[[3, 5]] = 1.0``",
    "a field: ``d.x[3] = 1.0``",
    "an operator: ``v[3].__iadd__(1.0)``",
    "rows by number: ``v[[3]] = row``",
    "a joined view: ``c[3] = row``",
    "a record: ``r[3] = both``",
    "a record, from another row: ``r[3] = r[5]``",
    "a code: ``k.kind[3] = 1``",
    "a label: ``k.kind[3] = 'b'``",
    "codes of the same labels: ``k.kind[:9] = k.kind[9:18]``",
)
PENDING = statements(
    "NumPy: ``a[3] = 1.0``",
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

IN_PLACE = statements(
    "NumPy: ``a.__iadd__(0.5)``",
    "a number: ``v.__iadd__(0.5)``",
    "an array: ``v.__iadd__(b)``",
    "a view: ``v.__iadd__(w)``",
    "a row: ``v.__isub__(w[3])``",
    "what is computed: ``v.__iadd__(w * 0.5)``",
    "a function: ``np.add(v, w, out=v)``",
    "a function of one operand: ``np.negative(w, out=v)``",
    "an assignment: ``v.__setitem__(slice(None), v * 0.5 + w)``",
    "an assignment of data: ``v.__setitem__(slice(None), (v * 0.5 + w)())``",
)


READING = {
    "v[k]()": "x[k]",
    "d.input[k]()": "x[k]",
    "w.input[k]()": "xw[k]",
    "d[k].input()": "x[k]",
    "d[k, 'input']()": "x[k]",
    "r.inner[k].input()": "x[k]",
    "r[k].inner.input()": "x[k]",
    "v[[1, 2, 3]]()": "x[[1, 2, 3]]",
    "v[mask]()": "x[mask]",
    "v[k][:10]()": "x[k][:10]",
    "v[k][:, ::2]()": "x[k][:, ::2]",
    "v[:, ::2][k]()": "x[:, ::2][k]",
    "v[k][:, cols]()": "x[k][:, cols]",
    "v[:, cols][k]()": "x[np.ix_(k, cols)]",
    "p[1000:33000][:, ::2]()": "x.take(order[1000:33000], 0)[:, ::2].copy()",
    "v[:100, cols]()": "x[:100, cols]",
    "v[5, 3]()": "x[5, 3]",
    "v[5][3]()": "x[5][3]",
    "v[:5, 3]()": "x[:5, 3]",
    "v[7]()": "x[7]",
    "d[7]()": "x[7], y[7]",
    "d[7]._asdict()": "x[7], y[7]",
    "r[7]._asdict()": "x[7], y[7]",
    "v[5:10](copy=True)": "x[5:10].copy()",
    "np.asarray(v[k])": "x[k]",
    "c[100:356]()": "x[100:356].copy()",
    "c[k]()": "x[k]",
    "h[k]()": "x[k]",
    "s[100:356]()": "x.take(order[100:356], 0)",
    "z[100:356]()": "(x[100:356] - mean) / std",
    "z[k]()": "(x[k] - mean) / std",
    "(v[k] * 2)()": "x[k] * 2",
    "(t * 2 - 1)()": "xt * 2 - 1",
    "(g * 2 - 1)()": "xg * 2 - 1",
    "v._reshape(-1)[5:500]()": "x.reshape(-1)[5:500]",
    "w.input._reshape(-1)[5:500]()": "xw[:5].reshape(-1)[5:500]",
    "v[:100]._mean(axis=0)()": "x[:100].mean(axis=0)",
    "(v[:10_000] > 1)._sum()()": "np.count_nonzero(x[:10_000] > 1)",
    "v[:, 3]._unique()()": "np.unique(x[:, 3])",
    "v[:, 3]._median()()": "np.median(x[:, 3])",
    "v[:10_000]._quantile([0.1, 0.9], axis=0)()": "np.quantile(x[:10_000], [0.1, 0.9], axis=0)",
    "v[:, 3]._sorted()()": "np.sort(x[:, 3])",
    "v[:, 3]._sorted(reverse=True)()": "np.sort(x[:, 3])[::-1]",
    "v._sorted(by=v[:, 3])[:100]()": "x[np.argsort(x[:, 3])[:100]]",
    "d.input[5:10]": "x[5:10]",
    "d[5:10].input": "x[5:10]",
}
"""Each way of asking for rows, and what NumPy does for the same."""

FILE = ("f[k]", "f[ks]", "f[::390]", "f[100:356]", "f[run]")
"""Rows of a file: in any order, in ascending order, in steps, and a run of them, once by number."""

COLUMNS = ("[:, ::2]", "[:, 5:12]", "[:, cols]", "[:, mask]")
"""Columns of them, which should cost little more than the rows alone."""

BATCHES = {
    "in order": "mb",
    "in order, from the tenth": "mb[10:]",
    "in order, every other": "mb[::2]",
    "of windows": "mw",
    "of joined data": "mc",
    "standardised": "mz",
    "permuted": "mp",
    "permuted, from the tenth": "mp[10:]",
    "permuted, of joined data": "mcp",
}
"""The minibatches of which one after the other is read."""

LOADERS: dict[str, Any] = {
    "a loader, in order": {},
    "a loader, permuted": {"sampler": "permutation"},
    "a loader, straddling": {"sampler": "permutation", "straddle": True},
    "a loader, padded": {"sampler": "permutation", "tail": "pad"},
    "a loader of 3,000 rows, padded": {"sampler": "permutation", "tail": "pad"},
}
"""The loaders of which one batch after the other is read, with the time to make their orders."""


def reading() -> None:
    """Print what each way of reading costs above NumPy."""
    x = np.random.default_rng(0).normal(size=(ROWS * 50, 128)).astype("f4")
    y, draw = np.arange(len(x)), np.random.default_rng(1)
    v, d = dv.View(x), dv.View(input=x, target=y)
    mean, std, order = x.mean(axis=0), x.std(axis=0), draw.permutation(len(x))
    half = len(x) // 2
    names = {
        "np": np, "x": x, "y": y, "v": v, "d": d, "w": dv.View(x, input=np.s_[:127]),
        "xw": x[:, :127], "r": dv.View(inner=d, y=y), "k": draw.permutation(len(x))[:256],
        "mask": draw.random(len(x)) < 0.005, "c": dv.concat(v[:half], v[half:]),
        "s": v._shuffled(0), "p": v[order], "order": order, "mean": mean, "std": std,
        "z": (v - v._mean(axis=0)) / v._std(axis=0), "cols": [3, 100, 7, 50],
        "t": v[:32_000]._transpose(), "xt": x[:32_000].T, "xg": np.asfortranarray(x[:32_000]),
    }  # fmt: skip
    each = len(x) // 100
    names["h"] = dv.concat(*[v[start : start + each] for start in range(0, len(x), each)])
    names["g"] = dv.View(names["xg"])  # in Fortran order, as the columns of a frame are
    rows = []
    for way, plain in READING.items():
        found = timed({"NumPy": plain, way: way}, names, ROUNDS_OF_LARGE)
        rows.append(_above(f"``{way}``", found["NumPy"], found[way]))
    print(heading("Reading rows: 256 of 200,000 x 128 float32, where not said otherwise"))
    print(table(["way", "NumPy", "view", "above NumPy"], rows))
    numbers = {name: names[name] for name in ("d", "w", "c", "z")}
    made = {
        "mb": numbers["d"]._minibatches(256), "mw": numbers["w"]._minibatches(256),
        "mc": numbers["c"]._minibatches(256), "mz": numbers["z"]._minibatches(256),
        "mp": numbers["d"]._minibatches(256, sampler="permutation"),
        "mcp": numbers["c"]._minibatches(256, sampler="permutation"),
    }  # fmt: skip
    rows = []
    for text, name in BATCHES.items():
        batches = eval(name, dict(made))
        asked = _each(batches, "input" if "input" in batches._fields() else None)
        plain = _copies(x, names["order"] if "permuted" in text else None)
        if text == "standardised":
            plain = _standardised(x, mean, std)
        found = timed({"NumPy": plain, text: asked}, None, ROUNDS_OF_LARGE)
        rows.append(_above(text, found["NumPy"], found[text]))
    for text, options in LOADERS.items():
        own = x[:3000] if "3,000" in text else x
        loader = dv.View(input=own)._loader(256, repeat=True, **options)
        order = np.random.default_rng(2).permutation(len(own)) if "sampler" in options else None
        ways = {"NumPy": _copies(own, order), text: lambda batches=loader: next(batches).input()}
        found = timed(ways, None, ROUNDS_OF_LARGE)
        rows.append(_above(text, found["NumPy"], found[text]))
    print(heading("A minibatch of 256, one after the other"))
    print(table(["minibatches", "NumPy", "view", "above NumPy"], rows))


def files() -> None:
    """Print what columns of rows of a file cost beside the rows."""
    draw = np.random.default_rng(1)
    x = draw.normal(size=(ROWS * 25, 128)).astype("f4")
    k = draw.permutation(len(x))[:256]
    names = {"k": k, "ks": np.sort(k), "run": np.arange(100, 356), "cols": [3, 100, 7, 50]}
    names["mask"] = np.arange(128) % 5 == 0
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "a.npy", x)
        with h5py.File(Path(folder) / "a.h5", "w") as file:
            file.create_dataset("x", data=x, chunks=(1000, 64))
        made = {
            "an .npy file": dv.open(Path(folder) / "a.npy"),
            "HDF5 in chunks of 1,000 x 64": dv.open(Path(folder) / "a.h5").x,
        }
        for name, f in made.items():
            print(heading(f"Columns of 256 rows of 100,000 x 128 float32: {name}"))
            for rows in FILE:
                ways = [f"``{rows}()``", *(f"``{rows}{columns}()``" for columns in COLUMNS)]
                rounds = ROUNDS_OF_LARGE if name.startswith("an") else ROUNDS_OF_LARGE // 4
                print(comparison(timed(statements(*ways), {"f": f, **names}, rounds)))


def _above(text: str, base: Timed, own: Timed) -> list[str]:
    ours, theirs = float(np.median(own.seconds)), float(np.median(base.seconds))
    return [text, duration(theirs), duration(ours), f"{(ours - theirs) * 1e6:.1f} us"]


def _each(batches: Any, field: str | None) -> Callable[[], object]:
    numbers = itertools.cycle(range(len(batches) - 1))
    if field is None:
        return lambda: batches[next(numbers)]()
    return lambda: batches[next(numbers)].input()


def _copies(x: np.ndarray, order: np.ndarray | None) -> Callable[[], object]:
    starts = itertools.cycle(range(0, len(x) - 256, 256))
    if order is None:
        return lambda: x[(start := next(starts)) : start + 256].copy()
    return lambda: x.take(order[(start := next(starts)) : start + 256], 0)


def _standardised(x: np.ndarray, mean: np.ndarray, std: np.ndarray) -> Callable[[], object]:
    starts = itertools.cycle(range(0, len(x) - 256, 256))
    return lambda: (x[(start := next(starts)) : start + 256] - mean) / std


def main() -> None:
    reading()
    files()
    a = np.random.default_rng(0).normal(size=(ROWS, WIDTH))
    v = dv.View(a)
    some = dv.View(a.copy())
    names = {
        "a": a,
        "v": v,
        "d": dv.View(a, x=np.s_[0:2]),
        "c": dv.concat(a[:1000].copy(), a[1000:].copy()),
        "r": dv.View(x=a.copy(), y=a[:, 0].copy()),
        "p": dv.View(a.copy()),
        "q": some,
        "k": dv.View(kind=np.arange(len(a)) % 3, _meta={"kind": {"labels": ["a", "b", "c"]}}),
        "row": np.ones(WIDTH),
        "both": {"x": np.ones(WIDTH), "y": 1.0},
    }
    print(heading("Writing one row"))
    print(comparison(timed(ONE_ROW, names)))
    other = dv.View(a.copy())
    held = [other._sum() for _ in range(1000)], some[100:]._mean(axis=0)
    print(comparison(timed(PENDING, {**names, "held": held})))
    for rows in (1 << 7, 1 << 15):
        a = np.random.default_rng(0).normal(size=(rows, WIDTH))
        names = {"np": np, "a": a, "b": a.copy(), "v": dv.View(a.copy()), "w": dv.View(a * 0.5)}
        print(heading(f"Changing {a.nbytes >> 10} KB in place"))
        print(comparison(timed(IN_PLACE, names)))
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
