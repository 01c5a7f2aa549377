"""Zarr: groups are records, arrays their fields, attributes metadata; in folders and zip files."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import warnings
import weakref
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dataview.errors import import_library, shortened
from dataview.formats.arrays.growth import Resized
from dataview.formats.contents import (
    LEADS_OUT,
    NotData,
    Reached,
    as_meta,
    described,
    led_out,
    tree,
    with_arrays,
    without_arrays,
)
from dataview.formats.field_tree import NAME
from dataview.formats.handles import Claim, OpenFile
from dataview.formats.restored_tree import restored_record
from dataview.index.sizes import sizes
from dataview.index.slabs import Chunks
from dataview.plan.build import stored
from dataview.plan.kinds import Record
from dataview.plan.node import Node
from dataview.sources import (
    ZARR_MARKS,
    ArrayLike,
    Changing,
    Place,
    Reference,
    Source,
    WholeOnly,
    again,
    by_path,
    is_zarr,
    open_regular,
    shown,
)

LONGEST_WAIT = 60.0
"""So many seconds are waited for the last chunks of a write that failed."""


@contextlib.contextmanager
def ended_on_error() -> Iterator[None]:
    """Let nothing of a write go on after an error, such as while it is undone.

    The first chunk that cannot be written ends a write of zarr: the others are still on their way.
    """
    try:
        yield
    except BaseException:
        import_library("zarr.core.sync", "dataview[zarr]").sync(_others_ended())
        raise


async def _others_ended() -> None:
    import asyncio  # imported here because this takes long, and zarr has done it

    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    if tasks:
        await asyncio.wait(tasks, timeout=LONGEST_WAIT)


class ZarrSource(ArrayLike):
    """An array of zarr, in a folder or in another store."""

    __slots__ = (
        "chunk_rows",
        "chunk_shape",
        "chunks",
        "file",
        "folder",
        "process",
        "takes_a_list",
    )  # a list: each chunk once
    span_times = 4
    near_bytes = 1 << 13
    spare_bytes = 1 << 20  # whole chunks are read in any case
    fresh = True

    def __init__(self, array: Any, file: OpenFile | None = None) -> None:
        store = array.store
        self.file = file
        self.process = os.getpid()
        self.chunk_rows = int(array.chunks[0]) if array.ndim else 1
        place = getattr(store, "root", None)
        if place is None and not hasattr(store, "fs"):  # a path elsewhere may be one here, too
            place = getattr(store, "path", None)  # of a zip file
        root = getattr(place, "name", None) or type(store).__name__
        self.folder = None
        if place is not None and os.path.isdir(place):
            self.folder = os.path.join(os.path.realpath(place), array.path).rstrip("/")
        # A list for chunks in shards is refused, also by zarr's own oindex.
        shards = getattr(array, "shards", None)
        self.takes_a_list = shards is None
        self.chunk_shape = tuple(map(int, shards or array.chunks))
        path = f"{root}/{array.path}".rstrip("/")
        super().__init__(array, f"zarr {path}", not array.read_only)
        self.chunks = Chunks(self.chunk_shape, self.dtype.itemsize, self.takes_a_list, True)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.file is not None:
            self.file.check()
        return _unpickled, (self.array, self.shape)

    @property
    def journals(self) -> Any:
        """The journals of the store, if it is a folder that was opened by its name."""
        claim = None if self.file is None or self.folder is None else self.file.claim
        return None if claim is None else claim.journals

    @property
    def address(self) -> Any:
        """The path of the array in its store, and what it is."""
        return self.array.path, self.shape, str(self.dtype)

    def at(self, address: Any) -> ZarrSource | None:
        """Return this source if it is of the array, perhaps without rows that were added."""
        path, shape, dtype = address if len(address) == 3 else ("", (), None)
        if (self.array.path, str(self.dtype)) != (path, dtype):
            return None
        return self.of_shape(shape)

    @property
    def needs_copy(self) -> bool:  # type: ignore[override]
        """Whether its values are no bytes; each chunk is replaced as a whole."""
        return self.dtype.hasobject or self.dtype.kind == "T"

    @property
    def witness(self) -> tuple[str, bool] | None:  # type: ignore[override]
        """The metadata, which are written with a new array, and not with its chunks."""
        if self.folder is None:
            return None
        names = [os.path.join(self.folder, mark) for mark in ZARR_MARKS]
        return next(((name, False) for name in names if os.path.isfile(name)), None)

    def sync(self) -> None:
        """Bring all chunks to the device."""
        os.sync()

    @property
    def is_closed(self) -> bool:
        """Whether the store was closed."""
        return self.file is not None and self.file.is_closed

    def close(self) -> None:
        """Close the store if it was opened by its name."""
        if self.file is not None:
            self.file.close()

    def _check(self) -> None:
        if self.file is not None:
            self.file.check()
            if self.process != os.getpid():
                self._open_in_fork(self.file.path)
        if self.folder is not None:
            again(os.stat, self.folder)  # zarr takes chunks that are gone for zeros
        super()._check()

    def _slab(self, key: Any) -> Any:
        with self._named_in_errors("read"):
            if self.writable and not self.takes_a_list:
                with self._while_none_writes():  # zarr asks a shard where a chunk is, then reads it
                    return self.array[key]
            return self.array[key]

    def _put(self, asked: Sequence[slice | np.ndarray], value: np.ndarray) -> None:
        if self.file is not None:
            self.file.check_process()
        with self._named_in_errors("written"), ended_on_error():
            super()._put(asked, value)

    @contextlib.contextmanager
    def _named_in_errors(self, done: str) -> Iterator[None]:
        """Name the array in an error: what unpacks a broken chunk raises what it likes."""
        try:
            yield
        except OSError as error:
            if error.errno is not None and error.filename is None:
                error.filename = self.folder  # of a write: the system's message names no file
            raise
        except MemoryError as error:
            needed = self.dtype.itemsize * max(math.prod(self.shape), math.prod(self.chunk_shape))
            if needed > sizes.block_bytes:
                raise
            raise ValueError(
                f"{self.title} cannot be {done}: all of it takes {needed} bytes, but unpacking it "
                "asked for more memory than there is; a chunk is broken, or hardly any is left"
            ) from error
        except Exception as error:
            raise ValueError(
                f"{self.title} cannot be {done}: {type(error).__name__}: {shortened(str(error))}"
            ) from error

    def _open_in_fork(self, path: str) -> None:
        """Open anew what is no folder: its lock may have been held by a thread of the parent."""
        zarr = import_library("zarr", "dataview[zarr]")
        self.process = os.getpid()
        store: Any = None
        if isinstance(self.array.store, zarr.storage.ZipStore):
            store = zarr.storage.ZipStore(path, mode="r")
        elif self.file is not None and isinstance(self.file.claim, RemoteFolder):
            store = self.file.claim.store()
        if store is not None:
            self.array = zarr.open_array(store, path=self.array.path, mode="r")

    def changed_by_growth(self, sources: Sequence[Source]) -> Iterator[Changing]:
        """Yield the metadata of the arrays, and of the groups that may have a copy of them."""
        for folder in dict.fromkeys(one for source in sources for one in _folders_of(source)):
            for mark in (*ZARR_MARKS, ".zmetadata"):
                path = os.path.join(folder, mark)
                if os.path.isfile(path):
                    yield Changing(path, [(0, os.path.getsize(path))], is_replaced=True)

    def growing(self, count: int) -> ZarrGrowth:
        """Begin to add rows."""
        self._check()
        if self.file is not None:
            self.file.check_process()
        if not self.shape:
            raise self.no_growth("it has no rows")
        zarr = import_library("zarr", "dataview[zarr]")
        # Anew, since rows may have been added since: an array remembers the length that it had.
        array, file = zarr.open_array(self.array.store, path=self.array.path, mode="r+"), self.file
        return ZarrGrowth(
            array, count, lambda longer: ZarrSource(longer, file), _consolidations(array)
        )

    def is_same(self, other: Source) -> bool:
        """Whether another source is of the same path in the same store."""
        if not isinstance(other, ZarrSource):
            return False
        if self.folder is None or other.folder is None:
            return bool(self.array.store_path == other.array.store_path)
        return self.folder == other.folder

    def reference(self) -> Reference:
        """Return what opens the array again as long as its store lives; a folder always does."""
        store, path = self.array.store, self.array.path
        mode, shape = "r+" if self.writable else "r", self.shape
        if getattr(store, "root", None) is None:
            return Reference(
                self, weakref.ref(store), path, lambda held: _opened(held, path, mode, shape)
            )
        return by_path(self, str(self.array.store_path), lambda: _opened(store, path, mode, shape))


def _folders_of(source: Source) -> list[str]:
    """Return the folders of an array and of the groups above it in its store."""
    assert isinstance(source, ZarrSource) and source.folder is not None
    folders = [source.folder]
    for _ in source.array.path.split("/") if source.array.path else ():
        folders.append(os.path.dirname(folders[-1]))
    return folders


class ZarrGrowth(Resized):
    """Rows that are being added to an array of zarr: chunks first, then metadata with its length.

    A process that is killed on the way leaves the old rows, and perhaps chunks behind them that
    nobody reads: whoever adds rows writes all that comes to be seen of them.
    """

    is_told = False
    """Whether the metadata may have the new length by this, and not by others who added as many."""

    def _lengthen(self, shape: tuple[int, ...]) -> None:
        """Have an array of these chunks that is longer, in memory alone."""
        zarr = import_library("zarr", "dataview[zarr]")
        metadata = self.array.metadata.update_shape(shape)
        self.array = zarr.Array(zarr.AsyncArray(metadata, self.array.store_path))

    def finish(self) -> Source:
        """Tell of the new rows in the metadata, and return the source that has them."""
        found = self._stored()
        if found.shape != self.shape:
            raise RuntimeError(
                f"{self.source.describe()} had {self.shape[0]} rows when rows were being added to "
                f"it, and has {found.shape[0]} now: others have added some meanwhile, and of both "
                "some may be lost; let one wait for the other by lock='wait'"
            )
        self.is_told = True
        found.resize(self.array.shape)
        return self.source

    def undo(self) -> None:
        """Leave the array as it was, without the chunks; what others have added stays."""
        if self.is_told or self._stored().shape == self.shape:
            super().undo()

    def _stored(self) -> Any:
        """Return the array as it is in its store."""
        zarr = import_library("zarr", "dataview[zarr]")
        return zarr.open_array(self.array.store, path=self.array.path, mode="r+")


def _consolidations(array: Any) -> dict[Any, Callable[[], None]]:
    """Return for each group above an array what has it know the lengths of its members."""
    store, version, parts = array.store, array.metadata.zarr_format, array.path.split("/")
    return {
        (id(store), above): functools.partial(_consolidate, store, above, version)
        for above in ("/".join(parts[:count]) for count in range(len(parts)))
    }


def _consolidate(store: Any, path: str, version: int) -> None:
    """Have a group know its members as they are now, if it has the metadata of all of them."""
    zarr = import_library("zarr", "dataview[zarr]")
    try:
        group = zarr.open_group(store, path=path, mode="r+", zarr_format=version)
    except (OSError, ValueError):  # there is no group
        return
    if group.metadata.consolidated_metadata:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of version 3, which does not specify them yet
            zarr.consolidate_metadata(store, path=path, zarr_format=version)


def _unpickled(array: Any, shape: tuple[int, ...]) -> ZarrSource:
    return ZarrSource(array).of_shape(shape)


def _opened(store: Any, path: str, mode: str, shape: tuple[int, ...]) -> ZarrSource | None:
    """Return an array in a store of zarr, None if it is there no more."""
    zarr = import_library("zarr", "dataview[zarr]")
    try:
        return ZarrSource(zarr.open_array(store, path=path, mode=mode)).of_shape(shape)
    except (OSError, KeyError, ValueError):
        return None


# --- a whole store -------------------------------------------------------------------------------


def open_zarr(path: str, mode: str, claim: Claim | None = None) -> Node:
    """Return the node of a folder of zarr, or of a zip file: its metadata alone is read."""
    zarr = import_library("zarr", "dataview[zarr]")
    if not os.path.isdir(path):
        return _from_zip(zarr, path, mode, claim)
    if not is_zarr(path):
        raise ValueError(f"{path} is no folder of zarr: it has none of {', '.join(ZARR_MARKS)}")
    store = zarr.storage.LocalStore(path, read_only=mode == "r")
    return _root(zarr, OpenFile(path, mode, store, claim), mode)


def _from_zip(zarr: Any, path: str, mode: str, claim: Claim | None) -> Node:
    with open_regular(path) as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{path} is neither a folder of zarr nor a zip file with one")
    if mode != "r":
        raise ValueError(f"{path}: what is in a zip file cannot be changed in place; got {mode!r}")
    store = zarr.storage.ZipStore(path, mode="r")
    return _root(zarr, OpenFile(path, mode, store, claim), mode)


class RemoteFolder:
    """A folder of zarr elsewhere; it takes the place of a claim, which who writes one has."""

    journals = None

    def __init__(self, place: Place) -> None:
        self.place, self.note = place, f"parts of {shown(place.url)}"

    def store(self) -> Any:
        """Return a new store of zarr, which fsspec reads."""
        zarr = import_library("zarr", "dataview[zarr]")
        core = import_library("fsspec", "dataview[remote]").core
        system, path = core.url_to_fs(self.place.url, **(self.place.options or {}))
        # Not an asynchronous one of its own: nobody would close its connections.
        wrapper = import_library("fsspec.implementations.asyn_wrapper", "dataview[remote]")
        found = wrapper.AsyncFileSystemWrapper(system, asynchronous=True)
        return zarr.storage.FsspecStore(found, read_only=True, path=path)

    def release(self) -> None:
        """Do nothing: nobody waits for a folder that is only read."""


def open_zarr_elsewhere(place: Place) -> Node:
    """Return the node of a folder of zarr elsewhere: chunks are brought when they are needed."""
    name = shown(place.url)
    if name.endswith(".zip"):
        raise WholeOnly(f"{name} is a zip file, which is read whole, as a copy; leave keep= out")
    zarr = import_library("zarr", "dataview[zarr]")
    folder = RemoteFolder(place)
    return _root(zarr, OpenFile(name, "r", folder.store(), folder), "r")


def _root(zarr: Any, file: OpenFile, mode: str) -> Node:
    try:
        groups = Groups(zarr, file)
        reason = groups.led_out(file.path)
        if reason is not None:
            raise ValueError(f"{file.path} {reason}")
        found = with_arrays(file.path, groups.node(zarr.open(file.file, mode=mode)))
        return restored_record(found, found.meta.get(NAME), file.path)
    except Exception as error:  # of any class: metadata may say anything
        with contextlib.suppress(AttributeError):  # a zip file that was never opened has no close
            file.close()
        text = shortened(str(error))
        raise ValueError(
            text
            if text.startswith(file.path)
            else f"{file.path} cannot be opened as zarr: {type(error).__name__}: {text}"
        ) from error


_OWN = ("", *ZARR_MARKS, ".zattrs", ".zmetadata", "c")
"""What is looked at in the folder of a group or an array: itself, and what zarr reads there."""


class Groups:
    """The groups of a store as records; of those in folders it is known which links lead to."""

    def __init__(self, zarr: Any, file: OpenFile) -> None:
        self.zarr, self.file = zarr, file
        self.reached = Reached()

    def node(self, found: Any) -> Node:
        """Return the node of a group or an array."""
        meta = {name: as_meta(value) for name, value in dict(found.attrs).items()}
        if isinstance(found, self.zarr.Array):
            names = getattr(found.metadata, "dimension_names", None)  # of version 3
            names = meta.pop("_ARRAY_DIMENSIONS", names)  # as xarray notes them in version 2
            if names:
                meta["dimensions"] = list(names)
            return described(stored(ZarrSource(found, self.file)), meta)
        parts: dict[str, Node] = {}
        lost: dict[str, str] = {}
        names, member = _members(found, self.file)
        with self.reached.inside(self._place(found)):
            for name in names:
                try:
                    part = self._part(name, member)
                    if not isinstance(part, Record) or part.fields:
                        parts[name] = part
                    else:
                        lost[name] = without_arrays(part)
                except Exception as error:  # of any class, as above
                    is_known = isinstance(error, NotData)
                    text = shortened(str(error))
                    lost[name] = text if is_known else f"is broken: {type(error).__name__}: {text}"
        return tree(parts, lost, meta)

    def _part(self, name: str, member: Callable[[str], Any]) -> Node:
        """Return the node of what a group has under a name."""
        if not name:  # of a file of zip, "/zarr.json", which zarr takes for the group itself
            raise NotData(LEADS_OUT)
        reason = self.led_out(os.path.join(self.reached.above[-1], name))
        if reason is not None:
            raise NotData(reason)
        found = member(name)
        if not isinstance(found, self.zarr.Array):
            self.reached.check(self._place(found))
        return self.node(found)

    def led_out(self, place: str) -> str | None:
        """Return why a group or an array is no field if links lead out of what was opened.

        Chunks may be very many: of these only the folder that version 3 has is looked at.
        """
        if not os.path.isdir(self.file.path):
            return None
        reasons = (led_out(os.path.join(place, name), self.file.path) for name in _OWN)
        return next(filter(None, reasons), None)

    def _place(self, group: Any) -> str:
        """Return what tells a group from others: its folder, to which several links may lead."""
        if not os.path.isdir(self.file.path):  # in a file of zip, or elsewhere, there are none
            return str(group.path)
        return os.path.realpath(os.path.join(self.file.path, group.path))


def _members(group: Any, file: OpenFile) -> tuple[list[str], Callable[[str], Any]]:
    """Return the names of the members of a group, and what opens one by its name.

    zarr lists all members or none; if one is broken, they are looked up by their folders.
    """
    try:
        known = dict(group.members())
        return sorted(known), known.__getitem__
    except Exception:
        folder = os.path.join(file.path, group.path)
        if not os.path.isdir(folder):
            raise
        names = [name for name in sorted(os.listdir(folder)) if is_zarr(f"{folder}/{name}")]
        return names, group.__getitem__
