"""Objects of other libraries become views: what each dtype becomes, what is lent, what is refused.

Each test that is marked imports its library itself, since not every run has it.
"""

from __future__ import annotations

import array
import ctypes
import datetime
import decimal
import io
import math
import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image
from scipy import sparse

import dataview as dv
from children import printed
from dataview.index.sizes import sizes
from oracle import accepted_chains, arrays, assert_same, examples, follow

clients = pytest.mark.clients


def fields_of(d):
    """Give each field's data by name, as lists."""
    return {name: np.asarray(d._field(name)()).tolist() for name in d._fields()}


# ---------------------------------------------------------------- pandas


@clients
def test_numbers_of_pandas_with_gaps_have_a_mask():
    import pandas as pd

    d = dv.View(
        pd.DataFrame(
            {
                "i": pd.array([1, None, 3], "Int8"),
                "u": pd.array([1, 2, 2**64 - 1], "UInt64"),
                "b": pd.array([True, None, False], "boolean"),
                "f": pd.array([1.5, None, 3], "Float32"),
            }
        )
    )
    assert d._fields() == ("i", "u", "b", "f", "i_mask", "b_mask", "f_mask")
    assert_same(d.i(), np.array([1, 0, 3], "i1"))
    assert_same(d.u(), np.array([1, 2, 2**64 - 1], "u8"))
    assert_same(d.b(), np.array([True, False, False]))
    assert_same(d.f(), np.array([1.5, np.nan, 3], "f4"))
    assert_same(d.i_mask(), np.array([True, False, True]))
    assert d[d.i_mask].i._mean()() == 2


@clients
@pytest.mark.parametrize("storage", ["python", "pyarrow"])
@pytest.mark.parametrize("gap", ["nan", "NA"])
def test_texts_of_pandas_are_texts(storage, gap):
    import pandas as pd

    dtype = pd.StringDtype(storage, na_value=np.nan if gap == "nan" else pd.NA)
    d = dv.View(pd.DataFrame({"t": pd.array(["x", None, "zz"], dtype)}))
    assert fields_of(d) == {"t": ["x", None, "zz"], "t_mask": [True, False, True]}
    assert fields_of(dv.View(pd.DataFrame({"t": ["x", "y"]}))) == {"t": ["x", "y"]}
    assert d[d.t == "zz"].t().tolist() == ["zz"]


@clients
def test_categories_of_pandas_are_codes_with_labels():
    import pandas as pd

    kinds = pd.Categorical(["u", None, "v", "u"], categories=["v", "u", "w"])
    frame = pd.DataFrame({"kind": kinds, "x": [1.0, 2, 3, 4]})
    for d in (dv.View(frame), dv.View(kind=frame["kind"], x=frame["x"])):
        assert d.kind().tolist() == [1, -1, 0, 1]
        assert d.kind._labels()().tolist() == ["v", "u", "w"]
        assert d.kind._counts().count().tolist() == [1, 2, 0]
        assert d.kind._onehot()._shape() == (4, 3)
        assert [rows.x().tolist() for _, rows in d._group(by="kind")] == [[1.0, 4.0], [3.0]]
    years = pd.Categorical(pd.to_datetime(["2021", "2020"]))
    labels = dv.View(pd.DataFrame({"year": years})).year._labels()()
    assert labels.astype("M8[Y]").astype(str).tolist() == ["2020", "2021"]
    pd.testing.assert_frame_equal(dv.View(frame)._to_pandas(), frame)
    assert dv.View(pd.Index(kinds))._labels()().tolist() == ["v", "u", "w"]


@clients
def test_gaps_are_those_of_pandas_and_polars_again(tmp_path):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    table = pa.table(
        {
            "number": pa.array([1, None, 3], "i2"),
            "truth": [True, None, False],
            "half": [1.5, None, 2.5],
            "text": ["a", None, ""],
            "when": pa.array([1, None, 3], pa.timestamp("s")),
            "code": pa.array(["a", None, "b"]).dictionary_encode(),
            "member": [{"x": 1}, {"x": None}, {"x": 3}],
            "pair": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)),
        }
    )
    d = dv.View(table)
    frame = d._to_pandas()
    assert [*frame.columns] == [
        "number", "truth", "half", "text", "when", "code", "member_x", "pair_0", "pair_1",
    ]  # fmt: skip
    assert frame.isna().to_numpy().tolist() == [[False] * 9, [True] * 9, [False] * 9]
    assert frame["number"].tolist() == [1, pd.NA, 3] and frame["number"].dtype == "Int16"
    assert frame["text"].fillna("none").tolist() == ["a", "none", ""]
    assert frame["truth"].dtype == "boolean"
    assert d[1]._to_pandas().isna().all() and d[0]._to_pandas()["number"] == 1
    again = dv.View(frame)
    for name in ("number", "number_mask", "truth", "truth_mask", "half", "when", "code"):
        np.testing.assert_array_equal(again[name](), d[name]())
    assert pl.DataFrame(d).null_count().row(0)[:6] == (1,) * 6


@clients
def test_times_of_pandas():
    import pandas as pd

    when = pd.to_datetime(["2020-01-01 00:00", None, "2021-07-01 00:00"])
    months = pd.PeriodIndex(["2020-01", None, "2021-03"], freq="M")
    d = dv.View(
        pd.DataFrame(
            {
                "plain": when,
                "zoned": when.tz_localize("Europe/Berlin"),
                "long": pd.to_timedelta([1, None, 2], "s"),
                "month": months,
            }
        )
    )
    assert d.zoned().astype("M8[m]").astype(str).tolist() == [
        "2019-12-31T23:00", "NaT", "2021-06-30T22:00",
    ]  # fmt: skip
    assert d.zoned._meta["timezone"] == "Europe/Berlin"
    assert d.month().astype("M8[D]").astype(str).tolist() == ["2020-01-01", "NaT", "2021-03-01"]
    assert d.month._meta["freq"] == "M"
    assert d.long().astype("m8[s]").astype(int).tolist()[::2] == [1, 2]
    assert (d.plain + np.timedelta64(1, "D"))().astype("M8[D]")[0] == np.datetime64("2020-01-02")
    indexed = pd.DataFrame({"a": [1, 2, 3]}, index=when.tz_localize("UTC").rename("when"))
    assert dv.View(indexed).when._meta["timezone"] == "UTC"


@clients
def test_times_have_their_zone_again_in_pandas():
    import pandas as pd

    zoned = pd.to_datetime(["2020-01-01", None, "2021-07-01"]).tz_localize("America/New_York")
    frame = pd.DataFrame({"at": zoned, "n": [1, 2, 3]})
    d = dv.View(frame)
    pd.testing.assert_frame_equal(d._to_pandas(), frame)
    assert d.at._to_pandas().dtype == zoned.dtype
    assert d[2]._to_pandas()["at"] == zoned[2] and d[2]._to_pandas()["n"] == 3
    nowhere = dv.View(np.arange(2).astype("M8[s]"))._with_meta(timezone="nowhere")
    with pytest.warns(RuntimeWarning, match="no zone 'nowhere', so that the times stay in UTC"):
        assert dv.View(at=nowhere)._to_pandas()["at"].dtype == "M8[s]"


@clients
def test_members_of_another_librarys_structs_are_read_one_by_one(tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"x": range(4), "span": pd.interval_range(0, 4)})
    frame.to_parquet(tmp_path / "spans.parquet")
    d = dv.open(tmp_path / "spans.parquet")
    assert d.span.left().tolist() == [0, 1, 2, 3] and d.span.right[[3, 0]]().tolist() == [4, 1]
    assert d[1:2]().tolist() == [(1, (1, 2))]


@clients
def test_intervals_sparse_columns_and_objects_of_pandas():
    import pandas as pd

    d = dv.View(
        pd.DataFrame(
            {
                "between": pd.arrays.IntervalArray.from_tuples([(0.0, 1.0), None, (1.0, 2.0)]),
                "thin": pd.arrays.SparseArray([0, 0, 7]),
                "any": np.array([None, np.nan, (1, 2)], object),
            }
        )
    )
    assert_same(d.between.left(), np.array([0, np.nan, 1.0]))
    assert d.between._meta["closed"] == "right"
    assert_same(d.thin(), np.array([0, 0, 7]))
    assert d.any()[2] == (1, 2) and d.any()[0] is None


@clients
def test_columns_of_pandas_in_arrow():
    import pandas as pd
    import pyarrow as pa

    made = pd.array([1.5, 2.5], pd.ArrowDtype(pa.float64()))
    d = dv.View(pd.DataFrame({"f": made, "g": pd.array([1, 2], pd.ArrowDtype(pa.int32()))}))
    assert_same(d.f(), np.array([1.5, 2.5]))
    assert_same(d.g(), np.array([1, 2], "i4"))
    gaps = {
        "i": pd.array([1, None], pd.ArrowDtype(pa.int8())),
        "t": pd.array(["a", None], pd.ArrowDtype(pa.string())),
        "l": pd.array([[1, 2], None], pd.ArrowDtype(pa.list_(pa.int8()))),
        "i_mask": [5, 6],
    }
    d = dv.View(pd.DataFrame(gaps))
    assert d._fields() == (*gaps, "i_mask_2", "t_mask", "l_mask")
    assert d.i().tolist() == [1, 0] and d.t().tolist() == ["a", None]
    assert d.i_mask_2().tolist() == d.t_mask().tolist() == d.l_mask().tolist() == [True, False]
    assert d.l[0]().tolist() == [1, 2]
    assert dv.View(pd.DataFrame(gaps)["i"])().tolist() == [1, None]


@clients
def test_names_of_columns_of_pandas():
    import pandas as pd

    frame = pd.DataFrame(np.arange(6).reshape(2, 3))
    frame.columns = pd.MultiIndex.from_tuples([("pos", "x"), ("pos", "y"), ("id", "")])
    d = dv.View(frame)
    assert d._fields() == ("pos", "id") and d.pos._fields() == ("x", "y")
    assert d[1].pos.y() == 4
    frame.columns = [0, 1, 2]
    assert dv.View(frame)._fields() == ("0", "1", "2")
    for names in (["a", "a", "b"], [0, "0", 1], [("a", ""), ("a", "x"), ("b", "")]):
        frame.columns = pd.Index(names, tupleize_cols=False)
        with pytest.raises(ValueError, match=r"two columns have the name '.*'; rename"):
            dv.View(frame)
    levels = pd.MultiIndex.from_tuples([(1, "u"), (2, "v")])
    d = dv.View(pd.DataFrame({"a": [1, 2]}, index=levels))
    assert d._fields() == ("index_1", "a")


@clients
def test_a_mask_finds_a_name_that_is_free():
    import pandas as pd

    gaps = pd.array([1, None], "Int8")
    d = dv.View(pd.DataFrame({"a": gaps, "a_mask": [5, 6]}))
    assert fields_of(d) == {"a": [1, 0], "a_mask": [5, 6], "a_mask_2": [True, False]}
    frame = pd.DataFrame({"a": gaps})
    frame.columns = pd.MultiIndex.from_tuples([("x", "a")])
    assert dv.View(frame).x._fields() == ("a", "a_mask")


@clients
def test_frames_without_rows_or_columns():
    import pandas as pd

    d = dv.View(pd.DataFrame({"a": np.zeros(0), "b": pd.array([], "Int8")}))
    assert len(d) == 0 and d._fields() == ("a", "b")
    with pytest.raises(ValueError, match="without columns"):
        dv.View(pd.DataFrame(index=[1, 2]))


@clients
def test_memory_of_pandas_is_lent_and_never_written_behind_its_back():
    import pandas as pd

    frame = pd.DataFrame({"a": [1, 2, 3], "i": pd.array([1, 2, 3], "Int8")})
    d = dv.View(frame)
    assert np.shares_memory(d.a(), frame["a"].to_numpy())
    for name in d._fields():
        array = d._field(name)()
        if array.flags.writeable:  # of a pandas that lets others write
            continue
        with pytest.raises(dv.ReadOnlyError, match=r"pandas.*write to the frame.*_copy"):
            d._field(name)[0] = 9
        with pytest.raises(ValueError):
            array.flags.writeable = True
    assert frame["a"].tolist() == [1, 2, 3]


@clients
def test_a_series_of_pandas_alone():
    import pandas as pd

    assert dv.View(pd.Series([1, None], dtype="Int64"))().tolist() == [1, None]
    assert dv.View(x=pd.Series(["a", None])).x().tolist() == ["a", None]
    assert_same(dv.View(pd.Series([1.0, None]))(), np.array([1, np.nan]))
    zoned = pd.Series(pd.to_datetime(["2020"]).tz_localize("UTC"))
    assert dv.View(zoned)().dtype.kind == "M"
    assert (dv.View([1, 2]) + pd.Series([3, 4]))().tolist() == [4, 6]


@clients
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_gap_of_a_float_answers_no_question_and_nan_is_a_number(library):
    import pandas as pd
    import polars as pl

    series = {
        "pandas": lambda: pd.Series([1.0, None], dtype="Float64"),
        "polars": lambda: pl.Series("x", [1.0, None]),
    }[library]()
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library]({"x": series})
    for x in (dv.View(series), dv.View(frame).x, dv.View(x=series).x, dv.View(frame)[::-1].x[::-1]):
        assert_same(x(), np.array([1, np.nan]))
        assert ((x != 3)().tolist(), (~(x < 3))().tolist()) == ([True, False], [False, False])
        assert x._mean()() == 1.0
    plain = {"pandas": pd.Series, "polars": pl.Series}[library](np.array([1.0, np.nan]))
    assert (dv.View(plain) != 3)().tolist() == [True, True]


OBJECTS = {
    "texts": ["b", None, "a"],
    "texts and NA": ["b", "NA", "a"],
    "texts and NaN": ["b", math.nan, "a"],
    "days": [datetime.date(2020, 1, 2), None, datetime.date(2020, 1, 1)],
    "decimals": [decimal.Decimal("2.5"), None, decimal.Decimal("1.5")],
    "truths": [True, None, False],
}
"""Columns of objects, in each of which the one in the middle is missing."""


@clients
@pytest.mark.parametrize("name", OBJECTS)
def test_objects_of_pandas_have_a_mask_of_what_is_missing(name):
    import pandas as pd
    import pyarrow as pa

    first, missing, last = OBJECTS[name]
    missing = pd.NA if missing == "NA" else missing
    series = pd.Series([first, missing, last], dtype=object)
    d = dv.View(pd.DataFrame({"x": series, "whole": pd.Series([first] * 3, dtype=object)}))
    assert d._fields() == ("x", "whole", "x_mask") and d.x_mask().tolist() == [True, False, True]
    assert d.x().tolist() == [first, None, last] == dv.View(series)().tolist()
    assert (d.x._max()(), d.x._min()()) == (first, last)
    assert (d.x != last)().tolist() == [True, False, False]
    assert (d.x >= last)().tolist() == [True, False, True]
    assert pa.table(d)["x"].to_pylist() == [first, None, last]
    assert d._dropna("x").x().tolist() == [first, last]


# ---------------------------------------------------------------- polars


@clients
def test_each_dtype_of_polars():
    import polars as pl

    day, moment = datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1)
    frame = pl.DataFrame(
        {
            "i": [1, None, 3],
            "b": [True, None, False],
            "t": ["x", None, "zz"],
            "raw": [b"x", None, b"yy"],
            "f": [1.0, None, 3.0],
            "day": [day, None, day],
            "zoned": pl.Series([moment, None, moment]).dt.replace_time_zone("Europe/Berlin"),
            "long": [datetime.timedelta(1), None, datetime.timedelta(2)],
            "money": [decimal.Decimal("1.5"), None, decimal.Decimal(2)],
            "hour": [datetime.time(1), None, datetime.time(2, 30)],
            "what": pl.Series([{1}, None, 3], dtype=pl.Object),
            "none": [None, None, None],
        }
    )
    d = dv.View(frame)
    masks = [f"{name}_mask" for name in frame.columns]
    assert d._fields() == (*frame.columns, *masks)
    for name in masks:
        there = [False] * 3 if name == "none_mask" else [True, False, True]
        assert d._field(name)().tolist() == there
    assert_same(d.i(), np.array([1, 0, 3]))
    assert_same(d.b(), np.array([True, False, False]))
    assert d.t().tolist() == ["x", None, "zz"] and d.raw().tolist() == [b"x", None, b"yy"]
    assert_same(d.f(), np.array([1, np.nan, 3]))
    assert d.day().astype(str).tolist() == ["2020-01-01", "NaT", "2020-01-01"]
    assert d.zoned()[0] == np.datetime64("2019-12-31T23:00")
    assert d.zoned._meta["timezone"] == "Europe/Berlin"
    assert d.long().astype("m8[D]").astype(int).tolist()[::2] == [1, 2]
    assert d.money().tolist() == [decimal.Decimal("1.5"), None, decimal.Decimal(2)]
    assert d.hour()[[0, 2]].astype("m8[m]").astype(int).tolist() == [60, 150]
    assert np.isnat(d.hour()[1])
    assert d.what().tolist() == [{1}, None, 3]
    assert np.isnan(d.none()).all()


@clients
def test_categories_of_polars_are_codes_with_labels():
    import polars as pl

    values = ["u", None, "v", "u"]
    d = dv.View(
        pl.DataFrame(
            {
                "c": pl.Series(values, dtype=pl.Categorical),
                "e": pl.Series(values, dtype=pl.Enum(["w", "v", "u"])),
            }
        )
    )
    assert d.c().tolist() == [0, -1, 1, 0] and d.c._labels()().tolist() == ["u", "v"]
    assert d.e().tolist() == [2, -1, 1, 2] and d.e._labels()().tolist() == ["w", "v", "u"]


@clients
def test_lists_and_structs_of_polars():
    import polars as pl

    d = dv.View(
        pl.DataFrame(
            {
                "l": [[1, 2], [], [3]],
                "gaps": [[1.5], None, [2.5, 3.5]],
                "deep": [[["a"], []], [], [["b", "c"]]],
                "pair": pl.Series([[1, 2], [3, 4], [5, 6]], dtype=pl.Array(pl.Int32, 2)),
                "box": pl.Series([[[1, 2], [3, 4]]] * 3, dtype=pl.Array(pl.Int8, (2, 2))),
                "lost": pl.Series([[1, 2], None, [5, 6]], dtype=pl.Array(pl.Int32, 2)),
                "s": [{"p": 1, "q": "x"}, {"p": None, "q": "y"}, None],
            }
        )
    )
    assert [row.tolist() for row in d.l()] == [[1, 2], [], [3]]
    assert [row.tolist() for row in d.gaps()] == [[1.5], [], [2.5, 3.5]]
    assert d.gaps_mask().tolist() == [True, False, True]
    assert d.deep[2][0]().tolist() == ["b", "c"]
    assert_same(d.pair(), np.array([[1, 2], [3, 4], [5, 6]], "i4"))
    assert d.box._shape() == (3, 2, 2) and d.box[1, 1]().tolist() == [3, 4]
    assert_same(d.lost(), np.array([[1, 2], [0, 0], [5, 6]], "i4"))
    assert d.lost_mask().tolist() == [True, False, True]
    assert d.s._fields() == ("p", "q", "p_mask", "q_mask")
    assert d.s.p().tolist() == [1, 0, 0] and d.s_mask().tolist() == [True, True, False]
    gaps = {"i": [[1, None, 3], None, []], "deep": [[[1, None], None], [], [[3]]]}
    gaps |= {"pair": pl.Series([[1, None], [2, 3], [4, 5]], dtype=pl.Array(pl.Int64, 2))}
    d, same = dv.View(pl.DataFrame(gaps)), dv.View(pl.DataFrame(gaps).to_arrow())
    for name in gaps:
        assert d[name]._dtype() == np.int64
        assert d[f"{name}_mask"]().tolist() == same[f"{name}_mask"]().tolist()
        assert d[name]._mean()() == same[name]._mean()()
    assert d.i._pad(-1)().tolist() == same.i._pad(-1)().tolist() == [[1, -1, 3], [-1] * 3, [-1] * 3]
    assert dv.View(pl.Series([[1, None], [2]]))._mean()() == 1.5
    assert dv.View(pl.Series([[1, None], None]))().tolist() == [[1, None], None]
    kinds = dv.View(pl.Series([["u", "v"], [], ["v"]], dtype=pl.List(pl.Enum(["v", "u"]))))
    assert [row.tolist() for row in kinds()] == [[1, 0], [], [0]]
    assert kinds._labels()().tolist() == ["v", "u"]
    assert dv.View(pl.Series([{"p": 1}, None])).p_mask().tolist() == [True, False]


POLARS = {
    "i": ([1, None, 3], "UInt8"),
    "f": ([1.5, None, 2.5], "Float32"),
    "t": (["x", None, "\u00fc"], "String"),
    "raw": ([b"x", None, b"\0"], "Binary"),
    "day": ([datetime.date(1850, 3, 4), None, datetime.date(2020, 1, 1)], "Date"),
    "hour": ([datetime.time(1), None, datetime.time(23, 59)], "Time"),
    "long": ([datetime.timedelta(1), None, datetime.timedelta(2)], "Duration('ms')"),
    "at": ([datetime.datetime(2020, 1, 1), None, None], "Datetime('ms', 'UTC')"),
    "money": ([decimal.Decimal("1.10"), None, decimal.Decimal("-3.25")], "Decimal(17, 2)"),
    "moneys": ([[decimal.Decimal("1.5")], None, []], "List(pl.Decimal(6, 1))"),
    "lists": ([[1, None], None, []], "List(pl.Int16)"),
    "hours": ([[datetime.time(1), None], None, []], "List(pl.Time)"),
    "pairs": ([[1, 2], None, [5, None]], "Array(pl.Int32, 2)"),
    "words": ([["a", "b"], ["c", None], None], "Array(pl.String, 2)"),
    "deep": ([[[1], None], None, [[]]], "List(pl.List(pl.Int8))"),
    "rows": ([[{"a": 1, "b": "x"}], None, [None, {"a": None, "b": "y"}]], None),
    "s": ([{"p": decimal.Decimal("1.5"), "q": [1]}, None, {"p": None, "q": None}], None),
    "kind": (["b", None, "a"], "Categorical()"),
    "named": (["b", None, "a"], "Enum(['a', 'b', 'c'])"),
    "kinds": ([["b"], None, ["a", None]], "List(pl.Enum(['a', 'b', 'c']))"),
    "none": ([None] * 3, "Null"),
}
"""Columns of polars with gaps, and their dtypes: one for each kind of dtype, alone and in lists."""


@clients
@pytest.mark.parametrize("rows", [slice(None), slice(0, 1), slice(0, 0)])
@pytest.mark.parametrize("name", POLARS)
def test_columns_of_polars_are_those_of_its_tables(name, rows, tmp_path):
    import polars as pl
    import pyarrow as pa
    import pyarrow.feather as pf
    import pyarrow.parquet as pq

    values, told = POLARS[name]
    series = pl.Series("x", values, told and eval(f"pl.{told}", {"pl": pl}))[rows]
    table = series.to_frame().to_arrow()
    d, same = dv.View(series.to_frame()), dv.View(table)
    assert pa.table(d).equals(pa.table(same))
    for path, read in (("x.parquet", pq.read_table), ("x.feather", pf.read_table)):
        d._save(tmp_path / path)
        same._save(tmp_path / f"same_{path}")
        assert read(tmp_path / path).equals(read(tmp_path / f"same_{path}"))
        assert pa.table(dv.open(tmp_path / path)).equals(pa.table(same))
    if name not in ("rows", "named", "kinds", "none"):  # which NumPy or Arrow have otherwise
        back = pl.DataFrame(d)["x"]
        assert back.dtype == series.dtype or name == "raw"  # no object, no type: texts
        assert back.to_list() == series.to_list()


@clients
def test_a_column_of_arrow_in_pandas_that_numpy_has_not_is_named():
    import pandas as pd
    import pyarrow as pa

    kind = pd.ArrowDtype(pa.month_day_nano_interval())
    frame = pd.DataFrame({"x": [1], "span": pd.array([None], kind)})
    with pytest.raises(TypeError, match=r"column 'span'.*month_day_nano"):
        dv.View(frame)


@clients
def test_missing_floats_in_lists_of_one_length_of_polars_are_no_nan():
    import polars as pl
    import pyarrow as pa

    rows = [[1.0, None], [math.nan, 2.0]]
    frame = pl.DataFrame({"a": pl.Series(rows, dtype=pl.Array(pl.Float64, 2))})
    d, same = dv.View(frame), dv.View(frame.to_arrow())
    assert d.a_mask().tolist() == same.a_mask().tolist() == [[True, False], [True, True]]
    assert str(pa.table(d)["a"].to_pylist()) == str(rows)


@clients
def test_integers_of_polars_that_are_too_wide_are_named():
    import polars as pl

    frame = pl.DataFrame({"x": [1], "wide": pl.Series([1], dtype=pl.Int128)})
    with pytest.raises(TypeError, match=r"column 'wide' has integers of 128 bits.*cast it"):
        dv.View(frame)
    assert dv.View(frame.cast({pl.Int128: pl.Int64})).wide().tolist() == [1]


@clients
def test_memory_of_polars_is_lent():
    import polars as pl

    frame = pl.DataFrame({"a": [1, 2, 3], "day": [datetime.date(2020, 1, 1)] * 3})
    d = dv.View(frame)
    assert np.shares_memory(d.a(), frame["a"].to_numpy(allow_copy=False))
    with pytest.raises(dv.ReadOnlyError, match=r"polars.*write to the frame.*_copy"):
        d.a[0] = 9
    parts = pl.concat([frame, frame], rechunk=False)
    assert dv.View(parts).a().tolist() == [1, 2, 3, 1, 2, 3]
    assert len(dv.View(frame.head(0))) == 0
    with pytest.raises(ValueError, match="without columns"):
        dv.View(pl.DataFrame())


@clients
def test_a_series_of_polars_alone_and_a_lazy_frame():
    import polars as pl

    assert dv.View(pl.Series([1, None]))().tolist() == [1, None]
    assert dv.View(pl.Series([True, None]))().tolist() == [True, None]
    assert_same(dv.View(pl.Series([1.0, None]))(), np.array([1, np.nan]))
    assert dv.View(pl.Series([{"p": 1}])).p().tolist() == [1]
    with pytest.raises(TypeError, match=r"LazyFrame.*collect\(\)"):
        dv.View(pl.LazyFrame({"a": [1]}))


# ---------------------------------------------------------------- sparse matrices

SPARSE = [sparse.csr_array, sparse.csr_matrix]
"""The classes of scipy whose entries lie row by row."""


def thinned(array):
    """Give an array with zeros in most places."""
    return np.where(np.arange(array.size).reshape(array.shape) % 3, np.zeros_like(array), array)


@pytest.mark.parametrize("kind", SPARSE)
@examples(150)
@given(st.data())
def test_any_part_of_a_sparse_matrix_is_numpys(kind, data):
    array = data.draw(
        arrays(layouts=["C"], dtypes=[np.dtype(code) for code in "? i4 f8 c16".split()])
    )
    assume(array.ndim == 2)
    array = thinned(array)
    chain = data.draw(accepted_chains(array, 3))
    view = follow(dv.View(kind(array)), chain)
    assert_same(np.asarray(view), np.asarray(follow(array, chain)))


@pytest.mark.parametrize("kind", SPARSE)
def test_rows_of_a_sparse_matrix(kind, rng):
    dense = thinned(rng.normal(size=(50, 7)))
    matrix = kind(dense)
    v = dv.View(matrix)
    assert v._shape() == (50, 7) and v._dtype() == np.float64
    assert "csr" in repr(v) and f"{matrix.nnz} entries" in repr(v) and "read-only" in repr(v)
    assert_same(v[5:10](), dense[5:10])
    assert_same(v[-1, [6, 0]](), dense[-1, [6, 0]])
    assert_same((v - v._mean(axis=0))[3:5](), (dense - dense.mean(axis=0))[3:5])
    with sizes.set(part_bytes=200, block_bytes=200):
        assert np.allclose(v._sum(axis=0)(), dense.sum(axis=0))
        assert np.allclose(v._std(axis=1)(), dense.std(axis=1))
    d = dv.View(x=matrix, y=np.arange(50))
    assert_same(np.concatenate([batch.x() for batch in d._minibatches(8)]), dense)
    assert_same(d._shuffled(0).x(), dense[d._shuffled(0).y()])
    assert_same(pickle.loads(pickle.dumps(v[3:]))(), dense[3:])
    own = dv.View(np.zeros((50, 7)))
    own[:] = matrix
    assert_same(own(), dense)
    with pytest.raises(dv.ReadOnlyError, match=r"csr.*write to the matrix itself"):
        v[0] = 1


def test_only_the_rows_that_are_asked_for_are_made_dense(monkeypatch):
    matrix = sparse.csr_array((10**6, 10**5))
    made = []
    whole = sparse.csr_array.toarray
    monkeypatch.setattr(
        sparse.csr_array, "toarray", lambda self: made.append(self.shape) or whole(self)
    )
    v = dv.View(matrix)
    assert (v[5:10] * 2)().shape == (5, 10**5)
    assert v[:, 7]().shape == (10**6,)
    assert v[[3, 99]]().shape == (2, 10**5)
    assert made == [(5, 10**5), (10**6, 1), (2, 10**5)]
    places = np.arange(1000)
    assert v[places * 7, places * 9]().shape == (1000,)
    assert sum(rows * columns for rows, columns in made[3:]) <= 8000
    assert len(v) == 10**6 and v._size() == 10**11


SUMS = """
import resource
import numpy as np
import dataview as dv
from scipy import sparse
matrix = sparse.random(200_000, 1000, density=1e-3, format="csr")
v = dv.View(matrix)
(v[:10] + 1)()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (600 << 20),) * 2)
found = v._sum(axis=0)(), v._mean(axis=0)()
assert np.allclose(found[0], np.asarray(matrix.sum(axis=0)).ravel())
"""


def test_sums_of_a_sparse_matrix_hold_a_few_blocks():
    printed("-c", SUMS)


def test_other_sparse_matrices_are_refused_with_advice(x):
    for kind in [sparse.csc_matrix, sparse.coo_array, sparse.lil_array, sparse.dok_matrix]:
        with pytest.raises(TypeError, match=r"row by row.*tocsr\(\)"):
            dv.View(kind(x))
        assert_same(dv.View(kind(x).tocsr())(), x)
    with pytest.raises(TypeError, match=r"toarray\(\)"):
        dv.View(sparse.coo_array(x[0]))


# ---------------------------------------------------------------- scikit-learn's datasets


class Bunch(dict):
    """What looks like scikit-learn's dataset."""

    __module__ = "sklearn.utils._bunch"
    __getattr__ = dict.__getitem__


def test_a_bunch_has_the_arrays_with_rows_as_fields_and_all_else_as_metadata(rng):
    images = rng.normal(size=(5, 4, 3))
    bunch = Bunch(
        data=images.reshape(5, 12),
        target=np.array([2, 0, 1, 1, 0]),
        frame=None,
        images=images,
        texts=["a", "b" * 1000, "c", "d", "e"],
        target_names=np.array(["u", "v", "w"]),
        feature_names=[f"pixel {number}" for number in range(12)],
        weights=np.ones(12),
        DESCR="what it is",
    )
    d = dv.View(bunch)
    assert len(d) == 5 and d._fields() == ("data", "target", "images", "texts")
    assert np.shares_memory(d.images(), images)
    assert d.texts[1:3]().tolist() == ["b" * 1000, "c"] and d.texts._dtype().kind == "O"
    assert d.target._labels()().tolist() == ["u", "v", "w"]
    assert d.target._counts().count().tolist() == [2, 2, 1]
    assert [label for label, rows in d._group(by="target")] == ["u", "v", "w"]
    assert d._meta["DESCR"] == "what it is" and d[1:]._meta["target_names"] == ["u", "v", "w"]
    assert d.data._meta["feature_names"][3] == "pixel 3"
    assert_same(d._meta["weights"], [1.0] * 12)
    assert "frame" not in d._meta
    d.target[0] = 0
    assert bunch["target"][0] == 0


def test_targets_of_a_bunch_that_number_no_names(rng):
    inputs = rng.normal(size=(4, 2))
    for target in (np.arange(4.0), np.arange(1, 5), np.zeros((4, 2), int), np.arange(4) - 1):
        d = dv.View(Bunch(data=inputs, target=target, target_names=["one", "two"]))
        assert "labels" not in d.target._meta and d.target._meta["target_names"] == ["one", "two"]
    square = dv.View(Bunch(data=np.eye(2), feature_names=["a", "b"], target=np.zeros(2)))
    assert square._fields() == ("data", "target")


def test_bunches_without_data(rng):
    d = dv.View(Bunch(images=[np.zeros((2, 3)), np.ones((2, 3))], filenames=["a", "b"], DESCR="."))
    assert d._fields() == ("images", "filenames") and d[1].images()[0, 0] == 1
    assert dv.View(Bunch(x=1.0, y=2))._asdict() == {"x": 1.0, "y": 2}
    ragged = dv.View(a=Bunch(data=[[1, 2], [3]], target=[0, 1]))
    assert ragged.a.data[0]().tolist() == [1, 2]
    mapped = dv.View(np.arange(3))._map(lambda row: Bunch(x=row, y=row + 1))._probe()
    assert mapped.y().tolist() == [1, 2, 3]
    views = dv.View(Bunch(data=dv.View(np.eye(3)) * 2, target=[0, 1, 2]))
    assert_same(views.data(), np.eye(3) * 2)
    thin = dv.View(Bunch(data=sparse.csr_array(np.eye(3)), target=np.arange(3)))
    assert_same(thin[1].data(), np.eye(3)[1])


@clients
@pytest.mark.parametrize("as_frame", [False, True])
@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits"])
def test_datasets_of_classes(name, as_frame):
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")(as_frame=as_frame)
    d = dv.View(bunch)
    assert len(d) == len(bunch.target) and set(d._fields()) <= {"data", "target", "images"}
    names = d.target._labels()()
    assert names.tolist() == list(bunch.target_names)
    named = [str(bunch.target_names[number]) for number in bunch.target]
    assert names[d.target()].astype(str).tolist() == named
    assert_same(np.asarray(d.target), np.asarray(bunch.target))
    if as_frame:
        assert d.data._fields() == tuple(bunch.data.columns)
    else:
        assert_same(d.data(), bunch.data)
        assert d.data._meta["feature_names"] == list(bunch.feature_names)
    train, test = d._split([0.8, 0.2], seed=0, by="target")
    assert len(train) + len(test) == len(d)


@clients
def test_datasets_of_numbers_and_images():
    from sklearn import datasets

    for bunch in (datasets.load_diabetes(), datasets.load_linnerud()):
        d = dv.View(bunch)
        assert_same(d.data(), bunch.data)
        assert "labels" not in d.target._meta
        assert d._meta["DESCR"] == bunch.DESCR
    assert dv.View(datasets.load_sample_images()).images._shape() == (2, 427, 640, 3)


# ---------------------------------------------------------------- torch


@clients
def test_tensors_share_memory_where_a_write_reaches_them():
    import torch

    whole = torch.arange(12.0).reshape(3, 4)
    for tensor in (whole, whole.T, whole[::2, 1:], torch.nn.Parameter(whole).detach()):
        view = dv.View(tensor)
        view[0, 0] = -5
        assert tensor[0, 0] == -5
        assert_same(view(), tensor.numpy())
    lines = torch.tensor([1 + 2j, 3j])
    for tensor in (lines.conj(), lines.conj().imag, torch.ones(1).expand(4)):
        view = dv.View(tensor)
        assert_same(view(), tensor.resolve_conj().resolve_neg().numpy())
        with pytest.raises(dv.ReadOnlyError):
            view[0] = 7
    assert (lines == torch.tensor([1 + 2j, 3j])).all()


@clients
@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda t: t.ones(2, dtype=t.bfloat16), r"bfloat16.*tensor\.float\(\)"),
        (lambda t: t.ones(2).to(t.float8_e4m3fn), r"float8.*tensor\.float\(\)"),
        (lambda t: t.ones(2, dtype=t.complex32), r"complex64"),
        (lambda t: t.eye(2).to_sparse(), r"sparse.*to_dense\(\)"),
        (lambda t: t.ones(2, device="meta"), r"no data"),
    ],
)
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_tensors_that_are_no_arrays_say_what_to_view(make, advice):
    import torch

    with pytest.raises(TypeError, match=f"no array shares.*{advice}"):
        dv.View(make(torch))


@clients
def test_lists_and_datasets_of_tensors():
    import torch
    from torch.utils import data

    assert_same(dv.View([torch.ones(2), torch.zeros(2)])(), np.array([[1, 1], [0, 0]], "f4"))
    assert [row.tolist() for row in dv.View([torch.ones(1), torch.zeros(2)])()] == [[1], [0, 0]]
    inputs, targets = torch.arange(12.0).reshape(6, 2), torch.arange(6)
    whole = data.TensorDataset(inputs, targets)
    d = dv.View(whole, _names=("x", "y"))
    assert d._fields() == ("x", "y") and d.x._shape() == (6, 2) and len(d) == 6
    assert np.shares_memory(d.x(), inputs.numpy())
    assert dv.View(whole)._fields() == ("0", "1")
    part = dv.View(data.Subset(data.Subset(whole, [4, 1, 2]), [2, 0]), _names=("x", "y"))
    assert part.y().tolist() == [2, 4]
    part.x[0] = -1
    assert inputs[2].tolist() == [-1, -1]
    assert dv.View(whole, _fields={"x": ((2,), "f4"), "y": ((), "i8")})[1].y() == 1
    with pytest.raises(ValueError, match="3 names are given"):
        dv.View(whole, _names=("x", "y", "z"))

    class Doubled(data.TensorDataset):
        def __getitem__(self, number):
            return tuple(2 * part for part in super().__getitem__(number))

    assert dv.View(Doubled(targets), _names=("y",))._probe().y().tolist() == [0, 2, 4, 6, 8, 10]
    with pytest.raises(TypeError, match=r"Linear is a model.*state_dict"):
        dv.View(torch.nn.Linear(2, 3))


# ---------------------------------------------------------------- xarray


@clients
def test_coordinates_and_attributes_of_xarray(x):
    import pandas as pd
    import xarray as xr

    moment = np.datetime64("2020-01-01T00:00", "ns")
    data = xr.Dataset(
        {"a": (("t", "p"), x, {"dims": "mine", "unit": "K"}), 7: ("t", x[:, 0])},
        coords={"t": np.arange(6), "p": list("uvwz"), "height": 2.0, "when": moment},
        attrs={"title": "heat"},
    )
    d = dv.View(data)
    assert d._fields() == ("a", "7", "t")
    assert d._meta["title"] == "heat" and d._meta["height"] == 2.0
    assert d._meta["when"].startswith("2020-01-01")
    assert d.a._meta["dims"] == ("t", "p") and d.a._meta["unit"] == "K"
    assert dv.View(data.a.isel(p=1))._meta["p"] == "v"
    with pytest.raises(dv.ReadOnlyError):  # xarray keeps labels in an index of pandas
        d.t[0] = 5
    levels = pd.MultiIndex.from_product([[1, 2], list("uvw")], names=["n", "s"])
    data = xr.Dataset(
        {"a": ("t", x[:, 0])}, coords=xr.Coordinates.from_pandas_multiindex(levels, "t")
    )
    d = dv.View(data)
    assert d._fields() == ("a", "n", "s")
    assert d.n().tolist() == [1, 1, 1, 2, 2, 2] and d.s[4]() == "v"
    assert dv.View(data.t)()[5] == (2, "w")


@clients
def test_a_tree_of_xarray_and_datasets_without_variables(x):
    import xarray as xr

    part = xr.Dataset({"a": ("t", x[:, 0])}, coords={"t": np.arange(6)}, attrs={"title": "part"})
    tree = xr.DataTree.from_dict({"/": part, "/sub": xr.Dataset({"b": ("t", x[:, 1])})})
    d = dv.View(tree)
    assert d._fields() == ("a", "t", "sub") and d._meta["title"] == "part"
    assert_same(d[2:].sub.b(), x[2:, 1])
    d.sub.b[0] = -3
    assert x[0, 1] == -3
    for empty in (xr.Dataset(), xr.Dataset(coords={"t": [1, 2]})):
        with pytest.raises(ValueError, match="without variables"):
            dv.View(empty)


@clients
def test_columns_of_pandas_in_xarray():
    import pandas as pd
    import xarray as xr

    data = xr.Dataset({"kind": ("t", pd.Categorical(["v", None, "u"])), "x": ("t", [1.0, 2, 3])})
    d = dv.View(data)
    assert d.kind().tolist() == [1, -1, 0] and d.kind._labels()().tolist() == ["u", "v"]
    assert dv.View(pd.array([1, None, 3], "Int8"))().tolist() == [1, None, 3]


# ---------------------------------------------------------------- Python's own objects


def test_what_lends_its_memory_is_written_through_the_view():
    numbers = array.array("d", [1, 2, 3])
    raw = bytearray(b"abc")
    fixed = (ctypes.c_int * 3)(1, 2, 3)
    for lender in (numbers, raw, fixed, memoryview(raw)):
        dv.View(lender)[1] = 9
        assert lender[1] == 9
    matrix = np.array([[1, 2], [3, 4]]).view(np.matrix)
    view = dv.View(matrix)
    assert_same(view[0](), np.array([1, 2]))
    view[0, 0] = 5
    assert matrix[0, 0] == 5
    records = np.rec.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", "f8")])
    dv.View(records).a[1] = 7
    assert records.a.tolist() == [1, 7]
    with pytest.raises(dv.ReadOnlyError):
        dv.View(memoryview(b"abc"))[0] = 1
    assert dv.View(range(2, 8, 2))().tolist() == [2, 4, 6]


class Interface:
    """What has NumPy's interface of arrays and nothing else."""

    def __init__(self, array):
        self.array = array

    @property
    def __array_interface__(self):
        return self.array.__array_interface__


def test_what_has_numpys_interface_alone_lends_its_memory(x):
    dv.View(Interface(x))[0] = 9
    assert (x[0] == 9).all()


def test_lists_of_different_lengths_need_a_driver():
    d = dv.View({"a": [1, 2, 3], "b": [4, 5]})
    assert d.b().tolist() == [4, 5]
    with pytest.raises(ValueError, match=r"different lengths.*a 3, b 2.*_driver="):
        d()
    assert len(dv.View({"a": [1, 2, 3], "b": [4, 5]}, _driver="a")) == 3


def numbers_once():
    yield from (1.0, 2.0, 3.0)


def test_generators_are_read_once_and_their_functions_again():
    once, again = dv.View(numbers_once()), dv.View(numbers_once)
    assert [row() for row in once] == [row() for row in again] == [row() for row in again]
    with pytest.raises(dv.StreamError):
        list(once)


REFUSED = {
    "a set": ({1, 2}, r"set.*no order.*sorted\(values\)"),
    "keys": ({"a": 1}.keys(), r"dict_keys; view list\(values\)"),
    "values": ({"a": 1}.values(), r"list\(values\)"),
    "a date": (datetime.date(2020, 1, 1), r"np\.datetime64"),
    "a duration": (datetime.timedelta(1), r"np\.timedelta64"),
    "a decimal": (decimal.Decimal(1), r"float\(value\)"),
    "None": (None, r"NoneType; leave the field out"),
    "bytes in memory": (io.BytesIO(b"a\nb"), r"no rows.*dv\.open\(path\).*frombuffer"),
    "gaps": (np.ma.array([1, 2], mask=[0, 1]), r"x=a\.filled\(0\), x_mask="),
    "an object": (object(), "got object"),
    "a module": (np, "got module"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_b56_what_is_no_data_is_refused_with_what_to_view(name):
    value, advice = REFUSED[name]
    with pytest.raises(TypeError, match=advice):
        dv.View(value)
    with pytest.raises(TypeError, match=advice):
        dv.View(f=value)


def test_paths_are_opened_and_not_viewed(tmp_path):
    for path in ("x.npy", b"x.npy", tmp_path / "x.npy"):
        with pytest.raises(TypeError, match=r"dv\.open"):
            dv.View(path)
    with pytest.raises(TypeError, match="frombuffer"):
        dv.View(b"123")
    with pytest.raises(TypeError, match=r"f=dv\.open\('.*x\.npy'\)"):
        dv.View(f=tmp_path / "x.npy")
    with pytest.raises(ValueError, match="without entries"):
        dv.View({})
    (tmp_path / "lines").write_text("a\nb\n")
    with open(tmp_path / "lines") as file:
        assert [row() for row in dv.View(file)] == ["a\n", "b\n"]
    with open(tmp_path / "lines", "rb") as file, pytest.raises(TypeError, match="has bytes"):
        dv.View(file)


@pytest.mark.parametrize("mode", ["1", "L", "RGB", "RGBA", "F", "I", "I;16"])
def test_pictures_are_arrays(mode):
    picture = Image.new(mode, (4, 3))
    view = dv.View(picture)
    assert_same(view(), np.asarray(picture))
    assert view._shape()[:2] == (3, 4)
    with pytest.raises(dv.ReadOnlyError):
        view[0] = 1


def test_a_picture_with_a_palette_is_refused():
    with pytest.raises(TypeError, match=r"palette.*convert\('RGB'\)"):
        dv.View(Image.new("P", (4, 3)))


# ---------------------------------------------------------------- the behaviours, on such objects


def each_object(x):
    """Give objects of several kinds with the data of a table."""
    return {
        "sparse": sparse.csr_array(x),
        "bunch": Bunch(data=x, target=np.arange(len(x))),
        "mapping": {"data": x.tolist()},
        "buffer": memoryview(x),
        "list of arrays": list(x),
    }


@pytest.mark.parametrize("name", each_object(np.zeros((1, 1))))
def test_b8_b9_b54_keys_of_objects_are_numpys(name, x):
    d = dv.View(each_object(x)[name])
    v = d.data if name in ("bunch", "mapping") else d
    assert len(d) == 6 and not hasattr(d, "zzz")
    for key in [-1, np.s_[2:4], np.s_[::-2], [-1, 0], np.s_[1:, -1], np.arange(6) % 2 == 0]:
        assert_same(np.asarray(v[key]), x[key])
    for key in (6, -7):
        with pytest.raises(IndexError):
            v[key]
    if v is not d:
        assert_same(np.asarray(d[1:, ["data"]].data), x[1:])
        with pytest.raises(KeyError, match="data"):
            d["dat"]


@pytest.mark.parametrize("name", each_object(np.zeros((1, 1))))
def test_b53_functions_of_rows_cannot_change_objects(name, x):
    before = x.copy()
    d = dv.View(each_object(x)[name])

    def less(row):
        found = np.asarray(row.data if name in ("bunch", "mapping") else row)
        if found.flags.writeable:
            found = found.copy()
        return found - 1

    mapped = d._map(less, shape=(4,), dtype=float)
    assert_same(mapped(), before - 1)
    assert_same(mapped(), before - 1)
    assert_same(x, before)


@pytest.mark.parametrize("name", each_object(np.zeros((1, 1))))
def test_b55_objects_are_joined_by_name(name, x):
    first, last = dv.View(each_object(x)[name]), dv.View(each_object(x)[name])[::-1]
    both = dv.concat(first, last)
    whole = np.concatenate([x, x[::-1]])
    v = both.data if name in ("bunch", "mapping") else both
    for part in [np.s_[:], np.s_[::-5], np.s_[4:8], np.s_[-1:2:-1]]:
        assert_same(np.asarray(v[part]), whole[part])


# ---------------------------------------------------------------- datasets of Hugging Face


@pytest.fixture
def hugged(monkeypatch, tmp_path):
    """A dataset in a file, as Hugging Face keeps it."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets
    from datasets import Array2D, ClassLabel, Features, List, Value

    features = Features(
        {
            "pair": List(Value("float32"), length=2),
            "label": ClassLabel(names=["no", "yes"]),
            "text": Value("string"),
            "maybe": Value("int16"),
            "when": Value("timestamp[us, tz=UTC]"),
            "box": Array2D((2, 3), "uint8"),
            "list": List(Value("int32")),
        }
    )
    rows = 7
    moment = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = datasets.Dataset.from_dict(
        {
            "pair": [[n, n + 0.5] for n in range(rows)],
            "label": [0, 1, 1, None, 0, 1, 0],
            "text": ["a", None, "c" * 100, "d", "e", "f", "g"],
            "maybe": [0, 1, None, 3, 4, 5, 6],
            "when": [moment + datetime.timedelta(n) for n in range(rows)],
            "box": np.arange(rows * 6).reshape(rows, 2, 3).astype("u1").tolist(),
            "list": [list(range(n)) for n in range(rows)],
        },
        features=features,
    )
    made.save_to_disk(tmp_path / "data")
    return datasets.load_from_disk(str(tmp_path / "data"))


@clients
def test_files_of_hugging_face_keep_the_names_of_classes(hugged, tmp_path):
    hugged.to_parquet(tmp_path / "one.parquet")
    for d in (dv.open(tmp_path / "data"), dv.open(tmp_path / "one.parquet")):
        assert d.label._labels()().tolist() == ["no", "yes"]
        assert (d.label == "yes")().tolist() == [False, True, True, False, False, True, False]
        assert d.label_mask().tolist() == [True, True, True, False, True, True, True]
        assert "huggingface" not in d._meta


@clients
def test_columns_of_hugging_face_are_read_by_rows(hugged, monkeypatch):
    d = dv.View(hugged)
    assert d._fields() == (*hugged.column_names, "text_mask", "maybe_mask")
    assert len(d) == 7 and d.pair._shape() == (7, 2) and d.box._dtype() == np.uint8
    assert_same(d[2:4].pair(), np.array([[2, 2.5], [3, 3.5]], "f4"))
    assert_same(d.pair[::-2, 1](), np.array([6.5, 4.5, 2.5, 0.5], "f4"))
    assert_same(d.box[[5, 0], 1](), np.array([[33, 34, 35], [3, 4, 5]], "u1"))
    assert d.label().tolist() == [0, 1, 1, -1, 0, 1, 0]
    assert d.label._labels()().tolist() == ["no", "yes"]
    assert d.text[:3]().tolist() == ["a", None, "c" * 100]
    assert d.text_mask().tolist() == [True, False, *[True] * 5]
    assert_same(d.maybe(), np.array([0, 1, 0, 3, 4, 5, 6], "i2"))
    assert d.when[1]() == np.datetime64("2020-01-02") and d.when._meta["timezone"] == "UTC"
    assert d.list._shape() == (7, None) and d.list[3]().tolist() == [0, 1, 2]
    assert_same(d.pair._mean(axis=0)(), np.array([3, 3.5], "f4"))
    again = pickle.loads(pickle.dumps(d.pair))
    assert_same(again(), d.pair())
    taken = dv.View(hugged.rename_column("text", "maybe_mask"))
    assert taken._fields()[-2:] == ("maybe_mask_mask", "maybe_mask_2")
    with pytest.raises(dv.ReadOnlyError, match=r"column 'pair'.*dataset\.map"):
        d.pair[0] = 1
    asked = []
    kind = type(hugged)
    whole = kind.__getitem__
    monkeypatch.setattr(
        kind, "__getitem__", lambda self, key: asked.append(key) or whole(self, key)
    )
    assert d.text[5]() == "f" and d.pair[1:3]()[0, 0] == 1
    assert asked == [slice(5, 6), slice(1, 3)]


@clients
def test_lists_and_structs_of_hugging_face_are_ragged_and_nested(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets
    from datasets import ClassLabel, Features, List, Value

    tags = List(ClassLabel(names=["no", "yes"]))
    point = {"x": Value("int32"), "y": List(Value("float32"))}
    found = [{"name": Value("string"), "score": Value("int8")}]
    rows = {
        "ids": [list(range(n % 5)) for n in range(600)],
        "tags": [None if n == 1 else [n % 2, 1] for n in range(600)],
        "point": [{"x": n, "y": [n + 0.5] * (n % 3)} for n in range(600)],
        "found": [[{"name": None, "score": n % 9}] * (n % 2) for n in range(600)],
    }
    features = Features({"ids": List(Value("int64")), "tags": tags, "point": point, "found": found})
    whole = datasets.Dataset.from_dict(rows, features=features)
    d = dv.View(whole)
    assert d._fields() == ("ids", "tags", "point", "found", "tags_mask")
    assert d.ids._shape() == (600, None) and d.ids._dtype() == np.int64
    assert [row.tolist() for row in d.ids()] == rows["ids"]
    assert_same(d.ids._pad(-1)[:3](), np.array([[-1] * 4, [0, *[-1] * 3], [0, 1, -1, -1]]))
    assert d.tags._labels()().tolist() == ["no", "yes"] and not d.tags_mask[1]()
    assert_same(d.point.x[[599, 2]](), np.array([599, 2], "i4"))
    assert d.point.y[302]().tolist() == [302.5, 302.5]
    assert d.found.name[1]().tolist() == [None] and d.found.score[597]().tolist() == [3]
    chosen = dv.View(whole.select([404, 3]))
    assert [row.tolist() for row in chosen.ids()] == [[0, 1, 2, 3], [0, 1, 2]]
    assert len(dv.View(whole.select([])).ids()) == 0
    assert_same(pickle.loads(pickle.dumps(d.point.x))(), d.point.x())


@clients
def test_parts_and_formats_of_hugging_face(hugged):
    import datasets

    part = dv.View(hugged.select([4, 0]).with_format("numpy"))
    assert part.maybe().tolist() == [4, 0] and part.pair[0]().tolist() == [4, 4.5]
    assert dv.View(hugged.with_format(None, columns=["maybe"]))._fields() == ("maybe", "maybe_mask")
    shuffled = hugged.shuffle(seed=1)
    assert dv.View(shuffled).text[[6, 1]]().tolist() == [
        shuffled[number]["text"] for number in (6, 1)
    ]
    both = dv.View(datasets.DatasetDict(train=hugged, test=hugged.select([0])))
    assert len(both.train) == 7 and both.test.pair().tolist() == [[0, 0.5]]
    doubled = hugged.select_columns(["pair"]).with_transform(
        lambda rows: {"pair": [np.asarray(pair) * 2 for pair in rows["pair"]]}
    )
    assert dv.View(doubled)._probe().pair[1]().tolist() == [2, 3]
    declared = dv.View(hugged.select_columns(["pair"]), _fields={"pair": ((2,), "f4")})
    assert declared[1].pair().tolist() == [1, 1.5]
    empty = dv.View(hugged.select([]))
    assert len(empty) == 0 and empty.pair().shape == (0, 2)


@pytest.mark.parametrize(
    ("made", "formula"),
    [
        (lambda d: d.x + 1, "x + 1: "),
        (lambda d: d.x[1:] * 2.5, "x[1:] * 2.5: "),
        (lambda d: d.x._sum(), "sum(x): "),
        (lambda d: np.sqrt(d.x), "sqrt(x): "),
    ],
)
def test_the_error_of_an_object_says_in_which_operation(made, formula):
    d = dv.View(x=np.array([1, 2, "a"], object))
    with pytest.raises(TypeError) as caught:
        made(d)()
    assert str(caught.value).startswith(formula) and "Python objects" in str(caught.value)
    assert isinstance(caught.value.__cause__, TypeError)


@pytest.mark.parametrize("axis", [None, 1, (0, 1), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("kind", ["min", "max"])
def test_extremes_of_objects_over_several_axes(kind, axis):
    x = np.random.default_rng(0).permutation(24).reshape(2, 3, 4).astype(object)
    expected = getattr(np, kind)(x, axis=axis)
    assert_same(getattr(dv.View(x), f"_nan{kind}")(axis=axis)(), expected)
    with sizes.set(part_bytes=32):
        assert_same(getattr(dv.View(x), f"_nan{kind}")(axis=axis)(), expected)
    x[0, 0, 0] = x[1, 2, 3] = None
    numbers = np.where(x == None, np.nan, x).astype(float)  # noqa: E711
    found = np.asarray(getattr(dv.View(x), f"_nan{kind}")(axis=axis)(), float)
    np.testing.assert_array_equal(found, getattr(np, f"nan{kind}")(numbers, axis=axis))


OBJECT_NUMBERS = [
    np.array([1, 2, 4], object),
    np.array([decimal.Decimal(1), decimal.Decimal(2), decimal.Decimal(4)], object),
]


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("x", OBJECT_NUMBERS)
def test_averages_of_objects_but_what_is_missing(x, ddof):
    with_none = np.append(x, None)
    for values in (x, with_none):
        v = dv.View(values)
        assert v._nanmean()() == np.mean(x)
        assert v._nanvar(ddof=ddof)() == np.var(x, ddof=ddof)
        root = v._nanstd(ddof=ddof)()
        assert type(root) in (decimal.Decimal, np.float64)
        assert float(root) == pytest.approx(float(np.var(x, ddof=ddof)) ** 0.5, rel=1e-14)
    assert_same(pickle.loads(pickle.dumps(dv.View(x)._nanstd()))(), dv.View(x)._nanstd()())


@pytest.mark.parametrize("x", OBJECT_NUMBERS)
def test_averages_of_objects_where_a_mask_is_true(x):
    mask = np.array([True, False, True])
    v, chosen = dv.View(x), x[mask]
    assert v._mean(where=mask)() == np.mean(chosen)
    assert v._var(where=mask, ddof=1)() == np.var(chosen, ddof=1)
    assert float(v._std(where=mask)()) == pytest.approx(float(np.var(chosen)) ** 0.5)
    table = dv.View(np.stack([x, x * 2, x * 3]))
    found = table._mean(axis=1, where=mask)()
    assert found.tolist() == [np.mean(chosen * n) for n in (1, 2, 3)]


@pytest.mark.parametrize("held", [np.arange(3), [1, 2]])
def test_arithmetic_of_one_object_that_is_an_array_or_a_list(held):
    a = np.empty((), object)
    a[()] = held
    found, expected = np.add(dv.View(a), dv.View(a))(), np.add(a, a)
    assert type(found) is type(expected)
    assert_same(np.array(found), np.array(expected))


# ---------------------------------------------------------------- categories that are missing


@clients
@pytest.mark.parametrize("library", ["pandas", "polars", "enum"])
@pytest.mark.parametrize("rows", [slice(None), slice(1, 3)])
def test_missing_categories_answer_as_those_of_arrow_do(library, rows, tmp_path):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    texts = ["a", None, "b", "a"]
    frames = {
        "pandas": lambda: pd.DataFrame({"k": pd.Categorical(texts)}),
        "polars": lambda: pl.DataFrame({"k": pl.Series(texts, dtype=pl.Categorical)}),
        "enum": lambda: pl.DataFrame({"k": pl.Series(texts, dtype=pl.Enum(["a", "b"]))}),
    }
    d = dv.View(frames[library]())
    d._save(tmp_path / "d.parquet")
    arrow = dv.View(pa.table({"k": pa.array(texts).dictionary_encode()}))
    for one in (d[rows], dv.open(tmp_path / "d.parquet")[rows], arrow[rows]):
        assert one._fields() == ("k", "k_mask")
        assert one.k_mask().tolist() == [text is not None for text in texts[rows]]
        assert (one.k != "a")().tolist() == [text not in ("a", None) for text in texts[rows]]
        assert (~(one.k == "a"))().tolist() == (one.k != "a")().tolist()
        assert np.isin(one.k, ["a"], invert=True).tolist() == (one.k != "a")().tolist()
        assert one._to_pandas()["k"].isna().tolist() == [text is None for text in texts[rows]]
    alone = dv.View(frames[library]()["k"])
    assert alone().tolist() == [0, -1, 1, 0]


# ---------------------------------------------------------------- parts of structs in pandas


@clients
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_mask_of_structs_and_one_of_elements_in_lists_are_both_heeded(count):
    import pandas as pd
    import pyarrow as pa

    rows = [{"a": [None, 2]}, None, {"a": None}][:count]
    table = pa.table({"s": pa.array(rows, pa.struct([("a", pa.list_(pa.int64(), 2))]))})
    lists = [(row or {}).get("a") or [None, None] for row in rows]
    wanted = pd.DataFrame(
        {f"s_a_{n}": pd.array([row[n] for row in lists], "Int64") for n in (0, 1)}
    )
    found = dv.View(table)._to_pandas()
    assert found.columns.tolist() == wanted.columns.tolist()
    for name in wanted:
        assert found[name].astype("Int64").equals(wanted[name])
    (batch,) = dv.View(table)._minibatches(count)
    assert batch._to_pandas().equals(found)


@clients
@pytest.mark.parametrize("within", ["struct", "list", "struct of lists"])
def test_categories_and_zones_inside_of_structs_and_lists_are_those_of_pandas(within):
    import pandas as pd
    import pyarrow as pa

    codes = pa.array(["x", "y", None, "x"]).dictionary_encode()
    times = pa.array([0, 1, None, 3]).cast(pa.timestamp("us", "America/New_York"))
    parts = {"k": codes, "t": times}
    if within != "struct":
        parts = {name: pa.FixedSizeListArray.from_arrays(part, 2) for name, part in parts.items()}
    table = pa.table(parts)
    if within != "list":
        table = pa.table({"s": pa.StructArray.from_arrays([*parts.values()], [*parts])})
    d = dv.View(table)
    found = d._to_pandas()
    for name, values in {"k": codes, "t": times}.items():
        own = f"{name}" if within == "list" else f"s_{name}"
        columns = [own] if within == "struct" else [f"{own}_0", f"{own}_1"]
        for number, column in enumerate(columns):
            wanted = values[number :: len(columns)].to_pandas()
            assert found[column].dtype == wanted.dtype or name == "k"
            assert isinstance(found[column].dtype, pd.CategoricalDtype) == (name == "k")
            assert found[column].astype(object).equals(wanted.astype(object))
    if within == "list":
        assert d.k._to_pandas()[1].tolist()[0] == "y"
        assert d.t._to_pandas()[0].equals(found["t_0"].rename(0))
