"""Views saved as files and folders: opened again they are equal, and a failure leaves the old."""

import asyncio
import contextlib
import datetime
import errno
import gc
import importlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
import zipfile
import zoneinfo
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.storage import LocalStore

import dataview as dv
from children import printed, python
from dataview.errors import StreamError, UndeclaredError
from dataview.formats import saving
from dataview.formats.arrays import rows_added_to_hdf5
from dataview.formats.writers import arrays as writers
from dataview.index.sizes import sizes
from dataview.plan.kinds import Record, Sampled
from dataview.sources import new_folders
from dataview.view.face import node_of
from dataview.write.journal import Journal
from oracle import assert_same, examples, fill
from stores import no_file_beyond

X = np.arange(40.0).reshape(10, 4)
Y = np.arange(10) * 3
FORMATS = {"hdf5": "a.h5", "zarr": "a.zarr", "npz": "a.npz", "folder": "a"}


@pytest.fixture(params=FORMATS)
def saved(request, tmp_path):
    """Save a view in a format; give the path."""

    def save(view, **options):
        path = tmp_path / FORMATS[request.param]
        view._save(path, request.param, **options)
        return path

    save.format = request.param
    return save


def tree():
    return dv.View(
        x=dv.View(X, a=np.s_[:2], b=dv.field(np.s_[2:], c=0, d=[1])),
        part=dv.View(y=Y, rows=dv.ragged(np.arange(7.0), lengths=[1, 0, 2, 4, 0, 0, 0, 0, 0, 0])),
        _meta={"x": {"unit": "m", "range": [0, 39.5], "more": {"ok": None}}, "": {"title": "some"}},
    )


def check_equal(found, view, depth=4):
    """Check that two views have the same data, dtypes, fields and metadata, down to some depth."""
    node, other = node_of(found), node_of(view)
    assert repr(found._meta) == repr(view._meta)  # with NaN in it
    assert found._fields() == view._fields()
    assert node.extents == other.extents and node.dtype == other.dtype
    assert getattr(node, "rank", None) == getattr(other, "rank", None)
    assert getattr(node, "driver", None) == getattr(other, "driver", None)
    for name in view._fields() if depth else ():
        check_equal(found._field(name), view._field(name), depth - 1)
    if not isinstance(other, Record):
        for one, same in zip(rows_of(found), rows_of(view), strict=True):
            assert_same(one, same)


def rows_of(view):
    """Give the data of a view: of ragged rows each by itself."""
    if not isinstance(node_of(view), Sampled):
        return [view()]
    return [data for row in view for data in rows_of(row)]


# -------------------- every view comes back --------------------


def test_a_tree_of_fields_comes_back(saved):
    check_equal(dv.open(saved(tree())), tree())


HELD = [*"? i1 u2 >i4 f2 f4 >f8 c8 >c16 M8[s] >M8[D] m8[ms] U3 >U2 S3 V5".split()]
STRUCTURED = [("a", "<f4"), ("b", "<i2"), ("e", ">u4")]


@pytest.mark.parametrize("dtype", [*HELD, STRUCTURED], ids=str)
def test_every_dtype_comes_back(saved, dtype):
    for shape in [(7, 3), (0, 2), (2, 0), (5,)]:
        view = dv.View(fill(shape, np.dtype(dtype)))
        check_equal(dv.open(saved(view)), view)
    single = dv.View(fill((), np.dtype(dtype)))
    check_equal(dv.open(saved(single)), single)


VIEWS = {
    "computed": lambda: dv.View(X) * 2 - dv.View(X)._mean(axis=0),
    "not contiguous": lambda: dv.View(X.T)[::-1, 1::3],
    "minibatches": lambda: dv.View(X)._minibatches(5),
    "one sample": lambda: dv.View(x=1.5, y=X, _rank=0),
    "a row": lambda: tree()[3],
    "rows": lambda: tree()[[5, 2, 2]],
    "no rows": lambda: tree()[:0],
    "a driver": lambda: dv.View(long=Y, short=X[:3], _driver="short"),
    "part of a driver": lambda: dv.View(long=Y, short=dv.View(X, a=np.s_[:2]), _driver="short")[2:],
    "other lengths": lambda: dv.View(long=Y, short=X[:3]),
    "an added field": lambda: with_field(dv.View(X, a=np.s_[:2]), "y", Y),
    "a replaced field": lambda: with_field(dv.View(X, a=np.s_[:2]), "a", Y),
    "a beside one": lambda: with_field(dv.View(X), "y", np.arange(3)),
    "names": lambda: names(),
    "shapes": lambda: dv.ragged(np.arange(10.0), shapes=[(2, 3), (1, 4), (0, 2)]),
    "one axis alike": lambda: dv.ragged(np.arange(9.0), shapes=[(2, 3), (1, 3)]),
    "rows of rows": lambda: dv.ragged([[[1, 2], [3]], [], [[4, 5, 6]]]),
    "some ragged rows": lambda: dv.ragged(np.arange(9), lengths=[2, 3, 4])[[2, 0]],
    "no ragged rows": lambda: dv.ragged(np.arange(9), lengths=[2, 3, 4])[:0],
    "texts": lambda: dv.View(name=np.array(["é", "", "abc"]), x=np.arange(3)),
}


def with_field(view, name, data):
    view._set_field(name, dv.View(data))
    return view


def names():
    view = dv.View({"x": Y, "_id": Y + 3})
    for name in ("x/y", "..", "a b", "A B", "a_b", "dataview", "é", "zarr.json", "n" * 300):
        view._set_field(name, dv.View(Y + len(name)))
    return view


@pytest.mark.parametrize("kind", VIEWS)
def test_every_kind_of_view_comes_back(saved, kind):
    check_equal(dv.open(saved(VIEWS[kind]())), VIEWS[kind]())


def test_columns_of_a_structured_array_come_back_without_gaps(saved):
    view = dv.View(fill((6,), np.dtype(STRUCTURED)))._select("b", "e")
    assert dv.open(saved(view)) == view


@st.composite
def trees(draw, depth=2):
    """Draw a view with fields of random kinds, all with the same rows."""
    return draw(fields(draw(st.integers(0, 6)), depth))


@st.composite
def fields(draw, rows, depth):
    kind = draw(st.sampled_from(["array", "windows", "ragged", *(["record"] * 3 if depth else [])]))
    if kind == "record":
        names = draw(st.lists(st.sampled_from(["a", "b/c", "x", "é ü"]), min_size=1, unique=True))
        return dv.zip(**{name: draw(fields(rows, depth - 1)) for name in names})
    if kind == "ragged":
        lengths = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
        return dv.ragged(np.arange(sum(lengths)) * 1.5, lengths=np.array(lengths, int))
    width = draw(st.integers(1, 4))
    dtype = np.dtype(draw(st.sampled_from([*HELD, STRUCTURED])))
    view = dv.View(fill((rows, width), dtype))
    if kind == "windows" and dtype.names is None:
        start = draw(st.integers(0, width - 1))
        view = dv.View(view, w=dv.field(np.s_[start:], last=-1), i=start, all=[*range(width)][::-1])
    return view._with_meta(**draw(st.dictionaries(st.sampled_from("uv"), st.floats() | st.text())))


@examples(25)
@given(view=trees(), block=st.sampled_from([1, 60, 1 << 22]))
def test_random_trees_come_back(view, block, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trees")
    for name, place in FORMATS.items():
        with sizes.set(block_bytes=block):
            view._save(folder / place, name)
        found = dv.open(folder / place)
        check_equal(found, view)
    view._save(folder / "parts", "folder", rows_per_part=2)
    assert dv.open(folder / "parts")._fields() == view._fields()


# -------------------- streams --------------------


def test_samples_of_a_function_are_made_once(saved):
    made = []

    def sample(number):
        made.append(number)
        return {"x": X[number], "y": Y[number]}

    view = dv.View(sample, _length=10)._probe()
    made.clear()
    path = saved(view)
    assert sorted(made) == list(range(10))
    assert dv.open(path) == dv.View(x=X, y=Y)


def test_streams_side_by_side_are_read_once(saved):
    begun = []

    def samples():
        begun.append(1)
        return iter([{"x": X[n], "y": Y[n]} for n in range(10)])

    stream = dv.View(samples)._probe()
    begun.clear()
    assert dv.open(saved(stream)) == dv.View(x=X, y=Y)
    both = dv.View(x=stream.x * 2, part=dv.View(y=stream.y))
    begun.clear()
    assert dv.open(saved(both)) == dv.View(x=X * 2, part=dv.View(y=Y))
    assert len(begun) == 1


def test_what_has_no_end_or_no_shape_is_refused(saved):
    with pytest.raises(StreamError, match="never ends"):
        saved(dv.View(lambda n: n, _length=np.inf)._probe())
    with pytest.raises(UndeclaredError, match=r"'x'.*_probe"):
        saved(dv.View(x=dv.View(lambda n: n, _length=3), y=np.arange(3)))


# -------------------- what cannot be saved is refused before a byte --------------------


def test_what_a_format_cannot_hold_names_the_field(saved, tmp_path):
    with pytest.raises(TypeError, match=r"field 'part\.o' (is of dtype object.*_astype|has 1, )"):
        saved(dv.View(x=X, part=dv.View(o=np.array([1, "a"] * 5, object))))
    if saved.format in ("zarr", "hdf5"):
        odd = {"zarr": "g", "hdf5": [("t", "M8[s]")]}[saved.format]
        with pytest.raises(TypeError, match=r"the view is of dtype .*, and an? (HDF5 file|zarr)"):
            saved(dv.View(np.zeros(3, odd)))
    assert os.listdir(tmp_path) == []


TEXTS = np.array(["a" * 40, "b"], object)
UNFIT = {
    "texts in npz": ("a.npz", TEXTS, r"_astype\('U30'\) if none is longer"),
    "texts in zarr": ("a.zarr", TEXTS, r"_astype\('T'\), or save"),
    "columns": ("a.csv", np.zeros((10, 3)), r"of each column, such as dv\.View\(a=d\[:, 0\]"),
    "wide": ("a.jsonl", np.zeros(3, np.longdouble), r"_astype\('f8'\)"),
}


@pytest.mark.parametrize("unfit", UNFIT)
def test_what_a_format_cannot_hold_is_told_with_what_fits(tmp_path, unfit):
    name, array, remedy = UNFIT[unfit]
    with pytest.raises(TypeError, match=remedy):
        dv.View(o=array)._save(tmp_path / name)


def test_texts_in_zarr_are_whole_as_the_error_says(tmp_path):
    dv.View(o=dv.View(TEXTS)._astype("T"))._save(tmp_path / "a.zarr")
    assert dv.open(tmp_path / "a.zarr").o().tolist() == TEXTS.tolist()


NAMES = {
    "^a": "^a",
    "a": "a",
    "x y": "x y",
    "€ (é)": "€ (é)",
    "p/q": "p_q_2",
    "p_q": "p_q",
    "..": "field",
}


@pytest.mark.parametrize("name", ["x.npz", "x.h5", "x.zarr", "x"])
def test_arrays_have_the_names_of_their_fields(name, tmp_path):
    """Others look for them by these; what no place can be called takes no other field's name."""
    d = dv.View(**{own: np.arange(3) + number for number, own in enumerate(NAMES)})
    d._save(tmp_path / name, format=None if "." in name else "folder")
    assert dv.open(tmp_path / name)._fields() == tuple(NAMES)
    for number, (own, called) in enumerate(NAMES.items()):
        expected = np.arange(3) + number
        assert np.array_equal(dv.open(tmp_path / name)[own](), expected)
        assert np.array_equal(by_its_library(tmp_path / name, called), expected)


def by_its_library(path, name):
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            return file[name][...]
    if path.suffix == ".zarr":
        return zarr.open_group(path, mode="r")[name][...]
    if path.suffix == ".npz":
        with np.load(path) as file:
            return file[name]
    return np.load(path / f"{name}.npy")


def test_formats_whose_library_is_missing_are_not_named(tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "find_spec", lambda library: None)
    monkeypatch.setattr(writers, "import_library", None)
    with pytest.raises(TypeError, match=r"field 'o' is of dtype object.*: json lines, csv$"):
        dv.View(o=np.array([1, "a"], object))._save(tmp_path / "a.npz")


def test_texts_of_any_length_are_held_by_hdf5(tmp_path):
    names = np.array(["a", "é" * 70, ""], object)
    dv.View(name=names, x=[1, 2, 3])._save(tmp_path / "a.h5")
    with dv.open(tmp_path / "a.h5", "r+") as found:
        check_equal(found, dv.View(name=names, x=[1, 2, 3]))
        found._append({"name": ["new"], "x": [4]})
        found._save(tmp_path / "b.h5")
    assert dv.open(tmp_path / "b.h5").name().tolist() == [*names, "new"]


def test_missing_texts_in_hdf5_are_none_again(tmp_path):
    (tmp_path / "a.csv").write_text("n,t\n1,x\n2,\n3,zz\n")
    table = dv.open(tmp_path / "a.csv")
    table._save(tmp_path / "a.h5")
    with dv.open(tmp_path / "a.h5") as found:
        assert found == table and found.t().tolist() == ["x", None, "zz"] and found.t[1]() is None
        assert pickle.loads(pickle.dumps(found.t[[1, 0]]))().tolist() == [None, "x"]
    with dv.open(tmp_path / "a.h5", "r+") as found:
        found.t[...] = found.t[::-1]
        found.t[0] = None
        found.t[2] = ""
        found._append(table)
        assert found.t().tolist() == [None, None, "", "x", None, "zz"]
        assert found.t_mask().tolist() == [False, False, True, True, False, True]
    table[1]._save(tmp_path / "b.h5")
    assert dv.open(tmp_path / "b.h5").t() is None


@pytest.mark.parametrize("rows", [None, 2])
def test_texts_missing_in_lists_are_missing_in_hdf5(rows, tmp_path):
    columns = {
        "lists": [["a", None], None, [], ["", "b", None]],
        "deep": [[["a", None], None], [], None, [[None], [""], []]],
        "whole": [["a"], ["b", "c"], [], ["d"]],
        "pairs": pa.array([["a", "b"], None, ["", "c"], None], pa.list_(pa.string(), 2)),
    }
    table = pa.table(columns)
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=3)
    for d in (dv.View(table), dv.open(tmp_path / "a.parquet")):
        d._save(tmp_path / "a.h5", **({} if rows is None else {"chunks": rows}))
        with dv.open(tmp_path / "a.h5") as found:
            assert pa.table(found).to_pylist() == table.to_pylist()
            assert found.lists[::-1][0]().tolist() == ["", "b", None]
            again = pickle.loads(pickle.dumps(found))
            assert pa.table(again[1:]).to_pylist() == table[1:].to_pylist()
            found._save(tmp_path / "b.parquet")
        assert pq.read_table(tmp_path / "b.parquet").to_pylist() == table.to_pylist()


def test_a_text_missing_in_a_list_of_one_length_is_told_with_what_keeps_it(tmp_path):
    pairs = pa.array([["a", None], None], pa.list_(pa.string(), 2))
    with pytest.raises(TypeError, match=r"field 'x' has None, .* \.parquet, \.feather and \.jsonl"):
        dv.View(pa.table({"x": pairs}))._save(tmp_path / "a.h5")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("value", [None, 3, b"a", "a\0b"])
def test_objects_that_are_no_texts_are_told_with_their_field(value, tmp_path):
    dv.View([1])._save(tmp_path / "a.h5")
    with pytest.raises(TypeError, match=r"field 'name' has .*, and of Python's objects HDF5 holds"):
        dv.View(name=np.array(["a", value], object))._save(tmp_path / "a.h5")
    assert dv.open(tmp_path / "a.h5")() == [1] and os.listdir(tmp_path) == ["a.h5"]


@pytest.mark.parametrize(
    "value", [(1, 2), {1, 2}, np.complex64(1), np.arange(2), {"a": [object()]}, {1: "a"}]
)
def test_metadata_that_is_no_text_names_field_and_key(saved, value, tmp_path):
    with pytest.raises(TypeError, match=r"metadata 'odd' of field 'x'.*convert it"):
        saved(dv.View(x=X, _meta={"x": {"odd": value}}))
    assert os.listdir(tmp_path) == []


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
VALUES = [
    b"a\0", Decimal("1.50"), datetime.date(2020, 1, 2), datetime.time(3, 4, 5, 6),
    datetime.datetime(2020, 1, 2, 3), datetime.datetime(2020, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
    datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC), datetime.timedelta(-1, 5, 7),
    np.timedelta64(3, "D"), {"datetime64[D]": "2020-01-01"}, {"timedelta64[s]": 3},
    {"builtins.dict": [["a", 1]]}, {"decimal.Decimal": {"datetime64[D]": "2020-01-01"}},
    {"builtins.bytes": "YQ=="}, {"a": {"b": [b"c"]}}, [{"datetime.date": "x"}, {}],
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("suffix", ["npz", "h5", "parquet", "feather"])
def test_metadata_come_back_as_they_are(value, suffix, tmp_path):
    dv.View(x=X, _meta={"x": {"odd": value}})._save(tmp_path / f"a.{suffix}")
    found = dv.open(tmp_path / f"a.{suffix}").x._meta["odd"]
    assert found == value and type(found) is type(value)
    assert getattr(found, "tzinfo", None) == getattr(value, "tzinfo", None)


SCALARS = [
    np.float64(1.5), np.float32(0.1), np.float16(2), np.int64(-3), np.uint8(7), np.True_,
    np.str_("é"), [np.int32(1), np.float64(2.5)], {"a": {"b": [np.int8(4)]}}, np.float64(np.inf),
]  # fmt: skip


@pytest.mark.parametrize("value", SCALARS, ids=repr)
@pytest.mark.parametrize("suffix", ["npz", "h5", "zarr", "parquet", "feather"])
def test_scalars_of_numpy_in_metadata_come_back_as_those_of_python(value, suffix, tmp_path):
    meta = {"x": {"odd": value}, "": {"whole": value}}
    dv.View(x=X[:, 0], _meta=meta)._save(tmp_path / f"a.{suffix}")
    found = dv.open(tmp_path / f"a.{suffix}")
    for one in (found.x._meta["odd"], found._meta["whole"]):
        kinds = [type(part) for part in (one if isinstance(one, list) else [one])]
        assert one == value and not any(issubclass(kind, np.generic) for kind in kinds)
    if suffix == "h5" and value is SCALARS[0]:
        with h5py.File(tmp_path / "a.h5") as file:  # other libraries see it, too
            assert file["x"].attrs["odd"] == value


@pytest.mark.clients
def test_a_time_of_pandas_that_is_finer_than_those_of_python_is_refused(tmp_path):
    import pandas as pd

    fine = pd.Timestamp("2020-01-01") + pd.Timedelta(1, "ns")
    with pytest.raises(TypeError, match=r"metadata 'odd' of field 'x'.*Timestamp.*convert it"):
        dv.View(x=X, _meta={"x": {"odd": fine}})._save(tmp_path / "a.npz")


@pytest.mark.parametrize("suffix", ["npz", "h5", "parquet", "feather"])
@pytest.mark.parametrize(
    "labels",
    [np.array(["a", "b"]), ("a", "b"), [b"a", b"b\0"], ["a", "b\0"], np.array([b"a", b"b"])],
    ids=repr,
)
def test_labels_of_any_kind_of_list_are_saved(labels, suffix, tmp_path):
    codes = [0, 1, -1, 0]
    d = dv.View(x=dv.View(np.array(codes))._with_meta(labels=labels))
    d._save(tmp_path / f"a.{suffix}")
    found = dv.open(tmp_path / f"a.{suffix}")
    assert found.x().tolist() == codes and found.x._meta["labels"] == [*labels]
    assert d.x._labels()().tolist() == [*labels]


WRONG = [
    ("npy", {"chunks": 3}, TypeError, "no chunks"),
    ("npz", {"compression": "zstd"}, ValueError, "one of 'none', 'gzip'"),
    ("hdf5", {"compression": "gzp"}, ValueError, "did you mean 'gzip'"),
    ("hdf5", {"chunks": (0, 1)}, ValueError, "number of rows"),
    ("hdf5", {"chunks": 10**9}, ValueError, r"/a: .*=10{9}, .* the view .* 32000000000 bytes"),
    ("zarr", {"chunks": 10**18}, ValueError, "at most 1073741824 here; give fewer rows"),
    ("hdf5", {"chunks": (3, 2, 1)}, ValueError, r"chunks=\(3, 2, 1\) has 3 axes.*has 2"),
    ("zarr", {"chunks": [3, 2, 1]}, ValueError, "has 3 axes"),
    ("hdf5", {"rows_per_part": 3}, TypeError, "format='folder'"),
    ("folder", {"rows_per_part": 0}, ValueError, "from 1 on"),
    ("safetensors", {}, ValueError, "views are saved as"),
    ("xlsx", {}, ValueError, "format is one of"),
]


@pytest.mark.parametrize(("name", "options", "error", "text"), WRONG)
def test_options_that_a_format_lacks_are_refused(name, options, error, text, tmp_path):
    with pytest.raises(error, match=text):
        dv.View(X)._save(tmp_path / "a", name, **options)
    assert os.listdir(tmp_path) == []


def test_a_name_without_a_known_suffix_is_refused(tmp_path):
    for name in ("a.xyz", "a", "a.zarr.zip"):
        with pytest.raises(ValueError, match=r"views are saved as \.npy, \.npz, \.h5"):
            dv.View(X)._save(tmp_path / name)
    for make in (dv.View(X)._save, lambda path: dv.open(path, "w", shape=3)):
        with pytest.raises(ValueError, match="at the path of a file or a folder; got ''"):
            make("")


@pytest.mark.parametrize("name", ["a.h5/", "a.npy/", "a.npz//", "a.csv/", "a.parquet/", "b.zarr/"])
def test_a_file_has_no_slash_behind_its_name(tmp_path, name):
    x, path = np.arange(3), f"{tmp_path}/{name}"
    if name == "b.zarr/":
        dv.View(x)._save(path)
        assert_same(dv.open(path)(), x)
        return
    with pytest.raises(ValueError, match=r"ends as the path of a folder.*leave out the '/', or"):
        dv.View(x)._save(path)
    assert os.listdir(tmp_path) == []
    dv.View(x=x)._save(path, format="folder")
    assert_same(dv.open(path).x(), x)


def test_a_new_file_has_no_slash_behind_its_name(tmp_path):
    with pytest.raises(ValueError, match=r"ends as the path of a folder"):
        dv.open(f"{tmp_path}/a.npy/", "w", shape=(3,))
    dv.View(X)._save(tmp_path / "a.npy")
    with pytest.raises(FileNotFoundError, match=r"a\.npy' is a file, whose path does not end"):
        dv.open(f"{tmp_path}/a.npy/")


def test_a_name_that_ends_as_a_folder_or_is_to_have_parts_is_one(tmp_path):
    view = dv.View(x=X)
    view._save(f"{tmp_path}/a/")
    view._save(tmp_path / "b", rows_per_part=4)
    view._save(f"{tmp_path}/c.zarr/")
    for name in ("a", "b", "c.zarr"):
        assert_same(dv.open(tmp_path / name).x(), X)
    assert (tmp_path / "a/x.npy").exists() and len([*(tmp_path / "b").rglob("*.npy")]) > 1
    assert (tmp_path / "c.zarr/zarr.json").exists()
    with dv.open(f"{tmp_path}/d/", "w", shape=(2, 3)) as d:
        d[:] = 1
    assert dv.open(tmp_path / "d")._sum()() == 6


# -------------------- options --------------------


def test_others_read_what_is_saved(tmp_path):
    tree()._save(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        assert_same(file["part/y"][:], Y)
        assert file["x"].maxshape == (None, 4) and file["x"].chunks[1] == 4
        assert json.loads(file.attrs["dataview"])["version"] == 1
    tree()._save(tmp_path / "a.zarr")
    assert_same(zarr.open_group(tmp_path / "a.zarr", mode="r")["part/y"][:], Y)
    tree()._save(tmp_path / "a.npz")
    assert_same(np.load(tmp_path / "a.npz")["part/y"], Y)
    tree()._save(tmp_path / "a", "folder")
    assert_same(np.load(tmp_path / "a" / "part" / "y.npy"), Y)


NOTES = {"unit": "m", "range": [0, 39.5], "count": 3, "is_raw": True, "names": ["a", "é"]}
UNSEEN = {
    "more": {"ok": None}, "none": None, "mixed": [1, "a"], "empty": [], "zero": "a\0b",
    "CLASS": "x",
    "_FillValue": 0, "huge": 2**80, "long": "a" * 100_000, "nested": [[1]], "a/b": 1,
}  # fmt: skip


def attributes_of(path, place):
    """Give the attributes of a dataset or a group as other libraries see them."""
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            found = dict(file[place].attrs)
        return {
            name: value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
            for name, value in found.items()
        }
    return (
        dict(zarr.open_group(path, mode="r")[place].attrs)
        if place != "/"
        else dict(zarr.open_group(path, mode="r").attrs)
    )


@pytest.mark.parametrize("name", ["a.h5", "a.zarr"])
def test_other_libraries_see_metadata_as_attributes(name, tmp_path):
    path = tmp_path / name
    view = dv.View(
        x=X, part=dv.View(y=Y, rows=dv.ragged([[1], [2]]))._with_meta(of="part"),
        _meta={"x": NOTES | UNSEEN, "": {"title": "some", "odd": {}}},
    )  # fmt: skip
    view._save(path)
    found = attributes_of(path, "/")
    assert found.pop("dataview") and found == {"title": "some"}
    assert attributes_of(path, "x") == NOTES and attributes_of(path, "part") == {"of": "part"}
    again = dv.open(path)
    check_equal(again, view)
    again._save(tmp_path / f"again-{name}")
    assert attributes_of(tmp_path / f"again-{name}", "x") == NOTES
    check_equal(dv.open(tmp_path / f"again-{name}"), view)


@pytest.mark.parametrize("name", ["a.h5", "a.zarr"])
def test_attributes_that_others_have_changed_are_seen(name, tmp_path):
    dv.View(X)._with_meta(unit="m", more={"a": 1})._save(tmp_path / name)
    if name == "a.h5":
        with h5py.File(tmp_path / name, "r+") as file:
            file["data"].attrs.update(unit="cm", other=1)
    else:
        zarr.open_group(tmp_path / name, mode="r+")["data"].attrs.update(unit="cm", other=1)
    assert dv.open(tmp_path / name)._meta == {"unit": "cm", "more": {"a": 1}, "other": 1}


def test_a_file_of_an_array_alone_says_what_is_not_in_it(tmp_path):
    path = tmp_path / "a.npy"
    view = dv.View(X, first=np.s_[0], _meta={"": {"unit": "m"}})
    with pytest.warns(RuntimeWarning, match=r"alone.*fields 'first' and .* 'unit'.*\.h5"):
        view._save(path)
    view._save(tmp_path / "a.npz")
    with pytest.warns(RuntimeWarning, match=r"alone.*fields 'first' and .* 'unit'.*\.h5"):
        dv.open(path, "w", like=view)
    dv.View(RECORDS)._save(path)
    dv.View(x=X).x._save(path)
    assert_same(dv.open(path)(), X)


@pytest.mark.parametrize(
    ("name", "compression"),
    [("hdf5", "gzip"), ("hdf5", "lzf"), ("npz", "gzip")]
    + [("zarr", name) for name in ("gzip", "zstd", "blosc", "none")],
)
def test_compression(name, compression, tmp_path):
    path = tmp_path / FORMATS[name]
    for view in (dv.View(x=np.zeros((1000, 50))), dv.View(x=np.zeros((1000, 50), ">f8"))):
        view._save(path, compression=compression)
        assert dv.open(path) == view
        size = sum(file.stat().st_size for file in path.rglob("*")) or path.stat().st_size
        assert size < 100_000 or compression == "none"


def test_chunks_are_whole_rows_or_as_asked(tmp_path):
    view = dv.View(np.zeros((3000, 500)))
    for chunks, expected in [(None, (262, 500)), (100, (100, 500)), ((7, 50), (7, 50))]:
        view._save(tmp_path / "a.h5", chunks=chunks)
        assert h5py.File(tmp_path / "a.h5")["data"].chunks == expected
        view._save(tmp_path / "a.zarr", chunks=chunks)
        assert zarr.open_group(tmp_path / "a.zarr", mode="r")["data"].chunks == expected


def test_a_shape_of_chunks_is_for_the_field_with_the_most_axes(tmp_path):
    dv.View(x=X, y=Y)._save(tmp_path / "a.h5", chunks=(3, 2))
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"].chunks == (3, 2) and file["y"].chunks == (3,)
    with pytest.raises(ValueError, match="has 3 axes"):
        dv.open(tmp_path / "b.h5", "w", shape=(4, 4), chunks=(1, 1, 1))


@pytest.mark.parametrize("dtype", [">f8", ">i2", "<i4", [("a", ">f4"), ("b", "<i2")]])
def test_parts_keep_the_byte_order(dtype, tmp_path):
    view = dv.View(x=fill((10, 3), np.dtype(dtype)))
    view._save(tmp_path / "a", "folder", rows_per_part=4)
    with dv.open(tmp_path / "a", "r+") as d:
        check_equal(d, view)
        for key in (np.s_[2:9], [8, 1], np.s_[::-1], 5, np.s_[5:6]):
            assert_same(d.x[key](), view.x[key]())
        d.x[3:5] = d.x[0]()
        assert_same(d.x[4](), view.x[0]())
        d._save(tmp_path / "b", "folder", rows_per_part=5)
        check_equal(dv.open(tmp_path / "b"), d)


def test_rows_that_cannot_be_added_name_the_remedy(tmp_path):
    dv.View(x=X)._save(tmp_path / "parts", "folder", rows_per_part=4)
    dv.View(rows=dv.ragged(Y, lengths=[4, 6]))._save(tmp_path / "r.h5")
    ragged = dv.ragged(Y, lengths=[3, 7])
    for name, text, rows in [
        ("parts", "in several files", {"x": X}),
        ("r.h5", "ragged", {"rows": ragged}),
    ]:
        d = dv.open(tmp_path / name, "r+")
        with pytest.raises(TypeError, match=rf"{text}.*dv\.concat\(d, rows\)\._save\(other\)"):
            d._append(rows)
        both = dv.concat(d, dv.View(**rows))
        both._save(tmp_path / "other", "folder")
        assert len(dv.open(tmp_path / "other")) == len(d) + len(dv.View(**rows))


def test_parts_of_so_many_rows(tmp_path):
    dv.View(X)._save(tmp_path / "x", "folder", rows_per_part=4)
    names = ["dataview.json", *(f"part-0000{n}.npy" for n in range(3))]
    assert sorted(os.listdir(tmp_path / "x")) == names
    check_equal(dv.open(tmp_path / "x"), dv.View(X))
    tree()._save(tmp_path / "t", "folder", rows_per_part=3)
    check_equal(dv.open(tmp_path / "t"), tree())
    assert len(os.listdir(tmp_path / "t" / "x")) == 4
    assert dv.open(tmp_path / "t", "r+").x[[0, 9], 1]().tolist() == [1, 37]


def test_progress_is_told(saved):
    told = []
    with sizes.set(block_bytes=100):
        saved(tree(), progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] == 320 + 80 + 56 + 80
    assert [done for done, _ in told] == sorted({done for done, _ in told}) and len(told) > 3


def test_a_bar_shows_the_progress(tmp_path, capsys):
    dv.View(X)._save(tmp_path / "a.npy", progress=True)
    assert "saving: 100%" in capsys.readouterr().err
    with pytest.raises(TypeError, match="progress= is True, False or a function"):
        dv.View(X)._save(tmp_path / "a.npy", progress="yes")


# -------------------- all or nothing --------------------


def failing(rows=10):
    def sample(number):
        if number > rows // 2:
            raise RuntimeError("no more")
        return X[number % 10]

    return dv.View(sample, _length=rows)._probe()


def left(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_failure_leaves_the_old_file_and_nothing_else(saved, tmp_path):
    with sizes.set(block_bytes=64), pytest.raises(RuntimeError, match="no more"):
        saved(dv.View(x=failing(), y=Y))
    assert left(tmp_path) == []
    path = saved(tree())
    before = left(tmp_path)
    with sizes.set(block_bytes=64), pytest.raises(RuntimeError, match="no more"):
        saved(dv.View(x=failing(), y=Y))
    assert left(tmp_path) == before
    check_equal(dv.open(path), tree())


def test_a_folder_with_other_files_is_not_replaced(tmp_path):
    for name in ("zarr", "folder"):
        place = tmp_path / FORMATS[name]
        place.mkdir()
        (place / "diary.txt").write_text("today")
        with pytest.raises(FileExistsError, match="other files"):
            tree()._save(place, name)
        assert (place / "diary.txt").read_text() == "today"
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        tree()._save(tmp_path / "file", "folder")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        tree()._save(tmp_path / "none" / "a", "folder")


def test_folders_without_an_exchange_are_renamed(tmp_path, monkeypatch):
    monkeypatch.setattr(new_folders, "_exchanger", lambda: None)
    for rows in (10, 4):
        tree()[:rows]._save(tmp_path / "a.zarr")
        check_equal(dv.open(tmp_path / "a.zarr"), tree()[:rows])
    assert os.listdir(tmp_path) == ["a.zarr"]
    os.rename(tmp_path / "a.zarr", tmp_path / ".a.zarr.replaced")  # killed between two renames
    with pytest.raises(RuntimeError, match="no more"):
        failing()._save(tmp_path / "a.zarr")
    check_equal(dv.open(tmp_path / "a.zarr"), tree()[:4])


KILLED = """
import sys, time
import numpy as np
import dataview as dv
def sample(number):
    if number > 5:
        print("begun", flush=True)
        time.sleep(60)
    return np.zeros(1000)
dv.sizes = __import__("dataview.index.sizes").index.sizes.sizes
with dv.sizes.set(block_bytes=8000):
    dv.View(x=np.ones(3), y=dv.View(sample, _length=10)._probe())._save(sys.argv[1], sys.argv[2])
"""


def test_a_killed_save_leaves_the_old_file(saved, tmp_path):
    path = saved(tree())
    before = left(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path), saved.format], stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    check_equal(dv.open(path), tree())
    saved(tree())
    assert left(tmp_path) == before


def test_a_view_is_saved_onto_its_own_file(saved):
    path = saved(tree())
    view = dv.open(path)
    if saved.format == "zarr":
        with pytest.raises(ValueError, match="save to another place"):
            saved(view[::2])
    else:
        saved(view[::2])
        check_equal(dv.open(path), tree()[::2])


SOME = {
    "field": lambda d: d.x,
    "selected": lambda d: d._select("x"),
    "computed": lambda d: d.x * 2,
    "nested": lambda d: dv.View(x=d.part.y, z=d.x),
}


@pytest.mark.parametrize("some", SOME)
@pytest.mark.parametrize(
    ("name", "options"),
    [("a.h5", {}), ("b.npz", {"compression": "gzip"}), ("c.npz", {}), ("d/", {})],
)
def test_some_fields_of_a_file_do_not_replace_it(tmp_path, name, options, some):
    path = f"{tmp_path}/{name}"
    whole = dv.View(x=X, y=Y, part=dv.View(y=Y))
    whole._save(path, **options)
    with pytest.raises(ValueError, match=r"y would be lost; save to another path"):
        SOME[some](dv.open(path))._save(path)
    check_equal(dv.open(path), whole)
    renamed = dv.open(path)._rename(x="first")
    renamed._save(path)
    assert dv.open(path)._fields() == ("first", "y", "part")


@pytest.mark.parametrize(
    "name", ["a.csv", "a.tsv.gz", "a.jsonl", "a.parquet", "a.feather", "a.arrow"]
)
def test_some_columns_of_a_table_do_not_replace_it(tmp_path, name):
    path, other = tmp_path / name, tmp_path / f"other-{name}"
    whole = dv.View(x=np.arange(3.0), y=["a", "b", "c"], z=dv.View([1, 2, 3])._astype("i8"))
    whole._save(path)
    table = dv.open(path)
    for some, lost in [
        (table["x", "y"], "z"),
        (table._drop("x"), "x"),
        (dv.View(x=table.x * 2, y=table.y), "z"),
    ]:
        with pytest.raises(ValueError, match=rf": {lost} would be lost; save to another path"):
            some._save(path)
    assert dv.open(path)().tolist() == whole().tolist()
    table["x", "y"]._save(other)  # another file, also if it has others
    whole._save(other)
    table["x", "y"]._save(other)
    assert dv.open(other)._fields() == ("x", "y")
    dv.open(path)._rename(z="third")[1:]._save(path)
    assert dv.open(path)._fields() == ("x", "y", "third")


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_a_table_whose_gaps_are_filled_replaces_its_file(tmp_path, name):
    dv.View(x=[1, 2, 3], x_mask=[True, False, True], y=[1, 2, 3])._save(tmp_path / name)
    table = dv.open(tmp_path / name)
    dv.View(x=table.x._fillna(0), y=table.y)._save(tmp_path / name)
    assert dv.open(tmp_path / name)().tolist() == [(1, 1), (0, 2), (3, 3)]


def test_a_statistic_is_of_the_file_as_it_was(tmp_path):
    path = tmp_path / "a.h5"
    dv.View(x=X)._save(path)
    mean = dv.open(path).x._mean()
    dv.View(x=X + 100)._save(path)
    assert mean() == X.mean()


# -------------------- descriptions that lie --------------------


def edited(path, name, change):
    """Change the description in a saved file."""
    if name == "hdf5":
        with h5py.File(path, "r+") as file:
            file.attrs["dataview"] = change(file.attrs["dataview"])
    elif name == "zarr":
        group = zarr.open_group(path, mode="r+")
        group.attrs["dataview"] = change(group.attrs["dataview"])
    elif name == "folder":
        text = (path / "dataview.json").read_text()
        (path / "dataview.json").write_text(change(text))
    else:
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members.items():
                is_text = name == "dataview.json"
                archive.writestr(name, change(data.decode()) if is_text else data)


LIES = {
    "no JSON": lambda text: text[:-5],
    "deep": lambda text: "[" * 100_000,
    "a number": lambda text: "3",
    "newer": lambda text: text.replace('"version": 1', '"version": 2'),
    "a missing array": lambda text: text.replace('"at": "x"', '"at": "z"'),
    "a place outside": lambda text: text.replace('"at": "x"', '"at": "../../x"'),
    "parts": lambda text: text.replace('"at": "x"', '"at": "x", "parts": 1000000000'),
    "no rank": lambda text: text.replace('"rank": 1', '"rank": -1'),
    "much rank": lambda text: text.replace('"rank": 1', '"rank": 7'),
    "a window outside": lambda text: text.replace('"to": 2', '"to": 5'),
    "a long window": lambda text: text.replace('"to": 2', '"to": 1000000000000'),
    "a wider window inside": lambda text: text.replace('"c": {"kind": "window", "of": {"1": 2}',
                                                       '"c": {"kind": "window", "of": {"1": 0}'),
    "another axis": lambda text: text.replace('"of": {"1":', '"of": {"7":'),
    "another kind": lambda text: text.replace('"kind": "ragged"', '"kind": "__import__"'),
    "no lengths": lambda text: text.replace('"lengths": "part/rows/lengths"', '"lengths": "x"'),
    "other rows": lambda text: text.replace('"row": [null]', '"row": [3]'),
    "no metadata": lambda text: text.replace('{"title": "some"}', '7'),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_description_that_lies_is_told_with_the_file(saved, lie):
    path = saved(tree())
    edited(path, saved.format, LIES[lie])
    with pytest.raises(ValueError, match=rf"{path.name}: the description of its fields"):
        dv.open(path)


def test_what_a_newer_version_has_saved_says_so(saved):
    path = saved(tree())
    edited(path, saved.format, LIES["newer"])
    told = rf"{path.name}: the description of its fields was written by a newer dataview"
    with pytest.raises(ValueError, match=f"{told}.*version 2.*up to 1; install a newer dataview"):
        dv.open(path)


@examples(60)
@given(data=st.data())
def test_broken_descriptions_raise_clean_errors(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("broken") / "a"
    tree()._save(path, "folder")
    text = (path / "dataview.json").read_text()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        end = at + data.draw(st.integers(0, 8))
        text = text[:at] + data.draw(st.text('{}[]",:0123x-', max_size=4)) + text[end:]
    (path / "dataview.json").write_text(text)
    said = ""
    try:
        dv.open(path)
    except ValueError as error:
        said = str(error)
    assert not said or "the description of its fields" in said


def test_what_is_added_by_others_is_told(tmp_path):
    tree()._save(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["new"] = X
    d = dv.open(tmp_path / "a.h5")
    check_equal(d, tree())
    with pytest.raises(dv.FieldError, match="'new' is in the file and not in the description"):
        d._field("new")


# -------------------- memory --------------------

CAPPED = """
import resource, sys
import numpy as np
import dataview as dv
dv.View(np.zeros((3, 4)))._save(sys.argv[1], sys.argv[2])  # starts the threads of libraries
x = dv.View(lambda n: {"x": np.full(75_000, n, "f4"), "y": n}, _length=1000)._probe()
big = dv.View(np.broadcast_to(np.float32(1), (1, 75_000_000)))
for options in (dict(x=x.x, y=x.y), dict(x=big * 2)):
    view = dv.View(**options)
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (180 << 20), resource.RLIM_INFINITY))
    view._save(sys.argv[1], sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
    print(dv.open(sys.argv[1]).x[-1, -1]())
"""


def test_300_mb_are_saved_in_little_memory(saved, tmp_path):
    said = printed("-c", CAPPED, tmp_path / FORMATS[saved.format], saved.format)
    assert said.split() == ["999.0", "2.0"]


# -------------------- new files to be filled --------------------

NEW = {"npy": "n.npy", **{name: FORMATS[name] for name in ("hdf5", "zarr", "folder")}}


@pytest.mark.parametrize("name", NEW)
def test_a_new_file_is_filled_through_views(name, tmp_path):
    path = tmp_path / NEW[name]
    d = dv.open(path, "w", format=name, shape=(6, 4), dtype=">f4")
    assert_same(d(), np.zeros((6, 4), ">f4"))
    d[1:3] = X[1:3]
    d[:, 0] -= 1
    expected = np.zeros((6, 4), ">f4")
    expected[1:3] = X[1:3]
    expected[:, 0] -= 1
    d._close()
    assert_same(dv.open(path)(), expected)
    with dv.open(path, "w", format=name, shape=3) as other:
        assert_same(other(), np.zeros(3))
    assert_same(dv.open(path)(), np.zeros(3))


@pytest.mark.parametrize("name", ["hdf5", "zarr", "folder"])
def test_a_new_file_like_a_view(name, tmp_path):
    path = tmp_path / NEW[name]
    with dv.open(path, "w", format=name, like=tree()) as d:
        assert d._fields() == tree()._fields() and d.x.b._fields() == ("c", "d")
        assert d.part.rows._lengths()().tolist() == tree().part.rows._lengths()().tolist()
        assert d.x._sum()() == 0 and d.x._meta == tree().x._meta
        d.x.a = 5
        d.part.rows[3] = [1, 2, 3, 4]
    d = dv.open(path)
    assert d.x._sum()() == 100 and d.part.rows[3]().tolist() == [1, 2, 3, 4]


def test_new_files_that_cannot_be_are_refused(tmp_path):
    with pytest.raises(ValueError, match="is written whole, by _save"):
        dv.open(tmp_path / "a.npz", "w", shape=3)
    with pytest.raises(TypeError, match="give shape= and dtype=, or like="):
        dv.open(tmp_path / "a.h5", "w")
    for wrong in (2.5, (2, 2.5), "ab", -1, (2, -1), [None], np.arange(4).reshape(2, 2), True):
        with pytest.raises((TypeError, ValueError), match="shape= is a length, or a tuple of"):
            dv.open(tmp_path / "a.npy", "w", shape=wrong)
    for name in ("a.h5", "a.zarr"):
        with pytest.raises(ValueError, match=rf"{name}: with chunks=10{{9}}, a chunk of field 'x'"):
            dv.open(tmp_path / name, "w", like={"x": X}, chunks=10**9)
    with pytest.raises(TypeError, match="like= has a shape"):
        dv.open(tmp_path / "a.h5", "w", like=X, shape=3)
    with pytest.raises(TypeError, match="'shap'"):
        dv.open(tmp_path / "a.h5", "w", shap=3)
    with pytest.raises(TypeError, match="is of dtype object"):
        dv.open(tmp_path / "a.npy", "w", shape=3, dtype=object)
    assert os.listdir(tmp_path) == []


def test_a_new_file_is_claimed(tmp_path):
    first = dv.open(tmp_path / "a.npy", "w", lock="refuse", shape=3)
    first[1] = 1
    with pytest.raises(BlockingIOError):
        dv.open(tmp_path / "a.npy", "w", lock="refuse", shape=3)
    assert first().tolist() == [0, 1, 0]
    first._close()
    assert dv.open(tmp_path / "a.npy", "w", lock="refuse", shape=2)().tolist() == [0, 0]


# -------------------- rows that are added --------------------


@pytest.fixture(params=NEW)
def growing(request, tmp_path):
    """Save a view in a format that can grow, and open it to be written."""

    def grown(view):
        path = tmp_path / NEW[request.param]
        view._save(path, request.param)
        return dv.open(path, "r+")

    grown.path = tmp_path / NEW[request.param]
    grown.format = request.param
    return grown


def test_rows_are_added_and_other_views_keep_their_length(growing):
    d = growing(dv.View(X[:6]))
    old, part, mean = d[:], d[2:4], d._mean(axis=0)
    other = dv.open(growing.path)
    d._append(X[6:])
    assert_same(d(), X)
    for view in (old, other, pickle.loads(pickle.dumps(old))):
        assert_same(view(), X[:6])
        assert_same(view[[5, 0, 5], 1:](), X[[5, 0, 5], 1:])
    assert_same(part(), X[2:4])
    assert_same(mean(), X[:6].mean(axis=0))
    d[7] = -1
    old[0] = -2
    d._append([[1, 2, 3, 4]])
    expected = np.concatenate([X, [[1, 2, 3, 4]]])
    expected[7], expected[0] = -1, -2
    assert_same(d(), expected)
    assert_same(dv.open(growing.path)(), expected)


KILLED_WHILE_ADDING = """
import os, signal, sys
import numpy as np
import dataview as dv

def killed(rows):
    if rows[0, 0] == 25:
        os.kill(os.getpid(), signal.SIGKILL)
    return rows

whole = np.arange(40.0)[:, None] + np.zeros((40, 4))
rows = dv.View(whole)._map_batches(killed, batch_size=5, shape=(4,), dtype="f8")
d = dv.open(sys.argv[1], "r+")
d._append({"x": rows} if d._fields() else rows)
"""

ZARR = {"2": {"zarr_format": 2}, "3": {}, "sharded": {"shards": (6, 4)}, "group": {}}


@pytest.mark.parametrize("kind", ["npy", "hdf5", "folder", *ZARR])
def test_a_kill_while_rows_are_added_leaves_the_old_ones(kind, tmp_path):
    old = np.random.default_rng(3).random((13, 4))  # the last chunk is partly full
    path = tmp_path / NEW.get(kind, "a.zarr")
    if kind in ZARR:
        store = path / "x" if kind == "group" else path
        if kind == "group":
            zarr.open_group(path, mode="w")
        zarr.create_array(store, shape=(13, 4), chunks=(3, 4), dtype="f8", **ZARR[kind])[:] = old
    else:
        dv.View(old)._save(path, kind)
    assert python("-c", KILLED_WHILE_ADDING, path).returncode == -signal.SIGKILL
    is_told = kind == "hdf5"  # of others nobody can see rows before all are there
    with warned_of_rows() if is_told else contextlib.nullcontext(), dv.open(path, "r+") as d:
        x = d.x if d._fields() else d
        assert_same(x(), old)
        rows = np.random.default_rng(4).random((11, 4))
        d._append({"x": rows} if d._fields() else rows)
        assert_same((d.x if d._fields() else d)(), np.concatenate([old, rows]))
    found = dv.open(path)
    assert_same((found.x if found._fields() else found)(), np.concatenate([old, rows]))


def warned_of_rows():
    return pytest.warns(RuntimeWarning, match="the update by _append that stopped .* was undone")


KILLED_BETWEEN_FIELDS = """
import os, signal, sys
import numpy as np
import dataview as dv
from dataview.formats.arrays.zarr import ZarrGrowth
from dataview.sources.npy import NpyGrowth

finished = []

def dying(kind, real):
    def finish(growth):
        if len(finished) == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        finished.append(growth)
        return real(growth)
    kind.finish = finish

for kind in (NpyGrowth, ZarrGrowth):
    dying(kind, kind.finish)
x = np.arange(28.0).reshape(7, 4)
rows = {"x": x, "part": {"y": np.arange(7), "z": x}}
dv.open(sys.argv[1], "r+")._append(rows)
"""


@pytest.mark.parametrize("done", [0, 1, 2])
@pytest.mark.parametrize("kind", ["folder", "zarr", "consolidated", "links"])
def test_a_kill_between_fields_that_grow_leaves_the_old_rows_in_all(kind, done, tmp_path):
    old = dv.View(x=X, part=dv.View(y=Y, z=X + 1))
    path = tmp_path / NEW.get(kind, "a.zarr" if kind == "consolidated" else "folder")
    old._save(path, kind if kind in NEW else "folder" if kind == "links" else None)
    if kind == "consolidated":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of version 3, which does not specify it yet
            zarr.consolidate_metadata(path)
    if kind == "links":
        (tmp_path / "link").symlink_to(path)
        path = tmp_path / "link"
    assert python("-c", KILLED_BETWEEN_FIELDS, path, done).returncode == -signal.SIGKILL
    told = dv.recover(path, "tell")
    assert [one.way for one in told] == ["undo"] and "by _append stopped" in str(told[0])
    with warned_of_rows():
        check_equal(dv.open(path), old)
    assert dv.recover(path) == [] and not list(tmp_path.rglob(".*journal*"))
    d = dv.open(path, "r+")
    d._append(old)
    d._close()
    found = dv.open(path)
    assert_same(found.part.y(), np.concatenate([Y, Y]))
    assert_same(found.part.z(), np.concatenate([X + 1, X + 1]))


def test_rows_of_two_files_that_are_added_together_are_taken_back_in_both(tmp_path):
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", X)
    code = (
        KILLED_BETWEEN_FIELDS.rpartition("dv.open")[0]
        + """
two = {name: dv.open(f"{sys.argv[1]}/{name}.npy", "r+") for name in "ab"}
dv.View(**two)._append({"a": x, "b": x})
"""
    )
    assert python("-c", code, tmp_path, 1).returncode == -signal.SIGKILL
    assert len(np.load(tmp_path / "a.npy")) == 17
    with warned_of_rows():
        assert_same(dv.open(tmp_path / "b.npy")(), X)
    assert_same(dv.open(tmp_path / "a.npy")(), X)
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "b.npy"]


TORN_WHILE_ADDED = """
import os, shutil, signal, sys
import numpy as np
import dataview as dv
from dataview.formats import growing

def dying(growths, real=growing._flush):
    real(growths)
    os.kill(os.getpid(), signal.SIGKILL)

x = np.arange(4000.0).reshape(1000, 4)
d = dv.open(sys.argv[1], "r+")._select("x", "y")
for _ in range(int(sys.argv[2])):
    d._append({"x": x[:300], "y": x[:300, 0]})
shutil.copy(sys.argv[1], sys.argv[1] + ".before")
growing._flush = dying
d._append({"x": x, "y": x[:, 0]})
"""


@pytest.mark.parametrize("times", [0, 3])
@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("layout", ["earliest", "latest"])
def test_an_hdf5_file_to_which_a_part_of_what_tells_of_rows_was_written_has_the_old_ones(
    layout, compression, times, tmp_path
):
    path, half = tmp_path / "a.h5", 512  # as much may be written, and what lies behind it not
    with h5py.File(path, "w", libver=layout, userblock_size=512) as file:
        for name, data in (("x", NOISE[:999, :4]), ("y", NOISE[:999, 4])):
            shape, packed = (None, *data.shape[1:]), {"compression": compression, "chunks": True}
            file.create_dataset(name, data=data, maxshape=shape, **packed)
        file["fixed"] = NOISE[:, 5]
    assert python("-c", TORN_WHILE_ADDED, path, times).returncode == -signal.SIGKILL
    before, after = (tmp_path / "a.h5.before").read_bytes(), path.read_bytes()
    assert after[: len(before)] != before
    parts = [slice(place, place + half) for place in range(0, len(before), half)]
    torn = b"".join((before, after)[n % 2][part] for n, part in enumerate(parts))
    path.write_bytes(torn + after[len(before) :])
    with warned_of_rows():
        d = dv.open(path)
    more = np.tile(np.arange(1200.0).reshape(300, 4), (times, 1))
    x = np.concatenate([NOISE[:999, :4], more])
    assert_same(d.x(), x)
    assert_same(d.y(), np.concatenate([NOISE[:999, 4], more[:, 0]]))
    assert_same(d.fixed(), NOISE[:, 5])
    d._close()
    assert path.stat().st_size == len(before)
    with dv.open(path, "r+") as d:
        d._select("x", "y")._append({"x": NOISE[:, :4], "y": NOISE[:, 4]})
    assert_same(dv.open(path).x(), np.concatenate([x, NOISE[:, :4]]))


def test_rows_are_not_taken_back_from_a_file_that_was_changed_since(tmp_path):
    dv.View(x=X, part=dv.View(y=Y, z=X + 1))._save(tmp_path / "a", "folder")
    assert python("-c", KILLED_BETWEEN_FIELDS, tmp_path / "a", 1).returncode == -signal.SIGKILL
    ours = X * 3
    np.save(tmp_path / "a" / "x.npy", ours)
    os.utime(tmp_path / "a" / "x.npy", (2e9, 2e9))
    with pytest.raises(ValueError, match=r"was changed by another program.*'discard'"):
        dv.open(tmp_path / "a")
    assert_same(np.load(tmp_path / "a" / "x.npy"), ours)
    assert [one.way for one in dv.recover(tmp_path / "a", "discard")] == ["discard"]
    assert_same(dv.open(tmp_path / "a").x(), ours)


def test_what_is_kept_while_rows_are_added_to_hdf5_is_small(tmp_path, monkeypatch):
    path, begun = tmp_path / "a.h5", []
    with h5py.File(path, "w") as file:
        large = np.tile(NOISE, (50, 1))
        file.create_dataset("x", data=large, maxshape=(None, 10), chunks=(1000, 10))
        file["fixed"] = large
    real = Journal.begin
    monkeypatch.setattr(Journal, "begin", lambda *args: (begun.append(len(args[2])), real(*args)))
    asked, ask = [], rows_added_to_hdf5._data
    monkeypatch.setattr(
        rows_added_to_hdf5, "_data", lambda *args: (asked.append(args), ask(*args))[1]
    )
    with dv.open(path, "r+") as d:
        x = d._select("x")
        x._append({"x": NOISE})
        x._append({"x": NOISE[:10]})
        x._append({"x": NOISE[:10]})
    assert len(begun) == 3 and max(begun) < path.stat().st_size / 30
    assert len(asked) == 2  # of each dataset once
    assert_same(dv.open(path).x(), np.concatenate([large, NOISE, NOISE[:10], NOISE[:10]]))


MEASURED = np.dtype([("x", "f4", (2,)), ("y", "f8"), ("g", [("a", "i4"), ("b", "i2", (3,))])])


def test_rows_of_structured_arrays_are_given_by_fields(tmp_path):
    old, rows = np.zeros(5, MEASURED), fill(3, MEASURED)
    np.save(tmp_path / "s.npy", old)
    group = {"b": rows["g"]["b"].tolist(), "a": rows["g"]["a"]}
    d = dv.open(tmp_path / "s.npy", "r+")
    d._append({"y": rows["y"].tolist(), "x": rows["x"], "g": group})
    d._append({"y": dv.View(rows["y"]), "x": rows["x"].tolist(), "g": rows["g"]})
    d._append({"y": [], "x": np.zeros((0, 2)), "g": rows["g"][:0]})
    expected = np.concatenate([old, rows, rows])
    assert_same(d(), expected)
    assert_same(np.load(tmp_path / "s.npy"), expected)


def test_rows_by_fields_that_do_not_fit_a_structured_array_are_refused(tmp_path):
    np.save(tmp_path / "s.npy", np.zeros(5, MEASURED.descr[:2]))
    d = dv.open(tmp_path / "s.npy", "r+")
    x, y = np.ones((2, 2)), np.ones(2)
    for rows, error, told in (
        ({"x": x}, ValueError, r"all fields of the view; there are none for 'y'$"),
        ({"x": x, "y": y, "z": y}, AttributeError, "no field 'z' in the view; rows are given"),
        ({"x": x, "y": y[:1]}, ValueError, r"get as many rows; got .* x \(2, 2\), y \(1,\)"),
        ({"x": x, "y": 1}, ValueError, r"get as many rows; got .* y \(\)"),
        ({"x": np.ones((2, 3)), "y": y}, TypeError, "cannot hold"),
        ({"x": x, "y": ["a", "b"]}, TypeError, "cannot write <U1 into float64"),
    ):
        with pytest.raises(error, match=told):
            d._append(rows)
    np.save(tmp_path / "n.npy", y)
    with pytest.raises(TypeError, match="the view has no fields, and rows for it are an array"):
        dv.open(tmp_path / "n.npy", "r+")._append({"x": y})
    assert_same(np.load(tmp_path / "s.npy"), np.zeros(5, MEASURED.descr[:2]))


@pytest.mark.parametrize("count", [3, len(X)])  # as many as are added here are no less theirs
def test_rows_that_others_add_to_zarr_meanwhile_are_told_of_and_stay(count, tmp_path):
    path = tmp_path / "a.zarr"
    dv.View(X)._save(path)

    def adding(rows):
        zarr.open_group(path, mode="r+")["data"].append(X[:count])
        return rows

    d = dv.open(path, "r+")
    rows = dv.View(X)._map_batches(adding, batch_size=len(X), shape=(4,), dtype=X.dtype)
    with pytest.raises(RuntimeError, match="others have added some meanwhile"):
        d._append(rows)
    assert zarr.open_group(path, mode="r")["data"].shape == (len(X) + count, 4)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
def test_rows_are_added_where_groups_have_the_metadata_of_their_members(version, tmp_path):
    path = tmp_path / "a.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=version)
    group.create_array("x", data=X, chunks=(3, 4))
    group.create_group("part").create_array("y", data=Y, chunks=(4,))
    for place in ("part", ""):
        zarr.consolidate_metadata(path, path=place)
    with dv.open(path, "r+") as d:
        with pytest.raises(RuntimeError):
            d._append({"x": failing(9), "part": {"y": Y[:9]}})
        assert [*zarr.open_consolidated(path).array_keys()] == ["x"]
        assert zarr.open_consolidated(path)["part/y"].shape == Y.shape
        d._append({"x": X[:2], "part": {"y": Y[:2]}})
    d = dv.open(path)
    assert_same(d.x(), np.concatenate([X, X[:2]]))
    assert_same(d.part.y(), np.concatenate([Y, Y[:2]]))
    for other in (zarr.open_consolidated(path), zarr.open_group(path)):
        assert_same(other["x"][:], d.x())
        assert_same(other["part/y"][:], d.part.y())
    assert zarr.open_consolidated(path, path="part")["y"].shape == (12,)


@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
def test_the_metadata_of_all_members_are_gathered_once_for_all_fields(tmp_path, monkeypatch):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    for name in ("x", "y", "part/x", "part/y"):
        group.create_array(name, data=X, chunks=(3, 4))
    for place in ("part", ""):
        zarr.consolidate_metadata(group.store, path=place)
    calls = []
    for name in ("consolidate_metadata", "open_group"):
        monkeypatch.setattr(zarr, name, counting(calls, name, getattr(zarr, name)))
    with dv.open(tmp_path / "a.zarr", "r+") as d:
        calls.clear()
        d._append({"x": X, "y": X, "part": {"x": X, "y": X}})
        each = [("consolidate_metadata", ""), ("consolidate_metadata", "part")]
        each += [("open_group", ""), ("open_group", "part")]
        assert sorted(calls) == each
        calls.clear()
        with pytest.raises(RuntimeError):
            d._append({"x": X[:9], "y": X[:9], "part": {"x": X[:9], "y": failing(9)}})
        assert sorted(calls) == each
    found = zarr.open_consolidated(tmp_path / "a.zarr")
    assert {found[name].shape for name in ("x", "y", "part/x", "part/y")} == {(2 * len(X), 4)}


def counting(calls, name, function):
    def counted(*args, path=None, **options):
        calls.append((name, path))
        return function(*args, path=path, **options)

    return counted


@pytest.mark.clients
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
def test_xarray_sees_rows_that_are_added(version, tmp_path):
    xarray = importlib.import_module("xarray")
    path = tmp_path / "a.zarr"
    data = {"x": (("time", "place"), X.astype(float)), "y": (("time",), Y)}
    xarray.Dataset(data).to_zarr(path, zarr_format=version)
    with dv.open(path, "r+") as d:
        d._append({"x": X[:2], "y": Y[:2]})
    with xarray.open_zarr(path) as found:
        assert_same(found["x"].values, np.concatenate([X, X[:2]]).astype(float))
        assert found.sizes["time"] == 12


def test_two_views_of_one_file_add_rows(growing):
    growing(dv.View(X[:4]))._close()
    one = dv.open(growing.path, "r+")
    two = dv.open(growing.path, "r+") if growing.format != "zarr" else one
    one._append(X[4:6])
    two._append(X[6:])
    assert_same(dv.open(growing.path)(), X)
    assert_same(one(), X[:6] if two is not one else X)


@examples(20)
@given(data=st.data(), block=st.sampled_from([1, 70, 1 << 22]))
def test_any_rows_are_added(data, block, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    for name, place in NEW.items():
        expected = X[: data.draw(st.integers(0, 3))]
        dv.View(expected)._save(folder / place, name)
        d = dv.open(folder / place, "r+")
        for _ in range(data.draw(st.integers(1, 4))):
            rows = X[: data.draw(st.integers(0, 6))] + 1
            with sizes.set(block_bytes=block):
                d._append(data.draw(st.sampled_from([rows, rows.tolist(), dv.View(rows) * 1]))
                          if len(rows) else rows)  # fmt: skip
            expected = np.concatenate([expected, rows])
            assert_same(d(), expected)
        d._close()
        assert_same(dv.open(folder / place)(), expected)


def test_all_fields_get_rows(growing):
    if growing.format == "npy":
        structured = fill((4,), np.dtype(STRUCTURED))
        d = growing(dv.View(structured))
        d._append(structured[1:3])
        assert_same(d(), structured[[0, 1, 2, 3, 1, 2]])
        assert_same(d.e(), d()["e"])
        return
    view = dv.View(x=dv.View(X, a=np.s_[:2]), part=dv.View(y=Y), _meta={"": {"title": "t"}})
    d = growing(view[:6])
    d._append(view[6:])
    check_equal(d, view)
    d._append({"x": X[:1], "part": {"y": Y[:1]}})
    d.x.a[-1] = 9
    check_equal(dv.open(growing.path), d)
    assert d.part.y().tolist() == [*Y, 0] and d.x[-1]().tolist() == [9, 9, 2, 3]


REFUSED = {
    "names": (
        lambda d: d._append({"x": X}),
        ValueError,
        r"to all fields of the view; there are none for 'y'.*d\._select\(",
    ),
    "lengths": (lambda d: d._append({"x": X, "y": Y[:3]}), ValueError, "as many rows"),
    "shape": (lambda d: d._append({"x": X[:, :3], "y": Y}), ValueError, r"'x' have shape \(n, 4\)"),
    "dtype": (lambda d: d._append({"x": X * 1j, "y": Y}), TypeError, "complex128"),
    "view": (lambda d: d._append({"x": X, "y": dv.View(Y) / 2}), TypeError, "same_kind"),
    "range": (
        lambda d: d._append({"x": X, "y": [2**63] * 10}),
        (OverflowError, TypeError),
        "int64",
    ),
    "field": (
        lambda d: d.x._append(X),
        TypeError,
        r"'x' is a field or a part.*d\._append.*d\._select\('x'\)\._append\(\{'x': rows\}\)",
    ),
    "unknown": (
        lambda d: d._append({"x": X, "z": Y}),
        dv.FieldError,
        "no field 'z' in the view; rows are given for fields of the file",
    ),
    "part": (lambda d: d[:3]._append(d[:1]), TypeError, "part"),
    "computed": (lambda d: (d.x * 2)._append(X), TypeError, "computed"),
}


@pytest.mark.parametrize("wrong", REFUSED)
@pytest.mark.parametrize("name", ["hdf5", "zarr", "folder"])
def test_rows_that_do_not_fit_are_refused_before_the_first_byte(name, wrong, tmp_path):
    path = tmp_path / NEW[name]
    dv.View(x=X, y=Y)._save(path, name)
    before = sizes_of(path)
    d = dv.open(path, "r+")
    action, error, text = REFUSED[wrong]
    with pytest.raises(error, match=text):
        action(d)
    d._close()
    assert sizes_of(path) == before
    check_equal(dv.open(path), dv.View(x=X, y=Y))


def sizes_of(path):
    return {place: place.stat().st_size for place in [path, *path.rglob("*")] if place.is_file()}


@pytest.mark.parametrize("name", ["hdf5", "zarr", "folder"])
def test_one_field_of_a_group_grows_alone(name, tmp_path):
    path = tmp_path / NEW[name]
    dv.View(x=X, run=dv.View(s=Y, t=Y))._save(path, name)
    d = dv.open(path, "r+")
    with pytest.raises(TypeError, match=r"d\['run'\]\._select\('s'\)\._append\(\{'s': rows\}\)"):
        d.run.s._append(Y)
    d["run"]._select("s")._append({"s": Y})
    d._select("x")._append({"x": X})
    d._close()
    again = dv.open(path)
    assert (len(again.x), len(again.run.s), len(again.run.t)) == (2 * len(X), 2 * len(Y), len(Y))


def test_files_that_cannot_grow_are_told(tmp_path):
    dv.View(x=X)._save(tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"if it is \.npy, .*other files do not grow"):
        dv.open(tmp_path / "a.npz")._append({"x": X})
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = X
    with pytest.raises(TypeError, match=r"fixed length \(maxshape= of h5py\).*_save"):
        dv.open(tmp_path / "a.h5", "r+")._append({"x": X})
    np.save(tmp_path / "f.npy", np.asfortranarray(X))
    with pytest.raises(TypeError, match="one after the other"):
        dv.open(tmp_path / "f.npy", "r+")._append(X)
    np.save(tmp_path / "a.npy", X)
    with pytest.raises(ValueError, match="read-only"):
        dv.open(tmp_path / "a.npy")._append(X)
    with pytest.raises(TypeError, match="no file that can grow"):
        dv.View(X)._append(X)
    with pytest.raises(ValueError, match=r"shape \(n, 4\); got \(4,\); give one row"):
        dv.open(tmp_path / "a.npy", "r+")._append(X[0])
    dv.ragged(Y, lengths=[4, 6])._save(tmp_path / "r.h5")
    with pytest.raises(TypeError, match="is ragged"):
        dv.open(tmp_path / "r.h5", "r+")._append(dv.ragged(Y, lengths=[4, 6]))
    header = tmp_path / "full.npy"
    np.save(header, X)
    data = header.read_bytes()
    text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (10, 4)}\n"
    header.write_bytes(b"\x93NUMPY\x01\0" + bytes([len(text), 0]) + text + data[128:])
    with pytest.raises(ValueError, match="no room in its header"):
        dv.open(header, "r+")._append(np.tile(X, (10**3, 1)))


def test_a_dataset_under_two_names_grows_once(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=X, maxshape=(None, 4))
        file["part/same"], file["y"] = file["x"], h5py.SoftLink("/x")
    d = dv.open(path, "r+")
    with pytest.raises(ValueError, match=r"'part.same' and 'y' are one array.*same rows"):
        d._append({"x": X, "y": X + 1, "part": {"same": X}})
    assert d.x._shape() == dv.open(path).x._shape() == (10, 4)
    d._append({"x": X, "y": X, "part": {"same": X}})
    assert len(d) == 20 and d.y._shape() == d.part.same._shape() == (20, 4)
    d._close()
    assert_same(dv.open(path).x(), np.concatenate([X, X]))


def test_a_failure_while_rows_are_added_leaves_all_as_it_was(growing):
    is_one = growing.format == "npy"
    d = growing(dv.View(X[:4]) if is_one else dv.View(x=X[:4], y=Y[:4]))
    before = sizes_of(growing.path) if growing.format in ("npy", "folder") else None
    rows = failing() if is_one else {"x": failing(), "y": Y}
    with sizes.set(block_bytes=64), pytest.raises(RuntimeError, match="no more"):
        d._append(rows)
    assert before is None or sizes_of(growing.path) == before
    model = dv.View(X[:4]) if is_one else dv.View(x=X[:4], y=Y[:4])
    check_equal(d, model)
    d._append(X[4:] if is_one else {"x": X[4:], "y": Y[4:]})
    d._close()
    assert dv.open(growing.path) == (dv.View(X) if is_one else dv.View(x=X, y=Y))


def test_a_kill_while_rows_are_added_leaves_the_old_rows(tmp_path):
    np.save(tmp_path / "a.npy", X)
    code = """
import os, signal, sys
import numpy as np
import dataview as dv
from dataview.sources import npy
real, count = npy.write_at, [0]
def dying(*args):
    count[0] += 1
    if count[0] == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*args)
npy.write_at = dying
from dataview.index.sizes import sizes
with sizes.set(block_bytes=64):
    dv.open(sys.argv[1], "r+")._append(np.ones((10, 4)))
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "a.npy"], check=False)
    assert done.returncode == -signal.SIGKILL
    assert_same(np.load(tmp_path / "a.npy"), X)
    d = dv.open(tmp_path / "a.npy", "r+")
    d._append(X + 1)
    assert_same(np.load(tmp_path / "a.npy"), np.concatenate([X, X + 1]))


def test_a_file_that_grew_elsewhere_is_read_on(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("x", data=X, maxshape=(None, None))
        view = dv.View(data)
        data.resize((12, 4))
        assert_same(view(), X)
        data.resize((12, 5))
        with pytest.raises(ValueError, match=r"had the shape \(10, 4\).*now has \(12, 5\)"):
            view()


# -------------------- a full disk --------------------

NOISE = np.random.default_rng(0).random((4000, 10))


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_rows_for_which_there_is_no_room_leave_an_hdf5_file_as_it_was(compression, tmp_path):
    path, old = tmp_path / "a.h5", dv.View(x=NOISE[:1000], y=NOISE[:1000, 0])
    old._save(path, compression=compression, chunks=300)
    d, size = dv.open(path, "r+"), path.stat().st_size
    rows = {"x": NOISE, "y": NOISE[:, 0]}
    for spare in (100, 50_000, 320_000):
        with no_file_beyond(size + spare), pytest.raises(OSError, match=r"a\.h5") as caught:
            d._append(rows)
        assert caught.value.errno == errno.EFBIG and caught.value.filename == str(path)
        assert path.stat().st_size == size
        check_equal(d, old)
    d._append(rows)
    d._close()
    found = dv.open(path)
    assert_same(found.x(), np.concatenate([NOISE[:1000], NOISE]))
    assert_same(found.y(), np.concatenate([NOISE[:1000, 0], NOISE[:, 0]]))
    with h5py.File(path) as file:
        assert path.stat().st_size == file.id.get_filesize()


def test_what_is_kept_for_rows_is_given_back_when_they_fail(tmp_path):
    path = tmp_path / "a.h5"
    dv.View(NOISE)._save(path)
    size = path.stat().st_size
    with sizes.set(block_bytes=64), pytest.raises(RuntimeError, match="no more"):
        dv.open(path, "r+")._append(failing() @ np.ones((4, 10)))
    assert path.stat().st_size < size + 10_000


@pytest.fixture(params=["packed", "unfilled"])
def chunked(request, tmp_path):
    """Give a file of zeros in chunks that need room when they are written."""
    path = tmp_path / "a.h5"
    if request.param == "packed":
        dv.View(np.zeros(NOISE.shape))._save(path, compression="gzip", chunks=100)
    else:
        dv.open(path, "w", shape=NOISE.shape, chunks=100)._close()
    return path


def test_a_write_for_which_there_is_no_room_leaves_an_hdf5_file_as_it_was(chunked):
    d, size = dv.open(chunked, "r+"), chunked.stat().st_size
    for spare in (0, 250_000):
        with no_file_beyond(size + spare), pytest.raises(OSError, match=r"a\.h5") as caught:
            d[...] = NOISE
        assert caught.value.errno == errno.EFBIG and caught.value.filename == str(chunked)
        assert_same(d(), NOISE * 0)
        with no_file_beyond(size + spare):
            d._close()
        d = dv.open(chunked, "r+")
        assert_same(d(), NOISE * 0)
    d[...] = NOISE
    for row in range(300):
        d[row] = row
    d._close()
    expected = np.concatenate([np.repeat(np.arange(300.0), 10).reshape(300, 10), NOISE[300:]])
    assert_same(dv.open(chunked)(), expected)
    with h5py.File(chunked) as file:
        assert chunked.stat().st_size == file.id.get_filesize()


def test_a_write_that_runs_out_of_room_goes_on_when_there_is_some(chunked):
    d, size = dv.open(chunked, "r+"), chunked.stat().st_size
    with sizes.set(file_bytes=1 << 12, block_bytes=1 << 12):
        with no_file_beyond(size + 250_000), pytest.raises(dv.PartialWriteError) as caught:
            d[...] = NOISE
        caught.value.resume()
    d._close()
    assert_same(dv.open(chunked)(), NOISE)


def test_room_that_was_kept_is_given_back_when_no_view_is_left(tmp_path):
    dv.View(np.zeros(NOISE.shape))._save(tmp_path / "a.h5", compression="gzip")
    size = (tmp_path / "a.h5").stat().st_size
    d = dv.open(tmp_path / "a.h5", "r+")
    d[0] = 1
    assert (tmp_path / "a.h5").stat().st_size > size + NOISE.nbytes
    del d
    gc.collect()
    assert (tmp_path / "a.h5").stat().st_size < size + 10_000
    assert (dv.open(tmp_path / "a.h5")[0]() == 1).all()


@pytest.mark.parametrize("name", ["a.h5", "a.zarr", "a.npz", "a.npy", "a"])
def test_a_view_for_which_there_is_no_room_leaves_the_old_one_alone(name, tmp_path):
    format = None if "." in name else "folder"
    options = {"chunks": 50} if name in ("a.h5", "a.zarr") else {}
    dv.View(X)._save(tmp_path / name, format)
    with no_file_beyond(3000), pytest.raises(OSError) as caught:
        dv.View(NOISE)._save(tmp_path / name, format, **options)
    assert caught.value.errno == errno.EFBIG
    assert os.listdir(tmp_path) == [name]
    time.sleep(0.2)
    assert os.listdir(tmp_path) == [name]
    assert_same(dv.open(tmp_path / name)(), X)


@pytest.fixture
def late(monkeypatch):
    """Have the first write of a chunk fail, while those of the others are on their way."""
    put = LocalStore.set
    begun = set()

    async def put_late(store, key, value):
        is_first = "/c/" in f"/{key}" and key not in begun
        begun.add(key)
        if is_first and key.endswith("c/0/0"):
            raise OSError("no room")
        if is_first:
            await asyncio.sleep(0.2)
        await put(store, key, value)

    return lambda: monkeypatch.setattr(LocalStore, "set", put_late)


def test_chunks_that_are_on_their_way_do_not_bring_back_a_folder(tmp_path, late):
    late()
    with pytest.raises(OSError, match="no room"):
        dv.View(X + 1)._save(tmp_path / "a.zarr", chunks=4)
    time.sleep(0.3)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("durable", ["process", False])
def test_chunks_that_are_on_their_way_are_undone_too(durable, tmp_path, late):
    dv.View(X)._save(tmp_path / "a.zarr", chunks=4)
    with dv.open(tmp_path / "a.zarr", "r+", durable=durable) as d:
        late()
        with pytest.raises(OSError, match="no room"):
            d += 1
    time.sleep(0.3)
    assert_same(dv.open(tmp_path / "a.zarr")(), X)


# -------------------- nothing is lost --------------------

RECORDS = np.array([(1, 1.0), (2, 2.0), (3, 3.0)], [("a", "i4"), ("b", "f4")])


def test_fields_of_records_are_saved_with_them_alone(tmp_path):
    np.save(tmp_path / "a.npy", RECORDS)
    for number, view in enumerate([dv.View(RECORDS), dv.open(tmp_path / "a.npy")]):
        path = tmp_path / f"{number}.h5"
        view._save(path)
        with dv.open(path, "r+") as d:
            d.a[...] = 9
            assert d()["a"].tolist() == [9, 9, 9]
            d._append(RECORDS[:1])
        assert dv.open(path).a().tolist() == [9, 9, 9, 1]


@pytest.mark.parametrize("name", ["a.npy", "a.h5", "a.zarr"])
def test_rows_added_by_two_views_or_threads_are_all_there(name, tmp_path):
    dv.View(X)._save(tmp_path / name)
    with dv.open(tmp_path / name, "r+") as first, dv.open(tmp_path / name, "r+") as second:
        first._append(X[:2])
        second._append(X[:1])
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda n: first._append(np.full((1, 4), n)), range(12)))
    found = dv.open(tmp_path / name)()
    assert len(found) == 10 + 3 + 12
    assert sorted(found[13:, 0].tolist()) == list(range(12))


def test_an_array_behind_another_is_not_written_over(tmp_path):
    with open(tmp_path / "a.npy", "wb") as file:
        np.save(file, X)
        np.save(file, Y)
    before = (tmp_path / "a.npy").read_bytes()
    with pytest.raises(TypeError, match="has another array behind the first"):
        dv.open(tmp_path / "a.npy", "r+")._append(X)
    assert (tmp_path / "a.npy").read_bytes() == before


@pytest.mark.parametrize("own", ["notes.txt", "mine.npy", "x/part-0.npy.bak"])
@pytest.mark.parametrize("name", ["a.zarr", "a"])
def test_files_of_the_user_in_a_saved_folder_are_kept(name, own, tmp_path):
    format = None if "." in name else "folder"
    view = dv.View(x=X, y=Y)
    view._save(tmp_path / name, format)
    view._save(tmp_path / name, format)
    (tmp_path / name / own).parent.mkdir(exist_ok=True)
    (tmp_path / name / own).write_text("mine")
    with pytest.raises(FileExistsError, match="a folder with other files"):
        view._save(tmp_path / name, format)
    assert (tmp_path / name / own).read_text() == "mine"


def test_parts_are_replaced_by_a_whole(tmp_path):
    dv.View(x=X)._save(tmp_path / "a", "folder", rows_per_part=3)
    dv.View(x=X)._save(tmp_path / "a", "folder")
    assert_same(dv.open(tmp_path / "a").x(), X)


@pytest.mark.parametrize("name", ["a.zarr", "a", "a.h5"])
def test_a_statistic_is_of_the_files_that_were_replaced(name, tmp_path):
    format = None if "." in name else "folder"
    dv.View(x=X)._save(tmp_path / name, format)
    mean = dv.open(tmp_path / name).x._mean()
    dv.View(x=X * 0)._save(tmp_path / name, format)
    assert mean() == X.mean()


@pytest.mark.parametrize("store", ["zip", "memory"])
def test_arrays_of_zarr_that_are_in_no_folder_are_saved_to_one(store, tmp_path):
    if store == "memory":
        made = zarr.create_group(zarr.storage.MemoryStore()).create_array("x", data=X)
        view, other = dv.View(x=made), dv.View(x=made)
        other.x[...] = view.x[::-1]
        assert_same(view.x(), X[::-1])
        other.x[...] = X
    else:
        with zarr.storage.ZipStore(tmp_path / "a.zarr.zip", mode="w") as place:
            zarr.create_group(place).create_array("x", data=X)
        view = dv.open(tmp_path / "a.zarr.zip")
    view._save(tmp_path / "b.zarr")
    assert_same(dv.open(tmp_path / "b.zarr").x(), X)


def test_a_zarr_folder_under_two_names_is_one(tmp_path):
    data = np.arange(3000.0)
    dv.View(data)._save(tmp_path / "a.zarr")
    os.symlink(tmp_path / "a.zarr", tmp_path / "b.zarr")
    d, other = dv.open(tmp_path / "a.zarr", "r+"), dv.open(tmp_path / "b.zarr")
    total = other[:10]._sum()
    d[...] = other[::-1]
    assert_same(d(), data[::-1])
    assert total() == 45


def test_rows_by_number_are_written_into_shards(tmp_path):
    array = zarr.create_array(
        tmp_path / "a.zarr", shape=(8, 6), chunks=(2, 3), shards=(4, 6), dtype="f8"
    )
    array[...] = 0
    with dv.open(tmp_path / "a.zarr", "r+") as d:
        d[[0, 5, 2]] = 1
        assert d[[5, 1, 5]]()[:, 0].tolist() == [1, 0, 1]
    assert zarr.open_array(tmp_path / "a.zarr")[:, 0].tolist() == [1, 0, 1, 0, 0, 1, 0, 0]


@pytest.mark.parametrize("name", ["d.npz", "d.parquet", "d.csv", "d.h5"])
def test_codes_are_saved_with_labels_that_are_found_then(tmp_path, name):
    label = np.array(["b", "a", None, "b"], object)
    d = dv.View(x=np.arange(4), code=dv.View(label)._codes())
    d[1:]._save(tmp_path / name)
    code = dv.open(tmp_path / name).code
    assert code._codes()._labels()().tolist() == ["a", "b"]
    assert code._codes()[[0, 2]]().tolist() == [0, 1]
    dv.View(label)._codes()._save(tmp_path / "alone.npz")
    assert dv.open(tmp_path / "alone.npz")._meta["labels"] == ["a", "b"]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".feather"])
@pytest.mark.parametrize(
    "values",
    [["a", np.nan, None, "b"], ["é", np.float64("nan"), "", "c"], [None, float("nan"), "x", "y"]],
)
def test_what_is_missing_among_texts_is_missing_in_a_table(values, suffix, tmp_path):
    dv.View(name=np.array(values, object), n=range(4))._save(tmp_path / f"t{suffix}")
    found = dv.open(tmp_path / f"t{suffix}")
    there = [isinstance(value, str) for value in values]
    assert found.name._notna()().tolist() == there
    assert [t for t, is_one in zip(found.name().tolist(), there, strict=True) if is_one] == [
        value for value in values if isinstance(value, str)
    ]


@pytest.mark.parametrize("values", [[True, None, False], [True, np.nan, False], [1, None, 3]])
def test_objects_of_one_kind_are_a_column_of_parquet_with_gaps(values, tmp_path):
    dv.View(a=np.array(values, object))._save(tmp_path / "t.parquet")
    found = dv.open(tmp_path / "t.parquet").a
    assert found._isna()().tolist() == [False, True, False]
    assert found()[[0, 2]].tolist() == [values[0], values[2]]
