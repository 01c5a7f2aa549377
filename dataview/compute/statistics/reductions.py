"""How each statistic is computed from parts, so that data can be read in blocks, by threads.

A part is what one block of rows contributes; the axes that are reduced have length 1 in it.  Sums
of floats add a few numbers in the data's own precision and then go on in double, so that their
error does not grow with the number of rows.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.plan.operations import ROOTS
from dataview.plan.statistics import STATISTICS
from dataview.sources import borrow, give_back

State = tuple[Any, ...]
Axes = tuple[int, ...]


class Kind(NamedTuple):
    """How one statistic is computed from parts; its name is that of NumPy's function."""

    part: Callable[[np.ndarray, Axes, int], State]
    combine: Callable[[State, State], State]
    finish: Callable[[State, dict[str, Any]], Any]


def result_dtype(kind: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of a statistic of data of this dtype, or raise what NumPy raises.

    >>> result_dtype("mean", np.dtype("int8")), result_dtype("sum", np.dtype("int8"))
    (dtype('float64'), dtype('int64'))
    """
    if dtype.names:  # pairs of a value and its mask
        dtype = dtype["value"]
    is_object = dtype.kind in STATISTICS[kind].objects
    return dtype if is_object else _asked_dtype(kind, dtype)


@functools.lru_cache(maxsize=1024)
def _asked_dtype(kind: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    with np.errstate(all="ignore"):
        return np.asarray(getattr(np, kind)(np.ones(1, dtype), axis=0)).dtype


def axes_over(axis: Any, ndim: int, kind: str) -> tuple[int, ...]:
    """Return the axes of a statistic, ascending; those of quantiles may be a list, as in NumPy."""
    if type(axis) is int and 0 <= axis < ndim:
        return (axis,)
    what, given = STATISTICS[kind], axis
    if what.is_place and isinstance(axis, tuple):
        raise of_one_axis(kind, axis)
    if not what.is_quantile:
        given = axis if isinstance(axis, tuple) else (axis,)
        if not ndim and given in ((0,), (-1,)) and not what.is_average:  # so does NumPy
            return ()
        if any(isinstance(number, (bool, np.bool)) for number in given):
            raise TypeError(f"the axis of {kind} is an integer; got {axis!r}")
    try:
        return tuple(sorted(np.lib.array_utils.normalize_axis_tuple(given, ndim)))
    except TypeError as error:
        raise TypeError(
            f"the axis of {kind} is an integer, or several in a tuple; got {axis!r}; that of a "
            f"field is d.x._{kind}()"
        ) from error


def of_one_axis(kind: str, axis: Any) -> Exception:
    """Return the error for a statistic that is asked for over several axes."""
    return TypeError(f"{kind} is taken over one axis or over all; got axis={axis!r}")


# --- sums --------------------------------------------------------------------------------------

WIDE = 1024
"""Narrow rows are added as long rows of about this length, so that NumPy's inner loop is long."""

HALVINGS = 5
"""How many additions, of pairs and then of pairs of pairs, have the data's own precision before the
sum goes on in double."""

CHUNK_BYTES = 1 << 22
"""How much is added in pairs at a time: the sums stay in the cache."""


def _all(flags: np.ndarray) -> bool:
    """Whether all flags are true; the place of the first false one is found in less time."""
    return not flags.size or bool(flags.item(flags.argmin()))


@functools.cache
def _wider(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind == "c":
        return np.result_type(dtype, np.complex128)
    return np.result_type(dtype, np.float64) if dtype.kind == "f" else dtype


def exact_sum(block: np.ndarray, axes: Axes) -> np.ndarray:
    """Return the sum over some axes, which keep length 1; floats are summed in double in the end.

    >>> a = np.full((100_000, 1), 0.1, "f4")
    >>> round(exact_sum(a, (0,)).item() / 100_000, 5)
    0.1
    """
    if block.dtype.kind not in "fc":
        return _sum_of_integers(block, axes)
    wider, depth = _wider(block.dtype), len(axes)
    is_long = block.size >= WIDE << HALVINGS and block.dtype.char in "fd"
    is_line = block.ndim == 1 and block.dtype.char == "d"  # NumPy adds these in pairs itself
    with np.errstate(all="ignore"):
        if is_long and not is_line and axes == tuple(range(depth)) and block.flags.c_contiguous:
            kept = block.shape[depth:]
            rows = block.reshape(_count(block, axes), math.prod(kept))
            total = tall_sum(rows, wider).reshape((1,) * depth + kept)
        else:
            total = np.add.reduce(block, axis=axes, dtype=wider, keepdims=True)
    if not _all(np.isfinite(total)) and _left_range(block, axes, total):
        # The sum may be finite though a partial sum is not: a wider range finds out.
        total = np.add.reduce(widest(block), axis=axes, keepdims=True)
    return total


def _sum_of_integers(block: np.ndarray, axes: Axes, dtype: Any = None) -> np.ndarray:
    """Return the sum of integers or truth values; to count all of these takes a tenth of the time.

    >>> _sum_of_integers(np.array([[True, False], [True, True]]), (0, 1))
    array([[3]])
    """
    if block.dtype.kind == "b" and len(axes) == block.ndim:
        count = np.count_nonzero(block)
        return np.full((1,) * block.ndim, count, np.intp if dtype is None else dtype)
    total: np.ndarray = np.add.reduce(block, axis=axes, dtype=dtype, keepdims=True)
    return total  # of one object without axes, that object itself


def _left_range(block: np.ndarray, axes: Axes, found: np.ndarray) -> bool:
    """Whether a result that is not finite may come of a step, and not of NaN in the data."""
    if not block.size:
        return False
    parts = [block.real, block.imag] if block.dtype.kind == "c" else [block]
    far, missing = ~np.isfinite(found), np.isnan(found)
    for part in parts:
        low = _extreme(np.minimum, part, axes)
        far &= np.isfinite(low)
        missing &= ~np.isnan(low)
        if not far.any() and not missing.any():  # most often there is NaN in the data
            return False
        far &= np.isfinite(_extreme(np.maximum, part, axes))
    return bool(far.any() or missing.any())


FEW = 16
"""Rows of up to so many elements are compared column by column, which is faster than each alone."""


def _extreme(ufunc: np.ufunc, block: np.ndarray, axes: Axes) -> np.ndarray:
    """Return extremes over some axes, which keep length 1; they are NaN where an element is.

    >>> _extreme(np.minimum, np.array([[3.0, np.nan], [1.0, 2.0]]), (0,))
    array([[ 1., nan]])
    """
    depth, last = len(axes), block.ndim - 1
    if axes == (last,) and last and 0 < block.shape[last] <= FEW:
        columns = (block[..., place : place + 1] for place in range(block.shape[last]))
        return np.asarray(functools.reduce(ufunc, columns))
    if axes != tuple(range(depth)) or depth > last or not block.flags.c_contiguous:
        return np.asarray(ufunc.reduce(block, axis=axes, keepdims=True))
    kept = block.shape[depth:]
    rows = block.reshape(_count(block, axes), math.prod(kept))
    together = max(1, min(len(rows), WIDE // max(1, rows.shape[1])))
    even = len(rows) - len(rows) % together
    wide = rows[:even].reshape(-1, together * rows.shape[1])
    found = ufunc.reduce(ufunc.reduce(wide, axis=0).reshape(together, -1), axis=0)
    found = ufunc.reduce(np.concatenate([found[None], rows[even:]]), axis=0)
    return np.asarray(found.reshape((1,) * depth + kept))


def tall_sum(rows: np.ndarray, wider: np.dtype[Any]) -> np.ndarray:
    """Add rows, several of them side by side as one long row."""
    count, columns = rows.shape
    together = max(1, WIDE // max(1, columns))
    even = count - count % (together << HALVINGS)
    total: np.ndarray = np.add.reduce(rows[even:], axis=0, dtype=wider)
    if not even:
        return total
    wide = rows[:even].reshape(-1, together * columns)
    step = max(1, CHUNK_BYTES // (wide[0].nbytes << HALVINGS)) << HALVINGS
    pieces: list[np.ndarray] = []
    lines = min(step, len(wide)) // 2
    scratch = borrow((lines, together * columns), rows.dtype, pieces)
    sums = np.zeros(together * columns, wider)
    for start in range(0, len(wide), step):
        part = wide[start : start + step]
        for _ in range(HALVINGS):
            half = len(part) // 2
            part = np.add(part[:half], part[half:], out=scratch[:half])
        sums += np.add.reduce(part, axis=0, dtype=wider)
    give_back(pieces)
    total += sums.reshape(together, columns).sum(axis=0)
    return total


def _count(block: np.ndarray, axes: Axes) -> int:
    return math.prod([block.shape[axis] for axis in axes])


def _add(left: State, right: State) -> State:
    return tuple(_in_range(np.add, a, b) for a, b in zip(left, right, strict=True))


def _in_range(ufunc: np.ufunc, left: Any, right: Any) -> Any:
    """Combine two parts, in a wider range if the result is not finite."""
    with np.errstate(all="ignore"):
        found = ufunc(left, right)
    if np.asarray(found).dtype.kind in "fc" and not np.isfinite(found).all():
        return ufunc(widest(np.asarray(left)), right)
    return found


def widest(values: np.ndarray) -> np.ndarray:
    return values.astype(np.clongdouble if values.dtype.kind == "c" else np.longdouble)


def _sum_value(state: State, options: dict[str, Any]) -> Any:
    """Return a sum, with an initial value that counts before the sum has its own dtype."""
    return _in_range(np.add, options["initial"], state[0]) if "initial" in options else state[0]


def _first(state: State, options: dict[str, Any]) -> Any:
    return state[0]


def _second(state: State, options: dict[str, Any]) -> Any:
    return state[1]


# --- means ---------------------------------------------------------------------------------------

NEARLY = 2.0**-30
"""Up to this share of itself the mean of equal numbers may be off by the rounding of their sum."""


def mean_part(block: np.ndarray, axes: Axes, first: int) -> State:
    """Return sum and count, and the exact mean of the elements that are all the same.

    The sum of many equal numbers is rounded, so that their mean would not be one of them.
    """
    count = _count(block, axes)
    if block.dtype.kind in "biu":
        total = _sum_of_integers(block, axes, np.float64)
    else:
        total = exact_sum(block, axes)
    if block.dtype.char not in "dDgGilqILQ" or not count:
        return total, count, None  # the result has fewer digits than the sum
    with np.errstate(all="ignore"):
        return total, count, _common(block, axes, total / count)


def _common(block: np.ndarray, axes: Axes, mean: np.ndarray) -> np.ndarray | None:
    """Return what all elements over some axes are, NaN where they differ, None if all do.

    Where the sum of few digits is exact (zeros, ones, small integers) nothing needs to be known.
    """
    first, last = _ends(axes, block.ndim)
    one = block[first]
    same = np.asarray(one == block[last])
    if not same.any():
        return None
    one = one.astype(mean.dtype)
    same[same] = rounded(mean[same], one[same])
    for end in (np.min, np.max):
        if same.any():
            same &= end(block, axis=axes, keepdims=True) == one
    return np.where(same, one, np.nan) if same.any() else None


def rounded(means: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Whether means may be of equal numbers that have too many digits for exact sums."""
    near = np.asarray(np.abs(means - numbers) <= np.abs(numbers) * NEARLY)
    with np.errstate(over="ignore"):  # what is too large for so few digits differs
        near[near] = numbers[near].real.astype(np.float16) != numbers[near]
    return near


@functools.lru_cache(maxsize=256)
def _ends(axes: Axes, ndim: int) -> list[tuple[slice, ...]]:
    """Return the keys of the first and of the last position along some axes."""
    ends = slice(1), slice(-1, None)
    return [tuple(end if axis in axes else slice(None) for axis in range(ndim)) for end in ends]


def _add_means(left: State, right: State) -> State:
    one, other = left[2], right[2]
    alike = None if one is None or other is None else np.where(one == other, one, np.nan)
    return *_add(left[:2], right[:2]), alike


def _mean(state: State, options: dict[str, Any]) -> Any:
    total, count, common = state
    mean = total / count
    return mean if common is None else np.where(np.isnan(common), mean, common)


# --- products ------------------------------------------------------------------------------------

FACTORS = 256
"""The product of so many doubles between 1/4 and 1 is far from underflow."""


def _prod_part(block: np.ndarray, axes: Axes, first: int) -> State:
    """Return the product; of floats as a number and a power of two, which cannot overflow."""
    if block.dtype.kind not in "fc":
        return (np.multiply.reduce(block, axis=axes, keepdims=True),)
    with np.errstate(all="ignore"):
        found = np.multiply.reduce(block, axis=axes, dtype=_wider(block.dtype), keepdims=True)
        size = np.abs(found)
        if ((size >= np.finfo(found.dtype).tiny) & np.isfinite(size)).all():
            return _scaled(found)
    kept = [1 if axis in axes else n for axis, n in enumerate(block.shape)]
    others = [axis for axis in range(block.ndim) if axis not in axes]
    lines = block.astype(found.dtype).transpose([*axes, *others])
    lines = lines.reshape(_count(block, axes), *(block.shape[axis] for axis in others))
    number, power = _product(*_scaled(lines))
    return number.reshape(kept), power.reshape(kept)


def _product(number: np.ndarray, power: np.ndarray) -> State:
    """Return the product of scaled numbers along the first axis."""
    total = power.sum(axis=0)
    while len(number) > 1:
        starts = range(0, len(number), FACTORS)
        number, power = _scaled(np.multiply.reduceat(number, starts, axis=0))
        total = total + power.sum(axis=0)
    return (number[0], total) if len(number) else (np.ones(number.shape[1:], number.dtype), total)


def _scaled(values: np.ndarray) -> State:
    """Return numbers divided by powers of two so that they are near one, and these powers.

    >>> _scaled(np.array([12.0, 0.0, np.inf]))
    (array([0.75, 0.  ,  inf]), array([4, 0, 0]))
    """
    parts = [values.real, values.imag] if values.dtype.kind == "c" else [values]
    size = functools.reduce(np.maximum, map(np.abs, parts))
    power = np.where(np.isfinite(size), np.frexp(size)[1], 0).astype(np.int64)
    return _times_power(values, -power), power


def _times_power(values: np.ndarray, power: np.ndarray) -> np.ndarray:
    shift = np.clip(power, -(2**20), 2**20).astype(np.int32)
    if values.dtype.kind != "c":
        found: np.ndarray = np.ldexp(values, shift)
        return found
    found = np.empty(values.shape, values.dtype)
    found.real, found.imag = np.ldexp(values.real, shift), np.ldexp(values.imag, shift)
    return found


def _multiply(left: State, right: State) -> State:
    if len(left) == 1:
        return (left[0] * right[0],)
    number, power = _scaled(left[0] * right[0])
    return number, left[1] + right[1] + power


def _product_value(state: State, options: dict[str, Any]) -> Any:
    """Return a product, with an initial value that counts before the product is out of range."""
    if "initial" in options:
        initial = np.asarray(options["initial"], state[0].dtype)
        state = _multiply((initial,) if len(state) == 1 else _scaled(initial), state)
    return state[0] if len(state) == 1 else _times_power(*state)


# --- moments ------------------------------------------------------------------------------------


def moments_part(block: np.ndarray, axes: Axes, first: int) -> State:
    """Return count, a number near the mean, what the mean has more, and the spread.

    The spread is the sum of squared distances from the mean.  Two numbers hold more digits of the
    mean than one, so that a large offset common to all elements loses none of the spread.
    """
    if block.dtype.hasobject:
        return _moments_of_objects(block, axes)
    if block.dtype.kind in "biu":
        if block.dtype.itemsize == 1 and LEAST_BYTES <= _count(block, axes) <= MOST_BYTES:
            return _moments_of_bytes(block, axes)
        block = block.astype(np.float64)
    elif block.dtype.char == "e":
        block = block.astype(np.float32)  # as NumPy; halves have no squares of small distances
    with np.errstate(all="ignore"):
        state = _moments(block, axes)
    is_far = block.dtype.kind in "fc" and not np.isfinite(state[3]).all()
    if is_far and _left_range(block, axes, state[3]):
        return _moments(widest(block), axes)
    return state


CLOSE = 2.0**-14
"""Where the variance is less than this share of the squared mean, the mean's rounding shows."""


def _moments(block: np.ndarray, axes: Axes) -> State:
    count = _count(block, axes)
    if not count:
        nothing = np.zeros([1 if axis in axes else n for axis, n in enumerate(block.shape)])
        return count, nothing, nothing, nothing
    mean = exact_sum(block, axes) / count
    near = mean.astype(block.dtype)
    off, squares = mean - near, _squares(block, near, axes)
    if mean.dtype.char == block.dtype.char:  # else the sum has digits enough
        near, off, squares = _refined(block, axes, near, squares)
    off = np.where(squares > 0, off, 0)
    return count, near.astype(mean.dtype), off, np.maximum(squares - count * _square(off), 0)


LEAST_BYTES, MOST_BYTES = 1 << 12, 1 << 23
"""Of so many numbers of one byte, moments are faster by integers, and these do not overflow."""


def _moments_of_bytes(block: np.ndarray, axes: Axes) -> State:
    """Return what `_moments` does, by integers, which are faster for numbers of one byte and exact.

    >>> count, near, off, squares = _moments_of_bytes(np.array([1, 2, 6], "u1"), (0,))
    >>> count, (near + off).tolist(), squares.tolist()
    (3, [3.0], [14.0])
    """
    count = _count(block, axes)
    numbers = block.view(np.uint8) if block.dtype.kind == "b" else block
    wide = np.dtype(np.int16 if block.dtype.kind == "i" else np.uint16)
    rows = len(block)
    step = max(1, SQUARED_ELEMENTS * rows // block.size) if 0 in axes else rows
    total: Any = 0
    squares: Any = 0
    for start in range(0, rows, step):
        part = numbers[start : start + step]
        total = total + np.add.reduce(part, axis=axes, dtype=np.int64, keepdims=True)
        squared = np.multiply(part, part, dtype=wide)
        squares = squares + np.add.reduce(squared, axis=axes, dtype=np.int64, keepdims=True)
    mean = total / count
    rest = total - np.rint(mean).astype(np.int64) * count
    apart = (count * squares - total * total) / count
    return count, np.rint(mean), rest / count, apart


SQUARED_ELEMENTS = 1 << 15
"""So many numbers are squared at a time: with their squares they fit into the core's own cache."""


LINE_ELEMENTS = 1 << 16
"""The same of doubles in a line, of which nothing but their squares is kept."""


def _refined(block: np.ndarray, axes: Axes, near: np.ndarray, squares: np.ndarray) -> State:
    """Return a number near the mean, what the mean has more, and the squared distances from it."""
    count = _count(block, axes)
    close = (squares > 0) & (squares < CLOSE * count * _square(near))
    if not close.any():
        return near, np.zeros_like(near), squares
    off = np.where(close, exact_sum(block - near, axes) / count, 0)
    if (count * _square(off) > squares / 2).any():
        # What was squared is the rounding more than the spread, as that of what is constant.
        better = near + off
        off -= better - near
        near, squares = better, _squares(block, better, axes)
    return near, off, squares


def _squares(block: np.ndarray, near: np.ndarray, axes: Axes) -> np.ndarray:
    """Return the sum of squared distances from numbers."""
    if block.ndim != 1 or axes != (0,) or block.dtype.char != "d" or block.size < LINE_ELEMENTS:
        return sum_of_squares(block - near, axes)
    pieces: list[np.ndarray] = []
    scratch = borrow((LINE_ELEMENTS,), block.dtype, pieces)
    sums = []
    for start in range(0, len(block), LINE_ELEMENTS):
        part = block[start : start + LINE_ELEMENTS]
        distance = np.subtract(part, near, out=scratch[: len(part)])
        distance *= distance
        sums.append(np.add.reduce(distance))
    give_back(pieces)
    return exact_sum(np.array(sums), axes)


def sum_of_squares(distance: np.ndarray, axes: Axes) -> np.ndarray:
    """Return the sum of squares, which take the place of real numbers."""
    if distance.dtype.kind == "c":
        return exact_sum(_square(distance), axes)
    distance *= distance
    return exact_sum(distance, axes)


def _square(values: Any) -> Any:
    return (values * np.conj(values)).real


def _moments_of_objects(block: np.ndarray, axes: Axes) -> State:
    """Return what `_moments` does by the arithmetic of the objects, which may have no floats."""
    count = _count(block, axes)
    mean = np.add.reduce(block, axis=axes, keepdims=True) / max(count, 1)
    return count, mean, None, np.add.reduce(_square(block - mean), axis=axes, keepdims=True)


def _merge_moments(left: State, right: State) -> State:
    (count, near, off, squares), (more, other, beyond, further) = left, right
    total = count + more
    if off is None:  # of objects
        apart = other - near
        spread = squares + further + _square(apart) * (count * more) / total
        return total, near + apart * more / total, None, spread
    apart = distance_of((near, off), (other, beyond))
    some = max(total, 1)  # blocks may have no elements
    spread = squares + further + _square(apart) * (count * more / some)
    return total, near, off + apart * (more / some), spread


def distance_of(mean: tuple[Any, Any], other: tuple[Any, Any]) -> Any:
    """Return how much one mean has more than the other, in a range in which its square is finite.

    Each mean is a number near to it, and what it has more.
    """
    (near, off), (further, beyond) = mean, other
    with np.errstate(all="ignore"):
        apart = (further - near) + (beyond - off)
        if np.isfinite(_square(apart)).all():
            return apart
        return (widest(np.asarray(further)) - near) + (beyond - off)


def _deviation(state: State, options: dict[str, Any]) -> Any:
    variance = _variance(state, options)
    return ROOTS(variance) if state[2] is None else np.sqrt(variance)


def _variance(state: State, options: dict[str, Any]) -> Any:
    count, *_, squares = state
    return np.divide(squares, max(count - options.get("ddof", 0), 0))


# --- extremes and truth ---------------------------------------------------------------------------


def reduced_by(function: Callable[..., Any]) -> Callable[[np.ndarray, Axes, int], State]:
    """Return the function that computes a part by one of NumPy's reductions of a block."""
    return lambda block, axes, first: (function(block, axis=axes, keepdims=True),)


def combined_by(function: Callable[[Any, Any], Any]) -> Callable[[State, State], State]:
    """Return the function that combines two parts of one value each."""
    return lambda left, right: (function(left[0], right[0]),)


def arg_part(find: Callable[..., Any]) -> Callable[[np.ndarray, Axes, int], State]:
    def part(block: np.ndarray, axes: Axes, first: int) -> State:
        if len(axes) == block.ndim:
            place = np.asarray(find(block)).reshape((1,) * block.ndim)
            value = block.reshape(-1)[place]
            return value, place + first * _count(block, tuple(range(1, block.ndim)))
        (axis,) = axes
        place = find(block, axis=axis, keepdims=True)
        value = np.take_along_axis(block, place, axis)
        return value, place + (first if axis == 0 else 0)

    return part


def moved_place(state: State, axes: Axes, block: Sequence[slice], shape: Sequence[int]) -> State:
    """Return where an extreme of a block is in the whole, of this shape.

    >>> where = np.array([[3]]), np.array([[4]])
    >>> moved_place(where, (0, 1), (slice(2, 4), slice(5, 8)), (9, 10))[1]
    array([[36]])
    """
    value, place, *others = state
    if len(axes) < len(shape):
        (axis,) = axes
        return value, place + block[axis].start, *others
    at = np.unravel_index(place, [part.stop - part.start for part in block])
    inside = [one + part.start for one, part in zip(at, block, strict=True)]
    return value, np.asarray(np.ravel_multi_index(inside, shape)), *others


def better_of(less: bool) -> Callable[[State, State], State]:
    def combine(left: State, right: State) -> State:
        (value, place), (other, where) = left, right
        with np.errstate(invalid="ignore"):
            wins = other < value if less else other > value
            wins |= (other == value) & (where < place)  # blocks may not come in the order of places
        if value.dtype.kind in "fcmM":  # the first NaN wins, as in NumPy
            missing, lost = np.isnan(value), np.isnan(other)
            wins = np.where(missing, lost & (where < place), wins | lost)
        return np.where(wins, other, value), np.where(wins, where, place)

    return combine


PLAIN: dict[str, Kind] = {
    "sum": Kind(lambda block, axes, first: (exact_sum(block, axes),), _add, _sum_value),
    "prod": Kind(_prod_part, _multiply, _product_value),
    "mean": Kind(mean_part, _add_means, _mean),
    "var": Kind(moments_part, _merge_moments, _variance),
    "std": Kind(moments_part, _merge_moments, _deviation),
    "min": Kind(reduced_by(np.min), combined_by(np.minimum), _first),
    "max": Kind(reduced_by(np.max), combined_by(np.maximum), _first),
    "argmin": Kind(arg_part(np.argmin), better_of(True), _second),
    "argmax": Kind(arg_part(np.argmax), better_of(False), _second),
    "any": Kind(reduced_by(np.any), combined_by(operator.or_), _first),
    "all": Kind(reduced_by(np.all), combined_by(operator.and_), _first),
}
"""The statistics of all elements, by NumPy's name for them."""
