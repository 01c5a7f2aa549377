"""Gaps of columns count as missing in every question, as those of pandas' nullable columns do."""

import datetime
import decimal
import itertools
import json
import math
import operator
import pickle
import sqlite3
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from dataview.formats.tables import Column, Kind, Table, table_node
from dataview.index.sizes import sizes
from dataview.view.view import viewed
from oracle import assert_same, attempt, examples, silence

DAYS = [datetime.date(2020, 1, 1), datetime.date(2020, 2, 29), datetime.date(2021, 7, 3)]
CELLS = {
    "qty": st.none() | st.integers(0, 3),
    "ok": st.none() | st.booleans(),
    "day": st.none() | st.sampled_from(DAYS),
    "city": st.none() | st.sampled_from(["Rome", "Bonn", "Oslo"]),
    "x": st.none() | st.sampled_from([-1.5, 0.0, 2.0]),
}
TYPES = {
    "qty": pa.int64(),
    "ok": pa.bool_(),
    "day": pa.date32(),
    "city": pa.string(),
    "x": pa.float64(),
}


@st.composite
def tables(draw):
    """A table by columns; `n` numbers its rows, and the first of them is whole."""
    first = {"qty": 1, "ok": True, "day": DAYS[0], "city": "Rome", "x": 2.0}
    rows = [first, *draw(st.lists(st.fixed_dictionaries(CELLS), max_size=9))]
    return {name: [row[name] for row in rows] for name in CELLS}


def arrow_of(columns):
    parts = {name: pa.array(values, TYPES[name]) for name, values in columns.items()}
    return pa.table({**parts, "n": pa.array(range(len(columns["qty"])))})


WAYS = ["arrow", "parquet", "csv", "feather", "h5", "frozen"]
NUMBERS = itertools.count()


def opened(folder, way, columns):
    """Give a view of a table that came that way."""
    table = arrow_of(columns)
    if way == "arrow":
        return dv.View(table)
    if way == "frozen":
        return dv.View(table)._freeze()
    if way == "parquet":
        pq.write_table(table, folder / "t.parquet", row_group_size=4)
        return dv.open(folder / "t.parquet")
    if way == "csv":
        pc.write_csv(table, folder / "t.csv")
        return dv.open(folder / "t.csv")
    dv.View(table)._save(path := folder / f"t{next(NUMBERS)}.{way}")
    return dv.open(path)


class Told:
    """The model of a condition: where it is true, and where that is known."""

    def __init__(self, true, known):
        self.true, self.known = true & known, known

    def __invert__(self):
        return Told(~self.true, self.known)

    def __and__(self, other):
        no = (self.known & ~self.true) | (other.known & ~other.true)
        return Told(self.true & other.true, (self.known & other.known) | no)

    def __or__(self, other):
        yes = self.true | other.true
        return Told(yes, (self.known & other.known) | yes)

    def __xor__(self, other):
        return Told(self.true ^ other.true, self.known & other.known)


ORDERS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
VALUES = {
    "qty": st.integers(0, 3),
    "ok": st.booleans(),
    "day": st.sampled_from([*DAYS, np.datetime64("2020-02-29"), "2020-02-29", "2021"]),
    "city": st.sampled_from(["Rome", "Bonn", ""]),
    "x": st.sampled_from([0.0, 2.0]),
}


@st.composite
def comparisons(draw):
    """A comparison of a column, as a function of something with columns."""
    name = draw(st.sampled_from([*CELLS]))
    kind = draw(st.sampled_from([*ORDERS]))
    value = draw(VALUES[name])
    more = draw(st.integers(0, 1)) if name in ("qty", "x") else None

    def compared(column, in_model):
        plain = np.datetime64(value) if name == "day" and in_model else value
        subject = column(name)
        return ORDERS[kind](subject if more is None else subject + more, plain)

    return name, compared


@st.composite
def conditions(draw):
    """A condition, as a function of comparisons."""
    steps = st.sampled_from(["~", "&", "|", "^"])
    leaf = comparisons().map(lambda one: ("leaf", one))
    tree = st.recursive(
        leaf,
        lambda inner: st.tuples(steps, inner, inner),
        max_leaves=4,
    )
    return draw(tree)


def of_view(tree, d):
    kind, *inner = tree
    if kind == "leaf":
        return inner[0][1](lambda name: d[name], False)
    one, other = (of_view(part, d) for part in inner)
    return combined(kind, one, other)


def of_model(tree, model):
    kind, *inner = tree
    if kind == "leaf":
        name, compared = inner[0]
        values, known = model[name]
        true = np.zeros(len(known), bool)
        true[known] = compared(lambda name: values[known], True)
        return Told(true, known)
    one, other = (of_model(part, model) for part in inner)
    return combined(kind, one, other)


def combined(kind, one, other):
    return {"~": lambda: ~one, "&": lambda: one & other, "|": lambda: one | other,
            "^": lambda: one ^ other}[kind]()  # fmt: skip


def model_of(columns, rows):
    """Give each column's values, whatever they are at gaps, and where there are some."""
    found = {}
    for name, values in columns.items():
        some = next(value for value in values if value is not None)
        dtype = {"day": "M8[D]", "city": object}.get(name)
        whole = np.array([some if value is None else value for value in values], dtype)
        known = np.array([value is not None for value in values])
        found[name] = whole[rows], known[rows]
    return found


PARTS = {
    "whole": lambda d: d,
    "slice": lambda d: d[1:6],
    "backwards": lambda d: d[::-1],
    "rows": lambda d: d[[0, -1, 0]],
    "shuffled": lambda d: d._shuffled(3),
    "split": lambda d: d._split(0.5)[1],
    "twice": lambda d: dv.concat([d, d[:2]]),
    "batch": lambda d: d._minibatches(2)[0],
    "masked": lambda d: d[np.arange(len(d)) % 2 == 0],
    "chosen": lambda d: d._select(*CELLS, "n"),
    "renamed": lambda d: d._rename(qty="a")._rename(a="qty"),
    "pickled": lambda d: pickle.loads(pickle.dumps(d[1:])),
    "cached": lambda d: d[:]._cached(),
    "sorted": lambda d: d._sorted(by="x"),
    "columns": lambda d: dv.View(**by_column(d)),
    "zipped": lambda d: dv.zip(**by_column(d)),
    "nested": lambda d: dv.View({"of": by_column(d)}).of,
}


def by_column(d):
    """Give the columns of a table, each as a view of its own."""
    return {name: d[name] for name in (*CELLS, "n")}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("gaps")


@examples(40)
@given(
    way=st.sampled_from(WAYS),
    columns=tables(),
    part=st.sampled_from([*PARTS]),
    tree=conditions(),
    size=st.sampled_from([8, 1 << 20]),
)
def test_conditions_on_gaps_are_not_true(place, way, columns, part, tree, size):
    d = PARTS[part](opened(place, way, columns))
    rows = d.n()
    expected = of_model(tree, model_of(columns, rows))
    condition = of_view(tree, d)
    with sizes.set(block_bytes=size, part_bytes=size):
        assert_same(np.asarray(condition()), expected.true)
        assert_same(np.asarray(condition._notna()()), expected.known)
        assert d[condition].n().tolist() == rows[expected.true].tolist()
        assert d._filter(condition).n().tolist() == rows[expected.true].tolist()
        assert condition._sum()() == expected.true.sum()
        some = expected.true[expected.known]
        assert (condition._all()(), condition._any()()) == (some.all(), some.any())


@pytest.mark.clients
@given(columns=tables(), tree=conditions(), library=st.sampled_from(["pandas", "polars"]))
def test_conditions_choose_the_rows_that_pandas_chooses(columns, tree, library):
    import pandas
    import polars

    table = arrow_of(columns)
    whole = table.to_pandas(types_mapper={pa.int64(): pandas.Int64Dtype(),
        pa.bool_(): pandas.BooleanDtype(), pa.string(): pandas.StringDtype(),
        pa.float64(): pandas.Float64Dtype()}.get)  # fmt: skip
    day = pandas.arrays.ArrowExtensionArray(table["day"].cast(pa.timestamp("s")))
    nullable = whole.assign(day=day)
    frame = nullable if library == "pandas" else polars.from_arrow(table)

    def value(one):
        kind, *inner = one
        if kind == "leaf":
            name, compared = inner[0]
            if name != "day":
                return compared(lambda name: nullable[name], False).astype("boolean")
            stamps = pandas.Series(day)
            found = compared(lambda name: _Stamps(stamps), True)
            return found.astype("boolean")
        return combined(kind, *map(value, inner))

    expected = nullable["n"][value(tree).fillna(False).astype(bool)].tolist()
    d = dv.View(frame)
    assert d[of_view(tree, d)].n().tolist() == expected


class _Stamps:
    """A column of pandas' times, compared with NumPy's."""

    def __init__(self, series):
        self.series = series


def _compared_stamps(symbol):
    import operator

    compare = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
               "==": operator.eq, "!=": operator.ne}[symbol]  # fmt: skip

    def method(self, other):
        import pandas

        return compare(self.series, pandas.Timestamp(other))

    return method


for _name, _symbol in [("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="),
                       ("ne", "!=")]:  # fmt: skip
    setattr(_Stamps, f"__{_name}__", _compared_stamps(_symbol))


STATISTICS = ["sum", "prod", "mean", "var", "std", "min", "max", "argmin", "argmax", "median"]


@examples(40)
@given(
    way=st.sampled_from(["arrow", "parquet", "h5"]),
    columns=tables(),
    part=st.sampled_from([*PARTS]),
    kind=st.sampled_from(STATISTICS),
    name=st.sampled_from(["qty", "x", "ok"]),
    more=st.booleans(),
    size=st.sampled_from([8, 64, 1 << 22]),
)
def test_statistics_leave_gaps_out(place, way, columns, part, kind, name, more, size):
    d = PARTS[part](opened(place, way, columns))
    values, known = model_of(columns, d.n())[name]
    subject = d[name]
    if more and name != "ok":
        values, subject = values * 2 + 1, subject * 2 + 1
    some = values[known]
    with sizes.set(part_bytes=size), silence():
        if not len(some) and (kind.startswith("arg") or (name != "x" and kind in ("min", "max"))):
            with pytest.raises(ValueError, match="missing"):
                getattr(subject, f"_{kind}")()()
            return
        found = [getattr(subject, f"_{kind}")()(), getattr(np, kind)(subject)()]
        if not len(some) and kind in ("min", "max"):
            expected = np.float64(np.nan)
        else:
            expected = getattr(np, kind)(some.astype(float) if kind == "median" else some)
    if kind.startswith("arg"):
        expected = np.flatnonzero(known)[expected]
    for one in found:
        assert np.asarray(one).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(one, expected, 1e-12)


@examples(30)
@given(way=st.sampled_from(WAYS), columns=tables(), part=st.sampled_from([*PARTS]))
def test_values_are_counted_and_numbered_without_gaps(place, way, columns, part):
    d = PARTS[part](opened(place, way, columns))
    for name, (values, known) in model_of(columns, d.n()).items():
        labels, counts = np.unique(values[known], return_counts=True)
        told = d[name]._counts()()
        assert (told["value"].tolist(), told["count"].tolist()) == (
            labels.tolist(), counts.tolist(),
        )  # fmt: skip
        assert d[name]._labels()().tolist() == labels.tolist()
        codes = np.where(known, np.searchsorted(labels, values), -1)
        assert d[name]._codes()().tolist() == codes.tolist()
        assert d[name]._isna()().tolist() == (~known).tolist()
        assert d[name]._notna()().tolist() == known.tolist()
        if name in ("qty", "ok"):
            assert d[name]._unique()().tolist() == labels.tolist()
        wanted = labels[:1].tolist()
        if name != "day":
            assert np.isin(d[name], wanted).tolist() == (known & np.isin(values, wanted)).tolist()
        groups = {label: rows.n().tolist() for label, rows in d._group(by=name)}
        assert [*groups.values()] == [d.n()[codes == code].tolist() for code in range(len(labels))]


@examples(30)
@given(
    way=st.sampled_from(WAYS),
    columns=tables(),
    part=st.sampled_from([*PARTS]),
    by=st.lists(st.sampled_from([*CELLS]), min_size=1, max_size=3, unique=True),
    reverse=st.booleans(),
)
def test_what_is_missing_is_last_in_any_order(place, way, columns, part, by, reverse):
    d = PARTS[part](opened(place, way, columns))
    model = model_of(columns, d.n())
    order = list(range(len(d)))
    for name in reversed(by):
        values, known = model[name]
        present = sorted((row for row in order if known[row]), key=lambda row: values[row],
                         reverse=reverse)  # fmt: skip
        order = [*present, *(row for row in order if not known[row])]
    assert d._sorted(by=by, reverse=reverse).n().tolist() == d.n()[order].tolist()
    first = {}
    for row in range(len(d)):
        key = tuple(model[name][0][row] if model[name][1][row] else None for name in by)
        first.setdefault(key, row)
    assert d._drop_duplicates(by=by).n().tolist() == d.n()[[*first.values()]].tolist()
    whole = np.logical_and.reduce([model[name][1] for name in by])
    assert d._dropna(*by).n().tolist() == d.n()[whole].tolist()
    assert d._dropna(by).n().tolist() == d.n()[whole].tolist()


# -------------------- single cases --------------------

AGES = {"age": [31, None, 41, 0], "city": ["a", "b", None, "d"]}


def ages():
    return dv.View(pa.table(AGES))


@examples(60)
@given(
    values=st.lists(st.none() | st.integers(0, 3), min_size=6, max_size=30),
    seed=st.none() | st.integers(0, 9),
)
def test_splits_and_samplers_take_gaps_as_they_take_nan(values, seed):
    values[:3] = [None, 0, 1]
    there = np.array([value is not None for value in values])
    nan = np.array([np.nan if value is None else value for value in values])
    rows = {"n": np.arange(len(values)), "a": np.nan_to_num(nan).astype(int), "a_mask": there}
    d = dv.View(**rows, nan=nan, _meta={"a_mask": {"mask_of": "a"}})
    ways = [
        lambda by: [part.n() for part in d._split([0.3, 0.3], by=by, seed=seed)],
        lambda by: [part.n() for fold in d._folds(3, by=by, seed=seed) for part in fold],
        lambda by: [part.n() for fold in d._folds(groups=by) for part in fold],
        lambda by: [part.n() for fold in d._folds(2, groups=by, seed=seed) for part in fold],
        lambda by: [
            next(iter(d._loader(batch_size=50, sampler=sampler(by=by), seed=seed or 0))).n()
            for sampler in (dv.samplers.label_uniform, dv.samplers.label_permutation)
        ],
    ]
    for way in ways:
        for by in ("a", d.a):
            for found, expected in zip(way(by), way("nan"), strict=True):
                assert_same(found, expected)


def test_a_comparison_reads_the_columns_that_it_names_and_their_masks():
    calls = []

    class Noted(Table):
        """A table that notes what is read of it."""

        def read(self, names, first, stop):
            calls.extend(names)
            present = np.arange(6) % 3 > 0
            return {name: Column(np.arange(6), present if name == ("a",) else None)
                    for name in names}  # fmt: skip

    kinds = {(name,): Kind(np.dtype(int), has_missing=name == "a") for name in "abc"}
    d = viewed(table_node(Noted("a table", np.array([0, 6])), kinds))
    condition = (d.a < 4) & ~(d.b == 2)
    total, codes, rows = d.a._sum(), d.a._codes(), d._sorted(by="a")
    assert calls == []
    assert condition().tolist() == [False, True, False, False, False, False]
    assert {*calls} == {("a",), ("b",)}
    assert (total(), codes().tolist()) == (12, [-1, 0, 1, -1, 2, 3])
    assert rows.b[-1]() == 3


def test_the_rows_of_a_database_and_of_lines_of_json(tmp_path):
    connection = sqlite3.connect(tmp_path / "t.db")
    connection.execute("CREATE TABLE t (qty INTEGER, ok BOOLEAN, city TEXT)")
    rows = [(0, True, "a"), (None, None, None), (2, False, "b")]
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    connection.commit()
    connection.close()
    lines = ['{"qty": 0, "ok": true, "city": "a"}', '{"qty": null, "ok": null, "city": null}',
             '{"qty": 2, "ok": false, "city": "b"}']  # fmt: skip
    (tmp_path / "t.jsonl").write_text("\n".join(lines) + "\n")
    for name in ("t.db", "t.jsonl"):
        with dv.open(tmp_path / name) as d:
            assert (d.qty == 0)().tolist() == [True, False, False]
            assert (~d.ok)().tolist() == [False, False, True]
            assert (d.city != "a")().tolist() == [False, False, True]
            assert (d.city < "b")().tolist() == [True, False, False]
            assert d.qty._mean()() == 1 and len(d._dropna("qty")) == 2


def test_dates_are_compared_with_dates_of_python_and_texts():
    days = np.array(["2020-01-01", "2020-06-15", "NaT"], "M8[D]")
    d = dv.View(day=days, at=days.astype("M8[s]") + np.timedelta64(90, "m"), age=days - days[0])
    for day in (datetime.date(2020, 6, 15), "2020-06-15", np.datetime64("2020-06-15"), "2020-06"):
        found = (d.day >= day)()
        assert found.tolist() == [False, True, False]
    assert (d.day == "2020-01-01")().tolist() == [True, False, False]
    assert (d.day < datetime.datetime(2020, 1, 1, 0, 1))().tolist() == [True, False, False]
    assert (d.at == datetime.datetime(2020, 1, 1, 1, 30))().tolist() == [True, False, False]
    zone = datetime.timezone(datetime.timedelta(hours=2))
    assert (d.at == datetime.datetime(2020, 1, 1, 3, 30, tzinfo=zone))()[0]
    for text in ("2020-01-01 01:30", "2020-01-01T03:30+02:00", "2020-01-01 01:30:00Z"):
        assert (d.at == text)().tolist() == [True, False, False]
    assert (d.at > "2020-01-01T02:31:00-01:00")().tolist() == [False, True, False]
    assert (d.age > datetime.timedelta(days=3))().tolist() == [False, True, False]
    for text in ("Monday", "15.06.2020", "2020-13-01", "20200615", "2020-01-01Z", ""):
        with pytest.raises(ValueError, match=r"is no date \(.*\); dates are compared with texts"):
            d.day < text  # noqa: B015
        with pytest.raises(ValueError, match="is no date"):
            d.day == text  # noqa: B015


AN_HOUR = datetime.time(1)


def test_times_of_day_are_compared_with_times_of_python_and_texts():
    times = [AN_HOUR, datetime.time(2, 30), None, datetime.time(23, 0, 0, 1)]
    d = dv.View(pa.table({"t": times, "n": [1, 2, 3, 4]}))
    for time, text in ((AN_HOUR, "01:00"), (times[3], "23:00:00.000001"), (times[1], "02:30:00")):
        for one in (time, text):
            for operation in (operator.eq, operator.ne, operator.lt, operator.ge):
                wanted = [t is not None and operation(t, time) for t in times]
                assert operation(d.t, one)().tolist() == wanted
        assert (time < d.t)().tolist() == [t is not None and time < t for t in times]
        assert np.isin(d.t, [time, AN_HOUR]).tolist() == [t in (time, AN_HOUR) for t in times]
        found = np.where(d.n < 3, d.t, time)
        assert found().tolist() == (np.where(d.n() < 3, d.t(), found()[3])).tolist()
        assert pa.array(found()[3:], pa.int64()).cast(pa.time64("us")).to_pylist() == [time]
        assert d._group(by="t")[time].n().tolist() == [times.index(time) + 1]
    assert (d.t[0] == AN_HOUR)() and not (d.t[0] != "01:00")()
    for text in ("one", "24:00", "01:60", "1:00", "01:00+02:00", ""):
        with pytest.raises(ValueError, match=r"is no time of day; times of day are compared with"):
            d.t < text  # noqa: B015
        with pytest.raises(ValueError, match="is no time of day"):
            d.t == text  # noqa: B015
    zoned = AN_HOUR.replace(tzinfo=datetime.UTC)
    with pytest.raises(ValueError, match="has a zone, and the data are times of day without one"):
        d.t == zoned  # noqa: B015
    spans = d.t._with_meta(time_of_day=None)
    with pytest.raises(TypeError, match=r"are durations, and .* is a time of day"):
        spans == AN_HOUR  # noqa: B015


def test_times_of_day_are_filled_and_written_with_times_of_python(tmp_path):
    table = pa.table({"t": [AN_HOUR, None], "lists": [[AN_HOUR], [AN_HOUR, datetime.time(2)]]})
    pq.write_table(table, tmp_path / "a.parquet")
    d, five = dv.View(table), datetime.time(5)
    wanted = [datetime.timedelta(hours=1), datetime.timedelta(hours=5)]
    assert d.t._fillna(five)().tolist() == wanted
    assert dv.open(tmp_path / "a.parquet", fill={"t": five}).t().tolist() == wanted
    assert d.lists._pad(five)().tolist() == [wanted, [wanted[0], 2 * wanted[0]]]
    own = d._copy()
    own.t[0] = five
    assert pa.table(own)["t"].to_pylist() == [five, None]
    own.t = [AN_HOUR, five]
    assert pa.table(own)["t"].to_pylist() == [AN_HOUR, five]
    own.t[:] = np.array([five, AN_HOUR], object)
    assert pa.table(own)["t"].to_pylist() == [five, AN_HOUR]


def test_equality_as_a_whole_is_that_of_data_and_gaps():
    d, zeros = ages(), dv.View(np.array([31, 0, 41, 0]))
    assert d.age == ages().age
    assert not (d.age != ages().age)  # noqa: SIM202
    assert d.age != zeros and d.age[2:] == zeros[2:]
    assert (d.age == zeros)().tolist() == [True, False, True, True]
    assert (d.age == d.age)().tolist() == [True, False, True, True]
    assert 31 in d.age and 0 not in d.age[:3]


def test_one_side_may_decide_what_the_other_does_not_know():
    d = ages()
    both = (d.age > 40) | True, (d.age > 40) & False, np.logical_or(d.age > 40, [True] * 4)
    for condition, expected in zip(both, (True, False, True), strict=True):
        assert condition().tolist() == [expected] * 4
        assert condition._notna()().tolist() == [True] * 4
    assert (~((d.age > 40) & False))().tolist() == [True] * 4


def test_what_tells_gaps_has_none():
    d = dv.View(pa.table({"x": [1.0, None, np.nan]}))
    assert (~np.isnan(d.x))().tolist() == [True, False, False]
    assert d.x._isna()().tolist() == [False, True, True]
    assert (d.x != 1)().tolist() == [False, False, True]  # which is as NumPy compares NaN
    assert (~d.x._isna())().tolist() == d.x._notna()().tolist() == [True, False, False]
    filled = ages().age._fillna(7)
    assert (filled == 7)().tolist() == [False, True, False, False]
    assert filled._sum()() == 79 and filled._isna()().tolist() == [False] * 4
    chosen = np.where(ages().age_mask, ages().age, 5)
    assert (chosen == 5)().tolist() == [False, True, False, False] and chosen._sum()() == 77
    chosen = np.where(ages().age > 35, 1, ages().age)
    assert chosen._isna()().tolist() == [False, True, False, False]


def test_a_column_without_its_mask_has_no_gaps():
    d = ages()._drop("age_mask")
    assert (d.age == 0)().tolist() == [False, True, False, True]
    assert (d[1:].age[1:] < 9)().tolist() == [False, True]
    assert d.age._mean()() == 18 and len(d._dropna("age")) == 4


def test_metadata_tell_the_mask_of_a_column():
    x, known = np.array([5, 0, 7]), np.array([True, False, True])
    d = dv.View(x=x, known=known, _meta={"known": {"mask_of": "x"}})
    assert (d.x < 6)().tolist() == [True, False, False]
    assert d.x._mean()() == 6
    d.known = ~d.known
    assert (d.x < 6)().tolist() == [False, True, False]
    plain = dv.View(x=x, x_mask=known)
    assert (plain.x < 6)().tolist() == [True, True, False]


def test_names_of_fields_say_where_rows_are_whole():
    d = dv.View(x=[1.0, np.nan], y=np.array([["a", "b"], ["c", None]], object), z=[0, 1])
    assert len(d._dropna("z")) == len(d._dropna(["z"])) == 2
    assert len(d._dropna("y")) == len(d._dropna("x", "z")) == 1
    with pytest.raises(AttributeError, match="no field 'w'"):
        d._dropna("w")
    with pytest.raises(TypeError, match="choose a field"):
        d._isna()
    assert dv.ragged([[1.0, np.nan], [2.0]])._isna()[0]().tolist() == [False, True]


def test_formulas_do_not_show_masks():
    d = ages()
    assert repr(d.age > 3).endswith("= age > 3")
    assert repr(~(d.age == 3)).endswith("= ~(age == 3)")
    assert repr(d.city < "c").split("= ")[1].startswith("city < ")


def test_expressions_of_symbols_see_the_gaps_of_what_they_are_called_with():
    x = dv.symbol("x", dtype=int, shape=(None,))
    asked = ((x + 1) < 5)._bind(x=ages().age)
    assert asked().tolist() == [False, False, False, True]
    total = x._sum()._bind(x=ages().age), (x == 0)._bind(x=ages().age)
    assert (total[0](), total[1]().tolist()) == (72, [False, False, False, True])


def test_what_is_missing_is_shown_as_missing():
    d = dv.View(pa.table({"a": [1, None, 3] * 5, "b": [0.5, 1.0, None] * 5}))
    assert [str(d.a[0]), str(d.a[1]), f"{d.b[2]}"] == ["1", "–", "–"]
    assert repr(d.a).endswith("1 – 3 … 1 – 3") and repr(d.a[1]).endswith("\n  –")
    assert repr(d.a[1::3]).endswith("– – – – –")
    assert repr(dv.View(a=d.a, w=np.zeros((15, 2, 2)))).count("1 – 3 … 1 – 3") == 1
    assert "–" in d._head(3)._repr_html_() and repr(d._head(3)).count("–") == 2


@pytest.mark.parametrize("probed", [False, True])
def test_batches_of_mapped_rows_have_gaps_before_and_after_a_row_was_read(probed):
    d = dv.View(pa.table({"a": [1, None, 3], "b": [1.0, 2.0, 3.0]}))
    made = d._map(lambda row: {"a": row.a * 10, "b": row.b})
    batch = next((made._probe() if probed else made)._loader(3))
    assert batch.a_mask().tolist() == [True, False, True]
    assert batch.a()[[0, 2]].tolist() == [10, 30]


def test_batches_of_a_loader_have_gaps():
    batch = next(iter(ages()._loader(batch_size=3)))
    assert (batch.age == 0)().tolist() == [False, False, False]


LISTS = {
    "t": pa.array([[1, None, 3], [4], None, [None, None]]),
    "x": pa.array([[1.5, None], [2.5, 3.5, 4.5], [], [None]]),
    "s": pa.array([["a", None], ["b"], [], None]),
}
"""Lists that lack values inside them."""


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize(
    "pad",
    [None, "ragged", -1, dv.Pad(-1, axis=0, side="left", multiple=3, length=True, mask=True)],
)
def test_batches_of_samples_fill_gaps_as_whole_batches_do(tmp_path, name, pad):
    pq.write_table(pa.table(LISTS), tmp_path / "lists.parquet")
    d = dv.View(v=dv.open(tmp_path / "lists.parquet")[name])
    seen = []

    def transform(sample):
        seen.append((sample["v"] == 0)())
        return sample

    whole, one_by_one, twice = (
        next(iter(d._loader(4, pad=pad, **how)))
        for how in ({}, {"transform": transform}, {"transform": [lambda s: s, transform]})
    )
    assert not any(map(np.any, seen))  # a gap equals nothing
    for batch in (one_by_one, twice):
        assert batch._fields() == whole._fields()
        for field in whole._fields():
            ours, theirs = batch[field], whole[field]
            if pad in (None, "ragged") and field == "v":
                ours, theirs = ours._pad(-1), theirs._pad(-1)
            assert_same(ours(), theirs())
    given = []
    collate = lambda samples: {"count": given.extend(samples) or len(samples)}  # noqa: E731
    next(iter(d._loader(4, transform=lambda s: s, collate=collate)))
    assert all(isinstance(sample["v"], np.ndarray) for sample in given)


def test_streams_have_gaps(tmp_path):
    (tmp_path / "d").mkdir()
    for n in range(2):
        (tmp_path / "d" / f"{n}.csv").write_text("qty,city\n0,a\n,\n3,b\n")
    d = dv.open(tmp_path / "d", layout="parts")
    for condition, expected in [
        (d.qty == 0, [True, False, False]),
        (~(d.qty == 0), [False, False, True]),
        (d.city != "a", [False, False, True]),
        (d.city > "a", [False, False, True]),
        (d.qty._isna(), [False, True, False]),
        ((d.qty + 1)._notna(), [True, False, True]),
    ]:
        assert [bool(one()) for one in condition] == expected * 2
    assert [row.qty() for row in d._filter(lambda row: row.qty < 5)] == [0, 3, 0, 3]
    assert (d.qty._mean()(), d.qty._min()(), (d.qty + 1)._sum()()) == (1.5, 0, 10)
    for batches in (d._minibatches(4), d._loader(batch_size=4)):
        found = [(batch.qty < 5)().tolist() for batch in batches]
        assert found == [[True, False, True, True], [False, True]]


def test_objects_are_computed_where_nothing_is_missing():
    one, two, five = map(decimal.Decimal, (1, 2, 5))
    v, w, texts = [one, None, two], [five, five, None], ["a", None, "c"]
    columns = {"v": pa.array(v), "w": pa.array(w), "t": texts, "n": [1, 2, 3]}
    d = dv.View(pa.table(columns))._copy()
    for found, expected in [
        (d.v * 2, [2 * one, None, 2 * two]),
        (-d.v, [-one, None, -two]),
        (d.v + d.w, [one + five, None, None]),
        (2 * d.v - d.n, [one, None, one]),
        (d.t + "x", ["ax", None, "cx"]),
        ((d.v * 2)[::-1], [2 * two, None, 2 * one]),
        (np.where(d.n > 2, d.v * 2, d.w), [five, five, 2 * two]),
    ]:
        for view in (found, pickle.loads(pickle.dumps(found))):
            assert view().tolist() == expected
            assert view._dropna()().tolist() == [x for x in expected if x is not None]
    assert (d.v * 2 > 3)().tolist() == [False, False, True]
    assert (d.v * 2)._mean()() == 3
    assert "v * 2" in str(d.v * 2) and "None" not in str(d.v * 2)
    assert [x() for x in d._filter(lambda row: True).v * 2] == [2 * one, None, 2 * two]
    d.v *= 2
    assert d.v().tolist() == [2 * one, None, 2 * two] and d.v_mask().tolist() == [True, False, True]


def test_a_choice_between_fields_of_a_stream_with_gaps():
    d = dv.View(pa.table({"x": [1, None, 3], "y": [1, 2, None]}))
    kept = d._filter(lambda row: True)
    for stream, expected in [(kept, [1, 2]), (kept[1:], [2])]:
        chosen = np.where(stream.x == stream.y, stream.x, stream.y)._freeze()
        assert chosen._dropna()().tolist() == expected


def test_the_median_of_decimals_leaves_gaps_out():
    some = [decimal.Decimal(n) for n in (3, 1, 8)]
    d = dv.View(pa.table({"v": pa.array([some[0], None, *some[1:]])}))
    for statistic in (d.v._median, d.v._nanmedian, dv.View(d.v())._nanmedian):
        assert statistic()() == decimal.Decimal(3)
    with pytest.warns(RuntimeWarning, match="All-NaN slice"):
        assert np.isnan(d.v[1:2]._median()())


def test_what_is_missing_is_one_value_whatever_was_computed_there():
    keys = {"qty": [1, None, 2, None, 1], "x": [1.0, None, 2.0, None, 1.0]}
    d = dv.View(pa.table({**keys, "city": ["a", None, "b", None, "a"]}))
    qty, x = d.qty + np.array([0, 5, 0, 9, 0]), d.x * [1, 2, 1, 3, 1]
    for key in (qty, x, d.city, qty > 5):
        rows = dv.View(key=key, n=np.arange(5))._drop_duplicates(by="key").n().tolist()
        assert rows == ([0, 1] if key.dtype == bool else [0, 1, 2])
    assert qty._drop_duplicates()._isna()().tolist() == [False, True, False]


def test_a_copy_that_can_be_written_has_gaps(tmp_path):
    pc.write_csv(pa.table(AGES), tmp_path / "ages.csv")
    d = dv.open(tmp_path / "ages.csv")
    with pytest.raises(dv.ReadOnlyError, match=r"d\._copy\(\) is a copy in memory"):
        d.age += 1
    for age in (own := d._copy()).age, d.age._copy(), (d.age * 1)._copy():
        age += 1
        assert age._mean()() == 25 and age._isna()().tolist() == [False, True, False, False]
    assert own._meta == d._meta and pa.table(own)["age"].to_pylist() == [32, None, 42, 1]
    own.age[1], own.age_mask[1] = 7, True
    assert own.age().tolist() == [32, 7, 42, 1] and own.age._mean()() == 20.5
    assert d.age._mean()() == 24


def test_a_column_alone_has_gaps_in_other_libraries():
    d = dv.View(pa.table({"v": pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), "x": [1, None]}))
    assert pa.array(d.x).to_pylist() == [1, None] and pa.array(d.x[:1]).to_pylist() == [1]
    assert pa.array(d.v).to_pylist() == [[1, 2], None]
    assert pa.table(d.v).to_pylist() == [{"0": 1, "1": 2}, {"0": None, "1": None}]
    lists = [[1, None], None, [], [2]]
    ragged = dv.View(pa.table({"x": pa.array(lists, pa.list_(pa.int8()))})).x
    assert pa.array(ragged).to_pylist() == pa.chunked_array(ragged).to_pylist() == lists
    assert pa.chunked_array(d.x).to_pylist() == [1, None]
    sums = dv.View(pa.table({"y": [1, None, 3]})).y[:, None] + d.x
    wanted = [[2, None], [None, None], [4, None]]
    assert pa.array(sums).to_pylist() == wanted
    made = dv.View(sums=sums)
    assert pa.table(made)["sums"].to_pylist() == wanted
    assert made.sums._isna()().tolist() == [[one is None for one in row] for row in wanted]


LISTS_WITH_GAPS = {
    "int": pa.array([[1, 2], None, [3, None], [4, 5]], pa.list_(pa.int8(), 2)),
    "bool": pa.array([[True, None], None, [False, True], None], pa.list_(pa.bool_(), 2)),
    "float": pa.array([[1.5, 2.5], None, [3.5, 4.5], None], pa.list_(pa.float64(), 2)),
    "text": pa.array([["a", None], None, ["b", "c"], None], pa.list_(pa.string(), 2)),
    "code": pa.FixedSizeListArray.from_arrays(
        pa.array(["a", "b", None, None, None, "b", None, "c"]).dictionary_encode(),
        2,
        mask=pa.array([False, True, False, False]),
    ),
    "pairs": pa.array(
        [[[1, 2], [3, None]], None, [None, [4, 5]], None],
        pa.list_(pa.list_(pa.int16(), 2), 2),
    ),
    "of floats": pa.array(
        [[None, [1.5, 2.5]], None, [], [[3.5, 4.5], None]], pa.list_(pa.list_(pa.float64(), 2))
    ),
    "of ints": pa.array(
        [[None, [1, None]], None, [], [[3, 4], None]], pa.list_(pa.list_(pa.int8(), 2))
    ),
}


@pytest.mark.parametrize(
    ("name", "way"),
    [
        (name, way)
        for name in LISTS_WITH_GAPS
        for way in ("memory", ".parquet", ".feather", ".npz")
        if (name, way) != ("text", ".npz")  # which holds no objects
    ],
)
def test_a_list_of_one_length_stays_missing_beside_one_with_a_gap(name, way, tmp_path):
    lists = LISTS_WITH_GAPS[name]
    d = dv.View(pa.table({"x": lists, "n": range(4)}))
    if way != "memory":
        d._save(tmp_path / f"a{way}")
        d = dv.open(tmp_path / f"a{way}")
    expected = lists.to_pylist()
    batches = [row for batch in d._loader(2) for row in pa.table(batch)["x"].to_pylist()]
    assert pa.table(d)["x"].to_pylist() == batches == expected
    assert pa.table(d[::-1])["x"].to_pylist() == expected[::-1]
    d._save(tmp_path / "b.feather")
    assert pf.read_table(tmp_path / "b.feather")["x"].to_pylist() == expected
    if name != "code":
        assert pa.array(d.x).to_pylist() == expected


@pytest.mark.clients
def test_a_column_alone_has_gaps_in_pandas():
    d = dv.View(pa.table({"x": [1, None], "t": ["a", None], "v": [1.5, None]}))
    assert d.x._to_pandas().mean() == 1 and d.x._to_pandas().isna().tolist() == [False, True]
    assert d.t._to_pandas().isna().tolist() == d.v._to_pandas().isna().tolist() == [False, True]
    assert str(d.x[1]._to_pandas().dtype) == "Int64"
    pairs = d.x[:, None] + np.arange(2)
    assert pairs._to_pandas().isna().to_numpy().tolist() == [[False] * 2, [True] * 2]
    assert dv.View(p=pairs)._to_pandas().isna().to_numpy().tolist() == [[False] * 2, [True] * 2]


def test_functions_of_numpy_that_know_no_gaps_warn_of_them():
    age = ages().age
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):  # no more than once for each line
            np.average(age)
            np.ptp(age)
            np.bincount(age, np.ones(4))
            np.cumsum(age)
    for one, name in zip(told, ["average", "ptp", "bincount", "cumsum"], strict=True):
        assert str(one.message).startswith(f"numpy.{name} knows no gaps: ")
        assert "_fillna(value)" in str(one.message)
    assert np.average(age._fillna(0)) == 18 and np.mean(age)() == 24
    assert np.array2string(age) == "[31  0 41  0]"


def test_counts_of_columns_with_gaps_are_of_what_is_present():
    age, present = ages().age, np.array([31, 41, 0])
    assert_same(np.bincount(age), np.bincount(present))
    assert_same(np.bincount(age, minlength=60), np.bincount(present, minlength=60))
    assert_same(np.bincount(age, None, 60), np.bincount(present, None, 60))  # without weights
    assert_same(np.histogram_bin_edges(age, 4), np.histogram_bin_edges(present, 4))
    for column in (age, age + 0.5, age[::-1], dv.View(np.array([31, np.nan, 41, 0]))._dropna()):
        here = np.asarray(column._dropna())
        options = {"bins": 5, "range": (-10, 50), "weights": None}
        for found, expected in zip(np.histogram(column, 3), np.histogram(here, 3), strict=True):
            assert_same(found, expected)
        assert_same(np.histogram(a=column, **options)[0], np.histogram(here, **options)[0])
    assert_same(np.bincount(ages()._filter(lambda row: True).age), np.bincount(present))
    floats = dv.View(pa.table({"x": [1.5, None, 2.0]})).x
    assert np.histogram(floats, 2)[0].tolist() == [1, 1]


# -------------------- records made of columns --------------------

AGE = [31, None, 41, 0]


def with_field(name, column):
    d = ages()
    d[name] = column
    return d


MADE = {
    "view": lambda: (dv.View(v=ages().age), AGE),
    "mapping": lambda: (dv.View({"v": ages().age}), AGE),
    "nested": lambda: (dv.View(a={"v": ages().age}).a, AGE),
    "zip": lambda: (dv.zip(v=ages().age, n=[1, 2, 3, 4]), AGE),
    "driven": lambda: (dv.View(v=ages().age, w=[1], _driver="v")._select("v"), AGE),
    "beside an array": lambda: (dv.View(np.zeros((4, 2)), v=ages().age)._select("v"), AGE),
    "new field": lambda: (with_field("v", ages().age + 1), [32, None, 42, 1]),
    "condition": lambda: (with_field("v", ages().age > 31), [False, None, True, False]),
    "other field": lambda: (with_field("city", ages().age)._rename(city="v"), AGE),
    "both": lambda: (
        with_field("age", ages().age + (~(ages().city == "a"))._astype(int))._rename(age="v"),
        [31, None, None, 1],
    ),
    "joined": lambda: (dv.concat(dv.View(v=ages().age), dv.View(v=[7])), [*AGE, 7]),
    "bound": lambda: (
        dv.View(v=dv.symbol("x", dtype=int, shape=(None,)))._bind(x=ages().age), AGE,
    ),
    "filled": lambda: (dv.View(v=ages().age._fillna(7)), [31, 7, 41, 0]),
}  # fmt: skip


@pytest.mark.parametrize("how", MADE)
def test_records_made_of_columns_have_the_gaps_of_these(tmp_path, how):
    d, expected = MADE[how]()
    d = d._select("v")
    assert pa.table(d)["v"].to_pylist() == expected
    for name in ("t.csv", "t.parquet", "t.jsonl", "t.h5", "t.npz"):
        d._save(tmp_path / name)
        with dv.open(tmp_path / name) as again:
            assert pa.table(again)["v"].to_pylist() == expected
    lacking = [value is None for value in expected]
    for one in (d, d._freeze(), pickle.loads(pickle.dumps(d)), next(iter(d._loader(9)))):
        assert one.v._isna()().tolist() == lacking
    assert d._missing().v() == sum(lacking)
    assert d._describe()["v"].get("missing", 0) == sum(lacking)
    assert len(d._dropna("v")) == len(expected) - sum(lacking)


def test_a_mask_that_is_declared_is_the_one_of_its_column():
    d = dv.View(v=ages().age, known=[False, True, True, True], _meta={"known": {"mask_of": "v"}})
    assert d._fields() == ("v", "known")
    assert d.v._isna()().tolist() == [True, False, False, False]


def test_other_data_in_the_place_of_a_column_bring_their_gaps():
    d = ages()
    d.age = dv.View(pa.table({"x": [None, 1, 2, 3]})).x
    assert d.age_mask().tolist() == [False, True, True, True]
    d.age = dv.View(np.arange(4))
    assert "age_mask" not in d._fields()


def test_columns_of_several_numbers_have_a_mask_of_rows():
    pairs = pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2))
    d = dv.View(pa.table({"v": pairs}))
    for v in (d.v, d.v[::-1][::-1], d.v + 1 - 1, dv.concat(d.v[:2], d.v[2:])):
        made = dv.View(v=v)
        assert made.v_mask().tolist() == [True, False, True]
        assert pa.table(made)["v"].to_pylist() == [[1, 2], None, [3, 4]]


def test_new_fields_of_streams_have_gaps(tmp_path):
    (tmp_path / "d").mkdir()
    for n in range(2):
        (tmp_path / "d" / f"{n}.csv").write_text("qty,city\n0,a\n,\n3,b\n")
    d = dv.open(tmp_path / "d", layout="parts")
    d.more = d.qty + 1
    assert (d.more._mean()(), d.qty._mean()()) == (2.5, 1.5)
    kept = d[:6]._freeze()
    assert (kept.more._mean()(), kept.qty._mean()()) == (2.5, 1.5)


def with_gaps():
    """Give a column with gaps, its mask, and the view of both."""
    values, mask = np.array([1, 5, 0, 7, 0]), np.array([True, True, False, True, False])
    meta = {"x_mask": {"mask_of": "x"}}
    return values, mask, dv.View(x=values, x_mask=mask, n=np.arange(5), _meta=meta)


WRITES = {
    "all": (lambda d: d.x.__setitem__(slice(None), d.x._fillna(0)), [1, 5, 0, 7, 0], "11111"),
    "one": (lambda d: d.x.__setitem__(2, 99), [1, 5, 99, 7, 0], "11110"),
    "a field": (lambda d: setattr(d, "x", [1, 2, 3, 4, 5]), [1, 2, 3, 4, 5], "11111"),
    "rows": (lambda d: d.x.__setitem__([4, 2], [8, 9]), [1, 5, 9, 7, 8], "11111"),
    "a mask": (lambda d: d.x.__setitem__(~d.x_mask, 4), [1, 5, 4, 7, 4], "11111"),
    "a mask of NumPy": (lambda d: d.x.__setitem__(np.arange(5) == 2, 4), [1, 5, 4, 7, 0], "11110"),
    "a part": (lambda d: d[2:3].x.__setitem__(0, 8), [1, 5, 8, 7, 0], "11110"),
    "a batch": (lambda d: d._minibatches(3)[0].x._write(6), [6, 6, 6, 7, 0], "11110"),
    "gaps": (lambda d: d.x.__setitem__(slice(2), d.x[2:4]), [0, 7, 0, 7, 0], "01010"),
    "an order": (lambda d: d.x.__setitem__(slice(None), d.x[::-1]), [0, 7, 0, 5, 1], "01011"),
    "in place": (lambda d: d.x.__iadd__(1), [2, 6, 1, 8, 1], "11010"),
    "of itself": (lambda d: d.x.__setitem__(slice(None), d.x + 1), [2, 6, 1, 8, 1], "11010"),
    "out": (lambda d: np.add(d.n, 1, out=d.x), [1, 2, 3, 4, 5], "11111"),
    "a copy": (lambda d: np.copyto(d.x, np.arange(5)), [0, 1, 2, 3, 4], "11111"),
    "a row": (lambda d: d.__setitem__(2, (8, False, 2)), [1, 5, 8, 7, 0], "11010"),
    "the mask": (lambda d: d.x_mask.__setitem__(0, False), [1, 5, 0, 7, 0], "01010"),
    "another field": (lambda d: d.n.__setitem__(slice(None), 0), [1, 5, 0, 7, 0], "11010"),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("size", [1, 1 << 16])
def test_what_is_written_is_no_gap_any_more(name, size):
    values, mask, d = with_gaps()
    write, expected, there = WRITES[name]
    with sizes.set(streamed_elements=size, at_once_bytes=0, computed_bytes=0):
        write(d)
    assert values.tolist() == expected
    assert mask.tolist() == [letter == "1" for letter in there]
    present = values[mask].tolist()
    assert d.x._sum()() == sum(present) and d.x._max()() == max(present)


def test_gaps_of_a_file_are_filled_in_place(tmp_path):
    with_gaps()[2]._save(tmp_path / "d.h5")
    d = dv.open(tmp_path / "d.h5", mode="r+")
    d.x[:] = d.x._fillna(4)
    assert d.x._mean()() == 4.2 and d.x_mask().all()
    d.x_mask[0] = False
    d.x[0] = 99
    assert d.x._max()() == 99 and d.x_mask()[0]
    d._close()


def test_a_mask_that_cannot_be_written_keeps_its_gaps_from_being_written():
    values, mask, _ = with_gaps()
    mask.flags.writeable = False
    d = dv.View(x=values, x_mask=mask, _meta={"x_mask": {"mask_of": "x"}})
    d.x[:2] = [3, 4]
    d.x[:] = d.x * 2
    d.x -= 1
    assert values.tolist() == [5, 7, -1, 13, -1]
    for key in (2, slice(None), [3, 4]):
        with pytest.raises(dv.ReadOnlyError, match=r"some of these elements are missing.*_fillna"):
            d.x[key] = 1
    assert values.tolist() == [5, 7, -1, 13, -1]


@pytest.mark.parametrize("size", [1, 1 << 16])
def test_functions_that_change_some_elements_change_the_mask_there_or_nothing(size):
    where = np.arange(5) == 2
    for change in (
        lambda d: np.put(d.x, [2], 5), lambda d: np.place(d.x, where, [5]),
        lambda d: np.putmask(d.x, where, 5), lambda d: np.copyto(d.x, 5, where=where),
        lambda d: np.copyto(d.x, np.full(5, 5), where=where), lambda d: np.fill_diagonal(d.x, 5),
    ):  # fmt: skip
        values, mask, d = with_gaps()
        with sizes.set(streamed_elements=size, at_once_bytes=0, computed_bytes=0):
            _, error = attempt(change, d)
        if error is None:
            assert values[2] == 5 and mask.tolist() == [True, True, True, True, False]
        else:
            assert values[2] == 0 and mask.tolist() == [True, True, False, True, False]
            assert "column with gaps" in str(error) or "2-d" in str(error)


@pytest.mark.parametrize("streamed", [1, 1 << 20])
def test_what_is_computed_in_place_of_columns_has_the_gaps_of_all(streamed):
    def table():
        masks = {f"{name}_mask": {"mask_of": name} for name in "ab"}
        return dv.View(
            a=np.array([1, 2, 3, 4]),
            b=np.array([10, 20, 30, 40]),
            a_mask=np.array([True, False, True, True]),
            b_mask=np.array([True, True, False, True]),
            _meta=masks,
        )

    with sizes.set(streamed_elements=streamed, at_once_bytes=0, computed_bytes=0):
        d = table()
        d.a += d.b
        assert d.a()[[0, 3]].tolist() == [11, 44]
        assert d.a._notna()().tolist() == [True, False, False, True]
        d = table()
        np.multiply(d.b, 2, out=d.a)
        assert d.a._notna()().tolist() == [True, True, False, True]
        d = table()
        d.a *= 3
        assert d.a._notna()().tolist() == [True, False, True, True]
        d = table()
        np.add([1, 2, 3, 4], 5, out=d.a)
        assert d.a._notna()().all() and d.b._notna()().tolist() == [True, True, False, True]
        texts = dv.View(t=np.array(["a", "b"], "U4"), t_mask=np.array([True, False]),
                        _meta={"t_mask": {"mask_of": "t"}})  # fmt: skip
        texts.t *= 2
        assert texts.t()[0] == "aa" and texts.t._notna()().tolist() == [True, False]


def numbers_with_gaps(dtype=int):
    mask = np.array([True, False, True, True])
    values = np.array([1, 7, 3, 4], dtype)
    return dv.View(x=values, x_mask=mask, _meta={"x_mask": {"mask_of": "x"}})


LOSING = r"values are missing \(1 of [34]\).*int64.*_fillna\(0\)|np.put.*gaps.*_fillna\(0\)"
INTO = {
    "all": lambda target, x: target.__setitem__(slice(None), x),
    "rows": lambda target, x: target[:3].__setitem__(slice(None), x[:3]),
    "computed": lambda target, x: target._write(x * 2 - x),
    "a copy": lambda target, x: np.copyto(target, x),
    "in place": lambda target, x: target.__iadd__(x),
    "out": lambda target, x: np.multiply(x, 1, out=target),
    "where": lambda target, x: np.multiply(x, 1, out=target, where=np.ones(4, bool)),
    "a copy where": lambda target, x: np.copyto(target, x, where=np.arange(4) < 3),
    "a record": lambda target, x: dv.View({"t": target})._write({"t": x}),
    "put": lambda target, x: np.put(target, range(4), x),
    "put where": lambda target, x: np.putmask(target, np.arange(4) < 3, x),
    "a row": lambda target, x: dv.View({"t": target}).__setitem__(slice(None), (x,)),
    "joined": lambda target, x: dv.concat([target, target])[2:6].__setitem__(slice(None), x),
}


@pytest.mark.parametrize("streamed", [1, 1 << 20])
@pytest.mark.parametrize("way", INTO)
def test_gaps_are_not_lost_in_data_that_have_no_mask(way, streamed):
    x, put = numbers_with_gaps().x, INTO[way]
    values = np.zeros(4, int)
    with sizes.set(streamed_elements=streamed, at_once_bytes=0, computed_bytes=0):
        with pytest.raises((ValueError, TypeError), match=LOSING):
            put(dv.View(values), x)
        assert values.tolist() == [0, 0, 0, 0]
        put(dv.View(values), x._fillna(9))
        assert {1, 9, 3} <= {*values.tolist()} and 7 not in values
        if not way.startswith("put"):
            floats = np.zeros(4)
            put(dv.View(floats), x)
            assert np.isnan(floats).sum() == 1 and {*floats} > {1, 3}


def test_what_is_missing_is_written_as_nothing_of_the_dtype():
    for dtype, none in {"m8[s]": "NaT", "M8[s]": "NaT", "O": "None", "c16": "(nan+0j)"}.items():
        values = np.zeros(4, dtype)
        dv.View(values)[:] = numbers_with_gaps(dtype if dtype in ("m8[s]", "M8[s]") else int).x
        assert str(values[1]) == none and values[2] == np.array(3).astype(dtype)


@pytest.mark.parametrize("streamed", [1, 1 << 20])
def test_a_part_without_gaps_is_written_as_it_is(streamed):
    values = np.zeros(4, int)
    with sizes.set(streamed_elements=streamed, at_once_bytes=0, computed_bytes=0):
        dv.View(values)[:2] = numbers_with_gaps().x[2:]
    assert values.tolist() == [3, 4, 0, 0]


def test_columns_called_like_masks_are_written_with_their_columns():
    d, plain = numbers_with_gaps(), dv.View(x=np.zeros(4, int), x_mask=np.ones(4, bool))
    plain[:] = d
    assert plain.x_mask().tolist() == d.x_mask().tolist() and plain.x().tolist() == d.x().tolist()


@pytest.mark.parametrize("streamed", [1, 1 << 20])
def test_only_where_a_result_is_written_does_a_mask_change(streamed):
    chosen = np.array([True, True, False, False])
    with sizes.set(streamed_elements=streamed, at_once_bytes=0, computed_bytes=0):
        d, other = numbers_with_gaps(), numbers_with_gaps()
        other.x_mask[:] = [True, True, False, False]
        np.add(other.x, 10, out=d.x, where=chosen)
        assert d.x_mask().tolist() == [True, True, True, True]
        assert d.x().tolist() == [11, 17, 3, 4]
        np.copyto(d.x, other.x, where=~chosen)
        assert d.x_mask().tolist() == [True, True, False, False]
        np.add.at(d.x, [0, 2], 5)
        assert d.x_mask().tolist() == [True, True, False, False] and d.x[0]() == 16
        np.divmod(d.x, 3, out=(d.x, other.x), where=chosen)
        assert d.x_mask().tolist() == other.x_mask().tolist() == [True, True, False, False]


def test_a_mask_that_cannot_be_written_is_compared_block_by_block():
    rows = 1 << 16
    kept = np.ones(rows, bool)
    kept[-1] = False
    read = []

    class Asked:
        shape, dtype = kept.shape, kept.dtype

        def __getitem__(self, key):
            read.append(kept[key].size)
            return kept[key]

    d = dv.View(x=np.arange(rows), x_mask=Asked(), _meta={"x_mask": {"mask_of": "x"}})
    with sizes.set(part_bytes=1 << 12, block_bytes=1 << 12):
        d.x[:-1] = 5
    assert d.x[0]() == 5 and 0 < max(read) < rows // 2


MAPPED = {
    "sample": lambda view, function, **spec: view._map(function, **spec),
    "batches": lambda view, function, **spec: view._map_batches(function, batch_size=3, **spec),
}


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("verb", MAPPED)
def test_what_functions_make_of_what_is_missing_is_missing(verb, declared):
    def made(view, function, dtype=int):
        spec = {"shape": (), "dtype": dtype} if declared else {}
        return MAPPED[verb](view, function, **spec)._probe()

    gaps = [True, False, True, True]
    x = numbers_with_gaps().x
    assert made(x, lambda v: v + 1)._notna()().tolist() == gaps
    assert made(x, lambda v: v() * 2)._mean()() == (1 + 3 + 4) * 2 / 3
    assert made(x[::-1], lambda v: v() * 2)._notna()().tolist() == gaps[::-1]
    assert made(x > 2, lambda v: v(), bool)._isna()().tolist() == [False, True, False, False]
    halves = made(x * 0.5, lambda v: v() + 1, float)
    assert np.isnan(halves()).tolist() == [False, True, False, False]
    texts = dv.View(pa.array(["a", None, "b", "a"]))
    named = made(texts, lambda v: np.where(v() == None, "none", v()), object)  # noqa: E711
    assert named._notna()().all() and named().tolist() == ["a", "none", "b", "a"]


@pytest.mark.parametrize("verb", MAPPED)
def test_fields_that_functions_pass_on_keep_their_gaps(verb, tmp_path):
    d = dv.View(x=numbers_with_gaps().x, n=np.arange(4))

    def function(r):
        return {"more": r.x + r.n, "x": r.x, "n": r.n() + 1}

    made = MAPPED[verb](d, function)._probe()
    assert made._fields() == ("more", "x", "n", "more_mask", "x_mask")
    assert made._missing()().tolist() == (1, 1, 0) and made.n._sum()() == 10
    assert made.more._sum()() == 1 + 5 + 7 and made[made.x != 3].n().tolist() == [1, 4]
    made._save(tmp_path / "t.parquet")
    assert pq.read_table(tmp_path / "t.parquet")["more"].to_pylist() == [1, None, 5, 7]
    declared = MAPPED[verb](d, function, fields=["more", "x", "n"], shape=(), dtype=int)
    assert declared.n().tolist() == [1, 2, 3, 4]
    with pytest.raises(ValueError, match=r"field 'x'.*missing.*int64.*_fillna.*_probe"):
        declared.x()
    floats = MAPPED[verb](d, function, fields=["more", "x", "n"], shape=(), dtype=float)
    assert np.isnan(floats.more()).tolist() == [False, True, False, False]


@pytest.mark.parametrize("verb", MAPPED)
def test_records_that_functions_return_keep_their_gaps(verb):
    d = dv.View(x=numbers_with_gaps().x, n=np.arange(4))
    made = MAPPED[verb](d, lambda r: r)._probe()
    assert made._fields() == ("x", "n", "x_mask") and made.x._sum()() == 8
    assert made._dropna().n().tolist() == [0, 2, 3]
    again = MAPPED[verb](made.x, lambda v: v * 2)._probe()
    assert again._sum()() == 16 and again._notna()().tolist() == [True, False, True, True]


def test_functions_are_called_once_for_values_and_gaps():
    calls = []

    def add(row):
        calls.append(1)
        return {"x": row.x, "y": row.x + 1}

    made = numbers_with_gaps()._map(add)._probe()
    calls.clear()
    assert made.y._sum()() == 2 + 4 + 5 and len(calls) == 4
    made()
    assert len(calls) == 8


def lacking(values, present):
    """Give a column of which a mask alone tells the gaps."""
    table = {"x": np.asarray(values), "mask": np.array(present, bool), "n": np.arange(len(values))}
    return dv.View(table, _meta={"mask": {"mask_of": "x"}})


UNDER_GAPS = {
    "floats": [3.0, 8.0, 1.0, 9.0],
    "days": np.array([3, 8, 1, 9], "M8[D]"),
    "spans": np.array([3, 8, 1, 9], "m8[s]"),
    "complex": np.array([3, 8, 1, 9j]),
    "objects": np.array(["c", "x", "a", 5], object),
    "texts": np.array(["c", "x", "a", "y"]),
    "bytes": np.array([b"c", b"x", b"a", b"y"]),
    "any length": np.array(["c", "x", "a", "y"], np.dtypes.StringDType()),
    "ints": [3, 8, 1, 9],
}


@pytest.mark.parametrize("name", UNDER_GAPS)
def test_what_lies_under_a_gap_is_none_of_the_distinct_values(name):
    d = lacking(UNDER_GAPS[name], [1, 0, 1, 0])
    known = UNDER_GAPS[name][2::-2]
    has_none = name not in ("texts", "bytes", "any length", "ints")
    found, counts = d.x._unique()(), d.x._unique(counts=True)()
    assert found[:2].tolist() == list(known) and len(found) == 2 + has_none
    assert counts["count"].tolist() == [1, 1, 2][: 2 + has_none]
    if has_none:
        assert dv.View(found)._isna()().tolist() == [False, False, True]


@pytest.mark.parametrize("source", ["a mask", "an Arrow table"])
@pytest.mark.parametrize("kind", ["sum", "mean", "min", "max", "argmin", "argmax", "median"])
@pytest.mark.parametrize("prefix", ["", "nan"])
def test_durations_under_gaps_do_not_count_in_statistics(prefix, kind, source):
    spans, there = np.array([3, 8, 1, 9, 5], "m8[s]"), np.array([1, 0, 1, 0, 1], bool)
    d = lacking(spans, there)
    if source == "an Arrow table":
        d = dv.View(pa.table({"x": pa.array(spans, mask=~there)}))
    wanted = getattr(np, kind)(spans[there])
    wanted = np.flatnonzero(there)[wanted] if kind.startswith("arg") else wanted
    found = getattr(d.x, f"_{prefix}{kind}")()()
    assert found == wanted and np.asarray(found).dtype == np.asarray(wanted).dtype


@pytest.mark.parametrize("name", ["texts", "bytes", "any length"])
def test_texts_under_gaps_do_not_count_in_statistics(name):
    d = lacking(UNDER_GAPS[name], [1, 0, 1, 0])
    assert (d.x._argmin()(), d.x._argmax()(), d.x._nanargmin()()) == (2, 0, 2)
    nothing = UNDER_GAPS[name][:0].dtype.type() if name != "any length" else ""
    empty = lacking(np.where([0, 1, 0, 1], UNDER_GAPS[name], nothing), [1, 0, 1, 0])
    assert not empty.x._any()() and d.x._all()() and lacking(UNDER_GAPS[name], [0] * 4).x._all()()
    if name == "any length":
        assert (d.x._sum()(), d.x._nansum()(), empty.x._sum()()) == ("ca", "ca", "")
        assert (d.x._min()(), d.x._nanmax()(), d.x._max()._dtype().kind) == ("a", "c", "T")
    else:
        with pytest.raises(TypeError, match="min"):
            d.x._min()
    assert d._group(by="n")._min().x()[[0, 2]].tolist() == UNDER_GAPS[name][[0, 2]].tolist()


@pytest.mark.parametrize("kind", ["min", "max", "sum", "prod", "any", "all", "argmin", "argmax"])
@pytest.mark.parametrize(
    ("rows", "dtype"),
    [
        ([[2**60, 2**60 + 1, None], [3], [None, -(2**60), -(2**60) - 1]], "int64"),
        ([[None, 200, 100], [7, None]], "uint8"),
        ([[True, None, False], [None, True]], "bool"),
        ([[1.5, None, float("nan")], [-2.5, 3.5]], "float32"),
    ],
)
def test_statistics_of_lists_with_gaps_are_those_of_what_is_there(rows, dtype, kind):
    x = dv.View(pa.table({"x": pa.array(rows, pa.list_(pa.from_numpy_dtype(dtype)))})).x

    def of(row):
        there = np.array([v for v in row if v is not None and v == v], dtype)
        found = getattr(np, kind)(there)
        return row.index(there[found].item()) if kind.startswith("arg") else found

    expected = np.array([of(row) for row in rows])
    assert_same(getattr(x, f"_{kind}")(axis=1)(), expected)
    assert_same(getattr(np, kind)(x, axis=1)(), expected)
    assert_same(getattr(x[::-1], f"_{kind}")(axis=1, keepdims=True)(), expected[::-1, None])
    assert_same(getattr(x[:1], f"_{kind}")()(), expected[0])
    if kind not in ("any", "all"):
        assert_same(getattr(x, f"_nan{kind}")(axis=1)(), expected)


@pytest.mark.parametrize("suffix", [None, "parquet", "feather"])
@pytest.mark.parametrize("nested", [False, True])
def test_statistics_of_lists_of_objects_with_gaps_are_those_of_what_is_there(
    tmp_path, suffix, nested
):
    texts = [["b", None], ["a", "c", None], [None, "d"]]
    prices = [
        [decimal.Decimal(v) if v else None for v in row] for row in (["1.5", "", "2.5"], [""])
    ]
    prices.append([decimal.Decimal("-3.25"), decimal.Decimal("7.75")])
    shaped = [[[row] for row in rows] if nested else rows for rows in (texts, prices)]
    d = dv.View(pa.table(dict(zip(("t", "p"), map(pa.array, shaped), strict=True))))
    if suffix:
        d._save(tmp_path / f"a.{suffix}")
        d = dv.open(tmp_path / f"a.{suffix}")
    there = [[v for v in row if v is not None] for row in texts]
    for name, function in (("min", min), ("max", max), ("nanmax", max)):
        verb = getattr(d.t, f"_{name}")
        assert verb(axis=1)().tolist() == [function(row) for row in there]
        assert verb()() == function(itertools.chain(*there))
    assert d.t._all(axis=1)().tolist() == [True] * 3
    if not nested:
        assert d.t._argmin(axis=1)().tolist() == [0, 0, 1]
    there = [[v for v in row if v is not None] for row in prices]
    assert d.p._sum(axis=1)().tolist() == list(map(sum, there))
    assert d.p._mean()() == sum(itertools.chain(*there)) / 4
    means = [sum(row) / len(row) if row else math.nan for row in there]
    found = d.p._mean(axis=1)().tolist()
    assert found[::2] == means[::2]
    assert math.isnan(found[1])
    squares = [
        sum((v - mean) ** 2 for v in row) for row, mean in zip(there, means, strict=True) if row
    ]
    assert d.p[::2]._var(axis=1)().tolist() == [squares[0] / 2, squares[1] / 2]
    assert d.p[::2]._median(axis=1)().tolist() == means[::2]
    assert d.p._max(axis=1, initial=2)().tolist() == [max([2, *row]) for row in there]
    assert d.p[::2]._mean(axis=1, where=d.p[::2] > 2)().tolist() == [there[0][1], there[2][1]]


@pytest.mark.parametrize("begin", [-5, 0, 5])
@pytest.mark.parametrize("kind", ["min", "max", "sum", "prod"])
def test_statistics_with_a_first_value_and_a_mask_leave_out_gaps_of_lists(kind, begin):
    rows = [[-2, None, -3], [None, None], [7, None, 4, 9]]
    x = dv.View(pa.table({"x": pa.array(rows, pa.list_(pa.int64()))})).x
    masks = [[True, True, False], [True, False], [False, True, True, True]]
    mask, each = dv.ragged(masks), dv.View(np.array([True, True, False]))
    verb = getattr(x, f"_{kind}")

    def of(chosen):
        pairs = [zip(*pair, strict=True) for pair in chosen]
        there = [[v for v, counts in pair if counts and v is not None] for pair in pairs]
        return np.array([getattr(np, kind)(np.array(v, int), initial=begin) for v in there])

    every = [[True] * len(row) for row in rows]
    by_row = [[of] * len(row) for row, of in zip(rows, each().tolist(), strict=True)]
    for where, chosen in ((True, every), (mask, masks), (each, by_row)):
        expected = of(zip(rows, chosen, strict=True))
        assert_same(verb(axis=1, initial=begin, where=where)(), expected)
    assert_same(verb(axis=1, initial=begin)(), of(zip(rows, every, strict=True)))
    assert_same(x._sum(axis=1, where=mask)(), np.array([-2, 0, 13]))
    np.testing.assert_array_equal(x[::2]._mean(axis=1, where=mask[::2])(), [-2, 6.5])
    assert_same(verb(initial=begin)(), getattr(np, kind)([-2, -3, 7, 4, 9], initial=begin))


def test_statistics_of_lists_of_which_all_values_are_missing():
    lists = pa.array([[None, None], [3]], pa.list_(pa.int64()))
    x = dv.View(pa.table({"x": lists})).x
    for verb in (x._min, x._nanmax, x._argmin):
        with pytest.raises(ValueError, match="all of them are missing"):
            verb(axis=1)()
    assert_same(x._sum(axis=1)(), np.array([0, 3]))
    y = dv.View(pa.table({"y": pa.array([[None], [3.5, 1]])})).y
    with pytest.warns(RuntimeWarning, match="All-NaN"):
        assert_same(y._max(axis=1)(), np.array([np.nan, 3.5]))


@pytest.mark.parametrize("name", ["floats", "days", "objects", "any length"])
def test_functions_of_a_column_do_not_see_what_lies_under_its_gaps(name):
    d = lacking(UNDER_GAPS[name], [1, 0, 1, 0])
    seen = d.x._map(lambda x: x._isna())._probe()
    assert seen().tolist() == [False, True, False, True]
    if name in ("floats", "days"):
        values = dv.View(d.x._map(lambda x: x())._probe()())
        assert values._isna()().tolist() == [False, True, False, True]
    shown = (d.x + "!" if name == "any length" else d.x)._map(str)._probe()()
    assert shown[1] == shown[3] == "–"


def test_gaps_go_where_a_reshape_puts_their_elements():
    d = lacking(np.arange(12.0).reshape(4, 3), [1, 0, 1, 1])
    for reshaped in (d.x._reshape(2, 6), np.ravel(d.x), (d.x + 0)._reshape(6, 2)):
        gaps = reshaped._isna()()
        assert np.array_equal(gaps.reshape(-1), np.repeat([False, True, False, False], 3))
        assert reshaped._sum()() == 66 - 12 and reshaped[:1]._isna()().sum() == gaps[:1].sum()


@pytest.mark.parametrize("left", [(3,), (2, 3), (2, 2, 3)])
@pytest.mark.parametrize("right", [(3,), (3, 2)])
@pytest.mark.parametrize("sides", [(True, True), (True, False), (False, True)])
def test_a_product_of_matrices_lacks_what_is_made_of_a_gap(left, right, sides):
    views, arrays = [], []
    for shape, has_gaps in zip((left, right), sides, strict=True):
        array, present = np.ones(shape), np.arange(shape[0]) != 1 if has_gaps else True
        views.append(lacking(array, present).x if has_gaps else array)
        lacks = np.broadcast_to(np.transpose(present), shape[::-1]).T
        arrays.append(np.where(lacks, array, np.nan))
    product = views[0] @ views[1]
    expected = np.isnan(arrays[0] @ arrays[1])
    assert np.array_equal(product._isna()(), expected)
    if product._ndim():
        assert np.array_equal(product[-1:]._isna()(), expected[-1:])
    with silence():
        found = product._mean()()
    assert found == 3 or (np.isnan(found) and expected.all())


def test_a_column_by_itself_is_described_without_its_gaps():
    d = lacking([1.0, 100.0, 3.0, 200.0], [1, 0, 1, 0])
    for column in (d.x, d.x * 1, dv.View(d.x, whole=np.s_[:]).whole, d.x._reshape(2, 2)):
        (found,) = column._describe().values()
        assert (found["count"], found["missing"], found["max"]) == (4, 2, 3)
    (found,) = d.x[1]._describe().values()
    assert (found["count"], found["missing"]) == (1, 1)
    wide = np.arange(8).reshape(4, 2), np.array([[1, 0], [1, 1], [0, 0], [1, 1]], bool)
    columns = lacking(*wide).x._describe(columns=True)
    assert [one["missing"] for one in columns.values()] == [1, 2]
    assert [one["max"] for one in lacking(*wide)._describe(columns=True).values()][:2] == [6, 7]


GAP = pa.table({"age": [3, None, 5], "x": [1.5, None, 2.5]})


@pytest.mark.parametrize("number", [int, float, complex, [7, 8, 9].__getitem__])
def test_what_is_missing_is_no_number(number):
    ages = dv.View(GAP).age
    with pytest.raises(ValueError, match=r"is missing: d\._isna\(\) is true"):
        number(ages[1])
    with pytest.raises(ValueError, match="is missing"):
        number(ages[1] + 1)
    assert number((ages - 2)[0]) == number(1)


def test_what_is_missing_is_shown_and_not_true():
    table = dv.View(GAP)
    assert f"{table.age[1]:5d} {table.age[0]:02d} {table.x[1]:.2f}" == "– 03 –"
    assert not (table.age + 1)[1] and (table.age + 1)[0]
    assert math.isnan(float(table.x[1]))  # NaN says so itself


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_a_comparison_with_nothing_says_what_finds_what_is_missing(nothing):
    ages = dv.View(GAP).age
    with pytest.warns(RuntimeWarning, match=r"nothing equals .*d\._isna\(\)"):
        assert not (ages == nothing)().any()
    with pytest.warns(RuntimeWarning, match="nothing equals"):
        assert not (nothing == ages)().any()
    assert not (dv.View([1.5, 2.5]) == nothing)().any()  # no gaps: the answer is NumPy's


def test_who_takes_an_array_of_a_column_with_gaps_is_told_of_them():
    d = dv.View(pa.table({"age": [30, None, 50], "x": [1.5, None, 2.5], "n": [1, 2, 3]}))
    with pytest.warns(RuntimeWarning, match=r"an array knows no gaps: .*_dropna.*_fillna"):
        assert np.asarray(d.age).tolist() == [30, 0, 50]
    with pytest.warns(RuntimeWarning, match="a tensor knows no gaps"):
        np.from_dlpack(d.age._fillna(1) * 0 + d.age)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(np.asarray(d.x)[1])  # which tells of itself
        assert np.isnan(np.diff(d.x)).all() and np.isnan(np.cumsum(d.x)[2])
        assert np.asarray(d.age[[0, 2]]).tolist() == [30, 50]
        assert np.asarray(d.age._fillna(7)).tolist() == [30, 7, 50]
        assert np.asarray(d.n).tolist() == [1, 2, 3]
        assert d.age().tolist() == [30, 0, 50]


@pytest.mark.parametrize("suffix", [".h5", ".zarr", ".npz"])
def test_gaps_inside_of_lists_are_saved_with_arrays(suffix, tmp_path):
    rows = {
        "x": pa.array([[1, None], None, [3]]),
        "deep": pa.array([[[1], [2, None], None], None, [None, [], [4]]]),
        "objects": pa.array([[{"x": [1]}, None], [], [{"x": None}]]),
        "pairs": pa.array([[[1, 2], [None, 3]], [], None], pa.list_(pa.list_(pa.int8(), 2))),
    }
    table = pa.table(rows)
    dv.View(table)._save(tmp_path / f"a{suffix}")
    d = dv.open(tmp_path / f"a{suffix}")
    saved = table.to_pydict() | {"objects": [{"x": [[1], None]}, {"x": []}, {"x": [None]}]}
    assert pa.table(d).to_pydict() == saved
    assert d.x._sum()() == 4 and d.deep._isna()[0][1]().tolist() == [False, True]


WITHIN = {
    "deep": [[[1, None], None], None, [], [None], [[], [2]]],
    "deeper": [[[[1], None], None], [[None]], None, [[]], []],
    "flat": [[1, None], [2], None, [], [None]],
}
CHOSEN = {
    "rows": (lambda d: d[[4, 0, 0, 3]], [4, 0, 0, 3]),
    "reversed": (lambda d: d[::-1], [4, 3, 2, 1, 0]),
    "joined": (lambda d: dv.concat(d[3:], d), [3, 4, 0, 1, 2, 3, 4]),
    "filtered": (lambda d: d._filter(lambda row: row.n() > 1), [2, 3, 4]),
    "frozen": (lambda d: d[1:]._freeze(), [1, 2, 3, 4]),
    "frozen stream": (lambda d: d._filter(lambda row: row.n() != 2)._freeze(), [0, 1, 3, 4]),
    "pickled": (lambda d: pickle.loads(pickle.dumps(d[2:])), [2, 3, 4]),
    "batched": (lambda d: d._minibatches(batch_size=2)[1], [2, 3]),
    "loaded": (lambda d: next(iter(d._loader(batch_size=3))), [0, 1, 2]),
    "function": (lambda d: dv.View(lambda n: d[n], _length=5)._probe(), [0, 1, 2, 3, 4]),
    "frozen function": (lambda d: CHOSEN["function"][0](d)._freeze(), [0, 1, 2, 3, 4]),
    "stream": (lambda d: dv.View(lambda: (d[n] for n in range(5)))[:5]._probe(), [0, 1, 2, 3, 4]),
    "frozen samples": (lambda d: CHOSEN["function"][0]([one._freeze() for one in d]), [*range(5)]),
}


@pytest.mark.parametrize("way", CHOSEN)
def test_lists_that_are_missing_in_lists_stay_with_their_rows(way):
    choose, rows = CHOSEN[way]
    d = dv.View(pa.table({"n": range(5), **{name: pa.array(WITHIN[name]) for name in WITHIN}}))
    found = pa.table(choose(d))
    for name, values in WITHIN.items():
        assert found[name].to_pylist() == [values[row] for row in rows], name


def test_a_sample_in_memory_knows_which_values_of_a_list_are_missing():
    d = dv.View(pa.table({"x": pa.array([[None, 2], None, [3]])}))
    for sample in (d[0]._freeze(), pickle.loads(pickle.dumps(d[0]))):
        assert sample.x._isna()().tolist() == [True, False] and not sample.x_mask()
        assert sample.x._sum()() == 2


def test_a_row_by_itself_hands_on_which_of_its_lists_are_missing():
    row = [[1, None], None, []]
    x = dv.View(pa.table({"x": pa.array([row, [[2]]])})).x
    for one in (x[0], x[0]._freeze()):
        assert pa.array(one).to_pylist() == row and pa.array(one[::-1]).to_pylist() == row[::-1]
        assert pa.chunked_array(one).to_pylist() == row


@pytest.mark.clients
def test_a_row_by_itself_is_a_series_that_lacks_its_lists():
    x = dv.View(pa.table({"x": pa.array([[[1, None], None, []], [[2]]])})).x
    first, second, third = x[0]._to_pandas()
    assert first.tolist() == [1, None] and second is None and third.tolist() == []


def test_samples_of_a_function_are_frozen_with_all_their_gaps():
    table = pa.table({"x": pa.array([[None, 2], [], [3]]), "n": pa.array([1, None, 3])})
    d = dv.View(table)
    made = dv.View(lambda number: d[number], _length=3)._probe()._freeze()
    assert pa.table(made).to_pydict() == table.to_pydict()
    assert made.n._isna()().tolist() == [False, True, False]


@pytest.mark.clients
def test_frames_keep_the_values_beside_a_gap_in_a_list():
    import polars

    d = dv.View(polars.DataFrame(WITHIN))
    assert pa.table(d).to_pydict() == WITHIN
    for whole in (d, d._filter(lambda row: True)):
        frame = whole._to_pandas()
        assert pa.Table.from_pandas(frame, preserve_index=False).to_pydict() == WITHIN
        assert frame.flat[1].dtype == np.int64 and frame.flat[0].tolist() == [1, None]


@pytest.mark.clients
@pytest.mark.parametrize("value", [1, 1.5, "a", True])
def test_lists_that_lack_a_list_are_missing_in_frames_as_in_tables(value):
    import polars

    table = pa.table({"x": pa.array([[[value], None], [[value]], None, [None], []])})
    for d in (dv.View(table), dv.View(polars.from_arrow(table))):
        assert d.x_mask().tolist() == [False, True, False, False, True]
        assert pa.table(d).to_pydict() == table.to_pydict() and len(d._dropna()) == 2


@pytest.mark.parametrize(
    "hand_on",
    [
        lambda d: dv.View(g=d.v),
        lambda d: dv.zip(g=d.v),
        lambda d: dv.View(d, g=d.v)._select("g"),
        lambda d: dv.View(g=dv.concat([d.v[:2], d.v[2:]])),
        lambda d: dv.View(g=pickle.loads(pickle.dumps(d.v))),
    ],
)
def test_a_list_column_that_is_handed_on_keeps_which_lists_are_missing(hand_on, tmp_path):
    lists = [[1, None], None, [], [3]]
    pq.write_table(pa.table({"v": pa.array(lists), "x": range(4)}), tmp_path / "t.parquet")
    d = dv.open(tmp_path / "t.parquet")
    found = hand_on(d)
    assert found._fields() == ("g", "g_mask")
    assert pa.table(found)["g"].to_pylist() == lists
    for rows in (slice(1, 3), [3, 1], np.array([False, True, True, False])):
        expected = np.array(lists, object)[rows].tolist()
        assert pa.table(dv.View(h=found.g[rows]))["h"].to_pylist() == expected
    found._save(tmp_path / "again.parquet")
    assert pq.read_table(tmp_path / "again.parquet")["g"].to_pylist() == lists
    without = dv.View(g=d._drop("v_mask").v)
    assert without._fields() == ("g",)
    assert pa.table(without)["g"].to_pylist() == [one or [] for one in lists]


def test_a_list_column_that_becomes_a_field_brings_its_mask():
    d = dv.View(pa.table({"v": pa.array([[1], None])}))
    other = dv.View(x=[1, 2])
    other.g = d.v
    assert other._fields() == ("x", "g", "g_mask")
    other.g = dv.ragged([[1], [2]])
    assert "g_mask" not in other._fields()
    joined = dv.concat([d.v, dv.ragged([[5, 6]])])
    assert pa.table(dv.View(g=joined))["g"].to_pylist() == [[1], None, [5, 6]]


PAIRS = pa.list_(pa.int64(), 2)
PARTS_WITH_GAPS = {
    "in a record": (
        pa.struct({"u": pa.int64()}), [{"u": 1}, {"u": None}], [{"u": 2}], [None, {"u": 3}],
    ),
    "in a record of a record": (
        pa.struct({"s": pa.struct({"u": pa.int64(), "v": pa.string()})}),
        [{"s": {"u": 1, "v": "a"}}],
        [{"s": {"u": None, "v": "b"}}],
        [{"s": {"u": 2, "v": None}}],
    ),
    "in lists of one length": (PAIRS, [[1, None], [3, 4]], [[5, 6]], [[7, 8], None]),
    "in such lists in a record": (
        pa.struct({"l": PAIRS}), [{"l": [1, None]}], [{"l": [5, 6]}], [{"l": [7, 8]}, {"l": None}],
    ),
    "in lists of lists of one length": (
        pa.list_(PAIRS, 2), [[[1, 2], [None, 4]]], [[[5, 6], [7, 8]]], [None, [[5, 6], [7, 8]]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("order", [*itertools.permutations(range(3), 2)])
@pytest.mark.parametrize("where", PARTS_WITH_GAPS)
def test_parts_of_which_some_lack_a_value_are_joined(where, order):
    kind, *parts = PARTS_WITH_GAPS[where]
    tables = [pa.table({"x": pa.array(parts[number], kind)}) for number in order]
    joined = dv.concat(*map(dv.View, tables))
    expected = pa.concat_tables(tables)
    assert pa.table(joined).to_pylist() == expected.to_pylist()
    for key in (slice(1, None), slice(None, None, -1)):
        assert pa.table(joined[key]).to_pylist() == expected.to_pylist()[key]
    if pa.types.is_fixed_size_list(kind):
        assert joined.x._sum()() == sum(
            leaf for leaf in leaves_of(expected["x"].to_pylist()) if leaf is not None
        )


@pytest.mark.parametrize("nested", [False, True], ids=("columns", "records"))
@pytest.mark.parametrize("lists", [[[1], [2, 3]], [[1], None, [None, 2]], [[], [1, 2, 3]]])
@pytest.mark.parametrize("pairs", [[[7, 8], None], [[7, None], [5, 6]], [[7, None], None]])
def test_lists_of_one_length_lack_the_same_beside_lists_of_any(pairs, lists, nested):
    kinds = (PAIRS, pa.list_(pa.int64()))
    if nested:
        kinds = [pa.struct({"l": kind}) for kind in kinds]
        pairs, lists = ([{"l": row} for row in rows] for rows in (pairs, lists))
    tables = [
        pa.table({"x": pa.array(rows, kind)})
        for rows, kind in zip((pairs, lists), kinds, strict=True)
    ]
    for chosen in (tables, tables[::-1]):
        expected = [row for table in chosen for row in table.to_pylist()]
        joined = dv.concat(*map(dv.View, chosen))
        assert pa.table(joined).to_pylist() == expected
        assert pa.table(joined[::-1]).to_pylist() == expected[::-1]
        if not nested:
            columns = [dv.View(table).x for table in chosen]
            for column in (dv.concat(columns), np.concatenate(columns)):
                assert pa.array(column).to_pylist() == [row["x"] for row in expected]


def leaves_of(rows):
    if not isinstance(rows, list):
        return [rows]
    return [leaf for row in rows for leaf in leaves_of(row)]


@pytest.mark.parametrize("transform", [None, lambda sample: sample])
def test_the_mask_of_a_padded_column_takes_the_place_of_that_of_its_lists(transform):
    d = dv.View(pa.table({"x": [1, 2, 3], "t": [[1, 2], None, [3, None]]}))
    expected = [[True, True], [False, False], [True, False]]
    pad = {"t": dv.Pad(0, mask=True)}
    for found in (d._pad(0, mask=True), next(d._loader(3, pad=pad, transform=transform))):
        assert found._fields() == ("x", "t", "t_mask")
        assert found.t().tolist() == [[1, 2], [0, 0], [3, 0]]
        assert found.t_mask().tolist() == expected
    other = dv.View(t=[[1], [2, 3]], t_mask=[1, 2])
    for pads in (lambda: other._pad(0, mask=True), lambda: next(other._loader(2, pad=pad))):
        with pytest.raises(ValueError, match=r"a field t_mask already; d\._rename\(t_mask="):
            pads()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_lists_of_one_length_in_a_batch_lack_their_own_values_alone(size):
    """Samples one by one become an array then; their mask of rows would take all of each."""
    lists = [[1, 2, 3], [None, 7, 8], None, [None], [4], []]
    d = dv.View(pa.table({"g": pa.array(lists, pa.list_(pa.int32()))}))
    stream = dv.View(lambda: iter(d))._loader(size, pad="ragged")
    for batches in (d._loader(size, transform=lambda sample: sample), stream):
        found = [row for batch in batches for row in pa.table(batch)["g"].to_pylist()]
        assert found == lists


def test_no_rows_of_lists_are_padded_with_a_mask():
    d = dv.View(pa.table({"g": pa.array([[1, 2], [None, 7, 8]])}))._pad(0, mask=True)
    assert d[0:0].g_mask().shape == (0, 3)
    assert pa.table(d)["g_mask"].to_pylist() == [[True, True, False], [False, True, True]]


def test_lists_of_codes_of_dates_may_lack_some_in_arrow():
    days = pa.array([datetime.date(2020, 1, 1)])
    codes = pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int8()), days)
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), codes)
    found = pa.table(dv.View(pa.table({"c": lists})))["c"].to_pylist()
    assert found == [[datetime.date(2020, 1, 1)], [None]]


IN_LISTS = {
    "lists": [["b", None, "a"], ["c"], []],
    "deep": [[["b", None], ["a"]], [["c"], [None]], []],
    "objects": [[{"t": "b"}, {"t": None}], [{"t": "a"}, None]],
    "lists in objects": [{"t": ["b", None]}, {"t": ["a"]}],
    "objects of lists": [[{"t": ["b", None]}, {"t": []}], [{"t": ["a"]}]],
}
"""Rows with texts in lists of which some are missing, but no row is."""


@pytest.mark.parametrize("name", IN_LISTS)
@pytest.mark.parametrize("format", ["jsonl", "parquet", "feather", "table"])
def test_statistics_leave_out_texts_that_are_missing_in_lists(name, format, tmp_path):
    rows, path = IN_LISTS[name], tmp_path / f"t.{format}"
    table = pa.table({"x": pa.array(rows)})
    if format == "jsonl":
        path.write_text("".join(json.dumps({"x": row}) + "\n" for row in rows))
    elif format != "table":
        {"parquet": pq.write_table, "feather": pf.write_feather}[format](table, path)
    d = dv.View(table) if format == "table" else dv.open(path)
    x = d.x.t if d.x._fields() else d.x
    values = [*_texts_in(rows)]
    assert (x._max()(), x._min()()) == (max(values), min(values))
    assert x._counts()().tolist() == [(value, values.count(value)) for value in sorted(set(values))]
    assert x._isna()._sum()() == str(rows).count("None")


@pytest.mark.parametrize(
    "rows",
    [
        [[1, None, None], [2], []],
        [["b", None], ["c"], None],  # as many rows as elements
        [[1.5, None, None], None],
        [[True, None], [None, None], None],
        [[[1], None], [[None, None]], None],
    ],
)
@pytest.mark.parametrize("format", ["parquet", "table"])
def test_what_is_missing_in_lists_is_counted_by_values_and_whole_lists(rows, format, tmp_path):
    table = pa.table({"x": pa.array(rows)})
    pq.write_table(table, tmp_path / "t.parquet")
    d = dv.View(table) if format == "table" else dv.open(tmp_path / "t.parquet")
    assert d._missing().x() == d.x._missing()() == str(rows).count("None")


def _texts_in(value):
    """Yield the texts in lists and objects of any depth."""
    if isinstance(value, str):
        yield value
    elif value is not None:
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(inner)


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize(
    ("kind", "values", "among"),
    [
        (pa.int64(), [1, 0, 2, None], [1, None]),
        (pa.bool_(), [True, False], [True, None]),
        (pa.bool_(), [True, False, None], [None]),
        (pa.string(), ["a", "", None], [None, "a"]),
        (pa.float64(), [0.0, 1.0, None], [None, 1.0]),
        (pa.date32(), [datetime.date(1970, 1, 1), datetime.date(2020, 1, 1)], [None]),
        (pa.dictionary(pa.int32(), pa.string()), ["a", "b", None], [None, "b"]),
        (pa.dictionary(pa.int32(), pa.string()), ["a", "b"], ["b", "c"]),
    ],
)
def test_what_is_missing_among_values_is_none_of_them(kind, values, among, invert):
    x, others = (dv.View(pa.table({"x": pa.array(one, kind)})).x for one in (values, among))
    known = {value for value in among if value is not None}
    expected = [value is not None and (value in known) != invert for value in values]
    assert np.asarray(np.isin(x, others, invert=invert)).tolist() == expected
    if None not in values and not pa.types.is_dictionary(kind):
        assert np.asarray(np.isin(x(), others, invert=invert)).tolist() == expected
    if kind == pa.int64():
        rows = dv.ragged([[1, 0], [2]])
        found = np.isin(rows, others, invert=invert)
        found = found() if isinstance(found, dv.View) else found
        assert [row.tolist() for row in found] == [[not invert, invert], [invert]]
