"""Masks of fields: the metadata of a mask name the column whose gaps it tells.

So a mask goes where its column goes, and a field that is only called like one stays where it is.
Where gaps are counted, left out or saved, bools that are only called like a mask count as one too,
if metadata do not say otherwise: a user's `x_mask` beside `x`.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from dataview.plan.fields import Attached, Field, Fields, Window, read_only_meta
from dataview.plan.kinds import Stored
from dataview.plan.node import Node
from dataview.plan.operations import may_be_missing
from dataview.plan.walk import below
from dataview.sources import Source

MASK = "_mask"
"""What the name of a column's mask ends in; it is true where there are data."""

MASK_OF = "mask_of"
"""The metadata of a mask under this name are the name of its column, None if it is of none."""


def noted(mask: Node, name: str | None) -> Node:
    """Return a mask that knows the name of its column."""
    return mask.replaced(meta=read_only_meta({**mask.meta, MASK_OF: name}))


def put_mask(named: dict[str, Any], name: str, mask: Node) -> None:
    """Put the mask of a column beside the columns, under a name that none of them has."""
    named[_free_name(f"{name}{MASK}", named)] = noted(mask, name)


def own_columns(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns of a file such that those that are only called like masks are of none."""
    return {
        name: noted(node, None) if _is_called_mask(name, node) else node
        for name, node in named.items()
    }


def _is_called_mask(name: str, node: Any) -> bool:
    if not isinstance(node, Node) or not name.endswith(MASK) or MASK_OF in node.meta:
        return False
    return node.dtype is not None and node.dtype.kind == "b"


def _free_name(name: str, taken: Iterable[str]) -> str:
    names = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
    return next(one for one in names if one not in taken)


def masks_in(fields: Fields, by_name: bool = False) -> dict[str, str]:
    """Return the names of the masks among some fields, by the names of their columns.

    With `by_name`, those count that have a truth value for each row, as `masks_among` says.
    """
    metas = {
        name: field.meta if isinstance(field, Window) else field.node.meta
        for name, field in fields.named.items()
    }
    if not by_name:
        return _told(metas)
    attached = {
        name: field.node for name, field in fields.named.items() if isinstance(field, Attached)
    }
    return masks_among(metas, {name for name, node in attached.items() if is_of_rows(node)})


def masks_among(metas: Mapping[str, Mapping[str, Any]], of_rows: Collection[str]) -> dict[str, str]:
    """Return the names of the masks among fields with some metadata, by those of their columns.

    A column of which no metadata tell the mask has the field that is called like it, unless the
    metadata of that one say what it is.  `of_rows` have a truth value for each row, as masks have.

    >>> masks_among({"x": {}, "x_mask": {}, "y": {}, "y_mask": {"mask_of": None}}, ["x_mask"])
    {'x': 'x_mask'}
    """
    called = {
        name.removesuffix(MASK): name
        for name, meta in metas.items()
        if name.endswith(MASK) and MASK_OF not in meta
    }
    found = {**called, **_told(metas)}
    return {name: mask for name, mask in found.items() if name in metas and mask in of_rows}


def is_of_rows(node: Node) -> bool:
    """Whether data have a truth value for each row; what is not known yet is no mask."""
    return node.dtype == bool and node.shape is not None and len(node.shape) == 1


def _told(metas: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the names of the masks that metadata tell; of several of a column, the first."""
    found: dict[str, str] = {}
    for mask, meta in metas.items():
        name = meta.get(MASK_OF) if meta else None
        if isinstance(name, str) and name in metas and name != mask:
            found.setdefault(name, mask)
    return found


def with_masks(fields: Fields, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of some fields, and behind them those of their masks."""
    masks = masks_in(fields)
    own = [masks[name] for name in dict.fromkeys(names) if name in masks]
    return (*names, *(mask for mask in own if mask not in names))


def renamed(fields: Fields, names: Mapping[str, str]) -> Fields:
    """Return fields under new names, the masks under names after those of their columns."""
    masks = {name: mask for name, mask in masks_in(fields).items() if name in names}
    moved = {
        mask: names[name]
        for name, mask in masks.items()
        if mask not in names and mask.startswith(f"{name}{MASK}")
    }
    changes = dict(names)
    taken = {names.get(name, name) for name in fields if name not in moved}
    for mask, name in moved.items():
        changes[mask] = _free_name(f"{name}{MASK}", taken)
        taken.add(changes[mask])
    found = fields.renamed(changes)
    for name, mask in masks.items():
        new = changes.get(mask, mask)
        found = found.with_field(new, _noted_field(found.named[new], names[name]))
    return found


def _noted_field(field: Field, name: str) -> Field:
    if isinstance(field, Attached):
        return field.of(noted(field.node, name))
    return field.with_meta(read_only_meta({**field.meta, MASK_OF: name}))


def replacing(fields: Fields, name: str, part: Node) -> tuple[Fields, Node]:
    """Return the fields that stay when other data become one of them, and these data.

    The mask of a column goes, unless the data are computed from the column and its gaps are not
    NaN, NaT or None in both; data that take the place of a mask are one of the same column.
    """
    masks = masks_in(fields)
    column = next((column for column, mask in masks.items() if mask == name), None)
    if column is not None:
        return fields, noted(part, column)
    if name not in masks or _has_gaps_of(part, fields.named[name], fields.named[masks[name]]):
        return fields, part
    named = {other: field for other, field in fields.named.items() if other != masks[name]}
    why = f"is gone, since other data took the place of {name!r}, whose gaps it told"
    return Fields(named, {**fields.lost, masks[name]: why}), part


def _has_gaps_of(part: Node, column: Field, mask: Field) -> bool:
    """Whether data are computed from a column, without its mask, and do not tell its gaps."""
    if not isinstance(column, Attached) or not isinstance(mask, Attached):
        return False
    dtypes = [column.node.dtype, part.dtype]
    if all(dtype is not None and may_be_missing(dtype) for dtype in dtypes):
        return False
    return _reads(part, column.node) and not _reads(part, mask.node)


def _reads(part: Node, whole: Node) -> bool:
    """Whether data are computed from what another node reads."""
    sources = _sources(whole)
    return any(own.is_same(other) for own in _sources(part) for other in sources)


def _sources(node: Node) -> list[Source]:
    return [part.source for part in below([node]) if isinstance(part, Stored)]
