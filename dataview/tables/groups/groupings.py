"""How each statistic of groups is computed from blocks of rows, for all labels together.

Of objects and of other values that are not numbers it is that of the rows of each label.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import CLOSE, KINDS, NEARLY, OF_SOME, Kind, result_dtype
from dataview.errors import warn
from dataview.plan.node import DType
from dataview.plan.operations import is_present, nothing_in
from dataview.plan.statistics import STATISTICS, Statistic
from dataview.tables.coding import nothing_of
from dataview.tables.groups.blocks import Block, widest_of

State = tuple[Any, ...]
"""What some rows contribute: arrays with a row for each label."""

Combine = Callable[[State, State], State]

Part = Callable[[Block, np.ndarray], State]


def _sum_part(block: Block, values: np.ndarray) -> State:
    return (block.sums(block.columns(values)),)


def _mean_part(block: Block, values: np.ndarray) -> State:
    """Return sums, counts, and what the values of a label are if they are all the same.

    The sum of many equal numbers is rounded, so that their mean would not be one of them.
    """
    return _means(block, block.columns(values))


def _means(block: Block, values: np.ndarray) -> State:
    wide = np.result_type(values.dtype, np.float64)
    floats = values.astype(np.float64) if values.dtype.kind in "biu" else values
    sums, counts = block.sums(floats), block.sizes[:, None]
    one = block.some_of_each(values, wide)
    means = (sums / np.maximum(counts, 1)).astype(wide)
    near = (counts > 1) & (np.abs(means - one) <= np.abs(one) * NEARLY)
    same = np.where((counts > 1) & ~near, np.nan, one)
    if near.any():
        differ = block.sums((values != one[block.codes]).astype(np.float64))
        same[near & (differ > 0)] = np.nan
    return sums, counts, same


def _moments_part(block: Block, values: np.ndarray) -> State:
    """Return counts, numbers near the means, what the means have more, and the spreads."""
    values = block.columns(values)
    state = _moments(block, values)
    if block.left_range(values, state[3]).any():
        return _moments(block, values.astype(widest_of(values.dtype)))
    return state


def _moments(block: Block, values: np.ndarray) -> State:
    sums, counts, same = _means(block, values)
    some = np.maximum(counts, 1)
    near = np.where(np.isnan(same), (sums / some).astype(same.dtype), same)
    distance = values - near[block.codes]
    squares = block.sums((distance * np.conj(distance)).real)
    off = np.zeros_like(sums)
    if (squares < CLOSE * some * (near * np.conj(near)).real).any():
        off = np.where(squares > 0, block.sums(distance) / some, 0)
        squares = np.maximum(squares - counts * (off * np.conj(off)).real, 0)
    return counts, near.astype(sums.dtype), off, squares


def _reduced_part(ufunc: np.ufunc, of_none: Any = 0) -> Part:
    """Return how the elements of each label are reduced; a label without rows has `of_none`."""

    def part(block: Block, values: np.ndarray) -> State:
        values = block.columns(values)
        dtype = ufunc.resolve_dtypes((None, values.dtype, None), reduction=True)[-1]
        out = np.full((block.count, values.shape[1]), of_none, dtype)
        return block.sizes[:, None], block.reduced(ufunc, values, out)

    return part


def _product_part(block: Block, values: np.ndarray) -> State:
    values = block.columns(values)
    out = np.ones((block.count, values.shape[1]), result_dtype("prod", values.dtype))
    return block.sizes[:, None], block.reduced(np.multiply, values, out)


def _text_part(is_least: bool) -> Part:
    """Return how the first or the last text of each label is found: NumPy has no ufunc for it."""

    def part(block: Block, values: np.ndarray) -> State:
        values = block.columns(values)
        out = np.zeros((block.count, values.shape[1]), values.dtype)
        for column in range(values.shape[1]):
            order = np.argsort(values[:, column], kind="stable")
            order = order[::-1] if is_least else order  # of a label, the last one stays
            out[block.codes[order], column] = values[order, column]
        return block.sizes[:, None], out

    return part


def _combined_by(choose: Callable[[Any, Any], Any]) -> Combine:
    def combine(left: State, right: State) -> State:
        (count, one), (more, other) = left, right
        with np.errstate(all="ignore"):
            both = choose(one, other)
        return count + more, np.where(count == 0, other, np.where(more == 0, one, both))

    return combine


def _second(state: State, options: dict[str, Any]) -> Any:
    return state[1]


def _extreme_of_some(state: State, options: dict[str, Any]) -> Any:
    """Return the extremes of what is present, NaN or NaT where nothing is.

    Where other data have no value, `there_are` tells.
    """
    count, found = state
    gone = np.broadcast_to(count == 0, found.shape)
    if found.dtype.kind not in "fcmM" or not gone.any():
        return found
    warn("All-NaN slice encountered")
    return np.where(gone, np.array(nothing_in(found.dtype), found.dtype), found)


def there_are(state: State) -> np.ndarray:
    """Return for each group whether its rows have an extreme."""
    found: np.ndarray = np.any(state[0] > 0, axis=1)
    return found


def _place_part(ufunc: np.ufunc) -> Part:
    """Return how the first row of each label with an extreme, or with NaN, is found."""
    extremes = _reduced_part(ufunc)

    def part(block: Block, values: np.ndarray) -> State:
        count, found = extremes(block, values)
        values = block.columns(values)
        hit = (values == found[block.codes]) | (values != values)
        places = np.zeros(found.shape, np.intp)
        for column in range(values.shape[1]):
            rows = np.flatnonzero(hit[:, column])[::-1]  # of a label, the first one stays
            places[block.codes[rows], column] = block.numbers[rows]
        return count, found, places

    return part


def _place_of(better: np.ufunc) -> Combine:
    def combine(left: State, right: State) -> State:
        (count, one, place), (more, other, further) = left, right
        is_other = (better(other, one) | (other != other)) & (one == one)
        is_other = (count == 0) | ((more > 0) & is_other)
        found = np.where(is_other, other, one), np.where(is_other, further, place)
        return count + more, *found

    return combine


def _place(state: State, options: dict[str, Any]) -> Any:
    return state[2]


class Grouping(NamedTuple):
    """How one statistic of groups is computed from blocks, of these kinds of dtypes."""

    part: Part
    combine: Combine
    finish: Callable[[State, dict[str, Any]], Any]
    kinds: str = "biufc"


def _as_of_all(part: Part, kind: Kind) -> Grouping:
    """Return a grouping whose parts are combined as those of a statistic of all rows."""
    return Grouping(part, kind.combine, kind.finish)


def _each(kind: Kind, of_none: Any) -> Grouping:
    """Return a grouping that takes a statistic of the rows of each label by themselves.

    So it is whatever that of all rows is: of objects by their own arithmetic, of times.  A label
    without rows has `of_none`, or if that is None what is missing among such values.
    """

    def part(block: Block, values: np.ndarray) -> State:
        found = np.full((block.count, 1), None, object)
        for label, rows in block.rows_of_each(block.columns(values)):
            found[label, 0] = kind.part(rows, (0,), 0)
        return (found,)

    def both(one: State | None, other: State | None) -> State | None:
        return kind.combine(one, other) if one and other else one or other

    def finish(state: State, options: dict[str, Any]) -> Any:
        count, width = state[0].shape
        known = [one for one in state[0].flat if one is not None]
        values = [np.asarray(kind.finish(one, options)) for one in known]
        if len(values) == count * width:
            return np.concatenate(values).reshape(count, -1) if values else np.empty((0, 1))
        return _with_none(values, state[0], of_none)

    combine = np.frompyfunc(both, 2, 1)
    return Grouping(part, lambda left, right: (combine(left[0], right[0]),), finish)


def _with_none(values: list[np.ndarray], states: np.ndarray, none: Any) -> np.ndarray:
    """Return values where there are states, elsewhere `none`, or else None, NaN or NaT."""
    dtype = values[0].dtype if values else np.dtype(object)
    nothing, together = nothing_of(dtype)
    found = np.full(states.shape, nothing if none is None else none, together)
    there = np.array([state is not None for state in states.flat], bool).reshape(states.shape)
    found[there] = [value.item() if dtype.kind in "OT" else value.reshape(()) for value in values]
    return found


def of_present(plain: Grouping, finish: Any = None, always: bool = False) -> Grouping:
    """Return the grouping of what is present: not None, NaN or NaT, nor left out by a mask.

    Elements are grouped by label and column, unless nothing is missing.
    """

    def part(block: Block, values: np.ndarray) -> State:
        mask = None
        if values.dtype.names:
            values, mask = values["value"], values["mask"]
        own = block.columns(values)
        present = is_present(own)
        if mask is not None:
            present &= block.columns(mask)
        if present.all() and not always:
            return plain.part(block, values)
        state = plain.part(block.of_elements(present), own[present])
        return tuple(array.reshape(block.count, -1) for array in state)

    return Grouping(part, plain.combine, finish or plain.finish)


def grouping_of(kind: str, dtype: DType) -> Grouping:
    """Return how a statistic of groups of data of this dtype is computed."""
    what = STATISTICS[kind]
    found = _plain_grouping(what, dtype)
    if what.leaves_out_nan or (dtype.hasobject and what.is_extreme):  # None has no order
        finish = FINISH_OF_SOME.get(what.plain) if found in GROUPINGS.values() else None
        return of_present(found, finish, always=found not in GROUPINGS.values())
    return found


def _plain_grouping(what: Statistic, dtype: DType) -> Grouping:
    """Return how the statistic of all elements is computed: of some dtypes label by label."""
    for table in (GROUPINGS, TEXT_EXTREMES):
        found = table.get(what.plain)
        if found is not None and dtype.kind in found.kinds:
            return found
    return _each(KINDS[what.plain], what.of_none)


def _any_part(ufunc: np.ufunc, of_none: bool) -> Part:
    part = _reduced_part(ufunc, of_none)
    return lambda block, values: part(block, values.astype(bool))


def _greater(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.where(one >= other, one, other)


def _less(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.where(one <= other, one, other)


_ORDERED = "biufcmM"
"""The kinds of dtypes that have an order, but those of texts and objects."""

GROUPINGS = {
    "sum": _as_of_all(_sum_part, KINDS["sum"]),
    "mean": _as_of_all(_mean_part, KINDS["nanmean"]),  # of labels that some blocks may lack
    "var": _as_of_all(_moments_part, OF_SOME["var"]),
    "std": _as_of_all(_moments_part, OF_SOME["std"]),
    "prod": Grouping(_product_part, _combined_by(np.multiply), _second, "biu"),
    "min": Grouping(_reduced_part(np.minimum), _combined_by(np.minimum), _second, _ORDERED),
    "max": Grouping(_reduced_part(np.maximum), _combined_by(np.maximum), _second, _ORDERED),
    "any": Grouping(_any_part(np.logical_or, False), _combined_by(np.logical_or), _second),
    "all": Grouping(_any_part(np.logical_and, True), _combined_by(np.logical_and), _second),
    "argmin": Grouping(_place_part(np.minimum), _place_of(np.less), _place, _ORDERED),
    "argmax": Grouping(_place_part(np.maximum), _place_of(np.greater), _place, _ORDERED),
}
TEXT_EXTREMES = {
    "min": Grouping(_text_part(True), _combined_by(_less), _second, "US"),
    "max": Grouping(_text_part(False), _combined_by(_greater), _second, "US"),
}
FINISH_OF_SOME = {
    "min": _extreme_of_some, "max": _extreme_of_some,
    "var": KINDS["nanvar"].finish, "std": KINDS["nanstd"].finish,
}  # fmt: skip
"""What is returned otherwise where nothing may be present."""
