"""Workers of loaders: threads and processes, the order of batches, how workers end and clean up."""

import functools
import gc
import os
import pathlib
import signal
import threading
import warnings
from multiprocessing.shared_memory import SharedMemory

import numpy as np
import pytest

from children import python
from loading import dataset, room_for_shared_memory, shared_memory

N = 11


def noisy(sample, rng):
    return {"y": sample.y, "noise": rng.random()}


def failing(sample):
    if sample.y() in (3, 4):
        raise KeyError("three")
    return {"y": sample.y}


def dying(sample):
    if sample.y() == 5:
        os._exit(3)
    return sample.y


def killed(sample):
    if sample.y() == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return sample.y


class Odd(Exception):
    """An error that no pickle brings back."""

    def __init__(self, one, two):
        super().__init__(one, two)


def oddly(sample):
    raise Odd(1, 2)


def hanging(sample):
    if sample.y() == 5:
        threading.Event().wait()
    return sample.y


def growing(sample):
    return np.full(int(sample.y()) ** 3, int(sample.y()))


class Unloadable:
    """A function that a process cannot load."""

    def __call__(self, sample):
        return sample

    def __reduce__(self):
        return os.stat, ("a file that is nowhere",)


class Unsaved:
    """A function that cannot be pickled, for a reason of its own."""

    def __call__(self, sample):
        return sample

    def __getstate__(self):
        raise OSError("disk full")


def freed(name):
    """Whether there is no shared memory of this name."""
    try:
        SharedMemory(name).close()
    except FileNotFoundError:
        return True
    return False


@pytest.fixture
def tidy(monkeypatch):
    """Assert that no shared memory and no thread is left."""
    names = shared_memory(monkeypatch)
    threads = set(threading.enumerate())
    yield
    gc.collect()
    monkeypatch.undo()
    assert all(map(freed, names))
    assert set(threading.enumerate()) <= threads


def trace(loader, count):
    found = []
    for _ in range(count):
        batch = next(loader)
        found.append((batch.y().tolist(), batch.noise().tolist(), loader.state_dict()))
    return found


@pytest.mark.usefixtures("tidy")
def test_processes_give_the_same_batches_and_resume_exactly():
    make = functools.partial(
        dataset(N)._loader, 3, "permutation", seed=4, repeat=True, transform=noisy
    )
    whole = trace(make(), 12)
    with make(workers=2, kind="process", prefetch=1) as loader:
        assert trace(loader, 12) == whole
        for cut in (1, 4, 6):
            loader.load_state_dict(whole[cut - 1][2])
            assert trace(loader, 12 - cut) == whole[cut:]
    resumed = make(workers=1)
    resumed.load_state_dict(whole[4][2])
    assert trace(resumed, 7) == whole[5:]
    resumed.close()


@pytest.mark.usefixtures("tidy")
def test_batches_of_processes_are_never_overwritten():
    d = dataset(N)
    with d._loader(1, transform=growing, workers=1, kind="process") as loader:
        batches = [batch() for batch in loader]
        for number, batch in enumerate(batches):
            np.testing.assert_array_equal(batch, np.full((1, number**3), number))
            batch += 1  # it is the caller's own
    np.testing.assert_array_equal(d.y(), np.arange(N))


@pytest.mark.usefixtures("tidy")
def test_errors_of_processes():
    with dataset(N)._loader(2, transform=failing, workers=1, kind="process") as loader:
        next(loader)
        with pytest.raises(KeyError, match="sample 3, transform failing") as caught:
            next(loader)
        assert 'raise KeyError("three")' in caught.value.__notes__[0]
    options = {"workers": 2, "kind": "process", "on_error": "replace"}
    with dataset(N)._loader(2, transform=failing, **options) as loader:
        found = [batch.y().tolist() for batch in loader]
        assert found == [[0, 1], [2, 5], [6, 7], [8, 9], [10]]
        assert [failure.row for failure in loader.errors] == [3, 4]
    with (
        dataset(N)._loader(transform=oddly, workers=1, kind="process") as loader,
        pytest.raises(RuntimeError, match="sample 0, transform oddly: Odd"),
    ):
        next(loader)


@pytest.mark.parametrize(("function", "how"), [(dying, "exit code 3"), (killed, "signal SIGKILL")])
@pytest.mark.usefixtures("tidy")
def test_a_dead_process_is_an_error_that_names_the_sample(function, how):
    with dataset(N)._loader(2, transform=function, workers=1, kind="process") as loader:
        assert [next(loader)().tolist() for _ in range(2)] == [[0, 1], [2, 3]]
        for _ in range(2):  # with a new process the second time
            with pytest.raises(RuntimeError, match=rf"ended \({how}\) at sample 5"):
                next(loader)


@pytest.mark.usefixtures("tidy")
def test_a_stuck_process_is_an_error_with_its_stack(monkeypatch):
    monkeypatch.setenv("DATAVIEW_WORKER_TIMEOUT", "3")
    with dataset(N)._loader(5, transform=hanging, workers=1, kind="process") as loader:
        next(loader)
        with pytest.raises(TimeoutError, match=r"(?s)process, sample 5.*in hanging"):
            next(loader)


def test_a_stuck_thread_is_an_error_with_its_stack(monkeypatch):
    gate = threading.Event()

    def stuck(sample):
        if sample.y() == 5:
            gate.wait()
        return sample.y

    monkeypatch.setenv("DATAVIEW_WORKER_TIMEOUT", "0.2")
    loader = dataset(N)._loader(5, transform=stuck, workers=1)
    next(loader)
    with pytest.raises(TimeoutError, match=r"(?s)for 0\.2 seconds.*thread, sample 5.*in stuck"):
        next(loader)
    gate.set()
    monkeypatch.undo()
    assert next(loader)().tolist() == [5, 6, 7, 8, 9]  # with new threads
    loader.close()


@pytest.mark.usefixtures("tidy")
def test_what_cannot_be_pickled_is_refused_with_advice():
    with (
        dataset(N)._loader(transform=lambda sample: sample, workers=1, kind="process") as loader,
        pytest.raises(TypeError, match="kind='thread'"),
    ):
        next(loader)


@pytest.mark.usefixtures("tidy")
def test_an_error_while_pickling_is_raised_as_it_is():
    with (
        dataset(N)._loader(transform=Unsaved(), workers=1, kind="process") as loader,
        pytest.raises(OSError, match="disk full"),
    ):
        next(loader)


@pytest.mark.usefixtures("tidy")
def test_what_a_process_cannot_load_is_the_same_error_each_time():
    told = []
    with dataset(N)._loader(transform=Unloadable(), workers=1, kind="process") as loader:
        for _ in range(3):
            with pytest.raises(FileNotFoundError, match="nowhere") as caught:
                next(loader)
            told.append(caught.value.__notes__)
    assert told[0] == told[1] == told[2]


def test_a_time_that_is_no_number_is_refused(monkeypatch):
    monkeypatch.setenv("DATAVIEW_WORKER_TIMEOUT", "5 min")
    loader = dataset(N)._loader(5, workers=1)
    with pytest.raises(ValueError, match="is a number of seconds; got '5 min'"):
        next(loader)
    loader.close()


@pytest.mark.usefixtures("tidy")
def test_too_little_shared_memory_is_told_and_pipes_do(monkeypatch):
    room_for_shared_memory(monkeypatch, 10)
    with (
        dataset(N)._loader(4, workers=1, kind="process") as loader,
        warnings.catch_warnings(record=True) as told,
    ):
        warnings.simplefilter("always")
        batches = [batch for batch in loader]  # noqa: C416
    assert [batch.y().tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    batches[0].x += 1
    assert "of shared memory are needed and 10 are free" in str(told[0].message)


SCRIPT = """
import multiprocessing, os, sys
from multiprocessing.shared_memory import SharedMemory
import numpy as np
import dataview as dv

names, begin = set(), SharedMemory.__init__

def noted(memory, *args, **options):
    begin(memory, *args, **options)
    names.add(memory.name)

if __name__ == "__main__":
    SharedMemory.__init__ = noted
    d = dv.View(np.arange(1000.0))
    loader = d._loader(10, workers=2, kind="process")
    next(loader)
    print(*(child.pid for child in multiprocessing.active_children()))
    print(*names, flush=True)
    ENDING
"""


@pytest.mark.parametrize(
    "ending", ["pass", "raise KeyboardInterrupt", "os.kill(os.getpid(), 9)", "loader.close()"]
)
def test_however_a_program_ends_its_workers_end_and_memory_is_freed(ending, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(SCRIPT.replace("ENDING", ending))
    run = python(script, timeout=120)
    processes, names = run.stdout.splitlines()
    assert names
    # What a killed program leaves is freed by others, which hold its pipes until they are done.
    assert all(not alive(int(pid)) for pid in processes.split())
    assert all(map(freed, names.split()))
    if ending in ("pass", "loader.close()"):
        assert (run.returncode, run.stderr) == (0, "")


def alive(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def test_a_script_without_a_guard_is_told_what_it_lacks(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "import dataview as dv\nnext(dv.View([1, 2])._loader(workers=1, kind='process'))\n"
    )
    run = python(script, timeout=120)
    assert "needs the guard `if __name__ == '__main__':`" in run.stderr
