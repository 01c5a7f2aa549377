"""Values that users give, made arrays: sequences end at their length, casts lose nothing."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np

from dataview.errors import RaggedError, UndeclaredError, chained

# --- sequences of a user's own class end at their length ---------------------------------------

_ARRAYS = ("__array__", "__array_interface__", "__array_struct__")
_LISTS = frozenset({list, tuple})
_ITEMS = frozenset({bool, int, float, complex, str, bytes, np.float64, np.ndarray})
"""Common classes of items that have no items of their own, or end at their length."""


def listed(value: Any) -> Any:
    """Return sequences of a user's own class as lists, and anything else as it is.

    NumPy asks such a sequence for items until it raises IndexError, which some never do.

    >>> class Squares:
    ...     def __len__(self):
    ...         return 3
    ...
    ...     def __getitem__(self, number):
    ...         return number**2
    >>> listed([Squares(), [1, 2, 3]])
    [[0, 1, 4], [1, 2, 3]]
    """
    kind = type(value)
    if kind in _LISTS:
        # Where the first item is a number, NumPy takes no other one for a sequence.
        if not value or type(value[0]) in _ITEMS or _is_table(value):
            return value
        parts = [listed(part) for part in value]
        same = all(part is old for part, old in zip(parts, value, strict=True))
        return value if same else parts
    if not asks_items(value):
        return value
    return [listed(part) for part in islice(iter(value), len(value))]


def asks_items(value: Any) -> bool:
    """Whether NumPy would make an array of an object's items, asking for one after the other."""
    return _is_listed(type(value)) and not _has_buffer(value)  # type: ignore[arg-type]


def _is_table(value: Any) -> bool:
    """Whether all items are lists of numbers, as nearly all lists of lists are."""
    return all(type(row) in _LISTS and row and type(row[0]) in _ITEMS for row in value)


@lru_cache(maxsize=256)
def _is_listed(kind: type) -> bool:
    """Whether NumPy would take an object of this class for a sequence, and ask for its items."""
    if issubclass(kind, (list, tuple, str, bytes, Mapping)):
        return False
    is_sequence = hasattr(kind, "__len__") and hasattr(kind, "__getitem__")
    return is_sequence and not any(hasattr(kind, protocol) for protocol in _ARRAYS)


def _has_buffer(value: Any) -> bool:
    """Whether an object lends its memory, as Python's own arrays do."""
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


# --- texts keep zeros at their ends --------------------------------------------------------------


_TEXTS = (str, bytes, list, tuple)


def is_cut(value: Any) -> bool:
    r"""Whether NumPy cuts zeros off the end of a text or of bytes, or of one of a list.

    >>> is_cut(b"a\0"), is_cut(["a", "b\0"]), is_cut("a"), is_cut(3)
    (True, True, False, False)
    """
    if isinstance(value, str):
        return value.endswith("\0")
    if isinstance(value, bytes):
        return value.endswith(b"\0")
    return type(value) in _LISTS and any(map(is_cut, value))


def whole_texts(value: Any, dtype: np.dtype[Any] | None = None) -> Any:
    r"""Return texts of which NumPy would cut the ends as an array of objects, all else as it is.

    Beside texts of a dtype of any length they have this dtype, and so have bytes of just its length
    beside raw ones; others are objects there.

    >>> whole_texts([b"a\0", b"b"]), whole_texts([b"a", b"b"])
    (array([b'a\x00', b'b'], dtype=object), [b'a', b'b'])
    """
    if dtype is not None and is_raw(dtype) and isinstance(value, _TEXTS):
        if _are_bytes_of(value, dtype.itemsize):
            return np.array(value, dtype)
    elif not is_cut(value):
        return value
    own = array_or_none(value)
    if own is None:  # rows of several lengths
        return value
    is_text = own.dtype.kind == "U" and dtype is not None and dtype.kind == "T"
    return np.array(value, dtype if is_text else object)


def is_raw(dtype: np.dtype[Any]) -> bool:
    """Whether values are raw bytes, as many in each."""
    return dtype.kind == "V" and dtype.names is None and dtype.subdtype is None


def _are_bytes_of(value: Any, length: int) -> bool:
    """Whether a value is bytes of a length, or a list of such bytes."""
    values = value if type(value) in _LISTS else [value]
    return bool(values) and all(isinstance(one, bytes) and len(one) == length for one in values)


# --- times of day are the time since midnight --------------------------------------------------

TIME_OF_DAY = "time_of_day"
"""The metadata of durations under this name are true if they are times of day, since midnight."""


def is_time_of_day(meta: Mapping[str, Any]) -> bool:
    """Whether metadata tell that durations are times of day."""
    return meta.get(TIME_OF_DAY) is True


def since_midnight(value: datetime.time) -> np.timedelta64:
    """Return a time of day as the time since midnight.

    >>> since_midnight(datetime.time(1, 0, 2))
    np.timedelta64(3602000000,'us')
    """
    if value.tzinfo is not None:
        raise ValueError(
            f"{value!r} has a zone, and the data are times of day without one; "
            "value.replace(tzinfo=None) drops it"
        )
    passed = datetime.timedelta(
        hours=value.hour,
        minutes=value.minute,
        seconds=value.second,
        microseconds=value.microsecond,
    )
    return np.timedelta64(passed)


def in_durations(value: Any) -> Any:
    """Return times of day of Python's, also those of a list, as the time since midnight.

    >>> in_durations([datetime.time(0, 1), None])
    [np.timedelta64(60000000,'us'), None]
    """
    if isinstance(value, datetime.time):
        return since_midnight(value)
    if isinstance(value, np.ndarray) and value.dtype == object:
        listed_in = value.tolist()
        found = in_durations(listed_in)
        return value if found is listed_in else found
    if type(value) not in _LISTS:
        return value
    found = [in_durations(part) for part in value]
    is_same = all(part is own for part, own in zip(found, value, strict=True))
    return value if is_same else found


# --- casts by NumPy's rule `same_kind`, refused where they would lose data --------------------


def cast(value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Return a value as an array of the dtype, or raise if that would lose what it holds.

    >>> cast([1, 2], np.dtype("u1"))
    array([1, 2], dtype=uint8)
    >>> cast([300], np.dtype("u1"))
    Traceback (most recent call last):
    OverflowError: 300 does not fit into uint8
    """
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError("a masked array would lose its mask; fill it first")
    if dtype.hasobject and dtype.names is None:
        return _objects(value, dtype)
    if dtype.names is not None:
        return _structured(value, dtype)
    if is_scalar(value) and dtype.kind in "biufc":
        return _number(value, dtype)
    weak = not isinstance(value, (np.ndarray, np.generic))
    value = listed(value) if weak else value
    value = in_durations(value) if dtype.kind == "m" else value
    given = np.asarray(value)
    if not _may_cast(given, dtype, weak):
        raise _lossy(_told(given), dtype)
    if given.dtype == dtype:
        return given
    _check_range(given, dtype)
    return np.asarray(value, dtype) if weak else given.astype(dtype)


def is_scalar(value: Any) -> bool:
    """Whether NumPy gives the value the dtype of what it meets (a Python number)."""
    return type(value) in (bool, int, float, complex)


_HOLDS = {bool: "biufc", int: "iufc", float: "fc", complex: "c"}
"""The kinds of dtype that hold each of Python's numbers."""


def _number(value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Cast one of Python's numbers, which have a kind and no size."""
    if dtype.kind not in _HOLDS[type(value)]:
        raise _lossy(repr(value), dtype)
    if type(value) is int and dtype.kind in "iu":
        _check_bounds(value, value, dtype)
    return np.asarray(value, dtype)


def _lossy(what: str, dtype: np.dtype[Any]) -> TypeError:
    if what == "object":
        return TypeError(
            f"cannot write objects, such as None, into {dtype}; what is missing is NaN among "
            "floats: d._astype(float), NaT among dates, and False in a field's mask"
        )
    if dtype.kind == "b":  # any text but the empty one would be true
        return TypeError(
            f"cannot write {what} into bool: it takes True and False, such as value == 'yes', or "
            "value != 0"
        )
    if what.startswith(("the text", "<U", ">U", "StringDType")) and dtype.kind in "iufc":
        return TypeError(
            f"cannot write {what} into {dtype}; np.asarray(value, '{dtype}') converts texts such "
            "as '15', and of others dv.View(texts)._codes() has numbers"
        )
    if dtype.kind in "iu" and what in ("nan", "inf", "-inf"):
        return TypeError(
            f"cannot write {what} into {dtype}, which has no such number; d._astype(float) makes "
            "floats of the data, and False in a field's mask says that a value is missing"
        )
    if what.endswith(("j", "j)")):
        return TypeError(
            f"cannot write {what} into {dtype} without losing its imaginary part; value.real is "
            "the other part, d._astype(complex) makes complex numbers of the data"
        )
    return TypeError(
        f"cannot write {what} into {dtype} without losing what it holds (NumPy's rule "
        f"'same_kind'); np.asarray(value, '{dtype}') converts it"
    )


def _told(given: np.ndarray) -> str:
    """Return what an array is, and the text if it is one, for messages."""
    is_text = given.dtype.kind in "UT" and given.size == 1
    return f"the text {given.item()[:LONGEST]!r} ({given.dtype})" if is_text else str(given.dtype)


LONGEST = 40
"""So many letters of a text are shown in a message."""


def _check_bounds(low: int, high: int, dtype: np.dtype[Any]) -> None:
    bounds = np.iinfo(dtype)
    if low < bounds.min or high > bounds.max:
        raise OverflowError(f"{low if low < bounds.min else high} does not fit into {dtype}")


def _may_cast(given: np.ndarray, dtype: np.dtype[Any], weak: bool) -> bool:
    if given.size == 0 and weak:
        return True
    if dtype.kind in "US" and given.dtype.kind not in "US":
        return False
    if np.can_cast(given.dtype, dtype, "same_kind"):
        return True
    # Python's integers have no size of their own: they fit any integer that can hold them.
    return weak and given.dtype.kind in "iu" and dtype.kind in "iu"


def _check_range(given: np.ndarray, dtype: np.dtype[Any]) -> None:
    """Raise if a cast that the rule allows would still lose something: digits or characters."""
    if not given.size:
        return
    if given.dtype.kind in "iu" and dtype.kind in "iu":
        _check_bounds(int(np.min(given)), int(np.max(given)), dtype)
    if given.dtype.kind == dtype.kind and dtype.kind in "US":
        longest = int(np.max(np.strings.str_len(given)))
        room = dtype.itemsize // (4 if dtype.kind == "U" else 1)
        if longest > room:
            raise ValueError(f"a text of {longest} characters does not fit into {dtype}")


def _objects(value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    if isinstance(value, (np.ndarray, list, tuple)):
        return np.asarray(listed(value), dtype)
    landed = np.empty((), dtype)
    landed[()] = value
    return landed


def _structured(value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Cast field by field, matched by name; tuples are taken in the order of the fields."""
    names, value = dtype.names or (), listed(value)
    if isinstance(value, list):
        return np.array([_structured(part, dtype) for part in value], dtype)
    if isinstance(value, tuple) and len(value) == len(names):
        landed = np.empty((), dtype)
        for name, part in zip(names, value, strict=True):
            landed[name] = cast(part, dtype[name].base)
        return landed
    if not isinstance(value, (np.ndarray, np.void)):
        try:
            return np.asarray(value, dtype)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"cannot write {value!r} into each of the fields {', '.join(names)} ({error}); "
                "a row is written from a tuple of their values, several rows from a list of tuples"
            ) from error
    given = np.asarray(value)
    if given.dtype == dtype:
        return given
    if given.dtype.names is None or set(given.dtype.names) != set(names):
        raise TypeError(
            f"cannot write {given.dtype} into the fields {', '.join(names)}; give values with the "
            "same names, or tuples in their order"
        )
    landed = np.empty(given.shape, dtype)
    for name in names:
        landed[name] = cast(given[name], dtype[name].base)
    return landed


def holding(dtype: Any, value: Any, where: str = "") -> Any:
    """Return the dtype itself if it holds the value, else one that holds both.

    >>> holding(np.dtype(int), 0.0), holding(np.dtype(int), np.nan), holding(np.dtype(bool), 0)
    (dtype('int64'), dtype('float64'), dtype('bool'))
    """
    if type(value) is int and dtype.kind in "iu" and 0 <= value < 128:
        return dtype  # as in every batch that is filled up with zeros
    own = np.asarray(value)
    if dtype.kind == "O" or (dtype.kind == "T" and own.dtype.kind == "U" and not own.ndim):
        return dtype
    if (own.dtype.kind in "SU") is not (dtype.kind in "SU") or own.ndim:
        raise TypeError(f"{where}{value!r} is no padding for samples of {dtype}")
    if dtype.kind in "SU":
        return np.result_type(dtype, own.dtype)
    if own.dtype.kind in "iu" and dtype.kind == "b" and own in (0, 1):
        return dtype
    if own.dtype.kind in "iu" and dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        if not bounds.min <= int(own) <= bounds.max:
            raise OverflowError(f"{where}the padding {value!r} does not fit into {dtype}")
        return dtype
    if own.dtype.kind == "f" and dtype.kind in "biu" and own == np.floor(own) and not np.isinf(own):
        return holding(dtype, int(own), where)
    try:
        return np.result_type(dtype, value)
    except TypeError:
        raise TypeError(f"{where}{value!r} is no padding for samples of {dtype}") from None


def array_or_none(value: Any) -> np.ndarray | None:
    """Return a value as an array, None if it is lists of different lengths."""
    try:
        return np.asarray(value)
    except ValueError:
        return None


def no_structure(record: Any) -> TypeError:
    """Return the error for a record whose fields make no structured array: it names the first."""
    name, part = _without_structure(record)
    field = f"the fields do not make one structured array: field {name!r}"
    each = "d._asdict() has the data of each field"
    if part is None:
        return UndeclaredError(f"a row of all fields is too large for a structured array; {each}")
    if part.dtype is None:
        return UndeclaredError(
            f"{field} has a dtype that is unknown until a sample has been read; d = d._probe() "
            f"reads one, and {each}"
        )
    inside = chained(name.split("."))
    if part.shape is None:
        return RaggedError(
            f"{field} has rows that differ in length; {each}, and d{inside}._pad(value) fills the "
            "rows up"
        )
    return UndeclaredError(
        f"{field} is of {part.dtype}, which has no place in one; {each}, and "
        f"d{inside}._astype('U20') holds 20 letters of each"
    )


def _without_structure(record: Any) -> tuple[str, Any]:
    """Return the first field that has no place in a structured array, by its path, if one has."""
    for name, own in record.fields.named.items():
        part, inner = own.node, ""
        if part.dtype is None and part.fields.named:
            inner, part = _without_structure(part)
        if part is None:
            continue
        if part.dtype is None or part.shape is None or part.dtype.char == "T":
            return f"{name}.{inner}" if inner else name, part
    return "", None
