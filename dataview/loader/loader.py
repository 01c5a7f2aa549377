"""The iterator over batches, epoch after epoch: it can be stopped, saved and resumed anywhere."""

from __future__ import annotations

import dataclasses
import math
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, Never

import numpy as np

from dataview.errors import StreamError
from dataview.index.locks import new_rlock
from dataview.index.progress import maker_of_bars
from dataview.loader.assembly import Assembly
from dataview.loader.dealing import BatchStep, Cursor, Task, joined, steps
from dataview.loader.options import SET_BY_ITSELF, LoaderOptions, unknown_attribute
from dataview.loader.outcome import Failure, Outcome
from dataview.loader.plan import LoaderPlan
from dataview.loader.processes import ProcessWorker, SharedPickle
from dataview.loader.state import State, restored
from dataview.loader.stream_dealing import StreamDealer
from dataview.loader.threads import Prefetcher

_NO_BATCH = "the samples of a whole epoch make no batch, {} have failed"


class Loader:
    """An iterator over the batches of a view, epoch after epoch; `View._loader` makes it.

    A `for` loop continues an epoch that was interrupted, and otherwise begins the next one.  `rows`
    are the row numbers of the last batch, and `places` their positions in the epoch.  `valid` is
    false for rows that are padding, or None if no row is.  `errors` lists the samples that failed.
    """

    __slots__ = (
        "__weakref__",
        "_bar",
        "_closed",
        "_dealer",
        "_ended",
        "_free",
        "_owner",
        "_plan",
        "_prefetcher",
        "_state",
        "_steps",
        "_turn",
        "errors",
    )

    def __init__(self, plan: LoaderPlan) -> None:
        self._plan = plan
        self._dealer = plan.dealer
        self._state = State()
        self._ended = False
        self._closed = False
        self._turn = new_rlock()  # of several threads, each gets batches of its own
        self._owner = 0
        self._steps: Iterator[BatchStep] | None = None
        self._prefetcher: Prefetcher | None = None
        self._free: Callable[[], Any] | None = None
        self._bar: Any = None
        self.errors: list[Failure] = []

    # --- handing out ---------------------------------------------------------------------------

    def __iter__(self) -> Loader:
        self._ended = False
        return self

    def __next__(self) -> Any:
        with self._turn:
            return self._next()

    def _next(self) -> Any:
        self._check_open()
        if self._ended:
            raise StopIteration
        try:
            step, outcome = self._whole()
            output, rows = self._plan.output, None
            if output.delivery is not None and self._plan.options.collate is None:
                rows = outcome.rows_of(step.task)
            if outcome.gaps:
                output.warn(outcome.gaps)
            item = output(outcome.batch, step.task.valid, rows)
        except StopIteration:
            self._go_to(Cursor(self._state.cursor.epoch + 1))
            self._state.is_new_epoch = True
            raise
        except BaseException as error:
            if isinstance(error, TimeoutError):  # a worker that is stuck never works again
                self._end_workers()
            self._halt()
            raise
        self._note(step, outcome)
        return item

    def _whole(self) -> tuple[BatchStep, Outcome]:
        """Return the next batch, skipping those that failures leave too short."""
        while True:
            if self._steps is not None:
                step = next(self._steps)
                outcome = self._plan.assembly(step.task)
            else:
                step, outcome = self._first()
            if outcome.failures:
                self._count(outcome.failures)
            if not outcome.missing:
                return step, outcome
            self._halt()
            step, outcome, lacking = self._filled(step, outcome)
            if not lacking or self._plan.options.tail != "drop":
                return step, outcome
            if not self._plan.options.repeat:
                raise StopIteration
            if not self._state.cursor.position:
                raise self._failure(_NO_BATCH)
            self._state.cursor = step.after

    def _first(self) -> tuple[BatchStep, Outcome]:
        """Return the first batch after a halt, or the next one that was prefetched."""
        options = self._plan.options
        if options.workers or options.prefetch:
            prefetcher = self._own_prefetcher() or self._start_workers()
            if not prefetcher.running:
                prefetcher.start(steps(self._dealer.step, self._state.cursor, options.repeat))
            return prefetcher.take()
        self._steps = steps(self._dealer.step, self._state.cursor, options.repeat)
        step = next(self._steps)
        return step, self._plan.assembly(step.task)

    def _start_workers(self) -> Prefetcher:
        """Make the threads and their workers, which end with the loader."""
        options, assembly = self._plan.options, self._plan.assembly
        resources = ExitStack()
        make: Callable[[], Any] = partial(_ThreadWorker, assembly)
        if options.workers and options.kind == "process":
            shared = SharedPickle(assembly)
            resources.callback(shared.close)
            make = partial(ProcessWorker, shared)
        depth = options.workers + options.prefetch
        self._prefetcher = Prefetcher(make, options.workers or 1, depth)
        resources.callback(self._prefetcher.close)
        self._owner = os.getpid()
        self._free = weakref.finalize(self, _close_own, self._owner, resources.close)
        return self._prefetcher

    def _own_prefetcher(self) -> Prefetcher | None:
        """Return the prefetcher, unless its threads stayed in the process that forked this one."""
        if self._prefetcher is not None and self._owner != os.getpid():
            self._prefetcher = self._free = None
        return self._prefetcher

    def _filled(self, step: BatchStep, outcome: Outcome) -> tuple[BatchStep, Outcome, int]:
        """Return a batch in which the next samples of the order replace those that failed.

        The number beside it is how many are lacking because the epoch is over.
        """
        barren, task = 0, outcome.part_of(step.task)
        if len(task.rows) > len(outcome.samples):  # a process could not send what it has made
            step = step._replace(task=task)
            outcome = self._plan.assembly.filled((), task, outcome.missing + len(task.rows))
        while lacking := outcome.missing:
            more = self._dealer.step(step.reached, lacking)
            task = outcome.part_of(step.task)
            if more is None:
                step = BatchStep(task, Cursor(step.reached.epoch + 1), step.reached)
                if self._plan.options.tail != "drop":
                    outcome = self._plan.assembly.filled(outcome.samples, task, lacking)
                return step, outcome, lacking
            step = BatchStep(joined([task, more.task]), more.after, more.reached)
            outcome = self._plan.assembly.filled(outcome.samples, step.task, lacking)
            self._count(outcome.failures)
            dealt = len(more.task.rows) * self._dealer.dealing.ranks
            barren = barren + dealt if outcome.missing == lacking else 0
            if barren >= (self._dealer.total(step.reached.epoch) or math.inf):
                raise self._failure(_NO_BATCH)
        if step.after == step.reached and self._dealer.batches(step.after) == 0:
            step = step._replace(after=Cursor(step.reached.epoch + 1))
        return step, outcome, 0

    def _failure(self, text: str) -> RuntimeError:
        """Return an error about the samples that failed, caused by the last of them."""
        text = text.format(self._state.failed)
        if not self.errors:
            return RuntimeError(f"{text}, and the others were left out by what makes them")
        last = self.errors[-1]
        error = RuntimeError(f"{text}; the last is sample {last.row}: {last.error}")
        error.__cause__ = last.error
        return error

    def _count(self, failures: Iterable[Failure]) -> None:
        """Record the samples that failed; raise if they are too many."""
        found = list(failures)
        self.errors += found
        self._state.failed += len(found)
        most = self._plan.options.max_errors
        if most is not None and self._state.failed > most:
            raise self._failure(f"{{}} samples have failed, more than max_errors={most}")

    def _note(self, step: BatchStep, outcome: Outcome) -> None:
        """Record a batch that is handed out, and move the cursor past it."""
        task = outcome.part_of(step.task)
        state = self._state
        state.handed = 1 if state.is_new_epoch else state.handed + 1
        state.emitted = (0 if state.is_new_epoch else state.emitted) + len(task.rows)
        state.previous = state.cursor
        state.is_new_epoch = step.after.epoch > state.cursor.epoch
        state.task = task
        self._dealer.release(step.after)
        if self._plan.options.progress:
            self._advance_bar()
        if state.is_new_epoch:
            self._go_to(step.after)
        else:
            state.cursor = step.after

    def _go_to(self, cursor: Cursor) -> None:
        """Begin another epoch; without `repeat` the loop over the last one ends first."""
        self._state.cursor = cursor
        if not self._plan.options.repeat:
            self._halt()
            self._ended = True
        self._close_bar()

    def _halt(self) -> None:
        """Stop prefetching; the next batch begins anew at the cursor."""
        self._steps = None
        prefetcher = self._own_prefetcher()
        if prefetcher is not None and prefetcher.running:
            prefetcher.stop()

    def _end_workers(self) -> None:
        """End the workers; the next batch starts new ones."""
        if self._free is not None:
            self._free()
        self._prefetcher = self._free = None

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _advance_bar(self) -> None:
        """Move the progress bar on by one batch."""
        if self._bar is None:
            make = self._plan.options.progress
            make = maker_of_bars() if make is True else make
            total = None if self._plan.options.straddle else self._known_batches()
            total = None if total == math.inf else total
            self._bar = make(total=total, initial=self._state.handed - 1, unit="batch")
        self._bar.update(1)

    # --- facts ---------------------------------------------------------------------------------

    @property
    def batch_size(self) -> int:
        """The number of samples of a batch."""
        return self._dealer.dealing.batch_size

    @property
    def is_new_epoch(self) -> bool:
        """Whether an epoch ended with the last batch, or at the end of the loop."""
        return self._state.is_new_epoch

    @property
    def epoch(self) -> int:
        """The number of epochs that are over."""
        return self._state.cursor.epoch

    @property
    def position(self) -> int:
        """How many samples of the epoch all ranks together have received."""
        return self._state.cursor.position

    @property
    def epoch_detail(self) -> float | None:
        """The number of epochs, with the part of this one; None if its length is unknown."""
        return self._detail(self._state.cursor)

    @property
    def previous_epoch_detail(self) -> float | None:
        """The value of `epoch_detail` before the last batch; None before the first one."""
        previous = self._state.previous
        return None if previous is None else self._detail(previous)

    def _detail(self, cursor: Cursor) -> float | None:
        if not cursor.position:
            return float(cursor.epoch)
        total = self._dealer.total(cursor.epoch)
        return None if total is None else cursor.epoch + cursor.position / total

    @property
    def rows(self) -> np.ndarray:
        """The row numbers of the samples in the last batch."""
        return self._last.rows

    @property
    def places(self) -> np.ndarray:
        """The positions of the samples of the last batch in the order of their epoch."""
        return np.asarray(self._last.places)

    @property
    def valid(self) -> np.ndarray | None:
        """A mask of the last batch, false for samples that are padding; None if none is."""
        return self._last.valid

    @property
    def _last(self) -> Task:
        if self._state.task is None:
            raise ValueError("no batch has been handed out yet")
        return self._state.task

    def num_batches(self) -> float:
        """Return the number of batches of an epoch.

        For a stream it is a lower bound that grows until the end is reached, and exact after that.
        """
        known = self._known_batches()
        return self._state.handed + 1 if known is None else known

    def __len__(self) -> int:
        known = self._known_batches()
        if known is None or math.isinf(known):
            raise StreamError(
                "the number of batches is unknown until all has been read"
                if known is None
                else "the batches never end; num_samples= or num_batches= would end an epoch"
            )
        return int(known)

    def _known_batches(self) -> float | None:
        options, state = self._plan.options, self._state
        over = not state.cursor.position
        if self._plan.endless and options.num_samples is None and options.num_batches is None:
            return math.inf
        if options.replaces and not over:
            left = self._dealer.batches(state.cursor)
            return None if left is None else -(-state.emitted // self.batch_size) + left
        counted = options.replaces or isinstance(self._dealer, StreamDealer)
        if over and state.is_new_epoch and counted:
            return state.handed
        return self._dealer.batches(Cursor(state.cursor.epoch))

    def __repr__(self) -> str:
        known = self._known_batches() if self._dealer.is_counted(self.epoch) else None
        of = "" if known is None else f" of {known}"
        failed = f", {self._state.failed} samples failed" if self._state.failed else ""
        where = "closed" if self._closed else f"epoch {self.epoch}, position {self.position}"
        return f"Loader({where}; {self._state.handed} batches{of} handed out{failed})"

    # --- stopping and resuming -----------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the loader after the last batch, as small data that JSON can hold."""
        orders = self._dealer.saved_orders(self._state.cursor)
        return self._state.saved(self._plan.fingerprint(), orders)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` has returned.

        The state has to come from a loader of the same data, sampler and seed.  Batch size,
        workers, prefetching and shards may differ.
        """
        with self._turn:
            self._check_open()
            self._halt()
            found = restored(state, self._plan.fingerprint(), self._total_going_on)
            self.reset()
            self._state = found

    def _total_going_on(self, cursor: Cursor, orders: Mapping[str, Any]) -> int | None:
        """Return how many samples an epoch has that goes on in an order that was saved."""
        self._dealer.go_on(cursor, orders)
        return self._dealer.total(cursor.epoch)

    def __getattr__(self, name: str) -> Never:
        raise AttributeError(_unknown(name), name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            object.__setattr__(self, name, value)
        except AttributeError:
            text = SET_BY_ITSELF.format(name) if hasattr(Loader, name) else _unknown(name)
            raise AttributeError(text, name=name, obj=self) from None

    def __getitem__(self, key: object) -> Never:
        raise TypeError(
            "a loader hands out its batches in order: next(loader), or a for loop; a batch by its "
            "number is d._minibatches(batch_size)[0]"
        )

    def __reduce__(self) -> Any:
        raise TypeError("a loader has workers and a place in its epochs; pickle its state_dict()")

    def reset(self) -> None:
        """Go back to the start of the current epoch."""
        with self._turn:
            self._check_open()
            self._halt()
            self._close_bar()
            self._state = State(Cursor(self._state.cursor.epoch), failed=self._state.failed)
            self._ended = False

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(
                "the loader is closed, by close() or at the end of its with block; "
                "d._loader(...) makes another"
            )

    def close(self) -> None:
        """End the workers and free what they hold; the loader makes no more batches."""
        self._closed = True
        self._steps = None
        self._end_workers()
        self._dealer.close()
        self._close_bar()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


def _unknown(name: str) -> str:
    options = [option.name for option in dataclasses.fields(LoaderOptions)]
    return unknown_attribute(name, dir(Loader), options)


def _close_own(owner: int, close: Callable[[], Any]) -> None:
    """Free what a process holds: a fork of it, which ends first, has the same finalizers."""
    if os.getpid() == owner:
        close()


class _ThreadWorker:
    """A worker that does its tasks in the thread itself; `value` is the sample that it is at."""

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly
        self.value = -1

    def __call__(self, task: Task) -> Outcome:
        """Return the batch of a task."""
        return self.assembly(task, self)

    def ask(self) -> None:
        """Do nothing: the thread's stack is known."""

    def whereabouts(self, stack: str, until: float) -> str:
        """Return at which sample it is, and the stack of its thread."""
        return f"a thread, sample {self.value}:\n{stack}"

    def stop(self) -> None:
        """Do nothing: a thread ends after its task."""

    close = stop
