"""The first and last rows of data that lie in memory: nothing is opened, nothing is computed."""

from __future__ import annotations

from collections.abc import Mapping
from mmap import mmap
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import Kept, evaluate, memory_of, rows_of
from dataview.index import Computed, Permutation, is_endless
from dataview.plan.build import field, keyed
from dataview.plan.fields import Attached, Positions
from dataview.plan.gaps import present_in
from dataview.plan.kinds import (
    Concat,
    Driven,
    Mapped,
    Record,
    Reduction,
    Reshaped,
    Sampled,
    Select,
    Stored,
    nbytes_of,
    size_of,
)
from dataview.plan.node import Node
from dataview.plan.photographs import Late, Photograph, PhotographSource
from dataview.plan.ragged import Ragged
from dataview.plan.walk import below
from dataview.samplers import Cycle, Order

READ_BYTES = 1 << 24
"""Groups and distinct values are found for a display if that reads at most so many bytes."""

COPIED_BYTES = 1 << 18
"""Rows that are no alias of memory are shown if they have at most so many bytes."""

PARTS_ASKED = 64
_LAYOUTS = (Select, Reshaped, Kept, Concat, Driven, Ragged)
"""Nodes whose data are those of others in another order or shape."""

_TABLES = (Record, Select)
"""Nodes whose data are columns and rows of others."""


class Ends(NamedTuple):
    """Rows from the beginning and from the end; if `last` is None, the first are all.

    `present` says for each of these rows whether it is there, if some may be missing.
    """

    first: np.ndarray
    last: np.ndarray | None = None
    present: np.ndarray | None = None

    @property
    def whole(self) -> np.ndarray:
        """All rows, one after the other."""
        return self.first if self.last is None else np.concatenate([self.first, self.last])


def ends_of(
    node: Node, positions: Mapping[int, Positions], count: int, copies: bool = True
) -> Ends | None:
    """Return the first and last rows of a field of a node's array; None if they are not in memory.

    Rows that are no alias of memory are only taken if `copies` is true.

    >>> from dataview.plan.build import stored
    >>> from dataview.sources import ArraySource
    >>> node = stored(ArraySource(np.arange(20).reshape(10, 2)))
    >>> ends_of(node, {1: 0}, 2)
    Ends(first=array([0, 2]), last=array([16, 18]), present=None)
    """
    found = _ends_of(node, positions, count, copies)
    present = present_in(node) if found is not None and node.has_gaps else None
    if found is None or present is None or present.shape != (node.extents or ())[:1]:
        return found
    marks = _ends_of(present, {}, count, copies)
    return found if marks is None else found._replace(present=marks.whole)


def _ends_of(
    node: Node, positions: Mapping[int, Positions], count: int, copies: bool
) -> Ends | None:
    shape = node.shape
    if node.dtype is None or not in_memory(node):
        return None
    memory = memory_of(node)
    if memory is None and not copies:
        return None
    if isinstance(node, Ragged):
        return _ragged_ends(node, count)
    if shape is None:
        return None
    if memory is not None and not positions:
        few = not shape or shape[0] <= 2 * count
        return Ends(memory) if few else Ends(memory[:count], memory[-count:])
    places = [positions.get(axis, range(length)) for axis, length in enumerate(shape)]
    rows = next((n for n, place in enumerate(places) if not isinstance(place, int)), None)
    if rows is None or len(places[rows]) <= 2 * count:  # type: ignore[arg-type]
        data = _taken(node, places)
        return None if data is None else Ends(data)
    place: Any = places[rows]
    if is_endless(len(place)):
        places[rows] = place[:count]
        first = _taken(node, places)
        return None if first is None else Ends(first, first[:0])
    if memory is None:  # rows that are copied are best copied together
        places[rows] = np.r_[place[:count], place[-count:]]
        data = _taken(node, places, rows)
        return None if data is None else Ends(data[:count], data[count:])
    parts = []
    for part in (place[:count], place[-count:]):
        places[rows] = part
        parts.append(_taken(node, places))
    return Ends(*parts)  # type: ignore[arg-type]


def _ragged_ends(node: Ragged, count: int) -> Ends:
    if node.count <= 2 * count:
        return Ends(evaluate(node))
    ends = range(count), range(node.count - count, node.count)
    return Ends(*[np.asarray(rows_of(node, rows)) for rows in ends])


def in_memory(node: Node) -> bool:
    """Whether the elements of a node are in memory, so that to show some of them is for nothing.

    A file that is mapped into memory is a file, and an order found by comparing is computed.
    """
    waiting, asked = [node], 0
    while waiting:
        here = waiting.pop()
        asked += 1
        if isinstance(here, _LAYOUTS) and asked <= PARTS_ASKED:
            if isinstance(here, Select) and not all(map(_is_known, here.index.maps)):
                return False
            waiting.extend(here.made_of())
        elif isinstance(here, Stored):
            source = here.source
            if isinstance(source, PhotographSource):
                if source.photograph.taken is None:
                    return False
            elif not source.lies_in_memory or _is_mapped(source.memory):
                return False
        elif not isinstance(here, Reduction) or here.taken is None:
            return False
    return True


def is_looked_up(node: Node) -> bool:
    """Whether rows of memory stand in an order that is found by comparing, as if sorted."""
    is_found = True
    while isinstance(node, Select):
        is_found = is_found and all(map(_is_known, node.index.maps))
        node = node.node
    return not is_found and in_memory(node)


def is_shown(node: Node) -> bool:
    """Whether a node is rows of tables that are asked for in order to see them."""
    first = node
    while isinstance(first, _TABLES) and (inside := _first_inside(first)):
        first = inside
    if not _is_of_table(first):  # as that of most views
        return False
    parts = below([node], lambda part: part.made_of() if isinstance(part, _TABLES) else [])
    return all(isinstance(part, _TABLES) or _is_of_table(part) for part in parts)


def _first_inside(node: Node) -> Node | None:
    """Return the first part of a table, which may have thousands."""
    if isinstance(node, Select):
        return node.node
    parts = node.fields.named.values()
    return next((part.node for part in parts if isinstance(part, Attached)), None)


def is_found(node: Node) -> bool:
    """Whether data of late length are found for a display: if that reads little."""
    if not isinstance(node, Late):
        return False
    return all(
        arg.is_decided or _is_quick(arg.node) for arg in node.args if isinstance(arg, Photograph)
    )


def _is_of_table(part: Any) -> bool:
    source = part.source if isinstance(part, Stored) else None
    if not isinstance(source, PhotographSource) or not source.photograph.is_shown:
        return False
    return source.photograph.taken is not None or _is_quick(source.photograph.node)


def _is_quick(node: Node | None) -> bool:
    """Whether little is read for a table, and no function of a user is called."""
    if node is None or any(map(_calls_a_function, below([node]))):
        return False
    sizes = [nbytes_of(part) for part in _arrays(node)]
    return all(size is not None for size in sizes) and sum(filter(None, sizes)) <= READ_BYTES


def _calls_a_function(part: Any) -> bool:
    is_stored = isinstance(part, Stored)
    return part.source.maker is not None if is_stored else isinstance(part, (Mapped, Sampled))


def _arrays(node: Node) -> list[Node]:
    return [field(node, name) for name in node.fields] if isinstance(node, Record) else [node]


def _is_known(map_: Any) -> bool:
    """Whether the row numbers of an order are those of a rule, or lie in memory."""
    while isinstance(map_, Computed):
        order = map_.function.function if isinstance(map_.function, Order) else map_.function
        if not isinstance(order, (Permutation, Cycle)):
            return False
        map_ = map_.inner
    return True


def _is_mapped(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array.obj if isinstance(array, memoryview) else array, mmap)


def _taken(node: Node, places: list[Any], rows: int = -1) -> np.ndarray | None:
    """Return the elements at some positions of each axis; None if too much would be copied.

    `rows` is the axis of the positions that are taken as they are.
    """
    memory = memory_of(node)
    basic: list[Any] = [_basic(place) for place in places]
    if memory is None:
        if rows >= 0:
            basic[rows] = places[rows]
        lengths = [
            len(place) if axis == rows else len(range(n)[key]) if isinstance(key, slice) else 1
            for axis, (n, key, place) in enumerate(
                zip(node.shape or (), basic, places, strict=True)
            )
        ]
        if size_of(tuple(lengths)) * (node.dtype.itemsize if node.dtype else 1) > COPIED_BYTES:
            return None
        found = np.asarray(evaluate(keyed(node, tuple(basic))))
    else:
        found = memory[(*basic, ...)]
    axis = 0
    for number, place in enumerate(places):
        if isinstance(place, int):
            continue
        if isinstance(place, np.ndarray) and number != rows:
            found = found.take(place - basic[number].start, axis)
        axis += 1
    return found


def _basic(place: Any) -> int | slice:
    """Return a position of an axis, the slice of some, or the smallest slice that has them all."""
    if isinstance(place, int):
        return place
    if not len(place):
        return slice(0, 0)
    if isinstance(place, range):
        return slice(place.start, place.stop if place.stop >= 0 else None, place.step)
    return slice(int(place.min()), int(place.max()) + 1)
