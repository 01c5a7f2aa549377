"""Several tables as one, whose rows follow one another: columns are matched by their names.

What differs between the tables is refused, or unified if that is asked for.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from dataview.errors import hint, shortened
from dataview.formats.tables.arrow import DECIMAL
from dataview.formats.tables.arrow_objects import holding, told_decimal
from dataview.formats.tables.columns import NOTHING, Column, Kind, Name, Table, mask_of
from dataview.plan.gaps import NO_LABEL, PRESENT, tells_present

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
    kinds = unified(parts, schema)
    return Tables(title, parts, kinds), kinds


def check_schema(schema: str) -> None:
    """Raise if it is not said what is done about tables whose columns differ."""
    if schema not in SCHEMAS:
        raise ValueError(
            f"schema= is one of {', '.join(map(repr, SCHEMAS))}: whether columns of files may "
            f"differ; got {schema!r}{hint(str(schema), SCHEMAS)}"
        )


def is_of_codes(kind: Kind) -> bool:
    """Whether values are codes of labels, of which none is for what is missing."""
    return bool(kind.nothing == NO_LABEL)


def nothing_of(kind: Kind) -> Any:
    """Return what stands where a column has no value."""
    return missing_in(kind.dtype) if kind.nothing is None else kind.nothing


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


def unified(parts: Sequence[Part], schema: str) -> dict[Name, Kind]:
    """Return what each column is in all tables, or raise if they differ and may not."""
    names = _names_in(parts)
    _check_members(parts, names)
    found = {name: _unified(name, parts, schema) for name in names}
    for record in dict.fromkeys(name[:end] for name in names for end in range(1, len(name))):
        if not all(_has_record(kinds, record) for _, kinds in parts):
            found.setdefault((*record, PRESENT), Kind(np.dtype(bool)))
    return found


def _check_members(parts: Sequence[Part], names: Sequence[Name]) -> None:
    """Raise if a column is one of records in some tables, and of other values in others."""
    known = {*names}
    for name in names:
        above = next((name[:n] for n in range(1, len(name)) if name[:n] in known), None)
        if above is not None:
            raise ValueError(
                f"column {'.'.join(above)!r} has members in {_first(parts, name)}, and none in "
                f"{_first(parts, above)}; open the files one by one"
            )


def _names_in(parts: Sequence[Part]) -> list[Name]:
    """Return the names of all columns; one without a value stands for the members that it has.

    Those it has in other tables, in which its values are records.
    """
    names = dict.fromkeys(name for _, kinds in parts for name in kinds)
    records = {name[:end] for name in names for end in range(1, len(name))} & names.keys()
    voids = {
        name for name in records if all(is_void(kinds[name]) for _, kinds in parts if name in kinds)
    }
    if not voids:
        return [*names]
    own = {
        void: [name for name in names if name[: len(void)] == void and name not in voids]
        for void in voids
    }
    return [*dict.fromkeys(one for name in names for one in own.get(name, [name]))]


def _first(parts: Sequence[Part], name: Name) -> str:
    """Return the title of the first table that has a column."""
    return next(table.title for table, kinds in parts if name in kinds)


def _unified(name: Name, parts: Sequence[Part], schema: str) -> Kind:
    """Return what a column is in all tables."""
    first, columns = next(part for part in parts if name in part[1])
    found = columns[name]
    for table, kinds in parts:
        kind = kinds.get(name)
        if kind is not None:
            found = _both(name, found, first, kind, table, schema)
        elif tells_present(name):
            continue  # all records are there, or none are
        elif schema == "union" or _has_void(kinds, name):
            found = found._replace(has_missing=True)
        else:
            raise _lacking((first, columns), (table, kinds))
    return found


def _lacking(one: Part, other: Part) -> ValueError:
    """Return the error for a table that lacks columns of another one."""
    (first, ours), (table, theirs) = one, other
    lost = [name for name in ours if name not in theirs]
    more = [name for name in theirs if name not in ours]
    has, none = ("a column", "none") if len(lost) == 1 else ("the columns", "none of them")
    instead = f", but {_listed(more)}" if more else ""
    return ValueError(
        f"{first.title} has {has} {_listed(lost)}, and {table.title} has {none}{instead}; "
        "schema='union' takes the columns of all files, and what is not there is missing"
    )


def _listed(names: Sequence[Name]) -> str:
    return shortened(", ".join(repr(".".join(name)) for name in names if not tells_present(name)))


def _both(name: Name, one: Kind, first: Table, other: Kind, table: Table, schema: str) -> Kind:
    """Return what a column is that two tables have."""
    for empty, full in ((one, other), (other, one)):
        if empty.nature == NOTHING and empty.depth <= full.depth and not empty.shape:
            is_of_lists = empty.depth > 0  # they may be there, empty
            lacks = one.has_missing or other.has_missing or not is_of_lists
            return full._replace(has_missing=lacks)
    both = one._replace(
        has_missing=one.has_missing or other.has_missing,
        lacks_elements=one.lacks_elements or other.lacks_elements,
        seen=0,
    )
    other = other._replace(has_missing=both.has_missing, lacks_elements=both.lacks_elements, seen=0)
    if both == other:
        return both
    dtype, nature = _common(one.dtype, other.dtype), _common_nature(one.nature, other.nature)
    fits = dtype is not None and nature is not None
    if fits:
        both = both._replace(dtype=cast(Any, dtype), nature=str(nature))
        fits = both == other._replace(dtype=both.dtype, nature=both.nature)
    if fits and schema == "union":
        return both
    remedy = "schema='union' gives what they have in common" if fits else "open them one by one"
    if not fits and table.texts_unite and schema != "union":
        remedy = "schema='union' makes texts of both"
    raise ValueError(
        f"{table.called(name)} is {_words(other)} in {table.title}, and {_words(one)} in "
        f"{first.title}; {remedy}"
    )


def _common(one: np.dtype[Any], other: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return a dtype that holds the values of two, None if they are of different nature."""
    natures = ("biuf", "c", "M", "m", "SU", "O", "T", "V")
    if not any(one.kind in nature and other.kind in nature for nature in natures):
        return None
    return np.promote_types(one, other) if one.kind != "V" or one == other else None


def _common_nature(one: str, other: str) -> str | None:
    """Return the nature of the values of two columns together, None if they have none.

    >>> _common_nature("decimal128(10, 1)", "decimal128(4, 2)"), _common_nature("string", "binary")
    ('decimal128(11, 2)', None)
    """
    if one == other:
        return one
    types = [told_decimal({DECIMAL: nature}) for nature in (one, other)]
    if None in types:
        return None
    try:
        return str(holding(*types))
    except ValueError:  # no type has so many digits
        return None


def _words(kind: Kind) -> str:
    shape = f" of shape {kind.shape}" if kind.shape else ""
    words = [] if kind.dtype.hasobject and kind.nature else [str(kind.dtype)]
    told = " ".join([*words, *filter(None, [kind.nature])])
    meant = f" of {shortened(kind.meaning)}" if kind.meaning else ""
    return f"{'lists of ' * kind.depth}{shortened(told)}{shape}{meant}"


class Tables(Table):
    """Tables whose rows follow one another."""

    def __init__(self, title: str, parts: Sequence[Part], kinds: Mapping[Name, Kind]) -> None:
        self.parts, self.kinds = parts, kinds
        tables = [table for table, _ in parts]
        rows = np.cumsum([0, *(int(table.starts[-1]) for table in tables)])
        starts = [table.starts[:-1] + row for table, row in zip(tables, rows, strict=False)]
        super().__init__(title, np.concatenate([*starts, rows[-1:]]).astype(np.intp))
        self.part_rows = tuple(int(table.starts[-1]) for table in tables)
        self.groups = np.cumsum([0, *(len(table.starts) - 1 for table in tables)]).tolist()
        self.reads_rows = any(table.reads_rows for table in tables)
        self.joins_groups = all(table.joins_groups for table in tables)

    def __reduce__(self) -> tuple[Any, ...]:
        return Tables, (self.title, self.parts, self.kinds), {"fills": self.fills}

    def column(self, name: Name, first: int, stop: int, names: Collection[Name] = ()) -> Column:
        """Return a column of some groups, read or kept, of files that are as they were."""
        low = bisect.bisect_right(self.groups, first) - 1
        high = bisect.bisect_left(self.groups, stop)
        for table, _ in self.parts[low:high]:
            table.check()
        return super().column(name, first, stop, names)

    def read(self, names: Collection[Name], first: int, stop: int) -> Mapping[Name, Column]:
        """Return columns of some groups, read from each table that has any of these."""
        found: list[Mapping[Name, Column]] = []
        for number in range(bisect.bisect_right(self.groups, first) - 1, len(self.parts)):
            low, high = self.groups[number : number + 2]
            own = max(first, low) - low, min(stop, high) - low
            if low >= stop:
                break
            if own[0] >= own[1]:  # a table without rows
                continue
            table, kinds = self.parts[number]
            lacking = [name for name in names if name not in kinds and tells_present(name)]
            whole = [name for name in lacking if _has_record(kinds, name[:-1])]
            there = [name for name in names if name in kinds and not is_void(kinds[name])]
            read = table.read(there, *own) if there else {}
            count = int(table.starts[own[1]] - table.starts[own[0]])
            found.append(
                {
                    name: as_kind(
                        read[name],
                        self.kinds[name],
                        f"{table.called(name)} of {table.title}",
                    )
                    if name in read
                    else Column(np.ones(count, bool))
                    if name in whole
                    else no_values(self.kinds[name], count)
                    for name in names
                }
            )
        return {
            name: behind([one[name] for one in found]) if found else no_values(self.kinds[name], 0)
            for name in names
        }

    def bounds(self, name: Name) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return the least and the greatest value of each group, if all tables note them."""
        found = [table.bounds(name) if name in kinds else None for table, kinds in self.parts]
        known = [one for one in found if one is not None]
        if len(known) < len(found) or len({one[0].dtype for one in known}) > 1 or self.fills:
            return None
        low, high, are_known = map(np.concatenate, zip(*known, strict=True))
        return low, high, are_known

    @property
    def is_closed(self) -> bool:
        """Whether the tables were closed, which is done with all of them."""
        return any(table.is_closed for table, _ in self.parts[:1])

    def close(self) -> None:
        """Close all of the tables."""
        super().close()
        for table, _ in self.parts:
            table.close()


def _has_record(kinds: Mapping[Name, Kind], name: Name) -> bool:
    """Whether a table has records of a name, and so members of these."""
    return any(own[: len(name)] == name != own for own in kinds)


def _has_void(kinds: Mapping[Name, Kind], name: Name) -> bool:
    """Whether no row of a table has the record that a column is a member of."""
    above = (name[:end] for end in range(1, len(name)))
    return any(one in kinds and is_void(kinds[one]) for one in above)


def is_void(kind: Kind) -> bool:
    """Whether no row of a column has a value, so that it is missing in any column."""
    return kind.nature == NOTHING and not kind.depth


def as_kind(column: Column, kind: Kind, where: str) -> Column:
    """Return a column with values of a dtype; what is missing stands there as in that one.

    Raise for times that are none in the unit of the others; `where` is what the column is called.
    """
    if isinstance(column.values, Column):
        inner = kind._replace(depth=kind.depth - 1)
        return column._replace(values=as_kind(column.values, inner, where))
    if kind.depth:  # of lists that are all empty it is not known what they are lists of
        return no_values(kind, 0)
    if column.values.dtype == kind.dtype:
        return column
    own = np.asarray(column.values)
    values = own.astype(kind.dtype)
    if kind.dtype.kind in "mM":
        back = values.astype(own.dtype)  # past the last time NumPy counts on from the least one
        wrong = own[(back != own) & ~np.isnat(own)]
        if wrong.size:
            raise ValueError(
                f"{where} has {wrong[0]}, which is no time in the {kind.dtype} that the files have "
                "in common; open them one by one"
            )
    if column.present is not None and column.offsets is None:
        values[~column.present] = nothing_of(kind)
    return column._replace(values=values)


def no_values(kind: Kind, count: int) -> Column:
    """Return a column of rows that are all missing."""
    present = np.zeros(count, bool)
    if not kind.depth:
        return Column(np.full((count, *kind.shape), nothing_of(kind), kind.dtype), present)
    inner = no_values(kind._replace(depth=kind.depth - 1), 0)
    return Column(inner, present, np.zeros(count + 1, np.intp))


def behind(columns: Sequence[Column]) -> Column:
    """Return columns one behind the other."""
    if len(columns) == 1:
        return columns[0]
    present = None
    if any(column.present is not None for column in columns):
        present = _presences(columns)
    values = [column.values for column in columns]
    joint = (
        behind(cast(Any, values))
        if isinstance(values[0], Column)
        else np.concatenate(cast(Any, values))
    )
    if columns[0].offsets is None:
        return Column(joint, present)
    lengths = [np.diff(cast(Any, column.offsets)) for column in columns]
    return Column(joint, present, np.concatenate([[0], np.cumsum(np.concatenate(lengths))]))


def _presences(columns: Sequence[Column]) -> np.ndarray:
    """Return which rows of columns are there, or which elements if one of them tells that."""
    found = [_presence(column) for column in columns]
    if len({present.ndim for present in found}) > 1:
        shapes = [cast(np.ndarray, column.values).shape for column in columns]
        found = [*map(mask_of, found, shapes)]
    return np.concatenate(found)


def _presence(column: Column) -> np.ndarray:
    """Return which rows of a column are there."""
    if column.present is not None:
        return column.present
    if column.offsets is not None:
        return np.ones(len(column.offsets) - 1, bool)
    return np.ones(len(cast(np.ndarray, column.values)), bool)
