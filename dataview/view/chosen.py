"""Codes of labels among the arguments of NumPy's functions: those of unlike labels are not mixed.

What is computed of codes is plain numbers; here is what has elements of several arguments, and what
is written into codes as output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from dataview.plan.gaps import holds_codes
from dataview.plan.node import Node
from dataview.spaces import is_in_memory
from dataview.tables import among_codes, as_codes, check_numbered_alike
from dataview.view.face import BaseView, node_of
from dataview.view.ragged_rows import LEFT

_FIRST: Mapping[Any, int] = {
    np.append: 0,
    np.block: 0,
    np.choose: 1,
    np.column_stack: 0,
    np.concatenate: 0,
    np.dstack: 0,
    np.hstack: 0,
    np.insert: 0,
    np.intersect1d: 0,
    np.select: 1,
    np.setdiff1d: 0,
    np.setxor1d: 0,
    np.stack: 0,
    np.union1d: 0,
    np.vstack: 0,
}
"""NumPy's functions whose results have elements of several arguments; the first one of these."""


def sides(*values: Any) -> tuple[list[Any], Any]:
    """Return what `np.where` chooses among, such that codes are of the same labels; and these."""
    given = [node_of(value) if isinstance(value, BaseView) else value for value in values]
    return among_codes("np.where", given, is_in_memory)


def check_arguments(function: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    """Raise if a result would have elements of codes that number their labels differently."""
    if function in _FIRST:
        given = [*args[_FIRST[function] :], *options.values()]
        check_numbered_alike(f"np.{function.__name__}", [*_codes_in(given)], is_in_memory)


def as_output(function: Any, args: tuple[Any, ...], found: Any, out: Any) -> Any:
    """Return a result as what is written into an output; or raise, as if it were written."""
    if not holds_codes(out):
        return found
    if not holds_codes(found):
        check_output(function.__name__, out, _codes_in(args[_FIRST.get(function, 0) :]))
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
