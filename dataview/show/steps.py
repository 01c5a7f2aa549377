"""Steps as a user wrote them: what a plan does about gaps of columns is no part of a formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from dataview.plan.gaps import present_in
from dataview.plan.kinds import Elementwise, Reduction, Stored
from dataview.plan.node import Argument, Node
from dataview.plan.operations import Masked, NumpyFunction, is_cast
from dataview.plan.walk import below

_KNOWN, _PAIRED, _PRESENT, _WHERE = map(NumpyFunction, ("known", "paired", "is_present", "where"))
_NOT = (np.invert, np.logical_not)


def step_of(node: Elementwise) -> tuple[str, Sequence[Argument]]:
    """Return the verb of an elementwise step, "" if it is its operation, and its operands."""
    ufunc, args = node.ufunc, node.args
    if ufunc == _KNOWN:
        return "", args[:1]
    if isinstance(ufunc, Masked) and args[1] is False:  # it compares texts where there are some
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


def data_of(statistic: Reduction) -> Sequence[Argument]:
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


def leaves_out_gaps(statistic: Reduction) -> bool:
    """Whether what a statistic leaves out is what its data tell to be missing."""
    return statistic.node is not None and data_of(statistic) != (statistic.node,)


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
