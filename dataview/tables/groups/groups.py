"""Rows grouped by their labels: the rows of each group, and statistics of all groups in one pass.

A statistic of groups is a table with a row for each group.  It is a photograph: of the data as they
were when it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import MEDIAN, run_in_windows
from dataview.errors import StreamError, chained, explained
from dataview.index import Array, axis_index
from dataview.plan.build import record, select, stored
from dataview.plan.fields import Fields, read_only_meta
from dataview.plan.gaps import NO_LABEL
from dataview.plan.guards import check_ends, quantile_levels
from dataview.plan.kinds import known_shape
from dataview.plan.node import Node
from dataview.plan.operations import is_present
from dataview.plan.photographs import Photograph, PhotographSource
from dataview.plan.values import is_time_of_day
from dataview.samples import Stream, collected
from dataview.tables.coding import as_list, by_code
from dataview.tables.comparing import dated
from dataview.tables.given_keys import ToNode
from dataview.tables.groups.keys import (
    WINDOW,
    Counts,
    Groups,
    Key,
    blocks_of,
    held,
    keys_of,
    numbering,
    rows_of_each,
    with_keys,
)
from dataview.tables.groups.statistics import (
    columns_of,
    label_columns,
    nested,
    statistics_of,
)
from dataview.tables.unique import table_of

COUNT = "count"
"""The field that says how many rows a group has."""

LEFT_OUT = "left_out"
"""The metadata of a statistic under this name are the fields that have none."""


class Grouped:
    """The rows of each label, and statistics of all groups: `d._group(by="label")`.

    Nothing is read before a group or their number is asked for. Of a statistic, the labels are read
    when its length is needed, and the other fields when its values are.

    >>> import dataview as dv
    >>> groups = dv.View(x=[1.0, 2.0, 4.0], label=["b", "a", "b"])._group(by="label")
    >>> [(label, group.x().tolist()) for label, group in groups]
    [('a', [2.0]), ('b', [1.0, 4.0])]
    >>> groups._mean().x(), groups["b"].x()
    (array([2. , 2.5]), array([1., 4.]))
    """

    def __init__(
        self, node: Node, by: Any, dropna: bool, to_node: ToNode, to_view: Callable[[Node], Any]
    ) -> None:
        check_ends(node, "_group")
        self._node, self._by, self._to_view, self._gaps = node, by, to_view, not dropna
        self._made: _Made | None = None
        if isinstance(node, Stream):
            self._names = _names_in(by)
            for name in self._names:
                to_node(name)  # raises if there is none
        else:
            self._made = _made(node, keys_of(node, by, to_node), self._gaps)
            self._names = [key.name for key in self._made.keys]

    @property
    def _rows(self) -> _Made:
        """The rows, their keys and groups; a stream is read and kept in a file for it."""
        if self._made is None:
            node = collected(self._node)
            keys = keys_of(node, self._by, lambda name: node.fields.named[name].node)  # type: ignore[union-attr]
            self._made = _made(node, keys, self._gaps)
        return self._made

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self._names))
        count = "a stream" if self._made is None else f"{known_shape(self._node)[0]} rows"
        return f"Groups by {names} of {count}"

    def __getattr__(self, name: str) -> Any:
        """Raise, saying what was meant."""
        node = self.__dict__.get("_node")
        if node is None or name.startswith("__"):
            raise AttributeError(f"groups have no attribute {name!r}")
        raise AttributeError(f"groups have no {name!r}; {_advice(name, node)}")

    def __len__(self) -> int:
        return len(self._rows.groups.array())

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        _, _, groups, counts, order = self._rows
        start, _ = 0, order.array()  # which finds the others with it
        for value, count in zip(_labels_in(groups.array()), counts.array().tolist(), strict=True):
            yield value, self._part(start, start + count)
            start += count

    def __getitem__(self, label: Any) -> Any:
        _, keys, groups, of_groups, order = self._rows
        order.array()  # which finds the others with it
        counts, table = of_groups.array(), groups.array()
        there = np.ones(len(table), bool)
        kinds, several = _types_in(table), len(self._names) > 1
        wanted = label if isinstance(label, tuple) and (several or tuple not in kinds) else (label,)
        if len(wanted) != len(self._names) or any(
            type(one) not in kinds and np.ndim(one) for one in wanted
        ):
            raise KeyError(
                f"a group has a label for each of {self._names}; got {label!r}; "
                "d._group(by=[...]) takes several keys"
            )
        for number, given in enumerate(wanted):
            column, own = table[str(number)], np.empty(1, object)
            are_times = is_time_of_day(keys[number].node.meta)
            value = own[0] = dated(given, column.dtype.kind, are_times)
            if not is_present(own)[0]:
                there &= ~is_present(column)
            else:  # a list is one label, and no array of several
                there &= column == (own if isinstance(value, (tuple, list)) else value)
        if np.count_nonzero(there) != 1:
            known = (", ".join(map(repr, _labels_in(table[:8]))) or "none") + (
                ", ..." if len(table) > 8 else ""
            )
            names = ", ".join(map(repr, self._names))
            is_field = isinstance(label, str) and label in self._node.fields
            raise KeyError(
                f"there is no group {label!r} of {names}; there are {known}"
                + (f"; {_advice(label, self._node)}" if is_field else "")
            )
        place = int(np.argmax(there))
        start = int(counts[:place].sum())
        return self._part(start, start + int(counts[place]))

    def _part(self, start: int, stop: int) -> Any:
        node, order = self._rows.node, self._rows.order.array()[start:stop]
        index = axis_index(known_shape(node), Array(order, (0,)), len(order))
        return self._to_view(select(node, index, "rows"))

    def _counts(self) -> Any:
        """Return a record of each label and how many rows it has."""
        if COUNT in self._names:
            raise ValueError(
                f"the field {COUNT!r} of the result would stand for the key and for how many rows "
                f"it has; choose another name for the key with _rename({COUNT}=...)"
            )
        _, keys, groups, found, _ = self._rows
        counts = stored(PhotographSource(found, (0,), np.dtype(np.int64)), False)
        columns = {**label_columns(keys, groups), COUNT: counts}
        return self._to_view(table_of(groups, record(columns, 1), found))

    # --- statistics ------------------------------------------------------------------------

    def _sum(self) -> Any:
        """Return a record of each label and the sums over its rows."""
        return self._statistic("sum")

    def _prod(self) -> Any:
        """Return a record of each label and the products over its rows."""
        return self._statistic("prod")

    def _mean(self) -> Any:
        """Return a record of each label and the means over its rows."""
        return self._statistic("mean")

    def _var(self, *, ddof: int = 0) -> Any:
        """Return a record of each label and the variances over its rows."""
        return self._statistic("var", ddof=ddof)

    def _std(self, *, ddof: int = 0) -> Any:
        """Return a record of each label and the standard deviations over its rows."""
        return self._statistic("std", ddof=ddof)

    def _min(self) -> Any:
        """Return a record of each label and the smallest elements of its rows."""
        return self._statistic("min")

    def _max(self) -> Any:
        """Return a record of each label and the greatest elements of its rows."""
        return self._statistic("max")

    def _argmin(self) -> Any:
        """Return a record of each label and the numbers of the rows with its smallest elements."""
        return self._statistic("argmin")

    def _argmax(self) -> Any:
        """Return a record of each label and the numbers of the rows with its greatest elements."""
        return self._statistic("argmax")

    def _any(self) -> Any:
        """Return a record of each label and whether any element of its rows is true."""
        return self._statistic("any")

    def _all(self) -> Any:
        """Return a record of each label and whether all elements of its rows are true."""
        return self._statistic("all")

    def _median(self) -> Any:
        """Return a record of each label and the medians over its rows."""
        return self._statistic("median", q=0.5, method=MEDIAN)

    def _quantile(self, q: Any, *, method: str = "linear") -> Any:
        """Return a record of each label and the quantiles over its rows; `q` is one or an array."""
        return self._statistic("quantile", q=quantile_levels(q), method=method)

    def _nansum(self) -> Any:
        """Return a record of each label and the sums of what is not missing."""
        return self._statistic("nansum")

    def _nanprod(self) -> Any:
        """Return a record of each label and the products of what is not missing."""
        return self._statistic("nanprod")

    def _nanmean(self) -> Any:
        """Return a record of each label and the means of what is not missing."""
        return self._statistic("nanmean")

    def _nanvar(self, *, ddof: int = 0) -> Any:
        """Return a record of each label and the variances of what is not missing."""
        return self._statistic("nanvar", ddof=ddof)

    def _nanstd(self, *, ddof: int = 0) -> Any:
        """Return a record of each label and the standard deviations of what is not missing."""
        return self._statistic("nanstd", ddof=ddof)

    def _nanmin(self) -> Any:
        """Return a record of each label and the smallest elements that are not missing."""
        return self._statistic("nanmin")

    def _nanmax(self) -> Any:
        """Return a record of each label and the greatest elements that are not missing."""
        return self._statistic("nanmax")

    def _nanargmin(self) -> Any:
        """Return a record of each label and the rows with its smallest elements but NaN."""
        return self._statistic("nanargmin")

    def _nanargmax(self) -> Any:
        """Return a record of each label and the rows with its greatest elements but NaN."""
        return self._statistic("nanargmax")

    def _nanmedian(self) -> Any:
        """Return a record of each label and the medians of what is not missing."""
        return self._statistic("nanmedian", q=0.5, method=MEDIAN, without_missing=True)

    def _nanquantile(self, q: Any, *, method: str = "linear") -> Any:
        """Return a record of each label and the quantiles of what is not missing."""
        q = quantile_levels(q)
        return self._statistic("nanquantile", q=q, method=method, without_missing=True)

    def _statistic(self, kind: str, **options: Any) -> Any:
        node, keys, groups, *_ = self._rows
        columns, left = columns_of(node, kind, options, self._names)
        found, masks = statistics_of(keys, groups, columns, kind, options)
        whole = record(nested(found, masks, label_columns(keys, groups)), 1)
        if left:
            names = {".".join(path): why for path, why in left.items()}
            told = {name: f"has no {kind} of groups, since it {why}" for name, why in names.items()}
            whole = whole.replaced(
                fields=Fields(whole.fields.named, told),
                meta=read_only_meta({LEFT_OUT: ", ".join(names)}),
            )
        return self._to_view(table_of(groups, whole))


class _Made(NamedTuple):
    """The rows of groups, their keys, which groups there are, how large, and their rows' order."""

    node: Node
    keys: Sequence[Key]
    groups: Groups
    counts: Counts
    order: _Order


def _made(node: Node, keys: Sequence[Key], gaps: bool) -> _Made:
    groups = Groups(keys, gaps)
    counts = Counts(keys, groups)
    return _Made(node, keys, groups, counts, _Order(keys, groups, counts))


def _names_in(by: Any) -> list[str]:
    """Return the names of fields that a stream is grouped by."""
    names = [by] if isinstance(by, str) else list(by) if isinstance(by, (list, tuple)) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise StreamError("a stream is read once, so it is grouped by the names of its fields")
    return names


def _labels_in(table: np.ndarray) -> list[Any]:
    """Return the label of each group, a tuple if there are several keys."""
    columns = [table[name] for name in table.dtype.names or ()]
    lists = [as_list(one) for one in columns]
    return lists[0] if len(lists) == 1 else list(zip(*lists, strict=True))


def _types_in(table: np.ndarray) -> set[type]:
    """Return the types of the objects among the labels."""
    columns = [table[name] for name in table.dtype.names or ()]
    return {type(label) for one in columns if one.dtype.hasobject for label in one.tolist()}


def _advice(name: str, node: Node) -> str:
    """Return what to write for a name that groups have not."""
    verbs = _verbs_of(Grouped)
    if name in node.fields:
        return f"write groups._mean(){chained([name])}"
    if name.lstrip("_") in _INSTEAD:
        return f"write {_INSTEAD[name.lstrip('_')]}"
    if f"_{name}" in verbs:
        return f"did you mean ._{name}()?"
    listing = ", ".join(verbs)
    return f"their verbs are {listing}; `for label, rows in groups` has the rows of each"


def _verbs_of(kind: type) -> list[str]:
    own = ("_part", "_statistic")
    names = [name for name, verb in vars(kind).items() if name[0] == "_" and callable(verb)]
    return [name for name in names if name[1] != "_" and name not in own]


_INSTEAD = {
    "agg": "a statistic each, as groups._mean() and groups._max()",
    "aggregate": "a statistic each, as groups._mean() and groups._max()",
    "apply": "[function(rows) for label, rows in groups]",
    "count": "groups._counts()",
    "first": "d._drop_duplicates(by=name), the first row of each",
    "get_group": "groups[label]",
    "groups": "[label for label, rows in groups]",
    "head": "[rows._head(n) for label, rows in groups]",
    "indices": "[label for label, rows in groups]",
    "keys": "[label for label, rows in groups]",
    "len": "len(groups)",
    "ngroups": "len(groups)",
    "size": "groups._counts()",
    "value_counts": "groups._counts()",
}
"""What to write for names that groups have elsewhere."""

_USAGE = (
    "groups._mean() for all fields, groups._mean().x for one of them, and d[mask]._group(by=...) "
    "for groups of some rows"
)
_SHARES = "counts = groups._counts(), and counts.count / counts.count._sum() for shares"

for _name in _verbs_of(Grouped):
    _usage = _SHARES if _name == "_counts" else _USAGE
    setattr(Grouped, _name, explained(_usage)(getattr(Grouped, _name)))


class _Order(Photograph):
    """The numbers of the rows, those of each group together, in the order of the groups."""

    __slots__ = ("counts", "groups")
    parts = ("node", "groups", "counts")
    about = "groups"

    def __init__(self, keys: Sequence[Key], groups: Groups, counts: Counts) -> None:
        super().__init__(with_keys(keys, {}))
        self.groups = groups
        self.counts = counts

    def find(self, node: Node) -> np.ndarray:
        """Sort the rows by their groups, which are found with it if they are not known yet.

        So the labels that functions make are read once.
        """
        node = held(node)
        if not self.groups.is_decided:
            self.groups.keep(self.groups.find(node))
        groups = self.groups.found()
        number = numbering(node, groups)
        found = run_in_windows(number, blocks_of(node), WINDOW, "groups")
        codes = np.concatenate([numbers.codes for numbers in found])
        if not self.counts.is_decided:
            self.counts.keep(rows_of_each(codes, len(groups.table)))
        rows = by_code(codes, len(groups.table))
        return rows[np.count_nonzero(codes == NO_LABEL) :]
