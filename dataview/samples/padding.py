"""Ragged rows filled up to one shape: `_pad`, with the lengths and the mask that it brings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from dataview.compute import rows_of
from dataview.errors import unknown_field
from dataview.index import as_array, is_integer
from dataview.index.flat import Layout
from dataview.plan.build import record, stored, with_fields
from dataview.plan.casting import holding
from dataview.plan.fields import Attached, Fields
from dataview.plan.kinds import Mapped, Record, Sampled, known_shape, members
from dataview.plan.node import Node, Part
from dataview.plan.ragged import Ragged
from dataview.sources import ArraySource, Memo

SIDES = ("left", "right")


@dataclass(frozen=True, slots=True)
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
        if self.side not in SIDES:
            raise ValueError(f"padding goes to the 'left' or the 'right'; got side={self.side!r}")
        if self.cut is not None and self.cut not in SIDES:
            raise ValueError(f"truncate= is True, 'left' or 'right'; got {self.cut!r}")
        if not is_integer(self.multiple) or self.multiple < 1:
            raise ValueError(f"multiple= is a number from 1 on; got {self.multiple!r}")
        if self.cut is not None and self.to is None:
            raise ValueError("truncate= needs a length to cut rows to: give to=")

    def lengths(self, layout: Layout, where: str) -> tuple[int, ...]:
        """Return the lengths of all axes of the layout once its rows are filled up."""
        found = layout.lengths()
        longest = found.max(axis=0, initial=0).tolist()
        longest = [n if own is None else own for n, own in zip(longest, layout.axes, strict=True)]
        ragged = [axis for axis, length in enumerate(layout.axes) if length is None]
        given = self.to if isinstance(self.to, (tuple, list)) else (self.to,) * len(ragged)
        if len(given) != len(ragged):
            raise ValueError(f"{where}to= has {len(given)} lengths, and {len(ragged)} axes differ")
        for axis, length in zip(ragged, given, strict=True):
            if length is None:
                longest[axis] = -(-longest[axis] // self.multiple) * self.multiple
                continue
            if not is_integer(length) or length < 0:
                raise TypeError(f"{where}to= is a length; got {length!r}")
            if self.cut is None and longest[axis] > length:
                row = int(found[:, axis].argmax())
                raise ValueError(
                    f"{where}row {row} has length {longest[axis]}, more than to={length}; "
                    "truncate=True cuts it"
                )
            if length % self.multiple:
                raise ValueError(f"{where}to={length} is no multiple of {self.multiple}")
            longest[axis] = int(length)
        return tuple(longest)


class Filling(Part):
    """The step that fills rows up to one shape; its members are the data and the mask."""

    __slots__ = ("lengths", "padding")
    title = "pad"

    def __init__(self, padding: Padding, lengths: tuple[tuple[int, ...], ...]) -> None:
        self.padding = padding
        self.lengths = lengths

    def rows(self, node: Any, numbers: np.ndarray, memo: Memo) -> np.ndarray:
        """Return rows filled up, or the mask that is true where there are data."""
        rows: Ragged = node.node
        rows = rows if len(numbers) == rows.count else rows.rows(numbers)
        return self._mask(rows) if node.path else self._data(rows, node.dtype)

    def _data(self, rows: Ragged, dtype: Any, depth: int = 0) -> np.ndarray:
        if isinstance(rows.values, Ragged):
            places, layout = rows.chosen()
            values = self._data(rows.values.rows(places), dtype, depth + 1)
        else:
            values, layout = rows.gathered(rows_of)
        box, padding = self.lengths[depth], self.padding
        out = np.full((layout.count, *box, *values.shape[1:]), padding.value, dtype)
        kept = layout.within(box, padding.cut == "left") if padding.cut is not None else ...
        out[layout.mask_in(box, padding.side == "left")] = values[kept]
        return out

    def _mask(self, rows: Ragged, depth: int = 0) -> np.ndarray:
        places, layout = rows.chosen()
        box, padding = self.lengths[depth], self.padding
        if not isinstance(rows.values, Ragged):
            ragged = [axis for axis, length in enumerate(layout.axes) if length is None]
            return layout.mask_in(box, padding.side == "left", ragged)
        mask = layout.mask_in(box, padding.side == "left")
        inner = self._mask(rows.values.rows(places), depth + 1)
        kept = layout.within(box, padding.cut == "left") if padding.cut is not None else ...
        out = np.zeros((*mask.shape, *inner.shape[1:]), bool)
        out[mask] = inner[kept]
        return out


def padded(node: Node, padding: Any, length: bool = False, mask: bool = False) -> Node:
    """Return ragged rows filled up to one shape; of a record, those of its ragged fields."""
    if isinstance(node, Record):
        return _padded_fields(node, padding, length, mask)
    if isinstance(node, Sampled) and node.lifts and not isinstance(node, Ragged):  # batches
        return node.of_rows(padded(cast(Node, node.node), padding, length, mask))
    if not isinstance(node, Ragged):
        raise TypeError(
            "_pad makes rows of different lengths alike, and these are of one shape already; "
            "numpy.pad(view(), ...) puts a frame around an array"
        )
    if isinstance(padding.value, Mapping):
        raise TypeError(f"the values by field are for a record; got {padding.value!r}")
    data = filled(node, padding)
    name = node.label.names[-1] + "_" if node.label is not None else ""
    beside = {f"{name}length": lengths_filled(data) if length else None}
    beside[f"{name}mask"] = mask_of(data) if mask else None
    more = {key: Attached(part, (0,)) for key, part in beside.items() if part is not None}
    return with_fields(data, Fields(more)) if more else data


def filled(node: Ragged, padding: Padding, where: str = "") -> Mapped:
    """Return rows filled up to one shape."""
    boxes: list[tuple[int, ...]] = []
    rows: Node = node
    given = padding.to if isinstance(padding.to, (tuple, list)) else None
    while isinstance(rows, Ragged):
        places, layout = rows.chosen()
        own = padding
        if given is not None:
            count = layout.axes.count(None)
            own, given = replace(padding, to=given[:count]), given[count:]
        boxes.append(own.lengths(layout, where))
        rows = rows.values.rows(places) if isinstance(rows.values, Ragged) else rows.values
    if given:
        raise ValueError(f"{where}to= has {len(given)} lengths more than there are ragged axes")
    if node.dtype == bool and type(padding.value) is int and padding.value in (0, 1):
        padding = replace(padding, value=bool(padding.value))  # a mask stays one
    dtype = holding(node.dtype, padding.value, where)
    shape = (node.count, *(n for box in boxes for n in box), *known_shape(rows)[1:])
    return Mapped(node, Filling(padding, tuple(boxes)), (), shape, dtype, meta=node.meta)


def mask_of(filled: Mapped) -> Node:
    """Return the mask that is true where rows that are filled up have data."""
    lengths: list[int] = []
    rows, step = filled.node, cast(Filling, filled.step)
    for box in step.lengths:
        assert isinstance(rows, Ragged)
        lengths += _of_ragged(rows.layout, box)
        rows = rows.values
    shape = (filled.node.count or 0, *lengths)
    return Mapped(filled.node, step, ("mask",), shape, np.dtype(bool))


def lengths_filled(filled: Mapped) -> Node:
    """Return the lengths that the rows have in what they are filled up to."""
    rows, step = filled.node, cast(Filling, filled.step)
    assert isinstance(rows, Ragged)
    found = np.minimum(lengths_of(rows), _of_ragged(rows.layout, step.lengths[0]))
    return stored(ArraySource(_alone(found)), False)


def _of_ragged(layout: Layout, lengths: tuple[int, ...]) -> list[int]:
    """Return the lengths of the axes that are ragged."""
    return [n for n, length in zip(lengths, layout.axes, strict=True) if length is None]


def _padded_fields(node: Record, padding: Any, length: bool, mask: bool) -> Node:
    """Return a record with its ragged fields filled up, and with what that brings beside them."""
    by_name = padding.value if isinstance(padding.value, Mapping) else None
    parts = {name: part.node for name, part in members(node).items()}
    for name in by_name or ():
        if name not in parts:
            raise unknown_field(name, node.fields, "_pad")
    found: dict[str, Node] = {}
    for name, part in parts.items():
        if by_name is not None and name not in by_name:
            found[name] = part
            continue
        own = padding if by_name is None else replace(padding, value=by_name[name])
        if isinstance(part, Record):
            found[name] = _padded_fields(part, own, length, mask)
            continue
        if not isinstance(part, Ragged):
            if by_name is not None:
                raise TypeError(f"_pad: the rows of field {name!r} are of one shape already")
            found[name] = part
            continue
        found[name] = data = filled(part, own, f"field {name!r}: ")
        for key, beside in (
            (f"{name}_length", lengths_filled(data) if length else None),
            (f"{name}_mask", mask_of(data) if mask else None),
        ):
            if beside is not None and key in parts:
                raise ValueError(f"there is a field {key} already")
            if beside is not None:
                found[key] = beside
    return record(found, node.rank)


def lengths_of(node: Ragged) -> np.ndarray:
    """Return the lengths of the outermost ragged axes of each row, an array of two axes."""
    numbers = node.numbers()
    ragged = [axis for axis, length in enumerate(node.layout.axes) if length is None]
    if node.layout.shapes is None:
        rows = as_array(numbers)
        found: np.ndarray = node.layout.offsets[rows + 1] - node.layout.offsets[rows]
        return found[:, None]
    shapes: np.ndarray = node.layout.shapes[as_array(numbers)][:, ragged]
    return shapes


def lengths(node: Node) -> Node:
    """Return the length of each row, or the lengths of its axes, if several differ."""
    if isinstance(node, Sampled) and node.lifts and not isinstance(node, Ragged):
        return node.of_rows(lengths(cast(Node, node.node)))
    if not isinstance(node, Ragged):
        raise TypeError("the rows have one shape, so each has the same length: see _shape()")
    return stored(ArraySource(_alone(lengths_of(node))), False)


def _alone(lengths: np.ndarray) -> np.ndarray:
    return lengths[:, 0] if lengths.shape[1] == 1 else lengths
