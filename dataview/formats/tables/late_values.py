"""Values of rows that are made when the rows are asked for, such as texts and other objects.

A text takes fifty bytes beside its own in Python, and a few where it lies in a file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

OBJECT_BYTES = 56
"""About what an object takes beside the bytes of its text, with the reference to it."""

TIMES_ASKED = 4
"""All labels are made once a share of them as large as one of so many could have been asked for."""


class LateValues(ABC):
    """The values of some rows, which are objects; `[]` takes a slice or ascending numbers."""

    dtype = np.dtype(object)

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return the values of some rows, in a new array."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """About how much memory they take, with what is kept of values that were made."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """Return all values."""
        return self[:].astype(dtype or self.dtype, copy=False)


class Decoded(LateValues):
    """Values by their codes among labels, the last of which is for code -1, where nothing is.

    Equal values are one object.
    """

    def __init__(self, codes: np.ndarray, labels: LateValues) -> None:
        self.codes, self.labels = codes, labels
        self._asked = 0
        self._made: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        codes = self.codes[rows]
        self._asked += len(codes)
        if self._made is None and self._asked * TIMES_ASKED >= len(self.labels):
            self._made = self.labels[:]
        if self._made is not None:
            return np.asarray(self._made[codes])
        if len(codes) > 1:
            codes, places = np.unique(codes, return_inverse=True)
        else:
            places = np.arange(len(codes))
        found = self.labels[np.where(codes < 0, len(self.labels) - 1, codes)]
        return np.asarray(found[places])

    @property
    def nbytes(self) -> int:
        """About how much memory the codes and labels take, and the labels once more as objects."""
        return self.codes.nbytes + 2 * self.labels.nbytes + OBJECT_BYTES * len(self.labels)


class Filled(LateValues):
    """Values with another one where there are none."""

    def __init__(self, values: LateValues, present: np.ndarray, fill: Any) -> None:
        self.values, self.present, self.fill = values, present, fill

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        found = self.values[rows]
        found[~self.present[rows]] = self.fill
        return found

    @property
    def nbytes(self) -> int:
        """About how much memory the values take, and where there are any."""
        return self.values.nbytes + self.present.nbytes
