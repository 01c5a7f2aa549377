"""Checks that a node is one array, that it has an end, and that a shape or a key can be taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import CO_VARARGS
from numbers import Number
from types import FunctionType
from typing import Any

import numpy as np

from dataview.errors import StreamError, chained, listed
from dataview.index import is_endless
from dataview.plan.kinds import Driven, Record, members
from dataview.plan.node import Node, Shape
from dataview.plan.operations import TEXTS


def check_array(node: Any, what: str, advice: str = "") -> None:
    """Raise if a node is a record, or an array of records: its data are not of one kind."""
    check_no_record(node, what, advice)
    if isinstance(node, Node) and node.dtype is not None and node.dtype.names:
        raise _of_records(node.dtype.names, what, advice)


def check_no_record(node: Any, what: str, advice: str = "") -> None:
    """Raise if a node is a record of arrays; an array of records passes."""
    if isinstance(node, (Record, Driven)):
        raise _of_records(node.fields, what, advice)


def _of_records(fields: Iterable[str], what: str, advice: str) -> TypeError:
    names = listed([*map(repr, fields)])
    more = f"; {advice}" if advice else ""
    return TypeError(f"{what} takes one array, not a record; choose a field: {names}{more}")


_BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift")


def no_operation(name: str, operands: Sequence[Any]) -> TypeError:
    """Return the error for operands, dtypes or numbers after their types, that a ufunc has not.

    >>> print(no_operation("greater", [np.dtype("M8[D]"), (int, 2002)]))
    greater takes no datetime64[D] and 2002; a date is np.datetime64('2020-01-31')
    >>> print(no_operation("invert", [np.dtype("f8")]))
    invert takes no float64; it is for integers and for truth values, such as those of d > 0
    """
    kinds = {operand.kind for operand in operands if isinstance(operand, np.dtype)}
    told = [str(op) if isinstance(op, np.dtype) else repr(op[1]) for op in operands]
    advice = ""
    if kinds & {*"mM"}:
        advice = "; a date is np.datetime64('2020-01-31')"
        advice += ", a duration np.timedelta64(3, 'D')" * (name in ("add", "subtract"))
    elif kinds & {*TEXTS}:
        advice = "; d._astype(float) makes numbers of texts, d._astype('T') texts of numbers"
    elif name in _BITWISE:
        advice = "; it is for integers and for truth values, such as those of d > 0"
    return TypeError(f"{name} takes no {' and '.join(told)}{advice}")


def why_no_rows(node: Node) -> str:
    """Return why fields have no rows in common, and how to get some, "" if that is not known.

    >>> from dataview.plan.build import record, stored
    >>> from dataview.sources import ArraySource
    >>> import numpy as np
    >>> x, n = (stored(ArraySource(np.array(data))) for data in ([1, 2], 3))
    >>> print(why_no_rows(record({"x": x, "n": n})))
    the view has no rows: field 'n' is one value; d._drop('n') has rows
    """
    if not isinstance(node, Record) or node.rank or not node.is_inferred:
        return ""
    all_of = members(node)
    names = [name for name, part in all_of.items() if part.node.shape == ()]
    if not names or len(names) == len(all_of):
        return ""
    quoted = [*map(repr, names)]
    are = "field {} is one value" if len(names) == 1 else "the fields {} are one value each"
    dropped = ", ".join(quoted) if len(names) <= MOST_DROPPED else "*names"
    return f"the view has no rows: {are.format(listed(quoted))}; d._drop({dropped}) has rows"


MOST_DROPPED = 5
"""So many names are written in a call that drops them."""


def misfit(function: Any, gets: Sequence[str], by_name: str = "") -> str:
    """Return which arguments a plain function takes instead of those it will get, "" if they fit.

    It may also take one that it gets by its name.

    >>> misfit(lambda row: row, ["the view of a row"])
    ''
    >>> misfit(lambda x, y: x + y, ["the view of a row"])
    '<lambda> takes 2 arguments, x and y, and gets one, the view of a row'
    """
    if type(function) is not FunctionType:
        return ""
    code = function.__code__
    taken = [name for name in code.co_varnames[: code.co_argcount] if name != by_name]
    least = len(taken) - len(function.__defaults__ or ())
    if least <= len(gets) and (len(gets) <= len(taken) or code.co_flags & CO_VARARGS):
        return ""
    count = f"{len(taken) or 'no'} argument{'s' * (len(taken) != 1)}"
    names = f", {' and '.join(taken)}" if taken else ""
    given = f"{('one', 'two')[len(gets) - 1]}, {' and '.join(gets)}"
    return f"{function.__name__} takes {count}{names}, and gets {given}"


def calls(name: str, fields: Iterable[str]) -> str:
    """Return how the data of a view, or of its fields, are asked for, with a name for the view.

    >>> calls("row", ["x", "the y"]), calls("row", [])
    ("row.x(), row['the y']()", 'row()')
    """
    return listed([f"{name}{chained([field])}()" for field in fields]) or f"{name}()"


def check_ends(node: Node, what: str) -> None:
    """Raise if a node has an axis without an end."""
    lengths = (node.count,) if node.extents is None else node.extents
    if any(map(is_endless, lengths)):
        raise endless(what)


def endless(what: str) -> StreamError:
    """Return the error for a question that needs an end."""
    return StreamError(f"{what} needs an end, and this view never ends; slice it first")


def is_broadcast_to(shape: Shape, whole: Shape) -> bool:
    """Whether NumPy repeats an array of a shape such that it has the other one."""
    if len(shape) > len(whole):
        return False
    pairs = zip(reversed(shape), reversed(whole), strict=False)
    return all(own in (1, length) for own, length in pairs)


def no_key(why: str) -> Exception:
    """Return the error for a key that ragged rows do not take."""
    return IndexError(
        f"{why}; take a row first, as in view[0][:2], or make rows of "
        f"one length: _pad(value) fills them up, _windows(size, step) cuts a long row, "
        "_map(function) does anything row by row"
    )


def is_whole(entry: Any) -> bool:
    """Whether an entry of a key selects all of an axis."""
    return isinstance(entry, slice) and entry == slice(None)


def quantile_levels(given: Any, most: int = 1) -> Any:
    """Return which quantiles are asked for, as a number or an array of numbers; or raise.

    >>> quantile_levels([0.25, 0.75])
    array([0.25, 0.75])
    """
    if type(given) in (int, float):
        return given
    found = np.array(given)
    is_of_objects = found.dtype.kind == "O" and all(isinstance(q, Number) for q in found.flat)
    if found.dtype.kind not in "biuf" and not is_of_objects:
        raise TypeError(
            f"a quantile is asked for by a number from 0 to {most}, such as {most / 2:g} for the "
            f"median, or by a list of them; got {given!r}"
        )
    return found
