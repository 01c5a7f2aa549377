"""Quantiles, exact and in bounded memory however many rows there are.

Each value has a key, an unsigned integer; keys have the order of the values.  A pass over the data
counts the keys by a few of their bits, and so finds these bits of the keys at the ranks that are
needed.  The next pass does the same with the next bits.  When few keys are left that begin with
the bits that are known, a last pass collects and sorts them.  NumPy interpolates between two ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dataview.compute.executors import run_blocks
from dataview.compute.ways import Cut, cuts_along, row_cuts
from dataview.errors import warn
from dataview.index import axis_index, numbers_map, sampled_rows
from dataview.index.locks import new_lock
from dataview.index.progress import at_work
from dataview.index.sizes import sizes
from dataview.plan.build import select
from dataview.plan.fields import NO_FIELDS
from dataview.plan.kinds import Reduction, known_dtype, known_shape, shape_for_rows, size_of
from dataview.plan.node import Evaluate, Node
from dataview.plan.operations import is_present, nothing_in

DIGITS = (8, 16)
"""How many bits of the keys one pass counts by, at least and at most."""

Axes = tuple[int, ...]

MEDIAN = "median"
"""Beside NumPy's methods: the middle value, or the mean of the two in the middle, as its median."""


def quantiles_of(node: Reduction, evaluate: Evaluate, data: Node | None = None) -> np.ndarray:
    """Return the value of a quantile's node; its operand may have been read as `data`."""
    options, operand = node.options, node.node if data is None else data
    if not size_of(known_shape(node)):
        return np.empty(known_shape(node), known_dtype(node))
    if not size_of(known_shape(node.node)):  # else it is an error when it is built
        warn("Mean of empty slice")
        return np.full(known_shape(node), np.nan, known_dtype(node))
    some = options.get("without_missing", False) and known_dtype(node.node).kind in "fmMO"
    request = _Request(options["q"], options["method"], options["approx"], some, evaluate)
    nbytes = size_of(known_shape(node.node)) * known_dtype(node.node).itemsize
    with at_work("quantiles", nbytes):
        found = _quantiles(operand, node.axes, request)
    return found.astype(known_dtype(node)).reshape(known_shape(node))


def rows_at(node: Node, numbers: np.ndarray, axis: int = 0) -> Node:
    """Return the rows of these ascending numbers, or entries of another axis, without fields."""
    shape = shape_for_rows(node) or known_shape(node)
    index = axis_index(shape, numbers_map(numbers, axis), len(numbers), axis)
    return select(node, index, fields=NO_FIELDS)


# --- which order statistics ------------------------------------------------------------------


class _Request(NamedTuple):
    """Which quantiles are needed, of all or `without_missing` values, and how data is read."""

    q: Any
    method: str
    approx: bool
    without_missing: bool
    evaluate: Evaluate


class _Places(NamedTuple):
    """For each quantile the ranks that it lies between, and how far; `share` None: at the first.

    They have a column for each column of the data, or one for all.
    """

    low: np.ndarray
    high: np.ndarray
    share: np.ndarray | None

    @property
    def ranks(self) -> np.ndarray:
        """The ranks that are needed, in ascending order; of one column each once."""
        if self.low.shape[1] == 1:
            return np.unique([self.low, self.high])[:, None]
        return np.sort(np.concatenate([self.low, self.high]), axis=0)

    def of_low(self, values: np.ndarray) -> np.ndarray:
        """Return, of the values at the ranks, those at the lower ones."""
        return _at(values, self.ranks, self.low)

    def of_high(self, values: np.ndarray) -> np.ndarray:
        """Return, of the values at the ranks, those at the higher ones."""
        return _at(values, self.ranks, self.high)


def _at(values: np.ndarray, ranks: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the values at some of the ranks."""
    if ranks.shape[1] == 1:
        return np.asarray(values[np.searchsorted(ranks[:, 0], wanted[:, 0])])
    rows = (ranks[None] < wanted[:, None]).sum(axis=1)
    return np.take_along_axis(values, rows, 0)


def _by_plotting(alpha: float, beta: float) -> Callable[[int, np.ndarray], np.ndarray]:
    return lambda n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1


def _nearest_even(n: int, q: np.ndarray) -> np.ndarray:
    place = n * q - 1.5
    below = np.floor(place)
    return np.where((place == below) & (below % 2 == 1), below, below + 1)


_DISCRETE: dict[str, Callable[[int, np.ndarray], np.ndarray]] = {
    "inverted_cdf": lambda n, q: np.ceil(n * q - 1),
    "closest_observation": _nearest_even,
    "lower": lambda n, q: np.floor((n - 1) * q),
    "higher": lambda n, q: np.ceil((n - 1) * q),
    "nearest": lambda n, q: np.around((n - 1) * q),
}
_CONTINUOUS: dict[str, Callable[[int, np.ndarray], np.ndarray]] = {
    "linear": lambda n, q: (n - 1) * q,
    MEDIAN: lambda n, q: (n - 1) * q,
    "midpoint": lambda n, q: (np.floor((n - 1) * q) + np.ceil((n - 1) * q)) / 2,
    "averaged_inverted_cdf": lambda n, q: n * q - 1,
    "interpolated_inverted_cdf": _by_plotting(0, 1),
    "hazen": _by_plotting(0.5, 0.5),
    "weibull": _by_plotting(0, 0),
    "median_unbiased": _by_plotting(1 / 3, 1 / 3),
    "normal_unbiased": _by_plotting(3 / 8, 3 / 8),
}
"""Where in n sorted values a quantile lies, counted from zero, by NumPy's names."""


def _places_of_each(counts: np.ndarray, request: _Request) -> _Places:
    """Return the places in columns that have so many values each."""
    different, owner = np.unique(np.maximum(counts, 1), return_inverse=True)
    parts = [_places(count, request) for count in different.tolist()]
    low, high = (
        np.concatenate([getattr(part, end) for part in parts], axis=1)[:, owner]
        for end in ("low", "high")
    )
    if parts[0].share is None:
        return _Places(low, high, None)
    shares = [np.broadcast_to(part.share, part.low.shape) for part in parts]  # type: ignore[arg-type]
    return _Places(low, high, np.concatenate(shares, axis=1)[:, owner])


def _places(n: int, request: _Request) -> _Places:
    """Return the places in columns of n values."""
    given = np.asarray(request.q)
    q = given.astype(np.result_type(given, np.float64)).reshape(-1)
    rule = _DISCRETE.get(request.method)
    if rule is None and request.method == "linear" and given.dtype.kind in "biu":
        rule = _CONTINUOUS["linear"]  # for 0 and 1 NumPy keeps the dtype
    if rule is not None:
        rank = np.clip(rule(n, q), 0, n - 1).astype(np.intp)[:, None]
        return _Places(rank, rank, None)
    place = _CONTINUOUS[request.method](n, q)
    below = np.floor(place)
    share = place - below
    if request.method == "averaged_inverted_cdf":
        share = np.where(share == 0, 0.5, 1.0)
    outside = (place < 0) | (place >= n - 1)
    low = np.where(outside, np.where(place < 0, 0, n - 1), below).astype(np.intp)
    high = low + ~outside
    return _Places(low[:, None], high[:, None], np.where(outside, 0, share)[:, None])


def _interpolated(found: _RankValues, places: _Places, request: _Request) -> np.ndarray:
    """Return the quantiles of columns from the values of their ranks."""
    low = places.of_low(found.values)
    if places.share is None:
        value = low
    else:
        high = places.of_high(found.values)
        given = np.asarray(request.q).dtype
        kind = given.type if given.kind == "f" else np.float64
        weak = type(request.q) in (int, float)
        # Arrays without axes, because NumPy 2.0 takes an np.float64 for a Python number.

        def between(one: np.ndarray, other: np.ndarray, share: float) -> np.ndarray:
            if request.method == MEDIAN:
                return _mean_of(one, other) if share else one
            return _between(one, other, share if weak else np.array(share, kind))

        rows = zip(low, high, places.share.tolist(), strict=True)
        value = np.stack([_by_share(one, other, row, between) for one, other, row in rows])
    if found.missing is None or not found.missing.any():
        return value
    missing = np.array(nothing_in(value.dtype), value.dtype)
    return np.where(found.missing, missing, value)


def _by_share(
    low: np.ndarray, high: np.ndarray, shares: list[float], between: Callable[..., np.ndarray]
) -> np.ndarray:
    """Return interpolated values of columns that have shares of their own, or one for all."""
    if len(shares) == 1:
        return between(low, high, shares[0])
    different, owner = np.unique(shares, return_inverse=True)
    parts = [
        between(low[owner == number], high[owner == number], share)
        for number, share in enumerate(different.tolist())
    ]
    found = np.empty(low.shape, np.result_type(*parts))  # of integers some are means
    for number, part in enumerate(parts):
        found[owner == number] = part
    return found


def _mean_of(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the mean of two values, which is right even if their sum overflows."""
    if low.dtype.kind == "M":  # dates have no sum
        return _between(low, high, 0.5)
    with np.errstate(over="ignore"):
        value = np.asarray(np.mean(np.stack([low, high]), axis=0))
    if low.dtype.kind != "f":
        return value
    far = np.isinf(value) & np.isfinite(low) & np.isfinite(high)
    return np.where(far, low / 2 + high / 2, value) if far.any() else value


def _between(low: np.ndarray, high: np.ndarray, share: Any) -> np.ndarray:
    """Return NumPy's interpolated value, which is right even if `high - low` overflows."""
    if low.dtype.kind == "i" and (high - low < 0).any():
        low, high = low.astype(np.float64), high.astype(np.float64)
    far: Any = False
    if low.dtype.kind == "f":
        with np.errstate(all="ignore"):
            far = np.isinf(high - low) & np.isfinite(low) & np.isfinite(high)
        low, high = np.where(far, low / 2, low), np.where(far, high / 2, high)
    value = np.asarray(np.quantile(np.stack([low, high]), share, axis=0))
    return np.where(far, value * 2, value) if np.any(far) else value


# --- the plan --------------------------------------------------------------------------------


def _quantiles(node: Node, axes: Axes, request: _Request) -> np.ndarray:
    """Return quantiles over some axes: the axes of `q` first, then the others of the data."""
    shape, dtype = known_shape(node), known_dtype(node)
    size = size_of(shape)
    if not axes or size * dtype.itemsize <= sizes.quantile_bytes // 2:
        return _of_array(request.evaluate(node, None), axes, request)
    kept = tuple(axis for axis in range(len(shape)) if axis not in axes)
    columns = size_of(tuple(shape[axis] for axis in kept))
    long = max(axes, key=lambda axis: shape[axis])
    row = size // shape[long] * dtype.itemsize
    if columns > 1 and _is_wide(size // columns, columns, row, dtype, request):
        return _in_halves(node, axes, max(kept, key=lambda axis: shape[axis]), request)
    if request.approx:
        rows = max(1, min(sizes.sampled_rows, sizes.quantile_bytes // 2 // row))
        some = rows_at(node, sampled_rows(shape[long], rows), long)
        return _of_array(request.evaluate(some, None), axes, request)
    if not _has_keys(dtype):  # there are no keys: all of it is read
        return _of_array(request.evaluate(node, None), axes, request)
    search = _Search(node, axes, long, request.evaluate)
    if request.without_missing:
        counts = search.counts()
        places = _places_of_each(counts, request)
        found = search.found(places.ranks)._replace(missing=_none_of(counts))
    else:
        places = _places(size // columns, request)
        found = search.found(places.ranks)
    others = tuple(shape[axis] for axis in kept)
    return _interpolated(found, places, request).reshape(np.shape(request.q) + others)


def _none_of(counts: np.ndarray) -> np.ndarray:
    """Return which columns have no value, and warn if some have none, as NumPy does."""
    if not counts.all():
        warn("All-NaN slice encountered")
    return np.asarray(counts == 0)


def _is_wide(n: int, columns: int, row: int, dtype: np.dtype[Any], request: _Request) -> bool:
    """Whether there are too many columns to find their quantiles together."""
    if request.approx:
        return sizes.sampled_rows // 16 * row > sizes.quantile_bytes // 2
    if not _has_keys(dtype):
        return True
    return len(_places(n, request).ranks) * columns << DIGITS[0] > sizes.quantile_bytes // 32


def _in_halves(node: Node, axes: Axes, axis: int, request: _Request) -> np.ndarray:
    """Return the quantiles of both halves of the data along an axis that is not reduced."""
    shape = known_shape(node)
    middle = shape[axis] // 2
    halves = [Cut(axis, 0, middle), Cut(axis, middle, shape[axis])]
    parts = [
        _quantiles(select(node, half.within(shape), fields=NO_FIELDS), axes, request)
        for half in halves
    ]
    before = sum(other not in axes for other in range(axis))
    return np.concatenate(parts, axis=np.ndim(request.q) + before)


def _of_array(array: np.ndarray, axes: Axes, request: _Request) -> np.ndarray:
    """Return the quantiles of data in memory."""
    if array.dtype.hasobject:
        return _of_objects(array, axes, request)
    kept = tuple(n for axis, n in enumerate(array.shape) if axis not in axes)
    lines = _as_columns(array, axes)
    if not lines.size:
        return np.empty(np.shape(request.q) + kept)
    if request.without_missing:
        counts = len(lines) - np.isnan(lines).sum(axis=0)
        places = _places_of_each(counts, request)
        values = np.take_along_axis(np.sort(lines, axis=0), places.ranks, 0)
        of_ranks = _RankValues(values, _none_of(counts))
        return _interpolated(of_ranks, places, request).reshape(np.shape(request.q) + kept)
    places = _places(len(lines), request)
    found = _interpolated(_at_ranks(lines, places.ranks[:, 0]), places, request)
    return found.reshape(np.shape(request.q) + kept)


FEW = 6
"""Up to so many ranks are looked for one after the other: three quantiles between two each."""


def _at_ranks(lines: np.ndarray, ranks: np.ndarray) -> _RankValues:
    """Return the values of columns at ranks, and which columns have a missing value.

    NumPy looks for a rank by itself in a tenth of the time that it takes for two together.

    >>> _at_ranks(np.array([[3], [1], [2]]), np.array([2, 0])).values
    array([[3],
           [1]])
    """
    columns = np.array(lines.T, order="C")
    ordered = [*dict.fromkeys(sorted(ranks.tolist()))]
    if len(ordered) > FEW:
        columns.partition(ordered, axis=1)
    else:
        for before, rank in zip([-1, *ordered], ordered, strict=False):
            columns[:, before + 1 :].partition(rank - before - 1, axis=1)
    last = columns[:, ordered[-1] :]  # among which what is missing is
    missing = np.isnan(last).any(axis=1) if lines.dtype.kind in "fmM" else None
    return _RankValues(columns.T[ranks], missing)


def quantiles_by_group(ordered: np.ndarray, counts: np.ndarray, q: Any, method: str) -> np.ndarray:
    """Return quantiles of groups of so many values, a column for each; of no values NaN.

    The values of each group are in ascending order, one group after the other.

    >>> quantiles_by_group(np.array([5.0, 1.0, 2.0, 4.0]), np.array([1, 3]), 0.5, MEDIAN)
    array([[5., 2.]])
    """
    ends = np.cumsum(counts)
    request = _Request(q, method, False, False, lambda node, index: ordered)
    places = _places_of_each(counts, request)
    missing = _none_of(counts)
    if ordered.dtype.kind in "fmM":
        missing |= np.isnan(ordered[np.maximum(ends - 1, 0)])
    at = np.minimum(ends - counts + places.ranks, len(ordered) - 1)
    return _interpolated(_RankValues(ordered[at], missing), places, request)


def _of_objects(array: np.ndarray, axes: Axes, request: _Request) -> np.ndarray:
    """Return the quantiles of objects, which NumPy finds by their own order and arithmetic."""
    quantile: Any = partial(np.quantile, q=request.q, method=request.method)
    find = np.median if request.method == MEDIAN else quantile
    present = is_present(array)
    if not request.without_missing or present.all():
        return np.asarray(find(array, axis=axes), object)
    lines, present = _as_columns(array, axes), _as_columns(present, axes)
    out = np.full((*np.shape(request.q), lines.shape[1]), np.nan, object)
    for number in range(lines.shape[1]):
        known = lines[present[:, number], number]
        if known.size:
            out[..., number] = find(known[:, None], axis=0)[..., 0]
        else:
            warn("All-NaN slice encountered")
    return out


def _as_columns(array: np.ndarray, axes: Axes) -> np.ndarray:
    """Return an array as a table, with a column of values for each quantile."""
    kept = [axis for axis in range(array.ndim) if axis not in axes]
    moved = array.transpose([*axes, *kept])
    depth = size_of(moved.shape[: len(axes)])
    return moved.reshape(depth, size_of(moved.shape[len(axes) :]))


# --- keys ------------------------------------------------------------------------------------


def _has_keys(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "biufmM" and dtype.itemsize <= 8


def _keys(values: np.ndarray) -> np.ndarray:
    """Return unsigned integers in the order of the values, NaN and NaT last.

    >>> _keys(np.array([-1.5, -0.0, 0.0, np.inf, np.nan], "f2")).tolist()
    [16895, 32767, 32768, 64512, 65535]
    """
    kind, size = values.dtype.kind, values.dtype.itemsize
    values = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    bits: np.ndarray = values.view(f"u{size}")
    if kind in "bu":
        return bits
    sign = bits.dtype.type(1 << (8 * size - 1))
    if kind != "f":
        # NaT is the least integer, so it comes last after a subtraction of 1.
        shifted: np.ndarray = (bits ^ sign) - bits.dtype.type(kind in "mM")
        return shifted
    negative = values.view(f"i{size}") >> (8 * size - 1)
    keys: np.ndarray = bits ^ (negative.view(bits.dtype) | sign)
    keys[np.isnan(values)] = np.iinfo(bits.dtype).max
    return keys


def _values(keys: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Return the values that have these keys."""
    sign = keys.dtype.type(1 << (8 * dtype.itemsize - 1))
    if dtype.kind == "f":
        keys = np.where(keys & sign, keys ^ sign, ~keys)
    elif dtype.kind not in "bu":
        keys = (keys + keys.dtype.type(dtype.kind in "mM")) ^ sign
    return keys.view(dtype.newbyteorder("="))


# --- counting and gathering ------------------------------------------------------------------


class _RankValues(NamedTuple):
    """The values at some ranks, a row for each, and which columns have a NaN."""

    values: np.ndarray
    missing: np.ndarray | None


class _Search:
    """The search for the values at some ranks of every column.

    Of the key at each rank of each column, `known` has the first bits, all but `left`, and `rank`
    its rank among the keys that begin with them.  `starts` has the beginnings that occur in a
    column, each once, and `slot` says which of them belongs to which rank.
    """

    def __init__(self, node: Node, axes: Axes, along: int, evaluate: Evaluate) -> None:
        self.node = node
        self.axes = axes
        self.evaluate = evaluate
        self.dtype = known_dtype(node)
        self.left = 8 * self.dtype.itemsize
        shape = known_shape(node)
        row = size_of(shape) // shape[along] * self.dtype.itemsize
        step = max(1, sizes.quantile_bytes // 32 // row)
        self.blocks = row_cuts(node, step) if not along else cuts_along(along, shape[along], step)
        columns = size_of(tuple(n for axis, n in enumerate(shape) if axis not in axes))
        self.column = np.arange(columns)
        self.missing = np.zeros(columns, bool)
        self.lock = new_lock()

    def counts(self) -> np.ndarray:
        """Return how many values each column has that are not NaN."""
        last = np.iinfo(f"u{self.dtype.itemsize}").max
        found = self._blocks(lambda keys: (keys != last).sum(axis=0))
        return np.asarray(np.sum(found, axis=0, dtype=np.intp))

    def found(self, ranks: np.ndarray) -> _RankValues:
        """Return the values at the ranks, after as many passes over the data as are needed."""
        self.rank = np.broadcast_to(ranks, (len(ranks), len(self.column))).copy()
        self.known = np.zeros(self.rank.shape, f"u{self.dtype.itemsize}")
        self._find_slots()
        alive = sizes.quantile_bytes
        while self.left and alive > sizes.quantile_bytes // 64:
            alive = self._narrow()
        keys = self._collected_keys() if self.left else self.known
        return _RankValues(_values(keys, self.dtype), self.missing)

    def _find_slots(self) -> None:
        """List the beginnings that occur in each column, each once; they ascend with the ranks."""
        self.first = np.ones(self.known.shape, bool)
        self.first[1:] = self.known[1:] != self.known[:-1]
        self.slot = np.cumsum(self.first, axis=0) - 1
        slots = int(self.slot.max()) + 1
        self.starts = np.zeros((slots, len(self.column)), self.known.dtype)
        self.starts[self.slot, self.column] = self.known
        self.used = np.arange(slots)[:, None] <= self.slot[-1]

    def _blocks(self, work: Callable[[np.ndarray], Any]) -> list[Any]:
        """Return `work(keys)` for each block of the data."""
        shape = known_shape(self.node)

        def done(cut: Cut) -> Any:
            block = self.evaluate(self.node, cut.within(shape))
            return work(_keys(_as_columns(block, self.axes)))

        return run_blocks(done, self.blocks, what="quantiles")

    def _begins_as(self, keys: np.ndarray, slot: int) -> np.ndarray:
        """Return which keys begin with the bits of one slot."""
        found: np.ndarray = (keys >> self.left == self.starts[slot]) & self.used[slot]
        return found

    def _narrow(self) -> int:
        """Find the next bits by counting; return how many keys begin with all known bits."""
        room = (sizes.quantile_bytes // 32 // self.starts.size).bit_length() - 1
        bits = min(self.left, max(DIGITS[0], min(DIGITS[1], room)))
        counts = np.zeros(self.starts.size << bits, np.int64)
        self._blocks(lambda keys: self._count(keys, bits, counts))
        table = counts.reshape(*self.starts.shape, -1)
        digits, alive = np.zeros(self.rank.shape, np.intp), np.zeros(self.rank.shape, np.int64)
        for number, rank in enumerate(self.rank):
            own = table[self.slot[number], self.column]
            upto = np.cumsum(own, axis=1)
            digits[number] = (upto <= rank[:, None]).sum(axis=1)
            alive[number] = own[self.column, digits[number]]
            rank -= upto[self.column, digits[number]] - alive[number]
        self.known = (self.known << bits) | digits.astype(self.known.dtype)
        self.left -= bits
        self._find_slots()
        return int(alive[self.first].sum())

    def _count(self, keys: np.ndarray, bits: int, counts: np.ndarray) -> None:
        last = np.iinfo(keys.dtype).max
        first_pass = self.left == 8 * keys.itemsize
        missing = (keys == last).any(axis=0) if first_pass and self.dtype.kind in "fmM" else False
        digits = (keys >> (self.left - bits)).astype(np.intp) & ((1 << bits) - 1)
        digits += self.column << bits
        for slot in range(len(self.starts)):
            places = digits.reshape(-1) if first_pass else digits[self._begins_as(keys, slot)]
            with self.lock:
                np.add.at(counts[slot * len(self.column) << bits :], places, 1)
        with self.lock:
            self.missing |= missing

    def _collected_keys(self) -> np.ndarray:
        """Return the keys at the ranks, from all keys that begin with the known bits."""
        slots = range(len(self.starts))

        def kept(keys: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
            alive = [self._begins_as(keys, slot) for slot in slots]
            return [
                (keys[where], where.nonzero()[1] + slot * len(self.column))
                for slot, where in enumerate(alive)
            ]

        parts = [part for block in self._blocks(kept) for part in block]
        keys, owners = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort([keys, owners])
        own = self.slot * len(self.column) + self.column
        found: np.ndarray = keys[order][np.searchsorted(owners[order], own) + self.rank]
        return found
