"""Expressions and matrix products block by block: each block reads each operand once.

Several threads, or other processes, compute the blocks of one evaluation.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from contextvars import copy_context
from types import MappingProxyType
from typing import Any, TypeAlias, cast

import numpy as np

from dataview.compute import executors, kernel, programs
from dataview.compute.kernel import FloatErrors
from dataview.compute.programs import compiled
from dataview.compute.ways import (
    Cut,
    are_fortran,
    block_elements,
    cuts,
    cuts_of_grid,
    cuts_of_product,
    grid_of_rows,
    in_chunks,
    is_read_in_blocks,
    reuses,
)
from dataview.index import (
    LINE,
    Affine,
    Constant,
    Index,
    Map,
    axes_of,
    boxed,
    broadcast_shapes,
    compose,
    gather,
    identity,
    is_identity,
    renamed,
)
from dataview.index.progress import begin
from dataview.index.shape_texts import length_text, shape_text
from dataview.index.sizes import sizes
from dataview.plan.guards import check_array
from dataview.plan.kinds import Elementwise, MatMul, Sampled, known_dtype, known_shape, size_of
from dataview.plan.node import Argument, Evaluate, Node, Shape
from dataview.plan.photographs import photographs_in
from dataview.plan.places import operand_index
from dataview.plan.symbols import deferring
from dataview.sources import REUSED, Memo, give_back

Steps: TypeAlias = "Generator[tuple[Node, Index], np.ndarray, np.ndarray]"

Around = Callable[[int, Callable[[], None]], None]
"""What is done before and after each part of a result is computed, by its number."""

TILE_ELEMENTS = 1 << 14
"""A row that is an operand of every other row is repeated up to this size: NumPy's inner loops are
then long."""


def fused(
    nodes: Sequence[Elementwise],
    index: Index | None,
    outs: Sequence[np.ndarray] | None,
    evaluate: Evaluate,
    spare: bool = True,
    values: Mapping[int, np.ndarray] = MappingProxyType({}),
) -> list[np.ndarray]:
    """Return the data of elementwise nodes of one shape, computed together block by block.

    `spare` says that the expressions read nothing of the memory of `outs`; `values` has the data
    of operands that are not to be read, by their identity.
    """
    shape = known_shape(nodes[0]) if index is None else index.shape
    outs = _new_results(nodes, index, shape) if outs is None else list(outs)
    if executors.shares_memory() or len(cuts(shape)) == 1 or values:
        chunked = [] if values else _in_long_chunks(nodes, index, shape)
        if chunked:
            _by_chunks(nodes, index, outs, evaluate, chunked).report()
            return outs
        # In a copy of the context: Ctrl-C may come while NumPy sets errstate back, which then stays
        # changed.
        copy_context().run(_errors_of, nodes, index, outs, evaluate, spare, values).report()
        return outs
    blocks = cuts(shape, None, True)
    for photograph in photographs_in(*nodes):
        photograph.take()  # each process would take it for itself
    caller = programs.current_engine(), np.geterr()
    task = functools.partial(_remote_block, nodes, index, shape, evaluate, caller)
    errors = FloatErrors()
    found = executors.run_blocks(task, blocks, portable=True)
    for cut, (parts, seen) in zip(blocks, found, strict=True):
        for out, part in zip(outs, parts, strict=True):
            cut.of(out)[...] = part
        errors.update(seen)
    errors.report()
    return outs


def _new_results(
    nodes: Sequence[Elementwise], index: Index | None, shape: Shape
) -> list[np.ndarray]:
    """Return memory for results, in the order of axes in which their operands lie or are read."""
    fortran = are_fortran(nodes, index)
    return [kernel.new_result(shape, known_dtype(node), fortran) for node in nodes]


LONG_CHUNKS = 8
"""Chunks are read once if they have more rows than an eighth of a block; others are read for a few
blocks at most."""


def _in_long_chunks(nodes: Sequence[Elementwise], index: Index | None, shape: Shape) -> list[Node]:
    """Return the operands with chunks of which most would be read for several blocks."""
    found = {id(leaf): leaf for node in nodes for leaf in in_chunks(node)}
    rows = sizes.block_elements // max(1, size_of(shape[1:]))
    longest = max((grid_of_rows(leaf, 1, index).step for leaf in found.values()), default=0)
    return list(found.values()) if LONG_CHUNKS * longest > rows else []


def _by_chunks(
    nodes: Sequence[Elementwise],
    index: Index | None,
    outs: Sequence[np.ndarray],
    evaluate: Evaluate,
    chunked: Sequence[Node],
) -> FloatErrors:
    """Compute nodes in parts of whole chunks; each part is read at once, and computed in blocks."""
    shape, whole = outs[0].shape, known_shape(nodes[0])
    row = sum(size_of(shape[1:]) * known_dtype(leaf).itemsize for leaf in chunked)
    step = max(1, sizes.file_bytes // max(1, row))
    grid = max((grid_of_rows(node, step, index) for node in nodes), key=lambda grid: grid.step)

    def part(cut: Cut) -> FloatErrors:
        own = cut.within(shape) if index is None else compose(index, cut.within(shape))
        memo = {"roots": tuple(nodes)}
        values = {
            id(leaf): evaluate(leaf, operand_index(own, whole, known_shape(leaf)), memo)
            for leaf in chunked
        }
        evaluation = nodes, own, list(map(cut.of, outs)), evaluate, True, values
        return copy_context().run(_errors_of, *evaluation)

    errors = FloatErrors()
    for seen in executors.run_blocks(part, cuts_of_grid(grid, shape)):
        errors.update(seen)
    return errors


def in_parts(
    node: Elementwise,
    index: Index | None,
    out: np.ndarray,
    evaluate: Evaluate,
    values: Mapping[int, np.ndarray],
    parts: Sequence[Cut],
    around: Around,
) -> None:
    """Compute a node into memory that it may read at the same places, one part after the other.

    What all parts need is prepared once.
    """
    evaluation = [node], index, [out], evaluate, False, values, parts, around
    copy_context().run(_errors_of, *evaluation).report()


def _errors_of(*evaluation: Any) -> FloatErrors:
    """Compute all blocks of an evaluation, and return its floating-point errors."""
    return _Fusion(*evaluation).run()


def _remote_block(
    nodes: Sequence[Elementwise],
    index: Index | None,
    shape: Sequence[int],
    evaluate: Evaluate,
    caller: tuple[str, Any],
    cut: Cut,
) -> tuple[list[np.ndarray], FloatErrors]:
    """Compute one block in another process, with the caller's engine and `errstate`."""
    part = cut.within(shape)
    block = part if index is None else compose(index, part)
    name, modes = caller
    with programs.engine(name), np.errstate(**modes):
        outs = [np.empty(block.shape, known_dtype(node)) for node in nodes]
        return outs, _Fusion(nodes, block, outs, evaluate).run()


class _ThreadState(threading.local):
    """What each thread has of its own: where it is, and its tapes, by the shape of the block."""

    def __init__(self) -> None:
        self.at = kernel.Position()
        self.tapes: dict[tuple[int, ...], kernel.Tape] = {}


class _Fusion:
    """One evaluation: the program, its operands, and the buffers of each thread."""

    def __init__(
        self,
        nodes: Sequence[Elementwise],
        index: Index | None,
        outs: Sequence[np.ndarray],
        evaluate: Evaluate,
        spare: bool = True,
        values: Mapping[int, np.ndarray] = MappingProxyType({}),
        parts: Sequence[Cut] = (),
        around: Around = lambda number, compute: compute(),
    ) -> None:
        self.nodes = tuple(nodes)
        self.parts: Sequence[Cut | None] = parts or [None]
        self.around = around
        self.spare = spare
        self.program = programs.with_joined_steps(compiled(*nodes))
        self.outs = outs
        self.errors = FloatErrors()
        self.thread = _ThreadState()
        self.tapes: list[kernel.Tape] = []
        memo = {"roots": self.nodes}
        shape, whole = outs[0].shape, known_shape(nodes[0])

        def place(leaf: Node) -> Index | None:
            return operand_index(index, whole, known_shape(leaf))

        with self._noting():
            # The small parts of the expression are computed once, for all blocks.
            small = [node for node in self.program.leaves if isinstance(node, Elementwise)]
            at = self.thread.at
            found = kernel.run_small(small, lambda leaf: evaluate(leaf, place(leaf), memo), at)
            arrays = {**dict(zip(map(id, small), found, strict=True)), **values}
            at.name = "an operand"
            self.leaves = [
                _Leaf(leaf, place(leaf), shape, evaluate, arrays, memo)
                for leaf in self.program.leaves
            ]
        # Rows can be divided among blocks where no operand is read from a source by rows.
        self.in_memory = all(leaf.array is not None for leaf in self.leaves)
        self.together = 1
        self.together = self._repeat_rows()
        self.known: dict[int, list[Cut]] = {}  # most parts are of the same length

    def run(self) -> FloatErrors:
        """Compute all blocks, and return the floating-point errors of all threads."""
        with programs.one_thread(self.program), self._noting():
            for number, part in enumerate(self.parts):
                self.around(number, functools.partial(self._compute, part))
        for tape in self.tapes:
            tape.give_back()
        return self.errors

    def _compute(self, part: Cut | None) -> None:
        executors.run_blocks(self.block, self._blocks(part))

    def _blocks(self, part: Cut | None) -> list[Cut]:
        """Return the blocks of the result, or of a part of it."""
        if part is None:
            return self._cuts(None)
        if part.axis:
            return [part]
        length = part.stop - part.start
        found = self.known.get(length)
        if found is None:
            found = self.known[length] = self._cuts(length)
        return [cut.moved(part.start) for cut in found]

    def _cuts(self, length: int | None) -> list[Cut]:
        """Return the blocks of so many rows, None of all."""
        read, shape = not self.in_memory, self.outs[0].shape
        if length is not None:
            shape = (length, *shape[1:])
        elements = block_elements(self.program, size_of(shape), read)
        fortran = kernel.is_fortran(self.outs[0])
        return cuts(shape, elements, read or length is not None, self.together, fortran)

    def _repeat_rows(self) -> int:
        """Repeat the operands that are the same for all rows, and return for how many rows."""
        first, *shape = self.outs[0].shape or (0,)
        same = [leaf for leaf in self.leaves if leaf.is_same_for_rows()]
        most = min(first, min(TILE_ELEMENTS, sizes.block_elements) // max(1, size_of(tuple(shape))))
        if not same or most < 2 or self._has_columns() or kernel.is_fortran(self.outs[0]):
            return 1
        for leaf in same:
            leaf.repeat((most, *shape))
        return int(most)

    def _has_columns(self) -> bool:
        """Whether blocks are cut along another axis than that of the rows."""
        part = self.parts[0]
        return bool(self._cuts(None)[0].axis if part is None else part.axis)

    def _noting(self) -> AbstractContextManager[Any]:
        """Note the floating-point errors of all threads, each with the step that it is in."""
        return self.errors.noting(lambda: self.thread.at.current_step())

    def block(self, cut: Cut) -> None:
        """Compute one block into its place."""
        at, tapes = self.thread.at, self.thread.tapes
        at.step = None
        memo = {"roots": self.nodes}  # what operands have in common is computed once a block
        groups = self.together if cut.stop - cut.start > self.together > 1 else 0
        reused: list[np.ndarray] = []
        own = {**memo, REUSED: reused}
        leaves = [leaf.block(cut, own if leaf.reuses else memo, groups) for leaf in self.leaves]
        outs = [_in_groups(cut.of(out), groups) if groups else cut.of(out) for out in self.outs]
        tape = tapes.get(outs[0].shape)
        if tape is None:
            tape = kernel.Tape(self.program, leaves, outs, self.spare)
            tapes[outs[0].shape] = tape
            self.tapes.append(tape)
        tape.run(leaves, outs, at)
        give_back(reused)


class _Leaf:
    """An operand of the program: an array, or a node that is read block by block."""

    def __init__(
        self,
        node: Node,
        index: Index | None,
        shape: tuple[int, ...],
        evaluate: Evaluate,
        arrays: Mapping[int, np.ndarray],
        memo: Memo,
    ) -> None:
        self.node = node
        self.index = identity(known_shape(node)) if index is None else index
        self.evaluate = evaluate
        self.array = arrays.get(id(node))
        if self.array is None and not self._is_large():
            self.array = evaluate(node, index, memo)
        self.shape = self.index.shape if self.array is None else self.array.shape
        self.shift = len(shape) - len(self.shape)
        self.tile: np.ndarray | None = None
        self.reuses = self.array is None and reuses(node)

    def _is_large(self) -> bool:
        return is_read_in_blocks(self.node, size_of(self.index.shape), self.index.is_box)

    def is_same_for_rows(self) -> bool:
        """Whether the leaf is an array of several elements that is the same for all rows."""
        return self.array is not None and self.array.size > 1 and not self._varies(0)

    def repeat(self, shape: tuple[int, ...]) -> None:
        """Hold the leaf repeated for several rows."""
        self.tile = np.ascontiguousarray(np.broadcast_to(cast(np.ndarray, self.array), shape))

    def _varies(self, axis: int) -> bool:
        axis -= self.shift
        return 0 <= axis < len(self.shape) and self.shape[axis] != 1

    def block(self, cut: Cut, memo: Memo, groups: int) -> np.ndarray:
        """Return the part of the leaf that a block of the result needs.

        If `groups` is not 0, the rows of the block are in groups of so many rows.
        """
        if self.tile is not None:
            return self.tile if groups else self.tile[: cut.stop - cut.start]
        varies = self._varies(cut.axis)
        part = Cut(cut.axis - self.shift, cut.start, cut.stop) if varies else cut
        if self.array is None:
            below = part.within(self.shape) if varies else identity(self.shape)
            found = self.evaluate(self.node, compose(self.index, below), memo)
        else:
            found = part.of(self.array) if varies else self.array
        return _in_groups(found, groups) if groups and varies else found


def _in_groups(array: np.ndarray, rows: int) -> np.ndarray:
    """Return a view of an array with its rows in groups."""
    return array.reshape(-1, rows, *array.shape[1:])


# --- matrix products ----------------------------------------------------------------------------


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
        own = "second-last" if len(right) > 1 else "only"
        raise ValueError(
            f"matmul of shapes {shape_text(left)} and {shape_text(right)}: the last axis of the "
            f"left one has length {length_text(left[-1])}, and the {own} axis of the right one "
            f"{length_text(inner)}"
        )
    columns = right[-1:] if len(right) > 1 else ()
    return (*broadcast_shapes(left[:-2], right[:-2]), *left[-2:-1], *columns)


def product(node: MatMul, index: Index | None, memo: Memo) -> Steps:
    """Return a product, or the part of it that an index selects.

    It asks for the rows and columns that this part needs, as `evaluate` answers them.
    """
    shape = known_shape(node)
    if index is None or is_identity(index, shape):
        return (yield from _product(node, identity(shape)))
    box, rest = boxed(index, len(shape))
    found = yield from _product(node, box)
    return found if is_identity(rest, box.shape) else gather.own(found, rest)


def _product(node: MatMul, box: Index) -> Steps:
    """Return the product of chosen rows and chosen columns."""
    left, right = node.args
    rows, columns = operand_indices(node, box)
    other = yield right, columns
    cuts = cuts_of_product(node, rows.shape, columns.shape)
    if len(cuts) == 1:
        return np.asarray(np.matmul((yield left, rows), other), node.dtype)
    out = np.empty(box.shape, node.dtype)
    with closing(begin("products", len(cuts))) as task:
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
