"""The node kinds of a plan: immutable values that hold arguments, shape, dtype and fields.

What is done with nodes (reading, writing, showing) is in the files above; the functions here only
build them, and check what can be known without data.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from dataview.errors import UndeclaredError
from dataview.fields import NO_FIELDS, NO_META, Attached, Fields, through, window_index
from dataview.index import Affine, Index, axes_of, compose, is_identity
from dataview.sources.protocol import Source

__all__ = [
    "Argument",
    "Comparison",
    "Concat",
    "Driven",
    "Elementwise",
    "Evaluate",
    "Node",
    "Record",
    "Reduction",
    "Sampled",
    "Select",
    "Shape",
    "Stored",
    "arguments",
    "comparison",
    "elementwise",
    "field",
    "is_scalar",
    "read_only",
    "record",
    "row_field",
    "rows_of",
    "select",
    "size_of",
    "stored",
    "with_fields",
]

Shape: TypeAlias = tuple[int, ...]
DType: TypeAlias = np.dtype[Any]


class Node:
    """A step of a plan; shape and dtype are None where they cannot be known without reading.

    `lent` and `followed` remember what has been asked of the node before; they are not pickled.
    """

    __slots__ = ("dtype", "fields", "followed", "lent", "meta", "shape")

    shape: Shape | None
    dtype: DType | None
    fields: Fields
    meta: Mapping[str, Any]

    def __init__(
        self,
        shape: Shape | None,
        dtype: DType | None,
        fields: Fields = NO_FIELDS,
        meta: Mapping[str, Any] = NO_META,
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.fields = fields
        self.meta = meta
        self.forget()

    def forget(self) -> None:
        """Forget what has been remembered."""
        self.lent: Any = None
        self.followed: dict[str, Node | None] = {}

    def replaced(self, **changes: Any) -> Any:
        """Return a copy of the node with some of its slots changed."""
        other = object.__new__(type(self))
        for kind in type(self).__mro__[:-1]:
            for slot in kind.__dict__.get("__slots__", ()):
                setattr(other, slot, changes.get(slot, getattr(self, slot)))
        other.forget()
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        slots = [slot for kind in type(self).__mro__[:-1] for slot in kind.__dict__["__slots__"]]
        state = {slot: getattr(self, slot) for slot in slots}
        state["meta"] = dict(self.meta)
        del state["lent"], state["followed"]
        return _unpickled, (type(self), state)


def _unpickled(kind: type[Node], state: dict[str, Any]) -> Node:
    node = object.__new__(kind)
    for slot, value in state.items():
        setattr(node, slot, value)
    node.meta = MappingProxyType(state["meta"]) if state["meta"] else NO_META
    node.forget()
    return node


Argument: TypeAlias = "Node | int | float | complex"


Evaluate: TypeAlias = "Callable[[Node], np.ndarray]"


class Sampled(Node):
    """Samples that are made or arrive one by one; the kinds are in `streams`."""

    __slots__ = ()

    @property
    def count(self) -> int | None:
        """The number of samples, None where it is unknown."""
        return None

    def part(self, index: Index) -> Node:
        """Return the samples that an index on the rows alone selects."""
        raise NotImplementedError

    def answer(self, evaluate: Evaluate) -> np.ndarray:
        """Return the samples as one array."""
        raise NotImplementedError


class Stored(Node):
    """Data in a source; `writable` may be narrower than the source's own."""

    __slots__ = ("source", "writable")

    def __init__(self, source: Source, writable: bool, fields: Fields = NO_FIELDS) -> None:
        super().__init__(source.shape, source.dtype, fields)
        self.source = source
        self.writable = writable


class Select(Node):
    """A part of another node, by an index."""

    __slots__ = ("index", "node")

    def __init__(self, node: Node, index: Index, fields: Fields, meta: Mapping[str, Any]) -> None:
        super().__init__(index.shape, node.dtype, fields, meta)
        self.node = node
        self.index = index


class Elementwise(Node):
    """An elementwise ufunc of broadcast arguments; `output` is which of its results."""

    __slots__ = ("args", "dtypes", "output", "ufunc")

    def __init__(
        self,
        ufunc: np.ufunc,
        args: tuple[Argument, ...],
        output: int,
        shape: Shape,
        dtypes: tuple[DType, ...],
    ) -> None:
        super().__init__(shape, dtypes[output], _elementwise_fields(args, shape))
        self.ufunc = ufunc
        self.args = args
        self.output = output
        self.dtypes = dtypes


class Comparison(Node):
    """The result of `==` or `!=`: elementwise as any ufunc, and with a truth of its own.

    Its shape is None where the operands do not broadcast: then only its truth can be asked.
    """

    __slots__ = ("args", "negated")

    def __init__(self, args: tuple[Argument, Argument], negated: bool, shape: Shape | None) -> None:
        fields = NO_FIELDS if shape is None else _elementwise_fields(args, shape)
        super().__init__(shape, np.dtype(bool), fields)
        self.args = args
        self.negated = negated


class Record(Node):
    """Fields that are arrays of their own and share `rank` leading axes."""

    __slots__ = ("rank",)

    def __init__(
        self,
        fields: Fields,
        rank: int,
        meta: Mapping[str, Any] = NO_META,
        shape: Shape | None = None,
    ) -> None:
        """`shape` is that of a record without any members; others know theirs."""
        shape = _shared_shape(fields, rank) if fields.named else shape
        super().__init__(shape, _record_dtype(fields, rank), fields, meta)
        self.rank = rank


class Driven(Node):
    """Fields of different lengths, of which one stands for the dataset's own data."""

    __slots__ = ("node",)

    def __init__(self, node: Node, fields: Fields) -> None:
        super().__init__(node.shape, node.dtype, fields)
        self.node = node


class Concat(Node):
    """Nodes one after the other along the first axis."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: tuple[Node, ...], shape: Shape, dtype: DType, fields: Fields) -> None:
        super().__init__(shape, dtype, fields)
        self.nodes = nodes


class Reduction(Node):
    """A statistic over some axes; `taken` is its value once it has been needed, for good."""

    __slots__ = ("axes", "keepdims", "kind", "node", "options", "taken")

    def __init__(
        self,
        kind: str,
        node: Node,
        axes: tuple[int, ...],
        keepdims: bool,
        options: Mapping[str, Any],
        dtype: DType,
    ) -> None:
        whole = known_shape(node)
        kept = [1 if axis in axes else n for axis, n in enumerate(whole)]
        shape = tuple(n for axis, n in enumerate(kept) if keepdims or axis not in axes)
        super().__init__(shape, dtype)
        self.kind = kind
        self.node = node
        self.axes = axes
        self.keepdims = keepdims
        self.options = dict(options)
        self.taken: np.ndarray | None = None
        if keepdims or axes == tuple(range(len(axes))):
            self.fields = _elementwise_fields((node,), shape) if shape else NO_FIELDS


# --- building --------------------------------------------------------------------------------


def stored(source: Source, writable: bool | None = None) -> Stored:
    """Return the node of a source, with a field for each name of a structured dtype."""
    writable = source.writable if writable is None else writable
    axes = tuple(range(len(source.shape)))
    named = {
        name: Attached(stored(source.member(name), writable), axes)
        for name in source.dtype.names or ()
    }
    return Stored(source, writable, Fields(named) if named else NO_FIELDS)


def select(node: Node, index: Index, key: Any = None, fields: Fields | None = None) -> Node:
    """Return the part of a node that an index selects, with the fields that survive."""
    if isinstance(node, Sampled):
        return node.part(index)
    shape = known_shape(node)
    if fields is None:
        if is_identity(index, shape) and not isinstance(node, Comparison):
            return node
        fields = through(node.fields, index, _key_text(key, index), select)
    if isinstance(node, Record):
        return Record(fields, len(index.shape), node.meta, index.shape)
    if isinstance(node, Driven):
        whole = select(node.node, index, key)
        seen = Fields(whole.fields.named, fields.lost | whole.fields.lost)
        return with_fields(whole, seen)
    meta = node.meta if _only_rows(index, shape) else NO_META
    if isinstance(node, Select):
        return Select(node.node, compose(node.index, index), fields, meta)
    return Select(node, index, fields, meta)


def field(node: Node, name: str) -> Node:
    """Return the node of a field that the node has."""
    found = node.fields.named[name]
    if isinstance(found, Attached):
        attached: Node = found.node
        return attached
    index = window_index(found, known_shape(node))
    inside = through(found.fields, index, name, select)
    part = select(node, index, fields=inside)
    if found.meta is not part.meta:
        part = part.replaced(meta=found.meta)
    return part


def row_field(node: Node, name: str) -> Node | None:
    """Return a field's node if its rows are the node's rows, so that row keys pass to it."""
    try:
        return node.followed[name]
    except KeyError:
        pass
    part = node.fields.named.get(name)
    if isinstance(part, Attached):
        follows = part.axes is not None and part.axes[:1] == (0,)
    else:
        follows = part is not None and 0 not in part.positions
    found = field(node, name) if follows else None
    if found is not None and not found.shape:  # unknown until probed
        found = None
    node.followed[name] = found
    return found


def known_shape(node: Node) -> Shape:
    """Return a node's shape, or raise saying why it has none."""
    if node.shape is not None:
        return node.shape
    if isinstance(node, Record):
        parts = members(node).items()
        lengths = {name: part.node.shape and part.node.shape[0] for name, part in parts}
        raise ValueError(
            "the fields have different lengths, so the view has no length, samples or data of its "
            f"own: {_listing(lengths)}; name the field that stands for it with _driver="
        )
    if isinstance(node, Comparison):
        shapes = " and ".join(str(shape_of(arg)) for arg in node.args)
        raise ValueError(f"the sides of the comparison do not broadcast together: {shapes}")
    raise UndeclaredError(
        "the shape is unknown until a sample has been read; call _probe() to read one"
    )


def members(node: Record) -> dict[str, Attached]:
    """Return the parts of a record by name."""
    return {name: part for name, part in node.fields.named.items() if isinstance(part, Attached)}


def _listing(lengths: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {length}" for name, length in lengths.items())


def record(named: Mapping[str, Node], rank: int | None = None) -> Record:
    """Return the record of named members; a 0-d member makes it a single sample."""
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
    return Record(Fields({name: Attached(node, axes) for name, node in named.items()}), rank)


def _of_rank(node: Node, rank: int) -> Node:
    """Return a record inside a record such that it shares as many axes."""
    if isinstance(node, Record) and node.rank < rank:
        return record({name: part.node for name, part in members(node).items()}, rank)
    return node


def known_dtype(node: Node) -> DType:
    """Return a node's dtype, or raise asking for a sample to be read."""
    if node.dtype is None:
        raise UndeclaredError(
            "the dtype is unknown until a sample has been read; call _probe() to read one"
        )
    return node.dtype


def is_scalar(value: Any) -> bool:
    """Whether NumPy gives the value the dtype of what it meets (a Python number)."""
    return type(value) in (bool, int, float, complex)


def shape_of(argument: Argument) -> Shape | None:
    """Return the shape of an argument, () for a number."""
    return argument.shape if isinstance(argument, Node) else ()


def elementwise(ufunc: np.ufunc, args: tuple[Argument, ...]) -> tuple[Elementwise, ...]:
    """Return the nodes of a ufunc's results; NumPy's own errors rise here, on empty arrays."""
    for arg in args:
        if isinstance(arg, (Record, Driven)):
            names = ", ".join(map(repr, arg.fields))
            raise TypeError(f"{ufunc.__name__} of a record is not defined; choose a field: {names}")
    shapes = [known_shape(arg) if isinstance(arg, Node) else () for arg in args]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        listing = " ".join(map(str, shapes))
        raise ValueError(
            f"operands of {ufunc.__name__} could not be broadcast together with shapes {listing}"
        ) from None
    operands = tuple(known_dtype(arg) if isinstance(arg, Node) else arg for arg in args)
    dtypes = _result_dtypes(ufunc, operands, tuple(map(type, operands)))
    return tuple(Elementwise(ufunc, args, number, shape, dtypes) for number in range(len(dtypes)))


@lru_cache(maxsize=1024)
def _result_dtypes(ufunc: np.ufunc, operands: tuple[Any, ...], _: Any) -> tuple[DType, ...]:
    """Return the dtypes of a ufunc's results, by asking NumPy about empty arrays.

    The operands' types are part of the cache's key: 1, 1.0 and True are equal, and not alike.
    """
    empties = [np.empty(0, op) if isinstance(op, np.dtype) else op for op in operands]
    with np.errstate(all="ignore"):
        found = ufunc(*empties)
    results = found if isinstance(found, tuple) else (found,)
    return tuple(np.asarray(part).dtype for part in results)


def comparison(left: Argument, right: Argument, negated: bool) -> Comparison:
    """Return the node of `==` or `!=`; it can always be built."""
    shapes = shape_of(left), shape_of(right)
    shape: Shape | None = None
    if shapes[0] is not None and shapes[1] is not None:
        try:
            shape = np.broadcast_shapes(shapes[0], shapes[1])
        except ValueError:
            shape = None
    return Comparison((left, right), negated, shape)


def _elementwise_fields(args: Iterable[Argument], shape: Shape) -> Fields:
    """Return the windows of the first argument whose last axes the result has."""
    for arg in args:
        if isinstance(arg, Node) and arg.fields.named and not isinstance(arg, Record):
            shift = len(shape) - len(arg.shape or ())

            def fits(axis: int, arg: Node = arg, shift: int = shift) -> bool:
                return (arg.shape or ())[axis] == shape[axis + shift]

            kept = arg.fields.windows_only(shift, fits)
            if kept.named:
                return kept
    return NO_FIELDS


def with_fields(node: Node, fields: Fields) -> Node:
    """Return the node under another field tree."""
    if isinstance(node, Record):
        return Record(fields, node.rank, node.meta)
    changed: Node = node.replaced(fields=fields)
    return changed


def read_only(node: Node) -> Node:
    """Return the same node such that nothing can be written through it."""
    named = {
        name: Attached(read_only(field.node), field.axes) if isinstance(field, Attached) else field
        for name, field in node.fields.named.items()
    }
    fields = Fields(named, node.fields.lost)
    changes: dict[str, Any] = {}
    if isinstance(node, Stored):
        changes = {"writable": False}
    elif isinstance(node, (Select, Driven)):
        changes = {"node": read_only(node.node)}
    elif isinstance(node, Concat):
        changes = {"nodes": tuple(map(read_only, node.nodes))}
    changed: Node = node.replaced(**changes)
    return with_fields(changed, fields)


def arguments(node: Node) -> list[Node]:
    """Return the nodes that a node's data is made of."""
    if isinstance(node, (Elementwise, Comparison)):
        return [arg for arg in node.args if isinstance(arg, Node)]
    if isinstance(node, Record):
        return [part.node for part in members(node).values()]
    if isinstance(node, Concat):
        return list(node.nodes)
    if isinstance(node, Reduction) and node.taken is not None:
        return []
    return [node.node] if isinstance(node, (Select, Driven, Reduction)) else []


# --- asking ----------------------------------------------------------------------------------


def rows_of(node: Node) -> int | None:
    """Return the length of the first axis, None if it has none or it is unknown."""
    return node.shape[0] if node.shape else None


def size_of(shape: Shape) -> int:
    """Return the number of elements of a shape."""
    count = 1
    for length in shape:
        count *= length
    return count


def _shared_shape(fields: Fields, rank: int) -> Shape | None:
    shapes = {
        _leading_shape(field.node, rank)
        for field in fields.named.values()
        if isinstance(field, Attached)
    }
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
    return np.dtype(parts)


def _only_rows(index: Index, shape: Shape) -> bool:
    """Whether an index leaves every axis but the first as it is."""
    used = set(axes_of(index.maps[0])) if index.maps else set()
    for map_, length in zip(index.maps[1:], shape[1:], strict=True):
        if not isinstance(map_, Affine) or map_.offset or len(map_.strides) != 1:
            return False
        axis, stride = map_.strides[0]
        if stride != 1 or index.shape[axis] != length or axis in used:
            return False
    return True


def _key_text(key: Any, index: Index) -> str:
    """Return a key as a reader would write it, arrays abbreviated."""
    if key is None:
        return "this view"
    parts = key if isinstance(key, tuple) else (key,)
    return f"[{', '.join(map(_part_text, parts))}]"


def _part_text(part: Any) -> str:
    if isinstance(part, (slice, range)):
        ends = (part.start, part.stop, part.step)
        text = ":".join("" if end is None else str(end) for end in ends[:2])
        return text if ends[2] in (None, 1) else f"{text}:{ends[2]}"
    if part is Ellipsis:
        return "..."
    if part is None:
        return "None"
    try:
        return str(operator.index(part))
    except TypeError:
        array = np.asarray(part)
        return str(array.tolist()) if array.size <= 6 else f"<{array.dtype} {array.shape}>"
