"""`_describe`: all fields in one pass, and exact unless marked as an estimate."""

import math
import pickle
import re
import tracemalloc
import warnings
from fractions import Fraction

import h5py
import numpy as np
import pyarrow
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from children import printed
from counting import Rows
from dataview.index import sampled_rows
from dataview.index.sizes import sizes
from dataview.show import describe, page
from oracle import examples, fill

ENDS = {"25%": 0.25, "50%": 0.5, "75%": 0.75}


@pytest.fixture(params=[1 << 22, 200])
def _blocks(request):
    with sizes.set(block_bytes=request.param):
        yield


@examples(150)
@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=3).map(tuple),
    st.sampled_from("? i1 u2 i8 f2 f4 f8 g >f8 M8[s] m8[ms] c8 U3 S3".split()),
    st.sampled_from([1 << 22, 1, 60]),
)
def test_a_description_is_numpys(shape, dtype, size):
    a = fill(shape, dtype)
    if a.dtype.kind == "f":
        a[np.isinf(a)] = 7
    with sizes.set(block_bytes=size), warnings.catch_warnings():
        warnings.simplefilter("error")
        found = dv.View(a)._describe()[""]
    flat = a.reshape(-1)
    unknown = np.isnan(flat) if a.dtype.kind in "fcmM" else np.zeros(flat.shape, bool)
    known = flat[~unknown]
    assert found["count"] == a.size and found.get("missing", 0) == unknown.sum()
    assert found["distinct"] == len(np.unique(known))
    if not len(known):
        assert "min" not in found and "mean" not in found
        return
    if a.dtype.kind in "biufmM":
        assert (found["min"], found["max"]) == (known.min(), known.max())
        numbers = known.astype("u1") if a.dtype.kind == "b" else known
        for name, q in ENDS.items():
            assert found[name] == np.quantile(numbers, q, method="linear")
    if a.dtype.kind in "biufc":
        wide = known.astype(np.result_type(known, "f8"))
        near = 1e-3 if dtype == "f2" else 1e-6
        np.testing.assert_allclose(found["mean"], wide.mean(), rtol=near)
        np.testing.assert_allclose(found["std"], wide.std(), rtol=near, atol=1e-12)
    if a.dtype.kind in "US":
        values, counts = np.unique(known, return_counts=True)
        assert found["times"] == counts.max()
        assert counts[values.tolist().index(found["most frequent"])] == counts.max()
        lengths = np.strings.str_len(known)
        assert (found["shortest"], found["longest"]) == (lengths.min(), lengths.max())


@pytest.mark.usefixtures("_blocks")
def test_every_field_is_described_nested_ones_too(rng):
    points = rng.standard_normal((50, 4))
    pair = dv.View(points, xy=dv.field(np.s_[:2], x=0, y=1), z=2)
    d = dv.View(
        points=pair, label=np.arange(50) % 3, nested=dv.View(a=points[:, 3], b=points[:, :2])
    )
    d.twice = d.label * 2
    found = d._describe()
    data = {
        "points": points,
        "points.xy": points[:, :2],
        "points.xy.x": points[:, 0],
        "points.xy.y": points[:, 1],
        "points.z": points[:, 2],
        "label": np.arange(50) % 3,
        "nested.a": points[:, 3],
        "nested.b": points[:, :2],
        "twice": np.arange(50) % 3 * 2,
    }
    assert list(found) == list(data) and len(found) == len(data)
    for name, array in data.items():
        assert found[name]["mean"] == pytest.approx(array.mean())
        assert found[name]["50%"] == np.quantile(array, 0.5)
        assert found[name]["count"] == array.size
    windows = dv.View(points, left=np.s_[:2])
    assert list(windows._describe()) == ["left"]
    assert list(windows.left._describe()) == [""]


def test_fields_of_other_lengths_and_single_samples_are_described():
    d = dv.View(short=np.arange(3), long=np.arange(9.0), _driver="long")
    found = d._describe()
    assert (found["short"]["count"], found["long"]["count"]) == (3, 9)
    sample = dv.View(np.arange(6), head=np.s_[:2], last=-1)._describe()
    assert (sample["head"]["max"], sample["last"]["max"]) == (1, 5)
    assert dv.View(4.0)._describe()[""]["mean"] == 4
    assert dv.View(image=np.ones((2, 2)), label=3, _rank=0)._describe()["label"]["max"] == 3
    assert dv.View(np.zeros(3, [("a", "f4"), ("b", "S2")]))._describe()["a"]["count"] == 3


def test_objects_are_described_as_far_as_they_are_plain():
    plain = np.array(["a", None, "a", 3], object)
    found = dv.View(plain)._describe()[""]
    assert (found["count"], found["missing"], found["distinct"]) == (4, 1, 2)
    assert (found["most frequent"], found["times"]) == ("a", 2)
    other = np.empty(4, object)
    other[:] = [[1], {}, np.arange(3), math.nan]
    assert dict(dv.View(other)._describe()[""]) == {"dtype": "object", "count": 4, "missing": 1}


@pytest.mark.parametrize("none", [None, math.nan])
def test_what_is_missing_is_counted_in_objects_and_texts(none):
    for dtype in (object, np.dtypes.StringDType(na_object=none)):
        found = dv.View(np.array(["b", none, "aaa", "b", none], dtype))._describe()[""]
        assert (found["count"], found["missing"], found["distinct"]) == (5, 2, 2)
        assert (found["most frequent"], found["times"]) == ("b", 2)
        if dtype is not object:
            assert (found["shortest"], found["longest"]) == (1, 3)


@pytest.mark.usefixtures("_blocks")
def test_all_is_read_once():
    rows = Rows(50)
    view = rows.view
    found = dv.View(view, first=0, rest=np.s_[1:])._describe()
    assert rows.counts() == [1] * 50
    assert found["rest"]["max"] == rows.data.max()
    made = dv.View(lambda i: {"a": rows(i), "b": i}, _length=50)._probe()
    rows.counts()
    assert made._describe()["b"]["mean"] == 24.5
    assert rows.counts() == [1] * 50


@pytest.mark.usefixtures("_blocks")
def test_of_many_rows_a_sample_tells_and_is_marked(rng):
    a = rng.standard_normal(20_000)
    d = dv.View(
        a=a, label=np.arange(20_000) % 7, word=np.array(["no", "yes", "no"] * 7000)[:20_000]
    )
    with sizes.set(sampled_rows=1000):
        found, again = d._describe(), d._describe()
        few = d[:900]._describe()
    assert found.sampled == {"a", "label", "word"}
    assert found["a"]["mean"] == pytest.approx(a.mean()) and found["a"]["min"] == a.min()
    assert abs((a <= found["a"]["50%"]).mean() - 0.5) < 2.7 / math.sqrt(1000)
    assert (found["a"]["distinct"], found["label"]["distinct"]) == (20_000, 7)
    assert found["word"]["most frequent"] == "no"
    assert found["word"]["times"] == pytest.approx(13_333, rel=0.1)
    assert found == again and repr(found) == repr(again)
    assert "".join(lines_of(found, "a")).count("≈") == 4
    assert not few.sampled and "≈" not in repr(few)
    assert found.asdict()["a"]["sampled"] == 1000 and "sampled" not in few["a"]
    assert "≈ and histograms are of a sample" in repr(found)


ODD = [
    np.array(["2024-01-01"] * 3, "M8[us]"), np.full(3, 1e15), np.full(3, 3e38, "f4"),
    np.array([1.0, np.nextafter(1, 2)]), np.array([5e-324, 0.0]), np.array([-1.7e308, 1.7e308]),
    np.arange(1000) + 1234567890123456789, np.array([2**64 - 1] * 2, "u8"),
    np.array([-(2**63), 2**63 - 1]), np.array([-100, -100, 100, 100], "i1"),
    np.array([-20000, 20000], ">i2"), np.array([-40000, 40000], "f2"),
    np.array([-3e38, 3e38], "f4"), np.array([1.0, 2.0, np.inf]),
]  # fmt: skip


@pytest.mark.parametrize("column", ODD, ids=lambda column: f"{column.dtype}-{column[0]}")
def test_numbers_at_the_limits_of_their_dtype_are_described(column):
    found = dv.View(column)._describe()[""]
    quarters = [found[name] for name in ("min", "25%", "50%", "75%", "max")]
    if column.dtype.kind == "u":  # the quarters are floats, and not all integers are
        quarters = list(map(float, quarters))
    assert quarters == sorted(quarters)
    assert sum(found.get("histogram", [len(column)])) == len(column)


def test_quarters_are_those_of_the_numbers_and_not_of_their_dtype():
    for dtype in ("i1", ">i2", "f2", "f4", "i8"):
        top = 100 if dtype == "i1" else 20_000
        found = dv.View(np.array([-top, -top, top, top], dtype))._describe()[""]
        assert (found["25%"], found["50%"], found["75%"]) == (-top, 0, top)
    top = float(np.finfo("f4").max)
    assert dv.View(np.array([-top, top], "f4"))._describe()[""]["50%"] == 0
    assert dv.View(np.array([1.0, 2.0, np.inf]))._describe()[""]["50%"] == 2


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u8", "i8"])
def test_quarters_between_far_numbers_have_all_digits(dtype):
    info = np.finfo(dtype) if dtype.startswith("f") else np.iinfo(dtype)
    low, high = Fraction(int(info.min)), Fraction(int(info.max))
    found = dv.View(np.array([info.max, info.min], dtype))._describe()[""]
    for name, q in (("25%", 1), ("50%", 2), ("75%", 3)):
        off = Fraction(found[name]) - (low + (high - low) * q / 4)
        assert abs(off) <= (high - low) / 2**52
    assert (found["min"], found["max"]) == (info.min, info.max)


def test_the_quarters_of_a_field_are_found_together(monkeypatch):
    asked, quantile = [], np.quantile
    monkeypatch.setattr(np, "quantile", lambda *a, **o: asked.append(a) or quantile(*a, **o))
    for values in (np.arange(9.0) ** 2, np.array([3.0]), np.array([np.inf, 1, 1, 1, 1, -np.inf])):
        found = dv.View(values)._describe()[""]
        with np.errstate(invalid="ignore"):
            expected = quantile(values, [0.25, 0.5, 0.75])
        assert [found[name] for name in ("25%", "50%", "75%")] == expected.tolist()
    assert len(asked) <= 3


def test_ids_are_told_apart_in_a_histogram():
    assert dv.View(np.arange(1000) + 2**60)._describe()[""]["histogram"] == (100,) * 10


def test_distinct_values_are_estimated_from_those_that_occur_once():
    # Of 100 values in a sample of 10,000, 60 occur once: they are multiplied by the root of 100.
    counts = np.array([1] * 60 + [2] * 20)
    assert describe._estimated(counts, 10_000) == 20 + 60 * 10


def lines_of(found, name):
    """The lines of a description that begin with the name of a field."""
    return [line for line in repr(found).splitlines() if line.split()[:1] == [name]]


def test_a_description_is_folded_to_the_width_of_a_terminal():
    d = dv.View(x=[1.0, 2.0, 3.0], word=["a", "b", "b"], **{"a name of many letters": [1, 2, 3]})
    lines = repr(d._describe()).splitlines()
    assert max(map(len, lines)) <= 80
    heads = [line.split() for line in lines if line.startswith("field")]
    assert heads[0][1:4] == ["dtype", "count", "missing"] and len(heads) > 1
    assert heads[-1][-2:] == ["shortest", "longest"]
    assert [line.split()[0] for line in lines[lines.index("") :][-2:]] == ["field", "word"]


def test_a_description_in_a_notebook_is_folded_too():
    d = dv.View(x=np.arange(9.0), day=np.arange(9).astype("M8[s]"), word=["a", "b", "b"] * 3)
    tables = d._describe()._repr_html_().split("<table>")[1:]
    heads = [re.findall("<th[^>]*>([^<]*)", table) for table in tables]
    assert len(heads) > 1 and {head[0] for head in heads} == {"field"}
    assert sum(head.count("dtype") for head in heads) == 1 and heads[-1][-1] == "longest"


def test_means_of_complex_numbers_are_as_short_as_those_of_others():
    found = dv.View(np.array([1 / 3 + 1j, 2 / 3]))._describe()
    assert "0.5+0.5j" in repr(found) and found[""]["mean"] == pytest.approx(0.5 + 0.5j)


def test_memory_is_bounded_whatever_the_number_of_rows():
    a = np.zeros((400_000, 4))
    v = dv.View(a) + 1.0
    tracemalloc.start()
    try:
        with sizes.set(sampled_rows=1000, block_bytes=1 << 16):
            v._describe()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 << 20 < a.nbytes


LONG_TEXTS = """
import resource, sys
import numpy as np
import pyarrow
import pyarrow.csv
import dataview as dv
dv.open(sys.argv[2])._describe()
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
d = dv.open(sys.argv[1])._describe()
assert d["b"]["count"] == 200_000 and d["b"]["distinct"] > 190_000, d
assert d["a"]["most frequent"] == "x" * 200 and d["a"]["distinct"] == 1, d
assert d.sampled == {"a", "b"}, d.sampled
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used) >> 10)
"""


def test_memory_is_bounded_however_long_texts_are(tmp_path):
    same = "x" * 200
    rows = "".join(f"{same},{same}{n}\n" for n in range(200_000))
    (tmp_path / "large.csv").write_text("a,b\n" + rows)
    (tmp_path / "small.csv").write_text("a,b\nx,y\nx,z\n")
    grown = int(printed("-c", LONG_TEXTS, tmp_path / "large.csv", tmp_path / "small.csv"))
    assert grown < 150, f"{grown} MB more, and all texts have 80 MB, in memory 120"


MANY_NUMBERS = """
import resource, sys
import dataview as dv
dv.open(sys.argv[2])._describe()
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
d = dv.open(sys.argv[1])._describe()
assert d["a"]["mean"] == 0.5 and d["b"]["count"] == 1 << 20, d
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used) >> 10)
"""


def test_memory_is_bounded_however_many_numbers_a_csv_file_has(tmp_path, rng):
    n = 1 << 20
    table = {"a": np.arange(n) % 2 / 1.0, **{name: rng.random(n).round(6) for name in "bcdefg"}}
    pyarrow.csv.write_csv(pyarrow.table(table), tmp_path / "large.csv")
    (tmp_path / "small.csv").write_text("a,b\n1.5,2.5\n3.5,4.5\n")
    grown = int(printed("-c", MANY_NUMBERS, tmp_path / "large.csv", tmp_path / "small.csv"))
    assert grown < 120, f"{grown} MB more, and all numbers have 56 MB"


def test_a_description_is_text_html_and_plain_dictionaries():
    d = dv.View(x=[1.0, 2.0, math.nan], **{"<b>": ["a\n", "<i>", "c" * 50]})
    found = d._describe()
    assert len(lines_of(found, "x")) == 2
    html = found._repr_html_()
    html = html.replace(page.STYLE, "")
    assert "<b>" not in html and "<i>" not in html and "&lt;b&gt;" in html
    plain = found.asdict()
    assert type(plain["x"]) is dict and plain["x"]["missing"] == 1 and plain["x"]["mean"] == 1.5
    plain["x"]["mean"] = 0
    assert found["x"]["mean"] == 1.5
    with pytest.raises(TypeError):
        found["x"]["mean"] = 0
    assert pickle.loads(pickle.dumps(found)) == found


def test_columns_are_described_one_by_one_on_request(rng):
    points = rng.standard_normal((50, 4))
    d = dv.View(points, xy=np.s_[:2], z=2)
    found = d._describe(columns=True)
    assert list(found) == ["xy[0]", "xy[1]", "z"]
    assert found["xy[1]"] == dv.View(points[:, 1])._describe()[""]
    assert list(dv.View(points)._describe(columns=True)) == ["[0]", "[1]", "[2]", "[3]"]
    rows = Rows(50)
    assert len(rows.view._describe(columns=True)) == 3
    assert rows.counts() == [1] * 50


@pytest.mark.parametrize("dtype", ["f8", "i2", "?", "M8[s]", "f4"])
def test_a_histogram_counts_tenths_of_the_range(rng, dtype):
    a = rng.integers(0, 2 if dtype == "?" else 90, 500).astype(dtype)
    found = dv.View(a)._describe()
    told = found[""]["histogram"]
    assert told == tuple(np.histogram(a.astype("i8"), 10)[0])
    lines = "".join(lines_of(found, "(data)"))
    assert sum(sign in "▁▂▃▄▅▆▇█" for sign in lines) == 10
    assert found._repr_html_().count("<svg") == 1
    assert "histogram" not in dv.View(np.array([-1.7e308, 1.7e308]))._describe()[""]
    assert dv.View(np.zeros(3))._describe()[""]["histogram"] == (0, 0, 0, 0, 0, 3, 0, 0, 0, 0)


def test_what_has_no_end_is_refused():
    with pytest.raises(dv.StreamError, match="never ends"):
        dv.View(np.arange(3))._repeat()._describe()
    with pytest.raises(dv.UndeclaredError, match="_probe"):
        dv.View(lambda: iter([1, 2]))._describe()


def test_fields_that_cannot_be_described_are_named_with_the_reason(tmp_path):
    calls = []
    d = dv.View(
        x=np.arange(3.0),
        made=dv.View(lambda number: calls.append(number) or [number], _length=3),
        inner=dv.View(y=[1, 2, 2], mapped=dv.View([1, 2, 3])._map(lambda row: row * 2)),
    )
    found = d._describe()
    assert calls == []
    assert list(found) == ["x", "inner.y"]
    assert found["inner.y"] == d.inner.y._describe()[""]
    assert list(found.left_out) == ["made", "inner.mapped"]
    assert all("d = d._probe()" in reason for reason in found.left_out.values())
    assert pickle.loads(pickle.dumps(found)).left_out == found.left_out
    text = repr(found)
    assert text.count("not described: made, inner.mapped") == 1 and "_probe()" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "not described: made, inner.mapped" in found._repr_html_()
    assert list(d._probe()._describe()) == ["x", "made", "inner.y", "inner.mapped"]
    whole = dv.View(np.arange(4))
    endless = dv.View(x=whole, y=dv.View(lambda number: 2.0, _length=math.inf), _driver="x")
    assert "never ends" in endless._describe().left_out["y"]


def test_parts_of_a_file_that_cannot_be_read_are_not_described(tmp_path):
    with h5py.File(tmp_path / "lab.h5", "w") as file:
        file["x"], file["lab/y"] = [1.0, 2.0], [1, 2]
        file["lab/lost"] = h5py.SoftLink("/nowhere")
    with dv.open(tmp_path / "lab.h5") as d:
        found = d._describe()
    assert sorted(found) == ["lab.y", "x"] and list(found.left_out) == ["lab.lost"]
    assert "not described: lab.lost" in repr(found)


def test_of_many_fields_the_middle_is_left_out_of_the_display_only(rng):
    found = dv.View(rng.standard_normal((9, 400)))._describe(columns=True)
    assert len(found) == 400
    for text in (repr(found), found._repr_html_()):
        assert "[0]" in text and "[399]" in text and "[200]" not in text
        assert "350 more; .asdict() has them all" in text
    assert len(found._repr_html_()) < 50_000 and len(repr(found).splitlines()) < 110
    few = dv.View(rng.standard_normal((9, 50)))._describe(columns=True)
    assert "more" not in repr(few) and "[25]" in repr(few)


def test_the_sample_is_one_row_of_each_stretch():
    for count, wanted in [(10, 3), (1000, 7), (5, 5), (5, 9), (0, 4)]:
        rows = sampled_rows(count, wanted)
        assert len(rows) == min(count, wanted) and (np.diff(rows) > 0).all()
        assert not len(rows) or 0 <= rows[0] <= rows[-1] < count


def test_a_constant_is_described_as_itself_without_a_spread():
    told = dv.View(np.full(100_000, 0.1))._describe()[""]
    assert (told["mean"], told["std"]) == (0.1, 0)


def test_codes_with_several_columns_are_described_without_those_that_are_missing():
    labels = np.array([["a", None], ["b", "a"], [None, None], ["a", "c"]], object)
    told = dv.View(labels)._codes()._describe()[""]
    assert (told["count"], told["missing"], told["distinct"]) == (8, 3, 3)
    assert told["mean"] == 3 / 5 and told["min"] == 0  # of the codes that there are
