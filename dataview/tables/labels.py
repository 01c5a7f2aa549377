"""Labels, and the code of each row's label: its number among them.

The labels are a photograph, as a statistic is: so the codes are the same in every part of the data.
"""

from __future__ import annotations

import weakref
from typing import Any, ClassVar

import numpy as np

from dataview.compute import evaluate, run_blocks
from dataview.errors import shape_text
from dataview.index import axis_index, numbers_map
from dataview.plan.build import select, stored, with_fields
from dataview.plan.fields import NO_FIELDS, read_only_meta
from dataview.plan.gaps import LABELS, present_in
from dataview.plan.guards import check_ends, check_no_record
from dataview.plan.kinds import Concat, Mapped, Select, Stored, known_dtype, known_shape
from dataview.plan.node import DType, Node, Part
from dataview.plan.operations import is_present
from dataview.plan.photographs import Late, Photograph
from dataview.plan.walk import rebuilt
from dataview.sources import ArraySource, Memo
from dataview.tables.coding import MISSING, Code, check_comparable, classes, coder, told
from dataview.tables.unique import Table, Values, count_values, in_records

BLOCK = 1 << 16
"""How many rows get their codes at a time."""


def coded(node: Node, labels: Node | None, own: Node | None = None) -> tuple[Node, Node]:
    """Return the codes of a node's labels, and these labels; or the codes by `labels`.

    `own` are the labels that the node knows, if it holds codes already.
    """
    check_no_record(node, "_codes")
    node = node if own is None else decoded(node, own)
    check_ends(node, "_codes")
    if not known_shape(node):
        raise TypeError("_codes needs rows of labels; the view is a single element")
    if labels is not None:
        check_comparable(node, labels, "labels= of _codes")
    known = Values(_undivided(node), False, True).rows() if labels is None else labels
    step = Coding(_photograph(known), labels is None)
    return Mapped(node, step, (), known_shape(node), np.dtype(np.intp)), known


def _undivided(node: Node) -> Node:
    """Return the data that a partition is one of: these have its labels, and others."""
    base = node
    while isinstance(base, Select):
        base = base.node
    if isinstance(base, Stored) and (whole := base.source.whole()) is not None:
        return stored(whole)
    return base if isinstance(base, (Stored, Concat)) and base.divided else node


def _photograph(labels: Node) -> Photograph:
    """Return the photograph of labels that were asked for, or are given."""
    later = found_later(labels)
    if later is not None:
        return later
    _check_list(labels.extents)
    return _Given(labels)


def found_later(labels: Node) -> Values | None:
    """Return the photograph of labels that are the distinct values of data, None for others."""
    own = labels.args[-1] if isinstance(labels, Late) else None
    return own if isinstance(own, Values) and not own.counts else None


def _check_list(extents: Any) -> None:
    """Raise unless labels of this shape, None if it is unknown, are a list."""
    if extents is not None and len(extents) != 1:
        got = f"an array of shape {shape_text(extents)}" if extents else "one value"
        raise ValueError(f"labels= is a list of labels, as [0, 1, 2] or range(3); got {got}")


class _Given(Photograph):
    """Labels in the order in which they are given."""

    __slots__ = ()
    about = "labels"

    def find(self, node: Node) -> np.ndarray:
        """Return the labels, or raise if there is one twice."""
        found = np.array(evaluate(node))
        _check_list(found.shape)
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
            part = rows_of(node.node, some)
            values = evaluate(part)
            codes = out[start : start + BLOCK] = without_gaps(code(values), part)
            if self.strict:
                _check_known(codes, values, part, some)

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


def without_gaps(codes: np.ndarray, node: Node) -> np.ndarray:
    """Return the codes of a node's values, but that of what is missing where a mask says so."""
    present = present_in(node)
    return codes if present is None else np.where(evaluate(present), codes, MISSING)


def _check_known(codes: np.ndarray, values: np.ndarray, node: Node, numbers: np.ndarray) -> None:
    unknown = codes == MISSING
    if not unknown.any():
        return
    unknown &= is_present(values)
    if (present := present_in(node)) is not None:
        unknown &= evaluate(present)
    if not unknown.any():
        return
    place = tuple(np.argwhere(unknown)[0].tolist())
    raise ValueError(
        f"row {numbers[place[0]]} holds {told(values[place])}, which was not among the labels when "
        "_codes() was asked for; ask for it again, or give labels="
    )


# --- codes whose labels are known --------------------------------------------------------------


def with_labels(codes: Node, labels: Any) -> Node:
    """Return codes that know their labels: that of 0, that of 1 and so on; -1 is what is missing.

    The labels are in the metadata as a list, so that files keep them.

    >>> codes = with_labels(stored(ArraySource(np.array([1, -1, 0]))), np.array(["a", "b"]))
    >>> codes.meta["labels"], evaluate(known_labels(codes)).tolist()
    (['a', 'b'], ['a', 'b'])
    """
    array = np.asarray(labels)
    listed = list(array) if array.dtype.kind in "mM" else array.tolist()
    return codes.replaced(meta=read_only_meta({**codes.meta, LABELS: listed}))


def with_found_labels(node: Node) -> Node:
    """Return a node in which all codes list their labels; those that are computed are read."""

    def listed(part: Node, old: Node) -> Node:
        labels = part.meta.get(LABELS)
        is_late = hasattr(labels, "__array__") and not isinstance(labels, np.ndarray)
        if is_late and part.dtype is not None and part.dtype.kind in "iu":
            return with_labels(part, labels)
        return part if part is old else with_fields(part, part.fields)

    found: Node = rebuilt([node], listed, Node.attached)[0]
    return found


def known_labels(node: Node) -> Node | None:
    """Return the labels of rows of integers whose metadata list them, None for any other data."""
    if not isinstance(node.meta.get(LABELS), (list, tuple, np.ndarray)) or not node.shape:
        return None
    return label_node(node)


def label_node(node: Node) -> Stored | None:
    """Return the labels of integers whose metadata have them; those that are computed are read."""
    labels = node.meta.get(LABELS)
    if node.dtype is None or node.dtype.kind not in "iu":
        return None
    if hasattr(labels, "__array__"):  # a view of labels, which a photograph keeps
        labels = np.asarray(labels)
    if not isinstance(labels, (list, tuple, np.ndarray)):
        return None
    if any(isinstance(label, (list, tuple, dict, np.ndarray)) for label in labels):
        return None
    found = np.empty(len(labels), object)
    found[:] = labels
    if len({type(label) for label in labels}) == 1:  # NumPy would make texts of texts and numbers
        found = np.asarray(labels)
    return stored(ArraySource(found), False)


def label_dtype(node: Node) -> DType:
    """Return the dtype of labels, for codes that of the labels that they know; nothing is read."""
    labels: Any = node.meta.get(LABELS)
    is_late = hasattr(labels, "__array__") and not isinstance(labels, np.ndarray)
    if is_late and known_dtype(node).kind in "iu":
        own: DType = labels.dtype
        return own
    return known_dtype(label_node(node) or node)


def decoded(codes: Node, labels: Node) -> Node:
    """Return the label of each row; where it is missing NaN, NaT, or None for all else.

    >>> codes = stored(ArraySource(np.array([1, -1, 0])))
    >>> evaluate(decoded(codes, stored(ArraySource(np.array([2.5, 0.5]))))).tolist()
    [0.5, nan, 2.5]
    """
    step = Decoding(evaluate(labels))
    return Mapped(codes, step, (), known_shape(codes), step.table.dtype)


def in_labels(node: Node) -> Node:
    """Return the label of each row of codes that know their labels, any other node as it is."""
    labels = known_labels(node)
    return node if labels is None else decoded(node, labels)


class Decoding(Part):
    """The step from codes to labels; the last entry of its table is for what is missing."""

    __slots__ = ("table",)
    parts = ()
    title: ClassVar[str] = "labels of codes"
    deterministic: ClassVar[bool] = True

    def __init__(self, labels: np.ndarray) -> None:
        kind = labels.dtype.kind
        self.table = np.empty(len(labels) + 1, labels.dtype if kind in "fcmM" else object)
        self.table[:-1] = labels
        self.table[-1] = {"f": np.nan, "c": np.nan, "m": "NaT", "M": "NaT"}.get(kind)

    def rows(self, node: Any, numbers: np.ndarray, memo: Memo) -> np.ndarray:
        """Return the labels of these rows."""
        codes = checked_codes(evaluate(rows_of(node.node, numbers)), len(self.table) - 1)
        found: np.ndarray = self.table[codes]
        return found


def checked_codes(codes: np.ndarray, count: int) -> np.ndarray:
    """Return codes, or raise if there is one without a label."""
    if codes.size and (codes.min() < MISSING or codes.max() >= count):
        wrong = (codes < MISSING) | (codes >= count)
        raise ValueError(
            f"the data hold the code {codes[wrong][0]}, and the metadata list {count} labels: "
            f"there may be {MISSING} (missing) to {count - 1}; _with_meta(labels=...) lists others"
        )
    return codes


class _CodeCounts(Table):
    """How many rows have each of the labels that codes know, of some of them none."""

    __slots__ = ("labels",)
    about = "counts of labels"

    def __init__(self, codes: Node, labels: np.ndarray) -> None:
        pairs = [("value", in_records(labels.dtype)), ("count", np.int64)]
        super().__init__(codes, np.dtype(pairs))
        self.labels = labels

    def find(self, node: Node) -> np.ndarray:
        """Count the codes."""
        codes, counts = count_values(node, False)
        there = checked_codes(codes, len(self.labels)) != MISSING
        found = np.zeros(len(self.labels), self.dtype)
        found["value"] = self.labels
        found["count"][codes[there]] = counts[there]
        return found


def counted(codes: Node, labels: Node) -> Node:
    """Return the labels that codes know and how many rows have each, as fields value and count."""
    return _CodeCounts(codes, evaluate(labels)).rows()
