"""Statistics of some elements: those where a mask is true, and an initial value besides."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataview.compute.reductions import result_dtype
from dataview.compute.statistics import check_mask, reduction, reduction_where
from dataview.plan.build import elementwise, stored
from dataview.plan.guards import check_array
from dataview.plan.kinds import known_dtype, known_shape
from dataview.plan.layout import broadcast
from dataview.plan.node import Node
from dataview.plan.operations import NumpyFunction, may_be_missing
from dataview.plan.symbols import deferring
from dataview.sources import ArraySource

BEGUN = {
    "sum": np.add, "nansum": np.add, "prod": np.multiply, "nanprod": np.multiply,
    "min": np.minimum, "nanmin": np.minimum, "max": np.maximum, "nanmax": np.maximum,
}  # fmt: skip
"""The statistics that can begin with an initial value, and how it is included."""


def reduction_from(
    kind: str, node: Node, axis: Any, keepdims: bool, initial: Any, where: Node | None = None
) -> Node:
    """Return a sum, product or extreme of the elements where a mask is true and of a value."""
    check_array(node, kind)
    dtype = result_dtype(kind, known_dtype(node))
    start = stored(ArraySource(np.array(initial, dtype)), False)  # NumPy casts it so
    found: Node
    if kind.removeprefix("nan") in ("min", "max"):
        found = _extreme_of(kind, node, axis, keepdims, start, where)
    elif where is None:
        found = reduction(kind, node, axis, keepdims, {})
    else:
        found = reduction_where(kind, node, axis, keepdims, {}, where)
    (begun,) = elementwise(BEGUN[kind], (found, start))
    return begun  # type: ignore[no-any-return]


@deferring
def _extreme_of(
    kind: str, node: Node, axis: Any, keepdims: bool, start: Node, where: Node | None
) -> Node:
    """Return the extreme of the elements, of which those that are left out count as `start`."""
    if where is not None:
        check_mask(where, node)
    if kind.startswith("nan") and may_be_missing(known_dtype(node)):
        (present,) = elementwise(NumpyFunction("is_present"), (node,))
        (where,) = (present,) if where is None else elementwise(np.logical_and, (where, present))
    if where is not None:
        (node,) = elementwise(NumpyFunction("where"), (where, node, start))
    nothing = np.empty(known_shape(node), bool)
    if nothing.size:
        return reduction(kind.removeprefix("nan"), node, axis, keepdims, {})
    return broadcast(start, np.any(nothing, axis, keepdims=keepdims).shape)
