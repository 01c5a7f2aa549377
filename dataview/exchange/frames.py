"""Frames of pandas and polars become records: a field for each column, and masks of its gaps.

A column shares the memory of its frame where the library lends it.  What is lent read-only stays
so: the library shares it in turn among its frames, which would change without their knowing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np

from dataview.errors import import_library
from dataview.formats import node_of_table
from dataview.plan.build import record, stored
from dataview.plan.fields import check_name, read_only_meta
from dataview.plan.gaps import holds_codes, own_columns, put_mask, with_mask
from dataview.plan.kinds import Record, Stored, members
from dataview.plan.node import Node
from dataview.plan.operations import may_be_missing
from dataview.plan.ragged import Ragged
from dataview.plan.values import TIME_OF_DAY
from dataview.sources import ArraySource, Source
from dataview.tables import with_labels


class Column(NamedTuple):
    """A column of a frame: its name, or the names of what it is inside and its own, and its values.

    `present` is true where there is a value, None where all are there or the values tell it.
    """

    name: Any
    node: Node
    present: Node | None = None

    def tells_gaps(self) -> bool:
        """Whether the values alone say what is missing, as NaN, NaT and the code -1 do."""
        if self.present is None or holds_codes(self.node):
            return True
        return self.node.dtype is not None and self.node.dtype.kind in "fcmM"

    def whole(self) -> Node:
        """Return the values, which know their gaps."""
        return self.node if self.present is None else with_mask(self.node, self.present)


class FrameMemory(ArraySource):
    """Memory that a library lends read-only; `present` says where a column has data."""

    __slots__ = ("_library", "present")
    advice = "write to the frame and view it anew, or to a copy: d._copy()"

    def __init__(self, array: np.ndarray, library: str, present: Source | None = None) -> None:
        self.present = present
        lent = array[...]
        lent.flags.writeable = False
        super().__init__(lent)
        self._library = library

    def describe(self) -> str:
        """Say whose memory this is."""
        return f"memory of {self._library}"


# --- columns as fields -----------------------------------------------------------------------


def in_columns(columns: Iterable[Column]) -> Node:
    """Return the record of columns, with a field `<name>_mask` beside each that has gaps.

    >>> x, there = (stored(ArraySource(np.array(values))) for values in ([1, 0], [True, False]))
    >>> columns = [Column("x", x, there), Column(("y", "z"), x)]
    >>> list(in_columns(columns).fields)
    ['x', 'y', 'x_mask']
    """
    tree: dict[str, Any] = {}
    masks: list[tuple[list[str], Node]] = []
    for name, node, present in columns:
        path = _path_of(name)
        place = _place(tree, path)
        if path[-1] in place:
            raise _twice(path)
        place[path[-1]] = node
        if present is not None:
            masks.append((path, present))
    if not tree:
        raise ValueError("a table without columns has no data to view")
    for path, mask in masks:
        put_mask(_place(tree, path), path[-1], mask)
    return _record(tree)


def _path_of(name: Any) -> list[str]:
    """Return the names of the fields that lead to a column; those of pandas may end empty."""
    parts = list(name) if isinstance(name, tuple) else [name]
    while len(parts) > 1 and parts[-1] == "":
        parts.pop()
    for part in parts:
        if not isinstance(part, (str, int, np.integer)):
            raise TypeError(
                f"a field's name is a string, and a column has the name {part!r}; rename it, such "
                "as by frame.columns = frame.columns.map(str)"
            )
    return [check_name(str(part)) for part in parts]


def _place(tree: dict[str, Any], path: list[str]) -> dict[str, Any]:
    """Return the columns among which the last one of a path stands."""
    for number, name in enumerate(path[:-1]):
        tree = tree.setdefault(name, {})
        if isinstance(tree, Node):
            raise _twice(path[: number + 1])
    return tree


def _twice(path: list[str]) -> ValueError:
    return ValueError(f"two columns have the name {'.'.join(path)!r}; rename one of them")


def _record(tree: Mapping[str, Any]) -> Node:
    own = own_columns(tree)
    named = {name: _record(at) if isinstance(at, dict) else at for name, at in own.items()}
    return record(named, 1)


def _arrow_column(name: Any, array: Any) -> Column:
    """Return the column that a table of Arrow's array has, with the mask of its gaps."""
    pyarrow = import_library("pyarrow", "dataview[arrow]")
    table = cast(Record, node_of_table(pyarrow.table({"x": array})))
    if table.fields.unread:
        raise TypeError(f"column {name!r} {table.fields.unread['x']}")
    column, *mask = (field.node for field in members(table).values())
    return Column(name, column, *mask)


# --- pandas ----------------------------------------------------------------------------------


def of_pandas(frame: Any) -> Node:
    """Return the record of a frame's columns, and of its index unless that numbers the rows."""
    columns: list[Column] = []
    levels = frame.index.nlevels
    for number, name in enumerate(frame.index.names):
        labels = frame.index.get_level_values(number)
        if name is not None or labels.dtype.kind not in "iu":
            own = "index" if levels == 1 else f"index_{number}"
            columns.append(_pandas_column(own if name is None else name, labels))
    for number, name in enumerate(frame.columns):
        columns.append(_pandas_column(name, frame.iloc[:, number]))
    return in_columns(columns)


def of_series(series: Any) -> Node:
    """Return the node of a Series or Index; a gap in what has none of its own makes it None."""
    column = _pandas_column("x", series)
    if column.tells_gaps():
        return column.whole()
    return _lent(series.to_numpy(dtype=object, na_value=None), "pandas")


def _pandas_column(name: Any, series: Any) -> Column:
    """Return what a column holds, by the class of its dtype."""
    if isinstance(series.dtype, np.dtype):
        array = series.to_numpy()
        if array.dtype.kind == "O":
            return _objects(name, series, array)
        return Column(
            name, stored(ArraySource(array)) if array.flags.writeable else _lent(array, "pandas")
        )
    read = PANDAS.get(type(series.dtype).__name__)
    if read is not None:
        return read(name, series)
    if getattr(series.dtype, "numpy_dtype", None) is not None:
        return _nullable(name, series)
    return Column(name, _lent(series.to_numpy(), "pandas"))


def _lent(array: np.ndarray, library: str) -> Node:
    return stored(FrameMemory(array, library))


def _with_gaps(name: Any, node: Node, missing: Any) -> Column:
    present = ~np.asarray(missing, bool)
    if present.all():
        return Column(name, node)
    mask = ArraySource(present)
    source = node.source if isinstance(node, Stored) else None
    if isinstance(source, FrameMemory) and not may_be_missing(source.dtype):
        source.present = mask
    return Column(name, node, stored(mask, False))


def _nullable(name: Any, series: Any) -> Column:
    """Return numbers with their mask; of real numbers a gap is NaN."""
    dtype = series.dtype.numpy_dtype
    gap = {"na_value": dtype.type("nan" if dtype.kind == "f" else 0)} if series.hasnans else {}
    values = series.to_numpy(dtype=dtype, **gap)
    return _with_gaps(name, _lent(values, "pandas"), series.isna())


def _objects(name: Any, series: Any, array: np.ndarray) -> Column:
    """Return objects, and None for those that pandas takes for missing, such as NaN and NaT."""
    missing = series.isna()
    whole = series.to_numpy(dtype=object, na_value=None) if missing.any() else array
    return _with_gaps(name, _lent(whole, "pandas"), missing)


def _texts(name: Any, series: Any) -> Column:
    node = _lent(series.to_numpy(dtype=object, na_value=None), "pandas")
    return _with_gaps(name, node, series.isna())


def _categories(name: Any, series: Any) -> Column:
    values = series.array
    codes = with_labels(_lent(values.codes, "pandas"), values.categories.to_numpy())
    return _with_gaps(name, codes, series.isna())


def _instants(name: Any, series: Any) -> Column:
    """Return instants in UTC; the name of their zone is metadata."""
    utc = _times(_times(series).tz_convert("UTC")).tz_localize(None)
    meta = read_only_meta({"timezone": str(series.dtype.tz)})
    return Column(name, _lent(utc.to_numpy(), "pandas").replaced(meta=meta))


def _periods(name: Any, series: Any) -> Column:
    """Return the first instant of each period; how long it is, is metadata."""
    starts = _times(series).to_timestamp()
    meta = read_only_meta({"freq": str(series.dtype)[len("period[") : -1]})
    return Column(name, _lent(starts.to_numpy(), "pandas").replaced(meta=meta))


def _times(series: Any) -> Any:
    """Return what has the methods of times: an index has them itself."""
    return series.dt if hasattr(series, "dt") else series


def _intervals(name: Any, series: Any) -> Column:
    """Return the ends of intervals; which of them belong to it, is metadata."""
    ends = series.array
    parts = {name: _lent(getattr(ends, name).to_numpy(), "pandas") for name in ("left", "right")}
    meta = read_only_meta({"closed": ends.closed})
    return Column(name, record(parts, 1).replaced(meta=meta))


def _of_arrow(name: Any, series: Any) -> Column:
    pyarrow = import_library("pyarrow", "dataview[arrow]")
    return _arrow_column(name, pyarrow.array(series))


PANDAS: dict[str, Callable[[Any, Any], Column]] = {
    "StringDtype": _texts,
    "CategoricalDtype": _categories,
    "DatetimeTZDtype": _instants,
    "PeriodDtype": _periods,
    "IntervalDtype": _intervals,
    "ArrowDtype": _of_arrow,
}
"""What makes a column of pandas a field, by the class of its dtype, where its array does not."""


# --- polars ----------------------------------------------------------------------------------


def of_polars(frame: Any) -> Node:
    """Return the record of a frame's columns."""
    return in_columns(_polars_column(column) for column in frame.iter_columns())


def of_polars_series(series: Any) -> Node:
    """Return the node of a Series; a gap in what has none of its own makes it None."""
    column = _polars_column(series)
    is_whole = isinstance(column.node, Ragged) and not series.null_count()
    if is_whole or column.tells_gaps() or isinstance(column.node, Record):  # its fields have masks
        return column.whole()
    values = np.empty(len(series), object)
    values[:] = series.to_list()
    return _lent(values, "polars")


def of_lazy_frame(frame: Any) -> Node:
    """Raise: what a lazy frame gives is not computed yet."""
    raise TypeError(
        "a polars LazyFrame has no rows before it is computed; view frame.collect(), or write it "
        "by frame.sink_parquet(path) and open that"
    )


def _polars_column(series: Any) -> Column:
    """Return what a column holds, by the class of its dtype."""
    kind = type(series.dtype).__name__
    read = POLARS.get(kind)
    if read is not None:
        return read(series)
    fill = 0 if series.dtype.is_integer() else False if kind == "Boolean" else None
    values = series if fill is None else series.fill_null(fill)
    return _with_gaps(series.name, _lent(values.to_numpy(), "polars"), series.is_null())


def _enum(series: Any) -> Column:
    return _codes(series, series.dtype.categories)


def _categorical(series: Any) -> Column:
    """Return codes; polars numbers the categories of all frames together, with large gaps."""
    polars = import_library("polars", "polars")
    labels = series.drop_nulls().unique(maintain_order=True).cast(polars.String)
    return _codes(series.cast(polars.String).cast(polars.Enum(labels)), labels)


def _codes(series: Any, labels: Any) -> Column:
    polars = import_library("polars", "polars")
    codes = series.to_physical().cast(polars.Int32).fill_null(-1).to_numpy()
    node = with_labels(_lent(codes, "polars"), labels.to_list())
    return _with_gaps(series.name, node, series.is_null())


def _in_arrow(series: Any) -> Column:
    """Return what Arrow's column of the same values becomes: of their types NumPy has no arrays."""
    import_library("pyarrow", "dataview[arrow]")
    return _arrow_column(series.name, series.to_arrow())


def _zoned(series: Any) -> Column:
    """Return instants in UTC; the name of their zone is metadata."""
    node = _lent(series.to_numpy(), "polars")
    zone = series.dtype.time_zone
    meta = read_only_meta({"timezone": zone} if zone else {})
    return _with_gaps(series.name, node.replaced(meta=meta), series.is_null())


def _hours(series: Any) -> Column:
    """Return the time that has passed since midnight."""
    passed = series.to_physical().fill_null(np.iinfo(np.int64).min).to_numpy()
    node = _lent(passed.view("m8[ns]"), "polars").replaced(meta=read_only_meta({TIME_OF_DAY: True}))
    return _with_gaps(series.name, node, series.is_null())


def _too_wide(series: Any) -> Column:
    raise TypeError(
        f"column {series.name!r} has integers of 128 bits, of which NumPy has no arrays; cast it, "
        "such as by frame.cast({polars.Int128: polars.Int64})"
    )


POLARS: dict[str, Callable[[Any], Column]] = {
    "Enum": _enum,
    "Categorical": _categorical,
    "List": _in_arrow,
    "Array": _in_arrow,
    "Struct": _in_arrow,
    "Decimal": _in_arrow,
    "Null": _in_arrow,
    "Datetime": _zoned,
    "Time": _hours,
    "Int128": _too_wide,
    "UInt128": _too_wide,
}
"""What makes a column of polars a field, by the class of its dtype, where its array does not."""
