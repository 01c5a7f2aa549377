"""Datasets of HDF5 files, read and written by h5py; and what has their file open."""

from __future__ import annotations

import contextlib
import math
import os
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from dataview.errors import import_library, shortened
from dataview.formats.arrays.growth import Resized
from dataview.formats.arrays.plain_in_hdf5 import (
    Numbers,
    PlainData,
    RawFile,
    numbers,
    plain_data,
)
from dataview.formats.arrays.room_in_hdf5 import Room, moving_bytes, room_for_rows, room_for_slab
from dataview.formats.arrays.rows_added_to_hdf5 import Known, runs_that_change
from dataview.formats.handles import Claim, OpenFile
from dataview.index import Affine, Index, Rows, gather
from dataview.index.interrupts import held_interrupt
from dataview.index.sizes import sizes
from dataview.index.slabs import Chunks, slab_of
from dataview.plan.operations import is_present
from dataview.sources import (
    REUSED,
    ArrayLike,
    Block,
    Changing,
    Memo,
    Reference,
    Source,
    by_path,
    key_of_file,
    whole_rows,
)

_LOCAL_DRIVERS = ("sec2", "stdio", "windows")
"""The drivers of h5py whose files can be opened again by name."""

_UNREADABLE = (OSError, RuntimeError, KeyError, UnicodeError)
"""What h5py raises where a part of a file is broken."""

CACHE = {"rdcc_nbytes": 1 << 25, "rdcc_nslots": 10_007}
"""Room for the chunks of a dataset: with h5py's 1 MB, larger ones are unpacked each time."""


class H5pySource(ArrayLike):
    """A dataset in an HDF5 file, which somebody has opened.

    Its pickle has the path of the file, the name of the dataset and the mode: it is opened again.
    """

    __slots__ = (
        "_numbers", "_plain", "chunk_rows", "chunk_shape", "chunks", "file", "grows", "moving",
        "place",
    )  # fmt: skip
    takes_a_list = True
    span_times = 4  # with a step, HDF5 takes longer than for all that lies between
    near_bytes = 1 << 14
    spare_bytes = 1 << 20
    fresh = True
    reuses = True
    shows_growth = True  # HDF5 may write what it holds back at any time

    def __init__(self, dataset: Any, file: Hdf5File | None = None) -> None:
        if not dataset:
            raise ValueError("the h5py dataset is of a closed file; open the file again")
        if dataset.shape is None:
            raise ValueError(f"the h5py dataset {dataset.name} is empty: it has no shape")
        self.file = file
        path = os.path.abspath(os.fsdecode(dataset.file.filename))
        # HDF5 says of each handle that it may write if another one of the process may.
        mode = dataset.file.mode if file is None else file.mode
        self.place = (path, dataset.name, mode)
        where = f"{os.path.basename(path)}{dataset.name or ', without a name'}"
        self.grows = mode == "r" and dataset.file.swmr_mode
        super().__init__(dataset, f"h5py {where}" if file is None else where, mode != "r")
        self.chunk_shape = dataset.chunks or ()
        self.chunk_rows = dataset.chunks[0] if dataset.chunks else 1
        self.chunks = dataset.chunks and Chunks(dataset.chunks, self.dtype.itemsize)
        self._plain: PlainData | Literal[False] | None = None  # not known yet
        self._numbers: Numbers | Literal[False] | None = None
        self.moving: int | None = None  # what a chunk may need in a write, which takes long to find

    @held_interrupt()
    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return what the index selects, past HDF5 if the file can be read by its bytes.

        Ctrl-C waits for the end of a call of HDF5: it would be raised where h5py lets go of an
        object, and Python ignores it there.
        """
        if 0 in index.shape:
            return np.ndarray(index.shape, self.dtype)
        self._check()
        try:
            found = self._read_quickly(index, memo)
        except _UNREADABLE as error:
            raise self._unreadable(error) from error
        if found is None:
            self._check_shape()
            found = self._by_slabs(index)
        if self.file is not None:
            self.file.check_size()
        return found

    def _read_quickly(self, index: Index, memo: Memo) -> np.ndarray | None:
        """Return what the index selects; None if h5py's `[]` has to give it, or is as quick."""
        if self.plain is not None:
            file = self._raw_file(self.plain)
            return None if file is None else self.plain.read(file, index, memo)
        slab = slab_of(index)
        if slab is None:
            return self._among_near_rows(index)
        if not (self.writable or REUSED in memo) or self.numbers is None:
            return None
        found = self.numbers.read(slab, memo)
        return None if found is None else found.reshape(index.shape)

    def _among_near_rows(self, index: Index) -> np.ndarray | None:
        """Return what the index selects among few rows near each other; None if it does not.

        They are read whole if that unpacks no chunk more: all of a row lies in one of them.
        """
        if not self.chunks or self.chunk_shape[1:] != self.shape[1:]:
            return None
        first = index.maps[0]
        steps = [step for _, step in first.strides] if isinstance(first, Affine) else []
        if self.dtype.kind not in "iuf" or any(abs(step) > self.chunk_rows for step in steps):
            return None
        rows, within = whole_rows(Block(0, self.shape, self.dtype), index) or (None, index)
        if not isinstance(rows, range):
            return None
        found = self._run(rows.start, (len(rows), *self.shape[1:]))
        return None if found is None else gather.own(found, within)

    def rows_at_hand(self, rows: Rows) -> np.ndarray | None:
        """Return numbers of rows that follow each other, with no more ado than by h5py's `[]`."""
        if isinstance(rows, int):
            found = self.rows_at_hand(range(rows, rows + 1))
            return None if found is None else found[0]
        if not isinstance(rows, range) or rows.step != 1 or self.writable or self.grows:
            return None
        shape = (len(rows), *self.shape[1:])
        size = math.prod(shape) * self.dtype.itemsize
        if not 0 < size <= sizes.file_bytes or self.dtype.kind not in "iuf":
            return None
        if self.file is None or self.plain is not None:
            self._check()
        else:
            self.file.check()
            self.file.check_process()
        with contextlib.suppress(ValueError, *_UNREADABLE):  # reading it by a plan says why
            found = self._run(rows.start, shape)
            if self.file is not None:
                self.file.check_size()
            return found
        return None

    def _run(self, start: int, shape: tuple[int, ...]) -> np.ndarray | None:
        """Return rows from one on, None if they have to be read in another way."""
        if self.plain is not None:
            file = self._raw_file(self.plain)
            return None if file is None else self.plain.rows(file, start, shape)
        found: np.ndarray = self.array[start : start + shape[0]]
        is_as_declared = found.shape == shape and found.dtype == self.dtype
        return found.view(self.dtype) if is_as_declared else None

    def _raw_file(self, plain: PlainData) -> RawFile | None:
        """Return the file open past HDF5; it stays so with a file that was opened by its name."""
        kept = {} if self.file is None else self.file.raw
        if plain.identity not in kept:
            kept[plain.identity] = plain.opened(self.place[0])
        return kept[plain.identity]

    @property
    def plain(self) -> PlainData | None:
        """Where the elements lie, None if HDF5 has to be asked for them; to find out takes long."""
        if self._plain is None:
            self._check()
            self._plain = plain_data(self.array) or False
        return self._plain or None

    @property
    def numbers(self) -> Numbers | None:
        """The dataset as one of numbers, None if it is none; this takes long, too."""
        if self._numbers is None:
            self._numbers = numbers(self.array) or False
        return self._numbers or None

    def __reduce__(self) -> tuple[Any, ...]:
        self._check()
        file = self.array.file
        if file.driver not in _LOCAL_DRIVERS or self.array.name is None:
            raise TypeError(
                f"{self.title} cannot be pickled, since it cannot be opened again by the name of a "
                "file and a dataset; pickle the data: dv.View(view())"
            )
        if file.mode != "r":
            file.flush()  # so that who opens it again finds what was written
        return _reopened, (type(self), *self.place, self.shape, self.dtype, self.file is not None)

    @property
    def journals(self) -> Any:
        """The journals of the file, if it was opened by its name and has all of the dataset."""
        if self.file is None or self.file.claim is None or self.array.name is None:
            return None
        elsewhere = self.array.is_virtual or self.array.external
        return None if elsewhere else self.file.claim.journals

    @property
    def address(self) -> Any:
        """The name of the dataset, and what it is."""
        return self.place[1], self.shape, str(self.dtype)

    def at(self, address: Any) -> H5pySource | None:
        """Return this source if it is of the dataset, perhaps without rows that were added."""
        name, shape, dtype = address if len(address) == 3 else ("", (), None)
        if (self.place[1], str(self.dtype)) != (name, dtype):
            return None
        return self.of_shape(shape) if shape != self.shape else self

    @property
    def needs_copy(self) -> bool:  # type: ignore[override]
        """Whether a write moves parts of the file: what is packed, or has no place there yet."""
        plan = self.array.id.get_create_plist()
        if plan.get_nfilters() or self.array.dtype.hasobject:
            return True
        if self.array.chunks:
            grid = zip(self.array.shape, self.array.chunks, strict=True)
            every = math.prod(-(-length // step) for length, step in grid)
            return bool(self.array.id.get_num_chunks() != every)
        return self.array.id.get_offset() is None

    @held_interrupt()
    def settle(self) -> None:
        """Have HDF5 write what it holds back."""
        self.array.file.flush()

    def sync(self) -> None:
        """Bring the file to the device."""
        with open(self.place[0], "r+b", buffering=0) as file:
            os.fsync(file.fileno())

    @property
    def is_closed(self) -> bool:
        """Whether the file was closed, by whoever has opened it."""
        return not self.array or (self.file is not None and self.file.is_closed)

    def close(self) -> None:
        """Close the file if it was opened by its name; a file that a user opened stays open."""
        if self.file is not None:
            self.file.close()

    def _check(self) -> None:
        """Raise if the file was closed; the shape, which takes long, is asked for if need be."""
        if self.file is not None:
            self.file.check()
            self.file.check_process()
        if not self.array:
            raise ValueError(
                f"the file of {self.title} was closed; keep it open as long as its views are used, "
                "or open it again and make the view anew"
            )
        if self.grows:
            self.array.refresh()

    def _slab(self, key: Any) -> Any:
        try:
            return self._elements(key)
        except _UNREADABLE as error:
            raise self._unreadable(error) from error

    def _elements(self, key: Any) -> Any:
        return self.array[key]

    def _unreadable(self, error: Exception) -> OSError:
        """Return an error with the name of the dataset: HDF5 says what is broken, and not where."""
        return OSError(f"{self.title} cannot be read: {shortened(str(error))}")

    def _put(self, asked: Sequence[slice | np.ndarray], value: np.ndarray) -> None:
        """Write one slab, in the dtype that the dataset has with h5py's notes."""
        if self.file is not None:
            self.file.check_place()
            if self.moving is None:
                self.moving = moving_bytes(self.array)
            if self.moving and self.chunks:
                self.file.room.keep(room_for_slab(self.chunks.lengths, self.moving, asked))
        noted = self.array.dtype
        super()._put(asked, value if noted.metadata is None else value.astype(noted))

    def changed_by_growth(self, sources: Sequence[Source]) -> Iterator[Changing]:
        """Yield the files with all that HDF5 may change there: it is no part of a file whole."""
        datasets: dict[str, list[Any]] = {}
        for one in sources:
            assert isinstance(one, H5pySource)
            one._check()
            datasets.setdefault(one.place[0], []).append(one.array)
        known = {} if self.file is None else self.file.chunks
        for path, growing in datasets.items():
            growing[0].file.flush()
            if self.file is not None:
                self.file.room.store()  # gives back what was kept behind the end
            yield Changing(path, runs_that_change(growing, os.path.getsize(path), known))

    def growing(self, count: int) -> Resized:
        """Begin to add rows, where the dataset was made such that it can grow."""
        self._check()
        self._check_shape()
        most = self.array.maxshape[:1]
        if not self.array.chunks or (most != (None,) and most[0] < self.array.shape[0] + count):
            raise self.no_growth("its dataset has a fixed length (maxshape= of h5py)")
        array = self.array
        room = Room(array.file, self.place[0]) if self.file is None else self.file.room
        room.keep(room_for_rows(array, count))
        try:
            return Resized(array, count, self._anew, {id(room): room.store})
        except BaseException:
            room.store()
            raise

    def _anew(self, array: Any) -> H5pySource:
        """Return a source of the dataset as it is now."""
        return type(self)(array, self.file)

    def grows_with(self, other: Source) -> bool:
        """Whether another source is of the same dataset, which a file may have under two names."""
        return isinstance(other, H5pySource) and bool(self.array == other.array)

    def is_same(self, other: Source) -> bool:
        """Whether another source is of the same dataset, perhaps in a file opened again.

        The data of virtual and external datasets may be those of any other one.
        """
        if not isinstance(other, H5pySource) or not self.array or not other.array:
            return False  # the dataset of a closed file is neither read nor written
        elsewhere = any(one.is_virtual or one.external for one in (self.array, other.array))
        return elsewhere or bool(self.array == other.array)

    def may_be_in(self, file: Any) -> bool:
        """Whether the dataset may be in a file: it is in its own, which some drivers can tell."""
        if not self.array:
            return False
        own = self.array.file
        if self.array.is_virtual or self.array.external or own.driver != "sec2":
            return True
        return file in (None, key_of_file(own.id.get_vfd_handle()))

    def reference(self) -> Reference:
        """Return what finds the dataset by its name, as long as somebody has the file open."""
        (path, name, _), shape = self.place, self.shape
        if name is None:
            return super().reference()
        return by_path(self, (path, name), lambda: _in_open_file(path, name, shape))


class TextSource(H5pySource):
    """A dataset of texts of any length, which are read as `str`.

    HDF5 has no text that is missing: '' is None where a mask, another dataset, says so.
    """

    __slots__ = ("mask",)

    def __init__(self, dataset: Any, file: Hdf5File | None = None, mask: Any = None) -> None:
        super().__init__(dataset, file)
        self.mask = mask

    def __reduce__(self) -> tuple[Any, ...]:
        again, given = super().__reduce__()
        return again, given if self.mask is None else (*given, self.mask.name)

    def _anew(self, array: Any) -> TextSource:
        return TextSource(array, self.file, self.mask)

    def _elements(self, key: Any) -> Any:
        texts = self.array.asstr()[key]
        if self.mask is None:
            return texts
        axes = len(self.mask.shape)
        present = self.mask[key[:axes] if isinstance(key, tuple) else key]
        if not self.shape:
            return texts if present or texts else None
        beyond = tuple(range(axes, len(self.shape)))
        texts[(texts == "") & ~np.expand_dims(present, beyond)] = None
        return texts

    def _put(self, asked: Sequence[slice | np.ndarray], value: np.ndarray) -> None:
        if self.mask is not None:
            value = without_none(value)
        check_texts(value, f"what is written to {self.title}")
        super()._put(asked, value)


def without_none(texts: np.ndarray, lacking: np.ndarray | None = None) -> np.ndarray:
    """Return texts with '' in place of None, where a mask says that there is nothing.

    `lacking` are the places of which it says so; else it is one of all places.
    """
    gone = ~is_present(texts)
    return np.where(gone if lacking is None else gone & lacking, "", texts)


def check_texts(values: np.ndarray, what: str) -> None:
    """Raise if an object is no text."""
    for value in values.flat:
        if not isinstance(value, str) or "\0" in value:
            raise TypeError(
                f"{what} has {shortened(repr(value))}, and of Python's objects HDF5 holds texts "
                "without zeros alone; for what is missing, _fillna('') gives one, and .parquet, "
                ".feather and .jsonl keep it as missing"
            )


def _in_open_file(path: str, name: str, shape: tuple[int, ...]) -> H5pySource | None:
    """Return a dataset of a file that is open now, None if nobody has it open."""
    h5py = import_library("h5py", "dataview[hdf5]")
    for file in h5py.h5f.get_obj_ids(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE):
        if os.path.abspath(os.fsdecode(h5py.h5f.get_name(file))) == path:
            found = h5py.File(file).get(name)
            is_data = isinstance(found, h5py.Dataset)
            return H5pySource(found).of_shape(shape) if is_data else None
    return None


def _reopened(
    kind: type[H5pySource],
    path: str,
    name: str,
    mode: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    by_name: bool,
    mask: str | None = None,
) -> H5pySource:
    """Open a dataset again where it was unpickled."""
    h5py = import_library("h5py", "dataview[hdf5]")
    try:
        file = h5py.File(path, mode, **(CACHE if by_name else {}))
        dataset = file[name]
        others = () if mask is None else (file[mask],)
    except (OSError, KeyError) as error:
        raise type(error)(
            f"{path} was opened with mode {mode!r} when a view of {name} was pickled, and cannot "
            f"be opened so again: {error}. HDF5 lets no other process open a file that one may "
            "write: for views in several processes, open it with mode 'r'"
        ) from error
    source = kind(dataset, Hdf5File(path, mode, file) if by_name else None, *others)
    source = source.of_shape(shape)
    if (source.shape, source.dtype) != (shape, dtype):
        raise ValueError(
            f"{source.title} has changed since a view of it was pickled: it had {shape} {dtype}, "
            f"now {source.shape} {source.dtype}; make the view anew"
        )
    return source


class Hdf5File(OpenFile):
    """A file that h5py has open; what waits to be written is written before it is closed."""

    __slots__ = ("chunks", "handle", "raw", "room", "size")

    def __init__(self, path: str, mode: str, file: Any, claim: Claim | None = None) -> None:
        super().__init__(path, mode, file, claim)
        self.room = Room(file, path)
        self.handle: int = file.id.get_vfd_handle() if self.room.is_local else -1
        self.size = os.fstat(self.handle).st_size if self.room.is_local else 0
        self.chunks: Known = {}
        self.raw: dict[Any, RawFile | None] = {}
        """The files with its datasets, which may be others than itself, open past HDF5."""
        if mode != "r":
            weakref.finalize(self, _closed, self.room, claim)

    def check_size(self) -> None:
        """Raise if another program has cut the file short: HDF5 reads zeros in place of the rest.

        It is looked at after reading, so that what was cut off meanwhile is seen, too.
        """
        if not self.size or self.file is None:
            return
        now = os.fstat(self.handle).st_size
        if now < self.size and now < self.file.id.get_filesize():
            raise ValueError(
                f"{self.path} has changed since it was opened: it is cut short, from {self.size} "
                f"bytes to {now}; open it again"
            )

    def close(self) -> None:
        """Close the file, or raise and keep it open if it cannot hold what was written."""
        if self.file is not None and self.mode != "r":
            try:
                self.room.store()
            except (OSError, RuntimeError) as error:
                raise OSError(
                    f"{self.path} cannot hold what was written to it, and may be broken: "
                    f"{shortened(str(error))}; it stays open: save the view to another place, as "
                    "long as it has the data in memory"
                ) from error
        self.raw = {}
        super().close()


def _closed(room: Room, claim: Claim | None) -> None:
    """Close a file that no view needs any more, and only then let its journals go."""
    with held_interrupt():  # or the file would stay open, and claimed
        room.store()
        if room.process == os.getpid():
            room.file.close()
        if claim is not None:
            claim.release()
