"""Lines of JSON written some rows at a time: each row is an object, and null what is missing.

Records are objects in it, ragged rows and further axes are lists, and dates and times are texts.
JSON has no number for NaN, which is null, or for infinity, which is too large a one: 1e999.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any

import numpy as np

from dataview.errors import warn
from dataview.formats.field_tree import Leaf
from dataview.formats.writers.arrays import Job, Writer
from dataview.formats.writers.columns import (
    Columns,
    Texts,
    Written,
    left_out,
    text_file,
    texts_of_labels,
    unsaved_meta,
)
from dataview.formats.writers.csv import (
    UNITS,
    UNITS_OF_TIMES,
    of_bools,
    of_dates,
    of_decimal,
    of_floats,
    of_numbers,
    of_objects,
    of_times,
)
from dataview.plan.kinds import known_dtype
from dataview.tables import checked_codes

GROUP_BYTES = 1 << 21
MOST_ROWS = 1 << 13
"""So much is written at a time: as text it takes several times as much memory."""

NULL = "null"


def _in_json(leaf: Leaf) -> str | None:
    """Say why a line of JSON cannot hold elements of an array, None if it can."""
    dtype = known_dtype(leaf.node)
    if dtype.kind == "f" and dtype.itemsize > 8:
        return "has numbers that are read with 64 bits"
    if dtype.kind == "M" and np.datetime_data(dtype)[0] not in UNITS:
        return "has dates with a unit"
    is_held = dtype.kind in _TEXTS
    if dtype.kind == "m":
        is_held = leaf.of_times and np.datetime_data(dtype)[0] in UNITS_OF_TIMES
    return None if is_held else "holds numbers, bools, dates and texts"


def _write_json(path: str, job: Job) -> None:
    rows = _Rows(job)
    with text_file(path) as file:
        for start, stop in rows.groups():
            file.writelines(f"{row}\n" for row in rows.objects(rows.fields, start, stop))


class _Rows(Columns):
    """The rows of a table as objects of JSON."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, GROUP_BYTES, MOST_ROWS)
        self.labels = texts_of_labels(self.tree, self.leaves, _TEXTS, NULL)
        left = {*unsaved_meta(self.tree, self.leaves, self.labels)}
        left.update(left_out(self.tree, ""))
        if left:
            told = ", ".join(sorted(left))
            warn(f"lines of JSON hold values alone: {told} are not saved; .h5 keeps them")

    def objects(self, entries: Mapping[str, Any], start: int, stop: int) -> list[str]:
        """Return some rows of the members of a record."""
        members = list(self.members(entries, start, stop))
        keys = [f"{json.dumps(name, ensure_ascii=False)}: " for name, _, _ in members]
        columns = [self._values(entry, start, stop, there) for _, entry, there in members]
        if not columns:
            return ["{}"] * (stop - start)
        return [
            f"{{{', '.join(map(str.__add__, keys, row))}}}" for row in zip(*columns, strict=True)
        ]

    def _values(
        self, entry: Mapping[str, Any], start: int, stop: int, present: np.ndarray | None = None
    ) -> Sequence[str]:
        """Return some values of what an entry describes, null where they are not present."""
        if entry["kind"] == "record":
            texts: Sequence[str] = self.objects(entry["fields"], start, stop)
        elif entry["kind"] == "ragged":
            offsets, first = self.lists(entry, start, stop)
            there, present = self.gaps_of_lists(entry, offsets, first, present)
            inner = self._values(entry["values"], first, first + int(offsets[-1]), there)
            texts = _in_lists(inner, offsets.tolist())
        else:
            texts = self._elements(entry["at"], start, stop, present)
        if present is None:
            return texts
        rows = np.asarray(present.any(axis=tuple(range(1, present.ndim))))
        return [text if there else NULL for text, there in zip(texts, rows, strict=True)]

    def _elements(self, at: str, start: int, stop: int, present: np.ndarray | None) -> list[str]:
        """Return some rows of an array; those of more axes are lists."""
        block = self.block(at, start, stop)
        flat = block.reshape(-1)
        names = self.labels.get(at)
        if names is None:
            texts = _TEXTS[block.dtype.kind](flat, self.leaves[at])
        else:
            texts = [names[code] for code in checked_codes(flat, len(names) - 1).tolist()]
        if present is not None and present.ndim > 1:
            every = present.reshape(present.shape + (1,) * (block.ndim - present.ndim))
            there = np.broadcast_to(every, block.shape).reshape(-1).tolist()
            texts = [text if one else NULL for text, one in zip(texts, there, strict=True)]
        for axis in range(block.ndim - 1, 0, -1):
            count, length = int(np.prod(block.shape[:axis])), block.shape[axis]
            texts = _in_lists(texts, (np.arange(count + 1) * length).tolist())
        return texts


def _in_lists(texts: Sequence[str], offsets: Sequence[int]) -> list[str]:
    """Return lists of values, by where each begins and the last ends."""
    return [f"[{', '.join(texts[start:stop])}]" for start, stop in itertools.pairwise(offsets)]


def _of_floats(block: np.ndarray, leaf: Leaf) -> list[str]:
    return [_NO_NUMBERS.get(text, text) for text in of_floats(block, leaf)]


_NO_NUMBERS = {"": NULL, "inf": "1e999", "-inf": "-1e999"}


def _of_dates(block: np.ndarray, leaf: Leaf) -> list[str]:
    return [f'"{text}"' if text else NULL for text in of_dates(block, leaf)]


def _of_times(block: np.ndarray, leaf: Leaf) -> list[str]:
    return [f'"{text}"' if text else NULL for text in of_times(block, leaf)]


def _quoted(way: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: f'"{way(value)}"'


def _of_decimal(value: decimal.Decimal) -> str:
    text = of_decimal(value)
    return _NO_NUMBERS.get(text, text)


_OBJECTS: Written = {
    str: encode_basestring,
    datetime.date: _quoted(datetime.date.isoformat),
    datetime.time: _quoted(datetime.time.isoformat),
    datetime.datetime: _quoted(datetime.datetime.isoformat),
    decimal.Decimal: _of_decimal,
}
"""What makes values of JSON of Python's objects, by their class."""


def _of_objects(block: np.ndarray, leaf: Leaf) -> list[str]:
    """Return texts as they are, or by ASCII alone if UTF-8 has no code for one."""
    texts = of_objects(block, leaf, _OBJECTS)
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        texts = of_objects(block, leaf, {**_OBJECTS, str: encode_basestring_ascii})
    return [text or NULL for text in texts]


_TEXTS: Texts = {
    "b": of_bools, "i": of_numbers, "u": of_numbers, "f": _of_floats, "M": _of_dates,
    "m": _of_times, "U": _of_objects, "O": _of_objects, "T": _of_objects,
}  # fmt: skip

JSON_WRITER = Writer("a file of lines of JSON", _write_json, _in_json, takes_zeros=False)
"""How views are written as lines of JSON."""
