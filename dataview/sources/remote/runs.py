"""Ranges of bytes that lie near each other, asked for together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

Range: TypeAlias = "tuple[int, int]"
"""Where bytes begin in a file, and how many they are."""

Run: TypeAlias = "tuple[int, int]"
"""Where bytes begin in a file, and where they end."""

WHOLE: Run = (0, -1)
"""The run that is asked for if all of a file is wanted, however long that is."""

LONGEST_RUN = 64 << 20
"""Ranges are asked for together up to so many bytes: more would gain nothing, and take memory."""


def checked(ranges: Iterable[Range]) -> list[Range]:
    """Return ranges as pairs of integers, or raise."""
    found = []
    for one in ranges:
        try:
            offset, length = (part.__index__() for part in one)
        except (TypeError, ValueError, AttributeError):
            raise TypeError(
                f"a range of bytes is (offset, length), two integers; got {one!r}"
            ) from None
        if offset < 0 or length < 0:
            raise ValueError(f"offset and length of bytes are 0 or more; got {(offset, length)}")
        found.append((offset, length))
    return found


def coalesced(ranges: Sequence[Range], gap: int) -> list[Run]:
    """Return the runs that contain all ranges; those with up to `gap` bytes between are one.

    >>> coalesced([(100, 10), (0, 10), (12, 5), (3, 0)], gap=2)
    [(0, 17), (100, 110)]
    """
    runs: list[Run] = []
    for offset, length in sorted(one for one in ranges if one[1]):
        end = offset + length
        if runs and offset <= runs[-1][1] + gap:
            start, stop = runs[-1]
            if end - start <= LONGEST_RUN or offset < stop:
                runs[-1] = start, max(stop, end)
                continue
        runs.append((offset, end))
    return runs


def in_turn(ranges: Iterable[Range], most: int) -> Iterator[list[Range]]:
    """Yield ranges in lists of up to so many bytes; longer ones are cut.

    >>> list(in_turn([(0, 2), (9, 5)], most=4))
    [[(0, 2), (9, 2)], [(11, 3)]]
    """
    group: list[Range] = []
    room = most
    for offset, length in ranges:
        while length > room:
            yield [*group, (offset, room)]
            offset, length, group, room = offset + room, length - room, [], most
        group.append((offset, length))
        room -= length
    yield group


def parts_of(ranges: Sequence[Range], runs: Sequence[Run], found: Sequence[bytes]) -> list[bytes]:
    """Return the bytes of each range, cut out of the runs that contain them.

    >>> parts_of([(12, 2), (0, 1), (3, 0)], [(0, 4), (10, 14)], [b"abcd", b"efgh"])
    [b'gh', b'a', b'']
    """
    parts = [b""] * len(ranges)
    at = 0
    for number in sorted(range(len(ranges)), key=ranges.__getitem__):
        offset, length = ranges[number]
        if length:
            while runs[at][1] < offset + length:
                at += 1
            start = offset - runs[at][0]
            parts[number] = found[at][start : start + length]
    return parts


class PastEnd(ValueError):
    """Bytes that a file does not have were asked for; `size` is how many it has."""

    def __init__(self, message: str, size: int = 0) -> None:
        super().__init__(message, size)
        self.size = size

    def __str__(self) -> str:
        return str(self.args[0])


def beyond(name: str, size: int, run: Run) -> PastEnd:
    """Return the error for bytes that a file does not have."""
    return PastEnd(
        f"{name} has {size} bytes, and those from {run[0]} to {run[1]} were asked for; was it "
        "replaced since their places were noted?",
        size,
    )
