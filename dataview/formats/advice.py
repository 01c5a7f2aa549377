"""What to write instead: for the options of pandas, and for files that other libraries open."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from itertools import islice
from typing import Any

from dataview.errors import VERY_NEAR, chained, closest, shortened

OPENED_BY = {
    ".xlsx": "dv.View(pandas.read_excel(path))",
    ".xls": "dv.View(pandas.read_excel(path))",
    ".orc": "dv.View(pandas.read_orc(path))",
    ".avro": "dv.View(polars.read_avro(path))",
    ".dta": "dv.View(pandas.read_stata(path))",
    ".sas7bdat": "dv.View(pandas.read_sas(path))",
    ".pkl": "dv.View(pandas.read_pickle(path)), for files you trust: they can run any code",
    ".zst": "dv.View(pyarrow.csv.read_csv(path)) if it is a packed CSV",
    ".pickle": "dv.View(pandas.read_pickle(path)), for files you trust: they can run any code",
}
"""How files that other libraries open become views."""

_SOME = "dv.open(path)[['a', 'b']]: columns that are not asked for are not read"
_NO_INDEX = "nothing: rows have their numbers, and each column is a field"
_ALL_ROWS = "nothing: a row that does not fit is an error; sep=, quote=, comment=, skip= say more"
_BY_ITSELF = "nothing: the fastest way that is installed is taken"

_ELSEWHERE = {
    "chunksize": "dv.open(path)._minibatches({})",
    "columns": _SOME,
    "compression": "nothing: the name of the file says how it is packed",
    "converters": "dv.open(path).a._map(function)",
    "date_format": "dates={{'a': '%d.%m.%Y'}}",
    "delim_whitespace": "sep=' '",
    "delimiter": "sep={}",
    "dtype": "types={}",
    "encoding_errors": "encoding=",
    "engine": _BY_ITSELF,
    "error_bad_lines": _ALL_ROWS,
    "index_col": _NO_INDEX,
    "iterator": "dv.open(path)._minibatches(n)",
    "low_memory": _BY_ITSELF,
    "memory_map": _BY_ITSELF,
    **dict.fromkeys(("na", "na_values", "nan", "null", "null_values", "nulls"), "missing={}"),
    "has_header": "header={}",
    "n_rows": "dv.open(path)[:{}], which reads no other rows",
    "nrows": "dv.open(path)[:{}], which reads no other rows",
    "on_bad_lines": _ALL_ROWS,
    "parse_dates": "dates=True, or for texts in another form dates={{'a': '%d.%m.%Y'}}",
    "quote_char": "quote={}",
    "quotechar": "quote={}",
    "schema_overrides": "types={}",
    "separator": "sep={}",
    "skip_rows": "skip={}",
    "skiprows": "skip={}",
    "usecols": _SOME,
    "use_cols": _SOME,
}
"""The options of pandas and polars, and what to write instead, with the value that was given."""

MOST_NAMES = 5
"""So many files of a folder are named in an error."""


MOST_WALKED = 1000
"""So many folders are looked into for a table."""


def for_option(name: str, value: Any, known: Collection[str]) -> str:
    """Return what to write for an option of others, or "" if a format has nothing like it.

    It may be misspelt, if the format has none of nearly that name.

    >>> for_option("delimiter", ";", ["sep"]), for_option("delimiter", ";", ["fill"])
    ("sep=';'", '')
    >>> for_option("na_values", "-", ["missing"])
    "missing=['', '-']"
    """
    if name not in _ELSEWHERE and not closest(name, known):
        name = closest(name, _ELSEWHERE, VERY_NEAR)
    advice = _ELSEWHERE.get(name, "")
    option, mark, _ = advice.partition("=")
    if mark and option.isidentifier() and option not in known:
        return ""
    if option == "missing":  # empty cells are still to be missing
        value = ["", *(value if isinstance(value, (list, tuple, set)) else [value])]
    return advice.format(shortened(repr(value)))


def for_file(path: str) -> str:
    """Return what opens a file of another library, or "" if none is known."""
    return OPENED_BY.get(os.path.splitext(path)[1].lower(), "")


def for_pattern(is_elsewhere: bool) -> str:
    """Return the error for a pattern that stands for no file."""
    told = "no file has a name of this pattern"
    if not is_elsewhere:
        return told
    return (
        f"{told}, or the folder or the bucket that it would be in is lacking; check the URL, and "
        "that storage_options= lead to the right server"
    )


def for_missing(path: str) -> str:
    """Say that there is no file, or that the path goes on inside of one: its fields are below."""
    file, inside = path, list[str]()
    while file and not os.path.exists(file):
        file, _, name = file.rpartition("/")
        inside.insert(0, name)
    told = os.strerror(errno.ENOENT)
    if not os.path.isfile(file):
        return told
    if not any(inside):
        return f"{told}: {file!r} is a file, whose path does not end with '/'"
    return f"{told}; what is inside of a file are its fields: dv.open({file!r}){chained(inside)}"


def for_folder(
    path: str, tables: tuple[str, ...], others: tuple[str, ...], keyed: tuple[str, ...]
) -> str:
    """Say what a folder holds, and how its tables and other files open, by these suffixes.

    Those that are `keyed` may lie in folders whose names are values of columns.
    """
    with os.scandir(path) as entries:
        names = sorted(one.name for one in islice(entries, 1000) if not one.name.startswith("."))
    if not names:
        return "it is empty"
    told = f"it holds {', '.join(names[:MOST_NAMES])}{', …' * (len(names) > MOST_NAMES)}"
    ends = [name[-len(end) :] for name in names for end in tables if name.lower().endswith(end)]
    if not ends and sum(name.lower().endswith(others) for name in names) > 1:
        return f"{told}; layout='parts' opens them as one, whose rows follow one another"
    below = None if ends else table_below(path, keyed)
    if below is not None:
        return (
            f"{told}; it has tables below these, such as {below!r}: keys= names the columns that "
            "folders stand for, from the outermost on, as in keys=['year', 'month']"
        )
    if not ends:
        return told
    return (
        f"{told}; dv.open({os.path.join(path, '*' + ends[0])!r}) is a table of all such files, and "
        f"layout='parts' loads them one after the other"
    )


def table_below(folder: str, suffixes: tuple[str, ...]) -> str | None:
    """Return where in a folder a file is that ends so, None if there is none in the first ones."""
    for place, inside, names in islice(os.walk(folder), MOST_WALKED):
        inside[:] = sorted(name for name in inside if name[0] not in "._")
        for name in sorted(names):
            if name.lower().endswith(suffixes) and name[0] not in "._":
                return os.path.relpath(os.path.join(place, name), folder)
    return None
