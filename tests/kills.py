"""Kill processes while they update files, at each step or at random moments; count what is left.

A file has to be as it was before the update, or as it is after it.  To give 200 kills at random
moments to each case, and to kill one of them at each step of its updates:

    python tests/kills.py --kills 200
    python tests/kills.py npy --kills 0 --steps 1000
"""

import argparse
import collections
import mmap
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings

import numpy as np

import dataview as dv
from dataview.index.sizes import sizes
from dataview.write.journal import Journal

SMALL = {
    "block_bytes": 1 << 12,
    "file_bytes": 1 << 13,
    "noted_bytes": 1 << 12,
    "window_bytes": 1 << 10,
    "streamed_elements": 64,
    "undo_bytes": 1 << 13,
    "recorded_bytes": 1 << 14,
}
"""Sizes with which an update of a small file has many blocks, and is too large to be kept."""

BEFORE, AFTER, TORN, FAILED = range(4)


def numbers(rows=3000):
    return np.arange(rows * 4, dtype="f8").reshape(rows, 4) % 97


# --- cases: how a file is made, and how it is updated ------------------------------------------


def npy(folder, array):
    np.save(folder / "x.npy", array)
    return folder / "x.npy"


def fields(folder, array):
    """Two arrays in a folder, updated together."""
    (folder / "x").mkdir()
    np.save(folder / "x" / "a.npy", array)
    np.save(folder / "x" / "b.npy", array[::-1])
    return folder / "x"


def two(folder, array):
    """Two files that are opened by their own names, and updated together."""
    (folder / "two").mkdir()
    np.save(folder / "two" / "a.npy", array)
    np.save(folder / "two" / "b.npy", array[::-1])
    return folder / "two"


def hdf5(folder, array, libver="earliest", **options):
    import h5py

    with h5py.File(folder / "x.h5", "w", libver=libver) as file:
        file.create_dataset("a", data=array, **options)
        file.create_dataset("b", data=array[::-1])
    return folder / "x.h5"


def hdf5_that_grows(folder, array):
    import h5py

    with h5py.File(folder / "x.h5", "w") as file:
        for name, compression in (("a", None), ("b", "gzip")):
            options = {"chunks": (500, 4), "maxshape": (None, 4), "compression": compression}
            file.create_dataset(name, data=array[::-1], **options)
    return folder / "x.h5"


def zarr(folder, array, **options):
    import zarr as library

    group = library.open_group(folder / "x.zarr", mode="w")
    for name, data in (("a", array), ("b", array[::-1])):
        group.create_array(name, data=np.ascontiguousarray(data), **options)
    return folder / "x.zarr"


def tensors(folder, array):
    from safetensors.numpy import save_file

    save_file({"a": array, "b": array[::-1].copy()}, folder / "x.safetensors")
    return folder / "x.safetensors"


def netcdf(folder, array):
    from scipy.io import netcdf_file

    with netcdf_file(folder / "x.nc", "w") as file:
        for name, length in zip("rc", array.shape, strict=True):
            file.createDimension(name, length)
        for name, data in (("a", array), ("b", array[::-1])):
            file.createVariable(name, "f8", ("r", "c"))[:] = data
    return folder / "x.nc"


def records(folder, array):
    table = np.zeros(len(array), [("n", "i4"), ("a", "f8", 3)])
    table["n"], table["a"] = array[:, 0], array[:, 1:]
    return npy(folder, table)


def centred(d):
    d -= d._mean(axis=0)


def each_centred(d):
    d.a -= d.a._mean(axis=0)


def in_any_order(d):
    """Update most rows, in an order that goes to and fro between chunks."""
    rows = np.random.default_rng(0).permutation(len(d.a))[100:]
    d.a[rows] -= d.a._mean(axis=0)


def both(d):
    d[...] = {"a": d.a * 2 - d.b, "b": d.b + 1}


def shifted(d):
    d[1:] = d[:-1]


def reversed_(d):
    d[...] = d[::-1]


def filled(d):
    d[...] = 7


def written(d):
    d._write(numbers()[::-1] * 3)


def square_roots(d):
    np.sqrt(d, out=d)


def scattered(d):
    d[np.random.default_rng(0).permutation(len(d))[: len(d) // 2]] *= 2


def both_files(path, **options):
    """Update two files by one view of both."""
    d = dv.View(**{name: dv.open(path / f"{name}.npy", "r+", **options) for name in ("a", "b")})
    both(d)


def rows_of_both_files(path, **options):
    d = dv.View(**{name: dv.open(path / f"{name}.npy", "r+", **options) for name in ("a", "b")})
    rows_of_each(d)


def more_rows(d):
    d._append({"a": numbers(1300) + 1, "b": numbers(1300) + 2})


def columns(d):
    d[:, 1:3] += 1


def two_rows(d):
    d[123:125] = -5  # across the edge of a page


def rows_of_one(d):
    """Rows of one of several arrays, which lie in one run of bytes."""
    d.a[100:300] = d.b[:200]


def rows_of_each(d):
    """Rows of several arrays, updated together."""
    d[127:129] = {"a": d.b[:2], "b": d.a[:2]}


def few_rows(d):
    d[100:400:3] = 5


def masked(d):
    d[d > 50] = 0


PLAIN = {"chunks": (500, 4)}
ACROSS = {"chunks": (1500, 2)}
"""Chunks of which a row, and a column, are too large for a block."""

CASES = {
    "npy": (npy, [centred, shifted, reversed_, filled, written, square_roots, columns]),
    "npy-rows": (npy, [scattered, few_rows, two_rows, masked]),
    "npy-fortran": (lambda f, a: npy(f, np.asfortranarray(a)), [centred, columns, scattered]),
    "npy-records": (records, [each_centred]),
    "folder": (fields, [each_centred, both, rows_of_each, rows_of_one]),
    "folder-append": (fields, [more_rows]),
    "two-files": (two, [both_files, rows_of_both_files]),
    "hdf5": (hdf5, [each_centred, both, rows_of_each]),
    "hdf5-chunks": (lambda f, a: hdf5(f, a, "latest", **PLAIN), [each_centred, both]),
    "hdf5-tall": (lambda f, a: hdf5(f, a, "latest", chunks=(3000, 1)), [both]),
    "hdf5-across": (lambda f, a: hdf5(f, a, "latest", **ACROSS), [each_centred, both]),
    "hdf5-gzip": (lambda f, a: hdf5(f, a, **PLAIN, compression="gzip"), [each_centred, both]),
    "hdf5-append": (hdf5_that_grows, [more_rows]),
    "safetensors": (tensors, [each_centred, both, rows_of_each, rows_of_one]),
    "netcdf": (netcdf, [each_centred, rows_of_one]),
    "zarr": (lambda f, a: zarr(f, a, **PLAIN), [each_centred, both, rows_of_each]),
    "zarr-plain": (
        lambda f, a: zarr(f, a, **PLAIN, compressors=None),
        [each_centred, in_any_order],
    ),
    "zarr-tall": (lambda f, a: zarr(f, a, chunks=(3000, 1)), [each_centred]),
    "zarr-across": (lambda f, a: zarr(f, a, **ACROSS), [each_centred, both]),
    "zarr-shards": (lambda f, a: zarr(f, a, chunks=(125, 4), shards=(500, 4)), [each_centred]),
    "zarr-append": (lambda f, a: zarr(f, a, **PLAIN), [more_rows]),
}


# --- kills -------------------------------------------------------------------------------------


class Killer:
    """Kills its process at a step: a call that changes a file, before it or in the midst of it.

    That a block is done is a step, too: its mark may be set in memory that is shared with a file.
    """

    def __init__(self, at, half):
        self.at, self.half = at, half
        self.counted = mmap.mmap(-1, 8)  # shared with the process that forks
        self.lock = threading.RLock()  # a mark may be a call of its own

    @property
    def count(self):
        return int.from_bytes(self.counted[:8], "little")

    def install(self):
        for name in ("pwrite", "pwritev", "ftruncate", "unlink", "replace", "rmdir", "open"):
            setattr(os, name, self.wrapped(name, getattr(os, name)))
        Journal.mark = self.wrapped("mark", Journal.mark)

    def wrapped(self, name, function):
        def step(*args, **options):
            if name == "open" and not args[1] & os.O_CREAT:
                return function(*args, **options)
            with self.lock:
                self.counted[:8] = (self.count + 1).to_bytes(8, "little")
                if self.count == self.at:
                    if self.half and name.startswith("pwrite"):
                        self.write_half(name, function, *args)
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*args, **options)

        return step

    def write_half(self, name, function, handle, data, place):
        part = memoryview(data[0] if name == "pwritev" else data)
        if place % mmap.PAGESIZE + part.nbytes > mmap.PAGESIZE:  # else all is written or nothing
            half = part.cast("B")[: part.nbytes // 2]
            function(handle, (half,) if name == "pwritev" else half, place)
        else:  # the system changes the time of a file before its bytes
            os.utime(handle)


def in_child(work):
    """Do something in a forked process; return its exit status, negative if it was killed."""
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    status = FAILED
    try:
        status = work() or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def update(path, change, killer=None):
    """Update a file, killed on the way perhaps."""

    def work():
        if killer is not None:
            killer.install()
        updated(path, change)
        return 0

    return in_child(work)


def updated(path, change):
    with sizes.set(**SMALL), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if change in (both_files, rows_of_both_files):
            change(path, durable=DURABLE)
        else:
            change(dv.open(path, "r+", durable=DURABLE))


DURABLE = os.environ.get("DURABLE", "process")


def contents(path):
    """Return the data of a file by the formats' own libraries, which know of no journal."""
    if path.suffix == ".npy":
        return [np.load(path)]
    if path.suffix == ".h5":
        import h5py

        with h5py.File(path) as file:
            return [file[name][...] for name in ("a", "b")]
    if path.suffix == ".safetensors":
        from safetensors.numpy import load_file

        return [load_file(path)[name] for name in ("a", "b")]
    if path.suffix == ".nc":
        from scipy.io import netcdf_file

        with netcdf_file(path, mmap=False) as file:
            return [file.variables[name][:].astype("f8") for name in ("a", "b")]
    if path.suffix == ".zarr":
        import zarr as library

        group = library.open_group(path, mode="r")
        return [group[name][...] for name in ("a", "b")]
    return [np.load(path / f"{name}.npy") for name in ("a", "b")]


def recovered(path, before, after, killer=None):
    """Open a file as who comes next, and say what it holds."""

    def work():
        if killer is not None:
            killer.install()
        with sizes.set(**SMALL), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            is_two = path.name == "two"
            dv.open(path / "b.npy" if is_two else path)._close()
            found = contents(path)
            if is_two:  # what is left beside a file is removed when that one is opened
                dv.open(path / "a.npy")._close()
        left = [str(name) for name in path.parent.rglob(".*journal*")]
        if left:
            print("left:", left, file=sys.stderr)
            return FAILED
        for state, expected in ((BEFORE, before), (AFTER, after)):
            if all(map(np.array_equal, found, expected)):
                return state
        return TORN

    return in_child(work)


class Files:
    """A case's file before and after its update, made anew for each kill."""

    def __init__(self, make, change):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kills-"))
        self.made = pathlib.Path(tempfile.mkdtemp(prefix="kills-"))
        assert in_child(lambda: make(self.made, numbers()) and 0) == 0
        self.change = change
        path = self.fresh()
        self.before = self.read(path)
        assert update(path, change) == 0
        self.after = self.read(path)
        assert not all(map(np.array_equal, self.before, self.after))

    def fresh(self):
        shutil.rmtree(self.folder)
        shutil.copytree(self.made, self.folder)
        return next(self.folder.iterdir())

    def read(self, path):
        """Return the contents, read in a child: libraries have threads, which no fork has."""
        kept = self.folder / "contents.npz"
        assert in_child(lambda: np.savez(kept, *contents(path))) == 0
        with np.load(kept) as found:
            return [found[name] for name in found.files]

    def steps(self, most):
        """Return the numbers of at most so many steps, spread over those of an update."""
        killer = Killer(0, False)
        assert update(self.fresh(), self.change, killer) == 0
        return sorted({*np.linspace(1, killer.count, min(most, killer.count)).astype(int).tolist()})

    def states_of_steps(self, steps, half=False, again=False):
        """Yield what a kill at each step leaves; `again` kills the recovery at each step, too."""
        for number in steps:
            path = self.fresh()
            status = update(path, self.change, Killer(number, half))
            if status == 0:  # threads take turns otherwise each time, and so do steps
                continue
            assert status == -signal.SIGKILL, status
            for more in range(1, 1000) if again else ():
                status = recovered(path, self.before, self.after, Killer(more, half))
                if status != -signal.SIGKILL:
                    break
            yield recovered(path, self.before, self.after)

    def state_at_random(self, chance, longest):
        """Return what a kill after a random time leaves."""
        path = self.fresh()
        process = os.fork()
        if not process:
            try:
                updated(path, self.change)
            finally:
                os._exit(0)
        time.sleep(chance.random() * longest)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        return recovered(path, self.before, self.after)

    def close(self):
        for folder in (self.folder, self.made):
            shutil.rmtree(folder, ignore_errors=True)


NAMES = ("before", "after", "TORN", "FAILED")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], default=[])
    parser.add_argument("--kills", type=int, default=200, help="at random moments, for each case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=0, help="at so many steps of each update")
    parser.add_argument("--again", action="store_true", help="kill the recovery at each step, too")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    worst = 0
    for name in options.cases or CASES:
        make, changes = CASES[name]
        found = collections.Counter()
        for change in changes:
            files = Files(make, change)
            start = time.perf_counter()
            update(files.fresh(), change)
            longest = 1.2 * (time.perf_counter() - start)
            for half in (False, True) if options.steps else ():
                steps = files.steps(options.steps)
                for state in files.states_of_steps(steps, half, options.again):
                    found[NAMES[state]] += 1
            for _ in range(-(-options.kills // len(changes))):
                found[NAMES[files.state_at_random(chance, longest)]] += 1
            files.close()
        print(f"{name:12}", dict(found), flush=True)
        worst += found["TORN"] + found["FAILED"]
    return worst > 0


if __name__ == "__main__":
    sys.exit(main())
