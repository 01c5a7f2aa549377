"""Writing: every composed view leads to places in sources, and a write happens whole or not at all.

Shape, dtype, casting and read-only data are checked before the first byte; what fails later is
undone from a copy of the old values, within a budget.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import evaluate
from dataview.errors import FieldError, PartialWriteError, ReadOnlyError
from dataview.index import Index, compose, identity, is_endless
from dataview.plan.build import field
from dataview.plan.casting import cast
from dataview.plan.concat import Piece, split_rows
from dataview.plan.guards import endless
from dataview.plan.kinds import (
    Comparison,
    Concat,
    Driven,
    Elementwise,
    Mapped,
    Record,
    Sampled,
    Select,
    Stored,
    Unbound,
    is_scalar,
    known_dtype,
    known_shape,
    members,
    size_of,
)
from dataview.plan.node import Node
from dataview.sizes import sizes
from dataview.sources import Source

_listening: weakref.WeakSet[Any] = weakref.WeakSet()


def listen(store: Any) -> None:
    """Tell a store of each source that is written from now on, by calling `written(source)`."""
    _listening.add(store)


def announce(sources: Iterable[Source]) -> None:
    """Tell all that listen which sources have been written."""
    for store in list(_listening):
        for source in sources:
            store.written(source)


class _Write(NamedTuple):
    """A value on its way to one place in one source."""

    source: Source
    where: Index
    value: np.ndarray


def write(node: Node, value: Any) -> None:
    """Write a value (array, number, node, or parts of a record) through a node to its sources."""
    if isinstance(node, Sampled):
        node, (value,) = node.writable((value,))
    writes = list(_planned(node, value))
    # NumPy minds an overlap within one assignment to one box; elsewhere each value stands alone.
    if len(writes) > 1 or not all(place.where.is_box for place in writes):
        writes = [_apart(place, writes) for place in writes]
    _carry_out(writes)


def _planned(node: Node, value: Any) -> Iterator[_Write]:
    if isinstance(node, Record):
        yield from _planned_record(node, value)
        return
    check_writable(node)
    if isinstance(value, Mapping) and node.fields.named:
        parts = _parts_of(value, tuple(node.fields))
        for name in node.fields:
            yield from _planned(field(node, name), parts[name])
        return
    data = evaluate(value) if isinstance(value, Node) else value
    array = _fitted(data, known_shape(node), known_dtype(node))
    for place in _places(node, None, array):
        if place.source.dtype == array.dtype:
            yield place
        else:  # joined parts may be narrower than what they make together
            given = value if is_scalar(value) else place.value
            yield place._replace(value=cast(given, place.source.dtype))


def _apart(place: _Write, writes: Sequence[_Write]) -> _Write:
    """Return a write whose value no other write of the same whole can change before it is used."""
    for other in writes:
        memory = other.source.memory
        if memory is not None and np.may_share_memory(memory, place.value):
            return place._replace(value=place.value.copy())
    return place


def _planned_record(node: Record, value: Any) -> Iterator[_Write]:
    parts = members(node)
    values = _parts_of(value, tuple(parts))
    for name, part in parts.items():
        yield from _planned(part.node, values[name])


def _parts_of(value: Any, names: tuple[str, ...]) -> Mapping[str, Any]:
    """Return a record's new values by name, from whatever form they were given in."""
    if isinstance(value, Record):
        given: Mapping[str, Any] = {name: part.node for name, part in members(value).items()}
    elif isinstance(value, Mapping):
        given = value
    elif isinstance(value, (np.ndarray, np.void)) and value.dtype.names:
        given = {name: value[name] for name in value.dtype.names}
    elif isinstance(value, tuple):
        if len(value) != len(names):
            raise ValueError(
                f"a record of {len(names)} fields ({', '.join(names)}) takes a tuple of as many "
                f"values; got {len(value)}"
            )
        given = dict(zip(names, value, strict=True))
    else:
        raise TypeError(
            "a record is written from a mapping, a tuple in field order, a structured array or a "
            f"view with the same fields ({', '.join(names)}); got {type(value).__name__}"
        )
    if set(given) != set(names):
        raise FieldError(
            f"the record has the fields {', '.join(names)}; the value has {', '.join(given)}"
        )
    return given


# --- before the first byte -------------------------------------------------------------------


def check_writable(node: Node) -> None:
    """Raise unless every part of the node leads to a source that can be written."""
    if isinstance(node, Stored):
        if not node.writable:
            raise ReadOnlyError(f"the data ({node.source.describe()}) is read-only")
    elif isinstance(node, (Select, Driven)):
        check_writable(node.node)
    elif isinstance(node, Concat):
        for part in node.nodes:
            check_writable(part)
    elif isinstance(node, Unbound):
        raise ReadOnlyError(f"symbol {', '.join(node.names)} holds no data that could be written")
    else:
        raise ReadOnlyError(
            f"{_step(node)} is computed, so it cannot be written; write to what it is computed "
            "from, or keep a copy with _freeze()"
        )


def _step(node: Node) -> str:
    if isinstance(node, Elementwise):
        return f"the result of {node.ufunc.__name__}"
    if isinstance(node, Comparison):
        return "the result of a comparison"
    if isinstance(node, Mapped):
        return f"the result of {node.step.title}"
    return f"the result of {type(node).__name__.lower()}"


def _fitted(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return the value cast to the dtype, broadcastable to the shape, or raise."""
    if any(map(is_endless, shape)):
        raise endless("writing all of it")
    if dtype.kind == "O" and not shape:
        array = np.empty((), object)
        array[()] = value
        return array
    array = cast(value, dtype)
    while array.ndim > len(shape) and len(array) == 1:
        array = array[0]
    try:
        fits = np.broadcast_shapes(array.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"a value of shape {np.shape(value)} cannot be broadcast to the view's shape {shape}"
        )
    return array


# --- places ----------------------------------------------------------------------------------


def _places(node: Node, index: Index | None, value: np.ndarray) -> Iterator[_Write]:
    """Return the places in sources to which a value goes that is written through a node."""
    if isinstance(node, Stored):
        yield _Write(node.source, identity(node.source.shape) if index is None else index, value)
    elif isinstance(node, Select):
        below = node.index if index is None else compose(node.index, index)
        yield from _places(node.node, below, value)
    elif isinstance(node, Driven):
        yield from _places(node.node, index, value)
    elif isinstance(node, Concat):
        index = identity(known_shape(node)) if index is None else index
        whole = np.broadcast_to(value, index.shape)
        for part in split_rows(node, index):
            yield from _part_places(part, whole)


def _part_places(part: Piece, whole: np.ndarray) -> Iterator[_Write]:
    yield from _places(part.node, part.where, part.of(whole)[part.places])


# --- carrying out ----------------------------------------------------------------------------


def _carry_out(writes: Sequence[_Write]) -> None:
    """Write everything, or undo what was written and raise; tell who keeps rows of it."""
    try:
        _written(writes)
    finally:
        announce([place.source for place in writes])


def _written(writes: Sequence[_Write]) -> None:
    if len(writes) == 1 and writes[0].source.memory is not None:
        writes[0].source.write(writes[0].where, writes[0].value)
        return
    old: list[np.ndarray] = []
    budget = sizes.undo_bytes
    begun = 0
    try:
        for place in writes:
            budget -= size_of(place.where.shape) * place.source.dtype.itemsize
            if budget >= 0:
                values = place.source.read(place.where, {})
                old.append(values if place.source.memory is None else values.copy())
            begun += 1
            place.source.write(place.where, place.value)
    except BaseException as error:
        _undo(writes[:begun], old[:begun], error)
        raise


def _undo(begun: Sequence[_Write], old: Sequence[np.ndarray], error: BaseException) -> None:
    if len(old) < len(begun):
        raise PartialWriteError(
            f"the write failed after {len(begun) - 1} of its parts, and the old values were too "
            f"large to keep ({sizes.undo_bytes >> 20} MB): "
            f"{[part.source.describe() for part in begun]}"
        ) from error
    for place, values in zip(reversed(begun), reversed(old), strict=True):
        place.source.write(place.where, values)
