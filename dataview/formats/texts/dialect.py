"""How a text file writes a table: what parts cells and quotes them, and the names of columns."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dataview.errors import shortened
from dataview.index import is_integer

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL")
"""The cells without quotes that say that there is nothing, unless `missing=` names others."""

SEPARATORS = ("\t", ";", "|", ",")
"""What may part cells; the first that parts all of the first rows alike is taken."""

MOST_COLUMNS = 1 << 16
"""A file whose rows have more cells is taken for a broken one."""


class Dialect(NamedTuple):
    """How cells are written."""

    sep: str = ","
    quote: str | None = '"'
    comment: str | None = None
    decimal: str = "."
    missing: tuple[str, ...] = MISSING
    thousands: str | None = None


def checked(
    sep: str | None,
    quote: str | None,
    comment: str | None,
    decimal: str,
    missing: Any,
    thousands: str | None = None,
) -> Dialect:
    """Return the dialect that a user gives, with an empty `sep` if that is to be found."""
    for name, value in (
        ("sep", sep), ("quote", quote), ("comment", comment), ("decimal", decimal),
        ("thousands", thousands),
    ):  # fmt: skip
        if value is not None and not (
            isinstance(value, str) and len(value) == 1 and value.isascii() and value not in "\r\n"
        ):
            raise ValueError(f"{name}= is one character of ASCII; got {value!r}")
    texts = MISSING if missing is None else (missing,) if isinstance(missing, str) else missing
    is_several = isinstance(texts, Iterable) and not isinstance(texts, Mapping)
    if not is_several or not all(isinstance(text, str) for text in texts):
        raise TypeError(
            f"missing= is a text or texts such as ('', 'NA'), for all columns; got {missing!r}"
        )
    given = [mark for mark in (sep, quote, comment, decimal) if mark is not None]
    if len({*given}) < len(given):
        raise ValueError(
            f"sep={sep!r}, quote={quote!r}, comment={comment!r} and decimal={decimal!r} are to "
            "differ: no character can be two of them"
        )
    if thousands is not None and thousands in (quote, decimal):
        raise ValueError(f"thousands={thousands!r} is quote= or decimal= already, and is to differ")
    return Dialect(sep or "", quote, comment, decimal, tuple(texts), thousands)


# --- cells -------------------------------------------------------------------------------------


class Quoted(str):
    """A cell in quotes whose text would say, without them, that there is nothing."""

    __slots__ = ()


@functools.lru_cache(64)
def _cell(sep: str, quote: str) -> re.Pattern[str]:
    """Return the pattern of a cell: what is in quotes, what is not, and what ends it."""
    s, q = re.escape(sep), re.escape(quote)
    return re.compile(rf"(?:{q}([^{q}]*(?:{q}{q}[^{q}]*)*){q})?([^{s}\r\n]*)({s}|\r\n|\r|\n|\Z)")


def rows_of(text: str, dialect: Dialect, most: int | None = None) -> list[list[str]]:
    r"""Return the cells of each row, or of so many; empty lines and comments are none.

    >>> rows_of("a,'b ''c'' d'\n\n1,''\n", Dialect(quote="'"))
    [['a', "b 'c' d"], ['1', '']]
    """
    comment, quote = dialect.comment, dialect.quote
    if quote is None or quote not in text:
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        rows = (line for line in lines if line and (comment is None or line[0] != comment))
        return [line.split(dialect.sep) for line in itertools.islice(rows, most)]
    return _quoted_rows(text, dialect, quote, most)


def _quoted_rows(text: str, dialect: Dialect, quote: str, most: int | None) -> list[list[str]]:
    match = _cell(dialect.sep, quote).match
    line_end = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)").match
    missing, sep, comment, double = {*dialect.missing}, dialect.sep, dialect.comment, quote * 2
    rows: list[list[str]] = []
    row: list[str] = []
    place, end = 0, len(text)
    while (place < end or row) and len(rows) != most:
        if not row and comment is not None and text.startswith(comment, place):
            place = line_end(text, place).end()  # type: ignore[union-attr]
            continue
        found = match(text, place)
        if found is None:  # which only a wrong pattern does: any text begins with some cell
            raise ValueError(f"no cell begins with {shortened(text[place : place + 100])!r}")
        inside, plain, stop = found.groups()
        if inside is None:
            cell = plain
        else:
            cell = inside.replace(double, quote) + plain
            cell = Quoted(cell) if cell in missing else cell
        is_blank = not row and inside is None and not plain and stop != sep
        row.append(cell)
        place = found.end()
        if stop != sep:
            if not is_blank:
                rows.append(row)
            row = []
    return rows


def as_cell(text: str) -> str:
    """Return a text as it is written: in quotes if it would be read as something else without.

    >>> as_cell("a"), as_cell('5" disk'), as_cell(""), as_cell("NA")
    ('a', '"5"" disk"', '""', '"NA"')
    """
    if text in MISSING or any(mark in text for mark in _SPECIAL):
        return '"' + text.replace('"', '""') + '"'
    return text


_SPECIAL = (*SEPARATORS, '"', "\n", "\r")
"""A text with one of these is not what lies between two separators."""


# --- names of columns --------------------------------------------------------------------------


def named(
    header: Sequence[str] | None,
    width: int,
    where: str,
    end_empty: bool = False,
    has_row_names: bool = True,
) -> list[str]:
    """Return the names of so many columns, each once; those without one are told by number.

    A name that is there again gets a number with which no column has it.  If one name is lacking,
    the first column has names of rows, unless all rows end empty, or there are no such names.

    >>> named(["a", "", "a"], 3, "t.csv"), named(["a"], 2, "t.csv"), named(None, 2, "t.csv")
    (['a', 'column_2', 'a_2'], ['row', 'a'], ['column_1', 'column_2'])
    >>> named(["a", "a", "a_2", "a"], 4, "t.csv")
    ['a', 'a_3', 'a_2', 'a_4']
    """
    given = list(header or ())
    if given and len(given) == width - 1 and (end_empty or has_row_names):
        given = [*given, ""] if end_empty else ["row", *given]
    if given and len(given) != width:
        raise ValueError(
            f"{where}: the first row has {cells(len(given))} and the next has {width}; skip= "
            "leaves out lines before the table, header=None says that there are no names, and "
            "short='missing' takes rows with fewer cells"
        )
    told = [name.strip() for name in given] if given else [""] * width
    names = [name or f"column_{number}" for number, name in enumerate(told, 1)]
    taken, met = {*names}, dict.fromkeys(names, 0)
    for place, name in enumerate(names):
        if met[name]:
            numbers = itertools.count(met[name] + 1)
            met[name] = next(number for number in numbers if f"{name}_{number}" not in taken)
            names[place] = f"{name}_{met[name]}"
            taken.add(names[place])
        else:
            met[name] = 1
    return names


def lengthened(row: list[str], width: int) -> list[str]:
    """Return a row with empty cells behind it, if it has fewer than so many.

    >>> lengthened(["a"], 3)
    ['a', '', '']
    """
    return row + [""] * (width - len(row))


def cells(count: int) -> str:
    """Say how many cells there are."""
    return "1 cell" if count == 1 else f"{count} cells"


def header_row(header: Any, names: Any) -> int | str | None:
    """Return which row has the names, None if there is none, or "auto"."""
    if header is None or header is False:
        return None
    if header == "auto" and not isinstance(header, bool):
        return "auto" if names is None else None
    if header is True or (is_integer(header) and header >= 0):
        return int(header) * (header is not True)
    raise ValueError(
        "header= is 'auto', None if there are no names, or the number of the row that has them, "
        f"from 0 on; got {header!r}"
    )


def check_names(names: Any, width: int, where: str) -> list[str]:
    """Return the names that a user gives to all columns."""
    found = [names] if isinstance(names, str) else list(names)
    if len({*found}) < len(found) or not all(isinstance(name, str) and name for name in found):
        raise ValueError(f"names= are texts that differ; got {found!r}")
    if len(found) != width:
        raise ValueError(
            f"{where}: names= has {len(found)} names, and the rows have {cells(width)}"
        )
    return found


def known_columns(option: str, given: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    """Raise if an option tells of a column that there is not."""
    for name in given:
        if name not in names:
            raise ValueError(
                f"{where} has no column {name!r}, which {option}= names; the columns are: "
                f"{shortened(', '.join(names))}"
            )
