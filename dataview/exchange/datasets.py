"""Samples as people keep them: tuples, objects, lists of these, datasets of other libraries.

A dataset has samples by number (`__getitem__` and `__len__`) or in order (`__iter__`).
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Iterator, Mapping, MappingView, Sequence, Set
from functools import lru_cache, partial
from types import BuiltinFunctionType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

import numpy as np

from dataview.exchange.bunches import is_bunch, of_bunch
from dataview.exchange.convert import check_makes_iterators, check_no_bytes, named, node_of
from dataview.exchange.copies import freeze
from dataview.exchange.from_libraries import imported, is_foreign, is_view
from dataview.exchange.hugging_face import is_columns, of_columns
from dataview.index import ENDLESS, identity
from dataview.plan.build import keyed, record
from dataview.plan.fields import check_name
from dataview.plan.gaps import telling
from dataview.plan.node import Node
from dataview.plan.operations import TEXTS
from dataview.plan.values import asks_items, listed
from dataview.samples import IteratorSamples, NumberedSamples, Stream
from dataview.sources import Source

Names = tuple[str, ...]


# --- one sample --------------------------------------------------------------------------------


def sample_node(value: Any, names: Names | None = None, strict: bool = True) -> Node:
    """Return the node of one sample: what has parts is a record of them.

    `names` are those of the parts of a tuple; `strict` refuses names that the sample has itself.
    Views are read at once, so that the sample stays what it was when it was made; it knows their
    gaps and metadata.

    >>> list(sample_node(([1, 2], 3)).fields), sample_node([1, 2]).shape
    (['0', '1'], (2,))
    """
    if isinstance(value, Node):
        return value
    if names is not None and isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        parts: Any = _named(value, names)
    else:
        parts = parts_of(value)
        if names is not None and strict:
            what = "no parts" if parts is None else f"names of its own: {', '.join(parts)}"
            raise TypeError(f"_names= names the parts of a tuple; the sample has {what}")
    if parts is None:
        return _array_node(value)
    inside = sample_node if isinstance(value, tuple) else _named_part
    made = {check_name(name): named(name, part, inside) for name, part in parts.items()}
    return telling(record(made, 0))


def _array_node(value: Any) -> Node:
    """Return the node of a sample that is one array, or of views that make one."""
    is_made_of_views = is_view(value) or (type(value) in (list, tuple) and any(map(is_view, value)))
    return freeze(node_of(value)) if is_made_of_views else node_of(value)


def _named_part(value: Any) -> Node:
    """Return the node of a part that has a name; a tuple there is an array, as in a mapping."""
    return _array_node(value) if type(value) is tuple else sample_node(value)


def _named(value: Sequence[Any], names: Names) -> dict[str, Any]:
    if len(value) != len(names):
        raise ValueError(
            f"{len(names)} names are given (_names={names}); the sample has {len(value)} parts"
        )
    return dict(zip(names, value, strict=True))


def parts_of(value: Any) -> dict[str, Any] | None:
    """Return the parts of a sample by name, None for a sample that is one array."""
    if isinstance(value, Mapping):
        return dict(value) or None
    if isinstance(value, tuple):
        own = getattr(value, "_fields", range(len(value)))
        return {str(name): part for name, part in zip(own, value, strict=True)} or None
    return _attributes(value)


_NO_SAMPLES = (np.ndarray, Source, Iterator, ModuleType)


def _attributes(value: Any) -> dict[str, Any] | None:
    """Return the attributes of a dataclass, or of an object that is nothing else than these."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    kept = getattr(value, "__dict__", None)
    if not kept or callable(value) or isinstance(value, _NO_SAMPLES):
        return None
    if is_foreign(value) or hasattr(value, "__iter__"):
        return None
    return {name: part for name, part in kept.items() if not name.startswith("_")} or None


# --- datasets ----------------------------------------------------------------------------------


def data_node(value: Any, names: Names | None = None, strict: bool = True) -> Node:
    """Return the node of what a view is made of: a dataset, or any other data.

    >>> data_node([{"x": 1, "y": [2, 3]}, {"x": 4, "y": [5, 6]}]).fields.named["y"].node.shape
    (2, 2)
    """
    kind = type(value)
    if kind is np.ndarray and names is None:
        return node_of(value)
    if kind is np.ndarray or isinstance(value, (Node, Source)):
        return _unnamed(value, names)
    if kind in _IN_ORDER or _has_order(kind):  # type: ignore[arg-type]
        return _in_order(value, names, strict)
    if is_foreign(value) and (found := imported(value)) is not None:
        return _unnamed(found, names)
    if is_bunch(kind) and (found := of_bunch(value, data_node)) is not None:  # type: ignore[arg-type]
        return _unnamed(found, names)
    if holds_tensors(value):
        return _of_tensors(value, names)
    if is_columns(value):
        return _unnamed(of_columns(value, data_node), names)
    if asks_items(value):
        if isinstance(value, Sequence):
            return _listed(listed(value), names)
        return numbered(value, len(value), names, strict)
    if kind is list:
        return _listed(value, names)
    if kind is tuple and names is not None:
        return _members(_named(value, names))
    parts = parts_of(value) if kind is not tuple else None
    if parts is not None:
        return _members(parts)
    if isinstance(value, Mapping) and not value:
        raise ValueError("a mapping without entries has no fields to view")
    check_no_bytes(value)
    if isinstance(value, Iterator) or (callable(value) and not hasattr(value, "__array__")):
        return _in_order(value, names, strict)
    return _unnamed(value, names)


def holds_columns(value: Any) -> bool:
    """Whether a dataset has its data in columns, so that no sample has to be made to view them."""
    return holds_tensors(value) or is_columns(value)


def holds_tensors(value: Any) -> bool:
    """Whether a value is torch's TensorDataset, or a Subset of one.

    A class derived from these may make other samples of the tensors.
    """
    kind = type(value)
    if kind.__module__ != "torch.utils.data.dataset":
        return False
    if kind.__name__ == "Subset":
        return holds_tensors(value.dataset)
    return kind.__name__ == "TensorDataset" and bool(value.tensors)


def _of_tensors(value: Any, names: Names | None) -> Node:
    """Return the record of a dataset's tensors, or the rows that a Subset has of one."""
    if type(value).__name__ == "Subset":
        return keyed(_of_tensors(value.dataset, names), np.asarray(value.indices, np.intp))
    parts = dict(enumerate(value.tensors)) if names is None else _named(value.tensors, names)
    return _members({str(name): part for name, part in parts.items()})


def _members(parts: Mapping[Any, Any]) -> Node:
    made = {check_name(name): named(name, part, data_node) for name, part in parts.items()}
    return telling(record(made))


def _unnamed(value: Any, names: Names | None) -> Node:
    if names is not None:
        what = type(value).__name__
        raise TypeError(
            f"_names= names the parts of samples, or of a tuple of arrays; got {what}; a field for "
            "each column of an array is dv.View(data, a=0, b=1)"
        )
    return node_of(value)


# --- samples in memory ---


def _listed(values: list[Any], names: Names | None) -> Node:
    """Return the record of a list of samples that have parts; other lists are arrays."""
    if not values or not (names or _has_parts(values[0])):
        return node_of(values)
    columns: dict[str, list[Any]] = {}
    for number, value in enumerate(values):
        in_order = isinstance(value, (list, tuple)) and not hasattr(value, "_fields")
        parts = _named(value, names) if names and in_order else parts_of(value)
        if parts is None or (columns and parts.keys() != columns.keys()):
            theirs = type(value).__name__ if parts is None else f"fields {', '.join(parts)}"
            raise TypeError(f"sample {number} has {theirs}; sample 0 has {', '.join(columns)}")
        for name, part in parts.items():
            columns.setdefault(name, []).append(part)
    made = {check_name(name): named(name, column, data_node) for name, column in columns.items()}
    return record(made, 1)


def _has_parts(value: Any) -> bool:
    """Whether a sample of a list has parts; a plain tuple has if they cannot make one array.

    A text and a number do not, though NumPy makes two texts of them.
    """
    if type(value) is not tuple:
        is_named = isinstance(value, tuple) and hasattr(value, "_fields")
        return is_named or isinstance(value, Mapping) or dataclasses.is_dataclass(value)
    return len({_kind_of(part) for part in value}) > 1


def _kind_of(value: Any) -> Any:
    """Return the shape of a part, and whether it is of texts; None of lists of many lengths."""
    try:
        found = np.asarray(value)
    except ValueError:
        return None
    return found.shape, found.dtype.kind in TEXTS


# --- samples by number, and in order ---


def numbered(
    data: Any, length: float, names: Names | None = None, strict: bool = True
) -> NumberedSamples:
    """Return the samples that a function makes by number, or that a dataset has."""
    number = isinstance(length, numbers.Real) and not isinstance(length, bool)
    if not number or not (length == math.inf or (length >= 0 and length % 1 == 0)):
        raise ValueError(f"_length is a number of samples or math.inf; got {length!r}")
    count = ENDLESS if length == math.inf else int(length)
    function = data.__getitem__ if asks_items(data) else data
    to_node = partial(sample_node, names=names, strict=strict)
    return NumberedSamples(function, count, identity((count,)), to_node)


def _in_order(value: Any, names: Names | None, strict: bool) -> Stream:
    has_order = _has_order(type(value))  # type: ignore[arg-type]
    origin = value.__iter__ if has_order else value
    if not has_order and not isinstance(value, Iterator):
        check_makes_iterators(value)
    return Stream(IteratorSamples(origin, partial(sample_node, names=names, strict=strict)))


_IN_ORDER = (FunctionType, MethodType, BuiltinFunctionType, GeneratorType)
"""Common classes of what makes samples in order."""

_NO_DATASETS = (Sequence, Mapping, Set, MappingView, Iterator)

_ORDERED = frozenset({("torch", "IterableDataset")})
"""Classes of samples in order that have items too, by library and name: these raise an error."""


@lru_cache(maxsize=256)
def _has_order(kind: type) -> bool:
    """Whether objects of a class have samples in order, and not by number."""
    for base in kind.__mro__:
        if (base.__module__.partition(".")[0], base.__name__) in _ORDERED:
            return True
    has_items = hasattr(kind, "__getitem__") or hasattr(kind, "__array__")
    return hasattr(kind, "__iter__") and not has_items and not issubclass(kind, _NO_DATASETS)
