"""Pictures, decoded by Pillow: what it calls the mode of a picture says which axes there are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from dataview.errors import hint, import_library
from dataview.formats.media.decoders import Decoder, Header, open_file
from dataview.plan.node import DType, Shape

SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")

MODES: dict[str, tuple[tuple[int, ...], str]] = {
    "1": ((), "?"), "L": ((), "u1"), "P": ((), "u1"), "LA": ((2,), "u1"), "PA": ((2,), "u1"),
    "RGB": ((3,), "u1"), "RGBA": ((4,), "u1"), "CMYK": ((4,), "u1"), "YCbCr": ((3,), "u1"),
    "LAB": ((3,), "u1"), "HSV": ((3,), "u1"), "I": ((), "i4"), "F": ((), "f4"),
    "I;16": ((), "<u2"), "I;16L": ((), "<u2"), "I;16B": ((), ">u2"), "P;T": ((), "u1"),
}  # fmt: skip
"""The modes of pictures: which axes a picture has behind rows and columns, and its dtype.

The last one is a palette of which a colour is transparent; Pillow has no mode of its own for it.
"""

WITHIN = (
    ("1", "L"),
    ("P;T", "P"),
    ("1", "L", "P", "RGB"),
    ("1", "L", "LA", "P", "P;T", "PA", "RGB", "RGBA"),
)
"""Modes of which the last holds all pictures of the others as they are."""

DEEP = {
    **dict.fromkeys(("I;16", "I;16L", "I;16B"), ("I;16", "I;16L", "I;16B", "I", "F")),
    "I": ("I", "F"),
    "F": ("F",),
}
"""Modes of more than 8 bits, each with those that hold its numbers: Pillow cuts them for others."""

UPRIGHT_SWAPS = (5, 6, 7, 8)
"""The orientations, by EXIF, of pictures that lie on their side."""


@dataclass(frozen=True)
class Images(Decoder):
    """Decodes pictures as they are, or all in one mode; `upright` turns them as EXIF says."""

    image_mode: str | None = None
    upright: bool = False
    strict: bool = False
    ragged_axes: ClassVar[int | None] = 2
    field: ClassVar[str] = "image"

    def __post_init__(self) -> None:
        known = [mode for mode in MODES if mode != "P;T"]
        if self.image_mode is not None and self.image_mode not in known:
            raise ValueError(
                f"image_mode is one of {', '.join(known)}; got {self.image_mode!r}"
                f"{hint(str(self.image_mode), known)}"
            )

    def header(self, path: str) -> Header:
        """Return height, width and mode; nothing is decoded."""
        with open_file(path) as file, _opened(file) as image:
            width, height = image.size
            mode = _mode_of(image)
            if self.upright and _orientation(image) in UPRIGHT_SWAPS:
                width, height = height, width
        return Header((height, width), np.dtype(MODES[mode][1]), mode)

    def shape(self, header: Header) -> tuple[Shape, DType]:
        """Return the shape and the dtype in the mode that all pictures have."""
        axes, dtype = MODES[self.image_mode or str(header.kind)]
        return (*header.shape, *axes), np.dtype(dtype)

    def fitted(self, headers: Sequence[tuple[str, Header]]) -> Self:
        """Return the decoder to the mode that holds all of the pictures as they are."""
        if self.image_mode is not None:
            return self
        found = {str(header.kind): path for path, header in reversed(headers)}
        mode = _common(found)
        if mode is None:
            told = "; ".join(f"{path} is {one}" for one, path in sorted(found.items()))
            raise ValueError(
                f"the pictures have modes of which none holds the others: {told}; {_advice(found)}"
            )
        return replace(self, image_mode=mode, strict=True)

    def decode(self, path: str) -> np.ndarray:
        """Return the pixels."""
        with open_file(path) as file, _opened(file) as image:
            mode = _mode_of(image)
            wanted = self.image_mode or _common([mode]) or mode
            if mode != wanted and self.strict and _common({mode, wanted}) != wanted:
                told = _advice({mode, wanted})
                raise ValueError(f"its mode is {mode}, and the others are {wanted}; {told}")
            if wanted not in DEEP.get(mode, (wanted,)):
                raise ValueError(
                    f"its mode is {mode}, of which image_mode={wanted!r} would cut numbers off; "
                    f"image_mode={DEEP[mode][-1]!r} keeps them"
                )
            if self.upright and _orientation(image) != 1:
                image = import_library("PIL.ImageOps", "dataview[images]").exif_transpose(image)
            try:
                image.load()
            except MemoryError:  # which Pillow raises for data that are broken, too
                raise ValueError("it is broken, or there is no room for its pixels") from None
            return np.asarray(image if image.mode == wanted else image.convert(wanted))


def _advice(modes: Collection[str]) -> str:
    """Say how pictures of some modes get one."""
    kept = "F" if "F" in modes else "I"
    if DEEP.keys().isdisjoint(modes):
        return "image_mode= converts them, as in image_mode='RGB'"
    return f"image_mode={kept!r} takes the numbers of all as grey values, as they are"


def _orientation(image: Any) -> int:
    """Return how a picture stands, by EXIF; Pillow decodes a PNG file to find some behind it."""
    if image.format == "PNG" and "exif" not in image.info:
        return 1
    return int(image.getexif().get(_ORIENTATION, 1))


_ORIENTATION = 0x0112


def _opened(file: Any) -> Any:
    """Return a picture of which the header is read; one of too many pixels is refused."""
    pillow = import_library("PIL.Image", "dataview[images]")
    try:
        image = pillow.open(file)
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        raise ValueError(f"{error}; {_REMEDY}") from None
    except pillow.UnidentifiedImageError:
        raise ValueError("it is no picture that Pillow knows, or it is broken") from None
    most = pillow.MAX_IMAGE_PIXELS
    if most is not None and image.width * image.height > most:
        size = f"{image.width} by {image.height}"
        image.close()
        raise ValueError(f"it has {size} pixels, more than {most}; {_REMEDY}")
    return image


_REMEDY = "if you trust it, raise Pillow's limit, PIL.Image.MAX_IMAGE_PIXELS"


def _mode_of(image: Any) -> str:
    """Return the mode of a picture; one with a palette may have a transparent colour."""
    mode: str = image.mode
    if mode not in MODES:
        raise ValueError(f"its mode {mode!r} is none of those that make an array")
    return "P;T" if mode == "P" and "transparency" in image.info else mode


def _common(modes: Iterable[str]) -> str | None:
    """Return the mode that holds all pictures of some modes as they are, None if there is none."""
    found = {*modes}
    if len(found) == 1 and found != {"P;T"}:
        return found.pop()
    return next((within[-1] for within in WITHIN if found <= {*within}), None)
