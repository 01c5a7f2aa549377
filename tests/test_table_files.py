"""Files of tables of each format: what columns become, what is read when, what is refused."""

import copy
import datetime
import decimal
import gc
import json
import operator
import os
import pickle
import re
import shutil
import tempfile
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from children import printed
from dataview.formats.tables import arrow_tables, column_nodes
from dataview.formats.tables.arrow_tables import ArrowTable
from dataview.formats.tables.arrow_values import ArrowObjects
from dataview.formats.tables.parquet import ParquetTable
from leftovers import open_files
from oracle import examples

# -------------------- what Arrow's types become --------------------

DAY = datetime.date(2020, 1, 2)
TENSOR = pa.fixed_shape_tensor(pa.int32(), [2, 3])
NOTHING = object()
"""Where a mask is expected to be absent."""


def tensors(rows):
    return pa.ExtensionArray.from_storage(TENSOR, pa.array(rows, pa.list_(pa.int32(), 6)))


def objects(*values):
    found = np.empty(len(values), object)
    found[:] = values
    return found


TYPES = {
    "integers": (pa.array([1, 2, 3], "i2"), np.array([1, 2, 3], "i2"), NOTHING),
    "integers with gaps": (pa.array([1, None, 3]), np.array([1, 0, 3]), [1, 0, 1]),
    "large integers": (pa.array([2**64 - 1, None], "u8"), np.array([2**64 - 1, 0], "u8"), [1, 0]),
    "floats": (pa.array([1.5, None, np.nan]), np.array([1.5, np.nan, np.nan]), [1, 0, 1]),
    "half floats": (pa.array([1, None], "f2"), np.array([1, np.nan], "f2"), [1, 0]),
    "booleans": (pa.array([True, None, False]), np.array([True, False, False]), [1, 0, 1]),
    "texts": (pa.array(["é", None, ""]), objects("é", None, ""), [1, 0, 1]),
    "large texts": (pa.array(["é", None], "large_string"), objects("é", None), [1, 0]),
    "views of texts": (pa.array(["é" * 20, None], "string_view"), objects("é" * 20, None), [1, 0]),
    "bytes": (pa.array([b"\0a", None]), objects(b"\0a", None), [1, 0]),
    "bytes of one length": (
        pa.array([b"a\0", None], pa.binary(2)),
        np.array([b"a\0", b"\0\0"], "V2"),
        [1, 0],
    ),
    "times of a zone": (
        pa.array([5, None], pa.timestamp("us", "Europe/Berlin")),
        np.array([5, "NaT"], "M8[us]"),
        [1, 0],
    ),
    "dates": (pa.array([DAY, None]), np.array([DAY, "NaT"], "M8[D]"), [1, 0]),
    "times of day": (
        pa.array([datetime.time(0, 1), None], pa.time32("ms")),
        np.array([60_000, "NaT"], "m8[ms]"),
        [1, 0],
    ),
    "durations": (pa.array([1, None], pa.duration("s")), np.array([1, "NaT"], "m8[s]"), [1, 0]),
    "decimals": (
        pa.array([decimal.Decimal("0.10"), None]),
        objects(decimal.Decimal("0.10"), None),
        [1, 0],
    ),
    "nothing": (pa.nulls(2), np.array([np.nan, np.nan]), [0, 0]),
    "codes": (
        pa.array(["b", None, "a", "b"]).dictionary_encode(),
        np.array([0, -1, 1, 0], "i4"),
        [1, 0, 1, 1],
    ),
    "pairs": (
        pa.array([[1, 2], None, [3, None]], pa.list_(pa.int8(), 2)),
        np.array([[1, 2], [0, 0], [3, 0]], "i1"),
        [[1, 1], [0, 0], [1, 0]],
    ),
    "tensors": (tensors([range(6)]), np.arange(6, dtype="i4").reshape(1, 2, 3), NOTHING),
}  # fmt: skip


def parquet(table, path, rows=None):
    pq.write_table(table, path.with_suffix(".parquet"), row_group_size=rows)
    return path.with_suffix(".parquet")


def ipc(new, suffix, compression=None):
    def write(table, path, rows=None):
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with new(path.with_suffix(suffix), table.schema, options=options) as file:
            file.write_table(table, max_chunksize=rows)
        return path.with_suffix(suffix)

    return write


WRITTEN = {
    "parquet": parquet,
    "arrow": ipc(pa.ipc.new_file, ".arrow"),
    "packed feather": ipc(pa.ipc.new_file, ".feather", "lz4"),
    "stream": ipc(pa.ipc.new_stream, ".arrow"),
    "packed stream": ipc(pa.ipc.new_stream, ".ipc", "zstd"),
}


@pytest.fixture(params=WRITTEN)
def write(request):
    return WRITTEN[request.param]


@pytest.mark.parametrize("rows", [1, 100])
@pytest.mark.parametrize("name", TYPES)
def test_each_type_becomes_an_array_and_its_gaps_a_mask(name, rows, write, tmp_path):
    column, values, mask = TYPES[name]
    d = dv.open(write(pa.table({"x": column}), tmp_path / "a", rows))
    found = d.x()
    assert found.dtype == values.dtype and d.x._dtype() == values.dtype
    np.testing.assert_array_equal(found, values)
    assert d._fields() == ("x",) if mask is NOTHING else ("x", "x_mask")
    if mask is not NOTHING:
        assert d.x_mask().tolist() == np.array(mask, bool).tolist()
        np.testing.assert_array_equal(d.x[::-1](), values[::-1])


def test_times_have_their_zone_and_codes_their_labels(write, tmp_path):
    table = pa.table({"t": TYPES["times of a zone"][0], "code": TYPES["codes"][0][:2]})
    d = dv.open(write(table, tmp_path / "a"))
    assert d.t._meta["timezone"] == "Europe/Berlin"
    assert d.code._meta["labels"] == ["b", "a"]


def test_a_list_is_missing_if_a_value_of_it_cannot_say_that_it_is(write, tmp_path):
    values = {
        "f": [[1.5, None], [], None],
        "t": [["a", None], [], None],
        "at": pa.array([[1, None], [], None], pa.list_(pa.timestamp("s"))),
        "i": [[1, None], [], None],
        "b": [[True, None], [], None],
        "deep": [[[0.5, None], [1.0]], [], None],
    }
    table = pa.table(values)
    for d in (dv.open(write(table, tmp_path / "a")), dv.View(table)):
        for name in ("f", "t", "at", "deep"):
            assert d._field(f"{name}_mask")().tolist() == [True, True, False]
        for name in ("i", "b"):
            assert d._field(f"{name}_mask")().tolist() == [False, True, False]
        assert np.isnan(d.f[0]()[1]) and np.isnat(d.at[0]()[1]) and d.t[0]().tolist() == ["a", None]
        d._select("f", "t", "at", "deep")._save(tmp_path / "again.parquet")
        again = dv.open(tmp_path / "again.parquet")
        assert again.t[0]().tolist() == ["a", None] and np.isnan(again.f[0]()[1])
        assert again.t_mask().tolist() == [True, True, False]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_missing_floats_in_lists_of_one_length_are_no_nan(kind, tmp_path):
    half, nan = np.float16(0.5), np.float16(np.nan)
    rows = [[half, None], None, [nan, half], [None, nan]]
    columns = {"a": pa.array(rows, pa.list_(kind, 2)), "b": pa.array(rows, pa.list_(kind))}
    table = pa.table(columns)
    wanted = [None if row is None else [*map(str, row)] for row in rows]

    def texts(column):
        return [None if row is None else [*map(str, row)] for row in column.to_pylist()]

    assert texts(table["a"]) == wanted
    d = dv.View(table)
    d._save(tmp_path / "a.feather")
    for name in ("a.parquet", "a.h5"):
        if kind != pa.float16() or name == "a.h5":
            dv.open(tmp_path / "a.feather")._save(tmp_path / name)
    for found in (d, *map(dv.open, sorted(tmp_path.iterdir()))):
        for column in (pa.table(found)["a"], pa.table(found)["b"], pa.array(found.a)):
            assert texts(column) == wanted
        assert pa.table(found[::-1])["a"].null_count == 1
    filled = dv.open(tmp_path / "a.feather", fill={"a": 2.0}).a()
    np.testing.assert_array_equal(filled, [[0.5, 2], [2, 2], [np.nan, 0.5], [2, np.nan]])
    assert d.a._sum()() == 1


def test_gaps_inside_of_lists_of_one_length_leave_the_other_values(write, tmp_path):
    rows = {"f": [[1.5, None], None, [2.5, 3]], "t": [["a", None], None, ["", "c"]]}
    pairs = {"f": pa.list_(pa.float64(), 2), "t": pa.list_(pa.string(), 2)}
    table = pa.table({name: pa.array(rows[name], pairs[name]) for name in rows})
    path = write(table, tmp_path / "a", 2)
    dv.open(path)._save(tmp_path / "again.parquet")
    for d in (dv.open(path), dv.View(table), dv.open(tmp_path / "again.parquet")):
        np.testing.assert_array_equal(d.f(), [[1.5, np.nan], [np.nan, np.nan], [2.5, 3]])
        assert d.t().tolist() == [["a", None], [None, None], ["", "c"]]
        assert d.f_mask().tolist() == [[True, False], [False, False], [True, True]]
        assert d.t_mask().tolist() == [True, False, True]
        assert (d.f._sum()(), d.f._mean(0)().tolist()) == (7, [2, 3])
    d = dv.open(path, fill={"f": 0.0, "t": "-"})
    assert d.f().tolist() == [[1.5, 0], [0, 0], [2.5, 3]]
    assert d.t().tolist() == [["a", "-"], ["-", "-"], ["", "c"]]


INTEGERS = [[1, None, 3], [], None, [4], [None], [None, 7, -2]]


def test_gaps_inside_of_lists_are_filled_up_as_ends_are(write, tmp_path):
    floats = [[1.5, None, np.nan], None, [2.5]]
    table = pa.table(
        {"i": INTEGERS[:2] + INTEGERS[3:4], "f": floats, "deep": [[[1, None]], [], None]}
    )
    for whole in (dv.open(write(table, tmp_path / "a", 2)), dv.View(table)):
        for d in (whole, whole._freeze(), pickle.loads(pickle.dumps(whole[:]))):
            padded = d.i._pad(-1, mask=True)
            assert padded().tolist() == [[1, -1, 3], [-1, -1, -1], [4, -1, -1]]
            assert padded.i_mask().tolist() == [
                [True, False, True],
                [False] * 3,
                [True, False, False],
            ]
            left = d.i._pad(-1, to=2, side="left", truncate="left", mask=True)
            assert left().tolist() == [[-1, 3], [-1, -1], [-1, 4]]
            assert left.i_mask().tolist() == [[False, True], [False, False], [False, True]]
            found = d.f._pad(mask=True)
            np.testing.assert_array_equal(found(), [[1.5, 0, np.nan], [0, 0, 0], [2.5, 0, 0]])
            assert found.f_mask().tolist() == [
                [True, False, True],
                [False] * 3,
                [True, False, False],
            ]
            assert d.deep._pad(9, mask=True)().tolist() == [[[1, 9]], [[9, 9]], [[9, 9]]]
            assert d.deep._pad(9, mask=True).deep_mask()[0].tolist() == [[True, False]]
            assert d.i._mean()() == 8 / 3 and d.i._isna()[0]().tolist() == [False, True, False]
        (batch,) = whole._select("i")._loader(batch_size=3, pad=-1)
        assert batch.i().tolist() == [[1, -1, 3], [-1, -1, -1], [4, -1, -1]]


def test_gaps_among_floats_of_lists_count_in_no_statistic(write, tmp_path):
    table = pa.table({"f": [[1.5, None], [None], None, [2.5]]})
    for d in (dv.open(write(table, tmp_path / "a", 2)), dv.View(table)):
        assert (d.f._mean()(), d.f._max()(), d.f._median()()) == (2.0, 2.5, 2.0)
        assert d.f._sum(axis=1)().tolist() == [1.5, 0, 0, 2.5]


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".jsonl"])
@pytest.mark.parametrize("rows", [None, 2])
def test_gaps_inside_of_lists_are_saved_as_gaps(suffix, rows, write, tmp_path):
    lists = {
        "i": [[1, None, 3], [], None, [4], [None]],
        "f": [[1.5, None], None, [2.5], [], [None]],
        "whole": [[1], [2, 3], [], [4], None],
        "deep": [[[1, None], []], [], [[None]], [[2]], []],
    }
    table = pa.table({"n": range(5)} | lists)
    for d in (dv.open(write(table, tmp_path / "a", 2)), dv.View(table)):
        for name in ("i", "f", "whole", "deep"):
            assert pa.array(d._field(name)[[1, 0, 3]]).to_pylist() == [
                lists[name][row] for row in (1, 0, 3)
            ]
        d._save(tmp_path / f"b{suffix}", **({"chunks": rows} if suffix != ".jsonl" else {}))
        if suffix == ".jsonl":
            found = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
        elif suffix == ".parquet":
            found = pq.read_table(tmp_path / "b.parquet").to_pylist()
        else:
            found = pa.feather.read_table(tmp_path / "b.feather").to_pylist()
        for name, expected in lists.items():
            assert [row[name] for row in found] == expected, name
        again = dv.open(tmp_path / f"b{suffix}")
        assert again.i._sum()() == 8
        if suffix != ".jsonl":  # whose numbers with gaps are floats
            assert again.i_mask().tolist() == d.i_mask().tolist()


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_times_that_are_missing_beside_a_mask_are_saved_as_missing(suffix, tmp_path):
    times = np.array([5, "NaT", 7], "m8[s]")
    pairs = pa.array(
        [[[1, None], None], None, [[None, 2]]], pa.list_(pa.list_(pa.duration("s"), 2))
    )
    d = dv.View(pa.table({"pairs": pairs}))
    d = dv.View({"pairs": d.pairs, "t": times, "t_mask": np.array([True, True, False])})
    d._save(tmp_path / f"b{suffix}", chunks=2)
    read = pq.read_table if suffix == ".parquet" else pa.feather.read_table
    found = read(tmp_path / f"b{suffix}")
    assert found["t"].is_valid().to_pylist() == [True, False, False]
    flat = found["pairs"].combine_chunks().flatten().flatten()
    assert flat.is_valid().to_pylist() == [True, False, False, True]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_a_list_that_is_missing_in_a_list_is_saved(suffix, write, tmp_path):
    rows = {"t": [[None, ["a"]], None, [["b"], []]], "f": [[None, [1.5]], None, [[2.5], []]]}
    table = pa.table({"n": range(3)} | rows)
    for d in (dv.open(write(table, tmp_path / "a", 2)), dv.View(table)):
        assert d.t_mask().tolist() == d.f_mask().tolist() == [False, False, True]
        d._save(tmp_path / f"b{suffix}")
        if suffix == ".jsonl":
            found = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
        else:
            found = pq.read_table(tmp_path / "b.parquet").to_pylist()
        again = dv.open(tmp_path / f"b{suffix}")
        for name, expected in rows.items():
            assert [row[name] for row in found] == expected, name
            assert pa.table(d._select(name))[name].to_pylist() == expected
            assert pa.table(again._select(name))[name].to_pylist() == expected


PICKLED = [lambda d: d, lambda d: pickle.loads(pickle.dumps(d)), lambda d: copy.deepcopy(d[:])]


@pytest.mark.parametrize("kept", PICKLED)
def test_gaps_among_integers_of_lists_count_in_no_question(kept, write, tmp_path):
    truths = [None if row is None else [n and n > 1 for n in row] for row in INTEGERS]
    table = pa.table({"i": INTEGERS, "b": truths, "deep": [[row or []] for row in INTEGERS]})
    rows = [np.array([np.nan if n is None else n for n in row or ()], float) for row in INTEGERS]
    flat = np.concatenate(rows)
    for whole in (dv.open(write(table, tmp_path / "a", 2)), dv.View(table)):
        d = kept(whole)
        for view in (d.i, d.deep):
            for kind in ("sum", "mean", "std", "min", "max", "median"):
                found = getattr(view, f"_{kind}")()()
                assert found == pytest.approx(getattr(np, f"nan{kind}")(flat))
        assert d.i._sum()() == 13 and d.i._sum()().dtype == np.int64
        assert d.i._sum(axis=1)().tolist() == [4, 0, 0, 4, 0, 5]
        some = [0, 3, 5]
        for kind in ("mean", "min", "max", "median"):
            np.testing.assert_allclose(
                getattr(d.i[some], f"_{kind}")(axis=1)(),
                [getattr(np, f"nan{kind}")(rows[row]) for row in some],
            )
        assert d.b._mean()() == 0.6
        assert d.b._any(axis=1)().tolist() == [True, False, False, True, False, True]
        for row, found, isna in zip(rows, (d.i > 1)(), d.i._isna()(), strict=True):
            assert found.tolist() == (row > 1).tolist() and isna.tolist() == np.isnan(row).tolist()
        assert d.i._fillna(-1)._sum()() == 10 and d.i[1:]._mean()() == 3
        assert pickle.loads(pickle.dumps(d.i[:3]))._mean()() == 2
        described = d._select("i", "b")._describe()
        assert (described["i"]["missing"], described["i"]["min"]) == (3, -2)


def test_structs_are_nested_fields_and_lists_ragged_ones(write, tmp_path):
    table = pa.table(
        {
            "s": pa.array([{"a": 1, "b": {"c": "x"}}, None, {"a": None, "b": {"c": "y"}}]),
            "l": pa.array([[1, 2], [], None]),
            "deep": pa.array([[[1], [2, 3]], [[]], []]),
            "of": pa.array([[{"p": 1, "q": "x"}], [], [{"p": 2, "q": None}, {"p": 3, "q": "y"}]]),
            "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
            "pairs": pa.array([[[1, 2]], [], None], pa.list_(pa.list_(pa.int8(), 2))),
        }
    )
    memory = dv.View(table)
    assert [row.tolist() for row in memory.map.key()] == [["k"], [], []]
    assert [row.tolist() for row in memory.map.value()] == [[1], [], []]
    d = dv.open(write(table, tmp_path / "a", 2))
    assert d.s.a().tolist() == [1, 0, 0] and d.s.a_mask().tolist() == [True, False, False]
    assert d.s.b.c().tolist() == ["x", None, "y"] and d.s.b.c_mask().tolist() == [True, False, True]
    assert [row.tolist() for row in d.l()] == [[1, 2], [], []]
    assert d.l_mask().tolist() == [True, True, False] and d.l._shape() == (3, None)
    assert [[part.tolist() for part in row] for row in d.deep()] == [[[1], [2, 3]], [[]], []]
    assert [row.tolist() for row in d.of.p()] == [[1], [], [2, 3]]
    assert [row.tolist() for row in d.of.q()] == [["x"], [], [None, "y"]]
    assert d.of.q_mask().tolist() == [True, True, True]  # None says itself what is missing
    assert [row.tolist() for row in d.map.key()] == [["k"], [], []]
    assert [row.tolist() for row in d.pairs[[2, 0]]()] == [[], [[1, 2]]]


RECORDS = [
    {"s": {"a": 1, "t": {"u": 1.5}}, "n": 1, "whole": {"x": 1}},
    {"s": None, "n": None, "whole": {"x": 2}},
    {"s": {"a": None, "t": None}, "n": 3, "whole": {"x": 3}},
    {"s": {"a": 4, "t": {"u": None}}, "n": 4, "whole": {"x": 4}},
]


@pytest.mark.parametrize("rows", [1, 3, 9])
def test_records_that_are_missing_stay_missing(write, target, tmp_path, rows):
    table = pa.Table.from_pylist(RECORDS)
    for d in (dv.open(write(table, tmp_path / "b", rows)), dv.View(table)):
        assert d._fields() == ("s", "n", "whole", "s_mask", "n_mask")
        assert d.s_mask().tolist() == [True, False, True, True]
        assert d.s.t_mask().tolist() == [True, False, False, True]
        assert d.s.a_mask[::-1]().tolist() == [True, False, False, True]
        assert pickle.loads(pickle.dumps(d)).s_mask().tolist() == d.s_mask().tolist()
        assert pa.table(d).to_pylist() == RECORDS and pa.table(d[::-1]).to_pylist() == RECORDS[::-1]
        assert [row["n"] for row in pa.table(d[d.s_mask]).to_pylist()] == [1, 3, 4]
        for chunks in (None, 2):
            d._save(target, chunks=chunks)
            read = pq.read_table if target.suffix == ".parquet" else pa.feather.read_table
            assert read(target).to_pylist() == RECORDS
            assert dv.open(target)._fields() == d._fields()
            assert pa.table(dv.open(target)).to_pylist() == RECORDS
        d[[0, 3]]._save(target)
        assert dv.open(target)._fields() == d._fields() and dv.open(target).s_mask().all()


@pytest.mark.parametrize("gone", [[False, True, False], [False] * 3, [True] * 3])
@pytest.mark.parametrize("texts", [["x", "y", "x"], ["x", None, "x"], [None] * 3])
@pytest.mark.parametrize("names", [["d"], ["d", "e"], ["e", "d"]])
def test_records_of_labels_that_are_missing_stay_missing(write, gone, texts, names, tmp_path):
    members = {"d": pa.array(texts, pa.string()).dictionary_encode(), "e": pa.array([1, 2, 3])}
    parts = [members[name] for name in names]
    table = pa.table({"s": pa.StructArray.from_arrays(parts, names, mask=pa.array(gone))})
    for d in (dv.open(write(table, tmp_path / "b", 2)), dv.View(table)):
        assert pa.table(d).to_pylist() == table.to_pylist()


def test_records_that_are_missing_in_some_files_are_missing_in_all(target, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    parts = [RECORDS[:1], RECORDS[1:3], [{"n": 7, "whole": {"x": 5}}]]
    write = pq.write_table if target.suffix == ".parquet" else pa.feather.write_feather
    schema = pa.Table.from_pylist(RECORDS).schema
    for number, rows in enumerate(parts):
        table = pa.Table.from_pylist(rows, schema if number < 2 else None)
        write(table, folder / f"{number}{target.suffix}")
    found = dv.open(folder, schema="union")
    assert pa.table(found).to_pylist() == [*RECORDS[:3], {"s": None, **parts[2][0]}]
    assert found.s_mask().tolist() == [True, False, True, False]
    with pytest.raises(ValueError, match=r"has the columns 's\.a', 's\.t\.u', and 2\.\w+ has none"):
        dv.open(folder)
    parts = dv.open([folder / f"{number}{target.suffix}" for number in (0, 1)], layout="parts")
    assert pa.table(parts).to_pylist() == RECORDS[:3]


def test_a_row_of_a_folder_that_was_read_is_not_given_when_its_file_is_another(target, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    write = pq.write_table if target.suffix == ".parquet" else pa.feather.write_feather
    for name in "ab":
        write(pa.table({"x": [1, 2]}), folder / f"{name}{target.suffix}")
    d = dv.open(folder)
    assert d.x().tolist() == [1, 2, 1, 2]
    (folder / f"a{target.suffix}").unlink()
    write(pa.table({"x": [30, 40, 50]}), folder / f"a{target.suffix}")
    with pytest.raises(ValueError, match=rf"a\{target.suffix} has changed since it was opened"):
        d.x[0]()
    assert d.x[3]() == 2


@pytest.mark.parametrize("is_of_lists", [False, True])
def test_decimals_of_several_types_are_one_column_of_a_union(target, tmp_path, is_of_lists):
    folder = tmp_path / "files"
    folder.mkdir()
    write = pq.write_table if target.suffix == ".parquet" else pa.feather.write_feather
    texts = {(10, 1): ["1.5", None], (6, 3): ["2.250"], (38, 0): ["7" * 38]}
    values = []
    for number, ((digits, scale), own) in enumerate(texts.items()):
        kind = pa.decimal128(digits, scale)
        part = [None if text is None else decimal.Decimal(text) for text in own]
        part = [[value, value] for value in part] if is_of_lists else part
        column = pa.array(part, pa.list_(kind) if is_of_lists else kind)
        write(pa.table({"x": column}), folder / f"{number}{target.suffix}")
        values += part
    with pytest.raises(ValueError, match="schema='union' gives what they have in common"):
        dv.open(folder)
    found = dv.open(folder, schema="union")
    kind = pa.decimal256(41, 3)
    assert [*map(list, found.x())] == values if is_of_lists else found.x().tolist() == values
    assert found.x._meta["decimal"] == str(kind)
    for table in (pa.table(found), pa.table(dv.View(found))):
        own = table["x"].type
        assert (own.value_type if is_of_lists else own) == kind
        assert table["x"].to_pylist() == values
    found._save(target)
    assert pa.table(dv.open(target))["x"].to_pylist() == values


def test_decimals_that_no_type_holds_together_are_refused(target, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    write = pq.write_table if target.suffix == ".parquet" else pa.feather.write_feather
    for number, kind in enumerate([pa.decimal256(76, 0), pa.decimal256(76, 70)]):
        column = pa.array([decimal.Decimal(1)], kind)
        write(pa.table({"x": column}), folder / f"{number}{target.suffix}")
    with pytest.raises(ValueError, match=r"'x' is decimal256\(76, 70\) in 1.*open them one by one"):
        dv.open(folder, schema="union")


def test_a_fill_leaves_no_mask(target):
    table = pa.Table.from_pylist([{"s": {"a": 1}}, {"s": None}, {"s": {"a": None}}])
    write = pq.write_table if target.suffix == ".parquet" else pa.feather.write_feather
    write(table, target)
    assert dv.open(target, fill=-1)._fields() == ("s",)
    assert dv.open(target, fill=-1).s.a().tolist() == [1, -1, -1]
    assert dv.open(target, fill={"s.a": -1})._fields() == ("s", "s_mask")


def test_what_numpy_has_no_array_of_is_no_field_and_says_why(tmp_path):
    interval = pa.array([(1, 2, 3)], pa.month_day_nano_interval())
    d = dv.open(WRITTEN["arrow"](pa.table({"x": [1], "i": interval}), tmp_path / "a"))
    assert d._fields() == ("x",) and d.x().tolist() == [1]
    with pytest.raises(
        dv.FieldError, match="month_day_nano_interval, of which NumPy has no arrays"
    ):
        d._field("i")
    stream = pa.RecordBatchReader.from_batches(
        pa.schema([("x", pa.int64()), ("i", interval.type)]),
        [pa.record_batch({"x": [1], "i": interval})],
    )
    streamed = dv.View(stream)
    assert streamed._fields() == ("x",) and streamed.x().tolist() == [1]
    with pytest.raises(ValueError, match=r"b\.arrow has no columns that can be viewed; 'i' is of"):
        dv.open(WRITTEN["arrow"](pa.table({"i": interval}), tmp_path / "b"))


def test_labels_of_all_groups_are_numbered_together(tmp_path):
    schema = pa.schema([("c", pa.dictionary(pa.int8(), pa.string()))])
    path = tmp_path / "a.parquet"
    with pq.ParquetWriter(path, schema) as file:
        for values in (["b", "a"], ["c", None, "b"], []):
            file.write_table(pa.table([pa.array(values, schema[0].type)], schema))
    d = dv.open(path)
    labels = d.c._meta["labels"]
    assert [labels[code] if code >= 0 else None for code in d.c()] == ["b", "a", "c", None, "b"]
    assert [labels[code] for code in d.c[-1:]()] == ["b"]


def test_one_value_stands_for_what_is_missing_if_asked_for(write, tmp_path):
    table = pa.table({"age": [1, None], "name": ["x", None], "l": [[1], [None]]})
    path = write(table, tmp_path / "a")
    d = dv.open(path, fill={"age": -1, "l": 9})
    assert d._fields()[:4] == ("age", "name", "l", "name_mask")
    assert d.age().tolist() == [1, -1] and d.l[1]().tolist() == [9]
    assert pickle.loads(pickle.dumps(d.age))().tolist() == [1, -1]
    with pytest.raises(
        TypeError, match=r"fill=-1 is no value of column 'name' of a\..*fill={name:"
    ):
        dv.open(path, fill=-1)
    with pytest.raises(ValueError, match=r"'agee', which is no column of a\..*did you mean 'age'"):
        dv.open(path, fill={"agee": 1})


FILES = {
    "a file": (1, lambda folder, file, **how: dv.open(file, **how)),
    "a glob": (2, lambda folder, file, **how: dv.open(f"{folder}/*{file.suffix}", **how)),
    "parts": (2, lambda folder, file, **how: dv.open(folder, layout="parts", **how)),
}


@pytest.mark.parametrize("files", FILES)
def test_what_stands_for_missing_labels_is_a_label_or_none(write, files, tmp_path):
    count, opened = FILES[files]
    several = [["a", "b", None], ["c", None, "b"]][:count]
    for number, values in enumerate(several):
        coded = pa.array(values).dictionary_encode()
        lists = pa.array([[value] for value in values], pa.list_(coded.type))
        table = pa.table({"k": coded, "n": [1, None, 3], "l": lists})
        file = write(table, tmp_path / f"p{number}")
    every = [value for values in several for value in values]
    labels = [value for value in dict.fromkeys(every) if value is not None]

    d = opened(tmp_path, file, fill=0)
    assert d._fields() == ("k", "n", "l", "l_mask") and d.k._labels()().tolist() == labels
    codes = [labels.index(value) if value in labels else -1 for value in every]
    assert d.k().tolist() == codes and d.n().tolist() == [1, 0, 3] * count
    assert [row.tolist() for row in d.l()] == [[code] for code in codes]
    assert d.k._isna()().tolist() == [value is None for value in every]
    assert pickle.loads(pickle.dumps(d.k))().tolist() == codes
    for fill in ("b", labels.index("b")):
        d = opened(tmp_path, file, fill={"k": fill, "n": 0})
        assert d._fields() == ("k", "n", "l", "l_mask")
        filled = ["b" if value is None else value for value in every]
        assert [labels[code] for code in d.k()] == filled
        assert dict(d.k._counts()()) == {label: filled.count(label) for label in labels}
    for fill, words in {9: "9 is no code", -2: "-2 is no code", "bb": "'bb' is no label"}.items():
        with pytest.raises(ValueError, match=f"fill={words} of column 'k' of .*are: 'a', 'b'"):
            opened(tmp_path, file, fill={"k": fill})


def test_labels_that_are_no_texts_stand_for_missing_ones(tmp_path):
    days = pa.array([datetime.date(2024, 1, 2), None, datetime.date(2024, 1, 1)])
    numbers = pa.array([0.5, None, 2.0])
    table = pa.table({"t": days.dictionary_encode(), "f": numbers.dictionary_encode()})
    path = WRITTEN["arrow"](table, tmp_path / "a")
    d = dv.open(path, fill={"t": datetime.date(2024, 1, 1), "f": 2.0})
    assert d.t().tolist() == d.f().tolist() == [0, 1, 1]
    for fill in (np.zeros(2), [0.5], None):
        with pytest.raises(ValueError, match="is no label of column 'f'"):
            dv.open(path, fill={"f": fill})
    bare = pa.table({"f": numbers[1:2].dictionary_encode()})
    path = WRITTEN["arrow"](bare, tmp_path / "b")
    assert dv.open(path, fill=0).f().tolist() == dv.open(path, fill={"f": -1}).f().tolist() == [-1]
    with pytest.raises(ValueError, match=r"is no label of column 'f' .* The labels are: none;"):
        dv.open(path, fill={"f": "x"})


def test_a_file_without_rows_has_its_fields(write, tmp_path):
    schema = pa.schema([("x", "f4"), ("s", "string"), ("l", pa.list_(pa.int64()))])
    table = schema.empty_table()
    d = dv.open(write(table, tmp_path / "a"))
    assert len(d) == 0 and d.x().dtype == "f4" and d.s().shape == (0,)


columns = st.one_of(
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=7, max_size=7).map(
        lambda values: pa.array(values, "i8")
    ),
    st.lists(st.none() | st.floats(), min_size=7, max_size=7).map(lambda own: pa.array(own, "f8")),
    st.lists(st.none() | st.text(max_size=3), min_size=7, max_size=7).map(
        lambda values: pa.array(values, "string")
    ),
    st.lists(st.none() | st.binary(max_size=30), min_size=7, max_size=7).map(pa.array),
    st.lists(st.none() | st.decimals(-9, 9, places=2), min_size=7, max_size=7).map(
        lambda values: pa.array(values, pa.decimal128(5, 2))
    ),
)


@examples(40)
@given(
    column=columns,
    key=st.one_of(st.integers(-7, 6), st.slices(7), st.lists(st.integers(-7, 6))),
    kind=st.sampled_from(list(WRITTEN)),
    rows=st.integers(1, 8),
)
def test_any_key_reads_what_the_file_has(column, key, kind, rows, tmp_path_factory):
    path = WRITTEN[kind](pa.table({"x": column}), tmp_path_factory.mktemp("t") / "a", rows)
    d = dv.open(path)
    key = np.array(key, int) if isinstance(key, list) else key
    whole = np.array(column.to_pylist(), object)
    present = np.array([value is not None for value in whole])
    if present.all():
        assert "x_mask" not in d._fields()
    else:
        np.testing.assert_array_equal(d.x_mask[key](), present[key])
    found = np.asarray(d.x[key]())
    np.testing.assert_array_equal(
        found[present[key]], whole[key][present[key]] if found.ndim else found
    )


# -------------------- what is read when --------------------

READING = """
import os, sys
import numpy as np
import dataview as dv

def count():
    return int(open("/proc/self/io").read().split()[1])

d = dv.open(sys.argv[1])
d.x[0](), repr(d)  # whatever pyarrow imports, it imports now
before = count()
d.y[150_000:160_000]()
print(count() - before)
"""


def test_a_slice_of_a_column_reads_its_row_groups_alone(tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table({name: rng.random(1_000_000) for name in "xyz"})
    path = parquet(table, tmp_path / "a", 100_000)
    group = pq.read_metadata(path).row_group(1).column(1)
    read = printed("-c", READING, path)
    assert group.total_compressed_size <= int(read) <= group.total_compressed_size * 1.01 + 20_000


def test_statistics_tell_that_nothing_is_missing(tmp_path):
    table = pa.table({"x": pa.array([1, 2, None, 4]), "y": pa.array([1, 2, 3, 4])})
    with pq.ParquetWriter(tmp_path / "a.parquet", table.schema) as file:
        file.write_table(table, row_group_size=2)
    assert dv.open(tmp_path / "a.parquet")._fields() == ("x", "y", "x_mask")
    pq.write_table(table, tmp_path / "b.parquet", write_statistics=False)
    d = dv.open(tmp_path / "b.parquet")
    assert d._fields() == ("x", "y", "x_mask", "y_mask") and d.y_mask().all()


def peak(call):
    tracemalloc.start()
    call()
    try:
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


TEXTS = [None if number == 700 else f"text {number}" for number in range(20_000)]
MADE_LATE = {
    "texts": pa.array(TEXTS),
    "texts of few kinds": pa.array([text and text[:6] for text in TEXTS]),
    "bytes": pa.array([text and text.encode() for text in TEXTS]),
    "decimals": pa.array([text and decimal.Decimal(text[5:]) for text in TEXTS]),
    "members": pa.StructArray.from_arrays([pa.array(TEXTS)], ["m"]),
}


@pytest.mark.parametrize("fill", [None, {}])
@pytest.mark.parametrize("name", MADE_LATE)
def test_only_the_texts_that_are_asked_for_are_made(name, fill, write, tmp_path):
    column = MADE_LATE[name]
    leaf = "x.m" if name == "members" else "x"
    expected = np.array(column.flatten()[0] if leaf == "x.m" else column, object)
    if fill is not None:
        fill, expected[700] = {leaf: "nothing"}, "nothing"
    column_of = operator.attrgetter(leaf)
    d = column_of(dv.open(write(pa.table({"x": column}), tmp_path / "a"), fill=fill))
    dv.open(write(pa.table({"x": column[:10]}), tmp_path / "b")).x()  # all imports are done now
    few = np.array([5, 19_999, 700])
    for key in (3, slice(10_000, 10_020), few, np.isin(np.arange(20_000), few)):
        found = []
        made = peak(lambda key=key, found=found: found.append(d[key]()))
        assert np.asarray(found[0] == expected[key]).all()
        assert made < 200_000, key  # of 20,000 objects that take 50 bytes each at least


def test_texts_of_lists_are_made_when_they_are_asked_for(write, tmp_path):
    offsets = pa.array(np.arange(0, 20_001, 2), "i4")
    column = pa.ListArray.from_arrays(offsets, pa.array(TEXTS))
    d = dv.open(write(pa.table({"x": column}), tmp_path / "a"))
    dv.open(write(pa.table({"x": column[:10]}), tmp_path / "b")).x()
    assert peak(lambda: d.x[9]()) < 600_000  # where lists begin is found out for all of them
    assert d.x[9]().tolist() == ["text 18", "text 19"]


def test_groups_of_texts_are_decoded_once_for_rows_in_no_order(tmp_path, monkeypatch):
    table = pa.table({"x": TEXTS})
    monkeypatch.setattr(ArrowTable, "kept_bytes", 2 * table.nbytes)  # objects would take more
    decoded = []
    own = ParquetTable.arrays
    monkeypatch.setattr(
        ParquetTable, "arrays", lambda table, *asked: [decoded.append(asked), own(table, *asked)][1]
    )
    d = dv.open(parquet(table, tmp_path / "a", 1000))
    for row in np.random.default_rng(0).integers(0, 20_000, 300).tolist():
        assert d.x[row]() == TEXTS[row]
    assert len(decoded) == 20


def test_what_is_kept_of_a_file_that_was_written_anew_is_not_shown(write, tmp_path):
    """Rows of feather are kept where they lie: in a shorter file, they would end the process."""
    path = write(pa.table({"a": np.arange(200_000), "s": ["x"] * 200_000}), tmp_path / "a")
    d = dv.open(path)
    d.a[:3](), d.s[1](), d.a[150_000]()
    write(pa.table({"a": np.arange(10), "s": ["y"] * 10}), tmp_path / "a")
    asked = [lambda: d.a[:3](), lambda: d.s[1](), lambda: d.a._sum()(), lambda: d.s[199_999]()]
    for ask in 2 * asked:
        with pytest.raises(ValueError, match="has changed since it was opened; open it again"):
            ask()


def test_a_mapped_file_hands_out_no_part_of_itself(tmp_path):
    path = WRITTEN["arrow"](pa.table({"x": np.arange(10)}), tmp_path / "a")
    found = dv.open(path).x()
    found[:] = 7
    assert dv.open(path).x().tolist() == list(range(10))


NOTED = {
    "x": pa.array([*range(100)]),
    "f": pa.array(
        [None if n % 9 == 4 else np.nan if n % 7 == 0 else n * 0.1 for n in range(100)], "f4"
    ),
    "gaps": pa.array([None if n % 13 == 0 else n + 50 for n in range(100)]),
}
CONDITIONS = [
    lambda d: d.x > 70,
    lambda d: d.x <= 12.5,
    lambda d: np.greater(7, d.x),
    lambda d: d.x == 33,
    lambda d: d.x != 33,
    lambda d: d.f >= 0.1,
    lambda d: d.f < np.float32(0.1),
    lambda d: d.gaps < 1,
    lambda d: d.gaps == 0,
    lambda d: (d.gaps > 60) & (d.x < 30),
    lambda d: (d.x > 60) & d.gaps_mask,
    lambda d: (d.x > 60) | (d.x < 5),
    lambda d: ~(d.x > 60),
    lambda d: d.x > 2**70,
    lambda d: d.x > np.nan,
    lambda d: d.x > np.arange(100)[::-1],
]


WAYS = {
    "_filter": lambda d, mask: d._filter(mask).x,
    "a key": lambda d, mask: d[mask].x,
    "a key with a name": lambda d, mask: d[mask, "x"],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("statistics", [True, False])
def test_a_filter_keeps_the_rows_that_it_keeps_in_memory(condition, statistics, way, tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(NOTED), path, row_group_size=10, write_statistics=statistics)
    d = dv.open(path)
    told = {"gaps_mask": {"mask_of": "gaps"}}
    same = dv.View(**{name: d[name]() for name in ("x", "f", "gaps", "gaps_mask")}, _meta=told)
    expected = np.flatnonzero(condition(same)())
    assert WAYS[way](d, condition(d))().tolist() == expected.tolist()
    d = dv.open(path, fill={"gaps": 77})
    if "gaps_mask" not in condition.__code__.co_names:
        expected = np.flatnonzero(condition(dv.View(x=d.x(), f=d.f(), gaps=d.gaps()))())
        assert WAYS[way](d, condition(d))().tolist() == expected.tolist()


@pytest.mark.parametrize("way", WAYS)
def test_a_filter_reads_the_groups_that_may_have_such_rows(way, tmp_path, monkeypatch):
    folder(tmp_path / "d", one=NOTED)
    pq.write_table(pa.table(NOTED), tmp_path / "d" / "one.parquet", row_group_size=10)
    read = []
    own = ParquetTable.arrays
    monkeypatch.setattr(
        ParquetTable, "arrays", lambda table, *asked: [read.append(asked[1]), own(table, *asked)][1]
    )
    for path in (tmp_path / "d" / "one.parquet", tmp_path / "d"):
        d = dv.open(path)
        read.clear()
        kept = WAYS[way](d, (d.x > 74) & (d.x <= 90))
        assert len(kept) == 16 and read == [7, 8, 9]


def test_a_filter_takes_the_memory_of_the_groups_that_it_reads(tmp_path, monkeypatch):
    count, size = 2_000_000, 20_000
    pq.write_table(pa.table({"x": range(count)}), tmp_path / "a.parquet", row_group_size=size)
    looked_at = []
    own = ParquetTable._noted_bounds

    def noted(table, name):
        looked_at.append(name)
        return own(table, name)

    monkeypatch.setattr(ParquetTable, "_noted_bounds", noted)
    d = dv.open(tmp_path / "a.parquet")
    kept = d._filter((d.x >= 7 * size) & (d.x < 7 * size + 3)).x
    tracemalloc.start()
    assert kept().tolist() == [7 * size, 7 * size + 1, 7 * size + 2]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < count // 2  # a mask of all rows takes twice as much
    assert len(looked_at) == 1


ROWS = [list(range(n % 4)) for n in range(50)]


def noted_reads(monkeypatch):
    """Return a list that gets what is read of tables of Arrow: the column, and its groups."""
    read = []
    own = ArrowTable.read
    monkeypatch.setattr(
        ArrowTable, "read", lambda table, *asked: [read.append(asked), own(table, *asked)][1]
    )
    return read


def test_lengths_of_lists_are_read_when_they_are_needed(write, tmp_path, monkeypatch):
    path = write(pa.table({"l": ROWS, "x": range(50)}), tmp_path / "a", 7)
    read = noted_reads(monkeypatch)
    d = dv.open(path)
    part = d[3:40].l[::-1]
    assert (part._shape(), part._dtype(), len(part)) == ((37, None), np.dtype("i8"), 37)
    assert path.name in repr(d) and "column 'l'" in repr(part)
    sent = pickle.dumps(part)
    assert len(sent) < 2000 and not read
    assert [row.tolist() for row in pickle.loads(sent)()] == ROWS[3:40][::-1]
    d._close()
    with pytest.raises(ValueError, match="was closed"):
        part()


@pytest.mark.parametrize(
    ("use", "groups"),
    [
        (lambda d: d.l[9](), {1}),
        (lambda d: d.l[-1](), {7}),
        (lambda d: d[9].l(), {1}),
        (lambda d: d.l[7:14](), {1}),
        (lambda d: d[7:14].l(), {1}),
        (lambda d: d[13:15].l[::-1](), {1, 2}),
        (lambda d: d.l[20:][[3, 0]](), {2, 3}),
        (lambda d: d.l[8:20]._pad(0)(), {1, 2}),
        (lambda d: d.l[8:20]._lengths()(), {1, 2}),
        (lambda d: d.l[8:20]._sum(axis=1)(), {1, 2}),
        (lambda d: (d.l[8:20] * 2)._pad(0)(), {1, 2}),
        (lambda d: pickle.loads(pickle.dumps(d.l[8:20]))(), {1, 2}),
        (lambda d: next(iter(d._minibatches(10))).l(), {0, 1}),
        (lambda d: next(iter(d._loader(10))).l(), {0, 1}),
        (lambda d: d.l[[0, 49]](), {*range(8)}),  # so far apart that all are read, once
    ],
)
def test_lists_are_read_of_the_groups_that_have_them(write, use, groups, tmp_path, monkeypatch):
    path = write(pa.table({"l": ROWS, "x": range(50)}), tmp_path / "a", 7)
    read = noted_reads(monkeypatch)
    d = dv.open(path)
    use(d)
    assert {g for _, first, stop in read for g in range(first, stop)} == groups


@pytest.mark.parametrize(
    "use",
    [
        lambda v: v[3](),
        lambda v: v[[3, 1, 3]][0](),
        lambda v: v._size(),
        lambda v: v._lengths()(),
        lambda v: v._pad(-1)(),
        lambda v: (v * 2 + 1)._pad(0)(),
        lambda v: v._sum(axis=1)(),
        lambda v: v[5:]._max(axis=None)(),
        lambda v: (v == v)._pad(False)(),
        lambda v: v._shuffled(3)._pad(0)(),
        lambda v: np.concatenate([b() for b in v._minibatches(7)])[9],
        lambda v: dv.concat([v, v])._pad(0)[60](),
        lambda v: v._freeze()._pad(0)(),
        lambda v: v._windows(2)(),
        lambda v: v._map(lambda row: len(row))._probe()(),
        lambda v: bool(v == [np.array(row) for row in ROWS]),
    ],
)
def test_lists_of_files_are_ragged_rows_like_those_in_memory(use, tmp_path):
    path = parquet(pa.table({"l": ROWS}), tmp_path / "a", 7)
    np.testing.assert_array_equal(use(dv.open(path).l), use(dv.View(ROWS)))


# -------------------- opened, closed, sent --------------------


@pytest.fixture
def path(write, tmp_path):
    table = pa.table({"x": np.arange(1000), "s": [str(n) for n in range(1000)]})
    return write(table, tmp_path / "a", 100)


def test_a_file_is_known_by_how_it_begins(tmp_path):
    for kind in ("parquet", "arrow", "packed feather"):
        path = WRITTEN[kind](pa.table({"x": [1, 2]}), tmp_path / "a").rename(tmp_path / "data")
        assert dv.open(path).x().tolist() == [1, 2]
    path = WRITTEN["stream"](pa.table({"x": [1, 2]}), tmp_path / "a").rename(tmp_path / "data")
    assert dv.open(path, format="feather").x().tolist() == [1, 2]


def test_a_file_of_columns_is_not_changed_in_place(path):
    with pytest.raises(ValueError, match=r"cannot be changed in place; .*_save; got 'r\+'"):
        dv.open(path, "r+")
    with pytest.raises(dv.ReadOnlyError, match=r"column 'x' of a\."):
        dv.open(path).x[0] = 1


def test_a_closed_file_says_so(path):
    d = dv.open(path)
    d.x[:3]()
    d._close()
    with pytest.raises(ValueError, match=r"was closed, .*open it again"):
        d.s[:3]()
    with pytest.raises(ValueError, match=r"was closed, .*open it again"):
        d.x[:3]()


def test_nothing_stays_open(path):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        dv.open(path).x[0]()
        with dv.open(path) as d:
            d.s[5]()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_that_was_replaced_is_not_read_on(path, tmp_path):
    d = dv.open(path)
    d.x[:3]()
    shutil.copy(path, tmp_path / "copy")
    os.utime(tmp_path / "copy", (1, 1))
    os.replace(tmp_path / "copy", path)
    with pytest.raises(ValueError, match="has changed since it was opened; open it again"):
        d.x[500]()


def test_a_view_is_sent_by_its_path(path, write):
    d = dv.open(path)
    sent = pickle.dumps(d[3:7].s)
    assert len(sent) < 2000
    assert pickle.loads(sent)().tolist() == list("3456")
    write(pa.table({"x": [1], "s": ["x"]}), path.parent / "a")
    with pytest.raises(ValueError, match="has changed since a view of it was pickled"):
        pickle.loads(sent)()


def test_threads_read_at_the_same_time(path):
    d = dv.open(path)

    def read(start):
        return d.x[start : start + 90 : 3]().sum(), "".join(d.s[[start, 999 - start]]())

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(read, range(0, 900, 7)))
    assert found == [
        (sum(range(start, start + 90, 3)), f"{start}{999 - start}") for start in range(0, 900, 7)
    ]


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_workers_read_batches(path, kind):
    d = dv.open(path)
    found = [
        batch.x() for batch in d._loader(64, workers=2, kind=kind, sampler="chunk-permutation")
    ]
    assert sorted(np.concatenate(found).tolist()) == list(range(1000))


# -------------------- files of strangers --------------------


def test_a_broken_file_is_named(path):
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises((ValueError, OSError), match=re.escape(str(path))):
        dv.open(path).x()


def test_a_packed_batch_is_named_whatever_number_in_the_file_is_wrong(tmp_path):
    path = tmp_path / "a.feather"
    pa.feather.write_feather(pa.table({"x": range(100), "y": range(100)}), path, compression="zstd")
    raw = path.read_bytes()
    told = []
    for place in range(8, len(raw) - 8, 8):
        path.write_bytes(raw[:place] + (1 << 24).to_bytes(8, "little") + raw[place + 8 :])
        try:
            with dv.open(path) as d:
                d.x(), d.y()
        except dv.FieldError:  # the name of a column is another
            continue
        except (ValueError, OSError) as error:
            told.append(str(error))
    assert all(str(path) in one for one in told)
    assert any("a part of a batch lies outside of it" in one for one in told)


def test_a_broken_column_is_named(tmp_path):
    path = parquet(
        pa.table({"x": np.random.default_rng(0).random(10_000), "y": range(10_000)}), tmp_path / "a"
    )
    raw = bytearray(path.read_bytes())
    raw[4:30] = b"\xff" * 26
    path.write_bytes(raw)
    d = dv.open(path)
    assert d.y[:3]().tolist() == [0, 1, 2]
    with pytest.raises(OSError, match=r"column 'x' of .*a\.parquet cannot be read"):
        d.x()


def test_a_broken_text_is_found_when_it_is_read_and_its_column_named(write, tmp_path):
    offsets = pa.py_buffer(np.array([0, 2, 4, 6], "i4"))
    texts = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"ab\xff\xffcd")])
    path = write(pa.table({"x": texts, "y": [1, 2, 3]}), tmp_path / "a")
    for key in (1, slice(1, 3), [0, 1]):
        d = dv.open(path)
        assert d.y[key]().tolist() == np.array([1, 2, 3])[key].tolist()
        with pytest.raises(ValueError, match=rf"column 'x' of {path} cannot be read"):
            d.x[key]()


BOMB = """
import resource, sys
import dataview as dv
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
d = dv.open(sys.argv[1])
print(len(d))
try:
    d.x[:3]()
except ValueError as error:
    print(error)
"""


def long_texts(folder):
    """A file of 100 KB with a text of 100 MB, ten thousand times."""
    codes = pa.DictionaryArray.from_arrays(np.zeros(10_000, "i4"), ["a" * 100_000_000])
    pq.write_table(
        pa.table({"x": codes}), folder / "a.parquet", compression="zstd", store_schema=False
    )
    return folder / "a.parquet"


def test_a_long_text_that_is_repeated_is_kept_once(tmp_path):
    path = long_texts(tmp_path)
    assert path.stat().st_size < 1_000_000
    program = BOMB.replace("d.x[:3]()", "print({len(text) for text in d.x()})")
    assert printed("-c", program, path).split("\n")[1] == "{100000000}"


def test_a_long_text_among_many_short_ones_is_kept_once(tmp_path):
    labels = [*map(str, range(10_000)), "a" * 500_000]
    codes = np.concatenate([np.arange(10_000), np.full(20_000, 10_000)])
    table = pa.table({"x": pa.DictionaryArray.from_arrays(codes, labels)})
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd", store_schema=False)
    program = BOMB.replace("d.x[:3]()", "print(len({id(text) for text in d.x()}), d.x[-1]()[-3:])")
    assert printed("-c", program, tmp_path / "a.parquet").split("\n")[1] == "10001 aaa"


@pytest.mark.parametrize("kind", ["parquet", "packed feather", "packed stream"])
def test_a_few_bytes_are_not_unpacked_to_very_many(kind, tmp_path, monkeypatch):
    for room in ("parquet", "feather", "arrow_tables"):
        monkeypatch.setattr(f"dataview.formats.tables.{room}.MOST_UNPACKED", 1 << 20)
    path = WRITTEN[kind](
        pa.table({"x": np.zeros(1 << 18), "y": np.zeros(1 << 18, "i1")}), tmp_path / "a"
    )
    d = dv.open(path)
    with pytest.raises(ValueError, match=rf"column 'x' of {path} .*bytes would be unpacked"):
        d.x[:3]()


def test_very_many_columns_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("dataview.formats.tables.arrow_tables.MOST_COLUMNS", 10)
    table = pa.table({f"x{n}": [n] for n in range(11)})
    for kind in ("parquet", "arrow"):
        path = WRITTEN[kind](table, tmp_path / "a")
        with pytest.raises(ValueError, match=rf"{path}.* has 11 columns, and up to 10 are viewed"):
            dv.open(path)


def test_two_columns_of_one_name_are_refused(write, tmp_path):
    table = pa.table([pa.array([1]), pa.array([2])], ["x", "x"])
    with pytest.raises(ValueError, match="two columns have the name 'x'"):
        dv.open(write(table, tmp_path / "a"))


def test_the_old_feather_format_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "a.feather").write_bytes(b"FEA1" + bytes(100))
    with pytest.raises(ValueError, match=r"a\.feather .*version 1 of Feather; .*write_feather"):
        dv.open(tmp_path / "a.feather")


# -------------------- saved --------------------


@pytest.fixture(params=["parquet", "feather"])
def target(request, tmp_path):
    return tmp_path / f"a.{request.param}"


def saved(**fields):
    """A view, and one of the file that it is saved in; groups have seven rows."""

    def save(target, **options):
        d = dv.View(**fields)
        d._save(target, **{"chunks": 7, **options})
        return d, dv.open(target)

    return save


COUNT = 20
SAVED = {
    "numbers": np.arange(COUNT, dtype=">i2"),
    "small floats": np.arange(COUNT, dtype="f2"),
    "booleans": np.arange(COUNT) % 3 == 0,
    "texts": np.array([f"é{n}" for n in range(COUNT)], object),
    "bytes": np.array([b"a\0", b"b\0"] * 10, "V2"),
    "days": np.arange(COUNT).astype("M8[D]"),
    "times": np.array(["NaT", 5] * 10, "M8[us]"),
    "durations": np.arange(COUNT).astype("m8[ms]"),
    "images": np.arange(COUNT * 6, dtype="u1").reshape(COUNT, 2, 3),
}


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_column_is_read_back(name, target):
    _, found = saved(x=SAVED[name])(target)
    values = found.x()
    assert values.dtype == SAVED[name].dtype.newbyteorder("=")
    np.testing.assert_array_equal(values, SAVED[name])
    assert name == "times" or found._fields() == ("x",)


def test_texts_of_a_width_become_texts_of_any(target):
    _, found = saved(x=np.array(["ab", "c"]), y=np.array(["é", "long"], "T"))(target)
    assert found.x().tolist() == ["ab", "c"] and found.y().tolist() == ["é", "long"]


def test_records_lists_masks_labels_and_metadata_are_kept(target):
    d = dv.View(
        part=dv.View(y=np.arange(COUNT), y_mask=np.arange(COUNT) % 3 > 0),
        words=[list(range(n % 4)) for n in range(COUNT)],
        deep=[[[1], [2, 3]], [[]]] * 10,
        age=np.arange(COUNT),
        age_mask=np.ones(COUNT, bool),
        at=dv.View(np.arange(COUNT).astype("M8[ms]"))._with_meta(timezone="Europe/Berlin"),
        kind=dv.View(np.arange(COUNT) % 3)._with_meta(labels=["u", "w", "v"]),
    )._with_meta(title="some")
    d._save(target, chunks=7)
    found = dv.open(target)
    assert found._meta["title"] == "some" and found.at._meta["timezone"] == "Europe/Berlin"
    own = ("part", "words", "deep", "age", "at", "kind")
    assert [name for name in found._fields() if name != "kind_mask"] == [*own, "age_mask"]
    assert found.part.y_mask().tolist() == d.part.y_mask().tolist()
    assert found.part.y()[d.part.y_mask()].tolist() == d.part.y()[d.part.y_mask()].tolist()
    assert found.age_mask().all() and found.age().tolist() == list(range(COUNT))
    assert found.kind().tolist() == d.kind().tolist()
    assert found.kind._meta["labels"] == ["u", "w", "v"]
    for name in ("words", "deep"):
        assert repr(found[name]().tolist()) == repr(d[name]().tolist())
    found._save(target.with_name(f"again{target.suffix}"))
    assert dv.open(target.with_name(f"again{target.suffix}"))._fields() == found._fields()


def test_codes_in_lists_and_times_in_rows_are_saved_as_what_they_stand_for(target):
    tags = dv.View([[0, 1], [], [1]])._with_meta(labels=["u", "v"])
    pair = dv.View(np.arange(6).reshape(3, 2))._astype("M8[ms]")._with_meta(timezone="UTC")
    dv.View(tags=tags, pair=pair)._save(target)
    read = pq.read_table if target.suffix == ".parquet" else pa.feather.read_table
    table = read(target)
    assert table["tags"].to_pylist() == [["u", "v"], [], ["v"]]
    assert table["pair"].type.value_type == pa.timestamp("ms", "UTC")
    found = dv.open(target)
    assert found.tags._labels()().tolist() == ["u", "v"]
    assert [row.tolist() for row in found.tags()] == [[0, 1], [], [1]]
    wide = dv.View(np.array([0, 1 << 32]))._with_meta(labels=["u", "v"])
    with pytest.raises(TypeError, match="'kind' cannot be a column: the data hold the code 4294"):
        dv.View(kind=wide)._save(target)


LABELS = {
    "days": np.array(["2020-01-02", "2020-01-01"], "M8[D]"),
    "times": np.array(["2020-01-02T03", "2020-01-01"], "M8[us]"),
    "durations": np.array([5, 2], "m8[ms]"),
    "integers": np.array([20, 10]),
    "numbers": np.array([0.5, 1.5]),
    "truths": np.array([True, False]),
    "hours": np.array(["2020-01-02T03", "2020-01-01"], "M8[h]"),
    "years": np.array(["2020", "2019"], "M8[Y]"),
    "lapses in days": np.array([2, 1], "m8[D]"),
    "bytes": np.array([b"b", b"a"]),
    "decimals": np.array([decimal.Decimal("1.50"), decimal.Decimal("0.1")]),
    "times of day": np.array([datetime.time(3), datetime.time(1, 2, 3, 4)]),
    "times of a zone": np.array(
        [datetime.datetime(2020, month, 1, tzinfo=ZoneInfo("Europe/Berlin")) for month in (7, 1)]
    ),
}


@pytest.mark.parametrize("suffix", ["parquet", "feather", "h5", "npz", "zarr"])
@pytest.mark.parametrize("kind", LABELS)
def test_codes_of_labels_that_are_no_texts_are_saved(tmp_path, suffix, kind):
    labels, codes = LABELS[kind], np.array([1, 0, -1, 1])
    listed = [*labels] if labels.dtype.kind in "mM" else labels.tolist()
    d = dv.View(c=dv.View(codes)._with_meta(labels=listed))
    d._save(tmp_path / f"a.{suffix}", chunks=None)
    found = dv.open(tmp_path / f"a.{suffix}")
    for number, label in enumerate(labels):
        assert (found.c == label)().tolist() == (codes == number).tolist()
    assert found.c._isna()().tolist() == (codes == -1).tolist()
    assert found.c._meta["labels"] == listed and found.c().tolist() == codes.tolist()
    assert np.array(found.c._meta["labels"]).dtype == labels.dtype
    fine = {"hours": "M8[s]", "years": "M8[D]", "lapses in days": "m8[s]"}
    labels = labels.astype(fine.get(kind, labels.dtype))
    values = [pa.array(labels)[code].as_py() if code >= 0 else None for code in codes]
    assert pa.table(found)["c"].to_pylist() == pa.table(d)["c"].to_pylist() == values


@pytest.mark.parametrize("kind", LABELS)
def test_codes_are_labels_for_others_and_codes_again_here(target, kind):
    labels = LABELS[kind]
    listed = [*labels] if labels.dtype.kind in "mM" else labels.tolist()
    codes = [[1, 0], [0, -1], [1, 1]]
    pairs = dv.View(np.array(codes))._with_meta(labels=listed)
    one = dv.View(np.array([1, 0, 1]))._with_meta(labels=listed)
    lists = dv.View([[1, 0], [], [1]])._with_meta(labels=listed)
    dv.View(part=dv.View(c=one), pairs=pairs, lists=lists)._save(target)
    read = pq.read_table if target.suffix == ".parquet" else pa.feather.read_table
    table, arrow = read(target), pa.table(dv.open(target))
    values = pa.table(dv.View(c=dv.View(np.array([0, 1]))._with_meta(labels=listed)))["c"]
    meant = [*values.to_pylist(), None]
    assert table["part"].to_pylist() == [{"c": meant[code]} for code, _ in codes]
    assert table["lists"].to_pylist() == [[meant[1], meant[0]], [], [meant[1]]]
    for name in ("pairs", "lists"):
        assert arrow[name].to_pylist() == table[name].to_pylist()
    for found in (dv.open(target), dv.View(table)):
        assert found.part.c().tolist() == [1, 0, 1] and found.pairs().tolist() == codes
        assert [row.tolist() for row in found.lists()] == [[1, 0], [], [1]]
        for column in (found.part.c, found.pairs, found.lists):
            assert column._meta["labels"] == listed


def test_codes_of_some_files_are_values_if_they_are_values_in_others(target):
    folder = target.with_name("files")
    folder.mkdir()
    one, other = (folder / f"{name}{target.suffix}" for name in "ab")
    codes = dv.View(np.array([1, -1, 0]))._with_meta(labels=[20, 10])
    dv.View(c=codes)._save(one)
    write = pq.write_table if target.suffix == ".parquet" else pa.feather.write_feather
    write(pa.table({"c": [20, 30]}), other)
    found = dv.open(folder)
    assert found.c().tolist() == [10, 0, 20, 20, 30] and "labels" not in found.c._meta
    assert found.c_mask().tolist() == [True, False, True, True, True]
    again = dv.open([one, one])
    assert again.c().tolist() == [1, -1, 0] * 2 and again.c._meta["labels"] == [20, 10]


def test_values_that_are_no_labels_of_the_metadata_are_told_with_what_to_do(target):
    dv.View(c=dv.View(np.array([1, 0]))._with_meta(labels=[10, 20]))._save(target)
    read = pq.read_table if target.suffix == ".parquet" else pa.feather.read_table
    write = pq.write_table if target.suffix == ".parquet" else pa.feather.write_feather
    field = read(target).schema.field("c")
    values = pa.array([10, 99])
    if pa.types.is_dictionary(field.type):
        values = values.dictionary_encode()
    write(pa.table([values], schema=pa.schema([field])), target)
    with pytest.raises(ValueError, match=r"labels are others .* anew without the metadata"):
        dv.open(target).c()
    write(pa.table([values], schema=pa.schema([field.remove_metadata()])), target)
    assert (dv.open(target).c == 99)().tolist() == [False, True]


@pytest.mark.parametrize("labels", [["a", "a"], ["a", 1], [1.0, np.nan], [2**70, 3], ["a", None]])
def test_codes_whose_labels_no_dictionary_has_are_saved_as_codes(target, labels):
    dv.View(c=dv.View(np.array([1, -1, 0]))._with_meta(labels=labels))._save(target)
    found = dv.open(target)
    assert found.c().tolist() == [1, -1, 0] and str(found.c._meta["labels"]) == str(labels)
    assert found.c._isna()().tolist() == [False, True, False]


def test_a_code_is_missing_where_the_mask_or_the_code_says_it(target):
    codes = dv.View(np.array([1, -1, 0, 7]))._with_meta(labels=["a", "b"])
    dv.View(c=codes, c_mask=np.array([True, True, False, False]))._save(target)
    assert pa.table(dv.open(target))["c"].to_pylist() == ["b", None, None, None]


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_codes_of_dates_are_written_as_dates(tmp_path, suffix):
    days = ["2020-01-02", "2020-01-01"]
    codes = dv.View(np.array([1, 0, -1, 1]))._with_meta(labels=[*map(np.datetime64, days)])
    dv.View(c=codes, n=np.arange(4))._save(tmp_path / f"a.{suffix}")
    found = dv.open(tmp_path / f"a.{suffix}").c._astype("M8[D]")()
    np.testing.assert_array_equal(found, np.array([days[1], days[0], "NaT", days[1]], "M8[D]"))


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("ns"), pa.duration("us")], ids=str)
def test_labels_that_are_times_are_those_of_numpy(tmp_path, kind):
    values = pa.array([3, 1, None, 3], pa.int64()).cast(pa.int32() if kind.bit_width < 64 else kind)
    table = pa.table({"c": values.cast(kind).dictionary_encode()})
    pa.feather.write_feather(table, tmp_path / "c.feather")
    dtype = values.cast(kind).to_numpy(zero_copy_only=False).dtype
    for d in (dv.View(table), dv.open(tmp_path / "c.feather"), dv.open([tmp_path / "c.feather"])):
        labels = d.c._meta["labels"]
        np.testing.assert_array_equal(labels, np.array([3, 1], "i8").view(dtype))
        d._save(tmp_path / "again.feather")
        again = pa.feather.read_table(tmp_path / "again.feather")["c"].combine_chunks()
        assert again.cast(kind).equals(table["c"].combine_chunks().cast(kind))


def table_at(path):
    """What pyarrow reads of a file of a table."""
    return (pq.read_table if path.suffix == ".parquet" else pa.feather.read_table)(path)


@pytest.mark.parametrize("chunks", [1, 2, None])
@pytest.mark.parametrize("kind", [pa.decimal128(10, 2), pa.decimal256(12, 2)], ids=str)
def test_decimals_keep_the_type_that_a_file_told(tmp_path, target, kind, chunks):
    values = [*map(decimal.Decimal, ("1.10", "99999.99")), None, decimal.Decimal("-3.50")]
    lists = [values[:1], values[1:3], None, []]
    pairs = [values[:2], values[1:3], [None, None], values[:2]]
    kinds = {"d": kind, "l": pa.list_(kind), "p": pa.list_(kind, 2), "none": kind}
    columns = [values, lists, pairs, [None] * 4]
    pq.write_table(pa.table(columns, schema=pa.schema(kinds)), tmp_path / "told.parquet")
    d = dv.open(tmp_path / "told.parquet")
    for rows in (slice(None), slice(None, None, -1), slice(0, 0)):
        part = d[rows]
        part._save(target, chunks=chunks)
        for table in (table_at(target), pa.table(part)):
            assert table["d"].to_pylist() == values[rows] and table["l"].to_pylist() == lists[rows]
            for name, at in kinds.items():
                own = table[name].type
                assert getattr(own, "value_type", own) == getattr(at, "value_type", at)
    assert dv.open(target).d._meta["decimal"] == str(kind)


@pytest.mark.parametrize("chunks", [1, 2, None])
def test_decimals_in_memory_have_a_type_that_holds_all(target, chunks):
    values = [*map(decimal.Decimal, ("1.1", "-99999.999")), None, decimal.Decimal("7" * 37)]
    columns = {"d": objects(*values), "small": objects(None, *values[1:3], values[0])}
    dv.View(**columns, l=dv.ragged([[one] for one in values]))._save(target, chunks=chunks)
    found = table_at(target)
    for name, column in columns.items():
        assert found[name].to_pylist() == column.tolist()
        assert found[name].type == pa.array(column).type  # Arrow looks at all of them
    assert found["l"].to_pylist() == [[one] for one in values]
    told = dv.View(d=columns["d"])  # a type that does not hold them is not theirs
    told.d = told.d._with_meta(decimal="decimal128(4, 1)")
    told._save(target, chunks=chunks)
    assert table_at(target)["d"].to_pylist() == pa.table(told)["d"].to_pylist() == values
    many = [decimal.Decimal("0." + "1" * 40), decimal.Decimal("1" * 40)]
    with pytest.raises(TypeError, match=r"'d' cannot be a column: .*(80 digits|range).*"):
        dv.View(d=objects(*many))._save(target, chunks=chunks)


@pytest.mark.parametrize("value", [b"a", 5, True, 0.5, decimal.Decimal("0.5")], ids=repr)
def test_objects_of_which_the_first_group_has_none_keep_their_type(target, value):
    dv.View(x=objects(None, value, None, value), y=np.arange(4))._save(target, chunks=1)
    assert table_at(target)["x"].to_pylist() == [None, value, None, value]


@pytest.mark.parametrize("chunks", [1, None])
def test_lists_of_dates_that_are_objects_are_saved(target, chunks):
    days = [datetime.date(2020, 1, day) for day in (1, 2, 3)]
    rows = [days[:2], None, [], [days[2], None]]
    d = dv.View(pa.table({"x": pa.array(rows, pa.list_(pa.date32()))}))
    arrays = objects(*(row if row is None else np.array(row, "M8[D]") for row in rows))
    copy = dv.View(x=d.x(), arrays=arrays)
    copy._save(target, chunks=chunks)
    for table in (table_at(target), pa.table(copy)):
        assert table["arrays"].to_pylist() == rows
        assert table["x"].to_pylist() == [row or [] for row in rows]  # the mask is not in the copy


@pytest.mark.parametrize("values", [(1, 2.5), (True, 2), (b"a", "b"), (2.5, True)], ids=str)
@pytest.mark.parametrize("chunks", [1, None])
def test_objects_of_several_kinds_are_refused_in_any_groups(target, values, chunks):
    for column in (objects(*values), objects(None, values[0], None, values[1])):
        with pytest.raises(TypeError, match=r"'x' cannot be a column: .* several kinds"):
            dv.View(x=column)._save(target, chunks=chunks)


def test_a_parquet_file_that_cannot_be_ended_is_closed(tmp_path):
    mixed = objects("a", "b", 3)
    with pytest.raises(TypeError, match="'x' cannot be a column"):  # nothing is told of later
        dv.View(x=mixed)._save(tmp_path / "a.parquet", chunks=1)
    gc.collect()
    assert os.listdir(tmp_path) == []


def test_groups_have_a_sensible_size(tmp_path):
    dv.View(x=np.zeros((1 << 20, 16)), y=np.arange(1 << 20))._save(tmp_path / "a.parquet")
    found = pq.read_metadata(tmp_path / "a.parquet")
    assert 2 <= found.num_row_groups <= 4 and found.row_group(0).num_rows > 400_000
    dv.View(x=np.zeros(3_000_000, "u1"))._save(tmp_path / "b.parquet")
    assert pq.read_metadata(tmp_path / "b.parquet").num_row_groups == 3
    dv.View(x=np.zeros(0))._save(tmp_path / "c.parquet")
    assert dv.open(tmp_path / "c.parquet").x().dtype == float


def test_rows_of_one_function_are_made_once_when_a_table_is_saved(tmp_path):
    calls = []

    def row(x):
        calls.append(1)
        return {"a": x, "b": -x}

    d = dv.View(np.arange(COUNT))._map(row)._probe()
    calls.clear()
    d._save(tmp_path / "a.parquet")
    assert len(calls) == COUNT
    assert dv.open(tmp_path / "a.parquet").b().tolist() == [-n for n in range(COUNT)]


def test_what_is_no_table_is_not_saved_as_one(target):
    for view in (dv.View(np.arange(3)), dv.View(x=1.0, y=2.0)):
        with pytest.raises(TypeError, match=r"columns with names.*dv\.View\(x=view\)\._save"):
            view._save(target)
    with pytest.raises(
        TypeError, match=r"field 'z' is of dtype complex128, and an? .* cannot hold"
    ):
        dv.View(z=np.zeros(3, complex))._save(target)
    with pytest.raises(TypeError, match="field 'x' cannot be a column"):
        dv.View(x=np.array(["a", b"b"], object))._save(target)
    with pytest.raises(TypeError, match="differ along several axes"):
        dv.View(x=[np.ones((1, 2)), np.ones((2, 1))])._save(target)
    with pytest.warns(RuntimeWarning, match="the fields of 'x' are not saved"):
        dv.View(x=dv.View(np.zeros((3, 4)), left=np.s_[:2]))._save(target)
    with pytest.raises(ValueError, match=r"compression= .* is one of 'none'"):
        dv.View(x=[1])._save(target, compression="blosc")


def test_a_packed_table_is_read_back(target):
    _, found = saved(x=np.arange(COUNT))(target, compression="zstd")
    assert found.x[::3]().tolist() == list(range(0, COUNT, 3))


# -------------------- folders --------------------


def folder(place, **tables):
    """A folder with files of tables, by their places."""
    for name, table in tables.items():
        path = place / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(table), path)
    return place


def test_a_folder_is_the_rows_of_its_files_and_paths_are_columns(tmp_path):
    folder(
        tmp_path / "d",
        **{
            "year=2020/kind=a/one": {"x": [1, 2], "s": ["u", None]},
            "year=2021/kind=b/one": {"s": ["w"], "x": [3]},
            "year=2021/kind=__HIVE_DEFAULT_PARTITION__/one": {"x": [4], "s": ["z"]},
        },
    )
    d = dv.open(tmp_path / "d")
    assert d._fields() == ("x", "s", "year", "kind", "s_mask", "kind_mask")
    rows = sorted(zip(d.x(), d.s(), d.year(), d.kind(), d.kind_mask(), strict=True))
    assert rows == [
        (1, "u", 2020, "a", True),
        (2, None, 2020, "a", True),
        (3, "w", 2021, "b", True),
        (4, "z", 2021, None, False),
    ]
    assert d.year[-1]() == 2021 and d[[0, 3]].x()[0] == 1
    sent = pickle.dumps(d.x[1:3])
    assert len(sent) < 2000 and pickle.loads(sent)().tolist() == d.x[1:3]().tolist()
    d._close()
    with pytest.raises(ValueError, match="was closed"):
        d.x[:1]()


def test_few_of_many_files_stay_open(tmp_path, monkeypatch):
    monkeypatch.setattr("dataview.formats.tables.parquet.MOST_OPEN", 2)
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet")
    places = [shutil.copy(tmp_path / "a.parquet", tmp_path / f"{n}.parquet") for n in range(5)]
    views = [dv.open(place) for place in places]

    def are_open():
        found = [*open_files().values()]
        return [n for n, place in enumerate(places) if str(place) in found]

    assert are_open() == [3, 4]
    assert [view.x().tolist() for view in views] == [[1, 2]] * 5
    assert views[3].x[0]() == 1 and are_open() == [3, 4]
    for view in views:
        view._close()
    assert are_open() == []


def test_pyarrow_and_other_writers_folders_are_read(tmp_path):
    import pyarrow.dataset as ds

    table = pa.table({"x": np.arange(10), "k": ["a b", "c"] * 5})
    ds.write_dataset(
        table,
        tmp_path / "d",
        format="parquet",
        partitioning=ds.partitioning(pa.schema([("k", pa.string())]), flavor="hive"),
    )
    d = dv.open(tmp_path / "d")
    assert sorted(zip(d.x().tolist(), d.k(), strict=True)) == list(
        zip(range(10), ["a b", "c"] * 5, strict=True)
    )


@pytest.mark.parametrize("suffix", ["parquet", "csv.gz", "jsonl"])
def test_folders_that_are_named_by_values_alone_are_columns_by_their_keys(suffix, tmp_path):
    folder = tmp_path / "d"
    for number, place in enumerate(["2020/a b", "2021/c", "2021/_hidden", "2022"]):
        (folder / place).mkdir(parents=True, exist_ok=True)
        dv.View(x=np.arange(2) + 10 * number)._save(folder / place / f"one.{suffix}")
    d = dv.open(folder, keys=["year", "kind"])
    assert d._fields() == ("x", "year", "kind", "kind_mask")
    found = [*zip(d.x().tolist(), d.year().tolist(), d.kind(), strict=True)]
    assert found == [
        *((x, 2020, "a b") for x in (0, 1)),
        *((x, 2021, "c") for x in (10, 11)),
        *((x, 2022, None) for x in (30, 31)),
    ]
    assert pickle.loads(pickle.dumps(d)).year().tolist() == d.year().tolist()
    assert dv.open(folder, keys="year")._fields() == ("x", "year")
    with pytest.raises(ValueError, match=rf"'2020/a b/one\.{suffix}': keys= names the columns"):
        dv.open(folder)
    with pytest.raises(ValueError, match="no folder stands for 'month' of keys="):
        dv.open(folder, keys=["year", "kind", "month"])
    for wrong in (["year", "year"], [1], [""]):
        with pytest.raises(ValueError, match=r"keys= are the names of the columns"):
            dv.open(folder, keys=wrong)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="it is empty"):
        dv.open(tmp_path / "empty", keys=["year"])


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_files_in_a_list_or_of_a_pattern_are_one_table(suffix, tmp_path):
    places = []
    for number in (3, 1, 2):
        places.append(tmp_path / f"part-{number}.{suffix}")
        dv.View(x=np.arange(4) + 10 * number, name=["a", "b", "c", f"d{number}"])._save(places[-1])
    d = dv.open(places)
    assert d.x().tolist() == [30, 31, 32, 33, 10, 11, 12, 13, 20, 21, 22, 23]
    assert dv.open(f"{tmp_path}/part-*.{suffix}").x[::4]().tolist() == [10, 20, 30]
    again = pickle.loads(pickle.dumps(d))
    assert again.name[3::4]().tolist() == ["d3", "d1", "d2"]
    assert [len(batch.x) for batch in d._loader(5, workers=1)] == [5, 5, 2]
    dv.View(x=[1])._save(tmp_path / f"other.{suffix}")
    with pytest.raises(
        ValueError, match=rf"has a column 'name', and other\.{suffix} has none; schema="
    ):
        dv.open([*places, tmp_path / f"other.{suffix}"])
    union = dv.open([*places, tmp_path / f"other.{suffix}"], schema="union")
    assert (len(union), union.x[-1](), union.name_mask[-1]()) == (13, 1, False)
    with pytest.raises(ValueError, match="open with mode 'r'"):
        dv.open(places, "r+")


@pytest.mark.parametrize("schema", ["same", "union"])
def test_a_column_without_a_value_is_what_it_is_in_other_files(tmp_path, schema):
    nothing = dict.fromkeys(["i", "text", "list", "inner"], pa.nulls(2))
    full = {"i": [1], "text": ["u"], "list": [[1, 2]], "inner": [[5, None]]}
    nothing["inner"] = pa.array([[], None], pa.list_(pa.null()))
    for names in (("a", "b"), ("b", "a")):
        tables = dict(zip(names, (nothing, full), strict=True))
        d = dv.open(folder(tmp_path / names[0], **tables), schema=schema)
        empty = slice(0, 2) if names[0] == "a" else slice(1, 3)
        assert d.i._dtype() == np.int64 and d.i._sum()() == 1
        assert d.i_mask[empty]().tolist() == [False, False] and d.i_mask._sum()() == 1
        assert d.text[empty]().tolist() == [None, None]
        assert [row.tolist() for row in d.list[empty]()] == [[], []]
        assert d.list._mean()() == 1.5 and d.inner._mean()() == 5
        assert d.list_mask[empty]().tolist() == [False, False]
        assert d.inner_mask[empty]().tolist() == [True, False]


def test_files_that_differ_are_refused_with_file_and_field(tmp_path):
    place = folder(tmp_path / "a", one={"x": [1], "y": [1]}, two={"x": [1.5], "y": [1]})
    with pytest.raises(
        ValueError,
        match=r"column 'x' is float64 in two\.parquet, and int64 in one.*schema='union'",
    ):
        dv.open(place)
    place = folder(tmp_path / "b", one={"x": [1], "y": [1]}, two={"x": [2]})
    with pytest.raises(
        ValueError, match=r"one\.parquet has a column 'y', and two\.parquet has none; schema="
    ):
        dv.open(place)
    place = folder(tmp_path / "c", one={"x": [1]}, two={"x": [2], "y": [2]})
    with pytest.raises(
        ValueError, match=r"two\.parquet has a column 'y', and one\.parquet has none; schema="
    ):
        dv.open(place)
    with pytest.raises(ValueError, match="schema= is one of 'same', 'union'"):
        dv.open(place, schema="all")


def test_files_that_differ_are_unified_if_asked_for(tmp_path):
    place = folder(
        tmp_path / "a",
        one={"x": [1, None], "y": [[1], [2]], "k": pa.array(["u", "v"]).dictionary_encode()},
        two={"z": ["t"], "x": [1.5], "k": pa.array(["w"]).dictionary_encode()},
    )
    d = dv.open(place, schema="union")
    assert d._fields() == ("x", "y", "k", "z", "x_mask", "y_mask", "z_mask")
    np.testing.assert_array_equal(d.x(), [1, np.nan, 1.5])
    assert d.x_mask().tolist() == [True, False, True]
    assert [row.tolist() for row in d.y()] == [[1], [2], []]
    assert d.y_mask().tolist() == [True, True, False]
    assert d.z().tolist() == [None, None, "t"] and d.z_mask().tolist() == [False, False, True]
    assert [d.k._meta["labels"][code] for code in d.k()] == ["u", "v", "w"]
    place = folder(tmp_path / "b", one={"x": [1]}, two={"x": ["t"]})
    with pytest.raises(ValueError, match=r"'x' is string in two\.parquet, .*one by one"):
        dv.open(place, schema="union")
    zones = {
        name: pa.array([0], pa.timestamp("s", zone)) for name, zone in (("a", "UTC"), ("b", "CET"))
    }
    place = folder(tmp_path / "c", **{name: {"x": zone} for name, zone in zones.items()})
    with pytest.raises(ValueError, match=r"datetime64\[ms\] in CET in b\.parquet, and .* in UTC"):
        dv.open(place, schema="union")
    members = pa.array([{"y": 1}])
    place = folder(tmp_path / "d", one={"x": members}, two={"x": [1]})
    for schema in ("union", "same"):
        with pytest.raises(ValueError, match=r"'x' has members in one\.parquet, and none in two"):
            dv.open(place, schema=schema)


@pytest.mark.parametrize("schema", ["same", "union"])
@pytest.mark.parametrize("lists", [False, True])
def test_times_of_day_and_durations_are_not_one_column(tmp_path, schema, lists):
    times, passed = [datetime.time(1)], [datetime.timedelta(hours=30)]
    own = {"a": [times], "b": [passed]} if lists else {"a": times, "b": passed}
    place = folder(tmp_path / "a", **{name: {"x": values} for name, values in own.items()})
    with pytest.raises(ValueError, match=r"'x' is .*\[us\] in b\.pa.*\[us\] times of day in a\.pa"):
        dv.open(place, schema=schema)
    both = dv.open(folder(tmp_path / "b", a={"x": times}, b={"x": [datetime.time(2)]}))
    assert pa.table(both)["x"].to_pylist() == [datetime.time(1), datetime.time(2)]
    one, other = (dv.View(pa.table({"x": values})) for values in (times, passed))
    for joined in (dv.concat([one, other]), dv.concat([other, one])):
        assert set(pa.table(joined)["x"].to_pylist()) == {datetime.timedelta(hours=1), *passed}


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_texts_that_are_codes_in_some_files_are_texts(tmp_path, suffix):
    texts = ["a", None, "a", None]
    codes = pa.array(texts).dictionary_encode()
    if suffix == "feather":  # whose labels may lack one
        codes = pa.DictionaryArray.from_arrays([0, 1, 0, None], pa.array(["a", None]))
    lists = pa.ListArray.from_arrays([0, 2, 2, 3, 3], pa.array(["u", "v", "u"]).dictionary_encode())
    parts = {
        "0": {"t": codes, "r": lists, "k": pa.array([*"wxyz"]).dictionary_encode()},
        "1": {"t": ["b", None], "r": [["w"], []], "k": pa.array(["x", "w"]).dictionary_encode()},
        "2": {
            "t": pa.array(["b"]).dictionary_encode(),
            "r": [["w"]],
            "k": pa.nulls(1),
        },
    }
    write = {"parquet": pq.write_table, "feather": pa.feather.write_feather}[suffix]
    for name, columns in parts.items():
        write(pa.table(columns), tmp_path / f"{name}.{suffix}")
    d = dv.open(tmp_path)
    texts += ["b", None, "b"]
    assert d.t().tolist() == texts and "labels" not in d.t._meta
    assert d.t_mask().tolist() == [text is not None for text in texts]
    assert [row.tolist() for row in d.r()] == [["u", "v"], [], ["u"], [], ["w"], [], ["w"]]
    labels = [*d.k._meta["labels"], None]
    assert [labels[code] for code in d.k()] == [*"wxyzxw", None]
    assert pickle.loads(pickle.dumps(d)).t[[6, 0]]().tolist() == ["b", "a"]
    assert d.t[1:5]().tolist() == texts[1:5]


def test_labels_that_are_missing_in_a_folder_have_their_mask(tmp_path):
    codes = pa.DictionaryArray.from_arrays([0, 1, 0], pa.array(["a", None]))
    path = WRITTEN["arrow"](pa.table({"x": codes}), tmp_path / "one")
    alone = dv.open(path)
    (tmp_path / "d").mkdir()
    shutil.copy(path, tmp_path / "d")
    together = dv.open(tmp_path / "d")
    assert alone._fields() == together._fields() == ("x", "x_mask")
    assert together.x_mask().tolist() == [True, False, True]


def test_a_broken_file_of_a_folder_is_named(tmp_path):
    place = folder(tmp_path / "a", one={"x": [1]}, two={"x": [2]})
    (place / "two.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises((ValueError, OSError), match=r"two\.parquet"):
        dv.open(place)


def test_few_files_of_a_folder_are_open_at_a_time(tmp_path):
    place = folder(tmp_path / "a", **{f"f{n}": {"x": [n]} for n in range(30)})
    before = len(os.listdir("/proc/self/fd"))
    d = dv.open(place)
    assert sorted(d.x().tolist()) == list(range(30))
    assert len(os.listdir("/proc/self/fd")) <= before + 1


# -------------------- gaps go with their column --------------------

PEOPLE = "name,age,city\nAnn,31,Rome\nBen,NA,\n,41,Rome\nDi,20,Bonn\n"


def people(tmp_path):
    (tmp_path / "age.csv").write_text(PEOPLE)
    return dv.open(tmp_path / "age.csv")


def text_of(view, tmp_path):
    view._save(tmp_path / "saved.csv")
    return (tmp_path / "saved.csv").read_text()


SOME = {
    "select": lambda d: d._select("name", "age"),
    "names": lambda d: d["name", "age"],
    "a list": lambda d: d[["name", "age"]],
    "rows first": lambda d: d[:]["name", "age"],
    "with its mask": lambda d: d["name", "age", "age_mask"],
    "drop": lambda d: d._drop("city"),
    "drop twice": lambda d: d._drop("city_mask")._drop("city"),
    "all rows": lambda d: d[[0, 1, 2, 3]]._drop("city"),
    "twice turned": lambda d: d[::-1]._select("name", "age")[::-1],
}


@pytest.mark.parametrize("spelling", SOME)
def test_some_columns_keep_their_gaps(spelling, tmp_path):
    found = SOME[spelling](people(tmp_path))
    assert {*found._fields()} == {"name", "age", "name_mask", "age_mask"}
    assert text_of(found, tmp_path) == "name,age\nAnn,31\nBen,\n,41\nDi,20\n"


def test_gaps_follow_those_that_were_asked_for(tmp_path):
    d = people(tmp_path)
    assert d["age", "name"]._fields() == ("age", "name", "age_mask", "name_mask")
    assert d["age_mask", "age"]._fields() == ("age_mask", "age")
    assert d["age_mask", "city_mask"]._fields() == ("age_mask", "city_mask")
    assert d[1:3, ["age"]].age_mask().tolist() == [False, True]
    assert d._select("age")._drop("age_mask")._fields() == ("age",)
    assert text_of(d["age_mask",], tmp_path) == "age_mask\ntrue\nfalse\ntrue\ntrue\n"


def test_gaps_take_the_new_name_of_their_column(tmp_path):
    d = people(tmp_path)
    found = d._rename(age="years")
    assert found._fields() == ("name", "years", "city", "name_mask", "years_mask", "city_mask")
    assert text_of(found, tmp_path) == PEOPLE.replace("age", "years").replace("NA", "")
    swapped = d._rename(age="name", name="age")
    assert text_of(swapped, tmp_path).splitlines()[:2] == ["age,name,city", "Ann,31,Rome"]
    assert text_of(d._rename(age_mask="known", age="years")["years",], tmp_path).split() == [
        "years", "31", "NA", "41", "20",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="one name"):
        d._rename(age="name_mask")
    assert d._rename(age="years", name="years_mask")._fields() == (
        "years_mask", "years", "city", "years_mask_mask", "years_mask_2", "city_mask",
    )  # fmt: skip


def test_gaps_go_when_other_data_take_the_place_of_a_column(tmp_path):
    d = people(tmp_path)
    d.age = dv.View([1, 2, 3, 4])
    assert "age_mask" not in d._fields()
    with pytest.raises(AttributeError, match="other data"):
        d.age_mask  # noqa: B018
    assert text_of(d["age",], tmp_path) == "age\n1\n2\n3\n4\n"
    d = people(tmp_path)
    d.age = np.where(d.age_mask, d.age, 5)
    assert text_of(d["age",], tmp_path) == "age\n31\n5\n41\n20\n"


def test_what_is_computed_of_numbers_with_gaps_keeps_these(tmp_path):
    d = people(tmp_path)
    d.age = d.age * 2
    assert text_of(d["age",], tmp_path).split() == ["age", "62", "NA", "82", "40"]
    d.age = d.age._astype("i2")
    assert text_of(d["age",], tmp_path).split() == ["age", "62", "NA", "82", "40"]
    d.age_mask = dv.View([True, True, False, False])
    assert text_of(d["age",], tmp_path).split() == ["age", "62", "0", "NA", "NA"]
    floats = people(tmp_path)
    floats.age = floats.age / 2
    assert text_of(floats["age",], tmp_path).split() == ["age", "15.5", "NA", "20.5", "10.0"]


def test_floats_say_themselves_what_is_missing(tmp_path):
    pq.write_table(pa.table({"x": [1.5, None]}), tmp_path / "a.parquet")
    d = dv.open(tmp_path / "a.parquet")
    d.x = d.x._fillna(0)
    assert d._fields() == ("x",)
    d._save(tmp_path / "b.parquet")
    assert pq.read_table(tmp_path / "b.parquet").to_pydict() == {"x": [1.5, 0]}


def test_a_column_that_is_called_like_a_mask_is_none(tmp_path):
    (tmp_path / "age.csv").write_text("x,x_mask,y\n1,false,\n,true,4\n")
    d = dv.open(tmp_path / "age.csv")
    assert d["x",]._fields() == ("x", "x_mask_2") and d["y",]._fields() == ("y", "y_mask")
    assert "x_mask" in d._drop("x")._fields()
    assert text_of(d, tmp_path) == "x,x_mask,y\n1,false,\n,true,4\n"
    own = dv.View(x=[1, 2], x_mask=[True, False])
    assert own["x",]._fields() == ("x",) and own._rename(x="z")._fields() == ("z", "x_mask")
    assert own._drop("x")._fields() == ("x_mask",)
    said = dv.View(x=[1, 2], x_mask=[True, False], _meta={"x_mask": {"mask_of": "x"}})
    assert said["x",]._fields() == ("x", "x_mask")


NULLS = {
    "number": pa.array([1, None, 3]),
    "truth": pa.array([True, None, False]),
    "half": pa.array([1.5, None, np.nan]),
    "text": pa.array(["a", None, ""]),
    "when": pa.array([1, None, 3], pa.timestamp("s")),
    "code": pa.array(["a", None, "b"]).dictionary_encode(),
    "pair": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)),
    "some": pa.array([[1, 2], None, []], pa.large_list(pa.int64())),
    "member": pa.array([{"x": 1}, {"x": None}, {"x": 3}]),
}


@pytest.mark.parametrize("rows", [slice(None), slice(0, 1), slice(3, 3), [2, 1]])
def test_gaps_are_nulls_for_arrow_again(rows, write, tmp_path):
    table = pa.table(NULLS)
    d = dv.open(write(table, tmp_path / "a"))
    for view in (d, dv.View(table)):
        found = pa.table(view[rows])
        assert found.column_names == table.column_names
        numbers = np.arange(3)[rows]
        assert repr(found.to_pylist()) == repr(table.take(pa.array(numbers)).to_pylist())
        again = dv.View(found)
        for name in set(view._fields()) & set(again._fields()) - {"member", "some"}:
            np.testing.assert_array_equal(view[rows, name](), again[name]())
    assert pa.array(d._select("number", "text")).to_pylist()[1] == {"number": None, "text": None}
    alone = pa.table(d._rename(number="n")._drop("n"))
    assert "number_mask" not in alone.column_names and "n_mask" not in alone.column_names
    plain = pa.table(dv.View(x=[1], x_mask=[True]))  # no file says that it is a mask
    assert plain.column_names == ["x", "x_mask"]


def test_description_counts_what_is_missing_at_its_column(write, tmp_path):
    found = dv.open(write(pa.table(NULLS), tmp_path / "a"))._describe()
    assert not [name for name in found if "mask" in name]
    for name in ("number", "truth", "text", "when", "code", "member.x", "some_length"):
        assert found[name]["missing"] == 1, name
    assert found["half"]["missing"] == 2 and found["pair"]["missing"] == 2
    assert found["number"]["mean"] == 2 and found["some_length"]["mean"] == 1


@pytest.mark.parametrize("suffix", [".h5", ".zarr"])
def test_files_of_arrays_keep_what_a_mask_is_of(suffix, tmp_path):
    people(tmp_path)["age",]._save(tmp_path / f"a{suffix}")
    assert text_of(dv.open(tmp_path / f"a{suffix}")["age",], tmp_path).split()[2] == "NA"


def test_hdf5_has_no_empty_text_for_a_gap_of_which_no_mask_tells(tmp_path):
    (tmp_path / "age.csv").write_text("s,s_mask\na,true\nNA,true\n")
    d = dv.open(tmp_path / "age.csv")
    d._rename(s_mask_2="known")._save(tmp_path / "a.h5")
    assert dv.open(tmp_path / "a.h5").known().tolist() == [True, False]
    with pytest.raises(TypeError, match="'s' has None"):
        d._drop("s_mask_2")._save(tmp_path / "b.h5")
    own = dv.View(s=np.array(["a", None], object), s_mask=[True, False])
    dv.View(inner=own)._save(tmp_path / "c.h5")
    assert dv.open(tmp_path / "c.h5").inner.s().tolist() == ["a", ""]
    own[1]._save(tmp_path / "d.h5")
    assert dv.open(tmp_path / "d.h5").s() == ""
    dv.ragged(own, lengths=[2, 0])._save(tmp_path / "e.h5")
    assert dv.open(tmp_path / "e.h5")[0].s().tolist() == ["a", ""]


GAPS = {
    "n": st.none() | st.integers(-9, 9),
    "t": st.none() | st.sampled_from("uvw"),
    "b": st.none() | st.booleans(),
    "n_mask": st.booleans(),
}


def cells(path):
    """The columns of a file as lists of texts, with None where nothing is."""
    if path.suffix == ".parquet":
        columns = pq.read_table(path).to_pydict()
        return {
            name: [None if v is None else str(v).lower() for v in column]
            for name, column in columns.items()
        }
    names, *rows = (line.split(",") for line in path.read_text().splitlines())
    columns = zip(*rows, strict=True)
    return {
        name: [None if cell in ("", "NA") else cell for cell in column]
        for name, column in zip(names, columns, strict=True)
    }


@given(
    rows=st.lists(st.tuples(*GAPS.values()), min_size=1, max_size=6),
    suffix=st.sampled_from([".csv", ".parquet"]),
    data=st.data(),
)
def test_gaps_are_the_same_after_any_choice(rows, suffix, data, tmp_path_factory):
    first, last = (tmp_path_factory.mktemp("gaps") / f"a{suffix}" for _ in range(2))
    kinds = [pa.int64(), pa.string(), pa.bool_(), pa.bool_()]
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows), kinds)]  # noqa: B905
    table = pa.table(columns, [*GAPS])
    if suffix == ".csv":
        lines = [",".join("NA" if v is None else str(v).lower() for v in row) for row in rows]
        first.write_text("\n".join([",".join(GAPS), *lines, ""]))
    else:
        pq.write_table(table, first)
    expected, d = cells(first), dv.open(first, **({"header": 0} if suffix == ".csv" else {}))
    for step in data.draw(st.lists(st.sampled_from(["some", "rename", "drop", "rows"]))):
        names, count = [*expected], len(expected[next(iter(expected))])
        if step == "some":
            some = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
            expected, d = {name: expected[name] for name in some}, d[some]
        elif step == "rename" and not {*names} >= {"n", "x", "y"}:
            old = data.draw(st.sampled_from(names))
            new = data.draw(st.sampled_from(sorted({"n", "x", "y"} - {*names})))
            expected = {new if n == old else n: column for n, column in expected.items()}
            d = d._rename({old: new})
        elif step == "drop" and len(names) > 1:
            gone = data.draw(st.sampled_from(names))
            expected, d = {n: column for n, column in expected.items() if n != gone}, d._drop(gone)
        elif step == "rows":
            places = data.draw(st.lists(st.integers(0, count - 1), min_size=1))
            expected = {n: [column[at] for at in places] for n, column in expected.items()}
            d = d[places]
    d._save(last)
    assert cells(last) == expected


# -------------------- by libraries of the extra `clients` --------------------


def by_pandas(path):
    import pandas as pd

    frame = pd.DataFrame({"x": [1, 2, 3], "s": ["a", None, "c"], "k": pd.Categorical(list("uvu"))})
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_feather(path)


def by_polars(path):
    import polars as pl

    kinds = pl.Series(list("uvu"), dtype=pl.Categorical)
    frame = pl.DataFrame({"x": [1, 2, 3], "s": ["a", None, "c"], "k": kinds})
    frame.write_parquet(path) if path.suffix == ".parquet" else frame.write_ipc(path)


@pytest.mark.clients
@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
@pytest.mark.parametrize("write", [by_pandas, by_polars])
def test_tables_of_other_libraries_are_read(write, suffix, tmp_path):
    write(tmp_path / f"a{suffix}")
    d = dv.open(tmp_path / f"a{suffix}")
    assert d.x().tolist() == [1, 2, 3] and d.s().tolist() == ["a", None, "c"]
    assert d.s_mask().tolist() == [True, False, True]
    assert [d.k._meta["labels"][code] for code in d.k()] == list("uvu")


# -------------------- found by readers --------------------


def test_a_file_written_again_at_once_is_not_mixed_with_what_was_read(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1, 2], "b": [1, 2]}), path)
    d = dv.open(path)
    assert d.a().tolist() == [1, 2]
    pq.write_table(pa.table({"a": [100, 200], "b": [8, 9]}), path)
    os.utime(path, ns=(0, 10**18))
    for ask in (lambda: d.b(), lambda: d(), lambda: pickle.loads(pickle.dumps(d))):
        with pytest.raises(ValueError, match="has changed since"):
            ask()


def test_a_list_that_is_missing_has_its_mask_whatever_stands_for_values(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [[1], None, [2, 3]], "b": [1, None, 2]}), path)
    d = dv.open(path, fill=7)
    assert (d._fields(), d.b().tolist()) == (("a", "b", "a_mask"), [1, 7, 2])
    assert [row.tolist() for row in d.a()] == [[1], [], [2, 3]]
    assert d.a_mask().tolist() == [True, False, True]


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_an_axis_of_length_0_has_no_place_in_a_table(suffix, tmp_path):
    d = dv.View(x=np.zeros((2, 0)), y=np.arange(2))
    with pytest.raises(TypeError, match=r"field 'x' .*axis of length 0"):
        d._save(tmp_path / f"a.{suffix}")
    assert list(tmp_path.iterdir()) == []


def test_a_page_about_tables_does_not_hide_them(tmp_path):
    dv.View(x=[1, 2])._save(tmp_path / "a.parquet")
    (tmp_path / "README.md").write_text("about")
    (tmp_path / "notes.txt").write_text("more")
    assert dv.open(tmp_path).x().tolist() == [1, 2]


def test_a_column_without_a_name_is_not_readable(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"": [1, 2], "b": [3, 4]}), path)
    d = dv.open(path)
    assert (d._fields(), d.b().tolist()) == (("b",), [3, 4])
    assert "has no name" in repr(d)


def test_a_folder_of_tables_names_the_other_data_in_it(tmp_path):
    pq.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "t.parquet")
    np.save(tmp_path / "x.npy", np.arange(3))
    (tmp_path / "s.csv").write_text("p,q\n1,2\n")
    (tmp_path / "README.md").write_text("about it")
    (tmp_path / "_metadata.csv").write_text("of a tool")
    d = dv.open(tmp_path)
    assert d._fields() == ("a",)
    assert d.a().tolist() == [1, 2, 3]
    text = repr(d)
    for name in ("s.csv", "x.npy"):
        assert f"{name}  ?            not readable: is a file of its own" in text
    assert "README" not in text
    assert "_metadata" not in text
    with pytest.raises(dv.FieldError, match="is a file of its own"):
        d["x.npy"]
    with pytest.raises(ValueError, match=r"a copy would lack it.*_drop\('s.csv', 'x.npy'\)"):
        d._save(tmp_path / "copy.h5")


ROWS_OF_TWO = {
    "numbers": pa.array([[1, 2], [None, 3], None, [4, 5]], pa.list_(pa.int64(), 2)),
    "truths": pa.array([[True, None], [False, True], None, [True, True]], pa.list_(pa.bool_(), 2)),
    "codes": pa.FixedSizeListArray.from_arrays(
        pa.array(["a", "b", None, "a", None, None, "b", "b"]).dictionary_encode(),
        2,
        mask=pa.array([False, False, True, False]),
    ),
    "squares": pa.array(
        [[[1, 2], [3, 4]], [[None, 2], [3, 4]], None, [[1, 1], [1, 1]]],
        pa.list_(pa.list_(pa.int16(), 2), 2),
    ),
    "lists": pa.array([[[1, 2], [None, 3]], [], None, [[5, 6]]], pa.list_(pa.list_(pa.int8(), 2))),
    "whole": pa.array([[1, 2], [0, 3], None, [4, 5]], pa.list_(pa.int64(), 2)),
}


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_rows_of_one_length_keep_what_is_beside_a_missing_element(suffix, tmp_path):
    table, write = pa.table(ROWS_OF_TWO), WRITTEN["parquet" if suffix == ".parquet" else "arrow"]
    wanted = table.to_pydict()
    for number, view in enumerate((dv.View(table), dv.open(write(table, tmp_path / "a", 2)))):
        np.testing.assert_array_equal(view.numbers(), [[1, 2], [0, 3], [0, 0], [4, 5]])
        assert view.numbers_mask().tolist() == [[True] * 2, [False, True], [False] * 2, [True] * 2]
        assert view.numbers._sum()() == 15 and view.squares_mask._shape() == (4, 2, 2)
        assert view.whole_mask().tolist() == [True, True, False, True]
        path = tmp_path / f"{number}{suffix}"
        view._save(path)
        again = dv.open(path)
        for found in (pickle.loads(pickle.dumps(again)), again):
            assert found.numbers._sum()() == 15 and found.numbers[1]._isna()().tolist() == [1, 0]
        read = pq.read_table if suffix == ".parquet" else pa.feather.read_table
        assert read(path).to_pydict() == wanted
        assert pa.table(again)["numbers"].to_pylist()[:2] == wanted["numbers"][:2]
        view._drop("codes")._save(tmp_path / f"{number}.jsonl")
        lines = (tmp_path / f"{number}.jsonl").read_text().splitlines()
        assert [json.loads(line)["numbers"] for line in lines] == wanted["numbers"]


def test_a_table_without_rows_has_no_masks_that_it_had_not(tmp_path):
    d = dv.View(i=np.arange(0), text=np.array([], "U3"), day=np.array([], "M8[D]"))
    for suffix in (".parquet", ".feather"):
        d._save(tmp_path / f"a{suffix}")
        assert dv.open(tmp_path / f"a{suffix}")._fields() == d._fields()


def test_labels_that_are_no_utf8_name_their_column_and_file(tmp_path, monkeypatch):
    path = tmp_path / "broken.parquet"
    column = pa.DictionaryArray.from_arrays([0, 0], ["u"])
    pq.write_table(pa.table({"kind": column}), path)
    ends = pa.array([0, 1], pa.int32()).buffers()[1]
    broken = pa.StringArray.from_buffers(1, ends, pa.py_buffer(b"\x80"))
    monkeypatch.setattr(arrow_tables, "labels_in", lambda found: broken)  # Arrow checks not all
    with pytest.raises(ValueError, match=r"'kind' of .*broken\.parquet cannot be read"):
        dv.open(path)


@pytest.mark.parametrize(
    ("features", "labels"),
    [
        ({"y": {"names": ["a", "b"], "_type": "ClassLabel"}}, ["a", "b"]),
        ({"y": {"names": ["a", 2], "_type": "ClassLabel"}}, None),
        ({"y": {"names": "ab", "_type": "ClassLabel"}}, None),
        ({"y": {"dtype": "int64", "_type": "Value"}}, None),
        ([{"y": [{"_type": "ClassLabel"}]}], None),
        ("y", None),
    ],
)
def test_names_of_classes_that_a_schema_notes_are_labels(features, labels, tmp_path):
    """As Hugging Face's datasets note them; what is noted otherwise is no label, and no error."""
    notes = {"huggingface": json.dumps({"info": {"features": features}})}
    table = pa.table({"y": [0, 1, 1]}).replace_schema_metadata(notes)
    pq.write_table(table, tmp_path / "t.parquet")
    pa.feather.write_feather(table, tmp_path / "t.feather")
    for d in (dv.open(tmp_path / "t.parquet"), dv.open(tmp_path / "t.feather"), dv.View(table)):
        assert d._meta == {} and d.y._meta.get("labels") == labels
        assert d.y().tolist() == [0, 1, 1]


TIMES_OF_DAY = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]


@pytest.mark.parametrize("way", ["memory", "parquet", "feather", "h5"])
@pytest.mark.parametrize("kind", TIMES_OF_DAY, ids=str)
def test_times_of_day_stay_times_of_day(kind, way, tmp_path):
    one, two = datetime.time(1, 2, 3), datetime.time(23, 59, 59)
    columns = {
        "x": pa.array([one, None, two, datetime.time(0)], kind),
        "lists": pa.array([[one], None, [two, None], []], pa.list_(kind)),
        "pairs": pa.array([[one, two], None, [two, one], [one, None]], pa.list_(kind, 2)),
        "of": pa.array([{"a": one}, None, {"a": None}, {"a": two}], pa.struct([("a", kind)])),
        "none": pa.array([None] * 4, kind),
    }
    table = pa.table(columns)
    if way == "parquet":
        pq.write_table(table, tmp_path / "a.parquet", row_group_size=3)
        table = pq.read_table(tmp_path / "a.parquet")  # which has no times in whole seconds
    elif way == "feather":
        pa.feather.write_feather(table, tmp_path / "a.feather")
    elif way == "h5":
        dv.View(table)._save(tmp_path / "a.h5")
    d = dv.View(table) if way == "memory" else dv.open(tmp_path / f"a.{way}")
    assert d.x.dtype.kind == "m" and d.x._meta["time_of_day"] is True
    assert (d.x == np.timedelta64(0, "s"))().tolist() == [False, False, False, True]
    d._save(tmp_path / "b.feather")
    d._save(tmp_path / "b.parquet", chunks=1)
    saved = pa.feather.read_table(tmp_path / "b.feather")
    for found in (pa.table(d), pa.table(d[::-1])[::-1], saved):
        assert found.to_pylist() == table.to_pylist()
        for name in ("x", "none"):
            assert found.schema.field(name).type == table.schema.field(name).type
        for name in ("lists", "pairs"):
            assert found[name].type.value_type == table[name].type.value_type
    assert pq.read_table(tmp_path / "b.parquet").to_pylist() == table.to_pylist()
    assert pa.table(dv.View(lapse=d.x + d.x))["lapse"].type == pa.duration(table["x"].type.unit)


def test_what_is_no_time_of_day_is_told_with_the_field(tmp_path):
    d = dv.View(pa.table({"x": pa.array([datetime.time(1), None], pa.time64("us"))}))._copy()
    d.x[1], d.x_mask[1] = np.timedelta64(24, "h"), True
    with pytest.raises(ValueError, match=r"field 'x': 86400000000 microseconds is no time of day"):
        pa.table(d)
    with pytest.raises(TypeError, match=r"field 'x' cannot be a column: 864.*time_of_day=None"):
        d._save(tmp_path / "a.parquet")
    d = d._set_field("x", d.x._with_meta(time_of_day=None)) or d
    assert pa.table(d)["x"].type == pa.duration("us")


@pytest.mark.parametrize("way", ["memory", "parquet", "feather"])
def test_objects_that_arrow_would_take_for_others_are_refused_with_field_and_row(way, tmp_path):
    naive = datetime.datetime(2020, 1, 1)
    aware = naive.replace(tzinfo=datetime.UTC)
    zoned = datetime.time(1, tzinfo=datetime.UTC)
    for values, told in (
        (["a", None, b"b"], r"kinds \(str in row 0, bytes in row 2\)"),
        ([None, aware, naive], r"kinds \(datetime with a zone in row 1, datetime in row 2\)"),
        ([None, zoned, None], r"row 1 holds a time of day with a zone, which .*_map\(str\)"),
    ):
        d = dv.View(x=np.array(values, object), n=np.arange(3))
        with pytest.raises(TypeError, match=rf"field 'x'.*{told}"):
            pa.table(d) if way == "memory" else d._save(tmp_path / f"a.{way}")
        whole = [value for value in values if value in (None, "a", naive)]
        d = dv.View(x=np.array(whole, object))
        if way != "memory":
            d._save(tmp_path / f"b.{way}")
            d = dv.open(tmp_path / f"b.{way}")
        assert pa.table(d)["x"].to_pylist() == whole
    hours = dv.View(x=np.array([1], "m8[h]"), _meta={"x": {"time_of_day": True}})
    with pytest.raises(TypeError, match=r"field 'x'.*timedelta64\[h\]"):
        pa.table(hours) if way == "memory" else hours._save(tmp_path / f"c.{way}")


@pytest.mark.parametrize("most", [None, 0, 100])
def test_texts_of_several_groups_are_made_at_once(most, tmp_path, monkeypatch):
    if most is not None:
        monkeypatch.setattr(column_nodes, "MOST_LATE", most)
    made = []
    take = ArrowObjects.__getitem__

    def counted(own, rows):
        made.append(rows)
        return take(own, rows)

    monkeypatch.setattr(ArrowObjects, "__getitem__", counted)
    texts = [None if n % 7 == 0 else f"name {n}" for n in range(1000)]
    raw = [None if text is None else text.encode() for text in texts]
    few = [f"kind {n % 3}" for n in range(1000)]
    table = pa.table({"text": texts, "raw": raw, "few": few, "n": range(1000)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=64)
    d = dv.open(tmp_path / "a.parquet")
    for name in ("text", "raw", "few"):
        for rows in (slice(None), slice(100, 900), slice(130, 131), slice(64, 128)):
            made.clear()
            assert d[name][rows]().tolist() == table[name].to_pylist()[rows]
            if name != "few" and most is None:
                assert len(made) == 1
        for rows in ([5, 900, 70, 5], slice(None, None, -3)):
            found = np.array(table[name].to_pylist(), object)[rows].tolist()
            assert d[name][rows]().tolist() == found


# ---------------------------------------------------------------- parts of lists, joined

LISTS_OF = {
    "integers": lambda n: [n, n + 1],
    "texts": lambda n: [f"text {n}", "é"],
    "gaps": lambda n: [n, None],
}


def written_in_batches(path, table, size):
    """Write a table in batches of so many rows."""
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=size)
    elif path.suffix == ".feather":
        pyarrow.feather.write_feather(table, path, chunksize=size)
    else:
        with pa.ipc.new_stream(path, table.schema) as file:
            file.write_table(table, max_chunksize=size)


@pytest.mark.parametrize("suffix", ["feather", "arrow", "parquet"])
@pytest.mark.parametrize("kind", LISTS_OF)
@given(data=st.data())
@examples(15)
def test_parts_of_lists_in_several_batches_are_joined_as_lists_are(kind, suffix, data):
    rows = [LISTS_OF[kind](n) * (n % 3) for n in range(20)]
    keys = [np.s_[:], np.s_[:6], np.s_[6:], np.s_[9:14], [13, 2, 19], np.s_[::-1], np.s_[12:13]]
    chosen = data.draw(st.lists(st.sampled_from(keys), min_size=2, max_size=4))
    read_first = data.draw(st.sampled_from([None, *keys]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"lists.{suffix}"
        written_in_batches(path, pa.table({"l": rows, "n": range(20)}), 4)
        d = dv.open(path)
        if read_first is not None:
            d[read_first].l()
        joined = dv.concat(*[d[key] for key in chosen])
        expected = [rows[n] for key in chosen for n in np.arange(20)[key]]
        assert pa.table(joined)["l"].to_pylist() == expected
        behind = pa.table(joined[3:])["l"].to_pylist()
        assert behind == expected[3:]
        assert joined._length() == len(expected)


LISTS_OF_ONE_LENGTH = {
    "codes": (pa.dictionary(pa.int32(), pa.string()), ["a", "b"]),
    "integers": (pa.int64(), [1, 2]),
    "texts": (pa.string(), ["a", "b"]),
}


@pytest.mark.parametrize("name", LISTS_OF_ONE_LENGTH)
@pytest.mark.parametrize("format", ["table", "parquet", "feather"])
@pytest.mark.parametrize("rows", ["some", "missing", "none"])
def test_lists_of_one_length_may_be_missing_all_or_none(name, format, rows, tmp_path):
    kind, values = LISTS_OF_ONE_LENGTH[name]
    there = {"some": [True, False, True], "missing": [False] * 3, "none": []}[rows]
    inner = pa.array(values * len(there), kind)
    lists = pa.FixedSizeListArray.from_arrays(
        inner, 2, mask=pa.array([not one for one in there], pa.bool_())
    )
    within = pa.StructArray.from_arrays([lists], ["m"])
    table = pa.table({"x": lists, "s": within})
    path = tmp_path / f"a.{format}"
    if format == "parquet":
        pq.write_table(table, path)
    elif format == "feather":
        pa.feather.write_feather(table, path)
    d = dv.View(table) if format == "table" else dv.open(path)
    assert pa.table(d).to_pylist() == table.to_pylist()
    assert pa.table(d[::-1]).to_pylist() == table.to_pylist()[::-1]
    if name == "codes":
        labels = d.x._labels()().tolist()
        found = [[None if code < 0 else labels[code] for code in row] for row in d.x().tolist()]
        assert found == [row or [None, None] for row in table["x"].to_pylist()]


# ---------------------------------------------------------------- zeros at the ends of texts

ENDING = ["", "\0", "a", "a\0", "a\0\0", "b"]


@pytest.mark.parametrize("kind", ["text", "bytes", "any length", "codes"])
def test_texts_with_zeros_at_their_ends_are_compared_exactly(kind):
    texts = [text.encode() for text in ENDING] if kind == "bytes" else ENDING
    column = pa.array(texts)
    if kind == "any length":
        column = np.array(texts, np.dtypes.StringDType())
    d = dv.View(x=column.dictionary_encode() if kind == "codes" else column)
    for value in texts:
        equal = [text == value for text in texts]
        assert (d.x == value)().tolist() == (value == d.x)().tolist() == equal
        assert (d.x == [value] * 6)().tolist() == np.equal(d.x, value)().tolist() == equal
        assert (d.x != value)().tolist() == [not one for one in equal]
        assert np.asarray(np.isin(d.x, [value])).tolist() == equal
        assert np.asarray(np.isin(d.x, [value, texts[-1] * 2])).tolist() == equal
        if kind != "codes":
            chosen = np.where(dv.View(np.array(equal)), value, d.x)
            assert chosen().tolist() == texts
            assert np.isin([value], d.x).tolist() == [True]
            assert np.less(d.x, value)().tolist() == [text < value for text in texts]
            out = np.zeros(6, bool)
            np.equal(d.x, value, out=out)
            assert out.tolist() == equal
    assert d.x._codes(labels=texts[::-1])().tolist() == [5, 4, 3, 2, 1, 0]


def test_what_is_missing_is_filled_with_a_text_and_its_zeros():
    filled = dv.View(pa.table({"x": [None, b"x"]})).x._fillna(b"a\0")
    assert filled().tolist() == [b"a\0", b"x"]


@pytest.mark.parametrize("kind", ["U", "S"])
def test_texts_of_numpys_dtypes_are_compared_as_numpy_does(kind):
    array = np.array(ENDING, kind)
    d = dv.View(array)
    for value in array.dtype.type("a"), ("a\0" if kind == "U" else b"a\0"):
        assert (d == value)().tolist() == (array == value).tolist()
        assert np.isin(d, [value]).tolist() == np.isin(array, [value]).tolist()
        assert (
            d._codes(labels=[value])().tolist() == (array == value).astype(int).__sub__(1).tolist()
        )


# ---------------------------------------------------------------- codes that are all missing

NO_CODES = pa.array([None, None], pa.string()).dictionary_encode()
ALL_MISSING = {
    "codes": NO_CODES,
    "lists": pa.ListArray.from_arrays([0, 1, 2], NO_CODES),
    "lists of one length": pa.FixedSizeListArray.from_arrays(NO_CODES, 1),
    "structs": pa.StructArray.from_arrays([NO_CODES, pa.array([1, 2])], ["k", "m"]),
}


@pytest.mark.parametrize("name", ALL_MISSING)
@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_codes_that_are_all_missing_are_so_in_files(name, suffix, tmp_path):
    table = pa.table({"x": ALL_MISSING[name]})
    dv.View(table)._save(tmp_path / f"x.{suffix}")
    d = dv.open(tmp_path / f"x.{suffix}")
    if name != "lists of one length":  # one of gaps alone is a gap in a file
        assert pa.table(d).to_pylist() == table.to_pylist()
    codes = d.x.k if name == "structs" else d.x
    assert np.unique(np.concatenate([*codes()], axis=None)).tolist() == [-1]
    assert codes._labels()().tolist() == [] and codes._isna()._all()()


@pytest.mark.parametrize("value", [b"ab", b"a\0", b"a", b"abc", "ab", 3])
def test_raw_bytes_of_one_length_are_compared_with_bytes(value):
    rows = [b"ab", b"cd", None, b"a\0"]
    d = dv.View(pa.table({"k": pa.array(rows, pa.binary(2)), "l": pa.array(rows)}))
    equal = [row == value for row in rows]
    assert (d.k == value)().tolist() == (value == d.k)().tolist() == equal
    assert (d.k != value)().tolist() == [row not in (value, None) for row in rows]
    assert (d.k == [value] * 4)().tolist() == equal
    assert np.asarray(np.isin(d.k, [value, b"none"])).tolist() == equal
    assert (value in d.k) == any(equal)
    assert pa.table(d[d.k == value]).num_rows == sum(equal)


def test_raw_bytes_of_one_length_are_filled_chosen_and_have_codes():
    rows = [b"ab", None, b"cd", b"a\0"]
    d = dv.View(pa.table({"k": pa.array(rows, pa.binary(2)), "l": pa.array(rows)}))
    whole = [b"x\0" if row is None else row for row in rows]
    assert d.k._fillna(b"x\0")().tolist() == whole
    assert np.where(d.k._isna(), b"x\0", d.k)().tolist() == whole
    assert (d.k._astype(object) == d.l)().tolist() == [row is not None for row in rows]
    assert np.asarray(np.isin(d.k, [b"ab", b"a\0", b"long"])).tolist() == [True, False, False, True]
    assert d.k._codes(labels=[b"a\0", b"ab"])().tolist() == [1, -1, -1, 0]
    assert d.k._codes(labels=[b"a", b"ab"])().tolist() == [1, -1, -1, -1]


@pytest.mark.parametrize("kind", [pa.float64(), pa.int64(), pa.string(), pa.list_(pa.bool_(), 1)])
@pytest.mark.parametrize("rows", [slice(None), slice(1, 2), slice(0, 3, 2)])
def test_a_missing_list_of_one_element_is_one_in_arrow(kind, rows):
    values = {pa.float64(): 1.0, pa.int64(): 1, pa.string(): "a"}
    lists = [[values.get(kind, [True])], None, [values.get(kind, [False])]]
    table = pa.table({"x": pa.array(lists, pa.list_(kind, 1))})
    d = dv.View(table)[rows]
    assert pa.table(d).column("x").to_pylist() == pa.array(d.x).to_pylist() == lists[rows]
    assert d.x_mask().tolist() == [one is not None for one in lists[rows]]


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_a_member_beside_lists_in_lists_of_one_length_is_read_alone(suffix, tmp_path):
    struct = pa.struct([("c", pa.list_(pa.int64())), ("m", pa.int64()), ("t", pa.string())])
    rows = [
        [{"c": [1, 2], "m": 3, "t": "a"}, {"c": [], "m": 4, "t": None}],
        None,
        [{"c": None, "m": 5, "t": "b"}, {"c": [6], "m": None, "t": "c"}],
    ]
    deep = pa.struct([("z", pa.list_(struct, 2))])
    table = pa.table(
        {
            "z": pa.array(rows, pa.list_(struct, 2)),
            "s": pa.array([{"z": row} for row in rows], deep),
        }
    )
    path = tmp_path / f"x.{suffix}"
    write = pq.write_table if suffix == "parquet" else pa.feather.write_feather
    write(table, path)
    for part in (dv.open(path).z, dv.open(path).s.z):
        found = [row.tolist() for row in part.m()]
        assert found[0] == [3, 4] and found[1] == [] and found[2][0] == 5
        assert [[*row] for row in part.t()] == [["a", None], [], ["b", "c"]]
        assert [[[*one] for one in row] for row in part.c()] == [[[1, 2], []], [], [[], [6]]]
        assert part.m[2:]()[0].tolist()[0] == 5
