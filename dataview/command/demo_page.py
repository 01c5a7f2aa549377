"""The page of the demo: HTML with pictures in SVG, in one file, for light and dark screens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dataview.show import size_text

BINS = 30
COLUMN_WIDTH, COLUMN_HEIGHT = 160, 64
WIDTH, HEIGHT, LEFT, BOTTOM = 480, 200, 48, 26
STRIP, REACH = 200, 3.2
"""How wide the strip of a weight is, and the greatest weight that has a place on it."""

STYLE = """<style>
:root{color-scheme:light dark;--ink:#1b1f24;--faint:#5d6773;--line:#d9dee4;--paper:#fff;\
--card:#f6f8fa;--old:#aab4c0;--new:#1565c0}
@media (prefers-color-scheme:dark){:root{--ink:#e3e8ee;--faint:#9aa6b2;--line:#343c45;\
--paper:#14181d;--card:#1b2127;--old:#5b6672;--new:#7ab7ff}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);\
max-width:46rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.7rem;margin:.5em 0 .2em}
h2{font-size:1.15rem;margin:2.2em 0 .4em}
p{margin:.4em 0 .8em}
code{font:.9em ui-monospace,monospace}
.faint,figcaption{color:var(--faint)}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.8rem 1rem;\
overflow-x:auto}
.columns{display:grid;grid-template-columns:repeat(auto-fill,minmax(8rem,1fr));gap:1.1rem}
figure{margin:0}
figcaption{font-size:.8rem;line-height:1.3;margin-top:.3em;white-space:pre-line}
.card + p{margin-top:.9em}
svg{max-width:100%}
.columns svg,.loss{display:block;width:100%;height:auto}
.old{fill:var(--old)}
.new{fill:var(--new);fill-opacity:.8}
.key::before{content:"";display:inline-block;width:.75em;height:.75em;margin-right:.35em;\
border-radius:2px;background:var(--old)}
.key.after::before{background:var(--new)}
.numbers{border-collapse:collapse;width:100%}
.numbers th{font-weight:normal;color:var(--faint);text-align:left}
.numbers th,.numbers td{padding:.2em .8em .2em 0;white-space:nowrap}
.numbers .wide{width:100%;white-space:normal;min-width:8rem}
.numbers .n{text-align:right;font-variant-numeric:tabular-nums}
.strip{display:block;width:100%;max-width:20rem}
.loss{min-width:18rem;max-width:38rem;margin:auto}
</style>"""


class Step(NamedTuple):
    """Something that the demo has done: what, how many bytes it read, and how long it took."""

    what: str
    read: int
    seconds: float


class Report(NamedTuple):
    """What the page tells: fields, first rows and a formula as HTML, and numbers."""

    fields: str
    rows: str
    formula: str
    before: np.ndarray
    after: np.ndarray
    losses: Sequence[float]
    noise: float
    true: np.ndarray
    learned: np.ndarray
    steps: Sequence[Step]


def page(report: Report) -> str:
    """Return the demo's results as a page that needs no other file."""
    rows, inputs = report.after.shape
    before, after = np.abs(report.before.mean(axis=0)), np.abs(report.after.mean(axis=0))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>dataview: the demo</title>
{STYLE}
</head>
<body>
<h1>dataview: the demo</h1>
<p class="faint">A table in a file was opened as a view, centred in place, and a linear regression
was learned from its minibatches.</p>

<h2>The fields</h2>
<div class="card">{report.fields}
<p class="faint">The first five rows:</p>
{report.rows}</div>

<h2>The columns before and after centring</h2>
<p><span class="key">before</span> &emsp; <span class="key after">after</span></p>
<div class="card columns">
{histograms(report.before, report.after)}
</div>
<p class="faint">The means were up to {before.max():.2f}; now they are at most {after.max():.0e}.
The file itself was changed, block by block.</p>

<h2>The formula</h2>
<p>What is subtracted is a view, too. Until it is asked for, nothing is read or computed:</p>
<div class="card">{report.formula}</div>

<h2>The loss, batch by batch</h2>
<div class="card">{loss_curve(report.losses, report.noise)}</div>

<h2>The weights</h2>
<p><span class="key">true</span> &emsp; <span class="key after">learned</span></p>
<div class="card">{weights(report.true, report.learned)}</div>

<h2>What was read, and how long it took</h2>
<div class="card">{steps(report.steps)}</div>
<p class="faint">The table has {rows} rows of {inputs} inputs and a target.</p>
</body>
</html>
"""


# --- columns -------------------------------------------------------------------------------------


def histograms(before: np.ndarray, after: np.ndarray) -> str:
    """Return a small histogram of each column, before and after, all on one scale."""
    ends = min(before.min(), after.min()), max(before.max(), after.max())
    edges = np.linspace(*ends, BINS + 1)
    counts = [[np.histogram(column, edges)[0] for column in data.T] for data in (before, after)]
    most = max(1, np.max(counts))
    zero = COLUMN_WIDTH * (0 - ends[0]) / max(ends[1] - ends[0], 1e-300)
    return "\n".join(
        f'<figure><svg viewBox="0 0 {COLUMN_WIDTH} {COLUMN_HEIGHT}" role="img">'
        f"<title>Column {number} before and after centring</title>"
        f'<path class="old" d="{_bars(old, most)}"/><path class="new" d="{_bars(new, most)}"/>'
        f'<path d="M{zero:.1f} 0V{COLUMN_HEIGHT}M0 {COLUMN_HEIGHT - 0.5}H{COLUMN_WIDTH}" '
        'stroke="currentColor" stroke-opacity=".35" fill="none"/></svg>'
        f"<figcaption>input {number}\nmean {_rounded(before[:, number].mean(), 2)} → "
        f"{_rounded(after[:, number].mean(), 2)}</figcaption></figure>"
        for number, (old, new) in enumerate(zip(*counts, strict=True))
    )


def _bars(counts: np.ndarray, most: int) -> str:
    """Return the outline of bars as the path of an SVG."""
    width = COLUMN_WIDTH / len(counts)
    tops = COLUMN_HEIGHT - (COLUMN_HEIGHT - 4) * counts / most
    steps = "".join(
        f"H{width * number:.1f}V{top:.1f}H{width * (number + 1):.1f}"
        for number, top in enumerate(tops)
    )
    return f"M0 {COLUMN_HEIGHT}{steps}V{COLUMN_HEIGHT}Z"


def _rounded(value: float, digits: int) -> str:
    """Return a number without the sign of a zero.

    >>> _rounded(-1e-9, 2)
    '0.00'
    """
    return f"{round(value, digits) + 0.0:.{digits}f}"


# --- the loss ------------------------------------------------------------------------------------


def loss_curve(losses: Sequence[float], noise: float) -> str:
    """Return the losses as a curve over a logarithmic scale, and the noise as a line."""
    heights = [math.log10(loss) for loss in losses]
    low = math.floor(min(*heights, math.log10(noise)))
    high = max(math.ceil(max(heights)), low + 1)

    def down(power: float) -> float:
        return 10.0 + (high - power) * (HEIGHT - BOTTOM - 10) / (high - low)

    across = np.linspace(LEFT, WIDTH - 8, len(losses))
    curve = " ".join(f"{x:.1f},{down(y):.1f}" for x, y in zip(across, heights, strict=True))
    grid = "\n".join(
        f'<path d="M{LEFT} {down(power):.1f}H{WIDTH - 8}" stroke="currentColor" opacity=".15"/>'
        f'<text x="{LEFT - 8}" y="{down(power) + 4:.1f}" text-anchor="end">{10.0**power:g}</text>'
        for power in range(low, high + 1)
    )
    floor = down(math.log10(noise))
    return f"""<svg class="loss" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" fill="currentColor" \
font-size="13">
<title>The loss falls from {losses[0]:.3g} to {losses[-1]:.3g} in {len(losses)} batches</title>
{grid}
<path d="M{LEFT} {floor:.1f}H{WIDTH - 8}" stroke="currentColor" stroke-dasharray="5 4"/>
<text x="{LEFT + 6}" y="{floor + 16:.1f}">the noise in the data: {noise:g}</text>
<polyline points="{curve}" fill="none" stroke="var(--new)" stroke-width="1.5"/>
<text x="{LEFT}" y="{HEIGHT - 6}">batch 1</text>
<text x="{WIDTH - 8}" y="{HEIGHT - 6}" text-anchor="end">batch {len(losses)}</text>
</svg>"""


# --- weights and steps ---------------------------------------------------------------------------


def weights(true: np.ndarray, learned: np.ndarray) -> str:
    """Return true and learned weights as a table, and as points on strips of one scale."""
    rows = "\n".join(
        f'<tr><td>{number}</td><td class="n">{one:.3f}</td><td class="n">{other:.3f}</td>'
        f'<td class="wide">{_strip(one, other)}</td></tr>'
        for number, (one, other) in enumerate(zip(true, learned, strict=True))
    )
    head = '<tr><th>input</th><th class="n">true</th><th class="n">learned</th><th></th></tr>'
    return f'<table class="numbers">\n{head}\n{rows}\n</table>'


def _strip(true: float, learned: float) -> str:
    """Return two weights as points: a large one and a small one, which lie on each other."""
    places = [STRIP / 2 * (1 + weight / REACH) for weight in (true, learned)]
    return (
        f'<svg class="strip" viewBox="0 0 {STRIP} 14" aria-hidden="true">'
        f'<path d="M0 7H{STRIP}M{STRIP / 2:g} 3V11" stroke="currentColor" stroke-opacity=".25"/>'
        f'<circle class="old" cx="{places[0]:.1f}" cy="7" r="5"/>'
        f'<circle class="new" cx="{places[1]:.1f}" cy="7" r="2.5"/></svg>'
    )


def steps(done: Sequence[Step]) -> str:
    """Return a table of what was done, what that read, and how long it took."""
    rows = "\n".join(
        f'<tr><td class="wide">{step.what}</td>'
        f'<td class="n">{size_text(step.read) if step.read else "nothing"}</td>'
        f'<td class="n">{1000 * step.seconds:.1f} ms</td></tr>'
        for step in done
    )
    head = '<tr><th>step</th><th class="n">read</th><th class="n">time</th></tr>'
    return f'<table class="numbers">\n{head}\n{rows}\n</table>'
