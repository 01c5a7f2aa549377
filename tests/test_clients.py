"""Views in other libraries, and views of their data, with the libraries themselves.

Each test imports its library itself: this file is imported where none of them is installed.
"""

from __future__ import annotations

import datetime
import importlib
import multiprocessing
import operator
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from children import printed
from counting import Counting
from oracle import assert_same, examples

pytestmark = pytest.mark.clients


@pytest.fixture
def r(x):
    """A record of an array, numbers and texts."""
    return dv.View(image=x, label=np.arange(6), name=np.array(list("abcdef")))


@pytest.fixture
def file(tmp_path, x):
    np.save(tmp_path / "x.npy", x)
    return dv.open(tmp_path / "x.npy", mode="r+")


def each_view_of(x, file):
    """The same data in memory, read-only, in a file, computed, in another order of rows."""
    rows = np.arange(6)[::-1]
    return [
        dv.View(x),
        dv.View(x)._readonly(),
        file,
        dv.View(x - 1) + 1,
        dv.View(x[::-1])[::-1],
        dv.View(x[rows])[rows],
        dv.View(x.astype(">f8")),
        dv.View(np.asfortranarray(x)),
    ]


# ---------------------------------------------------------------- matplotlib


@pytest.fixture
def plt():
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


def test_a_histogram_has_one_series_of_all_values(plt, d, x):
    counts, edges, _ = plt.hist(d.target, bins=4)
    expected = np.histogram(x[:, 3], bins=4)
    assert_same(counts, expected[0].astype(float))
    assert_same(edges, expected[1])
    counts, _, _ = plt.hist(d.input * 2)
    assert np.asarray(counts).shape == (3, 10)


def test_lines_points_and_images_are_drawn(plt, d, x):
    (line,) = plt.plot(d.target)
    assert_same(line.get_ydata(), x[:, 3])
    (line,) = plt.plot(d.input[:, 0], d.target - 1)
    assert_same(line.get_xydata(), np.stack([x[:, 0], x[:, 3] - 1], axis=1))
    assert len(plt.plot(d)) == 4
    points = plt.scatter(d.input[:, 0], d.target, c=d.target)
    assert_same(np.asarray(points.get_offsets()), x[:, [0, 3]])
    assert_same(np.asarray(plt.imshow(d).get_array()), x)
    bars = plt.bar(np.arange(6), d.target)
    assert [bar.get_height() for bar in bars] == x[:, 3].tolist()
    plt.errorbar(np.arange(6), d.target, yerr=d.target / 10)
    plt.boxplot(d.target)
    plt.savefig("/dev/null", format="png")


def test_seaborn_takes_fields_and_frames(plt, rng):
    import seaborn

    d = dv.View(x=rng.normal(size=9), y=rng.normal(size=9), kind=list("aabbccabc"))
    for options in (
        {"data": d._to_pandas(), "x": "x", "y": "y", "hue": "kind"},
        {"data": d._asdict(), "x": "x", "y": "y"},
        {"x": d.x, "y": d.y, "hue": d.kind},
    ):
        plt.clf()
        (points,) = seaborn.scatterplot(**options).collections
        assert_same(np.asarray(points.get_offsets()), np.stack([d.x(), d.y()], axis=1))
    with pytest.raises(TypeError, match="DataFrame or Mapping"):
        seaborn.scatterplot(data=d, x="x", y="y")


# ---------------------------------------------------------------- pandas


def test_pandas_takes_a_view(x, file):
    import pandas as pd

    for view in each_view_of(x, file):
        assert_same(pd.DataFrame(view).to_numpy().astype(float), x)
        assert_same(pd.Series(view[:, 1]).to_numpy().astype(float), x[:, 1])
        frame = pd.DataFrame({"a": np.arange(6)})
        frame["z"] = view[:, 0]
        frame.loc[:, "y"] = view[:, 1]
        assert_same(frame["z"].to_numpy().astype(float), x[:, 0])
        assert_same(frame["y"].to_numpy().astype(float), x[:, 1])
    assert_same((pd.Series(x[:, 0]) + dv.View(x[:, 1])).to_numpy(), x[:, 0] + x[:, 1])


def test_a_frame_of_a_view_shares_nothing(x):
    import pandas as pd

    view = dv.View(x)
    for frame in [pd.DataFrame(view._readonly()), view._to_pandas(), dv.View(a=x)._to_pandas()]:
        frame.iloc[0, 0] = -1
    assert x[0, 0] == 0


def test_fields_become_columns(d, r, x):
    frame = d._to_pandas()
    assert list(frame.columns) == ["input_0", "input_1", "input_2", "target"]
    assert_same(frame.to_numpy(), x)
    frame = r._to_pandas()
    assert list(frame.columns) == ["image_0", "image_1", "image_2", "image_3", "label", "name"]
    assert frame["name"].tolist() == list("abcdef")
    assert frame["label"].dtype == np.int64
    nested = dv.View(at={"x": x[:, 0], "y": x[:, 1]}, when=np.arange(6).astype("M8[D]"))
    assert list(nested._to_pandas().columns) == ["at_x", "at_y", "when"]
    assert list(r[2]._to_pandas()[["label", "name"]]) == [2, "c"]
    structured = np.array([(1, b"u"), (2, b"v")], [("a", ">i4"), ("b", "S1")])
    assert dv.View(structured)._to_pandas()["a"].tolist() == [1, 2]


def test_what_makes_no_table_is_refused(x):
    with pytest.raises(TypeError, match="two axes"):
        dv.View(x.reshape(2, 3, 4))._to_pandas()
    with pytest.raises(ValueError, match="'a_0'"):
        dv.View(a=x, a_0=x[:, 0])._to_pandas()


def test_arrays_become_frames_and_series(x):
    import pandas as pd

    assert_same(dv.View(x)._to_pandas().to_numpy(), x)
    assert isinstance(dv.View(x)[:, 0]._to_pandas(), pd.Series)
    assert dv.View(x)[0, 1]._to_pandas().tolist() == [1.0]
    assert dv.View(x.astype(">f4"))._to_pandas()[0].dtype == np.dtype("f4")


def test_a_frame_becomes_fields():
    import pandas as pd

    frame = pd.DataFrame(
        {
            "a": [1, 2, 3],
            "text": ["x", "yy", None],
            "when": pd.to_datetime(["2020-01-01", None, "2021-01-01"]),
            "maybe": pd.array([1, None, 3], "Int64"),
            "sure": pd.array([1, 2, 3], "Int32"),
            "kind": pd.Categorical(["u", "v", "u"]),
            "_id": [7, 8, 9],
        }
    )
    d = dv.View(frame)
    assert d._fields() == (*frame.columns, "text_mask", "maybe_mask")
    assert_same(d.a(), np.array([1, 2, 3]))
    assert d.text[:2]().tolist() == ["x", "yy"]
    assert d.when().dtype.kind == "M"
    assert_same(d.maybe(), np.array([1, 0, 3]))
    assert d.maybe_mask().tolist() == [True, False, True]
    assert d.text_mask().tolist() == [True, True, False]
    assert_same(d.sure(), np.array([1, 2, 3], "i4"))
    assert d.kind().tolist() == [0, 1, 0]
    assert d.kind._labels()().tolist() == ["u", "v"]
    assert_same(d["_id"](), np.array([7, 8, 9]))
    assert len(d[d.a > 1]) == 2
    assert_same(dv.View(x=frame["a"]).x(), np.array([1, 2, 3]))
    assert_same(dv.View(frame["a"])(), np.array([1, 2, 3]))


def test_the_index_of_a_frame_is_a_field_unless_it_only_counts():
    import pandas as pd

    numbers = {"a": [1.0, 2.0]}
    assert dv.View(pd.DataFrame(numbers))._fields() == ("a",)
    assert dv.View(pd.DataFrame(numbers)[::-1])._fields() == ("a",)
    assert dv.View(pd.DataFrame(numbers, index=["u", "v"]))._fields() == ("index", "a")
    named = pd.DataFrame(numbers, index=pd.Index([5, 6], name="key"))
    assert_same(dv.View(named).key(), np.array([5, 6]))
    levels = pd.MultiIndex.from_tuples([(1, "u"), (2, "v")], names=["n", "s"])
    assert dv.View(pd.DataFrame(numbers, index=levels))._fields() == ("n", "s", "a")


def test_columns_that_make_no_fields_are_refused(x):
    import pandas as pd

    assert dv.View(pd.DataFrame(x))._fields() == ("0", "1", "2", "3")
    with pytest.raises(ValueError, match="'a'"):
        dv.View(pd.DataFrame(x[:, :2], columns=["a", "a"]))
    with pytest.raises(TypeError, match=r"string.*2\.5.*columns\.map\(str\)"):
        dv.View(pd.DataFrame(x[:, :1], columns=[2.5]))
    with pytest.raises(ValueError, match="columns"):
        dv.View(pd.DataFrame())


def test_a_frame_is_never_written_without_its_knowing():
    import pandas as pd

    frame = pd.DataFrame({"a": [1, 2, 3], "text": ["x", "y", "z"]})
    d = dv.View(frame)
    for name in d._fields():
        if not np.shares_memory(d._field(name)(), frame[name].to_numpy()):
            with pytest.raises(ValueError):
                d._field(name)[0] = d._field(name)[1]()
    with pytest.raises(ValueError):
        d.text[0] = "w"


def test_a_frame_goes_there_and_back():
    import pandas as pd

    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, np.nan], "c": ["u", "v"]})
    pd.testing.assert_frame_equal(dv.View(frame)._to_pandas(), frame)


def test_codes_in_lists_are_their_labels_in_pandas():
    import pyarrow as pa

    for labels in ([*"xyz"], [10, 20, 30]):
        x, y, z = labels
        rows = [[x, y], [], None, [z, None]]
        codes = pa.dictionary(pa.int32(), pa.array(labels).type)
        found = dv.View(pa.table({"t": pa.array(rows, pa.list_(codes))}))._to_pandas()["t"]
        assert [None if row is None else [*row] for row in found] == rows
        deep = dv.ragged([[[0, 1], []], [], [[2]]])._with_meta(labels=labels)
        lists = dv.View(t=deep)._to_pandas()["t"]
        assert [[[*row] for row in rows] for rows in lists] == [[[x, y], []], [], [[z]]]
        assert lists[0][0].dtype == np.array(labels).dtype
        whole = deep._to_pandas()
        assert [[[*row] for row in rows] for rows in whole] == [[[x, y], []], [], [[z]]]


# ---------------------------------------------------------------- xarray


def test_xarray_takes_a_view(x, file):
    import xarray as xr

    for view in each_view_of(x, file):
        array = xr.DataArray(view, dims=("time", "place"))
        assert_same(array.mean("time").to_numpy().astype(float), x.mean(axis=0))
        assert_same(array.isel(time=[3, 1]).to_numpy().astype(float), x[[3, 1]])
        assert_same(array.where(array > 3, 0.0).values.astype(float), np.where(x > 3, x, 0))
        assert_same(array.T.pad(time=1).astype("f4").values[:, 1:-1], x.T.astype("f4"))
        assert np.allclose(array.rolling(time=2).mean()[1:], (x[1:] + x[:-1]) / 2)
    data = xr.Dataset({"a": (("time", "place"), dv.View(x)), "b": ("time", dv.View(x)[:, 0])})
    assert_same(data.sel(time=slice(1, 3)).b.to_numpy(), x[1:3, 0])


def test_a_labelled_array_goes_there_and_back(x):
    import xarray as xr

    array = xr.DataArray(x, dims=("time", "place"), attrs={"unit": "K"})
    view = dv.View(array)
    assert view._meta["unit"] == "K"
    xr.testing.assert_identical(view._to_xarray(), array)
    xr.testing.assert_identical(view[2:]._to_xarray(), array[2:])
    assert view[:, 0]._to_xarray().dims == ("dim_0",)
    assert view._to_xarray(dims=("u", "v")).dims == ("u", "v")
    view += 1
    assert array.values[0, 0] == 1


def test_a_dataset_goes_there_and_back(x):
    import xarray as xr

    data = xr.Dataset(
        {"a": (("time", "place"), x, {"unit": "K"}), "b": ("time", x[:, 0])},
        coords={"time": np.arange(6).astype("M8[D]"), "place": list("uvwz")},
    )
    d = dv.View(data)
    assert d._fields() == ("a", "b", "time")
    assert len(d) == 6
    assert_same(d[2].a(), x[2])
    xr.testing.assert_identical(d._to_xarray(), data.drop_vars("place"))
    assert d._to_xarray(dims=("day",)).a.dims == ("day", "place")
    back = dv.zip(a=d.a, b=d.a[:, :1])._to_xarray()
    assert (back.a.dims, back.b.dims) == (("time", "place"), ("time", "b_dim_0"))
    assert_same(back.b.to_numpy(), x[:, :1])
    with pytest.raises(ValueError, match="share 1"):
        d._to_xarray(dims=("time", "place"))


def test_a_record_is_no_mapping_of_variables(r, x):
    import xarray as xr

    with pytest.raises(TypeError, match=r"d\._to_xarray\(\)"):
        xr.Dataset(r)
    variables = xr.Dataset({name: ("time", part) for name, part in r._drop("image")._iter_fields()})
    xr.testing.assert_identical(variables, r._drop("image")._to_xarray(dims=["time"]))


@pytest.mark.parametrize("engine", ["zarr", "scipy"])
def test_a_labelled_array_in_a_file_is_read_by_parts(x, tmp_path, engine):
    import xarray as xr

    data = xr.Dataset({"a": (("time", "place"), x, {"unit": "K"}), "b": ("time", x[:, 0])})
    path = tmp_path / "data"
    if engine == "zarr":
        data.to_zarr(path, zarr_format=2)
        opened = xr.open_zarr(path, chunks=None)
    else:
        data.to_netcdf(path, engine=engine)
        opened = xr.open_dataset(path, engine=engine)
    for view in [dv.View(opened).a, dv.View(opened.a), dv.View(opened.a.variable)]:
        assert view._meta["unit"] == "K"
        assert_same(view[[4, 1], ::-2](), x[[4, 1], ::-2].astype(view._dtype()))
        assert_same((view - view._mean(axis=0))()[1:], (x - x.mean(axis=0))[1:])
        assert_same(pickle.loads(pickle.dumps(view))(), x.astype(view._dtype()))
        with pytest.raises(dv.ReadOnlyError, match="xarray"):
            view[0] = 1
    assert not opened.a.variable._in_memory
    loaded = opened.a.load()
    dv.View(loaded)[0] = 9
    assert (loaded.values[0] == 9).all()
    opened.close()


def test_a_variable_in_memory_shares_it(x):
    import xarray as xr

    dv.View(xr.Variable(("time", "place"), x))[0] = 9
    assert (x[0] == 9).all()


# ---------------------------------------------------------------- jax


def test_jax_takes_a_view(x, file):
    import jax
    import jax.numpy as jnp

    for view in each_view_of(x, file):
        assert_same(np.asarray(jnp.asarray(view)), x.astype("f4"))
        assert np.allclose(jnp.sin(view), np.sin(x), atol=1e-5)
        assert np.allclose(jnp.sum(view[2:] * 2, axis=0), x[2:].sum(axis=0) * 2)
        assert np.allclose(jax.jit(lambda one: one @ one.T)(view), x @ x.T)
        assert np.allclose(jax.grad(lambda one: (one**2).sum())(view), 2 * x)
        assert np.allclose(jax.vmap(jnp.sum)(view), x.sum(axis=1))
        assert_same(np.asarray(jnp.ones((6, 4)) + view), (x + 1).astype("f4"))


def test_a_record_is_a_dict_of_jax_arrays(x):
    import jax

    batch = dv.View(input=x, target=x[:, 0])[1:3]

    @jax.jit
    def loss(arrays):
        return ((arrays["input"].sum(axis=1) - arrays["target"]) ** 2).sum()

    expected = ((x[1:3].sum(axis=1) - x[1:3, 0]) ** 2).sum()
    assert np.isclose(loss(batch), expected)
    assert {name: part.shape for name, part in jax.device_put(batch).items()} == {
        "input": (2, 4),
        "target": (2,),
    }


def test_what_jax_was_given_does_not_see_later_writes(x):
    import jax.numpy as jnp

    view = dv.View(x.astype("f4"))
    given = jnp.asarray(view)
    view[:] = -1
    assert_same(np.asarray(given), x.astype("f4"))


def test_a_view_is_made_of_a_jax_array(x):
    import jax.numpy as jnp

    view = dv.View(jnp.asarray(x, dtype="f4"))
    assert_same((view + 1)[2](), x.astype("f4")[2] + 1)
    with pytest.raises(ValueError):
        view[0] = 1


def test_jax_has_no_texts(r):
    import jax.numpy as jnp

    with pytest.raises(TypeError, match="number them"):
        jnp.asarray(r.name)


# ---------------------------------------------------------------- torch


def test_dtypes_of_torch_are_refused_with_the_remedy():
    import torch

    with pytest.raises(TypeError, match=r"no dtype torch\.float32; did you mean 'float32'\?"):
        dv.View([1.5])._astype(torch.float32)


def test_functions_of_torch_that_ask_a_view_for_its_size_are_told_to_take_a_tensor():
    import torch

    d = dv.View(x=np.ones((3, 2)), y=np.arange(3.0))
    ones = torch.ones(3, dtype=torch.float64)
    loss = torch.nn.functional.mse_loss
    for call in (
        lambda: loss(ones, d.y),
        lambda: loss(d.y, ones),
        lambda: torch.nn.BatchNorm1d(2)(d.x),
        lambda: torch.utils.data.TensorDataset(d.x, d.y),
    ):
        with pytest.raises(AttributeError, match=r"torch takes tensors: d\._to_torch\(\) is one"):
            call()
    assert loss(ones, d.y._to_torch()).item() == np.mean((d.y() - 1) ** 2)
    with pytest.raises(AttributeError, match=r"did you mean \._size\(\)\?"):
        _ = d.y.size


def test_torch_takes_a_view(x, file):
    import torch

    for view in each_view_of(x, file):
        for take in [torch.as_tensor, torch.tensor, torch.from_dlpack, dv.View._to_torch]:
            assert torch.equal(take(view), torch.tensor(x))
            assert torch.equal(take(view[::-1, 1:]), torch.tensor(x[::-1, 1:].copy()))
    assert torch.nn.functional.mse_loss(torch.tensor(x), torch.as_tensor(dv.View(x))) == 0


@pytest.mark.parametrize("device", ["cuda:99", "nonsense", "f4"])
def test_a_device_that_torch_has_not_is_told(device):
    import torch

    d = dv.View(x=[1.0, 2.0], words=[[1, 2], [3]])
    for view in (d, d.x, d.words):
        with pytest.raises(RuntimeError, match=f"device='{device}' takes no data: .*'cpu'.*out"):
            view._to_torch(device)
    assert torch.equal(d.x._to_torch("cpu"), torch.tensor(d.x()))
    assert d.x._to_torch(torch.device("meta")).shape == (2,)


@pytest.mark.parametrize("how", ["chunks of HDF5", "zarr", "kept samples", "big ends first"])
def test_torch_takes_what_is_read_backwards(how, tmp_path):
    import torch

    image = np.random.default_rng(0).random((6, 4, 4, 3))
    d = dv.View(image=image.astype(">f8") if how == "big ends first" else image)
    if how == "kept samples":
        d = d._map(lambda row: {"image": row.image()})._probe()._cached()
    elif how != "big ends first":
        path = tmp_path / {"zarr": "d.zarr", "chunks of HDF5": "d.h5"}[how]
        d._save(path)
        d = dv.open(path)
    turned, wanted = d.image[..., ::-1], torch.tensor(image[..., ::-1].copy())
    for take in [torch.as_tensor, torch.tensor, torch.from_dlpack, dv.View._to_torch]:
        if how != "big ends first" or take is dv.View._to_torch:
            assert torch.equal(take(turned), wanted)
            assert torch.equal(take(turned[1]), wanted[1])
    for workers in (0, 2):
        batch = next(dv.View(x=turned)._loader(2, workers=workers, device="torch:cpu"))
        assert torch.equal(batch["x"], wanted[:2])

    def collate(samples):
        return {"x": np.stack([sample["image"] for sample in samples])[..., ::-1]}

    batch = next(d._loader(2, collate=collate, device="torch:cpu"))
    assert torch.equal(batch["x"], wanted[:2])


def test_tensors_of_a_column_with_gaps_tell_that_they_have_none():
    import jax.numpy
    import pyarrow as pa

    d = dv.View(pa.table({"age": [30, None, 50], "x": [1.5, None, 2.5]}))
    for take in [dv.View._to_torch, jax.numpy.asarray]:
        with pytest.warns(RuntimeWarning, match="knows no gaps: .*_dropna.*_fillna"):
            take(d.age + 0)
        take(d.x)  # whose NaN tells of itself
        take(d.age._fillna(7))
    assert set(d._to_torch()) == {"age", "x", "age_mask", "x_mask"}


def test_tensors_share_memory_that_can_be_written_and_no_other(x, file):
    import torch

    before = x.copy()
    for view in each_view_of(x, file)[1:]:
        for take in [torch.as_tensor, torch.from_dlpack, dv.View._to_torch]:
            view = view._readonly()
            take(view)[:] = -1
            assert_same(np.asarray(view).astype(float), before)
    for take in [torch.as_tensor, torch.from_dlpack, dv.View._to_torch]:
        take(file)[:] = -1
        assert_same(file(), before)
    dv.View(x)._to_torch(copy=True)[:] = -1
    assert_same(x, before)
    for number, take in enumerate([torch.as_tensor, torch.from_dlpack, dv.View._to_torch]):
        take(dv.View(x)[2:])[0, 0] = -number
        assert x[2, 0] == -number
    with pytest.raises(BufferError):
        file._to_torch(copy=False)


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_tensors_are_keys_as_in_numpy(x, r, library):
    made = getattr(importlib.import_module(library), {"torch": "tensor"}.get(library, "array"))
    for rows in ([0, 2], [2], 1, [[0, 1], [4, 5]], [True, False] * 3):
        assert_same(dv.View(x)[made(rows)](), x[made(rows)])
    assert r[made([4, 1])].label().tolist() == [4, 1]


@pytest.mark.parametrize("code", "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16 >i2 >f4".split())
def test_every_number_that_torch_has(code):
    import torch

    array = np.arange(6).reshape(3, 2).astype(code)
    tensor = dv.View(array)._to_torch()
    native = array.astype(array.dtype.newbyteorder("="))
    assert_same(tensor.numpy(), native)
    assert_same(dv.View(array)[0, 1]._to_torch().numpy(), native[0, 1])
    assert_same(dv.View(torch.from_numpy(native))(), native)


@pytest.mark.parametrize(
    ("data", "advice"),
    [
        (["a", "b"], "number them"),
        ([b"a"], "number them"),
        (np.array(["2020"], "M8[s]"), "subtract"),
        (np.array([1], "m8[s]"), "divide"),
        ([None, 1], "numbers of them"),
        (np.zeros(2, np.longdouble), "float64"),
    ],
)
def test_what_torch_has_not_is_refused_with_advice(data, advice):
    with pytest.raises(TypeError, match=advice):
        dv.View(data)._to_torch()


def test_a_record_becomes_a_dict_of_tensors(x):
    import torch

    d = dv.View(input=x, at={"row": np.arange(6)})
    tensors = d[1:3]._to_torch()
    assert torch.equal(tensors["input"], torch.tensor(x[1:3]))
    assert torch.equal(tensors["at"]["row"], torch.tensor([1, 2]))
    assert d[0]._to_torch(device="cpu")["at"]["row"] == 0
    assert d._to_torch(device="meta")["input"].shape == (6, 4)


def test_a_view_of_a_tensor_shares_its_memory():
    import torch

    tensor = torch.arange(6.0).reshape(3, 2)
    view = dv.View(tensor, a=0)
    view.a -= 10
    assert tensor[:, 0].tolist() == [-10, -8, -6]
    weights = torch.nn.Parameter(torch.ones(3))
    with torch.no_grad():
        dv.View(weights)[1] = 5
    assert weights[1] == 5
    assert_same((dv.View(tensor) * tensor)(), tensor.numpy() ** 2)
    assert_same((tensor * dv.View(tensor))(), tensor.numpy() ** 2)
    conjugate = torch.tensor([1 + 2j]).conj()
    assert_same(dv.View(conjugate)(), np.array([1 - 2j], "c8"))


def test_tensors_that_no_array_can_share_are_refused():
    import torch

    for tensor in [
        torch.ones(2, dtype=torch.bfloat16),
        torch.ones(2, 2).to_sparse(),
        torch.ones(2, device="meta"),
    ]:
        with pytest.raises(TypeError, match="no array shares"):
            dv.View(tensor)


MIXED = {
    "before": lambda v, t: v + t,
    "behind": lambda v, t: t - v,
    "a power": lambda v, t: v**t,
    "compared": lambda v, t: v < t,
    "equal": lambda v, t: v == t,
    "a product": lambda v, t: v @ t,
    "a product behind": lambda v, t: t @ v,
    "a ufunc": lambda v, t: np.maximum(v, t),
    "a ufunc behind": lambda v, t: np.hypot(t, v),
    "a ufunc with options": lambda v, t: np.add(v, t, dtype="f8"),
    "a reduced ufunc": lambda v, t: np.add.reduce(v, where=t),
    "where": lambda v, t: np.where(v > 1, v, t),
    "clip": lambda v, t: np.clip(v, 0, t),
    "joined": lambda v, t: np.concatenate([v, t]),
    "concat": lambda v, t: dv.concat(v, t),
    "a function that is not lazy": lambda v, t: np.cross(v, t),
    "a function of a list": lambda v, t: np.select([v > 1], [t]),
    "in place": lambda v, t: operator.iadd(v, t),
    "at places": lambda v, t: np.add.at(v, [0, 1, 2], t),
    "copied": lambda v, t: np.copyto(v, t),
    "an output": lambda v, t: np.sin(v, out=t),
    "a slice": lambda v, t: v.__setitem__(slice(None), t),
    "written": lambda v, t: v._write(t),
    "a field": lambda v, t: dv.View(x=v).__setattr__("x", t),
    "a new field": lambda v, t: v._set_field("y", t),
    "a view": lambda v, t: dv.View(t),
    "a record": lambda v, t: dv.View(a=t),
    "zipped": lambda v, t: dv.zip(v, t),
    "bound": lambda v, t: (dv.symbol("s", shape=(3,)) + 1)._bind(s=t),
    "mapped": lambda v, t: v._map(lambda row: t.sum() * row(), shape=(), dtype=float)(),
}
"""Each way by which a view and a tensor meet."""


@pytest.mark.parametrize("meet", MIXED.values(), ids=MIXED)
def test_a_gradient_is_never_lost(meet):
    import torch

    a = np.array([1.0, 2, 3])
    weights = torch.ones(3, dtype=torch.float64, requires_grad=True)
    for tensor in (weights, weights * 2, torch.nn.Parameter(weights.detach())):
        with pytest.raises(RuntimeError, match=r"view\._to_torch\(\).*detach\(\)"):
            meet(dv.View(a), tensor)
    assert a.tolist() == [1, 2, 3] and weights.tolist() == [1, 1, 1]


def test_a_view_meets_a_tensor_where_no_gradient_is_asked_for():
    import torch

    v, weights = dv.View(np.array([1.0, 2, 3])), torch.ones(3, requires_grad=True)
    assert (v + weights.detach())().tolist() == [2, 3, 4]
    with torch.no_grad():
        assert (v * weights)().tolist() == (weights * v)().tolist() == [1, 2, 3]
        v += weights
        v[:2] = weights[:2]
    with torch.inference_mode():
        assert np.maximum(v, weights)().tolist() == [1, 1, 4]
    (v._to_torch() * weights).sum().backward()
    assert weights.grad.tolist() == [1, 1, 4]


@pytest.mark.parametrize("name", [name for name in MIXED if "behind" not in name])
def test_nothing_that_jax_traces_is_lost(name):
    import jax

    a = np.array([1.0, 2, 3], "f4")

    def met(traced):
        MIXED[name](dv.View(a), traced)
        return traced.sum()

    for transformed in (jax.jit(met), jax.grad(met)):
        with pytest.raises(RuntimeError, match=r"jnp\.asarray\(view\)"):
            transformed(np.ones(3, "f4"))
    assert a.tolist() == [1, 2, 3]


def test_views_are_traced_by_jax_itself():
    import jax
    import jax.numpy as jnp

    v, ones = dv.View(np.array([1.0, 2, 3], "f4")), np.ones(3, "f4")
    for product in (lambda x: x * v, lambda x: jnp.asarray(v) * x, lambda x: jnp.multiply(v, x)):
        assert jax.grad(lambda x, f=product: f(x).sum())(ones).tolist() == [1, 2, 3]
        assert jax.jit(product)(ones).tolist() == [1, 2, 3]


def batches_of(view, **options):
    from torch.utils.data import DataLoader

    return list(DataLoader(view, batch_size=4, **options))


@pytest.mark.parametrize("workers", [0, 2])
def test_torchs_loader_takes_a_view(x, file, workers):
    import torch

    options = {"num_workers": workers}
    if workers:
        options["multiprocessing_context"] = "spawn"
    for view in [dv.View(x), file, (dv.View(x) * 2)._readonly()]:
        found = batches_of(view, **options)
        assert [len(batch) for batch in found] == [4, 2]
        assert torch.equal(torch.cat(found), torch.tensor(np.asarray(view)))


def test_torchs_loader_takes_a_record(r, x):
    import torch

    first, last = batches_of(r)
    assert torch.equal(first["image"], torch.tensor(x[:4]))
    assert last["label"].tolist() == [4, 5]
    assert last["name"] == ["e", "f"]
    generator = torch.Generator().manual_seed(0)
    shuffled = batches_of(r, shuffle=True, generator=generator)
    assert sorted(torch.cat([batch["label"] for batch in shuffled]).tolist()) == list(range(6))


LOADER = """
import numpy as np, torch, dataview as dv
from torch.utils.data import DataLoader
x = np.arange(2_000_000.0).reshape(-1, 4)
d = dv.View(input=x, target=dv.View(x)[:, 0] * 2)
(d.input + 1)()  # starts the pool of threads, which no child has
loader = DataLoader(d, batch_size=100_000, num_workers=2)
found = torch.cat([batch["target"] for batch in loader])
assert torch.equal(found, torch.tensor(x[:, 0] * 2))
"""


def test_torchs_workers_start_in_their_usual_way():
    printed("-W", "error", "-c", LOADER, timeout=120)


# ---------------------------------------------------------------- scikit-learn


@pytest.fixture
def cases(rng):
    inputs = rng.normal(size=(60, 3))
    return dv.View(input=inputs, target=(inputs[:, 0] > 0).astype(int))


def test_estimators_fit_and_predict(cases):
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    inputs, targets = cases.input(), cases.target()
    model = make_pipeline(StandardScaler(), LogisticRegression())
    expected = model.fit(inputs, targets).predict(inputs)
    assert_same(model.fit(cases.input, cases.target).predict(cases.input), expected)
    assert model.score(cases.input[:20], cases.target[:20]) > 0.8
    scaled = StandardScaler().fit_transform(cases.input)
    assert np.allclose(scaled, (inputs - inputs.mean(axis=0)) / inputs.std(axis=0))
    line = LinearRegression().fit(cases.input, cases.input[:, 0] * 2)
    assert np.allclose(line.coef_, [2, 0, 0])


def test_a_model_is_trained_by_batches(cases):
    from sklearn.linear_model import SGDClassifier

    model = SGDClassifier(random_state=0)
    for start in range(0, 60, 20):
        batch = cases._shuffled(0)[start : start + 20]
        model.partial_fit(batch.input, batch.target, classes=[0, 1])
    assert model.score(cases.input, cases.target) > 0.7


def test_models_are_validated(cases):
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_score

    inputs, targets = cases.input(), cases.target()
    model = LogisticRegression()
    for cv in [3, KFold(4, shuffle=True, random_state=0), StratifiedKFold(3)]:
        expected = cross_val_score(model, inputs, targets, cv=cv)
        assert_same(cross_val_score(model, cases.input, cases.target, cv=cv), expected)
    train, test = next(KFold(3).split(cases.input))
    assert_same(cases.input[test](), inputs[test])
    assert len(cases[train]) == 40
    search = GridSearchCV(model, {"C": [0.1, 1.0]}, cv=2).fit(cases.input, cases.target)
    assert set(search.best_params_) == {"C"}
    parallel = cross_val_score(model, cases.input, cases.target, cv=3, n_jobs=2)
    assert_same(parallel, cross_val_score(model, inputs, targets, cv=3))


def test_views_are_split(cases):
    from sklearn.model_selection import train_test_split

    expected = train_test_split(cases.input(), cases.target(), random_state=0)
    parts = train_test_split(cases.input, cases.target, random_state=0)
    for part, model in zip(parts, expected, strict=True):
        assert_same(np.asarray(part), model)
    labels = cases.target
    train, test = train_test_split(cases, random_state=0, stratify=labels, test_size=20)
    assert (len(train), len(test)) == (40, 20)
    assert set(test._fields()) == {"input", "target"}


def test_columns_are_chosen_by_number_by_name_and_as_fields(cases):
    import polars as pl
    import pyarrow as pa
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import KFold, cross_val_score
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    inputs = cases.input()
    expected = StandardScaler().fit_transform(inputs[:, :2])
    for columns in ([0, 1], slice(0, 2), np.array([True, True, False])):
        chosen = ColumnTransformer([("scaled", StandardScaler(), columns)])
        assert np.allclose(chosen.fit_transform(cases.input), expected)
    table = dv.View(a=inputs[:, 0], b=inputs[:, 1], c=inputs[:, 2])
    by_name = ColumnTransformer([("scaled", StandardScaler(), ["a", "b"])])
    with pytest.raises(IndexError, match=r"d\._to_pandas\(\)"):
        by_name.fit_transform(table)
    for frame in (table._to_pandas(), pl.DataFrame(table), pa.table(table)):
        chosen = ColumnTransformer([("scaled", StandardScaler(), ["a", "b"])])
        assert np.allclose(chosen.fit_transform(frame), expected)

    scaled = make_pipeline(
        FunctionTransformer(operator.attrgetter("input")), FunctionTransformer(np.log1p)
    )
    fields = make_union(scaled, FunctionTransformer(operator.attrgetter("other")))
    d = dv.View(input=inputs**2, other=inputs, target=cases.target)
    assert np.allclose(fields.fit_transform(d), np.hstack([np.log1p(inputs**2), inputs]))
    scores = cross_val_score(make_pipeline(fields, LogisticRegression()), d, d.target, cv=KFold(3))
    assert scores.mean() > 0.8


def test_a_record_is_no_array_of_an_estimator(cases):
    from sklearn.preprocessing import StandardScaler

    with pytest.raises(TypeError, match="choose a field: 'a', 'b'"):
        StandardScaler().fit(dv.View(a=cases.input[:, 0], b=cases.input[:, 1]))


def test_metrics_take_views(cases):
    from sklearn.metrics import accuracy_score, confusion_matrix, mean_squared_error
    from sklearn.neighbors import KNeighborsClassifier

    assert accuracy_score(cases.target, cases.target) == 1
    assert confusion_matrix(cases.target, cases.target).sum() == 60
    assert mean_squared_error(cases.input, cases.input * 1) == 0
    near = KNeighborsClassifier(1).fit(cases.input, cases.target)
    assert_same(near.predict(cases.input), cases.target())


# ---------------------------------------------------------------- dask


def test_dask_takes_a_view(x, file):
    import dask.array as da

    for view in each_view_of(x, file):
        array = da.from_array(view, chunks=(2, 4))
        assert_same(np.asarray(array).astype(float), x)
        assert_same(np.asarray(array.sum(axis=0)).astype(float), x.sum(axis=0))
        assert_same(np.asarray((array + 1)[::-1, 1]).astype(float), (x + 1)[::-1, 1])
        assert_same(np.asarray(da.matmul(array, array.T)).astype(float), x @ x.T)


def test_dask_arrays_of_a_view_have_blocks_of_numpy(x, file):
    import dask.array as da

    for view in each_view_of(x, file):
        array = view._to_dask(chunks=(2, 4))
        for found, expected in [
            (array.mean(axis=0), x.mean(axis=0)),
            (array.std(), x.std()),
            (array[2:4], x[2:4]),
            (array.astype("f4"), x.astype("f4")),
            (array.reshape(-1), x.reshape(-1)),
            (array.rechunk((3, 2)).map_blocks(np.sqrt), np.sqrt(x)),
            (da.linalg.svd(array)[1], np.linalg.svd(x)[1]),
        ]:
            got = found.compute()
            assert isinstance(got, np.ndarray | np.generic)
            assert np.allclose(got, expected)


def test_a_dask_array_reads_when_it_is_computed(x, file):
    import dask

    rows = Counting(lambda number: x[number])
    part = (rows.probed(6)._to_dask(chunks=(2, 4)) * 2)[2:4]
    assert rows.asked == []
    assert_same(part.compute(scheduler="synchronous"), x[2:4] * 2)
    assert rows.asked == [2, 3]
    for view in each_view_of(x, file):
        array = view._to_dask()
        assert (array.shape, array.dtype) == (view._shape(), view._dtype())
        assert_same(np.asarray(array).astype(float), x)
    later = dv.View(x)
    array = later._to_dask()
    later[0] = 9
    assert_same(array[0].compute(), x[0])
    parts = dv.View(a=x, b=x[:, 0])._to_dask(chunks=3)
    both = dask.compute(parts)[0]
    assert_same(both["b"], x[:, 0])
    objects = dv.View(np.array(["a", None, 3], object))._to_dask()
    assert objects.compute().tolist() == ["a", None, 3]


def test_dask_arrays_of_a_file_are_small_when_pickled(file, x):
    import cloudpickle

    text = cloudpickle.dumps(file._to_dask(chunks=(2, 4)))
    assert len(text) < 10_000
    assert_same(np.asarray(pickle.loads(text)), x)


def test_blocks_are_read_by_a_cluster(file, x):
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        assert_same((file._to_dask(chunks=(2, 4)) + 1).sum(axis=0).compute(), (x + 1).sum(axis=0))


def test_a_view_of_a_dask_array_is_lazy(x):
    import dask.array as da

    counted = []

    def block(block_info=None):
        counted.append(1)
        start, stop = block_info[None]["array-location"][0]
        return x[start:stop]

    array = da.map_blocks(block, chunks=((2, 2, 2), (4,)), dtype=float, meta=np.empty((0, 0)))
    view = dv.View(array, a=0)
    part = view[4:].a * 2
    assert counted == []
    assert_same(part(), x[4:, 0] * 2)
    assert counted == [1]
    assert_same(view._mean(axis=0)(), x.mean(axis=0))
    assert_same(view[[5, 0, 5], ::-1](), x[[5, 0, 5], ::-1])
    kept = pickle.dumps(dv.View(da.from_array(x, chunks=2))[1:])
    assert_same(pickle.loads(kept)(), x[1:])
    with pytest.raises(ValueError, match="dask"):
        view[0] = 1
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        dv.View(array[array[:, 0] > 3])


def test_labelled_arrays_of_dask_stay_lazy(x):
    import dask.array as da
    import xarray as xr

    view = dv.View(xr.DataArray(da.from_array(x, chunks=2), dims=("time", "place")))
    assert "dask" in repr(view)
    assert_same(view[1:3](), x[1:3])


# ---------------------------------------------------------------- arrays of other libraries


def test_what_is_memory_is_lent_and_not_asked_slice_by_slice(x):
    import jax.numpy as jnp
    import pandas as pd
    import torch

    tensor = torch.from_numpy(x)
    dv.View(tensor)[0] = 9
    assert (x[0] == 9).all()
    days = pd.Series(np.arange(3).astype("M8[ns]")).array
    for data in [tensor, jnp.asarray(x), days, pd.array([1, 2])]:
        assert "memory" in repr(dv.View(data))


# ---------------------------------------------------------------- Arrow and polars


def test_arrow_takes_a_view(r, d, x, file):
    import pyarrow as pa

    table = pa.table(r)
    assert table.column_names == ["image", "label", "name"]
    assert table["image"].to_pylist() == x.tolist()
    assert table["name"].to_pylist() == list("abcdef")
    assert pa.table(d).column_names == ["input", "target"]
    assert pa.array(d.target).to_pylist() == x[:, 3].tolist()
    assert pa.chunked_array(d.target).to_pylist() == x[:, 3].tolist()
    assert pa.array(d.input).to_pylist() == x[:, :3].tolist()
    for view in each_view_of(x, file):
        table = pa.table(view)
        assert table.column_names == ["0", "1", "2", "3"]
        assert table["2"].to_pylist() == x[:, 2].tolist()
    nested = dv.View(at={"x": x[:, 0], "y": x}, when=np.arange(6).astype("M8[s]"))
    assert pa.table(nested)["at"][1].as_py() == {"x": 4.0, "y": [4.0, 5.0, 6.0, 7.0]}


def test_all_rows_are_one_batch_of_arrow(r, d, x, file):
    import polars as pl
    import pyarrow as pa

    ragged = dv.View(words=dv.ragged([[1], [2, 3]]), kind=[1, -1], _meta={"kind": {"labels": "ab"}})
    nested = dv.View(at={"x": x[:, 0], "y": x}, when=np.arange(6).astype("M8[s]"))
    big = dv.View(a=np.zeros((3, 1 << 21)), b=np.arange(3))  # a table of several batches
    for view in [r, d, ragged, nested, r[:0], *each_view_of(x, file), big]:
        table = pa.table(view)
        assert pa.table(pa.record_batch(view)) == table
        assert pl.DataFrame(view).equals(pl.DataFrame(table))
    schema = pa.schema({"0": pa.float32(), "1": pa.float64(), "2": pa.int64(), "3": pa.string()})
    assert pa.record_batch(dv.View(x), schema=schema).schema == schema
    assert pl.Series(d.target).to_list() == x[:, 3].tolist()
    with pytest.raises(TypeError, match=r"take view\[i:i\+1\]"):
        pa.record_batch(r[0])


@examples(30)
@given(codes=st.lists(st.integers(-1, 2), min_size=1))
def test_codes_with_labels_are_a_dictionary_in_arrow(codes):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    labels = ["b", "a", ""]
    meta = {"kind": {"labels": labels}, "grade": {"labels": [0.5, 1.5, 2.5]}}
    n, own = np.arange(len(codes)), np.array(codes, "i1")
    d = dv.View(n=n, kind=own, grade=own, _meta=meta)
    texts = np.array([*labels, None], object)[codes].tolist()
    grades = np.array([0.5, 1.5, 2.5, None], object)[codes].tolist()
    for view in (d, dv.View(at=d).at, d._set_field("o", np.array(["x"] * len(n), object)) or d):
        table = pa.table(view)
        assert table["kind"].to_pylist() == texts
        assert pa.types.is_dictionary(table["kind"].type)
        assert table["grade"].to_pylist() == grades
        assert pl.DataFrame(view)["kind"].to_list() == texts
        frame = table.to_pandas()["kind"]
        pd.testing.assert_series_equal(frame, view._to_pandas()["kind"])
        for label in labels:  # pandas and views tell the same of a category
            assert (view.kind == label)().tolist() == (frame == label).tolist()
            assert (view.kind != label)().tolist() == (frame != label).tolist()
    assert pa.array(d.kind).to_pylist() == codes


@pytest.mark.parametrize("labels", [["a", "a"], [1.5, np.nan], ["a", None]], ids=str)
def test_labels_that_are_no_categories_are_one_by_one_in_pandas(labels):
    d = dv.View(k=dv.View(np.array([1, 0, -1]))._with_meta(labels=labels))
    found = d._to_pandas().k
    gone = labels[1] in (None, np.nan)
    assert found.dropna().tolist() == (labels[:1] if gone else labels)
    assert found.isna().tolist() == [gone, False, True]


CATEGORIES = [
    [10, 20, 10, None],
    [0.5, 1.5, None, 0.5],
    [True, False, None],
    [datetime.date(2020, 1, 2), datetime.date(2020, 1, 1), None],
    [datetime.datetime(2020, 1, 2, 3), None, datetime.datetime(2020, 1, 1)],
    [Decimal("1.50"), None, Decimal("2.25")],
    [b"v", b"u", None],
    [None, None],
]


@pytest.mark.parametrize("values", CATEGORIES, ids=str)
def test_categories_of_any_kind_are_their_values_in_arrow(values, tmp_path):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    frame = pd.DataFrame({"c": pd.Categorical(values)})
    frame.to_feather(tmp_path / "c.feather")
    for d in (dv.View(frame), dv.open(tmp_path / "c.feather"), dv.View(pa.table(dv.View(frame)))):
        table = pa.table(d)
        assert table["c"].to_pylist() == values
        assert pa.types.is_dictionary(table["c"].type)
        assert pl.DataFrame(d)["c"].to_list() == values
        assert pa.table(d[::-1])["c"].to_pylist() == values[::-1]


def test_codes_in_arrow_are_of_labels_that_repeat_and_have_gaps():
    import pyarrow as pa

    codes = dv.View(np.array([2, 0, 1], "u1"))._with_meta(labels=[5, 7, 5])
    mask = dv.View(np.array([True, False, True]))._with_meta(mask_of="k")
    assert pa.table(dv.View(k=codes))["k"].to_pylist() == [5, 5, 7]
    assert pa.table(dv.View(k=codes, k_mask=mask))["k"].to_pylist() == [5, None, 7]
    rows = dv.ragged([[0, 1], [], [1]])._with_meta(labels=[0.5, 1.5])
    assert pa.table(dv.View(k=rows))["k"].to_pylist() == [[0.5, 1.5], [], [1.5]]
    pairs = dv.View(np.array([[0, 1], [1, -1]]))._with_meta(labels=[0.5, 1.5])
    assert pa.table(dv.View(k=pairs))["k"].to_pylist() == [[0.5, 1.5], [1.5, None]]
    mixed = dv.View(k=codes._with_meta(labels=["a", 1, None]))
    with pytest.raises(TypeError, match=r"'k' holds codes.*_with_meta\(labels=None\)"):
        pa.table(mixed)
    assert pa.table(dv.View(k=mixed.k._with_meta(labels=None)))["k"].to_pylist() == [2, 0, 1]


@pytest.mark.parametrize(
    "values",
    [
        ["a", b"b"],
        [datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 5)],
        [datetime.datetime(2020, 1, 1, 5), datetime.date(2020, 1, 1)],
        [True, 2],
        [1, "a"],
    ],
)
def test_objects_and_labels_of_several_kinds_are_refused_by_arrow(values, tmp_path):
    import pyarrow as pa

    objects = dv.View(x=np.array(values, object))
    with pytest.raises(TypeError, match=r"field 'x': (it holds|Arrow has)"):
        pa.table(objects)
    coded = dv.View(x=dv.View(np.array([1, 0]))._with_meta(labels=values))
    with pytest.raises(TypeError, match=r"'x' holds codes.*_with_meta\(labels=None\)"):
        pa.table(coded)
    for name in ("a.parquet", "a.feather"):  # which keep the codes, and the labels as metadata
        coded._save(tmp_path / name)
        assert dv.open(tmp_path / name).x._labels()().tolist() == values
        assert dv.open(tmp_path / name).x().tolist() == [1, 0]
    for name in ("a.csv", "a.jsonl"):
        with pytest.warns(RuntimeWarning, match="labels of the codes 'x', the metadata of 'x' are"):
            coded._save(tmp_path / name)
        assert dv.open(tmp_path / name).x().tolist() == [1, 0]


NESTED = {
    "lists of texts in lists": [[["a", "b"], ["c"]], None, [], [[None]]],
    "lists of times in arrays": [[[1, 2], [3]], [[], [4]], None],
    "arrays of days in lists": [[[5, 6]], None, [[7, 8], [9, None]]],
}
"""Rows that are arrays of arrays in frames of pandas."""


@pytest.mark.parametrize("name", NESTED)
def test_lists_of_lists_come_back_from_frames(name, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind = {
        "lists of texts in lists": pa.list_(pa.list_(pa.string())),
        "lists of times in arrays": pa.list_(pa.list_(pa.timestamp("s")), 2),
        "arrays of days in lists": pa.list_(pa.list_(pa.date32(), 2)),
    }[name]
    table = pa.table({"x": pa.array(NESTED[name], kind)})
    frame = dv.View(table)._to_pandas()
    d = dv.View(frame)
    assert d.x._isna()().tolist() == table["x"].is_null().to_pylist()
    assert pa.table(d)["x"].to_pylist() == table["x"].to_pylist()
    d._save(tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet")["x"].to_pylist() == table["x"].to_pylist()


@pytest.mark.parametrize("width", [2, None])
def test_times_with_a_zone_in_lists_are_in_utc_in_frames(width):
    import pyarrow as pa

    at = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    inner = pa.timestamp("s", "Europe/Berlin")
    kind = pa.list_(inner) if width is None else pa.list_(pa.list_(inner, width))
    rows = [[at], None] if width is None else [[[at, None]], None]
    frame = dv.View(pa.table({"x": pa.array(rows, kind)}))._to_pandas()
    found = np.ravel(frame["x"][0])
    assert found[0] == np.datetime64("2020-01-01", "s") and np.isnat(found[1:]).all()
    assert frame["x"][1] is None or len(frame["x"][1]) == 0


@pytest.mark.parametrize("unit", ["W", "D", "h", "s", "ms", "us", "ns"])
def test_labels_that_are_durations_are_kept(unit, tmp_path):
    import pyarrow as pa
    import pyarrow.feather as pf
    import pyarrow.parquet as pq

    labels = np.array([3, 1, -2], f"m8[{unit}]")
    for held in (labels, labels.astype("m8[s]").tolist() if unit in "WDhs" else list(labels)):
        d = dv.View(x=dv.View(np.array([2, -1, 0]))._with_meta(labels=held))
        expected = [labels[2], None, labels[0]]
        found = pa.table(d)["x"].combine_chunks().dictionary_decode()
        assert _durations(found) == expected
        for name, read in (("a.parquet", pq.read_table), ("a.feather", pf.read_table)):
            d._save(tmp_path / name)
            assert _durations(read(tmp_path / name)["x"].combine_chunks()) == expected
            again = dv.open(tmp_path / name).x
            assert again().tolist() == [2, -1, 0]
            assert [np.timedelta64(one) for one in again._labels()()] == list(labels)


def _durations(array):
    unit = array.type.unit
    return [np.timedelta64(one.value, unit) if one.is_valid else None for one in array]


def test_what_arrow_was_given_does_not_see_later_writes(x):
    import polars as pl
    import pyarrow as pa

    before = x.copy()
    for take in [pa.table, pl.DataFrame]:
        view = dv.View(before.copy())
        given = [take(view), take(dv.View(a=view))]
        view[:] = -1
        assert_same(np.stack([given[0][str(number)] for number in range(4)], axis=1), before)
        assert (
            np.asarray(given[1]["a"].to_pylist() if take is pa.table else given[1]["a"]).min() == 0
        )


def test_a_table_is_read_batch_by_batch():
    import pyarrow as pa

    # Two rows of so many bytes are one batch.
    rows = Counting(lambda number: {"a": np.zeros((1 << 20) - 1), "b": number})
    d = rows.probed(6)
    reader = pa.RecordBatchReader.from_stream(d)
    assert rows.asked == []
    assert reader.read_next_batch()["b"].to_pylist() == [0, 1]
    assert rows.asked == [0, 1]
    assert reader.read_all()["b"].to_pylist() == [2, 3, 4, 5]


def test_the_samples_of_a_stream_become_rows():
    import pandas as pd
    import pyarrow as pa

    samples = [{"a": number, "b": [number, 0.5]} for number in range(5)]
    stream = dv.View(lambda: iter(samples))._probe()
    expected = pd.DataFrame({"a": range(3), "b_0": [0.0, 1.0, 2.0], "b_1": 0.5})
    pd.testing.assert_frame_equal(stream[:3]._to_pandas(), expected)
    assert pa.table(stream[:3])["b"].to_pylist() == [[0.0, 0.5], [1.0, 0.5], [2.0, 0.5]]
    assert stream[:3]._to_torch()["a"].tolist() == [0, 1, 2]
    for take in [dv.View._to_pandas, pa.table, dv.View._to_torch]:
        with pytest.raises(TypeError, match="may never end"):
            take(stream)


def test_what_arrow_has_not_is_refused(x):
    import pyarrow as pa

    with pytest.raises(TypeError, match="complex128"):
        pa.table(dv.View(a=x.astype(complex)))
    with pytest.raises(TypeError, match="view"):
        pa.table(dv.View(a=x)[0])


def test_a_table_becomes_fields():
    import pyarrow as pa

    columns = {
        "a": [1, 2, 3],
        "text": ["x", None, "yy"],
        "maybe": [1, None, 3],
        "real": [0.5, None, 2.0],
        "flag": [True, None, False],
        "kind": pa.array(["u", "v", "u"]).dictionary_encode(),
        "pair": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int32(), 2)),
        "at": [{"u": 1, "v": "p"}, {"u": 2, "v": "q"}, {"u": 3, "v": "r"}],
    }
    table = pa.table(columns)
    chunked = pa.concat_tables([table[:1], table[1:]])
    for data in [table, chunked, table.to_batches()[0], table.to_reader()]:
        d = dv.View(data)
        assert {*columns, "text_mask", "maybe_mask", "flag_mask"} <= {*d._fields()}
        assert_same(d.a(), np.array([1, 2, 3]))
        assert d.text().tolist() == ["x", None, "yy"]
        assert_same(d.maybe(), np.array([1, 0, 3]))
        assert d.maybe_mask().tolist() == [True, False, True]
        assert_same(d.real(), np.array([0.5, np.nan, 2.0]))
        assert d.flag().tolist() == [True, False, False]
        assert d.kind().tolist() == [0, 1, 0] and d.kind._labels()().tolist() == ["u", "v"]
        assert_same(d.pair(), np.array([[1, 2], [3, 4], [5, 6]], "i4"))
        assert_same(d.at.u(), np.array([1, 2, 3]))
        assert d[1].at.v() == "q"
        for write in [d.a, d.text]:
            with pytest.raises(ValueError):
                write[0] = write[1]()
    assert_same(dv.View(pa.chunked_array([[1, 2], [3]]))(), np.array([1, 2, 3]))
    assert_same(dv.View(pa.array([1.5]))(), np.array([1.5]))
    for empty in [table[:0], table.schema.empty_table(), pa.chunked_array([], pa.int64())]:
        assert len(dv.View(empty)) == 0
    assert np.shares_memory(dv.View(table).a(), table["a"].chunk(0).to_numpy())


def test_polars_takes_a_view(r, x):
    import polars as pl

    frame = pl.DataFrame(r)
    assert frame.columns == ["image", "label", "name"]
    assert frame["name"].to_list() == list("abcdef")
    assert_same(frame["image"].to_numpy(), x)
    assert_same(pl.DataFrame(dv.View(x)).to_numpy(), x)
    assert pl.Series(r.label).to_list() == list(range(6))


def test_a_polars_frame_becomes_fields():
    import polars as pl

    frame = pl.DataFrame(
        {
            "a": [1, 2, 3],
            "text": ["x", None, "yy"],
            "maybe": [1, None, 3],
            "real": [0.5, None, 2.0],
            "at": [{"u": 1}, {"u": 2}, {"u": 3}],
            "pair": pl.Series([[1, 2], [3, 4], [5, 6]], dtype=pl.Array(pl.Int32, 2)),
        }
    )
    d = dv.View(frame)
    assert d._fields() == (*frame.columns, "text_mask", "maybe_mask", "real_mask")
    assert_same(d.a(), np.array([1, 2, 3]))
    assert d.text().tolist() == ["x", None, "yy"]
    assert d.maybe().tolist() == [1, 0, 3]
    assert_same(d.real(), np.array([0.5, np.nan, 2.0]))
    assert_same(d.at.u(), np.array([1, 2, 3]))
    assert_same(d.pair(), np.array([[1, 2], [3, 4], [5, 6]], "i4"))
    assert_same(dv.View(frame["a"])(), np.array([1, 2, 3]))
    with pytest.raises(ValueError):
        d.text[0] = "w"


def test_what_has_arrows_stream_alone_becomes_fields():
    import pyarrow as pa

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table({"a": [1, 2]}).__arrow_c_stream__(requested_schema)

    assert_same(dv.View(Stream()).a(), np.array([1, 2]))


def test_a_result_of_duckdb_becomes_fields_with_masks():
    import duckdb

    d = dv.View(
        duckdb.sql(
            "select * from (values (1, 'a', {'u': 1.5}, [1, 2]), (null, 'b', {'u': 2.5}, [])) "
            "as found(x, name, part, l)"
        )
    )
    assert d._fields() == ("x", "name", "part", "l", "x_mask")
    assert d.x().tolist() == [1, 0] and d.x_mask().tolist() == [True, False]
    assert d.name().tolist() == ["a", "b"] and d.part.u._sum()() == 4
    assert_rows(d.l, [[1, 2], []])


# ---------------------------------------------------------------- SciPy


def test_scipy_takes_a_view(x, file):
    import scipy.linalg
    import scipy.ndimage
    import scipy.sparse
    import scipy.special
    import scipy.stats

    for view in each_view_of(x, file):
        if view.dtype.isnative:  # SciPy's own rule
            assert_same(scipy.sparse.csr_matrix(view).toarray(), x)
            assert_same(scipy.sparse.coo_array(view[:2]).toarray(), x[:2])
        assert np.allclose(scipy.stats.zscore(view), scipy.stats.zscore(x))
        assert np.allclose(scipy.stats.describe(view).mean, x.mean(axis=0))
        assert scipy.stats.pearsonr(view[:, 0], view[:, 1]) == scipy.stats.pearsonr(
            x[:, 0], x[:, 1]
        )
        assert_same(scipy.ndimage.uniform_filter(view), scipy.ndimage.uniform_filter(x))
        assert np.allclose(scipy.linalg.svdvals(view), scipy.linalg.svdvals(x))
        assert np.allclose(scipy.special.expit(view)(), scipy.special.expit(x))
    product = scipy.sparse.eye_array(6, format="csr") @ dv.View(x)
    assert_same(np.asarray(product), x)


# ---------------------------------------------------------------- executors


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_expressions_and_statistics_run_on_any_pool(kind, rng):
    x = rng.normal(size=(300_000, 4))
    options = {"mp_context": multiprocessing.get_context("spawn")}
    d = dv.View(x)
    expression = (d - d._mean(axis=0)) / d._std(axis=0)
    with (
        kind(2, **options if kind is ProcessPoolExecutor else {}) as pool,
        dv.executor(pool),
    ):
        found, low = expression(), d._min(axis=0)()
    again = dv.View(x)
    assert_same(found, ((again - again._mean(axis=0)) / again._std(axis=0))())
    assert_same(low, x.min(axis=0))


# -------------------- rows of different lengths --------------------


def assert_rows(view, rows):
    assert [row.tolist() for row in view()] == rows


def test_arrow_lists_are_ragged_rows():
    import pyarrow as pa

    d = dv.View(words=[[1, 2], [3], []], y=[0, 1, 2])
    assert pa.array(d.words).to_pylist() == [[1, 2], [3], []]
    assert pa.chunked_array(d.words[::-1]).to_pylist() == [[], [3], [1, 2]]
    assert pa.table(d)["words"].to_pylist() == [[1, 2], [3], []]
    documents = [[[1, 2], [3]], [], [[4]]]
    assert pa.array(dv.View(documents)).to_pylist() == documents
    images = [np.ones((1, 2, 2)), np.ones((2, 1, 2))]
    assert pa.array(dv.View(images)).to_pylist() == [image.tolist() for image in images]
    for kind in (pa.list_(pa.int32()), pa.large_list(pa.int32())):
        column = pa.array([[1, 2], [3], [], [4, 5]], kind)
        view = dv.View(pa.table({"words": column[1:]})).words
        assert (view._shape(), view._dtype()) == ((3, None), np.dtype("i4"))
        assert_rows(view, [[3], [], [4, 5]])
        assert np.shares_memory(view[2](), column.values.to_numpy())
        with pytest.raises(ValueError):
            view[0] = 1
    assert_rows(dv.View(pa.array(documents))[0], [[1, 2], [3]])
    assert dv.View(pa.array([[1], None]))().tolist()[1] is None
    assert dv.View(pa.array([["a", None], ["b"]]))[0]().tolist() == ["a", None]


def test_nested_tensors_are_ragged_rows():

    d = dv.View(words=[[1, 2], [3], []], y=[0, 1, 2])
    tensor = d.words[[1, 0]]._to_torch()
    assert tensor.is_nested
    assert [row.tolist() for row in tensor.unbind()] == [[3], [1, 2]]
    view = dv.View(tensor)
    assert_rows(view, [[3], [1, 2]])
    tensor.values()[0] = 9
    assert view[0]().tolist() == [9]
    batch = next(d._loader(2, device="torch:cpu"))
    assert [row.tolist() for row in batch["words"].unbind()] == [[1, 2], [3]]
    with pytest.raises(TypeError, match="one ragged axis"):
        dv.View([np.ones((1, 2)), np.ones((2, 1))])._to_torch()


def test_a_device_without_ragged_arrays_says_what_to_do():
    with pytest.raises(TypeError, match=r"field 'words'.*jax has no arrays of rows.*pad="):
        next(dv.View(words=[[1], []])._loader(2, device="jax:cpu"))


@pytest.mark.parametrize("device", ["torch:cuda:99", "torch:cdua", "jax:gpu:99", "jax:cpu:99"])
def test_a_device_that_is_not_there_is_told_with_the_field(device):
    library = device.partition(":")[0]
    wanted = f"device='{device}' takes no data: .*, such as '{library}:cpu'"
    with pytest.raises(RuntimeError, match=f"^field 'x': {wanted}"):
        next(dv.View(x=[1.0], y=[2])._loader(1, device=device))
    with pytest.raises(RuntimeError, match=f"^{wanted}"):
        next(dv.View([1.0])._loader(1, device=device))


def test_what_a_device_has_no_room_for_is_told_with_the_field(monkeypatch):
    import torch

    own = torch.Tensor.to

    def to(tensor, device):
        if tensor.numel() > 1:
            raise torch.OutOfMemoryError("no room")
        return own(tensor, device)

    monkeypatch.setattr(torch.Tensor, "to", to)
    with pytest.raises(torch.OutOfMemoryError, match=r"^field 'x': no room"):
        next(dv.View(x=[1.0, 2.0], y=[2, 3])._loader(2, device="torch:cpu"))


def test_numbers_of_other_libraries_are_numbers_in_all_spaces():
    import jax.numpy as jnp

    bfloat16 = np.dtype(jnp.bfloat16)
    numbers = np.array([[0, 1, 2.5, 3], [4, 0, 2, 1]], bfloat16)
    vectors, images = dv.spaces.VectorSpace(4), dv.spaces.Conv2DSpace((2, 2), 1)
    narrow, d = vectors.with_dtype(bfloat16), dv.View(x=numbers)
    assert d.x._space == narrow != vectors.with_dtype("f2")
    for space in (vectors.with_dtype("f4"), narrow, images):
        expected = numbers.reshape(2, *space.row_shape).astype(space.dtype or bfloat16)
        for found in (d._get((space, "x"))(), next(d._loader(2, spec=(space, "x")))):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
    declared = dv.View(x=numbers.astype("f4"), _spaces={"x": images.with_dtype("f4")})
    assert declared.x._astype(bfloat16)._space == images.with_dtype(bfloat16)
    with pytest.raises(OverflowError, match="257 does not fit into bfloat16"):
        vectors.np_format_as(np.full((1, 4), 257), narrow, "exact")
    with pytest.raises(ValueError, match="row 0 has NaN"):
        vectors.np_format_as(numbers * np.nan, dv.spaces.IndexSpace(4), argmax=True)


@pytest.mark.parametrize("kind", ["Time", "Datetime"])
def test_times_of_polars_come_back_with_their_type(kind):
    import polars as pl

    noon = datetime.datetime(2020, 1, 2, 12, tzinfo=datetime.UTC)
    times = [noon, None, noon + datetime.timedelta(hours=1)]
    inner = pl.Datetime("us", "Asia/Tokyo")
    if kind == "Time":
        times, inner = [datetime.time(1, 2, 3), None, datetime.time(23, 59)], pl.Time
    column = pl.Series("at", times).cast(inner)
    frame = column.to_frame().with_columns(lists=pl.concat_list("at"))
    frame = frame.with_columns(pairs=pl.concat_list("at", "at").list.to_array(2))
    found = pl.DataFrame(dv.View(frame))
    assert found.to_dicts() == frame.to_dicts() and found.schema["at"] == inner
    assert found.schema["lists"].inner == found.schema["pairs"].inner == inner
