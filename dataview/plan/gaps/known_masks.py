"""Columns that know where they lack something, from the masks that metadata say they have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from dataview.plan.build import with_fields
from dataview.plan.fields import Attached, Fields
from dataview.plan.gaps.masks import is_coarser, knowing_rows, masks_in, tells, with_mask
from dataview.plan.node import Node

_Some = TypeVar("_Some", bound=Node)


def knowing(fields: Fields) -> Fields:
    """Return fields such that each column knows the mask that metadata say it has."""
    for name, mask in masks_in(fields).items():
        column, told = fields.named[name], fields.named[mask]
        if not isinstance(column, Attached) or not isinstance(told, Attached):
            continue
        known = knowing_rows(column.node, told.node)
        own = known.mask if known.has_gaps else None
        if own is not None and is_coarser(told.node, own):
            fields = fields.with_field(mask, told.of(own.replaced(meta=told.node.meta)))
        elif tells(told.node, known) and (told.node.shape or not known.has_gaps):
            known = with_mask(known, told.node)  # else it knows which of its values lack
        fields = fields.with_field(name, column.of(known))
    return fields


def knowing_masks(node: _Some, fields: Fields | None = None) -> _Some:
    """Return a record, with other fields if some are given, whose columns know their masks."""
    given = node.fields if fields is None else fields
    known = knowing(given)
    before: Mapping[str, Any] = given.named
    new: dict[str, Any] = {n: part for n, part in known.named.items() if part is not before[n]}
    found: Any = node.replaced(fields=known)
    if any(part.node.shape != before[name].node.shape for name, part in new.items()):
        found = with_fields(node, known)  # for a finer mask the record has another dtype
    return found  # type: ignore[no-any-return]
