"""What parts the cells of a CSV file, and whether its first row has names, as its rows suggest.

Where they suggest something else than what a user says, a warning tells of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from dataview.errors import warn
from dataview.formats.texts import cells
from dataview.formats.texts.dialect import SEPARATORS, Dialect, as_cell, rows_of

SAMPLE_ROWS = 50
"""So many rows say what parts cells."""

_NUMBER = cells.INT | cells.NEGATIVE | cells.BIG | cells.HUGE | cells.FLOAT


_OF_EXCEL = re.compile(r"sep=([!-~ \t])\r?\n")
"""A line that tells Excel what parts cells."""


def before_table(text: str, dialect: Dialect) -> tuple[int, str]:
    r"""Return how many lines before a table say what they are, and the separator that they say.

    Lines that begin with # are some if they have other cells than the rows behind them.

    >>> before_table("sep=;\na;b\n", Dialect("")), before_table("# by me\na,b\n1,2\n", Dialect(""))
    ((1, ';'), (1, ''))
    """
    told = _OF_EXCEL.match(text)
    if told is not None:
        return 1, told[1]
    if dialect.comment is not None or not text.startswith("#"):
        return 0, ""
    lines = text.split("\n")
    count = next((n for n, line in enumerate(lines) if not line.startswith("#")), 0)
    for skipped in (0, count - 1, count):  # the last of them may have the names
        if _is_table("\n".join(lines[skipped:]), dialect):
            return skipped, ""
    return 0, ""


def _is_table(text: str, dialect: Dialect) -> bool:
    if not dialect.sep:
        return _parting_alike(text, dialect) is not None
    return _are_alike(_rows(text, dialect, dialect.sep))


def separator(text: str, dialect: Dialect) -> str:
    r"""Return what parts the cells of the first rows of a text.

    >>> separator("a;b\n1,5;2\n", Dialect("")), separator("a b\n1 2\n", Dialect(""))
    (';', ' ')
    """
    alike = _parting_alike(text, dialect)
    if alike is not None:
        return alike
    first = [(len(own[0]) if (own := _rows(text, dialect, s)) else 1, s) for s in _usual(dialect)]
    most, best = max(first, key=lambda one: one[0], default=(1, ","))
    return best if most > 1 else ","


def _parting_alike(text: str, dialect: Dialect) -> str | None:
    """Return what parts each row into as many cells; a space does so only between numbers."""
    for sep in _usual(dialect):
        if _are_alike(_rows(text, dialect, sep)):
            return sep
    if " " in dialect:
        return None
    rows = _rows(text, dialect, " ")
    between = _are_alike(rows) and all(
        is_number(cell, dialect) or (cell and cell in dialect.missing)
        for row in rows[1:]
        for cell in row
    )
    return " " if between and all(rows[0]) else None


def _usual(dialect: Dialect) -> list[str]:
    return [sep for sep in SEPARATORS if sep not in (dialect[1:4])]


def _rows(text: str, dialect: Dialect, sep: str) -> list[list[str]]:
    return rows_of(text, dialect._replace(sep=sep), SAMPLE_ROWS)


def _are_alike(rows: Sequence[Sequence[str]]) -> bool:
    return len(rows) > 1 and len(rows[0]) > 1 and len({len(row) for row in rows}) == 1


def is_number(cell: str, dialect: Dialect) -> bool:
    """Whether a cell is a number, and not missing."""
    return bool(cells.seen_in([cell], dialect) & _NUMBER)


def is_name(cell: str, dialect: Dialect) -> bool:
    """Whether a cell is a text, and not missing."""
    return cell not in dialect.missing and cells.seen_in([cell], dialect) == cells.TEXT


def is_header(rows: Sequence[Sequence[str]], dialect: Dialect, text: str = "") -> bool:
    """Whether the first row has names: texts that differ, or one that stands above a number.

    Names of rows, which R writes, have no name or an empty one; pandas numbers columns then.  The
    `text` of the rows tells whether all names stand in quotes.

    >>> comma = Dialect(",")
    >>> is_header([["a", "2019"], ["1", "2"]], comma), is_header([["a", "2019"], ["b", "2"]], comma)
    (True, False)
    """
    if not rows:
        return False
    first = list(rows[0])
    names = first[1:] if first[0] == "" and len(first) > 1 else first
    if all(is_name(name, dialect) for name in names):
        return len({*names}) == len(names) or _has_number(rows[1:2], dialect)
    if len(names) < len(first) and names == [str(number) for number in range(len(names))]:
        return len(rows) > 1
    is_named = _has_name_above_number(rows, dialect) or _is_quoted(rows, dialect, text)
    return is_named or _has_odd_numbers(rows[0], _rows(text, dialect, dialect.sep)[1:], dialect)


def _has_name_above_number(rows: Sequence[Sequence[str]], dialect: Dialect) -> bool:
    if len(rows) < 2 or len(rows[0]) != len(rows[1]):
        return False
    pairs = zip(rows[0], rows[1], strict=True)
    return any(is_name(name, dialect) and is_number(cell, dialect) for name, cell in pairs)


def _has_odd_numbers(
    first: Sequence[str], below: Sequence[Sequence[str]], dialect: Dialect
) -> bool:
    """Whether the numbers of the first row are unlike the cells below, the other cells being names.

    They are so if there is no number below any of them, or if they are years, evenly spaced, and
    not all below are years.
    """
    are_numbers = [is_number(cell, dialect) for cell in first]
    others = [cell for cell, is_one in zip(first, are_numbers, strict=True) if not is_one]
    if len({*first}) < len(first) or not all(is_name(cell, dialect) for cell in others):
        return False
    if not any(are_numbers) or not below or any(len(row) != len(first) for row in below):
        return False
    columns = zip(are_numbers, zip(*below, strict=True), strict=True)
    own = [cell for is_one, column in columns if is_one for cell in column]
    numbers = [cell for cell, is_one in zip(first, are_numbers, strict=True) if is_one]
    if len(below) > 1 and not any(is_number(cell, dialect) for cell in own):
        return any(cell not in dialect.missing for cell in own)
    return _are_years(numbers) and not all(_YEAR.fullmatch(cell) for cell in own)


_YEAR = re.compile("[12][0-9]{3}")


def _are_years(cells: Sequence[str]) -> bool:
    """Whether some numbers are years, evenly spaced."""
    if len(cells) < 2 or not all(map(_YEAR.fullmatch, cells)):
        return False
    return len({*np.diff([int(cell) for cell in cells]).tolist()}) == 1


def end_empty(text: str, width: int, dialect: Dialect) -> bool:
    """Whether the last cell of all rows of so many is empty: a separator stands behind each row."""
    last = [row[-1] for row in _rows(text, dialect, dialect.sep) if len(row) == width]
    return bool(last) and not any(last)


def _is_quoted(rows: Sequence[Sequence[str]], dialect: Dialect, text: str) -> bool:
    """Whether all cells of the first row stand in quotes, as those below do only if they have to.

    A program that writes other texts in quotes, too, does not write all of them so.  What is
    missing may be the only one without quotes if all else has some: it counts in the second row
    alone.
    """
    if not dialect.quote or not text:
        return False
    first, *below = _in_quotes(text, dialect) or [[]]
    if not all(is_quoted for _, is_quoted in first):
        return False
    bare = [[cell for cell, is_quoted in row if not is_quoted] for row in below]
    if any(bare[:1]) or any(cell not in dialect.missing for row in bare[1:] for cell in row):
        return True
    quoted = [cell for row in below for cell, is_quoted in row if is_quoted]
    return all(rows[0]) and all(_has_to_be_quoted(cell, dialect) for cell in quoted)


def _has_to_be_quoted(cell: str, dialect: Dialect) -> bool:
    return cell in dialect.missing or as_cell(cell) != cell


def _in_quotes(text: str, dialect: Dialect) -> list[list[tuple[str, bool]]]:
    r"""Return the cells of each of the first rows, and whether they stand in quotes.

    It ends where the text is not as such rows would be written, as in a cell that is cut.

    >>> _in_quotes('"a"\n1\n', Dialect(","))
    [[('a', True)], [('1', False)]]
    """
    found: list[list[tuple[str, bool]]] = []
    quote, place = dialect.quote or "", 0
    comment = "" if dialect.comment is None else f"|{re.escape(dialect.comment)}.*"
    ignored = re.compile(f"[\r\n]{comment}")
    for row in _rows(text, dialect, dialect.sep):
        while between := ignored.match(text, place):
            place = between.end()
        found.append([])
        for cell in row:
            quoted = f"{quote}{cell.replace(quote, quote * 2)}{quote}"
            is_quoted = text.startswith(quoted, place)
            is_cut = cell.startswith(quote) or not text.startswith(cell, place)
            if not is_quoted and is_cut:
                found[-1] = [(cell, False)] if len(found) < 3 else []
                return found
            found[-1].append((cell, is_quoted))
            place += len(quoted if is_quoted else cell) + len(dialect.sep)
        place -= len(dialect.sep)
    return found


def header_cells(names: Sequence[str]) -> list[str]:
    """Return names as the first row has them: all in quotes if they would not be seen as names.

    >>> header_cells(["a", "b c"]), header_cells(["2019", "a"])
    (['a', 'b c'], ['"2019"', '"a"'])
    """
    dialect = Dialect(",")
    alone = len(names) == 1 and " " in names[0]  # which would seem to part two
    if not alone and not names[0].startswith("#") and all(is_name(name, dialect) for name in names):
        return [as_cell(name) for name in names]
    return ['"' + name.replace('"', '""') + '"' for name in names]


def _has_number(rows: Sequence[Sequence[str]], dialect: Dialect) -> bool:
    return any(is_number(cell, dialect) for row in rows for cell in row)


# --- where a user says something else ------------------------------------------------------------


def tell_other_separator(text: str, dialect: Dialect, is_guessed: bool, path: str) -> None:
    """Warn if rows have one cell each, and something else parts all of them alike."""
    other = _parting_alike(text, dialect)
    if other not in (None, dialect.sep):
        count = len(_rows(text, dialect, str(other))[0])
        warn(
            f"{path}: {dialect.sep!r} parts no cells of the first row, and {other!r} parts each "
            f"row into {count}: write sep={other!r}"
        )
    elif is_guessed and " " not in dialect:
        _tell_spaces(text, dialect, path)


def _tell_spaces(text: str, dialect: Dialect, path: str) -> None:
    """Warn if spaces part each row into as many cells, some of them numbers."""
    has_quotes = dialect.quote is not None and dialect.quote in text
    for rows, advice in (
        (_rows(text, dialect, " "), "if so, write sep=' ', and else sep=','"),
        (
            [] if has_quotes else [row[0].split() for row in _rows(text, dialect, ",")],
            "which are not read; if so, write dv.View(pandas.read_csv(path, sep=r'\\s+')), and "
            "else sep=','",
        ),
    ):
        has_names_of_rows = len(rows) > 1 and len(rows[1]) - 1 == len(rows[0]) > 1
        if not _are_alike(rows[1:] if has_names_of_rows and len(rows) > 2 else rows):
            continue
        if any(
            all(is_number(cell, dialect) for cell in own) for own in zip(*rows[1:], strict=True)
        ):
            warn(f"{path}: cells seem to be parted by spaces, {advice}")
            return


def tell_title(text: str, line: int, dialect: Dialect, path: str) -> None:
    """Warn if the first row has one cell, and the next, in a `line`, seems to have names."""
    rows = _rows(text, dialect, dialect.sep)
    is_alone = len(rows) > 2 and len(rows[0]) == 1 < len(rows[1])
    if is_alone and _has_number(rows[2:3], dialect) and is_header(rows[1:], dialect):
        warn(
            f"{path}: there is 1 cell in the first row and {len(rows[1])} in the next, which looks "
            f"like a header; if the first is a title, write skip={line - 1}"
        )


def tell_decimal(text: str, dialect: Dialect, path: str) -> None:
    """Warn if a column seems to have numbers with a comma, as Excel writes them beside `;`."""
    is_point = dialect.decimal == "." and dialect.thousands is None
    if not is_point or dialect.sep != ";" or "," not in text:
        return
    rows = _rows(text, dialect, dialect.sep)[1:]
    if len({len(row) for row in rows}) != 1 or len(rows[0]) == 1:
        return
    for number, column in enumerate(zip(*rows, strict=True), 1):
        cells_there = [cell for cell in column if cell not in dialect.missing]
        if "," in "".join(cells_there) and all(map(_WITH_COMMA.fullmatch, cells_there)):
            warn(
                f"{path}: the numbers seem to have a comma in column {number}, as in "
                f"{cells_there[0]!r}; if so, write decimal=',', and else types= that it is str"
            )
            return


_WITH_COMMA = re.compile(r"[+-]?[0-9]+(?:,[0-9]+)?")


def tell_header(
    rows: Sequence[Sequence[str]], names: Sequence[str], dialect: Dialect, path: str
) -> None:
    """Warn if a user gives names, and the first row seems to have some, too."""
    if not rows:
        return
    if list(rows[0]) == list(names) or (
        _has_number(rows[1:2], dialect) and is_header(rows, dialect)
    ):
        warn(
            f"{path}: the first row looks like a header: with names= it is read as data; add "
            "header=0 to leave it out, header=None to keep it"
        )
