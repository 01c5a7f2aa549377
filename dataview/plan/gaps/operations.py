"""What is computed of data with gaps, of which objects have no numbers where they are missing.

What is missing is no answer to a question, so none of them is true of it.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from dataview.plan.build import comparison, elementwise
from dataview.plan.gaps.masks import with_mask
from dataview.plan.gaps.present import KNOWN, UNASKED, constant, present_in
from dataview.plan.kinds import Comparison, Elementwise
from dataview.plan.node import Argument, Node
from dataview.plan.operations import Masked, Ufunc
from dataview.plan.symbols import deferring

_ORDERS = frozenset((np.less, np.less_equal, np.greater, np.greater_equal))


def computed(ufunc: Ufunc, args: tuple[Argument, ...]) -> tuple[Any, ...]:
    """Return the nodes of a ufunc's results; of questions about what is missing none is true."""
    found = elementwise(ufunc, args, computed)
    (first, *_) = found
    if not first.has_gaps or first.lifts:
        return found
    if first.dtype == object and isinstance(ufunc, np.ufunc) and ufunc.nout == 1:
        return _of_objects(ufunc, args, first)
    if first.dtype != bool or ufunc in UNASKED:
        return found
    present = present_in(first)
    if present is None:
        return found
    if ufunc in _ORDERS and any(isinstance(arg, Node) and arg.dtype == object for arg in args):
        found = elementwise(Masked(ufunc), (present, False, *args))  # None has no order
    return elementwise(KNOWN, (found[0], present))


def _of_objects(ufunc: np.ufunc, args: tuple[Argument, ...], found: Node) -> tuple[Any, ...]:
    """Return the node of what is computed where nothing is missing: None has no arithmetic."""
    present = present_in(found)
    if present is None:
        return (found,)
    nothing = with_mask(constant(np.array(None, object)), constant(False))
    return elementwise(Masked(ufunc), (present, nothing, *args))


def compared_in(node: Node) -> Comparison | None:
    """Return the comparison that `compared` returns, or that is in what it returns."""
    if isinstance(node, Elementwise) and node.ufunc == KNOWN:
        node = cast(Node, node.args[0])
    return node if isinstance(node, Comparison) else None


@deferring
def compared(left: Argument, right: Argument, negated: bool, wholes: bool = True) -> Node:
    """Return the node of `==` or `!=` as `comparison` does, but false where data are missing."""
    found = comparison(left, right, negated, wholes, compared)
    present = present_in(found) if found.shape is not None else None
    if present is None:
        return found
    return elementwise(KNOWN, (found, present))[0]  # type: ignore[no-any-return]
