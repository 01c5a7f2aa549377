"""Objects that look like arrays and are not memory: read and written by slabs, by their own `[]`.

Every such object is asked only for what all of them can do: slices with a positive step, and
one ascending list of positions where its class is known to take it.  NumPy does the rest.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np

from dataview.index import Affine, Index, axes_of, block_index, compose, gather, is_identity
from dataview.index.locks import new_rlock
from dataview.index.points import Points, span
from dataview.index.sizes import sizes
from dataview.index.slabs import (
    Chunks,
    Part,
    even_steps,
    is_picked,
    length_of,
    near_steps,
    parts,
    picked,
    placed,
    slab_of,
    slabs,
)
from dataview.sources.chunks import MOST_TIMES, grid_of
from dataview.sources.protocol import Memo, Source
from dataview.sources.sharing import Reference

_WRITING = new_rlock()
"""Held while an object is written: what is stored in chunks reads, changes and writes whole ones,
so two threads that write different places of one chunk would lose one of the changes."""


FAR = 1 << 16
"""Looking at so many chunks takes a library longer than being asked once more."""

NEEDED_TIMES = 4
"""Of places that are scattered over several axes, a box is read that has at most so many times more
elements than are needed."""


class ArrayLike(Source):
    """An object with `shape`, `dtype` and `[]`.

    Several threads may read it at once, as they may call a function of rows.
    """

    __slots__ = ("array", "dtype", "shape", "title", "writable")

    chunks: Chunks | None = None
    """In which chunks the data are read, where many places of one are best taken from a slice."""

    takes_a_list: bool = False
    """Whether one ascending list of positions may stand in a key."""

    span_times: ClassVar[int] = 1
    """A run that is at most so many times longer than what is needed of it is read whole."""

    near_bytes: ClassVar[int] = 0
    """So many bytes between two places are read as well: to leave them out would take longer."""

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
        return self._by_slabs(index)

    def _by_slabs(self, index: Index) -> np.ndarray:
        """Return what the index selects, which is something."""
        slab = slab_of(index)
        if slab is not None:
            asked = self._get(slab)
            return (asked if self.fresh else np.array(asked)).reshape(index.shape)
        spare = self.spare_bytes // max(1, self.dtype.itemsize)
        points = Points.of(index) if spare else None
        if points is not None and span(index) > spare:
            return self._read_points(points)
        return self._by_parts(index)

    def _by_parts(self, index: Index) -> np.ndarray:
        """Return what the index selects, box by box."""
        spare = self.spare_bytes // max(1, self.dtype.itemsize)
        times = self._times_of_steps(index)
        cut = self._blocks(index, times) if times > 1 else [(..., index)]
        every = [(where, part) for where, one in cut for part in parts(one, NEEDED_TIMES, spare)]
        if len(every) == 1:
            return gather.own(self._box(every[0][1].box), every[0][1].within)
        found = np.empty(index.shape, self.dtype)
        for where, part in every:
            found[where][part.where] = gather.read(self._box(part.box), part.within)
        return found

    def _times_of_steps(self, index: Index) -> int:
        """Return how many times as much is read, since what lies between steps is read as well."""
        near = self.near_bytes // max(1, self.dtype.itemsize)
        times, inner = 1, 1
        for axis, map_ in reversed([*enumerate(index.maps)]):
            step, count = even_steps(map_, index.shape)
            if step <= max(self.span_times, near_steps(near // inner, self.chunks, axis, map_)):
                times *= step
                inner *= step
            inner *= count
        return times

    def write(self, index: Index, value: np.ndarray) -> None:
        """Write through the index; what else is in the same chunks is written as it was, if any."""
        if 0 in index.shape:
            return
        self._check()
        self._check_shape()
        spread = np.broadcast_to(value, index.shape)
        for where, block in self._blocks(index):
            points = Points.of(block) if self.spare_bytes else None
            if points is not None:
                self._write_points(points, spread[where])
            else:
                self._write_parts(block, spread[where])

    def _write_parts(self, index: Index, value: np.ndarray) -> None:
        for part in parts(index, 1):
            self._write_box(part, value[part.where])

    def _write_box(self, part: Part, value: np.ndarray) -> None:
        """Write a value to a part of a view that fills a box."""
        block = value
        if not is_identity(part.within, part.box.shape):
            block = np.empty(part.box.shape, self.dtype)
            gather.assign(block, part.within, value)
        chunks = self.chunks if self.chunks is not None and self.chunks.are_replaced else None
        for slab in product(*slabs(part.box, 1, self.takes_a_list, 0, chunks)):
            places: Any = (*(piece.places for piece in slab), ...)
            asked = [piece.asked for piece in slab]
            with _WRITING:
                if any(map(is_picked, slab)):  # the store would replace the chunks for each run
                    self._put(asked, placed(self._get(asked), slab, block[places]))
                else:
                    self._put(asked, picked(block[places], slab))

    # --- places that are scattered over several axes ---

    def _read_points(self, points: Points) -> np.ndarray:
        """Return what is at some points, reading what is around those of each chunk."""
        found = np.empty(points.shape, self.dtype)
        for group in points.groups(self._lengths_around()):
            if span(group.where) <= self._most_around():
                slab, within = group.slab()
                found[group.numbers] = gather.read(self._get(slab), within)
            else:
                found[group.numbers] = self._by_parts(group.where)
        return np.ascontiguousarray(points.as_array(found))

    def _write_points(self, points: Points, value: np.ndarray) -> None:
        """Write to some points, each chunk once: what else is around those of it is read before."""
        spread = points.of_array(value)
        for group in points.groups(self._lengths_around()):
            if span(group.where) in range(2, self._most_around() + 1):
                slab, within = group.slab()
                with _WRITING:
                    block = np.array(self._get(slab))
                    gather.assign(block, within, spread[group.numbers])
                    self._put(slab, block)
            else:
                self._write_parts(group.where, spread[group.numbers])

    def _lengths_around(self) -> Sequence[int]:
        """Return the lengths of the parts of the object whose points are met together."""
        if self.chunks is not None:
            return self.chunks.lengths
        room, found = self.spare_bytes // max(1, self.dtype.itemsize), []
        for length in reversed(self.shape):
            found.append(max(1, min(length, room)))
            room //= found[-1]
        return found[::-1]

    def _most_around(self) -> int:
        """Return how many elements may be read to change some of them."""
        return MOST_TIMES * sizes.file_bytes // max(1, self.dtype.itemsize)

    def _blocks(self, index: Index, times: int = 1) -> Iterator[tuple[Any, Index]]:
        """Cut an index into blocks for which little memory is needed, at most `times` their size.

        A value that is one number everywhere would otherwise be as large as what it is written to.

        Where places may be repeated, cuts are along the first axis, so that the last one counts.
        """
        single = all(len(axes_of(map_)) < 2 for map_ in index.maps) and index.is_box
        axis, size = self.slow_axis(index) if single else (0, self._step_bytes(index, 0))
        grid = grid_of(self, index, axis, max(1, sizes.file_bytes // (size * times)))
        if not index.shape or (grid.step >= index.shape[axis] and not grid.across):
            yield (...,), index
            return
        cut = [grid, *grid.across]
        for block in product(*(one.cuts(index.shape[one.axis]) for one in cut)):
            where: Any = [slice(None)] * len(index.shape)
            part = index
            for one, (low, high) in zip(cut, block, strict=True):
                where[one.axis] = slice(low, high)
                part = compose(part, block_index(part.shape, low, high, one.axis))
            yield tuple(where), part

    def _step_bytes(self, index: Index, axis: int) -> int:
        """Return the bytes of one step along an axis of a view."""
        others = (*index.shape[:axis], *index.shape[axis + 1 :])
        return max(1, self.dtype.itemsize * math.prod(others))

    def slow_axis(self, index: Index) -> tuple[int, int]:
        """Return the axis of a view that walks along the first axis of the object.

        If blocks of whole chunks are too large so, it is another one along which they have room, or
        are smaller: a chunk that is in several blocks is unpacked and packed for each of them.
        Where they would be too large along any axis alone, they are cut along several.
        """
        axes = axes_of(index.maps[0]) if index.maps else ()
        axis = axes[0] if axes else 0
        if self.chunk_shape and index.is_box:
            blocks = list(self._blocks_of_chunks(index))
            fitting = [block for block in blocks if block[0] <= sizes.file_bytes]
            size, best = (fitting or [min(blocks, default=(0, axis))])[0]
            if size <= MOST_TIMES * sizes.file_bytes or not grid_of(self, index, axis, 1).across:
                axis = best
        return axis, self._step_bytes(index, axis)

    def _blocks_of_chunks(self, index: Index) -> Iterator[tuple[int, int]]:
        """Yield the bytes of a block of whole chunks along axes of a view, and the axis."""
        for map_, chunk in zip(index.maps, self.chunk_shape, strict=False):
            if isinstance(map_, Affine):
                axis, stride = min(map_.strides)
                steps = min(max(1, chunk // max(1, abs(stride))), index.shape[axis])
                yield self._step_bytes(index, axis) * steps, axis

    def of_shape(self, shape: tuple[int, ...]) -> Self:
        """Return the source of fewer rows, if some were added since it had this shape."""
        if self.shape != shape and _has_more_rows(self.shape, shape):
            self.shape = shape
        return self

    @property
    def is_held(self) -> bool:  # type: ignore[override]
        """Whether a user has the object: that of a file opened by its name is known here alone."""
        return getattr(self, "file", None) is None

    def describe(self) -> str:
        """Say which object it is, if it can be written, and what was done when it was opened."""
        return self._with_mode(self.title)

    def in_file(self) -> tuple[str, tuple[str, ...]]:
        """Return the file, and the names of groups and of the dataset, if the title has them."""
        file, *names = self.title.split("/")
        return (self._with_mode(file), tuple(names)) if names else ("", ())

    def _with_mode(self, title: str) -> str:
        claim = getattr(getattr(self, "file", None), "claim", None)
        note = f", {claim.note}" if claim is not None and claim.note else ""
        return f"{title} ({'r+' if self.writable else 'r'}{note})"

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
        """Raise if the object cannot be asked any more."""
        self._check_shape()

    def _check_shape(self) -> None:
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
        near = self.near_bytes // max(1, self.dtype.itemsize)
        keys = slabs(box, self.span_times, self.takes_a_list, room, self.chunks, near)
        every = list(product(*keys))
        if len(every) == 1:
            asked = self._get([piece.asked for piece in every[0]])
            found = picked(asked, every[0])
            return found if self.fresh and found.size == asked.size else np.array(found)
        out = np.empty(box.shape, self.dtype)
        for slab in every:
            found = self._get([piece.asked for piece in slab])
            out[tuple(piece.places for piece in slab)] = picked(found, slab)
        return out

    def _axis_of_far_places(self, asked: Sequence[slice | np.ndarray]) -> int | None:
        """Return an axis whose places are asked for one by one: so many chunks lie between them.

        Libraries look at each chunk between the first place and the last: there may be billions.
        """
        for axis, part in enumerate(asked if self.chunks is not None else ()):
            if isinstance(part, np.ndarray) or part.step not in (None, 1):
                places = _places_of(part)
                chunks = (places[-1] - places[0]) // self.chunk_shape[axis] if places else 0
                if chunks > FAR * len(places):
                    return axis
        return None

    def _get(self, asked: Sequence[slice | np.ndarray]) -> np.ndarray:
        """Return one slab as an array of the dtype."""
        axis = self._axis_of_far_places(asked)
        if axis is not None:
            each = [
                [*asked[:axis], slice(place, place + 1), *asked[axis + 1 :]]
                for place in _places_of(asked[axis])
            ]
            return np.concatenate([self._get(one) for one in each], axis)
        shape = tuple(map(length_of, asked))
        key = self._key(asked, shape)
        found = self._as_array(self._slab(key))
        if found.shape != shape:
            raise ValueError(
                f"the data ({self.title}) gave the shape {found.shape} for the key {key}, which "
                f"selects {shape} of {self.shape}; its [] has to take slices as NumPy does"
            )
        return found

    def _slab(self, key: Any) -> Any:
        """Return what the object gives for a key."""
        return self.array[key]

    @staticmethod
    def _while_none_writes() -> AbstractContextManager[Any]:
        """Return what is held while an object is read in several steps."""
        return _WRITING

    def _put(self, asked: Sequence[slice | np.ndarray], value: np.ndarray) -> None:
        """Write one slab."""
        self.array[self._key(asked, tuple(map(length_of, asked)))] = value

    def _key(self, asked: Sequence[slice | np.ndarray], lengths: tuple[int, ...]) -> Any:
        """Return the shortest key: some objects take slices of rows and nothing else."""
        count = len(asked)
        if not any(isinstance(part, np.ndarray) for part in asked):
            while count > 1 and lengths[count - 1] == self.shape[count - 1]:
                count -= 1
        return asked[0] if count == 1 else tuple(asked[:count])

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
        if array.dtype == self.dtype:  # texts of any length lie in the memory of their own dtype
            return array if array.dtype.kind == "T" else array.view(self.dtype)
        if np.can_cast(array.dtype, self.dtype, "safe"):
            return array.astype(self.dtype)
        raise TypeError(
            f"the data ({self.title}) says that its dtype is {self.dtype}, and gave "
            f"{array.dtype} ({type(found).__name__})"
        )


def _places_of(asked: slice | np.ndarray) -> Sequence[int]:
    """Return the positions that a key of one axis selects, in their order."""
    if isinstance(asked, slice):
        return range(asked.start, asked.stop, asked.step or 1)
    places: list[int] = asked.tolist()
    return places


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
