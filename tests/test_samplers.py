"""One suite for every sampler: coverage, counts, random access, restarts, randomness."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from counting import Counting
from dataview import samplers, tables
from dataview.index.permutation import Draws
from oracle import examples

SIZES = [0, 1, 2, 3, 7, 13, 64, 65, 1000, 1009, 4096, 4097]


class Rows:
    """What a sampler may ask, with the metadata counted that are read."""

    def __init__(self, count, parts=None, **values):
        self.count = count
        self.parts = parts or (count // 3, 0, count - count // 3)
        self.chunk = 1
        self._values = values
        self.asked = Counter()

    def expect(self, by, several=False):
        pass

    def labels(self, by):
        return tables.labels_of_rows([self.values(by)], self.count)

    def values(self, by):
        if not isinstance(by, str):
            return np.asarray(by)
        self.asked[by] += 1
        return self._values[by]


def rows_of(count):
    numbers = np.arange(count)
    return Rows(
        count,
        weight=numbers % 5 + 0.5,
        label=np.array(["a", "b", "c"])[numbers**2 % 3] if count else np.empty(0, str),
        length=numbers * 7 % 11 + 1,
    )


# Samplers with each row once; samplers without an end; samplers that choose the batches.
ONCE = {
    "linear": samplers.linear(),
    "permutation": samplers.permutation(),
    "weighted, without replacement": samplers.weighted(by="weight", replacement=False),
    "batchwise-permutation": samplers.batchwise_permutation(4),
    "bucket": samplers.bucket(4, by="length", window=3),
    "token-budget": samplers.token_budget(by="length", budget=25, window=20),
    "token-budget, not padded": samplers.token_budget(by="length", budget=25, padded=False),
    "same-length": samplers.same_length(3, by="length"),
    "part-linear": samplers.part_linear(),
    "part-linear-permutation": samplers.part_linear_permutation(),
    "part-permutation-permutation": samplers.part_permutation_permutation(),
    "chunk-permutation": samplers.chunk_permutation(2, rows=3),
    "function of the order": samplers.sampler_of(lambda order, position: order[::-1]),
}
ENDLESS = {
    "uniform": samplers.uniform(),
    "weighted": samplers.weighted(by="weight"),
    "label-uniform": samplers.label_uniform(by="label"),
    "label-permutation": samplers.label_permutation(by="label"),
    "label-distribution": samplers.label_distribution(by="label", weights={"a": 2}, fill=1),
    "random-slice": samplers.random_slice(1),
    "mix": samplers.mix(stop="never"),
}
ALL = ONCE | ENDLESS
UNSEEDED = {"linear", "part-linear", "function of the order"}
CUTTING = [name for name in ALL if getattr(ALL[name], "batch_size", 1) not in (1, None)]
CUTTING += ["token-budget", "token-budget, not padded"]


def drawn(name, count, seed=0, epoch=0, most=500):
    """The order of one epoch, and its rows: all of them, or the first ones if there is no end."""
    order = ALL[name].order(rows_of(count), seed, epoch)
    length = order.length if order.length is not None else most
    return order, order.block(0, length)


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("name", ONCE)
def test_every_row_comes_once(name, count):
    for seed, epoch in [(0, 0), (0, 1), (3, 2), ((1, 2), 0)]:
        order, rows = drawn(name, count, seed, epoch)
        assert order.length == count
        assert np.array_equal(np.sort(rows), np.arange(count))
        assert rows.dtype == np.intp


@pytest.mark.parametrize("count", SIZES[1:])
@pytest.mark.parametrize("name", ENDLESS)
def test_endless_orders_give_rows_of_the_data(name, count):
    order, rows = drawn(name, count)
    assert order.length is None
    assert rows.min() >= 0
    assert rows.max() < count
    assert len(order.block(10**15, 10**15 + 10)) == 10


@pytest.mark.parametrize("name", ENDLESS)
def test_there_is_nothing_to_draw_of_no_rows(name):
    assert drawn(name, 0)[0].length == 0


@pytest.mark.parametrize(
    "name", ["permutation", "batchwise-permutation", "part-linear-permutation"]
)
def test_a_million_and_three_rows(name):
    _, rows = drawn(name, 10**6 + 3)
    assert np.array_equal(np.bincount(rows), np.ones(10**6 + 3))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("count", [1, 2, 13, 64, 65, 257])
def test_random_access_is_what_comes_in_order(name, count, rng):
    order, rows = drawn(name, count)
    again = ALL[name].order(rows_of(count), 0, 0)
    for start in rng.integers(0, len(rows), 20).tolist():
        stop = int(rng.integers(start, min(len(rows), start + 40) + 1))
        assert np.array_equal(again.block(start, stop), rows[start:stop])
        assert np.array_equal(order.block(start, stop), rows[start:stop])
    places = rng.integers(0, len(rows), (3, 4))
    assert np.array_equal(again(places), rows[places])


@pytest.mark.parametrize("name", ALL)
def test_an_order_is_a_function_of_data_seed_and_epoch(name):
    _, rows = drawn(name, 257, seed=5, epoch=3)
    drawn(name, 257, seed=1, epoch=0)
    assert np.array_equal(drawn(name, 257, seed=5, epoch=3)[1], rows)


@pytest.mark.parametrize("name", [name for name in ALL if name not in UNSEEDED])
def test_seeds_and_epochs_give_different_orders(name):
    orders = [
        tuple(drawn(name, 257, seed, epoch)[1].tolist())
        for seed, epoch in [(0, 0), (0, 1), (1, 0), (1, 1), ((0, 1), 0), (0, 2**70)]
    ]
    assert len(set(orders)) == len(orders)


def test_epoch_1_of_seed_0_is_not_epoch_0_of_seed_1():
    assert drawn("permutation", 50, 0, 1)[1].tolist() != drawn("permutation", 50, 1, 0)[1].tolist()


@pytest.mark.parametrize("name", [name for name in ALL if name != "function of the order"])
def test_samplers_and_orders_pickle(name):
    order, rows = drawn(name, 65)
    restored = pickle.loads(pickle.dumps(ALL[name]))
    assert repr(restored) == repr(ALL[name])
    assert restored.options == ALL[name].options
    assert np.array_equal(restored.order(rows_of(65), 0, 0).block(0, len(rows)), rows)
    assert np.array_equal(pickle.loads(pickle.dumps(order)).block(0, len(rows)), rows)


@pytest.mark.parametrize("name", ALL)
def test_the_global_generator_is_left_alone(name):
    def state():
        return np.random.get_state()[1].tolist()  # noqa: NPY002

    before = state()
    drawn(name, 100)
    assert state() == before


@pytest.mark.parametrize("name", ALL)
def test_positions_outside_an_order_raise(name):
    order, rows = drawn(name, 13)
    with pytest.raises(IndexError, match="positions -1 to 2"):
        order.block(-1, 2)
    if order.length is not None:
        with pytest.raises(IndexError, match="order of length 13"):
            order.block(5, 14)
    assert not order.block(2, 4).flags.writeable
    assert len(rows[2:4]) == len(order.block(2, 4))


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("name", CUTTING)
def test_cuts_agree_with_each_other(name, count):
    order, rows = drawn(name, count)
    if order.cuts is None:
        assert name == "batchwise-permutation"
        assert count % 4 == 0
        return
    bounds = [order.cuts.bounds(number) for number in range(order.cuts.count)]
    assert [start for start, _ in bounds] == [0, *(stop for _, stop in bounds)][: len(bounds)]
    assert sum(stop - start for start, stop in bounds) == len(rows)
    fresh = ALL[name].order(rows_of(count), 0, 0).cuts
    for position in {0, 1, count // 2, count - 1} & set(range(count)):
        start, stop = fresh.bounds(fresh.number(position))
        assert start <= position < stop


# ---------------------------------------------------------------- chance


def chi_square(counts, expected):
    """Standard deviations by which counts stray from what is expected of them."""
    freedom = counts.size - 1
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom))


@pytest.mark.parametrize("sampler", [samplers.permutation(), samplers.batchwise_permutation(1)])
@pytest.mark.parametrize("count", [3, 4, 6])
def test_all_orders_of_few_rows_are_as_likely(sampler, count):
    data = rows_of(count)
    seen = Counter(tuple(sampler.order(data, seed, 7).block(0, count)) for seed in range(7200))
    number = {3: 6, 4: 24, 6: 720}[count]
    counts = np.array([*seen.values(), *[0] * (number - len(seen))])
    assert abs(chi_square(counts, 7200 / number)) < 4


@pytest.mark.parametrize("count", [5, 64, 1000])
def test_uniform_draws_are_uniform(count):
    rows = samplers.uniform().order(rows_of(count), 1, 0).block(0, 100_000)
    assert abs(chi_square(np.bincount(rows, minlength=count), 100_000 / count)) < 4


def test_neighbours_of_uniform_draws_are_independent():
    rows = samplers.uniform().order(rows_of(10), 0, 0).block(0, 100_001)
    pairs = np.bincount(rows[1:] * 10 + rows[:-1], minlength=100)
    assert abs(chi_square(pairs, 1000)) < 4


def test_draws_are_uniform_fractions_and_differ():
    draws = Draws(3, "x")
    fractions = draws.fractions(np.arange(100_000))
    assert fractions.min() >= 0
    assert fractions.max() < 1
    assert abs(chi_square(np.histogram(fractions, 50, (0, 1))[0], 2000)) < 4
    assert len(np.unique(draws(np.arange(100_000)))) == 100_000


@pytest.mark.parametrize("weights", [[1, 1, 2], [0.1, 0, 7], [1e-9, 3e-9], [1e300, 1e300]])
def test_weighted_draws_have_these_proportions(weights):
    weights = np.array(weights)
    order = samplers.weighted(weights).order(Rows(len(weights)), 0, 0)
    counts = np.bincount(order.block(0, 50_000), minlength=len(weights))
    expected = weights / weights.sum() * 50_000
    assert not counts[weights == 0].any()
    assert abs(chi_square(counts[weights > 0], expected[weights > 0])) < 4


def test_weights_reach_past_2_to_the_24_rows():
    weights = np.zeros(2**24 + 10)
    weights[-3:] = [1, 2, 1]
    rows = samplers.weighted(weights).order(Rows(len(weights)), 0, 0).block(0, 4000)
    counts = np.bincount(rows - (len(weights) - 3), minlength=3)
    assert abs(chi_square(counts, np.array([1000, 2000, 1000]))) < 4


def test_weighted_without_replacement_draws_each_first_by_its_weight():
    data, weights = Rows(4), np.array([1, 2, 3, 0])
    sampler = samplers.weighted(weights, replacement=False)
    assert sampler.order(data, 0, 0).length == 3
    firsts = [sampler.order(data, seed, 0).block(0, 3)[0] for seed in range(6000)]
    counts = np.bincount(firsts, minlength=3)
    assert abs(chi_square(counts, np.array([1000, 2000, 3000]))) < 4


# ---------------------------------------------------------------- golden values


GOLDEN = {
    "permutation": [2, 9, 12, 3, 6, 11, 8, 1],
    "uniform": [8, 5, 1, 9, 1, 3, 4, 1],
    "weighted": [12, 2, 8, 3, 2, 9, 6, 9],
    "weighted, without replacement": [12, 4, 9, 3, 11, 8, 1, 2],
    "label-uniform": [12, 1, 1, 4, 3, 7, 12, 0],
    "label-permutation": [1, 0, 2, 6, 4, 9, 12, 5],
    "label-distribution": [6, 5, 0, 9, 8, 2, 12, 5],
    "batchwise-permutation": [4, 5, 6, 7, 12, 0, 1, 2],
    "random-slice": [0, 6, 9, 8, 9, 1, 8, 4],
    "bucket": [10, 7, 4, 12, 11, 0, 8, 5],
    "token-budget": [9, 6, 12, 1, 10, 7, 4, 3],
    "same-length": [10, 9, 2, 6, 1, 12, 0, 11],
    "part-linear-permutation": [2, 1, 3, 0, 6, 7, 8, 12],
    "part-permutation-permutation": [8, 5, 10, 12, 7, 9, 11, 6],
    "chunk-permutation": [2, 12, 0, 1, 5, 4, 3, 10],
    "mix": [12, 2, 5, 4, 1, 8, 11, 10],
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_order_of_a_version_never_changes(name):
    assert ALL[name].version == 1
    assert drawn(name, 13, seed=1, epoch=2)[1][:8].tolist() == GOLDEN[name]


# ---------------------------------------------------------------- chunks


@pytest.mark.parametrize("rows", [2, 5, 40])
@pytest.mark.parametrize("pool", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 5, 23, 40])
def test_chunks_are_mixed_a_few_at_a_time(count, rows, pool):
    sampler = samplers.chunk_permutation(pool, rows=rows)
    found = sampler.order(Rows(count), 3)(np.arange(count))
    assert sorted(found.tolist()) == list(range(count))
    left = found.tolist()
    while left:  # what comes next is the whole of some chunks
        chunks = list(dict.fromkeys(row // rows for row in left))[:pool]
        whole = [row for c in chunks for row in range(c * rows, min(count, (c + 1) * rows))]
        assert sorted(left[: len(whole)]) == sorted(whole)
        left = left[len(whole) :]


def test_the_chunks_of_a_file_are_known(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(60).reshape(30, 2), chunks=(5, 1))
        file["y"] = np.arange(30)
    d = dv.open(path)
    batches = [batch.y() for batch in d._loader(10, sampler="chunk-permutation", seed=1)]
    assert sorted(np.concatenate(batches).tolist()) == list(range(30))
    given = d._loader(10, sampler=samplers.chunk_permutation(rows=5), seed=1)
    assert [batch.y().tolist() for batch in given] == [batch.tolist() for batch in batches]


# ---------------------------------------------------------------- labels (B38 to B40)


def test_b38_tiny_permutations_end():
    assert drawn("permutation", 0)[1].tolist() == []
    assert drawn("permutation", 1)[1].tolist() == [0]
    twos = {tuple(drawn("permutation", 2, 0, epoch)[1].tolist()) for epoch in range(20)}
    assert twos == {(0, 1), (1, 0)}


LABELS = np.array(["A", "A", "A", "B", "B", "C"])


def test_b39_label_permutation_visits_every_label_in_each_round():
    order = samplers.label_permutation(by=LABELS).order(Rows(6), 4, 0)
    rows = order.block(0, 3 * 600)
    rounds = LABELS[rows].reshape(-1, 3)
    assert (np.sort(rounds, axis=1) == ["A", "B", "C"]).all()
    assert sorted(rows[:9][rows[:9] < 3]) == [0, 1, 2]
    of_a = rows[LABELS[rows] == "A"].reshape(-1, 3)
    assert (np.sort(of_a, axis=1) == [0, 1, 2]).all()
    assert len({tuple(block) for block in of_a.tolist()}) == 6


def test_b39_label_uniform_balances_and_never_draws_what_has_no_label():
    labels = np.array(["A"] * 90 + ["B"] * 9 + ["C"] + [None] * 5, object)
    rows = samplers.label_uniform(by=labels).order(Rows(105), 0, 0).block(0, 30_000)
    assert rows.max() < 100
    counts = np.array([np.count_nonzero(labels[rows] == label) for label in "ABC"])
    assert abs(chi_square(counts, 10_000)) < 4
    numbers = np.array([0.0, 1, np.nan])
    assert samplers.label_uniform(by=numbers).order(Rows(3), 0, 0).block(0, 99).max() == 1


def test_b39_codes_of_missing_labels_are_never_drawn():
    labels = np.array(["a", None, "b", "a", None], object)
    d = dv.View(x=np.arange(5), code=dv.View(labels)._codes())
    batches = d._loader(2, sampler=samplers.label_permutation(by="code"), num_batches=20)
    assert {*np.concatenate([batch.x() for batch in batches]).tolist()} == {0, 2, 3}


def test_b39_no_labels_at_all_is_an_error():
    order = samplers.label_uniform(by=np.array([None, None], object)).order(Rows(2), 0, 0)
    with pytest.raises(ValueError, match="no row has one"):
        order.block(0, 1)


RESTRICTED = [
    samplers.permutation(by=LABELS, label="B"),
    samplers.uniform(by=LABELS, label="B"),
    samplers.linear(by=LABELS, label="B"),
    samplers.label_uniform(by=LABELS, label="B"),
    samplers.label_permutation(by=LABELS, label="B"),
    samplers.restricted(samplers.weighted(np.arange(6)), LABELS, "B"),
]


@pytest.mark.parametrize("sampler", RESTRICTED, ids=repr)
def test_b39_restricted_to_one_label(sampler):
    order = sampler.order(Rows(6), 0, 0)
    assert order.length in (2, None)
    assert set(order.block(0, order.length or 50).tolist()) == {3, 4}


def test_b39_number_of_batches_of_one_label():
    d = dv.View(x=np.arange(60), label=np.tile(LABELS, 10))
    assert len(d._minibatches(3, sampler=samplers.permutation("label", "B"))) == 7
    with pytest.raises(ValueError, match="no row has the label 'Z'; the labels are: 'A', 'B', 'C'"):
        d._minibatches(3, sampler=samplers.permutation("label", "Z"))
    with pytest.raises(ValueError, match="needs by="):
        samplers.permutation(label="B")


# 20 rows with 15 labels A, 9 B and 1 C; three rows have none.
SETS = [["A", "B"]] * 6 + [["A"]] * 8 + [["B"]] * 2 + [[], ["A", "B", "C"], [], []]
TABLE = np.array([[*(row + [None] * 3)[:3]] for row in SETS], object)
TABLE[3] = [None, "B", "A"]  # an empty cell before others shifts none of them
FORMS = {
    "fields": (dict(zip(("l1", "l2", "l3"), TABLE.T, strict=True)), ["l1", "l2", "l3"]),
    "table": ({"l": TABLE}, "l"),
    "lists": ({}, SETS),
    "array": ({}, TABLE),
    "ragged": ({"l": dv.ragged(SETS)}, "l"),
    "sets": ({"l": np.array(list(map(frozenset, SETS)))}, "l"),
    "twice": ({"l": TABLE}, ["l", "l"]),
}


@pytest.mark.parametrize("form", FORMS)
def test_b45_a_row_with_several_labels_counts_in_each(form):
    fields, by = FORMS[form]
    counts = {label: sum(label in row for row in SETS) for label in "ABC"}
    assert (len(SETS), sum(counts.values())) == (20, 25), counts
    d = dv.View(row=np.arange(20), **fields)
    for label, count in counts.items():
        (rows,) = d._minibatches(20, sampler=samplers.linear(by=by, label=label))
        assert rows.row().tolist() == [n for n, row in enumerate(SETS) if label in row]
        assert len(rows) == count
    rounds = d._minibatches(3, sampler=samplers.label_permutation(by=by), num_batches=15)
    drawn = [batch.row().tolist() for batch in rounds]
    for row in drawn:  # some order of the rows has one row of each label
        assert any(
            all(label in SETS[n] for n, label in zip(order, "ABC", strict=True))
            for order in itertools.permutations(row)
        )
    assert {n for row in drawn for n in row} == {n for n, row in enumerate(SETS) if row}
    sampler = samplers.label_distribution(by=by, weights={"A": 1, "B": 0, "C": 3})
    rows = d._minibatches(2000, sampler=sampler, num_batches=1)[0].row()
    only_a = np.isin(rows, [n for n, row in enumerate(SETS) if "C" not in row])
    assert 0.2 < only_a.mean() < 0.27  # a quarter, less one of 15
    inner = samplers.label_uniform(by=by)
    some = d._minibatches(500, sampler=samplers.restricted(inner, by, "B"), num_batches=1)[0]
    assert all("B" in SETS[n] for n in some.row())


def test_b45_labels_that_make_no_sense():
    d = dv.View(row=np.arange(2), a=["x", "y"], n=[1, 2], image=np.zeros((2, 3, 4)))
    for by, message in [
        (["a", "n"], "no order together"),
        ("image", "the labels of each of the 2 rows"),
        ([["x"]], "the labels of each of the 2 rows"),
        ([[], []], "no row has one"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            d._minibatches(2, sampler=samplers.label_uniform(by=by))[0]()
    with pytest.raises(ValueError, match="no row has the label 'z'; the labels are: 'x', 'y'"):
        d._minibatches(2, sampler=samplers.linear([["x", "y"], [None]], "z"))


def test_b40_label_distribution():
    weights = {"A": 1, "B": 1}
    sampler = samplers.label_distribution(by=LABELS, weights=weights, fill=2)
    rows = sampler.order(Rows(6), 0, 0).block(0, 20_000)
    counts = np.array([np.count_nonzero(LABELS[rows] == label) for label in "ABC"])
    assert abs(chi_square(counts, np.array([5000, 5000, 10_000]))) < 4
    assert weights == {"A": 1, "B": 1}
    missing = samplers.label_distribution(by=LABELS, weights=weights).order(Rows(6), 0, 0)
    with pytest.raises(ValueError, match="label 'C' has no weight"):
        missing.block(0, 1)
    unknown = samplers.label_distribution(by=LABELS, weights={"X": 1}, fill=1)
    with pytest.raises(ValueError, match="'X', which no row has"):
        unknown.order(Rows(6), 0, 0).block(0, 1)
    for wrong in [{"A": 0, "B": 0, "C": 0}, {"A": -1}, {"A": np.nan}]:
        with pytest.raises(ValueError, match=r"weight"):
            samplers.label_distribution(by=LABELS, weights=wrong)
    with pytest.raises(TypeError, match="a mapping"):
        samplers.label_distribution(by=LABELS, weights=[1, 2])


@pytest.mark.parametrize("weights", [[0, 0], [1, -1], [1, np.inf], [np.nan, 1]])
def test_b40_weights_that_are_none(weights):
    with pytest.raises(ValueError, match="weight"):
        samplers.weighted(weights).order(Rows(2), 0, 0).block(0, 1)


# ---------------------------------------------------------------- lengths (B47)


def batches_of(sampler, count, **values):
    order = sampler.order(Rows(count, **values), 0, 0)
    return [order.block(*order.cuts.bounds(number)) for number in range(order.cuts.count)]


def test_b47_bucket():
    lengths = np.arange(10, 0, -1)
    found = batches_of(samplers.bucket(4, by=lengths), 10)
    assert sorted(map(len, found)) == [2, 4, 4]
    assert sorted(np.concatenate(found).tolist()) == list(range(10))
    assert all(np.ptp(lengths[batch]) == len(batch) - 1 for batch in found)
    places = {
        next(n for n, size in enumerate(map(len, batches)) if size == 2)
        for seed in range(30)
        for batches in [
            [
                order.block(*order.cuts.bounds(number))
                for order in [samplers.bucket(4, by=lengths).order(Rows(10), seed, 0)]
                for number in range(3)
            ]
        ]
    }
    assert places == {0, 1, 2}
    assert [batch.tolist() for batch in batches_of(samplers.bucket(5, by=[3, 1]), 2)] == [[1, 0]]


def test_b47_same_length():
    lengths = np.array([3, 1, 3, 2, 1, 3, 3, 3])
    found = batches_of(samplers.same_length(2, by=lengths), 8)
    assert sorted(np.concatenate(found).tolist()) == list(range(8))
    assert all(len(set(lengths[batch])) == 1 for batch in found)
    assert sorted(map(len, found)) == [1, 1, 2, 2, 2]


@pytest.mark.parametrize("padded", [True, False])
def test_token_budget(padded, rng):
    lengths = rng.integers(1, 60, 3000)
    sampler = samplers.token_budget(by=lengths, budget=200, window=300, padded=padded)
    found = batches_of(sampler, 3000)
    assert sorted(np.concatenate(found).tolist()) == list(range(3000))
    cost = [len(b) * lengths[b].max() if padded else lengths[b].sum() for b in found]
    assert max(cost) <= 200
    assert np.mean(cost) > 150
    with pytest.raises(ValueError, match=r"row \d+ has the length \d+, more than the budget"):
        batches_of(samplers.token_budget(by=lengths, budget=10), 3000)


def test_a_position_far_ahead_plans_one_window_only():
    planned = []

    class Counting(samplers.CATALOGUE["token-budget"]):
        def ends(self, lengths):
            planned.append(len(lengths))
            return super().ends(lengths)

    order = Counting(by=np.ones(100_000, int), budget=50, window=1000).order(Rows(100_000), 0, 0)
    assert len(order.block(99_000, 99_050)) == 50
    assert len(planned) <= 2


@pytest.mark.parametrize("wrong", [np.array([1.0, -2.0]), np.array([1.0, np.nan])])
def test_lengths_that_are_none(wrong):
    with pytest.raises(ValueError, match="row 1 has the length"):
        samplers.bucket(2, by=wrong).order(Rows(2), 0, 0)
    with pytest.raises(TypeError, match=r"lengths are numbers; got <U1.*by=d.name._lengths\(\)"):
        samplers.bucket(2, by=["a", "b"]).order(Rows(2), 0, 0)


# ---------------------------------------------------------------- slices and parts


def test_batchwise_permutation_is_of_slices():
    order = samplers.batchwise_permutation(3).order(Rows(7), 1, 0)
    found = [order.block(*order.cuts.bounds(number)).tolist() for number in range(3)]
    assert sorted(found) == [[0, 1, 2], [3, 4, 5], [6]]
    even = samplers.batchwise_permutation(3, even=True).order(Rows(7), 1, 0)
    assert even.cuts is None
    assert sorted(even.block(0, 6).tolist()) == [0, 1, 2, 3, 4, 5]


def test_random_slices_are_slices():
    rows = samplers.random_slice(4).order(Rows(9), 0, 0).block(0, 4000).reshape(-1, 4)
    assert (np.diff(rows, axis=1) == 1).all()
    assert abs(chi_square(np.bincount(rows[:, 0], minlength=6), 1000 / 6)) < 4
    with pytest.raises(ValueError, match="slice of 4 rows does not fit into 3 rows"):
        samplers.random_slice(4).order(Rows(3), 0, 0).block(0, 4)


def test_parts_come_one_after_the_other():
    data = Rows(12, parts=(3, 5, 4))
    linear = samplers.part_linear_permutation().order(data, 0, 0).block(0, 12)
    assert [sorted(part.tolist()) for part in np.split(linear, [3, 8])] == [
        [0, 1, 2],
        [3, 4, 5, 6, 7],
        [8, 9, 10, 11],
    ]
    seen = set()
    for seed in range(40):
        rows = samplers.part_permutation_permutation().order(data, seed, 0).block(0, 12)
        parts = np.searchsorted([3, 8, 12], rows, side="right")
        changes = parts[np.flatnonzero(np.diff(parts, prepend=-1))]
        assert sorted(changes.tolist()) == [0, 1, 2]
        seen.add(tuple(changes.tolist()))
    assert len(seen) == 6


def test_parts_of_joined_views():
    one, two = dv.View(x=np.arange(3)), dv.View(x=np.arange(3, 8))
    d = dv.concat(one, two)
    found = [b.x().tolist() for b in d._minibatches(3, sampler="part-linear-permutation")]
    assert sorted(found[0]) == [0, 1, 2]
    assert sorted(found[1] + found[2]) == [3, 4, 5, 6, 7]


# ---------------------------------------------------------------- mixtures


@pytest.mark.parametrize("weights", [[3, 1], [1, 2, 4], [0.5, 0.25, 0.25], [0.7, 0.3]])
def test_mixtures_keep_proportions_in_every_stretch(weights):
    parts = (50, 70, 30)[: len(weights)]
    sampler = samplers.mix(weights, stop="never")
    rows = sampler.order(Rows(sum(parts), parts=parts), 0, 0).block(0, 5000)
    which = np.searchsorted(np.cumsum(parts), rows, side="right")
    share = np.array(weights) / sum(weights)
    for length in [10, 100, 777, 5000]:
        counts = np.bincount(which[:length], minlength=len(parts))
        assert np.abs(counts - share * length).max() <= len(weights)


def test_mixtures_stop_as_told():
    data = Rows(12, parts=(4, 8))
    first = samplers.mix([1, 1], stop="first").order(data, 0, 0)
    rows = first.block(0, first.length)
    assert sorted(rows[rows < 4].tolist()) == [0, 1, 2, 3]
    assert rows[-1] < 4
    assert len(set(rows.tolist())) == len(rows)
    every = samplers.mix([1, 1], stop="all").order(data, 0, 0)
    rows = every.block(0, every.length)
    assert sorted(rows[rows >= 4].tolist()) == [4, 5, 6, 7, 8, 9, 10, 11]
    assert Counter(rows[rows < 4].tolist()) == dict.fromkeys(range(4), 2)
    once = samplers.mix(stop="all").order(data, 0, 0)
    assert sorted(once.block(0, 12).tolist()) == list(range(12))
    assert once.length == 12


def test_mixtures_refuse_what_makes_no_sense():
    data = Rows(4, parts=(4, 0))
    with pytest.raises(ValueError, match="part 1 has no rows"):
        samplers.mix([1, 1]).order(data, 0, 0)
    assert samplers.mix([1, 0]).order(data, 0, 0).length == 4
    with pytest.raises(ValueError, match="3 weights, and 2 parts"):
        samplers.mix([1, 1, 1]).order(data, 0, 0)
    with pytest.raises(ValueError, match="one of first, all, never"):
        samplers.mix([1, 1], stop="last")
    with pytest.raises(ValueError, match="less than 1 in 65536"):
        samplers.mix([1, 1e-9]).order(Rows(4, parts=(2, 2)), 0, 0)


# ---------------------------------------------------------------- what a user gives


def test_an_iterable_of_rows():
    order = samplers.sampler_of([3, 1, -1]).order(Rows(5), 0, 0)
    assert order.forward
    assert order.block(1, 3).tolist() == [1, 4]
    assert order.block(0, 1).tolist() == [3]
    assert samplers.sampler_of(range(4)).order(Rows(5), 0, 3).block(0, 4).tolist() == [0, 1, 2, 3]
    with pytest.raises(IndexError, match="row 9 is outside the 5 rows"):
        samplers.sampler_of([9]).order(Rows(5), 0, 0).block(0, 1)
    with pytest.raises(TypeError, match="row numbers"):
        samplers.sampler_of([0.5]).order(Rows(5), 0, 0).block(0, 1)


def test_an_iterator_is_spent_after_an_epoch():
    sampler = samplers.sampler_of(iter([1, 2]))
    assert sampler.order(Rows(5), 0, 0).length == 2
    with pytest.raises(ValueError, match="spent"):
        sampler.order(Rows(5), 0, 1)


def test_an_iterable_of_lists_cuts_the_batches():
    order = samplers.sampler_of([[1, 2], np.array([0]), [3, 3, 4]]).order(Rows(5), 0, 0)
    assert [order.cuts.bounds(number) for number in range(3)] == [(0, 2), (2, 3), (3, 6)]
    assert order.block(0, 6).tolist() == [1, 2, 0, 3, 3, 4]


def test_a_function_that_returns_the_next_row():
    rows = iter([4, 0, 2, None])
    order = samplers.sampler_of(lambda: next(rows)).order(Rows(5), 0, 0)
    assert order.length is None
    assert order.forward
    assert order.block(0, 2).tolist() == [4, 0]
    with pytest.raises(ValueError, match="ended after 3 rows"):
        order.block(2, 4)


def test_a_function_of_order_and_position():
    asked = []

    def rotated(order, position):
        asked.append(position)
        return np.roll(order, 1)[:4] if len(order) == 5 else np.roll(order, 1)

    sampler = samplers.sampler_of(rotated)
    assert sampler.order(Rows(5), 0, 0).block(0, 4).tolist() == [4, 0, 1, 2]
    assert sampler.order(Rows(5), 0, 2).block(0, 4).tolist() == [1, 2, 4, 0]
    assert asked == [0, 0, 4, 4]


def test_b59_an_order_of_another_length():
    sampler = samplers.sampler_of(lambda order, position: order[:-1])
    assert sampler.order(Rows(5), 0, 0).length == 4
    with pytest.raises(ValueError, match="epoch 1 has 3 rows, the one before 4"):
        sampler.order(Rows(5), 0, 1)


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("name", ["label-uniform", "label-permutation", "label-distribution"])
@pytest.mark.parametrize("by", ["label", np.array(list("baab"))], ids=["field", "array"])
def test_all_epochs_share_the_rows_of_each_label(name, by, monkeypatch):
    numbered = []
    ranked = tables.ranked
    monkeypatch.setattr(
        "dataview.samplers.labelled.ranked", lambda labels: numbered.append(1) or ranked(labels)
    )
    options = {"weights": {"a": 1, "b": 2}} if name == "label-distribution" else {}
    sampler = samplers.CATALOGUE[name](by=by, **options)
    d = dv.View(x=np.arange(4), label=list("baab"))
    loader = d._loader(2, sampler=sampler, num_batches=3, seed=1)
    epochs = [[batch.x().tolist() for batch in loader] for _ in range(3)]
    assert len(numbered) == 1 and epochs[0] != epochs[1]


def test_names_classes_and_instances():
    for chosen in ["permutation", samplers.permutation, samplers.permutation()]:
        assert samplers.sampler_of(chosen).name == "permutation"
    assert repr(samplers.sampler_of("batchwise-permutation", batch_size=4)) == (
        "samplers.batchwise_permutation(batch_size=4)"
    )


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ("permutaton", ValueError, "did you mean 'permutation'"),
        ("foo", ValueError, "no sampler 'foo'.*linear, permutation"),
        ("weighted", ValueError, r"needs weights: samplers.weighted\(by=...\).*fields are x, w"),
        (samplers.label_uniform, ValueError, "needs labels.*the fields are x, w"),
        ("subset", ValueError, r"samplers.subset\(rows=...\)"),
        ("bucket", ValueError, "needs lengths"),
        ("random-slice", ValueError, "needs a batch size"),
        (3, TypeError, "a sampler is a name"),
        (lambda one: one, TypeError, "needs 1$"),
        ({"x": "linear"}, TypeError, "samplers by field are for _loader"),
        (b"xw", TypeError, "a sampler is a name"),
    ],
)
def test_what_is_no_sampler(given, kind, message):
    with pytest.raises(kind, match=message):
        samplers.sampler_of(given, ["x", "w"])


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        (lambda: samplers.bucket(0, by="length"), ValueError, "batch_size= is at least 1"),
        (lambda: samplers.bucket(True, by="length"), TypeError, "batch_size= is an integer"),
        (lambda: samplers.random_slice(-3), ValueError, "batch_size= is at least 1"),
        (lambda: samplers.bucket(by="length", window=0), ValueError, "window= is at least 1"),
        (lambda: samplers.bucket(by="length", window=1.5), TypeError, "window= is an integer"),
        (lambda: samplers.token_budget(by="length", window=0), ValueError, "window= is at least"),
        (lambda: samplers.token_budget(by="length", budget=0), ValueError, "budget= is more"),
        (lambda: samplers.token_budget(by="length", budget=np.nan), ValueError, "budget= is more"),
        (lambda: samplers.restricted("permutation", "x", 1), TypeError, "takes a sampler"),
        (
            lambda: samplers.label_distribution(by="x", weights={"cat": -1}),
            ValueError,
            "weight of 'cat' is -1",
        ),
        (
            lambda: samplers.label_distribution(by="x", weights={"cat": 1}, fill=-2),
            ValueError,
            "weight of 'fill=' is -2",
        ),
    ],
)
def test_options_are_checked_when_a_sampler_is_made(options, kind, message):
    with pytest.raises(kind, match=message):
        options()


def test_orders_that_cannot_be_are_refused_when_they_are_made():
    d = dv.View(np.arange(5))
    with pytest.raises(IndexError, match="row 5 is outside the 5 rows"):
        d._minibatches(2, sampler=samplers.subset([0, 5]))
    with pytest.raises(ValueError, match="a slice of 6 rows does not fit into 5 rows"):
        d._minibatches(6, sampler="random-slice")
    with pytest.raises(ValueError, match="batch 1 of the sampler has no rows"):
        d._minibatches(sampler=[[0], [], [1]])
    for options in ({"seed": None}, {"seed": 0.5}, {"epoch": 1.0}):
        with pytest.raises(TypeError):
            d._minibatches(2, sampler="permutation", **options)
    with pytest.raises(ValueError, match="epoch= is at least 0"):
        d._minibatches(2, epoch=-1)


def test_an_iterator_gives_its_rows_once_and_never_silently_nothing():
    d, rows = dv.View(np.arange(5)), iter([3, 1])
    assert d._minibatches(2, sampler=rows)[0]().tolist() == [3, 1]
    with pytest.raises(ValueError, match="has no rows, or is spent"):
        d._minibatches(2, sampler=rows)


@pytest.mark.parametrize("scale", [1e-323, 1e-300, 1.0, 4e307])
def test_weights_of_any_size_keep_their_proportions(scale):
    weights = np.array([1.0, 3.0, 0.0, 4.0]) * scale
    rows = samplers.weighted(weights).order(Rows(4), 0, 0).block(0, 8000)
    counts = np.bincount(rows, minlength=4)
    assert counts[2] == 0
    assert abs(chi_square(counts[[0, 1, 3]], np.array([1000, 3000, 4000]))) < 4
    once = samplers.weighted(weights, replacement=False).order(Rows(4), 0, 0)
    assert sorted(once.block(0, 3).tolist()) == [0, 1, 3]


def test_a_batch_size_is_given_once():
    sampler = samplers.bucket(4, by="length")
    assert samplers.sampler_of(sampler, batch_size=4) is not None
    with pytest.raises(ValueError, match="is 8, that of the sampler 4"):
        samplers.sampler_of(sampler, batch_size=8)


def test_b60_only_the_metadata_is_read():
    def audio(number):
        raise AssertionError("the audio was read")

    d = dv.View(audio=dv.View(audio, _length=6), length=[3, 1, 2, 3, 1, 2], label=list("aabbcc"))
    batches = d._minibatches(sampler=samplers.token_budget(by="length", budget=6))
    found = [batch.length().tolist() for batch in batches]
    assert sorted(n for batch in found for n in batch) == [1, 1, 2, 2, 3, 3]
    balanced = d._minibatches(3, sampler=samplers.label_permutation(by="label"))
    assert sorted(balanced[0].label().tolist()) == ["a", "b", "c"]
    buckets = d._minibatches(3, sampler=samplers.bucket(by="length"))
    assert sorted(sorted(batch.length().tolist()) for batch in buckets) == [[1, 1, 2], [2, 3, 3]]
    assert d._sorted(by="length").length().tolist() == [1, 1, 2, 2, 3, 3]
    assert d._sorted(by=["label", "length"], reverse=True)[:2].length().tolist() == [2, 1]
    for long in (d[d.length > 1], d._filter(d.length > 1), d._filter(lambda row: row.length > 1)):
        assert [row.label() for row in long] == ["a", "b", "b", "c"]
    for part in d._split(3, by="label", seed=0):
        assert sorted(part.label().tolist()) == ["a", "b", "c"]
    assert [rows.length().tolist() for _, rows in d._group(by="label")] == [[3, 1], [2, 3], [1, 2]]


LATE = {
    "bucket": lambda by: samplers.bucket(by=by, window=2),
    "weighted": lambda by: samplers.weighted(by=by),
    "once": lambda by: samplers.label_permutation(by=by),
    "restricted": lambda by: samplers.restricted(samplers.bucket(by=by), KINDS, "b"),
}
KINDS = np.array(list("ab"))[np.arange(20) % 2]


@pytest.mark.parametrize("name", LATE)
@pytest.mark.parametrize("how", ["name", "view"])
def test_an_order_is_of_the_data_when_it_was_asked_for(name, how):
    lengths = np.arange(20) * 7 % 11 + 1
    d = dv.View(x=np.arange(20), length=lengths.copy())
    by = "length" if how == "name" else d.length
    expected = [b.x().tolist() for b in d._minibatches(3, sampler=LATE[name]("length"))]
    batches = d._minibatches(3, sampler=LATE[name](by))
    loader = d._loader(3, sampler=LATE[name](by))
    d.length[:] = lengths[::-1] ** 2
    assert [b.x().tolist() for b in batches] == expected
    assert [b.x().tolist() for b in loader] == expected
    assert [b.x().tolist() for b in d._minibatches(3, sampler=LATE[name](by))] != expected


def test_bucket_reads_when_the_order_is_first_needed():
    made = Counting(lambda number: {"x": float(number), "length": number * 7 % 11})
    d = made.probed(20)
    batches = d._minibatches(3, sampler=samplers.bucket(by="length", window=2))
    assert len(batches) == 7 and repr(batches) and len(batches[2:]) == 5
    some = d._minibatches(3, sampler=samplers.bucket(by="length", window=2), num_batches=4)
    loader = d._loader(3, sampler=samplers.bucket(by="length", window=2))
    assert len(some) == 4 and not made.asked
    rows = [b.x().tolist() for b in batches]
    assert sorted(np.concatenate(rows).tolist()) == list(range(20))
    assert [b.x().tolist() for b in some] == rows[:4]
    assert [b.x().tolist() for b in loader] == rows


CUTTING = {
    "token budget": ({}, lambda by: samplers.token_budget(by=by, budget=25, window=8)),
    "same length": ({"batch_size": 3}, lambda by: samplers.same_length(3, by=by)),
}


@pytest.mark.parametrize("name", CUTTING)
def test_a_loader_whose_sampler_cuts_by_length_reads_when_its_first_batch_is_needed(name):
    made = Counting(lambda number: {"x": float(number), "length": number * 7 % 11})
    d = made.probed(20)
    size, sampler = CUTTING[name]
    loader = d._loader(**size, sampler=sampler("length"))
    again = d._loader(**size, sampler=sampler("length"), repeat=True)
    assert repr(loader) and loader.epoch == 0 and not made.asked
    rows = [b.x().tolist() for b in loader]
    assert sorted(np.concatenate(rows).tolist()) == list(range(20))
    assert [b.x().tolist() for b, _ in zip(again, rows, strict=False)] == rows
    assert [b.x().tolist() for b in d._minibatches(**size, sampler=sampler("length"))] == rows


@pytest.mark.parametrize("name", CUTTING)
@pytest.mark.parametrize("how", ["name", "view"])
def test_batches_by_length_are_of_the_data_when_they_were_asked_for(name, how):
    lengths = np.arange(20) * 7 % 11 + 1
    d = dv.View(x=np.arange(20), length=lengths.copy())
    by = "length" if how == "name" else d.length
    size, sampler = CUTTING[name]
    expected = [b.x().tolist() for b in d._loader(**size, sampler=sampler("length"))]
    loader = d._loader(**size, sampler=sampler(by))
    batches = d._minibatches(**size, sampler=sampler(by))
    copied = pickle.loads(pickle.dumps(batches))
    d.length[:] = lengths[::-1] + np.arange(20) % 2
    assert [b.x().tolist() for b in loader] == expected
    assert [b.x().tolist() for b in batches] == expected
    assert [b.x().tolist() for b in copied] == expected
    assert [b.x().tolist() for b in d._loader(**size, sampler=sampler(by))] != expected


def test_a_row_past_the_budget_is_told_when_the_order_is_needed():
    d = dv.View(x=np.arange(3), length=[2, 9, 30])
    sampler = samplers.token_budget(by="length", budget=5)
    loader = d._loader(sampler=sampler)
    with pytest.raises(ValueError, match="row 1 has the length 9, more than the budget of 5"):
        next(iter(loader))
    with pytest.raises(ValueError, match="leave out the 2 such rows"):
        d._minibatches(sampler=sampler)


def test_an_order_travels_before_and_after_it_is_known():
    d = dv.View(x=np.arange(20), length=np.arange(20) * 7 % 11)
    batches = d._minibatches(3, sampler=samplers.bucket(by="length", window=2))
    early = pickle.loads(pickle.dumps(batches))
    rows = [b.x().tolist() for b in batches]
    late = pickle.loads(pickle.dumps(batches))
    assert [b.x().tolist() for b in early] == rows == [b.x().tolist() for b in late]


def test_metadata_is_read_once_and_late():
    data = rows_of(20)
    order = samplers.weighted(by="weight").order(data, 0, 0)
    order.block(0, 5)
    order.block(10**6, 10**6 + 5)
    assert data.asked["weight"] <= 2
    assert set(data.asked) == {"weight"}


@given(st.integers(1, 4096), st.data())
@examples(30)
def test_an_order_of_few_rows_is_computed_once(length, data):
    asked = []

    def rows(positions):
        asked.append(len(positions))
        return positions * 3

    order = samplers.Order(rows, length)
    for _ in range(5):
        start, stop = sorted(data.draw(st.tuples(*[st.integers(0, length)] * 2)))
        assert order.block(start, stop).tolist() == list(range(3 * start, 3 * stop, 3))
    assert asked in ([length], [])


def test_samplers_by_label_take_the_labels_that_codes_know():
    codes = np.array([1, -1, 0, 1, 0])
    d = dv.View(row=range(5), k=codes, _meta={"k": {"labels": ["d", "c"]}})

    def drawn(sampler):
        count = 8 if sampler.endless else None
        batches = d._loader(4, sampler=sampler, num_batches=count)
        return {row for batch in batches for row in batch.row()}

    assert drawn(samplers.label_uniform(by="k")) == {0, 2, 3, 4}
    assert drawn(samplers.label_uniform(by="k", label="c")) == {0, 3}
    assert drawn(samplers.permutation(by="k", label="d")) == {2, 4}
    assert drawn(samplers.label_distribution(by="k", weights={"c": 0, "d": 1})) == {2, 4}
    with pytest.raises(ValueError, match=r"no row has the label 'e'; the labels are: 'c', 'd'"):
        drawn(samplers.permutation(by="k", label="e"))
