"""CSV files: opened by one pass over the text, which finds the rows and what the columns are.

Later the text of the rows that are needed is read, and parsed again.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.formats.contents import NoRows
from dataview.formats.handles import Claim
from dataview.formats.tables.column_nodes import table_node
from dataview.formats.tables.columns import Column, Kind, Name, Table
from dataview.formats.tables.schema import behind, joined
from dataview.formats.texts import cells, csv_guesses, csv_index
from dataview.formats.texts import dialect as dialects
from dataview.formats.texts.cells import Field
from dataview.formats.texts.csv_kept import KeptColumns
from dataview.formats.texts.csv_lines import (
    Groups,
    cut,
    endless_row,
    naming_unclosed,
    records,
    row_starts,
)
from dataview.formats.texts.csv_parsing import (
    Asked,
    Parser,
    Seen,
    asked_of,
    decoded,
    fields_of,
    looked_at,
)
from dataview.formats.texts.dialect import MOST_COLUMNS, Dialect
from dataview.formats.texts.folders import keyed, listed
from dataview.formats.texts.text_bytes import (
    TextFile,
    changed,
    line_at,
    name_of_unpacked,
    pickled_before,
    with_packed,
)
from dataview.index.progress import begin
from dataview.plan.node import Node

CSV_SUFFIXES = with_packed((".csv", ".tsv"))

CHUNK = 1 << 20
"""So much text the pass reads at a time, and a part of what is read later is parsed at once.

Twice as much takes 30 MB more, and half as much a tenth more time.
"""

LONGEST_ROW = 1 << 24
"""A row with more text is refused: most likely, a quote was not closed."""

SAMPLE = 1 << 16
"""So much text is read at first, to find what parts cells and whether there are names."""

NEAR = 1 << 12
"""So much text behind a place is searched for the end of the line there."""

KEPT_OF_LARGE = 8 << 20
"""So much is kept of a file that is too large to be kept whole: blocks of a few threads."""

SENT_BYTES = 1 << 10
"""An index of so many bytes is in a pickle; a larger one is found again."""

MOST_KEPT = 2
"""Of so many files in pickles the index is kept."""

SHORT = ("refuse", "missing")
"""What becomes of rows with fewer cells than there are names: an error, or cells are missing."""

FEW = 8
"""The text of fewer groups, as that around a row, is parsed again sooner than two ways are gone."""


def open_csv(
    path: str | Sequence[str],
    mode: str,
    claim: Claim | None = None,
    sep: str | None = None,
    header: Any = "auto",
    names: Any = None,
    types: Any = None,
    missing: Any = None,
    fill: Any = None,
    quote: str | None = '"',
    comment: str | None = None,
    encoding: str | None = None,
    decimal: str = ".",
    dates: Any = True,
    skip: int = 0,
    index: bool = False,
    schema: str = "same",
    thousands: str | None = None,
    short: str = "refuse",
    keys: Any = (),
) -> Node:
    """Return the record of the columns of a file, or of several whose rows follow one another."""
    options = Options(
        sep, header, names, types, missing, quote, comment, encoding, decimal, dates, skip,
        thousands, short,
    )  # fmt: skip
    found = listed(path, CSV_SUFFIXES, keys)
    paths = [one for one, _ in found]
    if mode != "r":
        raise ValueError(
            f"{', '.join(paths)}: rows of a text have no fixed length, so it cannot be changed in "
            "place; open it with mode 'r', and save what is changed by _save"
        )
    having_rows: list[tuple[CsvTable, Mapping[str, str]]] = []
    for number, (one, values) in enumerate(found, 1):
        try:
            having_rows.append((_table(one, claim, options, index), values))
        except NoRows:
            if number == len(found) and not having_rows:
                raise
    tables = _agreed([table for table, _ in having_rows], schema)
    parts = keyed([(one, one.kinds()) for one in tables], [values for _, values in having_rows])
    return table_node(*joined(f"{len(paths)} files", parts, schema), fill)


def _table(path: str, claim: Claim | None, options: Options, keeps_index: bool) -> CsvTable:
    """Return the table of a file."""
    file = TextFile(path, claim, options.encoding)
    layout = _layout(file, options)
    parser = Parser(file, layout.dialect, layout.names, options.short == "missing")
    asked = asked_of(layout.names, options.types, options.dates, path)
    found = csv_index.kept(file, repr(options)) if keeps_index else None
    if found is not None and len(found.seen) == len(layout.names):
        return CsvTable(parser, asked, found)
    kept = KeptColumns(layout.begin, len(layout.names))
    found = _scanned(file, parser, layout, asked, kept)
    kept.settle(found.groups)
    if keeps_index:
        csv_index.keep(file, repr(options), found)
    return CsvTable(parser, asked, found, kept)


def _agreed(tables: Sequence[CsvTable], schema: str) -> list[CsvTable]:
    """Return the tables of several files with columns of one kind, as far as they may differ."""
    seen = [dict(zip(table.kinds(), table.found.seen, strict=True)) for table in tables]
    found = cells.agreed(seen, schema)
    return [table.seen_as(own) for table, own in zip(tables, found, strict=True)]


class Options(NamedTuple):
    """What a user says of a file."""

    sep: str | None = None
    header: Any = "auto"
    names: Any = None
    types: Any = None
    missing: Any = None
    quote: str | None = '"'
    comment: str | None = None
    encoding: str | None = None
    decimal: str = "."
    dates: Any = True
    skip: int = 0
    thousands: str | None = None
    short: str = "refuse"


class CsvTable(Table):
    """The rows of a CSV file; a group is some text."""

    reads_rows = True
    joins_groups = True
    texts_unite = True
    most_joined = 1024

    def __init__(
        self, parser: Parser, asked: Asked, found: csv_index.Found, kept: KeptColumns | None = None
    ) -> None:
        super().__init__(parser.file.name, found.groups.starts)
        self.parser, self.asked, self.found, self.kept = parser, asked, found, kept
        self.path = parser.file.path
        if found.groups.ends[-1] > self.kept_bytes:
            self.kept_bytes = KEPT_OF_LARGE
        self.fields = fields_of(found.seen, asked)
        self.numbers = {name: number for number, name in enumerate(parser.names)}

    def __reduce__(self) -> tuple[Any, ...]:
        """Send no large index: where groups begin is found again, and the rest is small."""
        groups, seen = self.found
        if groups.starts.nbytes <= SENT_BYTES:
            return CsvTable, (self.parser, self.asked, self.found), {"fills": self.fills}
        begin, count = int(groups.ends[0]), int(groups.rows[-1])
        _remember(_key(self.parser, begin), groups)
        return _reopened, (self.parser, self.asked, begin, count, seen), {"fills": self.fills}

    def seen_in(self, name: Name) -> int:
        """Return what the cells of a column were; 0 if it was given."""
        number = self.numbers[name[0]]
        return 0 if number in self.asked.given else self.found.seen[number]

    def seen_as(self, seen: Mapping[Name, int]) -> CsvTable:
        """Return the same rows, of which something else was seen."""
        known = zip(self.parser.names, self.found.seen, strict=True)
        own = [seen.get((name,), bits) for name, bits in known]
        return CsvTable(self.parser, self.asked, self.found._replace(seen=own), self.kept)

    def kinds(self) -> dict[Name, Kind]:
        """Return what the columns are."""
        return {(name,): self.fields[number].kind for name, number in self.numbers.items()}

    def check(self) -> None:
        """Raise if the file was closed, or has changed."""
        self.parser.file.check()

    def read(self, names: Collection[Name], first: int, stop: int) -> Mapping[Name, Column]:
        """Return columns of some groups: what the pass has parsed, and the others parsed now."""
        fields = {self.numbers[name[0]]: self.fields[self.numbers[name[0]]] for name in names}
        found = self._from_pass(fields, first, stop)
        left = {number: field for number, field in fields.items() if number not in found}
        if left:
            found |= self._parsed(left, first, stop)
        return {(self.parser.names[number],): found[number] for number in fields}

    def beside(
        self, name: Name, likely: Collection[Name], first: int, stop: int
    ) -> Collection[Name]:
        """Beside what was kept by the pass no text is parsed for what may be asked for next."""
        number = self.numbers[name[0]]
        numbers = [number, *(self.numbers[one[0]] for one in likely)]
        kept = self._from_pass({one: self.fields[one] for one in numbers}, first, stop)
        return [one for one in likely if self.numbers[one[0]] in kept] if number in kept else likely

    def _from_pass(self, fields: Mapping[int, Field], first: int, stop: int) -> dict[int, Column]:
        if self.kept is None or stop - first < FEW:
            return {}
        return self.kept.columns(fields, *self.starts[[first, stop]].tolist())

    def _parsed(self, fields: Mapping[int, Field], first: int, stop: int) -> dict[int, Column]:
        """Return columns of some groups, whose text is parsed part by part."""
        bounds = itertools.pairwise(self.found.groups.bounds(first, stop, self._places_in))
        read, parse = self.parser.file.read, self.parser.columns
        parts = [parse(read(start, end), start, fields) for start, end in bounds]
        return {
            number: behind([part[number] for part in parts])
            if parts
            else Column(np.empty(0, field.kind.dtype))
            for number, field in fields.items()
        }

    def _places_in(self, part: int) -> np.ndarray:
        """Return where the groups of a part of the file begin."""
        groups, file = self.found.groups, self.parser.file
        raw = file.read(*groups.ends[part : part + 2].tolist())
        found = groups.places(part, raw, self.parser.dialect)
        if found is None:  # a kept index, or a copy of the file, is not of this file
            raise changed(file.path)
        return found

    @property
    def is_closed(self) -> bool:
        """Whether the file was closed."""
        return bool(self.parser.file.opening.is_closed)

    def close(self) -> None:
        """Close the file."""
        super().close()
        self.kept = None
        self.parser.file.close()


# --- the first rows ------------------------------------------------------------------------------


class Layout(NamedTuple):
    """How a file is written, which columns it has, and where its first row is."""

    dialect: Dialect
    names: list[str]
    begin: int


def _layout(file: TextFile, options: Options) -> Layout:
    path = file.path
    if options.short not in SHORT:
        raise ValueError(f"short is one of {', '.join(map(repr, SHORT))}; got {options.short!r}")
    dialect = dialects.checked(
        options.sep,
        options.quote,
        options.comment,
        options.decimal,
        options.missing,
        options.thousands,
    )
    wanted = dialects.header_row(options.header, options.names)
    is_tabbed = name_of_unpacked(path).lower().endswith((".tsv", ".tsv.zip"))
    is_guessed = not dialect.sep and not is_tabbed
    dialect = dialect._replace(sep=dialect.sep or "\t" * is_tabbed)
    begin, dialect = _begin(file, options, dialect)
    if not dialect.sep:
        dialect = dialect._replace(sep=csv_guesses.separator(_sample(file, begin), dialect))
    number = 0 if wanted == "auto" else -1 if wanted is None else int(wanted)
    rows, places = _first_rows(file, begin, dialect, max(number, 0) + 2)
    if wanted == "auto":
        number = 0 if csv_guesses.is_header(rows, dialect, _sample(file, begin)) else -1
    if number >= len(rows):
        raise ValueError(f"{path} has {len(rows)} rows, and header={number} is none of them")
    head = rows[number] if number >= 0 else None
    first = rows[number + 1] if number + 1 < len(rows) else head
    if first is None:
        raise NoRows(f"{path} holds no rows")
    if options.short == "missing" and head is not None:
        first = dialects.lengthened(first, len(head))
    if len(first) == 1:
        csv_guesses.tell_other_separator(_sample(file, begin), dialect, is_guessed, path)
    if max(len(first), len(head or ())) > MOST_COLUMNS:
        raise ValueError(
            f"{path}: the first row has {dialects.cells(len(first))}, and a table has at most "
            f"{MOST_COLUMNS} columns"
        )
    if options.names is not None:
        names = dialects.check_names(options.names, len(first), path)
        if options.header == "auto":
            csv_guesses.tell_header(rows, names, dialect, path)
    else:
        lacks_name = head is not None and len(head) == len(first) - 1
        end_empty = lacks_name and csv_guesses.end_empty(_sample(file, begin), len(first), dialect)
        is_whole = options.short == "refuse"  # else rows differ, and this one may be too long
        names = dialects.named(head, len(first), path, end_empty, is_whole)
    _tell_what_is_odd(file, begin, places, dialect, options, head is not None and len(head) == 1)
    begin = places[number + 1] if number >= 0 else places[0] if places else begin
    return Layout(dialect, names, begin)


def _begin(file: TextFile, options: Options, dialect: Dialect) -> tuple[int, Dialect]:
    """Return where the table begins, and the dialect with the separator that is told before it."""
    begin = _after_lines(file, options.skip)
    if options.skip or (type(options.header) is int and options.header):
        return begin, dialect
    lines, sep = csv_guesses.before_table(_sample(file, begin), dialect)
    return _after_lines(file, lines), dialect._replace(sep=dialect.sep or sep)


def _tell_what_is_odd(
    file: TextFile,
    begin: int,
    places: list[int],
    dialect: Dialect,
    options: Options,
    is_alone: bool,
) -> None:
    """Warn of first rows that an option may be lacking for."""
    sample = _sample(file, begin)
    if is_alone and options.header == "auto" and options.names is None and len(places) > 2:
        csv_guesses.tell_title(sample, line_at(file, places[1]), dialect, file.path)
    if options.types is None:
        csv_guesses.tell_decimal(sample, dialect, file.path)


def _sample(file: TextFile, begin: int) -> str:
    """Return the first whole lines of a table."""
    text = file.read(begin, begin + SAMPLE)
    whole = text[: max(text.rfind(b"\n"), text.rfind(b"\r")) + 1] or text
    return whole.decode(errors="replace")


def _after_lines(file: TextFile, count: Any) -> int:
    """Return where a file goes on behind so many lines."""
    if type(count) is not int or count < 0:
        raise ValueError(f"skip= is a number of lines, from 0 on; got {count!r}")
    place = file.begin
    while count:
        text = file.read(place, place + SAMPLE)
        line = text.replace(b"\r\n", b"\n\n").replace(b"\r", b"\n")
        end = line.find(b"\n") + 1
        if not end:
            if not text:
                break
            place += len(text)
            continue
        place += end + text[end - 1 : end + 1].startswith(b"\r\n")
        count -= 1
    return place


def _first_rows(
    file: TextFile, begin: int, dialect: Dialect, count: int
) -> tuple[list[list[str]], list[int]]:
    """Return so many rows, or fewer if there are no more, and where each begins and they end."""
    size = SAMPLE
    while True:
        raw = file.read(begin, begin + size)
        is_last = len(raw) < size
        with naming_unclosed(file, begin, raw, dialect):
            _, ends = records(raw, dialect, is_last)
        whole = raw[: int(ends[-1])] if len(ends) else b""
        starts = row_starts(whole, dialect).tolist()
        if is_last or len(starts) >= count:
            break
        if size >= LONGEST_ROW:
            raise endless_row(file, begin + len(whole), raw[len(whole) :], dialect)
        size *= 4
    end = starts[count] if len(starts) > count else len(whole)
    rows = dialects.rows_of(decoded(file, begin, whole[:end]), dialect)[:count]
    return rows, [begin + start for start in [*starts[:count], end]]


# --- the pass ------------------------------------------------------------------------------------


def _scanned(
    file: TextFile, parser: Parser, layout: Layout, asked: Asked, kept: KeptColumns
) -> csv_index.Found:
    """Return the groups of a file, and what is seen in its columns."""
    seen = [0] * len(layout.names)

    def look(raw: bytes, place: int) -> Seen:
        return parser.seen(raw, place, list(seen), asked, kept.width)

    def take(end: int, found: Seen) -> int:
        for number, own in enumerate(found.bits):
            seen[number] |= own
        kept.add(end, found.columns)
        return found.rows

    return csv_index.Found(_groups(file, layout.dialect, layout.begin, look, take), seen)


def _groups(
    file: TextFile,
    dialect: Dialect,
    start: int,
    look: Callable[[bytes, int], Any],
    take: Callable[[int, Any], int] = lambda end, rows: rows,
) -> Groups:
    """Return the rows of a file in groups.

    `look` gets each text and its place, in some thread; and `take` gets, text after text, where it
    ends and what `look` has returned, and returns how many rows it has.
    """
    rows, ends = [0], [start]
    with (
        begin("reading", file.size, "B") as task,
        contextlib.closing(_chunks(file, dialect, start)) as texts,
        contextlib.closing(looked_at(texts, look)) as parts,
    ):
        for end, found in parts:
            rows.append(rows[-1] + take(end, found))
            ends.append(end)
            task.reach(end, file.size)
    return Groups(np.array(ends, np.intp), np.array(rows, np.intp))


def _reopened(parser: Parser, asked: Asked, start: int, count: int, seen: list[int]) -> CsvTable:
    """Return the table of a pickle, which has no index."""
    key = _key(parser, start)
    groups = _LATEST.get(key) or _groups(parser.file, parser.dialect, start, parser.row_count)
    if groups.rows[-1] != count:
        raise pickled_before(parser.file.path)
    _remember(key, groups)
    return CsvTable(parser, asked, csv_index.Found(groups, seen))


def _key(parser: Parser, start: int) -> Any:
    """Return what tells the index of a file: in another state the file has another one."""
    file = parser.file
    return file.path, file.state, file.encoding, parser.dialect, start


_LATEST: dict[Any, Groups] = {}
"""The groups of files that were in pickles: a worker may get many of one file."""


def _remember(key: Any, groups: Groups) -> None:
    """Keep an index, and only a few."""
    if key not in _LATEST and len(_LATEST) >= MOST_KEPT:
        _LATEST.clear()
    _LATEST[key] = groups


def _chunks(
    file: TextFile, dialect: Dialect, place: int
) -> Generator[tuple[bytes, int], None, None]:
    """Yield texts of whole rows, and their places."""
    size, chunk = file.size, min(SAMPLE, CHUNK)  # which columns are texts is soon known
    with file.opened() as opened:
        while place < size:
            raw = file.read_from(opened, place, _behind_line(file, opened, place + chunk))
            with naming_unclosed(file, place, raw, dialect):
                end = cut(raw, dialect, place + len(raw) >= size)
            if not end:
                if chunk >= LONGEST_ROW:
                    raise endless_row(file, place, raw, dialect)
                chunk = min(4 * chunk, LONGEST_ROW)
                continue
            chunk = CHUNK
            yield raw[:end], place
            place += end


def _behind_line(file: TextFile, opened: Any, place: int) -> int:
    """Return where the line ends at a place, if that is near: a text that ends there is not cut."""
    return place + file.read_from(opened, place, place + NEAR).find(b"\n") + 1
