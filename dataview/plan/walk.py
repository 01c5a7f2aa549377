"""The one way down a plan, and the one way to build it again: no recursion, each part once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dataview.plan.node import Part

Into = Callable[[Any], Iterable[Any]]
"""Which parts of a part a walk goes into."""


def below(roots: Iterable[Any], into: Into = Part.made_of) -> list[Any]:
    """Return the parts that roots are made of and the roots, each once and after its own parts."""
    order: list[Any] = []
    seen: set[int] = set()
    waiting: list[Any] = [*roots][::-1]
    while waiting:
        part = waiting.pop()
        if type(part) is tuple:  # all that it is made of is through
            order.append(part[0])
        elif id(part) not in seen:
            seen.add(id(part))
            waiting.append((part,))
            waiting.extend(reversed([*into(part)]))
    return order


Change = Callable[[Any, Any], Any]
"""Returns what becomes of a part, given it on its changed parts, and as it was before."""


def rebuilt(roots: Sequence[Any], change: Change, into: Into = Part.held) -> list[Any]:
    """Return the roots on what `change(part, old)` makes of the parts below them.

    What several parts share is shared again; what nothing changes in is the same object.  Parts
    that the walk does not go into stay as they are.
    """
    made = remade(below(roots, into), change)
    return [made[id(root)] for root in roots]


def remade(order: Iterable[Any], change: Change) -> dict[int, Any]:
    """Return what becomes of parts, each after its own, by the identity of the old ones."""
    made: dict[int, Any] = {}

    def new(part: Any) -> Any:
        return made.get(id(part), part)

    for part in order:
        made[id(part)] = change(part.with_parts(new), part)
    return made
