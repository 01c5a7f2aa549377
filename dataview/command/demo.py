"""The demo: opens a table in a file, centres it in place, and trains a linear regression on it."""

from __future__ import annotations

import math
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import indent
from typing import TypeVar

import numpy as np

import dataview as dv

SEED = 0
ROWS, INPUTS = 2000, 8
NOISE = 0.1
BATCH_SIZE, EPOCHS, RATE = 50, 10, 0.03
TABLE, PAGE = "demo.npy", "demo.html"
WIDTH, HEIGHT, MARGIN = 600, 240, 40

T = TypeVar("T")


def run(folder: str | os.PathLike[str] | None = None) -> Path:
    """Run the demo in a folder, a temporary one by default; return the page that it writes."""
    table, target = _places(folder)
    true = make_table(table)
    print(f"{ROWS} samples of {INPUTS} inputs and a target, made with seed {SEED}:\n  {table}\n")

    fields = f"input=np.s_[:{INPUTS}], target=np.s_[{INPUTS}:]"
    print(f'd = dv.View(dv.open(path, mode="r+"), {fields})')
    d = dv.View(dv.open(table, mode="r+"), input=np.s_[:INPUTS], target=np.s_[INPUTS:])
    print(indent(repr(d), "  "), end="\n\n")

    print("d.input -= d.input._mean(axis=0)    # in place: the file itself is centred")
    print(f"  mean before  {_row(d.input._mean(axis=0)())}")
    d.input -= d.input._mean(axis=0)
    print(f"  mean after   {_row(np.load(table)[:, :INPUTS].mean(axis=0))}\n")

    print(f'Linear regression: {EPOCHS} epochs of d._loader({BATCH_SIZE}, sampler="permutation")')
    sys.stdout.flush()  # before the progress bar, which goes to the other stream
    learned, bias, losses = train(d)
    print(f"  loss {losses[0]:.4g} at first, {losses[-1]:.4g} at last; noise {NOISE**2:.4g}")
    print(f"  weights, true     {_row(true)}")
    print(f"  weights, learned  {_row(learned)}")
    print(f"  mean target {d.target._mean()():.3f}, learned bias {bias:.3f}\n")

    target.write_text(page(d, losses, true, learned), encoding="utf-8")
    print(f"A page about it:\n  {target}")
    return target


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
    for _ in _progress(range(EPOCHS * len(loader))):
        b = next(loader)
        inputs = b.input()
        error = inputs @ weights + bias - b.target()
        weights -= RATE * inputs.T @ error / len(b)
        bias -= RATE * error.mean(axis=0)
        losses.append(float(np.mean(error**2)))
    return weights.ravel(), float(bias[0]), losses


def _progress(steps: Sequence[T]) -> Iterable[T]:
    """Return the steps behind a progress bar if tqdm is installed, else behind a few lines."""
    try:
        from tqdm import tqdm
    except ImportError:
        return _counted(steps)
    bar: Iterable[T] = tqdm(steps, desc="  training", unit="batch")
    return bar


def _counted(steps: Sequence[T]) -> Iterator[T]:
    for number, step in enumerate(steps, 1):
        yield step
        if number % 100 == 0:
            print(f"  training: {number} of {len(steps)} batches", file=sys.stderr)


# --- text ------------------------------------------------------------------------------------


def _row(values: np.ndarray) -> str:
    return " ".join(f"{value:7.3f}" for value in values.round(3) + 0.0)  # 0.0: no -0.000


# --- the page --------------------------------------------------------------------------------


def page(d: dv.View, losses: Sequence[float], true: np.ndarray, learned: np.ndarray) -> str:
    """Return the demo's results as a page that needs no other file."""
    cell = '<td style="text-align:right; padding-left:1em">'
    rows = "\n".join(
        f"<tr><td>{number}</td>{cell}{one:.3f}</td>{cell}{other:.3f}</td></tr>"
        for number, (one, other) in enumerate(zip(true, learned, strict=True))
    )
    return f"""<!doctype html>
<html lang="en" style="color-scheme:light dark">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>dataview: the demo</title>
</head>
<body style="font-family:sans-serif; max-width:40em; margin:2em auto; padding:0 1em">
<h1>dataview: the demo</h1>
<h2>The dataset</h2>
{d._repr_html_()}
<h2>The loss, batch by batch</h2>
{plot(losses)}
<h2>The weights</h2>
<table>
<tr><th>input</th><th>true</th><th>learned</th></tr>
{rows}
</table>
</body>
</html>
"""


def plot(losses: Sequence[float]) -> str:
    """Return the losses as a curve over a logarithmic scale, in SVG."""
    heights = np.log10(losses)
    low = math.floor(heights.min())
    high = max(math.ceil(heights.max()), low + 1)
    scale = (HEIGHT - MARGIN) / (high - low)
    across = np.linspace(MARGIN, WIDTH - 5, len(losses))
    down = 10 + (high - heights) * scale
    curve = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))
    decades = [(10 + (high - power) * scale, f"{10.0**power:g}") for power in range(low, high + 1)]
    lines = "\n".join(
        f'<path d="M{MARGIN} {y:.1f}H{WIDTH}" stroke="currentColor" opacity="0.2"/>'
        f'<text x="{MARGIN - 6}" y="{y + 4:.1f}" text-anchor="end">{name}</text>'
        for y, name in decades
    )
    return f"""<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" fill="currentColor" font-size="12">
<title>The loss falls from {losses[0]:.3g} to {losses[-1]:.3g} in {len(losses)} batches</title>
{lines}
<polyline points="{curve}" fill="none" stroke="currentColor" stroke-width="1.5"/>
<text x="{WIDTH - 5}" y="{HEIGHT - 6}" text-anchor="end">{len(losses)} batches</text>
</svg>"""
