"""The keys of rows as users give them to `by=`, of all verbs alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dataview.plan.build import field
from dataview.plan.fields import check_declared
from dataview.plan.gaps import masks_in
from dataview.plan.kinds import Record
from dataview.plan.node import Node

ToNode = Callable[[Any], Node]
"""Makes a node of a name of a field, or of other data."""


class Given(NamedTuple):
    """A key: what it was given as, its values, the node whose field it may be, and its own name."""

    by: Any
    node: Node
    whole: Node
    name: str | None = None


def given_keys(node: Node, by: Any, to_node: ToNode) -> list[Given]:
    """Return keys: of fields by name, of data, of several of them, or under other names.

    The fields of a record that is given as data are keys.
    """
    check_by(by)
    if isinstance(by, Mapping):
        named = {check_declared(str(name)): part for name, part in by.items()}
        found = [Given(part, to_node(part), node, name) for name, part in named.items()]
    elif _are_several(node, by):
        found = [Given(part, to_node(part), node) for part in by]
    else:
        own = to_node(by)
        if not isinstance(own, Record) or isinstance(by, str):
            return [Given(by, own, node)]
        masks = set(masks_in(own.fields).values())
        names = [name for name in own.fields if name not in masks]
        found = [Given(name, field(own, name), own) for name in names]
    if not found:
        raise ValueError("by= names one key at least")
    return found


def check_by(by: Any) -> None:
    """Raise for what is neither the name of a field nor data."""
    if by is None or (callable(by) and not hasattr(by, "__array__")):
        got = "None" if by is None else f"the function {getattr(by, '__name__', by)!r}"
        raise TypeError(
            "by= takes fields, such as 'x' or ['x', 'y'], or data with a value for each row, such "
            f"as abs(d.x), d.x > 0 or d._map(function); got {got}"
        )


def _are_several(node: Node, by: Any) -> bool:
    """Whether these are keys, and not the labels of the rows."""
    if not isinstance(by, (list, tuple)) or not by:
        return False
    if any(isinstance(part, Node) or getattr(part, "shape", ()) for part in by):
        return True
    if not all(isinstance(part, str) for part in by):
        return False
    are_names = node.fields.named and len({*by}) == len(by)  # texts are labels of rows otherwise
    return len(by) != node.count or bool(are_names)
