"""Rows that are images, as their space or their shape says; images as PNG, without a library."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dataview.plan.build import field
from dataview.plan.kinds import Record
from dataview.plan.node import Node
from dataview.plan.walk import below
from dataview.spaces import Conv2DSpace, holds_rows, in_usual_order, readable_space_of_rows

SMALLEST = 8
"""A side of fewer pixels makes no image, unless a space says so."""

CHANNELS = (1, 3, 4)

DARKEST = 32
"""Grey bytes that are all less are classes or few levels: black, if they were drawn as they are."""


def as_images(rows: np.ndarray, meta: Mapping[str, Any]) -> np.ndarray | None:
    """Return rows as images of shape (rows, columns, channels); None if they are none.

    Images of several sizes are elements of the array.

    >>> as_images(np.zeros((5, 28, 28), "u1"), {}).shape, as_images(np.zeros((5, 28)), {})
    ((5, 28, 28, 1), None)
    """
    space = readable_space_of_rows(meta)
    if isinstance(space, Conv2DSpace):
        return _of_space(rows, space)
    if rows.dtype == object and rows.ndim == 1:
        return _of_several_sizes(rows)
    if rows.dtype.kind not in "buif" or rows.ndim not in (3, 4) or not rows.size:
        return None
    if rows.ndim == 3:
        return rows[..., None] if _is_large(rows.shape[1:]) else None
    if rows.shape[3] in CHANNELS and _is_large(rows.shape[1:3]):
        return rows
    if rows.shape[1] in CHANNELS and _is_large(rows.shape[2:]):
        return rows.transpose(0, 2, 3, 1)
    return None


def _of_several_sizes(rows: np.ndarray) -> np.ndarray | None:
    """Return arrays as images of shape (rows, columns, channels); None if one of them is none."""
    found = np.empty(len(rows), object)
    for number, row in enumerate(rows):
        images = as_images(row[None], {}) if isinstance(row, np.ndarray) and row.size else None
        if images is None:
            return None
        found[number] = images[0]
    return found if len(rows) else None


def is_one_image(data: Node) -> bool:
    """Whether data are one image, not rows of them.

    Their space says it or several channels do, or they are of rows that are drawn as images.
    """
    space, shape = readable_space_of_rows(data.meta), data.extents
    if shape is None or None in shape:
        return False
    if isinstance(space, Conv2DSpace):
        return holds_rows(space, shape) and not holds_rows(space, shape[1:])
    is_coloured = data.dtype == np.uint8 and len(shape) == 3 and shape[2] in (3, 4)
    if is_coloured and _is_large(shape[:2]):  # type: ignore[arg-type]
        return True
    return may_be_image(data) and any(
        isinstance(part, Node) and (part.extents or ())[1:] == shape for part in below([data])
    )


def may_be_image(data: Node) -> bool:
    """Whether data would be drawn as an image if they were a row."""
    if data.shape is None or data.dtype is None or len(data.shape) not in (2, 3):
        return False
    row = np.broadcast_to(np.zeros((), data.dtype), (1, *data.shape))
    return as_images(row, data.meta) is not None


def has_images_of_several_sizes(data: Node) -> bool:
    """Whether rows, or those of a field, may be images whose sizes are not known."""
    parts = [field(data, name) for name in data.fields] if isinstance(data, Record) else [data]
    return any((part.extents or ()).count(None) > 1 for part in parts)


def _is_large(sides: Sequence[int]) -> bool:
    return min(sides) >= SMALLEST


def _of_space(rows: np.ndarray, space: Conv2DSpace) -> np.ndarray | None:
    """Return images of a space, which may lie as vectors; None if they are others than it says."""
    if space.channels not in CHANNELS or rows.dtype.kind not in "buif":
        return None
    return in_usual_order(rows, space)


def pixels_of(image: np.ndarray, side: int) -> np.ndarray:
    """Return an image as bytes, with steps between its pixels so that no side is too long.

    Bytes stay as they are, numbers from 0 to 1 become 0 to 255, others fill the range, and so do
    grey bytes that would all be nearly black.

    >>> pixels_of(np.linspace(0, 4, 5).reshape(1, 5, 1), 3).tolist()
    [[[0], [127], [255]]]
    """
    step = -(-max(image.shape[:2]) // side)
    small = image[::step, ::step]
    if small.dtype == np.uint8 and (small.shape[2] > 1 or small.max() >= DARKEST):
        return small
    wide = small.astype(np.float64)
    known = wide[np.isfinite(wide)]
    low, high = (known.min(), known.max()) if known.size else (0.0, 1.0)
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    if known.size < wide.size:
        wide = np.nan_to_num(wide, nan=low, posinf=high, neginf=low)
    scaled = (wide - low) * (255 / (high - low or 1))
    found: np.ndarray = scaled.clip(0, 255).astype(np.uint8)
    return found


# --- images as PNG -------------------------------------------------------------------------------

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
    look = f"height:{height}px"  # JupyterLab's rules outweigh the attribute `height`
    return f'<img alt="{title}" style="{look}" src="data:image/png;base64,{data}">'
