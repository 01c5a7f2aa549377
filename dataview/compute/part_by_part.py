"""Rows of several columns that lie in parts: what is needed of a part is read while it is there.

Else each column would go through all of the parts that a batch has rows of, and where these do not
fit into memory together, the next column would load all of them again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeAlias, cast

import numpy as np

from dataview.index import Rows, as_array, axes_of, numbers_of
from dataview.plan.kinds import Driven, Elementwise, Record, Select, Stored, members
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.plan.walk import below
from dataview.sources import Source

_Rows: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""Returns the rows of a source that some rows of a node are read from."""

PlacesByPart: TypeAlias = Callable[[np.ndarray], "Iterator[np.ndarray] | None"]
"""Returns of some rows the places of those of one part after the other, each in memory by then.

None stands for rows that are as well read together: they are there, or in no parts."""


APART = 8
"""So few rows of a table whose columns are read together are read column by column, without a plan:
the table keeps the lines that it has parsed."""


def are_few(rows: Rows, each: int = 1) -> bool:
    """Whether rows are read column by column, each of so many rows of a table."""
    return each * (1 if isinstance(rows, int) else len(rows)) <= APART


def read_with_others(parts: Mapping[str, Any]) -> int:
    """Return how many rows of a column that is read with others a row of some nodes is.

    A row of minibatches is several.  It is 0 if no node, nor one inside, is such a column.
    """
    found = 0
    for part in parts.values():  # a sample in memory is asked for in a few microseconds
        if type(part) is Stored:
            each = 0 if part.source.together is None else 1
        else:
            each = read_with_others(part) if isinstance(part, dict) else _rows_in_each(part)
        found = each if each > found else found
    return found


def _rows_in_each(node: Node) -> int:
    each = 1
    while isinstance(node, (Select, Ragged)):
        for axis in axes_of(node.index.maps[0])[1:] if node.index.maps else ():
            each *= node.index.shape[axis]
        node = node.values if isinstance(node, Ragged) else node.node
    return each if isinstance(node, Stored) and node.source.together is not None else 0


def places_by_part(nodes: Collection[Node]) -> PlacesByPart | None:
    """Return what tells in which turns rows of several nodes are read, None if one is enough."""
    tables: dict[int, list[tuple[Source, _Rows]]] = {}
    for node in nodes:
        for source, rows_in in _columns_in(node):
            tables.setdefault(id(source.together), []).append((source, rows_in))
    columns = max(tables.values(), key=len, default=[])
    if len(columns) < 2:
        return None
    source, rows_in = columns[0]
    if not source.part_rows:
        return None
    sources = [one for one, _ in columns]
    return lambda rows: source.part_by_part(rows_in(rows), sources)


def _columns_in(node: Node) -> Iterator[tuple[Source, _Rows]]:
    """Yield the columns that rows of a node are read from, where they are read with others."""
    waiting: list[tuple[Node, _Rows]] = [(node, lambda rows: rows)]
    seen: dict[tuple[int, int], tuple[Node, _Rows]] = {}  # which keeps what the keys stand for
    while waiting:
        part, rows_in = waiting.pop()
        key = id(part), id(rows_in)
        if key in seen:  # a part may occur in an expression any number of times
            continue
        seen[key] = part, rows_in
        if isinstance(part, Record):
            waiting += [(one.node, rows_in) for one in members(part).values()]
        elif isinstance(part, Driven):
            waiting.append((part.node, rows_in))
        elif isinstance(part, Elementwise):
            waiting += [(one, rows_in) for one in part.made_of() if _is_along(one, part)]
        elif isinstance(part, Ragged):
            for leaf in below([part.leaf()]):
                if isinstance(leaf, Stored) and leaf.source.together is not None:
                    found = leaf.source, _behind(rows_in, part.numbers)
                    yield from (found, found)  # the lengths are read, and then the values
        elif type(part) is Select and part.index.maps and part.index.shape:
            numbers = numbers_of(part.index.maps[0], part.index.shape[:1])
            if numbers is not None:
                waiting.append((part.node, _behind(rows_in, cast(_Rows, numbers))))
        elif isinstance(part, Stored) and part.source.together is not None:
            yield part.source, rows_in


def _behind(first: _Rows, then: Callable[[np.ndarray], range | np.ndarray]) -> _Rows:
    return lambda rows: as_array(then(first(rows)))


def _is_along(part: object, whole: Node) -> bool:
    """Whether an operand has a row for each row of the whole."""
    shape, own = whole.shape, part.shape if isinstance(part, Node) else None
    return bool(shape and own) and len(own or ()) == len(shape or ()) and own[:1] == shape[:1]  # type: ignore[index]
