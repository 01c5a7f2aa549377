"""Rows of different shapes: flat values, where each row lies among them, and which rows there are.

What is done with each value is done with the flat values, and a choice of rows is index algebra, so
that neither looks at single rows.  Values that are ragged themselves make rows of ragged rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np

from dataview.errors import RaggedError
from dataview.index import (
    LINE,
    Affine,
    Array,
    Computed,
    Index,
    Map,
    axis_index,
    block_index,
    compose,
    extent,
    identity,
    is_integer,
    numbers_of,
    parse,
    positions,
    shifted,
    whole_axes,
)
from dataview.index.flat import Layout, RowOf, as_objects, packed, place_of, shaped, windows_of
from dataview.index.keys import key_text
from dataview.index.shape_texts import shape_text
from dataview.plan.build import keyed, select, stored
from dataview.plan.fields import NO_META, computed_meta
from dataview.plan.guards import is_broadcast_to, is_whole, no_key
from dataview.plan.kinds import (
    Elementwise,
    Extents,
    RowReader,
    Sampled,
    Stored,
    known_dtype,
    known_shape,
    size_of,
)
from dataview.plan.layout import as_row, reshaped
from dataview.plan.node import Argument, Evaluate, Node
from dataview.plan.operations import is_cast
from dataview.plan.values import array_or_none
from dataview.sources import ArraySource, Memo

Places: TypeAlias = range | np.ndarray

WAYS_OUT = "_pad(value) makes an array of one shape of them, _map(function) does it row by row"

FEW_ROWS = 1 << 12
"""The places of the values of fewer chosen rows are listed, of more computed when needed."""


class Ragged(Sampled):
    """The rows of `layout` that `index` has, whose values are among those of the node below."""

    __slots__ = ("index", "laid", "layout", "lying")
    lifts = is_sized = True

    def __init__(self, values: Node, layout: Layout, index: Index | None = None) -> None:
        Node.__init__(self, None, values.dtype)  # a batch of rows is made for every step
        self.node = values
        self.layout = layout
        self.index = identity((layout.count,)) if index is None else index
        self.levels = values.levels + 1
        self.laid: tuple[range | np.ndarray, Layout] | None = None
        self.lying: tuple[np.ndarray, np.ndarray] | None = None

    def forget(self) -> None:
        """Forget what has been remembered, where the values of the rows are, too."""
        super().forget()
        self.laid = self.lying = None

    # --- what it is ------------------------------------------------------------------------

    @property
    def values(self) -> Node:
        """The flat values, or the rows that the rows are made of."""
        return cast(Node, self.node)

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.index.shape[0]

    @property
    def row_extents(self) -> Extents:
        """The shape of each row, with None for lengths that differ."""
        return (*self.layout.axes, *cast(Extents, self.values.extents)[1:])

    @property
    def extents(self) -> Extents:
        """The shape with None for lengths that differ."""
        return (self.count, *self.row_extents)

    @property
    def size(self) -> int:
        """The number of elements of all rows."""
        places, _ = self.chosen()
        values = self.values
        if isinstance(values, Ragged):
            return values.rows(places).size
        return len(places) * size_of(known_shape(values)[1:])

    @property
    def is_nested(self) -> bool:
        """Whether the rows are made of ragged rows."""
        return isinstance(self.values, Ragged)

    def shapeless(self) -> Exception:
        """Return the error for a question that takes an array of one shape."""
        shape = shape_text(self.extents)
        return RaggedError(f"the rows of shape {shape} differ in length; {WAYS_OUT}")

    # --- which rows ------------------------------------------------------------------------

    def numbers(self, rows: Places | None = None) -> Places:
        """Return the numbers that the rows have in the layout, all or some of them."""
        first = self.index.maps[0]
        if rows is None and type(first) is Array and first.axes == (0,):  # as in every batch
            return first.values
        found = numbers_of(first, self.index.shape)
        if found is None:  # the same row throughout
            count = self.count if rows is None else len(rows)
            return np.broadcast_to(positions(first, self.index.shape), (count,))
        return cast(Places, found(range(self.count) if rows is None else rows))

    def chosen(self, rows: Places | None = None) -> tuple[Places, Layout]:
        """Return where the values of the rows are, and how these lie one after the other.

        `rows` are some of the rows, by their numbers among those that there are.
        """
        if rows is not None:
            return self.layout.part(self.numbers(rows))
        if self.laid is not None:
            return self.laid
        found = self.layout.part(self.numbers())
        if self.count < FEW_ROWS:
            self.laid = found
        return found

    def spans(self) -> tuple[np.ndarray, np.ndarray]:
        """Return where the values of each row begin, and how many they are."""
        if self.lying is not None:
            return self.lying
        found = self.layout.spans(self.numbers())
        if self.count < FEW_ROWS:
            self.lying = found
        return found

    def part(self, index: Index) -> Node:
        """Return one row, an ordinary array, or some rows."""
        if len(index.maps) != 1 or len(index.shape) > 1:
            raise no_key("rows are taken in a line, whole")
        values, layout, found = self.values, self.layout, compose(self.index, index)
        if layout.is_late:
            values, layout, found = layout.near(values, found)
        if found.shape:
            part = Ragged(values, layout, found)  # quicker than `replaced`
            part.meta, part.label = self.meta, self.label
            part.mask = None if self.mask is None else select(self.mask, index)
            return part
        places, shape = layout.row(int(positions(found.maps[0], ())))
        row = places_of(values, places)
        if layout.shapes is not None:
            row = reshaped(row, (*shape, *known_shape(row)[1:]))
        return as_row(row, values, len(shape), self.meta)

    def rows(self, numbers: range | np.ndarray) -> Ragged:
        """Return some rows by their numbers among those that there are."""
        return cast(Ragged, places_of(self, numbers))

    def at(self, key: Any) -> Node:
        """Return the part for a key: on the rows, and on axes behind the ragged ones."""
        entries = list(key) if isinstance(key, tuple) else [key]
        axes = len(self.extents)
        dots = [n for n, entry in enumerate(entries) if entry is Ellipsis]
        if len(dots) == 1:
            missing = axes - len(entries) + 1
            entries[dots[0] : dots[0] + 1] = [slice(None)] * missing
        if any(entry is None or entry is Ellipsis for entry in entries) or len(entries) > axes:
            raise no_key(f"the key {key!r} does not fit its {axes} axes")
        first, *rest = entries or [slice(None)]
        if is_integer(first):
            row = self.part(parse(first, (self.count,)))
            return row if not rest else _keyed(row, tuple(rest))
        ragged, behind = rest[: len(self.layout.axes)], rest[len(self.layout.axes) :]
        if any(not is_whole(entry) for entry in ragged):
            raise no_key(f"the rows differ in length, so the key {key_text(key)} is not possible")
        rows = cast(Ragged, self.part(parse(first, (self.count,))))
        if all(map(is_whole, behind)):
            return rows
        values = _keyed(rows.values, (slice(None), *behind))
        return Ragged(values, rows.layout, rows.index)

    # --- its data --------------------------------------------------------------------------

    def answer(self, evaluate: Evaluate, memo: Memo) -> np.ndarray:
        """Return the rows as an array of arrays, which share no memory with the data."""
        values, layout = self.gathered(lambda node, places: evaluate(places_of(node, places)))
        return as_objects(values, layout)

    def gathered(self, read: Any, rows: Places | None = None) -> tuple[np.ndarray, Layout]:
        """Return a copy of the values of the rows, one after the other, and how they lie.

        `read` is a function of a node and the numbers of rows that it reads of it.
        """
        places, layout = self.chosen(rows)
        found = read(self.values, places)
        is_new = isinstance(places, np.ndarray) or self.is_nested
        return found if is_new and found.flags.writeable else np.array(found), layout

    def taker(self, reader_of: Callable[[Node], RowReader | None], plan: Any) -> RowReader | None:
        """Return what takes rows without a plan, unless rows are made of ragged rows."""
        numbers, layout = numbers_of(self.index.maps[0], self.index.shape), self.layout
        values, is_late = self.values, bool(layout.is_late)
        read = None if self.is_nested or is_late else reader_of(values)
        if numbers is None or self.is_nested or (read is None and not is_late):
            return None

        def taken(rows: Any) -> Any:
            nonlocal read
            if read is None and not layout.is_late:
                read = reader_of(values)
            return plan if read is None else layout.taken(read, numbers(rows))

        return taken

    def narrowed(self) -> Ragged:
        """Return the same rows, over no more of the values and the layout than they need."""
        if self.layout.is_late:
            return self
        first, last = extent(self.index.maps[0], self.index.shape) or (0, -1)
        if first == 0 and last == self.layout.count - 1:
            return self
        places, layout = self.layout.part(range(first, last + 1))
        index = Index(self.index.shape, [shifted(self.index.maps[0], first)])
        return self.replaced(node=places_of(self.values, places), layout=layout, index=index)

    # --- its values as one line ------------------------------------------------------------

    def flat(self) -> Node:
        """Return the values of the rows one after the other: writes pass through it."""
        numbers, values = self.numbers(), self.values
        if isinstance(values, Ragged):
            return values.rows(self.layout.part(numbers)[0]).flat()
        if self.count < FEW_ROWS or (isinstance(numbers, range) and numbers.step == 1):
            return places_of(values, self.chosen()[0])
        place = place_of(self.layout, numbers)
        line = Computed(place, LINE), int(place.rows.offsets[-1])
        return select(values, axis_index(known_shape(values), *line))

    def windows(self, size: int, step: int) -> Node:
        """Return all windows of `size` values that lie in one row, `step` values apart."""
        if len(self.layout.axes) > 1 or self.is_nested:
            raise no_key("windows are cut out of rows of one ragged axis")
        line, offsets = self.flat(), self.chosen()[1].offsets
        place = windows_of(offsets, size, step)
        shape = known_shape(line)
        flat = Computed(place, Affine(0, ((0, size), (1, 1))))
        maps: list[Map] = [flat, *whole_axes(2, len(shape) + 1)]
        return select(line, Index((place.count, size, *shape[1:]), maps))

    def relaid(self) -> Ragged:
        """Return the same rows such that their values are a line of their own."""
        places, layout = self.chosen()
        inner = self.values
        values = inner.rows(places).relaid() if isinstance(inner, Ragged) else self.flat()
        return Ragged(values, layout).replaced(meta=self.meta)

    def merged(self) -> Ragged:
        """Return the same rows such that those made of ragged rows have all their values in one."""
        if not isinstance(self.values, Ragged):
            return self
        places, layout = self.chosen()
        inner = self.values.rows(places).merged().relaid()
        offsets = inner.layout.offsets[layout.offsets]
        return Ragged(inner.values, Layout(offsets, None, (None,)))

    def nested(self) -> Ragged:
        """Return the same rows as rows that are made of ragged rows."""
        rows = self.relaid()
        if isinstance(rows.values, Ragged) or len(rows.extents) < 3:
            return rows
        shapes = rows.layout.shapes
        if shapes is None:
            return Ragged(as_ragged(rows.values, 1), rows.layout)
        outer = shaped(shapes[:, :1])
        inner = shaped(shapes[:, 1:].repeat(shapes[:, 0], axis=0))
        return Ragged(Ragged(rows.values, inner), outer)

    def with_axes(self, count: int) -> Ragged:
        """Return the same rows such that so many of their axes are laid out by each row.

        They stay as they are where these axes cannot be the same for all rows.
        """
        have = len(self.layout.axes)
        if have == count or self.is_nested or count >= len(self.extents):
            return self
        rows = self.relaid()
        lengths, rest = rows.layout.lengths(), known_shape(rows.values)[1:]
        if have < count:
            more, rest = rest[: count - have], rest[count - have :]
            lengths = np.hstack(
                [lengths, np.broadcast_to(np.array(more, int), (rows.count, len(more)))]
            )
        else:
            if (lengths[:, count:] != lengths[:1, count:]).any():
                return self
            rest = (
                *(lengths[0, count:].tolist() if rows.count else self.row_extents[count:have]),
                *rest,
            )
            lengths = lengths[:, :count]
        if None in rest:
            return self
        values = reshaped(rows.values, (int(lengths.prod(axis=1).sum()), *rest))
        return Ragged(values, shaped(lengths))

    def over(self, values: Node) -> Ragged:
        """Return rows laid out as these, of other flat values."""
        inner = self.values
        return Ragged(
            inner.over(values) if isinstance(inner, Ragged) else values, self.layout, self.index
        )

    def leaf(self) -> Node:
        """Return the flat values below all rows."""
        return self.values.leaf() if isinstance(self.values, Ragged) else self.values

    def compared(self) -> Node | None:
        """Return the flat values of all rows, None for a part of the rows."""
        is_whole = self.index.maps == (LINE,) and self.count == self.layout.count
        if not is_whole or not isinstance(self.values, Ragged):
            return self.values if is_whole else None
        return self.values.compared()

    def is_like(self, other: Ragged) -> bool:
        """Whether each row has the shape of the other's row."""
        if (
            self.count != other.count
            or self.row_extents[len(self.layout.axes) :]
            != (other.row_extents[len(other.layout.axes) :])
        ):
            return False
        (places, layout), (places_, layout_) = self.chosen(), other.chosen()
        if not layout.is_like(layout_):
            return False
        if isinstance(self.values, Ragged) and isinstance(other.values, Ragged):
            return self.values.rows(places).is_like(other.values.rows(places_))
        return self.is_nested is other.is_nested

    def spread(self, value: Node) -> Node:
        """Return one value of each row, repeated for each of the row's flat values."""
        rows = self
        while True:
            offsets = rows.chosen()[1].offsets
            shape = known_shape(value)
            where = axis_index(shape, Computed(RowOf(offsets), LINE), int(offsets[-1]))
            value = select(value, where)
            if not isinstance(rows.values, Ragged):
                return value
            rows = rows.values.rows(rows.chosen()[0])

    # --- steps on each value ---------------------------------------------------------------

    def as_rows(self, operands: tuple[Argument, ...]) -> tuple[Sampled, tuple[Argument, ...]]:
        """Return the operands for the flat values: numbers, and one value for each row."""
        others = [operand for operand in operands if operand is not self]
        if len(others) < len(operands) - 1:
            raise self._not_alike(self)
        rows = self if all(map(_is_number, others)) else self.relaid()

        def of_values(operand: Argument) -> Argument:
            if operand is self:
                return rows.leaf()
            return operand if _is_number(operand) else rows.per_row(operand)

        return rows, tuple(map(of_values, operands))

    def as_compared(self, operands: tuple[Argument, ...]) -> Any:
        """Return the operands of a comparison for the flat values, None if they do not match."""
        other = self.rows_given(next((op for op in operands if op is not self), self))
        if other is not None:
            if not self.is_like(other):
                return None
            rows, line = self.relaid(), other.flat()
            return rows, tuple(rows.leaf() if op is self else line for op in operands)
        try:
            return self.as_rows(operands)
        except RaggedError:
            return None

    def rows_given(self, value: Any) -> Ragged | None:
        """Return rows that stand beside these: ragged, or of an array with as many axes."""
        if isinstance(value, Ragged):
            return value.nested() if self.is_nested else value.with_axes(len(self.layout.axes))
        if not isinstance(value, Node):
            return None
        if value.shape is not None and len(value.shape) == len(self.extents):
            found = as_ragged(value, 2 if self.is_nested else len(self.layout.axes))
            return found.nested() if self.is_nested else found
        memory = value.source.memory if isinstance(value, Stored) else None
        if memory is None or memory.dtype != object or memory.ndim != 1:
            return None
        is_of_arrays = all(isinstance(row, np.ndarray) and row.ndim for row in memory)
        return ragged_of(*packed(list(memory))) if is_of_arrays else None

    def of_rows(self, rows: Node) -> Node:
        """Return rows laid out as these, of what was computed of each of their flat values."""
        found = self.over(rows)
        if isinstance(rows, Elementwise) and self.meta is not NO_META:
            found.meta = computed_meta(self.meta, known_dtype(rows), is_cast(rows.ufunc))
        return found

    def per_row(self, operand: Any) -> Node:
        """Return an operand that has one value for each row as values of the flat line."""
        if not isinstance(operand, Node) or operand.shape is None:
            raise self._not_alike(operand)
        shape, rest = operand.shape, known_shape(self.leaf())[1:]
        axes = len(self.extents)
        tails = (), rest, (1,) * (axes - 1)
        if shape[:1] != (self.count,) or shape[1:] not in tails:
            front = axes - len(rest)
            if shape[:front] == (1,) * front and is_broadcast_to(shape[front:], rest):
                return reshaped(operand, shape[front:])  # the same for all rows
            raise self._not_alike(operand)
        line = rest if shape[1:] == rest else (1,) * len(rest)
        return self.spread(reshaped(operand, (self.count, *line)))

    def _not_alike(self, other: Any) -> Exception:
        theirs = other.extents if isinstance(other, Node) else np.shape(other)
        return RaggedError(
            f"rows of shape {shape_text(self.extents)} take a number, or one value for each row, "
            f"of shape ({self.count},); got {shape_text(theirs or ())}; {WAYS_OUT}"
        )

    # --- writing ---------------------------------------------------------------------------

    def writable(self, values: tuple[Any, ...]) -> tuple[Node, tuple[Any, ...]]:
        """Return the flat values, and what to write there: a row is written by one of its shape."""
        rows = self.relaid()
        return rows.leaf(), tuple(rows.fitting(value) for value in values)

    def fitting(self, value: Any) -> Any:
        """Return a value as one to write to the flat values of these rows."""
        node = value
        if not isinstance(value, Node):
            array = array_or_none(value)
            if array is not None and not array.ndim:
                return value
            if array is None or array.dtype == object:
                node = ragged_of(*packed(list(value)))
            else:
                node = stored(ArraySource(array))
        if _is_number(node):
            return node
        given = self.rows_given(node)
        line = known_shape(self.leaf())
        is_alike = given is not None and self.is_like(given)
        is_nothing = given is None or (not given.size and (is_alike or not line[0]))
        if not self.size and node.count == self.count and is_nothing:  # of whatever dtype
            return stored(ArraySource(np.empty(line, self.dtype)))
        if given is None:
            return self.per_row(node)
        if not is_alike:
            raise self._misfit(given)
        return given.flat()

    def _misfit(self, given: Ragged) -> Exception:
        if self.count != given.count:
            return ValueError(f"{given.count} rows cannot be written to {self.count} rows")
        ours, theirs = self.chosen()[1].lengths(), given.chosen()[1].lengths()
        odd = [0] if ours.shape != theirs.shape else np.flatnonzero((ours != theirs).any(axis=1))
        row = int(odd[0]) if len(odd) else 0
        return ValueError(
            f"a row is written by a row of its shape: row {row} has {tuple(ours[row].tolist())}, "
            f"the value {tuple(theirs[row].tolist())}"
        )


# --- making ------------------------------------------------------------------------------------


def ragged_of(values: Any, layout: Layout, writable: bool = True) -> Ragged:
    """Return the rows that lie so among values: an array, or packed rows themselves."""
    if isinstance(values, tuple):
        inner, inner_layout = values
        return Ragged(ragged_of(inner, inner_layout, writable), layout)
    return Ragged(stored(ArraySource(values), writable), layout)


def laid_out(values: Node, layout: Layout, exactly: bool) -> Ragged:
    """Return rows that a user lays out over flat values; `exactly` says that none may be left."""
    count = values.count
    if count is None:
        raise ValueError("ragged rows are laid out over values that have an axis")
    end = int(layout.offsets[-1])
    if end > count or (exactly and end < count):
        raise ValueError(f"the rows have {end} values, and {count} were given")
    return Ragged(values, layout)


def as_ragged(node: Node, axes: int) -> Ragged:
    """Return an array's rows as ragged ones, of which so many axes are laid out by each row."""
    count, *shape = known_shape(node)
    shapes = np.broadcast_to(np.array(shape[:axes], np.intp), (count, axes))
    total = count * size_of(tuple(shape[:axes]))
    return Ragged(reshaped(node, (total, *shape[axes:])), shaped(shapes))


def places_of(node: Node, places: range | np.ndarray) -> Node:
    """Return the rows of a node at these places."""
    shape = (node.count or 0,) if isinstance(node, Ragged) else known_shape(node)
    if isinstance(places, range) and places.step == 1:
        return select(node, block_index(shape, places.start, places.stop))
    return select(node, axis_index(shape, Array(np.asarray(places), (0,)), len(places)))


def _keyed(node: Node, key: tuple[Any, ...]) -> Node:
    return node.at(key) if isinstance(node, Ragged) else keyed(node, key)


def _is_number(value: Any) -> bool:
    return value.shape == () if isinstance(value, Node) else True
