"""Loads many rows with a ragged field, and prints the memory held on the way and what is left.

The arguments are the number of rows, that of workers and their kind.  It prints JSON: `held`, the
bytes of this process and its workers, measured on the way, and `left`, the names of the threads,
the processes and the shared memory that were not there before.
"""

import gc
import json
import os
import sys
import threading
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import numpy as np

import dataview as dv

SIZE, LONGEST, MEASURED = 64, 39, 50


def family():
    """Give the numbers of this process and of those below it."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        parents[int(folder.name)] = int(state[1])
    found = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def held():
    """Give the bytes of memory that no file and no other process has."""
    total = 0
    for number in family():
        try:
            status = Path(f"/proc/{number}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(line.split()[1]) for line in status.splitlines() if "RssAnon" in line)
    return total << 10


def there(names):
    """Give the threads and processes that there are, and which of this shared memory.

    Two processes of Python's own stay until the program ends: one that starts workers, which are
    its children, and one that looks after shared memory.
    """
    gc.collect()
    others = {f"process {number}" for number in family() if not is_of_python(number)}
    threads = {f"thread {thread.name}" for thread in threading.enumerate()}
    return (
        others | threads | {f"memory {name}" for name in names if Path("/dev/shm", name).exists()}
    )


def is_of_python(number):
    """Whether a process is one that multiprocessing keeps: a child with one of these programs."""
    parent = (Path("/proc") / str(number) / "stat").read_text().rpartition(")")[2].split()[1]
    program = (Path("/proc") / str(number) / "cmdline").read_text()
    return int(parent) == os.getpid() and ("forkserver" in program or "tracker" in program)


def shared_memory():
    """Give the list of the names of all shared memory that is made from now on."""
    names, begin = [], SharedMemory.__init__

    def noted(memory, *args, **options):
        begin(memory, *args, **options)
        names.append(memory.name)

    SharedMemory.__init__ = noted
    return names


def data(rows):
    """Give sentences with a label."""
    lengths = np.random.default_rng(0).integers(0, LONGEST + 1, rows)
    words = np.arange(lengths.sum(), dtype="i4")
    return dv.View(words=dv.ragged(words, lengths=lengths), label=np.arange(rows))


def main(rows, workers, kind):
    """Load all rows once."""
    d, names = data(rows), shared_memory()
    before = there(names)
    options = {"workers": workers, "kind": kind} if workers else {}
    found, count, total = [], 0, 0
    with d._loader(SIZE, sampler="permutation", **options) as loader:
        for number, batch in enumerate(loader):
            count += len(batch)
            total += int(batch.label().sum()) + 0 * len(batch.words())
            if number % max(1, rows // SIZE // MEASURED) == 0:
                found.append(held())
    assert (count, total) == (rows, rows * (rows - 1) // 2)
    del loader, batch
    print(json.dumps({"held": found, "left": sorted(there(names) - before)}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
