"""Samples as they arrive: each is a node, or a row of one that many of them are rows of.

A row becomes a node of its own only where that is needed; several are read together.  A pool puts
them into another order.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dataview.index import Permutation, is_integer, parse
from dataview.plan.build import field, row_field, select
from dataview.plan.concat import concat
from dataview.plan.kinds import Sampled, known_shape
from dataview.plan.node import Node
from dataview.samples.numbered import bytes_of


class Row(NamedTuple):
    """A sample: a row of a node, or all of the node if there is no number."""

    node: Node
    number: int | None = None

    def sample(self) -> Node:
        """Return the sample as a node."""
        return self.node if self.number is None else sample_at(self.node, self.number)


def rows_in(node: Node, numbers: Iterable[int]) -> Iterator[Row]:
    """Return rows of a node; many of them in a fifth of the time that calling `Row` takes."""
    return map(_as_row, zip(itertools.repeat(node), numbers, strict=False))


_as_row: Callable[[tuple[Node, int | None]], Row] = functools.partial(tuple.__new__, Row)


def sample_at(node: Node, number: int) -> Node:
    """Return a row of a node as a node."""
    return _keyed(node, number)


class RowViews:
    """Shows samples by a function of a node, which is called once for all rows of a node."""

    def __init__(self, show: Callable[[Node], Any]) -> None:
        self.show = show
        self._whole: tuple[Node | None, Any] = None, None

    def __call__(self, row: Row) -> Any:
        """Return the view of a sample."""
        if row.number is None:
            return self.show(row.node)
        if self._whole[0] is not row.node:
            self._whole = row.node, self.show(row.node)
        return self._whole[1][row.number]


def fields_of(rows: Iterable[Row], name: str) -> Iterator[Row]:
    """Yield a field of each sample; the field of a node is found once for rows that follow."""
    whole, found = None, None
    for row in rows:
        node, number = row
        if number is None or node is not whole:
            whole, found = node, field_of(row, name).node
        assert found is not None
        yield _as_row((found, number))


def field_of(row: Row, name: str) -> Row:
    """Return a field of a sample."""
    node, number = row
    rows_of_field = None if number is None else row_field(node, name)
    return Row(field(node, name) if rows_of_field is None else rows_of_field, number)


def are_rows(rows: Sequence[Row]) -> bool:
    """Whether there are samples, all of which are rows of nodes."""
    return bool(rows) and all(row.number is not None for row in rows)


def together(rows: Sequence[Row]) -> Node:
    """Return rows of nodes as one node; those of one node are read together, wherever they are."""
    nodes, numbers = zip(*rows, strict=True)
    whose = [*map(id, nodes)]
    if whose.count(whose[0]) == len(whose):
        return _rows_at(nodes[0], numbers)
    places: dict[int, list[int]] = {}
    for place, one in enumerate(whose):
        places.setdefault(one, []).append(place)
    groups = [*places.values()]
    parts = [_rows_at(nodes[own[0]], [numbers[place] for place in own]) for own in groups]
    order = np.argsort(np.concatenate(groups), kind="stable")
    return _rows_at(concat(parts), order)


def _rows_at(node: Node, numbers: Sequence[int | None] | np.ndarray) -> Node:
    """Return the rows of a node with these numbers."""
    wanted = np.asarray(numbers, np.intp)
    follow = (np.diff(wanted) == 1).all()
    return _keyed(node, slice(int(wanted[0]), int(wanted[-1]) + 1) if follow else wanted)


def _keyed(node: Node, key: Any) -> Node:
    count = node.count if isinstance(node, Sampled) else None
    return select(node, parse(key, known_shape(node) if count is None else (count,)), key)


# --- pools -------------------------------------------------------------------------------------


class Pool(NamedTuple):
    """How much a pool holds: so many samples, or so many bytes of them."""

    size: int
    bytes: bool


def pool_of(size: Any) -> Pool:
    """Return the pool of a number of samples, or of a text such as "64MB".

    >>> pool_of("64MB"), pool_of("1KB").size, pool_of("1KiB").size
    (Pool(size=64000000, bytes=True), 1000, 1024)
    """
    if isinstance(size, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)B\s*", size)
        if found is None:
            raise ValueError(f"so many bytes are written like '64MB' or '1GiB'; got {size!r}")
        base = 1024 if found[3] else 1000
        return Pool(int(float(found[1]) * base ** " KMGT".index(found[2].upper() or " ")), True)
    if not is_integer(size) or size < 1:
        raise ValueError(f"a pool holds at least one sample; got {size!r}")
    return Pool(size, False)


_Item = TypeVar("_Item")


def within_pool(
    passing: Iterator[_Item], pool: Pool, key: tuple[Any, ...], row_of: Callable[[_Item], Row]
) -> Iterator[_Item]:
    """Return items in random order: each is drawn from a pool of the next ones."""
    draws = _draws(key)
    held: list[_Item] = []
    weight = 0

    def weight_of(item: _Item) -> int:
        return bytes_of(row_of(item).sample()) if pool.bytes else 1

    for item in passing:
        own = weight_of(item)
        while held and weight + own > pool.size:
            drawn = _drawn(held, next(draws))
            weight -= weight_of(drawn)
            yield drawn
        held.append(item)
        weight += own
    while held:
        yield _drawn(held, next(draws))


def _drawn(held: list[_Item], draw: int) -> _Item:
    place = draw % len(held)
    held[place], held[-1] = held[-1], held[place]
    return held.pop()


def _draws(key: tuple[Any, ...]) -> Iterator[int]:
    order = Permutation(1 << 40, "pool", *key)
    for start in itertools.count(0, 1024):
        yield from order.block(start, start + 1024).tolist()
