"""Rows that are read one by one, brought by few requests: what follows is read with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dataview.index.sizes import sizes
from dataview.sources.remote.runs import Range

FIRST, MOST = 1 << 16, 1 << 22
"""So many bytes are read ahead at first, and at most, as they double."""


class _State(NamedTuple):
    """Bytes that were read ahead and where they begin, where the last run ended, and the step."""

    begin: int = 0
    data: bytes = b""
    end: int = -1
    step: int = 0


class ReadAhead:
    """Gives small runs of bytes of a file; a run shortly behind the last one brings more of them.

    Its state is replaced as a whole, so threads need no lock: together they may read twice.
    """

    __slots__ = ("_state", "read", "size")

    def __init__(self, read: Callable[[Range], bytes], size: int) -> None:
        self.read, self.size = read, size
        self._state = _State()

    def run(self, start: int, length: int) -> bytes:
        """Return a run of bytes, of those that were read ahead or by a request.

        >>> asked = []
        >>> file = ReadAhead(lambda run: asked.append(run) or bytes(run[1]), 200_000)
        >>> sum(len(file.run(start, 100)) for start in range(0, 200_000, 100)), asked
        (200000, [(0, 100), (100, 65500), (65600, 131000), (196600, 3400)])
        """
        state, end = self._state, start + length
        place = start - state.begin
        if place >= 0 and place + length <= len(state.data):
            self._state = state._replace(end=end)
            return state.data[place : place + length]
        if not 0 <= start - state.end <= FIRST or state.end < 0:
            self._state = _State(end=end)
            return self.read((start, length))
        step = min(max(FIRST, 2 * state.step), MOST, sizes.file_bytes)
        whole = max(1, step // length) * length
        data = self.read((start, min(whole, self.size - start)))
        self._state = _State(start, data, end, step)
        return data[:length]

    def forget(self) -> None:
        """Forget what was read ahead."""
        self._state = _State()
