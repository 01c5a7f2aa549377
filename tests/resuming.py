"""Every sampler, what loaders with it give, and a program that resumes them in a fresh process."""

import itertools
import json
import pathlib
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import dataview as dv
from loading import dataset

N = 23


def drawn(numbers):
    return lambda: next(numbers)


LENGTHS = np.arange(N) % 7 + 1
LABELS = np.array(list("abc"))[np.arange(N) ** 2 % 3]
SAMPLERS = {
    "linear": lambda: "linear",
    "permutation": lambda: "permutation",
    "uniform": lambda: "uniform",
    "subset": lambda: dv.samplers.subset([3, 1, 4, 1, 5, 9, 2, 6, 5]),
    "weighted": lambda: dv.samplers.weighted(by=LENGTHS),
    "weighted, once": lambda: dv.samplers.weighted(by=LENGTHS, replacement=False),
    "label-uniform": lambda: dv.samplers.label_uniform(by=LABELS),
    "label-permutation": lambda: dv.samplers.label_permutation(by=LABELS),
    "label-distribution": lambda: dv.samplers.label_distribution(LABELS, weights={"a": 5}, fill=1),
    "restricted": lambda: dv.samplers.restricted(dv.samplers.permutation(), LABELS, "b"),
    "batchwise-permutation": lambda: "batchwise-permutation",
    "random-slice": lambda: "random-slice",
    "bucket": lambda: dv.samplers.bucket(by=LENGTHS, window=2),
    "same-length": lambda: dv.samplers.same_length(by=LENGTHS),
    "token-budget": lambda: dv.samplers.token_budget(by=LENGTHS, budget=30, window=10),
    "part-linear": lambda: "part-linear",
    "part-linear-permutation": lambda: "part-linear-permutation",
    "part-permutation-permutation": lambda: "part-permutation-permutation",
    "chunk-permutation": lambda: dv.samplers.chunk_permutation(2, rows=3),
    "mix": lambda: dv.samplers.mix([2, 1]),
    "mix, never": lambda: dv.samplers.mix([2, 1], stop="never"),
    "rows": lambda: list(range(N))[::-1],
    "batches": lambda: [[0, 1, 2], [3], [4, 5]],
    "endless": lambda: itertools.cycle(range(N - 3)),
    "function": lambda: drawn(itertools.cycle(range(N))),
    "order": lambda: lambda order, position: np.roll(order, 1),
}
DECIDING = ("token-budget", "batches")
GOING_ON = ("endless", "function")


def noisy(sample, rng):
    return {"y": sample.y() + 0, "noise": rng.random()}


def loader(name, **options):
    """A loader with a sampler, of data in two parts, that draws random numbers."""
    d = dv.concat(dataset(N)[:9], dataset(N)[9:])
    size = 1 if name in DECIDING else 4
    limit = {"num_batches": 6} if name == "endless" else {}
    options = {"seed": 5, "repeat": True, "transform": noisy, **limit, **options}
    return d._loader(size, SAMPLERS[name](), **options)


def trace(loader, count):
    found = []
    for _ in range(count):
        batch = next(loader)
        noise = batch.noise().tolist() if "noise" in batch._fields() else None
        found.append((batch.y().tolist(), noise, loader.epoch, loader.epoch_detail))
    return found


def resume(name, states):
    """Return what follows each state of a sampler, as a worker process makes it."""
    found = []
    one = None
    for state, count in states:
        if one is None or name in GOING_ON:  # which cannot go back
            one = loader(name, workers=1, kind="process")
        one.load_state_dict(state)
        found.append(trace(one, count))
        if name in GOING_ON:
            one.close()
    one.close()
    return found


def resume_all(states):
    """Return what follows each state, by sampler; several processes start at the same time."""
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(states, pool.map(resume, states, states.values()), strict=True))


if __name__ == "__main__":
    json.dump(resume_all(json.loads(pathlib.Path(sys.argv[1]).read_text())), sys.stdout)
