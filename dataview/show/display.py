"""A view as one line and as text: made from its plan and from values in memory, without reading."""

from __future__ import annotations

from dataview.plan.node import Node
from dataview.show.cells import aligned
from dataview.show.facts import is_record, place_words, places, what
from dataview.show.formulas import formula_of
from dataview.show.outline import Outline
from dataview.show.words import listing

FIELDS_SHOWN = 20


def title(node: Node) -> str:
    """Return a view in a few words, for messages."""
    if is_record(node) and node.fields.named:
        return f"View {what(node)}: {listing(node.fields.named)}"
    return ", ".join([f"View {what(node)}", *place_words(places(node))])


def text(node: Node, data: Node | None = None) -> str:
    """Return a view's facts on one line, its formula, its fields, and values that are in memory.

    `data` are the same rows in memory, where it was asked to read them.
    """
    shown = Outline(node, data, FIELDS_SHOWN)
    lines = [", ".join([f"View {shown.what}", *shown.facts])]
    if formula := formula_of(node):
        lines.append(f"  = {formula}")
    if shown.table:
        columns = [column.cells for column in shown.table]
        rows = aligned(columns, lambda number: shown.table[number].is_number)
    else:
        lines_of_fields = [
            ("  " * depth + name, *cells) for depth, _, (name, *cells) in shown.lines()
        ]
        rows = aligned(zip(*lines_of_fields, strict=True), lambda number: False)
    return "\n".join([*lines, *(f"  {row}" for row in rows)])
