"""NumPy's keys, read as indices: every key that an array of this shape accepts, and no other.

The exception classes are NumPy's, and they rise here, before any data is read.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, TypeAlias

import numpy as np

from dataview.errors import StreamError
from dataview.index.algebra import (
    ENDLESS,
    Affine,
    Array,
    Constant,
    Index,
    Map,
    is_endless,
    whole_axes,
)
from dataview.index.rows import map_of, numbers_at

Item: TypeAlias = Any
"""A plain key item: int, range (a slice of its axis), None, Ellipsis or an integer array."""

_NOT_A_KEY = (
    "a key is made of integers, slices, ellipsis (...), newaxis (None), integer or boolean arrays, "
    "and names of fields behind them, as in d[0, 'x']; got {key!r}"
)

TOO_MANY = "too many indices"
"""How the error for a key of more axes than there are begins, as NumPy's does."""


def is_integer(item: Any) -> bool:
    """Whether NumPy takes the item for one position (a bool is a mask, not a position)."""
    if isinstance(item, (int, np.integer)):
        return not isinstance(item, (bool, np.bool_))
    if isinstance(item, np.ndarray):
        return item.ndim == 0 and item.dtype.kind in "iu"
    if isinstance(item, np.bool_) or not hasattr(type(item), "__index__"):
        return False
    try:  # a tensor has the method, and it fails unless there is one element
        operator.index(item)
    except TypeError:
        return False
    return True


def parse(key: Any, shape: tuple[int, ...]) -> Index:
    """Return the index that a key selects from an array of this shape.

    >>> parse((slice(None, None, -1), 2), (5, 4))
    Index((5,), (Affine(offset=4, strides=((0, -1),)), Constant(offset=2)))
    >>> parse(7, (5, 4))
    Traceback (most recent call last):
    IndexError: index 7 is out of bounds for axis 0 with size 5
    """
    found = plain_index(key, shape)
    if found is not None:
        return found
    items = _with_ellipsis(_classified(key if isinstance(key, tuple) else (key,)), len(shape), key)
    items = _placed(items, shape)
    if any(isinstance(item, _Fancy) for item, _ in items):
        return _advanced(items, shape)
    return _basic(items)


def plain_index(key: Any, shape: tuple[int, ...]) -> Index | None:
    """Return the index of a key of integers and slices, and at most one of positions or a mask.

    Most keys are of this kind: they are read at once.  For all others the answer is None, and so it
    is for what NumPy would refuse.
    """
    items = key if type(key) is tuple else (key,)
    if items and items[-1] is Ellipsis:
        items = items[:-1]  # what follows is whole in any case
    if not items or len(items) > len(shape):
        return None
    lengths: list[int] = []
    maps: list[Map] = []
    several: int | None = None
    for axis, item in enumerate(items):  # a zip would take longer, and every part comes here
        kind, length = type(item), shape[axis]
        if kind is int and -length <= item < length < ENDLESS:
            maps.append(Constant(item + length if item < 0 else item))
        elif kind is slice and length < ENDLESS:
            chosen = range(length)[item]
            maps.append(Affine(chosen.start, ((len(lengths), chosen.step),)))
            lengths.append(len(chosen))
        else:
            numbers = numbers_at(item, length) if length < ENDLESS and several is None else None
            if numbers is None:
                return None
            several = len(maps)
            maps.append(map_of(numbers, len(lengths)))
            lengths.append(len(numbers))
    if several and _goes_to_the_front(items, several):
        return None
    if len(items) < len(shape):
        maps.extend(whole_axes(len(lengths), len(lengths) + len(shape) - len(items)))
        lengths.extend(shape[len(items) :])
    return Index(lengths, maps)


def _goes_to_the_front(items: tuple[Any, ...], place: int) -> bool:
    """Whether NumPy has the axis of an array as the first one: an integer stands apart from it."""
    numbers = [at for at, item in enumerate(items) if at == place or type(item) is int]
    return numbers[-1] - numbers[0] >= len(numbers)


class _Fancy:
    """An integer array or a boolean mask of a key, and how many axes it takes."""

    __slots__ = ("axes", "mask", "values")

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.mask = values.dtype == np.bool_
        self.axes = values.ndim if self.mask else 1


def _classified(items: tuple[Any, ...]) -> list[Item]:
    found: list[Item] = []
    for item in items:
        if item is None or item is Ellipsis or isinstance(item, slice):
            found.append(item)
        elif is_integer(item):
            found.append(operator.index(item))
        else:
            found.append(_array_item(item))
    return found


def _array_item(item: Any) -> _Fancy:
    if isinstance(item, (str, bytes)):
        raise IndexError(_NOT_A_KEY.format(key=item))
    values = np.asarray(item)
    if values.size == 0 and not isinstance(item, np.ndarray):
        values = values.astype(np.intp)
    if values.dtype != np.bool_ and (values.dtype.kind not in "iu" or values.ndim == 0):
        raise IndexError(_NOT_A_KEY.format(key=item))
    return _Fancy(values)


def _with_ellipsis(items: list[Item], ndim: int, key: Any) -> list[Item]:
    """Return the items with exactly one ellipsis, spelt out as whole slices between markers."""
    dots = [place for place, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError(f"a key can have one ellipsis ('...') only; got {key!r}")
    taken = sum(_axes_taken(item) for item in items)
    if taken > ndim:
        raise IndexError(
            f"{TOO_MANY}: the view has {_axes(ndim)}, but {taken} were indexed by {key_text(key)}"
        )
    place = dots[0] if dots else len(items)
    whole: list[Item] = [slice(None)] * (ndim - taken)
    marker: list[Item] = [Ellipsis] if dots else []
    return items[:place] + marker + whole + items[place + len(dots) :]


def _axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count} axes"


def _axes_taken(item: Item) -> int:
    if item is None or item is Ellipsis:
        return 0
    return item.axes if isinstance(item, _Fancy) else 1


def _placed(items: list[Item], shape: tuple[int, ...]) -> list[tuple[Item, int]]:
    """Pair every item with its first source axis, checking what can be checked alone."""
    placed: list[tuple[Item, int]] = []
    axis = 0
    for item in items:  # NumPy looks at masks before it looks at anything else
        if isinstance(item, _Fancy) and item.mask:
            _check_mask(item.values, shape, axis)
        axis += _axes_taken(item)
    axis = 0
    for item in items:
        if isinstance(item, slice):
            item = _sliced(item, shape[axis])
        elif isinstance(item, int):
            item = _position(item, shape[axis], axis)
        placed.append((item, axis))
        axis += _axes_taken(item)
    return placed


def _sliced(key: slice, length: int) -> range:
    if is_endless(length):
        parts = (key.start, key.stop, key.step)
        start, stop, step = (0 if part is None else operator.index(part) for part in parts)
        if min(start, stop, step) < 0:
            raise _no_end(key)
        if key.stop is None:  # what remains has no end either
            return range(start, start + (step or 1) * ENDLESS, step or 1)
    return range(length)[key]


def _no_end(key: Any) -> StreamError:
    return StreamError(f"an endless view has no end to count back from; got {key!r}")


def _position(item: int, length: int, axis: int) -> int:
    if item < 0 and is_endless(length):
        raise _no_end(item)
    if not -length <= item < length:
        raise IndexError(f"index {item} is out of bounds for axis {axis} with size {length}")
    return item + length if item < 0 else item


def _check_mask(mask: np.ndarray, shape: tuple[int, ...], axis: int) -> None:
    for number, length in enumerate(mask.shape):
        own = shape[axis + number]
        if length and length != own:  # NumPy takes one without entries for any
            raise IndexError(
                f"the boolean mask has {length} entries along its axis {number}, "
                f"axis {axis + number} of the view has {'no end' if is_endless(own) else own}"
            )


def _basic(items: list[tuple[Item, int]]) -> Index:
    view: list[int] = []
    maps: list[Map] = []
    for item, _ in items:
        if item is None:
            view.append(1)
        elif isinstance(item, range):
            maps.append(Affine(item.start, ((len(view), item.step),)))
            view.append(len(item))
        elif isinstance(item, int):
            maps.append(Constant(item))
    return Index(view, maps)


def _advanced(items: list[tuple[Item, int]], shape: tuple[int, ...]) -> Index:
    arrays, common = _broadcast(items)
    first = _place_of_arrays(items)
    end = 0
    view: list[int] = []
    maps: dict[int, Map] = {}
    for number, (item, axis) in enumerate(items):
        if number == first:
            view.extend(common)
            end = len(view)
        if item is None:
            view.append(1)
        elif isinstance(item, range):
            maps[axis] = Affine(item.start, ((len(view), item.step),))
            view.append(len(item))
    if len(view) > MOST_AXES:
        raise IndexError(
            f"number of dimensions must be within [0, {MOST_AXES}], indexing result would have "
            f"{len(view)}"
        )
    if 0 in common:  # the positions are broadcast away: NumPy does not look at them
        arrays = {axis: np.zeros(common, np.intp) for axis in arrays}
    for axis, values in arrays.items():
        wrapped = _wrapped(values, shape[axis], axis)
        maps[axis] = _array_map(wrapped, end, common)
    return Index(view, [maps[axis] for axis in range(len(shape))])


def _place_of_arrays(items: list[tuple[Item, int]]) -> int:
    """Return the item at whose place the arrays' axes go.

    NumPy's rule: the first array or integer if all of them stand side by side, else the front.
    """
    numbers = [number for number, (item, _) in enumerate(items) if isinstance(item, (int, _Fancy))]
    side_by_side = numbers[-1] - numbers[0] == len(numbers) - 1
    return numbers[0] if side_by_side else 0


def _broadcast(
    items: list[tuple[Item, int]],
) -> tuple[dict[int, np.ndarray], tuple[int, ...]]:
    """Return each indexed axis' array of positions, and the shape they broadcast to."""
    arrays: dict[int, np.ndarray] = {}
    shapes: list[tuple[int, ...]] = []
    for item, axis in items:
        if isinstance(item, int):
            arrays[axis] = np.array(item, np.intp)
        elif isinstance(item, _Fancy):
            parts = _positions_of(item)
            shapes.extend(part.shape for part in parts)
            if item.axes:
                arrays.update({axis + number: part for number, part in enumerate(parts)})
    if len(arrays) > MOST_ARRAYS:
        raise IndexError(
            f"when no subspace is given, the number of index arrays cannot be above {MOST_ARRAYS}, "
            f"but {len(arrays)} index arrays found"
        )
    try:
        return arrays, broadcast_shapes(*shapes)
    except ValueError:
        listing = " ".join(map(str, shapes))
        raise IndexError(f"the indexing arrays do not broadcast together: {listing}") from None


MOST_ARRAYS, MOST_AXES = 63, 64
"""How many arrays NumPy takes in a key, and how many axes an array of its can have."""


@functools.lru_cache(maxsize=1024)
def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return what shapes broadcast to; `np.broadcast_shapes` has no room for more than 32 axes.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    found = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for axis, length in enumerate(shape, len(found) - len(shape)):
            if found[axis] != length != 1:
                if found[axis] != 1:
                    listing = " ".join(map(str, shapes))
                    raise ValueError(f"the shapes do not broadcast together: {listing}")
                found[axis] = length
    return tuple(found)


def _positions_of(item: _Fancy) -> tuple[np.ndarray, ...]:
    if not item.mask:
        return (item.values,)
    if item.axes == 0:  # a 0-d mask takes no axis and adds one, of length 0 or 1
        return (np.zeros(int(item.values), np.intp),)
    return item.values.nonzero()


def _array_map(values: np.ndarray, end: int, common: tuple[int, ...]) -> Map:
    """Return the map of an array of positions whose last axis is the view axis before `end`."""
    first = end - values.ndim
    axes = [number for number, count in enumerate(values.shape) if count != 1]
    if not axes and values.ndim and common[-1] == 1:
        return Affine(int(values.reshape(())), ((end - 1, 1),))  # one position, along its axis
    if not axes:
        return Constant(int(values.reshape(())))
    squeezed = values.reshape([values.shape[number] for number in axes])
    return Array(squeezed, tuple(first + number for number in axes))


def _wrapped(values: np.ndarray, length: int, axis: int) -> np.ndarray:
    """Return a copy of the positions, counted from the start, all inside the axis."""
    found = values.astype(np.intp)  # always a copy: the caller's array may change later
    if found.size:
        low, high = int(found.min()), int(found.max())
        if low < -length or high >= length:
            bad = low if low < -length else high
            raise IndexError(f"index {bad} is out of bounds for axis {axis} with size {length}")
        if low < 0:
            if is_endless(length):
                raise _no_end(low)
            found[found < 0] += length
    return found


# --- keys as text -----------------------------------------------------------------------------


def key_text(key: Any) -> str:
    """Return a key as a reader would write it, arrays abbreviated."""
    if key is None:
        return "this view"
    parts = key if isinstance(key, tuple) else (key,)
    return f"[{', '.join(map(_part_text, parts))}]"


def _part_text(part: Any) -> str:
    if isinstance(part, (slice, range)):
        return slice_text(part)
    if part is Ellipsis:
        return "..."
    if isinstance(part, str):
        return repr(part)
    if part is None or isinstance(part, (bool, np.bool_)):
        return str(part)
    try:
        return str(operator.index(part))
    except TypeError:
        array = np.asarray(part)
        return str(array.tolist()) if array.size <= 6 else f"<{array.dtype} {array.shape}>"


def slice_text(key: slice | range) -> str:
    """Return a slice as it is written in a key."""
    parts = ["" if part is None else str(part) for part in (key.start, key.stop)]
    return ":".join(parts) + ("" if key.step in (None, 1) else f":{key.step}")


# --- names ------------------------------------------------------------------------------------

NO_KEY: Any = object()
"""The rest of a key that is made of names alone."""


def without_names(key: Any) -> tuple[Any, str | tuple[str, ...] | None]:
    """Return the key without the names that stand last in it, and those names.

    >>> without_names((slice(3), "a")), without_names((slice(3), 0))
    ((slice(None, 3, None), 'a'), ((slice(None, 3, None), 0), None))
    >>> without_names((3, 0, "a", "b")), without_names((3, ["a", "b"]))
    (((3, 0), ('a', 'b')), (3, ('a', 'b')))
    """
    if isinstance(key, str):
        return NO_KEY, key
    if _are_names(key):
        return NO_KEY, tuple(key)
    if not isinstance(key, tuple) or not key:
        return key, None
    if _are_names(key[-1]):
        rest, names = key[:-1], tuple(key[-1])
        return (rest if len(rest) > 1 else rest[0] if rest else NO_KEY), names
    rest = key
    while isinstance(rest[-1], str):  # one is not
        rest = rest[:-1]
    names = key[len(rest) :]
    if not names:
        return key, None
    return rest if len(rest) > 1 else rest[0], names if len(names) > 1 else names[0]


def _are_names(key: Any) -> bool:
    return isinstance(key, (list, tuple)) and bool(key) and all(isinstance(n, str) for n in key)


class Written:
    """The key of a part that an operator just changed in place, until Python assigns it back."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def of(self, key: Any) -> bool:
        """Whether this is the key: Python 3.12 makes an equal slice for half of `d[a:b] += x`."""
        return self.key is key or (isinstance(key, slice) and bool(self.key == key))
