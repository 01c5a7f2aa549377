"""Time views beside the same work written by hand in NumPy: `python bench_views.py`.

Other libraries are timed if they can be imported; `--no-peers` leaves them out.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from timing import comparison, heading, megabytes, peak, same, statements, timed

import dataview as dv

SAMPLES, ROWS, WIDTH, COUNT = 1000, 2_000_000, 64, 32_000
ROUNDS_OF_LARGE = 21

# `d` has separate arrays as its fields, `w` windows of one array; `p` is d[perm] and `s` is
# d._shuffled(0), both made before.
BUILT = statements(
    'NumPy: ``arrays["input"][5:10]``',
    "members: ``d.input[5:10]``",
    "windows: ``w.input[5:10]``",
    'members: ``d["input"][5:10]``',
    "members: ``d[5:10].input``",
    "windows: ``w[5:10].input``",
)
PARTS = statements(
    'NumPy: ``arrays["input"][7]``',
    "members: ``d.input[7]``",
    "members: ``d[7]``",
    "windows: ``w[7]``",
    "members: ``d[5:10]``",
    "members: ``d.input``",
    "members: ``d.input[:, 2:4]``",
    "members: ``d.input[[5, 2, 9]]``",
)
READ = statements(
    'NumPy: ``arrays["input"][5:10].copy()``',
    "members: ``d.input[5:10]()``",
    "windows: ``w.input[5:10]()``",
    "members: ``d.input[5:10](copy=True)``",
    "members: ``d[5:10].input()``",
    "windows: ``w[5:10].input()``",
)
ONE = statements(
    'NumPy: ``arrays["input"][7].copy()``',
    "members: ``d.input[7]()``",
    "windows: ``w.input[7]()``",
    "members: ``d[7].input()``",
    "windows: ``w[7].input()``",
)
EACH = statements(
    'NumPy: ``for row in arrays["input"]: row.copy()``',
    "members: ``for row in d.input: row``",
    "members: ``for row in d.input: row()``",
    "members: ``for s in d: s``",
    "members: ``for s in d: s.input()``",
    "windows: ``for s in w: s.input()``",
)
CHAINED = statements(
    "NumPy: ``np.take(x, perm[a:b], axis=0)[:, ::2].copy()``",
    "``d[perm][a:b][:, ::2]()``",
    "made once: ``p[a:b][:, ::2]()``",
    "``d[perm[a:b]][:, ::2]()``",
    "NumPy: ``x[perm[a:b]][:, ::2].copy()``",
)
SHUFFLED = statements(
    "NumPy: ``np.take(x, stored[a:b], axis=0)``",
    "made once: ``s[a:b]()``",
    "``d._shuffled(0)[a:b]()``",
    "NumPy: ``np.take(x, computed(a, b), axis=0)``",
)
LIMITS = dict.fromkeys(list(BUILT)[1:3], 6.0) | dict.fromkeys(list(READ)[1:3], 4.0)
LIMITS |= dict.fromkeys(list(CHAINED)[1:3], 1.25)


# -------------------- peers --------------------

Arrays = Mapping[str, np.ndarray]


def torch(module: Any, arrays: Arrays, big: Arrays) -> dict[str, Any]:
    return {
        "tensors": {name: module.from_numpy(array) for name, array in arrays.items()},
        "tensor": module.from_numpy(big["x"]),
        "order": module.from_numpy(big["perm"]),
    }


def tensordict(module: Any, arrays: Arrays, big: Arrays) -> dict[str, Any]:
    return {"batch": module.TensorDict(torch(sys.modules["torch"], arrays, big)["tensors"], [])}


def tensorstore(module: Any, arrays: Arrays, big: Arrays) -> dict[str, Any]:
    return {"store": module.array(arrays["input"]), "store_x": module.array(big["x"])}


def xarray(module: Any, arrays: Arrays, big: Arrays) -> dict[str, Any]:
    dims = {"input": ("row", "column"), "target": ("row",)}
    return {"dataset": module.Dataset({name: (dims[name], a) for name, a in arrays.items()})}


def dask(module: Any, arrays: Arrays, big: Arrays) -> dict[str, Any]:
    return {
        "chunked": module.from_array(arrays["input"], chunks=(256, -1)),
        "chunked_x": module.from_array(big["x"], chunks=(131_072, -1)),
    }


PEERS: dict[str, Callable[[Any, Arrays, Arrays], dict[str, Any]]] = {
    "torch": torch,
    "tensordict": tensordict,
    "tensorstore": tensorstore,
    "xarray": xarray,
    "dask.array": dask,
}
"""For each module a function that makes the names to which its statements refer."""

PEERS_BUILT = {
    "torch": ['``tensors["input"][5:10]``'],
    "tensordict": ['``batch["input"][5:10]``'],
    "tensorstore": ["``store[5:10]``"],
    "xarray": ['``dataset["input"][5:10]``', '``dataset.isel(row=slice(5, 10))["input"]``'],
    "dask.array": ["``chunked[5:10]``"],
}
PEERS_READ = {
    "torch": ['``tensors["input"][5:10].clone()``'],
    "tensordict": ['``batch["input"][5:10].clone()``'],
    "tensorstore": ["``store[5:10].read().result()``"],
    "xarray": ['``dataset["input"][5:10].values.copy()``'],
    "dask.array": ['``chunked[5:10].compute(scheduler="sync")``'],
}
PEERS_CHAINED = {
    "torch": ["``tensor.index_select(0, order[a:b])[:, ::2].contiguous()``"],
    "tensorstore": ["``store_x[perm][a:b][:, ::2].read().result()``"],
    "dask.array": ["``chunked_x[perm][a:b][:, ::2].compute()``"],
}
UNTRACED = ("torch", "tensorstore")
"""They allocate what tracemalloc does not see."""


class Peers:
    """The libraries that can be imported, and what their statements refer to."""

    def __init__(self, wanted: bool, arrays: Arrays, big: Arrays) -> None:
        self.names: dict[str, Any] = {}
        self.modules: list[str] = []
        for module, prepare in PEERS.items() if wanted else ():
            try:
                imported = importlib.import_module(module)
            except ImportError:
                continue
            self.names |= prepare(imported, arrays, big)
            self.modules.append(module)

    def statements(self, table: Mapping[str, list[str]]) -> dict[str, str]:
        """Return those statements of a table that can be timed here."""
        return statements(
            *(f"{name}: {code}" for name in self.modules for code in table.get(name, ()))
        )


# -------------------- tables --------------------


def made() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return a small array, and large ones to choose rows of."""
    generator = np.random.default_rng(0)
    small = generator.random((SAMPLES, WIDTH + 1), np.float32)
    x = generator.random((ROWS, WIDTH), np.float32)
    return small, {"x": x, "perm": generator.permutation(ROWS)}


def print_small(both: np.ndarray, arrays: Arrays, peers: Peers) -> None:
    window = dv.View(both, input=np.s_[:WIDTH], target=np.s_[WIDTH])
    names = {"arrays": arrays, "d": dv.View(**arrays), "w": window, **peers.names}
    print(heading("Building a view"))
    built = same(BUILT | peers.statements(PEERS_BUILT), names)
    print(comparison(timed(built, names), LIMITS))
    print(heading("Building other views"))
    print(comparison(timed(PARTS, names)))
    print(heading("Building a view and reading it"))
    read = same(READ | peers.statements(PEERS_READ), names)
    print(comparison(timed(read, names), LIMITS))
    print(heading("Building and reading one sample"))
    print(comparison(timed(same(ONE, names), names)))
    print(heading("Passing over the samples, time per sample"))
    print(comparison(timed(EACH, names), per=SAMPLES))


def print_large(title: str, chain: dict[str, str], names: dict[str, Any]) -> None:
    chain = same(chain, names)
    peaks = {
        name: megabytes(peak(lambda code=code: eval(code, names)))
        for name, code in chain.items()
        if not name.startswith(UNTRACED)
    }
    print(heading(title))
    print(comparison(timed(chain, names, ROUNDS_OF_LARGE), LIMITS, peak=peaks))


def print_chained(big: dict[str, np.ndarray], peers: Peers) -> None:
    view = dv.View(big["x"])
    a = ROWS // 2
    names = {**big, **peers.names, "np": np, "d": view, "p": view[big["perm"]]}
    names |= {"a": a, "b": a + COUNT}
    title = f"{COUNT:,} of {ROWS:,} rows by a permutation, every second column"
    print_large(title, CHAINED | peers.statements(PEERS_CHAINED), names)
    kept = megabytes(peak(lambda: view[big["perm"]]))
    sizes = {name: megabytes(array.nbytes) for name, array in big.items()}
    print(f"\nx has {sizes['x']}, perm {sizes['perm']}; making d[perm] takes {kept} at most.")


def print_shuffled(big: dict[str, np.ndarray]) -> None:
    numbers = dv.View(np.arange(ROWS))._shuffled(0)
    view = dv.View(big["x"])
    a = ROWS // 2
    for count in (256, COUNT):
        names = {"x": big["x"], "np": np, "d": view, "s": view._shuffled(0), "a": a, "b": a + count}
        names |= {"stored": numbers(), "computed": lambda a, b: numbers[a:b]()}
        print_large(f"{count:,} of {ROWS:,} rows, shuffled", SHUFFLED, names)


def print_imports(modules: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # As in an installed copy, all modules are compiled before.
        environment = os.environ | {
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "PYTHONPYCACHEPREFIX": folder,
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)

        def running(code: str) -> Callable[[], object]:
            command = [sys.executable, "-c", code]
            return lambda: subprocess.run(command, env=environment, check=True)

        codes = ["import numpy", "import dataview", "pass", *(f"import {m}" for m in modules)]
        measured = timed({f"``{code}``": running(code) for code in codes}, None, ROUNDS_OF_LARGE)
    print(heading("Importing, each in a process of its own"))
    print(comparison(measured, {"``import dataview``": 1.3}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-peers", action="store_true", help="time dataview and NumPy alone")
    wanted = not parser.parse_args().no_peers
    small, big = made()
    arrays = {"input": small[:, :WIDTH].copy(), "target": small[:, WIDTH].copy()}
    peers = Peers(wanted, arrays, big)
    libraries = ["numpy", *(module.split(".")[0] for module in peers.modules)]
    versions = [f"{name} {importlib.metadata.version(name)}" for name in libraries]
    print(", ".join([f"Python {sys.version.split()[0]}", *versions]))
    print_small(small, arrays, peers)
    print_chained(big, peers)
    print_shuffled(big)
    print_imports(peers.modules)


if __name__ == "__main__":
    main()
