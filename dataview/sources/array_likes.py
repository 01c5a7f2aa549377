"""Objects that look like arrays and are not memory: read and written by slabs, by their own `[]`.

Every such object is asked only for what all of them can do: slices with a positive step, and
one ascending list of positions where its class is known to take it.  NumPy does the rest.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dataview.index import (
    Affine,
    Array,
    Constant,
    Index,
    Map,
    axes_of,
    block_index,
    boxed,
    compose,
    gather,
    is_identity,
    shares_axes,
)
from dataview.sizes import sizes
from dataview.sources.protocol import Memo, Source
from dataview.sources.sharing import Reference

_WRITING = threading.RLock()
"""Held while an object is written: what is stored in chunks reads, changes and writes whole ones,
so two threads that write different places of one chunk would lose one of the changes."""

NEEDED_TIMES = 4
"""Of places that are scattered over several axes, a box is read that has at most so many times more
elements than are needed."""


class ArrayLike(Source):
    """An object with `shape`, `dtype` and `[]`.

    Several threads may read it at once, as they may call a function of rows.
    """

    __slots__ = ("array", "dtype", "shape", "title", "writable")

    takes_a_list: ClassVar[bool] = False
    """Whether one ascending list of positions may stand in a key."""

    span_times: ClassVar[int] = 1
    """A run that is at most so many times longer than what is needed of it is read whole."""

    spare_bytes: ClassVar[int] = 0
    """A box of at most so many bytes is read whole, however few of its elements are needed."""

    fresh: ClassVar[bool] = False
    """Whether `[]` returns arrays that nobody else holds."""

    def __init__(self, array: Any, title: str, writable: bool) -> None:
        self.array = array
        self.title = title
        self.writable = writable
        self.shape: tuple[int, ...] = tuple(map(int, array.shape))
        self.dtype = _without_metadata(np.dtype(array.dtype))

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrayLike, (self.array, self.title, self.writable)

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return what the index selects, asking for little more than that."""
        if 0 in index.shape:
            return np.ndarray(index.shape, self.dtype)
        self._check()
        steps = [map_ for map_ in index.maps if isinstance(map_, Affine) and _has_steps(map_)]
        blocks = (
            list(self._blocks(index, self.span_times))
            if steps and index.is_box
            else [((...,), index)]
        )
        spare = self.spare_bytes // max(1, self.dtype.itemsize)
        if len(blocks) == 1:
            parts = list(_parts(index, NEEDED_TIMES, spare))
            if len(parts) == 1:
                return gather.read(self._box(parts[0].box), parts[0].within)
        found = np.empty(index.shape, self.dtype)
        for where, block in blocks:
            for part in _parts(block, NEEDED_TIMES, spare):
                found[where][part.where] = gather.read(self._box(part.box), part.within)
        return found

    def write(self, index: Index, value: np.ndarray) -> None:
        """Write through the index; nothing but the places that it selects is written."""
        if 0 in index.shape:
            return
        self._check()
        spread = np.broadcast_to(value, index.shape)
        for where, block in self._blocks(index):
            for part in _parts(block, 1):
                self._write_box(part, spread[where][part.where])

    def _write_box(self, part: _Part, value: np.ndarray) -> None:
        """Write a value to a part of a view that fills a box."""
        block = value
        if not is_identity(part.within, part.box.shape):
            block = np.empty(part.box.shape, self.dtype)
            gather.assign(block, part.within, value)
        for slab in product(*_asked(part.box, 1, self.takes_a_list)):
            places: Any = (*(piece.places for piece in slab), ...)
            with _WRITING:
                self._put([piece.asked for piece in slab], _picked(block[places], slab))

    def _blocks(self, index: Index, times: int = 1) -> Iterator[tuple[Any, Index]]:
        """Cut an index into blocks for which little memory is needed, at most `times` their size.

        A value that is one number everywhere would otherwise be as large as what it is written to.

        Where places may be repeated, cuts are along the first axis, so that the last one counts.
        """
        single = all(len(axes_of(map_)) < 2 for map_ in index.maps) and index.is_box
        axis, size = self.slow_axis(index) if single else (0, self._step_bytes(index, 0))
        length = index.shape[axis] if index.shape else 1
        step = max(1, sizes.file_bytes // (size * times))
        if length <= step:
            yield (...,), index
            return
        for low in range(0, length, step):
            high = min(length, low + step)
            where = (slice(None),) * axis + (slice(low, high),)
            yield where, compose(index, block_index(index.shape, low, high, axis))

    def _step_bytes(self, index: Index, axis: int) -> int:
        """Return the bytes of one step along an axis of a view."""
        others = (*index.shape[:axis], *index.shape[axis + 1 :])
        return max(1, self.dtype.itemsize * math.prod(others))

    def slow_axis(self, index: Index) -> tuple[int, int]:
        """Return the axis of a view that walks along the first axis of the object."""
        axes = axes_of(index.maps[0]) if index.maps else ()
        axis = axes[0] if axes else 0
        return axis, self._step_bytes(index, axis)

    def of_shape(self, shape: tuple[int, ...]) -> Self:
        """Return the source of fewer rows, if some were added since it had this shape."""
        if self.shape != shape and _has_more_rows(self.shape, shape):
            self.shape = shape
        return self

    def describe(self) -> str:
        """Say which object it is, and whether it can be written."""
        return f"{self.title} ({'r+' if self.writable else 'r'})"

    def reference(self) -> Reference:
        """Return what finds the object again as long as it lives."""
        title, writable, kind = self.title, self.writable, type(self)
        try:
            holder = weakref.ref(self.array)
        except TypeError:  # a class without weak references
            return super().reference()
        return Reference(self, holder, title, lambda array: kind(array, title, writable))

    def is_same(self, other: Source) -> bool:
        """Whether another source is of the same object."""
        return isinstance(other, ArrayLike) and self.array is other.array

    # --- the object --------------------------------------------------------------------------

    def _check(self) -> None:
        """Raise if the object is no longer as it was when the view was made."""
        shape = tuple(self.array.shape)
        if shape != self.shape and not _has_more_rows(shape, self.shape):
            raise ValueError(
                f"the data ({self.title}) had the shape {self.shape} when the view was made, and "
                f"now has {shape}; make a view of it anew"
            )

    def _box(self, box: Index) -> np.ndarray:
        """Return the elements of a box, in a new array."""
        room = sizes.file_bytes // max(1, self.dtype.itemsize) if self.takes_a_list else 0
        slabs = list(product(*_asked(box, self.span_times, self.takes_a_list, room)))
        if len(slabs) == 1:
            asked = self._get([piece.asked for piece in slabs[0]])
            found = _picked(asked, slabs[0])
            return found if self.fresh and found.size == asked.size else np.array(found)
        out = np.empty(box.shape, self.dtype)
        for slab in slabs:
            found = self._get([piece.asked for piece in slab])
            out[tuple(piece.places for piece in slab)] = _picked(found, slab)
        return out

    def _get(self, asked: Sequence[slice | np.ndarray]) -> np.ndarray:
        """Return one slab as an array of the dtype."""
        key = self._key(asked)
        found = self._as_array(self._slab(key))
        shape = tuple(map(_length, asked))
        if found.shape != shape:
            raise ValueError(
                f"the data ({self.title}) gave the shape {found.shape} for the key {key}, which "
                f"selects {shape} of {self.shape}; its [] has to take slices as NumPy does"
            )
        return found

    def _slab(self, key: Any) -> Any:
        """Return what the object gives for a key."""
        return self.array[key]

    def _put(self, asked: Sequence[slice | np.ndarray], value: np.ndarray) -> None:
        """Write one slab."""
        self.array[self._key(asked)] = value

    def _key(self, asked: Sequence[slice | np.ndarray]) -> Any:
        """Return the shortest key: some objects take slices of rows and nothing else."""
        key = list(asked)
        if all(isinstance(part, slice) for part in key):
            while len(key) > 1 and _length(key[-1]) == self.shape[len(key) - 1]:
                key.pop()
        return key[0] if len(key) == 1 else tuple(key)

    def _as_array(self, found: Any) -> np.ndarray:
        """Return what `[]` gave as an array of the dtype, or raise if that would lose something."""
        if self.dtype.hasobject and not isinstance(found, np.ndarray):
            cell = np.empty(1, self.dtype)
            cell[0] = found
            return cell.reshape(())
        if isinstance(found, np.ma.MaskedArray) and np.ma.is_masked(found):
            raise ValueError(
                f"the data ({self.title}) gave a masked array, which would lose its mask; have the "
                "object give plain arrays, such as by set_auto_mask(False)"
            )
        array = np.asarray(found)
        if array.dtype == self.dtype:
            return array.view(self.dtype)
        if np.can_cast(array.dtype, self.dtype, "safe"):
            return array.astype(self.dtype)
        raise TypeError(
            f"the data ({self.title}) says that its dtype is {self.dtype}, and gave "
            f"{array.dtype} ({type(found).__name__})"
        )


def _has_more_rows(shape: tuple[int, ...], old: tuple[int, ...]) -> bool:
    """Whether rows were added to an array of the old shape, and nothing else was changed."""
    return bool(old) and shape[1:] == old[1:] and shape[:1] > old[:1]


def _without_metadata(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a dtype without the notes of a library, such as that its objects are texts.

    NumPy cannot describe the memory of records with such notes.
    """
    if dtype.subdtype is not None:
        return np.dtype((_without_metadata(dtype.subdtype[0]), dtype.shape))
    if dtype.names is not None:
        fields = [dtype.fields[name] for name in dtype.names] if dtype.fields else []
        return np.dtype(
            {
                "names": dtype.names,
                "formats": [_without_metadata(field[0]) for field in fields],
                "offsets": [field[1] for field in fields],
                "itemsize": dtype.itemsize,
            }
        )
    return dtype if dtype.metadata is None else np.dtype(dtype.str)


# --- what is asked for -----------------------------------------------------------------------


class _Part(NamedTuple):
    """A part of a view: where it lies there, the box of what it needs, its index within the box."""

    where: tuple[Any, ...]
    box: Index
    within: Index


def _parts(index: Index, times: int, spare: int = 0) -> Iterator[_Part]:
    """Cut an index until the box of each part has at most `times` the elements that it needs.

    A box of at most `spare` elements is not cut, nor are places that are scattered over one axis
    alone.  Cuts are along the first axis, so that of repeated places the last one comes last.  With
    `times` 1 and nothing to spare, a box has no other places than those of the view.
    """
    waiting = [((0,) * len(index.shape), index)]
    while waiting:
        start, part = waiting.pop()
        box, within = boxed(part, len(part.maps))
        used = sorted({axis for map_ in part.maps for axis in axes_of(map_)})
        if math.prod(box.shape) <= spare or _is_dense(part, box, within, used, times):
            where = (slice(at, at + n) for at, n in zip(start, part.shape, strict=True))
            yield _Part((*where, ...), box, within)
            continue
        axis = next(axis for axis in used if part.shape[axis] > 1)
        middle = part.shape[axis] // 2
        for low, high in [(middle, part.shape[axis]), (0, middle)]:  # the last is taken first
            begin = (*start[:axis], start[axis] + low, *start[axis + 1 :])
            waiting.append((begin, compose(part, block_index(part.shape, low, high, axis))))


def _is_dense(part: Index, box: Index, within: Index, used: Sequence[int], times: int) -> bool:
    """Whether a box has at most `times` as many elements as a part needs."""
    if not any(shares_axes(part, number) for number in range(len(part.maps))):
        return True
    if math.prod(box.shape) > times * math.prod(part.shape[axis] for axis in used):
        return False
    if times > 1:
        return True
    covered = np.zeros(box.shape, bool)
    gather.assign(covered, within, np.array(True))
    return bool(covered.all())


def _has_steps(map_: Affine) -> bool:
    """Whether a map leaves places out, so that to read what lies between takes more memory."""
    return any(abs(stride) > 1 for _, stride in map_.strides)


class _Piece(NamedTuple):
    """A part of an axis: its places in the box, the key for it, what of the answer is wanted."""

    places: slice
    asked: slice | np.ndarray
    wanted: slice | np.ndarray = slice(None)


def _asked(box: Index, times: int, takes_a_list: bool, room: int = 0) -> list[list[_Piece]]:
    """Return the pieces in which each axis of a box is asked for.

    Only one axis can have a list; others are read over all their span, if that has room enough.
    """
    axes = [_pieces(map_, box.shape, times) for map_ in box.maps]
    longest = max(range(len(axes)), key=lambda axis: len(axes[axis]), default=0)
    elements = math.prod(box.shape)
    for axis, map_ in enumerate(box.maps):
        if not isinstance(map_, Array) or len(axes[axis]) == 1:
            continue
        numbers = map_.values
        low, high = int(numbers[0]), int(numbers[-1]) + 1
        if axis == longest and takes_a_list:
            axes[axis] = [_Piece(slice(None), numbers)]
        elif elements * (high - low) <= room * len(numbers):
            elements = elements * (high - low) // len(numbers)
            axes[axis] = [_Piece(slice(None), slice(low, high), numbers - low)]
    return axes


def _pieces(map_: Map, shape: tuple[int, ...], times: int) -> list[_Piece]:
    """Return the slices in which one axis of a box is asked for."""
    if isinstance(map_, Constant):
        return [_Piece(slice(None), slice(map_.offset, map_.offset + 1))]
    if isinstance(map_, Affine):
        ((axis, stride),) = map_.strides
        last = map_.offset + stride * (shape[axis] - 1)
        low, high = min(map_.offset, last), max(map_.offset, last)
        return [_stepped(low, high, abs(stride) if low < high else 1, stride < 0, times)]
    assert isinstance(map_, Array)
    numbers = map_.values
    low, high, steps = int(numbers[0]), int(numbers[-1]), np.diff(numbers)
    if (steps == (steps[0] if len(steps) else 1)).all():
        return [_stepped(low, high, int(steps[0]) if len(steps) else 1, False, times)]
    if high - low < times * len(numbers):
        return [_Piece(slice(None), slice(low, high + 1), numbers - low)]
    cuts = [0, *(np.flatnonzero(steps > 1) + 1).tolist(), len(numbers)]
    runs = pairwise(cuts)
    return [_Piece(slice(a, b), slice(int(numbers[a]), int(numbers[b - 1]) + 1)) for a, b in runs]


def _stepped(low: int, high: int, step: int, turned: bool, times: int) -> _Piece:
    """Return the piece of positions from low to high, in steps, from the last one if turned."""
    if step > times:
        return _Piece(
            slice(None), slice(low, high + 1, step), slice(None, None, -1 if turned else 1)
        )
    return _Piece(slice(None), slice(low, high + 1), slice(None, None, -step if turned else step))


def _picked(found: np.ndarray, slab: Sequence[_Piece]) -> np.ndarray:
    """Return what is wanted of an answer."""
    for axis, piece in enumerate(slab):
        if isinstance(piece.wanted, np.ndarray) or piece.wanted.step not in (None, 1):
            found = found[(slice(None),) * axis + (piece.wanted,)]
    return found


def _length(asked: slice | np.ndarray) -> int:
    """Return how many positions a key of one axis selects."""
    if isinstance(asked, slice):
        return len(range(asked.start, asked.stop, asked.step or 1))
    return len(asked)
