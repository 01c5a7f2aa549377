"""Time views beside the same work written by hand in NumPy: `python bench_views.py`.

Other libraries take part where they can be imported; `--no-peers` leaves them out.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from timing import comparison, heading, megabytes, peak, same, timed

import dataview as dv

BUILT = {
    'arrays["input"][5:10]': 'arrays["input"][5:10]',
    "members: d.input[5:10]": "d.input[5:10]",
    "windows: w.input[5:10]": "w.input[5:10]",
    'members: d["input"][5:10]': 'd["input"][5:10]',
    "members: d[5:10].input": "d[5:10].input",
    "windows: w[5:10].input": "w[5:10].input",
}
PARTS = {
    'arrays["input"][7]': 'arrays["input"][7]',
    "members: d.input[7]": "d.input[7]",
    "members: d[7]": "d[7]",
    "windows: w[7]": "w[7]",
    "members: d[5:10]": "d[5:10]",
    "members: d.input": "d.input",
    "windows: w.input[:, 2:4]": "w.input[:, 2:4]",
    "windows: w.input[[5, 2, 9]]": "w.input[[5, 2, 9]]",
}
READ = {
    'arrays["input"][5:10].copy()': 'arrays["input"][5:10].copy()',
    "members: d.input[5:10]()": "d.input[5:10]()",
    "windows: w.input[5:10]()": "w.input[5:10]()",
    "windows: w.input[5:10](copy=True)": "w.input[5:10](copy=True)",
    "members: d[5:10].input()": "d[5:10].input()",
    "windows: w[5:10].input()": "w[5:10].input()",
}
ONE = {
    'arrays["input"][7].copy()': 'arrays["input"][7].copy()',
    "members: d.input[7]()": "d.input[7]()",
    "windows: w.input[7]()": "w.input[7]()",
    "members: d[7].input()": "d[7].input()",
    "windows: w[7].input()": "w[7].input()",
}
EACH = {
    'for row in arrays["input"]: pass': 'for row in arrays["input"]: pass',
    "members: for row in d.input: pass": "for row in d.input: pass",
    "members: for s in d: pass": "for s in d: pass",
    "windows: for s in w: pass": "for s in w: pass",
    "members: for row in d.input: row()": "for row in d.input: row()",
    "members: for s in d: s.input()": "for s in d: s.input()",
    "windows: for s in w: s.input()": "for s in w: s.input()",
}
EAGER = "np.take(x, perm[a:b], axis=0)[:, ::2].copy()"
CHAIN = {
    EAGER: EAGER,
    "d[perm][a:b][:, ::2]()": "d[perm][a:b][:, ::2]()",
    "p = d[perm], once: p[a:b][:, ::2]()": "p[a:b][:, ::2]()",
    "d[perm[a:b]][:, ::2]()": "d[perm[a:b]][:, ::2]()",
    "x[perm[a:b]][:, ::2].copy()": "x[perm[a:b]][:, ::2].copy()",
}
SLICED = {
    "np.take(x, order[a:b], axis=0)": "np.take(x, order[a:b], axis=0)",
    "s = d._shuffled(0), once: s[a:b]()": "s[a:b]()",
    "d._shuffled(0)[a:b]()": "d._shuffled(0)[a:b]()",
    "np.take(x, block(a, b), axis=0)": "np.take(x, block(a, b), axis=0)",
}
"""`block(a, b)` computes the order's rows from a to b, as the view does; `order` stores them all."""

SMALL = {"members: d.input[5:10]": 6.0, "windows: w.input[5:10]": 6.0}
SMALL |= {"members: d.input[5:10]()": 4.0, "windows: w.input[5:10]()": 4.0}
SAMPLES, ROWS, WIDTH, COUNT = 1000, 2_000_000, 64, 32_000

Added = tuple[dict[str, Any], dict[str, str], dict[str, str], dict[str, str]]
"""What a peer brings: names for its statements, then statements that build, read, and chain."""


# -------------------- peers --------------------


def torch(module: Any, arrays: dict[str, np.ndarray], big: dict[str, np.ndarray]) -> Added:
    tensors = {name: module.from_numpy(array) for name, array in arrays.items()}
    names = {
        "tensors": tensors,
        "tensor_x": module.from_numpy(big["x"]),
        "tensor_perm": module.from_numpy(big["perm"]),
    }
    part = 'tensors["input"][5:10]'
    chain = "tensor_x.index_select(0, tensor_perm[a:b])[:, ::2].contiguous()"
    return names, {part: part}, {f"{part}.clone()": f"{part}.clone()"}, {chain: chain}


def tensordict(module: Any, arrays: dict[str, np.ndarray], big: dict[str, np.ndarray]) -> Added:
    tensors = importlib.import_module("torch")
    batch = module.TensorDict(
        {name: tensors.from_numpy(array) for name, array in arrays.items()}, [SAMPLES]
    )
    part, other = 'batch["input"][5:10]', 'batch[5:10]["input"]'
    return {"batch": batch}, {part: part, other: other}, {f"{part}.clone()": f"{part}.clone()"}, {}


def tensorstore(module: Any, arrays: dict[str, np.ndarray], big: dict[str, np.ndarray]) -> Added:
    names = {"store": module.array(arrays["input"]), "store_x": module.array(big["x"])}
    part, read = "store[5:10]", "store[5:10].read().result()"
    # The slices count from the first row of the part, as other libraries' do.
    chain = "store_x[perm][a:b][:, ::2].read().result()"
    return names, {part: part}, {read: read}, {chain: chain}


def xarray(module: Any, arrays: dict[str, np.ndarray], big: dict[str, np.ndarray]) -> Added:
    dataset = module.Dataset(
        {"input": (("row", "column"), arrays["input"]), "target": (("row",), arrays["target"])}
    )
    part = 'dataset["input"][5:10]'
    other = 'dataset.isel(row=slice(5, 10))["input"]'
    read = f"{part}.values.copy()"
    return {"dataset": dataset}, {part: part, other: other}, {read: read}, {}


def dask(module: Any, arrays: dict[str, np.ndarray], big: dict[str, np.ndarray]) -> Added:
    names = {
        "chunked": module.from_array(arrays["input"], chunks=(256, -1)),
        "chunked_x": module.from_array(big["x"], chunks=(131_072, -1)),
    }
    part, read = "chunked[5:10]", 'chunked[5:10].compute(scheduler="sync")'
    chain = "chunked_x[perm][a:b][:, ::2].compute()"
    return names, {part: part}, {read: read}, {chain: chain}


PEERS: dict[str, Callable[[Any, dict[str, np.ndarray], dict[str, np.ndarray]], Added]] = {
    "torch": torch,
    "tensordict": tensordict,
    "tensorstore": tensorstore,
    "xarray": xarray,
    "dask.array": dask,
}


# -------------------- tables --------------------


def made() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return small arrays as one has them in a dict, and large ones to choose rows of."""
    generator = np.random.default_rng(0)
    both = generator.random((SAMPLES, WIDTH + 1), np.float32)
    small = {"both": both, "input": both[:, :WIDTH].copy(), "target": both[:, WIDTH].copy()}
    big = {"x": generator.random((ROWS, WIDTH), np.float32), "perm": generator.permutation(ROWS)}
    return small, big


def print_small(small: dict[str, np.ndarray], peers: list[tuple[str, Added]]) -> None:
    both = small.pop("both")
    names = {
        "arrays": small,
        "d": dv.View(input=small["input"], target=small["target"]),
        "w": dv.View(both, input=np.s_[:WIDTH], target=np.s_[WIDTH]),
    }
    built, read = dict(BUILT), dict(READ)
    for name, (more, building, reading, _) in peers:
        names |= more
        built |= {f"{name}: {label}": code for label, code in building.items()}
        read |= {f"{name}: {label}": code for label, code in reading.items()}
    print(heading("Building a view"))
    print(comparison(timed(same(built, names), names), SMALL))
    print(heading("Building other views"))
    print(comparison(timed(PARTS, names)))
    print(heading("Building a view and reading it"))
    print(comparison(timed(same(read, names), names), SMALL))
    print(heading("Building and reading one sample"))
    print(comparison(timed(same(ONE, names), names)))
    print(heading("Passing over the samples, time per sample"))
    print(comparison(timed(EACH, names), per=SAMPLES))


def print_chain(big: dict[str, np.ndarray], peers: list[tuple[str, Added]]) -> None:
    a = ROWS // 2
    view = dv.View(big["x"])
    names = {**big, "np": np, "d": view, "p": view[big["perm"]], "a": a, "b": a + COUNT}
    chain = dict(CHAIN)
    for name, (more, _, _, chained) in peers:
        names |= more
        chain |= {f"{name}: {label}": code for label, code in chained.items()}
    chain = same(chain, names)
    peaks = {label: megabytes(peak(lambda c=code: eval(c, names))) for label, code in chain.items()}
    print(heading(f"{COUNT} rows of {ROWS} by a permutation, every second column"))
    limits = dict.fromkeys([label for label in CHAIN if "d[perm]" in label], 1.25)
    print(comparison(timed(chain, names, 21), limits, peak=peaks))
    index = megabytes(peak(lambda: view[big["perm"]]))
    print(f"\nx has {megabytes(big['x'].nbytes)}, perm {megabytes(big['perm'].nbytes)}. ", end="")
    print(f"d[perm] copies perm to keep it; with what it needs to check it, the peak is {index}.")


def print_shuffled(big: dict[str, np.ndarray]) -> None:
    view = dv.View(big["x"])
    order = dv.View(np.arange(ROWS))._shuffled(0)
    for count in (256, COUNT):
        a = ROWS // 2
        names = {"x": big["x"], "np": np, "d": view, "s": view._shuffled(0), "a": a, "b": a + count}
        names |= {"order": order(), "block": lambda a, b: order[a:b]()}
        sliced = same(SLICED, names)
        peaks = {
            label: megabytes(peak(lambda c=code, n=names: eval(c, n)))
            for label, code in sliced.items()
        }
        print(heading(f"{count} rows of {ROWS}, shuffled"))
        print(comparison(timed(sliced, names, 21), peak=peaks))


def print_imports(peers: list[str]) -> None:
    def importing(name: str) -> Callable[[], object]:
        code = [sys.executable, "-c", f"import {name}" if name else ""]
        return lambda: subprocess.run(code, check=True)

    contestants = {"import numpy": importing("numpy"), "import dataview": importing("dataview")}
    contestants |= {"neither": importing("")}
    contestants |= {f"import {name}": importing(name) for name in peers}
    measured = timed(contestants, rounds=21)
    print(heading("Importing, in a process of its own"))
    print(comparison(measured, {"import dataview": 1.3}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-peers", action="store_true", help="time dataview and NumPy alone")
    small, big = made()
    peers: list[tuple[str, Added]] = []
    versions = [f"Python {sys.version.split()[0]}", f"NumPy {np.__version__}"]
    for name, prepare in {} if parser.parse_args().no_peers else PEERS.items():
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        peers.append((name, prepare(module, small, big)))
        whole = importlib.import_module(name.split(".")[0])
        versions.append(f"{whole.__name__} {getattr(whole, '__version__', '')}".strip())
    print(", ".join(versions))
    print_small(small, peers)
    print_chain(big, peers)
    print_shuffled(big)
    print_imports([name for name, _ in peers])


if __name__ == "__main__":
    main()
