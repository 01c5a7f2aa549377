"""`out=` of NumPy's functions: what fits into it is decided as by NumPy, before anything is read.

A result of the output's shape and dtype is computed lazily and written.  NumPy is asked about any
other dtype, with arrays of one element in place of the data.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from dataview.compute import KINDS, reduction
from dataview.plan.build import elementwise
from dataview.plan.kinds import Reduction, known_dtype, known_shape
from dataview.plan.node import DType, Node
from dataview.plan.operations import NumpyFunction
from dataview.plan.statistics import STATISTICS
from dataview.view.face import BaseView, node_of

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""A function, and what it is called with: by position and by name."""

_IN_C: dict[Any, tuple[str, ...]] = {
    np.concatenate: ("arrays", "axis", "out"),
    np.dot: ("a", "b", "out"),
}
"""The parameters of functions whose signature older versions of NumPy do not tell."""


def without_out(call: Call) -> tuple[Any, Call]:
    """Return what is given as `out`, by name or by position, and the call without it."""
    function, args, options = call
    names = _positions(function)
    by_position = "out" in names[: len(args)]
    if not by_position and "out" not in options:
        return None, call
    if by_position:
        place = names.index("out")
        options = dict(zip(names[place:], args[place:], strict=False)) | options
        args = args[:place]
    rest = {name: value for name, value in options.items() if name != "out"}
    return options.get("out"), (function, args, rest)


@lru_cache(maxsize=256)
def _positions(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the parameters that may be given by position."""
    if function in _IN_C:
        return _IN_C[function]
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # written in C: no other of these takes `out` by position
        return ()
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple([one.name for one in parameters if one.kind in named])


def is_plain(out: Any) -> bool:
    """Whether a result is written into `out` here; NumPy has more to say of other arrays."""
    return isinstance(out, BaseView) or (type(out) is np.ndarray and out.flags.c_contiguous)


def fitted(call: Call, found: Node, out: Node) -> Node | None:
    """Return a result as what the output holds, raise what NumPy raises, or leave it to NumPy."""
    function = call[0]
    if "out" not in _positions(function):
        return None  # as `np.where`
    if any(one.shape is None or one.dtype is None for one in (found, out)):
        return None  # known when it is computed
    same_dtype = known_dtype(found) == known_dtype(out)
    if same_dtype and known_shape(found) == known_shape(out):
        return found
    of_all = isinstance(found, Reduction) and function in _OF_ALL and "where" not in call[2]
    if not of_all and function not in _OF_ONE_SHAPE:
        return None  # the rules of ufuncs, which quantiles and functions of elements end with
    if known_shape(found) != known_shape(out):
        raise ValueError(
            f"the result of {function.__name__} has the shape {known_shape(found)}, out has "
            f"{known_shape(out)}; give an array or a view of the shape of the result"
        )
    return found if same_dtype else _in_dtype(call, found, known_dtype(out))


_OF_ALL = {getattr(np, kind) for kind in KINDS if not STATISTICS[kind].leaves_out_nan} | {
    np.amin, np.amax, np.count_nonzero,
}  # fmt: skip
"""Statistics that have rules of their own for outputs."""

_OF_ONE_SHAPE = {np.concatenate, np.dot, np.stack, np.take}


# --- another dtype -------------------------------------------------------------------------------

_INTO_OBJECTS = ("any", "all", "mean")
"""NumPy takes objects as outputs of these, and it may crash."""


def _in_dtype(call: Call, found: Node, dtype: DType) -> Node:
    """Return a result in another dtype, computed in it where NumPy does that."""
    kind = found.kind if isinstance(found, Reduction) else ""
    if not (dtype.hasobject and kind in _INTO_OBJECTS):
        _try(call, dtype)
    if isinstance(found, Reduction) and STATISTICS[kind].adds:
        # NumPy computes what may round in the precision of the output, if that is higher.
        own = known_dtype(found.node)
        if own.kind in "biufc" and dtype.kind in "biufc":
            data = _converted(found.node, np.result_type(own, dtype))
            found = reduction(kind, data, found.axes, found.keepdims, found.options)
    return _converted(found, dtype)


def _converted(node: Node, dtype: DType) -> Node:
    if known_dtype(node) == dtype:
        return node
    options = (("dtype", dtype), ("casting", "unsafe"))
    found: Node = elementwise(NumpyFunction("astype", options), (node,))[0]
    return found


def _try(call: Call, dtype: DType) -> None:
    """Let NumPy raise if it does not compute into this dtype."""
    function, args, options = call
    small = {name: _small(value) for name, value in options.items()}
    if function is np.take:
        small["mode"] = "wrap"  # numbers of rows lie within an array of one row
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        result = function(*_small(args), **small)
        function(*_small(args), **small, out=np.empty(np.shape(result), dtype))


def _small(value: Any) -> Any:
    """Return arguments with arrays of one element in place of views and arrays."""
    if isinstance(value, BaseView):
        node = node_of(value)
        return np.zeros((1,) * len(known_shape(node)), known_dtype(node))
    if isinstance(value, np.ndarray):
        return np.zeros((1,) * value.ndim, value.dtype)
    if type(value) in (list, tuple):
        return type(value)(map(_small, value))
    return value
