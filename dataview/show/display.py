"""A view as one line, as text and as HTML: made from its plan, without reading data."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from dataview.index import Computed, Permutation
from dataview.plan.fields import Attached, Fields, Positions
from dataview.plan.kinds import (
    Comparison,
    Concat,
    Driven,
    LateStored,
    Mapped,
    Placeholder,
    Record,
    Select,
    Stored,
    nbytes_of,
)
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.plan.symbols import Deferred
from dataview.samplers import Cycle, Order
from dataview.samples import NumberedSamples, Stream, Undeclared, length_of
from dataview.show.formulas import formula_of
from dataview.show.pictures import picture
from dataview.show.words import (
    dtype_text,
    escape,
    few,
    harmless,
    inside,
    length_text,
    lengths_of,
    listing,
    meta_words,
    shape_text,
    size_text,
    undriven,
    value_text,
)

FIELDS_SHOWN = 20
HTML_BYTES = 5000
UNREAD_SHOWN = 5
NODES_ASKED = 500


def title(node: Node) -> str:
    """Return a view in a few words, for messages."""
    if _is_record(node) and node.fields.named:
        return f"View {_what(node)}: {listing(node.fields.named)}"
    return ", ".join([f"View {_what(node)}", *_places(node)])


def text(node: Node) -> str:
    """Return a view's facts on one line, its formula, and a line for each field."""
    whole = _outline(node, FIELDS_SHOWN)
    lines = [", ".join([f"View {_what(node)}", *_facts(whole)])]
    if formula := formula_of(node):
        lines.append(f"  = {formula}")
    cells = [*_cells(whole, "  ")]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines += ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
    return "\n".join(lines)


def html(node: Node) -> str:
    """Return the same as HTML, without scripts or style sheets, with the picture of a computation.

    If the page would be too long, it shows fewer fields.
    """
    drawn = picture(node)
    most = HTML_BYTES + len(drawn.encode())
    pages = [FIELDS_SHOWN, FIELDS_SHOWN // 2, FIELDS_SHOWN // 5]
    small = (page for shown in pages if len((page := _page(node, shown, drawn)).encode()) < most)
    return next(small, None) or _page(node, 0, drawn)


# --- the first line --------------------------------------------------------------------------


def _what(node: Node) -> str:
    """Return the number of rows of a record or of unknown samples, else shape and dtype."""
    node = undriven(node)
    lengths = lengths_of(node)
    first = (lengths or (None,))[0]
    rows = "1 row" if first == 1 else f"{length_text(first)} rows"
    unknown = isinstance(node, NumberedSamples) and (node.row_extents is None or node.dtype is None)
    if unknown or (isinstance(node, Stream) and node.sample is None):
        return f"of {rows} of ?" if lengths else "of ?"
    if not _is_record(node):
        return f"{shape_text(lengths)} {dtype_text(node)}"
    if lengths and len(lengths) > 1:
        return f"of {shape_text(lengths)} rows"
    return f"of {rows}" if lengths else "of one sample"


def _facts(whole: _Part) -> list[str]:
    """Return the size of the data, its places, its states and its metadata."""
    size = _nbytes(whole.node)
    known = [] if size is None else [size_text(size)]
    return known + whole.places + whole.states + meta_words(whole.node.meta)


def _nbytes(node: Node) -> int | None:
    if not isinstance(node, Record) or node.shape is not None:
        return nbytes_of(node)
    known = [nbytes_of(part) for part in inside(node)]
    return None if None in known else sum(filter(None, known))


PLACES: dict[type[Node], Callable[[Any], str]] = {
    Stored: lambda node: node.source.describe(),
    LateStored: lambda node: node.source.describe(),
    Placeholder: lambda node: f"symbol {harmless(node.name)}",
    Deferred: lambda node: f"of symbol {listing(node.names)}",
    Stream: lambda node: "stream",
}
STATES: dict[type[Node], dict[str, Callable[[Any], int | str]]] = {
    Concat: {"joined ({} parts)": lambda node: len(node.nodes)},
    Stream: {
        "filtered": lambda node: len(inside(node)),
        "can be read once": lambda node: not node.samples.restarts,
        "not probed": lambda node: node.sample is None,
    },
    NumberedSamples: {"not probed": lambda node: True},
    Mapped: {"{}": lambda node: harmless(node.step.title, 60)},
    Undeclared: {"{}": lambda node: harmless(node.step.title, 60), "not probed": lambda node: True},
    Stored: {"read-only": lambda node: not node.writable},
    LateStored: {"read-only": lambda node: True},
    Comparison: {"sides do not broadcast": lambda node: node.shape is None},
    Record: {"no common length": lambda node: _lengths_differ(node)},
}


def _places(node: Node) -> list[str]:
    """Return the places of the data, each named once."""
    found: dict[str, None] = {}
    seen: set[int] = set()
    waiting = [node]
    while waiting and len(seen) < NODES_ASKED:
        here = waiting.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        below = inside(here)
        waiting.extend(reversed(below))
        if not below and not isinstance(here, Record):
            found[_place(here)] = None
    return few(found, 60)


def _place(node: Node) -> str:
    """Return the place of the data of a node that is made of no others."""
    if isinstance(node, NumberedSamples):
        return node.place
    told = PLACES.get(type(node))
    return "computed" if told is None else told(node)


def _states(node: Node, depth: int = 4) -> list[str]:
    """Return in words how the rows were changed, and what they do not allow."""
    words: dict[str, None] = {}
    while isinstance(node, (Select, Driven, Ragged)):
        words |= _order_words(node)
        node = node.values if isinstance(node, Ragged) else node.node
    words |= _order_words(node)
    if isinstance(node, (Concat, Record)) and depth:
        parts = list(islice(inside(node), NODES_ASKED))
        for word in _states(parts[0], depth - 1) if parts else ():
            if all(word in _states(part, depth - 1) for part in parts):
                words[word] = None
    states = STATES.get(type(node), {}).items()
    return [*words, *(word.format(value) for word, ask in states if (value := ask(node)))]


def _order_words(node: Node) -> dict[str, None]:
    words: dict[str, None] = {}
    for map_ in node.index.maps if isinstance(node, (Select, NumberedSamples, Ragged)) else ():
        while isinstance(map_, Computed):
            order = map_.function
            order = order.function if isinstance(order, Order) else order
            if isinstance(order, Permutation):
                seed = listing([*map(value_text, order.key)])
                words[f"shuffled (seed {seed})"] = None
            if isinstance(order, Cycle):
                words["repeated"] = None
            map_ = map_.inner
    return words


def _is_record(node: Node) -> bool:
    inner = undriven(node)
    return isinstance(inner.sample if isinstance(inner, Stream) else inner, Record)


def _lengths_differ(node: Record) -> bool:
    unshared = node.rank > 0 and node.shape is None
    return unshared and len({*map(length_of, inside(node))} - {None}) > 1


# --- the field tree --------------------------------------------------------------------------


@dataclass(slots=True)
class _Part:
    """A field to show: its positions in a node's array, and the words about it."""

    node: Node
    positions: Mapping[int, Positions]
    fields: Fields
    cells: tuple[str, ...]
    places: list[str]
    states: list[str]
    parts: Sequence[_Part] = ()

    @property
    def others(self) -> Sequence[tuple[str, ...]]:
        """What is told below the fields inside: how many are not shown, which cannot be read."""
        rest, unread = len(self.fields) - len(self.parts), self.fields.unread
        hidden = [(f"… {rest} more", "", "", "")] if rest else []
        told = [
            (harmless(name), "?", "", f"not readable: {harmless(reason, 100)}")
            for name, reason in islice(unread.items(), UNREAD_SHOWN)
        ]
        more = len(unread) - len(told)
        return [*hidden, *told] + ([(f"… {more} more not readable", "", "", "")] if more else [])


def _outline(node: Node, room: int) -> _Part:
    """Return the tree of as many fields as there is room for, outer ones first."""
    root = _Part(node, {}, node.fields, (), _places(node), _states(node))
    waiting = deque([root])
    while waiting:
        part = waiting.popleft()
        part.parts = [_inner(part, name) for name in islice(part.fields, room)]
        room -= len(part.parts)
        waiting.extend(part.parts)
    return root


def _inner(whole: _Part, name: str) -> _Part:
    """Return a field of another part."""
    found = whole.fields.named[name]
    if isinstance(found, Attached):
        node = found.node
        part = _Part(node, {}, node.fields, (), _places(node), _states(node))
        lengths = lengths_of(node)
        notes = meta_words(node.meta) + _own_facts(whole, part, found.axes)
    else:
        node, where = whole.node, {**whole.positions, **found.positions}
        part = _Part(node, where, found.fields, (), whole.places, whole.states)
        lengths = tuple(
            len(where[axis]) if axis in where else n  # type: ignore[arg-type]
            for axis, n in enumerate(lengths_of(node) or ())
            if not isinstance(where.get(axis), int)
        )
        notes = meta_words(found.meta)
    notes = [harmless(", ".join(notes), 60)]
    part.cells = (harmless(name), dtype_text(node), shape_text(lengths), *notes)
    return part


def _own_facts(whole: _Part, part: _Part, axes: tuple[int, ...] | None) -> list[str]:
    """Return the facts of a field with its own data that are not shown for the whole."""
    if isinstance(whole.node, Driven) and part.node is whole.node.node:
        return ["stands for the rows"]
    places = part.places if part.places != whole.places else []
    states = [word for word in part.states if word not in whole.states]
    if axes is not None or isinstance(whole.node, Stream):
        return places + states
    return [*places, *states, "does not follow rows"]


def _cells(part: _Part, indent: str) -> Iterator[tuple[str, ...]]:
    for inner in part.parts:
        yield (indent + inner.cells[0], *inner.cells[1:])
        yield from _cells(inner, indent + "  ")
    for name, *cells in part.others:
        yield (indent + name, *cells)


# --- HTML ------------------------------------------------------------------------------------

FRAME = (
    "font:var(--jp-code-font-size,13px) var(--jp-code-font-family,monospace);"
    "color:var(--jp-content-font-color1,inherit)"
)
QUIET = "color:var(--jp-content-font-color2,inherit)"
LEFT = 'style="text-align:left"'


def _page(node: Node, shown: int, drawn: str) -> str:
    whole, formula = _outline(node, shown), formula_of(node)
    facts = escape(", ".join(["", *_facts(whole)]))
    first = f'<b>View</b> {escape(_what(node))}<span style="{QUIET}">{facts}</span>'
    lines = [f'<div style="{FRAME}">', f"<div>{first}</div>"]
    if formula:
        lines.append(f"<div>= {escape(formula)}</div>")
    if node.fields.named or node.fields.unread:
        table = '<table style="color:inherit;margin:0">'
        lines += [f"<details open><summary>fields</summary>{table}", *_rows(whole)]
        lines.append("</table></details>")
    if drawn:
        lines.append(f"<details open><summary>picture</summary>\n{drawn}\n</details>")
    return "\n".join([*lines, "</div>"])


def _rows(part: _Part, depth: int = 0) -> Iterator[str]:
    """Yield the rows of one table, so that its columns are aligned; inner names are indented."""
    name = f'<td style="text-align:left;padding-left:{depth * 1.5 + 0.5:g}em">'
    for inner in part.parts:
        yield _row(name, inner.cells)
        yield from _rows(inner, depth + 1)
    for cells in part.others:
        yield _row(name, cells)


def _row(name: str, cells: Sequence[str]) -> str:
    word, *others = [escape(cell) for cell in cells if cell]
    rest = "".join(f"<td {LEFT}>{cell}</td>" for cell in others)
    return f"<tr>{name}{word}</td>{rest}</tr>"
