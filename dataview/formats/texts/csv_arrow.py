"""Cells by pyarrow, which is fast; where it sees other things in them than we do, it is not asked.

What it cannot take is read by `cells`, which then says which cell is wrong.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from dataview.formats.tables.arrow_values import one_array
from dataview.formats.tables.columns import Column
from dataview.formats.tables.schema import missing_in
from dataview.formats.texts import cells
from dataview.formats.texts.cells import Field, Wrong
from dataview.formats.texts.dialect import Dialect, Quoted

BLOCK = 1 << 21
"""So much text a thread takes at a time."""

SMALLEST = 1 << 13
"""Less text is parsed in Python in the time that pyarrow takes to begin."""


FEW = 100
"""Among so many numbers is one with a fraction, if there is any in most columns of floats."""


class NotTaken(Exception):
    """A text that pyarrow would read in another way than we do, or not at all."""


def library() -> Any:
    """Return the part of pyarrow that reads texts, None if it is not installed."""
    try:
        import pyarrow.compute
        import pyarrow.csv
    except ImportError:
        return None
    return pyarrow


def seen_in(
    arrow: Any,
    raw: bytes,
    width: int,
    dialect: Dialect,
    known: Sequence[int],
    dates: bool,
    kept: int,
) -> tuple[int, list[int], dict[int, Column]]:
    """Return how many rows a text has, what is seen in each column, and the numbers that it has.

    `known` is what was seen before; numbers are of the first `kept` columns.
    """
    settled = cells.TEXT | cells.MISSING
    asked = [number for number, seen in enumerate(known) if seen & settled != settled]
    if not asked:  # whether each row has all of its cells is still to be seen
        table = _read(arrow, raw, width, dialect, [0], {0: arrow.string()})
        return table.num_rows, list(known), {}
    texts = {number: arrow.string() for number in asked if known[number] & cells.TEXT}
    table = _read(arrow, raw, width, dialect, asked, texts)
    found = list(known)
    parsed: dict[int, Column] = {}
    unclear = []
    is_plain = not _has_other_numbers(raw) and not _has_quoted(raw, dialect)
    for number in asked:
        column = table[str(number)]
        own: int | None
        if number in texts:
            own = cells.MISSING if column.null_count else 0
        elif column.type == arrow.string():
            own = _seen_in_texts(column, dialect, dates)
        else:
            own = _seen(arrow, column, dates) if is_plain else None
        if own is None:
            unclear.append(number)
            continue
        found[number] |= own
        kind = cells.kind_seen(own)
        if number < kept and column.type != arrow.string() and kind.dtype != cells.OBJECT:
            parsed[number] = _column(column, Field(kind), dialect)
    if unclear:
        table = _read(arrow, raw, width, dialect, unclear, dict.fromkeys(unclear, arrow.string()))
        for number in unclear:
            found[number] |= cells.seen_in(_cells(table[str(number)], dialect), dialect, dates)
    return table.num_rows, found, parsed


def columns(
    arrow: Any, raw: bytes, width: int, dialect: Dialect, fields: Mapping[int, Field]
) -> dict[int, Column]:
    """Return columns of a text by their numbers."""
    types = {number: _type(arrow, field, raw) for number, field in fields.items()}
    found: dict[int, Column] = {}
    for has_quoted in (False, True):
        own = [
            number
            for number, field in fields.items()
            if has_quoted == (field.has_quoted and types[number] != arrow.string())
        ]
        if not own:
            continue
        table = _read(arrow, raw, width, dialect, own, {one: types[one] for one in own}, has_quoted)
        for number in own:
            found[number] = _column(table[str(number)], fields[number], dialect)
    return found


def _read(
    arrow: Any,
    raw: bytes,
    width: int,
    dialect: Dialect,
    asked: Collection[int],
    types: Mapping[int, Any],
    has_quoted: bool = False,
) -> Any:
    """Return some columns of a text, named by their numbers; the type of others is found."""
    if dialect.thousands is not None:
        raise NotTaken("pyarrow knows no marks between digits")
    if not raw.endswith((b"\n", b"\r")):  # an empty cell at the end is taken for one in quotes else
        raw += b"\n"
    takes_more = len(types) == len(asked)  # in a column that is known to be one of bools
    has_quotes = dialect.quote is not None and dialect.quote.encode() in raw
    convert = arrow.csv.ConvertOptions(
        include_columns=[str(number) for number in asked],
        column_types={str(number): kind for number, kind in types.items()},
        null_values=list(dialect.missing),
        true_values=[*cells.TRUE, "1"] if takes_more else list(cells.TRUE),
        false_values=[*cells.FALSE, "0"] if takes_more else list(cells.FALSE),
        strings_can_be_null=True,
        quoted_strings_can_be_null=has_quoted,
        decimal_point=dialect.decimal,
        check_utf8=not raw.isascii(),
    )
    parse = arrow.csv.ParseOptions(
        delimiter=dialect.sep,
        quote_char=dialect.quote if has_quotes else False,
        newlines_in_values=has_quotes,
    )
    names = [str(number) for number in range(width)]
    for block in (BLOCK, len(raw) + 1):
        read = arrow.csv.ReadOptions(
            column_names=names, block_size=block, use_threads=len(raw) > block
        )
        try:
            return arrow.csv.read_csv(arrow.BufferReader(raw), read, parse, convert, _pool(arrow))
        except arrow.ArrowInvalid as error:
            if block > len(raw):
                raise NotTaken(str(error)) from None
    raise NotTaken("no block has all of it")


@functools.cache
def _pool(arrow: Any) -> Any:
    """Return what gives memory to pyarrow, which is used again text after text.

    The system takes memory away between two texts; Arrow's own pool keeps tens of megabytes.
    """
    has_better = "jemalloc" in arrow.supported_memory_backends()
    return arrow.jemalloc_memory_pool() if has_better else arrow.system_memory_pool()


# --- what pyarrow has found ----------------------------------------------------------------------


def _seen(arrow: Any, column: Any, dates: bool) -> int | None:
    """Return what is seen in a column, None if its texts are to be looked at."""
    is_missing = cells.MISSING if column.null_count else 0
    kind = column.type
    if arrow.types.is_null(kind):
        return is_missing
    if arrow.types.is_boolean(kind):
        return cells.BOOL | is_missing
    if kind == arrow.int64():
        is_negative = arrow.compute.min_max(column)["min"].as_py() < 0
        return cells.INT | (cells.NEGATIVE if is_negative else 0) | is_missing
    if kind == arrow.float64():
        return cells.FLOAT | is_missing if _are_floats(column) else None
    if dates and arrow.types.is_date32(kind):
        return cells.DATE | _far(arrow, column) | is_missing
    if dates and kind == arrow.timestamp("s"):
        return cells.SECOND | _far(arrow, column) | is_missing
    if dates and kind == arrow.timestamp("ns"):
        ticks = _raw(one_array(column.drop_null()))
        return (cells.NANO if (ticks % 1000).any() else cells.MICRO) | is_missing
    if arrow.types.is_binary(kind):
        raise NotTaken("texts that are not UTF-8")
    return None


def _seen_in_texts(column: Any, dialect: Dialect, dates: bool) -> int:
    """Return what is seen in a column of texts, of which the first ones may say enough."""
    found = cells.seen_in(_cells(column[:FEW], dialect), dialect, dates)
    if found & cells.TEXT:
        return found | (cells.MISSING if column.null_count else 0)
    return cells.seen_in(_cells(column, dialect), dialect, dates)


def _has_other_numbers(raw: bytes) -> bool:
    """Whether a text has what pyarrow takes for numbers, and we do not.

    Very many zeros stand in a text, so that `in` takes long to look behind each.
    """
    if b"(" in raw and any(mark in raw for mark in _OTHER_NANS):
        return True
    signs = np.frombuffer(raw, np.uint8)
    return any(
        mark in raw and bool((signs[:-1][signs[1:] == mark[0]] == ord("0")).any())
        for mark in (b"x", b"X")
    )


_OTHER_NANS = (b"nan(", b"NaN(", b"NAN(")


def _has_quoted(raw: bytes, dialect: Dialect) -> bool:
    """Whether a cell in quotes may be a text that is missing without them, and a number else."""
    quote = dialect.quote
    if quote is None or quote.encode() not in raw:
        return False
    return _quoted(quote, tuple(dialect.missing)).search(raw) is not None


@functools.lru_cache(64)
def _quoted(quote: str, missing: tuple[str, ...]) -> re.Pattern[bytes]:
    """Return the pattern of such a cell: one search takes a fifth of the time of one for each."""
    texts = "|".join(re.escape(text) for text in missing if text) or "(?!)"
    return re.compile(f"{re.escape(quote)}(?:{texts}){re.escape(quote)}".encode())


def _are_floats(column: Any) -> bool:
    """Whether not all numbers may be whole ones that are too large for 64 bits."""
    values = _raw(one_array(column.drop_null()))
    for some in (values[:FEW], values):
        finite = some[np.isfinite(some)]
        if (finite != np.floor(finite)).any():
            return True
    return not np.isinf(values).any() and bool((np.abs(finite) < 2.0**63).all())


def _far(arrow: Any, column: Any) -> int:
    """Return `FAR` if a date is out of the range of nanoseconds."""
    ends = arrow.compute.min_max(column.cast(f"int{column.type.bit_width}"))
    unit = "M8[s]" if column.type.bit_width == 64 else "M8[D]"
    low, high = np.array(["1678", "2262"], unit).astype("i8").tolist()
    return 0 if low <= ends["min"].as_py() and ends["max"].as_py() < high else cells.FAR


def _cells(column: Any, dialect: Dialect) -> list[str]:
    """Return the texts of a column as they were in the file."""
    missing = {*dialect.missing}
    nothing = dialect.missing[0] if dialect.missing else ""
    return [
        nothing if text is None else Quoted(text) if text in missing else text
        for text in column.to_pylist()
    ]


# --- what is read --------------------------------------------------------------------------------


def _type(arrow: Any, field: Field, raw: bytes) -> Any:
    """Return the type as which a column is read."""
    dtype = field.kind.dtype
    if dtype.kind == "O" or field.dates is not None:
        return arrow.string()
    if dtype.kind == "M":
        unit = np.datetime_data(dtype)[0]
        return arrow.date32() if unit == "D" else arrow.timestamp(unit)
    if field.is_given and dtype.kind in "iuf" and _has_other_numbers(raw):
        raise NotTaken("numbers of another kind")
    return {"b": arrow.bool_, "i": arrow.int64, "u": arrow.uint64, "f": arrow.float64}[dtype.kind]()


def _column(found: Any, field: Field, dialect: Dialect) -> Column:
    dtype = field.kind.dtype
    if field.dates is not None:
        try:
            return cells.column_of(_cells(found, dialect), field, dialect)
        except Wrong as error:
            raise NotTaken(str(error)) from None
    array = one_array(found)
    present = _present(array)
    values = found.to_numpy() if dtype.kind == "O" else _values(array)
    if present is not None and dtype.kind != "O":
        values = np.array(values)
        values[~present] = missing_in(values.dtype)
    try:
        if dtype.kind in "iu":
            values = cells.in_range(values, dtype)
        elif dtype.kind == "f":
            values = cells.as_floats(values, dtype)
    except OverflowError as error:
        raise NotTaken(str(error)) from None
    # A copy: what Arrow made would keep more memory than it takes, as long as it is kept.
    return Column(values.astype(dtype), present)


_RAW = {"int64": "i8", "uint64": "u8", "double": "f8", "date32[day]": "i4"}
"""The numbers that lie in arrays of Arrow's types; those of times are of 64 bits."""


def _present(array: Any) -> np.ndarray | None:
    """Return which values of an array there are, None if there are all."""
    if array.null_count == len(array) > 0:  # then there may be no bits
        return np.zeros(len(array), bool)
    return _bits(array, 0) if array.null_count else None


def _bits(array: Any, buffer: int) -> np.ndarray:
    """Return the bits of a buffer of an array."""
    raw = np.frombuffer(array.buffers()[buffer] or b"", np.uint8)
    end = array.offset + len(array)
    return np.unpackbits(raw, count=end, bitorder="little")[array.offset :].view(bool)


def _raw(array: Any) -> np.ndarray:
    """Return the numbers of an array as they lie there: `to_numpy` would import pandas."""
    values = np.frombuffer(array.buffers()[1] or b"", _RAW.get(str(array.type), "i8"))
    return values[array.offset : array.offset + len(array)]


def _values(array: Any) -> np.ndarray:
    """Return the values of an array that is not of texts."""
    kind = str(array.type)
    if kind == "null":
        return np.zeros(len(array))
    if kind == "bool":
        return _bits(array, 1)
    if kind in ("int64", "uint64", "double"):
        return _raw(array)
    unit = "D" if kind == "date32[day]" else array.type.unit
    return _raw(array).astype("i8").view(f"M8[{unit}]")
