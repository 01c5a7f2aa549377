"""A user's data becomes a node: arrays, numbers, mappings, functions, iterators."""

from __future__ import annotations

import datetime
import inspect
import io
import numbers
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, MappingView, Set
from typing import Any, cast

import numpy as np

from dataview.compute import evaluate
from dataview.errors import error_at
from dataview.exchange.from_libraries import imported, is_view
from dataview.index.flat import layout_of, packed
from dataview.plan.build import record, stored
from dataview.plan.concat import stacked
from dataview.plan.fields import check_name
from dataview.plan.node import Argument, Node
from dataview.plan.ragged import Ragged, as_ragged, laid_out, ragged_of
from dataview.plan.values import is_scalar, listed
from dataview.samples import AnyLength, IteratorSamples, Stream, likeness, stack_nodes
from dataview.sources import ArraySource, Source

_OBJECTS = (numbers.Number, datetime.date, datetime.time, datetime.timedelta)
"""Values without a dtype that NumPy computes with as objects: a fraction, a decimal."""


_ADVICE: dict[type, str] = {
    MappingView: "; view list(values)",
    Set: ", which has no order; view sorted(values), or list(values)",
    os.PathLike: "; dv.open(path) views what is in a file",
    datetime.date: "; view np.datetime64(value)",
    datetime.timedelta: "; view np.timedelta64(value)",
    numbers.Number: "; view float(value), or [value] to keep it as an object",
    type(None): "; leave the field out, give NaN, or view [None] to keep it as an object",
}
"""What to view instead of an object that is no data, by its class."""


def node_of(value: Any) -> Node:
    """Return the node of a user's data.

    >>> node_of([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    if type(value) is np.ndarray:
        return stored(ArraySource(value))
    if isinstance(value, Node):
        return value
    found = imported(value)
    if found is not None:
        return found
    if isinstance(value, Mapping):
        return record({check_name(name): named(name, part) for name, part in value.items()})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return record({name: named(name, getattr(value, name)) for name in value._fields})
    if isinstance(value, Source):
        return stored(value)
    check_no_bytes(value)
    is_function = callable(value) and not hasattr(value, "__array__")
    if is_function:
        check_makes_iterators(value)
    if is_function or isinstance(value, Iterator):
        return Stream(IteratorSamples(value, node_of))
    return _of_values(value)


def named(name: Any, value: Any, make: Callable[[Any], Node] = node_of) -> Node:
    """Return the node that is made of a field's data; an error names the field."""
    try:
        return make(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise error_at(error, f"field {name!r}") from error


def check_no_bytes(value: Any) -> None:
    """Raise if a value is a file of bytes, which Python would cut at each byte for a newline."""
    if isinstance(value, io.IOBase) and not isinstance(value, io.TextIOBase):
        raise TypeError(
            f"a {type(value).__name__} has bytes, and no rows; dv.open(path) views what is in a "
            "file, np.frombuffer(file.read(), dtype) its bytes"
        )


def check_called(value: Any) -> None:
    """Raise if a value is a method of data, whose result was meant."""
    owner, name = getattr(value, "__self__", None), getattr(value, "__name__", "")
    if hasattr(type(owner), "__array__") and not name.startswith("__"):
        raise TypeError(f"{name} is a method that was not called; write {name}()")


def check_makes_iterators(function: Any) -> None:
    """Raise if a function needs arguments: one of a stream is called without any."""
    check_called(function)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a function of C, of which Python does not know
        return
    needed = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if needed:
        name = getattr(function, "__name__", repr(function))
        raise TypeError(
            f"{name} needs {', '.join(needed)}: of a function of a sample's number the view needs "
            "the length, dv.View(function, _length=n), which may be math.inf; a function without "
            "arguments returns an iterator over the samples"
        )


def argument_of(value: Any) -> Argument:
    """Return an operand: a node, or a number of Python's, to which NumPy gives no dtype."""
    if is_scalar(value):
        return cast("int | float | complex", value)
    try:
        return node_of(value)
    except TypeError:
        if isinstance(value, _OBJECTS):
            return object_node(value)
        if value is None:
            raise TypeError(
                "None is no operand; d._isna() and d._notna() tell where values are missing, and "
                "[None] is an object of an array"
            ) from None
        raise


def operand_of(value: Any) -> Argument:
    """Return one side of a comparison; a value that is no data counts as one object."""
    try:
        return argument_of(value)
    except TypeError:
        check_called(value)
        return object_node(value)


def object_node(value: Any) -> Node:
    """Return the node of one object."""
    cell = np.empty((), object)
    cell[()] = value
    return stored(ArraySource(cell))


def _of_values(value: Any) -> Node:
    """Return the node of an array or a list; lists of different lengths make ragged rows."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            "a masked array would lose its mask; fill it, or give data and mask as two fields: "
            "dv.View(x=a.filled(0), x_mask=~np.ma.getmaskarray(a))"
        )
    if type(value) in (list, tuple) and value and (isinstance(value[0], Node) or is_view(value[0])):
        nodes = [node_of(part) for part in value]
        if len({node.extents for node in nodes}) == 1:
            return stacked(nodes)
        like = likeness(nodes)
        if isinstance(like, AnyLength):
            return stack_nodes(nodes, like)
        value = [evaluate(node) for node in nodes]
    ended = listed(value)
    if isinstance(ended, (list, tuple)) and any(isinstance(part, Mapping) for part in ended):
        raise TypeError("a list of mappings is not an array; view it by itself: dv.View(samples)")
    try:
        array = np.asarray(ended)
    except ValueError:
        try:
            return ragged_of(*packed(ended))
        except (TypeError, ValueError) as error:
            what = f"no array can be made of this {type(value).__name__}"
            raise TypeError(f"{what}: {error}") from None
    if array.dtype == object and not isinstance(value, (np.ndarray, list, tuple)):
        advice = next((text for kind, text in _ADVICE.items() if isinstance(value, kind)), "")
        raise TypeError(
            "a view is made of an array, a number, a mapping of them, a function or an iterator; "
            f"got {type(value).__name__}{advice}"
        )
    return stored(ArraySource(array))


def ragged(values: Any, offsets: Any = None, lengths: Any = None, shapes: Any = None) -> Node:
    """Return ragged rows: of flat values as these lie there, or of a sequence of rows."""
    if offsets is None and lengths is None and shapes is None:
        if isinstance(values, Ragged):
            return values
        if isinstance(values, Node):
            return as_ragged(values, 1)
        if not isinstance(values, Iterable):
            raise TypeError(f"ragged rows are a list of lists or of arrays; got {values!r}")
        return ragged_of(*packed(list(values)))
    layout = layout_of(offsets, lengths, shapes)
    return laid_out(node_of(values), layout, exactly=offsets is None)
