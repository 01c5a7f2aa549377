"""Several tables as one, whose rows follow one another: columns are matched by their names.

What differs between the tables is refused, or unified if that is asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from dataview.errors import hint
from dataview.formats.tables.columns import Column, Kind, Name, Table

Part: TypeAlias = tuple[Table, Mapping[Name, Kind]]
"""A table with what its columns are."""

SCHEMAS = ("same", "union")
"""What is done about tables whose columns differ: an error, or all columns are in the result."""


def joined(title: str, parts: Sequence[Part], schema: str = "same") -> Part:
    """Return tables one after the other as one; `schema` is one of `SCHEMAS`.

    The order of columns is that of the first table that has them.  A column of a union holds what
    the dtypes of the tables have in common, and misses the rows of tables without it.
    """
    check_schema(schema)
    if len(parts) == 1:
        return parts[0]
    names = list(dict.fromkeys(name for _, kinds in parts for name in kinds))
    kinds = {name: _unified(name, parts, schema) for name in names}
    return Tables(title, parts, kinds), kinds


def check_schema(schema: str) -> None:
    """Raise if it is not said what is done about tables whose columns differ."""
    if schema not in SCHEMAS:
        raise ValueError(
            f"schema= is one of {', '.join(map(repr, SCHEMAS))}: whether columns of files may "
            f"differ; got {schema!r}{hint(str(schema), SCHEMAS)}"
        )


def missing_in(dtype: np.dtype[Any]) -> Any:
    """Return what stands where there are no data: NaN, NaT, None among objects, or else 0.

    >>> missing_in(np.dtype("f4")), missing_in(np.dtype("i4")), missing_in(np.dtype(object))
    (nan, np.int32(0), None)
    """
    if dtype.kind in "fc":
        return float("nan")
    if dtype.kind in "mM":
        return np.array("NaT", dtype)[()]
    return None if dtype.hasobject else np.zeros((), dtype)[()]


def _unified(name: Name, parts: Sequence[Part], schema: str) -> Kind:
    """Return what a column is in all tables."""
    found: _Found | None = None
    lacking: Table | None = None
    for table, kinds in parts:
        kind = kinds.get(name)
        if kind is None:
            lacking = table
        elif found is None:
            found = _Found(table, kind)
        else:
            found = _Found(found.table, _both(name, found, _Found(table, kind), schema))
    if found is None:
        raise KeyError(name)
    if lacking is not None:
        if schema == "same":
            raise ValueError(
                f"{found.table.title} has a column {'.'.join(name)!r}, and {lacking.title} has "
                "none; schema='union' takes the columns of all files, and what is not there is "
                "missing"
            )
        return found.kind._replace(has_missing=True)
    return found.kind


class _Found(NamedTuple):
    table: Table
    kind: Kind


def _both(name: Name, one: _Found, other: _Found, schema: str) -> Kind:
    """Return what a column is that two tables have."""
    has_missing = one.kind.has_missing or other.kind.has_missing
    alike = one.kind._replace(has_missing=False) == other.kind._replace(has_missing=False)
    dtype = one.kind.dtype if alike else _common(one.kind.dtype, other.kind.dtype)
    fits = dtype is not None and one.kind[1:3] == other.kind[1:3]
    if alike or (fits and schema == "union"):
        return one.kind._replace(dtype=cast(Any, dtype), has_missing=has_missing)
    remedy = "; schema='union' gives what they have in common" if fits else ""
    raise ValueError(
        f"column {'.'.join(name)!r} is {_words(other.kind)} in {other.table.title}, and "
        f"{_words(one.kind)} in {one.table.title}{remedy}"
    )


def _common(one: np.dtype[Any], other: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return a dtype that holds the values of two, None if they are of different nature."""
    natures = ("iuf", "c", "M", "m", "b", "SU", "O", "T")
    if not any(one.kind in nature and other.kind in nature for nature in natures):
        return None
    return np.promote_types(one, other)


def _words(kind: Kind) -> str:
    shape = f" of shape {kind.shape}" if kind.shape else ""
    return f"{'lists of ' * kind.depth}{kind.dtype}{shape}"


class Tables(Table):
    """Tables whose rows follow one another."""

    def __init__(self, title: str, parts: Sequence[Part], kinds: Mapping[Name, Kind]) -> None:
        self.parts, self.kinds = parts, kinds
        tables = [table for table, _ in parts]
        rows = np.cumsum([0, *(int(table.starts[-1]) for table in tables)])
        starts = [table.starts[:-1] + row for table, row in zip(tables, rows, strict=False)]
        super().__init__(title, np.concatenate([*starts, rows[-1:]]).astype(np.intp))
        self.groups = np.cumsum([0, *(len(table.starts) - 1 for table in tables)]).tolist()
        self.reads_rows = any(table.reads_rows for table in tables)
        self.joins_groups = all(table.joins_groups for table in tables)

    def __reduce__(self) -> tuple[Any, ...]:
        return Tables, (self.title, self.parts, self.kinds), {"fills": self.fills}

    def read(self, names: Collection[Name], first: int, stop: int) -> Mapping[Name, Column]:
        """Return columns of some groups, read from each table that has any of these."""
        found: list[Mapping[Name, Column]] = []
        for (low, high), (table, kinds) in zip(
            itertools.pairwise(self.groups), self.parts, strict=True
        ):
            own = max(first, low) - low, min(stop, high) - low
            if own[0] >= own[1]:
                continue
            there = [name for name in names if name in kinds]
            read = table.read(there, *own) if there else {}
            count = int(table.starts[own[1]] - table.starts[own[0]])
            found.append(
                {
                    name: as_kind(read[name], self.kinds[name])
                    if name in read
                    else _nothing(self.kinds[name], count)
                    for name in names
                }
            )
        return {
            name: _behind([one[name] for one in found]) if found else _nothing(self.kinds[name], 0)
            for name in names
        }

    def close(self) -> None:
        """Close all of the tables."""
        super().close()
        for table, _ in self.parts:
            table.close()


def as_kind(column: Column, kind: Kind) -> Column:
    """Return a column with values of a dtype; what is missing stands there as in that one."""
    if isinstance(column.values, Column):
        return column._replace(values=as_kind(column.values, kind))
    if column.values.dtype == kind.dtype:
        return column
    values = np.asarray(column.values).astype(kind.dtype)
    if column.present is not None and column.offsets is None:
        values[~column.present] = missing_in(kind.dtype)
    return column._replace(values=values)


def _nothing(kind: Kind, count: int) -> Column:
    """Return a column of rows that are all missing."""
    present = np.zeros(count, bool)
    if not kind.depth:
        return Column(np.full((count, *kind.shape), missing_in(kind.dtype), kind.dtype), present)
    inner = _nothing(kind._replace(depth=kind.depth - 1), 0)
    return Column(inner, present, np.zeros(count + 1, np.intp))


def _behind(columns: Sequence[Column]) -> Column:
    """Return columns one behind the other."""
    if len(columns) == 1:
        return columns[0]
    present = None
    if any(column.present is not None for column in columns):
        present = np.concatenate([_presence(column) for column in columns])
    values = [column.values for column in columns]
    joint = (
        _behind(cast(Any, values))
        if isinstance(values[0], Column)
        else np.concatenate(cast(Any, values))
    )
    if columns[0].offsets is None:
        return Column(joint, present)
    lengths = [np.diff(cast(Any, column.offsets)) for column in columns]
    return Column(joint, present, np.concatenate([[0], np.cumsum(np.concatenate(lengths))]))


def _presence(column: Column) -> np.ndarray:
    """Return which rows of a column are there."""
    if column.present is not None:
        return column.present
    if column.offsets is not None:
        return np.ones(len(column.offsets) - 1, bool)
    return np.ones(len(cast(np.ndarray, column.values)), bool)
