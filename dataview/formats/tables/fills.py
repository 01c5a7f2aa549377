"""Values that stand for missing ones, as a user gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dataview.errors import hint, shortened
from dataview.formats.tables.columns import Kind, Name
from dataview.formats.tables.schema import is_of_codes
from dataview.index import is_integer
from dataview.plan.gaps import NO_LABEL
from dataview.plan.values import in_durations


def fills_of(
    fill: Any, kinds: Mapping[Name, Kind], labels: Mapping[Name, Sequence[Any]], title: str
) -> dict[Name, Any]:
    """Return what stands for missing values, by column, if it is a value of the column's dtype.

    Of codes, which stand for `labels`, it is one of these, or -1 if a value is given for all
    columns: that one is meant for others, and no code says that it is missing as well as -1.
    """
    if fill is None:
        return {}
    dotted = {".".join(name): name for name in kinds}
    given = (
        fill
        if isinstance(fill, Mapping)
        else {
            own: NO_LABEL if is_of_codes(kinds[name]) else fill
            for own, name in dotted.items()
            if kinds[name].has_missing
        }
    )
    found: dict[Name, Any] = {}
    for name, value in given.items():
        if name not in dotted:
            raise ValueError(f"fill= names {name!r}, {no_column(name, dotted, title)}")
        if is_of_codes(kinds[dotted[name]]):
            known = labels.get(dotted[name], ())
            found[dotted[name]] = _code_of(value, known, f"column {name!r} of {title}")
            continue
        dtype = kinds[dotted[name]].dtype
        value = in_durations(value) if dtype.kind == "m" else value
        found[dotted[name]] = value
        if not _is_of(value, dtype):
            raise TypeError(
                f"fill={value!r} is no value of column {name!r} of {title}, which holds "
                f"{'texts or other objects' if dtype.hasobject else dtype}; fill={{name: value}} "
                "gives a value for some columns alone"
            )
    return found


def _code_of(value: Any, labels: Sequence[Any], column: str) -> int:
    """Return the code of a label, or an integer that is a code, or raise.

    >>> [_code_of(value, ["a", "b"], "it") for value in ("b", 0, -1)]
    [1, 0, -1]
    """
    if is_integer(value):
        code = int(value) if NO_LABEL <= value < len(labels) else None
    else:
        same = (n for n, label in enumerate(labels) if np.ndim(value) == 0 and label == value)
        code = next(same, None)
    if code is None:
        texts = [label for label in labels if isinstance(label, str)]
        shown = shortened(", ".join(map(repr, labels[:SHOWN]))) or "none"
        word = "code" if is_integer(value) else "label"
        raise ValueError(
            f"fill={value!r} is no {word} of {column}{hint(str(value), texts) or '.'} The labels "
            f"are: {shown}; an integer is the code of one of these {len(labels)}, or "
            f"{NO_LABEL} for what is missing"
        )
    return code


SHOWN = 100
"""So many labels are looked at for an error, which shows the first few."""


def no_column(name: str, names: Iterable[str], title: str) -> str:
    """Say that a table has no column of a name, and which it has."""
    return f"which is no column of {title}{hint(name, list(names))}"


def _is_of(value: Any, dtype: np.dtype[Any]) -> bool:
    """Whether an array of a dtype can hold a value as it is.

    >>> [_is_of(value, np.dtype("i2")) for value in (-1, 1.5, 1 << 20, "x")]
    [True, False, False, False]
    """
    if dtype.hasobject:
        return not isinstance(value, (bool, int, float))
    try:
        found = np.array(value, dtype)
        return bool(found == value or found != found) and found.shape == ()
    except (TypeError, ValueError, OverflowError):
        return False
