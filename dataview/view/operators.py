"""Operators, comparisons and conversions: they make nodes and read nothing."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Self, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from dataview import exchange, show, tables
from dataview.compute import changing_arrays, evaluate, matmul
from dataview.errors import warn
from dataview.index import Written
from dataview.plan import layout
from dataview.plan.build import check_dtypes, keyed
from dataview.plan.gaps import compared, computed, holds_codes, with_gaps_of
from dataview.plan.guards import check_array, no_operation
from dataview.plan.kinds import Record, known_dtype
from dataview.plan.node import Argument, Node
from dataview.plan.operations import OPERATIONS, power_of
from dataview.samples import with_lengths
from dataview.view import hints, lengths, numpy_functions
from dataview.view.chosen import check_output, written
from dataview.view.face import (
    BaseView,
    argument,
    evaluated,
    is_applied_at_once,
    like,
    node_of,
    put_state,
    unwrapped,
    viewed,
    with_whole_texts,
)
from dataview.view.ragged_rows import whole
from dataview.write import apply_in_place, apply_where, check_writable, put_in_place, write


class OfTheClass:
    """A method that the class has and that its objects hide.

    NumPy looks up `__array_function__` in the class. xarray, dask and others look it up in the
    object; if it is there they take the object for an array and call methods that a view lacks.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method

    def __get__(self, view: Any, kind: type) -> Callable[..., Any]:
        if view is not None:
            raise AttributeError("__array_function__ is of the class")
        return self.method


class Operators(BaseView):
    """The operators of a view, and NumPy's functions of it."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "__call__" and ufunc.signature is None:
            if not options:
                return _applied(ufunc, inputs)
            if "out" in options and options.keys() <= _OUTPUT and ufunc.nout == 1:
                (out,) = options["out"]
                return _put_out(ufunc, inputs, out, options.get("where", True))
        if ufunc is np.matmul and method == "__call__" and options.keys() <= {"out"}:
            product = matmul(*map(argument, inputs))
            if not options:
                return viewed(product)
            (out,) = options["out"]
            if _holds(out, product):
                put_in_place(node_of(out), written(node_of(out), product))
                return _marked(out)
        if method == "at" and _changed_at(ufunc, *inputs):
            return None
        return _left_to_numpy(ufunc, method, inputs, options)

    @OfTheClass
    def __array_function__(
        self, function: Any, types: Any, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        return numpy_functions.called(function, args, options)

    def __imatmul__(self, other: Any) -> Self:
        axes = lengths.ndim(node_of(self)), np.ndim(other)
        if not axes[0] or axes[1] < 2:  # by `out` alone NumPy would repeat a row of products
            raise ValueError(
                "@= needs an axis on its left side and two or more on its right side; got "
                f"{axes[0]} and {axes[1]}; `v @ w` is the product as a new view"
            )
        return cast(Self, np.matmul(cast(Any, self), other, out=(cast(Any, self),)))

    def __pow__(self, exponent: Any) -> Self:
        return cast(Self, _applied(*_power(self, exponent)))

    def __ipow__(self, exponent: Any) -> Self:
        ufunc, operands = _power(self, exponent)
        return cast(Self, ufunc(*operands, out=(self,)))

    def __eq__(self, other: object) -> Self:  # type: ignore[override]
        return cast(Self, _compared(self, other, False))

    def __ne__(self, other: object) -> Self:  # type: ignore[override]
        return cast(Self, _compared(self, other, True))

    # --- values of Python's ----------------------------------------------------------------

    def __hash__(self) -> int:
        raise TypeError(hints.without_hash(bool(node_of(self).fields.named)))

    def __round__(self, digits: int | None = None) -> Self:
        return cast(Self, np.round(cast(Any, self), digits or 0))

    def __bool__(self) -> bool:
        return lengths.truth(node_of(self))

    def __contains__(self, value: Any) -> bool:
        if isinstance(value, str) and lengths.holds_no_texts(node_of(self)):
            raise TypeError(f"`in` asks for a sample; {value!r} in d._fields() asks for a field")
        if isinstance(value, str) and node_of(self).shape == ():
            raise TypeError(f"`in` looks for an element; {value!r} in d() looks in the text")
        whole = viewed(with_lengths(node_of(self)))
        asked = [value] if isinstance(value, str) else value  # of a label that is none, too
        return lengths.any_true(node_of(whole == asked))

    def __float__(self) -> float:
        return float(lengths.only_value(self, "float()"))

    def __int__(self) -> int:
        return int(lengths.only_value(self, "int()"))

    def __complex__(self) -> complex:
        return complex(lengths.only_value(self, "complex()"))

    def __index__(self) -> int:
        return operator.index(lengths.only_value(self, "an index"))

    def __format__(self, spec: str) -> str:
        if not spec or (lengths.is_one(node_of(self)) and lengths.is_missing(node_of(self))):
            return str(self)
        return format(lengths.only_value(self, f"the format {spec!r}"), spec)

    # --- values ----------------------------------------------------------------------------

    def _astype(self, dtype: Any, casting: str = "unsafe") -> Self:
        """Return the elements converted to another dtype.

        >>> import dataview as dv
        >>> dv.View([1.5, 2.5])._astype("i4")()
        array([1, 2], dtype=int32)
        """
        return like(self, numpy_functions.astype(node_of(self), dtype, casting))

    def _reshape(self, *shape: Any, order: str = "C") -> Self:
        """Return the elements in another shape; writes to it change the data.

        >>> import dataview as dv
        >>> dv.View(np.arange(6))._reshape(-1, 3)[1]()
        array([3, 4, 5])
        """
        wanted = shape[0] if len(shape) == 1 else shape
        return like(self, layout.reshaped(node_of(self), wanted, order))

    def _transpose(self, *axes: Any) -> Self:
        """Return the axes in another order, by default reversed; writes to it change the data.

        >>> import dataview as dv
        >>> dv.View(np.zeros((2, 3, 4)))._transpose(1, 0, 2)._shape()
        (3, 2, 4)
        """
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return like(self, layout.transposed(node_of(self), order))


_NUMBERS = frozenset((int, float, bool, complex))

_EQUALITIES = frozenset((np.equal, np.not_equal))

_ORDERS = frozenset((np.less, np.less_equal, np.greater, np.greater_equal))


def _quick(ufunc: np.ufunc, general: Any, reflected: bool) -> Any:
    """Return an operator that leaves only operands with operators of their own to NumPy."""
    is_order = ufunc in _ORDERS

    def quick(view: Any, other: Any) -> Any:
        kind = type(other)
        if kind is type(view):
            operand: Any = node_of(other)
        elif kind in _NUMBERS:
            operand = other
        elif kind is np.ndarray:
            operand = argument(other)
        else:
            return general(view, other)
        own = node_of(view)
        if is_order and (holds_codes(own) or holds_codes(operand)):
            return general(view, other)  # which looks whether labels are compared
        found = computed(ufunc, (operand, own) if reflected else (own, operand))
        return viewed(found[0]) if len(found) == 1 else tuple(map(viewed, found))

    return functools.wraps(general)(quick)


for _name, _ufunc in [(row.operator, row.function) for row in OPERATIONS if row.operator]:
    for _method, _reflected in ((f"__{_name}__", False), (f"__r{_name}__", True)):
        _general = getattr(NDArrayOperatorsMixin, _method, None)
        if _general is not None:  # comparisons have no reflected form
            setattr(Operators, _method, _quick(_ufunc, _general, _reflected))


_OUTPUT = frozenset(("out", "where"))
"""The options of a ufunc whose result is written block by block."""


def _put_out(ufunc: np.ufunc, inputs: tuple[Any, ...], out: Any, where: Any) -> Any:
    """Write the result of a ufunc into an array or a view, where `where` is true; return that."""
    if not isinstance(out, (np.ndarray, BaseView)):
        exchange.check_gradient(out)
        raise TypeError(f"out is an array or a view; got {type(out).__name__}")
    if not isinstance(out, BaseView):
        _apply(argument(out), ufunc, inputs, where)
        return out
    _write_result(out, ufunc, inputs, where)
    return _marked(out)


def _apply(node: Node, ufunc: np.ufunc, inputs: tuple[Any, ...], where: Any) -> None:
    operands = _operands(ufunc, inputs)
    check_output(ufunc.__name__, node, operands)
    fit = functools.partial(written, node) if holds_codes(node) else None
    if where is True:
        apply_in_place(node, ufunc, operands, fit)
    else:
        apply_where(node, ufunc, operands, argument(where), fit)


def _holds(out: Any, product: Node) -> bool:
    """Whether a product has the shape of a view, and a dtype that is cast to its own."""
    if not isinstance(out, BaseView):
        return False
    node = node_of(out)
    if isinstance(node, Record) or None in (product.shape, product.dtype, node.dtype):
        return False
    same_kind = np.can_cast(known_dtype(product), known_dtype(node), "same_kind")
    return product.shape == node.shape and bool(same_kind)


def _changed_at(ufunc: np.ufunc, view: Any, key: Any, *values: Any) -> bool:
    """Apply `ufunc.at` to the rows that numbers select; return False for all other keys.

    Only these rows are read and written.
    """
    if not isinstance(view, BaseView):
        return False
    node, numbers = node_of(view), np.asarray(evaluated(key))
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1 or not node.shape:
        return False
    check_writable(node)
    keyed(node, numbers)  # raises if one is out of bounds
    numbers = numbers.astype(np.intp)
    from_start = np.where(numbers < 0, numbers + node.shape[0], numbers)
    chosen, places = np.unique(from_start, return_inverse=True)
    rows = keyed(node, chosen)
    data = np.array(evaluate(rows))
    ufunc.at(data, places, *map(evaluated, values))
    write(rows, written(rows, with_gaps_of(rows, data)))
    return True


def _write_result(view: BaseView, ufunc: np.ufunc, inputs: tuple[Any, ...], where: Any) -> None:
    """Write the result of a ufunc into a view; if it does not fit, say what to write instead."""
    try:
        if where is not True or not is_applied_at_once(view, ufunc, inputs):
            _apply(node_of(view), ufunc, inputs, where)
    except TypeError as error:
        if hasattr(error, "dtypes"):  # of NumPy's error about operands that it has no loop for
            for value in inputs:
                if isinstance(value, BaseView):
                    check_array(node_of(value), ufunc.__name__)
            raise no_operation(ufunc.__name__, error.dtypes[: ufunc.nin]) from error
        wanted = getattr(error, "from_", None)  # of NumPy's error about a cast
        if wanted is None or not hasattr(error, "casting"):
            raise
        raise TypeError(
            f"the data are {node_of(view).dtype}, and the result of {ufunc.__name__} is {wanted}, "
            "which would lose digits; the operator without = makes a view of it, "
            f"d._astype({wanted.name!r})._save(path) a file that can hold it"
        ) from error


def _marked(view: BaseView) -> BaseView:
    """Mark a view that was changed in place, so that assigning it back does nothing; return it."""
    node, seen, parent, key, built = view._state
    if parent is not None and not isinstance(key, Written):
        put_state(view, (node, seen, parent, Written(key), built))
    return view


def _applied(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
    if ufunc in _EQUALITIES:
        return _compared_by(ufunc, *inputs)
    found = computed(ufunc, _operands(ufunc, inputs))
    return viewed(found[0]) if len(found) == 1 else tuple(map(viewed, found))


def _operands(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> tuple[Argument, ...]:
    """Return the operands of a ufunc: those of comparisons are of one kind, as labels or dates."""
    if ufunc in _EQUALITIES:
        return _sides(*inputs)
    if ufunc in _TRUTHS:
        inputs = tuple([exchange.operand_of(None) if one is None else one for one in inputs])
    operands = tuple([argument(value) for value in with_whole_texts(*inputs)])
    if ufunc in _ORDERS:
        tables.check_no_order(ufunc.__name__, *operands)
        operands = tables.in_dates(*operands)
    return tables.in_times(operands)


_TRUTHS = frozenset((np.logical_and, np.logical_or, np.logical_xor))
"""The ufuncs for which None is an object as any other, which is false."""


def _compared_by(ufunc: np.ufunc, left: Any, right: Any) -> Any:
    """Return the comparison by a function: where NumPy has no loop for the dtypes, an error.

    `array == view` arrives here, too, and cannot be told from `np.equal(array, view)`: as that of
    every operator its result is a view, of dtypes without a loop one in which nothing is equal.
    """
    if not isinstance(left, (np.ndarray, np.generic)):
        sides = _sides(left, right)
        check_dtypes(ufunc, sides)
        if any(isinstance(side, Node) and _is_void(side) for side in sides):  # beside objects
            return viewed(computed(ufunc, sides)[0])
    return _compared(left, right, ufunc is np.not_equal)


def _is_void(node: Node) -> bool:
    return node.dtype is not None and node.dtype.kind == "V"


def _power(view: BaseView, exponent: Any) -> tuple[np.ufunc, tuple[Any, ...]]:
    """Return the ufunc that computes this power of an array, and its operands."""
    dtype = node_of(view).dtype
    if dtype is not None and isinstance(exponent, (int, float, np.generic)):
        ufunc = power_of(dtype, exponent)
        if ufunc.nin == 1:
            return ufunc, (view,)
    return np.power, (view, exponent)


def _left_to_numpy(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """Let NumPy compute with the data, and write its results into views given as outputs."""
    changed = list(inputs[:1]) if method == "at" else list(options.pop("out", ()))
    for view in changed:
        if isinstance(view, BaseView):
            check_writable(node_of(view))
            check_output(ufunc.__name__, node_of(view), map(unwrapped, inputs))
    data = [np.array(evaluated(view)) if isinstance(view, BaseView) else view for view in changed]
    if method in ("__call__", "outer") and (ufunc in _EQUALITIES or ufunc in _ORDERS):
        sides = _operands(ufunc, inputs)
        inputs = tuple([viewed(side) if isinstance(side, Node) else side for side in sides])
    values = [whole(value, ufunc) for value in inputs]
    if method == "at":
        values[0] = data[0]
    elif data:
        options["out"] = tuple(data)
    with changing_arrays(data):
        result = getattr(ufunc, method)(*values, **{k: evaluated(v) for k, v in options.items()})
    for view, array in zip(changed, data, strict=True):
        if isinstance(view, BaseView):
            stays = method == "at" or "where" in options
            found = with_gaps_of(node_of(view), array) if stays else array
            write(node_of(view), written(node_of(view), found))
    if method == "at" or not data:
        return result
    results = result if type(result) is tuple else (result,)
    given = [own if out is None else out for own, out in zip(results, changed, strict=True)]
    return given[0] if len(given) == 1 else tuple(given)


_WHOLES = (BaseView, Mapping, list, tuple)


def _is_nothing(value: Any) -> bool:
    """Whether a user may mean what is missing."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _sides(left: Any, right: Any) -> tuple[Argument, Argument]:
    sides = with_whole_texts(left, right)
    return tables.comparable(*(exchange.operand_of(unwrapped(side)) for side in sides))


def _compared(left: Any, right: Any, negated: bool) -> Any:
    """Return the comparison; that of a view with a scalar has no truth as a whole."""
    wholes = all(isinstance(side, _WHOLES) or np.ndim(side) for side in (left, right))
    sides = _sides(left, right)
    for side, other in ((left, right), (right, left)):
        if _is_nothing(side) and isinstance(other, BaseView) and node_of(other).has_gaps:
            warn(
                f"nothing equals {side!r}, not even a missing value: d._isna() and d._notna() tell "
                f"where values of {show.title(node_of(other))} are missing"
            )
    return viewed(compared(*sides, negated, wholes))
