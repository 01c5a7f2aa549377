"""Codes compared with labels: an integer equals no text, so both sides become of one kind."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np

from dataview.errors import hint, shortened
from dataview.plan.build import keyed
from dataview.plan.kinds import Stored
from dataview.plan.node import Argument, Node
from dataview.tables.labels import LABELS, decoded, label_node

_KINDS = "USTOMm"
"""The kinds of what may be labels; a number is a code."""

_ONE = (str, bytes, np.datetime64, np.timedelta64, datetime.date, datetime.timedelta)


def comparable(left: Argument, right: Argument) -> tuple[Argument, Argument]:
    """Return both sides of a comparison, such that labels are compared with labels.

    One label becomes its code.  An array of labels is compared with the label of each row, and so
    are codes whose labels are numbered differently.
    """
    ours, theirs = _holds_codes(left), _holds_codes(right)
    if ours and theirs:
        return _both(left, right)
    if ours and _may_be_labels(right):
        return _beside(left, right)
    if theirs and _may_be_labels(left):
        return _beside(right, left)[::-1]
    return left, right


def check_no_order(what: str, left: Any, right: Any) -> None:
    """Raise if codes are compared with labels by their order, which is that of their numbers."""
    for codes, other in ((left, right), (right, left)):
        if _holds_codes(codes) and _may_be_labels(other) and label_node(codes) is not None:
            raise TypeError(
                f"{what}: {_name(codes)} holds codes of labels, which have no order; == and != "
                "compare with a label, and with a code all comparisons do"
            )


def codes_of(node: Any, labels: Any) -> np.ndarray | None:
    """Return the codes of those of some labels that codes have, None if these are no labels."""
    if not _holds_codes(node):
        return None
    values = np.asarray(labels)
    known = label_node(node) if values.dtype.kind in _KINDS else None
    if known is None:
        return None
    wanted = values.reshape(-1).tolist() if values.dtype.kind not in "mM" else list(values.flat)
    return np.array([code for code, own in enumerate(_listed(known)) if own in wanted], np.intp)


def _holds_codes(side: Any) -> bool:
    """Whether a side are integers whose metadata may hold labels, which are not looked at."""
    return (
        isinstance(side, Node)
        and LABELS in side.meta
        and side.dtype is not None
        and side.dtype.kind in "iu"
    )


def _may_be_labels(side: Any) -> bool:
    return isinstance(side, Node) and side.dtype is not None and side.dtype.kind in _KINDS


def _both(left: Any, right: Any) -> tuple[Argument, Argument]:
    ours, theirs = left.meta[LABELS], right.meta[LABELS]
    if ours is theirs or not isinstance(ours, list) or not isinstance(theirs, list):
        return left, right
    if ours == theirs or label_node(left) is None or label_node(right) is None:
        return left, right
    return _in_labels(left), _in_labels(right)


def _beside(codes: Any, other: Any) -> tuple[Argument, Argument]:
    known = label_node(codes)
    if known is None:
        return codes, other
    if other.shape != () or not isinstance(other, Stored) or other.source.memory is None:
        return _in_labels(codes), other
    label = other.source.memory[()]
    if not isinstance(label, _ONE):
        return codes, other
    labels = _listed(known)
    found = [code for code, own in enumerate(labels) if own == label]
    if not found:
        raise _no_label(codes, label, labels)
    return (codes, found[0]) if len(found) == 1 else (_in_labels(codes), other)


def _in_labels(codes: Node) -> Node:
    labels = label_node(codes)
    assert labels is not None
    return decoded(keyed(codes, None) if codes.shape == () else codes, labels)


def _listed(labels: Stored) -> list[Any]:
    array = labels.source.memory
    assert array is not None
    return list(array) if array.dtype.kind in "mM" else array.tolist()


def _no_label(codes: Node, label: Any, labels: list[Any]) -> ValueError:
    texts = [one for one in labels if isinstance(one, str)]
    close = hint(label, texts) if isinstance(label, str) else ""
    shown = label.item() if isinstance(label, np.str_ | np.bytes_) else label
    return ValueError(
        f"{_name(codes)} has no label {shown!r}{close or '.'} "
        f"The labels are: {shortened(', '.join(map(repr, labels)))}"
    )


def _name(codes: Node) -> str:
    return "the field" if codes.label is None else repr(codes.label.names[-1])
