"""What became of a task: its batch, and the samples of it that failed."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

import numpy as np

from dataview.loader.dealing import Task


class Mark(Protocol):
    """The place where a worker records the number of the sample that it is at."""

    value: int


NO_MARK: Any = SimpleNamespace(value=-1)


class Failure(NamedTuple):
    """A sample that failed: its row number, its position in the epoch, the epoch, and the error."""

    row: int
    place: int
    epoch: int
    error: Exception


class Outcome(NamedTuple):
    """A batch, with the numbers of the task's samples in it (None: all), and those that failed.

    `missing` is how many samples other ones are to replace.  `gaps` are the fields without a mask
    in which values were found to be missing, here or before.
    """

    batch: Any
    kept: Sequence[int] | None = None
    failures: Sequence[Failure] = ()
    missing: int = 0
    gaps: Sequence[str] = ()

    def rows_of(self, task: Task) -> np.ndarray:
        """Return the row numbers of the samples in the batch of a task."""
        return task.rows if self.kept is None else task.rows[list(self.kept)]


def failure_of(task: Task, number: int, row: int, error: Exception) -> Failure:
    """Return what a task tells of one of its samples, which failed."""
    return Failure(row, int(task.places[number]), int(task.each_epoch()[number]), error)
