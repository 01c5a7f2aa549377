"""Samples that a function makes by their number, when the shape of one is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dataview.index import Index, gather
from dataview.sources.protocol import Memo, Source


@dataclass(slots=True, eq=False, repr=False)
class FunctionSource(Source):
    """Row i is a part of `sample(i)`, by the names of members; each sample is made once."""

    sample: Callable[[int], Any]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    members: tuple[str, ...]
    read_sample: Callable[[Any, tuple[str, ...]], np.ndarray]
    deterministic: bool
    shares: bool = field(default=True, init=False)  # a sample is made once for all its fields

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return what the index selects, making only the samples it needs."""

        def fetch(numbers: np.ndarray) -> np.ndarray:
            rows = np.empty((len(numbers), *self.shape[1:]), self.dtype)
            for place, number in enumerate(numbers.tolist()):
                rows[place] = self._values(number, memo)
            return rows

        return gather.by_rows(index, fetch)

    def _values(self, number: int, memo: Memo) -> np.ndarray:
        key = (self.sample, number)
        if key not in memo:
            memo[key] = self.sample(number)
        values = self.read_sample(memo[key], self.members)
        if values.shape != self.shape[1:] or not np.can_cast(values.dtype, self.dtype, "safe"):
            raise ValueError(
                f"sample {number} is {values.dtype} of shape {values.shape}, the first one read "
                f"was {self.dtype} of shape {self.shape[1:]}"
            )
        return values

    def describe(self) -> str:
        """Say that a function makes the data."""
        return "function"
