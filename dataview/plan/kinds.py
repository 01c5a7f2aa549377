"""The kinds of nodes: each is a value that does not change, with shape, dtype and fields."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from dataview.errors import UndeclaredError, bind_text
from dataview.index import Index, is_endless
from dataview.index.shape_texts import shape_text
from dataview.plan.fields import NO_FIELDS, NO_META, Attached, Fields
from dataview.plan.node import (
    Argument,
    DType,
    Evaluate,
    LateFields,
    Node,
    Shape,
    do_not_broadcast,
    levels_above,
    told_of_operands,
    told_of_reduced,
    warn_of_rounds,
)
from dataview.plan.operations import TELLING, Ufunc, is_cast
from dataview.plan.photographs import wait
from dataview.plan.values import no_structure
from dataview.sources import Memo, Source

Extents: TypeAlias = tuple[int | None, ...]
"""A shape of which some lengths are unknown."""


RowReader: TypeAlias = "Callable[[Any], Any]"
"""A function of rows."""


_UNREAD = "the shape is unknown until a sample has been read; write d = d._probe() to read one"


class Sampled(Node):
    """Samples that are made or arrive one by one; their kinds are in the wings above.

    `node` is the node whose rows they are made of, or None.
    """

    __slots__ = ("node",)
    parts: ClassVar[tuple[str, ...]] = ("node",)

    is_sized: ClassVar[bool] = False
    """Whether the data are there, so that their size is known though they have no one shape."""

    is_of_arrays: ClassVar[bool] = False
    """Whether the data of rows are an array of arrays, since these differ in length."""

    is_filled_up: ClassVar[bool] = False
    """Whether the rows are those of `node`, filled up to one shape that a photograph finds."""

    def __init__(self, fields: Fields = NO_FIELDS, node: Node | None = None) -> None:
        super().__init__(None, None, fields)
        self.node = node

    def part(self, index: Index) -> Node:
        """Return the samples that an index on the rows alone selects."""
        raise NotImplementedError

    @property
    def row_extents(self) -> Extents | None:
        """The shape of each row as far as it is known, None if nothing of it is."""
        return None

    pass_key: Any = None
    """What is equal for rows read in one pass; None if more than their number is unknown."""

    def blocks(self, nodes: Sequence[Sampled], sizes: Sequence[int]) -> Iterator[Any]:
        """Yield all rows of several nodes, of which this is one, as they come in one pass.

        The rows of each node come in arrays of the node's size, with the number of the node.
        """
        raise NotImplementedError

    @property
    def extents(self) -> Extents | None:
        """The number of samples and what is known of each; None for one sample not looked at."""
        row = self.row_extents
        return (self.count, None) if row is None else (self.count, *row)

    def answer(self, evaluate: Evaluate, memo: Memo) -> np.ndarray:
        """Return the samples as one array."""
        raise NotImplementedError

    def taker(self, reader_of: Callable[[Node], RowReader | None], plan: Any) -> RowReader | None:
        """Return what takes rows of the samples without a plan, None if nothing can.

        `reader_of` returns what reads rows of a node without one; `plan` is returned for rows that
        need a plan.
        """
        return None

    def shapeless(self) -> Exception:
        """Return the error for a question that needs the shape, where there is none."""
        return UndeclaredError(_UNREAD)

    def flat(self) -> Node:
        """Return all elements one after the other, if they are there."""
        raise self.shapeless()

    def windows(self, size: int, step: int) -> Node:
        """Return all windows of `size` elements of each row, `step` elements apart."""
        raise self.shapeless()

    def at(self, key: Any) -> Node | None:
        """Return the part for a key that is not on rows alone, None if it has no such parts."""
        return None

    def joined(self, nodes: Sequence[Node]) -> Node | None:
        """Return the samples of several nodes one after the other, None if others join them."""
        return None

    def as_rows(self, operands: tuple[Argument, ...]) -> Lifted:
        """Return what is made of the rows, and the operands of an elementwise step for these.

        None says that the step cannot be lifted.
        """
        return None

    def as_compared(self, operands: tuple[Argument, ...]) -> Lifted:
        """Return the same for the two sides of a comparison."""
        return self.as_rows(operands)

    def of_rows(self, rows: Node) -> Node:
        """Return the same samples of what has been made of their rows."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """The number of elements."""
        return size_of(known_shape(self))

    def writable(self, values: tuple[Any, ...]) -> tuple[Node, tuple[Any, ...]]:
        """Return the node to write to in place of this one, and what of the values to write."""
        return self, values


Lifted: TypeAlias = "tuple[Sampled, tuple[Argument, ...]] | None"
"""What an elementwise step is done on instead: see `Sampled.as_rows`."""


class Stored(Node):
    """Data in a source; `writable` may be narrower than the source's own.

    `divided` says that views have some of the rows, and number labels as all rows have them.
    """

    __slots__ = ("divided", "source", "writable")

    def __init__(self, source: Source, writable: bool, fields: Fields = NO_FIELDS) -> None:
        super().__init__(source.shape, source.dtype, fields)
        self.settled = True
        self.has_gaps = source.present is not None
        self.source, self.writable, self.divided = source, writable, False

    @property
    def deterministic(self) -> bool:
        """Whether the data are the same each time they are read."""
        return self.source.deterministic


class LateStored(Stored):
    """Data of which the source finds out how many rows there are when that is first needed."""

    __slots__ = ("row",)

    def __init__(self, source: Source, row: tuple[int, ...]) -> None:
        Node.__init__(self, None, source.dtype)
        self.settled = True
        self.source = source
        self.has_gaps = source.present is not None
        self.writable = False
        self.divided = False
        self.row = row

    def __reduce__(self) -> tuple[Any, ...]:
        return LateStored, (self.source, self.row)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows, and the shape of each."""
        return self.source.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        """Do nothing: the source knows it."""

    @property
    def extents(self) -> tuple[int | None, ...]:
        """The shape without the number of rows."""
        return (None, *self.row)


class Select(Node):
    """A part of another node, by an index.

    Of a row of ragged rows `row_axes` says how many of its axes only this row has, else it is 0:
    such a row is written by one of its shape.
    """

    __slots__ = ("index", "node", "row_axes")
    parts = ("node",)

    def __init__(
        self, node: Node, index: Index, fields: Fields | LateFields, meta: Mapping[str, Any]
    ) -> None:
        super().__init__(index.shape, node.dtype, fields, meta)
        self.node, self.index, self.row_axes = node, index, 0
        self.levels = node.levels + 1
        self.has_gaps = node.has_gaps
        self.settled = node.settled


class Reshaped(Select):
    """All of another node under another shape; the index tells where each element lies there."""

    __slots__ = ()


class MatMul(Node):
    """The matrix product of two nodes."""

    __slots__ = ("args",)
    parts = ("args",)
    is_round = True

    def __init__(self, args: tuple[Node, Node], shape: Shape, dtype: DType) -> None:
        super().__init__(shape, dtype)
        self.args, self.levels = args, levels_above(args)
        self.has_gaps = any(arg.has_gaps for arg in args)
        warn_of_rounds(self)


class Elementwise(Node):
    """An elementwise ufunc of broadcast arguments; `output` is which of its results."""

    __slots__ = ("args", "depth", "dtypes", "output", "program", "ufunc")
    parts = ("args",)

    depth: int

    def __init__(
        self,
        ufunc: Ufunc,
        args: tuple[Argument, ...],
        output: int,
        shape: Shape,
        dtypes: tuple[DType, ...],
    ) -> None:
        # What Node.__init__ does, without the call: expressions are built often.
        self.shape = shape
        self.dtype = dtypes[output]
        self._fields = NO_FIELDS
        self.meta = NO_META
        self.label = self.mask = self.reader = None
        self.lent = False  # it has no memory of its own
        self.has_gaps = False
        self.followed = {}
        self.program: Any = None
        self.ufunc = ufunc
        self.args = args
        self.output, self.dtypes = output, dtypes
        depth, levels, is_told, self.settled = 1, 0, False, True
        for arg in args:
            if isinstance(arg, Node):
                nested = arg.levels
                if type(arg) is not Elementwise:
                    nested += 1
                elif arg.depth >= depth:
                    depth = arg.depth + 1
                if nested > levels:
                    levels = nested
                if arg.has_gaps:
                    self.has_gaps = ufunc not in TELLING
                self.settled = self.settled and arg.settled
                is_told = is_told or arg._fields is not NO_FIELDS or arg.meta is not NO_META
        if is_told:
            self._fields, self.meta = told_of_operands(args, shape, self.dtype, is_cast(ufunc))
        self.depth = depth
        self.levels = levels

    def forget(self) -> None:
        """Forget what has been remembered, the compiled program too."""
        super().forget()
        self.program = None
        nodes = [arg for arg in self.args if isinstance(arg, Node)]
        steps = [arg for arg in nodes if type(arg) is Elementwise]
        self.depth = 1 + max((step.depth for step in steps), default=0)
        self.levels = max((arg.levels + (type(arg) is not Elementwise) for arg in nodes), default=0)


class Comparison(Node):
    """The result of `==` or `!=`: elementwise as any ufunc, and with a truth of its own.

    Its shape is None where the operands do not broadcast: then only its truth can be asked.
    """

    __slots__ = ("args", "negated", "wholes")
    parts = ("args",)

    def __init__(
        self, args: tuple[Argument, Argument], negated: bool, shape: Shape | None, wholes: bool
    ) -> None:
        told = () if shape is None else told_of_operands(args, shape, np.dtype(bool))
        super().__init__(shape, np.dtype(bool), *told)
        self.args = args
        self.negated = negated
        self.wholes = wholes
        self.levels = levels_above(args)


class RowMaker(Protocol):
    """What makes the rows of a `Mapped` node."""

    @property
    def title(self) -> str:
        """What it is called in a message."""

    @property
    def deterministic(self) -> bool:
        """Whether it makes the same of the same row."""

    def rows(self, node: Any, numbers: np.ndarray, memo: Memo) -> np.ndarray:
        """Return rows of a node, numbered upwards."""


class Mapped(Node):
    """What a step makes of each row of a node; `path` is the way to one of its members."""

    __slots__ = ("node", "path", "step")
    parts = ("node", "step")

    def __init__(
        self,
        node: Node,
        step: RowMaker,
        path: tuple[str, ...],
        shape: Shape,
        dtype: DType,
        fields: Fields = NO_FIELDS,
        meta: Mapping[str, Any] = NO_META,
    ) -> None:
        super().__init__(shape, dtype, fields, meta)
        self.node = node
        self.step = step
        self.path = path
        self.levels = node.levels + 1


class RowsInMemory(Node):
    """Some rows of a node, in memory; it is asked for no others."""

    __slots__ = ("numbers", "values")

    def __init__(self, node: Node, numbers: np.ndarray, values: np.ndarray) -> None:
        super().__init__(node.shape, node.dtype, node._fields, node.meta)
        self.numbers = numbers
        self.values = values

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """Return the rows of these numbers."""
        return self.values[np.searchsorted(self.numbers, numbers)]


class Record(Node):
    """Fields that are arrays of their own and share `rank` leading axes.

    Columns of one structured array are such an array too: it has their gaps and their titles, and
    one value may be written to all of them.  If the rank was not given but follows from the members
    (`is_inferred`), that of some of them may be another.
    """

    __slots__ = ("are_columns", "is_inferred", "rank")
    parts = ("fields",)

    def __init__(
        self,
        fields: Fields | LateFields,
        rank: int,
        meta: Mapping[str, Any] = NO_META,
        shape: Shape | None = None,
        dtype: DType | None = None,
        are_columns: bool = False,
        is_inferred: bool = False,
    ) -> None:
        """Shape and dtype follow from the members, where these are known already."""
        if isinstance(fields, Fields) and not are_columns:
            shape = _shared_shape(fields, rank) if fields.named else shape
            dtype = _record_dtype(fields, rank)
        super().__init__(shape, dtype, fields, meta)
        self.rank = rank
        self.are_columns = are_columns
        self.is_inferred = is_inferred

    @property
    def extents(self) -> Extents | None:
        """The lengths that all members share, as far as they have one."""
        if self.shape is not None:
            return self.shape
        counts = {part.node.count for part in members(self).values()}
        shared = counts.pop() if len(counts) == 1 else None
        return (shared, *[None] * self.rank)[: self.rank]


class Driven(Node):
    """Fields of different lengths, of which one, the driver, stands for the dataset's own data."""

    __slots__ = ("driver", "node")
    parts = ("node",)

    def __init__(self, node: Node, fields: Fields, driver: str) -> None:
        super().__init__(node.shape, node.dtype, fields)
        self.node = node
        self.has_gaps = node.has_gaps
        self.driver = driver
        self.levels = node.levels + 1


class Concat(Node):
    """Nodes one after the other along the first axis; `divided` as of what is stored.

    `joined_rows` is what was found out about their rows: see `plan.joined_rows`.
    """

    __slots__ = ("divided", "joined_rows", "nodes", "starts")
    parts = ("nodes",)

    def __init__(self, nodes: tuple[Node, ...], shape: Shape, dtype: DType, fields: Fields) -> None:
        super().__init__(shape, dtype, fields)
        self.nodes, self.divided = nodes, False
        self.joined_rows: Any = None
        self.starts = np.cumsum([0, *(known_shape(node)[0] for node in nodes[:-1])])
        self.levels = levels_above(nodes)

    def forget(self) -> None:
        super().forget()
        self.joined_rows = None


class Reduction(Node):
    """A statistic over some axes; `taken` is its value once it has been needed, for good.

    `rows` holds those of its rows that have been needed before it was taken as a whole; `failed` is
    the error of a statistic that could not be taken before its data changed.
    """

    __slots__ = (
        "__weakref__", "axes", "failed", "keepdims", "kind", "node", "options", "rows", "taken",
    )  # fmt: skip
    parts = ("node",)
    is_round = True

    def __init__(
        self,
        kind: str,
        node: Node,
        axes: tuple[int, ...],
        keepdims: bool,
        options: Mapping[str, Any],
        dtype: DType,
    ) -> None:
        whole = reduced_extents(node, axes)
        kept: list[Any] = [1 if axis in axes else n for axis, n in enumerate(whole)]
        own = tuple(kept if keepdims else [n for at, n in enumerate(kept) if at not in axes])
        lead = np.shape(options["q"]) if "q" in options else ()  # several quantiles come first
        shape = lead + own
        super().__init__(shape, dtype)
        self.kind, self.node = kind, node
        self.axes, self.keepdims = axes, keepdims
        self.options = dict(options)
        self.taken: np.ndarray | None = None
        self.failed: Exception | None = None
        self.rows: Any = None
        self.levels = node.levels + 1
        warn_of_rounds(self)
        wait(self)
        shift = len(shape) - len(whole)
        self._fields, self.meta = told_of_reduced(kind, node, axes, keepdims, shift, dtype)

    def made_of(self) -> list[Any]:
        """Return the data that the value is taken of, none once it is taken."""
        return super().made_of() if self.taken is None else []

    def forget(self) -> None:
        """Forget what has been remembered; a copy without a value waits for it like others."""
        super().forget()
        if self.taken is None:
            wait(self)


class Unbound(Node):
    """Data that is not there yet: `extents` is what is known of its shape, `names` its symbols.

    The shape is None as long as one of its lengths is unknown.
    """

    __slots__ = ("extents", "names")

    extents: Extents

    def __init__(
        self, extents: Extents, dtype: DType, fields: Fields, names: tuple[str, ...]
    ) -> None:
        super().__init__(None if None in extents else extents, dtype, fields)  # type: ignore[arg-type]
        self.extents = extents
        self.names = names


class Placeholder(Unbound):
    """A symbol: a name for data that is given later."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name by which data is given."""
        return self.names[0]


# --- what is known of a node -------------------------------------------------------------------


def known_shape(node: Node) -> Shape:
    """Return a node's shape, or raise saying why it has none."""
    if node.shape is not None:
        return node.shape
    if isinstance(node, Record) and node.rank:
        parts = members(node).items()
        lengths = ", ".join(f"{name} {p.node.shape and p.node.shape[0]}" for name, p in parts)
        raise ValueError(
            "the fields have different lengths, so the view has no length, samples or data of its "
            f"own: {lengths}; take one field, or name that of its rows: dv.View(d, _driver=name)"
        )
    if isinstance(node, Comparison):
        for side in (arg for arg in node.args if isinstance(arg, Sampled) and not arg.is_sized):
            known_shape(side)  # raises if it is unknown
        raise do_not_broadcast(node.args)
    if isinstance(node, Unbound):
        shape, how = shape_text(node.extents), bind_text(node.names)
        raise UndeclaredError(f"a length of {shape} is unknown until data is given: {how}")
    if isinstance(node, Sampled):
        raise node.shapeless()
    raise UndeclaredError(_UNREAD)


def shape_for_rows(node: Node) -> Shape | None:
    """Return the shape as far as a choice of rows needs it, None if rows cannot be chosen so."""
    is_counted = node.is_numbered or (isinstance(node, Sampled) and node.is_sized)
    return (node.count or 0,) if node.shape is None and is_counted else node.shape


def reduced_extents(node: Node, axes: tuple[int, ...]) -> Extents:
    """Return the lengths of a node's axes, None for the length of a stream that is reduced."""
    known = node.extents
    is_known = isinstance(node, Sampled) and (node.is_sized or (node.pass_key and 0 in axes))
    return known if is_known and known is not None else known_shape(node)


def members(node: Record) -> dict[str, Attached]:
    """Return the parts of a record by name."""
    return {name: part for name, part in node.fields.named.items() if isinstance(part, Attached)}


def known_dtype(node: Node) -> DType:
    """Return a node's dtype, or raise asking for a sample to be read."""
    if node.dtype is None and isinstance(node, Record):
        raise no_structure(node)
    if node.dtype is None:
        raise UndeclaredError(
            "the dtype is unknown until a sample has been read; write d = d._probe() to read one"
        )
    return node.dtype


def shape_of(argument: Argument) -> Shape | None:
    """Return the shape of an argument, () for a number."""
    return argument.shape if isinstance(argument, Node) else ()


def size_of(shape: Shape) -> int:
    """Return the number of elements of a shape."""
    return math.prod(shape)


def nbytes_of(node: Any) -> int | None:
    """Return the number of bytes of a node's data, None if it is unknown or has no end."""
    extents = node.extents if isinstance(node, Sampled) and node.is_sized else node.shape
    is_late = hasattr(node, "layout") and node.layout.is_late
    if extents is None or node.dtype is None or any(map(is_endless, extents)) or is_late:
        return None
    return int(elements_of(node) * node.dtype.itemsize)


def elements_of(node: Node) -> float:
    """Return the number of a node's elements, `math.inf` if they have no end."""
    if any(map(is_endless, node.extents or ())):
        return 0 if 0 in (node.extents or ()) else math.inf
    return node.size if isinstance(node, Sampled) else size_of(known_shape(node))


def _shared_shape(fields: Fields, rank: int) -> Shape | None:
    parts = fields.named.values()
    shapes = {_leading_shape(part.node, rank) for part in parts if isinstance(part, Attached)}
    return shapes.pop() if len(shapes) == 1 else None


def _leading_shape(node: Node, rank: int) -> Shape | None:
    if isinstance(node, Sampled) and rank == 1 and node.count is not None:
        return (node.count,)
    return None if node.shape is None else node.shape[:rank]


def _record_dtype(fields: Fields, rank: int) -> DType | None:
    parts: list[Any] = []
    for name, field in fields.named.items():
        node = field.node if isinstance(field, Attached) else None
        if node is None or node.dtype is None or node.shape is None:
            return None
        parts.append((name, node.dtype, node.shape[rank:]))
    try:
        return np.dtype(parts)
    except (TypeError, ValueError):  # texts of any length, or samples of more than 2 GB
        return None
