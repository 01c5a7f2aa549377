"""Spaces: how a batch is laid out, and what of it is asked for.

A space is a value that says what a batch has to be: `VectorSpace(784)`, `Conv2DSpace((28, 28),
channels=1)`.  It checks batches, and makes batches of other spaces of them: of arrays arrays, of
views views.  `specs` has pairs of a space and the name of a field.
"""

from __future__ import annotations

from dataview.spaces import specs
from dataview.spaces.base import SPACE, Space, plain
from dataview.spaces.batch import Views, hand_out, wrapped
from dataview.spaces.composite import CompositeSpace, NullSpace
from dataview.spaces.delivery import Delivery
from dataview.spaces.fields import check_holds, is_declared, joined_meta, readable, space_of
from dataview.spaces.images import Conv1DSpace, Conv2DSpace, Conv3DSpace
from dataview.spaces.indexes import IndexSpace
from dataview.spaces.sequences import IndexSequenceSpace, SequenceSpace, VectorSequenceSpace
from dataview.spaces.vector import VectorSpace

__all__ = [
    "SPACE", "CompositeSpace", "Conv1DSpace", "Conv2DSpace", "Conv3DSpace", "Delivery",
    "IndexSequenceSpace", "IndexSpace", "NullSpace", "SequenceSpace", "Space",
    "VectorSequenceSpace", "VectorSpace", "Views", "check_holds", "hand_out",
    "is_declared", "joined_meta", "plain", "readable", "space_of", "specs", "wrapped",
]  # fmt: skip


def __dir__() -> list[str]:
    """Return what users of spaces need; the other names are for the wings above."""
    return sorted([name for name in __all__ if name.endswith("Space")])
