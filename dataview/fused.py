"""A fused expression block by block: each leaf read once a block, errors noted for the caller."""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dataview import engines, executors, kernel
from dataview.index import Affine, Index, compose, identity
from dataview.kernel import Position
from dataview.nodes import Elementwise, Node, known_dtype, known_shape, size_of
from dataview.programs import compiled
from dataview.sources.protocol import Memo

__all__ = ["Cut", "cuts", "fused", "is_one_block", "tell"]

BLOCK_ELEMENTS = 1 << 17
"""Elements of a block: the buffers of a few steps stay in a core's own cache."""

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
        whole = identity(shape)
        if not shape:
            return whole
        maps = list(whole.maps)
        maps[self.axis] = Affine(self.start, ((self.axis, 1),))
        cut = list(shape)
        cut[self.axis] = self.stop - self.start
        return Index(cut, maps)

    def of(self, array: np.ndarray) -> np.ndarray:
        """Return the block of an array."""
        if not array.ndim:
            return array
        found: np.ndarray = array[(slice(None),) * self.axis + (slice(self.start, self.stop),)]
        return found


def cuts(shape: Sequence[int], elements: int | None = None, whole_rows: bool = False) -> list[Cut]:
    """Return the blocks of an array, along its first axis that is long enough.

    >>> cuts((5, 2), 4)
    [Cut(axis=0, start=0, stop=2), Cut(axis=0, start=2, stop=4), Cut(axis=0, start=4, stop=5)]
    """
    elements = BLOCK_ELEMENTS if elements is None else elements
    size = size_of(tuple(shape))
    if not shape or size <= elements:
        return [Cut(0, 0, shape[0] if shape else 0)]
    wanted = -(-size // elements)
    enough = [axis for axis, length in enumerate(shape) if length >= wanted]
    axis = enough[0] if enough else int(np.argmax(shape))
    axis = 0 if whole_rows else axis
    step = max(1, elements // (size // shape[axis]))
    ends = range(0, shape[axis], step)
    return [Cut(axis, start, min(start + step, shape[axis])) for start in ends]


def block_elements(nodes: Sequence[Elementwise]) -> int:
    """Return the elements of a block of these results: narrow ones have more, in as many bytes."""
    size = max(known_dtype(node).itemsize for node in nodes)
    return BLOCK_ELEMENTS * 8 // min(max(size, 4), 8)


def is_one_block(elements: int) -> bool:
    """Whether a result of so many elements is computed as one: to divide it takes longer."""
    return elements <= 2 * BLOCK_ELEMENTS


def fused(
    nodes: Sequence[Elementwise],
    index: Index | None,
    outs: Sequence[np.ndarray] | None,
    evaluate: Evaluate,
    narrow: Narrow,
    spare: bool = True,
) -> list[np.ndarray]:
    """Return the data of elementwise nodes of one shape, computed together block by block.

    `spare` tells that the expressions read nothing of the memory of `outs`.
    """
    shape = known_shape(nodes[0]) if index is None else index.shape
    outs = [np.empty(shape, known_dtype(node)) for node in nodes] if outs is None else list(outs)
    blocks = cuts(shape, block_elements(nodes))
    if executors.shares_memory() or len(blocks) == 1:
        run = _Run(nodes, index, outs, evaluate, narrow, spare)
        with engines.one_thread(run.program):
            # What is made or read from elsewhere is read once: its rows are not cut.
            executors.run_blocks(run.block, blocks if run.in_memory else cuts(shape, None, True))
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
        with engines.one_thread(run.program):
            run.block(cuts(block.shape, size_of(block.shape))[0])
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
    ) -> None:
        self.nodes = tuple(nodes)
        self.spare = spare
        self.program = engines.arranged(compiled(*nodes))
        self.outs = outs
        self.noted: Noted = {}
        self.local = threading.local()
        memo = {"roots": self.nodes}
        shape, whole = outs[0].shape, known_shape(nodes[0])
        with _noting(self.noted) as at:
            parts = self._parts(
                at, lambda leaf: evaluate(leaf, narrow(index, whole, known_shape(leaf)), memo)
            )
            at.step, at.name = -1, "an operand"
            self.leaves = [
                _Leaf(leaf, narrow(index, whole, known_shape(leaf)), shape, evaluate, parts, memo)
                for leaf in self.program.leaves
            ]
        # Of memory, and of what is small, any part of a row can be had by itself.
        self.in_memory = all(leaf.array is not None for leaf in self.leaves)

    def _parts(self, at: Position, leaf: Callable[[Node], np.ndarray]) -> dict[int, np.ndarray]:
        """Compute the small parts of the expression, which all blocks share."""
        held = [node for node in self.program.leaves if isinstance(node, Elementwise)]
        return dict(zip(map(id, held), kernel.run_small(held, leaf, at), strict=True))

    def block(self, cut: Cut) -> None:
        """Compute one block into its place."""
        if not hasattr(self.local, "scratch"):
            self.local.scratch = {}
        targets = [cut.of(out) for out in self.outs]
        with _noting(self.noted) as at:
            memo = {"roots": self.nodes}  # what leaves have in common is made once a block
            leaves = [leaf.block(cut, targets[0].shape, memo) for leaf in self.leaves]
            kernel.run_block(self.program, leaves, targets, self.local.scratch, at, self.spare)


@contextlib.contextmanager
def _noting(noted: Noted) -> Iterator[Position]:
    """Note floating-point errors, each with the step that is blamed for it."""
    at = Position()

    def note(kind: str, flag: int) -> None:
        noted[at.step, kind] = at.name

    with np.errstate(all="call", call=note):
        yield at


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
        own = self.index.shape if self.array is None else self.array.shape
        self.shift = len(shape) - len(own)
        self.tile: np.ndarray | None = None

    def _is_large(self) -> bool:
        """Whether the leaf is read block by block: not if it is small, or memory that is lent."""
        return size_of(self.index.shape) > BLOCK_ELEMENTS and not _is_lent(self.node, self.index)

    def block(self, cut: Cut, shape: tuple[int, ...], memo: Memo) -> np.ndarray:
        """Return the part of the leaf that a block of the result needs."""
        axis = cut.axis - self.shift
        own = self.index.shape if self.array is None else self.array.shape
        varies = 0 <= axis < len(own) and own[axis] != 1
        part = Cut(axis, cut.start, cut.stop)
        if self.array is None:
            below = part.within(own) if varies else identity(own)
            return self.evaluate(self.node, compose(self.index, below), memo)
        if varies:
            return part.of(self.array)
        if not shape or cut.axis:
            return self.array
        tile = self.tile  # threads share it, so that it is looked at once
        if tile is None or tile.shape[:1] < shape[:1]:
            tile = self.tile = kernel.tiled(self.array, shape)
        whole = tile.ndim == len(shape) and tile.shape[1:] == shape[1:]
        return tile[: shape[0]] if whole else self.array


def _is_lent(node: Node, index: Index) -> bool:
    if not index.is_box:
        return False
    below = getattr(node, "node", None)
    own = getattr(node, "index", None)
    if below is not None and own is not None:
        return bool(own.is_box) and _is_lent(below, own)
    source = getattr(node, "source", None)
    return source is not None and bool(source.lends)


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
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        elif mode == "call":
            np.geterrcall()(kind, 0)  # type: ignore[operator, misc]
        elif mode == "print":
            print(f"Warning: {message}")
        elif mode == "log":
            np.geterrcall().write(f"Warning: {message}\n")  # type: ignore[union-attr]
