"""Rows grouped by their labels: the rows of each group, and statistics of all groups in one pass.

A statistic of groups is a table with a row for each label.  It is a photograph: of the data as they
were when it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dataview.compute import (
    FloatErrors,
    evaluate,
    result_dtype,
    run_in_windows,
    settle,
)
from dataview.errors import RaggedError
from dataview.index import Array, axis_index, parse
from dataview.index.sizes import sizes
from dataview.plan.build import field, record, select
from dataview.plan.guards import check_ends
from dataview.plan.kinds import known_dtype, known_shape, size_of
from dataview.plan.node import DType, Node
from dataview.plan.photographs import Photograph
from dataview.plan.ragged import Ragged
from dataview.samples import warn_of_gaps
from dataview.tables.coding import MISSING, coder, narrowed
from dataview.tables.groupings import Block, State, grouping_of
from dataview.tables.unique import (
    Distinct,
    Table,
    Values,
    count_values,
    in_records,
    possible_labels,
)

WINDOW = 32
"""How many blocks are grouped before they are combined, which bounds the memory of a pass."""


class Grouped:
    """The rows of each label, and statistics of all groups: `d._group(by="label")`.

    Nothing is read before a group, their number or the value of a statistic is needed.

    >>> import dataview as dv
    >>> groups = dv.View(x=[1.0, 2.0, 4.0], label=["b", "a", "b"])._group(by="label")
    >>> [(label, group.x().tolist()) for label, group in groups]
    [('a', [2.0]), ('b', [1.0, 4.0])]
    >>> groups._mean().x(), groups["b"].x()
    (array([2. , 2.5]), array([1., 4.]))
    """

    def __init__(self, node: Node, by: Node, name: str, to_view: Callable[[Node], Any]) -> None:
        check_ends(node, "_group")
        rows, labels = known_shape(node), known_shape(by)
        if len(labels) != 1 or not rows or rows[0] != labels[0]:
            raise ValueError(
                f"rows are grouped by one label each: there are {rows[:1]} rows, and labels of "
                f"shape {labels}"
            )
        self._node, self._by, self._name, self._to_view = node, by, name, to_view
        self._labels = Values(by, True, True)
        self._order = _Order(by)

    def __repr__(self) -> str:
        return f"Groups by {self._name!r} of {known_shape(self._node)[0]} rows"

    def __getattr__(self, name: str) -> Any:
        """Raise, saying what was meant."""
        node = self.__dict__.get("_node")
        if node is None or name.startswith("__"):
            raise AttributeError(f"groups have no attribute {name!r}")
        verbs = [
            verb for verb in vars(Grouped) if verb.startswith("_") and not verb.startswith("__")
        ]
        raise AttributeError(f"groups have no {name!r}; {_advice(name, node, verbs)}")

    def __len__(self) -> int:
        return len(self._labels.array())

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        start = 0
        found = self._labels.array()
        labels = found["value"]
        for value, count in zip(
            labels if labels.dtype.kind in "mM" else labels.tolist(),
            found["count"].tolist(),
            strict=True,
        ):
            yield value, self._rows(start, start + count)
            start += count

    def __getitem__(self, label: Any) -> Any:
        found = self._labels.array()
        (places,) = np.nonzero(found["value"] == label)
        if len(places) != 1:
            known = ", ".join(map(repr, found["value"][:8].tolist()))
            raise KeyError(f"there is no group {label!r} of {self._name!r}; there are {known} ...")
        start = int(found["count"][: places[0]].sum())
        return self._rows(start, start + int(found["count"][places[0]]))

    def _rows(self, start: int, stop: int) -> Any:
        rows = self._order.array()[start:stop]
        index = axis_index(known_shape(self._node), Array(rows, (0,)), len(rows))
        return self._to_view(select(self._node, index, "rows"))

    def _counts(self) -> Any:
        """Return a record of each label and how many rows it has."""
        return self._to_view(Distinct(Values(self._by, True, True)))

    def _sum(self) -> Any:
        """Return a record of each label and the sums over its rows."""
        return self._statistic("sum")

    def _mean(self) -> Any:
        """Return a record of each label and the means over its rows."""
        return self._statistic("mean")

    def _var(self, *, ddof: int = 0) -> Any:
        """Return a record of each label and the variances over its rows."""
        return self._statistic("var", ddof)

    def _std(self, *, ddof: int = 0) -> Any:
        """Return a record of each label and the standard deviations over its rows."""
        return self._statistic("std", ddof)

    def _min(self) -> Any:
        """Return a record of each label and the smallest elements of its rows."""
        return self._statistic("min")

    def _max(self) -> Any:
        """Return a record of each label and the greatest elements of its rows."""
        return self._statistic("max")

    def _statistic(self, kind: str, ddof: int = 0) -> Any:
        node, name = self._node, self._name
        parts = {other: field(node, other) for other in node.fields if other != name}
        parts = parts or {"value": node}
        for other, part in parts.items():
            if isinstance(part, Ragged):
                raise RaggedError(
                    f"{kind} of groups: the rows of field {other!r} differ in length; choose other "
                    "fields with _select(...) before _group, or fill them up with _pad(value)"
                )
        refused = {other: part for other, part in parts.items() if not _has(kind, part)}
        if refused:
            others = [other for other in node.fields if other not in refused]
            raise _without_statistic(kind, refused, others)
        for part in parts.values():
            warn_of_gaps(part)
        return self._to_view(Distinct(_Statistics(self._by, name, parts, kind, ddof)))


def _advice(name: str, node: Node, verbs: list[str]) -> str:
    """Return what to write for a name that groups have not."""
    if name in node.fields:
        return f"a statistic has it, groups._mean()[{name!r}], and so have the rows of a label"
    if f"_{name}" in verbs:
        return f"did you mean ._{name}()?"
    listing = ", ".join(verb for verb in verbs if verb not in ("_rows", "_statistic"))
    return f"their verbs are {listing}; `for label, rows in groups` has the rows of each"


def _dtype_of(kind: str, part: Node) -> DType:
    """Return the dtype of a statistic of a field, that of all rows."""
    return in_records(result_dtype(kind, known_dtype(part)))


def _has(kind: str, part: Node) -> bool:
    """Whether there is a statistic of a field, as far as its dtype tells."""
    try:
        result_dtype(kind, known_dtype(part))
    except TypeError:
        return False
    return known_dtype(part).kind != "V"


def _without_statistic(kind: str, refused: dict[str, Node], others: list[str]) -> TypeError:
    told = ", ".join(f"field {name!r} holds {known_dtype(part)}" for name, part in refused.items())
    names = ", ".join(map(repr, others)) or "..."
    return TypeError(
        f"{kind} of groups: {told}; choose other fields with _select({names}) before _group"
    )


class _Order(Photograph):
    """The numbers of the rows, those of each label together, in the order of the labels."""

    __slots__ = ()
    about = "groups"

    def find(self, node: Node) -> np.ndarray:
        """Sort the rows by label."""
        labels, _ = count_values(node, True)
        codes = coder(labels)(evaluate(node))
        rows = np.argsort(narrowed(codes, len(labels)), kind="stable")
        return rows[np.count_nonzero(codes == MISSING) :]


class _Statistics(Table):
    """One statistic of every field, a row for each label."""

    __slots__ = ("by", "ddof", "kind")
    about = "statistics of groups"

    def __init__(self, by: Node, name: str, parts: dict[str, Node], kind: str, ddof: int) -> None:
        fields = [(name, in_records(known_dtype(by)))]
        for other, part in parts.items():
            fields.append((other, _dtype_of(kind, part), known_shape(part)[1:]))  # type: ignore[arg-type]
        super().__init__(record({name: by, **parts}, 1), np.dtype(fields))
        self.by = name
        self.kind = kind
        self.ddof = ddof

    def find(self, node: Node) -> np.ndarray:
        """Read the labels, then all fields once."""
        labels = possible_labels(field(node, self.by))
        counts, states = self._states(node, labels)
        there = counts > 0
        found = np.empty(np.count_nonzero(there), self.dtype)
        found[self.by] = labels[there]
        errors = FloatErrors()
        for name, state in states.items():
            own = tuple(part[there] for part in state)
            with errors.noting_in(self.kind):
                grouping = grouping_of(self.kind, known_dtype(field(node, name)))
                value = np.asarray(grouping.finish(own, {"ddof": self.ddof}))
                found[name] = value.reshape(found[name].shape)
        errors.report()
        return found

    def _states(self, node: Node, labels: np.ndarray) -> tuple[np.ndarray, dict[str, State]]:
        """Return how many rows each label has, and of each field what they contribute."""
        settle(node)
        code = coder(labels)
        parts = {name: field(node, name) for name in node.fields if name != self.by}
        kinds = {name: grouping_of(self.kind, known_dtype(part)) for name, part in parts.items()}

        def grouped(rows: slice) -> tuple[np.ndarray, dict[str, State]]:
            block = Block(code(_rows(field(node, self.by), rows)), len(labels))
            with np.errstate(all="ignore"):
                states = {
                    name: kind.part(block, _rows(parts[name], rows)) for name, kind in kinds.items()
                }
            return block.sizes, states

        counts, totals = np.zeros(len(labels), np.int64), dict[str, State]()
        for some, states in run_in_windows(grouped, _blocks(node), WINDOW, "groups"):
            counts += some
            with np.errstate(all="ignore"):
                totals = (
                    {n: kind.combine(totals[n], states[n]) for n, kind in kinds.items()}
                    if totals
                    else states
                )
        return counts, totals


def _rows(node: Node, rows: slice) -> np.ndarray:
    return evaluate(select(node, parse(rows, known_shape(node))))


def _blocks(node: Node) -> list[slice]:
    """Return the blocks of rows in which a record is read."""
    (count,) = known_shape(node)
    parts = [field(node, name) for name in node.fields]
    row = sum(size_of(known_shape(part)[1:]) * known_dtype(part).itemsize for part in parts)
    step = max(1, sizes.part_bytes // max(1, row))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)] or [slice(0)]
