"""Batches of a stream: takes `size` samples at a time until the stream ends."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from dataview.batches.dealing import Dealing
from dataview.batches.padding import marked
from dataview.plan.node import Node
from dataview.samplers import sampler_of, stream_by
from dataview.samples import DerivedSamples, Stream, described, stacked


class _BatchedSamples(DerivedSamples):
    """The samples of a stream in batches of `size`, made of its first `most` samples.

    `like` is what is known of a sample.  A last batch is filled up with its own samples, from its
    first one on.
    """

    __slots__ = ("like", "most", "size", "tail")

    def __init__(
        self, samples: Any, size: int, tail: str, most: int | None, like: Node | None
    ) -> None:
        super().__init__(samples)
        self.like = like
        self.size = size
        self.tail = tail
        self.most = most
        self.finite = most is not None or samples.finite

    def iterate(self) -> Iterator[Node]:
        """Return the batches."""
        deal = Dealing(self.size, self.tail)
        passing = itertools.islice(self.samples.rows(), self.most)
        while batch := list(itertools.islice(passing, self.size)):
            count = len(batch)
            size = deal.end(0, count)
            if not size:
                return
            whole = stacked([batch[number % count] for number in range(size)], self.like)
            yield whole if size == count else marked(whole, count)


def of_stream(
    node: Stream,
    size: int | None,
    tail: str,
    sampler: Any,
    seed: Any,
    epoch: int,
    num_samples: int | None,
    num_batches: int | None,
) -> Node:
    """Return the stream of the batches of a stream."""
    chosen = sampler_of(sampler, node.fields, size, tail)
    node = stream_by(node, chosen, seed, epoch)
    if size is None:
        raise ValueError("a stream needs a batch size")
    limits = [num_samples, None if num_batches is None else num_batches * size]
    most = min((limit for limit in limits if limit is not None), default=None)
    found = Stream(_BatchedSamples(described(node), size, tail, most, node.sample))
    found.meta = node.meta
    return found
