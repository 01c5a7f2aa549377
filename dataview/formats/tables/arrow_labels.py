"""Labels of codes as Arrow has them, which keeps codes and their labels as one dictionary array.

Parquet has such arrays of texts alone: in place of other codes it has the labels, one for each row.
The metadata of the column tell which codes these were.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dataview.errors import import_library, shortened
from dataview.formats.meta_text import has_text
from dataview.plan.gaps import LABELS, NO_LABEL
from dataview.tables import checked_codes


def array_of_labels(labels: Sequence[Any], kind: Any = None) -> Any:
    """Return labels as an Arrow array; times of NumPy in the nearest unit of Arrow that holds them.

    The labels of codes that are all missing are none, and texts.

    >>> array_of_labels([np.timedelta64(2, "D")]).to_pylist()
    [datetime.timedelta(days=2)]
    """
    pyarrow = import_library("pyarrow", "dataview[arrow]")
    if not labels:
        return pyarrow.array([], pyarrow.string() if kind is None else kind)
    is_of_times = isinstance(labels[0], (np.datetime64, np.timedelta64))
    try:
        found = pyarrow.array(_in_units(np.asarray(labels)) if is_of_times else labels)
        return found if kind is None else found.cast(kind)
    except (pyarrow.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise TypeError(f"Arrow has no array of the labels: {shortened(str(error))}") from None


_UNITS = {
    **dict.fromkeys(["M8[Y]", "M8[M]", "M8[W]"], "M8[D]"),
    **dict.fromkeys(["M8[h]", "M8[m]", "m8[W]", "m8[D]", "m8[h]", "m8[m]"], "s"),
}
"""The dtypes of times that Arrow lacks, and the unit or dtype that holds these."""


def _in_units(times: np.ndarray) -> np.ndarray:
    """Return times in a unit that Arrow has; those of no unit near are left to its error."""
    unit, step = np.datetime_data(times.dtype)
    letter = times.dtype.kind + "8"
    if step > 1:
        times = times.astype(f"{letter}[{unit}]")
    finer = _UNITS.get(f"{letter}[{unit}]")
    if finer is None:
        return times
    found = times.astype(finer if "[" in finer else f"{letter}[{finer}]")
    if (found.astype(times.dtype) != times).any():
        raise ValueError(f"no {found.dtype} is as long as {times[0]}")
    return found


def coded_in_arrow(codes: np.ndarray, labels: Any, gaps: np.ndarray | None = None) -> Any:
    """Return codes with their labels as a dictionary array; as plain values if a label is twice.

    >>> coded_in_arrow(np.array([1, -1, 0]), array_of_labels(["a", "b"])).to_pylist()
    ['b', None, 'a']
    """
    pyarrow = import_library("pyarrow", "dataview[arrow]")
    missing = codes == NO_LABEL if gaps is None else gaps | (codes == NO_LABEL)
    checked_codes(codes[~missing], len(labels))
    numbers = pyarrow.array(np.where(missing, 0, codes).astype(np.int32), mask=missing)
    column = pyarrow.DictionaryArray.from_arrays(numbers, labels)
    return column if len(labels.unique()) == len(labels) else column.dictionary_decode()


def labels_in_arrow(labels: Any, kind: Any = None) -> Any:
    """Return labels of which a file has a dictionary, None if it keeps the codes as numbers.

    Such labels are of one kind, and each is there once, so that codes are found by them again.
    """
    if not isinstance(labels, list) or len({type(one) for one in labels}) > 1:
        return None
    if labels and (labels[0] is None or not has_text(labels[0])):
        return None
    if any(label != label for label in labels):
        return None
    try:
        found = array_of_labels(labels, kind)
    except TypeError:
        return None
    return None if found.null_count or len(found.unique()) < len(found) else found


def with_noted_codes(kind: Any, meta: Mapping[str, Any]) -> Any:
    """Return a type with codes for values which metadata say were codes, None if they say it not.

    >>> import pyarrow
    >>> with_noted_codes(pyarrow.list_(pyarrow.int64(), 2), {"labels": [20, 10]}).value_type
    DictionaryType(dictionary<values=int64, indices=int32, ordered=0>)
    """
    labels = labels_in_arrow(meta.get(LABELS))
    return None if labels is None else _of_codes(kind, labels.type, meta[LABELS])


def _of_codes(kind: Any, values: Any, labels: list[Any]) -> Any:
    pyarrow = import_library("pyarrow", "dataview[arrow]")
    types = pyarrow.types
    for test, lists in _LISTS.items():
        if getattr(types, test)(kind):
            inner = _of_codes(kind.value_type, values, labels)
            item = None if inner is None else kind.value_field.with_type(inner)
            return None if item is None else lists(pyarrow, kind)(item)
    if kind.id != values.id or types.is_string(kind) or types.is_binary(kind):
        return None
    is_held = labels_in_arrow(labels, kind) is not None
    return pyarrow.dictionary(pyarrow.int32(), kind) if is_held else None


_LISTS: Mapping[str, Any] = {
    "is_list": lambda pyarrow, kind: pyarrow.list_,
    "is_large_list": lambda pyarrow, kind: pyarrow.large_list,
    "is_fixed_size_list": lambda pyarrow, kind: functools.partial(
        pyarrow.list_, list_size=kind.list_size
    ),
}
"""What makes a type of lists, by the names of pyarrow's tests of types."""
