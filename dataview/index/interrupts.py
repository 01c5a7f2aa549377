"""Ctrl-C waits while something is done that must not stop midway.

The functions of `_signal` are those of `signal`, which looks for a member of an enumeration for
each handler: that takes longer than a small write.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any


@contextlib.contextmanager
def held_interrupt() -> Iterator[Sequence[Any]]:
    """Delay Ctrl-C to the end of a change, so that no block is half written; tell if it came."""
    answer = _signal.getsignal(_signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or answer is None:
        yield ()
        return
    pressed: list[Any] = []
    _signal.signal(_signal.SIGINT, lambda *event: pressed.append(event))
    try:
        yield pressed
    except KeyboardInterrupt:  # the error says it
        pressed.clear()
        raise
    finally:
        _signal.signal(_signal.SIGINT, answer)
        if pressed:
            _signal.raise_signal(_signal.SIGINT)  # now the program's own handler runs
