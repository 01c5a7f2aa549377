"""What has to be computed before a write: what was asked of the data that the write changes.

A statistic is of the data as they were when it was asked for.  It is computed when it is first
needed, and at the latest here.  What was asked of other data, or of other places of the same data,
goes on waiting.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from dataview.compute.evaluation import evaluate
from dataview.compute.statistics import pending, take_each
from dataview.index import Index, compose, identity
from dataview.plan.kinds import Reduction, Select, Stored
from dataview.plan.node import Node
from dataview.plan.photographs import noted
from dataview.plan.walk import below
from dataview.sources import Source, Store, store_of, store_of_file, stores_meeting


class Place(NamedTuple):
    """Elements of a source: those that an index selects."""

    source: Source
    where: Index

    def is_at(self, other: Place) -> bool:
        """Whether these are the same elements of the same source, in the same order."""
        same = (self.where.shape, self.where.maps) == (other.where.shape, other.where.maps)
        return same and self.source is other.source


FEW = 64
"""A value is compared with each of so many targets in a store; with more, all count as one."""


class Targets:
    """The places that a write changes, by their stores."""

    def __init__(self, places: Iterable[Place]) -> None:
        self.stores: dict[Store, list[Place]] = {}
        for place in places:
            self.stores.setdefault(store_of(place.source), []).append(place)

    def meet(self, place: Place, own: Place | None = None) -> bool:
        """Whether a write may change what is at a place, apart from its own target there."""
        for store in stores_meeting(store_of(place.source), self.stores):
            known = self.stores[store]
            if len(known) > FEW:
                return True
            for other in known:
                if own is not None and other.is_at(own):
                    own = None  # one only: what is joined twice has a place twice
                    continue
                if place.source.may_meet(place.where, other.source, other.where):
                    return True
        return False


_waiting: dict[Store, WeakKeyDictionary[Any, list[Place]]] = {}
"""The photographs that are not taken yet, and what each reads, by the stores that they read."""

_lock = threading.RLock()


def take_before(changes: Iterable[Place]) -> None:
    """Take what was asked of places that are about to change, in as few passes as possible.

    An error is kept by the photograph that it belongs to, and raised where its value is used.
    """
    found = waiting_at(changes)
    if found:
        _take(found)


def take_before_replacing(path: str) -> None:
    """Take what was asked of a file that is about to be replaced."""
    with _lock:
        _file(noted())
        found = [part for part, _ in _held(store_of_file(path))]
    _take(found)


def waiting_at(changes: Iterable[Place]) -> list[Any]:
    """Return what was asked of these places, is still held by someone, and is not taken yet."""
    with _lock:
        _file(noted())
        if not _waiting:
            return []
        targets, found = Targets(changes), {}
        for store in targets.stores:
            for part, places in _held(store):
                if id(part) not in found and any(map(targets.meet, places)):
                    found[id(part)] = part
        return list(found.values())


def _take(found: Sequence[Any]) -> None:
    statistics = [part for part in found if isinstance(part, Reduction)]
    inner = {id(part): part for node in statistics for part in pending(node)}
    take_each(list(inner.values()), evaluate)
    for part in found:
        if not isinstance(part, Reduction):
            part.take()


def _held(store: Store) -> Iterator[tuple[Any, list[Place]]]:
    """Return what waits for a store, and what it reads there; what was taken is forgotten."""
    for met in stores_meeting(store, _waiting):
        parts = _waiting[met]
        for part, places in list(parts.items()):
            if part.taken is None and part.failed is None:
                yield part, places
            else:
                del parts[part]


def _file(photographs: Sequence[Any]) -> None:
    """File what is new under the stores that it reads."""
    new = [part for part in photographs if part.taken is None]
    if not new:
        return
    for store in [store for store, parts in _waiting.items() if not parts]:
        del _waiting[store]
    reads = _reads([part.node for part in new])
    for part in new:
        for place in reads[id(part.node)].values():
            filed = _waiting.setdefault(store_of(place.source), WeakKeyDictionary())
            filed.setdefault(part, []).append(place)


def _reads(roots: list[Node]) -> dict[int, dict[int, Place]]:
    """Return the places that each part below some nodes reads: by the identities of both.

    What a statistic reads is not what a node above it reads: that needs the value alone.
    """
    found: dict[int, dict[int, Place]] = {}
    for part in below(roots, into_places):
        place = place_of(part)
        if place is not None:
            found[id(part)] = {id(part): place}
            continue
        below_it = (other for other in into_places(part) if not isinstance(other, Reduction))
        inner = [found[id(other)] for other in below_it]
        widest = max(inner, key=len, default={})
        if all(other.keys() <= widest.keys() for other in inner):
            found[id(part)] = widest  # shared, so that a long plan has one for all its steps
        else:
            found[id(part)] = {key: place for other in inner for key, place in other.items()}
    return found


def into_places(part: Any) -> list[Any]:
    """Return the parts below a part, none below one that shows a place of a source."""
    return [] if place_of(part) is not None else part.made_of()


def place_of(part: Any) -> Place | None:
    """Return the place that a part shows, None if it is more than an index of a source."""
    index = None
    while type(part) is Select:
        index = part.index if index is None else compose(part.index, index)
        part = part.node
    if not isinstance(part, Stored):
        return None
    return Place(part.source, identity(part.source.shape) if index is None else index)
