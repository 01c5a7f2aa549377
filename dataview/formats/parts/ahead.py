"""One thread that loads what is needed next while something is done with what is there.

A thread ends with what it loads: none waits for work, so none is left when views are gone.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextvars import copy_context
from typing import Any, Protocol, TypeVar

import numpy as np

from dataview.index.locks import new_lock
from dataview.index.progress import progress

_Found = TypeVar("_Found")

NAME = "dataview-parts"
"""The name of the threads."""


def begun(function: Callable[[], Any]) -> threading.Thread:
    """Call a function in a thread, with the settings of the caller."""
    context = copy_context()
    function = progress(False)(function)
    thread = threading.Thread(target=context.run, args=(function,), name=NAME, daemon=True)
    thread.start()
    return thread


def one_ahead(functions: Iterable[Callable[[], _Found]]) -> Iterator[_Found]:
    """Yield what functions return; each is called while something is done with the one before.

    An error of a function is raised in its turn.

    >>> [*one_ahead([lambda: 1, lambda: 2])]
    [1, 2]
    """
    coming: _Call | None = None
    try:
        for function in itertools.chain(functions, [None]):
            found = [] if coming is None else [coming.result()]
            coming = None if function is None else _Call(function)
            yield from found
    finally:
        if coming is not None:
            coming.give_up()


class _Call:
    """A call in a thread; a process that was forked has no such thread, and calls anew."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function, self.process = function, os.getpid()
        self.found: Any = None
        self.failed: BaseException | None = None
        self.thread = begun(self._run)

    def _run(self) -> None:
        try:
            self.found = self.function()
        except BaseException as error:  # raised where the result is asked for
            self.failed = error

    def result(self) -> Any:
        if os.getpid() != self.process:
            return self.function()
        self.thread.join()
        failed, self.failed = self.failed, None
        try:
            if failed is not None:
                raise failed
            return self.found
        finally:
            del failed  # an error knows this frame, which would keep what was opened

    def give_up(self) -> None:
        """Wait for the end of the call, of which nobody wants the result."""
        if os.getpid() == self.process:
            self.thread.join()
        self.failed = None


class Parts(Protocol):
    """What has parts."""

    def are_there(self, part: int, names: Collection[Any]) -> bool:
        """Whether columns of a part are in memory."""
        ...

    def load(self, part: int, names: Collection[Any]) -> None:
        """Load columns of a part."""
        ...


class Ahead:
    """Which part is loaded next, as those that were read so far suggest.

    A part is loaded ahead once the one before it in the order is read in several steps, or after
    the one before that.  So a single row of a part has no other one loaded.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._lock = new_lock()
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget what was read: at first, and in a process that was forked."""
        self._at: int | None = None
        self._names: tuple[set[Any], set[Any]] = (set(), set())
        self._expected: tuple[int | None, Collection[Any]] = (None, ())
        self._turn: tuple[int | None, Collection[Any], int | None] = (None, (), None)
        self._behind: dict[int, int] | None = None
        self._turns: dict[int, int] | None = None
        self._begun: int | None = None
        self._wanted: tuple[int, list[Any]] | None = None
        self._is_busy = False
        self._failed: BaseException | None = None
        self.thread: threading.Thread | None = None

    def visits(self, order: np.ndarray | None) -> None:
        """Note in which order the parts will be read; None is their own."""
        with self._lock:
            self._at = self._begun = None
            numbers = [] if order is None else [int(number) for number in order]
            self._behind = None if order is None else dict(itertools.pairwise(numbers))
            self._turns = None if order is None else {n: turn for turn, n in enumerate(numbers)}

    def after(self, part: int) -> int | None:
        """Return the part that comes after one."""
        behind = part + 1 if self._behind is None else self._behind.get(part, self.count)
        return behind if behind < self.count else None

    def turn(self, part: int) -> int:
        """Return which part in the order one is, the last of all if it is not in the order."""
        return part if self._turns is None else self._turns.get(part, self.count)

    def expect(self, part: int, names: Collection[Any]) -> None:
        """Note that these columns of a part are going to be read."""
        self._expected = part, names

    def reads_part(
        self, part: int | None, names: Collection[Any] = (), behind: int | None = None
    ) -> None:
        """Note that these columns of a part are read now, and those of the part `behind` it next.

        None says that no part is read any more.  Lists are read twice, their lengths first: that a
        column is read again does not mean then that the rows have come to the next part.
        """
        self._turn = part, names, behind

    def noted(self, part: int, name: Any, parts: Parts, room: int) -> None:
        """Note that a column of a part is read, and perhaps begin to load the part after it.

        There is room for so many parts.  The first rows of a part may be in one batch with the last
        ones of the part before, which must not make room for a third one then.  An error that
        ended the thread is raised.
        """
        with self._lock:
            failed, self._failed = self._failed, None
            try:
                if failed is not None:
                    raise failed
            finally:
                del failed  # an error knows this frame, which would keep the parts
            before, is_turn = self._at, self._turn[0] == part
            if before is not None and before != part and self.after(part) == before:
                return  # rows of one batch are read in the order of their numbers
            if before != part:
                self._names = (self._names[1], set())
                is_next = before is not None and self.after(before) == part
                if before is not None and not is_next:
                    self._behind = self._turns = None  # it was the order of another loop
                needed = 3 if is_next else room + 1
            else:
                is_step = name in self._names[1] and not is_turn
                needed = 2 if is_step else room + 1  # of the first rows still
            self._at = part
            self._names[1].add(name)
            behind = self.after(part)
            if is_turn and self._turn[2] is not None:
                behind, needed = self._turn[2], 2
            if behind is None or behind == self._begun or room < needed:
                return
            self._begun = behind
            told = [own for of, own in (self._expected, self._turn[:2]) if of == part]
            names = [*self._names[0].union(self._names[1], *told)]
            if parts.are_there(behind, names):
                return
            self._wanted = behind, names
            if not self._is_busy:
                self._is_busy = True
                self.thread = begun(lambda: self._work(parts))

    def is_coming(self, part: int) -> bool:
        """Whether a part is being loaded, or will be next."""
        return self._is_busy and self._begun == part

    def _work(self, parts: Parts) -> None:
        """Load what is wanted, in a thread, until there is nothing more."""
        while True:
            with self._lock:
                wanted, self._wanted = self._wanted, None
                if wanted is None:
                    self._is_busy = False
                    return
            try:
                parts.load(*wanted)
            except BaseException as error:  # raised where the next column is read
                with self._lock:
                    self._is_busy, self._failed = False, error
                return

    def join(self) -> None:
        """Wait until nothing is loaded."""
        thread = self.thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
