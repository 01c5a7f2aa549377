"""A symbolic view as a formula: operators with the parentheses they need, and no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from dataview.compute import MEDIAN, Kept, memory_of
from dataview.index import Affine, Constant, Index
from dataview.index.shape_texts import shape_text
from dataview.plan.gaps import present_in
from dataview.plan.kinds import (
    Comparison,
    Elementwise,
    Mapped,
    MatMul,
    Reduction,
    Reshaped,
    Sampled,
    Select,
    Stored,
    size_of,
)
from dataview.plan.node import Argument, Label, Node, Shape
from dataview.plan.operations import (
    ATOM,
    COMPARED,
    POWER,
    UNARY,
    Masked,
    NumpyFunction,
    Ufunc,
    is_cast,
    operation_of,
)
from dataview.plan.photographs import PhotographSource
from dataview.plan.walk import below
from dataview.show.cells import line_of
from dataview.show.values import Ends
from dataview.show.words import (
    dtype_text,
    harmless,
    key_text,
    lengths_of,
    name_text,
    undriven,
    value_text,
)

Term: TypeAlias = tuple[str, int]
"""A part of a formula, and how tightly its outermost operator binds."""

FORMULA_LENGTH = 100
FORMULA_STEPS = (12, 8, 5, 3)
"""How many steps are shown: the first number whose formula is short enough, or the last."""

DEFAULTS = {"approx": False, "ddof": 0, "keepdims": False, "method": "linear"}
"""Defaults of the options of statistics: a formula shows only other values."""


# --- how each kind of step is written ----------------------------------------------------------


class _Rule(NamedTuple):
    """The operands of a kind of node, and how to write it, given its operands' terms."""

    operands: Callable[[Any], Sequence[Argument]]
    write: Callable[[Any, Sequence[Term]], Term]


def _elementwise(node: Elementwise, terms: Sequence[Term]) -> Term:
    verb, operands = _step_of(node)
    if verb:
        return _call(verb, terms, {}, {})
    if node.ufunc == NumpyFunction("known"):
        return terms[0]
    ufunc = node.ufunc
    if isinstance(ufunc, Masked) and len(operands) < len(node.args):
        ufunc = cast(np.ufunc, ufunc.function)
    operation = operation_of(ufunc)
    if operation.text:
        return _operator(ufunc, terms)
    which = f"[{node.output}]" if ufunc.nout > 1 else ""
    name = harmless(ufunc.__name__.removesuffix(" (vectorized)"))
    options = dict(getattr(ufunc, "options", ()))
    return f"{_call(name, terms, options, operation.options)[0]}{which}", ATOM


def _comparison(node: Comparison, terms: Sequence[Term]) -> Term:
    return _operator(np.not_equal if node.negated else np.equal, terms)


def _statistic(node: Reduction, terms: Sequence[Term]) -> Term:
    shape = node.shape or ()
    ndim = len(shape) if node.keepdims else len(shape) + len(node.axes)
    some = len(node.axes) < ndim
    axes = {"axis": node.axes[0] if len(node.axes) == 1 else node.axes} if some else {}
    kind, options = node.kind, {**axes, **node.options, "keepdims": node.keepdims}
    if options.pop("without_missing", False) and not _leaves_out_gaps(node):
        kind = "nanquantile"
    if options.get("method") == MEDIAN:
        kind = kind.replace("quantile", MEDIAN)
        options = {word: value for word, value in options.items() if word not in ("q", "method")}
    if terms[1:]:
        terms = [terms[0], (f"where={terms[1][0]}", ATOM)]
    return _call(kind, terms, options, DEFAULTS)


def _part(node: Select, terms: Sequence[Term]) -> Term:
    if isinstance(node, Reshaped):
        return f"reshape({terms[0][0]}, {shape_text(node.shape)})", ATOM
    return _part_term(terms[0], node.index, node.node.shape)


RULES: dict[type[Node], _Rule] = {
    Elementwise: _Rule(lambda node: _step_of(node)[1], _elementwise),
    Comparison: _Rule(lambda node: node.args, _comparison),
    MatMul: _Rule(lambda node: node.args, lambda node, terms: _operator(np.matmul, terms)),
    Reduction: _Rule(lambda node: _data_of(node), _statistic),
    Reshaped: _Rule(lambda node: (node.node,), _part),
    Kept: _Rule(lambda node: (node.node,), lambda node, terms: terms[0]),
    Select: _Rule(lambda node: (node.node,), _part),
}
"""A kind of node without a row is data: a formula shows its name, or its dtype and shape."""


def _operator(ufunc: Ufunc, terms: Sequence[Term]) -> Term:
    """Return an operation with its operator, and its operands with the parentheses they need."""
    operation = operation_of(ufunc)
    level = operation.level
    first = _bare(terms[0], level + (level in (POWER, COMPARED)))
    others = [_bare(term, UNARY if level == POWER else level + 1) for term in terms[1:]]
    return operation.text.format(first, *others), level


def _call(
    name: str, terms: Sequence[Term], options: Mapping[str, Any], defaults: Mapping[str, Any]
) -> Term:
    told = [
        f"{harmless(word)}={_option(value)}"
        for word, value in options.items()
        if word not in defaults or value_text(value) != value_text(defaults[word])
    ]
    return f"{name}({', '.join([*(term for term, _ in terms), *told])})", ATOM


def _option(value: Any) -> str:
    if isinstance(value, np.dtype):
        return harmless(str(value))
    if isinstance(value, np.ndarray):
        value = value.tolist() if value.size <= 6 else [*value.ravel()[:7]]
    if isinstance(value, (tuple, list)):
        inner = ", ".join(map(value_text, value[:6])) + (", …" if value[6:] else "")
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return value_text(value)


def _part_term(whole: Term, index: Index, shape: Shape | None) -> Term:
    order = _axes_order(index, shape)
    if order is None and _is_reshape(index, shape):
        return f"reshape({whole[0]}, {shape_text(index.shape)})", ATOM
    if order is None:
        return f"{_bare(whole, ATOM)}[{key_text(index, shape)}]", ATOM
    reverse = order == tuple(reversed(range(len(order))))
    return _call("transpose", [whole], {} if reverse else {"axes": order}, {})


def _axes_order(index: Index, shape: Shape | None) -> tuple[int, ...] | None:
    """Return the order of axes of an index that transposes, None if it does anything else."""
    axes = [
        map_.strides[0][0]
        for map_, length in zip(index.maps, shape or (), strict=False)
        if isinstance(map_, Affine)
        and not map_.offset
        and [step for _, step in map_.strides] == [1]
        and index.shape[map_.strides[0][0]] == length
    ]
    places = list(range(len(shape or ())))
    if axes == places or sorted(axes) != places or len(index.shape) != len(places):
        return None
    return tuple(axes.index(place) for place in places)


def _mapped_term(node: Node, whole: Mapped) -> Term:
    kind, _, name = harmless(whole.step.title, 60).partition(" ")
    path = "".join(f".{harmless(part)}" for part in whole.path)
    term = f"{kind}({name}){path}", ATOM
    return _part(node, [term]) if isinstance(node, Select) else term


def _is_reshape(index: Index, shape: Shape | None) -> bool:
    """Whether an index keeps all elements in row-major order."""
    if shape is None or size_of(shape) != size_of(index.shape):
        return False
    numbers = [0] * len(index.shape)
    for map_, length in zip(index.maps, _row_major(shape), strict=True):
        if not isinstance(map_, (Affine, Constant)) or map_.offset:
            return False
        for axis, step in map_.strides if isinstance(map_, Affine) else ():
            numbers[axis] += step * length
    own = zip(numbers, _row_major(index.shape), index.shape, strict=True)
    return all(number == wanted or n == 1 for number, wanted, n in own)


def _row_major(shape: Shape) -> list[int]:
    return [size_of(shape[axis + 1 :]) for axis in range(len(shape))]


def _bare(term: Term, level: int) -> str:
    return term[0] if term[1] >= level else f"({term[0]})"


# --- formulas ------------------------------------------------------------------------------------


def formula_of(node: Node) -> str:
    """Return a view's formula, "" if it computes nothing."""
    node = undriven(node)
    if not is_symbolic(node):
        return ""
    for steps in FORMULA_STEPS:
        formula = term_of(node, steps)[0]
        if len(formula) <= FORMULA_LENGTH:
            break
    return harmless(formula, FORMULA_LENGTH)


def refused_by_objects(node: Node, error: TypeError) -> str:
    """Return what is said where an element of objects refuses an operation, "" of other errors."""
    formula = formula_of(node) if type(error) is TypeError else ""
    parts = below([node]) if formula else []
    calls = any(isinstance(part, (Mapped, Sampled)) for part in parts)  # they tell the sample
    if calls or not any(getattr(part, "dtype", None) == np.dtype(object) for part in parts):
        return ""
    return (
        f"{formula}: {error}; the data are Python objects, and one of them does not allow this. "
        "d._astype(float) makes numbers of objects that are numbers, d._astype('T') texts of all"
    )


def is_symbolic(argument: Argument) -> bool:
    """Whether an operand is computed, or a part of a computed node."""
    while isinstance(argument, Select) and argument.label is None:
        argument = argument.node
    return isinstance(argument, Node) and argument.label is None and type(argument) in RULES


def operands_of(node: Node) -> Sequence[Argument]:
    """Return the operands of a step; a statistic may have dropped its data after its evaluation."""
    return [argument for argument in RULES[type(node)].operands(node) if argument is not None]


def term_of(argument: Argument, room: int = 1) -> Term:
    """Return the term of an operand, in which `room` steps may be shown."""
    if not isinstance(argument, Node):
        return _signed(value_text(argument))
    if not is_symbolic(argument):
        return _data_term(argument)
    if not room:
        return "…", ATOM
    operands = operands_of(argument)
    share = (room - 1) // max(1, sum(map(is_symbolic, operands)))
    return step_term(argument, [term_of(operand, share) for operand in operands])


def _signed(number: str) -> Term:
    return number, UNARY if number.startswith("-") else ATOM


def step_term(node: Node, terms: Sequence[Term]) -> Term:
    """Return one step, given its operands."""
    return RULES[type(node)].write(node, terms or [("…", ATOM)])


def _constant_of(node: Node) -> np.ndarray | None:
    """Return the value that a formula shows, None if it is not known without reading."""
    source = node.source if isinstance(node, Stored) else None
    return source.stands_for if isinstance(source, PhotographSource) else memory_of(node)


def _data_term(node: Node) -> Term:
    if node.label is None:
        whole = node.node if isinstance(node, Select) else node
        if isinstance(whole, Mapped):
            return _mapped_term(node, whole)
        if whole.label is not None and isinstance(node, Select):
            return _part(node, [_data_term(whole)])
        constant = _constant_of(node) if node.extents == () else None
        if constant is not None and constant.dtype.kind in "biufcmMSUOT":
            return _signed(line_of(Ends(constant)))
        return f"{dtype_text(node)}{shape_text(lengths_of(node))}", ATOM
    return label_term(node.label)


def label_term(label: Label) -> Term:
    """Return the name of a field, and which part of it is meant."""
    name: Term = name_text(label), ATOM
    return name if label.part is None else _part_term(name, label.part, label.shape)


# --- steps as a user wrote them, without what a plan does about gaps -----------------------------

_KNOWN, _PAIRED, _PRESENT, _WHERE = map(NumpyFunction, ("known", "paired", "is_present", "where"))
_NOT = (np.invert, np.logical_not)


def _step_of(node: Elementwise) -> tuple[str, Sequence[Argument]]:
    """Return the verb of an elementwise step, "" if it is its operation, and its operands."""
    ufunc, args = node.ufunc, node.args
    if ufunc == _KNOWN:
        return "", args[:1]
    if isinstance(ufunc, Masked) and _is_missing(args[1]):  # it computes where there are objects
        return "", args[2:]
    if ufunc == _WHERE and isinstance(args[1], Node) and _rest_of(args[0], args[1]) is None:
        fill = args[2]
        is_fitted = isinstance(fill, Elementwise) and is_cast(fill.ufunc)
        return "fillna", (args[1], cast(Elementwise, fill).args[0] if is_fitted else fill)
    if ufunc in _NOT and (data := _asked_of(args[0])) is not None:
        return "isna", (data,)
    if (data := _asked_of(node)) is not None:
        return "notna", (data,)
    return "", args


def _data_of(statistic: Reduction) -> Sequence[Argument]:
    """Return the data of a statistic, and the mask `where=` if it has one."""
    data = statistic.node
    if not isinstance(data, Elementwise):
        return (data,)
    if data.ufunc == _PAIRED:
        values, where = data.args
    elif data.ufunc == _WHERE and _is_nothing(data.args[2]):
        where, values = data.args[:2]
    else:
        return (data,)
    rest = _rest_of(where, cast(Node, values))
    return (values,) if rest is None else (values, rest)


def _leaves_out_gaps(statistic: Reduction) -> bool:
    """Whether what a statistic leaves out is what its data tell to be missing."""
    return statistic.node is not None and _data_of(statistic) != (statistic.node,)


def _is_missing(kept: Argument) -> bool:
    """Whether what stands where nothing is computed is no answer, or is missing itself."""
    return kept is False or (isinstance(kept, Node) and kept.has_gaps and _is_nothing(kept))


def _is_nothing(argument: Argument) -> bool:
    """Whether an operand is the constant that stands where nothing counts."""
    is_constant = isinstance(argument, Stored) and argument.shape == () and argument.label is None
    return is_constant and not cast(Stored, argument).writable


def _asked_of(argument: Argument) -> Node | None:
    """Return the data of which a mask tells nothing but where they are present."""
    for part in _conjuncts(argument):
        if isinstance(part, Elementwise) and part.ufunc == _PRESENT:
            data = part.args[0]
            found = isinstance(data, Node) and _rest_of(argument, data) is None
            return cast(Node, data) if found else None
    return None


def _rest_of(mask: Argument, data: Node) -> Argument | None:
    """Return what a mask tells beside where data are present, None if that is all."""
    sources = _sources_of(present_in(data))

    def is_unwritten(part: Argument) -> bool:
        if isinstance(part, Elementwise) and part.ufunc == _PRESENT:
            return part.args[0] is data
        own = _sources_of(part)
        return bool(own) and own <= sources

    while not all(map(is_unwritten, _conjuncts(mask))):
        sides = mask.args if isinstance(mask, Elementwise) and mask.ufunc is np.logical_and else ()
        rest = [side for side in sides if not all(map(is_unwritten, _conjuncts(side)))]
        if len(rest) != 1:
            return mask
        (mask,) = rest
    return None


def _conjuncts(mask: Argument) -> list[Argument]:
    """Return the masks that are all true where a mask is."""
    parts = below([mask], lambda part: part.args if _is_and(part) else ())
    return [part for part in parts if not _is_and(part)]


def _is_and(part: Argument) -> bool:
    return isinstance(part, Elementwise) and part.ufunc is np.logical_and


def _sources_of(mask: Argument | None) -> set[int]:
    """Return which sources a mask reads."""
    parts = below([mask]) if isinstance(mask, Node) else ()
    return {id(part.source) for part in parts if isinstance(part, Stored)}
