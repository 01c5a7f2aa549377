"""Samples that come in order: one field of each, and what is computed of each as it comes."""

from __future__ import annotations

import inspect
import itertools
import weakref
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from dataview.compute import evaluate
from dataview.errors import StreamError, error_at
from dataview.plan.build import comparison, elementwise, record
from dataview.plan.gaps import PRESENT, part_at, present_or_all, told
from dataview.plan.kinds import (
    Comparison,
    Elementwise,
    Record,
    Reduction,
    Sampled,
    known_shape,
    members,
)
from dataview.plan.node import Node, Part
from dataview.plan.walk import below, rebuilt
from dataview.samples.arriving import Row, are_rows, fields_of, together
from dataview.samples.numbered import stack_nodes
from dataview.samples.ragged import sample_like
from dataview.sources import Opening, check_like, made_so_far


class Samples(Part):
    """Where a stream's samples come from.

    `finite` tells whether they are known to end, `restarts` whether each pass begins anew.
    """

    __slots__ = ()

    finite: Any
    restarts: Any
    is_each: Any = False
    """Whether each is made of one sample of another stream, whose order they have."""

    def visited(self, order: Any) -> Samples | None:
        """Return the same samples in another order of parts, None of those that are in no parts."""
        return None

    @property
    def endless(self) -> bool:
        """Whether they are known not to end."""
        return False

    def iterate(self) -> Iterator[Node]:
        """Return the samples from the start; a kind has a way of its own for this or for `rows`."""
        return (row.sample() for row in self.rows())

    def rows(self) -> Iterator[Row]:
        """Return the same as rows of the nodes that they are in, if many are in one."""
        return map(Row, self.iterate())

    @property
    def is_closed(self) -> bool:
        """Whether the files that the samples are in were closed."""
        return False

    def close(self) -> None:
        """Close what the passes over these samples have open."""


class ClosableSamples(Samples):
    """Samples of files, which `opening` says are open; to close it ends all passes over them."""

    __slots__ = ("_passes", "opening")

    def __init__(self, opening: Opening) -> None:
        self.opening = opening
        self._passes: weakref.WeakSet[Generator[Row, None, None]] = weakref.WeakSet()

    @abstractmethod
    def passing(self) -> Generator[Row, None, None]:
        """Return the samples from the start."""

    def rows(self) -> Iterator[Row]:
        """Return the samples; who goes on when the files were closed is told so."""
        self.opening.check()
        passing = self.passing()
        self._passes.add(passing)
        yield from passing
        self.opening.check()

    @property
    def is_closed(self) -> bool:
        """Whether the files were closed."""
        return bool(self.opening.is_closed)

    def close(self) -> None:
        """Have all passes say that the files are closed, and close what they have open."""
        self.opening.close()
        for one in [*self._passes]:
            if inspect.getgeneratorstate(one) != inspect.GEN_RUNNING:  # in another thread
                one.close()


class DerivedSamples(Samples):
    """Samples made of those of another stream: by default as many of them, and as often."""

    __slots__ = ("finite", "restarts", "samples")
    parts: ClassVar[tuple[str, ...]] = ("samples",)

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self.finite = samples.finite
        self.restarts = samples.restarts

    @property
    def endless(self) -> bool:
        """Whether the samples of the other stream are known not to end."""
        return self.samples.endless


class FieldSamples(DerivedSamples):
    """One field of every sample of a stream."""

    __slots__ = ("name",)
    is_each = True

    def __init__(self, samples: Samples, name: str) -> None:
        super().__init__(samples)
        self.name = name

    @property
    def maker(self) -> Samples:
        """The samples that have the field, and others."""
        return self.samples

    def rows(self) -> Iterator[Row]:
        """Return the field of each sample."""
        return fields_of(read_once(self.samples), self.name)


class PresentSamples(FieldSamples):
    """Where there are data in every sample of a stream that is one array."""

    __slots__ = ()

    def __init__(self, samples: Samples) -> None:
        super().__init__(samples, PRESENT)

    def rows(self) -> Iterator[Row]:
        """Return where each sample is present."""
        whole, present = None, None
        for node, number in read_once(self.samples):
            if node is not whole:
                whole, present = node, present_or_all(node)
            assert present is not None
            yield Row(present, number)


class ArrangedSamples(DerivedSamples):
    """The samples of a stream, the fields of each chosen or named as `step` does it."""

    __slots__ = ("step",)
    is_each = True

    def __init__(self, samples: Samples, step: Callable[[Node], Node]) -> None:
        super().__init__(samples)
        self.step = step

    def rows(self) -> Iterator[Row]:
        """Return the samples, arranged once for all rows of a node."""
        whole, arranged = None, None
        for node, number in read_once(self.samples):
            if arranged is None or node is not whole:
                whole, arranged = node, self.step(node)
            yield Row(arranged, number)


def read_once(samples: Samples) -> Iterable[Row]:
    """Return samples that are read once for all fields that a request asks for, if they end."""
    made = made_so_far()
    if made is None or not samples.finite:
        return samples.rows()
    found: list[Row] | None = made.find(samples, ())
    if found is None:
        found = list(samples.rows())
        made.keep(samples, (), found)
    return found


def origin_of(samples: Samples) -> tuple[Samples, tuple[str, ...]]:
    """Return the samples that some are fields of, and the names that lead from these to them."""
    path: tuple[str, ...] = ()
    while isinstance(samples, FieldSamples):
        path = (samples.name, *path)
        samples = samples.samples
    return samples, path


class LikeSamples(DerivedSamples):
    """The samples of a stream, of which the parts that differ in length have the same dtype."""

    __slots__ = ("like",)
    is_each = True

    def __init__(self, samples: Samples, like: Node) -> None:
        super().__init__(samples)
        self.like = like

    def iterate(self) -> Iterator[Node]:
        """Return the samples."""
        numbered = enumerate(self.samples.iterate())
        return (sample_like(sample, self.like, f"sample {n}") for n, sample in numbered)


class OneSample(Node):
    """What stands for any sample of a stream, in what is computed of each."""

    __slots__ = ("samples",)
    parts = ("samples",)

    def __init__(self, samples: Samples, like: Node | None, mask: Any = None) -> None:
        """Without a sample that it is like, nothing is known of it."""
        if like is None:
            super().__init__(None, None)
        else:
            windows = like.fields.windows_only(0, lambda axis: True)
            super().__init__(like.shape, like.dtype, windows)
        self.samples = samples
        if mask is not None:
            told(self, mask.one)


class ComputedSamples(Samples):
    """What an expression makes of each sample of a stream, or of several streams side by side.

    The expression may be a record of several.  Fields of one stream are of one pass over it.
    """

    __slots__ = ("expression",)
    parts = ("expression",)
    is_each = True

    def __init__(self, expression: Node) -> None:
        self.expression = expression

    def _origins(self) -> list[tuple[OneSample, Samples, tuple[str, ...]]]:
        """Return what stands for samples, with the stream and the field that it stands for."""
        found = []
        for part in below([self.expression], _into_expression):
            if isinstance(part, OneSample):
                found.append((part, *origin_of(part.samples)))
        return found

    def streams(self) -> dict[int, Samples]:
        """Return the streams whose samples are computed with, by identity."""
        return {id(samples): samples for _, samples, _ in self._origins()}

    @property
    def finite(self) -> bool:
        """Whether one of the streams is known to end: with it, all do."""
        return any(samples.finite for samples in self.streams().values())

    @property
    def restarts(self) -> bool:
        """Whether each pass begins anew."""
        return all(samples.restarts for samples in self.streams().values())

    @property
    def endless(self) -> bool:
        """Whether all streams are known not to end."""
        return all(samples.endless for samples in self.streams().values())

    def rows(self) -> Iterator[Row]:
        """Return what is computed of each sample: once for all rows of a node."""
        bases = [*self.streams().values()]
        if len(bases) > 1 or not _is_elementwise(self.expression):
            yield from map(Row, self._side_by_side())
            return
        origins = self._origins()
        whole, made = None, self.expression
        for node, number in bases[0].rows():
            if number is None or node is not whole:
                parts = {id(one): part_at(node, path) for one, _, path in origins}
                whole, made = node, _replaced(self.expression, parts, 0 if number is None else 1)
            yield Row(made, number)

    def _side_by_side(self) -> Iterator[Node]:
        """Return what is computed of samples; streams of different lengths are an error."""
        origins, streams = self._origins(), self.streams()
        passing = itertools.zip_longest(*(samples.iterate() for samples in streams.values()))
        for number, found in enumerate(passing):
            if any(sample is None for sample in found):
                raise StreamError(f"one of the streams ends after {number} samples, others go on")
            of = dict(zip(streams, found, strict=True))
            parts = {id(one): part_at(of[id(base)], path) for one, base, path in origins}
            yield _replaced(self.expression, parts)


def _into_expression(part: Any) -> list[Any]:
    """Return the parts of an expression of samples, down to what stands for these.

    A statistic is of other samples: it is the same for all.
    """
    ends = isinstance(part, (OneSample, Reduction, Sampled))
    return [] if ends else part.made_of()


def _is_elementwise(expression: Node) -> bool:
    """Whether only elementwise steps are done on the samples, so that many may be in one array."""
    of_samples: set[int] = set()
    for part in below([expression], _into_expression):
        is_sample = isinstance(part, OneSample)
        if is_sample or any(id(inner) in of_samples for inner in _into_expression(part)):
            of_samples.add(id(part))
            if not isinstance(part, (OneSample, Elementwise, Comparison, Record)):
                return False
    return True


def _replaced(expression: Node, parts: dict[int, Node], more: int = 0) -> Node:
    """Return an expression of samples with the samples in it, or with many rows in their place.

    These have one axis `more`.
    """

    def change(part: Any, old: Any) -> Any:
        if part is old:
            return parts.get(id(old), part)
        if isinstance(part, Elementwise):  # rows have one more axis
            return elementwise(part.ufunc, part.args)[part.output]
        if isinstance(part, Comparison):
            return comparison(*part.args, part.negated, part.wholes)
        if isinstance(part, Record):
            return record({n: own.node for n, own in members(part).items()}, part.rank + more)
        return part

    found: Node = rebuilt([expression], change, _into_expression)[0]
    return found


def blocks_of(
    passing: Iterable[Sequence[Row]], blocks: Sequence[Block]
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield full blocks, and the last ones, with their numbers; each sample has a row for each."""
    for rows in passing:
        for number, block in enumerate(blocks):
            block.put(rows[number])
            if block.count == block.most:
                yield number, block.taken()
    for number, block in enumerate(blocks):
        if block.count:
            yield number, block.taken()


def stacked(rows: Sequence[Row], like: Node | None) -> Node:
    """Return samples as the rows of one node; `like` tells which are ragged."""
    return together(rows) if are_rows(rows) else stack_nodes([row.sample() for row in rows], like)


class Block:
    """Samples put into an array of at most so many of what they are like, then into a new one.

    `start` is the number of the first, `path` leads to the field that they are of.
    """

    def __init__(self, most: int, like: Node, start: int = 0, path: tuple[str, ...] = ()) -> None:
        self.most, self.like, self.start, self.path = most, like, start, path
        self.count = 0
        self._rows: list[Row] = []
        self._array: np.ndarray | None = None

    def put(self, row: Row) -> None:
        """Add a sample: if it is no row of many, it may be large, and no more than one is held."""
        if self._rows or row.number is not None:
            self._rows.append(row)
        else:
            self._write(evaluate(row.node))
        self.count += 1

    def _write(self, found: np.ndarray) -> None:
        if self._array is None:
            self._array = np.empty((self.most, *known_shape(self.like)), self.like.dtype)
        try:
            check_like(found, self._array.shape[1:], self._array.dtype)
        except (TypeError, ValueError) as error:
            named = f", field {'.'.join(self.path)!r}" if self.path else ""
            raise error_at(error, f"sample {self.start + self.count}{named}") from error
        self._array[self.count, ...] = found

    def taken(self) -> np.ndarray:
        """Return the samples, and begin anew."""
        if self._rows:
            found = evaluate(together(self._rows))
        elif self._array is not None:
            found = self._array[: self.count]
        else:
            found = np.empty((0, *known_shape(self.like)), self.like.dtype)
        self.start += self.count
        self.count, self._rows, self._array = 0, [], None
        return found


def block_of(
    samples: Iterable[Node], most: int, like: Node, start: int, path: tuple[str, ...] = ()
) -> np.ndarray:
    """Return at most so many samples as one array of what they are like, as `Block` does."""
    block = Block(most, like, start, path)
    for sample in samples:
        block.put(Row(sample))
    return block.taken()
