"""Copies of data in memory, with fields, metadata and gaps."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataview.compute import copied_rows, evaluate, evaluate_all
from dataview.index import is_endless
from dataview.plan.build import field, stored, with_fields
from dataview.plan.fields import Attached, Fields
from dataview.plan.gaps import knowing, least_present, telling, with_mask
from dataview.plan.kinds import Record, Sampled
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.plan.walk import below, rebuilt, remade
from dataview.samples import (
    NumberedSamples,
    RaggedSamples,
    Stream,
    Undeclared,
    read_once,
    stack_nodes,
    with_lengths,
)
from dataview.sources import ArraySource, made_once


def freeze(node: Node, writable: bool = False) -> Node:
    """Return a copy of a node's data in memory, with its fields, metadata and gaps."""
    with made_once():
        return _frozen(node, writable)


def _frozen(node: Node, writable: bool) -> Node:
    node = telling(rebuilt([with_lengths(node)], _with_gaps, Node.attached)[0])
    order = below([node], Node.attached)
    own = (Record, Ragged)  # ragged rows are copied as such below
    parts = [part for part in order if not isinstance(part, own)]
    data = dict(zip(map(id, parts), evaluate_all(parts), strict=True)) if parts else {}

    def frozen(part: Node, old: Node) -> Node:
        if isinstance(part, Record):
            return part.replaced(fields=knowing(part.fields))
        if isinstance(old, Ragged):
            return copied_rows(old, writable)
        copy = stored(ArraySource(np.array(data.pop(id(old)))), writable)
        fields = _described_as(copy.fields, old) if copy.fields.named else part.fields
        return copy.replaced(fields=fields, meta=old.meta)

    found: Node = remade(order, frozen, Node.attached)[id(node)]
    present = least_present(node)
    if present is None:
        return found
    return with_mask(found, stored(ArraySource(np.array(evaluate(present))), writable))


def _with_gaps(part: Any, old: Any) -> Any:
    """Return samples that may tell gaps, of which nothing is known yet, as rows that do."""
    if not isinstance(part, Sampled):
        return part if part is old else with_fields(part, part.fields)
    is_of_rows = isinstance(part, (Stream, NumberedSamples)) and not isinstance(part, RaggedSamples)
    if not is_of_rows or part.shape is not None:
        return part
    if isinstance(part, Stream):
        may_tell, ends = True, part.samples.finite
    else:
        may_tell = not isinstance(part, Undeclared) or _has_gaps(part.rows)
        ends = part.count is None or not is_endless(part.count)
    if not (may_tell and ends):
        return part
    if isinstance(part, NumberedSamples) and part.count is None:
        return part.probed()
    samples = _samples(part)
    is_made = samples and not any(isinstance(one, Sampled) for one in samples)
    return stack_nodes(samples) if is_made else part


def _samples(node: Any) -> list[Node]:
    if isinstance(node, Stream):
        return [row.sample() for row in read_once(node.samples)]
    numbers = node.numbers().tolist()
    with node.ahead(numbers):
        return [node.sample(number) for number in numbers]


def _has_gaps(node: Node) -> bool:
    return any(part.has_gaps for part in below([node], Node.attached))


def _described_as(columns: Fields, old: Node) -> Fields:
    """Return the columns of a copy with the metadata of those that were copied."""
    for name, column in columns.named.items():
        if isinstance(column, Attached) and name in old.fields:
            node = column.node.replaced(meta=field(old, name).meta)
            columns = columns.with_field(name, column.of(node))
    return knowing(columns)
