"""A node becomes an object of another library: a tensor, a frame, a labelled or a lazy array."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import (
    aliases,
    evaluate,
    evaluate_all,
    making_together,
    memory_of,
    rows_of,
)
from dataview.errors import import_library, warn
from dataview.exchange.pickling import packed_in_order
from dataview.index.flat import as_objects
from dataview.plan.build import chosen, field, keyed
from dataview.plan.fields import Fields
from dataview.plan.gaps import NO_LABEL, is_of_lists, least_present, masks_in, present_in
from dataview.plan.guards import check_no_record
from dataview.plan.kinds import (
    Driven,
    Record,
    Sampled,
    known_dtype,
    known_shape,
    size_of,
)
from dataview.plan.node import Node
from dataview.plan.operations import TEXTS, may_be_missing
from dataview.plan.ragged import Ragged
from dataview.samples import samples_at, samples_of, with_lengths
from dataview.sources import Memo
from dataview.tables import Labels, checked_codes, labels_of

DEVICE = (1, 0)
"""The memory of this machine, as DLPack numbers devices."""

VERSIONED = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
"""Whether NumPy takes the version of DLPack that the other library supports."""

CHUNK_BYTES = 1 << 25
"""The size of dask's chunks by default."""


# --- arrays for others -----------------------------------------------------------------------


def owned(node: Node, memo: Memo) -> np.ndarray:
    """Return a node's data as an array that shares no memory, as all libraries take it."""
    found = evaluate(node, None, memo)
    is_ours = found.flags.writeable and not aliases(node) and not isinstance(node, Sampled)
    return plain(found if is_ours else np.array(found))


def plain(array: np.ndarray) -> np.ndarray:
    """Return an array as all libraries take it, or a copy if it is none.

    >>> plain(np.arange(3, dtype=">i2")[::-1]).strides
    (2,)
    """
    if not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="), order="C")
    return array if _lies_forwards(array) else array.copy()


def _lies_forwards(array: np.ndarray) -> bool:
    """Whether steps in an array lead forwards by whole elements.

    Not all libraries support others: torch ends the process at a negative one.
    """
    width = array.dtype.itemsize
    return not width or all(step >= 0 and step % width == 0 for step in array.strides)


def _lendable(node: Node) -> np.ndarray | None:
    """Return the memory of a node that another library may write into, None if there is none.

    Read-only memory is protected by a copy.
    """
    memory = memory_of(node)
    if memory is None or not memory.flags.writeable or not memory.dtype.isnative:
        return None
    return memory if memory.dtype.itemsize and _lies_forwards(memory) else None


def _array(node: Node, copy: bool | None, memo: Memo) -> np.ndarray:
    """Return a node's data for a library that may write into it: its memory, or a copy."""
    memory = None if copy else _lendable(node)
    if memory is None and copy is False:
        raise BufferError(
            "the data cannot be handed out without a copy: it is not memory that can be written "
            "and lies forwards in this machine's byte order"
        )
    return owned(node, memo) if memory is None else memory


class Gapped(NamedTuple):
    """The data of a column that has a mask, and where there are any.

    Its rows are `lists` if a row whose elements are all missing is itself a missing list.
    """

    values: Any
    present: np.ndarray | None
    lists: bool = False

    def in_rows(self) -> Gapped:
        """Return the same data with an axis of rows; a single value is one row."""
        present = None if self.present is None else np.atleast_1d(self.present)
        return Gapped(np.atleast_1d(self.values), present, self.lists)


def gapped(node: Node, convert: Callable[[Node, Memo], Any], rows_alone: bool = False) -> Gapped:
    """Return the data of one array, and where there are any if it knows its gaps.

    With `rows_alone`, that is told of rows where each is wholly there or missing.
    """
    memo: Memo = {}
    inner = node.chosen()[1].present if isinstance(node, Ragged) else None
    if inner is not None:  # a row of lists, which may lack some of these
        return Gapped(convert(node, memo), inner)
    mask = least_present(node, 1) if rows_alone else present_in(node)
    if mask is None:
        return Gapped(convert(node, memo), None)
    present = _lists_there(node, owned(mask, memo))
    return Gapped(convert(node, memo), present, is_of_lists(mask))


def as_columns(node: Node, convert: Callable[[Node, Memo], Any]) -> Any:
    """Return a node's data as `as_parts` does; columns that have masks know their gaps instead."""
    return as_parts(node, convert, masks_in)


def as_parts(
    node: Node,
    convert: Callable[[Node, Memo], Any],
    masks_of: Callable[[Fields], Mapping[str, str]] | None = None,
) -> Any:
    """Return a node's data converted: that of a record by field, in a dict."""
    leaves = list(_leaves(node))
    memo: Memo = {"roots": tuple(leaves)}

    def converted(part: Node) -> Any:
        if not _has_parts(part):
            return convert(part, memo)
        masks = {} if masks_of is None else masks_of(part.fields)
        found = {
            name: converted(field(part, name)) for name in part.fields if name not in masks.values()
        }
        for name, mask in masks.items():
            if isinstance(field(part, mask), Ragged):
                continue  # of the values in lists, which tell of these themselves
            present = _lists_there(field(part, name), convert(field(part, mask), memo))
            found[name] = Gapped(found[name], present, is_of_lists(field(part, mask)))
        for name in found.keys() - masks.keys() if masks_of is not None else ():
            if (untold := _mask_untold(field(part, name))) is not None:
                found[name] = Gapped(found[name], convert(untold, memo))
        return found

    with making_together(leaves):
        return converted(node)


def _mask_untold(column: Node) -> Node | None:
    """Return the mask of an array that knows its gaps, though no field beside it tells them."""
    if not column.has_gaps or isinstance(column, (Record, Sampled)):
        return None
    return least_present(column, 1)


def _lists_there(column: Node, present: np.ndarray) -> np.ndarray:
    """Return which rows of a column are there: of lists the mask tells of gaps inside them, too."""
    if not isinstance(column, Ragged) or not _may_lack_inside(column):
        return present
    return present | (np.diff(column.chosen()[1].offsets) > 0)


def _may_lack_inside(rows: Ragged) -> bool:
    """Whether values of ragged rows may be missing, or lists in lists."""
    return rows.leaf().has_gaps or rows.is_nested


def _leaves(node: Node) -> Iterator[Node]:
    """Yield the arrays of a node: its fields, or the fields of these, if it is a record."""
    if not _has_parts(node):
        yield node
        return
    for name in node.fields:
        yield from _leaves(field(node, name))


def _has_parts(node: Node) -> bool:
    """Whether a node's data is a record, and no array with windows."""
    if isinstance(node, Sampled):
        return bool(node.fields.named)
    return isinstance(node, Record) or (node.dtype is not None and node.dtype.names is not None)


def dlpack(
    node: Node,
    stream: Any,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """Return a node's data as a DLPack capsule, which shares memory only if it is writable."""
    check_no_record(node, "a tensor")
    if dl_device is not None and tuple(dl_device) != DEVICE:
        raise BufferError(f"a view is in the memory of this machine, device {DEVICE}")
    lender: Any = _array(node, copy, {})
    version = {"max_version": max_version} if VERSIONED else {}
    return lender.__dlpack__(stream=stream, **version)


# --- torch and jax ---------------------------------------------------------------------------

_NO_TENSOR = {
    **dict.fromkeys(
        TEXTS, "number them first, as d.x._codes() does, or leave them out: d._drop('x')"
    ),
    "O": "make numbers of them first: d.x._codes() numbers texts, d.x._astype(float) converts",
    "M": "subtract a date and divide by a unit first: (dates - dates[0]) / np.timedelta64(1, 's')",
    "m": "divide by a unit first: view / np.timedelta64(1, 's')",
    "g": "torch and jax have no number as long; convert to float64 first",
    "G": "torch and jax have no number as long; convert to complex128 first",
}
"""Advice for dtypes that no tensor has."""


def _check_numbers(node: Node) -> None:
    dtype = np.dtype(float) if node.dtype is None else node.dtype
    advice = _NO_TENSOR.get(dtype.char if dtype.char in "gG" else dtype.kind)
    if advice is not None:
        name = "" if node.label is None else f" (field {node.label.names[-1]!r})"
        raise TypeError(f"there are no tensors of {dtype}{name}; {advice}")


def to_torch(node: Node, device: Any, copy: bool | None) -> Any:
    """Return a node's data as a tensor, a record's as a dict of them."""
    torch = import_library("torch", "torch")

    def tensor(part: Node, memo: Memo) -> Any:
        _check_numbers(part)
        if isinstance(part, Ragged):
            return _on_device(_nested_tensor(part, torch), device, torch)
        return _on_device(torch.from_numpy(_array(part, copy, memo)), device, torch)

    return as_parts(node, tensor)


def _on_device(tensor: Any, device: Any, torch: Any) -> Any:
    """Return a tensor on a device; say so if this machine has no such device.

    torch's errors for that are of several classes, an AssertionError among them.
    """
    if device is None:
        return tensor
    try:
        return tensor.to(device=device)
    except Exception as error:
        try:
            torch.zeros(1).to(device=device)
        except Exception:
            why = str(error).partition("\n")[0].rstrip(".")
            raise RuntimeError(
                f"device={device!r} takes no data: {why}; name a device that torch has on this "
                "machine, such as 'cpu', or leave it out"
            ) from error
        raise


def _nested_tensor(rows: Ragged, torch: Any) -> Any:
    """Return ragged rows as a nested tensor, which holds a copy."""
    if rows.is_nested or rows.layout.shapes is not None:
        raise TypeError(
            "a nested tensor has one ragged axis, right behind the rows; _pad(value) makes a "
            "tensor of any rows"
        )
    values, layout = rows.gathered(rows_of)
    parts = torch.from_numpy(values), torch.from_numpy(layout.offsets.copy())
    return torch.nested.nested_tensor_from_jagged(*parts)


def to_jax(node: Node) -> Any:
    """Return a node's data as jax's arrays; these never change, so they share no memory."""
    numpy = import_library("jax.numpy", "jax")

    def array(part: Node, memo: Memo) -> Any:
        _check_numbers(part)
        return numpy.array(plain(evaluate(part, None, memo)))

    return as_parts(node, array)


def register_in_jax(kind: type, arrays: Callable[[Any], Any]) -> None:
    """Register a class in jax, with the function that returns the arrays of its objects.

    The functions of jax accept only objects of registered classes.
    """
    trees = import_library("jax.tree_util", "jax")
    trees.register_pytree_node(kind, lambda one: ((arrays(one),), None), lambda _, found: found[0])


def samples(node: Node, numbers: Sequence[int]) -> list[Any]:
    """Return some samples, read together: arrays, or dicts of them, as a loader stacks them."""
    rows = np.asarray(numbers, dtype=np.intp)
    if isinstance(node, Sampled):
        return [as_parts(sample, owned) for sample in samples_of(samples_at(node, rows))]
    return _one_by_one(as_parts(keyed(node, rows), owned))


def _one_by_one(batch: Any) -> list[Any]:
    if not isinstance(batch, dict):
        return list(batch)
    columns = map(_one_by_one, batch.values())
    return [dict(zip(batch, row, strict=True)) for row in zip(*columns, strict=True)]


# --- pandas ----------------------------------------------------------------------------------


def table_of(node: Node) -> Record | None:
    """Return the fields of a node as columns that share rows, None if it has no fields."""
    if isinstance(node, Driven) or not node.fields.named:
        return None
    table = node if isinstance(node, Record) else chosen(node, tuple(node.fields))
    if table.rank > 1:
        raise TypeError(
            f"a table has one axis of rows, the fields of this view share {table.rank}; take one "
            "of its parts: view[0]"
        )
    return table


def to_pandas(node: Node) -> Any:
    """Return a node's data as a frame, or as a series if it has one column or is one row."""
    pandas = import_library("pandas", "pandas")
    node = with_lengths(node)
    if isinstance(node, Sampled) and node.fields.named:
        return pandas.DataFrame(_columns_of(node, 1, pandas))
    table = table_of(node)
    if table is None:
        data = gapped(node, _with_none)
        if data.values.ndim > 2:
            raise TypeError(f"a table has two axes, the view has the shape {data.values.shape}")
        if data.values.ndim < 2:
            return pandas.Series(_in_zone(_series(data.in_rows(), pandas), node, pandas))
        if data.present is None and not _stands_for_else(node):
            return pandas.DataFrame(data.values)
        entries = _flat("", data, node, 1)
        return pandas.DataFrame({n: one.made(pandas) for n, one in enumerate(entries)})
    found = _columns_of(table, table.rank, pandas)
    return pandas.DataFrame(found) if table.rank else pandas.Series(found)


def _columns_of(node: Node, rank: int, pandas: Any) -> dict[str, Any]:
    """Return the columns of a record as pandas has them, by name; of one row its entries."""
    found: dict[str, Any] = {}
    for one in _flat("", as_columns(node, _with_none), node, rank):
        if one.name in found:
            raise ValueError(f"two columns would have the name {one.name!r}; rename a field")
        found[one.name] = one.made(pandas) if rank else one.entry(pandas)
    return found


def _stands_for_else(node: Node) -> bool:
    """Whether numbers stand for labels, or times are shown in a zone."""
    return labels_of(node) is not None or "timezone" in node.meta


def _categorical(codes: np.ndarray, labels: Labels, pandas: Any) -> Any:
    """Return codes as categories, or one by one if a label is there twice or stands for nothing."""
    categories = pandas.Index(labels.array())
    if categories.is_unique and not categories.hasnans:
        return pandas.Categorical.from_codes(codes, categories)
    return labels.table()[checked_codes(codes, len(categories))]


def _with_none(node: Node, memo: Memo) -> np.ndarray:
    """Return a node's data; in ragged rows None stands where a value or a list is missing.

    In ragged rows there are labels, too, where these are of codes: no list is categorical.
    """
    if not isinstance(node, Ragged):
        return owned(node, memo)
    return _lists_with_none(node, memo, labels_of(node))


def _lists_with_none(node: Ragged, memo: Memo, labels: Labels | None) -> np.ndarray:
    if labels is None and not _may_lack_inside(node):
        return owned(node, memo)
    rows = node.nested()
    if isinstance(rows.values, Ragged):
        places, layout = rows.chosen()
        inner = rows.values.rows(places)
        values = _lists_with_none(inner, memo, labels)
        values[~inner.chosen()[1].there()] = None
        return as_objects(values, layout)
    values, layout = rows.gathered(rows_of)
    if labels is not None:
        codes = checked_codes(values, len(labels.array()))
        values = (labels.array() if codes.min(initial=0) >= 0 else labels.table())[codes]
    found, present = as_objects(values, layout), present_in(rows.values)
    if present is None or may_be_missing(values.dtype):
        return found
    there = rows.over(present).gathered(rows_of)[0]
    lacking = np.array([not own.all() for own in as_objects(there, layout)], bool)
    objects = values.astype(object)
    objects[~there] = None
    found[lacking] = as_objects(objects, layout)[lacking]
    return found


def _in_zone(times: Any, node: Node, pandas: Any) -> Any:
    """Return times in the zone that the metadata name; other data, and lists, as they are."""
    zone = node.meta.get("timezone")
    if not isinstance(zone, str) or getattr(times, "dtype", np.dtype(object)).kind != "M":
        return times
    try:
        return pandas.DatetimeIndex(times, tz="UTC").tz_convert(zone)
    except (KeyError, ValueError) as error:
        warn(f"pandas knows no zone {zone!r}, so that the times stay in UTC: {error}")
        return times


def _series(column: Gapped, pandas: Any) -> Any:
    """Return a column as pandas has it: NaN, NaT, None or NA where there are no data."""
    values, present, _ = column
    if present is None:
        return values
    if (kind := _WITH_NA.get(values.dtype.kind)) is not None:
        return _entries(getattr(pandas.arrays, kind), values, present)
    dtype = values.dtype if values.dtype.kind in "fcmM" else object
    return np.where(present, values, np.array(None, dtype)).astype(dtype, copy=False)


_WITH_NA = {"i": "IntegerArray", "u": "IntegerArray", "b": "BooleanArray"}
"""The arrays of pandas for the kinds of dtypes that have no value of their own for a gap."""


def _entries(kind: Any, values: np.ndarray, present: np.ndarray) -> Any:
    """Return integers or truth values that may be NA: an array of pandas, or one of its entries."""
    found = kind(np.atleast_1d(values), ~np.atleast_1d(present))
    return found if values.ndim else {(): found[0]}


class _Column(NamedTuple):
    """A column of a frame: its data, and the node that they are of, or are the entries of."""

    name: str
    data: Gapped
    node: Node

    def made(self, pandas: Any) -> Any:
        """Return it as pandas has it: codes with labels are categories, times have their zone."""
        labels, values, present = labels_of(self.node), self.data.values, self.data.present
        if labels is None or values.dtype.kind not in "iu":  # of lists there are the labels
            return _in_zone(_series(self.data, pandas), self.node, pandas)
        codes = values if present is None else np.where(present, values, NO_LABEL)
        return _in_zone(_categorical(codes, labels, pandas), self.node, pandas)

    def entry(self, pandas: Any) -> Any:
        """Return the only value."""
        found = _series(self.data, pandas)[()]
        if "timezone" not in self.node.meta:
            return found
        return _in_zone(np.array([found]), self.node, pandas)[0]


def _flat(name: str, part: Any, node: Node, rank: int, present: Any = None) -> Iterator[_Column]:
    """Yield columns: those of a field's parts or of its rows' entries are named `x_0`, `x_1`."""
    if isinstance(part, Gapped):
        yield from _flat(name, part.values, node, rank, _both_there(part.present, present))
    elif isinstance(part, dict):
        for inner, below in part.items():
            own = f"{name}_{inner}" if name else inner
            yield from _flat(own, below, field(node, inner), rank, present)
    elif part.ndim > rank:
        for number in range(part.shape[rank]):
            entry = (*[slice(None)] * rank, number)
            there = present if present is None or present.ndim <= rank else present[entry]
            yield from _flat(f"{name}_{number}", part[entry], node, rank, there)
    else:
        yield _Column(name, Gapped(part, present), node)


def _both_there(one: Any, other: Any) -> Any:
    """Return where two masks are true, of which one may lack last axes, or be None."""
    if one is None or other is None:
        return other if one is None else one
    axes = max(one.ndim, other.ndim)
    wide = [mask.reshape(*mask.shape, *[1] * (axes - mask.ndim)) for mask in (one, other)]
    return np.logical_and(*wide)


# --- xarray and dask -------------------------------------------------------------------------


def to_xarray(node: Node, dims: Sequence[str] | None) -> Any:
    """Return a node's data as a DataArray, a record's as a Dataset, with metadata as attributes."""
    xarray = import_library("xarray", "xarray")
    if not _has_parts(node):
        attributes = dict(node.meta)
        known = attributes.pop("dims", None)
        data = evaluate(node)
        if dims is None and known is not None and len(known) == data.ndim:
            dims = known
        return xarray.DataArray(data, dims=dims, attrs=attributes)
    rank = node.rank if isinstance(node, Record) else len(node.shape or (0,))
    if dims is not None and len(dims) != rank:
        raise ValueError(f"the fields share {rank} axes; dims= names {len(dims)}")
    parts = {name: field(node, name) for name in node.fields}
    for name, part in parts.items():
        if _has_parts(part):
            raise TypeError(f"the variables of a Dataset are arrays; {name!r} is a record")
    arrays = dict(zip(parts, evaluate_all([*parts.values()]), strict=True))
    axes = _names_of_axes(parts, arrays, rank, dims)
    variables = {
        name: (axes[name], data, _without_dims(parts[name])) for name, data in arrays.items()
    }
    return xarray.Dataset(variables, attrs=_without_dims(node))


def _names_of_axes(
    parts: Mapping[str, Node],
    arrays: Mapping[str, np.ndarray],
    rank: int,
    dims: Sequence[str] | None,
) -> dict[str, list[str]]:
    """Return the names of each array's axes, as far as metadata have them; the first are shared."""
    told = {name: list(part.meta.get("dims") or ()) for name, part in parts.items()}
    known = {name: told[name] for name, data in arrays.items() if len(told[name]) == data.ndim}
    shared = [f"dim_{axis}" for axis in range(rank)] if dims is None else list(dims)
    if dims is None and known:
        shared = next(iter(known.values()))[:rank]
    lengths: dict[str, int] = dict.fromkeys(shared, -1)  # a name is one axis of one length
    found: dict[str, list[str]] = {}
    for name, data in arrays.items():
        own = known.get(name, [])[rank:]
        pairs = zip(own, data.shape[rank:], strict=False)
        if not all(lengths.setdefault(axis, length) == length for axis, length in pairs) or not own:
            own = [f"{name}_dim_{axis}" for axis in range(data.ndim - rank)]
        found[name] = shared + own
    return found


def _without_dims(node: Node) -> dict[str, Any]:
    return {key: value for key, value in node.meta.items() if key != "dims"}


class Blocks:
    """The object from which dask reads blocks, as arrays, when it computes them.

    It is of the last of the nodes; before that a pickle has its parts.
    """

    def __init__(self, *nodes: Node) -> None:
        self.node = node = nodes[-1]
        self.shape, self.dtype = known_shape(node), known_dtype(node)
        self.ndim = len(self.shape)

    def __reduce__(self) -> tuple[Any, ...]:
        return Blocks, packed_in_order(self.node)

    def __getitem__(self, key: Any) -> np.ndarray:
        return evaluate(keyed(self.node, key))


def to_dask(node: Node, chunks: Any) -> Any:
    """Return a dask array whose blocks read from the node when they are computed."""
    dask = import_library("dask.array", "dataview[dask]")

    def lazy(part: Node, memo: Memo) -> Any:
        blocks = Blocks(part)
        row = size_of(blocks.shape[1:]) * blocks.dtype.itemsize
        rows = (max(1, CHUNK_BYTES // max(1, row)),) if blocks.shape else ()
        cut = (*rows, *blocks.shape[1:]) if chunks is None else chunks
        return dask.from_array(
            blocks, chunks=cut, name=False, meta=np.empty((0,) * blocks.ndim, blocks.dtype)
        )

    return as_parts(node, lazy)
