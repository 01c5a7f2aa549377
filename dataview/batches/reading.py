"""A quick way to one batch: a run of an order's rows, and one gather."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dataview import gather
from dataview.batches.uneven import LINE, Batches
from dataview.evaluation import lent
from dataview.index import Affine, Computed, Constant, Index, Map, axes_of, renumbered
from dataview.nodes import Node, Select
from dataview.samplers import Order

__all__ = ["reader_of"]

Reader = Callable[[int], np.ndarray]
Run = Callable[[int, int], np.ndarray]


def reader_of(node: Node) -> Reader | None:
    """Return a quick way to read one sample of a node by its number, None if there is none."""
    if node.reader is None:
        node.reader = _reader(node) or False
    return node.reader or None


def _reader(node: Node) -> Reader | None:
    if isinstance(node, Batches):
        if node.index.maps != (LINE,):
            return None
        found, cuts = _gathering(node.rows), node.cuts
        return None if found is None else lambda number: found(*cuts.bounds(number))
    if not isinstance(node, Select) or not node.index.maps:
        return None
    rows = node.index.maps[0]
    if not isinstance(rows, Computed) or not isinstance(rows.inner, Affine):
        return None
    run, strides = _gathering(node), dict(rows.inner.strides)
    if run is None or strides.get(1) != 1 or set(strides) != {0, 1}:
        return None
    start, step, size = rows.inner.offset, strides[0], node.index.shape[1]
    return lambda number: run(start + number * step, start + number * step + size)


def _gathering(node: Node) -> Run | None:
    """Return the function that reads a run of positions of rows that an order has."""
    memory = lent(node)
    if memory is not None:
        lines: np.ndarray = memory
        return lambda start, stop: lines[start:stop]
    if not isinstance(node, Select) or not node.index.maps:
        return None
    rows, *rest = node.index.maps
    whole = lent(node.node)
    if whole is None or not isinstance(rows, Computed) or not isinstance(rows.inner, Affine):
        return None
    over = axes_of(rows)
    if not all(isinstance(m, (Constant, Affine)) and not {*over, 0} & {*axes_of(m)} for m in rest):
        return None
    others = [axis for axis in range(len(node.index.shape)) if axis not in over]
    box = renumbered(Index(node.index.shape, rest), others)
    shifted = [_one_later(map_) for map_ in box.maps]
    memory = gather.box(whole, Index((len(whole), *box.shape), [LINE, *shifted]))
    order = rows.function
    if not isinstance(order, Order):
        return None
    numbers, stride, offset = order.rows, rows.stride, rows.offset
    if (stride, offset) != (1, 0):
        return lambda start, stop: memory[numbers(start, stop) * stride + offset]
    if memory.flags.c_contiguous:  # otherwise `take` would copy all of the memory first
        return lambda start, stop: memory.take(numbers(start, stop), 0)
    return lambda start, stop: memory[numbers(start, stop)]


def _one_later(map_: Map) -> Map:
    if isinstance(map_, Affine):
        return Affine(map_.offset, tuple((axis + 1, stride) for axis, stride in map_.strides))
    return map_
