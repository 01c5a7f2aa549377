"""How much is read, computed and kept at a time.

The sizes are looked up whenever work is cut into parts, so a test can use small ones:
`with sizes.set(block_bytes=100):`.  A size that nobody needs to change is a constant in the room
that uses it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

if sys.platform != "win32":
    import resource


UNDO_PART = 8
"""A write keeps no more than this part of the memory that a process may have."""


class Sizes:
    """The sizes, one attribute each."""

    # --- expressions ---

    # Up to this size NumPy's own temporaries fit in the cache, so cutting into blocks does not pay.
    small_elements = 1 << 14
    # The size of a block of an expression: the buffers of a few steps fit in a core's own cache.
    block_elements = 1 << 17
    # A part of an expression that is smaller than the whole, and no larger than this, is computed
    # once, before the blocks.
    folded_elements = 1 << 14

    # --- passes over rows ---

    # The size of a block of rows in a pass over all rows.
    block_bytes = 1 << 22
    # The size of a part of a statistic. It decides in which order numbers are added, and so the
    # last bits of a sum.
    part_bytes = 1 << 23
    # The memory of a quantile: half of it for data, the rest for counts or keys.
    quantile_bytes = 1 << 26
    # The most rows of a sample from which quantiles are estimated.
    sampled_rows = 1 << 20

    # --- files and writing ---

    # How much of a file is in memory at a time: mapped pages, which count as memory of the process,
    # or rows that are read, changed and written back.
    file_bytes = 14 << 20
    # From this size on, mapping a file is cheaper than copying from it.
    window_bytes = 1 << 21
    # The most bytes of files that stay mapped, since their rows are taken often.
    mapped_bytes = 256 << 20
    # From this size on, a result is written over the data block by block while it is computed.
    streamed_elements = 1 << 16
    # Up to this size, memory is changed by one call of NumPy: a plan takes as long as 3 MB do, and
    # more threads gain nothing where memory is the limit.
    at_once_bytes = 1 << 26
    # Up to this size, what is written to memory is computed before, apart from what it is made of.
    computed_bytes = 1 << 22
    # How much of a file is changed between two notes in a journal: what it held, which is written
    # down before, should still be in the core's own cache when it is changed.
    noted_bytes = 1 << 21
    # The journal of an update that takes no more than this is written at once, before the update.
    recorded_bytes = 1 << 17
    # If more old values than this are kept on the disk for an update, that is said beforehand.
    announced_bytes = 256 << 20
    # A file elsewhere of up to this size is copied when it is opened; of a larger one, parts are
    # read if its format allows it.
    copied_bytes = 64 << 20
    # The old values that a write keeps in memory, so that it can be undone.
    undo_bytes = 256 << 20

    @contextlib.contextmanager
    def set(self, **sizes: int) -> Iterator[None]:
        """Use other sizes, in all threads of this process, as long as a ``with`` block runs."""
        before = {name: getattr(self, name) for name in sizes}
        vars(self).update(sizes)
        try:
            yield
        finally:
            vars(self).update(before)


sizes = Sizes()


def is_computed_first(count: int, nbytes: int) -> bool:
    """Whether what is written to memory is computed before, since it is small."""
    return count < sizes.streamed_elements or nbytes <= sizes.computed_bytes


def is_at_once(count: int, nbytes: int) -> bool:
    """Whether so many elements of memory are changed by one call of NumPy."""
    return count < sizes.streamed_elements or nbytes <= sizes.at_once_bytes


def can_keep(nbytes: int) -> bool:
    """Whether a write may keep so many bytes in memory.

    >>> can_keep(1 << 20), can_keep(1 << 40)
    (True, False)
    """
    return nbytes <= sizes.block_bytes <= sizes.undo_bytes or nbytes <= kept_bytes()


def kept_bytes() -> int:
    """Return how much a write may keep: less where the memory of a process is limited."""
    if sys.platform == "win32":
        return sizes.undo_bytes
    kinds = resource.RLIMIT_AS, resource.RLIMIT_DATA
    limits = [resource.getrlimit(kind)[0] for kind in kinds]
    parts = [limit // UNDO_PART for limit in limits if limit != resource.RLIM_INFINITY]
    return min([sizes.undo_bytes, *parts])
