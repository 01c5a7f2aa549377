"""Samples that a function makes by number, of which shape and dtype are unknown at first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dataview.compute import evaluate
from dataview.errors import UndeclaredError, error_at
from dataview.index import Index, compose, extend, is_endless, parse, positions
from dataview.plan.build import at_path, field, record, select, stored, with_fields
from dataview.plan.guards import endless
from dataview.plan.kinds import Extents, Record, Sampled, known_dtype, known_shape
from dataview.plan.node import Evaluate, Node
from dataview.sources import ArraySource, FunctionSource, Memo

ToNode = Callable[[Any], Node]
"""Turns a sample that the user's code returns into a node."""

_PROBE = "{what} is unknown until one has been read; call _probe() to read one"


class NumberedSamples(Sampled):
    """Samples that `function` makes by number; `index` says which of its `total` the node has."""

    __slots__ = ("function", "index", "to_node", "total")

    def __init__(
        self, function: Callable[[int], Any], total: int, index: Index, to_node: ToNode
    ) -> None:
        super().__init__()
        self.function = function
        self.total = total
        self.index = index
        self.to_node = to_node

    @property
    def count(self) -> int | None:
        """The number of samples, None for one alone."""
        return self.index.shape[0] if self.index.shape else None

    @property
    def extents(self) -> Extents | None:
        """The number of samples and what is known of each; None for one sample not looked at."""
        return None if self.count is None else super().extents

    def part(self, index: Index) -> NumberedSamples:
        """Return the samples that an index on the rows alone selects."""
        if len(index.maps) != 1 or len(index.shape) > 1:
            raise UndeclaredError(_PROBE.format(what="the shape of the samples"))
        return self.replaced(index=compose(self.index, index))

    @property
    def deterministic(self) -> bool:
        """Whether the function makes the same sample of a number: unless it says it does not."""
        return is_deterministic(self.function)

    def numbers(self) -> np.ndarray:
        """Return the numbers of the samples."""
        found = positions(self.index.maps[0], self.index.shape)
        return np.broadcast_to(found, self.index.shape)

    def sample(self, number: int) -> Node:
        """Return one sample as a node; an error names it."""
        try:
            return self.to_node(self.function(number))
        except Exception as error:
            where = f"sample {number}, made by {name_of(self.function)}"
            raise error_at(error, where) from error

    def answer(self, evaluate: Evaluate, memo: Memo) -> np.ndarray:
        """Return the one sample, or all of them stacked."""
        if self.count is None:
            return evaluate(self.sample(int(self.numbers())))
        if is_endless(self.count):
            raise endless("calling")
        return stack([evaluate(self.sample(number)) for number in self.numbers().tolist()])

    def probed(self) -> Node:
        """Return the samples as nodes that know shape, dtype and fields, reading the first."""
        if self.count is None:
            return self.sample(int(self.numbers()))
        return self.all_like(self.sample(self.first_number()))

    def all_like(self, sample: Node) -> Node:
        """Return the samples as nodes with the shape, dtype and fields of the sample given."""
        return self.rows_of(_made_source(self, sample, ()))

    def first_number(self) -> int:
        """Return the number of the first sample, or raise if there is none."""
        if not self.count:
            raise UndeclaredError("there are no samples to learn from")
        return int(self.part(parse(0, (self.count,))).numbers())

    def rows_of(self, whole: Node) -> Node:
        """Return the rows of a node of `total` samples that are those of these samples."""
        return select(whole, extend(self.index, known_shape(whole)[1:]))


def _made_source(node: NumberedSamples, sample: Node, path: tuple[str, ...]) -> Node:
    """Return the node of all samples that are like this one, one source per member."""
    if isinstance(sample, Record) and not sample.rank:
        named = {
            name: _made_source(node, field(sample, name), (*path, name)) for name in sample.fields
        }
        return record(named, 1)
    shape, dtype = (node.total, *known_shape(sample)), known_dtype(sample)
    return stored(FunctionSource(node.sample, shape, dtype, path, _member, node.deterministic))


def _member(sample: Node, path: tuple[str, ...]) -> np.ndarray:
    return evaluate(at_path(sample, path))


def stack_nodes(samples: Sequence[Node]) -> Node:
    """Return samples as the rows of one node, with their fields."""
    first = samples[0]
    if isinstance(first, Record):
        parts = {name: stack_nodes([field(s, name) for s in samples]) for name in first.fields}
        return record(parts, first.rank + 1)
    rows = stored(ArraySource(stack([evaluate(sample) for sample in samples])))
    windows = first.fields.windows_only(1, lambda axis: True)
    return with_fields(rows, windows) if windows.named else rows


def stack(samples: list[np.ndarray]) -> np.ndarray:
    """Return samples as one array."""
    if not samples:
        return np.empty(0)
    for number, sample in enumerate(samples):
        if sample.shape != samples[0].shape:
            raise ValueError(
                f"sample {number} has shape {sample.shape}, sample 0 {samples[0].shape}: they do "
                "not make one array; iterate over the view to have each as it is"
            )
    return np.stack(samples)


def is_deterministic(function: Any) -> bool:
    """Whether a user's function returns the same for the same: unless it says it does not."""
    return bool(getattr(function, "deterministic", True))


def name_of(function: Any) -> str:
    """Return what to call a user's function in a message."""
    return str(getattr(function, "__qualname__", None) or type(function).__name__)
