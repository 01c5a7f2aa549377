"""Nodes built from nodes; everything that can be checked without data is checked here.

The wings above read, write and show nodes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from dataview.errors import listed
from dataview.index import Affine, Index, axes_of, broadcast_shapes, compose, is_identity, parse
from dataview.index.keys import TOO_MANY, key_text
from dataview.index.shape_texts import shape_text
from dataview.plan.fields import (
    NO_META,
    Attached,
    Fields,
    Window,
    part_meta,
    through,
    window_index,
)
from dataview.plan.guards import check_array, no_operation, why_no_rows
from dataview.plan.kinds import (
    Comparison,
    Concat,
    Driven,
    Elementwise,
    Record,
    Sampled,
    Select,
    Stored,
    Unbound,
    known_dtype,
    known_shape,
    members,
    shape_for_rows,
    shape_of,
)
from dataview.plan.node import Argument, DType, Label, LateFields, Node, Shape
from dataview.plan.operations import CRASHING, Ufunc, as_compared
from dataview.plan.photographs import Late
from dataview.plan.symbols import Deferred, deferred, deferring, is_open, without_masks
from dataview.plan.walk import rebuilt
from dataview.sources import Source

# --- building --------------------------------------------------------------------------------


def stored(source: Source, writable: bool | None = None) -> Stored:
    """Return the node of a source, with a field for each name of a structured dtype."""
    writable = source.writable if writable is None else writable
    if not source.dtype.names:
        return Stored(source, writable)
    axes = tuple(range(len(source.shape)))
    named = {
        name: Attached(stored(source.member(name), writable), axes) for name in source.dtype.names
    }
    return Stored(source, writable, Fields(named))


def select(node: Node, index: Index, key: Any = None, fields: Fields | None = None) -> Node:
    """Return the part of a node that an index selects, with the fields that survive."""
    if isinstance(node, Sampled):
        return node.part(index)
    shape = known_shape(node)
    if fields is None and is_identity(index, shape) and not isinstance(node, Comparison):
        return node
    found = _selected(node, index, key, fields, shape)
    if node.label is not None:
        found.label = node.label.of_part(index)
    return found


def _selected(node: Node, index: Index, key: Any, fields: Fields | None, shape: Shape) -> Node:
    if isinstance(node, Driven):
        whole = select(node.node, index, key)
        own, lost = whole.fields.named, _followed(node, index, key).lost | whole.fields.lost
        if isinstance(whole, Sampled):
            return with_fields(whole, Fields(own, lost))
        return Driven(whole, Fields({node.driver: Attached(whole, None), **own}, lost), node.driver)
    known = node._fields
    if fields is not None:
        seen: Fields | LateFields = fields
    elif isinstance(node, Record) and node.dtype is None:  # a member may refuse the key
        seen = _followed(node, index, key)
    elif isinstance(known, LateFields) and known.follow is _followed:  # in one step
        seen = LateFields(known.node, compose(known.index, index), key, _followed)
    else:
        seen = LateFields(node, index, key, _followed) if node.fields.named else node.fields
    if isinstance(node, Record):
        rank = len(index.shape)
        return Record(seen, rank, node.meta, index.shape, node.dtype, node.are_columns)
    meta = node.meta
    if meta is not NO_META:
        meta = part_meta(meta, partial(_only_along, index, shape), node.dtype)
    if type(node) is Select and node.mask is None and node.has_gaps == node.node.has_gaps:
        return Select(node.node, compose(node.index, index), seen, meta)
    return Select(node, index, seen, meta)


def keyed(node: Node, key: Any) -> Node:
    """Return the part of a node for one of NumPy's keys."""
    if is_open(node):
        return deferred(keyed, node, key, like=(node, without_masks(key)))
    try:
        index = parse(key, known_shape(node))
    except IndexError as error:
        why = why_no_rows(node) or _of_one_sample(node) or _of_fields(node, key, str(error))
        raise (IndexError(f"the key {key_text(key)}: {why}") if why else error) from None
    return select(node, index, key)


def _of_one_sample(node: Node) -> str:
    """Return why fields of one sample have no rows, "" if a node is none."""
    if not isinstance(node, Record) or node.extents != () or not node.fields.named:
        return ""
    return f"the view is one sample, without rows; d[{next(iter(node.fields))!r}] is a field of it"


def _of_fields(node: Node, key: Any, error: str) -> str:
    """Return what to write for names before other parts of a key, or for columns of a record."""
    items = key if isinstance(key, tuple) else (key,)
    names = [item for item in items if isinstance(item, str)]
    if names and all(name in node.fields for name in names):
        rest = [item for item in items if not isinstance(item, str)]
        meant = f"d{key_text((*names,))}{key_text((*rest,))}"
        return f"names of fields stand behind all else in a key; write {meant}"
    if not isinstance(node, Record) or not node.rank or not error.startswith(TOO_MANY):
        return ""
    of_field = key_text((*items[: node.rank], next(iter(node.fields))))
    return (
        f"a key selects rows of a record, which has no columns but the fields "
        f"{listed([*map(repr, node.fields)])}; d{of_field} is a field of these rows"
    )


def _followed(node: Node, index: Index, key: Any) -> Fields:
    return through(node.fields, index, key, select)


@deferring
def field(node: Node, name: str) -> Node:
    """Return the node of a field that the node has, labelled by its name."""
    found = node.fields.named[name]
    names = (name,) if node.label is None else (*node.label.names, name)
    if isinstance(found, Attached):
        return labelled(found.node, names)
    if isinstance(node, Late):
        return node.part(name, field(node.like, name))
    index = window_index(found, known_shape(node))
    inside = through(found.fields, index, name, select)
    part = select(node, index, fields=inside)
    if found.meta is not part.meta:
        part = part.replaced(meta=found.meta)
    if _is_data(part):
        part.label = Label(names, part.shape)
    return part


def labelled(node: Node, names: tuple[str, ...]) -> Node:
    """Return a node of data under these names; what is computed is shown by its own formula.

    What is computed is never copied: a statistic is a photograph in one place.
    """
    label = Label(names, node.shape)
    return node.replaced(label=label) if _is_data(node) and node.label != label else node


def _is_data(node: Node) -> bool:
    while isinstance(node, Select):
        node = node.node
    return _is_sized(node) or isinstance(node, (Stored, Concat, Record, Driven))


def _is_sized(node: Node) -> bool:
    return isinstance(node, Sampled) and node.is_sized


def row_field(node: Node, name: str) -> Node | None:
    """Return a field's node if its rows are the node's rows, so that row keys pass to it."""
    try:
        return node.followed[name]
    except KeyError:
        pass
    part = node.fields.named.get(name)
    found = field(node, name) if part is not None and part.follows_rows else None
    if found is not None and not shape_for_rows(found):  # unknown until probed
        found = None
    if found is not None and getattr(found, "node", None) is node:  # each would hold the other
        if not isinstance(node, (Stored, Concat)):
            return found
        found = found.replaced(node=node.replaced())
    node.followed[name] = found
    return found


def record(named: Mapping[str, Node], rank: int | None = None) -> Record:
    """Return the record of named members; a 0-d member makes it a single sample."""
    is_inferred = rank is None
    if rank is None:
        rank = 0 if any(node.shape == () for node in named.values()) else 1
    named = {name: _of_rank(node, rank) for name, node in named.items()}
    for name, node in named.items():
        if node.shape is not None and len(node.shape) < rank:
            raise ValueError(
                f"member {name!r} of shape {node.shape} lacks the record's {rank} shared axes; "
                f"give _rank={len(node.shape)} or less"
            )
    axes = tuple(range(rank))
    fields = Fields({name: Attached(node, axes) for name, node in named.items()})
    return Record(fields, rank, is_inferred=is_inferred)


def batch_of(parts: Mapping[str, Node], like: Record, count: int) -> Record:
    """Return the record of so many rows of another's members, whose fields are made when asked for.

    It is quicker than `record`, which matters where one is made for every step.
    """
    rank = like.rank
    axes = (0,) if rank == 1 else tuple(range(rank))
    late: Any = LateFields(parts, axes, None, _attached)  # type: ignore[arg-type]
    shape = (count,) if rank == 1 else (count, *known_shape(like)[1:])
    return Record(late, rank, like.meta, shape, like.dtype)


def _attached(parts: Any, axes: Any, _: Any) -> Fields:
    return Fields({name: Attached(part, axes) for name, part in parts.items()})


def _of_rank(node: Node, rank: int) -> Node:
    """Return a record inside a record such that it shares as many axes."""
    if isinstance(node, Record) and node.rank < rank:
        return record({name: part.node for name, part in members(node).items()}, rank)
    return node


def columns(node: Node, names: Sequence[str]) -> Record:
    """Return the record of some fields; of a structured array, with all its axes."""
    dtype = node.dtype
    is_array = not isinstance(node, Record) or node.are_columns
    if node.shape is None or dtype is None or not is_array:
        return chosen(node, names)
    if not {*names} <= {*(dtype.names or ())}:
        return chosen(node, names)
    parts = {name: field(node, name) for name in names}
    for name, part in parts.items():
        own = dtype[name]
        if part.dtype != own.base or part.shape != (*node.shape, *own.shape):
            return chosen(node, names)  # other data stand in place of this column
    axes = tuple(range(len(node.shape)))
    fields = Fields({name: Attached(part, axes) for name, part in parts.items()})
    return Record(fields, len(axes), node.meta, node.shape, dtype[[*names]], are_columns=True)


def chosen(node: Node, names: Sequence[str]) -> Record:
    """Return the record of some fields; one that is named again stands again, numbered.

    Its members share their rows, unless a field is a window on the first axis itself.
    """
    parts: dict[str, Node] = {}
    for name in names:
        if name in parts:
            count = sum(other == name or other.startswith(f"{name}_") for other in parts)
            parts[f"{name}_{count + 1}"] = field(node, name)
        else:
            parts[name] = field(node, name)
    whole = node.shape
    if isinstance(node, Record):
        found = record(parts, None if node.is_inferred and parts else node.rank)
        return Record(found.fields, found.rank, node.meta, whole, is_inferred=node.is_inferred)
    rows = whole[:1] if whole else ()
    follow = rows and all(part.shape and part.shape[:1] == rows for part in parts.values())
    on_rows = any(
        isinstance(place, Window) and not place.follows_rows
        for place in (node.fields.named[name] for name in names)
    )
    rank = 1 if follow and not on_rows else 0
    return Record(record(parts, rank).fields, rank, shape=rows if rank else ())


def elementwise(ufunc: Ufunc, args: tuple[Argument, ...], build: Any = None) -> tuple[Any, ...]:
    """Return the nodes of a ufunc's results; NumPy's own errors rise here, on empty arrays.

    `build` is what builds them of rows, and of what is given later, if not this function.
    """
    operands: list[Any] = []
    shape: Shape | None = None
    alike = True
    for arg in args:
        kind = type(arg)
        if not isinstance(arg, Node):
            operands.append((kind, arg))
            continue
        if kind is Record or kind is Driven:
            check_array(arg, ufunc.__name__)
        if arg.lifts:
            lifted = arg.as_rows(args)  # type: ignore[attr-defined]
            if lifted is not None:
                return tuple(map(lifted[0].of_rows, (build or elementwise)(ufunc, lifted[1])))
        own = arg.shape
        if own is None:
            if is_open(arg):
                how = build or elementwise, ufunc
                return tuple(deferred(_output, *how, n, *args) for n in range(ufunc.nout))
            own = known_shape(arg)
        operands.append(known_dtype(arg) if arg.dtype is None else arg.dtype)
        alike = alike and (shape is None or shape == own)
        shape = own
    dtypes = _dtypes_or_error(ufunc, args, operands)
    if CRASHING and ufunc in CRASHING:
        args = tuple(map(as_compared, args, reversed(operands)))
    if not alike or shape is None:
        shape = _broadcast(ufunc, [known_shape(arg) for arg in args if isinstance(arg, Node)])
    if len(dtypes) == 1:
        return (Elementwise(ufunc, args, 0, shape, dtypes),)
    return tuple(Elementwise(ufunc, args, number, shape, dtypes) for number in range(len(dtypes)))


def _output(build: Any, ufunc: Ufunc, number: int, *args: Argument) -> Node:
    return build(ufunc, args)[number]  # type: ignore[no-any-return]


def _broadcast(ufunc: Ufunc, shapes: Sequence[Shape]) -> Shape:
    try:
        return broadcast_shapes(*shapes)
    except ValueError:
        listing = " ".join(map(shape_text, shapes))
        raise ValueError(
            f"operands of {ufunc.__name__} could not be broadcast together with shapes {listing}"
        ) from None


def check_dtypes(ufunc: np.ufunc, args: tuple[Argument, ...]) -> None:
    """Raise if a ufunc has no loop for operands of these dtypes, as far as they are known."""
    operands = [arg.dtype if isinstance(arg, Node) else (type(arg), arg) for arg in args]
    if not any(operand is None for operand in operands):  # float64 equals None
        _dtypes_or_error(ufunc, args, operands)


def _dtypes_or_error(
    ufunc: Ufunc, args: Sequence[Argument], operands: Sequence[Any]
) -> tuple[DType, ...]:
    try:
        return _result_dtypes(ufunc, *operands)
    except TypeError as error:
        for arg in args:
            if isinstance(arg, Node):
                check_array(arg, ufunc.__name__)
        if isinstance(error, np.exceptions.DTypePromotionError):
            raise
        raise no_operation(ufunc.__name__, operands) from error


@lru_cache(maxsize=1024)
def _result_dtypes(ufunc: Ufunc, *operands: Any) -> tuple[DType, ...]:
    """Return the dtypes of a ufunc's results, by asking NumPy about empty arrays.

    An operand is a dtype, or a number with its type: 1, 1.0 and True are equal, and not alike.
    """
    empties = [np.empty(0, op) if isinstance(op, np.dtype) else op[1] for op in operands]
    with np.errstate(all="ignore"):
        found = ufunc(*empties)
    results = found if isinstance(found, tuple) else (found,)
    return tuple(np.asarray(part).dtype for part in results)


@deferring
def comparison(
    left: Argument, right: Argument, negated: bool, wholes: bool = True, build: Any = None
) -> Node:
    """Return the node of `==` or `!=`; it can always be built.

    `wholes` is true if both sides are data, and false if one is a number to compare with.  `build`
    is what builds it of rows, if not this function.
    """
    for side in (left, right):
        if isinstance(side, Sampled) and (lifted := side.as_compared((left, right))) is not None:
            whole, (ours, theirs) = lifted
            return whole.of_rows((build or comparison)(ours, theirs, negated, wholes))
    if isinstance(left, Record):
        right = _as_record(right)
    elif isinstance(right, Record):
        left = _as_record(left)
    shapes = shape_of(left), shape_of(right)
    shape: Shape | None = None
    if shapes[0] is not None and shapes[1] is not None:
        with contextlib.suppress(ValueError):  # then only its truth can be asked
            shape = broadcast_shapes(shapes[0], shapes[1])
    found = Comparison((left, right), negated, shape, wholes)
    found.has_gaps = any(isinstance(side, Node) and side.has_gaps for side in (left, right))
    return found


def _as_record(side: Argument) -> Argument:
    """Return structured data as the record of its fields."""
    if not isinstance(side, Stored) or side.source.dtype.names is None:
        return side
    return Record(side.fields, len(side.source.shape))


def with_fields(node: Node, fields: Fields) -> Node:
    """Return the node under another field tree."""
    if isinstance(node, Unbound) and any(isinstance(f, Attached) for f in fields.named.values()):
        raise TypeError("a symbol has windows as fields, and none with data of its own")
    if isinstance(node, Deferred):
        return deferred(with_fields, node, fields)
    if isinstance(node, Record):
        record = Record(fields, node.rank, node.meta, is_inferred=node.is_inferred)
        record.label = node.label
        return record
    return node.replaced(fields=fields)


def read_only(node: Node) -> Node:
    """Return the same node such that nothing can be written through it.

    What is computed stays as it is, since a statistic is a photograph in one place.
    """

    def into(part: Node) -> list[Any]:
        passes = isinstance(part, (Select, Driven, Concat)) or _is_sized(part)
        return part.held() if passes else part.attached()

    def protected(part: Node, old: Node) -> Node:
        writable = isinstance(part, Stored) and part.writable
        return part.replaced(writable=False) if writable else part

    return rebuilt([node], protected, into)[0]  # type: ignore[no-any-return]


# --- asking ----------------------------------------------------------------------------------


def at_path(node: Node, path: Sequence[str]) -> Node:
    """Return the field that a path of names leads to, the node itself for an empty one."""
    for name in path:
        node = field(node, name)
    return node


def found_of(node: Late) -> Node:
    """Return the data that a node of late length stands for; what they depend on is taken now."""
    return at_path(node.build(*node.args), node.path)


def _only_along(index: Index, shape: Shape, axis: int) -> bool:
    """Whether an index leaves every axis but one as it is, and all of them in their order."""
    last = -1
    for number, (map_, length) in enumerate(zip(index.maps, shape, strict=True)):
        if number == axis:
            last = max(axes_of(map_), default=last)
            continue
        if not isinstance(map_, Affine) or map_.offset or len(map_.strides) != 1:
            return False
        own, stride = map_.strides[0]
        if stride != 1 or index.shape[own] != length or own <= last:
            return False
        last = own
    return True
