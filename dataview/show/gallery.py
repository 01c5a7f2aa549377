"""Pictures of some rows: as a page with images and drawings, and as text everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dataview.plan.node import Node
from dataview.show.cells import CUT, element_texts
from dataview.show.describe import BINS, counts_in_bins
from dataview.show.description import BLOCKS, blocks_of
from dataview.show.looks import Look, counts_of, finite, looks_of
from dataview.show.page import DRAWN, STYLE
from dataview.show.thumbnails import image_tag, pixels_of
from dataview.show.words import escape, harmless

IMAGES, PIXELS, PAGE_BYTES = 16, 96, 2_000_000
LETTERS, LETTERS_WIDE, LETTERS_HIGH, IMAGES_OF_LETTERS = " .:-=+*#%@", 24, 12, 3
CURVES, WORDS, BAR = 8, 10, 30
WIDTH, HEIGHT = 320, 100


class Gallery:
    """The pictures of a view's fields."""

    def __init__(self, looks: Sequence[Look], rows: str, name: str) -> None:
        self.looks = tuple(looks)
        self._rows = rows
        self._name = name

    def __repr__(self) -> str:
        lines = [self._rows]
        for look in self.looks:
            lines.append(f"{look.name or self._name}: {look.kind}")
            lines += [f"  {line}".rstrip() for line in TEXTS[look.kind](look.rows)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = [STYLE, f'<div class="dataview"><pre class="plain">{escape(repr(self))}</pre>']
        parts.append(f"<div {DRAWN}><div>{escape(self._rows)}</div>")
        for look in self.looks:
            title = f"<summary>{escape(look.name or self._name)}: {look.kind}</summary>"
            parts.append(f"<details open>{title}{PAGES[look.kind](look.rows)}</details>")
        return "\n".join([*parts, "</div></div>"])


def gallery(data: Node, rows: str, name: str) -> Gallery:
    """Return the pictures of data in memory; `rows` says which they are, `name` what they are."""
    return Gallery(looks_of(data), rows, name or "data")


def _shares(rows: np.ndarray) -> np.ndarray:
    """Return numbers as shares of their range; 0 for what is no number."""
    wide = rows.astype(np.float64)
    known = wide[np.isfinite(wide)]
    low, high = (known.min(), known.max()) if known.size else (0.0, 1.0)
    scaled: np.ndarray = np.nan_to_num((wide - low) / ((high - low) or 1.0), posinf=1, neginf=0)
    return scaled.clip(0, 1)


# --- text ----------------------------------------------------------------------------------------


def _images_text(rows: np.ndarray) -> list[str]:
    drawn = []
    for image in rows[:IMAGES_OF_LETTERS]:
        grey = pixels_of(image, LETTERS_WIDE)[..., :3].mean(-1)[::2]
        drawn.append(["".join(LETTERS[int(v * 9 / 255)] for v in line) for line in grey.tolist()])
    high = max(map(len, drawn))
    filled = [lines + [" " * len(lines[0])] * (high - len(lines)) for lines in drawn]
    lines = ["  ".join(cells) for cells in zip(*filled, strict=True)]
    return lines + [CUT] * (len(rows) > IMAGES_OF_LETTERS)


def _curves_text(rows: np.ndarray) -> list[str]:
    scaled = _shares(rows[:CURVES])
    places = np.linspace(0, scaled.shape[1] - 1, min(60, scaled.shape[1])).astype(int)
    lines = ["".join(BLOCKS[int(v * 7)] for v in row) for row in scaled[:, places].tolist()]
    return lines + [CUT] * (len(rows) > CURVES)


def _points_text(rows: np.ndarray) -> list[str]:
    grid = [[" "] * (2 * LETTERS_WIDE) for _ in range(LETTERS_HIGH)]
    across, up = _shares(rows[:, 0]), _shares(rows[:, 1])
    for x, y in zip(across.tolist(), up.tolist(), strict=True):
        grid[LETTERS_HIGH - 1 - int(y * (LETTERS_HIGH - 1))][int(x * (2 * LETTERS_WIDE - 1))] = "·"
    return ["".join(line) for line in grid]


def _counts_text(rows: np.ndarray) -> list[str]:
    values, counts = counts_of(rows)
    names = [harmless(str(value), 24) for value in values]
    width = max(map(len, names))
    bars = ["█" * max(1, round(BAR * count / counts[0])) for count in counts]
    cells = zip(names, bars, counts, strict=True)
    return [f"{name.ljust(width)}  {bar} {count}" for name, bar, count in cells]


def _numbers_text(rows: np.ndarray) -> list[str]:
    known, counts = _histogram(rows)
    if not known.size:
        return ["no finite numbers"]
    low, high = _range_texts(known, rows)
    if low == high:
        return [low]
    return [f"{low} {blocks_of(counts) or CUT} {high}"]


def _words_text(rows: np.ndarray) -> list[str]:
    return element_texts(rows[:WORDS]) + [CUT] * (len(rows) > WORDS) or ["no values"]


def _histogram(rows: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return the finite numbers, and how many there are in each part of their range."""
    known = np.sort(finite(rows))
    return known, counts_in_bins(known, *map(float, known[[0, -1]])) if known.size else ()


def _range_texts(known: np.ndarray, rows: np.ndarray) -> list[str]:
    return element_texts(np.array([known.min(), known.max()]).astype(rows.dtype))


# --- pages ---------------------------------------------------------------------------------------


def _images_page(rows: np.ndarray) -> str:
    tags = [image_tag(pixels_of(image, PIXELS), "a row", PIXELS) for image in rows[:IMAGES]]
    shown = tags[: max(1, PAGE_BYTES // max(map(len, tags)))]
    return "\n".join([*shown, *[CUT] * (len(rows) > len(shown))])


def _svg(inside: str, height: int = HEIGHT) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'fill="var(--dataview)" font-size="12">{inside}</svg>'
    )


def _curves_page(rows: np.ndarray) -> str:
    scaled = _shares(rows[:CURVES])
    places = np.linspace(0, scaled.shape[1] - 1, min(WIDTH, scaled.shape[1])).astype(int)
    across = np.linspace(2, WIDTH - 2, len(places))
    drawn = []
    for number, row in enumerate(scaled[:, places]):
        down = number * HEIGHT // 2 + 46 - row * 42
        points = " ".join(f"{x:.0f},{y:.1f}" for x, y in zip(across, down, strict=True))
        drawn.append(f'<polyline points="{points}" fill="none" stroke="var(--dataview)"/>')
    return _svg("".join(drawn), len(drawn) * HEIGHT // 2)


def _points_page(rows: np.ndarray) -> str:
    across = (_shares(rows[:, 0]) * (WIDTH - 12) + 6).tolist()
    down = (HEIGHT * 2 - 6 - _shares(rows[:, 1]) * (HEIGHT * 2 - 12)).tolist()
    dots = "".join(f"M{x:.0f} {y:.0f}h0" for x, y in zip(across, down, strict=True))
    look = 'fill="none" stroke="var(--dataview)" stroke-width="4" stroke-linecap="round"'
    return _svg(f'<path d="{dots}" {look}/>', 2 * HEIGHT)


def _counts_page(rows: np.ndarray) -> str:
    values, counts = counts_of(rows)
    lines = []
    for value, count in zip(values, counts, strict=True):
        length = max(1, 300 * count // counts[0])
        bar = _svg(f'<path d="M0 2h{length}v12h-{length}z"/>', 16)
        name = escape(harmless(str(value), 24))
        lines.append(f'<tr><td>{name}</td><td class="n">{count}</td><td>{bar}</td></tr>')
    return f"<table>{''.join(lines)}</table>"


def _numbers_page(rows: np.ndarray) -> str:
    known, counts = _histogram(rows)
    if not known.size:
        return "no finite numbers"
    low, high = _range_texts(known, rows)
    if low == high:
        return low
    most, width = max(counts, default=0), WIDTH // BINS
    heights = [round(80 * count / most) for count in counts]
    bars = "".join(f"M{n * width} 84v-{h}h{width - 2}v{h}z" for n, h in enumerate(heights))
    ends = f'<text y="98">{low}</text><text x="{WIDTH}" y="98" text-anchor="end">{high}</text>'
    return _svg(f'<path d="{bars}"/><g fill="currentColor">{ends}</g>')


def _words_page(rows: np.ndarray) -> str:
    lines = "".join(f"<tr><td>{escape(line)}</td></tr>" for line in _words_text(rows))
    return f"<table>{lines}</table>"


TEXTS: dict[str, Callable[[np.ndarray], list[str]]] = {
    "images": _images_text,
    "curves": _curves_text,
    "points": _points_text,
    "counts": _counts_text,
    "numbers": _numbers_text,
    "words": _words_text,
}
PAGES: dict[str, Callable[[np.ndarray], str]] = {
    "images": _images_page,
    "curves": _curves_page,
    "points": _points_page,
    "counts": _counts_page,
    "numbers": _numbers_page,
    "words": _words_page,
}
