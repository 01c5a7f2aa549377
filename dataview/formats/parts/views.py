"""The view of parts: their columns under the names, metadata and windows of an opened part."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dataview.formats.contents import described
from dataview.formats.parts.columns import ROWS, labels_of, metas_of, windows_of
from dataview.formats.parts.loaded import PartsTable
from dataview.formats.tables import DECIMAL, Name, column_node, is_of_codes, table_node
from dataview.plan.build import with_fields
from dataview.plan.fields import Fields
from dataview.plan.gaps import LABELS
from dataview.plan.kinds import Record
from dataview.plan.node import Node


def node_of_parts(
    table: PartsTable, like: Node, others: Mapping[Name, Mapping[str, Any]] = MappingProxyType({})
) -> Node:
    """Return the node of all parts; `like` is one of them that was opened.

    `others` are the metadata of columns of which that one does not say what they are.
    """
    known = {**labels_of(like), **table.these.labels}
    coded = {name for name, kind in table.kinds.items() if is_of_codes(kind)}
    labels = {name: own for name, own in known.items() if name in coded}
    table.number_alike(labels)
    if isinstance(like, Record):
        reasons = [told for own in table.these.unread.values() for told in own.items()]
        lost = {name[0]: why for name, why in reasons if len(name) == 1} | like.fields.unread
        metas = {**metas_of(like), **others}
        for name in metas.keys() & known.keys() - coded:  # other parts have values as they are
            metas[name] = {key: told for key, told in metas[name].items() if key != LABELS}
        for name, own in labels.items():
            metas[name] = {**metas.get(name, {}), LABELS: own}
        for name, meta in metas.items():
            if DECIMAL in meta and table.kinds[name].nature:  # that of all may have more digits
                metas[name] = {**meta, DECIMAL: table.kinds[name].nature}
        return described(table_node(table, table.kinds, table.how.fill, metas, lost), like.meta)
    node = described(column_node(table, ROWS, table.kinds[ROWS]), like.meta)
    windows = windows_of(like)
    return with_fields(node, Fields({**node.fields.named, **windows})) if windows else node
