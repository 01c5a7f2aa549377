"""CSV files written some rows at a time: each field is a column, and what is missing an empty cell.

A file whose name ends in `.gz` is packed, and in one that is called `.tsv` tabs part the cells.
"""

from __future__ import annotations

import datetime
import decimal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dataview.compute import making_together
from dataview.errors import shortened, warn
from dataview.formats.field_tree import Leaf, masked_places
from dataview.formats.texts import as_cell, header_cells
from dataview.formats.writers.arrays import Job, Writer
from dataview.formats.writers.columns import (
    Texts,
    Written,
    plain_columns,
    text_file,
    texts_of_labels,
    unsaved_meta,
)
from dataview.plan.kinds import known_dtype, known_shape
from dataview.plan.operations import is_present
from dataview.sources import forgetting
from dataview.tables import checked_codes

STEP = 1 << 13
"""So many rows are written at a time."""

UNITS = {"Y": "D", "M": "D", "W": "D", "D": "D", "h": "s", "m": "s", "s": "s", "ms": "us",
         "us": "us", "ns": "ns"}  # fmt: skip
"""How exactly a date of some unit is written; those of other units are not."""

UNITS_OF_TIMES = ("h", "m", "s", "ms", "us", "ns")
"""The units of times of day that are written."""


def _in_csv(leaf: Leaf) -> str | None:
    """Say why a column cannot hold an array, None if it can."""
    dtype = known_dtype(leaf.node)
    if len(known_shape(leaf.node)) > 1:
        return f"has one cell for each row, and these have the shape {known_shape(leaf.node)[1:]}"
    if dtype.kind == "M" and np.datetime_data(dtype)[0] in UNITS:
        return None
    if leaf.of_times and np.datetime_data(dtype)[0] in UNITS_OF_TIMES:
        return None
    return None if dtype.kind in "biufUOT" else "holds numbers, bools, dates and texts"


def _write_csv(path: str, job: Job) -> None:
    columns, labels = _columns(job)
    bare = path.lower().removesuffix(".gz")
    sep = "\t" if bare.endswith(".tsv") else ","
    count = known_shape(columns[0][0].node)[0]
    nodes = [leaf.node for pair in columns for leaf in pair if leaf is not None]
    with text_file(path) as file:
        file.write(sep.join(header_cells([leaf.name for leaf, _ in columns])) + "\n")
        with making_together(nodes):
            for start in forgetting(range(0, count, STEP)):
                job.reading.begin(job.leaves)
                rows = (slice(start, min(count, start + STEP)),)
                cells = [
                    _cells(job, leaf, mask, rows, len(columns) == 1, labels.get(leaf.at))
                    for leaf, mask in columns
                ]
                file.writelines(f"{sep.join(row)}\n" for row in zip(*cells, strict=True))


def _columns(job: Job) -> tuple[list[tuple[Leaf, Leaf | None]], dict[str, list[str]]]:
    """Return the arrays that are columns, with those that say where they have data.

    With them come the cells of the labels that codes know, by the place of the codes.
    """
    tree = job.description["tree"]
    if tree["kind"] != "record" or not tree.get("fields"):
        raise TypeError(
            "a CSV file has named columns, and this view has none: dv.View(x=view)._save(path) "
            "saves it as the column 'x'"
        )
    _check(tree, "")
    lengths = {leaf.name: next(iter(known_shape(leaf.node)), None) for leaf in job.leaves}
    if None in lengths.values() or len({*lengths.values()}) > 1:
        raise TypeError(
            f"the columns of a CSV file have rows, and all as many; got {shortened(str(lengths))}"
        )
    names = Counter(leaf.name for leaf in job.leaves)
    if len(names) < len(job.leaves):
        raise ValueError(
            f"two columns would have the name {names.most_common(1)[0][0]!r}, since nested names "
            "get dots; rename one"
        )
    given = {leaf.at: leaf for leaf in job.leaves}
    leaves = {column.at: given[column.at] for column in plain_columns(tree)}  # in their order
    masks = masked_places(tree, {at: leaf.node for at, leaf in leaves.items()})
    labels = texts_of_labels(tree, leaves, TEXTS, "")
    left = unsaved_meta(tree, leaves, labels)
    if left:
        warn(f"a CSV file holds columns alone: {', '.join(left)} are not saved; .h5 keeps them")
    used = {*masks.values()}
    columns = [
        (leaf, leaves.get(masks.get(at, ""))) for at, leaf in leaves.items() if at not in used
    ]
    return columns, labels


def _check(entry: Mapping[str, Any], name: str) -> None:
    """Raise if a row of a field is no cell."""
    if entry["kind"] == "ragged":
        raise TypeError(
            f"the rows of {name!r} differ in length, and a row of a CSV file has one cell for each "
            "column; save as .h5 or .zarr, or leave it out by d._drop"
        )
    if entry["kind"] != "record" and entry.get("fields"):
        raise TypeError(
            f"field {name!r} has fields of its own, and a column has none; save as .h5 or .zarr"
        )
    for own, part in entry.get("fields", {}).items():
        _check(part, f"{name}.{own}".lstrip("."))


# --- cells -------------------------------------------------------------------------------------


def _cells(
    job: Job,
    leaf: Leaf,
    mask: Leaf | None,
    rows: tuple[slice],
    is_alone: bool,
    names: list[str] | None,
) -> Sequence[str]:
    """Return the cells of some rows; an empty line would be no row, so a lone column has NA."""
    block = job.reading.block(leaf, rows)
    if names is None:
        texts = TEXTS[block.dtype.kind](block, leaf)
    else:
        texts = [names[code] for code in checked_codes(block, len(names) - 1).tolist()]
    if mask is not None:
        present = job.reading.block(mask, rows).tolist()
        texts = [text if there else "" for text, there in zip(texts, present, strict=True)]
    return [text or "NA" for text in texts] if is_alone else texts


def of_numbers(block: np.ndarray, leaf: Leaf) -> list[str]:
    """Return whole numbers as they are written."""
    return list(map(str, block.tolist()))


def of_bools(block: np.ndarray, leaf: Leaf) -> list[str]:
    """Return truth values as they are written."""
    return ["true" if value else "false" for value in block.tolist()]


def of_floats(block: np.ndarray, leaf: Leaf) -> list[str]:
    """Return numbers as short as they can be, and nothing for NaN."""
    texts = map(repr, block.tolist()) if block.dtype == np.float64 else block.astype("U").tolist()
    return ["" if text == "nan" else text for text in texts]


def of_dates(block: np.ndarray, leaf: Leaf) -> list[str]:
    """Return dates as exactly as they are told, and nothing for NaT."""
    unit = UNITS[np.datetime_data(block.dtype)[0]]
    texts = np.datetime_as_string(block.astype(f"M8[{unit}]")).tolist()
    return ["" if text == "NaT" else text for text in texts]


def of_times(block: np.ndarray, leaf: Leaf) -> list[str]:
    """Return times of day as `datetime.time` writes them, and nothing for NaT."""
    whole = block.astype(np.promote_types(block.dtype, "m8[s]"))
    wrong = (whole < np.timedelta64(0)) | (whole >= np.timedelta64(1, "D"))
    if wrong.any():
        raise ValueError(
            f"field {leaf.name!r}: {whole[wrong][0]} is no time of day, and the metadata say that "
            "all are; _with_meta(time_of_day=None) makes durations of them"
        )
    texts = [text[len("1970-01-01T") :] for text in of_dates(np.datetime64(0, "s") + whole, leaf)]
    return [text if text[9:].strip("0") else text[:8] for text in texts]


def of_decimal(value: decimal.Decimal) -> str:
    """Return a decimal with all its digits, and what is no finite number as floats are written."""
    return str(value) if value.is_finite() else str(float(value))


OBJECTS: Written = {
    str: as_cell, datetime.date: datetime.date.isoformat, datetime.time: datetime.time.isoformat,
    datetime.datetime: datetime.datetime.isoformat, decimal.Decimal: of_decimal,
}  # fmt: skip
"""What makes cells of Python's objects, by their class."""


def of_objects(block: np.ndarray, leaf: Leaf, written: Written = OBJECTS) -> list[str]:
    """Return texts and Python's dates, times and decimals as written, nothing for None or NaN."""
    values = block.tolist()
    if block.dtype.kind != "U":
        there = is_present(block).tolist()
        values = [one if is_one else None for one, is_one in zip(values, there, strict=True)]
    ways = {kind: _way(kind, written) for kind in {*map(type, values)} - {type(None)}}
    wrong = next((one for one in values if one is not None and ways[type(one)] is None), None)
    if wrong is not None:
        raise TypeError(
            f"field {leaf.name!r} has {shortened(repr(wrong))}, and of Python's objects a column "
            "holds dates, times, decimals and texts, and None or NaN for what is missing; "
            "_map(str) makes texts of the others"
        )
    known = {kind: way for kind, way in ways.items() if way is not None}
    return ["" if value is None else known[type(value)](value) for value in values]


def _way(kind: type, written: Written) -> Callable[[Any], str] | None:
    """Return what writes objects of a class, None if nothing does."""
    return next((written[own] for own in kind.__mro__ if own in written), None)


TEXTS: Texts = {
    "b": of_bools, "i": of_numbers, "u": of_numbers, "f": of_floats, "M": of_dates,
    "m": of_times, "U": of_objects, "O": of_objects, "T": of_objects,
}  # fmt: skip
"""What makes cells of the elements of a column, by the kind of its dtype: empty where is none."""

CSV_WRITER = Writer("a CSV file", _write_csv, _in_csv, takes_zeros=False)
"""How views are written as CSV files."""
