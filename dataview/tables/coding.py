"""The number of each value among labels: by a table, by hashing, or by search in sorted labels."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dataview.plan.gaps import NO_LABEL
from dataview.plan.node import DType, Node
from dataview.plan.operations import is_present, may_be_missing

NARROW = 1 << 16
"""Integers within a range of this length are looked up in a table."""

SPREAD = 16
"""Integers further apart are, too, if the table has up to so many places for each label."""

_NOTHING = {"f": np.nan, "c": np.nan, "m": "NaT", "M": "NaT"}
"""What says in data of a kind that there is no value; in others None does, among objects."""

_FAMILIES = {
    **dict.fromkeys("biufc", "numbers"), **dict.fromkeys("UT", "text"), "S": "bytes",
    "M": "dates", "m": "durations",
}  # fmt: skip


def nothing_of(dtype: DType) -> tuple[Any, DType]:
    """Return what stands for no value beside values of a dtype, and the dtype of both.

    >>> nothing_of(np.dtype("M8[D]"))[0], nothing_of(np.dtype("U3"))
    ('NaT', (None, dtype('O')))
    """
    nothing = _NOTHING.get(dtype.kind)
    return nothing, np.dtype(object) if nothing is None else dtype


def family_of(dtype: DType) -> str | None:
    """Return what values of a dtype are; None if they may be anything."""
    return _FAMILIES.get(dtype.kind)


def classes(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values, ascending, and the number of each value among them.

    What is missing is one thing, and the last: of objects None, if any of them is None.

    >>> classes(np.array(["b", None, "a", None], object))
    (array(['a', 'b', None], dtype=object), array([1, 2, 0, 2]))
    """
    if values.dtype.hasobject and not (present := is_present(values)).all():
        found, places = classes(values[present])
        codes = np.full(len(values), len(found))
        codes[present] = places
        gaps = values[~present]
        is_none = np.array([value is None for value in gaps.tolist()], bool)
        return np.concatenate([found, gaps[[np.argmax(is_none)]]]), codes
    if values.dtype.kind == "T":  # for whose first places NumPy sorts stably; quicksort may crash
        found, _, places = np.unique(values, return_index=True, return_inverse=True)
        return found, places
    try:
        return np.unique(values, return_inverse=True)
    except TypeError:
        if values.dtype != object:
            raise
        raise _no_order(values) from None


class NoOrder(TypeError):
    """Of objects that cannot be compared, as a text and a number cannot."""


def _no_order(*arrays: np.ndarray) -> NoOrder:
    kinds = {type(value): value for array in arrays for value in array.reshape(-1)[::-1].tolist()}
    listed = " and ".join(f"{kind.__name__} ({value!r})" for kind, value in kinds.items())
    return NoOrder(f"{listed} have no order together; d.x._astype('T') makes texts of all")


@contextlib.contextmanager
def in_order(where: str) -> Iterator[None]:
    """Say where objects without an order were found, if some are."""
    try:
        yield
    except NoOrder as error:
        raise TypeError(f"{where}: {error}") from None


def name_of(node: Node) -> str:
    """Return the name under which data were reached, for errors."""
    return "the view" if node.label is None else f"field {node.label.names[-1]!r}"


def told(value: Any) -> str:
    """Return a label as errors show it: texts and numbers as Python does.

    >>> told(np.str_("a")), told(np.int64(3)), told(np.datetime64("2020-01-01"))
    ("'a'", '3', "np.datetime64('2020-01-01')")
    """
    is_plain = isinstance(value, np.generic) and value.dtype.kind not in "mM"
    return repr(value.item() if is_plain else value)


def as_list(values: np.ndarray) -> list[Any]:
    """Return values as Python has them, dates and durations as NumPy has.

    >>> as_list(np.array([2, 1])), as_list(np.array(["2020"], "M8[Y]"))
    ([2, 1], [np.datetime64('2020')])
    """
    return [*values] if values.dtype.kind in "mM" else values.tolist()


def labelled(
    values: np.ndarray, there: np.ndarray | None = None, are_codes: bool = False
) -> np.ndarray:
    """Return which rows have a label, by their values and by a mask, if there is one.

    >>> labelled(np.array([2.5, np.nan, 0.5]), np.array([True, True, False]))
    array([ True, False, False])
    """
    found: np.ndarray = values != NO_LABEL if are_codes else is_present(values)
    return found if there is None else found & there


def without_gaps(codes: np.ndarray, there: np.ndarray | None) -> np.ndarray:
    """Return codes, but that of what is missing where a mask says so."""
    return codes if there is None else np.where(there, codes, NO_LABEL)


def check_known(
    codes: np.ndarray, known: np.ndarray, values: np.ndarray, rows: Any, when: str
) -> None:
    """Raise if a row with a label has no code: it was written after the labels were found."""
    unknown = known & (codes == NO_LABEL)
    if unknown.any():
        place = tuple(np.argwhere(unknown)[0].tolist())
        raise ValueError(
            f"row {rows[place[0]]} holds {told(values[place])}, which was not among the labels "
            f"when {when}"
        )


def by_code(codes: np.ndarray, count: int) -> np.ndarray:
    """Return the rows in the order of their codes, of which there are so many; -1 is the first.

    >>> by_code(np.array([1, 0, -1, 1]), 2)
    array([2, 1, 0, 3])
    """
    narrow = codes.astype(np.int16, copy=False) if count < 1 << 15 else codes  # in few passes
    return np.argsort(narrow, kind="stable")


Code = Callable[[np.ndarray], np.ndarray]
"""A function that returns the codes of values."""


def above(values: np.ndarray, low: int) -> np.ndarray:
    """Return how far integers are above the least of them, if they are near to it."""
    if not low:
        return np.asarray(values, np.intp)
    if values.dtype.kind == "u":
        return np.asarray(values - values.dtype.type(low), np.intp)
    return np.asarray(np.subtract(values, low, dtype=np.int64), np.intp)


def lie_within(values: np.ndarray, low: int, high: int) -> bool:
    """Whether all of some integers lie between two others, these included.

    >>> lie_within(np.array([3, 0]), 0, 3), lie_within(np.array([3, -1]), 0, 3)
    (True, False)
    """
    if not low:  # read without a sign, what is below 0 is larger than any other
        return int(values.view(values.dtype.str.replace("i", "u")).max()) <= high
    return low <= int(values.min()) and int(values.max()) <= high


_AS_INTEGERS = {"b": "u1", "m": "i8", "M": "i8"}


def as_integers(values: np.ndarray) -> np.ndarray:
    """Return truth values and times as integers in the same order, other values as they are.

    What is missing among times is the least integer.
    """
    dtype = values.dtype
    own = _AS_INTEGERS.get(dtype.kind)
    return values if own is None else values.view(np.dtype(own).newbyteorder(dtype.byteorder))


def coder(labels: np.ndarray) -> Code:
    """Return the function that gives each value its number among labels.

    >>> coder(np.array(["b", "a"]))(np.array(["b", "c", "a"])).tolist()
    [0, -1, 1]
    """
    rows = np.flatnonzero(is_present(labels))  # nothing has the number of what is missing
    if not len(rows):
        return lambda values: np.full(values.shape, NO_LABEL)
    if labels.dtype.hasobject and (table := _table_of(labels, rows)) is not None:
        return functools.partial(_by_hash, table, labels)
    return _by_search(labels, rows)


def _by_search(labels: np.ndarray, rows: np.ndarray) -> Code:
    """Return the function that searches values among labels in order, or looks integers up."""
    order = rows[np.argsort(labels[rows], kind="stable")]
    searched = functools.partial(_searched, labels[order], order)
    quick = _quick(labels, order)
    if quick is None:
        return searched
    dtype = labels.dtype

    def code(values: np.ndarray) -> np.ndarray:
        found = quick(values) if values.dtype == dtype else None
        return searched(values) if found is None else found

    return code


def _quick(labels: np.ndarray, order: np.ndarray) -> Callable[[np.ndarray], Any] | None:
    """Return a function faster than a search that gives codes or None; `order` sorts the labels."""
    numbers = as_integers(labels)
    if numbers.dtype.kind in "iu":
        low, high = int(numbers[order[0]]), int(numbers[order[-1]])
        if high - low < NARROW + SPREAD * len(labels):
            table = None
            if high - low + 1 > len(order) or (order != np.arange(len(order))).any():
                table = np.full(high - low + 1, NO_LABEL)
                table[above(numbers[order], low)] = order
            return lambda values: _looked_up(table, low, high, as_integers(values))
    words = words_of(labels[order])
    if words is None:
        return None
    slots = _slots(words)
    is_sorted = bool((order == np.arange(len(order))).all())
    ranks = None if is_sorted else np.append(order, NO_LABEL)
    return functools.partial(_hashed, words, slots, ranks)


def _table_of(labels: np.ndarray, rows: np.ndarray) -> dict[Any, int] | None:
    """Return the codes of objects by the objects, None if some have no hash."""
    try:
        return dict(zip(labels[rows].tolist(), rows.tolist(), strict=True))
    except TypeError:  # a list has an order, and no hash
        return None


def _by_hash(table: Mapping[Any, int], labels: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the codes of objects, or of other values that are objects in a list."""
    if values.dtype.kind in "mM":  # whose lists may have integers, which are equal to others
        return _searched_in(labels, values)
    flat = values.reshape(-1).tolist()
    try:
        codes = np.fromiter(map(table.get, flat, itertools.repeat(NO_LABEL)), np.intp, len(flat))
    except TypeError:  # a list among the values has no hash
        return _searched_in(labels, values)
    return codes.reshape(values.shape)


def _searched_in(labels: np.ndarray, values: np.ndarray) -> np.ndarray:
    return _by_search(labels, np.flatnonzero(is_present(labels)))(values)


PIECE = 1 << 14
"""So many values are looked up at a time: what is made of them stays in a near cache."""


def _looked_up(table: np.ndarray | None, low: int, high: int, values: np.ndarray) -> np.ndarray:
    """Return the codes of integers, by a table of all integers near the labels, if it needs one."""
    if table is None and values.size:
        far = above(values, low)  # what is below the least of them wraps around to a large number
        if int(far.view(np.uintp).max()) <= high - low:
            return far
    if not values.size or low > int(values.min()) or int(values.max()) > high:
        within = (values >= low) & (values <= high)
        found = np.full(values.shape, NO_LABEL)
        if within.any():
            found[within] = _looked_up(table, low, high, values[within])
        return found
    assert table is not None
    found, flat = np.empty(values.shape, np.intp), values.reshape(-1)
    line = found.reshape(-1)
    for start in range(0, len(flat), PIECE):
        piece = slice(start, start + PIECE)
        np.take(table, above(flat[piece], low), out=line[piece], mode="clip")
    return found


def _searched(labels: np.ndarray, order: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the codes of values of any dtype that has an order; `order` sorted the labels."""
    if not may_be_missing(values.dtype):
        return _found(labels, order, values)
    present = is_present(values)
    found = np.full(values.shape, NO_LABEL)
    found[present] = _found(labels, order, values[present])
    return found


def _found(labels: np.ndarray, order: np.ndarray, values: np.ndarray) -> np.ndarray:
    if labels.dtype.kind == "T" and values.dtype.kind == "U":  # which NumPy does not compare
        values = values.astype(labels.dtype)
    elif labels.dtype.kind == "U" and values.dtype.kind == "T":
        labels = labels.astype(values.dtype)
    elif labels.dtype.kind in "iu" and values.dtype.kind in "iu" and labels.dtype != values.dtype:
        same = values.astype(labels.dtype)  # together NumPy would make floats of them
        return np.where(same == values, _found(labels, order, same), NO_LABEL)
    try:
        places = np.searchsorted(labels, values)
    except TypeError:
        if object not in (labels.dtype, values.dtype):
            raise
        raise _no_order(labels, values) from None
    places[places == len(labels)] = 0
    return np.asarray(np.where(labels[places] == values, order[places], NO_LABEL))


# --- hashing -----------------------------------------------------------------------------------

EMPTIER = 4
"""How many slots there are for each label, at least: most labels are in their first one."""


Words = Sequence[np.ndarray]
"""Columns of integers: two values are equal where all of theirs are."""


def words_of(values: np.ndarray) -> Words | None:
    """Return integers that are the same where values are equal, None if there are none.

    Texts have them if they have up to 64 letters of Latin-1; NaN is not equal to itself.
    """
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind in "biumM":
        return [as_integers(values).astype(np.uint64)]
    if kind == "f" and size <= 8:
        return [(values + 0.0).astype(np.float64).view(np.uint64)]  # of zero there are two
    width = size // 4 if kind == "U" else size
    if kind not in "US" or not 0 < width <= LETTERS * MOST:
        return None
    letters = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    if kind == "U":
        points = letters.view(np.uint32)
        if points.max(initial=0) > 0xFF:
            return None
        letters = points.astype(np.uint8).view(f"S{width}")
    count = -(-width // LETTERS)
    words = letters.astype(f"S{LETTERS * count}", copy=False).view(np.uint64)
    return [words] if count == 1 else [*np.ascontiguousarray(words.reshape(-1, count).T)]


LETTERS = 8
"""So many letters of a text are one word."""

MOST = 8
"""Texts of more words are searched."""


def _slots(labels: Words) -> np.ndarray:
    """Return a table of codes in which the words of each label are at their slot, or soon after."""
    count = len(labels[0])
    slots = np.full(1 << (EMPTIER * count).bit_length(), NO_LABEL)
    places, waiting = _slot_of(labels, len(slots)), np.arange(count)
    while len(waiting):
        free = slots[places[waiting]] == NO_LABEL
        slots[places[waiting[free]]] = waiting[free]  # of several labels one stays there
        waiting = waiting[slots[places[waiting]] != waiting]
        places[waiting] = (places[waiting] + 1) % len(slots)
    return slots


def _slot_of(words: Words, count: int) -> np.ndarray:
    """Return the slots of words: the first bits of their products with a large odd number."""
    spread = words[0] * _ODD
    for further in words[1:]:
        spread ^= spread >> _HALF
        spread += further
        spread *= _ODD
    spread >>= np.uint64(65 - count.bit_length())
    places: np.ndarray = spread.view(np.intp)
    return places


_ODD, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


def _hashed(
    labels: Words, slots: np.ndarray, ranks: np.ndarray | None, values: np.ndarray
) -> np.ndarray | None:
    """Return the codes of values by the words of labels, None if they have no words."""
    found, flat = np.empty(values.size, np.intp), values.reshape(-1)
    for start in range(0, len(flat), PIECE):
        words = words_of(flat[start : start + PIECE])
        if words is None:
            return None
        found[start : start + PIECE] = _codes_of_words(labels, slots, words)
    return (found if ranks is None else ranks[found]).reshape(values.shape)


def _codes_of_words(labels: Words, slots: np.ndarray, words: Words) -> np.ndarray:
    places = _slot_of(words, len(slots))
    found: np.ndarray = slots[places]
    hit = _are_same(labels, found, words, slice(None))  # no label has words whose slot is empty
    if hit.all():
        return found
    rows = np.flatnonzero(~hit & (found != NO_LABEL))
    found[~hit] = NO_LABEL
    while len(rows):  # another label is at the slot
        places[rows] = (places[rows] + 1) % len(slots)
        codes = slots[places[rows]]
        hit = (codes != NO_LABEL) & _are_same(labels, codes, words, rows)
        found[rows[hit]] = codes[hit]
        rows = rows[~hit & (codes != NO_LABEL)]
    return found


def _are_same(labels: Words, codes: np.ndarray, words: Words, rows: Any) -> np.ndarray:
    """Return where the labels of codes have the words of these rows."""
    pairs = zip(labels, words, strict=True)
    return functools.reduce(np.logical_and, (one[codes] == other[rows] for one, other in pairs))
