"""Rows in any order, put in the order of the chunks that they are stored in: each is met once."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from dataview.index import Array, Index, axis_index, broadcast_shapes, extent, shifted
from dataview.index.sizes import sizes
from dataview.plan.build import select
from dataview.plan.fields import NO_FIELDS
from dataview.plan.kinds import (
    Comparison,
    Concat,
    Elementwise,
    Record,
    Reduction,
    Select,
    known_shape,
    nbytes_of,
)
from dataview.plan.node import Node
from dataview.plan.places import operand_index, place_of
from dataview.plan.walk import below, rebuilt
from dataview.sources import scattered


def operands_of(value: Node) -> list[Node]:
    """Return the nodes that an expression reads, each element where its own is."""
    if not is_expression(value):
        return [value]

    def into(part: Node) -> list[Any]:
        return part.made_of() if is_expression(part) else []

    return [part for part in below([value], into) if not is_expression(part)]


def is_expression(part: Any) -> bool:
    """Whether each element of a part is computed from the elements of its own parts there."""
    if isinstance(part, Comparison):
        return not any(isinstance(side, Record) for side in part.args)
    return isinstance(part, Elementwise)


def is_made_by_rows(value: Any) -> bool:
    """Whether what a value is made of is made, or read, by whole rows: a part of them costs all."""
    if not isinstance(value, Node):
        return False
    return not all(map(_is_known_or_array, operands_of(value)))


def _is_known_or_array(leaf: Node) -> bool:
    """Whether a node is a part of a statistic, which is taken before, or of a stored array."""
    place = place_of(leaf)
    if place is not None:
        return place.source.maker is None and place.source.together is None
    while isinstance(leaf, Select):
        leaf = leaf.node
    return isinstance(leaf, Reduction)


def part_of(value: Node, index: Index, known: Mapping[int, Node] = MappingProxyType({})) -> Node:
    """Return a part of a value, such that an expression reads its operands' parts alone.

    `known` has parts of operands, by the identity of these.
    """
    whole = known_shape(value)

    def into(part: Any) -> list[Any]:
        return part.made_of() if isinstance(part, Elementwise) else []

    def in_rows(part: Node, old: Node) -> Node:
        if isinstance(part, Elementwise):
            shapes = [known_shape(arg) for arg in part.args if isinstance(arg, Node)]
            return part.replaced(shape=broadcast_shapes(*shapes), fields=NO_FIELDS)
        place = operand_index(index, whole, known_shape(part))
        return known.get(id(part)) or _one_of_joined(part if place is None else select(part, place))

    return rebuilt([value], in_rows, into)[0]  # type: ignore[no-any-return]


def _one_of_joined(node: Node) -> Node:
    """Return the one of several joined nodes that is read, if it is one."""
    if not isinstance(node, Select) or not isinstance(node.node, Concat):
        return node
    index, joined = node.index, node.node
    rows = extent(index.maps[0], index.shape)
    if rows is None:
        return node
    first, last = np.searchsorted(joined.starts, rows, side="right") - 1
    part = joined.nodes[first]
    if first != last or part.dtype != joined.dtype:
        return node
    start = shifted(index.maps[0], int(joined.starts[first]))
    return select(part, Index(index.shape, [start, *index.maps[1:]]))


def in_order_of_chunks(node: Node) -> Node:
    """Return a node with its rows in the order of the chunks of what it reads, if it is large."""
    large = [leaf for leaf in operands_of(node) if _is_large(leaf)]
    if not large or is_made_by_rows(node):
        return node
    for leaf in large:
        place = place_of(leaf)
        if place is None or len(known_shape(leaf)) != len(known_shape(node)):
            continue
        found = scattered(place.source, place.where)
        if found is not None and found[0] == 0:
            order = np.argsort(found[1], kind="stable")
            return part_of(node, axis_index(known_shape(node), Array(order, (0,)), len(order)))
    return node


def _is_large(node: Node) -> bool:
    """Whether the rows of a node are read in several parts."""
    return (nbytes_of(node) or 0) > sizes.part_bytes
