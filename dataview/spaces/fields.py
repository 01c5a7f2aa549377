"""The space of a field: declared, as plain data in its metadata, or inferred from its shape.

The rows of a field stand first.  Each row is one sample of the space: its axes in the order of the
space, or all of them flat in that order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dataview.index.shape_texts import shape_text
from dataview.plan.concat import shared_meta
from dataview.plan.fields import COMPUTED, PART, SAMPLE_AXES, read_only_meta
from dataview.plan.gaps import LABELS
from dataview.plan.kinds import Record, Sampled, members
from dataview.plan.node import Node
from dataview.plan.walk import below
from dataview.spaces import batch as batches
from dataview.spaces.arrays import ArraySpace
from dataview.spaces.base import IS_BATCH, SPACE, Space, dtype_text, plain
from dataview.spaces.batch import Extents, is_in_memory
from dataview.spaces.composite import CompositeSpace
from dataview.spaces.images import Conv2DSpace, Conv3DSpace, ConvSpace
from dataview.spaces.indexes import IndexSpace, LabelSpace
from dataview.spaces.sequences import OneSequence, SequenceSpace
from dataview.spaces.vector import VectorSpace, densely
from dataview.tables import labels_in_common

# --- plain data --------------------------------------------------------------------------------


def from_plain(told: Mapping[str, Any]) -> Space:
    """Return the space that plain data tell of."""
    try:
        facts = {k: _told(value) for k, value in told.items() if k not in ("kind", IS_BATCH)}
        kind = Space.kinds[told["kind"]]
        if issubclass(kind, LabelSpace):
            facts.setdefault("max_labels", None)
        return kind(**facts)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ValueError(
            f"the metadata {SPACE!r} tell of no space that this version knows: {dict(told)}; "
            "declare it: dv.View(..., _spaces={name: ...})"
        ) from error


def _told(value: Any) -> Any:
    if isinstance(value, Mapping):
        return from_plain(value)
    return tuple(map(_told, value)) if isinstance(value, (list, tuple)) else value


def is_declared(meta: Mapping[str, Any]) -> bool:
    """Whether metadata hold a space, of this version or another; others use the name, too."""
    told = meta.get(SPACE)
    kind = told.get("kind") if told is not None and isinstance(told, Mapping) else None
    return isinstance(kind, str) and kind.endswith("Space")


def is_batch(meta: Mapping[str, Any]) -> bool:
    """Whether metadata hold the space of a batch whose samples are no rows."""
    return is_declared(meta) and bool(meta[SPACE].get(IS_BATCH))


def declared(meta: Mapping[str, Any]) -> Space | None:
    """Return the space that metadata hold, None if there is none."""
    return from_plain(meta[SPACE]) if is_declared(meta) else None


def readable_space(meta: Mapping[str, Any]) -> Space | None:
    """Return the space that metadata hold, None if there is none, or none of this version."""
    try:
        return declared(meta)
    except ValueError:  # what only looks at a field does not need it
        return None


def readable_space_of_rows(meta: Mapping[str, Any]) -> Space | None:
    """Return the same, None if the samples are no rows."""
    return None if is_batch(meta) else readable_space(meta)


def _computed(told: Any, dtype: np.dtype[Any], is_cast: bool) -> Any:
    """Return the space, as plain data, of what is computed of each number of a field.

    Its rows still lie as they did, but numbers computed of labels are labels no more.
    """
    if _is_part(told):
        return told
    if not is_declared({SPACE: told}) or not batches.is_number(dtype):
        return None
    kind = Space.kinds.get(told["kind"], Space)
    if kind is SequenceSpace:
        step = _computed(told.get("space"), dtype, is_cast)
        return None if step is None else {**told, "space": step}
    if issubclass(kind, LabelSpace):
        is_same = is_cast and dtype.kind in "iu"
        if not is_same or (told.get("max_labels") or 0) - 1 > np.iinfo(dtype).max:
            return None
    return {**told, "dtype": dtype_text(dtype)} if "dtype" in told else told


COMPUTED[SPACE] = _computed


def _sample_axis(told: Any) -> int | None:
    """Return along which axis the samples of a batch stand, None if they are rows."""
    if _is_part(told):
        return -1  # along none
    space = readable_space({SPACE: told}) if is_batch({SPACE: told}) else None
    return None if space is None else space.get_batch_axis()


def _is_part(told: Any) -> bool:
    return isinstance(told, Mapping) and told == PART


SAMPLE_AXES[SPACE] = _sample_axis

# --- what fits ---------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def rows_as(space: Space, row: Extents) -> Extents | None:
    """Return the shape in which a row is one sample of a space, None if it is none.

    A row has the axes of the space but "b", in its order, those of length 1 or not; or all of them
    flat in that order.  A vector may have any axes, and a sequence any length.
    """
    space = of_sequences(space, row)
    if isinstance(space, SequenceSpace):
        step = rows_as(space.space, row[1:]) if row else None
        return None if step is None else (row[0], *step)
    if not isinstance(space, ArraySpace) or None in row:
        return None
    wanted = space.row_shape
    if len(row) < 2 or isinstance(space, VectorSpace):
        fits = math.prod(row) == math.prod(wanted)  # type: ignore[arg-type]
    else:  # axes in another order are not to be taken for those of the space
        fits = [n for n in row if n != 1] == [n for n in wanted if n != 1]
    return wanted if fits else None


def laid_out(data: Any, space: Space, before: int = 1) -> Any:
    """Return data, whose rows stand behind so many axes, with the rows as a space has them."""
    shape = batches.extents_of(data)
    row = rows_as(space, shape[before:]) if shape else None
    is_other = row is not None and row != shape[before:]
    return batches.reshaped(data, *shape[:before], *row) if is_other else data  # type: ignore[misc]


def in_usual_order(rows: np.ndarray, space: ArraySpace) -> np.ndarray | None:
    """Return rows with their axes in the order of a class's default, None if they are no samples.

    >>> planes = Conv2DSpace((1, 2), 2, axes=("b", "c", 0, 1))
    >>> in_usual_order(np.array([[1, 2, 10, 20]]), planes).tolist()
    [[[[1, 10], [2, 20]]]]
    """
    if not holds_rows(space, rows.shape[1:]):
        return None
    own = space.rows_first.with_dtype(None)
    return own.np_format_as(laid_out(rows, own), own.in_default_order)  # type: ignore[no-any-return]


def of_sequences(space: Space, row: Extents | None) -> Space:
    """Return the space of several sequences for one of a single sequence, if each row is one."""
    if not isinstance(space, OneSequence) or row is None:
        return space
    is_one = row[:1] == (None,) or len(row) > len(space.row_shape)
    return SequenceSpace(space.steps) if is_one else space


def holds_rows(space: Space, row: Extents) -> bool:
    """Whether a row of this shape is one sample of a space."""
    return rows_as(space, row) is not None


def check_space_of_field(space: Space, node: Node, name: str) -> None:
    """Raise unless a space can be that of a field."""
    if space.has_callbacks:
        raise TypeError(
            f"_spaces=: {name!r}: a field has its space as plain data, without functions such as "
            "validate_callbacks=; give these with the space that is asked for"
        )
    if not isinstance(space, (ArraySpace, SequenceSpace)):
        raise TypeError(f"_spaces=: {name!r} is one array, and {space!r} has none or several")
    extents = node.extents
    if extents is None or _is_unseen(node):  # its rows are checked when they are formatted
        return
    if not extents or not holds_rows(space, extents[1:]):
        raise ValueError(
            f"_spaces=: {name!r} has the shape {shape_text(extents)}, and its rows are no samples "
            f"of {space!r}: they have its axes but 'b', in its order, or all of them flat"
        )
    if node.dtype is not None and isinstance(space, ArraySpace):
        batches.check_cast(node.dtype, space.dtype, f"_spaces=: {name!r}")


def _is_unseen(node: Node) -> bool:
    """Whether nothing is known of samples until one of them has been made."""
    return isinstance(node, Sampled) and node.row_extents is None


# --- what is inferred --------------------------------------------------------------------------


def space_of(node: Node) -> Space | None:
    """Return the space of a view: the declared one if it still fits, or else the inferred one."""
    found = declared(node.meta)
    if found is not None and _still_fits(found, node, is_batch(node.meta)):
        return found
    return None if is_batch(node.meta) or _is_part(node.meta.get(SPACE)) else inferred(node)


def _still_fits(space: Space, node: Node, is_whole: bool) -> bool:
    extents = node.extents
    if extents is None or _is_unseen(node):
        return True
    if not is_whole:
        return any(holds_rows(space, extents[start:]) for start in range(len(extents) + 1))
    whole = space.extents
    return len(whole) == len(extents) and all(
        None in pair or pair[0] == pair[1] for pair in zip(whole, extents, strict=True)
    )


def inferred(node: Node) -> Space | None:
    """Return the space that shape and dtype alone speak for, None if that is none."""
    if isinstance(node, Record):
        parts = [space_of(part.node) for part in members(node).values()]
        return None if None in parts else CompositeSpace(parts)  # type: ignore[arg-type]
    extents, dtype = node.extents, node.dtype
    return None if not extents or dtype is None else _of_rows(extents, dtype)


def _of_rows(extents: Extents, dtype: np.dtype[Any]) -> Space | None:
    if not extents or not batches.is_number(dtype):
        return None
    row = extents[1:]
    if row[:1] == (None,):
        step = _of_row(row[1:], dtype)
        return None if step is None else SequenceSpace(step)
    return _of_row(row, dtype)


_INFERRED: Mapping[int, Callable[..., ArraySpace]] = {
    1: lambda dim, **how: VectorSpace(dim, **how),
    2: lambda *shape, **how: Conv2DSpace(shape, 1, **how),
    3: lambda *shape, **how: Conv2DSpace(shape[:-1], shape[-1], **how),
    4: lambda *shape, **how: Conv3DSpace(shape[:-1], shape[-1], **how),
}
"""By the number of axes of a row, its space."""


def _of_row(row: tuple[int | None, ...], dtype: np.dtype[Any]) -> ArraySpace | None:
    if not row:
        return IndexSpace(None, 1, dtype) if dtype.kind in "iu" else VectorSpace(1, dtype=dtype)
    if None in row or 0 in row or len(row) not in _INFERRED:
        return None
    return _INFERRED[len(row)](*row, dtype=dtype)


def space_of_stored_rows(node: Node, wanted: Space, name: str) -> Space:
    """Return the space, rows first, in which a field's data are taken if another is asked for.

    Rows of which nothing was declared are taken as they are asked for, if they have that shape.
    """
    if isinstance(node, Record):
        raise TypeError(
            f"{name!r} is a record of the fields {', '.join(node.fields)}, and a source is one "
            f"array; take the view of the record, d[{name!r}]._get(...), or give its fields names "
            f"of their own, dv.View(x=d[{name!r}][{next(iter(node.fields), '')!r}])"
        )
    known = declared(node.meta)
    if known is not None and is_batch(node.meta):
        raise ValueError(
            f"{name!r} is a batch of {known!r}, whose samples lie along axis "
            f"{known.get_batch_axis()}, and those of a field are its rows; format it before as "
            f"{known.rows_first!r}"
        )
    if known is not None:
        return known_of_rows(known, None if node.extents is None else node.extents[1:])
    if isinstance(wanted, ConvSpace) and len(node.extents or ()) == 2:
        _check_order(node, name)
    return _space_of_undeclared_rows(node.extents, node.dtype, wanted, name)


def known_of_rows(known: Space, row: Extents | None) -> Space:
    """Return the space, rows first, in which rows are taken of which one was declared."""
    return of_sequences(densely(known.rows_first), row)


def _check_order(node: Node, name: str) -> None:
    """Raise if flat rows, of which nothing is declared, are made of such in an order of their own.

    What has made them may have kept that order or not.
    """
    for part in below([node]):
        known = readable_space(part.meta) if isinstance(part, Node) and part.meta else None
        if isinstance(known, ConvSpace) and _order(known) != _order(known.in_default_order):
            raise ValueError(
                f"{name!r} has flat rows, of which nothing is declared, made of samples of "
                f"{known!r}: they may still lie in its order or no longer; {REMEDY.format(name)}"
            )


def _order(space: ConvSpace) -> list[str]:
    """Return the axes of a flat sample that have more than one place, in their order."""
    return [role for role, n in zip(space.roles, space.extents, strict=True) if n not in (None, 1)]


def space_of_made_rows(
    known: Space | None, extents: Extents, dtype: Any, wanted: Space, name: str
) -> Space:
    """Return the space, rows first, in which rows that a function has made of a field are taken.

    If they still are samples of the space that was declared of the field, they are those.  Images
    of another size have their axes in the order that was declared, if that makes them such as are
    asked for.  Otherwise nothing is known of them.
    """
    row = extents[1:]
    if known is not None and holds_rows(known, row):
        return known_of_rows(known, row)
    if isinstance(known, ConvSpace) and isinstance(wanted, type(known)):
        like = wanted.with_axes(known.rows_first.axes)
        if holds_rows(like, row):
            return like.without_callbacks.with_dtype(None)
    return _space_of_undeclared_rows(extents, dtype, wanted, name)


def _space_of_undeclared_rows(
    extents: Extents | None, dtype: Any, wanted: Space, name: str
) -> Space:
    """Return the space, rows first, in which rows are taken of which nothing was declared."""
    row = None if extents is None or dtype is None else extents[1:]
    default = of_sequences(densely(wanted.without_callbacks.in_default_order), row)
    is_one = isinstance(default, (ArraySpace, SequenceSpace))
    if is_one and (row is None or holds_rows(default, row)):
        return default.with_dtype(None)
    if isinstance(wanted, ConvSpace) and row is not None and wanted.rows_first.row_shape == row:
        raise ValueError(
            f"nothing is declared of {name!r}, so its rows, of the shape {shape_text(row)}, are "
            f"taken to have the axes {default.axes[1:]}; if they have "
            f"{wanted.rows_first.axes[1:]}, {REMEDY.format(name)}"
        )
    found = None if extents is None or dtype is None else _of_rows(extents, dtype)
    if found is None:
        raise TypeError(
            f"{name!r} has no space, as its shape and dtype ({dtype}) speak for none; "
            f"{REMEDY.format(name)}"
        )
    return found.with_dtype(None)


# --- what is joined ----------------------------------------------------------------------------


def joined_meta(nodes: Sequence[Node]) -> Mapping[str, Any]:
    """Return the metadata of nodes that are joined, with the space and labels that all have.

    A space may be declared of some of them alone, if the rows of the others, as they are taken
    where nothing is declared, are samples of it.
    """
    shared = shared_meta(nodes)
    labels = None if LABELS in shared else labels_in_common(nodes, is_in_memory)
    if labels is not None:
        shared = read_only_meta({**shared, LABELS: labels})
    if SPACE in shared or not any(SPACE in node.meta for node in nodes):
        return shared
    spaces = [declared(node.meta) for node in nodes]
    if not any(spaces):
        return shared
    number = next(number for number, space in enumerate(spaces) if space is not None)
    first: Any = spaces[number]
    if not holds_rows(first, (nodes[number].extents or ())[1:]):
        return shared  # it was declared of other rows than these
    for other, (space, node) in enumerate(zip(spaces, nodes, strict=True)):
        agrees = _is_taken_as(first, node) if space is None else _lie_alike(first, space)
        if not agrees:
            raise ValueError(_unlike(first, number, space, other))
    whole = first if len({str(node.dtype) for node in nodes}) == 1 else first.with_dtype(None)
    return read_only_meta({**shared, SPACE: plain(whole)})


def _lie_alike(one: Space, other: Space) -> bool:
    """Whether rows of two spaces lie in the same order and mean the same, whatever their dtype."""
    return one.rows_first.with_dtype(None) == other.rows_first.with_dtype(None) or (
        isinstance(one, LabelSpace)
        and type(one) is type(other)
        and (one.max_labels, one.dim) == (other.max_labels, other.dim)
    )


def _is_taken_as(space: Space, node: Node) -> bool:
    """Whether rows of which nothing is declared are taken for samples of a space."""
    row = None if node.extents is None else node.extents[1:]
    is_default = space.rows_first == space.in_default_order
    if row is None or not is_default or not holds_rows(space, row):
        return False
    return not isinstance(space, LabelSpace) or (node.dtype is not None and node.dtype.kind in "iu")


def _unlike(first: Space, number: int, space: Space | None, other: int) -> str:
    if space is None:
        return (
            f"the rows of view {number} are declared as {first!r}, and of those of view {other} "
            "nothing is declared, so that they may lie in another order; declare them, too: "
            "dv.View(view, _spaces={...})"
        )
    return (
        f"the rows of view {number} are declared as {first!r}, those of view {other} as {space!r}: "
        "rows to be joined lie in one order; view._get((space, field)) brings them into it"
    )


REMEDY = "declare its space: dv.View(..., _spaces={{{!r}: ...}})"
