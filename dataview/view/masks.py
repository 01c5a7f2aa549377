"""A value written where a mask is true, block by block; no list of places is held in memory.

All elements are written, those outside of the mask with what is there.  So each element must have a
place of its own; what has not is left to the general way, by the positions where the mask is true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dataview.compute import evaluate, into_places, place_of
from dataview.exchange import argument_of
from dataview.index import axes_of
from dataview.plan.build import elementwise
from dataview.plan.casting import cast
from dataview.plan.guards import is_broadcast_to
from dataview.plan.kinds import Reduction, known_dtype, size_of
from dataview.plan.node import DType, Node
from dataview.plan.operations import NumpyFunction
from dataview.plan.walk import below
from dataview.sizes import sizes
from dataview.view.face import unwrapped
from dataview.write import check_writable, write

_WHERE = NumpyFunction("where")
_PLAIN_KINDS = "biufcmMUS"


def assigned(node: Node, mask: Node, value: Any) -> bool:
    """Write one value where a mask of a node's shape is true; return False if nothing was done."""
    return mask.shape == node.shape and filled(node, mask, value, cast)


def check_axes(node: Node, key: Any, value: Any) -> None:
    """Raise if a value with several axes is written through a mask of all of a view's axes."""
    mask = key[0] if type(key) is tuple and len(key) == 1 else key
    if type(mask) is list:
        mask = np.asarray(mask)
    mask = unwrapped(mask)
    if not isinstance(mask, (Node, np.ndarray)) or mask.dtype is None or mask.dtype.kind != "b":
        return
    if not mask.shape or node.shape is None or len(mask.shape) != len(node.shape):
        return
    given = unwrapped(value)
    axes = (
        0 if isinstance(given, Mapping) else len(getattr(given, "shape", None) or np.shape(given))
    )
    if axes > 1:
        raise TypeError(
            f"what is written through a mask has one axis or none, and goes to where the mask is "
            f"true; got {axes} axes; d[mask] = value[mask] writes a part of an array"
        )


def filled(node: Node, mask: Any, value: Any, fit: Callable[[Any, DType], np.ndarray]) -> bool:
    """Write one value where a mask, which may have fewer axes, is true; or return False.

    `fit` casts the value to the dtype of the data, or raises.
    """
    if node.shape is None or size_of(node.shape) < sizes.streamed_elements:
        return False
    if mask.dtype != bool or mask.shape is None or not is_broadcast_to(mask.shape, node.shape):
        return False
    given = _single(value)
    if given is None or not _has_places_of_its_own(node):
        return False
    check_writable(node)
    landed = fit(given, known_dtype(node))
    (whole,) = elementwise(_WHERE, (argument_of(mask), argument_of(landed), node))
    write(node, whole)
    return True


def _has_places_of_its_own(node: Node) -> bool:
    """Whether each element of a node has a place of its own in one source."""
    place = place_of(node)
    if place is None or known_dtype(node).kind not in _PLAIN_KINDS:
        return False
    memory, index = place.source.memory, place.where
    if memory is not None and not memory.flags.forc:  # whose elements may lie in each other
        return False
    used = {axis for map_ in index.maps for axis in axes_of(map_)}
    spread = all(length == 1 or axis in used for axis, length in enumerate(index.shape))
    return index.is_box and spread


def _single(value: Any) -> Any:
    """Return the data of a value without axes, None if it has axes or depends on what is written.

    A statistic is of the data as they were when it was asked for, whatever is written first.
    """
    given = unwrapped(value)
    if isinstance(given, Node):
        return evaluate(given) if given.shape == () and _is_of_statistics(given) else None
    return None if isinstance(given, (list, tuple, Mapping)) or np.ndim(given) else given


def _is_of_statistics(node: Node) -> bool:
    """Whether a node is computed from statistics and constants alone."""

    def into(part: Any) -> list[Any]:
        return [] if isinstance(part, Reduction) else into_places(part)

    return all(place_of(part) is None for part in below([node], into))
