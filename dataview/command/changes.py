"""Commands that write: a copy in another format, or the same file changed in place."""

from __future__ import annotations

import math
import os
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import numpy as np

import dataview as dv
from dataview.command.mistakes import as_typed
from dataview.command.reports import field_at, opened
from dataview.command.words import json_of
from dataview.formats import FORMATS, saved_as
from dataview.plan.node import DType

DURABLE: dict[str, str | bool] = {"process": "process", "power": "power", "nothing": False}
"""What a change survives, by the words of the option, as `dv.open` calls it."""


def convert(chosen: Namespace) -> Iterator[str]:
    """Save data in another format."""
    if chosen.target == "-":
        raise ValueError("the new file needs a name; `dataview head` prints rows")
    if os.path.exists(chosen.target) and not chosen.overwrite:
        raise FileExistsError(f"{chosen.target} is there already; --overwrite replaces it")
    with opened(chosen) as d:
        if os.path.exists(chosen.target) and _is_same(chosen.path, chosen.target):
            raise ValueError(f"{chosen.target} is the file that is read; name another one")
        d = _in_columns(d, chosen.target, chosen.to)
        if chosen.dtype is not None:
            d = _as_dtype(d, chosen.dtype)
        d._save(chosen.target, chosen.to, compression=chosen.compression)
        found = {"path": chosen.target, "shape": d._shape(), "nbytes": d._nbytes()}
        yield json_of(found) if chosen.json else f"wrote {chosen.target}"


def _in_columns(d: dv.View, target: str, format: str | None) -> dv.View:
    """Return the columns of an array as fields, if the new file is a table; else the view itself.

    >>> _in_columns(dv.View(np.zeros((3, 2))), "new.csv", None)._fields()
    ('c0', 'c1')
    """
    name, _ = saved_as(target, format)
    if not FORMATS[name].is_table or d._length() is None:
        return d
    if d._fields():
        return d._select(*d._fields()) if d._ndim() == 1 else d  # also of an array of records
    if d._ndim() == 1:
        return dv.View(c0=d)
    if d._ndim() != 2:
        return d
    columns: dict[str, Any] = {f"c{n}": d[:, n] for n in range(d._width())}
    return dv.View(**columns)


def _is_same(path: str, target: str) -> bool:
    return os.path.exists(path) and os.path.samefile(path, target)


def _as_dtype(d: dv.View, wanted: DType) -> dv.View:
    """Return the view with all numbers converted."""
    if d._fields():
        return _numbers_as(d, wanted)
    _check_fits(d, wanted)
    return d._astype(wanted)


def _check_fits(d: dv.View, wanted: DType) -> None:
    """Raise if an array has dates, or numbers that integers of a dtype cannot hold."""
    own = d._dtype()
    if own is not None and own.kind in "mM":
        raise TypeError(f"the data are {own}, and --dtype converts numbers")
    if own is None or own.kind not in "iuf" or wanted.kind not in "iu":
        return
    if own.kind in "iu" and np.can_cast(own, wanted):
        return
    limits = np.iinfo(wanted)
    fits = (d >= limits.min) & (d <= limits.max)
    if own.kind == "f":  # the greatest integer may be no float, and what follows it is one
        fits = (d >= limits.min) & (d < float(limits.max + 1)) & (d == np.rint(cast(Any, d)))
    if not fits._all()():
        raise ValueError(f"some of the numbers are not whole, or do not fit into {wanted}")


def _numbers_as(d: dv.View, wanted: DType) -> dv.View:
    """Return the view with its numbers converted: fields of fields, and columns of an array."""
    own = d._dtype()
    for name, part in d._iter_fields():
        d._set_field(name, _numbers_as(part, wanted))
    if own is not None and own.kind in "iuf":
        _check_fits(d, wanted)
    if own is None or d._dtype() == _with_numbers(own, wanted):  # as a record of its new fields has
        return d
    return d._astype(_with_numbers(own, wanted))


def _with_numbers(dtype: DType, wanted: DType) -> DType:
    """Return a dtype with another one for its numbers.

    >>> _with_numbers(np.dtype([("a", "i4"), ("b", "U3")]), np.dtype("f8"))
    dtype([('a', '<f8'), ('b', '<U3')])
    """
    if dtype.names is not None:
        return np.dtype([(name, _with_numbers(dtype[name], wanted)) for name in dtype.names])
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.dtype((_with_numbers(base, wanted), shape))
    return wanted if dtype.kind in "iufc" else dtype


# --- what was stopped ---------------------------------------------------------------------------


def recover(chosen: Namespace) -> Iterator[str]:
    """Tell of the updates of a file that stopped midway; finish, undo or forget them."""
    found = dv.recover(chosen.path, chosen.action, chosen.format)
    if chosen.json:
        yield json_of([one._asdict() for one in found])
        return
    if not found:
        yield f"no update of {chosen.path} has stopped midway"
    for one in found:
        if chosen.action == "tell":
            yield as_typed(str(one))
        elif chosen.action == "discard":
            yield f"the journal of an update was removed, and {chosen.path} stays as it is"
        else:
            yield one.done_now()


# --- in place ----------------------------------------------------------------------------------

_Changed = Mapping[str, Any]


def center(chosen: Namespace) -> Iterator[str]:
    """Subtract the mean of each column; what is missing (NaN) stays so, and counts for nothing."""

    def change(part: dv.View) -> _Changed:
        mean = _statistic(part, "mean")
        part -= mean
        return {"mean": mean}

    return _each(chosen, "centred", change)


def standardize(chosen: Namespace) -> Iterator[str]:
    """Subtract means and divide by standard deviations; a column of equal values becomes zeros."""

    def change(part: dv.View) -> _Changed:
        mean, deviation = _statistic(part, "mean"), _statistic(part, "std")
        part[...] = (part - mean) / np.where(deviation == 0, 1, deviation).astype(mean.dtype)
        return {"mean": mean, "std": deviation}

    return _each(chosen, "standardised", change)


def clip(chosen: Namespace) -> Iterator[str]:
    """Set what lies below or above bounds to these."""
    low, high = chosen.low, chosen.high
    for bound in (low, high):
        if bound is not None and not math.isfinite(bound):
            raise ValueError(f"a bound is a finite number, or left out; got {bound}")
    if low is not None and high is not None and not low <= high:
        raise ValueError(f"--low is at most --high; got --low {low} --high {high}")

    def change(part: dv.View) -> _Changed:
        limits: Any = [None if bound is None else _bound(bound, part) for bound in (low, high)]
        part[...] = np.clip(cast(Any, part), *limits)
        return {"low": low, "high": high}

    return _each(chosen, "clipped", change)


def _bound(bound: float, part: dv.View) -> float:
    """Return a bound, as an integer for integers."""
    kind = part._dtype()
    if kind is None or kind.kind not in "iu":
        return bound
    if not bound.is_integer():
        raise ValueError(f"the data are {kind}, and the bound {bound} is no integer")
    if not np.iinfo(kind).min <= bound <= np.iinfo(kind).max:
        raise ValueError(f"the bound {bound:g} does not fit into {kind}")
    return int(bound)


def _statistic(part: dv.View, kind: str) -> np.ndarray:
    """Return a statistic of each column of floating point numbers; infinite ones are refused."""
    dtype = part._dtype()
    if dtype is None or dtype.kind not in "fc":
        are_numbers = dtype is not None and dtype.kind in "iub"
        remedy = "; `dataview convert --dtype float64` makes a copy that can" if are_numbers else ""
        raise TypeError(f"the data are {dtype}, which cannot hold a mean{remedy}")
    view = {"mean": part._nanmean, "std": part._nanstd}[kind](axis=0)
    found = np.asarray(view())
    if np.isinf(found).any():
        raise ValueError(
            f"the {kind} is infinite, and subtracting it would leave NaN: there are infinite "
            "values; `dataview clip` bounds them"
        )
    return found


def _each(chosen: Namespace, what: str, change: Callable[[dv.View], _Changed]) -> Iterator[str]:
    """Change each part that the arguments name, one after the other; say which were changed."""
    if chosen.path == "-":
        raise ValueError("what comes from a pipe cannot be changed in place; name a file")
    fields, chosen.fields = chosen.fields, None
    with opened(chosen, mode="r+", durable=DURABLE[chosen.durable]) as d:
        done: dict[str, Any] = {}
        for name, part in _parts(d, fields, chosen.columns).items():
            try:
                done[name] = change(part)
            except BaseException as error:
                _tell_done(error, what, list(done), name)
                raise
            if not chosen.json:
                yield f"{what} {name or chosen.path}: {_counted(part)}"
        if chosen.json:
            yield json_of({"path": chosen.path, "changed": done})


def _tell_done(error: BaseException, what: str, done: list[str], name: str) -> None:
    """Have an error say which fields were changed before it."""
    if name and len(error.args) == 1 and isinstance(error.args[0], str):
        before = f"; {what} before it: {', '.join(done)}" if done else ""
        error.args = (f"{name}: {error.args[0]}{before}",)


def _parts(d: dv.View, names: list[str] | None, columns: Any) -> dict[str, dv.View]:
    """Return what is changed by name: fields, or the one array that the data are."""
    if names is not None:
        found = {name: field_at(d, name) for name in names}
    elif _is_record(d):
        raise ValueError(f"say which fields, such as --fields {','.join(d._fields()[:2])}")
    else:
        found = {"": d}
    if columns is None:
        return found
    found = {name: part[..., columns] for name, part in found.items()}
    if not all(part._size() for part in found.values()):
        raise ValueError("--columns names no columns, so nothing would be changed")
    return found


def _is_record(d: dv.View) -> bool:
    """Whether the data are fields, and no array."""
    dtype = d._dtype()
    return bool(d._fields()) and (dtype is None or dtype.names is not None)


def _counted(part: dv.View) -> str:
    shape = part._shape()
    rows, columns = shape[0] if shape else 1, shape[-1] if len(shape) > 1 else 0
    counts = {"row": rows, "column": columns}
    return ", ".join(f"{n} {what}{'s' * (n != 1)}" for what, n in counts.items() if n)
