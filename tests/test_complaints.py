"""The most frequent complaints of users of other loaders, one test each.

Left out: installing (see the set-up of the project), caches (test_mapping) and stable names
(test_docs).  What worker processes leave behind is tested at length in test_workers.
"""

import json
import math
import multiprocessing
import pickle
import tracemalloc

import numpy as np
import pytest

import dataview as dv
from loading import dataset, flat, numbered, room_for_shared_memory, rows, shared_memory

N = 20


def test_01_workers_do_not_multiply_memory():
    # The data are large beside what all workers may hold at once, however they take turns.
    d = dv.View(np.zeros(2**23))
    with d._loader(2**14, "permutation", workers=4) as loader:
        next(loader)
        tracemalloc.start()
        for _ in loader:
            pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most < d._nbytes() / 4


def test_02_resuming_far_on_replays_nothing():
    source = numbered()
    d = dv.View(source, _length=10**8)
    loader = d._loader(4, "permutation")
    loader.load_state_dict(loader.state_dict() | {"position": 99 * 10**6})
    assert next(loader).y().tolist() == source.asked


def test_03_resuming_neither_repeats_nor_loses_a_sample():
    whole = rows(dataset(N)._loader(3, "permutation"))
    for cut in range(len(whole) + 1):
        with dataset(N)._loader(3, "permutation", workers=2, prefetch=2) as begun:
            before = [next(begun).y().tolist() for _ in range(cut)]
            state = begun.state_dict()
        after = dataset(N)._loader(3, "permutation")
        after.load_state_dict(state)
        if cut < len(whole):
            assert before + rows(after) == whole
        else:
            assert (after.epoch, after.position) == (1, 0)


def test_04_a_state_is_good_for_other_workers_ranks_and_batch_sizes():
    order = flat(rows(dataset(N)._loader(1, "permutation")))
    begun = dataset(N)._loader(3, "permutation", workers=2)
    next(begun), next(begun)
    state = json.loads(json.dumps(begun.state_dict()))
    begun.close()
    ranks = [dataset(N)._loader(2, "permutation", shard=(rank, 2)) for rank in range(2)]
    for rank in ranks:
        rank.load_state_dict(state)
    assert sorted(flat(map(flat, map(rows, ranks)))) == sorted(order[6:])


def test_05_shuffling_is_a_true_permutation_and_a_pool_only_for_streams():
    firsts = [next(dataset(1000)._loader(1, "permutation", seed=s)).y()[0] for s in range(50)]
    assert max(firsts) > 800
    with pytest.raises(ValueError, match="pool= is for streams"):
        dataset(N)._loader(pool=10)
    stream = dv.View(lambda: iter(np.arange(N)))
    assert sorted(flat(b().tolist() for b in stream._loader(4, pool="80B"))) == list(range(N))


def test_06_a_shuffled_batch_is_read_at_once():
    sizes = []

    def doubled(part):
        sizes.append(len(part))
        return part() * 2

    d = dv.View(np.arange(100))._map_batches(doubled, shape=(), dtype=int)
    next(d._loader(10, "permutation"))
    assert sizes == [10]


def test_07_random_transforms_differ_between_samples_and_epochs_and_not_between_workers():
    def noisy(sample, rng):
        return {"noise": rng.random()}

    found = []
    for options in ({}, {"workers": 3}):
        with dataset(N)._loader(4, "permutation", transform=noisy, **options) as loader:
            found.append([flat(b.noise().tolist() for b in loader) for _ in range(2)])
    assert found[0] == found[1]
    assert len(set(flat(found[0]))) == 2 * N


def test_08_nobody_has_to_set_the_epoch():
    loader = dataset(N)._loader(4, "permutation")
    first, second = rows(loader), rows(loader)
    assert first != second
    assert sorted(flat(first)) == sorted(flat(second))


@pytest.mark.parametrize("n", [1, 5, 8, 13])
def test_09_padding_of_ranks_is_asked_for_and_marked(n):
    def ranks(**options):
        return [dataset(n)._loader(2, shard=(rank, 4), **options) for rank in range(4)]

    assert sorted(flat(flat(map(rows, ranks())))) == list(range(n))
    real = [b.y()[b._valid()()].tolist() for rank in ranks(even="pad") for b in rank]
    assert sorted(flat(real)) == list(range(n))


@pytest.mark.parametrize("options", [{"workers": 3}, {"shard": (1, 2), "workers": 2}])
def test_10_a_stream_gives_each_sample_once_whatever_the_workers(options):
    stream = dv.View(lambda: iter(range(N)))
    rank, ranks = options.get("shard", (0, 1))
    with stream._loader(1, **options) as loader:
        assert flat(b().tolist() for b in loader) == list(range(rank, N, ranks))


@pytest.mark.parametrize("even", ["drop", "pad"])
@pytest.mark.parametrize("n", [7, 12, 13])
def test_11_ranks_agree_on_the_number_of_steps(n, even):
    loaders = [dataset(n)._loader(2, shard=(rank, 3), even=even) for rank in range(3)]
    assert len({len(loader) for loader in loaders}) == 1
    assert [len(rows(loader)) for loader in loaders] == [len(loader) for loader in loaders]


def test_12_the_length_is_told_or_why_there_is_none():
    assert len(dataset(N)._loader(3)) == len(dataset(N)._minibatches(3)) == 7
    with pytest.raises(TypeError, match="unknown until all has been read"):
        len(dv.View(lambda: iter(range(3)))._loader(2))
    endless = dv.View(lambda number: number, _length=math.inf)
    with pytest.raises(TypeError, match="num_samples= or num_batches="):
        len(endless._loader(2))
    assert len(endless._loader(2, num_batches=5)) == 5


class Pickled:
    """Samples by number that count how often they are pickled."""

    times = 0

    def __call__(self, number):
        return {"y": number}

    def __getstate__(self):
        Pickled.times += 1


def test_13_workers_stay_from_epoch_to_epoch_and_the_data_are_pickled_once():
    pids = []
    with dv.View(Pickled(), _length=N)._loader(5, workers=2, kind="process") as loader:
        for _ in range(3):
            assert len(rows(loader)) == 4
            pids.append({child.pid for child in multiprocessing.active_children()})
    assert Pickled.times == 1
    assert pids[0] and pids[0] <= pids[1] <= pids[2] and len(pids[2]) <= 2


def test_14_15_shared_memory_is_measured_and_has_no_fixed_name(monkeypatch):
    names = shared_memory(monkeypatch)
    used = []
    for _ in range(2):
        with dataset(N)._loader(5, workers=1, kind="process") as loader:
            next(loader)
        used.append(set(names))
        names.clear()
    assert used[0] and used[1] and not used[0] & used[1]
    room_for_shared_memory(monkeypatch, 10)
    with (
        dataset(N)._loader(5, workers=1, kind="process") as loader,
        pytest.warns(RuntimeWarning, match="bytes of shared memory are needed and 10 are"),
    ):
        next(loader)


def test_16_a_worker_process_is_never_a_plain_fork(monkeypatch):
    context = multiprocessing.get_context
    asked = []
    monkeypatch.setattr(
        "multiprocessing.get_context", lambda method: asked.append(method) or context(method)
    )
    with dataset(N)._loader(20, workers=1, kind="process") as loader:
        next(loader)
    assert asked
    assert "fork" not in asked


@pytest.mark.parametrize("options", [{}, {"workers": 2}])
def test_17_a_broken_file_need_not_end_the_run(options):
    d = dv.View(numbered(bad=(3, 4), error=OSError), _length=9)
    with d._loader(3, on_error="replace", **options) as loader:
        assert rows(loader) == [[0, 1, 2], [5, 6, 7], [8]]
        assert [failure.row for failure in loader.errors] == [3, 4]
    loader = d._loader(3, on_error="skip", max_errors=1, **options)
    with loader, pytest.raises(RuntimeError, match=r"more than max_errors=1.* sample 4"):
        rows(loader)


@pytest.mark.parametrize("options", [{}, {"workers": 2}])
def test_18_an_error_says_which_sample(options):
    with dv.View(numbered(bad=(3,), error=OSError), _length=9)._loader(2, **options) as loader:
        next(loader)
        with pytest.raises(OSError, match=r"sample 3.*bad 3") as caught:
            next(loader)
    assert "bad 3" in str(caught.value.__cause__)


def test_19_ragged_samples_are_told_padded_or_kept_and_never_cut():
    d = dv.View(lambda number: {"t": list(range(number + 1))}, _length=3)
    with pytest.raises(ValueError, match=r"field 't': sample 1 has shape \(2,\), sample 0 .* pad="):
        next(d._loader(3))
    padded = next(d._loader(3, pad={"t": dv.Pad(-1, length=True)}))
    assert padded.t_length().tolist() == [1, 2, 3]
    kept = next(d._loader(3, pad="ragged"))
    assert [part.tolist() for part in kept.t()] == [[0], [0, 1], [0, 1, 2]]


def test_20_weights_of_more_than_2_to_the_24_rows():
    count = 2**24 + 2
    weights = np.zeros(count, np.float32)
    weights[-1] = 1
    order = dv.samplers.weighted(weights)
    d = dv.View(lambda number: number, _length=count)
    assert next(d._loader(3, order))().tolist() == [count - 1] * 3


def test_23_a_state_has_a_version_and_is_plain():
    state = dataset(N)._loader(3, "permutation").state_dict()
    assert state["version"] == 1
    assert json.loads(json.dumps(state)) == state
    assert len(pickle.dumps(state)) < 1000


def test_24_a_mixture_ends_where_it_is_told_and_no_empty_part_breaks_it():
    a, b, none = dataset(4), dataset(8), dataset(4)[:0]
    mixed = dv.concat(a, b, none)
    for stop, count in (("first", 7), ("all", 15)):
        sampler = dv.samplers.mix([1, 1, 0], stop=stop)
        assert len(flat(rows(mixed._loader(4, sampler)))) in (count, count + 1)
    with pytest.raises(ValueError, match="part 2 has no rows to draw; leave it out"):
        next(mixed._loader(4, dv.samplers.mix([1, 1, 1])))


def test_25_showing_and_completing_read_nothing():
    source = numbered()
    d = dv.View(source, _length=100)
    for thing in (d, d._minibatches(8), d._loader(8, "permutation")):
        repr(thing), dir(thing)
        hasattr(thing, "shape")
    assert source.asked == []
