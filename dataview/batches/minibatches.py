"""Minibatches: the rows of a view, in the order of a sampler, grouped into batches.

Batches that are all of one size are index algebra alone: two view axes over one row axis, so that
every law of views holds for them.  Where the last one is short, or a sampler decides where to cut,
they are a kind of node of their own, `Batches`, which hands out each as a part of the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dataview import samplers
from dataview.batches.dealing import Dealing
from dataview.batches.padding import PaddedRows
from dataview.batches.streams import of_stream
from dataview.batches.uneven import Batches, EqualCuts
from dataview.errors import StreamError
from dataview.index import (
    ENDLESS,
    LINE,
    Affine,
    Array,
    Computed,
    Index,
    Map,
    compose,
    extend,
    extent,
    identity,
    is_endless,
)
from dataview.plan.build import select
from dataview.plan.kinds import Record, Sampled, Select, known_shape
from dataview.plan.node import Node
from dataview.plan.walk import below, rebuilt
from dataview.samplers import count_rows, rows_by
from dataview.samples import Stream, at_epoch


def grouped(
    node: Node,
    batch_size: int | None,
    tail: str,
    sampler: Any,
    seed: Any,
    epoch: int,
    num_samples: int | None,
    num_batches: int | None,
) -> Node:
    """Return the view of the minibatches of a node's rows."""
    drawn = at_epoch(node, epoch) if epoch else node
    if isinstance(drawn, Stream):
        return of_stream(drawn, batch_size, tail, sampler, seed, epoch, num_samples, num_batches)
    count = count_rows(node, "_minibatches")
    chosen = samplers.sampler_of(sampler, node.fields, batch_size, tail)
    chosen = chosen if epoch else chosen.limited(num_samples, num_batches)
    data, orders = samplers.RowsOf(node, count), dict[int, samplers.Order]()
    node = rebuilt([drawn], lambda part, old: _in_order(part, orders), _members)[0]
    if is_endless(count):
        return _endless(node, chosen, batch_size, num_samples, num_batches)
    order = chosen.order(data, seed, epoch)
    rows: Map = LINE if _is_plain(chosen) else Computed(order, LINE)
    if order.cuts is not None:
        _check_cuts(chosen, batch_size, tail)
        number = samplers.batches_of_epoch(order.cuts, num_samples, num_batches)
        total = order.cuts.bounds(number - 1)[1] if number else 0
        return Batches(rows_by(node, rows, total), order.cuts, identity((number,)), None)
    if batch_size is None:
        raise ValueError("give a batch size, or a sampler that decides about the batches")
    total = samplers.samples_of_epoch(order, count, batch_size, num_samples, num_batches)
    return _of_size(node, rows, total, batch_size, tail)


def _is_plain(sampler: samplers.Sampler) -> bool:
    return isinstance(sampler, samplers.linear) and sampler.label is None


def _check_cuts(sampler: samplers.Sampler, size: int | None, tail: str) -> None:
    if tail != "short" or (size is not None and not sampler.sized):
        named = "tail=" if sampler.sized else "batch_size= and tail="
        raise ValueError(f"{sampler!r} decides about the batches; leave {named} out")


def _endless(
    node: Node,
    sampler: samplers.Sampler,
    size: int | None,
    num_samples: int | None,
    num_batches: int | None,
) -> Node:
    if not _is_plain(sampler) or size is None:
        raise StreamError("a view that never ends is visited in order, by batches of one size")
    if num_samples is None and num_batches is None:
        if _has_axes(node):
            return _even(node, LINE, ENDLESS, size)
        return Batches(node, EqualCuts(ENDLESS, size), identity((ENDLESS,)), size)
    order = samplers.Order(np.asarray, None)
    total = samplers.samples_of_epoch(order, num_samples or 0, size, num_samples, num_batches)
    return _of_size(node, LINE, total, size, "short")


def _of_size(node: Node, rows: Map, total: int, size: int, tail: str) -> Node:
    """Return batches of one size; `tail` says what becomes of the rows that are left."""
    end = Dealing(size, tail).end(0, total)
    if end > total:
        rows = _padded(rows, total)
    total = end
    if total % size == 0 and _has_axes(node):
        return _even(node, rows, total // size, size)
    cuts = EqualCuts(total, size)
    return Batches(rows_by(node, rows, total), cuts, identity((cuts.count,)), size)


def _has_axes(node: Node) -> bool:
    """Whether the samples' axes are known, as index algebra needs."""
    return not any(isinstance(part, Sampled) for part in below([node], _members))


def _members(part: Node) -> list[Any]:
    return part.attached() if isinstance(part, Record) else []


def _padded(rows: Map, total: int) -> Map:
    inner = Computed(PaddedRows(total), LINE)
    return Computed(rows.function, inner) if isinstance(rows, Computed) else inner


def _even(node: Node, rows: Map, number: int, size: int) -> Node:
    """Return batches of one size: the index splits the row axis into two axes."""
    shape = known_shape(node)
    pair = Affine(0, ((0, size), (1, 1)))
    over = compose(Index((number * size,), [rows]), Index((number, size), [pair]))
    return select(node, extend(over, shape[1:]), "_minibatches()")


def _in_order(node: Node, orders: dict[int, samplers.Order]) -> Node:
    """Return a node whose rows, listed or computed, follow an order that it shares with others.

    The order remembers the last run of row numbers, so that all fields of a batch compute it once.
    """
    if type(node) is not Select or not node.index.maps:
        return node
    first, *rest = node.index.maps
    if isinstance(first, Array) and first.axes == (0,):
        order = orders.setdefault(
            id(first.values), samplers.Order(first.values.__getitem__, len(first.values))
        )
        rows = Computed(order, LINE)
    elif isinstance(first, Computed) and not isinstance(first.function, samplers.Order):
        last = extent(first.inner, node.index.shape) if isinstance(first.inner, Affine) else None
        if last is None:
            return node
        order = samplers.Order(first.function, last[1] + 1)
        order = orders.setdefault(id(first.function), order)
        rows = Computed(order, first.inner, first.offset, first.stride)
    else:
        return node
    index = Index(node.index.shape, [rows, *rest])
    return Select(node.node, index, node._fields, node.meta)
