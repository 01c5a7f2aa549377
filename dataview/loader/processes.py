"""A process that does tasks, and the shared memory that what is sent goes through.

The process is never a plain fork of this one.  What it needs is pickled once for all workers, with
arrays in a block of shared memory; results come back through one block per worker that is used
again and again.  Blocks have names made up by the system, belong to this process and are freed by
`close`; where this process dies, the resource tracker of multiprocessing frees them.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.shared_memory import SharedMemory


_ALIGN = 64
_HINT = (
    "kind='process' sends the view and its functions to worker processes by pickle; define the "
    "functions at the top level of a module, or use kind='thread'"
)


class Parcel:
    """An object pickled once, its arrays in shared memory, for any number of processes.

    Where there is too little shared memory, the arrays go through the pipes instead.
    """

    def __init__(self, value: Any) -> None:
        buffers: list[pickle.PickleBuffer] = []
        try:
            self.text = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        except Exception as error:
            raise TypeError(f"{error}; {_HINT}") from error
        views = [buffer.raw() for buffer in buffers]
        self.places = _places([view.nbytes for view in views])
        self.memory = _allocated(_end(self.places))
        self.loose: list[bytes] | None = None
        if self.memory is None:
            self.loose = [bytes(view) for view in views]
        else:
            _put(views, self.places, self.memory)

    def sent(self) -> tuple[Any, ...]:
        """Return what a process needs to open the parcel."""
        return self.text, self.places, self.memory.name if self.memory else None, self.loose

    def close(self) -> None:
        """Free the memory."""
        _freed(self.memory)
        self.memory = None


def _places(sizes: list[int]) -> list[tuple[int, int]]:
    """Return where buffers of these sizes go in a block: offset and size of each."""
    places, offset = [], 0
    for size in sizes:
        places.append((offset, size))
        offset += -(-size // _ALIGN) * _ALIGN
    return places


def _end(places: list[tuple[int, int]]) -> int:
    return sum(places[-1]) if places else 0


def _put(views: list[memoryview], places: list[tuple[int, int]], memory: SharedMemory) -> None:
    block: Any = memory.buf
    for view, (offset, size) in zip(views, places, strict=True):
        block[offset : offset + size] = view


def _allocated(size: int) -> SharedMemory | None:
    """Return shared memory of a size; None for none, or where the system has too little."""
    from multiprocessing.shared_memory import SharedMemory

    if not size:
        return None
    free = _free()
    if free is not None and size > free:
        warnings.warn(
            f"{size} bytes of shared memory are needed and {free} are free, so the data goes "
            "through pipes, which is slower",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return SharedMemory(create=True, size=size)


def _free() -> int | None:
    """Return how much shared memory is free, None where the system does not tell."""
    if not os.path.isdir("/dev/shm") or not hasattr(os, "statvfs"):
        return None
    found = os.statvfs("/dev/shm")
    return found.f_bavail * found.f_frsize


def _freed(memory: SharedMemory | None) -> None:
    if memory is not None:
        memory.close()
        memory.unlink()


# --- in this process -------------------------------------------------------------------------


class Remote:
    """A worker process, started with its first task; a dead one is an error and is replaced."""

    def __init__(self, parcel: Parcel) -> None:
        self.parcel = parcel
        self._process: Any = None
        self._memory: SharedMemory | None = None
        self._at: Any = None
        self._lock = threading.Lock()
        self._closed = False

    def __call__(self, task: Any) -> Any:
        """Return the result of a task; an error has the traceback of the process as a note."""
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
        context: Any = multiprocessing.get_context(
            "forkserver" if "forkserver" in methods else "spawn"
        )
        self._pipe, theirs = context.Pipe()
        self._asking, answering = context.Pipe()
        self._at = context.RawValue(ctypes.c_int64, -1)
        self._process = context.Process(
            target=_serve,
            args=(theirs, answering, self._at, self.parcel.sent()),
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
        where = f"at sample {at}" if at >= 0 else "before its first sample"
        hint = (
            ""
            if at >= 0
            else ("; a script that starts processes needs the guard `if __name__ == '__main__':`")
        )
        return RuntimeError(f"a worker process ended ({how}) {where}{hint}")

    def whereabouts(self, stack: str) -> str:
        """Return at which sample the process is, and its stack, not that of the thread."""
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
        """Have memory for a result such as the last one, and a little more."""
        if self._memory is None or self._memory.size < size:
            _freed(self._memory)
            self._memory = None
            self._memory = _allocated(size + size // 4)

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
            process.terminate()  # so that whoever waits for it gives up the lock
        with self._lock:
            self._end_process()
            _freed(self._memory)
            self._memory = None


# --- in the worker ---------------------------------------------------------------------------


def _serve(pipe: Connection, asked: Connection, at: Any, parcel: tuple[Any, ...]) -> None:
    """Do tasks until nobody asks for more."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt ends
    main = threading.get_ident()
    threading.Thread(target=_tell, args=(asked, main), daemon=True).start()
    memories: dict[str, Any] = {}
    work: Callable[..., Any] | Exception
    try:
        work = _opened(parcel, memories)
    except Exception as error:
        work = error
    while True:
        try:
            task, name = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            return
        try:
            if isinstance(work, Exception):
                raise work
            found = work(task, at)
            failures = [each._replace(error=_portable(each.error)) for each in found.failures]
            answer = (False, *_packed(found._replace(failures=failures), name, memories))
        except Exception as error:
            answer = (True, *_packed(_portable(error), name, memories))
        pipe.send_bytes(pickle.dumps(answer, protocol=5))


def _opened(parcel: tuple[Any, ...], memories: dict[str, Any]) -> Any:
    text, places, name, loose = parcel
    if loose is not None:
        return pickle.loads(text, buffers=loose)
    if name is None:
        return pickle.loads(text, buffers=[memoryview(b"")] * len(places))
    memory = _attached(name, memories)
    views = [memory.buf[at : at + size].toreadonly() for at, size in places]
    return pickle.loads(text, buffers=views)


def _attached(name: str, memories: dict[str, Any]) -> Any:
    from multiprocessing.shared_memory import SharedMemory

    if name not in memories:
        memories[name] = SharedMemory(name)
    return memories[name]


def _packed(result: Any, name: str | None, memories: dict[str, Any]) -> tuple[Any, ...]:
    """Return a result as text, and its arrays in memory, or loose where they do not fit."""
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(result, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    places = _places([view.nbytes for view in views])
    if not _end(places):
        return text, places, [bytes(view) for view in views]
    memory = _attached(name, memories) if name is not None else None
    if memory is None or memory.size < _end(places):
        return text, places, [bytes(view) for view in views]
    _put(views, places, memory)
    return text, places, None


def _portable(error: Exception) -> Exception:
    """Return an error that survives a pickle, with the traceback as a note."""
    import traceback  # needed for failures alone

    error.add_note("in a worker process:\n" + "".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        plain = RuntimeError(f"{type(error).__name__}: {error}")
        plain.add_note(error.__notes__[-1])
        return plain
    return error


def _tell(asked: Connection, main: int) -> None:
    """Tell where the worker is when asked; when nobody can ask any more, end."""
    import traceback

    while True:
        try:
            asked.recv()
        except (EOFError, OSError):
            os._exit(1)
        frame = sys._current_frames().get(main)
        asked.send("".join(traceback.format_stack(frame)[-12:]))
