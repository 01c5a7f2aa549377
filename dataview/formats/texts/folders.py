"""Folders of CSV files or of lines of JSON as one table: paths `key=value` say more columns.

They are read as folders of Parquet files are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from dataview.formats.tables.columns import Kind, Name, Table
from dataview.formats.tables.partitions import (
    FileTable,
    checked_keys,
    files_in,
    has_files,
    with_keys,
)

Kinds: TypeAlias = Mapping[Name, Kind]


def has_parts(suffixes: tuple[str, ...], path: str) -> bool:
    """Whether a folder has such files in folders that are named key=value, or is named as they."""
    is_part = path.lower().endswith(suffixes)
    return has_files(path, lambda name: _is_part(name, suffixes), is_part)


def _is_part(name: str, suffixes: tuple[str, ...]) -> bool:
    return name.lower().endswith(suffixes) and name[0] not in "._"


def listed(
    path: str | Sequence[str], suffixes: tuple[str, ...], keys: Any = ()
) -> list[tuple[str, Mapping[str, str]]]:
    """Return the paths of files, or of those in a folder, and what these say of their rows."""
    own = checked_keys(keys)
    if isinstance(path, str) and os.path.isdir(path):
        found = files_in(path, lambda name: _is_part(name, suffixes), own)
        if not found:
            raise ValueError(f"{path} has no files that end in {', '.join(suffixes)}")
        return [(os.path.join(path, place), values) for place, values in found]
    paths = [path] if isinstance(path, str) else path
    if own:
        raise ValueError(f"keys= is an option of folders; got {', '.join(paths)}")
    return [(one, {}) for one in paths]


def keyed(
    parts: Sequence[tuple[Table, Kinds]], values: Sequence[Mapping[str, str]]
) -> Sequence[tuple[Table, Kinds]]:
    """Return tables with the columns that their paths say."""
    if not any(values):
        return parts
    own = zip(parts, values, strict=True)
    return with_keys([FileTable(table, kinds, said) for (table, kinds), said in own])
