"""Which samples make which batch: positions of an order, dealt to batches and to ranks.

A cursor counts the samples of an epoch's order that all ranks together have passed, so that it
means the same whatever the batch size and the number of ranks.  A step of all ranks takes the next
`batch_size * ranks` positions, and each rank every `ranks`-th of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dataview.batches import Dealing
from dataview.index import as_array
from dataview.index.locks import new_lock
from dataview.samplers import (
    Cuts,
    Order,
    batches_of_epoch,
    kept_rows,
    samples_of_epoch,
    saved_order,
)


class Cursor(NamedTuple):
    """A place in the epochs: the epoch, and how many of its samples all ranks together have had."""

    epoch: int = 0
    position: int = 0


class Task(NamedTuple):
    """The samples of one batch: their row numbers and their positions in the epoch.

    `places` may be a range.  `epochs` is the epoch of all samples, or of each.  `valid` is true for
    real samples and false for padding; None if all are real.  `others` are the rows of fields with
    a sampler of their own.  A stream has no rows to read, so its task holds the samples themselves.
    """

    rows: np.ndarray
    places: Any
    epochs: Any = 0
    valid: np.ndarray | None = None
    others: Mapping[str, np.ndarray] | None = None
    samples: list[Any] | None = None

    def each_epoch(self) -> np.ndarray:
        """Return the epoch of each sample."""
        if isinstance(self.epochs, int):
            return np.full(len(self.rows), self.epochs)
        return np.asarray(self.epochs)

    def one_epoch(self) -> int | None:
        """Return the epoch that all samples are of, None if they are of several."""
        if type(self.epochs) is int:
            return self.epochs
        found: list[int] = np.unique(self.epochs).tolist() or [0]
        return found[0] if len(found) == 1 else None

    def part(self, numbers: Sequence[int]) -> Task:
        """Return the task of some of the samples."""
        chosen = list(numbers)
        others = {name: rows[chosen] for name, rows in (self.others or {}).items()}
        return Task(
            self.rows[chosen],
            as_array(self.places)[chosen],
            self.each_epoch()[chosen],
            None if self.valid is None else self.valid[chosen],
            others or None,
            None if self.samples is None else [self.samples[number] for number in chosen],
        )


class BatchStep(NamedTuple):
    """One batch of this rank, and the cursor after it.

    `reached` is where the batch ends in its epoch, even if `after` is the start of the next epoch.
    """

    task: Task
    after: Cursor
    reached: Cursor


class _Orders(NamedTuple):
    """The orders of one epoch: of the driver, and of fields that have a sampler of their own."""

    driver: Order
    total: int
    others: Mapping[str, Order]

    @property
    def named(self) -> dict[str, Order]:
        """The orders by the field that they are for; that of the driver has no name."""
        return {"": self.driver, **self.others}


OrdersOf: TypeAlias = (
    "Callable[[int, Mapping[str, Order], Mapping[str, Any]], tuple[Order, Mapping[str, Order]]]"
)
"""Makes the orders of an epoch; gets those of the one before, and orders or rows that are given."""

NOTHING: Mapping[str, Any] = MappingProxyType({})


class RowDealer:
    """The steps of one rank through the epochs: each follows from the cursor before it."""

    def __init__(
        self,
        orders: OrdersOf,
        count: int,
        dealing: Dealing,
        replays: bool = False,
    ) -> None:
        """`replays` says that an epoch may begin where the one before has ended."""
        self.orders = orders
        self.count = count
        self.dealing = dealing
        self.replays = replays
        self._known: dict[int, _Orders] = {}
        self._drawn = 0
        self._oldest = 0
        self._making = new_lock()

    def of(self, epoch: int) -> _Orders:
        """Return the orders of an epoch, made when it is first asked for."""
        return self._known.get(epoch) or self._begin(epoch)

    def release(self, cursor: Cursor) -> None:
        """Forget the orders of the epochs before a cursor, except the last one."""
        self._oldest = cursor.epoch - 1

    def close(self) -> None:
        """Do nothing: rows are asked for by their numbers, so that nothing is open."""

    def _begin(self, epoch: int) -> _Orders:
        with self._making:  # a prefetching thread and the user's thread may ask at the same time
            if epoch in self._known:
                return self._known[epoch]
            self._draw_before(epoch)
            found = self._make_orders(epoch)
            kept = {n: known for n, known in self._known.items() if n >= self._oldest}
            self._known = {**kept, epoch: found}
            return found

    def _draw_before(self, epoch: int) -> None:
        """Draw the rows of the epochs before one that may go on where they end."""
        for number in range(self._drawn, epoch) if self.replays else ():
            earlier = self._known.get(number) or self._make_orders(number)
            for order in earlier.named.values():
                if order.forward:
                    order.block(0, earlier.total)
        self._drawn = max(self._drawn, epoch)

    def _make_orders(self, epoch: int, given: Mapping[str, Any] = NOTHING) -> _Orders:
        """Return the orders of an epoch; those that are given are not made."""
        before = self._known.get(epoch - 1)
        driver, others = self.orders(epoch, {} if before is None else before.named, given)
        limits = self.dealing.num_samples, self.dealing.num_batches
        if driver.cuts is None:
            total = samples_of_epoch(driver, self.count, self.dealing.group, *limits)
        elif driver.length is not None and limits == (None, None):
            total = driver.length  # without asking for the cuts, which may have to be found
        else:
            batches = batches_of_epoch(driver.cuts, *limits)
            total = driver.cuts.bounds(batches - 1)[1] if batches else 0
        for name, order in others.items():
            if order.length is not None and order.length not in (driver.length, total):
                raise ValueError(
                    f"the sampler of field {name!r} gives {order.length} samples, the first one, "
                    f"which drives the epochs, {total}; give an endless one, or one as long"
                )
        return _Orders(driver, total, others)

    # --- orders that a user's function or iterable gives -----------------------------------------

    def saved_orders(self, cursor: Cursor) -> dict[str, Any]:
        """Return what tells the orders of an epoch that is not over, if they are not sure."""
        if not cursor.position:
            return {}
        orders = self.of(cursor.epoch).named.items()
        return {
            name: saved_order(order, cursor.position) for name, order in orders if not order.sure
        }

    def go_on(self, cursor: Cursor, kept: Mapping[str, Any]) -> None:
        """Take the orders of an epoch that were saved, or raise if they are not known any more."""
        if not cursor.position:
            return
        with self._making:
            self._draw_before(cursor.epoch)
            found = self._known.get(cursor.epoch) or self._make_orders(cursor.epoch)
            given: dict[str, Any] = dict(found.named)
            for name, order in found.named.items():
                rows = None if order.sure else kept_rows(order, kept.get(name), cursor.position)
                given[name] = order if rows is None else rows
            self._known = {cursor.epoch: self._make_orders(cursor.epoch, given)}

    def is_counted(self, epoch: int) -> bool:
        """Whether the number of batches is known without reading data."""
        return getattr(self.of(epoch).driver.cuts, "is_counted", True)

    def total(self, epoch: int) -> int:
        """Return the number of samples of an epoch, over all ranks."""
        return self.of(epoch).total

    def batches(self, cursor: Cursor) -> int:
        """Return how many batches this rank has in an epoch, from a cursor on."""
        found = self.of(cursor.epoch)
        if cursor.position >= found.total:
            return 0
        if found.driver.cuts is None:
            return self.dealing.batches(cursor.position, found.total)
        first, last = _numbers(found.driver.cuts, cursor.position, found.total)
        return self.dealing.groups(last - first)

    def step(self, cursor: Cursor, batch_size: int | None = None) -> BatchStep | None:
        """Return this rank's next batch, None if the epoch has no more for it.

        With `batch_size` it has that size, to replace samples that have failed.
        """
        epoch, position = cursor
        deal = self.dealing
        if batch_size is not None:
            deal = Dealing(batch_size, "short", deal.straddle, deal.rank, deal.ranks, deal.even)
        found = self.of(epoch)
        if found.driver.cuts is not None:
            return self._sampler_batch(cursor, found)
        if deal.straddle:
            return self._straddling_batch(cursor, deal)
        rank, ranks = deal.rank, deal.ranks
        end = deal.end(position, found.total)
        stop = min(position + deal.batch_size * ranks, end)
        if position + rank >= stop:
            return None
        task = _task(found, epoch, position, stop, rank, ranks)
        reached = Cursor(epoch, stop)
        return BatchStep(task, Cursor(epoch + 1) if stop + rank >= end else reached, reached)

    def _straddling_batch(self, cursor: Cursor, deal: Dealing) -> BatchStep:
        """Return a whole batch, which ends in a later epoch if this one has too few samples."""
        epoch, position = cursor
        missing = deal.group
        tasks: list[Task] = []
        while missing:
            found = self.of(epoch)
            if not found.total:
                raise ValueError("an epoch has no samples, so it cannot be repeated")
            stop = min(position + missing, found.total)
            is_all = not tasks and stop == position + missing
            tasks.append(_task(found, epoch, position, stop, *deal.share if is_all else ()))
            missing -= stop - position
            epoch, position = (epoch, stop) if stop < found.total else (epoch + 1, 0)
        after = Cursor(epoch, position)
        task = tasks[0] if len(tasks) == 1 else joined(tasks, *deal.share)
        return BatchStep(task, after, after)

    def _sampler_batch(self, cursor: Cursor, found: _Orders) -> BatchStep | None:
        """Return the next batch that the sampler has cut for this rank."""
        cuts, deal = found.driver.cuts, self.dealing
        assert cuts is not None
        if cursor.position >= found.total:
            return None
        first, last = _numbers(cuts, cursor.position, found.total)
        if not deal.groups(last - first):
            return None
        number = first + deal.rank
        start, stop = cuts.bounds(number % last)
        task = _task(found, cursor.epoch, start, stop)
        if number >= last:
            task = task._replace(valid=np.zeros(stop - start, bool))
        reached = Cursor(cursor.epoch, cuts.bounds(min(first + deal.ranks, last) - 1)[1])
        over = not deal.groups(last - first - deal.ranks)
        return BatchStep(task, Cursor(cursor.epoch + 1) if over else reached, reached)


def _numbers(cuts: Cuts, position: int, total: int) -> tuple[int, int]:
    """Return the number of the batch at a position, and one more than that of the last batch."""
    return cuts.number(position), cuts.number(total - 1) + 1


def _task(found: _Orders, epoch: int, start: int, stop: int, rank: int = 0, ranks: int = 1) -> Task:
    """Return the samples at every `ranks`-th position; past the end the epoch begins again."""
    order, total, others = found
    places = range(start + rank, stop, ranks)
    if stop <= total and not others:
        rows = order.block(start, stop)
        return Task(rows if ranks == 1 else rows[rank::ranks], places, epoch)
    more = {name: _rows(other, start, stop, total, rank, ranks) for name, other in others.items()}
    rows = _rows(order, start, stop, total, rank, ranks)
    if stop <= total:
        return Task(rows, places, epoch, None, more or None)
    passed = as_array(places)
    valid = None if passed[-1] < total else passed < total
    return Task(rows, passed % total, epoch, valid, more or None)


def _rows(order: Order, start: int, stop: int, total: int, rank: int, ranks: int) -> np.ndarray:
    rows = order.block(start, min(stop, total))
    if stop > total:
        again = order.block(0, min(stop - total, total))
        again = again if stop - total <= total else np.resize(again, stop - total)
        rows = np.concatenate([rows, again])
    return rows if ranks == 1 else rows[rank::ranks]


def joined(tasks: Sequence[Task], rank: int = 0, ranks: int = 1) -> Task:
    """Return several tasks as one, or a rank's part of it."""
    others = {
        name: np.concatenate([task.others[name] for task in tasks if task.others])[rank::ranks]
        for name in tasks[0].others or {}
    }
    parts = [(task.rows, as_array(task.places), task.each_epoch()) for task in tasks]
    columns = zip(*parts, strict=True)
    rows, places, epochs = (np.concatenate(parts)[rank::ranks] for parts in columns)
    samples = None
    if tasks[0].samples is not None:
        samples = [sample for task in tasks for sample in task.samples or ()][rank::ranks]
    return Task(rows, places, epochs, None, others or None, samples)


def steps(
    step_at: Callable[[Cursor], BatchStep | None], cursor: Cursor, repeat: bool
) -> Iterator[BatchStep]:
    """Return the steps from a cursor to the end of its epoch, or without end.

    `step_at` returns the batch at a cursor, None at the end of an epoch.
    """
    while True:
        step = step_at(cursor)
        if step is not None:
            yield step
        if not repeat and (step is None or step.after.epoch > cursor.epoch):
            return
        if step is None and not cursor.position:
            raise ValueError("an epoch has no batches, so it cannot be repeated")
        cursor = Cursor(cursor.epoch + 1) if step is None else step.after
