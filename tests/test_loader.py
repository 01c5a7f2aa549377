"""Loaders: epochs, last batches, ranks, resuming, failures, streams."""

import collections
import gc
import itertools
import json
import math
import pickle
import sys
import types
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
import resuming
from children import printed
from dataview.samplers import given as given_orders
from loading import dataset, flat, numbered, rows
from resuming import SAMPLERS, N, noisy, trace


def first(loader, count):
    return [batch.y().tolist() for batch in itertools.islice(loader, count)]


def made(n, bad=()):
    return dv.View(numbered(bad), _length=n)


# -------------------- batches --------------------


def test_a_view_is_iterated_with_defaults():
    assert [sample.y() for sample in dataset(3)] == [0, 1, 2]
    assert rows(dataset(3)._loader()) == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("n", "size", "options", "expected"),
    [
        (10, 3, {}, [3, 3, 3, 1]),
        (10, 3, {"tail": "drop"}, [3, 3, 3]),
        (10, 3, {"tail": "pad"}, [3, 3, 3, 3]),
        (9, 3, {"tail": "error"}, [3, 3, 3]),
        (2, 5, {}, [2]),
        (2, 5, {"tail": "drop"}, []),
        (2, 5, {"tail": "pad"}, [5]),
        (0, 2, {}, []),
        (0, 2, {"tail": "pad"}, []),
        (4, 2, {}, [2, 2]),
        (10, 3, {"num_samples": 5}, [3, 2]),
        (10, 3, {"num_batches": 2}, [3, 3]),
        (10, 1, {"num_batches": 6}, [1] * 6),
        (10, 3, {"sampler": "uniform", "num_batches": 5}, [3] * 5),
        (10, 3, {"sampler": "uniform"}, [3, 3, 3, 1]),
    ],
)
def test_the_batches_of_an_epoch(n, size, options, expected):
    loader = dataset(n)._loader(size, **options)
    assert len(loader) == loader.num_batches() == len(expected)
    assert type(loader.num_batches()) is int
    for _ in range(2):
        assert [len(batch) for batch in loader] == expected


def test_a_batch_is_a_view_with_the_fields_of_the_data():
    d = dataset(N)
    (batch,) = itertools.islice(d._loader(4, "permutation", seed=3), 1)
    order = batch.y()
    assert isinstance(batch, dv.View)
    assert (batch._fields(), batch._shape(), len(batch)) == (("x", "y"), (4,), 4)
    assert bool(batch == d[order])
    assert batch().dtype == d[:4]().dtype
    assert bool(batch[1:3].x == d[order[1:3]].x)


@pytest.mark.parametrize("key", [1, slice(1, 3), [0, 2], np.array([True, False, True, False])])
def test_a_part_of_a_batch_is_one_of_the_rows(key):
    d = dataset(N)
    batch, rows = next(iter(d._loader(4))), d[:4]
    assert repr(batch[key]) == repr(rows[key])
    assert batch[key]._fields() == rows[key]._fields()
    np.testing.assert_array_equal(batch[key](), rows[key]())
    np.testing.assert_array_equal(batch[key]._asdict()["y"], rows[key].y())
    assert [repr(row) for row in batch] == [repr(row) for row in rows]


def test_windows_metadata_nested_members_and_computed_fields_are_in_a_batch():
    X = np.arange(20.0).reshape(5, 4)
    d = dv.View(X, a=np.s_[:3], pos=dv.field(np.s_[1:], u=0), _meta={"": {"unit": "mm"}})
    d.double = dv.View(X)[:, 0] * 2
    (batch,) = itertools.islice(d._loader(2), 1)
    np.testing.assert_array_equal(batch(), X[:2])
    np.testing.assert_array_equal(batch.a(), X[:2, :3])
    np.testing.assert_array_equal(batch.pos.u(), X[:2, 1])
    np.testing.assert_array_equal(batch.double(), X[:2, 0] * 2)
    assert dict(batch._meta) == {"unit": "mm"}
    nested = dv.View(part={"a": np.arange(4), "b": np.ones((4, 2))}, y=np.arange(4))
    assert [b.part.a().tolist() for b in nested._loader(3)] == [[0, 1, 2], [3]]


@pytest.mark.parametrize(
    "data",
    [
        np.arange(12.0)[::2],
        np.asfortranarray(np.arange(12.0).reshape(6, 2)),
        np.arange(6, dtype=">i4"),
        np.array(["a", "bc", "", "d", "e", "f"]),
        np.array([b"", 1, "x", 2, dv, 2.5], object),
        np.arange(6).astype("M8[D]"),
        np.zeros(6, [("u", "i4"), ("v", "f8", 2)]),
        np.zeros((6, 0)),
    ],
)
@pytest.mark.parametrize("options", [{}, {"workers": 2}])
def test_data_of_every_kind(data, options):
    loader = dv.View(data)._loader(4, **options)
    found = [np.asarray(batch() if isinstance(batch, dv.View) else batch) for batch in loader]
    assert [len(part) for part in found] == [4, 2]
    np.testing.assert_array_equal(np.concatenate(found), data)
    loader.close()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("y", np.array([0, 1])),
        (("y", "x"), (np.array([0, 1]), np.array([[0.0, 1], [2, 3]]))),
        (["y"], {"y": np.array([0, 1])}),
        ({"label": "y"}, {"label": np.array([0, 1])}),
    ],
)
def test_batches_in_the_form_that_is_asked_for(fields, expected):
    found = next(dataset(N)._loader(2, fields=fields))
    assert type(found) is type(expected)
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for ours, theirs in pairs:
        np.testing.assert_equal(ours, theirs)


def test_fields_that_nobody_has_declared_are_asked_for_after_a_probe():
    d = made(4)
    with pytest.raises(AttributeError, match=r"field 'y' is unknown until .*call _probe\(\)"):
        d._loader(2, fields=("y",))
    assert next(d._probe()._loader(2, fields=("y",)))[0].tolist() == [0, 1]


def test_only_the_fields_asked_for_are_read():
    audio = numbered()
    d = dv.View(audio=dv.View(audio, _length=4), length=np.array([3, 1, 2, 4]))
    sampler = dv.samplers.bucket(by="length")
    assert sorted(np.concatenate(list(d._loader(2, sampler, fields="length")))) == [1, 2, 3, 4]
    assert audio.asked == []


def test_a_batch_is_never_overwritten_and_shares_nothing():
    d = dataset(N)
    for options in ({}, {"workers": 2, "prefetch": 3}):
        with d._loader(4, "permutation", **options) as loader:
            kept = next(loader)
            copy = kept.x(copy=True)
            list(loader)
            np.testing.assert_array_equal(kept.x(), copy)
            kept.x -= 100
    np.testing.assert_array_equal(d.x(), dataset(N).x())


def test_the_fields_of_a_padded_batch_are_its_memory():
    *_, last = dataset(5)._loader(3, tail="pad")
    assert not last._valid()().all()
    for name in last._fields():
        assert np.shares_memory(last[name](), last[name]())


def test_padding_is_marked():
    loader = dataset(5)._loader(3, tail="pad")
    batches = list(loader)
    assert [b.y().tolist() for b in batches] == [[0, 1, 2], [3, 4, 0]]
    assert [b._valid()().tolist() for b in batches] == [[True] * 3, [True, True, False]]
    assert [b.y._valid()().tolist() for b in batches][1] == [True, True, False]
    assert loader.valid.tolist() == [True, True, False]


# -------------------- epochs --------------------


def told(loader, count):
    """What Chainer's contract is about, after each of so many batches."""
    found = []
    for _ in range(count):
        batch = next(loader).y().tolist()
        found.append((batch, loader.epoch, round(loader.epoch_detail, 9), loader.is_new_epoch))
    return found


def test_an_epoch_without_repeat():
    loader = dataset(5)._loader(2)
    assert loader.previous_epoch_detail is None
    assert told(loader, 1) == [([0, 1], 0, 0.4, False)]
    assert loader.previous_epoch_detail == 0.0
    assert told(loader, 2) == [([2, 3], 0, 0.8, False), ([4], 1, 1.0, True)]
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(loader)
    assert (loader.epoch, loader.epoch_detail) == (1, 1.0)


def test_a_divisible_epoch_has_no_empty_batch():
    loader = dataset(4)._loader(2)
    assert told(loader, 2) == [([0, 1], 0, 0.5, False), ([2, 3], 1, 1.0, True)]
    assert next(loader, None) is None


@pytest.mark.parametrize(
    ("n", "size", "straddle", "expected"),
    [
        (5, 2, True, [([0, 1], 0, 0.4, False), ([2, 3], 0, 0.8, False), ([4, 0], 1, 1.2, True),
                      ([1, 2], 1, 1.6, False), ([3, 4], 2, 2.0, True)]),
        (5, 2, False, [([0, 1], 0, 0.4, False), ([2, 3], 0, 0.8, False), ([4], 1, 1.0, True),
                       ([0, 1], 1, 1.4, False)]),
        (2, 5, True, [([0, 1, 0, 1, 0], 2, 2.5, True)]),
        (2, 5, False, [([0, 1], 1, 1.0, True), ([0, 1], 2, 2.0, True)]),
    ],
)  # fmt: skip
def test_epochs_that_repeat(n, size, straddle, expected):
    loader = dataset(n)._loader(size, repeat=True, straddle=straddle)
    assert told(loader, len(expected)) == expected


def test_each_epoch_has_an_order_of_its_own():
    loader = dataset(100)._loader(10, "permutation")
    epochs = [flat(rows(loader)) for _ in range(3)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(100))] * 3
    assert epochs[0] != epochs[1] != epochs[2]
    other = dataset(100)._loader(10, "permutation", seed=1)
    assert flat(rows(other)) not in epochs


def test_for_goes_on_with_an_interrupted_epoch_and_reset_begins_it_again():
    whole = rows(dataset(N)._loader(4, "permutation"))
    loader = dataset(N)._loader(4, "permutation", prefetch=2)
    assert first(loader, 2) == whole[:2]
    assert rows(loader) == whole[2:]
    second = rows(loader)
    assert second != whole
    assert first(loader, 1) != second[:1]
    loader.reset()
    third = first(loader, 3)
    loader.reset()
    assert first(loader, 3) == third
    loader.close()


def test_loaders_of_one_dataset_do_not_disturb_each_other_or_numpy():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    d = dataset(N)
    alone = rows(d._loader(4, "permutation"))
    left, right = d._loader(4, "permutation"), d._loader(4, "permutation", workers=2)
    together = [(a.y().tolist(), b.y().tolist()) for a, b in zip(left, right, strict=True)]
    assert together == [(batch, batch) for batch in alone]
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    right.close()


def test_len_is_known_unless_there_is_no_end():
    endless = dv.View(lambda number: {"y": number}, _length=math.inf)
    loader = endless._loader(3)
    assert first(loader, 2) == [[0, 1, 2], [3, 4, 5]]
    assert loader.num_batches() == math.inf
    with pytest.raises(TypeError, match="never end"):
        len(loader)
    assert rows(endless._loader(2, num_samples=3)) == [[0, 1], [2]]
    assert rows(endless._loader(2, "part-linear", num_samples=3)) == [[0, 1], [2]]
    with pytest.raises(dv.StreamError, match="is visited in order"):
        endless._loader(2, dv.samplers.linear(by="y", label=0))


# -------------------- shards --------------------


@pytest.mark.parametrize(
    ("n", "ranks", "even", "expected"),
    [
        (10, 4, "short", [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]),
        (10, 4, "drop", [[0, 4], [1, 5], [2, 6], [3, 7]]),
        (10, 4, "pad", [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]),
        (1, 4, "short", [[0], [], [], []]),
        (1, 4, "drop", [[], [], [], []]),
        (1, 4, "pad", [[0], [0], [0], [0]]),
    ],
)
def test_what_each_rank_has(n, ranks, even, expected):
    loaders = [dataset(n)._loader(2, shard=(r, ranks), even=even) for r in range(ranks)]
    found = [rows(loader) for loader in loaders]
    assert [flat(batches) for batches in found] == expected
    counts = [len(dataset(n)._loader(2, shard=(r, ranks), even=even)) for r in range(ranks)]
    assert counts == list(map(len, found))
    if even == "pad" and n == 10:
        assert [b.valid.tolist() for b in loaders[2:]] == [[False], [False]]


@given(
    st.integers(0, 40),
    st.integers(1, 5),
    st.integers(1, 5),
    st.sampled_from(["linear", "permutation"]),
    st.sampled_from(["short", "drop", "pad"]),
)
def test_shards_are_disjoint_and_cover(n, ranks, size, sampler, even):
    found = [
        [(batch.y().tolist(), loader.valid) for batch in loader]
        for loader in (
            dataset(n)._loader(size, sampler, shard=(rank, ranks), even=even)
            for rank in range(ranks)
        )
    ]
    sizes = [sum(len(batch) for batch, _ in batches) for batches in found]
    assert max(sizes) - min(sizes) <= (even == "short")
    if even != "short":
        assert len({len(batches) for batches in found}) == 1
    real = [
        row
        for batches in found
        for batch, valid in batches
        for row, true in zip(batch, [True] * len(batch) if valid is None else valid, strict=True)
        if true
    ]
    assert len(set(real)) == len(real)
    expected = n - n % ranks if even == "drop" else n
    assert len(real) == expected
    if even != "drop":
        assert sorted(real) == list(range(n))


def test_ranks_with_a_batch_sampler_take_turns():
    sampler = [[0, 1], [2], [3, 4, 5], [6], [7]]
    found = [rows(dataset(N)._loader(sampler=sampler, shard=(r, 2))) for r in range(2)]
    assert found == [[[0, 1], [3, 4, 5], [7]], [[2], [6]]]
    padded = [rows(dataset(N)._loader(sampler=sampler, shard=(r, 2), even="pad")) for r in range(2)]
    assert padded == [[[0, 1], [3, 4, 5], [7]], [[2], [6], [0, 1]]]


# -------------------- resuming --------------------


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize(("workers", "prefetch"), [(0, 0), (2, 1)])
def test_before_and_after_are_the_uninterrupted_run(name, workers, prefetch):
    def loader(**options):
        return resuming.loader(name, **options)

    total = 3 * len(loader())
    whole = trace(loader(), total)
    for cut in range(total + 1):
        with loader(workers=workers, prefetch=prefetch) as begun:
            before = trace(begun, cut)
            state = json.loads(json.dumps(begun.state_dict()))
        with loader(workers=prefetch, prefetch=workers) as resumed:
            resumed.load_state_dict(state)
            assert resumed.state_dict() == state
            assert before + trace(resumed, total - cut) == whole


def test_b35_every_sampler_resumes_in_a_fresh_process_with_worker_processes(tmp_path):
    states, whole = {}, {}
    for name in SAMPLERS:
        begun = resuming.loader(name)
        total = 2 * len(begun) + 1
        cuts = sorted({1, total // 3, len(begun), len(begun) + 1, total - 1})
        cuts = cuts[1::3] if name in resuming.GOING_ON else cuts
        whole[name] = trace(resuming.loader(name), total)
        states[name] = []
        for number in range(total):
            if number in cuts:
                states[name].append((begun.state_dict(), total - number))
            next(begun)
    file = tmp_path / "states.json"
    file.write_text(json.dumps(states))
    found = json.loads(printed(resuming.__file__, file))
    for name, followed in found.items():
        for (_, count), batches in zip(states[name], followed, strict=True):
            assert batches == json.loads(json.dumps(whole[name][-count:])), name


# -------------------- resuming what a user's function orders --------------------


def chainers_own(order, position):
    """An order drawn from the global generator, as in Chainer's example."""
    return np.random.permutation(len(order))  # noqa: NPY002


class Permuted:
    """Orders like those of torch's RandomSampler, drawn from a generator of its own, or none."""

    def __init__(self, seed=None):
        self.random = np.random.default_rng(seed)

    def __iter__(self):
        yield from self.random.permutation(N).tolist()

    def __len__(self):
        return N


class PermutedBatches(Permuted):
    def __iter__(self):
        rows = self.random.permutation(N).tolist()
        yield from (rows[start : start + 3] for start in range(0, N, 3))

    def __len__(self):
        return -(-N // 3)


def rotated(order, position):
    return np.roll(order, 5)


def saved_after(loader, count):
    """What came so far, and the state as it is read from a file."""
    found = [next(loader).y().tolist() for _ in range(count)]
    return found, json.loads(json.dumps(loader.state_dict()))


@pytest.mark.parametrize("prefetch", [0, 3])
@pytest.mark.parametrize("make", [lambda: chainers_own, Permuted, PermutedBatches])
def test_an_order_of_chance_is_kept_in_the_state(make, prefetch):
    size = 1 if make is PermutedBatches else 3
    for cut in range(1, 8):
        with dataset(N)._loader(size, make(), repeat=True, prefetch=prefetch) as begun:
            before, state = saved_after(begun, 8 + cut)
            rest = [next(begun).y().tolist() for _ in range(8 - cut)]
        with dataset(N)._loader(size, make(), repeat=True) as resumed:
            resumed.load_state_dict(state)
            found = [next(resumed).y().tolist() for _ in range(16 - cut)]
            assert found[: 8 - cut] == rest
            assert sorted(flat(before[8:] + rest)) == [*range(N)]
            assert sorted(flat(found[8 - cut :])) == [*range(N)]


@pytest.mark.parametrize("make", [lambda: rotated, lambda: Permuted(1), lambda: PermutedBatches(1)])
def test_an_order_that_can_be_made_again_is_the_same_in_all_epochs(make):
    size = 1 if isinstance(make(), PermutedBatches) else 3
    whole = dataset(N)._loader(size, make(), repeat=True)
    expected = [next(whole).y().tolist() for _ in range(40)]
    for cut in (1, 7, 8, 9, 23, 24, 30):
        _, state = saved_after(dataset(N)._loader(size, make(), repeat=True), cut)
        resumed = dataset(N)._loader(size, make(), repeat=True)
        resumed.load_state_dict(state)
        assert [next(resumed).y().tolist() for _ in range(40 - cut)] == expected[cut:]


def test_the_order_of_a_function_is_made_once_for_each_epoch():
    asked = []

    def noted(order, position):
        asked.append((order.tolist(), position))
        return np.roll(order, 1)

    loader = dataset(4)._loader(2, noted, repeat=True)
    for _ in range(6):
        next(loader)
    orders = [np.roll(np.arange(4), number).tolist() for number in range(3)]
    assert asked == list(zip(orders, [0, 4, 4], strict=True))


@pytest.mark.parametrize("make", [lambda: chainers_own, Permuted])
def test_an_order_of_chance_too_long_for_the_state_is_refused(make, monkeypatch):
    monkeypatch.setattr(given_orders, "KEPT_BYTES", 8 * N - 1)
    _, state = saved_after(dataset(N)._loader(3, make(), repeat=True), 2)
    assert len(json.dumps(state)) < 700
    with pytest.raises(ValueError, match=r"samples would be repeated: .* numpy\.random"):
        dataset(N)._loader(3, make(), repeat=True).load_state_dict(state)
    _, state = saved_after(dataset(N)._loader(3, rotated, repeat=True), 11)
    resumed = dataset(N)._loader(3, rotated, repeat=True)
    resumed.load_state_dict(state)
    assert next(resumed).y().tolist() == np.roll(np.arange(N), 10)[9:12].tolist()


def test_rows_drawn_by_chance_one_by_one_are_refused():
    def random_row():
        return np.random.randint(N)  # noqa: NPY002

    loader = dataset(N)._loader(3, random_row)
    _, state = saved_after(loader, 4)
    loader.load_state_dict(state)
    next(loader)
    with pytest.raises(ValueError, match="gives other rows than the 12 that the state has passed"):
        dataset(N)._loader(3, random_row).load_state_dict(state)
    with pytest.raises(ValueError, match="does not tell which rows the sampler gave"):
        dataset(N)._loader(3, random_row).load_state_dict(state | {"orders": {}})
    with pytest.raises(TypeError, match="orders are a mapping; got 3"):
        dataset(N)._loader(3, random_row).load_state_dict(state | {"orders": 3})


# -------------------- orders without an end --------------------


class Endless:
    def __iter__(self):
        return itertools.cycle(range(4))


def test_an_endless_iterable_is_a_sampler_where_epochs_have_a_length():
    d = dataset(10)
    loader = d._loader(2, itertools.cycle(range(10)), num_batches=7)
    assert rows(loader) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [0, 1], [2, 3]]
    assert rows(loader) == [[4, 5], [6, 7], [8, 9], [0, 1], [2, 3], [4, 5], [6, 7]]
    assert len(loader) == 7
    assert rows(d._loader(2, itertools.cycle(range(3)), num_samples=5)) == [[0, 1], [2, 0], [1]]
    again = d._loader(3, Endless(), num_batches=2)
    assert [rows(again), rows(again)] == [[[0, 1, 2], [3, 0, 1]]] * 2
    batches = d._loader(sampler=itertools.cycle([[0, 1], [5]]), num_batches=3)
    assert rows(batches) == [[0, 1], [5], [0, 1]]
    assert rows(batches) == [[5], [0, 1], [5]]
    ranks = [
        rows(d._loader(2, itertools.cycle(range(10)), num_batches=2, shard=(rank, 2)))
        for rank in range(2)
    ]
    assert ranks == [[[0, 2], [4, 6]], [[1, 3], [5, 7]]]
    found = d._minibatches(2, sampler=itertools.cycle(range(10)), num_batches=7)
    assert [batch.y().tolist() for batch in found][5:] == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    "sampler", [itertools.cycle(range(4)), Endless(), itertools.cycle([[0], [1, 2]])]
)
def test_an_endless_iterable_without_a_length_is_refused(sampler, monkeypatch):
    monkeypatch.setattr(given_orders, "ENOUGH", 1000)
    with pytest.raises(ValueError, match=r"not ended after 1000 .* num_samples= or num_batches="):
        dataset(10)._loader(2, sampler)


@given(st.data())
def test_a_state_is_good_for_other_batch_sizes_and_shards(data):
    n = data.draw(st.integers(1, 30))
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    ranks = data.draw(st.lists(st.integers(1, 3), min_size=len(sizes), max_size=len(sizes)))
    order = flat(rows(dataset(n)._loader(1, "permutation")))
    states, seen = [None], []
    for size, count in zip(sizes, ranks, strict=True):
        loaders = [dataset(n)._loader(size, "permutation", shard=(r, count)) for r in range(count)]
        for loader in loaders:
            if states[-1] is not None:
                loader.load_state_dict(states[-1])
        found = [first(loader, 1) for loader in loaders]
        if loaders[0].epoch or not found[0]:
            break
        seen += flat(flat(found))
        states.append(loaders[0].state_dict())
        assert loaders[0].position == len(seen)
    assert sorted(seen) == sorted(order[: len(seen)])


def test_saving_has_no_side_effect_and_loses_nothing_prefetched():
    loader = dataset(N)._loader(3, "permutation", workers=2, prefetch=4)
    whole = rows(dataset(N)._loader(3, "permutation"))
    found = []
    for batch in loader:
        found.append(batch.y().tolist())
        loader.state_dict()
    assert found == whole
    loader.close()


def test_a_state_at_the_end_of_an_epoch_is_the_start_of_the_next():
    loader = dataset(N)._loader(4, "permutation")
    rows(loader)
    state = loader.state_dict()
    assert (state["epoch"], state["position"]) == (1, 0)
    other = dataset(N)._loader(4, "permutation")
    other.load_state_dict(state)
    assert rows(other) == rows(loader)


def test_only_the_next_batch_is_read_after_resuming():
    source = numbered()
    d = dv.View(source, _length=10**8)
    loader = d._loader(4, "permutation")
    state = loader.state_dict() | {"position": 99 * 10**6}
    resumed = d._loader(4, "permutation")
    resumed.load_state_dict(state)
    batch = next(resumed)
    assert source.asked == batch.y().tolist() == resumed.rows.tolist()
    assert len(source.asked) == 4
    assert sys.getsizeof(pickle.dumps(resumed.state_dict())) < 2000


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (lambda: dataset(N + 1)._loader(4), "length"),
        (lambda: dataset(N)._loader(4, "permutation"), "sampler"),
        (lambda: dataset(N)._loader(4, seed=1), "seed"),
        (lambda: dataset(N)._select("y")._loader(4), "fields"),
    ],
)
def test_a_state_of_something_else_is_refused(other, text):
    state = dataset(N)._loader(4).state_dict()
    with pytest.raises(ValueError, match=text):
        other().load_state_dict(state)
    with pytest.raises(ValueError, match="newer dataview: it is of version 99"):
        dataset(N)._loader(4).load_state_dict(state | {"version": 99})
    with pytest.raises(ValueError, match="position 1000 of 23"):
        dataset(N)._loader(4).load_state_dict(state | {"position": 1000})


@pytest.mark.parametrize("asked", [False, True])
def test_rows_that_a_function_draws_are_not_lost_however_far_ahead_they_are_drawn(asked):
    function = SAMPLERS["function"]()
    with dataset(N)._loader(2, function, num_samples=2, repeat=True, prefetch=5) as loader:
        found = []
        for number in range(12):
            found.append(next(loader).y().tolist())
            if asked:
                assert (loader.epoch_detail, loader.num_batches()) == (number + 1, 1)
            if number % 5 == 4:
                loader.reset()  # at the start of an epoch, so that it changes nothing
    assert flat(found) == [number % N for number in range(24)]


def test_a_function_for_another_field_is_drawn_again_from_the_start():
    def loader():
        return dataset(N)._loader(4, {"y": "permutation", "x": SAMPLERS["function"]()}, repeat=True)

    whole = loader()
    batches = [next(whole).x().tolist() for _ in range(15)]
    begun = loader()
    for _ in range(13):
        next(begun)
    resumed = loader()
    resumed.load_state_dict(begun.state_dict())
    assert [next(resumed).x().tolist() for _ in range(2)] == batches[13:]


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"epoch": -1}, ValueError, "epoch= is at least 0"),
        ({"position": -3}, ValueError, "position= is at least 0"),
        ({"position": "3"}, TypeError, "position= is an integer"),
        ({"handed": None}, TypeError, "handed= is an integer"),
        ({"fingerprint": None}, TypeError, "fingerprint is a mapping; got None"),
        ({"previous": 5}, TypeError, "previous is None, or an epoch and a position; got 5"),
    ],
)
def test_a_state_that_is_none_is_refused(change, kind, text):
    loader = dataset(N)._loader(4)
    state = loader.state_dict()
    with pytest.raises(kind, match=text):
        loader.load_state_dict(state | change)
    with pytest.raises(TypeError, match=r"what state_dict\(\) has returned"):
        loader.load_state_dict([])
    del state["fingerprint"], state["position"]
    with pytest.raises(ValueError, match="lacks position, fingerprint"):
        loader.load_state_dict(state)
    with pytest.raises(TypeError, match=r"pickle its state_dict\(\)"):
        pickle.dumps(loader)


def test_the_fingerprint_tells_options_of_samplers_apart():
    def state(sampler):
        return dataset(N)._loader(1, sampler).state_dict()["fingerprint"]["sampler"]

    labels = [state(dv.samplers.permutation(by="y", label=label)) for label in (2, np.int64(2), 3)]
    assert labels[0] == labels[1] != labels[2]
    weights = [
        state(dv.samplers.label_distribution(by="y", weights={0: weight}, fill=1))
        for weight in (1, np.float64(2), 2.0)
    ]
    assert weights[0] != weights[1] == weights[2]
    json.dumps([labels, weights])


@pytest.mark.parametrize(
    ("given", "size"),
    [
        (np.array, (4,)),
        (list, (4,)),
        (lambda rows: rows.reshape(-1, 4).tolist(), ()),
        (lambda rows: [*rows.reshape(-1, 4)], ()),
        (lambda rows: rows.astype(object), (4,)),
        (lambda rows: collections.deque(rows.tolist()), (4,)),
        (memoryview, (4,)),
    ],
    ids=["array", "list", "batches", "batches in arrays", "objects", "deque", "memory"],
)
@pytest.mark.parametrize("count", [20, 800])
def test_a_state_of_other_rows_that_were_listed_is_refused(count, given, size):
    data, generator = dv.View(x=np.arange(count)), np.random.default_rng(0)
    first, other = (generator.permutation(count) for _ in range(2))
    loader = data._loader(*size, sampler=given(first), repeat=True)
    next(loader)
    state = json.loads(json.dumps(loader.state_dict()))
    assert len(json.dumps(state)) < 4000
    again = data._loader(*size, sampler=given(first.copy()), repeat=True)
    again.load_state_dict(state)
    np.testing.assert_array_equal(next(again).x(), next(loader).x())
    with pytest.raises(ValueError, match="another order"):
        data._loader(*size, sampler=given(other), repeat=True).load_state_dict(state)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda *a: np.arange(N), r"one row number at each call, .* give the row numbers"),
        (lambda: 1.5, r"returned 1.5"),
        (lambda order, position: None, r"gets the order .* got None; rng.permutation"),
        (lambda order, position: order > 3, r"np.flatnonzero"),
        (lambda order, position: [[1], [2, 3]], r"returns the next order, row numbers in one"),
        (lambda data: data, "needs 1"),
        (lambda *, rng: 0, "needs 1 by name"),
        (int, "tells no arguments"),
    ],
)
def test_what_a_sampler_function_gets_and_returns(function, message):
    with pytest.raises(TypeError, match="(?s)sampler function.*" + message):
        next(dataset(N)._loader(2, function))
    with pytest.raises(TypeError, match="(?s)sampler function.*" + message):
        dataset(N)._minibatches(2, sampler=function)[0].y()


@pytest.mark.parametrize("given", [lambda of: InLibrary(of), lambda of: of.astype(object)])
@pytest.mark.parametrize("is_inside", [False, True])
def test_a_state_of_other_labels_is_refused(given, is_inside):
    data, generator = dv.View(x=np.arange(200)), np.random.default_rng(0)
    first, other = (generator.integers(3, size=200) for _ in range(2))

    def loader(labels):
        sampler = dv.samplers.label_permutation(by=given(labels))
        if is_inside:
            sampler = dv.samplers.restricted(sampler, np.arange(200) % 2, 1)
        return data._loader(4, sampler)

    state = json.loads(json.dumps(loader(first).state_dict()))
    loader(first.copy()).load_state_dict(state)
    with pytest.raises(ValueError, match="another order"):
        loader(other).load_state_dict(state)


def of_labels(labels, name):
    return dv.View(x=np.arange(len(labels)), y=labels), dv.samplers.label_permutation(by=name)


@pytest.mark.parametrize(
    "of",
    [
        lambda labels: of_labels(labels, "y"),
        lambda labels: of_labels(labels.astype("U"), "y"),
        lambda labels: of_labels(labels.astype("U").astype(object), "y"),
        lambda labels: of_labels(labels, dv.View(labels)),
        lambda labels: of_labels(labels, dv.View(labels) // 2),
        lambda labels: (dv.View(labels), dv.samplers.weighted(by=dv.View(labels) + 1)),
        lambda labels: (dv.View(labels), dv.samplers.bucket(by=dv.View(labels) + 1)),
        lambda labels: (
            dv.View(labels),
            dv.samplers.restricted(dv.samplers.permutation(), dv.View(labels), 1),
        ),
    ],
    ids=["field", "texts", "objects", "view", "computed", "weights", "lengths", "restricted"],
)
def test_a_state_of_other_values_to_order_by_is_refused(of):
    def loader(labels):
        data, sampler = of(labels)
        return data._loader(4, sampler, num_batches=10)

    first = np.arange(120) % 3
    saved = loader(first)
    next(saved)
    state = json.loads(json.dumps(saved.state_dict()))
    assert len(json.dumps(state)) < 1000
    again = loader(first.copy())
    again.load_state_dict(state)
    assert again.state_dict() == state
    next(again), next(saved)
    np.testing.assert_array_equal(again.rows, saved.rows)
    with pytest.raises(ValueError, match=r"other data, or of another order: .*ordered by"):
        loader(first[::-1].copy()).load_state_dict(state)


def test_a_state_of_an_order_of_parts_is_of_these_parts():
    def loader(first):
        data = dv.concat(dv.View(np.arange(first)), dv.View(np.arange(first, 20)))
        return data._loader(4, "part-permutation-permutation")

    state = json.loads(json.dumps(loader(10).state_dict()))
    loader(10).load_state_dict(state)
    with pytest.raises(ValueError, match="other data, or of another order: parts"):
        loader(5).load_state_dict(state)


@pytest.mark.parametrize(
    ("given", "size", "expected"),
    [
        (lambda rows: rows, 4, [[9, 8, 7, 6], [5, 4, 3, 2], [1, 0]]),
        (lambda rows: rows - 1, 8, [[8, 7, 6, 5, 4, 3, 2, 1], [0, 9]]),
        (lambda rows: rows._minibatches(5), 1, [[9, 8, 7, 6, 5], [4, 3, 2, 1, 0]]),
        (lambda rows: rows._minibatches(6), 1, [[9, 8, 7, 6, 5, 4], [3, 2, 1, 0]]),
        (lambda rows: [rows[:3], rows[7:]], 1, [[9, 8, 7], [2, 1, 0]]),
        (lambda rows: dv.ragged(np.arange(3), lengths=[1, 2]), 1, [[0], [1, 2]]),
        (lambda rows: dv.View(lambda: iter([3, 1, 2]))._probe(), 2, [[3, 1], [2]]),
    ],
    ids=["rows", "computed", "batches", "short batch", "list of views", "ragged", "stream"],
)
def test_a_view_of_row_numbers_is_a_sampler_that_is_read_once(given, size, expected):
    numbers = np.arange(10)[::-1].copy()
    data, rows = dv.View(np.arange(10)), dv.View(numbers)
    loader = data._loader(size, given(rows))
    numbers[...] = 0
    for _ in range(2):
        assert [batch().tolist() for batch in loader] == expected


def test_a_state_of_other_rows_in_a_view_is_refused():
    data, rows = dv.View(np.arange(10)), dv.View(np.arange(10)[::-1].copy())
    saved = data._loader(4, rows)
    next(saved)
    state = json.loads(json.dumps(saved.state_dict()))
    again = data._loader(4, rows[:])
    again.load_state_dict(state)
    assert next(again)().tolist() == next(saved)().tolist()
    with pytest.raises(ValueError, match="another order"):
        data._loader(4, rows - 1).load_state_dict(state)


class InLibrary:
    """An array of another library, as its tensors and series are."""

    def __init__(self, values):
        self.values = values
        self.shape, self.dtype = values.shape, values.dtype

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)


# -------------------- transforms --------------------


def what_is_known(sample):
    return {"told": sample._meta["of"] + sample.y._meta["unit"]}


@pytest.mark.parametrize("options", [{}, {"workers": 1, "kind": "process"}])
def test_a_transform_gets_the_metadata_of_the_data_and_of_fields(options):
    d = dv.View(dataset(2), _meta={"y": {"unit": "m"}, "": {"of": "mine "}})
    with d._loader(2, transform=what_is_known, **options) as loader:
        assert next(loader).told().tolist() == ["mine m"] * 2


@pytest.mark.parametrize("options", [{}, {"workers": 3}, {"prefetch": 2}, {"batch_size": 7}])
def test_random_transforms_follow_from_the_sample_alone(options):
    def values(**options):
        found = {}
        with dataset(N)._loader(**options, sampler="permutation", transform=noisy) as loader:
            for _ in range(2):
                for batch in loader:
                    epoch = loader.epoch - loader.is_new_epoch
                    noise = batch.noise().tolist()
                    found |= {(epoch, y): v for y, v in zip(batch.y().tolist(), noise, strict=True)}
        return found

    expected = values(batch_size=4)
    assert values(**({"batch_size": 4} | options)) == expected
    assert len(set(expected.values())) == 2 * N  # anew for each sample and each epoch


def test_steps_of_a_transform_follow_each_other_with_random_numbers_of_their_own():
    def add(sample, rng):
        return {"y": sample.y, "a": rng.random()}

    def again(sample, rng):
        return {"y": sample.y * 2, "a": sample.a, "b": rng.random()}

    batch = next(dataset(N)._loader(3, transform=[add, again]))
    assert batch.y().tolist() == [0, 2, 4]
    assert not set(batch.a().tolist()) & set(batch.b().tolist())


def test_a_transform_cannot_change_the_data():
    def spoil(sample):
        sample.x()[:] = 0

    def spoil_view(sample):
        sample.x -= 1

    for function in (spoil, spoil_view):
        with pytest.raises(ValueError, match="sample 0, transform"):
            next(dataset(N)._loader(2, transform=function))
    with pytest.raises(TypeError, match="returned None"):
        next(dataset(N)._loader(2, transform=lambda sample: None))


def test_a_sample_of_windows_has_its_fields():
    d = dv.View(np.arange(8).reshape(4, 2), a=np.s_[:1], b=np.s_[1])
    loader = d._loader(4, transform=lambda s: {"a": s.a, "b": s.b})
    batch = next(loader)
    assert (batch.a().tolist(), batch.b().tolist()) == ([[0], [2], [4], [6]], [1, 3, 5, 7])


def test_ragged_samples_are_padded_with_lengths():
    words = [[1, 2, 3], [4], [5, 6]]
    d = dv.View(lambda n: {"words": words[n], "y": n}, _length=3)
    with pytest.raises(ValueError, match=r"field 'words': sample 1 has shape \(1,\), sample 0"):
        next(d._loader(3))
    batch = next(d._loader(3, pad={"words": dv.Pad(-1, length=True)}))
    assert batch.words().tolist() == [[1, 2, 3], [4, -1, -1], [5, 6, -1]]
    assert batch.words_length().tolist() == [3, 1, 2]
    ragged = next(d._loader(3, pad={"words": "ragged"}))
    assert [part.tolist() for part in ragged.words()] == words


def test_an_own_collate_makes_what_it_likes():
    loader = dataset(N)._loader(3, collate=lambda samples: [int(s["y"]) for s in samples])
    assert next(loader) == [0, 1, 2]

    def fail(samples):
        raise KeyError("no")

    with pytest.raises(KeyError, match="samples 0 to 2"):
        next(dataset(N)._loader(3, collate=fail))
    with pytest.raises(AttributeError, match="samples 0 to 2, which are dicts of data"):
        next(dataset(N)._loader(3, collate=lambda samples: [one.y for one in samples]))
    for made in (np.stack, np.array, lambda samples: np.array([samples])):
        with pytest.raises(TypeError, match=r"collate .* made an array of dicts: .* 'x', 'y'"):
            next(dataset(N)._loader(3, collate=made))
    own = next(dataset(N)._loader(3, collate=lambda samples: np.array([{}, {}], object)))
    assert (own() if isinstance(own, dv.View) else own).tolist() == [{}, {}]
    x = dv.View(np.arange(6).reshape(3, 2))
    assert next(x._loader(3, collate=np.stack))().tolist() == x().tolist()
    with pytest.raises(TypeError, match="collate= is a function of a list of samples, dicts"):
        dataset(N)._loader(3, collate=3)


# -------------------- several samplers --------------------


def test_a_secondary_sampler_is_as_long_as_an_epoch_of_an_endless_driver():
    loader = dataset(4)._loader(4, {"y": "uniform", "x": "permutation"})
    assert sorted(next(loader).x()[:, 0].tolist()) == [0, 2, 4, 6]
    with pytest.raises(ValueError, match=r"'x' gives 4 samples, .* drives the epochs, 3"):
        dataset(4)._loader(4, {"y": "uniform", "x": "permutation"}, num_samples=3)


def test_fields_with_samplers_of_their_own():
    d = dataset(6)
    loader = d._loader(2, {"y": "linear", "x": [5, 4, 3, 2, 1, 0]})
    batch = next(loader)
    assert (batch.y().tolist(), batch.x()[:, 0].tolist()) == ([0, 1], [10.0, 8.0])
    endless = d._loader(2, {"y": "linear", "x": "uniform"})
    assert rows(endless) == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(ValueError, match=r"field 'x' gives 2 samples, the first one, .* 6"):
        d._loader(2, {"y": "linear", "x": [0, 1]})
    with pytest.raises(AttributeError, match="no field 'z'"):
        d._loader(2, {"z": "linear"})
    with pytest.raises(AttributeError, match=r"no field 'z' in .*read, before transform="):
        d._loader(2, fields=("z",), transform=lambda batch: {"z": batch["x"]})


def test_a_secondary_field_that_fails_is_none_for_the_transform():
    d = dv.View(a=np.arange(4), b=dv.View(numbered(bad=[2]), _length=4))
    seen = []

    def note(sample):
        seen.append(not sample.b._fields() and sample.b() is None)
        return sample.a()

    loader = d._loader(2, {"a": "linear", "b": "linear"}, transform=note, on_error="skip")
    assert [b().tolist() for b in loader] == [[0, 1], [2, 3]]
    assert seen == [False, False, True, False]
    assert [failure.row for failure in loader.errors] == [2]
    without = d._loader(2, {"a": "linear", "b": "linear"}, on_error="skip")
    assert [b.a().tolist() for b in without] == [[0, 1], [3]]


# -------------------- failures --------------------


@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"workers": 1, "prefetch": 3}])
@pytest.mark.parametrize(
    ("on_error", "tail", "batches"),
    [
        ("skip", "short", [[0, 1], [], [4, 5], [], [8]]),
        ("replace", "short", [[0, 1], [4, 5], [8]]),
        ("replace", "drop", [[0, 1], [4, 5]]),
        (lambda row, error: "skip", "short", [[0, 1], [], [4, 5], [], [8]]),
        (lambda row, error: {"y": -row}, "short", [[0, 1], [-2, -3], [4, 5], [-6, -7], [8]]),
    ],
)
def test_samples_that_fail(options, on_error, tail, batches):
    with made(9, (2, 3, 6, 7))._loader(2, on_error=on_error, tail=tail, **options) as loader:
        for _ in range(2):
            found = list(loader)
            assert [b.y().tolist() if len(b) else [] for b in found] == batches
        assert [f.row for f in loader.errors] == [2, 3, 6, 7] * 2
        assert all(isinstance(f.error.__cause__, ValueError) for f in loader.errors)


@pytest.mark.parametrize("tail", ["short", "drop"])
@pytest.mark.parametrize("bad", [(2,), (0,), (2, 3, 6, 7), (1, 2, 3, 4, 5), (7, 8), ()])
@pytest.mark.parametrize("form", ["function", "map", "transform"])
def test_samples_beside_one_that_is_replaced_are_made_and_collated_once(form, bad, tail):
    made, batches = [], []

    def make(number):
        made.append(int(number))
        if number in bad:
            raise ValueError("rejected")
        return np.int64(number)

    def collate(samples):
        batches.append([int(sample) for sample in samples])
        return np.array(samples)

    plain = dv.View(np.arange(9))
    d, options = {
        "function": (dv.View(make, _length=9), {}),
        "map": (plain._map(make), {}),
        "transform": (plain, {"transform": lambda sample: make(sample())}),
    }[form]
    made.clear()
    good = [number for number in range(9) if number not in bad]
    wanted = [good[start : start + 2] for start in range(0, len(good), 2)]
    if tail == "drop":
        wanted = [batch for batch in wanted if len(batch) == 2]
    loader = d._loader(2, collate=collate, on_error="replace", tail=tail, **options)
    found = [batch().tolist() for batch in loader]
    assert [batch for batch in found if batch] == wanted == [one for one in batches if one]
    assert sorted(set(made)) == list(range(9 if tail == "short" else max(made) + 1))
    assert len(made) == len(set(made))
    assert [failure.row for failure in loader.errors] == [n for n in bad if n in made]


def test_a_sample_that_fails_behind_a_secondary_field_is_one_failure():
    d = dv.View(a=np.arange(6), b=dv.View(numbered(bad=[1, 3]), _length=6))
    asked = []

    def summed(sample):
        return sample.a() + sample.b.y() if sample.a() != 3 else np.array(-3)

    def answer(row, error):
        asked.append((row, error.__notes__))
        return "replace"

    loader = d._loader(2, {"a": "linear", "b": "linear"}, transform=summed, on_error=answer)
    assert [batch().tolist() for batch in loader] == [[0, 4], [-3, 8], [10]]
    assert [failure.row for failure in loader.errors] == [1, 3]
    ((row, notes),) = asked
    assert row == 1 and "before that: sample 1, made by Counting: bad 1" in notes[0]


def test_places_are_those_before_samples_failed():
    loader = made(9, (2, 3, 6, 7))._loader(2, on_error="skip")
    assert [loader.places.tolist() for _ in loader] == [[0, 1], [], [4, 5], [], [8]]


@pytest.mark.parametrize("probed", [False, True])
def test_b41_failures_leave_the_order_as_it_is(probed):
    def item(number):
        if number + 1 in (3, 4, 7, 8):
            raise ValueError("rejected")
        return {"item": number + 1, "pair": np.full(2, number + 1)}

    d = dv.View(item, _length=9)
    d = d._probe() if probed else d
    loader = d._loader(2, on_error="skip")
    found = [
        (batch.item().tolist(), batch.pair()[:, 0].tolist(), loader.places.tolist())
        for batch in loader
    ]
    items = [[1, 2], [], [5, 6], [], [9]]
    assert found == [(batch, batch, [one - 1 for one in batch]) for batch in items]
    assert [(failure.row, str(failure.error.__cause__)) for failure in loader.errors] == [
        (row, "rejected") for row in (2, 3, 6, 7)
    ]
    filled = d._loader(2, on_error="replace")
    assert [batch.item().tolist() for batch in filled] == [[1, 2], [5, 6], [9]]
    assert filled.errors[0].row == 2

    given = []
    both = dv.zip(label=np.arange(1, 10), item=d)
    sampler = {"label": "linear", "item": "linear"}

    def processed(sample):
        given.append(sample.item() if not sample.item._fields() else sample.item.item())
        return sample.label()

    second = both._loader(3, sampler, transform=processed, on_error="skip")
    assert [batch().tolist() for batch in second] == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert given == [1, 2, None, None, 5, 6, None, None, 9]
    assert [failure.row for failure in second.errors] == [2, 3, 6, 7]


def test_an_empty_batch_has_the_fields_with_no_rows():
    def bad(sample):
        raise ValueError

    (batch,) = dataset(2)._loader(2, transform=bad, on_error="skip")
    assert (batch.x._shape(), batch.y._shape(), len(batch)) == ((0, 2), (0,), 0)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("on_error", ["skip", "replace"])
@pytest.mark.parametrize(
    "view", [dataset(4), dv.View(lambda: ({"y": n} for n in range(4)))], ids=["rows", "stream"]
)
def test_a_collate_function_gets_no_sample_that_was_left_out(view, on_error, workers):
    made = []

    def bad(sample):
        raise ValueError

    options = {"transform": bad, "collate": made.append, "on_error": on_error, "workers": workers}
    with view._loader(2, **options) as loader:
        assert all(len(batch) == 0 for batch in loader)
        assert [failure.row for failure in loader.errors] == [0, 1, 2, 3]
    assert made == []


NOTHING_KNOWN = {"x": np.zeros(2, "f4"), "y": 1}
DECLARED = {"x": ((2,), "f4"), "y": int}


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    "view",
    [
        dv.View(lambda: iter([NOTHING_KNOWN] * 2)),
        dv.View(lambda: iter([NOTHING_KNOWN] * 2))._probe(),
        dv.View(lambda: iter([NOTHING_KNOWN] * 2), _fields=DECLARED),
        dv.View(lambda number: NOTHING_KNOWN, _length=2),
        dv.View(lambda number: 1 / 0, _length=2, _fields=DECLARED),
    ],
    ids=["stream", "probed", "declared", "function", "failing function"],
)
def test_an_empty_batch_of_samples_has_the_fields_that_are_known(view, workers):
    loader = view._loader(2, transform=lambda sample: 1 / 0, on_error="skip", workers=workers)
    (batch,) = loader
    found = {name: (batch[name]._shape(), batch[name]._dtype()) for name in batch._fields()}
    assert found == {"x": ((0, 2), np.dtype("f4")), "y": ((0,), np.dtype(int))}
    assert len(loader.errors) == 2


def failing_from_2_to_4(number):
    if number in (2, 3):
        raise ValueError(number)
    return {"image": np.zeros((3, 2), "f4"), "label": number}


def failing_rows(sample):
    return failing_from_2_to_4(int(sample.y()))


def stacked(samples):
    return {"labels": np.stack([sample["label"] for sample in samples])}


NUMBERS = dv.View(failing_from_2_to_4, _length=6)


@pytest.mark.parametrize(
    ("view", "options", "shapes"),
    [
        (NUMBERS, {}, {"image": (0, 3, 2), "label": (0,)}),
        (NUMBERS._probe(), {}, {"image": (0, 3, 2), "label": (0,)}),
        (NUMBERS._probe(), {"fields": ["label"]}, {"label": (0,)}),
        (dataset(6)._map(failing_rows), {}, {"image": (0, 3, 2), "label": (0,)}),
        (
            dataset(6)._map(failing_rows, fields=["image", "label"]),
            {},
            {"image": (0, 3, 2), "label": (0,)},
        ),
        (dataset(6), {"transform": failing_rows}, {"image": (0, 3, 2), "label": (0,)}),
        (NUMBERS, {"collate": stacked}, {"labels": (0,)}),
        (NUMBERS, {"pad": 0}, {"image": (0, 3, 2), "label": (0,)}),
        (
            dv.View(lambda: map(np.arange, range(1, 7))),
            {"transform": lambda s: failing_from_2_to_4(s._shape()[0] - 1), "pad": 0},
            None,
        ),
    ],
)
def test_b41_an_empty_batch_has_the_fields_of_all_batches(view, options, shapes):
    for workers in (0, 2):
        with view._loader(2, on_error="skip", workers=workers, **options) as loader:
            found = [(batch, len(loader.rows)) for batch in loader]
        batches = [batch for batch, _ in found]
        assert [count for _, count in found] == [2, 0, 2]
        assert [failure.row for failure in loader.errors] == [2, 3]
        if shapes is not None:
            named = batches[1]._asdict() if isinstance(batches[1], dv.View) else batches[1]
            assert {name: array.shape for name, array in named.items()} == shapes
            whole = batches[0]._asdict() if isinstance(batches[0], dv.View) else batches[0]
            assert [a.dtype for a in named.values()] == [a.dtype for a in whole.values()]


@pytest.mark.parametrize("failing", [(2, 3), (0, 1, 2, 3, 4, 5)])
@pytest.mark.parametrize("pad", [None, 0, "ragged"])
@pytest.mark.parametrize("workers", [0, 2])
def test_b41_an_empty_batch_of_samples_of_any_lengths_has_their_fields(failing, pad, workers):
    def sample(number):
        if number in failing:
            raise ValueError("broken")
        return {"plain": np.zeros(3), "words": np.arange(number), "boxes": np.ones((number, 2))}

    declared = {"plain": (3, float), "words": (None, int), "boxes": ((None, 2), float)}
    view = dv.View(sample, _length=6, _fields=declared)
    with view._loader(2, on_error="skip", workers=workers, pad=pad) as loader:
        empty = [batch for batch in loader if not len(loader.rows)]
    assert len(empty) == len(failing) // 2
    for batch in empty:
        assert batch._fields() == ("plain", "words", "boxes")
        assert [len(part) for _, part in batch._iter_fields()] == [0, 0, 0]
        assert [part._ndim() for _, part in batch._iter_fields()] == [2, 2, 3]
        assert [part._dtype() for _, part in batch._iter_fields()] == [float, int, float]
        assert batch.plain().shape == (0, 3)


WORDS = [[1], [2, 3], [4], [5, 6, 7]]
WORD_SAMPLES = [{"w": words, "y": number} for number, words in enumerate(WORDS)]


@pytest.mark.parametrize("failing", [(2, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "view",
    [
        dv.View(w=WORDS, y=range(4)),
        dv.View(WORD_SAMPLES.__getitem__, _length=4)._probe(),
        dv.View(lambda: iter(WORD_SAMPLES), _fields={"w": ((None,), int), "y": int}),
    ],
    ids=["arrays", "function", "stream"],
)
def test_a_batch_of_which_each_transform_failed_is_ragged_as_its_source(view, workers, failing):
    def transform(sample):
        if sample.y() in failing:
            raise ValueError("broken")
        return sample

    numbers = iter((range(2), range(2, 4)))
    with view._loader(2, transform=transform, on_error="skip", workers=workers) as loader:
        for batch in loader:
            kept = [number for number in next(numbers) if number not in failing]
            assert [row().tolist() for row in batch.w] == [WORDS[number] for number in kept]
            assert batch.w._shape() == (len(kept), None)
            assert batch.w._dtype() == np.dtype(int)
            width = max((len(WORDS[number]) for number in kept), default=0)
            expected = [WORDS[n] + [0] * (width - len(WORDS[n])) for n in kept]
            assert batch.w._pad(0)().tolist() == expected


@pytest.mark.parametrize("cut", range(6))
def test_replacing_resumes_exactly(cut):
    def loader(**options):
        d = made(17, (1, 2, 7, 11, 12))
        return d._loader(2, "permutation", on_error="replace", repeat=True, **options)

    whole = first(loader(), 14)
    begun = loader(workers=1)
    before = first(begun, cut)
    resumed = loader()
    resumed.load_state_dict(json.loads(json.dumps(begun.state_dict())))
    assert before + first(resumed, 14 - cut) == whole
    begun.close()


def test_replacing_counts_the_batches_that_are_left():
    loader = made(9, (2, 3, 6, 7))._loader(2, on_error="replace")
    counts = []
    for _ in loader:
        counts.append((loader.num_batches(), loader.position))
    assert counts[0] == (5, 2)
    assert counts[-1][0] == 3


def test_an_error_names_the_sample_and_can_be_met_again():
    d = made(9, (5,))
    for options in ({}, {"workers": 2}):
        with d._loader(2, **options) as loader:
            assert first(loader, 2) == [[0, 1], [2, 3]]
            for _ in range(2):
                with pytest.raises(ValueError, match="sample 5, made by Counting: bad 5") as caught:
                    next(loader)
            assert isinstance(caught.value.__cause__, ValueError)
            assert loader.position == 4


def test_a_transform_that_fails_is_named_with_the_sample():
    def halve(sample):
        return 1 / sample.y()

    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="sample 0, transform"):
        next(dataset(N)._loader(2, transform=halve, workers=1))


@pytest.mark.parametrize(
    "options", [{"straddle": True}, {"tail": "drop"}, {"tail": "drop", "workers": 2}]
)
def test_replacing_without_end_is_an_error(options):
    loader = made(5, range(5))._loader(2, repeat=True, on_error="replace", **options)
    with loader, pytest.raises(RuntimeError, match=r"whole epoch make no batch.* last is sample"):
        next(loader)
    few = made(9, [0, 1, 2, 4, 5, 6, 8])
    with few._loader(3, repeat=True, straddle=True, on_error="replace") as loader:
        assert first(loader, 3) == [[3, 7, 3], [7, 3, 7], [3, 7, 3]]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"on_error": lambda row, error: None}, "on_error= returned None; return 'skip'"),
        ({"transform": lambda sample: {}}, r"sample 0: the transform .* returned \{\}"),
        ({"transform": lambda sample: ()}, r"sample 0: the transform .* returned \(\)"),
        ({"collate": lambda samples: None}, "collate .* returned None, which is no batch"),
    ],
)
def test_a_function_that_returns_nothing_is_told(options, text):
    bad = [0] if "on_error" in options else []
    with pytest.raises(TypeError, match=text):
        next(made(3, bad)._loader(2, **options))


def test_too_many_errors_are_an_error():
    loader = made(9, (2, 3, 6))._loader(2, on_error="skip", max_errors=2)
    with pytest.raises(RuntimeError, match="3 samples have failed, more than max_errors=2"):
        list(loader)
    assert len(list(made(9, (2, 3, 6))._loader(2, on_error="skip", max_errors=3))) == 5


# -------------------- streams --------------------


PAIRS_OF_3 = (slice(0, 2), slice(2, 3))


def stream(n=13):
    return dv.View(lambda: ({"y": number} for number in range(n)))


@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"prefetch": 2}])
def test_a_stream_of_unknown_length(options):
    with stream()._loader(4, **options) as loader:
        with pytest.raises(TypeError, match="unknown until all has been read"):
            len(loader)
        found = []
        while len(found) < loader.num_batches():
            found.append(next(loader).y().tolist())
        assert found == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12]]
        assert loader.num_batches() == len(loader) == 4
        assert rows(loader) == found
    divisible = stream(8)._loader(4)
    assert [divisible.is_new_epoch for _ in divisible] == [False, True]
    assert divisible.num_batches() == 2


def test_a_spent_iterator_is_refused():
    loader = dv.View(iter([{"y": 1}, {"y": 2}, {"y": 3}]))._loader(2)
    assert rows(loader) == [[1, 2], [3]]
    with pytest.raises(dv.StreamError, match="spent"):
        rows(loader)


@pytest.mark.parametrize(
    "names", [{"a": "b", "b": "a"}, {"q": "a"}, {"a": "b"}, {"p": "a", "q": "a"}]
)
@pytest.mark.parametrize(
    "options",
    [{}, {"workers": 2}, {"pool": 1}, {"pad": 0}, {"transform": lambda sample: sample}],
    ids=lambda options: next(iter(options), "plain"),
)
def test_fields_of_a_stream_come_under_the_names_that_are_asked_for(names, options):
    columns = {"a": [1, 2, 3], "b": [10, 20, 30]}
    samples = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    pairs = dv.View(lambda: iter(samples))
    streams = {
        "samples": pairs,
        "probed": dv.View(lambda: iter(samples))._probe(),
        "rows": dv.View(lambda: iter(dv.View(**columns))),
        "mapped": pairs._map(lambda s: {"a": s.a(), "b": s.b()}),
    }
    for name, data in streams.items():
        with data._loader(2, fields=names, **options) as loader:
            found = [{n: part.tolist() for n, part in batch.items()} for batch in loader]
        rows = [{new: columns[old][part] for new, old in names.items()} for part in PAIRS_OF_3]
        assert found == rows, name


@pytest.mark.parametrize("pool", [1, 5, 100, "64B", "1kB"])
def test_a_pool_shuffles_a_stream(pool):
    loader = stream(30)._loader(4, pool=pool, seed=2)
    epochs = [flat(rows(loader)) for _ in range(2)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(30))] * 2
    assert (epochs[0] == list(range(30))) is (pool == 1)
    again = stream(30)._loader(7, pool=pool, seed=2, workers=2)
    assert [flat(rows(again)) for _ in range(2)] == epochs
    again.close()


@pytest.mark.parametrize("options", [{}, {"workers": 2, "prefetch": 2}, {"shard": (1, 2)}])
@pytest.mark.parametrize("pool", [None, 4])
def test_a_stream_resumes_by_reading_it_again(options, pool):
    def loader(**options):
        return stream()._loader(3, pool=pool, repeat=True, transform=noisy, **options)

    def batches(loader, count):
        found = itertools.islice(loader, count)
        return [(b.y().tolist(), b.noise().tolist()) for b in found]

    shard = {name: value for name, value in options.items() if name == "shard"}
    whole = batches(loader(**shard), 12)
    for cut in range(12):
        with loader(**options) as begun:
            before = batches(begun, cut)
            state = begun.state_dict()
        resumed = loader(**shard)
        resumed.load_state_dict(state)
        assert before + batches(resumed, 12 - cut) == whole


def test_nothing_of_an_iterator_is_lost_when_a_batch_fails():
    def bad(sample):
        if sample.y() == 5 and broken:
            raise ValueError("no")
        return {"y": sample.y()}

    broken = [1]
    with dv.View(iter([{"y": n} for n in range(9)]))._loader(
        2, transform=bad, workers=2, prefetch=2
    ) as loader:
        assert first(loader, 2) == [[0, 1], [2, 3]]
        with pytest.raises(ValueError, match="sample 5"):
            next(loader)
        broken.clear()
        assert rows(loader) == [[4, 5], [6, 7], [8]]


def test_a_stream_that_fails_does_not_pretend_to_be_at_its_end():
    def samples():
        yield from ({"y": number} for number in range(5))
        raise OSError("the line is cut")

    loader = dv.View(samples)._loader(2)
    for _ in range(2):  # read again from the start, and met again
        assert next(loader).y().tolist() == [0, 1]
        assert next(loader).y().tolist() == [2, 3]
        with pytest.raises(OSError, match="the line is cut"):
            next(loader)
        with pytest.raises(OSError, match="the line is cut"):
            next(loader)
        loader.reset()
    alone = dv.View(samples())._loader(2)
    first(alone, 2)
    with pytest.raises(OSError, match="the line is cut"):
        next(alone)
    with pytest.raises(TypeError, match="iterator"):
        next(alone)


def test_a_stream_holds_no_more_the_longer_it_is():
    def chains():
        gc.collect()
        return sum(isinstance(thing, itertools.chain) for thing in gc.get_objects())

    loader = dv.View(lambda: iter(range(1000)))._loader(1)
    first = next(loader), chains()
    rest = sum(1 for _ in itertools.islice(loader, 900)), chains()
    assert rest[1] <= first[1] + 1


@pytest.mark.parametrize("tail", ["short", "drop", "pad"])
@pytest.mark.parametrize("even", ["short", "drop", "pad"])
@pytest.mark.parametrize("n", [0, 1, 5, 12, 13])
def test_a_stream_is_dealt_as_rows_are(n, tail, even):
    for rank, size in itertools.product(range(2), (1, 3)):
        options = {"shard": (rank, 2), "tail": tail, "even": even}
        rows = dv.View(y=np.arange(n))._loader(size, **options)
        stream = dv.View(lambda: ({"y": number} for number in range(n)))._loader(size, **options)
        for _ in range(2):
            told = [
                [(x.valid, x.rows[x.valid], x.epoch, x.is_new_epoch) for _ in x]
                for x in (rows, stream)
            ]
            for ours, theirs in zip(*told, strict=True):
                np.testing.assert_equal(ours, theirs)


def test_failing_samples_of_a_stream_are_replaced():
    def bad(sample):
        if sample.y() in (2, 3, 6):
            raise ValueError("no")
        return {"y": sample.y()}

    for options in ({}, {"workers": 2}):
        with stream(9)._loader(2, transform=bad, on_error="replace", **options) as loader:
            assert rows(loader) == [[0, 1], [4, 5], [7, 8]]


@pytest.mark.parametrize(
    ("options", "kind"),
    [({"sampler": "permutation"}, TypeError), ({"repeat": True, "straddle": True}, TypeError),
     ({"pool": 0}, ValueError), ({"pool": "many"}, ValueError)],
)  # fmt: skip
def test_what_a_stream_cannot_do_is_refused(options, kind):
    with pytest.raises(kind, match=r"pool|stream|so many bytes are written like '64MB'"):
        stream()._loader(2, **options)


# -------------------- options --------------------


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"batch_size": 0}, ValueError),
        ({"batch_size": True}, TypeError),
        ({"batch_size": 2.0}, TypeError),
        ({"workers": -1}, ValueError),
        ({"prefetch": None}, TypeError),
        ({"tail": "keep"}, ValueError),
        ({"even": "no"}, ValueError),
        ({"kind": "fork"}, ValueError),
        ({"on_error": "ignore"}, ValueError),
        ({"shard": (2, 2)}, ValueError),
        ({"shard": 1}, TypeError),
        ({"num_batches": 24}, ValueError),
        ({"num_samples": 24}, ValueError),
        ({"straddle": True}, ValueError),
        ({"straddle": True, "repeat": True, "tail": "drop"}, ValueError),
        ({"pool": 4}, ValueError),
        ({"pad": 0, "collate": list}, ValueError),
        ({"on_error": "replace", "tail": "pad"}, ValueError),
        ({"sampler": [[0, 1], [2]], "batch_size": 2}, ValueError),
        ({"sampler": [[0, 1], [2]], "tail": "drop"}, ValueError),
        ({"sampler": [[0, 1], [2]], "on_error": "replace"}, ValueError),
        ({"sampler": "permutations"}, ValueError),
        ({"sampler": {}}, ValueError),
        ({"sampler": "weighted"}, ValueError),
        ({"fields": "z"}, AttributeError),
        ({"fields": ()}, ValueError),
        ({"fields": ("y", "y")}, ValueError),
        ({"transform": 3}, TypeError),
        ({"tail": "error", "batch_size": 4}, ValueError),
        ({"tail": "drop", "batch_size": 24, "repeat": True}, ValueError),
        ({"shuffle": True}, TypeError),
        ({"seed": 1.5}, TypeError),
        ({"seed": None}, TypeError),
        ({"seed": (0, 1.5)}, TypeError),
        ({"collate": 3}, TypeError),
        ({"progress": "yes"}, TypeError),
        ({"device": "cuda:0"}, ValueError),
        ({"device": 3}, TypeError),
        ({"fields": 3}, TypeError),
        ({"fields": ["y", 3]}, TypeError),
        ({"sampler": [[0], []]}, ValueError),
        ({"sampler": dv.samplers.subset([0, N])}, IndexError),
        ({"sampler": "random-slice", "batch_size": N + 1}, ValueError),
        ({"sampler": "bucket"}, ValueError),
        ({"sampler": [], "repeat": True}, ValueError),
        ({"sampler": [[0], [1]], "num_batches": 0, "repeat": True}, ValueError),
    ],
)
def test_options_are_checked_when_the_loader_is_made(options, kind):
    with pytest.raises(kind):
        dataset(N)._loader(**options)


def test_what_a_sampler_leaves_to_choose_is_told():
    with pytest.raises(ValueError, match="leave tail= and straddle= out"):
        dataset(N)._loader(4, dv.samplers.bucket(by="y"), tail="drop")
    with pytest.raises(ValueError, match="leave batch_size=, tail= and straddle= out"):
        dataset(N)._loader(4, dv.samplers.token_budget(by="y", budget=50))


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"sampler": "permutation", "shuffle": True}, TypeError, "no option 'shuffle'"),
        ({"order_sampler": rotated}, TypeError, "did you mean 'sampler'"),
        ({"sampler": "linear", "rng": 1}, TypeError, "no option 'rng'"),
        ({"sampler": "permutation", "pool": 5}, ValueError, "pool= is for streams"),
        (
            {"sampler": lambda o, p: o[:-1], "num_samples": N},
            ValueError,
            f"num_samples={N} is more",
        ),
        ({"sampler": list(range(5)), "num_batches": 4}, ValueError, "num_batches=4 is more"),
        ({"sampler": {"x": [0, 1], "y": "linear"}}, ValueError, f"'y' gives {N} samples"),
        ({"sampler": [[0, 1], [2]], "tail": "drop"}, ValueError, "decides about the batches"),
        ({"straddle": True}, ValueError, "needs repeat=True"),
        ({"repeat": 3}, TypeError, "got 3; each loop over the loader is an epoch"),
        ({"repeat": True, "straddle": "short"}, TypeError, "straddle= is True or False"),
        ({"pad": 0, "collate": list}, ValueError, "your collate= pads by itself"),
        ({"tail": "pad", "on_error": "replace"}, ValueError, "choose tail='short' or 'drop'"),
    ],
)
def test_b59_options_that_contradict_each_other(options, kind, text):
    with pytest.raises(kind, match=text):
        dataset(N)._loader(2, **options)


def test_b59_orders_of_all_epochs_are_as_long():
    loader = dataset(N)._loader(N, lambda order, position: order[:-1], repeat=True)
    assert len(next(loader).y()) == N - 1
    with pytest.raises(ValueError, match=f"epoch 1 has {N - 2} rows, the one before {N - 1}"):
        next(loader)
    linear = [rows(dataset(N)._loader(4, seed=seed)) for seed in (0, 1)]  # it draws no numbers
    assert linear[0] == linear[1]


def test_equal_seeds_of_any_kind_are_one_seed():
    plain = dataset(N)._loader(4, "permutation", seed=3, transform=noisy)
    other = dataset(N)._loader(4, "permutation", seed=np.int64(3), transform=noisy)
    assert trace(plain, 2) == trace(other, 2)
    state = json.loads(json.dumps(other.state_dict()))
    plain.load_state_dict(state)
    assert trace(plain, 2) == trace(other, 2)
    pair = [np.int64(3), "a"]
    json.dumps(dataset(N)._loader(seed=pair).state_dict())


def test_an_empty_epoch_cannot_be_repeated():
    with pytest.raises(ValueError, match="no batches"):
        dataset(0)._loader(2, repeat=True)
    loader = dataset(0)._loader(2)
    assert (rows(loader), loader.epoch, loader.epoch_detail) == ([], 1, 1.0)


def test_a_number_has_no_rows():
    with pytest.raises(TypeError, match="no rows"):
        dv.View(3)._loader()


def test_progress_is_told_batch_by_batch():
    bars = []

    class Bar:
        def __init__(self, total, initial, unit):
            self.total, self.done, self.closed = total, initial, False
            bars.append(self)

        def update(self, count):
            self.done += count

        def close(self):
            self.closed = True

    loader = dataset(5)._loader(2, progress=Bar)
    list(loader)
    list(loader)
    assert [(bar.total, bar.done, bar.closed) for bar in bars] == [(3, 3, True)] * 2
    first(loader, 1)
    loader.reset()  # a new start has a new bar, and one that goes on a bar that goes on
    first(loader, 1)
    loader.load_state_dict(loader.state_dict())
    list(loader)
    told = [(bar.total, bar.done, bar.closed) for bar in bars[2:]]
    assert told == [(3, 1, True), (3, 1, True), (3, 3, True)]
    repeated = dataset(5)._loader(2, progress=Bar, repeat=True)
    first(repeated, 4)
    assert [(bar.total, bar.done) for bar in bars[5:]] == [(3, 3), (3, 1)]


def test_progress_bars_are_tqdm_or_plain(monkeypatch, capsys):
    made = []
    fake = types.SimpleNamespace(
        tqdm=lambda **options: (
            made.append(options) or types.SimpleNamespace(update=lambda n: None, close=lambda: None)
        )
    )
    monkeypatch.setitem(sys.modules, "tqdm", fake)
    list(dataset(4)._loader(2, progress=True))
    assert made == [{"total": 2, "initial": 0, "unit": "batch"}]
    monkeypatch.setitem(sys.modules, "tqdm", None)
    list(dataset(4)._loader(2, progress=True))
    assert "100%|####" in capsys.readouterr().err


def test_arrays_go_to_a_device():
    found = next(dataset(N)._loader(2, device="cpu"))
    assert isinstance(found, dv.View)
    with pytest.raises(ValueError, match="torch:cuda:0"):
        next(dataset(N)._loader(2, device="cuda"))


def test_a_closed_loader_is_not_reset():
    loader = dataset(N)._loader(2, workers=1)
    state = loader.state_dict()
    loader.close()
    for call in (loader.reset, lambda: loader.load_state_dict(state)):
        with pytest.raises(ValueError, match="closed"):
            call()
    assert loader.state_dict() == state


def test_a_closed_loader_says_so():
    loader = dataset(N)._loader(2, workers=1)
    next(loader)
    loader.close()
    loader.close()
    with pytest.raises(ValueError, match="closed"):
        next(loader)
    assert "closed" in repr(loader)


def test_the_repr_tells_where_the_loader_is():
    loader = dataset(5)._loader(2)
    next(loader)
    assert repr(loader) == "Loader(epoch 0, position 2; 1 batches of 3 handed out)"


def test_a_forgotten_loader_is_freed():
    loader = dataset(N)._loader(2, workers=2)
    next(loader)
    gone = weakref.ref(loader)
    del loader
    gc.collect()
    assert gone() is None


def test_a_regression_sees_every_sample_once_and_finds_the_weights(rng):
    X = rng.normal(size=(200, 3))
    weights, bias = np.array([1.0, -2.0, 0.5]), 0.75
    d = dv.View(input=X, target=X @ weights + bias)
    found, b = np.zeros(3), 0.0
    loader = d._loader(20, "permutation")
    for _ in range(60):
        total = np.zeros(3)
        for batch in loader:
            x = batch.input()
            total += x.sum(0)
            error = x @ found + b - batch.target()
            found -= 0.1 * error @ x / len(x)
            b -= 0.1 * error.mean()
        np.testing.assert_allclose(total, X.sum(0))
    np.testing.assert_allclose(found, weights, atol=1e-6)
    np.testing.assert_allclose(b, bias, atol=1e-6)


@pytest.mark.parametrize("on_error", ["skip", "raise"])
def test_a_computed_sample_that_fails_is_told_from_the_others(on_error):
    def refuse(value):
        if value == 5:
            raise KeyError("five")
        return value * 2

    d = dv.View(np.arange(9).astype(object))
    loader = (np.frompyfunc(refuse, 1, 1)(d) + 0)._loader(3, on_error=on_error)
    if on_error == "raise":
        with pytest.raises(KeyError, match=r"sample 5"):
            list(loader)
        return
    assert [batch().tolist() for batch in loader] == [[0, 2, 4], [6, 8], [12, 14, 16]]
    assert [failure.row for failure in loader.errors] == [5]


# --- random numbers of functions ----------------------------------------------------------------


def noise(row, rng):
    return row() + rng.random()


def values_drawn(loader, batches):
    """The samples of so many batches by (epoch, row)."""
    found = {}
    for _ in range(batches):
        batch = next(loader)()
        epochs = loader._state.task.each_epoch().tolist()
        for epoch, row, value in zip(epochs, loader.rows.tolist(), batch.tolist(), strict=True):
            found.setdefault((epoch, row), []).append(value)
    return found


WAYS = {
    "alone": {},
    "in random order": {"sampler": "permutation"},
    "straddling": {"batch_size": 7, "straddle": True},
    "threads": {"workers": 2},
    "processes": {"workers": 2, "kind": "process"},
    "one by one": {"transform": lambda sample: sample},
    "several epochs in a batch": {"batch_size": 25, "straddle": True},
}


@pytest.mark.parametrize("declared", [{"shape": (), "dtype": float}, {}], ids=["known", "unknown"])
@pytest.mark.parametrize("way", WAYS)
def test_a_function_of_rows_draws_anew_in_each_epoch_alike_in_every_way(way, declared):
    d = dv.View(np.arange(10.0))._map(noise, seed=3, **declared)
    first = d().tolist()
    with d._loader(**{"batch_size": 4, "repeat": True} | WAYS[way]) as loader:
        found = values_drawn(loader, 12)
    with d._loader(5, repeat=True) as plain:
        expected = values_drawn(plain, 64)
    for (epoch, row), values in found.items():
        assert values == expected[epoch, row]
        assert int(values[0]) == row
    assert [expected[0, row] for row in range(10)] == [[value] for value in first]
    assert len({expected[epoch, 0][0] for epoch in range(4)}) == 4


def test_a_resumed_loader_draws_what_it_would_have_drawn():
    d = dv.View(np.arange(10.0))._map(noise, shape=(), dtype=float, seed=3)
    loader = d._loader(4, repeat=True)
    values_drawn(loader, 4)
    state = loader.state_dict()
    expected = values_drawn(loader, 5)
    other = d._loader(4, repeat=True)
    other.load_state_dict(state)
    assert values_drawn(other, 5) == expected


def test_the_functions_of_a_stream_draw_anew_in_each_epoch():
    d = dv.View(lambda: iter([0.0, 1.0, 2.0]))._map(noise, seed=3)
    loader = d._loader(3, repeat=True)
    epochs = [next(loader)().tolist() for _ in range(3)]
    again = d._loader(3, repeat=True)
    assert [next(again)().tolist() for _ in range(3)] == epochs
    assert len({values[0] for values in epochs}) == 3
    assert epochs[0] == [sample() for sample in d]


def test_a_map_and_a_transform_of_one_seed_draw_different_numbers():
    def add(sample, rng):
        return sample() + 10 * rng.random()

    d = dv.View(np.zeros(20))._map(noise, shape=(), dtype=float, seed=0)
    batch = next(d._loader(20, seed=0, transform=add))()
    own = d()
    assert not np.isclose((batch - own) / 10, own).any()


def test_rows_that_fail_only_together_raise_what_the_view_raises():
    def one_for_all(rows):
        return rows.y()[:1]

    d = dataset(8)._map_batches(one_for_all, shape=(), dtype="i8")
    for options in [{}, {"transform": lambda s: s}, {"on_error": "skip"}]:
        with pytest.raises(ValueError, match="4 rows"):
            next(d._loader(4, **options))


def test_rows_that_fail_are_read_together_once_and_then_one_by_one():
    source = numbered(bad=(3,))
    loader = source.probed(8)._loader(8, on_error="skip")
    assert len(next(loader).y()) == 7
    assert source.asked == [*range(4), *range(3, 8)]  # those that were made are remembered


def test_a_stream_that_became_shorter_fails_once_and_can_be_read_again():
    rows = list(range(8))
    d = dv.View(lambda: iter(rows))
    begun = d._loader(2)
    for _ in range(3):
        next(begun)
    loader = d._loader(2)
    loader.load_state_dict(begun.state_dict())
    del rows[3:]
    with pytest.raises(dv.StreamError, match="ended after 3 samples; it had 6 before"):
        next(loader)
    loader.reset()
    assert [batch().tolist() for batch in loader] == [[0, 1], [2]]


def test_options_are_refused_by_a_message_about_them():
    with pytest.raises(TypeError, match="progress= is True, or makes a bar like tqdm; got 1"):
        dataset(N)._loader(2, progress=1)
    with pytest.raises(TypeError, match=r"fields= names fields by text; got \['x'\]"):
        dataset(N)._loader(2, fields=[["x"]])
    with pytest.raises(ValueError, match="1 rows make no whole batches of 2: 1 are left; choose"):
        list(dv.View(lambda: iter(range(3)))._minibatches(2, tail="error"))


def test_what_is_no_state_and_a_batch_by_number_are_refused_with_a_remedy():
    loader = dataset(N)._loader(3)
    next(loader)
    for state, said in [
        ({"model": [1.0], "loader": loader.state_dict()}, "its part 'loader' may be one"),
        ({"epoch": 3}, r"\['epoch'\] is no state of a loader; state_dict\(\) returns one"),
    ]:
        with pytest.raises(ValueError, match=said):
            dataset(N)._loader(3).load_state_dict(state)
    with pytest.raises(TypeError, match=r"next\(loader\).*_minibatches"):
        loader[0]
