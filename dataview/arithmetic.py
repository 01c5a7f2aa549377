"""Operators and what is computed from values: every one a node, nothing read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from dataview import opening
from dataview.expression import comparison, elementwise
from dataview.face import Face, argument, evaluated, node_of, put_state, unwrapped, viewed
from dataview.inplace import apply_in_place
from dataview.keys import Written

__all__ = ["Arithmetic"]


class Arithmetic(Face, NDArrayOperatorsMixin):
    """The operators of a view, and NumPy's functions of it."""

    __slots__ = ()

    __hash__ = None  # type: ignore[assignment]

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "__call__" and not options and ufunc.signature is None:
            return _applied(ufunc, inputs)
        outs = options.pop("out", ())
        if any(isinstance(out, Face) for out in outs) and method == "__call__" and not options:
            (out,) = outs
            apply_in_place(node_of(out), ufunc, tuple(map(argument, inputs)))
            return _marked(out)
        if method != "__call__" or options or outs or ufunc.signature is not None:
            if outs:
                options["out"] = outs
            return getattr(ufunc, method)(*map(evaluated, inputs), **options)
        return _applied(ufunc, inputs)

    def __eq__(self, other: object) -> Self:  # type: ignore[override]
        return cast(Self, _compared(self, other, False))

    def __ne__(self, other: object) -> Self:  # type: ignore[override]
        return cast(Self, _compared(self, other, True))


def _marked(view: Face) -> Face:
    """Return a view that was changed in place, marked so that assigning it back does nothing."""
    node, seen, parent, key = view._state
    if parent is not None and not isinstance(key, Written):
        put_state(view, (node, seen, parent, Written(key)))
    return view


def _applied(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
    if ufunc is np.equal or ufunc is np.not_equal:
        return _compared(inputs[0], inputs[1], ufunc is np.not_equal)
    found = elementwise(ufunc, tuple([argument(value) for value in inputs]))
    return viewed(found[0]) if len(found) == 1 else tuple(map(viewed, found))


_WHOLES = (Face, Mapping, list, tuple)


def _compared(left: Any, right: Any, negated: bool) -> Any:
    """Return the comparison; only that of two wholes, not of one with a scalar, has a truth."""
    wholes = all(isinstance(side, _WHOLES) or np.ndim(side) for side in (left, right))
    one, other = (opening.operand_of(unwrapped(side)) for side in (left, right))
    return viewed(comparison(one, other, negated, wholes))
