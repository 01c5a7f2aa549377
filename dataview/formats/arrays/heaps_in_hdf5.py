"""Heaps of HDF5, which have texts and rows of any length: some broken ones it reads for ever."""

from __future__ import annotations

import struct
from typing import IO

SEARCHED = 1 << 20
"""So many bytes at the beginning of a file are searched for heaps: more would take long."""

_SIGNATURE = b"GCOL\1\0\0\0"
_HEAD = struct.Struct("<8sQ")  # and the bytes of the heap
_OBJECT = struct.Struct("<HHIQ")  # its number, 0 of free space; references, none, its bytes
_ALIGNED = 8


def check_heaps(file: IO[bytes], path: str) -> None:
    """Raise if HDF5 would never end reading a heap: one that has free space without bytes.

    A heap that is not used any more may hold anything, but nothing names its place.
    """
    raw = file.read(SEARCHED)
    place = raw.find(_SIGNATURE)
    while place >= 0:
        if _is_endless(raw, place) and struct.pack("<Q", place - _begin(raw)) in raw:
            raise ValueError(
                f"{path} is broken: of its texts or rows of any length, HDF5 would never end "
                f"reading those at byte {place}; get the file anew"
            )
        place = raw.find(_SIGNATURE, place + 1)


def _is_endless(raw: bytes, place: int) -> bool:
    """Whether the objects of a heap lead to one without bytes: what follows it is itself."""
    if place + _HEAD.size > len(raw):
        return False
    stop = min(len(raw), place + _HEAD.unpack_from(raw, place)[1]) - _OBJECT.size
    place += _HEAD.size
    while place <= stop:
        number, _, _, size = _OBJECT.unpack_from(raw, place)
        needed = _OBJECT.size + -(-size // _ALIGNED) * _ALIGNED if number else size
        if needed % (1 << 64) == 0:  # as HDF5 counts
            return True
        place += needed
    return False


def _begin(raw: bytes) -> int:
    """Return where HDF5 begins in a file, from which it counts places."""
    return max(0, raw.find(b"\x89HDF\r\n\x1a\n"))
