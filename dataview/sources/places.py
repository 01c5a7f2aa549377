"""Bytes at a place in a file, read and written."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["read_at", "write_at"]

POSITIONED = hasattr(os, "preadv") and hasattr(os, "pwritev")
"""Whether the system reads and writes at a place in one call; Windows and old macOS do not."""

MOST = 1 << 30
"""How many bytes are asked for in one call: some systems refuse 2 GiB, others give less."""


def read_at(file: io.FileIO, block: np.ndarray, place: int) -> None:
    """Fill an array with the bytes at a place in a file."""
    _transfer(_read_some, file, block, place)


def write_at(file: io.FileIO, block: np.ndarray, place: int) -> None:
    """Write the bytes of an array at a place in a file."""
    _transfer(_write_some, file, block, place)


def _read_some(file: io.FileIO, part: memoryview, place: int) -> int:
    if POSITIONED:
        return os.preadv(file.fileno(), [part], place)
    file.seek(place)
    return file.readinto(part) or 0


def _write_some(file: io.FileIO, part: memoryview, place: int) -> int:
    if POSITIONED:
        return os.pwritev(file.fileno(), [part], place)
    file.seek(place)
    return file.write(part) or 0


def _transfer(
    move: Callable[[io.FileIO, memoryview, int], int],
    file: io.FileIO,
    block: np.ndarray,
    place: int,
) -> None:
    """Read or write all bytes of a block at a place in a file; the system may take several goes."""
    raw: Any = block.reshape(-1).view(np.uint8)
    data = memoryview(raw)
    done = 0
    while done < len(data):
        count = move(file, data[done : done + MOST], place + done)
        if count == 0:
            raise OSError("the file ended before all of the block was transferred")
        done += count
