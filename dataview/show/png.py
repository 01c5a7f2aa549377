"""Arrays as PNG images, written without a library."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}
"""PNG's number for pixels of so many channels: grey, grey with alpha, RGB, RGB with alpha."""


def png(pixels: np.ndarray) -> bytes:
    r"""Return rows of grey pixels, or of pixels of 1 to 4 channels, as a PNG file.

    >>> png(np.zeros((2, 3), np.uint8))[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    height, width = pixels.shape[:2]
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # each begins with 0: no filter
    lines[:, 1:] = pixels.reshape(height, width * channels)
    head = struct.pack(">IIBBBBB", width, height, 8, COLOURS[channels], 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 1)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def image_tag(pixels: np.ndarray, title: str, height: int) -> str:
    """Return pixels as an image in HTML, so many pixels high; the title must be escaped."""
    data = base64.b64encode(png(pixels)).decode()
    return f'<img alt="{title}" height="{height}" src="data:image/png;base64,{data}">'
