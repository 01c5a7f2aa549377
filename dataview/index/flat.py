"""Rows of different shapes: where each lies among flat values that follow one another.

All of it is arithmetic on arrays of offsets; only what a user gives as lists is looked at row by
row.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, ClassVar, TypeAlias

import numpy as np

from dataview.index.dtypes import promoted
from dataview.index.rows import as_array

Packed: TypeAlias = "tuple[Any, Layout]"
"""Flat values and where rows lie among them; the values may be packed rows themselves."""


@dataclass(slots=True, eq=False)  # frozen ones take three times as long to make
class Layout:
    """Row i has the values from `offsets[i]` to `offsets[i + 1]`.

    `axes` are the axes that the values of a row are laid out in: the length that all rows share, or
    None.  `shapes` has the lengths of each row; it is None where there is one axis.  `present` has
    which rows there are, if they are lists in lists and some are missing: those have no values.
    """

    offsets: np.ndarray
    shapes: np.ndarray | None
    axes: tuple[int | None, ...]
    present: np.ndarray | None = None

    is_late: ClassVar[Any] = False
    """Whether only the number of rows is known so far."""

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.offsets) - 1

    def near(self, values: Any, index: Any) -> tuple[Any, Layout, Any]:
        """Return values, layout and index of the rows that an index selects, if it is late fewer.

        So what is known of some rows need not be known of all.
        """
        return values, self, index

    def row(self, number: int) -> tuple[range, tuple[int, ...]]:
        """Return the places of a row's values, and the lengths of its axes."""
        start, stop = self.offsets[number : number + 2].tolist()
        shape = (stop - start,) if self.shapes is None else tuple(self.shapes[number].tolist())
        return range(start, stop), shape

    def part(self, rows: range | np.ndarray) -> tuple[range | np.ndarray, Layout]:
        """Return the places of some rows' values, and how these lie one after the other.

        >>> places, part = layout_of(lengths=[2, 0, 3]).part(np.array([2, 0]))
        >>> places, part.offsets
        (array([2, 3, 4, 0, 1]), array([0, 3, 5]))
        """
        if isinstance(rows, range) and rows.step == 1:
            return self._run(rows)
        numbers = as_array(rows)
        starts, sizes = self.spans(numbers)
        offsets = _offsets(sizes)
        places = np.arange(offsets[-1])
        starts -= offsets[:-1]
        places += starts.repeat(sizes)
        shapes = None if self.shapes is None else self.shapes[numbers]
        present = None if self.present is None else self.present[numbers]
        return places, Layout(offsets, shapes, self.axes, present)

    def spans(self, rows: range | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return where the values of some rows begin, and how many they are."""
        numbers = as_array(rows)
        starts, ends = self.offsets.take(numbers), self.offsets.take(numbers + 1)
        ends -= starts
        return starts, ends

    def _run(self, rows: range) -> tuple[range, Layout]:
        if not rows:
            shapes = None if self.shapes is None else self.shapes[:0]
            return range(0), Layout(np.zeros(1, np.intp), shapes, self.axes)
        if len(rows) == self.count and not self.offsets[0]:
            return range(int(self.offsets[-1])), self
        offsets = self.offsets[rows.start : rows.stop + 1]
        start, stop = int(offsets[0]), int(offsets[-1])
        shapes = None if self.shapes is None else self.shapes[rows.start : rows.stop]
        present = None if self.present is None else self.present[rows.start : rows.stop]
        return range(start, stop), Layout(offsets - start, shapes, self.axes, present)

    def taken(self, read: Callable[[Any], Any], rows: int | range | np.ndarray) -> Any:
        """Return one row, or an array of rows; `read` reads the values at some places."""
        if isinstance(rows, int):
            places, shape = self.row(rows)
            row = read(places)
            return row if self.shapes is None else row.reshape(*shape, *row.shape[1:])
        where, part = self.part(rows)
        values = read(where)
        return as_objects(values.copy() if isinstance(where, range) else values, part)

    def there(self) -> np.ndarray:
        """Return which rows there are, a truth value for each.

        >>> layout_of(lengths=[0, 2, 0]).lacking(np.array([False, True, True])).there()
        array([False,  True,  True])
        """
        return np.ones(self.count, bool) if self.present is None else self.present

    def lacking(self, present: np.ndarray | None) -> Layout:
        """Return the same layout of which some rows are missing; a row with values is there."""
        if present is None:
            return self
        present = present | (self.offsets[1:] > self.offsets[:-1])
        return self if present.all() else replace(self, present=present)

    def lengths(self) -> np.ndarray:
        """Return the lengths of each row's axes, an array of two axes."""
        if self.shapes is not None:
            return self.shapes
        lengths: np.ndarray = self.offsets[1:] - self.offsets[:-1]
        return lengths[:, None]

    def is_like(self, other: Layout) -> bool:
        """Whether all rows have the shapes of another layout's rows."""
        if self is other:
            return True
        ours, theirs = self.lengths(), other.lengths()
        return ours.shape == theirs.shape and bool((ours == theirs).all())

    def alike(self) -> list[np.ndarray]:
        """Return the numbers of the rows in groups that have one shape.

        >>> layout_of(lengths=[2, 1, 2]).alike()
        [array([1]), array([0, 2])]
        """
        lengths = self.lengths()
        order = np.lexsort(lengths.T)
        ordered = lengths[order]
        cuts = np.flatnonzero((ordered[1:] != ordered[:-1]).any(axis=1)) + 1
        return np.split(order, cuts) if len(order) else []

    def mask_in(
        self, shape: Sequence[int], at_end: bool, axes: Sequence[int] | None = None
    ) -> np.ndarray:
        """Return where the values lie in boxes of this shape, one for each row.

        The rows fill the beginning of their box, or its end; of longer ones it holds a part.
        `axes` leaves out the axes on which all rows fill their box.

        >>> layout_of(lengths=[2, 1]).mask_in((3,), at_end=True).astype(int)
        array([[0, 1, 1],
               [0, 0, 1]])
        """
        return mask_in(shape, self.lengths(), at_end, axes)

    def within(self, shape: Sequence[int], from_end: bool) -> np.ndarray:
        """Return which values are among the first, or the last, of each axis of their row.

        >>> layout_of(lengths=[3, 1]).within((2,), from_end=True)
        array([False,  True,  True,  True])
        """
        sizes = np.diff(self.offsets)
        kept = np.ones(int(self.offsets[-1]), bool)
        rest = np.arange(self.offsets[-1]) - self.offsets[:-1].repeat(sizes)
        for lengths, room in zip(self.lengths().T[::-1], shape[::-1], strict=True):
            rest, digit = np.divmod(rest, np.maximum(lengths, 1).repeat(sizes))
            kept &= digit >= (lengths - room).repeat(sizes) if from_end else digit < room
        return kept


def _offsets(sizes: np.ndarray) -> np.ndarray:
    offsets = np.zeros(len(sizes) + 1, np.intp)
    sizes.cumsum(out=offsets[1:])
    return offsets


def layout_of(offsets: Any = None, lengths: Any = None, shapes: Any = None) -> Layout:
    """Return the layout that offsets tell, or the length or the shape of each row."""
    given = {"offsets": offsets, "lengths": lengths, "shapes": shapes}
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise TypeError(f"give one of offsets=, lengths= and shapes=; got {names or 'none'}")
    (name,) = names
    found = np.array(given[name])  # a copy: the user's array may change later
    ndim = 2 if name == "shapes" else 1
    if found.ndim != ndim or (found.dtype.kind not in "iu" and found.size):
        raise TypeError(
            f"{name}= is an array of integers with {ndim} {'axis' if ndim == 1 else 'axes'}; got "
            f"{found.dtype} {found.shape}"
        )
    found = found.astype(np.intp, copy=False)
    if name == "offsets":
        if not len(found) or found[0] < 0 or (np.diff(found) < 0).any():
            raise ValueError("offsets= ascend from 0 or more, and are one more than there are rows")
        return _frozen(Layout(found, None, (None,)))
    if (found < 0).any():
        raise ValueError(f"{name}= has a negative length: {found.min()}")
    if ndim == 1:
        return _frozen(Layout(_offsets(found), None, (None,)))
    return shaped(found)


def shaped(shapes: np.ndarray, axes: tuple[int | None, ...] | None = None) -> Layout:
    """Return the layout of rows of these shapes; axes of one length for all are not ragged.

    `axes` says which axes are ragged, however many rows there are.
    """
    axes = _ragged_axes(shapes) if axes is None else axes
    offsets = _offsets(shapes.prod(axis=1))
    return _frozen(Layout(offsets, shapes if shapes.shape[1] > 1 else None, axes))


def _ragged_axes(shapes: np.ndarray) -> tuple[int | None, ...]:
    is_ragged = (shapes != shapes[:1]).any(axis=0)
    if not is_ragged.any():
        is_ragged[:] = True
    lengths = shapes[0].tolist() if len(shapes) else [None] * shapes.shape[1]
    return tuple(None if r else n for r, n in zip(is_ragged.tolist(), lengths, strict=True))


def _frozen(layout: Layout) -> Layout:
    layout.offsets.setflags(write=False)
    if layout.shapes is not None:
        layout.shapes.setflags(write=False)
    return layout


def mask_in(
    shape: Sequence[int], lengths: np.ndarray, at_end: bool, axes: Sequence[int] | None = None
) -> np.ndarray:
    """Return what `Layout.mask_in` does, of rows of these lengths."""
    chosen = range(len(shape)) if axes is None else axes
    lines: list[np.ndarray] = []
    for place, axis in enumerate(chosen):
        places = np.arange(shape[axis])[:: -1 if at_end else 1]
        line = places < lengths[:, axis, None]
        apart = len(chosen) - place - 1
        lines.append(line.reshape(len(line), *[1] * place, shape[axis], *[1] * apart))
    return functools.reduce(np.logical_and, lines)


def lined_up(
    values: np.ndarray, starts: np.ndarray, sizes: np.ndarray, width: int, fill: Any, at_end: bool
) -> np.ndarray:
    """Return parts of values in memory as rows of a width, which are filled up; none is longer.

    The values lie one after the other, and no row of them is larger than `LARGEST_RUN`.  A row is
    copied with whatever stands beside its part, which takes less time than to take each value by
    its place.

    >>> lined_up(np.arange(6), np.array([4, 0]), np.array([2, 1]), 3, -1, at_end=False)
    array([[ 4,  5, -1],
           [ 0, -1, -1]])
    """
    first, last = starts + sizes - width if at_end else starts, len(values) - width
    outside = (first < 0 if at_end else first > last).nonzero()[0].tolist()
    step = values[:1].nbytes
    windows = np.ndarray((last + 1,), f"|V{width * step}", values, 0, (step,))
    rows: np.ndarray = windows[first.clip(0, last) if outside else first].view(values.dtype)
    found = rows.reshape(len(starts), width, *values.shape[1:])
    kind = np.min_scalar_type(width)  # of narrow numbers more are compared at a time
    rooms, ends = np.arange(width, dtype=kind), sizes.astype(kind)[:, None]
    inside = rooms >= kind.type(width) - ends if at_end else rooms < ends
    for row in outside:  # at an end of the values
        part = slice(starts[row], starts[row] + sizes[row])
        found[row, inside[row]] = values[part]
    if fill == 0 and found.dtype.kind in "biu" and found.ndim == 2:
        found *= inside  # in half the time: no choice is made for each value
    else:
        found[~inside] = fill  # in two thirds of the time of `numpy.copyto`
    return found


def fill_rooms(
    rooms: np.ndarray, values: np.ndarray, layout: Layout, fill: Any, at_end: bool, cut: str | None
) -> None:
    """Write rows into rooms, one after the other; of longer rows the side `cut` is left out."""
    axes, tail = len(layout.axes), values.shape[1:]
    room_shape, ends = rooms.shape[1 : 1 + axes], pairwise(layout.offsets.tolist())
    for room, (start, stop), shape in zip(rooms, ends, layout.lengths().tolist(), strict=True):
        row = values[start:stop].reshape(*shape, *tail)
        if cut is not None:
            row = row[corner(shape, room_shape, cut == "left")]
        room[...] = fill  # a room at a time, which is in the cache then
        room[corner(room_shape, row.shape[:axes], at_end)] = row


def corner(shape: Sequence[int], part: Sequence[int], at_end: bool) -> tuple[slice, ...]:
    """Return the key of a part of an array that lies at the beginning of each axis, or its end."""
    sides = zip(shape, part, strict=True)
    return tuple([slice(max(0, n - own), n) if at_end else slice(own) for n, own in sides])


def as_objects(values: np.ndarray, layout: Layout) -> np.ndarray:
    """Return an array of the arrays of rows, each a part of the values."""
    ends = layout.offsets.tolist()
    rows = [values[start:stop] for start, stop in pairwise(ends)]
    if layout.shapes is not None:
        shapes = layout.shapes.tolist()
        rows = [row.reshape(*s, *row.shape[1:]) for row, s in zip(rows, shapes, strict=True)]
    found = np.empty(len(rows), object)
    for number, row in enumerate(rows):
        found[number] = row
    return found


# --- positions that are computed when they are needed ------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class RowOf:
    """Gives, for positions among the values of rows, the numbers of the rows."""

    offsets: np.ndarray

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Return the row of each position."""
        rows: np.ndarray = self.offsets.searchsorted(positions, "right") - 1
        return rows

    def block(self, start: int, stop: int) -> np.ndarray:
        """Return the row of each position from `start` to `stop`."""
        if stop <= start:
            return np.empty(0, np.intp)
        first, last = self(np.array([start, stop - 1])).tolist()
        ends = self.offsets[first : last + 2].clip(start, stop)
        rows: np.ndarray = np.arange(first, last + 1).repeat(np.diff(ends))
        return rows


@dataclass(frozen=True, slots=True, eq=False)
class PlaceOf:
    """Gives, for positions among the values of chosen rows, their places among all values."""

    rows: RowOf
    shifts: np.ndarray

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Return the place of each position."""
        places: np.ndarray = positions + self.shifts[self.rows(positions)]
        return places

    def block(self, start: int, stop: int) -> np.ndarray:
        """Return the place of each position from `start` to `stop`."""
        places: np.ndarray = np.arange(start, stop) + self.shifts[self.rows.block(start, stop)]
        return places


def place_of(layout: Layout, rows: range | np.ndarray) -> PlaceOf:
    """Return what gives the places of some rows' values."""
    numbers = as_array(rows)
    starts = layout.offsets[numbers]
    offsets = _offsets(layout.offsets[numbers + 1] - starts)
    return PlaceOf(RowOf(offsets), starts - offsets[:-1])


@dataclass(frozen=True, slots=True, eq=False)
class WindowPlaces:
    """Gives, for positions in windows that stand one after the other, their places in a line."""

    size: int
    step: int
    rows: RowOf
    shifts: np.ndarray

    @property
    def count(self) -> int:
        """The number of windows."""
        return int(self.rows.offsets[-1])

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Return the place of each position."""
        number, within = np.divmod(positions, self.size)
        places: np.ndarray = number * self.step + self.shifts[self.rows(number)] + within
        return places


def windows_of(offsets: np.ndarray, size: int, step: int) -> WindowPlaces:
    """Return the windows of `size` values inside rows, each `step` values after the one before.

    >>> windows_of(np.array([0, 3, 4, 8]), 2, 2)(np.arange(6))
    array([0, 1, 4, 5, 6, 7])
    """
    counts = np.maximum(0, (np.diff(offsets) - size) // step + 1)
    first = _offsets(counts)
    return WindowPlaces(size, step, RowOf(first), offsets[:-1] - first[:-1] * step)


# --- what a user gives as lists ----------------------------------------------------------------


def packed(rows: Sequence[Any], outer: Callable[[int], str] = "row {}".format) -> Packed:
    """Return the values of rows given as lists or arrays, and how they lie there.

    `outer` names a row by its number, for errors.

    >>> values, layout = packed([[1, 2], [3], []])
    >>> values, layout.offsets
    (array([1, 2, 3]), array([0, 2, 3, 3]))
    """
    for number, row in enumerate(rows):
        if isinstance(row, (str, bytes)) or not hasattr(row, "__len__"):
            remedy = _MISSING if row is None else "; a list of one value is a row, too"
            raise TypeError(f"{outer(number)} is no list and no array: {row!r}{remedy}")
    is_deep = any(is_of_arrays(row) for row in rows)
    if rows and all(isinstance(row, np.ndarray) for row in rows) and not is_deep:
        return _of_arrays(rows, outer)
    inner = list(chain.from_iterable(rows))
    values = array_or_none(inner)
    offsets = _offsets(np.fromiter(map(len, rows), np.intp, len(rows)))
    if values is not None:
        return values, _frozen(Layout(offsets, None, (None,)))
    arrays = [array_or_none(row) for row in rows]
    if all(array is not None for array in arrays) and not is_deep:
        return _of_arrays([array for array in arrays if array is not None], outer)

    def name(number: int) -> str:
        row = int(np.searchsorted(offsets, number, "right")) - 1
        return f"{outer(row)}, element {number - offsets[row]}"

    return packed(inner, name), _frozen(Layout(offsets, None, (None,)))


_MISSING = (
    "; an empty list is a row without values, a column of Arrow tells which lists are missing, and "
    "an array with dtype=object keeps what is in the list as it is"
)
"""What to do about a row that is None."""


def is_of_arrays(row: Any) -> bool:
    """Whether a row is an array of arrays: in one without elements there are none."""
    is_object = isinstance(row, np.ndarray) and row.dtype == object
    return is_object and row.size > 0 and all(isinstance(part, np.ndarray) for part in row.flat)


def array_or_none(values: Sequence[Any]) -> np.ndarray | None:
    """Return values as an array, None if they are lists of different lengths."""
    try:
        return np.asarray(values)
    except ValueError:
        return None


def _of_arrays(rows: Sequence[np.ndarray], outer: Callable[[int], str]) -> Packed:
    ndim = max(row.ndim for row in rows)
    full = [row for row in rows if row.size] or list(rows)
    if not ndim or any(row.ndim != ndim for row in full):
        raise ValueError(_of_unequal_depth(rows, outer))
    # An empty list has no more than one axis, whatever the others have.
    rows = [row if row.ndim == ndim else row.reshape(0, *full[0].shape[1:]) for row in rows]
    shapes = np.array([row.shape for row in rows], np.intp)
    odd = np.flatnonzero((shapes != shapes[0]).any(axis=0))
    count = int(odd[-1]) + 1 if odd.size else 1
    rest = rows[0].shape[count:]
    dtype = promoted(*{row.dtype for row in full})
    counts = shapes[:, :count].prod(axis=1).tolist()
    lines = [
        row.reshape(n, *rest) if row.size else np.empty((n, *rest), dtype)
        for n, row in zip(counts, rows, strict=True)
    ]
    return np.concatenate(lines, dtype=dtype, casting="safe"), shaped(shapes[:, :count])


def _of_unequal_depth(rows: Sequence[np.ndarray], outer: Callable[[int], str]) -> str:
    """Return what to say of rows that differ in their number of axes, or have none."""
    own = [number for number, row in enumerate(rows) if row.size] or list(range(len(rows)))
    odd = [number for number in own if rows[number].ndim != rows[own[0]].ndim]
    found = " and ".join(f"{outer(n)} of shape {rows[n].shape}" for n in own[:1] + odd[:1])
    return (
        f"there is {found}; rows have as many axes as each other, and one at least: row[..., None] "
        "adds one"
    )
