"""Taking statistics: those that are needed and have no value yet get one, for good."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from types import MappingProxyType
from typing import Any

import numpy as np

from dataview.compute.kernel import FloatErrors
from dataview.compute.scattered import in_order_of_chunks
from dataview.compute.statistics.function_rows import (
    KeptRows,
    is_made_of_rows,
)
from dataview.compute.statistics.kept_rows import Keeping, RowsForLater
from dataview.compute.statistics.missing import KINDS
from dataview.compute.statistics.nodes import kind_for, of_array
from dataview.compute.statistics.passes import passes, pending
from dataview.compute.statistics.quantiles import quantiles_of
from dataview.compute.statistics.values import Wanted, values_of
from dataview.compute.ways import (
    memory_of,
)
from dataview.errors import warn
from dataview.index.locks import new_lock
from dataview.index.sizes import sizes
from dataview.plan.build import stored
from dataview.plan.kinds import (
    Elementwise,
    Reduction,
    known_dtype,
    known_shape,
    size_of,
)
from dataview.plan.node import Evaluate, Node
from dataview.plan.ragged import Ragged, places_of
from dataview.plan.statistics import STATISTICS
from dataview.plan.walk import rebuilt
from dataview.sources import ArraySource

LONG = 4
"""From so many nested statistics on, a small operand is kept for the next one."""

lock = new_lock()
"""Held while a statistic, or some of its rows, get values."""


def take(
    wanted: Sequence[Reduction], evaluate: Evaluate, later: RowsForLater | None = None
) -> None:
    """Compute the statistics that have no value yet, those of one operand in one pass.

    Rows of the same samples that are needed `later` are kept as they pass.
    """
    known: dict[Node, Node] = {}
    for groups in passes(wanted):
        if later is None:
            _take_groups(groups, known, evaluate)
        else:
            _take_and_keep(groups, known, evaluate, later)


def take_below(node: Node, evaluate: Evaluate) -> None:
    """Compute the statistics below a node that have no value yet."""
    take(pending(node), evaluate)


def take_each(wanted: Sequence[Reduction], evaluate: Evaluate) -> None:
    """Compute statistics as `take` does; each keeps its own error.

    If one of a pass fails, each is computed by itself: the others may have a value.
    """
    known: dict[Node, Node] = {}
    for groups in passes(wanted):
        alike = [other for group in groups for other in group]
        try:
            _take_groups(groups, known, evaluate)
        except Exception as error:
            if len(alike) == 1:
                alike[0].failed = error
                continue
            for other in alike:
                take_each([other], evaluate)


def _take_groups(
    groups: list[list[Reduction]], known: dict[Node, Node], evaluate: Evaluate
) -> None:
    """Compute statistics in one pass."""
    if groups[1:]:
        _check_failed(*groups)
        copy_context().run(_take_together, groups, evaluate)
    else:
        _take_group(groups[0], known, evaluate)


def _take_and_keep(
    groups: list[list[Reduction]],
    known: dict[Node, Node],
    evaluate: Evaluate,
    later: RowsForLater,
) -> None:
    """Compute statistics in one pass, or of rows that were kept, and keep what is needed later."""
    nodes = [later.data_of(alike[0].node) for alike in groups]
    if any(node is not alike[0].node for node, alike in zip(nodes, groups, strict=True)):
        for alike, node in zip(groups, nodes, strict=True):
            same = [other.replaced(node=node) for other in alike]
            _take_group(same, known, evaluate)
            for other, one in zip(alike, same, strict=True):
                _set_value(other, np.array(one.taken))
        return
    beside = later.made_with(nodes[0])
    if not beside:
        _take_groups(groups, known, evaluate)
        return
    _check_failed(*groups)
    copy_context().run(_take_together, groups, evaluate, nodes, beside)
    later.add(beside)


def _take_group(alike: list[Reduction], known: dict[Node, Node], evaluate: Evaluate) -> None:
    _check_failed(alike)
    if isinstance(alike[0].node, Ragged):
        for other in alike:
            _set_value(other, _of_ragged_rows(other, evaluate))
        return
    node = _shortened(alike[0].node, known, evaluate)
    is_of_rows = 0 in alike[0].axes and memory_of(node) is None
    if is_of_rows and all(_is_of_any_order(other) for other in alike):
        node = in_order_of_chunks(node)
    # In a copy of the context, for the same reason as in `fused`.
    copy_context().run(_take_together, [alike], evaluate, [node])


def _is_of_any_order(node: Reduction) -> bool:
    """Whether a statistic of numbers is the same in whatever order these come."""
    return not STATISTICS[node.kind].is_place and not known_dtype(node.node).hasobject


def _check_failed(*groups: list[Reduction]) -> None:
    """Raise the error of a statistic that could not be taken."""
    for other in itertools.chain(*groups):
        if other.failed is not None:
            raise other.failed


def _shortened(node: Node, known: dict[Node, Node], evaluate: Evaluate) -> Node:
    """Return a small operand of a long plan as data, computed from those of the operand before.

    So a chain such as `v - v._mean()`, repeated, is not computed from its start for each statistic.
    """
    if not isinstance(node, Elementwise) or node.levels < LONG:
        return node
    if size_of(known_shape(node)) > sizes.small_elements:
        return node

    def into(part: Any) -> list[Any]:
        return part.made_of() if isinstance(part, Elementwise) and part not in known else []

    (short,) = rebuilt([node], lambda part, old: known.get(old, part), into)
    data = stored(ArraySource(evaluate(short)), False)
    known.clear()
    known[node] = data
    return data


def _take_together(
    groups: list[list[Reduction]],
    evaluate: Evaluate,
    nodes: Sequence[Node] = (),
    beside: Mapping[Node, Keeping] = MappingProxyType({}),
) -> None:
    """Compute statistics, each group over the same axes of a node, in one pass.

    The rows of other nodes that it reads `beside` these are kept.
    """
    nodes = nodes or [alike[0].node for alike in groups]
    counted = [
        Wanted(own, node)
        for alike, node in zip(groups, nodes, strict=True)
        if (own := [other for other in alike if other.kind in KINDS])
    ]
    kept = _rows_to_keep(groups, beside)
    errors = FloatErrors()
    values = values_of(counted, evaluate, errors, kept) if counted or kept else []
    for other in itertools.chain(*(one.statistics for one in counted)):
        _warn_of_few(other)
    errors.report()
    for one, found in zip(counted, values, strict=True):
        for other, value in zip(one.statistics, found, strict=True):
            _set_value(other, value)
    for other in itertools.chain(*groups):
        if other.taken is None:
            rows = kept.get(other.node)
            data = None if rows is None else rows.node()
            _set_value(other, quantiles_of(other, evaluate, data))


def _rows_to_keep(
    groups: list[list[Reduction]], kept: Mapping[Node, Keeping]
) -> dict[Node, Keeping]:
    """Return what keeps the rows of nodes of which quantiles are found, if functions make them.

    Those of some nodes are `kept` anyway.
    """
    exact = [
        other
        for other in itertools.chain(*groups)
        if other.kind not in KINDS and not other.options["approx"]
    ]
    nodes = dict.fromkeys(other.node for other in exact if is_made_of_rows(other.node))
    return {**{node: KeptRows(node) for node in nodes if node not in kept}, **kept}


def _of_ragged_rows(node: Reduction, evaluate: Evaluate) -> np.ndarray:
    """Return a statistic of each ragged row; rows of one shape are computed together."""
    assert isinstance(node.node, Ragged)
    rows, place = node.node.merged().relaid(), row_axis(node)
    fewer = len(node.node.extents) - len(rows.extents)
    axes = tuple(sorted({max(1, axis - fewer) for axis in node.axes}))
    over = axes if len(axes) > 1 else axes[0]
    layout, shape = rows.layout, known_shape(node)
    out = np.empty((shape[place], *shape[:place], *shape[place + 1 :]), node.dtype)
    most = max(1, sizes.part_bytes // known_dtype(rows).itemsize)
    start = 0
    while start < rows.count:
        stop = int(layout.offsets.searchsorted(layout.offsets[start] + most, "right")) - 1
        stop = min(max(stop, start + 1), rows.count)
        part = rows.rows(range(start, stop))
        values, own = part.gathered(lambda under, places: evaluate(places_of(under, places)))
        for alike in own.alike():
            lengths = own.lengths()[alike[0]].tolist()
            dense = values[own.part(alike)[0]].reshape(len(alike), *lengths, *values.shape[1:])
            kind, data = kind_for(node.kind, dense.dtype), stored(ArraySource(dense))
            one = of_array(kind, data, over, node.keepdims, node.options)
            found = np.moveaxis(evaluate(one), place, 0)
            out[start + alike] = found.reshape(len(alike), *out.shape[1:])
        start = stop
    return np.moveaxis(out, 0, place)


def row_axis(node: Reduction) -> int:
    """Return the axis of a statistic along which it has values of rows."""
    return np.ndim(node.options.get("q", 0))


def _set_value(node: Reduction, value: np.ndarray) -> None:
    """Set a statistic's value for good, unless another thread has done so."""
    with lock:
        if node.taken is None:
            if node.rows is not None:
                have = node.rows.have
                np.moveaxis(value, row_axis(node), 0)[have] = node.rows.values[have]
                node.rows = None
            value.flags.writeable = False
            node.taken = value


# --- warnings --------------------------------------------------------------------------------


def _warn_of_few(node: Reduction) -> None:
    """Warn of too few elements for a mean or a deviation, as NumPy does."""
    whole = node.node.shape
    if whole is None or known_dtype(node.node).names:  # of a stream; of pairs they are counted
        return
    what = STATISTICS[node.kind]
    if not what.is_average or what.leaves_out_nan:  # others warn of what they find missing
        return
    count = math.prod([whole[axis] for axis in node.axes])
    if node.kind == "mean" and not count:
        warn("Mean of empty slice")
    if node.kind != "mean" and node.options.get("ddof", 0) >= count:
        warn("Degrees of freedom <= 0 for slice")
