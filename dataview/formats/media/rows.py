"""Decoded files as the rows of a view: of one shape as a store, of several as ragged rows."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from dataview.compute import evaluate, run_blocks
from dataview.formats.contents import LateSource
from dataview.formats.media.decoders import Decoder, Header, named
from dataview.index import LINE, Array, Index, gather, identity, numbers_map
from dataview.index.shape_texts import shape_text
from dataview.plan.build import stored
from dataview.plan.kinds import Extents
from dataview.plan.node import DType, Node, Shape
from dataview.plan.ragged import Ragged
from dataview.samples import AnyLength, NumberedSamples, RaggedSamples
from dataview.sources import ArraySource, Memo, Opening, Recycled, Source, holds

LOOKED_AT = 1000
"""The headers of at most so many files are read when a folder is opened."""

SPREAD = 32
"""Of more files, so many headers are read, evenly spread."""

SAMPLES = 4
"""So many files are decoded instead if their headers do not tell."""

BLOCKS = 64
"""Files are decoded in about so many blocks, by threads."""


class Paths(Protocol):
    """Files by their numbers."""

    def __len__(self) -> int: ...

    def path(self, number: int) -> str:
        """Return the path of a file."""

    def where(self, number: int) -> str:
        """Return what a file is called in errors."""


@dataclass(slots=True, eq=False, repr=False)
class Rows:
    """Files that are decoded alike: what `decoder` makes of each has `extents` and a dtype."""

    files: Paths
    decoder: Decoder
    extents: Extents
    dtype: DType
    opening: Opening

    def decoded(self, number: int) -> np.ndarray:
        """Return what is in a file, or raise an error that names it."""
        self.opening.check()
        try:
            found = self.decoder.decode(self.files.path(number))
            self._check(found)
        except Exception as error:
            raise self._named(number, error) from error
        return found

    def near(self, numbers: Sequence[int]) -> Rows:
        """Return the same rows, for which files that are elsewhere are brought together."""
        bring = getattr(self.files, "near", None)
        return self if bring is None else replace(self, files=bring(numbers))

    def keep(self) -> None:
        """Have a request of which a file failed keep what was brought."""
        keep = getattr(self.files, "keep", None)
        if keep is not None:
            keep()

    def header(self, number: int) -> Header:
        """Return the header of a file, or raise an error that names it."""
        self.opening.check()
        try:
            return self.decoder.header(self.files.path(number))
        except Exception as error:
            raise self._named(number, error) from error

    def shape(self, number: int) -> Shape:
        """Return the shape that a file is decoded to, by its header."""
        return self.decoder.shape(self.header(number))[0]

    def _named(self, number: int, error: Exception) -> Exception:
        return named(self.files.path(number), _where(self.decoder, self.files, number), error)

    def _check(self, found: np.ndarray) -> None:
        """Raise if a file is unlike those whose headers were read."""
        fits = len(found.shape) == len(self.extents) and all(
            known in (None, length) for length, known in zip(found.shape, self.extents, strict=True)
        )
        if not fits:
            raise ValueError(
                f"its shape is {found.shape}, and the headers that were read say "
                f"{shape_text(self.extents)} of all; ragged=True takes files of several shapes, "
                "and headers='all' reads the headers of all files when they are opened"
            )
        if not holds(self.dtype, found.dtype):
            raise ValueError(
                f"its dtype is {found.dtype}, and the headers that were read say {self.dtype}; "
                "headers='all' reads those of all files when they are opened"
            )


def in_threads(work: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:
    """Return what is made of numbers, several at a time."""
    size = 1 + len(numbers) // BLOCKS
    blocks = [numbers[start : start + size] for start in range(0, len(numbers), size)]
    found = run_blocks(lambda block: [work(number) for number in block], blocks)
    return [one for block in found for one in block]


# --- what all files are like ---------------------------------------------------------------------


def looked_at(count: int, which: str, decoder: Decoder) -> list[int]:
    """Return the numbers of the files whose headers are read when they are opened."""
    if which not in ("few", "all"):
        raise ValueError(f"headers is 'few' or 'all'; got {which!r}")
    if which == "all" or (count <= LOOKED_AT and decoder.has_headers):
        return list(range(count))
    spread = SPREAD if decoder.has_headers else SAMPLES
    places: list[int] = np.unique(np.linspace(0, count - 1, spread).astype(int)).tolist()
    return places


def headers_read(
    files: Paths, decoder: Decoder, numbers: Sequence[int]
) -> list[tuple[int, Header]]:
    """Return headers of files with their numbers, as many as tell what all of them are like.

    Those that cannot be read raise an error when they are decoded; if there are no others, now.
    """

    def read(number: int) -> Header | Exception:
        try:
            return decoder.header(files.path(number))
        except ImportError:
            raise
        except Exception as error:
            return error

    found = in_threads(read, numbers)
    failures = [one for one in found if isinstance(one, Exception)]
    if len(failures) == len(numbers):
        where = _where(decoder, files, numbers[0])
        raise named(files.path(numbers[0]), where, failures[0]) from failures[0]
    pairs = zip(numbers, found, strict=True)
    return _telling((number, one) for number, one in pairs if isinstance(one, Header))


def _telling(headers: Iterable[tuple[int, Header]]) -> list[tuple[int, Header]]:
    """Return those of very many headers that tell what all are like.

    These are the first of each kind, and of each of its axes one on which another differs from it.
    """
    firsts: dict[Any, Header] = {}
    differing: set[Any] = set()
    kept = []
    for number, header in headers:
        kind = header.kind, header.dtype, len(header.shape)
        first = firsts.get(kind)
        if first is None:
            firsts[kind] = header
        elif header.shape == first.shape:
            continue
        else:
            axes = zip(header.shape, first.shape, strict=True)
            new = {(kind, n) for n, (own, other) in enumerate(axes) if own != other} - differing
            if not new:
                continue
            differing |= new
        kept.append((number, header))
    return kept


def _where(decoder: Decoder, files: Paths, number: int) -> str:
    return f"field {decoder.field!r}, sample {number}: {files.where(number)}"


def rows_of(
    files: Paths,
    decoder: Decoder,
    opening: Opening,
    headers: Sequence[tuple[int, Header]],
    ragged: bool | None,
) -> Rows:
    """Return files as rows that are like those of which there are headers, by their numbers."""
    fitted = decoder.fitted([(files.where(number), header) for number, header in headers])
    found = [(number, *fitted.shape(header)) for number, header in headers]
    first = found[0]
    for number, shape, dtype in found:
        if len(shape) != len(first[1]) or dtype != first[2]:
            raise ValueError(
                f"the files are not alike: {files.where(first[0])} has the shape {first[1]} and "
                f"the dtype {first[2]}, {files.where(number)} {shape} and {dtype}; open them apart"
            )
    lengths = [{*column} for column in zip(*(shape for _, shape, _ in found), strict=True)]
    extents = tuple(own.pop() if len(own) == 1 else None for own in lengths)
    if ragged is False and None in extents:
        other = next(one for one in found if one[1] != first[1])
        raise ValueError(
            f"the files differ in shape: {files.where(first[0])} has {first[1]}, "
            f"{files.where(other[0])} {other[1]}; ragged=False takes files of one shape"
        )
    if ragged or None in extents:
        extents = decoder.free(extents)
    return Rows(files, fitted, extents, first[2], opening)


# --- nodes ---------------------------------------------------------------------------------------


def node_of_rows(rows: Rows) -> Node:
    """Return the node of decoded files."""
    if None not in rows.extents:
        return stored(DecodedSource(rows))
    return RaggedFiles(FileSamples(rows), (), AnyLength(rows.extents, rows.dtype))


class DecodedSource(Source):
    """Files of one shape, each decoded when a part of it is read."""

    __slots__ = ("_memory", "dtype", "rows", "shape")
    keeps_failed = True

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.shape: Shape = (len(rows.files), *(length or 0 for length in rows.extents))
        self.dtype = rows.dtype
        self._memory = Recycled()

    def __reduce__(self) -> tuple[Any, ...]:
        return DecodedSource, (self.rows,)

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return what the index selects; each file that it needs is decoded once."""
        numbers, rest = gather.rows_and_rest(index)
        rows = rest.maps[0]
        if isinstance(rows, Array) and rows.axes == (0,) and len(rows.values) == len(numbers):
            numbers = numbers[rows.values]  # in the order that is asked for, not put in it later
            rest = Index(rest.shape, (LINE, *rest.maps[1:]))
        return gather.own(self._decoded(numbers), rest)

    def _decoded(self, numbers: np.ndarray) -> np.ndarray:
        found = self._memory.array((len(numbers), *self.shape[1:]), self.dtype)
        wanted = numbers.tolist()
        rows = self.rows.near(wanted)

        def put(place: int) -> None:
            found[place] = rows.decoded(wanted[place])

        try:
            in_threads(put, range(len(wanted)))
        except Exception:
            rows.keep()
            raise
        return found

    def describe(self) -> str:
        """Say where the files are."""
        return f"files in {self.rows.opening.path}"

    @property
    def is_closed(self) -> bool:
        """Whether the files were closed."""
        return self.rows.opening.is_closed

    def close(self) -> None:
        """Have all views of the files say that they are closed."""
        self.rows.opening.close()


class LookedUp(Source):
    """A fact of each file, found when it is asked for: `find` returns those of some numbers."""

    __slots__ = ("dtype", "find", "opening", "shape")
    keeps_failed = True

    def __init__(
        self,
        find: Callable[[np.ndarray], Any],
        count: int,
        dtype: Any,
        opening: Opening,
        row: Shape = (),
    ) -> None:
        self.find = find
        self.shape: Shape = (count, *row)
        self.dtype = np.dtype(dtype)
        self.opening = opening

    def __reduce__(self) -> tuple[Any, ...]:
        count, *row = self.shape
        return LookedUp, (self.find, count, self.dtype, self.opening, tuple(row))

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return the facts of the files that the index selects."""
        self.opening.check()
        return gather.by_rows(index, lambda numbers: np.array(self.find(numbers), self.dtype))

    def describe(self) -> str:
        """Say where the files are."""
        return f"files in {self.opening.path}"

    @property
    def is_closed(self) -> bool:
        """Whether the files were closed."""
        return self.opening.is_closed

    def close(self) -> None:
        """Have all views of the files say that they are closed."""
        self.opening.close()


def fact(rows: Rows, numbers: np.ndarray) -> list[Any]:
    """Return what the headers of files say besides shapes, such as rates."""
    return in_threads(lambda number: rows.header(number).kind, numbers.tolist())


def fact_source(rows: Rows, dtype: DType) -> LookedUp:
    """Return the store of what the headers say besides shapes."""
    return LookedUp(functools.partial(fact, rows), len(rows.files), dtype, rows.opening)


class DecodedFile(LateSource):
    """One file, decoded when it is first read."""

    __slots__ = ("rows",)

    def __init__(self, rows: Rows) -> None:
        super().__init__(tuple(length or 0 for length in rows.extents), rows.dtype, rows.opening)
        self.rows = rows

    def __reduce__(self) -> tuple[Any, ...]:
        return DecodedFile, (self.rows,)

    def loaded(self) -> Source:
        """Decode the file."""
        return ArraySource(self.rows.decoded(0))

    def describe(self) -> str:
        """Say which file it is."""
        return os.path.basename(self.rows.opening.path)


def _as_sample(found: np.ndarray) -> Node:
    return stored(ArraySource(found), False)


class FileSamples(NumberedSamples):
    """Files that are decoded one by one."""

    __slots__ = ("rows",)

    def __init__(self, rows: Rows) -> None:
        count = len(rows.files)
        super().__init__(rows.decoded, count, identity((count,)), _as_sample)
        self.rows = rows

    @property
    def place(self) -> str:
        """Where the files are."""
        return f"files in {self.rows.opening.path}"

    def sample(self, number: int) -> Node:
        """Return what is in one file; the error for it names the file already."""
        return _as_sample(self.rows.decoded(number))


class RaggedFiles(RaggedSamples):
    """Files of several shapes, each decoded when it is needed."""

    __slots__ = ()

    def in_memory(self) -> Ragged:
        """Return the files as rows in memory, decoded by threads."""
        numbers = self.numbers().tolist()
        wanted = [*dict.fromkeys(numbers)]
        samples: Any = self.samples
        near = RaggedFiles(FileSamples(samples.rows.near(wanted)), self.path, self.like)
        decoded = in_threads(lambda number: evaluate(near.sample(number)), wanted)
        made = dict(zip(wanted, decoded, strict=True))
        return self.like.rows_of([made[number] for number in numbers])

    def told_shapes(self, numbers: np.ndarray) -> np.ndarray:
        """Return how long the axes of some files are, by their headers."""
        part: Any = self.part(Index((len(numbers),), [numbers_map(numbers)]))
        files: Any = self.samples
        shapes = in_threads(files.rows.shape, part.numbers().tolist())
        axes = len(self.like.axes)
        return np.array([shape[:axes] for shape in shapes], np.intp).reshape(-1, axes)
