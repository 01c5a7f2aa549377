"""Files of tables written some rows at a time: fields become columns, and masks their gaps.

Records are structs, and ragged rows lists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from dataview.compute import making_together
from dataview.errors import import_library, shortened, warn
from dataview.formats.layout import Leaf, masks_among
from dataview.formats.tables import TABLE_META
from dataview.formats.writers.arrays import Job, Writer
from dataview.plan.gaps import MASK_OF
from dataview.plan.kinds import known_dtype, known_shape, size_of
from dataview.sources import made_so_far, new_file

GROUP_BYTES = 1 << 26
LONGEST_GROUP = 1 << 20
"""A group of rows has about so many bytes, and no more rows: readers read groups whole."""

OBJECT_BYTES = 64
"""About what a text takes."""


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
    table = _Columns(job)
    packing = job.compression or "snappy"
    with new_file(path) as file:
        writer = None
        for part in table.parts():
            if writer is None:
                writer = parquet.ParquetWriter(file, part.schema, compression=packing)
            writer.write_table(part, row_group_size=max(1, part.num_rows))
        if writer is not None:
            writer.close()


def _write_feather(path: str, job: Job) -> None:
    """Write an Arrow file, which is a Feather file too; it can be mapped unless it is packed."""
    ipc = import_library("pyarrow.ipc", "dataview[arrow]")
    table = _Columns(job)
    packing = None if job.compression in (None, "none") else job.compression
    with new_file(path) as file:
        writer = None
        for part in table.parts():
            if writer is None:
                options = ipc.IpcWriteOptions(compression=packing)
                writer = ipc.new_file(file, part.schema, options=options)
            writer.write_table(part)
        if writer is not None:
            writer.close()


class _Columns:
    """The columns of a table that is written: what is read for them, and how far that is."""

    def __init__(self, job: Job) -> None:
        tree = job.description["tree"]
        self.job = job
        self.leaves = {leaf.at: leaf for leaf in job.leaves}
        self.done: dict[str, int] = {}  # how many values of ragged rows are read, by their place
        self.types: dict[str, Any] = {}
        _check_table(tree)
        self.fields: Mapping[str, Any] = tree["fields"]
        self.meta = tree.get("meta")
        lengths = {name: self._length(entry) for name, entry in self.fields.items()}
        self.count = next(iter(lengths.values())) or 0
        if None in lengths.values() or len(set(lengths.values())) > 1:
            raise TypeError(
                f"the columns of a table have rows, and all as many; got {shortened(str(lengths))}"
            )
        left = sorted(_left_out(tree, ""))
        if left:
            warn(f"a table holds columns alone: {', '.join(left)} are not saved; .h5 keeps them")

    def _length(self, entry: Mapping[str, Any]) -> int | None:
        if entry["kind"] == "record":
            return next(map(self._length, entry["fields"].values()), None)
        at = entry["lengths"] if entry["kind"] == "ragged" else entry["at"]
        return next(iter(known_shape(self.leaves[at].node)), None)

    def parts(self) -> Any:
        """Yield the rows in groups, one at least."""
        nodes = [leaf.node for leaf in self.leaves.values()]
        step = self._step()
        with making_together(nodes):
            for start in range(0, max(1, self.count), step):
                yield self._rows(start, min(self.count, start + step))
                made = made_so_far()
                if made is not None:
                    made.forget()

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
        return max(1, min(LONGEST_GROUP, GROUP_BYTES * max(1, self.count) // max(1, total)))

    def _rows(self, start: int, stop: int) -> Any:
        pyarrow = _pyarrow()
        arrays, fields = self._members(self.fields, start, stop)
        schema = pyarrow.schema(fields, _as_meta(self.meta))
        return pyarrow.table(arrays, schema=schema)

    def _members(
        self, entries: Mapping[str, Any], start: int, stop: int
    ) -> tuple[list[Any], list[Any]]:
        """Return arrays and fields of a record's members; masks are gaps in what they are of."""
        masks = masks_among(entries, {at: leaf.node for at, leaf in self.leaves.items()})
        arrays, fields = [], []
        for name, entry in entries.items():
            if name in masks.values():
                continue
            mask = entries[masks[name]] if name in masks else None
            present = None if mask is None else self._block(mask["at"], start, stop)
            array = self._column(entry, start, stop, present)
            meta = {"mask": True} if mask is not None else {}
            meta |= {} if entry["kind"] == "record" else entry.get("meta", {})
            meta.pop(MASK_OF, None)
            arrays.append(array)
            fields.append(_field(name, array.type, mask is not None, _as_meta(meta)))
        return arrays, fields

    def _column(self, entry: Any, start: int, stop: int, present: np.ndarray | None) -> Any:
        """Return some rows of what an entry describes as an Arrow array."""
        pyarrow = _pyarrow()
        if entry["kind"] == "record":
            arrays, fields = self._members(entry["fields"], start, stop)
            return pyarrow.StructArray.from_arrays(arrays, fields=fields)
        gaps = None if present is None else pyarrow.array(~present)
        if entry["kind"] == "ragged":
            lengths = self._block(entry["lengths"], start, stop)
            first = self.done.get(entry["lengths"], 0)
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
            self.done[entry["lengths"]] = first + int(offsets[-1])
            values = self._column(entry["values"], first, first + int(offsets[-1]), None)
            kind = pyarrow.large_list(_field("element", values.type))
            return pyarrow.LargeListArray.from_arrays(offsets, values, type=kind, mask=gaps)
        block = self._block(entry["at"], start, stop)
        meta = entry.get("meta", {})
        try:
            found = _arrow_array(block, present, self.types.get(entry["at"]), meta)
        except (pyarrow.ArrowException, TypeError, ValueError) as error:
            raise TypeError(
                f"field {self.leaves[entry['at']].name!r} cannot be a column: "
                f"{shortened(str(error))}"
            ) from error
        self.types[entry["at"]] = found.type
        return found

    def _block(self, at: str, start: int, stop: int) -> np.ndarray:
        leaf = self.leaves[at]
        shape = known_shape(leaf.node)
        return self.job.passes.block(leaf, (slice(start, stop),) if shape else ())


def _check_table(tree: Mapping[str, Any]) -> None:
    """Raise if a view has no columns."""
    if tree["kind"] != "record" or tree.get("rank") != 1 or not tree.get("fields"):
        raise TypeError(
            "a table has named columns, and a row of each for each sample; this view has none: "
            "dv.View(x=view)._save(path) saves it as the column 'x'"
        )
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


def _left_out(entry: Mapping[str, Any], name: str) -> list[str]:
    """Return what of a description no table holds: fields of arrays, metadata of inner records."""
    found = []
    if entry["kind"] != "record":
        found += [f"the fields of {name!r}"] if entry.get("fields") else []
        return found + (_left_out(entry["values"], name) if entry["kind"] == "ragged" else [])
    if name and entry.get("meta"):
        found.append(f"the metadata of {name!r}")
    for own, part in entry["fields"].items():
        found += _left_out(part, f"{name}.{own}".lstrip("."))
    return found


def _as_meta(meta: Any) -> dict[bytes, bytes] | None:
    return {TABLE_META: json.dumps(meta).encode()} if meta else None


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
    pyarrow = _pyarrow()
    dtype, meta = block.dtype, meta or {}
    if dtype.names is not None:
        raise TypeError("records are columns of their own as fields of a view, not as one array")
    if block.ndim > 1:
        if not block.shape[1]:
            raise TypeError(
                "an axis of length 0 has no place in a table; the rows have the shape "
                f"{block.shape[1:]}"
            )
        flat = np.ascontiguousarray(block).reshape(-1, *block.shape[2:])
        inner = _arrow_array(flat, None, None if kind is None else kind.value_type)
        gaps = None if present is None else pyarrow.array(~present)
        lists = pyarrow.list_(_field("element", inner.type), block.shape[1])
        return pyarrow.FixedSizeListArray.from_arrays(inner, type=lists, mask=gaps)
    gaps = None if present is None else ~present
    labels = meta.get("labels")
    if dtype.kind in "iu" and _are_labels(labels):
        codes = pyarrow.array(block.astype("i4"), mask=(block < 0) if gaps is None else gaps)
        return pyarrow.DictionaryArray.from_arrays(codes, pyarrow.array(labels))
    if dtype.kind == "V":
        raw = pyarrow.py_buffer(np.ascontiguousarray(block).tobytes())
        whole = pyarrow.Array.from_buffers(pyarrow.binary(dtype.itemsize), len(block), [None, raw])
        return whole if gaps is None else pyarrow.compute.if_else(pyarrow.array(~gaps), whole, None)
    if kind is None and dtype.kind == "M" and isinstance(meta.get("timezone"), str):
        kind = pyarrow.timestamp(np.datetime_data(dtype)[0], meta["timezone"])
    if dtype.kind == "O":
        _check_objects(block)
    native = block if dtype.isnative else block.astype(dtype.newbyteorder("="))
    found = pyarrow.array(native, type=kind, mask=gaps, from_pandas=dtype.kind in "Mm")
    if kind is None and pyarrow.types.is_null(found.type):
        return found.cast(pyarrow.string())
    return found


def _check_objects(block: np.ndarray) -> None:
    """Raise if there are objects of several kinds: Arrow would make bytes of texts beside bytes."""
    kinds = {type(value) for value in block.tolist() if value is not None}
    if len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(f"it holds objects of several kinds ({names}), and a column has one")


def _are_labels(labels: Any) -> bool:
    """Whether metadata list labels, each once, of one kind."""
    if not isinstance(labels, list) or not labels or len({type(one) for one in labels}) > 1:
        return False
    return isinstance(labels[0], (str, int, float, bytes)) and len(set(labels)) == len(labels)


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
