"""Arrow's columns as NumPy has them: what each type becomes, and the arrays of some rows.

The leaves of a column are the members of its structs and what is in its lists: each is a column of
its own by the names that lead to it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.errors import import_library
from dataview.formats.meta_text import of_text
from dataview.formats.tables.arrow_labels import labels_in_arrow, with_noted_codes
from dataview.formats.tables.columns import NOTHING, Kind, Name, tells_missing
from dataview.formats.tables.late_values import LateValues
from dataview.plan.gaps import LABELS, PRESENT, tells_present
from dataview.plan.values import TIME_OF_DAY

CODES, MISSING_CODE = np.dtype("i4"), -1
"""The dtype of codes of dictionaries, and the code of what is missing."""

TABLE_META = b"dataview"
"""The key under which a field of a schema has the metadata of a view, as JSON."""


DECIMAL = "decimal"
"""The metadata of a field of decimals under this name are their type, such as decimal128(10, 2)."""

HAS_MASK = "mask"
"""The entry of that metadata for a column that has a mask even if nothing is missing."""

OF_ELEMENTS = "elements"
"""The value of that entry if the mask is one of elements of rows; it is true otherwise."""


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


def leaves_of(
    fields: Sequence[Any],
    may_miss: Callable[[Name, int], bool],
    lacks_elements: Callable[[Name, tuple[int, ...], int], bool] = lambda *_: True,
    notes: Mapping[bytes, bytes] | None = None,
) -> Leaves:
    """Return the leaves of the columns of a schema, of which `notes` are the metadata.

    `may_miss` says by its name and its place whether one may lack values, and `lacks_elements`
    by its shape, too, whether these may be elements of its rows, and not only rows.
    """
    leaves, labels = Leaves({}, {}, {}), _labels_in(notes)
    count, with_mask, lacking = 0, set(), set()
    for field in fields:
        found = list(_leaves(field, (), _Around()))
        for name, _ in found:
            leaves.places[name] = count  # that of a record is that of its first member
            count += not tells_present(name)
        reasons = [leaf for _, leaf in found if isinstance(leaf, str)]
        if not all(map(all, (name for name, _ in found))):
            reasons = ["has no name, or one of its members has none; rename it"]
        if reasons or all(tells_present(name) for name, _ in found):
            reasons = reasons or ["is a struct without members"]
            leaves.lost[field.name] = reasons[0]
        for name, leaf in () if reasons else found:
            assert isinstance(leaf, Leaf)
            meta = dict(leaf.meta)
            if name in labels and leaf.kind.dtype.kind in "iu":
                meta.setdefault(LABELS, labels[name])
            noted, place, kind = meta.pop(HAS_MASK, False), leaves.places[name], leaf.kind
            has_missing = kind.has_missing and may_miss(name, place)
            if kind.lacks_elements and noted != OF_ELEMENTS:
                is_likely = has_missing and (kind.depth or lacks_elements(name, kind.shape, place))
                kind = kind._replace(lacks_elements=bool(is_likely))
            if noted in (True, OF_ELEMENTS):
                has_missing = True
                with_mask.add(name)
            if has_missing is not kind.has_missing:
                kind = kind._replace(has_missing=has_missing)
            if is_coded(leaf):  # of which the statistics of a file count no missing ones
                lacking.add(name)
            leaves.found[name] = Leaf(kind, leaf.type, meta)
    _leave_whole_records_out(leaves.found, with_mask, lacking)
    return leaves


def _leave_whole_records_out(
    found: dict[Name, Leaf], with_mask: Collection[Name], lacking: Collection[Name]
) -> None:
    """Take out what tells which records are missing if one of their members never is.

    Records `with_mask` have one in any case, and members that are `lacking` may be missing.
    """
    whole = {
        name[:end]
        for name, leaf in found.items()
        if not leaf.kind.has_missing and name not in lacking
        for end in range(1, len(name))
    }
    for name in [name for name in found if tells_present(name) and name not in with_mask]:
        if name[:-1] in whole:
            del found[name]


def _leaves(field: Any, within: Name, around: _Around) -> Iterator[tuple[Name, Leaf | str]]:
    """Yield the leaves below a field by name, or why it has none."""
    name = (*within, field.name)
    plain = None if within or field.metadata else _plain(field.type, field.nullable)
    if plain is not None:
        yield name, plain
        return
    told = text_meta(field.metadata)
    may_lack = around.nullable or field.nullable
    if may_lack and not around.depth and not around.shape and _is_record(field.type):
        noted = {key: value for key, value in told.items() if key == HAS_MASK}
        yield (*name, PRESENT), Leaf(_MAY_LACK, arrow().bool_(), noted)
    coded = with_noted_codes(field.type, told)
    kind = field.type if coded is None else coded
    for own, leaf in _below(kind, name, around.with_nulls_of(field)):
        if own == name and isinstance(leaf, Leaf) and field.metadata:
            leaf = leaf._replace(meta={**_noted(told, leaf), **leaf.meta})
        yield own, leaf


_MAY_LACK = Kind(np.dtype(bool), has_missing=True)
"""What tells which records there are."""


def _is_record(kind: Any) -> bool:
    return bool(arrow().types.is_struct(stored_type(kind)[0]))


def _noted(told: Mapping[str, Any], leaf: Leaf) -> Mapping[str, Any]:
    """Return what a file told of a leaf: what is no codes has no labels that would be a dictionary.

    Another library may have put the values in their place.
    """
    is_coded = arrow().types.is_dictionary(leaf.type) or labels_in_arrow(told.get(LABELS)) is None
    return told if is_coded else {key: value for key, value in told.items() if key != LABELS}


@functools.lru_cache(maxsize=1 << 10)  # columns of a table are of few types
def _plain(kind: Any, nullable: bool) -> Leaf | None:
    """Return the leaf that a column of a type without parts is, None for other types."""
    found = [*_below(kind, (), _Around(nullable=nullable))]
    is_plain = len(found) == 1 and not found[0][0] and not kind.num_fields
    return found[0][1] if is_plain and isinstance(found[0][1], Leaf) else None


class _Around(NamedTuple):
    """What a type is inside of: lists of one length, of others, and what may be missing."""

    shape: tuple[int, ...] = ()
    depth: int = 0
    nullable: bool = False
    lacks_elements: bool = False

    def with_nulls_of(self, field: Any) -> _Around:
        """Return the same with what a field in it may lack."""
        if not field.nullable:
            return self
        return _Around(self.shape, self.depth, True, bool(self.shape))

    def in_shape(self, shape: tuple[int, ...], item: Any) -> _Around:
        """Return what is around an item of lists of one length."""
        return self._replace(shape=(*self.shape, *shape)).with_nulls_of(item)

    def in_list(self, item: Any) -> _Around:
        """Return what is around an item of lists of any length."""
        return _Around(depth=self.depth + 1, nullable=self.nullable or item.nullable)


def _below(kind: Any, name: Name, around: _Around) -> Iterator[tuple[Name, Leaf | str]]:
    """Yield the leaves below a type by name, or why it has none."""
    types = arrow().types
    kind, inner_shape = stored_type(kind)
    has_parts = kind.num_fields > 0
    if types.is_struct(kind):
        for part in kind:
            yield from _leaves(part, name, around)
    elif has_parts and is_fixed(kind):
        lengths = inner_shape or (kind.list_size,)
        yield from _below(kind.value_type, name, around.in_shape(lengths, kind.value_field))
    elif has_parts and is_list(kind):
        item = _item_of(kind)
        yield from _below(item.type, name, around.in_list(item))
    else:
        values = _values_of(kind)
        yield name, values if isinstance(values, str) else values.within(around)


class _Values(NamedTuple):
    """What values of a type without parts are, wherever they stand."""

    kind: Kind
    type: Any
    meta: Mapping[str, Any]

    def within(self, around: _Around) -> Leaf:
        """Return the leaf of them inside of what is around."""
        shape, depth, nullable, inside = around
        inside = inside and not tells_missing(self.kind.dtype)
        kind = self.kind._replace(
            shape=shape, depth=depth, has_missing=nullable, lacks_elements=inside
        )
        return Leaf(kind, self.type, self.meta)


@functools.lru_cache(maxsize=1 << 10)  # columns of a table are of few types
def _values_of(kind: Any) -> _Values | str:
    """Return what the values of a type without parts are, or why there are none."""
    types = arrow().types
    found = dtype_of(kind)
    if isinstance(found, str):
        return found
    meta: dict[str, Any] = {"timezone": kind.tz} if types.is_timestamp(kind) and kind.tz else {}
    meta |= {DECIMAL: str(kind)} if types.is_decimal(kind) else {}
    meta |= {TIME_OF_DAY: True} if types.is_time(kind) else {}
    nothing = MISSING_CODE if types.is_dictionary(kind) else None
    return _Values(Kind(found, nature=_nature(kind), nothing=nothing), kind, meta)


def _nature(kind: Any) -> str:
    """Return what values of a type are beside their dtype, such as texts or codes of them."""
    types = arrow().types
    if types.is_dictionary(kind):
        told = "" if types.is_time(kind.value_type) else _nature(kind.value_type)
        return f"codes of {told or kind.value_type}"
    if types.is_time(kind):
        return "times of day"
    if types.is_timestamp(kind) and kind.tz:
        return f"in {kind.tz}"
    if types.is_null(kind):
        return NOTHING
    is_object = dtype_of(kind) == LateValues.dtype
    return str(kind).removeprefix("large_").removesuffix("_view") if is_object else ""


def is_coded(leaf: Leaf) -> bool:
    """Whether the values of a leaf are codes."""
    return bool(arrow().types.is_dictionary(leaf.type))


def without_codes(leaf: Leaf) -> Leaf:
    """Return a leaf of what its codes stand for."""
    values = _values_of(leaf.type.value_type)
    assert isinstance(values, _Values)
    dtype, nature = values.kind.dtype, values.kind.nature
    lacks = leaf.kind.lacks_elements and not tells_missing(dtype)
    own = leaf.kind._replace(dtype=dtype, nature=nature, nothing=None, lacks_elements=lacks)
    meta = {key: told for key, told in leaf.meta.items() if key != LABELS}
    return Leaf(own, values.type, {**meta, **values.meta})


def stored_type(kind: Any) -> tuple[Any, tuple[int, ...]]:
    """Return the type of what an extension stores, and the shape of a tensor."""
    pyarrow, shape = arrow(), ()
    while True:
        if isinstance(kind, pyarrow.BaseExtensionType):
            shape = tuple(getattr(kind, "shape", ())) if _is_tensor(kind) else ()
            kind = kind.storage_type
        elif pyarrow.types.is_run_end_encoded(kind):
            kind = kind.value_type
        elif pyarrow.types.is_dictionary(kind) and isinstance(dtype_of(kind.value_type), str):
            kind = kind.value_type  # its labels are lists or structs: they are no labels here
        else:
            return kind, shape


def is_read_whole(kind: Any) -> bool:
    """Whether a column's parts are read together, since one alone would have another type.

    So are extensions of another library that store structs, and lists of one length of structs of
    which some members are lists: others would be arrays without these.
    """
    if arrow().types.is_fixed_size_list(kind) and not is_fixed(kind):
        return True
    if isinstance(kind, arrow().BaseExtensionType):
        storage = kind.storage_type
        return bool(arrow().types.is_nested(storage)) and not is_fixed(storage)
    return any(is_read_whole(kind.field(number).type) for number in range(kind.num_fields))


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


def is_fixed(kind: Any) -> bool:
    """Whether a type is of lists of one length without lists of other lengths inside."""
    return arrow().types.is_fixed_size_list(kind) and not _has_lists(kind.value_type)


def _has_lists(kind: Any) -> bool:
    kind, _ = stored_type(kind)
    if arrow().types.is_struct(kind):
        return any(_has_lists(part.type) for part in kind)
    return is_list(kind) and not is_fixed(kind)


def _item_of(kind: Any) -> Any:
    """Return the field of what is in a list; in a map these are pairs."""
    pyarrow = arrow()
    if pyarrow.types.is_map(kind):
        return pyarrow.field("pairs", pairs_of(kind), nullable=False)
    return kind.value_field


def pairs_of(kind: Any) -> Any:
    pyarrow = arrow()
    key = pyarrow.field("key", kind.key_type, nullable=False)
    return pyarrow.struct([key, pyarrow.field("value", kind.item_type)])


@functools.lru_cache(maxsize=1 << 10)  # columns of a table are of few types
def dtype_of(kind: Any) -> np.dtype[Any] | str:
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


_INTERNAL = ("PARQUET:", "ARROW:", "pandas", "huggingface")


def _labels_in(notes: Mapping[bytes, bytes] | None) -> dict[Name, list[str]]:
    """Return the names of classes that a data set of Hugging Face notes, by that of their column.

    >>> features = b'{"y": {"names": ["no", "yes"], "_type": "ClassLabel"}}'
    >>> _labels_in({b"huggingface": b'{"info": {"features": %s}}' % features})
    {('y',): ['no', 'yes']}
    """
    found: dict[Name, list[str]] = {}
    raw = (notes or {}).get(b"huggingface")
    noted = None if raw is None else _from_json(raw)
    info = noted.get("info") if isinstance(noted, dict) else None
    waiting: list[tuple[Name, Any]] = [((), info.get("features") if isinstance(info, dict) else {})]
    while waiting:
        name, feature = waiting.pop()
        if isinstance(feature, list):  # of one feature, as lists were noted once
            waiting.extend((name, item) for item in feature)
        elif isinstance(feature, dict) and "_type" in feature:
            waiting.append((name, feature.get("feature")))
            names = feature.get("names") if feature["_type"] == "ClassLabel" else None
            if isinstance(names, list) and all(isinstance(one, str) for one in names):
                found[name] = names
        elif isinstance(feature, dict):
            waiting.extend(((*name, part), inner) for part, inner in feature.items())
    return found


def _from_json(text: bytes) -> Any:
    try:
        return of_text(text)
    except (ValueError, RecursionError):
        return None
