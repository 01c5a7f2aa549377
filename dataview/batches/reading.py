"""Reads one batch quickly: the row numbers of a run of the order, then one gather, no plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from dataview.batches.uneven import Batches
from dataview.compute import Taker, memory_of, taker_of, taker_of_memory
from dataview.index import LINE, Affine, Computed, Index, axes_of, gather, leading, renumbered
from dataview.plan.kinds import Select
from dataview.plan.node import Node
from dataview.samplers import Order

Reader: TypeAlias = "Callable[[int], np.ndarray | None]"
Run: TypeAlias = "Callable[[int, int], np.ndarray | None]"


def reader_of(node: Node) -> Reader | None:
    """Return a function that reads one batch by its number without a plan, None if none can."""
    if node.reader is None:
        node.reader = _reader(node) or False
    return node.reader or None


def _reader(node: Node) -> Reader | None:
    if isinstance(node, Batches):
        if node.index.maps != (LINE,):
            return None
        found, cuts = _run_by(taker_of(node.rows)) or _run_of_order(node.rows), node.cuts
        return None if found is None else lambda number: found(*cuts.bounds(number))
    if not isinstance(node, Select) or not node.index.maps:
        return None
    rows = node.index.maps[0]
    line = rows.inner if isinstance(rows, Computed) else rows
    if not isinstance(line, Affine):
        return None
    strides = dict(line.strides)
    if strides.get(1) != 1 or set(strides) != {0, 1}:
        return None
    if isinstance(rows, Computed):
        run = _run_of_order(node)
    else:
        run = _run_by(taker_of(node.node) if _has_whole_rows(node) else None)
    start, step, size = line.offset, strides[0], node.index.shape[1]
    if run is None:
        return None
    return lambda number: run(start + number * step, start + number * step + size)


def _run_by(take: Taker | None) -> Run | None:
    return None if take is None else lambda start, stop: take(slice(start, stop))


def _has_whole_rows(node: Select) -> bool:
    """Whether a selection leaves all axes behind the rows as they are."""
    return leading(node.index, (node.node.shape or ())[1:]) is not None


def _run_of_order(node: Node) -> Run | None:
    """Return the function that reads rows at a run of positions of an order."""
    if not isinstance(node, Select) or not node.index.maps:
        return None
    rows = node.index.maps[0]
    if not isinstance(rows, Computed) or not isinstance(rows.inner, Affine):
        return None
    order = rows.function
    if not isinstance(order, Order):
        return None
    numbers, stride, offset = order.rows, rows.stride, rows.offset
    take = _box_taker(node) if memory_of(node.node) is not None else None
    if take is None and _has_whole_rows(node):
        take = taker_of(node.node)
    if take is None:
        return None
    if (stride, offset) != (1, 0):
        return lambda start, stop: take(numbers(start, stop) * stride + offset)
    return lambda start, stop: take(numbers(start, stop))


def _box_taker(node: Select) -> Taker | None:
    """Return what takes rows of an array in memory of which the node selects a box of columns."""
    whole = memory_of(node.node)
    over = axes_of(node.index.maps[0])
    rest = Index(node.index.shape, node.index.maps[1:])
    if not rest.is_box or any({*over, 0} & {*axes_of(map_)} for map_ in rest.maps):
        return None
    assert whole is not None
    others = [axis for axis in range(len(rest.shape)) if axis not in over]
    box = renumbered(rest, [over[0], *others])
    return taker_of_memory(
        gather.box(whole, Index((len(whole), *box.shape[1:]), [LINE, *box.maps]))
    )
