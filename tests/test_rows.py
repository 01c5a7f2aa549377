"""Choosing, ordering and joining rows, and streams; the cases B48, B49, B50 and B55."""

from __future__ import annotations

import itertools
import math
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from counting import Counting
from dataview.index import gather
from oracle import assert_same, attempt, check_same, examples, fill, keys, public_class, slices

SEEDS = [0, 1, 7, 2**40]


@pytest.fixture
def x():
    return np.arange(28.0).reshape(7, 4)


@pytest.fixture
def y():
    return np.array([3, 1, 2, 1, 3, 0, 1])


@pytest.fixture
def record(x, y):
    return dv.View(image=x, label=y)


def order_of(n, seed):
    """Give the order in which a shuffled view has the rows of an array of n numbers."""
    return dv.View(np.arange(n))._shuffled(seed)()


# ---------------------------------------------------------------- shuffling


@pytest.mark.parametrize("n", [0, 1, 2, 3, 10, 100, 1000, 65535, 65536, 65537, 70001, 262145])
@pytest.mark.parametrize("seed", [0, 12])
def test_a_shuffled_view_has_every_row_once(n, seed):
    order = order_of(n, seed)
    assert order.shape == (n,)
    assert np.array_equal(np.sort(order), np.arange(n))


@pytest.mark.parametrize("n", [10, 1000, 70001])
def test_shuffling_is_deterministic_and_depends_on_the_seed(n):
    orders = [order_of(n, seed).tolist() for seed in SEEDS]
    assert orders == [order_of(n, seed).tolist() for seed in SEEDS]
    for one, other in itertools.combinations([*orders, list(range(n))], 2):
        assert one != other


def test_shuffling_uses_no_global_state():
    first = order_of(50, 3)
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert_same(order_of(50, 3), first)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize("n", [0, 1, 9, 70001])
@examples(60)
@given(st.data())
def test_slices_of_a_shuffled_view_are_slices_of_the_whole(n, data):
    shuffled = dv.View(np.arange(n))._shuffled(5)
    whole = shuffled()
    key = data.draw(slices(n) | keys((n,)) if n < 100 else slices(n))
    check_same(shuffled, whole, lambda subject: subject[key])


def test_parts_of_a_shuffled_view_are_parts_of_the_whole():
    shuffled = dv.View(np.arange(70001))._shuffled(5)
    whole = shuffled()
    for key in [0, -1, 35000, [70000, 0, -5], np.s_[100:70000:977], np.s_[69000:100:-333]]:
        assert_same(shuffled[key](), whole[key])
    assert_same(shuffled[1000:60000][::-7][[5, 3]](), whole[1000:60000][::-7][[5, 3]])
    with pytest.raises(IndexError):
        shuffled[70001]


def test_every_row_of_a_few_comes_first_about_equally_often():
    firsts = np.bincount([order_of(4, seed)[0] for seed in range(400)], minlength=4)
    assert firsts.min() > 60


def test_shuffling_a_huge_view_stores_no_order():
    huge = dv.View(np.broadcast_to(np.arange(3, dtype="i8"), (10**9, 3)))
    shuffled = huge._shuffled(11)
    assert shuffled._shape() == (10**9, 3)
    assert_same(shuffled[5 * 10**8 :][:4](), np.broadcast_to(np.arange(3), (4, 3)))
    assert_same(shuffled[-1](), np.arange(3))
    assert len(shuffled[::-2]) == 5 * 10**8


def test_shuffling_a_function_asks_for_rows_inside_only():
    rows = Counting(np.int64)
    shuffled = dv.View(rows, _length=10**9)._shuffled(4)
    part = shuffled[123_456_789 : 123_456_789 + 50]()
    assert sorted(part.tolist()) == sorted(rows.asked)
    assert len(set(rows.asked)) == 50
    assert min(rows.asked) >= 0
    assert max(rows.asked) < 10**9


def test_shuffling_keeps_fields_aligned(d, x, record, y):
    order = order_of(7, 2)
    assert_same(d._shuffled(2)(), x[order])
    assert_same(d._shuffled(2).input(), x[order, :3])
    assert_same(d._shuffled(2)[1:].target(), x[order[1:], 3])
    assert_same(record._shuffled(2).label(), y[order])
    assert_same(record._shuffled(2)[3].image(), x[order[3]])


def test_shuffling_twice(d, x):
    once, order = d._shuffled(1), order_of(7, 1)
    assert_same(once._shuffled(2)(), x[order][order_of(7, 2)])


def test_writing_through_a_shuffled_view(d, x):
    expected = x.copy()
    order = order_of(7, 2)
    expected[order[:3]] = 1
    expected[order[5], :3] -= 5
    shuffled = d._shuffled(2)
    shuffled[:3]._write(1)
    shuffled[5].input -= 5
    assert_same(x, expected)


# ---------------------------------------------------------------- sorting, filtering, taking


def test_sorted_by_a_field(record, x, y):
    order = np.argsort(y, kind="stable")
    assert_same(record._sorted(by="label").label(), y[order])
    assert_same(record._sorted(by="label").image(), x[order])
    assert_same(record._sorted(by="label")[2:4].image(), x[order[2:4]])


def test_sorted_by_a_window(x):
    array = x[[3, 0, 6, 1, 2, 5, 4]].copy()
    d = dv.View(array, key=0, rest=np.s_[1:])
    assert_same(d._sorted(by="key")(), x)
    d._sorted(by="key")[0].rest = -1
    assert array[1].tolist() == [0, -1, -1, -1]


def test_taking_rows(record, d, x, y):
    for rows in [[2, 0, 0], np.array([-1]), [], np.array([], int), range(3)]:
        rows_as_array = np.array(rows, int)
        assert_same(d._take(rows)(), x[rows_as_array])
        assert_same(record._take(rows).label(), y[rows_as_array])
    with pytest.raises(IndexError):
        d._take([7])


@pytest.mark.parametrize("limit", [0, 55, 56])
def test_rows_larger_than_an_element_of_numpy_are_taken(monkeypatch, limit):
    monkeypatch.setattr(gather, "LARGEST_RUN", limit)
    whole = np.arange(60).reshape(6, 10)
    assert_same(dv.View(whole[:, :7])[[3, 0, 3]](), whole[[3, 0, 3], :7])


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("columns", [np.s_[::2], np.s_[3:1:-1], 2, np.s_[None, ::3]])
def test_columns_of_rows_by_number_are_copied_a_few_rows_at_a_time(monkeypatch, count, columns):
    monkeypatch.setattr(gather, "CACHED", 4 * 6 * 8)  # four rows
    a = np.arange(60.0).reshape(10, 6)
    numbers = np.arange(count) * 7 % 10
    columns = columns if isinstance(columns, tuple) else (columns,)
    for view in (dv.View(a)[numbers][:, *columns], dv.View(a)[:, *columns][numbers]):
        assert_same(view(), a[numbers][:, *columns])


PARTS = [np.s_[::2], np.s_[::-1], np.s_[1:, ::2], np.s_[:, :2], np.s_[0, ::3], np.s_[None, ::2]]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_more_rows_than_there_are_keep_their_parts(part, order, count):
    """Oversampling takes a row many times; of each row it may take a part."""
    whole = np.arange(count * 35.0).reshape(count, 5, 7)
    whole = np.repeat(whole, 2, 0)[::2] if order == "strided" else np.array(whole, order=order)
    part = part if isinstance(part, tuple) else (part,)
    wanted = whole[:, *part]
    rows = np.random.default_rng(count).integers(0, count, 7 * count)
    view = dv.View(whole)[rows][:, *part]
    assert_same(view[1](), wanted[rows][1])
    assert_same(view(), wanted[rows])  # what takes rows is compiled now
    assert_same(view._sum(axis=0)(), wanted[rows].sum(axis=0))
    again = dv.View(whole)[:, *part]._repeat(4)
    assert_same(again(), np.concatenate([wanted] * 4))
    order = again._shuffled(3)
    numbers = dv.View(np.arange(4 * count))._shuffled(3)()
    batches = [batch() for batch in order._minibatches(3, tail="short")]
    assert_same(np.concatenate(batches), wanted[numbers % count])
    assert_same(dv.View(whole)[rows.reshape(7, count)][:, :, *part](), wanted[rows.reshape(7, -1)])


def test_columns_of_many_rows_by_number_take_no_memory_for_whole_rows():
    a = np.zeros((5000, 128), "f4")
    view = dv.View(a)[np.arange(5000)[::-1]][:, ::2]
    tracemalloc.start()
    size = view().nbytes
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1.5 * size


def test_filtering_by_a_mask(record, d, x, y):
    mask = y == 1
    assert_same(d._filter(mask)(), x[mask])
    assert_same(record._filter(mask).label(), y[mask])
    assert len(record._filter(mask)) == 3
    assert_same(record._filter(record.label == 1).image(), x[mask])
    record._filter(mask).label = 9
    assert y.tolist() == [3, 9, 2, 9, 3, 0, 9]
    with pytest.raises(IndexError):
        d._filter(mask[:3])


def test_filtering_by_a_function_is_lazy(d, x):
    calls = []

    def chosen(row):
        calls.append(1)
        return row[0] > 8

    part = d._filter(chosen)
    assert part._length() is None
    assert calls == []
    assert_same(np.stack([row() for row in part]), x[x[:, 0] > 8])
    assert len(calls) == 7
    assert_same(part(), x[x[:, 0] > 8])


def test_filtering_a_record_by_a_function(record, x, y):
    part = record._filter(lambda sample: sample["label"] > 1)
    assert_same(part()["label"], y[y > 1])
    assert_same(np.stack([sample.image() for sample in part]), x[y > 1])


def test_a_failing_filter_names_the_sample(d):
    def fails(row):
        if row[0] > 8:
            raise ZeroDivisionError("no")
        return True

    with pytest.raises(Exception, match="3") as caught:
        d._filter(fails)()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_repeating(d, x):
    assert_same(d._repeat(3)(), np.concatenate([x, x, x]))
    assert_same(d._repeat(2)[5:9](), np.concatenate([x, x])[5:9])
    assert_same(d._repeat(2)[::-3].input(), np.concatenate([x, x])[::-3, :3])
    assert len(d._repeat(0)) == 0
    with pytest.raises(IndexError):
        d._repeat(2)[14]
    with pytest.raises((TypeError, ValueError)):
        d._repeat(-1)


def test_repeating_for_ever(d, x):
    endless = d._repeat()
    assert endless._length() == math.inf
    assert_same(endless[10](), x[3])
    assert_same(endless[5:9](), np.concatenate([x, x])[5:9])
    assert_same(endless[70:72].target(), x[0:2, 3])
    firsts = [row() for row in itertools.islice(endless, 9)]
    assert_same(firsts[8], x[1])
    for refused in [len, bool, lambda view: view()]:
        with pytest.raises(TypeError):
            refused(endless)


@pytest.mark.parametrize(
    "make",
    [
        lambda: dv.View(np.ones((2, 3)))._repeat(),
        lambda: dv.View(np.ones((2, 3)))._repeat() + 1,
        lambda: dv.View(np.ones((2, 3)))._repeat()._minibatches(4),
        lambda: dv.View(x=np.ones((2, 3)), y=[1, 2])._repeat(),
        lambda: dv.ragged([[1], [2, 3]])._repeat(),
        lambda: dv.View(lambda i: i, _length=math.inf),
        lambda: dv.View(lambda i: [i, i], _length=math.inf)._probe(),
        lambda: dv.View(lambda i: [1] * i, _length=math.inf)._probe(),
    ],
)
def test_what_never_ends_has_elements_without_end(make):
    assert make()._shape()[0] == make()._size() == math.inf
    assert make()._nbytes() is None


def test_rows_without_elements_have_none_however_many_they_are():
    assert dv.View(np.ones((2, 0)))._repeat()._size() == 0
    assert dv.View(np.ones((2, 3)))._repeat()[5:9]._size() == np.ones((4, 3)).size


def test_freezing_is_a_photograph(d, x):
    before = x.copy()
    frozen, part = d._freeze(), (d.input * 2)._freeze()
    x[:] = -1
    assert_same(frozen(), before)
    assert_same(frozen.input(), before[:, :3])
    assert_same(part(), before[:, :3] * 2)
    assert_same(d(), x)


# ---------------------------------------------------------------- splitting


@pytest.mark.parametrize(
    ("sizes", "counts"),
    [
        (3, [3, 4]),
        (0, [0, 7]),
        (7, [7, 0]),
        ([2, 5], [2, 5]),
        ([1, 2, 4], [1, 2, 4]),
        ([0, 7], [0, 7]),
        ((3, 0, 4), [3, 0, 4]),
    ],
)
def test_b50_splitting_by_sizes(d, x, sizes, counts):
    parts = d._split(sizes)
    assert [len(part) for part in parts] == counts
    assert_same(np.concatenate([part() for part in parts]), x)


def test_b50_splitting_by_fractions():
    d = dv.View(np.arange(20))
    assert [len(part) for part in d._split(0.8)] == [16, 4]
    assert [len(part) for part in d._split([0.5, 0.25, 0.25])] == [10, 5, 5]
    assert [len(part) for part in d._split([0.7, 0.2, 0.1])] == [14, 4, 2]


@examples(100)
@given(st.integers(0, 40), st.floats(0.01, 0.99), st.none() | st.integers(0, 9))
def test_a_split_drops_and_repeats_no_row(n, fraction, seed):
    parts = dv.View(np.arange(n))._split(fraction, seed=seed)
    assert sorted(np.concatenate([part() for part in parts]).tolist()) == list(range(n))
    assert abs(len(parts[0]) - n * fraction) <= 1


@pytest.mark.parametrize("wrong", [8, -1, [5, 3], 1.5, 0.0, 1.0, -0.2, [0.7, 0.7], [-1, 8]])
def test_b50_impossible_splits(d, wrong):
    with pytest.raises(ValueError):
        d._split(wrong)


def test_b50_a_truth_is_no_size(d):
    for wrong in [True, [True, 6], "3", None]:
        with pytest.raises(TypeError):
            d._split(wrong)


def test_splitting_with_a_seed_keeps_targets_aligned(record, x, y):
    train, test = record._split(5, seed=1)
    again, _ = record._split(5, seed=1)
    rows = np.concatenate([train.image(), test.image()])
    assert sorted(rows[:, 0].tolist()) == x[:, 0].tolist()
    assert rows[:, 0].tolist() != x[:, 0].tolist()
    for part in [train, test]:
        assert_same(part.label(), y[(part.image()[:, 0] // 4).astype(int)])
    assert_same(train.image(), again.image())


def test_splitting_by_a_field_drops_and_repeats_no_row(record, x):
    parts = record._split([0.5, 0.5], by="label", seed=1)
    rows = np.concatenate([part.image()[:, 0] for part in parts])
    assert sorted(rows.tolist()) == x[:, 0].tolist()


def test_writing_through_a_split(d, x):
    first, second = d._split(3)
    first._write(0)
    second.target -= 1
    assert (x[:3] == 0).all()
    assert x[3:, 3].tolist() == [14, 18, 22, 26]
    with pytest.raises(IndexError):
        first[3]


def test_b50_folds():
    folds = list(dv.View(np.arange(7))._folds(3))
    assert [test().tolist() for _, test in folds] == [[4, 5, 6], [2, 3], [0, 1]]
    for train, test in folds:
        assert sorted([*train().tolist(), *test().tolist()]) == list(range(7))


@examples(100)
@given(st.integers(10, 40), st.integers(2, 10), st.none() | st.integers(0, 5))
def test_folds_cover_every_row_once(n, k, seed):
    folds = list(dv.View(np.arange(n))._folds(k, seed=seed))
    assert len(folds) == k
    tests = [test().tolist() for _, test in folds]
    assert sorted(itertools.chain(*tests)) == list(range(n))
    assert max(map(len, tests)) - min(map(len, tests)) <= 1
    for train, test in folds:
        assert sorted([*train().tolist(), *test().tolist()]) == list(range(n))


@examples(100)
@given(
    st.lists(st.sampled_from("abcdef"), min_size=2, max_size=40),
    st.none() | st.integers(2, 4),
    st.none() | st.integers(0, 5),
)
def test_folds_by_groups_share_no_group(names, k, seed):
    n, groups = len(names), np.array(names)
    count = len(set(names))
    d = dv.View(row=np.arange(n), group=groups)
    if (k or count) > count or count < 2:
        with pytest.raises(ValueError, match=f"from 2 to the {count} groups"):
            d._folds(k, seed=seed, groups="group")
        return
    folds = d._folds(k, seed=seed, groups="group")
    assert len(folds) == (k or count)
    assert sorted(itertools.chain(*(test.row().tolist() for _, test in folds))) == list(range(n))
    for train, test in folds:
        assert not set(train.group().tolist()) & set(test.group().tolist())
        assert sorted([*train.row().tolist(), *test.row().tolist()]) == list(range(n))
        assert_same(train.group(), groups[train.row()])


def test_leaving_one_group_out():
    d = dv.View(np.arange(5))
    pairs = d._folds(groups=["x", "y", "x", "z", "y"])
    assert [test().tolist() for _, test in pairs] == [[0, 2], [1, 4], [3]]
    for refused in [{}, {"k": 2, "by": d, "groups": d}]:
        with pytest.raises(ValueError, match="groups="):
            d._folds(**refused)


def test_what_is_learned_from_training_rows_knows_nothing_of_the_others():
    rows = Counting(lambda number: np.full(3, float(number)))
    d, read = rows.probed(30), rows.asked
    for train, test in [d._split(0.8, seed=1), *d._folds(5, seed=2), *d._folds(groups=d[:, 0] % 3)]:
        learned, apart = set(train[:, 0]().tolist()), set(test[:, 0]().tolist())
        assert not learned & apart
        mean, spread = train._mean(axis=0), train._std(axis=0)
        read.clear()
        (train - mean)()
        assert set(read) == learned
        read.clear()
        ((test - mean) / spread)()
        assert apart <= set(read) <= apart | learned
        assert np.allclose(mean(), train().mean(axis=0))


SHARING = {
    "split": lambda d, by, seed: d._split([0.5, 0.3], by=by, seed=seed),
    "folds": lambda d, by, seed: sum(d._folds(3, by=by, seed=seed), ()),
    "validation": lambda d, by, seed: sum(d._folds(3, by=by, seed=seed, validation=True), ()),
}


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("name", SHARING)
def test_parts_by_label_read_the_labels_when_the_first_row_is_needed(name, seed):
    labels = np.arange(31) * 7 % 5
    made = Counting(lambda number: {"x": number, "label": int(labels[number])})
    d = made.probed(31)
    parts = SHARING[name](d, "label", seed)
    built = [(repr(part), len(part), part.x[1:3], part[::2], part[[1, 0]].x) for part in parts]
    assert not made.asked
    rows = [part.x().tolist() for part in parts]
    told = made.asked.count(0)
    assert [one[2]().tolist() for one in built] == [found[1:3] for found in rows]
    assert [one[3].x().tolist() for one in built] == [found[::2] for found in rows]
    assert [one[4]().tolist() for one in built] == [[found[1], found[0]] for found in rows]
    assert told <= len(parts) + 1  # the labels are read once
    by_array = SHARING[name](d, labels, seed)
    assert [part.x().tolist() for part in by_array] == rows


@pytest.mark.parametrize("name", SHARING)
def test_parts_by_label_are_of_the_labels_when_they_were_asked_for(name):
    labels = np.array([*"aabbabcc" * 3])
    d = dv.View(x=np.arange(24), label=labels.copy())
    expected = [part.x().tolist() for part in SHARING[name](d, labels, None)]
    parts = SHARING[name](d, "label", None)
    copied = pickle.loads(pickle.dumps(parts))
    d.label[:] = "b"
    assert [part.x().tolist() for part in parts] == expected
    assert [part.x().tolist() for part in copied] == expected
    parts[0].x[:] = -1  # through the part
    assert (d.x() == -1).sum() == len(parts[0])


CHOOSING = {
    "take": lambda b: b._take([1, 0]).x + 1,
    "pairs": lambda b: b.x[[1, 0], [0, 1]],
    "reshape": lambda b: b.x._reshape(-1),
    "shuffled": lambda b: b._shuffled(0).x,
    "sorted": lambda b: b._sorted(by=[2, 0, 1]).x,
    "repeated": lambda b: b._repeat(2).x,
    "list": lambda b: b[[2, 0]].x[:, ::-1],
}
ORDERED = {
    "sorted": lambda d: d._sorted(by="label")._minibatches(4),
    "split": lambda d: d._split([12], by="label")[0]._minibatches(4),
    "labels": lambda d: d._minibatches(
        4, sampler=dv.samplers.label_permutation(by="label"), num_batches=3
    ),
    "weighted": lambda d: d._minibatches(4, sampler=dv.samplers.weighted(by="label")),
}


@pytest.mark.parametrize("name", CHOOSING)
@pytest.mark.parametrize("order", ORDERED)
def test_choosing_batches_of_an_order_that_reads_does_not_read(order, name):
    made = Counting(lambda number: {"x": float(number), "label": number * 7 % 5})
    d = made.probed(12)
    chosen = CHOOSING[name](ORDERED[order](d))
    assert repr(chosen) and chosen._shape() and not made.asked
    whole = ORDERED[order](d)
    model = dv.View(x=whole.x())
    expected = np.asarray(CHOOSING[name](model)())
    assert_same(chosen(), expected)
    assert_same(chosen[1:](), expected[1:])


def test_labels_of_several_kinds_are_refused():
    d, labels = dv.View(np.arange(6)), np.array([1, "a"] * 3, object)
    for cut in (
        lambda: d._split(0.5, by=labels)[0](),
        lambda: d._folds(2, by=labels)[0][1](),
        lambda: d._folds(groups=labels),
    ):
        with pytest.raises(TypeError, match="no order together"):
            cut()


def test_folds_keep_fields(record, y):
    for train, test in record._folds(3):
        assert_same(test.label(), y[(test.image()[:, 0] // 4).astype(int)])
        assert_same(train.label(), y[(train.image()[:, 0] // 4).astype(int)])


# ---------------------------------------------------------------- concatenating


def test_b55_every_slice_of_a_concatenation_is_numpys():
    a, b = np.arange(6), np.arange(10, 14)
    joined, whole = dv.concat(dv.View(a), dv.View(b)), np.concatenate([a, b])
    bounds = [None, *range(-11, 12, 2), 5, 6, 7]
    wrong = [
        key
        for start in bounds
        for stop in bounds
        for pace in [None, 1, 2, 3, 7, -1, -2, -3, -7]
        if joined[key := slice(start, stop, pace)]().tolist() != whole[key].tolist()
    ]
    assert wrong == []


def test_b55_a_negative_step_across_the_boundary():
    a = np.arange(6)
    view = dv.View(a)
    assert dv.concat(view, view[::-1])[::-5]().tolist() == [0, 5, 1]


@examples(200)
@given(st.data())
def test_any_key_of_a_concatenation_reads_what_numpy_reads(data):
    trailing = data.draw(st.sampled_from([(), (3,), (2, 2)]))
    counts = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
    parts = [fill((n, *trailing), "f4", 10 * n) for n in counts]
    whole = np.concatenate(parts)
    first = data.draw(keys(whole.shape))
    check_same(dv.concat(*map(dv.View, parts)), whole, lambda subject: subject[first])


@examples(100)
@given(st.data())
def test_writing_through_a_concatenation(data):
    parts = [fill((n, 3), "f4") for n in data.draw(st.lists(st.integers(0, 4), min_size=1))]
    whole = np.concatenate(parts)
    key = data.draw(keys(whole.shape))
    value = np.float32(7)

    def write(subject):
        subject[key] = value

    _, refusal = attempt(write, whole)
    joined = dv.concat(*map(dv.View, parts))
    if refusal is not None:
        with pytest.raises(public_class(refusal)):
            write(joined)
    else:
        write(joined)
    assert_same(np.concatenate(parts), whole)


def test_b55_records_are_matched_by_name(x, y):
    one, other = dv.View(image=x, label=y), dv.View(label=y + 10, image=-x)
    joined = dv.concat(one, other)
    assert joined._fields() == ("image", "label")
    assert_same(joined.label(), np.concatenate([y, y + 10]))
    assert_same(joined.image[5:9](), np.concatenate([x, -x])[5:9])
    assert_same(joined[-1].label(), y[-1] + 10)
    assert joined.label._dtype() == y.dtype
    joined.label[[6, 7]] = 0
    assert y[6] == 0
    with pytest.raises((ValueError, KeyError), match="label"):
        dv.concat(one, dv.View(image=x, target=y))


def test_concatenating_nothing_or_misfits_is_refused(x):
    with pytest.raises((TypeError, ValueError)):
        dv.concat()
    with pytest.raises(ValueError):
        dv.concat(dv.View(x), dv.View(x[:, :2]))
    with pytest.raises(ValueError):
        dv.concat(dv.View(x[0, 0]), dv.View(x[0, 0]))


def test_concatenating_promotes_dtypes(x, y):
    joined = dv.concat(dv.View(y), dv.View(x[:, 0]))
    assert_same(joined(), np.concatenate([y, x[:, 0]]))
    assert joined._dtype() == np.float64


def test_windows_of_a_concatenation(d, x):
    joined = dv.concat(d, d[::-1])
    assert_same(joined.input(), np.concatenate([x, x[::-1]])[:, :3])
    assert_same(joined[8].target(), x[5, 3])


# ---------------------------------------------------------------- zipping


def test_zipping_views(x, y):
    d = dv.zip(image=dv.View(x), label=dv.View(y))
    assert d._fields() == ("image", "label")
    assert len(d) == 7
    assert_same(d[3].image(), x[3])
    assert_same(d._shuffled(1)[2].label(), y[order_of(7, 1)[2]])
    d[0].label = 50
    assert y[0] == 50


def test_b49_zipping_unequal_lengths_is_refused(x, y):
    with pytest.raises(ValueError, match="label"):
        dv.zip(image=dv.View(x), label=dv.View(y[:6]))
    with pytest.raises(ValueError):
        dv.zip()
    assert len(dv.zip(a=dv.View(x), b=dv.View(x))) == 7


def test_iterating_zipped_views_stays_aligned(record, y, x):
    shuffled = record._shuffled(9)
    for image, label in zip(shuffled.image, shuffled.label, strict=True):
        assert label() == y[int(image[0]()) // 4]


# ---------------------------------------------------------------- functions as data


def test_a_function_of_the_row_number():
    d = dv.View(lambda number: np.full(3, number), _length=5)
    assert len(d) == 5
    assert_same(d[2](), np.full(3, 2))
    assert_same(d[-1](), np.full(3, 4))
    assert_same(d[1:4](), np.array([[1] * 3, [2] * 3, [3] * 3]))
    assert_same(d[[4, 0]](), np.array([[4] * 3, [0] * 3]))
    assert_same(d(), np.repeat(np.arange(5), 3).reshape(5, 3))
    assert [row()[0] for row in d[::-1]] == [4, 3, 2, 1, 0]
    with pytest.raises(IndexError):
        d[5]
    with pytest.raises(ValueError):
        d[0]._write(1)


def test_an_endless_function():
    d = dv.View(lambda number: number * 2, _length=math.inf)
    assert d._length() == math.inf
    assert d[10**6]() == 2 * 10**6
    assert d[3:6]().tolist() == [6, 8, 10]
    assert [row() for row in itertools.islice(d, 4)] == [0, 2, 4, 6]
    for refused in [len, bool, lambda view: view()]:
        with pytest.raises(TypeError):
            refused(d)


def test_a_failing_function_names_the_sample():
    def row(number):
        if number == 13:
            raise LookupError("gone")
        return number

    d = dv.View(row, _length=20)
    assert d[10:13]().tolist() == [10, 11, 12]
    with pytest.raises(Exception, match="13") as caught:
        d[10:15]()
    assert isinstance(caught.value.__cause__, LookupError)


# ---------------------------------------------------------------- streams


def test_b48_a_factory_restarts_at_each_iteration():
    d = dv.View(lambda: iter(np.arange(13)))
    for _ in range(3):
        assert [row() for row in d] == list(range(13))


def test_b48_an_iterator_refuses_the_second_pass():
    d = dv.View(iter([np.arange(2), np.arange(2) + 5]))
    assert [row().tolist() for row in d] == [[0, 1], [5, 6]]
    with pytest.raises((TypeError, RuntimeError, ValueError)):
        list(d)


def test_a_generator_is_a_stream():
    d = dv.View(number * 2 for number in range(3))
    assert [row() for row in d] == [0, 2, 4]
    with pytest.raises((TypeError, RuntimeError, ValueError)):
        next(iter(d))


def test_streams_have_no_length_and_no_random_access():
    d = dv.View(lambda: iter(np.arange(13)))
    assert d._length() is None
    for refused in [
        len,
        lambda view: view[-1],
        lambda view: view[::-1],
        lambda view: view[-3:],
        lambda view: view[[2, 0]],
        lambda view: view._sorted(),
        lambda view: view._shuffled(3),
    ]:
        with pytest.raises(TypeError):
            refused(d)
    with pytest.raises(ValueError):
        d._write(0)


def test_forward_slices_of_a_stream():
    d = dv.View(lambda: iter(np.arange(13) * 10))
    assert d[2:5]().tolist() == [20, 30, 40]
    assert [row() for row in d[3::4]] == [30, 70, 110]
    assert d[2:][1:8][::3]().tolist() == [30, 60, 90]
    assert [row() for row in d[10:20]] == [100, 110, 120]
    assert list(d[5:5]) == []


def test_an_endless_stream():
    d = dv.View(itertools.count)
    assert d[2:5]().tolist() == [2, 3, 4]
    assert [row() for row in itertools.islice(d[1::2], 3)] == [1, 3, 5]


def test_nothing_of_a_stream_is_read_before_it_is_asked_for():
    read = []

    def rows():
        for number in range(10):
            read.append(number)
            yield number

    d = dv.View(rows)
    part = d[2:][::2]
    assert read == []
    assert "_filter" in dir(part)
    assert repr(part)
    assert read == []
    assert next(iter(part))() == 2
    assert max(read) <= 4


def test_filtering_a_stream():
    d = dv.View(itertools.count)._filter(lambda number: number % 3 == 1)
    assert [row() for row in itertools.islice(d, 3)] == [1, 4, 7]
    assert d[1:4]().tolist() == [4, 7, 10]


def test_b21_an_endless_dataset_has_no_length():
    d = dv.View(lambda number: number, _length=math.inf)
    assert d._length() == math.inf
    for refused in [len, bool]:
        with pytest.raises(TypeError):
            refused(d)


# -------------------- by what --------------------

TABLE = dv.View(
    x=[3.0, 1.0, 2.0, 1.0], kind=["b", "a", "b", "a"], n=[0, 1, 1, 0], of=dv.View(k=[1, 2, 1, 2])
)

BY = {
    "_group": lambda by: [rows.x().tolist() for _, rows in TABLE._group(by=by)],
    "_sorted": lambda by: TABLE._sorted(by=by).x().tolist(),
    "_drop_duplicates": lambda by: TABLE._drop_duplicates(by=by).x().tolist(),
    "_split": lambda by: [part.x().tolist() for part in TABLE._split(0.5, by=by, seed=0)],
    "_folds": lambda by: [test.x().tolist() for _, test in TABLE._folds(2, by=by)],
    "_folds of groups": lambda by: [test.x().tolist() for _, test in TABLE._folds(groups=by)],
    "_nlargest": lambda by: TABLE._nlargest(3, by=by).x().tolist(),
}

ALIKE = [
    ["kind", TABLE.kind, ["kind"], {"its": TABLE.kind}],
    [["kind", "n"], ("kind", "n"), [TABLE.kind, "n"], {"a": TABLE.kind, "b": [0, 1, 1, 0]}],
    [TABLE.of.k, TABLE.of, np.array([1, 2, 1, 2]), [1, 2, 1, 2], ["u", "v", "u", "v"]],
    [TABLE.n > 0, np.array([False, True, True, False]), {"n": [0, 1, 1, 0]}],
]

REFUSED = [
    (lambda sample: sample.n, TypeError, "by= takes fields.*got the function '<lambda>'"),
    ("k", AttributeError, "no field 'k'"),
    (["kind", "k"], AttributeError, "no field 'k'"),
    ("of.k", AttributeError, r"no field 'of.k'.*d\['of'\]\['k'\]"),
    (np.array([1, 2]), ValueError, r"4.*rows.* 2|4 rows; got the shape \(2,\)|\(4,\) rows"),
    (7, ValueError, r"\(\)"),
]


@pytest.mark.parametrize("verb", BY)
def test_every_verb_takes_the_same_for_by(verb):
    for first, *others in ALIKE:
        wanted = BY[verb](first)
        for by in others:
            assert BY[verb](by) == wanted, by
    for by, error, text in REFUSED:
        with pytest.raises(error, match=text):
            BY[verb](by)


def test_a_split_by_several_fields_has_the_share_of_each_combination():
    rng = np.random.default_rng(0)
    d = dv.View(a=rng.integers(0, 2, 80), b=rng.choice(["u", "v"], 80), row=np.arange(80))
    pairs = list(zip(d.a().tolist(), d.b().tolist(), strict=True))
    for part in d._split(0.5, by=["a", "b"], seed=1):
        own = list(zip(part.a().tolist(), part.b().tolist(), strict=True))
        assert all(abs(2 * own.count(pair) - pairs.count(pair)) <= 2 for pair in set(pairs))
    with pytest.raises(ValueError, match=r"one value each.*got rows of different"):
        dv.View(ragged=[[1], [1, 2]])._split(1, by="ragged")
    with pytest.raises(TypeError, match="by= takes fields"):
        next(iter(d._loader(2, sampler=dv.samplers.label_uniform(by=lambda sample: sample.a))))
