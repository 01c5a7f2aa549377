"""Parts of arrays in a pickle or a deep copy: what shares memory shares it again when it is loaded.

A pickle is written in order, and asks each view alone what it needs.  An `Original` stands for one
array during one pickle, which holds it and so writes it once; it knows which boxes of the array the
pickle has, and each view adds those that it still needs.  Where the pickle is loaded, a `Restored`
takes its place.  There boxes that overlap become one block of memory, and arrays that were loaded
before move into it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.lib.array_utils import byte_bounds

from dataview.index.boxes import Bands, Box, Ints, grown, within
from dataview.sources.sharing import links_of


@dataclass(slots=True, eq=False)
class Slab:
    """The elements of one box, as bytes; objects, which are no bytes, stay objects."""

    box: Box
    data: np.ndarray
    placed: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        data = np.require(self.data, requirements=["C", "W"])  # a pickle keeps such without a copy
        return _loaded_slab, (tuple(self.box), data, self.data.dtype)


def _loaded_slab(box: tuple[Ints, Ints], data: np.ndarray, dtype: np.dtype[Any]) -> Slab:
    return Slab(Box(*box), data.astype(dtype, copy=False))  # NumPy's pickles forget the byte order


class Place(NamedTuple):
    """Where the elements of an array are among those of the whole: the first, and all steps.

    `inner` and `rests` are bytes, where an array begins or steps within an element.
    """

    shape: Ints
    dtype: np.dtype[Any]
    first: Ints
    inner: int
    steps: tuple[Ints, ...]
    rests: Ints

    def array_in(self, block: Block) -> np.ndarray:
        """Return the array in a block of memory."""
        strides = block.data.strides[: len(self.first)]
        begin = tuple(map(int.__sub__, self.first, block.box.low))
        steps = tuple(_dot(step, strides) for step in self.steps)
        return np.ndarray(
            self.shape,
            self.dtype,
            block.data,
            _dot(begin, strides) + self.inner,
            tuple(map(int.__add__, steps, self.rests)),
        )


def _dot(left: Sequence[int], right: Sequence[int]) -> int:
    return sum(map(int.__mul__, left, right))


# --- packing ---------------------------------------------------------------------------------


MOST_PIECES = 64
"""What lies around more slabs is pickled with the elements that they have."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Original:
    """An array in C order, parts of which one pickle holds; a pickle that begins makes it new."""

    array: np.ndarray
    by_axis: list[Bands[list[Slab]]] = field(default_factory=lambda: [Bands(0), Bands(-1)])
    """The slabs in runs of rows, and in runs of columns: few are near along one of the two."""

    def __reduce__(self) -> tuple[Any, ...]:
        for slabs in self.by_axis:
            slabs.clear()  # called once in each pickle, before it needs a slab
        return Restored, (self.array.shape,)

    def covering(self, box: Box) -> list[Slab]:
        """Return slabs that have all elements of a box: those that are there, and new ones."""
        near = min((slabs.of(box) for slabs in self.by_axis), key=lambda runs: sum(map(len, runs)))
        found = [slab for run in near for slab in run if slab.box.overlaps(box)]
        if len(found) > MOST_PIECES:
            return [self._new_slab(box)]
        missing = [box]
        for slab in found:
            missing = [rest for part in missing for rest in part.without(slab.box)]
        return found + [self._new_slab(part) for part in missing]

    def _new_slab(self, box: Box) -> Slab:
        slab = Slab(box, self._data()[box.key])
        for slabs in self.by_axis:
            runs = slabs.of(box)
            run = runs[0] if len(runs) == 1 else [slab for run in runs for slab in run]
            run.append(slab)
            slabs.put(box, run)
        return slab

    def _data(self) -> np.ndarray:
        return self.array if self.array.dtype.hasobject else self.array[..., None].view(np.uint8)


@dataclass(slots=True, eq=False)
class Needed:
    """Becomes, when it is pickled, the slabs for a box: only then is known what the pickle has."""

    original: Original
    box: Box

    def __reduce__(self) -> tuple[Any, ...]:
        return _listed, tuple(self.original.covering(self.box))


def _listed(*slabs: Slab) -> list[Slab]:
    return [*slabs]


_originals: WeakValueDictionary[Any, Original] = WeakValueDictionary()
"""By thread and place in memory, the originals that a pickle holds now."""


SPARSE = 8
"""An array that is a smaller part of its box is pickled alone: 1/8 of it, or else of 64 kB."""

SMALL = 1 << 16


def packed(array: np.ndarray) -> tuple[Original, Needed, Place] | None:
    """Return what a pickle holds of an array in memory, None if that is a copy of its own.

    The three are pickled in this order.  An array that is scattered over a far larger one shares
    its memory with what the pickle has already.
    """
    whole = _whole_of(array)
    original = None if whole is None else _original_of(whole, [array])
    if original is None:
        return None
    box, place = _placed(array, original.array)
    return original, Needed(original, box), place


def packed_together(arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
    """Return what makes a pickle hold in one slab what overlaps: it is pickled before the arrays.

    The arrays are then packed while it exists.
    """
    alike: dict[Any, tuple[np.ndarray, list[np.ndarray]]] = {}
    for array in arrays if len(arrays) > 1 else ():
        whole = _whole_of(array)
        if whole is not None:
            alike.setdefault(_key(whole), (whole, []))[1].append(array)
    together = []
    for whole, parts in alike.values():
        original = _original_of(whole, parts)
        if original is not None:
            boxes = _merged([_placed(part, original.array)[0] for part in parts])
            together.append((original, [Needed(original, box) for box in boxes]))
    return tuple(together)


def _key(whole: np.ndarray) -> tuple[Any, ...]:
    return threading.get_ident(), _address(whole), whole.nbytes, whole.dtype.itemsize


def _original_of(whole: np.ndarray, arrays: Sequence[np.ndarray]) -> Original | None:
    """Return the original that a pickle has, or a new one with axes that suit the arrays best.

    None if they would be few among the elements of their boxes.
    """
    key = _key(whole)
    found = _originals.get(key)
    if found is not None:
        return found
    if len(arrays) == 1 and arrays[0].ndim <= whole.ndim and arrays[0].flags.forc:
        found = _originals[key] = Original(whole)  # quick, for each of many samples
        return found
    shapes = [whole.shape, *filter(None, (_axes_of(array, whole) for array in arrays))]
    costs = {
        shape: sum(
            box.size()
            for box in _merged([_placed(part, whole.reshape(shape))[0] for part in arrays])
        )
        for shape in [*dict.fromkeys(shapes)][:4]
    }
    shape = min(costs, key=lambda shape: (costs[shape], -len(shape)))
    if costs[shape] * whole.itemsize > max(SMALL, SPARSE * sum(part.nbytes for part in arrays)):
        return None
    found = _originals[key] = Original(whole.reshape(shape))
    return found


def _axes_of(array: np.ndarray, whole: np.ndarray) -> Ints | None:
    """Return a shape of the whole along whose axes an array steps, as of a matrix made of a range.

    >>> _axes_of(np.arange(12).reshape(4, 3)[:, 1], np.arange(12))
    (4, 3)
    """
    shape, count = [], whole.size
    for stride in sorted({*map(abs, array.strides)}, reverse=True):
        step = stride // whole.itemsize
        if step > 1:
            if count % step or stride % whole.itemsize:
                return None
            shape.append(count // step)
            count = step
    return (*shape, count) if shape else None


def _merged(boxes: list[Box]) -> list[Box]:
    """Return boxes such that those in a row overlap no more, unless joined they are far larger."""
    found: list[Box] = []
    for box in sorted(boxes):
        while found and found[-1].overlaps(box):
            joined = found[-1].joined(box)
            if joined.size() > found[-1].size() + box.size():  # as around a row and a column
                break
            found.pop()
            box = joined
        found.append(box)
    return found


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]


def _bounds(array: np.ndarray) -> tuple[int, int]:
    if array.flags.forc:
        start = _address(array)
        return start, start + array.nbytes
    return byte_bounds(array)


def _whole_of(array: np.ndarray) -> np.ndarray | None:
    """Return the array whose memory an array is a part of, in C order with an axis at least."""
    if not array.size or not array.dtype.itemsize:
        return None
    low, high = _bounds(array)
    whole: np.ndarray | None = None
    for link in links_of(array):
        if isinstance(link, np.ndarray) and link.flags.forc:
            start, stop = (low, high) if link is array else _bounds(link)
            if start <= low and high <= stop:
                whole = np.asarray(link)
    if whole is None:
        return None
    return np.atleast_1d(whole if whole.flags.c_contiguous else whole.T)


def _placed(array: np.ndarray, whole: np.ndarray) -> tuple[Box, Place]:
    """Return a box of the whole with all elements of an array, and where they are."""
    size, start = whole.dtype.itemsize, _address(whole)
    low, high = (place - start for place in _bounds(array))
    strides = [stride if n > 1 else 0 for n, stride in zip(array.shape, array.strides, strict=True)]
    steps = [_position(abs(stride) // size, whole.shape) for stride in strides]
    begin = _position(low // size, whole.shape)
    spans = [tuple((n - 1) * k for k in step) for n, step in zip(array.shape, steps, strict=True)]
    end = tuple(map(sum, zip(begin, *spans, strict=True)))
    inside = low % size + array.dtype.itemsize <= size and not any(s % size for s in strides)
    if inside and all(map(int.__lt__, end, whole.shape)):  # no step carries into another row
        signed = [tuple(-k for k in p) if s < 0 else p for p, s in zip(steps, strides, strict=True)]
        back = [span for span, stride in zip(spans, strides, strict=True) if stride < 0]
        place = tuple(map(sum, zip(begin, *back, strict=True)))
        box = Box(begin, tuple(n + 1 for n in end))
        rests = (0,) * array.ndim
        return box, Place(array.shape, array.dtype, place, low % size, tuple(signed), rests)
    first = _address(array) - start
    row, zeros = size * math.prod(whole.shape[1:]), (0,) * (whole.ndim - 1)
    box = Box((low // row, *zeros), (-(-high // row), *whole.shape[1:]))
    rows = tuple((stride // row, *zeros) for stride in strides)
    rests = tuple(stride % row for stride in strides)
    return box, Place(array.shape, array.dtype, (first // row, *zeros), first % row, rows, rests)


def _position(number: int, shape: Ints) -> Ints:
    """Return the position of an element by its number in C order."""
    found: list[int] = []
    for length in reversed(shape[1:]):
        number, place = divmod(number, length)
        found.append(place)
    return (number, *reversed(found))


# --- loading ---------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Block:
    """Memory for a box, and what to call when it moves; all of it is `known` if it is one slab."""

    box: Box
    data: np.ndarray
    known: bool = False
    users: list[Callable[[Block], None]] = field(default_factory=list)


class Restored:
    """An array of which a pickle that is being loaded holds parts."""

    def __init__(self, shape: Ints) -> None:
        self.limits = Box((0,) * len(shape), shape)
        self.blocks: Bands[Block] = Bands()

    def use(self, box: Box, slabs: list[Slab], user: Callable[[Block], None]) -> None:
        """Call `user` with the block that has the elements of a box, and again when it moves."""
        fresh = [slab for slab in slabs if not slab.placed]
        block = self._block(box, fresh)
        for slab in fresh:
            slab.placed = True
            if not block.known:
                block.data[within(slab.box, block.box)] = slab.data
        block.users.append(user)
        user(block)

    def _block(self, box: Box, fresh: list[Slab]) -> Block:
        """Return a block with room for a box and for new slabs."""
        for slab in fresh:
            box = box.joined(slab.box)
        old = self.blocks.of(box)
        if len(old) == 1 and box.joined(old[0].box) == old[0].box:
            return old[0]
        if not old and len(fresh) == 1 and fresh[0].box == box:
            block = Block(box, fresh[0].data, known=True)
        else:
            box, old = self._with_room(box, old)
            example = fresh[0].data if fresh else old[0].data
            shape = tuple(map(int.__sub__, box.high, box.low))
            data = np.zeros(shape + example.shape[len(shape) :], example.dtype)
            block = Block(box, data)
        for other in old:
            block.data[within(other.box, block.box)] = other.data
            block.users += other.users
        self.blocks.put(block.box, block)
        for user in block.users:
            user(block)
        return block

    def _with_room(self, box: Box, old: list[Block]) -> tuple[Box, list[Block]]:
        """Return a box around blocks, and all that it reaches.

        Where it grows it takes twice as much, so that many small parts are not copied many times.
        """
        for block in old:
            box = grown(block.box, box, self.limits)
        while True:
            found = self.blocks.of(box)
            around = box
            for block in found:
                around = around.joined(block.box)
            if around == box:
                return box, found
            box = around
