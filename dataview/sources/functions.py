"""Samples that a function makes: by their number, and once for all that is asked of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from dataview.errors import error_at
from dataview.index import Index, gather
from dataview.sources.protocol import Memo, Source

_Step = TypeVar("_Step")


def _alone(numbers: Sequence[int]) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


def _where(number: int, members: tuple[str, ...]) -> str:
    """Return which sample an error is about, and which field of it if that has a name."""
    named = f", field {'.'.join(members)!r}" if members else ""
    return f"sample {number}{named}"


@dataclass(slots=True, eq=False, repr=False)
class FunctionSource(Source):
    """Row i is a part of `sample(i)`, by the names of members; each sample is made once.

    `members_read` returns all members that an evaluation reads, which are read together, and
    `ahead` the context in which samples are made: what several of them need may be got together.
    """

    sample: Callable[[int], Any]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    members: tuple[str, ...]
    read_sample: Callable[[Any, tuple[str, ...]], np.ndarray]
    members_read: Callable[[Any, Memo], Iterable[tuple[str, ...]]]
    deterministic: bool
    sample_bytes: int
    ahead: Callable[[Sequence[int]], contextlib.AbstractContextManager[None]] = _alone
    shares: bool = field(default=True, init=False)  # a sample is made once for all its fields

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return what the index selects, making only the samples it needs."""

        def fetch(numbers: np.ndarray) -> np.ndarray:
            rows = np.empty((len(numbers), *self.shape[1:]), self.dtype)
            wanted = numbers.tolist()
            with self.ahead(wanted):
                for place, number in enumerate(wanted):
                    rows[place, ...] = self._values(number, memo)  # an object, and no array of it
            return rows

        return gather.by_rows(index, fetch)

    def _values(self, number: int, memo: Memo) -> np.ndarray:
        key = (self.sample, number)
        found = memo.get(key) or self._made(number, memo)
        if len(found) > 1:  # the other members are read later
            memo[key] = found
        values = found[self.members]
        try:
            check_like(values, self.shape[1:], self.dtype)
        except (TypeError, ValueError) as error:
            raise error_at(error, _where(number, self.members)) from error
        return values

    def _made(self, number: int, memo: Memo) -> dict[tuple[str, ...], np.ndarray]:
        """Return the members of a sample that an evaluation reads."""
        sample = self.sample(number)
        wanted = {self.members, *self.members_read(self.sample, memo)}
        found = {}
        for members in wanted:
            try:
                found[members] = self.read_sample(sample, members)
            except (TypeError, ValueError, LookupError) as error:
                raise error_at(error, _where(number, members)) from error
        return found

    @property
    def maker(self) -> Callable[[int], Any]:
        """The function that makes the samples."""
        return self.sample

    def describe(self) -> str:
        """Say that a function makes the data."""
        return "function"


def holds(known: np.dtype[Any], given: np.dtype[Any]) -> bool:
    """Whether an array takes all values of another dtype as they are; a number is no text."""
    if given == known:
        return True
    is_text = known.kind in "SU"
    return np.can_cast(given, known, "safe") and (not is_text or given.kind == known.kind)


def check_like(sample: np.ndarray, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise if a sample is not of the shape and dtype of those that were read first."""
    if sample.shape != shape:
        raise ValueError(
            f"the shape is {sample.shape}; the first ones read were {shape}; for samples that "
            "differ in length, _fields= declares a length of None"
        )
    check_held(dtype, sample.dtype)


def check_held(known: np.dtype[Any], given: np.dtype[Any]) -> None:
    """Raise if the dtype of the samples that were read first does not hold that of another."""
    if not holds(known, given):
        raise TypeError(
            f"the dtype is {given}; the first ones read were {known}, _fields= declares another one"
        )


# --- what has been made ----------------------------------------------------------------------

AT_ONCE = 1 << 12
"""Requests that have a function make more samples than this ask for them in several parts."""

FROM_OTHERS = 4
"""Each of the samples may be made of so many samples of another function."""


class Made:
    """What functions have made of the samples of one request, each of them once.

    A request is for all fields of a batch, of a view, of one sample of a loop.  Evaluations that
    begin within it, in any thread, find what others have made.  `limit` is how many results of one
    function are remembered; `is_request` is false for what is made while one function runs, if
    that is no part of a request.
    """

    __slots__ = ("__weakref__", "is_request", "limit", "results")

    def __init__(self, limit: int = AT_ONCE * FROM_OTHERS, is_request: bool = True) -> None:
        self.limit = limit
        self.is_request = is_request
        self.results: dict[Any, dict[tuple[int, ...], Any]] = {}

    def find(self, maker: Any, numbers: tuple[int, ...]) -> Any:
        """Return what a maker has made of the samples of these numbers, None if it has not."""
        return self.results.get(maker, {}).get(numbers)

    def keep(self, maker: Any, numbers: tuple[int, ...], result: Any) -> None:
        """Remember what a maker has made; of more results than the limit only the newest."""
        if len(numbers) <= self.limit:
            results = self.results.setdefault(maker, {})
            if len(results) >= self.limit:
                results.clear()
            results[numbers] = result

    def forget(self) -> None:
        """Forget all results."""
        self.results.clear()


_made: ContextVar[Made | None] = ContextVar("made", default=None)

made_so_far = _made.get


def forgetting(steps: Iterable[_Step]) -> Iterator[_Step]:
    """Yield steps of a request; what functions have made for one is forgotten before the next."""
    for step in steps:
        yield step
        made = _made.get()
        if made is not None:
            made.forget()


class _Making:
    """Sets where evaluations remember what functions make.

    No generator: if Ctrl-C comes as it is entered or left, it is collected later, perhaps where
    another context is, in which nothing can be set back.
    """

    __slots__ = ("made", "token")

    def __init__(self, made: Made | None) -> None:
        self.made = made

    def __enter__(self) -> None:
        before = _made.get()
        try:
            self.token = _made.set(self.made)
        except BaseException:  # Ctrl-C, after it was set
            _made.set(before)
            raise

    def __exit__(self, *error: object) -> None:
        _made.reset(self.token)


def making(made: Made | None) -> contextlib.AbstractContextManager[None]:
    """Let evaluations find and remember what functions make there; None is for nowhere."""
    return _Making(made)


@contextlib.contextmanager
def made_once() -> Iterator[None]:
    """Let what is evaluated be one request, in which functions make each sample once."""
    outer = _made.get()
    if outer is not None and outer.is_request:
        yield  # a part of a larger request
        return
    made = Made()
    with making(made):
        try:
            yield
        finally:
            made.forget()  # what it refers to refers to it
