"""What to write instead of the names that arrays and tables have elsewhere, and a view has not."""

from __future__ import annotations

from collections.abc import Container

INSTEAD = {
    "abs": "abs(d)",
    "apply": "d._map(function)",
    "argsort": "np.argsort(d)",
    "batch": "d._minibatches(batch_size)",
    "clip": "np.clip(d, low, high)",
    "columns": "d._fields()",
    "compute": "d()",
    "concat": "dv.concat(d, other)",
    "concatenate": "dv.concat(d, other)",
    "copy": "d._freeze(), or d(copy=True) for an array",
    "count": "d._size()",
    "cumsum": "np.cumsum(d)",
    "dot": "d @ other",
    "factorize": "d._codes()",
    "flatten": "d._reshape(-1)",
    "get_dummies": "d._onehot()",
    "groupby": "d._group(by=name)",
    "head": "d[:5]",
    "isnan": "np.isnan(d)",
    "item": "d().item()",
    "items": "d._iter_fields()",
    "iterrows": "for row in d",
    "keys": "d._fields()",
    "len": "len(d)",
    "load": "d()",
    "merge": "d._join(other, on=name)",
    "numpy": "d()",
    "open": "dv.open(path)",
    "percentile": "d._quantile(percent / 100)",
    "ptp": "d._max() - d._min()",
    "ravel": "d._reshape(-1)",
    "round": "np.round(d)",
    "sample": "d._shuffled(seed)[:5]",
    "shuffle": "d._shuffled(seed)",
    "sort": "d._sorted()",
    "sort_values": "d._sorted(by=name)",
    "squeeze": "np.squeeze(d)",
    "tail": "d[-5:]",
    "tolist": "d().tolist()",
    "value_counts": "d._counts()",
    "values": "d()",
    "where": "np.where(mask, d, other)",
    "zip": "dv.zip(a=d, b=other)",
    "T": "d._transpose()",
}
"""What to write for a name, with or without an underscore, of a view d."""

_ENDS_OF_WRITES = ("flush", "sync")


def advice(name: str, verbs: Container[str]) -> str:
    """Return what to write instead of a name, "" if that is not known.

    >>> advice("_clip", set()), advice("mean", {"_mean"}), advice("label", set())
    ('write np.clip(d, low, high)', 'the verb is _mean', '')
    """
    plain = name.removeprefix("_")
    if plain == name and f"_{name}" in verbs:
        return f"the verb is _{name}"
    if plain in _ENDS_OF_WRITES:
        return "nothing is to be flushed: a write is done when its statement is, or at _close()"
    return f"write {INSTEAD[plain]}" if plain in INSTEAD else ""
