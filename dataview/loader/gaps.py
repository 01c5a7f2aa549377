"""Gaps that batches of arrays do not tell: found as rows are read, warned of when handed out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from dataview.compute import evaluate
from dataview.exchange import pack_like
from dataview.loader.reading import OWN, reader
from dataview.plan.fields import Attached
from dataview.plan.gaps import MASK, NO_LABEL, is_untold, masks_in, presence, warn_of_gaps
from dataview.plan.kinds import Record
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.tables import are_found_codes

Read = Callable[[np.ndarray], Any]


def without_mask(node: Node, asked: Mapping[str, str]) -> dict[str, str]:
    """Return which of the fields that are asked for come without their mask: of each its name.

    It is empty for codes, which have none.  The fields of a stream may be unknown until it is read.
    """
    masks = masks_in(node.fields)
    parts = {n: p.node for n, p in node.fields.named.items() if isinstance(p, Attached)}
    codes = {name for name, part in parts.items() if are_found_codes(part)}
    masks |= dict.fromkeys(codes - masks.keys(), "")
    named = {name: masks.get(field, f"{field}{MASK}") for name, field in asked.items()}
    return {name: mask for name, mask in named.items() if mask not in asked.values()}


def watched(read: Read, node: Node, name: str, found: set[str]) -> Read:
    """Return what reads rows of a field, and notes the name when values of them are missing."""
    present = None if isinstance(node, (Record, Ragged)) else presence(node)
    are_codes = present is None and are_found_codes(node)
    if present is None and not are_codes:
        return read
    there = None if present is None else reader(present)

    def read_and_watch(rows: np.ndarray) -> Any:
        values = read(rows)
        if name not in found:
            own = values[OWN] if isinstance(values, Mapping) else values
            if is_untold(own, own != NO_LABEL if there is None else there(rows)):
                found.add(name)
        return values

    return read_and_watch


def note_gaps(found: Any, node: Node, row: int, name: str, gaps: set[str]) -> None:
    """Note the name of a field if values of a row of it that was read alone are missing."""
    if not isinstance(found, Node):  # which knows its gaps
        watched(lambda rows: found, node, name, gaps)(np.array([row]))


def warn_of_field(name: str, mask: str = "") -> None:
    """Warn that a batch has other values where some of a field are missing."""
    data = f"field {name!r}" if name else "the data"
    warn_of_gaps("a batch of arrays", data, f"; fields= can name {mask!r} too" if mask else "")


def in_arrays(part: Any, told: Collection[str], is_nested: bool, name: str = "") -> Any:
    """Return a batch with the nodes in it as arrays; warn of gaps that these do not tell.

    The masks of those in `told` are handed out, too.  If it may be nested, ragged rows stay nodes.
    """
    if isinstance(part, Mapping):
        if all(type(one) is np.ndarray for one in part.values()):  # as nearly always
            return part
        told = {*told, *(own for own in part if f"{own}{MASK}" in part)}
        return {own: in_arrays(one, told, is_nested, own) for own, one in part.items()}
    if isinstance(part, tuple):
        return pack_like(part, [in_arrays(one, told, is_nested) for one in part])
    if not isinstance(part, Node):
        return part
    stays = is_nested and isinstance(part, Ragged)
    present = None if name in told else presence(part)
    values = None if stays and present is None else evaluate(part)
    if present is not None and is_untold(values, evaluate(present)):
        warn_of_field(name)
    return part if stays else values
