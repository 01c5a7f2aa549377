"""How the rows of a field are drawn: as images, curves, points, counts, texts, numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from dataview.plan.kinds import Record
from dataview.plan.node import Node
from dataview.plan.operations import TEXTS
from dataview.show.outline import Outline, Part
from dataview.show.thumbnails import as_images
from dataview.show.values import ends_of
from dataview.spaces import Conv1DSpace, in_usual_order, readable_space_of_rows

FIELDS_DRAWN = 20
CURVE = 16
"""Rows of so many numbers are drawn as curves."""

CLASSES = 20
"""So many distinct values are counted; more are words or numbers."""

TIMES = "mM"
COUNTED = "biuO" + TEXTS


class Look(NamedTuple):
    """The rows of a field, made ready to be drawn as `kind` says."""

    name: str
    kind: str
    rows: np.ndarray


def looks_of(data: Node) -> list[Look]:
    """Return how each field of data in memory is drawn."""
    shown = Outline(data, data, FIELDS_DRAWN)
    single = isinstance(data, Record) and data.rank == 0
    found = []
    for name, part in _named(shown):
        ends = ends_of(part.data, part.positions, part.data.count or 1)
        if ends is not None and ends.first.size:
            rows = ends.first[None] if single or not ends.first.ndim else ends.first
            rows = rows if ends.present is None else rows[ends.present.reshape(-1)]
            found.append(Look(name, *(_seen_as(rows, part.meta) if len(rows) else ("words", rows))))
    return found


def _named(shown: Outline) -> Iterator[tuple[str, Part]]:
    """Yield the fields that have no others inside, each with its path; an array itself."""
    if not shown.root.fields.named:
        yield "", shown.root
    path: list[str] = []
    for depth, part, (name, *_) in shown.lines():
        path[depth:] = [name]
        if part is not None and not part.parts:
            yield ".".join(path), part


def _seen_as(rows: np.ndarray, meta: Mapping[str, Any]) -> tuple[str, np.ndarray]:
    """Return how rows are drawn, and the rows in the shape for that.

    >>> _seen_as(np.zeros((4, 50)), {})[0], _seen_as(np.array([1, 2, 1]), {})[0]
    ('curves', 'counts')
    """
    images = as_images(rows, meta)
    if images is not None:
        return "images", images
    kind = rows.dtype.kind
    is_numeric = kind in "biuf"
    space = readable_space_of_rows(meta)
    signals = in_usual_order(rows, space) if isinstance(space, Conv1DSpace) and is_numeric else None
    if signals is not None:
        return "curves", signals[:, :, 0]
    if rows.ndim == 2 and is_numeric and rows.shape[1] >= CURVE:
        return "curves", rows
    if rows.ndim == 2 and is_numeric and rows.shape[1] == 2:
        return "points", rows
    if rows.ndim == 1 and kind in COUNTED and _is_plain(rows) and _are_few(rows):
        return "counts", rows
    return ("numbers" if is_numeric or kind in TIMES else "words"), rows.reshape(-1)


def _is_plain(rows: np.ndarray) -> bool:
    return rows.dtype.kind != "O" or all(type(value) in (str, int, bool) for value in rows.tolist())


def _are_few(rows: np.ndarray) -> bool:
    values = rows.tolist()
    return len(values) > 1 and len(set(values)) <= min(CLASSES, max(2, len(values) // 2))


def counts_of(rows: np.ndarray) -> tuple[list[Any], list[int]]:
    """Return the distinct values, the most frequent first, and how often each is there."""
    order = Counter(rows.tolist()).most_common()
    return [value for value, _ in order], [count for _, count in order]


def finite(rows: np.ndarray) -> np.ndarray:
    """Return the finite numbers, times as numbers of their units."""
    if rows.dtype.kind in TIMES:
        rows = rows.astype(np.int64)[~np.isnat(rows)]
    numbers = rows.astype(np.float64)
    known: np.ndarray = numbers[np.isfinite(numbers)]
    return known
