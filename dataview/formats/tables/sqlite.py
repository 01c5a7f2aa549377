"""SQLite: tables and what queries select, read by row and never written."""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.errors import hint, shortened
from dataview.formats.contents import with_arrays
from dataview.formats.handles import Claim
from dataview.formats.tables.column_nodes import table_node
from dataview.formats.tables.columns import Column, Kind, Name, Table
from dataview.formats.tables.schema import joined, missing_in
from dataview.formats.tables.sqlite_access import Database, quoted
from dataview.formats.texts.text_bytes import changed
from dataview.plan.node import Node

GROUP_BYTES = 1 << 11
"""So much of a table is read at least: about a page."""

MOST_ROWS = 64
"""A group has no more rows, however small these are."""

RUN_BYTES = 4 << 20
"""About so much is read at once if many rows are asked for."""

ROWIDS = ("rowid", "_rowid_", "oid")
"""The names of the number that SQLite finds a row by; a column may have taken some of them."""

ANY_LENGTH = (1 << 31) - 1
"""The most bytes that SQLite allows to be in a row."""

LARGEST = (1 << 63) - 1
"""The largest rowid."""

PROFILED = 200
"""So many columns are looked at in one pass: a statement of SQLite's has a longest length."""

EXACT = 1 << 53
"""Not all integers beyond this are floats."""

TYPES: dict[str, set[type]] = {
    "i": {int}, "b": {int}, "f": {int, float}, "text": {str}, "blob": {bytes},
}  # fmt: skip
"""The types that values of a column have, by the kind of its dtype or by what its objects are."""

AFFINITIES = (("INT", "i"), ("CHAR", "text"), ("CLOB", "text"), ("TEXT", "text"), ("BLOB", "blob"))
"""What a column without values would hold, by a part of its declared type; others hold numbers."""


class Holding(NamedTuple):
    """What a column holds: its kind, and the types of its values."""

    kind: Kind
    types: set[type]


def open_sqlite(
    path: str | Sequence[str],
    mode: str,
    claim: Claim | None = None,
    table: str | None = None,
    query: str | None = None,
    parameters: Sequence[Any] | Mapping[str, Any] = (),
    fill: Any = None,
    schema: str = "same",
) -> Node:
    """Return the record of the columns of a table, or of what a query selects.

    In one pass over the table SQLite says of which types the values of each column are.  Of several
    databases the rows follow one another.
    """
    paths = [path] if isinstance(path, str) else path
    if mode != "r":
        raise ValueError(
            f"{', '.join(paths)}: SQLite databases are read and never written; open it with mode "
            f"'r', or _save a copy in another format; got {mode!r}"
        )
    if table is not None and query is not None:
        raise ValueError(f"table= or query= says what is read, not both; got {table!r}, {query!r}")
    if query is None and parameters:
        raise ValueError("parameters= are those of query=, which is missing")
    databases = [Database(one, claim) for one in paths]
    try:
        tables = [SqliteTable(one, table, query, parameters) for one in databases]
        lost = {name: why for one in tables for name, why in one.lost.items()}
        parts = [
            (one, {name: held.kind for name, held in one.holdings.items() if name[0] not in lost})
            for one in tables
        ]
        found, kinds = joined(f"{len(paths)} databases", parts, schema)
        return with_arrays(paths[0], table_node(found, kinds, fill, lost=lost))
    except BaseException:
        for one in databases:
            one.close()
        raise


class SqliteTable(Table):
    """The rows of a table by their rowids, of which each group has some."""

    reads_rows = joins_groups = True

    def __init__(
        self,
        database: Database,
        table: str | None,
        query: str | None = None,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
    ) -> None:
        self.database, self.asked = database, (table, query, parameters)
        with database.reading() as connection:
            if query is None:
                table = _chosen(connection, database.path, table)
        rowid = None
        if table is not None:
            with database.reading() as connection:
                rowid = _rowid_of(connection, table)
        if rowid is None:  # what is in no order of its own is copied to where it has one
            database.copy(query or f"SELECT * FROM {quoted(str(table))}", parameters)
            self.place, rowid = Database.COPY, "rowid"
        else:
            self.place = f"main.{quoted(str(table))}"
        self.rowid = rowid
        with database.reading(ANY_LENGTH) as connection:  # of which nothing but the type is read
            starts = self._grouped(connection)
            self._profile(connection, int(starts[-1]))
        title = os.path.basename(database.path)
        super().__init__(title if table is None else f"{title}/{table}", starts)

    def __reduce__(self) -> tuple[Any, ...]:
        return SqliteTable, (self.database, *self.asked)

    def _grouped(self, connection: sqlite3.Connection) -> np.ndarray:
        """Find with which rowid each group begins, and return how many rows come before it."""
        row, place = self.rowid, self.place
        count, least, most = connection.execute(
            f"SELECT count(*), min({row}), max({row}) FROM {place}"
        ).fetchone()
        size = max(1, self.database.size() // max(1, count))
        each = min(MOST_ROWS, max(1, GROUP_BYTES // size))
        self.most_joined = max(1, RUN_BYTES // (size * each))
        if count and most - least == count - 1 and most < LARGEST:
            firsts = np.arange(least, most + 1, each)
        else:
            rows = connection.execute(f"SELECT {row} FROM {place} ORDER BY {row}")
            firsts = np.array([own for (own,) in itertools.islice(rows, 0, None, each)], np.int64)
        self.edges, self.last = np.append(firsts, 0), most  # the last group has all to the end
        return np.append(np.arange(0, count, each), count)

    def _profile(self, connection: sqlite3.Connection, count: int) -> None:
        """Find what the columns hold."""
        name = self.place.partition(".")[2]
        schema = self.place.partition(".")[0]
        self.holdings: dict[Name, Holding] = {}
        self.lost: dict[str, str] = {}
        columns = [
            (row[1], row[2] or "")
            for row in connection.execute(f"PRAGMA {schema}.table_xinfo({name})")
            if row[6] != 1
        ]
        for start in range(0, len(columns), PROFILED):
            some = columns[start : start + PROFILED]
            asked = ", ".join(_profile_of(column) for column, _ in some)
            (row,) = connection.execute(f"SELECT {asked} FROM {self.place}").fetchall()
            numbers = iter(value or 0 for value in row)
            for column, declared in some:
                held = _holding(declared, count, *itertools.islice(numbers, 6))
                if isinstance(held, Holding) and column:
                    self.holdings[column,] = held
                else:
                    self.lost[column] = held if isinstance(held, str) else "has an empty name"

    def check(self) -> None:
        """Raise if another program has written the database since it was opened."""
        with self.database.reading():
            pass  # it is checked at the end

    def read(self, names: Collection[Name], first: int, stop: int) -> Mapping[Name, Column]:
        """Return columns of some groups."""
        with self.database.reading() as connection:
            try:
                rows = self._rows(connection, names, first, stop)
            except sqlite3.OperationalError as error:
                if "decode" not in str(error):
                    raise
                self._check_texts(connection, names, first, stop)
                raise
        if len(rows) != self.starts[stop] - self.starts[first]:
            raise changed(self.database.path)
        columns: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else [()] * len(names)
        return {
            name: self._column(name, values) for name, values in zip(names, columns, strict=True)
        }

    def _rows(
        self, connection: sqlite3.Connection, names: Collection[Name], first: int, stop: int
    ) -> list[tuple[Any, ...]]:
        chosen = ", ".join(quoted(name) for (name,) in names)
        least, behind = self.edges[[first, stop]].tolist()
        most = self.last if stop == len(self.edges) - 1 else behind - 1
        return connection.execute(
            f"SELECT {chosen} FROM {self.place} WHERE {self.rowid} BETWEEN ? AND ? "
            f"ORDER BY {self.rowid}",
            (least, most),
        ).fetchall()

    def _check_texts(
        self, connection: sqlite3.Connection, names: Collection[Name], first: int, stop: int
    ) -> None:
        """Raise for the first text of some groups that is not in UTF-8."""
        usual, connection.text_factory = connection.text_factory, bytes
        try:
            rows = self._rows(connection, names, first, stop)
        finally:
            connection.text_factory = usual
        for number, row in enumerate(rows, int(self.starts[first])):
            for name, value in zip(names, row, strict=True):
                if isinstance(value, bytes) and str in self.holdings[name].types:
                    self._check_text(value, number, name[0])

    def _check_text(self, raw: bytes, number: int, column: str) -> None:
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{self.database.path}: the text in row {number} of {self.title}, column "
                f"{column!r}, is not in UTF-8 ({error.reason}): {shortened(repr(raw))}; "
                'query="SELECT CAST(… AS BLOB) AS …" gives the bytes'
            ) from None

    def _column(self, name: Name, values: Sequence[Any]) -> Column:
        held = self.holdings[name]
        types = set(map(type, values))
        present = None
        if type(None) in types:
            types.remove(type(None))
            present = np.array([value is not None for value in values], bool)
            nothing = missing_in(held.kind.dtype)
            values = [nothing if value is None else value for value in values]
        if not types <= held.types or (present is not None and not held.kind.has_missing):
            raise changed(self.database.path)
        found = np.empty(len(values), held.kind.dtype)
        found[:] = values
        return Column(found, present)

    @property
    def is_closed(self) -> bool:
        """Whether the database was closed."""
        return self.database.opening.is_closed

    def close(self) -> None:
        """Close the database, in all threads."""
        super().close()
        self.database.close()


# --- which table ---------------------------------------------------------------------------------


def _chosen(connection: sqlite3.Connection, path: str, table: str | None) -> str:
    """Return the name of the table that is asked for, or of the only one."""
    listed = connection.execute(
        "SELECT name, type FROM main.sqlite_master WHERE type IN ('table', 'view') "
        "AND name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY type, name"
    ).fetchall()
    names = [str(name) for name, _ in listed]
    if table is not None:
        if table not in names:
            raise ValueError(
                f"{path} has no table {shortened(repr(table))}{hint(str(table), names)}; it has "
                f"{shortened(', '.join(names)) or 'none'}"
            )
        return table
    tables = [str(name) for name, kind in listed if kind == "table"] or names
    if len(tables) != 1:
        told = f"the tables {shortened(', '.join(tables))}" if tables else "no tables"
        more = "; table= names one, or query= is a SELECT" if tables else ""
        raise ValueError(f"{path} has {told}{more}")
    return tables[0]


def _rowid_of(connection: sqlite3.Connection, table: str) -> str | None:
    """Return the name of the number of rows in a table, None if there is none."""
    kinds = connection.execute(
        "SELECT type FROM main.sqlite_master WHERE name = ? AND type IN ('table', 'view')", (table,)
    ).fetchone()
    if kinds != ("table",):
        return None
    place = f"main.{quoted(table)}"
    columns = {
        str(row[1]).lower()
        for row in connection.execute(f"PRAGMA main.table_xinfo({quoted(table)})")
    }
    for name in ROWIDS:
        if name not in columns:
            try:
                connection.execute(f"SELECT {name} FROM {place} LIMIT 0")
            except sqlite3.OperationalError as error:
                if "no such column" in str(error):
                    return None
                raise
            return name
    return None


# --- what columns hold ---------------------------------------------------------------------------


def _profile_of(column: str) -> str:
    """Return what is asked of a column: how many values of each type it has, and of which size."""
    own = quoted(column)
    types = [f"sum(typeof({own}) = '{kind}')" for kind in ("integer", "real", "text", "blob")]
    large = f"sum(typeof({own}) = 'integer' AND {own} NOT BETWEEN {-EXACT} AND {EXACT})"
    others = f"sum(typeof({own}) = 'integer' AND {own} NOT IN (0, 1))"
    return ", ".join([*types, large, others])


def _holding(
    declared: str, count: int, integer: int, real: int, text: int, blob: int, large: int, other: int
) -> Holding | str:
    """Return what a column holds, or why that is no array, by how many values have which type."""
    numbers = {"integers": integer, "floats": real, "texts": text, "bytes": blob}
    seen = [name for name, number in numbers.items() if number]
    if len(seen) > 1 and (text or blob or large):
        told = " and ".join(f"{numbers[name]} {name}" for name in seen)
        return (
            f"has {told}{' of which no float has all' if not text + blob else ''}; "
            'query="SELECT CAST(… AS …) AS …" makes them one'
        )
    if real:
        what = "f"
    elif integer:
        what = "b" if "BOOL" in declared.upper() and not other else "i"
    elif text or blob:
        what = "text" if text else "blob"
    else:
        what = next((own for part, own in AFFINITIES if part in declared.upper()), "f")
    dtype = np.dtype({"f": "f8", "i": "i8", "b": "?"}.get(what, "O"))
    has_missing = integer + real + text + blob < count
    return Holding(Kind(dtype, has_missing=has_missing), TYPES[what])
