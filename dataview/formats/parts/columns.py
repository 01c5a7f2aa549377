"""A part as columns: what each is, and what it holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dataview.compute import evaluate_all
from dataview.errors import shortened
from dataview.formats.tables import (
    Column,
    ColumnSource,
    Kind,
    Name,
    is_of_codes,
    is_void,
    nothing_of,
    table_node,
    tells_missing,
)
from dataview.formats.texts import agreed, kind_seen
from dataview.index.flat import Layout
from dataview.plan.fields import Window
from dataview.plan.gaps import LABELS, NO_LABEL, PRESENT, holds_codes, least_present, masks_in
from dataview.plan.kinds import Record, Stored, members
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged

CODES = "codes"
"""The nature of codes in a file that does not say what they are codes of."""

ROWS: Name = ("rows",)
"""The name of the only column of a part that is one array."""


class Leaf(NamedTuple):
    """A column of an opened part, and which of its rows there are; None if all are."""

    node: Node
    mask: Node | None = None


def leaves_of(
    node: Node, above: Name = (), mask: Node | None = None
) -> Iterator[tuple[Name, Leaf]]:
    """Yield the columns of an opened part by their names, and which of its records there are."""
    if not isinstance(node, Record):
        yield above or ROWS, Leaf(node, mask)
        return
    if mask is not None:
        yield (*above, PRESENT), Leaf(mask)
    masks = masks_in(node.fields)
    own = members(node)
    for name, part in own.items():
        if name not in masks.values():
            beside = own[masks[name]].node if name in masks else None
            yield from leaves_of(part.node, (*above, name), beside)


def kinds_of(node: Node, path: str) -> dict[Name, Kind]:
    """Return what the columns of an opened part are, or raise if it is no table of rows."""
    if isinstance(node, Record) and node.rank != 1:
        raise ValueError(f"{path} has no rows that all its fields share, so that it is no part")
    leaves = dict(leaves_of(node))
    kinds = {name: kind_of(leaf, name, path) for name, leaf in leaves.items()}
    lengths = {name: leaf.node.count for name, leaf in leaves.items()}
    if len({*lengths.values()}) > 1:
        told = shortened(", ".join(f"{'.'.join(name)} {count}" for name, count in lengths.items()))
        raise ValueError(
            f"{path} is no part: its fields have different lengths, so that they share no rows: "
            f"{told}; dv.concat([dv.open(path).field for path in paths]) joins one of them"
        )
    return kinds


def kind_of(leaf: Leaf, name: Name, path: str) -> Kind:
    """Return what a column is."""
    node, depth, lacks_lists = leaf.node, 0, False
    while isinstance(node, Ragged) and node.layout.axes == (None,):
        lacks_lists = lacks_lists or node.layout.present is not None
        node, depth = node.values, depth + 1
    if node.shape is None or node.dtype is None or not node.shape:
        called = "its data" if name == ROWS else f"field {'.'.join(name)!r}"
        raise ValueError(
            f"{path} is no part: {called} has no rows of one shape, nor of one ragged axis; "
            "dv.concat([dv.open(path) for path in paths]) joins such files"
        )
    mask = least_present(node, 1) if depth else leaf.mask
    has_missing = lacks_lists or leaf.mask is not None or mask is not None
    of_elements = mask is not None and len(mask.shape or ()) > 1
    source = node.source if isinstance(node, Stored) else None
    nature = getattr(source, "nature", "")
    kind = Kind(node.dtype, node.shape[1:], depth, has_missing, nature, lacks_elements=of_elements)
    if isinstance(source, ColumnSource):
        kind = kind._replace(seen=source.table.seen_in(source.name))
    if nature.startswith(CODES) or holds_codes(leaf.node):  # without rows there are no labels
        kind = kind._replace(nature=nature or CODES, nothing=NO_LABEL)  # 0 is the first label
    return kind.meant(leaf.node.meta)


def agreeing(
    schemas: Sequence[Mapping[Name, Kind]], schema: str, labels: Mapping[Name, list[object]]
) -> list[dict[Name, Kind]]:
    """Return what the columns of parts are such that all parts agree, as files of one table do.

    `labels` are what codes stand for in all parts.
    """
    seen = [{name: kind.seen for name, kind in own.items() if kind.seen} for own in schemas]
    found = [{name: kind_seen(bits) for name, bits in own.items()} for own in agreed(seen, schema)]
    whole = [{**own, **again} for own, again in zip(schemas, found, strict=True)]
    plain: dict[tuple[Name, str], Kind] = {}  # what is in some parts as it is, and in others coded
    for own in whole:
        for name, kind in own.items():
            if not is_of_codes(kind):
                plain.setdefault((name, f"codes of {kind.nature or kind.dtype}"), kind)
    lacking = {name for name in labels for own in schemas if name not in own or is_void(own[name])}

    def agreed_kind(name: Name, kind: Kind) -> Kind:
        found = _decoded(kind, plain.get((name, kind.nature)))
        if not is_of_codes(found):
            return found
        return _wide_enough(found, len(labels.get(name, ())), name in lacking)

    return [{name: agreed_kind(name, kind) for name, kind in own.items()} for own in whole]


def _wide_enough(kind: Kind, count: int, are_lacking: bool) -> Kind:
    """Return codes of a dtype that has room for so many labels, and for -1 if some are lacking."""
    fits = count - 1 <= np.iinfo(kind.dtype).max
    if fits and not (are_lacking and kind.dtype.kind == "u"):
        return kind
    return kind._replace(dtype=np.promote_types(kind.dtype, np.min_scalar_type(-max(count, 1))))


DECODED = ("string", "binary", "")
"""The natures of values that are the labels of their codes as they are; others have metadata."""


def _decoded(kind: Kind, plain: Kind | None) -> Kind:
    """Return what codes are in a part if another part has such values as they are."""
    if plain is None or plain.nature not in DECODED or not is_of_codes(kind):
        return kind
    lacks = kind.lacks_elements and not tells_missing(plain.dtype)
    told = {"dtype": plain.dtype, "nature": plain.nature, "nothing": plain.nothing}
    return kind._replace(**told, lacks_elements=lacks)


def decoded(column: Column, labels: list[object], kind: Kind) -> Column:
    """Return what the codes of a part stand for."""
    if isinstance(column.values, Column):
        return column._replace(values=decoded(column.values, labels, kind))
    values = np.full(len(labels) + 1, nothing_of(kind), kind.dtype)
    values[:-1] = labels
    return column._replace(values=values[np.asarray(column.values)])


def read_as(node: Node, kinds: Mapping[Name, Kind]) -> Node:
    """Return an opened part of text whose columns are read as all parts agree that they are."""
    table = next(
        leaf.node.source.table
        for _, leaf in leaves_of(node)
        if isinstance(leaf.node, Stored) and isinstance(leaf.node.source, ColumnSource)
    )
    return table_node(table.seen_as({name: kind.seen for name, kind in kinds.items()}), kinds)


def unread_of(node: Node, above: Name = ()) -> Iterator[tuple[Name, str]]:
    """Yield the columns of an opened part that cannot be read, each with the reason."""
    if isinstance(node, Record):
        for name, why in node.fields.unread.items():
            yield (*above, name), why
        for name, part in members(node).items():
            yield from unread_of(part.node, (*above, name))


def rows_in(node: Node) -> int:
    """Return the number of rows of an opened part."""
    first = next((leaf.node for _, leaf in leaves_of(node)), None)
    assert first is not None and first.count is not None
    return int(first.count)


def columns_of(leaves: Sequence[Leaf]) -> list[Column]:
    """Return all of some columns, in memory; they are read together."""
    flat = [_flat(leaf) for leaf in leaves]
    masks = [leaf.mask for leaf in leaves]
    wanted = [*masks, *(node for values, mask, _ in flat for node in (values, mask))]
    nodes = [*dict.fromkeys(node for node in wanted if node is not None)]
    found = dict(zip(nodes, evaluate_all(nodes), strict=True))
    columns = []
    for leaf, (values, mask, layouts) in zip(leaves, flat, strict=True):
        column = Column(np.asarray(found[values]), None if mask is None else found[mask])
        for layout in reversed(layouts):
            column = Column(column, layout.present, np.asarray(layout.offsets))
        columns.append(column if leaf.mask is None else column._replace(present=found[leaf.mask]))
    return columns


def _flat(leaf: Leaf) -> tuple[Node, Node | None, list[Layout]]:
    """Return the values of a column, which of them there are, and the lists they are in."""
    node, layouts = leaf.node, []
    while isinstance(node, Ragged):
        rows = node.relaid()
        node = rows.values
        layouts.append(rows.layout)
    return node, least_present(node, 1) if layouts else leaf.mask, layouts


def no_rows(kind: Kind) -> Column:
    """Return a column without rows."""
    if kind.depth:
        inner = no_rows(kind._replace(depth=kind.depth - 1))
        return Column(inner, None, np.zeros(1, np.intp))
    return Column(np.empty((0, *kind.shape), kind.dtype))


def metas_of(node: Node) -> dict[Name, Mapping[str, object]]:
    """Return the metadata of columns."""
    return {name: leaf.node.meta for name, leaf in leaves_of(node) if leaf.node.meta}


def labels_of(node: Node) -> dict[Name, list[object]]:
    """Return what the codes of columns stand for, where that is known."""
    return {n: [*leaf.node.meta[LABELS]] for n, leaf in leaves_of(node) if holds_codes(leaf.node)}


def labels_together(several: Iterable[Mapping[Name, list[object]]]) -> dict[Name, list[object]]:
    """Return the labels of columns of several parts, each once, those of the first part first.

    >>> labels_together([{("c",): ["b", "a"]}, {}, {("c",): ["a", "d"]}])
    {('c',): ['b', 'a', 'd']}
    """
    found: dict[Name, dict[object, None]] = {}
    for labels in several:
        for name, own in labels.items():
            found.setdefault(name, {}).update(dict.fromkeys(own))
    return {name: [*own] for name, own in found.items()}


def recoded(
    column: Column, own: list[object], labels: list[object], dtype: np.dtype, where: str
) -> Column:
    """Return codes of a part as numbers of other labels, or raise if these lack one of them."""
    if own == labels:
        return column
    if isinstance(column.values, Column):
        return column._replace(values=recoded(column.values, own, labels, dtype, where))
    known = {label: number for number, label in enumerate(labels)}
    unknown = [label for label in own if label not in known]
    if unknown:
        raise ValueError(
            f"{where} has codes of other labels than the first part ({unknown[0]!r} is not among "
            "those), so its codes say something else; manifest=True numbers the labels of all parts"
        )
    numbers = np.array([*(known[label] for label in own), NO_LABEL])  # which is at -1, too
    return column._replace(values=numbers.astype(dtype)[column.values])


def windows_of(node: Node) -> dict[str, Window]:
    """Return the windows that are the fields of one array."""
    return {name: part for name, part in node.fields.named.items() if isinstance(part, Window)}
