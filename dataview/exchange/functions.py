"""Expressions over symbols: bound to data once, or called with data like a function.

A function keeps a plan for each combination of shapes that it was called with.  Small plans are
lists of calls on whole arrays; larger ones are evaluated block by block like any expression.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dataview.compute import evaluate, evaluate_all, in_own_arrays, memory_of, settle
from dataview.index import Index, gather
from dataview.index.sizes import sizes
from dataview.plan.build import elementwise, read_only, stored, with_fields
from dataview.plan.guards import check_no_record
from dataview.plan.kinds import Elementwise, Placeholder, Reduction, Select, Stored, size_of
from dataview.plan.node import Node, Part
from dataview.plan.operations import NumpyFunction
from dataview.plan.symbols import check_symbols, matched, substituted, symbols_of
from dataview.plan.walk import below
from dataview.sources import ArraySource

PLANS = 64
"""How many plans a function keeps; after more combinations of shapes it starts anew."""


def bind(node: Node, given: Mapping[str, Node]) -> Node:
    """Return an expression over the data given for its symbols, all of them or some."""
    symbols = symbols_of([node])
    check_symbols(given, symbols)
    values = {name: _data_of(symbols[name], value) for name, value in given.items()}
    (found,) = substituted([node], functools.partial(_data_or_symbol, values))
    return found


def _data_of(symbol: Placeholder, value: Node) -> Node:
    """Return a node as a symbol declares it, read-only; an array of another dtype is cast."""
    check_no_record(value, f"symbol {symbol.name!r}")
    memory = _stored_array(value)
    if memory is not None:
        array = matched(symbol, memory)
        if array is not memory:
            return stored(ArraySource(array), writable=False)
    node: Node = matched(symbol, value)
    if node.dtype != symbol.dtype:
        options = (("dtype", symbol.dtype), ("casting", "same_kind"))
        (node,) = elementwise(NumpyFunction("astype", options), (node,))
    return read_only(node)


def _data_or_symbol(values: Mapping[str, Node], symbol: Placeholder) -> Node:
    """Return the data for a symbol, with the symbol's fields and metadata."""
    if symbol.name not in values:
        return symbol
    return with_fields(values[symbol.name], symbol.fields).replaced(meta=symbol.meta)


# --- functions ---------------------------------------------------------------------------------

Plan = Callable[[Sequence[np.ndarray]], list[Any]]


class Function:
    """Outputs computed from arrays: by position, or by the names of the symbols."""

    __slots__ = ("inputs", "outputs", "plans", "symbols", "unwrap")

    def __init__(self, inputs: Any, outputs: Any, unwrap: Callable[[Any], Any]) -> None:
        """Take symbols, and nodes in nested tuples, lists and mappings."""
        given = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        for node in given:
            if not isinstance(node, Placeholder):
                raise TypeError("the inputs of a function are symbols: dv.symbol(name, shape=...)")
        self.inputs: tuple[Placeholder, ...] = tuple(given)
        self.outputs = outputs
        self.unwrap = unwrap
        self.plans: dict[Any, Plan] = {}
        self.symbols = symbols_of([*self.inputs, *_leaves(outputs)])
        names = [symbol.name for symbol in self.inputs]
        if len(set(names)) < len(names):
            raise ValueError(f"an input is given twice: {', '.join(names)}")
        missing = [name for name in self.symbols if name not in names]
        if missing:
            raise ValueError(
                f"the outputs need symbol {', '.join(map(repr, missing))}, which is no input"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return Function, (self.inputs, self.outputs, self.unwrap)

    def __repr__(self) -> str:
        return f"function({', '.join(symbol.name for symbol in self.inputs)})"

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Return the outputs for these arrays, in the structure in which they were declared."""
        if named or len(arrays) != len(self.inputs):
            arrays = self._in_order(arrays, named)
        shapes = []
        for value, symbol in zip(arrays, self.inputs, strict=True):
            if type(value) is not np.ndarray or value.dtype != symbol.dtype:
                return self._checked(arrays)
            shapes.append(value.shape)
        plan = self.plans.get(tuple(shapes))
        if plan is None:
            return self._checked(arrays)
        return _filled(self.outputs, iter(plan(arrays)))

    def _in_order(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        names = [symbol.name for symbol in self.inputs]
        given = dict(zip(names, arrays, strict=False))
        twice = [name for name in named if name in given]
        wrong = [name for name in named if name not in names]
        missing = [name for name in names if name not in given and name not in named]
        if len(arrays) > len(names) or twice or wrong or missing:
            received = [f"{len(arrays)} by position", *(f"{name}=" for name in named)]
            raise TypeError(
                f"{self!r} takes {len(names)} arrays, each by position or by its name; got "
                f"{', '.join(received)}"
            )
        given |= named
        return tuple([given[name] for name in names])

    def _checked(self, given: Sequence[Any]) -> Any:
        """Compute the outputs of arguments that may be views, lists, or arrays of new shapes."""
        pairs = zip(self.inputs, map(self.unwrap, given), strict=True)
        values = [_data_of(symbol, node) for symbol, node in pairs]
        arrays = [_stored_array(node) for node in values]
        if any(array is None for array in arrays):
            by_name = {symbol.name: node for symbol, node in zip(self.inputs, values, strict=True)}
            roots = substituted(_leaves(self.outputs), functools.partial(_data_or_symbol, by_name))
            return _filled(self.outputs, iter([array[()] for array in evaluate_all(roots)]))
        shapes = tuple([array.shape for array in arrays])  # type: ignore[union-attr]
        plan = self.plans.get(shapes)
        if plan is None:
            if len(self.plans) >= PLANS:
                self.plans.clear()
            plan = self.plans.setdefault(shapes, self._planned(shapes))
        return _filled(self.outputs, iter(plan(arrays)))  # type: ignore[arg-type]

    def _planned(self, shapes: Sequence[tuple[int, ...]]) -> Plan:
        """Return the plan for arrays of these shapes."""
        lengths = {s.name: shape for s, shape in zip(self.inputs, shapes, strict=True)}

        def closed(symbol: Placeholder) -> Node:
            shape = lengths[symbol.name]
            return symbol.replaced(shape=shape, extents=shape)

        roots = substituted(_leaves(self.outputs), closed)
        names = [symbol.name for symbol in self.inputs]
        return _as_calls(names, roots) or functools.partial(_evaluated, names, roots)


def _stored_array(node: Node) -> np.ndarray | None:
    return node.source.memory if isinstance(node, Stored) else None


def _leaves(structure: Any) -> list[Node]:
    """Return the nodes in nested tuples, lists and mappings, in order."""
    if isinstance(structure, Node):
        return [structure]
    if isinstance(structure, Mapping):
        structure = list(structure.values())
    if not isinstance(structure, (tuple, list)):
        raise TypeError(
            "the outputs of a function are views, in tuples, lists and mappings; got "
            f"{type(structure).__name__}"
        )
    return [node for part in structure for node in _leaves(part)]


def _filled(structure: Any, values: Any) -> Any:
    """Return the structure with values in place of its nodes."""
    if isinstance(structure, Node):
        return next(values)
    if isinstance(structure, Mapping):
        return {name: _filled(part, values) for name, part in structure.items()}
    return pack_like(structure, [_filled(part, values) for part in structure])


def pack_like(structure: Any, parts: Iterable[Any]) -> Any:
    """Return parts as a list, a tuple or a namedtuple, as a structure is."""
    if hasattr(structure, "_fields"):
        return type(structure)(*parts)
    return list(parts) if isinstance(structure, list) else tuple(parts)


# --- plans -------------------------------------------------------------------------------------


def _evaluated(names: list[str], roots: list[Node], arrays: Sequence[np.ndarray]) -> list[Any]:
    """Evaluate expressions over arrays block by block."""
    nodes = {
        name: stored(ArraySource(array), writable=False)
        for name, array in zip(names, arrays, strict=True)
    }
    found = substituted(roots, functools.partial(_data_or_symbol, nodes))
    return [array[()] for array in evaluate_all(found)]


class _CallList:
    """A plan for few elements: calls on whole arrays, in order; values are known by their places.

    `calls` has the place of each result, by the function and the places of its operands.
    """

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.values: list[Any] = [None] * len(names)
        self.calls: dict[tuple[Any, ...], int] = {}
        self.outputs: list[tuple[int, bool]] = []

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[Any]:
        values = self.values.copy()
        values[: len(arrays)] = arrays
        for (call, *operands), result in self.calls.items():
            values[result] = call(*[values[place] for place in operands])
        found = [
            gather.frozen(values[place]) if lent else np.asarray(values[place])
            for place, lent in self.outputs
        ]
        return [array[()] for array in in_own_arrays(found, [lent for _, lent in self.outputs])]

    def place(self, value: Any) -> int:
        """Return the place of a value: a constant, or None for what is computed by each run."""
        self.values.append(value)
        return len(self.values) - 1

    def add(self, call: Callable[..., Any], *operands: int) -> int:
        """Add a call unless it is there already, and return the place of its result."""
        key = (call, *operands)
        if key not in self.calls:
            self.calls[key] = self.place(None)
        return self.calls[key]


def _as_calls(names: list[str], roots: Sequence[Node]) -> _CallList | None:
    """Return small outputs as a list of calls, None if they need blocks or anything else."""
    plan = _CallList(names)
    places: dict[int, int] = {}
    order = below(roots, Part.held)
    inner = _over_symbols(order)

    def place_of(node: Node) -> int:
        if id(node) not in places:  # it has no symbols: what it reads may have been written since
            places[id(node)] = plan.add(functools.partial(_read, node))
        return places[id(node)]

    for node in (node for node in order if id(node) in inner):
        if node.shape is None or size_of(node.shape) > sizes.small_elements:
            return None
        if isinstance(node, Placeholder):
            places[id(node)] = names.index(node.name)
        elif isinstance(node, Elementwise):
            operands = [
                place_of(arg) if isinstance(arg, Node) else plan.place(arg) for arg in node.args
            ]
            place = plan.add(node.ufunc, *operands)
            if len(node.dtypes) > 1:
                place = plan.add(operator.itemgetter(node.output), place)
            places[id(node)] = place
        elif isinstance(node, Select):
            chosen = functools.partial(_selected, node.index)
            places[id(node)] = plan.add(chosen, places[id(node.node)])
        elif isinstance(node, Reduction):
            taken = functools.partial(_taken, node)
            places[id(node)] = plan.add(taken, places[id(node.node)])
        else:
            return None
    lending = (Placeholder, Select, Reduction)
    plan.outputs = [(place_of(root), isinstance(root, lending)) for root in roots]
    return plan


def _over_symbols(order: Sequence[Node]) -> set[int]:
    """Return the identities of those of some ordered nodes that are made of symbols."""
    found: set[int] = set()
    for node in order:
        if isinstance(node, Placeholder) or any(id(part) in found for part in node.held()):
            found.add(id(node))
    return found


def _read(node: Node) -> np.ndarray:
    memory = memory_of(node)
    return evaluate(node) if memory is None else memory


def _selected(index: Index, array: np.ndarray) -> np.ndarray:
    return gather.read(np.asarray(array), index)


def _taken(node: Reduction, array: np.ndarray) -> np.ndarray:
    """Return a statistic of an array."""
    fresh = node.replaced(node=stored(ArraySource(np.asarray(array))), rows=None)
    settle(fresh)
    assert fresh.taken is not None
    return fresh.taken
