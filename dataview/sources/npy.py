"""NumPy's `.npy` files, memory-mapped while they are read and written."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from dataview import gather
from dataview.index import Affine, Index, extent, shifted
from dataview.sources.protocol import Memo

__all__ = ["NpySource", "open_npy", "write_header"]


class NpySource:
    """An array in an `.npy` file, or one member of its structured dtype.

    It pickles as path and mode; every process maps the file for itself, when it first reads.
    """

    __slots__ = (
        "_mapped",
        "dtype",
        "file_dtype",
        "fortran",
        "members",
        "mode",
        "offset",
        "path",
        "shape",
        "whole",
    )
    lends = False

    def __init__(
        self,
        path: Path,
        mode: str,
        header: tuple[tuple[int, ...], bool, np.dtype[Any], int],
        members: tuple[str, ...] = (),
    ) -> None:
        self.path = path
        self.mode = mode
        self.whole, self.fortran, self.file_dtype, self.offset = header
        self.members = members
        dtype = self.file_dtype
        trailing: tuple[int, ...] = ()
        for name in members:
            dtype = dtype[name]
            dtype, trailing = dtype.base, trailing + dtype.shape
        self.shape = self.whole + trailing
        self.dtype = dtype
        self._mapped: np.ndarray | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        header = (self.whole, self.fortran, self.file_dtype, self.offset)
        return NpySource, (self.path, self.mode, header, self.members)

    @property
    def writable(self) -> bool:
        """Whether the file was opened for writing."""
        return self.mode == "r+"

    @property
    def array(self) -> np.ndarray:
        """The file as an array, mapped when first asked for."""
        if self._mapped is None:
            self._check_unchanged()
            if 0 in self.whole:
                array = np.empty(self.whole, self.file_dtype)
            else:
                order = "F" if self.fortran else "C"
                # The plain array over the map: np.memmap's own indexing is twice as slow.
                array = np.asarray(
                    np.memmap(  # type: ignore[call-overload]
                        self.path, self.file_dtype, self.mode, self.offset, self.whole, order
                    )
                )
            for name in self.members:
                array = array[name]
            self._mapped = array
        return self._mapped

    def _check_unchanged(self) -> None:
        header = _read_header(self.path)
        if header != (self.whole, self.fortran, self.file_dtype, self.offset):
            raise ValueError(
                f"{self.path} has changed since it was opened: it held {self.file_dtype} of shape "
                f"{self.whole}, now {header[2]} of shape {header[0]}; open it again"
            )

    def read(self, index: Index, memo: Memo) -> np.ndarray:
        """Return a fresh array: pages of the file are never handed out.

        A run of rows is read by its position in the file: memory stays as small as the result.
        """
        slab = self._slab(index)
        if slab is not None:
            rows, within = slab
            return np.ascontiguousarray(gather.read(self._rows(rows), within))
        found = gather.read(self.array, index)
        return np.array(found) if index.is_box else found

    def write(self, index: Index, value: np.ndarray) -> None:
        """Write through the index into the file."""
        slab = self._slab(index)
        if slab is not None:
            rows, within = slab
            block = self._rows(rows)
            gather.assign(block, within, value)
            self._put_rows(rows.start, block)
            return
        gather.assign(self.array, index, value)

    def _slab(self, index: Index) -> tuple[range, Index] | None:
        """Return the run of whole rows that an index reads much of, and the index within it."""
        if self.fortran or self.members or not self.whole or 0 in index.shape:
            return None
        first = index.maps[0]
        if not isinstance(first, Affine) or len(first.strides) != 1 or not index.is_box:
            return None
        low, high = extent(first, index.shape) or (0, 0)
        if (high - low + 1) * math.prod(self.whole[1:]) > 4 * math.prod(index.shape):
            return None
        within = Index(index.shape, (shifted(first, low), *index.maps[1:]))
        return range(low, high + 1), within

    def _rows(self, rows: range) -> np.ndarray:
        block = np.empty((len(rows), *self.whole[1:]), self.file_dtype)
        with open(self.path, "rb", buffering=0) as file:
            _transfer(os.preadv, file.fileno(), block, self._place(rows.start))
        return block

    def _put_rows(self, start: int, block: np.ndarray) -> None:
        with open(self.path, "r+b", buffering=0) as file:
            _transfer(os.pwritev, file.fileno(), block, self._place(start))

    def _place(self, row: int) -> int:
        return self.offset + row * self.file_dtype.itemsize * math.prod(self.whole[1:])

    def member(self, name: str) -> NpySource:
        """Return one field of a structured file."""
        header = (self.whole, self.fortran, self.file_dtype, self.offset)
        return NpySource(self.path, self.mode, header, (*self.members, name))

    def describe(self) -> str:
        """Name the file and how it was opened."""
        return f"{self.path.name} ({self.mode})"


def open_npy(path: str | os.PathLike[str], mode: str = "r") -> NpySource:
    """Return the source of an `.npy` file; only its header is read."""
    if mode not in ("r", "r+"):
        raise ValueError(f"mode is 'r' (read) or 'r+' (read and write); got {mode!r}")
    place = Path(os.path.abspath(path))
    source = NpySource(place, mode, _read_header(place))
    if mode == "r+" and not os.access(place, os.W_OK):
        raise PermissionError(f"{place} cannot be written; open it with mode='r'")
    return source


def _read_header(path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    with open(path, "rb") as file:
        try:
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = read(file)
        except ValueError as error:
            raise ValueError(f"{path} is not an .npy file: {error}") from None
        offset = file.tell()
        size = os.fstat(file.fileno()).st_size
    if dtype.hasobject:
        raise ValueError(
            f"{path} holds pickled Python objects, which are never loaded: they could run code; "
            "load it with numpy.load(allow_pickle=True) if you trust it, and wrap the array"
        )
    needed = offset + dtype.itemsize * int(np.prod(shape, dtype=object))
    if size < needed:
        raise ValueError(f"{path} is cut short: its header promises {needed} bytes, it has {size}")
    return shape, fortran, dtype, offset


def write_header(file: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Write the header of a C-ordered array; its bytes follow."""
    described = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(file, described)


def _transfer(move: Any, descriptor: int, block: np.ndarray, place: int) -> None:
    """Read or write all bytes of a block at a place in a file; the system may take several goes."""
    raw: Any = block.reshape(-1).view(np.uint8)
    data = memoryview(raw)
    done = 0
    while done < len(data):
        count = move(descriptor, [data[done:]], place + done)
        if count == 0:
            raise OSError("the file ended before all of the block was transferred")
        done += count
