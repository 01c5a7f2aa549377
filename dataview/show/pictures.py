"""A symbolic view as a picture: data at the bottom, steps above it, the result on top.

The picture is a piece of SVG that takes its colour and its font from the page around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain, pairwise

from dataview.index.shape_texts import shape_text
from dataview.plan.kinds import Reduction, Stored
from dataview.plan.node import Node
from dataview.plan.operations import ATOM
from dataview.plan.walk import below
from dataview.show.formulas import formula_of, is_symbolic, operands_of, step_term, term_of
from dataview.show.words import dtype_text, escape, harmless, lengths_of, undriven

BOXES = 16
PICTURE_BYTES = 6000
"""A larger picture would not be read; the formula alone is shown then."""

WORDS = 30
LETTER, SMALL_LETTER = 7.3, 6.1
"""How wide a letter of a monospaced font is in the boxes and beside the lines, at most."""

HEIGHT, STEM, CURVE, GAP, MARGIN = 26, 18, 18, 18, 4
RISE = HEIGHT + STEM + CURVE
"""From one layer to the next: a box, its line with the note beside it, and where lines bend."""

SWEEPS = 6


@dataclass(slots=True, eq=False)
class _Box:
    """A step or data; without words, the point where a line crosses a layer."""

    words: str = ""
    note: str = ""
    taken: bool | None = None
    is_data: bool = False
    args: list[_Box] = field(default_factory=list)
    layer: int = 0
    x: float = 0.0

    @property
    def left(self) -> float:
        """How far it reaches to the left of its middle."""
        room = 34 if self.taken is None else 52
        return max(30.0, (len(self.words) * LETTER + room - 14) / 2) if self.words else 4.0

    @property
    def right(self) -> float:
        """How far it reaches to the right, its note included."""
        return max(self.left, 10 + len(self.note) * SMALL_LETTER) if self.words else 4.0


def picture(node: Node) -> str:
    """Return the picture of a symbolic view; "" for any other, and for one of too many steps."""
    node = undriven(node)
    boxes = _boxes(node) if is_symbolic(node) else []
    if not boxes:
        return ""
    layers = _layers(boxes)
    _order(layers)
    _place(layers)
    svg = _svg(boxes, layers, formula_of(node))
    return svg if len(svg.encode()) <= PICTURE_BYTES else ""


# --- boxes ---------------------------------------------------------------------------------------


def _boxes(root: Node) -> list[_Box]:
    """Return a box for each node, operands first and the root last; none if there are too many."""
    order = below([root], _node_operands)
    boxes: dict[int, _Box] = {}
    for node in order if len(order) <= BOXES else ():
        boxes[id(node)] = _box(node, [boxes[id(arg)] for arg in _node_operands(node)])
    return list(boxes.values())


def _node_operands(node: Node) -> list[Node]:
    operands = operands_of(node) if is_symbolic(node) else ()
    return [arg for arg in operands if isinstance(arg, Node)]


def _box(node: Node, args: list[_Box]) -> _Box:
    note = f"{shape_text(lengths_of(node))} {dtype_text(node)}"
    if not is_symbolic(node):
        return _Box(harmless(_data_words(node), WORDS), note, is_data=True)
    terms = [("·", ATOM) if isinstance(arg, Node) else term_of(arg) for arg in operands_of(node)]
    box = _Box(harmless(step_term(node, terms)[0], WORDS), note, args=args)
    box.layer = 1 + max((arg.layer for arg in args), default=0)
    if isinstance(node, Reduction):
        box.taken = node.taken is not None
        box.note += ", taken" if box.taken else ", not taken"
    return box


def _data_words(node: Node) -> str:
    """Return the name of data, or where it is if it has none."""
    if isinstance(node, Stored) and node.label is None:
        return node.source.describe()
    words = term_of(node)[0]
    return "data" if words == f"{dtype_text(node)}{shape_text(lengths_of(node))}" else words


# --- where they stand ----------------------------------------------------------------------------


def _layers(boxes: list[_Box]) -> list[list[_Box]]:
    """Return the boxes by layer, with a point for every line in each layer that it crosses."""
    layers: list[list[_Box]] = [[] for _ in range(boxes[-1].layer + 1)]
    for box in boxes:
        layers[box.layer].append(box)
    points: dict[tuple[int, int], _Box] = {}
    for box in boxes:
        for number, arg in enumerate(box.args):
            lower = arg
            for layer in range(arg.layer + 1, box.layer):
                key = (id(arg), layer)
                if key not in points:
                    points[key] = _Box(args=[lower], layer=layer)
                    layers[layer].append(points[key])
                lower = points[key]
            box.args[number] = lower
    return layers


def _order(layers: list[list[_Box]]) -> None:
    """Order each layer by the middle of each box's neighbours, so that few lines cross."""
    above = _above(layers)
    for sweep in range(SWEEPS):
        for layer in layers if sweep % 2 else reversed(layers):
            places = {id(box): n / len(row) for row in layers for n, box in enumerate(row)}
            for box in layer:
                near = above[id(box)] if sweep % 2 == 0 else box.args
                box.x = _middle((places[id(other)] for other in near), places[id(box)])
            layer.sort(key=lambda box: box.x)


def _place(layers: list[list[_Box]]) -> None:
    """Give each box its horizontal place: near the boxes it is joined to, clear of the others."""
    above = _above(layers)
    for layer in layers:
        _spread(layer, lambda box: 0.0)
    for sweep in range(4 * SWEEPS):
        for layer in layers if sweep % 2 else reversed(layers):
            _spread(layer, lambda box: _middle((o.x for o in (*box.args, *above[id(box)])), box.x))
    left = min(box.x - box.left for layer in layers for box in layer)
    for box in chain.from_iterable(layers):
        box.x = round(box.x - left + MARGIN)


def _spread(layer: list[_Box], wished: Callable[[_Box], float]) -> None:
    """Put the boxes of a layer as near to where they wish to be as their order and width allow."""
    wishes = [wished(box) for box in layer]
    rooms = [one.right + GAP + other.left for one, other in pairwise(layer)]
    from_left, from_right = list(wishes), list(wishes)
    for n, room in enumerate(rooms):
        from_left[n + 1] = max(wishes[n + 1], from_left[n] + room)
    for n in reversed(range(len(rooms))):
        from_right[n] = min(wishes[n], from_right[n + 1] - rooms[n])
    for box, low, high in zip(layer, from_left, from_right, strict=True):
        box.x = (low + high) / 2


def _above(layers: list[list[_Box]]) -> dict[int, list[_Box]]:
    found: dict[int, list[_Box]] = {id(box): [] for layer in layers for box in layer}
    for box in chain.from_iterable(layers):
        for arg in box.args:
            found[id(arg)].append(box)
    return found


def _middle(places: Iterable[float], otherwise: float) -> float:
    known = list(places)
    return sum(known) / len(known) if known else otherwise


# --- drawing -------------------------------------------------------------------------------------

FONT = "font-family:var(--jp-code-font-family,monospace);font-size:12px"
LETTERS = 'fill="currentColor" stroke="none"'
CAMERA = "h3l2-2h4l2 2h3v9h-14z"


def _svg(boxes: list[_Box], layers: list[list[_Box]], formula: str) -> str:
    everything = [*chain.from_iterable(layers)]
    width = round(max(box.x + box.right for box in everything)) + MARGIN
    height = len(layers) * RISE - CURVE + 2 * MARGIN

    def up(box: _Box) -> int:
        return height - MARGIN - HEIGHT - box.layer * RISE

    lines = [f"M{box.x} {up(box)}v-{STEM}" for box in boxes[-1:]]
    lines += [_line(box, number, up) for box in everything for number in range(len(box.args))]
    frames = [_frame(box, up(box)) for box in boxes]
    words = [_words(box, up(box)) for box in boxes]
    notes = [f'<text x="{box.x + 6}" y="{up(box) - 7}">{escape(box.note)}</text>' for box in boxes]
    name, inside = escape(f"Picture of {formula}"), "\n".join(frames)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{name}" \
viewBox="0 0 {width} {height}" width="{width}" fill="none" stroke="currentColor" \
style="max-width:100%;height:auto;{FONT}">
<path stroke-opacity=".5" d="{"".join(lines)}"/>
{inside}
<g {LETTERS} text-anchor="middle">{"".join(words)}</g>
<g {LETTERS} opacity=".7" font-size="10">{"".join(notes)}</g>
</svg>"""


def _line(box: _Box, number: int, up: Callable[[_Box], int]) -> str:
    """Return the line that rises from an operand to its place under a step."""
    arg = box.args[number]
    start, end = up(arg) - STEM, up(box) + HEIGHT
    step = min(16.0, 2 * box.left / (len(box.args) + 1))
    x = round(box.x + (number - (len(box.args) - 1) / 2) * step)
    half = (start + end) // 2
    bend = f"M{arg.x} {up(arg)}V{start}C{arg.x} {half} {x} {half} {x} {end}"
    return bend + ("" if box.words else f"V{up(box)}")


def _frame(box: _Box, y: int) -> str:
    left, width = round(box.x - box.left), round(2 * box.left)
    look = "" if box.taken is not False else ' stroke-dasharray="4 3"'
    look += ' fill="currentColor" fill-opacity=".07"' if box.is_data or box.taken else ""
    round_ = "" if box.is_data else ' rx="9"'
    frame = f'<rect x="{left}" y="{y}" width="{width}" height="{HEIGHT}"{round_}{look}/>'
    if box.taken is None:
        return frame
    x, middle = left + 9, y + HEIGHT // 2
    lens = ' fill="currentColor"' if box.taken else ""
    camera = f'<path d="M{x} {middle - 3}{CAMERA}"/>'
    return f'{frame}{camera}<circle cx="{x + 7}" cy="{middle + 1}" r="2.5"{lens}/>'


def _words(box: _Box, y: int) -> str:
    x = box.x if box.taken is None else box.x + 9
    return f'<text x="{x}" y="{y + 17}">{escape(box.words)}</text>'
