"""A file with one array of JSON, of which each object is a row; it is parsed whole."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from dataview.errors import shortened
from dataview.formats.contents import NoRows
from dataview.formats.handles import Claim
from dataview.formats.tables.column_nodes import table_node
from dataview.formats.tables.columns import Column, Name, Table
from dataview.formats.tables.schema import check_schema, joined
from dataview.formats.texts.json_fields import Form, Leaf, Rows, leaves_of, parsed, see
from dataview.formats.texts.text_bytes import TextFile
from dataview.plan.node import Node
from dataview.sources import FileState

LARGEST = 1 << 28
"""More text is refused: it is in memory whole, with objects that take several times as much."""


def open_json(
    path: str | Sequence[str],
    mode: str,
    claim: Claim | None = None,
    fill: Any = None,
    schema: str = "union",
) -> Node:
    """Return the record of the fields of the objects in an array; of several files all rows.

    What one of them lacks is missing there, or else `schema` is "same".
    """
    paths = [path] if isinstance(path, str) else path
    if mode != "r":
        raise ValueError(
            f"{', '.join(paths)}: JSON cannot be changed in place; open it with mode 'r', or _save "
            f"a copy in another format; got {mode!r}"
        )
    check_schema(schema)
    files, rows = _having_rows([TextFile(one, claim) for one in paths])
    form = Form()  # of all files: a key that one of them lacks has a mask
    forms = [Form() if schema == "same" else form for _ in files]
    for one, file, own in zip(forms, files, rows, strict=True):
        _see(one, own, file.path)
    tables = [JsonArray(*parts) for parts in zip(files, forms, rows, strict=True)]
    kinds = [{name: leaf.kind for name, leaf in leaves_of(one, "row")[0].items()} for one in forms]
    table, every = joined(f"{len(paths)} files", [*zip(tables, kinds, strict=True)], schema)
    return table_node(table, every, fill, lost=leaves_of(forms[0], "row")[1])


class JsonArray(Table):
    """The columns of an array of objects, all in memory; they are one group of rows."""

    def __init__(self, file: TextFile, form: Form, rows: list[dict[str, Any]]) -> None:
        super().__init__(os.path.basename(file.path), np.array([0, len(rows)], np.intp))
        self.file, self.form = file, form
        found = Rows(rows, form)
        leaves: dict[Name, Leaf] = leaves_of(form, "row")[0]
        self.columns = {name: found.column(leaf) for name, leaf in leaves.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        file = self.file
        own = file.path, file.opening.held, file.state, self.form
        return _reopened, own, {"fills": self.fills, "names": self.names}

    def read(self, names: Collection[Name], first: int, stop: int) -> Mapping[Name, Column]:
        """Return columns."""
        self.file.opening.check()
        return {name: self.columns[name] for name in names}

    @property
    def is_closed(self) -> bool:
        """Whether the file was closed."""
        return self.file.opening.is_closed

    def check(self) -> None:
        """Raise if the file was closed, or has changed."""
        self.file.check()

    def close(self) -> None:
        """Close the file."""
        super().close()
        self.file.close()


def _reopened(path: str, claim: Claim | None, state: FileState, form: Form) -> JsonArray:
    """Read a file again where a view of it was unpickled."""
    file = TextFile(path, claim, told=state)
    return JsonArray(file, form, _rows_of(file))


def _having_rows(files: list[TextFile]) -> tuple[list[TextFile], list[list[dict[str, Any]]]]:
    """Return the files that are no empty arrays, and the objects in each; raise if none is left."""
    found = []
    for number, file in enumerate(files, 1):
        try:
            found.append((file, _rows_of(file)))
        except NoRows:
            if number == len(files) and not found:
                raise
    return [file for file, _ in found], [rows for _, rows in found]


def _rows_of(file: TextFile) -> list[dict[str, Any]]:
    """Return the objects in a file, or raise if they are something else."""
    path = file.path
    if file.size > LARGEST:
        raise ValueError(
            f"{path} has {file.size} bytes, and JSON of more than {LARGEST} is not parsed whole; "
            "as lines of JSON, .jsonl, an object in each, it may be of any size"
        )
    try:
        found = parsed(file.read(file.begin, file.size))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8: {shortened(str(error))}") from None
    except ValueError as error:
        told = shortened(str(error))
        if "Extra data" in told:
            told += "; if each line is an object, dv.open(path, format='json lines') reads it"
        raise ValueError(f"{path} cannot be parsed as JSON: {told}") from None
    if isinstance(found, list) and found and set(map(type, found)) == {dict}:
        return found
    raise (NoRows if found == [] else ValueError)(
        f'{path} is no table: that is an array of objects, as in [{{"x": 1}}, {{"x": 2}}], and '
        f"{_what(found)}; dv.View(pandas.read_json(path)) is what pandas wrote by columns, and "
        "json.load reads any JSON"
    )


def _what(found: Any) -> str:
    """Say what JSON is that is no table."""
    if isinstance(found, dict):
        return f"this is an object with the keys {shortened(', '.join(map(repr, found)))}"
    if not isinstance(found, list):
        return f"this is {shortened(repr(found))}"
    if not found:
        return "this array is empty"
    number = next(n for n, one in enumerate(found) if type(one) is not dict)
    return f"element {number} of this array is {shortened(repr(found[number]))}"


def _see(form: Form, rows: list[dict[str, Any]], path: str) -> None:
    try:
        see(form, rows, range(len(rows)))
    except ValueError as error:
        told = str(error).replace("line ", "row ")
        raise ValueError(f"{path} is no table: {told}") from None
