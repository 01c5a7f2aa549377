"""Datasets of scikit-learn: arrays with a row for each sample, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from dataview.compute import evaluate
from dataview.plan.build import record
from dataview.plan.fields import check_name, read_only_meta
from dataview.plan.kinds import Record, Stored
from dataview.plan.node import Node
from dataview.tables import with_labels

_ABOUT = ("feature_names", "target_names", "categories", "DESCR")
"""What tells of the samples, even if it is as long as they are many."""


@lru_cache(maxsize=256)
def is_bunch(kind: type) -> bool:
    """Whether objects of a class are datasets of scikit-learn."""
    every = ((base.__module__.partition(".")[0], base.__name__) for base in kind.__mro__)
    return ("sklearn", "Bunch") in every


def of_bunch(bunch: Mapping[str, Any], to_node: Callable[[Any], Node]) -> Node | None:
    """Return the record of what has a row for each sample; all else is its metadata.

    None means that nothing has rows.  `frame` is left out where it repeats data and target.
    """
    given = {name: value for name, value in bunch.items() if value is not None}
    if "data" in given and "target" in given:
        given.pop("frame", None)
    lengths = {name: _length(value) for name, value in given.items() if name not in _ABOUT}
    rows = lengths.get("data") or next(filter(None, lengths.values()), None)
    if rows is None:
        return None
    columns = {name: given[name] for name, length in lengths.items() if length == rows}
    about = {name: _plain(value) for name, value in given.items() if name not in columns}
    parts = {check_name(name): to_node(_texts(value)) for name, value in columns.items()}
    for name, told in (("data", "feature_names"), ("target", "target_names")):
        if name in parts and told in about:
            parts[name] = _described(parts[name], told, about[told])
    return record(parts, 1).replaced(meta=read_only_meta(about))


def _length(value: Any) -> int | None:
    """Return how many rows a value has, None if it has none."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    return len(value) if isinstance(value, (list, tuple)) else None


def _texts(value: Any) -> Any:
    """Return a list of texts as objects: as an array each would be as long as the longest."""
    if not isinstance(value, list) or not all(type(one) in (str, bytes) for one in value):
        return value
    found = np.empty(len(value), object)
    found[:] = value
    return found


def _plain(value: Any) -> Any:
    return (
        value.tolist() if isinstance(value, np.ndarray) and value.dtype.kind in "iufbU" else value
    )


def _described(node: Node, told: str, names: Any) -> Node:
    """Return inputs or targets with the names that belong to them: of columns, or of classes."""
    if told == "target_names" and _are_codes(node, len(names)):
        return with_labels(node, names)
    if isinstance(node, Record):  # its fields have these names
        return node
    return node.replaced(meta=read_only_meta({**node.meta, told: names}))


def _are_codes(node: Node, count: int) -> bool:
    """Whether targets number so many names; of others these are the names of columns."""
    if not isinstance(node, Stored) or node.source.dtype.kind not in "iu" or "labels" in node.meta:
        return False
    values = evaluate(node)
    return values.ndim == 1 and len(values) > 0 and values.min() >= 0 and int(values.max()) < count
