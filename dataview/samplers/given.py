"""Orders that a user's iterables and functions give.

Such an order is drawn from its start: a row is known only after all rows before it were drawn.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import chain, islice, repeat, takewhile
from typing import Any, ClassVar

import numpy as np

from dataview.errors import error_at
from dataview.exchange import is_view
from dataview.index.locks import new_lock
from dataview.samplers.protocol import Cuts, Data, Order, Sampler, Seed
from dataview.samplers.simple import numbered

ENOUGH = 1 << 20
"""What has given so many rows, and `TIMES` as many as there are, counts as endless."""

TIMES = 64


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Iterated(Sampler):
    """The row numbers that an iterable gives, or the batches if it gives lists of row numbers.

    Where `samples` or `batches` say how long an epoch is, it need not end; then the next epoch goes
    on with the same iterator.
    """

    name: ClassVar[str] = "iterable"

    rows: Iterable[Any]
    samples: int | None = None
    batches: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The iterable; how long an epoch is may differ when the loader is resumed."""
        return {"rows": super().options["rows"]}

    @property
    def replays(self) -> bool:
        """Whether an epoch may follow from the one before: not if the rows are listed."""
        return not isinstance(self.rows, (Sequence, np.ndarray))

    def limited(self, samples: int | None, batches: int | None) -> Sampler:
        """Return the sampler for epochs of so many samples or batches."""
        return dataclasses.replace(self, samples=samples, batches=batches)

    def order(self, data: Data, seed: Seed = 0, epoch: int = 0) -> Order:
        """Return the order of one epoch; what has no length is drawn to its end to know it."""
        passing = iter(self.rows)
        length = _length_of(self.rows)
        is_limited = length is None and (self.samples is not None or self.batches is not None)
        if epoch and passing is self.rows and not is_limited:
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
        most = None if length is not None else max(ENOUGH, TIMES * data.count)
        if np.ndim(first):
            batches = _to_the_end(islice(passing, self.batches) if is_limited else passing, most)
            return _in_batches(batches, data.count, not self.replays)
        if length is None and not is_limited:
            drawn = _to_the_end(passing, most)
            passing, length = iter(drawn), len(drawn)
        draw = _Drawn(passing, data.count, length)
        return Order(draw, length, forward=True, sure=not self.replays)


def without_views(rows: Iterable[Any]) -> Iterable[Any]:
    """Return row numbers with copies for views: as a key is, a view is read once, when it is given.

    A view that has no length, or no end, stays one.
    """
    if not is_view(rows):
        of_kinds = {type(one): one for one in rows} if type(rows) in (list, tuple) else {}
        is_plain = not any(map(is_view, of_kinds.values()))
        return rows if is_plain else [np.array(one) if is_view(one) else one for one in rows]
    if _length_of(rows) is None:
        return rows
    try:
        return np.array(rows)
    except ValueError:  # batches, of which the last is short
        return [np.array(one) for one in rows]


def _length_of(rows: Iterable[Any]) -> int | None:
    """Return how many rows an iterable has, None if it does not tell."""
    try:
        return len(rows) if isinstance(rows, Sized) else None
    except TypeError:  # a stream
        return None


def _to_the_end(passing: Iterator[Any], most: int | None) -> list[Any]:
    """Return all that an iterator gives, or raise if that seems to be without end."""
    found = list(islice(passing, most))
    if most is not None and len(found) == most:
        raise ValueError(
            f"the sampler has no length, and has not ended after {most} rows or batches; say by "
            "num_samples= or num_batches= how long an epoch is"
        )
    return found


def _in_batches(batches: list[Any], count: int, sure: bool) -> Order:
    rows = [_as_rows(batch, count) for batch in batches]
    empty = [number for number, batch in enumerate(rows) if not len(batch)]
    if empty:
        raise ValueError(f"batch {empty[0]} of the sampler has no rows; leave it out")
    ends = np.cumsum([len(batch) for batch in rows])
    numbers = np.concatenate(rows)
    return Order(numbers.__getitem__, len(numbers), Ends(ends), forward=True, sure=sure)


def _as_rows(numbers: Any, count: int) -> np.ndarray:
    rows = np.asarray(numbers)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise _no_rows(rows)
    return numbered(rows.astype(np.intp), count)


def checked_rows(rows: Iterable[Any]) -> Iterable[Any]:
    """Return row numbers that are listed, or raise if the first of them is of another kind."""
    if isinstance(rows, (Sequence, np.ndarray)) and len(rows):
        first = np.asarray(rows[0])
        if first.dtype.kind in _INSTEAD:
            raise _no_rows(np.asarray(rows))
    return rows


_INSTEAD = {
    "f": "sampler=samplers.weighted(by=weights) draws by weights",
    "b": "np.flatnonzero(mask) has the rows of a mask",
}
"""What to write for values that are no row numbers, by the kind of their dtype."""


def _no_rows(found: np.ndarray) -> TypeError:
    """Return the error about what is given for row numbers."""
    first, more = found.reshape(-1)[:4].tolist(), ", …" if found.size > 4 else ""
    got = f"{found.dtype} {found.shape}" if found.ndim > 1 else f"[{str(first)[1:-1]}{more}]"
    advice = _INSTEAD.get(found.dtype.kind, "")
    return TypeError(
        f"a sampler gives row numbers, or lists of them; got {got}" + (advice and f"; {advice}")
    )


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

    __slots__ = ("count", "count_drawn", "drawing", "kept", "length", "passing")

    def __init__(self, passing: Iterator[Any], count: int, length: int | None) -> None:
        self.passing = passing
        self.count = count
        self.length = length
        self.kept = np.empty(0, np.intp)
        self.count_drawn = 0
        self.drawing = new_lock()  # a prefetching thread draws, and a state that is saved

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Return the rows at these positions, drawing all up to the last."""
        with self.drawing:
            self._draw(int(positions.max(initial=-1)) + 1)
            found: np.ndarray = self.kept[positions]
        return found

    def _draw(self, count: int) -> None:
        """Draw rows until there are so many."""
        missing = count - self.count_drawn
        if missing <= 0:
            return
        drawn = list(islice(self.passing, missing))
        if len(drawn) < missing:
            raise ValueError(
                f"the sampler ended after {self.count_drawn + len(drawn)} rows"
                + (f", though its length is {self.length}" if self.length is not None else "")
            )
        rows = _as_rows(drawn, self.count)
        if count > len(self.kept):
            larger = np.empty(max(count, 2 * len(self.kept)), np.intp)
            larger[: self.count_drawn] = self.kept[: self.count_drawn]
            self.kept = larger
        self.kept[self.count_drawn : count] = rows
        self.count_drawn = count

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

    @property
    def replays(self) -> bool:
        """Whether an epoch begins where the one before ended: it does."""
        return True

    def order(self, data: Data, seed: Seed = 0, epoch: int = 0) -> Order:
        """Return the order of one epoch, which begins where the last one ended."""
        calls = map(_next_row, repeat(self.function))
        draw = _Drawn(takewhile(_is_row, calls), data.count, None)
        return Order(draw, None, forward=True, sure=False)


def _next_row(function: Callable[[], Any]) -> Any:
    row = function()
    if row is None or isinstance(row, (int, np.integer)):
        return row
    try:
        return operator.index(row)  # as tensors of one number have
    except TypeError:
        raise TypeError(
            "a sampler function that is called without arguments returns one row number at each "
            f"call, and None after the last; {function!r} returned {row!r}. {_FOR_A_WHOLE_ORDER}"
        ) from None


def _is_row(row: Any) -> bool:
    return row is not None


_FOR_A_WHOLE_ORDER = (
    "For a whole order give the row numbers themselves, sampler=rows, or a function of (order, "
    "position), which gets the order of the epoch before and its length, and returns the next one"
)


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
        found = self._order(self._next(np.arange(data.count), 0, data.count, 0), data.count, 0)
        while found.then is not None and epoch:
            found, epoch = found.then(), epoch - 1
        return found

    def again(self, data: Data, rows: np.ndarray, cuts: Cuts | None, epoch: int) -> Order:
        """Return an order that was saved; those of later epochs follow from it."""
        return self._order(rows, data.count, epoch)

    def _order(self, rows: np.ndarray, count: int, epoch: int) -> Order:
        then = functools.partial(self._after, rows, count, epoch)
        return Order(rows.__getitem__, len(rows), forward=True, sure=False, then=then)

    def _after(self, rows: np.ndarray, count: int, epoch: int) -> Order:
        """Return the order that follows the rows of an epoch."""
        found = self._next(rows.copy(), len(rows), count, epoch + 1)
        if len(found) != len(rows):
            raise ValueError(
                f"the order of epoch {epoch + 1} has {len(found)} rows, the one before "
                f"{len(rows)}; all epochs are as long"
            )
        return self._order(found, count, epoch + 1)

    def _next(self, rows: np.ndarray, position: int, count: int, epoch: int) -> np.ndarray:
        try:
            return _as_order(self.function(rows, position), count)
        except Exception as error:
            raise error_at(error, f"the order of epoch {epoch}") from error


def _as_order(found: Any, count: int) -> np.ndarray:
    """Return what a function of (order, position) returned as row numbers, or raise."""
    is_array = hasattr(found, "__array__")
    try:
        rows = np.asarray(found if is_array or found is None else list(found))
    except (TypeError, ValueError):  # no iterable, or lists of different lengths
        rows = np.asarray(None)
    if rows.ndim == 1 and (rows.dtype.kind in "iu" or not rows.size):
        return _as_rows(rows, count)
    advice = ""
    if found is None:
        advice = "; rng.permutation(order) returns an order, and rng.shuffle(order) None"
    elif rows.shape == (count,) and rows.dtype == bool:
        advice = "; np.flatnonzero(mask) has the rows of a mask"
    raise TypeError(
        "a sampler function of (order, position) gets the order of the epoch before, an array of "
        "row numbers, and its length, and returns the next order, row numbers in one array or "
        f"list; got {found!r}{advice}"
    )


# --- an order that is saved ----------------------------------------------------------------------

KEPT_BYTES = 1 << 20
"""Up to this size, the row numbers of an order are saved themselves."""


def saved_order(order: Order, position: int) -> dict[str, Any]:
    """Return plain data that tell an order again, or what of it was passed up to a position."""
    length = order.length
    if length is not None and length * ROW_BYTES <= KEPT_BYTES:
        cuts = order.cuts
        ends = None if cuts is None else [cuts.bounds(n)[1] for n in range(cuts.count)]
        return {"rows": order.block(0, length).tolist(), "ends": ends}
    return {"passed": _digest(order.block(0, position))}


def kept_rows(order: Order, saved: Any, position: int) -> tuple[np.ndarray, Cuts | None] | None:
    """Return the rows and cuts of an order that was saved; None if the order itself is that one.

    Raise if only a digest of it was saved, and it is another one.
    """
    if not isinstance(saved, Mapping) or not {"rows", "passed"} & saved.keys():
        raise ValueError(
            "the state does not tell which rows the sampler gave, and the sampler may give others "
            "now; begin the epoch again, or use one of dv.samplers"
        )
    if "passed" in saved:
        if _digest(order.block(0, position)) != saved["passed"]:
            raise ValueError(
                f"the sampler gives other rows than the {position} that the state has passed, so "
                "samples would be repeated: it depends on more than its arguments, as on "
                "numpy.random, and its order is endless, or too long to be kept in the state (more "
                f"than {KEPT_BYTES >> 20} MB); draw from a generator made from a fixed seed, or "
                "use one of dv.samplers"
            )
        return None
    rows, ends = np.array(saved["rows"], np.intp), saved.get("ends")
    return rows, None if ends is None else Ends(np.array(ends, np.intp))


ROW_BYTES = np.dtype(np.intp).itemsize


def _digest(rows: np.ndarray) -> str:
    return hashlib.blake2b(rows.astype("<i8").tobytes(), digest_size=16).hexdigest()
