"""A fused expression block by block: each leaf read once a block, errors noted for the caller."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dataview import executors, kernel
from dataview.index import Affine, Index, compose, identity
from dataview.nodes import Elementwise, Node, known_dtype, known_shape, size_of

__all__ = ["Cut", "cuts", "fused", "tell"]

BLOCK_ELEMENTS = 1 << 17
"""Elements of a block: the buffers of a few steps stay in a core's own cache."""

Evaluate = Callable[[Node, "Index | None"], np.ndarray]
Narrow = Callable[["Index | None", Sequence[int], Sequence[int]], "Index | None"]


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


def fused(
    node: Elementwise,
    index: Index | None,
    out: np.ndarray | None,
    evaluate: Evaluate,
    narrow: Narrow,
    spare: bool = True,
) -> np.ndarray:
    """Return the data of an elementwise node, computed block by block on the executor.

    `spare` tells that the expression reads nothing of the memory of `out`.
    """
    shape = known_shape(node) if index is None else index.shape
    out = np.empty(shape, known_dtype(node)) if out is None else out
    if executors.shares_memory():
        run = _Run(node, index, out, evaluate, narrow, spare)
        # What is made or read from elsewhere is read once: its rows are not cut.
        read = any(leaf.array is None for leaf in run.leaves)
        executors.run_blocks(run.block, cuts(shape, whole_rows=read))
        noted = run.noted
    else:
        noted = {}
        blocks = cuts(shape, whole_rows=True)
        task = functools.partial(_remote_block, node, index, shape, evaluate, narrow)
        for cut, (block, seen) in zip(
            blocks, executors.run_blocks(task, blocks, portable=True), strict=True
        ):
            cut.of(out)[...] = block
            noted.update(seen)
    tell(noted)
    return out


def _remote_block(
    node: Elementwise,
    index: Index | None,
    shape: Sequence[int],
    evaluate: Evaluate,
    narrow: Narrow,
    cut: Cut,
) -> tuple[np.ndarray, dict[tuple[int, str], str]]:
    """Compute one block in another process."""
    part = cut.within(shape)
    block = part if index is None else compose(index, part)
    run = _Run(node, block, np.empty(block.shape, node.dtype), evaluate, narrow)
    run.block(cuts(block.shape, size_of(block.shape))[0])
    return run.out, run.noted


class _Run:
    """One evaluation: the program, its leaves as arrays where they are, and threads' buffers."""

    def __init__(
        self,
        node: Elementwise,
        index: Index | None,
        out: np.ndarray,
        evaluate: Evaluate,
        narrow: Narrow,
        spare: bool = True,
    ) -> None:
        self.spare = spare
        self.program = kernel.compiled(node)
        self.out = out
        self.noted: dict[tuple[int, str], str] = {}
        self.local = threading.local()
        whole = known_shape(node)
        self.leaves = [
            _Leaf(leaf, narrow(index, whole, known_shape(leaf)), out.shape, evaluate)
            for leaf in self.program.leaves
        ]

    def block(self, cut: Cut) -> None:
        """Compute one block into its place."""
        if not hasattr(self.local, "scratch"):
            self.local.scratch = {}
        target = cut.of(self.out)
        at = kernel.Position()

        def note(kind: str, flag: int) -> None:
            steps = self.program.steps
            name = steps[at.step].ufunc.__name__ if at.step >= 0 else "an operand"
            self.noted[at.step, kind] = name

        with np.errstate(all="call", call=note):
            leaves = [leaf.block(cut, target.shape) for leaf in self.leaves]
            kernel.run_block(self.program, leaves, target, self.local.scratch, at, self.spare)


class _Leaf:
    """An operand of the program: an array, or a node that is read block by block."""

    def __init__(
        self, node: Node, index: Index | None, shape: tuple[int, ...], evaluate: Evaluate
    ) -> None:
        self.node = node
        self.index = identity(known_shape(node)) if index is None else index
        self.shift = len(shape) - len(self.index.shape)
        self.evaluate = evaluate
        self.array = None if self._is_large(shape) else evaluate(node, index)
        self.tile: np.ndarray | None = None

    def _is_large(self, shape: tuple[int, ...]) -> bool:
        """Whether the leaf varies with the result's blocks and is not memory that is lent."""
        return size_of(self.index.shape) > BLOCK_ELEMENTS and not _is_lent(self.node, self.index)

    def block(self, cut: Cut, shape: tuple[int, ...]) -> np.ndarray:
        """Return the part of the leaf that a block of the result needs."""
        axis = cut.axis - self.shift
        own = self.index.shape
        varies = 0 <= axis < len(own) and own[axis] != 1
        part = Cut(axis, cut.start, cut.stop)
        if self.array is None:
            below = part.within(own) if varies else identity(own)
            return self.evaluate(self.node, compose(self.index, below))
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


def tell(noted: dict[tuple[int, str], str]) -> None:
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
