"""The demo: opens a table in a file, centres it in place, and trains a linear regression on it."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from time import perf_counter

import numpy as np

import dataview as dv
from dataview.command.demo_page import Report, Step, page
from dataview.index.progress import maker_of_bars

SEED = 0
ROWS, INPUTS = 2000, 8
NOISE = 0.1
BATCH_SIZE, EPOCHS, RATE = 50, 10, 0.03
TABLE, PAGE = "demo.npy", "demo.html"


def run(folder: str | os.PathLike[str] | None = None) -> Path:
    """Run the demo in a folder, a temporary one by default; return the page that it writes."""
    table, target = _places(folder)
    true = make_table(table)
    print(f"{ROWS} samples of {INPUTS} inputs and a target, made with seed {SEED}:\n  {table}\n")

    clock = _Clock()
    fields = f"input=np.s_[:{INPUTS}], target=np.s_[{INPUTS}:]"
    print(f'd = dv.View(dv.open(path, mode="r+"), {fields})')
    with clock.step("the file opened, fields declared", 0):
        d = dv.View(dv.open(table, mode="r+"), input=np.s_[:INPUTS], target=np.s_[INPUTS:])
    print(indent(repr(d), "  "), end="\n\n")
    before = d.input(copy=True)

    print("d.input -= d.input._mean(axis=0)    # in place: the file itself is centred")
    print(f"  mean before  {_row(d.input._mean(axis=0)())}")
    with clock.step("the formula of the centred inputs written down", 0):
        centred = d.input - d.input._mean(axis=0)
    formula = centred._repr_html_()
    with clock.step("the inputs centred in place", 2 * before.nbytes):
        d.input -= d.input._mean(axis=0)
    print(f"  mean after   {_row(np.load(table)[:, :INPUTS].mean(axis=0))}\n")

    print(f'Linear regression: {EPOCHS} epochs of d._loader({BATCH_SIZE}, sampler="permutation")')
    sys.stdout.flush()  # before the progress bar, which goes to the other stream
    with clock.step(f"{EPOCHS} epochs of minibatches learned from", EPOCHS * (d._nbytes() or 0)):
        learned, bias, losses = train(d)
    print(f"  loss {losses[0]:.4g} at first, {losses[-1]:.4g} at last; noise {NOISE**2:.4g}")
    print(f"  weights, true     {_row(true)}")
    print(f"  weights, learned  {_row(learned)}")
    print(f"  mean target {d.target._mean()():.3f}, learned bias {bias:.3f}\n")

    shown = d._repr_html_(), d._head()._repr_html_()
    report = Report(
        *shown, formula, before, d.input(), losses, NOISE**2, true, learned, clock.steps
    )
    target.write_text(page(report), encoding="utf-8")
    print(f"A page about it:\n  {target}")
    return target


class _Clock:
    """The steps that were done, and how long each took."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    @contextlib.contextmanager
    def step(self, what: str, read: int) -> Iterator[None]:
        """Note a step, and how many bytes it reads."""
        start = perf_counter()
        yield
        self.steps.append(Step(what, read, perf_counter() - start))


def _places(folder: str | os.PathLike[str] | None) -> tuple[Path, Path]:
    """Return where the table and the page go: into a folder that has neither."""
    if folder is None:
        place = Path(tempfile.mkdtemp(prefix="dataview-demo-"))
    else:
        place = Path(os.path.abspath(folder))
        if place.exists() and not place.is_dir():
            raise NotADirectoryError(f"{place} is a file; the demo writes into a folder")
        for name in (TABLE, PAGE):
            if (place / name).exists():
                raise FileExistsError(
                    f"{place / name} is there already, and the demo overwrites nothing; "
                    "remove it, or name another folder"
                )
        place.mkdir(parents=True, exist_ok=True)
    return place / TABLE, place / PAGE


def make_table(path: Path) -> np.ndarray:
    """Write samples whose target is linear in inputs far from zero; return the weights."""
    rng = np.random.default_rng(SEED)
    weights = rng.uniform(-3, 3, INPUTS)
    inputs = rng.normal(rng.uniform(2, 9, INPUTS), 1, (ROWS, INPUTS))
    noise = rng.normal(0, NOISE, ROWS)
    np.save(path, np.column_stack([inputs, inputs @ weights + noise]))
    return weights


# --- training --------------------------------------------------------------------------------


def train(d: dv.View) -> tuple[np.ndarray, float, list[float]]:
    """Return weights and bias found by gradient descent, and the loss of each batch."""
    weights, bias = np.zeros((d.input._width(), 1)), np.zeros(1)
    losses = []
    loader = d._loader(BATCH_SIZE, sampler="permutation", seed=SEED, repeat=True)
    total = EPOCHS * len(loader)
    bar = maker_of_bars()(total=total, desc="  training", unit="batch")
    for _ in range(total):
        b = next(loader)
        inputs = b.input()
        error = inputs @ weights + bias - b.target()
        weights -= RATE * inputs.T @ error / len(b)
        bias -= RATE * error.mean(axis=0)
        losses.append(float(np.mean(error**2)))
        bar.update(1)
    bar.close()
    return weights.ravel(), float(bias[0]), losses


def _row(values: np.ndarray) -> str:
    return " ".join(f"{value:7.3f}" for value in values.round(3) + 0.0)  # 0.0: no -0.000
