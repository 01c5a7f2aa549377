"""Batches that are not all of one size: each holds the rows between two cuts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import numpy as np

from dataview.index import (
    ENDLESS,
    LINE,
    Constant,
    Index,
    compose,
    is_endless,
    numbers_of,
    positions,
    whole_axes,
)
from dataview.plan.build import field
from dataview.plan.fields import NO_FIELDS, Attached, Fields
from dataview.plan.guards import endless
from dataview.plan.kinds import Lifted, RowReader, Sampled, known_shape, size_of
from dataview.plan.node import Argument, Evaluate, LateFields, Node, Shape
from dataview.plan.ragged import Ragged
from dataview.samplers import Cuts, ordered, row_range, rows_by
from dataview.samples import stack
from dataview.sources import Memo

UNEVEN = (
    "the minibatches are not all of one size, so they do not make one array; take them one by one, "
    "or choose tail='drop' or tail='pad'"
)


@dataclasses.dataclass(frozen=True)
class EqualCuts:
    """Cuts every `size` positions; the last batch is shorter where the total is no multiple."""

    total: int
    size: int

    @property
    def count(self) -> int:
        """The number of batches."""
        return ENDLESS if is_endless(self.total) else -(-self.total // self.size)

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the first position of a batch, and the one past its last."""
        start = number * self.size
        return start, min(start + self.size, self.total)

    def number(self, position: int) -> int:
        """Return the number of the batch that has a position."""
        return position // self.size


class Batches(Sampled):
    """Batches that are not all of one size: each holds the rows of `node` between two cuts.

    `index` says which of the batches the view has.  Its shape has the `nominal` size, which is None
    where a sampler decides about the sizes.
    """

    __slots__ = ("cuts", "index", "nominal")
    lifts = True

    def __init__(self, rows: Node, cuts: Cuts, index: Index, nominal: int | None) -> None:
        super().__init__(NO_FIELDS, rows)
        if len(rows.fields):
            self._fields = LateFields(rows, index, (cuts, nominal), _fields_of)
        if nominal is not None and rows.shape is not None:
            self.shape = (*index.shape, nominal, *rows.shape[1:])
        self.dtype, self.meta = rows.dtype, rows.meta
        self.cuts = cuts
        self.index = index
        self.nominal = nominal

    @property
    def rows(self) -> Node:
        """The rows of all batches, in the order in which they are visited."""
        assert self.node is not None
        return self.node

    @property
    def is_numbered(self) -> bool:
        """Whether batches have no one shape, and each is chosen by its number."""
        return isinstance(self.rows, Ragged)

    @property
    def count(self) -> int:
        """The number of batches."""
        return self.index.shape[0]

    @property
    def extents(self) -> tuple[int | None, ...]:
        """The shape with None for lengths that are unknown or differ."""
        row: tuple[int | None, ...] = (self.rows.extents or (None, None))[1:]
        return (self.count, self.nominal, *row)

    @property
    def size(self) -> int:
        """The number of elements, those of the real rows alone."""
        if self.index.maps == (LINE,):
            rows = self._reached
        else:
            rows = sum(stop - start for start, stop in self.bounds())
        return rows * size_of(known_shape(self.rows)[1:])

    @property
    def _reached(self) -> int:
        """The number of rows of all batches, seen from the first one on."""
        return self.cuts.bounds(self.count - 1)[1] if self.count else 0

    def bounds(self) -> Iterator[tuple[int, int]]:
        """Return where each batch begins and ends."""
        return map(self.cuts.bounds, self.numbers().tolist())

    def numbers(self) -> np.ndarray:
        """Return the numbers of the batches."""
        if is_endless(self.count):
            raise endless("taking all minibatches")
        return positions(self.index.maps[0], self.index.shape)

    def part(self, index: Index) -> Node:
        """Return one batch, as the rows that it has, or some of the batches."""
        over = len(index.shape) - (len(index.maps) - 1)
        whole = whole_axes(over, len(index.shape))
        own = index.shape[over:] if self.shape is None else self.shape[1 : len(index.maps)]
        if over not in (0, 1) or index.maps[1:] != whole or index.shape[over:] != own:
            raise ValueError(UNEVEN)
        chosen = compose(self.index, Index(index.shape[:over], index.maps[:1]))
        if chosen.shape:
            return Batches(self.rows, self.cuts, chosen, self.nominal)
        start, stop = self.cuts.bounds(int(positions(chosen.maps[0], ())))
        return row_range(self.rows, start, stop)

    def group(self, number: int) -> tuple[Node, range] | None:
        """Return the rows of all batches, and those that one batch has."""
        if self.index.maps != (LINE,):
            return None
        return self.rows, range(*self.cuts.bounds(number))

    def taker(self, reader_of: Callable[[Node], RowReader | None], plan: Any) -> RowReader | None:
        """Return what takes one batch; several need a plan."""
        read, bounds = reader_of(self.rows), self.cuts.bounds
        numbers = numbers_of(self.index.maps[0], self.index.shape)
        if read is None or numbers is None:
            return None
        if self.index.maps == (LINE,):
            return lambda number: read(range(*bounds(number))) if type(number) is int else plan
        return lambda rows: (
            read(range(*bounds(cast(int, numbers(rows))))) if type(rows) is int else plan
        )

    def answer(self, evaluate: Evaluate, memo: Memo) -> np.ndarray:
        """Return the batches as one array, if they are all of one size."""
        if len({stop - start for start, stop in self.bounds()}) > 1:
            raise ValueError(UNEVEN)
        if not self.count:
            shape = self.shape or (0, 0, *known_shape(self.rows)[1:])
            return np.empty(shape, self.dtype)
        parts = (self.part(Index((), [Constant(number)])) for number in range(self.count))
        return stack([evaluate(part, None, memo) for part in parts])

    def as_rows(self, operands: tuple[Argument, ...]) -> Lifted:
        """Return the operands for the rows of all batches, None if one cannot follow the rows.

        Each operand is batches with the same cuts and as many axes, or is the same for all rows.
        What ragged rows are combined with, is checked where it is done with the rows.
        """
        batches = [operand for operand in operands if isinstance(operand, Batches)]
        is_ragged = any(isinstance(operand.rows, Ragged) for operand in batches)
        if any(b.rows.shape is None and not isinstance(b.rows, Ragged) for b in batches):
            return None
        axes = len(self.rows.shape or ())
        found: list[Argument] = []
        for operand in operands:
            if isinstance(operand, Batches):
                if not self._is_cut_as(operand):
                    return None
                if not is_ragged and len(known_shape(operand.rows)) != axes:
                    return None
                found.append(operand.rows)
                continue
            shape = operand.shape if isinstance(operand, Node) else np.shape(operand)
            if shape != () and (is_ragged or not _is_of_sample(shape, axes)):
                return None
            found.append(operand)
        return self, tuple(found)

    def shapeless(self) -> Exception:
        """Return the error for a question that takes batches of one shape."""
        if isinstance(self.rows, Ragged):
            return self.rows.shapeless()
        return super().shapeless() if self.rows.shape is None else ValueError(UNEVEN)

    def _is_cut_as(self, other: Batches) -> bool:
        if other.cuts != self.cuts or other.index.shape != self.index.shape:
            return False
        if other.index.maps == self.index.maps or is_endless(self.count):
            return other.index.maps == self.index.maps
        return bool(np.array_equal(other.numbers(), self.numbers()))

    def of_rows(self, rows: Node) -> Node:
        """Return batches with the same cuts of other rows."""
        return Batches(rows, self.cuts, self.index, self.nominal)

    def writable(self, values: tuple[Any, ...]) -> tuple[Node, tuple[Any, ...]]:
        """Return the rows of all batches, and the values of one sample's shape to write to each."""
        depth = len(known_shape(self.rows)) - 1
        given = [self._of_rows(value, depth) for value in values]
        return self._rows(), tuple(given)

    def _rows(self) -> Node:
        if self.index.maps == (LINE,):
            return rows_by(self.rows, LINE, self._reached)
        runs = [np.arange(start, stop, dtype=np.intp) for start, stop in self.bounds()]
        numbers = np.concatenate([np.empty(0, np.intp), *runs])
        return ordered(self.rows, numbers)

    def _of_rows(self, value: Any, depth: int) -> Any:
        if isinstance(value, Batches):
            if not self._is_cut_as(value):
                raise ValueError(f"the operand has other batches. {UNEVEN}")
            return value._rows()
        axes = len(known_shape(value)) if isinstance(value, Node) else np.ndim(value)
        if isinstance(value, (Mapping, tuple)) or axes > depth:
            raise ValueError(f"what is written to each row has one sample's shape. {UNEVEN}")
        return value


def _is_of_sample(shape: Shape | None, axes: int) -> bool:
    """Whether a shape is that of something that is the same for all rows with so many axes."""
    return shape is not None and (len(shape) < axes or (len(shape) == axes and shape[0] == 1))


def _fields_of(rows: Node, index: Index, key: Any) -> Fields:
    """Return the fields of batches: those whose rows are the rows."""
    cuts, nominal = key
    named: dict[str, Any] = {}
    lost = dict(rows.fields.lost)
    for name, part in rows.fields.named.items():
        if part.follows_rows:
            named[name] = Attached(Batches(field(rows, name), cuts, index, nominal), (0, 1))
        else:
            lost[name] = "does not follow the rows into minibatches"
    return Fields(named, lost)
