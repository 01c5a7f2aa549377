"""Ragged fields of a batch: read together, joined, and filled up as `pad=` says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dataview.compute import copied_rows, evaluate, rows_of
from dataview.exchange import freeze
from dataview.index import parse
from dataview.loader.collate import (
    RAGGED,
    Pad,
    PaddedArray,
    lacks_some,
    leaves_ragged,
    padding_of_mask,
)
from dataview.plan.build import field, select
from dataview.plan.concat import concat
from dataview.plan.gaps import MASK_OF, is_mask_of, lacking, present_in
from dataview.plan.kinds import Record, known_shape
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.plan.values import holding
from dataview.samples import (
    Padding,
    Stream,
    filled,
    is_ragged,
    known_lengths,
    lengths_filled,
    mask_of,
)


def reader(node: Ragged) -> Callable[[np.ndarray], Ragged]:
    """Return the function that reads rows of a ragged node; they share no memory with it."""
    return lambda rows: copied_rows(node, True, rows)


def row_of(batch: Ragged, number: int) -> Any:
    """Return the data of one row of a batch, as a node if it lacks some of its values."""
    if isinstance(batch.values, Ragged):
        row = batch.part(parse(number, (batch.count,)))
        return row if isinstance(row, Ragged) and lacks_some(row) else rows_of(batch, number)
    present = present_in(batch.values)
    there = None if present is None else Ragged(present, batch.layout, batch.index)
    return lacking(rows_of(batch, number), None if there is None else rows_of(there, number))


def joined(batches: Sequence[Node], order: np.ndarray | None = None) -> Node:
    """Return the rows of several batches as one batch; the order is theirs, or the one given."""
    found = concat(list(batches))
    if isinstance(found, Ragged):
        return copied_rows(found, True, order)
    return freeze(found if order is None else select(found, parse(order, known_shape(found))), True)


def read_now(rows: Any) -> Any:
    """Return rows that are ragged in memory, and others as they are."""
    return copied_rows(rows) if isinstance(rows, Ragged) else rows


def padded_together(parts: Mapping[str, Node], pad: Any) -> Mapping[str, Pad] | None:
    """Return how ragged fields are filled up, if all rows of a batch can be at once.

    What has no rows of one axis is left to `collate`, which looks at each sample.
    """
    pads = {name: pad.get(name) if isinstance(pad, Mapping) else pad for name in parts}
    if isinstance(pad, tuple) or (isinstance(pad, Mapping) and not pad.keys() <= parts.keys()):
        return None
    found: dict[str, Pad] = {}
    for name, part in parts.items():
        own = pads[name]
        if own is None or leaves_ragged(own):
            continue
        own = own if isinstance(own, Pad) else Pad(own)
        if not isinstance(part, Ragged):
            if not _stays(part, own):
                return None
            continue
        is_line = len(part.extents) == 2 and own.axis in (None, 0, -1)
        if not (is_line or _is_plain(own)):
            return None
        brought = [f"{name}_{what}" for what in ("length", "mask") if getattr(own, what)]
        if any(key in parts and not is_mask_of(parts[key], name) for key in brought):
            return None
        found[name] = own
    return found


def _stays(part: Node, pad: Pad) -> bool:
    """Whether rows of one shape stay as they are where others are filled up."""
    if part.shape is None or part.dtype is None:
        return False
    is_alike = _is_plain(pad) and not part.has_gaps and part.dtype.kind in "biufc"
    return len(part.shape) == 1 or (is_alike and holding(part.dtype, pad.value) == part.dtype)


def _is_plain(pad: Pad) -> bool:
    """Whether a padding says no more than what rows of any shape are filled up with, and where."""
    return pad.axis is None and pad.multiple == 1 and not (pad.length or pad.mask)


def with_padding(batch: Any, pads: Mapping[str, Pad]) -> Any:
    """Return a batch with its ragged fields filled up, their lengths and masks beside them."""
    if not isinstance(batch, Mapping):
        return _alone(_filled(batch, "", pads[""])) if pads else batch
    found: dict[str, Any] = {}
    for name, part in batch.items():
        if name in pads:
            found.update(_filled(part, name, pads[name]))
        elif name not in found:  # the mask that padding brings says more than one of rows
            found[name] = part
    return found


def _alone(found: Mapping[str, Any]) -> Any:
    """Return rows without a name that were filled up, with what they bring."""
    own = found[""]
    return PaddedArray(own, found.get("_length"), found.get("_mask")) if len(found) > 1 else own


def _filled(rows: Ragged, name: str, pad: Pad) -> dict[str, Any]:
    padding = Padding(pad.value, None, pad.side, pad.multiple)
    data = filled(rows, padding, f"field {name!r}: " if name else "")
    found = {name: evaluate(data)}
    if pad.length:
        found[f"{name}_length"] = evaluate(lengths_filled(data))
    if pad.mask:
        found[f"{name}_mask"] = evaluate(mask_of(data))
    return found


def with_ragged(pad: Any, parts: Mapping[str, Node], sample: Any, changed: Any = None) -> Any:
    """Return the padding of samples made one by one: ragged fields stay so, unless it is said.

    `changed` is the padding of what a transform made of them, None if there was no transform.
    """
    if not (pad is None or isinstance(pad, Mapping)):
        stays = changed is not None or not isinstance(sample, Mapping)
        return pad if stays or leaves_ragged(pad) else _but_of_masks(pad, parts)
    found = _own_padding(parts, changed)
    if not found:
        return pad
    if not isinstance(sample, Mapping):
        return next(iter(found.values())) if pad is None else pad
    return {**{name: own for name, own in found.items() if name in sample}, **(pad or {})} or None


def _but_of_masks(pad: Any, parts: Mapping[str, Node]) -> Any:
    """Return the padding of all fields, by name where masks are among them: these stay so."""
    found: dict[str, Any] = {}
    for name, part in parts.items():
        inside = {n: field(part, n) for n in part.fields} if isinstance(part, Record) else {}
        is_mask = part.meta.get(MASK_OF)
        found[name] = padding_of_mask(pad) if is_mask else _but_of_masks(pad, inside)
    return found if any(own is not pad for own in found.values()) else pad


def _own_padding(parts: Mapping[str, Node], changed: Any) -> dict[str, Any]:
    """Return what keeps fields ragged, for those among these and for those inside others."""
    found: dict[str, Any] = {}
    for name, part in parts.items():
        if is_ragged(part):
            found[name] = changed or known_lengths(part) or RAGGED
        elif isinstance(part, (Record, Stream)):
            inner = _own_padding({n: field(part, n) for n in part.fields}, changed)
            found.update(inner if not name else {name: inner} if inner else {})
    return found
