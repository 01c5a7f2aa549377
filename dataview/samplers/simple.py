"""Samplers that need no labels, lengths or parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from dataview.index import Draws
from dataview.index import Permutation as Keyed
from dataview.plan.node import Part
from dataview.samplers.protocol import (
    Data,
    Function,
    Key,
    Order,
    Sampler,
    Seed,
    asked_of,
    checked_number,
)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Restrictable(Sampler):
    """A sampler that can be asked for the rows of one label only: `by=` and `label=` say which."""

    reads: ClassVar[bool] = False  # the rows with the label have been read by then

    by: Any = None
    label: Any = None

    def __post_init__(self) -> None:
        if self.label is not None and self.by is None:
            raise ValueError(f"{self.name} of one label= needs by=, the labels")

    def order(self, data: Data, seed: Seed = 0, epoch: int = 0) -> Order:
        """Return the order of one epoch."""
        if self.label is None:
            return super().order(data, seed, epoch)
        rows = rows_with(data, self.by, self.label)
        inner = dataclasses.replace(self, label=None).order(Chosen(data, rows), seed, epoch)
        return order_of_rows(rows, inner)


class Chosen:
    """Some of the rows of a dataset, as a dataset."""

    __slots__ = ("__weakref__", "data", "rows")

    def __init__(self, data: Data, rows: np.ndarray) -> None:
        self.data = data
        self.rows = rows

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @property
    def columns(self) -> list[Any]:
        """What the dataset has been asked for."""
        return asked_of(self.data)

    @property
    def parts(self) -> tuple[int, ...]:
        """The number of rows in each part of the data."""
        ends = np.searchsorted(self.rows, np.cumsum(self.data.parts))
        return tuple(np.diff(ends, prepend=0).tolist())

    @property
    def chunk(self) -> int:
        """How many rows of the data are read together."""
        return self.data.chunk

    def expect(self, by: Any, several: bool = False) -> None:
        """Note that values will be asked for."""
        self.data.expect(by, several)

    def values(self, by: Any) -> np.ndarray:
        """Return the values of these rows."""
        found: np.ndarray = self.data.values(by)[self.rows]
        return found

    def labels(self, by: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the labels of these rows, each with the place of its row among them."""
        rows, labels = self.data.labels(by)
        chosen = np.isin(rows, self.rows)
        return np.searchsorted(self.rows, rows[chosen]), labels[chosen]


def rows_with(data: Data, by: Any, label: Any) -> np.ndarray:
    """Return the rows that have a label, in their order, or raise if none has it."""
    owners, labels = data.labels(by)
    rows = np.unique(owners[labels == label])
    if not len(rows):
        known = ", ".join(map(repr, np.unique(labels)[:10].tolist()))
        raise ValueError(f"no row has the label {label!r}; the labels are: {known}")
    return rows


def order_of_rows(rows: np.ndarray, order: Order) -> Order:
    """Return the order of these rows that an order of places in their list gives."""
    return Order(
        _Listed(rows, order.function),
        order.length,
        order.cuts,
        order.forward,
        len(rows),
        order.sure,
    )


class _Listed(Part):
    """The rows that stand in a list at the places that a function gives."""

    __slots__ = ("places", "rows")
    parts = ("places",)

    @property
    def reads(self) -> bool:
        """Whether data may have to be read to know the rows."""
        return getattr(self.places, "reads", False)

    def __init__(self, rows: np.ndarray, places: Function) -> None:
        self.rows = rows
        self.places = places

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Return the rows at these positions."""
        return self.rows[self.places(positions)]


class Linear(Restrictable):
    """All rows, first to last."""

    name: ClassVar[str] = "linear"

    @property
    def in_order(self) -> bool:
        """Whether the rows stay as they are stored: all of them do."""
        return self.label is None

    def at(self, data: Data, key: Key) -> Function:
        """Return each position as it is."""
        return same


def same(positions: np.ndarray) -> np.ndarray:
    """Return the positions as row numbers."""
    return positions


class Permutation(Restrictable):
    """All rows, each once, in random order."""

    name: ClassVar[str] = "permutation"

    def at(self, data: Data, key: Key) -> Function:
        """Return a keyed permutation, which stores nothing."""
        return Keyed(data.count, *key)


class Uniform(Restrictable):
    """Rows drawn at random, each with the same probability, without end."""

    name: ClassVar[str] = "uniform"
    endless: ClassVar[bool] = True

    def at(self, data: Data, key: Key) -> Function:
        """Return a draw for each position."""
        words, count = Draws(*key), data.count
        return lambda positions: words.below(positions, count)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Subset(Sampler):
    """These rows, each as often as it is listed: in random order, or in the order of the list."""

    name: ClassVar[str] = "subset"
    reads: ClassVar[bool] = False

    rows: Any
    permute: bool = True

    def __post_init__(self) -> None:
        rows = np.asarray(self.rows)
        if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
            raise TypeError(f"a subset is a list of row numbers; got {rows.dtype} {rows.shape}")
        object.__setattr__(self, "rows", rows.astype(np.intp))

    def length(self, data: Data) -> int | None:
        """Return how many rows are listed."""
        numbered(self.rows, data.count)
        return len(self.rows)

    def at(self, data: Data, key: Key) -> Function:
        """Return the list behind a permutation."""
        rows = numbered(self.rows, data.count)
        if not self.permute:
            return rows.__getitem__
        return _Listed(rows, Keyed(len(rows), *key))


def numbered(rows: np.ndarray, count: int) -> np.ndarray:
    """Return row numbers counted from the front, or raise naming one that is outside."""
    outside = (rows < -count) | (rows >= count)
    if outside.any():
        raise IndexError(f"row {rows[outside][0]} is outside the {count} rows")
    return np.where(rows < 0, rows + count, rows)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Weighted(Sampler):
    """Rows drawn in proportion to weights: without end, or each at most once.

    Weights are numbers of at least 0, and need not add up to 1.  Without replacement, rows are
    drawn one after the other, in proportion to the weights of the remaining rows, until only rows
    of weight 0 remain.
    """

    name: ClassVar[str] = "weighted"
    takes: ClassVar[str] = "weights"

    by: Any
    replacement: bool = True

    def length(self, data: Data) -> int | None:
        """Return None, or the number of rows of any weight."""
        if self.replacement and data.count:
            return None
        return int(np.count_nonzero(checked_weights(data.values(self.by))))

    def at(self, data: Data, key: Key) -> Function:
        """Return draws in proportion to the weights."""
        weights = checked_weights(data.values(self.by))
        words = Draws(*key)
        if self.replacement:
            return drawn(words, weights)
        # Of exponential times with these rates, each is the first one in proportion to its rate.
        some = np.flatnonzero(weights)
        with np.errstate(over="ignore"):  # a tiny weight beside a large one makes an infinite time
            times = -np.log1p(-words.fractions(some)) / _scaled(weights[some])
        ordered: np.ndarray = some[np.argsort(times, kind="stable")]
        return ordered.__getitem__


def drawn(words: Draws, weights: np.ndarray) -> Function:
    """Return a function that draws numbers in proportion to weights, by their cumulative sums."""
    sums = np.cumsum(_scaled(weights))
    last = np.flatnonzero(weights)[-1]  # rounding may make a fraction of the sum the whole sum

    def numbers(positions: np.ndarray) -> np.ndarray:
        fallen = words.fractions(positions) * sums[-1]
        found: np.ndarray = np.minimum(np.searchsorted(sums, fallen, side="right"), last)
        return found

    return numbers


def _scaled(weights: np.ndarray) -> np.ndarray:
    """Return weights times a power of 2: the greatest is about 1, so that no sum overflows."""
    scaled: np.ndarray = np.ldexp(weights, -np.frexp(weights.max(initial=0))[1])
    return scaled


def checked_weights(values: Any, names: Sequence[Any] | None = None) -> np.ndarray:
    """Return weights as floats, or raise naming the first that is no weight.

    >>> checked_weights([1, 1, 2])
    array([1., 1., 2.])
    """
    given = np.asarray(values)
    if given.dtype.kind not in "biuf":
        raise TypeError(f"weights are numbers; got {given.dtype}")
    weights = given.astype(np.float64)
    wrong = np.flatnonzero(~((weights >= 0) & np.isfinite(weights)))
    if len(wrong):
        which = wrong[0] if names is None else f"of {names[wrong[0]]!r}"
        raise ValueError(f"weight {which} is {weights[wrong[0]]}; give finite ones from 0 on")
    if len(weights) and not weights.any():
        raise ValueError("all weights are 0, so nothing can be drawn")
    return weights


# --- slices ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Sized(Sampler):
    """A sampler that needs a batch size: its own, or that of the batches it is used for."""

    batch_size: int | None = None

    def __post_init__(self) -> None:
        if self.batch_size is not None:
            checked_number("batch_size", self.batch_size, 1)

    @property
    def sized(self) -> bool:
        """Whether the sampler takes the batch size into account: it does."""
        return True

    def fitted(self, batch_size: int | None, tail: str) -> Sampler:
        """Return the sampler with the size of the batches."""
        if self.batch_size is None and batch_size is None:
            raise ValueError(f"the sampler {self.name} needs a batch size")
        if None not in (self.batch_size, batch_size) and self.batch_size != batch_size:
            raise ValueError(
                f"the batch size is {batch_size}, that of the sampler {self.batch_size}; "
                "give it once"
            )
        return dataclasses.replace(self, batch_size=self.batch_size or batch_size)

    @property
    def size(self) -> int:
        """The batch size, once it is known."""
        if self.batch_size is None:
            raise ValueError(f"the sampler {self.name} needs batch_size=")
        return self.batch_size


class Slices:
    """The numbers below `count`, cut into slices of `size` that come in random order.

    The last slice may be short, and may come anywhere.  The slices are the cuts of their order.

    >>> slices = Slices(7, 3, (0,))
    >>> [slices.bounds(number) for number in range(slices.count)], slices(np.arange(7)).tolist()
    ([(0, 1), (1, 4), (4, 7)], [6, 3, 4, 5, 0, 1, 2])
    """

    __slots__ = ("count", "missing", "order", "place", "size", "total")

    def __init__(self, total: int, size: int, key: Key) -> None:
        self.total = total
        self.size = size
        self.count = -(-total // size)
        self.missing = self.count * size - total
        self.order = Keyed(self.count, *key)
        short = np.array([self.count - 1]) if self.missing else None
        self.place = self.count if short is None else int(self.order.inverse(short)[0])

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Return the number at each position."""
        numbers, within = self.located(positions)
        rows: np.ndarray = self.order(numbers) * self.size + within
        return rows

    def located(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the place of the slice at each position, and the position within it."""
        end = self.place * self.size + self.size - self.missing
        number, within = np.divmod(
            np.where(positions >= end, positions + self.missing, positions), self.size
        )
        return number, within

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the positions of a slice."""
        return self._start(number), self._start(number + 1)

    def _start(self, number: int) -> int:
        return number * self.size - (self.missing if number > self.place else 0)

    def number(self, position: int) -> int:
        """Return the place of the slice that has a position."""
        return int(self.located(np.array(position))[0])


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class BatchwisePermutation(Sized):
    """Slices of neighbouring rows in random order, each slice a batch.

    A short slice may come anywhere; `even=True` leaves it out.
    """

    name: ClassVar[str] = "batchwise-permutation"
    reads: ClassVar[bool] = False

    even: bool = False

    def fitted(self, batch_size: int | None, tail: str) -> Sampler:
        """Return the sampler with the size of the batches, and without a short one if asked."""
        super().fitted(batch_size, tail)
        size = self.batch_size or batch_size
        return BatchwisePermutation(size, self.even or tail == "drop")

    def order(self, data: Data, seed: Seed = 0, epoch: int = 0) -> Order:
        """Return the order of one epoch."""
        total = data.count - (data.count % self.size if self.even else 0)
        slices = Slices(total, self.size, self.key(seed, epoch))
        return Order(slices, total, slices if slices.missing else None)


class RandomSlice(Sized):
    """Slices of neighbouring rows that begin at a random row, each slice a batch; without end."""

    name: ClassVar[str] = "random-slice"
    endless: ClassVar[bool] = True
    reads: ClassVar[bool] = False

    def length(self, data: Data) -> int | None:
        """Return None, for there is no end, unless there are no rows."""
        if 0 < data.count < self.size:
            raise ValueError(f"a slice of {self.size} rows does not fit into {data.count} rows")
        return super().length(data)

    def at(self, data: Data, key: Key) -> Function:
        """Return slices of the batch size."""
        size, words = self.size, Draws(*key)
        starts = data.count - size + 1

        def rows(positions: np.ndarray) -> np.ndarray:
            number, within = np.divmod(positions, size)
            return words.below(number, starts) + within

        return rows
