"""Time expressions beside NumPy written by hand and other engines: `python bench_expressions.py`.

Other libraries are timed if they can be imported; `--no-peers` leaves them out. `--elements` is the
size of the large arrays, by default 50 million.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from timing import comparison, heading, timed

import dataview as dv

WIDTH = 64
ELEMENTS = 50_000_000
BLOCK = 1 << 18
ROUNDS_OF_LARGE = 11
SMALL_SIZES = (64, 1024, 16_384, 65_536, 262_144, 1_048_576)

Contestants = dict[str, Callable[[], object]]


def in_halves(work: Callable[[slice], object], rows: int, pool: ThreadPoolExecutor) -> None:
    """Do the work on two threads, each of them on one half."""
    list(pool.map(work, [slice(0, rows // 2), slice(rows // 2, rows)]))


# -------------------- peers --------------------


def numexpr(module: Any, x: np.ndarray, rows: dict[str, np.ndarray], out: np.ndarray) -> dict:
    names = {"x": x, **rows, "two": x.dtype.type(2), "one": x.dtype.type(1)}

    def run(text: str) -> Callable[[], object]:
        return lambda: module.evaluate(text, local_dict=names, global_dict={}, out=out)

    return {"affine": run("(x - mu) / sd * two + one"), "exp": run("exp(-(x * x) / two)")}


def numba(module: Any, x: np.ndarray, rows: dict[str, np.ndarray], out: np.ndarray) -> dict:
    flat, target = x.reshape(-1), out.reshape(-1)
    mu, sd, two = rows["mu"], rows["sd"], x.dtype.type(2)

    @module.njit(parallel=True)
    def affine(x: Any, mu: Any, sd: Any, out: Any) -> None:
        for i in module.prange(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = (x[i, j] - mu[j]) / sd[j] * two + 1

    @module.njit(parallel=True)
    def exp(x: Any, out: Any) -> None:
        for i in module.prange(x.size):
            out[i] = np.exp(-(x[i] ** 2) / two)

    return {"affine": lambda: affine(x, mu, sd, out), "exp": lambda: exp(flat, target)}


def torch(module: Any, x: np.ndarray, rows: dict[str, np.ndarray], out: np.ndarray) -> dict:
    module.set_num_threads(2)
    a, mu, sd = (module.from_numpy(one) for one in (x, rows["mu"], rows["sd"]))
    return {
        "affine": lambda: (a - mu) / sd * 2 + 1,
        "exp": lambda: module.exp(-(a**2) / 2),
    }


def jax(module: Any, x: np.ndarray, rows: dict[str, np.ndarray], out: np.ndarray) -> dict:
    module.config.update("jax_enable_x64", True)
    jnp = importlib.import_module("jax.numpy")
    a, mu, sd = (jnp.asarray(one) for one in (x, rows["mu"], rows["sd"]))
    return {
        "affine": lambda: ((a - mu) / sd * 2 + 1).block_until_ready(),
        "exp": lambda: jnp.exp(-(a**2) / 2).block_until_ready(),
    }


def dask(module: Any, x: np.ndarray, rows: dict[str, np.ndarray], out: np.ndarray) -> dict:
    array = importlib.import_module("dask.array")
    a = array.from_array(x, chunks=(BLOCK // WIDTH * 16, -1))
    mu, sd = rows["mu"], rows["sd"]
    return {
        "affine": lambda: ((a - mu) / sd * 2 + 1).compute(),
        "exp": lambda: array.exp(-(a**2) / 2).compute(),
    }


PEERS: dict[str, Callable[..., dict[str, Callable[[], object]]]] = {
    "numexpr": numexpr,
    "numba": numba,
    "torch": torch,
    "jax": jax,
    "dask": dask,
}


def imported(wanted: bool) -> dict[str, Any]:
    """Return the libraries that can be imported."""
    found = {}
    for name in PEERS if wanted else ():
        try:
            found[name] = importlib.import_module(name)
        except ImportError:
            continue
    return found


# -------------------- tables --------------------


def large(dtype: str, elements: int, peers: dict[str, Any], pool: ThreadPoolExecutor) -> None:
    generator = np.random.default_rng(0)
    x = generator.random((elements // WIDTH, WIDTH), np.float64).astype(dtype)
    rows = {"mu": x.mean(0, np.float64).astype(dtype), "sd": x[:1000].std(0).astype(dtype)}
    mu, sd = rows["mu"], rows["sd"]
    out, other = np.empty_like(x), np.empty_like(x)
    v = dv.View(x)
    theirs = {name: PEERS[name](module, x, rows, other) for name, module in peers.items()}

    def twice(part: slice) -> None:
        np.multiply(x[part], 2, out=other[part])

    def affine() -> None:
        np.subtract(x, mu, out=other)
        np.divide(other, sd, out=other)
        np.multiply(other, 2, out=other)
        np.add(other, 1, out=other)

    step = BLOCK // WIDTH
    mu_again, sd_again = np.tile(mu, (step, 1)), np.tile(sd, (step, 1))

    def in_blocks(half: slice) -> None:
        for start in range(half.start, half.stop, step):
            part = slice(start, min(start + step, half.stop))
            count, block = part.stop - start, other[part]
            np.subtract(x[part], mu_again[:count], out=block)
            np.divide(block, sd_again[:count], out=block)
            np.multiply(block, 2, out=block)
            np.add(block, 1, out=block)

    def exp() -> None:
        np.square(x, out=other)
        np.negative(other, out=other)
        np.divide(other, 2, out=other)
        np.exp(other, out=other)

    limit = "limit: ``np.multiply(x, 2, out=buf)``, two threads"
    ours = "``((x - mu) / sd * 2 + 1)(out=buf)``"
    contestants: Contestants = {
        limit: lambda: in_halves(twice, len(x), pool),
        ours: lambda: ((v - mu) / sd * 2 + 1)(out=out),
        "NumPy: the same with ``out=``": affine,
        "NumPy: by hand in blocks, two threads": lambda: in_halves(in_blocks, len(x), pool),
    }
    expected = (x[-9:] - mu) / sd * 2 + 1
    contestants |= agreeing(theirs, "affine", expected, other)
    show(f"Affine chain, {dtype}, {elements:,} elements", contestants, {ours: 1.6})
    base, ours = "NumPy: the same with ``out=``", "``np.exp(-(x**2) / 2)(out=buf)``"
    contestants = {base: exp, ours: lambda: np.exp(-(v**2) / 2)(out=out)}
    contestants |= agreeing(theirs, "exp", np.exp(-(x[-9:] ** 2) / 2), other)
    show(f"Exponential, {dtype}, {elements:,} elements", contestants, {ours: 0.6})


def agreeing(
    theirs: dict[str, dict[str, Callable[[], object]]], name: str, expected: Any, out: np.ndarray
) -> Contestants:
    """Return the peers whose last rows are those of NumPy; report and leave out the others."""
    found: Contestants = {}
    for peer, functions in theirs.items():
        result = functions[name]()
        last = np.asarray(out if result is None else result)[-9:]
        if last.dtype == expected.dtype and np.allclose(last, expected, rtol=1e-5):
            found[peer] = functions[name]
        else:
            print(f"{peer} gives another result, and is not timed", file=sys.stderr)
    return found


def centring(elements: int) -> None:
    rows = min(elements, 4_000_000 * WIDTH) // WIDTH
    x = np.random.default_rng(0).random((rows, WIDTH), np.float32)
    v = dv.View(x)

    def ours() -> None:
        nonlocal v
        v -= v._mean(axis=0)

    def theirs() -> None:
        nonlocal x
        x -= x.mean(axis=0)

    contestants: Contestants = {
        "NumPy: ``x -= x.mean(axis=0)``": theirs,
        "``x -= x._mean(axis=0)``": ours,
    }
    show(
        f"Centring in memory, {rows:,} × {WIDTH} float32", contestants, {list(contestants)[1]: 0.5}
    )


def centring_a_file(elements: int, folder: Path) -> None:
    rows = min(elements, 4_000_000 * WIDTH) // WIDTH
    path = folder / "data.npy"
    block = np.random.default_rng(0).random((1 << 14, WIDTH), np.float32)
    data = np.lib.format.open_memmap(path, "w+", "f4", (rows, WIDTH))
    for start in range(0, rows, len(block)):
        data[start : start + len(block)] = block[: rows - start]
    del data

    def ours() -> None:
        v = dv.open(path, "r+")
        v -= v._mean(axis=0)

    def theirs() -> None:
        x = np.load(path, mmap_mode="r+")
        x -= x.mean(axis=0)

    contestants: Contestants = {
        "NumPy: ``x -= x.mean(axis=0)``": theirs,
        "``x -= x._mean(axis=0)``": ours,
    }
    title = f"Centring an .npy file in the page cache, {rows:,} × {WIDTH} float32"
    show(title, contestants, {list(contestants)[1]: 0.6})


def small() -> None:
    for size in SMALL_SIZES:
        a, b = np.random.default_rng(0).random((2, size))
        one, other = dv.View(a), dv.View(b)
        ours = "``(a + b * 2)()``"
        contestants: Contestants = {
            "NumPy: ``a + b * 2``": lambda a=a, b=b: a + b * 2,  # type: ignore[misc]
            ours: lambda one=one, other=other: (one + other * 2)(),  # type: ignore[misc]
        }
        print(heading(f"{size:,} elements"))
        print(comparison(timed(contestants)))


def show(title: str, contestants: Contestants, limits: dict[str, float]) -> None:
    print(heading(title))
    print(comparison(timed(contestants, rounds=ROUNDS_OF_LARGE), limits))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-peers", action="store_true", help="time dataview and NumPy alone")
    parser.add_argument("--elements", type=int, default=ELEMENTS, help="of the large arrays")
    given = parser.parse_args()
    peers = imported(not given.no_peers)
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ["numpy", *peers]]
    print(", ".join([f"Python {sys.version.split()[0]}", *versions]))
    small()
    centring(given.elements * 6)
    with tempfile.TemporaryDirectory() as folder:
        centring_a_file(given.elements * 6, Path(folder))
    with ThreadPoolExecutor(2) as pool:
        for dtype in ("f4", "f8"):
            large(dtype, given.elements, peers, pool)


if __name__ == "__main__":
    main()
