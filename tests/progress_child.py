"""Long work as a user does it, by name, run by tests/test_progress.py in a process of its own."""

import contextlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import dataview as dv
from dataview.index import progress as room
from dataview.index.sizes import sizes

X = np.arange(40_000.0).reshape(10_000, 4)


@contextlib.contextmanager
def at_once():
    """Expect all work to take long, so that no test waits, and cut it into many pieces."""
    room.PATIENCE = room.FIRST_LOOK = room.PAUSE = -1.0
    small = {
        "part_bytes": 4096,
        "block_bytes": 4096,
        "block_elements": 512,
        "small_elements": 16,
        "file_bytes": 4096,
        "window_bytes": 1024,
        "streamed_elements": 16,
        "computed_bytes": 0,
        "quantile_bytes": 1 << 16,
    }
    with sizes.set(**small), ThreadPoolExecutor(1) as pool, dv.executor(pool):
        yield


def statistics():
    dv.View(X)._mean(axis=0)()


def computing():
    x = dv.View(X)
    (x * 2 + x * 3)(out=np.empty_like(X))


def describing():
    dv.View(X)._describe()


def quantiles():
    dv.View(X)._quantile(0.3, axis=0)()


def values():
    dv.View(X.ravel())._unique()()


def groups():
    dv.View(x=X[:, 0], key=np.arange(len(X)) % 3)._group(by="key")._mean()()


def writing():
    np.save("x.npy", X)
    d = dv.open("x.npy", mode="r+")
    d *= 2
    d._close()


def saving():
    dv.View(X)._save("saved.npy")


def reading():
    np.save("z.npy", X)
    dv.open("z.npy")()


def products():
    x = np.ones((300_000, 64))
    (dv.View(x) @ dv.View(np.ones((64, 2))))()


def parsing():
    with open("table.csv", "w") as file:
        file.write("a,b\n" + "1,2.5\n" * 800_000)
    dv.open("table.csv")._close()


def nothing():
    with dv.progress(False):
        statistics()


def chosen():
    with dv.progress():
        statistics()


def epoch():
    for batch in dv.View(X)._loader(1000, workers=2, progress=True):
        batch()


def interrupted():
    """Wait, in the midst of a change of a file, for Ctrl-C."""
    np.save("y.npy", X)
    d = dv.open("y.npy", mode="r+")

    def doubled(row):
        if row()[0] == X[5000, 0]:
            print("<ready>", file=sys.stderr, flush=True)
            time.sleep(600)
        return row() * 2

    try:
        d[...] = dv.View(X)._map(doubled, shape=(4,), dtype=float)
    except KeyboardInterrupt:
        d._close()
        same = np.array_equal(np.load("y.npy"), X)
        print("as before" if same else "changed", flush=True)


if __name__ == "__main__":
    with at_once():
        for name in sys.argv[1:]:
            globals()[name]()
            print(f"<{name}>", file=sys.stderr, flush=True)
