"""Ragged rows: their verbs, and NumPy's functions of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from dataview import samples
from dataview.compute import evaluate
from dataview.errors import RaggedError
from dataview.plan import layout
from dataview.plan.build import elementwise, stored
from dataview.plan.gaps import present_in
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.samples import is_ragged, statistic, with_lengths
from dataview.sources import ArraySource
from dataview.view.face import BaseView, evaluated, like, node_of


class RaggedVerbs(BaseView):
    """The verbs of ragged rows."""

    __slots__ = ()

    def _lengths(self) -> Self:
        """Return the length of each ragged row, or its lengths along several ragged axes.

        >>> import dataview as dv
        >>> dv.View([[1, 2], [3], []])._lengths()()
        array([2, 1, 0])
        """
        return like(self, samples.lengths(node_of(self)))

    def _windows(self, size: int, step: int = 1) -> Self:
        """Return all windows of `size` rows, `step` rows apart; writes to them change the data.

        Rows at the end that do not fill a window are left out. Windows of a ragged field are
        windows of the values of each row.

        >>> import numpy as np
        >>> import dataview as dv
        >>> dv.View(np.arange(6))._windows(3, step=2)()
        array([[0, 1, 2],
               [2, 3, 4]])
        """
        return like(self, layout.windows(samples.with_lengths(node_of(self)), size, step))

    def _pad(
        self,
        value: Any = 0,
        to: Any = None,
        side: str = "right",
        multiple: int = 1,
        truncate: bool | str = False,
        length: bool = False,
        mask: bool = False,
    ) -> Self:
        """Return ragged rows filled up to one length; of a record, the rows of all ragged fields.

        The length is that of the longest row, rounded up to a multiple of `multiple`, or `to`.
        Longer rows are an error, unless `truncate` cuts their end (or their beginning: "left").
        `length` and `mask` add fields `<name>_length` and `<name>_mask`. Values that are missing
        inside of rows are filled, too, and the mask is false there.

        >>> import dataview as dv
        >>> d = dv.View(tokens=[[1, 2], [3], []])
        >>> padded = d.tokens._pad(-1, mask=True)
        >>> padded(), padded.tokens_mask().tolist()
        (array([[ 1,  2],
               [ 3, -1],
               [-1, -1]]), [[True, True], [True, False], [False, False]])
        """
        cut = "right" if truncate is True else truncate or None
        padding = samples.Padding(value, to, side, multiple, cut)
        return like(self, samples.padded(node_of(self), padding, length, mask))


LEFT: Any = object()
"""A row returns this to leave the call to NumPy."""

OF_ROWS = frozenset((
    np.append, np.array_repr, np.array_split, np.array_str, np.copy, np.delete, np.repeat, np.roll,
    np.save, np.savez, np.savez_compressed, np.split, np.tile,
))  # fmt: skip
"""The functions that look at no value: they get an array of the arrays of rows."""


def whole(value: Any, function: Any) -> Any:
    """Return the data of a view, and any other value as it is; refuse ragged rows where due."""
    if isinstance(value, BaseView) and function not in OF_ROWS and is_ragged(node_of(value)):
        name = getattr(function, "__name__", str(function))
        refusal: Any = node_of(value)
        raise RaggedError(f"numpy.{name} takes an array of one shape: {refusal.shapeless()}")
    return evaluated(value)


def _rows_of(value: Any) -> Ragged | None:
    """Return ragged rows such that their values stand in a line, None for any other value."""
    node = node_of(value) if isinstance(value, BaseView) else None
    rows = with_lengths(node) if node is not None and is_ragged(node) else None
    return rows.relaid() if isinstance(rows, Ragged) else None


def _of_all_values(function: Callable[..., Any], name: str, weights: int) -> Callable[..., Any]:
    """Return the row of a function to which it does not matter how values are arranged.

    Its first argument may be given by its `name`; `weights` are at this place among the others.
    """

    def row(*args: Any, **options: Any) -> Any:
        first, args, options = _without_first(name, args, options)
        rows = _rows_of(first)
        if rows is not None:
            values: np.ndarray | None = evaluate(rows.leaf()).reshape(-1)
        else:
            given = args[weights] if len(args) > weights else options.get("weights")
            values = _present_in(first) if given is None else None
        return LEFT if values is None else _called(function, values, args, options)

    return row


def _present_in(value: Any) -> np.ndarray | None:
    """Return what is there of a column with gaps, None for any other value."""
    node = node_of(value) if isinstance(value, BaseView) else None
    present = present_in(node) if node is not None and node.has_gaps else None
    if node is None or present is None or node.extents is None or len(node.extents) != 1:
        return None
    values: np.ndarray = evaluated(value)[evaluate(present)]
    return values


def _of_each_value(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return the row of a function that has a value for each value of its argument `name`."""

    def row(*args: Any, **options: Any) -> Any:
        first, args, options = _without_first(name, args, options)
        rows = _rows_of(first)
        if rows is None:
            return LEFT
        found = _called(function, evaluate(rows.leaf()), args, options)
        return rows.over(stored(ArraySource(found), False))

    return row


def _without_first(name: str, args: Any, options: Any) -> tuple[Any, Any, Any]:
    """Return the first argument of a call, and the others."""
    if args:
        return args[0], args[1:], options
    others = dict(options)
    return others.pop(name, None), (), others


def _called(function: Callable[..., Any], values: np.ndarray, args: Any, options: Any) -> Any:
    given = [whole(value, function) for value in args]
    named = {name: whole(value, function) for name, value in options.items()}
    return function(values, *given, **named)


def _ptp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    node = node_of(a) if isinstance(a, BaseView) else None
    if node is None or not is_ragged(node):
        return LEFT
    ends = [statistic(kind, node, axis, keepdims, {}) for kind in ("max", "min")]
    found: Node = elementwise(np.subtract, tuple(ends))[0]
    return found


ROWS: Mapping[Any, Callable[..., Any]] = {
    np.bincount: _of_all_values(np.bincount, "x", 0),
    np.digitize: _of_each_value(np.digitize, "x"),
    np.histogram: _of_all_values(np.histogram, "a", 3),
    np.histogram_bin_edges: _of_all_values(np.histogram_bin_edges, "a", 2),
    np.interp: _of_each_value(np.interp, "x"),
    np.isin: _of_each_value(np.isin, "element"),
    np.ptp: _ptp,
}
"""By function of NumPy's, what makes its value of ragged rows, or counts what a column has."""
