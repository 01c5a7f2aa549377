"""What was asked of data and has no value yet: statistics, sets of labels, kept rows.

Each is of the data as they were when it was asked for.  So a write has them taken before it changes
what they depend on; `compute` knows how.  Data whose length is found so are `Late`.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from dataview.index import Computed, Index, gather
from dataview.index.locks import new_lock
from dataview.index.progress import begin
from dataview.plan.fields import NO_FIELDS, Attached, Fields
from dataview.plan.node import Node, Part, slots_of
from dataview.plan.walk import below
from dataview.sources import Memo, Source

_lock = new_lock()
_new: dict[int, weakref.ref[Any]] = {}


def wait(photograph: Any) -> None:
    """Note that this is asked for and not taken yet; nothing is noted of what nobody holds."""
    key = id(photograph)
    _new[key] = weakref.ref(photograph, lambda gone: _forget(key))


def _forget(key: int) -> None:
    _new.pop(key, None)


def noted() -> list[Any]:
    """Return what was noted since the last time, and is still held."""
    found = []
    for key in list(_new):  # one by one: another thread may note more at the same time
        known = _new.pop(key, None)
        part = None if known is None else known()
        if part is not None:
            found.append(part)
    return found


class Photograph(Part):
    """What is found in the data of a node as they are when it is asked for; a statistic is a node.

    A kind of it has `find`.  `taken` is what was found, once it has been needed, for good; `failed`
    is the error of what could not be found before the data changed.
    """

    __slots__ = ("__weakref__", "failed", "node", "taken")
    parts: ClassVar[tuple[str, ...]] = ("node",)

    about: ClassVar[str]
    """What it is called in an explanation, and while it is found."""

    is_shown: ClassVar[bool] = False
    """Whether it is a small table that one asks for in order to see it: a display takes it, if
    that reads little.
    """

    is_of_values: ClassVar[bool] = False
    """Whether it is found in a copy of the data, too: their values and lengths are all it needs."""

    reads: ClassVar[bool] = True
    """As the function of a computed map it reads data, so its positions are not asked for early."""

    def __init__(self, node: Node) -> None:
        self.node: Node | None = node
        self.taken: np.ndarray | None = None
        self.failed: Exception | None = None
        wait(self)

    def find(self, node: Node) -> np.ndarray:
        """Return what was asked for."""
        raise NotImplementedError

    def replaced(self, **changes: Any) -> Self:
        """Return a copy with some slots changed, which waits to be taken like others."""
        other = super().replaced(**changes)
        if other.taken is None:
            wait(other)
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        kind: Any = type(self)
        return _unpickled, (kind, {slot: getattr(self, slot) for slot in slots_of(kind)})

    def prepare(self, others: Iterable[Photograph]) -> None:
        """Read what this and some of the others have in common once, before they are taken."""

    def take(self, others: Iterable[Photograph] = ()) -> None:
        """Find it before the data change; an error is raised where it is used."""
        with contextlib.suppress(Exception):  # it may be an error of another one
            self.prepare(others)
        try:
            self.array()
        except Exception as error:
            self.failed = error

    @property
    def is_decided(self) -> bool:
        """Whether it is taken, or could not be."""
        return self.taken is not None or self.failed is not None

    @property
    def is_at_hand(self) -> bool:
        """Whether it is decided, or found without reading data."""
        return self.is_decided

    def array(self) -> np.ndarray:
        """Return what was found."""
        node = self.node
        if self.failed is not None:
            raise self.failed
        if self.taken is None and node is not None:
            with begin(self.about, None):
                self.keep(self.find(node))
        assert self.taken is not None
        return self.taken

    def read_for(self, columns: Collection[str | None]) -> Node | None:
        """Return the data in which it is found for some of its columns, None if these are there."""
        return None if self.is_at_hand else self.node

    def find_in(self, copy: Node) -> None:
        """Find it in a copy of what it reads, which others read, too, unless it has been found."""
        if not self.is_decided:
            with begin(self.about, None):
                self.keep(self.find(copy))

    def has_column(self, name: str | None) -> bool:
        """Whether a column of what is found is there."""
        return self.is_decided

    def column(self, name: str) -> np.ndarray:
        """Return a column of what was found."""
        found: np.ndarray = self.array()[name]
        return found

    def keep(self, found: np.ndarray) -> None:
        """Keep what was found, unless another thread has done so."""
        found.flags.writeable = False
        with _lock:
            if self.taken is None:
                self.taken = found
                self.node = None


class RowNumbers(Photograph):
    """The number of a row for each position: it is called as the function of a computed map."""

    __slots__ = ()

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Return the rows at these positions."""
        found: np.ndarray = self.array()[positions]
        return found


@dataclass(slots=True, eq=False, repr=False)
class PhotographSource(Source):
    """What a photograph found, as data that are read when they are needed.

    Of one value that `stands_for` another, formulas show that one.
    """

    photograph: Photograph
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    name: str | None = None
    stands_for: np.ndarray | None = None

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return part of what was found."""
        own, name = self.photograph, self.name
        return gather.read(own.array() if name is None else own.column(name), index)

    def member(self, name: str) -> Source:
        """Return the source of a column of a table that is found."""
        own = self.dtype[name]
        return PhotographSource(self.photograph, self.shape + own.shape, own.base, name)

    def describe(self) -> str:
        """Say that the data are computed."""
        return "computed"


def take_tables(nodes: Iterable[Node]) -> None:
    """Take what several nodes are columns of: together, and not one column after the other."""
    seen = dict[Photograph, None]()
    for node in nodes:
        source = getattr(getattr(node, "node", node), "source", None)  # of rows of a column, too
        if isinstance(source, PhotographSource):
            photograph = source.photograph
            if photograph in seen and not photograph.has_column(source.name):
                photograph.array()
            seen[photograph] = None
    prepare(seen)


def prepare(photographs: Collection[Photograph]) -> None:
    """Read what photographs that are about to be taken have in common once."""
    for photograph in photographs if len(photographs) > 1 else ():
        photograph.prepare(photographs)


class Late(Node):
    """Data of which one length is unknown before a photograph is taken: `build(*args)` then.

    Or they are the field of that to which `path` leads.  `like` are such data with nothing along
    the `axis` of unknown length.  Only a view has this for its node: as soon as it needs more than
    dtype and fields, the data that are found take its place.
    """

    __slots__ = ("args", "axis", "build", "like", "path")
    parts = ("args", "like")

    def __init__(
        self,
        like: Node,
        build: Callable[..., Node],
        args: tuple[Any, ...],
        axis: int = 0,
        path: tuple[str, ...] = (),
    ) -> None:
        super().__init__(None, like.dtype, NO_FIELDS, like.meta)
        self.like = like
        self.build = build
        self.args = args
        self.axis = axis
        self.path = path

    @property
    def extents(self) -> tuple[int | None, ...] | None:
        """The shape without the length that is unknown."""
        known: list[int | None] = [*(self.like.extents or (0,))]
        known[self.axis] = None
        return tuple(known)

    @property
    def fields(self) -> Fields:
        """The field tree: what has a node of its own is late, too."""
        known = self.like.fields
        if self._fields is NO_FIELDS and (known.named or known.lost):
            own = {
                name: part.of(self.part(name, part.node)) if isinstance(part, Attached) else part
                for name, part in known.named.items()
            }
            self._fields = Fields(own, known.lost)
        return super().fields

    @property
    def is_found(self) -> bool:
        """Whether all that the data depend on has been taken."""
        return all(arg.taken is not None for arg in self.args if isinstance(arg, Photograph))

    def part(self, name: str, like: Node) -> Late:
        """Return a field of these data."""
        return Late(like, self.build, self.args, self.axis, (*self.path, name))


def photographs_in(*nodes: Node) -> list[Photograph]:
    """Return what was asked of data below nodes, the innermost first: labels, orders, kept rows."""
    return [part for part in below(nodes, _held) if isinstance(part, Photograph)]


def read_by_photographs(photographs: Iterable[Photograph], *nodes: Node) -> dict[Photograph, Node]:
    """Return what photographs that copies will do for read, for the columns that nodes ask for."""
    columns: dict[Photograph, set[str | None]] = {}
    for part in below(nodes, _held_by_columns):
        source = getattr(part, "source", None)
        if isinstance(source, PhotographSource):
            columns.setdefault(source.photograph, set()).add(source.name)
    some = [part for part in photographs if part.is_of_values]
    read = {part: part.read_for(columns.get(part, ())) for part in some}
    return {part: node for part, node in read.items() if node is not None}


def _held_by_columns(part: Any) -> list[Any]:
    """Return all parts that a part holds; of a table of late length the columns asked for."""
    return [part.like] if isinstance(part, Late) else _held(part)


def _held(part: Any) -> list[Any]:
    """Return all parts that a part holds, and those that find its positions in other data."""
    index = getattr(part, "index", None)
    maps = index.maps if isinstance(index, Index) else ()
    source = getattr(part, "source", None)
    own = [source.photograph] if isinstance(source, PhotographSource) else []
    return [*part.held(), *own, *(found for map_ in maps for found in _functions_of(map_))]


def _functions_of(map_: Any) -> Iterator[Part]:
    while isinstance(map_, Computed):
        if isinstance(map_.function, Part):
            yield map_.function
        map_ = map_.inner


def _unpickled(kind: Any, state: dict[str, Any]) -> Photograph:
    """Return a photograph that was sent here; what is not taken yet is asked for anew."""
    photograph: Photograph = object.__new__(kind)
    for slot, value in state.items():
        setattr(photograph, slot, value)
    if photograph.taken is None:
        wait(photograph)
    return photograph
