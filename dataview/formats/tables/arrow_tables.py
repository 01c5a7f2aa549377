"""Tables in files that Arrow reads: a file at a path that stays as it is, its columns converted."""

from __future__ import annotations

import contextlib
import itertools
import os
import zlib
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dataview.errors import shortened
from dataview.formats.contents import described
from dataview.formats.tables.arrow import Leaf, arrow, without_codes
from dataview.formats.tables.arrow_values import (
    columns_of,
    dictionaries_in,
    labels_in,
    noted_labels,
    one_array,
    told_labels,
)
from dataview.formats.tables.column_nodes import table_node
from dataview.formats.tables.columns import Column, Name, Table
from dataview.plan.gaps import tells_present
from dataview.plan.node import Node
from dataview.sources import Opening, again

MOST_COLUMNS = 1 << 17
"""A file with more columns is taken for a broken one: each takes some memory and time."""

MOST_ROWS = 1 << 48
"""A file that says it has more rows is taken for a broken one."""

MOST_UNPACKED = 1 << 29
MOST_TIMES = 100
"""What would have more bytes in memory, and so many times as many as in the file, is refused."""


class ArrowTable(Table):
    """A file that Arrow reads; `leaves` are its columns, `lost` those that cannot be viewed."""

    kept_bytes = 128 << 20  # groups of texts are large, and rows in no order are in several

    def __init__(self, path: str, opening: Opening, keeps_open: bool = True) -> None:
        """Open a file, which stays open between reads or not: thousands in a folder may not."""
        self.path, self.opening, self.keeps_open = path, opening, keeps_open
        self.leaves: dict[Name, Leaf] = {}
        self.lost: dict[str, str] = {}
        self.meta: dict[str, Any] = {}
        self.dictionaries: dict[Name, Any] = {}  # those of codes; None for texts kept so
        self.seen = self.look()
        with named_in_errors(path):
            starts = self.load()
        super().__init__(os.path.basename(path), starts)

    @abstractmethod
    def load(self) -> np.ndarray:
        """Read the description of the file; return where groups of rows start."""

    @abstractmethod
    def arrays(self, names: Collection[Name], first: int, stop: int) -> Any:
        """Return an Arrow table that has some columns of some groups, and perhaps others."""

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return self.seen[2]

    def look(self) -> tuple[int, int, int, int]:
        """Return what tells a file from another, and from itself when it has been written again."""
        found = os.stat(self.path)
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (type(self), self.path, self.opening, self.signature(), dict(self.fills))

    def signature(self) -> int:
        """Return a number that tells the columns and groups of a file from others."""
        kinds = [(name, leaf.kind) for name, leaf in self.leaves.items()]
        told = kinds, self.starts.tolist(), self.seen[2:]
        return zlib.crc32(repr(told).encode(errors="backslashreplace"))

    def check(self) -> None:
        """Raise if the file was closed, or is another by now."""
        self.opening.check()
        if self.seen != again(lambda _: self.look(), self.path):
            raise ValueError(f"{self.path} has changed since it was opened; open it again")

    def column(self, name: Name, first: int, stop: int, names: Collection[Name] = ()) -> Column:
        """Return a column of some groups, read or kept, of a file that is as it was."""
        self.check()  # what is kept may lie in the pages of the file
        return super().column(name, first, stop, names)

    def read(self, names: Collection[Name], first: int, stop: int) -> Mapping[Name, Column]:
        """Return columns of some groups of rows."""
        self.check()
        with self.named(*names):
            count = int(self.starts[stop] - self.starts[first])
            self._check_count(names, count)
            table = self.arrays(names, first, stop)
            if table.num_rows != count:
                raise ValueError(f"it has {table.num_rows} rows, and {count} were promised")
            found: dict[Name, Column] = {}
            for own, column in zip(table.schema.names, table.columns, strict=True):
                found.update(columns_of(one_array(column), (own,), self.dictionaries))
        return {name: found[name] for name in names}

    def named(self, *names: Name) -> contextlib.AbstractContextManager[object]:
        """Return what names columns and the file in errors of Arrow."""
        own = dict.fromkeys(name[:-1] if tells_present(name) else name for name in names)
        told = ", ".join(repr(".".join(name)) for name in own)
        return named_in_errors(f"column {told} of {self.path}")

    def _check_count(self, names: Collection[Name], count: int) -> None:
        """Raise if a small file says that it has very many rows."""
        for name in names:
            size = count * self.leaves[name].kind.dtype.itemsize
            if size > max(MOST_UNPACKED, MOST_TIMES * self.size):
                raise ValueError(too_large(self.size, size))

    def find_labels(self) -> None:
        """Read the dictionaries of all groups: codes are by the labels of all of them."""
        types = arrow().types
        names = []
        for name, leaf in self.leaves.items():
            if types.is_dictionary(leaf.type) and name not in self.dictionaries:
                labels = noted_labels(leaf)
                if labels is None:
                    names.append(name)
                else:
                    self.dictionaries[name] = labels
        if not names:
            return
        with named_in_errors(self.path):
            met: dict[Name, list[Any]] = {name: [] for name in names}
            for group in range(len(self.starts) - 1):
                table = self.arrays(names, group, group + 1)
                for own, column in zip(table.schema.names, table.columns, strict=True):
                    for name, labels in dictionaries_in(column, (own,)):
                        if name in met and not any(labels.equals(one) for one in met[name]):
                            met[name].append(labels)
            for name, found in met.items():
                if found:
                    self.dictionaries[name] = labels_in(found)
                if any(labels.null_count for labels in found):
                    leaf = self.leaves[name]
                    has_lists = bool(leaf.kind.shape) and not leaf.kind.depth
                    kind = leaf.kind._replace(has_missing=True, lacks_elements=has_lists)
                    self.leaves[name] = leaf._replace(kind=kind)

    def decode(self, name: Name) -> None:
        """Have a column of codes be one of what these stand for."""
        self.find_labels()  # which tell whether some stand for nothing
        self.leaves[name] = without_codes(self.leaves[name])
        self.dictionaries[name] = None

    def node(self, fill: Any) -> Node:
        """Return the record of the columns."""
        self.find_labels()
        metas = {name: {**leaf.meta, **self._labels(name)} for name, leaf in self.leaves.items()}
        kinds = {name: leaf.kind for name, leaf in self.leaves.items()}
        if not kinds:
            raise ValueError(
                f"{self.path} has no columns that can be viewed"
                + "".join(f"; {name!r} {why}" for name, why in self.lost.items())
            )
        return described(table_node(self, kinds, fill, metas, self.lost), self.meta)

    def _labels(self, name: Name) -> dict[str, Any]:
        found = self.dictionaries.get(name)
        if found is None:
            return {}
        with self.named(name):  # texts of a broken file may be no UTF-8
            return {"labels": told_labels(self.leaves[name], found)}

    @property
    def is_closed(self) -> bool:
        """Whether the file was closed."""
        return self.opening.is_closed

    def close(self) -> None:
        """Have all views of the file say that it is closed."""
        self.opening.close()
        super().close()


def _reopened(
    kind: type[ArrowTable],
    path: str,
    opening: Opening,
    signature: int,
    fills: Mapping[Name, Any],
) -> ArrowTable:
    """Open a file again where a view of it was unpickled."""
    found = again(lambda _: kind(path, opening), path)
    if found.signature() != signature:
        raise ValueError(
            f"{path} has changed since a view of it was pickled; open it again and make the view "
            "anew"
        )
    found.find_labels()
    found.fills = fills
    return found


@contextlib.contextmanager
def named_in_errors(what: str) -> Iterator[None]:
    """Name what is broken in the errors of Arrow, which do not know it."""
    try:
        yield
    except (FileNotFoundError, PermissionError):
        raise
    except MemoryError as error:
        raise ValueError(
            f"{what} needs more memory than there is: {shortened(str(error))}"
        ) from error
    except (
        arrow().ArrowException,
        ValueError,
        OSError,
        OverflowError,
        IndexError,
        KeyError,
    ) as error:
        text = shortened(str(error))
        if isinstance(error, ValueError) and what in text:
            raise
        kind = OSError if isinstance(error, OSError) else ValueError
        raise kind(f"{what} cannot be read: {text}") from error


def check_read_only(path: str, mode: str) -> None:
    """Raise if a file is to be changed in place."""
    if mode != "r":
        raise ValueError(
            f"{path}: a file of packed columns cannot be changed in place; open it with mode 'r', "
            f"and save what you make of it with _save; got {mode!r}"
        )


def too_large(packed: int, unpacked: int) -> str:
    """Say that a few bytes would be unpacked to very many."""
    return (
        f"{packed} bytes would be unpacked to {unpacked}, which may be an attack on memory; if you "
        "trust the file, write it anew in smaller groups of rows"
    )


def check_names(names: Sequence[str]) -> None:
    """Raise if two columns have one name, or there are more than anybody means."""
    if len(names) > MOST_COLUMNS:
        raise ValueError(
            f"it has {len(names)} columns, and up to {MOST_COLUMNS} are viewed; keep such a table "
            "as an array with an axis more, or as several files"
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"two columns have the name {twice[0]!r}; rename one of them")


def starts_of(lengths: Sequence[int]) -> np.ndarray:
    """Return where groups of rows start, and where the last one ends."""
    starts = [0, *itertools.accumulate(lengths)]
    if min(lengths, default=0) < 0 or starts[-1] > MOST_ROWS:
        raise ValueError(f"it says that its parts have {shortened(str(list(lengths)))} rows")
    return np.array(starts, np.intp)
