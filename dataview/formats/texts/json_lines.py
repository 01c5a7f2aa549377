"""Lines of JSON: each is a row; what its fields are is settled by the first of them."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.errors import shortened
from dataview.formats.contents import NoRows, with_arrays
from dataview.formats.handles import Claim
from dataview.formats.tables.column_nodes import table_node
from dataview.formats.tables.columns import Column, Kind, Name, Table
from dataview.formats.tables.schema import check_schema, joined
from dataview.formats.texts.folders import keyed, listed
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
from dataview.formats.texts.text_bytes import LineGroups, TextFile, changed, with_packed
from dataview.index.locks import new_lock
from dataview.plan.node import Node
from dataview.sources import FileState

JSON_SUFFIXES = with_packed((".jsonl", ".ndjson"))

SETTLED = 10_000
"""So many rows settle the types of fields, unless an option says another number."""

WHITE = b" \t\r\n"
"""What JSON takes for nothing: a line of only these is no row."""


def open_json_lines(
    path: str | Sequence[str],
    mode: str,
    claim: Claim | None = None,
    rows_settled: int | None = SETTLED,
    fill: Any = None,
    schema: str = "union",
    keys: Any = (),
) -> Node:
    """Return the record of the fields of a file's rows, of which the first `rows_settled` are read.

    None reads all of them.  Of several files the rows follow one another: what one of them lacks is
    missing there, or else `schema` is "same".
    """
    listing = listed(path, JSON_SUFFIXES, keys)
    paths = [one for one, _ in listing]
    if mode != "r":
        raise ValueError(
            f"{', '.join(paths)}: lines of JSON cannot be changed in place; open it with mode "
            f"'r', or _save a copy in another format; got {mode!r}"
        )
    check_settled(rows_settled)
    check_schema(schema)
    form = Form()  # of all files: a key that one of them lacks has a mask
    forms = [Form() if schema == "same" else form for _ in paths]
    is_one = len(paths) == 1
    tables = [
        JsonTable(one[0], claim, rows_settled, own, is_one=is_one)
        for one, own in zip(listing, forms, strict=True)
    ]
    known = [(one, own) for one, (_, own) in zip(tables, listing, strict=True) if one.settled]
    if not known:
        raise NoRows(f"{paths[0]} holds no rows")
    parts = keyed([(one, one.kinds()) for one, _ in known], [values for _, values in known])
    form = known[0][0].form
    table, every = joined(f"{len(paths)} files", parts, schema)
    return with_arrays(paths[0], table_node(table, every, fill, lost=leaves_of(form)[1]))


class ParsedGroups(NamedTuple):
    """The rows of some groups, the number of the line of each, and a lock for who reads fields."""

    groups: tuple[int, int]
    rows: Rows
    lines: list[int]
    reading: threading.Lock


class JsonTable(Table):
    """The rows of a file, of which those in some pages are parsed together."""

    reads_rows = joins_groups = True

    def __init__(
        self,
        path: str,
        claim: Claim | None,
        rows_settled: int | None,
        form: Form,
        told: FileState | None = None,
        is_one: bool = True,
    ) -> None:
        self.rows_settled, self.form, self.is_one = rows_settled, form, is_one
        self.path = path
        self.raw = TextFile(path, claim, told=told)
        self.settled = 0
        groups = LineGroups(self.raw.begin)
        for place, block, ends in self.raw.lines(np.dtype("u1"), self.raw.begin):
            are_rows = _are_rows(block, ends)
            self._settle(block, ends, are_rows, groups.lines)
            groups.add(place, ends, are_rows)
        self.places, starts, self.lines = groups.arrays()
        super().__init__(os.path.basename(path), starts)
        self._latest: ParsedGroups | None = None  # fields are asked for one after the other

    def __reduce__(self) -> tuple[Any, ...]:
        raw = self.raw
        return JsonTable, (raw.path, raw.opening.held, self.rows_settled, self.form, raw.state)

    @functools.cached_property
    def leaves(self) -> dict[Name, Leaf]:
        """The columns by name, once all files have been looked at."""
        return leaves_of(self.form)[0]

    def kinds(self) -> dict[Name, Kind]:
        """Return what each column is."""
        return {name: leaf.kind for name, leaf in self.leaves.items()}

    def _settle(self, block: bytes, ends: np.ndarray, are_rows: np.ndarray, before: int) -> None:
        """Look at rows of a block, if more are needed; `before` lines came before it."""
        chosen = np.flatnonzero(are_rows)
        if self.rows_settled is not None:
            chosen = chosen[: self.rows_settled - self.settled]
        if len(chosen):
            self.settled += len(chosen)
            begins = np.concatenate([[0], ends[:-1]])
            bounds = zip(begins[chosen].tolist(), ends[chosen].tolist(), strict=True)
            lines = (chosen + before + 1).tolist()
            rows = self._parsed([block[start:stop] for start, stop in bounds], lines)
            name = os.path.basename(self.path)
            places = lines if self.is_one else [f"{line} of {name}" for line in lines]
            try:
                see(self.form, rows, places)
            except ValueError as error:
                raise ValueError(f"{self.raw.path} is no table: {error}") from None

    def _parsed(self, texts: list[bytes], lines: list[int]) -> list[dict[str, Any]]:
        """Return the rows of lines, given their numbers."""
        try:
            rows = [parsed(text) for text in texts]
            if set(map(type, rows)) <= {dict}:
                return rows
        except ValueError:
            pass  # the line is looked for that it is about
        for text, line in zip(texts, lines, strict=True):
            _check(text, f"line {line} of {self.raw.path}")
        raise changed(self.raw.path)

    def read(self, names: Collection[Name], first: int, stop: int) -> Mapping[Name, Column]:
        """Return fields of the rows of some groups."""
        latest = self._latest
        if latest is None or latest.groups != (first, stop):
            latest = self._latest = self._parsed_groups(first, stop, latest)
        try:
            with latest.reading:
                return {name: latest.rows.column(self.leaves[name]) for name in names}
        except Misfit as misfit:
            line = latest.lines[misfit.row]
            raise ValueError(
                f"line {line} of {self.raw.path} {misfit.what}, unlike the first {self.settled} "
                f"rows, which settle what fields are; dv.open(path, rows_settled={line}) looks at "
                "more, None at all"
            ) from None

    def _parsed_groups(self, first: int, stop: int, latest: ParsedGroups | None) -> ParsedGroups:
        """Return the rows of some groups; those that were parsed latest are not parsed again."""
        rows, lines, begin = [], [], first
        if latest is not None and latest.groups[0] <= first < latest.groups[1]:
            begin = min(stop, latest.groups[1])
            known = slice(*(self.starts[[first, begin]] - self.starts[latest.groups[0]]).tolist())
            rows, lines = latest.rows.rows[known], latest.lines[known]
        raw = self.raw.read(int(self.places[begin]), int(self.places[stop]))
        texts = raw.split(b"\n")
        numbers = [number for number, text in enumerate(texts) if text.strip(WHITE)]
        if len(numbers) != self.starts[stop] - self.starts[begin]:
            raise changed(self.raw.path)
        new = [int(self.lines[begin]) + 1 + number for number in numbers]
        rows = [*rows, *self._parsed([texts[number] for number in numbers], new)]
        return ParsedGroups((first, stop), Rows(rows, self.form), [*lines, *new], new_lock())

    @property
    def is_closed(self) -> bool:
        """Whether the file was closed."""
        return bool(self.raw.opening.is_closed)

    def check(self) -> None:
        """Raise if the file was closed, or has changed."""
        self.raw.check()

    def close(self) -> None:
        """Close the file."""
        super().close()
        self._latest = None
        self.raw.close()


def _are_rows(block: bytes, ends: np.ndarray) -> np.ndarray:
    """Return which lines have more than white space."""
    begins = np.concatenate([[0], ends[:-1]])
    raw = np.frombuffer(block, np.uint8)
    found = np.ones(len(ends), bool)
    suspects = np.flatnonzero(_IS_WHITE[raw[begins]])
    if len(suspects):
        others = np.append(np.flatnonzero(~_IS_WHITE[raw]), len(raw))
        found[suspects] = others[others.searchsorted(begins[suspects])] < ends[suspects]
    return found


_IS_WHITE = np.isin(np.arange(256), list(WHITE))


# --- one line ------------------------------------------------------------------------------------


def _check(text: bytes, where: str) -> None:
    """Raise if a line is no row."""
    try:
        found = parsed(text)
    except UnicodeDecodeError as error:
        raise ValueError(f"{where} is no text in UTF-8: {shortened(str(error))}") from None
    except ValueError as error:
        raise ValueError(f"{where} cannot be parsed as JSON: {shortened(str(error))}") from None
    if not isinstance(found, dict):
        other = "'json') is a table of one array of objects" if isinstance(found, list) else ""
        raise ValueError(
            f"{where} is no object with fields: {shortened(text.decode().strip())}; "
            f"dv.open(path, format={other or _AS_LINES}"
        )


_AS_LINES = "'lines') is a view of the lines"
