"""Other layouts of the same elements; each is an index, so writes pass through it."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from dataview.errors import StreamError
from dataview.index import (
    Affine,
    Computed,
    Constant,
    Index,
    Map,
    axes_of,
    identity,
    is_endless,
    is_integer,
    whole_axes,
)
from dataview.index.shape_texts import shape_text
from dataview.plan.build import read_only, select, stored
from dataview.plan.guards import endless, is_broadcast_to
from dataview.plan.kinds import Concat, Reshaped, Sampled, Select, Stored, known_shape, size_of
from dataview.plan.node import Node, Shape
from dataview.plan.symbols import deferring


def digit(stride: int, length: int, flat: np.ndarray) -> np.ndarray:
    """Return, for each flat position, its digit that counts along one axis.

    >>> digit(3, 2, np.arange(6))
    array([0, 0, 0, 1, 1, 1])
    """
    return flat // stride % length


# --- axes ------------------------------------------------------------------------------------


@deferring
def transposed(node: Node, axes: Sequence[int] | None = None) -> Node:
    """Return the node with its axes in another order, reversed if none is given."""
    shape = known_shape(node)
    order = tuple(reversed(range(len(shape)))) if axes is None else _axes(axes, len(shape))
    if len(order) != len(shape):
        raise ValueError(f"a view of {len(shape)} axes is transposed by as many; got {axes}")
    places = [order.index(axis) for axis in range(len(shape))]
    return _arranged(node, [shape[axis] for axis in order], places, "the transpose")


@deferring
def moved(node: Node, source: Any, destination: Any) -> Node:
    """Return the node with some axes at other places, as `numpy.moveaxis` does."""
    ndim = len(known_shape(node))
    origins, places = _axes(source, ndim), _axes(destination, ndim)
    if len(origins) != len(places):
        raise ValueError(f"as many axes are moved as have places; got {source} and {destination}")
    order = [axis for axis in range(ndim) if axis not in origins]
    for place, axis in sorted(zip(places, origins, strict=True)):
        order.insert(place, axis)
    return transposed(node, order)


@deferring
def squeezed(node: Node, axis: Any = None) -> Node:
    """Return the node without axes of length 1."""
    shape = known_shape(node)
    chosen = [n for n, length in enumerate(shape) if length == 1]
    if axis is not None and (shape or axis not in (0, -1)):  # so does NumPy
        chosen = list(_axes(axis, len(shape)))
        for number in chosen:
            if shape[number] != 1:
                raise ValueError(f"axis {number} has length {shape[number]}, not 1: {shape}")
    kept = [n for n in range(len(shape)) if n not in chosen]
    places = [None if n in chosen else kept.index(n) for n in range(len(shape))]
    return _arranged(node, [shape[n] for n in kept], places, "squeeze")


@deferring
def expanded(node: Node, axis: Any) -> Node:
    """Return the node with new axes of length 1 at these places of the result."""
    shape = known_shape(node)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    new = _axes(axis, len(shape) + count)
    lengths = iter(shape)
    view = [1 if n in new else next(lengths) for n in range(len(shape) + count)]
    return _arranged(node, view, [n for n in range(len(view)) if n not in new], "expand_dims")


@deferring
def broadcast(node: Node, shape: Any) -> Node:
    """Return the node repeated over more axes, read-only as in NumPy."""
    own = known_shape(node)
    whole = (int(shape),) if np.ndim(shape) == 0 else tuple(map(operator.index, shape))
    if not is_broadcast_to(own, whole):
        raise ValueError(
            f"a view of shape {shape_text(own)} cannot be broadcast to the shape {whole}"
        )
    shift = len(whole) - len(own)
    places = [n if whole[n] == own[n - shift] else None for n in range(shift, len(whole))]
    return read_only(_arranged(node, whole, places, "broadcast_to"))


@deferring
def flipped(node: Node, axis: Any = None) -> Node:
    """Return the node with the order along some axes reversed, along all if none is given."""
    shape = known_shape(node)
    chosen = range(len(shape)) if axis is None else _axes(axis, len(shape))
    maps: list[Map] = [
        Affine(length - 1, ((n, -1),)) if n in chosen and length else Affine(0, ((n, 1),))
        for n, length in enumerate(shape)
    ]
    return select(node, Index(shape, maps), "flip")


def _arranged(node: Node, shape: Sequence[int], places: Sequence[int | None], key: str) -> Node:
    """Return the node with each axis at a place of the result; None takes its first position."""
    return select(node, _arranging(tuple(shape), tuple(places)), key)


@functools.lru_cache(maxsize=256)
def _arranging(shape: Shape, places: tuple[int | None, ...]) -> Index:
    maps = [Constant(0) if place is None else Affine(0, ((place, 1),)) for place in places]
    return Index(shape, maps)


def _axes(axes: Any, ndim: int) -> tuple[int, ...]:
    """Return axes counted from the front, each once, or raise NumPy's error."""
    return tuple(np.lib.array_utils.normalize_axis_tuple(axes, ndim))


def as_row(node: Node, values: Node, axes: int, meta: Mapping[str, Any]) -> Node:
    """Return a part of flat values as a row of them, which has so many axes of its own."""
    row: Any = node
    if isinstance(node, (Stored, Concat)):
        row = Select(node, identity(known_shape(node)), node._fields, node.meta)
        row.label, row.mask = node.label, node.mask
    is_row = isinstance(row, Select)  # nobody writes to what is computed
    if row.meta is not meta or (is_row and row is values):
        row = row.replaced(meta=meta)
    if is_row:
        row.row_axes = axes
    return row  # type: ignore[no-any-return]


def axes_of_source(index: Index) -> list[int]:
    """Return the axes of a part in the order in which its source has them, the longest run first.

    >>> axes_of_source(Index((3, 2), [Affine(0, ((1, 1),)), Affine(0, ((0, 1),))]))
    [1, 0]
    """
    places: dict[int, tuple[int, int]] = {}
    for number, map_ in enumerate(index.maps):
        if isinstance(map_, Affine):
            runs = {axis: abs(stride) * index.shape[axis] for axis, stride in map_.strides}
        else:
            runs = dict.fromkeys(axes_of(map_), 0)
        for axis, length in runs.items():
            places.setdefault(axis, (number, -length))
    before = (0, 0)
    for axis in range(len(index.shape)):  # a new axis stays behind the one that it follows
        before = places.setdefault(axis, before)
    return sorted(places, key=lambda axis: (places[axis], axis))


# --- reshaping -------------------------------------------------------------------------------


@deferring
def reshaped(node: Node, shape: Any, order: str = "C") -> Node:
    """Return the elements of a node in their order under another shape."""
    if isinstance(node, Sampled) and node.count is None:
        raise StreamError("a stream has no shape to change; reshape its samples with _map")
    if order == "F":
        turned = shape[::-1] if isinstance(shape, (tuple, list)) else shape
        return transposed(reshaped(transposed(node), turned))
    if order != "C":
        raise ValueError(f"order= is 'C' or 'F'; got {order!r}")
    if isinstance(node, Sampled) and node.is_sized:
        node = node.flat()
    own = known_shape(node)
    wanted = _inferred(own, shape)
    if wanted == own:
        return node
    index = _reshaping(own, wanted)
    plain = select(node, index, "the reshape")
    if isinstance(node, Stored) and not node.meta and not node.has_gaps:  # these need the node
        same = node.source.reshaped(wanted)
        if same is not None:
            return stored(same, node.writable).replaced(fields=plain._fields, meta=plain.meta)
    if index.is_box or not isinstance(plain, Select):
        return plain
    return Reshaped(node, index, plain._fields, plain.meta)


def _inferred(own: Shape, shape: Any) -> Shape:
    """Return the shape asked for, with -1 replaced by what is left."""
    wanted = [operator.index(n) for n in (shape if np.ndim(shape) else (shape,))]
    if any(map(is_endless, own)):
        raise endless("a reshape")
    size = size_of(own)
    known = size_of(tuple(n for n in wanted if n != -1))
    if wanted.count(-1) == 1 and known and not size % known:
        wanted[wanted.index(-1)] = size // known
    if min(wanted, default=1) < 0 or size_of(tuple(wanted)) != size:
        raise ValueError(f"a view of shape {own} and size {size} cannot have the shape {shape}")
    return tuple(wanted)


@functools.lru_cache(maxsize=256)  # batches are of few shapes
def _reshaping(own: Shape, wanted: Shape) -> Index:
    """Return the index of a reshape: axes that only split stay affine, others are divided."""
    if not size_of(own):
        return Index(wanted, [Affine(0, ((wanted.index(0), 1),))] * len(own))
    maps: list[Map] = [Constant(0)] * len(own)
    for sources, targets in _groups(own, wanted):
        flat = Affine(0, _strides(targets, wanted))
        if len(sources) == 1:
            maps[sources[0]] = flat
            continue
        for axis, stride in _strides(sources, own):
            maps[axis] = Computed(functools.partial(digit, stride, own[axis]), flat)
    return Index(wanted, maps)


def _strides(axes: Sequence[int], shape: Shape) -> tuple[tuple[int, int], ...]:
    """Return each axis with the number of elements that one step along it passes."""
    return tuple(
        (axis, size_of(tuple(shape[later] for later in axes[number + 1 :])))
        for number, axis in enumerate(axes)
    )


def _groups(own: Shape, wanted: Shape) -> list[tuple[list[int], list[int]]]:
    """Return which runs of axes hold the same elements, the shortest such runs.

    >>> _groups((6, 4, 5), (2, 3, 20))
    [([0], [0, 1]), ([1, 2], [2])]
    """
    sides = [(shape, [n for n, size in enumerate(shape) if size != 1]) for shape in (own, wanted)]
    ends = [[*accumulate((shape[n] for n in axes), operator.mul)] for shape, axes in sides]
    shared = [1, *sorted(set(ends[0]) & set(ends[1]))]
    groups = []
    for start, stop in pairwise(shared):
        inside = [
            [axis for axis, end in zip(axes, products, strict=True) if start < end <= stop]
            for (_, axes), products in zip(sides, ends, strict=True)
        ]
        groups.append((inside[0], inside[1]))
    return groups


# --- windows ---------------------------------------------------------------------------------


@deferring
def windows(node: Node, size: Any, step: Any = 1) -> Node:
    """Return all windows of `size` rows, each beginning `step` rows after the one before."""
    for name, value in (("size", size), ("step", step)):
        if not is_integer(value) or value < 1:
            raise ValueError(f"_windows: {name} is a number of rows from 1 on; got {value!r}")
    if isinstance(node, Sampled):
        return node.windows(size, step)
    shape = known_shape(node)
    if not shape:
        raise TypeError("_windows: the view has no rows, its shape is ()")
    if is_endless(shape[0]):
        raise endless("_windows")
    count = max(0, (shape[0] - size) // step + 1)
    maps = [Affine(0, ((0, step), (1, 1))), *whole_axes(2, len(shape) + 1)]
    return select(node, Index((count, size, *shape[1:]), maps), f"._windows({size}, {step})")
