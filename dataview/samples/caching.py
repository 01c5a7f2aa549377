"""Rows of a view kept in memory, until something that they are computed from is written.

A write through a view notifies all row stores; a store that may have read what was written forgets
its rows.  A write to the array itself, or by another program, goes unnoticed.
"""

from __future__ import annotations

import math
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dataview.compute import evaluate, listen, maker_of
from dataview.errors import StreamError, UndeclaredError
from dataview.index import parse
from dataview.index.locks import new_lock
from dataview.plan.build import field, record, select, with_fields
from dataview.plan.fields import Attached, Fields
from dataview.plan.gaps import knowing, present_in, with_mask
from dataview.plan.kinds import (
    Driven,
    Mapped,
    Record,
    Sampled,
    Stored,
    known_dtype,
    known_shape,
    members,
)
from dataview.plan.node import Node, Part
from dataview.plan.walk import below, rebuilt
from dataview.samples.collecting import is_ragged
from dataview.samples.mapping import deterministic
from dataview.samples.row_functions import guarded, key_of
from dataview.samples.streams import Stream
from dataview.sources import Memo, Source

ENTRY_BYTES = 300
"""About what a row costs beside its data."""


class RowStore:
    """The rows of several nodes that were used last, in a bounded number of bytes.

    It pickles empty.  Threads may share it: a row is complete before it is put in.
    """

    __slots__ = ("__weakref__", "kept", "limit", "lock", "owners", "sources", "used", "version")

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.lock = new_lock()
        self.owners: dict[int, Node] = {}
        self.sources: dict[int, list[Source]] = {}
        self.version = 0
        self.forget()
        listen(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowStore, (self.limit,)

    def forget(self) -> None:
        """Forget all rows; rows whose computation has begun before are not put in either."""
        self.kept: OrderedDict[tuple[int, int], dict[str, np.ndarray]] = OrderedDict()
        self.used = 0
        self.version += 1

    def written(self, is_changed: Callable[[Source], bool]) -> None:
        """Forget all rows if any of them may come from a source that was changed."""
        with self.lock:
            known = [other for sources in self.sources.values() for other in sources]
            if any(map(is_changed, known)):
                self.forget()

    def lookup(
        self, group: int, owner: Node, numbers: list[int]
    ) -> tuple[int, dict[int, dict[str, np.ndarray]]]:
        """Return the rows that are kept of an owner, and the version of the store."""
        with self.lock:
            known = self.owners.get(group)
            if known is not owner:
                if known is not None:  # its parts have been replaced
                    self.forget()
                self.owners[group] = owner
                stored = (part for part in below([owner]) if isinstance(part, Stored))
                self.sources[group] = [part.source for part in stored]
            there = {number: (group, number) for number in numbers if (group, number) in self.kept}
            for key in there.values():
                self.kept.move_to_end(key)
            return self.version, {number: self.kept[key] for number, key in there.items()}

    def keep(self, group: int, version: int, rows: dict[int, dict[str, np.ndarray]]) -> None:
        """Keep rows, unless something has been written since `version`; the oldest make room."""
        with self.lock:
            if version != self.version:
                return
            for number, row in rows.items():
                size = _bytes_of(row)
                if size <= self.limit and (group, number) not in self.kept:
                    self.kept[group, number] = row
                    self.used += size
            while self.used > self.limit:
                _, row = self.kept.popitem(last=False)
                self.used -= _bytes_of(row)


def _bytes_of(row: dict[str, np.ndarray]) -> int:
    size = ENTRY_BYTES
    for part in row.values():
        size += part.nbytes
        if part.dtype.hasobject:
            size += sum(map(sys.getsizeof, part.ravel().tolist()))
    return size


class CachedRows(Part):
    """Makes rows by looking them up in a store; the members of one group are computed together."""

    __slots__ = ("group", "store")

    def __init__(self, store: RowStore, group: int) -> None:
        self.store = store
        self.group = group

    @property
    def title(self) -> str:
        """What the step is called in a message."""
        limit = self.store.limit
        return "cached" if limit == math.inf else f"cached (up to {limit} bytes)"

    def rows(self, node: Mapped, numbers: np.ndarray, memo: Memo) -> np.ndarray:
        """Return rows from the store, computing those that it does not have."""
        wanted = numbers.tolist()
        version, have = self.store.lookup(self.group, node.node, wanted)
        missing = [number for number in wanted if number not in have]
        if missing:
            made = _computed(node.node, missing)
            self.store.keep(self.group, version, made)
            have |= made
        out = np.empty((len(wanted), *known_shape(node)[1:]), node.dtype)
        for place, number in enumerate(wanted):
            out[place, ...] = have[number][node.path[0]]
        return out


def _computed(owner: Node, numbers: list[int]) -> dict[int, dict[str, np.ndarray]]:
    """Return rows of all members of a record, each with memory of its own."""
    key = key_of(numbers)
    part = select(owner, parse(key, known_shape(owner)), key)
    memo: Memo = {"roots": (part,)}
    arrays = {name: evaluate(field(part, name), None, memo) for name in part.fields}
    return {
        number: {name: np.array(array[place, ...]) for name, array in arrays.items()}
        for place, number in enumerate(numbers)
    }


# --- building ----------------------------------------------------------------------------------


def cached(node: Node, limit: float) -> Node:
    """Return the same node with a store that keeps up to `limit` bytes of its rows."""
    if isinstance(limit, bool) or not isinstance(limit, (int, float, np.number)) or not limit >= 0:
        raise ValueError(f"a cache holds a number of bytes; got {limit!r}")
    if isinstance(node, Stream):
        raise StreamError("a stream is read in order: its samples are not kept by number")
    if not deterministic(node):
        raise ValueError(
            "the view is not the same each time it is computed (_deterministic is False), so its "
            "rows cannot be kept; _freeze() keeps one of its states"
        )
    return _with_store(node, RowStore(limit if limit == math.inf else int(limit)))


def _with_store(node: Node, store: RowStore) -> Node:
    if isinstance(node, Driven):
        parts = {name: _with_store(field(node, name), store) for name in node.fields}
        fields = Fields({name: Attached(part, None) for name, part in parts.items()})
        return Driven(parts[node.driver], fields, node.driver)
    made: dict[int, Node] = {}
    for together in _made_together(_leaves(node)):
        group = {str(number): part for number, part in enumerate(together)}
        owner, step = record(group, 1), CachedRows(store, len(made))
        for name, part in group.items():
            made[id(part)] = _kept(part, owner, name, step)

    def kept(part: Node, old: Node) -> Node:
        known = made.get(id(old))
        if known is None:
            return with_fields(part, knowing(part.fields))  # by masks that are kept, too
        present = present_in(old)
        return known if present is None else with_mask(known, present)

    return rebuilt([node], kept, _members)[0]  # type: ignore[no-any-return]


def _members(part: Node) -> list[Any]:
    """Return the members of a record that has rows."""
    return part.attached() if isinstance(part, Record) and part.rank else []


def _leaves(node: Node) -> list[Node]:
    """Return the arrays of which a node is made, each with rows of a known kind."""
    leaves = [part for part in below([node], _members) if not _members(part)]
    for leaf in leaves:
        if is_ragged(leaf):
            raise TypeError(
                f"{_named(leaf, node)}rows that differ in length are not kept one by one; "
                "_freeze() keeps all of them in memory, _drop() leaves a field out"
            )
        if isinstance(leaf, Sampled):
            raise UndeclaredError(
                "rows are kept where their shape and dtype are known: declare shape= and dtype=, "
                "or call _probe()"
            )
        if not known_shape(leaf):
            raise TypeError("a cache keeps rows, and this view is a single element or sample")
        known_dtype(leaf)
    return leaves


def _named(leaf: Node, node: Node) -> str:
    """Return the name of a leaf for a message, "" if it has none."""
    records = [part for part in below([node], _members) if isinstance(part, Record)]
    names = [name for part in records for name, own in members(part).items() if own.node is leaf]
    return f"field {names[0]!r}: " if names else ""


def _made_together(leaves: Sequence[Node]) -> list[list[Node]]:
    """Return arrays in groups of those that are computed from the same samples or mapped rows."""
    groups: list[tuple[set[Any], list[Node]]] = []
    for leaf in leaves:
        origins, parts = _origins(leaf), [leaf]
        for group in [group for group in groups if not group[0].isdisjoint(origins)]:
            groups.remove(group)
            origins, parts = origins | group[0], [*group[1], *parts]
        groups.append((origins, parts))
    return [parts for _, parts in groups]


def _origins(node: Node) -> set[Any]:
    """Return what makes samples or maps rows for a node; of others, what it is itself."""
    inside = below([node])
    makers = {maker for part in inside if (maker := maker_of(part)) is not None}
    steps = {(id(part.step), id(part.node)) for part in inside if isinstance(part, Mapped)}
    return makers | steps or {id(node)}


def _kept(node: Node, owner: Node, name: str, step: CachedRows) -> Node:
    fields = guarded(node).fields
    return Mapped(owner, step, (name,), known_shape(node), known_dtype(node), fields, node.meta)
