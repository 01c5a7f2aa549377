"""Which parts of which sources a node shows, each with its part of a value, in the view's order.

Rows of joined nodes are written node by node, but for those that share places: of a place that is
shown several times the last value in the view's order stays, as in NumPy.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import evaluate, part_of
from dataview.index import (
    Affine,
    Array,
    Index,
    Map,
    axes_of,
    axis_index,
    block_index,
    compose,
    identity,
    numbers_map,
    positions,
    renumbered,
)
from dataview.plan.build import select, stored
from dataview.plan.concat import Piece, split_rows
from dataview.plan.kinds import Concat, Driven, Select, Stored, known_shape, size_of
from dataview.plan.node import Node
from dataview.plan.places import Targets, place_of
from dataview.sources import ArraySource


def targets_of(node: Node, value: Any) -> Iterator[tuple[Node, Any]]:
    """Yield the parts of sources that a node shows, each with its part of a value, if there is one.

    Each is a source's node, or an index of one.
    """
    if is_of_source(node):
        yield node, value
    else:
        yield from _targets(node, identity(known_shape(node)), value, value is not None)


def is_of_source(node: Any) -> bool:
    """Whether a node is an index of a source, as most that are written."""
    return type(node) is Select and type(node.node) is Stored


def _targets(
    node: Node, index: Index, value: Any, in_order: bool = True
) -> Iterator[tuple[Node, Any]]:
    """Yield the parts below a node; of places that are shown twice `in_order` has the last win."""
    waiting = [(node, index, value, in_order)]
    while waiting:  # not by recursion, since nodes may be joined deeper than Python's stack
        node, index, value, in_order = waiting.pop()
        if isinstance(node, Stored):
            yield select(node, index), value
        elif isinstance(node, Select):
            waiting.append((node.node, compose(node.index, index), value, in_order))
        elif isinstance(node, Driven):
            waiting.append((node.node, index, value, in_order))
        elif isinstance(node, Concat):
            pieces = list(split_rows(node, index))
            if all(map(_is_run, pieces)):
                pieces.sort(key=_first_row)
            elif in_order and len(pieces) > 1:
                if _share_places(pieces):
                    yield from _in_turns(node, index, value)
                    continue
                in_order = False  # nor do nodes that these are made of
            parts = [(one.node, one.where, _part_of(value, index.shape, one)) for one in pieces]
            waiting.extend((*part, in_order) for part in reversed(parts))


def _part_of(value: Any, shape: tuple[int, ...], piece: Piece) -> Any:
    """Return what of a value, if there is one, belongs to one of several joined nodes."""
    if value is None:
        return None
    if isinstance(value, Node):
        own = known_shape(value)
        if piece.axes == (0,):
            if len(own) < len(shape) or own[0] == 1 != shape[0]:
                return value  # the same for all rows
            rows = piece.where.shape[0]
            where = axis_index(own, _map_of(piece.places[0]), rows)
            return part_of(value, where)
        value = evaluate(value)
    # With an ellipsis, an element is an array, too: what is none is taken to be checked.
    return piece.of(np.broadcast_to(value, shape))[(*piece.places, ...)]


def _map_of(places: slice | np.ndarray) -> Map:
    """Return the map of some positions on the first axis."""
    return Affine(places.start, ((0, 1),)) if isinstance(places, slice) else numbers_map(places)


# --- rows of several nodes that share places -----------------------------------------------------


class _Part(NamedTuple):
    """A part of a source, and which rows of the view it shows; they ascend."""

    target: Node
    rows: np.ndarray


def _is_run(piece: Piece) -> bool:
    """Whether a piece is of rows of the view that follow each other."""
    return piece.axes == (0,) and isinstance(piece.places[0], slice)


def _first_row(piece: Piece) -> int:
    return int(piece.places[0].start)


def _share_places(pieces: Sequence[Piece]) -> bool:
    """Whether a place may be in several pieces."""
    shown = [target for one in pieces for target, _ in _targets(one.node, one.where, None, False)]
    places = [place for place in map(place_of, shown) if place is not None]
    targets = Targets(places)
    return any(targets.meet(place, place) for place in places)


def _in_turns(node: Concat, index: Index, value: Any) -> Iterator[tuple[Node, Any]]:
    """Yield the parts of sources that an index of joined nodes shows, in the order of the view."""
    parts = _rows_of_parts(node, index)
    if parts is None:  # a row of the view has places of several nodes, so that elements count
        shape = index.shape
        line = np.unravel_index(np.arange(size_of(shape)), shape)
        index = compose(index, Index((size_of(shape),), list(map(numbers_map, line))))
        whole = evaluate(value) if isinstance(value, Node) else value
        value = np.broadcast_to(whole, shape).reshape(-1)
        parts = _rows_of_parts(node, index)
        assert parts is not None
    places = [place_of(part.target) for part in parts]
    if all(place and places[0] and place.source is places[0].source for place in places):
        yield _together(parts, index.shape), value
    else:
        yield from _one_by_one(parts, index.shape, value)


def _rows_of_parts(node: Concat, index: Index) -> list[_Part] | None:
    """Return the parts of sources with their rows, None if parts do not have whole rows."""
    count, *others = index.shape
    numbers = stored(ArraySource(np.arange(count).reshape(-1, *(1 for _ in others))), False)
    found = []
    for piece in split_rows(node, index):
        own = _part_of(numbers, index.shape, piece)
        for target, rows in _targets(piece.node, piece.where, own, False):
            if not isinstance(rows, Node):
                return None
            found.append(_Part(target, evaluate(rows).reshape(-1)))
    return found


def _together(parts: Sequence[_Part], shape: tuple[int, ...]) -> Node:
    """Return the one part of a source that several parts of it are, in the order of the view."""
    wheres = [place.where for part in parts if (place := place_of(part.target)) is not None]
    stored_node = parts[0].target
    while isinstance(stored_node, Select):
        stored_node = stored_node.node
    maps = []
    for own in zip(*(where.maps for where in wheres), strict=True):
        used = sorted({0}.union(*map(axes_of, own)))
        if all(map_ == own[0] for map_ in own) and 0 not in axes_of(own[0]):
            maps.append(own[0])
            continue
        found = np.empty([shape[axis] for axis in used], np.intp)
        for part, where, map_ in zip(parts, wheres, own, strict=True):
            alone = renumbered(Index(where.shape, [map_]), used)
            found[part.rows] = positions(alone.maps[0], alone.shape)
        maps.append(Array(found, tuple(used)) if used != [0] else numbers_map(found))
    return select(stored_node, Index(shape, maps))


def _one_by_one(
    parts: Sequence[_Part], shape: tuple[int, ...], value: Any
) -> Iterator[tuple[Node, Any]]:
    """Yield the runs of rows that lie in one part, in the order of the view."""
    owners = np.empty(shape[0], np.intp)
    for number, part in enumerate(parts):
        owners[part.rows] = number
    edges = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), shape[0]]
    for start, stop in itertools.pairwise(edges):
        target, rows = parts[owners[start]]
        first = int(rows.searchsorted(start))
        where = block_index(known_shape(target), first, first + stop - start)
        run = Piece(target, where, (0,), (slice(start, stop),))
        yield select(target, where), _part_of(value, shape, run)
