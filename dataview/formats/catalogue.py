"""The formats of files: how each is recognised and opened."""

from __future__ import annotations

import errno
import functools
import glob
import inspect
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from dataview.errors import hint, unknown_option, warn
from dataview.formats import advice
from dataview.formats.arrays import (
    has_arrays,
    open_array,
    open_array_elsewhere,
    open_folder,
    open_hdf5,
    open_matlab,
    open_netcdf,
    open_npz,
    open_pickles,
    open_safetensors,
    open_torch,
    open_zarr,
    open_zarr_elsewhere,
)
from dataview.formats.elsewhere import Way, brought, opened_elsewhere, way_in
from dataview.formats.handles import Claim, claimed, forget_writer
from dataview.formats.media import (
    MEDIA_SUFFIXES,
    is_registered,
    media_in,
    open_archive,
    open_listed,
    open_media,
)
from dataview.formats.parts import has_numbered_arrays
from dataview.formats.tables import (
    TABLE_SUFFIXES,
    has_tables,
    open_feather,
    open_parquet,
    open_parquet_elsewhere,
    open_partitions,
    open_sqlite,
)
from dataview.formats.texts import (
    CSV_SUFFIXES,
    JSON_SUFFIXES,
    PACKED,
    ZIPPED,
    has_parts,
    open_csv,
    open_json,
    open_json_lines,
    open_lines,
    with_packed,
)
from dataview.formats.writers.arrays import WRITERS, Writer
from dataview.formats.writers.csv import CSV_WRITER
from dataview.formats.writers.json import JSON_WRITER
from dataview.formats.writers.tables import TABLE_WRITERS
from dataview.plan.node import Node
from dataview.sources import file_name, files_at, in_order, is_pattern, is_url, is_zarr, shown
from dataview.write import Recovery, has_update, journals_of, recovered

Open: TypeAlias = Callable[..., Node]
"""Return the node of a file, given its path, the mode, what is held until it is closed, options."""


PAUSE = 0.02
"""After so many seconds it is tried again to open a file that a library has locked elsewhere."""

ABILITIES = ("random access", "write", "in place", "ragged", "missing values", "remote")
"""What a format may do: have parts of its arrays read, have views saved, be changed where it is,
hold rows of different lengths, say which values are missing, be read from elsewhere."""


class Format(NamedTuple):
    """How the files of a format are recognised, opened, and saved if there is a way.

    `can` names those of its abilities that `save` does not tell; `needs` is the library that is
    imported when a file is opened.  `is_folder` says whether a folder is one; if it has to look
    through the folder for that, it returns what opens it, which need not do so again.  `is_table`
    says whether several files open as one, for which `open` takes a list of paths.  `in_parts`
    opens a file elsewhere, at a Place, of which parts are read.
    """

    suffixes: tuple[str, ...]
    open: Open
    save: Writer | None = None
    magic: bytes = b""
    is_folder: Callable[[str], bool | Open | None] | None = None
    can: frozenset[str] = frozenset({"random access"})
    needs: str = ""
    is_table: bool = False
    in_parts: Open | None = None


IN_PLACE = frozenset({"random access", "in place"})
RAGGED = frozenset({"random access", "ragged"})
COLUMNS = RAGGED | {"missing values"}

ONLY_READ = (".zip", *(end for end in PACKED if end != ".gz"))
"""What is packed so is opened, and not saved."""

FORMATS = {
    "npy": Format(
        (".npy",),
        open_array,
        WRITERS["npy"],
        b"\x93NUMPY",
        can=IN_PLACE,
        in_parts=open_array_elsewhere,
    ),
    "npz": Format((".npz",), open_npz, WRITERS["npz"], b"PK\3\4", can=RAGGED),
    "hdf5": Format(
        (".h5", ".hdf5", ".hdf", ".he5", ".h5ad"),
        open_hdf5,
        WRITERS["hdf5"],
        b"\x89HDF\r\n\x1a\n",
        can=IN_PLACE | RAGGED,
        needs="h5py",
    ),
    "safetensors": Format((".safetensors",), open_safetensors, can=IN_PLACE),
    "torch": Format((".pt", ".pth"), open_torch, needs="torch"),
    "matlab": Format(
        (".mat",), open_matlab, magic=b"MATLAB ", can=frozenset({"in place"}), needs="h5py"
    ),
    "netcdf": Format(
        (".nc", ".nc4", ".cdf"),
        open_netcdf,
        magic=b"CDF",
        can=IN_PLACE | {"ragged", "missing values"},
        needs="h5py",
    ),
    "zarr": Format(
        (".zarr", ".zarr.zip"),
        open_zarr,
        WRITERS["zarr"],
        is_folder=is_zarr,
        can=IN_PLACE | RAGGED,
        needs="zarr",
        in_parts=open_zarr_elsewhere,
    ),
    "archive": Format(
        (".zip", ".tar", ".tar.gz", ".tgz"),
        open_archive,
        can=RAGGED,
        needs="Pillow, soundfile",
        is_table=True,
    ),
    "json": Format(with_packed((".json",)), open_json, can=COLUMNS, is_table=True),
    "sqlite": Format(
        (".db", ".sqlite", ".sqlite3"),
        open_sqlite,
        magic=b"SQLite format 3\0",
        can=frozenset({"random access", "missing values"}),
        is_table=True,
    ),
    "lines": Format(with_packed((".txt",)), open_lines, is_table=True),
    "image": Format(MEDIA_SUFFIXES["image"], open_media, can=frozenset(), needs="Pillow"),
    "audio": Format(MEDIA_SUFFIXES["audio"], open_media, can=frozenset(), needs="soundfile"),
    "listed": Format(MEDIA_SUFFIXES["listed"], open_listed, can=RAGGED),
    "media": Format((), open_media, is_folder=media_in, can=RAGGED, needs="Pillow, soundfile"),
    "partitions": Format((), open_partitions, is_folder=has_tables, can=COLUMNS, needs="pyarrow"),
    "parquet": Format(
        (".parquet", ".pq"),
        open_parquet,
        TABLE_WRITERS["parquet"],
        b"PAR1",
        can=COLUMNS,
        needs="pyarrow",
        is_table=True,
        in_parts=open_parquet_elsewhere,
    ),
    "feather": Format(
        (".feather", ".arrow", ".ipc"),
        open_feather,
        TABLE_WRITERS["feather"],
        b"ARROW1",
        can=COLUMNS,
        needs="pyarrow",
        is_table=True,
    ),
    "json lines": Format(
        JSON_SUFFIXES,
        open_json_lines,
        JSON_WRITER,
        is_folder=partial(has_parts, JSON_SUFFIXES),
        can=COLUMNS,
        is_table=True,
    ),
    "csv": Format(
        (*CSV_SUFFIXES, *ZIPPED),
        open_csv,
        CSV_WRITER,
        is_folder=partial(has_parts, CSV_SUFFIXES),
        can=frozenset({"random access", "missing values"}),
        is_table=True,
    ),
    "chainer-pickle": Format((), open_pickles),
    "folder": Format(
        (), open_folder, WRITERS["folder"], is_folder=has_arrays, can=IN_PLACE | RAGGED
    ),
}
"""The formats by their names; a path is opened as the first that recognises it."""


def opened(
    path: str | Sequence[str],
    mode: str,
    format: str | None = None,
    lock: str | None = None,
    durable: str | bool = "process",
    **options: Any,
) -> Node:
    """Return the node of a file or a folder; updates that a killed process left come first.

    Several files are opened as one table.
    """
    if not isinstance(path, str):
        return _together(path, mode, format, options)
    lease, given = None, path
    if is_url(path):
        way, row = way_in(options), _by_name(path, format)
        in_parts = row and row.in_parts
        if in_parts is not None:
            _check_options(in_parts, 1, options, path)
            in_parts = functools.partial(in_parts, **options)
        there = opened_elsewhere(path, mode, way, in_parts)
        if isinstance(there, Node):
            return there
        path, lease = there
    is_keyed = bool(options.get("keys")) and os.path.isdir(path)
    found = _of_tables(path) if is_keyed and format is None else _format_of([path], format)
    _check_options(found.open, 3, options, path)
    place = os.path.abspath(path)
    is_folder = found.is_table and os.path.isdir(place) and not is_keyed
    if is_folder and not (found.is_folder and found.is_folder(place)):
        raise _not_opened(place, path)
    claim: Any = claimed(place, mode, lock, durable) or lease
    try:
        while True:
            try:
                # Who had the file until it was claimed, or let go, may have been killed.
                if "in place" in found.can:
                    claim = _recovered(place, path, format, lock == "wait", claim)
                if format is None and found.open is open_folder:
                    _check_layout(place)
                return found.open(place, mode, claim, **options)
            except BlockingIOError:  # the lock of a library, which is kept longer than an update is
                if lock != "wait":
                    raise
            time.sleep(PAUSE)
    except BaseException as error:
        if lease is not None:
            error.add_note(f"{place} is a copy of {shown(given)}")
        if claim is not None:
            claim.release()
        raise


def _recovered(place: str, path: str, format: str | None, waits: bool, claim: Any) -> Any:
    """Finish or undo what a killed process left of updates; return the claim, which says so."""
    told = recover(place, format, waits=waits)
    if told:
        claim = claim or Claim(None)
        claim.note = " and ".join(sorted({f"an update was {one.outcome}" for one in told}))
        warn("; ".join(f"{path}: {one.done_now()}" for one in told))
    return claim


def _check_options(function: Open, skipped: int, options: Mapping[str, Any], path: Any) -> None:
    """Raise for an option that a function does not have behind its first parameters."""
    known = list(inspect.signature(function).parameters)[skipped:] if options else []
    for name, value in options.items():
        if name not in known:
            raise unknown_option(
                name,
                ["mode", "format", "lock", "durable", *known],
                f"open of {path!r}",
                advice.for_option(name, value, known),
            )


def _by_name(url: str, format: str | None) -> Format | None:
    """Return the format of which a URL says that its file is, if it does."""
    if format is not None:
        return FORMATS[named(format)]
    name = file_name(url).lower()
    return _by_suffix(name)


def _by_suffix(name: str) -> Format | None:
    """Return the format with the longest suffix that a name ends in: a `.csv.zip` is a table."""
    ends = [(suffix, row) for row in FORMATS.values() for suffix in row.suffixes]
    fitting = [(len(suffix), row) for suffix, row in ends if name.endswith(suffix)]
    return max(fitting, key=lambda one: one[0], default=(0, None))[1]


def _format_of(paths: Sequence[str], format: str | None) -> Format:
    """Return the format of files, which is one for all of them."""
    if not paths:
        raise ValueError("open takes the path of a file, or those of some files; got an empty list")
    if format is not None:
        return FORMATS[named(format)]
    found = recognised(paths[0])
    other = next((path for path in paths[1:] if recognised(path) != found), None)
    if other is not None:
        raise ValueError(f"files of one format open together; {paths[0]!r} and {other!r} differ")
    return found


def _of_tables(folder: str) -> Format:
    """Return the format of a folder in which, or far below which, tables are."""
    name = advice.table_below(folder, tuple(_TABLES_IN_FOLDERS))
    if name is None:
        raise _not_opened(folder, folder)
    return next(row for end, row in _TABLES_IN_FOLDERS.items() if name.lower().endswith(end))


_TABLES_IN_FOLDERS = {
    **dict.fromkeys(TABLE_SUFFIXES, FORMATS["partitions"]),
    **dict.fromkeys(CSV_SUFFIXES, FORMATS["csv"]),
    **dict.fromkeys(JSON_SUFFIXES, FORMATS["json lines"]),
}
"""The suffixes of tables of which a folder may have many as one."""


def _check_layout(folder: str) -> None:
    """Raise if nothing says what the numbered files of a folder are."""
    if has_numbered_arrays(folder):
        raise ValueError(
            f"{folder} has files whose names differ by numbers alone, which may be several things: "
            "layout='parts' opens them as parts of one array, whose rows follow one another, "
            "layout='files' as an array of which each is a row, layout='fields' as a field each"
        )


def _together(paths: Sequence[str], mode: str, format: str | None, options: dict[str, Any]) -> Node:
    """Return the node of tables whose rows follow one another."""
    found = _format_of(paths, format)
    way = way_in(options) if any(map(is_url, paths)) else Way()
    _check_options(found.open, 3, options, paths)
    told = ", ".join(map(shown, paths))
    if not found.is_table:
        known = ", ".join(name for name, row in FORMATS.items() if row.is_table)
        raise TypeError(
            f"several files open as one if they are tables ({known}); others are joined by "
            f"dv.concat([dv.open(path) for path in paths]); got {told}"
        )
    if mode != "r":
        raise ValueError(f"several files open with mode 'r'; got {mode!r} for {told}")
    here, lease = brought(paths, way)
    return found.open(here, mode, lease, **options)


def matching(pattern: str, options: Mapping[str, Any]) -> list[str] | None:
    """Return in order the files that a path or a URL with "*", "?" or "[…]" stands for.

    None is for one without these signs, or of which there is a file.
    """
    if is_url(pattern):
        if not is_pattern(pattern):
            return None
        found = sorted(files_at(way_in(dict(options)).to(pattern), "glob"), key=in_order)
    elif not any(mark in pattern for mark in "*?[") or os.path.exists(pattern):
        return None
    else:
        found = sorted(glob.glob(pattern, recursive=True), key=in_order)
    if not found:
        told = advice.for_pattern(is_elsewhere=is_url(pattern))
        raise FileNotFoundError(errno.ENOENT, told, shown(pattern))
    return found


def recover(
    path: str, format: str | None = None, action: str = "recover", waits: bool = False
) -> list[Recovery]:
    """Finish or undo the updates of a file that stopped midway, and say what was found."""
    first = os.path.realpath(path)

    def open_file(place: str) -> Node:
        forget_writer(place)
        own = format if place == first else None
        found = FORMATS[named(own)] if own is not None else recognised(place)
        return found.open(place, "r+", claimed(place, "r+", None, "process"))

    names = journals_of(first)
    if names and action != "tell" and not any(map(has_update, names)):
        forget_writer(first)  # before the journal goes by which it is known who that was
    found = recovered(first, open_file, action, waits)
    if action == "discard" or (found and action != "tell"):  # what is put back may have the mark
        forget_writer(first)
    return found


def recognised(path: str) -> Format:
    """Return the format of what is at a path: by its name, or else by what it begins with."""
    name = (file_name(path) if is_url(path) else path).lower()
    named_so = _by_suffix(name)
    if named_so is not None:
        return named_so
    if is_registered(name):
        return FORMATS["media"]
    if is_url(path):
        raise _not_opened(shown(path), shown(path))
    if os.path.isdir(path):
        for found in FORMATS.values():
            seen = found.is_folder and found.is_folder(path)
            if seen:
                return found._replace(open=seen) if callable(seen) else found
    elif os.path.isfile(path) and not advice.for_file(path):  # .xlsx begins as .npz does
        with open(path, "rb") as file:
            start = file.read(16)
        for found in FORMATS.values():
            if found.magic and start.startswith(found.magic):
                return found
    elif not os.path.exists(path) and os.path.splitext(path)[1] == "":
        raise FileNotFoundError(errno.ENOENT, advice.for_missing(path), path)
    raise _not_opened(path, path)


def _not_opened(path: str, given: str) -> ValueError:
    """Return the error for a path that no format recognises, with what may be done."""
    ends = ", ".join(found.suffixes[0] for found in FORMATS.values() if found.suffixes)
    way = advice.for_file(path)
    if os.path.isdir(path):
        tables = [suffix for row in FORMATS.values() if row.is_table for suffix in row.suffixes]
        others = [suffix for row in FORMATS.values() for suffix in row.suffixes]
        told = advice.for_folder(given, (*tables,), (*others,), (*_TABLES_IN_FOLDERS,))
        what = f"the folder {given!r}; {told}"
    else:
        what = repr(given) + (
            f", whose data are a view by {way}" if way else "; format= says what it is"
        )
    return ValueError(
        f"files that can be opened end in {ends}, and others of these kinds; got {what}"
    )


def saved_as(path: str, format: str | None) -> tuple[str, Writer]:
    """Return the format in which a file is saved, given or by its suffix, and its writer."""
    known = {name: row for name, row in FORMATS.items() if row.save is not None}
    ends = [
        suffix
        for row in known.values()
        for suffix in row.suffixes
        if not suffix.endswith(ONLY_READ)
    ]
    found = None if format is None else named(format)
    for name, row in known.items():
        if format is None and path.lower().endswith(tuple({*row.suffixes}.intersection(ends))):
            found = name
    writer = None if found is None else FORMATS[found].save
    if found is None or writer is None:
        what = repr(format if format is not None else os.path.splitext(path)[1])
        raise ValueError(
            f"views are saved as {', '.join(ends)}, or with format= as one of {', '.join(known)}; "
            f"got {path!r} ({what})"
        )
    return found, writer


def named(format: str) -> str:
    """Return the name of a format that a user gives: its name, or a suffix of its files."""
    own = format.lower()
    for name, row in FORMATS.items():
        if own == name or f".{own.lstrip('.')}" in row.suffixes:
            return name
    raise ValueError(
        f"format is one of {', '.join(FORMATS)}; got {format!r}{hint(format, FORMATS)}"
    )
