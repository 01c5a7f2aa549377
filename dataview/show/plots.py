"""Fields drawn by matplotlib."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from dataview.errors import import_library
from dataview.plan.node import Node
from dataview.show.cells import element_texts
from dataview.show.looks import TIMES, Look, counts_of, finite, looks_of
from dataview.show.thumbnails import pixels_of

IMAGES_IN_A_LINE, IMAGES, PIXELS, CURVES = 8, 32, 96, 16
AXES_IN_A_LINE = 3
WORDS, LETTERS_BELOW = 10, 24
"""So many texts have room beside an axis of several, and so many letters below one."""


def plotted(data: Node, name: str, ax: Any = None) -> Any:
    """Draw data in memory under their name; return the axes, of several fields an array of them."""
    looks = looks_of(data)
    if not looks:
        raise ValueError("there is nothing to plot: the view has no rows, or no fields of numbers")
    if len(looks) == 1:
        return _drawn(looks[0], name, _new_axes(1)[0] if ax is None else ax)
    if ax is not None:
        raise ValueError(
            f"ax= is for one field; the view has {len(looks)}: plot one, as d.name._plot(ax=ax)"
        )
    axes = _new_axes(len(looks))
    for look, one in zip(looks, axes, strict=True):
        _drawn(look, name, one)
    return axes


def _new_axes(count: int) -> Any:
    plt = import_library("matplotlib.pyplot", "dataview[plot]")
    if count == 1:
        return [plt.subplots()[1]]
    wide = min(AXES_IN_A_LINE, count)
    high = -(-count // wide)
    figure, grid = plt.subplots(high, wide, figsize=(3.2 * wide, 2.4 * high), layout="constrained")
    axes = grid.reshape(-1)
    for spare in axes[count:]:
        figure.delaxes(spare)
    return axes[:count]


def _drawn(look: Look, name: str, ax: Any) -> Any:
    DRAWN[look.kind](look.rows, ax)
    if look.name or name:
        ax.set_title(look.name or name)
    return ax


def _images(rows: np.ndarray, ax: Any) -> None:
    tiles = _of_one_size([pixels_of(image, PIXELS) for image in rows[:IMAGES]])
    wide = min(IMAGES_IN_A_LINE, len(tiles))
    tiles += [np.zeros_like(tiles[0])] * (-len(tiles) % wide)
    lines = [np.concatenate(tiles[n : n + wide], 1) for n in range(0, len(tiles), wide)]
    sheet = np.concatenate(lines, 0)
    ax.imshow(sheet[..., 0] if sheet.shape[2] == 1 else sheet, cmap="gray")
    ax.set_axis_off()


def _of_one_size(images: list[np.ndarray]) -> list[np.ndarray]:
    """Return images with black beside and below those that are smaller than others."""
    high, wide, channels = np.max([image.shape for image in images], 0)
    found = [np.zeros((high, wide, channels), np.uint8) for _ in images]
    for whole, image in zip(found, images, strict=True):
        whole[: len(image), : image.shape[1]] = image
    return found


def _curves(rows: np.ndarray, ax: Any) -> None:
    ax.plot(rows[:CURVES].T)


def _points(rows: np.ndarray, ax: Any) -> None:
    ax.scatter(rows[:, 0], rows[:, 1], s=8)


def _counts(rows: np.ndarray, ax: Any) -> None:
    _bars([(str(value), count) for value, count in zip(*counts_of(rows), strict=True)], ax)


def _bars(order: list[tuple[str, int]], ax: Any) -> None:
    """Draw names and their counts, across the page where the names are long."""
    names, counts = [name for name, _ in order], [count for _, count in order]
    if sum(map(len, names)) <= LETTERS_BELOW:
        ax.bar(names, counts)
    else:
        ax.barh(names, counts)
        ax.invert_yaxis()


def _numbers(rows: np.ndarray, ax: Any) -> None:
    numbers = finite(rows)
    is_date = rows.dtype.kind == "M"
    try:
        ax.hist(numbers.astype(np.int64).astype(rows.dtype) if is_date else numbers, bins="auto")
    except ValueError:  # floats of this size lie further apart than the bins would be wide
        is_time, is_float = rows.dtype.kind in TIMES, rows.dtype.kind == "f"
        known = rows[~np.isnat(rows)] if is_time else numbers if is_float else rows
        least = known.min()
        ax.hist((known - least).astype(np.float64))
        ax.set_xlabel(f"{element_texts(np.array([least]))[0]} +")
        return
    if is_date:
        ax.tick_params("x", rotation=30)


def _words(rows: np.ndarray, ax: Any) -> None:
    """Draw how often the most frequent texts are there; of ragged rows of numbers, all numbers."""
    arrays = [row.reshape(-1) for row in rows.tolist() if isinstance(row, np.ndarray)]
    if len(arrays) == len(rows) and all(array.dtype.kind in "biuf" for array in arrays):
        _numbers(np.concatenate(arrays), ax)
    else:
        _bars(Counter(element_texts(rows, False)).most_common(WORDS), ax)


DRAWN: dict[str, Callable[[np.ndarray, Any], None]] = {
    "images": _images,
    "curves": _curves,
    "points": _points,
    "counts": _counts,
    "numbers": _numbers,
    "words": _words,
}
