"""Sizes by which work is cut: how much is read, computed and kept at a time.

They are read whenever work is cut, so that others can be tried: `with sizes.set(block_bytes=100):`.
A size that nobody needs to change stands beside the code that uses it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class Sizes:
    """The sizes, one attribute each."""

    # --- expressions ---

    # Up to so many elements NumPy's own temporaries stay in the cache, and no plan pays.
    small_elements = 1 << 14
    # A block of an expression: the buffers of a few steps stay in a core's own cache.
    block_elements = 1 << 17
    # A part of an expression that is no larger, and smaller than the whole, is computed once before
    # the blocks.
    folded_elements = 1 << 14

    # --- passes over rows ---

    # What is read at a time where a pass over all rows is enough.
    block_bytes = 1 << 22
    # A part of a statistic. The parts decide in which order numbers are added, hence the last bits.
    part_bytes = 1 << 23
    # What a quantile holds: half of it data, the rest counts or keys.
    quantile_bytes = 1 << 26
    # The most rows of a sample from which quantiles are estimated.
    sampled_rows = 1 << 20

    # --- files and writing ---

    # How much of a file is held at a time: pages of its map, which count as memory of the process,
    # or rows that are read, changed and written back.
    file_bytes = 1 << 24
    # From here on mapping is cheaper than copying: the system maps pages by the thousand.
    window_bytes = 1 << 21
    # From here on a result is written over the data while it is computed.
    streamed_elements = 1 << 16
    # Old values that a write keeps to undo itself.
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
