"""Gaps that arrays do not tell: whether other values stand in them, and the warning of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataview.errors import warn
from dataview.plan.gaps.present import least_present, present_in
from dataview.plan.node import Node
from dataview.plan.operations import is_present
from dataview.plan.ragged import Ragged


def presence(node: Node) -> Node | None:
    """Return the mask of data, of ragged rows that of their values; None if there is none.

    It has no last axes along which all is alike.
    """
    if not isinstance(node, Ragged):
        return least_present(node, 1)
    inner = node.values
    present = presence(inner) if isinstance(inner, Ragged) else present_in(inner)
    return None if present is None else Ragged(present, node.layout, node.index)


def is_untold(values: Any, present: Any) -> bool:
    """Whether there are other values where a mask says that some are missing.

    >>> is_untold(np.array([1, 0]), np.array([True, False]))
    True
    >>> is_untold(np.array([1, np.nan]), np.array([True, False]))
    False
    """
    if present.dtype == object:  # of ragged rows
        return any(map(is_untold, values.ravel(), present.ravel()))
    if present.all():
        return False
    there = present.reshape(present.shape + (1,) * (np.ndim(values) - present.ndim))
    return bool((is_present(values) & ~there).any())


def warn_of_gaps(taker: str, data: str, also: str = "") -> None:
    """Warn that something which knows no gaps takes data for whole, once for a line of a user."""
    warn(
        f"{taker} knows no gaps: where values of {data} are missing, others such as 0 or -1 "
        "stand in their place; _dropna() leaves these rows out, and _fillna(value) puts a value "
        "there" + also,
        once=True,
    )
