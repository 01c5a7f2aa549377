"""Metadata as text, which is JSON: a value that JSON does not have is a dict with its kind."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


def as_text(value: Any) -> str:
    """Return metadata as text.

    >>> as_text({"labels": [np.datetime64("2020-01-01")], "n": 1})
    '{"labels": [{"datetime64[D]": "2020-01-01"}], "n": 1}'
    """
    return json.dumps(_plain(value))


def of_text(text: str | bytes) -> Any:
    """Return what a text says.

    >>> of_text('{"labels": [{"datetime64[D]": "2020-01-01"}], "n": 1}')
    {'labels': [np.datetime64('2020-01-01')], 'n': 1}
    """
    return json.loads(text, object_hook=_meant)


def has_text(value: Any) -> bool:
    """Whether a single value comes back from text as it is.

    >>> has_text("a"), has_text(b"a"), has_text(decimal.Decimal("0.10")), has_text(1j)
    (True, True, True, False)
    """
    return value is None or type(value) in _OF_JSON or _told(value) is not None


_OF_JSON = (str, int, bool, float)


def of_python(value: Any) -> Any:
    """Return metadata with numbers, truth values and texts of Python for those of NumPy.

    >>> of_python({"mean": np.float32(0.5), "names": [np.str_("a")], "all": np.True_})
    {'mean': 0.5, 'names': ['a'], 'all': True}
    """
    if isinstance(value, np.generic):
        found = value.item() if value.dtype.kind in "biufU" else value
        return found if type(found) in _OF_JSON else value  # there is no long double in Python
    if type(value) is list:
        return [*map(of_python, value)]
    if type(value) is dict:
        return {key: of_python(part) for key, part in value.items()}
    return value


class _Kind(NamedTuple):
    """How values of a class are written, and read again."""

    of: type
    told: Callable[[Any], Any]
    meant: Callable[[Any], Any]


def _moment(text: str) -> datetime.datetime:
    """Return a time from text, in its zone if this machine knows that.

    >>> _moment("2020-07-01T12:00:00+02:00[Europe/Berlin]").utcoffset()
    datetime.timedelta(seconds=7200)
    """
    import zoneinfo  # which loads what Python was built with

    plain, _, zone = text.removesuffix("]").partition("[")
    found = datetime.datetime.fromisoformat(plain)
    try:
        return found.astimezone(zoneinfo.ZoneInfo(zone)) if zone else found
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return found


def _moment_text(value: datetime.datetime) -> str:
    zone = getattr(value.tzinfo, "key", None)
    return f"{value.isoformat()}[{zone}]" if zone else value.isoformat()


_KINDS = {
    "builtins.bytes": _Kind(bytes, lambda raw: base64.b64encode(raw).decode(), base64.b64decode),
    "decimal.Decimal": _Kind(decimal.Decimal, str, decimal.Decimal),
    "datetime.datetime": _Kind(datetime.datetime, _moment_text, _moment),
    "datetime.date": _Kind(datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    "datetime.time": _Kind(datetime.time, datetime.time.isoformat, datetime.time.fromisoformat),
    "datetime.timedelta": _Kind(
        datetime.timedelta,
        lambda lapse: [lapse.days, lapse.seconds, lapse.microseconds],
        lambda parts: datetime.timedelta(*parts),
    ),
}
"""Values of Python by the key of the dict that stands for one."""

_PAIRS = "builtins.dict"
"""The key of a dict that stands for a dict which could be taken for a value."""

_DTYPE = re.compile(r"(datetime|timedelta)64(\[\d*[a-zA-Zμ]{1,2}\])?")


def _is_key(name: Any) -> bool:
    is_ours = name in _KINDS or name == _PAIRS
    return is_ours or (isinstance(name, str) and _DTYPE.fullmatch(name) is not None)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, dict):
        found = {key: _plain(part) for key, part in value.items()}
        return {_PAIRS: [*found.items()]} if len(found) == 1 and _is_key(*found) else found
    if isinstance(value, (list, tuple)):
        return [*map(_plain, value)]
    if value is None or isinstance(value, _OF_JSON):
        return value
    told = _told(value)
    if told is None:
        raise TypeError(f"a text of JSON has no {type(value).__name__}")
    return told


def _told(value: Any) -> dict[str, Any] | None:
    """Return the dict that stands for a value, None if it would come back as another."""
    if isinstance(value, (np.datetime64, np.timedelta64)):
        is_date = isinstance(value, np.datetime64)
        return {str(value.dtype): str(value) if is_date else int(value.astype(np.int64))}
    for key, kind in _KINDS.items():
        if isinstance(value, kind.of):
            try:  # a time of pandas may have nanoseconds, and NaT is a time without a text
                told = kind.told(value)
                is_same = kind.meant(told) == value or value != value
            except (ArithmeticError, TypeError, ValueError):
                return None
            return {key: told} if is_same else None
    return None


def _meant(found: dict[str, Any]) -> Any:
    """Return what a dict stands for, which others may have written: most are themselves."""
    ((key, told), *more) = found.items() if found else [("", None)]
    if more or told is None or not _is_key(key):
        return found
    try:
        if key == _PAIRS:
            return dict(told)
        if key in _KINDS:
            return _KINDS[key].meant(told)
        if not isinstance(told, (str, int)):
            return found
        kind: Any = np.datetime64 if key.startswith("d") else np.timedelta64
        return kind(told, np.datetime_data(np.dtype(key)))
    except (ArithmeticError, AttributeError, TypeError, ValueError):
        return found
