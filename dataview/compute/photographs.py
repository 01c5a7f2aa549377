"""What has to be computed before a write: what was asked of the data that the write changes.

A statistic is of the data as they were when it was asked for.  It is computed when it is first
needed, and at the latest here.  What was asked of other data, or of other places of the same data,
goes on waiting.  After the change, stores of rows that were computed from the old data are told to
forget these.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from dataview.compute.evaluation import evaluate
from dataview.compute.statistics import pending, take_each
from dataview.index import extent, identity
from dataview.index.locks import new_rlock
from dataview.plan.kinds import Reduction
from dataview.plan.photographs import noted
from dataview.plan.places import LatePlace, Place, places_read
from dataview.sources import ArraySource, Home, Source, are_together, store_of_file, stores_meeting

Span: TypeAlias = tuple[int, int]
"""The least and the greatest of some positions."""

BYTES = "bytes"


class _Waiting(weakref.ref[Any]):
    """A photograph that is not taken yet, a place that it reads, and where this is filed.

    It holds the place no longer than someone holds the photograph.
    """

    __slots__ = ("place", "span", "way")
    place: Place | None
    span: Span
    way: tuple[Any, ...]


def _let_go(waiting: _Waiting) -> None:
    waiting.place = None
    _gone.append(waiting)  # not removed at once: another thread may be reading what is filed


_waiting: dict[str, Any] = {}
"""What waits, filed so that a write finds what it may change without a look at all others.

The ways go by kind and key of the store, line, size and cell.  A line is the addresses in memory,
or an axis of an array; a place is filed by the line of which it covers the least.  On the line it
lies from cell to the next cell, where cells are no smaller than it is.
"""

_gone: list[_Waiting] = []
"""What nobody holds any more, and is filed still."""

_lock = new_rlock()


def take_before(changes: Iterable[Place | LatePlace]) -> None:
    """Take what was asked of places that are about to change, in as few passes as possible.

    An error is kept by the photograph that it belongs to, and raised where its value is used.
    """
    found = waiting_at(changes)
    if found:
        _take(found)


def take_before_replacing(path: str) -> None:
    """Take what was asked of a file or a folder that is about to be replaced."""
    is_folder = os.path.isdir(path)
    with _lock:
        _bring_up_to_date()
        every = [lines for by_key in _waiting.values() for lines in by_key.values()]
        near = every if is_folder else stores_meeting(store_of_file(path), _waiting)
        filed = [one for lines in near for sizes in lines.values() for one in _within(sizes, None)]
        there = _untaken(filed)
        if is_folder:
            there = ((part, place) for part, place in there if _lies_in(place.source, path))
        found = {id(part): part for part, _ in there}
    _take(list(found.values()))


def _lies_in(source: Source, path: str) -> bool:
    """Whether a source is a file or a folder inside another folder, or that itself."""
    root = source.root
    place = root.folder if root.path is None else os.path.realpath(os.fsdecode(root.path))
    top = os.path.realpath(path)
    return place is not None and (place == top or place.startswith(top + os.sep))


def waiting_at(changes: Iterable[Place | LatePlace]) -> list[Any]:
    """Return what was asked of these places, is still held by someone, and is not taken yet."""
    with _lock:
        _bring_up_to_date()
        if not _waiting:
            return []
        found: dict[int, Any] = {}
        for change in changes:
            near = _filed_near(change)
            for part, place in _untaken(near) if near else ():
                if id(part) not in found and place.may_meet(change):
                    found[id(part)] = part
        return list(found.values())


def _take(found: Sequence[Any]) -> None:
    statistics = [part for part in found if isinstance(part, Reduction)]
    take_each(pending(*statistics), evaluate)
    others = [part for part in found if not isinstance(part, Reduction)]
    for part in others:
        part.take(others)


# --- how what waits is filed -------------------------------------------------------------------


def _bring_up_to_date() -> None:
    """File what is new under all places that it reads, and forget what nobody holds."""
    while _gone:
        _forget(_gone.pop())
    new = [part for part in noted() if part.taken is None]
    if not new:
        return
    reads = places_read([part.node for part in new])
    for part in new:
        for place in reads[id(part.node)]:
            if 0 not in place.where.shape:
                _file(part, place)


def _file(part: Any, place: Place) -> None:
    waiting = _Waiting(part, _let_go)
    store, line, waiting.span = _drawer_of(place)
    low, high = waiting.span
    size = (high - low).bit_length()
    waiting.place, waiting.way = place, (*store, line, size, low >> size, id(waiting))
    filed: Any = _waiting
    for key in waiting.way[:-1]:
        filed = filed.setdefault(key, {})
    filed[id(waiting)] = waiting


def _forget(waiting: _Waiting) -> None:
    """Remove what waits from where it is filed, and what is empty then."""
    filed: list[Any] = [_waiting]
    for key in waiting.way[:-1]:
        filed.append(filed[-1].get(key, {}))
    for within, key in zip(reversed(filed), reversed(waiting.way), strict=True):
        within.pop(key, None)
        if within:
            break


def _untaken(filed: Iterable[_Waiting]) -> Iterator[tuple[Any, Place]]:
    """Return the photographs with their places; those that have been taken are forgotten."""
    for waiting in filed:
        part, place = waiting(), waiting.place
        if part is None or place is None:
            continue
        if part.taken is None and part.failed is None:
            yield part, place
        else:
            _forget(waiting)


def _filed_near(change: Place | LatePlace) -> list[_Waiting]:
    """Return what waits for places that may meet this one; others may be among it."""
    home = change.source.home
    near = stores_meeting(home.store, _waiting)
    found: list[_Waiting] = []
    if not near or 0 in change.where.shape:  # of most writes nobody needs to know where they are
        return found
    for lines in near:
        for line, sizes in lines.items():
            found.extend(_within(sizes, _span(change, home, line)))
    return found


def _within(sizes: dict[int, dict[int, Any]], span: Span | None) -> list[_Waiting]:
    """Return what is filed on a line, all of it or what has positions in a span."""
    if span is None:
        return [
            one for cells in sizes.values() for filed in cells.values() for one in filed.values()
        ]
    low, high = span
    found: list[_Waiting] = []
    for size, cells in sizes.items():
        near: Sequence[int] = range((low >> size) - 1, (high >> size) + 1)
        for cell in near if len(near) <= len(cells) else list(cells):
            if cell in cells:
                filed = cells[cell].values()
                found += [one for one in filed if one.span[0] <= high and low <= one.span[1]]
    return found


def _drawer_of(place: Place) -> tuple[tuple[str, Any], Any, Span]:
    """Return on which line a place is filed, the one of which it covers the least, and its span."""
    source, home = place.source, place.source.home
    shape = source.shape[: home.axes]
    lengths: dict[Any, int] = {(home.layout, axis): n for axis, n in enumerate(shape)}
    if home.space is not None:
        whole = _span(Place(source, identity(source.shape)), home, (BYTES, home.space)) or (0, 0)
        lengths = {(BYTES, home.space): whole[1] - whole[0] + 1, **lengths}
    spans = {line: _span(place, home, line) or (0, n - 1) for line, n in lengths.items()}
    spans = spans or {(home.layout, None): (0, 0)}  # it has no axes
    shares = {line: (high - low + 1) / lengths.get(line, 1) for line, (low, high) in spans.items()}
    best = min(shares, key=shares.__getitem__)
    return home.store, best, spans[best]


def _span(place: Place | LatePlace, home: Home, line: Any) -> Span | None:
    """Return the positions of a place on a line, None if they are not known."""
    kind, number = line
    maps, shape = place.where.maps, place.where.shape
    if kind is not BYTES:
        return extent(maps[number], shape) if number is not None and kind == home.layout else None
    if number != home.space:
        return None
    low, high = home.address, home.address + max(1, place.source.dtype.itemsize) - 1
    for map_, stride in zip(maps, home.strides, strict=True):
        start, stop = extent(map_, shape) or (0, 0)
        if stride < 0:
            start, stop = stop, start
        low += start * stride
        high += stop * stride
    return low, high


_listeners: weakref.WeakSet[Any] = weakref.WeakSet()


def listen(store: Any) -> None:
    """Call `store.written(is_changed)` after each change from now on; it is asked of a source."""
    _listeners.add(store)


class changing:
    """Surround a change of some places, which are worked out only if somebody waits for it.

    A class, since a generator would take as long as the write of a small row.
    """

    __slots__ = ("places",)

    def __init__(self, places: Callable[[], Iterable[Place | LatePlace]]) -> None:
        self.places = places

    def __enter__(self) -> None:
        take_before(self.places())

    def __exit__(self, *error: object) -> None:
        if _listeners:
            changed = {id(place.source): place.source for place in self.places()}.values()
            _tell(lambda source: any(source.may_share(other) for other in changed))


def changing_arrays(arrays: Iterable[Any]) -> changing:
    """Surround a change of arrays that a user gave; what is no array is passed over."""
    found = [np.asarray(array) for array in arrays if isinstance(array, np.ndarray)]
    return changing(lambda: [Place(ArraySource(array), identity(array.shape)) for array in found])


@contextlib.contextmanager
def replacing(path: str) -> Iterator[None]:
    """Surround the replacement of a file."""
    take_before_replacing(path)
    try:
        yield
    finally:
        store = store_of_file(path)
        _tell(lambda source: are_together(source.home.store, store) or _lies_in(source, path))


def _tell(is_changed: Callable[[Source], bool]) -> None:
    for store in list(_listeners):
        store.written(is_changed)
