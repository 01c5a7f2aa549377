"""Statistics and label sets are of the data as they were when they were asked for."""

import copy
import gc
import pickle
import threading
import warnings
import weakref
from typing import NamedTuple

import h5py
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from dataview import sources
from dataview.compute import photographs
from dataview.index.sizes import sizes
from dataview.sources.sharing import are_together, stores_meeting
from dataview.view.face import node_of
from oracle import assert_same, examples
from stores import LeastWritable, Raw, Unnamed


class Counted(LeastWritable):
    """A store that counts how many elements are read; not those that a write may put back."""

    def __init__(self, array):
        super().__init__(array)
        self.elements = 0

    def read(self, index, memo):
        found = super().read(index, memo)
        self.elements += found.size if found.size > 4 else 0
        return found


class CountedAll(LeastWritable):
    """A store that counts how many elements are read in all."""

    elements = 0

    def read(self, index, memo):
        found = super().read(index, memo)
        self.elements += found.size
        return found


@pytest.fixture
def path(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(12.0).reshape(6, 2))
    return tmp_path / "a.npy"


def test_scaling_to_one_uses_both_ends_of_before():
    for values in ([1.0, 2, 3], [10.0, 15, 20]):
        d = dv.View(np.array(values))
        lo, hi = d._min(), d._max()
        d -= lo
        d /= hi - lo
        assert d().tolist() == [0, 0.5, 1]


def ways(a):
    """Ways to write 9 into the first row of an array of two columns, each through other views."""
    v = dv.View(a, x=np.s_[0], y=np.s_[1])
    yield "a key", v, lambda: v.__setitem__(0, 9)
    yield "a field", v, lambda: dv.View(a, x=np.s_[0:2]).x[0]._write(9)
    yield "another view", v, lambda: dv.View(a)[:1]._write(9)
    yield "an overlapping array", v, lambda: dv.View(a[::-1])[-1]._write(9)
    yield "a joined view", v, lambda: dv.concat(np.zeros((1, 2)), dv.View(a))[1]._write(9)
    yield "a record", v, lambda: dv.View(r=v, s=np.zeros((6, 2)))[0]._write({"r": 9, "s": 1})
    yield "a ufunc", v, lambda: np.multiply(v[:1], 0, out=v[:1])
    yield "batches", v, lambda: v._minibatches(1)[0]._write(9)
    yield "rows in another order", v, lambda: v._shuffled(0)._write(9)
    yield "an array to read into", v, lambda: dv.View(np.full((6, 2), 9.0))(out=a)
    columns = a[::-1, :1]
    yield "an output of NumPy", v, lambda: np.cumsum(dv.View(a[:, :1] + 1), axis=0, out=columns)
    yield "two outputs", v, lambda: np.modf(dv.View(a + 0.5), out=(a, np.empty_like(a)))
    yield "a copy", v, lambda: np.copyto(a, dv.View(np.full((6, 2), 9.0)))
    yield "elements", v, lambda: np.add.at(a, [0, 1], dv.View(np.full((2, 2), 9.0)))


ASKED = {
    "min": lambda v: v._min(),
    "rows": lambda v: v._mean(axis=1),
    "columns": lambda v: v._std(axis=0),
    "quantile": lambda v: v._quantile([0.1, 0.9], axis=0),
    "nested": lambda v: ((v - v._mean(axis=0)) ** 2)._sum(),
    "expression": lambda v: dv.View(np.ones((6, 2))) + v._max(axis=0),
    "labels": lambda v: v._unique(),
    "counts": lambda v: v._unique(counts=True),
    "part": lambda v: v[:2]._sum(axis=0),
    "joined": lambda v: dv.concat(v, v)._sum(axis=0),
    "of a field": lambda v: v[:, 0]._sum(),
    "some rows": lambda v: v._mean(axis=1)[2:],
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("way", [name for name, *_ in ways(np.zeros((6, 2)))])
def test_a_write_changes_nothing_that_was_asked_before(asked, way):
    a = np.arange(12.0).reshape(6, 2)
    ((v, write),) = [(v, write) for name, v, write in ways(a) if name == way]
    expected = ASKED[asked](dv.View(a.copy()))()
    statistic = ASKED[asked](v)
    write()
    assert (a != np.arange(12.0).reshape(6, 2)).any()
    assert_same(np.asarray(statistic()), np.asarray(expected))
    again = ASKED[asked](v)
    assert_same(np.asarray(again()), np.asarray(ASKED[asked](dv.View(a.copy()))()))


@pytest.mark.parametrize("asked", [name for name in ASKED if name != "expression"])
def test_statistics_of_files_and_other_openings_of_them(asked, path):
    expected = ASKED[asked](dv.View(np.load(path)))()
    statistic = ASKED[asked](dv.open(path))
    d = dv.open(path, mode="r+")
    d -= 5
    assert_same(np.asarray(statistic()), np.asarray(expected))


def test_saving_over_a_file_takes_what_was_asked_of_it(path):
    mean = dv.open(path)._mean()
    dv.View(np.zeros((6, 2)))._save(path)
    assert mean() == 5.5


def test_symbols_that_were_bound():
    x = dv.symbol("x", (None, 2), "f8")
    centred = x - x._mean(axis=0)
    a = np.arange(12.0).reshape(6, 2)
    d = dv.View(a)
    z = centred._bind(x=d)
    d[0] = 100
    assert_same(z()[1:], np.arange(12.0).reshape(6, 2)[1:] - [5, 6])


@given(data=st.data())
@examples(60)
def test_any_run_of_questions_and_writes_is_as_if_each_was_answered_at_once(data):
    shape = (data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4)))
    a = np.arange(float(np.prod(shape))).reshape(shape)
    d, asked = dv.View(a), []
    keys = st.tuples(st.slices(shape[0]), st.slices(shape[1]))
    for _ in range(data.draw(st.integers(1, 8))):
        key = data.draw(keys)
        if data.draw(st.booleans()):
            asked.append((d[key]._sum(), a[key].sum()))
        elif data.draw(st.booleans()):
            d[key] += data.draw(st.sampled_from([1, 2.5, d._sum()]))
        else:
            d[key] = data.draw(st.integers(-5, 5))
    for statistic, value in asked:
        assert statistic() == pytest.approx(value, rel=1e-12, abs=1e-9)


def test_all_that_is_asked_is_taken_in_one_pass():
    source = Counted(np.arange(4000.0).reshape(1000, 4))
    d = dv.View(source)
    asked = [d._min(axis=0), d._max(axis=0), d._mean(axis=0), d._std(axis=0)]
    d[3] = 0
    assert source.elements == 4000
    for statistic in asked:
        statistic()
    d[4] = 0
    assert source.elements == 4000


def test_what_nobody_holds_or_lies_elsewhere_costs_nothing():
    source, other = (Counted(np.arange(4000.0).reshape(1000, 4)) for _ in range(2))
    d, e = dv.View(source), dv.View(other)
    d._min(), (d - d._mean(axis=0))[3]
    gc.collect()
    kept = [e._sum(), d[:500]._sum(axis=0), d[:, 1:3]._sum(axis=0), d[1::2]._sum(axis=0)]
    d[500] = 0, 0, 0, 0
    assert source.elements == 2000  # what was asked of the two columns
    d[998, 0] = 0
    assert source.elements == 2000 and other.elements == 0
    del kept
    d[1] = 0
    assert source.elements == 2000


def test_a_statistic_that_fails_keeps_its_error_and_the_write_goes_on():
    def fails(row):
        raise ValueError("no such row")

    d = dv.View(np.arange(6.0))
    broken = d._map(fails, shape=(), dtype=float)._sum()
    fine = d._sum()
    d[0] = 100
    assert d[0]() == 100 and fine() == 15
    for _ in range(2):
        with pytest.raises(ValueError, match="no such row"):
            broken()


def test_an_interrupt_while_statistics_are_taken_leaves_all_as_it_was():
    class Interrupted(Counted):
        interrupting = False

        def read(self, index, memo):
            if self.interrupting:
                raise KeyboardInterrupt
            return super().read(index, memo)

    source = Interrupted(np.arange(6.0))
    d = dv.View(source)
    total = d._sum()
    source.interrupting = True
    with pytest.raises(KeyboardInterrupt):
        d[0] = 100
    source.interrupting = False
    assert d[0]() == 0
    d[1] = 100
    assert total() == 15


def test_a_pickle_has_values_that_are_taken_and_asks_anew_for_others():
    a = np.arange(6.0)
    d = dv.View(a)
    z = d - d._mean()
    for again in (pickle.loads(pickle.dumps(z)), copy.deepcopy(z)):
        assert_same(again(), a - a.mean())
    d[0] = 60
    assert_same(pickle.loads(pickle.dumps(z))(), np.array([60.0, 1, 2, 3, 4, 5]) - 2.5)


def test_statistics_of_other_rows_are_not_taken_by_minibatches(rng):
    a = rng.random((20, 3))
    d = dv.View(a)
    mean, expected = d._mean(axis=0), a.mean(axis=0)
    for batch in d._minibatches(5):
        batch -= mean
    np.testing.assert_allclose(mean(), expected)
    np.testing.assert_allclose(a.mean(axis=0), 0, atol=1e-12)


@pytest.mark.parametrize("written", [False, True])
def test_the_work_of_a_chain_of_statistics_grows_as_the_chain_does(written):
    source = CountedAll(np.arange(4.0))
    d = v = dv.View(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the chain grows
        for _ in range(500):
            v = v - v._mean()
    if written:
        d[0] = 0
    np.testing.assert_allclose(v(), np.arange(4.0) - 1.5, atol=1e-12)
    assert source.elements < 100


def test_the_stores_of_unheld_statistics_are_forgotten():
    for _ in range(100):
        d = dv.View(np.zeros(3))
        d._sum()
        d[0] = 1
    assert sum(map(len, photographs._waiting.values())) < 50


def test_an_explanation_names_what_a_write_would_take():
    d = dv.View(np.arange(6.0).reshape(3, 2), x=np.s_[0])
    kept = d._mean(axis=0), d.x._max(), d._unique()
    assert "a write   takes" in str(d._explain())
    words = str(d._explain())
    assert "mean" in words and "max" in words and "distinct values" in words
    assert "mean" in str(d[1:]._explain()) and "a write" not in str((d + 1)._explain())
    d -= kept[0]
    assert "a write" not in str(d._explain())


@pytest.mark.parametrize(
    ("part", "named"),
    [
        (lambda d: d, [0, 1, 2]),
        (lambda d: d[::-1], [0, 1, 2]),
        (lambda d: d[6:8], [1]),
        (lambda d: d[[0, 9]], [0, 2]),
        (lambda d: dv.concat(d[6:7], d[9:])[1:], [2]),
        (lambda d: d._shuffled(0)[:], [0, 1, 2]),
        (lambda d: d + 1, []),
        (lambda d: dv.concat(d, np.arange(3.0) + dv.View(np.zeros(3))), []),
    ],
)
def test_an_explanation_names_what_a_write_into_joined_views_takes(part, named):
    a, b = dv.View(np.arange(6.0)), dv.View(np.arange(4.0))
    d = part(dv.concat(a, b))
    kept = [a._sum(), b[:2]._max(), b[2:]._min()]
    assert len(d._explain().waiting) == len(named)
    assert untaken(kept) == [0, 1, 2]
    if named:
        d._write(7)
    assert untaken(kept) == [n for n in range(3) if n not in named]


def test_an_explanation_of_what_cannot_be_written_names_nothing():
    values = np.arange(3.0)
    values.flags.writeable = False
    a, fixed = dv.View(np.arange(3.0)), dv.View(values)
    kept = a._sum(), fixed._sum()
    assert not dv.concat(a, fixed)._explain().waiting
    assert not fixed._explain().waiting
    assert len(kept) == 2


def test_processes_are_sent_the_values_of_before():
    d = dv.View(np.arange(12.0).reshape(6, 2))
    z = d - d._mean(axis=0)
    with z._loader(2, workers=1, kind="process") as loader:
        first = next(loader)()
        d += 100
        rest = [batch() for batch in loader]
    assert_same(first, np.array([[-5.0, -5], [-3, -3]]))
    assert_same(rest[0], np.array([[-1.0, -1], [1, 1]]))


@pytest.mark.parametrize("library", ["h5py", "zarr"])
def test_two_views_of_one_stored_array_are_known_to_be_of_the_same_data(library, tmp_path):
    values = np.arange(12.0).reshape(6, 2)
    if library == "h5py":
        file = h5py.File(tmp_path / "a.h5", "w")
        file["x"] = values
        stored = [file["x"], file["x"]]
    else:
        first = zarr.create_array(tmp_path / "a.zarr", data=values, chunks=(2, 2))
        stored = [first, zarr.open_array(tmp_path / "a.zarr", mode="r+")]
    one, other = map(dv.View, stored)
    mean = one._mean(axis=0)
    other[1:] = one[:-1]
    assert_same(mean(), np.array([5.0, 6.0]))
    assert_same(one(), values[[0, 0, 1, 2, 3, 4]])
    if library == "h5py":
        file.close()


def test_what_the_values_of_a_write_need_is_taken_in_one_pass():
    source = Counted(np.arange(4000.0))
    x = dv.View(source)
    target = dv.View(a=np.zeros(4000), b=np.zeros(4000))
    target._write({"a": x - x._mean(), "b": x / x._std()})
    assert source.elements == 3 * 4000  # once for both statistics, and once for each value


def test_what_a_description_needs_is_taken_in_one_pass():
    source = CountedAll(np.arange(4000.0))
    x = dv.View(source)
    d = dv.View(a=x - x._mean(), b=x / x._std())
    d._describe()
    assert source.elements == 3 * 4000  # once for both statistics, and once for each field


def test_what_several_threads_ask_is_not_lost():
    d = dv.View(np.arange(3.0))
    asked = []

    def ask():
        asked.extend([d._sum() for _ in range(2000)])

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        photographs.waiting_at([])
    d[0] = 100
    assert {float(statistic()) for statistic in asked} == {3.0}


def test_memory_that_another_object_lends_is_known_to_be_shared():
    a = np.arange(4.0)

    class Lender:
        """Lends the memory of an array, as tensors do."""

        __array_interface__ = a.__array_interface__

    lent = dv.View(np.asarray(Lender()))
    own = dv.View(a)
    total, same = lent._sum(), own._sum()
    own[0] = 100
    lent[1] = 100
    assert total() == same() == 6


# ---------------------------------------------------------------- what lies elsewhere


def untaken(statistics):
    """Return which of some statistics have no value yet."""
    return [n for n, view in enumerate(statistics) if node_of(view).taken is None]


def of_rows(a):
    """Ways to ask for a statistic of each of ten rows."""
    d, parts = dv.View(a), [dv.View(a[start : start + 2]) for start in range(0, 10, 2)]
    joined = dv.concat(*parts)
    turned = dv.View(a.T)
    yield "rows", [d[n]._sum() for n in range(10)]
    yield "arrays of rows", [dv.View(a[n])._sum() for n in range(10)]
    yield "rows turned round", [turned[:, n]._sum() for n in range(10)]
    yield "expressions", [(d * 2 + 1)[n]._sum() for n in range(10)]
    yield "parts of expressions", [(d[::-1] * 2)[9 - n : 10 - n]._sum() for n in range(10)]
    yield "joined", [joined[n]._sum() for n in range(10)]
    yield "joined expressions", [(joined - joined[:, :1])[n]._sum() for n in range(10)]
    yield "expressions joined", [dv.concat(d[:5] * 2, d[5:] + 1)[n]._sum() for n in range(10)]
    yield "compared", [(d == 3)[n]._sum() for n in range(10)]
    yield "reshaped", [d._reshape(5, 2, 3)[n // 2, n % 2]._sum() for n in range(10)]
    yield "several rows of joined", [joined[[n]]._sum() for n in range(10)]


KINDS_OF_ROWS = [name for name, _ in of_rows(np.zeros((10, 3)))]


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("kind", KINDS_OF_ROWS)
def test_a_write_takes_statistics_of_no_other_rows(kind, order):
    a = np.array(np.arange(30.0).reshape(10, 3), order=order)
    (statistics,) = [found for name, found in of_rows(a) if name == kind]
    (expected,) = [
        [view() for view in found] for name, found in of_rows(a.copy("K")) if name == kind
    ]
    dv.View(a)[4] = 100
    assert untaken(statistics) == [n for n in range(10) if n != 4]
    dv.View(a)[6:8] = 100
    assert untaken(statistics) == [n for n in range(10) if n not in (4, 6, 7)]
    dv.View(a)[...] = 200
    assert not untaken(statistics)
    assert [view() for view in statistics] == expected


def test_a_part_that_lies_in_one_of_joined_views_is_not_taken_by_a_write_into_another():
    a, b = Counted(np.arange(5000.0)), Counted(np.arange(5000.0))
    joined = dv.concat(dv.View(a), dv.View(b))
    kept = joined[:5000]._sum(), joined[3000]._sum(), (joined * 2)[::-1][5000:]._sum()
    dv.View(b)[7] = 0
    assert not a.elements and untaken(kept) == [0, 1, 2]
    dv.View(a)[7] = 0
    assert untaken(kept) == [1]


@pytest.mark.parametrize("kind", ["rows", "arrays", "columns", "joined", "expressions"])
def test_a_write_compares_itself_with_no_statistic_of_other_places(kind, monkeypatch):
    a = np.zeros((400, 400))
    d = dv.View(a)
    joined, doubled = dv.concat(*[dv.View(a[n : n + 4]) for n in range(0, 400, 4)]), d * 2
    kept = {
        "rows": lambda: [d[n]._mean() for n in range(400)],
        "arrays": lambda: [dv.View(np.zeros(3))._mean() for n in range(400)],
        "columns": lambda: [d[:, n]._mean() for n in range(400)],
        "joined": lambda: [joined[n]._mean() for n in range(400)],
        "expressions": lambda: [doubled[n]._mean() for n in range(400)],
    }[kind]()
    compared = []
    may_meet = sources.Source.may_meet
    monkeypatch.setattr(
        sources.Source, "may_meet", lambda *given: compared.append(1) or may_meet(*given)
    )
    for n in range(100):
        if kind == "columns":
            d[:, n] = n
        else:
            d[n] = n
    assert len(compared) <= 100
    assert len(untaken(kept)) == (400 if kind == "arrays" else 300)


def test_statistics_of_a_part_of_a_long_chain_of_steps_are_taken():
    a = np.arange(4.0)
    v = dv.View(a)
    for _ in range(200):
        v = (v + 1)[::-1]
    total = v[:2]._sum()
    dv.View(a)[...] = 0
    assert total() == 0 + 1 + 400


def test_what_overlaps_byte_by_byte_is_taken():
    a = np.arange(4.0)
    halves = dv.View(a.view("i4")[1::2])
    kept = [halves[n]._sum() for n in range(4)]
    expected = a.view("i4")[1::2].tolist()
    dv.View(a)[2] = 1e300
    assert untaken(kept) == [0, 1, 3]
    assert [view() for view in kept] == expected


def test_what_nobody_holds_any_more_is_let_go_with_its_data():
    a = Counted(np.arange(4000.0))
    alive = weakref.ref(a)
    d, other = dv.View(a), dv.View(np.zeros(3))
    total = d._sum()
    other[0] = 1
    del a, d, total
    gc.collect()
    assert alive() is None
    other[0] = 2
    photographs.waiting_at([])
    assert not photographs._gone


def test_a_map_shares_with_maps_and_views_of_its_own_file_alone(tmp_path):
    first, second = tmp_path / "a.npy", tmp_path / "b.npy"
    for path in (first, second):
        np.save(path, np.arange(6.0))
    (tmp_path / "link.npy").hardlink_to(first)
    asked = {
        "itself": lambda: dv.View(np.load(first, mmap_mode="r+"))._sum(),
        "by another name": lambda: dv.View(np.load(tmp_path / "link.npy", mmap_mode="r"))._sum(),
        "an array of it": lambda: dv.View(np.asarray(np.load(first, mmap_mode="r"))[2:])._sum(),
        "the file": lambda: dv.open(first)._sum(),
        "another file": lambda: dv.open(second)._sum(),
        "another map": lambda: dv.View(np.load(second, mmap_mode="r"))._sum(),
        "memory": lambda: dv.View(np.arange(6.0))._sum(),
    }
    statistics = [ask() for ask in asked.values()]
    expected = [15.0, 15.0, 14.0, 15.0, 15.0, 15.0, 15.0]
    dv.View(np.load(first, mmap_mode="r+"))[1:] = 100
    assert untaken(statistics) == [4, 5, 6]
    dv.open(second, mode="r+")[1:] = 100
    assert untaken(statistics) == [6]
    assert [view() for view in statistics] == expected


def test_the_file_of_a_map_is_known_as_long_as_it_may_be_the_one_of_its_name(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6.0))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r+")
    total = dv.View(mapped)._sum()
    photographs.waiting_at([])
    (tmp_path / "a.npy").rename(tmp_path / "b.npy")
    np.save(tmp_path / "a.npy", np.arange(6.0))
    late = np.load(tmp_path / "a.npy", mmap_mode="r+")
    np.save(tmp_path / "c.npy", np.arange(7.0))
    (tmp_path / "c.npy").rename(tmp_path / "a.npy")  # before the map was ever viewed
    other = dv.View(late)._sum()
    dv.open(tmp_path / "b.npy", mode="r+")[0] = 100
    assert not untaken([total, other])  # of the second map it is not known which file it has
    assert total() == other() == 15


class Lender:
    """Lends the memory of an array, as tensors do."""

    def __init__(self, array):
        self.__array_interface__ = array.__array_interface__
        self.array = array


def stores_of_each_kind(folder):
    """Return sources of the same numbers by a name: of memory, and of two files in many ways."""
    found = {"memory": np.arange(6.0), "a store": LeastWritable(np.arange(6.0))}
    found["lent"] = np.asarray(Lender(found["memory"]))
    for name in "ab":
        np.arange(6.0).tofile(folder / name)
        np.save(folder / f"{name}.npy", np.arange(6.0))
        found[f"map of {name}"] = np.memmap(folder / name, "f8", "r+")
        found[f"file {name}"] = Raw(folder / name, (6,), "f8")
        found[f"unnamed {name}"] = Unnamed(folder / name, (6,), "f8")
        found[f"map of {name}.npy"] = np.load(folder / f"{name}.npy", mmap_mode="r+")
        found[f"{name}.npy"] = dv.open(folder / f"{name}.npy", mode="r+")
    records = np.dtype([("x", "f8"), ("y", "f8")])
    found["a member"] = dv.View(Unnamed(folder / "a", (3,), records)).x
    views = {name: one if isinstance(one, dv.View) else dv.View(one) for name, one in found.items()}
    return {name: node_of(view).source for name, view in views.items()}


def test_sources_that_may_share_data_have_stores_that_meet(tmp_path):
    found = stores_of_each_kind(tmp_path)
    assert {source.home.store.kind for source in found.values()} >= {
        "array", "foreign", "map", "file", "other",
    }  # fmt: skip
    for one, ours in found.items():
        for other, theirs in found.items():
            kind, key = store = theirs.home.store
            together = are_together(ours.home.store, store)
            assert together == are_together(store, ours.home.store)
            assert together == bool(stores_meeting(ours.home.store, {kind: {key: 1}}))
            assert together or not ours.may_share(theirs), (one, other)


def test_what_shows_a_file_without_its_path_shares_with_maps_of_it_alone(tmp_path):
    found = stores_of_each_kind(tmp_path)
    unnamed = {"unnamed a", "unnamed b", "a member", "a store"}
    assert {n for n, one in found.items() if found["map of a"].may_share(one)} == {
        "map of a", "file a", *unnamed,
    }  # fmt: skip
    assert {n for n, one in found.items() if found["file a"].may_share(one)} == {
        "file a", "map of a",
    }  # fmt: skip
    assert {n for n, one in found.items() if found["a store"].may_share(one)} == {
        "a store", "map of a", "map of b", "map of a.npy", "map of b.npy",
    }  # fmt: skip


@pytest.mark.parametrize("kind", [Raw, Unnamed])
def test_a_map_is_written_from_a_store_of_its_own_file(kind, tmp_path):
    values = np.arange(1000.0)
    values.tofile(tmp_path / "a")
    mapped = np.memmap(tmp_path / "a", "f8", "r+")
    total = dv.View(kind(tmp_path / "a", (1000,), "f8"))._sum()
    with sizes.set(
        streamed_elements=0, at_once_bytes=0, computed_bytes=0, block_bytes=64, file_bytes=64
    ):
        dv.View(mapped)[...] = dv.View(kind(tmp_path / "a", (1000,), "f8"))[::-1]
    assert_same(np.array(mapped), values[::-1])
    assert total() == values.sum()
    total = dv.View(mapped)._sum()
    dv.View(kind(tmp_path / "a", (1000,), "f8"))[0] = 0
    assert total() == values.sum()


def test_a_dataset_shares_with_maps_of_its_own_file_alone(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as new:
        new["x"] = np.arange(6.0)
    np.save(tmp_path / "b.npy", np.arange(6.0))
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        mapped = np.memmap(tmp_path / "a.h5", "f8", "r+", file["x"].id.get_offset(), (6,))
        total, same = dv.View(file["x"])._sum(), dv.View(mapped)._sum()
        dv.View(np.load(tmp_path / "b.npy", mmap_mode="r+"))[0] = 100
        assert untaken([total, same]) == [0, 1]
        dv.View(mapped)[0] = 100
        assert not untaken([total, same])
        assert total() == same() == 15
    with h5py.File(tmp_path / "c.h5", "w", driver="core") as held:
        held["x"] = np.arange(6.0)
        total = dv.View(held["x"])._sum()
        dv.View(mapped)[1] = 100  # the file that this is written to is not known
        assert not untaken([total])


RECORDS = np.dtype([("x", "f8"), ("y", "f8", (2,)), ("z", [("u", "i4"), ("v", "i4")])])


@pytest.mark.parametrize("library", ["h5py", "npy", "least"])
def test_a_write_to_a_field_of_records_takes_that_of_the_same_rows_alone(library, tmp_path):
    values = np.zeros(8, RECORDS)
    values["x"], values["y"][:, 1], values["z"]["u"] = np.arange(8), 1, np.arange(8)
    file = None
    if library == "h5py":
        file = h5py.File(tmp_path / "a.h5", "w")
        file["r"] = values
        d = dv.View(file["r"])
    elif library == "npy":
        np.save(tmp_path / "a.npy", values)
        d = dv.open(tmp_path / "a.npy", mode="r+")
    else:
        d = dv.View(LeastWritable(values))
    kept = [d.x._sum(), d.x[4:]._sum(), d.y._sum(), d.y[:4, 1]._sum(), d.z.u._sum(), d.z.v._sum()]
    expected = [28, 22, 8, 4, 28, 0]
    d.x[2] = 100
    assert untaken(kept) == [1, 2, 3, 4, 5]
    d.z.u[0] = 100
    assert untaken(kept) == [1, 2, 3, 5]
    d.y[6] = 100
    assert untaken(kept) == [1, 3, 5]
    d[1] = d[0]()
    assert untaken(kept) == [1]
    assert [view() for view in kept] == expected
    if file is not None:
        file.close()


@pytest.mark.parametrize("shape", [(24,), (8, 3), (2, 12)])
def test_parts_of_reshaped_arrays_in_another_order_are_told_apart(shape):
    a = np.asfortranarray(np.arange(24.0).reshape(4, 6))
    d = dv.View(a)._reshape(*shape)
    flat = d._reshape(-1)
    kept = [flat[start : start + 4]._sum() for start in range(0, 24, 4)]
    expected = [view() for view in (flat[n : n + 4]._sum() for n in range(0, 24, 4))]
    flat[9:11] = 100
    assert untaken(kept) == [0, 1, 3, 4, 5]
    dv.View(a)[0, 5] = 100
    assert untaken(kept) == [0, 3, 4, 5]
    dv.View(a)[2, 1] = 100
    assert untaken(kept) == [0, 4, 5]
    assert [view() for view in kept] == expected


# ---------------------------------------------------------------- kept rows


class Asked:
    """A test whether the first number of a sample is positive, which counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, sample):
        self.calls += 1
        return sample._reshape(-1)[0]() > 0

    def __deepcopy__(self, memo):
        return self


def filters(test):
    a = np.array([[1.0, 1], [-2, 1], [3, 1], [-4, 1], [5, 1]])
    d = dv.View(a, x=np.s_[0])
    yield "rows", d, d._filter(test), lambda kept: kept()[:, 0]
    yield "a field", d, d.x._filter(test), lambda kept: kept()
    yield "a field of what is kept", d, d._filter(test), lambda kept: kept.x()
    yield "one by one", d, d._filter(test), lambda kept: [s()[0] for s in kept]
    yield "probed late", d, d._filter(test), lambda kept: kept._probe().x()
    yield "twice", d, d._filter(lambda s: True)._filter(test), lambda kept: kept.x()
    yield "a slice", d, d._filter(test)[:9], lambda kept: kept.x()
    r = dv.View(x=d.x, y=dv.View(np.arange(5)))
    yield "records", r, r._filter(lambda s: test(s.x)), lambda kept: kept.x()
    mapped = d._map(lambda s: s() * 1, shape=(2,), dtype=float)
    yield "made by a function", d, mapped._filter(test), lambda kept: kept()[:, 0]
    yield "copied", *copy.deepcopy((d, d._filter(test))), lambda kept: kept.x()
    yield "expressions", d, (d * 2)._filter(test), lambda kept: kept()[:, 0] / 2


@pytest.mark.parametrize("kind", [name for name, *_ in filters(bool)])
@pytest.mark.parametrize("read_before", [False, True])
def test_a_filter_keeps_the_rows_of_when_it_was_asked_and_their_data_of_now(kind, read_before):
    test = Asked()
    ((d, kept, read),) = [found[1:] for found in filters(test) if found[0] == kind]
    assert not test.calls
    if read_before:
        read(kept)
        assert test.calls == 5
    dv.View(np.zeros(3))[0] = 1
    assert test.calls == 5 * read_before
    d.x[:] = -d.x()
    assert test.calls == 5
    assert np.asarray(read(kept)).tolist() == [-1, -3, -5]
    d.x[:] = 100
    assert np.asarray(read(kept)).tolist() == [100, 100, 100]
    assert test.calls == 5


def test_masks_and_orders_choose_their_rows_at_once():
    d = dv.View(np.array([[3.0, 1], [-2, 1], [1, 1]]), x=np.s_[0])
    chosen = d._filter(d.x > 0), d._sorted(by="x"), d._sorted(by=d.x * 2)
    d.x[:] = -d.x()
    assert [view.x().tolist() for view in chosen] == [[-3, -1], [2, -1, -3], [2, -1, -3]]


def test_a_filter_that_is_being_read_goes_on_with_the_rows_of_before():
    d = dv.View(np.array([1.0, -2, 3, -4, 5]))
    seen = []
    for sample in d._filter(Asked()):
        seen.append(float(sample()))
        d[:] = -d()
    assert seen == [1, -3, 5]


def test_a_filter_that_fails_before_a_write_says_so_when_it_is_read():
    d = dv.View(np.array([1.0, 0, 3]))
    kept = d._filter(lambda s: 1 / int(s()) > 0)
    d[1] = 1
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="sample 1"):
            kept()
    assert d._filter(lambda s: 1 / int(s()) > 0)().tolist() == [1, 1, 3]


def test_filters_of_streams_and_of_chance_are_asked_at_each_reading():
    d = dv.View(np.arange(4.0))
    test = Asked()
    stream = dv.View(lambda: iter([1.0, -1.0, 2.0]))._filter(test)
    endless = d._repeat()._filter(test)
    test.deterministic = False
    by_chance = d._filter(test)
    d[0] = 5
    assert not test.calls
    assert [float(s()) for s in stream[:2]] == [1, 2]
    assert [float(s()) for s in endless[:2]] == [5, 1]
    assert by_chance().tolist() == [5, 1, 2, 3] and test.calls > 4
    before = test.calls
    by_chance()
    assert test.calls == before + 4


def test_what_a_filter_nobody_holds_would_keep_is_not_asked():
    d, test = dv.View(np.arange(4.0)), Asked()
    d._filter(test)
    gc.collect()
    d[0] = 1
    assert not test.calls
    kept = d._filter(test)
    assert "rows that a filter keeps" in str(d._explain())
    assert kept().tolist() == [1, 1, 2, 3]


def test_a_copy_of_labels_that_are_not_counted_yet_waits_like_the_original():
    a = np.array([1, 1, 2])
    d = dv.View(a)
    labels, data = copy.deepcopy((d._unique(), d))
    data[0] = 7
    assert labels().tolist() == [1, 2]


# ---------------------------------------------------------------- any of all this


def openings(kind, folder):
    """Ways to the same 24 numbers: views, each with the numbers of its elements."""
    a, numbers = np.arange(24.0).reshape(4, 6), np.arange(24).reshape(4, 6)
    if kind == "file":
        np.save(folder / "a.npy", a)
        views = [dv.open(folder / "a.npy", mode="r+") for _ in range(2)]
        views += [dv.View(np.load(folder / "a.npy", mmap_mode="r+"))]
        return [(view, numbers) for view in views]
    if kind == "least":
        return [(dv.View(LeastWritable(a)), numbers)]
    a = np.array(a, order="F" if kind == "fortran" else "C")
    overlapping = [(dv.View(a[::-1, 1:]), numbers[::-1, 1:]), (dv.View(a[1]), numbers[1])]
    return [(dv.View(a), numbers), *(overlapping if kind == "overlapping" else [])]


class Part(NamedTuple):
    """A part of the data or an expression of it: which elements it has, and times how much."""

    view: dv.View
    numbers: np.ndarray
    times: np.ndarray

    def changed(self, change):
        return Part(*map(change, self))


def drawn_part(draw, roots, reshapes):
    """Draw a part of the data: rows, columns, and other shapes."""
    view, numbers = draw(st.sampled_from(roots))
    part = Part(view, numbers, np.ones(numbers.shape))
    for _ in range(draw(st.integers(0, 3))):
        part = drawn_step(draw, part, reshapes)
    return part


def drawn_step(draw, part, reshapes):
    shape, size = part.numbers.shape, part.numbers.size
    way = draw(st.sampled_from(["key", "key", "turn", *["reshape"] * reshapes]))
    if way == "turn":
        return Part(part.view._transpose(), part.numbers.T, part.times.T)
    if way == "reshape" and size:
        rows = draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
        whole = part.view._reshape(rows, -1)
        return Part(whole, part.numbers.reshape(rows, -1), part.times.reshape(rows, -1))
    keys = [st.slices(n) | st.integers(0, n - 1) if n else st.slices(n) for n in shape]
    if shape and shape[0]:
        keys[0] = keys[0] | st.lists(st.integers(0, shape[0] - 1), min_size=1, max_size=3)
    key = tuple(map(draw, keys))
    return part.changed(lambda of: of[key])


def drawn_expression(draw, roots, reshapes):
    """Draw what a statistic is asked of: parts of parts joined, and of expressions."""
    part = drawn_part(draw, roots, reshapes)
    if draw(st.booleans()) and part.numbers.ndim:
        other = drawn_part(draw, roots, reshapes)
        if other.numbers.shape[1:] == part.numbers.shape[1:] and other.numbers.ndim:
            joined = [np.concatenate(pair) for pair in zip(part[1:], other[1:], strict=True)]
            part = Part(dv.concat(part.view, other.view), *joined)
    if draw(st.booleans()):
        part = Part(part.view * 2 - part.view / 2, part.numbers, part.times * 1.5)
    return drawn_step(draw, part, reshapes) if draw(st.booleans()) else part


@pytest.mark.parametrize("kind", ["C", "fortran", "least", "overlapping", "file"])
@given(data=st.data())
@examples(40)
def test_any_statistic_is_of_the_time_when_it_was_asked(kind, tmp_path_factory, data):
    draw, values = data.draw, np.arange(24.0)
    roots, asked = openings(kind, tmp_path_factory.mktemp("any")), []
    reshapes = draw(st.integers(0, 1))
    is_exact = kind in ("C", "fortran", "least") and not reshapes
    for _ in range(draw(st.integers(2, 8))):
        if draw(st.booleans()):
            part = drawn_expression(draw, roots, reshapes)
            expected = (values[part.numbers] * part.times).sum()
            asked.append((part.view._sum(), expected, part.numbers))
            continue
        target = drawn_part(draw, roots, reshapes)
        before = untaken([statistic for statistic, *_ in asked])
        values[target.numbers] = value = draw(st.integers(-50, 50))
        target.view[...] = value
        after = untaken([statistic for statistic, *_ in asked])
        touched = [n for n in before if np.isin(asked[n][2], target.numbers).any()]
        assert not set(touched) & set(after)
        assert not is_exact or sorted({*touched, *after}) == before
    for statistic, expected, _ in asked:
        assert statistic() == expected


def test_a_statistic_without_a_value_leaves_those_beside_it_theirs():
    x = np.array([[1.0, np.nan], [2.0, np.nan]])
    v = dv.View(x.copy())
    mean, largest, total = v._nanmean(axis=0), v._max(axis=0), v._nansum(axis=0)
    none = v._nanargmin(axis=0)
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        v[:] = 0
    assert_same(mean(), np.array([1.5, np.nan]))
    assert_same(largest(), x.max(axis=0))
    assert_same(total(), np.array([3.0, 0.0]))
    with pytest.raises(ValueError, match="All-NaN slice"):
        none()


def test_a_statistic_of_objects_that_fails_leaves_those_beside_it_theirs():
    v = dv.View(np.array(["a", 1], object))
    truth, largest = v._any(), v._max()
    v[:] = 0
    assert truth() is np.True_
    with pytest.raises(TypeError):
        largest()
