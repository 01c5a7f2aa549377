"""Statistics of some elements: those where a mask is true, and an initial value besides.

What is missing of a column with gaps does not count.  Of those with a value for each row, the rows
that were computed are kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dataview.compute.statistics.evaluation import lock, row_axis, take_below
from dataview.compute.statistics.nodes import kind_for, median_of_all, of_all, of_pairs
from dataview.compute.statistics.quantiles import rows_at
from dataview.compute.statistics.reductions import result_dtype
from dataview.index import Index, gather
from dataview.plan.build import elementwise, stored
from dataview.plan.concat import concat
from dataview.plan.gaps import both, known_in, may_lack
from dataview.plan.guards import check_array, is_broadcast_to
from dataview.plan.kinds import Reduction, known_dtype, known_shape, size_of
from dataview.plan.layout import broadcast, reshaped
from dataview.plan.node import DType, Evaluate, Node
from dataview.plan.operations import (
    TEXTS,
    Masked,
    NumpyFunction,
    may_be_missing,
    nothing_in,
    sqrt,
)
from dataview.plan.ragged import Ragged, places_of
from dataview.plan.statistics import STATISTICS, Statistic
from dataview.plan.symbols import deferring
from dataview.sources import ArraySource

KEPT_BYTES = 1 << 26
"""Single rows of a statistic are kept if the whole statistic is no larger than this."""


# --- of what is there ----------------------------------------------------------------------------


@deferring
def reduction(kind: str, node: Node, axis: Any, keepdims: bool, options: dict[str, Any]) -> Node:
    """Return the node of a statistic, without what a mask says is missing, or NaN beside it."""
    is_of_objects = node.dtype is not None and node.dtype.kind in "OT"
    what = STATISTICS[kind]
    leaves_out = what.leaves_out_nan and is_of_objects and not isinstance(node, Ragged)
    present = known_in(node) if leaves_out else _known_in(_line(node))
    if present is None:
        return of_all(kind, node, axis, keepdims, options)
    if isinstance(node, Ragged) and axis is None:
        found = reduction(kind, node.flat(), None, False, options)
        lead = np.shape(options.get("q", 0))
        return reshaped(found, (*lead, *[1] * len(node.extents))) if keepdims else found
    if what.is_quantile:
        options = {**options, "without_missing": True}
        return of_all(kind, _with_nan_in(node, present), axis, keepdims, options)
    kind, dtype = what.plain, known_dtype(node)
    if what.is_of_order:
        if dtype.kind in TEXTS:
            return _extreme_of_texts(kind, node, present, axis, keepdims)
        (pairs,) = elementwise(NumpyFunction("paired"), (_line(node), present))
        return of_pairs(kind, _over(node, pairs), axis, keepdims, options)
    if what.adds and not _is_of(what, dtype):  # there is none
        return of_all(kind, node, axis, keepdims, options)
    return _of_present(kind, node, present, axis, keepdims, options)


def _is_of(what: Statistic, dtype: DType) -> bool:
    """Whether there is a statistic of those values of a dtype that count.

    NumPy refuses others, and so do we, whether or not something is missing.
    """
    return dtype.kind in (what.numbers if what.is_of_order else what.numbers + what.objects)


def _known_in(values: Node) -> Node | None:
    """Return where there are values, None if all that is missing says so itself."""
    return known_in(values) if may_lack(values) else None


def _line(node: Node) -> Node:
    """Return the flat values of ragged rows, an array as it is: masks have their shape."""
    return node.leaf() if isinstance(node, Ragged) else node


def _over(node: Node, values: Node) -> Node:
    """Return what was made of the values of a node as rows that are laid out as it is."""
    return node.over(values) if isinstance(node, Ragged) else values


def _with_nan_in(node: Node, present: Node) -> Node:
    return _over(node, with_nan(_line(node), present))


def _of_present(
    kind: str, node: Node, present: Node, axis: Any, keepdims: bool, options: dict[str, Any]
) -> Node:
    """Return a statistic of the values where a mask of them is true."""
    line = _line(node)
    what = STATISTICS[kind]
    if known_dtype(node).kind == "O" and what.is_average:
        if what.leaves_out_nan:
            present = _if_there(present, line)
        present = broadcast(present, known_shape(line))  # where it is true is counted
        if isinstance(node, Ragged):  # steps on rows lay their values out so
            node, present = node.relaid(), node.over(present).relaid().leaf()
        return _average_of_objects(what.plain, node, present, axis, keepdims, **options)
    data, paired = _without_others(kind, line, present)
    statistic = of_all if paired is None else of_pairs
    return statistic(paired or kind, _over(node, data), axis, keepdims, options)


def _extreme_of_texts(kind: str, node: Node, present: Node, axis: Any, keepdims: bool) -> Node:
    """Return an extreme of the texts that are present, or where it is; they are found as objects.

    NumPy has no pairs of a text of any length and its mask.
    """
    dtype, is_extreme = known_dtype(node), STATISTICS[kind].is_extreme
    as_objects, back = (
        NumpyFunction("astype", (("dtype", np.dtype(own)), ("casting", "unsafe")))
        for own in (object, dtype)
    )
    if is_extreme and dtype.kind != "T":
        return of_all(kind, node, axis, keepdims, {})  # which NumPy refuses
    (objects,) = elementwise(as_objects, (_line(node),))
    (pairs,) = elementwise(NumpyFunction("paired"), (objects, present))
    found = of_pairs(kind, _over(node, pairs), axis, keepdims, {})
    return elementwise(back, (found,))[0] if is_extreme else found


def _average_of_objects(
    kind: str, node: Node, present: Node, axis: Any, keepdims: bool, ddof: int = 0
) -> Node:
    """Return a mean, or a deviation from it, of the objects that are present, such as Decimals."""
    data = _over(node, _without_others("sum", _line(node), present)[0])
    if kind != "mean":
        mean = _average_of_objects("mean", node, present, axis, True)
        far = _line(elementwise(np.subtract, (data, mean))[0])
        (squares,) = elementwise(np.multiply, (far, elementwise(np.conjugate, (far,))[0]))
        data = _over(node, _without_others("sum", squares, present)[0])
    total = of_all("sum", data, axis, keepdims, {})
    count = of_all("sum", _over(node, present), axis, keepdims, {})
    count = elementwise(np.subtract, (count, ddof))[0] if ddof else count
    (has_some,) = elementwise(np.greater, (count, 0))
    none = stored(ArraySource(np.array(np.nan, object)), False)
    (found,) = elementwise(Masked(np.true_divide), (has_some, none, total, count))
    if kind == "std":
        (found,) = elementwise(Masked(sqrt), (has_some, found, found))
    return found  # type: ignore[no-any-return]


def median(node: Node, axis: Any, keepdims: bool, without_missing: bool = False) -> Node:
    """Return the node of a median, without what a mask says is missing."""
    present = _known_in(_line(node))
    if present is None:
        return median_of_all(node, axis, keepdims, without_missing)
    return median_of_all(_with_nan_in(node, present), axis, keepdims, True)


def reduction_where(
    kind: str, node: Node, axis: Any, keepdims: bool, options: dict[str, Any], where: Node
) -> Node:
    """Return the node of a statistic of the elements where a mask is true, and that are there."""
    return _of_chosen(kind, node, axis, keepdims, options, _with_gaps(node, where))


def reduction_from(
    kind: str, node: Node, axis: Any, keepdims: bool, initial: Any, where: Node | None = None
) -> Node:
    """Return a sum, product or extreme of such elements, if there is a mask, and of a value."""
    return _begun(kind, node, axis, keepdims, initial, _with_gaps(node, where))


def _with_gaps(node: Node, where: Any) -> Any:
    """Return a mask that is false also where a value is missing, None if nothing is left out.

    That of ragged rows becomes so when it lies beside their values.
    """
    present = _known_in(_line(node))
    if present is None:
        return where
    if where is None:
        return _over(node, present)
    _check_mask(where)
    if isinstance(node, Ragged):
        return where
    return elementwise(np.logical_and, (where, present))[0]


def with_nan(node: Node, present: Node) -> Node:
    """Return numbers or times, with NaN or NaT where they are missing."""
    dtype = known_dtype(node)
    if dtype.kind in "biu":
        as_float = NumpyFunction("astype", (("dtype", np.dtype(float)), ("casting", "unsafe")))
        (node,) = elementwise(as_float, (node,))
        dtype = known_dtype(node)
    return with_nothing(node, present, dtype)


def with_nothing(node: Node, present: Node, dtype: DType) -> Node:
    """Return data with None, NaN or NaT, as a dtype has it, where they are missing."""
    fill = stored(ArraySource(np.array(nothing_in(dtype), dtype)), False)
    (found,) = elementwise(NumpyFunction("where"), (present, node, fill))
    return found  # type: ignore[no-any-return]


# --- of what a mask chooses -----------------------------------------------------------------------


@deferring
def _of_chosen(
    kind: str, node: Node, axis: Any, keepdims: bool, options: dict[str, Any], where: Node
) -> Node:
    """Return the node of a statistic of the elements where a mask is true."""
    if isinstance(node, Ragged):
        return _ragged_where(kind, node, axis, keepdims, options, where)
    check_array(node, kind)
    _check_fits(where, node)
    return _of_present(kind, node, where, axis, keepdims, options)


def _without_others(kind: str, node: Node, where: Node) -> tuple[Node, str | None]:
    """Return data in which what a mask leaves out does not count.

    Where no number counts for nothing, as in a mean, each is paired with its mask; the statistic of
    such pairs is returned, too.
    """
    dtype, what = known_dtype(node), STATISTICS[kind]
    if what.of_none is not None:
        value = "" if dtype.kind in TEXTS and not what.of_none else what.of_none
        neutral = stored(ArraySource(np.array(value, dtype)), False)
        (chosen,) = elementwise(NumpyFunction("where"), (where, node, neutral))
        return chosen, None
    if not _is_of(what, dtype):
        raise TypeError(f"where= of {kind} is for numbers; got {dtype}")
    kind = kind_for(kind, dtype)
    if kind != what.plain:
        where = _if_there(where, node)
    (pairs,) = elementwise(NumpyFunction("paired"), (node, where))
    return pairs, kind


def _if_there(where: Node, node: Node) -> Node:
    """Return a mask that is false also where a value is None, NaN or NaT."""
    (mask,) = elementwise(NumpyFunction("is_present"), (node,))
    return elementwise(np.logical_and, (where, mask))[0]  # type: ignore[no-any-return]


def _check_mask(where: Node) -> None:
    if where.dtype != bool:
        raise TypeError(f"where= is a mask of bools; got {where.dtype}")


def _check_fits(where: Node, node: Node) -> None:
    """Raise unless a mask is of bools, and fits the data."""
    _check_mask(where)
    if not is_broadcast_to(known_shape(where), known_shape(node)):
        raise ValueError(
            f"where= of shape {where.shape} cannot be broadcast to the shape {node.shape} of the "
            "data"
        )


def _begun(
    kind: str, node: Node, axis: Any, keepdims: bool, initial: Any, where: Node | None = None
) -> Node:
    """Return a sum, product or extreme of the elements where a mask is true and of a value."""
    if not isinstance(node, Ragged):
        check_array(node, kind)
    dtype = result_dtype(kind, known_dtype(node))
    value = np.array(initial, dtype)  # NumPy casts it so
    what = STATISTICS[kind]
    if not what.is_extreme:
        options = {"initial": value[()]}
        if where is None:
            return of_all(kind, node, axis, keepdims, options)
        return _of_chosen(kind, node, axis, keepdims, options, where)
    start = stored(ArraySource(value), False)
    extreme: Any = _ragged_extreme if isinstance(node, Ragged) else _extreme_of
    found = extreme(kind, node, axis, keepdims, start, where)
    (begun,) = elementwise(_BETTER[what.plain], (found, start))
    return begun  # type: ignore[no-any-return]


_BETTER = {"min": np.minimum, "max": np.maximum}
"""The better of two extremes, by the name of theirs."""


@deferring
def _extreme_of(
    kind: str, node: Node, axis: Any, keepdims: bool, start: Node, where: Node | None
) -> Node:
    """Return the extreme of the elements, of which those that are left out count as `start`."""
    if where is not None:
        _check_fits(where, node)
    what = STATISTICS[kind]
    if what.leaves_out_nan and may_be_missing(known_dtype(node)):
        (mask,) = elementwise(NumpyFunction("is_present"), (node,))
        (where,) = (mask,) if where is None else elementwise(np.logical_and, (where, mask))
    if where is not None:
        (node,) = elementwise(NumpyFunction("where"), (where, node, start))
    if size_of(known_shape(node)):
        return of_all(what.plain, node, axis, keepdims, {})
    nothing = np.empty(known_shape(node), bool)
    return broadcast(start, np.any(nothing, axis, keepdims=keepdims).shape)


# --- ragged rows -----------------------------------------------------------------------------


def _ragged_where(
    kind: str, node: Ragged, axis: Any, keepdims: bool, options: dict[str, Any], where: Node
) -> Node:
    """Return the node of a statistic of the values where a mask is true."""
    _check_mask(where)
    rows, mask = _beside(node, where)
    line = rows.leaf()
    if axis is None:
        found = _of_chosen(kind, line, None, False, options, mask)
        return reshaped(found, (1,) * len(node.extents)) if keepdims else found
    return _of_present(kind, rows, mask, axis, keepdims, options)


def _ragged_extreme(
    kind: str, node: Ragged, axis: Any, keepdims: bool, start: Node, where: Node | None
) -> Node:
    """Return the node of an extreme, which of a row without values is `start`.

    So it is of values where a mask is false.
    """
    if where is not None:
        _check_mask(where)
        node = _chosen(*_beside(node, where), start)
    if axis is None and not node.size:
        return reshaped(start, (1,) * len(node.extents)) if keepdims else start
    has_values = np.diff(node.merged().chosen()[1].offsets) > 0
    if axis is None or has_values.all():
        return of_all(kind, node, axis, keepdims, {})
    some = of_all(kind, node.rows(np.flatnonzero(has_values)), axis, keepdims, {})
    if isinstance(some, Ragged):  # along axes that all rows have alike
        return of_all(kind, node, axis, keepdims, {})
    others = broadcast(start, (1, *known_shape(some)[1:]))
    places = np.where(has_values, has_values.cumsum() - 1, known_shape(some)[0])
    return places_of(concat([some, others]), places)


def _chosen(rows: Ragged, mask: Node, other: Node) -> Ragged:
    """Return the rows with another value where a mask of their values is false."""
    (line,) = elementwise(NumpyFunction("where"), (mask, rows.leaf(), other))
    return rows.over(line)


def _beside(node: Ragged, mask: Node) -> tuple[Ragged, Node]:
    """Return the rows such that their values stand in a line, and the mask of these.

    It is false also where a value is missing.
    """
    rows = node.relaid()
    given, present = rows.rows_given(mask), _known_in(rows.leaf())
    if given is not None:
        _check_alike(rows, given)
        mask = given.flat()
    elif mask.shape != ():
        mask = rows.per_row(mask)
    return rows, both(mask, present) or mask


def _check_alike(rows: Ragged, given: Ragged) -> None:
    """Raise unless the rows of a mask are as long as those of the data."""
    if rows.is_like(given):
        return
    if rows.count != given.count:
        raise ValueError(f"where= has {given.count} rows, the data have {rows.count}")
    ours, theirs = rows.chosen()[1].lengths(), given.chosen()[1].lengths()
    odd = [0] if ours.shape != theirs.shape else np.flatnonzero((ours != theirs).any(axis=1))
    row = int(odd[0]) if len(odd) else 0
    raise ValueError(
        f"where= is a mask of rows of the same lengths: row {row} of the data has "
        f"{tuple(ours[row].tolist())}, of the mask {tuple(theirs[row].tolist())}"
    )


# --- some rows -------------------------------------------------------------------------------


class _TakenRows:
    """The rows of a statistic that were computed so far; their values stay."""

    __slots__ = ("have", "values")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.values = np.empty(shape, dtype)
        self.have = np.zeros(shape[0], bool)

    def __reduce__(self) -> tuple[Any, ...]:
        numbers = self.have.nonzero()[0]
        return _unpickled, (self.values.shape, self.values.dtype, numbers, self.values[numbers])

    def keep(self, numbers: np.ndarray, values: np.ndarray) -> None:
        """Keep those of these rows that are new."""
        new = ~self.have[numbers]
        self.values[numbers[new]] = values[new]
        self.have[numbers] = True


def _unpickled(
    shape: tuple[int, ...], dtype: np.dtype[Any], numbers: np.ndarray, values: np.ndarray
) -> _TakenRows:
    rows = _TakenRows(shape, dtype)
    rows.keep(numbers, values)
    return rows


def some_rows(node: Reduction, index: Index, evaluate: Evaluate) -> np.ndarray:
    """Return part of a statistic with a value for each row, from the rows of data it needs."""
    place = row_axis(node)
    numbers, rest = gather.rows_and_rest(index, place)
    if len(numbers) == known_shape(node)[place]:
        take_below(node, evaluate)
        assert node.taken is not None
        return gather.read(node.taken, index)
    return gather.own(np.moveaxis(_kept_rows(node, numbers, evaluate), 0, place), rest)


def _kept_rows(node: Reduction, numbers: np.ndarray, evaluate: Evaluate) -> np.ndarray:
    """Return these rows of a statistic, along the first axis; missing ones are computed."""
    shape, dtype, place = known_shape(node), known_dtype(node), row_axis(node)
    if node.failed is not None:
        raise node.failed
    if size_of(shape) * dtype.itemsize > KEPT_BYTES:
        return _rows_of_statistic(node, numbers, evaluate)
    with lock:
        if node.rows is None:
            rest = [n for axis, n in enumerate(shape) if axis != place]
            node.rows = _TakenRows((shape[place], *rest), dtype)
        kept = node.rows
    missing = numbers[~kept.have[numbers]]
    new = _rows_of_statistic(node, missing, evaluate) if len(missing) else None
    with lock:
        if new is not None:
            kept.keep(missing, new)
        found: np.ndarray = kept.values[numbers]
    return found


def _rows_of_statistic(node: Reduction, numbers: np.ndarray, evaluate: Evaluate) -> np.ndarray:
    operand = rows_at(node.node, numbers)
    part = Reduction(node.kind, operand, node.axes, node.keepdims, node.options, known_dtype(node))
    take_below(part, evaluate)
    assert part.taken is not None
    return np.moveaxis(part.taken, row_axis(node), 0)
