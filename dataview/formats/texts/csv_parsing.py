"""Parts of a CSV file parsed: by pyarrow if it is installed, and else in Python."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from dataview.errors import shortened
from dataview.formats.tables.columns import Column, Kind
from dataview.formats.texts import cells, csv_arrow
from dataview.formats.texts import dialect as dialects
from dataview.formats.texts.cells import Field, Wrong
from dataview.formats.texts.csv_lines import row_count, row_starts, without_comments
from dataview.formats.texts.dialect import Dialect
from dataview.formats.texts.text_bytes import TextFile, line_at

THREADS = 2
"""So many texts are looked at together."""

AHEAD = 3
"""So many texts are asked for before what was seen in the one before them is taken."""


class Parser:
    """What parses rows of a file, and names the line and the column of a wrong cell.

    `lengthens` says that rows may have fewer cells than there are names; the others are empty.
    """

    def __init__(
        self, file: TextFile, dialect: Dialect, names: Sequence[str], lengthens: bool = False
    ) -> None:
        self.file, self.dialect, self.names, self.lengthens = file, dialect, names, lengthens

    def row_count(self, raw: bytes, place: int) -> int:
        """Return how many rows a text has that begins at a place of the file."""
        return row_count(raw, self.dialect)

    def seen(
        self, raw: bytes, place: int, known: Sequence[int], asked: Asked, width: int = 0
    ) -> Seen:
        """Return what is seen in each column of a text that begins at a place of the file.

        Of so many columns the values are returned, too, as far as they were parsed for that.
        """
        arrow = csv_arrow.library()
        text = without_comments(raw, self.dialect)
        if arrow is not None and text and not text.isspace():
            try:
                return self._seen_by_arrow(arrow, text, known, asked, width)
            except csv_arrow.NotTaken:
                pass  # it is looked at in Python, which finds what is wrong or takes it
        columns, found = self._cells(raw, place), []
        for number, name in enumerate(self.names):
            own = columns[number] if columns else ()
            field = asked.given.get(number)
            if field is None:
                found.append(known[number] | cells.seen_in(own, self.dialect, asked.dates))
                continue
            self._column(own, name, field, raw, place)
            found.append(known[number] | cells.missing_among(own, self.dialect)[0])
        return Seen(len(columns[0]) if columns else 0, found, {})

    def _seen_by_arrow(
        self, arrow: Any, text: bytes, known: Sequence[int], asked: Asked, width: int
    ) -> Seen:
        names = len(self.names)
        checked = {n: field for n, field in asked.given.items() if field.kind.dtype != cells.OBJECT}
        settled = [
            cells.TEXT | (cells.MISSING if n in checked else k) if n in asked.given else k
            for n, k in enumerate(known)
        ]
        rows, found, parsed = csv_arrow.seen_in(
            arrow, text, names, self.dialect, settled, asked.dates, width
        )
        if checked:  # any cell is a text, and of others each may be wrong
            read = csv_arrow.columns(arrow, text, names, self.dialect, checked)
            for number, column in read.items():
                found[number] = known[number] | (0 if column.present is None else cells.MISSING)
            parsed |= {number: column for number, column in read.items() if number < width}
        return Seen(rows, found, parsed)

    def columns(self, raw: bytes, place: int, fields: Mapping[int, Field]) -> dict[int, Column]:
        """Return columns of a text by their numbers."""
        arrow = csv_arrow.library() if len(raw) > csv_arrow.SMALLEST else None
        text = without_comments(raw, self.dialect) if arrow is not None else raw
        if arrow is not None and text and not text.isspace():
            try:
                return csv_arrow.columns(arrow, text, len(self.names), self.dialect, fields)
            except csv_arrow.NotTaken:
                pass  # it is read in Python, which finds what is wrong or takes it
        columns = self._cells(raw, place)
        return {
            number: self._column(
                columns[number] if columns else (), self.names[number], field, raw, place
            )
            for number, field in fields.items()
        }

    def _column(
        self, own: Sequence[str], name: str, field: Field, raw: bytes, place: int
    ) -> Column:
        try:
            return cells.column_of(own, field, self.dialect)
        except Wrong as error:
            row, why = error.args
            raise self.error(f"column {name!r}: {why}", raw, place, row) from None

    def _cells(self, raw: bytes, place: int) -> list[tuple[str, ...]]:
        """Return the cells of each column."""
        rows = dialects.rows_of(decoded(self.file, place, raw), self.dialect)
        width = len(self.names)
        if self.lengthens:
            rows = [dialects.lengthened(row, width) for row in rows]
        if any(len(row) != width for row in rows):
            number, row = next((n, row) for n, row in enumerate(rows) if len(row) != width)
            raise self.error(
                f"{dialects.cells(len(row))}, and the first row has {width}: "
                f"{shortened(self.dialect.sep.join(row))!r}; sep= is {self.dialect.sep!r} here, "
                f"quote= {self.dialect.quote!r}, skip= leaves out lines before the table"
                + (", and short='missing' takes rows with fewer cells" if len(row) < width else ""),
                raw,
                place,
                number,
            )
        return list(zip(*rows, strict=True))

    def error(self, what: str, raw: bytes, place: int, row: int) -> ValueError:
        """Return the error for a row of a text that begins at a place of the file."""
        start = int(row_starts(raw, self.dialect)[row])
        return ValueError(f"{self.file.path}: line {line_at(self.file, place + start)}, {what}")


class Seen(NamedTuple):
    """How many rows a text has, what is seen in each column, and those parsed, by their numbers."""

    rows: int
    bits: list[int]
    columns: dict[int, Column]


class Asked(NamedTuple):
    """What is asked of the cells: the columns whose types are given, and whether to find dates."""

    given: Mapping[int, Field]
    dates: bool


def asked_of(names: Sequence[str], types: Any, dates: Any, path: str) -> Asked:
    """Return what a user says of the columns of these names."""
    if callable(types) and not isinstance(types, type):
        told = {name: types(name) for name in names}
        types = {name: own for name, own in told.items() if own is not None}
    if types is not None and not isinstance(types, Mapping):
        types = dict.fromkeys(names, types)
    formats = dates if isinstance(dates, Mapping) else {}
    dialects.known_columns("types", types or {}, names, path)
    dialects.known_columns("dates", formats, names, path)
    found = {}
    for number, name in enumerate(names):
        if name in formats:
            found[number] = Field(Kind(np.dtype("M8[us]")), dates=str(formats[name]), is_given=True)
        elif types and name in types:
            found[number] = Field(cells.given_kind(name, types[name], path), is_given=True)
    return Asked(found, _finds_dates(dates, path))


def _finds_dates(dates: Any, path: str) -> bool:
    if isinstance(dates, (bool, Mapping)):
        return bool(dates) or dates == {}
    raise TypeError(
        f"{path}: dates= is True if dates as 2026-11-22 are to be found, in any column, False, or "
        f"formats by column, such as {{'day': '%d.%m.%Y'}}; got {dates!r}"
    )


def fields_of(seen: Sequence[int], asked: Asked) -> list[Field]:
    """Return how the columns are read in which something was seen."""
    found = []
    for number, own in enumerate(seen):
        field = asked.given.get(number) or Field(cells.kind_seen(own))
        quoted = bool(own & cells.QUOTED) and field.kind.dtype.kind != "O"
        kind = field.kind._replace(has_missing=quoted or bool(own & cells.MISSING))
        found.append(field._replace(kind=kind, has_quoted=quoted))
    return found


def decoded(file: TextFile, place: int, raw: bytes) -> str:
    """Return the text of some bytes from a place of a file."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{file.path}: line {line_at(file, place + error.start)} is no text in UTF-8 "
            f"({error.reason}); encoding= says in which encoding the file is, such as "
            "encoding='latin-1'"
        ) from None


def looked_at(
    texts: Iterator[tuple[bytes, int]], look: Callable[[bytes, int], Any]
) -> Generator[tuple[int, Any], None, None]:
    """Yield where each text ends, and what `look` returns of it.

    A thread reads the texts itself that it looks at, one thread after the other: it takes a tenth
    longer if a third thread reads for two, which are often as many as there are cores.  What is
    seen in the first text spares the others much, so that it is taken before they are begun.
    """

    def step(before: Event, is_read: Event) -> tuple[int, Any] | None:
        before.wait()
        try:
            one = next(texts, None)
        finally:
            is_read.set()
        if one is None:
            return None
        raw, place = one
        return place + len(raw), look(raw, place)

    turn = Event()
    turn.set()
    waiting: deque[Future[tuple[int, Any] | None]] = deque()
    with ThreadPoolExecutor(THREADS) as pool:

        def submit() -> None:
            nonlocal turn
            before, turn = turn, Event()
            waiting.append(pool.submit(step, before, turn))

        submit()
        while waiting:
            found = waiting.popleft().result()
            if found is None:
                break
            yield found
            while len(waiting) < AHEAD:
                submit()
