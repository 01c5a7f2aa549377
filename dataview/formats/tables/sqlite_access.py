"""Connections to a database of SQLite, one for each thread of each process, that only read."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
import threading
import urllib.parse
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from dataview.errors import shortened
from dataview.formats.handles import Claim
from dataview.formats.texts.text_bytes import (
    LONGEST,
    changed,
    check_told,
    pickled_before,
    stamped,
    unchanged,
)
from dataview.sources import FileState, Opening, open_regular

MAGIC = b"SQLite format 3\0"

SETTINGS = ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0")
"""What SQLite recommends for files of strangers: no functions of a schema, checks of pages."""


_Log: TypeAlias = "tuple[int, int] | None"
_State: TypeAlias = tuple[FileState, _Log]


class Database:
    """A database that is read as long as nobody writes it, with what queries selected from it."""

    COPY = "copied.found"
    """The table that has what a query selected."""

    def __init__(self, path: str, claim: Claim | None, told: _State | None = None) -> None:
        self.path, self.opening = path, Opening(path, claim)
        with open_regular(path) as file:
            check_told(path, file, None if told is None else told[0])
            start = file.read(len(MAGIC))
            if start and start != MAGIC:
                raise ValueError(f"{path} is no SQLite database: it does not begin as one")
            self.state = stamped(file.fileno())
        self.log = self._log()
        if told is not None and self.state[:2] == told[0][:2] and self.log != told[1]:
            raise pickled_before(path)
        self.folder = ""
        self._local = threading.local()
        self._all: weakref.WeakSet[_Connection] = weakref.WeakSet()

    def __reduce__(self) -> tuple[Any, ...]:
        return Database, (self.path, self.opening.held, (self.state, self.log))

    def size(self) -> int:
        """Return how many bytes there are of what is read."""
        return os.path.getsize(self._copy() if self.folder else self.path)

    def _log(self) -> _Log:
        """Return the state of the log in which new pages are written, None if it has none."""
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(f"{self.path}-wal")
            return (found.st_size, found.st_mtime_ns) if found.st_size else None
        return None

    # --- reading ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def reading(self, longest: int = LONGEST) -> Iterator[sqlite3.Connection]:
        """Yield the connection of this thread; raise if the database was written meanwhile.

        No row may have more than `longest` bytes.
        """
        self.opening.check()
        with self._named_in_errors():
            own = getattr(self._local, "own", None)
            if own is None or own.process != os.getpid():
                own = self._local.own = self._connected()
            own.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)
            yield own.connection
            if own.version != _version_of(own.connection):
                raise changed(self.path)

    def _connected(self) -> _Connection:
        """Connect to the file, if it is the one of before."""
        connection = _connect(self.path, "ro")
        own = _Connection(connection)
        for setting in SETTINGS:
            connection.execute(f"PRAGMA {setting}")
        if self.folder:
            connection.execute("ATTACH ? AS copied", (_uri(self._copy(), "ro"),))
        own.version = _version_of(connection)
        with open_regular(self.path) as file:
            unchanged(self.path, self.state, file)
        if self._log() != self.log:
            raise changed(self.path)
        self._all.add(own)
        return own

    @contextlib.contextmanager
    def _named_in_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # its messages quote the file
            self.opening.check()
            text = shortened(str(error))
            if "locked" in text:
                raise OSError(f"{self.path} is being written by another program: {text}") from None
            more = ""
            if "too big" in text:
                more = (
                    f"; a row has more than {LONGEST} bytes, of which query= may select some: "
                    '"SELECT substr(…) AS …"'
                )
            raise ValueError(f"{self.path} cannot be read by SQLite: {text}{more}") from None

    # --- what a query selects --------------------------------------------------------------

    def copy(self, query: str, parameters: Sequence[Any] | Mapping[str, Any]) -> None:
        """Put what a query selects into a temporary database, whose rows have numbers."""
        folder = tempfile.mkdtemp(prefix="dataview-")
        weakref.finalize(self, _remove, folder, os.getpid())
        self.folder = folder
        with self._named_in_errors(), contextlib.closing(_connect(self.path, "ro")) as connection:
            for setting in SETTINGS:
                connection.execute(f"PRAGMA {setting}")
            connection.execute("ATTACH ? AS copied", (_uri(self._copy(), "rwc"),))
            connection.execute("PRAGMA copied.journal_mode = OFF")
            # The statement takes a SELECT and nothing that writes.
            connection.execute(f"CREATE TABLE {self.COPY} AS {query}", parameters)
        self._local = threading.local()

    def _copy(self) -> str:
        return os.path.join(self.folder, "found.db")

    def close(self) -> None:
        """Close the connections of all threads, and have all views say that."""
        self.opening.close()
        for own in list(self._all):
            if own.process == os.getpid():
                own.connection.close()
        if self.folder:
            _remove(self.folder, os.getpid())


class _Connection:
    """The connection of a thread, closed with it; `version` changes if others write."""

    __slots__ = ("__weakref__", "connection", "process", "version")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection, self.process = connection, os.getpid()
        self.version = 0
        weakref.finalize(self, _close, connection, self.process)


_INHERITED: list[sqlite3.Connection] = []
"""Connections of the process that this one was forked from, which must not be closed here."""


def _close(connection: sqlite3.Connection, owner: int) -> None:
    if os.getpid() == owner:
        connection.close()
    else:
        _INHERITED.append(connection)


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _uri(path: str, mode: str) -> str:
    return f"file:{urllib.parse.quote(path)}?mode={mode}"


def _connect(path: str, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        _uri(path, mode), uri=True, isolation_level=None, check_same_thread=False
    )


def _version_of(connection: sqlite3.Connection) -> int:
    """Return a number that changes when another connection has written."""
    (version,) = connection.execute("PRAGMA main.data_version").fetchone()
    return int(version)


def quoted(name: str) -> str:
    """Return a name as SQLite takes it.

    >>> print(quoted('a "b" c'))
    "a ""b"" c"
    """
    return '"' + name.replace('"', '""') + '"'
