"""NumPy's functions of views: where lazy evaluation is supported they make nodes, else NumPy runs.

A function of elements has its row in `plan/operations`.  Any other, and one of elements that takes
more than operands and options, has a row of `_FUNCTIONS`, with NumPy's arguments by NumPy's names.
If a row lacks an argument of the call (`dtype=`, `where=`, …), NumPy computes with the views'
data.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import lru_cache, partial, wraps
from typing import Any, cast

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from dataview.compute import (
    KINDS,
    changing_arrays,
    evaluate,
    matmul,
    median,
    reduction,
    reduction_from,
    reduction_where,
)
from dataview.exchange import check_gradient, operand_of
from dataview.index.dtypes import dtype_of
from dataview.plan import layout
from dataview.plan.build import keyed
from dataview.plan.concat import joined, stacked
from dataview.plan.gaps import computed
from dataview.plan.guards import quantile_levels
from dataview.plan.kinds import Record, Sampled, known_dtype, known_shape
from dataview.plan.node import Node
from dataview.plan.operations import OPERATIONS, NumpyFunction, Operation, Ufunc, sized
from dataview.plan.statistics import STATISTICS
from dataview.plan.symbols import deferring
from dataview.samplers import as_numbers
from dataview.samples import asked, joined_alike, statistic
from dataview.tables import distinct, in_times, knowing_labels
from dataview.view import chosen, lengths, masks, outputs
from dataview.view.face import (
    BaseView,
    argument,
    evaluated,
    node_from,
    node_of,
    viewed,
    warn_if_untold,
    with_whole_texts,
)
from dataview.view.label_verbs import isin
from dataview.view.ragged_rows import LEFT, ROWS, whole
from dataview.write import check_writable, write


def called(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the value of a NumPy function of views: a view where lazy evaluation is supported."""
    out, call = outputs.without_out(chosen.with_codes(function, args, options))
    if out is not None:
        return _put(out, call)
    if function in masks.ROWS and args and isinstance(args[0], BaseView):
        return _changed(function, args, options)
    if function in _ABOUT:
        return function(*_each(_stand_in, args), **_each(_stand_in, options))
    found = _from_row(*call)
    if found is not LEFT:
        return viewed(found) if isinstance(found, Node) else found
    _, args, options = call
    chosen.check_arguments(function, args, options)
    data = partial(_taken, function=function)
    with changing_arrays(args[:1]) if function in masks.ROWS else nullcontext():
        return function(*_each(data, args), **_each(data, options))


def _from_row(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if function in _FUNCTIONS:
        row = _FUNCTIONS[function]
        return row(*args, **options) if _accepts(row, args, options) else LEFT
    if function in _ELEMENTS:
        return _ELEMENTS[function](*args, **options)
    return LEFT


def _put(out: Any, call: outputs.Call) -> Any:
    """Write the result of a function into an array or a view, and return that."""
    function, args, options = call
    if outputs.is_plain(out):
        target = argument(out)
        if not isinstance(target, (Record, Sampled)):  # of these the parts are checked
            check_writable(target)
        found = chosen.as_output(function, args, _from_row(*call), target)
        if isinstance(found, Node):
            found = outputs.fitted(call, found, target)
        if isinstance(found, Node):
            write(target, found)
            return out
    data = np.array(evaluated(out)) if isinstance(out, BaseView) else out
    with changing_arrays([data]):
        read = partial(_taken, function=function)
        function(*_each(read, args), **_each(read, options), out=data)
    if isinstance(out, BaseView):
        write(node_of(out), chosen.written(node_of(out), data))
    return out


def _accepts(row: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> bool:
    try:
        _signature(row).bind(*args, **options)
    except TypeError:
        return False
    return True


_signature = lru_cache(maxsize=256)(inspect.signature)


def _each(change: Callable[[Any], Any], value: Any) -> Any:
    """Return arguments with the views in them changed, however nested."""
    if isinstance(value, BaseView):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)(_each(change, part) for part in value)
    if type(value) is dict:
        return {name: _each(change, part) for name, part in value.items()}
    check_gradient(value)
    return value


def _taken(view: BaseView, function: Callable[..., Any]) -> Any:
    """Return the data of a view for a function of NumPy's, which takes what is in gaps for data."""
    found = whole(view, function)
    if function not in _PRINTING:
        warn_if_untold(view, found, f"numpy.{function.__name__}")
    return found


def _stand_in(view: BaseView) -> np.ndarray:
    """Return an array of the view's shape and dtype that takes no memory."""
    node = node_of(view)
    return np.broadcast_to(np.empty((), known_dtype(node)), known_shape(node))


def _changed(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Write what NumPy's function changes; what its row leaves, NumPy changes in a copy."""
    node, row = node_of(args[0]), masks.ROWS[function]
    if masks.put_whole(function, *args, **options):
        return
    check_writable(node)
    args, options = masks.with_codes(function, args, options)
    masks.check_values(function, (*args[1:], *options.values()))
    if _accepts(row, args, options) and row(*args, **options):
        return
    masks.check_gaps(node, function.__name__)
    data = np.array(evaluate(node))
    function(data, *_each(evaluated, args[1:]), **_each(evaluated, options))
    write(node, data)


_PRINTING = (np.array2string, np.array_repr, np.array_str)
"""The functions whose results are texts of an array, as it is."""

_ABOUT = {
    np.can_cast, np.common_type, np.empty_like, np.iscomplexobj, np.isrealobj,
    np.ndim, np.ones_like, np.result_type, np.shape, np.size, np.zeros_like,
}  # fmt: skip


# --- elements --------------------------------------------------------------------------------


def astype(node: Node, dtype: Any, casting: str = "unsafe") -> Node:
    """Return the elements in another dtype, as `ndarray.astype` converts them."""
    if isinstance(dtype, Mapping) and not {"names", "formats"} <= dtype.keys():
        raise TypeError(
            f"all elements get one dtype; got a mapping of {', '.join(map(repr, dtype))}; "
            "d._set_field(name, d[name]._astype(dtype)) is for one field after the other"
        )
    wanted, own = dtype_of(dtype), known_dtype(node)
    unsized = wanted.kind in "SUV" and not wanted.itemsize
    undated = wanted.kind in "Mm" and np.datetime_data(wanted)[0] == "generic"
    if (unsized and own.kind == "O") or (undated and own.kind in "OSU"):
        example = "'U10'" if unsized else "'datetime64[s]'"
        raise TypeError(
            f"what {wanted.name} is depends on the values here, which are not read for it; say it "
            f"whole, such as {example}"
        )
    wanted = sized(wanted, own)
    return _computed(NumpyFunction("astype", (("dtype", wanted), ("casting", casting))), node)


def _computed(operation: Ufunc, *operands: Any) -> Node:
    operands = tuple(map(_operand, with_whole_texts(*operands)))
    found: Node = computed(operation, in_times(operands))[0]
    return found


def _operand(value: Any) -> Any:
    """Return a value as an operand; None, which operators refuse, is an object to functions."""
    return operand_of(None) if value is None else argument(value)


def _of_elements(operation: Operation) -> Callable[..., Any]:
    """Return the row of a function of elements: its arguments are operands, then options."""
    name, operands, defaults = operation.name, operation.operands.split(), dict(operation.options)
    names = dict.fromkeys([*operands, *defaults]).keys()

    def row(*args: Any, **options: Any) -> Any:
        given = {**defaults, **dict(zip(names, args, strict=False)), **options}
        if given.keys() != names or len(args) > len(names):  # as `out=`, or `where` of one operand
            return LEFT
        values = [given.pop(operand) for operand in operands]
        for option, default in defaults.items():
            if isinstance(default, int):  # a bool too
                given[option] = type(default)(given[option])
            elif isinstance(given[option], BaseView) or np.ndim(given[option]):
                return LEFT
        return _computed(NumpyFunction(name, tuple(given.items())), *values)

    return row


def _where(condition: Any, x: Any, y: Any) -> Node:
    sides, labels = chosen.sides(x, y)
    return knowing_labels(_computed(NumpyFunction("where"), condition, *sides), labels)


def _clip(a: Any, a_min: Any = LEFT, a_max: Any = LEFT, *, min: Any = LEFT, max: Any = LEFT) -> Any:
    options = {"a_min": a_min, "a_max": a_max, "min": min, "max": max}
    given = {name: bound for name, bound in options.items() if bound is not LEFT}
    if not given.keys() <= {"min", "max"} and given.keys() != {"a_min", "a_max"}:
        cast(Any, np.clip)(
            np.empty(0), **dict.fromkeys(given, 0)
        )  # NumPy's error, with nothing read
    bounds = [given.get(f"a_{end}", given.get(end)) for end in ("min", "max")]
    if all(bound is None for bound in bounds):
        return LEFT
    low, high = _within(bounds[0], a, "min"), _within(bounds[1], a, "max")
    if low is None and high is None:
        return _computed(np.positive, a)
    if low is None:
        return _computed(np.minimum, a, high)
    if high is None:
        return _computed(np.maximum, a, low)
    return _computed(NumpyFunction("clip"), a, low, high)


def _within(bound: Any, a: Any, end: str) -> Any:
    """Return a bound, None if every integer of this dtype is within it."""
    dtype = known_dtype(node_from(a))
    if type(bound) is not int or dtype.kind not in "iu":
        return bound
    most = getattr(np.iinfo(dtype), end)
    return None if (bound <= most if end == "min" else bound >= most) else bound


_FILLED: dict[str, Callable[[Any], Any]] = {
    "nan": np.isnan,
    "posinf": lambda x: x == np.inf,
    "neginf": lambda x: x == -np.inf,
}
"""Which elements each option of `np.nan_to_num` fills."""


def _nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    fills = {"nan": nan, "posinf": posinf, "neginf": neginf}
    views = {name: fill for name, fill in fills.items() if isinstance(fill, BaseView)}
    found = _ELEMENTS[np.nan_to_num](
        x, **{name: fills[name] for name in fills.keys() - views.keys()}
    )
    if found is LEFT:
        return found
    for name, fill in views.items():
        chosen = np.where(_FILLED[name](x), cast(Any, fill), cast(Any, viewed(found)))
        found = node_from(cast(Any, chosen)._astype(known_dtype(found)))
    if copy:
        return found
    write(node_from(x), found)
    return x


def _allclose(*args: Any, **options: Any) -> Any:
    close = _ELEMENTS[np.isclose](*args, **options)
    return close if close is LEFT else bool(viewed(reduction("all", close, None, False, {}))())


def _dot(a: Any, b: Any) -> Any:
    one, other = argument(a), argument(b)
    axes = {lengths.ndim(side) if isinstance(side, Node) else 0 for side in (one, other)}
    if 0 in axes:
        return _computed(np.multiply, a, b)
    of_times = any(known_dtype(side).kind in "mM" for side in (one, other))
    return LEFT if of_times or max(axes) > 2 else matmul(one, other)


# --- layouts ---------------------------------------------------------------------------------


def _laid(layout: Callable[..., Node]) -> Callable[..., Node]:
    """Return the row of a layout whose arguments are NumPy's."""

    @wraps(layout)
    def row(a: Any, /, *args: Any, **options: Any) -> Node:
        return layout(node_from(a), *args, **options)

    return row


def _reshape(a: Any, shape: Any, order: str = "C") -> Node:
    if order in ("A", "K"):  # the order in memory, which a plan does not know
        return LEFT  # type: ignore[no-any-return]
    return layout.reshaped(node_from(a), shape, order)


def _full_like(a: Any, fill_value: Any, *args: Any, **options: Any) -> np.ndarray:
    """Return an array of the shape of `a`, whose elements are not read, unlike what fills it."""
    value = _each(partial(_taken, function=np.full_like), fill_value)
    return np.full_like(_each(_stand_in, a), value, *args, **options)


def _swapaxes(a: Any, axis1: int, axis2: int) -> Node:
    order = list(range(lengths.ndim(node_from(a))))
    one, other = (normalize_axis_index(axis, len(order)) for axis in (axis1, axis2))
    order[one], order[other] = order[other], order[one]
    return layout.transposed(node_from(a), order)


def _take(a: Any, indices: Any, axis: int | None = None) -> Node:
    node = node_from(a)
    if axis is None or not lengths.ndim(node):
        node = layout.reshaped(node, -1)
    place = normalize_axis_index(axis or 0, lengths.ndim(node))
    given = np.asarray(evaluated(indices))
    numbers = as_numbers(given.astype(np.intp) if given.dtype == bool else given)
    return keyed(node, (slice(None),) * place + (numbers,))


def _hstack(tup: Any) -> Node:
    nodes = [n if lengths.ndim(n) else layout.expanded(n, 0) for n in map(node_from, tup)]
    return joined(nodes, min(1, lengths.ndim(nodes[0]) - 1))


@deferring
def _joined_as_rows(nodes: Sequence[Node]) -> Node:
    while min(len(known_shape(node)) for node in nodes) < 2:
        nodes = [layout.expanded(n, 0) if len(known_shape(n)) < 2 else n for n in nodes]
    return joined(nodes, 0)


def _concatenated(nodes: list[Node], axis: int | None) -> Node:
    """Return nodes joined along an axis; what is joined as rows tells alike what it lacks."""
    return joined(joined_alike(nodes) if axis == 0 else nodes, axis)


# --- statistics ------------------------------------------------------------------------------


def _statistic(
    kind: str, a: Any, axis: Any = None, *, keepdims: bool = False, where: Any = True
) -> Node:
    return _reduced(kind, a, axis, keepdims, {}, where)


def _begun(
    kind: str,
    a: Any,
    axis: Any = None,
    *,
    keepdims: bool = False,
    initial: Any = LEFT,
    where: Any = True,
) -> Node:
    """Return a statistic that may begin with a number, in which NaN is left to NumPy."""
    if initial is LEFT:
        return _reduced(kind, a, axis, keepdims, {}, where)
    node = node_from(a)
    mask = None if where is True else node_from(where)
    number = evaluated(initial)
    is_number = np.ndim(number) == 0 and np.asarray(number).dtype.kind in "biufc"
    if known_dtype(node).kind not in "biufc" or not is_number or number != number:
        return LEFT  # type: ignore[no-any-return]
    if mask is not None and mask.dtype != bool:
        return LEFT  # type: ignore[no-any-return]
    return reduction_from(kind, node, axis, keepdims, number, mask)


def _spread(
    kind: str, a: Any, axis: Any = None, *, ddof: int = 0, keepdims: bool = False, where: Any = True
) -> Node:
    return _reduced(kind, a, axis, keepdims, {"ddof": ddof}, where)


def _reduced(
    kind: str, a: Any, axis: Any, keepdims: bool, options: dict[str, Any], where: Any
) -> Node:
    node, what = node_from(a), STATISTICS[kind]
    if what.leaves_out_nan and known_dtype(node).hasobject:
        return LEFT  # type: ignore[no-any-return]
    if where is True:
        return statistic(kind, node, axis, keepdims, options)
    mask = node_from(where)
    if what.is_of_order or known_dtype(node).kind not in what.numbers:
        return LEFT  # type: ignore[no-any-return]
    if mask.dtype != bool:
        return LEFT  # type: ignore[no-any-return]
    return reduction_where(kind, node, axis, keepdims, options, mask)


def _median(without_missing: bool, a: Any, axis: Any = None, *, keepdims: bool = False) -> Node:
    node = node_from(a)
    if known_dtype(node).kind not in "biufmM":
        return LEFT  # type: ignore[no-any-return]
    options = {"axis": axis, "keepdims": keepdims, "without_missing": without_missing}
    return asked(partial(median, **options), node)


def _quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    without_missing: bool = False,
) -> Node:
    node = node_from(a)
    if without_missing and known_dtype(node).hasobject:
        return LEFT  # type: ignore[no-any-return]
    missing = {"without_missing": True} if without_missing else {}
    options = {"q": quantile_levels(evaluated(q)), "method": method, "approx": False, **missing}
    return statistic("quantile", node, axis, keepdims, options)


def _percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    without_missing: bool = False,
) -> Node:
    given = quantile_levels(evaluated(q), 100)
    q = given / 100 if type(given) in (int, float) else np.true_divide(given, 100)
    return _quantile(a, q, axis, method=method, keepdims=keepdims, without_missing=without_missing)


def _unique(ar: Any, *, return_counts: bool = False) -> Any:
    """Return arrays, read in a streaming pass, as NumPy's callers need their length."""
    node = node_from(ar)
    if known_dtype(node).hasobject:  # NumPy has no order for None, which is one more value for us
        return LEFT
    found = viewed(distinct(node, return_counts))()
    return (found["value"], found["count"]) if return_counts else found


def _count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Node:
    node = node_from(a)
    if known_dtype(node).kind == "V":
        return LEFT  # type: ignore[no-any-return]
    return asked(partial(_sum_of_true, axis=axis, keepdims=keepdims), node)


def _sum_of_true(node: Node, axis: Any, keepdims: bool) -> Node:
    return reduction("sum", astype(node, bool), axis, keepdims, {})


_ELEMENTS: Mapping[Any, Callable[..., Any]] = {
    row.numpy or row.function: _of_elements(row) for row in OPERATIONS if row.operands
}
_BY_FAMILY: Mapping[str, Callable[..., Node]] = {
    "total": _begun, "extreme": _begun, "spread": _spread,
}  # fmt: skip
_STATISTICS = {getattr(np, kind): kind for kind in KINDS} | {np.amin: "min", np.amax: "max"}
_FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    **ROWS,
    np.allclose: _allclose,
    np.array_equal: lambda a1, a2: lengths.are_equal(node_from(a1), node_from(a2)),
    np.broadcast_to: _laid(layout.broadcast),
    np.choose: chosen.choose,
    np.clip: _clip,
    np.concatenate: lambda arrays, /, axis=0: _concatenated([*map(node_from, arrays)], axis),
    np.count_nonzero: _count_nonzero,
    np.dot: _dot,
    np.expand_dims: _laid(layout.expanded),
    np.flip: _laid(layout.flipped),
    np.full_like: _full_like,
    np.hstack: _hstack,
    np.isin: isin,
    np.moveaxis: _laid(layout.moved),
    np.nan_to_num: _nan_to_num,
    np.percentile: _percentile,
    np.quantile: _quantile,
    np.ravel: lambda a, order="C": _reshape(a, -1, order),
    np.reshape: _reshape,
    np.select: chosen.select,
    np.squeeze: _laid(layout.squeezed),
    np.stack: lambda arrays, axis=0: stacked([*map(node_from, arrays)], axis),
    np.median: partial(_median, False),
    np.nanmedian: partial(_median, True),
    np.nanpercentile: partial(_percentile, without_missing=True),
    np.nanquantile: partial(_quantile, without_missing=True),
    np.swapaxes: _swapaxes,
    np.take: _take,
    np.transpose: _laid(layout.transposed),
    np.unique: _unique,
    np.where: _where,
    np.vstack: lambda tup: _joined_as_rows([*map(node_from, tup)]),
    **{
        function: partial(_BY_FAMILY.get(STATISTICS[kind].family, _statistic), kind)
        for function, kind in _STATISTICS.items()
    },
    **({np.astype: _laid(astype)} if hasattr(np, "astype") else {}),
}
