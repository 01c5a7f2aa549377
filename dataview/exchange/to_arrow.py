"""A node becomes a stream of Arrow batches: columns of numbers, texts, lists and structs.

Arrow's data never changes, so every column is a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import rows_of
from dataview.errors import error_at, import_library
from dataview.exchange.to_libraries import Gapped, as_columns, gapped, owned, table_of
from dataview.formats import (
    DECIMAL,
    array_of_labels,
    as_told,
    check_kinds,
    coded_in_arrow,
    with_lists,
)
from dataview.plan.build import keyed
from dataview.plan.gaps import NO_LABEL, present_in
from dataview.plan.kinds import Record, Sampled, known_dtype, known_shape, members, size_of
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.plan.values import is_time_of_day
from dataview.samples import with_lengths
from dataview.sources import Memo
from dataview.tables import Labels, labels_of, name_of

BATCH_BYTES = 1 << 24
"""How much of a table is read for one batch."""


def arrow_array(node: Node, kind: Any) -> Any:
    """Return a node's data as an Arrow array, that of a record as structs."""
    pyarrow = import_library("pyarrow", "dataview[arrow]")
    node = with_lengths(node)
    known = not node.fields.named if isinstance(node, Ragged) else node.has_gaps
    found = _column(gapped(node, _own, True) if known else as_columns(node, _own), pyarrow)
    return found if kind is None else found.cast(kind)


def arrow_stream(node: Node, schema: Any) -> Any:
    """Return a node's data as a capsule of Arrow's C stream: rows of columns, or one column.

    Fields are columns; without fields, so are the columns of an array, named by their numbers.
    """
    pyarrow = import_library("pyarrow", "dataview[arrow]")
    table, columns = _tabular(node)
    if columns is None:
        found = pyarrow.chunked_array([_lone_column(table, pyarrow)])
    else:
        found = _reader(table, columns, pyarrow)
    return found.__arrow_c_stream__(schema)


def arrow_batch(node: Node, schema: Any) -> Any:
    """Return a node's data as two capsules of Arrow's C array, which is one batch of all rows."""
    pyarrow = import_library("pyarrow", "dataview[arrow]")
    table, columns = _tabular(node)
    found = _lone_column(table, pyarrow) if columns is None else _batch(columns(table), pyarrow)
    return found.__arrow_c_array__(schema)


def _tabular(node: Node) -> tuple[Node, Callable[[Node], dict[str, Any]] | None]:
    """Return the node that has rows, and what makes columns of them; None if there is only one."""
    node = with_lengths(node)  # an array of lists would not tell which of their values are missing
    if isinstance(node, Sampled) and node.fields.named:
        return node, _named
    table = table_of(node)
    if table is None:
        whole = isinstance(node, (Ragged, Sampled)) or node.shape is None or len(node.shape) < 2
        return node, None if whole else _numbered
    if not table.rank:
        raise TypeError("a table has rows; this view is one of them: take view[i:i+1]")
    return table, _named


def _lone_column(node: Node, pyarrow: Any) -> Any:
    found = gapped(node, _own, True)
    return _column(found if isinstance(node, Ragged) else found.in_rows(), pyarrow)


def _own(node: Node, memo: Memo) -> Any:
    """Return a node's data; ragged rows as they are, since Arrow has lists of any length."""
    return node if isinstance(node, Ragged) else owned(node, memo)


class _Meant(NamedTuple):
    """Data whose values stand for something else, and what makes an Arrow array of that.

    `missing` is the value that stands for nothing.
    """

    data: Any
    made: Callable[[np.ndarray], Any]
    missing: Any

    def in_lines(self) -> _Meant:
        """Return the same data with its first two axes in one."""
        return self._replace(data=_in_lines(self.data))


def _meant(node: Node, memo: Memo) -> Any:
    """Return a node's data: codes with their labels, times with their zone, or of what type."""
    data, labels, zone = _own(node, memo), labels_of(node), node.meta.get("timezone")
    if labels is not None:
        return _Meant(data, partial(coded_in_arrow, labels=_labels(labels, node)), NO_LABEL)
    dtype = node.dtype
    if isinstance(zone, str) and dtype is not None and dtype.kind == "M":
        unit = np.datetime_data(dtype)[0]
        if unit in _UNITS:
            return _Meant(data, partial(_zoned, unit=unit, zone=zone), np.datetime64("NaT"))
    if dtype is not None and dtype.hasobject and DECIMAL in node.meta:
        return _Meant(data, partial(_told, meta=node.meta, name=name_of(node)), None)
    if dtype is not None and dtype.kind == "m" and is_time_of_day(node.meta):
        made = partial(_told, meta=node.meta, name=name_of(node))
        return _Meant(data, made, np.timedelta64("NaT"))
    return data


_UNITS = ("s", "ms", "us", "ns")
"""The units of times that Arrow has."""


def _labels(labels: Labels, node: Node) -> Any:
    """Return the labels of codes as an Arrow array."""
    listed = labels.list()
    try:
        check_kinds(np.fromiter(listed, object, len(listed)), "label {}".format)
        return array_of_labels(listed)
    except TypeError as error:
        raise TypeError(
            f"{name_of(node)} holds codes of labels: {error}; _with_meta(labels=None) are the "
            "codes as plain numbers"
        ) from None


def _zoned(times: np.ndarray, unit: str, zone: str) -> Any:
    """Return times in UTC with the name of their zone."""
    pyarrow = import_library("pyarrow", "dataview[arrow]")
    return pyarrow.array(times, pyarrow.timestamp(unit)).cast(pyarrow.timestamp(unit, zone))


def _told(values: np.ndarray, meta: Mapping[str, Any], name: str) -> Any:
    """Return decimals in the type that metadata name, if that holds them, and times of day."""
    pyarrow = import_library("pyarrow", "dataview[arrow]")
    try:
        return as_told(_plain(values, pyarrow), meta)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _named(rows: Node) -> dict[str, Any]:
    """Return the fields of rows as columns."""
    found: dict[str, Any] = as_columns(rows, _meant)
    return found


def _numbered(rows: Node) -> dict[str, Any]:
    """Return the columns of an array, named by their numbers."""
    data, there, _ = gapped(rows, _own)
    return {
        str(number): Gapped(data[:, number], None if there is None else there[:, number])
        for number in range(data.shape[1])
    }


def _reader(table: Node, columns: Callable[[Node], dict[str, Any]], pyarrow: Any) -> Any:
    """Return a reader of batches; each is read when it is its turn.

    For objects Arrow finds the type from the data: then all is one batch.
    """
    leaves = list(_leaves(table))
    if any(isinstance(leaf, Sampled) or known_dtype(leaf).hasobject for leaf in leaves):
        batch = _batch(columns(table), pyarrow)
        return pyarrow.RecordBatchReader.from_batches(batch.schema, [batch])
    types = _batch(columns(keyed(table, slice(0, 0))), pyarrow).schema
    row = sum(size_of(known_shape(leaf)[1:]) * known_dtype(leaf).itemsize for leaf in leaves)
    step = max(1, BATCH_BYTES // max(1, row))
    batches = (
        _batch(columns(keyed(table, slice(start, start + step))), pyarrow)
        for start in range(0, known_shape(table)[0], step)
    )
    return pyarrow.RecordBatchReader.from_batches(types, batches)


def _leaves(node: Node) -> Iterator[Node]:
    if not isinstance(node, Record):
        yield node
        return
    for part in members(node).values():
        yield from _leaves(part.node)


def _batch(columns: dict[str, Any], pyarrow: Any) -> Any:
    arrays = [_named_column(name, part, pyarrow) for name, part in columns.items()]
    return pyarrow.RecordBatch.from_arrays(arrays, names=list(columns))


def _named_column(name: str, part: Any, pyarrow: Any) -> Any:
    try:
        return _column(part, pyarrow, "row")
    except TypeError as error:
        raise error_at(error, f"field {name!r}") from error


def _with_nulls(column: Gapped, pyarrow: Any, title: str) -> Any:
    """Return an Arrow array that has null where there are no data; labels keep their numbers."""
    values, present, are_lists = column
    if present is None:
        return _column(values, pyarrow, title)
    if present.ndim > 1:
        inner = values.in_lines() if isinstance(values, _Meant) else _in_lines(values)
        flat = _with_nulls(Gapped(inner, _in_lines(present), are_lists), pyarrow, "value")
        lists = present.any(axis=tuple(range(1, present.ndim))) if are_lists else None
        return _fixed_lists(flat, present.shape[:2], pyarrow, lists)
    if isinstance(values, _Meant) and getattr(values.data, "ndim", 0) == 1:
        data = np.where(present, values.data, np.asarray(values.missing))  # -1 is no uint8
        return _column(values._replace(data=data), pyarrow)
    whole = _column(values, pyarrow, title)
    compute = import_library("pyarrow.compute", "dataview[arrow]")
    nothing = pyarrow.nulls(1, whole.type)[0]  # there is no scalar of codes of dates
    return compute.if_else(pyarrow.array(present), whole, nothing)


def _in_lines(data: np.ndarray) -> np.ndarray:
    """Return an array with its first two axes in one."""
    return data.reshape(-1, *data.shape[2:])


def _column(part: Any, pyarrow: Any, title: str = "value") -> Any:
    """Return an Arrow array: structs for a dict, lists for an array of more axes or ragged rows.

    `title` is what an element is called in errors.
    """
    if isinstance(part, Gapped):
        return _with_nulls(part, pyarrow, title)
    if isinstance(part, dict):
        inner = [_column(below, pyarrow) for below in part.values()]
        return pyarrow.StructArray.from_arrays(inner, names=list(part))
    data = part.data if isinstance(part, _Meant) else part
    if isinstance(data, Ragged):
        offsets, within = _lists(data, part)
        return pyarrow.LargeListArray.from_arrays(offsets, _column(within, pyarrow))
    if data.ndim > 1:
        flat = _column(part.in_lines() if part is not data else _in_lines(data), pyarrow)
        return _fixed_lists(flat, data.shape[:2], pyarrow)
    if part is not data:
        return part.made(data)
    if data.dtype.kind == "V" and data.dtype.itemsize:
        raw = pyarrow.py_buffer(np.ascontiguousarray(data).tobytes())
        return pyarrow.Array.from_buffers(
            pyarrow.binary(data.dtype.itemsize), len(data), [None, raw]
        )
    if not data.dtype.hasobject:
        return _plain(data, pyarrow)
    check_kinds(data, f"{title} {{}}".format)
    found = _plain(with_lists(data), pyarrow)  # of no objects, texts as in files
    return found.cast(pyarrow.string()) if pyarrow.types.is_null(found.type) else found


def _plain(data: np.ndarray, pyarrow: Any) -> Any:
    try:
        return pyarrow.array(data)
    except (pyarrow.ArrowNotImplementedError, pyarrow.ArrowInvalid) as error:
        raise TypeError(f"Arrow has no columns of {data.dtype}: {error}") from None


def _lists(data: Ragged, part: Any) -> tuple[np.ndarray, Any]:
    """Return where ragged rows begin, and the values of all; what these stand for is as before."""
    rows = data.relaid()
    if rows.layout.shapes is not None:  # else what lists hold beside them is of one length
        rows = rows.nested()
    places, layout = rows.chosen()
    inner: Any
    present: Any
    if isinstance(rows.values, Ragged):
        inner = rows.values.rows(places)
        present = inner.chosen()[1].present
    else:
        inner, _ = rows.gathered(rows_of)
        present = present_in(rows.values)
    if part is not data:
        inner = part._replace(data=inner)
    if isinstance(present, Node):
        present = rows.over(present).gathered(rows_of)[0]
    if present is not None:
        inner = Gapped(inner, present, lists=True)  # as a table has them
    return layout.offsets, inner


def _fixed_lists(flat: Any, shape: tuple[int, ...], pyarrow: Any, there: Any = None) -> Any:
    """Return lists of one length, of the values of all of them; `there` tells which are missing."""
    count, width = shape
    lists = pyarrow.list_(flat.type, width)
    if not width:
        return pyarrow.array([[]] * count, lists)
    gaps = None if there is None or there.all() else pyarrow.array(~there)
    return pyarrow.FixedSizeListArray.from_arrays(flat, type=lists, mask=gaps)
