"""Statistics of all groups in one pass over the data: which fields have them, and their values."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator, Mapping, Sequence
from numbers import Number
from typing import Any, NamedTuple, Self, TypeGuard

import numpy as np

from dataview.compute import (
    FloatErrors,
    evaluate,
    in_requests,
    makers_of,
    memory_of,
    quantile_dtype,
    result_dtype,
    run_in_windows,
    settle,
)
from dataview.errors import RaggedError, error_at, warnings_in
from dataview.index import parse
from dataview.index.progress import begin
from dataview.plan.build import field, record, select, stored
from dataview.plan.fields import computed_meta, meta_of_values, read_only_meta
from dataview.plan.gaps import holds_codes, masks_in, present_in, put_mask
from dataview.plan.kinds import Record, known_dtype, known_shape
from dataview.plan.node import DType, Node
from dataview.plan.operations import TEXTS, is_present
from dataview.plan.photographs import Photograph, PhotographSource
from dataview.plan.ragged import Ragged
from dataview.plan.statistics import STATISTICS
from dataview.samples import is_ragged
from dataview.tables.coding import told
from dataview.tables.groups.blocks import Block
from dataview.tables.groups.groupings import State, grouping_of, there_are
from dataview.tables.groups.keys import (
    WINDOW,
    Groups,
    Key,
    ToNumbers,
    blocks_of,
    columns_in,
    numbering,
    read,
    with_keys,
)
from dataview.tables.groups.quantiles import dtype_to_sort, group_quantiles
from dataview.tables.labels import label_dtype
from dataview.tables.unique import in_records

LOOKED_AT = 1000
"""So many objects of a field are looked at, whether they are numbers."""

ROWS_OF_EACH = 8
"""A block has so many rows for each group, as what is found in a block has a row for each, too."""

MANY = 1 << 16
"""Of more groups than these, what is found in fewer blocks waits until it is combined."""

Path = tuple[str, ...]


class Column(NamedTuple):
    """A field whose statistic is taken, and where there are data, if a mask tells.

    Of a field with a mask it is the statistic of what is present.
    """

    node: Node
    mask: Node | None
    kind: str
    dtype: DType

    @property
    def has_mask(self) -> bool:
        """Whether the statistic has a mask: for extremes of values of which none is NaN or NaT."""
        is_extreme = STATISTICS[self.kind].is_extreme and self.dtype.kind in "biuUS"
        return is_extreme and self.mask is not None


def columns_of(
    node: Node, kind: str, options: Mapping[str, Any], without: Sequence[str]
) -> tuple[dict[Path, Column], dict[Path, str]]:
    """Return the fields that have a statistic, and why others have none."""
    found, left = dict[Path, Column](), dict[Path, str]()
    for path, part, mask in _fields_of(node, (), without):
        why = _why_not(kind, part, node)
        if why is not None:
            left[path] = why
            continue
        own = kind if mask is None else STATISTICS[kind].of_present
        try:
            dtype = _dtype_of(own, part, mask, options)
        except TypeError:
            left[path] = f"holds {known_dtype(part)}"
            continue
        found[path] = Column(part, mask, own, dtype)
    if not found:
        raise _without_statistic(kind, left)
    return found, left


def _fields_of(
    node: Node, path: Path, without: Sequence[str] = ()
) -> Iterator[tuple[Path, Node, Node | None]]:
    """Yield the fields of a record and of records in it, with their masks, which are no fields."""
    if not node.fields.named:
        yield ("value",), node, present_in(node) if not isinstance(node, Ragged) else None
        return
    masks = masks_in(node.fields)
    for name in node.fields:
        if name in without or name in masks.values():
            continue
        part = field(node, name)
        if isinstance(part, Record):
            yield from _fields_of(part, (*path, name))
            continue
        own = field(node, masks[name]) if name in masks else present_in(part)
        yield (*path, name), part, own


def _why_not(kind: str, part: Node, whole: Node) -> str | None:
    """Return why there is no statistic of a field, None if its dtype has one."""
    if is_ragged(part):
        return "has rows that differ in length"
    if part.count != whole.count:
        return "does not follow the rows"
    if holds_codes(part):
        return "holds codes of labels"
    dtype, what = known_dtype(part), STATISTICS[kind]
    if dtype.kind == "V" or (dtype.kind in TEXTS and not what.is_extreme):
        return f"holds {dtype}"
    if dtype.kind == "O" and not what.is_extreme and (what.is_place or not _are_numbers(part)):
        return "holds objects that are no numbers"
    return None


def _are_numbers(part: Node) -> bool:
    """Whether the first objects of a field are numbers, or durations: none is missing, or some."""
    rows = evaluate(select(part, parse(slice(LOOKED_AT), known_shape(part))))
    values = rows[is_present(rows)].tolist()
    return bool(values or not len(rows)) and all(map(_is_number, values))


def _is_number(value: Any) -> bool:
    return isinstance(value, (Number, datetime.timedelta, np.ndarray))


def _dtype_of(kind: str, part: Node, mask: Node | None, options: Mapping[str, Any]) -> DType:
    """Return the dtype of a statistic of a field, that of all rows."""
    own, what = known_dtype(part), STATISTICS[kind]
    if what.is_quantile:
        own = dtype_to_sort(own, what.plain == "median", mask is not None)
        return quantile_dtype((9,), (0,), own, options)
    if own.kind in "US" and what.is_extreme:
        return own
    if what.family == "truth":
        return np.dtype(bool)
    return in_records(result_dtype(kind, own))


def _without_statistic(kind: str, left: Mapping[Path, str]) -> Exception:
    told = ", ".join(f"field {'.'.join(path)!r} {why}" for path, why in left.items())
    error = RaggedError if any("length" in why for why in left.values()) else TypeError
    return error(
        f"no field has a {kind} of groups: {told or 'all are keys'}; _astype makes other values, "
        "_pad(value) fills rows up, and _counts() tells how many rows each group has"
    )


# --- the values --------------------------------------------------------------------------------


def statistics_of(
    keys: Sequence[Key],
    groups: Groups,
    columns: Mapping[Path, Column],
    kind: str,
    options: Mapping[str, Any],
) -> tuple[dict[Path, Node], dict[Path, Node]]:
    """Return a statistic of each field, and the masks, as columns for `table_of`."""
    photograph = Statistics(keys, groups, columns, kind, dict(options))
    whole = PhotographSource(photograph, (0,), photograph.dtype)
    found, masks = dict[Path, Node](), dict[Path, Node]()
    for number, (path, column) in enumerate(columns.items()):
        node = stored(whole.member(str(number)), False)
        found[path] = node if STATISTICS[kind].is_quantile else _as_rows_of(column, node)
        if column.has_mask:
            masks[path] = stored(whole.member(_mask(str(number))), False)
    return found, masks


def label_columns(keys: Sequence[Key], groups: Groups) -> dict[str, Node]:
    """Return the labels of each key, as columns for `table_of`."""
    found: dict[str, Node] = {}
    for number, key in enumerate(keys):
        own = in_records(label_dtype(key.node))
        node = stored(PhotographSource(groups, (0,), own, str(number)), False)
        node = node.replaced(meta=meta_of_values(key.node.meta))
        is_known = not groups.gaps or own.kind in "fcmMO"  # a gap among others is None
        found[key.name] = node if is_known else node.replaced(dtype=None)
    return found


def _mask(name: str) -> str:
    return f"mask {name}"


def _as_rows_of(column: Column, node: Node) -> Node:
    """Return a statistic with what it has of its field: the windows, and the space."""
    windows = column.node.fields.windows_only(0, lambda axis: axis > 0)
    meta = computed_meta(column.node.meta, column.dtype)
    if STATISTICS[column.kind].is_extreme:
        meta = read_only_meta({**meta, **meta_of_values(column.node.meta)})
    return node.replaced(fields=windows.computed(column.dtype), meta=meta)


def nested(
    parts: Mapping[Path, Node], masks: Mapping[Path, Node], before: Mapping[str, Node]
) -> dict[str, Node]:
    """Return nodes by their names, behind others: records of those that are inside others."""
    found: dict[str, Any] = dict(before)
    for path in parts:
        name = path[0]
        if len(path) == 1:
            found[name] = parts[path]
        elif name not in found:
            inner, gaps = (
                {other[1:]: node for other, node in nodes.items() if other[0] == name}
                for nodes in (parts, masks)
            )
            found[name] = record(nested(inner, gaps, {}), 1)
    for path, mask in masks.items():
        if len(path) == 1:
            put_mask(found, path[0], mask)
    return found


class Statistics(Photograph):
    """One statistic of every field, a row for each group.

    All are found in one pass, but the first field that is asked for by itself is found alone: most
    often no other one is needed.
    """

    __slots__ = ("alone", "dtype", "groups", "kind", "kinds", "options", "titles")
    parts = ("node", "groups")
    about = "statistics of groups"
    is_shown = True
    is_of_values = True

    def __init__(
        self,
        keys: Sequence[Key],
        groups: Groups,
        named: Mapping[Path, Column],
        kind: str,
        options: dict[str, Any],
    ) -> None:
        columns = list(named.values())
        several = np.shape(options["q"]) if "q" in options else ()
        fields = [
            (str(n), column.dtype, (*several, *known_shape(column.node)[1:]))
            for n, column in enumerate(columns)
        ]
        parts = {str(n): column.node for n, column in enumerate(columns)}
        masks = {_mask(str(n)): c.mask for n, c in enumerate(columns) if c.mask is not None}
        super().__init__(with_keys(keys, {**parts, **masks}))
        told = [(_mask(str(n)), bool) for n, column in enumerate(columns) if column.has_mask]
        self.dtype = np.dtype([*fields, *told])
        self.groups, self.kind, self.options = groups, kind, options
        self.alone: np.ndarray | None = None
        self.kinds = {str(n): column.kind for n, column in enumerate(columns)}
        self.titles = {
            str(n): f"{kind} of groups, field {'.'.join(path)!r}" for n, path in enumerate(named)
        }

    def replaced(self, **changes: Any) -> Self:
        """Return a copy with some slots changed, of which nothing is found yet."""
        return super().replaced(alone=None, **changes)

    def column(self, name: str) -> np.ndarray:
        """Return the statistic of a field, or its mask."""
        node = None if self.alone is not None else self.read_for({name})
        if node is not None:
            self.find_in(node)
        found: np.ndarray = (self.alone if _has(self.alone, name) else self.array())[name]
        return found

    def read_for(self, columns: Collection[str | None]) -> Node | None:
        """Return the keys and the fields that are read for some columns, None if these are there.

        After a first time all other fields are read.
        """
        node, alone = self.node, self.alone
        if self.is_decided or node is None or all(map(self.has_column, columns)):
            return None
        names = {name.removeprefix(_mask("")) for name in columns if name is not None}
        read = {one for name in names for one in self._made_with(node, name)}
        others = {*self.kinds} - read if alone is None else {*self.kinds} - {*self._left()}
        return _without(node, others)

    def find_in(self, copy: Node) -> None:
        """Find the statistics of all fields that are there; those of other fields are left."""
        names = [name for name in self._left() if name in copy.fields]
        if len(names) == len(self._left()):
            super().find_in(copy)
        elif not self.is_decided and names:
            with begin(self.about, None):
                self.alone = self._found(copy, names)

    def has_column(self, name: str | None) -> bool:
        """Whether the statistic of a field is there."""
        return self.is_decided or (name is not None and _has(self.alone, name))

    def _left(self) -> list[str]:
        """Return the fields that were not found alone."""
        return [name for name in self.kinds if not _has(self.alone, name)]

    def _made_with(self, node: Node, name: str) -> list[str]:
        """Return a field, and those for which no function is called but those that make it."""
        own = makers_of(field(node, name))
        makers = {other: makers_of(field(node, other)) for other in self.kinds}
        return [one for one, made in makers.items() if one == name or (made and made <= own)]

    def find(self, node: Node) -> np.ndarray:
        """Find the statistics of all fields."""
        alone = self.alone
        rest = self._found(node, self._left())
        found = np.empty(len(rest), self.dtype)
        for name in self.dtype.names or ():
            found[name] = (alone if _has(alone, name) else rest)[name]
        return found

    def _found(self, node: Node, names: Sequence[str]) -> np.ndarray:
        """Read some fields: once, and for quantiles of large data as often as memory needs it."""
        others = self.kinds.keys() - {*names}
        node = _without(node, others)
        others |= {_mask(name) for name in others}
        settle(node)
        groups = self.groups.found()
        number, table = numbering(node, groups), groups.table
        dtypes = [(name, self.dtype[name]) for name in self.dtype.names or ()]
        found = np.empty(len(table), [own for own in dtypes if own[0] not in others])
        if STATISTICS[self.kind].is_quantile:
            group_quantiles(node, number, self.options, self.titles, found)
            return found
        states = self._states(node, names, number, table) if len(found) else {}
        errors = FloatErrors()
        for name, state in states.items():
            kind, own = self.kinds[name], known_dtype(field(node, name))
            if STATISTICS[kind].is_place:
                self._check_values(name, np.all(state[0] > 0, axis=1), table)
            title = self.titles[name]
            with errors.noting_in(title), warnings_in(title):
                value = np.asarray(grouping_of(kind, own).finish(state, self.options))
                found[name] = value.reshape(found[name].shape)
            if _mask(name) in (found.dtype.names or ()):
                found[_mask(name)] = there_are(state)
        errors.report()
        return found

    def _check_values(self, name: str, there: np.ndarray, table: np.ndarray) -> None:
        """Raise if a group has no extreme whose place it could tell."""
        if not there.all():
            labels = ", ".join(map(told, table[~there][0]))
            raise ValueError(
                f"{self.titles[name]}: All-NaN slice encountered in the group {labels}; "
                "group the rows that _dropna() leaves"
            )

    def _states(
        self, node: Node, names: Sequence[str], number: ToNumbers, table: np.ndarray
    ) -> dict[str, State]:
        """Return what the rows of each group contribute to the statistic of some fields."""
        parts = {name: field(node, name) for name in names}
        kinds = {
            name: grouping_of(self.kinds[name], known_dtype(part)) for name, part in parts.items()
        }
        masks = {name: field(node, _mask(name)) for name in parts if _mask(name) in node.fields}
        count = len(table)

        def grouped(rows: slice) -> tuple[np.ndarray, dict[str, State]]:
            codes, are_whole = number(rows)
            block = Block(codes, count, rows.start or 0, are_whole)
            with np.errstate(all="ignore"):
                states = {name: contributed(name, block, rows) for name in parts}
            return block.sizes, states  # counted with sums, while the codes are in the cache

        def contributed(name: str, block: Block, rows: slice) -> State:
            values = _values(parts[name], masks.get(name), rows)
            try:
                return kinds[name].part(block, values)
            except Exception as error:  # of objects, which may be anything
                raise error_at(error, self.titles[name]) from error

        sizes, totals = np.zeros(count, np.int64), dict[str, State]()
        blocks = blocks_of(node, ROWS_OF_EACH * count)
        window = max(2, WINDOW * MANY // max(MANY, count))
        work = in_requests(columns_in(node), grouped)
        for some, states in run_in_windows(work, blocks, window, "groups", self._is_addition(node)):
            sizes += some
            with np.errstate(all="ignore"):
                totals = (
                    {n: kind.combine(totals[n], states[n]) for n, kind in kinds.items()}
                    if totals
                    else states
                )
        _check_rows(sizes, table)
        return totals

    def _is_addition(self, node: Node) -> bool:
        """Whether nothing but to add is left to do, at which NumPy holds Python's lock."""
        in_memory = [memory_of(column) for column in columns_in(node)]
        return {*self.kinds.values()} <= {"sum", "mean"} and all(
            memory is not None and memory.dtype in (np.int64, np.float64) for memory in in_memory
        )


def _without(node: Node, names: Collection[str]) -> Node:
    """Return the record without some fields, and their masks."""
    left = {*names, *map(_mask, names)}
    return record({name: field(node, name) for name in node.fields if name not in left}, 1)


def _has(found: np.ndarray | None, name: str) -> TypeGuard[np.ndarray]:
    return found is not None and name in (found.dtype.names or ())


def _values(part: Node, mask: Node | None, rows: slice) -> np.ndarray:
    """Return values of some rows, with their masks as pairs if there are any."""
    values = read(part, rows)
    if mask is None:
        return values
    there = read(mask, rows).reshape(-1, *[1] * (values.ndim - 1))
    found = np.empty(values.shape, [("value", in_records(values.dtype)), ("mask", bool)])
    found["value"], found["mask"] = values, there
    return found


def _check_rows(sizes: np.ndarray, table: np.ndarray) -> None:
    """Raise if a group has no rows left: other labels were written since the groups were made."""
    if not sizes.all():
        gone = table[sizes == 0][0]
        raise ValueError(
            f"no row is in the group {gone.item()} any more; make the groups anew with _group"
        )
