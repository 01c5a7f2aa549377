"""Labels, and the code of each row's label: its number among them.

The labels are a photograph, as a statistic is: so the codes are the same in every part of the data.
"""

from __future__ import annotations

import weakref
from typing import Any, ClassVar

import numpy as np

from dataview.compute import evaluate, run_blocks
from dataview.index import axis_index, numbers_map
from dataview.plan.build import select
from dataview.plan.fields import NO_FIELDS
from dataview.plan.guards import check_ends, check_no_record
from dataview.plan.kinds import Mapped, known_shape
from dataview.plan.node import Node, Part
from dataview.plan.operations import is_present
from dataview.plan.photographs import Photograph
from dataview.sources import Memo
from dataview.tables.coding import MISSING, Code, check_comparable, classes, coder
from dataview.tables.unique import Distinct, Values

BLOCK = 1 << 16
"""How many rows get their codes at a time."""


def coded(node: Node, labels: Node | None) -> tuple[Node, Node]:
    """Return the codes of a node's labels, and these labels; or the codes by `labels`."""
    check_no_record(node, "_codes")
    check_ends(node, "_codes")
    if not known_shape(node):
        raise TypeError("_codes needs rows of labels; the view is a single element")
    if labels is not None:
        check_comparable(node, labels, "labels= of _codes")
    known = Distinct(Values(node, False, True)) if labels is None else labels
    step = Coding(_photograph(known), labels is None)
    return Mapped(node, step, (), known_shape(node), np.dtype(np.intp)), known


def _photograph(labels: Node) -> Photograph:
    """Return the photograph of labels that were asked for, or are given."""
    if (
        isinstance(labels, Distinct)
        and isinstance(labels.table, Values)
        and not labels.table.counts
    ):
        return labels.table
    return _Given(labels)


class _Given(Photograph):
    """Labels in the order in which they are given."""

    __slots__ = ()
    about = "labels"

    def find(self, node: Node) -> np.ndarray:
        """Return the labels, or raise if there is one twice."""
        found = np.array(evaluate(node))
        if found.ndim != 1:
            raise ValueError(f"labels= is a list of labels; got an array of shape {found.shape}")
        values, codes = classes(found)
        if len(values) < len(found):
            twice = values[np.bincount(codes) > 1].tolist()
            raise ValueError(f"labels= names labels more than once: {twice[:4]}")
        return found


class Coding(Part):
    """The step from labels to codes; it is `strict` if the labels are those of all the data."""

    __slots__ = ("labels", "strict")
    parts = ("labels",)
    title: ClassVar[str] = "_codes"
    deterministic: ClassVar[bool] = True

    def __init__(self, labels: Photograph, strict: bool) -> None:
        self.labels = labels
        self.strict = strict

    def rows(self, node: Any, numbers: np.ndarray, memo: Memo) -> np.ndarray:
        """Return the codes of these rows, found block by block."""
        code = _coder_of(self.labels)
        out = np.empty((len(numbers), *known_shape(node)[1:]), np.intp)

        def put(start: int) -> None:
            some = numbers[start : start + BLOCK]
            values = evaluate(rows_of(node.node, some))
            codes = out[start : start + BLOCK] = code(values)
            if self.strict:
                _check_known(codes, values, some)

        run_blocks(put, list(range(0, len(numbers), BLOCK)))
        return out


_coders: weakref.WeakKeyDictionary[Photograph, Code] = weakref.WeakKeyDictionary()


def _coder_of(labels: Photograph) -> Code:
    """Return the function that gives codes by labels; to make it takes as long as to sort them."""
    found = _coders.get(labels)
    if found is None:
        found = _coders[labels] = coder(labels.array())
    return found


def rows_of(node: Node, numbers: np.ndarray) -> Node:
    """Return rows of a node by their numbers, without its fields."""
    index = axis_index(known_shape(node), numbers_map(numbers, 0), len(numbers), 0)
    return select(node, index, fields=NO_FIELDS)


def _check_known(codes: np.ndarray, values: np.ndarray, numbers: np.ndarray) -> None:
    unknown = codes == MISSING
    if not unknown.any():
        return
    unknown &= is_present(values)
    if not unknown.any():
        return
    place = tuple(np.argwhere(unknown)[0].tolist())
    raise ValueError(
        f"row {numbers[place[0]]} holds {values[place]!r}, which was not among the labels when "
        "_codes() was asked for; ask for it again, or give labels="
    )
