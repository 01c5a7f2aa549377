"""Rows chosen, ordered, shuffled and repeated: each by one map from positions to row numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from dataview.compute import evaluate, evaluate_all
from dataview.errors import StreamError
from dataview.index import (
    ENDLESS,
    LINE,
    Affine,
    Array,
    Computed,
    Map,
    Permutation,
    axis_index,
    is_endless,
    numbers_map,
    rows_in_order,
)
from dataview.plan.build import field, record, select
from dataview.plan.gaps import NO_LABEL, holds_codes, present_in
from dataview.plan.guards import endless, why_no_rows
from dataview.plan.kinds import Sampled, known_shape
from dataview.plan.node import DType, Node, Shape
from dataview.plan.operations import is_present
from dataview.plan.photographs import Late, Photograph, RowNumbers
from dataview.plan.ragged import Ragged
from dataview.samplers.protocol import Order
from dataview.samples import Stream, repeated_stream, shuffled_stream, with_lengths
from dataview.tables import first_of_each, in_order, name_of, numbers_of_rows, ranked, rows_where


class Cycle:
    """Row numbers that start again after `count` rows."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return each row's number within its round."""
        return rows % self.count


def rows_by(node: Node, rows: Map, count: int) -> Node:
    """Return `count` whole rows: `rows` maps a position among them to a row of the node."""
    return select(node, axis_index(shape_by_rows(node), rows, count), "rows")


def shape_by_rows(node: Node) -> tuple[int, ...]:
    """Return the shape as far as a choice of rows needs it, or raise where there is none."""
    if isinstance(node, Sampled) and node.count is not None:
        return (node.count,)
    if isinstance(node, Sampled):
        raise StreamError(
            "rows are chosen and ordered by number, which a stream does not allow; "
            "view[:n]._freeze() keeps so many of its samples"
        )
    return known_shape(node)


def count_rows(node: Node, what: str) -> int:
    """Return the number of rows, which may be endless, or raise if there are none."""
    shape = shape_by_rows(node)
    if not shape:
        why = why_no_rows(node) or "the view has no rows, its shape is ()"
        raise TypeError(f"{what}: {why}")
    return shape[0]


def length_for(node: Node, what: str) -> int:
    """Return the number of rows, or raise if there are none or no end of them."""
    count = count_rows(node, what)
    if is_endless(count):
        raise endless(what)
    return count


def ordered(node: Node, rows: np.ndarray) -> Node:
    """Return these rows, in this order."""
    return rows_by(node, Array(rows, (0,)), len(rows))


def row_range(node: Node, start: int, stop: int) -> Node:
    """Return the rows from `start` to `stop`."""
    return rows_by(node, Affine(start, ((0, 1),)), stop - start)


def shuffled(node: Node, seed: int | Sequence[int], pool: int | None = None) -> Node:
    """Return all rows in an order computed from the seed, block by block when it is needed."""
    key = tuple(seed) if isinstance(seed, (tuple, list)) else (seed,)
    if isinstance(node, Stream):
        return shuffled_stream(node, pool, key)
    if pool is not None:
        raise ValueError("pool= is for streams; these rows are shuffled as a whole")
    count = length_for(node, "_shuffled")
    if count < 2:
        return node
    order = Order(Permutation(count, *key), count)  # remembers a run, for all fields
    return rows_by(node, Computed(order, LINE), count)


def repeated(node: Node, times: float = math.inf) -> Node:
    """Return the rows `times` times over, or without end."""
    is_number = isinstance(times, (int, float, np.integer, np.floating))
    is_whole = is_number and not isinstance(times, bool) and times >= 0 and times % 1 == 0
    if times != math.inf and not is_whole:
        raise ValueError(f"rows are repeated a whole number of times, or math.inf; got {times!r}")
    if isinstance(node, Stream):
        return repeated_stream(node, times)
    count = length_for(node, "_repeat")
    if times == math.inf and not count:
        raise ValueError("no rows cannot be repeated without end")
    total = ENDLESS if times == math.inf else count * int(times)
    return rows_by(node, Computed(Cycle(max(count, 1)), LINE), total)


class _Ascending(RowNumbers):
    """The row numbers in ascending order of some data, or in descending order where `reversed`.

    With `most` they are so many of the first ones.
    """

    __slots__ = ("most", "reversed")
    about = "the order of _sorted"

    def __init__(self, node: Node, are_reversed: Sequence[bool], most: int | None = None) -> None:
        super().__init__(node)
        self.reversed, self.most = are_reversed, most

    def find(self, node: Node) -> np.ndarray:
        """Sort the rows; those that are equal keep their order, and what is missing is last."""
        try:
            return self._order(node)
        except TypeError:
            for part in node.attached():  # which has no order is looked for only now
                with in_order(f"_sorted by {name_of(part)}"):
                    ranked(evaluate(part))
            raise

    def _order(self, node: Node) -> np.ndarray:
        is_reversed = self.reversed[0]
        parts = [field(node, name) for name in node.fields]
        columns = zip(parts, _read_with_masks(parts), self.reversed, strict=True)
        keys = [
            key
            for part, found, own in columns
            for key in _sort_keys(part, *found, is_reversed, own != is_reversed)
        ]
        if self.most is None:
            return _order_by(keys, is_reversed)
        some = _with_the_first(keys, is_reversed, self.most)
        found: np.ndarray = some[_order_by([key[some] for key in keys], is_reversed)]
        return found[: self.most]


def _order_by(keys: list[np.ndarray], is_reversed: bool) -> np.ndarray:
    """Return the rows in the order of keys, the first one first; equal rows keep their order."""
    if is_reversed:
        keys = [key[::-1] for key in keys]
    rows = rows_in_order(*keys)
    return len(rows) - 1 - rows[::-1] if is_reversed else rows


def _with_the_first(keys: list[np.ndarray], is_reversed: bool, most: int) -> np.ndarray:
    """Return rows among which the first ones in the order of keys are: to sort all takes longer.

    >>> _with_the_first([np.array([3, 1, 2, 1, 5])], False, 2)
    array([1, 3])
    """
    rows = np.arange(len(keys[0]))
    for key in keys:
        if not 0 < most < len(rows) or key.dtype.kind not in "biufmM":
            break
        own = key[rows]
        place = len(own) - most if is_reversed else most - 1
        last = np.partition(own, place)[place]
        chosen = own >= last if is_reversed else own <= last
        rows = rows[chosen]
        if (own[chosen] != last).any():  # another key orders only those that are equal
            break
    return rows


def _sort_keys(
    node: Node,
    values: np.ndarray,
    present: np.ndarray | None,
    is_reversed: bool,
    is_opposite: bool,
) -> list[np.ndarray]:
    """Return what rows are ordered by: whether a value is missing, and the value.

    All keys together are ascending or reversed; one with the `opposite` order is negated.
    """
    known = _known(node, values, present)
    if known.all() and not is_opposite:
        return [_ranks(values)]
    if values.dtype.kind in "biuf" and not is_opposite:
        return [known if is_reversed else ~known, np.where(known, _ranks(values), 0)]
    ranks = np.zeros(len(values), np.intp)
    ranks[known] = ranked(values[known])[1]
    return [known if is_reversed else ~known, -ranks if is_opposite else ranks]


def sorted_by(
    node: Node, keys: Sequence[Node], reverse: bool | Sequence[bool], most: int | None = None
) -> Node:
    """Return the rows in the order of one value each, and of more values where these are equal.

    With `most` they are the first so many rows of that order.
    """
    count = length_for(node, "_sorted")
    for key in keys:
        check_one_each(key.shape, key.dtype, count)
    truths = [*reverse] if isinstance(reverse, (list, tuple)) else [cast(bool, reverse)] * len(keys)
    if len(truths) != len(keys) or not all(isinstance(truth, (bool, np.bool)) for truth in truths):
        several = "; several fields are a list: by=['x', 'y']" if isinstance(reverse, str) else ""
        raise ValueError(
            "reverse= is True, False or a list of these with one for each key, here "
            f"{len(keys)}; got {reverse!r}{several}"
        )
    order = _Ascending(record({str(n): key for n, key in enumerate(keys)}, 0), truths, most)
    return rows_by(node, Computed(order, LINE), count if most is None else min(most, count))


def _known(node: Node, values: np.ndarray, present: np.ndarray | None) -> np.ndarray:
    """Return where there are values, by themselves, by a mask, and by the code of what is not."""
    known = is_present(values) if present is None else is_present(values) & present
    is_code = values.dtype.kind == "i" and holds_codes(node)
    return known & (values != NO_LABEL) if is_code else known


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return values that NumPy orders; objects with missing ones as numbers, those last.

    By several keys NumPy takes texts of another byte order wrongly, and those of any length end
    the process.
    """
    if not values.dtype.hasobject:
        return values.astype(values.dtype.newbyteorder("="), copy=False)
    is_plain = values.dtype.kind == "O" and is_present(values).all()
    return values if is_plain else ranked(values)[1]


class _Chosen(Photograph):
    """The numbers of the rows that are chosen, in their order."""

    __slots__ = ()
    about = "rows that are chosen"


def _chosen(node: Node, rows: _Chosen) -> Late:
    """Return rows of a node: how many there are is known when a photograph is taken."""
    return Late(ordered(node, np.empty(0, np.intp)), _with_rows, (node, rows))


def _with_rows(node: Node, rows: _Chosen) -> Node:
    found = rows.array()
    return rows_by(node, numbers_map(found), len(found))


class _Where(_Chosen):
    """The numbers of the rows where a condition is true."""

    __slots__ = ()

    def find(self, node: Node) -> np.ndarray:
        """Read what the condition is of; of files only what may fulfil it."""
        return rows_where(node)


def where(node: Node, condition: Node) -> Late:
    """Return the rows where a condition is true."""
    return _chosen(node, _Where(condition))


class _FirstOfEach(_Chosen):
    """The numbers of the first rows of each combination of values in the fields of a record."""

    __slots__ = ()

    def find(self, node: Node) -> np.ndarray:
        """Read all fields."""
        return first_of_each(_columns(node))


def without_duplicates(node: Node, keys: Sequence[Node]) -> Late:
    """Return the first row of each combination of keys."""
    count = length_for(node, "_drop_duplicates")
    for key in keys:
        if key.count != count:
            raise ValueError(
                "_drop_duplicates takes by= the name of a field, or data with a value for each of "
                f"the {count} rows; got the shape {key.shape}"
            )
    return _chosen(node, _FirstOfEach(record({str(n): key for n, key in enumerate(keys)}, 1)))


def _columns(node: Node) -> list[np.ndarray]:
    """Return the data of fields and their masks; of ragged rows numbers, the same for equal ones.

    All are read in one request, so that functions make each row once.
    """
    rows = with_lengths(node)
    parts = [field(rows, name) for name in rows.fields]
    found = iter(_read_with_masks([part for part in parts if not isinstance(part, Ragged)]))
    columns: list[np.ndarray] = []
    for part in parts:
        if isinstance(part, Ragged):
            columns.append(numbers_of_rows(part))
            continue
        values, there = next(found)
        if there is not None:
            values = np.array(values)
            values[~there] = np.zeros((), values.dtype)  # whatever numbers were computed there
        columns += [values] if there is None else [values, there]
    return columns


def _read_with_masks(parts: Sequence[Node]) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """Return the data of several nodes, and where there are any if that is told, in one request."""
    masks = [present_in(part) for part in parts]
    asked = [*parts, *(mask for mask in masks if mask is not None)]
    found = iter(evaluate_all(asked))
    values = [np.asarray(next(found)) for _ in parts]
    there = [None if mask is None else np.asarray(next(found)) for mask in masks]
    return list(zip(values, there, strict=True))


def as_numbers(values: np.ndarray) -> np.ndarray:
    """Return row numbers, or raise if the values are something else."""
    if values.size and values.dtype.kind not in "iu":
        more = "; d[mask] and d._filter(mask) take a mask" * (values.dtype.kind == "b")
        raise TypeError(f"rows are taken by number; got {values.dtype} {values.shape}{more}")
    return values.astype(np.intp)


def as_mask(values: np.ndarray) -> np.ndarray:
    """Return a mask of the rows, or raise if the values are something else."""
    if values.dtype != np.bool_ or values.ndim != 1:
        got = f"{values.dtype} {values.shape}"
        raise TypeError(
            f"a filter is a mask with one value for each row, such as d.x > 3, or a function; got "
            f"{got}"
        )
    return values


def check_one_each(shape: Shape | None, dtype: DType | None, count: int) -> None:
    """Raise unless there is one value for each row."""
    if shape is None or len(shape) != 1 or (dtype is not None and dtype.names):
        got = f"shape {shape}" if shape is not None else "rows of different or unknown lengths"
        got = "a record" if dtype is not None and dtype.names else got
        raise ValueError(
            "rows are ordered by one value each; name a field with by=, or give an array of "
            f"{count} values; got {got}"
        )
    if shape[0] != count:
        raise ValueError(f"there are {count} rows, and {shape[0]} values to order them by")
