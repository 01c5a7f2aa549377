"""Views of what functions return for rows, with shapes declared or learnt from one sample."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dataview.compute import copied_rows, reduction, without_mask
from dataview.index import identity, is_integer, parse
from dataview.plan.build import field, record, select, stored, with_fields
from dataview.plan.fields import Attached, Fields, check_declared, read_only_meta
from dataview.plan.gaps import (
    MASK_OF,
    PRESENT,
    is_of_rows,
    knowing_masks,
    masks_among,
    noted,
    present_in,
    present_or_all,
    telling,
    told,
    with_mask,
)
from dataview.plan.guards import calls, misfit
from dataview.plan.kinds import (
    Extents,
    Mapped,
    Record,
    Sampled,
    known_dtype,
    known_shape,
)
from dataview.plan.layout import broadcast, reshaped
from dataview.plan.node import DType, Node, Shape
from dataview.plan.operations import may_be_missing
from dataview.plan.ragged import Ragged
from dataview.plan.walk import below, rebuilt
from dataview.samples.arriving import RowViews
from dataview.samples.in_order import DerivedSamples, FieldSamples, Samples, stacked
from dataview.samples.metadata import described
from dataview.samples.numbered import NumberedSamples, RaggedSamples, if_made
from dataview.samples.once import of_one_call
from dataview.samples.ragged import AnyLength, as_declared, likeness
from dataview.samples.random_numbers import RandomKeys, random_keys
from dataview.samples.row_functions import (
    ArraySpec,
    Path,
    Result,
    RowFunctions,
    Spec,
    ToView,
    Undeclared,
    guarded,
    only,
)
from dataview.samples.streams import Stream
from dataview.sources import ArraySource

BATCH = 1024
"""How many rows a function of blocks gets at a time by default."""


# --- declaring ---------------------------------------------------------------------------------


def row_functions_of(
    functions: Any,
    fields: Any,
    shape: Any,
    dtype: Any,
    reads: Any,
    batch: int | None,
    to_view: ToView,
    to_node: Callable[[Any], Node],
) -> RowFunctions:
    """Return one function or several to run on rows, with what is declared of the result."""
    several = tuple(functions) if isinstance(functions, (list, tuple)) else (functions,)
    for function in several:
        if isinstance(function, Node) or not callable(function):
            got = "a view" if isinstance(function, Node) else repr(function)
            if isinstance(function, Mapping):
                got += "; of a mapping, the function is lambda row: mapping[row()]"
            raise TypeError(f"rows are mapped by a function or a list of them; got {got}")
    if not several:
        raise ValueError("rows are mapped by at least one function; got none")
    if batch is not None and (not is_integer(batch) or batch < 1):
        raise ValueError(f"batch_size is a number of rows, 1 or more; got {batch!r}")
    names = (reads,) if isinstance(reads, str) else None if reads is None else tuple(reads)
    spec = _spec(fields, shape, dtype)
    if batch is not None and _differs(spec):
        raise ValueError(
            "a function of blocks makes rows of one shape; _map(function, shape=...) makes those "
            "of which shape= has the length None"
        )
    return RowFunctions(several, spec, names, batch, to_view, to_node)


def _differs(spec: Spec) -> bool:
    """Whether a length is declared to differ from row to row."""
    if isinstance(spec, dict):
        return any(map(_differs, spec.values()))
    return None in (spec.shape or ())


def _spec(fields: Any, shape: Any, dtype: Any) -> Spec:
    """Return what is declared, as a tree by name where there are names."""
    names = _names(fields, shape, dtype)
    if names is None:
        return ArraySpec(_shape(shape), None if dtype is None else np.dtype(dtype))
    for given, what in ((shape, "shape"), (dtype, "dtype")):
        declared = given if isinstance(given, Mapping) else ()
        unknown = [name for name in declared if name not in names]
        if unknown:
            raise ValueError(f"{what}= names {unknown}, which fields= does not: {list(names)}")

    def of(given: Any, name: str) -> Any:
        return given.get(name) if isinstance(given, Mapping) else given

    return {
        check_declared(name): _spec(inner, of(shape, name), of(dtype, name))
        for name, inner in names.items()
    }


def _names(fields: Any, shape: Any, dtype: Any) -> Mapping[str, Any] | None:
    """Return the names of the fields with those inside each; they follow from any declaration."""
    if isinstance(fields, Mapping):
        return fields
    if fields is None:
        declared = next((given for given in (shape, dtype) if isinstance(given, Mapping)), None)
        return None if declared is None else dict.fromkeys(declared)
    names = (fields,) if isinstance(fields, str) else tuple(fields)
    if len(set(names)) < len(names):
        raise ValueError(f"a field is declared twice: {list(names)}")
    return dict.fromkeys(names)


def _shape(shape: Any) -> Extents | None:
    if shape is None:
        return None
    lengths = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if not all(n is None or (isinstance(n, (int, np.integer)) and n >= 0) for n in lengths):
        raise ValueError(
            "shape= is that of one sample, a tuple of lengths, with None for one that differs; got "
            f"{shape!r}"
        )
    return tuple(None if n is None else int(n) for n in lengths)


# --- building ----------------------------------------------------------------------------------


def mapped(node: Node, made: RowFunctions, seed: Any = None) -> Node:
    """Return the node of what functions make of the rows of a node."""
    if seed is not None:
        first = 1 + max((keys.last for keys in _random_keys_below(node)), default=-1)
        made = made.replaced(keys=random_keys("map", seed, 0, first, len(made.functions)))
    _check_called(made, node)
    if isinstance(node, Stream):
        return _streamed(_MappedSamples(described(node), made, node.sample), made.spec)
    if not isinstance(node, Sampled) and not known_shape(node):
        raise TypeError("the rows of a view are mapped, and this one is a single element")
    if made.reads is not None and not isinstance(node, Sampled):
        node, made = only(node, made.reads), made.replaced(reads=None)
    node = guarded(_with_nothing_in_gaps(node))
    spec = _with_masks(made.spec) if _hides_gaps(node) else made.spec
    return _members(node, made.replaced(spec=spec), spec, ())


def _check_called(made: RowFunctions, node: Node) -> None:
    """Raise if a function takes other arguments than those of `_map` or `_map_batches`."""
    if made.batch is None:
        name, what, random = "row", "the view of a row", "a random generator"
    else:
        name, what, random = "rows", "the view of a block of rows", "a list of random generators"
    gets = [what] if made.keys is None else [what, random]
    if why := misfit(made.functions[0], gets):
        parameters = name if made.keys is None else f"{name}, rng"
        data = calls(name, made.reads or node.fields)
        raise TypeError(f"{why}; write lambda {parameters}: ..., where the data are {data}")


def _hides_gaps(node: Node) -> bool:
    """Whether functions of rows cannot see that an integer or a bool is missing."""
    if not node.has_gaps or isinstance(node, (Record, Sampled, Ragged)):
        return False
    return not may_be_missing(known_dtype(node))


def _with_masks(spec: Spec) -> Spec:
    if isinstance(spec, dict):
        return {name: _with_masks(inner) for name, inner in spec.items()}
    return spec._replace(has_gaps=True)


def _with_nothing_in_gaps(node: Node) -> Node:
    """Return data such that functions see None, NaN or NaT in place of what is missing."""
    if not node.has_gaps or isinstance(node, (Record, Sampled, Ragged)):
        return node
    present, dtype = present_in(node), known_dtype(node)
    if present is None or not may_be_missing(dtype) or dtype.kind == "T":  # which may have none
        return node
    return with_mask(without_mask(node, known_dtype(node), ""), present)


def _members(parent: Node, made: RowFunctions, spec: Spec, path: Path) -> Node:
    """Return the node of a member that is declared so, with all inside it."""
    count = parent.count if isinstance(parent, Sampled) else known_shape(parent)[0]
    if isinstance(spec, dict):
        named = {n: _members(parent, made, inner, (*path, n)) for n, inner in spec.items()}
        of_rows = [name for name, part in named.items() if is_of_rows(part)]
        told_of = {n: part.mask_of for n, part in spec.items() if isinstance(part, ArraySpec)}
        metas = {
            n: {**part.meta, MASK_OF: told_of[n]} if told_of.get(n) else part.meta
            for n, part in named.items()
        }
        for name, mask in masks_among(metas, of_rows).items():
            # A function that returns a record returns its masks, too.  Lists do not know theirs.
            is_of_lists = isinstance(named[name], RaggedSamples) and told_of.get(mask) == name
            if named[name].has_gaps or is_of_lists:
                named[mask] = noted(named[mask], name)
        return telling(record(named, 1))
    if count is None:
        raise TypeError("the rows of a view are mapped, and this one is a single sample")
    if spec.shape is None or spec.dtype is None:
        return Undeclared(parent, made, path, spec, identity((count,)))
    like = as_declared(spec.shape, spec.dtype, spec.exact, spec.row)
    if isinstance(like, AnyLength):
        each = Undeclared(parent, made, path, spec._replace(shape=None), identity((count,)))
        return RaggedSamples(each, (), like)
    found = _known(parent, made, path, (count, *known_shape(like)), spec.dtype)
    return told(found, _mask_of(found)) if spec.has_gaps and not found.fields else found


def _known(parent: Node, made: RowFunctions, path: Path, shape: Shape, dtype: DType) -> Mapped:
    """Return a member of which all is known; those of a structured dtype are its fields."""
    fields = {
        name: Attached(
            _known(parent, made, (*path, name), shape + dtype[name].shape, dtype[name].base),
            tuple(range(len(shape))),
        )
        for name in dtype.names or ()
    }
    return Mapped(parent, made, path, shape, dtype, Fields(fields))


def _mask_of(node: Mapped) -> Node:
    """Return where a member is present: as the views say that functions returned, or as its rows.

    What is made of a missing integer or bool is missing, since functions cannot see that it was.
    """
    shape, parent = known_shape(node), node.node
    if not _hides_gaps(parent):
        return Mapped(parent, node.step, (*node.path, PRESENT), shape, np.dtype(bool))
    rows = present_or_all(parent)
    present = reduction("all", rows, tuple(range(1, len(known_shape(rows)))), False, {})
    return broadcast(reshaped(present, (shape[0], *[1] * len(shape[1:]))), shape)


# --- streams -----------------------------------------------------------------------------------


class _MappedSamples(DerivedSamples):
    """The samples of a stream after functions have been run on each; `like` is known of them."""

    __slots__ = ("like", "step")
    parts = ("samples", "step", "like")

    def __init__(self, samples: Samples, made: RowFunctions, like: Node | None) -> None:
        super().__init__(samples)
        self.step = made
        self.like = like

    @property
    def is_each(self) -> bool:
        """Whether each sample is made of one: of a batch the samples depend on each other."""
        return self.step.batch is None

    def iterate(self) -> Iterator[Node]:
        """Return what is made of each sample; maps that follow each other share one loop."""
        if self.step.batch is not None:
            yield from self._in_blocks(self.step.batch)
            return
        steps: list[_MappedSamples] = []
        source: Any = self
        while isinstance(source, _MappedSamples) and source.step.batch is None:
            steps.append(source)
            source = source.samples
        first, *others = reversed(steps)
        views = RowViews(first.step.shown)
        for number, row in enumerate(source.rows()):
            made = first._fitted(views(row), (number,))
            for step in others:
                made = step._fitted(step.step.shown(made), (number,))
            yield made

    def _in_blocks(self, size: int) -> Iterator[Node]:
        passing = self.samples.rows()
        start = 0
        while block := list(itertools.islice(passing, size)):
            numbers = tuple(range(start, start + len(block)))
            made = self._fitted(self.step.shown(stacked(block, self.like)), numbers)
            shape = known_shape(made)
            yield from (select(made, parse(place, shape), place) for place in range(len(block)))
            start += len(block)

    def _fitted(self, view: Any, numbers: tuple[int, ...]) -> Node:
        """Return what is made of samples, as data that is like what was declared."""
        result = self.step.applied(view, numbers)
        return self._member(result, result.node, self.step.spec, (), numbers)

    def _member(
        self, result: Result, node: Node, spec: Spec, path: Path, numbers: tuple[int, ...]
    ) -> Node:
        """Return a member of what was made."""
        if isinstance(spec, dict) or isinstance(node, Record):
            names = spec if isinstance(spec, dict) else dict.fromkeys(node.fields, ArraySpec())
            parts = {
                n: self._member(result, field(node, n), names[n], (*path, n), numbers)
                for n in names
            }
            made = record(parts, 0 if self.step.batch is None else 1)
            return knowing_masks(made).replaced(meta=node.meta)
        if isinstance(node, Ragged):
            return copied_rows(node)
        found = self.step.value(result, path, spec._replace(has_gaps=True), numbers)
        whole = stored(ArraySource(found)).replaced(meta=node.meta)
        if not node.has_gaps:
            return whole
        present = result.value((*path, PRESENT), spec)
        return with_mask(whole, stored(ArraySource(present), False))


def _streamed(samples: Samples, spec: Spec) -> Stream:
    """Return the stream of samples of which this is declared."""
    sample = _sample(spec)
    if sample is not None or not isinstance(spec, dict):
        return Stream(samples, sample)
    parts = {name: _streamed(FieldSamples(samples, name), inner) for name, inner in spec.items()}
    fields = Fields({name: Attached(part, None) for name, part in parts.items()})
    return Stream(samples).replaced(fields=fields)


def _sample(spec: Spec) -> Node | None:
    """Return a sample that is as declared and has no memory of its own; None if too little is."""
    if isinstance(spec, dict):
        parts = {name: _sample(inner) for name, inner in spec.items()}
        known = {name: part for name, part in parts.items() if part is not None}
        return record(known, 0) if len(known) == len(parts) else None
    if spec.shape is None or spec.dtype is None:
        return None
    return as_declared(spec.shape, spec.dtype, spec.exact)


# --- epochs ------------------------------------------------------------------------------------


def at_epoch(node: Node, epoch: int) -> Any:
    """Return the same node with the random numbers of an epoch; 0 is the one to begin with."""
    return all_at_epoch([node], epoch)[0]


def all_at_epoch(nodes: Sequence[Node], epoch: int) -> list[Any]:
    """Return nodes with the random numbers of an epoch; the functions that they share stay so."""

    def turned(part: Any, old: Any) -> Any:
        if not isinstance(part, RowFunctions) or part.keys is None or part.keys.epoch == epoch:
            return part
        return part.replaced(keys=part.keys.at(epoch))

    return rebuilt(nodes, turned)


# --- asking ------------------------------------------------------------------------------------


def probed(node: Node) -> Any:
    """Return the node with shape, dtype and fields known, calling each function once to see."""
    learnt: dict[Any, RowFunctions] = {}

    def into(part: Node) -> list[Any]:
        return [] if isinstance(part, (Sampled, Mapped)) else part.attached()

    def seen(part: Node) -> Node:
        if isinstance(part, Undeclared) and part.count is not None:
            return _known_rows(part, learnt)
        return part.probed() if isinstance(part, (Stream, NumberedSamples)) else part

    def known(part: Node, old: Node) -> Node:
        if not isinstance(part, (Sampled, Mapped)):
            return part if part is old else with_fields(part, part.fields)
        found = seen(part)
        if found is part or not part.meta:
            return found
        return found.replaced(meta=read_only_meta({**found.meta, **part.meta}))

    return telling(rebuilt([of_one_call(node)], known, into)[0])


def _known_rows(node: Undeclared, learnt: dict[Any, RowFunctions]) -> Node:
    """Return the member of a step with what a sample tells of it, learnt once for all members."""
    key = (id(node.step), id(node.node))
    made = learnt.get(key) or learnt.setdefault(key, _learnt(node))
    spec: Any = made.spec
    for name in node.path:
        spec = spec[name]
    return node.rows_of(_members(node.rows, made, spec, node.path))


def _learnt(node: Undeclared) -> RowFunctions:
    """Return the step of a member with what a few samples tell of all members."""
    number = node.first_number()
    result = node.step.result(node.rows, (number,))
    numbers = node.some_numbers()[1:] if node.step.batch is None else []
    others = [*if_made(lambda other: node.step.result(node.rows, (other,)), numbers)]

    def seen(part: Node, spec: Spec, path: Path) -> Spec:
        if isinstance(spec, dict) or isinstance(part, Record):
            inner = spec if isinstance(spec, dict) else dict.fromkeys(part.fields, ArraySpec())
            return {name: seen(field(part, name), inner[name], (*path, name)) for name in inner}
        value = node.step.value(result, path, spec._replace(has_gaps=True), (number,))
        exact = spec.dtype is None or spec.exact
        if node.step.batch is not None:
            return ArraySpec(value.shape[1:], value.dtype, exact, None, part.has_gaps)
        like = likeness([part, *_parts_at(others, path)])
        dtype = like.dtype if exact and like.dtype is not None else value.dtype
        if isinstance(like, AnyLength):
            return ArraySpec(like.extents, dtype, exact, like.row)
        mask_of = part.meta.get(MASK_OF)
        return ArraySpec(value.shape, dtype, exact, None, part.has_gaps, mask_of)

    spec = seen(result.node, node.step.spec, ())
    return node.step.replaced(spec=_with_masks(spec) if _hides_gaps(node.rows) else spec)


def _parts_at(results: Iterable[Result], path: Path) -> Iterator[Node]:
    """Return a member of those results that have it."""
    for result in results:
        part: Node | None = result.node
        for name in path:
            part = field(part, name) if part is not None and name in part.fields else None
        if part is not None:
            yield part


def deterministic(node: Node) -> bool:
    """Whether all that a node's data come from says that it makes the same again."""
    return all(part.deterministic for part in below([node]))


def _random_keys_below(node: Node) -> Iterator[RandomKeys]:
    """Return the keys of the steps that draw random numbers; the last is the highest of a chain."""

    def into(part: Any) -> list[Any]:
        return [] if _keys_of(part) is not None else part.made_of()

    return filter(None, map(_keys_of, below([node], into)))


def _keys_of(part: Any) -> RandomKeys | None:
    """Return the keys of a part that is what a step makes with random numbers."""
    step = part.step if isinstance(part, (Mapped, Undeclared, _MappedSamples)) else None
    return step.keys if isinstance(step, RowFunctions) else None
