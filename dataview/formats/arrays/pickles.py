"""Chainer's datasets of pickles: one behind the other, each loaded when its row is read.

A pickle can run any code when it is loaded, so such a file is opened by the name of its format
alone.  Where pickles end is found without loading them.
"""

from __future__ import annotations

import os
import pickle
import pickletools
from typing import Any

import numpy as np

from dataview.errors import shortened
from dataview.formats.handles import Claim
from dataview.formats.texts.text_bytes import TextBytes
from dataview.index import Index, gather
from dataview.plan.build import stored
from dataview.plan.node import Node
from dataview.sources import FileState, Memo, Source


def open_pickles(path: str, mode: str, claim: Claim | None = None) -> Node:
    """Return the node of the objects in a file, one for each pickle."""
    if mode != "r":
        raise ValueError(f"{path}: pickles cannot be changed in place; open it with mode 'r'")
    return stored(PickleSource(path, claim))


class PickleSource(Source):
    """The objects of pickles that follow one another."""

    __slots__ = ("dtype", "ends", "raw", "shape")

    def __init__(self, path: str, claim: Claim | None, told: FileState | None = None) -> None:
        self.raw = TextBytes(path, claim, told)
        self.ends = _ends(self.raw)
        self.shape, self.dtype = (len(self.ends) - 1,), np.dtype(object)

    def __reduce__(self) -> tuple[Any, ...]:
        return PickleSource, (self.raw.path, self.raw.opening.held, self.raw.state)

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return the objects that the index selects, loaded now."""
        return np.asarray(gather.by_rows(index, self._loaded))

    def _loaded(self, rows: np.ndarray) -> np.ndarray:
        found = np.empty(len(rows), object)
        for place, row in enumerate(rows.tolist()):
            raw = self.raw.read(*self.ends[row : row + 2].tolist())
            try:
                found[place] = pickle.loads(raw)
            except Exception as error:  # of any class: a pickle may do anything
                raise ValueError(
                    f"sample {row} of {self.raw.path} cannot be loaded: {type(error).__name__}: "
                    f"{shortened(str(error))}"
                ) from error
        return found

    @property
    def is_closed(self) -> bool:
        """Whether the file was closed."""
        return self.raw.opening.is_closed

    def close(self) -> None:
        """Have all views of the file say that it is closed."""
        self.raw.close()

    def describe(self) -> str:
        """Name the file."""
        return f"{os.path.basename(self.raw.path)} (r, pickles)"


def _ends(raw: TextBytes) -> np.ndarray:
    """Return where pickles end, behind the 0 where the first begins."""
    ends = [0]
    try:
        with raw.opened() as file:
            while ends[-1] < raw.size:
                for _ in pickletools.genops(file):
                    pass
                ends.append(file.tell())
    except (ValueError, OverflowError, MemoryError) as error:
        raise ValueError(
            f"{raw.path} is no file of pickles, or is broken behind byte {ends[-1]}: "
            f"{shortened(str(error))}"
        ) from None
    return np.array(ends)
