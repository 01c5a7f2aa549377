"""Values of rows that are made when the rows are asked for, such as texts and other objects.

A text takes fifty bytes beside its own in Python, and a few where it lies in a file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from dataview.index import Index, gather
from dataview.sources import Memo, Source

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

    def part(self, rows: slice) -> LateValues:
        """Return some of the values, which hold no others in a pickle."""
        return Made(self[rows])

    def cut(self, rows: slice) -> LateValues | None:
        """Return some of the values, still to be made; None if that would save nothing."""
        return None

    def joined(self, parts: Sequence[LateValues]) -> LateValues:
        """Return the values of parts that were cut, to be made at once."""
        return Joined(parts)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """Return all values."""
        return self[:].astype(dtype or self.dtype, copy=False)


class Made(LateValues):
    """Values that were made."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        return np.array(self.values[rows])

    @property
    def nbytes(self) -> int:
        """How much memory the references to them take."""
        return self.values.nbytes


class Joined(LateValues):
    """The values of parts that follow one another."""

    def __init__(self, parts: Sequence[LateValues]) -> None:
        self.parts = parts
        self.starts = np.cumsum([0, *map(len, parts)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        found = [np.empty(0, object)]
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self))
            ends = np.clip([start, stop], self.starts[:-1, None], self.starts[1:, None])
            within: list[Any] = [slice(*pair) for pair in (ends - self.starts[:-1, None]).tolist()]
        else:
            within = np.split(rows, rows.searchsorted(self.starts[1:-1]))
            within = [own - start for own, start in zip(within, self.starts, strict=False)]
        for part, own in zip(self.parts, within, strict=True):
            if own.stop > own.start if isinstance(own, slice) else len(own):
                found.append(part[own])
        return np.concatenate(found)

    @property
    def nbytes(self) -> int:
        """About how much memory the parts take."""
        return sum(part.nbytes for part in self.parts)


class LateRows(Source):
    """Values in memory in another form than NumPy's, of which rows are made when they are read."""

    __slots__ = ("dtype", "shape", "values")
    lies_in_memory = True

    def __init__(self, values: LateValues) -> None:
        self.values, self.shape, self.dtype = values, (len(values),), values.dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return LateRows, (self.values,)

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return what an index selects, made now."""
        return np.asarray(gather.by_rows(index, self._made))

    def _made(self, rows: np.ndarray) -> np.ndarray:
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
            return self.values[int(rows[0]) : int(rows[-1]) + 1]
        return self.values[rows]

    def cut_to(self, key: tuple[Any, ...]) -> Source:
        """Return the source of some rows alone."""
        return LateRows(self.values.part(key[0]))

    def describe(self) -> str:
        """Say that this is memory."""
        return "memory"


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
