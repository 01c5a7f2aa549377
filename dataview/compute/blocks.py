"""A fused expression block by block: each leaf read once a block, errors noted for the caller."""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from dataview.compute import engines, executors, kernel
from dataview.compute.kernel import Position
from dataview.compute.programs import Program, compiled
from dataview.errors import warn
from dataview.index import Index, block_index, compose, identity
from dataview.plan.kinds import (
    Driven,
    Elementwise,
    Select,
    Stored,
    known_dtype,
    known_shape,
    size_of,
)
from dataview.plan.node import Node
from dataview.sizes import sizes
from dataview.sources import REUSED, Memo, give_back

LONGER = 8
"""So many times as long are the blocks of a single operation."""

BLOCKS_ENOUGH = 16
"""Blocks are not made longer if there are fewer than that: threads would wait for each other."""

TILE_ELEMENTS = 1 << 14
"""A row that all others are computed with is repeated to so many elements: inner loops are long."""

Evaluate = Callable[..., np.ndarray]
Narrow = Callable[["Index | None", Sequence[int], Sequence[int]], "Index | None"]

Noted: TypeAlias = dict[tuple[int, str], str]
"""The floating-point errors that happened: in which step of which kind, and the step's name."""


class Cut(NamedTuple):
    """A block of a result: positions `start` to `stop` of one of its axes."""

    axis: int
    start: int
    stop: int

    def within(self, shape: Sequence[int]) -> Index:
        """Return the index of the block in an array of this shape."""
        return block_index(shape, self.start, self.stop, self.axis) if shape else identity(())

    def of(self, array: np.ndarray) -> np.ndarray:
        """Return the block of an array."""
        if not array.ndim:
            return array
        if not self.axis:
            return array[self.start : self.stop]
        found: np.ndarray = array[(slice(None),) * self.axis + (slice(self.start, self.stop),)]
        return found


def cuts(
    shape: Sequence[int],
    elements: int | None = None,
    whole_rows: bool = False,
    together: int = 1,
) -> list[Cut]:
    """Return the blocks of an array, along its first axis that is long enough.

    A block has a multiple of `together` positions, or fewer than that.

    >>> cuts((5, 2), 4)
    [Cut(axis=0, start=0, stop=2), Cut(axis=0, start=2, stop=4), Cut(axis=0, start=4, stop=5)]
    """
    if not shape or not size_of(tuple(shape)):
        return [Cut(0, 0, shape[0] if shape else 0)]
    axis, step = cutting(shape, elements, whole_rows)
    step = max(together, step - step % together)
    even = shape[axis] - shape[axis] % together
    ends = [*range(0, even, step), even, shape[axis]]
    return [Cut(axis, a, b) for a, b in itertools.pairwise(ends) if a < b]


def cutting(
    shape: Sequence[int], elements: int | None = None, whole_rows: bool = False
) -> tuple[int, int]:
    """Return the axis along which an array is cut, and how many positions a block has there."""
    elements = sizes.block_elements if elements is None else elements
    size = size_of(tuple(shape))
    wanted = -(-size // elements)
    enough = [axis for axis, length in enumerate(shape) if length >= wanted]
    axis = enough[0] if enough and not whole_rows else 0 if whole_rows else int(np.argmax(shape))
    return axis, max(1, elements // (size // shape[axis]))


def block_elements(program: Program, size: int, read: bool = False) -> int:
    """Return the elements of a block of a program's results, which have so many in all.

    Narrow ones have more, in as many bytes, unless operands are `read` block by block.  What a
    single operation leaves in a core's cache nobody comes for: its blocks are longer, if there are
    enough of them for the threads.
    """
    wide = max(dtype.itemsize for step in program.steps for dtype in step.dtypes)
    elements = sizes.block_elements * (1 if read or wide > 4 else 2)
    if len(program.steps) > 1:
        return elements
    enough = 1 if executors.is_inside() else BLOCKS_ENOUGH
    return elements * min(max(size // (elements * enough), 1), LONGER)


def is_one_block(elements: int, dtype: np.dtype[Any]) -> bool:
    """Whether a result of so many elements is computed as one: to divide it takes longer.

    Most of the time of what is that small goes into the first touch of its memory, for which
    threads wait for each other.
    """
    return elements * min(max(dtype.itemsize, 4), 8) <= 64 * sizes.block_elements


def fused(
    nodes: Sequence[Elementwise],
    index: Index | None,
    outs: Sequence[np.ndarray] | None,
    evaluate: Evaluate,
    narrow: Narrow,
    spare: bool = True,
    given: Mapping[int, np.ndarray] | None = None,
) -> list[np.ndarray]:
    """Return the data of elementwise nodes of one shape, computed together block by block.

    `spare` tells that the expressions read nothing of the memory of `outs`; `given` has the data
    of operands, by their identity, that are not to be read.
    """
    shape = known_shape(nodes[0]) if index is None else index.shape
    outs = [np.empty(shape, known_dtype(node)) for node in nodes] if outs is None else list(outs)
    if executors.shares_memory() or len(cuts(shape)) == 1 or given:
        run = _Run(nodes, index, outs, evaluate, narrow, spare, given or {})
        with engines.one_thread(run.program), run.noting():
            executors.run_blocks(run.block, run.blocks())
        run.give_back()
        tell(run.noted)
        return outs
    blocks = cuts(shape, None, True)
    caller = engines.current(), np.geterr()
    task = functools.partial(_remote_block, nodes, index, shape, evaluate, narrow, caller)
    noted: Noted = {}
    found = executors.run_blocks(task, blocks, portable=True)
    for cut, (parts, seen) in zip(blocks, found, strict=True):
        for out, part in zip(outs, parts, strict=True):
            cut.of(out)[...] = part
        noted.update(seen)
    tell(noted)
    return outs


def _remote_block(
    nodes: Sequence[Elementwise],
    index: Index | None,
    shape: Sequence[int],
    evaluate: Evaluate,
    narrow: Narrow,
    caller: tuple[str, Any],
    cut: Cut,
) -> tuple[list[np.ndarray], Noted]:
    """Compute one block in another process, as the caller's context has it."""
    part = cut.within(shape)
    block = part if index is None else compose(index, part)
    name, modes = caller
    with engines.engine(name), np.errstate(**modes):
        outs = [np.empty(block.shape, known_dtype(node)) for node in nodes]
        run = _Run(nodes, block, outs, evaluate, narrow)
        with engines.one_thread(run.program), run.noting():
            for own in run.blocks():
                run.block(own)
    return outs, run.noted


class _Run:
    """One evaluation: the program, its leaves as arrays where they are, and threads' buffers."""

    def __init__(
        self,
        nodes: Sequence[Elementwise],
        index: Index | None,
        outs: Sequence[np.ndarray],
        evaluate: Evaluate,
        narrow: Narrow,
        spare: bool = True,
        given: Mapping[int, np.ndarray] = MappingProxyType({}),
    ) -> None:
        self.nodes = tuple(nodes)
        self.spare = spare
        self.program = engines.arranged(compiled(*nodes))
        self.outs = outs
        self.noted: Noted = {}
        self.threads = threading.local()
        self.tapes: list[kernel.Tape] = []
        memo = {"roots": self.nodes}
        shape, whole = outs[0].shape, known_shape(nodes[0])
        with self.noting():
            at = self._thread().at
            parts = self._parts(
                at, lambda leaf: evaluate(leaf, narrow(index, whole, known_shape(leaf)), memo)
            )
            parts.update(given)
            at.name = "an operand"
            self.leaves = [
                _Leaf(leaf, narrow(index, whole, known_shape(leaf)), shape, evaluate, parts, memo)
                for leaf in self.program.leaves
            ]
        # Of memory, and of what is small, any part of a row can be had by itself.
        self.in_memory = all(leaf.array is not None for leaf in self.leaves)
        self.together = 1
        self.together = self._repeat_rows()

    def blocks(self) -> list[Cut]:
        """Return the blocks of the result."""
        read, shape = not self.in_memory, self.outs[0].shape
        elements = block_elements(self.program, size_of(shape), read)
        return cuts(shape, elements, read, self.together)

    def _parts(self, at: Position, leaf: Callable[[Node], np.ndarray]) -> dict[int, np.ndarray]:
        """Compute the small parts of the expression, which all blocks share."""
        held = [node for node in self.program.leaves if isinstance(node, Elementwise)]
        return dict(zip(map(id, held), kernel.run_small(held, leaf, at), strict=True))

    def _repeat_rows(self) -> int:
        """Repeat the operands that are the same for all rows, and return for how many rows."""
        first, *shape = self.outs[0].shape or (0,)
        alike = [leaf for leaf in self.leaves if leaf.is_alike()]
        most = min(first, min(TILE_ELEMENTS, sizes.block_elements) // max(1, size_of(tuple(shape))))
        if not alike or most < 2 or self.blocks()[0].axis:
            return 1
        for leaf in alike:
            leaf.repeat((most, *shape))
        return int(most)

    def noting(self) -> contextlib.AbstractContextManager[Any]:
        """Note the floating-point errors of all threads, each with the step to be blamed for it."""

        def note(kind: str, flag: int) -> None:
            number, name = self._thread().at.blamed()
            self.noted[number, kind] = name

        return np.errstate(all="call", call=note)

    def _thread(self) -> _Thread:
        """Return what belongs to the thread that runs this."""
        own: _Thread | None = self.threads.__dict__.get("own")
        if own is None:
            own = self.threads.own = _Thread(Position(), {})
        return own

    def block(self, cut: Cut) -> None:
        """Compute one block into its place."""
        at, tapes = self._thread()
        at.step = None
        memo = {"roots": self.nodes}  # what leaves have in common is made once a block
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

    def give_back(self) -> None:
        """Keep the threads' buffers for other evaluations, when no block runs any more."""
        for tape in self.tapes:
            tape.give_back()


class _Thread(NamedTuple):
    """What a thread has of its own: where it is, and its buffers, by the shape of the block."""

    at: Position
    tapes: dict[tuple[int, ...], kernel.Tape]


class _Leaf:
    """An operand of the program: an array, or a node that is read block by block."""

    def __init__(
        self,
        node: Node,
        index: Index | None,
        shape: tuple[int, ...],
        evaluate: Evaluate,
        parts: Mapping[int, np.ndarray],
        memo: Memo,
    ) -> None:
        self.node = node
        self.index = identity(known_shape(node)) if index is None else index
        self.evaluate = evaluate
        self.array = parts.get(id(node))
        if self.array is None and not self._is_large():
            self.array = evaluate(node, index, memo)
        self.shape = self.index.shape if self.array is None else self.array.shape
        self.shift = len(shape) - len(self.shape)
        self.tile: np.ndarray | None = None
        self.reuses = self.array is None and reuses(node)

    def _is_large(self) -> bool:
        """Whether the leaf is read block by block: not if it is small, or memory that is lent."""
        lent = self.index.is_box and aliases(self.node)
        return size_of(self.index.shape) > sizes.block_elements and not lent

    def is_alike(self) -> bool:
        """Whether the leaf is an array of several elements that is the same for all rows."""
        return self.array is not None and self.array.size > 1 and not self._varies(0)

    def repeat(self, shape: tuple[int, ...]) -> None:
        """Hold the leaf as often as several rows need it."""
        self.tile = np.ascontiguousarray(np.broadcast_to(cast(np.ndarray, self.array), shape))

    def _varies(self, axis: int) -> bool:
        axis -= self.shift
        return 0 <= axis < len(self.shape) and self.shape[axis] != 1

    def block(self, cut: Cut, memo: Memo, groups: int) -> np.ndarray:
        """Return the part of the leaf that a block of the result needs.

        The rows of the block are in `groups` of as many rows, if that is not 0.
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


def reuses(node: Node) -> bool:
    """Whether a node is read straight from a source that can read into memory used before."""
    while isinstance(node, Select):
        node = node.node
    return isinstance(node, Stored) and node.source.reuses


def aliases(node: Node) -> bool:
    """Whether a node's data is a strided view of memory, which evaluation lends."""
    if isinstance(node, Select):
        return node.index.is_box and aliases(node.node)
    if isinstance(node, Driven):
        return aliases(node.node)
    return isinstance(node, Stored) and node.source.memory is not None


def _in_groups(array: np.ndarray, rows: int) -> np.ndarray:
    """Return an array with its rows in groups, which has the same memory."""
    return array.reshape(-1, rows, *array.shape[1:])


_KINDS = {
    "divide by zero": "divide",
    "overflow": "over",
    "underflow": "under",
    "invalid value": "invalid",
}


def tell(noted: Noted) -> None:
    """Treat the floating-point errors of all blocks once, as the caller's `errstate` says."""
    modes = np.geterr()
    for (_, kind), name in sorted(noted.items()):
        mode = modes[_KINDS[kind]]  # type: ignore[literal-required]
        message = f"{kind} encountered in {name}"
        if mode == "raise":
            raise FloatingPointError(message)
        if mode == "warn":
            warn(message)
        elif mode == "call":
            np.geterrcall()(kind, 0)  # type: ignore[operator, misc]
        elif mode == "print":
            print(f"Warning: {message}")
        elif mode == "log":
            np.geterrcall().write(f"Warning: {message}\n")  # type: ignore[union-attr]
