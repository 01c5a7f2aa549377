"""The protocol of stores: how a plan reads and writes data, wherever they are."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from dataview.errors import ReadOnlyError
from dataview.index import Index, Rows, are_apart, boxed, gather, identity
from dataview.index.locks import new_rlock
from dataview.sources.sharing import Home, Reference, are_together, home_of, to_member, weak

Memo = dict[Any, Any]
"""What one evaluation has computed, so that nothing is computed twice."""

ASKED = "asked"
"""What a memo has where `rows_at_hand` was asked for the same rows before, and had none."""

Note = Callable[[Any, np.ndarray], None]
"""What is told of an open file, and of what is in it, before that is changed."""


_CHANGING = new_rlock()
"""Held while a field of records is changed: they are read and written whole, so of two threads that
change different fields of the same records one would lose what the other has written."""

WORK = 1000
"""How much NumPy may try to find out whether two strided arrays have an element in common."""


class Changing(NamedTuple):
    """A file that is changed when rows are added to it, and the runs of bytes there that may be.

    What lies behind its end does not count.  It may be replaced by another file of its name.
    """

    path: str
    runs: Sequence[tuple[int, int]]
    is_replaced: bool = False


class Source(ABC):
    """An array somewhere, read and written through an index.

    A store gives `shape`, `dtype` and `read`, and `write` if it can be changed; every verb works
    with that.  Threads may call `read` at the same time, and `write` for different places.  All
    else has defaults: a store overrides what it knows better.

    >>> import tempfile
    >>> class Raw(Source):
    ...     def __init__(self, path, shape, dtype):
    ...         self.path, self.shape, self.dtype = path, shape, np.dtype(dtype)
    ...     def open(self, mode):
    ...         return np.memmap(self.path, self.dtype, mode, shape=self.shape)
    ...     def read(self, index, memo):
    ...         return np.array(gather.read(self.open("r"), index))
    ...     def write(self, index, value):
    ...         gather.assign(self.open("r+"), index, value)
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     raw = Raw(file.name, (2, 3), "f4")
    ...     _ = file.write(bytes(24)), file.flush()
    ...     raw.write(identity((2, 3)), np.float32(7))
    ...     raw.read(identity((2, 3)), {}), raw.writable, raw.describe()
    (array([[7., 7., 7.],
           [7., 7., 7.]], dtype=float32), True, 'Raw')
    """

    __slots__ = ("__weakref__",)

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def cut_to(self, key: tuple[Any, ...]) -> Source | None:
        """Return a source of a block alone, which a pickle holds; None if it holds no data."""
        return None

    @abstractmethod
    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return the elements that the index selects: a new array, unless there is `memory`."""

    def write(self, index: Index, value: np.ndarray) -> None:
        """Write a value of the same dtype that can be broadcast to the shape of the index."""
        raise ReadOnlyError(f"the data ({self.describe()}) is read-only")

    writable: bool = False
    """Whether the data can be changed; the default is yes for a class that has `write`."""

    memory: np.ndarray | None = None
    """The array in memory that holds the data, of which `read` returns aliases."""

    lies_in_memory: bool = False
    """Whether the data are in memory, perhaps in another form: some are shown without being asked
    for."""

    path: str | os.PathLike[str] | None = None
    """The local file that holds the data, so that two sources of one file can be recognised."""

    folder: str | None = None
    """The local folder that holds the data, without links in its path, if they are in no file."""

    deterministic: bool = True
    """Whether reading the same place twice returns the same."""

    shares: bool = False
    """Whether the readings of one evaluation have work in common, which its memo holds."""

    together: Any = None
    """What reads several sources in one pass over all of them, as a table of lines does."""

    chunk_rows: int = 1
    """How many rows are read from the disk together, whichever of them are needed."""

    part_rows: tuple[int, ...] = ()
    """How many rows each part has, if the data are stored in parts."""

    chunk_shape: tuple[int, ...] = ()
    """How far what is written to the disk together reaches along the first axes; along others, all
    is.  If that is not known, `chunk_rows` are written together."""

    keeps_failed: bool = False
    """Whether a request of which a row failed knows the others, which are far away: `Made`."""

    maker: Any = None
    """The function that makes the rows one by one, None if they are stored."""

    sample_bytes: int = 0
    """How large a sample is that the function makes, with the fields that are not read here."""

    reuses: bool = False
    """Whether `read` borrows its memory and adds it to the list `memo[REUSED]`, if there is one."""

    journals: Any = None
    """What keeps updates whole if the process is killed; None if a journal has no place."""

    shows_growth: bool = False
    """Whether the file tells of rows while they are being added, and not only when all are."""

    advice: str = ""
    """What to do instead of writing to data that are read-only."""

    address: Any = None
    """What finds the array in its file when that is opened again, by `at`."""

    witness: tuple[str, bool] | None = None
    """A file in the folder that was opened, whose time tells if another program wrote the data, and
    whether a write changes that time."""

    present: Source | None = None
    """What says of each row whether it has data, if its values cannot say that it has none."""

    is_held: bool = False
    """Whether a user holds the object that has the data, and may change it without a view."""

    needs_copy: bool = False
    """Whether a killed update may leave more torn than its blocks, so that the file is copied."""

    is_alone: bool = True
    """Whether no other source is of the same data; no for a class that has `is_same`."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "is_same" in vars(cls):
            cls.is_alone = False
        if "write" in vars(cls) and "writable" not in vars(cls):
            cls.writable = True

    def describe(self) -> str:
        """Return a few words that tell a reader where the data is."""
        return type(self).__name__

    def in_file(self) -> tuple[str, tuple[str, ...]]:
        """Return the file that holds several sources, and the names of this one in it, if any.

        A display of them all names the file once.
        """
        return "", ()

    def bounds(self) -> Any:
        """Return the least and greatest of the values in groups of rows, where a file notes them.

        They are four arrays: where groups start, the least, the greatest, and whether both are
        known.  Groups in which nothing can fulfil a condition are not read.
        """
        return None

    def visits(self, order: np.ndarray | None) -> None:  # noqa: B027, most stores have no parts
        """Note in which order the parts will be read; None is the order in which they stand."""

    def part_by_part(
        self, rows: np.ndarray, sources: Sequence[Source]
    ) -> Iterator[np.ndarray] | None:
        """Yield the places of rows that several sources read together, those of a part at a time.

        By then the part is in memory, with all that the sources need of it.  None stands for rows
        that are as well read at once.
        """
        return None

    def whole(self) -> Source | None:
        """Return the source of all rows if this one has a partition of them."""
        return None

    @property
    def is_closed(self) -> bool:
        """Whether the file that the data are in was closed; a display says so."""
        return False

    def close(self) -> None:  # noqa: B027, nothing is open by default
        """Close the file that the data are in, if it was opened by its name for views."""

    def growing(self, count: int) -> Any:
        """Begin to add so many rows: what has `write(key, block)`, `finish()` and `undo()`.

        A key has slices of the new rows, and perhaps of axes behind them.  When all are written,
        `settle` brings them to the disk, and `finish` returns a source with all rows; this one
        keeps its length.  `flushes` has functions by keys: one of each key is called when all
        arrays to which rows are added were finished, or undone.
        """
        raise self.no_growth("it is no file that can grow")

    def changed_by_growth(self, sources: Sequence[Source]) -> Iterator[Changing]:
        """Yield the files that are changed when rows are added to arrays of what was opened.

        These are `sources`, one of which this is.
        """
        return iter(())

    def grows_with(self, other: Source) -> bool:
        """Whether rows that are added here are added to another source, as it is the same array."""
        return not self.is_alone and self.is_same(other)

    def no_growth(self, why: str) -> TypeError:
        """Return the error for rows that cannot be added."""
        return TypeError(
            f"no rows can be added to {self.describe()}: {why}; _append takes a view of a whole "
            ".npy, HDF5 or zarr file opened with mode 'r+', and _save makes one of any view"
        )

    def member(self, name: str) -> Source:
        """Return the source of one field of a structured dtype."""
        return Member(self, name)

    def reshaped(self, shape: tuple[int, ...]) -> Source | None:
        """Return a source of the same elements under another shape, None if an index has to do."""
        return None

    def slow_axis(self, index: Index) -> tuple[int, int]:
        """Return the axis along which a view is changed in blocks, and the bytes of a step."""
        return 0, max(1, self.dtype.itemsize * math.prod(index.shape[1:]))

    def is_fortran(self, index: Index) -> bool:
        """Whether what an index selects is read in Fortran order."""
        return False

    def memmap(self, index: Index) -> np.ndarray | None:
        """Return the elements as memory shared with the store, to be changed there, or None."""
        return None

    def rows_at_hand(self, rows: Rows) -> np.ndarray | None:
        """Return rows as a new array where this takes less than `read` does, None elsewhere."""
        return None

    def at(self, address: Any) -> Source | None:
        """Return the source that an address stands for, if this one is of the same array."""
        return self if self.address is not None and self.address == address else None

    def is_written_at_once(self, index: Index) -> bool:
        """Whether a write changes all or nothing, even if the process is killed meanwhile."""
        return False

    def run_at(self, index: Index) -> int | None:
        """Return where the one run of bytes begins that an index selects in a file, if it does."""
        return None

    @property
    def path_inside(self) -> str:
        """The path of the file in the folder that it was opened with, if it was."""
        return os.curdir

    def write_run(self, place: int, value: np.ndarray, note: Note) -> None:
        """Write one run of bytes into the file; before, `note` is called with what is there."""
        raise NotImplementedError

    def settle(self) -> None:  # noqa: B027, most stores hold nothing back
        """Hand what was written to the system, so that it stays if the process is killed."""

    def sync(self) -> None:  # noqa: B027, as above
        """Bring what was written to the device, so that it stays if the power fails."""

    def may_share(self, other: Source) -> bool:
        """Whether a write to one source may change the other."""
        ours, theirs = self.home, other.home
        if not are_together(ours.store, theirs.store):
            return False
        if self.memory is not None and other.memory is not None:
            shared = bool(np.may_share_memory(self.memory, other.memory))
            return shared or _are_other_maps(ours, theirs)
        if ours.store.kind == theirs.store.kind == "other":
            return self.root.is_same(other.root)
        if ours.store.kind == "other":
            return self.root.may_be_in(theirs.store.key)
        return theirs.store.kind != "other" or other.root.may_be_in(ours.store.key)

    def is_same(self, other: Source) -> bool:
        """Whether another source, like this one no member, is of the same data elsewhere."""
        return self is other

    def may_be_in(self, file: Any) -> bool:
        """Whether data without a path may be in a file, by its key; None if it is not known."""
        return True

    @property
    def home(self) -> Home:
        """Where the elements are, to find out quickly which other sources are there too."""
        return home_of(self)

    def may_meet(self, where: Index, other: Source, there: Index) -> bool:
        """Whether what an index selects here may be, in part, what another selects there."""
        if not self.may_share(other):
            return False
        ours, theirs = self.home, other.home
        if self is other or ours.layout == theirs.layout:
            if ours.part[0] >= theirs.part[1] or theirs.part[0] >= ours.part[1]:
                return False
            axes = len(self.shape) if self is other else ours.axes
            return not are_apart(*(Index(one.shape, one.maps[:axes]) for one in (where, there)))
        if self.memory is None or other.memory is None or _are_other_maps(ours, theirs):
            return True
        mine, its = _box_of(self.memory, where), _box_of(other.memory, there)
        return bool(np.may_share_memory(mine, its, cast(Any, WORK)))

    def reference(self) -> Reference:
        """Return what finds the data again without keeping them alive, or a file open.

        By default that is this source while it is held.  A store for which users make a source at
        each use has more to say: a swap of its rows is known only by what it overrides here.
        """
        return weak(self)

    @property
    def root(self) -> Source:
        """The source of the whole records, if this is a member of them."""
        return self

    @property
    def member_names(self) -> tuple[str, ...]:
        """The way from the whole records to this member of them."""
        return ()

    def row_of(self, sources: Sequence[Any], row: int) -> list[Any]:
        """Return a row of several sources that are read together with this one, an element each."""
        raise NotImplementedError

    def over(self, root: Source) -> Source:
        """Return the source that is to another root what this one is to its own."""
        return root


def read_from(source: Source, index: Index, memo: Memo) -> np.ndarray:
    """Return the elements of a source that an index selects, as the source has declared them.

    Users write sources, too, so what `read` has returned is compared with what it was to return.
    """
    try:
        found = source.read(index, memo)
    except MemoryError as error:
        told = f": {error}" if str(error) else ""
        raise MemoryError(
            f"{source.describe()} has no room in memory{told}; read a part of it, or use verbs "
            "that read it in blocks, such as _mean and _save"
        ) from error
    is_as_declared = isinstance(found, np.ndarray | np.generic) and (
        found.shape == index.shape and found.dtype == source.dtype
    )
    if not is_as_declared:
        got = type(found).__name__
        if isinstance(found, np.ndarray | np.generic):
            got = f"{found.dtype} of shape {found.shape}"
        raise TypeError(
            f"read() of {source.describe()} returned {got} where {source.dtype} of shape "
            f"{index.shape} was asked for; it returns an array with the shape of the index and "
            "the dtype of the source"
        )
    return found if isinstance(found, np.ndarray) else np.asarray(found, source.dtype)


class Member(Source):
    """One field of a source of records, which are read and written whole unless in memory."""

    __slots__ = ("deterministic", "dtype", "memory", "name", "parent", "path", "shape", "writable")

    def __init__(self, parent: Source, name: str) -> None:
        self.parent, self.name = parent, name
        self.path, self.writable = parent.path, parent.writable
        self.deterministic = parent.deterministic
        self.memory = None if parent.memory is None else parent.memory[name]
        field = parent.dtype[name]
        self.shape, self.dtype = parent.shape + field.shape, field.base

    @property
    def shares(self) -> bool:  # type: ignore[override]
        """Whether reading the records shares work."""
        return self.parent.shares

    @property
    def chunk_rows(self) -> int:  # type: ignore[override]
        """How many records are read from the disk together."""
        return self.parent.chunk_rows

    @property
    def chunk_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """How far the records reach that are written to the disk together."""
        return self.parent.chunk_shape

    @property
    def maker(self) -> Any:
        """What makes the records."""
        return self.parent.maker

    @property
    def journals(self) -> Any:
        """The journals of the records."""
        return self.parent.journals

    @property
    def is_held(self) -> bool:  # type: ignore[override]
        """Whether a user holds the records."""
        return self.parent.is_held

    @property
    def needs_copy(self) -> bool:  # type: ignore[override]
        """Whether the records need a copy."""
        return self.parent.needs_copy

    @property
    def address(self) -> Any:
        """The address of the records, and the name of the field."""
        return self.parent.address, self.name

    def at(self, address: Any) -> Source | None:
        """Return nothing: the records are asked."""
        return None

    def settle(self) -> None:
        """Hand over what was written of the records."""
        self.parent.settle()

    def sync(self) -> None:
        """Bring the records to the device."""
        self.parent.sync()

    def __reduce__(self) -> tuple[Any, ...]:
        return Member, (self.parent, self.name)

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return the field of the records that the index needs."""
        if self.memory is not None:
            return gather.read(self.memory, index)
        records, within = self._split(index)
        return np.array(gather.read(self.parent.read(records, memo)[self.name], within))

    def write(self, index: Index, value: np.ndarray) -> None:
        """Write the field of the records that the index needs."""
        if self.memory is not None:
            gather.assign(self.memory, index, value)
            return
        records, within = self._split(index)
        with _CHANGING:
            block = np.array(self.parent.read(records, {}))
            gather.assign(block[self.name], within, value)
            self.parent.write(records, block)

    def _split(self, index: Index) -> tuple[Index, Index]:
        """Return the index of the records, and the index within the field of these."""
        axes = len(self.parent.shape)
        if axes == len(self.shape):
            return index, identity(index.shape)
        records, within = boxed(index, axes)
        return records, Index(index.shape, (*within.maps, *index.maps[axes:]))

    def describe(self) -> str:
        """Say what the records are."""
        return self.parent.describe()

    def in_file(self) -> tuple[str, tuple[str, ...]]:
        """Return the file of the records, and their names there."""
        return self.parent.in_file()

    @property
    def is_closed(self) -> bool:
        """Whether the file of the records was closed."""
        return self.parent.is_closed

    def close(self) -> None:
        """Close the file of the records."""
        self.parent.close()

    def reference(self) -> Reference:
        """Return what finds the field again as long as the records can be found."""
        return to_member(self, self.parent.reference(), self.name, Member)

    @property
    def root(self) -> Source:
        """The source of the whole records."""
        return self.parent.root

    @property
    def member_names(self) -> tuple[str, ...]:
        """The way from the whole records to this member of them."""
        return (*self.parent.member_names, self.name)

    def over(self, root: Source) -> Source:
        """Return the source that is to another root what this one is to its own."""
        return Member(self.parent.over(root), self.name)


def _are_other_maps(ours: Home, theirs: Home) -> bool:
    """Whether two arrays lie in different maps, which may be of the same file."""
    is_other = bool(ours.space and theirs.space) and ours.space != theirs.space
    return is_other and are_together(ours.store, theirs.store)


def _box_of(array: np.ndarray, index: Index) -> np.ndarray:
    part = gather.alias(array, index) if index.is_box else None
    return array if part is None else part
