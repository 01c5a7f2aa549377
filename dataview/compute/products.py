"""Matrix products, from the rows of the left operand and the columns of the right one they need."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from dataview.compute.ways import cuts_of_product
from dataview.index import (
    LINE,
    Affine,
    Constant,
    Index,
    Map,
    axes_of,
    boxed,
    compose,
    gather,
    identity,
    is_identity,
    renamed,
)
from dataview.index.progress import begin
from dataview.plan.guards import check_array
from dataview.plan.kinds import MatMul, Sampled, known_dtype, known_shape
from dataview.plan.node import Argument, Node, Shape
from dataview.plan.symbols import deferring
from dataview.sources import Memo

Steps: TypeAlias = "Generator[tuple[Node, Index], np.ndarray, np.ndarray]"


@deferring
def matmul(left: Argument, right: Argument) -> Node:
    """Return the node of `left @ right`; what NumPy refuses is refused here."""
    if isinstance(left, Sampled) and isinstance(right, Node) and len(right.shape or ()) in (1, 2):
        lifted = None if isinstance(right, Sampled) else left.as_rows((left,))
        if lifted is not None and len(known_shape(lifted[1][0])) > 1:  # type: ignore[arg-type]
            return lifted[0].of_rows(matmul(lifted[1][0], right))
    operands = []
    for number, operand in enumerate((left, right)):
        check_array(operand, "matmul")
        if not isinstance(operand, Node) or not known_shape(operand):
            raise ValueError(f"matmul takes no numbers: operand {number} has no axes")
        operands.append(operand)
    one, other = operands
    empties = [np.empty((0, 0), known_dtype(operand)) for operand in operands]
    dtype = np.matmul(*empties).dtype
    return MatMul((one, other), _shape(known_shape(one), known_shape(other)), dtype)


def _shape(left: Shape, right: Shape) -> Shape:
    inner = right[-2] if len(right) > 1 else right[0]
    if left[-1] != inner:
        raise ValueError(
            f"matmul of shapes {left} and {right}: the last axis of the left one has length "
            f"{left[-1]}, and the {'second-last' if len(right) > 1 else 'only'} axis of the right "
            f"one {inner}"
        )
    columns = right[-1:] if len(right) > 1 else ()
    return (*np.broadcast_shapes(left[:-2], right[:-2]), *left[-2:-1], *columns)


def answer(node: MatMul, index: Index | None, memo: Memo) -> Steps:
    """Return a product, or the part of it that an index selects.

    It asks for the rows and columns that this part needs, as `evaluate` answers them.
    """
    shape = known_shape(node)
    if index is None or is_identity(index, shape):
        return (yield from _product(node, identity(shape)))
    box, rest = boxed(index, len(shape))
    found = yield from _product(node, box)
    return found if is_identity(rest, box.shape) else gather.read(found, rest)


def _product(node: MatMul, box: Index) -> Steps:
    """Return the product of chosen rows and chosen columns."""
    left, right = node.args
    rows, columns = operand_indices(node, box)
    other = yield right, columns
    cuts = cuts_of_product(node, rows.shape, columns.shape)
    if len(cuts) == 1:
        return np.asarray(np.matmul((yield left, rows), other), node.dtype)
    out = np.empty(box.shape, node.dtype)
    with contextlib.closing(begin("products", len(cuts))) as task:
        for cut in cuts:
            part = compose(rows, cut.within(rows.shape))
            np.matmul((yield left, part), other, out=cut.of(out))
            task.advance()
    return out


def operand_indices(node: MatMul, box: Index) -> tuple[Index, Index]:
    """Return the indices of what a box of the product needs of the two operands."""
    ours, theirs = map(known_shape, node.args)
    parts = list(zip(box.maps, box.shape, known_shape(node), strict=True))
    columns = [parts.pop()[:2]] if len(theirs) > 1 else []
    rows = [parts.pop()[:2]] if len(ours) > 1 else []
    inner = (LINE, ours[-1])
    left = [*_leading_maps(parts, ours[:-2]), *rows, inner]
    right = [*_leading_maps(parts, theirs[:-2]), inner, *columns]
    return _separate_axes(left), _separate_axes(right)


def _leading_maps(parts: Sequence[tuple[Map, int, int]], own: Shape) -> Iterator[tuple[Map, int]]:
    """Return map and length for an operand's leading axes, over some of which it is broadcast."""
    for length, (map_, count, whole) in zip(own, parts[len(parts) - len(own) :], strict=True):
        yield (map_, count) if length == whole else (Constant(0), 1)


def _separate_axes(parts: Sequence[tuple[Any, int]]) -> Index:
    """Return the index with each map over an axis of its own."""
    maps: list[Map] = []
    for axis, (map_, _) in enumerate(parts):
        if type(map_) is Affine:
            maps.append(Affine(map_.offset, ((axis, map_.strides[0][1]),)))
        else:
            maps.append(renamed(map_, dict.fromkeys(axes_of(map_), axis)))
    return Index([length for _, length in parts], maps)
