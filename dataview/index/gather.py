"""Reading and writing an array in memory through an index.

A box (constants and affine maps) is a strided view of the memory.  Everything else is a box
first, then gathers: one `take` along an axis for each independent group of index arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dataview.index.algebra import (
    LINE,
    Affine,
    Array,
    Constant,
    Index,
    Map,
    as_slice,
    axes_of,
    positions,
    renamed,
    renumbered,
    shares_axes,
)

FEW = 4
"""So few elements of each line are quicker to take one place after the other, over all lines."""

LINES = 512
"""But not if there are so few lines."""

CACHED = 1 << 18
"""Rows of so many bytes are still in the cache when part of them is copied."""

WHOLE = slice(None)


def read(array: np.ndarray, index: Index) -> np.ndarray:
    """Return the elements that an index selects: an alias for a box, else a fresh array.

    >>> a = np.arange(12).reshape(4, 3)
    >>> read(a, Index((2,), [Affine(3, ((0, -2),)), Constant(1)]))
    array([10,  4])
    """
    if 0 in index.shape:
        return np.ndarray(index.shape, array.dtype)
    if index.is_box:
        return box(array, index)
    key = _key_of(index)
    if key is not None:
        return _by_key(array, key)
    array, index = _boxed(array, index)
    while groups := _groups(array, index):
        array, index = _gathered(array, index, groups[0])
    return box(array, index)


def _by_key(array: np.ndarray, key: tuple[Any, ...]) -> np.ndarray:
    """Return what a key selects, each of its arrays for itself, the smallest share first."""
    basic, todo = _without_arrays(key)
    part: np.ndarray = array[basic]
    if len(todo) > 1:
        todo.sort(key=lambda one: one[1].size / part.shape[one[0]])
    found = part
    for done, (axis, numbers) in enumerate(todo):
        if not done and key[0] is numbers:
            lines = row_taker(array, basic)(numbers.reshape(-1))
            found = lines.reshape(numbers.shape + lines.shape[1:]) if numbers.ndim > 1 else lines
        else:
            axis += sum(other.ndim - 1 for before, other in todo[:done] if before < axis)
            found = _taken(found, numbers, axis)
    return found


def _without_arrays(key: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[tuple[int, np.ndarray]]]:
    """Return a key with all of each axis that has an array in it, and these axes and arrays."""
    basic: list[Any] = []
    todo: list[tuple[int, np.ndarray]] = []
    axis = 0
    for item in key:
        if type(item) is np.ndarray:
            todo.append((axis, item))
            item = WHOLE
        basic.append(item)
        axis += item is None or type(item) is slice
    return tuple(basic), todo


def _taken(array: np.ndarray, numbers: np.ndarray, axis: int) -> np.ndarray:
    """Return the positions on an axis, by their numbers."""
    by_line = numbers.size > FEW or axis < array.ndim - 1 or array.size <= LINES * array.shape[axis]
    if by_line and array.flags.c_contiguous:
        return array.take(numbers, axis)
    return array[(WHOLE,) * axis + (numbers,)]


def own(array: np.ndarray, index: Index) -> np.ndarray:
    """Return what an index selects of an array that nobody else holds, each element for itself.

    An element that is selected several times is copied, so that to change one changes no other.

    >>> pairs = own(np.array([1, 2, 3]), Index((2, 2), [Affine(0, ((0, 1), (1, 1)))]))
    >>> pairs[0] = 9
    >>> pairs
    array([[9, 9],
           [2, 3]])
    """
    found = read(array, index)
    reach = found.itemsize
    for stride, length in sorted(zip(map(abs, found.strides), found.shape, strict=True)):
        if length > 1:
            if stride < reach:
                return np.array(found, order="C")
            reach += stride * (length - 1)
    return found


def by_rows(index: Index, fetch: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return what an index selects of an array of which whole rows are made, each row once.

    `fetch` returns rows by their numbers, which ascend.
    """
    numbers, rest = rows_and_rest(index)
    return own(fetch(numbers), rest)


def rows_and_rest(index: Index, axis: int = 0) -> tuple[np.ndarray, Index]:
    """Return the positions on an axis that an index needs, ascending, and the index into these."""
    map_ = index.maps[axis]
    run = _run_of(map_, index.shape) if type(map_) is Affine else None
    numbers, rows = _sorted(map_, index.shape) if run is None else run
    return numbers, Index(index.shape, (*index.maps[:axis], rows, *index.maps[axis + 1 :]))


def _sorted(map_: Map, shape: Sequence[int]) -> tuple[np.ndarray, Map]:
    """Return the positions of a map, ascending and each once, and the map into these."""
    over, numbers = axes_of(map_), positions(map_, shape)
    line = numbers.reshape(-1)
    if over == (0,) and bool((line[1:] > line[:-1]).all()):  # kept rows need not be sorted
        return line, LINE
    numbers, places = np.unique(numbers, return_inverse=True)
    found = places.reshape([shape[seen] for seen in over])
    return numbers, Array(found, over) if over else Constant(0)


def _run_of(map_: Affine, shape: Sequence[int]) -> tuple[np.ndarray, Map] | None:
    """Return the same of positions that follow each other evenly apart; None if they do not.

    >>> _run_of(Affine(9, ((0, 4), (1, 2))), (3, 2))
    (array([ 9, 11, 13, 15, 17, 19]), Affine(offset=0, strides=((0, 2), (1, 1))))
    """
    inside, step, count = [], 1, 1
    for axis, stride in sorted(map_.strides, key=lambda pair: pair[1]):
        if shape[axis] != 1:
            step = stride if count == 1 else step
            if stride != step * count or stride < 1 or not shape[axis]:
                return None
            inside.append((axis, count))
            count *= shape[axis]
    numbers = np.arange(map_.offset, map_.offset + step * count, step)
    return numbers, Affine(0, tuple(sorted(inside))) if inside else Constant(0)


def box(array: np.ndarray, index: Index) -> np.ndarray:
    """Return what a box selects: an alias, or a copy where there is none (see `alias`)."""
    found = alias(array, index)
    if found is None:
        found = array[_places(index)] if array.ndim else np.broadcast_to(array, index.shape)
    return found


def alias(array: np.ndarray, index: Index) -> np.ndarray | None:
    """Return the view of the memory that a box selects.

    It is None where that takes strides of one's own, and the dtype is one that NumPy does not let
    describe so (texts of any length).
    """
    key = _key_of(index)
    if key is not None:
        found: np.ndarray = array[key]
        return found
    if array.dtype.kind == "T":
        return _split(array, index)
    start: list[Any] = []
    strides = [0] * len(index.shape)
    for map_, stride in zip(index.maps, array.strides, strict=True):
        assert isinstance(map_, (Constant, Affine))
        start.append(slice(map_.offset, map_.offset + 1))
        for axis, step in map_.strides if isinstance(map_, Affine) else ():
            strides[axis] += step * stride
    start.append(Ellipsis)  # so that a corner is an array even where it is one element
    corner = array[tuple(start)]
    return as_strided(corner, index.shape, strides, writeable=bool(array.flags.writeable))


def _split(array: np.ndarray, index: Index) -> np.ndarray | None:
    """Return what a box selects by slices, split axes and a transpose, None if these do not do."""
    key: list[int | slice] = []
    order: list[int] = []
    for map_ in index.maps:
        if isinstance(map_, Constant):
            key.append(map_.offset)
            continue
        assert isinstance(map_, Affine)
        nested = sorted(map_.strides, key=lambda pair: -abs(pair[1]))
        step, count = nested[-1][1], 1
        for axis, stride in reversed(nested):
            if stride != step * count:
                return None
            count *= index.shape[axis]
        key.append(as_slice(Affine(map_.offset, ((0, step),)), (count,)))
        order += [axis for axis, _ in nested]
    new = [axis for axis in range(len(index.shape)) if axis not in order]
    order += new
    if len(order) > len(index.shape) or any(index.shape[axis] != 1 for axis in new):
        return None
    part = array[(*key, ...)].reshape([index.shape[axis] for axis in order])
    return part.transpose(np.argsort(order))


def basic_key(index: Index) -> tuple[Any, ...] | None:
    """Return NumPy's basic key that selects the same, None if there is none."""
    return _key_of(index) if index.is_box else None


def _key_of(index: Index) -> tuple[Any, ...] | None:
    """Return the key that selects the same, each of its arrays for itself; None if there is none.

    The axes of the view have to be in order, each in one map only.
    """
    key: list[Any] = []
    reached, shape = 0, index.shape
    for map_ in index.maps:
        if type(map_) is Constant:
            key.append(map_.offset)
            continue
        over = axes_of(map_)
        axis = over[0]
        if axis != reached:
            if axis < reached or any(length != 1 for length in shape[reached:axis]):
                return None
            key += [None] * (axis - reached)
        reached = axis + len(over)
        if type(map_) is Affine:
            if len(over) > 1:
                return None
            key.append(as_slice(map_, shape))
        elif len(over) > 1 and over != tuple(range(axis, reached)):
            return None
        elif type(map_) is Array:
            key.append(map_.values)
        else:
            key.append(positions(map_, shape).reshape(shape[axis:reached]))
    if reached < len(shape):
        if any(length != 1 for length in shape[reached:]):
            return None
        key += [None] * (len(shape) - reached)
    # The ellipsis makes NumPy return a 0-d array, which aliases, and not a scalar.
    return (*key, Ellipsis)


def _is_small_part(array: np.ndarray, part: np.ndarray) -> bool:
    """Whether so little is kept of each row that it is not worth while to read all of it."""
    return array.size > 4 * part.size


def _boxed(array: np.ndarray, index: Index) -> tuple[np.ndarray, Index]:
    """Apply the constants and the affine maps of view axes that no array varies over.

    The returned array's axes are those of the remaining maps, then the affine view axes.
    """
    gathered = [m for m in index.maps if not isinstance(m, (Constant, Affine))]
    busy = {axis for map_ in gathered for axis in axes_of(map_)}
    free = [axis for axis in range(len(index.shape)) if axis not in busy]
    kept = [
        number
        for number, map_ in enumerate(index.maps)
        if not isinstance(map_, (Constant, Affine)) or busy.intersection(axes_of(map_))
    ]
    place = {axis: len(kept) + number for number, axis in enumerate(free)}
    boxed = [
        Affine(0, ((kept.index(number), 1),)) if number in kept else renamed(map_, place)
        for number, map_ in enumerate(index.maps)
    ]
    shape = [*(array.shape[number] for number in kept), *(index.shape[axis] for axis in free)]
    rest = [Affine(0, ((axis, 1),)) for axis in free]
    maps = [*(index.maps[number] for number in kept), *rest]
    return box(array, Index(shape, boxed)), Index(index.shape, maps)


def _groups(array: np.ndarray, index: Index) -> list[list[int]]:
    """Return the source axes to gather, together where they share view axes.

    First are those of which the smallest share is gathered: what follows has less to move.
    """
    groups: list[tuple[set[int], list[int]]] = []
    for number, map_ in enumerate(index.maps):
        if isinstance(map_, Affine) and not shares_axes(index, number):
            continue  # it needs no gather
        axes, members = set(axes_of(map_)), [number]
        for other in [group for group in groups if group[0] & axes]:
            groups.remove(other)
            axes |= other[0]
            members = other[1] + members
        groups.append((axes, members))

    def share(group: tuple[set[int], list[int]]) -> float:
        whole: int = math.prod(array.shape[number] for number in group[1])
        return float(math.prod(index.shape[axis] for axis in group[0]) / max(1, whole))

    return [members for _, members in sorted(groups, key=share)]


def _gathered(array: np.ndarray, index: Index, group: Sequence[int]) -> tuple[np.ndarray, Index]:
    """Replace a group of source axes by the view axes over which their positions vary."""
    maps = [index.maps[number] for number in group]
    axes = sorted({axis for map_ in maps for axis in axes_of(map_)})
    keys = _keys(maps, axes, index.shape)
    if len(group) == 1:
        place = group[0]
        found = row_taker(array)(keys[0]) if place == 0 else array[(slice(None),) * place + keys]
    else:
        place = 0
        found = np.moveaxis(array, group, range(len(group)))[keys]
    rest: list[Map] = [m for number, m in enumerate(index.maps) if number not in group]
    rest[place:place] = [Affine(0, ((axis, 1),)) for axis in axes]
    return found, Index(index.shape, rest)


def columns_of(rows: np.ndarray, columns: Index) -> np.ndarray:
    """Return what an index selects of each row, whatever number of rows it was made for."""
    return read(rows, Index((len(rows), *columns.shape[1:]), columns.maps))


LARGEST_RUN = 2**31 - 1
"""A run of bytes is moved as one element, and none of NumPy's is larger than this."""


def _has_solid_rows(array: np.ndarray) -> bool:
    """Whether each row is one run of bytes that can be moved as it is."""
    if not array.nbytes or array.dtype.hasobject:
        return False
    first = array[0:1]
    return first.flags.c_contiguous and first.nbytes <= LARGEST_RUN


def row_taker(
    array: np.ndarray, part: tuple[Any, ...] | None = None
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function that takes rows of an array by their numbers, as a new array.

    `part` is a basic key with all rows, by which to take part of each.  As runs of bytes rows move
    several times faster than by element, so that it may be quicker to take all of each row.
    """
    if part is not None:
        seen = array[part]
        if not _has_solid_rows(seen) and not _is_small_part(array, seen) and _has_solid_rows(array):
            return _part_taker(row_taker(array), (WHOLE, *part[1:]), array.nbytes // len(array))
        array = seen
    if not _has_solid_rows(array):
        return array.__getitem__
    if array.flags.c_contiguous:
        return lambda rows: array.take(rows, 0)  # of other memory it would copy the whole first
    width, shape = array.itemsize * math.prod(array.shape[1:]), array.shape[1:]
    runs = np.asarray(_ReadOnlyMemory(array, f"|V{width}", array.shape[:1], array.strides[:1]))
    return lambda rows: runs[rows].view(array.dtype).reshape(rows.shape + shape)


def _part_taker(
    whole: Callable[[np.ndarray], np.ndarray], part: tuple[Any, ...], width: int
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function that takes whole rows, of so many bytes each, and copies part of them.

    It may take more of them than there are, each several times.
    """
    step = max(1, CACHED // width)

    def taken(rows: np.ndarray) -> np.ndarray:
        first = np.ascontiguousarray(whole(rows[:step])[part])
        if len(rows) <= step:
            return first
        out = np.empty((len(rows), *first.shape[1:]), first.dtype)
        out[:step] = first
        for start in range(step, len(rows), step):
            out[start : start + step] = whole(rows[start : start + step])[part]
        return out

    return taken


def _keys(maps: Sequence[Map], axes: Sequence[int], shape: Sequence[int]) -> tuple[np.ndarray, ...]:
    """Return the maps' positions over the given view axes, each of the full shape."""
    over = renumbered(Index(shape, maps), axes)
    return tuple(np.broadcast_to(positions(m, over.shape), over.shape) for m in over.maps)


def _places(index: Index) -> tuple[np.ndarray, ...]:
    """Return the positions that an index selects, along each axis of its source."""
    return _keys(index.maps, range(len(index.shape)), index.shape)


def assign(array: np.ndarray, index: Index, value: np.ndarray) -> None:
    """Write a value of the view's shape through an index; of repeated places the last one counts.

    >>> a = np.zeros(4, int)
    >>> assign(a, Index((2,), [Affine(3, ((0, -2),))]), np.array([7, 8])); a
    array([0, 8, 0, 7])
    """
    if 0 in index.shape:
        return
    part = alias(array, index) if index.is_box else None
    if part is not None:
        part[...] = value
        return
    if array.dtype.kind == "T":  # of which a part may be no alias
        line = tuple(places.reshape(-1) for places in _places(index))
        array[line] = np.broadcast_to(value, index.shape).reshape(-1)
        return
    basic, todo = _without_arrays(_key_of(index) or ())
    if len(todo) == 1 and todo[0][1].ndim == 1:
        ((axis, numbers),) = todo
        array[basic][(WHOLE,) * axis + (numbers,)] = value
        return
    target, rest = _boxed(array, index)
    group = sorted(number for members in _groups(target, rest) for number in members)
    axes = sorted({axis for number in group for axis in axes_of(rest.maps[number])})
    keys = _keys([rest.maps[number] for number in group], axes, index.shape)
    others = [axis for axis in range(len(index.shape)) if axis not in axes]
    spread = np.broadcast_to(value, index.shape).transpose(*axes, *others)
    count = math.prod(index.shape[axis] for axis in axes)
    spread = spread.reshape((count, *(index.shape[axis] for axis in others)))
    # One flat gather axis keeps NumPy writing in the view's own order.
    target = _with_axes_last(np.moveaxis(target, group, range(len(group))), rest, group, others)
    target[tuple(key.reshape(count) for key in keys)] = spread


def _with_axes_last(
    target: np.ndarray, rest: Index, group: Sequence[int], others: Sequence[int]
) -> np.ndarray:
    """Order the ungathered axes of a target as the view has them, unused ones as length 1."""
    have = [axes_of(map_)[0] for number, map_ in enumerate(rest.maps) if number not in group]
    depth = len(group)
    order = [depth + have.index(axis) for axis in others if axis in have]
    unused = tuple(depth + number for number, axis in enumerate(others) if axis not in have)
    return np.expand_dims(target.transpose(*range(depth), *order), unused)


def frozen(array: np.ndarray) -> np.ndarray:
    """Return an alias of the array whose write flag cannot be set back.

    What no buffer can describe (Python objects) is copied instead.

    >>> a = frozen(np.arange(3))
    >>> a.flags.writeable = True
    Traceback (most recent call last):
    ValueError: cannot set WRITEABLE flag to True of this array
    """
    if array.dtype.hasobject:
        copied = array.copy()
        copied.flags.writeable = False
        return copied[...]
    return np.asarray(_ReadOnlyMemory(array)).view(array.dtype)


class _ReadOnlyMemory:
    """An array's memory, read-only: NumPy finds no owner here that could allow writing again."""

    def __init__(
        self,
        array: np.ndarray,
        typestr: str | None = None,
        shape: tuple[int, ...] | None = None,
        strides: tuple[int, ...] | None = None,
    ) -> None:
        self.owner = array
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], True)
        if typestr is not None:
            interface.update(typestr=typestr, shape=shape, strides=strides)
            del interface["descr"]
        self.__array_interface__ = interface
