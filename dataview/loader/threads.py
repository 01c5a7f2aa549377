"""Threads that do tasks ahead of time, and hand out the results in the order of the tasks.

The threads draw the tasks themselves, one thread at a time: so a stream is read in its order, and
while other threads work.  Each thread does its tasks itself or has a process do them.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any, Protocol

from dataview.index.locks import new_rlock
from dataview.index.progress import progress
from dataview.loader.dealing import BatchStep

_PATIENCE = 0.7
"""How many seconds threads have to end."""

_ANSWER = 0.5
"""How many seconds workers have to say where they are."""


class Worker(Protocol):
    """A worker does the tasks that its thread draws."""

    def __call__(self, task: Any) -> Any:
        """Return the result of a task."""
        ...

    def ask(self) -> None:
        """Begin to find out where the worker is."""
        ...

    def whereabouts(self, stack: str, until: float) -> str:
        """Return at which sample the worker is, and its stack; `stack` is that of its thread.

        It is called after `ask`, and returns by the time `until` of the monotonic clock.
        """
        ...

    def stop(self) -> None:
        """Begin to close, without waiting for anything."""
        ...

    def close(self) -> None:
        """Free everything, and give up a task that is not done yet."""
        ...


def timeout() -> float:
    """Return how many seconds a batch may take before its worker counts as stuck."""
    given = os.environ.get("DATAVIEW_WORKER_TIMEOUT", "300")
    try:
        return float(given)
    except ValueError:
        raise ValueError(f"DATAVIEW_WORKER_TIMEOUT is a number of seconds; got {given!r}") from None


class _End(Exception):
    """No more tasks."""


def _result_or_error(call: Callable[[Any], Any], given: Any) -> Any:
    """Return (what a call returns,), or its error, which is raised again where that is taken.

    An error knows this frame, and through it those that have called it.  None of these may go on
    knowing the error: together they would keep all that it is about, until garbage is collected.
    """
    try:
        return (call(given),)
    except StopIteration:
        return _End()
    except BaseException as error:
        return error


class Prefetcher:
    """Results of a run of tasks, in order; at most `depth` of them are ahead of the last taken."""

    def __init__(self, make: Callable[[], Worker], count: int, depth: int) -> None:
        self.depth = depth
        self._workers: dict[threading.Thread, Worker] = {}
        self._make = make
        self._count = count
        self._drawing = False
        self._changed = threading.Condition(new_rlock())
        self._items: Iterator[BatchStep] | None = None
        self._run = 0
        self._closed = False
        self._forget()

    def _forget(self) -> None:
        self._given = self._taken = 0
        self._drawn: dict[int, BatchStep] = {}
        self._results: dict[int, Any] = {}

    @property
    def running(self) -> bool:
        """Whether there is a run of tasks."""
        return self._items is not None

    def start(self, items: Iterator[BatchStep]) -> None:
        """Begin a run of tasks."""
        while len(self._workers) < self._count:
            worker = self._make()
            context = copy_context()  # errstate, engine and executor of the caller
            thread = threading.Thread(
                target=context.run, args=(self._work, worker), name="dataview-loader", daemon=True
            )
            thread.start()
            self._workers[thread] = worker
        with self._changed:
            self._items = items
            self._changed.notify_all()

    def stop(self) -> None:
        """End the run; results that were not taken are lost."""
        with self._changed:
            self._items = None
            self._run += 1
            self._changed.wait_for(lambda: not self._drawing)
            self._forget()

    def take(self) -> tuple[BatchStep, Any]:
        """Return the next task and its result, or raise its error; StopIteration at the end."""
        number = self._taken
        with self._changed:
            if not self._changed.wait_for(lambda: self._has(number), timeout()):
                raise TimeoutError(self._stuck())
            if self._closed:
                raise ValueError("the loader was closed by another thread")
            found = self._results.pop(number)
            if isinstance(found, _End):
                raise StopIteration
            if isinstance(found, BaseException):
                try:
                    raise found
                finally:
                    del found  # see `_result_or_error`
            self._taken += 1
            self._changed.notify_all()
            return self._drawn.pop(number), found[0]

    def _has(self, number: int) -> bool:
        return self._closed or number in self._results

    def close(self) -> None:
        """End the run, all workers and their threads; a stuck thread may never end."""
        until = time.monotonic() + _PATIENCE
        with self._changed:
            self._closed = True
            self._items = None
            self._run += 1
            self._changed.notify_all()
        for worker in self._workers.values():
            worker.stop()
        for worker in self._workers.values():
            worker.close()
        for thread in self._workers:
            if thread is not threading.current_thread():
                thread.join(timeout=max(0, until - time.monotonic()))
        self._workers = {}
        self._forget()

    # --- in the threads ------------------------------------------------------------------------

    @progress(False)  # the loop over the batches may have a bar
    def _work(self, worker: Worker) -> None:
        while (drawn := self._draw()) is not None:
            self._do(worker, *drawn)
            del drawn  # see `_result_or_error`

    def _do(self, worker: Worker, run: int, number: int, found: Any) -> None:
        """Do a task, or hand on the error of drawing it."""
        if not isinstance(found, BaseException):
            found = _result_or_error(worker, found.task)
        with self._changed:
            if run == self._run:
                self._results[number] = found
                self._changed.notify_all()
        del found

    def _may_draw(self) -> bool:
        is_wanted = self._items is not None and self._given - self._taken < self.depth
        return self._closed or (is_wanted and not self._drawing)

    def _draw(self) -> tuple[int, int, Any] | None:
        """Wait until a task is wanted, and draw it; None when all is closed."""
        with self._changed:
            self._changed.wait_for(self._may_draw)
            if self._closed:
                return None
            items, run, number = self._items, self._run, self._given
            self._given += 1
            self._drawing = True
        assert items is not None
        item = _result_or_error(next, items)
        try:
            with self._changed:
                self._drawing = False
                self._changed.notify_all()
                if isinstance(item, BaseException):
                    self._given = sys.maxsize if run == self._run else self._given  # no more
                    return run, number, item
                self._drawn[number] = item[0]
                return run, number, item[0]
        finally:
            del item

    # --- a worker that is stuck -----------------------------------------------------------------

    def _stuck(self) -> str:
        until = time.monotonic() + _ANSWER
        for worker in self._workers.values():
            worker.ask()
        frames = sys._current_frames()
        stacks = []
        for thread, worker in self._workers.items():
            frame = frames.get(thread.ident or 0)
            import traceback  # needed for failures alone

            stack = "".join(traceback.format_stack(frame)[-8:]) if frame else ""
            stacks.append(worker.whereabouts(stack, until))
        return (
            f"a batch has not come for {timeout():g} seconds (DATAVIEW_WORKER_TIMEOUT sets how "
            "long to wait); the workers are at:\n" + "\n".join(stacks)
        )
