"""Data as lines: aligned columns, and JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from dataview.show import harmless

WIDEST = 40
"""A cell has at most so many characters."""

SHORT = 8
"""Of arrays of more elements a cell says the dtype and the shape."""


def plain(value: Any) -> Any:
    """Return a value as JSON has it: NaN and infinities are null, times and bytes texts.

    >>> plain({"x": np.array([1.5, np.nan]), "t": np.datetime64("2001-02-03")})
    {'x': [1.5, None], 't': '2001-02-03'}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.void) and value.dtype.names:
        return {name: plain(value[name]) for name in value.dtype.names}
    if isinstance(value, np.datetime64 | np.timedelta64):
        return None if np.isnat(value) else str(value)
    if isinstance(value, np.ndarray) and (value.dtype.kind in "mMV" or value.ndim == 0):
        return plain(value[()]) if value.ndim == 0 else [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes | bytearray):
        return value.decode(errors="backslashreplace")
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def json_of(value: Any) -> str:
    """Return a value as JSON with a line for each item."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)


def json_of_rows(blocks: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line of JSON for each row of blocks of columns."""
    for columns in blocks:
        for row in zip(*columns.values(), strict=True):
            cells = dict(zip(columns, row, strict=True))
            value = cells[""] if list(cells) == [""] else cells
            yield json.dumps(plain(value), ensure_ascii=False, allow_nan=False)


def table_of(blocks: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each row of blocks of columns, below one with their names.

    The columns are as wide as the first block needs.

    >>> list(table_of([{"name": np.array(["Ada"]), "age": np.array([36])}]))
    ['name  age', 'Ada    36']
    """
    widths: list[int] = []
    for columns in map(_spread, blocks):
        rows = [[_cell(value) for value in row] for row in zip(*columns.values(), strict=True)]
        if not widths:
            heads = [harmless(name, WIDEST) for name in columns]
            widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
            sides = [_side(values) for values in columns.values()]
            yield _line(heads, widths, sides)
        yield from (_line(row, widths, sides) for row in rows)


def _spread(columns: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the columns of one short array without fields each by its number."""
    values = columns.get("")
    if not isinstance(values, np.ndarray):
        return columns
    if values.ndim == 2 and values.dtype.kind != "O" and values.shape[1] <= 2 * SHORT:
        return {str(number): values[:, number] for number in range(values.shape[1])}
    return {"(data)": values}


def _side(values: Any) -> Any:
    """Return how a column is aligned: numbers to the right."""
    found = next((value for value in values if value is not None), None)
    return str.rjust if isinstance(found, np.number | int | float) else str.ljust


def _line(cells: list[str], widths: list[int], sides: list[Any]) -> str:
    parts = zip(cells, widths, sides, strict=True)
    return "  ".join(side(cell, width) for cell, width, side in parts).rstrip()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, np.ndarray) and value.ndim:
        if value.size > SHORT:
            return f"{value.dtype} {value.shape}"
        return harmless(f"[{' '.join(map(_cell, value.reshape(-1)))}]", WIDEST)
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    return harmless(str(plain(value)), WIDEST)
