"""Spaces: how a batch is laid out, and what of it is asked for.

A space is a value that says what a batch has to be: `VectorSpace(784)`, `Conv2DSpace((28, 28),
channels=1)`.  It checks batches, and makes batches of other spaces of them: of arrays arrays, of
views views.  `specs` has pairs of a space and the name of a field.
"""

from __future__ import annotations

from dataview.errors import unknown_name
from dataview.spaces import specs
from dataview.spaces.base import SPACE, Space, given_for_space, plain
from dataview.spaces.batch import Views, is_in_memory, register_views, wrapped
from dataview.spaces.composite import CompositeSpace, NullSpace
from dataview.spaces.delivery import Delivery
from dataview.spaces.fields import (
    check_space_of_field,
    holds_rows,
    in_usual_order,
    is_declared,
    joined_meta,
    readable_space,
    readable_space_of_rows,
    space_of,
)
from dataview.spaces.images import Conv1DSpace, Conv2DSpace, Conv3DSpace
from dataview.spaces.indexes import IndexSpace
from dataview.spaces.sequences import IndexSequenceSpace, SequenceSpace, VectorSequenceSpace
from dataview.spaces.vector import VectorSpace

__all__ = [
    "SPACE", "CompositeSpace", "Conv1DSpace", "Conv2DSpace", "Conv3DSpace", "Delivery",
    "IndexSequenceSpace", "IndexSpace", "NullSpace", "SequenceSpace", "Space",
    "VectorSequenceSpace", "VectorSpace", "Views", "check_space_of_field", "given_for_space",
    "holds_rows", "in_usual_order", "is_declared", "is_in_memory", "joined_meta", "plain",
    "readable_space", "readable_space_of_rows", "register_views", "space_of", "specs", "wrapped",
]  # fmt: skip


def __dir__() -> list[str]:
    """Return what users of spaces need; the other names are for the wings above."""
    return sorted([name for name in __all__ if name.endswith("Space")])


def __getattr__(name: str) -> object:
    advice = f"write {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
    raise unknown_name(name, __dir__(), __name__, advice)


_ELSEWHERE = {
    "ImageSpace": "Conv2DSpace(shape=(28, 28), channels=1)",
    "OneHotFormatter": "IndexSpace(max_labels, dim).format_as(labels, VectorSpace(max_labels))",
    "SequenceDataSpace": "SequenceSpace(space), whose batches are pairs of data and mask",
    "SequenceMaskSpace": "SequenceSpace(space), whose batches are pairs of data and mask",
}
"""What to write for names of Pylearn2."""
