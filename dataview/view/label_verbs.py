"""Labels and keys: codes, groups, lookups in other data, rows that stand once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Self, cast

import numpy as np

from dataview import samplers, samples, spaces, tables
from dataview.compute import evaluate
from dataview.errors import hint, unknown_field
from dataview.plan.gaps import present_in, without
from dataview.plan.guards import check_no_record
from dataview.plan.node import DType, Node
from dataview.plan.photographs import Late
from dataview.plan.ragged import Ragged
from dataview.plan.values import in_durations, is_time_of_day
from dataview.show import title
from dataview.view.face import (
    BaseView,
    argument,
    asked,
    evaluated,
    keys_by,
    like,
    names_in,
    node_from,
    node_of,
    part_named,
    viewed,
    with_whole_texts,
)
from dataview.view.ragged_rows import LEFT, ROWS


class LabelVerbs(BaseView):
    """The verbs of labels and keys."""

    __slots__ = ()

    def _labels(self) -> Self:
        """Return the labels: the distinct values that are not missing, in ascending order.

        Those of a partition are those of all data: the labels that its `_codes` number. Those of
        codes are what the codes stand for: of code 0, of code 1 and so on.

        >>> import dataview as dv
        >>> d = dv.View(["b", "a", "b"])
        >>> d._labels()(), d._codes()._labels()()
        (array(['a', 'b'], dtype='<U1'), array(['a', 'b'], dtype='<U1'))
        """
        known = _known_labels(self)
        if known is None:
            whole = tables.undivided(node_of(self))
            return like(self, tables.distinct(whole, False, labels=True))
        given = known.given  # of which a view is more than its values: it may be still to be read
        return cast(Self, given) if isinstance(given, BaseView) else like(self, known.node())

    def _codes(self, labels: Any = None) -> Self:
        """Return the code of each row's label: its number among all labels, -1 if it is missing.

        Every part of the codes has the same numbers. `labels` are the labels to number, such as
        those of the training data; other labels get -1. `_labels()` of codes are the labels.

        >>> import dataview as dv
        >>> d = dv.View(label=["b", "a", "c", "b"])
        >>> codes = d.label._codes()
        >>> codes(), codes[2:](), d.label._codes(labels=["c", "b"])()
        (array([1, 0, 2, 1]), array([2, 1]), array([ 1, -1,  0,  1]))
        """
        own = _known_labels(self)
        if own is not None and labels is None:
            return self
        this, labels = (self, None) if labels is None else with_whole_texts(self, labels)
        labels = _exactly(labels, node_of(self).dtype) if own is None else labels
        given = None if labels is None else _labels_from(labels)
        codes, known = tables.coded(node_of(this), given, own)
        is_same = isinstance(labels, BaseView) and tables.found_later(known) is not None
        return cast(Self, viewed(codes)._with_meta(labels=labels if is_same else viewed(known)))

    def _onehot(self, labels: Any = None, dtype: Any = "f4") -> Self:
        """Return a column for each label: 1 where the row has it, else 0.

        The labels are read when the shape is first needed, since their number is the number of
        columns. They are not read if you give `labels`, or if the field has an `IndexSpace` that
        says how many there are.

        >>> import dataview as dv
        >>> dv.View(["b", "a"])._onehot()()
        array([[0., 1.],
               [1., 0.]], dtype=float32)
        """
        check_no_record(node_of(self), "_onehot")
        codes: Any = self._codes(labels)
        node, known = node_of(codes), _labels_from(codes._labels())
        later = tables.found_later(known)
        if later is None:
            count = known.shape[0] if known.shape else len(evaluate(known))
            node = tables.only_labelled(node, count) if codes is self else node
            return like(self, _one_hot(node, count, dtype))
        none = _one_hot(node, 0, dtype)
        return like(self, Late(none, _one_hot, (node, later, dtype), axis=-1))

    def _counts(self) -> Self:
        """Return the labels and how many rows have each, as fields value and count.

        >>> import dataview as dv
        >>> dv.View(["b", "a", "b"])._counts()._asdict()
        {'value': array(['a', 'b'], dtype='<U1'), 'count': array([1, 2])}
        """
        known = _known_labels(self)
        if known is not None:
            return like(self, tables.counted(node_of(self), known))
        return like(self, tables.distinct(node_of(self), True, labels=True))

    def _group(self, by: Any, *, dropna: bool = True) -> tables.Grouped:
        """Return the rows grouped by label: pairs of label and view, and statistics of all groups.

        `by` is the name of a field or a list of names, or an array with a label for each row, or a
        mapping from names to such arrays. Rows without a label are in no group; with `dropna=False`
        they are in the last one.

        >>> import dataview as dv
        >>> d = dv.View(x=[1.0, 2.0, 4.0], label=["b", "a", "b"])
        >>> d._group(by="label")._mean()
        View of 2 rows, 24 B, computed, read-only
          label        x
          <U1    float64
          a          2.0
          b          2.5
        """
        return tables.Grouped(node_of(self), by, dropna, partial(part_named, self), viewed)

    def _join(
        self, other: Any, on: str | tuple[str, str] | None = None, missing: str = "error"
    ) -> Self:
        """Return each row with the fields of the row of `other` that has the same key.

        `on` names the key, or the key on each side; without it the key is the only field that both
        sides have. A key that `other` lacks is an error; with
        `missing="mask"` its row is missing in the fields of `other`, and a field `<key>_mask` is
        true for the rows that have a partner (`<key>_mask_2` if an earlier `_join` made that one).
        The mask of gaps in the key itself gets another name then.

        >>> import dataview as dv
        >>> d = dv.View(city=["Bonn", "Rome", "Bonn"], day=[1, 1, 2])
        >>> where = dv.View(city=["Rome", "Bonn"], country=["Italy", "Germany"])
        >>> d._join(where).country()
        array(['Germany', 'Italy', 'Germany'], dtype='<U7')
        """
        if isinstance(other, str):
            raise TypeError(
                f"_join takes a view with the key, such as dv.open(path); got {other!r}"
            )
        return like(self, tables.joined(node_of(self), node_from(other), on, missing))

    def _drop_duplicates(self, by: Any = None) -> Self:
        """Return the first row of each value, or of each combination of fields.

        `by` is the name of a field, other data with a value for each row, or a list of these.

        The rows are chosen from the data as they are now; they are found when they, or their
        number, are first needed.

        >>> import dataview as dv
        >>> dv.View(np.array([3, 1, 3, 2, 1]))._drop_duplicates()()
        array([3, 1, 2])
        """
        is_named = by is not None and not (isinstance(by, (list, tuple)) and not by)
        keys = keys_by(self, by if is_named else cast(Any, self)._fields() or None)
        return like(self, samplers.without_duplicates(node_of(self), keys))

    def _drop(self, *names: str | Sequence[str]) -> Self:
        """Return the record without these fields; a list of names is accepted, too.

        Parts of a file that cannot be read can be dropped in the same way.

        >>> import dataview as dv
        >>> dv.View(x=[1], y=[2], z=[3])._drop("y")._fields()
        ('x', 'z')
        """
        node = node_of(self)
        unread, left = node.fields.unread, names_in(names)
        for name in left:
            if name not in unread and name not in node.fields and hint(name, unread):
                raise unknown_field(name, [*node.fields, *unread], title(node))
            if name not in unread:
                cast(Any, self)._field(name)
        return like(self, samples.arranged(node, partial(without, names=left)))


def _one_hot(codes: Node, labels: Any, dtype: Any) -> Node:
    """Return a column for each of so many labels, or for each that is found."""
    count = labels if isinstance(labels, int) else len(labels.array())
    numbers = viewed(codes)._with_meta(labels=None)
    return node_of((numbers[..., None] == np.arange(count))._astype(dtype))


def _known_labels(view: BaseView) -> tables.Labels | None:
    """Return the labels that the metadata of codes hold, or their space tells; else None."""
    node = node_of(view)
    space = spaces.readable_space_of_rows(node.meta)
    if isinstance(space, spaces.IndexSpace) and space.max_labels is not None:
        return tables.labels_of(node) or tables.Labels(np.arange(space.max_labels))
    return tables.labels_of(node)


def _exactly(labels: Any, dtype: DType | None) -> Any:
    """Return a list of integers as an array of the field's dtype if it can be, all else as it is.

    NumPy makes floats of integers some of which are below and some above 2**63.

    >>> _exactly([0, 2**63 + 1], np.dtype("u8"))
    array([                  0, 9223372036854775809], dtype=uint64)
    """
    is_list = isinstance(labels, list) and all(type(label) is int for label in labels)
    if not is_list or dtype is None or dtype.kind not in "iu":
        return labels
    try:
        return np.array(labels, dtype)
    except OverflowError:
        return labels if np.asarray(labels).dtype.kind in "iu" else np.array(labels, object)


def _labels_from(labels: Any) -> Node:
    """Return the node of labels; the distinct values of data are not looked for yet."""
    is_late = isinstance(labels, BaseView) and tables.found_later(asked(labels)) is not None
    return asked(labels) if is_late else node_from(labels)


def isin(element: Any, test_elements: Any, *args: Any, **options: Any) -> Any:
    """Return NumPy's answer of the values of a view, such as labels and times of day."""
    if isinstance(element, BaseView) and is_time_of_day(node_of(element).meta):
        test_elements = in_durations(test_elements)
    one, others = map(_in_objects, with_whole_texts(element, test_elements))
    found = _isin(one, others, *args, **options)
    found = ROWS[np.isin](one, others, *args, **options) if found is LEFT else found
    if found is LEFT and (one is not element or others is not test_elements):
        return np.isin(evaluated(one), _in_objects(evaluated(others)), *args, **options)
    return found


def _in_objects(values: Any) -> Any:
    """Return texts of any length as objects: of others NumPy compares each as one that is cut."""
    is_cut = isinstance(values, np.ndarray) and values.dtype.kind == "T"
    return values.astype(object) if is_cut else values


def _isin(element: Any, test_elements: Any, assume_unique: Any = False, invert: Any = False) -> Any:
    """Return NumPy's answer by the codes of labels; leave all else to NumPy."""
    known = _without_gaps(test_elements, element)
    if known is not test_elements:
        return np.isin(element, known, invert=invert)
    codes = tables.codes_of(argument(element), test_elements)
    present = present_in(node_of(element)) if isinstance(element, BaseView) else None
    if present is not None:  # what is missing is neither among values nor not among them
        values = evaluated(test_elements) if codes is None else codes
        return np.isin(evaluated(element), values, invert=invert) & evaluate(present)
    return LEFT if codes is None else np.isin(evaluated(element), codes, invert=invert)


def _without_gaps(values: Any, element: Any) -> Any:
    """Return the values of a view that are there, of codes the labels; others as they are.

    0 in the place of a missing value is no value, and two views may have other codes of a label.
    """
    node, other = (node_of(x) if isinstance(x, BaseView) else None for x in (values, element))
    if node is None or isinstance(node, Ragged):
        return values
    present = present_in(node)
    labels = None if other is None or tables.labels_of(other) is None else tables.labels_of(node)
    if present is None and labels is None:
        return values
    found = evaluated(values) if present is None else evaluated(values)[evaluate(present)]
    return found if labels is None else labels.array()[found[found >= 0]]
