"""The plan of a call: what it would read, in which passes and blocks, and by which engine.

To find it out nothing is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from dataview.compute import (
    Kept,
    Program,
    aliases,
    chosen_engines,
    compiled,
    cuts_of_product,
    leaves_of,
    operand_indices,
    parts_of,
    passes_before,
    read_below,
    waiting_at,
    way_of,
)
from dataview.errors import bind_text
from dataview.index import Constant, Index, axes_of, boxed, compose, extend, identity, is_endless
from dataview.index.shape_texts import length_text
from dataview.plan.concat import split_rows
from dataview.plan.kinds import (
    Comparison,
    Concat,
    Driven,
    Elementwise,
    Mapped,
    MatMul,
    Record,
    Reduction,
    Reshaped,
    Sampled,
    Select,
    Stored,
    known_dtype,
    known_shape,
    members,
    nbytes_of,
    shape_of,
    size_of,
)
from dataview.plan.node import Label, Node, Shape
from dataview.plan.photographs import Late, Photograph
from dataview.plan.ragged import Ragged
from dataview.plan.symbols import symbols_of
from dataview.plan.walk import below
from dataview.samples import NumberedSamples, Stream, length_of
from dataview.show.facts import is_closed
from dataview.show.formulas import (
    formula_of,
    is_symbolic,
    label_term,
    term_of,
)
from dataview.show.outline import title
from dataview.show.words import escape, harmless, inside, key_text, size_text, undriven
from dataview.write import places_written

FRAME = (
    "font:var(--jp-code-font-size,13px) var(--jp-code-font-family,monospace);"
    "color:var(--jp-content-font-color1,inherit)"
)


class Reading(NamedTuple):
    """Data to read: its name, its place, and its number of bytes at most (None: unknown)."""

    name: str
    place: str
    nbytes: int | None


class Pass(NamedTuple):
    """Statistics that are computed first, in one pass over their operand."""

    statistics: tuple[str, ...]
    readings: tuple[Reading, ...]
    blocks: int = 1


class Step(NamedTuple):
    """An operation on a block: its name, the dtype of its result, and its engine."""

    name: str
    dtype: str
    engine: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A plan: `way` says how the result is made, `blocks` in how many blocks.

    `waiting` names the statistics of these data that a write takes before it changes them.  At its
    peak it needs about `result_bytes` of memory, and `thread_bytes` for each thread.  `is_closed`
    says that a file which is to be read was closed.
    """

    title: str
    way: str
    formula: str = ""
    readings: tuple[Reading, ...] = ()
    passes: tuple[Pass, ...] = ()
    steps: tuple[Step, ...] = ()
    blocks: int = 0
    block_rows: int = 0
    block_elements: int = 0
    result_bytes: int | None = None
    thread_bytes: int = 0
    waiting: tuple[str, ...] = ()
    members: Mapping[str, Explanation] = field(default_factory=dict)
    is_closed: bool = False

    def __repr__(self) -> str:
        return "\n".join(_lines(self))

    def _repr_html_(self) -> str:
        """Return the same lines as HTML."""
        return f'<pre style="{FRAME}">{escape(repr(self))}</pre>'


def explained(node: Node) -> Explanation:
    """Return the plan of a node's evaluation."""
    plan = _explained(undriven(node))
    needed = bool(plan.readings or plan.passes)
    return replace(plan, is_closed=True) if needed and is_closed(node) else plan


def _explained(node: Node) -> Explanation:
    for kind, explanation in _BY_KIND.items():
        if isinstance(node, kind):
            return explanation(node)
    formula = formula_of(node)
    if symbols := symbols_of([node]):
        waiting = f"not yet: give the data with {bind_text(symbols)}"
        return Explanation(title(node), waiting, formula)
    if node.shape is None:
        return Explanation(title(node), "its truth alone: the sides do not broadcast", formula)
    if any(map(is_endless, node.shape)):
        return Explanation(title(node), "not as a whole: it never ends, slice it first", formula)
    return _of_array(node, formula)


def _of_record(node: Record) -> Explanation:
    parts = {name: explained(part.node) for name, part in members(node).items()}
    return Explanation(title(node), "each field by itself", members=parts)


def _of_stream(node: Stream) -> Explanation:
    readings = (Reading("samples", "stream", None),)
    return Explanation(title(node), "in order, one by one", readings=readings)


def _of_ragged(node: Ragged) -> Explanation:
    if is_endless(node.count):
        return Explanation(title(node), "row by row, without end")
    line = explained(node.flat())
    way = "copied" if line.way.startswith("lent") else line.way
    facts: dict[str, Any] = {"title": title(node), "result_bytes": nbytes_of(node)}
    return replace(line, **facts, formula="", way=f"the values of all rows in a line, {way}")


def _of_samples(node: Sampled) -> Explanation:
    count = length_of(node)
    way = "without end" if count == math.inf else f"{length_text(count)} of them"
    stored = tuple(reading for part in inside(node) for reading in _read(part))
    place = node.place if isinstance(node, NumberedSamples) else "function"
    made = (Reading("samples", place, None),)
    return Explanation(title(node), f"one by one, {way}", readings=stored or made)


def _of_late(node: Late) -> Explanation:
    return Explanation(title(node), "its length is found first", readings=_read_first(node))


_BY_KIND: dict[type[Node], Callable[[Any], Explanation]] = {
    Record: _of_record,
    Stream: _of_stream,
    Ragged: _of_ragged,
    Sampled: _of_samples,
    Late: _of_late,
}
"""The plans of what is no array; of a node of several kinds the first one counts."""


def _of_array(node: Node, formula: str) -> Explanation:
    core, index = _core(node)
    plan: dict[str, Any] = {
        "formula": formula,
        "readings": _read(node),
        "passes": tuple(_passes(core, index)),
        "steps": tuple(_steps(node)),
        "result_bytes": nbytes_of(node),
        "waiting": tuple(map(_name_of, waiting_at(places_written(node)))),
    }
    if isinstance(core, Elementwise):
        plan |= _blocks_of(core, known_shape(node))
    elif aliases(node):
        plan |= {"way": "lent: an alias of memory, nothing is copied", "result_bytes": 0}
    elif isinstance(core, Reduction):
        plan |= {"way": "a statistic, " + ("kept" if core.taken is not None else "not taken yet")}
    elif isinstance(core, MatMul):
        plan |= _blocks_of_product(core, index)
    else:
        plan |= {"way": "at once", "blocks": 1}
    return Explanation(title(node), **plan)


def _core(node: Node) -> tuple[Node, Index | None]:
    """Return the node that a part is selected from, and the index of the part."""
    index: Index | None = None
    while isinstance(node, (Select, Driven)):
        if isinstance(node, Select):
            index = node.index if index is None else compose(node.index, index)
        node = node.node
    return node, index


# --- what is read ------------------------------------------------------------------------------

_Part: TypeAlias = "tuple[Node, Index | None]"


def _read_first(node: Late) -> tuple[Reading, ...]:
    """Return what is read to find the length of data."""
    asked = [arg.node for arg in node.args if isinstance(arg, Photograph) and arg.node is not None]
    parts = [part for one in asked for part in (inside(one) if isinstance(one, Record) else [one])]
    return tuple(dict.fromkeys(reading for part in parts for reading in _read(part)))


def _read(node: Node) -> tuple[Reading, ...]:
    """Return the readings of a node; those with the same name are added up."""
    found: dict[tuple[str, str], int | None] = {}
    for name, place, nbytes in _readings(node, None, ""):
        known = found.get((name, place), 0)
        found[name, place] = None if nbytes is None or known is None else known + nbytes
    return tuple(Reading(name, place, nbytes) for (name, place), nbytes in found.items())


def _readings(node: Node, index: Index | None, name: str) -> Iterator[Reading]:
    """Return the readings below a part of a node."""
    waiting = [(node, index, name)]
    while waiting:
        node, index, name = waiting.pop()
        if not is_symbolic(node):
            name = name or _name_in_data(node)
        if isinstance(node, Ragged):
            waiting.append((node.flat(), None, name))
        elif isinstance(node, Sampled):
            yield Reading(name, "made one by one", None)
        elif isinstance(node, Stored):
            yield Reading(name, node.source.describe(), _bytes_of(node, index))
        else:
            inner = _BELOW.get(type(node), _whole)(node, index)
            waiting.extend((part, where, name) for part, where in reversed(inner))


def _name_in_data(node: Node) -> str:
    """Return the name of what is read, with the rows that it has in the data.

    A formula has the rows of the view that was asked: those of a shuffled view lie elsewhere.
    """
    label = node.label
    core, index = _core(node)
    if label is None or not label.shape or index is None or not isinstance(core, (Stored, Concat)):
        return term_of(node)[0]
    part = identity(label.shape) if label.part is None else label.part
    rows = index.maps[:1]
    if not part.maps or axes_of(rows[0]) != axes_of(part.maps[0]):
        return term_of(node)[0]
    shape = (known_shape(core)[0], *label.shape[1:])
    there = Index(part.shape, [*rows, *part.maps[1:]])
    is_told = label.part is not None or key_text(there, shape) not in (":", "…")
    return label_term(Label(label.names, shape, there if is_told else None))[0]


def _bytes_of(node: Stored, index: Index | None) -> int:
    """Return how many bytes a part has, counting each element once."""
    whole = size_of(node.source.shape)
    if index is None:
        return whole * node.source.dtype.itemsize
    if 0 in index.shape:
        return 0
    used = {axis for map_ in index.maps for axis in axes_of(map_)}
    count = size_of(tuple(n for axis, n in enumerate(index.shape) if axis in used))
    return min(count, whole) * node.source.dtype.itemsize


def _whole(node: Node, index: Index | None) -> Sequence[_Part]:
    return [(part, None) for part in _nodes(node)]


def _nodes(node: Node) -> list[Node]:
    """Return the nodes from which a node's data are computed."""
    return [part for part in node.made_of() if isinstance(part, Node)]


def _of_select(node: Select, index: Index | None) -> Sequence[_Part]:
    return [(node.node, node.index if index is None else compose(node.index, index))]


def _of_reshaped(node: Reshaped, index: Index | None) -> Sequence[_Part]:
    return [(node.node, None if index is None else read_below(node, index)[0])]


def _of_operands(node: Elementwise | Comparison, index: Index | None) -> Sequence[_Part]:
    leaves = [*leaves_of(node)] if isinstance(node, Elementwise) else _nodes(node)
    return [(leaf, _narrow(index, leaf)) for leaf in leaves]


def _narrow(index: Index | None, leaf: Node) -> Index | None:
    """Return the part of an operand that a part of the result needs."""
    own = shape_of(leaf) or ()
    if index is None:
        return None
    maps = index.maps[len(index.maps) - len(own) :]
    kept = [Constant(0) if n == 1 else map_ for n, map_ in zip(own, maps, strict=True)]
    return Index(index.shape, kept)


def _of_product(node: MatMul, index: Index | None) -> Sequence[_Part]:
    if index is None:
        return _whole(node, index)
    box, _ = boxed(index, len(known_shape(node)))
    return list(zip(_nodes(node), operand_indices(node, box), strict=True))


ROWS_FOLLOWED = 1 << 22
"""For more rows than this, finding the node of each would take too long: all count as read."""


def _of_concat(node: Concat, index: Index | None) -> Sequence[_Part]:
    if index is None or size_of(index.shape[:1]) > ROWS_FOLLOWED:
        return _whole(node, index)
    return [(part.node, part.where) for part in split_rows(node, index)]


def _of_statistic(node: Reduction, index: Index | None) -> Sequence[_Part]:
    """Return the rows that a part of a statistic of each row needs; other statistics are passes."""
    if node.taken is not None or index is None or 0 in node.axes:
        return []
    return _of_rows(node, index)


def _of_rows(node: Reduction | Mapped, index: Index | None) -> Sequence[_Part]:
    """Return the whole rows from which some elements are computed."""
    return [(node.node, _deeper(index, node.node, 1))]


def _of_members(node: Record, index: Index | None) -> Sequence[_Part]:
    parts = members(node).values()
    return [(part.node, _deeper(index, part.node, node.rank)) for part in parts]


def _deeper(index: Index | None, node: Node, rank: int) -> Index | None:
    """Return an index that selects on the first axes of a node and is whole on the others."""
    if index is None or node.shape is None:
        return None
    return extend(Index(index.shape, index.maps[:rank]), known_shape(node)[rank:])


_BELOW: dict[type[Node], Callable[[Any, Index | None], Sequence[_Part]]] = {
    Select: _of_select,
    Reshaped: _of_reshaped,
    Kept: _of_select,
    MatMul: _of_product,
    Elementwise: _of_operands,
    Comparison: _of_operands,
    Concat: _of_concat,
    Mapped: _of_rows,
    Record: _of_members,
    Reduction: _of_statistic,
}
"""By kind of node, the parts of its operands that a part of it needs; by default, everything."""


def _passes(node: Node, index: Index | None) -> Iterator[Pass]:
    """Yield the passes for statistics that have no value yet, in their order."""
    for alike in passes_before(node, index):
        node = alike[0].node
        blocks = 1 if node.shape is None else len(parts_of(node))
        yield Pass(tuple(map(formula_of, alike)), _read(node), blocks)


def _name_of(photograph: Any) -> str:
    return str(formula_of(photograph) if isinstance(photograph, Node) else photograph.about)


# --- what is computed --------------------------------------------------------------------------


def _steps(root: Node) -> Iterator[Step]:
    """Yield the steps of the computation except statistics, innermost first."""

    def into(node: Node) -> Sequence[Node]:
        if isinstance(node, Elementwise):
            return compiled(node).leaves
        return [] if isinstance(node, Reduction) else _nodes(node)

    for node in below([root], into):
        if isinstance(node, Comparison):
            yield Step("not_equal" if node.negated else "equal", "bool", "numpy")
        elif isinstance(node, MatMul):
            yield Step("matmul", harmless(str(node.dtype)), "numpy")
        elif isinstance(node, Elementwise):
            for step, engine, _ in chosen_engines(compiled(node)):
                yield Step(harmless(step.ufunc.__name__), harmless(str(step.dtypes[0])), engine)


def _blocks_of(core: Elementwise, shape: Shape) -> dict[str, Any]:
    """Return the blocks of a fused expression, and the memory of one."""
    words, axis, step, blocks, read = way_of(core, shape)
    elements = size_of(shape) // max(1, shape[axis]) * step if shape else 1
    if not read and blocks == 1 and words.startswith("at once"):
        return {"way": words, "blocks": 1, "block_elements": size_of(shape)}
    held = sum(known_dtype(leaf).itemsize for leaf in read)
    return {
        "way": words,
        "blocks": blocks,
        "block_rows": shape[0] if axis else step,
        "block_elements": elements,
        "thread_bytes": elements * (_buffered(compiled(core)) + held),
    }


def _blocks_of_product(core: MatMul, index: Index | None) -> dict[str, Any]:
    """Return the blocks of rows of a product."""
    shape = known_shape(core)
    box, _ = boxed(identity(shape) if index is None else index, len(shape))
    rows, columns = operand_indices(core, box)
    cuts = cuts_of_product(core, rows.shape, columns.shape)
    if len(cuts) == 1:
        return {"way": "at once", "blocks": 1}
    most = cuts[0].stop
    return {
        "way": "in blocks of rows",
        "blocks": len(cuts),
        "block_rows": most,
        "block_elements": size_of(box.shape) // rows.shape[0] * most,
    }


def _buffered(program: Program) -> int:
    """Return how many bytes per element of a block the intermediate results need at most.

    The final results have memory of their own.
    """
    alive: dict[int, int] = {}
    most = 0
    for number, step in enumerate(program.steps):
        alive |= {
            place: dtype.itemsize
            for place, dtype in zip(step.results, step.dtypes, strict=True)
            if place not in program.outputs
        }
        alive = {place: size for place, size in alive.items() if program.last_use[place] > number}
        most = max(most, sum(alive.values()))
    return most


# --- in words ----------------------------------------------------------------------------------


def _lines(plan: Explanation) -> Iterator[str]:
    yield f"Plan of {plan.title}"
    if plan.formula:
        yield f"  = {plan.formula}"
    if plan.is_closed:
        yield "  closed    so it cannot be called: open the file again"
    for number, one in enumerate(plan.passes):
        yield f"  {'then ' if number else 'first'}     one pass over {_readings_text(one.readings)}"
        if one.blocks > 1:
            yield f"            in {one.blocks} blocks of rows"
        yield f"            for {', '.join(one.statistics)}"
    if plan.readings:
        yield f"  reads     {_readings_text(plan.readings)}"
    yield f"  computes  {plan.way}" if plan.steps else f"  answers   {plan.way}"
    if plan.blocks > 1:
        size = f"{plan.block_rows} rows ({plan.block_elements} elements)"
        yield f"            {plan.blocks} blocks of {size}"
    alike = [(step, len([*group])) for step, group in groupby(plan.steps)]
    for step, times in alike[:STEPS_SHOWN]:
        words = f"{step.name}, {step.dtype}, by {step.engine}"
        yield f"            {words}" + (f", {times} times" if times > 1 else "")
    if len(alike) > STEPS_SHOWN:
        yield f"            … {len(alike) - STEPS_SHOWN} more"
    if plan.result_bytes:
        each = f", and {size_text(plan.thread_bytes)} in each thread" if plan.thread_bytes else ""
        yield f"  memory    {size_text(plan.result_bytes)} for the result{each}"
    if plan.waiting:
        yield f"  a write   takes {', '.join(plan.waiting)} before it changes these data"
    for name, part in plan.members.items():
        first, *rest = _lines(part)
        yield f"  {harmless(name)}: {first.removeprefix('Plan of ')}"
        yield from (f"  {line}" for line in rest)


STEPS_SHOWN = 12


def _readings_text(readings: Sequence[Reading]) -> str:
    words = [
        f"{one.name}, {'?' if one.nbytes is None else size_text(one.nbytes)} of {one.place}"
        for one in readings
    ]
    return "; ".join(words[:6]) + (f"; … {len(words) - 6} more" if words[6:] else "") or "nothing"
