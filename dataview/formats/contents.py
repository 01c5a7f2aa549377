"""What a file holds as nodes: named parts become a record, what describes them its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dataview.plan.build import record
from dataview.plan.fields import Fields, read_only_meta
from dataview.plan.node import Node

LONGEST_META = 1 << 12
"""Longer arrays beside the data are no description of it; metadata has their shape and dtype."""


def tree(parts: Mapping[str, Node], lost: Mapping[str, str], meta: Mapping[str, Any]) -> Node:
    """Return the record of named parts; `lost` says of others why they cannot be viewed."""
    found = record(parts)
    return described(found.replaced(fields=Fields(found.fields.named, lost)), meta)


def described(node: Node, meta: Mapping[str, Any]) -> Node:
    """Return a node with metadata beside that which it has."""
    return node.replaced(meta=read_only_meta({**node.meta, **meta})) if meta else node


def as_meta(value: Any) -> Any:
    """Return an attribute of a file as Python's own numbers, texts and lists.

    >>> as_meta(np.array([1, 2])), as_meta(np.float32(0.5)), as_meta(b"m/s")
    ([1, 2], 0.5, 'm/s')
    """
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, np.generic):
        return as_meta(value.item())
    if not isinstance(value, np.ndarray):
        return value
    if value.size > LONGEST_META:
        return f"array of shape {value.shape}, {value.dtype}"
    return as_meta(value[()]) if not value.shape else [as_meta(part) for part in value]
