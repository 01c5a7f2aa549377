"""Short words for displays: texts from outside made harmless, sizes, shapes, dtypes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from dataview.batches import Batches
from dataview.compute import Kept
from dataview.index import Affine, Constant, Index, is_endless
from dataview.index.shape_texts import shape_text
from dataview.plan.gaps import LABELS, MASK_OF, MASK_OF_LISTS
from dataview.plan.kinds import Concat, Driven, Record, Reshaped, Select, members
from dataview.plan.node import Label, Node, Shape
from dataview.plan.photographs import Late
from dataview.plan.ragged import Ragged
from dataview.samples import FilteredSamples, Stream
from dataview.spaces import SPACE, is_declared, readable_space

Lengths: TypeAlias = "tuple[float | None, ...] | None"

_INSIDE: dict[type[Node], Callable[[Any], Sequence[Node]]] = {
    Select: lambda node: (node.node,),
    Reshaped: lambda node: (node.node,),
    Kept: lambda node: (node.node,),
    Driven: lambda node: (node.node,),
    Concat: lambda node: node.nodes,
    Record: lambda node: [part.node for part in members(node).values()],
    Stream: lambda node: _filtered(node),
    Batches: lambda node: (node.rows,),
    Ragged: lambda node: (node.values,),
    Late: lambda node: (node.like,),
}


def _filtered(node: Any) -> tuple[Node, ...]:
    samples = node.samples
    while hasattr(samples, "samples"):
        samples = samples.samples
    return (samples.node,) if isinstance(samples, FilteredSamples) else ()


def inside(node: Node) -> Sequence[Node]:
    """Return the nodes from which a node's data comes without arithmetic."""
    return _INSIDE[type(node)](node) if type(node) in _INSIDE else ()


def escape(text: str) -> str:
    """Return a text as HTML shows it."""
    import html  # slow to import, as it holds the names of all characters, and seldom needed

    return html.escape(text)


def harmless(words: str, limit: int = 32) -> str:
    """Return a text from outside, cut to the limit and without line breaks or controls."""
    cut = words if len(words) <= limit else words[: limit - 1] + "…"
    if cut.isprintable():
        return cut
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def few(words: Collection[str], limit: int = 32) -> list[str]:
    """Return the first three words from outside, and how many more there are."""
    first = [harmless(word, limit) for word in islice(words, 3)]
    return [*first, f"… {len(words) - 3} more"] if len(words) > 3 else first


def listing(words: Collection[str]) -> str:
    return ", ".join(few(words))


def value_text(value: Any) -> str:
    """Return a number or a string; for other objects only the type, since printing may read."""
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) is str:
        return harmless(value, 20)
    huge = type(value) is int and value.bit_length() > 128
    plain = value is None or type(value) in (bool, int, float, complex)
    return repr(value) if plain and not huge else type(value).__name__


def meta_words(meta: Mapping[str, Any]) -> list[str]:
    told = {
        name: "" if name == LABELS and callable(value) else _meta_text(value)
        for name, value in meta.items()
        if name != MASK_OF_LISTS
        and (name != MASK_OF or value is not None)  # a mask of nothing is a column as any other
    }
    if is_declared(meta):
        space = readable_space(meta)
        told[SPACE] = "unreadable" if space is None else repr(space)
    return few([f"{value_text(name)}={text}".removesuffix("=") for name, text in told.items()])


def _meta_text(value: Any) -> str:
    """Return the value of metadata, of arrays dtype and shape."""
    if isinstance(value, np.ndarray) and value.ndim:
        return f"{_dtype_name(value.dtype)}{shape_text(value.shape)}"
    if type(value) in (list, tuple):
        return f"[{', '.join([*map(value_text, value[:3]), *['…'][: len(value) > 3]])}]"
    return value_text(value)


def name_text(label: Label) -> str:
    """Return the names of a label as one would write them after the view.

    >>> name_text(Label(("pos", "x"), (3,))), name_text(Label(("two words",), (3,)))
    ('pos.x', '["two words"]')
    """
    words = [harmless(name) for name in label.names]
    steps = [f".{word}" if word.isidentifier() else f'["{word}"]' for word in words]
    return harmless("".join(steps).removeprefix("."), 48)


def name_of(node: Node) -> str:
    """Return the name of the field that a node is, "" if it is none."""
    return "" if node.label is None else name_text(node.label)


def key_text(index: Index, shape: Shape | None) -> str:
    """Return the key of integers and slices that an index comes from, "…" for any other.

    >>> key_text(Index((2,), [Affine(3, ((0, 2),)), Constant(1)]), (9, 2))
    '3:6:2, 1'
    """
    words: list[str] = []
    view = 0
    for map_, length in zip(index.maps, shape or (), strict=False):
        if isinstance(map_, Constant):
            words.append(str(map_.offset))
        elif isinstance(map_, Affine) and [axis for axis, _ in map_.strides] == [view]:
            words.append(_slice_text(map_.offset, index.shape[view], map_.strides[0][1], length))
            view += 1
        else:
            return "…"
    while words[1:] and words[-1] == ":":
        words.pop()
    known = len(words) and len(index.maps) == len(shape or ()) and view == len(index.shape)
    return ", ".join(words) if known else "…"


def _slice_text(start: int, count: int, step: int, length: int) -> str:
    """Return the slice of so many positions of an axis; for the whole axis it is ":"."""
    if not count:
        return "0:0"
    if is_endless(count):
        return f"{start or ''}:"
    last = start + step * (count - 1)
    ends = (0, length - 1) if step > 0 else (length - 1, 0)
    first = "" if start == ends[0] else str(start)
    stop = last + (1 if step > 0 else -1)
    after = "" if step * (ends[1] - last) < step * step or stop < 0 else str(stop)
    return f"{first}:{after}" + ("" if step == 1 else f":{step}")


def dtype_text(node: Node) -> str:
    if isinstance(node, Stream) and node.sample is not None:
        return dtype_text(node.sample)
    names = node.fields.named if isinstance(node, Record) else node.dtype and node.dtype.names
    if names:
        return f"{{{harmless(listing(names), 30)}}}"
    return "?" if node.dtype is None else _dtype_name(node.dtype)


@functools.lru_cache(maxsize=256)
def _dtype_name(dtype: np.dtype[Any]) -> str:
    return harmless(str(dtype).removeprefix("|"))


def size_text(size: float) -> str:
    """Return a number of bytes in words.

    >>> size_text(17), size_text(2_500_000)
    ('17 B', '2.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} EB"


def lengths_of(node: Node) -> Lengths:
    """Return the shape as far as it is known."""
    return undriven(node).extents


def undriven(node: Node) -> Node:
    while isinstance(node, Driven):
        node = node.node
    return node
