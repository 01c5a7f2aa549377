"""Files and folders of arrays written by block, one function for each format.

Each writes all of a new file beside the old one, which it then replaces.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import evaluate
from dataview.errors import import_library
from dataview.formats.arrays import check_texts, ended_on_error, without_none
from dataview.formats.field_tree import (
    NAME,
    Leaf,
    lengths_of_parts,
    masked_places,
    part_of,
    plain_attributes,
)
from dataview.formats.meta_text import as_text
from dataview.formats.writers.reading import Key, Reading, chunk_of
from dataview.index.interrupts import held_interrupt
from dataview.plan.build import keyed
from dataview.plan.kinds import known_dtype, known_shape, size_of
from dataview.plan.node import Node
from dataview.sources import (
    Abandoned,
    header_bytes,
    is_zarr_alone,
    new_file,
    new_folder,
    new_place,
    raw_bytes,
)


@dataclass
class Job:
    """What is written: arrays, the description of their tree, and how the user wants it.

    Arrays that `reading` does not read are left as zeros, which take no time and little room.
    """

    leaves: Sequence[Leaf]
    description: dict[str, Any]
    reading: Reading
    compression: str | None = None
    chunks: Any = None
    rows_per_part: int | None = None
    meta: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The description."""
        return as_text(self.description)


Holds = Callable[[Leaf], str | None]
"""Say why a format cannot hold an array, None if it can."""


class Writer(NamedTuple):
    """How a format is written, what it can hold, and which options it has."""

    title: str
    write: Callable[[str, Job], None]
    holds: Holds
    compressions: tuple[str, ...] = ("none",)
    has_chunks: bool = False
    has_parts: bool = False
    is_array: bool = False
    """Whether it holds one array, without a description."""
    takes_zeros: bool = True
    """Whether a file of zeros can be made, to be filled later."""
    makes_folder: bool = False
    masks_texts: bool = False
    """Whether its texts do not tell what is missing, so that those in lists need a mask."""


# --- NumPy's own ---------------------------------------------------------------------------------


def _in_npy(leaf: Leaf) -> str | None:
    shape, dtype = known_shape(leaf.node), known_dtype(leaf.node)
    if dtype.hasobject:
        return "holds numbers, dates and texts of fixed size, not Python objects"
    try:
        header_bytes(shape, dtype)
    except TypeError as error:
        return f"cannot hold it: {error}"
    return None


def _write_npy(path: str, job: Job) -> None:
    (leaf,) = job.leaves
    header, end = _header(leaf)
    with new_file(path) as file:
        file.write(header)
        job.reading.read(lambda leaf, key, block: file.write(raw_bytes(block)))
        file.truncate(end)


def _header(leaf: Leaf, rows: int | None = None) -> tuple[bytes, int]:
    """Return the header of an array, or of so many rows of it, and where its data end."""
    shape, dtype = known_shape(leaf.node), known_dtype(leaf.node)
    shape = shape if rows is None else (rows, *shape[1:])
    header = header_bytes(shape, dtype)
    return header, len(header) + dtype.itemsize * size_of(shape)


def _write_npz(path: str, job: Job) -> None:
    kind = zipfile.ZIP_DEFLATED if job.compression == "gzip" else zipfile.ZIP_STORED
    with new_file(path) as file, zipfile.ZipFile(file, "w", kind) as archive:
        archive.writestr(f"{NAME}.json", job.text)
        for group in job.reading.groups:
            with tempfile.TemporaryDirectory() as spare:
                kept = _kept_apart(job, group, spare) if len(group) > 1 else None
                for leaf in group:
                    with archive.open(f"{leaf.at}.npy", "w", force_zip64=True) as member:
                        member.write(_header(leaf)[0])
                        if kept is None:
                            job.reading.read_group(
                                group, lambda leaf, key, block: member.write(raw_bytes(block))
                            )
                            continue
                        with open(kept[leaf.at], "rb") as data:
                            shutil.copyfileobj(data, member, 1 << 20)


def _kept_apart(job: Job, group: Sequence[Leaf], folder: str) -> dict[str, str]:
    """Read arrays side by side into files of their own: an archive takes one after the other."""
    places = {leaf.at: os.path.join(folder, str(n)) for n, leaf in enumerate(group)}

    def put(leaf: Leaf, key: Key, block: np.ndarray) -> None:
        with open(places[leaf.at], "ab") as file:
            file.write(raw_bytes(block))

    for place in places.values():
        with open(place, "wb"):
            pass
    job.reading.read_group(group, put)
    return places


def _write_folder(path: str, job: Job) -> None:
    with new_folder(path, is_saved_folder) as folder:
        ends: dict[str, int] = {}
        for leaf in job.leaves:
            for at, count in _files_of(leaf, job.rows_per_part):
                place = os.path.join(folder, *f"{at}.npy".split("/"))
                os.makedirs(os.path.dirname(place), exist_ok=True)
                header, ends[place] = _header(leaf, count)
                with open(place, "wb") as file:
                    file.write(header)

        def put(leaf: Leaf, key: Key, block: np.ndarray) -> None:
            for at, part in _in_parts(leaf, key, block, job.rows_per_part):
                with open(os.path.join(folder, *f"{at}.npy".split("/")), "ab") as file:
                    file.write(raw_bytes(part))

        job.reading.read(put)
        for place, end in ends.items():
            _finish(place, end)
        with open(os.path.join(folder, f"{NAME}.json"), "wb") as file:
            file.write(job.text.encode())
            file.flush()
            os.fsync(file.fileno())


def _files_of(leaf: Leaf, step: int | None) -> list[tuple[str, int | None]]:
    """Return the places of the files of an array, and how many rows each has."""
    shape = known_shape(leaf.node)
    if not _is_in_parts(leaf, step):
        return [(leaf.at, None)]
    return [
        (part_of(leaf.at, n), rows) for n, rows in enumerate(lengths_of_parts(shape[0], step or 1))
    ]


def _in_parts(leaf: Leaf, key: Key, block: np.ndarray, step: int | None) -> Any:
    """Yield the pieces of a block with the places of the files that they are part of."""
    if step is None or not _is_in_parts(leaf, step):
        yield leaf.at, block
        return
    start, stop = key[0].start, key[0].stop
    for number in range(start // step, (stop - 1) // step + 1):
        low, high = max(start, number * step), min(stop, (number + 1) * step)
        yield part_of(leaf.at, number), block[low - start : high - start]


def _is_in_parts(leaf: Leaf, step: int | None) -> bool:
    """Whether an array is saved in several files: the lengths of ragged rows are not."""
    return step is not None and bool(leaf.node.shape) and not leaf.lays_out


def _finish(place: str, end: int) -> None:
    """Give a file its length, and have the disk keep it."""
    with open(place, "r+b") as file:
        file.truncate(end)
        os.fsync(file.fileno())


def is_saved_folder(path: str) -> bool:
    """Whether a folder is one that was saved, and nothing else was put there."""
    place = os.path.join(path, f"{NAME}.json")
    if not os.path.isfile(place):
        return False
    try:
        with open(place, "rb") as file:
            known = _places_in(json.load(file))
    except (ValueError, RecursionError):
        return False
    for folder, _, names in os.walk(path):
        for name in names:
            at = os.path.relpath(os.path.join(folder, name), path).replace(os.sep, "/")
            own = re.sub(r"(^|/)part-\d+$", "", at.removesuffix(".npy"))
            if at != f"{NAME}.json" and own not in known:
                return False
    return True


def _places_in(tree: Any) -> set[str]:
    """Return the places of all arrays that a description names."""
    if not isinstance(tree, dict):
        return set()
    own = {tree[key] for key in ("at", "lengths") if isinstance(tree.get(key), str)}
    return own.union(*map(_places_in, tree.values()))


# --- HDF5 ----------------------------------------------------------------------------------------


def _in_hdf5(leaf: Leaf) -> str | None:
    h5py = import_library("h5py", "dataview[hdf5]")
    dtype = known_dtype(leaf.node)
    if dtype.kind == "O":
        return None  # if all are texts, which is seen when they are read
    if dtype.hasobject:
        return "takes texts of fixed size or as objects, and no records of objects"
    with h5py.File("tried", "w", driver="core", backing_store=False) as file:
        try:
            is_held = file.create_dataset("x", (0,), _for_hdf5(h5py, dtype)).dtype == dtype
        except (TypeError, ValueError) as error:
            return f"cannot hold it: {error}"
    return None if is_held else "would give it back as another"


def _for_hdf5(h5py: Any, dtype: np.dtype[Any]) -> Any:
    """Return a dtype as h5py takes it: dates and texts of NumPy's kind are opaque to others."""
    if dtype.kind == "O":
        return h5py.string_dtype()
    return h5py.opaque_dtype(dtype) if dtype.kind in "mMU" else dtype


def _write_hdf5(path: str, job: Job) -> None:
    h5py = import_library("h5py", "dataview[hdf5]")
    with new_place(path) as place, Abandoned(place, path) as kept:
        with contextlib.ExitStack() as opened:
            with held_interrupt():  # raised in `kept`, which HDF5 calls, it would kill the process
                file = h5py.File(kept, "w")
                opened.callback(held_interrupt()(file.close))
                made = _begin_hdf5(h5py, file, job)
            _fill_hdf5(made, job, kept.check)
        kept.check()


def _begin_hdf5(h5py: Any, file: Any, job: Job) -> dict[str, Any]:
    """Make the datasets of a new file, with nothing in them."""
    file.attrs[NAME] = job.text
    made = {}
    for leaf in job.leaves:
        shape, dtype = known_shape(leaf.node), _for_hdf5(h5py, known_dtype(leaf.node))
        how: dict[str, Any] = {}
        if shape:
            how["chunks"] = chunk_of(shape, dtype, job.chunks)
            how["maxshape"] = (None, *(length or None for length in shape[1:]))
            if job.compression not in (None, "none"):
                how["compression"] = job.compression
                how["shuffle"] = dtype.kind != "O"
        made[leaf.at] = file.create_dataset(leaf.at, shape, dtype, **how)
    for at, meta in job.meta.items():
        place = made[at] if at in made else file.require_group(f"/{at}")
        place.attrs.update(plain_attributes(meta))
    return made


def _fill_hdf5(made: Mapping[str, Any], job: Job, check: Callable[[], None]) -> None:
    """Write the arrays to datasets; `check` raises if a block could not be written there."""
    arrays = {leaf.at: leaf.node for leaf in job.leaves}
    masked = masked_places(job.description["tree"], arrays)

    def put(leaf: Leaf, key: Key, block: np.ndarray) -> None:
        noted = made[leaf.at].dtype
        if block.dtype.kind == "O":
            if leaf.at in masked:  # which says that there is nothing
                block = without_none(block, _lacking(arrays[masked[leaf.at]], key, block))
            check_texts(block, f"field {leaf.name!r}" if leaf.name else "the view")
        made[leaf.at][key] = block if noted.metadata is None else block.astype(noted)
        check()

    job.reading.read(put, lambda leaf: (made[leaf.at].chunks or (1,))[0])


def _lacking(mask: Node, key: Key, block: np.ndarray) -> np.ndarray | None:
    """Return which elements a mask of rows takes for missing, None of a mask of elements."""
    axes = len(known_shape(mask))
    if axes == block.ndim:
        return None
    there = evaluate(keyed(mask, key[:axes]))
    return np.broadcast_to(np.expand_dims(~there, tuple(range(axes, block.ndim))), block.shape)


# --- zarr ----------------------------------------------------------------------------------------


def _in_zarr(leaf: Leaf) -> str | None:
    return None if _version_for([leaf]) else "cannot hold it"


def _version_for(leaves: Sequence[Leaf]) -> int | None:
    """Return the version of zarr's format that holds the dtypes: 3, or else 2, which holds more."""
    zarr = import_library("zarr", "dataview[zarr]")
    dtypes = {known_dtype(leaf.node) for leaf in leaves}
    for version in (3, 2):
        group = zarr.create_group(zarr.storage.MemoryStore(), zarr_format=version)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # of dtypes that version 3 does not specify
                for number, dtype in enumerate(dtypes):
                    _made(group, str(number), (1,), dtype, (1,))
                    if group[str(number)].dtype != dtype:
                        raise ValueError(dtype)
        except Exception:  # of any class: what it cannot hold, it tells in many ways
            continue
        return version
    return None


def _made(group: Any, at: str, shape: tuple[int, ...], dtype: Any, chunks: Any, **how: Any) -> Any:
    zero = np.zeros((), dtype)[()]
    return group.create_array(at, shape=shape, dtype=dtype, chunks=chunks, fill_value=zero, **how)


def _write_zarr(path: str, job: Job) -> None:
    zarr = import_library("zarr", "dataview[zarr]")
    version = _version_for(job.leaves) or 2
    with new_folder(path, is_zarr_alone) as folder:
        with held_interrupt():  # zarr would go on in a thread of its own
            made = _begin_zarr(zarr.create_group(folder, zarr_format=version), job, version)

        def put(leaf: Leaf, key: Key, block: np.ndarray) -> None:
            made[leaf.at][key or ...] = block

        with ended_on_error():
            job.reading.read(put, lambda leaf: (*made[leaf.at].chunks, 1)[0])


def _begin_zarr(group: Any, job: Job, version: int) -> dict[str, Any]:
    """Make the arrays of a new group, with nothing in them."""
    group.attrs[NAME] = job.text
    how = _compressors(version, job.compression)
    made = {}
    for leaf in job.leaves:
        shape, dtype = known_shape(leaf.node), known_dtype(leaf.node)
        chunks = chunk_of(shape, dtype, job.chunks)
        made[leaf.at] = _made(group, leaf.at, shape, dtype, chunks, **how)
    for at, meta in job.meta.items():
        place = made[at] if at in made else group.require_group(at) if at else group
        place.attrs.update(plain_attributes(meta))
    return made


def _compressors(version: int, name: str | None) -> dict[str, Any]:
    """Return the option of zarr for a compression, none for its own choice."""
    if name is None:
        return {}
    if name == "none":
        return {"compressors": None}
    if version == 2:
        codecs = import_library("numcodecs", "dataview[zarr]")
        return {
            "compressors": {"gzip": codecs.GZip, "zstd": codecs.Zstd, "blosc": codecs.Blosc}[name]()
        }
    codecs = import_library("zarr.codecs", "dataview[zarr]")
    kinds = {"gzip": codecs.GzipCodec, "zstd": codecs.ZstdCodec, "blosc": codecs.BloscCodec}
    return {"compressors": kinds[name]()}


WRITERS = {
    "npy": Writer("an .npy file", _write_npy, _in_npy, is_array=True),
    "npz": Writer("an .npz file", _write_npz, _in_npy, ("none", "gzip"), takes_zeros=False),
    "folder": Writer(
        "a folder of .npy files", _write_folder, _in_npy, has_parts=True, makes_folder=True
    ),
    "hdf5": Writer(
        "an HDF5 file",
        _write_hdf5,
        _in_hdf5,
        ("none", "gzip", "lzf"),
        has_chunks=True,
        masks_texts=True,
    ),
    "zarr": Writer(
        "a zarr folder",
        _write_zarr,
        _in_zarr,
        ("none", "gzip", "zstd", "blosc"),
        has_chunks=True,
        makes_folder=True,
    ),
}
"""How the formats are written, by the names that they have in the table of formats."""
