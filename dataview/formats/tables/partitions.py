"""Parquet, Feather and Arrow files: one, some by their paths, or all of a folder, as one table.

The rows of several follow one another in the order of their paths.  A folder whose name is
`key=value` gives the rows in it one more column, and so does one whose name is a value alone if
the user names its key.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import unquote

import numpy as np

from dataview.formats.contents import ALONE, described, of_its_own
from dataview.formats.handles import Claim
from dataview.formats.tables.arrow import DECIMAL, Leaf, is_coded
from dataview.formats.tables.arrow_tables import ArrowTable, check_read_only
from dataview.formats.tables.arrow_values import labels_in, told_labels
from dataview.formats.tables.column_nodes import table_node
from dataview.formats.tables.columns import NOTHING, Column, Kind, Name, Table
from dataview.formats.tables.feather import FeatherTable
from dataview.formats.tables.parquet import ParquetTable
from dataview.formats.tables.schema import Tables, check_schema, no_values, unified
from dataview.plan.node import Node
from dataview.sources import Opening, in_order

_KINDS: dict[str, type[ArrowTable]] = {
    **dict.fromkeys((".parquet", ".pq"), ParquetTable),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), FeatherTable),
}

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The value in a path that says that there is none."""


TABLE_SUFFIXES = frozenset(_KINDS)
"""The suffixes of files of tables that a folder has as one table."""


def has_tables(path: str) -> bool:
    """Whether a folder has files of tables, perhaps in folders that are named key=value."""
    return has_files(path, _is_table)


def open_parquet(
    path: str | Sequence[str],
    mode: str,
    claim: Claim | None = None,
    fill: Any = None,
    schema: str = "same",
) -> Node:
    """Return the record of the columns of Parquet files: their descriptions are read.

    `fill` stands for missing values, which have a mask beside them otherwise.  Columns of several
    files are matched by name; with `schema="union"` they may differ.
    """
    return _opened(ParquetTable, path, mode, claim, fill, schema)


def open_feather(
    path: str | Sequence[str],
    mode: str,
    claim: Claim | None = None,
    fill: Any = None,
    schema: str = "same",
) -> Node:
    """Return the record of the columns of Arrow files and streams, or Feather files, likewise."""
    return _opened(FeatherTable, path, mode, claim, fill, schema)


def open_partitions(
    path: str,
    mode: str,
    claim: Claim | None = None,
    fill: Any = None,
    schema: str = "same",
    keys: Any = (),
) -> Node:
    """Return the record of the columns of all files of a folder, likewise.

    `keys` name the columns whose values are the names of the folders in it, and of those in these.
    """
    check_read_only(path, mode)
    check_schema(schema)
    return FolderTable(path, Opening(path, claim), schema, keys=checked_keys(keys)).node(fill)


def _opened(
    kind: type[ArrowTable],
    path: str | Sequence[str],
    mode: str,
    claim: Claim | None,
    fill: Any,
    schema: str,
) -> Node:
    check_schema(schema)
    if isinstance(path, str):
        check_read_only(path, mode)
        return kind(path, Opening(path, claim)).node(fill)
    folder = os.path.commonpath([os.path.dirname(one) for one in path])
    places = [os.path.relpath(one, folder) for one in path]
    return FolderTable(folder, Opening(folder, claim), schema, (kind, places)).node(fill)


Listed: TypeAlias = tuple[type[ArrowTable], list[str]]
"""Files of one kind by their places in a folder."""


class FolderTable(Tables):
    """The files of a folder, or those that are listed; each group of rows is one of a file."""

    def __init__(
        self,
        path: str,
        opening: Opening,
        schema: str,
        listed: Listed | None = None,
        keys: Sequence[str] = (),
    ) -> None:
        self.path, self.opening, self.schema, self.listed = path, opening, schema, listed
        self.keys = keys
        found = list(_files(path, opening, listed, keys))
        if not found:
            raise ValueError(f"{path} holds no files of tables: none ends in {', '.join(_KINDS)}")
        self.tables = [table for table, _, _ in found]
        self.places = [place for _, place, _ in found]
        _decode_mixed(self.tables)
        files = [FileTable(table, _kinds_of(table), said, place) for table, place, said in found]
        unified(with_keys(files), schema)  # before labels are joined
        self.labels = _numbered_alike(self.tables)
        for file, table in zip(files, self.tables, strict=True):
            file.own = _kinds_of(table)
        parts = with_keys(files)
        super().__init__(os.path.basename(path), parts, unified(parts, schema))
        self.joins_groups = False  # few files are open at a time

    def __reduce__(self) -> tuple[Any, ...]:
        own = self.path, self.opening, self.schema, self.listed, self.keys
        return _reopened, (*own, self.signature(), dict(self.fills))

    def signature(self) -> int:
        """Return a number that tells these files from others."""
        signed = [table.signature() for table in self.tables]
        own = [*zip(self.places, signed, strict=True)]
        return zlib.crc32(repr(own).encode(errors="backslashreplace"))

    def node(self, fill: Any) -> Node:
        """Return the record of the columns."""
        leaves: dict[Name, Leaf] = {}
        without: dict[Name, Leaf] = {}  # of a column without values a file tells only the name
        lost = {} if self.listed else dict(_beside(self.path))
        for table in self.tables:
            lost |= table.lost
            for name, leaf in table.leaves.items():
                (without if leaf.kind.nature == NOTHING else leaves).setdefault(name, leaf)
        leaves = {**without, **leaves}
        metas = {name: dict(leaf.meta) for name, leaf in leaves.items()}
        for name, meta in metas.items():
            if DECIMAL in meta:  # that of all files may have more digits
                meta[DECIMAL] = self.kinds[name].nature
        for name, labels in self.labels.items():
            metas[name]["labels"] = told_labels(leaves[name], labels)
        found = table_node(self, self.kinds, fill, metas, lost)
        return described(found, self.tables[0].meta)

    @property
    def is_closed(self) -> bool:
        """Whether the folder was closed."""
        return self.opening.is_closed

    def close(self) -> None:
        """Have all views of the folder say that it is closed."""
        self.opening.close()
        super().close()


class FileTable(Table):
    """A file of a folder, and the values that its path gives to its rows.

    `own` are the columns of the file, and `keys` those that the paths of all files make.
    """

    def __init__(
        self,
        table: Table,
        own: Mapping[Name, Kind],
        values: Mapping[str, str],
        title: str | None = None,
        keys: Mapping[Name, Kind] | None = None,
    ) -> None:
        super().__init__(title or table.title, table.starts)
        self.table, self.own, self.values, self.keys = table, own, values, keys or {}
        self.reads_rows, self.joins_groups = table.reads_rows, table.joins_groups

    def __reduce__(self) -> tuple[Any, ...]:
        given = self.table, self.own, self.values, self.title, self.keys
        return FileTable, given, {"fills": self.fills}

    def check(self) -> None:
        """Raise if the file is another by now."""
        self.table.check()

    def kinds(self) -> dict[Name, Kind]:
        """Return what the columns are; one that the file has is not what its path says."""
        taken = {name[0] for name in self.own}
        said = {name: kind for name, kind in self.keys.items() if name[0] not in taken}
        return {**self.own, **said}

    def read(self, names: Collection[Name], first: int, stop: int) -> Mapping[Name, Column]:
        """Return columns of some groups of rows."""
        own = [name for name in names if name in self.own]
        found = dict(self.table.read(own, first, stop)) if own else {}
        count = int(self.starts[stop] - self.starts[first])
        for name in names:
            if name not in found:
                found[name] = _constant(self.values.get(name[0]), self.keys[name], count)
        return found

    def bounds(self, name: Name) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return the least and the greatest value of each group of rows, as the file notes them."""
        return self.table.bounds(name) if name in self.own else None

    @property
    def is_closed(self) -> bool:
        """Whether the file was closed."""
        return self.table.is_closed

    def close(self) -> None:
        """Close the file."""
        super().close()
        self.table.close()


def with_keys(files: Sequence[FileTable]) -> list[tuple[FileTable, Mapping[Name, Kind]]]:
    """Return files and their columns, with those that the paths of all of them make."""
    keys = _key_kinds([file.values for file in files])
    for file in files:
        file.keys = keys
    return [(file, file.kinds()) for file in files]


def _files(
    path: str, opening: Opening, listed: Listed | None, keys: Sequence[str]
) -> Iterator[tuple[ArrowTable, str, Mapping[str, str]]]:
    """Yield the files that are listed, or else all of a folder; few of them are open at a time."""
    kind, places = listed or (None, files_in(path, _is_table, keys))
    for place, said in ((one, {}) if isinstance(one, str) else one for one in places):
        kind_here = kind or _KINDS[_suffix(place)]
        yield kind_here(os.path.join(path, place), opening, keeps_open=False), place, said


def _beside(path: str) -> Iterator[tuple[str, str]]:
    """Yield the names of other data in a folder of tables, and why they are none of its columns."""
    with os.scandir(path) as found:
        names = sorted(entry.name for entry in found)
    for name in names:
        if name.endswith((".npy", *ALONE)) and not _is_table(name) and name[0] not in "._":
            yield name, of_its_own(os.path.join(path, name))


def _kinds_of(table: ArrowTable) -> dict[Name, Kind]:
    return {name: leaf.kind.meant(leaf.meta) for name, leaf in table.leaves.items()}


def _decode_mixed(tables: Sequence[ArrowTable]) -> None:
    """Have values that are codes in some files, and not in others, be values in all of them."""
    coded: dict[Name, list[ArrowTable]] = {}
    plain: set[Name] = set()
    for table in tables:
        for name, leaf in table.leaves.items():
            if is_coded(leaf):
                coded.setdefault(name, []).append(table)
            elif leaf.kind.nature != NOTHING:
                plain.add(name)
    for name in coded.keys() & plain:
        for table in coded[name]:
            table.decode(name)


def _numbered_alike(tables: Sequence[ArrowTable]) -> dict[Name, Any]:
    """Have all files number their labels alike, and return these."""
    met: dict[Name, list[Any]] = {}
    for table in tables:
        table.find_labels()
        for name, labels in table.dictionaries.items():
            if labels is not None:
                met.setdefault(name, []).append(labels)
    found = {name: labels_in(every) for name, every in met.items()}
    for table in tables:
        own = table.dictionaries
        own.update({name: found[name] for name in own.keys() & found.keys()})
    return found


def _reopened(
    path: str,
    opening: Opening,
    schema: str,
    listed: Listed | None,
    keys: Sequence[str],
    signature: int,
    fills: Mapping[Name, Any],
) -> FolderTable:
    """Open a folder again where a view of it was unpickled."""
    found = FolderTable(path, opening, schema, listed, keys)
    if found.signature() != signature:
        raise ValueError(
            f"{path} has changed since a view of it was pickled; open it again and make the view "
            "anew"
        )
    found.fills = fills
    return found


# --- files in folders ----------------------------------------------------------------------------


def _is_table(name: str) -> bool:
    return _suffix(name) in _KINDS and name[0] not in "._"


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def files_in(
    path: str, is_table: Callable[[str], bool], keys: Sequence[str]
) -> list[tuple[str, dict[str, str]]]:
    """Return the places of files in a folder, in order, and what their paths say of their rows.

    Folders that are not named key=value say what the first of `keys` is, those in them the next.
    """
    found = [*_files_in(path, is_table, keys)]
    lost = [key for key in keys if not any(key in said for _, said in found)]
    if found and lost:
        raise ValueError(
            f"no folder stands for {lost[0]!r} of keys=: {path} has the files of tables "
            f"{found[0][0]!r}{', …' * (len(found) > 1)}"
        )
    return found


def _files_in(
    path: str, is_table: Callable[[str], bool], keys: Sequence[str], within: str = ""
) -> Iterator[tuple[str, dict[str, str]]]:
    with os.scandir(os.path.join(path, within)) as found:
        entries = sorted(found, key=lambda entry: in_order(entry.name))
    for entry in entries:
        place = os.path.join(within, entry.name)
        if _is_folder(entry):
            key, is_key, value = entry.name.partition("=")
            own = {unquote(key): unquote(value)} if is_key else {}
            if not is_key and keys:
                own = {keys[0]: unquote(entry.name)}
            found_below = _files_in(path, is_table, keys if is_key else keys[1:], place)
            yield from ((below, {**own, **values}) for below, values in found_below)
        elif entry.is_file() and is_table(entry.name):
            yield place, {}


def checked_keys(keys: Any) -> tuple[str, ...]:
    """Return the names that a user gives to what names of folders say."""
    own = (keys,) if isinstance(keys, str) else tuple(keys or ())
    if any(not isinstance(key, str) or not key for key in own) or len({*own}) < len(own):
        raise ValueError(
            "keys= are the names of the columns that folders stand for, from the outermost on, as "
            f"in ['year', 'month']; got {keys!r}"
        )
    return own


def has_files(path: str, is_table: Callable[[str], bool], is_part: bool = True) -> bool:
    """Whether a folder has such files, in folders that are named key=value or, if `is_part`, in it.

    It looks into no other folders, as `files_in` does: there may be very many.
    """
    with os.scandir(path) as found:
        entries = list(found)
    if is_part and any(is_table(entry.name) and entry.is_file() for entry in entries):
        return True
    below = (entry for entry in entries if "=" in entry.name and _is_folder(entry))
    return any(has_files(entry.path, is_table) for entry in below)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) and entry.name[0] not in "._"


def _key_kinds(said: Sequence[Mapping[str, str]]) -> dict[Name, Kind]:
    """Return the columns that paths make, of integers if all values are, else of texts."""
    met: dict[str, set[str | None]] = {key: set() for own in said for key in own}
    for key, values in met.items():
        values.update(_value(own.get(key)) for own in said)
    return {
        (key,): Kind(np.dtype(_dtype_of(values)), has_missing=None in values)
        for key, values in met.items()
    }


def _value(text: str | None) -> str | None:
    return None if text == NO_VALUE else text


def _dtype_of(values: Collection[str | None]) -> type:
    numbers = [re.fullmatch(r"0|-?[1-9]\d{0,17}", text) for text in values if text is not None]
    return int if numbers and all(numbers) else object


def _constant(text: str | None, kind: Kind, count: int) -> Column:
    """Return a column of one value, which a path says."""
    value = _value(text)
    if value is None:
        return no_values(kind, count)
    return Column(np.full(count, value, kind.dtype))
