"""Arrow's columns as NumPy has them: what each type becomes, and the arrays of some rows.

The leaves of a column are the members of its structs and what is in its lists: each is a column of
its own by the names that lead to it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dataview.errors import import_library
from dataview.formats.tables.columns import Column, Kind, Name
from dataview.formats.tables.late_values import Decoded, LateValues

CODES, MISSING_CODE = np.dtype("i4"), -1
"""The dtype of codes of dictionaries, and the code of what is missing."""

TABLE_META = b"dataview"
"""The key under which a field of a schema has the metadata of a view, as JSON."""


HAS_MASK = "mask"
"""The entry of that metadata for a column that has a mask even if nothing is missing."""


class Leaf(NamedTuple):
    """A column without parts: what its values are, their type, and metadata."""

    kind: Kind
    type: Any
    meta: Mapping[str, Any] = {}


class Leaves(NamedTuple):
    """All leaves of some columns by name, and why the others are none.

    `places` are the numbers of all leaves, in their order in files.
    """

    found: dict[Name, Leaf]
    lost: dict[str, str]
    places: dict[Name, int]


@functools.cache  # a file asks for it hundreds of times
def arrow() -> Any:
    """Return the library."""
    return import_library("pyarrow", "dataview[arrow]")


@functools.cache
def compute() -> Any:
    """Return its functions."""
    return import_library("pyarrow.compute", "dataview[arrow]")


# --- what the types become -----------------------------------------------------------------------


def leaves_of(fields: Sequence[Any], may_miss: Callable[[Name, int], bool]) -> Leaves:
    """Return the leaves of the columns of a schema.

    `may_miss` says by its name and its place whether one may lack values.
    """
    leaves = Leaves({}, {}, {})
    count = 0
    for field in fields:
        found = list(_leaves(field, (), (), 0, False))
        leaves.places.update((name, count + place) for place, (name, _) in enumerate(found))
        count += len(found)
        reasons = [leaf for _, leaf in found if isinstance(leaf, str)]
        if not all(map(all, (name for name, _ in found))):
            reasons = ["has no name, or one of its members has none; rename it"]
        if reasons or not found:
            leaves.lost[field.name] = reasons[0] if reasons else "is a struct without members"
        for name, leaf in () if reasons else found:
            assert isinstance(leaf, Leaf)
            meta = dict(leaf.meta)
            is_noted = meta.pop(HAS_MASK, False) is True
            has_missing = leaf.kind.has_missing and may_miss(name, leaves.places[name])
            kind = leaf.kind._replace(has_missing=is_noted or has_missing)
            leaves.found[name] = Leaf(kind, leaf.type, meta)
    return leaves


def _leaves(
    field: Any, within: Name, shape: tuple[int, ...], depth: int, nullable: bool
) -> Iterator[tuple[Name, Leaf | str]]:
    """Yield the leaves below a field by name, or why it has none."""
    name = (*within, field.name)
    for own, leaf in _below(field.type, name, shape, depth, nullable or field.nullable):
        if own == name and isinstance(leaf, Leaf):
            leaf = leaf._replace(meta={**text_meta(field.metadata), **leaf.meta})
        yield own, leaf


def _below(
    kind: Any, name: Name, shape: tuple[int, ...], depth: int, nullable: bool
) -> Iterator[tuple[Name, Leaf | str]]:
    """Yield the leaves below a type by name, or why it has none."""
    types = arrow().types
    kind, inner_shape = stored_type(kind)
    has_parts = kind.num_fields > 0
    if types.is_struct(kind):
        for part in kind:
            yield from _leaves(part, name, shape, depth, nullable)
    elif has_parts and _is_fixed(kind):
        lengths = inner_shape or (kind.list_size,)
        own = nullable or kind.value_field.nullable
        yield from _below(kind.value_type, name, (*shape, *lengths), depth, own)
    elif has_parts and is_list(kind):
        item = _item_of(kind)
        yield from _below(item.type, name, (), depth + 1, nullable or item.nullable)
    else:
        found = _dtype_of(kind)
        if isinstance(found, str):
            yield name, found
            return
        meta = {"timezone": kind.tz} if types.is_timestamp(kind) and kind.tz else {}
        nothing = MISSING_CODE if types.is_dictionary(kind) else None
        yield name, Leaf(Kind(found, shape, depth, nullable, _nature(kind), nothing), kind, meta)


def _nature(kind: Any) -> str:
    """Return what values of a type are beside their dtype, such as texts or codes of them."""
    types = arrow().types
    if types.is_dictionary(kind):
        return f"codes of {_nature(kind.value_type) or kind.value_type}"
    if types.is_timestamp(kind) and kind.tz:
        return f"in {kind.tz}"
    is_object = _dtype_of(kind) == LateValues.dtype
    return str(kind).removeprefix("large_").removesuffix("_view") if is_object else ""


def stored_type(kind: Any) -> tuple[Any, tuple[int, ...]]:
    """Return the type of what an extension stores, and the shape of a tensor."""
    pyarrow, shape = arrow(), ()
    while True:
        if isinstance(kind, pyarrow.BaseExtensionType):
            shape = tuple(getattr(kind, "shape", ())) if _is_tensor(kind) else ()
            kind = kind.storage_type
        elif pyarrow.types.is_run_end_encoded(kind):
            kind = kind.value_type
        elif pyarrow.types.is_dictionary(kind) and isinstance(_dtype_of(kind.value_type), str):
            kind = kind.value_type  # its labels are lists or structs: they are no labels here
        else:
            return kind, shape


def _is_tensor(kind: Any) -> bool:
    return bool(kind.extension_name == "arrow.fixed_shape_tensor")


def is_list(kind: Any) -> bool:
    """Whether a type is of lists of any kind."""
    types = arrow().types
    tests = (
        types.is_list, types.is_large_list, types.is_list_view, types.is_large_list_view,
        types.is_fixed_size_list, types.is_map,
    )  # fmt: skip
    return any(test(kind) for test in tests)


def _is_fixed(kind: Any) -> bool:
    """Whether a type is of lists of one length without lists of other lengths inside."""
    return arrow().types.is_fixed_size_list(kind) and not _has_lists(kind.value_type)


def _has_lists(kind: Any) -> bool:
    kind, _ = stored_type(kind)
    if arrow().types.is_struct(kind):
        return any(_has_lists(part.type) for part in kind)
    return is_list(kind) and not _is_fixed(kind)


def _item_of(kind: Any) -> Any:
    """Return the field of what is in a list; in a map these are pairs."""
    pyarrow = arrow()
    if pyarrow.types.is_map(kind):
        return pyarrow.field("pairs", _pairs_of(kind), nullable=False)
    return kind.value_field


def _pairs_of(kind: Any) -> Any:
    pyarrow = arrow()
    key = pyarrow.field("key", kind.key_type, nullable=False)
    return pyarrow.struct([key, pyarrow.field("value", kind.item_type)])


@functools.lru_cache(maxsize=1 << 10)  # columns of a table are of few types
def _dtype_of(kind: Any) -> np.dtype[Any] | str:
    """Return the dtype of a type without parts, or why there is none."""
    types = arrow().types
    for test, dtype in _DTYPES:
        if getattr(types, test)(kind):
            return np.dtype(dtype if isinstance(dtype, (str, type, np.dtype)) else dtype(kind))
    return f"is of type {kind}, of which NumPy has no arrays"


def _of_unit(letter: str) -> Callable[[Any], str]:
    return lambda kind: f"{letter}8[{kind.unit}]"


_DTYPES: tuple[tuple[str, Any], ...] = (
    ("is_boolean", bool),
    ("is_integer", lambda kind: kind.to_pandas_dtype()),
    ("is_floating", lambda kind: kind.to_pandas_dtype()),
    ("is_timestamp", _of_unit("M")),
    ("is_date32", "M8[D]"),
    ("is_date64", "M8[ms]"),
    ("is_time", _of_unit("m")),
    ("is_duration", _of_unit("m")),
    ("is_dictionary", CODES),
    ("is_string", object),
    ("is_large_string", object),
    ("is_string_view", object),
    ("is_binary", object),
    ("is_large_binary", object),
    ("is_binary_view", object),
    ("is_fixed_size_binary", lambda kind: f"V{kind.byte_width}" if kind.byte_width else object),
    ("is_decimal", object),
    ("is_null", float),
)
"""The dtypes by the names of pyarrow's tests of types: the first one that is true."""


def text_meta(meta: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """Return metadata of Arrow as a dict; what libraries note for themselves is left out."""
    found: dict[str, Any] = {}
    for key, value in (meta or {}).items():
        name = key.decode(errors="backslashreplace")
        if key == TABLE_META:
            own = _from_json(value)
            found.update(own if isinstance(own, dict) else {})
        elif not name.startswith(_INTERNAL):
            found[name] = value.decode(errors="backslashreplace")
    return found


_INTERNAL = ("PARQUET:", "ARROW:", "pandas")


def _from_json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


# --- the values of some rows ---------------------------------------------------------------------


Dictionaries: TypeAlias = Mapping[Name, Any]
"""The labels that codes are of, by leaf; None for a leaf of values that are only kept so."""


def columns_of(
    array: Any, name: Name, dictionaries: Dictionaries = MappingProxyType({})
) -> dict[Name, Column]:
    """Return the leaves of an array by name; by default codes are of its own dictionaries."""
    return {own: _tidy(column) for own, column in _columns(array, name, dictionaries)}


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
        for part, child in zip(kind, array.flatten(), strict=True):
            yield from _columns(child, (*name, part.name), dictionaries)
    elif _is_fixed(kind):
        yield from _fixed(array, name, dictionaries, shape or (kind.list_size,))
    elif is_list(kind):
        offsets, present, values = _in_lists(array)
        for own, column in _columns(values, name, dictionaries):
            yield own, Column(column, present, offsets)
    else:
        present = None if not array.null_count else array.is_valid().to_numpy(zero_copy_only=False)
        if types.is_dictionary(kind):
            labels = dictionaries.get(name, array.dictionary)
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
    if pyarrow.types.is_dictionary(kind) and isinstance(_dtype_of(kind.value_type), str):
        return _plain(array.dictionary_decode())
    return array


def _fixed(
    array: Any, name: Name, dictionaries: Dictionaries, shape: tuple[int, ...]
) -> Iterator[tuple[Name, Column]]:
    """Yield the leaves of lists of one length: a row is missing if a part of it is."""
    count, length = len(array), array.type.list_size
    inner = array.values.slice(array.offset * length, count * length)
    own = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    for leaf, column in _columns(inner, name, dictionaries):
        values, present = np.asarray(column.values), column.present
        whole = present is None or present.reshape(count, length).all(axis=1)
        values = values.reshape(count, *shape, *values.shape[1:])
        if (
            own is not None and values.dtype.kind in "iufMmb"
        ):  # anything may lie where there is none
            values = np.array(values)
            values[~own] = {"f": np.nan, "M": "NaT", "m": "NaT"}.get(values.dtype.kind, 0)
        mask = (
            None
            if whole is True and own is None
            else np.logical_and(whole, True if own is None else own)
        )
        yield leaf, Column(values, mask)


def _in_lists(array: Any) -> tuple[np.ndarray, np.ndarray | None, Any]:
    """Return where lists begin, which there are, and the values of all of them."""
    pyarrow = arrow()
    if pyarrow.types.is_map(array.type):
        array = array.cast(pyarrow.list_(_pairs_of(array.type)))
    present = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    if pyarrow.types.is_fixed_size_list(array.type):
        array = array.cast(pyarrow.large_list(array.type.value_field))
    lengths = compute().list_value_length(array).fill_null(0).to_numpy()
    offsets = np.zeros(len(lengths) + 1, np.intp)
    np.cumsum(lengths, out=offsets[1:])
    return offsets, present, array.flatten()


def _tidy(column: Column) -> Column:
    """Return a column of lists such that a list is missing, too, if any of its values is."""
    inner = column.values
    if not isinstance(inner, Column):
        return column
    assert column.offsets is not None
    inner = _tidy(inner)
    if inner.present is not None and not inner.present.all():
        lacking = np.concatenate([[0], np.cumsum(~inner.present)])
        whole = lacking[column.offsets[1:]] == lacking[column.offsets[:-1]]
        present = whole if column.present is None else column.present & whole
        return Column(inner, present, column.offsets)
    return Column(inner, column.present, column.offsets)


def values_of(array: Any) -> np.ndarray:
    """Return the values of a leaf; what is missing is NaN, NaT, None among objects, or else zero.

    >>> values_of(arrow().array([1, None])).tolist(), values_of(arrow().array([1.5, None])).tolist()
    ([1, 0], [1.5, nan])
    """
    return _way(array.type)(array)


def late_values_of(array: Any) -> np.ndarray | LateValues:
    """Return the values of a leaf, which are made later if they are objects."""
    kind = array.type
    return ArrowObjects(array) if _dtype_of(kind) == LateValues.dtype else _way(kind)(array)


FEW = 8
"""So few rows are made sooner one by one."""


class ArrowObjects(LateValues):
    """An array of Arrow, of whose values objects are made."""

    def __init__(self, array: Any) -> None:
        self.array = _without_views(array)
        self._way = _way(self.array.type)

    def __len__(self) -> int:
        return len(self.array)

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
        return int(self.array.nbytes)


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
    types = arrow().types
    if types.is_string_view(array.type):
        return array.cast(arrow().large_string())
    return array.cast(arrow().large_binary()) if types.is_binary_view(array.type) else array


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
    if own is labels or (own.equals(labels) and not own.null_count):
        return codes.astype(CODES)
    known = compute().index_in(own, value_set=labels, skip_nulls=True)
    if known.null_count > own.null_count:
        raise ValueError("its labels are others than those that the file lists")
    table = np.append(_as_numpy(known.fill_null(-1)), -1)
    if (codes >= len(own)).any():
        raise ValueError("a code has no label in its dictionary")
    found: np.ndarray = table[codes].astype(CODES)
    return found


def noted_labels(leaf: Leaf) -> Any:
    """Return the labels that the metadata of a column list, None if they list none."""
    pyarrow = arrow()
    labels = leaf.meta.get("labels")
    if not isinstance(labels, list):
        return None
    try:
        found = pyarrow.array(labels, leaf.type.value_type)
    except pyarrow.ArrowException:
        return None
    return None if found.null_count or len(found.unique()) < len(found) else found


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
        elif pyarrow.types.is_nested(kind):
            yield from dictionaries_in(array.flatten(), name)
