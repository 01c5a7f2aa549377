"""What every step of a plan has: shape, dtype, fields, and how it was reached."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np

from dataview.errors import warn
from dataview.index import Index
from dataview.plan.fields import (
    NO_FIELDS,
    NO_META,
    Attached,
    Fields,
    computed_meta,
    meta_of_values,
    read_only_meta,
)
from dataview.plan.statistics import STATISTICS

Shape: TypeAlias = tuple[int, ...]
DType: TypeAlias = np.dtype[Any]
Argument: TypeAlias = "Node | int | float | complex"
Evaluate: TypeAlias = "Callable[..., np.ndarray]"


@dataclass(slots=True, eq=False, repr=False)
class LateFields:
    """How to work out the fields of a part from those of the node, once they are used."""

    node: Node
    index: Index
    key: Any
    follow: Callable[[Node, Index, Any], Fields]


class Label(NamedTuple):
    """The fields by whose names a node was reached, their shape, and which part of it this is."""

    names: tuple[str, ...]
    shape: Shape | None
    part: Index | None = None

    def of_part(self, index: Index) -> Label:
        """Return the label of a part; of a part that is no plain slice, only that it is one."""
        plain = self.part is None and index.is_box
        return Label(self.names, self.shape, index if plain else SOME_PART)


SOME_PART = Index((), ())


class Part:
    """An element of a plan: a node, a function of rows, or the samples of a stream.

    Each kind declares which of its slots hold other parts; this is all that `plan.walk` uses.
    """

    __slots__ = ()

    parts: ClassVar[tuple[str, ...]] = ()
    """The slots that hold the parts its data are made of: a part, None, or several parts."""

    def made_of(self) -> list[Any]:
        """Return the parts that its data are made of."""
        return [part for slot in self.parts for part in parts_in(getattr(self, slot))]

    def held_slots(self) -> tuple[str, ...]:
        """Return the slots with all parts that it holds."""
        return self.parts

    def held(self) -> list[Any]:
        """Return all parts that it holds, including those that its data no longer need."""
        return [part for slot in self.held_slots() for part in parts_in(getattr(self, slot))]

    def with_parts(self, new: Callable[[Any], Any]) -> Self:
        """Return a copy with other parts, itself if they are the same."""
        values = {slot: getattr(self, slot) for slot in self.held_slots()}
        changes = {slot: with_parts_in(value, new) for slot, value in values.items()}
        changes = {slot: value for slot, value in changes.items() if value is not values[slot]}
        return self.replaced(**changes) if changes else self

    maker: Any = None
    """What makes samples one by one, the same for all parts that are made by it; None if none."""

    sample_bytes: int = 0
    """How large a sample is that it makes, as far as that is known."""

    @property
    def deterministic(self) -> bool:
        """Whether it makes the same of the same parts each time."""
        return True

    def replaced(self, **changes: Any) -> Self:
        """Return a copy with some slots changed."""
        kind: Any = type(self)  # Any: mypy takes the hash of an object for that of its class
        other = object.__new__(kind)
        for slot in slots_of(kind):
            setattr(other, slot, changes[slot] if slot in changes else getattr(self, slot))
        return other  # type: ignore[no-any-return]


@functools.cache
def slots_of(kind: Any) -> list[str]:
    """Return the names of all slots of a class."""
    slots = [slot for base in kind.__mro__[:-1] for slot in base.__dict__.get("__slots__", ())]
    return [slot for slot in slots if slot != "__weakref__"]


def parts_in(value: Any) -> list[Any]:
    """Return the parts in tuples, lists and fields."""
    if isinstance(value, Part):
        return [value]
    if isinstance(value, (tuple, list)):
        return [part for inner in value for part in parts_in(inner)]
    if isinstance(value, Fields):
        return [field.node for field in value.named.values() if isinstance(field, Attached)]
    return []


def with_parts_in(value: Any, new: Callable[[Part], Any]) -> Any:
    """Return a value with other parts in it; the same value if they are the same."""
    if isinstance(value, Part):
        return new(value)
    if type(value) in (tuple, list):
        changed = [with_parts_in(inner, new) for inner in value]
        same = all(inner is old for inner, old in zip(changed, value, strict=True))
        return value if same else type(value)(changed)
    if isinstance(value, Fields):
        return value.with_nodes(new)
    return value


class Node(Part):
    """A step of a plan; shape and dtype are None where they cannot be known without reading.

    The fields of a part are worked out when they are first used.  `label` says how the node was
    reached, so that it can be shown.  `has_gaps` says that values may be missing of which a mask
    tells, and `mask` is that mask where the node has one of its own: see `plan.gaps`.  `lent`,
    `reader`, `followed` and `settled` are caches of what was computed about the node; they are not
    pickled.
    """

    __slots__ = (
        "_fields",
        "dtype",
        "followed",
        "has_gaps",
        "label",
        "lent",
        "levels",
        "mask",
        "meta",
        "reader",
        "settled",
        "shape",
    )

    shape: Shape | None
    dtype: DType | None
    meta: Mapping[str, Any]

    lifts: ClassVar[bool] = False
    """Whether a step on the node may be done on its rows instead: see `Sampled.as_rows`."""

    @property
    def is_numbered(self) -> bool:
        """Whether it has groups of rows of no one shape, of which each is chosen by its number."""
        return False

    def group(self, number: int) -> tuple[Node, range] | None:
        """Return a node and the rows of it that a group is, None if it has no groups of rows."""
        return None

    def __init__(
        self,
        shape: Shape | None,
        dtype: DType | None,
        fields: Fields | LateFields = NO_FIELDS,
        meta: Mapping[str, Any] = NO_META,
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self._fields = fields
        self.meta = meta
        self.label: Label | None = None
        self.mask: Node | None = None
        self.has_gaps = False
        self.levels = 0
        # What `forget` does, without the call: a loader makes nodes for every batch.
        self.lent: Any = None
        self.reader: Any = None
        self.followed: dict[str, Node | None] = {}
        self.settled = False

    is_round: ClassVar[bool] = False
    """Whether the node is a statistic or a product, as each round of a loop has."""

    @property
    def extents(self) -> tuple[int | None, ...] | None:
        """The shape with None for lengths that are unknown, or None if nothing of it is known."""
        return self.shape

    @property
    def count(self) -> int | None:
        """The number of rows, None if it is unknown or there are none to count."""
        return self.shape[0] if self.shape else None

    @property
    def fields(self) -> Fields:
        """The field tree."""
        if isinstance(self._fields, LateFields):
            late = self._fields
            self._fields = late.follow(late.node, late.index, late.key)
        return self._fields

    def forget(self) -> None:
        """Forget what has been remembered."""
        self.lent = self.reader = None
        self.followed = {}
        self.settled = False

    def attached(self) -> list[Any]:
        """Return the nodes of its fields that have one of their own."""
        return [] if self._fields is NO_FIELDS else parts_in(self.fields)

    def held_slots(self) -> tuple[str, ...]:
        """Return the slots with all parts that it holds: its fields may have nodes too.

        So may its mask, which its data do not need.
        """
        return (*self.parts, "mask") if "fields" in self.parts else (*self.parts, "fields", "mask")

    def replaced(self, **changes: Any) -> Self:
        """Return a copy of the node with some of its slots changed."""
        if "fields" in changes:
            changes["_fields"] = changes.pop("fields")
        other = super().replaced(**changes)
        if not changes.keys().isdisjoint(self.parts):
            other.levels = levels_above(other.made_of())
        other.forget()
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        kind: Any = type(self)
        state = {slot: getattr(self, slot) for slot in slots_of(kind)}
        state["_fields"] = self.fields
        state["meta"] = dict(self.meta)
        for remembered in REMEMBERED:
            state.pop(remembered, None)
        return _unpickled, (kind, state)


def levels_above(parts: Iterable[Any]) -> int:
    """Return how many evaluations are nested in that of a node made of these parts."""
    levels = 0
    for part in parts:  # no generator: every expression that is built comes here
        if isinstance(part, Node) and part.levels >= levels:
            levels = part.levels + 1
    return levels


DEEP = 100
"""From so many levels on, the statistics and products inside each other are counted."""

ROUNDS = 30
"""So many of them look like a loop that goes on with its own result."""

STEPS = 2000
"""The counting ends after so many steps: then most of them are no statistics."""


def warn_of_rounds(node: Node) -> None:
    """Warn if many statistics and products are inside each other."""
    if node.levels <= DEEP:
        return
    found = 0
    for _ in range(STEPS):
        found += node.is_round
        inside = [part for part in node.made_of() if isinstance(part, Node)]
        if found == ROUNDS or not inside:
            break
        node = max(inside, key=lambda part: part.levels)
    if found == ROUNDS:
        warn(
            f"{ROUNDS} and more statistics or products are inside each other, as in a loop that "
            "goes on with its own result: the expression grows in each round, and computing it "
            "begins with the first; compute each round, as in b = (b - step)(), or keep its result "
            "as a view, as in b = (b - step)._freeze()",
            once=True,
        )


Told: TypeAlias = tuple[Fields, Mapping[str, Any]]
"""Windows and metadata."""


def told_of_operands(
    args: Sequence[Argument], shape: Shape, dtype: DType, is_cast: bool = False
) -> Told:
    """Return the windows and metadata that an elementwise result has of its arguments.

    The windows are those of the first argument whose last axes the result has, the metadata those
    of the arguments that have its shape, if all agree that have a whole row of it.
    """
    width = math.prod(shape[1:])
    told: dict[bool, list[Mapping[str, Any]]] = {True: [], False: []}
    for arg in args:
        if isinstance(arg, Node) and arg.meta is not NO_META and arg.shape is not None:
            is_like = arg.shape == shape
            if is_like or (width > 1 and math.prod(arg.shape[1 - len(shape) :]) == width):
                meta = computed_meta(arg.meta, dtype, is_cast)
                told[is_like] += [meta] if meta else []
    found, rows = told[True], told[False]
    agree = found and all(meta == found[0] for meta in found + rows)
    return _windows_of(args, shape).computed(dtype, is_cast), found[0] if agree else NO_META


def _windows_of(args: Sequence[Argument], shape: Shape) -> Fields:
    for arg in args:
        if not isinstance(arg, Node) or arg._fields is NO_FIELDS:
            continue
        if arg.fields.named:
            shift = len(shape) - len(arg.shape or ())

            def fits(axis: int, arg: Node = arg, shift: int = shift) -> bool:
                return (arg.shape or ())[axis] == shape[axis + shift]

            kept = arg.fields.windows_only(shift, fits)
            if kept.named:
                return kept
    return NO_FIELDS


def told_of_reduced(
    kind: str, node: Node, axes: tuple[int, ...], keepdims: bool, shift: int, dtype: DType
) -> Told:
    """Return the windows and metadata that a statistic over some axes has of its data.

    It has `shift` more axes in front.  Extremes are values of the data.
    """
    fields = NO_FIELDS
    if node._fields is not NO_FIELDS and (keepdims or axes == tuple(range(len(axes)))):
        fields = node.fields.windows_only(shift, lambda axis: axis not in axes).computed(dtype)
    is_over_rows = axes == (0,) and len(node.shape or ()) > 1
    found = computed_meta(node.meta, dtype) if is_over_rows else NO_META
    own = meta_of_values(node.meta) if STATISTICS[kind].is_extreme else NO_META
    return fields, read_only_meta({**found, **own}) if own else found


REMEMBERED = (
    "lent", "reader", "followed", "program", "settled", "laid", "lying", "next_pass", "joined_rows",
)  # fmt: skip
"""The slots of nodes that are caches."""


def check_comparable(sides: Sequence[Argument]) -> None:
    """Raise NumPy's error if it does not compare data of two dtypes by `==`, as far as known."""
    dtypes = [side.dtype if isinstance(side, Node) else np.dtype(type(side)) for side in sides]
    if not any(dtype is None for dtype in dtypes):  # float64 equals None
        operator.eq(*[np.empty(0, dtype) for dtype in dtypes])


def do_not_broadcast(sides: Sequence[Argument]) -> ValueError:
    """Return the error for sides of a comparison that do not broadcast.

    Of data of two dtypes that NumPy does not compare, its own error rises here, as it does first.
    """
    check_comparable(sides)
    extents = [side.extents if isinstance(side, Node) else () for side in sides]
    shapes = " and ".join(str(each).replace("None", "?") for each in extents)
    return ValueError(f"the sides of the comparison do not broadcast together: {shapes}")


def _unpickled(kind: type[Node], state: dict[str, Any]) -> Node:
    node = object.__new__(kind)
    for slot, value in state.items():
        setattr(node, slot, value)
    node.meta = read_only_meta(state["meta"])
    node.forget()
    return node
