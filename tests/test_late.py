"""Rows and tables whose number is found when it is first needed: to build them reads nothing."""

import copy
import pickle

import numpy as np
import pytest

import dataview as dv
from oracle import assert_same
from stores import LeastWritable

X = np.array([3.0, np.nan, 3.0, 1.0, np.nan, 2.0, 1.0])
CITY = np.array(["b", "a", "b", "a", "c", "b", "a"])
N = np.arange(7)


class Noted(LeastWritable):
    """A store that notes how often it is read."""

    reads = 0

    def read(self, index, memo):
        self.reads += 1
        return super().read(index, memo)


class Table:
    """A view of columns that are noted when they are read."""

    def __init__(self):
        self.stores = {"x": Noted(X), "city": Noted(CITY), "n": Noted(N)}
        self.arrays = {name: store.kept for name, store in self.stores.items()}
        self.view = dv.View(**{name: dv.View(store) for name, store in self.stores.items()})

    def reads(self):
        return sum(store.reads for store in self.stores.values())


KEPT = {
    "dropna": (lambda d: d._dropna(), ~np.isnan(X)),
    "dropna of a field": (lambda d: d._dropna("x"), ~np.isnan(X)),
    "dropna of others": (lambda d: d._dropna("n"), np.ones(7, bool)),
    "drop_duplicates": (lambda d: d._drop_duplicates(by="city"), N < [9, 9, 0, 0, 9, 0, 0]),
    "drop_duplicates by two": (
        lambda d: d._drop_duplicates(by=["x", "city"]),
        N < [9, 9, 0, 9, 9, 9, 0],
    ),
    "filter": (lambda d: d._filter(d.n % 2 == 0), N % 2 == 0),
}
LATE = {
    **{name: build for name, (build, _) in KEPT.items()},
    "onehot": lambda d: d.city._onehot(),
    "counts": lambda d: d.city._counts(),
    "labels": lambda d: d.city._labels(),
    "labels of codes": lambda d: d.city._codes()._labels(),
    "distinct values": lambda d: d.x._unique(),
    "groups": lambda d: d._group(by="city")._mean(),
    "extremes of groups by several": lambda d: d._group(by=["city", "n"])._max(),
    "groups with gaps": lambda d: d._group(by="x", dropna=False)._median(),
    "sizes of groups": lambda d: d._group(by=d.city._codes())._counts(),
    "onehot by labels of others": lambda d: d.city._onehot(labels=d.city._labels()),
}


@pytest.fixture
def table():
    return Table()


@pytest.fixture(params=sorted(KEPT))
def kept(request):
    return KEPT[request.param]


@pytest.mark.parametrize("name", sorted(LATE))
def test_to_build_it_and_to_ask_what_it_is_reads_nothing(name, table):
    found = LATE[name](table.view)
    assert found._dtype() is not None and dir(found) and "labels" not in found._meta
    assert not hasattr(found, "nothing") and not hasattr(found, "_nothing")
    copies = copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))
    for field in found._fields():
        assert found[field] is found._field(field) is getattr(found, field)
        assert name not in KEPT or found[field]._dtype() == table.arrays[field].dtype
    assert "found first" in str(found._explain())
    assert table.reads() == 0
    expected = LATE[name](Table().view)()
    assert table.reads() == 0
    for one in (found, *copies):
        assert_same(one(), expected)
    assert table.reads() > 0


def test_the_rows_are_those_of_a_mask(kept, table):
    build, mask = kept
    for name, array in table.arrays.items():
        assert_same(build(table.view)._field(name)(), array[mask])
        assert_same(build(table.view)()[name], array[mask])
    count = int(mask.sum())
    assert len(build(table.view)) == build(table.view)._length() == count
    assert build(table.view)._shape() == build(table.view).shape == (count,)
    assert len(build(table.view).x) == build(table.view).x._size() == count
    assert build(table.view).n == table.view.n[mask]


def test_all_fields_are_of_one_reading(table):
    found = table.view._drop_duplicates(by="city")
    parts = [found.x, found.n, found.city]
    before = [part() for part in parts]
    assert table.stores["city"].reads == 2  # the labels, and the rows that are kept
    assert table.stores["x"].reads == table.stores["n"].reads == 1
    assert_same(before[1], np.array([0, 1, 4]))


KEYS = [2, -1, slice(1, None), slice(None, None, -2), [1, 0, 1], (slice(0, 2), "n"), Ellipsis]


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_parts_are_those_of_the_rows(kept, key, table):
    build, mask = kept
    expected = dv.View(**{name: array[mask] for name, array in table.arrays.items()})
    got = build(table.view)[key]
    assert_same(got(), expected[key]())
    key = key[0] if isinstance(key, tuple) else key
    assert_same(build(table.view).x[key](), X[mask][key])
    assert_same((build(table.view).x * 2 + 1)[key](), (X[mask] * 2 + 1)[key])


def test_batches_and_loaders_are_of_the_rows(kept, table):
    build, mask = kept
    expected = [N[mask][start : start + 2].tolist() for start in range(0, int(mask.sum()), 2)]
    assert [batch.n().tolist() for batch in build(table.view)._minibatches(2)] == expected
    assert [batch.n().tolist() for batch in build(table.view)._loader(2)] == expected
    assert [row.n().tolist() for row in build(table.view)] == N[mask].tolist()
    shuffled = [
        n
        for batch in build(table.view)._loader(2, sampler="permutation", seed=0)
        for n in batch.n()
    ]
    assert sorted(shuffled) == N[mask].tolist()
    again = dv.concat(build(table.view).n, build(table.view).n)
    assert_same(again(), np.tile(N[mask], 2))
    assert_same(build(table.view).n._mean()(), np.mean(N[mask]))


def test_a_write_goes_through_to_the_rows(kept, table):
    build, mask = kept
    build(table.view).n += 10
    part = build(table.view)
    part.x[:1] = 7
    assert_same(table.arrays["n"], N + 10 * mask)
    assert table.arrays["x"][np.argmax(mask)] == 7
    whole = dv.View(np.arange(6.0).reshape(3, 2))
    whole._drop_duplicates()[:] = whole._filter(whole[:, 0] >= 0) * 2
    assert whole().tolist() == [[0, 2], [4, 6], [8, 10]]


def test_rows_are_those_of_when_they_were_asked_for_and_data_those_of_now(kept, table):
    build, mask = kept
    found, part = build(table.view), build(table.view).n
    unread = pickle.loads(pickle.dumps(found))
    table.view.x[:] = np.nan
    table.view.city[:] = "z"
    table.view.n[:] = N * 2
    assert_same(part(), (N * 2)[mask])
    assert_same(found.n(), (N * 2)[mask])
    assert_same(unread.n(), N[mask])  # a copy of what was in memory


def test_the_labels_of_onehot_are_those_of_when_it_was_asked(table):
    assert table.view.city._onehot()._shape() == (7, 3)
    found = table.view.city._onehot(dtype="i4")
    table.view.city[2] = "a"
    expected = (table.arrays["city"][:, None] == np.array(["a", "b", "c"])).astype("i4")
    assert_same(found(), expected)
    assert_same(found[1:3, 1](), expected[1:3, 1])


def test_a_table_of_groups_is_of_when_it_was_asked_for(table):
    groups = table.view._group(by="city")
    found, sizes = groups._sum(), groups._counts()
    part = found.n
    assert found._dtype().names == ("city", "x", "n") and table.reads() == 0
    unread = pickle.loads(pickle.dumps(found))
    table.view.n[:] = 0
    table.view.city[:] = "z"
    for one in (found.n, part, unread.n):
        assert_same(one(), np.array([10, 7, 4]))
    assert found.city().tolist() == sizes.city().tolist() == ["a", "b", "c"]
    assert_same(sizes["count"](), np.array([3, 3, 1]))
    assert len(found[1:]) == 2 and found[1].n() == 7
    assert_same(found._sorted(by="n").city(), np.array(["c", "b", "a"]))


@pytest.mark.parametrize("values", [[1, 2, 1], ["a", None, "b"], [None, None, None]], ids=repr)
def test_labels_of_groups_may_turn_out_to_have_gaps(values):
    d = dv.View(x=[1.0, 2.0, 3.0], key=np.array(values, object))
    d = dv.View(x=d.x, key=d.key._codes()) if None not in values else d
    found = d._group(by="key", dropna=False)._sum()
    assert found.key._dtype() == found.key().dtype
    assert found._dtype() == found().dtype


def test_labels_that_are_given_are_not_read(table):
    known = Noted(np.array(["c", "a"]))
    found = table.view.city._onehot(labels=dv.View(known), dtype=int)
    assert found._shape() == (7, 2) and table.reads() == known.reads == 0
    assert_same(found(), (CITY[:, None] == np.array(["c", "a"])).astype(int))


def test_a_new_field_of_late_rows_stays(table):
    clean = table.view._dropna()
    clean.double = clean.x * 2
    assert clean.double().tolist() == [6, 6, 2, 4, 2] and "double" not in table.view._fields()


def test_what_fails_says_so_when_it_is_needed():
    mixed = dv.View(a=np.array([1, "x", None], object), b=[1, 2, 3])
    found = mixed._filter(mixed.a < 2)
    assert "?" in repr(found)
    with pytest.raises(TypeError, match="'<' not supported"):
        len(found)


def test_what_has_no_rows_is_refused_at_once(table):
    stream = dv.View(lambda: iter([1.0, 2.0]))
    with pytest.raises(dv.StreamError, match="by number"):
        stream._drop_duplicates()
    with pytest.raises(TypeError, match="no rows"):
        dv.View(3)._drop_duplicates()
    with pytest.raises(TypeError, match="never ends"):
        table.view._repeat()._drop_duplicates()
    with pytest.raises(IndexError):
        table.view._filter(dv.View(np.ones(3, bool)))
    with pytest.raises(TypeError, match="one value for each row"):
        table.view._filter(table.view.x)
    with pytest.raises(dv.FieldError, match="'y'"):
        table.view._dropna("y")


def test_a_display_finds_the_number_where_little_is_read(table):
    assert repr(table.view._dropna()).startswith("View of 5 rows")
    assert repr(dv.View(X)._dropna()) == repr(dv.View(X[~np.isnan(X)]))
    made = dv.View(lambda number: float(number % 3), _length=9)._probe()
    assert repr(made._drop_duplicates()) == "View (?,) float64, function"
    assert repr(dv.View(x=made)._drop_duplicates()).startswith(
        "View of ? rows, function\n  x  float64  (?,)"
    )
    assert "(?,) float64" in made._drop_duplicates()._repr_html_()
    assert made._drop_duplicates()().tolist() == [0, 1, 2]
