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
from dataview.plan.build import comparison, elementwise
from dataview.plan.gaps import PRESENT, part_at, present_or_all, told
from dataview.plan.kinds import Comparison, Elementwise, Reduction, Sampled, known_shape
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


class LikeSamples(DerivedSamples):
    """The samples of a stream, of which the parts that differ in length have the same dtype."""

    __slots__ = ("like",)

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

    def __init__(self, samples: Samples, like: Node, mask: Any = None) -> None:
        super().__init__(like.shape, like.dtype, like.fields.windows_only(0, lambda axis: True))
        self.samples = samples
        if mask is not None:
            told(self, mask.one)


class ComputedSamples(Samples):
    """What an expression makes of each sample of a stream, or of several streams side by side.

    Fields of one stream are of one pass over it.
    """

    __slots__ = ("expression",)
    parts = ("expression",)

    def __init__(self, expression: Node) -> None:
        self.expression = expression

    def _origins(self) -> list[tuple[OneSample, Samples, tuple[str, ...]]]:
        """Return what stands for samples, with the stream and the field that it stands for."""
        found = []
        for part in below([self.expression], _into_expression):
            if isinstance(part, OneSample):
                samples: Samples = part.samples
                path: tuple[str, ...] = ()
                while isinstance(samples, FieldSamples):
                    path = (samples.name, *path)
                    samples = samples.samples
                found.append((part, samples, path))
        return found

    def _streams(self) -> dict[int, Samples]:
        return {id(samples): samples for _, samples, _ in self._origins()}

    @property
    def finite(self) -> bool:
        """Whether one of the streams is known to end: with it, all do."""
        return any(samples.finite for samples in self._streams().values())

    @property
    def restarts(self) -> bool:
        """Whether each pass begins anew."""
        return all(samples.restarts for samples in self._streams().values())

    @property
    def endless(self) -> bool:
        """Whether all streams are known not to end."""
        return all(samples.endless for samples in self._streams().values())

    def rows(self) -> Iterator[Row]:
        """Return what is computed of each sample: once for all rows of a node."""
        bases = [*self._streams().values()]
        if len(bases) > 1 or not _is_elementwise(self.expression):
            yield from map(Row, self._side_by_side())
            return
        origins = self._origins()
        whole, made = None, self.expression
        for node, number in bases[0].rows():
            if number is None or node is not whole:
                parts = {id(one): part_at(node, path) for one, _, path in origins}
                whole, made = node, _replaced(self.expression, parts)
            yield Row(made, number)

    def _side_by_side(self) -> Iterator[Node]:
        """Return what is computed of samples; streams of different lengths are an error."""
        origins, streams = self._origins(), self._streams()
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
            if not isinstance(part, (OneSample, Elementwise, Comparison)):
                return False
    return True


def _replaced(expression: Node, parts: dict[int, Node]) -> Node:
    """Return an expression of samples with the samples in it, or with many rows in their place."""

    def change(part: Any, old: Any) -> Any:
        if part is old:
            return parts.get(id(old), part)
        if isinstance(part, Elementwise):  # rows have one more axis
            return elementwise(part.ufunc, part.args)[part.output]
        if isinstance(part, Comparison):
            return comparison(*part.args, part.negated, part.wholes)
        return part

    found: Node = rebuilt([expression], change, _into_expression)[0]
    return found


def blocks_of(samples: Samples, size: int, like: Node) -> Iterator[np.ndarray]:
    """Yield samples in arrays of so many, of what they are like."""
    passing, start = samples.rows(), 0
    while (first := next(passing, None)) is not None:
        rows = itertools.chain([first], itertools.islice(passing, size - 1))
        if first.number is None:  # such samples are large: no more than one of them is held
            block = block_of((row.sample() for row in rows), size, like, start)
        else:
            block = evaluate(together([*rows]))
        yield block
        start += len(block)


def stacked(rows: Sequence[Row], like: Node | None) -> Node:
    """Return samples as the rows of one node; `like` tells which are ragged."""
    return together(rows) if are_rows(rows) else stack_nodes([row.sample() for row in rows], like)


def block_of(
    samples: Iterable[Node], most: int, like: Node, start: int, path: tuple[str, ...] = ()
) -> np.ndarray:
    """Return at most so many samples as one array of what they are like.

    `start` is the number of the first, `path` leads to the field that they are of.
    """
    block = np.empty((most, *known_shape(like)), like.dtype)
    count = 0
    for place, sample in enumerate(samples):
        found = evaluate(sample)
        try:
            check_like(found, known_shape(like), block.dtype)
        except (TypeError, ValueError) as error:
            named = f", field {'.'.join(path)!r}" if path else ""
            raise error_at(error, f"sample {start + place}{named}") from error
        block[place, ...] = found
        count += 1
    return block[:count]
