"""Masks of fields: the metadata of a mask name the column whose gaps it tells.

So a mask goes where its column goes, and a field that is only called like one stays where it is.
Where gaps are counted, left out or saved, bools that are only called like a mask count as one too,
if metadata do not say otherwise: a user's `x_mask` beside `x`.

A column knows its mask, and what is made of the column has its gaps.  A question about what is
missing is not answered with yes: a comparison is false there, and so is its negation, as with the
nullable columns of pandas and with NULL in SQL.

Codes of labels need no mask: -1 is no label.  They are numbers otherwise, so what is computed of
them, and a comparison, has no gaps.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from dataview.plan.build import columns, stored, with_fields
from dataview.plan.fields import Attached, Field, Fields, Window, read_only_meta
from dataview.plan.gaps.present import constant, least_present, of_elements, present_in
from dataview.plan.kinds import (
    Driven,
    Record,
    Sampled,
    Stored,
    known_shape,
)
from dataview.plan.layout import broadcast
from dataview.plan.node import Node
from dataview.plan.operations import may_be_missing
from dataview.plan.walk import below
from dataview.sources import ArraySource, Source

_Some = TypeVar("_Some", bound=Node)

MASK = "_mask"
"""What the name of a column's mask ends in; it is true where there are data."""

MASK_OF = "mask_of"
"""The metadata of a mask under this name are the name of its column, None if it is of none."""

MASK_OF_LISTS = "mask_of_lists"
"""Metadata of a mask of elements: where a row lacks all of them, it is a list that is missing.

A table tells no more of its lists of one length; what is computed has rows of nothing, too.
"""

NOTES_OF_MASKS = frozenset({MASK_OF, MASK_OF_LISTS})
"""The metadata that only masks have."""


def noted(mask: Node, name: str | None) -> Node:
    """Return a mask that knows the name of its column."""
    return mask.replaced(meta=read_only_meta({**mask.meta, MASK_OF: name}))


def put_mask(named: dict[str, Any], name: str, mask: Node) -> None:
    """Put the mask of a column beside the columns, under a name that none of them has."""
    if isinstance(named[name], Node):
        named[name] = knowing_rows(with_mask(named[name], mask), mask)
    named[free_name(f"{name}{MASK}", named)] = noted(mask, name)


def is_of_lists(mask: Node) -> bool:
    """Whether a mask of elements says that a row which lacks all of them is a missing list."""
    return bool(mask.meta.get(MASK_OF_LISTS))


def is_mask_of(part: Node, name: str) -> bool:
    """Whether a part says that it is the mask of a column."""
    return part.meta.get(MASK_OF) == name


def with_mask(node: Node, mask: Node) -> Node:
    """Return the data of a column that know their mask; lists and records have none."""
    if isinstance(node, (Sampled, Record)) or node.shape is None:
        return node
    return node.replaced(mask=mask, has_gaps=True)


def knowing_rows(column: Node, mask: Node) -> Node:
    """Return a column of lists that knows which of them are missing, another one as it is.

    They are empty, so nothing that is computed of them has gaps: this is for who hands them on.
    """
    if not isinstance(column, Sampled) or not column.is_sized or not is_of_rows(mask):
        return column
    return column.replaced(mask=mask) if mask.count == column.count else column


def with_gaps_of(node: Node, array: np.ndarray) -> Any:
    """Return an array of data that has the gaps of a node, if that has any."""
    present = present_in(node) if node.has_gaps else None
    if present is None:
        return array
    return with_mask(stored(ArraySource(array), False), broadcast(present, array.shape))


def lacking(values: np.ndarray, present: np.ndarray | None) -> Any:
    """Return an array, or if it lacks some of its values a node that knows which."""
    if present is None or present.all():
        return values
    return with_mask(stored(ArraySource(values), False), stored(ArraySource(present), False))


def lacking_at(key: tuple[int, ...], values: np.ndarray, present: np.ndarray | None) -> Any:
    """Return what an array has at a key, or if that lacks some a node that knows which.

    A text or an object that is missing is an array of it there, and no object by itself.
    """
    there = None if present is None else np.asarray(present[key])
    if there is None or there.all():
        return values[key]
    whole: Any = (*key, ...)
    return lacking(values[whole], there)


def telling(node: Node) -> Node:
    """Return a record with a mask beside each of its columns that knows its gaps."""
    if not isinstance(node, Record | Driven):
        return node
    columns = {
        name: column
        for name, column in node.fields.named.items()
        if isinstance(column, Attached) and (column.node.has_gaps or lacks_rows(column.node))
    }
    fields, masks = node.fields, masks_in(node.fields) if columns else {}
    for name, column in columns.items():
        if name in masks.values():
            continue
        rank = node.rank if isinstance(node, Record) else 1
        present = least_present(column.node, min(rank, 1))
        told = _data_of(fields, masks[name]) if name in masks else None
        if present is not None and (told is None or is_coarser(told, present)):
            mask = column.of(noted(present, name))
            fields = fields.with_field(masks.get(name) or free_name(f"{name}{MASK}", fields), mask)
    return node if fields is node.fields else with_fields(node, fields)


def _data_of(fields: Fields, name: str) -> Node | None:
    """Return the data that a field has of its own."""
    field = fields.named[name]
    return field.node if isinstance(field, Attached) else None


def is_coarser(told: Node | None, present: Node | None) -> bool:
    """Whether a mask has a truth value for each list, and another one of its column for each value.

    So have lists of one length that were taken one by one: their rows make an array.
    """
    shape = None if told is None else told.shape
    own = None if present is None else present.shape
    return bool(shape) and own is not None and len(shape or ()) < len(own)


def lacks_rows(node: Node) -> bool:
    """Whether a column of lists knows that some of them may be missing."""
    return node.mask is not None and isinstance(node, Sampled) and node.is_sized


def masked_alike(nodes: Sequence[Node]) -> list[Node]:
    """Return records such that a column with a mask in one of them has one like it in each.

    So it is in records in them.
    """
    return at_each_level(nodes, _masked)


def at_each_level(nodes: Sequence[Node], change: Callable[[list[Node]], list[Node]]) -> list[Node]:
    """Return nodes changed together, after the records in them that all have under one name."""
    whole = list(nodes)
    inside: dict[int, dict[str, list[Node]]] = {}
    changed: dict[int, list[Node]] = {}

    def records_of(group: list[Node]) -> Iterable[list[Node]]:
        inside[id(group)] = found = _records_in(group)
        return found.values()

    for group in below([whole], records_of):
        parts = {name: changed[id(part)] for name, part in inside[id(group)].items()}
        own = [
            _with_parts(node, {name: part[number] for name, part in parts.items()})
            for number, node in enumerate(group)
        ]
        changed[id(group)] = change(own)
    return changed[id(whole)]


def _records_in(nodes: list[Node]) -> dict[str, list[Node]]:
    """Return the fields that are records in each of some records."""
    if not all(isinstance(node, Record) for node in nodes):
        return {}
    fields = [node.fields.named for node in nodes]
    found: dict[str, list[Node]] = {}
    for name in fields[0] if fields else ():
        parts = [own.get(name) for own in fields]
        own = [part.node for part in parts if isinstance(part, Attached)]
        if len(own) == len(nodes) and all(isinstance(part, Record) for part in own):
            found[name] = own
    return found


def _with_parts(node: Node, parts: Mapping[str, Node]) -> Node:
    """Return a record with other data in some of its fields, the same if they are no others."""
    fields = node.fields
    for name, part in parts.items():
        column = fields.named[name]
        if isinstance(column, Attached) and part is not column.node:
            fields = fields.with_field(name, column.of(part))
    return node if fields is node.fields else with_fields(node, fields)


def _masked(nodes: list[Node]) -> list[Node]:
    """Return records of which each has the masks that one has, as fine as the finest."""
    masks: dict[str, tuple[str, Node | None]] = {}
    for node in nodes:
        for name, mask in masks_in(node.fields).items() if isinstance(node, Record) else ():
            told = node.fields.named[mask]
            _, finest = masks.get(name, (mask, None))
            if isinstance(told, Attached) and (finest is None or is_coarser(finest, told.node)):
                finest = told.node
            masks[name] = mask, finest
    return [_with_masks_of_all(node, masks) for node in nodes]


def _with_masks_of_all(node: Node, masks: Mapping[str, tuple[str, Node | None]]) -> Node:
    """Return a record with these masks: of a column that has none, nothing is missing."""
    fields = node.fields
    is_known = node.shape is not None and not isinstance(node, Sampled)
    for name, (mask, finest) in masks.items() if is_known else ():
        column, told = fields.named.get(name), fields.named.get(mask)
        own = told.node if isinstance(told, Attached) else None
        if not isinstance(column, Attached) or (told is not None and not is_coarser(own, finest)):
            continue
        shape = known_shape(node)[:1]
        if finest is not None and finest.shape is not None and column.node.shape is not None:
            shape = column.node.shape[: len(finest.shape)]
        elif told is not None:
            continue  # lists of any length have a truth value for each
        whole = broadcast(constant(True), shape) if own is None else of_elements(own, shape)
        if finest is not None and is_of_lists(finest):
            whole = whole.replaced(meta=read_only_meta({**whole.meta, MASK_OF_LISTS: True}))
        fields = fields.with_field(mask, column.of(noted(whole, name)))
    return node if fields is node.fields else with_fields(node, fields)


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


def free_name(name: str, taken: Iterable[str]) -> str:
    """Return a name that is not taken: this one, or this one with a number."""
    names = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
    return next(one for one in names if one not in taken)


def masks_in(fields: Fields, by_name: bool = False) -> dict[str, str]:
    """Return the names of the masks among some fields, by the names of their columns.

    With `by_name`, those count that have a truth value for each row, as `masks_among` says.
    """
    named: dict[str, Any] = fields.named
    metas: dict[str, Mapping[str, Any]] = {
        name: meta
        for name, field in named.items()
        if (meta := field.meta if type(field) is Window else field.node.meta) or by_name
    }
    if not by_name:  # of most fields nothing is told, and views of many ask for all
        return _told(metas, named)
    attached = [(name, own.node) for name, own in named.items() if isinstance(own, Attached)]
    return masks_among(metas, {name for name, node in attached if is_of_rows(node)})


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
    found = {**called, **_told(metas, metas)}
    return {name: mask for name, mask in found.items() if name in metas and mask in of_rows}


def told(node: _Some, mask: Node) -> _Some:
    """Tell a node its mask; return the node."""
    node.mask, node.has_gaps = mask, True
    return node


def tell_masks(named: Mapping[str, Attached], masks: Mapping[str, str]) -> None:
    """Tell streams of fields their masks, which are streams as well."""
    for name, mask in masks.items():
        told(named[name].node, named[mask].node)


def tells(mask: Node, column: Node) -> bool:
    """Whether a mask has a truth value for a sample, or for each of its rows or elements."""
    if mask.dtype != bool or mask.shape is None or column.shape is None:
        return False
    return column.shape[: len(mask.shape)] == mask.shape


def is_of_rows(node: Node) -> bool:
    """Whether data have a truth value for each row; what is not known yet is no mask."""
    return node.dtype == bool and node.shape is not None and len(node.shape) == 1


def _told(metas: Mapping[str, Mapping[str, Any]], names: Collection[str]) -> dict[str, str]:
    """Return the names of the masks that metadata tell; of several of a column, the first."""
    found: dict[str, str] = {}
    for mask, meta in metas.items():
        name = meta.get(MASK_OF) if meta else None
        if isinstance(name, str) and name in names and name != mask:
            found.setdefault(name, mask)
    return found


def with_masks(fields: Fields, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of some fields, and behind them those of their masks."""
    masks = masks_in(fields)
    own = [masks[name] for name in dict.fromkeys(names) if name in masks]
    return (*names, *(mask for mask in own if mask not in names))


def without(node: Node, names: Sequence[str]) -> Record:
    """Return the record of all fields but some; parts that cannot be read may be among these.

    The mask of a field goes with it, and without its mask a field has no gaps.
    """
    masks = masks_in(node.fields)
    gone = {*names, *(mask for name, mask in masks.items() if name in names)}
    found = columns(node, [name for name in node.fields if name not in gone])
    for name, mask in masks.items():
        column = found.fields.named.get(name)
        if mask in gone and isinstance(column, Attached):
            bare = column.of(column.node.replaced(mask=None, has_gaps=False))
            found = found.replaced(fields=found.fields.with_field(name, bare))
    left = {name: why for name, why in node.fields.unread.items() if name not in names}
    return found.replaced(fields=Fields(found.fields.named, left)) if left else found


def renamed(node: Node, names: Mapping[str, str]) -> Node:
    """Return a node with fields under new names, the masks under names after their columns'."""
    fields = node.fields
    masks = {name: mask for name, mask in masks_in(fields).items() if name in names}
    moved = {
        mask: names[name]
        for name, mask in masks.items()
        if mask not in names and mask.startswith(f"{name}{MASK}")
    }
    changes = dict(names)
    taken = {names.get(name, name) for name in fields if name not in moved}
    for mask, name in moved.items():
        changes[mask] = free_name(f"{name}{MASK}", taken)
        taken.add(changes[mask])
    found = fields.renamed(changes)
    for name, mask in masks.items():
        new = changes.get(mask, mask)
        found = found.with_field(new, _noted_field(found.named[new], names[name]))
    if len(found) < len(fields):
        raise ValueError(f"two fields would have one name after renaming {names}")
    return with_fields(node, found)


def _noted_field(field: Field, name: str) -> Field:
    if isinstance(field, Attached):
        return field.of(noted(field.node, name))
    return field.with_meta(read_only_meta({**field.meta, MASK_OF: name}))


def replacing(fields: Fields, name: str, part: Node) -> tuple[Fields, dict[str, Node]]:
    """Return the fields that stay when other data become one of them, and what is put there.

    That is the data, and their mask if they know one.  The mask of a column goes, unless the data
    are computed from the column and its gaps are not NaN, NaT or None in both; data that take the
    place of a mask are one of the same column.
    """
    masks = masks_in(fields)
    column = next((column for column, mask in masks.items() if mask == name), None)
    if column is not None:
        told = fields.named[column]
        if isinstance(told, Attached):
            fields = fields.with_field(column, told.of(with_mask(told.node, part)))
        return fields, {name: noted(part, column)}
    if (present := least_present(part, 1)) is not None:
        mask = masks.get(name) or free_name(f"{name}{MASK}", fields)
        return fields, {name: part, mask: noted(present, name)}
    if name not in masks or _has_gaps_of(part, fields.named[name], fields.named[masks[name]]):
        return fields, {name: part}
    named = {other: field for other, field in fields.named.items() if other != masks[name]}
    why = f"is gone, since other data took the place of {name!r}, whose gaps it told"
    return Fields(named, {**fields.lost, masks[name]: why}), {name: part}


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
