"""Samples of a loop: what functions make of one is remembered as long as the sample lives.

So the fields of a sample agree, in whatever order and however often they are asked for.  A write to
what they are computed from is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dataview.compute import Kept, evaluate, have_makers_in_common, listen, maker_of
from dataview.index import Constant, Index, whole_axes
from dataview.plan.build import select, with_fields
from dataview.plan.kinds import Mapped, Record, Stored, known_dtype, known_shape
from dataview.plan.node import Node, Part
from dataview.plan.walk import below, remade
from dataview.samples.numbered import NumberedSamples
from dataview.sources import Made, Memo, Source, making


class MadeOfSample(Made):
    """What functions have made of one sample, until one of these sources is written."""

    __slots__ = ("sources",)

    def __init__(self, sources: Iterable[Source] | None = None) -> None:
        super().__init__()
        self.sources = sources
        listen(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return MadeOfSample, ()

    def written(self, is_changed: Callable[[Source], bool]) -> None:
        """Forget all if it may come from a source that was changed."""
        if self.sources is None or any(map(is_changed, self.sources)):
            self.forget()


class Once(Part):
    """Gives the rows of a node, for which functions are called once as long as it lives."""

    __slots__ = ("made", "title")

    def __init__(self, made: MadeOfSample, title: str) -> None:
        self.made = made
        self.title = title

    def rows(self, node: Mapped, numbers: np.ndarray, memo: Memo) -> np.ndarray:
        """Return the only row."""
        with making(self.made):
            return evaluate(node.node)


def keeper(node: Node) -> Callable[[Node], Node] | None:
    """Return what makes the samples of a node such that functions are called once for each.

    None is returned if no function makes several of their fields.
    """
    order = below([node])
    makers = [part for part in order if maker_of(part) is not None]
    if not makers:
        return None
    fields = below([node], Node.attached)
    leaves = [part for part in fields if not isinstance(part, Record)]
    if not any(leaf.fields.named for leaf in leaves) and not have_makers_in_common(leaves):
        return None
    sources = [part.source for part in order if isinstance(part, Stored)]
    title = next((part.title for part in makers if hasattr(part, "title")), "a function")
    computed = list(map(_is_computed, fields))

    def kept(sample: Node) -> Node:
        step = Once(MadeOfSample(sources), title)
        own = below([sample], Node.attached)
        which = computed if len(own) == len(computed) else map(_is_computed, own)
        chosen = {id(part) for part, is_computed in zip(own, which, strict=True) if is_computed}

        def once(part: Node, old: Node) -> Node:
            if id(old) not in chosen:
                return part
            if isinstance(part, NumberedSamples):
                return part.replaced(made=step.made)
            found = _only_row(old, step)
            return with_fields(found, part.fields) if part.fields.named else found

        return remade(own, once, Node.attached)[id(sample)]  # type: ignore[no-any-return]

    return kept


def _is_computed(part: Node) -> bool:
    """Whether a part is an array, and is computed from what a function makes."""
    is_known = part.shape is not None and part.dtype is not None
    if isinstance(part, Record) or not (is_known or isinstance(part, NumberedSamples)):
        return False
    return any(maker_of(inner) is not None for inner in below([part]))


def _only_row(node: Node, step: Once) -> Node:
    """Return a node as the only row of what a step makes."""
    shape = known_shape(node)
    axes = len(shape)
    row = select(node, Index((1, *shape), whole_axes(1, axes + 1)))
    whole = Mapped(row, step, (), (1, *shape), known_dtype(node), meta=node.meta)
    return select(whole, Index(shape, (Constant(0), *whole_axes(0, axes))))


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
