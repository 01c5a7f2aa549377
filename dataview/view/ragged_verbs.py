"""The verbs of rows of different lengths."""

from __future__ import annotations

from typing import Any, Self

from dataview import samples
from dataview.plan import layout
from dataview.view.face import BaseView, like, node_of


class RaggedVerbs(BaseView):
    """The verbs of ragged rows."""

    __slots__ = ()

    def _lengths(self) -> Self:
        """Return the length of each ragged row; of rows with several ragged axes, of each axis.

        >>> import dataview as dv
        >>> dv.View([[1, 2], [3], []])._lengths()()
        array([2, 1, 0])
        """
        return like(self, samples.lengths(node_of(self)))

    def _windows(self, size: int, step: int = 1) -> Self:
        """Return all windows of `size` rows, `step` rows apart; writes pass through them.

        What does not fill a window at the end is in none. Of ragged rows, these are windows of
        their values, none of which reaches into another row.

        >>> import numpy as np
        >>> import dataview as dv
        >>> dv.View(np.arange(6))._windows(3, step=2)()
        array([[0, 1, 2],
               [2, 3, 4]])
        """
        return like(self, layout.windows(samples.with_lengths(node_of(self)), size, step))

    def _pad(
        self,
        value: Any = 0,
        to: Any = None,
        side: str = "right",
        multiple: int = 1,
        truncate: bool | str = False,
        length: bool = False,
        mask: bool = False,
    ) -> Self:
        """Return ragged rows filled up to one length, or those of the ragged fields of a record.

        This is the length of the longest row, a multiple of `multiple`, or `to`; longer rows are an
        error, unless `truncate` cuts their end (or their beginning: "left"). `length` and `mask`
        bring fields of these names, with the name of a field before them.

        >>> import dataview as dv
        >>> d = dv.View(tokens=[[1, 2], [3], []])
        >>> padded = d.tokens._pad(-1, mask=True)
        >>> padded(), padded.tokens_mask().tolist()
        (array([[ 1,  2],
               [ 3, -1],
               [-1, -1]]), [[True, True], [True, False], [False, False]])
        """
        cut = "right" if truncate is True else truncate or None
        padding = samples.Padding(value, to, side, multiple, cut)
        return like(self, samples.padded(node_of(self), padding, length, mask))
