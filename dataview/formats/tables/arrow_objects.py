"""What NumPy has otherwise, as Arrow has it: decimals, times of day, and lists of dates.

NumPy has decimals as objects of any number of digits, and times of day as durations, so that their
type is metadata of the field.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dataview.formats.tables.arrow import DECIMAL, arrow, compute
from dataview.plan.operations import is_present
from dataview.plan.values import is_time_of_day

MOST_DIGITS = {128: 38, 256: 76}
"""How many digits a decimal has in a type that holds any it may meet, by the bits of the type."""

_TOLD = re.compile(r"(decimal(?:32|64|128|256))\((\d{1,2}), (-?\d{1,3})\)")


def told_decimal(meta: Mapping[str, Any]) -> Any:
    """Return the type of decimals that metadata name, None if they name none.

    >>> told_decimal({"decimal": "decimal128(10, 2)"}), told_decimal({"decimal": "any"})
    (Decimal128Type(decimal128(10, 2)), None)
    """
    told = meta.get(DECIMAL)
    found = _TOLD.fullmatch(told) if isinstance(told, str) else None
    if found is None:
        return None
    try:
        return getattr(arrow(), found[1])(int(found[2]), int(found[3]))
    except (AttributeError, ValueError):  # of a newer Arrow, or with more digits than it has
        return None


def type_in(block: np.ndarray) -> Any:
    """Return the type that Arrow finds for objects, None if all are missing.

    >>> type_in(np.array([None, 2], object)), type_in(np.array([None], object))
    (DataType(int64), None)
    """
    values = block.reshape(-1)
    there = [*map(_with_lists, values[is_present(values)].tolist())]
    return arrow().infer_type(there) if there else None


ZONED = " with a zone"
"""The end of the name of a kind of times."""

_TEXTS, _RAW = {"str", "str_"}, {"bytes", "bytes_", "bytearray"}
_MOMENTS = {"datetime", f"datetime{ZONED}"}
_UNLIKE = ((_TEXTS, _RAW), ({"datetime"}, {f"datetime{ZONED}"}), ({"date"}, _MOMENTS))
"""Kinds of which Arrow makes one silently, and loses what they are."""


def kinds_in(values: np.ndarray) -> dict[str, int]:
    """Return the kinds of objects by name, and where the first of each is.

    >>> kinds_in(np.array(["a", None, b"b", "c"], object))
    {'str': 0, 'bytes': 2}
    """
    found: dict[str, int] = {}
    there = np.flatnonzero(is_present(values))
    objects = values[there].tolist()
    types = {*map(type, objects)}
    if len(types) == 1 and not any(issubclass(kind, _OF_ZONES) for kind in types):
        return {types.pop().__name__: int(there[0])}
    for place, value in zip(there.tolist(), objects, strict=True):
        found.setdefault(_kind_of(value), place)
    return found


_OF_ZONES = (datetime.datetime, datetime.time)


def _kind_of(value: Any) -> str:
    if isinstance(value, _OF_ZONES):
        name = "datetime" if isinstance(value, datetime.datetime) else "time"
        return name if value.tzinfo is None else f"{name}{ZONED}"
    return type(value).__name__


def check_zones(kinds: Mapping[str, int], name_of: Callable[[int], str]) -> None:
    """Raise if there are times of day with a zone; `name_of` says which row a value is in."""
    if f"time{ZONED}" in kinds:
        raise TypeError(
            f"{name_of(kinds[f'time{ZONED}'])} holds a time of day with a zone, which a column of "
            "Arrow has not; _map(lambda time: time.replace(tzinfo=None)) drops the zone, _map(str) "
            "makes texts"
        )


def check_kinds(values: np.ndarray, name_of: Callable[[int], str]) -> None:
    """Raise if Arrow would lose of what kinds some objects are; `name_of` says where one is."""
    kinds = kinds_in(values)
    check_zones(kinds, name_of)
    for one, other in _UNLIKE:
        if one & kinds.keys() and other & kinds.keys():
            told = [(kinds[kind], kind) for kind in kinds if kind in one | other]
            raise several_kinds([f"{kind} in {name_of(place)}" for place, kind in sorted(told)])


def several_kinds(told: Sequence[str]) -> TypeError:
    """Return the error for objects of which one column cannot hold all."""
    return TypeError(
        f"it holds objects of several kinds ({', '.join(told)}), and a column has one; _map(str) "
        "makes texts of them"
    )


def with_lists(values: np.ndarray) -> np.ndarray:
    """Return objects with lists for arrays of which Arrow makes none: of days, arrays, more axes.

    >>> with_lists(np.array([np.zeros((1, 2)), None], object)).tolist()
    [[array([0., 0.])], None]
    """
    if not any(isinstance(value, np.ndarray) for value in values):
        return values
    found = np.empty(len(values), object)
    found[:] = [*map(_with_lists, values)]
    return found


def _with_lists(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == _DAYS:
        return value.tolist()
    return [*map(_with_lists, value)] if value.ndim > 1 or value.dtype.hasobject else value


_DAYS = np.dtype("M8[D]")


def holding(one: Any, other: Any) -> Any:
    """Return the type of decimals that holds those of two types: the first one if that does.

    >>> a, b = arrow().decimal128(10, 2), arrow().decimal128(5, 4)
    >>> str(holding(a, arrow().decimal128(9, 1))), str(holding(a, b))
    ('decimal128(10, 2)', 'decimal128(12, 4)')
    """
    scale = max(one.scale, other.scale)
    digits = scale + max(one.precision - one.scale, other.precision - other.scale)
    if (digits, scale) == (one.precision, one.scale):
        return one
    bits = next((bits for bits, most in MOST_DIGITS.items() if digits <= most), None)
    if bits is None:
        raise ValueError(
            f"its decimals need {digits} digits together, and no type has more than "
            f"{MOST_DIGITS[256]}; _map(str) makes texts of them"
        )
    return (arrow().decimal128 if bits == 128 else arrow().decimal256)(digits, scale)


def is_decimal(kind: Any) -> bool:
    """Whether a type is one of decimals."""
    return bool(arrow().types.is_decimal(kind))


def as_told(array: Any, meta: Mapping[str, Any]) -> Any:
    """Return an array in the type of decimals that metadata name, if that holds its values.

    Durations that metadata tell to be times of day are these.
    """
    if is_time_of_day(meta) and arrow().types.is_duration(array.type):
        return _times_of_day(array)
    told = told_decimal(meta)
    if told is None:
        return array
    if arrow().types.is_null(array.type):
        return array.cast(told)
    is_held = is_decimal(array.type) and holding(told, array.type) == told
    return array.cast(told) if is_held else array


_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
"""How long a day is."""


def _times_of_day(passed: Any) -> Any:
    """Return durations since midnight as times of day, or raise if a day has no such time.

    >>> _times_of_day(arrow().array([60], arrow().duration("s"))).to_pylist()
    [datetime.time(0, 1)]
    """
    unit, whole = passed.type.unit, passed.cast("int64")
    ends = compute().min_max(whole).as_py()
    wrong = next((one for one in ends.values() if one is not None and not 0 <= one < _DAY[unit]), 0)
    if wrong:
        raise ValueError(
            f"{np.timedelta64(wrong, unit)} is no time of day, and the metadata say that all are; "
            "_with_meta(time_of_day=None) makes durations of them"
        )
    if unit in ("s", "ms"):
        return whole.cast("int32").cast(arrow().time32(unit))
    return whole.cast(arrow().time64(unit))
