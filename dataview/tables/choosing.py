"""Codes of which a function takes some elements: their labels are numbered alike, or it raises.

Labels among the elements become codes, as where they are written to codes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dataview.errors import shortened
from dataview.plan.fields import read_only_meta
from dataview.plan.gaps import LABELS, NO_LABEL, holds_codes
from dataview.plan.node import Node
from dataview.tables.coding import name_of
from dataview.tables.labels import Labels, first_unlike, labels_of
from dataview.tables.written import as_codes


def among_codes(
    what: str, values: Sequence[Any], is_at_hand: Callable[[Any], bool]
) -> tuple[list[Any], Any]:
    """Return values among which a function chooses, and the labels of what it chooses.

    The labels are None if some values are numbers that may be no codes of them.
    """
    codes = [value for value in values if holds_codes(value)]
    if not codes:
        return [*values], None
    check_numbered_alike(what, codes, is_at_hand)
    labels = labels_of(codes[0])
    assert labels is not None
    found = [
        value if _is_of_numbers(value, labels) else as_codes(codes[0], value) for value in values
    ]
    are_codes = [are_of(labels, *both) for both in zip(values, found, strict=True)]
    return found, labels.given if all(are_codes) else None


def _is_of_numbers(value: Any, labels: Labels) -> bool:
    """Whether a value is codes, or numbers that may be others than these.

    Truth values are no codes: they are labels, where the labels are such.
    """
    dtype = value.dtype if isinstance(value, Node) else np.asarray(value).dtype
    kind = "?" if dtype is None else dtype.kind
    return kind in "iu" or (kind == "b" and labels.dtype.kind != "b")


def are_of(labels: Labels, value: Any, found: Any) -> bool:
    """Whether a value, for which `as_codes` found another or the same, is surely codes of labels.

    No labels are read for it.
    """
    if holds_codes(value) or found is not value:
        return True
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        return False
    return bool(value == NO_LABEL or (labels.is_listed and 0 <= value < len(labels.given)))


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
