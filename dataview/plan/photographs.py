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
    _new[key] = weakref.ref(photograph, lambda gone: _new.pop(key, None) and None)


def noted() -> list[Any]:
    """Return what was noted since the last time, and is still held."""
    if not _new:
        return []
    found = [part for known in list(_new.values()) if (part := known()) is not None]
    _new.clear()
    return found
