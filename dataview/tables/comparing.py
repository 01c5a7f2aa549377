"""Codes compared with labels, and dates with texts: both sides become of one kind."""

from __future__ import annotations

import datetime
import decimal
import re
from typing import Any, NoReturn

import numpy as np

from dataview.errors import hint, shortened
from dataview.plan.build import keyed, stored, with_fields
from dataview.plan.fields import Attached, Fields
from dataview.plan.gaps import LABELS, holds_codes
from dataview.plan.kinds import Record, Sampled, Stored
from dataview.plan.node import Argument, Node
from dataview.plan.operations import TEXTS
from dataview.plan.photographs import Photograph, PhotographSource
from dataview.plan.ragged import Ragged
from dataview.plan.values import is_time_of_day, since_midnight
from dataview.sources import ArraySource
from dataview.tables.coding import as_list, name_of
from dataview.tables.labels import Labels, decoded, labels_of

KINDS = TEXTS + "OMm"
"""The kinds of what may be labels; a number is a code, unless the labels are other numbers."""

_NUMBERS = "biuf"

ONE_LABEL = (
    str,
    bytes,
    np.datetime64,
    np.timedelta64,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
)


def comparable(left: Argument, right: Argument) -> tuple[Argument, Argument]:
    """Return both sides of a comparison, such that labels are compared with labels.

    One label becomes its code, and a date of Python's, or the text of one, a date of NumPy's.  An
    array of labels is compared with the label of each row, and so are codes whose labels are
    numbered differently.  An array of numbers is refused where the labels are other numbers: it may
    be of codes, as the data are.
    """
    pair = in_same_labels(left, right)
    if pair is not None:
        return pair
    if _may_be_labels(left, right):
        return _beside(left, right)
    if _may_be_labels(right, left):
        return _beside(right, left)[::-1]
    return in_dates(left, right)


def check_no_order(what: str, left: Any, right: Any) -> None:
    """Raise if codes are compared with labels by their order, which is that of their numbers."""
    for codes, other in ((left, right), (right, left)):
        if _may_be_labels(codes, other):
            advice = "with a code all comparisons do"
            if _kind(other) in _NUMBERS:
                advice = f"{_BARE}, which have an order"
            raise TypeError(
                f"{what}: {name_of(codes)} holds codes of labels, which have no order; == and != "
                f"compare with a label, and {advice}"
            )


_BARE = "_with_meta(labels=None) are the codes as plain numbers"


def codes_of(node: Any, labels: Any) -> np.ndarray | None:
    """Return the codes of those of some labels that codes have, None if these are no labels."""
    if not isinstance(node, Node):
        return None
    values, known = np.asarray(labels), labels_of(node)
    if known is None or not _are_asked_for(known, values.dtype.kind):
        return None
    wanted = as_list(values.reshape(-1))
    return np.array([code for code, own in enumerate(known.list()) if own in wanted], np.intp)


def _may_be_labels(codes: Any, side: Any) -> bool:
    """Whether a side beside codes may hold labels of them."""
    known = labels_of(codes) if isinstance(codes, Node) else None
    return known is not None and _are_asked_for(known, _kind(side))


def _are_asked_for(labels: Labels, kind: str) -> bool:
    """Whether data of a kind are compared with these labels, and not with codes."""
    return kind in KINDS or (kind in _NUMBERS and labels.are_numbers)


def _kind(side: Any) -> str:
    if not isinstance(side, Node):
        return np.dtype(type(side)).kind
    return "?" if side.dtype is None else side.dtype.kind


def in_same_labels(left: Argument, right: Argument) -> tuple[Argument, Argument] | None:
    """Return two sides of codes as labels, if these are numbered differently; records by field.

    It is None if there are no codes on both sides.
    """
    if isinstance(left, Record) and isinstance(right, Record):
        return _by_field(left, right)
    if not isinstance(left, Node) or not isinstance(right, Node):
        return None
    if not holds_codes(left) or not holds_codes(right):
        return None
    if any(isinstance(side, Sampled) and not isinstance(side, Ragged) for side in (left, right)):
        return left, right  # of samples that are made one by one it is not known what they are
    ours, theirs = Labels(left.meta[LABELS]), Labels(right.meta[LABELS])
    if ours.given is theirs.given or not ours.is_listed or not theirs.is_listed:
        return left, right
    if as_list(ours.array()) == as_list(theirs.array()):
        return left, right
    return _in_labels(left), _in_labels(right)


def _by_field(left: Record, right: Record) -> tuple[Node, Node]:
    """Return two records, in which codes that number labels differently are these labels."""
    sides: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    for name, own in left.fields.named.items():
        other = right.fields.named.get(name)
        if not isinstance(own, Attached) or not isinstance(other, Attached):
            continue
        pair = in_same_labels(own.node, other.node)
        if pair is not None and pair[0] is not own.node:
            for changes, part, node in zip(sides, (own, other), pair, strict=True):
                changes[name] = part.of(node)
    if not sides[0]:
        return left, right
    return _with_parts(left, sides[0]), _with_parts(right, sides[1])


def _with_parts(node: Record, parts: dict[str, Any]) -> Node:
    return with_fields(node, Fields({**node.fields.named, **parts}, node.fields.lost))


def _beside(codes: Any, other: Any) -> tuple[Argument, Argument]:
    is_number = _kind(other) in _NUMBERS
    if not isinstance(other, Node):
        label = other
    elif other.shape == () and isinstance(other, Stored) and other.source.memory is not None:
        label = other.source.memory[()]
    elif is_number:
        raise TypeError(
            f"{name_of(codes)} holds codes, and its labels are numbers: an array may be of either; "
            f"np.isin(d, values) and d == 3 ask for labels, and {_BARE}"
        )
    else:
        return _in_labels(codes), other
    if not is_number and not isinstance(label, ONE_LABEL):
        return codes, other
    known = labels_of(codes)
    assert known is not None
    if not known.is_listed and not is_number:
        code = PhotographSource(_Code(codes, label), (), np.dtype(np.intp), None, np.asarray(label))
        return codes, stored(code, False)
    labels = known.list()
    found = [code for code, own in enumerate(labels) if own == label]
    if not found:
        raise no_label(codes, label, labels)
    return (codes, found[0]) if len(found) == 1 else (_in_labels(codes), other)


class _Code(Photograph):
    """The code of a label among labels that are not read before they are needed."""

    __slots__ = ("label",)
    about = "a label"

    def __init__(self, codes: Node, label: Any) -> None:
        super().__init__(codes)
        self.label = label

    def find(self, node: Node) -> np.ndarray:
        """Return the code of the label, or raise."""
        known = labels_of(node)
        assert known is not None
        labels = known.list()
        if self.label not in labels:
            raise no_label(node, self.label, labels)
        return np.array(labels.index(self.label))


def _in_labels(codes: Node) -> Node:
    labels = labels_of(codes)
    assert labels is not None
    return decoded(keyed(codes, None) if codes.shape == () else codes, labels)


def no_label(codes: Node, label: Any, labels: list[Any]) -> ValueError:
    """Return the error for a label that codes do not have."""
    texts = [one for one in labels if isinstance(one, str)]
    close = hint(label, texts) if isinstance(label, str) else ""
    is_plain = isinstance(label, np.str_ | np.bytes_ | np.number | np.bool_)
    shown = label.item() if is_plain and not isinstance(label, np.timedelta64) else label
    bare = f"; {_BARE}" if isinstance(shown, int | float) else ""
    return ValueError(
        f"{name_of(codes)} has no label {shown!r}{close or '.'} "
        f"The labels are: {shortened(', '.join(map(repr, labels)))}{bare}"
    )


# --- dates -------------------------------------------------------------------------------------

_WRITTEN = re.compile(
    r"(\d{4}(?:-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)?)?)?)"
    r"(Z|[+-]\d\d:?\d\d)?"
)
"""A date or a time as ISO 8601 writes it, and its zone."""

_WRITTEN_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?", re.ASCII)
"""A time of day as ISO 8601 writes it."""


def in_dates(left: Argument, right: Argument) -> tuple[Argument, Argument]:
    """Return both sides of a comparison, such that one date beside dates is one of NumPy's."""
    return _one(left, right), _one(right, left)


def in_times(operands: tuple[Argument, ...]) -> tuple[Argument, ...]:
    """Return operands such that times of Python's beside times of day are durations, as these."""
    if not any(map(_is_time, operands)):
        return operands
    times = [one for one in operands if isinstance(one, Node) and is_time_of_day(one.meta)]
    return tuple([_one(one, times[0]) if times and _is_time(one) else one for one in operands])


def _is_time(side: Argument) -> bool:
    """Whether a side is one time of day of Python's."""
    memory = side.source.memory if isinstance(side, Stored) and side.shape == () else None
    return memory is not None and isinstance(memory[()], datetime.time)


def _one(side: Argument, other: Argument) -> Argument:
    """Return a side as a date or duration if it is one, or a text, and the other side has some."""
    if not isinstance(other, Node) or not isinstance(side, Stored) or side.shape != ():
        return side
    kind = "" if other.dtype is None else other.dtype.kind
    if kind not in ("M", "m"):
        return side
    value = None if side.source.memory is None else side.source.memory[()]
    found = dated(value, kind, is_time_of_day(other.meta))
    return side if found is value else stored(ArraySource(np.array(found)), False)


def dated(value: Any, kind: str, are_times: bool = False) -> Any:
    """Return one value beside dates (M) or durations (m) as one of NumPy's, if it is one at all.

    Durations may be times of day, which are compared with those of Python, and with texts.
    """
    if are_times and kind == "m" and isinstance(value, str):
        return _time_of_text(value)
    if kind == "m" and isinstance(value, datetime.time):
        return since_midnight(value) if are_times else _no_time(value)
    if kind == "m" and isinstance(value, datetime.timedelta):
        return np.timedelta64(value)
    if kind == "M" and isinstance(value, str):
        return _of_text(value)
    return _in_utc(value) if kind == "M" and isinstance(value, datetime.date) else value


def _no_time(value: datetime.time) -> NoReturn:
    raise TypeError(
        f"the data are durations, and {value!r} is a time of day; compare them with a "
        "datetime.timedelta, or say what they are: view._with_meta(time_of_day=True)"
    )


def _time_of_text(text: str) -> np.timedelta64:
    """Return the time since midnight that a text says.

    >>> _time_of_text("01:30"), _time_of_text("00:00:00.000000001")
    (np.timedelta64(90,'m'), np.timedelta64(1,'ns'))
    """
    written = _WRITTEN_TIME.fullmatch(text.strip())
    hours, minutes, seconds = map(int, written.groups("0")[:3]) if written else (24, 0, 0)
    if written is None or hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError(
            f"{str(text)!r} is no time of day; times of day are compared with texts such as "
            "'10:30' and '10:30:00.25', and with datetime.time"
        )
    found = np.timedelta64(60 * hours + minutes, "m")
    found = found if written[3] is None else found + np.timedelta64(seconds, "s")
    digits = written[4]
    return found + np.timedelta64(int(digits.ljust(9, "0")), "ns") if digits else found


def _in_utc(value: datetime.date) -> np.datetime64:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return np.datetime64(value)


def _of_text(text: str) -> np.datetime64:
    """Return the date or time that a text says, in UTC.

    >>> _of_text("2026-11"), _of_text("2026-11-22 10:30+02:00")
    (np.datetime64('2026-11'), np.datetime64('2026-11-22T08:30'))
    """
    written = _WRITTEN.fullmatch(text.strip())
    try:
        if written is None or (written[2] and ":" not in written[1]):
            raise ValueError("it is not written as in ISO 8601")
        found = np.datetime64(written[1])
    except ValueError as error:
        raise ValueError(
            f"{str(text)!r} is no date ({error}); dates are compared with texts such as "
            "'2026-11-22' and '2026-11-22 10:30:00', with datetime.date and with datetime.datetime"
        ) from None
    return found - _offset(written[2]) if written[2] else found


def _offset(zone: str) -> np.timedelta64:
    """Return how far a zone is ahead of UTC."""
    if zone == "Z":
        return np.timedelta64(0, "m")
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    return np.timedelta64((hours * 60 + minutes) * (-1 if zone[0] == "-" else 1), "m")
