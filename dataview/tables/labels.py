"""Labels, and the code of each row's label: its number among them.

The labels are a photograph, as a statistic is: so the codes are the same in every part of the data.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from dataview.compute import evaluate, run_blocks
from dataview.index import axis_index, numbers_map
from dataview.index.shape_texts import shape_text
from dataview.plan.build import select, stored, with_fields
from dataview.plan.fields import NO_FIELDS, read_only_meta
from dataview.plan.gaps import LABELS, NO_LABEL, holds_codes, present_in
from dataview.plan.guards import check_ends, check_no_record
from dataview.plan.kinds import Concat, Mapped, Select, Stored, known_dtype, known_shape
from dataview.plan.node import DType, Node, Part
from dataview.plan.photographs import Late, Photograph
from dataview.plan.ragged import Ragged
from dataview.plan.walk import rebuilt
from dataview.sources import ArraySource, Memo
from dataview.tables.coding import (
    Code,
    as_list,
    check_known,
    classes,
    coder,
    family_of,
    in_order,
    labelled,
    name_of,
    nothing_of,
    without_gaps,
)
from dataview.tables.unique import Table, Values, count_values, in_records

BLOCK = 1 << 16
"""How many rows get their codes at a time."""


def coded(node: Node, labels: Node | None, own: Labels | None = None) -> tuple[Node, Node]:
    """Return the codes of a node's labels, and these labels; or the codes by `labels`.

    `own` are the labels that the node knows, if it holds codes already.
    """
    check_no_record(node, "_codes")
    if labels is not None:
        check_same_family(node, labels, "labels= of _codes")
    node = node if own is None else decoded(node, own)
    check_ends(node, "_codes")
    if not known_shape(node):
        raise TypeError("_codes needs rows of labels; the view is a single element")
    known = Values(undivided(node), False, True).rows() if labels is None else labels
    step = Coding(_photograph(known), labels is None)
    return Mapped(node, step, (), known_shape(node), np.dtype(np.intp)), known


def undivided(node: Node) -> Node:
    """Return the data that a partition is one of: these have its labels, and others."""
    base = node
    while isinstance(base, Select):
        base = base.node
    if isinstance(base, Stored) and (whole := base.source.whole()) is not None:
        return stored(whole)
    if isinstance(base, Mapped) and isinstance(base.step, Decoding):
        codes = undivided(base.node)
        return node if codes is base.node else decoded(codes, base.step.labels)
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
        with in_order("labels= of _codes"):
            values, codes = classes(found)
        if len(values) < len(found):
            twice = values[np.bincount(codes) > 1].tolist()
            raise ValueError(
                f"labels= names labels more than once: {twice[:4]}; the labels of a field are "
                "d.x._labels()"
            )
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
            with in_order(f"labels= of _codes of {name_of(node.node)}"):
                found = code(values)
            present = present_in(part)
            there = None if present is None else evaluate(present)
            codes = out[start : start + BLOCK] = without_gaps(found, there)
            if self.strict and (codes == NO_LABEL).any():
                when = "_codes() was asked for; ask for it again, or give labels="
                check_known(codes, labelled(values, there), values, some, when)

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


# --- codes whose labels are known --------------------------------------------------------------


class Labels:
    """The labels of codes, that of 0, that of 1 and so on: a list of them, or a view to be read."""

    __slots__ = ("_array", "_table", "given")

    def __init__(self, given: Any) -> None:
        self.given = given
        self._array: np.ndarray | None = None
        self._table: np.ndarray | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Labels, (self.given,)

    @property
    def is_listed(self) -> bool:
        """Whether they are known without reading."""
        return isinstance(self.given, (list, tuple, np.ndarray))

    @property
    def dtype(self) -> DType:
        """Their dtype; nothing is read for it."""
        own = None if self.is_listed else self.given.dtype
        return own if isinstance(own, np.dtype) else self.array().dtype

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.given if self.is_listed else self.array())

    def array(self) -> np.ndarray:
        """Return them; those that are not listed are read."""
        if self._array is None:
            self._array = as_array(self.given)
        return self._array

    def table(self) -> np.ndarray:
        """Return them, and last what stands for no label."""
        if self._table is None:
            array = self.array()
            self._table = np.full(len(array) + 1, *nothing_of(array.dtype))
            self._table[:-1] = array
        return self._table

    def list(self) -> list[Any]:
        """Return them as Python has them, dates and durations as NumPy has."""
        return as_list(self.array())

    @property
    def are_numbers(self) -> bool:
        """Whether a number beside codes is one of these, and not a code: they are other numbers."""
        if self.is_listed and not isinstance(next(iter(self.given), None), (int, float, np.number)):
            return False
        return self.dtype.kind in "biuf" and self.list() != [*range(len(self.array()))]

    def node(self) -> Stored:
        """Return them as a node."""
        return stored(ArraySource(self.array()), False)


def as_array(labels: Any) -> np.ndarray:
    """Return a list of labels as an array that keeps each as it is; other labels as NumPy does."""
    if not isinstance(labels, (list, tuple)) or _are_alike(labels):
        return np.asarray(labels)
    found = np.empty(len(labels), object)
    found[:] = labels
    return found


def _are_alike(labels: Sequence[Any]) -> bool:
    """Whether NumPy keeps labels as they are.

    It makes texts of texts and numbers, and cuts zeros off the ends of texts and bytes.
    """
    ends = {bytes: b"\0", str: "\0"}
    kinds = {type(label) for label in labels}
    return len(kinds) == 1 and not any(
        isinstance(label, kind) and label.endswith(end)
        for label in labels
        for kind, end in ends.items()
    )


def are_found_codes(node: Node) -> bool:
    """Whether data are codes of labels that were found in them: -1 is of what is missing there.

    Where the labels were given, -1 may be what the user wants for all others.
    """
    while isinstance(node, Select):
        node = node.node
    return isinstance(node, Mapped) and isinstance(node.step, Coding) and node.step.strict


def labels_of(node: Node) -> Labels | None:
    """Return the labels that the metadata of codes have, None for other data."""
    return Labels(node.meta[LABELS]) if holds_codes(node) else None


def labels_in_common(nodes: Sequence[Node], is_at_hand: Callable[[Any], bool]) -> Any:
    """Return the labels of all codes that are joined, None if some are no codes.

    Raise if they may number their labels differently.  What is not at hand is not read for it.
    """
    found = [labels_of(node) for node in nodes]
    known = [labels for labels in found if labels is not None]
    if len(known) < len(nodes) or not known:
        return None
    other = first_unlike(known, is_at_hand)
    if other is not None:
        raise ValueError(
            f"views 0 and {other} number their labels each by itself, so that a code may "
            "stand for two of them; join view._codes(labels=...) by the labels of one view"
        )
    return known[0].given


def first_unlike(known: Sequence[Labels], is_at_hand: Callable[[Any], bool]) -> int | None:
    """Return the number of the first labels that may differ from labels 0, None if none may.

    What is not at hand is not read for it.
    """
    others = [number for number, own in enumerate(known) if own.given is not known[0].given]
    if not others or not all(own.is_listed or is_at_hand(own.given) for own in known):
        return next(iter(others), None)
    return next((n for n in others if not np.array_equal(known[n].array(), known[0].array())), None)


def check_same_family(node: Node, other: Node, what: str) -> None:
    """Raise if no label of a node can be one of another, as no text is equal to a number."""
    if other.shape == (0,) or node.dtype is None or other.dtype is None:
        return
    dtypes = label_dtype(node), label_dtype(other)
    ours, theirs = map(family_of, dtypes)
    if ours and theirs and ours != theirs:
        bare = (
            "_with_meta(labels=None) takes codes for numbers, and "
            if holds_codes(node) or holds_codes(other)
            else ""
        )
        raise TypeError(
            f"{what}: {dtypes[0]} are {ours} and {dtypes[1]} are {theirs}, so none would be "
            f"found; {bare}_astype converts one of them"
        )


def label_dtype(node: Node) -> DType:
    """Return the dtype of labels, for codes that of the labels that they know; nothing is read."""
    labels = labels_of(node)
    return known_dtype(node) if labels is None else labels.dtype


def with_labels(codes: Node, labels: Any) -> Node:
    """Return codes that know their labels: that of 0, that of 1 and so on; -1 is what is missing.

    The labels are in the metadata as a list, so that files keep them.

    >>> codes = with_labels(stored(ArraySource(np.array([1, -1, 0]))), np.array(["a", "b"]))
    >>> codes.meta["labels"], labels_of(codes).array().tolist()
    (['a', 'b'], ['a', 'b'])
    """
    listed = Labels(np.asarray(labels)).list()
    return codes.replaced(meta=read_only_meta({**codes.meta, LABELS: listed}))


def with_found_labels(node: Node) -> Node:
    """Return a node in which all codes have a list of labels; those that are computed are read."""

    def listed(part: Node, old: Node) -> Node:
        labels = labels_of(part)
        if labels is not None and not isinstance(labels.given, list):
            return with_labels(part, labels.array())
        return part if part is old else with_fields(part, part.fields)

    found: Node = rebuilt([node], listed, Node.attached)[0]
    return found


def decoded(codes: Node, labels: Labels) -> Node:
    """Return the label of each row; where it is missing NaN, NaT, or None for all else.

    >>> codes = stored(ArraySource(np.array([1, -1, 0])))
    >>> evaluate(decoded(codes, Labels([2.5, 0.5]))).tolist()
    [0.5, nan, 2.5]
    """
    if isinstance(codes, Ragged):
        rows = codes.relaid()
        return rows.over(decoded(rows.leaf(), labels))
    _, dtype = nothing_of(labels.dtype)
    return Mapped(codes, Decoding(labels), (), known_shape(codes), dtype)


def in_labels(node: Node) -> Node:
    """Return the label of each row of codes that know their labels, any other node as it is."""
    labels = labels_of(node)
    return node if labels is None else decoded(node, labels)


class Decoding(Part):
    """The step from codes to labels."""

    __slots__ = ("labels",)
    parts = ()
    title: ClassVar[str] = "labels of codes"
    deterministic: ClassVar[bool] = True

    def __init__(self, labels: Labels) -> None:
        self.labels = labels

    def rows(self, node: Any, numbers: np.ndarray, memo: Memo) -> np.ndarray:
        """Return the labels of these rows."""
        table = self.labels.table()
        codes = checked_codes(evaluate(rows_of(node.node, numbers)), len(table) - 1)
        found: np.ndarray = table[codes]
        return found


class _Checking(Part):
    """The step that refuses codes without a label."""

    __slots__ = ("count",)
    parts = ()
    title: ClassVar[str] = "codes with labels"
    deterministic: ClassVar[bool] = True

    def __init__(self, count: int) -> None:
        self.count = count

    def rows(self, node: Any, numbers: np.ndarray, memo: Memo) -> np.ndarray:
        """Return these rows."""
        return checked_codes(evaluate(rows_of(node.node, numbers)), self.count)


def only_labelled(codes: Node, count: int) -> Node:
    """Return codes of so many labels such that one without a label is an error when it is read."""
    shape = known_shape(codes)
    return Mapped(codes, _Checking(count), (), shape, known_dtype(codes)) if shape else codes


def checked_codes(codes: np.ndarray, count: int) -> np.ndarray:
    """Return codes, or raise if there is one without a label."""
    if codes.size and (codes.min() < NO_LABEL or codes.max() >= count):
        wrong = (codes < NO_LABEL) | (codes >= count)
        raise ValueError(
            f"the data hold the code {codes[wrong][0]}, and the metadata list {count} labels: "
            f"there may be {NO_LABEL} (missing) to {count - 1}; _with_meta(labels=...) lists others"
        )
    return codes


class _CodeCounts(Table):
    """How many rows have each of the labels that codes know, of some of them none."""

    __slots__ = ("labels",)
    about = "counts of labels"

    def __init__(self, codes: Node, labels: Labels) -> None:
        pairs = [("value", in_records(labels.dtype)), ("count", np.int64)]
        super().__init__(codes, np.dtype(pairs))
        self.labels = labels

    def find(self, node: Node) -> np.ndarray:
        """Count the codes."""
        codes, counts = count_values(node, False)  # of -1 none
        labels = self.labels.array()
        found = np.zeros(len(labels), self.dtype)
        found["value"] = labels
        found["count"][checked_codes(codes, len(labels))] = counts
        return found


def counted(codes: Node, labels: Labels) -> Node:
    """Return the labels that codes know and how many rows have each, as fields value and count."""
    return _CodeCounts(codes, labels).rows()
