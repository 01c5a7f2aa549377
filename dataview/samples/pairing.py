"""Samples made of an item of each of several indexes, by a function that may leave some out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, NamedTuple

from dataview.errors import error_at
from dataview.plan.kinds import Record, members
from dataview.plan.node import Node
from dataview.samples.numbered import NumberedSamples, RaggedSamples, is_deterministic, name_of


class Dropped(ValueError):
    """A sample that a user's function leaves out, which is no failure."""


AHEAD = 64
"""So many items are got together before the first of them is needed."""


class Items(NamedTuple):
    """The items of an index: how many, what gets one by its number, or None, and where it is.

    `rows` are the rows of the index, for samplers; `parts` are the nodes of all that it has.
    `together` gets some by their numbers, and returns what returns each of them, or raises.
    """

    total: int
    got: Callable[[int], Any]
    where: Callable[[int], str]
    rows: Node
    parts: Sequence[Node] = ()
    together: Callable[[Sequence[int]], Sequence[Callable[[], Any]]] | None = None


class _Coming:
    """Items of an index that will be asked for in this order, some of which are here."""

    def __init__(self, items: Items, numbers: Sequence[int]) -> None:
        self.items, self.numbers = items, numbers
        self.found: Mapping[int, Callable[[], Any]] = {}
        self.reached = 0

    def got(self, number: int) -> Any:
        """Return an item; those that are asked for after it are got with it."""
        while number not in self.found:
            some = self.numbers[self.reached : self.reached + AHEAD]
            if not some or self.items.together is None:
                return self.items.got(number)
            self.reached += len(some)
            self.found = dict(zip(some, self.items.together(some), strict=True))
        return self.found[number]()


_NONE: Mapping[Any, Any] = MappingProxyType({})

_coming: ContextVar[Mapping[Any, Sequence[_Coming]]] = ContextVar("coming", default=_NONE)


class Pairing:
    """Called with a number: what `processor` makes of an item of each index, the first drives."""

    def __init__(self, indexes: Sequence[Items], processor: Callable[..., Any] | None) -> None:
        self.indexes = tuple(indexes)
        self.processor = processor
        self.__qualname__ = "get" if processor is None else name_of(processor)

    @property
    def deterministic(self) -> bool:
        """Whether the function makes the same of the same: unless it says it does not."""
        return is_deterministic(self.processor)

    @property
    def others(self) -> dict[str, Items]:
        """The indexes but the first, by what errors call them."""
        return {f"index {place}": own for place, own in enumerate(self.indexes) if place}

    def __call__(self, number: int) -> Any:
        """Return the sample of items of one number."""
        self.check_lengths()
        return self.sample([number] * len(self.indexes))

    @contextlib.contextmanager
    def ahead(
        self, numbers: Sequence[int], others: Mapping[str, Sequence[int]] = _NONE
    ) -> Iterator[None]:
        """Let items be got together: those of these numbers will be asked for, in this order.

        `others` are the numbers of other indexes than the first, where they differ.
        """
        each = [numbers, *(others.get(name, numbers) for name in self.others)]
        token = _coming.set({**_coming.get(), self: [*map(_Coming, self.indexes, each)]})
        try:
            yield
        finally:
            _coming.reset(token)

    def check_lengths(self) -> None:
        """Raise if an index has another length than the first, so that one number is not both's."""
        count = self.indexes[0].total
        for name, other in self.others.items():
            if other.total != count:
                raise ValueError(
                    f"{name} has {other.total} items and index 0 has {count}, so no row stands "
                    "for both; _loader(sampler=['linear', 'uniform']) has a sampler for each, of "
                    "which those after the first may be endless"
                )

    def sample(
        self, numbers: Sequence[int], failed: Callable[[str, Exception], None] | None = None
    ) -> Any:
        """Return the sample of one item of each index.

        `failed` is told of items of other indexes than the first that cannot be got, which are None
        then; without it they raise.
        """
        results = []
        coming = _coming.get().get(self, self.indexes)
        for place, (items, number) in enumerate(zip(self.indexes, numbers, strict=True)):
            try:
                results.append(coming[place].got(number))
            except Exception as error:
                where = items.where(number)
                named = error if where in str(error) else error_at(error, where)
                if not place or failed is None:
                    raise named from error
                failed(f"index {place}", named)
                results.append(None)
        if results[0] is None:
            raise FileNotFoundError(f"nothing was got for {self.indexes[0].where(numbers[0])}")
        if self.processor is None:
            return results[0] if len(results) == 1 else tuple(results)
        made = self.processor(*results)
        if made is None:
            raise Dropped(
                f"{self.__qualname__} has returned None, so the sample is left out; _loader(...) "
                "passes over it"
            )
        return made


def pairing_of(node: Node) -> Pairing | None:
    """Return what makes the samples of a node, if these are made of items of indexes."""
    made = isinstance(node, NumberedSamples) and not isinstance(node, RaggedSamples)
    function: Any = node.function if made else None  # type: ignore[attr-defined]
    return function if isinstance(function, Pairing) else None


def pairings_in(node: Node) -> list[Pairing]:
    """Return what makes the samples of the fields of a node, or its own."""
    parts = [part.node for part in members(node).values()] if isinstance(node, Record) else [node]
    found = map(pairing_of, parts)
    return [pairing for pairing in found if pairing is not None]
