"""Nodes whose samples come one by one: made by a function of their number, or only in order.

Nothing is known of a sample before one was read, so shape and dtype are None; `probed` reads one
sample and returns a node that knows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from dataview.errors import StreamError, UndeclaredError, located
from dataview.evaluate import evaluate
from dataview.expression import (
    Evaluate,
    Node,
    Record,
    Sampled,
    field,
    known_dtype,
    known_shape,
    record,
    rows_of,
    select,
    stored,
)
from dataview.fields import NO_FIELDS, Attached, Fields
from dataview.index import Affine, Index, compose, is_endless, positions
from dataview.keys import parse
from dataview.sources.samples import FunctionSource

__all__ = [
    "Kept",
    "Made",
    "Produced",
    "Stream",
    "forward",
    "keyed",
    "kept",
    "length_of",
    "partial_shape",
    "probed",
    "samples_of",
]

Wrap = Callable[[Any], Node]
"""Makes a node of a sample as the user's code returns it."""


class Made(Sampled):
    """Samples that `function` makes by number; `index` says which of its `total` are seen."""

    __slots__ = ("function", "index", "total", "wrap")

    def __init__(
        self, function: Callable[[int], Any], total: int, index: Index, wrap: Wrap
    ) -> None:
        super().__init__(None, None)
        self.function = function
        self.total = total
        self.index = index
        self.wrap = wrap

    @property
    def count(self) -> int | None:
        """The number of samples, None for one alone."""
        return self.index.shape[0] if self.index.shape else None

    def part(self, index: Index) -> Made:
        """Return the samples that an index on the rows alone selects."""
        if len(index.maps) != 1 or len(index.shape) > 1:
            raise UndeclaredError(_PROBE.format(what="the shape of the samples"))
        return Made(self.function, self.total, compose(self.index, index), self.wrap)

    def numbers(self) -> np.ndarray:
        """Return the numbers of the samples."""
        found = positions(self.index.maps[0], self.index.shape)
        return np.broadcast_to(found, self.index.shape)

    def sample(self, number: int) -> Node:
        """Return one sample as a node; an error names it."""
        try:
            return self.wrap(self.function(number))
        except Exception as error:
            where = f"sample {number}, made by {_name_of(self.function)}"
            raise located(error, where) from error

    def answer(self, evaluate: Evaluate) -> np.ndarray:
        """Return the one sample, or all of them stacked."""
        if self.count is None:
            return evaluate(self.sample(int(self.numbers())))
        if is_endless(self.count):
            raise StreamError("the view never ends, so its data cannot be returned; slice it first")
        return _stacked([evaluate(self.sample(number)) for number in self.numbers().tolist()])


class Samples(Protocol):
    """Samples in order: whether they surely end, whether they can be read again, and they."""

    finite: bool
    restarts: bool

    def iterate(self) -> Iterator[Node]:
        """Return the samples from the start."""
        ...


class Stream(Sampled):
    """Samples that come in order and cannot be asked for by number."""

    __slots__ = ("sample", "samples")

    def __init__(self, samples: Samples, sample: Node | None = None) -> None:
        named = {
            name: Attached(Stream(_Picked(samples, name), field(sample, name)), None)
            for name in (sample.fields if sample is not None else ())
        }
        super().__init__(None, None, Fields(named) if named else NO_FIELDS)
        self.samples = samples
        self.sample = sample

    def part(self, index: Index) -> Node:
        """Refuse: a stream has no rows to choose from."""
        raise StreamError("a stream is read in order: its samples cannot be asked for by number")

    def answer(self, evaluate: Evaluate) -> np.ndarray:
        """Return the samples stacked, if they surely end."""
        if not self.samples.finite:
            raise StreamError(
                "the stream may never end, so its data cannot be returned; iterate over it, or "
                "take a slice of it: view[:n]()"
            )
        return _stacked(list(map(evaluate, self.samples.iterate())))


def _stacked(samples: list[np.ndarray]) -> np.ndarray:
    if not samples:
        return np.empty(0)
    for number, sample in enumerate(samples):
        if sample.shape != samples[0].shape:
            raise ValueError(
                f"sample {number} has shape {sample.shape}, sample 0 {samples[0].shape}: they do "
                "not make one array; iterate over the view to have each as it is"
            )
    return np.stack(samples)


class Produced:
    """The samples of a factory of iterators, or of one iterator, which is spent once read."""

    __slots__ = ("begun", "origin", "wrap")
    finite = False

    def __init__(self, origin: Any, wrap: Wrap) -> None:
        self.origin = origin
        self.wrap = wrap
        self.begun = False

    @property
    def restarts(self) -> bool:
        """Whether there is a factory, so that each pass begins anew."""
        return callable(self.origin)

    def iterate(self) -> Iterator[Node]:
        """Return the samples, refusing a second pass over an iterator."""
        if self.restarts:
            return map(self.wrap, iter(self.origin()))
        if self.begun:
            raise StreamError(
                "the iterator behind this view has been read and is spent; give a function that "
                "returns a new iterator, as in dv.View(lambda: iter(...)), to read it again"
            )
        self.begun = True
        return map(self.wrap, self.origin)


class _Sliced:
    """Some of the samples of a stream, as `itertools.islice` counts them."""

    __slots__ = ("bounds", "finite", "restarts", "samples")

    def __init__(self, samples: Samples, bounds: tuple[int, int | None, int]) -> None:
        self.samples = samples
        self.bounds = bounds
        self.finite = bounds[1] is not None or samples.finite
        self.restarts = samples.restarts

    def iterate(self) -> Iterator[Node]:
        """Return the samples within the bounds."""
        return itertools.islice(self.samples.iterate(), *self.bounds)


class _Picked:
    """One field of every sample of a stream."""

    __slots__ = ("finite", "name", "restarts", "samples")

    def __init__(self, samples: Samples, name: str) -> None:
        self.samples = samples
        self.name = name
        self.finite = samples.finite
        self.restarts = samples.restarts

    def iterate(self) -> Iterator[Node]:
        """Return the field of each sample."""
        return (field(sample, self.name) for sample in self.samples.iterate())


class Kept:
    """The samples of a node that a function of the sample accepts."""

    __slots__ = ("face", "finite", "function", "node", "restarts")

    def __init__(self, node: Node, function: Callable[[Any], Any], face: Callable[..., Any]) -> None:
        self.node = node
        self.function = function
        self.face = face
        length = length_of(node)
        known = length is not None and not math.isinf(length)
        self.finite = known or (isinstance(node, Stream) and node.samples.finite)
        self.restarts = not isinstance(node, Stream) or node.samples.restarts

    def numbered(self) -> Iterator[tuple[int, Node]]:
        """Return the accepted samples with their numbers."""
        for number, sample in enumerate(samples_of(self.node)):
            try:
                accepted = bool(self.function(self.face(sample)))
            except Exception as error:
                raise located(error, f"filter {_name_of(self.function)}, sample {number}") from error
            if accepted:
                yield number, sample

    def iterate(self) -> Iterator[Node]:
        """Return the accepted samples."""
        return (sample for _, sample in self.numbered())


def _name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__name__)


def kept(node: Node, function: Callable[[Any], Any], face: Callable[..., Any]) -> Stream:
    """Return the stream of a node's samples that a function of the sample accepts."""
    sample = node.sample if isinstance(node, Stream) else None
    if node.shape and rows_of(node):
        sample = select(node, parse(0, node.shape))
    return Stream(Kept(node, function, face), sample)


# --- asking ----------------------------------------------------------------------------------


def length_of(node: Node) -> float | None:
    """Return the number of samples, `math.inf` for endless ones, None where it is unknown."""
    count = node.count if isinstance(node, Sampled) else rows_of(node)
    return math.inf if count is not None and is_endless(int(count)) else count


def partial_shape(node: Sampled) -> tuple[int | None, ...]:
    """Return what is known of the shape of samples: None for each thing that is not."""
    sample = node.sample.shape if isinstance(node, Stream) and node.sample is not None else None
    if isinstance(node, Made) and node.count is None:
        return (None,)
    count = length_of(node)
    rows = None if count is None or math.isinf(count) else int(count)
    return (rows, None) if sample is None else (rows, *sample)


def samples_of(node: Node) -> Iterator[Node]:
    """Return the samples of a node, in order, as nodes."""
    if isinstance(node, Stream):
        return node.samples.iterate()
    if isinstance(node, Made) and node.count is not None:
        count = node.count
        return (node.part(parse(number, (count,))) for number in range(count))
    shape = known_shape(node)
    if not shape:
        raise TypeError("iteration over a view without axes: it is one element")
    return (select(node, parse(number, shape), number) for number in range(shape[0]))


def keyed(node: Sampled, key: Any) -> Node:
    """Return the part for a key: of made samples any rows, of a stream what lies ahead."""
    if isinstance(node, Stream):
        return forward(node, key)
    if node.count is None:
        raise UndeclaredError(_PROBE.format(what="the shape of the sample"))
    return node.part(parse(key, (node.count,)))


def forward(node: Stream, key: Any) -> Stream:
    """Return a later part of a stream; what needs random access is refused."""
    if not isinstance(key, slice):
        raise StreamError(
            f"a stream is read in order: iterate over it, or take a slice that goes forward; "
            f"got the key {key!r}"
        )
    bounds = (key.start or 0, key.stop, key.step if key.step is not None else 1)
    if min(bounds[0], 0 if bounds[1] is None else bounds[1], bounds[2]) < 0 or not bounds[2]:
        raise StreamError(f"a stream has no known end to count back from; got the slice {key!r}")
    return Stream(_Sliced(node.samples, bounds), node.sample)


# --- probing ---------------------------------------------------------------------------------


def probed(node: Node) -> Node:
    """Return the node with shape, dtype and fields known, reading one sample to find out."""
    if isinstance(node, Stream):
        return _probed_stream(node)
    if isinstance(node, Made):
        return _probed_made(node)
    return node


def _probed_stream(node: Stream) -> Node:
    if isinstance(node.samples, Kept) and node.samples.node.shape is not None:
        rows = [number for number, _ in node.samples.numbered()]
        parent = node.samples.node
        return select(parent, parse(np.array(rows, np.intp), known_shape(parent)))
    if not node.samples.restarts and not isinstance(node.samples, Produced):
        raise StreamError("probing would lose a sample of an iterator; probe before slicing it")
    passing = node.samples.iterate()
    first = next(passing, None)
    if first is None:
        raise StreamError("the stream is empty: there is no sample to learn from")
    if isinstance(node.samples, Produced) and not node.samples.restarts:
        node.samples = Produced(itertools.chain([first], passing), _as_is)
    return Stream(node.samples, first)


def _as_is(sample: Node) -> Node:
    return sample


def _probed_made(node: Made) -> Node:
    if node.count is None:
        return node.sample(int(node.numbers()))
    if not node.count:
        raise UndeclaredError("there are no samples to learn from")
    first = node.part(parse(0, (node.count,)))
    whole = _made_source(node, node.sample(int(first.numbers())), ())
    shape = known_shape(whole)
    rest = [Affine(0, ((axis, 1),)) for axis in range(1, len(shape))]
    return select(whole, Index((node.count, *shape[1:]), [*node.index.maps, *rest]))


def _made_source(node: Made, sample: Node, path: tuple[str, ...]) -> Node:
    """Return the node of all samples that are like this one, one source per member."""
    if isinstance(sample, Record) and not sample.rank:
        named = {
            name: _made_source(node, field(sample, name), (*path, name)) for name in sample.fields
        }
        return record(named, 1)
    source = FunctionSource(
        node.sample, node.total, known_shape(sample), known_dtype(sample), path, _member
    )
    return stored(source)


def _member(sample: Node, path: tuple[str, ...]) -> np.ndarray:
    for name in path:
        sample = field(sample, name)
    return evaluate(sample)
