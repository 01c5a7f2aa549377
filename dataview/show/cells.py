"""Values as short texts: numbers of one column with the same decimals, rows cut in the middle."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from dataview.show.values import Ends
from dataview.show.words import harmless

LINE = 52
"""How long the values beside a field are, at most."""

ROOM = 78
"""How wide a table is, at most: with its indent as a terminal is."""

TEXT = 24
DIGITS = 4
CUT = "…"
EDGES = (3, 2)
"""How many elements of each end of a long row are shown."""

FEWER = (1, 1)
"""The same where two rows would be too long for a line."""

MISSING = "–"

_NO_FRACTION = re.compile(r"\.0+$")


# --- elements ------------------------------------------------------------------------------------


def element_texts(array: np.ndarray, quoted: bool = True) -> list[str]:
    """Return the elements of an array in their order, numbers with the same decimals.

    >>> element_texts(np.array([1.5, 22.25, -3])), element_texts(np.array(["a", "b c"]))
    (['1.50', '22.25', '-3.00'], ["'a'", "'b c'"])
    """
    kind = array.dtype.kind
    if kind in "mM":
        return [_NO_FRACTION.sub("", str(item)) for item in array.reshape(-1)]
    values = array.reshape(-1).tolist()
    if kind == "f":
        is_python = array.dtype.itemsize <= 8  # what tolist() makes of longer ones is NumPy's
        return _floats(values if is_python else [float(value) for value in values])
    if kind == "c":
        return [f"{complex(value):.3g}" for value in values]
    return [_plain(value, quoted) for value in values]


def _plain(value: Any, quoted: bool) -> str:
    """Return one element; for what is no number and no text only the type, as to print may read."""
    kind = type(value)
    if kind is str:
        words = harmless(value, TEXT)
        return f"'{words}'" if quoted else words
    if kind is bytes:
        return repr(value[:TEXT]) + CUT * (len(value) > TEXT)
    if kind is float:
        return f"{value:.6g}"
    if kind is np.ndarray:
        return row_text(value)
    if value is None or kind is bool or (kind is int and value.bit_length() <= 128):
        return str(value)
    return f"<{harmless(kind.__name__)}>"


def _floats(values: list[float]) -> list[str]:
    known = [abs(value) for value in values if math.isfinite(value)]
    largest = max(known, default=0.0)
    if largest >= 1e8 or 0 < largest < 10.0**-DIGITS:
        return [f"{value:.3g}" for value in values]
    decimals = max(1, DIGITS - len(str(int(largest))))
    form = f"%.{decimals}f"
    zero = form % 0.0
    texts = [form % value for value in values]
    if f"-{zero}" in texts:
        texts = [zero if text == f"-{zero}" else text for text in texts]
    ends = [text for text in texts if text[-1].isdigit()]
    if any(text[-1] != "0" for text in ends):
        return texts
    zeros = min((len(text) - len(text.rstrip("0")) for text in ends), default=0)
    cut = min(zeros, decimals - 1)
    return [text[:-cut] if text[-1].isdigit() else text for text in texts] if cut else texts


# --- rows ----------------------------------------------------------------------------------------


def one_text(ends: Ends) -> str:
    """Return the only element of data with all its digits.

    >>> one_text(Ends(np.array(1 / 3))), one_text(Ends(np.array("a")))
    ('0.3333333333333333', "'a'")
    """
    array = ends.first
    if ends.present is not None and not ends.present:
        return MISSING
    is_number = array.dtype.kind in "fc"
    return str(array[()]) if is_number else harmless(element_texts(array)[0], 2 * LINE)


def row_text(row: np.ndarray) -> str:
    """Return a row in brackets, a long one without its middle; a single element without brackets.

    >>> row_text(np.arange(9)), row_text(np.array(3))
    ('[0 1 2 … 7 8]', '3')
    """
    return _row_texts(row[None], EDGES)[0] if row.ndim == 1 else _plain_array(row)


def _plain_array(array: np.ndarray) -> str:
    return f"<array{array.shape}>" if array.ndim else element_texts(array)[0]


def _edges(rows: np.ndarray, edges: tuple[int, int]) -> np.ndarray:
    """Return the first and last columns of rows, all if there are not too many."""
    before, after = edges
    if not rows.ndim or rows.shape[-1] <= before + after + 1:
        return rows
    return np.concatenate([rows[..., :before], rows[..., -after:]], -1)


def _row_texts(rows: np.ndarray, edges: tuple[int, int] = EDGES) -> list[str]:
    """Return each row as a text."""
    if rows.ndim == 1:
        return element_texts(rows)
    kept = _edges(rows, edges)
    texts, width = element_texts(kept), kept.shape[1]
    found = []
    for number in range(len(rows)):
        row = texts[number * width : (number + 1) * width]
        if width < rows.shape[1]:
            row.insert(edges[0], CUT)
        found.append(f"[{' '.join(row)}]")
    return found


def _with_gaps(texts: list[str], ends: Ends) -> list[str]:
    """Return the texts of rows with a sign for those that are missing."""
    if ends.present is None:
        return texts
    marked = zip(texts, ends.present.tolist(), strict=True)
    return [text if is_there else MISSING for text, is_there in marked]


def line_of(ends: Ends | None, room: int = LINE) -> str:
    """Return as many of the first and last rows as there is room for; "" for those of many axes.

    >>> line_of(Ends(np.arange(3), np.arange(7, 10))), line_of(Ends(np.eye(2)))
    ('0 1 2 … 7 8 9', '[1.0 0.0] [0.0 1.0]')
    """
    if ends is None or ends.first.ndim > 2 or not ends.first.size:
        return ""
    if not ends.first.ndim:
        is_there = ends.present is None or ends.present
        return harmless(element_texts(ends.first)[0], room) if is_there else MISSING
    whole = ends.whole
    for edges in (EDGES, FEWER) if whole.ndim > 1 else (EDGES,):
        texts = _with_gaps(_row_texts(whole, edges), ends)
        if ends.last is None and len(line := " ".join(texts)) <= room:
            return line
        last = len(whole) - len(ends.first) if ends.last is not None else len(whole) // 2
        for count in range(len(whole) - last, 0, -1):
            line = " ".join([*texts[:count], CUT, *texts[len(whole) - min(count, last) :]])
            if len(line) <= room:
                return line
    return harmless(f"{texts[0]} {CUT}" if len(texts) > 1 else texts[0], room)


# --- tables --------------------------------------------------------------------------------------


def column_of(ends: Ends) -> list[str]:
    """Return the elements of a column one below the other, with a sign where rows are left out."""
    texts = _with_gaps(_column_texts(ends.whole), ends)
    if ends.last is None:
        return texts
    return [*texts[: len(ends.first)], CUT, *texts[len(ends.first) :]]


def _column_texts(rows: np.ndarray) -> list[str]:
    return element_texts(rows, False) if rows.ndim == 1 else _row_texts(rows)


def grid_of(ends: Ends, room: int) -> list[list[str]]:
    """Return the columns of rows of numbers, the middle ones left out if they need more room."""
    width = ends.first.shape[1]
    most = max(3, room // 4)
    places = [*range(width)] if width <= most else [*range(most // 2), *range(-(most // 2), 0)]
    first, last, present = ends
    columns = [
        column_of(Ends(first[:, n], None if last is None else last[:, n], present)) for n in places
    ]
    wide = [max(map(len, column)) + 2 for column in columns]
    if width <= most and sum(wide) <= room:
        return columns
    count = _fitting(wide, room - len(CUT) - 2)
    gap = [CUT] * len(columns[0]) if columns else []
    return [*columns[:count], gap, *columns[-count:]]


def folds(widths: Iterable[int], room: int) -> list[slice]:
    """Return the columns that have room side by side, with two spaces between them.

    >>> folds([3, 3, 3, 9], 8)
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    ends: list[int] = []
    left = -1
    for number, width in enumerate(widths):
        left -= width + 2
        if left < 0:
            ends.append(number)
            left = room - width
    return [slice(*pair) for pair in itertools.pairwise([*ends, number + 1])] if ends else []


def _fitting(widths: Sequence[int], room: int) -> int:
    """Return how many columns of each end have room, at least one."""
    count = 1
    while count < len(widths) // 2 and sum(widths[: count + 1]) + sum(widths[-count - 1 :]) <= room:
        count += 1
    return count


def aligned(columns: Iterable[Sequence[str]], right: Callable[[int], bool]) -> list[str]:
    """Return lines of columns with two spaces between them; empty columns are left out."""
    kept = []
    for number, column in enumerate(columns):
        width = max(map(len, column), default=0)
        pad = str.rjust if right(number) else str.ljust
        if width:
            kept.append([pad(cell, width) for cell in column])
    return ["  ".join(row).rstrip() for row in zip(*kept, strict=True)]
