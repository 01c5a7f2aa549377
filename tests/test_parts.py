"""Data in parts: what they are opened as, what is loaded when, partitions, and streams."""

import csv
import datetime
import decimal
import gc
import itertools
import json
import math
import os
import pickle
import socket
import threading
import time
import tracemalloc
from collections import Counter
from functools import partial

import fsspec
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather

import dataview as dv
from children import printed
from dataview.formats import layouts
from dataview.formats.parts import ahead, followed, loaded
from dataview.formats.texts.csv import CsvTable
from dataview.plan.walk import below
from dataview.view.face import node_of
from oracle import accepted_chains, assert_same, check_same, examples, follow

X = np.arange(78.0 * 3).reshape(78, 3)
LENGTHS = [20, 18, 0, 25, 15]
EDGES = [0, *itertools.accumulate(LENGTHS)]
BY_NUMBER = ["part-linear", "part-linear-permutation", "part-permutation-permutation"]


def pieces(array, edges=EDGES):
    return [array[start:stop] for start, stop in itertools.pairwise(edges)]


def put_npy(folder, array=X, edges=EDGES, name="part-{:05d}.npy"):
    folder.mkdir(exist_ok=True)
    for number, piece in enumerate(pieces(array, edges)):
        np.save(folder / name.format(number), piece)
    return folder


def put_csv(folder, edges=EDGES, first=0):
    folder.mkdir(exist_ok=True)
    for number, (start, stop) in enumerate(itertools.pairwise(edges), first):
        with open(folder / f"part-{number}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["a", "b"])
            writer.writerows([row, f"text {row}"] for row in range(start, stop))
    return folder


def put_lines(folder, edges=EDGES):
    folder.mkdir(exist_ok=True)
    for number, (start, stop) in enumerate(itertools.pairwise(edges)):
        text = "".join(f"line {row}\n" for row in range(start, stop))
        (folder / f"part-{number}.txt").write_text(text)
    return folder


class Openings:
    """Counts how often each part is opened; each opening may take its time, or fail."""

    def __init__(self, opened, seconds=0.0):
        self.opened, self.seconds = opened, seconds
        self.files, self.threads, self.bad = Counter(), [], set()
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()

    def __call__(self, path, *given, **options):
        name, thread = os.path.basename(path), threading.current_thread().name
        is_ahead = thread == "dataview-parts"
        with self.lock:
            self.files[name] += 1
            self.threads.append(thread)
            self.at_once += is_ahead
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self.seconds)
        with self.lock:
            self.at_once -= is_ahead
        if name in self.bad:
            raise OSError(f"{name} is gone")
        return self.opened(path, *given, **options)

    def counts(self):
        found, self.files = dict(sorted(self.files.items())), Counter()
        self.most_at_once = 0
        return list(found.values())


@pytest.fixture
def openings(monkeypatch):
    counting = Openings(layouts.opened)
    monkeypatch.setattr(layouts, "opened", counting)
    return counting


def own_threads():
    return [one for one in threading.enumerate() if one.name == "dataview-parts"]


def settled(seconds=10):
    """Whether all threads that load parts end."""
    until = time.monotonic() + seconds
    while own_threads() and time.monotonic() < until:
        time.sleep(0.002)
    return not own_threads()


@pytest.fixture(autouse=True)
def no_threads_left():
    yield
    assert settled()


# -------------------- what a folder is --------------------


def test_numbered_files_may_be_several_things_and_the_error_names_them(tmp_path):
    folder = put_npy(tmp_path / "x", X[:20], range(0, 21, 5))
    with pytest.raises(ValueError, match=r"'parts'.*'files'.*'fields'"):
        dv.open(folder)
    assert dv.open(folder, layout="parts")._shape() == (20, 3)
    assert dv.open(folder, layout="files").array._shape() == (4, 5, 3)
    assert dv.open(folder, layout="fields")._fields() == tuple(f"part-0000{n}" for n in range(4))


def test_numbered_texts_may_be_lines_in_parts_or_a_row_each(tmp_path):
    for number in range(3):
        (tmp_path / f"part-{number}.txt").write_text(f"a{number}\nb{number}\n")
    with pytest.raises(ValueError, match=r"may be two things: layout='parts' .*layout='files'"):
        dv.open(tmp_path)
    assert dv.open(tmp_path, layout="files").text[1]() == "a1\nb1\n"
    lines = dv.open(tmp_path, layout="parts")
    assert [str(line()) for line in lines] == ["a0", "b0", "a1", "b1", "a2", "b2"]
    np.save(tmp_path / "part-0.npy", np.zeros(2))  # texts beside other files are of these
    assert dv.open(tmp_path)._fields()


@pytest.mark.parametrize("names", [["x", "y"], ["x1"], ["x1", "y1"], ["x", "x1"]])
def test_files_with_names_of_their_own_are_fields(tmp_path, names):
    for name in names:
        np.save(tmp_path / f"{name}.npy", X)
    assert set(dv.open(tmp_path)._fields()) == set(names)


def test_files_have_one_order_however_they_are_named(tmp_path):
    folder = put_csv(tmp_path / "t.csv", range(13))
    (folder / "k=2").mkdir()
    (folder / "part-2.csv").rename(folder / "k=2" / "part-2.csv")
    (folder / "k=10").mkdir()
    (folder / "part-10.csv").rename(folder / "k=10" / "part-10.csv")
    expected = [2, 10, 0, 1, *range(3, 10), 11]
    assert dv.open(folder).a().tolist() == expected
    assert dv.open(f"{folder}/**/*.csv").a().tolist() == expected
    rest = expected[2:]
    assert dv.open(f"{folder}/*.csv").a().tolist() == rest
    assert dv.open(folder, layout="parts").a().tolist() == rest


TEXTS = {
    ".csv": lambda rows: "a,b\n" * bool(rows) + "".join(f"{n},t{n}\n" for n in rows),
    ".jsonl": lambda rows: "".join(f'{{"a": {n}, "b": "t{n}"}}\n' for n in rows),
    ".json": lambda rows: json.dumps([{"a": n, "b": f"t{n}"} for n in rows]),
}


@pytest.mark.parametrize("empty", [{0}, {1}, {2}, {0, 1}, {0, 2}])
@pytest.mark.parametrize("suffix", TEXTS)
def test_a_part_without_a_row_has_no_columns_of_its_own(suffix, empty, tmp_path):
    own = {"format": dv_format(suffix)} if suffix == ".json" else {}
    parts = partial(dv.open, tmp_path, layout="parts", **own)
    for number in range(3):
        rows = range(0) if number in empty else range(4 * number, 4 * number + 4)
        (tmp_path / f"part-{number}{suffix}").write_text(TEXTS[suffix](rows))
    expected = [n for n in range(12) if n // 4 not in empty]
    assert dv.open(f"{tmp_path}/*{suffix}").a().tolist() == expected
    stream = parts()
    assert [row.a() for row in stream] == stream.a().tolist() == expected
    for p in range(3):
        own = [n for n in expected if n // 4 == p]
        assert [row.a() for row in parts(partition=(p, 3))] == own
    for _ in range(2):  # the manifest is made, and read
        assert parts(manifest=True).a().tolist() == expected


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_parts_of_json_are_joined_as_files_of_json_are(suffix, tmp_path):
    parts = [[{"a": 1, "b": "x"}], [{"a": 2.5, "c": 3}], [{"c": 4, "d": {"e": 5}}]]
    for number, rows in enumerate(parts):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        text = json.dumps(rows) if suffix == ".json" else lines
        (tmp_path / f"part-{number}{suffix}").write_text(text)
    files = [str(tmp_path / f"part-{number}{suffix}") for number in range(3)]
    table = dv.open(files)
    joined = dv.open(tmp_path, layout="parts", format=dv_format(suffix), manifest=True)
    assert {*joined._fields()} == {*table._fields()} == {*"abcd", *(f"{n}_mask" for n in "abcd")}
    assert joined.d_mask().tolist() == table.d_mask().tolist() == [False, False, True]
    for name in "abc":
        mask = table._field(f"{name}_mask")()
        assert_same(joined._field(f"{name}_mask")(), mask)
        assert joined._field(name)._dtype() == table._field(name)._dtype()
        assert joined._field(name)()[mask].tolist() == table._field(name)()[mask].tolist()
    for options in ({"manifest": False}, {"manifest": True, "schema": "same"}):
        with pytest.raises(ValueError, match=r"column '.*' .*part-[01]\.json"):
            list(dv.open(tmp_path, layout="parts", format=dv_format(suffix), **options))
    with pytest.raises(ValueError, match=r"column 'a' .*part-1\.json.*schema='union'"):
        dv.open(files[:2], schema="same")
    assert dv.open([files[0]] * 2, schema="same").a().tolist() == [1, 1]


def dv_format(suffix):
    return {".jsonl": "json lines", ".json": "json"}[suffix]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_parts_of_which_none_has_a_byte_say_so(suffix, tmp_path):
    for number in range(3):
        (tmp_path / f"part-{number}{suffix}").touch()
    for options in ({}, {"manifest": True}):
        with pytest.raises(ValueError, match=rf"part-2{suffix} holds no rows"):
            dv.open(tmp_path, layout="parts", **options)


def test_what_was_saved_in_parts_opens_by_itself_and_as_parts(tmp_path):
    d = dv.View(x=X, n=np.arange(78), inner=dv.View(X, a=0))
    for saved in (d, dv.View(X, first=0)):
        path = tmp_path / str(len(saved._fields()))
        saved._save(path, "folder", rows_per_part=16)
        for opened in (dv.open(path), dv.open(path, layout="parts")):
            assert opened == saved
            assert opened._fields() == saved._fields()
            got = list(opened._loader(16, sampler="part-permutation-permutation"))
            assert sum(map(len, got)) == 78
    assert_same(dv.open(path, layout="parts").first(), X[:, 0])
    with pytest.raises(TypeError, match="manifest= is no option"):
        dv.open(path, layout="parts", manifest=True)


def test_of_a_saved_folder_those_parts_are_opened_that_were_saved(tmp_path):
    d = dv.View(x=X, n=np.arange(78))
    for number, saved in enumerate((d, dv.View(X))):
        path = tmp_path / str(number)
        saved._save(path, "folder", rows_per_part=16)
        arrays = path if number else path / "x"
        np.save(arrays / "part-00005.npy", X[:3])  # of which the description does not know
        for how in ({}, {"layout": "parts"}):
            assert dv.open(path, **how) == saved
        (arrays / "part-00001.npy").unlink()
        for how in ({}, {"layout": "parts"}):
            with pytest.raises(ValueError, match=r"the array '(x/)?part-00001' is missing"):
                dv.open(path, **how)


def test_ragged_rows_that_were_saved_in_parts(tmp_path):
    rows = [list(range(n % 4)) for n in range(12)]
    dv.View(t=dv.ragged(rows), n=np.arange(12))._save(tmp_path / "r", "folder", rows_per_part=5)
    d = dv.open(tmp_path / "r", layout="parts")
    assert [row.tolist() for row in d.t()] == rows
    own = dv.open(tmp_path / "r", layout="parts", partition=(1, 3))
    assert [row.tolist() for row in own.t()] == rows[1::3]


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"layout": "part"}, ValueError, "did you mean 'parts'"),
        ({"layout": "fields", "format": "folder"}, ValueError, "leave format= out"),
        ({"layout": "parts", "mode": "r+"}, ValueError, "mode 'r'"),
        ({"layout": "parts", "max_parts": 0}, ValueError, "from 1 on"),
        ({"layout": "parts", "max_rows": -1}, ValueError, "from 0 on"),
        ({"layout": "parts", "parts_in_memory": "much"}, ValueError, "64MB"),
        ({"layout": "parts", "parts_in_memory": 0}, ValueError, "parts_in_memory= is a number of"),
        ({"layout": "parts", "schema": "any"}, ValueError, "schema="),
        ({"layout": "parts", "columns": ["x"]}, TypeError, "no option 'columns'"),
        ({"layout": "parts", "part_in_memory": 9}, TypeError, "did you mean 'parts_in_memory'"),
        ({"layout": "parts", "manifest": True, "max_parts": 1}, ValueError, "max_parts= out"),
        ({"layout": "parts", "partition": (3, 3)}, ValueError, "0 <= p < n|p counts from 0"),
        ({"partition": 3, "layout": "fields"}, ValueError, "p counts from 0"),
        ({"layout": "parts", "follow": 1}, TypeError, "path of one file"),
        ({"mode": "w", "max_rows": 3}, TypeError, "mode 'w'"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path, options, error, told):
    put_npy(tmp_path / "x")
    with pytest.raises(error, match=told):
        dv.open(tmp_path / "x", **options)


def test_a_folder_without_parts_or_with_several_kinds_says_so(tmp_path):
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match="no files"):
        dv.open(tmp_path / "none", layout="parts")
    folder = put_csv(put_npy(tmp_path / "both"))
    with pytest.raises(ValueError, match=r"several: \.csv, \.npy; format="):
        dv.open(folder, layout="parts")
    assert dv.open(folder, layout="parts", format="npy")._shape() == (78, 3)
    with pytest.raises(NotADirectoryError, match="layout='parts'"):
        dv.open(folder / "part-00000.npy", layout="parts")
    (folder / "README.txt").write_text("about")
    (folder / "_SUCCESS").write_text("")
    assert len(dv.open(folder, layout="parts", format="npy")) == 78


def test_links_among_parts_are_followed_and_say_if_they_lead_nowhere(tmp_path):
    folder = put_npy(tmp_path / "x")
    np.save(tmp_path / "more.npy", X[:2])
    (folder / "part-00005.npy").symlink_to(tmp_path / "more.npy")
    assert_same(dv.open(folder, layout="parts")(), np.concatenate([X, X[:2]]))
    (folder / ".hidden").symlink_to(tmp_path / "none")
    (folder / "part-00006.npy").symlink_to(tmp_path / "none.npy")
    told = r"the part is a link to .*none\.npy, where no file is.*part-00006\.npy"
    with pytest.raises(FileNotFoundError, match=told):
        dv.open(folder, layout="parts")


def test_a_link_that_leads_out_of_a_saved_folder_is_no_part_of_it(tmp_path):
    dv.View(X)._save(tmp_path / "x", "folder", rows_per_part=40)
    np.save(tmp_path / "more.npy", X[40:])
    (tmp_path / "x" / "part-00001.npy").unlink()
    (tmp_path / "x" / "part-00001.npy").symlink_to(tmp_path / "more.npy")
    for how in ({}, {"layout": "parts"}):
        with pytest.raises(
            ValueError, match=r"part-00001.* is reached by a link to .*more\.npy, out"
        ):
            dv.open(tmp_path / "x", **how)


def test_a_file_that_is_removed_while_its_folder_is_listed_is_no_part(tmp_path, monkeypatch):
    folder, stat = put_npy(tmp_path / "x"), os.stat

    def removed(path, *args, **options):
        if str(path).endswith("part-00001.npy"):
            (folder / "part-00001.npy").unlink(missing_ok=True)
        return stat(path, *args, **options)

    monkeypatch.setattr(os, "stat", removed)
    d = dv.open(folder, layout="parts")
    assert_same(d(), np.concatenate([X[: EDGES[1]], X[EDGES[2] :]]))


def test_numbers_in_names_count_as_numbers(tmp_path):
    put_npy(tmp_path / "x", X, range(0, 79, 6), "p{}.npy")
    assert_same(dv.open(tmp_path / "x", layout="parts")(), X)
    some = [tmp_path / "x" / f"p{number}.npy" for number in (10, 2)]
    assert_same(dv.open(some, layout="parts")(), np.concatenate([X[60:66], X[12:18]]))


# -------------------- parts of any format are one view --------------------


def by_saving(suffix):
    def put(folder):
        folder.mkdir()
        for number, piece in enumerate(pieces(X)):
            numbers = np.arange(EDGES[number], EDGES[number + 1])
            dv.View(x=piece, n=numbers)._save(folder / f"p{number}{suffix}")
        return folder

    return put


@pytest.mark.parametrize("suffix", [".npz", ".h5", ".parquet", ".feather"])
def test_parts_of_formats_with_headers(suffix, tmp_path):
    folder = by_saving(suffix)(tmp_path / "x")
    d = dv.open(folder, layout="parts")
    assert (len(d), d._fields()) == (78, ("x", "n"))
    assert_same(d.x(), X)
    assert_same(d.n[::-7](), np.arange(78)[::-7])
    assert d[33].n() == 33
    model = dv.View(x=X, n=np.arange(78))
    assert d == model
    assert_same((d.x - d.x._mean(axis=0))(), X - X.mean(axis=0))
    assert pickle.loads(pickle.dumps(d)) == model


@given(st.data())
@examples(40)
def test_keys_of_parts_are_those_of_the_array(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "keys"
    if not folder.exists():
        put_npy(folder)
    d = dv.open(
        folder, layout="parts", parts_in_memory=data.draw(st.sampled_from([1, 1000, 10**6]))
    )
    chain = data.draw(accepted_chains(X))
    check_same(d, X, lambda subject: follow(subject, chain))


def test_rows_of_one_part_are_taken_in_any_order(tmp_path, rng):
    columns = {"a": np.arange(40.0).reshape(20, 2), "n": np.arange(20)}
    gaps = np.arange(20) % 3 > 0
    for number in range(4):
        own = slice(5 * number, 5 * number + 5)
        missing = pa.array(columns["n"][own], mask=~gaps[own])
        pq.write_table(
            pa.table({"a": [*columns["a"][own]], "n": missing}), tmp_path / f"part-{number}.parquet"
        )
    d = dv.open(tmp_path, layout="parts")
    for low, high in ((0, 5), (5, 10), (3, 20)):
        rows = rng.integers(low, high, 9)
        part = d[rows]
        assert part.n_mask().tolist() == gaps[rows].tolist()
        found = part._asdict()
        assert found["n"][found["n_mask"]].tolist() == columns["n"][rows][gaps[rows]].tolist()
        assert [row.tolist() for row in part.a()] == columns["a"][rows].tolist()
    for number in range(2):
        np.save(tmp_path / f"{number}.npy", columns["a"][10 * number : 10 * number + 10])
    x = dv.open(tmp_path, layout="parts", format="npy")
    for rows in ([3, 1, 1, 9], [[12, 11], [19, 12]], [-1, 10], []):
        assert_same(x[rows](), columns["a"][np.array(rows, int)])
        assert_same(x[rows, ::-1](), columns["a"][np.array(rows, int), ::-1])


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".csv"])
def test_a_table_whose_only_column_is_called_rows_is_a_table(suffix, tmp_path):
    for number in range(2):
        dv.View(rows=np.arange(3) + 3 * number)._save(tmp_path / f"p{number}{suffix}")
    for manifest in (True, None, False):
        d = dv.open(tmp_path, layout="parts", manifest=manifest)
        assert d._fields() == ("rows",) and d.rows().tolist() == [*range(6)]


def test_arrays_of_several_shapes_or_dtypes_are_told_as_arrays(tmp_path):
    one, two = tmp_path / "0.npy", tmp_path / "1.npy"
    np.save(one, np.zeros((2, 3)))
    np.save(two, np.zeros((2, 4)))
    told = r"^the array is float64 of shape \(4,\) in 1\.npy, and float64 of shape \(3,\) in 0\.npy"
    with pytest.raises(ValueError, match=told):
        dv.open(tmp_path, layout="parts", schema="union")
    np.save(two, np.ones((2, 3), ">i2"))
    with pytest.raises(
        ValueError, match=r"^the array is >i2 .*schema='union' gives what they have"
    ):
        dv.open(tmp_path, layout="parts")
    d = dv.open(tmp_path, layout="parts", schema="union")
    assert_same(d(), np.concatenate([np.zeros((2, 3)), np.ones((2, 3))]))
    assert repr(d).startswith(f"View (4, 3) float64, 96 B, the array of parts in {tmp_path.name}")


def test_structured_arrays_and_windows_of_parts(tmp_path):
    records = np.zeros(10, [("a", "i4"), ("b", "f8", (2,))])
    records["a"] = np.arange(10)
    put_npy(tmp_path / "r", records, [0, 4, 10])
    assert_same(dv.open(tmp_path / "r", layout="parts").a[2:7](), np.arange(2, 7, dtype="i4"))
    for number in range(2):
        dv.View(X[:4] + number, _meta={"": {"unit": "m"}}, a=0)._save(tmp_path / f"p{number}.h5")
    d = dv.open([tmp_path / "p0.h5", tmp_path / "p1.h5"], layout="parts")
    assert d._meta["unit"] == "m"
    assert_same(d.a(), np.concatenate([X[:4, 0], X[:4, 0] + 1]))


def test_lists_and_gaps_of_parts(tmp_path):
    for number in range(3):
        lines = [{"n": None if n == 1 else n, "t": list(range(n))} for n in range(3)]
        (tmp_path / f"p{number}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    d = dv.open(tmp_path, layout="parts", manifest=True)
    assert [row.tolist() for row in d.t()] == [list(range(n)) for n in range(3)] * 3
    assert d.n_mask().tolist() == [True, False, True] * 3
    stream = dv.open(tmp_path, layout="parts", manifest=False)._probe()
    assert [sample.t().tolist() for sample in stream] == [list(range(n)) for n in range(3)] * 3


LISTS = {
    "ints": [[[5]], [[1, None], None, []], [[7, 8]]],
    "bools": [[[True]], [[None, True], None, []], [[False]]],
    "lists": [[[[1, 2]]], [[[3, None], None, []], None, []], [[[4]]]],
    "member": [[{"a": [1]}], [{"a": [None, 2]}, {"a": None}, {"a": []}], [{"a": [3]}]],
}
"""Lists of three parts, of which the first and the last lack nothing."""


def put_lists(folder, suffix, parts):
    """Write a column of lists in parts, and return all rows of it."""
    alike = pa.table({"x": [row for part in parts for row in part]})
    for number, part in enumerate(parts):
        path, table = folder / f"p{number}{suffix}", pa.table({"x": part}, schema=alike.schema)
        if suffix == ".parquet":
            pq.write_table(table, path)
        elif suffix == ".feather":
            feather.write_feather(table, str(path))
        elif suffix == ".jsonl":
            path.write_text("".join(f"{json.dumps({'x': row})}\n" for row in part))
        else:
            dv.View(table)._save(path)
    return alike["x"].to_pylist()


def rows_of(view):
    """Return the rows of a column of lists; numbers of JSON that are missing in a list are NaN."""
    return json.loads(json.dumps(pa.table(view)["x"].to_pylist()).replace("NaN", "null"))


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".jsonl", ".h5"])
@pytest.mark.parametrize("called", LISTS)
def test_what_is_missing_in_lists_of_parts_is_missing(called, suffix, tmp_path):
    rows = put_lists(tmp_path, suffix, LISTS[called])
    options = {"manifest": True} if suffix == ".jsonl" else {}
    d = dv.open(tmp_path, layout="parts", **options)
    assert rows_of(d) == rows
    assert rows_of(d[[3, 1]]) == [rows[3], rows[1]]
    assert rows_of(pickle.loads(pickle.dumps(d))) == rows
    d._save(tmp_path / "saved.parquet")
    assert rows_of(dv.open(tmp_path / "saved.parquet")) == rows
    if called in ("ints", "bools"):
        missing = [[value is None for value in row or ()] for row in rows]
        assert [row.tolist() for row in d.x._isna()()] == missing
        there = [value for row in rows for value in row or () if value is not None]
        assert d.x._nanmean()() == np.mean(there)
        assert d.x._fillna(type(there[0])())._sum()() == np.sum(there)


@pytest.mark.parametrize(
    "options", [{}, {"transform": lambda row: row, "pad": "ragged"}, {"workers": 1}]
)
def test_batches_of_a_stream_of_parts_know_which_lists_are_missing(options, tmp_path):
    rows = [
        {"b": [1, 2], "c": 1, "s": {"x": [True, None], "y": 1}},
        {"b": None, "c": None, "s": {"x": None, "y": None}},
        {"b": [], "c": 3, "s": {"x": [], "y": 4}},
    ]
    lines = [json.dumps(row) + "\n" for row in rows]
    (tmp_path / "a-0.jsonl").write_text("".join(lines))
    (tmp_path / "a-1.jsonl").write_text("".join(lines[1::-1]))
    batches = list(dv.open(tmp_path, layout="parts")._loader(5, **options))
    found = [row for batch in batches for row in pa.table(batch).to_pylist()]
    assert found == [*rows, *rows[1::-1]]
    metas = [batches[0]._field(name)._meta for name in ("b_mask", "c_mask")]
    assert [meta["mask_of"] for meta in metas] == ["b", "c"]


def test_codes_in_lists_of_parts_may_be_missing(tmp_path):
    rows = [["a"], ["b", None], None, [], ["c", "a"]]
    kind = pa.list_(pa.dictionary(pa.int32(), pa.string()))
    for number, part in enumerate([rows[:1], rows[1:4], rows[4:]]):
        pq.write_table(pa.table({"x": pa.array(part, kind)}), tmp_path / f"p{number}.parquet")
    d = dv.open(tmp_path, layout="parts")
    assert rows_of(d) == rows
    d._save(tmp_path / "saved.feather")
    assert feather.read_table(tmp_path / "saved.feather")["x"].to_pylist() == rows


def test_a_part_that_is_no_table_says_so(tmp_path):
    for number in range(2):
        np.save(tmp_path / f"p{number}.npy", np.float64(number))
    with pytest.raises(ValueError, match=r"p0\.npy is no part: its data"):
        dv.open(tmp_path, layout="parts")


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
@pytest.mark.parametrize("lengths", [(2, 3), (3, 2)])
def test_a_part_whose_fields_share_no_rows_says_so(lengths, suffix, tmp_path):
    for number in range(2):
        parts = dict(zip("ab", map(np.arange, lengths if number else (2, 2)), strict=True))
        if suffix == ".npz":
            np.savez(tmp_path / f"p{number}.npz", **parts)
        else:
            with h5py.File(tmp_path / f"p{number}.h5", "w") as file:
                file.update({f"g/{name}": part for name, part in parts.items()})
    told = (
        rf"p1\{suffix} is no part: .* lengths.*: \S*a {lengths[0]}, \S*b {lengths[1]}; dv\.concat"
    )
    for manifest in (None, True):
        with pytest.raises(ValueError, match=told):
            dv.open(tmp_path, layout="parts", manifest=manifest)
    assert dv.concat([dv.open(tmp_path / f"p{n}{suffix}") for n in (0, 0)])._length() == 4


def test_a_part_of_which_one_field_changes_its_length_is_noticed(tmp_path, monkeypatch):
    for number in range(2):
        np.savez(tmp_path / f"p{number}.npz", a=np.arange(3), b=np.arange(3))
    d = dv.open(tmp_path, layout="parts")
    np.savez(tmp_path / "p1.npz", a=np.arange(3), b=np.arange(2))
    monkeypatch.setattr(loaded, "file_at", lambda path, name: d_file(d, name))
    with pytest.raises(ValueError, match=r"p1\.npz has changed since its rows were counted"):
        d.b()


def d_file(view, name):
    """Return what a view knows of the file of a part."""
    (table,) = {*tables_of(view)}
    return next(file for file in table.these.listing.files if file.name == name)


# -------------------- what differs between parts --------------------


def test_a_part_of_another_schema_is_refused_or_unified(tmp_path):
    for number in range(3):
        more = {"y": np.arange(2.0)} if number == 1 else {}
        kind = "i4" if number == 0 else "i8"
        dv.View(x=np.arange(2, dtype=kind), **more)._save(tmp_path / f"p{number}.npz")
    with pytest.raises(ValueError, match=r"'x' is int64 in p1\.npz, and int32 in p0\.npz"):
        dv.open(tmp_path, layout="parts")
    with pytest.raises(ValueError, match=r"p1\.npz has a column 'y', and p2\.npz has none"):
        dv.open([tmp_path / "p1.npz", tmp_path / "p2.npz"], layout="parts")
    d = dv.open(tmp_path, layout="parts", schema="union")
    assert d.x._dtype() == np.int64
    assert d.y_mask().tolist() == [False, False, True, True, False, False]
    assert d.y[2:4]().tolist() == [0, 1]


NOON = datetime.datetime(2026, 1, 1, 12)
UNLIKE = {
    "times with and without a zone": (
        pa.array([NOON], pa.timestamp("us", "Europe/Rome")),
        pa.array([NOON], pa.timestamp("us")),
    ),
    "texts and bytes": (pa.array(["a"]), pa.array([b"\xff"])),
    "decimals and texts": (pa.array([decimal.Decimal("1.5")]), pa.array(["x"])),
    "times of day and durations": (
        pa.array([datetime.time(1)]),
        pa.array([datetime.timedelta(hours=30)]),
    ),
    "codes and numbers": (pa.array(["a"]).dictionary_encode(), pa.array([1], "i4")),
}


def put_columns(folder, *columns, **meta):
    folder.mkdir()
    for number, column in enumerate(columns):
        own = {key: values[number] for key, values in meta.items()}
        field = pa.field("t", column.type, metadata=own or None)
        table = pa.table([column], pa.schema([field]))
        pq.write_table(table, folder / f"part-{number}.parquet")
    return folder


@pytest.mark.parametrize("schema", [{}, {"schema": "union"}])
@pytest.mark.parametrize("how", [{}, {"layout": "parts"}, {"layout": "parts", "manifest": True}])
@pytest.mark.parametrize("columns", UNLIKE.values(), ids=UNLIKE)
def test_columns_of_unlike_meaning_are_refused(columns, how, schema, tmp_path):
    for number, order in enumerate((columns, columns[::-1])):
        place = put_columns(tmp_path / str(number), *order)
        error = r"'t' is .* in part-1\.parquet, and .* in part-0\.parquet; open them one by one"
        with pytest.raises(ValueError, match=error):
            dv.open(place, **how, **schema)


@pytest.mark.parametrize("how", [{}, {"layout": "parts"}, {"layout": "parts", "manifest": True}])
def test_decimals_of_several_types_are_one_column_of_a_union_of_parts(how, tmp_path):
    values = [decimal.Decimal("1000.5"), decimal.Decimal("10000.25")]
    types = pa.decimal128(5, 1), pa.decimal128(7, 2)
    columns = [pa.array([value], kind) for value, kind in zip(values, types, strict=True)]
    place = put_columns(tmp_path / "a", *columns)
    with pytest.raises(ValueError, match=r"'t' is decimal128\(7, 2\) in part-1\.parquet, and dec"):
        dv.open(place, **how)
    column = pa.table(dv.open(place, **how, schema="union"))["t"]
    assert column.type == types[1] and column.to_pylist() == values


@pytest.mark.parametrize("how", [{}, {"layout": "parts"}, {"layout": "parts", "manifest": True}])
def test_times_that_are_none_in_the_unit_of_others_are_told(how, tmp_path):
    days = pa.array([datetime.date(1559, 4, 26), None, datetime.date(2000, 1, 1)])
    times = pa.array([1], pa.timestamp("ns"))
    put_columns(tmp_path / "a", times, days)
    d = dv.open(tmp_path / "a", **how, schema="union")
    assert d.t[:1]().tolist() == [1]
    with pytest.raises(ValueError, match=r"column 't' of part-1\.parquet has 1559-04-26, .*\[ns\]"):
        d.t()
    place = put_columns(tmp_path / "b", times, days[1:], days[2:])
    d = dv.open(place, **how, schema="union")
    assert_same(d.t(), np.array([1, "NaT", "2000-01-01", "2000-01-01"], "M8[ns]"))
    lists = [pa.array([[one]], pa.list_(one.type)) for one in (times[0], days[0])]
    d = dv.open(put_columns(tmp_path / "c", *lists), **how, schema="union")
    with pytest.raises(ValueError, match=r"column 't' of part-1\.parquet has 1559-04-26"):
        d.t()


@pytest.mark.parametrize("manifest", [None, True])
def test_parts_of_other_units_are_refused(manifest, tmp_path):
    for name, units in (("a", ["m", "km"]), ("b", ["m", "m"])):
        (tmp_path / name).mkdir()
        for number, unit in enumerate(units):
            with h5py.File(tmp_path / name / f"part-{number}.h5", "w") as file:
                file["x"] = np.arange(2.0) + number
                file["x"].attrs["unit"] = unit
                file["x"].attrs["title"] = f"number {number}"
    error = r"'x' is float64 of unit='km' in part-1\.h5, and float64 of unit='m' in part-0\.h5"
    with pytest.raises(ValueError, match=error):
        dv.open(tmp_path / "a", layout="parts", manifest=manifest)
    for _ in range(2):  # the manifest is read the second time
        d = dv.open(tmp_path / "b", layout="parts", manifest=manifest)
        assert d.x().tolist() == [0, 1, 1, 2] and d.x._meta["unit"] == "m"
        manifest = None
    place = put_columns(tmp_path / "c", pa.array([1]), pa.array([2]), unit=("m", "km"))
    for how in ({}, {"layout": "parts"}):
        with pytest.raises(ValueError, match=r"'t' is int64 of unit='km' in part-1\.parquet"):
            dv.open(place, **how)


@pytest.mark.parametrize("manifest", [None, True])
def test_metadata_are_those_of_the_first_part_that_tells_what_a_column_is(manifest, tmp_path):
    times = UNLIKE["times with and without a zone"][0]
    place = put_columns(tmp_path / "a", pa.nulls(1), times)
    found = pa.table(dv.open(place, layout="parts", manifest=manifest))["t"]
    assert found.type == times.type and found.to_pylist() == [None, *times.to_pylist()]
    more = pa.table({"t": times, "n": [1]})
    pq.write_table(pa.table({"n": [0]}), place / "part-0.parquet")
    pq.write_table(more, place / "part-1.parquet")
    union = {"layout": "parts", "schema": "union", "manifest": manifest}
    found = pa.table(dv.open(place, **union))["t"]
    assert found.type == times.type and found.to_pylist() == [None, *times.to_pylist()]


EMPTY = {
    ".csv": (["n,w\n1,\n", "n,w\n2,text\n", "n,w\n3,\n"], [None, "text", None]),
    ".jsonl": (['{"w": null}\n', '{"w": "text"}\n', '{"w": null}\n'], [None, "text", None]),
    ".json": (['[{"w": []}]', '[{"w": ["a", "b"]}]', '[{"w": []}]'], [[], ["a", "b"], []]),
}


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (0, 2), (2, 0, 1)])
@pytest.mark.parametrize("suffix", EMPTY)
def test_a_column_without_values_in_a_part_is_what_it_is_in_others(suffix, order, tmp_path):
    texts, values = EMPTY[suffix]
    for number, which in enumerate(order):
        (tmp_path / f"p{number}{suffix}").write_text(texts[which])
    how = {"layout": "parts", "format": "json"} if suffix == ".json" else {"layout": "parts"}

    def rows_in(d):
        return [None if x != x else x for x in pa.table(d)["w"].to_pylist()]  # NaN is no number

    for schema in ({"schema": "union"}, {}):
        d = dv.open(tmp_path, **how, manifest=True, **schema)
        assert rows_in(d) == [values[which] for which in order]
        assert rows_in(dv.open(tmp_path, **how)) == [values[which] for which in order]


def test_a_list_without_values_in_a_part_of_a_stream_is_a_list(tmp_path):
    rows = [["a"], [], ["b", "c"]]
    for number, row in enumerate(rows):
        (tmp_path / f"p{number}.jsonl").write_text(json.dumps({"w": row}) + "\n")
    d = dv.open(tmp_path, layout="parts")
    assert [row for batch in d._loader(2) for row in pa.table(batch)["w"].to_pylist()] == rows


RECORDS = {
    "records": ([None, None], [{"x": 1, "y": "text"}, None]),
    "records in records": ([{"x": None}, None], [{"x": {"y": 2, "z": 0.5}}, {"x": None}]),
    "lists in records": ([None], [{"x": [1, 2]}, {"x": None}]),
    "two levels": ([None], [{"x": None}], [{"x": {"y": 1}}]),
}


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".jsonl"])
@pytest.mark.parametrize("called", RECORDS)
def test_a_column_without_values_may_be_one_of_records(called, suffix, order, tmp_path):
    columns = RECORDS[called][::order]
    for number, column in enumerate(columns):
        rows = [{"n": n, "r": value} for n, value in enumerate(column)]
        write_rows(tmp_path / f"p{number}{suffix}", rows)
    expected = [value for column in columns for value in column]
    ways = [{"layout": "parts", "manifest": True}, {"layout": "parts"}]
    if suffix != ".jsonl":
        ways.append({"layout": "parts", "manifest": False})
    for schema in ({}, {"schema": "union"}):
        glob = dv.open(f"{tmp_path}/*{suffix}", **schema)
        for d in (glob, *(dv.open(tmp_path, **schema, **way) for way in ways)):
            assert d._fields()[:2] == ("n", "r")
            assert pa.table(d)["r"].to_pylist() == expected
            assert d[::-1].n().tolist() == [n for c in columns[::-1] for n in range(len(c))[::-1]]


def write_rows(path, rows):
    if path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        write_table(path, pa.Table.from_pylist(rows))


CELLS = [
    "1", "-2", "007", "18446744073709551615", "1" * 25, "2.5", "true", "2020-01-01", "1500-01-01",
    "2020-01-01 10:00", "2020-01-01 10:00:00.123456789", "text", "", '""',
]  # fmt: skip


@examples(40)
@given(st.lists(st.lists(st.sampled_from(CELLS), max_size=3), min_size=2, max_size=4))
def test_cells_of_parts_are_what_they_are_in_files_that_open_together(tmp_path_factory, parts):
    folder = tmp_path_factory.mktemp("p")
    for number, own in enumerate([*parts, ["1"]]):
        text = "".join(f"{cell},{n}\n" for n, cell in enumerate(own))
        (folder / f"p{number}.csv").write_text(f"c,n\n{text}")
    how = {"schema": "union", "header": 0}
    files = dv.open(f"{folder}/*.csv", **how)
    for manifest in (True, None):  # it is made, and read
        d = dv.open(folder, layout="parts", manifest=manifest, **how)
        assert d._fields() == files._fields()
        for name in d._fields():
            assert_same(d._field(name)(), files._field(name)())
            assert_same(d._field(name)[::-2](), files._field(name)[::-2]())


@pytest.mark.parametrize("order", [1, -1])
def test_cells_of_several_natures_are_texts_in_a_union_of_parts(order, tmp_path):
    columns = [["1", "007"], ["", "true"], ["2020-01-01", "text"]][::order]
    for number, column in enumerate(columns):
        write_cells(tmp_path / f"p{number}.csv", [{"n": n, "c": c} for n, c in enumerate(column)])
    with pytest.raises(ValueError, match=r"column 'c' .*p1\.csv.*; schema='union'"):
        dv.open(tmp_path, layout="parts", manifest=True)
    expected = [cell or None for column in columns for cell in column]
    for manifest in (True, None):
        d = dv.open(tmp_path, layout="parts", manifest=manifest, schema="union")
        for view in (d, pickle.loads(pickle.dumps(d))):
            assert view.c().tolist() == expected
            assert view.n().tolist() == [0, 1] * 3
            got = [batch.c().tolist() for batch in view._loader(4, sampler="part-linear")]
            assert got == [expected[:4], expected[4:]]
        own = dv.open(tmp_path, layout="parts", partition=(1, 3), schema="union")
        assert own.c().tolist() == expected[2:4]


def test_a_new_part_may_make_texts_of_a_column(tmp_path):
    for number in range(2):
        write_cells(tmp_path / f"p{number}.csv", [{"c": number}])
    d = dv.open(tmp_path, layout="parts", manifest=True, schema="union")
    before = d[:]
    write_cells(tmp_path / "p2.csv", [{"c": "text"}])
    d._refresh()
    assert d.c().tolist() == ["0", "1", "text"] and before.c().tolist() == [0, 1]


@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".jsonl", ".csv"])
def test_a_value_stands_for_what_parts_lack(suffix, is_named, tmp_path):
    parts = [{"a": [1, 2], "b": [3, None]}, {"a": [4]}, {"a": [5], "b": [None]}]
    if suffix in (".parquet", ".feather"):
        parts.append({"a": [6], "c": pa.array(["u"]).dictionary_encode()})
    fill = dict.fromkeys("bc"[: len(parts) - 2], -1) if is_named else -1
    for number, columns in enumerate(parts):
        write_table(tmp_path / f"p{number}{suffix}", pa.table(columns))
    expected = [-1 if value is None else value for value in (3, None, None, None, None)]
    for how in ({}, {"manifest": True}, {}) if suffix[1] in "pf" else ({"manifest": True}, {}):
        d = dv.open(tmp_path, layout="parts", schema="union", fill=fill, **how)
        assert d.b().tolist() == expected[: len(d)]
        assert {"b_mask", "c_mask"}.isdisjoint(d._fields())
        if len(parts) > 3:
            assert d.c().tolist() == [-1] * 4 + [0]
            assert d.c._labels()().tolist() == ["u"]
    masked = dv.open(tmp_path, layout="parts", schema="union")  # the manifest is of no value
    assert masked.b_mask().tolist() == [value != -1 for value in expected[: len(d)]]


def write_table(path, table):
    if path.suffix == ".csv":
        write_cells(path, table.to_pylist())
    elif path.suffix == ".jsonl":
        write_rows(path, table.to_pylist())
    else:
        (pq.write_table if path.suffix == ".parquet" else feather.write_feather)(table, path)


def write_cells(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_a_value_stands_for_gaps_of_a_stream_that_its_first_part_has_not(tmp_path):
    cells = [[1, 2], [None, 3], [4]]
    for number, column in enumerate(cells):
        write_cells(tmp_path / f"p{number}.csv", [{"n": n, "x": x} for n, x in enumerate(column)])
    for fill in (-1, {"x": -1}):
        d = dv.open(tmp_path, layout="parts", fill=fill)
        assert d._fields() == ("n", "x")
        assert [batch.x().tolist() for batch in d._loader(2)] == [[1, 2], [-1, 3], [4]]
    with pytest.raises(ValueError, match=r"'x' of .*p1\.csv has missing values"):
        list(dv.open(tmp_path, layout="parts", fill={"n": -1}))


def test_a_stream_whose_first_part_has_no_record_says_so(tmp_path):
    for number, record in enumerate([None, {"x": 1}]):
        write_rows(tmp_path / f"p{number}.jsonl", [{"r": record}])
    with pytest.raises(ValueError, match=r"'r' of .*p0\.jsonl has no value.*p1\.jsonl; manifest"):
        list(dv.open(tmp_path, layout="parts"))
    write_rows(tmp_path / "p2.jsonl", [{"r": None}])
    with pytest.raises(ValueError, match=r"'r\.x' of .*p2\.jsonl has missing values.*p1\.jsonl"):
        list(dv.open([tmp_path / f"p{n}.jsonl" for n in (1, 2)], layout="parts"))


def test_a_stream_whose_first_part_has_no_value_says_so(tmp_path):
    for number, text in enumerate(EMPTY[".csv"][0][:2]):
        (tmp_path / f"p{number}.csv").write_text(text)
    with pytest.raises(ValueError, match=r"'w' of .*p0\.csv has no value.*p1\.csv; manifest=True"):
        list(dv.open(tmp_path, layout="parts"))


def test_a_part_of_a_stream_with_another_schema_is_refused_in_its_turn(tmp_path):
    folder = put_csv(tmp_path / "c", [0, 3])
    (folder / "part-1.csv").write_text("a,b\nx,y\n")
    passing = iter(dv.open(folder, layout="parts"))
    assert [next(passing).a() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match=r"'a' is .* in part-1\.csv, and .* in part-0\.csv"):
        next(passing)
    (folder / "part-1.csv").write_text("a,b\n,y\n7,z\n")
    with pytest.raises(ValueError, match=r"'a' of .*part-1\.csv has missing values.*manifest=True"):
        list(dv.open(folder, layout="parts"))
    with pytest.raises(
        ValueError, match=r"all parts in .*c, and of the format 'csv'.*manifest=True"
    ):
        dv.open(folder, layout="parts", schema="union")
    d = dv.open(folder, layout="parts", manifest=True, schema="union")
    assert d.a_mask().tolist() == [True, True, True, False, True]


@pytest.mark.parametrize("manifest", [False, True])
def test_a_part_of_other_values_than_when_it_was_counted_is_noticed(manifest, tmp_path):
    folder = put_npy(tmp_path / "x", X, range(0, 79, 13))
    d = dv.open(folder, layout="parts", manifest=manifest, parts_in_memory=1)
    assert_same(d[:13](), X[:13])
    np.save(folder / "part-00002.npy", X[26:39] + 1)
    expected = X + (np.arange(78) // 13 == 2)[:, None]
    assert_same(d[13:26](), X[13:26])
    with pytest.raises(
        ValueError, match=r"part-00002\.npy has changed since its rows were counted"
    ):
        d[26:39]()
    d._refresh()
    assert_same(d(), expected)
    assert_same(dv.open(folder, layout="parts")(), expected)  # the manifest is made anew, too


def test_a_part_that_changes_after_it_was_counted_is_noticed(tmp_path):
    d = dv.open(put_npy(tmp_path / "x"), layout="parts")
    np.save(tmp_path / "x" / "part-00003.npy", X[:3])
    with pytest.raises(
        ValueError, match=r"part-00003\.npy has changed since its rows were counted"
    ):
        d()


# -------------------- what is loaded when --------------------


@pytest.mark.parametrize("sampler", ["linear", *BY_NUMBER])
def test_each_part_is_read_once_an_epoch(sampler, tmp_path, openings):
    folder = put_npy(tmp_path / "x", X, range(0, 79, 6))
    d = dv.open(folder, layout="parts", parts_in_memory=8000)  # two parts, with what is noted
    for epoch in range(3):
        openings.counts()
        loader = d._loader(4, sampler=sampler, seed=epoch)
        rows = np.concatenate([batch() for batch in loader])
        assert_same(rows[rows[:, 0].argsort()], X)
        counts = openings.counts()
        assert len(counts) >= 11  # what is in memory from before need not be read
        assert set(counts) == {1}


@pytest.mark.parametrize("room", [1, 2, 4, 8])
@pytest.mark.parametrize("size", [7, 64, 130])
@pytest.mark.parametrize("format", ["npy", "parquet"])
def test_batches_of_several_parts_load_each_part_once_an_epoch(
    format, size, room, tmp_path, monkeypatch
):
    own, reads = np.arange(12 * 50 * 64.0).reshape(12, 50, 64), Counter()
    for number, rows in enumerate(own):
        path = tmp_path / f"p{number}.{format}"
        if format == "npy":
            np.save(path, rows)
        else:
            kind = pa.list_(pa.float64(), 64)
            pq.write_table(pa.table({"x": pa.array([*rows], kind)}), path)
    before = loaded.PartFile.read

    def read(part, names, first, stop):
        reads[part.title] += 1
        time.sleep(0.001)
        return before(part, names, first, stop)

    monkeypatch.setattr(loaded.PartFile, "read", read)
    d = dv.open(tmp_path, layout="parts", parts_in_memory=room * own[0].nbytes)
    loader = d._loader(size, sampler="part-permutation-permutation", seed=1)
    for _ in range(2):
        reads.clear()
        rows = np.concatenate([batch() if format == "npy" else batch.x() for batch in loader])
        assert settled()
        assert {*reads.values()} == {1}
        assert_same(rows[rows[:, 0].argsort()], own.reshape(-1, 64))


FIELDS = ["a", "b", "c"]


def put_fields(folder, kind, parts=12, rows=50, width=32):
    """Write three fields in parts, and return the rows of each; those of some differ in length."""
    folder.mkdir()
    whole = np.arange(parts * rows * width * 1.0).reshape(-1, width)
    rows_of_fields = {name: [*(whole + n)] for n, name in enumerate(FIELDS)}
    for name in {"ragged": "abc", "mixed": "b", "lines": "ac"}.get(kind, ""):
        lengths = itertools.cycle([3, 0, 32, 7, 1])
        rows_of_fields[name] = [row[: next(lengths)] for row in rows_of_fields[name]]
    for number in range(parts):
        own = slice(number * rows, (number + 1) * rows)
        put_part(folder / f"p{number}", kind, {n: row[own] for n, row in rows_of_fields.items()})
    return rows_of_fields


def put_part(path, kind, columns):
    if kind == "npz":
        np.savez(path, **{name: np.array(rows) for name, rows in columns.items()})
    elif kind == "folders":
        dv.View({name: np.array(rows) for name, rows in columns.items()})._save(path, "folder")
    elif kind == "lines":
        lines = zip(*[map(np.ndarray.tolist, rows) for rows in columns.values()], strict=True)
        text = "".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in lines)
        path.with_suffix(".jsonl").write_text(text)
    else:
        are_lists = {"ragged": "abc", "mixed": "b"}.get(kind, "")
        lengths = {
            name: -1 if name in are_lists else len(rows[0]) for name, rows in columns.items()
        }
        types = {name: pa.list_(pa.float64(), length) for name, length in lengths.items()}
        made = {name: pa.array(rows, types[name]) for name, rows in columns.items()}
        if kind == "nested":
            inner = pa.StructArray.from_arrays([made.pop("b"), made.pop("c")], names=["b", "c"])
            made["inner"] = inner
        pq.write_table(pa.table(made), path.with_suffix(".parquet"))


def open_fields(folder, kind, **options):
    how = {"layout": "parts", **options}
    if kind == "folders":
        return dv.open(sorted(folder.iterdir(), key=lambda one: int(one.name[1:])), **how)
    return dv.open(folder, **how, **({"manifest": True} if kind == "lines" else {}))


@pytest.fixture
def reads(monkeypatch):
    """How often each part is read."""
    found, before = Counter(), loaded.PartFile.read

    def read(part, names, first, stop):
        found[part.title] += 1
        time.sleep(0.001)
        return before(part, names, first, stop)

    monkeypatch.setattr(loaded.PartFile, "read", read)
    return found


def told(data):
    """Return the rows of each field of a batch, those of fields inside others, too."""
    data = data if isinstance(data, dict) else data._asdict()
    data = {**data, **data.get("inner", {})}
    return {name: [*map(np.ndarray.tolist, data[name])] for name in FIELDS}


def in_batches(d, **options):
    return map(told, d._loader(64, **options))


WAYS_OF_ALL = {
    "in order": in_batches,
    "part by part": partial(in_batches, sampler="part-permutation-permutation", seed=1),
    "padded": lambda d: in_batches(d, pad=dict.fromkeys(FIELDS, -1.0), seed=1),
    "transformed": lambda d: in_batches(d, transform=lambda row: row, pad="ragged"),
    "minibatches": lambda d: map(told, d._minibatches(64)),
    "even minibatches": lambda d: map(told, d._minibatches(60)),
    "at once": lambda d: [told(d)],
    "evaluated": lambda d: [told(dict(zip(FIELDS, dv.evaluate(*fields_of(d)), strict=True)))],
}


def fields_of(d):
    return [d.inner._field(name) if name not in d._fields() else d._field(name) for name in FIELDS]


KINDS_OF_FIELDS = ["npz", "folders", "parquet", "nested", "ragged", "mixed", "lines"]


@pytest.mark.parametrize("way", WAYS_OF_ALL)
@pytest.mark.parametrize("kind", KINDS_OF_FIELDS)
def test_all_fields_of_a_part_are_read_while_it_is_there(kind, way, tmp_path, reads):
    rows = put_fields(tmp_path / "x", kind)
    size = 50 * 3 * 32 * 8  # of the parts of which all rows have one length
    d = open_fields(tmp_path / "x", kind, parts_in_memory=int(2.2 * size))
    assert settled()
    reads.clear()
    if way == "padded":
        d = d if kind != "nested" else dv.View(dict(zip(FIELDS, fields_of(d), strict=True)))
    batches = list(WAYS_OF_ALL[way](d))
    assert settled()
    # On a busy machine a part that was loaded ahead may be let go before it is needed.
    assert len(reads) == 12 and sum(reads.values()) <= 14
    found = {name: [row for batch in batches for row in batch[name]] for name in FIELDS}
    firsts = [int(row[0]) // 32 for row in found["a"] if row] if way == "part by part" else []
    for name, own in found.items():
        expected = [row.tolist() for row in rows[name]]
        if way == "padded":
            pairs = zip(own, expected, strict=True)
            assert all(row == [*like, *[-1.0] * (len(row) - len(like))] for row, like in pairs)
        elif firsts:
            assert sorted(own) == sorted(expected)
        else:
            assert own == expected
    if firsts and kind in ("npz", "folders", "parquet", "nested"):
        for n, name in enumerate(FIELDS):
            assert found[name] == [(rows["a"][row] + n).tolist() for row in firsts]


@pytest.mark.parametrize("kind", KINDS_OF_FIELDS)
def test_rows_of_many_parts_load_each_once_a_batch(kind, tmp_path, reads):
    rows = put_fields(tmp_path / "x", kind)
    d = open_fields(tmp_path / "x", kind, parts_in_memory=int(2.2 * 50 * 3 * 32 * 8))
    order = np.random.default_rng(1).permutation(600)
    for chosen, options in ((d, {"sampler": order.tolist()}), (d[order], {})):
        reads.clear()
        for number, batch in enumerate(in_batches(chosen, **options)):
            own = order[64 * number :][:64]
            for name in FIELDS:
                assert batch[name] == [rows[name][row].tolist() for row in own]
        assert settled()
        assert sum(reads.values()) <= 12 * 10


@pytest.mark.parametrize(
    ("kind", "how"),
    [*[(kind, {}) for kind in KINDS_OF_FIELDS], ("mixed", {"kind": "process"})],
)
def test_workers_hand_out_rows_with_all_their_fields(kind, how, tmp_path):
    rows = put_fields(tmp_path / "x", kind)
    d = open_fields(tmp_path / "x", kind, parts_in_memory=int(2.2 * 50 * 3 * 32 * 8))
    with d._loader(64, sampler="permutation", seed=3, workers=2, **how) as loader:
        found = [(told(batch), loader.rows) for batch in loader]
    for name in FIELDS:
        for batch, own in found:
            assert batch[name] == [rows[name][row].tolist() for row in own]
    assert sorted(row for _, own in found for row in own) == list(range(len(rows[FIELDS[0]])))


def test_batches_of_several_parts_keep_gaps_and_masks(tmp_path, reads):
    rows = [{"n": n if n % 3 else None, "t": [n] * (n % 4) if n % 5 else None} for n in range(60)]
    for number in range(6):
        own = pa.Table.from_pylist(rows[10 * number : 10 * number + 10])
        pq.write_table(own, tmp_path / f"p{number}.parquet")
    d = dv.open(tmp_path, layout="parts", parts_in_memory=1)
    order = np.random.default_rng(2).permutation(60)
    batches = list(d._loader(16, sampler=order.tolist()))
    found = [row for batch in batches for row in pa.table(batch).to_pylist()]
    assert found == [rows[row] for row in order]
    assert sum(reads.values()) <= 6 * 4


@pytest.mark.parametrize("kind", ["ragged", "mixed", "lines"])
def test_ragged_fields_are_saved_part_by_part(kind, tmp_path, reads):
    rows = put_fields(tmp_path / "x", kind)
    d = open_fields(tmp_path / "x", kind, parts_in_memory=int(2.2 * 50 * 3 * 32 * 8))
    reads.clear()
    d._save(tmp_path / "saved", "folder", rows_per_part=70)
    assert settled()
    assert sum(reads.values()) <= 2 * 12  # all lengths are read first
    saved = dv.open(tmp_path / "saved")
    for name in FIELDS:
        assert [row.tolist() for row in saved._field(name)()] == [r.tolist() for r in rows[name]]


def test_fields_of_a_part_are_read_in_one_opening(tmp_path, openings):
    d = dv.open(by_saving(".npz")(tmp_path / "x"), layout="parts")
    openings.counts()
    for batch in d._loader(5, sampler="part-linear", fields=("x", "n")):
        assert_same(batch[0][:, 0], batch[1] * 3.0)
    assert openings.counts() == [1] * 4  # one part has no rows


def test_a_field_that_is_not_asked_for_is_not_read(tmp_path, monkeypatch):
    folder = by_saving(".npz")(tmp_path / "x")
    d = dv.open(folder, layout="parts")
    asked = []
    before = loaded.PartFile.read

    def read(part, names, first, stop):
        asked.extend(names)
        return before(part, names, first, stop)

    monkeypatch.setattr(loaded.PartFile, "read", read)
    order = d._sorted(by="n", reverse=True)
    assert order[:3].n().tolist() == [77, 76, 75]
    d._filter(d.n > 70).n()
    d._split([0.5, 0.5])[0].n()
    assert set(asked) == {("n",)}


def test_the_next_part_is_loaded_while_one_is_used(tmp_path, openings):
    folder = put_npy(tmp_path / "x", X, range(0, 79, 13))
    for order in ("part-linear", "part-permutation-permutation"):
        d = dv.open(folder, layout="parts")
        openings.counts()
        openings.threads.clear()
        batches = iter(d._loader(5, sampler=order, seed=5))
        next(batches), next(batches)
        assert settled()
        assert openings.counts() == [1, 1]
        assert openings.threads == ["MainThread", "dataview-parts"]
        assert all(settled() for _ in batches)
        assert openings.counts() == [1] * 4
        assert openings.most_at_once <= 1
        assert set(openings.threads[1:]) == {"dataview-parts"}


OF_PARTS = {
    "computed": lambda folder, **how: 2 * dv.open(folder, **how)[:, 0],
    "mapped": lambda folder, **how: dv.open(folder, **how)._map(lambda row: 2 * row()[0]),
    "items": lambda folder, **how: dv.open(folder, processor=lambda row: 2 * row()[0], **how).item,
    "items that were looked at": lambda folder, **how: OF_PARTS["items"](folder, **how)._probe(),
    "beside": lambda folder, **how: dv.View(x=2 * dv.open(folder, **how)[:, 0], n=np.arange(78)).x,
    "mapped and cut": lambda folder, **how: dv.open(folder, **how)._map(lambda r: 2 * r()[0])[8:70],
    "each third": lambda folder, **how: 2 * dv.open(folder, **how)[1:-2:3, 0],
    "fold": lambda folder, **how: 2 * dv.open(folder, **how)._folds(3)[1][0][:, 0],
    "chosen": lambda folder, **how: 2 * dv.open(folder, **how)[np.r_[2:38:3, 60:78]][:, 0],
}


@pytest.mark.parametrize("order", BY_NUMBER)
@pytest.mark.parametrize("made", OF_PARTS)
def test_what_is_made_of_rows_is_visited_part_by_part(tmp_path, openings, made, order):
    folder = put_npy(tmp_path / "x")
    expected = OF_PARTS[made](folder, layout="parts")().tolist()
    d = OF_PARTS[made](folder, layout="parts", parts_in_memory=2000)  # two parts at most
    assert settled()
    openings.counts()
    batches = [batch() for batch in d._loader(7, sampler=order, seed=3)]
    assert settled()
    assert {*openings.counts()} == {1}
    rows = np.concatenate(batches)
    assert sorted(rows) == expected
    parts = [np.searchsorted(EDGES, row // 6 + 1) for row in rows]
    assert len([*itertools.groupby(parts)]) == len(set(parts))
    assert (order == "part-linear") == (rows.tolist() == expected)


def test_memory_that_ends_while_a_part_is_loaded_ahead_is_told(tmp_path, monkeypatch):
    read = loaded.PartsTable.read

    def without_room(self, names, first, stop):
        if threading.current_thread().name == "dataview-parts":
            raise MemoryError("no room for the part ahead")
        return read(self, names, first, stop)

    def read_all():
        for start in range(0, len(d), 3):
            d[start : start + 3]()
            assert settled()

    d = dv.open(put_npy(tmp_path / "a", X, range(0, 79, 6)), layout="parts")
    with monkeypatch.context() as patched:
        patched.setattr(loaded.PartsTable, "read", without_room)
        with pytest.raises(MemoryError, match="no room for the part ahead"):
            read_all()
    assert_same(d(), X)  # and what is there by then is read as before


def test_no_more_than_one_part_is_loaded_ahead_at_a_time(tmp_path, openings):
    d = dv.open(put_npy(tmp_path / "x", X, range(0, 79, 6)), layout="parts")
    openings.counts()
    openings.seconds = 0.002
    assert len(list(d._loader(3, sampler="part-permutation-permutation"))) == 26
    assert openings.most_at_once == 1


def test_a_single_row_loads_its_part_alone(tmp_path, openings):
    d = dv.open(put_npy(tmp_path / "x", X, range(0, 79, 13)), layout="parts")
    openings.counts()
    assert_same(d[40](), X[40])
    assert settled()
    assert openings.counts() == [1]
    d = dv.open(put_csv(tmp_path / "c"), layout="parts", manifest=True)
    openings.counts()
    assert d[40]().tolist() == (40, "text 40")  # of two columns
    assert settled()
    assert openings.counts() == [1]


def test_parts_make_room_for_others(tmp_path, openings):
    folder = put_npy(tmp_path / "x", np.zeros((40, 1000)), range(0, 41, 4))
    one = 4 * 8000
    d = dv.open(folder, layout="parts", parts_in_memory=3 * one + 20_000)
    table = tables_of(d)[0]
    for batch in d._loader(2):
        batch()
        assert table._kept <= table.kept_bytes
    openings.counts()
    d[36:](), d[28:32]()
    assert openings.counts() == []
    d[:4]()
    assert openings.counts() == [1]
    small = dv.open(folder, layout="parts", parts_in_memory=one)  # no room for one ahead
    openings.counts()
    openings.threads.clear()
    assert_same(small(), np.zeros((40, 1000)))
    assert openings.counts() == [1] * 10
    assert set(openings.threads) == {"MainThread"}


def test_a_loop_needs_no_more_memory_than_it_was_given(tmp_path):
    folder = put_npy(tmp_path / "x", np.zeros((4000, 500)), range(0, 4001, 250))  # 1 MB each
    d = dv.open(folder, layout="parts", parts_in_memory="3200kB")
    loader = d._loader(10, sampler="part-permutation-permutation")
    tracemalloc.start()
    for batch in loader:
        batch()
    assert settled()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3_200_000 + 1_300_000  # and what is read of the next part at the moment


def test_what_was_handed_out_may_be_changed(tmp_path):
    d = dv.open(put_npy(tmp_path / "x"), layout="parts")
    for key in (slice(None), slice(20, 38), slice(3, 5), [3, 1], 7):
        d[key]()[...] = -1
    assert_same(d(), X)
    texts = dv.open(put_lines(tmp_path / "l"), layout="parts", manifest=True)
    texts[:20]()[...] = ""
    assert texts[3]() == "line 3"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_samplers_visit_several_tables_file_by_file(suffix, tmp_path):
    for number, (start, stop) in enumerate(itertools.pairwise(EDGES)):
        dv.View(a=np.arange(start, stop))._save(tmp_path / f"p{number}.{suffix}")
    d = dv.open(f"{tmp_path}/p*.{suffix}")
    rows = np.concatenate([b.a() for b in d._loader(9, sampler="part-linear-permutation")])
    for start, stop in itertools.pairwise(EDGES):
        assert sorted(rows[start:stop]) == [*range(start, stop)]
    assert rows.tolist() != [*range(78)]


def tables_of(view):
    return [part.source.table for part in below([node_of(view)]) if hasattr(part, "source")]


def test_threads_that_read_together_load_each_part_once(tmp_path, openings):
    d = dv.open(put_npy(tmp_path / "x", X, range(0, 79, 13)), layout="parts")
    openings.counts()
    openings.seconds = 0.002
    assert sorted(row for batch in d._loader(2, workers=4) for row in batch()[:, 0]) == [*X[:, 0]]
    assert openings.counts() == [1] * 6


def test_worker_processes_read_parts(tmp_path):
    d = dv.open(put_npy(tmp_path / "x"), layout="parts")
    with d._loader(7, workers=2, kind="process") as loader:
        assert_same(np.concatenate([batch() for batch in loader]), X)


# -------------------- what is left behind --------------------


def test_a_part_that_fails_is_told_where_it_is_needed_and_leaves_no_thread(tmp_path, openings):
    d = dv.open(put_npy(tmp_path / "x", X, range(0, 79, 13)), layout="parts")
    openings.bad.add("part-00002.npy")
    batches = iter(d._loader(13))
    assert_same(np.concatenate([next(batches)(), next(batches)()]), X[:26])
    with pytest.raises(OSError, match=r"part-00002\.npy is gone"):
        next(batches)
    assert settled()
    openings.bad.clear()
    assert_same(d(), X)


def test_a_closed_folder_says_so_and_loads_nothing(tmp_path, openings):
    d = dv.open(put_npy(tmp_path / "x", X, range(0, 79, 13)), layout="parts")
    openings.seconds = 0.05
    d[:5](), d[5:8]()
    d._close()
    assert not own_threads()
    with pytest.raises(ValueError, match="was closed"):
        d[0]()
    with dv.open(put_csv(tmp_path / "c"), layout="parts") as stream:
        passing = iter(stream)
        next(passing)
    with pytest.raises(ValueError, match="was closed"):
        list(passing)
    assert settled()


def test_nothing_is_left_of_a_view_that_is_gone(tmp_path):
    folder = by_saving(".h5")(tmp_path / "x")
    d = dv.open(folder, layout="parts")
    d.x[:5](), d.x[5:8]()
    stream = iter(dv.open(put_csv(tmp_path / "c"), layout="parts"))
    next(stream)
    del d, stream
    gc.collect()
    assert settled()
    handles = [os.path.realpath(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")]
    assert [one for one in handles if str(tmp_path) in one] == []


FORKED = """
import os, sys, threading, time
import numpy as np, dataview as dv
from dataview.formats import layouts
opened = layouts.opened
def slowly(path, **options):
    time.sleep(0.3 if threading.current_thread().name == "dataview-parts" else 0)
    return opened(path, **options)
layouts.opened = slowly
d = dv.open(sys.argv[1], layout="parts")
s = dv.open(sys.argv[2], layout="parts")
passing = iter(s)
next(passing)
d[:3](), d[3:6]()
pid = os.fork()
total, left = d[:, 0]._sum()().item(), sum(1 for _ in passing)
if not pid:
    os.write(1, f"{total} {left}\\n".encode())
    os._exit(0)
os.waitpid(pid, 0)
os.write(1, f"{total} {left}\\n".encode())
"""


def test_a_forked_process_reads_on(tmp_path):
    folder, lines = put_npy(tmp_path / "x"), put_csv(tmp_path / "c")
    found = printed("-W", "ignore::DeprecationWarning", "-c", FORKED, folder, lines)
    assert found.split() == [str(X[:, 0].sum()), "77"] * 2


# -------------------- parts that appear --------------------


def test_parts_that_appear_are_taken_on_request(tmp_path, openings):
    folder = put_npy(tmp_path / "x", X, [0, 20, 40])
    d = dv.open(folder, layout="parts")
    before, row = d[:], d[39]
    np.save(folder / "part-00002.npy", X[40:])
    openings.counts()
    assert len(d) == 40
    d._refresh()
    assert openings.files["part-00002.npy"] == 1
    assert openings.files["part-00001.npy"] == 0
    assert (len(d), len(before)) == (78, 40)
    assert_same(d(), X)
    assert_same(row(), X[39])
    np.save(folder / "part-00003.npy", X[:, :2])
    with pytest.raises(ValueError, match=r"part-00003\.npy"):
        d._refresh()
    assert len(d) == 78


def test_a_part_of_a_view_is_not_refreshed(tmp_path):
    d = dv.open(put_npy(tmp_path / "x"), layout="parts")
    for view in (d[1:], d + 1, dv.View(X), d[0]):
        with pytest.raises(TypeError, match="gave of a folder of parts"):
            view._refresh()
    d._close()
    with pytest.raises(ValueError, match="was closed"):
        d._refresh()


def test_a_stream_of_parts_is_refreshed(tmp_path):
    folder = put_csv(tmp_path / "c", [0, 3, 5])
    d = dv.open(folder, layout="parts")
    put_csv(folder, [5, 7], first=2)
    assert [row.a() for row in d] == [*range(5)]
    d._refresh()
    assert [row.a() for row in d] == [*range(7)]


# -------------------- counted once --------------------


def test_rows_are_counted_once_and_noted(tmp_path, openings):
    folder = put_csv(tmp_path / "c")
    stream = dv.open(folder, layout="parts")
    assert (stream._length(), openings.counts()) == (None, [1])
    d = dv.open(folder, layout="parts", manifest=True)
    assert (len(d), d.a[77]()) == (78, 77)
    openings.counts()
    d = dv.open(folder)  # the manifest says what it is
    assert len(d) == 78
    assert openings.counts() == [1]  # one that tells names, metadata and the like
    assert d.a._sum()() == sum(range(78))
    assert d.b[60]() == "text 60"
    assert dv.open(folder, layout="parts", manifest=False)._length() is None


def test_a_manifest_that_is_out_of_date_is_told_and_mended(tmp_path, openings, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = put_csv(tmp_path / "c", [0, 3, 5])
    dv.open(folder, layout="parts", manifest=True)
    put_csv(folder, [5, 9], first=2)
    openings.counts()
    with pytest.warns(
        RuntimeWarning, match=r"manifest of c is out of date: part-2\.csv was counted"
    ):
        d = dv.open(folder)
    assert len(d) == 9
    assert openings.counts() == [1, 1]
    dv.open(folder, manifest=True)
    assert len(dv.open(folder)) == 9
    (folder / "part-1.csv").write_text("a,b\n1,x\n")
    put_csv(folder, [9, 12, 12], first=3)
    told = r"out of date: 3 parts were counted anew, of which part-1\.csv is the first"
    with pytest.warns(RuntimeWarning, match=told):
        assert len(dv.open(folder)) == 11


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 2}', '{"version": 1, "parts": []}', "[" * 10**5]
)
def test_a_broken_manifest_says_so(tmp_path, text):
    folder = put_csv(tmp_path / "c")
    dv.open(folder, layout="parts", manifest=True)
    (folder / ".dataview-parts.json").write_text(text)
    with pytest.raises(ValueError, match=r"dataview-parts\.json.*manifest=True makes a new one"):
        dv.open(folder)


def test_a_manifest_of_an_older_version_says_so(tmp_path):
    folder = put_csv(tmp_path / "c")
    dv.open(folder, layout="parts", manifest=True)
    place = folder / ".dataview-parts.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {"version": 3}))
    with pytest.raises(
        ValueError, match=r"is of version 3, which lacks .*manifest=True makes a new"
    ):
        dv.open(folder)
    assert dv.open(folder, layout="parts", manifest=False)._length() is None
    assert len(dv.open(folder, layout="parts", manifest=True)) == len(dv.open(folder)) == 78


def test_a_manifest_of_a_newer_version_says_so(tmp_path):
    folder = put_csv(tmp_path / "c")
    dv.open(folder, layout="parts", manifest=True)
    place = folder / ".dataview-parts.json"
    told = json.loads(place.read_text())
    told |= {"version": told["version"] + 1, "parts": "of another kind"}
    place.write_text(json.dumps(told))
    with pytest.raises(ValueError, match=r"newer dataview.*install a newer.*or manifest=True"):
        dv.open(folder)
    assert dv.open(folder, layout="parts", manifest=False)._length() is None
    assert len(dv.open(folder, layout="parts", manifest=True)) == len(dv.open(folder)) == 78


@pytest.mark.parametrize("put", [put_npy, put_csv, put_lines, by_saving(".npz"), by_saving(".h5")])
def test_a_manifest_of_any_format(put, tmp_path):
    folder = put(tmp_path / "x")
    d = dv.open(folder, layout="parts", manifest=True)
    again = dv.open(folder)
    assert len(again) == 78
    assert d == again


def test_no_file_is_left_of_a_manifest_that_fails(tmp_path, openings):
    folder = put_csv(tmp_path / "c")
    openings.bad.add("part-3.csv")
    with pytest.raises(OSError, match=r"part-3\.csv is gone"):
        dv.open(folder, layout="parts", manifest=True)
    assert sorted(os.listdir(folder)) == [f"part-{number}.csv" for number in range(5)]


# -------------------- partitions --------------------


@given(st.integers(0, 30), st.integers(1, 9), st.booleans())
@examples(30)
def test_partitions_are_disjoint_and_have_all(tmp_path_factory, count, n, in_parts):
    folder = tmp_path_factory.mktemp("p")
    if in_parts:
        if not count:
            return
        put_npy(folder / "x", np.arange(2 * count), range(0, 2 * count + 1, 2))
        own = [dv.open(folder / "x", layout="parts", partition=(p, n)) for p in range(n)]
        units = [len(view) // 2 for view in own]
        whole = np.arange(2 * count)
    else:
        whole = np.arange(count)
        np.save(folder / "x.npy", whole)
        own = [dv.open(folder / "x.npy", partition=(p, n)) for p in range(n)]
        units = [len(view) for view in own]
    assert max(units) - min(units) <= 1
    assert_same(np.sort(np.concatenate([view() for view in own])), whole)
    for view in own:
        rows = [row for batch in view._loader(3, sampler="permutation") for row in batch().tolist()]
        assert sorted(rows) == sorted(view().tolist())  # an epoch is the partition's own


def test_every_item_with_a_label_of_its_own_is_divided_evenly(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(12800))
    own = [dv.open(tmp_path / "x.npy", partition=(p, 4)) for p in range(4)]
    assert [len(view) for view in own] == [3200] * 4
    assert_same(own[1]._codes()(), np.arange(12800)[1::4])


@pytest.mark.parametrize("schema", [None, "union"])
@pytest.mark.parametrize(
    ("suffix", "manifest"), [("parquet", None), ("parquet", True), ("csv", True), ("jsonl", True)]
)
def test_every_partition_has_the_same_columns(suffix, manifest, schema, tmp_path):
    tables = [{"n": [1, 2]}, {"n": [3, None]}, {"n": [4]}]
    if schema == "union":
        tables[2]["other"] = ["x"]
    for number, columns in enumerate(tables):
        dv.View(pa.table(columns))._save(tmp_path / f"part-{number}.{suffix}")
    how = {"layout": "parts", "schema": schema, "manifest": manifest}
    whole = dv.open(tmp_path, **how)
    for noted in (manifest, None):
        how["manifest"] = noted
        own = [dv.open(tmp_path, **how, partition=(p, 4)) for p in range(4)]
        assert [view._fields() for view in own] == [whole._fields()] * 4
        assert [view._dtype() for view in own] == [whole._dtype()] * 4
        assert [there for view in own for there in view.n_mask()] == [True, True, True, False, True]


def test_codes_of_labels_are_the_same_in_all_partitions(tmp_path, openings):
    labels = np.array(["C", "A", "A", "B", "B", "A", "A", "A", "A"])
    folder = put_npy(tmp_path / "y", labels, range(0, 10, 3))
    np.save(tmp_path / "y.npy", labels)
    with open(tmp_path / "y.csv", "w") as file:
        file.write("\n".join(["label", *labels]) + "\n")
    codes = np.searchsorted(["A", "B", "C"], labels)
    for p in range(4):
        one = dv.open(tmp_path / "y.npy", partition=(p, 4))
        assert_same(one._codes()(), codes[p::4])
        assert list(one._codes()._meta["labels"]()) == ["A", "B", "C"]
        assert one._labels()().tolist() == ["A", "B", "C"]
        table = dv.open(tmp_path / "y.csv", partition=(p, 4))
        assert_same(table.label._codes()(), codes[p::4])
        assert_same(table[:2].label._codes()(), codes[p::4][:2])
        assert table[:2].label._labels()().tolist() == ["A", "B", "C"]
        parts = dv.open(folder, layout="parts", partition=(p, 4))
        assert_same(parts._codes()(), codes[3 * p : 3 * p + 3])
        assert parts._labels()().tolist() == ["A", "B", "C"]
    openings.counts()
    dv.open(folder, layout="parts", partition=(1, 4))[1]()
    assert openings.files["part-00002.npy"] == 0  # unless labels are asked for


def test_labels_of_folders_are_the_same_in_all_partitions(tmp_path):
    for number, label in enumerate(["dog", "cat", "cat", "bird", "dog"]):
        (tmp_path / label).mkdir(exist_ok=True)
        np.save(tmp_path / label / f"{number}.npy", X[:2] + number)
    whole = dv.open(tmp_path, layout="files")
    for p in range(3):
        own = dv.open(tmp_path, layout="files", partition=(p, 3))
        assert_same(own.array(), whole.array[p::3]())
        assert_same(own.label._codes()(), whole.label._codes()[p::3]())


WRONG = {
    "cells": (".csv", b"a,b\n1,x\n2,y,z\n", r"part-1\.csv: line 3, 3 cells"),
    "bytes": (".csv", b"a,b\n1,x\n2,\xff\n", r"part-1\.csv: line 3 is no text in UTF-8"),
    "JSON": (".jsonl", b'{"a": 1}\n{"a":\n', r"line 2 of .*part-1\.jsonl cannot be parsed"),
    "text": (".txt", b"a\nb\xff\n", r"line 2 of .*part-1\.txt is no text in utf-8"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_error_in_a_stream_of_parts_names_the_file_and_the_line(wrong, tmp_path):
    suffix, content, told = WRONG[wrong]
    good = {".csv": b"a,b\n1,x\n", ".jsonl": b'{"a": 1}\n', ".txt": b"a\n"}[suffix]
    for number in range(3):
        (tmp_path / f"part-{number}{suffix}").write_bytes(content if number == 1 else good)
    d = dv.open(tmp_path, layout="parts")
    for ask in (lambda: [row() for row in d], lambda: d(), lambda: list(d._loader(2))):
        with pytest.raises(ValueError, match=told):
            ask()


def test_partitions_of_a_stream(tmp_path):
    folder = put_csv(tmp_path / "c", range(0, 11, 2))
    own = [dv.open(folder, layout="parts", partition=(p, 3)) for p in range(3)]
    assert [[row.a() for row in view] for view in own] == [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5]]
    assert list(dv.open(folder, layout="parts", partition=(6, 7))) == []


# -------------------- streams --------------------


def test_a_stream_of_unknown_length_ends_with_a_short_batch(tmp_path):
    folder = put_lines(tmp_path / "l", [0, 5, 5, 13])
    d = dv.open(folder, layout="parts")
    loader = d._loader(4)
    for _ in range(2):  # a second pass begins anew
        assert [len(batch()) for batch in loader] == [4, 4, 4, 1]
    in_parts = d._loader(4, sampler="part-linear")
    assert [len(batch()) for batch in in_parts] == [4, 4, 4, 1]
    with pytest.raises(TypeError, match=r"takes no sampler=, .*manifest=True"):
        d._loader(4, sampler="permutation")
    assert [len(batch()) for batch in d._minibatches(4)] == [4, 4, 4, 1]
    with pytest.raises(TypeError, match="length is unknown"):
        len(d)
    assert [str(row()) for row in d] == [f"line {n}" for n in range(13)]
    assert [str(row()) for row in pickle.loads(pickle.dumps(d))][-1] == "line 12"


@pytest.mark.parametrize("sampler", ["part-linear-permutation", "part-permutation-permutation"])
def test_rows_of_a_stream_come_in_the_order_of_samplers_of_parts(sampler, tmp_path, openings):
    folder = put_csv(tmp_path / "c", [0, 5, 5, 12, 19])
    d = dv.open(folder, layout="parts")
    loader = d._loader(4, sampler=sampler, seed=1)
    found = [[batch.a().tolist() for batch in loader] for _ in range(2)]
    assert found[0] != found[1]
    assert openings.counts() == [2] * 4  # the first one was kept open since it told the columns
    batches = d._minibatches(4, sampler=sampler, seed=1)
    assert [batch.a().tolist() for batch in batches] == found[0]
    even = d._filter(lambda row: row.a() % 2 == 0)._map(lambda row: row.a() * 10)
    rows = [10 * n for batch in found[0] for n in batch if n % 2 == 0]
    shared = even._loader(2, sampler=sampler, seed=1, shard=(1, 2))
    assert [n for batch in shared for n in batch().tolist()] == rows[1::2]
    next(iter(loader))
    state = loader.state_dict()
    again = dv.open(folder, layout="parts")._loader(4, sampler=sampler, seed=1)
    again.load_state_dict(state)
    assert [batch.a().tolist() for batch in again] == [batch.a().tolist() for batch in loader]
    with pytest.raises(ValueError, match="sampler"):
        d._loader(4, seed=1).load_state_dict(state)
    counted = dv.open(folder, layout="parts", manifest=True)._loader(4, sampler=sampler, seed=1)
    assert [[batch.a().tolist() for batch in counted] for _ in range(2)] == found


@pytest.mark.parametrize(
    "step",
    [
        lambda d: d[:5],
        lambda d: d._shuffled(1, pool=3),
        lambda d: d._repeat(2),
        lambda d: d._map_batches(lambda batch: batch.a(), batch_size=3),
        lambda d: dv.View(lambda: iter(range(3))),
    ],
)
def test_what_depends_on_the_order_of_parts_has_no_other_one(step, tmp_path):
    d = dv.open(put_csv(tmp_path / "c", [0, 5, 13]), layout="parts")
    d = step(d)
    with pytest.raises(TypeError, match="all rows of a folder of parts, one by one"):
        d._loader(4, sampler="part-linear-permutation")
    with pytest.raises(TypeError, match="all rows of a folder of parts, one by one"):
        d._minibatches(4, sampler="part-linear-permutation")


def test_steps_of_a_stream_of_parts(tmp_path):
    d = dv.open(put_csv(tmp_path / "c", [0, 5, 13]), layout="parts")
    assert d._fields() == ("a", "b")
    assert [row.a() for row in d._filter(lambda row: row.a() % 2)] == [*range(1, 13, 2)]
    assert [row() for row in d.a._map(lambda a: a * 2)] == [*range(0, 26, 2)]
    shuffled = [row.a().item() for row in d._shuffled(3, pool=5)]
    assert shuffled != [*range(13)] == sorted(shuffled)
    pooled = [n for batch in d._loader(4, pool=6, seed=1) for n in batch.a().tolist()]
    assert pooled != [*range(13)] == sorted(pooled)
    assert (d.a._probe() + 1)._sum()() == sum(range(14))


def put_json(folder, edges=EDGES):
    folder.mkdir(exist_ok=True)
    for number, (start, stop) in enumerate(itertools.pairwise(edges)):
        rows = [
            {"a": n, "b": f"text {n}", "c": n / 2 if n % 3 else None, "e": {"f": n - 30}}
            for n in range(start, stop)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"part-{number}.jsonl").write_text(text)
    return folder


ANSWERS = {
    "record": lambda d: d.e(),
    "field": lambda d: d.b(),
    "mask": lambda d: d.c_mask(),
    "nested": lambda d: d.e.f(),
    "several": lambda d: dv.evaluate(d.a, d.b),
    "mean": lambda d: d.a._mean()(),
    "computed": lambda d: (d.a * 2 + 1)(),
    "compared": lambda d: (d.e.f == 0)(),
    "of computed": lambda d: ((d.e.f - 1) * d.e.f)._sum(axis=0)(),
    "samples": lambda d: [row.e.f() for row in d],
    "fields": lambda d: [row() for row in d.c],
    "sliced": lambda d: [row.a() for row in d[3:60:7]],
    "repeated": lambda d: [row() for row in d.a._repeat(2)],
    "filtered": lambda d: d._filter(lambda row: row.a() % 3 == 1).b(),
    "mapped": lambda d: [row() for row in d._map(lambda row: row.a() * 2)],
    "mapped in blocks": lambda d: [
        row() for row in d.e.f._map_batches(lambda f: f + 1, batch_size=7)
    ],
    "minibatches": lambda d: [batch.b() for batch in d._minibatches(11)],
    "whole minibatches": lambda d: [batch.a() for batch in d._minibatches(50, tail="drop")],
    "loaded": lambda d: [*d._loader(11, fields=("a", "b", "c"))],
    "padded": lambda d: [batch.a() for batch in d._loader(50, tail="pad")][:1],
    "transformed": lambda d: [b() for b in d._loader(11, transform=lambda row: row.a() + 1)],
    "kept": lambda d: d._freeze().b(),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_stream_of_parts_answers_as_parts_that_are_counted(answer, tmp_path):
    folder = put_json(tmp_path / "j", [0, 20, 38, 63, 78])
    ask = ANSWERS[answer]
    found = ask(dv.open(folder, layout="parts"))
    np.testing.assert_equal(found, ask(dv.open(folder, layout="parts", manifest=True)))


def test_of_a_stream_of_parts_those_columns_are_read_that_are_asked_for(tmp_path, monkeypatch):
    folder = put_csv(tmp_path / "c")
    d = dv.open(folder, layout="parts")
    asked = []
    before = loaded.PartFile.read

    def read(part, names, first, stop):
        asked.append((part.path[-5], *names))
        return before(part, names, first, stop)

    monkeypatch.setattr(loaded.PartFile, "read", read)
    assert d.a._sum()() == sum(range(78))
    assert [batch.a().sum() for batch in d._minibatches(78)] == [sum(range(78))]
    assert sorted(asked) == [(str(part), ("a",)) for part in (0, 0, 1, 1, 3, 3, 4, 4)]


def test_batches_of_several_parts_open_each_part_once(tmp_path, openings):
    folder = put_csv(tmp_path / "c", range(0, 13, 2))
    d = dv.open(folder, layout="parts")
    for opened in (6, 6, 6):  # the first one was opened with the folder
        assert [batch.a().tolist() for batch in d._loader(7)] == [[*range(7)], [*range(7, 12)]]
        assert openings.counts() == [1] * opened


def test_the_columns_of_a_part_are_read_in_one_pass(tmp_path, monkeypatch):
    d = dv.open(put_csv(tmp_path / "c"), layout="parts")
    assert sum(len(batch) for batch in d._loader(20)) == 78  # which tells what is asked for
    asked = []
    before = CsvTable.read

    def read(table, names, first, stop):
        asked.append(sorted(names))
        return before(table, names, first, stop)

    monkeypatch.setattr(CsvTable, "read", read)
    assert sum(len(batch) for batch in d._loader(20)) == 78
    assert asked == [[("a",), ("b",)]] * 4


def test_a_part_that_was_loaded_before_anything_was_asked_for_is_opened_once(tmp_path, openings):
    folder = put_csv(tmp_path / "c", range(0, 9, 2))
    rows = iter(dv.open(folder, layout="parts"))
    first, _ = next(rows), next(rows)
    for thread in threading.enumerate():  # part 1 is loaded, and of none is known what is read
        if thread.name == ahead.NAME:
            thread.join()
    assert first.a() == 0
    later = [next(rows) for _ in range(3)]
    assert [row.a() for row in later] == [2, 3, 4]
    assert [row.a() for row in rows] == [5, 6, 7]
    assert openings.counts() == [1, 1, 1, 1]


def test_a_row_of_a_stream_of_parts_is_read_after_others_have_come(tmp_path):
    rows = list(dv.open(put_csv(tmp_path / "c"), layout="parts"))
    assert [rows[n].b() for n in (70, 0, 21, 77)] == ["text 70", "text 0", "text 21", "text 77"]


def test_parts_of_a_stream_are_opened_once_and_one_ahead(tmp_path, openings):
    folder = put_csv(tmp_path / "c", range(0, 13, 2))
    d = dv.open(folder, layout="parts")
    passing = iter(d)
    next(passing)
    assert settled()
    assert openings.counts() == [1, 1]
    openings.threads.clear()
    assert len(list(passing)) == 11
    assert openings.counts() == [1] * 4
    assert set(openings.threads) == {"dataview-parts"}
    small = dv.open(folder, layout="parts", parts_in_memory=30)
    openings.counts()
    openings.threads.clear()
    assert len(list(small)) == 12
    assert openings.counts() == [1] * 5  # the first one was opened for its columns
    assert set(openings.threads) == {"MainThread"}


def test_the_first_rows_and_the_first_parts(tmp_path, openings):
    folder = put_npy(tmp_path / "x", X, range(0, 79, 13))
    assert_same(dv.open(folder, layout="parts", max_rows=30)(), X[:30])
    assert_same(dv.open(folder, layout="parts", max_parts=2)(), X[:26])
    assert_same(dv.open(folder, layout="parts", max_parts=99, max_rows=99)(), X)
    np.save(tmp_path / "x.npy", X)
    assert_same(dv.open(tmp_path / "x.npy", max_rows=5)(), X[:5])
    assert_same(dv.open(tmp_path / "x.npy", max_rows=5, partition=(1, 2))(), X[1:11:2])
    lines = put_lines(tmp_path / "l", range(0, 13, 3))
    openings.counts()
    few = dv.open(lines, layout="parts", max_rows=2)
    assert [len(batch()) for batch in few._loader(4)] == [2]
    assert len(openings.counts()) <= 2
    stream = dv.open(lines, layout="parts", max_parts=2)
    assert len(list(stream)) == 6


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_the_first_parts_have_the_columns_of_all_that_a_manifest_knows(suffix, tmp_path):
    last = "x" if suffix == ".csv" else 2.5  # the others have no union of texts and numbers
    several = [{"a": [1, 2]}, {"a": [None], "b": [5]}, {"b": [last, None]}]
    for number, columns in enumerate(several):
        write_table(tmp_path / f"p{number}{suffix}", pa.table(columns))
    dv.open(tmp_path, layout="parts", schema="union", manifest=True)
    whole = dv.open(tmp_path, schema="union")
    few = dv.open(tmp_path, schema="union", max_parts=2)
    assert few._fields() == whole._fields() == ("a", "b", "a_mask", "b_mask")
    assert few.b._dtype() == whole.b._dtype() and few.a._dtype() == whole.a._dtype()
    assert len(few) == 3 and few.b_mask().tolist() == [False, False, True]
    own = dv.open(tmp_path, schema="union", max_parts=2, partition=(1, 2))
    for name in ("a", "b", "a_mask", "b_mask"):
        assert_same(few[name](), whole[:3][name]())
        assert_same(own[name](), whole[2:3][name]())
    assert own.b._labels()().tolist() == few.b._labels()().tolist() == few.b()[2:].tolist()
    few._refresh()
    assert few._fields() == whole._fields() and len(few) == 3
    one = dv.open(tmp_path, schema="union", max_parts=1)
    assert one._fields() == whole._fields() and one.b_mask().tolist() == [False, False]


def test_the_lines_of_a_growing_file(tmp_path):
    path = tmp_path / "log.txt"
    path.write_bytes(b"one\ntwo\r\nthr")
    passing = iter(dv.open(path, follow=5))
    assert [str(next(passing)()) for _ in range(2)] == ["one", "two"]
    with open(path, "ab") as file:
        file.write(b"ee\n")
    assert str(next(passing)()) == "three"
    writer = threading.Timer(0.05, lambda: path.write_bytes(path.read_bytes() + b"four\n"))
    writer.start()
    assert str(next(passing)()) == "four"
    writer.join()
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="has become shorter"):
        next(passing)
    path.write_bytes(b"1\n2\n3\n4\n5")
    d = dv.open(path, follow=0)
    assert [b().tolist() for b in d._minibatches(2)] == [["1", "2"], ["3", "4"], ["5"]]
    assert [str(one()) for one in d._map(lambda text: text + "!")][-1] == "5!"
    assert [b().tolist() for b in dv.open(path, follow=math.inf, max_rows=3)._loader(2)] == [
        ["1", "2"],
        ["3"],
    ]
    path.write_bytes(b"a\n\xff\n")
    with pytest.raises(ValueError, match=r"line 2 of .*log\.txt is no text in utf-8"):
        list(dv.open(path, follow=0))


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-16-le", "utf-32"]
)
def test_lines_that_grow_are_those_of_the_whole_file_in_every_encoding(
    tmp_path, monkeypatch, encoding
):
    path = tmp_path / "log.txt"
    text = "é\r\nü\n\n" + ("end" if encoding == "latin-1" else "\u0a0a\u0d0a\nend")
    path.write_bytes(text.encode(encoding))
    whole = dv.open(path, format="lines", encoding=encoding)().tolist()
    assert [str(line()) for line in dv.open(path, follow=0, encoding=encoding)] == whole
    monkeypatch.setattr(followed, "BLOCK", 1)  # a mark or a sign may come in pieces
    assert [str(line()) for line in dv.open(path, follow=0, encoding=encoding)] == whole


def test_a_mark_of_utf_8_is_no_text_of_a_growing_file(tmp_path):
    path = tmp_path / "log.txt"
    path.write_bytes(b"\xef\xbb\xbfone\n")
    assert [str(line()) for line in dv.open(path, follow=0)] == ["one"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("block", [1, 1 << 16])
def test_a_mark_says_the_encoding_of_a_growing_file(tmp_path, monkeypatch, encoding, block):
    monkeypatch.setattr(followed, "BLOCK", block)
    path = tmp_path / "log.txt"
    path.write_bytes("é\r\nü\n\nend".encode(encoding))
    lines = pickle.loads(pickle.dumps(dv.open(path, follow=0)))
    assert [str(line()) for line in lines] == ["é", "ü", "", "end"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("text", ["", "a", "\n"])
def test_a_growing_file_may_have_a_mark_alone(text, encoding, tmp_path):
    path = tmp_path / "log.txt"
    path.write_bytes(text.encode(encoding))
    wanted = text.splitlines()
    assert [str(line()) for line in dv.open(path, follow=0, encoding=encoding)] == wanted


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"follow": -1}, ValueError, "follow="),
        ({"follow": 1, "encoding": "klingon"}, ValueError, "encoding="),
        ({"follow": 1, "errors": "wrong"}, ValueError, "errors="),
        ({"follow": 1, "encoding": "cp037"}, ValueError, "end otherwise"),
        ({"follow": "long"}, ValueError, "follow="),
        ({"follow": math.nan}, ValueError, "follow="),
        ({"follow": 1, "format": "csv"}, TypeError, "lines of text"),
        ({"follow": 1, "layout": "parts"}, TypeError, "one file"),
        ({"follow": 1, "sep": ","}, TypeError, "no option 'sep'"),
        ({"follow": 1, "mode": "r+"}, ValueError, "mode 'r'; got 'r.'"),
    ],
)
def test_what_does_not_follow_a_file(tmp_path, options, error, told):
    (tmp_path / "x.txt").write_text("x\n")
    with pytest.raises(error, match=told):
        dv.open(tmp_path / "x.txt", **options)
    with pytest.raises(FileNotFoundError):
        dv.open(tmp_path / "none.txt", follow=1)
    with pytest.raises(IsADirectoryError):
        dv.open(tmp_path, follow=1)
    os.mkdir(tmp_path / "arrays")
    np.save(tmp_path / "arrays" / "x.npy", np.zeros(3))
    with pytest.raises(TypeError, match="of the format 'folder'"):
        dv.open(tmp_path / "arrays", follow=1)


def test_lines_from_a_socket():
    ours, theirs = socket.socketpair()
    with ours, theirs, theirs.makefile("r") as lines:
        stream = dv.View(lines)
        ours.sendall(b"".join(b"%d\n" % n for n in range(7)))
        ours.shutdown(socket.SHUT_WR)
        batches = stream._map(int)._minibatches(3)
        assert [batch().tolist() for batch in batches] == [[0, 1, 2], [3, 4, 5], [6]]
        with pytest.raises(TypeError, match="spent"):
            next(iter(stream))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(bytes(range(64)))
        ours.shutdown(socket.SHUT_WR)
        blocks = dv.View(
            lambda: map(partial(np.frombuffer, dtype="u1"), iter(partial(theirs.recv, 16), b""))
        )
        assert_same(np.concatenate([block() for block in blocks]), np.arange(64, dtype="u1"))


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_a_stream_is_read_no_further_than_its_buffer(prefetch):
    drawn, others = [], threading.enumerate()

    def numbers():
        for number in range(1000):
            drawn.append(number)
            yield number

    with dv.View(numbers)._loader(4, prefetch=prefetch) as loader:
        batches = iter(loader)
        for taken in range(1, 4):
            next(batches)
            time.sleep(0.05)  # so long as it takes to read too much
            assert len(drawn) <= 4 * (taken + prefetch + 1) + 4
    before = len(drawn)
    time.sleep(0.02)
    assert len(drawn) == before
    left = [one for one in threading.enumerate() if one not in others]
    assert [one for one in left if one.name == "dataview-loader"] == []


def test_an_endless_stream_is_pooled_and_stopped():
    stream = dv.View(itertools.count)._shuffled(1, pool=10)
    got = [one().item() for one in stream[:50]]
    assert len(set(got)) == 50
    assert max(got) < 60


def put_codes(folder, *parts, first=0):
    for number, texts in enumerate(parts, first):
        codes = pa.array(texts).dictionary_encode()
        lists = pa.ListArray.from_arrays(pa.array([0, 0, len(texts)]), codes)
        table = pa.table({"c": codes, "l": lists, "n": range(len(texts))})
        pq.write_table(table, folder / f"p-{number}.parquet")


def test_codes_of_all_parts_stand_for_the_labels_of_all(tmp_path):
    put_codes(tmp_path, ["u", "v"], ["v", "u"], ["z", None])
    for how in ({}, {"manifest": True}, {}):  # the last time as the manifest says
        d = dv.open(tmp_path, layout="parts", **how)
        for view in (d, pickle.loads(pickle.dumps(d))):
            assert view.c().tolist() == [0, 1, 1, 0, 2, -1]
            assert view.c._labels()().tolist() == ["u", "v", "z"]
            assert (view.c == "u")()[:4].tolist() == [True, False, False, True]
            assert [row.tolist() for row in view.l()] == [[], [0, 1], [], [1, 0], [], [2, -1]]
        for p in range(4):
            own = dv.open(tmp_path, layout="parts", partition=(p, 4), **how)
            assert own.c().tolist() == d.c[2 * p : 2 * p + 2]().tolist()
            assert own.c._labels()().tolist() == ["u", "v", "z"]
    put_codes(tmp_path, ["w", "z"], first=3)
    d._refresh()  # labels that are known keep their codes
    assert d.c[-4:]().tolist() == [2, -1, 3, 2]
    assert d.c._labels()().tolist() == ["u", "v", "z", "w"]


@pytest.mark.parametrize("write", [pq.write_table, feather.write_feather])
@pytest.mark.parametrize("lacking", [{}, {"c": pa.nulls(2)}], ids=["no column", "no value"])
@pytest.mark.parametrize("order", [1, -1])
def test_codes_that_a_part_lacks_are_no_label(write, lacking, order, tmp_path):
    codes = pa.array(["u", "v"]).dictionary_encode()
    tables = [pa.table({"n": [1, 2], **lacking}), pa.table({"n": [3, 4], "c": codes})][::order]
    suffix = ".parquet" if write is pq.write_table else ".feather"
    for number, table in enumerate(tables):
        write(table, tmp_path / f"p-{number}{suffix}")
    expected = [text for table in tables for text in ("uv" if table["n"][0].as_py() > 1 else "--")]
    for how in ({}, {"manifest": True}, {}):
        d = dv.open(tmp_path, layout="parts", schema="union", **how)
        assert d.c().tolist() == ["uv".find(text) for text in expected]
        assert d.c_mask().tolist() == [text != "-" for text in expected]
        assert (d.c == "u")().tolist() == [text == "u" for text in expected]


@pytest.mark.parametrize("write", [pq.write_table, feather.write_feather])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_codes_of_parts_without_a_label_are_codes(write, order, tmp_path):
    columns = [[], [None, None], ["u", "v", None]]
    suffix = ".parquet" if write is pq.write_table else ".feather"
    for number, which in enumerate(order):
        codes = pa.array(columns[which], pa.string()).dictionary_encode()
        write(pa.table({"c": codes}), tmp_path / f"p{number}{suffix}")
    expected = [text for which in order for text in columns[which]]
    for manifest in (None, True, None):
        d = dv.open(tmp_path, layout="parts", manifest=manifest)
        assert d.c().tolist() == [-1 if text is None else "uv".index(text) for text in expected]
        assert d.c._labels()().tolist() == ["u", "v"]
        own = dv.open(tmp_path, layout="parts", partition=(0, 3), manifest=manifest)
        assert pa.table(own)["c"].to_pylist() == columns[order[0]]


CODED = {
    "texts": (["u", None, "v"], ["v", "w"]),
    "numbers": ([7, None, 5], [5, 9]),
    "lists": ([["u"], None, ["v", "u"]], [["w"], []]),
}


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("schema", ["same", "union"])
@pytest.mark.parametrize("called", CODED)
def test_codes_in_one_part_and_values_in_another_are_values(called, schema, order, tmp_path):
    coded, plain = CODED[called]
    kinds = {"texts": pa.string(), "numbers": pa.int64(), "lists": pa.string()}
    codes = pa.dictionary(pa.int32(), kinds[called])
    codes = pa.list_(codes) if called == "lists" else codes
    columns = [pa.array(coded, codes), pa.array(plain), pa.array(coded, codes)][::order]
    for number, column in enumerate(columns):
        feather.write_feather(pa.table({"c": column}), tmp_path / f"p{number}.feather")
    expected = [value for column in columns for value in column.to_pylist()]
    for how in ({}, {"manifest": True}, {}):
        d = dv.open(tmp_path, layout="parts", schema=schema, **how)
        for view in (d, pickle.loads(pickle.dumps(d))):
            assert pa.table(view)["c"].to_pylist() == expected
            assert not pa.types.is_dictionary(pa.table(view)["c"].type)
        own = dv.open(tmp_path, layout="parts", schema=schema, partition=(0, 2), **how)
        ends = columns[0].to_pylist() + columns[2].to_pylist()
        assert pa.table(own)["c"].to_pylist() == ends


@pytest.mark.parametrize("lacks", [False, True])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i4"])
def test_codes_have_room_for_the_labels_of_all_parts(dtype, lacks, tmp_path):
    expected = []
    for number in range(3):
        labels = [f"{number}-{n}" for n in range(100)]
        codes = dv.View(np.arange(100, dtype=dtype))._with_meta(labels=labels)
        has_codes = not (lacks and number == 1)
        fields = {"c": codes} if has_codes else {}
        dv.View(n=np.arange(100), **fields)._save(tmp_path / f"p{number}.h5")
        expected += labels if has_codes else [None] * 100
    for manifest in (None, True, None):
        d = dv.open(tmp_path, layout="parts", schema="union", manifest=manifest)
        known = d.c._labels()().tolist()
        assert [known[code] if code >= 0 else None for code in d.c().tolist()] == expected
        assert d.c()[::-1].tolist() == d.c[::-1]().tolist()
        assert (d.c == "2-7")().tolist() == [label == "2-7" for label in expected]


def test_a_stream_whose_first_part_has_codes_tells_of_values(tmp_path):
    columns = [pa.array(["u"]).dictionary_encode(), pa.array(["v"])]
    system, files = fsspec.filesystem("memory"), {}
    for number, column in enumerate(columns):
        path = tmp_path / f"{number}.feather"
        feather.write_feather(pa.table({"c": column}), path)
        files[f"/coded/{number}.feather"] = path.read_bytes()
    system.pipe(files)
    dv.cache.set_root(tmp_path / "root")
    try:
        urls = [f"memory://coded/{number}.feather" for number in range(2)]
        with pytest.raises(ValueError, match=r"'c' of .*1\.feather has values.*manifest=True"):
            list(dv.open(urls, layout="parts"))
        turned = dv.open(urls[::-1], layout="parts")
        assert [row.c() for row in turned] == ["v", "u"]
        assert dv.open("memory://coded", layout="parts", manifest=True).c().tolist() == ["u", "v"]
    finally:
        dv.cache.set_root(None)
        system.rm("/coded", recursive=True)


def test_a_manifest_has_no_labels_that_are_no_text(tmp_path):
    for number in range(2):
        days = pa.array([datetime.date(2000, 1, 1 + number)]).dictionary_encode()
        feather.write_feather(pa.table({"d": days}), tmp_path / f"{number}.feather")
    d = dv.open(tmp_path, layout="parts")
    assert d.d().tolist() == [0, 1]
    with pytest.raises(TypeError, match=r"no word for the label np\.datetime64.* of 'd'"):
        dv.open(tmp_path, layout="parts", manifest=True)


def test_codes_of_a_stream_of_parts_stand_for_the_labels_of_the_first(tmp_path):
    system, files = fsspec.filesystem("memory"), {}
    for number, texts in enumerate((["u", "v"], ["v", "u"], ["z", "u"])):
        path = tmp_path / f"{number}.feather"
        feather.write_feather(pa.table({"c": pa.array(texts).dictionary_encode()}), path)
        files[f"/codes/{number}.feather"] = path.read_bytes()
    system.pipe(files)
    dv.cache.set_root(tmp_path / "root")
    try:
        stream = dv.open("memory://codes", layout="parts")
        assert [row.c().item() for row in stream[:4]] == [0, 1, 1, 0]
        told = r"field 'c' of .*2\.feather has codes of other labels .* \('z' is not.*manifest=True"
        with pytest.raises(ValueError, match=told):
            list(stream._loader(6))
        counted = dv.open("memory://codes", layout="parts", manifest=True)
        assert counted.c().tolist() == [0, 1, 1, 0, 2, 0]
    finally:
        dv.cache.set_root(None)
        system.rm("/codes", recursive=True)


def test_a_manifest_is_found_by_the_options_that_it_was_made_with(tmp_path, openings):
    folder = put_csv(tmp_path / "c", [0, 3, 5])
    how = {"layout": "parts", "missing": ("1", "x"), "types": {"b": "str"}}
    expected = [a != 1 for a in range(5)]
    assert dv.open(folder, **how, manifest=True).a_mask().tolist() == expected
    openings.counts()
    assert dv.open(folder, **how)._length() == 5
    assert openings.counts() == [1]
    assert dv.open(folder, **{**how, "types": {"b": str}})._length() is None  # not as it was noted
    openings.counts()
    with pytest.raises(TypeError, match=r"has no word for types=.*such as 'str' for str, or open"):
        dv.open(folder, layout="parts", manifest=True, types=str)
    assert openings.counts() == []  # before the parts are read


def test_a_broken_manifest_is_made_anew_or_passed_over(tmp_path):
    for number in range(2):
        np.save(tmp_path / f"p-{number}.npy", np.arange(3))
    (tmp_path / ".dataview-parts.json").write_text("{")
    with pytest.raises(ValueError, match=r"no manifest of parts, or a broken one; manifest=True"):
        dv.open(tmp_path, layout="parts")
    for manifest in (False, True, None):
        assert len(dv.open(tmp_path, layout="parts", manifest=manifest)) == 6


def test_a_part_whose_reading_was_interrupted_is_read_again(tmp_path, monkeypatch):
    """A thread that waits for a part gets the Ctrl-C of who reads it; the next reader does not."""
    for number in range(3):
        np.save(tmp_path / f"p{number}.npy", np.arange(6.0) + 6 * number)
    d = dv.open(tmp_path, layout="parts")
    read, interrupted = loaded.PartFile.read, []

    def stopped(self, *args):
        if threading.current_thread() is not threading.main_thread():
            interrupted.append(self.path)
            raise KeyboardInterrupt
        return read(self, *args)

    monkeypatch.setattr(loaded.PartFile, "read", stopped)
    for row in range(18):
        assert d[row]() == row
        ahead = node_of(d).source.table.ahead.thread
        if ahead is not None:
            ahead.join()
    assert interrupted


# ---------------------------------------------------------------- columns that cannot be read


def json_part(path, column):
    rows = [{"r": number, "b": value} for number, value in enumerate(column)]
    path.with_suffix(".jsonl").write_text("\n".join(map(json.dumps, rows)))


def arrow_part(path, column):
    months = [pa.MonthDayNano([1, 0, 0])] * len(column) if "x" in column else column
    table = pa.table({"r": range(len(column)), "b": months})
    feather.write_feather(table, path.with_suffix(".feather"))


@pytest.mark.parametrize("made", [json_part, arrow_part])
@pytest.mark.parametrize("order", [1, -1])
def test_what_one_part_cannot_read_is_not_missing(tmp_path, made, order):
    for number, column in enumerate([[1, 2], [3, "x"]][::order]):
        made(tmp_path / f"part-{number}", column)
    with pytest.raises(ValueError, match=rf"part-{int(order > 0)}.*field 'b'"):
        dv.open(tmp_path, layout="parts", schema="union", manifest=True)


@pytest.mark.parametrize("made", [json_part, arrow_part])
def test_what_a_manifest_knows_that_a_part_cannot_read_is_not_missing(tmp_path, made):
    how = {"layout": "parts", "schema": "union"}
    for number in range(2):
        made(tmp_path / f"part-{number}", [number, "x"])
    for manifest in (True, None):
        d = dv.open(tmp_path, **how, manifest=manifest)
        assert (d._fields(), d.r().tolist()) == (("r",), [0, 1, 0, 1])
    made(tmp_path / "part-2", [5, 6])  # which has the column
    told = r"part-0\..* is no part: field 'b' is not readable there"
    with pytest.raises(ValueError, match=told), pytest.warns(RuntimeWarning, match="out of date"):
        dv.open(tmp_path, **how)
    for again in (d._refresh, lambda: dv.open(tmp_path, **how, manifest=True)):
        with pytest.raises(ValueError, match=told):
            again()
    made(tmp_path / "part-2", [5, "x"])
    assert len(dv.open(tmp_path, **how, manifest=True)) == 6


def test_a_field_that_a_part_cannot_read_says_why(tmp_path):
    (tmp_path / "part-0.jsonl").write_text('{"r": 0}\n')
    json_part(tmp_path / "part-1", [1, "x"])
    for manifest in (True, None):
        d = dv.open(tmp_path, layout="parts", manifest=manifest)
        assert d.r().tolist() == [0, 0, 1]
        with pytest.raises(
            AttributeError, match=r"'b' is an integer in line 1 and a text in line 2"
        ):
            d.b()


@pytest.mark.parametrize("first", ["no values", "no rows"])
@pytest.mark.parametrize("layout", [None, "parts"])
@pytest.mark.parametrize("write", [pq.write_table, feather.write_feather])
def test_what_a_column_means_is_said_by_a_part_with_values(tmp_path, first, layout, write):
    zone = pa.array([datetime.datetime(2020, 1, 1)], pa.timestamp("us", "America/New_York"))
    kinds = {
        "t": zone,
        "u": pa.array([datetime.time(3)], pa.time64("us")),
        "d": pa.array([decimal.Decimal("1.25")], pa.decimal128(9, 2)),
        "k": pa.array(["x"]).dictionary_encode(),
    }
    full = pa.table({"a": [1], **kinds})
    empty = {"a": pa.array([0][: first == "no values"], pa.int64())}
    if first == "no values":
        empty |= dict.fromkeys(kinds, pa.nulls(1))
    suffix = ".parquet" if write is pq.write_table else ".feather"
    write(pa.table(empty), tmp_path / f"part-0{suffix}")
    write(full, tmp_path / f"part-1{suffix}")
    d = dv.open(tmp_path, schema="union", **({} if layout is None else {"layout": layout}))
    assert pa.table(d).schema.remove_metadata() == full.schema
    assert pa.table(d)[-1:].to_pylist() == full.to_pylist()
