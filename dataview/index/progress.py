"""How far long work is: told to a user's function, or shown as a bar.

What does work piece by piece begins a task of so many pieces and advances it; what cannot be cut
begins a task without a number, and is shown to go on.  It stands here, at the bottom, because all
that reads, computes and writes has such work.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar, Token, copy_context
from time import perf_counter, sleep
from typing import Any, TypeAlias

from dataview.index.locks import new_lock, new_rlock
from dataview.index.settings import Setting, written

Told: TypeAlias = Callable[[int, int | None], Any]
"""Is told how much is done, and of how much; None if that is not known."""

PATIENCE = 2.0
"""Work that is expected to take fewer seconds shows no bar of itself."""

FIRST_LOOK = 0.3
"""After so many seconds it is known well enough how long work will take."""

PAUSE = 0.1
"""The seconds between two changes of a bar."""

LOOK = 0.5
"""The seconds between two looks at work that tells nothing meanwhile."""

LOOKS = 6
"""After so many looks at no work at all, the thread that looks ends."""

LARGE = 1 << 24
"""To do with fewer bytes what cannot be cut is expected to be quick."""

VARIABLE = "DATAVIEW_PROGRESS"

_chosen: ContextVar[bool | Told | None] = ContextVar("progress", default=None)
_current: ContextVar[Task | None] = ContextVar("task", default=None)


def progress(shown: bool | Told = True) -> Setting[bool | Told | None]:
    """Choose, for the lines below a ``with``, how the progress of long work is shown.

    False shows nothing.  True shows a bar, even if the output is not a terminal.  A function is
    called with two numbers, how much is done and how much there is to do, in the thread that asked
    for the work; if the function raises an error, the work stops as if it had failed itself.

    >>> import dataview as dv
    >>> told = []
    >>> with dv.progress(lambda done, total: told.append(done / total)):
    ...     total = dv.View([[1.0, 2.0]] * 1_000_000)._sum()()
    >>> told[-1]
    1.0
    """
    call = written("progress", _checked(shown, "progress() takes"))
    is_flag = isinstance(shown, bool)
    everywhere = f"set os.environ[{VARIABLE!r}] = '{shown:d}'" if is_flag else ""
    return Setting(_chosen, shown, call, everywhere)


def _checked(shown: Any, what: str) -> Any:
    if isinstance(shown, bool) or callable(shown):
        return shown
    raise TypeError(f"{what} True, False or a function of done and total; got {shown!r}")


# --- tasks -----------------------------------------------------------------------------------


class Task:
    """Work of several pieces.  Other threads may do some of them; its own thread tells of them."""

    def __init__(self, total: int | None, tell: Told | None) -> None:
        self.total = total
        self.tell = tell
        self.done = 0
        self.told = 0
        self.thread = threading.get_ident()
        self.lock = new_lock()
        self.token: Token[Task | None] | None = None

    def advance(self, pieces: int = 1) -> None:
        """Note that more pieces are done."""
        if self.tell is not None:
            with self.lock:
                self.done += pieces
            if threading.get_ident() == self.thread:
                self.told = self.done
                self.tell(self.told, self.total)

    def reach(self, done: int, total: int | None) -> None:
        """Note how many pieces are done in all, which may be fewer than before."""
        self.total = total
        self.advance(done - self.done)

    def finish(self) -> None:
        """Tell what other threads have done last."""
        if self.told < self.done:
            self.advance(0)

    def close(self) -> None:
        """Let the bar go, if there is one: all is done, or the work has failed."""
        if isinstance(self.tell, _Bar):
            self.tell.close()

    def __enter__(self) -> Task:
        """Let work that begins meanwhile tell nothing, once some of this is done."""
        self.token = _current.set(self)
        return self

    def __exit__(self, *failure: object) -> None:
        if self.token is not None:
            _current.reset(self.token)
        self.close()


def begin(what: str, total: int | None, unit: str = "", chosen: bool | Told | None = None) -> Task:
    """Return a task of so many pieces, or of a number that is not known.

    Work inside a piece of other work tells nothing: only the other work is told of.  What is done
    before its first piece is work of its own, such as a statistic that all pieces need.

    Work of one piece that cannot be cut is a task of unknown number that is never advanced.

    `chosen` is what a user has chosen for this task alone: then True is a bar at once.
    """
    at_once = chosen is True
    if chosen is None:
        outer = _current.get()
        if outer is not None and (outer.done or outer.thread != threading.get_ident()):
            return Task(total, None)
        chosen = _by_default() if (own := _chosen.get()) is None else own
    _checked(chosen, "progress= is")
    if chosen is True:
        chosen = _Bar(what, total, unit, at_once)
        _look_at(chosen)
    return Task(total, chosen or None)


_NOTHING = contextlib.nullcontext()


def at_work(what: str, nbytes: float) -> contextlib.AbstractContextManager[Any]:
    """Surround work that cannot be cut, on so many bytes: if these are many, it is a task."""
    return _NOTHING if nbytes < LARGE else begin(what, None)


def _by_default() -> bool:
    """Whether bars are shown where nothing is chosen: if someone sees them, of one process."""
    named = os.environ.get(VARIABLE, "")
    if named not in ("", "0", "1"):
        raise ValueError(f"{VARIABLE} is 0 or 1; got {named!r}")
    if named or _is_worker():
        return named == "1"
    return is_in_notebook() or _is_terminal(sys.stderr)


def _is_worker() -> bool:
    """Whether another process has started this one to work for it, and shows how far it is."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None


def is_in_notebook() -> bool:
    """Whether this is the kernel of a notebook."""
    module = sys.modules.get("IPython")
    shell = getattr(module, "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def _is_terminal(stream: Any) -> bool:
    return stream is not None and not stream.closed and bool(stream.isatty())


# --- bars ------------------------------------------------------------------------------------

_lock = new_rlock()
"""Is held by the thread that changes a bar, or which bars there are."""

_shown: dict[str, _Bar] = {}
"""The bar that is shown now: several would write over one another."""


class _Bar:
    """Shows how far work is once it is expected to take long, if no other work is shown.

    Of work that has no pieces, or is long at one of them, another thread shows that it goes on.
    """

    def __init__(self, what: str, total: int | None, unit: str, at_once: bool) -> None:
        self.what, self.unit, self.at_once = what, unit, at_once
        self.done, self.total = 0, total
        self.began = perf_counter()
        self.next = 0.0 if at_once else self.began + FIRST_LOOK
        self.context = copy_context()  # a notebook finds the cell by it
        self.bar: Any = None
        self.counts = False

    def __call__(self, done: int, total: int | None) -> None:
        self.done, self.total = done, total
        now = perf_counter()
        if now < self.next and not (self.bar is not None and done == total):
            return
        self.next = now + PAUSE
        if self.bar is None and not self.at_once:
            whole = (now - self.began) * (total or done) / max(1, done)
            if whole < PATIENCE or done == total:
                return
        with _lock:
            self._show()

    def look(self) -> None:
        """Show that work which has taken long goes on."""
        if self.at_once or perf_counter() - self.began >= PATIENCE:
            self._show()
            if self.bar is not None:
                self.bar.refresh()

    def _show(self) -> None:
        if self.bar is not None and self.has_pieces and not self.counts:
            self.hide()
        if self.bar is None and self._has_turn():
            self.bar = self._made()
        if self.bar is not None:
            self.bar.total = self.total
            if self.done != self.bar.n:
                self.bar.update(self.done - self.bar.n)

    @property
    def has_pieces(self) -> bool:
        """Whether it is known, of this work, how much is done or to be done."""
        return bool(self.done or self.total is not None)

    def _has_turn(self) -> bool:
        """Whether this bar may be shown: that of work without pieces gives way to what it does."""
        shown = _shown.setdefault("bar", self)
        inside = self.began > shown.began
        if shown is not self and not shown.has_pieces and (self.has_pieces or inside):
            shown.hide()
            _shown["bar"] = shown = self
        return shown is self

    def _made(self) -> Any:
        self.counts = self.has_pieces
        form: dict[str, Any] = {"bar_format": _SHARE if self.counts else _TIME}
        if self.unit and self.counts:
            form = {"unit": self.unit, "unit_scale": True}
        leave = self.at_once and self.counts
        bar = maker_of_bars()(total=self.total, desc=self.what, leave=leave, **_EACH, **form)
        bar.start_t = getattr(bar, "start_t", 0.0) - (perf_counter() - self.began)
        return bar

    def hide(self) -> None:
        """Take the bar away; it may come back."""
        if _shown.get("bar") is self:
            del _shown["bar"]
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def close(self) -> None:
        """Let the bar go."""
        with _lock:
            _looked_at.discard(self)
            self.hide()


_looked_at: set[_Bar] = set()
_looking: threading.Thread | None = None


def _look_at(bar: _Bar) -> None:
    """Have another thread look at a bar until it is closed."""
    global _looking
    with _lock:
        _looked_at.add(bar)
        if _looking is None:
            _looking = threading.Thread(target=_look, name="dataview progress", daemon=True)
            try:
                _looking.start()
            except RuntimeError:  # the interpreter is ending and starts no more threads
                _looking = None


def _look() -> None:
    """Look at bars until there have been none for a while."""
    global _looking
    idle = 0
    while idle < LOOKS:
        sleep(LOOK)
        with _lock:
            idle = 0 if _looked_at else idle + 1
            for bar in _looked_at:
                bar.context.run(bar.look)
            if idle == LOOKS:
                _looking = None


def _begin_anew() -> None:
    """Forget the bars of the parent, whose thread a fork does not copy."""
    global _looking
    _looking = None
    _looked_at.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


_EACH: Any = {"mininterval": 0, "miniters": 1}
"""Has tqdm show each change: when there is one is decided here."""

_SHARE = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"
"""What tqdm shows of pieces that mean nothing to a user."""

_TIME = "{desc}: {elapsed}"
"""What tqdm shows of work without pieces."""


def maker_of_bars() -> Callable[..., Any]:
    """Return what makes bars: tqdm, if it is installed, or a simple one."""
    try:
        # In a notebook without its widgets, tqdm.auto would warn of that.
        if is_in_notebook() and importlib.util.find_spec("ipywidgets"):
            from tqdm.auto import tqdm
        else:
            from tqdm import tqdm
    except ImportError:
        return PlainBar
    return tqdm  # type: ignore[no-any-return]


class PlainBar:
    """A bar as tqdm's, in a line of plain characters.

    >>> bar = PlainBar(total=4, desc="saving")
    >>> bar.n = 3
    >>> bar.line(9.0)
    'saving:  75%|##################################            | 0:09<0:03'
    """

    WIDTH = 46

    def __init__(
        self,
        total: float | None = None,
        desc: str = "",
        initial: int = 0,
        unit: str = "",
        leave: bool = True,
        **options: Any,
    ) -> None:
        self.total, self.n, self.initial = total, initial, initial
        self.desc, self.unit, self.leave = desc, unit, leave
        self.start_t = perf_counter()
        self.next = 0.0
        self.written = 0

    def update(self, count: int = 1) -> None:
        """Move on by so much."""
        self.n += count
        now = perf_counter()
        if now >= self.next or self.n == self.total:
            self.next = now + PAUSE
            self.refresh()

    def refresh(self) -> None:
        """Show the time that has passed."""
        self._write(self.line(perf_counter() - self.start_t))

    def line(self, elapsed: float) -> str:
        """Return what is shown after so many seconds."""
        name = f"{self.desc}: " if self.desc else ""
        if not self.total and not self.n:
            return f"{name}{_minutes(elapsed)}"
        if not self.total:
            return f"{name}{self.n}{self.unit and ' ' + self.unit} {_minutes(elapsed)}"
        share = min(1.0, self.n / self.total)
        own = self.n - self.initial
        left = _minutes(elapsed * (self.total - self.n) / own) if own > 0 else "?"
        bar = "#" * int(share * self.WIDTH)
        return f"{name}{share:4.0%}|{bar:{self.WIDTH}}| {_minutes(elapsed)}<{left}"

    def _write(self, line: str) -> None:
        if sys.stderr is not None:
            sys.stderr.write(f"\r{line:{self.written}}")
            sys.stderr.flush()
            self.written = len(line)

    def close(self) -> None:
        """End the line, or take it away."""
        if self.written and self.leave:
            self._write(self.line(perf_counter() - self.start_t) + "\n")
        elif self.written:
            self._write("")
            self._write("")
        self.written = 0


def _minutes(seconds: float) -> str:
    """Return a duration as minutes and seconds.

    >>> _minutes(75.2)
    '1:15'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
