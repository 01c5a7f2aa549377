"""Errors of numbers and warnings in a worker process, which are treated as in the caller's threads.

The modes of `np.errstate` and the warning filters go along with each task.  What they do not make
an error of is told to the caller: it warns there, where the process that warns may be seen.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np


class Told(NamedTuple):
    """A warning that was given in a worker process, and the line that it names."""

    message: Warning
    filename: str
    line: int
    module: str | None


class Ways(NamedTuple):
    """How a caller treats errors of numbers and warnings, with the names of what these are."""

    modes: dict[str, str]
    is_called: bool
    filters: list[tuple[Any, ...]]


def ways() -> Ways:
    """Return how this thread treats errors and warnings."""
    filters = [
        (action, text, kind.__module__, kind.__qualname__, module, line)
        for action, text, kinds, module, line in warnings.filters
        for kind in (kinds if isinstance(kinds, tuple) else (kinds,))
    ]
    modes: Any = np.geterr()
    return Ways(modes, np.geterrcall() is not None, filters)


class Heard:
    """What is to be told to the caller; it is also what `np.errstate` calls, or writes to."""

    def __init__(self) -> None:
        self.warnings: list[warnings.WarningMessage] = []
        self.calls: list[Any] = []

    def __call__(self, kind: str, flag: int) -> None:
        """Note an error of numbers."""
        self.calls.append((kind, flag))

    def write(self, text: str) -> None:
        """Note the text of an error of numbers."""
        self.calls.append(text)

    def told(self) -> tuple[list[Told], list[Any]]:
        """Return what was noted, such that a pickle takes it."""
        found = [
            Told(_sendable(one.message), one.filename, one.lineno, _module_of(one.filename))
            for one in self.warnings
        ]
        return found, self.calls


@contextlib.contextmanager
def hearing(given: Ways) -> Iterator[Heard]:
    """Treat errors and warnings as a caller does, and note what is to be told to it."""
    heard = Heard()
    call = {"call": heard} if given.is_called else {}
    modes: Any = {**given.modes, **call}
    with warnings.catch_warnings(record=True) as recorded, np.errstate(**modes):
        warnings.resetwarnings()
        warnings.filters.extend(_known(given.filters))  # type: ignore[attr-defined]
        heard.warnings = recorded
        yield heard


def _known(filters: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield the filters of warnings whose modules are imported here: no others can be given."""
    for action, text, place, name, module, line in filters:
        kind: Any = sys.modules.get(place)
        for part in name.split("."):
            kind = getattr(kind, part, None)
        if kind is not None:
            yield action, text, kind, module, line


def _sendable(message: Any) -> Warning:
    """Return a warning itself if a pickle brings it back, else one that tells the same."""
    try:
        found: Warning = pickle.loads(pickle.dumps(message))
    except Exception:  # whatever a user's pickling raises: the text is sent instead
        return RuntimeWarning(f"{type(message).__name__}: {message}")
    return found


@functools.cache
def _module_of(filename: str) -> str | None:
    """Return the module in a file, by which filters may choose; None if there is none."""
    for name, module in list(sys.modules.items()):
        if getattr(module, "__file__", None) == filename:
            return name
    return None


_told_before: dict[str, dict[Any, Any]] = {}
"""By the name of a file what it has warned of, as a module keeps it for the filters."""


def tell(told: tuple[list[Told], list[Any]]) -> None:
    """Warn of what was noted in a worker process, as this thread does; call what errstate calls."""
    for one in told[0]:
        registry = _told_before.setdefault(one.filename, {})
        kind = type(one.message)
        warnings.warn_explicit(one.message, kind, one.filename, one.line, one.module, registry)
    called: Any = np.geterrcall()
    for call in told[1]:
        called.write(call) if isinstance(call, str) else called(*call)
