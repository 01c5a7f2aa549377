"""Statistics of groups, as an explorer of tables asks for them: by NumPy by hand, and by pandas."""

import datetime
import decimal
import itertools
import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from counting import Counting
from dataview.index.sizes import sizes
from oracle import assert_same, examples

PLAIN = [
    "sum", "prod", "mean", "var", "std", "min", "max", "argmin", "argmax", "any", "all", "median",
]  # fmt: skip
OF_PRESENT = ["sum", "prod", "mean", "var", "std", "min", "max", "argmin", "argmax", "median"]
KINDS = [*PLAIN, *(f"nan{kind}" for kind in OF_PRESENT)]

PETS = {
    "species": ["dog", "cat", "dog", "bird", "cat"],
    "island": ["A", "A", "B", "A", "A"],
    "price": [10.0, 4.0, 30.0, 2.0, 8.0],
    "legs": [4, 4, 3, 2, 4],
}


def pets():
    return dv.View(**{name: np.array(values) for name, values in PETS.items()})


def by_hand(kind, values, rows):
    """Give a statistic of some rows by NumPy; of the place of an extreme the number of the row."""
    with np.errstate(all="ignore"):
        found = getattr(np, kind)(values[rows], axis=0)
    return rows[found] if "arg" in kind else found


@examples(400)
@given(st.data())
def test_every_statistic_is_that_of_each_group(data):
    draws = np.random.default_rng(data.draw(st.integers(0, 1000)))
    kind = data.draw(st.sampled_from(KINDS))
    dtype = data.draw(st.sampled_from(["f8", "f4", "i4", "u1", ">f8", "?", "i8"]))
    count = data.draw(st.integers(1, 60))
    shape = (count, *data.draw(st.sampled_from([(), (1,), (3,), (2, 2)])))
    label = draws.integers(0, data.draw(st.sampled_from([1, 3, 50])), count)
    x = (draws.normal(size=shape) * 3).astype("i4" if dtype in ("u1", "?") else dtype).astype(dtype)
    if x.dtype.kind == "f" and data.draw(st.booleans()):
        x[draws.random(shape) < 0.2] = np.nan
    if kind.startswith("nan") and x.dtype.kind == "f":
        first = np.unique(label, return_index=True)[1]
        x[first] = 1  # something is present in each group
    d = dv.View(x=x, label=label)
    with sizes.set(part_bytes=data.draw(st.sampled_from([64, 300, 1 << 22]))):
        found = getattr(d._group(by="label"), f"_{kind}")().x()
    groups = [np.flatnonzero(label == value) for value in np.unique(label)]
    expected = np.array([by_hand(kind, x, rows) for rows in groups])
    assert found.dtype == expected.dtype.newbyteorder("=")
    if expected.dtype.kind in "biu":
        assert_same(found, expected)
    else:
        tolerance = 1e-5 if x.dtype == "f4" else 1e-12
        np.testing.assert_allclose(found, expected, tolerance, tolerance)


MEANT = {
    "times of a zone": pa.array([1, 2, 1], pa.timestamp("us", "Europe/Rome")),
    "times of day": pa.array([datetime.time(1), datetime.time(2), datetime.time(1)]),
    "decimals": pa.array([*map(decimal.Decimal, ("1.50", "2.00", "1.50"))], pa.decimal128(9, 2)),
    "times with a gap": pa.array([1, 2, 1, None], pa.timestamp("us", "Europe/Rome")),
}


@pytest.mark.parametrize("column", MEANT.values(), ids=MEANT)
def test_keys_and_extremes_and_distinct_values_keep_their_type_in_arrow(column):
    table = pa.table({"t": column, "n": pa.array([1, 1, 2, 3][: len(column)])})
    d = dv.View(table)
    values = sorted({*column.to_pylist()} - {None})
    keys = pa.table(d._group(by="t")._mean())["t"]
    assert keys.type == column.type and keys.to_pylist()[:2] == values
    extremes = pa.table(d._filter(d.n < 3)._group(by="n")._min())["t"]
    own = column.to_pylist()
    assert extremes.type == column.type and extremes.to_pylist() == [min(own[:2]), own[2]]
    known = dv.View(pa.table({"t": column.drop_null()})).t
    distinct = pa.table(dv.View(t=known._unique()))["t"]
    assert distinct.type == column.type and distinct.to_pylist() == values
    counted = pa.table(known._unique(counts=True))
    assert counted["value"].type == column.type and counted["count"].to_pylist() == [2, 1]
    meta = {name: value for name, value in known._meta.items() if name != "title"}
    assert meta and dict(known._min()._meta) == dict(known._max()._meta) == meta
    assert "title" not in known._with_meta(title="all of them")._max()._meta


@examples(200)
@given(st.data())
def test_quantiles_are_those_of_each_group(data):
    draws = np.random.default_rng(data.draw(st.integers(0, 1000)))
    count = data.draw(st.integers(1, 60))
    label = draws.integers(0, 4, count)
    shape = (count, *data.draw(st.sampled_from([(), (2,)])))
    dtype = data.draw(st.sampled_from(["f8", "f4", "i4", "m8[s]"]))
    x = draws.integers(-9, 9, shape).astype("i4" if dtype == "m8[s]" else dtype).astype(dtype)
    q = data.draw(st.sampled_from([0.3, [0.1, 0.5], [], np.array([[0.2, 1.0]])]))
    method = data.draw(st.sampled_from(["linear", "lower", "midpoint", "weibull"]))
    if dtype == "m8[s]":
        q, method = data.draw(st.sampled_from([0, 1])), "lower"
    has_gaps = dtype[0] == "f" and data.draw(st.booleans())
    if has_gaps:
        x[draws.random(shape) < 0.3] = np.nan
        x[np.unique(label, return_index=True)[1]] = 1
    kind = "nanquantile" if has_gaps else "quantile"
    with sizes.set(part_bytes=100, quantile_bytes=data.draw(st.sampled_from([1, 200, 1 << 20]))):
        found = getattr(dv.View(x=x)._group(by=label), f"_{kind}")(q, method=method).x()
    expected = [
        getattr(np, kind)(x[label == n], q, axis=0, method=method) for n in np.unique(label)
    ]
    expected = np.array(expected)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_allclose(found.astype(float), expected.astype(float), 1e-6, 1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_with_texts_beside_numbers_has_all_statistics(kind):
    day = np.array(["2020-01-01", "2020-01-05", "NaT"], "M8[D]")
    name = np.array(["x", None, "z"], object)
    d = dv.View(name=name, city=["R", "B", "R"], n=[1.0, 2.0, 3.0], day=day, g=["a", "b", "a"])
    found = getattr(d._group(by="g"), f"_{kind}")()
    assert found.g().tolist() == ["a", "b"] and "n" in found._fields()
    if kind.removeprefix("nan") in ("min", "max"):
        is_least = kind.endswith("min")
        assert found.name().tolist() == ["x" if is_least else "z", None]
        assert found.city().tolist() == ["R", "B"]
        expected = day[:2] if kind.startswith("nan") else np.array(["NaT", "2020-01-05"], "M8[D]")
        assert_same(found.day(), expected)
        assert not found._meta
    else:
        assert "name" not in found._fields() and "city" not in found._fields()
        assert found._meta["left_out"].startswith("name, city")
        assert "left_out=name, city" in repr(found)
        with pytest.raises(dv.FieldError, match=rf"'city' has no {kind} of groups, .*holds <U1"):
            found.city  # noqa: B018


def test_objects_that_are_numbers_have_statistics():
    spans = [datetime.timedelta(n) for n in (1, 2, 4)]
    d = dv.View(n=np.array([1, 2.5, None], object), t=np.array(spans, object), g=[0, 1, 0])
    groups = d._group(by="g")
    with pytest.raises(TypeError, match="sum of groups, field 'n': unsupported operand"):
        groups._sum().n()
    groups = d._select("n", "g")._group(by="g")
    assert groups._nansum().n().tolist() == [1, 2.5] and groups._nanmean().n().tolist() == [1, 2.5]
    spans = d._select("t", "g")._group(by="g")._sum().t().tolist()
    assert spans == [datetime.timedelta(5), datetime.timedelta(2)]
    assert groups._max().n().tolist() == [1, 2.5]
    assert groups._nanmedian().n().tolist() == [1, 2.5]


def test_a_group_without_a_value_has_nan_as_numpy_has():
    x = np.array([np.nan, np.nan, 1.0])
    days = np.array(["NaT", "NaT", "2020-01-01"], "M8[D]")
    groups = dv.View(x=x, day=days)._group(by=[0, 0, 1])
    for kind, told in {"mean": "Mean of empty", "min": "All-NaN", "median": "All-NaN"}.items():
        with pytest.warns(RuntimeWarning, match=told):
            found = getattr(groups, f"_nan{kind}")().x()
        assert_same(found, np.array([np.nan, 1]))
    with pytest.warns(RuntimeWarning, match="All-NaN"):
        assert_same(groups._nanmin().day(), days[1:])
    assert groups._nansum().x().tolist() == [0, 1]
    for name, rows in {"x": x, "day": days, "x and y": np.stack([x, np.arange(3)], axis=1)}.items():
        told = rf"nanargmin of groups, field '{name}': All-NaN .* the group 'a'; .* _dropna\(\)"
        with pytest.raises(ValueError, match=told):
            dv.View({name: rows})._group(by=[*"aab"])._nanargmin()()


DAYS = np.array(["2020-01-05", "NaT", "2020-01-01", "2020-01-09"] * 8, "M8[D]")


@pytest.mark.parametrize("times", [DAYS, DAYS - DAYS[0], DAYS.astype(">M8[s]")])
@pytest.mark.parametrize("kind", ["argmin", "argmax", "nanargmin", "nanargmax"])
def test_places_of_extremes_of_times_are_rows_of_the_view(kind, times, rng):
    label = rng.permutation(np.arange(32) % 5)
    numbers = np.where(np.isnat(times), np.nan, times.astype("i8"))
    for values, same in ((times, numbers), (times[~np.isnat(times)], numbers[~np.isnat(times)])):
        d = dv.View(when=values, number=same, label=label[: len(values)])
        for view, back in ((d, slice(None)), (d[::-1], slice(None, None, -1))):
            groups = [
                np.flatnonzero(label[: len(values)][back] == n)
                for n in np.unique(label[: len(values)])
            ]
            expected = [by_hand(kind, same[back], rows) for rows in groups]
            for size in (8, 100, 1 << 20):
                with sizes.set(part_bytes=size):
                    found = getattr(view._group(by="label"), f"_{kind}")()
                    assert_same(found.when(), np.array(expected))
                    assert_same(found.number(), np.array(expected))


OF_NOTHING = {
    "floats": np.array([np.nan, 2, 3]), "complex numbers": np.array([np.nan, 2j, 3]),
    "durations": np.array(["NaT", 2, 3], "m8[s]"), "objects": np.array([None, 2, 3], object),
}  # fmt: skip


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize("name", OF_NOTHING)
def test_sums_and_products_of_nothing_are_those_of_numpy(name, size):
    values, label = OF_NOTHING[name], ["a", "b", "b"]
    d, none = dv.View(x=values, n=[1, 2, 3]), values[:0]
    with sizes.set(part_bytes=size):
        found = d._group(by=label)._nansum().x()
        assert_same(found, np.array([np.sum(none), np.sum(values[1:])], values.dtype))
        if name != "durations":
            found = d._group(by=label)._nanprod().x()
            assert_same(found, np.array([np.prod(none), np.prod(values[1:])], values.dtype))
        masked = dv.View(x=values[1:], x_mask=[False, False], _meta={"x_mask": {"mask_of": "x"}})
        found = masked._group(by=np.array(["a", "b"]))._sum().x()
        assert_same(found, np.array([np.sum(none)] * 2, values.dtype))


@pytest.mark.filterwarnings("ignore:All-NaN:RuntimeWarning")
@pytest.mark.parametrize("size", [1, 64, 1 << 20])
@pytest.mark.parametrize("dtype", ["i8", "u1", "?", "f4"])
@pytest.mark.parametrize("present", [[0, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 0, 0, 1, 1]])
def test_quantiles_of_what_a_mask_leaves_are_those_of_all_rows(present, dtype, size):
    values, label = np.array([3, 0, 7, 2, 5]).astype(dtype), np.array([*"aabba"])
    d = dv.View(x=values, x_mask=np.array(present, bool), _meta={"x_mask": {"mask_of": "x"}})
    groups, parts = d._group(by=label), [d[label == letter] for letter in "ab"]
    asked = [("median", (), {}), ("nanmedian", (), {})]
    for q in (0.5, [0.2, 0.5], 1):
        for method in ("linear", "lower", "weibull"):
            asked += [(name, (q,), {"method": method}) for name in ("quantile", "nanquantile")]
    with sizes.set(quantile_bytes=size, part_bytes=size):
        for name, given_q, options in asked:
            found = getattr(groups, f"_{name}")(*given_q, **options).x
            expected = [getattr(part.x, f"_{name}")(*given_q, **options)() for part in parts]
            assert found._dtype() == found().dtype
            np.testing.assert_allclose(found(), expected, 1e-7)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("ddof", [0, 1, 2, 3])
@pytest.mark.parametrize("kind", ["var", "std", "nanvar", "nanstd"])
def test_spreads_of_few_rows_are_those_of_numpy(kind, ddof):
    x, label = np.array([1.0, 3, 5, 5, 7, 8, 9, 2]), np.array([*"aabbcccd"])
    found = getattr(dv.View(x=x)._group(by=label), f"_{kind}")(ddof=ddof).x()
    expected = [getattr(np, kind)(x[label == letter], ddof=ddof) for letter in "abcd"]
    np.testing.assert_allclose(found, expected, 1e-14)


@pytest.mark.parametrize("gap", [{}, {"na_object": None}, {"na_object": np.nan}])
def test_extremes_of_texts_of_any_length_are_texts(gap, tmp_path):
    texts = np.array(["b", gap.get("na_object", "z"), "a", "c"], np.dtypes.StringDType(**gap))
    groups = dv.View(t=texts)._group(by=[0, 1, 0, 2])
    for size in (1, 1 << 20):
        with sizes.set(part_bytes=size):
            least, most = groups._min(), groups._max()
            assert least.t().tolist() == ["a", None if gap else "z", "c"]
            assert most.t().tolist() == ["b", None if gap else "z", "c"]
    least._save(tmp_path / "least.parquet")
    assert dv.open(tmp_path / "least.parquet").t()[[0, 2]].tolist() == ["a", "c"]


# ---------------------------------------------------------------- one name, several keys


def test_the_label_has_the_name_of_its_field_everywhere():
    d = pets()
    for groups in (d._group(by="species"), d._group(by=d.species), d._group(by=["species"])):
        assert groups._mean()._fields() == ("species", "price", "legs")
        assert groups._counts()._fields() == ("species", "count")
        assert_same(groups._counts().count(), np.array([1, 2, 2]))
    assert d._group(by=d.price > 5)._counts()._fields() == ("label", "count")
    assert d._group(by={"dear": d.price > 5})._sum()._fields() == ("dear", "price", "legs")
    with pytest.raises(ValueError, match=r"'count' .*_rename\(count=...\)"):
        d._rename(legs="count")._group(by="count")._counts()


def test_several_keys():
    groups = pets()._group(by=("species", "island"))
    assert len(groups) == 4
    pairs = [(label, rows.price().tolist()) for label, rows in groups]
    assert pairs == [
        (("bird", "A"), [2.0]), (("cat", "A"), [4.0, 8.0]),
        (("dog", "A"), [10.0]), (("dog", "B"), [30.0]),
    ]  # fmt: skip
    assert groups["dog", "B"].legs().tolist() == [3]
    found = groups._mean()
    assert found._fields() == ("species", "island", "price", "legs")
    assert found.island().tolist() == [*"AAAB"] and found.price().tolist() == [2, 6, 10, 30]
    assert groups._counts().count().tolist() == [1, 2, 1, 1]
    with pytest.raises(KeyError, match=r"no group \('dog', 'C'\).*there are \('bird', 'A'\)"):
        groups["dog", "C"]
    with pytest.raises(KeyError, match="a label for each of"):
        groups["dog"]
    with pytest.raises(ValueError, match="different names"):
        pets()._group(by=["legs", "legs"])


@examples(150)
@given(st.data())
def test_several_keys_group_the_rows_that_have_the_same_of_each(data):
    draws = np.random.default_rng(data.draw(st.integers(0, 1000)))
    count = data.draw(st.integers(0, 80))
    makers = {
        "i": lambda: draws.integers(-2, 2, count) * data.draw(st.sampled_from([1, 10**9])),
        "f": lambda: draws.choice([0.5, 1.5, np.nan], count),
        "t": lambda: draws.choice(["a", "bb", ""], count),
        "o": lambda: draws.choice(np.array(["u", "v", None], object), count),
        "T": lambda: draws.choice(["p", "q"], count).astype(np.dtypes.StringDType()),
        "d": lambda: draws.integers(0, 2, count).astype("M8[D]"),
    }
    names = data.draw(
        st.lists(st.sampled_from(sorted(makers)), min_size=2, max_size=4, unique=True)
    )
    keys = {name: makers[name]() for name in names}
    gaps = data.draw(st.booleans())
    rows = {}
    for row, key in enumerate(zip(*(values.tolist() for values in keys.values()), strict=True)):
        plain = tuple(None if value is None or value != value else value for value in key)
        if gaps or None not in plain:
            rows.setdefault(plain, []).append(row)
    order = sorted(rows, key=missing_last)
    d = dv.View(row=np.arange(count), **keys)
    groups = d._group(by=names, dropna=not gaps)
    with sizes.set(part_bytes=data.draw(st.sampled_from([64, 1 << 22]))):
        found = groups._sum()
        assert found.row().tolist() == [sum(rows[key]) for key in order]
        assert [part.row().tolist() for _, part in groups] == [rows[key] for key in order]
    assert groups._counts().count().tolist() == [len(rows[key]) for key in order]


@pytest.mark.parametrize("dropna", [True, False])
def test_of_more_combinations_than_have_numbers_those_that_occur_are_groups(dropna, rng):
    own = rng.integers(0, 400, (1000, 12)).astype(float)
    own = own[rng.permutation(np.arange(3000) % 1000)]  # three rows of each
    own[rng.random(3000) < 0.3, rng.integers(0, 12)] = np.nan
    keys = {f"k{n}": values for n, values in enumerate(own.T)}
    d, present = dv.View(x=np.arange(3000), **keys), ~np.isnan(own).any(axis=1)
    rows = present if dropna else np.ones(3000, bool)
    labels, codes = np.unique(np.nan_to_num(own[rows], nan=1e9), axis=0, return_inverse=True)
    groups = d._group(by=[*keys], dropna=dropna)
    with sizes.set(part_bytes=1 << 14):
        found = groups._sum()
        assert_same(
            np.stack([found[name]() for name in keys], axis=1),
            np.where(labels == 1e9, np.nan, labels),
        )
        sums = np.bincount(codes.reshape(-1), np.flatnonzero(rows))
        assert found.x().tolist() == sums.tolist()
        assert groups._counts().count().tolist() == np.bincount(codes.reshape(-1)).tolist()
        row = np.flatnonzero(present)[7]
        same = np.flatnonzero((own == own[row]).all(axis=1))
        assert groups[tuple(own[row])].x().tolist() == same.tolist()
    d.k0[row], d.k1[row] = own[present][[8, 9], [0, 1]]  # of other rows
    with pytest.raises(ValueError, match="did not occur together"):
        groups._mean().x()


def missing_last(key):
    return [(1, 0) if value is None else (0, value) for value in key]


def test_missing_keys_are_left_out_or_a_group_of_their_own():
    d = dv.View(x=[1, 2, 4, 8], city=np.array(["R", None, "B", None], object))
    assert d._group(by="city")._sum().x().tolist() == [4, 1]
    groups = d._group(by="city", dropna=False)
    assert groups._sum()._asdict()["city"].tolist() == ["B", "R", None]
    assert groups._sum().x().tolist() == [4, 1, 10]
    assert groups[None].x().tolist() == [2, 8]
    assert [label for label, _ in groups] == ["B", "R", None]
    floats = dv.View(x=[1, 2], k=[np.nan, 0.5])._group(by="k", dropna=False)
    assert_same(floats._sum().k(), np.array([0.5, np.nan]))
    assert floats[np.nan].x().tolist() == [1]
    whole = d._dropna()._group(by="city", dropna=False)
    assert whole._sum().city().tolist() == ["B", "R"]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_numbers_that_are_missing_in_a_table_are_no_label_and_no_value(name, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("k,age,city\n0,31,R\n,40,B\n0,,R\n7,5,\n")
    if name == "t.parquet":
        dv.open(path)._save(tmp_path / name)
    d = dv.open(tmp_path / name)
    found = d._group(by="k")._nanmean()
    assert found._fields() == ("k", "age") and found.k().tolist() == [0, 7]
    assert found.age().tolist() == [31, 5]
    assert d._group(by="k", dropna=False)._counts().k().tolist() == [0, 7, None]
    assert d._group(by="k")._nanmax()._asdict()["age"].tolist() == [31, 5]
    some = d._select("age", "city")._group(by="city")
    assert some._nanmin().age().tolist() == [40, 31] and some._nanmedian().age().tolist() == [
        40,
        31,
    ]
    least = d._group(by="city")._nanmin()
    assert least._fields() == ("city", "k", "age", "k_mask", "age_mask")
    assert least.k_mask().tolist() == [False, True] and least.age_mask().all()
    assert "  B           –     40\n" in repr(least)


EXTREMES = {
    "large": np.array([2**60, 2**60 + 1, -(2**60), 7, 2**60 + 3]),
    "small": np.array([200, 3, 0, 7, 9], "u1"),
    "truth": np.array([True, False, True, True, False]),
    "texts": np.array(["b", "ab", "c", "", "z"]),
    "pairs": np.arange(10).reshape(5, 2),
}


@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("kind", ["min", "max", "nanmin", "nanmax"])
def test_extremes_of_columns_with_gaps_stay_what_they_are(name, kind):
    values, there = EXTREMES[name], np.array([True, True, False, False, True])
    d = dv.View(a=values, a_mask=there, key=[0, 0, 1, 1, 2], _meta={"a_mask": {"mask_of": "a"}})
    for view in (d, d._rename(a="inner.a"), dv.View(part=d._drop("key"), key=d.key)):
        found = getattr(view._group(by="key"), f"_{kind}")()
        own = found.part if "part" in found._fields() else found
        column, mask = (name for name in own._fields() if name != "key")
        least = min if "min" in kind else max
        expected = [least(values[:2].tolist()), values[4].tolist()]
        if values.ndim > 1:
            expected = [getattr(values[:2], kind.removeprefix("nan"))(0).tolist(), [8, 9]]
        assert own[column]()[[0, 2]].tolist() == expected
        assert own[column]._dtype() == values.dtype
        assert own[mask]().tolist() == [True, False, True] and mask == f"{column}_mask"
        assert not own[column]()[1].any() if name != "texts" else own[column]()[1] == ""


@pytest.mark.parametrize("kind", [k for k in KINDS if not k.startswith("nan")])
@examples(30)
@given(st.integers(0, 10_000))
def test_what_a_mask_says_is_missing_counts_in_no_group(kind, seed):
    draws = np.random.default_rng(seed)
    there = draws.random(40) < 0.7
    key = draws.integers(0, 4, 40)
    there[np.unique(key, return_index=True)[1]] = True  # each group has a value
    columns = {
        "n": draws.integers(-9, 9, 40), "ok": draws.random(40) < 0.5,
        "x": np.where(there, draws.normal(size=40), np.nan),
    }  # fmt: skip
    whole = dv.View(**{name: values[there] for name, values in columns.items()})
    rows, groups = np.flatnonzero(there), whole._group(by=key[there])
    for name, values in columns.items():
        hidden = np.where(there, values, np.nan if name == "x" else 0).astype(values.dtype)
        gaps = {f"{name}_mask": {"mask_of": name}}
        d = dv.View({name: hidden, f"{name}_mask": there}, _meta=gaps)
        for view in (d, dv.zip(**{name: d[name]})):
            with sizes.set(part_bytes=100):
                found = getattr(view._group(by=key), f"_{kind}")()[name]()
            expected = getattr(groups, f"_{kind}")()[name]()
            if kind[:3] == "arg":
                expected = rows[expected]
            np.testing.assert_allclose(found.astype(float), expected.astype(float), 1e-12, 1e-12)


# ---------------------------------------------------------------- a small view


def test_a_statistic_is_a_table_of_known_length_that_is_shown_sorted_and_indexed():
    found = pets()._group(by="species")._mean()
    assert len(found) == 3 and found._shape() == (3,)
    assert repr(found) == (
        "View of 3 rows, 96 B, computed, read-only, left_out=island\n"
        "  species    price     legs\n"
        "  <U4      float64  float64\n"
        "  bird         2.0      2.0\n"
        "  cat          6.0      4.0\n"
        "  dog         20.0      3.5"
    )
    assert found[1]()["price"] == 6 and found[::-1].price().tolist() == [20, 6, 2]
    dear = found._sorted(by="price", reverse=True)
    assert dear.species().tolist() == ["dog", "cat", "bird"]
    assert "dog         20.0" in repr(dear._head(1)) and "cat" not in repr(dear._head(1))
    assert found[found.price > 3].species().tolist() == ["cat", "dog"]
    assert (found.price - found.price._mean())().tolist() == pytest.approx(
        [-22 / 3, -10 / 3, 32 / 3]
    )
    joined = pets()._join(found._select("species", "price")._rename(price="mean"), on="species")
    assert joined.mean().tolist() == [20, 6, 20, 2, 6]
    assert_same(pickle.loads(pickle.dumps(found))(), found())


def test_a_display_of_much_data_or_of_a_function_of_the_user_finds_nothing(monkeypatch):
    mapped = pets()._map(lambda row: row.price() * 2, shape=(), dtype=float)
    d = dv.zip(species=pets().species, price=pets().price, twice=mapped)
    assert "float64  (3,)" in repr(d._group(by="species")._mean())
    monkeypatch.setattr("dataview.show.values.READ_BYTES", 8)
    found = pets()._group(by="species")._mean()
    assert "  price    float64  (?,)\n" in repr(found)
    assert len(found) == 3 and "  price    float64  (3,)\n" in repr(found)
    assert found.price().tolist() == [2, 6, 20] and found.legs().tolist() == [2, 4, 3.5]
    assert "bird         2.0      2.0" in repr(found)


def test_a_statistic_reads_the_labels_and_other_fields_once_when_they_are_needed():
    key, x = Counting(lambda n: (n + 1) % 2), Counting(float)
    d = dv.View(key=key.probed(4), x=x.probed(4))
    groups = d._group(by="key")
    assert not key.asked and not x.asked
    found = groups._mean()
    assert found._fields() == ("key", "x") and found.x._dtype() == "f8" and not key.asked
    assert len(found) == 2 and key.asked and not x.asked
    assert found.key().tolist() == [0, 1] and not x.asked
    assert "2.0" not in repr(found) and not x.asked  # a display calls no function of a user
    assert found.x().tolist() == [2, 1] and x.asked == [0, 1, 2, 3]
    assert "2.0" in repr(found) and repr(found[:1]) and x.asked == [0, 1, 2, 3]


LABELS = {
    "all integers of a range": lambda draws, n: draws.integers(-3, 40, n),
    "large ones": lambda draws, n: draws.integers(0, 40, n).astype("u8") + np.uint64(2**63 - 20),
    "some of them": lambda draws, n: draws.integers(0, 40, n).astype("u2") * 7,
    "far apart": lambda draws, n: draws.integers(0, 40, n) * 2**40,
    "one that is late": lambda draws, n: np.append(draws.integers(0, 9, n - 1), 20).astype("i1"),
    "a lesser one that is late": lambda draws, n: np.append(draws.integers(0, 9, n - 1), -2),
    "a greater one": lambda draws, n: np.append(draws.integers(0, 9, n - 1), 500).astype(">i4"),
    "one that is late, between": lambda draws, n: np.append(draws.integers(0, 9, n - 1) * 2, 3),
    "truth": lambda draws, n: draws.random(n) < 0.001,
    "days": lambda draws, n: np.datetime64("2020-01-01") + draws.integers(0, 9, n),
    "moments": lambda draws, n: draws.integers(0, 9, n).astype("M8[h]").astype(">M8[ns]"),
    "times with gaps": lambda draws, n: np.where(
        draws.random(n) < 0.1, np.timedelta64("NaT"), draws.integers(0, 9, n).astype("m8[s]")
    ),
    "floats with gaps": lambda draws, n: np.where(draws.random(n) < 0.1, np.nan, np.arange(n) % 5),
    "many far apart": lambda draws, n: draws.integers(0, 9000, n) * 2**40,
    "floats": lambda draws, n: draws.choice([0.0, 1.5, -1e300, np.inf], n),
    "half floats": lambda draws, n: draws.integers(0, 40, n).astype(">f2"),
    "texts": lambda draws, n: draws.integers(0, 40, n).astype("U"),
    "texts of eight letters": lambda draws, n: np.char.add("größe 0", draws.choice(list("abc"), n)),
    "texts of nine": lambda draws, n: np.char.add("letters 1", draws.choice(list("abc"), n)),
    "bytes": lambda draws, n: draws.integers(0, 4000, n).astype("S5"),
    "other letters": lambda draws, n: draws.choice(["a", "ab", "é", "ש"], n),
    "other letters, late": lambda draws, n: np.append(draws.choice(["aa", "ab"], n - 1), "ש"),
}  # fmt: skip


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("dropna", [True, False])
def test_the_labels_of_many_rows_are_all_found(kind, dropna, rng):
    n = 50_000
    label, x = LABELS[kind](rng, n), rng.normal(size=n)
    present = ~np.isnan(label) if label.dtype.kind in "fmM" else np.ones(n, bool)
    values, codes = np.unique(label[present], return_inverse=True)
    rows, sums = np.bincount(codes), np.bincount(codes, x[present])
    if not dropna and not present.all():
        values = np.append(values, label[~present][:1])
        rows, sums = np.append(rows, sum(~present)), np.append(sums, x[~present].sum())
    d = dv.View(x=x, label=label)
    with sizes.set(part_bytes=rng.choice([1 << 19, 1 << 23])):
        groups = d._group(by="label", dropna=dropna)
        found = groups._sum()
        assert_same(found.label(), values)
        np.testing.assert_allclose(found.x(), sums, 1e-9, 1e-9)
        assert groups._counts().count().tolist() == rows.tolist()
        assert d._group(by="label", dropna=dropna)._counts().count().tolist() == rows.tolist()
        assert_same(d.label._unique()(), np.unique(label))
        both = d._group(by={"one": d.label, "more": rng.random(n) < 0.5}, dropna=dropna)
        assert len(both._sum()) == len(both._counts()) and both._counts().count._sum()() == sum(
            rows
        )


@pytest.mark.parametrize("low", [-30_000, 0, 2**40])
def test_many_integers_near_to_each_other_are_all_counted(low, rng):
    label = rng.permutation(np.delete(np.repeat(np.arange(80_000), 3), slice(6, 12))) + low
    found = dv.View(label=label)._group(by="label")._counts()
    labels, counts = np.unique(label, return_counts=True)
    assert_same(found.label(), labels)
    assert_same(found.count(), counts)


def test_groups_of_nothing():
    d = dv.View(x=np.empty(0), key=np.empty(0, int))
    for kind in KINDS:
        assert len(getattr(d._group(by="key"), f"_{kind}")()()) == 0
    assert len(d._group(by="key")) == 0 and len(d._group(by=["key", "x"])._counts()()) == 0


def test_labels_that_are_written_later_are_told():
    d = pets()
    groups = d._group(by="legs")
    assert len(groups) == 3
    d.legs[0] = 9
    with pytest.raises(ValueError, match=r"row 0 holds 9, .*make them anew"):
        groups._sum()()
    d.legs[0] = 2
    assert groups._sum().price().tolist() == [12, 30, 12]
    d.legs[2] = 2
    with pytest.raises(ValueError, match="no row is in the group"):
        groups._sum()()


@pytest.mark.parametrize("first", [0, -3, 2**63 - 900, 2**63])
@pytest.mark.parametrize("count", [9, 700])
def test_labels_that_are_numbers_in_a_row_are_told_too(count, first, rng):
    dtype = np.min_scalar_type(first + count) if first > 0 else np.dtype(int)
    key = rng.permutation(np.arange(3 * count) % count).astype(dtype) + dtype.type(first)
    d = dv.View(x=rng.normal(size=(len(key), 6)), y=rng.normal(size=len(key)), key=key)
    groups = d._group(by="key")
    assert len(groups) == count
    bounds = np.iinfo(dtype)
    for written in {bounds.min, first - 1, first + count, bounds.max}:
        d.key[5] = np.array(max(written, bounds.min), dtype)
        for kind in ("mean", "std", "max", "median"):
            found = getattr(groups, f"_{kind}")()
            for name in ("x", "y"):
                with pytest.raises(ValueError, match=rf"row 5 holds {written}, .*make them anew"):
                    found[name]()


# ---------------------------------------------------------------- other fields, streams


def test_fields_in_fields_have_statistics_and_ragged_ones_none():
    pos = dv.field(np.s_[0:2], x=0, y=1)
    d = dv.View(p={"a": [1.0, 2.0, 4.0], "t": [*"xyz"]}, r=[[1], [2, 3], []], k=[0, 1, 0])
    found = d._group(by="k")._sum()
    assert found._fields() == ("k", "p") and found.p.a().tolist() == [5, 2]
    assert found._meta["left_out"] == "p.t, r"
    windows = dv.View(np.arange(9.0).reshape(3, 3), pos=pos, key=np.s_[2:3])
    assert windows._group(by=[0, 1, 0])._mean().pos.y().tolist() == [4, 4]
    assert windows._group(by="key")._max().pos().tolist() == [[0, 1], [3, 4], [6, 7]]
    with pytest.raises(dv.RaggedError, match="those of 'r' differ in length"):
        d._group(by="r")
    with pytest.raises(TypeError, match=r"'p' has the fields \['a', 't'\].*by=d.p"):
        d._group(by="p")
    assert d._group(by=d.p)._counts()._fields() == ("a", "t", "count")
    with pytest.raises(ValueError, match="labels of shape"):
        dv.View(x=np.zeros((3, 2)))._group(by="x")


def rows():
    for n in range(7):
        yield {"kind": "ab"[n % 2], "x": float(n), "v": np.array([n, 1])}


@pytest.mark.parametrize("source", [rows, rows()], ids=["again", "once"])
def test_groups_of_a_stream(source):
    d = dv.View(source)._probe()
    groups = d._group(by="kind")
    assert repr(groups) == "Groups by 'kind' of a stream"
    assert groups._mean().x().tolist() == [3, 3] and groups._max().v().tolist() == [[6, 1], [5, 1]]
    assert groups._nanmedian().x().tolist() == [3, 3]
    assert [part.x().tolist() for _, part in groups] == [[0, 2, 4, 6], [1, 3, 5]]
    with pytest.raises(dv.FieldError, match="'kinds'"):
        d._group(by="kinds")
    with pytest.raises(dv.StreamError, match="names of its fields"):
        d._group(by=d.x)
    endless = dv.View(np.sqrt, _length=math.inf)
    with pytest.raises(dv.StreamError, match="_group needs an end"):
        endless._group(by=endless)


@pytest.mark.clients
def test_statistics_are_those_of_pandas():
    import pandas as pd

    draws = np.random.default_rng(0)
    columns = {
        "a": draws.integers(0, 3, 200), "b": draws.choice(np.array(["x", "y", None], object), 200),
        "x": draws.choice([1.5, np.nan, 3.0, -2.0], 200), "n": draws.integers(-9, 9, 200),
    }  # fmt: skip
    frame, d = pd.DataFrame(columns), dv.View(**columns)
    for by in ("a", "b", ["a", "b"]):
        for dropna in (True, False):
            expected = frame.groupby(by, dropna=dropna)
            groups = d._group(by=by, dropna=dropna)
            assert groups._counts().count().tolist() == expected.size().tolist()
            for kind in ("sum", "mean", "min", "max", "median", "prod"):
                own = getattr(groups, f"_nan{kind}")()
                theirs = getattr(expected[["x", "n"]], kind)()
                np.testing.assert_allclose(own.x(), theirs.x.to_numpy(), 1e-12)
                np.testing.assert_allclose(own.n(), theirs.n.to_numpy(), 1e-12)
            np.testing.assert_allclose(
                groups._nanstd(ddof=1).x(), expected.x.std().to_numpy(), 1e-12
            )
            assert groups._argmax().n().tolist() == expected.n.idxmax().tolist()
            quantiles = groups._nanquantile(0.3).x()
            np.testing.assert_allclose(quantiles, expected.x.quantile(0.3).to_numpy(), 1e-12)


def test_sums_of_a_label_that_most_rows_have_are_as_exact_as_those_of_others():
    """A label's numbers are added few at a time, so that small ones are not lost beside a large."""
    draws = np.random.default_rng(0)
    key = np.where(draws.random(200_000) < 0.95, 0, draws.integers(0, 1000, 200_000))
    x = np.full(len(key), 1e-16)
    x[np.argmin(key)] = 1.0
    found = dv.View(key=key, x=x)._group(by="key")._sum().x()
    exact = math.fsum(x[key == 0])
    assert abs(found[0] - exact) <= 64 * np.finfo(float).eps * exact


@pytest.mark.parametrize("width", [1, 3, 40])
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        *itertools.product(
            ["min", "max", "prod", "sum", "any", "all"], ["f8", "f4", "i2", "u8", "?"]
        ),
        *itertools.product(["min", "max"], ["M8[s]"]),
    ],
)
def test_rows_of_any_width_are_reduced_as_numpy_does(kind, dtype, width, rng):
    x, key = rng.integers(-3, 4, (500, width)).astype(dtype), rng.integers(0, 9, 500) * 3
    if dtype == "f8":
        x[rng.random(x.shape) < 0.01] = np.nan
    got = getattr(dv.View(x=x, key=key)._group(by="key"), f"_{kind}")().x()
    expected = [getattr(x[key == label], kind)(axis=0) for label in np.unique(key)]
    if kind == "sum" and dtype[0] == "f":
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    else:
        assert_same(got, np.array(expected))


@pytest.mark.parametrize("kind", [list, tuple])
def test_lists_and_tuples_are_labels(kind):
    values = [kind([1, 2]), kind([3]), kind([1, 2]), None, kind([])]
    key = np.fromiter(values, object)
    d = dv.View(k=key, n=[1, 2, 4, 8, 16], pair=np.stack([key, key[::-1]], axis=1))
    groups = d._group(by="k")
    assert groups._sum().n().tolist() == [16, 5, 2]
    assert groups[values[0]].n().tolist() == [1, 4] and groups[values[4]].n().tolist() == [16]
    assert d._group(by="k", dropna=False)[None].n().tolist() == [8]
    assert d._group(by=["k", "n"])[values[0], 4].n().tolist() == [4]
    with pytest.raises(KeyError, match=r"no group [\[(]1, 2, 3"):
        groups[kind([1, 2, 3])]
    assert d._drop_duplicates(by="k").n().tolist() == [1, 2, 8, 16]
    assert d._drop_duplicates(by=["k", "n"]).n().tolist() == [1, 2, 4, 8, 16]
    assert dv.zip(p=d.pair, q=d.pair)._drop_duplicates().p()[:, 0].tolist() == values
    assert dv.View(np.stack([key, key], axis=1))._drop_duplicates()().shape == (4, 2)


class Noted:
    """An array that notes how often some of it is read."""

    def __init__(self, array):
        self.array, self.shape, self.dtype, self.reads = array, array.shape, array.dtype, 0

    def __getitem__(self, key):
        self.reads += 1
        return self.array[key]


def test_blocks_are_longer_where_there_are_many_groups(rng):
    key, x = rng.permutation(np.arange(20_000) % 1000), rng.normal(size=20_000)
    noted = Noted(x)
    d = dv.View(x=dv.View(noted), key=key)
    with sizes.set(part_bytes=800):  # what is found in a block is as long as there are groups
        found = d._group(by="key")._mean().x()
    assert noted.reads == 3
    np.testing.assert_allclose(found, np.bincount(key, x) / np.bincount(key), 1e-12, 1e-12)


@pytest.mark.parametrize("count", [3, 700])
def test_statistics_of_groups_have_the_same_bits_on_any_number_of_threads(count, rng):
    x = rng.normal(size=50_000) * 10.0 ** rng.integers(-9, 9, 50_000)
    gaps = np.where(rng.random(50_000) < 0.1, np.nan, x)
    d = dv.View(x=x, gaps=gaps, key=rng.integers(0, count, 50_000))
    found = set()
    for workers in (1, 3):
        with sizes.set(part_bytes=1 << 15), ThreadPoolExecutor(workers) as pool, dv.executor(pool):
            groups = d._group(by="key")
            kinds = groups._sum(), groups._nanmean(), groups._nanstd(), groups._counts()
            found.add(tuple(one().tobytes() for one in kinds))
    assert len(found) == 1


@pytest.mark.parametrize("kind", ["nanmean", "nanstd", "nanmax", "nanmedian"])
def test_a_warning_about_groups_names_the_statistic_and_the_field(kind):
    d = dv.View(inner={"x": [np.nan, 1.0]}, y=[2.0, 3.0], k=[0, 1])
    with pytest.warns(RuntimeWarning) as told:
        getattr(d._group(by="k"), f"_{kind}")()()
    (message,) = [str(one.message) for one in told]
    assert message.endswith(f" in {kind} of groups, field 'inner.x'")
    with pytest.warns(RuntimeWarning, match=r"(slice\.?|encountered)$"):
        getattr(d.inner.x[:1], f"_{kind}")()()
    big = dv.View(x=[1e308, 1e308], k=[0, 0])
    with pytest.warns(RuntimeWarning, match="overflow encountered in sum of groups, field 'x'"):
        big._group(by="k")._sum()()


def test_a_statistic_of_one_field_reads_no_other_and_has_no_other_s_faults(rng):
    columns = {name: Noted(rng.normal(size=8)) for name in ("x", "y", "z")}
    columns["x"].array[::2] = np.nan
    key = Noted(np.arange(8) % 2)
    d = dv.View(key=dv.View(key), **{name: dv.View(one) for name, one in columns.items()})

    def reads():
        return [one.reads for one in (key, *columns.values())]

    means, places = d._group(by="key")._nanmean(), d._group(by="key")._nanargmin()
    assert len(means) == len(places) == 2 and reads() == [2, 0, 0, 0]
    y = columns["y"].array.copy()
    expected = [y[0::2].mean(), y[1::2].mean()]
    np.testing.assert_allclose(means.y(), expected)  # no warning of x
    assert reads() == [3, 0, 1, 0]
    assert places.y().tolist() == [2 * y[0::2].argmin(), 2 * y[1::2].argmin() + 1]
    with pytest.raises(ValueError, match="nanargmin of groups, field 'x'"):
        places.x()
    whole = d._group(by="key")._max()
    before = reads()
    whole()
    assert np.subtract(reads(), before).tolist() == [2, 1, 1, 1]


def test_a_statistic_of_groups_is_of_the_data_before_a_write_whatever_was_taken(rng):
    x, y = rng.normal(size=8), rng.normal(size=8)
    d = dv.View(x=x.copy(), y=y.copy(), key=np.arange(8) % 2)
    means = d._group(by="key")._mean()
    first = means.x()
    d.x[:], d.y[:] = 0, 0
    np.testing.assert_allclose(first, x.reshape(4, 2).mean(axis=0))
    np.testing.assert_allclose(means.x(), first)
    np.testing.assert_allclose(means.y(), y.reshape(4, 2).mean(axis=0))
    np.testing.assert_allclose(pickle.loads(pickle.dumps(means)).x(), first)


@pytest.mark.parametrize("bound", [1 << 12, 1 << 26])
def test_medians_of_many_columns_of_many_groups(bound, monkeypatch):
    """More pairs of a group and a column than a small integer counts, read once or in parts."""
    monkeypatch.setattr(sizes, "quantile_bytes", bound)
    draws = np.random.default_rng(8)
    values = draws.normal(size=(300, 3, 250)).astype("f4")
    values[:, 1:][draws.random((300, 2, 250)) < 0.1] = np.nan  # one of a group is always there
    order = draws.permutation(900)
    values, key = values.reshape(900, 250)[order], np.repeat(np.arange(300), 3)[order]
    groups = dv.View(x=values, key=key)._group(by="key")
    expected = np.stack([np.nanmedian(values[key == label], axis=0) for label in range(300)])
    assert_same(groups._nanmedian().x(), expected)
