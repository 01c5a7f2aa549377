"""Time minibatches and loaders beside NumPy's loops written by hand: `python bench_minibatches.py`.

A whole epoch is timed, including the time to make the order, the views and their fields. PyTorch,
Hugging Face's datasets and Grain are timed if they can be imported; `--no-peers` leaves them out.
The last two are slow: they are timed for the first batches of an epoch only.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from timing import comparison, duration, heading, megabytes, peak, timed

import dataview as dv

ROWS, WIDTH, SIZE = 1_000_000, 128, 256
FIRST = 500
"""So many batches are timed of libraries that take milliseconds for each."""

MANY = 100_000_000
PAUSE = 0.02

Contestants = dict[str, Callable[[], object]]


def in_order(x: np.ndarray, y: np.ndarray) -> Contestants:
    """Batches one after the other: the limit is a copy of them."""
    d = dv.View(input=x, target=y)
    w = dv.View(x, input=np.s_[: WIDTH - 1], target=np.s_[WIDTH - 1 :])
    starts = range(0, len(x), SIZE)

    def by_slices() -> None:
        for a in starts:
            x[a : a + SIZE].copy(), y[a : a + SIZE].copy()

    def by_fields() -> None:
        batches = d._minibatches(SIZE)
        for one, other in zip(batches.input, batches.target, strict=True):
            one(), other()

    return {
        "NumPy: slice and copy": by_slices,
        "``for b in d._minibatches(256): b.input(), b.target()``": by_views(d),
        "the same, of windows": by_views(w),
        "``zip(batches.input, batches.target)``": by_fields,
    }


def by_views(data: Any, **chosen: Any) -> Callable[[], None]:
    """Return an epoch of minibatches, another one at each call."""
    epochs = iter(range(10**9))

    def visit() -> None:
        if "sampler" in chosen:
            chosen["epoch"] = next(epochs)
        for b in data._minibatches(SIZE, **chosen):
            b.input(), b.target()

    return visit


def shuffled(x: np.ndarray, y: np.ndarray, peers: bool) -> Contestants:
    """Batches in random order: the limit is one gather."""
    d = dv.View(input=x, target=y)
    w = dv.View(x, input=np.s_[: WIDTH - 1], target=np.s_[WIDTH - 1 :])
    stored = np.random.default_rng(0).permutation(len(x))
    loader = d._loader(SIZE, sampler="permutation")

    def by_take() -> None:
        for a in range(0, len(x), SIZE):
            rows = stored[a : a + SIZE]
            np.take(x, rows, axis=0), np.take(y, rows, axis=0)

    def by_loader() -> None:
        for b in loader:
            b.input(), b.target()

    found: Contestants = {
        "NumPy: ``np.take`` over a stored permutation": by_take,
        '``d._minibatches(256, sampler="permutation")``': by_views(d, sampler="permutation"),
        "the same, of windows": by_views(w, sampler="permutation"),
        '``sampler="uniform"``': by_views(d, sampler="uniform"),
        "``d._shuffled(0)._minibatches(256)``": by_views(d._shuffled(0)),
        '``d._loader(256, sampler="permutation")``': by_loader,
    }
    if peers and importlib.util.find_spec("torch"):
        found |= of_torch(x, y)
    return found


def of_torch(x: np.ndarray, y: np.ndarray) -> Contestants:
    """PyTorch's loader over the same arrays; its default goes sample by sample."""
    import torch.utils.data as data
    from torch import from_numpy

    whole = data.TensorDataset(from_numpy(x), from_numpy(y))
    order = data.BatchSampler(data.RandomSampler(whole), SIZE, drop_last=False)
    batches = data.DataLoader(whole, sampler=order, batch_size=None)
    samples = data.DataLoader(whole, batch_size=SIZE, shuffle=True)

    def visit(loader: Any) -> Callable[[], None]:
        def epoch() -> None:
            for _ in loader:
                pass

        return epoch

    return {
        "PyTorch: a loader with a batch sampler": visit(batches),
        "PyTorch: a loader as it comes": visit(samples),
    }


def slow_peers(x: np.ndarray, y: np.ndarray) -> Contestants:
    """The first batches of an epoch in random order, of libraries that take long for each."""
    d = dv.View(input=x, target=y)

    def first(batches: Iterable[Any], read: Callable[[Any], object]) -> Callable[[], None]:
        def visit() -> None:
            for b in itertools.islice(batches, FIRST):
                read(b)

        return visit

    def of_view(b: Any) -> None:
        b.input(), b.target()

    def of_mapping(b: Any) -> None:
        b["input"], b["target"]

    ours = d._minibatches(SIZE, sampler="permutation")
    found: Contestants = {"``d._minibatches(256)``": first(ours, of_view)}
    if importlib.util.find_spec("datasets"):
        found["datasets: shuffled, as NumPy"] = first(of_datasets(x, y), of_mapping)
    if importlib.util.find_spec("grain"):
        found["Grain: a shuffled map, in batches"] = first(of_grain(x, y), of_mapping)
    return found


def of_datasets(x: np.ndarray, y: np.ndarray) -> Iterable[Any]:
    """Batches of Hugging Face's datasets, over the same numbers as a table of Arrow."""
    import datasets
    import pyarrow

    rows = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(x.reshape(-1)), x.shape[1])
    whole = datasets.Dataset(pyarrow.table({"input": rows, "target": y})).with_format("numpy")
    shuffled = whole.shuffle(seed=0)

    class Batches:
        def __iter__(self) -> Any:
            return iter(shuffled.iter(batch_size=SIZE))

    return Batches()


def of_grain(x: np.ndarray, y: np.ndarray) -> Iterable[Any]:
    """Batches of Grain over the same arrays, without threads that read ahead."""
    import grain

    class Source:
        def __len__(self) -> int:
            return len(x)

        def __getitem__(self, row: int) -> dict[str, Any]:
            return {"input": x[row], "target": y[row]}

    batches = grain.MapDataset.source(Source()).shuffle(seed=0).batch(SIZE)
    return batches.to_iter_dataset(grain.ReadOptions(num_threads=0))


def images(rows: int) -> Contestants:
    """A field of bytes that are divided when they are read."""
    u = np.random.default_rng(0).integers(0, 256, (rows, 28, 28), np.uint8)
    d = dv.View(image=u)
    batches = (d.image / np.float32(255))._minibatches(SIZE)

    def by_hand() -> None:
        for a in range(0, len(u), SIZE):
            u[a : a + SIZE].astype("f4") / np.float32(255)

    def by_view() -> None:
        for b in batches:
            b()

    return {
        'NumPy: ``u[i].astype("f4") / 255``': by_hand,
        "``(d.image / np.float32(255))._minibatches(256)``": by_view,
    }


def resumed() -> None:
    """Print the time and memory to resume at 99 % of many rows and read the next batch."""
    d = dv.View(input=np.zeros(MANY, np.uint8))
    loader = d._loader(SIZE, sampler="permutation")
    next(loader)
    state = {**loader.state_dict(), "position": int(MANY * 0.99)}

    def resume() -> Any:
        again = d._loader(SIZE, sampler="permutation")
        again.load_state_dict(state)
        return next(again).input()

    took = []
    for _ in range(11):
        begun = time.perf_counter()
        resume()
        took.append(time.perf_counter() - begun)
    held = megabytes(peak(resume))
    print(f"{MANY:,} rows, from 99 %: {duration(float(np.median(took)))}, holding {held}")


def overlapped() -> Contestants:
    """Steps that wait, with data whose reading waits as long."""

    def slow(number: int) -> np.ndarray:
        time.sleep(PAUSE / 4)
        return np.zeros(8)

    d = dv.View(slow, _length=4 * 12)._probe()
    plain, ahead = d._loader(4), d._loader(4, prefetch=2)

    def visit(loader: Any) -> Callable[[], None]:
        def epoch() -> None:
            for b in loader:
                b()
                time.sleep(PAUSE)

        return epoch

    return {
        "steps of 20 ms alone": lambda: time.sleep(PAUSE * 12),
        "reading for 20 ms before each": visit(plain),
        "the same, ``prefetch=2``": visit(ahead),
    }


def weighed(sample: Any) -> float:
    """Return a number that takes most of a millisecond of Python."""
    total = 0.0
    for number in range(12_000):
        total += number * 1e-6
    return total + float(sample())


def by_processes() -> Contestants:
    """A transform in pure Python, which processes can run in parallel and threads cannot."""
    d = dv.View(np.arange(512.0))

    def visit(loader: Any) -> Callable[[], None]:
        next(loader)  # which begins the workers
        loader.reset()

        def epoch() -> None:
            for _ in loader:
                pass

        return epoch

    return {
        "without workers": visit(d._loader(16, transform=weighed)),
        '``workers=2, kind="process"``': visit(
            d._loader(16, transform=weighed, workers=2, kind="process")
        ),
        "``workers=2``, threads": visit(d._loader(16, transform=weighed, workers=2)),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=ROWS)
    options.add_argument("--rounds", type=int, default=11)
    options.add_argument("--no-peers", action="store_true")
    given = options.parse_args()
    rng = np.random.default_rng(0)
    x, y = rng.random((given.rows, WIDTH), np.float32), np.arange(given.rows)
    batches = -(-given.rows // SIZE)
    tables = [
        ("Minibatches in order", in_order(x, y), batches, 1.0),
        ("Minibatches, shuffled", shuffled(x, y, not given.no_peers), batches, 1.3),
        ("Images of bytes", images(given.rows // 10), -(-given.rows // 10 // SIZE), 1.0),
        ("Reading ahead", overlapped(), 12, 1.15),
        ("A transform bound by Python", by_processes(), 32, 1 / 1.6),
    ]
    if not given.no_peers:
        tables.append(("Other libraries, shuffled", slow_peers(x, y), FIRST, 80))
    for title, contestants, per, limit in tables:
        print(heading(f"{title}: the time of one batch"))
        measured = timed(contestants, rounds=given.rounds)
        limits = {name: 1.4 if "_loader" in name else limit for name in list(contestants)[1:]}
        limits = {name: most for name, most in limits.items() if "threads" not in name}
        limits = {name: most for name, most in limits.items() if "PyTorch" not in name}
        print(comparison(measured, limits, per=per))
    print(heading("Resuming"))
    resumed()


if __name__ == "__main__":
    main()
