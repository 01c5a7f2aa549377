"""Stores for tests: the smallest that `Source` allows, and a stand-in for dask's arrays."""

from __future__ import annotations

import contextlib
import resource

import numpy as np

from dataview.index import gather
from dataview.sources import Source


@contextlib.contextmanager
def no_file_beyond(size):
    """Let the system refuse to write more than so many bytes to a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class Least(Source):
    """The smallest store: a shape, a dtype and `read`."""

    def __init__(self, array):
        self.kept = array.copy()
        self.shape, self.dtype = array.shape, array.dtype

    def read(self, index, memo):
        return np.array(gather.read(self.kept, index))


class LeastWritable(Least):
    """The smallest store that can be written."""

    def write(self, index, value):
        gather.assign(self.kept, index, value)


class Raw(Source):
    """Numbers in a file, without a header."""

    def __init__(self, path, shape, dtype):
        self.path, self.shape, self.dtype = path, shape, np.dtype(dtype)

    def mapped(self, mode):
        return np.memmap(self.path, self.dtype, mode, 0, self.shape)

    def read(self, index, memo):
        return np.array(gather.read(self.mapped("r"), index))

    def write(self, index, value):
        gather.assign(self.mapped("r+"), index, value)


class Chunked:
    """A stand-in for dask's array that notes the keys of what is computed."""

    def __init__(self, data, rows, keys=(), counted=None):
        self.data = data
        self.shape, self.dtype = data.shape, data.dtype
        length = len(data) if data.ndim else 0
        sizes = tuple(min(rows, length - start) for start in range(0, length, rows))
        self.chunks = (sizes,) if data.ndim else ()
        self.keys = keys
        self.counted = [] if counted is None else counted

    def __getitem__(self, key):
        lists = [part for part in key if not isinstance(part, slice)]
        assert len(lists) < 2, "dask takes one list in a key"
        return type(self)(self.data[key], 1, (*self.keys, key), self.counted)

    def compute(self):
        self.counted.append(self.keys)
        return self.data


class Row:
    """A function of a number that returns a row of an array, and can be pickled."""

    def __init__(self, array):
        self.array = array

    def __call__(self, number):
        return self.array[number, ...]


class Numbered:
    """What looks like an array, takes only slices, and notes the keys and the elements of each."""

    def __init__(self, array):
        self.data = array.copy()
        self.shape, self.dtype = array.shape, array.dtype
        self.keys, self.elements = [], 0

    def __getitem__(self, key):
        self.keys.append(key)
        found = self.data[self.checked(key)]
        self.elements += np.size(found)
        return found

    def checked(self, key):
        for part in key if isinstance(key, tuple) else (key,):
            assert type(part) is slice, f"takes slices alone, got {part!r}"
            assert part.step is None or part.step > 0
        return key


class NumberedWritable(Numbered):
    """The same, and it can be written."""

    def __setitem__(self, key, value):
        self.data[self.checked(key)] = value


class Unnamed(Raw):
    """The same, without a path that says of which file."""

    path = None

    def __init__(self, path, shape, dtype):
        self.file, self.shape, self.dtype = path, shape, np.dtype(dtype)

    def mapped(self, mode):
        return np.memmap(self.file, self.dtype, mode, 0, self.shape)
