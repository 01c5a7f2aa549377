"""NumPy's functions that change their first argument: they write through a view.

Each row of `ROWS` takes NumPy's arguments.  It writes what NumPy's function would change and
returns True, or it returns False and has done nothing.  Masks of the data's shape are applied block
by block; of all else only the places that change are read and written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dataview.compute import evaluate, row_blocks
from dataview.plan import layout
from dataview.plan.build import keyed
from dataview.plan.guards import is_broadcast_to
from dataview.plan.kinds import known_dtype, known_shape, size_of
from dataview.plan.node import DType, Node
from dataview.plan.operations import copied
from dataview.sizes import sizes
from dataview.view.face import BaseView, argument, built, evaluated, node_from, node_of
from dataview.view.masks import filled
from dataview.write import apply_where, write


def _copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> bool:
    given, target = argument(src), node_of(dst)
    is_all = where is True and isinstance(src, BaseView | np.ndarray) and given.shape
    if is_all and _is_cast(given.dtype, target.dtype, casting):
        write(target, given, built(src))
        return True

    def landed(value: Any, dtype: DType) -> np.ndarray:
        found = np.empty((), dtype)
        np.copyto(found, value, casting)
        return found

    mask = np.asarray(where) if type(where) is bool else argument(where)
    if not isinstance(mask, (Node, np.ndarray)):
        return False
    fits = isinstance(given, Node) and _can_cast(given, target, casting)
    return filled(target, mask, src, landed) or (fits and _put_by_mask(target, mask, given))


def _can_cast(value: Node, target: Node, casting: Any) -> bool:
    known = value.dtype is not None and target.dtype is not None
    return known and bool(np.can_cast(known_dtype(value), known_dtype(target), casting))


def _is_cast(own: DType | None, wanted: DType | None, casting: Any) -> bool:
    """Whether data are cast as any value that is written is cast."""
    if own is None or wanted is None or own.hasobject or own.names or casting == "unsafe":
        return False
    return bool(np.can_cast(own, wanted, casting))


def _putmask(a: Any, mask: Any, values: Any) -> bool:
    target, given = node_of(a), argument(mask)
    if not isinstance(given, Node) or given.shape is None or given.shape != target.shape:
        return False

    def landed(value: Any, dtype: DType) -> np.ndarray:
        found = np.empty(1, dtype)
        np.putmask(found, True, value)
        return found[0, ...]

    if filled(target, given, values, landed):
        return True
    value = argument(values) if isinstance(values, BaseView | np.ndarray) else None
    if isinstance(value, Node) and value.shape == target.shape and _is_plain(value):
        np.putmask(np.empty(1, target.dtype), False, np.empty(1, value.dtype))  # raises if refused
        if _put_by_mask(target, given, value):
            return True
    found = evaluated(values)
    if not np.size(found) or not _is_plain(target):
        return False
    numbers = _true_places(given)
    if np.size(found) > 1:  # NumPy converts a list as it converts one value
        own = found if isinstance(found, np.ndarray) else np.asarray(found, target.dtype)
        found = own.reshape(-1)[numbers % own.size]
    return _put_numbered(
        target, numbers, lambda out: np.putmask(out, np.ones(out.shape, bool), found)
    )


def _put_by_mask(target: Node, mask: Any, value: Node) -> bool:
    """Write large data of a plain dtype where a mask is true, block by block."""
    if not _is_plain(target) or not _is_plain(value):
        return False
    shape = known_shape(target)
    fits = mask.dtype == bool and mask.shape is not None and is_broadcast_to(mask.shape, shape)
    if not fits or size_of(shape) < sizes.streamed_elements:
        return False
    apply_where(target, copied, (value,), argument(mask))
    return True


def _is_plain(node: Node) -> bool:
    return node.shape is not None and node.dtype is not None and node.dtype.kind in "biufcmMUS"


def _put(a: Any, ind: Any, v: Any, mode: str = "raise") -> bool:
    target, numbers = node_of(a), np.asarray(evaluated(ind))
    if mode not in _OF_ANY_SIZE or (numbers.size and numbers.dtype.kind not in "iu"):
        return False
    values = evaluated(v)
    if not _is_plain(target) or not numbers.size or not np.size(values):
        return False
    count = size_of(known_shape(target))
    numbers = _OF_ANY_SIZE[mode](numbers.astype(np.intp).reshape(-1), count)
    return _put_numbered(target, numbers, lambda out: np.put(out, np.arange(out.size), values))


_OF_ANY_SIZE: Mapping[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "raise": lambda numbers, size: numbers,
    "wrap": lambda numbers, size: numbers % max(1, size),
    "clip": lambda numbers, size: np.clip(numbers, 0, max(0, size - 1)),
}
"""How `np.put` takes numbers beyond the last element."""


def _place(arr: Any, mask: Any, vals: Any) -> bool:
    target, given, values = node_of(arr), node_from(mask), evaluated(vals)
    if not _is_plain(target) or given.shape is None or not np.size(values):
        return False
    if size_of(given.shape) != size_of(known_shape(target)):
        return False
    numbers = _true_places(given)
    return _put_numbered(
        target, numbers, lambda out: np.place(out, np.ones(out.shape, bool), values)
    )


def _true_places(mask: Node) -> np.ndarray:
    """Return the numbers of the elements that are true, read block by block."""
    found, start = [np.empty(0, np.intp)], 0
    for index in row_blocks(mask):
        block = np.asarray(evaluate(mask, index))
        found.append(np.flatnonzero(block) + start)
        start += block.size
    return np.concatenate(found)


def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> bool:
    target, values = node_of(a), evaluated(val)
    shape = target.shape or ()
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1) or not np.size(values):
        return False
    step = 1 + sum(np.cumprod(shape[:0:-1]).tolist())
    stop = shape[1] ** 2 if len(shape) == 2 and not wrap else None
    numbers = np.arange(*slice(None, stop, step).indices(size_of(shape)))

    def fill(out: np.ndarray) -> None:
        out.flat[:] = values

    return _put_numbered(target, numbers, fill)


def _put_numbered(target: Node, numbers: np.ndarray, fill: Callable[[np.ndarray], None]) -> bool:
    """Write what NumPy fills an array of as many elements with to numbered elements."""
    if not _is_plain(target):
        return False
    found = np.empty(numbers.size, target.dtype)
    fill(found)
    write(keyed(layout.reshaped(target, -1), numbers), found)
    return True


def _put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> bool:
    target, given = node_of(arr), np.asarray(evaluated(indices))
    shape = target.shape or ()
    if axis is None or not _is_plain(target) or given.dtype.kind not in "iu":
        return False
    if given.ndim != len(shape) or not -len(shape) <= axis < len(shape):
        return False
    key: list[Any] = list(np.ix_(*map(np.arange, shape)))
    key[axis] = given
    part = keyed(target, tuple(key))
    found = np.empty(known_shape(part), target.dtype)
    found[...] = evaluated(values)
    write(part, found)
    return True


ROWS: Mapping[Any, Callable[..., bool]] = {
    np.copyto: _copyto,
    np.fill_diagonal: _fill_diagonal,
    np.place: _place,
    np.put: _put,
    np.put_along_axis: _put_along_axis,
    np.putmask: _putmask,
}
