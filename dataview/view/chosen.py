"""Codes of labels among the arguments of NumPy's functions: those of unlike labels are not mixed.

What is computed of codes is plain numbers; here is what has elements of several arguments, and what
is written into codes as output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from dataview.plan.gaps import computed, holds_codes
from dataview.plan.node import Node
from dataview.plan.operations import NumpyFunction
from dataview.spaces import is_in_memory
from dataview.tables import among_codes, as_codes, check_numbered_alike, in_codes, knowing_labels
from dataview.view.face import BaseView, argument, evaluated, node_from, node_of, viewed
from dataview.view.outputs import Call
from dataview.view.ragged_rows import LEFT

_ELEMENTS: Mapping[Any, tuple[str, ...]] = {
    np.append: ("arr", "values"),
    np.block: ("arrays",),
    np.choose: ("", "choices"),
    np.column_stack: ("tup",),
    np.concatenate: ("arrays",),
    np.dstack: ("tup",),
    np.hstack: ("tup",),
    np.insert: ("arr", "", "values"),
    np.intersect1d: ("ar1", "ar2"),
    np.select: ("", "choicelist", "default"),
    np.setdiff1d: ("ar1", "ar2"),
    np.setxor1d: ("ar1", "ar2"),
    np.stack: ("arrays",),
    np.union1d: ("ar1", "ar2"),
    np.vstack: ("tup",),
}
"""NumPy's functions whose results have elements of several arguments, and the names of these.

They stand in the order of the positions; "" is an argument whose elements are not in the result.
"""


def sides(*values: Any, what: str = "np.where") -> tuple[list[Any], Any]:
    """Return what a function chooses among, such that codes are of the same labels; and these."""
    given = [node_of(value) if isinstance(value, BaseView) else value for value in values]
    return among_codes(what, given, is_in_memory)


def select(condlist: Any, choicelist: Any, default: Any = LEFT) -> Any:
    """Return `np.select` of codes with their labels; all else is left to NumPy.

    So is a call without a default: the zeros that NumPy fills in stand for no label that is meant.
    """
    values = [*choicelist, default]
    if default is LEFT or len(condlist) != len(choicelist) or not any(_codes_in(values)):
        return LEFT
    masks = [node_from(mask) for mask in condlist]
    are_masks = all(mask.dtype == bool for mask in masks)  # NumPy raises for others
    return _first_of("np.select", masks, values) if are_masks else LEFT


def choose(a: Any, choices: Any, mode: str = "raise") -> Any:
    """Return `np.choose` among codes with their labels; all else is left to NumPy."""
    parts = [*choices]
    if not any(_codes_in(parts)):
        return LEFT
    numbers = np.asarray(evaluated(a))
    places = np.choose(numbers, [*range(len(parts))], mode=cast(Any, mode))
    masks = [node_from(places == place) for place in range(len(parts) - 1)]
    return _first_of("np.choose", masks, parts)


def _first_of(what: str, masks: Sequence[Node], values: Sequence[Any]) -> Any:
    """Return the value of the first mask that is true, else the last; if all are of one labels."""
    found, labels = sides(*values, what=what)
    if labels is None:
        return LEFT
    *others, node = [argument(value) for value in found]
    for mask, value in zip(masks[::-1], others[::-1], strict=True):
        node = computed(NumpyFunction("where"), (mask, value, node))[0]
    return knowing_labels(node, labels)


def check_arguments(function: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    """Raise if a result would have elements of codes that number their labels differently."""
    if function in _ELEMENTS:
        given = _elements_of(function, args, options)
        check_numbered_alike(f"np.{function.__name__}", [*_codes_in(given)], is_in_memory)


def _elements_of(function: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> list[Any]:
    """Return the arguments whose elements are in the result of a function."""
    names = _ELEMENTS.get(function)
    if names is None:
        return [*args]
    placed = [value for name, value in zip(names, args, strict=False) if name]
    return placed + [value for name, value in options.items() if name in names]


def with_codes(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Call:
    """Return a call in which labels are codes, where the result has elements of codes, too."""
    names = _ELEMENTS.get(function)
    if names is None:
        return function, args, options
    codes = next(_codes_in(_elements_of(function, args, options)), None)
    if codes is None:
        return function, args, options
    change = partial(_labels_as, codes, into_lists=function is np.block)
    named = {name: change(value) if name in names else value for name, value in options.items()}
    placed = [change(v) if name else v for name, v in zip(names, args, strict=False)]
    return function, (*placed, *args[len(names) :]), named


def _labels_as(codes: Node, value: Any, into_lists: bool) -> Any:
    """Return a value with the labels in it as codes; a list is one value, unless it has views.

    `into_lists` is for a function to which lists in lists are a layout.
    """
    if type(value) in (list, tuple) and (into_lists or _has_views(value)):
        return type(value)(_labels_as(codes, part, into_lists) for part in value)
    given = node_of(value) if isinstance(value, BaseView) else value
    found = in_codes(codes, given)
    return value if found is given else viewed(found)


def _has_views(value: Any) -> bool:
    if type(value) in (list, tuple):
        return any(map(_has_views, value))
    return isinstance(value, BaseView)


def as_output(function: Any, args: tuple[Any, ...], found: Any, out: Any) -> Any:
    """Return a result as what is written into an output; or raise, as if it were written."""
    if not holds_codes(out):
        return found
    if not holds_codes(found):
        check_output(function.__name__, out, _codes_in(_elements_of(function, args, {})))
    return written(out, found)


def written(out: Node, found: Any) -> Any:
    """Return what was computed as it is written into data: numbers that are no codes are refused.

    Arithmetic takes codes for plain integers, so its results may be others.
    """
    return as_codes(out, found) if holds_codes(out) and found is not LEFT else found


def check_output(name: str, out: Any, operands: Iterable[Any]) -> None:
    """Raise if codes are to hold what is computed of codes that number their labels differently."""
    if holds_codes(out):
        codes = [out, *filter(holds_codes, operands)]
        check_numbered_alike(f"np.{name} with out=", codes, lambda _: True)


def _codes_in(values: Iterable[Any]) -> Iterator[Node]:
    """Yield the codes among arguments, however nested."""
    for value in values:
        if isinstance(value, BaseView):
            if holds_codes(node := node_of(value)):
                yield node
        elif type(value) in (list, tuple):
            yield from _codes_in(value)
