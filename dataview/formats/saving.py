"""A node becomes a file, block by block."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from dataview.compute import evaluate, replacing, row_blocks
from dataview.formats.table import saver_of
from dataview.plan.build import with_fields
from dataview.plan.fields import Attached
from dataview.plan.guards import check_ends
from dataview.plan.kinds import Record, known_dtype, known_shape, members
from dataview.plan.node import Node
from dataview.samples import collected


def save(node: Node, path: str | bytes | os.PathLike[str], format: str | None = None) -> None:
    """Write a node's data to a file, which appears or is replaced once all is written."""
    target = os.fsdecode(path)
    write = saver_of(target, format)
    check_ends(node, "saving")
    _check_fields(node)
    node = collected(node)
    if isinstance(node, Record):  # columns of an array are saved without the gaps between them
        node = with_fields(node, node.fields)
    with replacing(target):
        write(target, known_shape(node), known_dtype(node), _blocks(node))


def _check_fields(node: Node) -> None:
    """Raise if a field shows other data than the array under it, which alone is saved."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        for name, own in part.fields.named.items():
            if isinstance(own, Attached) and own.replaces:
                names = ", ".join(map(repr, part.fields))
                raise ValueError(
                    f"field {name!r} shows other data than the array, and an array alone is saved "
                    f"here; d._select({names})._save(path) saves the fields"
                )
        if isinstance(part, Record):
            waiting.extend(place.node for place in members(part).values())


def _blocks(node: Node) -> Iterator[np.ndarray]:
    """Yield the data in blocks of rows; each is read when it is its turn."""
    for index in row_blocks(node):
        block = np.asarray(evaluate(node, index))
        if block.shape != index.shape:
            raise RuntimeError(f"rows of shape {index.shape} were evaluated as {block.shape}")
        # Only the byte order may differ: the dtype has been promised.
        yield block.astype(known_dtype(node), order="C", casting="equiv", copy=False)
