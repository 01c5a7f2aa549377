"""Walk down a plan, and build it again with changes: without recursion, each part once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dataview.plan.node import Part

Into = Callable[[Any], Iterable[Any]]
"""Which parts of a part a walk goes into."""


def below(roots: Iterable[Any], into: Into = Part.made_of) -> list[Any]:
    """Return the roots and all parts below them, each once and after its own parts."""
    order: list[Any] = []
    seen: set[int] = set()
    waiting: list[Any] = [*roots][::-1]
    while waiting:
        part = waiting.pop()
        if type(part) is tuple:  # its own parts are in the list already
            order.append(part[0])
        elif id(part) not in seen:
            seen.add(id(part))
            inside = [*into(part)]
            if not inside:
                order.append(part)
                continue
            waiting.append((part,))
            waiting.extend(reversed(inside))
    return order


Change = Callable[[Any, Any], Any]
"""Gets a part with its parts changed, and as it was before; returns what takes its place."""


def rebuilt(roots: Sequence[Any], change: Change, into: Into = Part.held) -> list[Any]:
    """Return the roots with `change(part, old)` in place of each part below them.

    A part that several others share is shared again; a part without a change stays the same
    object.  Parts that the walk does not go into stay as they are.
    """
    made = remade(below(roots, into), change, into)
    return [made[id(root)] for root in roots]


def remade(order: Iterable[Any], change: Change, into: Into = Part.held) -> dict[int, Any]:
    """Return what takes the place of each part, by the identity of the old one."""
    made: dict[int, Any] = {}

    def new(part: Any) -> Any:
        return made.get(id(part), part)

    for part in order:
        is_changed = any(new(inner) is not inner for inner in into(part))
        made[id(part)] = change(part.with_parts(new) if is_changed else part, part)
    return made
