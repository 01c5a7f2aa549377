"""Visiting and rebuilding plans: every kind of node, plans of any length."""

import atexit
import copy
import pathlib
import pickle
import shutil
import sys
import tempfile

import numpy as np
import pytest

import dataview as dv
from dataview.plan.kinds import RowsInMemory
from dataview.plan.node import Node, Part
from dataview.plan.walk import below, rebuilt
from dataview.samples import read_together
from dataview.view.face import asked, node_of
from oracle import assert_same

X = np.arange(12.0).reshape(4, 3)


def row_sum(row):
    return row().sum()


def shown(row):
    return {"a": row(), "b": row().sum()}


def numbers():
    return iter([np.array([1.0, 2.0]), np.array([3.0, 4.0])])


def ragged_numbers():
    return map(np.arange, range(3))


def numbers_with_gaps():
    told = {"x_mask": {"mask_of": "x"}}
    d = dv.View(x=np.arange(3), x_mask=np.array([True, False, True]), _meta=told)
    return (d.x[number] for number in range(3))


FILES = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, FILES)
for length in (2, 3):
    np.save(FILES / f"{length}.npy", np.arange(length))
LINES = FILES / "lines.jsonl"
LINES.write_text('{"x": [1]}\n{"x": [2, 3]}\n')

LABELS = dv.spaces.IndexSpace(max_labels=3, dim=1)
SEQUENCES = dv.spaces.SequenceSpace(dv.spaces.VectorSpace(1))


PARTS = tempfile.TemporaryDirectory()
for number in range(2):
    (pathlib.Path(PARTS.name) / f"part-{number}.txt").write_text("a\nb\n")


def views():
    """A view with each kind of node, of samples and of functions of rows at its top."""
    d = dv.View(X, first=np.s_[:2], pos=dv.field(np.s_[1:], x=0))
    record = dv.View(a=X, b=np.arange(4), c=dv.View(d=X, e=X[:, 0]))
    labelled = record._select("a", "b")
    labelled.b = record.b._with_meta(labels=[*"wxyz"])
    symbol = dv.symbol("s", shape=(None, 3))
    stream = dv.View(numbers)
    mapped = d._map(row_sum, shape=(), dtype=float)
    made = dv.View(np.arange, _length=5)._probe()
    return {
        "stored": d,
        "structured": dv.View(np.zeros(3, [("a", "i4"), ("b", "f8", 2)])),
        "attached": dv.View(X, z=dv.View(np.arange(4)) + 1),
        "select": d[::2, 1:],
        "field": d.pos,
        "reshaped": (d + 1)._reshape(6, 2),
        "matmul": d @ d._transpose(),
        "elementwise": d * 2 + d._mean(axis=0),
        "comparison": d == 3,
        "mapped": mapped,
        "kept_together": read_together(node_of(mapped)),
        "undeclared": d._map(shown),
        "cached": mapped._cached(1000),
        "of_a_loop": next(iter(d._map(shown)._probe())).a,
        "held": RowsInMemory(node_of(d), np.array([1]), X[[1]]),
        "record": record,
        "driven": dv.View(a=X, b=X[:2], _driver="a"),
        "concat": dv.concat(d, d),
        "reduction": d._mean(axis=0),
        "taken": taken(d._mean(axis=0)),
        "symbol": symbol,
        "deferred": symbol[1:] + 1,
        "function": dv.View(np.sqrt, _length=5),
        "probed_function": dv.View(np.sqrt, _length=5)._probe(),
        "stream": stream,
        "stream_renamed": dv.View(lambda: iter([{"a": 1}]))._probe()._rename(a="b"),
        "stream_of_parts": dv.open(PARTS.name, layout="parts"),
        "followed_lines": dv.open(f"{PARTS.name}/part-0.txt", follow=0),
        "probed_stream": stream._probe(),
        "computed_stream": stream._probe() + 1,
        "declared_stream": dv.View(numbers, _fields=((3,), float)),
        "declared_function": dv.View(np.sqrt, _length=5, _fields=float),
        "sliced": stream[1:],
        "described_stream": stream._with_meta(unit="cm")._map(row_sum),
        "mapped_stream": stream._map(row_sum),
        "filtered": d._filter(lambda row: row[0]() > 2),
        "pooled": stream._shuffled(0, pool=2),
        "repeated_stream": stream._repeat(2),
        "batches_of_a_stream": stream._minibatches(2),
        "unique": d._unique(counts=True),
        "codes": record.b._codes(),
        "counts_of_codes": asked(labelled.b._counts()),
        "columns_of_codes": labelled.b._onehot(),
        "decoded": labelled.b._codes(labels=["a"]),
        "given_codes": record.b._codes(labels=[0]),
        "groups": record._select("a", "b")._group(by="b")._mean(),
        "joined": record._join(dv.View(b=[0], f=[1]), on="b", missing="mask").b_mask,
        "uneven": d._minibatches(3),
        "ragged": dv.View([[1, 2], [3], []])[::-1],
        "ragged_function": made,
        "lengths_of_a_function": made._lengths(),
        "padded_function": made._pad(0),
        "padded_to": made._pad(0, to=3),
        "statistic_of_a_function": made._mean(),
        "counts_of_a_function": made._counts(),
        "joined_samples": dv.concat(made, made),
        "labels_in_a_space": dv.spaces.IndexSpace(None, 1).format_as(dv.View([[1], [0]]), LABELS),
        "one_hot": LABELS.format_as(dv.View([[1], [0]]), dv.spaces.VectorSpace(3)),
        "largest": dv.spaces.VectorSpace(3).format_as(dv.View(X), LABELS, argmax=True),
        "mask": SEQUENCES.format_as((dv.View([[[1]]]), dv.View([[1]])), SEQUENCES)[1],
        "lists_in_a_file": dv.open(LINES).x,
        "ragged_files": dv.open(FILES, format="media").array,
        "ragged_stream": dv.View(ragged_numbers)._probe(),
        "padded": dv.View([[1, 2], [3], []])._pad(0),
        "even": d._minibatches(2),
        "gaps_of_a_stream": dv.View(numbers_with_gaps)._probe() * 2,
        "late_rows": asked(dv.View(a=X, b=d)._drop_duplicates(by="a")),
        "late_field": asked(record._dropna().c),
        "late_columns": asked(record.b._onehot()),
    }


def taken(view):
    view()
    return view


KINDS = sorted(views())


@pytest.fixture(scope="module")
def nodes():
    return {
        name: view if isinstance(view, Node) else node_of(view) for name, view in views().items()
    }


def subclasses(kind):
    return {kind, *(deep for sub in kind.__subclasses__() for deep in subclasses(sub))}


def test_all_kinds_of_parts_are_looked_at(nodes):
    seen = {type(part) for node in nodes.values() for part in below([node], Part.held)}
    abstract = {
        "Part",
        "Node",
        "Sampled",
        "Unbound",
        "Samples",
        "ClosableSamples",
        "DerivedSamples",
        "Photograph",
        "RowNumbers",
        "Table",
        "Asked",
        "RowStep",
    }
    missing = {kind.__name__ for kind in subclasses(Part) - seen}
    of_orders = {kind.__name__ for kind in subclasses(Part) if ".samplers" in kind.__module__}
    of_orders -= {"_FirstOfEach", "_Where"}  # of late rows
    assert missing == abstract | of_orders | {
        "_Order",  # which stands in an order of rows
        "Counts", "Groups", "Statistics", "_Code",  # which stand in sources
        "_Checking", "_Coding", "_InParts", "_Landing", "_Renumbering",  # and in what is written
    }  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_what_nothing_changes_in_is_the_same_object(name, nodes):
    assert rebuilt([nodes[name]], lambda part, old: part)[0] is nodes[name]


@pytest.mark.parametrize("name", KINDS)
def test_each_part_comes_once_and_after_its_own(name, nodes):
    order = below([nodes[name]], Part.held)
    places = {id(part): place for place, part in enumerate(order)}
    assert len(places) == len(order)
    assert order[-1] is nodes[name]
    for part in order:
        assert all(places[id(inner)] < places[id(part)] for inner in part.held())


@pytest.mark.parametrize("name", KINDS)
def test_a_change_at_the_bottom_reaches_the_top_and_nothing_else(name, nodes):
    """After all sources were copied, nodes made from them are new and all others the same."""
    root = nodes[name]
    copied = {}

    def change(part, old):
        if not old.held():
            part = copied[id(old)] = old.replaced()
        return part

    (made,) = rebuilt([root], change)
    olds = below([root], Part.held)
    news = below([made], Part.held)
    assert [type(part) for part in news] == [type(part) for part in olds]
    assert not {id(part) for part in olds} & {id(part) for part in news}


def test_parts_that_are_shared_are_shared_again():
    d = dv.View(X)
    node = node_of(d + d * 2)
    (made,) = rebuilt([node], lambda part, old: part if old.held() else old.replaced())
    assert made.args[0] is made.args[1].args[0] is not node.args[0]


# --- plans of any length -----------------------------------------------------------------------

LONG = 10_000


def repeated(step, view, count):
    for _ in range(count):
        view = step(view)
    return view


def nested(count):
    declared = dv.field(np.s_[:])
    for _ in range(count):
        declared = dv.field(np.s_[:], inner=declared)
    return dv.View(X, inner=declared)


CHAINS = {
    "maps": (lambda v: v._map(lambda row: row() + 1, shape=(3,), dtype=float), X + LONG),
    "undeclared maps": (lambda v: v._map(lambda row: row() + 1), X + LONG),
    "maps with fields": (
        lambda v: v._map(lambda row: {"x": row() + 1}, shape={"x": (3,)}, dtype=float).x,
        X + LONG,
    ),
    "sums": (lambda v: v + 1, X + LONG),
    "transposes": (lambda v: (v + 1)._transpose(), X + LONG),
    "reshapes": (lambda v: (v._reshape(2, 6) + 1)._reshape(4, 3), X + LONG),
    "matmuls": (lambda v: v @ np.eye(3), X),
    "joined parts": (lambda v: dv.concat(v[:1], v[1:]), X),
}


@pytest.mark.filterwarnings("ignore:30 and more")  # products that nest are told of
@pytest.mark.parametrize("name", sorted(CHAINS))
def test_a_plan_is_as_long_as_one_likes(name):
    step, expected = CHAINS[name]
    view = repeated(step, dv.View(X), LONG)
    assert_same(view[1](), expected[1])
    if "maps" not in name:
        assert_same(view[1:3, ::2](), expected[1:3, ::2])
        assert_same(view._readonly()[1](), expected[1])
    assert repr(view).startswith("View")
    assert str(view._explain()).startswith("Plan of View")


def test_rows_are_repeated_as_often_as_one_likes():
    view = repeated(lambda v: (v + 0)._repeat(2)[:4], dv.View(X), LONG // 10)
    assert_same(view[1](), X[1])
    assert_same(view(), X)
    assert_same(np.concatenate([batch() for batch in view._minibatches(2)]), X)


@pytest.mark.parametrize("name", ["transposes", "matmuls", "joined parts"])
def test_a_long_plan_is_pickled_and_copied(name):
    step, expected = CHAINS[name]
    expected = expected - (LONG - LONG // 5) * (name == "transposes")
    view = repeated(step, dv.View(X), LONG // 5)
    assert_same(pickle.loads(pickle.dumps(view))[2](), expected[2])
    assert_same(copy.deepcopy(view)[2](), expected[2])


def test_streams_are_mapped_as_often_as_one_likes():
    stream = repeated(lambda v: v._map(lambda row: row() + 1), dv.View(numbers), LONG)
    assert [sample().tolist() for sample in stream] == [[LONG + 1, LONG + 2], [LONG + 3, LONG + 4]]


def test_fields_are_nested_as_deep_as_one_likes():
    d = nested(LONG)
    inner = repeated(lambda v: v.inner, d, LONG)
    assert_same(inner[-1](), X[-1])
    assert repr(d).startswith("View (4, 3)")
    d = nested(LONG // 5)
    for view in (pickle.loads(pickle.dumps(d)), copy.deepcopy(d), d[1:], d._readonly()):
        inner = repeated(lambda v: v.inner, view, LONG // 5)
        assert_same(inner[-1](), X[-1])


def test_records_are_nested_as_deep_as_one_likes():
    d = repeated(lambda v: dv.View(inner=v), dv.View(x=X), LONG)
    for view in (d, d[1:]):
        inner = repeated(lambda v: v.inner, view, LONG)
        assert_same(inner.x[-1](), X[-1])
    for view in (d._readonly(), pickle.loads(pickle.dumps(d))):
        assert view._fields() == ("inner",)
    for view, expected in (
        (d._freeze(), X),
        (d._minibatches(2), X.reshape(2, 2, 3)),
        (dv.concat(d, d), np.concatenate([X, X])),
    ):
        inner = repeated(lambda v: v.inner, view, LONG)
        assert_same(inner.x(), expected)


@pytest.mark.filterwarnings("ignore:30 and more statistics or products")
@pytest.mark.parametrize("name", sorted(CHAINS))
def test_its_time_grows_as_its_length(name):
    """Count calls of the interpreter, which do not depend on the load of the machine."""
    step, _ = CHAINS[name]
    calls = [count_calls(lambda n=n: repeated(step, dv.View(X), n)[1]()) for n in (100, 400, 1600)]
    assert calls[2] - calls[1] < 4.5 * (calls[1] - calls[0])


def count_calls(work):
    counted = 0

    def count(frame, event, arg):
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted


def test_an_error_in_a_long_plan_names_the_function_that_failed():
    def failing(row):
        raise ValueError("no such number")

    view = dv.View(X)._map(failing, shape=(3,), dtype=float)
    view = repeated(lambda v: v._map(lambda row: row() + 1, shape=(3,), dtype=float), view, 100)
    with pytest.raises(ValueError, match="failing, sample 2: no such number"):
        view[2]()


def test_a_part_that_occurs_a_thousand_times_is_walked_once_by_what_reads_several_fields():
    x = dv.View(np.arange(40.0).reshape(20, 2))
    y = x
    for _ in range(60):  # else 2**60 steps
        y = (y + y) * 0.5
    d = dv.View(x=x, y=y, g=[[1, 2], [3]] * 10)
    assert_same(next(d._loader(5)).y(), np.arange(10.0).reshape(5, 2))
    assert_same(d._asdict()["y"], x())
    assert_same(dv.evaluate(d.g, d.y, d.y._sum())[1], x())
    assert_same(d._freeze().y(), x())
