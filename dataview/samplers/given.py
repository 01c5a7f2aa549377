"""Orders that a user's iterables and functions give.

Such an order is drawn from its start: a row is known only after all rows before it were drawn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sized
from itertools import chain, islice
from typing import Any, ClassVar

import numpy as np

from dataview.errors import error_at
from dataview.samplers.protocol import Data, Order, Sampler, Seed
from dataview.samplers.simple import numbered


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Iterated(Sampler):
    """The row numbers that an iterable gives, or the batches if it gives lists of row numbers."""

    name: ClassVar[str] = "iterable"

    rows: Iterable[Any]

    def order(self, data: Data, seed: Seed = 0, epoch: int = 0) -> Order:
        """Return the order of one epoch; what has no length is drawn to its end to know it."""
        passing = iter(self.rows)
        if epoch and passing is self.rows:
            raise ValueError(
                "an iterator is spent after an epoch; give an iterable that begins anew each time"
            )
        first = next(passing, None)
        if first is None and passing is self.rows:
            raise ValueError(
                "the iterator has no rows, or is spent; give an iterable that begins anew each time"
            )
        if first is None:
            return Order(np.empty(0, np.intp).__getitem__, 0)
        passing = chain([first], passing)
        if np.ndim(first):
            return _in_batches(list(passing), data.count)
        length = len(self.rows) if isinstance(self.rows, Sized) else None
        if length is None:
            drawn = list(passing)
            passing, length = iter(drawn), len(drawn)
        return Order(_Drawn(passing, data.count, length), length, forward=True)


def _in_batches(batches: list[Any], count: int) -> Order:
    rows = [_as_rows(batch, count) for batch in batches]
    empty = [number for number, batch in enumerate(rows) if not len(batch)]
    if empty:
        raise ValueError(f"batch {empty[0]} of the sampler has no rows; leave it out")
    ends = np.cumsum([len(batch) for batch in rows])
    numbers = np.concatenate(rows)
    return Order(numbers.__getitem__, len(numbers), Ends(ends), forward=True)


def _as_rows(numbers: Any, count: int) -> np.ndarray:
    rows = np.asarray(numbers)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise TypeError(f"a sampler gives row numbers, or lists of them; got {numbers!r}")
    return numbered(rows.astype(np.intp), count)


class Ends:
    """Cuts at these positions."""

    __slots__ = ("ends",)

    def __init__(self, ends: np.ndarray) -> None:
        self.ends = ends

    def __eq__(self, other: object) -> bool:
        """Whether the other cuts at the same positions."""
        return isinstance(other, Ends) and np.array_equal(self.ends, other.ends)

    __hash__ = None  # type: ignore[assignment]

    @property
    def count(self) -> int:
        """The number of batches."""
        return len(self.ends)

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the first position of a batch, and the one past its last."""
        return int(self.ends[number - 1]) if number else 0, int(self.ends[number])

    def number(self, position: int) -> int:
        """Return the number of the batch that has a position."""
        return int(np.searchsorted(self.ends, position, side="right"))


class _Drawn:
    """Row numbers that are drawn one after the other when they are needed, and kept."""

    __slots__ = ("count", "kept", "length", "passing")

    def __init__(self, passing: Iterator[Any], count: int, length: int | None) -> None:
        self.passing = passing
        self.count = count
        self.length = length
        self.kept = np.empty(0, np.intp)

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Return the rows at these positions, drawing all up to the last."""
        missing = int(positions.max(initial=-1)) + 1 - len(self.kept)
        if missing > 0:
            drawn = list(islice(self.passing, missing))
            if len(drawn) < missing:
                raise ValueError(
                    f"the sampler ended after {len(self.kept) + len(drawn)} rows"
                    + (f", though its length is {self.length}" if self.length is not None else "")
                )
            self.kept = np.append(self.kept, _as_rows(drawn, self.count))
        found: np.ndarray = self.kept[positions]
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Draw all rows and pickle them; without a length there may be no end of them."""
        if self.length is None:
            raise TypeError("an order that follows a function cannot be pickled; give a sampler")
        return getattr, (self(np.arange(self.length)), "__getitem__")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class NextRow(Sampler):
    """The rows that a function returns, one at each call, until it returns None, or for ever."""

    name: ClassVar[str] = "function"

    function: Callable[[], Any]

    def order(self, data: Data, seed: Seed = 0, epoch: int = 0) -> Order:
        """Return the order of one epoch, which begins where the last one ended."""
        return Order(_Drawn(iter(self.function, None), data.count, None), None, forward=True)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class OrderFunction(Sampler):
    """The order that a function makes of the order of the epoch before and its length.

    For the first epoch the function gets all rows in their order, and 0.  An order may leave rows
    out or repeat them, but the orders of all epochs have the same length.
    """

    name: ClassVar[str] = "order-function"

    function: Callable[[np.ndarray, int], Any]

    def order(self, data: Data, seed: Seed = 0, epoch: int = 0) -> Order:
        """Return the order of one epoch, computing those of all epochs before it."""
        rows = self._next(np.arange(data.count), 0, data.count, 0)
        length = len(rows)
        for number in range(1, epoch + 1):
            rows = self._next(rows.copy(), length, data.count, number)
            if len(rows) != length:
                raise ValueError(
                    f"the order of epoch {number} has {len(rows)} rows, the one before {length}; "
                    "all epochs are as long"
                )
        return Order(rows.__getitem__, length, forward=True)

    def _next(self, rows: np.ndarray, position: int, count: int, epoch: int) -> np.ndarray:
        try:
            return _as_rows(self.function(rows, position), count)
        except Exception as error:
            raise error_at(error, f"the order of epoch {epoch}") from error
