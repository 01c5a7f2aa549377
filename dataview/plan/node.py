"""What every step of a plan has: shape, dtype, fields, and how it was reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from dataview.index import Index
from dataview.plan.fields import NO_FIELDS, NO_META, Fields

Shape: TypeAlias = tuple[int, ...]
DType: TypeAlias = np.dtype[Any]
Argument: TypeAlias = "Node | int | float | complex"
Evaluate: TypeAlias = "Callable[..., np.ndarray]"


class LateFields:
    """The fields of a part of a node: worked out from the node's own when somebody asks."""

    __slots__ = ("follow", "index", "key", "node")

    def __init__(
        self, node: Node, index: Index, key: Any, follow: Callable[[Node, Index, Any], Fields]
    ) -> None:
        self.node = node
        self.index = index
        self.key = key
        self.follow = follow

    def followed(self) -> Fields:
        """Return the fields."""
        return self.follow(self.node, self.index, self.key)


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


class Node:
    """A step of a plan; shape and dtype are None where they cannot be known without reading.

    The fields of a part are worked out when they are first asked for.  `label` is how the node was
    reached, for those who show it.  `lent`, `reader` and `followed` remember what has been asked of
    the node before; they are not pickled.
    """

    __slots__ = ("_fields", "dtype", "followed", "label", "lent", "meta", "reader", "shape")

    shape: Shape | None
    dtype: DType | None
    meta: Mapping[str, Any]

    lifts: ClassVar[bool] = False
    """Whether a step on the node may be done on its rows instead: see `Sampled.as_rows`."""

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
        self.forget()

    @property
    def fields(self) -> Fields:
        """The field tree."""
        if isinstance(self._fields, LateFields):
            self._fields = self._fields.followed()
        return self._fields

    def forget(self) -> None:
        """Forget what has been remembered."""
        self.lent: Any = None
        self.reader: Any = None
        self.followed: dict[str, Node | None] = {}

    def replaced(self, **changes: Any) -> Any:
        """Return a copy of the node with some of its slots changed."""
        if "fields" in changes:
            changes["_fields"] = changes.pop("fields")
        other = object.__new__(type(self))
        for kind in type(self).__mro__[:-1]:
            for slot in kind.__dict__.get("__slots__", ()):
                setattr(other, slot, changes.get(slot, getattr(self, slot)))
        other.forget()
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        slots = [slot for kind in type(self).__mro__[:-1] for slot in kind.__dict__["__slots__"]]
        state = {slot: getattr(self, slot) for slot in slots}
        state["_fields"] = self.fields
        state["meta"] = dict(self.meta)
        for remembered in ("lent", "reader", "followed", "program"):
            state.pop(remembered, None)
        return _unpickled, (type(self), state)


def _unpickled(kind: type[Node], state: dict[str, Any]) -> Node:
    node = object.__new__(kind)
    for slot, value in state.items():
        setattr(node, slot, value)
    node.meta = MappingProxyType(state["meta"]) if state["meta"] else NO_META
    node.forget()
    return node
