"""Which parts or rows a partition has, and whose labels are numbered as those of all rows are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dataview.index import is_integer
from dataview.plan.kinds import Concat, Stored
from dataview.plan.node import Node
from dataview.plan.walk import rebuilt


def checked_partition(value: Any) -> tuple[int, int]:
    """Return (p, n), or raise if it is no partition."""
    pair = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    if len(pair) != 2 or not all(map(is_integer, pair)) or not 0 <= pair[0] < pair[1]:
        raise ValueError(
            f"partition= is (p, n): the partition p of n, where p counts from 0; got {value!r}"
        )
    return int(pair[0]), int(pair[1])


def of_partition(partition: tuple[int, int] | None, count: int) -> range:
    """Return which of so many parts, or rows, a partition has.

    >>> [[*of_partition((p, 3), 7)] for p in range(3)]
    [[0, 3, 6], [1, 4], [2, 5]]
    """
    first, step = partition or (0, 1)
    return range(first, count, step)


def to_be_divided(node: Node) -> Node:
    """Return a node of which rows will be taken whose labels are numbered as those of all are."""

    def change(part: Any, old: Any) -> Any:
        is_base = isinstance(part, (Stored, Concat))
        return part.replaced(divided=True) if is_base else part

    found: Node = rebuilt([node], change)[0]
    return found
