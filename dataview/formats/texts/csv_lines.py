"""Where the rows of a text begin: its lines, but those in quotes, the empty ones, and comments."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dataview.formats.texts.dialect import MOST_COLUMNS, Dialect
from dataview.formats.texts.text_bytes import TextFile, line_at

GROUP_BYTES = 1 << 10
"""About so much text is a group: that is parsed to read one row of it."""


class Cuts(NamedTuple):
    """Where the groups of a text end, and how many rows each has; the rest has no end yet."""

    ends: np.ndarray
    rows: np.ndarray

    @property
    def end(self) -> int:
        """Where the rest begins."""
        return int(self.ends[-1]) if len(self.ends) else 0


class Unclosed(ValueError):
    """A quote that has no end in the text; `args` has where its row begins."""


def cut(raw: bytes, dialect: Dialect, is_last: bool) -> Cuts:
    """Return the groups of a text that begins with a row; the last text has no rest."""
    ends = _line_ends(raw, dialect, is_last)
    if ends is not None:
        return _cuts(ends, np.arange(len(ends) + 1))
    starts, ends = records(raw, dialect, is_last)
    is_row = _are_rows(raw, starts, ends, dialect)
    return _cuts(ends, np.concatenate([[0], np.cumsum(is_row)]))


def _cuts(ends: np.ndarray, rows_before: np.ndarray) -> Cuts:
    """Return groups of lines by where these end, and how many rows end before each of them."""
    if not len(ends):
        return Cuts(np.empty(0, np.intp), np.empty(0, np.intp))
    steps = np.arange(GROUP_BYTES, int(ends[-1]), GROUP_BYTES)
    last = np.append(ends.searchsorted(steps, side="right"), len(ends))
    last = last[np.diff(last, prepend=0) > 0]
    return Cuts(ends[last - 1], np.diff(rows_before[last], prepend=0))


def _line_ends(raw: bytes, dialect: Dialect, is_last: bool) -> np.ndarray | None:
    """Return where lines end if each of them is a row, None if there may be others."""
    marks = [mark.encode() for mark in (dialect.quote, dialect.comment) if mark is not None]
    if any(mark in raw for mark in marks) or raw.startswith((b"\n", b"\r")):
        return None
    if b"\r" in raw and (raw.count(b"\r") != raw.count(b"\r\n") or b"\n\r" in raw):
        return None
    array = np.frombuffer(raw, np.uint8)
    ends = np.flatnonzero(array == 10)
    ends += 1
    if (ends[1:] - ends[:-1] == 1).any():  # an empty line
        return None
    is_cut = is_last and len(raw) > (int(ends[-1]) if len(ends) else 0)
    return np.append(ends, len(raw)) if is_cut else ends


# --- rows one by one -----------------------------------------------------------------------------


def records(raw: bytes, dialect: Dialect, is_last: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return where lines begin and end that are not in quotes; empty ones and comments are some."""
    array = np.frombuffer(raw, np.uint8)
    ends = np.flatnonzero(array == 10)
    if b"\r" in raw:
        returns = np.flatnonzero(array == 13)
        returns = returns[returns + 1 < len(raw)] if not is_last else returns
        alone = returns[array[np.minimum(returns + 1, len(raw) - 1)] != 10]
        ends = np.sort(np.concatenate([ends, alone]))
    quote = dialect.quote
    if quote is not None and quote.encode() in raw:
        quotes = np.flatnonzero(array == ord(quote))
        if _has_comments(raw, dialect) or not _are_regular(array, quotes, dialect):
            return _one_by_one(raw, dialect, is_last)
        ends = ends[quotes.searchsorted(ends) % 2 == 0]
        if is_last and len(quotes) % 2:
            before = ends[ends < quotes[-1]]
            raise Unclosed(int(before[-1]) + 1 if len(before) else 0)
    ends = ends + 1
    if is_last and len(raw) > (int(ends[-1]) if len(ends) else 0):
        ends = np.append(ends, len(raw))
    return np.concatenate([[0], ends[:-1]]).astype(np.intp)[: len(ends)], ends


def _has_comments(raw: bytes, dialect: Dialect) -> bool:
    if dialect.comment is None:
        return False
    mark = dialect.comment.encode()
    return raw.startswith(mark) or b"\n" + mark in raw or b"\r" + mark in raw


def _are_regular(array: np.ndarray, quotes: np.ndarray, dialect: Dialect) -> bool:
    """Whether quotes stand around whole cells, or twice inside of them: then they come in pairs."""
    is_end = np.zeros(256, bool)  # looking up is faster than np.isin
    is_end[[ord(dialect.sep), 10, 13]] = True
    opening, closing = quotes[::2], quotes[1::2]
    fits = is_end[array[opening - 1]] | (opening == 0)
    fits[1:] |= opening[1:] == closing[: len(opening) - 1] + 1
    if not fits.all():
        return False
    inside = closing[closing + 1 < len(array)]
    is_end[ord(str(dialect.quote))] = True
    fits = is_end[array[inside + 1]]
    return bool(fits.all())


@functools.lru_cache(64)
def _row(sep: str, quote: str) -> re.Pattern[bytes]:
    """Return the pattern of a cell, and what comes behind it."""
    s, q = re.escape(sep), re.escape(quote)
    cell = rf"(?:{q}[^{q}]*(?:{q}{q}[^{q}]*)*(?:{q}|(\Z)))?[^{s}\r\n]*({s}|\r\n|\r|\n|\Z)"
    return re.compile(cell.encode())


def _one_by_one(raw: bytes, dialect: Dialect, is_last: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return where rows begin and end, found cell by cell."""
    match = _row(dialect.sep, str(dialect.quote)).match
    line_end = re.compile(rb"[^\r\n]*(\r\n|\r|\n|\Z)").match
    sep, size = dialect.sep.encode(), len(raw)
    comment = None if dialect.comment is None else dialect.comment.encode()
    starts: list[int] = []
    ends: list[int] = []
    start = place = 0
    while start < size:
        is_comment = comment is not None and place == start and raw.startswith(comment, place)
        found = (line_end if is_comment else match)(raw, place)
        if found is None:
            raise ValueError(f"no cell begins at byte {place}")
        place, stop = found.end(), found[found.lastindex or 0]
        if not is_comment and found[1] is not None:
            if is_last:
                raise Unclosed(start)
            break
        if stop == sep:
            continue
        if place == size and not is_last and stop in (b"", b"\r"):
            break
        starts.append(start)
        ends.append(place)
        start = place
    return np.array(starts, np.intp), np.array(ends, np.intp)


def _are_rows(raw: bytes, starts: np.ndarray, ends: np.ndarray, dialect: Dialect) -> np.ndarray:
    """Return which lines are rows: not those that are empty, and no comments."""
    array = np.frombuffer(raw, np.uint8)
    first = array[starts]
    is_row: np.ndarray = ~np.isin(first, (10, 13))
    if dialect.comment is not None:
        is_row &= first != ord(dialect.comment)
    return is_row


def row_starts(raw: bytes, dialect: Dialect) -> np.ndarray:
    """Return where each row begins in a text that ends with one."""
    starts, ends = records(raw, dialect, True)
    found: np.ndarray = starts[_are_rows(raw, starts, ends, dialect)]
    return found


def without_comments(raw: bytes, dialect: Dialect) -> bytes:
    """Return a text without its comments."""
    if not _has_comments(raw, dialect):
        return raw
    starts, ends = records(raw, dialect, True)
    keep = _are_rows(raw, starts, ends, dialect)
    places = zip(starts[keep].tolist(), ends[keep].tolist(), strict=True)
    return b"".join(raw[start:end] for start, end in places)


def cells_until_end(raw: bytes, dialect: Dialect, most: int) -> int:
    """Return which cell of a row a text ends in, from 1 on; no more than `most` are counted."""
    quote = dialect.quote if dialect.quote is not None else "\0"
    match, sep = _row(dialect.sep, quote).match, dialect.sep.encode()
    place = 0
    for count in range(1, most):
        found = match(raw, place)
        if found is None or found[2] != sep or found[1] is not None:
            return count
        place = found.end()
    return most


# --- rows without an end -------------------------------------------------------------------------


def endless_row(file: TextFile, place: int, raw: bytes, dialect: Dialect) -> ValueError:
    """Return the error for a row that has no end in much text."""
    cell = cells_until_end(raw, dialect, MOST_COLUMNS + 1)
    which = f"cell {cell}" if cell <= MOST_COLUMNS else f"more than {MOST_COLUMNS} cells"
    size = round(len(raw) / (1 << 20))
    return ValueError(
        f"{file.path}: line {line_at(file, place)}: the row that begins there has no end in "
        f"{size} MiB, with {which}; is a quote not closed, or sep={dialect.sep!r} wrong? "
        "quote=None takes quotes as they are"
    )


@contextlib.contextmanager
def naming_unclosed(file: TextFile, place: int, raw: bytes, dialect: Dialect) -> Iterator[None]:
    """Say where the row begins in which a quote is not closed."""
    try:
        yield
    except Unclosed as error:
        (start,) = error.args
        cell = cells_until_end(raw[start:], dialect, MOST_COLUMNS)
        line = line_at(file, place + start)
        raise ValueError(
            f"{file.path}: line {line}: a quote in cell {cell} of the row that begins there is not "
            "closed; quote=None takes quotes as they are"
        ) from None
