"""Data whose number of rows is found out when it is first needed."""

from __future__ import annotations

from typing import Any

from dataview.plan.kinds import Stored
from dataview.plan.node import Node
from dataview.sources import Source


class LateStored(Stored):
    """Data of which the source finds out how many rows there are when that is first needed."""

    __slots__ = ("row",)

    def __init__(self, source: Source, row: tuple[int, ...]) -> None:
        Node.__init__(self, None, source.dtype)
        self.settled = True
        self.source = source
        self.writable = False
        self.row = row

    def __reduce__(self) -> tuple[Any, ...]:
        return LateStored, (self.source, self.row)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows, and the shape of each."""
        return self.source.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        """Do nothing: the source knows it."""

    @property
    def extents(self) -> tuple[int | None, ...]:
        """The shape without the number of rows."""
        return (None, *self.row)
