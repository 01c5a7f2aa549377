"""The array in an `.npy` file elsewhere: its header is read, and of its rows those asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataview.index import Index
from dataview.sources import file_rows
from dataview.sources.npy import NpyFile, NpySource, Opening
from dataview.sources.npy_header import header_in
from dataview.sources.protocol import Memo
from dataview.sources.remote.file import RemoteFile
from dataview.sources.remote.places import Place
from dataview.sources.remote.urls import shown


class RemoteNpySource(NpySource):
    """An array in an `.npy` file elsewhere, or one member of its structured dtype."""

    __slots__ = ()
    reuses = False

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return a new array, whose bytes are asked for together where they lie near each other."""
        remote = self.file.opening.claim
        self.file.opening.check()
        found = np.empty(index.shape, self.dtype)
        if not found.nbytes:
            return found
        run = self._run(index)
        if run is not None:
            remote.fill(found, [(run, found.nbytes)])
        else:
            file_rows.read(remote, self.block, self._in_file(index), found, False)
        return found

    def memmap(self, index: Index) -> np.ndarray | None:
        """Return None: there is no memory that is shared with the file."""

    def growing(self, count: int) -> Any:
        """Raise: rows are added to files of this machine."""
        raise self.no_growth("it is not on this machine")


def open_remote_npy(place: Place) -> RemoteNpySource:
    """Return the source of an `.npy` file elsewhere, of which the beginning is read."""
    remote, name = RemoteFile(place), shown(place.url)
    header = header_in(remote.reader(), name, 0, remote.size)
    return RemoteNpySource(NpyFile(name, "r", header, Opening(name, remote)))
