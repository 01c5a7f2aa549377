"""Rows that functions make and several passes of one request need: made in the first, and kept."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from dataview.compute.scattered import is_expression, operands_of
from dataview.compute.statistics.function_rows import (
    KeptRows,
    RaggedInFile,
    are_made_together,
    blocks_made,
    is_made_of_rows,
    is_made_ragged,
)
from dataview.compute.statistics.passes import pending
from dataview.compute.ways import makers_of, rows_of_request
from dataview.index import axes_of
from dataview.plan.gaps import present_in, with_mask
from dataview.plan.kinds import (
    Concat,
    Mapped,
    Record,
    Reduction,
    Sampled,
    Select,
    Stored,
    known_shape,
    members,
)
from dataview.plan.node import Evaluate, Node
from dataview.plan.walk import below, rebuilt
from dataview.sources import scratch_file

Keeping: TypeAlias = KeptRows | RaggedInFile
"""What keeps the rows of a node as they come."""


class RowsForLater:
    """Rows of nodes that are needed once a pass is over, kept as the pass has them made.

    Those that are asked for as they are stay in memory, `whole`; of others many lie in files, which
    are closed in the end: the memory that is mapped to them stays.
    """

    def __init__(
        self, nodes: Collection[Node], whole: Collection[Node], evaluate: Evaluate
    ) -> None:
        self.waiting = Counter(nodes)
        self.whole = {*whole}
        self.evaluate = evaluate
        self.arrays: dict[Node, np.ndarray] = {}
        self.kept: dict[Node, Node] = {}
        self.files = contextlib.ExitStack()

    def __enter__(self) -> RowsForLater:
        return self

    def __exit__(self, *error: object) -> None:
        self.files.close()

    def made_with(self, node: Node) -> dict[Node, Keeping]:
        """Return what keeps the rows that are made together with a node, from now on."""
        found = [one for one in self.waiting if are_made_together(node, one)]
        for one in found:
            del self.waiting[one]
        return {one: self._keeping(one) for one in found}

    def _keeping(self, node: Any) -> Keeping:
        if not isinstance(node, Sampled):
            return KeptRows(node, node in self.whole)
        like = cast(Any, node).rows(np.arange(0))
        file = self.files.enter_context(scratch_file())
        return RaggedInFile.like(like, file, self.evaluate)

    def make(self) -> None:
        """Make the rows that no pass has made, if several nodes have these in common."""
        while self.waiting:
            first, times = next(iter(self.waiting.items()))
            kept = self.made_with(first)
            if len(kept) > 1 or times > 1:
                nodes = [*kept]
                for number, block in blocks_made(nodes, self.evaluate):
                    kept[nodes[number]].add(block)
                self.add(kept)

    def add(self, kept: Mapping[Node, Keeping]) -> None:
        """Have the rows that a pass has kept take the place of what makes them."""
        for node, rows in kept.items():
            self.kept[node] = rows.node().replaced(label=node.label, meta=node.meta)
            if isinstance(rows, KeptRows):
                self.arrays[node] = np.asarray(rows.rows)
        for node in kept:
            present = None if isinstance(node, Sampled) else present_in(node)
            if present is not None:
                self.kept[node] = with_mask(self.kept[node], self.kept.get(present, present))

    def data_of(self, node: Node) -> Node:
        """Return a node that reads what was kept, and has nothing of that made again."""

        def into(part: Any) -> list[Any]:
            return [] if part in self.kept else _inside(part)

        def data(part: Any, old: Any) -> Any:
            return self.kept.get(old, part)

        found: Node = rebuilt([node], data, into)[0] if self.kept else node
        return found


def needed_later(
    nodes: Sequence[Node],
    wanted: Sequence[Reduction],
    read: Sequence[Node],
    evaluate: Evaluate,
) -> RowsForLater | None:
    """Return what keeps rows for nodes, for statistics that need others, and for photographs.

    These `read` what they are found in.  None is returned if a request remembers the rows, since
    they are few, or functions make none.
    """
    operands = [part.node for part in wanted]
    whole = [node for node in nodes if not pending(node) and _is_by_rows(node)]
    known = {*whole}
    again = [node for node in nodes if node not in known] + list(filter(pending, operands))
    asked = [unit for node in read for unit in _units_of(node)]
    units = [*whole, *(one for node in again for one in _units_of(node)), *asked]
    together = [*units, *operands]
    is_shared = any(sum(are_made_together(one, other) for other in together) > 1 for one in asked)
    made = [one for one in together if is_made_of_rows(one) or is_made_ragged(one)]
    is_large = max([one.count or 0 for one in made], default=0) > rows_of_request(made)
    return RowsForLater(units, whole, evaluate) if is_shared or is_large else None


def _units_of(node: Node) -> Iterator[Node]:
    """Yield the operands of a node that are rows which functions make, one by one."""
    parts = below([node], _inside)
    units = [part for part in parts if not _inside(part) and _is_by_rows(part)]
    yield from units
    for unit in units:  # what is asked of data with gaps reads where these are, too
        present = present_in(unit)
        if present is not None and _is_by_rows(present):
            yield present


def _inside(part: Any) -> list[Any]:
    """Return the parts of an expression, or of a record; of a statistic there is a value then."""
    if isinstance(part, Sampled) and part.is_filled_up:
        return [] if part.node is None else [part.node]
    if isinstance(part, Record):
        return [] if part.are_columns else [own.node for own in members(part).values()]
    return part.made_of() if is_expression(part) else []


def _is_by_rows(node: Node) -> bool:
    """Whether functions make the rows of a node, of which each needs its own rows alone."""
    if isinstance(node, Reduction) or not is_made_of_rows(node):
        return is_made_ragged(node)
    count = known_shape(node)[0]
    return all(_has_row_for_each(part, count) for part in operands_of(node) if makers_of(part))


def _has_row_for_each(part: Any, count: int) -> bool:
    """Whether an operand is made of rows, one for each of so many."""
    if part.shape is None or not part.shape or part.shape[0] != count:
        return False
    if isinstance(part, Select):
        is_of_rows = bool(part.index.maps) and axes_of(part.index.maps[0]) == (0,)
        return is_of_rows and isinstance(part.node, (Mapped, Stored))
    if isinstance(part, Record):
        return all(_has_row_for_each(own.node, count) for own in members(part).values())
    if isinstance(part, Concat):
        return all(isinstance(one, (Mapped, Stored, Select)) for one in part.nodes)
    return isinstance(part, (Mapped, Stored))
