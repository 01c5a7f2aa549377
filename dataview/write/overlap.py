"""What a write may read of what it changes: the same memory, the same file, the same places."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataview.compute import evaluate
from dataview.plan.build import stored
from dataview.plan.kinds import Elementwise, Select, Stored
from dataview.plan.node import Node
from dataview.plan.walk import below, rebuilt
from dataview.sources import ArraySource


def source_of(node: Node) -> Any:
    """Return the one source behind a view of it, None where there are several or none."""
    below = node.node if isinstance(node, Select) else node
    return below.source if isinstance(below, Stored) else None


def apart(arg: Node, target: Node) -> Node:
    """Return an operand that may be read while the target is written.

    Of an expression, what reads the target at other places is computed before.
    """
    source = source_of(target)
    reading: set[int] = set()  # the parts that read it, or are made of such
    for part in below([arg]):
        own = isinstance(part, Stored) and part.source.may_share(source)
        if own or any(id(inner) in reading for inner in part.made_of()):
            reading.add(id(part))

    def is_harmless(part: Node) -> bool:
        return part is target or is_same_places(part, target) or id(part) not in reading

    def into(part: Any) -> list[Any]:
        return part.made_of() if isinstance(part, Elementwise) and not is_harmless(part) else []

    def separate(part: Node, old: Node) -> Node:
        if isinstance(old, Elementwise) or is_harmless(old):
            return part
        return stored(ArraySource(np.array(evaluate(old))))

    return rebuilt([arg], separate, into)[0]  # type: ignore[no-any-return]


def is_same_places(arg: Node, target: Node) -> bool:
    """Whether two nodes view the same places of one source in the same order."""
    if not (isinstance(arg, Select) and isinstance(target, Select)):
        both = isinstance(arg, Stored) and isinstance(target, Stored)
        return both and source_of(arg) is source_of(target)
    return (
        source_of(arg) is source_of(target)
        and source_of(arg) is not None
        and arg.index.is_box
        and target.index.is_box
        and arg.index.shape == target.index.shape
        and arg.index.maps == target.index.maps
    )
