"""Codes of which a function takes some elements: their labels are numbered alike, or it raises.

Labels among the elements become codes, and integers are checked, as in a write to codes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dataview.errors import shortened
from dataview.plan.build import stored
from dataview.plan.fields import read_only_meta
from dataview.plan.gaps import LABELS, holds_codes
from dataview.plan.kinds import known_dtype
from dataview.plan.node import Node
from dataview.plan.values import array_or_none
from dataview.sources import ArraySource
from dataview.tables.coding import name_of
from dataview.tables.labels import Labels, first_unlike, labels_of
from dataview.tables.written import as_codes


def among_codes(
    what: str, values: Sequence[Any], is_at_hand: Callable[[Any], bool]
) -> tuple[list[Any], Any]:
    """Return values among which a function chooses, and the labels of what it chooses.

    The labels are None if some values are numbers that are never codes: floats and truth values.
    """
    codes = [value for value in values if holds_codes(value)]
    if not codes:
        return [*values], None
    check_numbered_alike(what, codes, is_at_hand)
    labels = labels_of(codes[0])
    assert labels is not None
    found = [_as_written(codes[0], labels, value) for value in values]
    are_codes = [_are_codes(*both) for both in zip(values, found, strict=True)]
    return found, labels.given if all(are_codes) else None


def _kind(value: Any) -> str:
    dtype = value.dtype if isinstance(value, Node) else np.asarray(value).dtype
    return "?" if dtype is None else dtype.kind


def _as_written(target: Node, labels: Labels, value: Any) -> Any:
    """Return a value as it is written to codes; codes, and truth values that are no labels, as is.

    Integers beside labels that are not read yet are checked when the result is computed, and so are
    those that the dtype of the codes cannot hold: NumPy would make 255 of -1.
    """
    kind = _kind(value)
    if holds_codes(value) or (kind == "b" and labels.dtype.kind != "b"):
        return value
    is_late = not labels.is_listed or known_dtype(target).kind == "u"
    if kind in "iu" and is_late and not isinstance(value, Node):
        value = stored(ArraySource(np.asarray(value)), False)
    return as_codes(target, value)


def _are_codes(value: Any, found: Any) -> bool:
    """Whether a value, of which `_as_written` made another or the same, is codes.

    Integers of one array are checked; those of samples without an end are not, and stay numbers.
    """
    is_checked = not isinstance(value, Node) and _kind(value) in "iu"
    return holds_codes(value) or found is not value or is_checked


def in_codes(target: Node, value: Any) -> Any:
    """Return labels beside codes as codes that know them; any other value as it is."""
    array = value if isinstance(value, Node) else array_or_none(value)
    if array is None or _kind(array) in "iu":
        return value
    labels = labels_of(target)
    assert labels is not None
    found = _as_written(target, labels, value)
    if found is value:
        return value
    node = found if isinstance(found, Node) else stored(ArraySource(np.asarray(found)), False)
    return knowing_labels(node, labels.given)


def check_numbered_alike(
    what: str, nodes: Sequence[Node], is_at_hand: Callable[[Any], bool]
) -> None:
    """Raise if codes may number their labels differently; what is not at hand is not read."""
    known = [labels for node in nodes if (labels := labels_of(node)) is not None]
    number = first_unlike(known, is_at_hand)
    if number is not None:
        sides = [_told(node, labels) for node, labels in zip(nodes, known, strict=True)]
        raise ValueError(
            f"{what} would mix codes of labels that are numbered differently: {sides[0]}, and "
            f"{sides[number]}; view._codes(labels=other._labels()) numbers the labels of one as "
            "the other does, and _with_meta(labels=None) are the codes as plain numbers"
        )


def _told(node: Node, labels: Labels) -> str:
    if not labels.is_listed:
        return f"{name_of(node)} has labels of its own"
    return f"{name_of(node)} has {shortened(', '.join(map(repr, labels.list())))}"


def knowing_labels(codes: Node, labels: Any) -> Node:
    """Return codes that know these labels, which may be found later; None are no labels."""
    return codes if labels is None else codes.replaced(meta=read_only_meta({LABELS: labels}))
