"""Which statistics have to be taken for nodes, and which of them one pass over data computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from dataview.compute.statistics.function_rows import are_made_together, is_made_of_rows
from dataview.compute.ways import parts_of, table_of
from dataview.index import Index
from dataview.plan.kinds import Reduction, Sampled, Select
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.plan.walk import below


def pending(*nodes: Node, index: Index | None = None) -> list[Reduction]:
    """Return the statistics below nodes that have to be taken for them, innermost first.

    For a part of the nodes, those with a value for each row are computed for its rows alone.
    """
    if all(node.settled for node in nodes):
        return []
    order = below(nodes, _unsettled)
    found = [part for part in order if isinstance(part, Reduction) and part.taken is None]
    if not found:
        for part in order:
            if isinstance(part, Node):
                part.settled = True
    return found if index is None else [part for part in found if 0 in part.axes]


def passes_before(node: Node, index: Index | None = None) -> list[list[Reduction]]:
    """Return the statistics that have to be taken for a node, in groups that one pass computes."""
    return _of_one_pass(pending(node, index=index))


def _unsettled(part: Any) -> list[Any]:
    """Return what a part is made of; nothing if all statistics below it were taken before."""
    return [] if isinstance(part, Node) and part.settled else part.made_of()


def passes(wanted: Sequence[Reduction]) -> Iterator[list[list[Reduction]]]:
    """Yield the statistics that have no value yet, in groups over the same axes of a node.

    The groups of which one pass over the data computes the values come together; those that others
    depend on have been taken when these come.
    """
    groups = _of_one_pass(wanted)
    table = cache(table_of) if groups[1:] else table_of  # thousands of columns ask for it once each
    while groups:
        alike, *groups = groups
        others = _read_together(alike, groups, table) if groups else []
        yield [alike, *others]
        groups = [group for group in groups if group not in others]


def _of_one_pass(wanted: Sequence[Reduction]) -> list[list[Reduction]]:
    """Return the statistics that have no value yet, in groups that one pass computes."""
    groups: dict[Any, list[Reduction]] = {}
    for node in wanted:
        if node.taken is None:
            groups.setdefault((_data_of(node.node), node.axes), []).append(node)
    return list(groups.values())


def _data_of(node: Node) -> Any:
    """Return what is equal for nodes of the same data."""
    if type(node) is Select:
        return id(node.node), node.index.shape, node.index.maps
    return id(node)


def _read_together(
    first: list[Reduction], groups: list[list[Reduction]], table: Callable[[Node], Any]
) -> list[list[Reduction]]:
    """Return the groups read in one pass with another.

    They are over a stream, over a table in like blocks, or over rows that functions make.
    """
    node = first[0].node
    if isinstance(node, Sampled):
        key = node.pass_key
        alike = [one for one in groups if key and getattr(one[0].node, "pass_key", None) == key]
        return [one for one in alike if not pending(one[0].node)]
    if is_made_of_rows(node):
        made = [one for one in groups if are_made_together(node, one[0].node)]
        return [one for one in made if not pending(one[0].node)]
    can_be = groups and 0 in first[0].axes and not isinstance(node, Ragged)
    own = table(node) if can_be else None
    return [] if own is None else [one for one in groups if _is_of(one, own, node, table)]


def _is_of(group: list[Reduction], own: Any, like: Node, table: Callable[[Node], Any]) -> bool:
    """Whether an operand is read from a table, in the same blocks as another one."""
    node = group[0].node
    if isinstance(node, (Sampled, Ragged)) or 0 not in group[0].axes or table(node) is not own:
        return False
    return parts_of(node) == parts_of(like) and not pending(node)
