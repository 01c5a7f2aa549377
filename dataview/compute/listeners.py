"""What surrounds each change of data, however they are changed.

Before it, what was asked of the old data is taken; after it, stores of rows that were computed from
them are told to forget these.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from dataview.compute.photographs import take_before, take_before_replacing
from dataview.compute.places import Place
from dataview.index import identity
from dataview.sources import ArraySource, Source, are_together, store_of_file

_listeners: weakref.WeakSet[Any] = weakref.WeakSet()


def listen(store: Any) -> None:
    """Call `store.written(is_changed)` after each change from now on; it is asked of a source."""
    _listeners.add(store)


class changing:
    """Surround a change of some places, which are worked out only if somebody waits for it.

    A class, since a generator would take as long as the write of a small row.
    """

    __slots__ = ("places",)

    def __init__(self, places: Callable[[], Iterable[Place]]) -> None:
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
        _tell(lambda source: are_together(source.home.store, store))


def _tell(is_changed: Callable[[Source], bool]) -> None:
    for store in list(_listeners):
        store.written(is_changed)
