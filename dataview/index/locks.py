"""Locks that a forked process finds open: the threads that may have held them are not in it."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def new_lock() -> threading.Lock:
    """Return a lock for one thread at a time.

    >>> with new_lock() as is_held:
    ...     is_held
    True
    """
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def new_rlock() -> threading.RLock:
    """Return a lock that the thread that holds it may take again.

    >>> lock = new_rlock()
    >>> with lock, lock as is_held:
    ...     is_held
    True
    """
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _open_all() -> None:
    """Open the locks, but for those that the only thread which was copied holds itself."""
    for lock in [*_locks]:
        if not getattr(lock, "_is_owned", bool)():
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
