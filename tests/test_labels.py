"""Labels and keys: codes, groups, lookups and order, against NumPy and plain Python."""

import copy
import datetime
import math
import operator
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from counting import Counting
from dataview.index.sizes import sizes
from dataview.tables import unique
from dataview.tables.groups.blocks import DEPTH, ROUNDS
from dataview.tables.rows import first_of_each, ranked
from oracle import assert_same, attempt, examples

DAY = np.datetime64("2020-01-01")

LABELS = {
    "integers": lambda n: n % 5 - 2,
    "bytes": lambda n: (n % 5).astype("u1"),
    "far integers": lambda n: (n % 5) * 10**9,
    "unsigned": lambda n: (n % 5).astype("u8") + np.uint64(2**63),
    "floats": lambda n: np.where(n % 7 == 3, np.nan, n % 5 / 2),
    "texts": lambda n: np.array(["b", "a", "longer", "é", ""])[n % 5],
    "objects": lambda n: np.array(["b", "a", None, "d", np.nan], object)[n % 5],
    "strings": lambda n: np.array(["b", "", None, "é"], np.dtypes.StringDType(na_object=None))[
        n % 4
    ],
    "strings with NaN": lambda n: np.array(
        ["b", "a", np.nan, "longer" * 9], np.dtypes.StringDType(na_object=np.nan)
    )[n % 4],
    "big-endian": lambda n: (n % 5).astype(">i4"),
    "dates": lambda n: np.where(
        n % 7 == 3, np.datetime64("NaT"), np.datetime64("2020-01-01") + n % 5
    ),
    "bools": lambda n: n % 2 == 0,
    "all missing": lambda n: np.full(len(n), np.nan),
}
"""Labels made of random integers."""

COUNTS = st.integers(0, 40)
SEEDS = st.integers(0, 2**32 - 1)


def drawn(data, count=None):
    """Give labels of some kind for some rows, and the generator that made them."""
    draws = np.random.default_rng(data.draw(SEEDS))
    make = LABELS[data.draw(st.sampled_from(sorted(LABELS)))]
    count = data.draw(COUNTS) if count is None else count
    return make(draws.integers(0, 100, count)), draws


def present(values):
    """Give where there is a label."""
    return np.array([value is not None and value == value for value in values], bool)


def model(values, labels=None):
    """Give labels and codes by plain Python."""
    if labels is None:
        labels = sorted(set(values[present(values)].tolist()))
    places = {label: number for number, label in enumerate(labels)}
    codes = [places.get(value, -1) for value in values.tolist()]
    return labels, np.array(codes, np.intp)


@examples(300)
@given(st.data())
def test_codes_number_the_labels_in_order(data):
    values, draws = drawn(data)
    labels, expected = model(values)
    v = dv.View(values)
    codes = v._codes()
    with sizes.set(block_bytes=64):
        assert codes._shape() == values.shape and codes._dtype() == np.intp
        assert_same(codes(), expected)
    assert v._labels()().tolist() == labels == codes._meta["labels"]().tolist()
    rows = draws.integers(0, len(values), 5) if len(values) else slice(0)
    for part in (codes[rows], dv.View(values)._codes(labels=v._labels())[rows]):
        assert_same(part(), expected[rows])
    assert v._counts()()["count"].tolist() == [
        int((expected == n).sum()) for n in range(len(labels))
    ]


@examples(100)
@given(st.data())
def test_codes_by_given_labels_keep_their_order(data):
    values, draws = drawn(data)
    labels, _ = model(values)
    given = draws.permutation(labels)[: data.draw(st.integers(0, 5))].tolist()
    given = np.array(given, values.dtype)
    _, expected = model(values, given.tolist())
    assert_same(dv.View(values)._codes(labels=given)(), expected)
    assert_same(dv.View(values)._codes(labels=dv.View(given))(), expected)


def test_b43_codes_are_the_same_in_every_part():
    d = dv.View(x=np.arange(6), label=["b", "a", "c", "b", None, "a"])
    d.code = d.label._codes()
    train, test = d._split(4)
    assert train.code().tolist() == [1, 0, 2, 1] and test.code().tolist() == [-1, 0]
    assert [b.code().tolist() for b in d._minibatches(4)] == [[1, 0, 2, 1], [-1, 0]]
    assert test.label._codes(labels=train.label._labels())().tolist() == [-1, 0]
    assert train[1:].label._codes(labels=["a"])().tolist() == [0, -1, -1]


def test_a_label_that_is_written_later_is_an_error():
    d = dv.View(label=np.array(["b", "a", "c"]))
    codes, given = d.label._codes(), d.label._codes(labels=["a", "b"])
    d.label[1] = "x"
    with pytest.raises(ValueError, match=r"row 1 holds 'x', .* ask for it again, or give labels="):
        codes()
    assert codes[[0, 2]]().tolist() == [1, 2]
    assert given().tolist() == [1, -1, -1]
    d.label[1] = "c"
    assert codes().tolist() == [1, 2, 2]


@pytest.mark.parametrize("count", [3, 300, 5000, 70_000])
@pytest.mark.parametrize("spread", [1, 7, 10**6 + 3, 2**40 + 1])
@pytest.mark.parametrize("dtype", ["i8", "u8", "i4", "f8"])
def test_many_labels_are_found_however_far_apart(count, spread, dtype):
    draws = np.random.default_rng(count)
    with np.errstate(over="ignore"):
        labels = np.unique((np.arange(-count // 2, count // 2) * spread).astype(dtype))
    labels = draws.permutation(labels)
    rows = draws.integers(0, len(labels), 3000)
    values = np.concatenate([labels[rows], (labels[rows[:500]] + 1).astype(dtype)])
    table = {label: number for number, label in enumerate(labels.tolist())}
    expected = np.array([table.get(value, -1) for value in values.tolist()])
    assert_same(dv.View(values)._codes(labels=labels)(), expected)


@pytest.mark.parametrize("block", [1 << 12, 1 << 22])
@pytest.mark.parametrize("count", [3, 30_000])
@pytest.mark.parametrize(
    "dtype", ["i2", "u2", "i4", "u4", "i8", "u8", "M8[D]", "m8[s]", "f4", "f8", "c16", "U5", "S5"]
)
def test_many_values_of_either_byte_order_are_found(dtype, count, block, rng):
    numbers = rng.permutation(np.append(np.arange(35_000) % count, [0, 0, 1]))
    numbers = numbers - count // 2 if dtype[0] in "ifmM" else numbers
    own = numbers.astype("U6" if dtype[0] in "US" else dtype.replace("c", "f"))
    array = own.astype(f">{dtype}")
    values, codes, counts = np.unique(array, return_inverse=True, return_counts=True)
    d = dv.View(k=array, n=np.ones(len(array), int))
    with sizes.set(block_bytes=block, part_bytes=block):
        assert_same(d.k._unique()(), values)
        assert_same(d.k._labels()(), values)
        assert_same(d.k._codes()(), codes)
        assert_same(d.k._counts().count(), counts)
        found = d._group(by="k")._sum()
        assert_same(found.k(), values)
        assert_same(found.n(), counts)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16", "M8[D]", "m8[s]"])
def test_what_is_missing_in_every_block_is_found_once(dtype, rng):
    array = rng.integers(0, 5000, 40_000).astype(dtype.replace("c8", "f4")).astype(dtype)
    array[rng.random(40_000) < 0.1] = "NaT" if dtype[0] in "mM" else np.nan
    values, counts = np.unique(array, return_counts=True)
    v = dv.View(array)
    with sizes.set(block_bytes=1 << 12, part_bytes=1 << 12):
        assert_same(v._unique()(), values)
        assert_same(v._unique(counts=True).count(), counts)
        assert_same(v._labels()(), values[:-1])


@pytest.mark.parametrize("length", [1, 7, 8, 9, 16, 17, 64, 65])
@pytest.mark.parametrize("dtype", ["S", "U", ">U", "é", "ש"])
def test_texts_of_any_length_that_differ_in_one_letter_have_their_codes(dtype, length, rng):
    letters = np.full((400, length), "a")
    letters[np.arange(400), rng.integers(0, length, 400)] = rng.choice(list("abcdefgh"), 400)
    letters = np.where(letters == "h", dtype if len(dtype.encode()) > 1 else "h", letters)
    texts = np.array(["".join(row).rstrip("c") for row in letters])
    texts = texts.astype(dtype if dtype[-1] in "SU" else "U")[rng.integers(0, 400, 40_000)]
    values, codes = np.unique(texts, return_inverse=True)
    v = dv.View(texts)
    assert_same(v._codes()(), codes)
    assert_same(v._unique()(), values)
    some = rng.permutation(values)[: len(values) // 2]
    assert_same(v._codes(labels=some)(), model(texts, some.tolist())[1])


def test_long_texts_are_hashed_and_not_searched(monkeypatch):
    texts = np.array([f"a text of {n} letters" for n in range(20)])[np.arange(40_000) % 20]
    expected = np.unique(texts, return_inverse=True)[1]
    monkeypatch.setattr("dataview.tables.coding._searched", lambda *_: pytest.fail("searched"))
    assert_same(dv.View(texts)._codes()(), expected)


def test_zero_has_two_signs_and_one_code():
    values = np.array([0.0, -0.0, 1.0, np.nan])
    for dtype in ("f8", ">f8", "f4", "f2"):
        for labels in ([-0.0, 1.0], [0.0, 1.0]):
            codes = dv.View(values.astype(dtype))._codes(labels=np.array(labels, dtype))
            assert codes().tolist() == [0, 0, 1, -1]


GAPS = {
    "objects": np.array(["b", None, "a", np.nan, "b", None], object),
    "objects with NaN": np.array(["b", np.nan, "a", np.nan, "b", np.nan], object),
    "floats": np.array([2.0, np.nan, 1.0, np.nan, 2.0, np.nan]),
    "strings": np.array(["b", None, "a", None, "b", None], np.dtypes.StringDType(na_object=None)),
    "strings with NaN": np.array(
        ["b", np.nan, "a", np.nan, "b", np.nan], np.dtypes.StringDType(na_object=np.nan)
    ),
    "dates": np.array(
        ["2020-01-02", "NaT", "2020-01-01", "NaT", "2020-01-02", "NaT"], "M8[D]"
    ),
}  # fmt: skip
"""Labels b, a and b in the first, third and fifth place, and what is missing in the others."""


@pytest.mark.parametrize("name", GAPS)
@pytest.mark.parametrize("block", [8, 1 << 22])
def test_what_is_missing_is_one_thing_everywhere(name, block):
    labels = GAPS[name]
    a, b = labels[2], labels[0]
    d = dv.View(row=np.arange(6), label=labels)
    with sizes.set(part_bytes=block, block_bytes=block):
        found = d.label._unique()()
        assert found[:2].tolist() == [a, b] and not present(found[2:]).any() and len(found) == 3
        assert found.dtype == labels.dtype
        pairs = d.label._unique(counts=True)
        assert pairs.count().tolist() == [1, 2, 3] and present(pairs.value()).tolist() == [1, 1, 0]
        assert d.label._counts().count().tolist() == [1, 2]
    assert d.label._codes()().tolist() == [1, -1, 0, -1, 1, -1]
    assert d.label._codes(labels=found[::-1])().tolist() == [1, -1, 2, -1, 1, -1]
    assert d.label._codes(labels=d.label._unique())().tolist() == [1, -1, 0, -1, 1, -1]
    with pytest.raises(ValueError, match="more than once"):
        d.label._codes(labels=labels[[1, 0, 3]])()
    assert d._sorted(by="label").row().tolist() == [2, 0, 4, 1, 3, 5]
    assert d._drop_duplicates(by="label").row().tolist() == [0, 1, 2]
    assert [rows.row().tolist() for _, rows in d._group(by="label")] == [[2], [0, 4]]
    assert d._group(by="label")._max().row().tolist() == [2, 4]
    assert d._dropna().row().tolist() == [0, 2, 4]
    looked_up = d._join(dv.View(label=found, y=[1, 2, 3]), on="label", missing="mask")
    assert looked_up.y().tolist() == [2, 0, 1, 0, 2, 0]


@pytest.mark.parametrize("name", GAPS)
def test_rows_without_a_label_are_a_class_of_their_own_in_splits(name):
    rows = np.repeat(np.arange(6), 4)
    d = dv.View(row=rows, label=GAPS[name][rows])
    for part in d._split([12], by="label", seed=0):
        assert sorted(present(part.label())) == [False] * 6 + [True] * 6
        assert (part.row() == 2).sum() == 2
    for train, test in d._folds(4, by="label"):
        assert (len(train), (~present(test.label())).sum(), (test.row() == 2).sum()) == (18, 3, 1)
    held = [np.unique(test.row()).tolist() for _, test in d._folds(groups="label")]
    assert held == [[2], [0, 4], [1, 3, 5]]


def test_codes_of_a_table_of_labels():
    table = np.array([["a", "b"], ["c", "a"]])
    codes = dv.View(table)._codes()
    assert_same(codes(), np.array([[0, 1], [2, 0]]))
    assert_same(codes[1:, 0](), np.array([2]))


def test_refused_codes():
    with pytest.raises(TypeError, match="choose a field"):
        dv.View(x=[1], y=[2])._codes()
    with pytest.raises(ValueError, match="more than once"):
        dv.View([1])._codes(labels=[1, 1])()
    with pytest.raises(ValueError, match="list of labels"):
        dv.View([1])._codes(labels=[[1]])()
    with pytest.raises(TypeError, match="single element"):
        dv.View(["a"])[0]._codes()
    with pytest.raises(ValueError, match=r"read-only|computed"):
        dv.View(["a"])._codes()[0] = 1
    with pytest.raises(TypeError):
        dv.View(np.array([1, "a"], object))._codes()()


def test_a_column_for_each_label():
    v = dv.View(np.array([2.0, np.nan, 1.0]))
    assert_same(v._onehot()(), np.array([[0, 1], [0, 0], [1, 0]], "f4"))
    assert_same(v._onehot(labels=[1, 3], dtype=bool)(), np.array([[0, 0], [0, 0], [1, 0]], bool))


def test_codes_travel():
    d = dv.View(label=np.array(["b", "a", "c"]))
    codes = d.label._codes()
    for other in (pickle.loads(pickle.dumps(codes)), copy.deepcopy(codes)):
        assert other().tolist() == [1, 0, 2]
        assert other._meta["labels"]().tolist() == ["a", "b", "c"]


def test_building_reads_nothing():
    made = Counting(lambda number: {"x": float(number), "key": number % 3})
    d = made.probed(6)
    other = dv.View(key=[0, 1, 2], y=[1.0, 2.0, 3.0])
    built = [
        d.key._codes(), d.key._labels(), d.key._counts(), d._group(by="key"),
        d._join(other, on="key"), d._sorted(by="key"),
        d._sorted(by=["key", "x"], reverse=True), d._drop("x"),
    ]  # fmt: skip
    assert list(map(repr, built)) and not made.asked
    assert built[-3].x().tolist() == [0, 3, 1, 4, 2, 5]
    made.asked.clear()
    for some in (d[[4, 0, 2]], d[::2], d._shuffled(0), d[np.arange(6) > 2], d[[5, 4, 3]][[0, 1]]):
        ordered = some._sorted(by="key")
        built = [ordered.x, ordered[:2].x, some._join(other, on="key").y]
        assert list(map(repr, built)) and not made.asked
        expected = sorted(some.x().tolist(), key=lambda x: x % 3)
        assert ordered.x().tolist() == expected and built[1]().tolist() == expected[:2]
        made.asked.clear()


# ---------------------------------------------------------------- groups


def grouped_by_hand(values, codes, kind, count):
    """Give a statistic of each group by NumPy."""
    return np.array([getattr(np, kind)(values[codes == n], axis=0) for n in range(count)])


@examples(300)
@given(st.data())
def test_statistics_of_groups_are_those_of_each_group(data):
    values, draws = drawn(data)
    labels, codes = model(values)
    dtype = data.draw(st.sampled_from(["f8", "f4", "i4", "u1", ">f8", "c16", "?"]))
    kind = data.draw(st.sampled_from(["sum", "mean", "var", "std", "min", "max"]))
    if dtype == "c16" and kind in ("min", "max"):
        dtype = "f8"
    shape = (len(values), *data.draw(st.sampled_from([(), (1,), (3,), (2, 2)])))
    x = (draws.normal(size=shape) * 50).astype("i4" if dtype == "?" else dtype).astype(dtype)
    d = dv.View(x=x, label=values)
    statistic = getattr(d._group(by="label"), f"_{kind}")()
    with sizes.set(part_bytes=data.draw(st.sampled_from([64, 1 << 22]))):
        found = statistic()
    assert found["label"].tolist() == labels and found.dtype.names == ("x", "label")[::-1]
    if labels:
        expected = grouped_by_hand(x, codes, kind, len(labels))
        assert found["x"].dtype == expected.dtype
        exact = dtype in ("i4", "u1", "?") and kind in ("sum", "min", "max")
        tolerance = 0 if exact else 1e-5 if x.dtype == "f4" else 1e-12
        np.testing.assert_allclose(found["x"], expected, tolerance, tolerance)


@examples(100)
@given(st.data())
def test_groups_are_pairs_of_label_and_rows(data):
    values, _ = drawn(data)
    labels, codes = model(values)
    d = dv.View(row=np.arange(len(values)), label=values)
    groups = d._group(by="label")
    assert len(groups) == len(labels)
    for number, (label, part) in enumerate(groups):
        assert label == labels[number]
        assert_same(part.row(), np.flatnonzero(codes == number))
        assert_same(groups[labels[number]].row(), np.flatnonzero(codes == number))


def test_what_is_constant_in_a_group_has_its_value_as_mean_and_no_deviation():
    x = np.repeat([0.1, 1e8 + 0.3, -7.7, math.pi], 1000)
    d = dv.View(x=x)
    with sizes.set(part_bytes=1000):
        assert_same(d._group(by=x)._mean().x(), np.unique(x))
        assert_same(d._group(by=x)._std().x(), np.zeros(4))


ORDERS = {
    "at random": lambda draws, n, k: draws.integers(0, k, n),
    "sorted": lambda draws, n, k: np.sort(draws.integers(0, k, n)),
    "most of one": lambda draws, n, k: np.where(draws.random(n) < 0.9, 0, draws.integers(0, k, n)),
    "in turn": lambda draws, n, k: np.arange(n) % k,
    "one at every 32nd row": lambda draws, n, k: np.where(
        np.arange(n) % 32 == 0, 0, draws.integers(0, k, n)
    ),
    "texts": lambda draws, n, k: draws.integers(0, k, n).astype("U"),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("count", [1, 5, 90, 2500])
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
def test_sums_of_groups_are_exact_however_many_rows_there_are(order, count, dtype):
    draws = np.random.default_rng(count)
    labels = ORDERS[order](draws, 40_000, count)
    x = (draws.normal(1e9, 1, (40_000, 6)) * draws.choice([1, 1, 1, -1], (40_000, 1))).astype(dtype)
    x[:, 1], x[:, 2] = draws.normal(size=40_000), draws.pareto(0.3, 40_000).clip(0, 1e30)
    codes = np.unique(labels, return_inverse=True)[1]
    rows = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[rows], prepend=-1))
    wide = x.astype(np.result_type(dtype, np.longdouble))
    exact, terms = (np.add.reduceat(a[rows], starts, axis=0) for a in (wide, np.abs(wide)))
    sizes_of = np.bincount(codes)[:, None]
    eps = np.finfo("f8").eps * (DEPTH + ROUNDS)
    own = np.finfo(dtype).eps  # the result is rounded once
    for d in (dv.View(x=x, label=labels), dv.View(x=x[:, :3], label=labels)):
        groups, columns = d._group(by="label"), d.x._shape()[1]
        with sizes.set(part_bytes=draws.choice([1 << 17, 1 << 22])):
            found = groups._sum().x()
            means = groups._mean().x()
        far = np.abs(found - exact[:, :columns])
        assert (far <= eps * terms[:, :columns] + own * np.abs(exact[:, :columns])).all()
        far = np.abs(means - (exact / sizes_of)[:, :columns])
        bound = eps * terms / sizes_of + own * np.abs(exact / sizes_of)
        assert (far <= bound[:, :columns]).all()


def test_a_small_spread_around_a_large_offset_is_exact():
    draws = np.random.default_rng(0)
    label = draws.integers(0, 7, 50_000)
    x = 1e9 + np.round(draws.normal(0, 1e-5, 50_000) / 2**-23) * 2**-23
    expected = [np.var(x[label == n].astype(np.longdouble)) for n in range(7)]
    for block in (5000, 1 << 22):
        with sizes.set(part_bytes=block):
            found = dv.View(x=x, label=label)._group(by="label")._var().x()
        np.testing.assert_allclose(found, np.array(expected, float), 1e-9)


def test_a_large_offset_loses_nothing():
    draws = np.random.default_rng(0)
    x, label = draws.normal(1e9, 1, 10_000), draws.integers(0, 7, 10_000)
    with sizes.set(part_bytes=5000):
        found = dv.View(x=x, label=label)._group(by="label")._std().x()
    expected = [np.std(x[label == n].astype(np.longdouble)) for n in range(7)]
    np.testing.assert_allclose(found, np.array(expected, float), 1e-6)


def test_a_deviation_of_one_row_warns_as_numpy_does():
    groups = dv.View(x=[1.0, 2.0, 4.0], label=[0, 1, 1])._group(by="label")
    with (
        pytest.warns(RuntimeWarning, match="Degrees of freedom"),
        pytest.warns(RuntimeWarning, match="invalid value"),
    ):
        found = groups._std(ddof=1).x()
    assert np.isnan(found[0]) and found[1] == np.std([2.0, 4.0], ddof=1)


def test_groups_are_of_the_data_when_they_were_asked_for():
    d = dv.View(x=np.array([1.0, 2.0, 4.0]), label=np.array(["b", "a", "b"]))
    groups, means = d._group(by="label"), d._group(by="label")._mean()
    d.x[:] = 0
    d.label[:] = "c"
    assert means()["label"].tolist() == ["a", "b"] and means.x().tolist() == [2.0, 2.5]
    assert [label for label, _ in groups] == ["a", "b"]
    groups["b"].x += 1  # through the view of a group
    assert d.x().tolist() == [1.0, 0.0, 1.0]
    assert groups._counts().count().tolist() == [1, 2]


def test_groups_of_an_array_and_of_other_labels():
    v = dv.View(np.arange(6.0).reshape(3, 2))
    means = v._group(by=["a", "b", "a"])._mean()
    assert_same(means.value(), np.array([[2.0, 3.0], [2.0, 3.0]]))
    assert v._group(by=["a", "b", "a"])._counts()()["count"].tolist() == [2, 1]


def test_refused_groups():
    d = dv.View(x=["t", "u"], label=[1, 2])
    with pytest.raises(TypeError, match=r"no field has a mean of groups: field 'x' holds <U1;"):
        d._group(by="label")._mean()
    with pytest.raises(KeyError, match="no group 3"):
        d._group(by="label")[3]
    with pytest.raises(ValueError, match=r"_rename\(label=...\)"):
        d._group(by=[1, 2])
    with pytest.raises(dv.FieldError, match=r"no field 'lable'.*did you mean 'label'"):
        d._group(by=["x", "lable", "label"])
    with pytest.raises(ValueError, match="one label each"):
        d._select("x")._group(by=[1, 2, 3])


# ---------------------------------------------------------------- joins


@examples(200)
@given(st.data())
def test_join_looks_rows_up_by_key(data):
    keys, draws = drawn(data)
    keys = draws.permutation(np.unique(keys[present(keys)]) if len(keys) else keys)
    left = keys[draws.integers(0, len(keys), 20)] if len(keys) else keys
    known = draws.permutation(keys)[: data.draw(st.integers(0, len(keys)))]
    table = {key: number for number, key in enumerate(known.tolist())}
    rows = [table.get(key, -1) for key in left.tolist()]
    x = draws.normal(size=(len(known), 2))
    d, other = dv.View(key=left, n=np.arange(len(left))), dv.View(key=known, x=x)
    found = d._join(other, on="key", missing="mask")
    expected = np.array([x[row] if row >= 0 else [np.nan] * 2 for row in rows]).reshape(-1, 2)
    assert_same(found.x(), expected)
    assert_same(found.x[3:7](), expected[3:7])
    assert_same(found.key_mask(), np.array(rows, int) >= 0)
    assert_same(found.n(), d.n())
    whole = d._join(other, on="key")
    if -1 in rows:
        with pytest.raises(KeyError, match=rf"row {rows.index(-1)} has the key"):
            whole.x()
    else:
        assert_same(whole.x(), expected)


def test_a_join_writes_to_both_sides():
    d = dv.View(city=["b", "a", "b"], day=np.array([1, 2, 3]))
    other = dv.View(name=["a", "b"], size=np.array([10, 20]))
    both = d._join(other, on=("city", "name"))
    assert both._fields() == ("city", "day", "size") and both.size().tolist() == [20, 10, 20]
    both[1].size = 11
    both.day += 1
    assert other.size().tolist() == [11, 20] and d.day().tolist() == [2, 3, 4]
    assert pickle.loads(pickle.dumps(both)).size().tolist() == [20, 11, 20]


def test_the_key_of_a_join_is_the_only_field_that_both_sides_have():
    d, other = dv.View(k=[2, 1, 2], x=[1, 2, 3]), dv.View(y=[3, 4], k=[1, 2])
    assert_same(d._join(other)(), d._join(other, on="k")())
    assert d._join(other).y().tolist() == [4, 3, 4]


def test_refused_joins():
    d, other = dv.View(k=[1, 2], x=[1, 2]), dv.View(k=[1, 1], y=[3, 4])
    with pytest.raises(ValueError, match=r"'k' are not unique.*_drop_duplicates\(by='k'\)"):
        d._join(other, on="k").y()
    assert d[:1]._join(other._drop_duplicates(by="k"), on="k").y().tolist() == [3]
    with pytest.raises(ValueError, match=r"both sides of _join have the fields \['x'\]"):
        d._join(dv.View(k=[1], x=[2]), on="k")
    with pytest.raises(AttributeError, match="no field 'z'"):
        d._join(other, on="z")
    with pytest.raises(ValueError, match=r"have the fields \['k', 'x'\]; name the key with on="):
        d._join(d)
    with pytest.raises(ValueError, match=r"\['k', 'x'\] and \['z'\]; on=\(name, other_name\)"):
        d._join(dv.View(z=[1]))
    with pytest.raises(ValueError, match="'error' or 'mask'"):
        d._join(other, on="k", missing="drop")
    with pytest.raises(ValueError, match="one key each"):
        dv.View(k=[[1, 2]])._join(other, on="k")


# ---------------------------------------------------------------- order, and rows that stand once


@pytest.mark.parametrize("dtype", [">U2", "U2", np.dtypes.StringDType(), ">f8", ">M8[D]", object])
def test_several_keys_of_any_dtype(dtype):
    numbers = np.random.default_rng(0).integers(0, 6, 100)
    made = np.array(["zz", "日本", "a", "", "é", "b"])[numbers]
    if np.dtype(dtype).kind in "fM":
        made = numbers
    d = dv.View(a=made.astype(dtype), row=np.arange(100), b=numbers % 2)
    expected = sorted(range(100), key=lambda row: (numbers[row] % 2, made[row], row))
    assert d._sorted(by=["b", "a", "row"]).row().tolist() == expected
    assert d._sorted(by=["b", "a", "row"], reverse=True).row().tolist() == expected[::-1]


@examples(200)
@given(st.data())
def test_sorted_is_stable_in_both_directions(data):
    values, draws = drawn(data)
    if values.dtype.hasobject:
        e = dv.View(values)._sorted()()
        assert e[: present(values).sum()].tolist() == sorted(values[present(values)].tolist())
        values = np.array(["b", "a", "c"], object)[draws.integers(0, 3, len(values))]
    second = draws.integers(0, 3, len(values))
    d = dv.View(a=values, b=second, row=np.arange(len(values)))
    orders = {("a",): np.argsort(values, kind="stable"), ("b", "a"): np.lexsort((values, second))}
    for names, order in orders.items():
        found = d._sorted(by=list(names))
        assert_same(found.row(), order)
        assert_same(found[1:5].row(), order[1:5])
        keys = list(zip(*(d._field(name)().tolist() for name in names), strict=True))
        if present(values).all():  # Python has no order for others
            backwards = sorted(range(len(keys)), key=keys.__getitem__, reverse=True)
            assert d._sorted(by=list(names), reverse=True).row().tolist() == backwards


@examples(200)
@given(st.data())
def test_each_key_has_a_direction(data):
    count = data.draw(COUNTS)
    columns = {"a": drawn(data, count)[0], "b": drawn(data, count)[0] if count else np.zeros(0)}
    reverse = data.draw(st.lists(st.booleans(), min_size=2, max_size=2))
    rows = np.arange(count)
    for name, turned in [*zip(columns, reverse, strict=True)][::-1]:  # the last key first
        values = columns[name][rows].tolist()
        known = present(values)
        backwards = [n for n in range(count) if known[n]]
        backwards.sort(key=values.__getitem__, reverse=turned)
        rows = rows[[*backwards, *np.flatnonzero(~known).tolist()]]
    d = dv.View(**columns, row=np.arange(count))
    assert d._sorted(by=["a", "b"], reverse=reverse).row().tolist() == rows.tolist()


def test_directions_of_keys_are_truths():
    d = dv.View(a=["x", "y", "x"], b=[1, 2, 3])
    assert d._sorted(by=["a", "b"], reverse=[True, False]).b().tolist() == [2, 1, 3]
    assert d._sorted(by=["a", "b"], reverse=(False, np.True_)).b().tolist() == [3, 1, 2]
    assert d._sorted(by="b", reverse=[False]).b().tolist() == [1, 2, 3]
    for wrong in ([True], [True, False, True], [1, 0], "a", 2, None, [], np.array([True, False])):
        with pytest.raises(ValueError, match=r"reverse= is True, False or a list .* here 2; got "):
            d._sorted(by=["a", "b"], reverse=wrong)


@examples(200)
@given(st.data())
def test_drop_duplicates_keeps_the_first_of_each(data):
    values, draws = drawn(data)
    second = draws.integers(0, 2, len(values))
    d = dv.View(a=values, b=second, row=np.arange(len(values)))

    def first_of(keys):
        seen = {}
        for row, key in enumerate(keys):
            seen.setdefault(key, row)
        return sorted(seen.values())

    plain = [
        value if known else "missing" for value, known in zip(values, present(values), strict=True)
    ]
    table = np.array([values, values]).T if len(values) else values
    assert len(dv.View(table)._drop_duplicates()) == len(set(plain))
    assert d._drop_duplicates(by="a").row().tolist() == first_of(plain)
    both = list(zip(plain, second.tolist(), strict=True))
    assert d._drop_duplicates(by=["a", "b"]).row().tolist() == first_of(both)
    assert len(d._drop_duplicates()) == len(d)


class Compared(str):
    """A text that counts how often two are compared by their order."""

    times = 0

    def __lt__(self, other):
        Compared.times += 1
        return super().__lt__(other)


@pytest.mark.parametrize(
    "find",
    [
        lambda d: len(d._drop_duplicates(by="label")),
        lambda d: d._split(0.5, by="label", seed=0)[0].x(),
        lambda d: d._folds(3, by="label")[0][1].x(),
        lambda d: next(iter(d._loader(4, sampler=dv.samplers.label_uniform(by="label")))).x(),
        lambda d: d._minibatches(4, sampler=dv.samplers.label_permutation(by="label"))[0].x(),
    ],
    ids=["drop_duplicates", "split", "folds", "uniform", "permutation"],
)
def test_only_distinct_labels_are_sorted_to_number_those_of_rows(find):
    label = np.empty(1000, object)
    label[:] = [Compared("cab"[row % 3]) for row in range(1000)]
    d = dv.View(x=np.arange(1000), label=label)
    Compared.times = 0
    find(d)
    assert Compared.times < 50


RANKED = {
    "texts": np.array(["b", "", "abc", "ab"]), "letters": np.array(["ß", "Ω", "a"]),
    "long": np.array(["x" * 70, "x" * 69]), "bytes": np.array([b"b", b"a", b""]),
    "strings": np.array(["b", "", "Ω"], np.dtypes.StringDType()), "bools": np.array([True, False]),
    "integers": np.array([3, -4, 3, 70000]), "far": np.array([2**62, -(2**62), 0]),
    "unsigned": np.array([2**64 - 1, 0], "u8"), "swapped": np.array([1, 256, 3], ">i4"),
    "floats": np.array([0.0, -0.0, 1.5, -np.inf]), "gaps": np.array([np.nan, 2.0, 1.0]),
    "half": np.array([1.5, np.nan], "f2"), "wide": np.array([1.5, np.nan, -2], np.longdouble),
    "complex": np.array([1j, 2.0, 1.0 + 1j]), "dates": np.array(["NaT", "2020", "1960"], "M8[D]"),
    "durations": np.array([5, -3, "NaT"], "m8[s]"), "objects": np.array(["b", "a"], object),
    "numbers": np.array([2, 1.5, True, Decimal(3), Fraction(1, 2)], object),
    "lists": np.array([[2], [1], [2, 3], 0], object)[:3],
    "records": np.array([(2, 1.0), (1, 3.0)], "i4,f4"),
}  # fmt: skip


@pytest.mark.parametrize("rows", [0, 1, 100, 70_000])
@pytest.mark.parametrize("kind", RANKED)
def test_values_are_numbered_as_numpy_does(kind, rows, rng):
    values = RANKED[kind][rng.integers(0, len(RANKED[kind]), rows)]
    labels, codes, counts = ranked(values)
    expected, places, times = np.unique(values, return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(labels, expected)
    assert labels.dtype == values.dtype
    assert_same(codes, places)
    assert counts.tolist() == times.tolist()
    if kind in ("records", "lists"):  # of which no first one is looked for
        return
    again, known = ranked(values, np.ones(rows, bool)), rng.random(rows) < 0.5
    assert again[1].tolist() == codes.tolist()
    own = first_of_each([values, known, np.arange(rows) % 3])
    seen = set(zip(codes.tolist(), known.tolist(), (np.arange(rows) % 3).tolist(), strict=True))
    assert len(own) == len(seen) and (own[1:] > own[:-1]).all()
    assert not rows or own[0] == 0


def test_integers_of_another_order_of_bytes_are_counted_as_they_are():
    values = np.tile(np.array([1, 256, 3], ">i4"), 30_000)
    found = dv.View(values)._unique(counts=True)
    assert found.value().tolist() == [1, 3, 256] and found.count().tolist() == [30_000] * 3
    assert dv.View(x=values)._group(by="x")._counts().x().tolist() == [1, 3, 256]


@pytest.mark.parametrize("dtype", ["f4", "f8", "M8[s]", "U6"])
def test_of_values_that_differ_no_table_is_made(dtype, rng, monkeypatch):
    values = rng.permutation(np.arange(70_000) - 5).astype("f8" if dtype == "f4" else "i8")
    values = values.astype(dtype)
    values[:9], missing = values[9:18], "NaT" if dtype == "M8[s]" else np.nan
    if dtype != "U6":
        values[100:103] = missing
    made = []
    monkeypatch.setattr(unique, "coder", lambda labels: made.append(labels))
    expected, times = np.unique(values, return_counts=True)
    assert_same(dv.View(values)._unique()(), expected)
    assert_same(dv.View(values)._unique(counts=True).count(), times)
    assert made == []


def test_of_many_combinations_the_first_rows_are_found(rng):
    columns = [rng.integers(0, 400, 5000) for _ in range(9)]
    columns = [np.concatenate([column, column[::-1]]) for column in columns]
    assert_same(first_of_each(columns), np.arange(5000))
    few = [column // 300 for column in columns]
    _, first = np.unique(np.stack(few), return_index=True, axis=1)
    assert_same(first_of_each(few), np.sort(first))


def test_drop_duplicates_compares_whole_rows_and_writes_through():
    table = np.array([[1, 2], [1, 3], [1, 2]])
    once = dv.View(table)._drop_duplicates()
    assert once().tolist() == [[1, 2], [1, 3]]
    once += 10
    assert table.tolist() == [[11, 12], [11, 13], [1, 2]]


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("how", ["plain", "by", "groups", "each group"])
def test_folds_with_validation_divide_the_rows(how, seed):
    d = dv.View(row=np.arange(23), label=np.arange(23) % 3, group=np.arange(23) // 4)
    options = {
        "plain": {"k": 5}, "by": {"k": 5, "by": "label"},
        "groups": {"k": 4, "groups": "group"}, "each group": {"groups": "group"},
    }[how]  # fmt: skip
    triples = d._folds(**options, seed=seed, validation=True)
    pairs = d._folds(**options, seed=seed)
    assert len(triples) == len(pairs)
    for number, (train, valid, test) in enumerate(triples):
        rows = np.concatenate([train.row(), valid.row(), test.row()])
        assert_same(np.sort(rows), np.arange(23))
        assert_same(test.row(), pairs[number][1].row())
        assert set(valid.row()) == set(pairs[(number + 1) % len(pairs)][1].row())
    with pytest.raises(ValueError, match="from 3"):
        d._folds(2, validation=True)


def test_drop_names_the_fields_it_does_not_know():
    d = dv.View(x=[1], y=[2])
    with pytest.raises(AttributeError, match="z"):
        d._drop("z")


@pytest.mark.parametrize(
    ("on", "remedy"),
    [
        (["k"], "; write on='k'"),
        (("k",), "; write on='k'"),
        ({"k": "name"}, "; write on=('k', 'name')"),
        (["k", "n"], "a row is found by one key, and another field on both sides makes one of"),
        (("k", "n", "x"), "of texts and numbers d.key = d.k + ' ' + d.n._astype('U21')"),
        ({"k": "name", "n": "m"}, "makes one of several"),
        ([("k", "k"), ("n", "n")], "got an object of type list"),
        (5, "got an object of type int"),
        (("k", 1), "got an object of type tuple"),
        (dv.View([1, 2]), "got an object of type View"),
    ],
)
def test_what_is_no_name_of_a_key_of_a_join_is_refused_with_a_remedy(on, remedy):
    d = dv.View(k=["a", "b"], n=[1, 2], x=[1, 2])
    with pytest.raises(TypeError, match="on= names the key of _join, or the key on") as caught:
        d._join(dv.View(k=["a"], n=[2], name=["b"]), on=on)
    assert remedy in str(caught.value)


def test_two_keys_of_a_join_are_made_one():
    d = dv.View(k=["a", "b", "a"], n=[1, 2, 2])
    other = dv.View(k=np.array(["a", "b"], object), n=[2, 2], y=[20, 30])
    for side in (d, other):
        side.key = side.k + " " + side.n._astype("U21")
    both = d._join(other._drop("k", "n"), on="key", missing="mask")
    assert_same(both.y._fillna(0)(), np.array([0, 30, 20]))


def test_a_ragged_field_is_named_where_groups_have_no_statistic_of_it():
    d = dv.View(t=[[1, 2], [3]], y=[0, 1])
    with pytest.raises(dv.RaggedError, match=r"'t' has rows that differ in length; .*_pad"):
        d._group(by="y")._sum()


@pytest.mark.parametrize(
    ("ask", "where"),
    [
        (lambda d: d.k._codes(), "field 'k'"),
        (lambda d: d.k._counts(), "field 'k'"),
        (lambda d: d._group(by=["x", "k"])._counts(), "groups by 'k'"),
        (lambda d: d._join(dv.View(k=["a"], z=[1])), "the keys 'k' and 'k' of _join"),
        (lambda d: dv.View(k=["a"])._join(d), "the keys 'k' and 'k' of _join"),
        (lambda d: d[:1].k._freeze()._codes(labels=[1, 2]), "labels= of _codes of the view"),
    ],
)
def test_objects_without_an_order_are_named(ask, where):
    d = dv.View(k=np.array(["a", 1], object), x=[1, 2])
    pair = r"str \('a'\) and int \(1\)|int \(1\) and str \('a'\)"
    told = rf"{where}: ({pair}) have no order .*_astype\('T'\)"
    with pytest.raises(TypeError, match=told):
        ask(d)()
    assert d.k._astype("T")._codes()().tolist() == [1, 0]


def test_what_to_write_for_misused_labels_is_told():
    d = dv.View(city=["Bern", "Rome", "Bern"], x=[1, 2, 3])
    groups = d._group(by="city")
    cases = [
        (lambda: d.city._codes(labels=d.city)(), ValueError, r"more than once.* d\.x\._labels\(\)"),
        (lambda: d._counts(), TypeError, "^_counts takes one array"),
        (lambda: groups._counts(normalize=True), TypeError, r"counts\.count / counts\.count\._sum"),
        (lambda: d._group(by=None), TypeError, "by= takes fields, such as .*got None"),
        (lambda: d._group(by=lambda row: row.x), TypeError, "d.x > 0 or .*; got the function"),
        (lambda: groups["Bern", "a"], KeyError, r"for each of \['city'\]; got \('Bern', 'a'\)"),
        (lambda: groups[["Bern", "Rome"]], KeyError, "for each of"),
        (lambda: d[:2]._group(by=["x", "z"]), dv.FieldError, "no field 'z'"),
        (lambda: groups._size(), AttributeError, r"write groups\._counts\(\)"),
        (lambda: groups.count(), AttributeError, r"write groups\._counts\(\)"),
        (lambda: groups._agg("mean"), AttributeError, r"groups\._mean\(\) and groups\._max"),
        (lambda: groups._first(), AttributeError, r"_drop_duplicates\(by=name\)"),
        (lambda: groups.x, AttributeError, r"write groups\._mean\(\)\.x$"),
        (lambda: d._count(), AttributeError, r"write d\._notna\(\)\._sum\(\)"),
        (
            lambda: d._join(dv.View(city=["Bern"], z=[1])).z(),
            KeyError,
            r"not among the 1 values of other\.city; missing='mask'",
        ),
    ]
    for misuse, error, told in cases:
        with pytest.raises(error, match=told):
            misuse()


def test_groups_by_date_are_found_by_text():
    d = dv.View(x=[1, 2, 3], day=np.array(["1815-12-10", "1816-01-01", "1815-12-10"], "M8[D]"))
    groups = d._group(by="day")
    for day in ("1815-12-10", np.datetime64("1815-12-10"), datetime.date(1815, 12, 10)):
        assert groups[day].x().tolist() == [1, 3]
    with pytest.raises(ValueError, match="'yesterday' is no date"):
        groups["yesterday"]
    both = d._group(by=["x", "day"])
    assert both[2, "1816-01-01"].x().tolist() == [2]


def test_keys_of_another_kind_are_told():
    with pytest.raises(TypeError, match="_astype"):
        dv.View(k=["1"])._join(dv.View(k=[1], v=[1]), on="k", missing="mask")
    with pytest.raises(TypeError, match="_astype"):
        dv.View(["1"])._codes(labels=[1])


def test_a_missing_key_is_nobodys_partner():
    d = dv.View(k=np.array(["a", None], object), n=[0, 1])
    other = dv.View(k=np.array([None, "a"], object), v=[7, 8])
    found = d._join(other, on="k", missing="mask")
    assert found.v().tolist() == [8, 0] and found.k_mask().tolist() == [True, False]


def test_means_of_groups_do_not_overflow_where_they_are_finite():
    d = dv.View(x=np.array([1e308, 1e308, 1.0]), label=[0, 0, 1])
    assert d._group(by="label")._mean().x().tolist() == [1e308, 1.0]


FAR = {
    "f2": [60000, 60000, -60000, -50000],
    "f4": [3e38, 3e38, -3e38, -2e38],
    "f8": [1.7e308, 1.7e308, -1.7e308, -1.6e308],
    "c8": [2.5e38 + 2.5e38j, 2.5e38 + 2.5e38j, -2.5e38, -2.5e38j],
    "c16": [1.3e308 + 1.3e308j, 1.3e308 + 1.3e308j, -1.3e308, -1.3e308j],
}


@pytest.mark.parametrize("size", [1, 1 << 22])
@pytest.mark.parametrize("columns", [1, 2, 9])
@pytest.mark.parametrize("dtype", FAR)
def test_sums_of_groups_that_overflow_on_the_way_are_right_in_the_end(dtype, columns, size):
    a = np.array([*FAR[dtype], 5, *FAR[dtype], 7, np.nan, np.inf, 9], dtype)
    label = np.array([0] * 4 + [3] + [1] * 4 + [2] * 2 + [4] * 2)
    x = np.repeat(a[:, None], columns, axis=1)
    groups = dv.View(x=x, label=label)._group(by="label")
    exact = a.astype(np.clongdouble)[:4]
    scale = np.abs(exact).max()
    eps = np.finfo(dtype).eps
    with sizes.set(part_bytes=size):
        total, mean, spread = groups._sum().x(), groups._mean().x(), groups._std().x()
    assert (np.abs(total[:2] - exact.sum()) <= 8 * eps * scale).all()
    assert (np.abs(mean[:2] - exact.mean()) <= 4 * eps * scale).all()
    distance = np.abs(exact - exact.mean()) / scale
    expected = (np.sqrt((distance**2).mean()) * scale).astype(spread.dtype)
    np.testing.assert_allclose(spread[:2], np.full((2, columns), expected), 16 * eps)
    assert (total[3] == 5).all() and np.isnan(total[2].real).all() and np.isinf(total[4]).all()
    assert (spread[3] == 0).all()


def test_a_variance_of_groups_that_is_finite_does_not_overflow_on_the_way():
    x = np.array([1e200, -1e200, 3.0, 4e160, 4e160, 1e300])
    label = np.array([0, 0, 1, 1, 2, 2])
    for size in (1, 1 << 22):
        with sizes.set(part_bytes=size):
            found = dv.View(x=x, label=label)._group(by="label")._std().x()
        np.testing.assert_allclose(found, [1e200, 2e160, 5e299], 1e-12)


def test_a_sum_of_a_group_that_is_too_large_warns_as_that_of_all_rows():
    groups = dv.View(x=np.array([1.5e308, 1.5e308, 1.0]), label=[0, 0, 1])._group(by="label")
    with pytest.warns(RuntimeWarning, match="overflow encountered in sum"):
        found = groups._sum().x()
    assert found.tolist() == [np.inf, 1.0]
    with np.errstate(over="ignore"):
        assert groups._sum().x().tolist() == [np.inf, 1.0]


EACH = {
    "durations": np.array([5, 1, 8, 3, 3, 2, 9], "m8[s]"),
    "durations with NaT": np.array([5, "NaT", 8, 3, 3, 2, 9], "m8[s]"),
    "dates": np.array([5, 1, 8, 3, 3, 2, 9], "M8[s]"),
    "decimals": np.array([Decimal(n) / 7 for n in (5, 1, 8, 3, 3, 2, 9)], object),
    "fractions": np.array([Fraction(n, 7) for n in (5, 1, 8, 3, 3, 2, 9)], object),
    "mixed": np.array([5, 1.5, 7, 3, 3, 2, True], object),
    "complex": np.array([5, 1j, 8, 3, 3, 2 + 1j, 9]),
    "texts": np.array(["b", "a", "d", "c", "e", "c", "f"]),
    "texts of any length": np.array([*"badcecf"], np.dtypes.StringDType()),
}


@pytest.mark.parametrize("size", [1, 24, 1 << 22])
@pytest.mark.parametrize("kind", ["sum", "mean", "var", "std", "min", "max"])
@pytest.mark.parametrize("name", EACH)
def test_statistics_of_groups_are_of_whatever_those_of_all_rows_are(name, kind, size):
    x = EACH[name]
    label = np.array([*"bababcc"])
    for rows in (x, np.stack([x, x[::-1]], axis=1)):
        groups = dv.View(x=rows, label=label)._group(by="label")
        whole = [dv.View(rows[label == letter]) for letter in "abc"]
        with sizes.set(part_bytes=size):
            expected, refusal = attempt(
                lambda all_rows: [getattr(v, f"_{kind}")(axis=0)() for v in all_rows], whole
            )
            found, error = attempt(lambda some: getattr(some, f"_{kind}")().x(), groups)
        if x.dtype.kind in "UT" and kind in ("min", "max"):  # some of which NumPy has not
            parts = [rows[label == letter].reshape(-1, rows.size // 7) for letter in "abc"]
            lists = [part.T.tolist() for part in parts]
            expected = np.array([[*map({"min": min, "max": max}[kind], one)] for one in lists])
            assert found.tolist() == expected.reshape(found.shape).tolist()
            continue
        if refusal is not None or x.dtype.kind == "T":
            assert isinstance(error, TypeError), error
            assert x.dtype == object or "no field has a" in str(error)
            continue
        assert error is None, error
        expected = np.asarray(expected, object if x.dtype.hasobject else None)
        assert found.dtype == expected.dtype
        if x.dtype.kind == "c" or (x.dtype == object and kind in ("mean", "var", "std")):
            plain = np.result_type(x.dtype if x.dtype.kind == "c" else float)
            np.testing.assert_allclose(found.astype(plain), expected.astype(plain), 1e-12)
        else:
            assert repr(found.tolist()) == repr(np.asarray(expected, found.dtype).tolist())


def test_codes_of_a_batch_do_not_sort_all_labels_again(monkeypatch):
    from dataview.tables import labels

    v = dv.View(np.array(["b", "a", "c"]))
    codes = v._codes()
    assert codes().tolist() == [1, 0, 2]
    monkeypatch.setattr(labels, "coder", None)
    assert codes[1:]().tolist() == [0, 2]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u4", "i8", "u8", ">i4"])
def test_integers_around_a_range_of_labels_have_no_code(dtype):
    ends = np.iinfo(dtype)
    for low in (ends.min, 5, ends.max - 4):
        labels = np.arange(5).astype(dtype) + np.dtype(dtype).type(low)
        values = np.array([ends.min, ends.max, low, low + 4, max(low - 1, 0), 100], dtype)
        codes = dv.View(values)._codes(labels=labels)()
        known = labels.tolist()
        expected = [known.index(n) if n in known else -1 for n in values.tolist()]
        assert codes.tolist() == expected
        assert dv.View(labels)._codes(labels=labels)().tolist() == [0, 1, 2, 3, 4]


ENDS = [0, 1, 127, 128, 255, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1]
ENDS += [-number for number in ENDS[1:9]]


@pytest.mark.parametrize("mine", ["i1", "u1", ">i4", "i8", ">u8", "u8"])
@pytest.mark.parametrize("other", ["i1", "u1", "i8", ">i8", "u8", "list"])
def test_integers_of_different_dtypes_are_compared_exactly(mine, other):
    def within(dtype):
        info = np.iinfo(dtype)
        return [number for number in ENDS if info.min <= number <= info.max]

    values = within(mine)
    labels = within("u8" if other == "list" else other)[::-1]
    given = labels if other == "list" else np.array(labels, other)
    d = dv.View(k=np.array(values, mine))
    expected = [labels.index(number) if number in labels else -1 for number in values]
    assert d.k._codes(labels=given)().tolist() == expected
    if other != "list":
        found = d._join(dv.View(k=given, place=range(len(labels))), on="k", missing="mask")
        assert found.k_mask().tolist() == [code >= 0 for code in expected]
        assert found.place()[found.k_mask()].tolist() == [code for code in expected if code >= 0]


def test_a_list_of_labels_is_as_exact_as_the_field():
    v = dv.View(np.array([0, 2**63, 2**63 + 1], "u8"))
    assert v._codes(labels=[0, 2**63])().tolist() == [0, 1, -1]
    assert v._codes(labels=[-1, 2**63 + 1])().tolist() == [-1, -1, 1]
    assert dv.View([1, 2])._codes(labels=[0.5, 2])().tolist() == [-1, 1]


@pytest.mark.parametrize("kinds", ["UT", "TU", "TT"])
def test_texts_of_any_length_are_found_among_texts_of_one(kinds):
    dtypes = {"U": np.dtype("U3"), "T": np.dtypes.StringDType()}
    texts = np.array(["b", "a", "new", "b"], dtypes[kinds[0]])
    known = np.array(["a", "b", "c"], dtypes[kinds[1]])
    v = dv.View(k=texts)
    assert v.k._codes(labels=known)().tolist() == [1, 0, -1, 1]
    assert v.k._codes(labels=["b", "a"])().tolist() == [0, 1, -1, 0]
    found = v._join(dv.View(k=known, z=[5, 6, 7]), on="k", missing="mask")
    assert found.z()[[0, 1, 3]].tolist() == [6, 5, 6] and found.k_mask().tolist() == [1, 1, 0, 1]


TWICE = [f"{n:05}" for n in range(1000)] * 2
"""Texts that end the process where NumPy sorts them as a StringDType by quicksort."""


@pytest.mark.parametrize("gap", [{}, {"na_object": None}, {"na_object": np.nan}])
@pytest.mark.parametrize("size", [16_000, 1 << 22])
def test_texts_of_any_length_are_sorted_stably(size, gap):
    texts = np.array(TWICE * 3, np.dtypes.StringDType(**gap))
    if gap:
        texts[-1] = gap["na_object"]
    there, codes = np.arange(6000) < 6000 - len(gap), np.arange(6000) % 1000
    counts = np.bincount(codes[there])
    d = dv.View(k=texts, row=np.arange(6000))
    with sizes.set(block_bytes=size, part_bytes=size):
        assert d.k._labels()().tolist() == TWICE[:1000]
        assert_same(d.k._codes()(), np.where(there, codes, -1))
        assert d.k._counts().count().tolist() == counts.tolist()
        assert len(d.k._unique()()) == 1000 + len(gap)
        assert d._group(by="k")._sum().row().tolist() == [
            rows.row().sum() for _, rows in d._group(by="k")
        ]
        assert len(d._drop_duplicates(by="k")) == 1000 + len(gap)
        assert_same(d[:2000]._sorted(by="k").row(), np.argsort(codes[:2000], kind="stable"))
        assert d._describe()["k"]["distinct"] >= 1000
        assert [len(part) for part in d._split([0.5, 0.5], by="k", seed=1)] == [3000, 3000]
        with pytest.raises(ValueError, match=r"not unique.*'00000', '00001'"):
            dv.View(k=TWICE[:9])._join(d[:2000], on="k")()
    pairs = [texts[n : n + 2] for n in range(0, 2000, 2)]
    assert len(dv.View(p=dv.ragged(pairs), n=np.zeros(1000))._drop_duplicates(by="p")) == 500


# ---------------------------------------------------------------- codes whose labels are known


def known(labels=("dog", "cat", "bird"), codes=(1, 0, -1, 1)):
    """Give codes with labels in their metadata, as tables bring them, beside numbers."""
    meta = {"kind": {"labels": list(labels)}}
    return dv.View(x=np.arange(1.0, len(codes) + 1), kind=np.array(codes, "i1"), _meta=meta)


def test_codes_that_know_their_labels_keep_them():
    d = known()
    for kind in (d.kind, d[1:].kind, d._minibatches(2)[0].kind, d._shuffled(0).kind):
        assert kind._labels()().tolist() == ["dog", "cat", "bird"]
    assert d.kind._codes()().tolist() == [1, 0, -1, 1]
    assert d.kind._codes(labels=["cat", "fox"])().tolist() == [0, -1, -1, 0]
    assert_same(d.kind._onehot()(), np.eye(4, dtype="f4")[[1, 0, 3, 1], :3])
    counts = d.kind._counts()
    assert counts.value().tolist() == ["dog", "cat", "bird"]
    assert counts.count().tolist() == [1, 2, 0]
    again = pickle.loads(pickle.dumps(d))
    assert again.kind._labels()().tolist() == ["dog", "cat", "bird"]


def test_codes_of_a_field_know_their_labels_too():
    codes = dv.View(["b", "a", None, "b"])._codes()
    assert codes._labels()().tolist() == ["a", "b"]
    assert codes._codes() is codes
    assert codes._counts().count().tolist() == [1, 2]
    assert_same(codes._onehot(dtype=int)(), np.array([[0, 1], [1, 0], [0, 0], [0, 1]]))


def test_the_labels_of_any_codes_are_those_that_they_stand_for(tmp_path):
    kind = np.array(["b", "a", "c", "b", "c", "a"])
    names = sorted(set(kind.tolist()))
    named = np.unique(kind, return_inverse=True)[1]
    own = dv.View(x=np.arange(6.0), y=dv.View(kind)._codes())
    own._save(tmp_path / "own.npz")
    for d in (
        own,
        dv.View(x=np.arange(6.0), y=named, _meta={"y": {"labels": names}}),
        dv.open(tmp_path / "own.npz"),
        dv.View(pa.table({"x": np.arange(6.0), "y": pa.array(kind).dictionary_encode()})),
    ):
        part, rest = d._split(0.5, seed=0)
        batch, minibatch = next(d._loader(2)), d._minibatches(2)[0]
        for one in (d, part, rest, d[:1], batch, minibatch, dv.zip(z=d.x * 2, y=d.y)):
            labels = one.y._labels()()
            assert sorted(labels.tolist()) == names
        assert d.y._labels()()[d.y()].tolist() == kind.tolist()


def test_rows_are_grouped_and_joined_by_the_labels_of_codes():
    d = known()
    groups = d._group(by="kind")
    assert [(label, rows.x().tolist()) for label, rows in groups] == [
        ("cat", [1.0, 4.0]), ("dog", [2.0]),
    ]  # fmt: skip
    assert groups._sum().kind().tolist() == ["cat", "dog"]
    assert groups._sum().x().tolist() == [5.0, 2.0]
    other = dv.View(kind=["cat", "dog"], legs=[4, 5])
    joined = d._join(other, on="kind", missing="mask")
    assert joined.legs().tolist() == [4, 5, 0, 4]
    assert joined.kind_mask().tolist() == [True, True, False, True]
    renumbered = dv.View(
        kind=np.array([0, 1]), legs=[4, 5], _meta={"kind": {"labels": ["cat", "dog"]}}
    )
    assert d._join(renumbered, on="kind", missing="mask").legs().tolist() == [4, 5, 0, 4]


@pytest.mark.parametrize(
    "labels",
    [[2.5, 0.5], [7, 9], [np.datetime64("2020"), np.datetime64("2021")], ["a", 1], [b"x", b"y"]],
)
def test_labels_may_be_anything(labels):
    d = known(labels, (1, -1, 0))
    assert list(d.kind._labels()()) == labels
    if labels != ["a", 1]:  # which have no order
        assert [rows.x().tolist() for _, rows in d._group(by="kind")] == (
            [[1.0], [3.0]] if labels[0] == 2.5 else [[3.0], [1.0]]
        )


def test_what_needs_the_labels_of_codes_reads_them_when_it_is_needed():
    made = Counting(lambda number: "bab"[number])
    codes = made.probed(3)._codes()
    legs = dv.View(k=["a", "b"], legs=[4, 5])
    built = [
        codes._counts(), codes._codes(labels=["b", "c"]), codes._labels(), codes._onehot(),
        dv.zip(k=codes)._group(by="k"), dv.zip(k=codes)._join(legs), codes == np.array([*"baa"]),
    ]  # fmt: skip
    assert list(map(repr, built)) and not made.asked
    counts, numbered, labels, _, groups, joined, same = built
    assert counts()["count"].tolist() == [1, 2] and counts().dtype.names == ("value", "count")
    assert numbered().tolist() == [0, -1, 0] and labels().tolist() == ["a", "b"]
    assert len(groups) == 2 and joined.legs().tolist() == [5, 4, 5]
    assert same().tolist() == [True, True, False]


@pytest.mark.parametrize("found", [False, True])
def test_a_number_beside_codes_is_a_label_where_the_labels_are_other_numbers(found):
    years = np.array([2009, 2008, 2009])
    d = dv.View(x=[1.0, 2.0, 4.0], year=np.array([1, 0, 1], "i1"))
    d.year = dv.View(years)._codes() if found else d.year._with_meta(labels=[2008, 2009])
    name = "the view" if found else "field 'year'"
    for given_year in (2009, np.int64(2009), 2009.0, np.array(2009)):
        assert d[d.year == given_year].x().tolist() == [1.0, 4.0]
        assert (d.year != given_year)().tolist() == [False, True, False]
        assert (given_year == d.year)().tolist() == [True, False, True]
    assert 2008 in d.year and d[1].year == 2008
    assert np.isin(d.year, [2008, 1999]).tolist() == [False, True, False]
    assert (d.year == d[:].year)().all()
    assert (d.year._with_meta(labels=None) == 1)().tolist() == [True, False, True]
    assert_same(d.year._onehot(dtype=int)(), np.eye(2, dtype=int)[[1, 0, 1]])
    with pytest.raises(
        ValueError, match=r"has no label 1\. The labels are: 2008, 2009; _with_meta\("
    ):
        d.year == 1  # noqa: B015
    for other in (years, dv.View(years), [1, 0, 1]):
        with pytest.raises(
            TypeError, match=rf"{name} holds codes, .* numbers: .* np\.isin\(d, values"
        ):
            d.year == other  # noqa: B015
    with pytest.raises(
        TypeError, match=rf"{name} holds codes of labels, which have no order; .*None"
    ):
        d.year < 2009  # noqa: B015


def test_numbers_that_are_their_own_codes_are_compared_as_numbers():
    v = known(labels=range(3), codes=(1, 0, -1, 2)).kind
    assert v == v() and (v < 2)().tolist() == [True, True, True, False]
    assert not (v == 7)().any() and np.isin(v, [-1, 1]).tolist() == [True, False, True, False]


@pytest.mark.parametrize("found", [False, True])
def test_codes_are_joined_by_their_labels(found):
    other, numbers = dv.View(k=["b", "a"], z=[4, 5]), dv.View(k=[0, 1], z=[4, 5])
    d = dv.View(k=dv.View(["b", "a", "b"])._codes() if found else np.array([1, 0, 1]))
    d.k = d.k if found else d.k._with_meta(labels=["a", "b"])
    assert d._join(other, on="k").z().tolist() == [4, 5, 4]
    assert other._join(d[:2]._rename(k="own"), on=("k", "own"))._fields() == ("k", "z")
    for left, right in ((d, numbers), (numbers, d._drop_duplicates())):
        with pytest.raises(
            TypeError, match=r"'k' and 'other' of _join: .* none would be found; _with_meta"
        ):
            left._join(right._rename(k="other"), on=("k", "other"))
    years = dv.View(k=np.array([1, 0]))
    years.k = dv.View([9, 8])._codes() if found else years.k._with_meta(labels=[8, 9])
    assert years._join(dv.View(k=[8, 9], z=[4, 5])).z().tolist() == [5, 4]


def test_a_code_without_a_label_is_an_error():
    for codes in [(0, 3), (0, -2)]:
        d = known(codes=codes)
        with pytest.raises(ValueError, match=r"code (3|-2).* 3 labels"):
            d.kind._counts()()
        with pytest.raises(ValueError, match=r"code (3|-2).* 3 labels"):
            len(d._group(by="kind"))


def test_metadata_that_list_no_labels_are_metadata():
    for labels in [{"no": 0, "yes": 1}, "text", 3, [[1, 2], [3]], None]:
        v = dv.View(np.array([1, 0, 1]))._with_meta(labels=labels)
        assert v._labels()().tolist() == [0, 1]
    assert dv.View([0.5, 1.5])._with_meta(labels=["a"])._labels()().tolist() == [0.5, 1.5]


def test_rows_whose_code_is_missing_have_no_label_for_samplers():
    d = known(codes=(0, 1, -1, 0, 1, -1))
    sampler = dv.samplers.label_permutation(by="kind")
    for part in (d, d[:]):
        found = [code for b in part._minibatches(2, sampler=sampler) for code in b.kind().tolist()]
        assert set(found) == {0, 1}


@pytest.mark.parametrize("found", [False, True])
def test_a_code_of_nothing_is_missing_to_every_verb(found, tmp_path):
    codes = np.array([1, 0, -1, 1], "i1")
    d = known(codes=codes)
    if found:
        d.kind = dv.View(np.array(["dog", "cat", "bird", None], object)[[1, 0, 3, 1]])._codes()
        codes = d.kind()
    there = codes >= 0
    assert_same(d.kind._isna()(), ~there)
    assert_same(d.kind._notna()(), there)
    assert [bool(one.kind._isna()) for one in d] == [False, False, True, False]
    assert d._missing()._asdict() == {"x": 0, "kind": 1} and d.kind._missing()() == 1
    for rows in (d._dropna("kind"), d._dropna(), d[d.kind._notna()]):
        assert_same(rows.kind(), codes[there])
    for verb in ("min", "max", "sum", "mean", "median", "argmin", "argmax", "nanmin"):
        expected = getattr(np, verb)(np.where(there, codes, np.nan)[there])
        assert getattr(d.kind, f"_{verb}")()() == expected, verb
    assert d.kind._mean(where=[True, False, True, False])() == codes[0]
    assert d.kind._fillna(0)().tolist() == np.where(there, codes, 0).tolist()
    described = d._describe()["kind"]
    assert (described["missing"], described["min"], described["distinct"]) == (1, 0, 2)
    d._save(tmp_path / "d.csv")
    assert d._missing()._astuple() == dv.open(tmp_path / "d.csv")._missing()._astuple()


def test_what_is_computed_of_codes_is_of_numbers():
    d = known(codes=(1, 0, -1, 1))
    for numbers in (d.kind + 0, d.kind._with_meta(labels=None), np.abs(d.kind) * np.sign(d.kind)):
        assert not numbers._isna()().any() and numbers._min()() == -1
    assert d[d.kind == -1].x().tolist() == [3.0]
    assert (d.kind != 1)().tolist() == [False, True, True, False]
    assert np.isin(d.kind, [-1, 0]).tolist() == [False, True, True, False]
    assert d.kind == np.array([1, 0, -1, 1]) and np.array([1, 0, -1, 1]) == d.kind
    assert not dv.View(np.array([1, 255], "u1"))._with_meta(labels=["a"])._isna()().any()


def test_statistics_of_groups_leave_codes_out():
    d = dv.zip(g=dv.View(["a", "b", "a", "b"]), x=known().x, kind=known().kind)
    for verb in ("_mean", "_max", "_sum", "_nanmin", "_median", "_any"):
        found = getattr(d._group(by="g"), verb)()
        assert found._fields() == ("g", "x") and found._meta["left_out"] == "kind"
    with pytest.raises(AttributeError, match=r"'kind' has no mean .*it holds codes of labels"):
        _ = d._group(by="g")._mean().kind
    with pytest.raises(TypeError, match="field 'kind' holds codes of labels"):
        d._select("g", "kind")._group(by="g")._mean()


def test_codes_of_other_labels_are_not_joined_in_silence():
    first, second = known(), known(labels=("cat", "dog"), codes=(0, 1))
    assert dv.concat(first, first[1:]).kind._labels()().tolist() == ["dog", "cat", "bird"]
    with pytest.raises(ValueError, match=r"number their labels.*_codes\(labels="):
        dv.concat(first, second)
    labels = ["dog", "cat", "bird"]
    both = dv.concat(first.kind._codes(labels=labels), second.kind._codes(labels=labels))
    assert both().tolist() == [1, 0, -1, 1, 1, 0]
    assert both._labels()().tolist() == labels
    found = [dv.View(np.array(texts))._codes() for texts in (["cat", "dog"], ["bird", "dog"])]
    with pytest.raises(ValueError, match=r"views 0 and 1 number their labels each by itself"):
        dv.concat(*found)
    part = dv.concat(found[0][1:], found[0])
    assert part._labels()[part]().tolist() == ["dog", "cat", "dog"]


@pytest.mark.parametrize("listed", [False, True], ids=("columns", "lists"))
def test_times_of_other_zones_are_not_joined_in_silence(listed):
    def of(zone):
        kind = pa.timestamp("us", zone)
        rows = [[instant], [instant, instant]] if listed else [instant, instant]
        return pa.table({"at": pa.array(rows, pa.large_list(kind) if listed else kind)})

    instant = datetime.datetime(2026, 7, 1, 12, tzinfo=datetime.UTC)
    utc, paris = map(dv.View, (of("UTC"), of("Europe/Paris")))
    with pytest.raises(ValueError, match=r"UTC and Europe/Paris.*_with_meta\(timezone="):
        dv.concat(utc, paris)
    with pytest.raises(ValueError, match=r"views 0 and 2 .*UTC and Europe/Paris"):
        dv.concat(utc.at, utc.at, paris.at)
    both = dv.View(at=dv.concat(utc.at, paris.at._with_meta(timezone="UTC")))
    assert pa.table(both).equals(pa.concat_tables([of("UTC"), of("UTC")]).combine_chunks())
    naive = dv.View(of(None))
    for views in ((utc, naive), (naive, naive, utc)):
        with pytest.raises(ValueError, match=r"zone UTC.*without a zone.*\(timezone='UTC'\)"):
            dv.concat(*views)
        with pytest.raises(ValueError, match=r"without a zone"):
            np.concatenate([view.at for view in views])
    both = dv.View(at=dv.concat(utc.at, naive.at._with_meta(timezone="UTC")))
    assert pa.table(both).equals(pa.concat_tables([of("UTC"), of("UTC")]).combine_chunks())
    both = pa.table(dv.concat(naive, naive))
    assert both.equals(pa.concat_tables([of(None), of(None)]).combine_chunks())


def test_lists_of_codes_of_other_labels_are_not_joined_in_silence():
    def of(labels):
        lists = pa.LargeListArray.from_arrays([0, 1, 3], pa.DictionaryArray.from_arrays(
            pa.array([0, 1, 0], "i1"), labels))  # fmt: skip
        return dv.View(pa.table({"kind": lists}))

    with pytest.raises(ValueError, match=r"number their labels.*_codes\(labels="):
        dv.concat(of(["dog", "cat"]), of(["cat", "dog"]))


COMPARED = {
    "operator": lambda ufunc, one, other: OPERATORS[ufunc](one, other)(),
    "function": lambda ufunc, one, other: ufunc(one, other)(),
    "out": lambda ufunc, one, other: ufunc(one, other, out=np.ones(4, bool)),
    "out of a view": lambda ufunc, one, other: ufunc(one, other, out=dv.View(np.ones(4, bool)))(),
    "where": lambda ufunc, one, other: ufunc(
        one, other, out=np.ones(4, bool), where=np.ones(4, bool)
    ),
    "dtype": lambda ufunc, one, other: ufunc(one, other, dtype=object).astype(bool),
}
OPERATORS = {np.equal: operator.eq, np.not_equal: operator.ne}


@pytest.mark.parametrize("ufunc", [np.equal, np.not_equal])
@pytest.mark.parametrize("name", COMPARED)
def test_codes_are_compared_alike_on_every_way(name, ufunc):
    compare, d = COMPARED[name], known(codes=(1, 0, -1, 1))
    labels = np.array(["cat", "dog", None, "cat"], object)
    others = np.array(["cat", "cat", "dog", "cat"])
    years = d.kind._with_meta(labels=[2008, 2009, 2010])
    for codes, found, beside, told in [
        (d.kind, labels, others, others),
        (d.kind, labels, others.astype(object), others),
        (d.kind, labels, "cat", "cat"),
        (d.kind, labels, known(("cat", "dog"), (0, 0, 1, 0)).kind, others),
        (d.kind, d.kind(), np.array([1, 1, 0, 1]), np.array([1, 1, 0, 1])),
        (years, np.array([2009, 2008, 0, 2009]), 2009, 2009),
    ]:
        assert_same(compare(ufunc, codes, beside), ufunc(found, told).astype(bool))
        assert_same(compare(ufunc, beside, codes), ufunc(told, found).astype(bool))
    with pytest.raises(TypeError, match=r"np\.isin\(d, values\)"):
        compare(ufunc, years, np.array([1, 0, -1, 1]))
    with pytest.raises(ValueError, match="no label 'dgo'"):
        compare(ufunc, d.kind, "dgo")


def test_codes_and_their_labels_are_equal_as_wholes():
    v = known(codes=(1, 0, 2, 1)).kind
    labels = np.array(["cat", "dog", "bird", "cat"])
    for one, other in [(v, labels), (labels, v), (v, labels.tolist()), (v, v()), (v, v)]:
        assert np.array_equal(one, other)
    assert not np.array_equal(v, labels[::-1]) and not np.array_equal(v, labels[:3])
    assert not np.array_equal(v, [0, 0, 2, 1])
    assert np.equal.outer(v, labels[:2]).tolist() == np.equal.outer(labels, labels[:2]).tolist()
    for ufunc in (np.less, np.greater_equal):
        with pytest.raises(TypeError, match="'kind' holds codes of labels, which have no order"):
            ufunc(v, "cat", out=np.zeros(4, bool))


NAMES = ("dog", "cat", "bird", "")


@examples(100)
@given(st.data())
def test_codes_are_compared_with_labels_as_the_labels_are(data):
    codes = np.array(data.draw(st.lists(st.integers(-1, 3))), "i1")
    v = dv.View(kind=codes, _meta={"kind": {"labels": [*NAMES]}}).kind
    texts = np.array([*NAMES, None], object)[codes]
    for label in NAMES:
        for given_label in (label, np.str_(label), np.array(label)):
            assert_same((v == given_label)(), texts == label)
            assert_same((v != given_label)(), texts != label)
            assert_same((given_label == v)(), texts == label)
        assert_same(np.equal(v, label)(), texts == label)
        assert (label in v) == (label in texts)
        assert [bool(one == label) for one in v] == (texts == label).tolist()
    others = np.array(data.draw(st.lists(st.sampled_from([*NAMES, "fox"]), min_size=len(codes),
                                         max_size=len(codes))), "U4")  # fmt: skip
    assert_same((v == others)(), texts == others)
    assert_same((v != others.tolist())(), texts != others)
    assert_same((v == dv.View(others))(), texts == others)
    assert_same(np.isin(v, others[:2]), np.isin(texts.astype("U4"), others[:2]) & (codes >= 0))
    for code in range(-1, 4):
        assert_same((v == code)(), codes == code)
        assert_same((v > code)(), codes > code)
    found = np.flatnonzero(texts == "cat")
    assert_same(v[v == "cat"](), codes[found])
    assert_same(dv.View(v=v)._filter(v == "cat").v(), codes[found])


def test_codes_of_other_labels_are_compared_as_labels():
    first, second = known(), known(labels=("cat", "dog"), codes=(0, 0, -1, 1))
    assert (first.kind == second.kind)().tolist() == [True, False, True, False]
    assert (first.kind == first[:].kind)().all()


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_codes_of_other_labels_are_equal_as_wholes_as_their_labels_are(kind):
    def of(labels, codes):
        return dv.View(
            a=dv.View(kind=np.array(codes), _meta={"kind": {"labels": kind(labels)}}), x=[1, 2, 3]
        )

    d, same = of(["dog", "cat"], [0, 1, -1]), of(["cat", "dog"], [1, 0, -1])
    other, less = of(["cat", "dog"], [0, 1, -1]), of(["cat", "dog"], [1, 0, 0])
    for part in (lambda v: v, lambda v: v.a, lambda v: v.a.kind, lambda v: v[:2], lambda v: v[2]):
        assert part(d) == part(same)
        assert bool(part(d) != part(same)) is False
        assert np.array_equal(part(d), part(same))
    for part in (lambda v: v, lambda v: v.a, lambda v: v.a.kind, lambda v: v[:2], lambda v: v[0]):
        assert part(d) != part(other)
        assert bool(part(d) == part(other)) is False
        assert not np.array_equal(part(d), part(other))
    assert d != less
    assert not np.array_equal(d.a.kind, less.a.kind)
    assert d[0] == same[0]
    assert (d.a == same.a)().tolist() == (d.a.kind == same.a.kind)().tolist()


def test_lists_of_codes_of_other_labels_are_compared_as_their_labels_are():
    def of(labels, *codes):
        return dv.View(t=[np.array(row) for row in codes], _meta={"t": {"labels": labels}})

    d, same = of(["dog", "cat"], [0, -1], [1]), of(["cat", "dog"], [1, -1], [0])
    other = of(["cat", "dog"], [0, -1], [1])
    assert d == same
    assert d.t == same.t
    assert np.array_equal(d.t, same.t)
    assert d != other
    assert d.t != other.t
    assert d[0] != other[0]
    assert [row.tolist() for row in (d.t == other.t)()] == [[False, True], [False]]


OURS, THEIRS = ["dog", "cat", "bird"], ["bird", "cat", "dog"]


def coded(labels, codes, dtype=int):
    """A record whose field y has these codes."""
    meta = {"y": {"labels": list(labels)}}
    return dv.View(x=np.arange(len(codes)), y=np.array(codes, dtype), _meta=meta)


def told_labels(d):
    """The label of each row of the field y, by its codes."""
    return [d.y._meta["labels"][code] if code >= 0 else None for code in d.y().tolist()]


def put_into_a_join(d, e):
    dv.concat([d[:2], d[2:]]).y[:] = e.y


WRITES_OF_ALL = {
    "a slice": lambda d, e: d.y.__setitem__(slice(None), e.y),
    "_write": lambda d, e: d.y._write(e.y),
    "a record": lambda d, e: d.__setitem__(slice(None), e),
    "fields": lambda d, e: d.__setitem__(slice(None), e._asdict() | {"y": e.y}),
    "a tuple": lambda d, e: d._write((e.x, e.y)),
    "a mask": lambda d, e: d.y.__setitem__(d.x >= 0, e.y),
    "numbers": lambda d, e: d.y.__setitem__([2, 0, 1, 3], e.y[[2, 0, 1, 3]]),
    "row by row": lambda d, e: [d.y.__setitem__(i, e.y[i]) for i in range(4)],
    "records row by row": lambda d, e: [d.__setitem__(i, e[i]) for i in range(4)],
    "rows written": lambda d, e: [d[i]._write(e[i]) for i in range(4)],
    "np.copyto": lambda d, e: np.copyto(d.y, e.y),
    "np.copyto where": lambda d, e: np.copyto(d.y, src=e.y, where=d.x >= 0),
    "np.put": lambda d, e: np.put(d.y, [0, 1, 2, 3], e.y),
    "np.putmask": lambda d, e: np.putmask(d.y, d.x >= 0, values=e.y),
    "np.place": lambda d, e: np.place(d.y, d.x >= 0, e.y),
    "a joined view": put_into_a_join,
    "a list of rows": lambda d, e: d.y.__setitem__(slice(None), list(e.y)),
    "a tuple of rows": lambda d, e: d.y.__setitem__(slice(None), tuple(e.y)),
    "a field and a list of rows": lambda d, e: d._write((e.x, [e.y[i] for i in range(4)])),
    "a list of rows by name": lambda d, e: d._write({"x": 0, "y": list(e.y)}),
    "a list of records": lambda d, e: d.__setitem__(slice(None), list(e)),
    "np.copyto of a list": lambda d, e: np.copyto(d.y, list(e.y)),
    "np.put of a list": lambda d, e: np.put(d.y, [0, 1, 2, 3], list(e.y)),
    "a list for a mask": lambda d, e: d.y.__setitem__(d.x >= 0, list(e.y)),
    "labels": lambda d, e: d.y.__setitem__(slice(None), told_labels(e)),
    "a field of labels": lambda d, e: d.y._write(dv.View(np.array(told_labels(e), object))),
    "an array of Arrow": lambda d, e: d.y._write(pa.array(told_labels(e))),
    "a dictionary of Arrow": lambda d, e: d.y._write(pa.array(told_labels(e)).dictionary_encode()),
    "an array of objects": lambda d, e: np.copyto(d.y, np.array(told_labels(e), object)),
    "codes that are found": lambda d, e: d.y._write(dv.View(told_labels(e))._codes()),
    "a structured array": lambda d, e: d.__setitem__(
        slice(None),
        np.array([*zip(range(4), told_labels(e), strict=True)], [("x", int), ("y", object)]),
    ),
}


@pytest.mark.parametrize("way", WRITES_OF_ALL)
@pytest.mark.parametrize("dtype", ["i1", "i8"])
def test_codes_of_other_labels_are_written_by_their_labels(way, dtype):
    d, e = coded(OURS, [2, 2, 2, 2], dtype), coded(THEIRS, [0, 2, -1, 1])
    wanted = told_labels(e)
    WRITES_OF_ALL[way](d, e)
    assert told_labels(d) == wanted == ["bird", "dog", None, "cat"]
    assert d.y._dtype() == dtype


@pytest.mark.parametrize("way", WRITES_OF_ALL)
def test_codes_of_labels_that_a_field_lacks_are_not_written(way):
    d, e = coded(OURS, [2, 1, 0, 2]), coded(["bird", "fox"], [0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"'y' .* 'dog', 'cat', 'bird'|'fox'") as caught:
        WRITES_OF_ALL[way](d, e)
    assert "'fox'" in str(caught.value)
    if "row" not in way:
        assert told_labels(d) == ["bird", "cat", "dog", "bird"]


def in_windows(codes, labels, **fields):
    """An array of two columns, the second of which is these codes, or of what fields say."""
    array = np.stack([np.arange(len(codes)), codes], 1)
    return dv.View(array, **fields, _meta={"y": {"labels": labels}})


def in_an_array_of_records(codes, labels):
    array = np.array([*zip(range(len(codes)), codes, strict=True)], [("x", "i4"), ("y", "i2")])
    return dv.View(array, _meta={"y": {"labels": labels}})


ARRAYS_WITH_CODES = {
    "a window": lambda *of: in_windows(*of, x=np.s_[:1], y=np.s_[1:]),
    "a column": lambda *of: in_windows(*of, x=np.s_[0], y=np.s_[1]),
    "a window by number": lambda *of: in_windows(*of, y=[1]),
    "within a record": lambda *of: dv.View(a=in_windows(*of, y=np.s_[1:]), b=np.arange(4)).a,
    "a structured array": in_an_array_of_records,
}

WRITES_OF_ARRAYS = {
    "a slice": lambda d, e: d.__setitem__(slice(None), e),
    "_write": lambda d, e: d._write(e),
    "np.copyto": lambda d, e: np.copyto(d, e),
    "numbers": lambda d, e: d.__setitem__([2, 0, 1, 3], e[[2, 0, 1, 3]]),
    "row by row": lambda d, e: [d.__setitem__(i, e[i]) for i in range(4)],
    "rows written": lambda d, e: [d[i]._write(e[i]) for i in range(4)],
    "rows backwards": lambda d, e: d[::-1]._write(e[::-1]),
}


@pytest.mark.parametrize("kind", ARRAYS_WITH_CODES)
@pytest.mark.parametrize("way", WRITES_OF_ARRAYS)
def test_codes_that_are_a_part_of_an_array_are_written_by_their_labels(kind, way):
    def of(codes, labels):
        return ARRAYS_WITH_CODES[kind](np.array(codes), labels)

    def labels_in(d, labels):
        return [labels[code] if code >= 0 else None for code in d.y().reshape(-1).tolist()]

    d, e, less = (
        of([2, 2, 2, 2], OURS),
        of([0, 2, -1, 1], THEIRS),
        of([1, 0, 1, 0], ["bird", "fox"]),
    )
    WRITES_OF_ARRAYS[way](d, e)
    assert labels_in(d, OURS) == labels_in(e, THEIRS) == ["bird", "dog", None, "cat"]
    before = d()
    with pytest.raises(ValueError, match=r"'y' cannot hold .*'dog', 'cat', 'bird'.*lacks 'fox'"):
        WRITES_OF_ARRAYS[way](d, less)
    assert_same(d(), before)
    WRITES_OF_ARRAYS[way](d, of([0, 1, 2, 0], OURS))
    assert labels_in(d, OURS) == ["dog", "cat", "bird", "dog"]


def test_records_of_arrays_with_codes_are_written_by_their_labels():
    def of(codes, labels):
        return dv.View(a=in_windows(codes, labels, y=np.s_[1:]), b=np.arange(4))

    d, e = of([2, 2, 2, 2], OURS), of([0, 2, -1, 1], THEIRS)
    for write in (lambda: d._write(e), lambda: d._write({"a": e.a, "b": e.b})):
        write()
        assert d.a.y().tolist() == [[2], [0], [-1], [1]]
        d.a.y[:] = 0


def samples_of_unlike_labels():
    return [coded(OURS, [0]), coded(THEIRS, [0])]


SAMPLES = {
    "a function": lambda parts: dv.View(lambda i: parts[i][0], _length=2)._probe(),
    "a function of codes": lambda parts: dv.View(lambda i: parts[i].y[0], _length=2)._probe(),
    "collated": lambda parts: dv.collate([part.y[0] for part in parts]),
    "collated records": lambda parts: dv.collate([part[0] for part in parts]),
    "collated mappings": lambda parts: dv.collate([{"y": part.y[0]} for part in parts]),
    "collated tuples": lambda parts: dv.collate([(part.x[0], part.y[0]) for part in parts]),
    "a stream": lambda parts: dv.View(iter([part[0] for part in parts]))._probe(),
    "a stream that is read": lambda parts: dv.View(part[0] for part in parts)[:2]._freeze(),
}


@pytest.mark.parametrize("way", SAMPLES)
def test_samples_that_number_their_labels_differently_are_refused(way):
    with pytest.raises(ValueError, match=r"number their labels differently.*_codes\(labels="):
        SAMPLES[way](samples_of_unlike_labels())
    one = coded(OURS, [1])
    assert SAMPLES[way]([one, one]) is not None


LAYOUTS = {
    "reshaped": lambda x: np.reshape(x, (3, 2)),
    "reshaped twice": lambda x: np.reshape(np.reshape(x, (3, 2)), -1),
    "transposed": np.transpose,
    "transposed and flat": lambda x: np.ravel(np.transpose(x)),
    "a column": lambda x: x[:, 1],
    "one": lambda x: x[1, 2],
    "reversed": lambda x: np.flip(x, 1),
    "chosen": lambda x: x[[0, 1, 1], [2, 0, 1]],
    "an axis moved": lambda x: np.moveaxis(x[None], 0, 2),
    "where it is true": lambda x: x[np.array([[True, False, True], [False, True, False]])],
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=list(LAYOUTS))
def test_codes_know_their_labels_in_every_layout(layout):
    e = dv.View(y=np.array([[0, 1, 2], [2, 0, 1]]), _meta={"y": {"labels": THEIRS, "title": "all"}})
    given, wanted = layout(e.y), layout(np.array(THEIRS)[e.y()])
    assert np.array_equal(given == "dog", wanted == "dog")
    d = dv.View(y=np.zeros((1, *wanted.shape), int), _meta={"y": {"labels": OURS}})
    d.y[0] = given
    assert np.array(OURS)[d.y[0]()].tolist() == wanted.tolist()


def test_parts_of_numbers_have_no_labels_of_their_columns():
    e = dv.View(y=np.zeros((2, 3)), _meta={"y": {"labels": THEIRS}})
    assert dict(e.y[1:]._meta) == {"labels": THEIRS}
    assert not e.y[:, 1]._meta


def test_lists_of_views_of_unlike_labels_are_not_written():
    d, e = coded(OURS, [0, 1]), coded(THEIRS, [0, 1])
    with pytest.raises(ValueError, match="number their labels differently"):
        d.y[:] = [d.y[0], e.y[0]]
    for other in ("cat", 0):
        with pytest.raises(TypeError, match=r"views and other values .*d\.x\[row\] = value"):
            d.y[:] = [e.y[0], other]
    assert told_labels(d) == ["dog", "cat"]
    d.y[:] = [d.y[1], d.y[0]]
    assert told_labels(d) == ["cat", "dog"]


def test_large_codes_are_written_by_their_labels(tmp_path):
    codes = np.arange(300_000) % 4 - 1
    coded(OURS, codes)._save(tmp_path / "d.h5")
    d, e = dv.open(tmp_path / "d.h5", "r+"), coded(THEIRS, codes[::-1])
    d.y[:] = e.y
    wanted = [None if code < 0 else THEIRS[code] for code in codes[::-1].tolist()]
    assert told_labels(d) == wanted
    d.y[::-1] = e.y
    assert told_labels(d) == wanted[::-1]
    in_memory = coded(OURS, codes)
    in_memory.y[in_memory.y == "dog"] = "bird"
    assert told_labels(in_memory) == [
        None if code < 0 else ["bird", "cat", "bird"][code] for code in codes.tolist()
    ]


@pytest.mark.parametrize("name", ["d.h5", "d.zarr", "d/"])
def test_rows_are_added_to_codes_by_their_labels(name, tmp_path):
    path = f"{tmp_path}/{name}"
    coded(OURS, [0, 1])._save(path)
    with dv.open(path, "r+") as d:
        for rows in (coded(THEIRS, [0, 2, -1]), {"x": [3, 4], "y": ["bird", None]}):
            wanted = told_labels(d) + (rows["y"] if isinstance(rows, dict) else told_labels(rows))
            d._append(rows)
            assert told_labels(d) == wanted
        for rows in (coded(["fox"], [0]), {"x": [5], "y": ["fox"]}):
            with pytest.raises(ValueError, match=r"field 'y' .*'fox'"):
                d._append(rows)
    with dv.open(path) as d:
        assert told_labels(d) == wanted == ["dog", "cat", "bird", "dog", None, "bird", None]


@pytest.mark.parametrize("dtype", ["u1", "i1"])
def test_codes_that_a_dtype_cannot_hold_are_not_written(dtype):
    many = [f"label {i}" for i in range(300)]
    d, e = coded(many, [0, 1, 2], dtype), coded(many[::-1], [0, 0, 0])
    wrong = r"field 'y' is u?int8, so it cannot hold 299, the code of 'label 299'.*_astype"
    for value in ("label 299", [many[0], many[1], many[299]], e.y, dv.View([many[299]])):
        with pytest.raises(ValueError, match=wrong):
            d.y[:] = value
    with pytest.raises(ValueError, match=wrong):
        d[:] = e
    assert d.y().tolist() == [0, 1, 2]
    most = np.iinfo(dtype).max
    d.y[0] = many[most]
    assert told_labels(d) == [many[most], many[1], many[2]]


def test_a_label_is_written_by_its_name():
    d = coded(OURS, [0, 1, 2])
    d.y[0] = "bird"
    d[1] = {"x": 5, "y": np.str_("dog")}
    d.y[2] = None
    assert told_labels(d) == ["bird", "dog", None]
    d[:2] = (7, "cat")
    assert told_labels(d) == ["cat", "cat", None]
    with pytest.raises(ValueError, match="'y' has no label 'dgo'; did you mean 'dog'"):
        d.y[0] = "dgo"
    with pytest.raises(ValueError, match=r"'y' has no label 'fox'.* 'dog', 'cat', 'bird'"):
        d.y[:] = ["cat", "fox", "fox"]
    with pytest.raises(ValueError, match=r"uint8, so it has no code -1.*_astype"):
        coded(OURS, [0, 1, 2], "u1").y._write([None, "cat", "dog"])
    with pytest.raises(ValueError, match=r"no label 'a'\. The labels are: 2008, 2009"):
        coded([2008, 2009], [0, 1, 0]).y[0] = "a"
    for wrong in ({"a": 1}, 2.5, [{"a": 1}] * 3):
        with pytest.raises(TypeError, match=r"field 'y'|cannot write"):
            d.y[:] = wrong
    d.y[0] = 2
    assert told_labels(d) == ["bird", "cat", None]


def pandas():
    import pandas

    return pandas


CATEGORIES = {
    "a categorical": lambda values, labels: pandas().Categorical(values, categories=labels),
    "a series": lambda values, labels: pandas().Series(
        pandas().Categorical(values, categories=labels)
    ),
    "an index": lambda values, labels: pandas().CategoricalIndex(values, categories=labels),
    "a dictionary": lambda values, labels: pa.DictionaryArray.from_arrays(
        pa.array([None if value is None else labels.index(value) for value in values], "i1"),
        pa.array(labels),
    ),
    "what was handed over": lambda values, labels: (
        dv.View(
            y=[labels.index(value) if value is not None else -1 for value in values],
            _meta={"y": {"labels": labels}},
        )
        ._to_pandas()
        .y
    ),
}


@pytest.mark.clients
@pytest.mark.parametrize("kind", CATEGORIES)
@pytest.mark.parametrize(
    "values", [[0, 1, 1, None], ["a", "b", "b", None], [2009, 2008, 2009, 2009]]
)
def test_categories_are_written_to_codes_by_what_they_are(kind, values, tmp_path):
    labels = sorted({value for value in values if value is not None})
    given = CATEGORIES[kind](values, labels[::-1])
    d = coded(labels, [0, 0, 0, 0], "i2")
    for write in (
        lambda: d.y._write(given),
        lambda: d.__setitem__(slice(None), {"x": 1, "y": given}),
        lambda: d._write((2, given)),
        lambda: np.copyto(d.y, given),
    ):
        write()
        assert told_labels(d) == values
        d.y[:] = 0
    d._save(tmp_path / "d.h5")
    with dv.open(tmp_path / "d.h5", "r+") as stored:
        stored._append({"x": np.arange(4), "y": given})
        assert told_labels(stored) == [labels[0]] * 4 + values
    with pytest.raises(ValueError, match=r"'y' (cannot hold|has no label).*'u', 'v'"):
        coded(["u", "v"], [0, 0, 0, 0]).y[:] = given


@pytest.mark.clients
def test_what_is_missing_is_written_to_codes():
    for one in (None, np.nan, float("nan"), pandas().NA, pandas().NaT, np.datetime64("NaT")):
        d = coded(OURS, [0, 1, 2])
        d.y[0] = one
        assert told_labels(d) == [None, "cat", "bird"]
    for some in ([None, np.nan], np.array([np.nan, np.nan]), pandas().Series([None, None])):
        d = coded(OURS, [0, 1])
        d.y[:] = some
        assert told_labels(d) == [None, None]
    for some in ([None, 1], np.array([np.nan, 1], object), dv.View([None, 1])):
        d = coded(OURS, [0, 0])
        d.y[:] = some
        assert told_labels(d) == [None, "cat"]
        with pytest.raises(ValueError, match=r"'y' has no code 1: .*'dog'"):
            coded(["dog"], [0, 0]).y[:] = some
    with pytest.raises(TypeError, match="cannot write float64 into int64"):
        coded(OURS, [0, 0]).y[:] = [1.0, 0]


def gapped(codes, mask, labels, **fields):
    """A record whose field y has codes with a mask, as a file of Parquet with nulls has."""
    there = pa.array([code if here else None for code, here in zip(codes, mask, strict=True)], "i1")
    return dv.View(pa.table({"y": pa.DictionaryArray.from_arrays(there, labels), **fields}))


@pytest.mark.parametrize("theirs", [OURS, THEIRS], ids=("the same", "others"))
def test_gaps_in_codes_are_written_as_codes_of_nothing(theirs):
    e = gapped([0, 1, 2, 0], [True, False, True, False], theirs, x=[5, 6, 7, 8])
    wanted = [theirs[0], None, theirs[2], None]
    for write in (
        lambda d: d.y._write(e.y),
        lambda d: [d.y.__setitem__(i, e.y[i]) for i in range(4)],
        lambda d: d._write(e),
        lambda d: [d.__setitem__(i, e[i]) for i in range(4)],
        lambda d: d.__setitem__([3, 2, 1, 0], e[::-1]),
    ):
        d = coded(OURS, [1, 1, 1, 1], "i2")
        write(d)
        assert told_labels(d) == wanted
    assert d.x().tolist() == [5, 6, 7, 8]
    with pytest.raises(ValueError, match=r"uint8, so it has no code -1"):
        coded(OURS, [0, 0, 0, 0], "u1").y[:] = e.y
    with pytest.raises(dv.FieldError, match="y_mask"):  # for what is no code, there is no such sign
        dv.View(x=[0] * 4, y=[0] * 4)[:] = e


def test_what_is_missing_in_codes_is_filled_by_labels():
    d, e = coded(OURS, [2, -1, 0, -1], "i2"), gapped([2, 0, 0, 0], [True, False, True, False], OURS)
    others = coded(THEIRS, [0, 0, 1, 1])
    for data in (d, e):
        for value, wanted in (("cat", "cat"), (1, "cat"), (others.y, ("bird", "cat"))):
            filled = dv.View(y=data.y._fillna(value))
            first, second = (wanted, wanted) if isinstance(wanted, str) else wanted
            assert told_labels(filled) == ["bird", first, "dog", second]
            assert not filled.y._isna()().any()
        for wrong in ("fox", coded(["fox"], [0]).y):
            with pytest.raises(ValueError, match=r"'y' .*'dog', 'cat', 'bird'"):
                data.y._fillna(wrong)()
        own = data.y._with_meta(labels=[*OURS, "fox"])  # a class of its own, which is to be listed
        for number in (3, dv.View(3)):
            with pytest.raises(ValueError, match=r"'y' has no code 3: .*'dog', .*_with_meta"):
                data.y._fillna(number)()
            assert told_labels(dv.View(y=own._fillna(number))) == ["bird", "fox", "dog", "fox"]
    d.y[:] = d.y._fillna("cat")
    assert told_labels(d) == ["bird", "cat", "dog", "cat"]
    lists = dv.View(t=[np.array([0, -1]), np.array([-1])], _meta={"t": {"labels": OURS}})
    filled = lists.t._fillna("cat")
    assert [row.tolist() for row in filled()] == [[0, 1], [1]]
    assert filled._labels()().tolist() == OURS


def lists_of(labels, *rows):
    return dv.View(t=[np.array(row, int) for row in rows], _meta={"t": {"labels": labels}})


LISTS = {
    "lists": lambda rows, _: rows,
    "arrays": lambda rows, _: [np.array(row, object) for row in rows],
    "a view of lists": lambda rows, _: dv.View(t=rows).t,
    "codes of other labels": lambda rows, codes: lists_of(THEIRS, *codes).t,
    "a stream": lambda rows, codes: lists_of(THEIRS, *codes)._filter(lambda row: True).t,
}


@pytest.mark.parametrize("kind", LISTS)
def test_lists_of_labels_and_of_codes_are_written_by_their_labels(kind):
    def labels_in(d):
        return [[None if code < 0 else OURS[code] for code in row.tolist()] for row in d.t()]

    rows, codes = [["dog", "bird"], ["cat"], ["dog", "cat", "dog"]], [[2, 0], [1], [2, 1, 2]]
    d, value = lists_of(OURS, [2, 2], [2], [2, 2, 2]), LISTS[kind](rows, codes)
    d.t[:] = value
    assert labels_in(d) == rows
    d = lists_of(OURS, [2, 2], [2], [2, 2, 2])
    d.t[1:] = LISTS[kind](rows[1:], codes[1:])
    assert labels_in(d) == [["bird", "bird"], *rows[1:]]
    d[:] = {"t": value}
    assert labels_in(d) == rows
    less = lists_of(["dog", "cat"], [0, 0], [0], [0, 0, 0])
    with pytest.raises(ValueError, match=r"'t' (has no label|cannot hold).*'dog', 'cat'.*") as told:
        less.t[:] = value
    assert "'bird'" in str(told.value)
    with pytest.raises(ValueError, match="row 0 has"):
        d[::-1].t[:] = value
    assert labels_in(d) == rows


def test_lists_of_codes_are_written_as_these():
    d = lists_of(OURS, [2, 2], [2])
    d.t[:] = [[0, -1], [1]]
    assert [row.tolist() for row in d.t()] == [[0, -1], [1]]
    with pytest.raises(ValueError, match=r"'t' has no code 3"):
        d.t[:] = [[0, 3], [1]]
    d.t[:] = "bird"
    assert [row.tolist() for row in d.t()] == [[2, 2], [2]]
    d.t[:] = ["cat", "dog"]
    assert [row.tolist() for row in d.t()] == [[1, 1], [0]]


def test_rows_that_a_function_keeps_are_written_by_their_labels():
    d, e = coded(OURS, [2, 2]), coded(THEIRS, [0, 2, -1, 1])
    kept = e._filter(lambda row: row.x % 2 == 0)
    for write in (lambda: d.y._write(kept.y), lambda: np.copyto(d.y, kept.y)):
        write()
        assert told_labels(d) == ["bird", None]
        d.y[:] = 0


CODES = {
    "one": lambda code: code,
    "one of NumPy": np.int16,
    "an array without axes": np.array,
    "a list": lambda code: [code, 0, -1],
    "an array": lambda code: np.array([1, code, 0], "i8"),
    "a view": lambda code: dv.View([1, code, 0]),
    "what is computed": lambda code: dv.View([0, code - 1, 0]) + 1,
}


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("labels", [OURS, [2008, 5, -2]], ids=("texts", "numbers"))
def test_codes_of_no_label_are_not_written(kind, labels, tmp_path):
    coded(labels, [2, 2, 2], "i2")._save(tmp_path / "d.h5")
    with dv.open(tmp_path / "d.h5", "r+") as stored:
        for d in (stored, coded(labels, [2, 2, 2], "i2")):
            for code in (3, 5, -2):
                told = rf"'y' has no code {code}: .* 0 to 2.* {labels[0]!r}, {labels[1]!r}"
                with pytest.raises(ValueError, match=told):
                    d.y[:] = CODES[kind](code)
                with pytest.raises(ValueError, match=told):
                    d[:] = {"x": 0, "y": CODES[kind](code)}
            assert d.y().tolist() == [2, 2, 2]
            for code in (-1, 0, 1):
                d.y[:] = CODES[kind](code)
                assert_same(d.y(), np.broadcast_to(np.asarray(CODES[kind](code)), 3).astype("i2"))
            d.y[:] = 2


def test_one_code_of_no_label_is_not_written():
    d, years = coded(OURS, [0, 1, 2]), coded([2008, 2009], [0, 1, 0])
    for write in (
        lambda: d.y.__setitem__(0, 3),
        lambda: d.__setitem__((0, "y"), 3),
        lambda: d[0]._write((0, 3)),
        lambda: np.put(d.y, [0], 3),
        lambda: d.y.__setitem__(d.y == "cat", 3),
        lambda: d.y[1:]._write(dv.View([0, 3])),
    ):
        with pytest.raises(ValueError, match=r"no code 3: .*'dog', 'cat', 'bird'.*_with_meta"):
            write()
    with pytest.raises(ValueError, match=r"no code 2008: .*; 2008 is the label of code 0"):
        years.y[years.y == 2009] = 2008
    assert told_labels(d) == OURS
    assert told_labels(years) == [2008, 2009, 2008]


@pytest.mark.parametrize("labels", [[True, False], [False, True], [2.5, 0.0, 1.0]])
def test_labels_that_are_truth_values_or_floats_are_written_as_such(labels):
    d = coded(labels, [0, 0])
    one, other = labels[1], labels[0]
    for value in ([one, other], np.array([one, other]), dv.View([one, other])):
        d.y[:] = value
        assert told_labels(d) == [one, other]
        d.y[0] = other
        d.y[1] = np.array(one)
        assert told_labels(d) == [other, one]
    d.y[:] = [0, 1]
    assert told_labels(d) == [other, one]
    d.y[0] = None
    assert told_labels(d) == [None, one]


def test_codes_with_gaps_are_written_with_their_labels():
    def column(texts):
        return dv.View(pa.table({"y": pa.array(texts).dictionary_encode()}))._copy()

    d, e = column(["a", None, "c", "b"]), column([None, "b", "c", "a"])
    d.y[:] = e.y
    there, codes = d.y._notna()().tolist(), d.y().tolist()
    labels = d.y._meta["labels"]
    assert [labels[code] if here else None for code, here in zip(codes, there, strict=True)] == [
        None, "b", "c", "a",
    ]  # fmt: skip


def test_lists_of_codes_of_other_labels_are_written_as_a_whole_and_row_by_row():
    d = dv.View(y=[[0, 1], [2]], _meta={"y": {"labels": OURS}})
    e = dv.View(y=[[0, 1], [2]], _meta={"y": {"labels": THEIRS}})
    d.y[:] = e.y
    assert [row.tolist() for row in d.y()] == [[2, 1], [0]]
    d.y[:] = 0
    for number in range(2):
        d.y[number] = e.y[number]
    assert [row.tolist() for row in d.y()] == [[2, 1], [0]]


def test_codes_of_other_labels_are_not_mixed_by_functions_of_numpy():
    mask = np.array([True, False, True, False])
    d, e, like_d = (
        coded(OURS, [2, 1, 0, -1]),
        coded(THEIRS, [0, 2, -1, 1]),
        coded(OURS, [0, 0, 1, 1]),
    )
    functions = {
        "where": lambda one, other: np.where(mask, one, other),
        "choose": lambda one, other: np.choose([0, 1, 1, 0], [one, other]),
        "select": lambda one, other: np.select([mask, ~mask], [one, other]),
        "append": np.append,
        "insert": lambda one, other: np.insert(one, 0, other),
        "column_stack": lambda one, other: np.column_stack([one, other]),
        "block": lambda one, other: np.block([one, other]),
        "concatenate": lambda one, other: np.concatenate([one, other], dtype="i8"),
        "union1d": np.union1d,
    }
    for name, function in functions.items():
        with pytest.raises(ValueError, match=rf"np\.{name} .*'dog', 'cat', 'bird'.*_codes"):
            function(d.y, e.y)
        found = function(d.y, like_d.y)
        found = found() if isinstance(found, dv.View) else found
        assert found.tolist() == function(d.y(), like_d.y()).tolist()
        assert function(d.y, e.y._with_meta(labels=None)) is not None
    assert np.choose(e.y._codes() + 1, [d.y, d.y, d.y, d.y])[0] == 2


def test_where_of_codes_of_the_same_labels_has_their_labels():
    mask = np.array([True, False, True, False])
    d, other = coded(OURS, [2, 1, 0, -1]), coded(OURS, [0, 0, 1, 1])
    ours, theirs = told_labels(d), told_labels(other)
    found = dv.View(y=np.where(mask, d.y, other.y))
    assert told_labels(found) == [a if m else b for m, a, b in zip(mask, ours, theirs, strict=True)]
    values = {"bird": "bird", None: None, -1: None, 1: "cat"}
    for value, label in values.items():
        found = dv.View(y=np.where(mask, d.y, value))
        assert told_labels(found) == [a if m else label for m, a in zip(mask, ours, strict=True)]
    texts = ["cat", "dog", "bird", "cat"]
    found = dv.View(y=np.where(mask, d.y, texts))
    assert told_labels(found) == [a if m else t for m, a, t in zip(mask, ours, texts, strict=True)]
    with pytest.raises(ValueError, match="'y' has no label 'dgo'"):
        np.where(mask, d.y, "dgo")
    for numbers in (True, 0.5):
        found = np.where(mask, d.y, numbers)
        assert "labels" not in found._meta
        assert_same(found(), np.where(mask, d.y(), numbers))


def test_select_and_choose_of_codes_of_the_same_labels_have_their_labels():
    first, last = np.array([True, False, True, False]), np.array([False, False, True, True])
    d, other = coded(OURS, [2, 1, 0, -1], "i1"), coded(OURS, [0, 0, 1, 1], "i1")
    ours, theirs = (np.array(told_labels(one), object) for one in (d, other))
    for default, label in [("cat", "cat"), (None, None), (-1, None), (0, "dog"), (other.y, theirs)]:
        found = np.select([first, last], [d.y, "bird"], default)
        assert_same(found(), np.select([first, last], [d.y(), 2], found_code(default)))
        expected = np.select([first, last], [ours, np.array("bird", object)], label)
        assert told_labels(dv.View(y=found)) == expected.tolist()
    modes = {"raise": [0, 1, 2, 1], "clip": [0, 1, 7, -1], "wrap": [3, 1, -1, 2]}
    for mode, numbers in modes.items():
        for places in (numbers, np.array(numbers), dv.View(numbers)):
            found = np.choose(places, [d.y, other.y, "cat"], mode=mode)
            expected = np.choose(numbers, [ours, theirs, np.array("cat", object)], mode=mode)
            assert told_labels(dv.View(y=found)) == expected.tolist()
            assert found._dtype() == "i1"
    found = np.choose([0, 1], dv.View(np.array([[0, 1], [1, 0]]))._with_meta(labels=["a", "b"]))
    assert told_labels(dv.View(y=found)) == ["a", "a"]
    later = np.select([d.y == "cat"], ["bird"], d.y)
    d.y[0] = "cat"
    assert told_labels(dv.View(y=later)) == ["bird", "bird", "dog", None]


CHOOSING = {
    "where": lambda mask, codes, value: np.where(mask, codes, value),
    "select": lambda mask, codes, value: np.select([mask], [codes], value),
    "choose": lambda mask, codes, value: np.choose(1 - mask, [codes, value]),
    "_fillna": lambda mask, codes, value: codes._fillna(value),
}


@pytest.mark.parametrize("name", CHOOSING)
@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("labels", [OURS, [2008, 5, -2]], ids=("texts", "numbers"))
def test_integers_beside_codes_are_codes_or_refused(name, kind, labels):
    mask, codes, chosen = np.array([True, False, True]), [2, -1, 1], CHOOSING[name]
    d = coded(labels, codes, "i2")
    for code in (3, 5, -2, 2008):
        told = rf"'y' has no code {code}: .* 0 to 2.* {labels[0]!r}, {labels[1]!r}"
        with pytest.raises(ValueError, match=told):
            np.asarray(chosen(mask, d.y, CODES[kind](code)))
    for code in (-1, 0, 1):
        value = CODES[kind](code)
        found = chosen(mask, d.y, value)
        # each takes the value for row 1, which alone has no label and is not in the mask
        filled = np.where([True, False, True], codes, np.asarray(value))
        assert found().tolist() == filled.tolist()
        assert found._meta["labels"] == labels


def test_no_label_beside_codes_without_a_sign_is_refused():
    d = coded(OURS, [2, 1, 0], "u1")
    mask = np.array([True, False, True])
    for value in (-1, [0, -1, 0], np.array([0, -1, 0])):
        with pytest.raises(ValueError, match=r"uint8, so it has no code -1.*_astype"):
            np.where(mask, d.y, value)()
    assert told_labels(dv.View(y=np.where(mask, d.y, 0))) == ["bird", "dog", "dog"]


def test_integers_beside_codes_whose_labels_are_found_later_are_checked_when_these_are():
    made = Counting(["a", "c", "b", "a"].__getitem__)
    codes, mask = made.probed(4)._codes(), np.array([True, False, True, False])
    found = [np.where(mask, codes, value) for value in (1, -1, [0, 1, 2, 0])]
    wrong = [np.where(mask, codes, value) for value in (3, [0, 1, 2, 3])]
    assert made.asked == []
    for chosen, value in zip(found, (1, -1, [0, 1, 2, 0]), strict=True):
        assert chosen().tolist() == np.where(mask, [0, 2, 1, 0], value).tolist()
        assert chosen._labels()().tolist() == ["a", "b", "c"]
    for chosen in wrong:
        with pytest.raises(ValueError, match=r"no code 3: .* 0 to 2"):
            chosen()


JOINING = {
    "append": np.append,
    "append by name": lambda one, other: np.append(values=other, arr=one),
    "append to labels": lambda one, other: np.append(other, one),
    "insert": lambda one, other: np.insert(one, [0, 2, 1], other),
    "insert into labels": lambda one, other: np.insert(other, 1, one),
    "insert one": lambda one, other: np.insert(one, 2, other[0]),
    "concatenate": lambda one, other: np.concatenate([one, other]),
    "hstack": lambda one, other: np.hstack((one, other, one)),
    "vstack": lambda one, other: np.vstack([other, one]),
    "stack": lambda one, other: np.stack([one, other], axis=1),
    "column_stack": lambda one, other: np.column_stack([one, other]),
    "dstack": lambda one, other: np.dstack([one, other]),
    "block": lambda one, other: np.block([one, *other]),
    "union1d": np.union1d,
    "intersect1d": np.intersect1d,
    "setdiff1d": lambda one, other: np.setdiff1d(one, other[:1]),
    "setxor1d": np.setxor1d,
}


@pytest.mark.parametrize("name", JOINING)
@pytest.mark.parametrize("kind", ["a list", "an array", "a view"])
@pytest.mark.parametrize("labels", [["a", "b"], [DAY, DAY + 1], [False, True], [0.5, 1.5]], ids=str)
def test_labels_beside_codes_become_codes_where_elements_are_joined(name, kind, labels):
    codes, others, join = [0, 1, 0], [1, 0, 0], JOINING[name]
    given = {"a list": list, "an array": np.array, "a view": dv.View}[kind]
    d = coded(labels, codes)
    found = np.asarray(join(d.y, given([labels[code] for code in others])))
    expected = join(np.array(codes), np.array(others))  # of the labels' order, as of the codes'
    assert found.dtype.kind == "i" and found.tolist() == expected.tolist()
    if kind != "a view" and labels[0] == "a":
        with pytest.raises(ValueError, match=r"'y' has no label 'dgo'.*'a', 'b'"):
            join(d.y, given(["dgo", "a", "b"]))


def test_labels_that_are_joined_to_codes_lazily_know_their_labels():
    d = coded(OURS, [2, -1, 0])
    found = np.concatenate([d.y, ["cat", None], np.array(["dog"])])
    assert told_labels(dv.View(y=found)) == [*told_labels(d), "cat", None, "dog"]
    assert np.append(d.y, 7).tolist() == [2, -1, 0, 7]
    out, other = coded(OURS, [0] * 5), np.zeros(5, int)
    np.concatenate([d.y, ["cat", "bird"]], out=out.y)
    np.concatenate([d.y, ["cat", "bird"]], out=other)
    assert told_labels(out) == [*told_labels(d), "cat", "bird"]
    assert other.tolist() == [2, -1, 0, 1, 2]


TRUTHS = {
    "one": lambda truths: truths[0],
    "one of NumPy": lambda truths: np.bool_(truths[0]),
    "an array without axes": lambda truths: np.array(truths[0]),
    "a list": lambda truths: truths,
    "an array": np.array,
    "a view": dv.View,
    "what is computed": lambda truths: ~dv.View([not truth for truth in truths]),
}


@pytest.mark.parametrize("kind", TRUTHS)
@pytest.mark.parametrize("labels", [[True, False], [False, True], [True]], ids=str)
def test_truth_values_beside_codes_are_labels_where_the_labels_are_such(kind, labels):
    mask, truths = np.array([True, False, False]), [True, labels[-1], True]
    d, value = coded(labels, [0, -1, 0]), TRUTHS[kind](truths)
    ours = np.array(told_labels(d), object)
    theirs = np.resize(np.array(truths, object), 3) if np.ndim(value) else truths[0]
    chosen = np.where(mask, ours, theirs).tolist()
    assert told_labels(dv.View(y=np.where(mask, d.y, value))) == chosen
    assert told_labels(dv.View(y=np.select([mask], [d.y], value))) == chosen
    assert told_labels(dv.View(y=np.choose(1 - mask, [d.y, value]))) == chosen
    filled = np.where(np.equal(ours, None), theirs, ours)
    assert told_labels(dv.View(y=d.y._fillna(value))) == filled.tolist()


def found_code(default):
    return default() if isinstance(default, dv.View) else {"cat": 1, None: -1}.get(default, default)


def test_select_and_choose_of_codes_and_other_numbers_are_numpys():
    mask, d = np.array([True, False, True, False]), coded(OURS, [2, 1, 0, -1], "i1")
    assert_same(np.select([mask], [d.y]), np.select([mask], [d.y()]))
    assert_same(np.select([mask], [d.y], 0.5), np.select([mask], [d.y()], 0.5))
    assert_same(np.choose([0, 1, 1, 0], [d.y, 0.5]), np.choose([0, 1, 1, 0], [d.y(), 0.5]))
    plain = d.y._with_meta(labels=None)
    assert_same(np.where(mask, plain, 7)(), np.where(mask, d.y(), 7))
    assert_same(np.select([mask], [plain], 7), np.select([mask], [d.y()], 7))
    assert_same(np.choose([0, 1, 1, 0], [plain, 7]), np.choose([0, 1, 1, 0], [d.y(), 7]))
    for choices in ([d.y, "cat"], [d.y(), 1]):
        with pytest.raises(ValueError, match="invalid entry in choice array"):
            np.choose([0, 1, 2, 0], choices)
        with pytest.raises(ValueError, match="same length"):
            np.select([mask], choices, -1)
        with pytest.raises(TypeError, match="invalid entry 0 in condlist"):
            np.select([mask.astype(int)], choices[:1], -1)
    with pytest.raises(ValueError, match="has no label 'dgo'"):
        np.select([mask], [d.y], "dgo")


def test_where_of_codes_whose_labels_are_found_later_reads_nothing():
    made = Counting(["a", "c", "b", "a"].__getitem__)
    codes, mask = made.probed(4)._codes(), np.array([True, False, True, False])
    test = dv.View(np.array(["c", "b", "c", "x"]))
    chosen = np.where(mask, codes, test._codes(labels=codes._labels()))
    with pytest.raises(ValueError, match=r"np\.where would mix.*labels of its own"):
        np.where(mask, codes, test._codes())
    assert made.asked == []
    assert chosen._labels()[chosen[:3]]().tolist() == ["a", "b", "b"]
    again = np.where(mask, codes, test._codes(labels=codes._labels()))
    assert again().tolist() == chosen().tolist() == [0, 1, 1, -1]


OUTPUTS = {
    "positive": lambda value, out: np.positive(value, out=out),
    "positive where": lambda value, out: np.positive(value, out=out, where=np.ones(4, bool)),
    "positive unsafe": lambda value, out: np.positive(value, out=out, casting="unsafe"),
    "add": lambda value, out: np.add(value, 0, out=out),
    "clip": lambda value, out: np.clip(value, -1, 2, out=out),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_codes_of_other_labels_are_not_put_into_codes(name):
    d, e, like_d = (
        coded(OURS, [2, 1, 0, -1]),
        coded(THEIRS, [0, 2, -1, 1]),
        coded(OURS, [0, 0, 1, 1]),
    )
    before = told_labels(d)
    with pytest.raises(ValueError, match=r"with out= would mix .*'dog', 'cat', 'bird'"):
        OUTPUTS[name](e.y, d.y)
    assert told_labels(d) == before
    OUTPUTS[name](like_d.y, d.y)
    assert told_labels(d) == told_labels(like_d)
    plain = np.zeros(4, int)
    OUTPUTS[name](e.y, plain)
    assert plain.tolist() == e.y().tolist()


MANY = [f"label {number}" for number in range(100_000)]
LABELS_OF = {
    "one": ["dog"],
    "two": ["dog", ""],
    "many": MANY,
    "unicode": ["Hund", "çà", "犬", "a\0", "a", "a" * 99],
    "bytes": [b"dog", b"", b"a\0", b"a"],
    "floats": [0.5, np.nan, -0.0, 2.0],
    "truths": [True, False],
    "times": [np.datetime64("2020"), np.datetime64("2021-02-03")],
    "of several kinds": ["dog", None, b"dog", Decimal(3)],
    "of NumPy": [np.str_("dog"), np.str_("cat")],
}


def codes_by_hand(labels, value):
    """The code of a label: of what is missing -1; None of what is no label."""
    if value is None or value != value:
        return -1
    found = [code for code, own in enumerate(labels) if own == value and own is not None]
    return found[0] if found else None


@pytest.mark.parametrize("form", ["memory", "file"])
@pytest.mark.parametrize("name", LABELS_OF)
def test_one_label_is_written_by_its_code(name, form, tmp_path):
    labels = LABELS_OF[name]
    d = dv.View(kind=np.zeros(4, "i4"), _meta={"kind": {"labels": labels}})
    if form == "file" and name not in ("times", "of several kinds"):
        d._save(tmp_path / "d.h5")
        d = dv.open(tmp_path / "d.h5", "r+")
    for value in [*labels[:6], labels[-1], None, "fox", b"fox", np.str_("dog")]:
        expected = codes_by_hand(labels, value)
        for key in (1, slice(2, 4), [0, 3], ...):
            d.kind[:] = codes = np.zeros(4, "i4")
            if expected is None:
                with pytest.raises((ValueError, TypeError)):
                    d.kind[key] = value
            else:
                d.kind[key] = value
                codes[key] = expected
            assert d.kind().tolist() == codes.tolist()
    d._close()


def test_a_label_is_written_to_codes_with_gaps():
    table = pa.table({"kind": pa.array(["dog", None, "cat"]).dictionary_encode()})
    d = dv.View(table)._copy()
    d.kind[1], d.kind[2] = "cat", None
    assert pa.table(d)["kind"].to_pylist() == ["dog", "cat", None]
    d.kind[...] = "dog"
    assert pa.table(d)["kind"].to_pylist() == ["dog"] * 3


def test_labels_that_changed_after_a_write_are_written_by_their_new_codes():
    labels = ["dog", "cat"]
    d = dv.View(kind=np.zeros(3, "i1"), _meta={"kind": {"labels": labels}})
    d.kind[0], d.kind[1:] = "cat", ["cat", "dog"]
    assert d.kind().tolist() == [1, 1, 0]
    labels.append("bird")
    d.kind[0], d.kind[1:] = "bird", ["cat", "bird"]
    assert d.kind().tolist() == [2, 1, 2]
    labels[:] = ["bird", "dog", "cat"]
    d.kind[0], d.kind[1:] = "bird", ["cat", "dog"]
    assert d.kind().tolist() == [0, 2, 1]
    d.kind[1] = "cat"
    labels[2] = "fox"
    d.kind[0] = "fox"
    for value in ("cat", ["dog", "cat"]):
        with pytest.raises(ValueError, match="has no label 'cat'"):
            d.kind[1:] = value
    assert d.kind().tolist() == [2, 2, 1]
    d.kind = d.kind._with_meta(labels=["a", "b", "c"])
    d.kind[0] = "b"
    assert d.kind().tolist() == [1, 2, 1]
    other = pickle.loads(pickle.dumps(d))
    other.kind[0], copy.deepcopy(d).kind[0] = "c", "a"
    assert other.kind().tolist() == [2, 2, 1] and d.kind().tolist() == [1, 2, 1]


def test_labels_are_sorted_once_for_many_writes(monkeypatch):
    from dataview.tables import written

    d, calls = known(), []
    own = written.coder
    monkeypatch.setattr(written, "coder", lambda labels: calls.append(labels) or own(labels))
    for label in ("cat", "bird"):
        d.kind[0] = label
        d.kind[:2] = d[2:].kind[:] = label
    assert calls == []
    for labels in (["cat", "dog"], ["bird", None]):
        d.kind[:2] = labels
        d[2:].kind[:] = labels
    assert len(calls) == 1 and d.kind().tolist() == [2, -1, 2, -1]


def test_labels_in_a_file_are_read_at_each_write(tmp_path):
    np.save(tmp_path / "labels.npy", np.array(["dog", "cat"]))
    labels = dv.open(tmp_path / "labels.npy", "r+")
    codes = dv.View(np.zeros(2, "i1"))._with_meta(labels=labels)
    codes[0] = "cat"
    labels[:] = ["cat", "dog"]
    codes[1] = "dog"
    assert codes().tolist() == [1, 1]
    with pytest.raises(ValueError, match="has no label 'fox'"):
        codes[0] = "fox"


def test_a_label_whose_code_is_too_large_is_refused_again():
    for codes in (np.zeros(3, "i1"), np.zeros(3, "u1")):
        d = dv.View(kind=codes, _meta={"kind": {"labels": MANY[:300]}})
        d.kind[0] = "label 127"
        for label, key in [("label 299", 1), ("label 299", slice(1, 3)), ("label 299", [2])]:
            with pytest.raises(ValueError, match="cannot hold 299, the code of 'label 299'"):
                d.kind[key] = label
        assert d.kind().tolist() == [127, 0, 0]


def added(codes, number):
    codes += number  # assigned back to the name alone


IN_PLACE = {
    "+=": added,
    "rows": lambda codes, n: added(codes[1:3], n),
    "one": lambda codes, n: added(codes[1:2], n),
    "out": lambda codes, n: np.add(codes, n, out=codes),
    "where": lambda codes, n: np.add(codes, n, out=codes, where=np.arange(len(codes)) < 2),
    "at": lambda codes, n: np.add.at(codes, [0, 2], n),
    "at a mask": lambda codes, n: np.add.at(codes, np.arange(len(codes)) == 1, n),
    "accumulate": lambda codes, n: np.add.accumulate(codes * n, out=codes, dtype="i1"),
    "cumsum": lambda codes, n: np.cumsum(codes * n, out=codes),
    "take": lambda codes, n: np.take(np.arange(n, n + 9, dtype="i1"), [1, 0, 2], out=codes[:3]),
    "unsafe": lambda codes, n: np.add(codes, n, out=codes, casting="unsafe", dtype="i8"),
}
"""What changes codes by arithmetic."""


@pytest.mark.parametrize("size", [4, 300_000])
@pytest.mark.parametrize("name", IN_PLACE)
def test_numbers_that_are_computed_into_codes_are_codes(name, size):
    change = IN_PLACE[name]
    for number in (0, 1, -1, 3, -2):
        codes = np.resize(np.array([0, 1, 0, 0], "i1"), size)
        d, expected = known(codes=codes), codes.copy()
        change(expected, number)
        if expected.min() >= -1 and expected.max() < 3:
            change(d.kind, number)
        else:
            with pytest.raises(ValueError, match=r"'kind' has no code -?\d.*_with_meta\(labels="):
                change(d.kind, number)
            expected = codes
        assert_same(d.kind(), expected)


def test_codes_in_files_and_in_lists_do_not_become_numbers_without_a_label(tmp_path):
    known()._save(tmp_path / "d.h5")
    lists = pa.LargeListArray.from_arrays(
        [0, 1, 4], pa.DictionaryArray.from_arrays(pa.array([1, 0, 0, 1], "i1"), ["dog", "cat"])
    )
    table = dv.View(pa.table({"kind": lists}))._copy()
    with dv.open(tmp_path / "d.h5", "r+") as d:
        found = dv.View(["b", "a"])._codes()._copy()
        for codes, step in [(d.kind, 3), (table.kind, 1), (found, 1)]:
            before = str(codes())
            with pytest.raises(ValueError, match="has no code"):
                added(codes, step)
            assert str(codes()) == before
            added(codes, 0)
            assert str(codes()) == before
        added(d.kind[1:2], 2)
        assert told_labels(dv.View(y=d.kind)) == ["cat", "bird", None, "cat"]


def test_codes_that_keep_their_labels_are_put_into_codes_as_they_are_written():
    d, e = coded(OURS, [2, 1, 0, -1]), coded(THEIRS, [0, 2, -1, 1])
    np.take(e.y, [3, 2, 1, 0], out=d.y)
    assert told_labels(d) == told_labels(e)[::-1]
    plain = np.zeros(4, int)
    np.choose([0, 0, 0, 0], [e.y], out=plain)
    assert plain.tolist() == e.y().tolist()
    np.choose([0, 1, 0, 1], [e.y, "dog"], out=d.y)
    labels = told_labels(e)
    assert told_labels(d) == [labels[0], "dog", labels[2], "dog"]
    with pytest.raises(ValueError, match="of the value it lacks 'fox'"):
        np.choose([0, 0, 1, 1], [coded(["fox", "cat"], [0, 1, 0, 1]).y, "cat"], out=d.y)
    assert told_labels(d) == [labels[0], "dog", labels[2], "dog"]


def test_codes_are_filled_with_labels():
    d, e = coded(OURS, [2, -1, 0, -1]), coded(THEIRS, [0, 2, 1, 1])
    ours = told_labels(d)
    for value, labels in [("cat", ["cat"] * 4), (1, ["cat"] * 4), (e.y, told_labels(e))]:
        found = told_labels(dv.View(y=d.y._fillna(value)))
        assert found == [b if a is None else a for a, b in zip(ours, labels, strict=True)]
    with pytest.raises(ValueError, match="'y' has no code 7"):
        d.y._fillna(7)
    with pytest.raises(ValueError, match="'y' has no label 'dgo'"):
        d.y._fillna("dgo")()
    with pytest.raises(ValueError, match="of the value it lacks 'fox'"):
        d.y._fillna(coded(["bird", "fox"], [0, 1, 0, 1]).y)


def test_labels_that_are_found_are_compared():
    codes = dv.View(["b", "a", None, "b"])._codes()
    assert (codes == "b")().tolist() == [True, False, False, True]
    assert (codes == 1)().tolist() == [True, False, False, True]


def test_labels_that_are_not_found_yet_are_read_when_the_comparison_is():
    count = Counting(np.array(["b", "a", "c", "b"]).__getitem__)
    codes = dv.View(label=count.probed(4)).label._codes()
    are_b, are_x = codes == "b", codes == "x"
    assert count.asked == []
    assert are_b().tolist() == [True, False, False, True]
    with pytest.raises(ValueError, match=r"no label 'x'\. The labels are: 'a', 'b', 'c'"):
        are_x()
    assert "== 'b'" in repr(dv.View(["b", "a"])._codes() == "b")


def test_a_label_that_codes_do_not_have_is_told():
    d = known()
    for compare in (lambda v: v == "brid", lambda v: v != "brid", lambda v: np.equal(v, "brid")):
        with pytest.raises(ValueError, match="'kind' has no label 'brid'; did you mean 'bird'"):
            compare(d.kind)
    assert "brid" not in d.kind
    assert not np.isin(d.kind, ["brid"]).any()
    for compare in (lambda v: v < "cat", lambda v: v <= "cat", lambda v: np.greater(v, "cat")):
        with pytest.raises(TypeError, match="'kind' holds codes of labels, which have no order"):
            compare(d.kind)


def test_a_comparison_with_a_label_reads_nothing():
    count = Counting([1, 0, -1, 1].__getitem__)
    d = dv.View(kind=count.probed(4), _meta={"kind": {"labels": ["dog", "cat"]}})
    mask = d.kind == "cat"
    assert count.asked == []
    assert d[mask].kind().tolist() == [1, 1]


@examples(100)
@given(st.data())
def test_codes_of_what_is_missing_are_sorted_last(data):
    codes = np.array(
        data.draw(st.lists(st.integers(-1, 2))), data.draw(st.sampled_from(["i1", "i8"]))
    )
    numbers = np.array([0.0, 1.0, 2.0, np.nan])[codes]
    d = known(codes=codes)
    for names, keys in ((["kind"], [numbers]), (["kind", "x"], [d.x(), numbers])):
        assert_same(d._sorted(by=names).kind(), codes[np.lexsort(keys)].astype("i1"))
    by_numbers = dv.View(x=d.x(), kind=numbers)
    for reverse in (False, True):
        assert_same(
            d._sorted(by="kind", reverse=reverse).x(),
            by_numbers._sorted(by="kind", reverse=reverse).x(),
        )
    assert_same(d.kind._sorted()(), codes[np.argsort(numbers, kind="stable")].astype("i1"))


def test_codes_that_are_found_are_sorted_with_the_missing_last():
    d = dv.View(label=["b", "a", None, "b"])
    assert d.label._codes()._sorted()().tolist() == [0, 1, 1, -1]
    assert dv.View(np.array([1, -1, 0]))._sorted()().tolist() == [-1, 0, 1]


def test_select_and_drop_take_a_list_of_names():
    d = dv.View(x=[1], y=[2], z=[3])
    assert d._select(["z", "x"])._fields() == ("z", "x")
    assert d._drop(["y", "x"])._fields() == d._drop(("y", "x"))._fields() == ("z",)
    assert d._drop([])._fields() == d._drop()._fields() == ("x", "y", "z")
    for verb in (d._select, d._drop):
        with pytest.raises(dv.FieldError, match="no field 'w'"):
            verb(["x", "w"])


def test_data_written_to_no_field_tell_how_to_add_one():
    d = dv.View(x=[1, 2])
    with pytest.raises(dv.FieldError, match=r"no field 'w'.*d\._set_field\('w', data\) adds it"):
        d["w"] = np.arange(2)
    with pytest.raises(dv.FieldError, match=r"no field 'w'.*d\._set_field\('w', data\) adds it"):
        d.w = np.arange(2)
    d._set_field("w", np.arange(2))
    assert d.w().tolist() == [0, 1]


def test_a_record_has_no_column_for_each_label():
    with pytest.raises(TypeError, match="_onehot takes one array, not a record"):
        known()._onehot()


@pytest.mark.parametrize("dtype", ["int64", "string", "float64"])
def test_keys_with_gaps_are_joined_with_nothing(dtype, tmp_path):
    def keys(*values):
        own = [None if value is None else str(value) for value in values]
        return pa.array(own if dtype == "string" else values, dtype)

    pq.write_table(pa.table({"k": keys(0, None, 2, 5), "x": range(4)}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"k": keys(2, 0, None), "y": [20, 10, 99]}), tmp_path / "b.parquet")
    a, b = dv.open(tmp_path / "a.parquet"), dv.open(tmp_path / "b.parquet")
    found = a._join(b, on="k", missing="mask")
    assert found._fields() == ("k", "x", "y", "k_mask", "k_mask_2", "y_mask")
    assert found.k._isna()().tolist() == [False, True, False, False]
    assert found.y._isna()().tolist() == [False, True, False, True]
    assert found.k_mask().tolist() == [True, False, True, False]
    assert found.y().tolist() == [10, 0, 20, 0]
    assert a[[0, 2]]._join(b, on="k").y().tolist() == [10, 20]
    assert a._join(b, missing="mask").y().tolist() == [10, 0, 20, 0]
    with pytest.raises(
        KeyError, match=r"row 1 has the k (None|nan), which is not among the 2 values"
    ):
        a[:3]._join(b, on="k").y()


# -------------------- tables of distinct values --------------------

TABLES = {
    "counts": lambda d: d.city._counts(),
    "counts of codes": lambda d: d.city._codes()._counts(),
    "counts of stored codes": lambda d: d.code._counts(),
    "counts of distinct values": lambda d: d.city._unique(counts=True),
    "counts of groups": lambda d: d._group({"value": d.city})._counts(),
}


@pytest.mark.parametrize("name", TABLES)
def test_counts_are_a_table_whose_rows_are_chosen_ordered_and_joined(name):
    city = np.array(["b", "c", "a", "b", "b", "c"])
    code = dv.View(np.array([1, 2, 0, 1, 1, 2]))._with_meta(labels=["a", "b", "c"])
    d = dv.View(city=city, code=code)
    values, counts = np.unique(city, return_counts=True)
    expected = dv.View(value=values, count=counts)
    for ask in (
        lambda table: table._sorted(by="count"),
        lambda table: table._sorted(by="count", reverse=True),
        lambda table: table[0], lambda table: table[::-1], lambda table: table[[1, 0]],
        lambda table: table[1:]._minibatches(2)[0],
        lambda table: table._filter(table["count"] > 1),
        lambda table: table._shuffled(0), lambda table: table.value[::-1],
        lambda table: table["count"] / table["count"]._sum(), lambda table: table.value == "b",
        lambda table: table._join(dv.View(value=["c", "a", "b"], size=[3, 1, 2]), on="value"),
        lambda table: dv.View(value=["c", "a", "b"], size=[3, 1, 2])._join(table, on="value"),
    ):  # fmt: skip
        assert_same(ask(TABLES[name](d))(), ask(expected)())
    assert len(TABLES[name](d)) == TABLES[name](d)._length() == len(expected)
    assert TABLES[name](d)._shape() == expected._shape()


def test_labels_that_are_found_number_other_rows_and_their_own_parts():
    d = dv.View(["b", "a", "c", "b"])
    labels, codes = d._labels(), d._codes()
    assert codes._labels()[::-1]().tolist() == ["c", "b", "a"]
    assert codes._counts()[codes._labels() == "b"].count().tolist() == [2]
    assert codes._codes(labels=["c", "b"])().tolist() == [1, -1, 0, 1]
    for known in (labels, d._counts().value, d._unique(), labels[::-1][::-1]):
        assert dv.View(["c", "d"])._codes(labels=known)().tolist() == [2, -1]
        assert d._onehot(labels=known)._shape() == (4, 3)


def test_a_join_keeps_its_keys_and_knows_what_has_no_partner(tmp_path):
    d = dv.View(city=["Bonn", "Rome", "Oslo"], day=[1, 2, 3])
    image = pa.array([[1, 2], None], pa.list_(pa.int64(), 2))
    sizes = {"pop": [3, None], "rate": [0.5, 1.5], "flag": [True, False], "image": image}
    other = dv.View(pa.table({"city": ["Rome", "Oslo"], **sizes, "at": [{"x": 1}, {"x": 2}]}))
    both = d._join(other, missing="mask")
    assert both.city._isna()().tolist() == [False] * 3 and len(both._dropna("city")) == 3
    assert both._missing().city() == 0 and both._missing().pop() == 2
    assert "gaps: pop_mask" in repr(both) and "mask_of" not in repr(both)
    assert both.pop._mean()() == 3.0 and both.rate._mean()() == 1.0 and both.at.x._sum()() == 3
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        means = both._group(by="city")._mean().pop()
    assert_same(means, np.array([np.nan, np.nan, 3.0]))
    expected = [
        {"city": "Bonn", "day": 1, "pop": None, "rate": None, "flag": None, "image": None,
         "at": {"x": None}, "city_mask": False},
        {"city": "Rome", "day": 2, "pop": 3, "rate": 0.5, "flag": True, "image": [1, 2],
         "at": {"x": 1}, "city_mask": True},
        {"city": "Oslo", "day": 3, "pop": None, "rate": 1.5, "flag": False, "image": None,
         "at": {"x": 2}, "city_mask": True},
    ]  # fmt: skip
    assert pa.table(both).to_pylist() == expected
    both._save(tmp_path / "both.parquet")
    assert pq.read_table(tmp_path / "both.parquet").to_pylist() == expected
    both._drop("image", "at")._save(tmp_path / "both.csv")
    lines = (tmp_path / "both.csv").read_text().split()
    assert lines[1:3] == ["Bonn,1,,,,false", "Rome,2,3,0.5,true,true"]


def test_joined_lists_and_labels_know_what_has_no_partner():
    d = dv.View(k=[1, 2])
    other = dv.View(k=[2], x=dv.ragged([[5, 6]]), kind=[1], _meta={"kind": {"labels": ["a", "b"]}})
    both = d._join(other, missing="mask")
    assert both._fields() == ("k", "x", "kind", "k_mask", "x_mask")
    table = pa.table(both)
    assert table["x"].to_pylist() == [None, [5, 6]] and table["kind"].to_pylist() == [None, "b"]
    table = pa.table(d[1:]._join(other))
    assert table["x"].to_pylist() == [[5, 6]] and table["kind"].to_pylist() == ["b"]


def test_keys_that_know_their_gaps_are_joined_with_nothing():
    k = dv.View(pa.table({"k": [1, None, 2, None]})).k
    right = dv.View(pa.table({"k": [0, None, 2], "name": ["zero", "none", "two"]}))
    plain = dv.View(k=[0, 1, 2], name=["zero", "one", "two"])
    for key in (k, k + 0):
        d = dv.View(k=key, v=[1, 2, 3, 4])
        found = d._join(plain, on="k", missing="mask")
        assert found.k_mask().tolist() == [True, False, True, False]
        assert found.name().tolist() == ["one", "", "two", ""]
        found = d._join(dv.View(k=right.k + 0, name=right.name), on="k", missing="mask")
        assert found.k_mask().tolist() == [False, False, True, False]
        with pytest.raises(KeyError, match="row 1 has the k None, which is not among"):
            d._join(plain, on="k").name()
    zeros = dv.View(k=[0, 2])._join(dv.View(k=right.k + 0, name=right.name), on="k")
    assert zeros.name().tolist() == ["zero", "two"]


# -------------------- displays --------------------


def test_distinct_values_and_their_counts_are_shown():
    d = dv.View(label=["dog", "cat", "dog"], size=[2.0, np.nan, 2.0])
    assert repr(d.label._counts()) == (
        "View of 2 rows, 40 B, computed, read-only\n"
        "  value  count\n"
        "  <U3    int64\n"
        "  cat        1\n"
        "  dog        2"
    )
    assert repr(d.size._unique()) == "View (2,) float64, 16 B, computed, read-only\n  2.0 nan"
    assert repr(d.label._counts().count) == "View (2,) int64, 16 B, computed, read-only\n  1 2"
    codes = dv.View([1, 0, 1])._with_meta(labels=("cat", "dog"))
    assert "dog        2" in repr(codes._counts()) and "0 1" in repr((codes + 0)._unique())
    assert "<td>dog</td>" in d.label._counts()._repr_html_()


def test_many_values_are_shown_only_when_they_are_known(monkeypatch):
    monkeypatch.setattr("dataview.show.values.READ_BYTES", 24)
    many, few = dv.View([3, 1, 3, 2])._counts(), dv.View([3, 1, 3])._counts()
    mapped = dv.View([1, 2])._map(lambda row: row() * 2, shape=(), dtype=int)._unique()
    assert "(?,)" in repr(many) and "of 2 rows" in repr(few) and "(?,)" in repr(mapped)
    assert many.count().tolist() == [1, 1, 2] and mapped().tolist() == [2, 4]
    assert "    3      2" in repr(many)


def test_a_display_leaves_an_error_to_who_uses_the_values():
    codes = dv.View([0, 7])._with_meta(labels=("a", "b"))
    for found in (codes._counts(), dv.View(np.array([1, "a", None], object))._unique()):
        assert "(?,)" in repr(found)
        with pytest.raises((ValueError, TypeError)):
            found()


@pytest.mark.parametrize("seed", range(4))
def test_codes_of_few_scattered_labels_are_their_places(seed):
    """Among so many small tables, labels share slots in some, also the last one."""
    draws = np.random.default_rng(seed)
    for number in range(400):
        labels = np.unique(draws.integers(-(2**62), 2**62, 1 + number % 5))
        values = np.append(labels, draws.integers(-(2**62), 2**62, 20))
        codes = dv.View(values)._codes(labels=labels)()
        places = {label: place for place, label in enumerate(labels.tolist())}
        assert codes.tolist() == [places.get(value, -1) for value in values.tolist()]


def test_a_code_without_a_label_has_no_column():
    codes = dv.View(x=np.array([0, -1, 1, 2]), _meta={"x": {"labels": ["a", "b"]}}).x
    assert codes[:3]._onehot()().tolist() == [[1, 0], [0, 0], [0, 1]]
    with pytest.raises(ValueError, match=r"the code 2, and the metadata list 2 labels"):
        codes._onehot()()
    assert codes[:3]._onehot()[1:]._sum()() == 1 and codes[0]._onehot()().tolist() == [1, 0]


def test_objects_without_an_order_are_named_where_rows_are_sorted():
    d = dv.View(x=np.array([1, "a", 2], object), y=[1, 1, 2])
    for view, where in ((d._sorted(by="x"), "field 'x'"), (d._sorted(by=["y", "x"]), "field 'x'"),
                        (d[::-1]._sorted(by="x"), "field 'x'")):  # fmt: skip
        with pytest.raises(
            TypeError, match=rf"_sorted by {where}.*'a'.*no order together.*_astype"
        ):
            view()


def test_rows_are_compared_by_other_data():
    d = dv.View(x=[1, 2, 3, 4], y=["a", "b", "a", "b"])
    assert d._drop_duplicates(by=d.x % 2).x().tolist() == [1, 2]
    assert d._drop_duplicates(by=[d.x > 2, "y"]).x().tolist() == [1, 2, 3, 4]
    assert d._drop_duplicates(by=np.array([0, 0, 1, 1])).x().tolist() == [1, 3]
    assert d._drop_duplicates(by=("y",)).x().tolist() == [1, 2]
    assert d._sorted(by=["y", -d.x]).x().tolist() == [3, 1, 4, 2]
    with pytest.raises(ValueError, match=r"each of the 4 rows; got the shape \(2,\)"):
        d._drop_duplicates(by=d.x[:2])


def test_each_join_by_a_key_has_a_mask_of_its_own():
    d = dv.View(id=[1, 2, 9], v=[0, 1, 2])
    once = d._join(dv.View(id=[1, 2], w=[5, 6]), on="id", missing="mask")
    twice = once._join(dv.View(id=[9, 2], u=[7, 8]), on="id", missing="mask")
    assert twice.id_mask().tolist() == [True, True, False]
    assert twice.id_mask_2().tolist() == [False, True, True]
    assert twice.u._sum()() == 15 and twice.w._sum()() == 11
