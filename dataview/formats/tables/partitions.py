"""Parquet, Feather and Arrow files: one, some by their paths, or all of a folder, as one table.

The rows of several follow one another in the order of their paths.  A folder whose name is
`key=value` gives the rows in it one more column.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

import numpy as np

from dataview.errors import shortened
from dataview.formats.contents import described
from dataview.formats.handles import Claim
from dataview.formats.tables.arrow import Leaf, arrow, labels_in, values_of
from dataview.formats.tables.arrow_tables import ArrowTable, check_read_only
from dataview.formats.tables.columns import Column, Kind, Name, Table, table_node
from dataview.formats.tables.feather import FeatherTable
from dataview.formats.tables.parquet import ParquetTable
from dataview.formats.tables.schema import as_kind, check_schema, missing_in
from dataview.plan.node import Node
from dataview.sources import Opening

_KINDS: dict[str, type[ArrowTable]] = {
    **dict.fromkeys((".parquet", ".pq"), ParquetTable),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), FeatherTable),
}

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The value in a path that says that there is none."""


class Part(NamedTuple):
    """A file, its path in the folder, and the values that this gives to its rows."""

    table: ArrowTable
    place: str
    values: Mapping[str, str]


TABLE_SUFFIXES = frozenset(_KINDS)
"""The suffixes of files of tables that a folder has as one table."""


def has_tables(path: str) -> bool:
    """Whether a folder has files of tables, perhaps in folders that are named key=value."""
    with os.scandir(path) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    if any(entry.is_file() and _is_table(entry.name) for entry in entries):
        return True
    below = (entry.path for entry in entries if "=" in entry.name and entry.is_dir())
    return any(map(has_tables, below))


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
    path: str, mode: str, claim: Claim | None = None, fill: Any = None, schema: str = "same"
) -> Node:
    """Return the record of the columns of all files of a folder, likewise."""
    check_read_only(path, mode)
    check_schema(schema)
    return FolderTable(path, Opening(path, claim), schema).node(fill)


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


class FolderTable(Table):
    """The files of a folder, or those that are listed; each group of rows is one of a file."""

    def __init__(
        self, path: str, opening: Opening, schema: str, listed: Listed | None = None
    ) -> None:
        self.path, self.opening, self.schema, self.listed = path, opening, schema, listed
        self.parts = list(_parts(path, opening, listed))
        if not self.parts:
            raise ValueError(f"{path} holds no files of tables: none ends in {', '.join(_KINDS)}")
        for part in self.parts:
            part.table.keeps_open = False
        self.leaves = _united(self.parts, schema, path)
        self.keys = _keys(self.parts, self.leaves)
        lengths = [np.diff(part.table.starts) for part in self.parts]
        self.groups = [(p, g) for p, own in enumerate(lengths) for g in range(len(own))]
        starts = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.intp)
        super().__init__(os.path.basename(path), starts)
        self.labels = self._find_labels()

    def __reduce__(self) -> tuple[Any, ...]:
        own = self.path, self.opening, self.schema, self.listed
        return _reopened, (*own, self.signature(), dict(self.fills))

    def signature(self) -> int:
        """Return a number that tells these files from others."""
        own = [(part.place, part.table.signature()) for part in self.parts]
        return zlib.crc32(repr(own).encode(errors="backslashreplace"))

    def _find_labels(self) -> dict[Name, Any]:
        """Have all files number their labels alike, and return these."""
        met: dict[Name, list[Any]] = {}
        for part in self.parts:
            part.table.find_labels()
            for name, labels in part.table.dictionaries.items():
                if labels is not None:
                    met.setdefault(name, []).append(labels)
        found = {name: labels_in(every) for name, every in met.items()}
        for part in self.parts:
            part.table.dictionaries.update(
                {name: found[name] for name in part.table.dictionaries.keys() & found.keys()}
            )
        return found

    def node(self, fill: Any) -> Node:
        """Return the record of the columns."""
        metas = {name: dict(leaf.meta) for name, leaf in self.leaves.items()}
        for name, labels in self.labels.items():
            metas[name]["labels"] = labels.to_pylist()
        kinds = {name: leaf.kind for name, leaf in self.leaves.items()}
        kinds |= {(key,): kind for key, kind in self.keys.items()}
        lost = {name: why for part in self.parts for name, why in part.table.lost.items()}
        return described(table_node(self, kinds, fill, metas, lost), self.parts[0].table.meta)

    def read(self, names: Collection[Name], first: int, stop: int) -> Mapping[Name, Column]:
        """Return columns of a group of rows."""
        assert stop == first + 1, "groups of a folder are read one by one"
        number, group = self.groups[first]
        part = self.parts[number]
        count = int(self.starts[stop] - self.starts[first])
        own = [name for name in names if name in part.table.leaves]
        read = part.table.read(own, group, group + 1) if own else {}
        found = {}
        for name in names:
            if name in read:
                found[name] = as_kind(read[name], self.leaves[name].kind)
            elif name in self.leaves:
                found[name] = _nothing(self.leaves[name], count)
            else:
                found[name] = _constant(part.values.get(name[0]), self.keys[name[0]], count)
        return found

    def bounds(self, name: Name) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return the least and the greatest value of each group of rows, if all files note them."""
        found = [
            part.table.bounds(name) if name in part.table.leaves else None for part in self.parts
        ]
        known = [one for one in found if one is not None]
        if len(known) < len(found) or len({one[0].dtype for one in known}) > 1 or self.fills:
            return None
        low, high, are_known = map(np.concatenate, zip(*known, strict=True))
        return low, high, are_known

    def close(self) -> None:
        """Have all views of the folder say that it is closed."""
        for part in self.parts:
            part.table.close()
        self.opening.close()
        super().close()


def _parts(path: str, opening: Opening, listed: Listed | None) -> Iterator[Part]:
    """Yield the files that are listed, or else all of a folder."""
    if listed is not None:
        kind, places = listed
        for place in places:
            yield Part(kind(os.path.join(path, place), opening), place, {})
        return
    for place, values in _files_in(path):
        found = _KINDS[_suffix(place)]
        yield Part(found(os.path.join(path, place), opening), place, values)


def _reopened(
    path: str,
    opening: Opening,
    schema: str,
    listed: Listed | None,
    signature: int,
    fills: Mapping[Name, Any],
) -> FolderTable:
    """Open a folder again where a view of it was unpickled."""
    found = FolderTable(path, opening, schema, listed)
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


def _files_in(path: str, within: str = "") -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the places of files in a folder, in order, and what their paths say of their rows."""
    with os.scandir(os.path.join(path, within)) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        place = os.path.join(within, entry.name)
        if entry.is_dir(follow_symlinks=False) and entry.name[0] not in "._":
            key, is_key, value = entry.name.partition("=")
            own = {unquote(key): unquote(value)} if is_key else {}
            yield from ((below, {**own, **values}) for below, values in _files_in(path, place))
        elif entry.is_file() and _is_table(entry.name):
            yield place, {}


def _keys(parts: list[Part], leaves: Mapping[Name, Leaf]) -> dict[str, Kind]:
    """Return the columns that paths make, of integers if all values are, else of texts."""
    met: dict[str, set[str | None]] = {}
    for part in parts:
        for key in part.values:
            met.setdefault(key, set())
    for key, values in met.items():
        values.update(_value(part.values.get(key)) for part in parts)
    taken = {name[0] for name in leaves}
    return {
        key: Kind(np.dtype(_dtype_of(values)), has_missing=None in values)
        for key, values in met.items()
        if key not in taken
    }


def _value(text: str | None) -> str | None:
    return None if text == NO_VALUE else text


def _dtype_of(values: Collection[str | None]) -> type:
    numbers = [re.fullmatch(r"0|-?[1-9]\d{0,17}", text) for text in values if text is not None]
    return int if numbers and all(numbers) else object


def _constant(text: str | None, kind: Kind, count: int) -> Column:
    """Return a column of one value, which a path says."""
    value: Any = _value(text)
    present = None if value is not None else np.zeros(count, bool)
    if value is None:
        value = missing_in(kind.dtype)
    return Column(np.full(count, value, kind.dtype), present)


# --- columns of several files --------------------------------------------------------------------


def _united(parts: list[Part], schema: str, path: str) -> dict[Name, Leaf]:
    """Return the columns of all files, or raise if they differ and may not, or cannot be one."""
    first = parts[0]
    found = dict(first.table.leaves)
    for part in parts[1:]:
        own = part.table.leaves
        for name in [*found, *(name for name in own if name not in found)]:
            where = f"column {'.'.join(name)!r} of {os.path.join(path, part.place)}"
            if name not in own or name not in found:
                if schema == "same":
                    lacking, other = (first, where) if name in own else (part, "")
                    raise ValueError(
                        f"{os.path.join(path, lacking.place)} has no column {'.'.join(name)!r}, "
                        f"which {other or os.path.join(path, first.place)} has; schema='union' "
                        "opens all columns, with masks where there are none"
                    )
                leaf = found.get(name) or own[name]
                found[name] = leaf._replace(kind=leaf.kind._replace(has_missing=True))
            else:
                found[name] = _one_of(found[name], own[name], schema, where, first.place)
    for name in found:
        above = next((name[:n] for n in range(1, len(name)) if name[:n] in found), None)
        if above is not None:
            raise ValueError(
                f"column {'.'.join(above)!r} of files in {path} has members in some of them, and "
                "none in others; open the files one by one"
            )
    return found


def _one_of(ours: Leaf, theirs: Leaf, schema: str, where: str, first: str) -> Leaf:
    """Return a column that holds the values of two, which differ at most by dtype."""
    missing = ours.kind.has_missing or theirs.kind.has_missing
    a, b = (leaf.kind._replace(has_missing=missing) for leaf in (ours, theirs))
    own = (_told(ours), _told(theirs))
    if a == b and own[0] == own[1]:
        return ours._replace(kind=a)
    told = f"{where} is {own[1]}, and {own[0]} in {first}"
    if schema == "same":
        raise ValueError(f"{told}; schema='union' unifies what NumPy has one dtype for")
    is_number = all(kind.dtype.kind in "biuf" for kind in (a, b)) and own[0].count("codes") == 0
    is_time = a.dtype.kind == b.dtype.kind and a.dtype.kind in "Mm"
    zones = ours.meta.get("timezone") == theirs.meta.get("timezone")
    if a[1:] != b[1:] or not (is_number or (is_time and zones)):
        raise ValueError(f"{told}, which nothing unifies; open the files one by one")
    return ours._replace(kind=a._replace(dtype=np.promote_types(a.dtype, b.dtype)))


def _told(leaf: Leaf) -> str:
    """Say what a column holds."""
    kind = leaf.kind
    is_codes = arrow().types.is_dictionary(leaf.type)
    word = f"codes of {leaf.type.value_type}" if is_codes else str(kind.dtype)
    if kind.dtype.hasobject and not is_codes:
        word = str(leaf.type).removeprefix("large_").removesuffix("_view")
    zone = leaf.meta.get("timezone")
    return shortened(
        f"{'lists of ' * kind.depth}{word}{list(kind.shape) or ''}{f' in {zone}' if zone else ''}"
    )


def _nothing(leaf: Leaf, count: int) -> Column:
    """Return a column of a file that does not have it."""
    own = 0 if leaf.kind.depth else count
    if arrow().types.is_dictionary(leaf.type):
        values = np.full(own, -1, leaf.kind.dtype)
    else:
        values = values_of(arrow().nulls(own, leaf.type)).astype(leaf.kind.dtype, copy=False)
    shape = leaf.kind.shape
    column = Column(np.broadcast_to(values.reshape(own, *(1,) * len(shape)), (own, *shape)))
    for depth in range(leaf.kind.depth, 0, -1):
        rows = count if depth == 1 else 0
        column = Column(column, None, np.zeros(rows + 1, np.intp))
    return column._replace(present=np.zeros(count, bool))
