"""What every view holds: a node, which of its rows, and where the view was taken from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar, cast

from numpy.lib.mixins import NDArrayOperatorsMixin

from dataview import exchange
from dataview.exchange import is_foreign
from dataview.index import ENDLESS, parse
from dataview.plan.build import select
from dataview.plan.kinds import known_shape
from dataview.plan.node import Node

Rows: TypeAlias = "range | int | None"
State: TypeAlias = "tuple[Node, Rows, Face | None, Any]"


class Face(NDArrayOperatorsMixin):
    """The class of all views: here their state; the verbs join it from the rooms beside this one.

    `_state` is (node, rows, parent, key): the view is those rows of the node.  A slice of a view
    shares the node, and its own node is made when first asked for.  Fields once asked for stand in
    `__dict__`, where Python finds them without calling anything.
    """

    __slots__ = ("__dict__", "__weakref__", "_state")

    _state: State

    def __call__(self, *, out: Any = None, copy: bool | None = None) -> Any:
        """Return the data."""
        raise NotImplementedError


_Kind = TypeVar("_Kind", bound=type[Face])
_new: Any = object.__new__  # to mypy the class is abstract until it has its verbs
put_state: Any = Face.__dict__["_state"].__set__

arrivals: dict[str, Callable[[Any], None]] = {}
"""What to do with the class of views once somebody has imported a library, by its name."""

_imported = sys.modules.keys()


def shown_by(kind: _Kind) -> _Kind:
    """Move a class with the groups of verbs that it is made of into the class of all views.

    Groups are for the source; those who use a view, ask for help or read an error meet one class.
    """
    for group in reversed(kind.__mro__[: kind.__mro__.index(Face)]):
        setattr(sys.modules[group.__module__], kind.__name__, Face)  # where pickle looks for verbs
        for name, verb in vars(group).items():
            if hasattr(verb, "__get__"):
                setattr(Face, name, verb)
                function: Any = verb.fget if isinstance(verb, property) else getattr(Face, name)
                function.__qualname__ = f"{kind.__name__}.{name}"
    Face.__name__ = Face.__qualname__ = kind.__name__
    Face.__doc__, Face.__module__ = kind.__doc__, __name__.partition(".")[0]
    return cast(_Kind, Face)


def made(node: Node, rows: Rows, parent: Face | None, key: Any) -> Any:
    """Return the view of some rows of a node."""
    view = _new(Face)
    put_state(view, (node, rows, parent, key))
    return view


def begin(view: Face, node: Node, parent: Face | None = None, key: Any = None) -> None:
    """Make a view that of a whole node."""
    if not _imported.isdisjoint(arrivals):
        _welcome()
    shape = node.shape
    rows = range(shape[0]) if shape and shape[0] < ENDLESS else None
    put_state(view, (node, rows, parent, key))


def _welcome() -> None:
    for library in tuple(arrivals):
        if sys.modules.get(library) is not None:  # None stands for an import that is not to be
            welcome = arrivals.pop(library, None)  # of several threads one gets it
            if welcome is not None:
                welcome(Face)


def viewed(node: Node, key: Any = None) -> Any:
    """Return the view of a node; `key` marks one that is a part of another view."""
    view = _new(Face)
    if not _imported.isdisjoint(arrivals):
        _welcome()
    shape = node.shape
    rows = range(shape[0]) if shape and shape[0] < ENDLESS else None
    put_state(view, (node, rows, None, key))
    return view


def viewed_with(node: Node, parts: Mapping[str, Node]) -> Any:
    """Return the view of a node with the views of its fields already in their places."""
    view = viewed(node)
    if parts:
        rows, fields = view._state[1], view.__dict__
        for name, part in parts.items():  # whose rows are those of the whole
            fields[name] = field = _new(Face)
            put_state(field, (part, rows, None, None))
    return view


_Some = TypeVar("_Some", bound=Face)


def like(view: _Some, node: Node) -> _Some:
    """Return the view of a node, of the class of another view."""
    return cast(_Some, viewed(node))


def node_of(view: Face) -> Node:
    """Return the node of a view, made now if the view was a slice that nobody had asked."""
    node, seen, parent, key = view._state
    if seen is None:
        return node
    shape = node.shape or known_shape(node)
    if seen == range(shape[0]):
        return node
    cut = as_key(seen)
    whole = select(node, parse(cut, shape), cut)
    begin(view, whole, parent, key)
    return whole


def as_key(rows: Rows) -> slice | int:
    """Return rows as the key that chooses them."""
    if not isinstance(rows, range):
        assert rows is not None
        return rows
    if not rows:
        return slice(0, 0)
    return slice(rows.start, rows.stop if rows.stop >= 0 else None, rows.step)


def unwrapped(value: Any) -> Any:
    """Return a value with views in it as nodes."""
    if isinstance(value, Face):
        return node_of(value)
    if isinstance(value, Mapping) and not is_foreign(value):
        return {name: unwrapped(part) for name, part in value.items()}
    if type(value) is tuple and any(isinstance(part, Face) for part in value):
        return tuple(map(unwrapped, value))
    return value


def node_from(value: Any) -> Node:
    """Return the node of a view, or of data as a user gives it."""
    return exchange.node_of(unwrapped(value))


def argument(value: Any) -> Any:
    """Return a value as an operand of an expression."""
    return node_of(value) if isinstance(value, Face) else exchange.argument_of(value)


def evaluated(value: Any) -> Any:
    """Return the data of a view, and any other value as it is."""
    return value() if isinstance(value, Face) else value
