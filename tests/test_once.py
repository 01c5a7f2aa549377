"""Each sample is made once for all that is asked of it, so that its fields agree."""

import copy
import functools
import itertools
import tempfile
import weakref

import numpy as np
import pyarrow as pa
import pytest

import dataview as dv
from counting import Counting, unmade
from dataview.compute import ways
from dataview.index.sizes import sizes
from dataview.sources import Made

N = 9


class Drawn:
    """A function of a row, or of its number: all fields of a sample are of one random number."""

    def __init__(self, count):
        self.count = count
        self.rows = []

    def __call__(self, sample):
        self.rows.append(sample if isinstance(sample, int) else int(sample.row()))
        value = np.random.default_rng().random()
        return {f"f{k}": np.full((2,) * k, value) for k in range(self.count)}

    def blocks(self, rows):
        parts = [self(row) for row in rows]
        return {name: np.stack([part[name] for part in parts]) for name in parts[0]}

    @property
    def shapes(self):
        return {f"f{k}": (2,) * k for k in range(self.count)}


ROWS = dv.View(row=np.arange(N))


def by_field(view, function):
    return dv.View(**{name: function(part) for name, part in view._iter_fields()})


def with_last(view):
    """The view with one more field, computed from the others by another function."""
    last = view._map(lambda sample: sample.f0() * 1.0)._probe()
    return dv.zip(**dict(view._iter_fields()), last=last)


def chained(view):
    steps = range(9)  # so many that they are not evaluated by recursion
    return functools.reduce(lambda v, _: v._map(lambda s: s._asdict())._probe(), steps, view)


KINDS = {
    "map": lambda f: ROWS._map(f)._probe(),
    "declared map": lambda f: ROWS._map(f, shape=f.shapes, dtype=dict.fromkeys(f.shapes, float)),
    "map of blocks": lambda f: ROWS._map_batches(f.blocks, batch_size=4)._probe(),
    "samples by number": lambda f: dv.View(f, _length=N)._probe(),
    "map of samples": lambda f: dv.View(f, _length=N)._probe()._map(lambda s: s._asdict())._probe(),
    "expressions": lambda f: by_field(ROWS._map(f)._probe(), lambda part: part * 1.0),
    "expressions of samples": lambda f: by_field(dv.View(f, _length=N)._probe(), lambda x: x + 0),
    "shuffled": lambda f: ROWS._map(f)._probe()._shuffled(3),
    "reversed samples": lambda f: dv.View(f, _length=N)._probe()[::-1],
    "joined": lambda f: dv.concat(ROWS[:4]._map(f)._probe(), ROWS[4:]._map(f)._probe()),
    "a chain": lambda f: chained(ROWS._map(f)._probe()),
    "beside what is made of it": lambda f: with_last(ROWS._map(f)._probe()),
    "nested": lambda f: (lambda m: dv.View(inner=m, outer=m.f1))(ROWS._map(f)._probe()),
}


def loaded(**options):
    def parts(view, folder):
        with view._loader(4, **options) as loader:
            return [batch._asdict() for batch in loader]

    return parts


def like(view, make):
    """Views of new arrays, with the fields and shapes of a view."""
    parts = {
        name: like(part, make) if part._fields() else make(np.zeros(part._shape()))
        for name, part in view._iter_fields()
    }
    return dv.View(**parts)


def written(view, folder):
    out = like(view, dv.View)
    out._write(view)
    return [out._asdict()]


def written_to_files(view, folder):
    def opened(array):
        file = folder / f"{len(list(folder.iterdir()))}.npy"
        np.save(file, array)
        return dv.open(file, mode="r+")

    out = like(view, opened)
    with sizes.set(
        file_bytes=100, streamed_elements=1, at_once_bytes=0, computed_bytes=0, undo_bytes=100
    ):
        out[:] = view
    return [out._asdict()]


def saved(view, folder):
    view._save(folder / "all.npy")
    return [dv.open(folder / "all.npy")._asdict()]


def of_each(view):
    """The fields one after the other, from the last to the first, twice."""
    return {name: view._field(name)() for name in [*view._fields()][::-1] * 2}


def accepted(row):
    return row._field(row._fields()[1])().min() >= 0


READINGS = {
    "asdict": lambda view, folder: [view._asdict()],
    "astuple": lambda view, folder: [view._astuple()],
    "call": lambda view, folder: [dv.View(view())._asdict()],
    "freeze": lambda view, folder: [view._freeze()._asdict()],
    "evaluate": lambda view, folder: [dv.evaluate(dict(view._iter_fields()))],
    "save": saved,
    "describe": lambda view, folder: [
        {name: found["mean"] for name, found in view._describe().items()}
    ],
    "iteration": lambda view, folder: [of_each(row) for row in view],
    "iteration at once": lambda view, folder: [row._asdict() for row in view],
    "minibatches": lambda view, folder: [of_each(batch) for batch in view._minibatches(4)],
    "even minibatches": lambda view, folder: [of_each(batch) for batch in view._minibatches(3)],
    "parts": lambda view, folder: [view[key]._asdict() for key in (0, np.s_[1:5], np.s_[5:])],
    "samples": lambda view, folder: view.__getitems__([*range(N)]),
    "filter": lambda view, folder: [of_each(row) for row in view._filter(accepted)],
    "write": written,
    "write to files": written_to_files,
    "equality": lambda view, folder: [{"all": bool(view == view)}],
    "loader": loaded(),
    "shuffled loader": loaded(sampler="permutation"),
    "loader with threads": loaded(workers=2),
    "loader that prefetches": loaded(prefetch=2),
    "loader with a transform": loaded(transform=lambda sample: sample),
    "loader with padding": loaded(pad=0),
    "loader that may fail": loaded(on_error="skip"),
}


def assert_fields_agree(part):
    """Fail unless all numbers of a sample are the same, in a batch those of each row."""
    arrays = [np.asarray(array) for array in leaves(part)]
    for array in arrays[1:]:
        first = np.asarray(arrays[0])
        wide = first.reshape(first.shape + (1,) * (array.ndim - first.ndim))
        np.testing.assert_allclose(array, np.broadcast_to(wide, array.shape), rtol=1e-12)


def leaves(part):
    """The arrays in a mapping, those with the fewest axes first."""
    if isinstance(part, (np.ndarray, np.void)) and part.dtype.names:
        part = {name: part[name] for name in part.dtype.names}
    if not isinstance(part, (dict, tuple)):
        return [part]
    inside = part.values() if isinstance(part, dict) else part
    return sorted([leaf for inner in inside for leaf in leaves(inner)], key=np.ndim)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_function_is_called_once_for_each_sample(kind, reading, tmp_path):
    counts = zip(itertools.product(KINDS, READINGS), itertools.cycle([2, 3, 4, 5]))
    drawn = Drawn(dict(counts)[kind, reading])
    view = KINDS[kind](drawn)
    drawn.rows.clear()
    for part in READINGS[reading](view, tmp_path):
        assert_fields_agree(part)
    assert sorted(drawn.rows) == [*range(N)]
    field = view._fields()[1]
    drawn.rows.clear()
    view._field(field)()
    list(view._loader(4, fields=field))
    assert sorted(drawn.rows) == sorted([*range(N)] * 2)


@pytest.mark.parametrize("engine", ["numpy", "numexpr"])
@pytest.mark.parametrize("reading", ["asdict", "call", "freeze", "describe", "write", "loader"])
@pytest.mark.parametrize("kind", ["map", "expressions", "expressions of samples", "a chain"])
def test_no_size_of_blocks_and_no_engine_calls_more_often(
    kind, reading, engine, tmp_path, monkeypatch
):
    monkeypatch.setattr(ways, "REQUEST_BYTES", 200)
    monkeypatch.setattr(ways, "LEAST_ROWS", 2)
    drawn = Drawn(3)
    view = KINDS[kind](drawn)
    drawn.rows.clear()
    small = dict.fromkeys(["block_bytes", "part_bytes", "streamed_elements"], 100)
    with dv.engine(engine), sizes.set(block_elements=1, small_elements=2, **small):
        for part in READINGS[reading](view, tmp_path):
            assert_fields_agree(part)
    assert sorted(drawn.rows) == [*range(N)]


def augmented(sample):
    value = np.random.default_rng().random()
    return {"image": np.full((2, 2), value), "mask": np.full(2, value)}


@pytest.mark.parametrize(
    "view",
    [
        lambda: ROWS._map(augmented)._probe(),
        lambda: dv.View(augmented, _length=N)._probe(),
        lambda: ROWS._map(augmented, fields=["image", "mask"]),
    ],
)
def test_image_and_mask_of_a_batch_agree(view):
    for options in ({}, {"workers": 2}, {"workers": 1, "kind": "process"}):
        with view()._loader(4, **options) as loader:
            for batch in loader:
                image, mask = batch.image(), batch.mask()
                np.testing.assert_array_equal(image[:, 0], mask)
                np.testing.assert_array_equal(batch.image(), image)


def test_random_numbers_of_an_epoch_are_drawn_once_for_all_fields():
    drawn = Counting(lambda row: row)

    def noisy(sample, rng):
        drawn(int(sample.row()))
        value = rng.random()
        return {"a": value, "b": np.full(2, value)}

    loader = ROWS._map(noisy, seed=1)._probe()._loader(4, repeat=True, straddle=True)
    drawn.asked.clear()
    for _ in range(9):
        batch = next(loader)
        np.testing.assert_array_equal(batch.a(), batch.b()[:, 1])
    assert sorted(drawn.asked) == sorted([*range(N)] * 4)


@pytest.mark.parametrize("names", [["a", "b"], None])
def test_undeclared_fields_are_made_once(names):
    drawn = Drawn(2)
    view = ROWS._map(drawn, fields=["f0", "f1"])
    for batch in view._loader(4):
        assert_fields_agree(batch._asdict())
    assert drawn.rows == [*range(N)]
    drawn.rows.clear()
    for row in view:
        assert_fields_agree(of_each(row))
    assert drawn.rows == [*range(N)]


def test_windows_and_structured_samples_are_made_once():
    asked = []

    def made(row):
        asked.append(int(row()))
        return np.full(4, np.random.default_rng().random())

    rows = dv.View(np.arange(N))
    windows = dv.View(rows._map(made)._probe(), a=np.s_[:1], b=np.s_[1:])
    pair = np.dtype([("p", "f8"), ("q", "f8", 2)])
    records = rows._map(lambda row: np.array((made(row)[0], made(row)[:2]), pair))._probe()
    for view, once in [(windows, 1), (records, 2)]:
        for reading in (view._asdict, view._describe, lambda view=view: [*map(of_each, view)]):
            asked.clear()
            reading()
            assert sorted(asked) == sorted([*range(N)] * once)


def test_what_is_not_asked_for_is_not_made():
    drawn = Drawn(3)
    made = ROWS._map(drawn)._probe()
    view = dv.zip(row=ROWS.row, f0=made.f0, f1=made.f1)
    drawn.rows.clear()
    assert [row.row() for row in view] == [*range(N)]
    assert len(list(view._loader(4, fields="row"))) == 3
    view._select("row")._freeze(), view._select("row")._describe()
    assert drawn.rows == []
    other = dv.zip(
        row=ROWS.row, never=ROWS._map(unmade, shape=(), dtype=float), **dict(made._iter_fields())
    )
    for row in other:
        row.f0(), row.f1()
    [row.f0() for row in other._filter(lambda row: row.row() > 2)]
    dv.evaluate(other.f0, other.f1)


def test_samples_have_fields_of_any_lengths():
    drawn = Drawn(4)
    view = dv.View(
        lambda number: {"a": np.zeros(2), "b": np.ones((3, 2)), "c": drawn(number)}, _length=N
    )._probe()
    assert view._shape() == (N,) and view.b._shape() == (N, 3, 2)
    assert view.c.f2._shape() == (N, 2, 2)
    drawn.rows.clear()
    for batch in view._loader(4):
        assert_fields_agree(batch.c._asdict())
    assert drawn.rows == [*range(N)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"workers": 2},
        {"prefetch": 3},
        {"pad": 0},
        {"fields": ("f0", "f1")},
        {"fields": ["f1"]},
        {"on_error": "skip", "sampler": "permutation"},
    ],
)
def test_a_transform_is_called_once_for_each_sample(options):
    drawn, given = Drawn(3), []

    def transform(sample):
        given.append(sample)
        return sample

    view = ROWS._map(drawn)._probe()
    drawn.rows.clear()
    with view._loader(4, transform=transform, **options) as loader:
        for batch in loader:
            parts = batch if isinstance(batch, (dict, tuple)) else of_each(batch)
            assert_fields_agree(parts)
    assert sorted(drawn.rows) == [*range(N)]
    assert len(given) == N


# -------------------- a sample of a loop --------------------


def test_a_sample_of_a_loop_sees_writes_to_its_sources_and_to_no_others():
    x = np.arange(5.0)
    asked = []

    def function(sample):
        asked.append(1)
        return {"a": sample.x() + 1, "b": sample.x() * 2}

    d, other = dv.View(x=x), dv.View(np.zeros(5))
    for number, row in enumerate(d._map(function)._probe()):
        asked.clear()
        assert row.a() == number + 1
        other[number] = row.a
        assert row.b() == number * 2 and len(asked) == 1
        d.x[number] = 10
        assert (row.a(), row.b()) == (11, 20) and len(asked) == 2


def test_what_is_stored_beside_can_be_written_in_a_loop():
    x = np.arange(4.0)
    stored = dv.View(x)
    made = stored._map(lambda value: {"a": value() + 1, "b": value() + 2})._probe()
    for row in dv.zip(x=stored, a=made.a, b=made.b):
        row.x += 10
        row.x *= 2
        with pytest.raises(dv.ReadOnlyError, match="map"):
            row.a += 1
    np.testing.assert_array_equal(x, (np.arange(4) + 10) * 2)


def test_what_a_sample_of_a_loop_hands_out_is_no_alias():
    for view in (ROWS._map(augmented)._probe(), dv.View(augmented, _length=N)._probe()):
        for row in view:
            before = row.image().copy()
            row.image()[...] = 7
            np.testing.assert_array_equal(row.image(), before)


def test_the_samples_of_a_stream_are_read_once_for_all_fields():
    drawn = Drawn(3)
    stream = dv.View(lambda: map(drawn, range(99)))._probe()[:N]

    def evaluated():
        return dv.evaluate(dict(stream._iter_fields()))

    for reading in (stream._asdict, evaluated, lambda: stream._freeze()._asdict()):
        drawn.rows.clear()
        assert_fields_agree(reading())
        assert drawn.rows == [*range(N)]


@pytest.mark.parametrize(
    ("join", "calls"),
    [
        (lambda d, e: d, N),
        (lambda d, e: dv.View(p=d.f0 + 1, q=d.f1 * 2, r=d.f2), N),
        (lambda d, e: dv.zip(x=d, y=e), 2 * N),
        (lambda d, e: dv.View(a=d.f0, b=e.f1, c=d.f1, d=e.f2), 2 * N),
        (lambda d, e: dv.View(sum=d.f0 + e.f0, b=d.f1, c=e.f1), 2 * N),
        (lambda d, e: dv.concat([d, e]), 2 * N),
        (lambda d, e: dv.View(p=dv.concat([d.f0, e.f0]) + 1, q=dv.concat([d.f1, e.f1])), 2 * N),
    ],
)
def test_kept_rows_are_made_once_for_all_fields_of_joined_samples(join, calls):
    one, other = Drawn(3), Drawn(3)
    kept = join(*[dv.View(function, _length=N)._probe() for function in (one, other)])._cached()
    one.rows.clear()
    other.rows.clear()
    for view in (kept, kept, kept[::-1]):
        for _, part in view._iter_fields():
            part() if part._dtype().names is None else part._asdict()
        for row in view:
            row()
    assert len(one.rows) + len(other.rows) == calls


# -------------------- what is remembered --------------------


@pytest.mark.parametrize(
    "kind",
    [
        lambda f: dv.View(np.arange(400))._map(f)._probe(),
        lambda f: dv.View(f, _length=400)._probe(),
    ],
)
def test_no_more_samples_are_held_than_a_request_needs(kind, monkeypatch):
    monkeypatch.setattr(ways, "REQUEST_BYTES", 20_000)
    monkeypatch.setattr(ways, "LEAST_ROWS", 4)
    alive, most = [], []

    def function(sample):
        image = np.zeros(200)
        alive.append(weakref.ref(image))
        alive[:] = [one for one in alive if one() is not None]
        most.append(len(alive))
        return {"image": image, "label": 1.0, "other": 2.0}

    view = kind(function)
    few = view._select("label", "other")
    readings = [
        few._asdict,
        few._freeze,
        few,
        few._describe,
        lambda: list(few._loader(10)),
        lambda: list(map(of_each, few)),
        lambda: dv.evaluate(few.label * 2, few.other + 1),
        lambda: dv.evaluate(few.label._mean(), few.other._mean()),
    ]
    for reading in readings:
        alive.clear()
        most.clear()
        reading()
        assert 0 < max(most) <= 50


def test_a_copied_sample_of_a_loop_sees_writes():
    x = dv.View(np.arange(3.0))
    made = dv.View(x=x)._map(lambda s: {"a": s.x() + 1, "b": s.x() + 2})._probe()
    source, sample = copy.deepcopy((x, next(iter(made))))
    assert (sample.a(), sample.b()) == (1.0, 2.0)
    source[0] = 7
    assert (sample.a(), sample.b()) == (8.0, 9.0)


def test_orders_and_labels_are_taken_before_work_goes_to_processes():
    d = dv.View(x=np.array([3, 1, 2]), label=["b", "a", "b"])
    d.code = d.label._codes()
    with d._sorted(by="x")._loader(2, workers=1, kind="process") as loader:
        batch = next(loader)
        d.label[:] = "a"
        d.x[:] = 0
        assert batch.code().tolist() == [0, 1]
        assert d.code._meta["labels"]().tolist() == ["a", "b"]


class RaggedSamples:
    """A function of a number: fields of any lengths, all of one random number."""

    def __init__(self):
        self.rows = []

    def __call__(self, row):
        self.rows.append(row)
        value = np.random.default_rng().random()
        shapes = {"plain": (3,), "words": (row % 4 + 1,), "boxes": (row % 3 + 1, 2)}
        return {name: np.full(shape, value) for name, shape in shapes.items()}


RAGGED_KINDS = {
    "samples by number": lambda f: dv.View(f, _length=N)._probe(),
    "map": lambda f: ROWS._map(lambda sample: f(int(sample.row())))._probe(),
    "shuffled": lambda f: dv.View(f, _length=N)._probe()._shuffled(3),
    "joined": lambda f: dv.concat(*[dv.View(f, _length=n)._probe() for n in (4, N - 4)]),
}

OF_A_SAMPLE = {
    "fields": of_each,
    "asdict": lambda sample: sample._asdict(),
    "freeze": lambda sample: sample._freeze()._asdict(),
    "copy": lambda sample: sample._copy()._asdict(),
    "probe": lambda sample: sample._probe()._asdict(),
    "frozen fields": lambda sample: {n: part._freeze()() for n, part in sample._iter_fields()},
    "describe": lambda sample: {n: found["mean"] for n, found in sample._describe().items()},
}

OF_A_BATCH = {
    **{name: OF_A_SAMPLE[name] for name in ("fields", "asdict", "freeze", "frozen fields")},
    "padded fields": lambda batch: {n: sums(batch._pad(0)._field(n)()) for n in batch._fields()},
    "padded": lambda batch: {n: sums(part) for n, part in batch._pad(0)._asdict().items()},
    "parts of fields": lambda batch: of_each(batch[:1]) | {"words": batch.words[:1]()},
    "rows": lambda batch: list(map(of_each, batch)).pop(),
}


def sums(rows):
    """What each row of a padded array was filled with."""
    return rows.reshape(len(rows), -1).max(axis=1)


def assert_rows_agree(parts):
    """Fail unless the first row of each field has the same number."""
    first = {float(np.ravel(part[0] if np.ndim(part) else part)[0]) for part in parts.values()}
    assert len(first) == 1, parts


@pytest.mark.parametrize("reading", OF_A_SAMPLE)
@pytest.mark.parametrize("kind", RAGGED_KINDS)
def test_a_sample_of_any_lengths_is_made_once(kind, reading):
    function = RaggedSamples()
    view = RAGGED_KINDS[kind](function)
    function.rows.clear()
    for sample in view:
        assert_rows_agree(OF_A_SAMPLE[reading](sample))
    assert len(function.rows) == N
    if reading != "fields":  # of these, each is a question of its own
        function.rows.clear()
        OF_A_SAMPLE[reading](view[2])
        assert len(function.rows) == (3 if reading == "frozen fields" else 1)


@pytest.mark.parametrize("reading", OF_A_BATCH)
@pytest.mark.parametrize("kind", RAGGED_KINDS)
@pytest.mark.parametrize("size", [3, 4])
def test_samples_of_any_lengths_of_a_batch_are_made_once(kind, reading, size):
    function = RaggedSamples()
    batches = RAGGED_KINDS[kind](function)._minibatches(size)
    function.rows.clear()
    for batch in batches:
        assert_rows_agree(OF_A_BATCH[reading](batch))
    assert len(function.rows) == (len(batches) if reading == "parts of fields" else N)


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_batch_of_a_loop_no_more_samples_are_made_than_are_asked_for(kind):
    drawn = Drawn(3)
    batches = KINDS[kind](drawn)._minibatches(3)
    drawn.rows.clear()
    for batch in batches:
        of_each(batch[1])
        of_each(batch[1:])
    made_at_once = kind == "map of blocks"  # for the fields of a row to agree with its batch
    assert len(drawn.rows) == (N if made_at_once else 6)


@pytest.mark.parametrize("kind", RAGGED_KINDS)
def test_samples_are_made_once_to_be_filled_up_to_the_longest(kind):
    function = RaggedSamples()
    view = RAGGED_KINDS[kind](function)
    for read in (
        lambda: view.words._pad(0)(),
        lambda: view.words[:N]._pad(0, length=True, mask=True)._asdict(),
        lambda: view._pad(0)._asdict(),
        lambda: view._pad(0, length=True, mask=True)._freeze(),
    ):
        function.rows.clear()
        read()
        assert len(function.rows) == N


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".h5", ".zarr", ".jsonl"])
def test_samples_of_any_lengths_are_made_once_to_be_saved(suffix, tmp_path):
    function = RaggedSamples()
    view = dv.View(function, _length=N)._probe()
    function.rows.clear()
    view._save(tmp_path / f"all{suffix}")
    assert len(function.rows) == N
    saved = dv.open(tmp_path / f"all{suffix}")
    for sample in saved:
        assert_rows_agree(sample._asdict())
    assert saved.words._lengths()().tolist() == [row % 4 + 1 for row in range(N)]


# -------------------- tables --------------------


class Labelled:
    """A function of a number: two equal labels that are drawn, and numbers; it counts its calls."""

    def __init__(self):
        self.rows = []
        self.rng = np.random.default_rng(3)

    def __call__(self, row):
        self.rows.append(row)
        label = int(self.rng.integers(3))
        return {"a": label, "b": label, "x": np.full(2, 10.0 * label), "y": label + 0.5}


LABELLED_KINDS = {
    "samples by number": lambda f, n: dv.View(f, _length=n)._probe(),
    "map": lambda f, n: dv.View(np.arange(n))._map(lambda row: f(int(row())))._probe(),
    "declared": lambda f, n: dv.View(np.arange(n))._map(
        lambda row: f(int(row())), shape={"a": (), "b": (), "x": (2,), "y": ()}, dtype=float
    ),
    "expressions": lambda f, n: by_field(dv.View(f, _length=n)._probe(), lambda x: x + 0),
}

OF_TABLES = {
    "mean by an array": (1, lambda v: v._group(by=np.arange(len(v)) % 4)._mean()._asdict()),
    "mean": (2, lambda v: v._group(by="a")._mean()._asdict()),
    "mean as a record": (2, lambda v: v._group(by="a")._mean()()),
    "mean by two keys": (2, lambda v: v._group(by=["a", "b"])._mean()._asdict()),
    "median": (2, lambda v: v._group(by="a")._median()._asdict()),
    "median by two keys": (2, lambda v: v._group(by=["a", "b"])._median()._asdict()),
    "counts": (1, lambda v: v._group(by="a")._counts()._asdict()),
    "counts by two keys": (1, lambda v: v._group(by=["a", "b"])._counts()._asdict()),
    "number of groups": (1, lambda v: len(v._group(by=["a", "b"]))),
    "labels": (1, lambda v: [label for label, _ in v._group(by=["a", "b"])]),
    "rows of groups": (2, lambda v: [rows._asdict() for _, rows in v._group(by="a")]),
    "duplicates": (1, lambda v: len(v._drop_duplicates())),
    "duplicates by two keys": (1, lambda v: len(v._drop_duplicates(by=["a", "b"]))),
    "rows without gaps": (1, lambda v: len(v._dropna())),
    "order": (1, lambda v: v._sorted(by=["a", "b"])._head(0)()),
}


@pytest.mark.parametrize("rows", [20, 600])
@pytest.mark.parametrize("reading", OF_TABLES)
@pytest.mark.parametrize("kind", LABELLED_KINDS)
def test_a_table_calls_a_function_once_in_each_pass(kind, reading, rows, monkeypatch):
    monkeypatch.setattr(ways, "REQUEST_BYTES", 2000)
    monkeypatch.setattr(ways, "LEAST_ROWS", 16)
    function, (passes, read) = Labelled(), OF_TABLES[reading]
    view = LABELLED_KINDS[kind](function, rows)
    function.rows.clear()
    read(view)
    if reading == "order":  # no row, or the first, is asked for beside the keys
        function.rows = function.rows[:rows]
    assert sorted(function.rows) == sorted([*range(rows)] * passes)


@pytest.mark.parametrize("rows", [20, 600])
@pytest.mark.parametrize("kind", LABELLED_KINDS)
def test_tables_have_whole_samples(kind, rows):
    view = LABELLED_KINDS[kind](Labelled(), rows)
    counts = view._group(by=["a", "b"])._counts()._asdict()
    assert counts["a"].tolist() == counts["b"].tolist() == [0, 1, 2]
    assert counts["count"].sum() == rows
    assert [label for label, _ in view._group(by=["a", "b"])] == [(n, n) for n in range(3)]
    means = view._group(by=["a", "b"])._mean()._asdict()
    np.testing.assert_array_equal(means["x"], [[10.0 * n] * 2 for n in range(3)])
    np.testing.assert_array_equal(means["y"], np.arange(3) + 0.5)
    np.testing.assert_array_equal(view._group(by="a")._median().y(), np.arange(3) + 0.5)
    assert len(view._drop_duplicates(by=["a", "b"])) == len(view._drop_duplicates()) == 3
    by_row = view._group(by=np.arange(rows))._max()._asdict()
    np.testing.assert_array_equal(by_row["x"], by_row["a"][:, None] * [10.0, 10.0])


def test_ragged_duplicates_are_found_in_one_call_of_each_sample():
    asked = []

    def function(row):
        asked.append(row)
        return {"a": row % 2, "words": np.arange(row % 2 + 1)}

    view = dv.View(function, _length=N)._probe()
    asked.clear()
    assert len(view._drop_duplicates()) == 2
    assert sorted(asked) == [*range(N)]


def test_a_statistic_of_groups_calls_no_function_of_another_field():
    made = dv.View(Labelled(), _length=N)._probe()
    view = dv.zip(a=made.a, y=made.y, never=ROWS._map(unmade, shape=(), dtype=float))
    assert view._group(by="a")._mean().y().size


def test_a_statistic_of_groups_beside_data_calls_no_function_of_another_field():
    made = dv.View(Labelled(), _length=N)._probe()
    view = dv.zip(a=made.a, y=made.y, never=ROWS._map(unmade, shape=(), dtype=float))
    groups = view._group(by="a")
    total, smallest, keys, values = dv.evaluate(groups._sum().y, groups._min().y, view.a, view.y)
    for n, key in enumerate(np.unique(keys)):
        np.testing.assert_allclose(total[n], values[keys == key].sum(axis=0))
        np.testing.assert_array_equal(smallest[n], values[keys == key].min(axis=0))


# --- statistics of several fields -----------------------------------------------------------


class Noise:
    """Draws arrays that differ from call to call, of `shape(number)`, and keeps what it drew."""

    def __init__(self, fields, shape=lambda number: (3,)):
        self.rng = np.random.default_rng(0)
        self.fields, self.shape = fields, shape
        self.rows = {}
        self.calls = 0

    def __call__(self, row):
        self.calls += 1
        number = int(row.x())
        drawn = self.rng.normal(size=self.shape(number))
        self.rows[number] = drawn
        return {f"f{place}": drawn + place for place in range(self.fields)}

    def of(self, place):
        """What was drawn for a field, row by row."""
        return [self.rows[number] + place for number in sorted(self.rows)]


def taken_together(view):
    """Statistics of each field over all, over rows and of each row, and quantiles."""
    (found,) = dv.evaluate(
        {
            name: (
                field._mean(),
                field._std(axis=0),
                field._max(axis=1),
                field._median(),
                (2 * field)._quantile(0.3, axis=0),
            )
            for name, field in view._iter_fields()
        }
    )
    return found


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("count", [50, 600])
@pytest.mark.parametrize("fields", [2, 3, 5])
def test_statistics_of_several_fields_call_a_function_once(fields, count, declared, monkeypatch):
    monkeypatch.setattr(ways, "AT_ONCE", 64)
    noise = Noise(fields)
    d = dv.View(x=np.arange(count))
    names = [f"f{place}" for place in range(fields)]
    view = d._map(noise, fields=names, shape=(3,), dtype=float) if declared else d._map(noise)
    view = view if declared else view._probe()
    noise.calls = 0
    with sizes.set(part_bytes=2000, quantile_bytes=5000):
        found = taken_together(view)
    assert noise.calls == count
    for place, name in enumerate(names):
        whole = np.stack(noise.of(place))
        mean, std, most, median, quantile = found[name]
        np.testing.assert_allclose(mean, whole.mean(), rtol=1e-13)
        np.testing.assert_allclose(std, whole.std(axis=0), rtol=1e-13)
        np.testing.assert_array_equal(most, whole.max(axis=1))
        np.testing.assert_array_equal(median, np.median(whole))
        np.testing.assert_allclose(quantile, np.quantile(2 * whole, 0.3, axis=0), rtol=1e-13)


def test_a_statistic_is_the_same_beside_others_to_the_last_bit():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(3000, 5)), rng.normal(size=(3000, 2)).astype("f4")
    d = dv.View(a=a, b=b)._map(
        lambda row: {"a": row.a(), "b": row.b()},
        shape={"a": (5,), "b": (2,)},
        dtype={"a": float, "b": "f4"},
    )

    def asked():
        return [d.a._mean(), d.b._sum(axis=0), d.a._std(axis=0), d.b._var(axis=1)]

    with sizes.set(part_bytes=10_000):
        for together, alone in zip(dv.evaluate(*asked()), asked(), strict=True):
            np.testing.assert_array_equal(together, alone())


def test_statistics_before_a_write_call_a_function_once(monkeypatch):
    monkeypatch.setattr(ways, "AT_ONCE", 64)
    noise = Noise(3)
    d = dv.View(x=np.arange(600))
    view = d._map(noise, fields=["f0", "f1", "f2"], shape=(3,), dtype=float)
    means = [field._mean() for _, field in view._iter_fields()]
    d.x[0] = 0
    assert noise.calls == 600
    for place, mean in enumerate(means):
        np.testing.assert_allclose(mean(), np.mean(noise.of(place)), rtol=1e-13)
    assert noise.calls == 600


BESIDE_DATA = {
    "data": lambda *parts: (*parts, parts[-1]._mean()),
    "a statistic of each row": lambda *parts: (parts[0], parts[-1]._max(axis=1), parts[0]._sum()),
    "expressions": lambda *parts: (sum(parts), 2 * parts[-1]._std(axis=0), parts[0] + 1),
    "quantiles": lambda *parts: (parts[0], parts[0]._median(), parts[-1]._quantile(0.3, axis=0)),
    "data less a mean": lambda *parts: (parts[0] - parts[-1]._mean(axis=0), parts[0]._mean()),
    "standardized": lambda *parts: [(x - x._mean(axis=0)) / x._std(axis=0) for x in parts],
    "a statistic of a statistic": lambda *parts: (
        (parts[0] - parts[-1]._mean())._max(axis=0),
        (parts[-1] > parts[0]._mean())._sum(),
        abs(parts[0] - parts[0]._median())._median(),
    ),
    "less its own mean": lambda *parts: (parts[0] - parts[-1]._mean(axis=1)[:, None],),
    "less both": lambda *parts: (
        parts[0] - parts[-1]._mean(axis=1, keepdims=True) - parts[-1]._mean(),
    ),
    "parts": lambda *parts: (parts[0][::2], parts[-1][::2]._mean(), parts[0][::2, 1]),
    "a mask": lambda *parts: (parts[0] > parts[-1]._mean(), parts[0] == parts[0]._max()),
}


@pytest.mark.parametrize("rows", [50, 600])
@pytest.mark.parametrize("fields", [2, 3, 5])
@pytest.mark.parametrize("asked", BESIDE_DATA)
def test_data_beside_statistics_call_a_function_once(asked, fields, rows, monkeypatch):
    monkeypatch.setattr(ways, "AT_ONCE", 64)
    monkeypatch.setattr(Made.__init__, "__defaults__", (64, True))
    noise, names = Noise(fields), [f"f{place}" for place in range(fields)]
    d = dv.View(x=np.arange(rows))._map(noise, fields=names, shape=(3,), dtype=float)
    with sizes.set(part_bytes=2000, quantile_bytes=5000):
        found = dv.evaluate(*BESIDE_DATA[asked](*(d._field(name) for name in names)))
    assert noise.calls == (rows // 2 if asked == "parts" else rows)
    if asked == "parts":
        noise.rows = {row: noise.rows.get(row, np.empty(3)) for row in range(rows)}
    whole = [dv.View(np.stack(noise.of(place))) for place in range(fields)]
    with sizes.set(part_bytes=2000, quantile_bytes=5000):
        for one, expected in zip(found, BESIDE_DATA[asked](*whole), strict=True):
            np.testing.assert_array_equal(one, expected())  # to the last bit


def test_data_beside_a_mean_are_as_numpy_computes_them(monkeypatch):
    monkeypatch.setattr(ways, "AT_ONCE", 64)
    noise = Noise(2)
    d = dv.View(x=np.arange(600))._map(noise, fields=["f0", "f1"], shape=(3,), dtype=float)
    data, mean, centred = dv.evaluate(d.f0, d.f1._mean(), d.f1 - d.f1._mean(axis=0))
    assert noise.calls == 600
    f0, f1 = np.stack(noise.of(0)), np.stack(noise.of(1))
    np.testing.assert_array_equal(data, f0)
    np.testing.assert_allclose(mean, f1.mean(), rtol=1e-13)
    np.testing.assert_allclose(centred, f1 - f1.mean(axis=0), rtol=0, atol=1e-13)
    assert type(data) is np.ndarray
    assert data.flags.writeable


CALLED = {
    "less a mean": lambda a, b: a - b._mean(),
    "less its own mean": lambda a, b: a - b._mean(axis=1)[:, None],
    "less both": lambda a, b: a - b._mean(axis=1, keepdims=True) - a._mean(axis=0),
    "standardized": lambda a, b: (a - a._mean(axis=0)) / b._std(axis=0),
    "a mask": lambda a, b: a > b._median(),
}


@pytest.mark.parametrize("rows", [50, 600])
@pytest.mark.parametrize("asked", CALLED)
def test_a_view_with_statistics_calls_a_function_once(asked, rows, monkeypatch):
    monkeypatch.setattr(ways, "AT_ONCE", 64)
    monkeypatch.setattr(Made.__init__, "__defaults__", (64, True))
    noise = Noise(2)
    d = dv.View(x=np.arange(rows))._map(noise, fields=["f0", "f1"], shape=(3,), dtype=float)
    found = CALLED[asked](d.f0, d.f1)()
    assert noise.calls == rows
    expected = CALLED[asked](*(dv.View(np.stack(noise.of(place))) for place in (0, 1)))()
    np.testing.assert_array_equal(found, expected)


def test_some_rows_less_their_means_call_a_function_once_for_each(monkeypatch):
    monkeypatch.setattr(ways, "AT_ONCE", 64)
    noise = Noise(2)
    d = dv.View(x=np.arange(600))._map(noise, fields=["f0", "f1"], shape=(3,), dtype=float)
    centred = d.f0 - d.f1._mean(axis=1)[:, None]
    some = centred[100:500]()
    assert noise.calls == 400
    f0, f1 = np.stack(noise.of(0)), np.stack(noise.of(1))
    np.testing.assert_array_equal(some, f0 - f1.mean(axis=1, keepdims=True))
    centred[7]()
    assert noise.calls == 401


OTHER_ROWS = {
    "an expression of a part": lambda d: [d[:550].f0, (d.f0 + d.f1)[:550]],
    "other rows": lambda d: [d.f0, d.f1[-3:]],
    "a mask by a mean": lambda d: [d.f1[d.f1[:, 0] > d.f1[:, 0]._mean()], d.f1._mean()],
    "an order": lambda d: [d._shuffled(0).f0, (d.f0 + d.f1)._shuffled(0)],
}


@pytest.mark.parametrize("asked", OTHER_ROWS)
def test_other_rows_than_those_of_a_pass_are_right(asked, monkeypatch):
    monkeypatch.setattr(ways, "AT_ONCE", 64)
    monkeypatch.setattr(Made.__init__, "__defaults__", (64, True))
    x = np.arange(1800.0).reshape(600, 3)
    of_rows = dv.View(x=x)._map(
        lambda row: {"f0": row.x() * 2, "f1": row.x() ** 2},
        fields=["f0", "f1"], shape=(3,), dtype=float,
    )  # fmt: skip
    found = dv.evaluate(*OTHER_ROWS[asked](of_rows))
    for one, expected in zip(found, OTHER_ROWS[asked](dv.View(f0=x * 2, f1=x**2)), strict=True):
        np.testing.assert_array_equal(one, expected())


def test_rows_that_statistics_have_kept_lie_in_a_file_if_they_are_many(monkeypatch):
    monkeypatch.setattr(ways, "AT_ONCE", 64)
    opened = []
    made = tempfile.TemporaryFile
    monkeypatch.setattr(
        tempfile, "TemporaryFile", lambda **options: opened.append(1) or made(**options)
    )
    d = dv.View(x=np.arange(600.0))._map(lambda row: np.full(3, row.x()), shape=3, dtype=float)
    with sizes.set(quantile_bytes=5000):
        (d - d._mean())()
        assert opened == [1]
        dv.evaluate(d, d._mean())  # what was asked for is in memory
        assert opened == [1]
    (d - d._mean())()
    assert opened == [1]


class Words:
    """Returns labels and lists of numbers that depend on the row, and notes which rows it makes."""

    def __init__(self):
        self.calls = 0

    def made(self, number):
        values = np.arange(1.0 + number % 4) * number
        return {
            "label": number % 3,
            "x": np.array([number * 0.5, 1.0]),
            "words": values,
            "lines": values[::-1] + 1,
            "boxes": np.full((1 + number % 2, 2, number % 3), 1.0 * number),
        }

    def __call__(self, row):
        self.calls += 1
        return self.made(int(row.x()))

    def view(self, rows):
        """The view, and what it is of, by field: an array, or a list of arrays."""
        shapes = {
            "label": (), "x": 2, "words": (None,), "lines": (None,), "boxes": (None, 2, None)
        }  # fmt: skip
        dtypes = {"label": int, **dict.fromkeys(["x", "words", "lines", "boxes"], float)}
        view = dv.View(x=np.arange(rows))._map(self, shape=shapes, dtype=dtypes)
        made = [self.made(number) for number in range(rows)]
        whole = {name: [sample[name] for sample in made] for name in shapes}
        return view, {**whole, "label": np.array(whole["label"]), "x": np.stack(whole["x"])}


def filled_up(rows):
    """Rows filled up with -1 to the longest, by hand."""
    shape = np.max([row.shape for row in rows], axis=0)
    out = np.full((len(rows), *shape), -1.0)
    for number, row in enumerate(rows):
        out[(number, *map(slice, row.shape))] = row
    return out


def of_rows(rows, function):
    return np.array([function(row) for row in rows])


def grouped(view):
    return view._group(by={"by": np.arange(len(view)) % 4})


def of_groups(data, function, name, keys=None):
    """A statistic of the rows of each key, which are the row numbers modulo 4 if not given."""
    rows = data[name]
    keys = np.arange(len(rows)) % 4 if keys is None else keys
    return np.stack([function(rows[keys == key], axis=0) for key in np.unique(keys)])


IN_ONE_REQUEST = {
    "labels beside a mean": (
        lambda v: (v.label._unique(), v.x._mean()),
        lambda d: (np.unique(d["label"]), d["x"].mean()),
    ),
    "labels and counts": (
        lambda v: (v.label._unique(), v.label._counts().count, v.label._labels()),
        lambda d: (np.unique(d["label"]), np.bincount(d["label"]), np.unique(d["label"])),
    ),
    "labels of several fields": (
        lambda v: (v.label._unique(), v.x._unique(), v.words._unique()),
        lambda d: (
            np.unique(d["label"]),
            np.unique(d["x"]),
            np.unique(np.concatenate(d["words"])),
        ),
    ),
    "labels beside data": (
        lambda v: (v.label._unique(), v.x, v.label * 2),
        lambda d: (np.unique(d["label"]), d["x"], 2 * d["label"]),
    ),
    "labels of an expression": (
        lambda v: ((v.label - v.label._min())._unique(), v.x._max(axis=0)),
        lambda d: (np.unique(d["label"]), d["x"].max(axis=0)),
    ),
    "ragged beside dense": (
        lambda v: (v.words._sum(), v.x._sum(axis=0)),
        lambda d: (np.concatenate(d["words"]).sum(), d["x"].sum(axis=0)),
    ),
    "ragged beside a median": (
        lambda v: (v.words._max(axis=1), v.lines._mean(), v.x._median()),
        lambda d: (
            of_rows(d["words"], np.max),
            np.concatenate(d["lines"]).mean(),
            np.median(d["x"]),
        ),
    ),
    "ragged beside data": (
        lambda v: (v.words._sum(), v.x, v.x - v.x._min()),
        lambda d: (np.concatenate(d["words"]).sum(), d["x"], d["x"] - d["x"].min()),
    ),
    "several ragged axes": (
        lambda v: (v.boxes._sum(), v.label._sum(), v.words._sum(axis=1)),
        lambda d: (sum(map(np.sum, d["boxes"])), d["label"].sum(), of_rows(d["words"], np.sum)),
    ),
    "groups beside data": (
        lambda v: (grouped(v)._sum().x, grouped(v)._mean().x, v.x, grouped(v)._median().label),
        lambda d: (
            of_groups(d, np.sum, "x"),
            of_groups(d, np.mean, "x"),
            d["x"],
            of_groups(d, np.median, "label"),
        ),
    ),
    "groups by a field that is made": (
        lambda v: (lambda g: (g._sum().x, g._max().label, g._counts().count, v.label, v.x))(
            v._group(by="label")
        ),
        lambda d: (
            of_groups(d, np.sum, "x", d["label"]),
            np.unique(d["label"]),
            np.bincount(d["label"]),
            d["label"],
            d["x"],
        ),
    ),
    "a statistic of groups by itself": (
        lambda v: (v._group(by="label")._var(ddof=1).x,),
        lambda d: (of_groups(d, functools.partial(np.var, ddof=1), "x", d["label"]),),
    ),
    "joined beside data": (
        lambda v: (lambda j: (j.v, j.x, v.x, v.label))(
            v._join(dv.View(label=[2, 0, 1], v=[20, 0, 10]), on="label")
        ),
        lambda d: (10 * d["label"], d["x"], d["x"], d["label"]),
    ),
    "filled up": (lambda v: (v.words._pad(-1),), lambda d: (filled_up(d["words"]),)),
    "several filled up": (
        lambda v: (v.words._pad(-1), v.lines._pad(-1), v.boxes._pad(-1)),
        lambda d: (filled_up(d["words"]), filled_up(d["lines"]), filled_up(d["boxes"])),
    ),
    "filled up beside data": (
        lambda v: (v.words._pad(-1), v.x, v.label._mean(), v.lines._sum()),
        lambda d: (
            filled_up(d["words"]),
            d["x"],
            d["label"].mean(),
            np.concatenate(d["lines"]).sum(),
        ),
    ),
    "filled up, with masks": (
        lambda v: (lambda p: (p.words, p.words_length, p.words_mask, p.lines))(
            dv.View(words=v.words, lines=v.lines)._pad(-1, length=True, mask=True)
        ),
        lambda d: (
            filled_up(d["words"]),
            of_rows(d["words"], len),
            filled_up([np.zeros_like(row) for row in d["words"]]) == 0,
            filled_up(d["lines"]),
        ),
    ),
}


@pytest.mark.parametrize("rows", [20, 300])
@pytest.mark.parametrize("asked", IN_ONE_REQUEST)
def test_whatever_is_asked_in_one_request_calls_a_function_once(asked, rows, monkeypatch):
    monkeypatch.setattr(ways, "AT_ONCE", 64)
    monkeypatch.setattr(Made.__init__, "__defaults__", (64, True))
    words, (ask, by_hand) = Words(), IN_ONE_REQUEST[asked]
    view, data = words.view(rows)
    with sizes.set(part_bytes=2000, quantile_bytes=5000, block_bytes=2000):
        found = dv.evaluate(*ask(view))
    assert words.calls == rows
    for one, expected in zip(found, by_hand(data), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-13)


@pytest.mark.parametrize("rows", [20, 300])
def test_rows_filled_up_call_a_function_once(rows, monkeypatch):
    monkeypatch.setattr(ways, "AT_ONCE", 64)
    monkeypatch.setattr(Made.__init__, "__defaults__", (64, True))
    words = Words()
    view, data = words.view(rows)
    np.testing.assert_array_equal(view.words._pad(-1)(), filled_up(data["words"]))
    assert words.calls == rows
    words.calls = 0
    found = dv.View(words=view.words, lines=view.lines)._pad(-1)._asdict()
    assert words.calls == rows
    for name, array in found.items():
        np.testing.assert_array_equal(array, filled_up(data[name]))


@pytest.mark.parametrize("rows", [20, 300])
def test_values_with_gaps_beside_a_statistic_call_a_function_once(rows, monkeypatch):
    monkeypatch.setattr(ways, "AT_ONCE", 64)
    monkeypatch.setattr(Made.__init__, "__defaults__", (64, True))
    values = [None if number % 3 == 1 else number % 5 for number in range(rows)]
    column, calls = dv.View(pa.table({"a": pa.array(values)})).a, []

    def sample(number):
        calls.append(number)
        return {"a": column[number], "b": number * 0.5}

    view = dv.View(sample, _length=rows)._probe()
    calls.clear()
    labels, total, mean, data = dv.evaluate(view.a._unique(), view.a._sum(), view.b._mean(), view.b)
    assert sorted(calls) == [*range(rows)]
    known = [value for value in values if value is not None]
    np.testing.assert_array_equal(labels, np.unique(known))
    assert total == sum(known)
    np.testing.assert_allclose(mean, np.arange(rows).mean() / 2)
    np.testing.assert_array_equal(data, np.arange(rows) / 2)


def test_a_view_with_a_statistic_is_read_into_a_buffer_in_one_call_of_each_sample(monkeypatch):
    monkeypatch.setattr(ways, "AT_ONCE", 64)
    noise = Noise(2)
    d = dv.View(x=np.arange(600))._map(noise, fields=["f0", "f1"], shape=(3,), dtype=float)
    found = (d.f0 - d.f1._mean(axis=0))(out=np.empty((600, 3)))
    assert noise.calls == 600
    f0, f1 = (dv.View(np.stack(noise.of(place))) for place in (0, 1))
    np.testing.assert_array_equal(found, (f0 - f1._mean(axis=0))())


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "feather", "jsonl", "npz", "h5"])
def test_fields_of_a_saved_table_agree_however_many_rows_a_group_has(suffix, tmp_path, monkeypatch):
    monkeypatch.setattr(ways, "AT_ONCE", 64)
    monkeypatch.setattr(Made.__init__, "__defaults__", (64, True))
    noise = Noise(3, lambda number: ())
    view = dv.View(x=np.arange(600))._map(noise, fields=["f0", "f1", "f2"], shape=(), dtype=float)
    view._save(tmp_path / f"all.{suffix}")
    assert noise.calls == 600
    found = dv.open(tmp_path / f"all.{suffix}")
    for place in range(3):
        np.testing.assert_array_equal(found[f"f{place}"](), noise.of(place))


RAGGED = {
    "asdict": lambda v: v._asdict(),
    "evaluate": lambda v: dict(zip(v._fields(), dv.evaluate(v.f0, v.f1, v.f2), strict=True)),
}


@pytest.mark.parametrize("shape", [(None,), {"f0": (None,), "f1": (3,), "f2": (None,)}])
@pytest.mark.parametrize("reading", RAGGED)
def test_no_number_of_rows_of_any_lengths_calls_more_often(reading, shape, monkeypatch):
    monkeypatch.setattr(ways, "AT_ONCE", 64)
    monkeypatch.setattr(Made.__init__, "__defaults__", (64, True))
    noise = Noise(3, lambda number: (3,) if isinstance(shape, dict) else (number % 4,))
    names = ["f0", "f1", "f2"]
    view = dv.View(x=np.arange(300))._map(noise, fields=names, shape=shape, dtype=float)
    found = RAGGED[reading](view)
    assert noise.calls == 300
    for place, name in enumerate(names):
        assert len(found[name]) == 300
        for row, drawn in zip(found[name], noise.of(place), strict=True):
            np.testing.assert_array_equal(row, drawn)


@pytest.mark.parametrize("before_a_write", [False, True])
def test_statistics_of_rows_of_any_lengths_call_a_function_once(before_a_write):
    noise = Noise(3, lambda number: (1 + number % 4,))
    d = dv.View(x=np.arange(50))
    view = d._map(noise, fields=["f0", "f1", "f2"], shape=(None,), dtype=float)
    means = [2 * field._mean() for _, field in view._iter_fields()]
    most = [field._max(axis=1) for _, field in view._iter_fields()]
    if before_a_write:
        d.x[0] = 0
        assert noise.calls == 50
    found = dv.evaluate(means, most)
    assert noise.calls == 50
    for place in range(3):
        rows = noise.of(place)
        np.testing.assert_allclose(found[0][place], 2 * np.concatenate(rows).mean(), rtol=1e-13)
        np.testing.assert_array_equal(found[1][place], [row.max() for row in rows])


TRUTHS = {
    "one array": lambda v: bool(v.f0 == v.f0),
    "an expression": lambda v: bool(2 * v.f0 == v.f0 + v.f0),
    "a record": lambda v: bool(v == v),
}


@pytest.mark.parametrize(
    ("truth", "length"),
    [
        ("one array", 3),
        ("one array", None),
        ("an expression", 3),
        ("a record", 3),
        ("a record", None),
    ],
)
def test_the_truth_of_an_equality_calls_a_function_once(truth, length, monkeypatch):
    monkeypatch.setattr(ways, "AT_ONCE", 64)
    noise = Noise(2, lambda number: (3,) if length else (number % 4,))
    view = dv.View(x=np.arange(300))._map(noise, fields=["f0", "f1"], shape=(length,), dtype=float)
    assert TRUTHS[truth](view)
    assert noise.calls == 300


@pytest.mark.parametrize(
    "mask",
    [
        lambda v: v.f0[:, 0] > v.f1._mean(axis=1) - 1,
        lambda v: (v.f0 - v.f0._mean(axis=1, keepdims=True))[:, 0] > 0,
        lambda v: v.f0._max(axis=1) > v.f1._min(axis=1),
        lambda v: v.f0._max(axis=1) > v.f1._mean(),
    ],
)
def test_a_mask_with_a_statistic_of_rows_calls_a_function_once(mask, monkeypatch):
    monkeypatch.setattr(ways, "AT_ONCE", 64)
    noise = Noise(2)
    d = dv.View(x=np.arange(300))
    kept = d[mask(d._map(noise, fields=["f0", "f1"], shape=(3,), dtype=float))]
    assert noise.calls == 300
    expected = mask(dv.View(f0=np.stack(noise.of(0)), f1=np.stack(noise.of(1))))()
    np.testing.assert_array_equal(kept.x(), np.flatnonzero(expected))
