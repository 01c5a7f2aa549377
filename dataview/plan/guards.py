"""Checks that a node is one array, and that it has an end."""

from __future__ import annotations

from typing import Any

from dataview.errors import StreamError
from dataview.index import is_endless
from dataview.plan.kinds import Driven, Record
from dataview.plan.node import Node


def check_array(node: Any, what: str) -> None:
    """Raise if a node is a record, which has no data of one kind."""
    if isinstance(node, (Record, Driven)):
        names = ", ".join(map(repr, node.fields))
        raise TypeError(f"{what} takes one array, not a record; choose a field: {names}")


def check_ends(node: Node, what: str) -> None:
    """Raise if a node has an axis without an end."""
    lengths = (node.count,) if node.extents is None else node.extents
    if any(map(is_endless, lengths)):
        raise endless(what)


def endless(what: str) -> StreamError:
    """Return the error for a question that needs an end."""
    return StreamError(f"{what} needs an end, and this view never ends; slice it first")
