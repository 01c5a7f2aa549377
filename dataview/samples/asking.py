"""What is asked of all samples of a function that differ in length: found when it is needed."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Self

import numpy as np

from dataview.compute import evaluate, have_makers_in_common, reduction
from dataview.index.flat import layout_of, shaped
from dataview.plan.build import field, record, stored
from dataview.plan.guards import check_ends
from dataview.plan.kinds import (
    Record,
    Sampled,
    known_dtype,
    known_shape,
    size_of,
)
from dataview.plan.node import Node
from dataview.plan.photographs import Photograph, PhotographSource
from dataview.plan.ragged import Ragged
from dataview.plan.walk import below
from dataview.samples.collecting import are_lengths_told, longest, with_lengths
from dataview.samples.numbered import RaggedSamples
from dataview.samples.ragged import AnyLength, levels_of, without_data
from dataview.samples.streams import Stream

Build = Callable[[Node], Node]
"""Makes a statistic of rows whose lengths are known; it can be pickled."""


class OnePass:
    """All samples of a node, which are made once for all that was asked of them before."""

    __slots__ = ("__weakref__", "node", "rows")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.rows: Node | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return OnePass, (self.node,)

    def collected(self) -> Node:
        """Return the samples as rows whose lengths are known."""
        if self.rows is None:
            self.rows = with_lengths(self.node)
        return self.rows


class Asked(Photograph):
    """A statistic of samples, as they are when it is asked for."""

    __slots__ = ("build", "samples")
    about = "a statistic of samples that differ in length"
    is_of_values = True

    def __init__(self, node: RaggedSamples | Stream, build: Build) -> None:
        super().__init__(node)
        self.build = build
        self.samples: OnePass | None = _next_pass(node)

    def find(self, node: Node) -> np.ndarray:
        """Make the samples, unless this was done for what was asked before, and take it."""
        samples = self.samples
        if samples is None or node is not self.node:
            samples = OnePass(node)
        return np.array(evaluate(self.build(samples.collected())))

    def prepare(self, others: Iterable[Photograph]) -> None:
        """Make the samples once for this and for statistics of other fields of the same samples."""
        passes = [one for other in (self, *others) if (one := self._pass_with(other)) is not None]
        passes = list(dict.fromkeys(passes))
        if len(passes) < 2:
            return
        rows = with_lengths(record({str(n): one.node for n, one in enumerate(passes)}, 1))
        for number, one in enumerate(passes):
            one.rows = field(rows, str(number))

    def _pass_with(self, other: Photograph) -> OnePass | None:
        """Return the pass of a statistic of samples that are made together with these."""
        own, found = self.samples, other.samples if isinstance(other, Asked) else None
        if own is None or found is None or own.rows is not None or found.rows is not None:
            return None
        nodes = [own.node, found.node]
        if not all(isinstance(node, RaggedSamples) for node in nodes):
            return None
        is_one = own.node.count == found.node.count and have_makers_in_common(nodes)
        return found if is_one else None

    def keep(self, found: np.ndarray) -> None:
        """Keep the statistic, and let go of the samples."""
        super().keep(found)
        self.samples = None


class Longest(Photograph):
    """The greatest lengths of samples, which rows are filled up to; other samples have others."""

    __slots__ = ()
    about = "the longest rows"
    is_of_values = True

    def find(self, node: Node) -> np.ndarray:
        """Make all samples to see how long they are."""
        return longest(node)

    @property
    def is_at_hand(self) -> bool:
        """Whether the lengths are known, or told by the files that samples are read from."""
        return self.is_decided or self.node is None or are_lengths_told(self.node)

    def keep(self, found: np.ndarray) -> None:
        """Keep the lengths, and whose they are."""
        node = self.node
        super().keep(found)
        self.node = node

    def replaced(self, **changes: Any) -> Self:
        """Return the photograph of other samples, such as those of another epoch: not taken."""
        return super().replaced(taken=None, failed=None, **changes)


def longest_in(node: Record) -> dict[int, tuple[Longest, int]]:
    """Return where the longest rows of each ragged field are found, by the identity of the node.

    Fields that are made together are looked at in one pass.
    """
    makers: dict[Any, dict[str, RaggedSamples]] = {}
    for part in below([node], lambda part: part.attached() if isinstance(part, Record) else []):
        if isinstance(part, RaggedSamples):
            together = makers.setdefault(part.maker, {})
            together[str(len(together))] = part
    found: dict[int, tuple[Longest, int]] = {}
    for together in makers.values():
        photograph, start = Longest(record(together, 1)), 0
        for part in together.values():
            found[id(part)] = photograph, start
            start += sum(map(len, levels_of(part.like)))
    return found


def _next_pass(node: RaggedSamples | Stream) -> OnePass:
    """Return the next pass over samples, which all share that ask before it."""
    found: OnePass | None = None if node.next_pass is None else node.next_pass()
    if found is None or found.rows is not None:
        found = OnePass(node)
        node.next_pass = weakref.ref(found)
    return found


def asked(build: Build, node: Node) -> Node:
    """Return a statistic of a node; samples whose lengths are unknown are not made for it yet."""
    known = _known_before(build, node)
    if known is None or not isinstance(node, (RaggedSamples, Stream)):
        return build(with_lengths(node))
    source = PhotographSource(Asked(node, build), known_shape(known), known_dtype(known))
    return stored(source, False)


def _known_before(build: Build, node: Node) -> Node | None:
    """Return what a statistic is like, None if that takes samples that have not been made."""
    if isinstance(node, RaggedSamples):
        check_ends(node, "reading all samples")
        known = build(_stand_in(node.like, node.count or 0))
        return None if isinstance(known, Sampled) else known  # a value for each place of a row
    like = node.sample if isinstance(node, Stream) else None
    if not isinstance(node, Stream) or not isinstance(like, AnyLength):
        return None
    if node.samples.endless or node.has_gaps:
        return None
    one, two = (build(_stand_in(like, count)) for count in (1, 2))
    has_rows = isinstance(one, Sampled) or one.shape != two.shape
    return None if has_rows else one


def statistic(kind: str, node: Node, axis: Any, keepdims: bool, options: dict[str, Any]) -> Node:
    """Return a statistic of a node as `asked` does."""
    return asked(partial(reduction, kind, axis=axis, keepdims=keepdims, options=options), node)


def _stand_in(like: AnyLength, count: int) -> Ragged:
    """Return so many rows of which each length that differs is 1: of these all is checked."""
    if like.row is not None:
        return Ragged(_stand_in(like.row, count), layout_of(lengths=np.ones(count, np.intp)))
    one = [1 if length is None else length for length in like.axes]
    values = without_data((count * size_of(tuple(one)), *like.rest), known_dtype(like))
    shapes = np.broadcast_to(np.array(one, np.intp), (count, len(one)))
    return Ragged(values, shaped(shapes, like.axes))
