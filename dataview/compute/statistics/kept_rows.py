"""Rows that functions make and several passes of one request need: made in the first, and kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dataview.compute.scattered import is_expression, operands_of
from dataview.compute.statistics.made_rows import (
    KeptRows,
    are_made_together,
    blocks_made,
    is_made_of_rows,
)
from dataview.compute.statistics.passes import pending
from dataview.compute.ways import makers_of, rows_of_request
from dataview.index import axes_of
from dataview.plan.build import stored
from dataview.plan.kinds import (
    Concat,
    Mapped,
    Record,
    Reduction,
    Select,
    Stored,
    known_shape,
    members,
)
from dataview.plan.node import Evaluate, Node
from dataview.plan.walk import below, rebuilt
from dataview.sources import ArraySource


class RowsForLater:
    """Rows of nodes that are needed once a pass is over, kept as the pass has them made.

    Those that are asked for as they are stay in memory, `whole`; of others many lie in a file.
    """

    def __init__(self, nodes: Collection[Node], whole: Collection[Node]) -> None:
        self.waiting = Counter(nodes)
        self.whole = {*whole}
        self.kept: dict[Node, KeptRows] = {}

    def made_with(self, node: Node) -> dict[Node, KeptRows]:
        """Return what keeps the rows that are made together with a node, from now on."""
        found = [one for one in self.waiting if are_made_together(node, one)]
        for one in found:
            del self.waiting[one]
        return {one: KeptRows(one, one in self.whole) for one in found}

    def make(self, evaluate: Evaluate) -> None:
        """Make the rows that no pass has made, if several nodes have these in common."""
        while self.waiting:
            first, times = next(iter(self.waiting.items()))
            kept = self.made_with(first)
            if len(kept) > 1 or times > 1:
                nodes = [*kept]
                for number, block in blocks_made(nodes, evaluate):
                    kept[nodes[number]].add(block)
                self.add(kept)

    def add(self, kept: Mapping[Node, KeptRows]) -> None:
        """Have the rows that a pass has kept take the place of what makes them."""
        self.kept |= kept

    def array(self, node: Node) -> np.ndarray | None:
        """Return the rows of a node that was asked for, None if they were not kept."""
        kept = self.kept.get(node)
        return None if kept is None else np.asarray(kept.rows)

    def data_of(self, node: Node) -> Node:
        """Return a node that reads what was kept, and has nothing of that made again."""
        if not self.kept:
            return node

        def into(part: Any) -> list[Any]:
            return [] if part in self.kept else _inside(part)

        def data(part: Any, old: Any) -> Any:
            kept = self.kept.get(old)
            return part if kept is None else stored(ArraySource(kept.rows), False)

        found: Node = rebuilt([node], data, into)[0]
        return found


def needed_later(nodes: Sequence[Node], wanted: Sequence[Reduction]) -> RowsForLater | None:
    """Return what keeps rows for nodes, and for statistics that need others, in the first pass.

    None is returned if a request remembers the rows, since they are few, or functions make none.
    """
    operands = [part.node for part in wanted]
    whole = [node for node in nodes if not pending(node) and _is_by_rows(node)]
    computed = [node for node in nodes if node not in whole]
    again = [*computed, *(operand for operand in operands if pending(operand))]
    units = [*whole, *(one for node in again for one in _units_of(node))]
    together = [one for one in (*units, *operands) if is_made_of_rows(one)]
    count = max([known_shape(one)[0] for one in together], default=0)
    return RowsForLater(units, whole) if count > rows_of_request(together) else None


def _units_of(node: Node) -> Iterator[Node]:
    """Yield the operands of a node that are rows which functions make, one by one."""
    parts = below([node], _inside)
    return (part for part in parts if not _inside(part) and _is_by_rows(part))


def _inside(part: Any) -> list[Any]:
    """Return the parts of an expression, or of a record; of a statistic there is a value then."""
    if isinstance(part, Record):
        return [] if part.are_columns else [own.node for own in members(part).values()]
    return part.made_of() if is_expression(part) else []


def _is_by_rows(node: Node) -> bool:
    """Whether functions make the rows of a node, of which each needs its own rows alone."""
    if isinstance(node, Reduction) or not is_made_of_rows(node):
        return False
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
