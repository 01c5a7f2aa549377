"""Sounds, decoded by soundfile: one number for each frame, or one for each of its channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from dataview.errors import import_library
from dataview.formats.media.decoders import Decoder, Header, open_file
from dataview.plan.node import DType, Shape

SUFFIXES = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff", ".aif", ".au")

BLOCK = 1 << 20
"""So many frames are decoded at a time: a broken header may promise any number of them."""


@dataclass(frozen=True)
class Sounds(Decoder):
    """Decodes sounds; `mono` gives the mean of the channels.

    A sound that would have more than `most_bytes` is refused: silence is packed very small.
    """

    mono: bool = False
    most_bytes: int = 1 << 31
    ragged_axes: ClassVar[int | None] = 1
    field: ClassVar[str] = "audio"
    facts: ClassVar[dict[str, DType]] = {"rate": np.dtype("i8")}

    def header(self, path: str) -> Header:
        """Return frames and channels, and as its kind the frames per second."""
        with open_file(path) as raw, _opened(raw) as file:
            channels = () if file.channels == 1 or self.mono else (file.channels,)
            return Header((self._frames(file), *channels), np.dtype("f4"), int(file.samplerate))

    def fitted(self, headers: Sequence[tuple[str, Header]]) -> Self:
        """Return the decoder if all sounds have as many channels, or raise."""
        found = {header.shape[1:]: path for path, header in reversed(headers)}
        if len(found) > 1:
            told = "; ".join(
                f"{path} has {(*shape, 1)[0]}" for shape, path in sorted(found.items())
            )
            raise ValueError(
                f"the sounds have different numbers of channels: {told}; mono=True takes the mean "
                "of the channels of each"
            )
        return self

    def decode(self, path: str) -> np.ndarray:
        """Return the frames, in single precision from -1 to 1."""
        with open_file(path) as raw, _opened(raw) as file:
            frames = self._frames(file)
            blocks, count = [np.empty((0, file.channels), "f4")], 0
            while count < frames:
                blocks.append(file.read(min(BLOCK, frames - count), "float32", always_2d=True))
                count += len(blocks[-1])
                if not len(blocks[-1]):
                    raise ValueError(f"it ends after {count} frames; its header says {frames}")
        found = np.concatenate(blocks)
        if self.mono:
            return np.asarray(found.mean(axis=1, dtype="f4"))
        return found[:, 0] if found.shape[1] == 1 else found

    def _frames(self, file: Any) -> int:
        """Return how many frames a sound has, or raise if these are too many."""
        size = file.frames * file.channels * 4
        if size > self.most_bytes:
            raise ValueError(
                f"it would have {size} bytes, more than {self.most_bytes}; if you trust it, give a "
                "larger most_bytes="
            )
        return int(file.frames)

    def shape(self, header: Header) -> tuple[Shape, DType]:
        """Return frames, and channels if there are several."""
        return header.shape, header.dtype


def _opened(file: Any) -> Any:
    library = import_library("soundfile", "dataview[audio]")
    try:
        return library.SoundFile(file)
    except library.LibsndfileError as error:
        raise ValueError(
            f"it is no sound that libsndfile knows, or it is broken: {error}"
        ) from None
