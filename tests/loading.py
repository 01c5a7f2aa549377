"""Small data for loaders, and the row numbers of their batches."""

import itertools
import os
import types
from multiprocessing.shared_memory import SharedMemory

import numpy as np

import dataview as dv
from counting import Counting


def dataset(n):
    """Give rows of two numbers, `x`, with their row numbers, `y`."""
    return dv.View(x=np.arange(2.0 * n).reshape(n, 2), y=np.arange(n))


def numbered(bad=(), error=ValueError):
    """Give a function that makes samples by number, fails for some, and notes its calls."""
    return Counting(lambda number: {"y": number}, bad, error)


def rows(loader):
    """Give the row numbers of the batches of one `for`."""
    return [batch.y().tolist() for batch in loader]


def shared_memory(monkeypatch):
    """Give the list of the names of all shared memory from now on."""
    names, begin = [], SharedMemory.__init__

    def noted(memory, *args, **options):
        begin(memory, *args, **options)
        names.append(memory.name)

    monkeypatch.setattr(SharedMemory, "__init__", noted)
    return names


def room_for_shared_memory(monkeypatch, size):
    """Make the system report this many free bytes of shared memory."""
    found = types.SimpleNamespace(f_bavail=size, f_frsize=1)
    monkeypatch.setattr(os, "statvfs", lambda path: found)


def flat(batches):
    """Give the row numbers of some batches as one list."""
    return list(itertools.chain.from_iterable(batches))
