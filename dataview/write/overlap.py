"""Which operands of a write share places with its target, and which of them are copied before."""

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
    inner = node.node if isinstance(node, Select) else node
    return inner.source if isinstance(inner, Stored) else None


def safe_operand(arg: Node, target: Node) -> Node:
    """Return an operand that can be read while the target is written.

    The parts of an expression that read the target at other places are computed before.
    """
    source = source_of(target)
    reading: set[int] = set()  # the parts that read the source, at whatever depth
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
    if source_of(arg) is None or source_of(arg) is not source_of(target):
        return False
    if isinstance(arg, Select) and isinstance(target, Select):
        ours, theirs = arg.index, target.index
        return ours.is_box and (ours.shape, ours.maps) == (theirs.shape, theirs.maps)
    return isinstance(arg, Stored) and isinstance(target, Stored)
