"""The tree of a view's fields with their values in memory, as cells for text and HTML; the text."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, filterfalse, islice
from typing import Any

from dataview.index.shape_texts import shape_text
from dataview.plan.build import field
from dataview.plan.fields import Attached, Fields, Positions, Unread
from dataview.plan.gaps import masks_in
from dataview.plan.kinds import Driven, Record
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.samples import Stream
from dataview.show.cells import (
    CUT,
    ROOM,
    aligned,
    column_of,
    folds,
    grid_of,
    line_of,
    one_text,
)
from dataview.show.facts import (
    CLOSED,
    Place,
    files_of,
    is_closed,
    is_record,
    lengths_differ,
    place_words,
    places,
    size_words,
    states,
    what,
)
from dataview.show.formulas import formula_of
from dataview.show.values import Ends, ends_of, is_looked_up
from dataview.show.words import dtype_text, few, harmless, lengths_of, listing, meta_words

UNREAD_SHOWN, FIELDS_IN_TEXT = 5, 20
MANY = 5
"""Of more fields than so many times the room, only some three fifths of the room are shown.

That says as much of a thousand fields, and a display must be quick.
"""

ROWS, ROWS_ASKED = 3, 30
"""How many rows of each end are shown: of what is in memory, and of what was asked for."""

MOST_COPIED = 20
"""Rows in another order are copied to be seen: too slow for a display of more fields than this."""

FOLDS = 3
"""A table of rows that were asked for is folded into so many parts, at most.

Of a wider one the middle columns are left out.  The fields of a table that is shown unasked, and is
too wide, are shown one below the other.
"""

NUMBERS = "biufc"


@dataclass(slots=True)
class Part:
    """A field to show: its positions in a node's array, and the words about it."""

    node: Node
    data: Node
    positions: Mapping[int, Positions]
    fields: Fields
    masks: Mapping[str, str]
    cells: tuple[str, ...]
    names: tuple[str, ...]
    places: list[Place]
    states: list[str]
    meta: Mapping[str, Any]
    notes: Sequence[str] = ()
    ends: Ends | None = None
    parts: Sequence[Part] = ()
    inner: list[str] = dataclasses.field(init=False)
    """The names of the fields inside, without those that tell the gaps of others."""
    files: list[str] | None = None
    """The files of its places, if they were asked for: fields inside are compared with them."""

    def __post_init__(self) -> None:
        self.inner = [*self.fields]
        if self.masks:
            masks = set(self.masks.values())
            self.inner = [name for name in self.inner if name not in masks]

    @property
    def unread(self) -> Sequence[tuple[str, ...]]:
        """What is told below the fields inside: which cannot be read."""
        unread = self.fields.unread
        told = [
            (harmless(name), "?", "", f"not readable: {harmless(reason, 100)}", "")
            for name, reason in islice(unread.items(), UNREAD_SHOWN)
        ]
        more = len(unread) - len(told)
        return [*told, (f"{CUT} {more} more not readable", "", "", "", "")] if more else told


@dataclass(slots=True)
class Column:
    """A column of values, below its name and dtype if it has them."""

    cells: list[str]
    is_number: bool

    @property
    def width(self) -> int:
        return max(map(len, self.cells))


class Outline:
    """A view's fields, as many as there is room for, outer ones first, and values in memory.

    `data` are the same rows in memory if it was asked to read them.
    """

    def __init__(self, node: Node, data: Node | None, room: int) -> None:
        self.asked = asked = data is not None
        data = node if data is None else data
        seen = data if node.extents is None or None in node.extents else node
        known = [] if asked and node.shape is None else size_words(node)
        facts = places(seen), states(seen), node.meta
        self.root = root = Part(seen, data, {}, seen.fields, masks_in(seen.fields), (), (), *facts)
        self.rows = ROWS_ASKED if asked else ROWS
        self.what = what(seen)
        found = root.places if seen is node else places(node)
        where = few(files_of(found), 60) if is_record(node) else place_words(found)
        told = root.states if seen is node else states(node)
        if CLOSED not in told and is_closed(node):  # some fields, so that rows cannot be read
            told = [CLOSED, *told]
        self.facts = [*known, *where, *told, *meta_words(node.meta)]
        self.heads = self.hidden = 0
        self.unread = "" if asked else _unread(node, found, CLOSED in told)
        self.copies = asked or len(seen.fields) <= MOST_COPIED
        if not (root.fields.named or root.fields.unread):
            root.ends = None if is_record(seen) else ends_of(data, {}, self.rows)
            self.table = _grid(root.ends)
            self.unread = self.unread or _not_found([root])
            return
        if len(root.inner) > MANY * room and not asked:
            room = room * 3 // 5
        waiting = deque([root])
        while waiting:
            part = waiting.popleft()
            part.parts = [self._inner(part, name) for name in _ends_of_names(part.inner, room)]
            room -= len(part.parts)
            waiting.extend(part.parts)
        self.table = _table(root, asked)
        self.unread = self.unread or _not_found(root.parts)
        self.hidden = len(root.inner) - len(root.parts)
        if self.table and root.parts[0].ends:
            self.heads = len(self.table[0].cells) - len(column_of(root.parts[0].ends))

    def lines(self) -> Iterator[tuple[int, Part | None, tuple[str, ...]]]:
        """Yield for each line of the tree its depth, the field if it is one, and its cells."""
        return _lines(self.root, 0)

    def _inner(self, whole: Part, name: str) -> Part:
        """Return a field of another part."""
        found, names = whole.fields.named[name], (*whole.names, name)
        if isinstance(found, Attached):
            node = found.node
            data = node if whole.data is whole.node else field(whole.data, name)
            facts = places(node), states(node), node.meta
            part = Part(node, data, {}, node.fields, masks_in(node.fields), (), names, *facts)
            lengths = lengths_of(node)
            told = ([], []) if self.asked else _own_facts(whole, part, found.axes)
        else:
            node, where = whole.node, {**whole.positions, **found.positions}
            facts = whole.places, whole.states, found.meta
            part = Part(
                node, whole.data, where, found.fields, masks_in(found.fields), (), names, *facts
            )
            lengths = tuple(
                len(where[axis]) if axis in where else n  # type: ignore[arg-type]
                for axis, n in enumerate(lengths_of(node) or ())
                if not isinstance(where.get(axis), int)
            )
            told = [], []
        if not (part.fields.named or part.fields.unread):
            part.ends = ends_of(part.data, part.positions, self.rows, self.copies)
        meta = meta_words(part.meta)
        part.notes = [*meta, *told[1]]
        gaps = [f"gaps: {whole.masks[name]}"] if name in whole.masks else []
        notes = harmless(", ".join([*meta, *gaps, *chain(*told)]), 60)
        words = harmless(name), dtype_text(node), shape_text(lengths)
        part.cells = (*words, notes, line_of(part.ends))
        return part


def _lines(whole: Part, depth: int) -> Iterator[tuple[int, Part | None, tuple[str, ...]]]:
    shown = len(whole.parts)
    hidden = len(whole.inner) - shown
    before = _before_hidden(shown) if hidden else -1
    for number, part in enumerate(whole.parts):
        if number == before:
            yield depth, None, _left_out(hidden)
        yield depth, part, part.cells
        yield from _lines(part, depth + 1)
    if hidden and before == shown:
        yield depth, None, _left_out(hidden)
    for cells in whole.unread:
        yield depth, None, cells


def _before_hidden(shown: int) -> int:
    """Return behind how many of the fields that are shown others are left out."""
    return shown - shown // 3


def _left_out(count: int) -> tuple[str, ...]:
    """Return what stands for fields that are not shown: how many, and what shows them."""
    return f"{CUT} {count} more", "", "", "", "d._fields() has their names"


def _ends_of_names(names: list[str], room: int) -> list[str]:
    """Return as many names as there is room for, without those in the middle."""
    if len(names) <= room:
        return names
    last = room // 3
    return names[: room - last] + (names[-last:] if last else [])


def _own_facts(
    whole: Part, part: Part, axes: tuple[int, ...] | None
) -> tuple[list[str], list[str]]:
    """Return the places and states of a field with its own data if they are not the whole's."""
    if isinstance(whole.node, Driven) and part.node is whole.node.node:
        return [], ["stands for the rows"]
    told = [word for word in part.states if word not in whole.states]
    if axes is None and not isinstance(whole.node, Stream):
        told.append("does not follow rows")
    if whole.files is None:
        whole.files = files_of(whole.places)
    files, inner = files_of(part.places), is_record(part.node)
    names = [(place.names, part.names[: len(place.names)]) for place in part.places]
    if isinstance(part.node, Ragged):  # a file has it as values and lengths, below its name
        names = [(there[: len(here)], here) for there, here in names]
    is_read_whole = isinstance(whole.node, Stream)  # for each field are read those that it needs
    is_expected = inner or is_read_whole or all(there == here for there, here in names)
    if is_expected and files == whole.files:
        return [], told
    return few(files, 60) if inner else place_words(part.places), told


def _unread(node: Node, found: Sequence[Place], is_closed: bool) -> str:
    """Return what shows the values of a view of files, "" if there are none, or of other data."""
    if is_closed:
        return f"{CUT} closed; open the file again to read it"
    if not any(place.is_file for place in found) or formula_of(node):
        return ""
    rows = lengths_of(node)
    if rows is None or 0 in rows:
        return ""
    if isinstance(node, Record) and lengths_differ(node):
        first = harmless(next(iter(node.fields)))
        return f"{CUT} not read; d[{first!r}]._head() shows the first rows of a field"
    return f"{CUT} not read; {'d._head() shows the first rows' if rows else 'd() has the values'}"


def _not_found(parts: Sequence[Part]) -> str:
    """Return what shows the values of fields whose order is not found for a display."""
    is_due = any(part.ends is None and is_looked_up(part.data) for part in parts)
    return f"{CUT} not computed; d._head() shows the first rows" if is_due else ""


# --- values --------------------------------------------------------------------------------------


def _grid(ends: Ends | None) -> list[Column]:
    """Return the values of an array without fields: one, one line of them, or a table."""
    if ends is None or not ends.first.size or ends.first.ndim > 2:
        return []
    if not ends.first.ndim:
        return [Column([one_text(ends)], False)]
    if ends.first.ndim < 2:
        return [Column([line_of(ends, ROOM)], False)]
    is_number = ends.first.dtype.kind in NUMBERS
    return [Column(cells, is_number) for cells in grid_of(ends, ROOM)]


def _table(root: Part, asked: bool) -> list[Column]:
    """Return the fields as columns, if each has one value in a row.

    All must have room, unless it was asked to see these rows.
    """
    lengths = lengths_of(root.node)
    is_whole = len(root.inner) == len(root.parts)
    if not (is_whole or asked) or root.unread or isinstance(root.node, Driven) or not lengths:
        return []
    if not all(part.ends and _is_column(part, lengths[0]) for part in root.parts):
        return []
    noted = any(map(_notes, root.parts))
    columns = []
    for part in root.parts:
        cells = column_of(part.ends) if part.ends else []
        heads = [*part.cells[:2], _notes(part)] if noted else part.cells[:2]
        is_number = part.ends is not None and part.ends.first.dtype.kind in NUMBERS
        columns.append(Column([*heads, *cells], is_number))
    is_narrow = len(folds([column.width for column in columns], ROOM)) == 1
    return columns if asked or is_narrow else []


def _is_column(part: Part, length: float | None) -> bool:
    """Whether a field has one value for each row."""
    lengths = lengths_of(part.data) or ()
    single = all(isinstance(part.positions.get(axis), int) for axis in range(1, len(lengths)))
    return lengths[:1] == (length,) and single and 0 not in part.positions


def _notes(part: Part) -> str:
    return harmless(", ".join(part.notes), 24)


# --- the text ------------------------------------------------------------------------------------


def title(node: Node, name: str = "") -> str:
    """Return a view in a few words, for messages; with its file, if it cannot give a field."""
    if is_record(node) and node.fields.named:
        masks = set(masks_in(node.fields).values())
        told = f"View {what(node)}: {listing([*filterfalse(masks.__contains__, node.fields)])}"
        is_unread = isinstance(node.fields.lost.get(name), Unread)
        return ", ".join([told, *few(files_of(places(node)))]) if is_unread else told
    return ", ".join([f"View {what(node)}", *place_words(places(node))])


def text(node: Node, data: Node | None = None) -> str:
    """Return a view's facts on one line, its formula, its fields, and values that are in memory.

    `data` are the same rows in memory, where it was asked to read them.
    """
    shown = Outline(node, data, FIELDS_IN_TEXT)
    lines = [", ".join([f"View {shown.what}", *shown.facts])]
    if formula := formula_of(node):
        lines.append(f"  = {formula}")
    rows = _table_text(shown) if shown.table else _tree_text(shown)
    if shown.unread:
        rows = [*rows, shown.unread]
    return "\n".join([*lines, *(f"  {row}".rstrip() for row in rows)])


def _tree_text(shown: Outline) -> list[str]:
    lines = [("  " * depth + name, *cells) for depth, _, (name, *cells) in shown.lines()]
    return aligned(zip(*lines, strict=True), lambda number: False)


def _table_text(shown: Outline) -> list[str]:
    """Return the lines of a table; of a wide one those of its parts, without the middle columns."""
    for count in range(len(shown.table), 0, -1):
        table = with_gap(shown.table, count, shown.hidden)
        found = folds([column.width for column in table], ROOM)
        if len(found) <= FOLDS:
            break
    lines: list[str] = []
    for fold in found:
        looks = [column.is_number for column in table[fold]]
        lines += [""] * bool(lines)
        lines += aligned([column.cells for column in table[fold]], looks.__getitem__)
    return [*lines, *left_out_of(len(shown.table) - count + shown.hidden)]


def left_out_of(count: int) -> list[str]:
    """Return what is said below a table of fields that have no column."""
    return ["; ".join(filter(None, _left_out(count)))] if count else []


def with_gap(table: list[Column], count: int, hidden: int) -> list[Column]:
    """Return so many columns, those of the middle left out, and a sign where columns are hidden."""
    if not hidden and count == len(table):
        return table
    before = _before_hidden(count)
    gap = Column([CUT] * len(table[0].cells), False)
    return [*table[:before], gap, *table[len(table) - count + before :]]
