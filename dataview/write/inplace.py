"""In-place operators: an operation's result is written over its operand, as NumPy's `out=` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dataview.compute import evaluate
from dataview.index import broadcast_shapes
from dataview.index.sizes import sizes
from dataview.plan.build import elementwise
from dataview.plan.guards import check_array
from dataview.plan.kinds import Sampled, known_dtype, known_shape, size_of
from dataview.plan.node import Argument, Node
from dataview.plan.operations import Masked, Ufunc
from dataview.write import runs
from dataview.write.assignment import carry_out, write
from dataview.write.changes import changes_of, changes_of_mask, check_writable


def apply_in_place(node: Node, ufunc: Ufunc, args: Sequence[Argument]) -> None:
    """Write `ufunc(*args)` into a node, with the result that NumPy's `out=` gives."""
    if isinstance(node, Sampled):
        node, args = node.writable(tuple(args))
    check_array(node, ufunc.__name__)
    check_writable(node)
    _check_result(node, ufunc, args)
    repeats_texts = _repeats_texts(ufunc, node)
    fills_gaps = not isinstance(ufunc, Masked) and not repeats_texts
    is_small = size_of(known_shape(node)) < sizes.streamed_elements
    if is_small or known_dtype(node).hasobject or repeats_texts:
        result = np.empty(known_shape(node), known_dtype(node))
        ufunc(*(evaluate(arg) if isinstance(arg, Node) else arg for arg in args), out=(result,))
        lacking = node.has_gaps and any(isinstance(arg, Node) and arg.has_gaps for arg in args)
        gaps_of = elementwise(ufunc, tuple(args))[0] if lacking and fills_gaps else None
        write(node, result, fills_gaps=fills_gaps, gaps_of=gaps_of)
        return
    (expression,) = elementwise(ufunc, tuple(args))
    put_in_place(node, expression, fills_gaps)


def apply_where(
    node: Node, function: Callable[..., Any], args: Sequence[Argument], mask: Argument
) -> None:
    """Write `function(*args)` into a node where a mask is true, as NumPy's `out=` with `where=`."""
    apply_in_place(node, Masked(function), (mask, node, *args))


def put_in_place(node: Node, result: Node, fills_gaps: bool = True) -> None:
    """Write a result into a node of its shape, cast as NumPy's `out=` casts it."""
    runs.end()
    changes = changes_of(node, result, is_checked=False)
    carry_out(changes + changes_of_mask(node, result) if fills_gaps else changes)


def _check_result(node: Node, ufunc: Ufunc, args: Sequence[Argument]) -> None:
    """Raise what NumPy raises for shapes and dtypes that do not fit, before the first byte."""
    empties = [np.empty(0, known_dtype(arg)) if isinstance(arg, Node) else arg for arg in args]
    with np.errstate(all="ignore"):
        ufunc(*empties, out=(np.empty(0, known_dtype(node)),))
    shape = known_shape(node)
    if _repeats_texts(ufunc, node):
        found = broadcast_shapes(*(known_shape(arg) for arg in args if isinstance(arg, Node)))
    else:
        results = elementwise(ufunc, tuple(args))
        if len(results) != 1:
            raise TypeError(f"{ufunc.__name__} has {len(results)} results; give as many outputs")
        found = known_shape(results[0])
    if found != shape and broadcast_shapes(found, shape) != shape:
        raise ValueError(
            f"the result of {ufunc.__name__} has shape {found}, which does not fit into the view's "
            f"shape {shape}"
        )


def _repeats_texts(ufunc: Ufunc, node: Node) -> bool:
    """Whether texts are repeated: how long the results are, only the output says."""
    return ufunc is np.multiply and known_dtype(node).kind in "SU"
