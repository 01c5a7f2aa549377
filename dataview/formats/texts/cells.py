"""What the cells of a column are, found over a whole file, and cells as arrays of that.

What was seen is a number whose bits are joined, so that parts of a file are looked at in any order.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from dataview.errors import shortened
from dataview.formats.tables.columns import NOTHING, Column, Kind, Name
from dataview.formats.tables.schema import missing_in
from dataview.formats.texts.dialect import Dialect, Quoted

MISSING, QUOTED, BOOL, INT, NEGATIVE, BIG, HUGE, FLOAT, DATE, SECOND, MICRO, NANO, FAR, TEXT = (
    1 << bit for bit in range(14)
)
"""What cells were seen: `BIG` fits 64 bits without a sign alone, `HUGE` none; a time is given to
the second, to the microsecond, or more exactly; and `FAR` is out of the range of nanoseconds.
`QUOTED` would be missing without its quotes, and is so but in a column of texts."""

NATURES = (BOOL, INT | NEGATIVE | BIG | HUGE | FLOAT, DATE | SECOND | MICRO | NANO | FAR, TEXT)
"""A column of more than one of these is one of texts."""

ANY = sum(NATURES)
"""All that is seen of cells which are there."""

TRUE, FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")

OBJECT = np.dtype(object)

LONGEST_INT = 4000
"""Python takes no more digits for a whole number."""

_INT = re.compile(r"[ \t]*-?[0-9]+[ \t]*")
_FLOAT = re.compile(
    r"[ \t]*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)[ \t]*", re.I
)
_DATE = re.compile(r"[ \t]*[0-9]{4}-[0-9]{2}-[0-9]{2}[ \t]*")
_TIME = re.compile(
    r"([0-9]{4})-[0-9]{2}-[0-9]{2}[ T][0-2][0-9](?::[0-5][0-9](?::[0-5][0-9](\.[0-9]{1,9})?)?)?"
)


class Wrong(ValueError):
    """A cell that is not what its column is; `args` has which of them, and why."""


class Field(NamedTuple):
    """How a column is read: its kind, whether `QUOTED` was seen, the format of its dates.

    Of a column that `is_given`, each cell may be wrong; of another one, all were looked at.
    """

    kind: Kind
    has_quoted: bool = False
    dates: str | None = None
    is_given: bool = False


# --- found ---------------------------------------------------------------------------------------


def seen_in(cells: Sequence[str], dialect: Dialect, dates: bool = True) -> int:
    """Return what is seen in some cells.

    >>> seen_in(["1", "", "-2.5"], Dialect()) == MISSING | INT | FLOAT
    True
    """
    found, others = missing_among(cells, dialect)
    for cell in others:
        found |= _seen(without_thousands(cell, dialect), dialect.decimal, dates)
        if found & TEXT:
            return found
    return found


def missing_among(cells: Sequence[str], dialect: Dialect) -> tuple[int, set[str]]:
    """Return what is seen of missing cells, and the texts of all others."""
    distinct = {*cells}
    missing = distinct.intersection(dialect.missing)
    kinds = {type(cell) for cell in cells if cell in missing} if missing else ()
    found = (QUOTED if Quoted in kinds else 0) | (MISSING if str in kinds else 0)
    return found, distinct - missing


def _seen(cell: str, decimal: str, dates: bool) -> int:
    if _INT.fullmatch(cell):
        return _whole(int(cell)) if len(cell) <= LONGEST_INT else HUGE
    if _FLOAT.fullmatch(_with_point(cell, decimal)):
        return FLOAT
    if cell in TRUE or cell in FALSE:
        return BOOL
    return _time(cell) if dates and cell[:1] in "0123456789 \t" else TEXT


def _whole(value: int) -> int:
    if value < -(1 << 63) or value >= 1 << 64:
        return HUGE
    return INT | (NEGATIVE if value < 0 else 0) | (BIG if value >= 1 << 63 else 0)


def without_thousands(cell: str, dialect: Dialect) -> str:
    """Return a number without the marks between each three of its digits; others as they are.

    >>> comma = Dialect(thousands=",")
    >>> without_thousands("1,234,567.5", comma), without_thousands("1,2", comma)
    ('1234567.5', '1,2')
    """
    mark = dialect.thousands
    if mark is None or mark not in cell or not _grouped(mark, dialect.decimal).fullmatch(cell):
        return cell
    return cell.replace(mark, "")


@functools.lru_cache(64)
def _grouped(mark: str, decimal: str) -> re.Pattern[str]:
    m, d = re.escape(mark), re.escape(decimal)
    return re.compile(rf"[ \t]*[+-]?[0-9]{{1,3}}(?:{m}[0-9]{{3}})+(?:{d}[0-9]*)?[ \t]*")


def _with_point(cell: str, decimal: str) -> str:
    """Return a number with the point of Python; with another one it has none of those."""
    if decimal == ".":
        return cell
    return "x" if "." in cell else cell.replace(decimal, ".")


def _time(cell: str) -> int:
    match = _TIME.fullmatch(cell)
    if match is None and not _DATE.fullmatch(cell):
        return TEXT
    try:
        np.datetime64(cell.strip(" \t"))
    except ValueError:
        return TEXT
    fraction = (match[2] or "") if match else ""
    unit = DATE if match is None else SECOND if not fraction else MICRO
    if len(fraction[1:].rstrip("0")) > 6:
        unit = NANO
    found = unit | (0 if "1678" <= cell.strip(" \t")[:4] < "2262" else FAR)
    return TEXT if found == NANO | FAR else found


def kind_seen(seen: int) -> Kind:
    """Return what a column is in whose cells this was seen.

    >>> kind_seen(INT | MISSING).dtype, kind_seen(INT | MISSING).has_missing
    (dtype('int64'), True)
    >>> kind_seen(INT | BOOL).dtype, kind_seen(INT | FLOAT).dtype
    (dtype('O'), dtype('float64'))
    """
    natures = [nature for nature in NATURES if seen & nature]
    dtype, nature = OBJECT, ""
    if len(natures) == 1:
        dtype = _dtype(seen)
    elif not natures and not seen & QUOTED:  # nothing but what is missing
        dtype, nature = np.dtype("f8"), NOTHING
    quoted = seen & QUOTED and dtype != OBJECT
    return Kind(dtype, has_missing=bool(seen & MISSING or quoted), nature=nature, seen=seen)


def agreed(several: Sequence[Mapping[Name, int]], schema: str) -> list[dict[Name, int]]:
    """Return what was seen in columns of several files, as all agree on it as far as they may.

    A column in which one file has nothing is what it is in the others.  In a union it is what its
    cells are in all files, which may be texts.

    >>> agreed([{("a",): INT}, {("a",): MISSING}, {("a",): TEXT}], "union")[1][("a",)]
    8201
    """
    seen: dict[Name, int] = {}
    for file in several:
        for name, own in file.items():
            seen[name] = seen.get(name, 0) | own & ANY
    return [
        {
            name: own | seen[name] if schema == "union" or not own & ANY else own
            for name, own in file.items()
        }
        for file in several
    ]


def _dtype(seen: int) -> np.dtype[Any]:
    for bits, code in (
        (TEXT, "O"), (BOOL, "?"), (FLOAT, "f8"), (HUGE, "O"), (BIG, "u8"), (INT, "i8"),
        (NANO, "M8[ns]"), (MICRO, "M8[us]"), (SECOND, "M8[s]"), (DATE, "M8[D]"),
    ):  # fmt: skip
        if seen & bits:
            is_both = (bits == BIG and seen & NEGATIVE) or (bits == NANO and seen & FAR)
            return OBJECT if is_both else np.dtype(code)
    return OBJECT


# --- read ----------------------------------------------------------------------------------------


def column_of(cells: Sequence[str], field: Field, dialect: Dialect) -> Column:
    """Return cells as a column; raise `Wrong` for one that is not what the column is."""
    dtype = field.kind.dtype
    present, own = _present(cells, dialect, dtype == OBJECT)
    filler: Any = missing_in(dtype)
    if dtype == OBJECT:
        texts = np.empty(len(cells), OBJECT)
        texts[:] = [str(cell) for cell in cells] if Quoted in {*map(type, cells)} else cells
        if present is not None:
            texts[~present] = filler
        return Column(texts, present)
    values = _values(own, field, dialect)
    if present is None:
        return Column(values)
    found = np.full(len(cells), filler, dtype)
    found[present] = values
    return Column(found, present)


def _present(
    cells: Sequence[str], dialect: Dialect, are_texts: bool
) -> tuple[np.ndarray | None, Sequence[str]]:
    """Return which cells are there, None if all are, and these; quoted ones are texts."""
    missing = {*dialect.missing}
    if missing.isdisjoint(cells):
        return None, cells
    present = np.array(
        [cell not in missing or (are_texts and type(cell) is Quoted) for cell in cells], bool
    )
    if present.all():
        return None, cells
    return present, [cell for cell, there in zip(cells, present.tolist(), strict=True) if there]


def _values(cells: Sequence[str], field: Field, dialect: Dialect) -> np.ndarray:
    """Return the values of cells that are all there."""
    parse = _PARSERS[field.kind.dtype.kind]
    try:
        return parse(cells, field, dialect)
    except (ValueError, OverflowError, KeyError):
        for number, cell in enumerate(cells):
            try:
                parse([cell], field, dialect)
            except (ValueError, OverflowError, KeyError):
                raise Wrong(number, f"{shortened(repr(cell))} is no {words(field)}") from None
        raise


def words(field: Field) -> str:
    """Say what the cells of a column are to be."""
    if field.dates is not None:
        return f"date of the format {field.dates!r}"
    return str(field.kind.dtype)


def _bools(cells: Sequence[str], field: Field, dialect: Dialect) -> np.ndarray:
    known = {**dict.fromkeys((*TRUE, "1"), True), **dict.fromkeys((*FALSE, "0"), False)}
    return np.array([known[cell] for cell in cells], bool)


def _ints(cells: Sequence[str], field: Field, dialect: Dialect) -> np.ndarray:
    cells = _without_marks(cells, dialect)
    if field.is_given and not all(map(_is_whole, cells)):
        raise ValueError("no whole number")
    return np.array(list(map(int, cells)), field.kind.dtype)


def _without_marks(cells: Sequence[str], dialect: Dialect) -> Sequence[str]:
    if dialect.thousands is None:
        return cells
    return [without_thousands(cell, dialect) for cell in cells]


def _is_whole(cell: str) -> bool:
    return len(cell) <= LONGEST_INT and _INT.fullmatch(cell) is not None


def in_range(values: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Return whole numbers as a dtype that has room for them, or raise."""
    if values.dtype == dtype:
        return values
    limits = np.iinfo(dtype)
    if values.size and (int(values.min()) < limits.min or int(values.max()) > limits.max):
        raise OverflowError(f"out of the range of {dtype}")
    return values.astype(dtype, copy=False)


def _floats(cells: Sequence[str], field: Field, dialect: Dialect) -> np.ndarray:
    cells = _without_marks(cells, dialect)
    if dialect.decimal != ".":
        cells = [_with_point(cell, dialect.decimal) for cell in cells]
    if field.is_given and not all(map(_FLOAT.fullmatch, cells)):
        raise ValueError("no number")
    return as_floats(np.array(list(map(float, cells)), "f8"), field.kind.dtype)


def as_floats(values: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Return numbers as a dtype, in which large ones are infinite."""
    if values.dtype == dtype:
        return values
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def _dates(cells: Sequence[str], field: Field, dialect: Dialect) -> np.ndarray:
    if field.dates is not None:
        return np.array([_time_of(cell, field.dates) for cell in cells], "M8[us]")
    unit = np.datetime_data(field.kind.dtype)[0]
    for cell in cells if field.is_given else ():
        seen = _time(cell)
        if seen & TEXT or not seen & _EXACT[unit] or (unit == "ns" and seen & FAR):
            raise ValueError("no such date")
    return np.array([cell.strip(" \t") for cell in cells], field.kind.dtype)


def _time_of(cell: str, dates: str) -> datetime.datetime:
    """Return the time that a cell tells, in UTC if it tells its distance from that."""
    found = datetime.datetime.strptime(cell, dates)
    return found if found.tzinfo is None else found.astimezone(datetime.UTC).replace(tzinfo=None)


_EXACT = {
    "D": DATE, "s": DATE | SECOND, "us": DATE | SECOND | MICRO, "ns": DATE | SECOND | MICRO | NANO,
}  # fmt: skip
"""What is told exactly in a unit."""

_PARSERS = {"b": _bools, "i": _ints, "u": _ints, "f": _floats, "M": _dates}


def given_kind(name: str, dtype: Any, where: str) -> Kind:
    """Return what a column is to be, which a user says."""
    try:
        wanted: np.dtype[Any] = np.dtype(
            str if isinstance(dtype, str) and dtype in _TEXTS else dtype
        )
    except TypeError:
        raise _no_type(name, repr(dtype), where) from None
    if wanted in (np.dtype(str), np.dtypes.StringDType()):
        wanted = OBJECT
    unit = np.datetime_data(cast(Any, wanted))[0] if wanted.kind == "M" else "D"
    if wanted != OBJECT and (wanted.kind not in _PARSERS or unit not in _EXACT):
        raise _no_type(name, str(wanted), where)
    return Kind(wanted.newbyteorder("="))


_TEXTS = ("text", "string")
"""Other names of `str`."""


def _no_type(name: str, dtype: str, where: str) -> TypeError:
    return TypeError(
        f"{where}: types= gives column {name!r} the dtype {dtype}; a cell is a bool, an "
        f"integer, a float, a date of M8[{'], M8['.join(_EXACT)}], or str"
    )
