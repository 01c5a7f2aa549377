"""Folders of files, single files and lists of files opened as views: what is in each is decoded."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from dataview.errors import warn
from dataview.formats.contents import described, tree
from dataview.formats.field_tree import NAME
from dataview.formats.handles import Claim
from dataview.formats.media import images, plain, sounds
from dataview.formats.media import manifest as manifests
from dataview.formats.media.decoders import (
    add_kind,
    decoder_of,
    kind_of,
    kinds,
    suffixes_of,
    with_options,
)
from dataview.formats.media.folders import LABELS, Files, Found, found_in, suffix_of
from dataview.formats.media.listed import Listed, alone, read_list
from dataview.formats.media.manifest import Manifest
from dataview.formats.media.rows import (
    DecodedFile,
    LookedUp,
    Paths,
    Rows,
    fact_source,
    headers_read,
    looked_at,
    node_of_rows,
    rows_of,
)
from dataview.formats.parts import is_numbered
from dataview.formats.tables import TABLE_SUFFIXES, has_tables
from dataview.formats.texts.csv import CSV_SUFFIXES
from dataview.formats.texts.folders import has_parts
from dataview.formats.texts.json_lines import JSON_SUFFIXES
from dataview.plan.build import stored
from dataview.plan.node import Node
from dataview.sources import Opening

add_kind("image", images.SUFFIXES, images.Images)
add_kind("audio", sounds.SUFFIXES, sounds.Sounds)
add_kind("array", plain.ARRAY_SUFFIXES, plain.Arrays)
add_kind("text", plain.TEXT_SUFFIXES, plain.Texts)

MEDIA_SUFFIXES = {"image": images.SUFFIXES, "audio": sounds.SUFFIXES, "listed": (".lst",)}
"""The suffixes of files that are opened by their names alone, of two kinds and of lists."""


HEADER_OPTIONS = ("upright", "mono")
"""The options of decoders on which it depends what the headers say."""


@with_options
def _opened(
    seen: Found | Manifest | None,
    path: str,
    mode: str,
    claim: Claim | None = None,
    kind: str | None = None,
    labels: str | None = "first",
    headers: str = "few",
    manifest: bool | None = None,
    ragged: bool | None = None,
    *,
    options: dict[str, Any],
) -> Node:
    """Return the record of what is in the files of a folder, or what is in a single file.

    `seen` is what was found in the folder when it was recognised, or the manifest in it.
    """
    _check_mode(path, mode)
    opening = Opening(path, claim)
    if not os.path.isdir(path):
        usual = {"labels": "first", "headers": "few", "manifest": None, "ragged": None}
        given = {"labels": labels, "headers": headers, "manifest": manifest, "ragged": ragged}
        if wrong := [name for name in usual if given[name] != usual[name]]:
            raise TypeError(f"{wrong[0]}= is an option of folders; {path} is a file")
        return _alone(path, kind, options, opening)
    known = _known(seen, path, kind, options, headers, manifest)
    return node_of_files(known, opening, labels, ragged, options)


def node_of_files(
    known: Manifest,
    opening: Opening,
    labels: str | None,
    ragged: bool | None,
    options: dict[str, Any],
) -> Node:
    """Return the record of what is in files, their labels and their paths."""
    if labels not in LABELS:
        raise ValueError(f"labels is one of {', '.join(map(repr, LABELS))}; got {labels!r}")
    files = known.files
    rows = rows_of(files, decoder_of(known.kind, options), opening, known.headers, ragged)
    parts = _parts(rows)
    count = len(files)
    if labels is not None and any(folder for folder in files.folders):
        every = files.all_labels(labels).dtype
        find = functools.partial(files.labels, labels)
        parts["label"] = stored(LookedUp(find, count, every, opening))
    dtype = f"U{max(1, files.longest_path())}"
    parts["path"] = stored(LookedUp(files.paths, count, dtype, opening))
    return tree(parts, known.lost, {})


open_media = functools.partial(_opened, None)


def media_in(path: str) -> Callable[..., Node] | None:
    """Return what opens a folder with files that can be decoded, None for arrays as fields.

    It was looked through for that; of very many files that takes most of the time.
    """
    if os.path.isfile(os.path.join(path, f"{NAME}.json")):
        return None
    noted = manifests.read(path)
    if noted is not None:
        return functools.partial(_opened, noted)
    found = found_in(path, suffixes_of())
    is_of_arrays = any(
        ".npy" in names and "/" not in folder for folder, names in found.names.items()
    )
    if is_of_arrays or not found.counts() or _is_of_tables(path, found):
        return None
    if [*found.names] == [""] and [*found.names[""]] == [".txt"] and not found.others:
        _check_texts(path, found.names[""][".txt"])
    return functools.partial(_opened, found)


def _check_texts(folder: str, names: Sequence[str]) -> None:
    """Raise if texts may be parts, whose lines follow one another, as well as a row each."""
    if is_numbered(names):
        raise ValueError(
            f"{folder} has texts whose names differ by numbers alone, which may be two things: "
            "layout='parts' opens them as parts of one text, whose lines follow one another, "
            "layout='files' as texts of which each is a row"
        )


def _is_of_tables(path: str, found: Found) -> bool:
    """Whether a folder has files of tables, and no more files than these but texts about them."""
    beside = sum(found.counts().values()) - sum(
        found.counts().get(suffix, 0) for suffix in plain.TEXT_SUFFIXES
    )
    for suffixes, are_there in _TABLES:
        count = sum(found.others.get(suffix, 0) for suffix in suffixes)
        if beside <= count > 0 and are_there(path):
            return True
    return False


_TEXTS = (*CSV_SUFFIXES, *JSON_SUFFIXES)
_TABLES: tuple[tuple[Collection[str], Callable[[str], bool]], ...] = (
    (TABLE_SUFFIXES, has_tables),
    ({suffix_of(name) for name in _TEXTS}, functools.partial(has_parts, _TEXTS)),
)
"""The suffixes of tables that a folder may have as one, and what looks whether it does."""


def _known(
    seen: Found | Manifest | None,
    path: str,
    kind: str | None,
    options: dict[str, Any],
    headers: str,
    manifest: bool | None,
) -> Manifest:
    """Return the files of a folder with headers: from its manifest, or found there."""
    noted = seen if isinstance(seen, Manifest) else None
    if seen is None and manifest is not False:
        noted = manifests.read(path)
    if noted is not None and manifest is not False:
        own = {name: options[name] for name in HEADER_OPTIONS if options[name]}
        if kind in (None, noted.kind) and noted.options == own:
            return noted
    elif noted is None and manifest is None and (told := manifests.why_unfit(path)):
        warn(
            f"{path}: its manifest {told}, and the folder was looked through; "
            "manifest=True makes a new one, manifest=False passes over it"
        )
    if manifest:
        with manifests.new(path, lambda: found_in(path, suffixes_of())) as (found, finish):
            made = files_found(found, path, kind, options, "all")
            finish(made)
        return made
    found = seen if isinstance(seen, Found) else found_in(path, suffixes_of())
    return files_found(found, path, kind, options, headers)


def files_found(
    found: Found,
    path: str,
    kind: str | None,
    options: dict[str, Any],
    headers: str,
    listed: Callable[[frozenset[str]], Files] | None = None,
) -> Manifest:
    """Return those files that were found that are of a kind, with headers.

    `listed` returns the files with some suffixes if they lie in no folder of the system.
    """
    chosen = _kind(found.counts(), path) if kind is None else kind
    suffixes = suffixes_of(chosen)
    files = listed(suffixes) if listed else Files(path, found.runs(suffixes), suffixes)
    if not len(files):
        raise ValueError(f"{path} has no files of the kind {chosen!r}; {_told(found, path)}")
    decoder = decoder_of(chosen, options)
    read = headers_read(files, decoder, looked_at(len(files), headers, decoder))
    own = {name: options[name] for name in HEADER_OPTIONS if options[name]}
    return Manifest(chosen, own, files, read, _lost(found, suffixes))


@with_options
def open_listed(
    path: str,
    mode: str,
    claim: Claim | None = None,
    root: str | os.PathLike[str] | None = None,
    separator: str | None = None,
    kind: str | None = None,
    headers: str = "few",
    ragged: bool | None = None,
    *,
    options: dict[str, Any],
) -> Node:
    """Return the record of the files that the lines of a text name, with their labels."""
    _check_mode(path, mode)
    opening = Opening(path, claim)
    place = os.path.dirname(path) if root is None else os.path.abspath(os.fspath(root))
    files = read_list(path, place, separator, suffixes_of(kind))
    chosen = _kind_of_list(files) if kind is None else kind
    rows = _rows(files, chosen, options, opening, headers, ragged)
    parts = _parts(rows)
    count = len(files)
    if files.labels is not None:
        found = LookedUp(files.label_of, count, files.labels.dtype, opening, files.labels.shape[1:])
        parts["label"] = stored(found)
    dtype = f"U{max(map(len, files.names))}"
    parts["path"] = stored(LookedUp(files.paths, count, dtype, opening))
    return tree(parts, {}, {})


def _check_mode(path: str, mode: str) -> None:
    if mode != "r":
        raise ValueError(
            f"{path}: files that are decoded cannot be changed in place; open it with mode 'r'"
        )


def _alone(path: str, kind: str | None, options: Mapping[str, Any], opening: Opening) -> Node:
    """Return what is in one file, with what its header says besides as metadata."""
    chosen = kind_of(suffix_of(os.path.basename(path))) if kind is None else kind
    if chosen is None:
        raise ValueError(f"nothing decodes {path}; kind= says what it is: {', '.join(kinds())}")
    files = alone(path)
    rows = _rows(files, chosen, options, opening, "all", None)
    kept = {"image": "mode", "audio": "rate"}.get(chosen)
    meta = {} if kept is None else {kept: rows.header(0).kind}
    return described(stored(DecodedFile(rows)), meta)


def _rows(
    files: Paths,
    kind: str,
    options: Mapping[str, Any],
    opening: Opening,
    headers: str,
    ragged: bool | None,
) -> Rows:
    """Return files as rows: the headers of some are read."""
    decoder = decoder_of(kind, dict(options))
    found = headers_read(files, decoder, looked_at(len(files), headers, decoder))
    return rows_of(files, decoder, opening, found, ragged)


def _parts(rows: Rows) -> dict[str, Node]:
    """Return the field of decoded files, and those of what their headers say."""
    parts = {rows.decoder.field: node_of_rows(rows)}
    for name, dtype in rows.decoder.facts.items():
        parts[name] = stored(fact_source(rows, dtype))
    return parts


def _kind(counts: Mapping[str, int], path: str) -> str:
    """Return the kind of which there are the most files; of equally many the first."""
    totals = {name: sum(counts.get(one, 0) for one in suffixes_of(name)) for name in kinds()}
    most = max(totals, key=lambda name: totals[name])
    if not totals[most]:
        ends = ", ".join(sorted(suffixes_of()))
        raise ValueError(
            f"{path} has no files that can be decoded, which end in {ends}; "
            "dv.register_decoder(suffix, decode) has others decoded"
        )
    return most


def _kind_of_list(files: Listed) -> str:
    counts: dict[str, int] = {}
    for name in files.names:
        suffix = suffix_of(name)
        counts[suffix] = counts.get(suffix, 0) + 1
    return _kind(counts, files.key.path)


def _told(found: Found, path: str) -> str:
    have = ", ".join(f"{count} {suffix}" for suffix, count in found.counts().items())
    return f"it has {have}" if have else f"{path} is empty"


def _lost(found: Found, suffixes: Sequence[str] | frozenset[str]) -> dict[str, str]:
    """Return why other files beside are not in the view, by their suffixes."""
    own = {n: count for n, count in found.counts().items() if n not in suffixes}
    told = {
        f"*{suffix}": f"stands for {_files(count)} that kind={kind_of(suffix)!r} opens"
        for suffix, count in own.items()
    }
    return told | {
        f"*{suffix}"
        if suffix.startswith(".")
        else suffix: f"stands for {_files(count)} without a decoder"
        for suffix, count in found.others.items()
    }


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
