"""Where there are data: what masks say of a node, and of what is made of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dataview.index import axes_of, parse
from dataview.plan.build import at_path, elementwise, select, stored
from dataview.plan.concat import concat
from dataview.plan.fields import LABELS, Attached, Window, are_of_codes
from dataview.plan.kinds import (
    Comparison,
    Concat,
    Driven,
    Elementwise,
    MatMul,
    Sampled,
    Select,
    Stored,
    known_shape,
)
from dataview.plan.layout import broadcast
from dataview.plan.node import Argument, Node, Shape
from dataview.plan.operations import Masked, NumpyFunction, may_be_missing
from dataview.sources import ArraySource

PRESENT = "\0present"
"""The last name of a path to where a part is present, which no field has."""

NO_LABEL = -1
"""The code of what is missing."""

KNOWN = NumpyFunction("known")
_WHERE = NumpyFunction("where")
_PRESENT = NumpyFunction("is_present")


def present_in(node: Node) -> Node | None:
    """Return where a mask says that there are data, None if no mask says anything of them."""
    if not node.has_gaps or isinstance(node, Sampled):
        return node.mask
    found: dict[int, Node] = {}
    waiting, seen = [node], set[int]()
    while waiting:
        part = waiting.pop()
        if not part.has_gaps or id(part) in seen:
            continue
        seen.add(id(part))
        own = _own_mask(part)
        if own is None and isinstance(part, Elementwise | Comparison):
            waiting.extend(arg for arg in part.args if isinstance(arg, Node))
        elif own is not None:
            found[id(own)] = own
    if not found:
        return None
    mask = functools.reduce(_both, found.values())
    if mask.has_gaps:  # it was computed of data with gaps, but is known everywhere
        mask = mask.replaced(has_gaps=False)
    return mask if mask.shape == node.shape else broadcast(mask, known_shape(node))


def known_in(node: Node) -> Node | None:
    """Return where there are values: neither what tells itself that it is missing, nor gaps."""
    return both(present_in(node), known_by_value(node))


def known_by_value(node: Node) -> Node | None:
    """Return where values are neither NaN, NaT, None nor the code of no label; None if all are."""
    if node.dtype is not None and may_be_missing(node.dtype):
        return elementwise(_PRESENT, (node,))[0]  # type: ignore[no-any-return]
    if holds_codes(node) and node.dtype is not None and node.dtype.kind == "i":
        return elementwise(np.not_equal, (node, NO_LABEL))[0]  # type: ignore[no-any-return]
    return None


def may_lack(node: Node) -> bool:
    """Whether values may be missing that say so by no value of their dtype, as NaN does."""
    return node.has_gaps or holds_codes(node)


def holds_codes(operand: Argument) -> bool:
    """Whether an operand is integers that know their labels, or will when these are found."""
    return isinstance(operand, Node) and are_of_codes(operand.meta, operand.dtype)


def may_have_codes(node: Node) -> bool:
    """Whether a node or fields in it may be codes of labels, by their metadata."""
    return LABELS in node.meta or any(
        may_have_codes(own.node) if isinstance(own, Attached) else _window_has_codes(own)
        for own in node.fields.named.values()
    )


def _window_has_codes(window: Window) -> bool:
    return LABELS in window.meta or any(
        _window_has_codes(own) for own in window.fields.named.values() if isinstance(own, Window)
    )


def is_numbered_alike(one: Node, other: Node) -> bool:
    """Whether codes of two nodes are known at once to stand for the same.

    What is written to plain numbers is, too; but plain numbers are not known to be codes of `one`.
    """
    ours, theirs = one.meta.get(LABELS), other.meta.get(LABELS)
    if ours is theirs or ours is None:
        return True
    return type(ours) is list and type(theirs) is list and bool(ours == theirs)


def both(one: Node | None, other: Node | None) -> Node | None:
    """Return where two masks are true, of which None is true everywhere."""
    if one is None or other is None:
        return other if one is None else one
    return _both(one, other)


def least_present(node: Node, axes: int = 0) -> Node | None:
    """Return where there are data as `present_in` does, without last axes along which all is alike.

    So it is of rows if each is wholly there or missing.  The first `axes` are left in any case.
    """
    present = present_in(node)
    shape = () if present is None else present.shape or ()
    if present is None or len(shape) <= axes or 0 in shape:
        return present
    left = max(axes, 1 + max(_varying(present), default=-1))
    if left == len(shape):
        return present
    return select(present, parse((*[slice(None)] * left, *[0] * (len(shape) - left)), shape))


def _varying(mask: Node) -> set[int]:
    """Return the axes along which a mask may differ."""
    if isinstance(mask, Select):
        inner, maps = _varying(mask.node), mask.index.maps
        return {axis for own in inner for axis in axes_of(maps[own])}
    if isinstance(mask, Concat):
        return {0}.union(*map(_varying, mask.nodes))
    shape = known_shape(mask)
    if isinstance(mask, Stored):
        return set(range(len(shape)))
    if isinstance(mask, Elementwise):
        parts = [arg for arg in mask.args if isinstance(arg, Node)]
        return {
            len(shape) - len(known_shape(one)) + axis for one in parts for axis in _varying(one)
        }
    return {axis for axis, length in enumerate(shape) if length > 1}


def _both(one: Node, other: Node) -> Node:
    return elementwise(np.logical_and, (one, other))[0]  # type: ignore[no-any-return]


def _own_mask(node: Any) -> Node | None:
    """Return the mask of a node that does not simply lack what one of its operands lacks."""
    if node.mask is not None:
        return of_elements(node.mask, known_shape(node))
    if isinstance(node, Stored) and node.source.present is not None:
        return of_elements(stored(node.source.present, False), known_shape(node))
    if isinstance(node, Select):
        whole = present_in(node.node)
        return None if whole is None else select(whole, node.index, fields=whole.fields)
    if isinstance(node, Concat):
        return concat([present_or_all(part) for part in node.nodes])
    if isinstance(node, Driven):
        return present_in(node.node)
    if isinstance(node, MatMul):
        return _of_product(node)
    if not isinstance(node, Elementwise):
        return None
    own = _OWN.get(Masked if isinstance(node.ufunc, Masked) else node.ufunc)
    return None if own is None else own(node)


def of_elements(mask: Node, shape: Shape) -> Node:
    """Return the mask of rows as one of all elements, of that shape."""
    if mask.shape == shape:
        return mask
    own = known_shape(mask)
    new = (Ellipsis, *[None] * (len(shape) - len(own)))  # along which it is known not to vary
    return broadcast(select(mask, parse(new, own)), shape)


def present_or_all(node: Argument) -> Node:
    """Return where there are data as `present_in` does, or that there are everywhere."""
    found = present_in(node) if isinstance(node, Node) else None
    if found is not None:
        return found
    shape = known_shape(node) if isinstance(node, Node) else ()
    return broadcast(constant(True), shape)


def tells_present(path: Sequence[str]) -> bool:
    """Whether a path of names is that to where a part is present.

    >>> tells_present(("age", PRESENT)), tells_present(("age",)), tells_present(())
    (True, False, False)
    """
    return bool(path) and path[-1] == PRESENT


def part_at(node: Node, path: tuple[str, ...]) -> Node:
    """Return the field at a path of names, or if that ends so, where it is present."""
    if tells_present(path):
        return present_or_all(at_path(node, path[:-1]))
    return at_path(node, path)


def constant(value: Any) -> Node:
    return stored(ArraySource(np.array(value)), False)


def _of_known(node: Elementwise) -> Node:
    """Return where an answer is known: the second operand of `known` says it."""
    _, present = node.args
    assert isinstance(present, Node)
    return present


def _of_product(node: MatMul) -> Node | None:
    """Return where nothing is missing of a row and a column that are multiplied."""
    length = known_shape(node.args[0])[-1]
    line, found = broadcast(constant(True), (length,)), []
    is_of_matrices = all(len(known_shape(arg)) > 1 for arg in node.args)
    for number, arg in enumerate(node.args):
        present, shape = present_in(arg), known_shape(arg)
        if present is None:
            continue
        (missing,) = elementwise(np.logical_not, (present,))
        axis = max(0, len(shape) - 2) if number else len(shape) - 1
        pair = (line, missing) if number else (missing, line)
        own: Node = MatMul(pair, (*shape[:axis], *shape[axis + 1 :]), np.dtype(bool))
        if is_of_matrices:
            key = (Ellipsis, None, slice(None)) if number else (Ellipsis, None)
            own = select(own, parse(key, known_shape(own)))
        found.append(elementwise(np.logical_not, (own,))[0])
    return functools.reduce(_both, found) if found else None


def _of_where(node: Elementwise) -> Node:
    """Return where the operand that is chosen is present."""
    condition, chosen, other = node.args
    sides = present_or_all(chosen), present_or_all(other)
    return elementwise(_WHERE, (condition, *sides))[0]  # type: ignore[no-any-return]


def _of_masked(node: Elementwise) -> Node:
    """Return where there is a result, and where what is kept is present."""
    mask, kept, *operands = node.args
    known = functools.reduce(_both, map(present_or_all, operands))
    return elementwise(_WHERE, (mask, known, present_or_all(kept)))[0]  # type: ignore[no-any-return]


def _of_decided(decides: bool, node: Elementwise) -> Node | None:
    """Return where `a & b` or `a | b` is known: one side alone may decide it."""
    if node.dtype != bool:
        return None
    sides = [arg if isinstance(arg, Node) else constant(arg) for arg in node.args]
    if any(side.dtype != bool for side in sides):
        return None
    known = functools.reduce(_both, map(present_or_all, sides))
    for side in sides:
        decided = side if decides else elementwise(np.logical_not, (side,))[0]
        if not decides and (present := present_in(side)) is not None:
            decided = _both(decided, present)
        (known,) = elementwise(np.logical_or, (known, decided))
    return known


_OWN: Mapping[Any, Callable[[Any], Node | None]] = {
    KNOWN: _of_known,
    _WHERE: _of_where,
    Masked: _of_masked,
    np.bitwise_and: functools.partial(_of_decided, False),
    np.logical_and: functools.partial(_of_decided, False),
    np.bitwise_or: functools.partial(_of_decided, True),
    np.logical_or: functools.partial(_of_decided, True),
}
"""How it is found where the results of an operation are present, if not where all operands are."""

UNASKED = frozenset((*_OWN, NumpyFunction("paired")))
"""The operations whose results are false by themselves where nothing is known."""
