"""Rows of joined nodes: which node each of them belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dataview.index import (
    Affine,
    Array,
    Index,
    Map,
    axes_of,
    compose,
    positions,
    renumbered,
    shifted,
)
from dataview.nodes import Concat, Node

__all__ = ["Part", "line_map", "split_rows"]


class Part(NamedTuple):
    """What an index selects from one of several joined nodes, and where it belongs in the view."""

    node: Node
    where: Index
    axes: tuple[int, ...]
    places: tuple[Any, ...]

    def of(self, whole: np.ndarray) -> np.ndarray:
        """Return the view's array with the axes first over which the rows vary."""
        return np.moveaxis(whole, self.axes, range(len(self.axes)))


def split_rows(node: Concat, index: Index) -> Iterator[Part]:
    """Return the parts of what an index selects from joined nodes, one for each node it meets."""
    over = axes_of(index.maps[0])
    others = [axis for axis in range(len(index.shape)) if axis not in over]
    moved = renumbered(index, [*over, *others])
    lines = moved.shape[: len(over)]
    rows = positions(renumbered(Index(index.shape, index.maps[:1]), over).maps[0], lines)
    rows = np.broadcast_to(rows, lines)
    which = np.searchsorted(node.starts, rows, side="right") - 1
    for number in np.unique(which).tolist():
        places = (which == number).nonzero() if over else ()
        picked = _picked(moved, lines, places)
        first = shifted(picked.maps[0], int(node.starts[number]))
        below = Index(picked.shape, [first, *picked.maps[1:]])
        yield Part(node.nodes[number], below, over, _as_line(places))


def _picked(index: Index, lines: tuple[int, ...], places: tuple[np.ndarray, ...]) -> Index:
    """Return the index at some places of its first axes, which become one axis."""
    if not lines:
        return index
    count = len(places[0])
    rest = index.shape[len(lines) :]
    inner: list[Map] = [line_map(place) for place in places]
    inner += [Affine(0, ((1 + number, 1),)) for number in range(len(rest))]
    return compose(index, Index((count, *rest), inner))


def line_map(place: np.ndarray) -> Map:
    """Return the map of these positions, affine where they follow each other."""
    if len(place) and place[-1] - place[0] == len(place) - 1 and (np.diff(place) == 1).all():
        return Affine(int(place[0]), ((0, 1),))
    return Array(place, (0,))


def _as_line(places: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
    if len(places) == 1 and isinstance(line_map(places[0]), Affine):
        return (slice(int(places[0][0]), int(places[0][-1]) + 1),)
    return places
