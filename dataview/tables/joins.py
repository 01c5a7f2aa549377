"""Rows of other data found by key, as fields beside the data's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from dataview.compute import evaluate, rows_of, run_blocks
from dataview.errors import FieldError, chained, shortened
from dataview.index import LINE, Computed, axis_index, parse
from dataview.index.flat import shaped
from dataview.plan.build import field, record, select, stored
from dataview.plan.concat import concat
from dataview.plan.gaps import (
    MASK,
    NO_LABEL,
    free_name,
    holds_codes,
    masks_in,
    noted,
    present_in,
    put_mask,
    telling,
    with_mask,
)
from dataview.plan.guards import check_ends
from dataview.plan.kinds import Mapped, Record, known_dtype, known_shape
from dataview.plan.node import Node, Part
from dataview.plan.operations import nothing_in
from dataview.plan.photographs import RowNumbers
from dataview.plan.ragged import Ragged
from dataview.sources import ArraySource, Memo
from dataview.tables.coding import coder, in_order, labelled, without_gaps
from dataview.tables.labels import BLOCK, check_same_family, in_labels
from dataview.tables.unique import counted

_POLICIES = ("error", "mask")

_BOOL = np.dtype(bool)


def joined(node: Node, other: Node, on: str | tuple[str, str] | None, missing: str) -> Node:
    """Return the fields of a node with those of other data, at the rows that have the same key."""
    if missing not in _POLICIES:
        raise ValueError(f"missing= is 'error' or 'mask'; got {missing!r}")
    on = _common(node, other) if on is None else on
    ours, theirs = _names(on)
    for side in (node, other):
        check_ends(side, "_join")
    left, right = _key(node, ours), _key(other, theirs)
    check_same_family(left, right, f"the keys {ours!r} and {theirs!r} of _join")
    left, right = in_labels(left), in_labels(right)
    there = {"left": present_in(field(node, ours)), "right": present_in(field(other, theirs))}
    sides = {"left": left, "right": right}
    sides |= {f"{side}{MASK}": known for side, known in there.items() if known is not None}
    lookup = Lookup(sides, missing == "error", (ours, theirs))
    own = {name: field(node, name) for name in node.fields}
    found = _looked_up(_columns(other, theirs), lookup, missing)
    mask, partner = f"{ours}{MASK}", Mapped(left, _Found(lookup), (), known_shape(left), _BOOL)
    if missing == "mask":
        if masks_in(node.fields).get(ours) == mask and there["left"] is not None:
            del own[mask]  # the key's gaps get a mask of another name
        found[free_name(mask, own)] = noted(partner, None)
    twice = [name for name in found if name in own]
    if twice:
        raise ValueError(
            f"both sides of _join have the fields {twice}; choose other names with _rename, or "
            "leave fields out with _drop"
        )
    named = {**own, **found}
    for name, part in found.items():
        if missing == "mask" and isinstance(part, Ragged) and name not in masks_in(other.fields):
            put_mask(named, name, partner)
    return telling(record(named, 1))


def _names(on: Any) -> tuple[str, str]:
    """Return the names of the key on the two sides, or raise."""
    if isinstance(on, str):
        return on, on
    if isinstance(on, tuple) and len(on) == 2 and all(isinstance(name, str) for name in on):
        return on
    several = [*on] if isinstance(on, (list, tuple, Mapping)) else []
    wanted = "on= names the key of _join, or the key on each side, as in on=('city', 'name')"
    if not several or not all(isinstance(name, str) for name in several):
        raise TypeError(f"{wanted}; got an object of type {type(on).__name__}")
    if len(several) == 1:
        (name,) = on.items() if isinstance(on, Mapping) else several
        raise TypeError(f"{wanted}; got {on!r}; write on={name!r}")
    raise TypeError(
        f"{wanted}; got {shortened(repr(on))}; a row is found by one key, and another field on "
        f"both sides makes one of several: of texts and numbers d.key = d.{several[0]} + ' ' + "
        f"d.{several[1]}._astype('U21')"
    )


def _columns(node: Node, key: str | None = None) -> dict[str, Node]:
    """Return the fields of a node but for a key, and for masks of columns that know their gaps."""
    told = {mask for name, mask in masks_in(node.fields).items() if field(node, name).has_gaps}
    return {name: field(node, name) for name in node.fields if name != key and name not in told}


def _common(node: Node, other: Node) -> str:
    """Return the only field that both sides have, apart from masks; raise if it is not one."""
    masks = {*masks_in(node.fields).values(), *masks_in(other.fields).values()}
    both = [name for name in node.fields if name in other.fields and name not in masks]
    if len(both) == 1:
        return both[0]
    if both:
        raise ValueError(
            f"both sides of _join have the fields {both}; name the key with on=, and leave the "
            "others out with _drop, or choose other names with _rename"
        )
    raise ValueError(
        f"no field has the same name on both sides of _join: {[*node.fields]} and "
        f"{[*other.fields]}; on=(name, other_name) names the key on each side"
    )


def _key(node: Node, name: str) -> Node:
    if name not in node.fields:
        raise FieldError(f"there is no field {name!r} to join on; there are {[*node.fields]}")
    found = field(node, name)
    if len(known_shape(found)) != 1:
        raise ValueError(
            f"rows are joined on one key each; field {name!r} has the shape {found.shape}"
        )
    return found


def _looked_up(columns: Mapping[str, Node], lookup: Lookup, missing: str) -> dict[str, Node]:
    """Return the rows of fields that belong to the keys; the last one is for missing keys."""
    found: dict[str, Node] = {}
    for name, node in columns.items():
        if isinstance(node, Record):
            inner = record(_looked_up(_columns(node), lookup, missing), node.rank)
            found[name] = telling(inner).replaced(meta=node.meta)
            continue
        if missing == "mask":
            node = concat([node, _missing_row(node).replaced(meta=node.meta)])
        shape = (lookup.others,) if isinstance(node, Ragged) else known_shape(node)
        index = axis_index(shape, Computed(lookup, LINE), lookup.count)
        found[name] = select(node, index, "rows")
    return found


def _missing_row(node: Node) -> Node:
    """Return the row that stands where a key has no partner."""
    if isinstance(node, Ragged):
        none = np.array([[length or 0 for length in node.layout.axes]])
        return Ragged(node.values, shaped(none, node.layout.axes))
    shape, dtype = (1, *known_shape(node)[1:]), known_dtype(node)
    if holds_codes(node) and dtype.kind == "i":
        return stored(ArraySource(np.full(shape, NO_LABEL, dtype)), False)
    one = stored(ArraySource(np.full(shape, nothing_in(dtype), dtype)), False)
    return with_mask(one, stored(ArraySource(np.zeros(1, bool)), False))


class Lookup(RowNumbers):
    """The row of the other data for each key; their number of rows stands for none."""

    __slots__ = ("count", "is_complete", "names", "others")
    about = "the order of a join"
    is_of_values = True

    def __init__(
        self, sides: Mapping[str, Node], is_complete: bool, names: tuple[str, str]
    ) -> None:
        super().__init__(record(sides, 0))
        self.count = known_shape(sides["left"])[0]
        self.others = known_shape(sides["right"])[0]
        self.is_complete = is_complete
        self.names = names

    def find(self, node: Node) -> np.ndarray:
        """Find the keys among those of the other data."""
        left, right = field(node, "left"), field(node, "right")
        left_there, right_there = (
            field(node, name) if name in node.fields else None
            for name in (f"left{MASK}", f"right{MASK}")
        )
        keys = np.asarray(evaluate(right))
        there = None if right_there is None else np.asarray(evaluate(right_there))
        known = labelled(keys, there)
        rows = None if known.all() else np.flatnonzero(known)
        keys = keys if rows is None else keys[rows]  # a missing key is nobody's partner
        where = " and ".join(map(repr, self.names))
        with in_order(f"the keys {where} of _join"):
            self._check_unique(keys)
        code, shape = coder(keys), known_shape(left)
        out = np.empty(shape, np.intp)

        def put(start: int) -> None:
            part = slice(start, start + BLOCK)
            values = evaluate(select(left, parse(part, shape)))
            with in_order(f"the keys {where} of _join"):
                found = code(values)
            if left_there is not None:
                found = without_gaps(found, evaluate(select(left_there, parse(part, shape))))
            out[part] = found
            if self.is_complete and (found == NO_LABEL).any():
                place = int(np.argmax(found == NO_LABEL))
                is_gap = left_there is not None and not rows_of(left_there, start + place)
                key = None if is_gap else values.tolist()[place]
                theirs = f"the {len(keys)} values of other{chained([self.names[1]])}"
                raise KeyError(
                    f"row {start + place} has the {self.names[0]} {key!r}, which is not among "
                    f"{theirs}; missing='mask' marks such rows"
                )

        run_blocks(put, list(range(0, shape[0], BLOCK)))
        lacking = out == NO_LABEL
        out = out if rows is None or not len(rows) else rows[out]
        out[lacking] = self.others
        return out

    def _check_unique(self, keys: np.ndarray) -> None:
        values, counts = counted(keys)
        if len(values) < len(keys):
            twice = values[counts > 1].tolist()
            raise ValueError(
                f"the keys {self.names[1]!r} are not unique, so a row could have several: "
                f"{twice[:4]}; _drop_duplicates(by={self.names[1]!r}) keeps the first of each"
            )


class _Found(Part):
    """The step from keys to whether the other data have them."""

    __slots__ = ("lookup",)
    parts = ("lookup",)
    title: ClassVar[str] = "_join"
    deterministic: ClassVar[bool] = True

    def __init__(self, lookup: Lookup) -> None:
        self.lookup = lookup

    def rows(self, node: Any, numbers: np.ndarray, memo: Memo) -> np.ndarray:
        """Return whether the keys of these rows were found."""
        return np.asarray(self.lookup.array()[numbers] < self.lookup.others)
