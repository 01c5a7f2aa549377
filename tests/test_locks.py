"""A forked process finds all locks open, whatever other threads of its parent were doing."""

import pathlib
import re

import dataview as dv
from children import printed

HOLD = """
import faulthandler, importlib, os, pkgutil, sys, threading, traceback, warnings
import numpy as np
import dataview as dv

warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: the matter
KINDS = type(threading.Lock()), type(threading.RLock())

def in_a_fork(locks, work):
    '''Do some work in a forked process while another thread of its parent holds locks.'''
    held = threading.Event()
    def hold():
        for lock in locks:
            lock.acquire()
        held.set()
        threading.Event().wait()
    threading.Thread(target=hold, daemon=True).start()
    held.wait()
    child = os.fork()
    if not child:
        faulthandler.dump_traceback_later(60, exit=True)
        try:
            work()
            sys.stdout.flush()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""

OF_MODULES = f"""{HOLD}
found = {{}}
for room in pkgutil.walk_packages(dv.__path__, "dataview."):
    if not room.name.endswith("__main__"):
        module = importlib.import_module(room.name)
        own = {{f"{{room.name}}.{{name}}": thing for name, thing in vars(module).items()}}
        found |= {{name: thing for name, thing in own.items() if isinstance(thing, KINDS)}}

def work():
    for name, lock in found.items():
        print(name, lock.acquire(timeout=1))
        lock.release()

assert in_a_fork(set(found.values()), work) == 0
os._exit(0)
"""

OF_OBJECTS = f"""{HOLD}
import pickle
from dataview.index import locks

folder = sys.argv[1]
x = np.arange(3000.0).reshape(1000, 3)
names = [str(number % 7) for number in range(1000)]
os.mkdir(f"{{folder}}/parts")
for number in range(3):
    np.save(f"{{folder}}/parts/part-{{number}}.npy", x)
np.save(f"{{folder}}/x.npy", x)
with open(f"{{folder}}/x.csv", "w") as file:
    file.write("a,b\\n" + "".join(f"{{row[0]}},{{name}}\\n" for row, name in zip(x, names)))
with open(f"{{folder}}/x.jsonl", "w") as file:
    file.writelines(f'{{{{"a": {{row[0]}}}}}}\\n' for row in x)
table = dv.View(a=x[:, 0], b=x[:, 1])
for suffix in ("parquet", "feather", "h5", "zarr"):
    table._save(f"{{folder}}/t.{{suffix}}")

npy, parts = dv.open(f"{{folder}}/x.npy", "r+"), dv.open(f"{{folder}}/parts", layout="parts")
csv, lines = dv.open(f"{{folder}}/x.csv"), dv.open(f"{{folder}}/x.jsonl")
saved = [dv.open(f"{{folder}}/t.{{suffix}}") for suffix in ("parquet", "feather", "h5", "zarr")]
mapped = dv.View(x)._map(lambda row: row + 1, shape=(3,), dtype="f8")
mean, cached = npy._mean(0), mapped._cached(1 << 20)
stores = [*saved, csv, lines]
first = [store.a[0]() for store in stores], parts[0](), cached[0]()
loader = dv.View(x)._loader(100, workers=2)

def work():
    for store in stores:
        assert np.array_equal(store.a(), x[:, 0])
    assert np.array_equal(parts(), np.concatenate([x] * 3))
    assert np.array_equal(mean(), x.mean(0))
    npy[:2] = 1
    assert np.array_equal(npy[:3](), [[1, 1, 1], [1, 1, 1], x[2]])
    assert np.array_equal(cached(), x + 1)
    assert np.array_equal(np.concatenate([batch() for batch in loader]), x)
    assert dv.View(x)._median(0)().tolist() == np.median(x, 0).tolist()
    with dv.progress(True):
        assert (dv.View(np.ones(3_000_000)) * 2)._sum()() == 6e6
    dv.View(x)._save(f"{{folder}}/new.npy")

assert in_a_fork([*locks._locks], work) == 0
os._exit(0)
"""

OWN = f"""{HOLD}
from dataview.index.locks import new_lock, new_rlock

own, others, plain = new_rlock(), new_rlock(), new_lock()

def work():
    assert own._is_owned()
    own.release()
    assert not own._is_owned() and others.acquire(timeout=1) and plain.acquire(timeout=1)

with own:
    assert in_a_fork([others, plain], work) == 0
os._exit(0)
"""


def test_locks_of_modules_are_open_in_a_fork():
    lines = printed("-c", OF_MODULES).splitlines()
    assert len(lines) > 10
    assert [line for line in lines if not line.endswith(" True")] == []


def test_what_needs_locks_works_in_a_fork(tmp_path):
    printed("-c", OF_OBJECTS, tmp_path)


def test_a_lock_that_the_forking_thread_holds_stays_its_own():
    printed("-c", OWN)


def test_all_locks_are_of_this_kind():
    package = pathlib.Path(dv.__file__).parent
    made = re.compile(r"\b(?:Lock|RLock|Condition|Semaphore)\(\)")
    found = [path.name for path in package.rglob("*.py") if made.search(path.read_text("utf-8"))]
    assert found == ["locks.py"]
