"""Metadata as text, which is JSON: dates and durations of NumPy are dicts with their dtype."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np


def as_text(value: Any) -> str:
    """Return what JSON holds as text, with dates and durations.

    >>> as_text({"labels": [np.datetime64("2020-01-01")], "n": 1})
    '{"labels": [{"datetime64[D]": "2020-01-01"}], "n": 1}'
    """
    return json.dumps(value, default=_told)


def of_text(text: str | bytes) -> Any:
    """Return what a text says.

    >>> of_text('{"labels": [{"datetime64[D]": "2020-01-01"}], "n": 1}')
    {'labels': [np.datetime64('2020-01-01')], 'n': 1}
    """
    return json.loads(text, object_hook=_meant)


def is_time(value: Any) -> bool:
    """Whether a value is a date or a duration of NumPy."""
    return isinstance(value, (np.datetime64, np.timedelta64))


def _told(value: Any) -> Any:
    if not is_time(value):
        raise TypeError(f"a text of JSON has no {type(value).__name__}")
    is_date = isinstance(value, np.datetime64)
    return {str(value.dtype): str(value) if is_date else int(value.astype(np.int64))}


_DTYPE = re.compile(r"(datetime|timedelta)64(\[\d*[a-zA-Zμ]{1,2}\])?")


def _meant(found: dict[str, Any]) -> Any:
    """Return what a dict stands for, which others may have written: most are themselves."""
    ((name, told), *more) = found.items() if found else [("", None)]
    if more or not _DTYPE.fullmatch(name) or not isinstance(told, (str, int)):
        return found
    kind: Any = np.datetime64 if name.startswith("d") else np.timedelta64
    try:
        return kind(told, np.datetime_data(np.dtype(name)))
    except (TypeError, ValueError, OverflowError):
        return found
