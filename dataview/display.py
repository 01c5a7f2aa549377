"""A view as one line, as text and as HTML: from what its plan says, never by reading."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from dataview.fields import Attached, Fields, Positions
from dataview.index import Computed, is_endless
from dataview.made import Made
from dataview.nodes import (
    Argument,
    Comparison,
    Concat,
    Driven,
    Elementwise,
    Node,
    Record,
    Select,
    Stored,
    members,
    size_of,
)
from dataview.permutation import Permutation
from dataview.rows import Cycle
from dataview.streams import Kept, Stream, length_of

__all__ = ["html", "text", "title"]

FIELDS_SHOWN = 20
HTML_BYTES = 5000
FORMULA_LENGTH = 100
FORMULA_STEPS = 12
NODES_ASKED = 500
Lengths: TypeAlias = "tuple[float | None, ...] | None"


def title(node: Node) -> str:
    """Return what a view is in a few words, for messages."""
    if _is_record(node) and node.fields.named:
        return f"View {_what(node)}: {_listing(node.fields.named)}"
    return ", ".join([f"View {_what(node)}", *_places(node)])


def text(node: Node) -> str:
    """Return a view's facts on one line, its formula, and a line for each field."""
    whole = _outline(node, FIELDS_SHOWN)
    lines = [", ".join([f"View {_what(node)}", *_facts(whole)])]
    if formula := _formula(node):
        lines.append(f"  = {formula}")
    cells = [*_cells(whole, "  ")]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines += ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
    return "\n".join(lines)


def html(node: Node) -> str:
    """Return the same as HTML without scripts or sheets: fewer fields where it would grow long."""
    pages = (_page(node, shown) for shown in (FIELDS_SHOWN, FIELDS_SHOWN // 2, FIELDS_SHOWN // 5))
    small = (page for page in pages if len(page.encode()) < HTML_BYTES)
    return next(small, None) or _page(node, 0)


# --- the first line --------------------------------------------------------------------------


def _what(node: Node) -> str:
    """Return the rows of a record or of unknown samples, shape and dtype of anything else."""
    node = _undriven(node)
    lengths = _lengths(node)
    first = (lengths or (None,))[0]
    rows = "1 row" if first == 1 else f"{_length_text(first)} rows"
    if isinstance(node, Made) or (isinstance(node, Stream) and node.sample is None):
        return f"of {rows} of ?" if lengths else "of ?"
    if not _is_record(node):
        return f"{_shape_text(lengths)} {_dtype_text(node)}"
    if lengths and len(lengths) > 1:
        return f"of {_shape_text(lengths)} rows"
    return f"of {rows}" if lengths else "of one sample"


def _lengths(node: Node) -> Lengths:
    """Return the shape as far as it is known."""
    node = _undriven(node)
    if isinstance(node, Made):
        return None if node.count is None else (length_of(node), None)
    if isinstance(node, Stream):
        inner = None if node.sample is None else _lengths(node.sample)
        return (None, None) if inner is None else (None, *inner)
    if isinstance(node, Record) and node.shape is None:
        common = set(map(length_of, _inside(node)))
        return (common.pop() if len(common) == 1 else None, *[None] * node.rank)[: node.rank]
    return node.shape


def _facts(whole: _Part) -> list[str]:
    """Return the size, the places of the data, what was done to it, and the metadata."""
    size = _nbytes(whole.node)
    known = [] if size is None else [_size_text(size)]
    return known + whole.places + whole.states + _meta_words(whole.node.meta)


def _nbytes(node: Node) -> int | None:
    if node.shape is not None and node.dtype is not None:
        endless = any(map(is_endless, node.shape))
        return None if endless else size_of(node.shape) * node.dtype.itemsize
    parts = _inside(node) if isinstance(node, Record) else [node]
    sizes = [_nbytes(part) for part in parts if part.shape is not None and part.dtype is not None]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(parts) else None


INSIDE: dict[type[Node], Callable[[Any], Sequence[Node]]] = {
    Select: lambda node: (node.node,),
    Driven: lambda node: (node.node,),
    Concat: lambda node: node.nodes,
    Record: lambda node: [part.node for part in members(node).values()],
    Stream: lambda node: _filtered(node),
}
PLACES: dict[type[Node], Callable[[Any], str]] = {
    Stored: lambda node: node.source.describe(),
    Made: lambda node: "function",
    Stream: lambda node: "stream",
}
STATES: dict[type[Node], dict[str, Callable[[Any], int]]] = {
    Concat: {"joined ({} parts)": lambda node: len(node.nodes)},
    Stream: {
        "filtered": lambda node: len(_filtered(node)),
        "can be read once": lambda node: not node.samples.restarts,
        "not probed": lambda node: node.sample is None,
    },
    Made: {"not probed": lambda node: True},
    Stored: {"read-only": lambda node: not node.writable},
    Comparison: {"sides do not broadcast": lambda node: node.shape is None},
    Record: {"no common length": lambda node: _lengths_differ(node)},
}


def _inside(node: Node) -> Sequence[Node]:
    return INSIDE[type(node)](node) if type(node) in INSIDE else ()


def _places(node: Node) -> list[str]:
    """Return where the data is: the places of all that it is taken from, each named once."""
    found: dict[str, None] = {}
    seen: set[int] = set()
    waiting = [node]
    while waiting and len(seen) < NODES_ASKED:
        here = waiting.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        inside = _inside(here)
        waiting.extend(reversed(inside))
        if not inside and not isinstance(here, Record):
            found[PLACES.get(type(here), lambda _: "computed")(here)] = None
    return _few(found, 60)


def _states(node: Node, depth: int = 4) -> list[str]:
    """Return what was done to the rows, and what cannot be done with them."""
    words: dict[str, None] = {}
    while isinstance(node, (Select, Driven)):
        words |= _order_words(node)
        node = node.node
    words |= _order_words(node)
    if isinstance(node, (Concat, Record)) and depth:
        parts = list(islice(_inside(node), NODES_ASKED))
        for word in _states(parts[0], depth - 1) if parts else ():
            if all(word in _states(part, depth - 1) for part in parts):
                words[word] = None
    states = STATES.get(type(node), {}).items()
    return [*words, *(word.format(value) for word, ask in states if (value := ask(node)))]


def _order_words(node: Node) -> dict[str, None]:
    words: dict[str, None] = {}
    for map_ in node.index.maps if isinstance(node, (Select, Made)) else ():
        while isinstance(map_, Computed):
            if isinstance(map_.function, Permutation):
                seed = _listing([*map(_value_text, map_.function.key)])
                words[f"shuffled (seed {seed})"] = None
            if isinstance(map_.function, Cycle):
                words["repeated"] = None
            map_ = map_.inner
    return words


def _is_record(node: Node) -> bool:
    inner = _undriven(node)
    return isinstance(inner.sample if isinstance(inner, Stream) else inner, Record)


def _undriven(node: Node) -> Node:
    while isinstance(node, Driven):
        node = node.node
    return node


def _filtered(node: Any) -> tuple[Node, ...]:
    samples = node.samples
    while hasattr(samples, "samples"):
        samples = samples.samples
    return (samples.node,) if isinstance(samples, Kept) else ()


def _lengths_differ(node: Record) -> bool:
    unshared = node.rank > 0 and node.shape is None
    return unshared and len({*map(length_of, _inside(node))} - {None}) > 1


# --- the field tree --------------------------------------------------------------------------


@dataclass(slots=True)
class _Part:
    """A field to be shown: positions in a node's array, and what is said of it."""

    node: Node
    positions: Mapping[int, Positions]
    fields: Fields
    cells: tuple[str, ...]
    places: list[str]
    states: list[str]
    parts: Sequence[_Part] = ()

    @property
    def hidden(self) -> list[str]:
        """How many fields inside are not shown, if any."""
        rest = len(self.fields) - len(self.parts)
        return [f"… {rest} more"] if rest else []


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
    """Return a field of what is shown."""
    found = whole.fields.named[name]
    if isinstance(found, Attached):
        node = found.node
        part = _Part(node, {}, node.fields, (), _places(node), _states(node))
        lengths, notes = _lengths(node), _meta_words(node.meta) + _news(whole, part, found.axes)
    else:
        node, where = whole.node, {**whole.positions, **found.positions}
        part = _Part(node, where, found.fields, (), whole.places, whole.states)
        places = [where.get(axis, range(n)) for axis, n in enumerate(node.shape or ())]
        lengths = tuple(len(place) for place in places if not isinstance(place, int))
        notes = _meta_words(found.meta)
    notes = [_plain(", ".join(notes), 60)]
    part.cells = (_plain(name), _dtype_text(node), _shape_text(lengths), *notes)
    return part


def _news(whole: _Part, part: _Part, axes: tuple[int, ...] | None) -> list[str]:
    """Return what is true of an array of its own, and is not told of the whole."""
    if isinstance(whole.node, Driven) and part.node is whole.node.node:
        return ["stands for the rows"]
    places = part.places if part.places != whole.places else []
    states = [word for word in part.states if word not in whole.states]
    apart = axes is None and not isinstance(whole.node, Stream)
    return places + states + ["does not follow rows"] * apart


def _cells(part: _Part, indent: str) -> Iterator[tuple[str, ...]]:
    for inner in part.parts:
        yield (indent + inner.cells[0], *inner.cells[1:])
        yield from _cells(inner, indent + "  ")
    for line in part.hidden:
        yield indent + line, "", "", ""


# --- HTML ------------------------------------------------------------------------------------

FRAME = (
    "font:var(--jp-code-font-size,13px) var(--jp-code-font-family,monospace);"
    "color:var(--jp-content-font-color1,inherit)"
)
QUIET = "color:var(--jp-content-font-color2,inherit)"
LEFT = 'style="text-align:left"'


def _page(node: Node, shown: int) -> str:
    whole, formula = _outline(node, shown), _formula(node)
    facts = escape(", ".join(["", *_facts(whole)]))
    first = f'<b>View</b> {escape(_what(node))}<span style="{QUIET}">{facts}</span>'
    lines = [f'<div style="{FRAME}">', f"<div>{first}</div>"]
    if formula:
        lines.append(f"<div>= {escape(formula)}</div>")
    if node.fields.named:
        lines.append(_folded("<details open><summary>fields", whole))
    return "\n".join([*lines, "</div>"])


def _folded(opening: str, part: _Part) -> str:
    rows = [*map(_row, part.parts), *(f"<tr><td {LEFT}>{line}</td></tr>" for line in part.hidden)]
    table = '<table style="color:inherit">'
    return "\n".join([f"{opening}</summary>{table}", *rows, "</table></details>"])


def _row(part: _Part) -> str:
    cells = [escape(cell) for cell in part.cells if cell]
    if not part.fields.named:
        return f"<tr>{''.join(f'<td {LEFT}>{cell}</td>' for cell in cells)}</tr>"
    inside = _folded(f"<details><summary>{' '.join(cells)}", part)
    return f'<tr><td colspan="4" {LEFT}>{inside}</td></tr>'


# --- formulas --------------------------------------------------------------------------------

ATOM, POWER, UNARY, COMPARED = 11, 10, 9, 2
COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)
INFIX: dict[int, dict[np.ufunc, str]] = {
    POWER: {np.power: "**"},
    8: {np.multiply: "*", np.divide: "/", np.floor_divide: "//", np.remainder: "%"},
    7: {np.add: "+", np.subtract: "-"},
    6: {np.left_shift: "<<", np.right_shift: ">>"},
    5: {np.bitwise_and: "&"},
    4: {np.bitwise_xor: "^"},
    3: {np.bitwise_or: "|"},
    COMPARED: dict(zip(COMPARISONS, ("<", "<=", ">", ">=", "==", "!="), strict=True)),
}
SYMBOLS = {ufunc: (name, level) for level, row in INFIX.items() for ufunc, name in row.items()}
PREFIX: dict[np.ufunc, str] = {np.negative: "-", np.positive: "+", np.invert: "~"}


def _formula(node: Node) -> str:
    node = _undriven(node)
    return _plain(_term(node, FORMULA_STEPS)[0], FORMULA_LENGTH) if _is_symbolic(node) else ""


def _is_symbolic(argument: Argument) -> bool:
    whole = argument.node if isinstance(argument, Select) else argument
    return isinstance(whole, (Elementwise, Comparison))


def _term(argument: Argument, room: int) -> tuple[str, int]:
    """Return an operand as text and how tightly it binds; `room` is how many steps may be told."""
    if not isinstance(argument, Node):
        number = _value_text(argument)
        return number, UNARY if number.startswith("-") else ATOM
    if not _is_symbolic(argument):
        return f"{_dtype_text(argument)}{_shape_text(_lengths(argument))}", ATOM
    if not room:
        return "…", ATOM
    if isinstance(argument, Select):
        return f"{_bare(_term(argument.node, room - 1), ATOM)}[…]", ATOM
    assert isinstance(argument, (Elementwise, Comparison))
    share = (room - 1) // max(1, sum(map(_is_symbolic, argument.args)))
    return _applied(argument, [_term(operand, share) for operand in argument.args])


def _applied(node: Elementwise | Comparison, terms: list[tuple[str, int]]) -> tuple[str, int]:
    equality = np.not_equal if isinstance(node, Comparison) and node.negated else np.equal
    ufunc = node.ufunc if isinstance(node, Elementwise) else equality
    if ufunc in SYMBOLS:
        symbol, level = SYMBOLS[ufunc]
        left = _bare(terms[0], level + (level in (POWER, COMPARED)))
        return f"{left} {symbol} {_bare(terms[1], UNARY if level == POWER else level + 1)}", level
    if ufunc in PREFIX:
        return f"{PREFIX[ufunc]}{_bare(terms[0], UNARY)}", UNARY
    which = f"[{node.output}]" if isinstance(node, Elementwise) and ufunc.nout > 1 else ""
    name = _plain(ufunc.__name__.removesuffix(" (vectorized)"))
    return f"{name}({', '.join(term for term, _ in terms)}){which}", ATOM


def _bare(term: tuple[str, int], level: int) -> str:
    return term[0] if term[1] >= level else f"({term[0]})"


# --- words -----------------------------------------------------------------------------------


def _plain(words: str, limit: int = 32) -> str:
    """Return a text from outside cut to the limit, such that it stays on its line."""
    cut = words if len(words) <= limit else words[: limit - 1] + "…"
    if cut.isprintable():
        return cut
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def _few(words: Collection[str], limit: int = 32) -> list[str]:
    """Return the first of the words from outside, and how many more there are."""
    first = [_plain(word, limit) for word in islice(words, 3)]
    return [*first, f"… {len(words) - 3} more"] if len(words) > 3 else first


def _listing(words: Collection[str]) -> str:
    return ", ".join(_few(words))


def _value_text(value: Any) -> str:
    """Return a number or a string; of anything else only what it is, since printing may read."""
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) is str:
        return _plain(value, 20)
    huge = type(value) is int and value.bit_length() > 128
    plain = value is None or type(value) in (bool, int, float, complex)
    return repr(value) if plain and not huge else type(value).__name__


def _meta_words(meta: Mapping[str, Any]) -> list[str]:
    return _few([f"{_value_text(name)}={_value_text(value)}" for name, value in meta.items()])


def _length_text(length: float | None) -> str:
    if length is None:
        return "?"
    return "endless" if length == math.inf or is_endless(int(length)) else str(int(length))


def _shape_text(lengths: Lengths) -> str:
    if lengths is None:
        return "?"
    words = list(map(_length_text, lengths))
    words = words if len(words) <= 8 else [*words[:6], "…", words[-1]]
    return f"({words[0]},)" if len(words) == 1 else f"({', '.join(words)})"


def _dtype_text(node: Node) -> str:
    if isinstance(node, Stream) and node.sample is not None:
        return _dtype_text(node.sample)
    names = node.fields.named if isinstance(node, Record) else node.dtype and node.dtype.names
    if names:
        return f"{{{_plain(_listing(names), 30)}}}"
    return "?" if node.dtype is None else _plain(str(node.dtype).removeprefix("|"))


def _size_text(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} EB"
