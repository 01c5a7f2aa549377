"""The dataset that a sampler asks: it answers from a node."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataview.compute import evaluate
from dataview.errors import unknown_field
from dataview.plan.build import field
from dataview.plan.kinds import Concat, Driven, Record, Stored, known_shape, members
from dataview.plan.node import Node, Part
from dataview.plan.walk import below


class RowsOf:
    """The rows of a node: how many there are, in which parts, and labels, each read once."""

    __slots__ = ("count", "node", "read")

    def __init__(self, node: Node, count: int) -> None:
        self.node = node
        self.count = count
        self.read: dict[str, np.ndarray] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return RowsOf, (self.node, self.count)

    @property
    def parts(self) -> tuple[int, ...]:
        """The lengths of the parts in which the rows are stored."""
        return parts_of(self.node) or (self.count,)

    @property
    def chunk(self) -> int:
        """The rows of the longest chunk among the stores of the data."""
        stores = (part.source for part in below([self.node], Part.held) if isinstance(part, Stored))
        return max((source.chunk_rows for source in stores), default=1)

    def values(self, by: Any) -> np.ndarray:
        """Return one value for each row: of a field, by name, or of an array."""
        if not isinstance(by, str):
            return self._one_each(np.asarray(by))
        if by not in self.read:
            if by not in self.node.fields:
                raise unknown_field(by, self.node.fields, f"a dataset of {self.count} rows")
            self.read[by] = self._one_each(evaluate(field(self.node, by)))
        return self.read[by]

    def _one_each(self, values: np.ndarray) -> np.ndarray:
        if values.shape == (self.count, 1):
            values = values[:, 0]
        if values.shape != (self.count,):
            raise ValueError(
                f"by= gives one value for each of the {self.count} rows; got shape {values.shape}"
            )
        return values


def parts_of(node: Node) -> tuple[int, ...]:
    """Return the lengths of joined parts, () for what is not joined."""
    if isinstance(node, Driven):
        return parts_of(node.node)
    if isinstance(node, Record):
        found = {parts_of(part.node) for part in members(node).values()}
        return found.pop() if len(found) == 1 else ()
    if isinstance(node, Concat):
        return tuple(known_shape(part)[0] for part in node.nodes)
    return ()
