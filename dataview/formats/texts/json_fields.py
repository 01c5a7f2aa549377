"""What the fields of rows in JSON are, as far as rows were seen, and the columns of other rows."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dataview.errors import shortened
from dataview.formats.contents import DEEPEST
from dataview.formats.tables.columns import NOTHING, Column, Kind, Name, tidy
from dataview.formats.tables.schema import missing_in
from dataview.plan.gaps import PRESENT

MOST_FIELDS = 1 << 12
"""More fields are refused: keys that differ from row to row are data, not names."""

Steps: TypeAlias = tuple[str | None, ...]
"""The way from a row to values: the key of a member, or None for all elements of a list."""

Null = type(None)

NAMES = {
    dict: "an object", list: "a list", str: "a text", int: "an integer", float: "a number",
    bool: "true or false", Null: "no value",
}  # fmt: skip
"""What errors call values of Python's types."""

TYPES: dict[str, set[type]] = {
    "f": {int, float}, "b": {bool}, "O": {str}, "i": {int}, "u": {int},
}  # fmt: skip
"""The types of values that arrays of each kind of dtype hold."""

EXACT = 1 << 53
"""Not all integers beyond this are floats."""


class Form:
    """What has been seen at one place in rows: types, each with the first line of it.

    Of several files, a line is told with the name of its file.
    `members` are those of objects, and `inner` has what is in lists.
    """

    __slots__ = ("inexact", "inner", "kinds", "least", "members", "most", "objects")

    def __init__(self) -> None:
        self.kinds: dict[type, int | str] = {}
        self.members: dict[str, Form] = {}
        self.inner: Form | None = None
        self.least = self.most = 0
        self.inexact = self.objects = False


class Leaf(NamedTuple):
    """A column: how its values are found in a row, what they are, and whether they may be null.

    One that `tells` of objects is true where there is one, and has no other values.
    """

    steps: Steps
    kind: Kind
    may_miss: bool
    tells: bool = False


# --- before ---------------------------------------------------------------------------------------


def parsed(raw: bytes) -> Any:
    """Return what a text of JSON says, or raise ValueError."""
    try:
        return _DECODER.decode(raw.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it has the key {repeated!r} twice")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_without_repeats)


def check_settled(rows_settled: Any) -> None:
    """Raise if an option is no number of rows."""
    if rows_settled is not None and (not isinstance(rows_settled, int) or rows_settled < 1):
        raise ValueError(
            f"rows_settled is a number of rows, 1 or more, or None for all; got {rows_settled!r}"
        )


# --- rows seen -----------------------------------------------------------------------------------


def see(form: Form, values: Sequence[Any], lines: Sequence[int | str], depth: int = 0) -> None:
    """Note what values are, which are in these lines."""
    if depth > DEEPEST:
        raise ValueError(f"line {lines[0]} is nested more than {DEEPEST} levels deep")
    types = list(map(type, values))
    kinds = dict.fromkeys(types)
    for kind in kinds:
        if kind not in form.kinds:
            form.kinds[kind] = lines[types.index(kind)]
    if int in kinds:
        _see_integers(form, [value for value in values if type(value) is int])
    if list in kinds:
        form.inner = form.inner or Form()
        lists = [
            (value, line) for value, line in zip(values, lines, strict=True) if type(value) is list
        ]
        flat = [value for one, _ in lists for value in one]
        if flat:
            numbers = [line for one, line in lists for _ in one]
            see(form.inner, flat, numbers, depth + 1)
    if dict in kinds:
        found = [
            (value, line) for value, line in zip(values, lines, strict=True) if type(value) is dict
        ]
        _see_members(form, [one for one, _ in found], [line for _, line in found], depth)


def _see_integers(form: Form, values: list[int]) -> None:
    form.least, form.most = min(form.least, *values), max(form.most, *values)
    if max(form.most, -form.least) > EXACT:
        form.inexact = form.inexact or any(not _is_exact(value) for value in values)


def _is_exact(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _see_members(
    form: Form, objects: list[dict[str, Any]], lines: list[int | str], depth: int
) -> None:
    names = dict.fromkeys([*form.members, *itertools.chain.from_iterable(objects)])
    if len(names) > MOST_FIELDS:
        raise ValueError(
            f"its objects have more than {MOST_FIELDS} keys by line {lines[-1]}; "
            "dv.open(path, format='lines') is a view of the lines"
        )
    for name in names:
        inner = form.members.get(name)
        if inner is None:
            inner = form.members[name] = Form()
            if form.objects:
                inner.kinds[Null] = lines[0]
        see(inner, [one.get(name) for one in objects], lines, depth + 1)
    form.objects = True


# --- the columns that they are -------------------------------------------------------------------


def leaves_of(form: Form, where: str = "line") -> tuple[dict[Name, Leaf], dict[str, str]]:
    """Return the columns of rows, and why others are none; `where` is what a row is called."""
    leaves: dict[Name, Leaf] = {}
    lost: dict[str, str] = {}
    for name, found in _leaves(form, where, (), (), False, False) if form.members else ():
        if isinstance(found, Leaf) and all(name):
            leaves[name] = found
        else:
            lost[".".join(name)] = found if isinstance(found, str) else "has an empty name"
    members = {name[:-1] for name, leaf in leaves.items() if not leaf.tells}
    above = {name[:end] for name in members for end in range(len(name) + 1)}
    return {n: leaf for n, leaf in leaves.items() if not leaf.tells or n[:-1] in above}, lost


def _leaves(
    form: Form, where: str, name: Name, steps: Steps, is_missing: bool, has_gaps: bool
) -> Iterator[tuple[Name, Leaf | str]]:
    """Yield the columns of what was seen at a place; values are missing, or gaps inside lists."""
    kinds = form.kinds.keys() - {Null}
    in_list = None in steps
    has_null = Null in form.kinds
    is_missing = is_missing or (has_null and not in_list)
    has_gaps = has_gaps or (has_null and in_list)
    if kinds == {dict}:
        if not form.members:
            yield name, "is an object without members"
        elif is_missing and name and not in_list:
            yield (*name, PRESENT), Leaf(steps, Kind(np.dtype(bool)), True, tells=True)
        for key, inner in form.members.items():
            yield from _leaves(inner, where, (*name, key), (*steps, key), is_missing, has_gaps)
    elif kinds == {list} and form.inner is not None:
        is_missing = is_missing or has_gaps  # of a list that lacks one only the mask tells it
        yield from _leaves(form.inner, where, name, (*steps, None), is_missing, False)
    else:
        dtype = _dtype_of(form, where, has_gaps)
        if isinstance(dtype, str):
            yield name, dtype
        else:
            is_lacking = has_gaps and dtype.kind in "bO"  # which statistics take for values
            is_empty = not (form.kinds if in_list else kinds)
            nature = NOTHING if is_empty else ""
            kind = Kind(dtype, (), steps.count(None), is_missing or is_lacking, nature)
            yield name, Leaf(steps, kind, has_gaps if in_list else is_missing)


def _dtype_of(form: Form, where: str, has_gaps: bool) -> np.dtype[Any] | str:
    """Return the dtype of values without parts, or why there is none."""
    kinds = form.kinds.keys() - {Null}
    if len(kinds) > 1 and kinds != {int, float}:
        found = [kind for kind in form.kinds if kind is not Null]
        number = next((kind for kind in found if kind in (int, float)), None)
        unlike = [kind for kind in found if kind is number or kind not in (int, float)][:2]
        told = " and ".join(f"{NAMES[kind]} in {where} {form.kinds[kind]}" for kind in unlike)
        return f"is {told}"
    if kinds == {int} and not has_gaps:
        for dtype in (np.dtype(np.int64), np.dtype(np.uint64)):
            if np.iinfo(dtype).min <= form.least and form.most <= np.iinfo(dtype).max:
                return dtype
        return "has integers of more than 64 bits"
    if kinds <= {int, float}:
        return "has integers that no float has exactly" if form.inexact else np.dtype(float)
    return np.dtype(bool if kinds == {bool} else object)


# --- columns of rows -----------------------------------------------------------------------------


class Misfit(ValueError):
    """A value in some row that is not what its field is."""

    def __init__(self, row: int, what: str) -> None:
        super().__init__(row, what)
        self.row, self.what = row, what


class Lists(NamedTuple):
    """Where lists begin among their values, and which there are."""

    offsets: np.ndarray
    present: np.ndarray | None


class Rows:
    """Rows that were parsed, and what was found in them at each place that was asked for."""

    def __init__(self, rows: list[dict[str, Any]], form: Form) -> None:
        self.rows = rows
        self.found: dict[Steps, list[Any]] = {(): rows}
        self.lists: dict[Steps, Lists] = {}
        self.form = form
        self.checked: set[Steps] = set()

    def column(self, leaf: Leaf) -> Column:
        """Return the values of a column, in lists if it has such."""
        if leaf.tells:
            return self._objects(leaf.steps)
        steps = leaf.steps
        column = self._plain(leaf)
        for end in range(len(steps), 0, -1):
            if steps[end - 1] is None:
                lists = self.lists[steps[:end]]
                if lists.present is not None and not self._may_lack(steps[: end - 1]):
                    raise self._misfit(steps[: end - 1], {list})
                column = Column(column, lists.present, lists.offsets)
        return tidy(column)

    def _objects(self, steps: Steps) -> Column:
        """Return where there is an object."""
        values = self.values(steps)
        if not set(map(type, values)) <= {dict, Null}:
            raise self._misfit(steps, {dict, Null})
        return Column(np.array([value is not None for value in values], bool), None)

    def _may_lack(self, steps: Steps) -> bool:
        """Whether values at a place, or objects that they are in, were seen to be missing."""
        form, lacks = self.form, False
        for step in steps:
            inner = form.inner if step is None else form.members[step]
            assert inner is not None  # there are columns of it
            form = inner
            lacks = Null in form.kinds or (lacks and step is not None)
        return lacks

    def values(self, steps: Steps) -> list[Any]:
        """Return all values at a place, None where there are none."""
        if steps not in self.found:
            above = self.values(steps[:-1])
            step = steps[-1]
            if step is None:
                self.found[steps] = self._in_lists(steps, above)
            else:
                self._check_members(steps[:-1], above)
                try:
                    self.found[steps] = [None if one is None else one.get(step) for one in above]
                except AttributeError:
                    raise self._misfit(steps[:-1], {dict, Null}) from None
        return self.found[steps]

    def _in_lists(self, steps: Steps, lists: list[Any]) -> list[Any]:
        if not set(map(type, lists)) <= {list, Null}:
            raise self._misfit(steps[:-1], {list, Null})
        present = None if None not in lists else np.array([one is not None for one in lists], bool)
        if present is not None:
            lists = [one or [] for one in lists]
        offsets = np.zeros(len(lists) + 1, np.intp)
        np.cumsum([len(one) for one in lists], out=offsets[1:])
        self.lists[steps] = Lists(offsets, present)
        return list(itertools.chain.from_iterable(lists))

    def _check_members(self, steps: Steps, objects: list[Any]) -> None:
        """Raise if objects have members that were never seen."""
        if steps in self.checked:
            return
        form = self.form
        for step in steps:
            inner = form.inner if step is None else form.members[step]
            assert inner is not None
            form = inner
        known = form.members.keys()
        try:
            if set().union(*(one for one in objects if one is not None)) <= known:
                self.checked.add(steps)
                return
        except TypeError:  # of another type, which is told by who takes the members
            return
        for place, one in enumerate(objects):
            new = next((key for key in one or () if key not in known), None)
            if new is not None and type(one) is dict:
                name = ".".join([*filter(None, steps), new])
                raise Misfit(self._row(steps, place), f"has a field {shortened(name)!r}")

    def _plain(self, leaf: Leaf) -> Column:
        """Return values without parts as an array."""
        values, dtype = self.values(leaf.steps), leaf.kind.dtype
        expected = {*TYPES[dtype.kind], Null} if leaf.may_miss else TYPES[dtype.kind]
        kinds = set(map(type, values))
        if not kinds <= expected:
            raise self._misfit(leaf.steps, expected)
        present = None
        if Null in kinds:
            present = np.array([value is not None for value in values], bool)
            nothing = missing_in(dtype)
            values = [nothing if value is None else value for value in values]
        found = np.empty(len(values), dtype)
        try:
            found[:] = values
        except OverflowError:
            raise self._out_of(leaf.steps, dtype) from None
        if dtype.kind == "f" and int in kinds and (abs(found) >= EXACT).any():
            integers = [value for value in values if type(value) is int]
            if not all(map(_is_exact, integers)):
                raise self._out_of(leaf.steps, dtype)
        return Column(found, present)

    # --- misfits ---------------------------------------------------------------------------

    def _misfit(self, steps: Steps, expected: set[type]) -> Misfit:
        """Return the error for the first value that is of another type."""
        values = self.found[steps]
        place = next(n for n, value in enumerate(values) if type(value) not in expected)
        return self._told(steps, place, NAMES[type(values[place])])

    def _out_of(self, steps: Steps, dtype: np.dtype[Any]) -> Misfit:
        """Return the error for the first integer that a dtype cannot hold."""
        integers = ((n, one) for n, one in enumerate(self.found[steps]) if type(one) is int)
        place, value = next((n, one) for n, one in integers if not _holds(dtype, one))
        return self._told(steps, place, f"{shortened(hex(value))}, which is no {dtype},")

    def _told(self, steps: Steps, place: int, what: str) -> Misfit:
        name = shortened(".".join(filter(None, steps)))
        where = "in a list " if None in steps else ""
        return Misfit(self._row(steps, place), f"has {what} {where}as field {name!r}")

    def _row(self, steps: Steps, place: int) -> int:
        """Return the row of a value, by its place among all values."""
        for end in range(len(steps), 0, -1):
            if steps[end - 1] is None:
                offsets = self.lists[steps[:end]].offsets
                place = int(offsets.searchsorted(place, side="right")) - 1
        return place


def _holds(dtype: np.dtype[Any], value: int) -> bool:
    if dtype.kind == "f":
        return _is_exact(value)
    return bool(np.iinfo(dtype).min <= value <= np.iinfo(dtype).max)
