"""What a write changes: parts of sources, each with the value that goes there.

Everything that can be known without reading is checked here: shapes, dtypes, casts, read-only data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import Cut, evaluate, reduction, without_mask
from dataview.errors import FieldError, ReadOnlyError
from dataview.index import (
    Index,
    identity,
    is_endless,
    parse,
)
from dataview.plan.build import elementwise, field, select
from dataview.plan.gaps import known_in, masks_in, present_in
from dataview.plan.guards import endless, is_broadcast_to
from dataview.plan.joined_rows import joined_rows_of
from dataview.plan.kinds import (
    Comparison,
    Concat,
    Driven,
    Elementwise,
    Record,
    Reduction,
    Sampled,
    Select,
    Stored,
    Unbound,
    known_dtype,
    known_shape,
    members,
)
from dataview.plan.node import DType, Node
from dataview.plan.operations import is_present
from dataview.plan.places import Place
from dataview.plan.values import cast, is_scalar, listed
from dataview.plan.walk import below
from dataview.sources import Source
from dataview.write.ragged_rows import check_row
from dataview.write.targets import is_of_source, targets_of


class Change(NamedTuple):
    """A value, and the part of one source that it is written to.

    `target` is a source's node or an index of one.  The value is an array, or a node that is
    computed when it is written.  `is_checked` says that a cast must not lose digits, as in an
    assignment; NumPy's `out=` lets it.
    """

    target: Node
    value: Any
    is_checked: bool = True

    @property
    def source(self) -> Source:
        """The source that is changed."""
        stored: Any = self.target.node if isinstance(self.target, Select) else self.target
        return stored.source  # type: ignore[no-any-return]

    @property
    def where(self) -> Index:
        """The index of what is changed in the source."""
        if isinstance(self.target, Select):
            return self.target.index
        return identity(self.source.shape)

    @property
    def place(self) -> Place:
        """What is changed."""
        return Place(self.source, self.where)


class Block(NamedTuple):
    """A part of a change, by its number: some positions of one axis, or all if there is no cut."""

    number: int
    cut: Cut | None

    def of(self, changes: Sequence[Change]) -> Change:
        """Return the part of a change that the block is."""
        change, index = changes[self.number], self.within(changes)
        if index is None:
            return change
        return change._replace(target=select(change.target, index))

    def within(self, changes: Sequence[Change]) -> Index | None:
        """Return the index of the block in its change, None if it is all of it."""
        shape = known_shape(changes[self.number].target)
        return None if self.cut is None else self.cut.within(shape)


def changes_of(node: Node, value: Any, is_checked: bool = True) -> list[Change]:
    """Return what a write of a value through a node changes, or raise before anything is read."""
    found: list[Change] = []
    waiting = [(node, value, node.has_gaps)]
    while waiting:
        part, given, has_mask = waiting.pop()
        if isinstance(part, Sampled):
            part, (given,) = part.writable((given,))
        if not isinstance(part, Record):
            check_writable(part)
            if not has_mask and _lacks(given):
                given = without_mask(given, known_dtype(part), _NO_MASK)
        if isinstance(part, Record) or (isinstance(given, Mapping) and part.fields.named):
            values = _parts_of(given, tuple(part.fields), _as_columns(part))
            told = masks_in(part.fields, by_name=True) if any(map(_lacks, values.values())) else {}
            fields = [(field(part, name), values[name], name in told) for name in part.fields]
            waiting.extend(reversed(fields))
        else:
            check_row(part, given)
            fitting = _as_fitting(given, part) if is_checked else given
            found.extend(_split(part, given, fitting, is_checked))
    return found


def _as_columns(node: Node) -> DType | None:
    """Return the dtype of the array that a record's fields are columns of, if they are."""
    return node.dtype if isinstance(node, Record) and node.are_columns else None


def _parts_of(value: Any, names: tuple[str, ...], columns: DType | None) -> Mapping[str, Any]:
    """Return the new values of a record's fields by name, from any form that a user can give."""
    if columns is not None and isinstance(value, list):
        value = np.asarray(value, columns)
    if isinstance(value, Record):
        given: Mapping[str, Any] = {name: part.node for name, part in members(value).items()}
    elif isinstance(value, Mapping):
        given = value
    elif isinstance(value, (np.ndarray, np.void)) and value.dtype.names:
        given = {name: value[name] for name in value.dtype.names}
    elif isinstance(value, tuple):
        if len(value) != len(names):
            raise ValueError(
                f"a record of {len(names)} fields ({', '.join(names)}) takes a tuple of as many "
                f"values; got {len(value)}"
            )
        given = dict(zip(names, value, strict=True))
    elif columns is not None:
        given = dict.fromkeys(names, value)
    elif isinstance(value, Sampled):
        raise TypeError(
            "the fields of a record are written from samples that have been read, and these come "
            "one by one; samples[:n]._freeze() reads the first n of them"
        )
    else:
        raise TypeError(
            "a record is written from a mapping, a tuple in field order, a structured array or a "
            f"view with the same fields ({', '.join(names)}); got {type(value).__name__}"
        )
    if set(given) != set(names):
        raise FieldError(
            f"the record has the fields {', '.join(names)}; the value has {', '.join(given)}; "
            "one field is written by d.x[rows] = value"
        )
    return given


# --- what can be written ---------------------------------------------------------------------


def check_writable(node: Node) -> None:
    """Raise unless every part of the node leads to a source that can be written."""
    refusal = _refusal(node)
    if refusal:
        raise ReadOnlyError(refusal)


def _refusal(node: Node) -> str:
    """Return why a node cannot be written, an empty text if it can."""
    one: Any = node
    parts = [one.node] if is_of_source(node) else below([node], _shown)
    refusal = next(filter(None, map(_refusal_of_part, parts)), "")
    if not refusal:
        for part in parts:
            if isinstance(part, Concat):
                joined_rows_of(part).are_writable = True  # to ask many again would take long
    return refusal


def _shown(node: Node) -> list[Any]:
    """Return the nodes whose data a node shows at other places, as far as these are to be asked."""
    is_known = isinstance(node, Concat) and joined_rows_of(node).are_writable
    return node.made_of() if isinstance(node, (Select, Driven, Concat)) and not is_known else []


def _refusal_of_part(node: Node) -> str:
    if isinstance(node, Stored):
        if node.writable:
            return ""
        is_file = getattr(node.source, "file", None) is not None and not node.source.writable
        advice = "dv.open(path, 'r+') lets it be written" if is_file else node.source.advice
        return f"the data ({node.source.describe()}) is read-only; {advice or _COPY}"
    if isinstance(node, (Select, Driven, Concat)):
        return ""  # what it shows is asked
    if isinstance(node, Unbound):
        return f"symbol {', '.join(node.names)} holds no data that could be written"
    return (
        f"{_result_name(node)} is computed, so it cannot be written; write to what it is "
        f"computed from; {_COPY}"
    )


_COPY = "d._copy() is a copy in memory that can be written"


def _result_name(node: Node) -> str:
    """Return the step that computes a node, as a user has called it."""
    step = getattr(node, "step", None)
    if isinstance(node, Sampled) and step is None:
        return "each sample"
    if isinstance(node, Elementwise):
        name = node.ufunc.__name__
        return f"the result of {_OF_VERBS.get(name, f'np.{name}')}"
    if isinstance(node, Comparison):
        return f"the result of np.{'not_equal' if node.negated else 'equal'}"
    if isinstance(node, Reduction):
        return f"the result of _{node.kind}"
    return f"the result of _{step.title if step is not None else type(node).__name__.lower()}"


_OF_VERBS = {"astype": "_astype", "_codes": "_codes"}
"""The verbs that compute element by element."""


# --- what fits -------------------------------------------------------------------------------


def _as_fitting(value: Any, target: Node) -> Any:
    """Return the value such that it fits into the target's shape and dtype, or raise."""
    shape, dtype = known_shape(target), known_dtype(target)
    if any(map(is_endless, shape)):
        raise endless("writing all of it")
    if isinstance(value, Node) and _is_plain(value) and not dtype.hasobject:
        cast(np.empty(0, known_dtype(value)), dtype)
        while len(known_shape(value)) > len(shape) and known_shape(value)[0] == 1:
            value = select(value, parse(0, known_shape(value)), 0)
        _check_shape(known_shape(value), shape)
        return value
    data = evaluate(value)[()] if isinstance(value, Node) else value
    if dtype.kind == "O" and not shape:
        array = np.empty((), object)
        array[()] = data
        return array
    array = cast(data, dtype)
    if dtype.kind == "O" and array.ndim > len(shape) and not isinstance(data, np.ndarray):
        array = np.empty(shape, object)
        array[...] = listed(data)  # NumPy leaves lists in it, so that the axes are enough
    while array.ndim > len(shape) and len(array) == 1:
        array = array[0]
    _check_shape(array.shape, shape)
    return array


def _is_plain(node: Node) -> bool:
    """Whether shape and dtype of a node are known, and parts of it can be computed."""
    known = node.shape is not None and node.dtype is not None
    return known and not isinstance(node, (Record, Sampled, Unbound))


def _check_shape(given: tuple[int, ...], shape: tuple[int, ...]) -> None:
    if not is_broadcast_to(given, shape):
        raise ValueError(
            f"a value of shape {given} cannot be broadcast to the view's shape {shape}"
        )


def _lacks(value: Any) -> bool:
    return isinstance(value, Node) and value.has_gaps


_NO_MASK = "write value._fillna(0), or let d.x = value put the column and its mask into the record"


def changes_of_mask(node: Node, value: Any) -> list[Change]:
    """Return what a write changes of the mask of a column: where it writes there are data then.

    A value that has gaps brings them with it, and among objects None is one.
    """
    present = None if isinstance(node, (Record, Sampled)) else present_in(node)
    if present is None:
        return []
    given = _present_of(value, known_dtype(node))
    if given is present:
        return []
    if not _refusal(present):
        return changes_of(present, given)
    (differs,) = elementwise(np.not_equal, (present, given))
    if not evaluate(reduction("any", differs, None, False, {})):
        return []
    raise ReadOnlyError(
        "some of these elements are missing, as the mask of the column says, and it cannot be "
        "written: they would stay missing; d.x = d.x._fillna(0) is a column without gaps"
    )


def _present_of(value: Any, dtype: DType) -> Any:
    """Return where a value has data: a node, truth values, or True if it has them everywhere."""
    may_be_none = dtype is not None and dtype.kind == "O"
    if isinstance(value, Node):
        found = known_in(value) if may_be_none else present_in(value)
        return True if found is None else found
    return is_present(np.asarray(value, object)) if may_be_none else True


# --- which sources ---------------------------------------------------------------------------


def places_written(node: Node) -> Iterator[Place]:
    """Yield the places that a write through a node changes, none if it cannot be written."""
    if not _refusal(node):
        for target, _ in targets_of(node, None):
            yield Change(target, None).place


def _split(node: Node, given: Any, value: Any, is_checked: bool) -> Iterator[Change]:
    """Yield the parts of sources that a node shows, each with its part of the value."""
    for target, part in targets_of(node, value):
        yield Change(target, _narrow(given, part, known_dtype(target), is_checked), is_checked)


def _narrow(given: Any, value: Any, dtype: np.dtype[Any], is_checked: bool) -> Any:
    """Return a value in the dtype of a source, which may be narrower than that of the whole."""
    if not isinstance(value, np.ndarray) or value.dtype == dtype or not is_checked:
        return value
    return cast(given if is_scalar(given) else value, dtype)
