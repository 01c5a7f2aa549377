"""Writing a value through a view to the places in sources that it shows: as a whole or not at all.

All ways of writing are one: a value of any kind, computed or stored, is written block by block.
What is small, or is in memory already, is written at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dataview.compute import (
    aliases,
    changing,
    evaluate,
    making_together,
    memory_of,
    overwrite,
    settle,
)
from dataview.index import Computed
from dataview.index.interrupts import held_interrupt
from dataview.index.sizes import is_computed_first, sizes
from dataview.plan.kinds import (
    Elementwise,
    Record,
    Sampled,
    known_dtype,
    known_shape,
    members,
    size_of,
)
from dataview.plan.node import Node
from dataview.plan.places import Place
from dataview.plan.values import cast
from dataview.write import runs
from dataview.write.at_once import put_all
from dataview.write.changes import Change, changes_of, changes_of_mask, places_written
from dataview.write.failing import has_power, is_in_memory, may_raise
from dataview.write.one_run import is_one_run, write_one_run
from dataview.write.overlap import (
    Separated,
    in_order_of_chunks,
    is_one_box,
    separated,
)
from dataview.write.update import Update


def write(node: Node, value: Any, built: runs.Built | None = None) -> None:
    """Write a value (array, number, node, or parts of a record) through a node to its sources.

    If the value is a view, `built` tells when it was built.  What was missing is there then, but
    for the gaps of the value.
    """
    if built is None and isinstance(value, Node) and put_all(node, value, is_checked=True):
        return
    with making_together(_parts(value)):
        try:
            changes = changes_of(node, value)
        except ValueError as error:
            if built is not None and isinstance(value, Node):
                _undo_moved(error, node, value, built)
            raise
        if node.has_gaps:
            changes += changes_of_mask(node, value)
    if built is not None and isinstance(value, Node):
        member: runs.Member | None = runs.of_view(changes, value, built)
    else:
        member = runs.of_data(changes)
    carry_out(changes)
    if member is not None:
        member.done()


def _undo_moved(error: ValueError, node: Node, value: Node, built: runs.Built) -> None:
    """Undo the rows that were written of several that go round; the error says so."""
    told = runs.undo_moved(_places(node), value, built)
    if told:
        error.args = (f"{error}{told}",)


def _places(node: Node) -> Iterator[Place]:
    if isinstance(node, Record):
        for part in members(node).values():
            yield from _places(part.node)
    elif not isinstance(node, Sampled):
        yield from places_written(node)


def _parts(value: Any) -> list[Node]:
    return [part.node for part in members(value).values()] if isinstance(value, Record) else []


def carry_out(changes: Sequence[Change]) -> None:
    """Carry out changes together: all of them, or none."""
    runs.clock[0] += 1
    if not changes:  # no row of what is joined
        return
    settle(*(change.value for change in changes if isinstance(change.value, Node)))
    with changing(lambda: [change.place for change in changes]):
        _carry_out(changes)


def _carry_out(changes: Sequence[Change]) -> None:
    """Carry out changes whose statistics are taken."""
    if _are_small(changes):
        with making_together([one.value for one in changes if isinstance(one.value, Node)]):
            changes = list(map(_with_array, changes))
        if len(changes) > 1 and all(map(_is_sure, changes)):
            _assign_each(changes)
            return
    if is_one_run(changes):
        write_one_run(changes[0])
        return
    if _is_one_array(changes) and changes[0].where.is_box:
        _assign(changes[0])  # NumPy takes care of an overlap within one box
        return
    with contextlib.ExitStack() as stack:
        found = separated(list(map(in_order_of_chunks, changes)), stack)
        if _is_one_array(found.changes):
            _assign(found.changes[0])
        elif _is_for_memory(found):
            _overwrite(found.changes[0])
        else:  # it keeps what is on disk until it is done, which may be when it is resumed
            Update(found, stack.pop_all()).run()


def _are_small(changes: Sequence[Change]) -> bool:
    """Whether the values are computed before they are written; in memory, larger ones are, too."""
    targets = [change.target for change in changes]
    count = sum(size_of(known_shape(target)) for target in targets)
    if any(change.source.memory is None for change in changes):
        return count < sizes.streamed_elements
    return is_computed_first(count, count * max(known_dtype(one).itemsize for one in targets))


def _with_array(change: Change) -> Change:
    """Return a change with its value computed."""
    if not isinstance(change.value, Node):
        return change
    data, dtype = evaluate(change.value), known_dtype(change.target)
    value = cast(data, dtype) if change.is_checked else data.astype(dtype, copy=False)
    return change._replace(value=value)


# --- at once ---------------------------------------------------------------------------------


def _is_one_array(changes: Sequence[Change]) -> bool:
    """Whether an array is written to one place in memory, which NumPy does as a whole."""
    change = changes[0]
    in_memory = change.source.memory is not None
    return len(changes) == 1 and in_memory and not isinstance(change.value, Node)


def _assign(change: Change) -> None:
    change.source.write(change.where, change.value)


def _is_sure(change: Change) -> bool:
    """Whether an array is written to known places in memory, which cannot fail midway."""
    memory = change.source.memory
    if memory is None or not memory.flags.writeable:
        return False
    return not any(isinstance(map_, Computed) for map_ in change.where.maps)


def _assign_each(changes: Sequence[Change]) -> None:
    """Write small arrays, which may be aliases of what is written."""
    values = [np.array(change.value) for change in changes]
    with held_interrupt():
        for change, value in zip(changes, values, strict=True):
            change.source.write(change.where, value)


def _is_for_memory(found: Separated) -> bool:
    """Whether an expression can be computed where its target lies in memory, without an undo."""
    change, *others = found.changes
    expression, target = change.value, change.target
    if others or found.order or change.source.memory is None or not is_one_box(target):
        return False
    if not isinstance(expression, Elementwise) or expression.shape != target.shape:
        return False
    if known_dtype(target).hasobject or (change.is_checked and expression.dtype != target.dtype):
        return False
    return is_in_memory(expression) and not may_raise() and not has_power(expression)


def _overwrite(change: Change) -> None:
    memory = memory_of(change.target) if aliases(change.target) else None
    assert memory is not None
    with held_interrupt():
        overwrite(change.value, memory)
