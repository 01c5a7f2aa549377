"""Samples of a loop: what functions make of one is remembered as long as the sample lives.

So the fields of a sample agree, in whatever order and however often they are asked for.  A write to
what they are computed from is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dataview.compute import Kept, evaluate, have_makers_in_common, listen, maker_of
from dataview.index import Index, gather
from dataview.plan.build import with_fields
from dataview.plan.gaps import present_in, with_mask
from dataview.plan.kinds import Record, Stored, known_shape
from dataview.plan.node import Node, Part
from dataview.plan.walk import below, rebuilt, remade
from dataview.samples.numbered import NumberedSamples
from dataview.samples.row_functions import RowFunctions
from dataview.sources import Made, Source, making


class MadeOfSample(Made):
    """What functions have made of one sample, or of a batch, until one of these sources is written.

    Functions of blocks of rows are `in_blocks`: they are called for all rows together.
    """

    __slots__ = ("in_blocks", "sources")

    def __init__(self, sources: Iterable[Source] | None = None, in_blocks: bool = False) -> None:
        super().__init__()
        self.sources = sources
        self.in_blocks = in_blocks
        listen(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return MadeOfSample, ()

    def read(self, node: Node, index: Index | None) -> np.ndarray:
        """Return the data of a node, for which functions are called once as long as this lives."""
        with making(self):
            if not self.in_blocks:
                return np.array(evaluate(node, index))
            rows = self.find(node, ())
            if rows is None:
                rows = evaluate(node)
                self.keep(node, (), rows)
        return np.array(rows if index is None else gather.read(rows, index))

    def written(self, is_changed: Callable[[Source], bool]) -> None:
        """Forget all if it may come from a source that was changed."""
        if self.sources is None or any(map(is_changed, self.sources)):
            self.forget()


def keeper(node: Node) -> Callable[[Node], Node] | None:
    """Return what makes the samples of a node such that functions are called once for each.

    None is returned if no function makes several of their fields.
    """
    order = below([node])
    if all(maker_of(part) is None for part in order):
        return None
    fields = below([node], Node.attached)
    leaves = [part for part in fields if not isinstance(part, Record)]
    if not any(leaf.fields.named for leaf in leaves) and not have_makers_in_common(leaves):
        return None
    if any(_remembers(part) for part in order):
        return None  # a batch of a loop remembers its samples
    sources = [part.source for part in order if isinstance(part, Stored)]
    in_blocks = any(isinstance(part, RowFunctions) and part.batch is not None for part in order)
    computed = list(map(_is_computed, fields))

    def kept(sample: Node) -> Node:
        made = MadeOfSample(sources, in_blocks)
        own = below([sample], Node.attached)
        which = computed if len(own) == len(computed) else map(_is_computed, own)
        chosen = {id(part) for part, is_computed in zip(own, which, strict=True) if is_computed}

        def once(part: Node, old: Node) -> Node:
            if id(old) not in chosen:
                return part
            if part.shape is None or part.dtype is None or isinstance(part, NumberedSamples):
                return _remembering(part, made)
            found: Node = Kept(old, made)
            if (present := present_in(old)) is not None:
                found = with_mask(found, Kept(present, made))
            return with_fields(found, part.fields) if part.fields.named else found

        return remade(own, once, Node.attached)[id(sample)]  # type: ignore[no-any-return]

    return kept


def of_one_call(node: Node) -> Node:
    """Return one sample such that functions are called once for all its fields; others as is."""
    keep = keeper(node) if isinstance(node, Record) and not node.rank else None
    return node if keep is None else keep(node)


def _remembers(part: Part) -> bool:
    if isinstance(part, Kept):
        return isinstance(part.keeper, MadeOfSample)
    return isinstance(part, NumberedSamples) and part.made is not None


def _is_computed(part: Node) -> bool:
    """Whether a part is no record, and is computed from what a function makes."""
    if isinstance(part, Record):
        return False
    return any(maker_of(inner) is not None for inner in below([part]))


def _remembering(part: Node, made: MadeOfSample) -> Node:
    """Return a part of unknown shape such that the samples in it are remembered."""

    def inside(inner: Any) -> Iterable[Part]:  # the longest rows are of all samples, not of these
        return [] if isinstance(inner, NumberedSamples) else inner.held()

    def remembering(inner: Any, old: Any) -> Any:
        return inner.replaced(made=made) if isinstance(inner, NumberedSamples) else inner

    return rebuilt([part], remembering, inside)[0]  # type: ignore[no-any-return]


class Whole:
    """All rows of a node, once they have been read, until one of these sources is written."""

    __slots__ = ("__weakref__", "rows", "sources", "version")

    def __init__(self, sources: Iterable[Source] | None = None) -> None:
        self.sources = sources
        self.rows: np.ndarray | None = None
        self.version = 0
        listen(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Whole, ()

    def read(self, node: Node, index: Index | None) -> np.ndarray:
        """Return rows, which are kept once all have been read; of a few only these are read."""
        rows, version = self.rows, self.version
        if rows is None:
            if index is not None and len(gather.rows_and_rest(index)[0]) < known_shape(node)[0]:
                return evaluate(node, index)
            rows = evaluate(node)
            if version == self.version:
                self.rows = rows
        return np.array(rows if index is None else gather.read(rows, index))

    def written(self, is_changed: Callable[[Source], bool]) -> None:
        """Forget the rows if they may come from a source that was changed."""
        if self.sources is None or any(map(is_changed, self.sources)):
            self.rows = None
            self.version += 1


def read_together(node: Node) -> Node:
    """Return a node whose data are kept as long as it lives, once they have been read.

    What lies in memory stays as it is, and so does what its holder can write without a view.
    """
    if node.shape is None or node.dtype is None or not node.shape:
        return node
    inside = below([node])
    stores = [part for part in inside if isinstance(part, Stored)]
    far = [part for part in stores if part.source.memory is None]
    is_read = far or any(maker_of(part) is not None for part in inside)
    if not is_read or any(part.source.writable and part.source.is_held for part in far):
        return node
    return Kept(node, Whole([part.source for part in stores]))
