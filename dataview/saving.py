"""A node becomes a file, block by block, and only when it is whole."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

from dataview.evaluate import blocks, evaluate
from dataview.nodes import Node, known_dtype, known_shape
from dataview.sources.npy import write_header

__all__ = ["save"]


def save(node: Node, path: str | os.PathLike[str], format: str | None = None) -> None:
    """Write a node's data to a file; the file appears, or is replaced, when all is written."""
    target = Path(os.path.abspath(path))
    format = format or target.suffix.lstrip(".")
    if format != "npy":
        raise ValueError(f"views are saved as .npy; got {os.fspath(path)!r} (format {format!r})")
    if known_dtype(node).hasobject:
        raise TypeError(
            "an .npy file holds numbers, dates and texts of fixed size, not Python objects; "
            f"got {known_dtype(node)}"
        )
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write_header(file, known_shape(node), known_dtype(node))
            for _, index in blocks(node):
                file.write(np.ascontiguousarray(evaluate(node, index)).tobytes())
            file.flush()
            os.fsync(file.fileno())
        _like_a_new_file(temporary, target)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _like_a_new_file(temporary: str, target: Path) -> None:
    """Give the file the permissions of the one it replaces, or those of any new file."""
    if target.exists():
        os.chmod(temporary, target.stat().st_mode & 0o777)
        return
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(temporary, 0o666 & ~mask)
