"""A node becomes a stream of Arrow batches: columns of numbers, texts, lists and structs.

Arrow's data never changes, so every column is a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import rows_of
from dataview.errors import import_library
from dataview.exchange.to_libraries import Gapped, as_columns, gapped, own, table_of
from dataview.plan.build import keyed
from dataview.plan.gaps import present_in
from dataview.plan.kinds import Record, Sampled, known_dtype, known_shape, members, size_of
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.sources import Memo
from dataview.tables import MISSING, checked_codes, labels_of

BATCH_BYTES = 1 << 24
"""How much of a table is read for one batch."""


def arrow_array(node: Node, kind: Any) -> Any:
    """Return a node's data as an Arrow array, that of a record as structs."""
    pyarrow = import_library("pyarrow", "dataview[arrow]")
    known = node.has_gaps and not isinstance(node, Ragged)
    found = _column(gapped(node, _own) if known else as_columns(node, _own), pyarrow)
    return found if kind is None else found.cast(kind)


def arrow_stream(node: Node, schema: Any) -> Any:
    """Return a node's data as a capsule of Arrow's C stream: rows of columns, or one column.

    Fields are columns; without fields, so are the columns of an array, named by their numbers.
    """
    pyarrow = import_library("pyarrow", "dataview[arrow]")
    table, columns = _tabular(node)
    if columns is None:
        found = pyarrow.chunked_array([_lone_column(node, pyarrow)])
    else:
        found = _reader(table, columns, pyarrow)
    return found.__arrow_c_stream__(schema)


def arrow_batch(node: Node, schema: Any) -> Any:
    """Return a node's data as two capsules of Arrow's C array, which is one batch of all rows."""
    pyarrow = import_library("pyarrow", "dataview[arrow]")
    table, columns = _tabular(node)
    found = _lone_column(node, pyarrow) if columns is None else _batch(columns(table), pyarrow)
    return found.__arrow_c_array__(schema)


def _tabular(node: Node) -> tuple[Node, Callable[[Node], dict[str, Any]] | None]:
    """Return the node that has rows, and what makes columns of them; None if there is only one."""
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
    return _column(node if isinstance(node, Ragged) else gapped(node, _own).in_rows(), pyarrow)


def _own(node: Node, memo: Memo) -> Any:
    """Return a node's data; ragged rows as they are, since Arrow has lists of any length."""
    return node if isinstance(node, Ragged) else own(node, memo)


class _Labelled(NamedTuple):
    """Codes with the texts that they stand for, which are a dictionary in Arrow."""

    codes: np.ndarray
    texts: list[str]


def _labelled(node: Node, memo: Memo) -> Any:
    """Return a node's data, with the labels of codes if these are texts, each once."""
    data, labels = _own(node, memo), labels_of(node)
    if labels is None or isinstance(data, Ragged) or data.ndim != 1:
        return data
    texts = labels.list()
    if not all(isinstance(text, str) for text in texts) or len({*texts}) < len(texts):
        return data
    return _Labelled(checked_codes(data, len(texts)), texts)


def _named(rows: Node) -> dict[str, Any]:
    """Return the fields of rows as columns."""
    found: dict[str, Any] = as_columns(rows, _labelled)
    return found


def _numbered(rows: Node) -> dict[str, Any]:
    """Return the columns of an array, named by their numbers."""
    data = own(rows, {})
    return {str(number): data[:, number] for number in range(data.shape[1])}


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
    arrays = [_column(part, pyarrow) for part in columns.values()]
    return pyarrow.RecordBatch.from_arrays(arrays, names=list(columns))


def _with_nulls(column: Gapped, pyarrow: Any) -> Any:
    """Return an Arrow array that has null where there are no data; labels keep their numbers."""
    values, present = column
    if present is None:
        return _column(values, pyarrow)
    if present.ndim > 1:
        flat = Gapped(*(part.reshape(-1, *part.shape[2:]) for part in (values, present)))
        return _fixed_lists(_with_nulls(flat, pyarrow), present.shape[:2], pyarrow)
    if isinstance(values, _Labelled):
        codes = np.where(present, values.codes, MISSING)
        return _column(values._replace(codes=codes), pyarrow)
    whole = _column(values, pyarrow)
    compute = import_library("pyarrow.compute", "dataview[arrow]")
    if isinstance(values, Ragged) and values.leaf().has_gaps:
        # The mask of rows tells of gaps inside of them, too; rows with values are no gaps.
        present = present | (compute.list_value_length(whole).to_numpy() > 0)
    nothing = pyarrow.scalar(None, whole.type)
    return compute.if_else(pyarrow.array(present), whole, nothing)


def _column(part: Any, pyarrow: Any) -> Any:
    """Return an Arrow array: structs for a dict, lists for an array of more axes or ragged rows."""
    if isinstance(part, Gapped):
        return _with_nulls(part, pyarrow)
    if isinstance(part, Ragged):
        rows = part.nested()
        places, layout = rows.chosen()
        if isinstance(rows.values, Ragged):
            inner: Any = rows.values.rows(places)
        else:
            inner, _ = rows.gathered(rows_of)
            if (present := present_in(rows.values)) is not None:
                inner = Gapped(inner, rows.over(present).gathered(rows_of)[0])
        return pyarrow.LargeListArray.from_arrays(layout.offsets, _column(inner, pyarrow))
    if isinstance(part, _Labelled):
        codes = pyarrow.array(part.codes.astype(np.int32), mask=part.codes == MISSING)
        texts = pyarrow.array(part.texts, pyarrow.string())
        return pyarrow.DictionaryArray.from_arrays(codes, texts)
    if isinstance(part, dict):
        inner = [_column(below, pyarrow) for below in part.values()]
        return pyarrow.StructArray.from_arrays(inner, names=list(part))
    if part.ndim > 1:
        flat = _column(part.reshape(-1, *part.shape[2:]), pyarrow)
        return _fixed_lists(flat, part.shape[:2], pyarrow)
    try:
        return pyarrow.array(part)
    except pyarrow.ArrowNotImplementedError as error:
        raise TypeError(f"Arrow has no columns of {part.dtype}: {error}") from None


def _fixed_lists(flat: Any, shape: tuple[int, ...], pyarrow: Any) -> Any:
    """Return lists of one length, of the values of all of them."""
    count, width = shape
    lists = pyarrow.list_(flat.type, width)
    if not width:
        return pyarrow.array([[]] * count, lists)
    return pyarrow.FixedSizeListArray.from_arrays(flat, type=lists)
