"""A view becomes a file or a folder, block by block; or a file of zeros, to be filled by views."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from dataview.compute import replacing
from dataview.errors import error_at, hint, listed, unknown_option, warn
from dataview.formats.arrays import H5pySource, PackedSource, ZarrSource
from dataview.formats.catalogue import FORMATS, recover, saved_as
from dataview.formats.field_tree import Described, Leaf, described
from dataview.formats.handles import claimed, is_claimed
from dataview.formats.tables import ColumnSource
from dataview.formats.writers.arrays import Job, Writer
from dataview.formats.writers.reading import Reading, chunk_of, without_streams
from dataview.index import is_integer
from dataview.index.dtypes import dtype_of
from dataview.plan.build import stored, with_fields
from dataview.plan.fields import Attached
from dataview.plan.gaps import MASK_OF, NOTES_OF_MASKS
from dataview.plan.guards import check_ends
from dataview.plan.kinds import Record, Stored, known_dtype, known_shape, members
from dataview.plan.node import Node, Part
from dataview.plan.walk import below
from dataview.sources import ArraySource, Source, check_local
from dataview.tables import with_found_labels


def save(
    node: Node,
    path: str | bytes | os.PathLike[str],
    format: str | None = None,
    *,
    compression: str | None = None,
    chunks: Any = None,
    rows_per_part: int | None = None,
    progress: Any = None,
) -> None:
    """Write a node to a file or a folder, which appears or is replaced once all is written."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"_save takes the path of a file or a folder; got {path!r}")
    given = os.fsdecode(path)
    check_local(given)
    target = os.path.abspath(given)
    name, writer = _format_of(given, format, rows_per_part)
    options = compression, chunks, rows_per_part
    _check_options(name, writer, *options)
    check_ends(node, "saving")
    node = with_found_labels(node)
    _check_not_read(node, target, name)
    _check_whole(node)
    tree, leaves, meta = _tree(without_streams(node), name, writer, rows_per_part)
    _check_chunks(target, chunks, leaves)
    _check_keeps(node, target, name, leaves)
    if writer.is_array:
        _tell_what_stays(node, writer)
    claim = claimed(target, "w", "refuse") if is_claimed(target) else None
    try:
        recover(target, format)  # a journal may be of other files, too
        with replacing(target):
            reading = Reading(leaves, progress)
            with reading.task:
                writer.write(target, Job(leaves, tree, reading, *options, meta=meta))
    finally:
        if claim is not None:
            claim.release()


def _format_of(
    path: str, format: str | None, rows_per_part: int | None = None
) -> tuple[str, Writer]:
    """Return the format in which a path is saved, and its writer."""
    if not path:
        raise ValueError("a view is saved at the path of a file or a folder; got ''")
    if format is None and _is_of_folder(path, rows_per_part):
        format = "folder"
    name, writer = saved_as(os.path.abspath(path), format)
    if _ends_as_folder(path) and not writer.makes_folder:
        raise ValueError(
            f"{path!r} ends as the path of a folder does, and {writer.title} is one file; leave "
            f"out the {path[-1]!r}, or save with format='folder'"
        )
    return name, writer


def _ends_as_folder(path: str) -> bool:
    return path.endswith(("/", os.sep))


def _is_of_folder(path: str, rows_per_part: int | None) -> bool:
    """Whether a path without a suffix is one of a folder: it ends as one, or is to have parts.

    >>> _is_of_folder("data/", None), _is_of_folder("data", 100), _is_of_folder("data", None)
    (True, True, False)
    """
    has_suffix = os.path.splitext(os.path.abspath(path))[1] != ""
    return not has_suffix and (_ends_as_folder(path) or rows_per_part is not None)


def created(
    path: str,
    format: str | None = None,
    lock: str | None = None,
    durable: str | bool = "process",
    **options: Any,
) -> Node:
    """Make a file of zeros, which appears or is replaced, and open it to be written."""
    check_local(path)
    place = os.path.abspath(path)
    name, writer = _format_of(path, format)
    if not writer.takes_zeros:
        raise ValueError(
            f"{path}: a file of the format {name!r} is written whole, by _save, and cannot be "
            "filled; use .h5, .zarr, .npy or a folder"
        )
    for option in options:
        if option not in _OF_NEW:
            raise unknown_option(
                option, ["mode", "format", "lock", "durable", *_OF_NEW], f"open of {path!r}"
            )
    how = options.get("compression"), options.get("chunks")
    _check_options(name, writer, *how, None)
    node = _of_zeros(options)
    tree, leaves, meta = _tree(node, name, writer)
    _check_chunks(place, options.get("chunks"), leaves)
    if writer.is_array:
        _tell_what_stays(node, writer)
    filled = Reading([leaf for leaf in leaves if leaf.lays_out], False)
    own = "refuse" if lock is None and is_claimed(place) else lock
    claim = claimed(place, "w", own, durable)
    try:
        recover(place, format)  # when it is claimed: who had the file may have been killed
        with replacing(place):
            writer.write(place, Job(leaves, tree, filled, *how, meta=meta))
        return FORMATS[name].open(place, "r+", claim)
    except BaseException:
        if claim is not None:
            claim.release()
        raise


_OF_NEW = ("shape", "dtype", "like", "chunks", "compression")
"""The options of new files."""


def _of_zeros(options: Mapping[str, Any]) -> Node:
    """Return a node of the shape and the dtype that a new file is to have."""
    shape, dtype, like = map(options.get, ("shape", "dtype", "like"))
    if isinstance(like, Node):
        if shape is not None or dtype is not None:
            raise TypeError("like= has a shape and a dtype; give it, or shape= and dtype=")
        return like
    if shape is None:
        raise TypeError("mode='w' makes a new file: give shape= and dtype=, or like= a view")
    lengths = _lengths(shape)
    one = np.zeros((), dtype_of(float if dtype is None else dtype))
    return stored(ArraySource(np.broadcast_to(one, lengths)), False)


def _lengths(shape: Any) -> tuple[int, ...]:
    """Return the shape that a user gives."""
    found: tuple[Any, ...] = (shape,)
    if isinstance(shape, Sequence) and not isinstance(shape, (str, bytes)):
        found = tuple(shape)
    if not all(is_integer(length) and length >= 0 for length in found):
        raise TypeError(
            f"shape= is a length, or a tuple of lengths, such as (100, 3); got {shape!r}"
        )
    return tuple(map(int, found))


def _tree(node: Node, name: str, writer: Writer, rows_per_part: int | None = None) -> Described:
    """Return how a node is saved, if the format can hold all of its arrays."""
    if writer.is_array:
        _check_fields(node)
        if isinstance(node, Record):  # columns of an array are saved without the gaps between them
            node = with_fields(node, node.fields)
        found = Described({}, [Leaf("", node, "")], {})
    else:
        found = described(node, rows_per_part, writer.masks_texts)
    for leaf in found.leaves:
        where = f"field {leaf.name!r}" if leaf.name else "the view"
        try:
            check_ends(leaf.node, "saving")
            known_shape(leaf.node)
            dtype = known_dtype(leaf.node)
        except (TypeError, ValueError) as error:
            raise (error_at(error, where) if leaf.name else error) from error
        reason = writer.holds(leaf)
        if reason is not None:
            others = [name for name, other in _at_hand(writer) if not other.holds(leaf)]
            raise TypeError(
                f"{where} is of dtype {dtype}, and {writer.title} {reason}; {_remedy(leaf, writer)}"
                + (f", or save in a format that takes it: {', '.join(others)}" if others else "")
            )
    return found


def _remedy(leaf: Leaf, writer: Writer) -> str:
    """Return what makes of an array what a format can hold."""
    shape, dtype = known_shape(leaf.node), known_dtype(leaf.node)

    def holds(shape: tuple[int, ...], dtype: Any) -> bool:
        like = np.broadcast_to(np.zeros((), dtype), shape)
        return writer.holds(leaf._replace(node=stored(ArraySource(like), False))) is None

    if len(shape) > 1 and holds(shape[:1], dtype):
        if leaf.node.fields:
            named = ", ".join(map(repr, leaf.node.fields))
            return f"d._select({named})._save(path) saves its fields as columns"
        return "make a field of each column, such as dv.View(a=d[:, 0], b=d[:, 1])"
    if dtype.kind in "OT":
        if holds(shape, np.dtypes.StringDType()):
            return "make texts another dtype by _astype('T')"
        return (
            "make texts another dtype by _astype('U30') if none is longer than 30: longer ones "
            "would be cut"
        )
    if dtype.names:
        return f"d._select({', '.join(map(repr, dtype.names))})._save(path) saves its fields"
    if dtype.kind == "m":
        return "view / np.timedelta64(1, 's') are numbers, of seconds"
    number = "f4" if dtype.itemsize < 4 else "f8"
    if np.can_cast(dtype, number, "same_kind") and holds(shape, number):
        return f"make it another dtype by _astype({number!r})"
    return "make it another dtype by _astype"


def _tell_what_stays(node: Node, writer: Writer) -> None:
    """Warn of what is not in a file that holds one array."""
    fields, noted = _beyond_the_array(node, "")
    names = {"fields": fields, "metadata": node.meta, "metadata of": noted}
    left = [f"the {what} {', '.join(map(repr, own))}" for what, own in names.items() if own]
    if left:
        warn(
            f"{writer.title} holds the array alone: {' and '.join(left)} are not saved; .h5, "
            ".zarr, .npz and format='folder' keep them"
        )


def _beyond_the_array(node: Node, above: str) -> tuple[list[str], list[str]]:
    """Return the fields that are no columns of the array, and the columns that have metadata."""
    columns = () if node.dtype is None else node.dtype.names or ()
    fields = [above + name for name in node.fields if name not in columns]
    noted = [above + name for name in columns if name in node.fields and _has_notes(node, name)]
    inside = members(node) if isinstance(node, Record) and columns else {}
    for name, place in inside.items():
        if name in columns:
            deeper = _beyond_the_array(place.node, f"{above}{name}.")
            fields, noted = fields + deeper[0], noted + deeper[1]
    return fields, noted


def _has_notes(node: Node, name: str) -> bool:
    """Whether a field has metadata but the name of the column whose mask it is."""
    field = node.fields.named[name]
    meta = field.node.meta if isinstance(field, Attached) else field.meta
    return bool(meta.keys() - NOTES_OF_MASKS)


def _at_hand(writer: Writer) -> list[tuple[str, Writer]]:
    """Return the other ways to save, by format: those whose libraries are installed."""
    return [
        (name, row.save)
        for name, row in FORMATS.items()
        if row.save and row.save is not writer and (not row.needs or find_spec(row.needs))
    ]


def _check_options(
    name: str, writer: Writer, compression: Any, chunks: Any, rows_per_part: Any
) -> None:
    """Raise if a format does not have what a user asks for."""
    if compression is not None and compression not in writer.compressions:
        known = ", ".join(map(repr, writer.compressions))
        raise ValueError(
            f"compression= of the format {name!r} is one of {known}; got {compression!r}"
            f"{hint(str(compression), writer.compressions)}"
        )
    if chunks is not None:
        if not writer.has_chunks:
            raise TypeError(f"files of the format {name!r} have no chunks; leave chunks= out")
        is_shape = isinstance(chunks, Sequence)
        given = tuple(chunks) if is_shape else (chunks,)
        if not given or not all(is_integer(length) and length > 0 for length in given):
            raise ValueError(f"chunks= is a number of rows, or a shape; got {chunks!r}")
    if rows_per_part is not None:
        if not writer.has_parts:
            raise TypeError(
                f"a file of the format {name!r} is one file; rows_per_part= goes with "
                "format='folder'"
            )
        if not is_integer(rows_per_part) or rows_per_part < 1:
            raise ValueError(f"rows_per_part= is a number from 1 on; got {rows_per_part!r}")


def _check_chunks(path: str, chunks: Any, leaves: Sequence[Leaf]) -> None:
    """Raise if the shape of a chunk has more axes than any array, or chunks are too large."""
    most = max((len(known_shape(leaf.node)) for leaf in leaves), default=0)
    if isinstance(chunks, Sequence) and len(chunks) > most:
        what = "the field with the most axes" if len(leaves) > 1 else "the view"
        raise ValueError(
            f"chunks={tuple(chunks)} has {len(chunks)} axes, and {what} has {most}; give no more "
            "lengths than axes, the first for the rows"
        )
    for leaf in leaves if chunks is not None else ():
        shape, each = known_shape(leaf.node), known_dtype(leaf.node).itemsize
        size = each * math.prod(chunk_of(shape, known_dtype(leaf.node), chunks))
        most = min(LARGEST_CHUNK, max(each * math.prod(shape), LARGER_CHUNK))
        if size > most:
            what = f"field {leaf.name!r}" if leaf.name else "the view"
            raise ValueError(
                f"{path}: with chunks={chunks!r}, a chunk of {what} would have {size} bytes; "
                f"chunks are read and written as a whole, and have at most {most} here; give fewer "
                "rows"
            )


LARGEST_CHUNK = (1 << 32) - 1
"""HDF5 has no larger chunks."""

LARGER_CHUNK = 1 << 30
"""A chunk may have so many bytes even if the array has fewer, since rows may be added."""


def _check_not_read(node: Node, target: str, name: str) -> None:
    """Raise if a folder would be replaced whose chunks open arrays find by their numbers."""
    if name != "zarr":
        return
    place = os.path.realpath(target)
    for part in below([node], Part.held):
        source = part.source.root if isinstance(part, Stored) else None
        if isinstance(source, ZarrSource):
            own = f"{source.folder}{os.sep}"
            if own.startswith(place + os.sep) or place.startswith(own):
                raise ValueError(
                    f"the view reads {target}, and would find other chunks there once it is "
                    "replaced; save to another place, and rename it when the view is closed"
                )


def _check_keeps(node: Node, target: str, name: str, leaves: Sequence[Leaf]) -> None:
    """Raise if some fields of a file would replace it, and the others be lost."""
    place = os.path.realpath(target)
    sources = [part.source.root for part in below([node], Part.held) if isinstance(part, Stored)]
    if not any(_lies_in(source, place) for source in sources):
        return
    kept = {leaf.name for leaf in leaves}
    own = described(FORMATS[name].open(target, "r")).leaves
    there = [leaf.name for leaf in own if MASK_OF not in leaf.node.meta]  # gaps may be filled
    lost = [name for name in dict.fromkeys(there) if name not in kept]
    if lost and len({*there}) > len(kept):
        raise ValueError(
            f"the view has some of the fields of {target}, which it would replace: "
            f"{listed(lost)} would be lost; save to another path, or save the whole view"
        )


def _lies_in(source: Source, place: str) -> bool:
    """Whether an array is in a file, or in a file of a folder."""
    path: Any = source.path
    if isinstance(source, H5pySource):
        path = source.place[0]
    elif isinstance(source, PackedSource):
        path = source.zip
    elif isinstance(source, ColumnSource):
        path = source.table.path
    if not path:
        return False
    return f"{os.path.realpath(os.fsdecode(path))}{os.sep}".startswith(place + os.sep)


def _check_whole(node: Node) -> None:
    """Raise if the view is of a file with parts that cannot be read, which a copy would lack."""
    told: list[str] = []
    remedies: list[str] = []
    waiting: list[tuple[Node, tuple[str, ...]]] = [(node, ())]
    while waiting:
        part, path = waiting.pop()
        unread = part.fields.unread
        told.extend(f"{'.'.join([*path, name])!r} {why}" for name, why in unread.items())
        remedies.extend([_left_out(path, unread)] if unread else [])
        if isinstance(part, Record):
            inside = [(place.node, (*path, name)) for name, place in members(part).items()]
            waiting.extend(reversed(inside))
    if told:
        raise ValueError(
            f"a part of the opened file is not readable, and a copy would lack it: "
            f"{'; '.join(told[:MOST_TOLD])}{'; …' if len(told) > MOST_TOLD else ''}. To save the "
            f"rest, leave it out by its name: {'; '.join(dict.fromkeys(remedies))}"
        )


def _left_out(path: Sequence[str], names: Iterable[str]) -> str:
    """Return the call that leaves out parts of a group, or all of one that lies deeper."""
    given = ", ".join(map(repr, names))
    if not path:
        return f"d._drop({given})"
    if len(path) > 1:
        return f"d._drop({path[0]!r})"
    return f"d._set_field({path[0]!r}, d[{path[0]!r}]._drop({given}))"


MOST_TOLD = 20
"""Of more parts that cannot be read, an error names these."""


def _check_fields(node: Node) -> None:
    """Raise if a field shows other data than the array under it, which alone is saved."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        for name, own in part.fields.named.items():
            if isinstance(own, Attached) and own.replaces:
                names = ", ".join(map(repr, part.fields))
                raise ValueError(
                    f"field {name!r} shows other data than the array, and an array alone is saved "
                    f"here; d._select({names})._save(path) saves the fields"
                )
        if isinstance(part, Record):
            waiting.extend(place.node for place in members(part).values())
