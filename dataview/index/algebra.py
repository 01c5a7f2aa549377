"""The index algebra: where each element of a view lies in what it views.

An `Index` gives, for every axis of the source, a map from positions in the view: a constant, an
affine map of one or more view axes, an integer array over some of them, or a function of an
affine map.  The four kinds are closed under composition, so a chain of keys of any depth is one
`Index`.  Nothing here reads data or knows NumPy's key syntax (see `keys`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

ENDLESS = 2**62
"""The length of an axis that never ends, and of any part of it that has no end either."""


class Constant(NamedTuple):
    """One position, wherever in the view."""

    offset: int


class Affine(NamedTuple):
    """``offset + sum(stride * position on view axis)``, as pairs (view axis, stride)."""

    offset: int
    strides: tuple[tuple[int, int], ...]


@dataclass(slots=True, eq=False)  # frozen ones take three times as long to make
class Array:
    """Positions stored in an integer array, which has an axis for each of these view axes.

    The view axes ascend.
    """

    values: np.ndarray
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """``offset + stride * function(inner)``: positions computed when they are needed."""

    function: Callable[[np.ndarray], np.ndarray]
    inner: Affine | Computed
    offset: int = 0
    stride: int = 1


Map: TypeAlias = Constant | Affine | Array | Computed

LINE = Affine(0, ((0, 1),))
"""The positions of the first view axis as they are."""


class Index:
    """A view's shape, and one map from view positions for every axis of the source."""

    __slots__ = ("maps", "shape")

    def __init__(self, shape: Sequence[int], maps: Sequence[Map]) -> None:
        self.shape = tuple(shape)
        self.maps = tuple(maps)

    def __reduce__(self) -> tuple[Any, ...]:
        return Index, (self.shape, self.maps)

    def __repr__(self) -> str:
        return f"Index({self.shape}, {self.maps})"

    @property
    def is_box(self) -> bool:
        """Whether strides alone describe the view, so that memory needs no gather."""
        for map_ in self.maps:  # no generator: every evaluation comes here
            if type(map_) is not Affine and type(map_) is not Constant:
                return False
        return True


def identity(shape: Sequence[int]) -> Index:
    """Return the index that selects everything as it is.

    >>> identity((3, 2)).maps
    (Affine(offset=0, strides=((0, 1),)), Affine(offset=0, strides=((1, 1),)))
    """
    return Index(shape, whole_axes(0, len(shape)))


@lru_cache(maxsize=256)
def whole_axes(start: int, stop: int) -> tuple[Affine, ...]:
    """Return the maps of axes that are seen whole, as view axes `start` to `stop`.

    >>> whole_axes(1, 3)
    (Affine(offset=0, strides=((1, 1),)), Affine(offset=0, strides=((2, 1),)))
    """
    return tuple(Affine(0, ((axis, 1),)) for axis in range(start, stop))


def extend(index: Index, lengths: Sequence[int]) -> Index:
    """Return an index on the first axes of a source as one on all: the others, whole, come last.

    >>> extend(Index((), [Constant(4)]), (3,))
    Index((3,), (Constant(offset=4), Affine(offset=0, strides=((0, 1),))))
    """
    shape = (*index.shape, *lengths)
    return Index(shape, index.maps + whole_axes(len(index.shape), len(shape)))


def leading(index: Index, lengths: Sequence[int]) -> Index | None:
    """Return the index that `extend` makes this one of, None if there is none."""
    front, count = len(index.shape) - len(lengths), len(index.maps) - len(lengths)
    first = Index(index.shape[:front], index.maps[:count])
    whole = index.maps[count:] == whole_axes(front, len(index.shape))
    alone = all(axis < front for map_ in first.maps for axis in axes_of(map_))
    return first if whole and alone and index.shape[front:] == tuple(lengths) else None


def axis_index(shape: Sequence[int], map_: Map, count: int, axis: int = 0) -> Index:
    """Return the index of `count` positions along one axis, by a map, whole on the other axes.

    >>> axis_index((9, 2), Affine(4, ((0, -1),)), 5).maps
    (Affine(offset=4, strides=((0, -1),)), Affine(offset=0, strides=((1, 1),)))
    """
    whole = whole_axes(0, len(shape))
    lengths = (*shape[:axis], count, *shape[axis + 1 :])
    return Index(lengths, (*whole[:axis], map_, *whole[axis + 1 :]))


def block_index(shape: Sequence[int], start: int, stop: int, axis: int = 0) -> Index:
    """Return the index of positions `start` to `stop` of one axis, whole on the other axes."""
    return axis_index(shape, Affine(start, ((axis, 1),)), stop - start, axis)


def numbers_map(numbers: np.ndarray, axis: int = 0) -> Map:
    """Return the map of these positions over a view axis, affine where they follow each other."""
    last = len(numbers) - 1
    if last >= 0 and numbers[-1] - numbers[0] == last and (np.diff(numbers) == 1).all():
        return Affine(int(numbers[0]), ((axis, 1),))
    return Array(numbers, (axis,))


def is_identity(index: Index, shape: Sequence[int]) -> bool:
    """Whether an index over a source of this shape selects everything as it is."""
    return index.shape == tuple(shape) and index.maps == whole_axes(0, len(shape))


def is_endless(length: int | None) -> bool:
    """Whether an axis of this length has no end."""
    return length is not None and length >= ENDLESS


def axes_of(map_: Map) -> tuple[int, ...]:
    """Return the view axes over which a map varies, ascending.

    >>> axes_of(Affine(3, ((2, 10), (0, 1))))
    (0, 2)
    """
    while type(map_) is Computed:
        map_ = map_.inner
    if type(map_) is Affine:  # most maps are, and have one axis
        strides = map_.strides
        return (strides[0][0],) if len(strides) == 1 else tuple(sorted(axis for axis, _ in strides))
    return map_.axes if type(map_) is Array else ()


def shares_axes(index: Index, number: int) -> bool:
    """Whether another map of an index varies over a view axis of this one."""
    own = axes_of(index.maps[number])
    return any(
        axis in own
        for other, map_ in enumerate(index.maps)
        if other != number
        for axis in axes_of(map_)
    )


def positions(map_: Map, shape: Sequence[int]) -> np.ndarray:
    """Return a map's source positions as an array that broadcasts against the view's shape.

    >>> positions(Affine(10, ((1, 2),)), (4, 3))
    array([[10, 12, 14]])
    """
    ndim = len(shape)
    if isinstance(map_, Constant):
        return np.full((1,) * ndim, map_.offset, np.intp)
    if isinstance(map_, Array):
        spread = [1] * ndim
        for axis, length in zip(map_.axes, map_.values.shape, strict=True):
            spread[axis] = length
        return map_.values.reshape(spread)
    if isinstance(map_, Computed):
        functions, inner = _functions_of(map_)
        found = positions(inner, shape)
        for outer in functions:
            found = _line(outer.function(found), outer.stride, outer.offset)
        return found
    total = np.full((1,) * ndim, map_.offset, np.intp)
    for axis, stride in map_.strides:
        spread = [1] * ndim
        spread[axis] = shape[axis]
        total = total + (np.arange(shape[axis], dtype=np.intp) * stride).reshape(spread)
    return total


def extent(map_: Map, shape: Sequence[int]) -> tuple[int, int] | None:
    """Return the lowest and highest source position of a map, None if it selects nothing.

    >>> extent(Affine(10, ((0, -2),)), (3,))
    (6, 10)
    """
    if isinstance(map_, Constant):
        return map_.offset, map_.offset
    if isinstance(map_, Affine):  # no generators: every write comes here
        low = high = map_.offset
        for axis, stride in map_.strides:
            if not shape[axis]:
                return None
            if stride < 0:
                low += stride * (shape[axis] - 1)
            else:
                high += stride * (shape[axis] - 1)
        return low, high
    if any(shape[axis] == 0 for axis in axes_of(map_)):
        return None
    found = positions(map_, shape)
    return int(found.min()), int(found.max())


def shifted(map_: Map, by: int) -> Map:
    """Return the same map into a source whose positions begin `by` later.

    >>> shifted(Constant(5), 2)
    Constant(offset=3)
    """
    return scaled(map_, 1, -by)


def scaled(map_: Map, stride: int, offset: int) -> Map:
    """Return the map of ``offset + stride * position``.

    >>> scaled(Affine(1, ((0, 2),)), 3, 10)
    Affine(offset=13, strides=((0, 6),))
    """
    if stride == 1 and not offset:
        return map_
    if isinstance(map_, Affine):
        steps = map_.strides
        if stride != 1:
            steps = tuple([(axis, stride * step) for axis, step in steps])
        return Affine(offset + stride * map_.offset, steps)
    if isinstance(map_, Constant):
        return Constant(offset + stride * map_.offset)
    if isinstance(map_, Array):
        return Array(_line(map_.values, stride, offset), map_.axes)
    return Computed(map_.function, map_.inner, offset + stride * map_.offset, stride * map_.stride)


def compose(outer: Index, inner: Index) -> Index:
    """Return the index of a view (`inner`) of a view (`outer`): ``outer[inner]``.

    >>> rows = Index((3,), [Affine(10, ((0, 2),))])
    >>> compose(rows, Index((2,), [Affine(2, ((0, -1),))])).maps
    (Affine(offset=14, strides=((0, -2),)),)
    """
    return Index(inner.shape, [through(map_, inner) for map_ in outer.maps])


def boxed(index: Index, axes: int) -> tuple[Index, Index]:
    """Return the box of all source positions that an index uses, and the index within this box.

    The box has an axis of its own for each source axis; composed, the two are the index again.

    >>> box, rest = boxed(Index((3,), [Array(np.array([7, 2, 7]), (0,)), Constant(5)]), 2)
    >>> box.maps[0].values, rest.maps[0].values
    (array([2, 7]), array([1, 0, 1]))
    """
    rest: Map
    lengths: list[int] = []
    maps: list[Map] = []
    within: list[Map] = []
    for axis, map_ in enumerate(index.maps[:axes]):
        if isinstance(map_, Constant):
            lengths.append(1)
            maps.append(map_)
            within.append(Constant(0))
        elif isinstance(map_, Affine) and len(map_.strides) == 1:
            ((seen, stride),) = map_.strides
            lengths.append(index.shape[seen])
            maps.append(Affine(map_.offset, ((axis, stride),)))
            within.append(Affine(0, ((seen, 1),)))
        else:
            over = axes_of(map_)
            if isinstance(map_, Array):
                found = map_.values
            else:
                alone = renumbered(Index(index.shape, [map_]), over)
                found = positions(alone.maps[0], alone.shape)
            if found.ndim == 1 and (found[1:] > found[:-1]).all():  # as the box has them
                numbers, rest = found, Affine(0, ((over[0], 1),))
            else:
                numbers, places = np.unique(found, return_inverse=True)
                rest = Array(places.reshape(found.shape), over)
            lengths.append(len(numbers))
            maps.append(Array(numbers, (axis,)))
            within.append(rest)
    return Index(lengths, maps), Index(index.shape, within)


def renumbered(index: Index, kept: Sequence[int]) -> Index:
    """Return an index over only the `kept` view axes, in that order; the rest are unused."""
    place = {axis: number for number, axis in enumerate(kept)}
    return Index([index.shape[axis] for axis in kept], [renamed(m, place) for m in index.maps])


def renamed(map_: Map, place: dict[int, int]) -> Map:
    """Return a map with each of its view axes under another number."""
    if isinstance(map_, Constant):
        return map_
    if isinstance(map_, Affine):
        return Affine(map_.offset, tuple((place[axis], stride) for axis, stride in map_.strides))
    if isinstance(map_, Array):
        axes = [place[axis] for axis in map_.axes]
        order = np.argsort(axes)
        return Array(map_.values.transpose(order), tuple(sorted(axes)))
    return _with_inner(map_, lambda inner: renamed(inner, place))


def through(map_: Map, inner: Index) -> Map:
    """Return the map that first goes through `inner`."""
    if isinstance(map_, Constant):
        return map_
    if isinstance(map_, Affine):
        return _affine_through(map_, inner)
    if isinstance(map_, Array):
        return _array_through(map_, inner)
    return _with_inner(map_, lambda innermost: through(innermost, inner))


def _with_inner(map_: Computed, change: Callable[[Map], Map]) -> Map:
    """Return a computed map with another map inside it."""
    functions, inner = _functions_of(map_)
    reached = change(inner)
    for outer in functions:
        reached = _computed(outer, reached)
    return reached


def _computed(map_: Computed, reached: Map) -> Map:
    """Return a computed map of what another map reaches."""
    if isinstance(reached, (Affine, Computed)):
        return Computed(map_.function, reached, map_.offset, map_.stride)
    if isinstance(reached, Constant):
        found = map_.function(np.array([reached.offset], np.intp))
        return Constant(map_.offset + map_.stride * int(found[0]))
    if _reads(map_):  # so not yet
        return Computed(map_.function, _looked_up(reached), map_.offset, map_.stride)
    return Array(_line(map_.function(reached.values), map_.stride, map_.offset), reached.axes)


def _looked_up(map_: Array) -> Computed:
    """Return an array's positions as those of a function, which looks them up.

    >>> looked_up = _looked_up(Array(np.array([[4, 5, 6], [7, 8, 9]]), (0, 2)))
    >>> looked_up.inner, looked_up.function(np.array([3]))
    (Affine(offset=0, strides=((0, 3), (2, 1))), array([7]))
    """
    lengths = map_.values.shape
    strides = [math.prod(lengths[place + 1 :]) for place in range(len(lengths))]
    inner = Affine(0, tuple(zip(map_.axes, strides, strict=True)))
    return Computed(map_.values.reshape(-1).__getitem__, inner)


def _functions_of(map_: Computed) -> tuple[list[Computed], Map]:
    """Return a chain of computed maps, the innermost first, and the map inside them all."""
    chain = [map_]
    while isinstance(chain[-1].inner, Computed):
        chain.append(chain[-1].inner)
    return chain[::-1], chain[-1].inner


def _affine_through(map_: Affine, inner: Index) -> Map:
    offset = map_.offset
    if len(map_.strides) == 1:
        ((axis, stride),) = map_.strides
        return scaled(inner.maps[axis], stride, offset)
    strides: dict[int, int] = {}
    others: list[tuple[Array | Computed, int]] = []
    for axis, stride in map_.strides:
        step = inner.maps[axis]
        if isinstance(step, (Array, Computed)):
            others.append((step, stride))
            continue
        offset += stride * step.offset
        if isinstance(step, Affine):
            for view_axis, view_stride in step.strides:
                strides[view_axis] = strides.get(view_axis, 0) + stride * view_stride
    pairs = tuple((axis, stride) for axis, stride in sorted(strides.items()) if stride)
    if not others:
        return Affine(offset, pairs) if pairs else Constant(offset)
    if len(others) == 1 and not pairs:
        return scaled(*others[0], offset)
    total = positions(Affine(offset, pairs), inner.shape)
    for step, stride in others:
        total = total + stride * positions(step, inner.shape)
    axes = sorted({axis for axis, _ in pairs}.union(*(axes_of(step) for step, _ in others)))
    return Array(total.reshape([inner.shape[axis] for axis in axes]), tuple(axes))


def _array_through(map_: Array, inner: Index) -> Map:
    steps = [inner.maps[axis] for axis in map_.axes]
    if len(steps) == 1 and type(steps[0]) is Affine and len(steps[0].strides) == 1:
        return Array(map_.values[as_slice(steps[0], inner.shape)], axes_of(steps[0]))
    if len(steps) == 1 and type(steps[0]) is Computed and _reads(steps[0]):  # so not yet
        return Computed(map_.values.__getitem__, steps[0])
    axes = sorted({axis for step in steps for axis in axes_of(step)})
    plain = all(isinstance(s, (Constant, Affine)) and len(axes_of(s)) <= 1 for s in steps)
    if plain and [axis for step in steps for axis in axes_of(step)] == axes:
        # A slice of the stored positions: no copy, however many there are.
        taken = map_.values[tuple(as_slice(step, inner.shape) for step in steps)]
        return Array(taken, tuple(axes)) if axes else Constant(int(taken))
    shape = [inner.shape[axis] for axis in axes]
    over = renumbered(Index(inner.shape, steps), axes)
    found = map_.values[tuple(positions(step, shape) for step in over.maps)]
    return Array(np.broadcast_to(found, shape), tuple(axes)) if axes else Constant(int(found))


def _reads(map_: Computed) -> bool:
    """Whether data may have to be read to compute positions, as for an order by their values."""
    return any(getattr(one.function, "reads", False) for one in _functions_of(map_)[0])


def as_slice(map_: Map, shape: Sequence[int]) -> int | slice:
    """Return a constant or one-axis affine map as the basic key that selects the same.

    >>> as_slice(Affine(4, ((0, -2),)), (3,))
    slice(4, None, -2)
    """
    if isinstance(map_, Constant):
        return map_.offset
    assert isinstance(map_, Affine)
    ((axis, stride),) = map_.strides
    count = shape[axis]
    if count == 0:
        return slice(0, 0)
    if stride == 1:
        return slice(map_.offset, map_.offset + count)
    stop = map_.offset + stride * (count - 1) + (1 if stride > 0 else stride)
    return slice(map_.offset, stop if stop >= 0 else None, stride)


def _line(values: np.ndarray, stride: int, offset: int) -> np.ndarray:
    if stride != 1:
        values = values * stride
    return values + offset if offset else values
