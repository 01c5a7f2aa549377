"""In-place operators: an operation's result is written over its operand, as NumPy's `out=` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dataview.compute import evaluate
from dataview.index import broadcast_shapes
from dataview.index.sizes import sizes
from dataview.plan.build import elementwise
from dataview.plan.gaps import computed, with_gaps_of
from dataview.plan.guards import check_array
from dataview.plan.kinds import Sampled, known_dtype, known_shape, size_of
from dataview.plan.node import Argument, Node
from dataview.plan.operations import Masked, Ufunc
from dataview.write import runs
from dataview.write.assignment import carry_out, write
from dataview.write.at_once import put_all
from dataview.write.changes import changes_of, changes_of_mask, check_writable

Fit = Callable[[Node], Node]
"""A function that returns a result as it is written to data that do not hold any number."""


def apply_in_place(
    node: Node, ufunc: Ufunc, args: Sequence[Argument], fit: Fit | None = None
) -> None:
    """Write `ufunc(*args)` into a node, with the result that NumPy's `out=` gives."""
    if isinstance(node, Sampled):
        node, args = node.writable(tuple(args))
    check_array(node, ufunc.__name__)
    check_writable(node)
    expression = _checked_result(node, ufunc, args)
    is_small = size_of(known_shape(node)) < sizes.streamed_elements
    if fit is not None:
        put_in_place(node, fit(expression))
    elif expression.has_gaps and expression.dtype == object and not isinstance(ufunc, Masked):
        write(node, with_gaps_of(expression, evaluate(computed(ufunc, tuple(args))[0])))
    elif is_small or known_dtype(node).hasobject or expression is node:
        result = np.empty(known_shape(node), known_dtype(node))
        ufunc(*(evaluate(arg) if isinstance(arg, Node) else arg for arg in args), out=(result,))
        write(node, with_gaps_of(expression, result))
    else:
        put_in_place(node, expression)


def apply_where(
    node: Node,
    function: Callable[..., Any],
    args: Sequence[Argument],
    mask: Argument,
    fit: Fit | None = None,
) -> None:
    """Write `function(*args)` into a node where a mask is true, as NumPy's `out=` with `where=`."""
    apply_in_place(node, Masked(function), (mask, node, *args), fit)


def put_in_place(node: Node, result: Node) -> None:
    """Write a result into a node of its shape, cast as NumPy's `out=` casts it."""
    if put_all(node, result, is_checked=False):
        return
    runs.end()
    carry_out(changes_of(node, result, is_checked=False) + changes_of_mask(node, result))


def _checked_result(node: Node, ufunc: Ufunc, args: Sequence[Argument]) -> Node:
    """Return the node of a result, that of the output for repeated texts.

    What NumPy raises for shapes and dtypes that do not fit is raised before the first byte.
    """
    empties = [np.empty(0, known_dtype(arg)) if isinstance(arg, Node) else arg for arg in args]
    with np.errstate(all="ignore"):
        ufunc(*empties, out=(np.empty(0, known_dtype(node)),))
    shape = known_shape(node)
    if _repeats_texts(ufunc, node):
        result = node
        found = broadcast_shapes(*(known_shape(arg) for arg in args if isinstance(arg, Node)))
    else:
        result, *others = elementwise(ufunc, tuple(args))
        if others:
            raise TypeError(f"{ufunc.__name__} has {1 + len(others)} results; give as many outputs")
        found = known_shape(result)
    if found != shape and broadcast_shapes(found, shape) != shape:
        raise ValueError(
            f"the result of {ufunc.__name__} has shape {found}, which does not fit into the view's "
            f"shape {shape}"
        )
    return result


def _repeats_texts(ufunc: Ufunc, node: Node) -> bool:
    """Whether texts are repeated: how long the results are, only the output says."""
    return ufunc is np.multiply and known_dtype(node).kind in "SU"
