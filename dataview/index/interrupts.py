"""Ctrl-C waits while something is done that must not stop midway."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any


@contextlib.contextmanager
def held_interrupt() -> Iterator[Sequence[Any]]:
    """Delay Ctrl-C to the end of a change, so that no block is half written; tell if it came."""
    import signal  # imported here because this takes long

    answer = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or answer is None:
        yield ()
        return
    pressed: list[Any] = []
    signal.signal(signal.SIGINT, lambda *event: pressed.append(event))
    try:
        yield pressed
    except KeyboardInterrupt:  # the error says it
        pressed.clear()
        raise
    finally:
        signal.signal(signal.SIGINT, answer)
        if pressed:
            signal.raise_signal(signal.SIGINT)  # now the program's own handler runs
