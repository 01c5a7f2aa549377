"""Fields drawn by matplotlib."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from dataview.plan.node import Node
from dataview.show.cells import element_texts
from dataview.show.looks import CLASSES, Look, counts_of, looks_of
from dataview.show.thumbnails import pixels_of

IMAGES_IN_A_LINE, IMAGES, PIXELS, CURVES = 8, 32, 96, 16


def plotted(data: Node, ax: Any = None) -> Any:
    """Draw data in memory; return the axes, an array of axes if there are several fields."""
    looks = looks_of(data)
    if not looks:
        raise ValueError("there is nothing to plot: the view has no rows, or no fields of numbers")
    if len(looks) == 1:
        return _drawn(looks[0], _new_axes(1)[0] if ax is None else ax)
    if ax is not None:
        raise ValueError(
            f"ax= is for one field; the view has {len(looks)}: plot one, as d.name._plot(ax=ax)"
        )
    axes = _new_axes(len(looks))
    for look, one in zip(looks, axes, strict=True):
        _drawn(look, one)
    return axes


def _new_axes(count: int) -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            'to plot, matplotlib is needed: pip install matplotlib, or the extra "plot"'
        ) from error
    if count == 1:
        return [plt.subplots()[1]]
    _, axes = plt.subplots(count, 1, figsize=(6.4, 2.4 * count), layout="constrained")
    return axes


def _drawn(look: Look, ax: Any) -> Any:
    DRAWN[look.kind](look.rows, ax)
    if look.name:
        ax.set_title(look.name)
    return ax


def _images(rows: np.ndarray, ax: Any) -> None:
    tiles = [pixels_of(image, PIXELS) for image in rows[:IMAGES]]
    wide = min(IMAGES_IN_A_LINE, len(tiles))
    tiles += [np.zeros_like(tiles[0])] * (-len(tiles) % wide)
    lines = [np.concatenate(tiles[n : n + wide], 1) for n in range(0, len(tiles), wide)]
    sheet = np.concatenate(lines, 0)
    ax.imshow(sheet[..., 0] if sheet.shape[2] == 1 else sheet, cmap="gray")
    ax.set_axis_off()


def _curves(rows: np.ndarray, ax: Any) -> None:
    ax.plot(rows[:CURVES].T)


def _points(rows: np.ndarray, ax: Any) -> None:
    ax.scatter(rows[:, 0], rows[:, 1], s=8)


def _counts(rows: np.ndarray, ax: Any) -> None:
    values, counts = counts_of(rows)
    ax.bar([str(value) for value in values], counts)


def _numbers(rows: np.ndarray, ax: Any) -> None:
    numbers = rows.astype(np.float64)
    ax.hist(numbers[np.isfinite(numbers)], bins="auto")


def _words(rows: np.ndarray, ax: Any) -> None:
    """Draw how often the most frequent texts are there."""
    order = Counter(element_texts(rows, False)).most_common(CLASSES)
    ax.bar([name for name, _ in order], [count for _, count in order])


DRAWN: dict[str, Callable[[np.ndarray, Any], None]] = {
    "images": _images,
    "curves": _curves,
    "points": _points,
    "counts": _counts,
    "numbers": _numbers,
    "words": _words,
}
