"""Makes one step of what is done fail: the n-th call that opens, lists, reads, writes or closes."""

import contextlib
import errno
import sys
import threading

STEPS = frozenset(
    "open scandir listdir stat fstat lstat mkdir makedirs flock "
    "read readinto readline readlines pread preadv connect recv recv_into sendall "
    "loads decompress frombuffer "
    "write writelines pwrite pwritev truncate ftruncate flush fsync "
    "link rename replace close".split()
)
"""The functions that are the steps, by their names; `close` fails when it has closed."""


def broken():
    """The error of a device."""
    return OSError(errno.EIO, "a failure that a test has put in")


class Failing:
    """Counts the steps of this process's own threads, and has one of them raise an error."""

    def __init__(self, at, error):
        self.at, self.error = at, error
        self.steps = []
        self.lock = threading.Lock()

    def __call__(self, frame, event, function):
        name = getattr(function, "__name__", None)
        if name not in STEPS or event != ("c_return" if name == "close" else "c_call"):
            return
        where = frame.f_code.co_filename
        if "importlib" in where or "shutil" in where:  # half a module stays, as what is not removed
            return
        is_main = threading.current_thread() is threading.main_thread()
        is_ours = threading.current_thread().name.startswith("dataview")
        if not is_main and (not is_ours or self.error is KeyboardInterrupt):
            return
        with self.lock:
            self.steps.append(name)
            is_next = len(self.steps) == self.at
        if is_next:
            raise self.error()


@contextlib.contextmanager
def failing(at=0, error=broken):
    """Have a step of the block fail, counted from 1; 0 is for none."""
    failure = Failing(at, error)
    threading.setprofile(failure)
    sys.setprofile(failure)
    try:
        yield failure
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
