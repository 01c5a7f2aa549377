"""What a write may read of what it changes: the same memory, the same file, the same places."""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np

from dataview.compute import evaluate
from dataview.plan.build import arguments, stored
from dataview.plan.kinds import Elementwise, Reduction, Select, Stored
from dataview.plan.node import Node
from dataview.sources import ArraySource, NpySource


def source_of(node: Node) -> Any:
    """Return the one source behind a view of it, None where there are several or none."""
    below = node.node if isinstance(node, Select) else node
    return below.source if isinstance(below, Stored) else None


def apart(arg: Node, target: Node) -> Node:
    """Return an operand that may be read while the target is written."""
    if arg is target or not _reads(arg, target) or is_same_places(arg, target):
        return arg
    if isinstance(arg, Elementwise):  # parts of it may read the same places, or nothing of it
        parts = tuple(apart(a, target) if isinstance(a, Node) else a for a in arg.args)
        changed: Node = arg.replaced(args=parts)
        return changed
    return stored(ArraySource(np.array(evaluate(arg))))


def _reads(arg: Node, target: Node) -> bool:
    """Whether a node may read the source that a target writes to."""
    if isinstance(arg, Reduction) and arg.taken is not None:
        return False
    if isinstance(arg, Stored):
        return may_share(arg.source, source_of(target))
    return any(_reads(below, target) for below in arguments(arg))


def may_share(source: Any, other: Any) -> bool:
    """Whether what is written to one source may be read from another."""
    if source.lends and other.lends:
        return bool(np.may_share_memory(source.array, other.array))
    return _may_be_of_file(source, other)


def _may_be_of_file(source: Any, other: Any) -> bool:
    """Whether two sources, one of them a file, may be one: a file has many names, and maps."""
    if isinstance(source, NpySource) and isinstance(other, NpySource):
        return os.path.samefile(source.path, other.path)
    return any(isinstance(one, ArraySource) and _is_mapped(one.array) for one in (source, other))


def _is_mapped(array: Any) -> bool:
    while array is not None and not isinstance(array, mmap.mmap):
        array = array.base if hasattr(array, "base") else getattr(array, "owner", None)
    return array is not None


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
