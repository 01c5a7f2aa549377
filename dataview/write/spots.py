"""Places as they are remembered: what nobody else holds is not kept for the sake of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dataview.compute import changing
from dataview.index import Array, Index, are_apart, compose, identity
from dataview.plan.concat import split_rows
from dataview.plan.kinds import Concat, Driven, Record, Select, Stored
from dataview.plan.node import Node
from dataview.plan.places import Place
from dataview.plan.walk import below
from dataview.sources import Reference, Source

MANY = 4096
"""More pairs of places than this are not all compared."""


NOWHERE = Index((0,), ())


class Spot:
    """A place by a reference to its source; the index may be worked out when it is needed."""

    __slots__ = ("_key", "_where", "reference")

    def __init__(self, reference: Reference, where: Index | Callable[[], Index]) -> None:
        self.reference = reference
        self._where = where
        self._key: Any = None

    @property
    def where(self) -> Index:
        """The index of the place in the source."""
        if not isinstance(self._where, Index):
            self._where = self._where()
        return self._where

    @property
    def nbytes(self) -> int:
        """The bytes of the numbers of rows that it holds."""
        maps = self._where.maps if isinstance(self._where, Index) else ()
        return sum(map_.values.nbytes for map_ in maps if isinstance(map_, Array))

    @property
    def key(self) -> Any:
        """What tells the place from others; numbers of rows are equal only to themselves."""
        if self._key is None:
            where = self.where
            self._key = self.reference, where.shape, where.maps
        return self._key

    def meets(self, other: Spot) -> bool:
        """Whether two places may have an element in common."""
        if 0 in self.where.shape or 0 in other.where.shape:
            return False
        if self.reference == other.reference:
            return not are_apart(self.where, other.where)
        ours, theirs = self.reference.source(), other.reference.source()
        if ours is None or theirs is None:
            return False
        return bool(ours.may_meet(self.where, theirs, other.where))

    def forget(self) -> None:
        """Forget the index: from now on it is a place of no element, which meets no other."""
        self._where, self._key = NOWHERE, None

    def read(self) -> np.ndarray:
        """Return a copy of what is there."""
        return np.array(self._source().read(self.where, {}))

    def put(self, value: np.ndarray) -> None:
        """Write a value, which is a write like any other."""
        source = self._source()
        with changing(lambda: [Place(source, self.where)]):
            source.write(self.where, value)

    def _source(self) -> Source:
        source: Source | None = self.reference.source()
        if source is None:
            raise LookupError("the data are gone")
        return source


def spot_of(place: Place) -> Spot:
    """Return a place as it is remembered."""
    return Spot(place.source.reference(), place.where)


# --- what a value reads -------------------------------------------------------------------------


def places_read(value: Node) -> list[Place]:
    """Return the places that a value reads; of what is joined, those of the rows that it takes."""
    found: list[Place] = []
    seen: set[int] = set()
    waiting: list[tuple[Any, Index | None]] = [(value, None)]
    while waiting:  # not by recursion, since nodes may be joined deeper than Python's stack
        node, index = waiting.pop()
        if index is None:
            if id(node) in seen:
                continue
            seen.add(id(node))
        if isinstance(node, Stored):
            found.append(
                Place(node.source, identity(node.source.shape) if index is None else index)
            )
        elif isinstance(node, Select):
            within = node.index if index is None else compose(node.index, index)
            waiting.append((node.node, within))
        elif isinstance(node, Driven):
            waiting.append((node.node, index))
        elif isinstance(node, Concat) and index is not None:
            waiting.extend((piece.node, piece.where) for piece in split_rows(node, index))
        else:
            waiting.extend((part, None) for part in node.made_of())
    return found


def is_shown(value: Node) -> bool:
    """Whether a value shows data without computing anything."""
    return all(isinstance(part, _SHOWING) for part in below([value]))


_SHOWING = (Select, Stored, Driven, Concat, Record)


# --- places of two writes -----------------------------------------------------------------------


def are_same(ours: Sequence[Spot], theirs: Sequence[Spot]) -> bool:
    """Whether two lists are of the same places in the same order."""
    pairs = zip(ours, theirs, strict=False)
    return len(ours) == len(theirs) and all(one.key == other.key for one, other in pairs)


def meet(ours: Sequence[Spot], theirs: Sequence[Spot]) -> bool:
    """Whether two lists have places that meet; of records with many fields, field by field."""
    many = len(ours) * len(theirs) > MANY
    pairs = zip(ours, theirs, strict=False) if many else itertools.product(ours, theirs)
    return any(one.meets(other) for one, other in pairs)
