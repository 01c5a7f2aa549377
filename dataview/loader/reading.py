"""Rows of the nodes of a batch, read as arrays; samples as nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Any

import numpy as np

from dataview.compute import evaluate, reader_of, rows_of
from dataview.exchange import object_node, pack_like
from dataview.index import gather, parse
from dataview.loader import ragged
from dataview.loader.chunks import KeptChunks, may_be_kept
from dataview.loader.collate import sample_of
from dataview.plan.build import record, stored
from dataview.plan.fields import NO_META, Attached
from dataview.plan.gaps import (
    MASK_OF,
    knowing_masks,
    lacking_at,
    least_present,
    present_in,
    telling,
    with_mask,
)
from dataview.plan.kinds import Driven, Record, Sampled, members
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.samples import NumberedSamples, known_lengths
from dataview.sources import ArraySource

OWN = ""
"""The name of an array itself, beside its computed fields."""


NO_NODES: Mapping[str, Node] = MappingProxyType({})


def reader(node: Node, chunks: tuple[int, int] | None = None) -> Callable[[np.ndarray], Any]:
    """Return the function that reads rows of a node as arrays that share no memory with it."""
    if isinstance(node, Record):
        parts = {name: reader(part.node, chunks) for name, part in members(node).items()}
        return lambda rows: {name: read(rows) for name, read in parts.items()}
    own = node.node if isinstance(node, Driven) else node
    if isinstance(own, Ragged):
        return ragged.reader(own)
    named = {name: reader(part, chunks) for name, part in _beside(node, own).items()}
    if not named:
        read = reader_of(own)
        return KeptChunks(own, read, *chunks) if chunks and may_be_kept(own) else read
    return lambda rows: {
        OWN: rows_of(own, rows),
        **{name: read(rows) for name, read in named.items()},
    }


def lone_reader(node: Node, chunks: tuple[int, int] | None = None) -> Callable[[np.ndarray], Any]:
    """Return the function that reads rows of data without a name, as nodes if they have gaps.

    The gaps of columns that have names are read as columns of their own.
    """
    present = None if isinstance(node, (Record, Ragged)) else least_present(node, 1)
    read = reader(node, chunks)
    if present is None:
        return read
    there = reader(present, chunks)
    return lambda rows: with_gaps(read(rows), there(rows))


def with_gaps(values: Any, there: np.ndarray) -> Any:
    """Return what was read of data without a name, as a node that knows its gaps."""
    if isinstance(values, Mapping):
        return {**values, OWN: with_gaps(values[OWN], there)}
    return with_mask(stored(ArraySource(values)), stored(ArraySource(there), False))


def with_known_masks(node: Node, rows: Any) -> Any:
    """Return rows that were read of data such that masks among the fields know their columns.

    So they do where nothing else tells what the fields are, as of a stream that was not probed.
    """
    if isinstance(node, Record) and isinstance(rows, Mapping):
        parts = members(node)
        return {name: with_known_masks(parts[name].node, part) for name, part in rows.items()}
    if not node.meta.get(MASK_OF):
        return rows
    return stored(ArraySource(rows)).replaced(meta=node.meta)


def _beside(node: Node, own: Node) -> dict[str, Node]:
    """Return the fields attached to the rows of a node; members of its dtype are not among them."""
    if own.dtype is not None and own.dtype.names is not None:
        return {}
    parts = node.fields.named.items()
    return {name: p.node for name, p in parts if isinstance(p, Attached) and p.axes is not None}


def has_samples(node: Node) -> bool:
    """Whether a node contains samples that are made one by one."""
    if isinstance(node, Record):
        return any(has_samples(part.node) for part in members(node).values())
    return isinstance(node, Sampled) and not node.is_sized


def no_rows(node: Node) -> Any:
    """Return none of the rows of a node, as far as it is known what these are like."""
    like = known_lengths(node)
    if like is not None:
        return like.rows_of([])
    if node.shape:
        return reader(node)(np.empty(0, np.intp))
    parts = {n: p.node for n, p in node.fields.named.items() if isinstance(p, Attached)}
    if parts:
        return {name: no_rows(part) for name, part in parts.items()}
    row = node.row_extents if isinstance(node, Sampled) else None
    return np.empty((0, *(n or 0 for n in row or ())), node.dtype)


def one_row(node: Node, row: int) -> Any:
    if isinstance(node, Record):
        return {name: one_row(part.node, row) for name, part in members(node).items()}
    if isinstance(node, NumberedSamples):
        return sample_of(telling(node.part(parse(row, (node.count or 0,))).probed()), True)
    return picked(lone_reader(node)(np.array([row])), 0)


def sample_node(value: Any, parts: Mapping[str, Node] = NO_NODES) -> Node:
    """Return a sample as a read-only node, with the metadata of the data that it is of.

    `parts` are the nodes of these data by name.
    """
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        inside = {**parts, **_inside(parts, OWN)}
        named = {n: sample_node(v, _inside(inside, n)) for n, v in value.items() if n != OWN}
        whole = record(named, 0)
        meta = parts[OWN].meta if OWN in parts else NO_META
        return knowing_masks(whole).replaced(meta=meta)
    if isinstance(value, Node):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        found = stored(ArraySource(gather.frozen(np.asarray(value))))
        if OWN in parts:
            found.meta = parts[OWN].meta
        return found
    if isinstance(value, (str, bytes, list, bool, int, float, complex)):
        try:
            return stored(ArraySource(np.asarray(value)))
        except ValueError:  # a list of lists of different lengths
            pass
    return object_node(value)


def _inside(parts: Mapping[str, Node], name: str) -> Mapping[str, Node]:
    """Return the nodes of a part of the data, that of itself among them."""
    part = parts.get(name)
    if part is None:
        return NO_NODES
    inside = {n: p.node for n, p in part.fields.named.items() if isinstance(p, Attached)}
    return inside | {OWN: part}


def picked(batch: Any, number: int) -> Any:
    if isinstance(batch, Mapping):
        return {name: picked(part, number) for name, part in batch.items()}
    if isinstance(batch, Ragged):
        return ragged.row_of(batch, number)
    if isinstance(batch, Node):
        present = present_in(batch)
        if present is None:  # a mask that knows its column
            return stored(ArraySource(evaluate(batch)[number]), False).replaced(meta=batch.meta)
        return lacking_at((number,), evaluate(batch), evaluate(present))
    return batch[number]


def read_part_by_part(
    readers: Mapping[str, Callable[[np.ndarray], Any]],
    rows: np.ndarray,
    by_part: Iterator[np.ndarray],
    late: AbstractSet[str],
) -> dict[str, Any]:
    """Return rows that lie in parts: those of a part are read of all fields, then those of others.

    `late` are fields whose ragged rows would be read later.
    """
    found: list[dict[str, Any]] = []
    places: list[np.ndarray] = []
    for own in by_part:
        block = {name: read(rows[own]) for name, read in readers.items()}
        block |= {name: ragged.read_now(block[name]) for name in late & block.keys()}
        found.append(block)
        places.append(own)
    if len(found) == 1:
        return found[0]
    order = np.concatenate(places)
    back = None if (order[1:] > order[:-1]).all() else order.argsort()
    return {name: joined([block[name] for block in found], back) for name in readers}


def joined(batches: Sequence[Any], order: np.ndarray | None = None) -> Any:
    """Return the rows of several batches as one batch; the order is theirs, or the one given."""
    if isinstance(batches[0], Mapping):
        return {name: joined([batch[name] for batch in batches], order) for name in batches[0]}
    if isinstance(batches[0], Node):
        return ragged.joined(batches, order)
    found = np.concatenate(batches)
    return found if order is None else found[order]


def without_own(found: dict[str, Any]) -> Any:
    """Return the array of data that has no fields beside it, else the mapping by field."""
    return found[OWN] if len(found) == 1 and OWN in found else found


def without_rows(batch: Any) -> Any:
    """Return a batch with none of its rows; None for an object that has none to leave out."""
    if isinstance(batch, Node):
        return ragged.joined([batch], np.empty(0, np.intp))
    if isinstance(batch, Mapping):
        return {name: without_rows(part) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return pack_like(batch, list(map(without_rows, batch)))
    return batch[:0] if getattr(batch, "shape", ()) else None
