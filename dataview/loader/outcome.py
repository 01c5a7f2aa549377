"""What became of a task: its batch, and the samples of it that failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

import numpy as np

from dataview.errors import error_at
from dataview.loader.collate import sample_of
from dataview.loader.dealing import Task
from dataview.samples import name_of


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

    `missing` is how many samples other ones are to replace: until these are there, `samples` has
    those that were made, and there is no batch.  `gaps` are the fields without a mask in which
    values were found to be missing, here or before.
    """

    batch: Any
    kept: Sequence[int] | None = None
    failures: Sequence[Failure] = ()
    missing: int = 0
    gaps: Sequence[str] = ()
    samples: Sequence[Any] = ()

    def behind(self, first: int, count: int, lacking: int | None) -> tuple[Outcome, list[int]]:
        """Return the outcome of `count` samples behind so many `first` ones, and which are kept.

        They were to make up for as many as were `lacking`, where there were some before.
        """
        own = range(count) if self.kept is None else self.kept
        kept = [*range(first), *(first + number for number in own)]
        missing = self.missing + (0 if lacking is None else lacking - count)
        whole = None if len(kept) == first + count else kept
        return self._replace(kept=whole, missing=missing), kept

    def part_of(self, task: Task) -> Task:
        """Return a task without the samples that are not in its batch."""
        return task if self.kept is None else task.part(self.kept)

    def rows_of(self, task: Task) -> np.ndarray:
        """Return the row numbers of the samples in the batch of a task."""
        return task.rows if self.kept is None else task.rows[list(self.kept)]


def failure_of(task: Task, number: int, row: int, error: Exception) -> Failure:
    """Return what a task tells of one of its samples, which failed."""
    return Failure(row, int(task.places[number]), int(task.each_epoch()[number]), error)


def answer_to(failure: Failure, on_error: Any, unwrap: Callable[[Any], Any]) -> Any:
    """Return "skip", "replace", or a sample that stands for one that failed, as `on_error` says."""
    if not callable(on_error):
        return on_error
    answer = on_error(failure.row, failure.error)
    if isinstance(answer, str) and answer == "raise":
        raise failure.error
    if answer is None:
        raise TypeError(
            f"sample {failure.row}: the function on_error= returned None; return 'skip', "
            "'replace', 'raise', or a sample"
        ) from failure.error
    return sample_of(unwrap(answer), True)


def made_by(
    collate: Callable[[list[Any]], Any],
    samples: Sequence[Any],
    numbers: Sequence[int],
    unwrap: Callable[[Any], Any],
) -> Any:
    """Return the batch that a user's function makes of the samples of these numbers, or raise.

    `unwrap` turns views into nodes.
    """
    given = [*map(sample_of, samples)]
    try:
        batch = unwrap(collate(given))
    except Exception as error:
        kind = ", which are dicts of data" if isinstance(given[0], dict) else ""
        where = f"collate {name_of(collate)}, samples {numbers[0]} to {numbers[-1]}{kind}"
        raise error_at(error, where) from error
    if batch is None:
        raise TypeError(f"collate {name_of(collate)} returned None, which is no batch")
    if isinstance(given[0], dict) and isinstance(batch, np.ndarray):
        _check_no_dicts(batch, given, name_of(collate))
    return batch


def _check_no_dicts(batch: np.ndarray, samples: Sequence[Any], function: str) -> None:
    """Raise if NumPy made an array of the samples themselves: it knows no arrays in a dict."""
    if batch.dtype == object and batch.size and any(batch.flat[0] is one for one in samples):
        names = list(samples[0])
        raise TypeError(
            f"collate {function} made an array of dicts: a sample is a dict of the fields "
            f"{', '.join(map(repr, names))}; without collate= the samples of each field are "
            f"stacked, and collate=lambda samples: np.stack([one[{names[0]!r}] for one in "
            "samples]) stacks one field"
        )
