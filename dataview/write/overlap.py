"""Which parts of a value depend on what the write changes, and how they are kept from it.

A block of the value that reads each element where it is written needs no care: the block is read
before it is written.  A value that reads its own target a number of rows further on is written from
one end to the other.  All else that overlaps is computed before the first byte is written, and kept
in memory, or on disk if it is larger than the budget for an undo.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import (
    aliases,
    evaluate,
    is_expression,
    is_made_by_rows,
    leaves_of,
    operands_of,
    part_of,
    row_blocks,
)
from dataview.index import Affine, Array, Computed, Index, Map, axes_of, axis_index, identity
from dataview.index.sizes import can_keep, sizes
from dataview.plan.build import select, stored
from dataview.plan.kinds import (
    Elementwise,
    MatMul,
    Select,
    known_dtype,
    known_shape,
    nbytes_of,
)
from dataview.plan.node import Node
from dataview.plan.places import Place, Targets, into_places, place_of
from dataview.plan.walk import below, rebuilt
from dataview.sources import ArraySource, scattered, temporary_npy
from dataview.write.changes import Change


class Separated(NamedTuple):
    """Changes whose values can be read while they are written, and in which order.

    `order` is 1 if blocks are written from the first to the last, -1 if from the last to the
    first, and 0 if any order will do.
    """

    changes: list[Change]
    order: int


def is_one_box(target: Node) -> bool:
    """Whether a target shows each place once, so that no two blocks change the same place."""
    if aliases(target) and _overlaps_itself(evaluate(target)):
        return False
    if not isinstance(target, Select):
        return True
    index = target.index
    used = [axis for map_ in index.maps for axis in axes_of(map_)]
    spread = all(length == 1 or axis in used for axis, length in enumerate(index.shape))
    if not index.is_box and (_is_in_memory(target) or not all(map(_is_once, index.maps))):
        return False
    return spread and len(set(used)) == len(used)


def _is_in_memory(target: Node) -> bool:
    place = place_of(target)
    return place is None or place.source.memory is not None


def _is_once(map_: Map) -> bool:
    """Whether a map has each position once, which is not looked up of those in any order."""
    if isinstance(map_, Array):
        return map_.values.ndim == 1 and bool((np.diff(map_.values) > 0).all())
    return not isinstance(map_, Computed)


def _overlaps_itself(array: np.ndarray) -> bool:
    """Whether several elements of an array may lie at one place, as those of sliding windows."""
    reach = array.itemsize
    steps = zip(map(abs, array.strides), array.shape, strict=True)
    for stride, length in sorted(step for step in steps if step[1] > 1):
        if stride < reach:
            return True
        reach += stride * (length - 1)
    return False


def separated(changes: Sequence[Change], kept: contextlib.ExitStack) -> Separated:
    """Return changes whose values do not depend on what was written before.

    What is written to disk for this is removed when `kept` is closed.
    """
    targets = Targets([change.place for change in changes])
    if len(changes) == 1 and isinstance(changes[0].value, Node):
        return _one(changes[0], targets, kept)
    found = []
    for change in changes:
        value = change.value
        if isinstance(value, Node):
            value = _computed_before(change, targets, set(), kept)
        elif targets.meet(Place(ArraySource(value), identity(value.shape))):
            value = value.copy()
        found.append(change._replace(value=value))
    # Of a row that is written several times, the last value stays.
    alone = len(found) == 1  # then it can meet no other target
    once = all(
        is_one_box(one.target) and (alone or not targets.meet(one.place, one.place))
        for one in found
    )
    return Separated(found, 0 if once else 1)


def _one(change: Change, targets: Targets, kept: contextlib.ExitStack) -> Separated:
    """Return a single change in the order in which the least has to be computed before."""
    if not is_one_box(change.target):
        value = _computed_before(change, targets, set(), kept)
        return Separated([change._replace(value=value)], 1)
    axis, _ = change.source.slow_axis(change.where)
    if axis == 0 and _is_product_of_rows(change, targets):
        return Separated([change], 1)
    shifted: dict[int, tuple[Node, int]] = {}
    for leaf in operands_of(change.value):
        step = _rows_ahead(leaf, change, axis)
        if step:
            shifted[id(leaf)] = leaf, 1 if step > 0 else -1
    ways = {1: 0, -1: 0}
    for leaf, way in shifted.values():
        ways[way] += nbytes_of(leaf) or 0
    order = max(ways, key=lambda way: ways[way]) if shifted else 0
    harmless = {key for key, (_, own) in shifted.items() if own == order}
    value = _computed_before(change, targets, harmless, kept)
    return Separated([change._replace(value=value)], order)


def _is_product_of_rows(change: Change, targets: Targets) -> bool:
    """Whether a value is a product whose rows are computed from the same rows of its target."""
    value = change.value
    if not isinstance(value, MatMul):
        return False
    left, right = value.args
    place, shape = place_of(left), known_shape(left)
    if place is None or len(shape) != 2 or value.shape != change.target.shape:
        return False
    others = filter(None, map(place_of, below([right], into_places)))
    return _is_same(place, change) and not any(map(targets.meet, others))


def _rows_ahead(leaf: Node, change: Change, axis: int) -> int:
    """Return how many rows of its own target an operand reads ahead, 0 for other operands."""
    place, own = place_of(leaf), change.place
    if place is None or place.source is not own.source or leaf.shape != change.target.shape:
        return 0
    found = 0
    for ours, theirs in zip(own.where.maps, place.where.maps, strict=True):
        if ours == theirs:
            continue
        if not isinstance(ours, Affine) or not isinstance(theirs, Affine) or found:
            return 0
        if ours.strides != theirs.strides or len(ours.strides) != 1:
            return 0
        ((along, stride),) = ours.strides
        if along != axis:
            return 0
        found = (theirs.offset - ours.offset) // stride
        if (theirs.offset - ours.offset) % stride:
            found = 0  # between the rows that are written
    return found


def _computed_before(
    change: Change, targets: Targets, harmless: set[int], kept: contextlib.ExitStack
) -> Node:
    """Return the value with the parts that read what is written computed before."""
    reading: set[int] = set()  # the parts that read a target at whatever depth
    for part in below([change.value], into_places):
        place = place_of(part)
        if place is not None:
            is_reading = targets.meet(place)
        else:
            is_reading = any(id(inner) in reading for inner in into_places(part))
        if is_reading:
            reading.add(id(part))
    # An operand that is the target itself is read where it is written, if no other part is written.
    places = [(leaf, place_of(leaf)) for leaf in operands_of(change.value)]
    fine = {
        id(leaf)
        for leaf, place in places
        if place is not None and _is_same(place, change) and not targets.meet(place, change.place)
    }
    overlapping = reading - fine - harmless

    def into(part: Any) -> list[Any]:
        is_read = is_expression(part) and id(part) in reading
        return part.made_of() if is_read else []

    def separate(part: Node, old: Node) -> Node:
        if is_expression(old) or id(old) not in overlapping:
            return part
        return stored(_kept(old, change, kept))

    return rebuilt([change.value], separate, into)[0]  # type: ignore[no-any-return]


def _is_same(place: Place, change: Change) -> bool:
    """Whether a place is that of the change, element by element, and has each element once."""
    own = change.place
    return place.is_at(own) and is_one_box(change.target)


def _kept(node: Node, change: Change, kept: contextlib.ExitStack) -> Any:
    """Return the data of a node as a source of their own: on disk if they are large."""
    size = nbytes_of(node) or 0
    if can_keep(size) or known_dtype(node).hasobject:
        return ArraySource(np.array(evaluate(node)))
    beside = change.source.path or os.path.join(tempfile.gettempdir(), "dataview-overlap.npy")
    blocks = (np.asarray(evaluate(node, index)) for index in row_blocks(node))
    return kept.enter_context(
        temporary_npy(os.fspath(beside), known_shape(node), known_dtype(node), blocks)
    )


# --- rows in any order ---------------------------------------------------------------------------


def in_order_of_chunks(change: Change) -> Change:
    """Return a change with its places in the order of the chunks that they are stored in.

    Blocks of a large change in any other order would each unpack and pack most of the chunks.
    """
    if (nbytes_of(change.target) or 0) <= sizes.block_bytes or is_made_by_rows(change.value):
        return change
    while found := scattered(change.source, change.where):
        change = _ascending(change, *found)
    return change


def _ascending(change: Change, axis: int, numbers: np.ndarray) -> Change:
    """Return a change with its positions along an axis ascending, each of them once.

    Of a place that is written several times the last value stays, as in NumPy.
    """
    order = np.argsort(numbers, kind="stable")
    order = order[np.diff(numbers[order], append=-1) != 0]
    shape, count = known_shape(change.target), len(order)
    ascending = Array(numbers[order], (axis,))
    maps = [ascending if axes_of(map_) == (axis,) else map_ for map_ in change.where.maps]
    whole: Any = change.target.node if isinstance(change.target, Select) else change.target
    target = select(whole, Index((*shape[:axis], count, *shape[axis + 1 :]), maps))
    value = change.value if isinstance(change.value, Node) else stored(ArraySource(change.value))
    own = known_shape(value)
    along = axis - (len(shape) - len(own))
    if along < 0 or own[along] != len(numbers):
        return change._replace(target=target)  # its value is the same everywhere along the axis
    places = [(leaf, place_of(leaf)) for leaf in operands_of(value)]
    same = {id(leaf): target for leaf, place in places if place and place.is_at(change.place)}
    index = axis_index(own, Array(order, (along,)), count, along)
    return change._replace(target=target, value=part_of(value, index, same))


# --- what can be read in place, and what can fail ----------------------------------------------


def reads_as_written(change: Change) -> list[Node]:
    """Return the operands of an expression that are the target itself, element by element."""
    value = change.value
    if not isinstance(value, Elementwise) or value.shape != change.target.shape:
        return []
    places = [(leaf, place_of(leaf)) for leaf in leaves_of(value)]
    return [leaf for leaf, place in places if place is not None and _is_same(place, change)]
