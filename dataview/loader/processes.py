"""Worker processes, and the shared memory through which they exchange arrays with this process.

A worker is never a plain fork of this process.  What workers need is pickled once for all of them,
with arrays in a block of shared memory.  Each worker has one more block for its results, which is
used again and again.  The system names the blocks.  They belong to this process, which frees them
by `close`; if it dies, the resource tracker of multiprocessing frees them.
"""

from __future__ import annotations

import functools
import itertools
import os
import pickle
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dataview.errors import warn

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.shared_memory import SharedMemory


_ALIGN = 64
_HINT = (
    "kind='process' sends the view and its functions to worker processes by pickle; define the "
    "functions at the top level of a module, or use kind='thread'"
)
_AT_START = (
    "before its first sample; a script that starts processes needs the guard "
    "`if __name__ == '__main__':`"
)


class SharedPickle:
    """An object pickled once, its arrays in shared memory, for any number of processes.

    If there is too little shared memory, the arrays go through the pipes instead.
    """

    def __init__(self, value: Any) -> None:
        try:
            self.text, views, self.places = _pickled(value)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise TypeError(f"{error}; {_HINT}") from error
        self.memory = _allocate(_end(self.places))
        self.loose = _put(views, self.places, self.memory)

    def message(self) -> tuple[Any, ...]:
        """Return what a process needs to load the object."""
        return self.text, self.places, self.memory.name if self.memory else None, self.loose

    def close(self) -> None:
        """Free the memory."""
        _free(self.memory)
        self.memory = None


def _pickled(value: Any) -> tuple[bytes, list[memoryview], list[tuple[int, int]]]:
    """Return an object's pickle, its arrays' bytes, and the offset and size of each in a block."""
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    offsets = itertools.accumulate((-(-v.nbytes // _ALIGN) * _ALIGN for v in views), initial=0)
    return text, views, [(at, view.nbytes) for at, view in zip(offsets, views, strict=False)]


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
    if os.path.isdir("/dev/shm"):
        found = os.statvfs("/dev/shm")
        free = found.f_bavail * found.f_frsize
        if size > free:
            warn(
                f"{size} bytes of shared memory are needed and {free} are free, so the data goes "
                "through pipes, which is slower"
            )
            return None
    return SharedMemory(create=True, size=size)


def _free(memory: SharedMemory | None) -> None:
    if memory is not None:
        memory.close()
        memory.unlink()


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
        self._lock = threading.Lock()
        self._closed = False

    def __call__(self, task: Any) -> Any:
        """Return the result of a task; an error has the process's traceback as a note."""
        with self._lock:
            if self._process is None:
                self._start()
            try:
                name = self._memory.name if self._memory else None
                self._pipe.send_bytes(pickle.dumps((task, name), protocol=5))
                failed, text, places, loose = pickle.loads(self._received())
            except (EOFError, OSError) as error:
                raise self._died() from error
            if loose is None:
                block: Any = self._memory.buf if self._memory else memoryview(b"")
                buffers = [bytearray(block[at : at + size]) for at, size in places]
            else:
                buffers = list(map(bytearray, loose))
                self._make_room(_end(places))
        result = pickle.loads(text, buffers=buffers)
        if failed:
            raise result
        return result

    def _start(self) -> None:
        import ctypes
        import multiprocessing

        if self._closed:
            raise RuntimeError("the loader is closed")
        methods = multiprocessing.get_all_start_methods()
        method = "forkserver" if "forkserver" in methods else "spawn"
        context: Any = multiprocessing.get_context(method)
        self._pipe, theirs = context.Pipe()
        self._asking, answering = context.Pipe()
        self._at = context.RawValue(ctypes.c_int64, -1)
        self._process = context.Process(
            target=_serve,
            args=(theirs, answering, self._at, self.shared.message()),
            name="dataview-loader",
            daemon=True,
        )
        self._process.start()
        theirs.close()
        answering.close()

    def _received(self) -> bytes:
        from multiprocessing.connection import wait

        ready = wait([self._pipe, self._process.sentinel])
        if self._pipe in ready or self._pipe.poll():
            received: bytes = self._pipe.recv_bytes()
            return received
        raise EOFError

    def _died(self) -> RuntimeError:
        process = self._process
        process.join(timeout=5)
        code, at = process.exitcode, self._at.value
        self._end_process()
        how = f"exit code {code}"
        if code is not None and code < 0:
            import signal

            how = f"signal {signal.Signals(-code).name}"
        where = f"at sample {at}" if at >= 0 else _AT_START
        return RuntimeError(f"a worker process ended ({how}) {where}")

    def whereabouts(self, stack: str) -> str:
        """Return at which sample the process is, and its stack in place of the thread's."""
        if self._process is None:
            return "a worker process that has not started"
        stack = "it does not answer: it is in a call that does not let Python go on\n"
        try:
            self._asking.send(None)
            if self._asking.poll(2):
                stack = self._asking.recv()
        except (EOFError, OSError):
            stack = "it has ended\n"
        return f"a worker process, sample {self._at.value}:\n{stack}"

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
        process.join(timeout=2)
        if process.is_alive():
            process.kill()
            process.join()
        self._pipe.close()
        self._asking.close()

    def close(self) -> None:
        """End the process, whatever it is doing, and free its memory."""
        self._closed = True
        process = self._process
        if process is not None:
            process.terminate()  # a thread that waits for its result then releases the lock
        with self._lock:
            self._end_process()
            _free(self._memory)
            self._memory = None


# --- in the worker ---------------------------------------------------------------------------


def _serve(pipe: Connection, asked: Connection, at: Any, shared: tuple[Any, ...]) -> None:
    """Do tasks until the pipe is closed."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt ends
    main = threading.get_ident()
    threading.Thread(target=_report_stack, args=(asked, main), daemon=True).start()
    work: Callable[..., Any] | Exception
    try:
        work = _loaded(shared)
    except Exception as error:
        work = _portable(error)
    while True:
        try:
            task, name = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            return
        try:
            if isinstance(work, Exception):
                answer = (True, *_packed(work, name))
            else:
                found = work(task, at)
                failures = [each._replace(error=_portable(each.error)) for each in found.failures]
                answer = (False, *_packed(found._replace(failures=failures), name))
        except Exception as error:
            answer = (True, *_packed(_portable(error), name))
        pipe.send_bytes(pickle.dumps(answer, protocol=5))


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


def _portable(error: Exception) -> Exception:
    """Return an error that can be pickled, with the traceback as a note."""
    import traceback  # needed for failures alone

    error.add_note("in a worker process:\n" + "".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever a user's pickling raises: the text is sent instead
        plain = RuntimeError(f"{type(error).__name__}: {error}")
        plain.add_note(error.__notes__[-1])
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
