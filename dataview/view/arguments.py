"""Arguments that verbs have elsewhere, and here have not: what to write instead."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from dataview.errors import explained

PLAIN = frozenset(
    ("_dtype", "_field", "_fields", "_length", "_nbytes", "_ndim", "_shape", "_size", "_write")
)
"""Verbs that are called so often, and with so few arguments, that they are as they stand."""

_SHUFFLES = "seed=0, which shuffles; without a seed the rows keep their order"
_SIZES = "the sizes first, as in d._split(0.8, 0.2, seed=0)"
_PARALLEL = "d._map(function)._loader(batch_size, workers=4), which calls it in parallel"
_ONE_FUNCTION = "d._map(lambda row: function(row, other))"
_ANY_AXIS = "np.concatenate([a, b], axis=1), which is lazy, too; dv.concat joins rows"

INSTEAD = {
    "_astype": {"copy": "d._astype(dtype)(copy=True)"},
    "_cached": {"maxsize": "d._cached(1e9), the most bytes to keep"},
    "_counts": {
        "ascending": "d._counts()._sorted(by='count')",
        "normalize": "counts = d._counts(), and counts.count / counts.count._sum()",
        "sort": "d._counts()._sorted(by='count')",
    },
    "_describe": {
        "include": "d._describe(), which tells of all fields",
        "percentiles": "d.x._quantile([0.05, 0.95])",
    },
    "_drop": {
        "axis": "d._drop('x') for a field, and d[rows] for the rows that stay",
        "columns": "d._drop('x', 'y')",
        "index": "d[rows] with the rows that stay",
    },
    "_drop_duplicates": {
        "keep": "d[::-1]._drop_duplicates(by='x')[::-1] for the last of each",
        "subset": "d._drop_duplicates(by='x')",
    },
    "_dropna": {
        "how": "d[d.x._notna() | d.y._notna()] for rows that have one of them",
        "subset": "d._dropna('x', 'y')",
        "thresh": "d[d.x._notna() | d.y._notna()] for rows that have one of them",
    },
    "_fillna": {"inplace": "d.x[:] = d.x._fillna(0)"},
    "_folds": {"shuffle": _SHUFFLES},
    "_group": {
        "as_index": "nothing: the labels are a field of each statistic",
        "sort": "nothing: groups are in the order of their labels",
    },
    "_join": {
        "how": "missing='mask' to keep rows without a partner, or d[np.isin(d.key, other.key)] to "
        "leave them out first",
        "left_on": "on=('left', 'right')",
        "right_on": "on=('left', 'right')",
        "suffixes": "other._rename(x='other_x')",
    },
    "_map": {
        "args": _ONE_FUNCTION,
        "axis": "nothing: the function gets one row; _map_batches hands out many",
        "batched": "d._map_batches(function)",
        "kwargs": _ONE_FUNCTION,
        "n_jobs": _PARALLEL,
        "num_proc": _PARALLEL,
        "num_workers": _PARALLEL,
    },
    "_onehot": {"depth": "labels=range(10)", "num_classes": "labels=range(10)"},
    "_plot": {
        "figsize": "ax=plt.subplots(figsize=(8, 3))[1]",
        "kind": "plt.hist(d.x), or plt.plot(d.x)",
        "x": "plt.scatter(d.x, d.y)",
        "y": "plt.scatter(d.x, d.y)",
    },
    "_sample": {
        "frac": "n=len(d) // 10 for a tenth of the rows",
        "replace": "d[np.random.default_rng(0).integers(len(d), size=5)]",
    },
    "_save": {"index": "nothing: a view has no index", "mode": "d._append(rows) to add rows"},
    "_rename": {"": "d._rename(old='new')"},
    "_split": {"shuffle": _SHUFFLES, "test_size": _SIZES, "train_size": _SIZES},
    "_take": {"axis": "d[:, rows]"},
    "_to_pandas": {"index": "d._to_pandas().set_index('x')"},
    "_to_torch": {"dtype": "d._astype('f4')._to_torch()"},
    "_unique": {"return_counts": "counts=True", "return_inverse": "d._codes()"},
    "concat": {
        "axis": _ANY_AXIS,
        "dim": _ANY_AXIS,
        "ignore_index": "nothing: rows have no index",
        "keys": "dv.zip(a=a, b=b) for fields of these names",
    },
    "ragged": {"dtype": "dv.ragged(rows)._astype('f4')"},
}
"""By verb or function, what to write for an argument of other libraries."""

EVERYWHERE = {
    "inplace": "d = d.{0}(...): a verb returns a view, and changes nothing",
    "numeric_only": "d.x.{0}() of one field, or d._describe() for all",
    "skipna": "the verb with nan in its name, such as d._nanmean()",
    "unbiased": "ddof=1",
}

SYNONYMS = {
    "reverse=True": "ascending descending",
    "axis=": "dim dims",
    "by=": "columns key level stratify subset",
    "ddof=": "correction",
    "k=": "n_splits",
    "keepdims=": "keepdim",
    "method=": "interpolation",
    "n=": "count k num times",
    "path=": "filename fname path_or_buf",
    "pool=": "buffer_size",
    "seed=": "generator random_state rng",
    "step=": "stride",
    "to=": "max_length maxlen",
    "value=": "constant_values fill fill_value padding_value",
}
"""What an argument is called here, if the verb has it."""


def advice(verb: str, name: str, known: Collection[str]) -> str:
    """Return what to write for an argument that a verb has not, "" if that is not known.

    >>> advice("_sorted", "ascending", ["by", "reverse"]), advice("_sorted", "axis", ["by"])
    ('reverse=True', '')
    """
    special = INSTEAD.get(verb, {}).get(name) or EVERYWHERE.get(name, "").format(verb)
    if special:
        return special
    for own, others in SYNONYMS.items():
        if name in others.split() and own.partition("=")[0] in known:
            return own
    return ""


def told(verb: Any) -> Any:
    """Return a verb whose error for arguments that do not fit says what to write."""
    is_told = hasattr(verb, "__wrapped__")  # by the options of a loader
    return verb if is_told or verb.__name__ in PLAIN else explained(instead=advice)(verb)
