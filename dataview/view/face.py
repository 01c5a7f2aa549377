"""The state of a view: a node, which of its rows, and the view that it is a part of."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Never, TypeAlias, TypeVar, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from dataview import exchange, samples, spaces, tables
from dataview.compute import evaluate, read_as_rows_of
from dataview.errors import RaggedError
from dataview.exchange import check_gradient, in_parts, is_bunch, is_foreign, with_categories
from dataview.index import (
    ENDLESS,
    Index,
    Rows,
    numbers_at,
    plain_index,
    row_key,
    rows_at,
    rows_index,
    rows_then,
)
from dataview.plan.build import elementwise, field, found_of, select
from dataview.plan.gaps import (
    LABELS,
    holds_codes,
    is_untold,
    may_have_codes,
    presence,
    warn_of_gaps,
)
from dataview.plan.guards import check_array
from dataview.plan.kinds import Record, Sampled, known_shape, shape_for_rows
from dataview.plan.node import DType, Node
from dataview.plan.operations import NumpyFunction
from dataview.plan.photographs import Late
from dataview.plan.ragged import WAYS_OUT, Ragged
from dataview.plan.values import is_raw, whole_texts
from dataview.show import title
from dataview.view.arguments import told
from dataview.write import (
    ITSELF,
    Built,
    apply_to_rows,
    clock,
    leaves_of_memory,
    write,
    write_rows,
    write_rows_of,
)

State: TypeAlias = "tuple[Node, Rows | None, BaseView | None, Any, int]"


class BaseView(NDArrayOperatorsMixin):
    """The class of all views: this room holds their state, the other rooms of the wing add verbs.

    `_state` is (node, rows, parent, key, built): the view is those rows of the node, and there were
    `built` writes when it was built.  A slice of a view shares the node; its own node is made when
    it is first needed.  A field that was used once is in `__dict__`, where Python finds it without
    calling a function.
    """

    __slots__ = ("__dict__", "__weakref__", "_state")

    _state: State

    def __call__(self, *given: Never, out: Any = None, copy: bool | None = None) -> Any:
        """Return the data."""
        raise NotImplementedError


_Kind = TypeVar("_Kind", bound=type[BaseView])
_new: Any = object.__new__  # to mypy the class is abstract until it has its verbs
put_state: Any = BaseView.__dict__["_state"].__set__

import_hooks: dict[str, Callable[[Any], None]] = {}
"""By the name of a library, a function that gets the class of views once that is imported."""

_imported = sys.modules.keys()


def merge_groups(kind: _Kind) -> _Kind:
    """Move the verbs of a class and of its groups into the class of all views.

    The groups divide the source; users, `help` and error messages see one class.
    """
    own = {"__module__", "__doc__", "__slots__", "__parameters__", "__orig_bases__"}
    seen: set[str] = set()
    for group in reversed(kind.__mro__[: kind.__mro__.index(BaseView)]):
        if twice := seen & (vars(group).keys() - own):
            raise TypeError(f"two groups of verbs have {', '.join(sorted(twice))}")
        seen |= vars(group).keys()
        room = sys.modules[group.__module__]  # where pickle looks up verbs
        setattr(room, kind.__name__, BaseView)
        for name, verb in vars(group).items():
            if hasattr(verb, "__get__"):
                is_verb = name.startswith("_") and name[1] != "_" and callable(verb)
                setattr(BaseView, name, told(verb) if is_verb else verb)
                function: Any = verb.fget if isinstance(verb, property) else getattr(BaseView, name)
                function.__qualname__ = f"{kind.__name__}.{name}"
    BaseView.__name__ = BaseView.__qualname__ = kind.__name__
    BaseView.__doc__, BaseView.__module__ = kind.__doc__, __name__.partition(".")[0]
    return cast(_Kind, BaseView)


def view_of_rows(node: Node, rows: Rows | None, parent: BaseView | None, key: Any) -> Any:
    """Return the view of some rows of a node."""
    view = _new(BaseView)
    put_state(view, (node, rows, parent, key, clock[0]))
    return view


def set_node(
    view: BaseView,
    node: Node,
    parent: BaseView | None = None,
    key: Any = None,
    built: int | None = None,
) -> None:
    """Make an existing view the view of a whole node."""
    if not _imported.isdisjoint(import_hooks):
        _run_import_hooks()
    shape = node.shape if node.shape is not None else shape_for_rows(node)
    rows = range(shape[0]) if shape and shape[0] < ENDLESS else None
    put_state(view, (node, rows, parent, key, clock[0] if built is None else built))


def _run_import_hooks() -> None:
    for library in tuple(import_hooks):
        if sys.modules.get(library) is not None:  # None blocks an import
            hook = import_hooks.pop(library, None)  # only one of several threads gets it
            if hook is not None:
                hook(BaseView)


def viewed(node: Node, key: Any = None) -> Any:
    """Return the view of a node; a `key` means that it is a part of another view."""
    view = _new(BaseView)
    set_node(view, node, None, key)
    return view


def viewed_with(node: Node, parts: Mapping[str, Node]) -> Any:
    """Return the view of a node, with the views of its fields made already."""
    view = viewed(node)
    if parts:
        rows, fields = view._state[1], view.__dict__
        for name, part in parts.items():  # they have the rows of the whole
            fields[name] = field = _new(BaseView)
            put_state(field, (part, rows, None, None, clock[0]))
    return view


_SEEN = object()


def seen(part: BaseView) -> Any:
    """Return a part of a view whose display reads its rows, and shows them."""
    node, rows, parent, _, count = part._state
    put_state(part, (node, rows, parent, _SEEN, count))
    return part


def is_seen(view: BaseView) -> bool:
    """Whether the display of a view reads its rows."""
    return view._state[3] is _SEEN


spaces.register_views(
    spaces.Views(BaseView, lambda view: node_of(view), viewed, lambda view: asked(view))
)

_Some = TypeVar("_Some", bound=BaseView)


def on_its_own(part: _Some) -> _Some:
    """Return a part that a verb has made as a view of its own: its fields can be re-pointed."""
    node, rows, _, _, count = part._state
    put_state(part, (node, rows, None, None, count))
    return part


def like(view: _Some, node: Node) -> _Some:
    """Return the view of a node, of the class of another view."""
    return cast(_Some, viewed(node))


def node_of(view: BaseView) -> Node:
    """Return the node of a view; that of a slice is made when it is first needed."""
    node, seen, parent, key, built = view._state
    if seen is None:
        if type(node) is Late:
            node = found_of(node)
            set_node(view, node, parent, key, built)
        return node
    shape = node.shape or shape_for_rows(node) or known_shape(node)
    if type(seen) is range and seen == range(shape[0]):
        return node
    part = select(node, rows_index(shape, seen), row_key(seen))
    read_as_rows_of(part, node, seen)
    set_node(view, part, parent, key, built)
    return part


def asked(view: BaseView) -> Node:
    """Return the node of a view for its dtype and fields alone: a length may still be unknown."""
    node = view._state[0]
    return node if type(node) is Late and not node.is_found else node_of(view)


def index_of(node: Node, rows: Rows | None, key: Any) -> Index | None:
    """Return the index of a basic key on rows of a node; None for other keys."""
    shape = node.shape
    if not shape or isinstance(node, Sampled):
        return None
    if type(rows) is int:
        return plain_index((rows, *key) if type(key) is tuple else (rows, key), shape)
    if rows is None or (type(rows) is range and rows == range(shape[0])):
        return plain_index(key, shape)
    within = plain_index(key, (len(rows), *shape[1:]))  # type: ignore[arg-type]
    return None if within is None else rows_then(rows, within)  # type: ignore[arg-type]


def built(value: Any) -> Built | None:
    """Return when a view was built; None for what is no view."""
    if not isinstance(value, BaseView):
        return None
    _, _, _, key, count = value._state
    return Built(count, key is not None)


def _to_write(view: BaseView, value: Any) -> tuple[Node, Any]:
    """Return the node of a view and a value as it is written there: its codes and lengths known."""
    node = node_of(view)
    found = in_codes(node, value)
    if isinstance(found, dict):
        return node, {name: _with_lengths(part) for name, part in found.items()}
    return node, _with_lengths(found)


def in_codes(node: Node, value: Any) -> Any:
    """Return what is written to a node, its views as nodes, such that it has the node's codes."""
    given = given_to(node, value)
    return tables.as_codes(node, with_categories(node, given) if may_have_codes(node) else given)


def _with_lengths(value: Any) -> Any:
    return samples.with_lengths(value) if isinstance(value, Node) else value


def as_written(part: BaseView, key: Any, value: Any) -> tuple[Node, Any, Built | None]:
    """Return what a key chose, the value that is written there, and when that was built.

    A key with an ellipsis chooses an array, as in NumPy: an object there is the element of an array
    without axes, where one without is that array itself.
    """
    node, given = _to_write(part, value)
    keys = key if type(key) is tuple else (key,)
    if node.dtype == object and not node.shape and any(one is Ellipsis for one in keys):
        is_element = isinstance(given, np.ndarray) and not given.ndim
        given = given.astype(object)[()] if is_element else given
    return node, given, built(value)


def is_written_at_once(view: BaseView, key: Any, value: Any) -> bool:
    """Whether a value was written to rows of memory already, with no view made of them."""
    node, rows, _, _, _ = view._state
    if key is ...:
        key = slice(None)
    elif isinstance(key, BaseView):
        key = _row_key_in(node_of(key))
    found = rows_at(rows, key) if isinstance(rows, range | np.ndarray) else None
    if found is not None:
        return _is_written(node, row_key(found), value)
    basic = _basic_key(node, rows, key) if type(rows) is range else None
    return basic is not None and _is_written(node, basic, value)


def _row_key_in(node: Node) -> Any:
    """Return the numbers or truths of rows that a view has in memory, None if it has others.

    Of functions and files they are read once, by whatever writes there.
    """
    is_line = node.shape is not None and len(node.shape) == 1
    if not is_line or node.dtype not in (np.bool_, np.intp) or not leaves_of_memory(node):
        return None
    return evaluate(node)


def write_all(view: BaseView, value: Any) -> None:
    """Write a value to all of a view."""
    node, rows, _, _, _ = view._state
    if rows is None or not _is_written(node, row_key(rows), value):
        write(*_to_write(view, value), built(value))


def write_part(part: BaseView, key: Any, value: Any) -> None:
    """Write a value to the part of a view that a key chose: of a field, perhaps at once."""
    node, rows, _, _, _ = part._state
    ends_in_name = type(key) is tuple and key and isinstance(key[-1], str)
    if not ends_in_name or rows is None or not _is_written(node, row_key(rows), value):
        write(*as_written(part, key, value))


def _is_written(node: Node, key: Any, value: Any) -> bool:
    """Whether a value was written at once to what a key selects of memory."""
    if not isinstance(value, BaseView):
        return write_rows(node, key, _in_code(node, value))
    other, seen, _, own_key, count = value._state
    other = node_of(value) if seen is None else other  # it may be late
    where = None if seen is None else row_key(seen)
    return write_rows_of(node, key, other, where, Built(count, own_key is not None))


def _in_code(node: Node, value: Any) -> Any:
    """Return the code of a label, if it is known at once, and any other value as it is."""
    return tables.code_at_once(node, value) if LABELS in node.meta else value


def _basic_key(node: Node, rows: range, key: Any) -> tuple[Any, ...] | None:
    """Return the key on a node for one on rows of it, None for one that NumPy has to judge.

    It is of integers and slices, or of slices and the numbers of columns along one axis.
    """
    if type(key) is not tuple or not key or not node.shape or len(key) > len(node.shape):
        return None
    found: list[Any] = []
    for item, length in zip(key, (len(rows), *node.shape[1:]), strict=False):
        kind = type(item)
        if (kind is int and -length <= item < length) or kind is slice:
            found.append(item)
        elif kind in _MANY and found and (numbers := numbers_at(item, length)) is not None:
            found.append(numbers)
        else:
            return None
    kinds = [type(item) for item in found if type(item) is not slice]
    if np.ndarray in kinds and len(kinds) > 1:
        return None
    return (row_key(rows_at(rows, found[0])), *found[1:])


_MANY = frozenset((list, np.ndarray))
"""The classes of keys that may be the numbers of several columns."""


def is_applied_at_once(view: BaseView, ufunc: np.ufunc, inputs: tuple[Any, ...]) -> bool:
    """Whether the result of a function was written to rows of memory already."""
    node, rows, _, _, _ = view._state
    if rows is None:
        return False
    return apply_to_rows(node, row_key(rows), ufunc, [_operand(one, view) for one in inputs])


def _operand(value: Any, target: BaseView) -> Any:
    if value is target:
        return ITSELF
    return node_of(value) if isinstance(value, BaseView) else value


_PLAIN = frozenset({np.ndarray, bool, int, float, complex, str, list, type(None)})
"""The most usual classes of values that have no views in them."""


def unwrapped(value: Any) -> Any:
    """Return a value with the nodes of the views in it, and of arrays that are not in memory."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, BaseView):
        return node_of(value)
    if isinstance(value, Mapping) and not is_foreign(value):
        parts = {name: unwrapped(part) for name, part in value.items()}
        return type(value)(**parts) if is_bunch(type(value)) else parts
    if type(value) is tuple and any(isinstance(part, BaseView) for part in value):
        return tuple(map(unwrapped, value))
    check_gradient(value)
    return in_parts(value)


def given_to(node: Node, value: Any) -> Any:
    """Return a value that is written to a node, with the nodes of the views in it.

    A list of views is one of rows, as in `View`: as numbers, codes would lose their labels.  So is
    a tuple, unless it has the fields of a record.
    """
    if type(value) is list or (type(value) is tuple and not isinstance(node, Record)):
        kinds = set(map(type, value)) if node.dtype != object else set()
        if kinds == {BaseView}:
            return node_from(list(value))
        if BaseView in kinds and holds_codes(node):
            names = [kind.__name__ for kind in kinds - {BaseView}]
            raise TypeError(
                f"a list of views and other values ({', '.join(sorted(names))}) is not "
                "written to codes, whose labels the views may number otherwise; d.x[row] = value "
                "writes one by one"
            )
        return value
    if type(value) is tuple and len(value) == len(node.fields):
        parts = [field(node, name) for name in node.fields]
        return tuple(map(given_to, parts, value))
    if isinstance(value, Mapping) and not is_foreign(value):
        own = {name: field(node, name) for name in value if name in node.fields}
        return {name: given_to(own.get(name, node), part) for name, part in value.items()}
    return unwrapped(value)


def keys_by(view: Any, by: Any) -> list[Node]:
    """Return what rows are compared by: fields or other data, one or several, or the rows."""
    if by is None:
        return [node_of(view)]
    return [key.node for key in tables.given_keys(asked(view), by, partial(part_named, view))]


def part_named(view: Any, part: Any) -> Node:
    """Return the node of a field by its name, or of other data."""
    return node_of(view._field(part)) if isinstance(part, str) else node_from(part)


def data_of(value: Any) -> Any:
    """Return what a view is made of, with the nodes of the views in it, in a list of them, too."""
    if type(value) is list and value and isinstance(value[0], BaseView):
        return [unwrapped(part) for part in value]
    return unwrapped(value)


def node_from(value: Any) -> Node:
    """Return the node of a view, or of a user's data."""
    return exchange.data_node(data_of(value))


def sample_from(value: Any) -> Node:
    """Return the node of a view, or of a sample that a user's function returns."""
    return exchange.sample_node(unwrapped(value))


def argument(value: Any) -> Any:
    """Return a value as an operand of an expression."""
    return node_of(value) if isinstance(value, BaseView) else exchange.argument_of(value)


def with_whole_texts(*values: Any) -> tuple[Any, ...]:
    """Return values that meet, texts and bytes among them exactly if other values are exact, too.

    Data of NumPy's dtypes S and U have no zeros at their ends, so there what is given has none.
    Raw bytes of a fixed length, which NumPy compares with their like alone, are objects beside what
    is no array.
    """
    kinds = [*map(_exactness, values)]
    exact = [dtype for dtype, is_exact in kinds if is_exact]
    if not exact:
        return values
    found = [whole_texts(value, exact[0]) for value in values]
    given = [one for one, (own, _) in zip(found, kinds, strict=True) if own is None]
    for place, (own, _) in enumerate(kinds):
        if own is not None and is_raw(own) and any(_exactness(one)[0] != own for one in given):
            found[place] = viewed(elementwise(_AS_OBJECTS, (node_from(found[place]),))[0])
    return tuple(found)


_AS_OBJECTS = NumpyFunction("astype", (("dtype", np.dtype(object)), ("casting", "unsafe")))


def _exactness(value: Any) -> tuple[DType | None, bool]:
    """Return the dtype of data, and whether they keep zeros at the ends of texts, or may do so."""
    own, has_codes = getattr(value, "dtype", None), False
    if isinstance(value, BaseView):
        node = asked(value)
        own, has_codes = node.dtype or np.dtype(object), holds_codes(node)
    if not isinstance(own, np.dtype):
        return None, False
    return own, has_codes or own.kind in "OT" or is_raw(own)


def evaluated(value: Any) -> Any:
    """Return the data of a view, and any other value as it is.

    Data without axes are an array all the same: of an object that is a list, and of a short text in
    a wide dtype, NumPy could not tell what it was an element of.
    """
    if isinstance(value, BaseView):
        rows = value._state[1]
        if (rows is None or isinstance(rows, int)) and (node := node_of(value)).shape == ():
            return evaluate(node)
        return value()
    check_gradient(value)
    return value


def handed_over(view: BaseView, found: np.ndarray, dtype: Any, copy: bool | None) -> np.ndarray:
    """Return the data of a view in the dtype that NumPy asks for, which knows no gaps."""
    warn_if_untold(view, found, "an array")
    if dtype is None or found.dtype == dtype:
        return found
    if copy is False:
        raise ValueError(f"the data is {found.dtype}: to have it as {dtype} it must be copied")
    node = node_of(view)
    try:
        return found.astype(dtype)
    except (TypeError, ValueError) as error:
        check_array(node, f"an array of {np.dtype(dtype)}")
        if isinstance(node, Ragged):
            what = f"ragged rows are no array of {np.dtype(dtype)}"
            raise RaggedError(f"{what}; {WAYS_OUT}") from error
        raise


def warn_if_untold(view: BaseView, found: Any, taker: str) -> None:
    """Warn if data are handed over in which other values stand where some are missing."""
    whole = view._state[0]
    if not whole.has_gaps and not isinstance(whole, Ragged):  # as nearly all data
        return
    node = node_of(view)
    present = presence(node)
    if present is not None and is_untold(np.asarray(found), np.asarray(evaluate(present))):
        warn_of_gaps(taker, title(node))


def names_in(names: Sequence[Any]) -> tuple[str, ...]:
    """Return names that are given one by one, or as one list.

    >>> names_in(("x", "y")), names_in((["x", "y"],))
    (('x', 'y'), ('x', 'y'))
    """
    one = names[0] if len(names) == 1 else names
    found = tuple(one if isinstance(one, (list, tuple)) else names)
    for name in found:
        if not isinstance(name, str):
            got = "a view" if isinstance(name, BaseView) else repr(name)
            raise TypeError(f"fields are named by texts; got {got}; d[rows] selects rows")
    return found
