"""What may fail midway, so that the old values must be there to be put back."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from dataview.compute import leaves_of
from dataview.plan.kinds import (
    Comparison,
    Elementwise,
    Reduction,
    Select,
    Stored,
    known_dtype,
)
from dataview.plan.node import DType, Node
from dataview.plan.operations import Ufunc
from dataview.plan.walk import below


def may_fail(value: Elementwise, same: Sequence[Node]) -> bool:
    """Whether computing a value may fail, apart from what is read of the target itself."""
    known = set(map(id, same))
    others = [leaf for leaf in leaves_of(value) if id(leaf) not in known]
    return has_power(value) or not all(map(is_in_memory, others))


def is_in_memory(node: Node) -> bool:
    """Whether a node's data is in memory, or computed from it without calls that may fail."""
    return all(
        part.source.memory is not None if isinstance(part, Stored) else isinstance(part, _SURE)
        for part in below([node])
    )


_SURE = (Select, Elementwise, Comparison, Reduction)
"""The kinds of nodes that do not fail if the nodes below them do not."""


def has_power(node: Node) -> bool:
    """Whether an integer power is computed, which raises when it comes to a negative exponent."""
    powers = (part for part in below([node]) if isinstance(part, Elementwise))
    return any(is_power(part.ufunc, known_dtype(part)) for part in powers)


def is_power(function: Ufunc, dtype: DType) -> bool:
    """Whether a function is the power of integers."""
    return function is np.power and dtype.kind in "iu"


def may_raise() -> bool:
    """Whether a floating-point error would raise, after which the old values must be there."""
    if not {"ignore", "warn"}.issuperset(np.geterr().values()):
        return True
    for action, message, category, module, line in warnings.filters:
        if issubclass(RuntimeWarning, category):
            if action == "error":
                return True
            if message is None and module is None and not line:  # no later rule is asked
                return False
    return False
