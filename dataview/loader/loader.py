"""Batches handed out epoch after epoch: can be stopped, saved and resumed at any of them."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from dataview.errors import StreamError
from dataview.loader.assembly import Assembly, Failure, Outcome
from dataview.loader.dealing import Cursor, Step, Task, joined, steps
from dataview.loader.plan import LoaderPlan
from dataview.loader.processes import Parcel, Remote
from dataview.loader.state import State, restored
from dataview.loader.stream_dealing import StreamDealer
from dataview.loader.threads import Ahead, Worker


class Loader:
    """An iterator over the batches of a view, epoch after epoch; `View._loader` makes it.

    `for` goes on with an interrupted epoch, and begins the next one when the last is exhausted.
    `rows`, `places` and `valid` tell which rows the last batch has, at which positions of their
    epoch, and which of them are no padding (None: all).  `errors` lists the samples that failed.
    """

    def __init__(self, plan: LoaderPlan) -> None:
        self._plan = plan
        self._dealer = plan.dealer
        self._state = State()
        self._ended = False
        self._closed = False
        self._steps: Iterator[Step] | None = None
        self._ahead: Ahead[Step] | None = None
        self._free: Callable[[], Any] | None = None
        self._bar: Any = None
        self._task: Task | None = None
        self.errors: list[Failure] = []

    # --- handing out ---------------------------------------------------------------------------

    def __iter__(self) -> Loader:
        self._ended = False
        return self

    def __next__(self) -> Any:
        if self._closed:
            raise ValueError("the loader is closed")
        if self._ended:
            raise StopIteration
        try:
            step, outcome = self._whole()
            item = self._plan.output(outcome.batch, step.task.valid)
        except StopIteration:
            self._go_to(Cursor(self._state.cursor.epoch + 1))
            self._state.is_new_epoch = True
            raise
        except BaseException as error:
            self._halt()
            if isinstance(error, TimeoutError):  # whoever is stuck is of no use any more
                self._dismiss()
            raise
        self._note(step, outcome)
        return item

    def _whole(self) -> tuple[Step, Outcome]:
        """Return the next batch, and go over what is too short to be one."""
        while True:
            if self._steps is not None:
                step = next(self._steps)
                outcome = self._plan.assembly(step.task)
            else:
                step, outcome = self._begun()
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
                raise self._barren()
            self._state.cursor = step.after

    def _begun(self) -> tuple[Step, Outcome]:
        """Return the first batch after a halt, or the next one of those that are made ahead."""
        options = self._plan.options
        if options.workers or options.prefetch:
            ahead = self._ahead or self._started()
            if not ahead.running:
                ahead.start(steps(self._dealer, self._state.cursor, options.repeat))
            return ahead.take()
        self._steps = steps(self._dealer, self._state.cursor, options.repeat)
        step = next(self._steps)
        return step, self._plan.assembly(step.task)

    def _started(self) -> Ahead[Step]:
        """Make the threads, and what they have their tasks done by."""
        options, assembly = self._plan.options, self._plan.assembly
        parcel: Parcel | None = None
        if options.workers and options.kind == "process":
            parcel = Parcel(assembly)
        depth = options.workers + options.prefetch
        self._ahead = Ahead(_workers(assembly, parcel), options.workers or 1, depth)
        self._free = weakref.finalize(self, _freed, self._ahead, parcel)
        return self._ahead

    def _filled(self, step: Step, outcome: Outcome) -> tuple[Step, Outcome, int]:
        """Return a batch in which samples drawn on from the order replace those that failed.

        With it, how many are still lacking because the epoch is over.
        """
        lacking, barren = outcome.missing, 0
        while lacking:
            more = self._dealer.step(step.reached, lacking)
            if more is None:
                return step._replace(after=Cursor(step.reached.epoch + 1)), outcome, lacking
            kept = range(len(step.task.rows)) if outcome.kept is None else outcome.kept
            known = {(failure.epoch, failure.place) for failure in outcome.failures}
            step = Step(joined([step.task.part(kept), more.task]), more.after, more.reached)
            outcome = self._plan.assembly(step.task)
            self._count([f for f in outcome.failures if (f.epoch, f.place) not in known])
            had = len(more.task.rows) - outcome.missing
            lacking -= had
            barren = 0 if had else barren + len(more.task.rows) * self._dealer.dealing.ranks
            if barren >= (self._dealer.total(step.reached.epoch) or math.inf):
                raise self._barren()
        if step.after == step.reached and self._dealer.batches(step.after) == 0:
            step = step._replace(after=Cursor(step.reached.epoch + 1))
        return step, outcome, 0

    def _barren(self) -> RuntimeError:
        last = self.errors[-1]
        error = RuntimeError(
            f"the samples of a whole epoch make no batch, {self._state.failed} have failed; the "
            f"last is sample {last.row}: {last.error}"
        )
        error.__cause__ = last.error
        return error

    def _count(self, failures: Iterable[Failure]) -> None:
        """Note the samples that failed; too many of them are an error."""
        found = list(failures)
        self.errors += found
        self._state.failed = failed = self._state.failed + len(found)
        most = self._plan.options.max_errors
        if most is not None and failed > most:
            last = self.errors[-1]
            raise RuntimeError(
                f"{failed} samples have failed, more than max_errors={most}; the last is "
                f"sample {last.row}: {last.error}"
            ) from last.error

    def _note(self, step: Step, outcome: Outcome) -> None:
        """Note what has been handed out, and where that leaves the epochs."""
        task = step.task if outcome.kept is None else step.task.part(outcome.kept)
        state = self._state
        state.handed = 1 if state.is_new_epoch else state.handed + 1
        state.emitted = (0 if state.is_new_epoch else state.emitted) + len(task.rows)
        state.previous = state.cursor
        state.is_new_epoch = step.after.epoch > state.cursor.epoch
        self._task = task
        self._dealer.passed(step.after)
        if self._plan.options.progress:
            self._show()
        if state.is_new_epoch:
            self._go_to(step.after)
        else:
            state.cursor = step.after

    def _go_to(self, cursor: Cursor) -> None:
        """Begin another epoch; without `repeat`, only after the one that is over has been told."""
        self._state.cursor = cursor
        if not self._plan.options.repeat:
            self._halt()
            self._ended = True
        self._put_bar_away()

    def _halt(self) -> None:
        """Stop what goes on ahead; the next batch begins anew at the cursor."""
        self._steps = None
        if self._ahead is not None and self._ahead.running:
            self._ahead.stop()

    def _dismiss(self) -> None:
        """End the workers; the next batch has new ones."""
        if self._free is not None:
            self._free()
        self._ahead = self._free = None

    def _put_bar_away(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _show(self) -> None:
        """Have a progress bar go on by one."""
        if self._bar is None:
            make = self._plan.options.progress
            make = _progress_bar() if make is True else make
            total = None if self._plan.options.straddle else self._known_batches()
            total = None if total == math.inf else total
            self._bar = make(total=total, initial=self._state.handed - 1, unit="batch")
        self._bar.update(1)

    # --- being asked ---------------------------------------------------------------------------

    @property
    def batch_size(self) -> int:
        """The number of samples of a batch."""
        return self._dealer.dealing.batch_size

    @property
    def is_new_epoch(self) -> bool:
        """Whether the last batch, or the end of the loop, has ended an epoch."""
        return self._state.is_new_epoch

    @property
    def epoch(self) -> int:
        """The number of epochs that are over."""
        return self._state.cursor.epoch

    @property
    def position(self) -> int:
        """How many samples of the epoch's order have been passed, by all ranks together."""
        return self._state.cursor.position

    @property
    def epoch_detail(self) -> float | None:
        """The epochs that are over and the part of this one; None inside one of unknown length."""
        return self._detail(self._state.cursor)

    @property
    def previous_epoch_detail(self) -> float | None:
        """What `epoch_detail` was before the last batch; None before the first one."""
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
        """The positions of the samples in the last batch in the order of their epoch."""
        return np.asarray(self._last.places)

    @property
    def valid(self) -> np.ndarray | None:
        """Which samples of the last batch are no padding; None if none is."""
        return self._last.valid

    @property
    def _last(self) -> Task:
        if self._task is None:
            raise ValueError("no batch has been handed out yet")
        return self._task

    def num_batches(self) -> float:
        """Return the number of batches of an epoch.

        Of a stream it is a lower bound that grows until the end is reached, and then exact.
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
        known = self._known_batches()
        of = "" if known is None else f" of {known}"
        failed = f", {self._state.failed} samples failed" if self._state.failed else ""
        where = "closed" if self._closed else f"epoch {self.epoch}, position {self.position}"
        return f"Loader({where}; {self._state.handed} batches{of} handed out{failed})"

    # --- being stopped and resumed -------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return where the loader is, as small plain data: after the last batch handed out."""
        return self._state.saved(self._plan.fingerprint)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to where a state was taken: of a loader of the same data, sampler and seed.

        Batch size, workers, prefetching and shards may differ.
        """
        found = restored(state, self._plan.fingerprint, self._dealer.total)
        self.reset()
        self._state = found

    def __reduce__(self) -> Any:
        raise TypeError("a loader has workers and a place in its epochs; pickle its state_dict()")

    def reset(self) -> None:
        """Go back to the start of the current epoch."""
        self._halt()
        self._put_bar_away()
        self._state = State(Cursor(self._state.cursor.epoch), failed=self._state.failed)
        self._task = None
        self._ended = False

    def close(self) -> None:
        """End the workers and free what they hold; no more batches are handed out."""
        self._closed = True
        self._steps = None
        self._dismiss()
        self._put_bar_away()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


class _Here:
    """Tasks done in the thread itself."""

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly
        self.value = -1

    def __call__(self, task: Task) -> Outcome:
        """Return the batch of a task."""
        return self.assembly(task, self)

    def whereabouts(self, stack: str) -> str:
        """Return which sample is being made, and where."""
        return f"a thread, sample {self.value}:\n{stack}"

    def close(self) -> None:
        """Do nothing: a thread ends after its task."""


def _workers(assembly: Assembly, parcel: Parcel | None) -> Callable[[], Worker]:
    if parcel is None:
        return lambda: _Here(assembly)
    return lambda: Remote(parcel)


def _freed(ahead: Ahead[Step], parcel: Parcel | None) -> None:
    ahead.close()
    if parcel is not None:
        parcel.close()


def _progress_bar() -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError('progress=True needs tqdm: pip install "dataview[progress]"') from error
    return tqdm
