"""Who is told of writes: stores of rows that have to forget what was computed from old data."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from dataview.sources import Source

_listeners: weakref.WeakSet[Any] = weakref.WeakSet()


def listen(store: Any) -> None:
    """Call `store.written(source)` for each source that is written from now on."""
    _listeners.add(store)


def announce(sources: Iterable[Source]) -> None:
    """Call `written(source)` of all stores that listen, for each of these sources."""
    if not _listeners:
        return
    known = list(sources)
    for store in list(_listeners):
        for source in known:
            store.written(source)
