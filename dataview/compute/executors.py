"""Where blocks run: a pool of this machine's threads, or any executor that is chosen."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any

from dataview.index.interrupts import held_interrupt
from dataview.index.locks import new_lock, new_rlock
from dataview.index.progress import Task, begin, progress
from dataview.index.settings import Setting

if TYPE_CHECKING:
    from concurrent.futures import Executor, ThreadPoolExecutor


CHUNKS_OF_A_WORKER = 4
"""How many chunks of items each process gets: enough for all to end at about the same time."""

_chosen: ContextVar[Executor | None] = ContextVar("executor", default=None)
_default: ThreadPoolExecutor | None = None
_lock = new_lock()
_inside = threading.local()


def executor(pool: Executor) -> Setting[Executor | None]:
    """Run the blocks of every evaluation in a ``with`` block on another executor.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(1) as pool, executor(pool) as chosen:
    ...     chosen is pool
    True
    """
    from concurrent.futures import Executor

    if not isinstance(pool, Executor):
        raise TypeError(
            "an executor is a concurrent.futures.Executor, such as ThreadPoolExecutor(4); got "
            f"{pool!r}"
        )
    return Setting(_chosen, pool, "dv.executor(pool)")


def usable_cpus() -> int:
    """Return how many processors this process may use, by its affinity and its group's quota."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as limits:
            quota, period = limits.read().split()
        if quota != "max":
            count = min(count, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):  # no such group on this system
        return count
    return max(1, count)


def shares_memory() -> bool:
    """Whether blocks run where they can write into an array of this process."""
    pool = _chosen.get()
    if pool is None:
        return True
    from concurrent.futures import ThreadPoolExecutor

    return isinstance(pool, ThreadPoolExecutor) or is_inside()


def is_inside() -> bool:
    """Whether the caller is a block of an evaluation: whatever it evaluates runs in its thread."""
    return getattr(_inside, "depth", 0) > 0


def _pool() -> tuple[Executor, int]:
    """Return the pool for this context and how many of its workers to keep busy."""
    global _default
    # Imported when first used: it brings logging along, which costs as much as all of this package.
    from concurrent.futures import ThreadPoolExecutor

    chosen, cpus = _chosen.get(), usable_cpus()
    if chosen is not None:
        return chosen, getattr(chosen, "_max_workers", None) or cpus
    with _lock:
        if _default is None:
            _default = ThreadPoolExecutor(cpus, thread_name_prefix="dataview")
        return _default, cpus


def _begin_anew() -> None:
    """Forget the parent's threads, which a fork does not copy."""
    global _default
    _default = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def run_blocks(
    work: Callable[[Any], Any],
    items: list[Any],
    portable: bool = False,
    what: str = "computing",
) -> list[Any]:
    """Return `work(item)` for each item, in order; of several errors the first item's rises.

    An evaluation that begins inside a block runs in the block's own thread.  If the executor is one
    of processes, work that is not `portable` runs in the caller's thread.
    """
    if len(items) < 2 or is_inside():
        return [work(item) for item in items]
    with begin(what, len(items)) as task:
        return _results(work, items, portable, task)


def run_in_windows(
    work: Callable[[Any], Any], items: list[Any], window: int, what: str, is_alone: bool = False
) -> Iterator[Any]:
    """Yield `work(item)` for each item, in order, of which so many wait for the caller at most.

    If the caller works alone, none waits: at work that holds Python's lock, threads take turns.
    """
    with contextlib.closing(begin(what, len(items))) as task:
        if is_alone:
            yield from (_done(work, item, task) for item in items)
            return
        for start in range(0, len(items), window):
            yield from _results(work, items[start : start + window], False, task)


def _results(work: Callable[[Any], Any], items: list[Any], portable: bool, task: Task) -> list[Any]:
    """Return `work(item)` for each item of a task."""
    if len(items) < 2 or is_inside():
        return [_done(work, item, task) for item in items]
    try:
        from concurrent.futures import ThreadPoolExecutor

        pool, workers = _pool()
    except RuntimeError:  # the interpreter is ending and starts no more threads
        return [_done(work, item, task) for item in items]
    if not isinstance(pool, ThreadPoolExecutor):
        if not portable or not _can_be_pickled(work):
            return [_done(work, item, task) for item in items]
        # The work travels with each chunk, and with it the data that it reads from memory.
        chunk = max(1, len(items) // (CHUNKS_OF_A_WORKER * workers))
        found = pool.map(functools.partial(_as_block, work), items, chunksize=chunk)
        return [_done(lambda one: one, one, task) for one in found]
    run = _Work(work, items, task)
    # The workers see what the caller has set for its context: errstate, and an engine.  The caller
    # works in a copy too: Ctrl-C may come while NumPy sets errstate back, which then stays changed.
    contexts = [copy_context() for _ in range(min(workers, len(items)) - 1)]
    try:
        for context in contexts:
            _submit(pool, context, run)
        copy_context().run(run.drain)
        run.wait()
        task.finish()
    except BaseException as error:  # Ctrl-C, or a pool that was shut down
        run.stop(error)
    return run.result()


def _done(work: Callable[[Any], Any], item: Any, task: Task) -> Any:
    found = work(item)
    task.advance()
    return found


def _submit(pool: Executor, context: Context, run: _Work) -> None:
    """Let a thread of a pool work, too.

    Ctrl-C waits: the pool may be about to start a thread, which it would know nothing of, and for
    which the interpreter would wait without end.
    """
    try:
        with held_interrupt():
            pool.submit(context.run, run.drain)
    except RuntimeError:
        if _chosen.get() is not None:
            raise
        # The default pool is shut down when the interpreter ends: the caller works alone.


class _Work:
    """Items that several threads work on, each taking the next one, until one of them fails.

    `wait` returns when no thread works any more: an undo may run only when nothing else does.
    """

    def __init__(self, work: Callable[[Any], Any], items: list[Any], task: Task) -> None:
        self.work = work
        self.task = task
        self.items = items
        self.results: list[Any] = [None] * len(items)
        self.failures: dict[int, BaseException] = {}
        self.numbers = iter(range(len(items)))
        self.busy: dict[int, int] = {}
        self.turn = threading.Condition(new_rlock())

    def drain(self) -> None:
        """Work on items until there are no more."""
        own, depth = threading.get_ident(), getattr(_inside, "depth", 0)
        try:
            _inside.depth = depth + 1
            with progress(False):  # of what a block does
                while (number := self._next(own)) is not None:
                    try:
                        self.results[number] = _done(self.work, self.items[number], self.task)
                    except BaseException as error:  # raised again, in the caller's thread
                        self.failures[number] = error
        finally:
            _inside.depth = depth
            self._leave(own)

    def _next(self, own: int) -> int | None:
        with self.turn:
            number = None if self.failures else next(self.numbers, None)
            if number is not None:
                self.busy[own] = number
            return number

    def _leave(self, own: int) -> None:
        with self.turn:
            self.busy.pop(own, None)
            self.turn.notify_all()

    def wait(self) -> None:
        """Wait until no thread is at any item."""
        with self.turn:
            while self.busy:
                self.turn.wait()

    def stop(self, error: BaseException) -> None:
        """Let no thread begin another item, and wait until none works any more."""
        while True:
            try:
                self.failures[len(self.items)] = error
                self._leave(threading.get_ident())
                self.wait()
                return
            except KeyboardInterrupt as again:  # however often
                error = again

    def result(self) -> list[Any]:
        """Return the results, or raise the failure of the first item that failed."""
        if self.failures:
            failure = self.failures[min(self.failures)]
            # A thread that comes late sees that there were failures.  An error knows this frame,
            # which would keep what the error is about.
            self.failures = dict.fromkeys(self.failures, _RAISED)
            try:
                raise failure
            finally:
                del failure
        return self.results


_RAISED = RuntimeError("this failure was raised")
"""Stands where there was an error."""


def _can_be_pickled(work: Callable[[Any], Any]) -> bool:
    """Whether work can be pickled for another process: a lambda cannot."""
    try:
        pickle.dumps(work)
    except (AttributeError, TypeError, pickle.PicklingError):
        return False
    return True


def _as_block(work: Callable[[Any], Any], item: Any) -> Any:
    """Do work in another process as a block: whatever it evaluates runs in its thread."""
    _inside.depth = getattr(_inside, "depth", 0) + 1
    try:
        with progress(False):
            return work(item)
    finally:
        _inside.depth -= 1
