"""Views of minibatches, compared with NumPy's reshape; the rows that do not fill a batch."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from dataview import samplers
from dataview.errors import ReadOnlyError, StreamError
from oracle import assert_same, check_same, keys, slices

ORDERS = ["linear", "permutation", "part-linear-permutation"]


def whole(count=12, width=7):
    """Windows on one array, and the array."""
    array = np.arange(count * width, dtype=float).reshape(count, width)
    return dv.View(array, input=np.s_[: width - 2], target=np.s_[width - 2 :]), array


def parts(count=12):
    """A record, and its arrays."""
    arrays = {"x": np.arange(count * 3.0).reshape(count, 3), "y": np.arange(count)}
    return dv.View(**arrays), arrays


def order_of(count, sampler, seed=0, epoch=0):
    """The rows in the order of a sampler."""
    chosen = samplers.sampler_of(sampler)
    order = chosen.order(samplers.RowsOf(dv.View(np.arange(count))._state[0], count), seed, epoch)
    return order.block(0, count)


# ---------------------------------------------------------------- even batches are algebra


@given(data=st.data())
@pytest.mark.parametrize("sampler", ORDERS)
@pytest.mark.parametrize("size", [1, 3, 4])
def test_even_batches_obey_the_laws_of_views(sampler, size, data):
    _, array = whole()
    eager = array[order_of(12, sampler)].reshape(12 // size, size, 7)
    view = dv.View(array.copy())._minibatches(size, sampler=sampler)
    assert view._shape() == eager.shape
    key = data.draw(keys(eager.shape))
    check_same(view, eager, lambda v: v[key])


@given(data=st.data())
@pytest.mark.parametrize("sampler", ORDERS)
def test_fields_follow_into_batches(sampler, data):
    d, array = whole()
    eager = array[order_of(12, sampler)].reshape(4, 3, 7)
    view = d._minibatches(3, sampler=sampler)
    rows = data.draw(keys(eager.shape[:2]))
    check_same(view.input, eager[..., :5], lambda v: v[rows])
    assert_same(view[1].target(), eager[1, :, 5:])
    assert_same(view[:, 2].input(), eager[:, 2, :5])


@given(data=st.data())
@pytest.mark.parametrize("sampler", ORDERS)
def test_writes_go_through_even_batches(sampler, data):
    d, array = whole()
    order = order_of(12, sampler)
    eager = array[order].reshape(4, 3, 7)
    batches = d._minibatches(3, sampler=sampler)
    key = tuple(data.draw(slices(n) | st.integers(0, n - 1)) for n in (4, 3))
    batches[key] = -1
    eager[key] = -1
    assert_same(batches(), eager)
    assert_same(d()[order], eager.reshape(12, 7))


def test_nested_minibatches():
    d, array = whole()
    nested = d._minibatches(3)._minibatches(2)
    assert nested.input._shape() == (2, 2, 3, 5)
    assert_same(nested(), array.reshape(2, 2, 3, 7))
    assert_same(nested[1, 0].target(), array.reshape(2, 2, 3, 7)[1, 0, :, 5:])


def test_nested_minibatches_of_uneven_ones():
    d, _ = parts(10)
    nested = d._minibatches(4)._minibatches(2)
    assert [[b.y().tolist() for b in pair] for pair in nested] == [
        [[0, 1, 2, 3], [4, 5, 6, 7]],
        [[8, 9]],
    ]


# ---------------------------------------------------------------- the listing of the proposal


def test_what_the_proposal_asks_of_minibatches():
    d, array = whole(10, 7)
    batches = d._minibatches(5)
    assert bool(batches[0] == d[0:5])
    assert_same(batches[0](), d[0:5]())
    assert batches.input._width() == 5
    assert batches.input._shape()[2] == 5
    assert len(batches) == 2
    for number, (x, y) in enumerate(zip(batches.input, batches.target, strict=True)):
        assert_same(x(), array[number * 5 : number * 5 + 5, :5])
        assert_same(y(), array[number * 5 : number * 5 + 5, 5:])
    batches[1].input -= 1
    assert (array[5:, :5] == np.arange(70).reshape(10, 7)[5:, :5] - 1).all()
    assert (array[:5] == np.arange(35).reshape(5, 7)).all()


def test_b58_batches_are_iterated_with_defaults():
    d, _ = parts(10)
    assert [batch.y().tolist() for batch in d._minibatches(4)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]
    twice = d._minibatches(4)
    assert [len(b) for b in twice] == [len(b) for b in twice] == [4, 4, 2]


# ---------------------------------------------------------------- tails (B31, B32)


@pytest.mark.parametrize("sampler", ["linear", "permutation"])
@pytest.mark.parametrize("make", [whole, parts])
@pytest.mark.parametrize(
    ("count", "size", "tail", "expected"),
    [
        (10, 3, "short", [3, 3, 3, 1]),
        (10, 3, "drop", [3, 3, 3]),
        (10, 3, "pad", [3, 3, 3, 3]),
        (2, 5, "short", [2]),
        (2, 5, "drop", []),
        (2, 5, "pad", [5]),
        (4, 2, "short", [2, 2]),
        (4, 2, "error", [2, 2]),
        (4, 2, "pad", [2, 2]),
        (0, 3, "short", []),
        (0, 3, "drop", []),
        (0, 3, "pad", []),
        (0, 3, "error", []),
    ],
)
def test_b31_b32_tails(make, sampler, count, size, tail, expected):
    d, _ = make(count)
    batches = d._minibatches(size, tail=tail, sampler=sampler)
    assert [len(batch) for batch in batches] == expected
    assert [len(batch()) for batch in batches] == expected
    assert len(batches) == len(expected)
    assert batches._shape()[:2] == (len(expected), size)
    assert [batch._valid()().sum() for batch in batches] == [
        min(size, count - number * size) for number in range(len(expected))
    ]


def test_b31_what_is_no_batch_size():
    d, _ = parts()
    for wrong in [0, -1]:
        with pytest.raises(ValueError, match="batch_size= is at least 1"):
            d._minibatches(wrong)
    for wrong in [2.0, True, "3"]:
        with pytest.raises(TypeError, match="an integer"):
            d._minibatches(wrong)
    with pytest.raises(ValueError, match="give a batch size"):
        d._minibatches()
    with pytest.raises(ValueError, match="one of short, drop, pad, error"):
        d._minibatches(3, tail="keep")
    with pytest.raises(ValueError, match="12 rows make no whole batches of 5: 2 are left"):
        d._minibatches(5, tail="error")
    with pytest.raises(TypeError, match="no rows"):
        dv.View(3)._minibatches(2)


def test_b31_num_batches_is_what_comes():
    d, _ = parts(10)
    assert len(d._minibatches(3, num_batches=2)) == 2
    assert [len(b) for b in d._minibatches(4, num_samples=7)] == [4, 3]
    with pytest.raises(ValueError, match="num_batches=6 is more"):
        d._minibatches(3, num_batches=6)
    with pytest.raises(ValueError, match="num_samples=11 is more"):
        d._minibatches(3, num_samples=11)
    drawn = d._minibatches(3, sampler="uniform")
    assert [len(b) for b in drawn] == [3, 3, 3, 1]
    assert len(d._minibatches(3, sampler="uniform", num_batches=6)) == 6
    assert len(d._minibatches(3, sampler="uniform", num_samples=100)) == 34
    for wrong in [1.0, True]:
        with pytest.raises(TypeError, match="num_batches= is an integer"):
            d._minibatches(3, num_batches=wrong)
    with pytest.raises(ValueError, match="at least 0"):
        d._minibatches(3, num_samples=-1)


# ---------------------------------------------------------------- a short last batch


def test_a_short_batch_keeps_the_nominal_shape():
    d, array = whole(10)
    batches = d._minibatches(4)
    assert batches._shape() == (3, 4, 7)
    assert batches._size() == 70
    assert batches[1:]._size() == 42
    assert batches.input._size() == 50
    assert batches[2]._shape() == (2, 7)
    assert batches[-1].input._size() == 10
    assert_same(batches[:2](), array[:8].reshape(2, 4, 7))
    assert_same(batches[2:](), array[None, 8:])
    assert_same(batches[[2, 0]][1](), array[:4])
    assert_same(batches[2, 1](), array[9])
    assert_same(batches[0, 1:3, 0](), array[1:3, 0])


def test_what_is_known_of_uneven_batches_counts_real_rows():
    d, array = whole(10)
    for batches, rows in [(d._minibatches(4), 10), (d._minibatches(4)[1:], 6)]:
        assert batches._nbytes() == batches._size() * array.itemsize == rows * 7 * array.itemsize


@pytest.mark.parametrize("key", [(..., 0), (slice(None), 0), (..., slice(2)), (..., 0, 0)])
def test_a_key_within_uneven_batches_never_selects_something_else(key):
    with pytest.raises(ValueError, match="not all of one size"):
        whole(10)[0]._minibatches(4)[key]
    samples = dv.View(lambda number: np.arange(number), _length=3)
    with pytest.raises((IndexError, TypeError)):
        samples[key]


@pytest.mark.parametrize(
    "action",
    [
        lambda b: b(),
        lambda b: b.input(),
        lambda b: (b.input / 2)(),
        lambda b: (b.input / np.ones((4, 1)))(),
        lambda b: b.input._mean(axis=0)(),
        lambda b: b.input._write(np.zeros((3, 4, 5))),
        lambda b: b.input._write(np.zeros((4, 5))),
    ],
)
def test_uneven_batches_make_no_array(action):
    with pytest.raises(ValueError, match=r"not all of one size.*tail='drop'"):
        action(whole(10)[0]._minibatches(4))


W = np.arange(5.0) + 1
COMPUTED = {
    "times a number": lambda b: b.input * 2,
    "reflected": lambda b: 1 - b.input,
    "of a sample's shape": lambda b: (b.input - W) / (W + 1),
    "of one row": lambda b: b.input + np.ones((1, 5)),
    "by each other": lambda b: b.input * b.input - b.input,
    "several outputs": lambda b: np.divmod(b.input, 3)[1],
    "chosen": lambda b: np.where(b.input > 20, b.input, -1),
    "clipped": lambda b: np.clip(b.input, 5, 25),
    "equal": lambda b: b.input == 21,
    "different": lambda b: np.where(b.input != 16, b.input, -5),
    "a model": lambda b: np.tanh(b.input @ dv.View(np.ones((5, 2))) + 0.5),
    "a vector": lambda b: b.input @ dv.View(W),
    "sums of samples": lambda b: b.input._sum(axis=-1),
    "sums that keep the axis": lambda b: b.input._sum(axis=-1, keepdims=True) - b.input,
    "medians": lambda b: (b.input * W[::-1])._median(axis=-1) + 1,
    "where the largest is": lambda b: (b.input % 7)._argmax(axis=-1),
}


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize("sampler", ORDERS)
@pytest.mark.parametrize("size", [1, 4, 7, 10, 99])
def test_what_is_computed_of_uneven_batches_is_computed_of_each(name, sampler, size):
    compute = COMPUTED[name]
    batches = whole(10)[0]._minibatches(size, sampler=sampler)
    found = compute(batches)
    assert len(found) == len(batches)
    for number, batch in enumerate(batches):
        assert_same(found[number](), np.asarray(compute(batch)()))
    assert [len(part()) for part in found[1:]] == [len(part) for part in batches[1:]]
    assert_same(pickle.loads(pickle.dumps(found))[-1](), found[-1]())


def test_steps_that_differ_from_batch_to_batch_are_not_lifted():
    batches = whole(10)[0]._minibatches(4)
    found = batches.input + np.ones((4, 1))
    assert_same(found[0](), whole(10)[1][:4, :5] + 1)
    with pytest.raises(ValueError, match="not all of one size"):
        found[2]()
    square = parts(4)[0]._minibatches(3)
    with pytest.raises(ValueError, match=r"broadcast|not all of one size"):
        (square.x * square.y)[1]()


def test_batches_of_several_datasets_are_computed_together():
    one = whole(10)[0]._minibatches(4)
    other = whole(10)[0]._minibatches(4, sampler="permutation")
    for number, found in enumerate(one.input + other.input):
        assert_same(found(), one[number].input() + other[number].input())
    with pytest.raises(ValueError, match=r"not all of one size|broadcast"):
        (one.input + whole(11)[0]._minibatches(4).input)[2]()


@pytest.mark.parametrize("step", [lambda b, s: b + s, lambda b, s: s + b, lambda b, s: b == s])
def test_uneven_batches_meet_symbols_of_any_length(step):
    batches = whole(10)[0]._minibatches(4).input
    found = step(batches, dv.symbol("s", shape=(None,), dtype="f8"))._bind(s=W)
    for number, batch in enumerate(batches):
        assert_same(found[number](), step(batch(), W))


def test_uneven_batches_have_the_truth_of_their_rows():
    batches = whole(10)[0]._minibatches(4)
    other = whole(10)[0]._minibatches(4)
    assert bool(batches.input == other.input)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(dv.View(np.arange(11))._minibatches(4))
    assert bool(batches.input != other.input) is False
    assert batches == other and bool(batches[1:] == other[1:])
    other.input[2] = -1
    assert batches.input != other.input and batches.input[:2] == other.input[:2]


def test_batches_chosen_alike_are_computed_and_changed_together():
    batches, again = whole(10)[0]._minibatches(4), whole(10)[0]._minibatches(4)
    for one, other in [
        (batches.input[[2, 0]], again.input[[2, 0]]),
        (batches[[0, 2]].input, batches[[0, 2]].input),
    ]:
        assert [found().tolist() for found in one + other] == [
            (found() * 2).tolist() for found in one
        ]
    expected = [found() * 2 for found in batches.input]
    batches.input += again.input
    for found, wanted in zip(batches.input, expected, strict=True):
        assert_same(found(), wanted)


def test_a_step_reads_the_rows_of_a_batch_alone():
    seen = []

    def double(sample):
        seen.append(int(sample()))
        return sample() * 2

    doubled = dv.View(np.arange(10))._map(double, shape=(), dtype="i8")
    batches = doubled._minibatches(4) + 1
    assert not seen
    assert batches[2]().tolist() == [17, 19] and seen == [8, 9]


def test_batches_whose_sizes_a_sampler_cuts_are_computed_of_each():
    lengths = np.array([3, 1, 2, 5, 4, 1])
    d = dv.View(x=lengths * 10.0, length=lengths)
    batches = d._minibatches(sampler=samplers.token_budget(by="length", budget=6))
    found = batches.x / 10 - batches.length
    assert [part().tolist() for part in found] == [[0.0] * len(part) for part in batches]
    wide = dv.View(x=np.ones((6, 3)), length=lengths)
    batches = wide._minibatches(sampler=samplers.token_budget(by="length", budget=6))
    found = batches.x @ dv.View(np.ones((3, 2)))
    assert [part().tolist() for part in found] == [[[3.0, 3.0]] * len(part) for part in batches]


def test_writing_in_place_over_a_short_tail():
    d, array = whole(10)
    expected = array.copy()
    batches = d._minibatches(4)
    batches.input -= 1
    expected[:, :5] -= 1
    batches.target *= [2, 3]
    expected[:, 5:] *= [2, 3]
    batches.input -= dv.View(np.arange(5))
    expected[:, :5] -= np.arange(5)
    batches.input[1:] = 7
    expected[4:, :5] = 7
    batches[[2, 0]] += 1
    expected[8:] += 1
    expected[:4] += 1
    batches[2].target = [[1, 2], [3, 4]]
    expected[8:, 5:] = [[1, 2], [3, 4]]
    assert_same(array, expected)


def test_writing_through_a_shuffled_short_tail():
    d, array = whole(10)
    batches = d._minibatches(4, sampler="permutation")
    order = order_of(10, "permutation")
    batches.input[1:] = 0
    batches.target -= batches.target
    assert (array[order[4:], :5] == 0).all()
    assert array[order[:4], 1:5].all()
    assert not array[:, 5:].any()


def test_read_only_batches():
    d = dv.View(np.arange(10), _readonly=True)
    for tail in ["short", "drop", "pad"]:
        with pytest.raises(ReadOnlyError):
            d._minibatches(3, tail=tail)[:] = 1
    with pytest.raises(ReadOnlyError):
        (dv.View(np.arange(10)) + 1)._minibatches(3)[0][:] = 1


def test_a_record_of_uneven_batches_is_written_by_field():
    d, arrays = parts(10)
    batches = d._minibatches(4)
    with pytest.raises(ValueError, match="one sample's shape"):
        batches._write({"x": 0, "y": 0})
    batches.x = 0
    assert not arrays["x"].any()


# ---------------------------------------------------------------- padding


@pytest.mark.parametrize("sampler", ORDERS)
def test_padding_is_the_first_rows_and_is_marked(sampler):
    d, arrays = parts(10)
    order = order_of(10, sampler)
    batches = d._minibatches(4, tail="pad", sampler=sampler)
    rows = np.append(order, order[:2]).reshape(3, 4)
    assert_same(batches.y(), arrays["y"][rows])
    assert_same(batches()["x"], arrays["x"][rows])
    marks = np.arange(12).reshape(3, 4) < 10
    for view, mask in [
        (batches, marks),
        (batches.x, marks),
        (batches[2], marks[2]),
        (batches[1:], marks[1:]),
        (batches[::-1], marks[::-1]),
        (batches[:, 2:], marks[:, 2:]),
        (batches.x[..., 0], marks),
    ]:
        assert_same(view._valid()(), mask)
    assert batches._minibatches(3)._valid()._shape() == (1, 3, 4)


@pytest.mark.parametrize("rows", [[1, 3, 5], slice(None, None, -2), np.arange(10) % 3 > 0])
def test_padding_of_chosen_rows_is_marked(rows):
    d, arrays = parts(10)
    chosen = arrays["y"][rows]
    batches = d[rows]._minibatches(4, tail="pad")
    assert batches._valid()().sum() == len(chosen)
    assert_same(batches.y()[batches._valid()()], chosen)
    for index, batch in enumerate(dv.View(arrays["x"])[rows]._minibatches(4, tail="pad")):
        assert_same(batch._valid()(), np.arange(index * 4, index * 4 + 4) < len(chosen))


OF_PADDED = {
    "with a number": lambda b: b.x + 1,
    "with itself": lambda b: b.x * b.x,
    "with a column": lambda b: b.x * b.y[..., None],
    "with a row": lambda b: b.x - b.x._mean(axis=0),
    "with a row that has all axes": lambda b: b.x - b.x._mean(axis=0, keepdims=True),
    "with an array of its shape": lambda b: np.ones(b.x._shape()) * b.x,
    "with the rows along the last axis": lambda b: np.ones((5, 1)) + b.y,
    "a part of what is computed": lambda b: (b.x + 1)[:, 1:],
    "turned": lambda b: (b.x + 1)._transpose(),
    "compared": lambda b: b.x > 2,
    "cast, of what is computed": lambda b: (b.x + 1)._astype("f4"),
    "a statistic of each row": lambda b: b.x._sum(axis=1),
    "a statistic of each row that has all axes": lambda b: b.x._max(axis=1, keepdims=True),
    "several statistics of each row": lambda b: b.x._quantile([0.1, 0.5], axis=1),
    "of a statistic of each row": lambda b: b.x._mean(axis=1) / 2,
    "the spread of each column": lambda b: b.x._transpose()._std(axis=0),
    "made by a function": lambda b: b.x._map(lambda row: row() + 1),
    "made by a function that is known": lambda b: b.y._map(lambda y: y() + 1, shape=(), dtype=int),
}


@pytest.mark.parametrize("computed", OF_PADDED.values(), ids=OF_PADDED)
def test_padding_of_what_is_computed_is_marked(computed):
    d, _ = parts(10)
    for batch, marks in zip(
        d._minibatches(4, tail="pad"), np.arange(12).reshape(3, 4) < 10, strict=True
    ):
        assert_same(computed(batch)._valid()(), marks)
    last = computed(d._minibatches(4, tail="pad")[2])
    if last._shape() is not None and last._shape()[:1] == (4,):
        assert_same(last[2:]._valid()(), np.array([False, False]))
        assert_same(last[::-1]._valid()(), np.array([False, False, True, True]))


def test_padding_of_rows_of_different_lengths_is_marked_or_unknown():
    d = dv.View(w=[[1.5], [2.0, 3.0], [4.0]], x=[1.0, 2.0, 3.0])
    batch = d._minibatches(2, tail="pad")[1]
    for view in (batch.w, batch.w * 2, -batch.w, batch.w._pad(0), batch.w._pad(0) + 1):
        assert view._valid()().tolist() == [True, False]
    with pytest.raises(TypeError, match="which rows are padding"):
        (batch.w * batch.x)._valid()
    assert (d.w * 2)._valid()().tolist() == [True] * 3


def test_what_is_not_marked():
    d, _ = parts(10)
    assert d._valid()().all()
    assert dv.concat(d, d)._valid()().shape == (20,)
    for tail in ["short", "drop"]:
        assert d._minibatches(4, tail=tail)[0]._valid()().tolist() == [True] * 4
    assert (d.x + 1)._valid()().tolist() == [True] * 10
    chosen = d._minibatches(4, tail="pad")[[0, 2]]
    for view in [chosen, d.x._sum(axis=0), d.x._mean() + 1, d[3]]:
        with pytest.raises(TypeError, match="which rows are padding"):
            view._valid()
    with pytest.raises(ReadOnlyError):
        d._minibatches(4, tail="pad")._valid()[:] = True


# ---------------------------------------------------------------- batches that a sampler cuts


def test_token_budget_batches():
    d = dv.View(x=np.arange(8), length=[3, 1, 2, 3, 1, 2, 5, 6])
    batches = d._minibatches(sampler=samplers.token_budget(by="length", budget=6))
    assert batches._shape() == (len(batches), None)
    assert sorted(row for batch in batches for row in batch.x().tolist()) == list(range(8))
    assert all(batch.length().max() * len(batch) <= 6 for batch in batches)
    assert_same(batches.x[1](), batches[1].x())
    assert [len(b) for b in batches[1:3]] == [len(batches[1]), len(batches[2])]
    assert len(d._minibatches(sampler=batches_of(3), num_batches=2)) == 2
    assert batches.x._size() == 8
    batches.x -= 1
    assert d.x().tolist() == list(range(-1, 7))


def batches_of(number):
    return [[row, row + 1] for row in range(number)]


@pytest.mark.parametrize(
    ("sampler", "size", "options"),
    [
        (batches_of(2), 2, {}),
        (batches_of(2), None, {"tail": "drop"}),
        (samplers.token_budget(by=np.ones(12), budget=3), 3, {}),
        (samplers.bucket(4, by=np.ones(12)), 5, {}),
        (samplers.bucket(5, by=np.ones(12)), None, {"tail": "pad"}),
        (batches_of(2), None, {"num_batches": 3}),
        (batches_of(2), None, {"num_samples": 3}),
    ],
)
def test_b59_options_that_contradict_a_sampler(sampler, size, options):
    with pytest.raises(ValueError, match="batch"):
        parts(12)[0]._minibatches(size, sampler=sampler, **options)


def test_batchwise_permutation():
    d, _ = parts(10)
    found = [b.y().tolist() for b in d._minibatches(4, sampler="batchwise-permutation")]
    assert sorted(found) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    even = d._minibatches(4, sampler="batchwise-permutation", tail="drop")
    assert sorted(even.y().tolist()) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_samplers_by_a_field_that_is_not_there():
    d, _ = parts()
    with pytest.raises(AttributeError, match="did you mean 'y'"):
        d._minibatches(3, sampler=samplers.bucket(by="yy"))
    with pytest.raises(ValueError, match="one value for each of the 12 rows; got shape"):
        d._minibatches(3, sampler=samplers.bucket(by="x"))


# ---------------------------------------------------------------- what is made, what streams


def test_minibatches_of_samples_that_a_function_makes():
    made = []
    d = dv.View(lambda n: made.append(n) or {"a": n, "b": [n, n]}, _length=7)
    batches = d._minibatches(3, sampler="permutation")
    assert (len(batches), batches._shape(), made) == (3, (3, 3, None), [])
    rows = [[sample._probe().a() for sample in batch] for batch in batches]
    assert [len(batch) for batch in rows] == [3, 3, 1]
    assert rows[0] + rows[1] + rows[2] == order_of(7, "permutation").tolist()
    simple = dv.View(lambda n: [n, n], _length=7)._minibatches(3)
    assert simple[2]().tolist() == [[6, 6]]
    assert dv.View(lambda n: n, _length=np.inf)._minibatches(3)[5]().tolist() == [15, 16, 17]


def test_b48_minibatches_of_a_stream():
    d = dv.View(lambda: ({"a": n, "b": [n, n]} for n in range(13)))
    batches = d._minibatches(4)
    for _ in range(2):
        assert [batch.a().tolist() for batch in batches][-1] == [12]
        assert [batch.b._shape() for batch in batches] == [(4, 2)] * 3 + [(1, 2)]
    assert batches._length() is None
    assert [len(b) for b in d._minibatches(4, tail="drop")] == [4, 4, 4]
    assert [len(b) for b in d._minibatches(4, num_samples=6)] == [4, 2]
    assert [len(b) for b in d._minibatches(4, num_batches=2)] == [4, 4]
    with pytest.raises(ValueError, match="1 are left"):
        list(d._minibatches(4, tail="error"))
    with pytest.raises(StreamError, match="shuffle it by"):
        d._minibatches(4, sampler="permutation")
    assert [b._valid()().sum() for b in d._minibatches(4, tail="pad")] == [4, 4, 4, 1]


def test_b48_a_spent_iterator_is_refused():
    batches = dv.View(iter(range(5)))._minibatches(2)
    assert [batch().tolist() for batch in batches] == [[0, 1], [2, 3], [4]]
    with pytest.raises(StreamError, match="spent"):
        list(batches)


def test_minibatches_of_filtered_windows_keep_fields():
    d, array = whole(10)
    batches = d._filter(lambda row: row[0]() % 2 == 0)._minibatches(3)
    assert_same(next(iter(batches)).input(), array[[0, 2, 4], :5])


def test_endless_views():
    cycle = dv.View(np.arange(5))._repeat()
    assert cycle._minibatches(3)[10]().tolist() == [0, 1, 2]
    assert [b().tolist() for b in cycle._minibatches(3, num_batches=2)] == [[0, 1, 2], [3, 4, 0]]
    with pytest.raises(StreamError, match="visited in order"):
        cycle._minibatches(3, sampler="permutation")
    with pytest.raises(TypeError):
        len(cycle._minibatches(3))


# ---------------------------------------------------------------- the rest


@pytest.mark.parametrize("tail", ["short", "drop", "pad"])
@pytest.mark.parametrize("sampler", ["linear", "permutation"])
def test_minibatches_pickle_and_copy(tail, sampler):
    d, _ = whole(10)
    batches = d._minibatches(4, tail=tail, sampler=sampler)
    for twin in [pickle.loads(pickle.dumps(batches)), copy.copy(batches), copy.deepcopy(batches)]:
        for one, other in zip(batches, twin, strict=True):
            assert_same(one.input(), other.input())
            assert_same(one._valid()(), other._valid()())


def test_b42_a_batch_handed_out_is_not_overwritten():
    d, array = whole(12)
    batches = d._minibatches(4, sampler="permutation")
    kept = [batch.input() for batch in batches]
    before = [batch.copy() for batch in kept]
    for batch in batches:
        batch.input()
    array[:] = -1
    for one, other in zip(kept, before, strict=True):
        assert_same(one, other)


def test_b36_interleaved_visits_do_not_disturb_each_other():
    d, _ = parts(20)
    alone = [b.y().tolist() for b in d._minibatches(3, sampler="permutation", seed=4)]
    one, other = (iter(d._minibatches(3, sampler="permutation", seed=4)) for _ in range(2))
    found = []
    for batch in one:
        found.append(batch.y().tolist())
        next(other).y()
    assert found == alone


def test_b34_epochs_are_shuffled_anew():
    d, _ = parts(100)
    epochs = [
        np.concatenate([b.y() for b in d._minibatches(10, sampler="permutation", epoch=epoch)])
        for epoch in range(2)
    ]
    assert epochs[0].tolist() != epochs[1].tolist()
    assert all(sorted(epoch) == list(range(100)) for epoch in epochs)


def test_building_reads_nothing():
    d = dv.View(lambda number: pytest.fail("a sample was read"), _length=10)
    for tail in ["short", "drop", "pad"]:
        batches = d._minibatches(4, tail=tail, sampler="permutation")
        assert len(batches) == {"short": 3, "drop": 2, "pad": 3}[tail]
        repr(batches)
        batches[0]


def test_shown():
    d, _ = whole(10)
    assert repr(d._minibatches(4)).splitlines()[0].startswith("View (3, 4, 7) float64")
    assert "memory" in repr(d._minibatches(4))
    assert repr(parts(10)[0]._minibatches(4)).splitlines()[0].startswith("View of (3, 4) rows")


@pytest.mark.parametrize(
    "dtype", ["O", "S3", "U3", ">f8", "M8[s]", "i1,f4"], ids=lambda dtype: dtype
)
@pytest.mark.parametrize("sampler", ["linear", "permutation"])
@pytest.mark.parametrize("tail", ["short", "pad"])
def test_dtypes(dtype, sampler, tail):
    array = np.arange(30).astype("i1" if dtype == "i1,f4" else dtype.replace("M8[s]", "i8"))
    array = array.astype(dtype)[::3]
    rows = order_of(10, sampler)
    batches = dv.View(array)._minibatches(4, sampler=sampler, tail=tail)
    for number in range(2):
        assert_same(batches[number](), array[rows[number * 4 : number * 4 + 4]])


# ---------------------------------------------------------------- computed rows


@pytest.mark.parametrize("engine", ["numpy", "numexpr"])
@pytest.mark.parametrize("sampler", ["linear", "permutation", "uniform"])
@pytest.mark.parametrize("tail", ["short", "drop", "pad"])
@pytest.mark.parametrize("size", [1, 7, 64])
def test_batches_of_computed_rows_are_rows_of_what_is_computed(size, tail, sampler, engine, rng):
    x = rng.normal(size=(200, 3, 5)).astype("f4")
    d = dv.View(x, input=np.s_[:4])
    z = (d - d._mean(axis=0)) / (d._std(axis=0) + np.float32(1)) * x[:, :1] + np.arange(5)
    whole = z()
    options = {"tail": tail, "sampler": sampler, "seed": 3}
    numbers = dv.View(np.arange(200))._minibatches(size, **options)
    with dv.engine(engine):
        for batch, rows in zip(z._minibatches(size, **options), numbers, strict=True):
            np.testing.assert_array_equal(batch(), whole[rows()])
        for batch in z._loader(size, **options):
            assert batch().shape[1:] == (3, 5)


def test_batches_of_computed_rows_see_later_writes_and_read_statistics_once():
    x = np.arange(40.0).reshape(10, 4)
    d = dv.View(x)
    batches = (d * 2 - d._max())._minibatches(4, tail="drop")
    first = batches[0]()
    x[0] = 100
    np.testing.assert_array_equal(batches[0]()[1:], first[1:])
    np.testing.assert_array_equal(batches[0]()[0], [161.0] * 4)


@pytest.mark.parametrize("sampler", ["linear", "permutation", "uniform", "part-linear-permutation"])
def test_a_pickle_of_minibatches_holds_the_data_once(sampler):
    x = np.arange(20_000.0)
    batches = dv.View(x)._minibatches(3, sampler=sampler)
    packed = pickle.dumps(batches)
    assert len(packed) < x.nbytes + 5000
    again = pickle.loads(packed)
    np.testing.assert_array_equal(again[7](), batches[7]())
    np.testing.assert_array_equal(again[-1](), batches[-1]())


# ---------------------------------------------------------------- one law for arrays and streams


@pytest.mark.parametrize("tail", ["short", "drop", "pad"])
@pytest.mark.parametrize("count", [0, 1, 5, 6, 7])
def test_minibatches_of_a_stream_are_those_that_its_loader_hands_out(tail, count):
    def samples():
        return ({"x": np.arange(3) * number, "y": number} for number in range(count))

    stream = dv.View(samples)
    batches = [(b.x(), b.y(), b._valid()()) for b in stream._minibatches(3, tail=tail)]
    handed = [(b.x(), b.y(), b._valid()()) for b in stream._loader(3, tail=tail)]
    assert len(batches) == len(handed)
    for ours, theirs in zip(batches, handed, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    if tail == "pad" and count % 3:
        assert batches[-1][2].tolist() == [place < count % 3 for place in range(3)]


def test_one_sentence_says_of_arrays_streams_and_loaders_that_rows_are_left():
    said = "[25] rows make no whole batches of 3: 2 are left"
    rows, stream = dv.View(np.arange(5)), dv.View(lambda: iter(range(5)))
    for refused in (
        lambda: rows._minibatches(3, tail="error"),
        lambda: rows._loader(3, tail="error"),
        lambda: list(stream._minibatches(3, tail="error")),
        lambda: list(stream._loader(3, tail="error")),
    ):
        with pytest.raises(ValueError, match=said):
            refused()


@pytest.mark.parametrize("sampler", ["token_budget", "bucket"])
def test_batches_of_equal_calls_are_equal_and_can_be_added(sampler):
    lengths = np.arange(23) % 5 + 1
    d = dv.View(x=np.arange(23), length=lengths)

    def batches(seed):
        chosen = dv.samplers.bucket(12, "length")
        if sampler == "token_budget":
            chosen = dv.samplers.token_budget("length", 12)
        return d._minibatches(sampler=chosen, seed=seed)

    assert batches(1) == batches(1)
    assert batches(1).x == batches(1).x
    assert not bool(batches(1).x == batches(2).x)
    for total, batch in zip(batches(1).x + batches(1).x, batches(1), strict=True):
        assert_same(total(), batch.x() * 2)
