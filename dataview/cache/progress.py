"""How far a long transfer is: told to a user's function, or shown as a bar."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeAlias

from dataview.errors import import_library

Progress: TypeAlias = Callable[[int, int | None], Any]
"""Is told how many bytes are done, and of how many; None if that is not known."""


def reporting(progress: Any, what: str) -> Progress | None:
    """Return what is told of the progress: a user's function, or a bar called `what` for True."""
    if progress is None or progress is False:
        return None
    if callable(progress):
        return progress  # type: ignore[no-any-return]
    if progress is not True:
        raise TypeError(f"progress= is True or a function of done and total; got {progress!r}")
    tqdm = import_library("tqdm", "dataview[progress]").tqdm
    return _Bar(tqdm(desc=what, unit="B", unit_scale=True))


class _Bar:
    """A bar that shows how many bytes are done; it is closed when nobody holds it any more."""

    def __init__(self, bar: Any) -> None:
        self.bar = bar
        weakref.finalize(self, bar.close)

    def __call__(self, done: int, total: int | None) -> None:
        self.bar.total = total
        self.bar.update(done - self.bar.n)
        if done == total:
            self.bar.close()
