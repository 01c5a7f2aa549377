"""What was asked of data and has no value yet: statistics, and sets of labels.

Each is of the data as they were when it was asked for.  So a write has them taken before it changes
what they depend on; `compute` knows how.
"""

from __future__ import annotations

import weakref
from typing import Any

_new: dict[int, weakref.ref[Any]] = {}


def wait(photograph: Any) -> None:
    """Note that this is asked for and not taken yet; nothing is noted of what nobody holds."""
    key = id(photograph)
    _new[key] = weakref.ref(photograph, lambda gone: _forget(key))


def _forget(key: int) -> None:
    _new.pop(key, None)


def noted() -> list[Any]:
    """Return what was noted since the last time, and is still held."""
    found = []
    for key in list(_new):  # one by one: another thread may note more at the same time
        known = _new.pop(key, None)
        part = None if known is None else known()
        if part is not None:
            found.append(part)
    return found
