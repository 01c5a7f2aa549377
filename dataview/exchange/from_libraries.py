"""Objects of other libraries become nodes: tensors, frames, tables, lazy arrays.

A library is recognised by the module of an object's class, so no library is imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, cast

import numpy as np

from dataview.errors import import_library
from dataview.exchange.frames import (
    of_lazy_frame,
    of_pandas,
    of_polars,
    of_polars_series,
    of_series,
)
from dataview.exchange.sparse_rows import of_sparse
from dataview.formats import H5pySource, ZarrSource, node_of_column, node_of_table
from dataview.index.flat import layout_of
from dataview.plan.build import field, record, stored
from dataview.plan.fields import check_name, read_only_meta
from dataview.plan.gaps import holds_codes
from dataview.plan.node import Node
from dataview.plan.ragged import laid_out
from dataview.sources import ArrayLike, ArraySource, DelayedSource

Reader = Callable[[Any], Node | None]

_OWN = (np.ndarray, Mapping, list, tuple, str)
"""Python's own collections and NumPy's: whatever attributes they have, they are what they are."""


def imported(value: Any) -> Node | None:
    """Return the node of another library's object, None for anything else."""
    reader = _reader_of(type(value))  # type: ignore[arg-type]
    return None if reader is None else reader(value)


def in_parts(value: Any) -> Any:
    """Return the node of an array that is not in memory, so that it is read in parts.

    Anything else is returned as it is.
    """
    reader = _reader_of(type(value))  # type: ignore[arg-type]
    found = reader(value) if reader in _LAZY else None
    return value if found is None else found


def with_categories(target: Node, value: Any) -> Any:
    """Return what is written to a target, with the nodes of categories that go to its codes.

    Who makes an array of categories loses which of the labels they stand for, if these are numbers.
    """
    if isinstance(value, Mapping) and not is_foreign(value):
        named = target.fields.named
        return {
            name: with_categories(field(target, name), part) if name in named else part
            for name, part in value.items()
        }
    if type(value) is tuple and len(value) == len(target.fields):
        parts = zip(target.fields, value, strict=True)
        return tuple(with_categories(field(target, name), part) for name, part in parts)
    if not holds_codes(target) or isinstance(value, (Node, *_OWN)):
        return value
    found = imported(value)
    return value if found is None or not holds_codes(found) else found


def recognise_views(kind: type, reader: Reader) -> None:
    """Have views read as what they are views of, wherever they stand among other data."""
    READERS[kind.__module__, kind.__name__] = reader


def is_view(value: Any) -> bool:
    """Whether a value is a view."""
    kind = type(value)
    return (kind.__module__, kind.__name__) == _VIEW


def is_foreign(value: Any) -> bool:
    """Whether a value is an object of another library, even if it is a mapping or a tuple too."""
    return _reader_of(type(value)) is not None  # type: ignore[arg-type]


def check_gradient(value: Any) -> None:
    """Raise if a value carries a gradient, which an array made of it would lose without a word."""
    check = _CHECKS.get(_reader_of(type(value)))  # type: ignore[arg-type]
    if check is not None:
        check(value)


@lru_cache(maxsize=256)
def _reader_of(kind: type) -> Reader | None:
    for base in kind.__mro__:
        found = READERS.get((base.__module__.partition(".")[0], base.__name__))
        if found is not None:
            return found
    if issubclass(kind, _OWN):
        return None
    for protocols, reader in PROTOCOLS.items():
        if all(hasattr(kind, protocol) for protocol in protocols):
            return reader
    return None


def _in_memory(array: Any, shared: bool = True) -> Node:
    """Return the node of an array; a copy is read-only, as a write would miss the original."""
    return stored(ArraySource(np.asarray(array)), None if shared else False)


# --- arrays elsewhere ------------------------------------------------------------------------


def _of_array_like(array: Any) -> Node | None:
    """Return the node of an object with shape, dtype and `[]`, None if it has not all of them."""
    shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", None)
    if not isinstance(shape, tuple | list) or dtype is None:
        return None
    try:
        np.dtype(dtype)
    except TypeError:  # a dtype that NumPy does not know
        return None
    kind = type(array)
    return stored(ArrayLike(array, kind.__name__, hasattr(kind, "__setitem__")))


def _of_dask(array: Any) -> Node:
    return stored(DelayedSource(array))


def _of_h5py(dataset: Any) -> Node:
    return stored(H5pySource(dataset))


def _of_zarr(array: Any) -> Node:
    return stored(ZarrSource(array))


def _of_zarr_group(group: Any) -> Node:
    """Return the record of a group's arrays and groups; h5py's groups are mappings."""
    members = sorted(group.members(), key=lambda member: member[0])
    if not members:
        raise ValueError(f"the zarr group {group.name} is empty: it has no data to view")
    return record({check_name(name): cast("Node", imported(part)) for name, part in members})


_LAZY = (_of_array_like, _of_dask, _of_h5py, _of_zarr, of_sparse)


# --- torch, jax, xarray, dask ----------------------------------------------------------------


def _check_tensor(tensor: Any) -> None:
    if tensor.requires_grad and sys.modules["torch"].is_grad_enabled():
        raise RuntimeError(
            "a view of a tensor that requires grad would lose the gradient; compute with "
            "view._to_torch(), or leave the gradient out by tensor.detach() or torch.no_grad()"
        )


def _of_tracer(tracer: Any) -> Node:
    """Raise: a value that JAX traces has no data yet."""
    raise RuntimeError(
        f"a view of what JAX traces ({type(tracer).__name__}, inside jit, grad or vmap) would lose "
        "the trace and the gradient; compute with jnp.asarray(view)"
    )


def _of_tensor(tensor: Any) -> Node:
    """Return the node of a tensor, whose memory it shares.

    It is read-only where a write would reach a copy, or more elements than those that are written.
    """
    _check_tensor(tensor)
    if getattr(tensor, "is_nested", False):
        return _of_nested(tensor)
    plain = tensor.detach()
    try:
        resolved = plain.resolve_conj().resolve_neg()
        array = resolved.numpy()
    except (TypeError, RuntimeError) as error:
        raise TypeError(
            f"no array shares the memory of this {tensor.dtype} tensor on {tensor.device}: "
            f"{_remedy(tensor) or error}"
        ) from None
    repeats = any(step == 0 and n > 1 for step, n in zip(array.strides, array.shape, strict=True))
    return _in_memory(array, shared=resolved is plain and not repeats)


def _remedy(tensor: Any) -> str | None:
    """Return what to view instead of a tensor that is no array, None if it is not known."""
    if str(tensor.layout) != "torch.strided":
        return "it is sparse; view tensor.to_dense(), or the rows of scipy.sparse.csr_array(...)"
    if tensor.device.type == "meta":
        return "it has a shape and no data"
    if tensor.device.type != "cpu":
        return "view tensor.cpu(), a copy in the memory of this machine"
    own = "tensor.to(torch.complex64)" if tensor.dtype.is_complex else "tensor.float()"
    return f"NumPy has no such numbers; view {own}, a copy"


def _of_module(module: Any) -> Node:
    """Raise: a model is called with data, and has none."""
    raise TypeError(
        f"a {type(module).__name__} is a model, and holds no rows; view its weights one by one, "
        "dv.View(dict(module.state_dict())), or what it makes of data, d._map_batches(function)"
    )


def _of_nested(tensor: Any) -> Node:
    """Return the node of a nested tensor, whose values it shares."""
    if str(tensor.layout) != "torch.jagged":
        raise TypeError("of nested tensors, those of layout=torch.jagged lie in one line; make one")
    offsets = layout_of(offsets=tensor.offsets().numpy())
    return laid_out(_of_tensor(tensor.values()), offsets, exactly=False)


def _of_awkward(array: Any) -> Node:
    """Return the node of an Awkward array, by way of Arrow."""
    awkward = import_library("awkward", "awkward")
    return node_of_column(awkward.to_arrow(array, extensionarray=False))


def _of_labelled(array: Any) -> Node:
    """Return the node of labelled data.

    Metadata are its attributes, the coordinates that are one value, and the names of its axes.
    """
    node, coordinates = _of_variable(array), _single(getattr(array, "coords", {}))
    meta = {**node.meta, **coordinates, **array.attrs, "dims": tuple(map(str, array.dims))}
    return node.replaced(meta=read_only_meta(meta))


def _single(coordinates: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the coordinates that are one value, as numbers and texts."""
    return {
        str(name): str(one.values) if one.dtype.kind in "mM" else one.values.item()
        for name, one in coordinates.items()
        if not one.dims and one.variable._in_memory
    }


def _of_variable(array: Any) -> Node:
    """Return the node of its data: dask's, NumPy's, or still in a file."""
    variable = getattr(array, "variable", array)
    if type(variable).__name__ == "IndexVariable":  # pandas keeps it, perhaps as tuples of levels
        return _in_memory(variable.values, shared=False)
    if variable.chunks is not None or variable._in_memory:  # else `data` reads all of a file
        return imported(array.data) or _in_memory(array.data)
    name = f"xarray {getattr(array, 'name', None) or ''}".rstrip()
    # xarray would answer a write by reading all into memory, and the file would not see it.
    return stored(ArrayLike(variable, name, writable=False))


def _of_dataset(dataset: Any) -> Node:
    """Return the record of a Dataset's variables, and of the labels of their common axis."""
    variables = _variables_of(dataset)
    if not variables:
        raise ValueError("a Dataset without variables has no data to view")
    return _described(variables, dataset)


def _variables_of(dataset: Any) -> dict[str, Node]:
    """Return the nodes of variables and of labels; those in levels are there level by level."""
    variables = dict(dataset.data_vars)
    shared = {array.dims[:1] for array in variables.values()}
    for name, labels in dataset.coords.items():
        in_levels = labels.dims == (name,) and getattr(dataset.indexes.get(name), "nlevels", 1) > 1
        if len(shared) == 1 and labels.dims and labels.dims[:1] in shared and not in_levels:
            variables[name] = labels
    return {_name_of(name): _of_labelled(array) for name, array in variables.items()}


def _described(variables: Mapping[str, Node], dataset: Any) -> Node:
    meta = {**_single(dataset.coords), **dataset.attrs}
    return record(variables).replaced(meta=read_only_meta(meta))


def _of_tree(tree: Any) -> Node:
    """Return the record of a DataTree: its variables, and a record for each of its branches."""
    dataset = tree.to_dataset(inherit=False)
    branches = {_name_of(name): _of_tree(branch) for name, branch in tree.children.items()}
    return _described({**_variables_of(dataset), **branches}, dataset)


def _name_of(name: Any) -> str:
    return check_name(str(name) if isinstance(name, int) else name)


# --- tables ----------------------------------------------------------------------------------


def _of_arrow_stream(stream: Any) -> Node:
    """Return the node of Arrow's C stream: a table, which comes as structs, or one column."""
    pyarrow = import_library("pyarrow", "dataview[arrow]")
    column = pyarrow.chunked_array(stream)
    if pyarrow.types.is_struct(column.type) and not column.null_count:
        return node_of_table(pyarrow.Table.from_struct_array(column))
    return node_of_column(column)


def _of_picture(picture: Any) -> None:
    """Raise if the numbers of a picture are those of colours in its palette, which is lost."""
    if picture.mode in ("P", "PA"):
        raise TypeError(
            f"the numbers of a picture of mode {picture.mode} are those of colours in its palette; "
            "view picture.convert('RGB')"
        )


_VIEW = ("dataview", "View")

READERS: dict[tuple[str, str], Reader] = {
    ("torch", "Tensor"): _of_tensor,
    ("torch", "Module"): _of_module,
    ("awkward", "Array"): _of_awkward,
    ("jax", "Tracer"): _of_tracer,
    ("xarray", "DataArray"): _of_labelled,
    ("xarray", "Variable"): _of_labelled,
    ("xarray", "Dataset"): _of_dataset,
    ("xarray", "DataTree"): _of_tree,
    ("dask", "Array"): _of_dask,
    ("h5py", "Dataset"): _of_h5py,
    ("zarr", "Array"): _of_zarr,
    ("zarr", "Group"): _of_zarr_group,
    ("scipy", "spmatrix"): of_sparse,
    ("scipy", "sparray"): of_sparse,
    ("pandas", "DataFrame"): of_pandas,
    ("pandas", "Series"): of_series,
    ("pandas", "Index"): of_series,
    ("pandas", "ExtensionArray"): lambda array: of_series(sys.modules["pandas"].Series(array)),
    ("PIL", "Image"): _of_picture,
    ("polars", "DataFrame"): of_polars,
    ("polars", "Series"): of_polars_series,
    ("polars", "LazyFrame"): of_lazy_frame,
    ("pyarrow", "Table"): node_of_table,
    ("pyarrow", "RecordBatch"): node_of_table,
    ("pyarrow", "RecordBatchReader"): _of_arrow_stream,
    ("pyarrow", "Array"): node_of_column,
    ("pyarrow", "ChunkedArray"): node_of_column,
}
"""The reader of an object, by the library and the name of its class or of a base of that.

None means that NumPy makes an array of it, in memory.  jax's arrays have no row for this reason.
"""

PROTOCOLS: dict[tuple[str, ...], Reader] = {
    ("__array_interface__",): lambda value: None,
    ("__array_struct__",): lambda value: None,
    ("__array__", "__dlpack__"): lambda value: None,
    ("__array__", "__arrow_c_stream__"): lambda value: None,
    ("__dlpack__",): lambda value: _in_memory(np.from_dlpack(value)),
    ("__arrow_c_stream__",): _of_arrow_stream,
    ("__getitem__",): _of_array_like,
}
"""The reader of any other object, by what its class has: the first row that fits.

None means that NumPy makes an array of it, in memory.
"""

_CHECKS: dict[Reader | None, Callable[[Any], Any]] = {
    _of_tensor: _check_tensor,
    _of_tracer: _of_tracer,
}
"""What raises if an object carries a gradient, by the reader of the object."""
