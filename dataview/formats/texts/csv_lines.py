"""Where the rows of a text begin: its lines, but those in quotes, the empty ones, and comments."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator

import numpy as np

from dataview.formats.texts.dialect import MOST_COLUMNS, Dialect
from dataview.formats.texts.text_bytes import TextFile, line_at

GROUP_BYTES = 1 << 10
"""About so much text is a group: that is parsed to read one row of it."""


PIECE = 1 << 18
"""So much text is looked through at a time: what that takes stays in the processor's cache."""


class Groups:
    """Rows of a text in groups of about as many bytes, of which row numbers are known at once.

    The text was passed over part by part: part k begins at the byte `ends[k]` with row `rows[k]`,
    and so do the first of its groups.  Where the others begin is found once one of them is read.
    """

    def __init__(self, ends: np.ndarray, rows: np.ndarray) -> None:
        begins_rows = np.append(np.diff(rows) > 0, True)
        self.ends, self.rows = ends[begins_rows], rows[begins_rows]
        counts, sizes = np.diff(self.rows), np.diff(self.ends)
        self.steps = np.maximum(1, counts * GROUP_BYTES // sizes)
        groups = -(-counts // self.steps)
        self._firsts = np.concatenate([[0], np.cumsum(groups)])
        within = np.arange(self._firsts[-1]) - np.repeat(self._firsts[:-1], groups)
        starts = np.repeat(self.rows[:-1], groups) + within * np.repeat(self.steps, groups)
        self.starts = np.append(starts, self.rows[-1])
        self._places: dict[int, np.ndarray] = {}

    def bounds(self, first: int, stop: int, places_in: Callable[[int], np.ndarray]) -> list[int]:
        """Return where a run of groups begins and ends, and where parts of the text do in between.

        `places_in` returns where the groups of a part begin.
        """
        low, high = (self._firsts.searchsorted([first, stop], side="right") - 1).tolist()
        begin, end = self._place(first, low, places_in), self._place(stop, high, places_in)
        return sorted({begin, *self.ends[low + 1 : high + 1].tolist(), end})

    def _place(self, group: int, part: int, places_in: Callable[[int], np.ndarray]) -> int:
        within = group - int(self._firsts[part])
        if not within:
            return int(self.ends[part])
        found = self._places.get(part)
        if found is None:
            found = self._places[part] = places_in(part)
        return int(found[within])

    def places(self, part: int, raw: bytes, dialect: Dialect) -> np.ndarray | None:
        """Return where the groups of a part begin, whose text this is; None if it is another."""
        ends = row_ends(raw, dialect)
        if len(ends) != self.rows[part + 1] - self.rows[part]:
            return None
        step = int(self.steps[part])
        found: np.ndarray = np.concatenate([[0], ends[step - 1 : -1 : step]]) + self.ends[part]
        return found


class Unclosed(ValueError):
    """A quote that has no end in the text; `args` has where its row begins."""


def cut(raw: bytes, dialect: Dialect, is_last: bool) -> int:
    """Return where the last whole row of a text ends that begins with one; the last text is one."""
    if _has_plain_ends(raw, dialect):
        return len(raw) if is_last else raw.rfind(b"\n") + 1
    _, ends = records(raw, dialect, is_last)
    return int(ends[-1]) if len(ends) else 0


def row_count(raw: bytes, dialect: Dialect) -> int:
    """Return how many rows there are in a text that begins and ends with one."""
    count = _plain_lines(raw, dialect)
    if count is not None:
        return count + (not raw.endswith(b"\n"))
    starts, ends = records(raw, dialect, True)
    return int(np.count_nonzero(_are_rows(raw, starts, ends, dialect)))


def row_ends(raw: bytes, dialect: Dialect) -> np.ndarray:
    """Return where each row ends in a text that ends with one."""
    if _plain_lines(raw, dialect) is None:
        starts, ends = records(raw, dialect, True)
        own: np.ndarray = ends[_are_rows(raw, starts, ends, dialect)]
        return own
    ends = np.flatnonzero(np.frombuffer(raw, np.uint8) == 10)
    ends += 1
    return ends if raw.endswith(b"\n") else np.append(ends, len(raw))


def _has_plain_ends(raw: bytes, dialect: Dialect) -> bool:
    """Whether each line of a text ends with the byte 10, and no row has several lines."""
    if dialect.quote is not None and dialect.quote.encode() in raw:
        return False
    return b"\r" not in raw or raw.count(b"\r") == raw.count(b"\r\n")


def _plain_lines(raw: bytes, dialect: Dialect) -> int | None:
    """Return how many lines end in a text if each of them is a row, None if there may be others."""
    if not _has_plain_ends(raw, dialect) or raw.startswith((b"\n", b"\r")) or b"\n\r" in raw:
        return None
    if dialect.comment is not None and dialect.comment.encode() in raw:
        return None
    array, count = np.frombuffer(raw, np.uint8), 0
    for start in range(0, len(raw), PIECE):
        are_ends = array[start : start + PIECE + 1] == 10
        if (are_ends[1:] & are_ends[:-1]).any():  # an empty line
            return None
        count += int(np.count_nonzero(are_ends[:PIECE]))
    return count


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
