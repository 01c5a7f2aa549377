"""Copies of data in memory, with fields, metadata and gaps."""

from __future__ import annotations

import numpy as np

from dataview.compute import evaluate, evaluate_all, rows_of
from dataview.plan.build import field, stored
from dataview.plan.fields import Attached, Fields
from dataview.plan.gaps import copied_rows, knowing, least_present, with_mask
from dataview.plan.kinds import Record
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.plan.walk import below, remade
from dataview.samples import with_lengths
from dataview.sources import ArraySource


def freeze(node: Node, writable: bool = False) -> Node:
    """Return a copy of a node's data in memory, with its fields, metadata and gaps."""
    node = with_lengths(node)
    order = below([node], Node.attached)
    own = (Record, Ragged)  # ragged rows are copied as such below
    parts = [part for part in order if not isinstance(part, own)]
    data = dict(zip(map(id, parts), evaluate_all(parts), strict=True)) if parts else {}

    def frozen(part: Node, old: Node) -> Node:
        if isinstance(part, Record):
            return part.replaced(fields=knowing(part.fields))
        if isinstance(old, Ragged):
            return copied_rows(old, rows_of, writable)
        copy = stored(ArraySource(np.array(data.pop(id(old)))), writable)
        fields = _described_as(copy.fields, old) if copy.fields.named else part.fields
        return copy.replaced(fields=fields, meta=old.meta)

    found: Node = remade(order, frozen, Node.attached)[id(node)]
    present = least_present(node)
    if present is None:
        return found
    return with_mask(found, stored(ArraySource(np.array(evaluate(present))), writable))


def _described_as(columns: Fields, old: Node) -> Fields:
    """Return the columns of a copy with the metadata of those that were copied."""
    for name, column in columns.named.items():
        if isinstance(column, Attached) and name in old.fields:
            node = column.node.replaced(meta=field(old, name).meta)
            columns = columns.with_field(name, column.of(node))
    return knowing(columns)
