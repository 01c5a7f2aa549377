"""Broken files: `python tests/fuzz_openers.py --count 10000` opens so many of each format.

Bytes of real files are changed at random, by a seed; what is opened then is read in part.  Only
clean errors may come of it, in little time and memory.  A process of its own does it, since a
library that is written in C may crash: then the next process goes on behind the file that it was.
"""

import argparse
import collections
import contextlib
import faulthandler
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings

import numpy as np

import dataview as dv
import files
from dataview.errors import FieldError
from dataview.view.face import node_of

CLEAN = (ValueError, OSError, FieldError)
"""What opening and reading a broken file may raise."""

MEMORY = 4 << 30
"""The most memory that the process may ask for."""

SECONDS = 10
"""What takes longer is taken for endless."""

SEEDS = {
    "npy": [files.npy, files.npy_table],
    "npz": [files.npz, files.npz_packed, files.npz_sparse],
    "folder": [files.npy_folder],
    "lines": [files.text_lines, files.text_lines_packed],
    "json lines": [files.json_lines, files.json_lines_packed],
    "json": [files.json_array, files.json_array_packed],
    "listed": [files.listed],
    "chainer-pickle": [files.pickles],
    "csv": [files.csv, files.csv_of_excel, files.csv_packed],
    "sqlite": [files.sqlite_table, files.sqlite_keyed],
    "archive": [files.shard_tar, files.shard_zip],
    "safetensors": [files.tensors],
    "matlab": [files.matlab_5, files.matlab_5_packed],
    "netcdf": [files.netcdf_3, files.netcdf_3_large],
    "zarr": [files.zarr_2, files.zarr_3, files.zarr_consolidated, files.zarr_sharded],
    "zarr zip": [files.zarr_zip],
    "pictures": [files.pictures],
    "sounds": [files.sounds],
    "parquet": [files.parquet],
    "feather": [files.arrow_file, files.arrow_stream, files.feather],
    "hdf5": [files.hdf5, files.hdf5_newest, files.pytables, files.matlab_7, files.netcdf_4],
}
"""The formats, each with functions that make the files whose bytes are changed."""

OF_CLIENTS = {"torch": [files.tensors_of_torch]}
"""Formats whose libraries not everybody has."""

OPTIONS = {"chainer-pickle": {"format": "chainer-pickle"}}
"""What says the format of files that do not tell it."""

INSIDE = {"listed": "a.lst"}
"""The file that is opened in a folder that belongs together."""

IN_C = {"hdf5", "parquet"}
"""These are read by a library in C or C++ that crashes at some broken files; HDF5 may never end."""


# -------------------- one process --------------------


def broken(raw, chance):
    """Bytes with a few changes, most of them near the beginning or the end."""
    found = bytearray(raw)
    for _ in range(chance.choice([1, 1, 2, 4, 16])):
        if not found:
            break
        near = chance.random()
        span = min(len(found), 256 if near < 0.6 else len(found))
        place = chance.randrange(span)
        if near > 0.85:
            place = len(found) - 1 - place
        match chance.randrange(7):
            case 0:
                found[place] ^= 1 << chance.randrange(8)
            case 1:
                found[place] = chance.choice([0, 1, 127, 128, 255, ord("9"), ord("-")])
            case 2:
                size = chance.choice([2, 4, 8])
                found[place : place + size] = chance.choice([b"\xff", b"\0", b"\x7f"]) * size
            case 3:
                del found[place : place + chance.randrange(1, 64)]
            case 4:
                found[place:place] = found[chance.randrange(len(found)) :][:32]
            case 5:
                found[place:place] = chance.randbytes(chance.randrange(1, 16))
            case 6:
                if chance.random() < 0.3:
                    del found[place:]
    return bytes(found)


def break_one(seed, target, chance):
    """Copy a file or a folder, and break one of its files, or what lies where in it."""
    if seed.is_file():
        target.write_bytes(broken(seed.read_bytes(), chance))
        return
    shutil.copytree(seed, target)
    for _ in range(chance.choice([0, 0, 1, 2])):
        misplace(target, chance)
    below = sorted(path for path in target.rglob("*") if path.is_file())
    if below and chance.random() < 0.7:
        path = chance.choice(below)
        path.write_bytes(broken(path.read_bytes(), chance))


def misplace(folder, chance):
    """Remove something in a folder, put something else in its place, or give it another name."""
    below = sorted(path for path in folder.rglob("*") if not path.is_symlink())
    if not below:
        return
    path = chance.choice(below)
    other = chance.choice(below)
    aside = folder.parent / "aside"
    path.rename(aside)
    match chance.randrange(8):
        case 0:
            path.mkdir()
        case 1:
            path.write_bytes(b"")
        case 2:
            if "zarr" not in folder.name:  # zarr opens files by itself, and waits for a pipe
                os.mkfifo(path)
        case 3:
            path.symlink_to(path.name)
        case 4:
            path.symlink_to("nowhere")
        case 5:
            path.symlink_to(folder)
        case 6:
            if other.is_file():
                shutil.copy(other, path)
        case 7:
            odd = chance.choice(["é", "\udcff", ".", " ", "0", "\n"])
            aside.rename(path.with_name(odd + path.name))
            return
    shutil.rmtree(aside) if aside.is_dir() else aside.unlink()


def read_a_little(view, depth=0):
    """Read the first element of each array below a view, and small ones whole."""
    node = node_of(view)
    for name in view._fields()[:20] if depth < 5 else ():
        with contextlib.suppress(FieldError):
            read_a_little(view._field(name), depth + 1)
    for name in list(node.fields.lost)[:20]:
        with contextlib.suppress(FieldError):
            view._field(name)
    if node.dtype is None or node.shape is None:
        if node.dtype is not None and node.count:
            view[:2]()
        return
    if 0 not in node.shape:
        view[(0,) * len(node.shape)]()
    if np.prod(node.shape, dtype=float) * max(1, node.dtype.itemsize) < 1 << 16:
        view()


def opened(name, path):
    """What comes of opening and reading: 'read', or the name of a clean error."""
    try:
        with dv.open(path / INSIDE.get(name, ""), **OPTIONS.get(name, {})) as view:
            try:
                read_a_little(view)
            except CLEAN as error:
                return f"read: {named(error, path)}"
        return "read"
    except CLEAN as error:
        return f"opened: {named(error, path)}"


def named(error, path):
    """The class of an error, which has to name the file."""
    if path.name not in str(error):
        raise AssertionError(f"the error does not name the file: {error}") from error
    return type(error).__name__


def where(error):
    """The last line of the package that an error has passed."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "dataview" in pathlib.Path(frame.filename).parts]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else ""


def process(name, start, stop, seed):
    """Open files by their numbers; print the number before each, and then what came of it."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        originals = pathlib.Path(folder) / "originals"
        originals.mkdir()
        seeds = [make(originals) for make in (SEEDS | OF_CLIENTS)[name]]
        for number in range(start, stop):
            chance = random.Random(f"{name} {seed} {number}")
            original = chance.choice(seeds)
            place = pathlib.Path(folder) / str(number)
            place.mkdir()
            break_one(original, place / original.name, chance)
            print(number, end=" ", flush=True)
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            try:
                told = opened(name, place / original.name)
            except Exception as error:
                told = f"unclean: {where(error)} {type(error).__name__}: {error}"
            faulthandler.cancel_dump_traceback_later()
            print(json.dumps(told), flush=True)
            shutil.rmtree(place)


# -------------------- all of them --------------------


def fuzzed(name, count, seed=0):
    """Count what comes of so many broken files of a format; list what is not clean."""
    outcomes = collections.Counter()
    problems = []
    start = 0
    while start < count:
        command = [sys.executable, __file__, "--process", name, str(start), str(count), str(seed)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        for line in lines:
            number, _, told = line.partition(" ")
            start = int(number) + 1
            told = json.loads(told) if told else _ended(done)
            kind = told.partition(":")[0] if told.startswith(("unclean", "crash", "hang")) else told
            outcomes[kind] += 1
            if kind in ("unclean", "crash", "hang"):
                problems.append((int(number), told))
        if not lines:
            raise RuntimeError(done.stderr)
    return outcomes, problems


def ours(name, problems):
    """Problems that this package can do something about."""
    if name not in IN_C:
        return problems
    return [(number, told) for number, told in problems if told.startswith("unclean")]


def _ended(done):
    if done.returncode < 0:
        return f"crash: {signal.Signals(-done.returncode).name}"
    return f"hang: {done.stderr[-2000:]}" if "Timeout" in done.stderr else f"crash: {done.stderr}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", choices=SEEDS | OF_CLIENTS, action="append")
    parser.add_argument("--process", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process:
        name, *numbers = options.process
        process(name, *map(int, numbers))
        return
    bad = 0
    for name in options.format or SEEDS:
        outcomes, problems = fuzzed(name, options.count, options.seed)
        print(f"{name}: {dict(outcomes.most_common())}")
        for number, told in problems[:20]:
            print(f"  {number}: {told}")
        bad += len(ours(name, problems))
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
