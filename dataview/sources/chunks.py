"""In which blocks a source that is stored in chunks is read and written: no chunk is in two."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

from dataview.index import Affine, Index
from dataview.index.sizes import sizes
from dataview.sources.protocol import Source

MOST_TIMES = 4
"""A block may be so much larger than others to hold a whole chunk."""


class Grid(NamedTuple):
    """How a view is cut into blocks: of `step` positions along an axis, perhaps along further ones.

    The first block has `first` positions, unless that is 0: chunks may begin before the view.
    `across` has the further axes.
    """

    axis: int
    step: int
    first: int = 0
    across: tuple[Grid, ...] = ()

    def cuts(self, length: int) -> list[tuple[int, int]]:
        """Return start and stop of the blocks of an axis of this length.

        >>> Grid(0, 4, 3).cuts(9)
        [(0, 3), (3, 7), (7, 9)]
        """
        starts = range(self.first or self.step, length, self.step)
        return list(pairwise(dict.fromkeys([0, *starts, length])))


def grid_of(source: Source, index: Index, axis: int, step: int) -> Grid:
    """Return blocks of about `step` positions along an axis of a view: no chunk is in two of them.

    Where a block of whole chunks is too large, it is cut along further axes; where even a chunk is,
    blocks have `step` positions of the axis.
    """
    chunks = _chunks_of_axes(source, index)
    if axis not in chunks or index.shape[axis] <= step:
        return Grid(axis, step)
    chunk, first = chunks.pop(axis)
    row = source.dtype.itemsize * math.prod(index.shape) // index.shape[axis]
    most = MOST_TIMES * sizes.file_bytes
    if chunk <= step or chunk * row <= most:
        return Grid(axis, max(1, step // chunk) * chunk, first)
    block, across = chunk * row, []
    for other, (length, begin) in chunks.items():
        line = block // index.shape[other]
        together = max(1, step * row // max(1, line * length)) * length
        if together < index.shape[other]:
            across.append(Grid(other, together, begin))
            block = line * together
        if block <= most:
            return Grid(axis, chunk, first, tuple(across))
    return Grid(axis, step)


def _chunks_of_axes(source: Source, index: Index) -> dict[int, tuple[int, int]]:
    """Return how far chunks reach along axes of a view, and where the first begins that it has."""
    found: dict[int, tuple[int, int]] = {}
    lengths = source.chunk_shape or (source.chunk_rows,)
    for map_, chunk in zip(index.maps, lengths, strict=False):
        if not isinstance(map_, Affine) or len(map_.strides) != 1:
            continue
        ((axis, stride),) = map_.strides
        if abs(stride) == 1:
            found[axis] = chunk, (-map_.offset if stride > 0 else map_.offset + 1) % chunk
    return found
