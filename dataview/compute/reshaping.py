"""Which rows are read for a part of reshaped data, and where the part lies in these."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dataview.compute.scattered import is_made_by_rows
from dataview.index import (
    Affine,
    Array,
    Constant,
    Index,
    axes_of,
    compose,
    extend,
    extent,
    leading,
    positions,
    rows_index,
    shifted,
    whole_axes,
)
from dataview.plan.kinds import Reshaped, known_shape, size_of
from dataview.plan.node import Shape

TIMES, SPARE = 4, 1 << 16
"""A run of rows is read whole where that is at most so many times as much, or so many elements."""


class Around(NamedTuple):
    """Where a part is in what was read: elements to skip, the shape of the rest, and an index."""

    skipped: int
    shape: tuple[int, ...]
    within: Index


def read_below(node: Reshaped, index: Index) -> tuple[Index | None, Around | None]:
    """Return what a part of a reshaped node reads of the node below, None for all of it.

    With it comes where the part is in that; None if it is all of it, in the same order.
    """
    rows = _whole_rows(node, index)
    if rows is not None:
        return rows, None
    shape = known_shape(node)
    if _takes_all(index, shape):
        # Read in their order, as before a transpose, nobody needs to say where each of them lies.
        return None, Around(0, shape, index)
    near = _rows_around(node, index) or _rows_by_number(node, index)
    return near or (compose(node.index, index), None)


def _whole_rows(node: Reshaped, index: Index) -> Index | None:
    """Return what to read if an index takes the reshaped axes whole, None if it does not."""
    own, shape = known_shape(node.node), known_shape(node)
    kept = 0
    whole = whole_axes(0, len(own))
    while node.index.maps[: kept + 1] == whole[: kept + 1] and own[kept] == shape[kept]:
        kept += 1
    rows = leading(index, shape[kept:])
    return None if rows is None else extend(rows, own[kept:])


def _takes_all(index: Index, shape: Shape) -> bool:
    """Whether an index takes each element of a shape once, in whatever order."""
    used = {axis for map_ in index.maps for axis in axes_of(map_)}
    is_repeated = any(n > 1 and axis not in used for axis, n in enumerate(index.shape))
    return index.is_box and not is_repeated and size_of(index.shape) == size_of(shape)


def _rows_around(node: Reshaped, index: Index) -> tuple[Index, Around] | None:
    """Return the rows around a part whose own rows are near each other, None if they are many."""
    own, shape = known_shape(node.node), known_shape(node)
    rows = index.maps[0] if shape and own and 0 not in index.shape else None
    if not isinstance(rows, Affine | Constant):
        return None
    ends = extent(rows, index.shape)
    assert ends is not None  # of what is not empty
    low, count = ends[0], ends[1] + 1 - ends[0]
    width, length = size_of(own[1:]), size_of(shape[1:])
    if size_of(index.shape) < count * length and is_made_by_rows(node.node):
        return None  # others would be made for nothing
    first, last = low * length // width, -(-(low + count) * length // width)
    if (last - first) * width > max(TIMES * size_of(index.shape), SPARE):
        return None
    within = Index(index.shape, (shifted(rows, low), *index.maps[1:]))
    around = Around(low * length - first * width, (count, *shape[1:]), within)
    return rows_index(own, range(first, last)), around


def _rows_by_number(node: Reshaped, index: Index) -> tuple[Index, Around] | None:
    """Return the rows below that have the rows of a part, where these lie evenly; else None.

    Each of them is read once, and whole: None, too, if the part has only a small share of them.
    """
    own, shape = known_shape(node.node), known_shape(node)
    if not (shape and own) or 0 in index.shape or isinstance(index.maps[0], Constant):
        return None
    axes = sorted(axes_of(index.maps[0]))
    rows = positions(index.maps[0], index.shape).reshape([index.shape[axis] for axis in axes])
    width, length = size_of(own[1:]), size_of(shape[1:])
    if not length % width:
        each, parts = 1, length // width
        found, lines = _each_once(rows)
        below = np.add.outer(found * parts, np.arange(parts)).reshape(-1)
    elif not width % length:
        each, parts = width // length, 1
        quotients, places = np.divmod(rows, each)
        below, lines = _each_once(quotients)
        lines = lines * each + places
    else:
        return None
    if below.size * width > max(TIMES * size_of(index.shape), SPARE):
        return None
    is_part = size_of(index.shape) < rows.size * length
    if is_part and length > width and is_made_by_rows(node.node):
        return None
    within = Index(index.shape, (Array(lines, tuple(axes)), *index.maps[1:]))
    return rows_index(own, below), Around(0, (below.size // parts * each, *shape[1:]), within)


def _each_once(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct numbers, ascending, and where among these each of the given ones is."""
    found, places = np.unique(numbers, return_inverse=True)
    return found, places.reshape(numbers.shape)
