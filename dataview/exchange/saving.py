"""A node becomes a file, block by block, and only when it is whole."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from dataview.compute import evaluate, row_blocks
from dataview.plan.guards import check_ends
from dataview.plan.kinds import known_dtype, known_shape
from dataview.plan.node import Node
from dataview.sources import made_header

if TYPE_CHECKING:
    from pathlib import Path


def save(node: Node, path: str | os.PathLike[str], format: str | None = None) -> None:
    """Write a node's data to a file; the file appears, or is replaced, when all is written."""
    from pathlib import Path

    format = format or Path(path).suffix.lstrip(".")
    if format != "npy":
        raise ValueError(f"views are saved as .npy; got {os.fspath(path)!r} (format {format!r})")
    header = _header(node)
    target = Path(os.path.realpath(path))  # the file that a link leads to, not the link
    import tempfile  # it brings half a dozen modules along, and few views are saved

    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(header)
            _write_data(node, file)
            file.flush()
            os.fsync(file.fileno())
        _like_a_new_file(temporary, target)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _header(node: Node) -> bytes:
    """Return the header of a node's file, or raise saying why it cannot be one."""
    check_ends(node, "saving")
    shape, dtype = known_shape(node), known_dtype(node)
    if dtype.hasobject:
        raise TypeError(
            "an .npy file holds numbers, dates and texts of fixed size, not Python objects; "
            f"got {dtype}"
        )
    return made_header(shape, dtype)


def _write_data(node: Node, file: BinaryIO) -> None:
    dtype: np.dtype[Any] = known_dtype(node)
    if not dtype.itemsize:
        return
    for _, index in row_blocks(node):
        block = np.asarray(evaluate(node, index))
        if block.shape != index.shape:
            raise RuntimeError(f"rows of shape {index.shape} were evaluated as {block.shape}")
        # Only the byte order may differ: the header has promised the rest.
        block = block.astype(dtype, order="C", casting="equiv", copy=False)
        raw: Any = np.ascontiguousarray(block).reshape(-1).view(np.uint8)
        file.write(raw)


def _like_a_new_file(temporary: str, target: Path) -> None:
    """Give the file the permissions of the one it replaces, or those of any new file."""
    if target.exists():
        os.chmod(temporary, target.stat().st_mode & 0o777)
        return
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(temporary, 0o666 & ~mask)
