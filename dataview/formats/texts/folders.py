"""Folders of CSV files or of lines of JSON as one table: paths `key=value` say more columns.

They are read as folders of Parquet files are.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from dataview.formats.tables.columns import Column, Kind, Name, Table
from dataview.formats.tables.partitions import constant, files_in, key_kinds

Kinds: TypeAlias = Mapping[Name, Kind]


def has_parts(suffixes: tuple[str, ...], path: str) -> bool:
    """Whether a folder has such files in folders that are named key=value, or is named as they."""
    return _has_files(suffixes, path, path.lower().endswith(suffixes))


def _has_files(suffixes: tuple[str, ...], path: str, is_part: bool) -> bool:
    with os.scandir(path) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    if is_part and any(_is_part(entry.name, suffixes) and entry.is_file() for entry in entries):
        return True
    return any(
        "=" in entry.name and entry.is_dir() and _has_files(suffixes, entry.path, True)
        for entry in entries
    )


def _is_part(name: str, suffixes: tuple[str, ...]) -> bool:
    return name.lower().endswith(suffixes) and name[0] not in "._"


def listed(
    path: str | Sequence[str], suffixes: tuple[str, ...]
) -> list[tuple[str, Mapping[str, str]]]:
    """Return the paths of files, or of those in a folder, and what these say of their rows."""
    if not isinstance(path, str):
        return [(one, {}) for one in path]
    if not os.path.isdir(path):
        return [(path, {})]
    found = files_in(path, lambda name: _is_part(name, suffixes))
    return [(os.path.join(path, place), values) for place, values in found]


def with_keys(
    parts: Sequence[tuple[Table, Kinds]], values: Sequence[Mapping[str, str]]
) -> list[tuple[Table, Kinds]]:
    """Return tables with the columns that their paths say, unless the tables have them."""
    taken = {name[0] for _, kinds in parts for name in kinds}
    keys = key_kinds(values, taken)
    if not keys:
        return list(parts)
    return [
        (Keyed(table, {key: own.get(key) for key in keys}, keys), {**kinds, **_named(keys)})
        for (table, kinds), own in zip(parts, values, strict=True)
    ]


def _named(keys: Mapping[str, Kind]) -> dict[Name, Kind]:
    return {(key,): kind for key, kind in keys.items()}


class Keyed(Table):
    """A table with more columns, each of one value."""

    def __init__(
        self, table: Table, values: Mapping[str, str | None], keys: Mapping[str, Kind]
    ) -> None:
        super().__init__(table.title, table.starts)
        self.table, self.values, self.keys = table, values, keys
        self.reads_rows, self.joins_groups = table.reads_rows, table.joins_groups

    def __reduce__(self) -> tuple[Any, ...]:
        return Keyed, (self.table, self.values, self.keys), {"fills": self.fills}

    def read(self, names: Collection[Name], first: int, stop: int) -> Mapping[Name, Column]:
        """Return columns of some groups."""
        own = [name for name in names if name[0] not in self.keys]
        found = dict(self.table.read(own, first, stop)) if own else {}
        count = int(self.starts[stop] - self.starts[first])
        for name in names:
            if name not in found:
                found[name] = constant(self.values[name[0]], self.keys[name[0]], count)
        return found

    def close(self) -> None:
        """Close the table."""
        super().close()
        self.table.close()
