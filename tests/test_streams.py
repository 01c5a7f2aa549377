"""Streams of which a sample is known: computed, described and saved as their samples come."""

import pickle
import tracemalloc

import numpy as np
import pytest

import dataview as dv
from dataview.index.sizes import sizes
from oracle import assert_same


def pairs(n=10):
    for number in range(n):
        yield {"x": np.arange(3.0) + number**2, "y": number}


X = np.arange(3.0) + np.arange(10)[:, None] ** 2
KNOWN = {
    "probed": lambda: dv.View(pairs)._probe(),
    "declared": lambda: dv.View(pairs, _fields={"x": ((3,), float), "y": int}),
    "filtered": lambda: dv.View(x=X, y=np.arange(10))._filter(lambda sample: True),
    "of an iterator": lambda: dv.View(pairs())._probe(),
}


def rows_of(view):
    return np.array([row() for row in view])


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize(
    ("compute", "expected"),
    [
        (lambda d: d.x + 1, X + 1),
        (lambda d: 2 - d.x / np.arange(1, 4), 2 - X / np.arange(1, 4)),
        (lambda d: d.x * d.x - d.x, X * X - X),
        (lambda d: np.maximum(d.x, 30) ** 2, np.maximum(X, 30) ** 2),
        (lambda d: d.x > 30, X > 30),
        (lambda d: d.x == 30, X == 30),
        (lambda d: d.y + 0.5, np.arange(10) + 0.5),
        (lambda d: d.x + dv.View([1.0, 2, 3]), X + np.array([1, 2, 3])),
    ],
)
def test_samples_of_a_known_stream_are_computed_as_they_come(known, compute, expected):
    view = compute(KNOWN[known]())
    assert (view._shape(), view._dtype()) == ((None, *expected.shape[1:]), expected.dtype)
    assert_same(rows_of(view), expected)


@pytest.mark.parametrize("kind", ["sum", "prod", "mean", "std", "var", "min", "max", "any", "all"])
@pytest.mark.parametrize("known", KNOWN)
def test_statistics_of_a_known_stream(known, kind, monkeypatch):
    monkeypatch.setattr(sizes, "part_bytes", 50)  # several blocks
    for axis in (None, 0, (0, 1)):
        view = getattr(KNOWN[known]().x, f"_{kind}")(axis=axis)
        expected = getattr(X, kind)(axis=axis)
        assert (view._shape(), view._dtype()) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(view(), expected, rtol=1e-12)
    assert getattr(KNOWN[known]().y, f"_{kind}")(keepdims=True)._shape() == (1,)


def test_the_place_of_an_extreme_of_a_stream(monkeypatch):
    monkeypatch.setattr(sizes, "part_bytes", 50)
    view = dv.View(lambda: iter([3.0, 1, 4, 1, 5, 9, 2]))._probe()
    assert (view._argmax()(), view._argmin()()) == (5, 1)


def test_fields_of_one_stream_are_of_one_pass():
    passes = []

    def counted():
        passes.append(1)
        yield from pairs()

    d = dv.View(counted)._probe()
    passes.clear()
    assert_same(rows_of(d.x - d.x / 2), X - X / 2)
    assert len(passes) == 1
    found = d.x - d.x._mean(axis=0)
    assert_same(rows_of(found), X - X.mean(axis=0))
    assert len(passes) == 3
    d._describe()
    assert len(passes) == 4


def test_what_does_not_fit_one_sample_is_refused():
    d = dv.View(pairs)._probe()
    for other in (np.zeros((10, 3)), dv.View(np.zeros((10, 3))), d.y):
        with pytest.raises(TypeError, match="what fits one sample, or with another stream"):
            d.x + other
    with pytest.raises(ValueError, match="broadcast"):
        d.x + np.zeros(2)
    with pytest.raises(TypeError, match="several passes"):
        d.x._quantile(0.5)
    with pytest.raises(TypeError, match="makes a stream: _map"):
        d.x._mean(axis=1)
    with pytest.raises(TypeError, match="choose a field: 'x', 'y'"):
        d + 1
    with pytest.raises(TypeError, match=r"write d = d\._probe\(\)"):
        dv.View(pairs) + 1


def test_streams_of_different_lengths_do_not_go_side_by_side():
    one, other = (dv.View(lambda n=n: iter(range(n)))._probe() for n in (3, 5))
    assert_same(rows_of(one + one * 2), np.arange(3) * 3)
    with pytest.raises(TypeError, match="ends after 3 samples"):
        rows_of(one + other)


def test_a_stream_without_end_or_samples_has_no_statistic():
    with pytest.raises(TypeError, match="never ends"):
        dv.View(pairs)._probe().x._repeat()._mean()()
    with pytest.raises(TypeError, match="never ends"):
        dv.View(pairs)._probe()._repeat()._describe()
    with pytest.raises(TypeError, match="empty"):
        dv.View(pairs)._probe().x[20:]._mean()()


def test_a_sample_unlike_the_first_is_refused_by_a_statistic():
    stream = dv.View(lambda: iter([*[np.zeros(2)] * 9, np.zeros(3)]))._probe()
    with pytest.raises(
        ValueError, match=r"sample 9: the shape is \(3,\); the first ones read were"
    ):
        stream._sum()()


@pytest.mark.parametrize("known", KNOWN)
def test_a_known_stream_is_described_and_saved(known, tmp_path, monkeypatch):
    monkeypatch.setattr(sizes, "part_bytes", 50)
    found = KNOWN[known]()._describe()
    assert found["x"]["mean"] == pytest.approx(X.mean())
    assert found["y"]["max"] == 9
    KNOWN[known]().x._save(tmp_path / "x.npy")
    assert_same(np.load(tmp_path / "x.npy"), X)
    KNOWN[known]()._save(tmp_path / "both.npy")
    assert_same(np.load(tmp_path / "both.npy")["y"], np.arange(10))
    words = dv.View(lambda: iter([np.array("a", object), np.array("b", object)]))._probe()
    assert words._describe()[""]["count"] == 2
    with pytest.raises(ValueError, match="npy"):
        KNOWN[known]()._save(tmp_path / "x.unknown")


def test_a_statistic_of_a_long_stream_needs_little_memory(monkeypatch):
    monkeypatch.setattr(sizes, "part_bytes", 1 << 20)
    stream = dv.View(lambda: (np.full(1000, number) for number in range(3000)))._probe()
    tracemalloc.start()
    assert_same((stream * 2)._mean()(), np.float64(2999.0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6_000_000  # of 24 MB


def test_a_stream_that_was_read_can_be_pickled():
    view = dv.View(pairs)._probe().x * 2
    assert_same(rows_of(view), X * 2)
    assert_same(rows_of(pickle.loads(pickle.dumps(view))), X * 2)


def test_a_computed_stream_is_loaded_filtered_and_computed_again():
    view = dv.View(pairs)._probe().x * 2
    assert_same(np.concatenate([batch() for batch in view._loader(4)]), X * 2)
    assert_same(np.concatenate([batch() for batch in view._minibatches(4)]), X * 2)
    assert_same(view[2:5](), X[2:5] * 2)
    kept = view._filter(lambda sample: sample[0]() > 50)
    assert_same((kept - 1)._max(axis=0)(), X[-1] * 2 - 1)
    chain = view
    for _ in range(2000):
        chain = chain + 1
    assert_same(chain[:2](), X[:2] * 2 + 2000)


# -------------------- fields chosen and named --------------------


def samples_of_words():
    return ({"x": np.arange(2) + n, "y": n, "words": [n] * n} for n in range(4))


@pytest.mark.parametrize(
    ("arrange", "fields"),
    [
        (lambda s: s._select("words", "y"), {"words": "words", "y": "y"}),
        (lambda s: s[["words", "y"]], {"words": "words", "y": "y"}),
        (lambda s: s._drop("x"), {"y": "y", "words": "words"}),
        (lambda s: s._rename(y="label"), {"x": "x", "label": "y", "words": "words"}),
        (lambda s: s._rename(y="k")._drop("x")._rename(k="n"), {"n": "y", "words": "words"}),
    ],
)
@pytest.mark.parametrize(
    "stream",
    [
        lambda: dv.View(samples_of_words)._probe(),
        lambda: dv.View(
            x=np.arange(2) + np.arange(4)[:, None], y=np.arange(4), words=WORDS
        )._filter(lambda row: True),
    ],
)
def test_fields_of_a_stream_are_chosen_and_named_in_each_sample(stream, arrange, fields):
    s = arrange(stream())
    rows = [*samples_of_words()]
    assert s._fields() == tuple(fields)
    assert [row._fields() for row in s] == [tuple(fields)] * 4
    batch = next(s._loader(3))
    assert batch._fields() == tuple(fields)
    for name, old in fields.items():
        assert [one.tolist() for one in s[name][1:3]()] == [
            np.array(r[old]).tolist() for r in rows[1:3]
        ]
        assert [one.tolist() for one in batch[name]()] == [
            np.array(r[old]).tolist() for r in rows[:3]
        ]
    assert s._freeze()._fields() == s[:2]._freeze()._fields() == tuple(fields)
    assert pickle.loads(pickle.dumps(s[:2]._freeze()))._fields() == tuple(fields)


def test_one_pass_over_a_stream_is_for_all_fields_that_were_chosen():
    passes = []

    def sampled():
        passes.append(1)
        return samples_of_words()

    s = dv.View(sampled)._probe()._select("y", "words")._rename(y="n")
    passes.clear()
    assert [*s[:3]._asdict()] == ["n", "words"]
    assert len(passes) == 1


# -------------------- rows of different lengths that a function keeps --------------------

WORDS = [[n] * n for n in range(4)]


def test_filtered_rows_of_different_lengths_stay_so(tmp_path):
    documents = [[words, [7]] for words in WORDS]
    d = dv.View(words=WORDS, y=range(4), documents=documents, inner={"words": WORDS})
    kept = d._filter(lambda row: row.y() != 1)
    wanted = [WORDS[0], *WORDS[2:]]
    assert kept.words._shape() == (None, None)
    assert kept.documents._shape() == (None, None, None)
    assert kept._probe().words._shape() == (3, None)
    assert [words.tolist() for words in kept[1:].words()] == wanted[1:]
    assert [row.words().tolist() for row in kept] == wanted
    assert kept.words._lengths()().tolist() == [0, 2, 3]
    assert kept.words._sum(axis=1)().tolist() == [0, 4, 9]
    assert kept.words._pad(-1)().tolist() == [[-1, -1, -1], [2, 2, -1], [3, 3, 3]]
    batches = [batch.inner.words() for batch in kept._minibatches(2)]
    assert [[words.tolist() for words in batch] for batch in batches] == [wanted[:2], wanted[2:]]
    assert next(kept._loader(2)).documents()[1][0].tolist() == [2, 2]
    kept._save(tmp_path / "kept.npz")
    for same in (kept._freeze(), dv.open(tmp_path / "kept.npz")):
        assert same.words == kept._probe().words
        assert same.documents == d.documents[[0, 2, 3]]


def test_a_filtered_ragged_field_stays_so():
    field = dv.View(WORDS)._filter(lambda row: row._size() != 1)
    assert field._shape() == (None, None)
    assert field._probe()._shape() == (3, None)
    assert field._mean()() == np.mean([2, 2, 3, 3, 3])


def test_filtered_rows_keep_the_metadata_of_fields_and_records(tmp_path):
    meta = {"words": {"labels": [*"abcdef"]}, "at": {"unit": "m"}, "x": {"labels": ["u", "v"]}}
    inside = dv.View(y=dv.ragged(WORDS)._with_meta(of="y"))
    d = dv.View(words=dv.ragged(WORDS), at=inside, x=np.arange(len(WORDS)) % 2, _meta=meta)
    d = d._with_meta(title="some")
    assert d.words._filter(len)._meta == meta["words"]
    for rows in (d, dv.concat(d, d)._with_meta(title="some")):
        rows._filter(lambda row: True)._save(tmp_path / "kept.npz")
        found = dv.open(tmp_path / "kept.npz")
        assert found._meta == {"title": "some"} and found.at.y._meta == {"of": "y"}
        assert {name: found[name]._meta for name in ("words", "x")} == {
            name: meta[name] for name in ("words", "x")
        }
        assert found.at._meta == rows.at._meta


# -------------------- several streams, or several fields of one --------------------


class Counted:
    """A function that makes an iterator of samples, and counts what is read."""

    def __init__(self, count=10):
        self.count, self.read = count, 0

    def __call__(self):
        for sample in pairs(self.count):
            self.read += 1
            yield {**sample, "words": np.arange(sample["y"] % 3)}


def joined(kind, stream):
    if kind == "zip":
        return dv.zip(a=stream.x, b=stream.y)
    if kind == "view":
        return dv.View(a=stream.x, b=stream.y)
    return dv.zip(a=stream.x + 0, b=stream.y)


@pytest.mark.parametrize("kind", ["zip", "view", "computed"])
def test_fields_of_one_stream_are_zipped_in_one_pass(kind):
    counted = Counted()
    d = joined(kind, dv.View(counted)._probe())
    assert d._fields() == ("a", "b") and d._length() is None and d.a._shape() == (None, 3)
    readings = [
        lambda: [row._asdict() for row in d],
        lambda: [row._asdict() for row in d[:10]._freeze()],
        lambda: [row._asdict() for batch in d._minibatches(4) for row in batch],
        lambda: [row._asdict() for batch in d._loader(5) for row in batch],
    ]
    for reading in readings:
        counted.read = 0
        found = reading()
        assert counted.read == 10
        np.testing.assert_array_equal([row["a"] for row in found], X)
        assert [row["b"] for row in found] == [*range(10)]
    assert d[2:4]()["b"].tolist() == [2, 3]


@pytest.mark.parametrize(
    "join",
    [
        lambda d: dv.zip(part=dv.zip(a=d.x, b=d.y), words=d.words),
        lambda d: dv.View(part={"a": d.x, "b": d.y}, words=d.words),
    ],
)
def test_a_zip_of_fields_of_one_stream_is_zipped_with_another_in_one_pass(join):
    counted = Counted()
    d = join(dv.View(counted)._probe())
    counted.read = 0
    rows = [row._asdict() for row in d]
    assert counted.read == 10
    np.testing.assert_array_equal([row["part"]["a"] for row in rows], X)
    assert [len(row["words"]) for row in rows] == [row["part"]["b"] % 3 for row in rows]


def test_batches_of_a_stream_are_mapped_with_fields_that_differ_in_length():
    d = dv.View(Counted())._probe()
    for stream in (d, d._filter(lambda row: True)):
        mapped = stream._map_batches(lambda batch: batch.words._lengths(), batch_size=4)
        assert [row() for row in mapped] == [number % 3 for number in range(10)]


def test_an_iterator_is_zipped_with_itself():
    stream = dv.View(pairs(3))._probe()
    assert [row.b() for row in dv.zip(a=stream.x, b=stream.y)] == [0, 1, 2]


def test_zipped_streams_of_different_lengths_are_told():
    one, other = dv.View(Counted(4))._probe(), dv.View(Counted(3))._probe()
    d = dv.zip(a=one.x, b=other.y)
    assert d[:3].b().tolist() == [0, 1, 2]
    with pytest.raises(dv.StreamError, match="ends after 3 samples, others go on"):
        [row() for row in d]


def test_what_is_known_of_zipped_streams_stays_known():
    stream = dv.View(Counted())._probe()
    d = dv.zip(words=stream.words, whole=stream)
    assert d.words._shape() == (None, None) and d.whole.words._shape() == (None, None)
    assert [row.tolist() for row in d[:3]._freeze().words()] == [[], [0], [0, 1]]
    assert [row.whole.words._size() for row in d[:4]] == [0, 1, 2, 0]
    noted = dv.zip(y=stream.y._with_meta(unit="m"))
    assert noted.y._meta["unit"] == "m"


@pytest.mark.parametrize("is_probed", [True, False])
@pytest.mark.parametrize(
    "step",
    [
        lambda v: v[1:3],
        lambda v: v._shuffled(0, pool=3),
        lambda v: v._repeat(2),
        lambda v: v._filter(bool),
        lambda v: v._minibatches(2),
    ],
)
def test_metadata_of_a_stream_stay_with_a_choice_of_its_samples(step, is_probed):
    stream = dv.View(lambda: iter(range(5)))
    stream = stream._probe() if is_probed else stream
    assert step(stream._with_meta(unit="m"))._meta["unit"] == "m"


def test_metadata_of_fields_stay_with_a_slice_of_a_stream():
    stream = dv.View(lambda: iter([{"x": 1.0, "y": {"z": 2}}] * 3))._probe()
    noted = dv.View(stream, _meta={"x": {"unit": "m"}, "": {"of": "mine"}})[1:]
    assert noted.x._meta["unit"] == "m" and noted._meta["of"] == "mine"
    assert noted._filter(lambda row: True)[:1].x._meta["unit"] == "m"
    assert not noted.y.z._meta


HANDING_OUT = {
    "samples": iter,
    "probed": lambda v: iter(v._probe()),
    "a slice": lambda v: iter(v[:2]),
    "a filter": lambda v: iter(v._filter(lambda row: row._meta["of"] == "mine")),
    "minibatches": lambda v: iter(v._minibatches(2)),
    "probed minibatches": lambda v: [v._minibatches(2)._probe(), *v._minibatches(2)._probe()],
    "chosen fields": lambda v: [v._select("x", "y"), *v._select("x", "y")],
    "a field renamed": lambda v: [v._rename(x="a")._rename(a="x"), *v._rename(y="y")],
    "a loader": lambda v: v._loader(2),
    "a frozen part": lambda v: [v[:2]._freeze()],
}


@pytest.mark.parametrize("kind", HANDING_OUT)
@pytest.mark.parametrize("is_ragged", [False, True])
def test_what_a_stream_hands_out_has_its_metadata(kind, is_ragged):
    rows = [{"x": np.ones(n if is_ragged else 2), "y": {"z": n}} for n in range(4)]
    stream = dv.View(lambda: iter(rows))._probe()
    noted = dv.View(stream, _meta={"x": {"unit": "m"}, "": {"of": "mine"}})
    for found in HANDING_OUT[kind](noted):
        assert dict(found._meta) == {"of": "mine"} and dict(found.x._meta) == {"unit": "m"}
        assert not found.y._meta and not found.y.z._meta


def test_batches_of_different_lengths_are_rows_when_one_is_known():
    rows = [{"x": [n, n], "words": [*range(n)]} for n in range(5)]
    known = dv.View(lambda: iter(rows))._probe()._minibatches(2)._probe()
    assert [len(batch) for batch in known] == [2, 2, 1]
    for batch, first in zip(known, (0, 2, 4), strict=True):
        assert batch[0].x().tolist() == [first, first]
        assert batch.words._shape() == (len(batch), None)
        assert batch.words._lengths()().tolist() == [*range(first, first + len(batch))]
        assert batch[-1].words().tolist() == [*range(first + len(batch) - 1)]


def test_functions_of_samples_of_a_stream_get_its_metadata():
    stream = dv.View(lambda: iter([{"x": 1.0}] * 2))._probe()
    noted = dv.View(stream, _meta={"x": {"unit": "m"}, "": {"of": "mine"}})

    def see(row):
        return row.x._meta["unit"] + row._meta["of"]

    assert [row() for row in noted._map(see)] == ["mmine"] * 2
    (batch,) = noted._loader(2, transform=lambda row: {"seen": see(row)})
    assert batch.seen().tolist() == ["mmine"] * 2


def test_samples_keep_the_metadata_that_they_bring():
    bring = [dv.View(x=[n], _meta={"x": {"unit": n}, "": {"k": 1}}) for n in range(3)]
    stream = dv.View(lambda: iter(bring))._probe()
    assert dict(stream._meta) == {"k": 1}
    assert [dict(row.x._meta) for row in stream] == [{"unit": n} for n in range(3)]
    noted = dv.View(stream, _meta={"x": {"unit": "m"}})
    assert [dict(row.x._meta) for row in noted] == [{"unit": "m"}] * 3
    assert [dict(row._meta) for row in noted] == [{"k": 1}] * 3


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_a_stream_and_data_of_a_length_are_not_zipped(names):
    parts = {"a": dv.View(lambda: iter(range(3)))._probe(), "b": dv.View([1, 2, 3])}
    with pytest.raises(ValueError, match=r"length of 'a' is unknown .* stream\[:n\]._freeze"):
        dv.zip(**{name: parts[name] for name in names})
    assert len(dv.zip(a=parts["a"][:3]._freeze(), b=parts["b"])) == 3


def test_streams_that_were_not_probed_are_zipped():
    d = dv.zip(n=dv.View(lambda: iter(range(3))), text=dv.View(lambda: iter("abc")))
    assert d._fields() == ("n", "text") and d.n._dtype() is None
    assert [(row.n(), row.text()) for row in d] == [(0, "a"), (1, "b"), (2, "c")]
    assert d._probe().n._dtype() == np.dtype(int)


def test_statistics_of_fields_of_one_stream_are_taken_in_one_pass(monkeypatch):
    monkeypatch.setattr(sizes, "part_bytes", 50)
    counted = Counted()
    d = dv.View(counted)._probe()
    counted.read = 0
    found = dv.evaluate(d.x._mean(), d.x._std(axis=0), d.y._max(), (d.x * 2)._sum(0), d.y._std())
    assert counted.read == 10
    y = np.arange(10)
    for one, own in zip(found, (X.mean(), X.std(axis=0), 9, (X * 2).sum(0), y.std()), strict=True):
        np.testing.assert_allclose(one, own, rtol=1e-12)
    mean, centred = dv.evaluate(d.y._mean(), (d.x - d.x._mean())._std())  # what needs another
    np.testing.assert_allclose([mean, centred], [4.5, X.std()])
    once = dv.View(pairs())._probe()
    assert dv.evaluate(once.x._max(), once.y._min()) == (X.max(), 0)


def test_statistics_of_samples_that_differ_in_length_are_taken_in_one_pass():
    counted = Counted()
    d = dv.View(counted)._probe()
    counted.read = 0
    words = [n for number in range(10) for n in range(number % 3)]
    asked = d.words._mean(), d.words._max(), d.words._std()
    assert counted.read == 0
    np.testing.assert_allclose(dv.evaluate(*asked), [np.mean(words), 1, np.std(words)])
    assert counted.read == 10
    assert d.words._sum()() == sum(words) and counted.read == 20  # asked for anew
    assert pickle.loads(pickle.dumps(d.words._sum()))() == sum(words)
    assert d.words._sum(axis=1)().tolist() == [0, 0, 1] * 3 + [0]
    once = dv.View({"words": [1] * number} for number in range(4))._probe()
    assert dv.evaluate(once.words._sum(), once.words._max()) == (6, 1)


def test_a_statistic_of_filtered_rows_is_as_they_were_when_it_was_asked_for():
    values = np.arange(6)
    d = dv.View(words=dv.ragged(values, lengths=[1, 2, 3]))
    total = d._filter(lambda row: row.words._size() > 1).words._sum()
    d.words[2] = [0, 0, 0]
    assert total() == 1 + 2 + 3 + 4 + 5


@pytest.mark.parametrize("bad", [None, 2**70, {1, 2}])
@pytest.mark.parametrize(
    ("sample_of", "told"),
    [
        (lambda value: {"a": 1, "b": value}, "field 'b': "),
        (lambda value: {"a": {"b": value}}, "field 'a': field 'b': "),
        (lambda value: (1, value), "field '1': "),
        (lambda value: value, ""),
    ],
)
@pytest.mark.parametrize(
    "read",
    [
        lambda data: [sample() for sample in data],
        lambda data: [*data._loader(2)],
        lambda data: [*data._probe()],
    ],
)
def test_what_is_no_data_in_a_sample_is_told_with_its_place(bad, sample_of, told, read):
    samples = [sample_of(1), sample_of(2), sample_of(bad)]
    for data in (dv.View(lambda: iter(samples)), dv.View(iter(samples))):
        with pytest.raises(TypeError, match=f"^sample 2: {told}a view is made of .*; "):
            read(data)


@pytest.mark.parametrize("probed", [True, False])
def test_a_record_is_not_written_from_a_stream_and_the_remedy_is_told(probed):
    samples = [{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 4.0}]
    stream = dv.View(lambda: iter(samples))
    stream = stream._probe() if probed else stream
    d = dv.View(rec={"a": np.zeros(2), "b": np.zeros(2)}, y=np.zeros(2))
    for write in (d.rec._write, lambda value: d.rec.__setitem__(slice(None), value)):
        with pytest.raises(TypeError, match=r"samples\[:n\]\._freeze\(\) reads the first n"):
            write(stream)
        assert not d.rec.a().any()
    d.rec[:] = stream[:2]._freeze()
    assert [row._asdict() for row in d.rec] == samples


@pytest.mark.parametrize("copy", [dv.View._freeze, dv.View._copy])
def test_a_copy_of_a_probed_stream_has_all_samples_whether_they_are_alike_or_not(copy):
    samples = [{"a": np.arange(3) + n, "l": np.arange(n)} for n in range(9)]
    stream = dv.View(lambda: iter(samples))._probe()
    alike, ragged, both = copy(stream.a), copy(stream.l), copy(stream)
    for found in (alike, both.a):
        assert_same(found(), np.stack([sample["a"] for sample in samples]))
    for found in (ragged, both.l):
        assert [row.tolist() for row in found()] == [sample["l"].tolist() for sample in samples]
    assert_same(copy((stream.a + 1)[:4])(), np.stack([s["a"] + 1 for s in samples[:4]]))
    assert_same(copy(stream.a + 1)(), np.stack([s["a"] + 1 for s in samples]))
    with pytest.raises(dv.StreamError, match="needs an end, and this view never ends"):
        copy(stream._repeat())
