"""Symbols: names for data that is given later, and what is built of them.

A step over data of unknown length is deferred: it is built on stand-ins of several lengths.  What
all of them agree on is known, a step that no length allows is refused at once, and the rest is
decided when the data is there.  Binding builds an expression again, from the symbols up.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from dataview.errors import UndeclaredError, bind_text
from dataview.index import is_endless
from dataview.index.dtypes import dtype_of
from dataview.index.shape_texts import shape_text
from dataview.plan.fields import Fields
from dataview.plan.kinds import (
    Extents,
    Placeholder,
    Reduction,
    Sampled,
    Unbound,
)
from dataview.plan.node import DType, Label, Node, Part, parts_in, with_parts_in
from dataview.plan.values import cast
from dataview.plan.walk import below, rebuilt

LENGTHS = (0, 1, 1 << 40)
"""The lengths to try: a step whose result has one length for all three has it for any."""

FEW = 8
"""Of a list that is longer than this, the numbers in it are not tried as lengths."""


class Deferred(Unbound):
    """A step that is built again, `build(*args)`, when the lengths of its arguments are known."""

    __slots__ = ("args", "build")
    parts = ("args",)

    def __init__(
        self,
        build: Callable[..., Node],
        args: tuple[Any, ...],
        extents: Extents,
        dtype: DType,
        fields: Fields,
        names: tuple[str, ...],
    ) -> None:
        super().__init__(extents, dtype, fields, names)
        self.build = build
        self.args = args


def placeholder(name: str, shape: Any, dtype: Any, fields: Fields) -> Placeholder:
    """Return the symbol of this name; a length that is None may be any.

    >>> from dataview.plan.fields import NO_FIELDS
    >>> placeholder("x", (None, 3), "f4", NO_FIELDS).extents
    (None, 3)
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"a symbol's name is a string that is not empty; got {name!r}")
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for length in extents:
        if length is not None and (type(length) is not int or not 0 <= length < LENGTHS[-1]):
            raise ValueError(f"symbol {name!r}: a length is a number or None; got shape={shape!r}")
    found = dtype_of(dtype)
    if found.names or found.subdtype:
        raise TypeError(f"symbol {name!r}: declare one symbol for each field of {found}")
    symbol = Placeholder(extents, found, fields, (name,))
    symbol.label = Label((name,), symbol.shape)
    return symbol


# --- steps of unknown length -------------------------------------------------------------------

_Build = TypeVar("_Build", bound=Callable[..., Any])


def is_open(argument: Any) -> bool:
    """Whether a length of an argument is unknown until a symbol is bound."""
    return isinstance(argument, Unbound) and argument.shape is None


_MAY_BE_OPEN = (Unbound, tuple, list)


def deferring(build: _Build) -> _Build:
    """Make a function that builds a node one that defers it where a length is unknown."""

    @functools.wraps(build)
    def built(*args: Any, **options: Any) -> Any:
        for value in args:
            if not isinstance(value, _MAY_BE_OPEN) or not _has_open(value):
                continue
            return deferred(functools.partial(built, **options) if options else built, *args)
        return build(*args, **options)

    return built  # type: ignore[return-value]


def _has_open(value: Any) -> bool:
    return any(map(is_open, value)) if type(value) in (tuple, list) else is_open(value)


def deferred(build: Callable[..., Node], *args: Any, like: Any = None) -> Deferred:
    """Return the node of `build(*args)`, to be built when the lengths in `args` are known.

    `like` are other arguments with the same result, in which fewer lengths are to be tried.
    """
    tried = args if like is None else like
    nodes = parts_in(tried)
    axes = {axis for node in nodes for axis in _open_axes(node)}
    lengths = sorted({*LENGTHS, *_lengths_in(tried)})
    found, refusal = _built(build, tried, [dict.fromkeys(axes, n) for n in lengths])
    if not found:
        refusal.args = tuple(map(_without_lengths, refusal.args))
        raise refusal
    if len(axes) > 1:  # what depends on one length alone
        alone = [{**one, axis: n} for one, _ in found for axis in axes for n in lengths]
        found = _built(build, tried, alone)[0] + found
    names = tuple(dict.fromkeys(name for node in nodes for name in _names(node)))
    extents = _agreed([node.shape for _, node in found if node.shape is not None], names)
    last = found[-1][1]
    assert last.dtype is not None
    windows = last.fields.windows_only(0)
    return Deferred(build, args, extents, last.dtype, windows, names)


def without_masks(key: Any) -> Any:
    """Return a key with the positions that masks choose in place of the masks.

    >>> without_masks(np.array([True, False, True]))
    (array([0, 2]),)
    """
    parts: list[Any] = []
    for part in key if type(key) is tuple else (key,):
        found = np.asarray(part) if isinstance(part, (list, np.ndarray)) else None
        masks = found is not None and found.ndim > 0 and found.dtype == np.bool_
        parts.extend(found.nonzero() if masks else (part,))  # type: ignore[union-attr]
    return tuple(parts)


_Lengths = dict[int, int]
"""The lengths of open axes, these counted from the last one."""


def _open_axes(node: Node) -> list[int]:
    extents = node.extents if isinstance(node, Unbound) else ()
    return [axis - len(extents) for axis, length in enumerate(extents) if length is None]


def _built(
    build: Callable[..., Node], args: Any, choices: Sequence[_Lengths]
) -> tuple[list[tuple[_Lengths, Node]], Exception]:
    """Return the nodes built for those lengths that allow it, and the last refusal."""
    found: list[tuple[_Lengths, Node]] = []
    refusal: Exception = UndeclaredError("no length was tried")
    for lengths in choices:
        try:
            node = build(*with_parts_in(args, functools.partial(_stand_in, lengths=lengths)))
        except (TypeError, ValueError, IndexError) as error:
            refusal = error
        else:
            found.append((lengths, node))
    return found, refusal


def _stand_in(node: Node, lengths: _Lengths) -> Node:
    """Return a symbol of a known shape in place of what has no data yet."""
    if not isinstance(node, Unbound):
        return node
    front = -len(node.extents)
    shape = [lengths[front + axis] if n is None else n for axis, n in enumerate(node.extents)]
    assert node.dtype is not None
    return Placeholder(tuple(shape), node.dtype, node.fields, node.names[:1])


def _without_lengths(text: Any) -> Any:
    return text.replace(str(LENGTHS[-1]), "?") if isinstance(text, str) else text


def _agreed(shapes: Sequence[Extents], names: Sequence[str]) -> Extents:
    if len(set(map(len, shapes))) != 1:
        raise UndeclaredError(
            f"the number of axes depends on a length that is unknown until {', '.join(names)} is "
            "bound; declare the length"
        )
    axes = zip(*shapes, strict=True)
    return tuple(lengths[0] if len(set(lengths)) == 1 else None for lengths in axes)


def _lengths_in(value: Any) -> Iterator[int]:
    """Return the lengths that arguments speak of: of masks, of other data, of new shapes."""
    if isinstance(value, (np.ndarray, Node)):
        yield from (n for n in value.shape or () if not is_endless(n))
    elif type(value) is int and 0 <= value < LENGTHS[-1]:
        yield value
    elif isinstance(value, list) and len(value) > FEW:
        yield len(value)
    elif isinstance(value, (tuple, list)):
        yield len(value)
        for part in value:
            yield from _lengths_in(part)


# --- binding -----------------------------------------------------------------------------------


def substituted(roots: Sequence[Node], given: Callable[[Placeholder], Node]) -> list[Node]:
    """Return the roots over the data given for symbols; what they share is shared again."""

    def bound(node: Any, old: Any) -> Any:
        if isinstance(old, Placeholder):
            return given(old)
        if node is old:
            return old
        if isinstance(node, Deferred):
            built = node.build(*node.args)
            return built.replaced(meta=node.meta) if node.meta else built
        if isinstance(node, Reduction):  # a photograph of its own for each binding
            return node.replaced(taken=None, rows=None)
        return node

    return rebuilt(roots, bound)


def symbols_of(roots: Sequence[Node]) -> dict[str, Placeholder]:
    """Return the symbols in an expression by name; one name is one declaration."""
    found: dict[str, Placeholder] = {}
    for node in below(roots, Part.held):
        if isinstance(node, Placeholder):
            first = found.setdefault(node.name, node)
            if (first.extents, first.dtype) != (node.extents, node.dtype):
                raise ValueError(
                    f"symbol {node.name!r} is declared twice: {_declared(first)} and "
                    f"{_declared(node)}; give one of them another name"
                )
    return found


def _names(node: Node) -> tuple[str, ...]:
    """Return the names of the symbols that a node waits for."""
    return node.names if isinstance(node, Unbound) else tuple(symbols_of([node]))


def check_bound(node: Node) -> None:
    """Raise unless there is data for all that a node is made of."""
    names = _names(node)
    if names:
        raise UndeclaredError(
            f"there is no data yet for symbol {', '.join(map(repr, names))}; give it with "
            f"{bind_text(names)}"
        )


def matched(symbol: Placeholder, value: Any) -> Any:
    """Return data, a node or an array, as the symbol declares it, or raise naming both."""
    if isinstance(value, Sampled) or (isinstance(value, Node) and value.dtype is None):
        raise UndeclaredError(f"symbol {symbol.name!r}: the data given is not known; _probe() it")
    if isinstance(value, Node) and value.dtype is not None and value.dtype.names:
        raise TypeError(f"symbol {symbol.name!r} takes one array, not a record; choose a field")
    shape = value.extents if isinstance(value, Unbound) else value.shape
    fits = len(shape) == len(symbol.extents) and all(
        wanted in (None, length) for wanted, length in zip(symbol.extents, shape, strict=True)
    )
    got = f"{value.dtype} {shape_text(shape)}"
    refusal = f"symbol {symbol.name!r} is declared {_declared(symbol)}; got {got}"
    if not fits:
        raise ValueError(refusal)
    dtype = symbol.dtype
    if value.dtype == dtype:
        return value
    assert dtype is not None
    try:
        if not isinstance(value, Node):
            return cast(value, dtype)
        # The values of a node are not looked at: the cast may lose digits, and nothing else.
        np.empty(0, value.dtype).astype(
            dtype, casting="same_kind" if dtype.kind in "fc" else "safe"
        )
    except (TypeError, OverflowError) as error:
        raise type(error)(f"{refusal}: {error}") from None
    return value


def _declared(symbol: Placeholder) -> str:
    return f"{symbol.dtype} {shape_text(symbol.extents)}"


def check_symbols(names: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raise if there are names that no symbol has."""
    wrong = ", ".join(repr(name) for name in names if name not in known)
    if wrong:
        has = f"its symbols are {', '.join(known)}" if known else "it has no symbols"
        raise TypeError(f"there is no symbol {wrong} in the expression; {has}")
