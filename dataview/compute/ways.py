"""How something will be computed: at once, as one block, or in blocks along an axis.

This is decided here alone, before anything runs: evaluation carries it out, `_explain` prints it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, cast

import numpy as np
from numpy import ndarray

from dataview.compute import executors, programs
from dataview.compute.kernel import is_fortran
from dataview.compute.programs import Program, compiled, leaves_of
from dataview.compute.scattered import operands_of
from dataview.index import (
    Index,
    Rows,
    block_index,
    compose,
    gather,
    identity,
    row_key,
    with_a_run,
)
from dataview.index.progress import LARGE, begin
from dataview.index.sizes import sizes
from dataview.plan.kinds import (
    Driven,
    Elementwise,
    MatMul,
    Sampled,
    Select,
    Stored,
    known_dtype,
    known_shape,
    size_of,
)
from dataview.plan.node import Node, Part, Shape
from dataview.plan.places import place_of
from dataview.plan.walk import below
from dataview.sources import (
    AT_ONCE,
    Grid,
    Memo,
    Source,
    forgetting,
    grid_of,
    made_once,
    made_so_far,
    making,
    read_from,
)

LONGER = 8
"""The blocks of a single operation are up to this many times as long as others."""

LEAST_ROWS = 64
"""Blocks of several nodes have at least so many rows, which are enough for all threads."""

BLOCKS_ENOUGH = 16
"""Fewer blocks than this are not made longer: some threads would have nothing to do."""


class Cut(NamedTuple):
    """A block of a result: positions `start` to `stop` of one of its axes.

    `across` has cuts along further axes, where chunks are cut along several.
    """

    axis: int
    start: int
    stop: int
    across: tuple[Cut, ...] = ()

    def within(self, shape: Sequence[int]) -> Index:
        """Return the index of the block in an array of this shape."""
        if not shape:
            return identity(())
        index = block_index(shape, self.start, self.stop, self.axis)
        for cut in self.across:
            index = compose(index, cut.within(index.shape))
        return index

    def slices(self, shape: Sequence[int]) -> list[slice]:
        """Return which positions of each axis the block has.

        >>> Cut(1, 3, 5).slices((4, 9))
        [slice(0, 4, None), slice(3, 5, None)]
        """
        found = [slice(0, length) for length in shape]
        for cut in (self, *self.across):
            found[cut.axis] = slice(cut.start, cut.stop)
        return found

    def moved(self, by: int) -> Cut:
        """Return the block so many positions further on."""
        axis, start, stop, across = self
        return Cut(axis, start + by, stop + by, across)

    @property
    def lengths(self) -> tuple[tuple[int, int], ...]:
        """The axes that are cut, each with how many positions of it the block has."""
        return tuple([(cut.axis, cut.stop - cut.start) for cut in (self, *self.across)])

    def of(self, array: np.ndarray) -> np.ndarray:
        """Return the block of an array."""
        if not array.ndim:
            return array
        array = array[(slice(None),) * self.axis + (slice(self.start, self.stop),)]
        for cut in self.across:
            array = cut.of(array)
        return array


def cuts_along(axis: int, length: int, step: int) -> list[Cut]:
    """Return the blocks of an axis of this length, each of `step` positions but for the last.

    >>> [(cut.start, cut.stop) for cut in cuts_along(0, 5, 3)]
    [(0, 3), (3, 5)]
    """
    return [Cut(axis, start, min(start + step, length)) for start in range(0, length, step)]


def cuts_of_grid(grid: Grid, shape: Sequence[int]) -> list[Cut]:
    """Return the blocks of an array, those of the first positions of the grid's axis first.

    >>> grid = Grid(0, 3, across=(Grid(1, 5),))
    >>> [(cut.start, cut.across[0].start) for cut in cuts_of_grid(grid, (6, 9))]
    [(0, 0), (0, 5), (3, 0), (3, 5)]
    """
    every = [
        [Cut(one.axis, start, stop) for start, stop in one.cuts(shape[one.axis])]
        for one in (grid, *grid.across)
    ]
    return [first._replace(across=tuple(others)) for first, *others in itertools.product(*every)]


def cuts(
    shape: Sequence[int],
    elements: int | None = None,
    whole_rows: bool = False,
    together: int = 1,
    fortran: bool = False,
) -> list[Cut]:
    """Return the blocks of an array, along its first axis that is long enough.

    In Fortran order it is the last such axis.  Each block has a multiple of `together` positions;
    the rest, if there is one, is a block too.

    >>> [(cut.start, cut.stop) for cut in cuts((5, 2), 4)]
    [(0, 2), (2, 4), (4, 5)]
    """
    if not shape or not size_of(tuple(shape)):
        return [Cut(0, 0, shape[0] if shape else 0)]
    axis, step = block_axis(shape, elements, whole_rows, fortran)
    step = max(together, step - step % together)
    even = shape[axis] - shape[axis] % together
    ends = [*range(0, even, step), even, shape[axis]]
    return [Cut(axis, a, b) for a, b in itertools.pairwise(ends) if a < b]


def block_axis(
    shape: Sequence[int],
    elements: int | None = None,
    whole_rows: bool = False,
    fortran: bool = False,
) -> tuple[int, int]:
    """Return the axis along which an array is cut, and how many positions of it a block has."""
    elements = sizes.block_elements if elements is None else elements
    size = size_of(tuple(shape))
    wanted = -(-size // elements)
    enough = [axis for axis, length in enumerate(shape) if length >= wanted]
    nearest = (enough[-1 if fortran else 0]) if enough else int(np.argmax(shape))
    axis = 0 if whole_rows else nearest
    return axis, max(1, elements // (size // shape[axis]))


def block_elements(program: Program, size: int, read: bool = False) -> int:
    """Return how many elements a block has of a program's result, which has `size` in all.

    Narrow dtypes have more elements in as many bytes, unless operands are `read` block by block.
    A single operation has no intermediate result to reuse from the cache, so its blocks may be
    longer, as long as there are enough of them for all threads.
    """
    wide = max(dtype.itemsize for step in program.steps for dtype in step.dtypes)
    elements = sizes.block_elements * (1 if read or wide > 4 else 2)
    if len(program.steps) > 1:
        return elements
    enough = 1 if executors.is_inside() else BLOCKS_ENOUGH
    return elements * min(max(size // (elements * enough), 1), LONGER)


def is_divided(elements: int, dtype: np.dtype[Any]) -> bool:
    """Whether a result of so many elements is computed in blocks, because this is quicker.

    Most of the time of a small result goes into the first access to its new memory, and there
    threads wait for each other.  An engine takes blocks of any size.
    """
    large = elements * min(max(dtype.itemsize, 4), 8) > 64 * sizes.block_elements
    return large or programs.current_engine() == "numexpr"


def are_fortran(nodes: Sequence[Elementwise], index: Index | None) -> bool:
    """Whether all operands of the shape of some expressions lie, or are read, in Fortran order."""
    whole = known_shape(nodes[0])
    own = [leaf for leaf in compiled(*nodes).leaves if known_shape(leaf) == whole]
    return bool(own) and all(_is_fortran(leaf, index) for leaf in own)


def _is_fortran(leaf: Node, index: Index | None) -> bool:
    memory, place = memory_of(leaf), place_of(leaf)
    if memory is not None and (index is None or index.is_box):
        return is_fortran(memory if index is None else gather.read(memory, index))
    if place is None or place.source.memory is not None:
        return False
    return place.source.is_fortran(place.where if index is None else compose(place.where, index))


def is_read_in_blocks(node: Node, size: int, is_box: bool) -> bool:
    """Whether so many elements of an operand are read block by block: many, and not in memory."""
    return size > sizes.block_elements and not (is_box and aliases(node))


# --- several nodes together --------------------------------------------------------------------

REQUEST_BYTES = 1 << 26
"""Of what functions have made, about so much is remembered until all nodes have been computed."""


UNKNOWN_BYTES = 1 << 12
"""What a row of unknown length is taken for."""


def making_together(nodes: Collection[Node]) -> AbstractContextManager[None]:
    """Return the context in which several nodes are evaluated as one request.

    What functions make is remembered if several of the nodes are computed from it.
    """
    return made_once() if have_makers_in_common(nodes) else nullcontext()


def in_requests(nodes: Collection[Node], work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return work on blocks of rows of several nodes, such that each block is one request."""
    if not have_makers_in_common(nodes):
        return work

    def one(block: Any) -> Any:
        with making(None), made_once():  # of a larger request it would remember too much
            return work(block)

    return one


def have_makers_in_common(nodes: Collection[Node]) -> bool:
    """Whether several of the nodes are computed from samples that one function makes."""
    if len(nodes) < 2 or all(maker_of(part) is None for part in below(nodes)):
        return False
    seen: set[Any] = set()
    for node in nodes:
        own = makers_of(node)
        if not own.isdisjoint(seen):
            return True
        seen |= own
    return False


def makers_of(node: Node) -> set[Any]:
    """Return all that makes samples which a node is computed from."""
    return {maker for part in below([node]) if (maker := maker_of(part)) is not None}


def maker_of(part: Part) -> Any:
    """Return what makes the samples that a part reads, None if they are not made one by one."""
    return part.source.maker if isinstance(part, Stored) else part.maker


def table_of(node: Node) -> Any:
    """Return what reads all sources of a node in one pass over it, None if nothing does."""
    parts = list(below([node]))
    found = {part.source.together for part in parts if isinstance(part, Stored)}
    is_made = any(maker_of(part) is not None for part in parts)
    return None if is_made or len(found) > 1 else next(iter(found), None)


def cuts_of_request(nodes: Collection[Node]) -> Iterator[Cut | None]:
    """Yield the blocks of rows in which several nodes are computed together; None is for all.

    What functions have made for a block is remembered until all nodes have been computed.
    """
    counts = {shape[0] if (shape := rows_shape(node)) else None for node in nodes}
    count = counts.pop() if len(counts) == 1 else None
    if made_so_far() is None or count is None or count <= (step := rows_of_request(nodes)):
        yield None
        return
    yield from forgetting(cuts_along(0, count, step))


def rows_shape(node: Node) -> Shape | None:
    """Return the shape of the data of rows: those that differ in length make an array of arrays.

    It is None if too little is known of the rows, or the data are no rows.
    """
    if isinstance(node, Sampled) and node.is_of_arrays and node.count is not None:
        return (node.count,)
    return None if node.dtype is None else node.shape


def rows_of_request(nodes: Collection[Node]) -> int:
    """Return for how many rows what functions have made is remembered."""
    known = [node for node in nodes if node.shape is not None]
    row = sum(size_of(known_shape(node)[1:]) * known_dtype(node).itemsize for node in known)
    row += UNKNOWN_BYTES * (len(nodes) - len(known))
    for part in below(nodes):
        row += part.source.root.sample_bytes if isinstance(part, Stored) else part.sample_bytes
    return min(AT_ONCE, max(LEAST_ROWS, REQUEST_BYTES // max(1, row)))


class Way(NamedTuple):
    """How an expression is computed: in words, along which axis, and in blocks of which size."""

    words: str
    axis: int
    step: int
    blocks: int
    read: tuple[Node, ...]


def way_of(node: Elementwise, shape: Sequence[int]) -> Way:
    """Return how an expression is computed, or a part of it that has this shape."""
    size = size_of(tuple(shape))
    divided = is_divided(size, node.dtypes[0])
    if not shape or not size or (size <= sizes.small_elements and not divided):
        return Way("at once, small as it is", 0, max(1, *shape[:1], 0), 1, ())
    leaves = [leaf for leaf in leaves_of(node) if known_shape(leaf)]
    read = [leaf for leaf in leaves if is_read_in_blocks(leaf, size_of(known_shape(leaf)), True)]
    elements = block_elements(compiled(node), size, bool(read))
    axis, step = block_axis(shape, elements, bool(read), not read and are_fortran([node], None))
    step = min(step, shape[axis]) if divided else shape[axis]
    words = "in blocks, over threads" if step < shape[axis] else "in one block"
    return Way(words, axis, step, -(-shape[axis] // step), tuple(read))


def parts_of(node: Node) -> list[Cut]:
    """Return the blocks of rows in which the statistics of a node are computed, at least one.

    They depend on shape, dtype and chunks alone: they decide in which order numbers are added.
    """
    shape = known_shape(node)
    # A narrow result may come of wide operands, of which as many elements are read.
    row = size_of(shape[1:]) * max(4, known_dtype(node).itemsize)
    count, step = shape[0] if shape else 0, max(1, sizes.part_bytes // max(1, row))
    grid = grid_of_rows(node, step)
    if count <= grid.step and not grid.across:
        return [Cut(0, 0, count)]
    return cuts_of_grid(grid, shape)


def grid_of_rows(node: Node, step: int, index: Index | None = None) -> Grid:
    """Return the blocks in which the rows of a node are read, about `step` of them together.

    Those of an expression end where the longest chunks of its operands do.  `index` selects a part
    of the node, of which the blocks are then.
    """
    leaves = in_chunks(node)
    if not leaves:
        return Grid(0, step)
    found = []
    for leaf in leaves:
        place = place_of(leaf)
        if place is not None:
            where = place.where if index is None else compose(place.where, index)
            found.append(grid_of(place.source, where, 0, step))
    return max(found, key=lambda grid: (len(grid.across), grid.step), default=Grid(0, step))


def in_chunks(node: Node) -> list[Node]:
    """Return the operands of a node that are stored in chunks and have a row for each of its own.

    >>> from dataview.plan.build import stored
    >>> from dataview.sources import ArraySource
    >>> in_chunks(stored(ArraySource(np.zeros(3))))
    []
    """
    return [
        leaf
        for leaf in operands_of(node)
        if chunk_shape_of(leaf) and known_shape(leaf) == known_shape(node)
    ]


def row_cuts(node: Node, step: int) -> list[Cut]:
    """Return blocks of whole rows of a node, about `step` of them; chunks are in one, if small."""
    grid = grid_of_rows(node, step)
    return cuts_of_grid(Grid(0, step) if grid.across else grid, known_shape(node))


def chunk_shape_of(node: Node) -> tuple[int, ...]:
    """Return how far the chunks reach of the array that a node is a part of, if it has any."""
    if type(node) not in (Stored, Select):
        return ()
    while type(node) is Select:
        node = node.node
    return node.source.chunk_shape if isinstance(node, Stored) else ()


OPERAND_BYTES = 1 << 24
"""How much of the left operand of a product is read at a time."""


def cuts_of_product(node: MatMul, rows: Sequence[int], columns: Sequence[int]) -> list[Cut]:
    """Return the blocks of rows in which a product is computed, at least one.

    `rows` and `columns` are the shapes of what is needed of the two operands.
    """
    count, step = rows[0], rows[0]
    if len(rows) == 2 and len(columns) <= 2:
        step = OPERAND_BYTES // max(1, rows[1] * known_dtype(node.args[0]).itemsize)
    return [Cut(0, 0, count)] if count <= step else cuts_along(0, count, max(1, step))


def reuses(node: Node) -> bool:
    """Whether a node is read from a source that can read into memory that was used before."""
    while isinstance(node, Select):
        node = node.node
    return isinstance(node, Stored) and node.source.reuses


def aliases(node: Node) -> bool:
    """Whether evaluating a node returns a strided view of memory, not a copy."""
    if isinstance(node, Select):
        is_part = node.node.lent is not False and node.index.is_box  # False: it has no memory
        return is_part and aliases(node.node) and _has_strides(node)
    if isinstance(node, Driven):
        return aliases(node.node)
    if not isinstance(node, Stored) or node.source.memory is None:
        return False
    # Read-only objects are copied: no buffer can describe them.
    return node.writable or not node.source.dtype.hasobject


def _has_strides(node: Select) -> bool:
    """Whether strides may describe a part of memory: of texts of any length some parts are copied.

    The part is a box.
    """
    if node.dtype is None or node.dtype.kind != "T":
        return True
    store, index = _place_of(node)
    memory = cast(ndarray, store.source.memory)
    return index is None or gather.alias(memory, index) is not None


# --- what is in memory, and needs no way ---------------------------------------------------------


def memory_of(node: Node) -> np.ndarray | None:
    """Return a node's own memory, as the same array each time; None if evaluation must copy."""
    if node.lent is None:
        node.lent = _memory_of(node) if aliases(node) else False
    return None if node.lent is False else node.lent


_BASIC = frozenset({int, slice, type(...)})


def lend_part(part: Node, whole: Node, rows: Rows | None, key: Any) -> None:
    """Have a part lend the memory of the whole, of which it is what a key selects of rows.

    NumPy's own slice is quicker than to find out from an index where the part lies.
    """
    items = key if type(key) is tuple else (key,)
    for item in items:
        if type(item) not in _BASIC:
            return
    memory = None if type(rows) is ndarray or part.lent is not None else memory_of(whole)
    if memory is None:
        return
    if type(rows) is range:
        memory = memory[row_key(rows)]
    elif rows is not None:
        items = (rows, *items)
    # The ellipsis makes NumPy return a 0-d array, which aliases, and not a scalar.
    part.lent = memory[items if items[-1] is ... else (*items, ...)]


def _memory_of(node: Node) -> np.ndarray:
    store, index = _place_of(node)
    memory: ndarray = cast(ndarray, store.source.memory)
    found = memory[...] if index is None else gather.read(memory, index)
    return _as_changed_by(store, found)


def _place_of(node: Node) -> tuple[Stored, Index | None]:
    """Return the store that a node is a part of, and the index of the part, None for all of it."""
    index: Index | None = None
    while not isinstance(node, Stored):
        if isinstance(node, Select):
            index = node.index if index is None else compose(node.index, index)
        node = cast(Select | Driven, node).node
    return node, index


def read_stored(node: Stored, index: Index, memo: Memo) -> np.ndarray:
    """Return what an index selects from a store; memory as far as the node may change it."""
    source = node.source
    if source.memory is None:
        index = index if source.shares else with_a_run(index)
        if _is_quick(source, index):
            return read_from(source, index, memo)
        with begin("reading", None):
            return read_from(source, index, memo)
    found = source.read(index, memo)
    return _as_changed_by(node, found) if index.is_box else found


def _as_changed_by(node: Stored, found: np.ndarray) -> np.ndarray:
    """Return memory, read-only if the node may not change it."""
    return gather.frozen(found) if not node.writable and found.flags.writeable else found


def _is_quick(source: Source, index: Index) -> bool:
    """Whether few bytes are read, though some stores read whole rows.

    Nobody knows how long a function takes for several of its samples.
    """
    if source.maker is not None and index.shape[:1] > (1,):
        return False
    rows = size_of((*index.shape[:1], *source.shape[1:]))
    return rows * source.dtype.itemsize < LARGE


def own_copy(found: Any) -> Any:
    """Return data that share no memory with others and can be written to."""
    if not isinstance(found, ndarray) or (found.flags.owndata and found.flags.writeable):
        return found
    return np.array(found)
