"""Values written where a mask is true, and NumPy's functions that change their first argument.

One value, or data of the same shape, are written where a mask is true block by block: all elements
are written, those outside of the mask with what is there.  So each element must have a place of its
own; what has not is left to the general way, by the positions where the mask is true.

Each row of `ROWS` takes the arguments of a function of NumPy's.  It writes what the function would
change and returns True, or it returns False and has done nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from dataview.compute import evaluate, row_blocks
from dataview.exchange import argument_of
from dataview.index import axes_of
from dataview.index.sizes import sizes
from dataview.plan import layout
from dataview.plan.build import elementwise, keyed
from dataview.plan.gaps import holds_codes, may_have_codes
from dataview.plan.guards import is_broadcast_to
from dataview.plan.kinds import Record, Reduction, Sampled, known_dtype, known_shape, size_of
from dataview.plan.node import DType, Node
from dataview.plan.operations import NumpyFunction, copied
from dataview.plan.places import into_places, place_of
from dataview.plan.values import cast
from dataview.plan.walk import below
from dataview.show import title
from dataview.view.face import (
    BaseView,
    argument,
    evaluated,
    in_codes,
    node_from,
    node_of,
    unwrapped,
    viewed,
    write_all,
)
from dataview.write import apply_where, check_row, check_writable, put_where, write

_WHERE = NumpyFunction("where")
_PLAIN_KINDS = "biufcmMUS"


def assigned(node: Node, mask: Node, value: Any) -> bool:
    """Write one value where a mask of a node's shape is true; return False if nothing was done."""
    return mask.shape == node.shape and put_one(node, mask, value, cast)


def check_axes(node: Node, key: Any, value: Any) -> None:
    """Raise if a value with several axes is written through a mask of all of a view's axes."""
    mask = key[0] if type(key) is tuple and len(key) == 1 else key
    if type(mask) is list:
        mask = np.asarray(mask)
    mask = unwrapped(mask)
    if not isinstance(mask, (Node, np.ndarray)) or mask.dtype is None or mask.dtype.kind != "b":
        return
    if not mask.shape or node.shape is None or len(mask.shape) != len(node.shape):
        return
    given = unwrapped(value)
    axes = (
        0 if isinstance(given, Mapping) else len(getattr(given, "shape", None) or np.shape(given))
    )
    if axes > 1:
        raise TypeError(
            f"what is written through a mask has one axis or none, and goes to where the mask is "
            f"true; got {axes} axes; d[mask] = value[mask] writes a part of an array"
        )


def check_gaps(node: Node, name: str) -> None:
    """Raise if a function of NumPy would change elements whose mask does not follow."""
    if node.has_gaps:
        raise TypeError(
            f"np.{name} changes some elements of a column with gaps, whose mask says of which rows "
            "there are data; d.x[rows] = values changes both"
        )


def check_values(function: Callable[..., Any], values: Iterable[Any]) -> None:
    """Raise if a function of NumPy would take what stands in place of gaps for data."""
    given = [node_of(value) for value in values if isinstance(value, BaseView)]
    lack = any(node.has_gaps and node.dtype != bool for node in given)
    if lack and function is not np.copyto:  # which takes gaps for gaps
        raise TypeError(
            f"np.{function.__name__} is given a column with gaps, and takes what stands in their "
            "place for data; d.x[rows] = values writes the gaps, too, values._fillna(0) has none"
        )


def with_codes(
    function: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a function of `ROWS` with the codes of labels that are its values."""
    target = node_of(args[0])
    if not (may_have_codes(target) if function is np.copyto else holds_codes(target)):
        return args, options
    place, name = _VALUES[function]
    if name in options:
        return args, {**options, name: _in_codes(target, options[name])}
    rest = args[place:]
    return (*args[:place], *(_in_codes(target, value) for value in rest[:1]), *rest[1:]), options


def _in_codes(target: Node, value: Any) -> Any:
    found = in_codes(target, value)
    return viewed(found) if isinstance(found, Node) else found


def put_whole(function: Any, dst: BaseView, *args: Any, **options: Any) -> bool:
    """Write all of a record, or of rows of several lengths, as an assignment does.

    Return False for an array.  Functions of NumPy that change some elements know no other data.
    """
    if not isinstance(node_of(dst), (Record, Sampled)):
        return False
    if function is not np.copyto or len(args) + len(options) > 1 or options.keys() - {"src"}:
        raise TypeError(
            f"np.{function.__name__} changes elements of one array, and got {title(node_of(dst))}; "
            "np.copyto(d, values), with no more arguments, writes all of it, and d.x[rows] = "
            "values some rows of a field"
        )
    write_all(dst, *args, *options.values())
    return True


def put_one(node: Node, mask: Any, value: Any, fit: Callable[[Any, DType], np.ndarray]) -> bool:
    """Write one value where a mask, which may have fewer axes, is true; or return False.

    `fit` casts the value to the dtype of the data, or raises.
    """
    if node.shape is None or mask.dtype != bool or mask.shape is None:
        return False
    if not is_broadcast_to(mask.shape, node.shape):
        return False
    given = _single(in_codes(node, value))
    if given is None or not _has_places_of_its_own(node):
        return False
    check_writable(node)
    landed = fit(given, known_dtype(node))
    if put_where(node, mask, landed):
        return True
    if size_of(node.shape) < sizes.streamed_elements:
        return False
    (whole,) = elementwise(_WHERE, (argument_of(mask), argument_of(landed), node))
    write(node, whole)
    return True


def _has_places_of_its_own(node: Node) -> bool:
    """Whether each element of a node has a place of its own in one source."""
    place = place_of(node)
    if place is None or known_dtype(node).kind not in _PLAIN_KINDS:
        return False
    memory, index = place.source.memory, place.where
    if memory is not None and not memory.flags.forc:  # whose elements may lie in each other
        return False
    used = {axis for map_ in index.maps for axis in axes_of(map_)}
    spread = all(length == 1 or axis in used for axis, length in enumerate(index.shape))
    return index.is_box and spread


def _single(value: Any) -> Any:
    """Return the data of a value without axes, None if it has axes or depends on what is written.

    A statistic is of the data as they were when it was asked for, whatever is written first.
    """
    given = unwrapped(value)
    if isinstance(given, Node):
        return evaluate(given) if given.shape == () and _is_of_statistics(given) else None
    return None if isinstance(given, (list, tuple, Mapping)) or np.ndim(given) else given


def _is_of_statistics(node: Node) -> bool:
    """Whether a node is computed from statistics and constants alone."""

    def into(part: Any) -> list[Any]:
        return [] if isinstance(part, Reduction) else into_places(part)

    return all(place_of(part) is None for part in below([node], into))


# --- NumPy's functions ----------------------------------------------------------------------------


def _copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> bool:
    given, target = argument(src), node_of(dst)
    if where is True:
        check_row(target, given)
    is_all = where is True and isinstance(src, BaseView | np.ndarray) and given.shape
    if is_all and _is_cast(given.dtype, target.dtype, casting):
        write_all(dst, src)
        return True

    def landed(value: Any, dtype: DType) -> np.ndarray:
        found = np.empty((), dtype)
        np.copyto(found, value, casting)
        return found

    mask = np.asarray(where) if type(where) is bool else argument(where)
    if not isinstance(mask, (Node, np.ndarray)):
        return False
    fits = isinstance(given, Node) and _can_cast(given, target, casting)
    return put_one(target, mask, src, landed) or (fits and _put_by_mask(target, mask, given))


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

    if put_one(target, given, values, landed):
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
    is_small = size_of(shape) < sizes.streamed_elements
    if not fits or (is_small and not (target.has_gaps or value.has_gaps)):
        return False
    apply_where(target, copied, (value,), argument(mask))
    return True


def _is_plain(node: Node) -> bool:
    return node.shape is not None and node.dtype is not None and node.dtype.kind in _PLAIN_KINDS


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


_VALUES: Mapping[Any, tuple[int, str]] = {
    np.copyto: (1, "src"),
    np.fill_diagonal: (1, "val"),
    np.place: (2, "vals"),
    np.put: (2, "v"),
    np.put_along_axis: (2, "values"),
    np.putmask: (2, "values"),
}
"""Where a function takes the values that it writes, and under which name."""

ROWS: Mapping[Any, Callable[..., bool]] = {
    np.copyto: _copyto,
    np.fill_diagonal: _fill_diagonal,
    np.place: _place,
    np.put: _put,
    np.put_along_axis: _put_along_axis,
    np.putmask: _putmask,
}
