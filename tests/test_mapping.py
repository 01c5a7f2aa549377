"""`_map`, `_map_batches`, `_cached`: one call for each row, checked results, data unchanged."""

import collections
import math
import pickle
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from counting import unmade
from dataview.errors import PartialWriteError
from dataview.index.sizes import sizes
from dataview.samples.mapping import at_epoch
from dataview.view.face import node_of, viewed
from oracle import accepted_chains, assert_same, check_same, examples, follow
from stores import LeastWritable

Pair = collections.namedtuple("Pair", "a b")


class Counting:
    """A function that notes which rows it was given; the first field is the row's number."""

    def __init__(self, function):
        self.function = function
        self.rows = []

    def __call__(self, sample, *more):
        self.rows.append(int(sample.row()))
        return self.function(sample, *more)


@pytest.fixture
def d():
    row = np.arange(12)
    return dv.View(row=row, x=row * 2.0, y=np.arange(36).reshape(12, 3))


def both(sample):
    return {"a": sample.x() + 1, "b": {"c": sample.y()[::-1], "n": sample.row()}}


def doubled(sample):
    return sample() * 2


# -------------------- values: the rows of the result are the function's --------------------


@st.composite
def mappings(draw):
    """A view made by a function, by blocks or one by one, declared or probed, and its model."""
    shape = draw(st.sampled_from([(5,), (4, 3), (3, 2, 2), (0, 2), (1, 3), (40, 2)]))
    kind = draw(st.sampled_from(["f8", "i4", "f4", "c16", ">i2", "U3", "M8[s]", "O", "?"]))
    array = np.arange(math.prod(shape)).reshape(shape).astype(kind)
    whole = dv.View(array)
    declared = {"shape": shape[1:][::-1], "dtype": array.dtype}
    form = draw(st.sampled_from(["rows", "blocks", "probed", "probed blocks", "cached"]))
    if not len(array) and form.startswith("probed"):
        form = "rows"
    model = array.transpose(0, *range(array.ndim - 1, 0, -1))
    if form == "rows":
        return whole._map(lambda s: s().T if s.ndim else s(), **declared), model
    if form == "cached":
        view = whole._map(lambda s: s().T if s.ndim else s(), **declared)
        return view._cached(draw(st.sampled_from([0, 500, 1e6]))), model
    if form == "probed":
        return whole._map(lambda s: s().T if s.ndim else s())._probe(), model
    size = draw(st.sampled_from([1, 2, 1000]))

    def turned(rows):
        return rows().transpose(0, *range(array.ndim - 1, 0, -1))

    if form == "blocks":
        return whole._map_batches(turned, batch_size=size, **declared), model
    return whole._map_batches(turned, batch_size=size)._probe(), model


@examples(150)
@given(st.data())
def test_keys_on_a_mapped_view(data):
    view, model = data.draw(mappings())
    chain = data.draw(accepted_chains(model))
    for _ in range(2):
        check_same(view, model.copy(), lambda v: follow(v, chain))


@examples(60)
@given(st.data())
def test_rows_of_an_undeclared_view(data):
    array = np.arange(10.0).reshape(5, 2)
    view = dv.View(array)._map(doubled)
    rows = st.one_of(
        st.slices(5),
        st.integers(-5, 4),
        st.lists(st.integers(-5, 4), min_size=1, max_size=7),
        st.lists(st.booleans(), min_size=5, max_size=5).filter(any),
    )
    key = data.draw(rows)
    got, expected = view[key](), (array * 2)[key]
    assert_same(got, expected if len(np.atleast_1d(expected)) else np.empty(0))


def test_the_result_takes_part_in_arithmetic(d):
    m = d._map(lambda s: s.y() * 2, shape=(3,), dtype="f4")
    expected = (d.y() * 2).astype("f4")
    assert_same((m - 1)[2:5](), expected[2:5] - np.float32(1))
    assert_same(m._mean(axis=0)(), expected.mean(axis=0))
    assert_same((m - m._mean(axis=0))[::-2](), (expected - expected.mean(axis=0))[::-2])
    assert (m == expected) and len(m) == 12 and m._shape() == (12, 3)


def test_blocks_of_rows_equal_rows(d):
    rows = d._map(lambda s: s.x() - s.row(), shape=(), dtype=float)
    blocks = d._map_batches(lambda b: b.x() - b.row(), shape=(), dtype=float, batch_size=5)
    for key in (np.s_[:], np.s_[::-2], [3, 3, 0], 4):
        assert_same(blocks[key](), rows[key]())


def test_windows_on_a_mapped_view(d):
    m = dv.View(d._map(lambda s: s.y(), shape=(3,), dtype=int), first=0, rest=np.s_[1:])
    assert_same(m[2:4].rest(), d.y()[2:4, 1:])


def test_large_blocks_are_cut_and_joined():
    x = np.arange(300_000.0).reshape(-1, 2)
    m = dv.View(x)._map_batches(lambda b: {"s": b().sum(1), "t": b() * 2})._probe()
    assert_same((m.s + m.t[:, 0])(), x.sum(1) + x[:, 0] * 2)


@pytest.mark.parametrize("result", [lambda s: s + 1, lambda s: (s() + 1).tolist()])
def test_a_function_may_return_a_view_or_a_list(result):
    assert_same(
        dv.View(np.arange(6.0).reshape(3, 2))._map(result)(), np.arange(6.0).reshape(3, 2) + 1
    )


# -------------------- fields --------------------


def test_a_mapping_becomes_fields(d):
    p = d._map(both)._probe()
    assert p._fields() == ("a", "b") and p.b._fields() == ("c", "n")
    assert_same(p[3:].b.c(), d.y()[3:, ::-1])
    assert_same(p.a[[1, 0]](), d.x()[[1, 0]] + 1)
    assert p[2]._asdict()["b"]["n"] == 2
    assert p().dtype.names == ("a", "b")


@pytest.mark.parametrize(
    "function",
    [
        lambda s: Pair(s.x(), s.y()),
        lambda s: (s.x(), s.y()),
        lambda s: {"b": s.y(), "a": s.x()},
        lambda s: {"b": s.y, "a": s.x},
        lambda s: s._select("x", "y")._rename(x="a", y="b"),
    ],
)
def test_declared_fields(d, function):
    m = d._map(function, fields=("a", "b"))
    assert m._fields() == ("a", "b") and m.a._shape() == (12, ...) and m.a._dtype() is None
    assert_same(m[2:4].b(), d.y()[2:4])
    known = d._map(function, shape={"a": (), "b": 3}, dtype={"a": "f8", "b": "i8"})
    assert known._fields() == ("a", "b") and known.b._shape() == (12, 3)
    assert_same((known.b[5] + known.a[5])(), d.y()[5] + d.x()[5])


def test_lengths_that_differ_may_be_declared_without_a_dtype():
    made = dv.View(lambda n: np.full((n + 2, 3), n), _length=3)._map(
        lambda row: row(), shape=(None, 3)
    )
    assert [row().shape for row in made] == [(2, 3), (3, 3), (4, 3)]
    assert made[1]().tolist() == [[1] * 3] * 3
    with pytest.raises(ValueError, match=r"the shape is \(3, 3\); declared is \(None, 2\)"):
        dv.View(np.zeros((2, 3, 3)))._map(lambda row: row(), shape=(None, 2))[1]()


def test_some_fields_may_be_declared_further_than_others(d):
    m = d._map(both, fields={"a": None, "b": ("c", "n")}, shape={"a": ()}, dtype={"a": "f4"})
    assert m.a._dtype() == np.float32 and m.b.c._dtype() is None
    p = m._probe()
    assert p.a._dtype() == np.float32 and p.b.c._shape() == (12, 3)
    assert_same(p.a(), (d.x() + 1).astype("f4"))


def test_a_structured_sample(d):
    kind = np.dtype([("u", "f4"), ("v", "i2", (2,))])
    m = d._map(lambda s: np.array((s.x(), s.row()), kind), shape=(), dtype=kind)
    assert_same(m[3:].u(), d.x()[3:].astype("f4"))
    assert_same(m.v[2](), np.array([2, 2], "i2"))


# -------------------- once per sample --------------------


@pytest.mark.parametrize("size", [12, 20_000])
def test_the_function_runs_once_per_sample_and_evaluation(size):
    row = np.arange(size)
    f = Counting(lambda s: {"a": s.row() + 1.0, "b": s.row() * 2})
    p = dv.View(row=row, x=row)._map(f)._probe()
    evaluations = [
        p,
        p._asdict,
        p._astuple,
        lambda: (p.a + p.b)(),
        lambda: (p.a * p.b - p.a)(),
        lambda: p.a._mean()(),
    ]
    for evaluation in evaluations[: None if size < 100 else 4]:
        f.rows.clear()
        evaluation()
        assert sorted(f.rows) == row.tolist()


def test_only_the_rows_asked_for_are_made(d):
    f = Counting(lambda s: s.x())
    for m in (d._map(f), d._map(f)._probe()):
        for key, rows in [(np.s_[5:10], range(5, 10)), ([3, 3, 1], [1, 3]), (-1, [11])]:
            f.rows.clear()
            m[key]()
            assert sorted(f.rows) == list(rows)
    f.rows.clear()
    assert_same(d._map(f)[::-1][:2](), d.x()[::-1][:2])
    assert sorted(f.rows) == [10, 11]


def test_a_chain_runs_each_function_once(d):
    first = Counting(lambda s: {"row": s.row(), "b": s.x() * 2})
    last = Counting(lambda s: s.row() + s.b() + s.b())
    for probe in (True, False):
        between = d._map(first)._probe() if probe else d._map(first)
        m = between._map(last)
        first.rows.clear(), last.rows.clear()
        assert_same(m[2:6](), d.row()[2:6] + d.x()[2:6] * 4)
        assert sorted(first.rows) == sorted(last.rows) == [2, 3, 4, 5]
        blocks = between._map_batches(lambda b: b.row() + b.b() + b.b(), batch_size=3)
        first.rows.clear()
        assert_same(blocks[2:6](), d.row()[2:6] + d.x()[2:6] * 4)
        assert sorted(first.rows) == [2, 3, 4, 5]


def test_what_a_function_does_not_read_is_not_computed(d):
    heavy = Counting(lambda s: {"row": s.row(), "image": np.zeros(5)})
    made = d._map(heavy)._probe()
    joined = dv.zip(row=d.row, heavy=made.image)
    heavy.rows.clear()
    assert_same(joined._map(lambda s: s.row() + 1)(), d.row() + 1)
    assert heavy.rows == []


def test_a_list_of_functions_is_their_composition(d):
    m = d._map([lambda s: {"z": s.x() + 1}, lambda s: s.z * 2, lambda s: s() - 1])
    assert_same(m(), (d.x() + 1) * 2 - 1)
    blocks = d._map_batches([lambda b: b.x() + 1, lambda b: b() * 2], batch_size=5)
    assert_same(blocks(), (d.x() + 1) * 2)


def test_deep_composition(d):
    m = d.x
    for _ in range(30):
        m = m._map(lambda s: s() + 1, shape=(), dtype=float)
    assert_same(m[3:5](), d.x()[3:5] + 30)


# -------------------- nothing is asked, nothing is called --------------------


def test_looking_at_a_mapped_view_calls_nothing(d):
    for m in (d._map(unmade), d._map_batches(unmade), d._map(unmade, fields=["a"]).a):
        assert m._shape()[0] == 12 and m._dtype() is None and len(m) == 12
        assert "?" in repr(m) and m._repr_html_() and dir(m) and not hasattr(m, "_nothing")
        assert [*m[2:]]
    m = d._map(unmade, shape=(2,))
    assert m._shape() == (12, 2) and m._dtype() is None
    with pytest.raises(dv.UndeclaredError, match="_probe"):
        m - 1
    assert d._map(unmade, shape=(2,), dtype="f4")._nbytes() == 96


def test_an_empty_view_is_mapped(d):
    assert len(d[:0]._map(unmade)) == 0 and d[:0]._map(unmade)().shape == (0,)
    assert_same(d[:0]._map(unmade, shape=(2,), dtype="f4")(), np.empty((0, 2), "f4"))
    with pytest.raises(dv.UndeclaredError, match="no samples"):
        d[:0]._map(unmade)._probe()


# -------------------- the base is safe --------------------


def test_b53_a_function_cannot_change_the_data():
    base = np.arange(6.0).reshape(3, 2)

    def subtract(x):
        x -= 1
        return x

    for m in (dv.View(base)._map(subtract), dv.View(base)._map_batches(subtract)):
        for _ in range(2):
            with pytest.raises(dv.ReadOnlyError):
                m()
    with pytest.raises(ValueError, match="read-only"):
        dv.View(base)._map(lambda x: np.subtract(x(), 1, out=x()))()
    assert_same(base, np.arange(6.0).reshape(3, 2))


@pytest.mark.parametrize("stream", [False, True])
def test_b53_a_function_that_filters_cannot_change_the_data(stream):
    base = np.arange(6.0).reshape(3, 2)
    d = dv.View(lambda: iter(base)) if stream else dv.View(base)

    def subtract(x):
        x -= 1
        return True

    def subtract_from_array(x):
        x()[...] = 7
        return True

    for function in (subtract, subtract_from_array):
        with pytest.raises(ValueError, match=r"sample 0.*read-only"):
            list(d._filter(function))
    assert_same(base, np.arange(6.0).reshape(3, 2))
    if not stream:
        d._filter(lambda x: x[0]() > 1)._probe()[0] = 0  # what it keeps can be written
        assert base[1].tolist() == [0, 0]


def test_what_is_handed_out_is_no_alias():
    table = np.zeros((3, 2))
    base = np.arange(3)
    m = dv.View(base)._map(lambda s: table[s()])
    for view in (m, m._probe()):
        for key in (1, np.s_[:]):
            view[key]()[...] = 7
    assert not table.any()


def test_a_mapped_view_is_not_written(d):
    m = d._map(lambda s: s.x(), shape=(), dtype=float)
    for view in (m, m._cached(100)):
        with pytest.raises(dv.ReadOnlyError, match=r"the result of _?(map|cached)"):
            view[2:] = 0


# -------------------- reads --------------------


def test_reads_prunes_what_a_function_is_given(d):
    assert_same(d._map(lambda s: s.x() + 1, reads="x")[:2](), d.x()[:2] + 1)
    m = d._map(lambda s: s.y(), reads=("x", "row"))
    with pytest.raises(dv.FieldError, match=r"sample 0: field 'y' is not among .*reads"):
        m()
    with pytest.raises(dv.FieldError, match="'z'"):
        d._map(unmade, reads=["z"])
    windows = dv.View(np.arange(12).reshape(4, 3), a=0, b=np.s_[1:])
    assert_same(windows._map(lambda s: s.b(), reads="b")(), np.arange(12).reshape(4, 3)[:, 1:])
    with pytest.raises(dv.FieldError, match="reads"):
        windows._map(lambda s: s.a(), reads="b")()


# -------------------- random --------------------


def noisy(sample, rng):
    return sample.x() + rng.random(2)


def test_random_numbers_follow_the_sample(d):
    m = d._map(noisy, seed=3)
    whole = m()
    assert len(np.unique(whole - d.x()[:, None])) == 24
    assert_same(m(), whole)
    order = d._shuffled(5).row()
    assert_same(m[4:6](), whole[4:6])
    assert_same(m._shuffled(5)(), whole[order])
    assert_same(d._map(noisy, seed=3, shape=2, dtype=float)[::-1](), whole[::-1])
    assert not np.array_equal(d._map(noisy, seed=4)(), whole)
    assert not np.array_equal(d._map(noisy, seed=(3, 1))(), whole)
    assert_same(pickle.loads(pickle.dumps(m._probe()))(), whole)


def test_random_numbers_are_these():
    m = dv.View(np.arange(3))._map(lambda s, rng: rng.integers(1000), seed=0)
    assert m().tolist() == [824, 706, 119]


@pytest.mark.parametrize("form", ["rows", "expression", "record", "cached", "stream", "chain"])
def test_an_epoch_has_its_own_numbers(d, form):
    m = d._map(lambda s, rng: s.x() + rng.random(), shape=(), dtype=float, seed=3)
    stream = dv.View(lambda: iter(range(9)))._map(lambda s, rng: rng.random(), seed=3)
    views = {
        "rows": m[2:6],
        "expression": (m * 2 - d.row)[::2],
        "record": dv.zip(a=m, b=d.x).a,
        "cached": m._cached(1e6),
        "stream": stream[2:5],
        "chain": m._map(lambda s: s() * 2)._filter(lambda s: True)[:4],
    }
    view = views[form]
    epochs = [viewed(at_epoch(node_of(view), epoch)) for epoch in (0, 1, 2, 1)]
    first, second, third, again = [epoch() for epoch in epochs]
    assert_same(first, view())
    assert_same(second, again)
    assert (first != second).all() and (second != third).all() and (view() == first).all()
    assert at_epoch(node_of(d), 1) is node_of(d)


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_minibatches_of_an_epoch_are_those_of_a_loader(d, epoch):
    m = d._map(lambda s, rng: s.x() + rng.random(), shape=(), dtype=float, seed=3)
    for view in (m, dv.zip(a=m, b=d.x).a):
        options = {"sampler": "permutation", "seed": 5}
        loader = view._loader(4, **options)
        for _ in range(epoch + 1):
            found = [batch() for batch in loader]
        for batch, expected in zip(
            view._minibatches(4, epoch=epoch, **options), found, strict=True
        ):
            assert_same(batch(), expected)


@pytest.mark.parametrize("epoch", [0, 1, 7])
def test_streams_and_endless_views_have_the_random_numbers_of_an_epoch(epoch):
    def noise(s, rng):
        return s() + rng.random()

    stream = dv.View(lambda: iter(range(4)))._map(noise, seed=3)
    finite = dv.View(np.arange(4))._map(noise, shape=(), dtype=float, seed=3)
    for view in (stream, finite):
        loader = view._loader(2)
        for _ in range(epoch + 1):
            expected = [batch() for batch in loader]
        for batch, values in zip(view._minibatches(2, epoch=epoch), expected, strict=True):
            assert_same(batch(), values)
    assert_same(finite._repeat()._minibatches(2, epoch=epoch)[:2](), np.array(expected))


@pytest.mark.parametrize("epoch", [-1, 1.5, "x", True])
def test_what_is_no_epoch_is_refused_by_every_kind_of_view(epoch):
    rows = dv.View(np.arange(4))
    for view in (rows, rows._repeat(), dv.View(lambda: iter(range(4)))):
        for sampler in ({}, {"sampler": [3, 1]}) if view is rows else ({},):
            with pytest.raises((TypeError, ValueError), match="epoch= is"):
                view._minibatches(2, epoch=epoch, **sampler)


def test_steps_draw_different_numbers(d):
    def draw(s, rng):
        return {"x": rng.random(), "y": s.y() if "y" in s._fields() else 0.0, "old": s.x()}

    two = d._map(draw, seed=0)._map(lambda s, rng: [s.x(), rng.random()], seed=0)()
    one = d._map([draw, lambda s, rng: [s.x(), rng.random()]], seed=0)()
    assert_same(two, one)
    assert (two[:, 0] != two[:, 1]).all()


def test_random_blocks_do_not_depend_on_the_cut(d):
    def noise(rows, rngs):
        return rows.x() + [rng.random() for rng in rngs]

    views = [d._map_batches(noise, seed=1, batch_size=size) for size in (1, 5, 100)]
    whole = views[0]()
    for view in views:
        assert_same(view(), whole)
        assert_same(view[7:3:-1](), whole[7:3:-1])
    assert_same(d._map(lambda s, rng: s.x() + rng.random(), seed=1)(), whole)


def test_the_global_state_is_not_touched(d):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    d._map(noisy, seed=0)()
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


# -------------------- failures --------------------


def test_a_failing_function_is_named_with_the_sample(d):
    def careful(s):
        if s.row() == 7:
            raise KeyError("seven")
        return s.x()

    for m in (d._map(careful), d._map(careful, shape=(), dtype=float), d._map(careful)._probe()):
        with pytest.raises(KeyError, match=r"map .*careful, sample 7.*seven") as caught:
            m[::-1]()
        assert isinstance(caught.value.__cause__, KeyError)
        assert_same(m[:7](), d.x()[:7])
    with pytest.raises(ZeroDivisionError, match=r"map_batches .*, samples 5 to 9"):
        d._map_batches(lambda b: 1 // (b.row()[0] - 5).item() + b.row(), batch_size=5)()


@pytest.mark.parametrize(
    ("options", "result", "error", "words"),
    [
        ({"shape": (2,), "dtype": "f4"}, np.zeros(3), ValueError, r"sample 0: the shape is \(3,\)"),
        ({"shape": (), "dtype": "i4"}, 1.5, TypeError, "sample 0: cannot write 1.5 into int32"),
        ({"shape": (), "dtype": "u1"}, 300, OverflowError, "300 does not fit into uint8"),
        ({"fields": ["a", "b"]}, {"a": 1}, dv.FieldError, "a, b are declared; got a"),
        ({"fields": ["a", "b"]}, 3, dv.FieldError, "got one array"),
        ({"fields": ["a", "b"]}, (1, 2, 3), ValueError, "3 values"),
        ({"shape": (), "dtype": "f4"}, {"a": 1}, dv.FieldError, "one array is declared"),
        ({"fields": ["a"], "shape": {"a": 1}}, {"a": 1}, ValueError, "field 'a'"),
        ({}, None, TypeError, "sample 0"),
        ({}, iter([1]), TypeError, "sample 0"),
    ],
)
def test_results_are_checked(d, options, result, error, words):
    m = d._map(lambda s: result, **options)
    m = m.a if m._fields() else m
    with pytest.raises(error, match=words):
        m()


def test_texts_longer_than_those_that_were_probed_are_told_with_the_dtype_to_declare():
    texts = ["ab"] * 1000
    texts[10] = "abcd"
    rows = dv.View(text=texts)
    with pytest.raises(TypeError, match=r"read were <U2; dtype=\{'w': 'T'\} of the map declares"):
        rows._map(lambda row: {"w": row.text()})._probe().w()
    wide = rows._map(lambda row: {"w": row.text()}, dtype={"w": "T"})._probe()
    assert wide.w[9:11]().tolist() == ["ab", "abcd"]


def test_samples_are_alike(d):
    ragged = d._map(lambda s: np.zeros(s.row()))
    assert [len(s()) for s in ragged[:3]] == [0, 1, 2]
    with pytest.raises(ValueError, match="shape"):
        ragged()
    assert [len(s) for s in ragged._probe()()] == list(range(12))
    odd = d._map(lambda s: np.zeros(9 if s.row() == 5 else 1))
    with pytest.raises(
        ValueError, match=r"sample 5: the shape is \(9,\); the first ones read were"
    ):
        odd._probe()()
    changing = d._map(lambda s: 0.5 if s.row() == 5 else 1)._probe()
    with pytest.raises(TypeError, match="sample 5: the dtype is float64"):
        changing()
    other = d._map(lambda s: {"a": 1} if s.row() < 5 else {"b": 1})._probe()
    with pytest.raises(dv.FieldError, match="sample 5: the fields a are declared; got b"):
        other.a()


@pytest.mark.parametrize("result", [np.zeros(4), 5, {"a": np.zeros(4)}, {"a": 3}])
def test_blocks_return_as_many_rows(d, result):
    with pytest.raises(ValueError, match=r"map_batches .*, samples 0 to 11"):
        d._map_batches(lambda b: result)()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda d: d._map(3), TypeError),
        (lambda d: d._map([]), ValueError),
        (lambda d: d._map([abs, 3]), TypeError),
        (lambda d: d._map(abs, fields=["a", "a"]), ValueError),
        (lambda d: d._map(abs, fields=["a"], shape={"b": 1}), ValueError),
        (lambda d: d._map(abs, shape=-1), ValueError),
        (lambda d: d._map(abs, seed=1.5), TypeError),
        (lambda d: d._map_batches(abs, batch_size=0), ValueError),
        (lambda d: d[0]._map(abs), TypeError),
        (lambda d: d.x[0]._map(abs), TypeError),
        (lambda d: d._cached(-1), ValueError),
        (lambda d: d._cached(np.nan), ValueError),
        (lambda d: d._cached("https://host/x.npz", version=1), ValueError),
        (lambda d: d.x[0]._cached(10), TypeError),
    ],
)
def test_what_cannot_be_mapped_is_refused_at_once(d, call, error):
    with pytest.raises(error):
        call(d)


# -------------------- streams and endless views --------------------


def test_a_stream_is_mapped_as_it_comes():
    calls = []

    def samples():
        return iter([{"row": n, "x": float(n)} for n in range(20)])

    def function(s):
        calls.append(s.row())
        return {"u": s.x() * 2, "v": s.row()}

    m = dv.View(samples)._map(function)
    assert calls == [] and m._length() is None
    p = m._probe()
    assert_same(p.u[3:5](), np.array([6.0, 8.0]))
    calls.clear()
    assert [s.v() for s in p[:3]] == [0, 1, 2] and calls == [0, 1, 2]
    declared = dv.View(samples)._map(lambda s: s.x(), shape=(), dtype="f4")
    assert declared._shape() == (None,) and declared[:2]().dtype == np.float32
    named = dv.View(samples)._map(function, fields=("u", "v"))
    assert_same(named.v[5:7](), np.array([5, 6]))
    with pytest.raises(dv.StreamError):
        m[3]
    with pytest.raises(dv.StreamError):
        declared._cached(100)
    with pytest.raises(ValueError, match=r"map .*, sample 4"):
        dv.View(samples)._map(lambda s: math.sqrt(3.5 - s.x()))[:9]()


def test_blocks_of_a_stream():
    sizes = []

    def function(rows):
        sizes.append(len(rows))
        return {"z": rows.x() * 2 + rows.k().sum(1)}

    def samples():
        return ({"x": n, "k": np.full(2, n)} for n in range(10))

    m = dv.View(samples)._map_batches(function, batch_size=4)
    assert_same(m._probe().z[:9](), np.arange(9) * 4)
    assert sizes[-3:] == [4, 4, 2]


def test_the_numbers_of_a_stream_are_those_of_rows():
    def draw(s, rng):
        return rng.random()

    rows = dv.View(np.arange(10))._map(draw, seed=2)
    stream = dv.View(lambda: iter(range(10)))._map(draw, seed=2)
    assert_same(stream[4:7](), rows[4:7]())
    assert_same(stream._map(lambda s: s() + 1)[4:7](), rows[4:7]() + 1)


def test_endless_rows_are_mapped():
    endless = dv.View(lambda n: {"x": n}, _length=math.inf)
    m = endless._map(lambda s: s.x() ** 2)
    assert m._length() == math.inf and m[10:13]().tolist() == [100, 121, 144]
    assert m._probe()[10**6]() == 10**12
    with pytest.raises(TypeError):
        m()
    repeated = dv.View([1, 2, 3])._repeat()._map(doubled, shape=(), dtype=int)
    assert repeated[3:8:2]().tolist() == [2, 6, 4]


def test_filtering_and_joining_mapped_rows(d):
    m = d._map(both)._probe()
    assert_same(m._filter(lambda s: s.b.n() % 4 == 0).a[:2](), d.x()[[0, 4]] + 1)
    assert_same(dv.concat(m.a, m.a[:2])[-3:](), (d.x() + 1)[[11, 0, 1]])


# -------------------- threads, processes, pickles --------------------


def squared(rows):
    return {"a": rows.x() ** 2, "b": rows.row()}


def test_views_travel(d):
    for m in (
        d._map(both),
        d._map(both)._probe(),
        d._map_batches(squared, shape=(), dtype={"a": float, "b": int}),
    ):
        there = pickle.loads(pickle.dumps(m[2:5]))
        for part, same in ((there, m[2:5]), (there._probe().a, m._probe().a[2:5])):
            assert_same(part(), same())
    x = np.zeros((10**6, 2))
    part = dv.View(x)._map(doubled, shape=2, dtype=float)
    assert len(pickle.dumps(dv.View(x)[:5]._map(doubled))) < 2000
    assert part._nbytes() == x.nbytes


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_pools_give_the_same(d, pool):
    x = np.arange(9000.0)
    big = dv.View(row=np.arange(9000), x=x)
    views = [
        big._map_batches(squared, shape=(), dtype={"a": "f8", "b": "i8"}),
        big._map(lambda s: {"a": s.x() ** 2, "b": s.row()}, shape=(), dtype={"a": "f8", "b": "i8"}),
    ]
    with pool(2) as workers, dv.executor(workers):
        for view in views[: None if pool is ThreadPoolExecutor else 1]:
            assert_same(view.a(), x**2)
            assert_same((view.a + view.b)[::-1](), (x**2 + np.arange(9000))[::-1])
        assert_same(views[1][:100].a(), x[:100] ** 2)


def test_a_function_that_evaluates_views_does_not_hang(d):
    data = dv.View(np.arange(400_000.0))

    def centre(rows):
        return rows() - data._mean()() + (data[:300_000] * 0)[:1]()

    with ThreadPoolExecutor(2) as workers, dv.executor(workers):
        m = data._map_batches(centre, shape=(), dtype=float, batch_size=50_000)
        assert_same((m + 0)(), data() - data().mean())


def test_threads_share_a_view(d):
    m = d._map(both)._probe()._cached(10_000)
    expected = m()
    found, start = {}, threading.Barrier(4)

    def ask(number):
        start.wait()
        found.update({(number, k): m[k:]() for k in range(6)})

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 24
    for (_, k), got in found.items():
        assert_same(got, expected[k:])


# -------------------- memory --------------------


def test_a_column_of_large_rows_is_made_in_pieces():
    alive, most = [], []

    def large(rows):
        most.append(len(rows))
        return np.broadcast_to(rows()[:, None], (len(rows), 100_000))

    m = dv.View(np.arange(200.0))._map_batches(large, shape=100_000, dtype="f8")
    assert_same(m[:, 5](), np.arange(200.0))
    assert_same(m[:, 5]._mean()(), np.arange(200.0).mean())
    assert max(most) < 20 and not alive


# -------------------- determinism and caches --------------------


def varying(sample):
    return sample.x()


varying.deterministic = False


def test_what_varies_says_so(d):
    assert d._deterministic and d._map(both)._deterministic and d._map(noisy, seed=0)._deterministic
    m = d._map(varying)
    stream = dv.View(lambda: iter([1.0]))
    for view in (m, m[2:], m._map(both), m._probe() + 1, (m._probe() + 1)._mean()):
        assert not view._deterministic
    assert stream._deterministic and not stream._map(varying)._deterministic
    made = dv.View(varying, _length=3)
    assert not made._deterministic and not made[1:]._deterministic
    for view in (m, m._probe(), made):
        with pytest.raises(ValueError, match="_deterministic"):
            view._cached(100)


def test_a_cache_computes_each_row_once(d):
    f = Counting(both)
    c = d._map(f)._probe()._cached(1e6)
    f.rows.clear()
    assert_same(c.a[3:6](), d.x()[3:6] + 1)
    assert_same(c[2:5].b.c(), d.y()[2:5, ::-1])
    assert_same(c.b.n(), d.row())
    assert sorted(f.rows) == list(range(12))
    with pytest.raises(dv.UndeclaredError, match="_probe"):
        d._map(f)._cached(100)


def test_a_cache_reads_only_what_is_asked_for(d):
    f = Counting(lambda s: {"row": s.row(), "audio": np.zeros(9)})
    c = dv.zip(length=d.row, audio=d._map(f)._probe().audio)._cached(1e6)
    f.rows.clear()
    assert_same(c._sorted(by="length").length(), d.row())
    assert f.rows == []


def test_a_cache_is_bounded_and_forgets_the_oldest(d):
    f = Counting(lambda s: np.full(100, s.x()))
    c = d._map(f)._probe()._cached(4 * 1200)
    f.rows.clear()
    c[:4](), c[0](), c[4](), c[0](), c[1]()
    assert f.rows == [0, 1, 2, 3, 4, 1]
    tiny = d._map(f)._probe()._cached(10)
    assert_same(tiny[2:](), np.repeat(d.x()[2:, None], 100, 1))


@pytest.mark.parametrize(
    "write",
    [
        lambda d, x: d.x.__setitem__(3, 100.0),
        lambda d, x: d.x.__iadd__(1),
        lambda d, x: d.x._write(0),
        lambda d, x: dv.View(x).__setitem__(np.s_[2:5], -1),
        lambda d, x: dv.View(x)[::-1].__imul__(2),
        lambda d, x: np.add(d.x, 1, out=dv.View(x)),
        lambda d, x: (dv.View(x.copy()) + 1)(out=x),
        lambda d, x: dv.View(x[4:].copy())[::-1](out=x[2:-2]),
        lambda d, x: np.cumsum(dv.View(x[::2].copy()), out=x[::2]),
        lambda d, x: np.add.at(x, [1, 2], dv.View(np.ones(2))),
        lambda d, x: np.copyto(x, dv.View(x + 1)),
        lambda d, x: np.modf(dv.View(x + 0.5), out=(x, np.empty_like(x))),
    ],
)
def test_a_write_to_the_sources_is_seen_through_a_cache(write):
    for size in (10, 100_000):
        x = np.arange(float(size))
        d = dv.View(x=x, y=x * 2)
        c = d._map_batches(lambda b: b.x() + b.y(), shape=(), dtype=float)._cached(1e9)
        chained = c._map_batches(lambda b: b() + 1, shape=(), dtype=float)._cached(1e9)
        assert_same(c[:50](), (x + d.y())[:50])
        chained[:50]()
        write(d, x)
        assert_same(c[:50](), (x + d.y())[:50])
        assert_same(chained[:50](), (x + d.y() + 1)[:50])


def test_a_file_written_is_seen_through_a_cache(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(10.0))
    read, write = dv.open(tmp_path / "x.npy"), dv.open(tmp_path / "x.npy", mode="r+")
    c = (read * 2)._cached(1e6)
    c()
    write += 1
    assert_same(c(), (np.arange(10.0) + 1) * 2)
    write[3] = 0
    assert c[3]() == 0


@pytest.mark.parametrize("read", [dv.open, lambda path: dv.View(np.load(path, mmap_mode="r"))])
def test_a_file_replaced_is_seen_through_a_cache(read, tmp_path):
    path, x = tmp_path / "x.npy", np.arange(10.0)
    np.save(path, x)
    (tmp_path / "link.npy").symlink_to(path)
    caches = [(read(tmp_path / name) * 2)._cached(1e6) for name in ("x.npy", "link.npy")]
    for c in caches:
        c()
    now = x + 1
    dv.View(now)._save(path)
    for c in caches:
        assert_same(c(), now * 2 if read is dv.open else x * 2)  # a map is of the file of before


def test_a_write_that_fails_and_is_resumed_is_seen_through_a_cache():
    class Broken(LeastWritable):
        room = 2

        def write(self, index, value):
            if not self.room:
                raise OSError("no space left")
            self.room -= 1
            super().write(index, value)

    source = Broken(np.arange(100.0))
    d = dv.View(source)
    c = (d * 2)._cached(1e6)
    c()
    with sizes.set(
        streamed_elements=0, at_once_bytes=0, computed_bytes=0, block_bytes=64, undo_bytes=0
    ):
        with pytest.raises(PartialWriteError) as failure:
            d += 1
        assert_same(c(), source.kept * 2)
        source.room = 100
        failure.value.resume()
    assert_same(c(), (np.arange(100.0) + 1) * 2)


def test_what_is_undone_is_seen_through_a_cache():
    d = dv.View(np.arange(4.0)[:, np.newaxis])
    c = (d * 2)._cached(1e6)

    def swap():
        first, second = d[0], d[1]
        d[0] = second
        c()
        d[1] = first

    with pytest.raises(ValueError, match="undone: 1"):
        swap()
    assert_same(c(), 2 * np.arange(4.0)[:, np.newaxis])


def test_a_file_saved_elsewhere_keeps_a_cache(tmp_path):
    f = Counting(lambda s: s.x() + 0)
    np.save(tmp_path / "x.npy", np.arange(10.0))
    c = dv.View(x=dv.open(tmp_path / "x.npy"), row=np.arange(10))._map(f)._probe()._cached(1e6)
    c()
    f.rows.clear()
    dv.View(np.zeros(3))._save(tmp_path / "y.npy")
    dv.View(np.zeros(3))(out=np.empty(3))
    c()
    assert f.rows == []


def test_a_row_computed_while_its_source_is_written_is_not_kept():
    x = np.zeros(3)
    d = dv.View(x)

    def slow(s):
        value = s() + 0
        if not x[0]:
            dv.View(x)[:] = 1
        return value

    c = d._map(slow, shape=(), dtype=float)._cached(1e6)
    c[0]()
    assert c[0]() == 1


def test_writes_elsewhere_keep_a_cache(d):
    f = Counting(lambda s: s.x())
    other = dv.View(np.zeros(5))
    c = d._map(f)._probe()._cached(1e6)
    c()
    f.rows.clear()
    other += 1
    c()
    assert f.rows == []


def test_a_cache_travels_empty(d):
    c = d._map(both)._probe()._cached(1e6)
    before = len(pickle.dumps(c))
    c()
    blob = pickle.dumps(c)
    assert len(blob) == before
    assert_same(pickle.loads(blob)(), c())


def test_metadata_and_windows_outlive_a_cache():
    v = dv.View(np.arange(6.0).reshape(3, 2), a=0, _meta={"": {"unit": "m"}})
    c = (v)._cached(100)
    assert c._meta["unit"] == "m"
    assert_same(c.a(), np.array([0.0, 2.0, 4.0]))
    assert_same(((v + 1)._cached(1e4).a)[1:](), np.array([3.0, 5.0]))


def test_views_evaluated_together_share_the_calls_of_a_function():
    calls = []

    def parts(sample):
        calls.append(1)
        return {"a": sample()[0], "b": sample() * 2}

    d = dv.View(np.arange(12.0).reshape(4, 3))
    m = d._map(parts, shape={"a": (), "b": 3}, dtype={"a": float, "b": float})
    for together in [(m.a, m.b), (m.a + 1, m.b * 2), (m.a, {"b": m.b[1:3]})]:
        del calls[:]
        dv.evaluate(*together)
        assert len(calls) == 4


def test_a_view_is_no_function():
    d = dv.View(np.zeros((4, 3)))
    for mapped in [d._map, d._map_batches]:
        with pytest.raises(TypeError, match="a function or a list of them; got a view"):
            mapped(d)


# -------------------- kept in a file --------------------


@pytest.fixture
def kept_in(tmp_path):
    dv.cache.set_root(tmp_path)
    yield tmp_path
    dv.cache.set_root(None)
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.parametrize("name", ["k.h5", "k.npz", "k.zarr", "k.parquet", "k", "in/k.hdf5"])
def test_rows_in_a_file_are_computed_once_for_each_version(kept_in, name):
    calls = []

    def slow(s):
        calls.append(s.x())
        return {"a": s.x() + 1, "b": s.x() * 2}

    d = dv.View(x=np.arange(5.0))._map(slow, shape=(), dtype={"a": float, "b": float})
    for version, count in (("v1", 5), ("v1", 5), (2, 10), ("v1", 10), ("a/b?", 15), ("a/b?", 15)):
        with d._cached(name, version=version) as kept:
            assert_same(kept.a[1:3](), np.array([2.0, 3.0]))
            assert_same(kept.b(), np.arange(5.0) * 2)
            assert kept._deterministic and len(calls) == count
    stem, _, end = name.partition(".")
    first = kept_in / f"{stem}-v1{'.' * bool(end)}{end}"
    assert first.exists() and (kept_in / f"{stem}-2{'.' * bool(end)}{end}").exists()


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [("k", "1.0", "k-1.0"), ("k.csv.gz", 1, "k-1.csv.gz"), ("k.v2.npz", "1.0", "k.v2-1.0.npz")],
)
def test_the_version_stands_before_what_names_the_format(kept_in, name, version, expected):
    d = dv.View(x=np.arange(3.0), s=["a", "b", "c"])
    for _ in range(2):
        with d._cached(name, version=version) as kept:
            assert kept.x().tolist() == [0, 1, 2] and kept.s().tolist() == ["a", "b", "c"]
        assert [path.name for path in kept_in.iterdir()] == [expected]


def test_a_record_is_kept_as_one_array_in_an_npy_file(kept_in):
    d = dv.View(x=np.arange(3.0), n=np.arange(3))
    for _ in range(2):
        assert_same(d._cached("k.npy", version=1)(), d())
    with pytest.raises(ValueError, match="made from other data"):
        d._drop("n")._cached("k.npy", version=1)


def test_an_array_in_a_file_is_opened_and_not_loaded(kept_in):
    d = dv.View(np.arange(1000.0))
    kept = (d * 2)._cached("x.npy", version=1)
    assert_same(kept[::400](), np.array([0.0, 800.0, 1600.0]))
    assert "x-1.npy" in repr(kept)
    with pytest.raises(dv.ReadOnlyError):
        kept[0] = 3


def test_a_file_that_was_made_from_other_data_is_told(kept_in):
    dv.View(a=np.arange(3))._cached("k.npz", version=1)._close()
    for other in (dv.View(a=np.arange(4)), dv.View(b=np.arange(3)), dv.View(np.arange(4))):
        with pytest.raises(ValueError, match="made from other data: it has 3 rows with the fields"):
            other._cached("k.npz", version=1)


def test_a_view_that_fails_leaves_no_file(kept_in):
    def fails(s):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        dv.View(np.arange(3))._map(fails, shape=(), dtype=int)._cached("k.npy", version=1)
    assert list(kept_in.iterdir()) == []


def test_what_a_cache_takes(kept_in):
    d = dv.View(np.arange(3))

    def random(s):
        return np.random.default_rng().random()

    random.deterministic = False
    for version in (None, True, 1.5):
        with pytest.raises(TypeError, match="a text or a number, to be changed whenever"):
            d._cached("k.npy", version=version)
    with pytest.raises(TypeError, match="rows in memory have no version"):
        d._cached(1e6, version=1)
    with pytest.raises(ValueError, match=r"_save\(\) in a file"):
        d._map(random)._cached("k.npy", version=1)
    with pytest.raises(ValueError, match="under the root"):
        d._cached("../k.npy", version=1)
    assert_same(d._cached()(), np.arange(3))


def test_threads_compute_once(kept_in):
    calls = []

    def slow(rows):
        calls.append(len(rows))
        time.sleep(0.05)
        return rows() * 2

    d = dv.View(np.arange(100))._map_batches(slow, shape=(), dtype=int, batch_size=100)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: d._cached("k.npy", version=1)[7](), range(8)))
    assert found == [14] * 8 and calls == [100]


KEEPER = """
import sys, time
import numpy as np, dataview as dv
def slow(rows):
    with open(sys.argv[2], "a") as log:
        log.write("made;")
    time.sleep(0.3)
    return rows() * 2
d = dv.View(np.arange(100))._map_batches(slow, shape=(), dtype=int, batch_size=100)
print(d._cached(sys.argv[1], version="1")[7]())
"""


def test_processes_compute_once(kept_in):
    command = [sys.executable, "-c", KEEPER, kept_in / "k.h5", kept_in / "log"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0].strip() for process in running] == ["14"] * 3
    assert (kept_in / "log").read_text() == "made;"


@pytest.mark.parametrize(
    "rows", [lambda d: d, lambda d: d[1:4], lambda d: d._select("a", "inner"), lambda d: d[::-1]]
)
def test_all_fields_of_a_sample_that_a_function_makes_are_cached_together(rows):
    calls = []

    def sample(number):
        calls.append(number)
        return {"a": number, "b": [number, 1], "inner": {"c": -number}}

    d = rows(dv.View(sample, _length=5)._probe())
    kept = d._cached(1e6)
    calls.clear()
    assert kept.a().tolist() == d.a._freeze()().tolist()
    calls.clear()
    assert kept.inner.c().tolist() == [-number for number in kept.a().tolist()]
    assert kept[1].inner.c() == -kept.a[1]()
    assert not calls


def words_of(rows):
    return lambda row: {"l": rows[row.x()], "y": row.x()}


def test_a_map_of_empty_lists_and_then_texts_says_what_to_declare():
    rows = [[]] * 7 + [["a"], [], ["long", "er"], []]
    mapped = dv.View(x=np.arange(11))._map(words_of(rows))
    with pytest.raises(ValueError, match=r"field 'l': sample 7 .*view\._probe\(\) finds which"):
        mapped._freeze()
    declared = r"sample 7, field 'l': .*; (shape=.*, dtype=.*) of the map declare a length"
    with pytest.raises(ValueError, match=declared) as caught:
        mapped._probe()._freeze()
    told = re.search(declared, str(caught.value))[1]
    options = eval(f"dict({told})")
    assert options == {"shape": {"l": (None,)}, "dtype": {"l": "T"}}
    options["shape"]["y"], options["dtype"]["y"] = (), int
    again = dv.View(x=np.arange(11))._map(words_of(rows), **options)
    assert [row.tolist() for row in again.l()] == rows
    found = dv.View(x=np.arange(8))._map(words_of(rows))._probe()
    assert [row.tolist() for row in found._freeze().l()] == rows[:8]


def test_an_empty_list_is_of_any_declared_dtype():
    rows = [[], []]
    for dtype in ("U3", "T", "M8[D]", "i2"):
        mapped = dv.View(x=np.arange(2))._map(words_of(rows), dtype={"l": dtype, "y": int})._probe()
        assert_same(mapped.l(), np.empty((2, 0), dtype))


@pytest.mark.parametrize(
    ("function", "error", "told"),
    [
        (lambda rows: [[0] * n for n in rows.x()], ValueError, r"got|returned: \[\[\], \[0\]"),
        (lambda rows: {"l": [[0] * n for n in rows.x()]}, ValueError, "field 'l': rows of several"),
        (lambda rows: rows.l, ValueError, "rows of several lengths were returned: View"),
        (lambda rows: [1, 2], ValueError, "9 rows were given; got 2"),
        (lambda rows: {"l": [1, 2]}, ValueError, "field 'l': 9 rows were given; got 2"),
        (lambda rows: 3, ValueError, "9 rows were given; got one value"),
        (lambda rows: {"a": 1}, ValueError, r"one value for each row is needed; got \{'a': 1\}"),
    ],
)
def test_lists_for_one_row_are_refused_by_a_map_of_blocks_with_the_remedy(function, error, told):
    d = dv.View(x=np.arange(9), l=[[0] * (n % 3) for n in range(9)])
    mapped = d._map_batches(function)
    with pytest.raises(error, match=f"^map_batches <lambda>, samples 0 to 8: .*{told}") as caught:
        mapped()
    assert "_map(function) calls it for each row" in str(caught.value)


def test_rows_of_several_lengths_for_one_row_are_returned_as_a_field():
    d, rows = dv.View(x=np.arange(3)), [[1, 2], [3]]
    with pytest.raises(ValueError, match=r"\[\[1, 2\], \[3\]\]; return them as a field, "):
        d._map(lambda row: rows)()
    found = d._map(lambda row: {"rows": rows[: row.x()]})._probe()._freeze().rows()
    assert [[own.tolist() for own in row] for row in found] == [[], [[1, 2]], rows]
