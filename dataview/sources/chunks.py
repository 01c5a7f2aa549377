"""In which blocks a source that is stored in chunks is read and written: no chunk is in two."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dataview.index import Affine, Array, Index, Map, axes_of, positions
from dataview.index.sizes import sizes
from dataview.sources.protocol import Source

MOST_TIMES = 4
"""A block may be so much larger than others to hold a whole chunk."""


class Grid(NamedTuple):
    """How a view is cut into blocks: of `step` positions along an axis, perhaps along further ones.

    The first block has `first` positions, unless that is 0: chunks may begin before the view.
    `across` has the further axes.  `starts` says where blocks begin, after the first one, that are
    of different lengths: chunks may have different numbers of the positions of a view.
    """

    axis: int
    step: int
    first: int = 0
    across: tuple[Grid, ...] = ()
    starts: tuple[int, ...] = ()

    def cuts(self, length: int) -> list[tuple[int, int]]:
        """Return start and stop of the blocks of an axis of this length.

        >>> Grid(0, 4, 3).cuts(9)
        [(0, 3), (3, 7), (7, 9)]
        """
        starts = self.starts or range(self.first or self.step, length, self.step)
        return list(pairwise(dict.fromkeys([0, *starts, length])))


class _Chunks(NamedTuple):
    """Chunks along an axis of a view, by the most positions that one has.

    `first` is as in a grid; `starts` says where those after the first begin, if that differs.
    """

    length: int
    first: int = 0
    starts: np.ndarray | None = None

    def grid(self, axis: int, step: int) -> Grid:
        """Return blocks of whole chunks, of no more than `step` positions if chunks are smaller."""
        if self.starts is None:
            return Grid(axis, max(1, step // self.length) * self.length, self.first)
        found: list[int] = []
        after = self.starts
        while len(after):
            number = np.searchsorted(after, (found or [0])[-1] + step, "right")
            found.append(int(after[max(0, int(number) - 1)]))
            after = self.starts[int(np.searchsorted(self.starts, found[-1], "right")) :]
        return Grid(axis, max(step, self.length), starts=tuple(found))


def grid_of(source: Source, index: Index, axis: int, step: int) -> Grid:
    """Return blocks of about `step` positions along an axis of a view: no chunk is in two of them.

    Where a block of whole chunks is too large, it is cut along further axes; where even a chunk is,
    blocks have `step` positions of the axis.
    """
    if len(index.shape) <= axis or index.shape[axis] <= step:
        return Grid(axis, step)
    chunks = _chunks_of_axes(source, index)
    if axis not in chunks:
        return Grid(axis, step)
    own = chunks.pop(axis)
    row = source.dtype.itemsize * math.prod(index.shape) // index.shape[axis]
    most = MOST_TIMES * sizes.file_bytes
    if own.length <= step or own.length * row <= most:
        return own.grid(axis, step)
    block, across = own.length * row, []
    for other, line in chunks.items():
        size = block // index.shape[other]
        together = max(1, step * row // max(1, size * line.length)) * line.length
        if together < index.shape[other]:
            across.append(line.grid(other, together))
            block = size * together
        if block <= most:
            return own.grid(axis, 1)._replace(across=tuple(across))
    return Grid(axis, step)


def _chunks_of_axes(source: Source, index: Index) -> dict[int, _Chunks]:
    """Return the chunks along axes of a view, each of them along one axis of the source."""
    found: dict[int, _Chunks] = {}
    uses = Counter(axis for map_ in index.maps for axis in axes_of(map_))
    lengths = source.chunk_shape or (source.chunk_rows,)
    for map_, chunk in zip(index.maps, lengths, strict=False):
        axes = axes_of(map_)
        if len(axes) == 1 and uses[axes[0]] == 1:
            chunks = _chunks_along(map_, chunk, index.shape[axes[0]])
            if chunks is not None:
                found[axes[0]] = chunks
    return found


def _chunks_along(map_: Map, chunk: int, count: int) -> _Chunks | None:
    """Return the chunks that so many positions meet one after the other, None if they do not."""
    if isinstance(map_, Array):
        numbers = map_.values // chunk
        steps = np.diff(numbers)
        if (steps < 0).any():
            return None
        starts = np.flatnonzero(steps) + 1
    elif isinstance(map_, Affine):
        ((_, stride),) = map_.strides
        if abs(stride) == 1:
            return _Chunks(chunk, (-map_.offset if stride > 0 else map_.offset + 1) % chunk)
        if not 0 < abs(stride) < chunk:
            return None  # no chunk has several positions
        # As if the positions ascended: where the last one before a chunk's border is.
        offset = map_.offset % chunk if stride > 0 else -(map_.offset + 1) % chunk
        borders = np.arange(1, (offset + abs(stride) * (count - 1)) // chunk + 1) * chunk
        starts = -((offset - borders) // abs(stride))
    else:
        return None
    ends = np.diff(starts, prepend=0, append=count)
    return _Chunks(int(ends.max()), starts=starts)


MOST_POSITIONS = 1 << 22
"""So many positions in any order are put in that of the chunks: they are held for it."""


def scattered(source: Source, index: Index) -> tuple[int, np.ndarray] | None:
    """Return an axis along which a view goes to and fro between chunks, and its positions there.

    Blocks of such a view would each read or write most chunks.
    """
    uses = Counter(axis for map_ in index.maps for axis in axes_of(map_))
    lengths = source.chunk_shape or (source.chunk_rows,)
    for map_, chunk in zip(index.maps, lengths, strict=False):
        axes = axes_of(map_)
        if chunk < 2 or len(axes) != 1 or uses[axes[0]] > 1 or isinstance(map_, Affine):
            continue
        if index.shape[axes[0]] <= MOST_POSITIONS:
            numbers = positions(map_, index.shape).reshape(-1)
            if (np.diff(numbers // chunk) < 0).any():
                return axes[0], numbers
    return None
