"""Passes over samples in order: those of an iterator; some of a stream, shuffled, or repeated."""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from dataview.errors import StreamError, error_at
from dataview.plan.node import Node
from dataview.samples.arriving import Pool, Row, within_pool
from dataview.samples.in_order import DerivedSamples, Samples
from dataview.samples.numbered import ToNode, is_deterministic


class IteratorSamples(Samples):
    """The samples of a factory of iterators, or of one iterator, which is spent once read."""

    __slots__ = ("begun", "origin", "to_node")
    finite = False

    def __init__(self, origin: Any, to_node: ToNode) -> None:
        self.origin = origin
        self.to_node = to_node
        self.begun: Any = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.origin, self.to_node, False if self.restarts else self.begun)

    @property
    def restarts(self) -> bool:
        """Whether there is a factory, so that each pass begins anew."""
        return callable(self.origin)

    @property
    def deterministic(self) -> bool:
        """Whether the function makes the same iterator each time: unless it says it does not."""
        return is_deterministic(self.origin)

    def iterate(self) -> Iterator[Node]:
        """Return the samples, refusing a second pass over an iterator."""
        if self.restarts:
            passing = iter(self.origin())
            if self.begun and passing is self.begun():
                raise StreamError(
                    "the function behind this view returned the same iterator again, which is "
                    "spent; it should make a new one at each call"
                )
            self.begun = _reference(passing)
            return map(self._sample, itertools.count(), passing)
        if self.begun:
            raise StreamError(
                "the iterator behind this view has been read and is spent; give a function that "
                "returns a new iterator, as in dv.View(lambda: iter(...)), to read it again"
            )
        self.begun = True
        return map(self._sample, itertools.count(), self.origin)

    def _sample(self, number: int, value: Any) -> Node:
        """Return a sample as a node, or raise saying which it is."""
        try:
            return self.to_node(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise error_at(error, f"sample {number}") from error


def _reference(passing: Iterator[Any]) -> Callable[[], Any]:
    """Return what gives an iterator as long as others have it, so that it ends when they let go."""
    try:
        return weakref.ref(passing)
    except TypeError:  # some of the iterators of C have no such references
        return lambda: passing


def _unpickled(origin: Any, to_node: ToNode, begun: bool) -> IteratorSamples:
    samples = IteratorSamples(origin, to_node)
    samples.begun = begun
    return samples


class SlicedSamples(DerivedSamples):
    """Some of the samples of a stream, as `itertools.islice` counts them."""

    __slots__ = ("bounds",)

    def __init__(self, samples: Samples, bounds: tuple[int, int | None, int]) -> None:
        super().__init__(samples)
        self.bounds = bounds
        self.finite = bounds[1] is not None or samples.finite

    @property
    def endless(self) -> bool:
        """Whether they are known not to end."""
        return self.bounds[1] is None and self.samples.endless

    def rows(self) -> Iterator[Row]:
        """Return the samples within the bounds."""
        return itertools.islice(self.samples.rows(), *self.bounds)


class ShuffledSamples(DerivedSamples):
    """The samples of a stream, each drawn from a pool of the next ones as the seed says."""

    __slots__ = ("key", "pool")

    def __init__(self, samples: Samples, pool: Pool, key: tuple[Any, ...]) -> None:
        super().__init__(samples)
        self.pool = pool
        self.key = key

    def rows(self) -> Iterator[Row]:
        """Return the samples in the pool's order."""
        return within_pool(self.samples.rows(), self.pool, self.key, lambda row: row)


class RepeatedSamples(DerivedSamples):
    """The samples of a stream several times over, or without end."""

    __slots__ = ("times",)

    def __init__(self, samples: Samples, times: float) -> None:
        super().__init__(samples)
        self.times = times
        self.finite = samples.finite and not math.isinf(times)

    @property
    def endless(self) -> bool:
        """Whether they are known not to end."""
        return math.isinf(self.times) or self.samples.endless

    def rows(self) -> Iterator[Row]:
        """Return the samples round after round."""
        rounds = itertools.count() if math.isinf(self.times) else range(int(self.times))
        for _ in rounds:
            empty = True
            for row in self.samples.rows():
                empty = False
                yield row
            if empty:  # an endless loop would never yield anything
                return
