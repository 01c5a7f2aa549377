"""Statistics as nodes: what NumPy refuses is refused here, before anything is read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NoReturn, cast

import numpy as np

from dataview.compute.statistics.quantiles import MEDIAN
from dataview.compute.statistics.reductions import axes_over, of_one_axis, result_dtype
from dataview.compute.ways import aliases
from dataview.errors import RaggedError, StreamError
from dataview.index import is_identity
from dataview.index.sizes import sizes
from dataview.plan.build import elementwise
from dataview.plan.guards import check_array, check_ends
from dataview.plan.kinds import (
    Reduction,
    Sampled,
    Select,
    Stored,
    known_dtype,
    known_shape,
    size_of,
)
from dataview.plan.layout import axes_of_source, reshaped, transposed
from dataview.plan.node import DType, Node, Shape, told_of_reduced
from dataview.plan.operations import NumpyFunction, may_be_missing
from dataview.plan.places import place_of
from dataview.plan.ragged import WAYS_OUT, Ragged
from dataview.plan.statistics import STATISTICS
from dataview.plan.symbols import deferring


@deferring
def of_all(kind: str, node: Node, axis: Any, keepdims: bool, options: dict[str, Any]) -> Node:
    """Return the node of a statistic of all elements; what NumPy refuses is refused here."""
    check_array(node, kind)
    if STATISTICS[kind].adds and _is_narrow(node):
        return _in_single_precision(kind, node, axis, keepdims, options)
    if isinstance(node, Ragged):
        return of_ragged(kind, node, axis, keepdims, options)
    return of_array(kind_for(kind, known_dtype(node)), node, axis, keepdims, options)


def _is_narrow(node: Node) -> bool:
    """Whether data are floats of another library's, such as bfloat16, that add in few bits."""
    dtype = known_dtype(node)
    return dtype.isbuiltin == 2 and np.can_cast(dtype, np.float32)


def _in_single_precision(kind: str, node: Node, *how: Any) -> Node:
    """Return a statistic that is rounded to the dtype of the data in the end alone."""

    def cast(part: Node, dtype: Any) -> Node:
        as_dtype = NumpyFunction("astype", (("dtype", np.dtype(dtype)), ("casting", "unsafe")))
        return elementwise(as_dtype, (part,))[0]  # type: ignore[no-any-return]

    return cast(of_all(kind, cast(node, np.float32), *how), known_dtype(node))


def of_array(kind: str, node: Node, axis: Any, keepdims: bool, options: dict[str, Any]) -> Node:
    """Return the node of a statistic of an array, or of pairs of a value and whether it counts."""
    of_samples = _of_each_sample(kind, node, axis, keepdims, options)
    if of_samples is not None:
        return of_samples
    shape = _lengths(node)
    check_ends(node, kind)
    axes = tuple(range(len(shape))) if axis is None else axes_over(axis, len(shape), kind)
    if isinstance(node, Sampled) and node.pass_key:
        _check_one_pass(kind, axes)
    what = STATISTICS[kind]
    if what.is_quantile:
        dtype = _quantile_dtype_of(node, shape, axes, options)
        return _in_order(kind, node, axes, keepdims, options, dtype)
    if what.is_place and isinstance(axis, tuple):
        raise of_one_axis(kind, axis)
    if what.needs_some:
        for number in axes:
            if not shape[number]:
                raise ValueError(f"{kind} of no elements has no value: axis {number} has length 0")
    return _in_order(kind, node, axes, keepdims, options, _dtype_of(kind, node))


def _of_each_sample(
    kind: str, node: Node, axis: Any, keepdims: bool, options: dict[str, Any]
) -> Node | None:
    """Return a statistic of the samples in batches that are not all of one size.

    It is that of all rows, in the same batches; None if it is not, as over the rows of each batch.
    """
    if axis is None or not isinstance(node, Sampled) or not node.lifts or node.pass_key:
        return None
    axes = axes_over(axis, len(node.extents or ()), kind)
    lifted = node.as_rows((node,)) if min(axes, default=0) > 1 else None
    if lifted is None:
        return None
    batches, (rows,) = lifted
    of_row = (
        tuple(number - 1 for number in axes) if isinstance(axis, (tuple, list)) else axes[0] - 1
    )
    return batches.of_rows(of_array(kind, cast(Node, rows), of_row, keepdims, options))


def _dtype_of(kind: str, node: Node) -> DType:
    """Return the dtype of a statistic."""
    try:
        return result_dtype(kind, known_dtype(node))
    except TypeError as error:
        _refuse(kind, node, error)


def _quantile_dtype_of(
    node: Node, shape: Shape, axes: tuple[int, ...], options: dict[str, Any]
) -> DType:
    """Return the dtype of a median or of quantiles."""
    try:
        return quantile_dtype(shape, axes, known_dtype(node), options)
    except TypeError as error:
        kind = "median" if options["method"] == MEDIAN else "quantile"
        _refuse(kind, node, error)


def quantile_dtype(
    shape: Shape, axes: tuple[int, ...], dtype: np.dtype[Any], options: Mapping[str, Any]
) -> np.dtype[Any]:
    """Return the dtype of quantiles, or raise what NumPy raises.

    >>> quantile_dtype((9,), (0,), np.dtype("f4"), {"q": 0.5, "method": "linear"})
    dtype('float32')
    """
    q, is_median = options["q"], options["method"] == MEDIAN
    if np.any(np.less(q, 0) | np.greater(q, 1)):
        raise ValueError(f"Quantiles must be in the range [0, 1], 0.5 for 50 %; got {q}")
    method: Any = "linear" if is_median else options["method"]
    if (
        not options.get("without_missing")
        and not is_median
        and not size_of(tuple(shape[axis] for axis in axes))
    ):
        np.quantile(np.empty(shape, dtype), q, axis=axes, method=method)
    if options.get("without_missing") and not size_of(shape) and dtype.kind in "biu":
        dtype = np.dtype(float)  # of nothing it is NaN
    is_plain = type(q) is float or (type(q) is tuple and {*map(type, q)} == {float})
    asked = _asked_dtype if is_plain and isinstance(method, str) else _asked_dtype.__wrapped__
    return asked(dtype, len(axes) == len(shape), q, method)


@lru_cache(maxsize=256)
def _asked_dtype(dtype: np.dtype[Any], of_line: bool, q: Any, method: Any) -> np.dtype[Any]:
    with np.errstate(all="ignore"):
        found = np.quantile(np.zeros(1 if of_line else (1, 1), dtype), q, axis=0, method=method)
    return dtype if dtype.hasobject else np.asarray(found).dtype


def _refuse(kind: str, node: Node, error: TypeError) -> NoReturn:
    """Raise NumPy's error, or one that names the texts or dates that have no such statistic."""
    dtype = known_dtype(node)
    what = _WITHOUT.get(dtype.kind)
    if what is None:
        raise error
    name = "the view" if node.label is None else repr(node.label.names[-1])
    more = _INSTEAD.get(dtype.kind, "") if kind in ("mean", "sum", "nanmean") else ""
    text = f"{kind}: {name} holds {what} ({dtype}), of which there is none{more}"
    raise TypeError(text) from error


_WITHOUT = {"U": "texts", "T": "texts", "S": "bytes", "M": "dates", "m": "durations"}
_COUNTS = "; d._counts() tells how often each occurs"
_INSTEAD = {
    "M": "; (d - d._min())._mean() + d._min() is the mean of dates",
    "U": _COUNTS,
    "T": _COUNTS,
}
"""What to ask of data that have no sum and no mean, by the kind of their dtype."""


def _lengths(node: Node) -> Shape:
    """Return the lengths of a node's axes; that of a stream counts as 1, since it is unknown."""
    if isinstance(node, Sampled) and node.pass_key:
        return tuple(1 if n is None else n for n in node.extents or ())
    return known_shape(node)


def _check_one_pass(kind: str, axes: tuple[int, ...]) -> None:
    """Raise if a statistic of a stream is not one number or sample, found in one pass."""
    if STATISTICS[kind].is_quantile:
        raise StreamError(
            "quantiles need several passes over the data, and a stream is read in one; save it, "
            "or take the quantiles of view[:n]._freeze()"
        )
    if 0 not in axes:
        raise StreamError(
            f"{kind} of each sample of a stream makes a stream: _map(lambda s: s._{kind}())"
        )


def kind_for(kind: str, dtype: np.dtype[Any]) -> str:
    """Return the kind of statistic that does what is asked for data of this dtype.

    Where nothing can be missing, what leaves out the missing is the plain statistic.  Of times
    NumPy leaves out NaT in extremes alone.
    """
    what = STATISTICS[kind]
    if not what.leaves_out_nan:
        return kind
    if dtype.hasobject:
        raise TypeError(f"{kind} of objects is left to NumPy: np.{kind}(view) reads all of them")
    may_leave_out = may_be_missing(dtype) and (what.is_extreme or dtype.kind not in "mM")
    return kind if may_leave_out else what.plain


def median_of_all(node: Node, axis: Any, keepdims: bool, without_missing: bool = False) -> Node:
    """Return the node of a median, `without_missing` if asked; bools are taken for numbers."""
    check_array(node, "median")
    if known_dtype(node).kind == "c":
        raise TypeError(
            "median of complex numbers is left to NumPy: np.median(view) reads them all"
        )
    if node.dtype == bool:
        as_float = NumpyFunction("astype", (("dtype", np.dtype(float)), ("casting", "unsafe")))
        (node,) = elementwise(as_float, (node,))
    options = {"q": 0.5, "method": MEDIAN, "approx": False}
    if without_missing:
        options["without_missing"] = True
    return of_all("quantile", node, axis, keepdims, options)


def of_pairs(kind: str, node: Node, axis: Any, keepdims: bool, options: dict[str, Any]) -> Node:
    """Return the node of a statistic of pairs, or ragged rows of them: some of them may count."""
    statistic = of_ragged if isinstance(node, Ragged) else of_array
    return statistic(kind, cast(Any, node), axis, keepdims, options)


def of_ragged(kind: str, node: Ragged, axis: Any, keepdims: bool, options: dict[str, Any]) -> Node:
    """Return a statistic of ragged rows: of all values, of each row, or along axes that are alike.

    The first axis behind the rows stands for all that are ragged.
    """
    ndim, values = len(node.extents), node.leaf()
    if axis is None:
        found: Node = of_all(kind, node.flat(), None, False, options)
        lead = np.shape(options.get("q", 0))
        return reshaped(found, (*lead, *[1] * ndim)) if keepdims else found
    ragged = {number for number, length in enumerate(node.extents) if number and length is None}
    axes = set(axes_over(axis, ndim, kind))
    axes = ragged if axes == {1} else axes
    behind = ndim - len(known_shape(values)) + 1
    if min(axes, default=0) >= behind and not keepdims and "q" not in options:
        inner = tuple(number - behind + 1 for number in sorted(axes))
        kind = kind_for(kind, known_dtype(values))
        return node.over(of_array(kind, values, inner, False, options))
    if 0 in axes or not ragged <= axes:
        raise RaggedError(
            f"{kind} of ragged rows is taken of each row (axis=1), or of everything (axis=None); "
            f"got axis={axis!r}. {WAYS_OUT}"
        )
    what = STATISTICS[kind]
    if what.is_place and len(axes) > 1:
        raise of_one_axis(kind, axis)
    if what.is_quantile:
        dtype = _quantile_dtype_of(node, (1,) * ndim, tuple(sorted(axes)), options)
    else:
        dtype = _dtype_of(kind, node)
    if what.needs_some:
        empty = np.flatnonzero(np.diff(node.merged().chosen()[1].offsets) == 0)
        if empty.size:
            raise ValueError(
                f"{kind} of no elements has no value: row {empty[0]} has none; "
                "leave such rows out, view[view._lengths() > 0], or fill them up, _pad(value)"
            )
    return Reduction(kind, node, tuple(sorted(axes)), keepdims, options, dtype)


# --- the order of axes --------------------------------------------------------------------------


def _in_order(
    kind: str,
    node: Node,
    axes: tuple[int, ...],
    keepdims: bool,
    options: dict[str, Any],
    dtype: DType,
) -> Node:
    """Return a statistic; of a part with axes in another order than in its source, as of this one.

    So a transpose is read as it lies in its file, in blocks of rows.
    """
    order = _better_order(kind, node, axes)
    if order is None:
        return Reduction(kind, node, axes, keepdims, options, dtype)
    turned = transposed(node, order)
    assert isinstance(turned, Select)
    if is_identity(turned.index, known_shape(turned.node)):
        turned = turned.node
    own = tuple(sorted(order.index(axis) for axis in axes))
    found: Node = Reduction(kind, turned, own, keepdims, options, dtype)
    lead = np.ndim(options.get("q", 0))
    have = [axis for axis in order if keepdims or axis not in axes]
    back = [lead + have.index(axis) for axis in sorted(have)]
    shift = lead - len(axes) * (not keepdims)
    told, meta = told_of_reduced(kind, node, axes, keepdims, shift, dtype)
    found = transposed(found, [*range(lead), *back])
    found._fields, found.meta = told, meta
    return found


def _better_order(kind: str, node: Node, axes: tuple[int, ...]) -> list[int] | None:
    """Return the axes of a part in the order of its source, None if it is read as it is.

    So are memory, a file that is transposed itself, and sources of long rows; and positions among
    elements that would be counted in another order.  Chunks that are too tall for blocks of rows
    are read in blocks along another axis.
    """
    if type(node) not in (Select, Stored) or aliases(node):
        return None
    place, shape, slow = place_of(node), known_shape(node), 0
    order = axes_of_source(node.index) if isinstance(node, Select) else list(range(len(shape)))
    is_in_chunks = place is not None and bool(place.source.chunk_shape)
    if place is not None:
        slow, _ = place.source.slow_axis(place.where)
    if is_in_chunks:
        order.sort(key=lambda axis: axis != slow)
    taken = [axis for axis in order if axis in axes]
    if order == sorted(order) or (STATISTICS[kind].is_place and taken != sorted(taken)):
        return None
    turned = place_of(transposed(node, order))
    if turned is not None and slow == 0 != turned.source.slow_axis(turned.where)[0]:
        return None
    now, then = (size_of(shape) // max(1, shape[axis]) for axis in (0, order[0]))
    most = sizes.file_bytes if is_in_chunks else sizes.part_bytes
    return order if then <= max(now, most // known_dtype(node).itemsize) else None
