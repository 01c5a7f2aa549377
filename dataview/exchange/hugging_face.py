"""Datasets of Hugging Face: columns are read by rows; what is decoded comes sample by sample."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from dataview.formats import node_of_rows
from dataview.index import Index, gather
from dataview.plan.build import field, record, stored
from dataview.plan.fields import check_name, read_only_meta
from dataview.plan.gaps import masks_in, own_columns, put_mask
from dataview.plan.node import Node
from dataview.sources import Memo, Source
from dataview.tables import with_labels


def is_columns(value: Any) -> bool:
    """Whether a value is a dataset in columns, whose samples no function of the user's changes."""
    kind = type(value)
    if (kind.__module__, kind.__name__) != ("datasets.arrow_dataset", "Dataset"):
        return False
    return value.format["type"] in (None, "numpy", "arrow") and bool(value.column_names)


def of_columns(dataset: Any, to_node: Callable[[Any], Node]) -> Node:
    """Return the record of a dataset's columns, and of masks where something is missing."""
    named: dict[str, Node] = {}
    masks: dict[str, Node] = {}
    for name in dataset.format["columns"]:
        feature = dataset.features[name]
        gaps = dataset.data.column(name).null_count
        kind = _kind_of(feature)
        if kind is None or (gaps and kind.shape):
            nested = _nested(dataset, name, feature)
            named[name] = to_node(_Items(dataset, name)) if nested is None else field(nested, name)
            if nested is not None:
                for mask in masks_in(nested.fields).values():
                    masks[name] = field(nested, mask)
            continue
        node: Node = stored(ColumnSource(dataset, name, kind))
        if type(feature).__name__ == "ClassLabel":
            node = with_labels(node, feature.names)
        elif gaps and kind.dtype.kind in "iubO":
            masks[name] = stored(ColumnSource(dataset, name, kind, is_mask=True))
        zone = {"timezone": kind.zone} if kind.zone else {}
        named[name] = node.replaced(meta=read_only_meta({**node.meta, **zone}))
    for name, mask_of_it in masks.items():
        put_mask(named, name, mask_of_it)
    return record({check_name(name): part for name, part in own_columns(named).items()}, 1)


def _nested(dataset: Any, name: str, feature: Any) -> Node | None:
    """Return the record of a column of lists or structs and its mask, None if it is decoded."""
    labels = dict(_labels_below(feature, (name,)))
    if any(found is None for found in labels.values()):
        return None
    known = {leaf: found for leaf, found in labels.items() if found}
    rows = dataset.with_format("arrow", columns=[name])
    column = dataset.data.column(name)
    return node_of_rows("a Hugging Face dataset", rows, len(dataset), name, column, known)


def _labels_below(feature: Any, name: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the names of the leaves of a feature with their labels; None for what is decoded."""
    kind = type(feature).__name__
    if isinstance(feature, Mapping):
        for part, inner in feature.items():
            yield from _labels_below(inner, (*name, part))
    elif kind in ("List", "LargeList", "Sequence"):
        yield from _labels_below(feature.feature, name)
    elif isinstance(feature, list):
        yield from _labels_below(feature[0], name)
    else:
        yield name, _LABELS[kind](feature) if kind in _LABELS else None


_LABELS: dict[str, Callable[[Any], list[str]]] = {
    "Value": lambda _: [],
    "ClassLabel": lambda feature: feature.names,
}
"""The labels of what is not decoded, by the class of its feature."""


class Kind(NamedTuple):
    """What a column holds, what stands where it has a gap, and the zone of its times."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()
    fill: Any = None
    zone: str = ""


_TEXTS = {"string", "large_string", "binary", "large_binary"}
_DAYS = {"date32": "M8[D]", "date64": "M8[ms]"}


def _kind_of(feature: Any) -> Kind | None:
    """Return what a column holds if all its rows are alike, else None."""
    name = type(feature).__name__
    if name == "ClassLabel":
        return Kind(np.dtype(np.int64), (), -1)
    if name == "Value":
        return _kind_of_value(feature.dtype)
    if name in ("Sequence", "List") and getattr(feature, "length", -1) >= 0:
        inner = _kind_of(feature.feature)
        if inner is not None and inner.dtype.kind in "iufb":
            return inner._replace(shape=(feature.length, *inner.shape))
    if re.fullmatch(r"Array\dD", name) and None not in feature.shape:
        return Kind(np.dtype(feature.dtype), tuple(feature.shape))
    return None


def _kind_of_value(text: str) -> Kind | None:
    """Return the kind of one of Arrow's types, None for one that NumPy has not."""
    if text in _TEXTS:
        return Kind(np.dtype(object))
    if text in _DAYS:
        return Kind(np.dtype(_DAYS[text]))
    times = re.fullmatch(r"(timestamp|duration)\[(s|ms|us|ns)(?:, tz=(.+))?\]", text)
    if times is not None:
        letter = "M" if times[1] == "timestamp" else "m"
        return Kind(np.dtype(f"{letter}8[{times[2]}]"), (), None, times[3] or "")
    if re.fullmatch(r"bool|u?int\d+|float\d+", text) is None:
        return None
    dtype = np.dtype(text)
    return Kind(dtype, (), None if dtype.kind == "f" else dtype.type(0).item())


class ColumnSource(Source):
    """A column, read by rows; with `is_mask` where there are data."""

    __slots__ = ("dataset", "dtype", "is_mask", "kind", "name", "rows", "shape")
    advice = "make a dataset with other values by dataset.map(function)"

    def __init__(self, dataset: Any, name: str, kind: Kind, is_mask: bool = False) -> None:
        self.dataset, self.name, self.kind, self.is_mask = dataset, name, kind, is_mask
        self.rows = dataset.with_format("arrow", columns=[name])
        self.shape: tuple[int, ...] = (len(dataset), *kind.shape)
        self.dtype = np.dtype(bool) if is_mask else kind.dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return ColumnSource, (self.dataset, self.name, self.kind, self.is_mask)

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return what the index selects, of the rows that it needs."""
        if 0 in index.shape:
            return np.ndarray(index.shape, self.dtype)
        return gather.by_rows(index, self._at)

    def _at(self, numbers: np.ndarray) -> np.ndarray:
        """Return some rows, in memory of their own."""
        first, last = int(numbers[0]), int(numbers[-1])
        is_run = last - first + 1 == len(numbers)
        found = self.rows[slice(first, last + 1) if is_run else numbers.tolist()].column(self.name)
        if self.is_mask:
            return np.array(found.is_valid(), bool)
        if self.kind.fill is not None and found.null_count:
            found = found.fill_null(self.kind.fill)
        parts = [self._values(chunk) for chunk in found.chunks]
        return np.concatenate(parts).astype(self.dtype, copy=False)

    def _values(self, chunk: Any) -> np.ndarray:
        """Return the values of one run of rows; those of lists lie in a line."""
        rows = len(chunk)
        while type(chunk).__name__ == "FixedSizeListArray":
            chunk = chunk.flatten()
        if self.kind.shape and chunk.null_count and self.dtype.kind in "iub":
            raise ValueError(
                f"{self.describe()} has lists in which {self.dtype.name} are missing; give them a "
                "value by dataset.map(function)"
            )
        values = np.asarray(chunk.to_numpy(zero_copy_only=False), self.dtype)
        return values.reshape(rows, *self.kind.shape)

    def is_same(self, other: Source) -> bool:
        """Whether another source is of the same column."""
        same = isinstance(other, ColumnSource) and self.dataset is other.dataset
        return same and (self.name, self.is_mask) == (other.name, other.is_mask)  # type: ignore[attr-defined]

    def describe(self) -> str:
        """Say which column this is."""
        return f"column {self.name!r} of a Hugging Face dataset"


class _Items:
    """The samples of one column, as the dataset decodes them."""

    def __init__(self, dataset: Any, name: str) -> None:
        self.rows, self.name = dataset.select_columns([name]), name

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Any:
        return self.rows[number][self.name]
