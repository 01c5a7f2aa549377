"""Ask for the same rows in two ways, and report pairs whose times differ: `python bench_pairs.py`.

Each composition chains verbs at random upon a dataset, and takes rows of the result: by the chain,
by the field's own chain, and directly by the numbers that the chain comes to.  The results must be
equal.  Pairs of which one takes more than LIMIT times the other, twice, are listed.

Then columns of rows of files are asked for in every order, beside the same rows read whole, of
which NumPy takes the columns.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import tempfile
import timeit
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import zarr
from timing import duration

import dataview as dv

ROWS, WIDTH, SIZE = 20_000, 32, 256
LIMIT = 3.0
LEAST = 0.15
"""Differences below this share of a gather by hand are those of a few calls, not of a way."""

FIXED = 4e-4
"""So many seconds a plan for columns of rows of a file may take on a busy machine."""

WORK = {"joined": 1.1, "_shuffled": 0.4}
"""What a step costs by itself: joined rows are gathered from two parts, shuffled ones computed.

The unit is the time of `gathered_by_hand` at that moment, since machines are not equally fast.
"""

Rows = np.ndarray
Step = Callable[[Any, Rows, np.random.Generator], tuple[Any, Rows, str]]


class Way(NamedTuple):
    """How rows are asked for: the text of it, and the call."""

    text: str
    call: Callable[[], Any]


# -------------------- steps: a view and its row numbers become others --------------------


def sliced(view: Any, rows: Rows, draw: np.random.Generator) -> tuple[Any, Rows, str]:
    """Take a slice, forwards or backwards."""
    start = int(draw.integers(0, len(rows) // 8 + 1))
    key = [slice(start, None), slice(start, None, 2), slice(None, None, -1)][draw.integers(3)]
    return view[key], rows[key], f"[{key.start}:{key.stop}:{key.step}]"


def listed(view: Any, rows: Rows, draw: np.random.Generator) -> tuple[Any, Rows, str]:
    """Take rows by their numbers, some twice."""
    key = draw.integers(0, len(rows), max(SIZE, len(rows) // 2))
    return view[key], rows[key], "[numbers]"


def masked(view: Any, rows: Rows, draw: np.random.Generator) -> tuple[Any, Rows, str]:
    """Take rows by a mask."""
    key = draw.random(len(rows)) < 0.7
    return view[key], rows[key], "[mask]"


def shuffled(view: Any, rows: Rows, draw: np.random.Generator) -> tuple[Any, Rows, str]:
    """Shuffle the rows."""
    seed = int(draw.integers(100))
    order = dv.View(np.arange(len(rows)))._shuffled(seed)()
    return view._shuffled(seed), rows[order], f"._shuffled({seed})"


def joined(view: Any, rows: Rows, draw: np.random.Generator) -> tuple[Any, Rows, str]:
    """Join two parts in the other order."""
    cut = int(draw.integers(1, len(rows)))
    return dv.concat(view[cut:], view[:cut]), np.roll(rows, -cut), " joined"


def split(view: Any, rows: Rows, draw: np.random.Generator) -> tuple[Any, Rows, str]:
    """Take the larger part of a split."""
    count = len(rows) * 7 // 8
    return view._split([count, len(rows) - count])[0], rows[:count], "._split"


STEPS: tuple[Step, ...] = (sliced, listed, masked, shuffled, joined, split)


# -------------------- ends: rows of the last view --------------------


def by_slice(view: Any, rows: Rows, draw: np.random.Generator) -> tuple[Any, Rows, str]:
    """Ask for a run of rows."""
    start = int(draw.integers(0, max(1, len(rows) - SIZE)))
    key = slice(start, start + SIZE)
    return lambda part: part[key], rows[key], "[a:b]"


def by_numbers(view: Any, rows: Rows, draw: np.random.Generator) -> tuple[Any, Rows, str]:
    """Ask for rows by number."""
    key = draw.integers(0, len(rows), SIZE)
    return lambda part: part[key], rows[key], "[numbers]"


def by_batch(view: Any, rows: Rows, draw: np.random.Generator) -> tuple[Any, Rows, str]:
    """Ask for a minibatch."""
    number = int(draw.integers(0, len(rows) // SIZE))
    tail = ["short", "drop"][draw.integers(2)]

    def asked(part: Any) -> Any:
        return known(part, tail)[number]

    batches: dict[int, Any] = {}

    def known(part: Any, tail: str) -> Any:
        if id(part) not in batches:
            batches[id(part)] = part, part._minibatches(SIZE, tail=tail)
        return batches[id(part)][1]

    return asked, rows[number * SIZE : (number + 1) * SIZE], f"._minibatches[{number}]"


ENDS: tuple[Step, ...] = (by_slice, by_numbers, by_batch)


def datasets(folder: Path) -> dict[str, Any]:
    """Return records with a field `x` of ROWS rows, of every kind of data."""
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(ROWS, WIDTH)).astype("f4"), np.arange(ROWS)
    np.save(folder / "x.npy", x)
    v = dv.View(x)
    z = (v - v._mean(axis=0)) / v._std(axis=0)
    z[:1]()
    half, each = ROWS // 2, ROWS // 100
    parts = [np.s_[start : start + each] for start in range(0, ROWS, each)]
    file = dv.View(x=dv.open(folder / "x.npy"), y=y)
    return {
        "members": dv.View(x=x, y=y),
        "windows": dv.View(x, x=np.s_[: WIDTH - 1]),
        "columns": dv.View(x=v[:, ::2], y=y),
        "joined": dv.concat(dv.View(x=x[:half], y=y[:half]), dv.View(x=x[half:], y=y[half:])),
        "standardised": dv.View(x=z, y=y),
        "integers": dv.View(x=y, y=x),
        "a file": file,
        "100 parts of a file": dv.concat(*[file[part] for part in parts]),
        "100 arrays": dv.concat(*[dv.View(x=x[part].copy(), y=y[part]) for part in parts]),
    }


def compositions(count: int, seed: int, data: dict[str, Any]) -> Any:
    """Return for each composition the ways that should cost the same."""
    draw = np.random.default_rng(seed)
    for _ in range(count):
        name = list(data)[draw.integers(len(data))]
        whole = data[name]
        field, rows, text = whole.x, np.arange(ROWS), name
        chosen = [STEPS[n] for n in draw.integers(0, len(STEPS), draw.integers(1, 4))]
        view, part = whole, field
        for step in chosen:
            state = draw.bit_generator.state
            view, after, said = step(view, rows, draw)
            draw.bit_generator.state = state  # the same choice for the field alone
            part, rows, _ = step(part, rows, draw)
            assert np.array_equal(after, rows)
            text += said
            if len(rows) < 2 * SIZE:
                break
        ask, rows, said = ENDS[draw.integers(len(ENDS))](view, rows, draw)
        if len(rows) < SIZE // 2:
            continue
        yield [
            Way(f"{text}{said}.x()", lambda view=view, ask=ask: ask(view).x()),
            Way(f"{text}.x{said}()", lambda part=part, ask=ask: ask(part)()),
            _directly(name, field, rows),
        ]


def spellings(count: int, seed: int, data: dict[str, Any]) -> Any:
    """Return for rows and columns, and for values of rows, the orders in which one may ask."""
    draw = np.random.default_rng(seed)
    columns = {"::2": np.s_[::2], "3": 3, "3:20": np.s_[3:20], "[1, 7, 3]": np.array([1, 7, 3])}
    for _ in range(count):
        name = [name for name in data if name != "integers"][draw.integers(len(data) - 1)]
        x = data[name].x
        start = int(draw.integers(0, ROWS - SIZE))
        rows: Any = {"a:b": slice(start, start + SIZE), "numbers": draw.integers(0, ROWS, SIZE)}
        text, key = list(rows.items())[draw.integers(2)]
        said, cut = list(columns.items())[draw.integers(len(columns))]
        if draw.random() < 0.5:
            yield [
                Way(f"({name}.x * 2)[{text}]()", lambda x=x, key=key: (x * 2)[key]()),
                Way(f"({name}.x[{text}] * 2)()", lambda x=x, key=key: (x[key] * 2)()),
            ]
            continue
        ways = [
            Way(f"{name}.x[{text}][:, {said}]()", lambda x=x, k=key, c=cut: x[k][:, c]()),
            Way(f"{name}.x[:, {said}][{text}]()", lambda x=x, k=key, c=cut: x[:, c][k]()),
        ]
        if text == "a:b" or not isinstance(cut, np.ndarray):
            last = Way(f"{name}.x[{text}, {said}]()", lambda x=x, k=key, c=cut: x[k, c]())
            ways.append(last)
        yield ways


ROW_KEYS = {
    "7": 7, "[5, 9000, 3]": np.array([5, 9000, 3]), "5:261": np.s_[5:261], "::70": np.s_[::70],
    "numbers": np.random.default_rng(1).permutation(ROWS)[:SIZE],
    "mask": np.random.default_rng(2).random(ROWS) < SIZE / ROWS,
}  # fmt: skip
COLUMN_KEYS = {
    "3": 3, "5:12": np.s_[5:12], "::5": np.s_[::5], "::-1": np.s_[::-1],
    "[3, 30, 7]": np.array([3, 30, 7]), "mask": np.arange(WIDTH) % 5 == 0,
}  # fmt: skip
"""Rows of a file, and columns of them."""


def stores(folder: Path) -> dict[str, Any]:
    """Return the same data in files of several layouts."""
    x = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype("f4")
    records = np.zeros(ROWS, [("x", "f4", WIDTH), ("y", "i8")])
    records["x"] = x
    for name, array in [("c", x), ("fortran", np.asfortranarray(x)), ("records", records)]:
        np.save(folder / f"{name}.npy", array)
    with h5py.File(folder / "a.h5", "w") as file:
        file["contiguous"] = x
        file.create_dataset("chunks", data=x, chunks=(500, WIDTH // 2))
    array = zarr.create_array(
        folder / "a.zarr", shape=x.shape, chunks=(500, WIDTH // 2), dtype="f4"
    )
    array[:] = x
    hdf5 = dv.open(folder / "a.h5")
    return {
        "npy": dv.open(folder / "c.npy"),
        "fortran": dv.open(folder / "fortran.npy"),
        "records": dv.open(folder / "records.npy").x,
        "hdf5": hdf5.contiguous,
        "hdf5_chunks": hdf5.chunks,
        "reshaped": hdf5.chunks._reshape(-1, WIDTH // 2)._reshape(ROWS, WIDTH),
        "zarr": dv.open(folder / "a.zarr"),
    }


def columns_of_rows(made: dict[str, Any]) -> Any:
    """Return for each store, key of rows and key of columns the ways to ask for both."""
    keys = itertools.product(made.items(), ROW_KEYS.items(), COLUMN_KEYS.items())
    for (name, v), (text, rows), (said, cut) in keys:
        of_rows = cut if isinstance(rows, int) else (np.s_[:], cut)
        after = f"[{said}]" if isinstance(rows, int) else f"[:, {said}]"
        ways = [
            Way(f"{name}[{text}](){after}", lambda v=v, k=rows, c=of_rows: v[k]()[c].copy()),
            Way(f"{name}[{text}]{after}()", lambda v=v, k=rows, c=of_rows: v[k][c]()),
            Way(f"{name}[:, {said}][{text}]()", lambda v=v, k=rows, c=cut: v[:, c][k]()),
        ]
        if not (isinstance(rows, np.ndarray) and isinstance(cut, np.ndarray)):
            ways.append(Way(f"{name}[{text}, {said}]()", lambda v=v, k=rows, c=cut: v[k, c]()))
        yield ways


def _directly(name: str, field: Any, rows: Rows) -> Way:
    """Return the way that asks for the rows themselves: by a slice, if they make one."""
    steps = np.unique(np.diff(rows))
    if len(steps) > 1 or not steps[0]:
        return Way(f"{name}.x[numbers]()", lambda: field[rows]())
    stop = rows[-1] + np.sign(steps[0])
    key = slice(int(rows[0]), int(stop) if stop >= 0 else None, int(steps[0]))
    return Way(f"{name}.x[{key.start}:{key.stop}:{key.step}]()", lambda: field[key]())


def gathered_by_hand(halves: Sequence[np.ndarray], numbers: np.ndarray) -> np.ndarray:
    """Return rows by number of two arrays, one after the other."""
    found, start = np.empty((len(numbers), *halves[0].shape[1:]), halves[0].dtype), 0
    for half in halves:
        places = ((start <= numbers) & (numbers < start + len(half))).nonzero()[0]
        found[places] = half[numbers[places] - start]
        start += len(half)
    return found


def seconds(call: Callable[[], Any]) -> float:
    """Return the least time of a call."""
    timer = timeit.Timer(call)
    number = 1
    while (taken := timer.timeit(number)) < 2e-4:
        number *= 2
    return min([taken, *timer.repeat(3, number)]) / number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = datasets(Path(folder))
        halves = np.zeros((2, ROWS // 2, WIDTH), "f4")
        numbers = np.random.default_rng(0).integers(0, ROWS, SIZE)
        by_hand = functools.partial(gathered_by_hand, halves, numbers)
        asked = (
            compositions(given.count, given.seed, data),
            spellings(given.count // 4, given.seed, data),
        )
        found = sum(_has_slow_way(ways, by_hand) for ways in itertools.chain(*asked))
        print(
            f"{found} of {given.count * 5 // 4} compositions of seed {given.seed} have a slow way"
        )
        files = [_has_slow_way(ways, None) for ways in columns_of_rows(stores(Path(folder)))]
        print(f"{sum(files)} of {len(files)} ways to ask for columns of rows of files are slow")


def _has_slow_way(ways: list[Way], by_hand: Callable[[], Any] | None) -> bool:
    """Whether a way costs much more than another, twice; the ways are printed then."""
    values = [way.call() for way in ways]
    for way, value in zip(ways[1:], values[1:], strict=True):
        assert np.array_equal(values[0], value), f"{ways[0].text} is not {way.text}"
    for _ in range(2):
        unit, times = by_hand and seconds(by_hand), [seconds(way.call) for way in ways]
        least = FIXED if unit is None else LEAST * min(unit, seconds(by_hand or ways[0].call))
        if not _differ(ways, times, unit or 0.0, least):
            return False
    print(", ".join(f"{w.text} {duration(t)}" for w, t in zip(ways, times, strict=True)))
    return True


def _differ(ways: list[Way], times: list[float], unit: float, least: float) -> bool:
    """Whether a way costs much more than another, apart from the work of its steps."""
    work = [unit * sum(cost * w.text.count(step) for step, cost in WORK.items()) for w in ways]
    slowest = max(max(0.0, spent - own) for spent, own in zip(times, work, strict=True))
    return slowest > LIMIT * min(times) and slowest - min(times) > least


if __name__ == "__main__":
    main()
