"""What is said of a view in a few words: its kind and size, its places, its states."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import Any, NamedTuple

from dataview.batches import Batches
from dataview.index import Computed, Permutation
from dataview.index.shape_texts import length_text, shape_text
from dataview.plan.fields import Attached
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
from dataview.plan.photographs import Late
from dataview.plan.ragged import Ragged
from dataview.plan.symbols import Deferred
from dataview.samplers import Cycle, Order
from dataview.samples import NumberedSamples, Samples, Stream, Undeclared, length_of
from dataview.show.words import (
    dtype_text,
    few,
    harmless,
    inside,
    lengths_of,
    listing,
    size_text,
    undriven,
    value_text,
)

SAMPLE_BYTES = 1 << 24
NODES_ASKED = 500
PARTS_ASKED = 30
"""Of a node with many parts, so many stand for all."""

CLOSED = "closed"
"""What is said of data in files that were closed."""


def what(node: Node) -> str:
    """Return the number of rows of a record or of unknown samples, else shape and dtype."""
    node = undriven(node)
    lengths = lengths_of(node)
    first = (lengths or (None,))[0]
    rows = "1 row" if first == 1 else f"{length_text(first)} rows"
    unknown = isinstance(node, NumberedSamples) and (node.row_extents is None or node.dtype is None)
    if unknown or (isinstance(node, Stream) and node.sample is None):
        return f"of {rows} of ?" if lengths else "of ?"
    if not is_record(node):
        return f"{shape_text(lengths)} {dtype_text(node)}"
    if lengths and len(lengths) > 1:
        return f"of {shape_text(lengths)} rows"
    return f"of {rows}" if lengths else "of one sample"


def size_words(node: Node) -> list[str]:
    """Return the size of the data if it is known."""
    size = _nbytes(node)
    return [] if size is None else [size_text(size)]


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
    Record: {"no common length": lambda node: lengths_differ(node)},
}


class Place(NamedTuple):
    """Where data is, in words; the file it is in with others, and its names there, if any."""

    words: str
    file: str
    names: tuple[str, ...] = ()
    is_file: bool = False


def place_words(found: Collection[Place]) -> list[str]:
    """Return in words where data is, the first few places."""
    return few([place.words for place in found], 60)


def files_of(found: Collection[Place]) -> list[str]:
    """Return the files that hold the data, or what else there is to say, each once."""
    return list(dict.fromkeys([place.file for place in found]))


def places(node: Node) -> list[Place]:
    """Return the places of the data, each once."""
    found: dict[Place, None] = {}
    seen: set[int] = set()
    waiting = [node]
    while waiting and len(seen) < NODES_ASKED:
        here = waiting.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        below = _some_inside(here)
        waiting.extend(reversed(below))
        if not below and not isinstance(here, Record):
            found[_place(here)] = None
    return list(found)


def _some_inside(node: Node) -> Sequence[Node]:
    """Return what `inside` returns, of many parts only some."""
    if isinstance(node, Record):
        found = islice(node.fields.named.values(), PARTS_ASKED)
        return [part.node for part in found if isinstance(part, Attached)]
    return inside(node)[:PARTS_ASKED]


def _place(node: Node) -> Place:
    """Return the place of the data of a node that is made of no others."""
    if isinstance(node, NumberedSamples):
        return Place(node.place, node.place)
    told = PLACES.get(type(node))
    words = "computed" if told is None else told(node)
    file, names = node.source.in_file() if isinstance(node, Stored) else ("", ())
    return Place(words, file or words, names, bool(file) or words.endswith(("(r)", "(r+)")))


def states(node: Node, depth: int = 4, known: dict[int, list[str]] | None = None) -> list[str]:
    """Return in words how the rows were changed, and what they do not allow.

    Of records in records not all nodes are asked; `known` has what was found of some of them.
    """
    known = {} if known is None else known
    whole, words = id(node), dict[str, None]()
    if whole in known:
        return known[whole]
    while isinstance(node, (Select, Driven, Ragged)):
        words |= _order_words(node)
        node = node.values if isinstance(node, Ragged) else node.node
    words |= _order_words(node)
    if isinstance(node, (Concat, Record)) and depth:
        parts = _some_inside(node)
        common = states(parts[0], depth - 1, known) if parts else []
        for part in parts[1:]:
            if not common or len(known) >= NODES_ASKED:
                break
            own = states(part, depth - 1, known)
            common = [word for word in common if word in own]
        words |= dict.fromkeys(common)
    told = STATES.get(type(node), {}).items()
    known[whole] = [*words, *(word.format(value) for word, ask in told if (value := ask(node)))]
    if not isinstance(node, Record) and is_closed(node):  # of records the parts have been asked
        known[whole].insert(0, CLOSED)
    return known[whole]


def is_closed(node: Node) -> bool:
    """Whether a file was closed that data are read from, so that they cannot be read."""
    seen, waiting = set[int](), [node]
    while waiting and len(seen) < NODES_ASKED:
        here: Any = waiting.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        if isinstance(here, Stored) and here.source.is_closed:
            return True
        if isinstance(here, Samples) and here.is_closed:
            return True
        waiting.extend(here.made_of())
    return False


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


def is_record(node: Node) -> bool:
    inner = undriven(node.like if isinstance(node, Late) else node)
    inner = inner.rows if isinstance(inner, Batches) else inner
    return isinstance(inner.sample if isinstance(inner, Stream) else inner, Record)


def is_small_sample(node: Node) -> bool:
    """Whether data are a single sample of several fields, which is soon read to be shown."""
    is_sample = is_record(node) and not lengths_of(node)
    return is_sample and (_nbytes(node) or 0) <= SAMPLE_BYTES


def lengths_differ(node: Record) -> bool:
    """Whether fields have rows, and not the same number of them."""
    unshared = node.rank > 0 and node.shape is None
    return unshared and len({*map(length_of, inside(node))} - {None}) > 1
