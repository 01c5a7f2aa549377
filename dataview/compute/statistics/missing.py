"""Statistics of what is present: NaN is left out, or what a mask leaves out.

A block is an array, of which NaN is missing, or pairs of a value and its mask, which is true where
it counts.  Most blocks have nothing missing; the sum of a block tells, at no further cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dataview.compute.statistics.reductions import (
    HALVINGS,
    PLAIN,
    WIDE,
    Axes,
    Kind,
    State,
    arg_part,
    better_of,
    combined_by,
    distance_of,
    exact_sum,
    mean_part,
    moments_part,
    reduced_by,
    rounded,
    sum_of_squares,
    tall_sum,
    widest,
)
from dataview.errors import warn
from dataview.plan.operations import nothing_in
from dataview.sources import borrow, give_back

Part = Callable[[np.ndarray, Axes, int], State]
"""Returns what a block contributes to a statistic over some axes."""


def _parted(block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of a block, and the mask that is true where there are data."""
    if block.dtype.names:
        return block["value"], block["mask"]
    return block, ~np.isnan(block)


def _filled(values: np.ndarray, mask: np.ndarray, fill: Any) -> np.ndarray:
    """Return the values with a number where they are missing."""
    found = np.array(values)  # an element less a number is no array
    np.copyto(found, values.dtype.type(fill), where=~mask)
    return found


def _sum_by_mask(values: np.ndarray, mask: np.ndarray, axes: Axes) -> np.ndarray:
    """Return the sum of what is present, from a copy in memory that was used before."""
    pieces: list[np.ndarray] = []
    found = borrow(values.shape, values.dtype.newbyteorder("="), pieces)
    total = exact_sum(_zeroed(values, _bits_of(mask), found), axes)
    give_back(pieces)
    return total


def _count(mask: np.ndarray, axes: Axes) -> np.ndarray:
    return np.asarray(np.add.reduce(mask, axis=axes, dtype=np.int64, keepdims=True))


def _is_whole(block: np.ndarray) -> bool:
    """Whether a block has nothing missing: its least element would be NaN."""
    if block.dtype.names:
        return False
    with np.errstate(all="ignore"):
        return not block.size or not np.isnan(np.min(block))


def _whole_of(block: np.ndarray, axes: Axes) -> np.ndarray | None:
    """Return a block with nothing missing, or what is present if all axes go, else None.

    To leave out the others once takes less time than to pass over them at each step.
    """
    if _is_whole(block):
        return block
    if len(axes) < max(1, block.ndim):
        return None
    values, mask = _parted(block)
    found = values[mask]
    return found.reshape(-1, *[1] * (block.ndim - 1)) if found.size else None


LINES = 128
"""So many long rows are added at a time, which stay in the cache with what is made of them."""

FIRST_LOOK = 1 << 13
"""Where gaps are usual, there is one among so many elements."""


def _tall(block: np.ndarray, axes: Axes) -> tuple[np.ndarray, np.ndarray] | None:
    """Return sums and counts of what is present, or None if another way has to find them.

    A plain sum tells whether anything is missing; it is left out where a first look finds NaN.
    """
    depth = len(axes)
    in_front = axes == tuple(range(depth)) and block.size >= WIDE * LINES
    if not in_front or block.dtype.char not in "fd" or not block.flags.c_contiguous:
        return None
    kept = block.shape[depth:]
    rows = block.reshape(-1, math.prod(kept))
    with np.errstate(all="ignore"):
        has_gaps = np.isnan(block.reshape(-1)[:FIRST_LOOK]).any()
        if not has_gaps:
            total = tall_sum(rows, np.dtype(np.float64))
            counts = np.full(len(total), len(rows))
            has_gaps = np.isnan(total).any()
        if has_gaps:
            total, counts = _sum_of_present(rows)
    if not np.isfinite(total).all():  # a sum of doubles may be too large, where the mean is not
        return None
    shape = (1,) * depth + kept
    return total.reshape(shape), counts.reshape(shape)


def _sum_of_present(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of columns without NaN, and the counts of what is added.

    NaN become zero by their bits, and rows are added as long ones, as those of plain sums are.
    """
    columns = rows.shape[1]
    together = max(1, WIDE // columns)
    even = len(rows) - len(rows) % together
    wide = rows[:even].reshape(-1, together * columns)
    total, counts = np.zeros(wide.shape[1]), np.zeros(wide.shape[1], np.int64)
    pieces: list[np.ndarray] = []
    scratch = borrow((min(LINES, len(wide)), wide.shape[1]), rows.dtype, pieces)
    marks = np.empty(scratch.shape, bool)
    for start in range(0, len(wide), LINES):
        part = wide[start : start + LINES]
        mask = np.equal(part, part, out=marks[: len(part)])
        counts += np.add.reduce(mask.view(np.uint8), axis=0, dtype=np.uint8)
        every = np.negative(mask.view(np.int8), out=mask.view(np.int8))
        total += _added(_zeroed(part, every, scratch[: len(part)]), scratch)
    give_back(pieces)
    rest = ~np.isnan(rows[even:])
    total = total.reshape(together, columns).sum(axis=0)
    total += rows[even:].sum(axis=0, dtype=np.float64, where=rest)
    return total, counts.reshape(together, columns).sum(axis=0) + rest.sum(axis=0)


def _added(part: np.ndarray, scratch: np.ndarray) -> np.ndarray:
    """Return the sum of long rows: of pairs, of pairs of pairs, and then in double."""
    while len(part) > LINES >> HALVINGS and not len(part) % 2:
        half = len(part) // 2
        part = np.add(part[:half], part[half:], out=scratch[:half])
    return np.add.reduce(part, axis=0, dtype=np.float64)  # type: ignore[no-any-return]


def _bits_of(mask: np.ndarray) -> np.ndarray:
    """Return integers of which all bits are set where a mask is true, and none elsewhere."""
    return np.negative(mask.view(np.int8))


def _zeroed(values: np.ndarray, every: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Return values with zeros where they are missing: `every` has all bits where they are not."""
    if values.dtype.char in "fd" and values.dtype.isnative:
        bits = np.dtype(f"i{values.dtype.itemsize}")
        np.bitwise_and(values.view(bits), every, out=out.view(bits))
    else:
        np.copyto(out, values)
        np.copyto(out, out.dtype.type(0), where=every == 0)
    return out


SHORT = 8
"""Rows of up to so many elements are short."""


def _by_columns(part: Part) -> Part:
    """Return a function that has short rows as columns, which NumPy adds in a long inner loop."""

    def found(block: np.ndarray, axes: Axes, first: int) -> State:
        last = block.ndim - 1
        if not last or axes != (last,) or not 1 < block.shape[last] <= SHORT:
            return part(block, axes, first)
        columns = np.ascontiguousarray(np.moveaxis(block, last, 0))
        state = part(columns, (0,), first)
        return tuple(one if one is None else np.moveaxis(one, 0, last) for one in state)

    return found


# --- sums and products ---------------------------------------------------------------------------


def _sum_part(block: np.ndarray, axes: Axes, first: int) -> State:
    tall = _tall(block, axes)
    if tall is not None:
        return (tall[0],)
    if _is_whole(block):
        return (exact_sum(block, axes),)
    return (_sum_by_mask(*_parted(block), axes),)


def _prod_part(block: np.ndarray, axes: Axes, first: int) -> State:
    return PLAIN["prod"].part(_filled(*_parted(block), 1), axes, first)


# --- means ---------------------------------------------------------------------------------------


@_by_columns
def _mean_part(block: np.ndarray, axes: Axes, first: int) -> State:
    """Return sum, counts, and the exact mean where all that is present is the same."""
    tall = _tall(block, axes)
    if tall is not None:
        total, counts = tall
        return total, counts, _common(block, axes, total / np.maximum(counts, 1), counts)
    whole = _whole_of(block, axes)
    if whole is not None:
        total, count, common = mean_part(whole, axes, first)
        return total, np.full(total.shape, count), common
    values, mask = _parted(block)
    if values.dtype.kind in "biu":
        values = values.astype(np.float64)
    counts = _count(mask, axes)
    total = _sum_by_mask(values, mask, axes)
    if values.dtype.kind == "m":  # the sum is exact
        return total, counts, None
    known = values if values is block else np.where(mask, values, np.nan)
    return total, counts, _common(known, axes, total / np.maximum(counts, 1), counts)


def _common(
    known: np.ndarray, axes: Axes, mean: np.ndarray, counts: np.ndarray
) -> np.ndarray | None:
    """Return what all elements but NaN over some axes are, NaN where they differ, None if all do.

    Where there are none, any number will do: its count is 0.
    """
    if not known.size:
        return mean
    one = _some_present(known, axes).astype(mean.dtype)
    same = (rounded(mean, one) | np.isnan(one)) & (counts > 0)
    for end in (np.fmax, np.fmin):
        if same.any():
            found = end.reduce(known, axis=axes, keepdims=True)
            one = np.where(np.isnan(one), found, one)
            same &= found == one
    same &= rounded(mean, one)
    return np.where(same, one, np.nan) if same.any() else None


def _some_present(known: np.ndarray, axes: Axes) -> np.ndarray:
    """Return an element over some axes that is not NaN, if one of the first is not."""
    if len(axes) != 1:
        some = tuple(slice(AMONG if axis in axes else None) for axis in range(known.ndim))
        return np.asarray(np.fmax.reduce(known[some], axis=axes, keepdims=True))
    before = (slice(None),) * axes[0]
    one: np.ndarray = known[(*before, slice(1))]
    for place in range(1, min(AMONG, known.shape[axes[0]])):
        gaps = np.isnan(one)
        if not gaps.any():
            break
        one = np.where(gaps, known[(*before, slice(place, place + 1))], one)
    return one


AMONG = 32
"""Among so many elements of an axis there is most often one that is present."""


def _add_means(left: State, right: State) -> State:
    (total, count, one), (further, more, other) = left, right
    if one is None and other is None:
        alike = None
    else:
        one = np.full(total.shape, np.nan) if one is None else one
        other = np.full(total.shape, np.nan) if other is None else other
        alike = np.where(one == other, one, np.nan)
        alike = np.where(count == 0, other, np.where(more == 0, one, alike))
    (total,) = PLAIN["sum"].combine((total,), (further,))
    return total, count + more, alike


def _mean(state: State, options: dict[str, Any]) -> Any:
    with np.errstate(invalid="ignore"):
        return _mean_of_some(state, options)


def _mean_of_some(state: State, options: dict[str, Any]) -> Any:
    total, count, common = state
    if not np.all(count):
        warn("Mean of empty slice")
    mean = total / count
    return mean if common is None else np.where(np.isnan(common) | (count == 0), mean, common)


# --- moments -------------------------------------------------------------------------------------


@_by_columns
def _moments_part(block: np.ndarray, axes: Axes, first: int) -> State:
    """Return counts, numbers near the means, what the means have more, and the spreads."""
    whole = _whole_of(block, axes)
    if whole is not None:
        count, near, off, squares = moments_part(whole, axes, first)
        return np.full(squares.shape, count), near, off, squares
    values, mask = _parted(block)
    least = np.float64 if values.dtype.kind in "biu" else np.float32
    values = values.astype(np.result_type(values.dtype, least), copy=False)
    known = np.where(mask, values, np.nan) if block.dtype.names else values
    with np.errstate(all="ignore"):
        state = _moments(known, mask, axes)
        if not np.isfinite(state[3]).all():
            return _moments(widest(known), mask, axes)
    return state


def _moments(known: np.ndarray, mask: np.ndarray, axes: Axes) -> State:
    """Return the moments of numbers that are NaN where they are missing."""
    counts = _count(mask, axes)
    some = np.maximum(counts, 1)
    mean = _sum_by_mask(known, mask, axes) / some
    common = _common(known, axes, mean, counts)
    mean = mean if common is None else np.where(np.isnan(common), mean, common)
    near = mean.astype(known.dtype)
    pieces: list[np.ndarray] = []
    distance = borrow(known.shape, known.dtype.newbyteorder("="), pieces)
    _zeroed(np.subtract(known, near, out=distance), _bits_of(mask), distance)
    off = exact_sum(distance, axes) / some
    squares = sum_of_squares(distance, axes)
    give_back(pieces)
    off = np.where(squares > 0, off, 0)
    spread = np.maximum(squares - counts * (off * np.conj(off)).real, 0)
    return counts, near.astype(mean.dtype), off, spread


def _merge_moments(left: State, right: State) -> State:
    (count, near, off, squares), (more, other, beyond, further) = left, right
    total = count + more
    share = more / np.maximum(total, 1)
    apart = distance_of((near, off), (other, beyond))
    with np.errstate(all="ignore"):
        apart = np.where((count > 0) & (more > 0), apart, 0)
        spread = squares + further + (apart * np.conj(apart)).real * (count * share)
    empty = count == 0
    return total, np.where(empty, other, near), np.where(empty, beyond, off + apart * share), spread


def _variance(state: State, options: dict[str, Any]) -> Any:
    count, *_, squares = state
    free = count - options.get("ddof", 0)
    if np.any(free <= 0):
        warn("Degrees of freedom <= 0 for slice.")
    with np.errstate(all="ignore"):
        return np.where(free > 0, squares / np.maximum(free, 1), np.nan)


def _variance_of_some(state: State, options: dict[str, Any]) -> Any:
    free = state[0] - options.get("ddof", 0)
    if np.any(free <= 0):
        warn("Degrees of freedom <= 0 for slice")
    return np.divide(state[3], np.maximum(free, 0))


def _deviation(state: State, options: dict[str, Any]) -> Any:
    return np.sqrt(_variance(state, options))


def _deviation_of_some(state: State, options: dict[str, Any]) -> Any:
    return np.sqrt(_variance_of_some(state, options))


# --- extremes ------------------------------------------------------------------------------------


def _extreme(state: State, options: dict[str, Any]) -> Any:
    if np.isnan(state[0]).any():
        warn("All-NaN slice encountered")
    return state[0]


def _arg_part(find: Callable[..., Any], fill: float) -> Callable[[np.ndarray, Axes, int], State]:
    part = arg_part(find)

    def found(block: np.ndarray, axes: Axes, first: int) -> State:
        values, mask = _parted(block)
        state = part(_filled(values, mask, fill), axes, first)
        return *state, np.any(mask, axis=axes, keepdims=True)

    return found


def _arg_of(less: bool) -> Callable[[State, State], State]:
    better = better_of(less)
    return lambda left, right: (*better(left[:2], right[:2]), left[2] | right[2])


def _place(state: State, options: dict[str, Any]) -> Any:
    if not np.all(state[2]):
        raise ValueError("All-NaN slice encountered")
    return state[1]


KINDS = {
    **PLAIN,
    "nansum": Kind(_sum_part, PLAIN["sum"].combine, PLAIN["sum"].finish),
    "nanprod": Kind(_prod_part, PLAIN["prod"].combine, PLAIN["prod"].finish),
    "nanmean": Kind(_mean_part, _add_means, _mean),
    "nanvar": Kind(_moments_part, _merge_moments, _variance),
    "nanstd": Kind(_moments_part, _merge_moments, _deviation),
    "nanmin": Kind(reduced_by(np.fmin.reduce), combined_by(np.fmin), _extreme),
    "nanmax": Kind(reduced_by(np.fmax.reduce), combined_by(np.fmax), _extreme),
    "nanargmin": Kind(_arg_part(np.argmin, np.inf), _arg_of(True), _place),
    "nanargmax": Kind(_arg_part(np.argmax, -np.inf), _arg_of(False), _place),
}
"""Every statistic that streams, by NumPy's name for it."""

# --- extremes of pairs ---------------------------------------------------------------------------


def _some_part(ufunc: np.ufunc, opposite: np.ufunc) -> Callable[..., State]:
    """Return what finds the extremes, where they are, and whether there is any.

    Over some of several axes nobody asks where they are.
    """

    def part(block: np.ndarray, axes: Axes, first: int) -> State:
        values, mask = _parted(block)
        some = np.any(mask, axis=axes, keepdims=True)
        present = values[mask]
        if not present.size:
            return np.zeros(some.shape, values.dtype), np.zeros(some.shape, np.intp), some
        filled = np.where(mask, values, opposite.reduce(present, axis=None))
        value = ufunc.reduce(filled, axis=axes, keepdims=True)
        place = np.zeros(some.shape, np.intp)
        if len(axes) in (1, block.ndim):
            place = arg_part(np.argmax)(mask & (filled == value), axes, first)[1]
        return value, place, some

    return part


def _combined_some(ufunc: np.ufunc) -> Callable[[State, State], State]:
    def combine(left: State, right: State) -> State:
        (value, place, some), (other, where, more) = left, right
        both = some & more
        best = np.asarray(np.where(some, value, other))
        best[both] = ufunc(value[both], other[both])
        is_earlier = (other == best) & (where < place)
        wins = ~some | (both & ((value != best) | is_earlier))
        return best, np.where(wins, where, place), some | more

    return combine


def _extreme_of_some(state: State, options: dict[str, Any]) -> Any:
    value, _, some = state
    if some.all():
        return value
    if value.dtype.kind not in "fcmM":
        raise ValueError("an extreme of no elements has no value: all of them are missing")
    warn("All-NaN slice encountered")
    return np.where(some, value, np.array(nothing_in(value.dtype), value.dtype))


def _place_of_some(state: State, options: dict[str, Any]) -> Any:
    if not state[2].all():
        raise ValueError("an extreme of no elements has no place: all of them are missing")
    return state[1]


_LEAST = _some_part(np.minimum, np.maximum), _combined_some(np.minimum)
_GREATEST = _some_part(np.maximum, np.minimum), _combined_some(np.maximum)
"""What finds an extreme and where it is, once for both."""

OF_SOME = {
    **KINDS,
    "min": Kind(*_LEAST, _extreme_of_some),
    "max": Kind(*_GREATEST, _extreme_of_some),
    "argmin": Kind(*_LEAST, _place_of_some),
    "argmax": Kind(*_GREATEST, _place_of_some),
    "mean": Kind(_mean_part, _add_means, _mean_of_some),
    "var": Kind(_moments_part, _merge_moments, _variance_of_some),
    "std": Kind(_moments_part, _merge_moments, _deviation_of_some),
}
"""The same of pairs of a value and its mask."""


def kind_of(name: str, dtype: np.dtype[Any]) -> Kind:
    """Return how a statistic of blocks of this dtype is computed."""
    return (OF_SOME if dtype.names else KINDS)[name]
