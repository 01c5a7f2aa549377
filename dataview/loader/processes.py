"""Worker processes, and the shared memory through which they exchange arrays with this process.

A worker is never a plain fork of this process.  What workers need is pickled once for all of them,
with arrays in a block of shared memory.  Each worker has one more block for its results, which is
used again and again.  The system names the blocks.  They belong to this process, which frees them
by `close`; if it dies, the resource tracker of multiprocessing frees them.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import pickle
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dataview.errors import warn
from dataview.index.locks import new_lock
from dataview.index.progress import progress
from dataview.loader.callers import hearing, tell, ways
from dataview.loader.outcome import Outcome
from dataview.sources import keep_room

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.shared_memory import SharedMemory


_ALIGN = 64
_SHARED = "/dev/shm"
_PATIENCE = 0.3
"""How many seconds a process has to end, or to say where it is, before that is done without it."""
_SENT = "kind='process' sends the view and its functions to worker processes by pickle"
_HINT = f"{_SENT}; leave out what has no pickle, or use kind='thread'"
_NAMELESS = (
    f"{_SENT}, which knows functions by the names they have in modules; for a lambda, a function "
    "in a function or one of a notebook, install cloudpickle, or use kind='thread'"
)
_IMPORTED_BY = os.getpid()
_UNGUARDED = 79
"""The exit code of a process that ran a script without a guard."""
_GUARD = "a script that starts processes needs the guard `if __name__ == '__main__':`"

_CRASHED = (
    "a library crashes in it; with kind='thread' it does so in this process, of which `python -X "
    "faulthandler` tells the line"
)
_ADVICE = {
    "SIGKILL": (
        "the system ends a process so if memory runs out: fewer workers=, or kind='thread', which "
        "has the data once, need less; or someone has ended it"
    ),
    "SIGTERM": "someone has ended it: a user, or the system that runs the job",
    "SIGINT": "someone has interrupted it",
}
"""What to do about the signals that end a process for no error in it."""


class SharedPickle:
    """An object pickled once, its arrays in shared memory, for any number of processes.

    If there is too little shared memory, the arrays go through the pipes instead.
    """

    def __init__(self, value: Any) -> None:
        _check_guarded()
        self.text, views, self.places = _pickled(value)
        self.memory = _allocate(_end(self.places))
        self.loose = _put(views, self.places, self.memory)

    def message(self) -> tuple[Any, ...]:
        """Return what a process needs to load the object."""
        return self.text, self.places, self.memory.name if self.memory else None, self.loose

    def close(self) -> None:
        """Free the memory."""
        _free(self.memory)
        self.memory = None


def _check_guarded() -> None:
    """End a worker that starts workers while it imports the script: its parent tells the user."""
    import multiprocessing

    if getattr(multiprocessing.current_process(), "_inheriting", False):
        sys.exit(_UNGUARDED)


_UNSENDABLE = (TypeError, AttributeError, pickle.PicklingError)


def _pickled(value: Any) -> tuple[bytes, list[memoryview], list[tuple[int, int]]]:
    """Return an object's pickle, its arrays' bytes, and the offset and size of each in a block.

    Functions and classes are sent by their names.  Where these say nothing to another process,
    cloudpickle sends what they are.
    """
    buffers: list[pickle.PickleBuffer] = []
    try:
        text = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    except _UNSENDABLE as refused:  # which is not kept: it knows the frames of all that called
        buffers.clear()
        text = _by_value(value, buffers, refused)
    else:
        if b"__main__" in text and not _has_script():
            buffers.clear()
            text = _by_value(value, buffers, None)
    views = [buffer.raw() for buffer in buffers]
    offsets = itertools.accumulate((-(-v.nbytes // _ALIGN) * _ALIGN for v in views), initial=0)
    return text, views, [(at, view.nbytes) for at, view in zip(offsets, views, strict=False)]


def _has_script() -> bool:
    """Whether another process can import what is defined in `__main__`: a notebook has no file."""
    main = sys.modules["__main__"]
    return bool(getattr(main, "__file__", None) or getattr(main, "__spec__", None))


def _by_value(value: Any, buffers: list[pickle.PickleBuffer], refused: Exception | None) -> bytes:
    """Return the pickle by cloudpickle; `refused` is what the other pickle has raised."""
    try:
        import cloudpickle
    except ImportError:
        why = refused or "what is defined in a notebook or at a prompt is in no file"
        hint = _HINT if isinstance(refused, TypeError) else _NAMELESS
        raise TypeError(f"{why}; {hint}") from refused
    try:
        text: bytes = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    except _UNSENDABLE as error:
        raise TypeError(f"{error}; {_HINT}") from error
    return text


def _end(places: list[tuple[int, int]]) -> int:
    return sum(places[-1]) if places else 0


def _put(
    views: list[memoryview], places: list[tuple[int, int]], memory: SharedMemory | None
) -> list[bytes] | None:
    """Copy arrays into memory and return None; without enough memory, return their bytes."""
    if memory is None or memory.size < _end(places):
        return [bytes(view) for view in views]
    block: Any = memory.buf
    for view, (offset, size) in zip(views, places, strict=True):
        block[offset : offset + size] = view
    return None


def _allocate(size: int) -> SharedMemory | None:
    """Return shared memory of a size; None if the size is 0 or the system has too little."""
    from multiprocessing.shared_memory import SharedMemory

    if not size:
        return None
    if size <= _free_bytes():
        memory = SharedMemory(create=True, size=size)
        if _has_room(memory):
            return memory
        _free(memory)
    warn(
        f"{size} bytes of shared memory are needed and {_free_bytes()} are free, so the data goes "
        "through pipes, which is slower"
    )
    return None


def _free_bytes() -> float:
    """Return how many bytes of shared memory are free; many are, where the system does not tell."""
    if not os.path.isdir(_SHARED):
        return math.inf
    found = os.statvfs(_SHARED)
    return found.f_bavail * found.f_frsize


def _has_room(memory: SharedMemory) -> bool:
    """Have the system keep room for memory, which ends a process that writes where there is none.

    Other memory that is new has none yet either, so what is free does not tell.
    """
    place = os.path.join(_SHARED, memory.name)
    if os.path.exists(place):
        try:
            with open(place, "r+b", buffering=0) as file:
                keep_room(file.fileno(), memory.size, place, 0)
        except OSError:  # a warning says so, and there is another way
            return False
    return True


def _free(memory: SharedMemory | None) -> None:
    if memory is not None:
        memory.close()
        memory.unlink()


_started: weakref.WeakSet[Any] = weakref.WeakSet()
"""The worker processes that this process has started."""


@functools.cache
def _follow_forks() -> None:
    """Let a fork of this process that ends leave the workers alone: they are its parent's."""
    import multiprocessing.process

    def disown() -> None:
        # At its end multiprocessing ends all processes that it believes to be children.
        getattr(multiprocessing.process, "_children", set()).difference_update(_started)
        _started.clear()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=disown)


def _start_method() -> str:
    """Return how multiprocessing starts a worker."""
    import multiprocessing

    _follow_forks()
    is_fork = os.getpid() != _IMPORTED_BY  # which cannot use the server of its parent
    has_server = "forkserver" in multiprocessing.get_all_start_methods()
    return "forkserver" if has_server and not is_fork else "spawn"


# --- in this process -------------------------------------------------------------------------


class ProcessWorker:
    """A worker process, which starts with its first task.

    If it dies, the task at hand raises an error, and the next task starts another process.
    """

    def __init__(self, shared: SharedPickle) -> None:
        self.shared = shared
        self._process: Any = None
        self._memory: SharedMemory | None = None
        self._at: Any = None
        self._lock = new_lock()
        self._closed = False
        self._until = math.inf

    def __call__(self, task: Any) -> Any:
        """Return the result of a task; an error has the process's traceback as a note."""
        with self._lock:
            if self._process is None:
                self._start()
            try:
                name = self._memory.name if self._memory else None
                self._pipe.send_bytes(pickle.dumps((task, name, ways()), protocol=5))
                failed, text, places, loose, told = pickle.loads(self._received())
            except (EOFError, OSError) as error:
                died = self._died()
                raise died from (None if _GUARD in str(died) else error)
            if loose is None:
                block: Any = self._memory.buf if self._memory else memoryview(b"")
                buffers = [bytearray(block[at : at + size]) for at, size in places]
            else:
                buffers = list(map(bytearray, loose))
                self._make_room(_end(places))
        result = pickle.loads(text, buffers=buffers)
        tell(told)
        if failed:
            raise result
        return result

    def _start(self) -> None:
        import ctypes
        import multiprocessing

        if self._closed:
            raise RuntimeError("the loader is closed")
        context: Any = multiprocessing.get_context(_start_method())
        self._pipe, theirs = context.Pipe()
        self._asking, answering = context.Pipe()
        self._at = context.RawValue(ctypes.c_int64, -1)
        process = context.Process(
            target=_serve,
            args=(theirs, answering, self._at, self.shared.message()),
            name="dataview-loader",
            daemon=True,
        )
        try:
            process.start()
        except (EOFError, OSError) as error:
            text = f"a worker process could not be started ({error!r}); {_GUARD}"
            raise RuntimeError(text) from error
        finally:
            theirs.close()
            answering.close()
        _started.add(process)
        self._process = process

    def _received(self) -> bytes:
        from multiprocessing.connection import wait

        ready = wait([self._pipe, self._process.sentinel])
        if self._pipe in ready or self._pipe.poll():
            received: bytes = self._pipe.recv_bytes()
            return received
        raise EOFError

    def _died(self) -> RuntimeError:
        process = self._process
        process.join(timeout=1)
        code, at = process.exitcode, self._at.value
        self._end_process()
        if code == _UNGUARDED and at < 0:
            return RuntimeError(f"a worker process ran the script instead of a task; {_GUARD}")
        where = f"at sample {at}" if at >= 0 else "before its first sample"
        if code is not None and code < 0:
            import signal

            name = signal.Signals(-code).name
            advice = _ADVICE.get(name, _CRASHED)
            return RuntimeError(f"a worker process ended (signal {name}) {where}; {advice}")
        advice = "" if at >= 0 else f"; {_GUARD}"
        return RuntimeError(f"a worker process ended (exit code {code}) {where}{advice}")

    def ask(self) -> None:
        """Ask the process where it is, without waiting for the answer."""
        if self._process is not None:
            with contextlib.suppress(OSError):  # it has ended
                self._asking.send(None)

    def whereabouts(self, stack: str, until: float) -> str:
        """Return at which sample the process is, and its stack in place of the thread's."""
        if self._process is None:
            return "a worker process that has not started"
        stack = "it does not answer: it is stopped, or in a call that does not let Python go on\n"
        try:
            if self._asking.poll(max(0, until - time.monotonic())):
                stack = self._asking.recv()
        except (EOFError, OSError):
            stack = "it has ended\n"
        at = self._at.value
        where = f"sample {at}" if at >= 0 else "before its first sample"
        return f"a worker process, {where}:\n{stack}"

    def _make_room(self, size: int) -> None:
        """Allocate memory in which a result as large as the last one fits, with some to spare."""
        if self._memory is None or self._memory.size < size:
            _free(self._memory)
            self._memory = None
            self._memory = _allocate(size + size // 4)

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        process.join(timeout=max(0, min(_PATIENCE, self._until - time.monotonic())))
        if process.is_alive():  # it ignores the signal, or is stopped
            process.kill()
            process.join(timeout=_PATIENCE)
        self._pipe.close()
        self._asking.close()

    def stop(self) -> None:
        """Ask the process to end, without waiting for it."""
        self._closed = True
        self._until = time.monotonic() + _PATIENCE
        process = self._process
        if process is not None:
            process.terminate()

    def close(self) -> None:
        """End the process, whatever it is doing, and free its memory."""
        if not self._closed:
            self.stop()
        # A thread that waits for a result releases the lock when the process has ended.
        while not self._lock.acquire(timeout=max(0.02, self._until - time.monotonic())):
            if time.monotonic() > self._until + _PATIENCE:
                return  # a process that no signal ends: the memory is freed when this one ends
            process = self._process
            if process is not None:
                process.kill()
        try:
            self._end_process()
            _free(self._memory)
            self._memory = None
        finally:
            self._lock.release()


# --- in the worker ---------------------------------------------------------------------------


@progress(False)
def _serve(pipe: Connection, asked: Connection, at: Any, shared: tuple[Any, ...]) -> None:
    """Do tasks until the pipe is closed."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt ends
    main = threading.get_ident()
    threading.Thread(target=_report_stack, args=(asked, main), daemon=True).start()
    work: Callable[..., Any] | _Chain
    try:
        work = _loaded(shared)
    except Exception as error:
        work = _portable(_with_advice(error))
    while True:
        try:
            task, name, given = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            return
        with hearing(given) as heard:
            answer = _answer(work, task, at, name)
        pipe.send_bytes(pickle.dumps((*answer, heard.told()), protocol=5))


def _answer(work: Any, task: Any, at: Any, name: str | None) -> tuple[Any, ...]:
    """Return whether a task has failed, and what is sent of its result or its error."""
    try:
        if isinstance(work, _Chain):
            return True, *_packed(work, name)
        found = work(task, at)
        failures = [each._replace(error=_portable(each.error)) for each in found.failures]
        return False, *_outcome_packed(found._replace(failures=failures), name)
    except Exception as error:
        return True, *_packed(_portable(error), name)


def _with_advice(error: Exception) -> Exception:
    """Return the error by which a pickle was refused; of a script's functions it says more."""
    if not isinstance(error, AttributeError) or "__mp_main__" not in str(error):
        return error
    found = AttributeError(
        f"{error}: a worker process runs the script without what is below its guard `if __name__ "
        "== '__main__':`; define it at the top of the script, above the guard"
    )
    found.__cause__ = error
    return found


def _loaded(shared: tuple[Any, ...]) -> Any:
    text, places, name, loose = shared
    if loose is not None:
        return pickle.loads(text, buffers=loose)
    memory = _attached(name)
    block: Any = memory.buf
    views = [block[at : at + size].toreadonly() for at, size in places]
    return pickle.loads(text, buffers=views)


@functools.cache
def _attached(name: str) -> SharedMemory:
    from multiprocessing.shared_memory import SharedMemory

    return SharedMemory(name)


def _packed(result: Any, name: str | None) -> tuple[Any, ...]:
    """Return a result's pickle; its arrays go into the memory of a name if they fit."""
    text, views, places = _pickled(result)
    memory = None if name is None else _attached(name)
    return text, places, _put(views, places, memory)


def _outcome_packed(outcome: Outcome, name: str | None) -> tuple[Any, ...]:
    """Return the pickle of an outcome; of one that lacks samples, without those that have none.

    Only a function that collates them makes something of these that can be sent.
    """
    try:
        return _packed(outcome, name)
    except _UNSENDABLE:
        if not outcome.samples:
            raise
        return _packed(outcome._replace(samples=()), name)


class _Chain:
    """An error with its causes, which a pickle loses; it is unpickled as the error."""

    def __init__(self, errors: list[BaseException]) -> None:
        self.errors = errors

    def __reduce__(self) -> tuple[Any, ...]:
        return _chained, (self.errors,)


def _chained(errors: list[BaseException]) -> BaseException:
    for error, cause in itertools.pairwise(errors):
        error.__cause__ = cause
    return errors[0]


def _portable(error: Exception) -> Any:
    """Return an error that can be pickled, with its causes, and with the traceback as a note."""
    import traceback  # needed for failures alone

    error.add_note("in a worker process:\n" + "".join(traceback.format_exception(error)))
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__
    return _Chain(list(map(_sendable, chain)))


def _sendable(error: BaseException) -> BaseException:
    """Return an error itself if a pickle brings it back, else one that tells the same."""
    try:
        text, views, _ = _pickled(error)
        pickle.loads(text, buffers=views)
    except Exception:  # whatever a user's pickling raises: the text is sent instead
        plain = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            plain.add_note(note)
        return plain
    return error


def _report_stack(asked: Connection, main: int) -> None:
    """Answer each question with the main thread's stack; end the process with its parent."""
    import traceback

    while True:
        try:
            asked.recv()
        except (EOFError, OSError):
            os._exit(1)
        frame = sys._current_frames().get(main)
        asked.send("".join(traceback.format_stack(frame)[-12:]))
