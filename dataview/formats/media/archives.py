"""Archives opened as views: files of one stem are a row, and their suffixes its fields."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, cast

import numpy as np

from dataview.errors import shortened
from dataview.formats.arrays.npz import open_npz
from dataview.formats.arrays.zarr import open_zarr
from dataview.formats.contents import tree
from dataview.formats.handles import Claim
from dataview.formats.media.archived import are_in_folders, is_ignored, member, open_folders
from dataview.formats.media.decoders import Decoder, decoder_of, kind_of, with_options
from dataview.formats.media.members import Archive
from dataview.formats.media.rows import (
    fact_source,
    headers_read,
    looked_at,
    node_of_rows,
    rows_of,
)
from dataview.formats.tables.column_nodes import table_node
from dataview.formats.tables.columns import Column, Kind, Name, Table
from dataview.formats.texts.json_fields import (
    Form,
    Leaf,
    Misfit,
    Rows,
    check_settled,
    leaves_of,
    parsed,
    see,
)
from dataview.plan.build import stored
from dataview.plan.concat import concat
from dataview.plan.kinds import Record, members
from dataview.plan.node import Node
from dataview.sources import ZARR_MARKS

SETTLED = 1000
"""The texts of so many rows settle what is in them, unless an option says another number."""

SHARED = 0.5
"""A field is in more than this part of all rows; what is in fewer belongs to something else."""

MOST_FIELDS = 1 << 10
"""Files of more suffixes are refused: they are names, not fields."""

KEY = "key"
"""The field of what the names of a row's files have in common."""


def _text(raw: bytes) -> str:
    """Return the text that is written in a file."""
    return raw.decode().strip()


def _integer(raw: bytes) -> int | str:
    """Return the number that is written in a file, or its text."""
    text = _text(raw)
    is_number = text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 20
    return int(text) if is_number and str(int(text)) == text else text


PARSED: dict[str, Callable[[bytes], Any]] = {
    "json": parsed,
    **dict.fromkeys(("cls", "cls2", "class", "count", "index", "inx", "id"), _integer),
}
"""What is read of small files by the ends of their names, as WebDataset does it.

Where one of the first rows has another text than a number, as 007 is, they are texts.
"""


@with_options
def open_archive(
    path: str | Sequence[str],
    mode: str,
    claim: Claim | None = None,
    kind: str | None = None,
    labels: str | None = "first",
    headers: str = "few",
    ragged: bool | None = None,
    rows_settled: int | None = SETTLED,
    *,
    options: dict[str, Any],
) -> Node:
    """Return the record of what is in the files of an archive, of which the names are read.

    A zip file of zarr, or of `.npy` files alone, is opened as these are, and files in folders, of
    which no two are of one row, as folders are.  Of several archives the rows follow one another.
    """
    paths = [path] if isinstance(path, str) else path
    if mode != "r":
        raise ValueError(
            f"{', '.join(paths)}: what is in an archive cannot be changed in place; open it with "
            f"mode 'r'; got {mode!r}"
        )
    check_settled(rows_settled)
    archives = [Archive(one, claim) for one in paths]
    other = _other(archives[0])
    if other is not None and len(paths) == 1:
        archives[0].close()
        return other(paths[0], mode, claim)
    if all(map(are_in_folders, archives)):
        own = [open_folders(one, kind, labels, headers, ragged, options) for one in archives]
        return own[0] if len(own) == 1 else concat(own)
    if kind is not None or labels != "first":
        raise TypeError(
            f"kind= and labels= are options of files in folders, and in {paths[0]} the files of "
            "one name but for its suffix are a row"
        )
    each = None if rows_settled is None else max(1, rows_settled // len(paths))
    seen = Seen()
    tables = [SampleTable(Samples(archive), each, seen) for archive in archives]
    seen.look(tables)
    looked = _Looked(headers, ragged, options)
    found = [_node(table, looked) for table in tables]
    return found[0] if len(found) == 1 else concat(found)


class _Looked(NamedTuple):
    """What a user says of how archives are looked at, and of how files in them are decoded."""

    headers: str
    ragged: bool | None
    options: dict[str, Any]


def _node(table: SampleTable, looked: _Looked) -> Node:
    """Return the record of what is in the files of an archive."""
    samples = table.samples
    lost = samples.lost | leaves_of(table.seen.form, "row")[1]
    found = cast(Record, table_node(table, table.kinds()))
    parts = {name: part.node for name, part in members(found).items()}
    for field in samples.decoded:
        try:
            parts |= _decoded(samples, field, looked)
        except (ValueError, ImportError) as error:
            lost[field] = f"cannot be decoded: {shortened(str(error))}"
    order = [KEY, *samples.files]
    rank = {name: order.index(name) if name in order else len(order) for name in parts}
    ordered = {name: parts[name] for name in sorted(parts, key=lambda name: rank[name])}
    return tree(ordered, lost, {})


def _other(archive: Archive) -> Callable[..., Node] | None:
    """Return what opens an archive that is the file of another format."""
    if archive.is_zip and any(name in ZARR_MARKS for name in archive.names):
        return open_zarr
    own = [name for name in archive.names if not is_ignored(name)]
    are_arrays = own and all(name.endswith(".npy") or name == "dataview.json" for name in own)
    return open_npz if archive.is_zip and are_arrays else None


# --- rows ----------------------------------------------------------------------------------------


class Samples:
    """The files of an archive by rows: `files` has the numbers of those of each field."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.lost: dict[str, str] = {}
        rows = self._by_key()
        counts: dict[str, int] = {}
        for row in rows.values():
            for field in row:
                counts[field] = counts.get(field, 0) + 1
        if len(counts) > MOST_FIELDS:
            raise ValueError(f"{archive.path} has files of more than {MOST_FIELDS} suffixes")
        shared = [field for field, count in counts.items() if count > SHARED * len(rows)]
        self.keys = [key for key, row in rows.items() if all(field in row for field in shared)]
        self.files = {
            field: np.array([rows[key][field] for key in self.keys], np.intp)
            for field in shared
            if self.keys
        }
        self._tell_others(rows, counts)
        if not self.keys:
            told = shortened(", ".join(archive.names[:20])) or "none"
            raise ValueError(f"{archive.path} has no files that make rows; its files are: {told}")
        is_read = [field for field in self.files if field.rpartition(".")[2] not in PARSED]
        self.decoded = [field for field in is_read if _kind(field) is not None]

    def __reduce__(self) -> tuple[Any, ...]:
        return Samples, (self.archive,)

    def _by_key(self) -> dict[str, dict[str, int]]:
        rows: dict[str, dict[str, int]] = {}
        for number, name in enumerate(self.archive.names):
            folder, _, own = name.rpartition("/")
            stem, _, suffix = own.partition(".")
            if is_ignored(name):
                continue
            if not stem or not suffix:
                self.lost[name] = "has a name that does not end in the name of a field"
                continue
            key = f"{folder}/{stem}" if folder else stem
            row = rows.setdefault(key, {})
            if suffix.lower() in row:
                raise ValueError(
                    f"{self.archive.where(number)} and "
                    f"{self.archive.names[row[suffix.lower()]]!r} are of one row and field"
                )
            row[suffix.lower()] = number
        return rows

    def _tell_others(
        self, rows: Mapping[str, Mapping[str, int]], counts: Mapping[str, int]
    ) -> None:
        """Say of the files that are in no field why they are not."""
        for field, count in counts.items():
            if field not in self.files:
                self.lost[f"*.{field}"] = f"has files in {count} of {len(rows)} rows alone"
        dropped = [key for key, row in rows.items() if not all(name in row for name in self.files)]
        for key in dropped[:20]:
            lacking = ", ".join(name for name in self.files if name not in rows[key])
            self.lost[f"{key}.*"] = f"is no row: it lacks {lacking}"
        if len(dropped) > 20:
            self.lost["*"] = f"stands for {len(dropped) - 20} more that are no rows either"

    def raw(self, field: str, row: int) -> bytes:
        """Return the bytes of a file, or raise an error that names it."""
        number = int(self.files[field][row])
        try:
            return self.archive.bytes_of(number)
        except Exception as error:
            raise self.named(field, row, error) from None

    def named(self, field: str, row: int, error: Exception) -> Exception:
        """Return the error for a file, which names it."""
        where = self.archive.where(int(self.files[field][row]))
        if isinstance(error, OSError) or self.archive.path in str(error):
            return error
        return ValueError(f"{where} cannot be read: {shortened(str(error))}")


def _kind(field: str) -> str | None:
    return kind_of("." + field.rpartition(".")[2])


# --- files that are decoded ----------------------------------------------------------------------


class FieldFiles:
    """The files of a field by the numbers of their rows."""

    def __init__(self, samples: Samples, field: str) -> None:
        self.samples, self.field = samples, field
        self.numbers = samples.files[field]

    def __reduce__(self) -> tuple[Any, ...]:
        return FieldFiles, (self.samples, self.field)

    def __len__(self) -> int:
        return len(self.numbers)

    def path(self, number: int) -> str:
        """Return what stands for the path of a file."""
        return member(self.samples.archive, int(self.numbers[number]))

    def where(self, number: int) -> str:
        """Return what a file is called in errors."""
        return self.samples.archive.where(int(self.numbers[number]))


def _decoded(samples: Samples, field: str, looked: _Looked) -> dict[str, Node]:
    """Return the field of decoded files, and those of what their headers say besides."""
    kind = str(_kind(field))
    known = _options_of(decoder_of(kind, {}))
    given = {name: looked.options[name] for name in known if name in looked.options}
    decoder = decoder_of(kind, given)
    files = FieldFiles(samples, field)
    found = headers_read(files, decoder, looked_at(len(files), looked.headers, decoder))
    rows = rows_of(files, decoder, samples.archive.opening, found, looked.ragged)
    parts = {field: node_of_rows(rows)}
    for name, dtype in rows.decoder.facts.items():
        parts[f"{field}_{name}"] = stored(fact_source(rows, dtype))
    return parts


def _options_of(decoder: Decoder) -> Collection[str]:
    return [one.name for one in fields(decoder)]  # type: ignore[arg-type]


# --- files that are parsed, or left as they are --------------------------------------------------


class Seen:
    """What is in texts of archives, by their first rows: `form`, and fields that are no numbers."""

    def __init__(self) -> None:
        self.form = Form()
        self.texts: set[str] = set()

    def look(self, tables: Sequence[SampleTable]) -> None:
        """Look at the first rows of archives."""
        firsts = [table.rows(table.parsers, 0, table.settled) for table in tables]
        for table, rows in zip(tables, firsts, strict=True):
            numbers = [field for field, parser in table.parsers.items() if parser is _integer]
            self.texts |= {one for one in numbers if any(type(row[one]) is str for row in rows)}
        for table, rows in zip(tables, firsts, strict=True):
            own = self.texts.intersection(table.parsers)
            texts = [{**row, **{field: str(row[field]) for field in own}} for row in rows]
            try:
                see(self.form, texts, range(len(texts)))
            except ValueError as error:
                path = table.samples.archive.path
                raise ValueError(f"{path} is no table: {error}") from None


class SampleTable(Table):
    """The keys of rows, and what is in files of texts and of unknown kinds; each row is a group."""

    reads_rows = joins_groups = True

    def __init__(self, samples: Samples, rows_settled: int | None, seen: Seen) -> None:
        count = len(samples.keys)
        super().__init__(os.path.basename(samples.archive.path), np.arange(count + 1))
        self.samples, self.rows_settled, self.seen = samples, rows_settled, seen
        ends = {field: field.rpartition(".")[2] for field in samples.files}
        self.parsers = {field: PARSED[end] for field, end in ends.items() if end in PARSED}
        self.settled = count if rows_settled is None else min(count, rows_settled)

    def __reduce__(self) -> tuple[Any, ...]:
        return SampleTable, (self.samples, self.rows_settled, self.seen)

    @functools.cached_property
    def leaves(self) -> dict[Name, Leaf]:
        """The columns of what is parsed, once all archives have been looked at."""
        found = leaves_of(self.seen.form, "row")[0]
        return {name: leaf for name, leaf in found.items() if name[0] in self.parsers}

    def kinds(self) -> dict[Name, Kind]:
        """Return what the columns are."""
        decoded = {*self.parsers, *self.samples.decoded}
        raw = [KEY, *(field for field in self.samples.files if field not in decoded)]
        own = {name: leaf.kind for name, leaf in self.leaves.items()}
        return {(field,): Kind(np.dtype(object)) for field in raw} | own

    def rows(self, chosen: Collection[str], first: int, stop: int) -> list[dict[str, Any]]:
        """Return rows of the fields that are parsed."""
        return [{field: self._parsed(field, row) for field in chosen} for row in range(first, stop)]

    def _parsed(self, field: str, row: int) -> Any:
        raw = self.samples.raw(field, row)
        try:
            return _text(raw) if field in self.seen.texts else self.parsers[field](raw)
        except ValueError as error:
            raise self.samples.named(field, row, error) from None

    def read(self, names: Collection[Name], first: int, stop: int) -> Mapping[Name, Column]:
        """Return columns of some rows."""
        self.samples.archive.opening.check()
        tops = [*dict.fromkeys(name[0] for name in names if name in self.leaves)]
        found = Rows(self.rows(tops, first, stop) if tops else [], self.seen.form)
        try:
            return {name: self._column(name, found, first, stop) for name in names}
        except Misfit as misfit:
            raise ValueError(
                f"row {first + misfit.row} of {self.samples.archive.path} "
                f"({self.samples.keys[first + misfit.row]}) {misfit.what}, unlike the first "
                f"{self.settled} rows, which settle what fields are; "
                f"dv.open(path, rows_settled={first + misfit.row + 1}) looks at more, None at all"
            ) from None

    def _column(self, name: Name, found: Rows, first: int, stop: int) -> Column:
        if name in self.leaves:
            return found.column(self.leaves[name])
        values = np.empty(stop - first, object)
        if name == (KEY,):
            values[:] = self.samples.keys[first:stop]
        else:
            values[:] = [self.samples.raw(name[0], row) for row in range(first, stop)]
        return Column(values)

    @property
    def is_closed(self) -> bool:
        """Whether the archive was closed."""
        return self.samples.archive.opening.is_closed

    def close(self) -> None:
        """Close the archive."""
        super().close()
        self.samples.archive.close()
