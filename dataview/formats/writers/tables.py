"""Files of tables written some rows at a time: fields become columns, and masks their gaps.

Records are structs, and ragged rows lists.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from dataview.compute import evaluate
from dataview.errors import import_library, shortened, warn
from dataview.formats.field_tree import Leaf
from dataview.formats.meta_text import as_text
from dataview.formats.tables import (
    HAS_MASK,
    OF_ELEMENTS,
    TABLE_META,
    as_told,
    check_zones,
    coded_in_arrow,
    holding,
    is_decimal,
    kinds_in,
    labels_in_arrow,
    several_kinds,
    told_decimal,
    type_in,
    with_lists,
)
from dataview.formats.writers.arrays import Job, Writer
from dataview.formats.writers.columns import Columns, left_out, plain_columns
from dataview.plan.build import keyed
from dataview.plan.gaps import LABELS, MASK_OF
from dataview.plan.kinds import known_dtype, known_shape
from dataview.plan.node import Node
from dataview.plan.operations import is_present
from dataview.plan.values import is_time_of_day
from dataview.sources import new_file

GROUP_BYTES = 1 << 26
LONGEST_GROUP = 1 << 20
"""A group of rows has about so many bytes, and no more rows: readers read groups whole."""

FIRST_ROWS = 1 << 10
"""So many objects are looked at first, of which only few kinds need a look at more."""

OF_ONE_TYPE = ("string", "binary", "bool")
"""Types that hold all objects of a kind, whereas there are larger integers than the first ones."""


def _in_table(leaf: Leaf) -> str | None:
    """Say why a table cannot hold an array, None if it can."""
    dtype = known_dtype(leaf.node)
    if dtype.hasobject and dtype.names is None:
        return None  # if all are texts, or all bytes, which is seen when they are read
    try:
        _arrow_array(np.zeros(1, dtype))
    except (_pyarrow().ArrowException, TypeError, ValueError) as error:
        return f"cannot hold it: {shortened(str(error))}"
    return None


def _write_parquet(path: str, job: Job) -> None:
    """Write a Parquet file."""
    parquet = import_library("pyarrow.parquet", "dataview[arrow]")
    packing = job.compression or "snappy"
    _write(path, job, functools.partial(parquet.ParquetWriter, compression=packing))


def _write_feather(path: str, job: Job) -> None:
    """Write an Arrow file, which is a Feather file too; it can be mapped unless it is packed."""
    ipc = import_library("pyarrow.ipc", "dataview[arrow]")
    packing = None if job.compression in (None, "none") else job.compression
    options = ipc.IpcWriteOptions(compression=packing)
    _write(path, job, functools.partial(ipc.new_file, options=options))


def _write(path: str, job: Job, opened: Callable[[Any, Any], Any]) -> None:
    """Write a file by what `opened` makes of it and a schema: it is closed before the file is."""
    table = _Columns(job)
    with contextlib.ExitStack() as held:
        file, writer = held.enter_context(new_file(path)), None
        for part in table.parts():
            if writer is None:
                writer = held.enter_context(opened(file, part.schema))
            writer.write_table(part, max(1, part.num_rows))


class _Columns(Columns):
    """The columns of a table as Arrow's arrays."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, GROUP_BYTES, LONGEST_GROUP)
        self.types: dict[str, Any] = {}
        self.kinds: dict[str, dict[str, str]] = {}
        self.meta = self.tree.get("meta")
        left = sorted(left_out(self.tree, ""))
        if left:
            warn(f"a table holds columns alone: {', '.join(left)} are not saved; .h5 keeps them")

    def parts(self) -> Any:
        """Yield the rows in groups, one at least."""
        for at, _, meta in plain_columns(self.tree):
            if known_dtype(self.leaves[at].node).hasobject and self._step() < self.count:
                with self._named(at):
                    self.types[at] = self._type_of_objects(self.leaves[at].node, meta)
        for start, stop in self.groups():
            yield self._rows(start, stop)

    def _type_of_objects(self, node: Node, meta: Mapping[str, Any]) -> Any:
        """Return the type of objects in several groups, None if the first group tells it.

        Decimals have one that holds all of them, and where the first group lacks values, later ones
        tell the type.
        """
        shape, kind, start = known_shape(node), told_decimal(meta), 0
        step = min(FIRST_ROWS, self._step())
        while start < shape[0]:
            block = evaluate(keyed(node, slice(start, start + step)))
            own = type_in(block)
            if own is not None and not is_decimal(own):
                return _in_axes(own, shape) if start or str(own) in OF_ONE_TYPE else None
            if own is not None:
                kind = own if kind is None else holding(kind, own)
            start, step = start + step, min(2 * step, self._step())
        return None if kind is None else _in_axes(kind, shape)

    @contextlib.contextmanager
    def _named(self, at: str) -> Iterator[None]:
        """Name the field in errors of what cannot be a column."""
        try:
            yield
        except (_pyarrow().ArrowException, TypeError, ValueError) as error:
            raise TypeError(
                f"field {self.leaves[at].name!r} cannot be a column: {shortened(str(error))}"
            ) from error

    def _rows(self, start: int, stop: int) -> Any:
        pyarrow = _pyarrow()
        arrays, fields = self._members(self.fields, start, stop)
        schema = pyarrow.schema(fields, _as_meta(self.meta))
        return pyarrow.table(arrays, schema=schema)

    def _members(
        self, entries: Mapping[str, Any], start: int, stop: int
    ) -> tuple[list[Any], list[Any]]:
        """Return arrays and fields of a record's members; masks are gaps in what they are of."""
        arrays, fields = [], []
        for name, entry, present in self.members(entries, start, stop):
            array = self._column(entry, start, stop, present)
            of_elements = present is not None and present.ndim > 1
            meta: dict[str, Any] = {}
            if present is not None:
                meta[HAS_MASK] = OF_ELEMENTS if of_elements else True
            meta |= {} if entry["kind"] == "record" else entry.get("meta", {})
            meta.pop(MASK_OF, None)
            arrays.append(array)
            may_lack = present is not None or self._is_of_objects(entry)
            fields.append(_field(name, array.type, may_lack, _as_meta(meta)))
        return arrays, fields

    def _is_of_objects(self, entry: Any) -> bool:
        """Whether an entry is of objects, any of which may be None."""
        return "at" in entry and known_dtype(self.leaves[entry["at"]].node).hasobject

    def _column(self, entry: Any, start: int, stop: int, present: np.ndarray | None) -> Any:
        """Return some rows of what an entry describes as an Arrow array."""
        pyarrow = _pyarrow()
        if entry["kind"] == "record":
            arrays, fields = self._members(entry["fields"], start, stop)
            gaps = None if present is None else pyarrow.array(~present)
            return pyarrow.StructArray.from_arrays(arrays, fields=fields, mask=gaps)
        if entry["kind"] == "ragged":
            offsets, first = self.lists(entry, start, stop)
            inner, present = self.gaps_of_lists(entry, offsets, first, present)
            gaps = None if present is None else pyarrow.array(~present)
            within = {**entry["values"], "meta": entry.get("meta", {})}  # that of the lists
            values = self._column(within, first, first + int(offsets[-1]), inner)
            kind = pyarrow.large_list(_field("element", values.type, inner is not None))
            return pyarrow.LargeListArray.from_arrays(offsets, values, type=kind, mask=gaps)
        block = self.block(entry["at"], start, stop)
        with self._named(entry["at"]):
            kind = self.types.get(entry["at"])
            if block.dtype.kind == "O":
                title = "value" if self.leaves[entry["at"]].name.endswith(".values") else "row"
                _check_objects(block, self.kinds.setdefault(entry["at"], {}), start, title)
            found = _arrow_array(block, present, kind, entry.get("meta", {}))
        self.types[entry["at"]] = found.type
        return found


def _as_meta(meta: Any) -> dict[bytes, bytes] | None:
    return {TABLE_META: as_text(meta).encode()} if meta else None


def _pyarrow() -> Any:
    return import_library("pyarrow", "dataview[arrow]")


def _field(name: str, kind: Any, is_masked: bool = False, meta: Any = None) -> Any:
    """Return a field that may lack values if it has a mask, or values of its own that say so."""
    types = _pyarrow().types
    says_so = not (types.is_primitive(kind) or types.is_nested(kind) or types.is_boolean(kind))
    says_so |= types.is_temporal(kind) or types.is_dictionary(kind)
    return _pyarrow().field(name, kind, nullable=is_masked or says_so, metadata=meta)


def _arrow_array(
    block: np.ndarray,
    present: np.ndarray | None = None,
    kind: Any = None,
    meta: Mapping[str, Any] | None = None,
) -> Any:
    """Return an Arrow array of a block: lists of one length for more axes, codes with labels."""
    dtype, meta = block.dtype, meta or {}
    if dtype.names is not None:
        raise TypeError("records are columns of their own as fields of a view, not as one array")
    if block.ndim > 1:
        return _lists_of_one_length(block, present, kind, meta)
    gaps = None if present is None else ~present
    if gaps is not None and dtype.kind in "Mm":
        gaps = gaps | np.isnat(block)  # beside a mask, Arrow takes NaT for a number
    labels = labels_in_arrow(meta.get(LABELS)) if dtype.kind in "iu" else None
    if labels is not None:
        return _with_labels(block, labels, gaps)
    return _raw_bytes(block, gaps) if dtype.kind == "V" else _values(block, gaps, kind, meta)


def _lists_of_one_length(
    block: np.ndarray, present: np.ndarray | None, kind: Any, meta: Mapping[str, Any]
) -> Any:
    """Return an array of lists for a block of several axes; a list of gaps alone is a gap."""
    if not block.shape[1]:
        raise TypeError(
            "an axis of length 0 has no place in a table; the rows have the shape "
            f"{block.shape[1:]}"
        )
    pyarrow = _pyarrow()
    flat = np.ascontiguousarray(block).reshape(-1, *block.shape[2:])
    within, gaps = None, None
    if present is not None:
        gaps = pyarrow.array(~present.any(axis=tuple(range(1, present.ndim))))
        if present.ndim > 1:
            within = present.reshape(-1, *present.shape[2:])
    inner = _arrow_array(flat, within, None if kind is None else kind.value_type, meta)
    lists = pyarrow.list_(_field("element", inner.type, within is not None), block.shape[1])
    return pyarrow.FixedSizeListArray.from_arrays(inner, type=lists, mask=gaps)


def _with_labels(codes: np.ndarray, labels: Any, gaps: np.ndarray | None) -> Any:
    """Return codes as a dictionary of their labels."""
    column = coded_in_arrow(codes, labels, gaps)
    # Parquet would read numbers where a dictionary of durations was.
    is_bare = _pyarrow().types.is_duration(column.type.value_type)
    return column.dictionary_decode() if is_bare else column


def _raw_bytes(block: np.ndarray, gaps: np.ndarray | None) -> Any:
    """Return raw bytes, as many in each row."""
    pyarrow = _pyarrow()
    raw = pyarrow.py_buffer(np.ascontiguousarray(block).tobytes())
    kind = pyarrow.binary(block.dtype.itemsize)
    whole = pyarrow.Array.from_buffers(kind, len(block), [None, raw])
    return whole if gaps is None else pyarrow.compute.if_else(pyarrow.array(~gaps), whole, None)


def _values(block: np.ndarray, gaps: np.ndarray | None, kind: Any, meta: Mapping[str, Any]) -> Any:
    """Return values of a type, or of the one that they and the metadata tell."""
    pyarrow, dtype = _pyarrow(), block.dtype
    if kind is None and dtype.kind == "M" and isinstance(meta.get("timezone"), str):
        kind = pyarrow.timestamp(np.datetime_data(dtype)[0], meta["timezone"])
    if dtype.kind == "m" and is_time_of_day(meta):
        kind = None  # which is that of times of day, once there are some
    if dtype.kind == "O":
        block = np.where(is_present(block), block, np.array(None))  # NaN is no text and no truth
        block = with_lists(block)
    native = block if dtype.isnative else block.astype(dtype.newbyteorder("="))
    found = pyarrow.array(native, type=kind, mask=gaps, from_pandas=dtype.kind in "Mm")
    if kind is not None:
        return found
    found = as_told(found, meta)
    return found.cast(pyarrow.string()) if pyarrow.types.is_null(found.type) else found


def _in_axes(kind: Any, shape: tuple[int, ...]) -> Any:
    """Return the type of rows of some shape whose elements are of a type."""
    for length in reversed(shape[1:]):
        kind = _pyarrow().list_(kind, length)
    return kind


def _check_objects(block: np.ndarray, kinds: dict[str, str], first: int, title: str) -> None:
    """Raise if there are objects of several kinds; those of earlier groups are in a dict.

    Arrow would make bytes of texts beside bytes, and whole numbers of others in a later group.
    """
    width = max(1, block[:1].size)

    def name_of(place: int) -> str:
        return f"{title} {first + place // width}"

    own = kinds_in(block.reshape(-1))
    check_zones(own, name_of)
    for kind, place in own.items():
        kinds.setdefault(kind, name_of(place))
    if len(kinds) > 1:
        raise several_kinds([f"{kind} in {place}" for kind, place in kinds.items()])


_TO_PARQUET = ("none", "snappy", "zstd", "gzip", "lz4", "brotli")

TABLE_WRITERS = {
    "parquet": Writer(
        "a Parquet file", _write_parquet, _in_table, _TO_PARQUET, has_chunks=True, takes_zeros=False
    ),
    "feather": Writer(
        "an Arrow file",
        _write_feather,
        _in_table,
        ("none", "lz4", "zstd"),
        has_chunks=True,
        takes_zeros=False,
    ),
}
"""How tables are written, by the names that they have in the table of formats."""
