"""Workers of loaders: threads and processes, the order of batches, how workers end and clean up."""

import contextlib
import errno
import functools
import gc
import io
import multiprocessing
import os
import pathlib
import signal
import sys
import threading
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.shared_memory import SharedMemory

import numpy as np
import pytest

import dataview as dv
from children import python
from dataview.index.sizes import sizes
from loading import dataset, flat, room_for_shared_memory, shared_memory

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


class Complaint(Warning):
    """A warning that no pickle brings back."""

    def __init__(self, one, two):
        super().__init__(one)


def complaining(sample):
    warnings.warn("a complaint", UserWarning, stacklevel=1)
    warnings.warn(Complaint("odd", 2), stacklevel=1)
    return sample.y


KINDS = [{"kind": "thread"}, {"kind": "process"}]


@pytest.mark.usefixtures("tidy")
@pytest.mark.parametrize("action", ["always", "default", "ignore", "error"])
def test_warnings_of_processes_are_those_of_threads(action):
    def given(options):
        with (
            warnings.catch_warnings(record=True) as caught,
            dataset(N)._loader(4, transform=complaining, workers=1, **options) as loader,
        ):
            warnings.simplefilter("ignore")
            warnings.filterwarnings(action, "a complaint", UserWarning, __name__)
            found = []
            with contextlib.suppress(UserWarning):
                found += [batch().tolist() for batch in loader]
        return found, [(str(one.message), one.filename, one.lineno) for one in caught]

    expected, found = map(given, KINDS)
    assert found == expected and bool(found[1]) == (action in ("always", "default"))


@pytest.mark.usefixtures("tidy")
def test_a_warning_that_cannot_be_sent_is_told_with_its_text():
    options = {"transform": complaining, "workers": 1, "kind": "process"}
    with warnings.catch_warnings(), dataset(4)._loader(4, **options) as loader:
        warnings.simplefilter("ignore", (UserWarning, Complaint))
        warnings.filterwarnings("error", "Complaint: odd", RuntimeWarning)
        warnings.filterwarnings("always", "odd", Complaint)
        with pytest.raises(RuntimeWarning, match="Complaint: odd"):
            next(loader)


@pytest.mark.usefixtures("tidy")
@pytest.mark.parametrize("mode", ["raise", "ignore", "call", "log", "warn"])
def test_errors_of_numbers_in_processes_are_those_of_threads(mode):
    x = dataset(N).x * 0.0
    quotients = dv.View(z=x / x)

    def given(options):
        called, log = [], io.StringIO()
        call = log if mode == "log" else lambda *told: called.append(told)
        with (
            warnings.catch_warnings(record=True) as caught,
            np.errstate(all=mode, call=call),
            quotients._loader(3, fields="z", workers=1, **options) as loader,
        ):
            warnings.simplefilter("always")
            try:
                found = np.isnan(next(loader)).tolist()
                assert mode != "raise"
            except FloatingPointError as error:
                found = str(error)
        return found, called[:1], log.getvalue()[:20], [str(one.message) for one in caught][:1]

    expected, found = map(given, KINDS)
    assert found == expected


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
        cause = caught.value.__cause__
        assert (type(cause), cause.args, cause.__cause__) == (KeyError, ("three",), None)
    options = {"workers": 2, "kind": "process", "on_error": "replace"}
    with dataset(N)._loader(2, transform=failing, **options) as loader:
        found = [batch.y().tolist() for batch in loader]
        assert found == [[0, 1], [2, 5], [6, 7], [8, 9], [10]]
        assert [failure.row for failure in loader.errors] == [3, 4]
        assert loader.errors[0].error.__cause__.args == ("three",)
    with (
        dataset(N)._loader(transform=oddly, workers=1, kind="process") as loader,
        pytest.raises(RuntimeError, match="sample 0, transform oddly: Odd"),
    ):
        next(loader)


def with_a_lock(sample):
    if sample.y() == 1:
        raise ValueError("one")
    return {"y": sample.y(), "lock": np.array(threading.Lock(), object)}


def without_locks(samples):
    return {"y": np.array([int(sample["y"]) for sample in samples])}


@pytest.mark.usefixtures("tidy")
def test_samples_that_only_a_batch_of_can_be_sent_are_replaced():
    options = {"workers": 1, "kind": "process", "on_error": "replace", "collate": without_locks}
    with dataset(5)._loader(2, transform=with_a_lock, **options) as loader:
        assert [batch.y().tolist() for batch in loader] == [[0, 2], [3, 4]]
        assert [failure.row for failure in loader.errors] == [1]


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
    with dataset(N)._loader(5, transform=hanging, workers=1, kind="process") as loader:
        next(loader)
        monkeypatch.setenv("DATAVIEW_WORKER_TIMEOUT", "1")
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


class TellsWho:
    """A function of row numbers that notes in a file which process has asked it."""

    def __init__(self, path):
        self.path = path

    def __call__(self, number):
        with open(self.path, "a") as file:
            file.write(f"{os.getpid()} ")
        return number * 7 % 5


ASKED = {
    "sorted": lambda d: d._sorted(by="label")._minibatches(4),
    "sorted codes": lambda d: d._sorted(by=d.label._codes())._minibatches(4),
    "labels": lambda d: d._minibatches(
        4, sampler=dv.samplers.label_permutation(by=d.label._codes()), num_batches=3
    ),
    "bucket": lambda d: d._minibatches(4, sampler=dv.samplers.bucket(by=d.label, window=2))[1],
    "shuffled batches": lambda d: d._minibatches(
        4, sampler=dv.samplers.weighted(by=d.label._codes())
    )._shuffled(0),
    "restricted": lambda d: d._minibatches(
        2, sampler=dv.samplers.restricted(dv.samplers.bucket(by=d.label), [0, 1] * 6, 0)
    )[1],
}


@pytest.mark.usefixtures("tidy")
@pytest.mark.parametrize("name", ASKED)
def test_what_an_order_waits_for_is_taken_before_work_is_sent(name, tmp_path):
    labels = dv.View(TellsWho(tmp_path / "asked"), _length=12)._probe()
    d = dv.View(x=np.arange(12), label=labels)
    (tmp_path / "asked").unlink()
    batches = ASKED[name](d)
    assert not (tmp_path / "asked").exists()
    expected = [np.ravel(batch.x()).tolist() for batch in ASKED[name](d)]
    (tmp_path / "asked").unlink()
    with batches.x._loader(1, workers=1, kind="process") as loader:
        assert [batch().reshape(-1).tolist() for batch in loader] == expected
    assert set((tmp_path / "asked").read_text().split()) == {str(os.getpid())}


def test_what_an_order_waits_for_is_taken_before_blocks_are_sent(tmp_path):
    labels = dv.View(TellsWho(tmp_path / "asked"), _length=120)._probe()
    d = dv.View(x=np.arange(120.0), label=labels)
    (tmp_path / "asked").unlink()
    found = np.sqrt(d._sorted(by=d.label._codes()).x) * 2 + 1
    context = multiprocessing.get_context("spawn")
    with (
        sizes.set(small_elements=2, block_elements=4),
        ProcessPoolExecutor(1, context) as pool,
        dv.executor(pool),
    ):
        values = found()
    assert set((tmp_path / "asked").read_text().split()) == {str(os.getpid())}
    order = np.argsort(np.arange(120) * 7 % 5, kind="stable")
    assert values.tolist() == (np.sqrt(order) * 2 + 1).tolist()


@pytest.mark.usefixtures("tidy")
def test_what_cannot_be_pickled_is_refused_with_advice():
    lock = threading.Lock()

    def locked(sample):
        with lock:
            return sample

    with (
        dataset(N)._loader(transform=locked, workers=1, kind="process") as loader,
        pytest.raises(TypeError, match="leave out what has no pickle, or use kind='thread'"),
    ):
        next(loader)


@pytest.mark.usefixtures("tidy")
def test_a_lambda_goes_to_processes():
    shift = 10
    d = dataset(4)
    with d._loader(2, transform=lambda s: s.y + shift, workers=1, kind="process") as loader:
        assert [batch().tolist() for batch in loader] == [[10, 11], [12, 13]]


@pytest.mark.usefixtures("tidy")
def test_a_loader_that_is_let_go_ends_its_workers_though_a_lambda_was_sent():
    gc.collect()
    gc.disable()
    try:
        for _ in dataset(4)._loader(2, transform=lambda s: s.y, workers=1, kind="process"):
            pass
        left = [one.name for one in threading.enumerate() if one.name == "dataview-loader"]
    finally:
        gc.enable()
    assert not left


@pytest.mark.usefixtures("tidy")
def test_without_cloudpickle_a_lambda_is_refused_with_two_ways_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with (
        dataset(N)._loader(transform=lambda sample: sample, workers=1, kind="process") as loader,
        pytest.raises(TypeError, match="install cloudpickle, or use kind='thread'") as caught,
    ):
        next(loader)
    assert "lambda" in str(caught.value)


NOTEBOOK = """
import typing, numpy as np, dataview as dv

class Pair(typing.NamedTuple):
    x: object
    y: object

class Bad(Exception):
    pass

def doubled(sample):
    if sample() == 3:
        raise Bad("three")
    return Pair(sample * 2, sample)

with dv.View(np.arange(4))._loader(2, transform=doubled, workers=1, kind="process") as loader:
    batch = next(loader)
    print(batch.x, type(batch) is Pair)
    try:
        next(loader)
    except Bad as error:
        print(error, type(error.__cause__) is Bad)
"""


def test_what_a_notebook_defines_goes_to_processes_and_back():
    # As in a notebook, what `-c` defines is in no file that a worker could import.
    run = python("-c", NOTEBOOK)
    assert (run.stdout, run.stderr) == ("[0 2] True\nsample 3, transform doubled: three True\n", "")


def test_without_cloudpickle_what_a_notebook_defines_is_refused():
    run = python("-c", "import sys; sys.modules['cloudpickle'] = None\n" + NOTEBOOK)
    assert "in no file; kind='process' sends" in run.stderr.splitlines()[-1]
    assert "install cloudpickle, or use kind='thread'" in run.stderr.splitlines()[-1]


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


@pytest.mark.usefixtures("tidy")
def test_shared_memory_that_is_free_and_gone_when_it_is_taken_is_told(monkeypatch):
    def full(handle, place, count):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with (
        pytest.warns(RuntimeWarning, match="bytes of shared memory are needed"),
        dataset(N)._loader(4, workers=2, kind="process") as loader,
    ):
        batches = list(loader)
    assert [batch.y().tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]


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
    assert run.stderr.count("Error") == 1, run.stderr
    assert "needs the guard `if __name__ == '__main__':`" in run.stderr.splitlines()[-1]


class EndingWhereItIsSent:
    """A function with which a worker is ended by a signal as soon as it loads it."""

    def __init__(self, number, process=0):
        self.number = number
        if process not in (0, os.getpid()):
            os.kill(os.getpid(), number)

    def __call__(self, sample):
        return {"y": sample.y}

    def __reduce__(self):
        return EndingWhereItIsSent, (self.number, os.getpid())


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (signal.SIGKILL, "if memory runs out: fewer workers="),
        (signal.SIGSEGV, "a library crashes in it"),
        (signal.SIGTERM, "someone has ended it"),
    ],
)
def test_a_worker_that_a_signal_ends_at_its_start_does_not_lack_a_guard(number, told):
    loader = dataset(N)._map(EndingWhereItIsSent(number))._loader(2, workers=1, kind="process")
    before = rf"signal {number.name}\) before its first sample; .*{told}"
    with pytest.raises(RuntimeError, match=before) as caught:
        next(iter(loader))
    assert "__main__" not in str(caught.value)
    loader.close()


def test_a_function_below_the_guard_is_told_where_to_stand(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "import dataview as dv\n"
        "if __name__ == '__main__':\n"
        "    def own(sample):\n"
        "        return sample\n"
        "    with dv.View([1])._loader(transform=own, workers=1, kind='process') as loader:\n"
        "        next(loader)\n"
    )
    run = python(script, timeout=120)
    assert "attribute 'own'" in run.stderr
    assert "define it at the top of the script, above the guard" in run.stderr


# --- workers that do not end by themselves -----------------------------------------------------


def deaf(sample):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return hanging(sample)


def stopped(sample):
    if sample.y() == 5:
        os.kill(os.getpid(), signal.SIGSTOP)
    return sample.y


def endless():
    yield {"y": 0}
    threading.Event().wait()


SLOW = 10
"""More seconds than closing takes on a busy machine; a process that is waited for takes longer."""


@pytest.mark.parametrize("function", [deaf, stopped, hanging])
@pytest.mark.usefixtures("tidy")
def test_a_worker_that_does_not_end_does_not_delay_the_end(function):
    loader = dataset(N)._loader(1, transform=function, workers=2, kind="process")
    for _ in range(5):
        next(loader)
    workers = multiprocessing.active_children()
    assert len(workers) == 2
    begin = time.monotonic()
    loader.close()
    assert time.monotonic() - begin < SLOW
    assert not any(alive(worker.pid) for worker in workers)
    with pytest.raises(ValueError, match="closed"):
        next(loader)


@pytest.mark.usefixtures("tidy")
def test_a_worker_that_was_stopped_is_an_error_that_says_so(monkeypatch):
    with dataset(N)._loader(5, transform=stopped, workers=1, kind="process") as loader:
        next(loader)
        monkeypatch.setenv("DATAVIEW_WORKER_TIMEOUT", "1")
        begin = time.monotonic()
        with pytest.raises(TimeoutError, match="sample 5:\nit does not answer: it is stopped"):
            next(loader)
        assert time.monotonic() - begin < 1 + SLOW


def test_a_stream_that_hangs_is_an_error_at_once(monkeypatch):
    monkeypatch.setenv("DATAVIEW_WORKER_TIMEOUT", "0.2")
    with dv.View(endless)._loader(1, workers=1) as loader:
        begin = time.monotonic()
        with pytest.raises(TimeoutError, match="in endless"):
            for _ in loader:
                pass
        assert time.monotonic() - begin < SLOW


@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"prefetch": 2}])
@pytest.mark.usefixtures("tidy")
def test_two_threads_share_the_batches_of_one_loader(options):
    n = 200
    found, failed = [], []

    def drain():
        try:
            for batch in loader:
                found.append(batch.y().tolist())
        except Exception as error:
            failed.append(error)

    with dataset(n)._loader(3, **options) as loader:
        threads = [threading.Thread(target=drain) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
            assert not thread.is_alive()
    assert not failed
    assert sorted(flat(found)[:n]) == list(range(n))


def test_a_loader_that_another_thread_closes_does_not_wait_for_its_batch():
    gate, asked = threading.Event(), threading.Event()

    def stuck(sample):
        asked.set()
        gate.wait(timeout=60)
        return sample.y

    loader = dataset(N)._loader(5, transform=stuck, workers=1)

    def close():
        asked.wait(timeout=60)
        loader.close()

    closing = threading.Thread(target=close)
    closing.start()
    with pytest.raises(ValueError, match="closed"):
        next(loader)
    gate.set()
    closing.join()


def test_a_fork_that_ends_does_not_end_the_workers_of_its_parent(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(FORKING)
    run = python(script, timeout=120)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.split() == ["child", "20", "parent", "20", "30", "40", "50"]


FORKING = """
import os, sys, warnings
import numpy as np
import dataview as dv

if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of newer Pythons, about forks of processes with threads
    with dv.View(np.arange(60))._loader(10, workers=1, kind="process", prefetch=1) as loader:
        next(loader), next(loader)
        child = os.fork()
        if not child:
            print("child", next(loader)()[0], flush=True)  # by workers of its own
            sys.exit()
        assert os.waitpid(child, 0)[1] == 0
        print("parent", *(batch()[0] for batch in loader))
"""


def test_a_loader_whose_threads_could_not_start_is_closed(monkeypatch):
    begin = threading.Thread.start

    def start(thread):
        if thread.name == "dataview-loader":
            raise RuntimeError("can't start new thread")
        begin(thread)

    loader = dataset(N)._loader(5, workers=2)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="can't start"):
                next(loader)
    assert next(loader).y().tolist() == [0, 1, 2, 3, 4]
    loader.close()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        loader = dataset(N)._loader(5, workers=2)
        with pytest.raises(RuntimeError, match="can't start"):
            next(loader)
        loader.close()


@pytest.mark.parametrize("options", [{"workers": 2}, {"prefetch": 2}], ids=str)
def test_a_loader_that_ended_with_an_error_leaves_no_threads(options):
    view = dv.View(lambda number: 1 / (number - 50), _length=200)
    before = threading.active_count()
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            for _ in view._loader(10, **options):
                pass
    gc.collect()
    assert threading.active_count() == before
