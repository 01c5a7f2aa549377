"""Which elements of which sources a plan reads, and whether a write changes them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.index import Constant, Index, axes_of, compose, extent, identity, shifted
from dataview.index.overlap import MOST_POSITIONS
from dataview.plan.concat import split_rows
from dataview.plan.kinds import (
    Comparison,
    Concat,
    Driven,
    Elementwise,
    Reduction,
    Select,
    Stored,
    known_shape,
    size_of,
)
from dataview.plan.node import Node
from dataview.plan.walk import below
from dataview.sources import Source, stores_meeting

MOST_STEPS = 64
"""Of a part of an expression with more steps than this, all that the expression reads counts."""


class Place(NamedTuple):
    """Elements of a source: those that an index selects."""

    source: Source
    where: Index

    def is_at(self, other: Place) -> bool:
        """Whether these are the same elements of the same source, in the same order."""
        same = (self.where.shape, self.where.maps) == (other.where.shape, other.where.maps)
        return same and self.source is other.source

    def may_meet(self, other: Place | LatePlace) -> bool:
        """Whether some of these elements may be among others."""
        return self.source.may_meet(self.where, other.source, other.where)


class LatePlace:
    """A place whose index is worked out when it is asked for."""

    def __init__(self, source: Source, make: Callable[[], Index]) -> None:
        self.source = source
        self._make = make

    @functools.cached_property
    def where(self) -> Index:
        """The index of the elements."""
        return self._make()


FEW = 64
"""A value is compared with each of so many targets in a store; with more, all count as one."""


class Targets:
    """The places that a write changes, by kind and key of their stores."""

    def __init__(self, places: Iterable[Place]) -> None:
        self.stores: dict[str, dict[Any, list[Place]]] = {}
        for place in places:
            kind, key = place.source.home.store
            self.stores.setdefault(kind, {}).setdefault(key, []).append(place)

    def meet(self, place: Place, own: Place | None = None) -> bool:
        """Whether a write may change what is at a place, apart from its own target there."""
        for known in stores_meeting(place.source.home.store, self.stores):
            if len(known) > FEW:
                return True
            for other in known:
                if own is not None and other.is_at(own):
                    own = None  # one only: what is joined twice has a place twice
                    continue
                if place.may_meet(other):
                    return True
        return False


# --- what a plan reads -------------------------------------------------------------------------


def place_of(part: Any) -> Place | None:
    """Return the place that a part shows, None if it is more than an index of a source."""
    index = None
    while type(part) is Select:
        index = part.index if index is None else compose(part.index, index)
        part = part.node
    if not isinstance(part, Stored):
        return None
    return Place(part.source, identity(part.source.shape) if index is None else index)


def into_places(part: Any) -> list[Any]:
    """Return the parts below a part, none below one that shows a place of a source."""
    return [] if place_of(part) is not None else part.made_of()


def places_read(roots: list[Node]) -> dict[int, list[Place]]:
    """Return the places that each of some nodes reads, by the identity of the node.

    What a statistic reads is not what a node above it reads: that needs the value alone.
    """
    known: dict[int, list[Place] | None] = {}
    found: dict[int, dict[int, Place]] = {}

    def into(part: Any) -> list[Any]:
        known[id(part)] = places = _places_of(part)
        return part.made_of() if places is None else []

    for part in below(roots, into):
        places = known[id(part)]
        if places is not None:
            found[id(part)] = {id(place): place for place in places}
            continue
        below_it = (other for other in part.made_of() if not isinstance(other, Reduction))
        inner = [found[id(other)] for other in below_it]
        widest = max(inner, key=len, default={})
        if all(other.keys() <= widest.keys() for other in inner):
            found[id(part)] = widest  # shared, so that a long plan has one for all its steps
        else:
            found[id(part)] = {key: place for other in inner for key, place in other.items()}
    return {id(root): list(found[id(root)].values()) for root in roots}


def _places_of(part: Any) -> list[Place] | None:
    """Return what a source or a part of a plan reads, None if that is found step by step.

    A part of an expression, or of joined nodes, reads parts of what these are made of.
    """
    if not isinstance(part, Stored | Select):
        return None
    found: list[Place] = []
    waiting: list[tuple[Node, Index | None]] = [(part, None)]
    steps = 0
    while waiting and steps < MOST_STEPS:
        node, index = waiting.pop()
        if isinstance(node, Stored):
            whole = identity(node.source.shape) if index is None else index
            found.append(Place(node.source, whole))
        elif isinstance(node, Select):
            waiting.append((node.node, node.index if index is None else compose(node.index, index)))
        elif isinstance(node, Driven):
            waiting.append((node.node, index))
        elif isinstance(node, Elementwise | Comparison | Concat):
            steps += 1
            waiting.extend(
                _joined(node, index) if isinstance(node, Concat) else _operands(node, index)
            )
        elif not isinstance(node, Reduction):
            return None
    return None if waiting else found


def _operands(
    node: Elementwise | Comparison, index: Index | None
) -> list[tuple[Node, Index | None]]:
    own = known_shape(node)
    args = [arg for arg in node.args if isinstance(arg, Node)]
    return [(arg, operand_index(index, own, known_shape(arg))) for arg in args]


def _joined(node: Concat, index: Index | None) -> list[tuple[Node, Index | None]]:
    """Return which of joined nodes an index selects from, and what of each."""
    if index is None:
        return [(part, None) for part in node.nodes]
    map_, shape = index.maps[0], index.shape
    rows = extent(map_, shape)
    if rows is None:
        return []
    first, last = np.searchsorted(node.starts, rows, side="right") - 1
    if first == last:
        own = shifted(map_, int(node.starts[first]))
        return [(node.nodes[first], Index(shape, [own, *index.maps[1:]]))]
    count = size_of(tuple(shape[axis] for axis in axes_of(map_)))
    if last - first > FEW or count > MOST_POSITIONS:
        return [(part, None) for part in node.nodes[first : last + 1]]
    return [(piece.node, piece.where) for piece in split_rows(node, index)]


def operand_index(index: Index | None, shape: Sequence[int], own: Sequence[int]) -> Index | None:
    """Return the index that selects from an operand what `index` selects from the result.

    `own` is the operand's shape.  Where the operand is broadcast, its axes come out with length 1.
    """
    if index is None:
        return None
    first = len(shape) - len(own)
    ends = zip(index.maps[first:], own, shape[first:], strict=True)
    maps = [Constant(0) if length == 1 != whole else map_ for map_, length, whole in ends]
    used = {axis for map_ in maps for axis in axes_of(map_)}
    view = [n if axis in used or n == 0 else 1 for axis, n in enumerate(index.shape)]
    return Index(view, maps)
