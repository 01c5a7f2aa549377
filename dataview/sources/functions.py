"""Samples made by a function of their number, once the shape of one is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dataview.errors import ReadOnlyError
from dataview.index import Index, gather
from dataview.sources.protocol import Memo


class FunctionSource:
    """Row i is member `path` of `sample(i)`; each sample is made once per evaluation."""

    __slots__ = ("dtype", "path", "read_sample", "sample", "shape")
    lends = False
    writable = False

    def __init__(
        self,
        sample: Callable[[int], Any],
        count: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        path: tuple[str, ...],
        read_sample: Callable[[Any, tuple[str, ...]], np.ndarray],
    ) -> None:
        self.sample = sample
        self.shape = (count, *shape)
        self.dtype = dtype
        self.path = path
        self.read_sample = read_sample

    def __reduce__(self) -> tuple[Any, ...]:
        count, *shape = self.shape
        state = (self.sample, count, tuple(shape), self.dtype, self.path, self.read_sample)
        return FunctionSource, state

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return what the index selects, making only the samples it needs."""

        def fetch(numbers: np.ndarray) -> np.ndarray:
            made = np.empty((len(numbers), *self.shape[1:]), self.dtype)
            for place, number in enumerate(numbers.tolist()):
                made[place] = self._made(number, memo)
            return made

        return gather.by_rows(index, fetch)

    @property
    def deterministic(self) -> bool:
        """Whether the same number always makes the same sample."""
        return bool(getattr(getattr(self.sample, "__self__", None), "deterministic", True))

    def _made(self, number: int, memo: Memo) -> np.ndarray:
        key = (self.sample, number)
        if key not in memo:
            memo[key] = self.sample(number)
        values = self.read_sample(memo[key], self.path)
        if values.shape != self.shape[1:] or not np.can_cast(values.dtype, self.dtype, "safe"):
            raise ValueError(
                f"sample {number} is {values.dtype} of shape {values.shape}, the first one read "
                f"was {self.dtype} of shape {self.shape[1:]}"
            )
        return values

    def write(self, index: Index, value: np.ndarray) -> None:
        """Refuse: what a function makes cannot be written."""
        raise ReadOnlyError("samples made by a function cannot be written")

    def member(self, name: str) -> FunctionSource:
        """Return one field of a structured sample."""
        base = self.dtype[name].base
        shape = self.shape[1:] + self.dtype[name].shape
        path = (*self.path, name)
        return FunctionSource(self.sample, self.shape[0], shape, base, path, self.read_sample)

    def describe(self) -> str:
        """Say that a function makes the data."""
        return "function"
