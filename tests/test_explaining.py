"""`_explain`: equal to stored files, and to what is read when the view is called.

After an intended change, write the stored files anew, and read the difference before you commit:
DATAVIEW_UPDATE_SNAPSHOTS=1 pytest tests/test_explaining.py
"""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from counting import unmade
from dataview.compute import ways
from dataview.index import gather
from dataview.index.sizes import sizes
from dataview.plan import build
from dataview.sources import Source
from oracle import examples
from recorded import cases_of, check_files, check_text


class Counted(Source):
    """A source that counts the bytes it is asked for."""

    def __init__(self, array):
        self.kept = array
        self.shape, self.dtype = array.shape, array.dtype
        self.nbytes = self.reads = 0

    def read(self, index, memo):
        found = np.array(gather.read(self.kept, index))
        self.nbytes += found.nbytes
        self.reads += 1
        return found

    def describe(self):
        return "counted"


def counted(*shape, dtype=np.float32):
    """A source, and the view of it."""
    count = math.prod(shape)
    source = Counted((np.arange(count) % 97 + 1).astype(dtype).reshape(shape))
    return source, dv.View(build.stored(source))


def cases(folder):
    """The views of the snapshots by name."""
    np.save(folder / "x.npy", np.ones((6000, 50), np.float32))
    d = dv.View(dv.open(folder / "x.npy"), input=np.s_[:40], target=np.s_[40:])
    z = (d.input - d.input._mean(axis=0)) / d.input._std(axis=0)
    taken = np.ones(3) * dv.View([1.0, 2.0])._mean()
    taken()
    large = dv.View(np.ones((4000, 1000)))
    return {
        "data_of_a_file": d.input,
        "memory": dv.View(np.ones((4, 3)))[1:],
        "standardised": z,
        "standardised_rows": z[5:10],
        "standardised_column": z[:, 0],
        "statistic": d.input._mean(axis=0),
        "statistic_taken": taken,
        "statistic_of_each_row": (d.input - d.input._max(axis=1, keepdims=True))[7:9],
        "two_passes": (d.input - d.input._mean(axis=0))._std(axis=1) + d.target._sum(),
        "memory_in_blocks": np.sqrt(large**1.5 + np.divmod(large, 3)[0]) * 2,
        "comparison": d.input == d.input * 2,
        "record": dv.View(input=d.input, z=z),
        "joined": dv.concat(d.input, d.input * 2)[5990:6010],
        "many_steps": sum(itertools.repeat(d.target, 30)),
        "function": dv.View(unmade, _length=7),
        "stream": dv.View(lambda: iter([1, 2])),
        "filtered": d._filter(unmade),
        "endless": d.input._repeat(),
        "endless_expression": d.input._repeat() * 2,
        "do_not_broadcast": d.input == d.target,
        "empty": d.input[:0] * 2,
        "number": dv.View(3.0) + 1,
    }


@pytest.fixture(autouse=True)
def by_numpy():
    with dv.engine("numpy"):
        yield


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    return cases(tmp_path_factory.mktemp("explaining"))


def test_every_case_has_its_file(shown):
    plans = {f"{name}.txt": f"{view._explain()}\n" for name, view in shown.items()}
    check_files("explaining", plans)


@pytest.mark.parametrize("name", cases_of("explaining"))
def test_a_plan_is_told_as_in_its_file(name, shown):
    plan = shown[name]._explain()
    check_text("explaining", f"{name}.txt", f"{plan}\n")
    assert all(line == line.rstrip() and line.isprintable() for line in repr(plan).split("\n"))


def test_the_page_is_the_text():
    plan = dv.View(**{"<b>": np.ones(3)})["<b>"] * 2
    page = plan._explain()._repr_html_()
    assert page.startswith("<pre ")
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


def test_a_plan_is_a_value():
    _, x = counted(5, 4)
    plan = (x - x._mean(axis=0))._explain()
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert [one.statistics for one in plan.passes] == [("mean(float32(5, 4), axis=0)",)]
    assert plan.readings[0].nbytes == plan.passes[0].readings[0].nbytes == 80
    assert [step.engine for step in plan.steps] == ["numpy"]


@given(st.sampled_from(["sum", "std", "max", "argmin"]), st.sampled_from([0, 1, None]))
@examples(20)
def test_a_plan_foretells_the_blocks_of_a_statistic(kind, axis):
    source, x = counted(30, 4)
    statistic = getattr(x, f"_{kind}")(axis=axis)
    with sizes.set(part_bytes=16 * 7):
        plan = statistic._explain()
        statistic()
    assert plan.passes[0].blocks == source.reads == 5
    assert "in 5 blocks of rows" in repr(plan)


@pytest.mark.parametrize(
    ("key", "blocks"), [(np.s_[:], 5), (np.s_[::-3], 2), (np.s_[4:6, 1], 1), (0, 1)]
)
def test_a_plan_foretells_the_blocks_of_a_product(key, blocks, monkeypatch):
    source, x = counted(30, 4)
    part = (x @ np.ones((4, 3)))[key]
    monkeypatch.setattr(ways, "OPERAND_BYTES", 16 * 7)
    assert part._explain().blocks == blocks
    part()
    assert source.reads == blocks


KEYS = [
    *(np.s_[:], np.s_[5:9], np.s_[::-3], 3, np.s_[2:5, 1], np.s_[:, ::2], np.s_[[4, 1, 2]]),
    *(np.s_[:0], np.s_[None, 1:3], np.s_[..., 0]),
]
EXPRESSIONS = {
    "data": lambda x: x,
    "scaled": lambda x: x * 2 + 1,
    "centred": lambda x: x - x._mean(axis=0),
    "standardised": lambda x: (x - x._mean(axis=0)) / x._std(axis=0),
    "by_row": lambda x: x - x._max(axis=1, keepdims=True),
    "joined": lambda x: dv.concat(x, x * 3),
    "shuffled": lambda x: x._shuffled(1) * 2,
    "mirrored": lambda x: x + x[::-1],
    "outer": lambda x: x[:, :1] * x[0],
    "product": lambda x: x @ np.ones((4, 3)) + 1,
    "reshaped": lambda x: np.reshape(x, (60, 2)) * 2,
    "split": lambda x: np.reshape(x, (30, 2, 2)),
    "field": lambda x: dv.View(x, w=np.s_[1:3]).w * 2,
}


@given(st.sampled_from(sorted(EXPRESSIONS)), st.sampled_from(KEYS))
@examples(100)
def test_a_plan_foretells_what_is_read(name, key):
    source, x = counted(30, 4)
    part = EXPRESSIONS[name](x)[key]
    plan = part._explain()
    assert source.nbytes == 0
    found = part()
    foretold = [*plan.readings, *(reading for one in plan.passes for reading in one.readings)]
    ours = [reading for reading in foretold if reading.place == "counted"]
    assert source.nbytes == sum(reading.nbytes for reading in ours)
    assert plan.result_bytes == found.nbytes
    assert part._explain().passes == ()


def test_any_view_has_a_plan_with_any_engine(shown):
    for view in shown.values():
        with dv.engine("numexpr"):
            assert repr(view._explain()).startswith("Plan of View ")


def test_of_very_many_rows_no_positions_are_made():
    x = dv.View(np.broadcast_to(np.float32(1), (2**40, 2)))
    (reading,) = dv.concat(x, x)._shuffled(1)._explain().readings
    assert reading.nbytes == 2**44


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (lambda d: d.x, "x"),
        (lambda d: d.x[2:5], "x[2:5]"),
        (lambda d: d[10:].x[2:5], "x[12:15]"),
        (lambda d: d[10:].x, "x[10:]"),
        (lambda d: d[::-2].x[1:], "x[17::-2]"),
        (lambda d: d[10:].x[3], "x[13]"),
        (lambda d: d[10:].wide[2:5, 1:], "wide[12:15, 1:]"),
        (lambda d: d[10:].wide[:, 1], "wide[10:, 1]"),
        (lambda d: d._shuffled(0).x, "x"),
        (lambda d: d._shuffled(0).x[2:5], "x[…]"),
        (lambda d: d._shuffled(0)[2:5].x, "x[…]"),
        (lambda d: d._split(0.5, seed=0)[0].x[:2] + 1, "x[…]"),
        (lambda d: d.wide._transpose()[1:], "wide[…]"),
    ],
)
def test_rows_that_are_read_have_their_numbers_in_the_data(part, name):
    d = dv.View(x=np.arange(20.0), wide=np.arange(60.0).reshape(20, 3))
    view = part(d)
    (reading,) = view._explain().readings
    assert reading.name == name
    if "…" not in name:
        field, mark, key = name.partition("[")
        rows = eval(f"np.s_[{key}") if mark else np.s_[:]
        assert np.array_equal(np.sort(d[field]()[rows], None), np.sort(view(), None))


@pytest.mark.parametrize("name", ["x.npy", "x.h5", "x.zarr", "x.npz"])
def test_a_plan_says_that_a_file_was_closed_unless_nothing_is_read_of_it(name, tmp_path):
    data = np.arange(12.0).reshape(6, 2)
    dv.View(data)._save(tmp_path / name)
    d = dv.open(tmp_path / name)
    taken, shown = d._mean(), [d, d[1:3], d[1:3] * 2, d._max(), (d - d._min())[:2]]
    assert taken() == data.mean()
    assert not any("closed" in repr(view._explain()) for view in [*shown, taken])
    d._close()
    for view in shown:
        assert "closed    so it cannot be called: open the file again" in repr(view._explain())
        with pytest.raises(ValueError, match="closed"):
            view()
    assert not taken._explain().is_closed and taken() == data.mean()


def test_a_plan_names_the_engine():
    _, x = counted(5, 4)
    with dv.engine("numexpr"):
        plan = (np.sin(x) + x)._explain()
    assert [step.name for step in plan.steps] == ["sin", "add"]
    assert [step.engine for step in plan.steps] == ["numpy", "numexpr"]


def test_blocks_are_those_that_are_computed():
    source, x = counted(30_000, 200)
    plan = (np.sqrt(x) * x + 1)._explain()
    assert plan.blocks == math.ceil(30_000 / plan.block_rows) > 1
    assert plan.block_elements == plan.block_rows * 200
    assert plan.thread_bytes == plan.block_elements * (4 + 4)  # what is read, and the root
    (np.sqrt(x) * x + 1)()
    assert source.nbytes == plan.readings[0].nbytes == 30_000 * 200 * 4


def test_rows_of_a_mapped_view_need_the_rows_of_its_data():
    d = dv.View(x=np.ones((1000, 4)), y=np.ones(1000, "f4"))
    mapped = d._map(lambda sample: sample.x() * 2, shape=(4,), dtype="f8")
    (one,) = (mapped[5:8] + 1)._explain().readings
    assert one.name.startswith("map(") and one.nbytes == 3 * (4 * 8 + 4)
    few = d._map(lambda sample: sample.x() * 2, shape=(4,), dtype="f8", reads=["x"])
    assert few[5:8]._explain().readings[0].nbytes == 3 * 4 * 8


def test_a_plan_over_rows_of_unknown_samples_is_made():
    d = dv.View(unmade, _length=10)._map(lambda s: s(), shape=(), dtype=float)
    assert "reads" in str((d + 1)[[0, 0]]._explain())


def test_blocks_without_number_are_not_listed():
    plan = (np.broadcast_to(dv.View(np.ones(2, "f4")), (1 << 50, 2)) + 1)._explain()
    assert plan.blocks * plan.block_rows == 1 << 50
