"""What to write instead of the names that arrays and tables have elsewhere, and a view has not."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Mapping
from types import FrameType
from typing import Any

import numpy as np

from dataview.errors import chained, warn
from dataview.plan.build import field
from dataview.plan.node import Node

_INSTEAD = {
    "'name' in d._fields()": "has_targets",
    "abs(d)": "abs",
    "bool(d == other)": "equals",
    "d * other": "mul",
    "d ** exponent": "pow",
    "d + other": "add",
    "d - d._mean(axis=0)": "center",
    "(d - d._mean(axis=0)) / d._std(axis=0)": "normalize scale standardize",
    "d - other": "sub",
    "d / other": "div",
    "d == other": "eq",
    "(d >= low) & (d <= high)": "between",
    "d @ other": "dot matmul",
    "d()": (
        "as_numpy collect compute cpu data detach evaluate fetch get_data "
        "get_design_matrix load materialize numpy result to_array to_dataset to_records "
        "values"
    ),
    "d().item()": "item",
    "d().tobytes()": "tobytes",
    "d().tolist()": "to_list tolist",
    "d._append(rows)": "maxshape",
    "d._map(function), or d._append(rows) for more rows": "resize",
    "d._argmax()": "idxmax",
    "d._argmin()": "idxmin",
    "d._asdict()": "to_dict",
    "d._astype('M8[D]'), or d._astype('M8[D]') - d._astype('M8[M]') in its month": "day",
    "d._astype('M8[M]'), or d._astype('M8[M]') - d._astype('M8[Y]') in its year": "month",
    "d._astype('M8[Y]')": "year",
    "d._astype('M8[h]'), or d._astype('M8[h]') - d._astype('M8[D]') in its day": "hour",
    "d._astype('T')": "asstr",
    "d._astype('f2')": "half",
    "d._astype(bool)": "bool",
    "d._astype('f4')": "float",
    "d._astype(float)": "cast cast_column double type",
    "d._astype(int)": "int long",
    "d._cached(bytes)": "cache memoize",
    "d._codes()": "class_encode_column factorize",
    "d._copy()": "clone",
    "d._counts()": "count_values mode value_counts",
    "d._describe()": "info summarise summarize summary",
    "d._drop(name)": "drop_vars pop remove_columns",
    "d._drop_duplicates()": "dedup deduplicate distinct duplicated",
    "d._dropna()": "drop_nans drop_nulls",
    "d._dtype()": "dtypes",
    "d._dtype().itemsize": "element_size itemsize",
    "d._fields()": "column_names columns coords data_vars features keys names schema",
    "d._fillna(value), or d._to_pandas().ffill()": "bfill ffill interpolate",
    "d._fillna(value)": "fill_nan fill_null",
    "d._folds(k)": "kfold",
    "d._freeze()": "persist snapshot",
    "d._get((space, name))": "data_specs get_data_specs get_topological_view",
    "d._group(by=['x', 'y'])": "crosstab pivot pivot_table",
    "d._group(by={'month': d.x._astype('M8[M]')})": "resample",
    "d._group(by=name)": "agg aggregate group_by groupby",
    "d._head()": "display glimpse preview",
    "d._isna()": "is_null isnull",
    "d._iter_fields()": "items visit visititems",
    "d._join(other, on=name)": "merge",
    "d._loader(batch_size, device='torch:cpu')": "set_format with_format",
    "d._loader(batch_size, prefetch=2, workers=2)": "prefetch",
    "d._loader(batch_size, spec=(space, name))": "iterator",
    "d._map(function)": "apply crop rotate set_transform transform with_transform",
    "d._map(lambda row: str(row()).lower())": "lower",
    "d._map(lambda row: str(row()).upper())": "upper",
    "d._max() - d._min()": "ptp",
    "d._meta": "attrs metadata",
    "d._minibatches(batch_size)": "batch batches chunk iter_batches",
    "d._nbytes()": "memory_usage",
    "d._ndim()": "dim",
    "d._nlargest(n, by=name)": "top_k topk",
    "d._notna()": "notnull",
    "d._notna()._sum()": "count",
    "d._onehot()": "get_dummies",
    "d._quantile(0.5)": "quantiles",
    "d._quantile(percent / 100)": "percentile",
    "d._rename(old='new')": "rename_column rename_columns rename_vars",
    "d._reshape(-1)": "flat flatten ravel",
    "d._reshape(shape)": "view",
    "d._save(path)": (
        "dump save_to_disk savez to_csv to_disk to_feather to_file to_hdf to_json to_netcdf "
        "to_parquet to_pickle to_zarr tofile"
    ),
    "d._select(name)": "select_columns select_dtypes",
    "d._set_field('row', np.arange(len(d)))": "reset_index with_row_index",
    "d._set_field(name, data)": (
        "add_column add_field assign assign_coords insert mutate update with_column "
        "with_columns with_field"
    ),
    "d._set_field(name, data), then d._save(path)": "create_dataset require_dataset",
    "d._set_field(name, dv.View(a=data)), then d._save(path)": "create_group",
    "d._shape()": "dims sizes",
    "d._show()": "bar boxplot imshow scatter",
    "d._show(), or np.histogram(d)": "hist",
    "d._shuffled(seed)": "shuffle",
    "d._size()": "nelement numel",
    "d._sorted()": "sort",
    "d._sorted(by=name)": "arrange order_by sort_by sort_values sortby",
    "d._split(0.8, 0.2, seed=0)": "random_split train_test_split",
    "d._to_pandas()": "to_dataframe",
    "d._to_torch()": "as_tensor backward device grad requires_grad to_tensor",
    "d._to_torch(), then .to(device)": "cuda to to_device",
    "d._transpose()": "T",
    "d._transpose(axes)": "permute",
    "d._width()": "ncol ncols",
    "d._windows(size)": "rolling",
    "d.x._astype('M8[Y]')": "dt",
    "d.x._codes()": "targets",
    "d.x._labels()": "class_to_idx classes",
    "d.x + d.y": "eval",
    "d[-1]": "last",
    "d[...] = value": "fill",
    "d[::-1]": "flip reverse",
    "d[0]": "first",
    "d[1:] / d[:-1] - 1": "pct_change",
    "d[:, None]": "unsqueeze",
    "d[:n]": "limit slice_head",
    "d[:n]()": "get_batch_design",
    "d[:n]._get((space, name))": "get_batch_topo",
    "d[d.x == value]": "set_index",
    "d[mask]": "compress",
    "d[mask], such as d[d.x > 1]": "query",
    "d[n:]": "skip",
    "d[name]": "get_field",
    "d[name]()": "get_targets",
    "d[rows]": "gather get_item reindex row rows sort_index subset",
    "d[rows] = value": "put",
    "d[rows], or d[mask]": "at iat iloc isel loc sel xs",
    "d[start:stop]": "slice",
    "dv.View(d, _spaces={name: space})": "set_space spaces with_space",
    "dv.concat(d, other)": "add_rows cat concat concatenate extend union vstack",
    "dv.open(path)": "from_csv open read_csv",
    "dv.zip(a=d, b=other)": "zip",
    "dv.zip(d[:-1], d[1:])": "shift",
    "for row in d": "iter iterrows itertuples",
    "len(d)": "get_num_examples height len nrow nrows num_rows",
    "len(d) == 0": "empty",
    "len(d._unique()())": "n_unique nunique",
    "list(d)": "unbind",
    "np.arange(len(d))": "index",
    "np.argsort(d)": "argsort",
    "np.argsort(np.argsort(d))": "rank",
    "np.asarray(d)": "array asarray",
    "np.broadcast_to(d, shape)": "expand",
    "np.clip(d, low, high)": "clamp clip",
    "np.concatenate([d, other], axis=1)": "hstack",
    "np.corrcoef(d, rowvar=False) for an array, or np.corrcoef([d.x, d.y])": "corr",
    "np.cov(d, rowvar=False) for an array, or np.cov([d.x, d.y])": "cov",
    "np.cumprod(d)": "cumprod",
    "np.cumsum(d)": "cumsum",
    "np.diagonal(d)": "diagonal",
    "np.diff(d, axis=0)": "diff",
    "np.digitize(d, values)": "cut",
    "np.histogram(d)": "histogram",
    "np.imag(d)": "imag",
    "np.isin(d, values)": "isin",
    "np.isnan(d)": "is_nan isnan",
    "np.linalg.norm(d)": "norm",
    "np.maximum.accumulate(d, axis=0)": "cummax",
    "np.minimum.accumulate(d, axis=0)": "cummin",
    "np.nonzero(d)": "nonzero",
    "np.real(d)": "real",
    "np.repeat(d, 2, axis=0)": "repeat_interleave",
    "np.roll(d, 1, axis=0)": "roll",
    "np.round(d)": "round",
    "np.searchsorted(d, values)": "searchsorted",
    "np.squeeze(d)": "squeeze",
    "np.stack([d, other])": "stack",
    "np.strings.find(d._astype('T'), 'a') >= 0": "contains",
    "np.strings.startswith(d._astype('T'), 'a')": "startswith",
    "np.strings.upper(d._astype('T')), as the other functions of np.strings": "str",
    "np.strings.strip(d._astype('T'))": "strip",
    "np.swapaxes(d, 0, 1)": "swapaxes",
    "np.trace(d)": "trace",
    "np.where(d == 0, 1, d)": "replace",
    "np.where(mask, d, other)": "mask where",
    "polars.DataFrame(d)": "to_polars",
    "print(d)": "print to_string tree",
    "pyarrow.table(d)": "to_arrow",
}
"""By what to write of a view d, the names of it that others have, without underscores."""

INSTEAD = {name: text for text, names in _INSTEAD.items() for name in names.split()}
"""What to write for a name, with or without an underscore, of a view d."""

_ENDS_OF_WRITES = ("flush", "sync")


def check_no_names(key: Any) -> None:
    """Raise if a key is a slice of names of fields."""
    if type(key) is slice and (isinstance(key.start, str) or isinstance(key.stop, str)):
        raise TypeError("names of fields make no slice: d['a', 'b'] is the record of these fields")


def advice(name: str, verbs: Mapping[str, Any]) -> str:
    """Return what to write instead of a name, "" if that is not known.

    >>> advice("_clip", {}), advice("mean", {"_mean": len}), advice("label", {})
    ('write np.clip(d, low, high)', 'did you mean ._mean()?', '')
    """
    plain = name.removeprefix("_")
    if plain == name and f"_{name}" in verbs:
        called = "" if isinstance(verbs[f"_{name}"], property) else "()"
        return f"did you mean ._{name}{called}?"
    if plain in _ENDS_OF_WRITES:
        return "nothing is to be flushed: a write is done when its statement is, or at _close()"
    if name == "_to_numpy":  # libraries ask for it without the underscore
        return "write d()"
    if plain in INSTEAD:
        return f"write {INSTEAD[plain]}"
    function = getattr(np, plain, None)
    is_of_one = isinstance(function, np.ufunc) and function.nin == function.nout == 1
    return f"write np.{plain}(d)" if is_of_one else ""


def advice_of_verb(name: str, fields: Iterable[str]) -> str:
    """Return what to write instead of a verb that is none: also the field of that name.

    >>> advice_of_verb("_age", {"age"}), advice_of_verb("_clip", ())
    ('fields have no leading underscore: did you mean .age?', 'write np.clip(d, low, high)')
    """
    if name in fields:
        return f"the field is d[{name!r}]"
    if name[1:] in fields:
        return f"fields have no leading underscore: did you mean .{name[1:]}?"
    return advice(name, {})


def inside(name: str, fields: Iterable[str]) -> str:
    """Return how a field inside a field is asked for, "" if the name is of none.

    >>> inside("image.left", ["image"])
    "write d['image']['left']; dv.View(x=d['image']['left']) gives it a name of its own"
    """
    outer, *inner = name.split(".")
    if not inner or outer not in [*fields]:
        return ""
    found = "".join(f"[{part!r}]" for part in (outer, *inner))
    return f"write d{found}; dv.View(x=d{found}) gives it a name of its own"


def advice_of_field(name: str, node: Node, verbs: Mapping[str, Any]) -> str:
    """Return what to write instead of a field that is none: also a path in a file, and metadata."""
    inner, steps = node, [step for step in name.split("/") if step]
    for step in steps if "/" in name else ():
        if step not in inner.fields:
            return ""
        inner = field(inner, step)
    if inner is not node:
        return f"write d{chained(steps)}"
    told = f"it is d._meta[{name!r}]" if name in node.meta else ""
    return _for_library() or advice(name, verbs) or told or inside(name, node.fields)


def _for_library() -> str:
    """Return what takes the place of a view in a library whose function asks a view for a name.

    Functions of torch ask what they are given for `size` and `dim` before they know that it is no
    tensor.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _HERE:
        frame = frame.f_back
    asking = "" if frame is None else frame.f_globals.get("__name__", "").partition(".")[0]
    return _IN_LIBRARIES.get(asking, "")


_HERE = __name__.partition(".")[0]

_IN_LIBRARIES = {"torch": "torch takes tensors: d._to_torch() is one of the data"}
"""By the name of a library, what to give its functions."""


def adding(name: str) -> str:
    """Return what to write for data that are assigned to a field that is not there.

    >>> adding("pred")
    "d._set_field('pred', data) adds it to the view, and to no file"
    """
    return _ASSIGNED.get(name, f"d._set_field({name!r}, data) adds it to the view, and to no file")


def renaming(new: Any) -> str:
    """Return what to write for names in a mapping that was given by a name itself, as to pandas."""
    return "write d._rename(old='new'), or d._rename({'old': 'new'})" if type(new) is dict else ""


def not_assigned(name: str, fields: Iterable[str]) -> str:
    """Return why a name with an underscore cannot be assigned, and what to write instead.

    >>> not_assigned("_id", {"_id"})
    "'_id' cannot be assigned; write d['_id'] = value"
    """
    own = f"write d[{name!r}] = value" if name in fields else "fields have no leading underscore"
    return f"{name!r} cannot be assigned; {_ASSIGNED.get(name, own)}"


_ASSIGNED = {
    "_meta": "write d._with_meta(name=value)",
    "_space": "write dv.View(d, _spaces={name: space})",
    "dtype": "write d._astype(dtype)",
    "shape": "write d._reshape(shape)",
}
"""What to write instead of an assignment to a name that arrays have."""

_OPTIONS = {
    "columns": "a field for each column is dv.View(data, a=0, b=1)",
    "copy": "write dv.View(data.copy())",
    "fields": "a field for each column is dv.View(data, a=0, b=1)",
    "dtype": "write dv.View(data)._astype(dtype)",
    "names": "a field for each column is dv.View(data, a=0, b=1)",
    "shape": "write dv.View(data)._reshape(shape)",
}


def option_meant(name: str, options: Container[str]) -> str:
    """Return what to write for an option that was given as a field, "" if that is not known.

    >>> option_meant("length", {"_length"}), option_meant("input", {"_length"})
    ('options have an underscore: did you mean _length=?', '')
    """
    if name not in _OPTIONS and f"_{name}" in options:
        return f"options have an underscore: did you mean _{name}=?"
    return _OPTIONS.get(name, "")


SEVERAL_ARRAYS = (
    "a view is made of one array, got {}; several are fields with names: dv.View(input=X, target=y)"
)


def called_with(given: Any, title: str) -> str:
    """Return the error for a view that is called with an argument."""
    if isinstance(given, (int, slice)):
        part = f"d[{given}] is a part of it" if isinstance(given, int) else "d[rows] is a part"
    elif isinstance(given, str):
        part = f"d[{given!r}] is a field of it"
    else:
        part = "a library that took it for a function takes the data: d()"
    return f"a view is called without arguments, and d() is its data; {part}; got {title}"


def without_hash(has_fields: bool) -> str:
    """Return the error for the hash of a view; of a row with fields, names may have been meant."""
    if has_fields:
        advice = (
            "d._drop_duplicates() are the distinct rows; a library that looks for names of columns "
            "takes d._asdict(), d._to_pandas() or d._to_xarray()"
        )
    else:
        advice = "d._unique()() are the distinct values, d().tolist() is a list of all"
    return (
        "a view has no hash, as an array has none, so it is in no set and no key of a dict; "
        + advice
    )


def by_name(given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return data for symbols as a mapping, or say that they have names.

    >>> by_name(None)
    {}
    """
    if given is None or isinstance(given, Mapping):
        return given or {}
    raise TypeError("data are given for a symbol by its name, as in d._bind(x=data) for x")


_OF_MODULES = {
    "dv.open(path)": "read load open_dataset open_zarr open_file from_file read_csv read_parquet "
    "read_hdf read_json read_table scan_csv scan_parquet loadtxt genfromtxt imread memmap",
    "dv.View(data)": "array asarray tensor from_numpy from_pandas from_dict from_generator "
    "from_tensor_slices DataFrame Series Dataset DataArray DataView Array LazyFrame TensorDataset "
    "IterableDataset view wrap lazy",
    "dv.View(data)._loader(batch_size)": "DataLoader Loader loader dataloader iterate",
    "d._save(path)": "save savez to_csv dump write",
    "d._join(other, on=name)": "merge join",
    "dv.concat(d, other)": "cat append vstack concatenate chain",
    "d._split(0.8, 0.2, seed=0)": "train_test_split random_split",
    "d._minibatches(batch_size)": "minibatches batches",
    "dv.spaces": "space Space VectorSpace Conv2DSpace IndexSpace CompositeSpace NullSpace",
    "dv.specs": "data_specs DataSpecs DataSpecsMapping MonitorChannel combine",
    "dv.samplers": "sampler Sampler RandomSampler BatchSampler",
}
"""What to write for names that other packages have, in a row for each."""


def advice_of_module(name: str, verbs: Container[str]) -> str:
    """Return what to write for a name that the package has not, "" if that is not known.

    >>> advice_of_module("read_csv", ()), advice_of_module("mean", {"_mean"})
    ('write dv.open(path)', 'np.mean takes views, and the verb is d._mean()')
    """
    for text, names in _OF_MODULES.items():
        if name in names.split():
            return f"write {text}"
    ways = [f"np.{name} takes views"] if callable(getattr(np, name, None)) else []
    ways += [f"the verb is d._{name}()"] if f"_{name}" in verbs else []
    return ", and ".join(ways)


def warn_of_misspelt(name: str, known: Iterable[str]) -> None:
    """Warn where a new field has nearly the name of another one: it may have been meant."""
    for other in known:
        if is_misspelt(name, other):
            warn(
                f"{name!r} is a new field beside {other!r}; if that one was meant, assign to "
                f"{other!r}. _set_field({name!r}, view) adds a field without this warning"
            )
            return


def is_misspelt(name: str, other: str) -> bool:
    """Whether a name is another one with a letter too many, too few, or two letters swapped.

    Names that differ at an end, in a digit, or in one letter for another are often fields beside
    each other.

    >>> [is_misspelt(name, "target") for name in ("targt", "tagret", "targets", "target2")]
    [True, True, False, False]
    >>> is_misspelt("pos_x", "pos_y"), is_misspelt("x12_a", "x1_a")
    (False, False)
    """
    if len(name) == len(other):
        places = [n for n, (one, two) in enumerate(zip(name, other, strict=True)) if one != two]
        pair = slice(places[0], places[0] + 2) if len(places) == 2 else slice(0)
        return bool(name[pair]) and name[pair] == other[pair][::-1] and places[1] == places[0] + 1
    short, long = sorted((name, other), key=len)
    if len(long) != len(short) + 1 or len(short) < SHORTEST:
        return False
    odd = next((n for n in range(len(short)) if short[n] != long[n]), len(short))
    is_inside = 0 < odd < len(short)
    return is_inside and long[odd].isalpha() and short[odd:] == long[odd + 1 :]


SHORTEST = 4
"""Shorter names are often near to each other."""
