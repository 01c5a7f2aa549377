"""Commands that print what is in files: fields, rows, statistics, plans, and what the cache has."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import numpy as np

import dataview as dv
from dataview.command import demo
from dataview.command.words import json_of, json_of_rows, table_of
from dataview.plan.gaps import masks_among
from dataview.show import size_text

BLOCK = 64
"""So many rows are read and printed at a time."""


def show(chosen: Namespace) -> Iterator[str]:
    """Return the facts of each field."""
    with opened(chosen) as d:
        yield json_of({"path": chosen.path, **_facts(d)}) if chosen.json else _displayed(d)


def _displayed(d: dv.View) -> str:
    """Return the display of a view, in which a command is named in place of a call."""
    return re.sub(r"not read; d.*\Z", "not read; `dataview head` prints the values", repr(d))


def _facts(d: dv.View) -> dict[str, Any]:
    fields = {name: _facts(part) for name, part in d._iter_fields()}
    known: dict[str, Any] = {
        "length": d._length(),
        "shape": None,
        "dtype": d._dtype(),
        "nbytes": None,
    }
    with contextlib.suppress(ValueError):  # of fields that differ in length
        known |= {"shape": d._shape(), "nbytes": d._nbytes()}
    return {**known, **({"meta": dict(d._meta)} if d._meta else {}), "fields": fields}


def head(chosen: Namespace) -> Iterator[str]:
    """Return the first rows, a block at a time."""
    with opened(chosen) as d:
        if not chosen.rows:
            return
        blocks = (_columns_of(block) for block in _blocks(d, chosen.rows))
        yield from json_of_rows(blocks) if chosen.json else table_of(blocks)


def _blocks(d: dv.View, rows: int) -> Iterator[dv.View]:
    """Yield blocks of the first rows; what has no rows is one block."""
    if d._length() is None and d._shape() == ():
        yield d[None]
    elif d._length() == 0:
        yield d  # its names are printed
    else:
        yield from d[:rows]._minibatches(BLOCK)


def _columns_of(d: dv.View, name: str = "") -> dict[str, Any]:
    """Return the data of each field by its path; what a mask says is missing is None."""
    if not d._fields():
        return {name: d()}
    masks = _masks_of(d)
    found: dict[str, Any] = {}
    for own, part in d._iter_fields():
        path = f"{name}.{own}" if name else own
        if own in masks.values():
            continue
        found |= _columns_of(part, path)
        if own in masks:
            pairs = zip(found[path], d[masks[own]](), strict=True)
            found[path] = [value if is_there else None for value, is_there in pairs]
    return found


def _masks_of(d: dv.View) -> dict[str, str]:
    """Return the names of the masks of columns that have no fields of their own."""
    parts = dict(d._iter_fields())
    of_rows = [
        own for own, part in parts.items() if part._dtype() == np.bool and len(part._shape()) == 1
    ]
    found = masks_among({own: part._meta for own, part in parts.items()}, of_rows)
    return {own: mask for own, mask in found.items() if not parts[own]._fields()}


def describe(chosen: Namespace) -> Iterator[str]:
    """Return the statistics of each field."""
    with opened(chosen) as d:
        found = d._describe(columns=chosen.columns)
        yield json_of(found.asdict()) if chosen.json else repr(found)


PLANS: dict[str, Any] = {
    "reading": lambda d: d,
    "center": lambda d: d - d._nanmean(axis=0),
    "standardize": lambda d: (d - d._nanmean(axis=0)) / d._nanstd(axis=0),
}
"""What there is a plan of, as a view."""


def plan(chosen: Namespace) -> Iterator[str]:
    """Return what would be read and computed."""
    with opened(chosen) as d:
        parts = {} if chosen.of == "reading" else dict(_numbers(d))
        of = PLANS[chosen.of]
        plans: dict[str, Any] = {name: of(part) for name, part in parts.items()}
        own = d._dtype()
        if chosen.of != "reading" and not plans and (own is None or own.kind not in "fc"):
            raise TypeError(f"there are no floating point numbers, which alone {chosen.of} changes")
        whole = dv.View(**plans) if plans else of(d)
        found = whole._explain()
        yield json_of(dataclasses.asdict(found)) if chosen.json else repr(found)


def _numbers(d: dv.View, name: str = "") -> Iterator[tuple[str, dv.View]]:
    """Yield the fields of floating point numbers by their paths."""
    for own, part in d._iter_fields():
        path, dtype = f"{name}.{own}" if name else own, part._dtype()
        if part._fields():
            yield from _numbers(part, path)
        elif dtype is not None and dtype.kind in "fc":
            yield path, part


def cache(chosen: Namespace) -> Iterator[str]:
    """List the copies of remote files, or remove them."""
    if chosen.what == "clear":
        freed = dv.cache.clear(chosen.url)
        yield json_of({"freed": freed}) if chosen.json else f"removed: {size_text(freed)}"
        return
    found = dv.cache.info()
    if chosen.json:
        yield json_of(found._asdict() | {"files": [one._asdict() for one in found.files]})
        return
    limit = "" if found.limit is None else f" of {size_text(found.limit)}"
    files = "1 file" if len(found.files) == 1 else f"{len(found.files)} files"
    yield f"{found.folder}: {files}, {size_text(found.bytes)}{limit}"
    yield from (f"{size_text(one.bytes):>10}  {one.url}" for one in found.files)


def show_demo(chosen: Namespace) -> Iterator[str]:
    """Run the demo, which prints by itself."""
    demo.run(chosen.folder)
    return iter(())


# --- what is opened ----------------------------------------------------------------------------


@contextlib.contextmanager
def opened(chosen: Namespace, **options: Any) -> Iterator[dv.View]:
    """Open what the arguments name, with the fields that they name."""
    with contextlib.ExitStack() as stack:
        path, options = chosen.path, dict(chosen.option) | options
        if path == "-":
            path = stack.enter_context(_piped())
        d = stack.enter_context(dv.open(path, format=chosen.format, **options))
        yield d if chosen.fields is None else with_fields(d, chosen.fields)


def with_fields(d: dv.View, names: list[str]) -> dv.View:
    """Return the record of some fields, of which each may lie within others."""
    if all(name in d._fields() or "." not in name for name in names):
        return d._select(names)  # with what says which values are missing
    chosen: dict[str, Any] = {name: field_at(d, name) for name in names}
    return dv.zip(**chosen)


def field_at(d: dv.View, path: str) -> dv.View:
    """Return the field of a name, or of names with dots between them."""
    if path in d._fields() or "." not in path:
        return d[path]
    outer, _, inner = path.partition(".")
    return field_at(d[outer], inner)


@contextlib.contextmanager
def _piped() -> Iterator[str]:
    """Copy what comes through a pipe to a temporary file, since files are not read in order."""
    with tempfile.NamedTemporaryFile(prefix="dataview-") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        try:
            yield file.name
        except Exception as error:
            text = str(error).replace(file.name, "the pipe")
            raise ValueError(text) from error
