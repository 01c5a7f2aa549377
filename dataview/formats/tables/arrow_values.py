"""Arrow's arrays as those of NumPy: the leaves of columns, their values, and labels of codes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from dataview.formats.tables.arrow import (
    CODES,
    MISSING_CODE,
    TABLE_META,
    Leaf,
    arrow,
    compute,
    dtype_of,
    is_fixed,
    is_list,
    pairs_of,
    stored_type,
)
from dataview.formats.tables.arrow_labels import labels_in_arrow
from dataview.formats.tables.columns import Column, Name, mask_of, tells_missing, tidy
from dataview.formats.tables.late_values import Decoded, Joined, LateValues
from dataview.plan.gaps import LABELS, PRESENT
from dataview.plan.operations import nothing_in

Dictionaries: TypeAlias = Mapping[Name, Any]
"""The labels that codes are of, by leaf; None for a leaf of values that are only kept so."""

OWN: Any = object()
"""Stands for the labels that an array has, whatever they are."""


def columns_of(
    array: Any, name: Name, dictionaries: Dictionaries = MappingProxyType({})
) -> dict[Name, Column]:
    """Return the leaves of an array by name; by default codes are of its own dictionaries."""
    return {own: tidy(column) for own, column in _columns(array, name, dictionaries)}


def one_array(column: Any) -> Any:
    """Return a column as one array, without a copy if it has one part; dictionaries are one."""
    pyarrow = arrow()
    if not isinstance(column, pyarrow.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if pyarrow.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    return column.combine_chunks() if column.num_chunks else pyarrow.array([], column.type)


def _columns(array: Any, name: Name, dictionaries: Dictionaries) -> Iterator[tuple[Name, Column]]:
    types, (_, shape), array = arrow().types, stored_type(array.type), _plain(array)
    kind = array.type
    if types.is_struct(kind):
        yield (*name, PRESENT), Column(array.is_valid().to_numpy(zero_copy_only=False))
        for part, child in zip(kind, array.flatten(), strict=True):
            yield from _columns(child, (*name, part.name), dictionaries)
    elif is_fixed(kind):
        yield from _fixed(array, name, dictionaries, shape or (kind.list_size,))
    elif is_list(kind):
        offsets, present, values = _in_lists(array)
        for own, column in _columns(values, name, dictionaries):
            yield own, Column(column, present, offsets)
    else:
        present = None if not array.null_count else array.is_valid().to_numpy(zero_copy_only=False)
        known = dictionaries.get(name)
        if known is not None and not types.is_dictionary(kind):
            array = array.dictionary_encode()  # what were codes in the view that was saved
        if types.is_dictionary(array.type):
            labels = array.dictionary if known is OWN else dictionaries.get(name, array.dictionary)
            if labels is None and dtype_of(array.type.value_type) != LateValues.dtype:
                yield name, Column(late_values_of(array.dictionary_decode()), present)
                return
            codes = codes_in(array, array.dictionary if labels is None else labels)
            present = codes >= 0
            values = codes if labels is not None else _decoded(codes, array.dictionary)
        else:
            values = late_values_of(array)
        yield name, Column(values, present)


def _plain(array: Any) -> Any:
    """Return what an extension stores, and repeated values one by one."""
    pyarrow = arrow()
    kind = array.type
    if isinstance(kind, pyarrow.BaseExtensionType):
        return _plain(array.storage)
    if pyarrow.types.is_run_end_encoded(kind):
        return _plain(compute().run_end_decode(array))
    if pyarrow.types.is_dictionary(kind) and isinstance(dtype_of(kind.value_type), str):
        return _plain(array.dictionary_decode())
    return array


def _fixed(
    array: Any, name: Name, dictionaries: Dictionaries, shape: tuple[int, ...]
) -> Iterator[tuple[Name, Column]]:
    """Yield the leaves of lists of one length, with a mask of elements if one is missing in a list.

    NaT and None tell it themselves: beside these the mask is one of rows.  NaN may be a number.
    """
    count, length = len(array), array.type.list_size
    inner = array.values.slice(array.offset * length, count * length)
    own = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    for leaf, column in _columns(inner, name, dictionaries):
        inside, values, present = column.present, np.asarray(column.values), own
        if inside is not None and not tells_missing(values.dtype):
            row = (*shape, *values.shape[1:])
            elements = mask_of(inside, values.shape).reshape(count, math.prod(row))
            present = _of_elements(elements, own, row)
        values = values.reshape(count, *shape, *values.shape[1:])
        if own is not None:  # anything may lie where there is none
            coded = {**dict(dictionaries_in(inner, name)), **dictionaries}
            is_code = coded.get(leaf) is not None
            values = np.array(values)
            values[~own] = MISSING_CODE if is_code else nothing_in(values.dtype)
        yield leaf, Column(values, present)


def _of_elements(
    elements: np.ndarray, own: np.ndarray | None, shape: tuple[int, ...]
) -> np.ndarray | None:
    """Return which elements of rows are there, or which rows if that tells as much.

    `own` are the rows that are there.  A row of one element is missing if that is.
    """
    rows = elements if own is None else elements[own]
    if rows.all():
        return own
    there = elements if own is None else elements & own[:, None]
    return there.reshape(-1, *shape) if elements.shape[1] > 1 else there[:, 0]


def lacks_elements(array: Any, name: Name) -> bool:
    """Whether elements of lists of one length are missing below an array, and not only lists."""
    present = columns_of(array, name[:1], {name: OWN})[name].present
    return present is not None and present.ndim > 1


def _in_lists(array: Any) -> tuple[np.ndarray, np.ndarray | None, Any]:
    """Return where lists begin, which there are, and the values of all of them."""
    pyarrow = arrow()
    if pyarrow.types.is_map(array.type):
        array = array.cast(pyarrow.list_(pairs_of(array.type)))
    present = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    if pyarrow.types.is_fixed_size_list(array.type):
        array = array.cast(pyarrow.large_list(array.type.value_field))
    lengths = compute().list_value_length(array).fill_null(0).to_numpy()
    offsets = np.zeros(len(lengths) + 1, np.intp)
    np.cumsum(lengths, out=offsets[1:])
    return offsets, present, array.flatten()


def values_of(array: Any) -> np.ndarray:
    """Return the values of a leaf; what is missing is NaN, NaT, None among objects, or else zero.

    >>> values_of(arrow().array([1, None])).tolist(), values_of(arrow().array([1.5, None])).tolist()
    ([1, 0], [1.5, nan])
    """
    return _way(array.type)(array)


def late_values_of(array: Any) -> np.ndarray | LateValues:
    """Return the values of a leaf, which are made later if they are objects."""
    kind = array.type
    return ArrowObjects(array) if dtype_of(kind) == LateValues.dtype else _way(kind)(array)


FEW = 8
"""So few rows are made sooner one by one."""


class ArrowObjects(LateValues):
    """An array of Arrow, of whose values objects are made."""

    def __init__(self, array: Any) -> None:
        self.given = array
        self._way = _way(_taken_as(array.type))

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrowObjects, (self.given,)

    @functools.cached_property
    def array(self) -> Any:
        """The array, of which Arrow can take some rows."""
        return _without_views(self.given)

    def __len__(self) -> int:
        return len(self.given)

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        if isinstance(rows, slice):
            return self._way(self.array[rows])
        if len(rows) > FEW:
            return self._way(self.array.take(arrow().array(rows)))
        found = np.empty(len(rows), object)
        found[:] = [self.array[row].as_py() for row in rows.tolist()]
        return found

    @property
    def nbytes(self) -> int:
        """How much memory the array takes."""
        return int(self.given.nbytes)

    def cut(self, rows: slice) -> LateValues | None:
        """Return some of the values, still to be made; None if that would save nothing."""
        return ArrowObjects(self.array[rows])

    def joined(self, parts: Sequence[Any]) -> LateValues:
        """Return the values of parts that were cut, to be made at once."""
        if len(parts) == 1 or len({part.array.type for part in parts}) > 1:
            return Joined(parts)
        return ArrowObjects(arrow().chunked_array([part.array for part in parts]))

    def part(self, rows: slice) -> LateValues:
        """Return some of the values: what is only cut is pickled with all of the array."""
        return ArrowObjects(arrow().concat_arrays([self.array[rows]]))


def _way(kind: Any) -> Callable[[Any], np.ndarray]:
    """Return the function that makes values of an array of a type."""
    types = arrow().types
    return next((way for test, way in _VALUES if getattr(types, test)(kind)), _as_numpy)


def _as_numpy(array: Any) -> np.ndarray:
    found: np.ndarray = array.to_numpy(zero_copy_only=False)
    return found


def _filled(fill: Any) -> Callable[[Any], np.ndarray]:
    return lambda array: _as_numpy(array.fill_null(fill) if array.null_count else array)


def _times(array: Any) -> np.ndarray:
    """Return times of day as the time that has passed since midnight."""
    whole = array.cast(f"int{array.type.bit_width}").cast("int64")
    least = np.iinfo(np.int64).min  # NaT
    return _filled(int(least))(whole).view(f"m8[{array.type.unit}]")


def _views(array: Any) -> np.ndarray:
    return _as_numpy(_without_views(array))


def _without_views(array: Any) -> Any:
    """Return texts or bytes as an array of which Arrow can take some."""
    kind = _taken_as(array.type)
    return array if kind == array.type else array.cast(kind)


def _taken_as(kind: Any) -> Any:
    """Return the type of texts or bytes of which Arrow can take some."""
    types = arrow().types
    if types.is_string_view(kind):
        return arrow().large_string()
    return arrow().large_binary() if types.is_binary_view(kind) else kind


def _fixed_bytes(array: Any) -> np.ndarray:
    width = array.type.byte_width
    if not width:
        return _as_numpy(array)
    whole = array.fill_null(bytes(width)) if array.null_count else array
    start = whole.offset * width
    raw = np.frombuffer(whole.buffers()[1] or b"", np.uint8)[start : start + len(whole) * width]
    return raw.view(f"V{width}")


_VALUES: tuple[tuple[str, Callable[[Any], np.ndarray]], ...] = (
    ("is_boolean", _filled(False)),
    ("is_integer", _filled(0)),
    ("is_time", _times),
    ("is_string_view", _views),
    ("is_binary_view", _views),
    ("is_fixed_size_binary", _fixed_bytes),
    ("is_null", lambda array: np.full(len(array), np.nan)),
)
"""How values are read that pyarrow gives otherwise, by the names of its tests of types."""


# --- dictionaries --------------------------------------------------------------------------------


def codes_in(array: Any, labels: Any) -> np.ndarray:
    """Return the codes that the values of a dictionary array have among labels.

    >>> codes_in(arrow().array(["b", None, "a"]).dictionary_encode(), arrow().array(["a", "b"]))
    array([ 1, -1,  0], dtype=int32)
    """
    codes = _as_numpy(array.indices.cast("int64").fill_null(-1))
    own = array.dictionary
    if not own.null_count and (own is labels or own.equals(labels)):
        return codes.astype(CODES)
    known = compute().index_in(own, value_set=labels, skip_nulls=True)
    if known.null_count > own.null_count:
        raise ValueError(
            "its labels are others than those that the file lists; write it anew without the "
            f"metadata {TABLE_META.decode()!r} of the column"
        )
    table = np.append(_as_numpy(known.fill_null(-1)), -1)
    if (codes >= len(own)).any():
        raise ValueError("a code has no label in its dictionary")
    found: np.ndarray = table[codes].astype(CODES)
    return found


def noted_labels(leaf: Leaf) -> Any:
    """Return the labels that the metadata of a column of codes list, None if they list none."""
    return labels_in_arrow(leaf.meta.get(LABELS), leaf.type.value_type)


def told_labels(leaf: Leaf, labels: Any) -> list[Any]:
    """Return labels as a list: that of the metadata if it is of these."""
    noted = noted_labels(leaf) if arrow().types.is_dictionary(leaf.type) else None
    if noted is None or not noted.equals(labels):
        return listed_labels(labels)
    found: list[Any] = leaf.meta[LABELS]
    return found


def listed_labels(labels: Any) -> list[Any]:
    """Return labels as a list: dates and durations as NumPy has them, all else as Python has."""
    types, kind = arrow().types, labels.type
    is_of_times = types.is_date(kind) or types.is_duration(kind) or types.is_timestamp(kind)
    if is_of_times and not getattr(kind, "tz", None):
        return [*values_of(labels)]
    found: list[Any] = labels.to_pylist()
    return found


def labels_in(dictionaries: Sequence[Any]) -> Any:
    """Return the labels of some dictionaries together, each once, without what is missing.

    >>> labels_in([arrow().array(["b", None]), arrow().array(["a", "b"])]).to_pylist()
    ['b', 'a']
    """
    pyarrow = arrow()
    if len(dictionaries) == 1:
        (whole,) = dictionaries
    else:
        whole = pyarrow.chunked_array(dictionaries)
    return one_array(whole.drop_null().unique())


def _decoded(codes: np.ndarray, labels: Any) -> LateValues:
    """Return the values that codes are of; those that are equal are one object."""
    pyarrow = arrow()
    return Decoded(
        codes, ArrowObjects(pyarrow.concat_arrays([labels, pyarrow.nulls(1, labels.type)]))
    )


def items_in(array: Any) -> Any:
    """Return the values of all lists of an array."""
    return _in_lists(_plain(array))[2]


def dictionaries_in(column: Any, name: Name) -> Iterator[tuple[Name, Any]]:
    """Yield the dictionaries below a column by the names of their leaves."""
    pyarrow = arrow()
    for array in column.chunks if isinstance(column, pyarrow.ChunkedArray) else [column]:
        kind = array.type
        if pyarrow.types.is_dictionary(kind):
            yield name, array.dictionary
        elif pyarrow.types.is_struct(kind):
            for part, child in zip(kind, array.flatten(), strict=True):
                yield from dictionaries_in(child, (*name, part.name))
        elif is_fixed(kind):  # of which the missing ones have values, too
            yield from dictionaries_in(array.values, name)
        elif pyarrow.types.is_nested(kind):
            yield from dictionaries_in(_in_lists(array)[2], name)
