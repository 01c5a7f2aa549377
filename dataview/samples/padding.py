"""Ragged rows filled up to one shape: `_pad`, with the lengths and the mask that it brings."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard, cast

import numpy as np

from dataview.compute import evaluate_all, memory_of, rows_of
from dataview.errors import UndeclaredError, taken_by_field, unknown_field
from dataview.index import identity, is_integer, parse
from dataview.index.flat import fill_rooms, lined_up
from dataview.index.gather import LARGEST_RUN
from dataview.index.shape_texts import shape_text
from dataview.plan.build import keyed, record, select, stored, with_fields
from dataview.plan.fields import NO_META, Attached, Fields
from dataview.plan.gaps import is_mask_of, present_in
from dataview.plan.guards import check_ends
from dataview.plan.kinds import Extents, Mapped, Record, Sampled, known_dtype, members, size_of
from dataview.plan.node import DType, Evaluate, Node, Part
from dataview.plan.ragged import Ragged
from dataview.plan.values import holding, since_midnight
from dataview.samples.asking import Longest, longest_in
from dataview.samples.collecting import lengths_of_axes, longest_of, with_lengths
from dataview.samples.numbered import NumberedSamples, RaggedSamples
from dataview.samples.ragged import levels_of
from dataview.samples.streams import Stream
from dataview.sources import ArraySource, Memo, made_once

SIDES = ("left", "right")

MOST = np.iinfo(np.intp).max
"""No row is longer."""


def check_side(side: Any) -> None:
    """Raise unless padding can stand on this side of rows."""
    if side not in SIDES:
        raise ValueError(f"padding goes to the 'left' or the 'right'; got side={side!r}")


def room_for(longest: Any, multiple: int) -> Any:
    """Return the length that rows are filled up to, or an array of them, given the longest.

    >>> room_for(9, 4), room_for(8, 4)
    (12, 8)
    """
    return -(-longest // multiple) * multiple


@dataclass(slots=True)  # frozen ones take three times as long to make
class Padding:
    """How rows are filled up; `to` and `cut` are None where nothing is said of them.

    `value` is what they are filled up with, `side` where that stands.  The length of each ragged
    axis is a multiple of `multiple`, or it is `to`; of longer rows the end `cut` is cut off.
    """

    value: Any = 0
    to: Any = None
    side: str = "right"
    multiple: int = 1
    cut: str | None = None

    def __post_init__(self) -> None:
        check_side(self.side)
        if self.cut is not None and self.cut not in SIDES:
            raise ValueError(f"truncate= is True, 'left' or 'right'; got {self.cut!r}")
        if not is_integer(self.multiple) or self.multiple < 1:
            raise ValueError(f"multiple= is a number from 1 on; got {self.multiple!r}")
        if self.cut is not None and self.to is None:
            raise ValueError("truncate= needs a length to cut rows to: give to=")

    def box(self, axes: Extents, longest: Sequence[int | None], where: str) -> Extents:
        """Return the lengths of these axes once rows are filled up, None where that is unknown."""
        given = iter(self._given(axes.count(None), where) if self.to is not None else ())
        found: list[int | None] = []
        for own, length in zip(longest, axes, strict=True):
            end = next(given, None) if length is None else length
            if end is None and own is not None:
                end = room_for(own, self.multiple)
            found.append(end)
        return tuple(found)

    def _given(self, count: int, where: str) -> list[int | None]:
        """Return the lengths that were given for so many axes."""
        given = self.to if isinstance(self.to, (tuple, list)) else (self.to,) * count
        if len(given) != count:
            raise ValueError(f"{where}to= has {len(given)} lengths, and {count} axes differ")
        for length in given:
            if length is not None and (not is_integer(length) or length < 0):
                raise TypeError(f"{where}to= is a length; got {length!r}")
            if length is not None and length % self.multiple:
                raise ValueError(f"{where}to={length} is no multiple of {self.multiple}")
        return [None if length is None else int(length) for length in given]

    def each(self, levels: Sequence[Extents], where: str) -> list[Padding]:
        """Return the padding of rows with these axes, of the rows inside these, and so on."""
        if not isinstance(self.to, (tuple, list)):
            return [self] * len(levels)
        found, given = [], self.to
        for axes in levels:
            count = axes.count(None)
            found.append(replace(self, to=given[:count]))
            given = given[count:]
        if given:
            raise ValueError(f"{where}to= has {len(given)} lengths more than there are ragged axes")
        return found

    def of(self, dtype: DType) -> Padding:
        """Return the padding for values of a dtype: a mask stays one, times are durations."""
        if dtype.kind == "m" and isinstance(self.value, datetime.time):
            return replace(self, value=since_midnight(self.value))
        is_truth = type(self.value) is int and self.value in (0, 1)
        return replace(self, value=bool(self.value)) if dtype.kind == "b" and is_truth else self


class Filling(Part):
    """The step that fills rows up to one shape; its members are the data and the mask."""

    __slots__ = ("lengths", "padding")
    title = "pad"

    def __init__(self, padding: Padding, lengths: tuple[tuple[int, ...], ...]) -> None:
        self.padding, self.lengths = padding, lengths

    def rows(self, node: Any, numbers: np.ndarray, memo: Memo) -> np.ndarray:
        """Return rows filled up, or the mask that is true where there are data."""
        rows: Any = node.node
        if isinstance(rows, RaggedSamples):
            rows = rows.rows(numbers)
            self.check(rows, numbers, "")
        elif len(numbers) != rows.count:
            rows = rows.rows(numbers)
        return self._mask(rows) if node.path else self._data(rows, node.dtype)

    def check(self, rows: Any, numbers: np.ndarray, where: str) -> None:
        """Raise if a row, or a row inside it, is longer than what rows are filled up to."""
        for box in self.lengths if self.padding.cut is None else ():
            layout = rows.chosen()[1]
            longer = np.argwhere(layout.lengths() > box)
            if len(longer):
                place, axis = longer[0].tolist()
                raise ValueError(
                    f"{where}row {numbers[place]} has length {layout.lengths()[place, axis]}, more "
                    f"than {self._limit(box[axis])}"
                )
            numbers = numbers.repeat(np.diff(layout.offsets)) if rows.is_nested else numbers
            rows = rows.values

    def _limit(self, length: int) -> str:
        if self.padding.to is not None:
            return f"to={length}; truncate=True cuts it"
        return (
            f"{length}, the length of the longest when _pad() was asked for; ask for it again, or "
            "give to="
        )

    def _data(self, rows: Ragged, dtype: Any, depth: int = 0) -> np.ndarray:
        found = self._of_memory(rows, dtype) if len(self.lengths) == 1 else None
        if found is not None:
            return found
        places, layout = rows.chosen()
        if isinstance(rows.values, Ragged):
            values = self._data(rows.values.rows(places), dtype, depth + 1)
        else:
            values, there = rows_of(rows.values, places), _present(rows.values, places)
            if there is not None:  # a gap is filled as what is behind the end of a row
                values = np.where(there, values, np.array(self.padding.value, dtype))
        box, padding = self.lengths[depth], self.padding
        out = np.empty((layout.count, *box, *values.shape[1:]), dtype)
        if size_of(box) >= LONG:
            fill_rooms(out, values, layout, padding.value, padding.side == "left", padding.cut)
            return out
        out.fill(padding.value)  # which takes half the time of `numpy.full`
        kept = layout.within(box, padding.cut == "left") if padding.cut is not None else ...
        out[layout.mask_in(box, padding.side == "left")] = values[kept]
        return out

    def _of_memory(self, rows: Ragged, dtype: DType) -> np.ndarray | None:
        """Return rows of one axis whose values lie in memory, unless that takes too long."""
        memory = None if rows.layout.is_late else memory_of(rows.values)
        if memory is None or rows.layout.shapes is not None or present_in(rows.values) is not None:
            return None
        (width,), padding = self.lengths[0], self.padding
        if memory.dtype != dtype or dtype.kind not in NUMBERS or not memory.flags.c_contiguous:
            return None
        starts, sizes = rows.spans()
        if not 0 < width <= len(memory) or not 0 < width * memory[:1].nbytes <= LARGEST_RUN:
            return None
        if len(sizes) * width > BESIDE * np.add.reduce(sizes):
            return None
        if padding.cut is not None:
            kept = np.minimum(sizes, width)
            starts, sizes = starts + (sizes - kept if padding.cut == "left" else 0), kept
        return lined_up(memory, starts, sizes, width, padding.value, padding.side == "left")

    def _mask(self, rows: Ragged, depth: int = 0) -> np.ndarray:
        places, layout = rows.chosen()
        box, padding, inner = self.lengths[depth], self.padding, rows.values
        at_end = padding.side == "left"
        if isinstance(inner, Ragged):
            alike: list[int] = []
            found = self._mask(inner.rows(places), depth + 1)
        else:
            alike = [axis for axis, length in enumerate(layout.axes) if length is not None]
            there = _present(inner, places)
            if there is None:
                ragged = [axis for axis in range(len(box)) if axis not in alike]
                return layout.mask_in(box, at_end, ragged)
            found = np.logical_and.reduce(there, axis=tuple(range(1, there.ndim)))
        mask = layout.mask_in(box, at_end)
        kept = layout.within(box, padding.cut == "left") if padding.cut is not None else ...
        out = np.zeros((*mask.shape, *found.shape[1:]), bool)
        out[mask] = found[kept]
        apart = tuple(axis + 1 for axis in alike)
        return np.asarray(np.logical_and.reduce(out, axis=apart))


def _present(values: Node, places: range | np.ndarray) -> np.ndarray | None:
    """Return which of some flat values there are, None if all are or they tell it themselves."""
    present = present_in(values)
    return None if present is None else np.asarray(rows_of(present, places))


NUMBERS = "biufc"
"""The kinds of values of which windows are made by their memory."""

BESIDE = 3
"""So many times as many values are copied at most as there are in the rows."""

LONG = 4096
"""Boxes with room for so many values take less time one by one than by a mask of all of them."""


class PaddedSamples(NumberedSamples):
    """Samples that differ in length, filled up to the longest: this is known once it is needed.

    `longest` finds it, and it is the one from `start` on there; `path` leads to the data or the
    mask.  The samples are those of `node`, made when they are needed.
    """

    __slots__ = ("longest", "padding", "path", "start", "where")
    parts = ("node", "longest")
    is_filled_up = True

    def __init__(
        self, node: RaggedSamples, padding: Padding, longest: Longest, start: int, where: str
    ) -> None:
        count = node.count or 0
        super().__init__(node.function, count, identity((count,)), node.to_node)
        self.node = node
        self.dtype = holding(node.dtype, padding.value, where)
        self.meta = node.meta
        self.padding = padding
        self.longest = longest
        self.start = start
        self.where = where
        self.path: tuple[str, ...] = ()

    @property
    def maker(self) -> Any:
        """What makes the samples."""
        assert self.node is not None
        return self.node.maker

    @property
    def place(self) -> str:
        """Where they are, in words: nowhere before they are filled up."""
        return "computed"

    @property
    def row_extents(self) -> Extents:
        """The shape of each row, with None for a length that is not known yet."""
        return _shape_of_row(cast(RaggedSamples, self.node), self._boxes(), bool(self.path))

    def _boxes(self) -> list[Extents]:
        """Return what rows are filled up to, as far as it is known."""
        levels = _levels(self.node)
        return _boxes_of(self.padding, levels, self.where, self.longest.taken, self.start)

    def known(self) -> Node:
        """Return the rows, of which the shape is known: if need be, all samples are made for it."""
        self.longest.array()
        return self.rows_of(
            _filled_to(cast(RaggedSamples, self.node), self.padding, self._boxes(), self.path)
        )

    def sample(self, number: int) -> Node:
        """Return one row."""
        return select(
            self.replaced(index=identity((self.total,))).known(), parse(number, (self.total,))
        )

    def answer(self, evaluate: Evaluate, memo: Memo) -> np.ndarray:
        """Return the rows: the samples are made once, also if the longest has to be found."""
        if not self.longest.is_at_hand:
            return evaluate_all([self])[0]
        with self.remembered(), made_once():
            return evaluate(self.known())

    def probed(self) -> Node:
        """Return the rows, of which the shape is known."""
        return self.known()

    def at(self, key: Any) -> Node | None:
        """Return the part for a key that is not on rows alone, if the shape is known."""
        entries = key if isinstance(key, tuple) else (key,)
        if self.count is not None and len(entries) < 2:
            return None
        if None in self.row_extents:
            raise self.shapeless()
        return keyed(self.known(), key)

    def shapeless(self) -> Exception:
        """Return the error for a question that takes the length of the longest row."""
        return UndeclaredError(
            f"rows of shape {shape_text(self.extents or ())} are filled up to the longest of all "
            "samples; _probe() makes them to find out, and to= gives the length"
        )


def padded(node: Node, padding: Any, length: bool = False, mask: bool = False) -> Node:
    """Return ragged rows filled up to one shape; of a record, those of its ragged fields."""
    node = with_lengths(node) if isinstance(node, Stream) else node
    if isinstance(node, Record):
        return _padded_fields(node, padding, length, mask, longest_in(node))
    if isinstance(node, Sampled) and node.lifts and not isinstance(node, Ragged):  # batches
        return node.of_rows(padded(cast(Node, node.node), padding, length, mask))
    if not _is_ragged(node):
        raise TypeError(
            "_pad makes rows of different lengths alike, and these are of one shape already; "
            "numpy.pad(view(), ...) puts a frame around an array"
        )
    if isinstance(padding.value, Mapping):
        raise TypeError(f"the values by field are for a record; got {padding.value!r}")
    data = filled(node, padding)
    if not (length or mask):
        return data
    name = "".join(f"{own}_" for own in _names_of(node)[-1:])
    beside = {f"{name}length": lengths_filled(data) if length else None}
    beside[f"{name}mask"] = mask_of(data) if mask else None
    more = {key: Attached(part, (0,)) for key, part in beside.items() if part is not None}
    return with_fields(data, Fields(more))


def _is_ragged(node: Any) -> TypeGuard[Ragged | RaggedSamples]:
    """Whether a node is of rows that differ in length, and not one of them."""
    return isinstance(node, (Ragged, RaggedSamples)) and node.count is not None


def _names_of(node: Any) -> tuple[str, ...]:
    """Return the names that lead to a ragged field, none if it is no field."""
    if node.label is not None:
        return node.label.names  # type: ignore[no-any-return]
    return node.path or getattr(node.node, "path", ()) if isinstance(node, RaggedSamples) else ()


def filled(
    node: Ragged | RaggedSamples, padding: Padding, where: str = "", longest: Any = None
) -> Mapped | PaddedSamples:
    """Return rows filled up to one shape; samples that are not made yet when this is needed.

    `longest` tells where the longest of these is found.
    """
    padding = padding.of(known_dtype(node))
    if isinstance(node, Ragged):
        found = longest_of(node)
        boxes = _boxes_of(padding, _levels(node), where, found, 0)
        data = _filled_to(node, padding, boxes, (), where)
        if padding.to is not None:
            cast(Filling, data.step).check(node, np.arange(node.count), where)
        return data
    boxes = _boxes_of(padding, _levels(node), where, None, 0)
    if any(None in box for box in boxes):
        check_ends(node, "the longest of all rows")
        photograph, start = longest or (Longest(node), 0)
        return PaddedSamples(node, padding, photograph, start, where)
    return _filled_to(node, padding, boxes, (), where)


def _levels(node: Any) -> list[Extents]:
    """Return the axes that rows lay out, and those that rows inside them lay out, and so on."""
    if isinstance(node, RaggedSamples):
        return levels_of(node.like)
    return [node.layout.axes, *_levels(node.values)] if isinstance(node, Ragged) else []


def _boxes_of(
    padding: Padding, levels: list[Extents], where: str, longest: np.ndarray | None, start: int
) -> list[Extents]:
    """Return what rows are filled up to, given the longest of them, or as far as it is known."""
    ends = [None] * sum(map(len, levels)) if longest is None else longest[start:].tolist()
    found: list[Extents] = []
    for axes, own in zip(levels, padding.each(levels, where), strict=True):
        found.append(own.box(axes, ends[: len(axes)], where))
        ends = ends[len(axes) :]
    return found


def _filled_to(
    node: Ragged | RaggedSamples,
    padding: Padding,
    boxes: list[Any],
    path: tuple[str, ...],
    where: str = "",
) -> Mapped:
    """Return rows filled up to these lengths, or their mask."""
    dtype = np.dtype(bool) if path else holding(node.dtype, padding.value, where)
    shape: Any = (node.count, *_shape_of_row(node, boxes, bool(path)))
    meta = NO_META if path else node.meta
    return Mapped(node, Filling(padding, tuple(boxes)), path, shape, dtype, meta=meta)


def _shape_of_row(node: Any, boxes: list[Extents], is_mask: bool) -> Extents:
    """Return the shape of a row that is filled up; a mask has the axes that differ alone."""
    if is_mask:
        return tuple(
            n
            for level, box in zip(_levels(node), boxes, strict=True)
            for n in _of_ragged(level, box)
        )
    lengths = tuple(n for box in boxes for n in box)
    return (*lengths, *node.row_extents[len(lengths) :])


def mask_of(filled: Mapped | PaddedSamples) -> Node:
    """Return the mask that is true where rows that are filled up have data."""
    if isinstance(filled, PaddedSamples):
        return filled.replaced(path=("mask",), dtype=np.dtype(bool), meta=NO_META)
    step = cast(Filling, filled.step)
    return _filled_to(cast(Ragged, filled.node), step.padding, list(step.lengths), ("mask",))


def lengths_filled(filled: Mapped | PaddedSamples) -> Node:
    """Return the lengths that the rows have in what they are filled up to."""
    rows = filled.node
    step = filled if isinstance(filled, PaddedSamples) else cast(Filling, filled.step)
    levels = _levels(rows)
    boxes = _boxes_of(step.padding, levels, "", None, 0)
    most = [MOST if n is None else n for n in _of_ragged(levels[0], boxes[0])]
    if isinstance(rows, RaggedSamples):
        return _lengths_later(rows, tuple(most))
    assert isinstance(rows, Ragged)
    return stored(ArraySource(_alone(np.minimum(lengths_of(rows), most))), False)


def _of_ragged(axes: Extents, lengths: Extents) -> Extents:
    """Return the lengths of the axes that are ragged."""
    return tuple(n for n, length in zip(lengths, axes, strict=True) if length is None)


def _padded_fields(
    node: Record, padding: Any, length: bool, mask: bool, longest: Mapping[int, Any]
) -> Node:
    """Return a record with its ragged fields filled up, and with what that brings beside them."""
    by_name = padding.value if isinstance(padding.value, Mapping) else None
    parts = {name: part.node for name, part in members(node).items()}
    for name in by_name or ():
        if name not in parts:
            raise unknown_field(name, node.fields, "_pad")
    found: dict[str, Node] = {}
    for name, part in parts.items():
        if by_name is not None and name not in by_name:
            found.setdefault(name, part)  # of two masks that of the padding says more
            continue
        own = padding if by_name is None else replace(padding, value=by_name[name])
        if isinstance(part, Record):
            found[name] = _padded_fields(part, own, length, mask, longest)
            continue
        if not _is_ragged(part):
            if by_name is not None:
                raise TypeError(f"_pad: the rows of field {name!r} are of one shape already")
            found.setdefault(name, part)
            continue
        found[name] = data = filled(part, own, f"field {name!r}: ", longest.get(id(part)))
        for key, beside in (
            (f"{name}_length", lengths_filled(data) if length else None),
            (f"{name}_mask", mask_of(data) if mask else None),
        ):
            if beside is not None and key in parts and not is_mask_of(parts[key], name):
                raise ValueError(taken_by_field(key))
            if beside is not None:
                found[key] = beside
    return record(found, node.rank).replaced(meta=node.meta)


def lengths_of(node: Ragged) -> np.ndarray:
    """Return the lengths of the outermost ragged axes of each row, an array of two axes."""
    ragged = [axis for axis, length in enumerate(node.layout.axes) if length is None]
    found: np.ndarray = lengths_of_axes(node)[:, ragged]
    return found


class _Measuring(Part):
    """The step from samples that differ in length to their lengths, `most` at most."""

    __slots__ = ("most",)
    title = "lengths"

    def __init__(self, most: tuple[int, ...]) -> None:
        self.most = most

    def rows(self, node: Any, numbers: np.ndarray, memo: Memo) -> np.ndarray:
        """Return the lengths of these rows."""
        told = node.node.told_shapes(numbers)
        if told is None:
            found = lengths_of(node.node.rows(numbers))
        else:
            axes = node.node.like.axes
            found = told[:, [axis for axis, length in enumerate(axes) if length is None]]
        return _alone(np.minimum(found, self.most))


def _lengths_later(node: RaggedSamples, most: tuple[int, ...]) -> Node:
    """Return the lengths of samples, each of which is made when its length is needed."""
    shape = (node.count or 0, *((len(most),) if len(most) > 1 else ()))
    return Mapped(node, _Measuring(most), (), shape, np.dtype(np.intp))


def lengths(node: Node) -> Node:
    """Return the length of each row, or the lengths of its axes, if several differ."""
    node = with_lengths(node) if isinstance(node, Stream) else node
    if isinstance(node, RaggedSamples) and node.count is not None:
        return _lengths_later(node, (MOST,) * levels_of(node.like)[0].count(None))
    if isinstance(node, Sampled) and node.lifts and not isinstance(node, Ragged):
        return node.of_rows(lengths(cast(Node, node.node)))
    if not isinstance(node, Ragged):
        raise TypeError("the rows have one shape, so each has the same length: see _shape()")
    return stored(ArraySource(_alone(lengths_of(node))), False)


def _alone(lengths: np.ndarray) -> np.ndarray:
    return lengths[:, 0] if lengths.shape[1] == 1 else lengths
