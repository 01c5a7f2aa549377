"""The columns of a table that is written: groups of rows, masks of gaps, where lists begin, labels.

A format makes of them what it writes.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import gzip
import io
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import (
    evaluate,
    have_makers_in_common,
    makers_of,
    making_together,
    rows_of_request,
)
from dataview.errors import shortened
from dataview.formats.field_tree import Leaf, masks_of_entries
from dataview.formats.writers.arrays import Job
from dataview.plan.build import keyed
from dataview.plan.gaps import LABELS, NOTES_OF_MASKS, present_in
from dataview.plan.kinds import known_dtype, known_shape, size_of
from dataview.plan.values import TIME_OF_DAY
from dataview.sources import forgetting, new_file
from dataview.tables import labels_of

OBJECT_BYTES = 64
"""About what a text takes."""


class Columns:
    """The columns of a table that is written: what is read for them, and how far that is.

    A group of rows takes about `group_bytes`, and has no more than `most_rows`.
    """

    def __init__(self, job: Job, group_bytes: int, most_rows: int) -> None:
        tree = job.description["tree"]
        self.job, self.tree = job, tree
        self.group_bytes, self.most_rows = group_bytes, most_rows
        self.leaves = {leaf.at: leaf for leaf in job.leaves}
        self.held: dict[str, np.ndarray] = {}  # rows of the group that functions have made
        self.first = 0  # of the rows of the group
        self.done: dict[str, int] = {}  # how many values of ragged rows are read, by their place
        _check_table(tree)
        self.fields: Mapping[str, Any] = tree["fields"]
        lengths = {name: self._length(entry) for name, entry in self.fields.items()}
        self.count = next(iter(lengths.values())) or 0
        if None in lengths.values() or len(set(lengths.values())) > 1:
            raise TypeError(
                f"the columns of a table have rows, and all as many; got {shortened(str(lengths))}"
            )

    def _length(self, entry: Mapping[str, Any]) -> int | None:
        if entry["kind"] == "record":
            return next(map(self._length, entry["fields"].values()), None)
        at = entry["lengths"] if entry["kind"] == "ragged" else entry["at"]
        return next(iter(known_shape(self.leaves[at].node)), None)

    def groups(self) -> Iterator[tuple[int, int]]:
        """Yield where groups of rows begin and end, one at least; each is read before the next."""
        nodes = [leaf.node for leaf in self.leaves.values()]
        step = self._step()
        with making_together(nodes):
            for start in forgetting(range(0, max(1, self.count), step)):
                stop = min(self.count, start + step)
                self.job.reading.begin(self.leaves.values())
                self.first, self.held = start, self._made(start, stop)
                yield start, stop

    def _made(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Return the rows of a group that functions make, each once for all columns.

        They are made in requests, of which a group may take several.
        """
        leaves = [
            leaf
            for leaf in self.leaves.values()
            if known_shape(leaf.node)[:1] == (self.count,) and makers_of(leaf.node)
        ]
        nodes = [leaf.node for leaf in leaves]
        if not have_makers_in_common(nodes):
            return {}
        step = rows_of_request(nodes)
        found: dict[str, list[np.ndarray]] = {leaf.at: [] for leaf in leaves}
        for first in forgetting(range(start, max(stop, start + 1), step)):
            key = (slice(first, min(stop, first + step)),)
            for leaf in leaves:
                found[leaf.at].append(self.job.reading.block(leaf, key))
        return {
            leaf.at: np.concatenate(found[leaf.at], dtype=known_dtype(leaf.node)) for leaf in leaves
        }

    def _step(self) -> int:
        """Return how many rows a group has."""
        if self.job.chunks is not None:
            chunks = self.job.chunks
            return int(chunks if isinstance(chunks, int) else chunks[0])
        total = sum(
            size_of(known_shape(leaf.node)) * (OBJECT_BYTES if dtype.hasobject else dtype.itemsize)
            for leaf in self.leaves.values()
            for dtype in [known_dtype(leaf.node)]
        )
        return max(1, min(self.most_rows, self.group_bytes * max(1, self.count) // max(1, total)))

    def members(
        self, entries: Mapping[str, Any], start: int, stop: int
    ) -> Iterator[tuple[str, Any, np.ndarray | None]]:
        """Yield the columns of a record by name, and where each has data if a mask says it."""
        masks = masks_of_entries(entries, {at: leaf.node for at, leaf in self.leaves.items()})
        for name, entry in entries.items():
            if name not in masks.values():
                mask = entries[masks[name]]["at"] if name in masks else None
                yield name, entry, None if mask is None else self.block(mask, start, stop)

    def lists(self, entry: Mapping[str, Any], start: int, stop: int) -> tuple[np.ndarray, int]:
        """Return where the lists of the next rows begin, from 0 on, and their first value."""
        at = entry["lengths"]
        first = self.done.get(at, 0)
        offsets = np.concatenate([[0], np.cumsum(self.block(at, start, stop))]).astype(np.int64)
        self.done[at] = first + int(offsets[-1])
        return offsets, first

    def gaps_of_lists(
        self, entry: Mapping[str, Any], offsets: np.ndarray, first: int, present: np.ndarray | None
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return where lists have values, and which rows are lists; None where all are.

        The mask of rows tells of gaps inside of lists, too, and of lists in lists that are missing;
        a row with values is a list.
        """
        values = entry["values"]
        end = first + int(offsets[-1])
        if values["kind"] == "ragged":
            inner = self.block(values["present"], first, end) if "present" in values else None
        else:
            is_array = values["kind"] == "array"
            there = present_in(self.leaves[values["at"]].node) if is_array else None
            if there is None:
                return None, present
            inner = evaluate(keyed(there, slice(first, end)))
        return inner, None if present is None else present | (np.diff(offsets) > 0)

    def block(self, at: str, start: int, stop: int) -> np.ndarray:
        """Return some rows of an array."""
        if at in self.held:
            return self.held[at][start - self.first : stop - self.first]
        leaf = self.leaves[at]
        return self.job.reading.block(leaf, (slice(start, stop),) if known_shape(leaf.node) else ())


def _check_table(tree: Mapping[str, Any]) -> None:
    """Raise if a view has no columns."""
    if tree["kind"] != "record" or tree.get("rank") != 1 or not tree.get("fields"):
        named = ", ".join(map(repr, tree.get("fields") or ()))
        remedy = (
            f"d._select({named})._save(path) saves the fields of an array as columns"
            if named and tree["kind"] == "array"
            else "dv.View(x=view)._save(path) saves one array as the column 'x', and d._drop(name) "
            "leaves out a field that is one value"
        )
        raise TypeError(f"a table has columns with names, and this view has none: {remedy}")
    _check_ragged(tree, "")


def _check_ragged(entry: Mapping[str, Any], name: str) -> None:
    if entry["kind"] == "ragged":
        if len(entry["row"]) > 1:
            raise TypeError(
                f"the rows of {name!r} differ along several axes, and a list is one line; save "
                "them as .h5 or .zarr"
            )
        _check_ragged(entry["values"], name)
    for own, part in entry.get("fields", {}).items() if entry["kind"] == "record" else ():
        _check_ragged(part, f"{name}.{own}".lstrip("."))


def left_out(entry: Mapping[str, Any], name: str) -> list[str]:
    """Return what of a description no table holds: fields of arrays, metadata of inner records."""
    found = []
    if entry["kind"] != "record":
        found += [f"the fields of {name!r}"] if entry.get("fields") else []
        return found + (left_out(entry["values"], name) if entry["kind"] == "ragged" else [])
    if name and entry.get("meta"):
        found.append(f"the metadata of {name!r}")
    for own, part in entry["fields"].items():
        found += left_out(part, f"{name}.{own}".lstrip("."))
    return found


# --- tables that are texts -----------------------------------------------------------------------


@contextlib.contextmanager
def text_file(path: str) -> Iterator[Any]:
    """Yield a new file for texts, which are packed if its name ends in `.gz`."""
    with contextlib.ExitStack() as held:
        file: Any = held.enter_context(new_file(path))
        if path.lower().endswith(".gz"):
            file = held.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        text = io.TextIOWrapper(file, "utf-8", newline="")
        yield text
        text.flush()
        text.detach()


def _with_meta(entry: Mapping[str, Any], name: str) -> list[tuple[str, set[str]]]:
    """Return the fields that have metadata, and the names of these."""
    items = {*entry.get("meta", {})} - NOTES_OF_MASKS
    found = [(name, items)] if items else []
    for own, part in entry.get("fields", {}).items():
        found += _with_meta(part, f"{name}.{own}".lstrip("."))
    return found


Texts = Mapping[str, Callable[[np.ndarray, Leaf], list[str]]]
"""What makes texts of the elements of a line, by the kinds of dtypes."""

Written = Mapping[type, Callable[[Any], str]]
"""What makes a text of one of Python's objects, by their class."""

_OF_PYTHON = (str, datetime.date, datetime.time, decimal.Decimal)
"""The classes of Python's objects that tables of texts hold."""


class Plain(NamedTuple):
    """An array of a table, by its place: the column that it is, or is in the lists of.

    `meta` are the metadata of the column.
    """

    at: str
    name: str
    meta: Mapping[str, Any]


def plain_columns(entry: Mapping[str, Any], name: str = "") -> Iterator[Plain]:
    """Yield the arrays that are columns, and what is in lists, in the order of the fields."""
    if entry["kind"] == "record":
        for own, part in entry.get("fields", {}).items():
            yield from plain_columns(part, f"{name}.{own}".lstrip("."))
    elif entry["kind"] == "ragged":
        yield from plain_columns({**entry["values"], "meta": entry.get("meta", {})}, name)
    elif entry["kind"] == "array":  # a window has no array of its own
        yield Plain(entry["at"], name, entry.get("meta", {}))


def texts_of_labels(
    tree: Mapping[str, Any], leaves: Mapping[str, Leaf], texts: Texts, nothing: str
) -> dict[str, list[str]]:
    """Return the texts of the labels of codes and then that of what is missing, by place.

    There are none of labels that a column does not hold: there the codes are kept.
    """
    found = {}
    for at, _, meta in plain_columns(tree):
        labels = labels_of(leaves[at].node.replaced(meta=meta))
        array = None if labels is None else _as_held(labels.array(), leaves[at])
        if array is not None and array.dtype.kind in texts and array.dtype.kind != "m":  # no times
            found[at] = [*texts[array.dtype.kind](array, leaves[at]), nothing]
    return found


def _as_held(labels: np.ndarray, leaf: Leaf) -> np.ndarray | None:
    """Return labels of which texts can be made, those that are bytes as texts of UTF-8.

    Of objects there are none unless they are of one class: a text ``"1"`` would be as a number is.
    """
    if labels.dtype.kind not in "OS" or not labels.size:
        return labels
    kind, *others = {*map(type, labels.tolist())}
    if others or not issubclass(kind, (bytes, *_OF_PYTHON)):
        return None
    if not issubclass(kind, bytes):
        return labels
    found = np.empty(len(labels), object)
    try:
        found[:] = [label.decode() for label in labels.tolist()]
    except UnicodeDecodeError as error:
        raise ValueError(
            f"field {leaf.name!r} holds codes, and a table of texts has no label "
            f"{shortened(repr(error.object))}, which is no UTF-8; .parquet and .h5 keep it"
        ) from None
    return found


def unsaved_meta(
    tree: Mapping[str, Any], leaves: Mapping[str, Leaf], labels: Collection[str]
) -> list[str]:
    """Return what has metadata that a table of texts lacks, where it has the labels of places.

    Labels that no column holds, such as durations and those of several kinds, are named first.
    """
    written, bare = set(), list[str]()
    for at, name, meta in plain_columns(tree):
        if at in labels or leaves[at].of_times:
            written.add(name)
        elif labels_of(leaves[at].node.replaced(meta=meta)) is not None:
            bare.append(f"the labels of the codes {name!r}" if name else "the labels of the codes")
    return bare + [
        f"the metadata of {name!r}" if name else "the metadata"
        for name, items in _with_meta(tree, "")
        if name not in written or not items <= {LABELS, TIME_OF_DAY}
    ]
