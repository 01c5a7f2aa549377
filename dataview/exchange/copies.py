"""Copies of data in memory, with fields, metadata and gaps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np

from dataview.compute import copied_rows, evaluate, evaluate_all, rows_of
from dataview.index import Rows, is_endless
from dataview.plan.build import batch_of, field, stored, with_fields
from dataview.plan.fields import NO_META, Attached, Field, Fields
from dataview.plan.gaps import knowing, knowing_masks, least_present, telling, with_mask
from dataview.plan.kinds import Driven, Record, Sampled, Select, Stored, members
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.plan.walk import below, rebuilt, remade
from dataview.samples import (
    NumberedSamples,
    RaggedSamples,
    Stream,
    Undeclared,
    collected,
    described,
    read_once,
    stack_nodes,
    with_lengths,
)
from dataview.sources import ArraySource, made_once


def freeze(node: Node, writable: bool = False) -> Node:
    """Return a copy of a node's data in memory, with its fields, metadata and gaps."""
    if isinstance(node, Ragged) and _is_plain(node):
        return copied_rows(node, writable)
    with made_once():
        columns = node.attached() if isinstance(node, Record) else []
        if columns and all(map(_is_plain, columns)):
            copies = _copies_of(columns, writable)
            fields = node.fields.with_nodes(lambda column: copies[id(column)])
            return knowing_masks(node, fields)
        return _frozen(node, writable)


def frozen_rows(node: Node, rows: Rows) -> Node | None:
    """Return a read-only copy of rows that are ragged or of a record in memory, None of others.

    It is the copy of the part that these rows are, which takes a node for each column to make.
    """
    if isinstance(rows, int):
        group = node.group(rows)
        return None if group is None else frozen_rows(*group)
    if isinstance(node, Ragged):
        return copied_rows(node, False, rows) if _is_plain(node) else None
    if not isinstance(node, Record) or node.rank != 1 or node.are_columns:
        return None
    fields = node.fields.named.values()
    is_more = not fields or node.label is not None or node.mask is not None
    if is_more or not all(field.follows_rows and _is_copied(field) for field in fields):
        return None
    columns = {name: part.node for name, part in members(node).items()}
    copies: dict[int, Node] = {}
    for column in columns.values():
        if isinstance(column, Ragged):
            copies[id(column)] = copied_rows(column, False, rows)
        elif id(column) not in copies:
            copies[id(column)] = stored(ArraySource(np.array(rows_of(column, rows))), False)
    return batch_of({name: copies[id(column)] for name, column in columns.items()}, node, len(rows))


def _is_copied(field: Field) -> bool:
    """Whether rows of a column are copied out of memory, with nothing else to look at."""
    if not isinstance(field, Attached):
        return False
    node = field.node
    if node.meta is not NO_META or node.fields.named or not _is_plain(node):
        return False
    while isinstance(node, (Select, Ragged)):
        node = node.values if isinstance(node, Ragged) else node.node
    return isinstance(node, Stored) and node.source.memory is not None


def _is_plain(node: Node) -> bool:
    """Whether nothing but its own data has to be looked at for a copy of a node."""
    if node.has_gaps or node.mask is not None or node.attached():
        return False
    if isinstance(node, Ragged):
        return not node.leaf().has_gaps
    return not isinstance(node, (Sampled, Record, Driven))


def _copies_of(parts: Iterable[Node], writable: bool) -> dict[int, Node]:
    """Return copies of arrays and ragged rows by the identity of each."""
    nodes = {id(part): part for part in parts}.values()
    arrays = [node for node in nodes if not isinstance(node, Ragged)]
    data = dict(zip(map(id, arrays), evaluate_all(arrays), strict=True)) if arrays else {}
    found: dict[int, Node] = {}
    for node in nodes:
        if isinstance(node, Ragged):
            found[id(node)] = copied_rows(node, writable)
            continue
        copy = stored(ArraySource(np.array(data.pop(id(node)))), writable)
        copy._fields = _described_as(copy.fields, node) if copy.fields.named else node.fields
        copy.meta = node.meta  # quicker than `replaced`
        found[id(node)] = copy
    return found


def _frozen(node: Node, writable: bool) -> Node:
    node = telling(rebuilt([_all_of(node)], _with_gaps, Node.attached)[0])
    order = below([node], Node.attached)
    copies = _copies_of([part for part in order if not isinstance(part, Record)], writable)

    def finer(sample: Record, old: Record) -> Fields:
        """Return the columns of a sample, which know if only some of their values are missing."""
        fields = sample.fields
        for name, column in fields.named.items() if not sample.rank else ():
            lacks = isinstance(column, Attached) and field(old, name).has_gaps
            present = least_present(field(old, name)) if lacks else None
            if isinstance(column, Attached) and present is not None and present.shape:
                there = stored(ArraySource(np.array(evaluate(present))), writable)
                fields = fields.with_field(name, column.of(with_mask(column.node, there)))
        return fields

    def frozen(part: Node, old: Node) -> Node:
        if isinstance(part, Record):
            return knowing_masks(part, finer(part, cast(Record, old)))
        copy = copies[id(old)]
        is_whole = isinstance(old, Ragged) or (copy.dtype is not None and copy.dtype.names)
        return copy if is_whole else copy.replaced(fields=part.fields)

    found: Node = remade(order, frozen, Node.attached)[id(node)]
    present = least_present(node)
    if present is None:
        return found
    return with_mask(found, stored(ArraySource(np.array(evaluate(present))), writable))


def _all_of(node: Node) -> Node:
    """Return samples of which only reading them all tells how many or how long they are, as rows.

    Who asks for a copy asks for all of a stream, whether its samples are alike or not.
    """
    if isinstance(node, Stream) and node.sample is not None and not node.samples.finite:
        return collected(node)
    return with_lengths(node)


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
        return [row.sample() for row in read_once(described(node))]
    numbers = node.numbers().tolist()
    with node.ahead(numbers):
        return [node.sample(number) for number in numbers]


def _has_gaps(node: Node) -> bool:
    parts = list(below([node], Node.attached))
    lists = [part.leaf() for part in parts if isinstance(part, Ragged)]
    return any(part.has_gaps for part in (*parts, *lists))


def _described_as(columns: Fields, old: Node) -> Fields:
    """Return the columns of a copy with the metadata of those that were copied."""
    for name, column in columns.named.items():
        if isinstance(column, Attached) and name in old.fields:
            node = column.node.replaced(meta=field(old, name).meta)
            columns = columns.with_field(name, column.of(node))
    return knowing(columns)
