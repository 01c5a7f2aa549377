"""Writing a value through a view to the places in sources that it shows: as a whole or not at all.

Shape, dtype, casting and read-only data are checked before the first byte is written.  A failure
after that is undone from a copy of the old values, unless these are larger than a budget.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import Place, evaluate, take_before
from dataview.errors import FieldError, PartialWriteError, ReadOnlyError
from dataview.index import Index, compose, identity, is_endless
from dataview.plan.build import field
from dataview.plan.casting import cast
from dataview.plan.concat import split_rows
from dataview.plan.guards import endless, is_broadcast_to
from dataview.plan.kinds import (
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
from dataview.plan.walk import below
from dataview.sizes import sizes
from dataview.sources import ArraySource, Source

_listeners: weakref.WeakSet[Any] = weakref.WeakSet()


def listen(store: Any) -> None:
    """Call `store.written(source)` for each source that is written from now on."""
    _listeners.add(store)


def announce(sources: Iterable[Source]) -> None:
    """Call `written(source)` of all stores that listen, for each of these sources."""
    for store in list(_listeners):
        for source in sources:
            store.written(source)


class _Write(NamedTuple):
    """A value, and the part of a source that it is written to."""

    source: Source
    where: Index
    value: np.ndarray


def write(node: Node, value: Any) -> None:
    """Write a value (array, number, node, or parts of a record) through a node to its sources."""
    if isinstance(node, Sampled):
        node, (value,) = node.writable((value,))
    writes = list(_writes(node, value))
    take_before([Place(place.source, place.where) for place in writes])
    # NumPy takes care of an overlap where it assigns one value to one box of memory, and nowhere
    # else.
    if len(writes) != 1 or writes[0].source.memory is None or not writes[0].where.is_box:
        writes = [_with_own_value(place, writes) for place in writes]
    try:
        _write_all(writes)
    finally:
        announce([place.source for place in writes])


def _writes(node: Node, value: Any) -> Iterator[_Write]:
    """Return what is to be written where, after all checks that need no reading."""
    is_record = isinstance(node, Record)
    if not is_record:
        check_writable(node)
    if is_record or (isinstance(value, Mapping) and node.fields.named):
        parts = _parts_of(value, tuple(node.fields))
        for name in node.fields:
            yield from _writes(field(node, name), parts[name])
        return
    data = evaluate(value) if isinstance(value, Node) else value
    array = _as_fitting(data, known_shape(node), known_dtype(node))
    for place in _places(node, array):
        if place.source.dtype == array.dtype:
            yield place
        else:  # what is joined may have a narrower dtype than the whole
            given = value if is_scalar(value) else place.value
            yield place._replace(value=cast(given, place.source.dtype))


def _with_own_value(place: _Write, writes: Sequence[_Write]) -> _Write:
    """Return a write with a copy of its value if one of the writes could change the value."""
    own = ArraySource(place.value)
    if any(other.source.may_share(own) for other in writes):
        return place._replace(value=place.value.copy())
    return place


def _parts_of(value: Any, names: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the new values of a record's fields by name, from any form that a user can give."""
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
    for part in below([node], _shown):
        _check_part(part)


def _shown(node: Node) -> list[Any]:
    """Return the nodes whose data a node shows at other places."""
    return node.made_of() if isinstance(node, (Select, Driven, Concat)) else []


def _check_part(node: Node) -> None:
    if isinstance(node, Stored):
        if not node.writable:
            raise ReadOnlyError(f"the data ({node.source.describe()}) is read-only")
    elif isinstance(node, (Select, Driven, Concat)):
        pass  # what it shows is checked
    elif isinstance(node, Unbound):
        raise ReadOnlyError(f"symbol {', '.join(node.names)} holds no data that could be written")
    else:
        raise ReadOnlyError(
            f"{_result_name(node)} is computed, so it cannot be written; write to what it is "
            "computed from, or keep a copy with _freeze()"
        )


def _result_name(node: Node) -> str:
    if isinstance(node, Elementwise):
        return f"the result of {node.ufunc.__name__}"
    if isinstance(node, Mapped):
        return f"the result of {node.step.title}"
    if isinstance(node, Sampled):
        return "each sample"
    return f"the result of {type(node).__name__.lower()}"


def _as_fitting(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
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
    if not is_broadcast_to(array.shape, shape):
        raise ValueError(
            f"a value of shape {np.shape(value)} cannot be broadcast to the view's shape {shape}"
        )
    return array


# --- places ----------------------------------------------------------------------------------


def _places(node: Node, value: np.ndarray) -> Iterator[_Write]:
    """Return the parts of sources that a node shows, each with its part of the value."""
    waiting = [(node, identity(known_shape(node)), value)]
    while waiting:  # not by recursion, since nodes may be joined deeper than Python's stack
        node, index, value = waiting.pop()
        if isinstance(node, Stored):
            yield _Write(node.source, index, value)
        elif isinstance(node, Select):
            waiting.append((node.node, compose(node.index, index), value))
        elif isinstance(node, Driven):
            waiting.append((node.node, index, value))
        elif isinstance(node, Concat):
            whole = np.broadcast_to(value, index.shape)
            parts = [
                (part.node, part.where, part.of(whole)[part.places])
                for part in split_rows(node, index)
            ]
            waiting.extend(reversed(parts))


# --- carrying out ----------------------------------------------------------------------------


def _write_all(writes: Sequence[_Write]) -> None:
    """Write everything, or undo what was written and raise."""
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
    try:
        for place, values in zip(reversed(begun), reversed(old), strict=True):
            place.source.write(place.where, values)
    except Exception as failure:
        raise PartialWriteError(
            f"the write failed ({error!r}), and so did its undo ({failure!r}); some of its parts "
            f"may have been changed: {[part.source.describe() for part in begun]}"
        ) from error
