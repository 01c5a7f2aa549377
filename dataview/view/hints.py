"""What to write instead of the names that arrays and tables have elsewhere, and a view has not."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

import numpy as np

from dataview.errors import chained, warn
from dataview.plan.build import field
from dataview.plan.node import Node

INSTEAD = {
    "T": "d._transpose()",
    "abs": "abs(d)",
    "add": "d + other",
    "add_column": "d._set_field(name, data)",
    "add_field": "d._set_field(name, data)",
    "agg": "d._group(by=name)",
    "aggregate": "d._group(by=name)",
    "apply": "d._map(function)",
    "argsort": "np.argsort(d)",
    "array": "np.asarray(d)",
    "as_numpy": "d()",
    "as_tensor": "d._to_torch()",
    "asarray": "np.asarray(d)",
    "assign": "d._set_field(name, data)",
    "asstr": "d._astype('T')",
    "at": "d[rows], or d[mask]",
    "attrs": "d._meta",
    "backward": "d._to_torch()",
    "batch": "d._minibatches(batch_size)",
    "batches": "d._minibatches(batch_size)",
    "between": "(d >= low) & (d <= high)",
    "bool": "d._astype(bool)",
    "cache": "d._cached(bytes)",
    "cat": "dv.concat(d, other)",
    "center": "d - d._mean(axis=0)",
    "chunk": "d._minibatches(batch_size)",
    "class_encode_column": "d._codes()",
    "clip": "np.clip(d, low, high)",
    "clone": "d._copy()",
    "collect": "d()",
    "column_names": "d._fields()",
    "columns": "d._fields()",
    "compress": "d[mask]",
    "compute": "d()",
    "concat": "dv.concat(d, other)",
    "concatenate": "dv.concat(d, other)",
    "conj": "np.conj(d)",
    "conjugate": "np.conj(d)",
    "contains": "np.strings.find(d._astype('T'), 'a') >= 0",
    "corr": "np.corrcoef(d, rowvar=False)",
    "count": "d._notna()._sum()",
    "cov": "np.cov(d, rowvar=False)",
    "cpu": "d()",
    "create_dataset": "d._set_field(name, data), then d._save(path)",
    "create_group": "d._set_field(name, dv.View(a=data)), then d._save(path)",
    "cuda": "d._to_torch(), then .to(device)",
    "cumprod": "np.cumprod(d)",
    "cumsum": "np.cumsum(d)",
    "data": "d()",
    "data_specs": "d._get((space, name))",
    "data_vars": "d._fields()",
    "day": "d._astype('M8[D]')",
    "dedup": "d._drop_duplicates()",
    "deduplicate": "d._drop_duplicates()",
    "detach": "d()",
    "device": "d._to_torch()",
    "diagonal": "np.diagonal(d)",
    "diff": "np.diff(d, axis=0)",
    "dim": "d._ndim()",
    "dims": "d._shape()",
    "distinct": "d._drop_duplicates()",
    "div": "d / other",
    "dot": "d @ other",
    "double": "d._astype(float)",
    "drop_nans": "d._dropna()",
    "drop_nulls": "d._dropna()",
    "dt": "d.x._astype('M8[Y]')",
    "dtypes": "d._dtype()",
    "dump": "d._save(path)",
    "duplicated": "d._drop_duplicates()",
    "empty": "len(d) == 0",
    "eq": "d == other",
    "equals": "bool(d == other)",
    "eval": "d()",
    "evaluate": "d()",
    "exp": "np.exp(d)",
    "expand": "np.broadcast_to(d, shape)",
    "extend": "dv.concat(d, other)",
    "factorize": "d._codes()",
    "features": "d._fields()",
    "fetch": "d()",
    "fill": "d[...] = value",
    "fill_nan": "d._fillna(value)",
    "fill_null": "d._fillna(value)",
    "first": "d[0]",
    "flat": "d._reshape(-1)",
    "flatten": "d._reshape(-1)",
    "float": "d._astype(float)",
    "get_batch_design": "d[:n]()",
    "get_batch_topo": "d[:n]._get((space, name))",
    "get_data": "d()",
    "get_data_specs": "d._get((space, name))",
    "get_design_matrix": "d()",
    "get_dummies": "d._onehot()",
    "get_field": "d[name]",
    "get_num_examples": "len(d)",
    "get_targets": "d[name]()",
    "get_topological_view": "d._get((space, name))",
    "grad": "d._to_torch()",
    "group_by": "d._group(by=name)",
    "groupby": "d._group(by=name)",
    "half": "d._astype('f2')",
    "has_targets": "'name' in d._fields()",
    "height": "len(d)",
    "hist": "d._show(), or np.histogram(d)",
    "histogram": "np.histogram(d)",
    "hour": "d._astype('M8[h]')",
    "iat": "d[rows], or d[mask]",
    "iloc": "d[rows], or d[mask]",
    "imag": "np.imag(d)",
    "index": "np.arange(len(d))",
    "info": "d._describe()",
    "insert": "d._set_field(name, data)",
    "int": "d._astype(int)",
    "is_nan": "np.isnan(d)",
    "is_null": "d._isna()",
    "isel": "d[rows], or d[mask]",
    "isin": "np.isin(d, values)",
    "isnan": "np.isnan(d)",
    "isnull": "d._isna()",
    "item": "d().item()",
    "items": "d._iter_fields()",
    "itemsize": "d._dtype().itemsize",
    "iter_batches": "d._minibatches(batch_size)",
    "iterator": "d._loader(batch_size, spec=(space, name))",
    "iterrows": "for row in d",
    "itertuples": "for row in d",
    "keys": "d._fields()",
    "kfold": "d._folds(k)",
    "last": "d[-1]",
    "len": "len(d)",
    "limit": "d[:n]",
    "load": "d()",
    "loc": "d[rows], or d[mask]",
    "log": "np.log(d)",
    "long": "d._astype(int)",
    "lower": "d._map(lambda row: str(row()).lower())",
    "materialize": "d()",
    "matmul": "d @ other",
    "maxshape": "d._append(rows)",
    "memoize": "d._cached(bytes)",
    "merge": "d._join(other, on=name)",
    "metadata": "d._meta",
    "mode": "d._counts()",
    "month": "d._astype('M8[M]')",
    "mul": "d * other",
    "n_unique": "len(d._unique()())",
    "names": "d._fields()",
    "ncols": "d._width()",
    "nonzero": "np.nonzero(d)",
    "normalize": "(d - d._mean(axis=0)) / d._std(axis=0)",
    "notnull": "d._notna()",
    "nrows": "len(d)",
    "num_rows": "len(d)",
    "numel": "d._size()",
    "numpy": "d()",
    "nunique": "len(d._unique()())",
    "open": "dv.open(path)",
    "order_by": "d._sorted(by=name)",
    "percentile": "d._quantile(percent / 100)",
    "permute": "d._transpose(axes)",
    "persist": "d._freeze()",
    "pivot": "d._group(by=['x', 'y'])",
    "pop": "d._drop(name)",
    "pow": "d ** exponent",
    "prefetch": "d._loader(batch_size, prefetch=2, workers=2)",
    "print": "print(d)",
    "ptp": "d._max() - d._min()",
    "put": "d[rows] = value",
    "query": "d[mask], such as d[d.x > 1]",
    "random_split": "d._split([0.8], seed=0)",
    "ravel": "d._reshape(-1)",
    "real": "np.real(d)",
    "remove_columns": "d._drop(name)",
    "rename_column": "d._rename(old='new')",
    "rename_columns": "d._rename(old='new')",
    "replace": "np.where(d == 0, 1, d)",
    "require_dataset": "d._set_field(name, data), then d._save(path)",
    "requires_grad": "d._to_torch()",
    "resize": "d._append(rows)",
    "result": "d()",
    "rolling": "d._windows(size)",
    "round": "np.round(d)",
    "row": "d[rows]",
    "rows": "d[rows]",
    "savez": "d._save(path)",
    "schema": "d._fields()",
    "searchsorted": "np.searchsorted(d, values)",
    "sel": "d[rows], or d[mask]",
    "select_columns": "d._select(name)",
    "set_index": "d[d.x == value]",
    "set_space": "dv.View(d, _spaces={name: space})",
    "shift": "np.roll(d, 1, axis=0)",
    "shuffle": "d._shuffled(seed)",
    "sizes": "d._shape()",
    "skip": "d[n:]",
    "slice": "d[start:stop]",
    "snapshot": "d._freeze()",
    "sort": "d._sorted()",
    "sort_by": "d._sorted(by=name)",
    "sort_values": "d._sorted(by=name)",
    "spaces": "dv.View(d, _spaces={name: space})",
    "sqrt": "np.sqrt(d)",
    "square": "np.square(d)",
    "squeeze": "np.squeeze(d)",
    "stack": "np.stack([d, other])",
    "standardize": "(d - d._mean(axis=0)) / d._std(axis=0)",
    "startswith": "np.strings.startswith(d._astype('T'), 'a')",
    "str": "np.strings.startswith(d._astype('T'), 'a')",
    "strip": "np.strings.strip(d._astype('T'))",
    "sub": "d - other",
    "swapaxes": "np.swapaxes(d, 0, 1)",
    "to": "d._to_torch(), then .to(device)",
    "to_csv": "d._save(path)",
    "to_dataframe": "d._to_pandas()",
    "to_dict": "d._asdict()",
    "to_feather": "d._save(path)",
    "to_file": "d._save(path)",
    "to_hdf": "d._save(path)",
    "to_list": "d().tolist()",
    "to_netcdf": "d._save(path)",
    "to_parquet": "d._save(path)",
    "to_tensor": "d._to_torch()",
    "to_zarr": "d._save(path)",
    "tobytes": "d().tobytes()",
    "tofile": "d._save(path)",
    "tolist": "d().tolist()",
    "trace": "np.trace(d)",
    "train_test_split": "d._split([0.8], seed=0)",
    "tree": "print(d)",
    "unsqueeze": "d[:, None]",
    "update": "d._set_field(name, data)",
    "upper": "d._map(lambda row: str(row()).upper())",
    "value_counts": "d._counts()",
    "values": "d()",
    "view": "d._reshape(shape)",
    "visit": "d._iter_fields()",
    "visititems": "d._iter_fields()",
    "where": "np.where(mask, d, other)",
    "with_column": "d._set_field(name, data)",
    "with_columns": "d._set_field(name, data)",
    "with_field": "d._set_field(name, data)",
    "with_space": "dv.View(d, _spaces={name: space})",
    "xs": "d[rows], or d[mask]",
    "year": "d._astype('M8[Y]')",
    "zip": "dv.zip(a=d, b=other)",
}
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
    return f"write {INSTEAD[plain]}" if plain in INSTEAD else ""


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
    return advice(name, verbs) or told or inside(name, node.fields)


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
    "d._split(0.8, seed=0)": "train_test_split random_split",
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
